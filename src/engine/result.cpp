#include "engine/result.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "engine/stop.h"
#include "tokenizer/thoughts.h"

namespace lacuna {
namespace {

/// Set of tokens, for fast look-ups in long lists.
std::unordered_set<TokenId> set_of(std::span<const TokenId> tokens) {
  return {tokens.begin(), tokens.end()};
}

/// Why an answer that begins with an end token is empty.
std::string explain_end(std::span<const TokenId> tokens, const ModelConfig& config) {
  const std::unordered_set<TokenId> ends = set_of(config.end_ids);
  const auto is_end = [&](TokenId token) { return ends.contains(token); };
  const auto num_ends = std::ranges::count_if(tokens, is_end);
  const auto size = static_cast<int64_t>(tokens.size());
  const std::string what = num_ends == size && size > 1 ? fmt::format("all {} tokens are end tokens", size)
                                                        : "its first token is an end token";
  std::string advice = "another prompt";
  const Paradigm paradigm = config.paradigm();
  if (paradigm == Paradigm::kUniform) {
    advice = "--min-length 16 or another prompt";
  } else if (paradigm == Paradigm::kMasked) {
    advice = size > 16 ? fmt::format("a shorter --gen-length, such as {}, or --block-length 8", size / 16 * 8)
                       : "another --gen-length or another prompt";
  } else if (paradigm != Paradigm::kSlots) {
    advice = "--ignore-eos or another prompt";
  }
  return fmt::format("{}; try {}", what, advice);
}

/// 1,234,567
std::string with_separators(int64_t count) {
  std::string digits = std::to_string(count);
  for (auto place = static_cast<int64_t>(digits.size()) - 3; place > 0; place -= 3) {
    digits.insert(static_cast<size_t>(place), ",");
  }
  return digits;
}

double rate(double count, double seconds) {
  return seconds > 0 ? count / seconds : 0;
}

}  // namespace

std::string_view name_of(StopReason reason) {
  switch (reason) {
    case StopReason::kLength:
      return "length";
    case StopReason::kEndToken:
      return "eos";
    case StopReason::kStopText:
      return "stop";
  }
  return "";
}

double GenerationResult::tokens_per_second() const {
  return rate(answer_tokens, statistics.seconds);
}

double GenerationResult::tokens_per_forward() const {
  return rate(answer_tokens, statistics.forward_passes);
}

double GenerationResult::canvas_tokens_per_second() const {
  return rate(static_cast<double>(tokens.size()), statistics.seconds);
}

std::span<const TokenId> answer_part(std::span<const TokenId> generated, std::span<const TokenId> end_ids) {
  const std::unordered_set<TokenId> ends = set_of(end_ids);
  const auto end = std::ranges::find_if(generated, [&](TokenId token) { return ends.contains(token); });
  return generated.first(static_cast<size_t>(end - generated.begin()));
}

GenerationResult make_result(const Decoder& decoder, const RunStatistics& statistics,
                             const ModelConfig& config, const Tokenizer* tokenizer, uint64_t seed,
                             const std::vector<std::string>& stop, bool shows_special) {
  GenerationResult result;
  const std::span<const TokenId> generated =
      decoder.canvas().subspan(static_cast<size_t>(decoder.prompt_length()));
  const std::span<const TokenId> answer = answer_part(generated, config.end_ids);
  result.stop_reason = decoder.stop_reason();
  if (tokenizer != nullptr) {
    result.text = tokenizer->decode(ThoughtFilter(tokenizer).remove(answer), !shows_special);
    const size_t length = before_stop(result.text, stop).size();
    if (length < result.text.size()) result.stop_reason = StopReason::kStopText;
    result.text.resize(length);
  }
  result.tokens.assign(generated.begin(), generated.end());
  result.prompt_tokens = decoder.prompt_length();
  result.answer_tokens = static_cast<int32_t>(answer.size());
  result.holes.assign(decoder.holes().begin(), decoder.holes().end());
  result.seed = seed;
  result.statistics = statistics;
  if (const DriftEstimate* estimate = decoder.measurements().drift_estimate())
    result.drift_estimate = *estimate;
  return result;
}

std::string describe_rows(const StepCost& cost, const StepCost& baseline) {
  if (baseline.rows == cost.rows || baseline.rows == 0 || cost.rows == 0) {
    return with_separators(cost.rows) + " rows";
  }
  const bool is_less = cost.rows < baseline.rows;
  const double share = static_cast<double>(cost.rows) / static_cast<double>(baseline.rows);
  const double times = is_less ? 1 / share : share;
  return fmt::format("{} of {} rows: {:.{}f}x {}", with_separators(cost.rows), with_separators(baseline.rows),
                     times, times < 9.95 ? 1 : 0, is_less ? "fewer" : "more");
}

std::string explain_no_text(const GenerationResult& result, const ModelConfig& config,
                            const Tokenizer* tokenizer, const std::vector<std::string>& stop) {
  if (tokenizer == nullptr) return "the model has no tokenizer: the answer is its token ids";
  if (result.text.find_first_not_of(" \t\r\n") != std::string::npos) return "";
  const std::string none = "the answer has no text: ";
  const std::span<const TokenId> answer = answer_part(result.tokens, config.end_ids);
  if (answer.empty() && !result.tokens.empty()) return none + explain_end(result.tokens, config);
  ThoughtFilter thoughts(tokenizer);
  const std::string whole = tokenizer->decode(thoughts.remove(answer));
  if (thoughts.is_in_thought()) return none + "it is a thought that does not end; try a longer --gen-length";
  if (before_stop(whole, stop).size() < whole.size()) return none + "it begins with a text of --stop";
  if (!whole.empty()) return none + "its tokens are white space; try another prompt";
  if (answer.empty()) return none + "no token was generated";
  return fmt::format("{}its {} tokens are special ones, which --json lists; {}", none, answer.size(),
                     config.fills_canvas() ? "try --suppress-mask or more --steps" : "try another prompt");
}

nlohmann::ordered_json to_json(const RunStatistics& statistics) {
  const StepCost& cost = statistics.cost;
  const StepCost& baseline = statistics.baseline;
  const StepCost& uncached = statistics.uncached;
  nlohmann::ordered_json json{{"steps", statistics.steps},
                              {"forward_passes", statistics.forward_passes},
                              {"rows", cost.rows},
                              {"rows_baseline", baseline.rows},
                              {"rows_uncached", uncached.rows},
                              {"flops", cost.flops()},
                              {"flops_baseline", baseline.flops()},
                              {"flops_uncached", uncached.flops()},
                              {"layer_flops", cost.layer_flops},
                              {"layer_flops_baseline", baseline.layer_flops},
                              {"layer_flops_uncached", uncached.layer_flops},
                              {"bytes", cost.bytes},
                              {"bytes_baseline", baseline.bytes},
                              {"bytes_uncached", uncached.bytes}};
  if (statistics.guide_rows > 0) json["guide_rows"] = statistics.guide_rows;
  return json;
}

nlohmann::ordered_json to_json(const GenerationResult& result) {
  nlohmann::ordered_json stats = to_json(result.statistics);
  stats["seconds"] = result.statistics.seconds;
  stats["tokens_per_second"] = result.tokens_per_second();
  stats["canvas_tokens_per_second"] = result.canvas_tokens_per_second();
  stats["tokens_per_forward"] = result.tokens_per_forward();
  if (result.drift_estimate) {
    const DriftEstimate& estimate = *result.drift_estimate;
    stats["lock"] = {{"samples", estimate.samples},
                     {"contraction", estimate.contraction},
                     {"gain", estimate.gain},
                     {"eps", estimate.eps}};
  }
  return {{"text", result.text},
          {"tokens", result.tokens},
          {"prompt_tokens", result.prompt_tokens},
          {"stop_reason", name_of(result.stop_reason)},
          {"seed", result.seed},
          {"stats", std::move(stats)}};
}

nlohmann::ordered_json trace_start(size_t request, std::span<const TokenId> canvas, int32_t prompt_length) {
  return {{"request", request},
          {"prompt_tokens", prompt_length},
          {"canvas", std::vector<TokenId>(canvas.begin(), canvas.end())}};
}

nlohmann::ordered_json trace_step(const StepEvent& event) {
  nlohmann::ordered_json committed = nlohmann::ordered_json::array();
  for (const Commit& commit : event.report.committed) {
    committed.push_back(
        {{"position", commit.position}, {"token", commit.token}, {"confidence", commit.confidence}});
  }
  const double seconds = event.pass_seconds;
  nlohmann::ordered_json json{
      {"request", event.request},
      {"pass", event.statistics.forward_passes - 1},
      {"step", event.report.step},
      {"block", event.report.block},
      {"kind", event.report.kind},
      {"rows", event.plan.positions},
      {"committed", std::move(committed)},
      {"locked", event.report.locked},
      {"unlocked", event.report.unlocked},
      {"layer_flops", event.cost.layer_flops},
      {"head_flops", event.cost.head_flops},
      {"bytes", event.cost.bytes},
      {"seconds", seconds},
      {"step_tokens_per_second", rate(static_cast<double>(event.report.committed.size()), seconds)}};
  const CanvasEdits& edits = event.report.edits;
  if (!edits.dropped.empty()) json["drop"] = edits.dropped;
  if (!edits.inserted.empty()) json["insert"] = nlohmann::ordered_json::array();
  for (const InsertedMasks& each : edits.inserted) {
    json["insert"].push_back(nlohmann::ordered_json{each.position, each.count});
  }
  if (!event.report.canvas_in.empty()) json["canvas_in"] = event.report.canvas_in;
  if (event.report.slots.empty()) return json;
  json["iteration"] = event.report.iteration;
  json["round"] = event.report.round;
  json["slots"] = nlohmann::ordered_json::array();
  for (const SlotReport& slot : event.report.slots) {
    json["slots"].push_back({{"position", slot.position},
                             {"selected", slot.selected},
                             {"accepted", slot.accepted},
                             {"tokens", slot.tokens},
                             {"probabilities", slot.probabilities}});
  }
  return json;
}

}  // namespace lacuna
