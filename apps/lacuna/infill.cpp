#include "engine/infill.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "commands.h"
#include "decode/make_decoder.h"
#include "engine/engine.h"
#include "engine/result.h"
#include "generation_flags.h"
#include "input.h"
#include "live_view.h"
#include "loading.h"
#include "terminal.h"

namespace lacuna {
namespace {

struct InfillFlags : ModelFlags {
  std::optional<std::string> text;
  std::optional<std::string> file;
  bool json = false;
  GenerationOptions generation;
  LiveFlags live;
};

/// The text with holes, without the newline that editors and echo put at its end.
std::string marked_text(const InfillFlags& flags) {
  if (flags.text && flags.file) throw InputError("expected a text or --file; found both");
  if (flags.text) return *flags.text;
  const bool is_piped = !flags.file && isatty(STDIN_FILENO) == 0;
  if (!flags.file && !is_piped) {
    throw InputError("expected a text with holes, such as \"Mia has [[2]] shells.\", or --file");
  }
  if (is_piped || *flags.file == kStandardInput) return read_prompt_from_standard_input();
  std::string text = read_file(*flags.file);
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

/// One way to lay out the canvas.
struct InfillCandidate {
  std::vector<int32_t> lengths;  // of the holes
  std::unique_ptr<Decoder> decoder;
  size_t request = 0;
  CandidateScore score;
};

std::vector<InfillCandidate> make_candidates(const InfillFlags& flags, const ModelConfig& config,
                                             const Tokenizer& tokenizer,
                                             const std::vector<CanvasPart>& parts) {
  const auto is_hole = [](const CanvasPart& part) { return std::holds_alternative<Hole>(part); };
  if (std::none_of(parts.begin(), parts.end(), is_hole)) {
    throw InputError("the text has no hole; expected [[N]] or [[A-B]] where tokens are to be filled in");
  }
  std::vector<InfillCandidate> candidates;
  for (std::vector<int32_t>& lengths : hole_lengths(parts)) {
    InfillCanvas canvas = lay_out(parts, lengths, config, &tokenizer);
    DecoderContext context{end_of_turn(tokenizer).value_or(-1)};
    context.answer = std::move(canvas.answer);
    candidates.push_back({std::move(lengths),
                          make_decoder(config, flags.generation, std::move(canvas.prompt), context),
                          0,
                          {}});
  }
  return candidates;
}

/// What was written into each hole.
nlohmann::ordered_json holes_json(const std::vector<CanvasPart>& parts, const InfillCandidate& candidate,
                                  std::span<const TokenId> canvas, const Tokenizer& tokenizer) {
  nlohmann::ordered_json holes = nlohmann::ordered_json::array();
  size_t position = 0;
  size_t hole = 0;
  for (const CanvasPart& part : parts) {
    if (const auto* text = std::get_if<std::string>(&part)) {
      position += tokenizer.encode(*text, SpecialTokens::kAsText).size();
      continue;
    }
    const auto length = static_cast<size_t>(candidate.lengths[hole++]);
    const std::span<const TokenId> tokens = canvas.subspan(position, length);
    holes.push_back({{"position", position},
                     {"tokens", std::vector<TokenId>(tokens.begin(), tokens.end())},
                     {"text", tokenizer.decode(tokens)}});
    position += length;
  }
  return holes;
}

/// Decodes every candidate; the live canvas shows one after the other.
void run_candidates(Engine& engine, std::vector<InfillCandidate>& candidates, const InfillFlags& flags,
                    const ModelConfig& config, const Tokenizer& tokenizer) {
  const bool is_live = !flags.json && flags.live.can_draw();
  std::map<size_t, InfillCandidate*> by_request;
  for (size_t i = 0; i < candidates.size(); ++i) {
    InfillCandidate& candidate = candidates[i];
    candidate.request = engine.add(std::move(candidate.decoder));
    by_request[candidate.request] = &candidate;
    if (!is_live) continue;
    const std::string label =
        candidates.size() > 1 ? fmt::format("lengths {} of {}", i + 1, candidates.size()) : "";
    LiveRequest live(flags.live, config, tokenizer, engine.decoder(candidate.request), true, label);
    engine.run([&](const StepEvent& event) {
      candidate.score.note(event);
      live.update(event);
    });
  }
  engine.run([&](const StepEvent& event) { by_request.at(event.request)->score.note(event); });
}

void infill(const InfillFlags& flags) {
  const std::vector<CanvasPart> parts = parse_marked_text(marked_text(flags));
  const ModelSource source = find_model(flags);
  expect_infill(source.config);
  const std::optional<Tokenizer> tokenizer = tokenizer_of(source);
  if (!tokenizer) throw InputError("{} has no tokenizer; a text with holes needs one", flags.model);
  std::vector<InfillCandidate> candidates = make_candidates(flags, source.config, *tokenizer, parts);

  const LoadedModel loaded = load_model(flags, source);
  constexpr int32_t kTogether = 8;  // canvases that share each pass
  Engine engine(loaded.model, *loaded.kernels, *loaded.threads, kTogether);
  run_candidates(engine, candidates, flags, source.config, *tokenizer);

  // Of equal ones the first.
  const InfillCandidate& best =
      *std::max_element(candidates.begin(), candidates.end(),
                        [](const auto& a, const auto& b) { return a.score.mean() < b.score.mean(); });
  const std::span<const TokenId> canvas = engine.decoder(best.request).canvas();
  const std::string text = tokenizer->decode(canvas);
  if (!flags.json) {
    fmt::print("{}\n", for_standard_output(text));
    return;
  }
  RunStatistics statistics;
  for (const InfillCandidate& candidate : candidates) {
    const RunStatistics& own = engine.statistics(candidate.request);
    statistics.steps += own.steps;
    statistics.forward_passes += own.forward_passes;
    statistics.cost += own.cost;
    statistics.baseline += own.baseline;
    statistics.seconds = std::max(statistics.seconds, own.seconds);
  }
  nlohmann::ordered_json stats = to_json(statistics);
  stats["seconds"] = statistics.seconds;
  const nlohmann::ordered_json json{{"text", text},
                                    {"holes", holes_json(parts, best, canvas, *tokenizer)},
                                    {"mean_log_confidence", best.score.mean()},
                                    {"candidates", candidates.size()},
                                    {"seed", flags.generation.seed.value_or(0)},
                                    {"stats", std::move(stats)}};
  fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

void add_infill_command(CLI::App& program) {
  auto flags = std::make_shared<InfillFlags>();
  CLI::App* command =
      program.add_subcommand("infill", "Fill the holes of a text, with what is on both sides");
  add_model_flags(*command, *flags);
  command
      ->add_option(
          "text,-p,--prompt", flags->text,
          "Text with holes: [[4]] of 4 tokens, [[1-3]] of 1 to 3; \\[[ for the text itself (default: "
          "standard input)")
      ->group("Prompt");
  command
      ->add_option("-f,--file,--prompt-file", flags->file, "Read the text from a file; - for standard input")
      ->group("Prompt");
  add_generation_flags(*command, flags->generation);
  command->add_flag("--json", flags->json, "Print one JSON object")->group("Output");
  add_live_flags(*command, flags->live);
  command->callback([flags] { infill(*flags); });
}

}  // namespace lacuna
