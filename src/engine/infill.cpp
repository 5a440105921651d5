#include "engine/infill.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "constraint/hole_lengths.h"
#include "decode/edits.h"
#include "decode/setting_error.h"

namespace lacuna {
namespace {

std::optional<int32_t> parse_length(std::string_view text) {
  int32_t length = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, length);
  if (error != std::errc() || rest != end || length < 1 || length > kMaxHoleTokens) return {};
  return length;
}

/// Parses the text between [[ and ]].
std::optional<Hole> parse_hole(std::string_view text) {
  if (text == "*") return Hole{.most = kOpenHoleMost, .is_open = true};
  const size_t dash = text.find('-');
  const std::optional<int32_t> least = parse_length(text.substr(0, dash));
  const std::optional<int32_t> most =
      dash == std::string_view::npos ? least : parse_length(text.substr(dash + 1));
  if (!least || !most || *least > *most) return {};
  return Hole{*least, *most};
}

/// Replaces open holes by holes with lengths that suit the strategy.
std::vector<CanvasPart> with_lengths(const std::vector<CanvasPart>& parts, const Strategy& strategy,
                                     const ModelConfig& config) {
  std::vector<CanvasPart> known = parts;
  for (CanvasPart& part : known) {
    auto* hole = std::get_if<Hole>(&part);
    if (hole == nullptr || !hole->is_open) continue;
    *hole = changes_lengths(strategy, config) ? Hole{std::min(kOpenHoleStart, hole->most), hole->most}
                                              : Hole{1, std::min(kOpenHoleTried, hole->most)};
  }
  return known;
}

/// The shortest hole lengths, each at least the hole's present one, for which the constraint allows a text.
std::optional<std::vector<int32_t>> lengths_for(const TokenAutomaton& constraint, const InfillCanvas& canvas,
                                                const ModelConfig& config) {
  const auto prefix = static_cast<size_t>(canvas.constrained_prefix);
  const StateId state = state_after(constraint, std::span(canvas.prompt).last(prefix));
  if (state == kNoState) return std::nullopt;
  const StateSet start = only(constraint, state);
  std::vector<StretchableHole> holes;
  for (const GrowingHole& hole : canvas.holes) {
    holes.push_back({static_cast<size_t>(hole.positions.begin), static_cast<size_t>(hole.positions.end),
                     static_cast<size_t>(hole.most)});
  }
  const ConstrainedCanvas open{.tokens = canvas.answer,
                               .mask = static_cast<TokenId>(config.mask_id),
                               .start = &start,
                               .only_text = true};
  const std::optional<std::vector<size_t>> fitting = fitting_lengths(constraint, open, holes);
  if (!fitting) return std::nullopt;
  return std::vector<int32_t>(fitting->begin(), fitting->end());
}

}  // namespace

std::vector<CanvasPart> parse_marked_text(std::string_view text) {
  constexpr std::string_view kOpen = "[[";
  constexpr std::string_view kClose = "]]";
  std::vector<CanvasPart> parts;
  std::string plain;
  while (!text.empty()) {
    const size_t open = std::min(text.find(kOpen), text.size());
    plain += text.substr(0, open);
    text.remove_prefix(open);
    if (text.empty()) break;
    const size_t last_other = plain.find_last_not_of('\\');
    const size_t backslashes = plain.size() - (last_other == std::string::npos ? 0 : last_other + 1);
    plain.resize(plain.size() - (backslashes + 1) / 2);
    if (backslashes % 2 == 1) {
      plain += kOpen;
      text.remove_prefix(kOpen.size());
      continue;
    }
    const size_t close = text.find(kClose);
    const std::string_view inside = text.substr(kOpen.size(), close - std::min(close, kOpen.size()));
    const std::optional<Hole> hole = close == std::string_view::npos ? std::nullopt : parse_hole(inside);
    if (!hole) {
      throw InputError(
          "{} is not a hole; expected [[N]] or [[A-B]] with numbers of tokens from 1 to {}, [[*]], or \\[[ "
          "for a literal [[",
          in_quotes(text.substr(0, std::min<size_t>(close, 24) + kClose.size())), kMaxHoleTokens);
    }
    if (!plain.empty()) parts.emplace_back(plain);
    plain.clear();
    parts.emplace_back(*hole);
    text.remove_prefix(close + kClose.size());
  }
  if (!plain.empty()) parts.emplace_back(plain);
  return parts;
}

std::vector<std::vector<int32_t>> hole_lengths(const std::vector<CanvasPart>& parts) {
  std::vector<std::vector<int32_t>> all = {{}};
  for (const CanvasPart& part : parts) {
    const Hole* hole = std::get_if<Hole>(&part);
    if (hole == nullptr) continue;
    const auto lengths = static_cast<size_t>(hole->most - hole->least) + 1;
    if (lengths == 1) {  // in place, because a canvas may have tens of thousands of such holes
      for (std::vector<int32_t>& begun : all) begun.push_back(hole->most);
      continue;
    }
    std::vector<std::vector<int32_t>> next;
    if (all.size() * lengths > kMaxCandidates) {
      throw InputError("the holes have more than {} combinations of lengths; expected fewer or fixed ones",
                       kMaxCandidates);
    }
    for (const std::vector<int32_t>& begun : all) {
      for (int32_t length = hole->least; length <= hole->most; ++length) {
        next.push_back(begun);
        next.back().push_back(length);
      }
    }
    all = std::move(next);
  }
  return all;
}

