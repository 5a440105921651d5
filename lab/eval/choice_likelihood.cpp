#include "eval/choice_likelihood.h"

#include <algorithm>
#include <array>
#include <utility>

namespace lacuna {
namespace {

double characters_of(std::string_view text) {
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
  return static_cast<double>(std::max<int64_t>(1, std::count_if(text.begin(), text.end(), begins)));
}

size_t least(std::span<const double> values) {
  return static_cast<size_t>(std::min_element(values.begin(), values.end()) - values.begin());
}

}  // namespace

BoundText option_text(const EvaluatedModel& model, const std::string& prompt, const std::string& scored) {
  const auto rendered = [&](const std::string& text) {
    return render(model.chat_template, model.tokenizer, std::array{Message{"user", text}});
  };
  BoundText text{rendered(prompt), {}, 0};
  if (model.chat_template.is_none()) {
    const std::vector<TokenId> whole = rendered(prompt + " " + scored);
    // A token that crosses the boundary is scored.
    const size_t given = std::min(text.prompt.size(), whole.size() - 1);
    text.prompt.assign(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(given));
    text.scored.assign(whole.begin() + static_cast<std::ptrdiff_t>(given), whole.end());
  } else {
    text.scored = model.tokenizer.encode(scored);
  }
  text.counted = static_cast<int64_t>(text.scored.size());
  return text;
}

ChoiceLikelihoods choice_likelihoods(const EvaluatedModel& model, const ChoiceBenchmark& benchmark,
                                     const Shots& shots, std::span<const ChoiceItem> items,
                                     const BoundSettings& settings,
                                     const std::function<void(int32_t items_done)>& progress) {
  ChoiceLikelihoods result;
  for (size_t i = 0; i < items.size(); ++i) {
    const ChoiceItem& item = items[i];
    const std::string prompt = likelihood_prompt(benchmark, shots, item);
    std::vector<BoundText> texts;
    for (size_t option = 0; option < item.options.size(); ++option) {
      texts.push_back(option_text(model, prompt, scored_text(benchmark, item, option)));
    }
    BoundSettings with_seed = settings;
    with_seed.seed += i;
    const Bound scored = bound(*model.model, texts, with_seed);
    result.forward_passes += scored.forward_passes;
    result.rows += scored.rows;
    result.seconds += scored.seconds;
    ChoiceLikelihood likelihood;
    std::vector<double> per_character;
    for (size_t option = 0; option < texts.size(); ++option) {
      likelihood.nats.push_back(scored.texts[option].nats);
      per_character.push_back(likelihood.nats.back() / characters_of(scored_text(benchmark, item, option)));
    }
    likelihood.chosen = least(likelihood.nats);
    likelihood.chosen_per_character = least(per_character);
    result.items.push_back(std::move(likelihood));
    if (progress) progress(static_cast<int32_t>(i) + 1);
  }
  return result;
}

}  // namespace lacuna
