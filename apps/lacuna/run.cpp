#include <fmt/core.h>
#include <unistd.h>

#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/written_file.h"
#include "chat.h"
#include "commands.h"
#include "engine/inference_session.h"
#include "engine/result.h"
#include "engine/trace.h"
#include "generation_flags.h"
#include "input.h"
#include "live_view.h"
#include "loading.h"
#include "terminal.h"
#include "words.h"

namespace lacuna {
namespace {

struct RunFlags : ChatFlags {
  std::optional<std::string> prompt;
  std::optional<std::string> prompt_file;
  std::optional<std::string> prompt_tokens;
  std::optional<std::string> prompts_file;
  int32_t batch = 1;
  bool json = false;
  std::string trace;
  bool trace_plans = false;

  int num_sources() const {
    return prompt.has_value() + prompt_file.has_value() + prompt_tokens.has_value() +
           prompts_file.has_value();
  }
  /// Whether to start a chat: no prompt is given and standard input is a terminal.
  bool starts_chat() const {
    return num_sources() == 0 && !json && trace.empty() && isatty(STDIN_FILENO) != 0;
  }
};

/// Prompt and options from a line of --prompts-file or from the flags.
struct RunPrompt {
  Prompt prompt;
  GenerationOptions options;
};

/// Reads the prompts from the flags and files.
class PromptReader {
 public:
  PromptReader(const RunFlags& flags, const OpenedModel& opened) : flags_(flags), opened_(opened) {}

  std::vector<RunPrompt> read() const {
    const int sources = flags_.num_sources();
    if (sources > 1) {
      throw InputError(
          "expected one of --prompt, --prompt-file, --prompt-tokens and --prompts-file; found {}", sources);
    }
    if (flags_.prompts_file) return read_lines();
    if (flags_.prompt_tokens) {
      return {{parse_token_list(*flags_.prompt_tokens, "--prompt-tokens"), flags_.generation}};
    }
    if (flags_.prompt && *flags_.prompt != kStandardInput) {
      expect_prompt(*flags_.prompt, "--prompt");
      return {turns(*flags_.prompt)};
    }
    const bool names_file = flags_.prompt_file && *flags_.prompt_file != kStandardInput;
    if (!names_file) return {turns(read_prompt_from_standard_input())};
    const std::string text = read_file(*flags_.prompt_file);
    expect_prompt(text, *flags_.prompt_file);
    return {turns(text)};
  }

 private:
  RunPrompt turns(const std::string& text) const {
    if (opened_.tokenizer() == nullptr) {
      throw InputError("{} has no tokenizer; give the prompt as --prompt-tokens \"1,2,3\"", flags_.model);
    }
    std::vector<Message> messages;
    if (!flags_.system.empty()) messages.push_back({"system", flags_.system});
    messages.push_back({"user", text});
    return {std::move(messages), flags_.generation};
  }

  std::vector<RunPrompt> read_lines() const {
    const std::string& file = *flags_.prompts_file;
    std::istringstream stream(read_file(file));
    std::vector<RunPrompt> prompts;
    std::string line;
    for (int number = 1; std::getline(stream, line); ++number) {
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      prompts.push_back(read_line(line, fmt::format("{}, line {}", file, number)));
    }
    if (prompts.empty()) throw InputError("{}: holds no prompt", file);
    return prompts;
  }

  RunPrompt read_line(const std::string& line, const std::string& place) const {
    const nlohmann::json json = parse_json(line, place);
    if (!json.is_object()) throw InputError("{}: not a JSON object", place);
    RunPrompt prompt{{}, flags_.generation};
    if (json.contains("prompt_tokens") && json["prompt_tokens"].is_array()) {
      prompt.prompt = parse_token_list(json["prompt_tokens"].dump(), place);
    } else if (json.contains("prompt") && json["prompt"].is_string()) {
      const auto text = json["prompt"].get<std::string>();
      expect_prompt(text, place + ": \"prompt\"");
      prompt = turns(text);
    } else {
      throw InputError("{}: expected \"prompt\" (text) or \"prompt_tokens\" (ids)", place);
    }
    if (json.contains("seed")) {
      if (!json["seed"].is_number_unsigned()) throw InputError("{}: seed is not a whole number", place);
      prompt.options.seed = json["seed"].get<uint64_t>();
    }
    return prompt;
  }

  const RunFlags& flags_;
  const OpenedModel& opened_;
};

void print_result(const RunFlags& flags, const GenerationResult& result, bool has_text) {
  if (flags.json) {
    // dump_json(), because tokens may end inside a UTF-8 character.
    print_data("{}\n", dump_json(to_json(result)));
  } else if (has_text) {
    print_data("{}\n", result.text);
  } else {
    print_data("{}\n", nlohmann::json(result.tokens).dump());
  }
}

void print_summary(const GenerationResult& result) {
  const RunStatistics& statistics = result.statistics;
  if (result.drift_estimate) {
    const DriftEstimate& estimate = *result.drift_estimate;
    print_message("lock: eps {:.3g} from contraction {:.3g} and gain {:.3g} ({} samples)\n", estimate.eps,
                  estimate.contraction, estimate.gain, estimate.samples);
  }
  print_message("{} steps, {} answer tokens in {:.2f} s ({:.1f} tokens/s), {:.3g} GFLOP, {}\n",
                statistics.steps, result.answer_tokens, statistics.seconds, result.tokens_per_second(),
                statistics.cost.flops() / 1e9, describe_rows(statistics.cost, statistics.baseline));
}

/// Writes the trace and draws the canvas while requests run.
class RunListener final : public SessionListener {
 public:
  RunListener(const RunFlags& flags, const OpenedModel& opened, bool draws)
      : flags_(flags), opened_(opened), draws_(draws) {
    if (!flags.trace.empty()) trace_.emplace(flags.trace);
  }