InfillCanvas lay_out(const std::vector<CanvasPart>& parts, const std::vector<int32_t>& lengths,
                     const ModelConfig& config, const Tokenizer* tokenizer) {
  expect_infill(config);
  std::vector<TokenId> canvas;
  std::vector<GrowingHole> holes;
  const auto is_text = [](const CanvasPart& part) { return std::holds_alternative<std::string>(part); };
  const bool is_framed = config.expand_id >= 0 && std::any_of(parts.begin(), parts.end(), is_text);
  if (is_framed && config.bos_id >= 0) canvas.push_back(config.bos_id);
  const auto num_framing = static_cast<int32_t>(canvas.size());
  for (const CanvasPart& part : parts) {
    if (const Hole* hole = std::get_if<Hole>(&part)) {
      const auto begin = static_cast<int32_t>(canvas.size());
      const int32_t length = lengths[holes.size()];
      holes.push_back({{begin, begin + length}, std::max(length, hole->most)});
      canvas.insert(canvas.end(), static_cast<size_t>(length), config.mask_id);
    } else if (const TokenId* token = std::get_if<TokenId>(&part)) {
      if (*token == config.mask_id) {
        throw InputError("token {} is the mask token; a hole is null or {{\"hole\": N}}", *token);
      }
      canvas.push_back(*token);
    } else {
      if (tokenizer == nullptr) throw InputError("the model has no tokenizer; expected token ids and holes");
      const std::vector<TokenId> text =
          tokenizer->encode(std::get<std::string>(part), SpecialTokens::kAsText);
      canvas.insert(canvas.end(), text.begin(), text.end());
    }
    if (canvas.size() > static_cast<size_t>(config.max_positions)) {
      throw InputError("the canvas has more than the {} positions of the model", config.max_positions);
    }
  }
  if (is_framed && config.eos_id >= 0) canvas.push_back(config.eos_id);
  const auto first = std::find(canvas.begin(), canvas.end(), config.mask_id);
  const auto prompt_length = static_cast<int32_t>(first - canvas.begin());
  for (GrowingHole& hole : holes) {
    hole.positions.begin -= prompt_length;
    hole.positions.end -= prompt_length;
  }
  return {{canvas.begin(), first},
          {first, canvas.end()},
          static_cast<int32_t>(std::count(first, canvas.end(), config.mask_id)),
          std::move(holes),
          prompt_length - num_framing};
}

std::vector<InfillCanvas> infill_canvases(const std::vector<CanvasPart>& parts, const Strategy& strategy,
                                          const ModelConfig& config, const Tokenizer* tokenizer,
                                          const TokenAutomaton* constraint) {
  const std::vector<CanvasPart> known = with_lengths(parts, strategy, config);
  std::vector<std::vector<int32_t>> all;
  if (changes_lengths(strategy, config)) {
    std::vector<int32_t>& starts = all.emplace_back();
    for (const CanvasPart& part : known) {
      if (const Hole* hole = std::get_if<Hole>(&part)) starts.push_back(hole->least);
    }
  } else {
    all = hole_lengths(known);
  }
  std::vector<InfillCanvas> canvases;
  for (const std::vector<int32_t>& lengths : all) {
    InfillCanvas canvas = lay_out(known, lengths, config, tokenizer);
    if (!changes_lengths(strategy, config)) {
      for (GrowingHole& hole : canvas.holes) hole.most = hole.positions.size();
    }
    if (constraint != nullptr) {
      const std::optional<std::vector<int32_t>> fitting = lengths_for(*constraint, canvas, config);
      if (!fitting) continue;
      if (*fitting != lengths) canvas = lay_out(known, *fitting, config, tokenizer);
    }
    canvases.push_back(std::move(canvas));
  }
  if (canvases.empty()) {
    throw SettingError(
        {"constraint", "", "", "no way to fill the holes gives a text that the constraint allows"});
  }
  return canvases;
}

void CandidateScore::note(const StepEvent& event) {
  apply_edits(event.report.edits, std::optional<double>(), confidences_);
  for (const Commit& commit : event.report.committed) {
    const auto index = static_cast<size_t>(commit.position);
    if (index >= confidences_.size()) confidences_.resize(index + 1);
    confidences_[index] = commit.confidence;
  }
}

double CandidateScore::mean() const {
  double sum = 0;
  int32_t count = 0;
  for (const std::optional<double>& confidence : confidences_) {
    if (!confidence) continue;
    sum += *confidence > 0 ? std::log(*confidence) : *confidence;
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

}  // namespace lacuna
