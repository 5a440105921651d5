#include "engine/stop.h"

#include <algorithm>
#include <utility>

namespace lacuna {

std::string_view first_stop(std::string_view text, const std::vector<std::string>& texts, size_t from) {
  size_t first_end = std::string_view::npos;
  size_t cut = text.size();
  for (const std::string& stop : texts) {
    if (stop.empty()) continue;
    const size_t begin = text.find(stop, from - std::min(from, stop.size() - 1));
    if (begin == std::string_view::npos) continue;
    const size_t end = begin + stop.size();
    if (end > first_end || (end == first_end && begin > cut)) continue;
    first_end = end;
    cut = begin;
  }
  return text.substr(cut, first_end - cut);
}

std::string_view before_stop(std::string_view text, const std::vector<std::string>& texts) {
  return {text.data(), first_stop(text, texts).data()};
}

StopFinder make_stop_finder(const Tokenizer& tokenizer, std::vector<std::string> texts) {
  std::erase_if(texts, [](const std::string& text) { return text.empty(); });
  if (texts.empty()) return {};
  return [&tokenizer, texts = std::move(texts)](std::span<const TokenId> answer) -> std::optional<int32_t> {
    const auto holds_stop = [&](size_t length) {
      const std::string text = tokenizer.decode(answer.first(length));
      return before_stop(text, texts).size() < text.size();
    };
    if (!holds_stop(answer.size())) return std::nullopt;
    size_t length = 1;
    while (!holds_stop(length)) ++length;
    return static_cast<int32_t>(length);
  };
}

}  // namespace lacuna
