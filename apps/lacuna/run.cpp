#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "chat.h"
#include "commands.h"
#include "decode/make_decoder.h"
#include "engine/engine.h"
#include "engine/result.h"
#include "engine/stop.h"
#include "engine/trace.h"
#include "generation_flags.h"
#include "input.h"
#include "live_view.h"
#include "loading.h"
#include "terminal.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

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
  /// Nothing is asked yet, and somebody is there to ask.
  bool starts_chat() const {
    return num_sources() == 0 && !json && trace.empty() && isatty(STDIN_FILENO) != 0;
  }
};

struct Prompt {
  std::vector<TokenId> tokens;
  GenerationOptions options;
  std::vector<Message> messages;  // that the tokens were rendered from, if they were
};

/// Turns what the user gave into prompts of tokens.
class PromptReader {
 public:
  PromptReader(const RunFlags& flags, const std::filesystem::path& folder) : flags_(flags), folder_(folder) {
    if (has_tokenizer(folder_)) tokenizer_ = Tokenizer::load(folder_);
    template_ = choose_template(flags_, folder_, tokenizer_.has_value());
  }

  const Tokenizer* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }
  const ChatTemplate& chat_template() const { return template_; }

  StopFinder stop_finder(const std::vector<std::string>& texts) const {
    if (texts.empty()) return {};
    if (!tokenizer_) throw InputError("--stop: {} has no tokenizer", flags_.model);
    return make_stop_finder(*tokenizer_, texts);
  }

  TokenId end_of_turn() const { return tokenizer_ ? lacuna::end_of_turn(*tokenizer_).value_or(-1) : -1; }

  std::vector<Prompt> read() const {
    const int sources = flags_.num_sources();
    if (sources > 1) {
      throw InputError(
          "expected one of --prompt, --prompt-file, --prompt-tokens and --prompts-file; found {}", sources);
    }
    if (flags_.prompts_file) return read_lines();
    if (flags_.prompt_tokens) {
      return {{parse_token_list(*flags_.prompt_tokens, "--prompt-tokens"), flags_.generation, {}}};
    }
    if (flags_.prompt && *flags_.prompt != kStandardInput) return {encode(*flags_.prompt)};
    const bool names_file = flags_.prompt_file && *flags_.prompt_file != kStandardInput;
    return {encode(names_file ? read_file(*flags_.prompt_file) : read_prompt_from_standard_input())};
  }

 private:
  Prompt encode(const std::string& text) const {
    if (!tokenizer_) {
      throw InputError("{} has no tokenizer; give the prompt as --prompt-tokens \"1,2,3\"", flags_.model);
    }
    std::vector<Message> messages;
    if (!flags_.system.empty()) messages.push_back({"system", flags_.system});
    messages.push_back({"user", text});
    return {render(template_, *tokenizer_, messages), flags_.generation, messages};
  }

  std::vector<Prompt> read_lines() const {
    const std::string& file = *flags_.prompts_file;
    std::istringstream stream(read_file(file));
    std::vector<Prompt> prompts;
    std::string line;
    for (int number = 1; std::getline(stream, line); ++number) {
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      prompts.push_back(read_line(line, fmt::format("{}, line {}", file, number)));
    }
    if (prompts.empty()) throw InputError("{}: holds no prompt", file);
    return prompts;
  }

  Prompt read_line(const std::string& line, const std::string& place) const {
    const nlohmann::json json = parse_json(line, place);
    if (!json.is_object()) throw InputError("{}: not a JSON object", place);
    Prompt prompt{{}, flags_.generation, {}};
    if (json.contains("prompt_tokens") && json["prompt_tokens"].is_array()) {
      prompt.tokens = parse_token_list(json["prompt_tokens"].dump(), place);
    } else if (json.contains("prompt") && json["prompt"].is_string()) {
      prompt = encode(json["prompt"].get<std::string>());
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
  const std::filesystem::path& folder_;
  std::optional<Tokenizer> tokenizer_;
  ChatTemplate template_;
};

/// Writes one JSON object per line; InputError if the file cannot be written.
class TraceFile {
 public:
  explicit TraceFile(const std::string& path) : path_(path), stream_(path) { check(); }

  void write(const nlohmann::ordered_json& line) {
    stream_ << line.dump() << '\n' << std::flush;  // a full disk is noticed here, not when the file is closed
    check();
  }

 private:
  void check() const {
    if (!stream_) throw InputError("{}: cannot be written", path_);
  }

  std::string path_;
  std::ofstream stream_;
};

void print_result(const RunFlags& flags, const GenerationResult& result, bool has_text) {
  if (flags.json) {
    // Tokens may end inside a character; JSON cannot.
    fmt::print("{}\n", to_json(result).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else if (has_text) {
    fmt::print("{}\n", for_standard_output(result.text));
  } else {
    fmt::print("{}\n", nlohmann::json(result.tokens).dump());
  }
}

void print_summary(const GenerationResult& result) {
  const RunStatistics& statistics = result.statistics;
  if (result.drift_estimate) {
    const DriftEstimate& estimate = *result.drift_estimate;
    fmt::print(stderr, "lock: eps {:.3g} from contraction {:.3g} and gain {:.3g} ({} samples)\n",
               estimate.eps, estimate.contraction, estimate.gain, estimate.samples);
  }
  fmt::print(stderr, "{} steps, {} answer tokens in {:.2f} s ({:.1f} tokens/s), {:.3g} GFLOP, {}\n",
             statistics.steps, result.answer_tokens, statistics.seconds, result.tokens_per_second(),
             statistics.cost.flops() / 1e9, describe_rows(statistics.cost, statistics.baseline));
}

void run(const RunFlags& flags) {
  if (flags.starts_chat()) {
    chat(flags);
    return;
  }
  // Whatever may be wrong with the flags is said before the weights are read.
  const ModelSource source = find_model(flags);
  const ModelConfig& config = source.config;
  const PromptReader reader(flags, source.folder);
  const std::vector<Prompt> prompts = reader.read();
  const TextModel text_model{config, reader.tokenizer(), reader.chat_template()};
  const std::unique_ptr<GuideSource> guide = find_guide(flags, text_model);
  std::vector<std::unique_ptr<Decoder>> decoders;
  decoders.reserve(prompts.size());
  for (const Prompt& prompt : prompts) {
    DecoderContext context{reader.end_of_turn()};
    context.find_stop = reader.stop_finder(prompt.options.stop);
    if (guide) context.guide = guide->guide.context(prompt.tokens, prompt.messages);
    decoders.push_back(make_decoder(config, prompt.options, prompt.tokens, context));
  }
  std::optional<TraceFile> trace;
  std::map<size_t, TraceLog> trace_logs;  // by request
  if (!flags.trace.empty()) trace.emplace(flags.trace);
  if (flags.trace_plans && !trace)
    throw InputError("--trace-plans has no effect here: it belongs to --trace");

  const LoadedModel loaded = load_model(flags, source);
  Engine engine(loaded.model, *loaded.kernels, *loaded.threads, flags.batch,
                load_guide(flags, guide.get(), loaded));
  for (std::unique_ptr<Decoder>& made : decoders) {
    const size_t request = engine.add(std::move(made));
    if (!trace) continue;
    TraceLog& log =
        trace_logs.emplace(request, TraceLog(config, reader.tokenizer(), flags.trace_plans)).first->second;
    trace->write(log.start(request, engine.decoder(request)));
  }

  std::optional<LiveRequest> live;
  const bool one_request = prompts.size() == 1;
  if (one_request && !flags.json && reader.tokenizer() != nullptr && flags.live.can_draw()) {
    live.emplace(flags.live, config, *reader.tokenizer(), engine.decoder(0));
  }
  engine.run([&](const StepEvent& event) {
    if (trace) trace->write(trace_logs.at(event.request).step(event));
    if (live) live->update(event);
  });
  live.reset();

  for (size_t request = 0; request < prompts.size(); ++request) {
    const GenerationResult result =
        make_result(engine.decoder(request), engine.statistics(request), config, reader.tokenizer(),
                    prompts[request].options.seed.value_or(0), prompts[request].options.stop);
    print_result(flags, result, reader.tokenizer() != nullptr);
    const std::string note =
        explain_no_text(result, config, reader.tokenizer(), prompts[request].options.stop);
    const bool is_told = flags.json && reader.tokenizer() == nullptr;  // "text" is empty, "tokens" are not
    if (!note.empty() && !is_told) fmt::print(stderr, "lacuna: {}\n", note);
    if (!flags.json && isatty(STDERR_FILENO) != 0) print_summary(result);
  }
}

}  // namespace

void add_run_command(CLI::App& program) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* command = program.add_subcommand("run", "Answer a prompt by filling in the canvas");
  add_chat_flags(*command, *flags);
  command
      ->add_option("-p,--prompt", flags->prompt,
                   "Text of the user's turn; \"-\", or no prompt at all: standard input")
      ->group("Prompt");
  command
      ->add_option("-f,--prompt-file,--file", flags->prompt_file,
                   "Read the prompt from a file; \"-\": standard input")
      ->group("Prompt");
  command->add_option("--prompt-tokens", flags->prompt_tokens, "Token ids, \"1,2,3\"; no template is applied")
      ->group("Prompt");
  command
      ->add_option("--prompts-file", flags->prompts_file,
                   "JSON lines with \"prompt\" or \"prompt_tokens\", and \"seed\" if it differs; answers "
                   "keep the order")
      ->group("Prompt");
  command->add_option("--batch", flags->batch, "Prompts that share each forward pass (default 1)")
      ->check(CLI::Range(1, 4096))
      ->group("Prompt");
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
