#include "engine/infill.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "commands.h"
#include "engine/inference_session.h"
#include "engine/result.h"
#include "generation_flags.h"
#include "input.h"
#include "live_view.h"
#include "loading.h"
#include "options/saved_preset.h"
#include "terminal.h"
#include "words.h"

namespace lacuna {
namespace {

struct InfillFlags : GuidedModelFlags {
  std::optional<std::string> text;
  std::optional<std::string> file;
  bool json = false;
  GenerationOptions generation;
  LiveFlags live;
};

/// The text with holes, without its final newline.
std::string marked_text(const InfillFlags& flags) {
  if (flags.text && flags.file) throw InputError("expected a text or --file; found both");
  if (flags.text) return *flags.text;
  return read_text_of(flags.file, "expected a text with holes, such as \"Mia has [[2]] shells.\", or --file");
}

/// Draws each candidate, a combination of hole lengths.
class InfillListener final : public SessionListener {
 public:
  InfillListener(const LiveFlags& flags, const OpenedModel& opened, size_t num_candidates)
      : flags_(flags), opened_(opened), num_candidates_(num_candidates) {}

  void accepted(size_t index, const Decoder& decoder) override {
    const std::string label =
        num_candidates_ > 1 ? fmt::format("lengths {} of {}", index + 1, num_candidates_) : "";
    live_.reset();
    live_.emplace(flags_, opened_.config(), *opened_.tokenizer(), decoder, true, label);
  }
  bool stepped(size_t /*index*/, const StepEvent& event) override {
    live_->update(event);
    return true;
  }

 private:
  const LiveFlags& flags_;
  const OpenedModel& opened_;
  size_t num_candidates_;
  std::optional<LiveRequest> live_;
};

void print_json(const InfillResult& result, uint64_t seed) {
  nlohmann::ordered_json holes = nlohmann::ordered_json::array();
  for (const FilledHole& hole : result.holes) {
    holes.push_back({{"position", hole.position}, {"tokens", hole.tokens}, {"text", hole.text}});
  }
  nlohmann::ordered_json stats = to_json(result.statistics);
  stats["seconds"] = result.statistics.seconds;
  const nlohmann::ordered_json json{{"text", result.text},
                                    {"holes", std::move(holes)},
                                    {"mean_log_confidence", result.mean_log_confidence},
                                    {"candidates", result.candidates},
                                    {"seed", seed},
                                    {"stats", std::move(stats)}};
  print_data("{}\n", dump_json(json));
}

void infill(const InfillFlags& flags) {
  InfillRequest request;
  request.canvas = parse_marked_text(marked_text(flags));
  // Report errors in the flags before the weights are read.
  const std::shared_ptr<const OpenedModel> opened = open_model(flags, TemplateFlags{.raw = true});
  expect_writer(*opened);
  expect_infill(opened->config());
  if (opened->tokenizer() == nullptr) {
    throw InputError("{} has no tokenizer; a text with holes needs one", flags.model);
  }
  const auto is_hole = [](const CanvasPart& part) { return std::holds_alternative<Hole>(part); };
  if (std::none_of(request.canvas.begin(), request.canvas.end(), is_hole)) {
    throw InputError("the text has no hole; expected [[N]] or [[A-B]] where tokens are to be filled in");
  }
  if (flags.generation.preset && load_saved_preset(*flags.generation.preset)) {
    throw InputError(
        "--preset {} was tuned for answers to prompts; expected exact, balanced or fast for an infill",
        *flags.generation.preset);
  }
  const GenerateRequest options = make_generate_request(*opened, flags.generation, "");
  if (options.gen_length || options.ends_by_itself) {
    throw InputError("--gen-length has no effect here: an infill is as long as its canvas");
  }
  if (!options.stop.empty())
    throw InputError("--stop has no effect here: an infill is as long as its canvas");
  request.strategy = options.strategy;
  request.seed = options.seed;
  request.constraint = options.constraint;
  request.gives_literals = options.gives_literals;
  request.adjustments = options.adjustments;
  request.one_at_a_time = !flags.json && flags.live.can_draw();
  const std::vector<GenerateRequest> candidates = infill_candidates(*opened, request);
  for (const GenerateRequest& candidate : candidates) opened->make_decoder(candidate);

  constexpr int32_t kTogether = 8;  // canvases that share each pass
  const std::unique_ptr<InferenceSession> session = load_session(flags, opened, own_limits(kTogether));
  std::optional<InfillListener> live;
  if (request.one_at_a_time) live.emplace(flags.live, *opened, candidates.size());
  const InfillResult result = session->infill(request, live ? &*live : nullptr);
  live.reset();
  if (flags.json) {
    print_json(result, request.seed);
  } else {
    print_data("{}\n", result.text);
  }
}

}  // namespace

void add_infill_command(CLI::App& program) {
  auto flags = std::make_shared<InfillFlags>();
  CLI::App* command = program.add_subcommand("infill", "Fill the holes of a text from context on both sides");
  add_model_flags(*command, *flags);
  command
      ->add_option("-p,--prompt", flags->text,
                   "Text with holes: [[4]] of 4 tokens, [[1-3]] of 1 to 3; \\[[ for a literal [[ (default: "
                   "standard input)")
      ->group("Prompt");
  add_text_words(*command, "TEXT", "--prompt");
  command
      ->add_option("-f,--file,--prompt-file", flags->file, "Read the text from a file; - for standard input")
      ->group("Prompt");
  add_generation_flags(*command, flags->generation);
  command->add_flag("--json", flags->json, "Print one JSON object")->group("Output");
  add_live_flags(*command, flags->live);
  command->callback([flags] { infill(*flags); });
}

}  // namespace lacuna
