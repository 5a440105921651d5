// lacuna eval --task perplexity.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/stop.h"
#include "eval/bound.h"
#include "eval_command.h"
#include "input.h"
#include "terminal.h"

namespace lacuna {
namespace {

constexpr int32_t kPieceLength = 256;  // tokens of a piece of a file

std::vector<BoundText> task_texts(const EvalCommandFlags& flags, const EvaluatedModel& model) {
  const EvaluationSettings& settings = flags.settings;
  const Task& task = find_task(flags.text_task);
  const ModelConfig& config = model.model->config();
  // A chat model's answer ends with the end-of-turn token, any other with the end of text.
  const bool is_chat = !model.chat_template.is_none();
  const TokenId end = is_chat ? end_of_turn(model.tokenizer).value_or(config.eos_id) : config.eos_id;
  std::vector<BoundText> texts;
  for (int32_t i = 0; i < settings.samples; ++i) {
    const Sample sample = task.generate(Split::kTest, settings.generation.seed.value_or(0),
                                        static_cast<uint64_t>(i), settings.task_options);
    texts.push_back(bound_text(
        config, render(model.chat_template, model.tokenizer, std::array{Message{"user", sample.prompt}}),
        model.tokenizer.encode(task.continuation(sample)), end,
        settings.generation.gen_length.value_or(task.room(settings.task_options)),
        settings.generation.block_length.value_or(0)));
  }
  return texts;
}

/// Consecutive pieces of a text; the first token of each is given.
std::vector<BoundText> file_texts(const EvalCommandFlags& flags, const EvaluatedModel& model) {
  const auto length = static_cast<size_t>(flags.settings.task_options.length.value_or(kPieceLength));
  std::string text = read_file(flags.data);
  // Few tokens have more bytes than this, so text beyond the limit is not tokenized.
  constexpr size_t kBytesPerToken = 16;
  text.resize(std::min(text.size(), static_cast<size_t>(flags.settings.samples) * length * kBytesPerToken));
  const std::vector<TokenId> tokens = model.tokenizer.encode(text);
  std::vector<BoundText> texts;
  for (size_t begin = 0; begin + 1 < tokens.size(); begin += length) {
    if (texts.size() == static_cast<size_t>(flags.settings.samples)) break;
    const auto piece = std::span(tokens).subspan(begin, std::min(length, tokens.size() - begin));
    texts.push_back(bound_text(model.model->config(), {piece[0]}, piece.subspan(1), -1, 0, 0));
  }
  if (texts.empty()) throw InputError("--data {}: expected a text of at least two tokens", flags.data);
  return texts;
}

void check_texts(const EvalCommandFlags& flags, const CLI::App& command) {
  const TaskOptions& options = flags.settings.task_options;
  if (flags.data.empty()) return check_options(find_task(flags.text_task), options);
  for (const char* const name : {"--text-task", "--depth", "--difficulty"}) {
    if (command.count(name) > 0) throw InputError("{}: has no effect with --data", name);
  }
  if (options.length && (*options.length < 2 || *options.length > kMaxLength)) {
    throw InputError("--length {}: expected 2 to {} tokens of a piece", *options.length, kMaxLength);
  }
}

}  // namespace

void check_likelihood_settings(const EvalCommandFlags& flags, Paradigm paradigm, bool has_canvas) {
  const nlohmann::ordered_json given = given_options(flags.settings.generation);
  for (const auto& [name, value] : given.items()) {
    if (name == "seed" || (name == "gen-length" && has_canvas) ||
        (name == "block-length" && paradigm == Paradigm::kBlocks) ||
        (name == "slot-size" && paradigm == Paradigm::kSlots)) {
      continue;
    }
    throw InputError("--{}: has no effect with --task {}{} for this model, which generates nothing", name,
                     flags.settings.task,
                     flags.settings.task == kPerplexityTask ? "" : " and --scoring likelihood");
  }
}

BoundSettings bound_settings(const EvalCommandFlags& flags, const CLI::App& command, Paradigm paradigm) {
  if (is_exact(paradigm) && command.count("--draws") > 0) {
    throw InputError("--draws {}: has no effect with this model, whose likelihood is exact", flags.draws);
  }
  const GenerationOptions& generation = flags.settings.generation;
  BoundSettings settings;
  settings.draws = flags.draws;
  settings.seed = generation.seed.value_or(0);
  settings.block_length = generation.block_length.value_or(0);
  settings.slot_size = generation.slot_size.value_or(settings.slot_size);
  return settings;
}

void eval_perplexity(const EvalCommandFlags& flags, const CLI::App& command) {
  check_texts(flags, command);
  const EvaluationModels models(flags);
  const EvaluatedModel model = models.evaluated();
  const GenerationOptions& generation = flags.settings.generation;
  const Paradigm paradigm = model.model->config().paradigm();
  check_likelihood_settings(flags, paradigm, flags.data.empty() && !is_exact(paradigm));
  const BoundSettings settings = bound_settings(flags, command, paradigm);
  const std::vector<BoundText> texts =
      flags.data.empty() ? task_texts(flags, model) : file_texts(flags, model);
  const Bound result = bound(*model.model, texts, settings);

  nlohmann::ordered_json json{{"task", kPerplexityTask},
                              {"of", flags.data.empty() ? flags.text_task : flags.data},
                              {"kind", bound_name(paradigm)}};
  json.update(to_json(result));
  nlohmann::ordered_json given = given_options(generation);
  given["seed"] = settings.seed;
  if (!is_exact(paradigm)) given["draws"] = settings.draws;
  add_options(flags.settings.task_options, given);
  json["settings"] = std::move(given);
  if (flags.json) {
    print_data("{}", as_line(json));
    return;
  }
  print_text("perplexity {:.4f} ({})\n", std::exp(result.nats_per_token()), bound_name(paradigm));
  if (const auto interval = result.interval()) {
    print_text("           {:.4f} to {:.4f} (95%)\n", std::exp(interval->low), std::exp(interval->high));
  }
  print_text("nats       {:.4f} per token, {} tokens of {} texts\n", result.nats_per_token(), result.tokens(),
             result.texts.size());
  print_text("rows       {}, {} forward passes\nseconds    {:.2f}\n", result.rows, result.forward_passes,
             result.seconds);
}

}  // namespace lacuna