  void accepted(size_t index, const Decoder& decoder) override {
    if (trace_) {
      logs_.emplace_back(opened_.config(), opened_.tokenizer(), flags_.trace_plans);
      trace_->append(logs_.back().start(index, decoder).dump() + '\n');
    }
    if (draws_) live_.emplace(flags_.live, opened_.config(), *opened_.tokenizer(), decoder);
  }

  bool stepped(size_t index, const StepEvent& event) override {
    if (trace_) trace_->append(logs_[index].step(event).dump() + '\n');
    if (live_) live_->update(event);
    return true;
  }

 private:
  const RunFlags& flags_;
  const OpenedModel& opened_;
  bool draws_;
  std::optional<GrowingFile> trace_;
  std::deque<TraceLog> logs_;  // indexed by request
  std::optional<LiveRequest> live_;
};

/// Explains why `--lock delta=` locks no row; empty if it may, or if an eps was found.
std::string explain_idle_lock(const GenerationResult& result) {
  if (!result.drift_estimate || result.drift_estimate->eps > 0) return "";
  const DriftEstimate& estimate = *result.drift_estimate;
  if (estimate.samples < kMinDriftSamples) {
    return fmt::format(
        "--lock delta: no row locked; {} rows were measured in two passes in a row, and an estimate needs {}",
        estimate.samples, kMinDriftSamples);
  }
  return fmt::format(
      "--lock delta: no row locks where no error can be promised, and divergences do not contract here (95th "
      "percentile {:.3g} from pass to pass; Theorem 1 needs less than {}); eps=E locks without a promise",
      estimate.contraction, kMaxContraction);
}

void print_results(const RunFlags& flags, const OpenedModel& opened,
                   const std::vector<GenerateRequest>& requests,
                   const std::vector<GenerationResult>& results) {
  for (size_t i = 0; i < results.size(); ++i) {
    print_result(flags, results[i], opened.tokenizer() != nullptr);
    const std::string note =
        explain_no_text(results[i], opened.config(), opened.tokenizer(), requests[i].stop);
    const bool is_told = flags.json && opened.tokenizer() == nullptr;  // "text" is empty, "tokens" are not
    if (!note.empty() && !is_told) print_message("lacuna: {}\n", note);
    const std::string lock_note = explain_idle_lock(results[i]);
    if (!lock_note.empty()) print_message("lacuna: {}\n", lock_note);
    if (!flags.json && isatty(STDERR_FILENO) != 0) print_summary(results[i]);
  }
}

void run(RunFlags flags) {
  if (flags.starts_chat()) {
    chat(flags);
    return;
  }
  // Report errors in the flags before the weights are read.
  const std::shared_ptr<const OpenedModel> opened = open_chat_model(flags);
  flags.generation = resolve_run(flags, *opened, flags.generation);
  std::vector<GenerateRequest> requests;
  for (RunPrompt& prompt : PromptReader(flags, *opened).read()) {
    requests.push_back(make_generate_request(*opened, prompt.options, std::move(prompt.prompt)));
    opened->make_decoder(requests.back());
  }
  // Prompts given as token ids need no template.
  if (!flags.prompt_tokens) warn_without_template(*opened, flags.prompt_template);
  const bool draws = requests.size() == 1 && !flags.json && opened->tokenizer() != nullptr;
  std::optional<RunListener> listener;
  listener.emplace(flags, *opened, draws && flags.live.can_draw());
  if (flags.trace_plans && flags.trace.empty())
    throw InputError("--trace-plans has no effect here: it belongs to --trace");
  const std::unique_ptr<InferenceSession> session = load_session(flags, opened, own_limits(flags.batch));
  const std::vector<GenerationResult> results = session->generate_all(requests, &*listener);
  listener.reset();
  print_results(flags, *opened, requests, results);
}

}  // namespace

void add_run_command(CLI::App& program) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* command = program.add_subcommand("run", "Answer a prompt by filling in the canvas");
  add_chat_flags(*command, *flags);
  const auto add = [&](const char* names, auto& field, const char* help) {
    return command->add_option(names, field, help)->group("Prompt");
  };
  add("-p,--prompt", flags->prompt, "Text of the user's turn; \"-\", or no prompt at all: standard input");
  add_text_words(*command, "PROMPT", "--prompt");
  add("-f,--prompt-file,--file", flags->prompt_file, "Read the prompt from a file; \"-\": standard input");
  add("--prompt-tokens", flags->prompt_tokens, "Token ids, \"1,2,3\"; no template is applied");
  add("--prompts-file", flags->prompts_file,
      "JSON lines with \"prompt\" or \"prompt_tokens\", and \"seed\" if it differs; answers keep the order");
  add("--batch", flags->batch, "Prompts that share each forward pass (default 1)")
      ->check(CLI::Range(1, 4096));
  add_generation_flags(*command, flags->generation);
  command->add_flag("--json", flags->json, "Print one JSON object per prompt")->group("Output");
  command->add_option("--trace", flags->trace, "Write one JSON object per forward pass to this file")
      ->group("Output");
  command
      ->add_flag("--trace-plans", flags->trace_plans,
                 "Add to --trace the plan of each pass: rows, cells that they see, sampling")
      ->group("Output");
  add_live_flags(*command, flags->live);
  command->callback([flags] { run(*flags); });
}

}  // namespace lacuna
