// lacuna-train: trains a tiny language model, diffusion or left to right, on the generated tasks and writes
// it in the published layout.
#include <fmt/format.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "eval/decisions.h"
#include "tokenizer/tokenizer.h"
#include "train/bpe.h"
#include "train/export.h"
#include "train/memory.h"
#include "train/records.h"
#include "train/start.h"
#include "train/starting_heads.h"
#include "train/trainer.h"

namespace lacuna::train {
namespace {

struct Arguments {
  std::string family = "llada";
  std::string folder;
  std::string start;
  std::string matmul = "auto";
  std::string device = "cpu";
  std::vector<std::string> data_files;
  int64_t row_length = 512;
  std::string lora;
  LoraShape lora_shape;
  bool resume = false;
  bool starting_heads = false;
  std::optional<size_t> max_vocabulary;
  bool wide_vocabulary = false;
  int64_t final_samples = 200;
  std::vector<std::string> tasks;
  std::optional<double> drill_share;
  std::vector<std::string> decision_kinds;
  std::optional<int64_t> ffn_width;
  std::optional<int64_t> context;
  std::vector<int32_t> lengths;
  ModelShape shape;
  DataOptions data;
  TrainOptions train;
};

void add_run_options(CLI::App& app, Arguments& a) {
  app.add_option("--family", a.family, "Model family: " + family_names())->capture_default_str();
  app.add_option("--out", a.folder, "Folder for the model, the checkpoint and the log")->required();
  app.add_option(
      "--init", a.start,
      "Start from the weights of this checkpoint folder: of the same sizes and tokenizer, and of the "
      "family, or qwen2 for dream and fast-dllm-v2, qwen3 for refusion and sdar, qwen3 or sdar for llada and "
      "llada2-moe, gidd "
      "for gidd-mask and the "
      "reverse");
  app.add_flag(
      "--left-to-right", a.shape.left_to_right,
      "A first phase of gidd, gidd-mask, llada2-moe or diffusion-gemma: causal attention and the next token, "
      "for --init to continue from");
  app.add_flag("--resume", a.resume,
               "Continue from the checkpoint in the folder; --init is given again with --data or --lora");
  app.add_flag("--starting-heads", a.starting_heads,
               "Begin with heads that look at neighbours and at equal tokens, for tasks that compare words")
      ->excludes("--init");
  app.add_option("--minutes", a.train.minutes, "Training time, all runs together; 0: no limit")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--steps", a.train.steps, "Optimiser steps, all runs together; 0: no limit")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--seed", a.train.seed, "Seed of weights, data and masks; the vocabulary is always the same")
      ->capture_default_str();
  app.add_option("--threads", a.train.threads, "Threads; each takes a part of the rows")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--matmul", a.matmul, "Type of matmuls; auto: bf16 where the CPU multiplies it")
      ->check(CLI::IsMember({"auto", "f32", "bf16"}))
      ->capture_default_str();
  app.add_option("--device", a.device, "Where to compute; cuda needs a LibTorch that was built with it")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
}

void add_model_options(CLI::App& app, Arguments& a) {
  app.add_option("--layers", a.shape.layers, "Transformer blocks")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--width", a.shape.width, "Width of the residual stream")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--heads", a.shape.heads, "Attention heads")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--ffn-width", a.ffn_width,
                 "Inner width of the feed-forward part; 384 where not given, 4 times --width for gidd and "
                 "gidd-mask")
      ->check(CLI::PositiveNumber);
  app.add_option("--experts", a.shape.experts.count,
                 "Experts of llada2-moe, in four groups of which two serve a token, and of diffusion-gemma")
      ->check(CLI::Range(2, 1024))
      ->capture_default_str();
  app.add_option("--experts-per-token", a.shape.experts.per_token, "Of these, how many serve a token")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--expert-width", a.shape.experts.ffn_width,
                 "Inner width of an expert, and of llada2-moe's that serves every token")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--canvas-length", a.shape.canvas.length, "Positions of a canvas of diffusion-gemma")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--window", a.shape.canvas.window,
                 "Positions that a row of diffusion-gemma's sliding layers sees, its own included")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option(
         "--max-vocabulary", a.max_vocabulary,
         "Tokens to learn at most, without special tokens (default 2048; 8192 with --wide-vocabulary)")
      ->check(CLI::Range(256, 1 << 20));
  app.add_flag("--wide-vocabulary", a.wide_vocabulary,
               "Learn the words of the task questions as well, and spell numbers as digits");
}

void add_file_options(CLI::App& app, Arguments& a) {
  app.add_option(
         "--data", a.data_files,
         "FILE.jsonl or FILE.jsonl=SHARE, several: a line is {\"messages\": [...]}, {\"prompt\", "
         "\"response\"}, {\"query\", \"response\"} or {\"text\"}. The checkpoint of --init keeps its sizes, "
         "tokenizer and chat template")
      ->type_name("FILE[=SHARE]");
  app.add_option("--row-length", a.row_length,
                 "Most tokens of a row of --data, prompt and answer; longer ones are left out, texts are cut")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  app.add_option(
         "--lora", a.lora,
         "r=RANK[,alpha=ALPHA]: learn low-rank updates of the matrices of all layers and nothing else "
         "(alpha: 2 RANK where not given); the adapter is written to OUT/adapter as PEFT has it")
      ->type_name("r=RANK,alpha=ALPHA");
  app.add_option("--accumulate", a.train.accumulate, "Batches of a step, whose gradients are averaged")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
}

void add_data_options(CLI::App& app, Arguments& a) {
  app.add_option("--batch-rows", a.data.batch_rows, "Rows per step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--canvas", a.data.canvas, "Response positions per row, end tokens included")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--longest-canvas", a.data.longest_canvas,
                 "Rows draw their canvas from --canvas to this, short ones more often; 0: all have --canvas")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--chat-share", a.data.chat_share,
                 "Share of the prompts in the chat template; the others are raw text")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--infill-share", a.data.infill_share,
                 "llada, dream: share of rows that are told stories with a few spans to restore")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--copies-share", a.train.copies_share,
                 "llada, dream: share of rows that hide all occurrences of one token, and nothing else")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--given-tail-share", a.data.given_tail_share,
                 "llada, dream: share of rows whose end tokens are given from a random place on")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--drill-canvas", a.data.drill_canvas,
                 "Positions behind the prompt of a drill; 0: as --canvas")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--lengths", a.lengths, "Smallest and largest number of prompt tokens of retrieval: 128,512")
      ->delimiter(',')
      ->expected(2);
  app.add_option("--spread", a.data.spread,
                 "Positions over which the rows of retrieval are spread, with gaps between facts; 0: none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--rope-theta", a.shape.rope_theta, "Base of the rotations")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option(
         "--context", a.context,
         "Length of all rows of gidd and gidd-mask, filled with end tokens, 128 where not given; of the "
         "others the positions that the config promises, 1024 where not given")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--tasks", a.tasks,
                 "Tasks and their shares of the rows: decisions, " + task_names() +
                     " (without --data: arithmetic=0.7,stories=0.1)")
      ->delimiter(',');
  app.add_option("--decision-questions", a.data.decision_questions, "Most questions of a row of decisions")
      ->check(CLI::Range(1, 12))
      ->capture_default_str();
  app.add_option("--decision-kinds", a.decision_kinds,
                 "Kinds of the questions of rows of decisions: predicate, choice, score; all where not given")
      ->delimiter(',')
      ->check(CLI::IsMember({"predicate", "choice", "score"}));
  app.add_option(
         "--decision-drill-share", a.data.decision_drill_share,
         "Share of the rows of decisions that are a story and many questions with the answer behind each")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option(
         "--decision-drill-questions", a.data.decision_drill_questions,
         "Most questions of such a drill, before those of other kinds than --decision-kinds are left out")
      ->check(CLI::Range(1, 12))
      ->capture_default_str();
  app.add_option(
         "--decision-auxiliary", a.data.decision_auxiliary,
         "llada, dream: weight of auxiliary targets in rows of decisions: whether the story has a question's "
         "word, whether an option is right; 0: none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option(
         "--drill-share", a.drill_share,
         "Share of rows of bare equations or questions; 0.2 where not given, 0 for refusion, which has none")
      ->check(CLI::NonNegativeNumber);
}

void add_objective_options(CLI::App& app, Arguments& a) {
  app.add_option("--block-length", a.shape.block_length,
                 "Positions of a block of sdar, fast-dllm-v2 and llada2-moe")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--slot-sizes", a.train.slot_sizes, "Sizes of slots that samples of refusion draw from")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option(
         "--half-written-share", a.train.half_written_share,
         "refusion: share of the masked slots that begin with some of their tokens, as decoders see them "
         "while they complete slots (an augmentation that the paper does not have)")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--rate", a.train.peak_rate, "Peak learning rate")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--warmup-steps", a.train.warmup_steps, "Steps until the peak")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--weight-decay", a.train.weight_decay, "Of the matrices")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--average-decay", a.train.average_decay, "Of the moving average of the weights")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--evaluate-minutes", a.train.evaluate_minutes, "Minutes between evaluations")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--evaluate-samples", a.train.evaluate_samples, "Test samples of each task per evaluation")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--final-samples", a.final_samples, "Test samples of each task at the end")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

void add_options(CLI::App& app, Arguments& a) {
  add_run_options(app, a);
  add_model_options(app, a);
  add_file_options(app, a);
  add_data_options(app, a);
  add_objective_options(app, a);
}

/// A positive number; empty for another text.
std::optional<double> parse_positive(std::string_view text) {
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || rest != text.data() + text.size() || !(number > 0) || number > 1e9) return {};
  return number;
}

struct NamedShare {
  std::string name;
  double share;
};

/// "NAME" or "NAME=SHARE".
NamedShare parse_share(std::string_view flag, const std::string& text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos) return {text, 1};
  const std::optional<double> share = parse_positive(std::string_view(text).substr(equals + 1));
  if (!share || equals == 0)
    throw InputError("{}: '{}' is not NAME or NAME=SHARE with a share above 0", flag, text);
  return {text.substr(0, equals), *share};
}

/// Sets the shares of tasks and of decisions.
void parse_tasks(const Arguments& arguments, DataOptions& data) {
  std::vector<std::string> texts = arguments.tasks;
  if (texts.empty() && arguments.data_files.empty()) texts = {"arithmetic=0.7", "stories=0.1"};
  for (const std::string& text : texts) {
    const auto [name, share] = parse_share("--tasks", text);
    if (name == kDecisionsTask) {
      data.decision_share = share;
      continue;
    }
    const Task& task = find_task(name);
    if (task.name == "infill") throw InputError("--tasks infill: holes are learned with --infill-share");
    data.tasks.push_back({&task, share});
  }
  if (data.tasks.empty() && arguments.data_files.empty())
    throw InputError("--tasks decisions: expected another task with it");
}

/// Reads "r=16,alpha=32".
LoraShape parse_lora(const std::string& text) {
  constexpr double kMaxRank = 1024;
  LoraShape lora;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = std::string_view(text).substr(begin, end - begin);
    const std::optional<double> number =
        parse_positive(part.substr(std::min(part.find('=') + 1, part.size())));
    if (part.starts_with("r=") && number && *number <= kMaxRank && std::floor(*number) == *number) {
      lora.rank = static_cast<int64_t>(*number);
    } else if (part.starts_with("alpha=") && number) {
      lora.alpha = *number;
    } else {
      throw InputError("--lora {}: expected r=RANK or r=RANK,alpha=ALPHA, with a rank of 1 to {}", text,
                       kMaxRank);
    }
    begin = end + 1;
  }
  if (lora.rank == 0) throw InputError("--lora {}: expected r=RANK", text);
  if (lora.alpha == 0) lora.alpha = 2 * static_cast<double>(lora.rank);
  return lora;
}

bool bf16_products(const std::string& matmul) {
  if (matmul != "auto") return matmul == "bf16";
  return __builtin_cpu_supports("avx512bf16") != 0;
}

torch::Device find_device(const std::string& name) {
  if (name == "cuda" && !torch::cuda::is_available()) {
    throw InputError("--device cuda: this LibTorch finds no CUDA device; expected cpu");
  }
  return torch::Device(name);
}

void check_experts(const ModelShape& shape) {
  const ExpertShape& experts = shape.experts;
  if (shape.traits().has_canvases()) {
    if (experts.per_token <= experts.count) return;
    throw InputError("--experts-per-token {}: expected 1 to {}", experts.per_token, experts.count);
  }
  if (experts.count < 2 * kExpertGroups || experts.count % kExpertGroups != 0) {
    throw InputError("--experts {}: expected a multiple of {} from {} on", experts.count, kExpertGroups,
                     2 * kExpertGroups);
  }
  const int64_t open = kGroupsPerToken * experts.count / kExpertGroups;
  if (experts.per_token > open) {
    throw InputError("--experts-per-token {}: expected 1 to {}, the experts of {} groups", experts.per_token,
                     open, kGroupsPerToken);
  }
}

/// Settings that only gidd and gidd-mask have.
void complete_interpolation(Arguments& arguments) {
  constexpr int64_t kContext = 128;
  ModelShape& shape = arguments.shape;
  const FamilyTraits& traits = shape.traits();
  if (shape.left_to_right && !traits.first_phase) {
    throw InputError(
        "--left-to-right: {} has no such phase; gidd, gidd-mask, llada2-moe and diffusion-gemma have",
        traits.name);
  }
  if (!traits.interpolates()) {
    shape.context = arguments.context.value_or(shape.context);
    return;
  }
  shape.context = arguments.context.value_or(kContext);
  if (!shape.left_to_right) arguments.data.context = shape.context;
}

void complete_lengths(Arguments& arguments) {
  DataOptions& data = arguments.data;
  if (!arguments.lengths.empty()) {
    data.min_length = arguments.lengths[0];
    data.max_length = arguments.lengths[1];
    if (data.min_length < kMinLength || data.max_length > kMaxLength || data.min_length > data.max_length) {
      throw InputError("--lengths {},{}: expected two ascending numbers from {} to {}", data.min_length,
                       data.max_length, kMinLength, kMaxLength);
    }
  }
  if (arguments.shape.objective() == Objective::kBlocks) data.block_length = arguments.shape.block_length;
}

constexpr int kStopped = 130;  // the exit code of a program that Ctrl-C ended
Trainer* running = nullptr;

extern "C" void stop_training(int signal) {
  running->stop();
  std::signal(signal, SIG_DFL);  // a second signal ends the program at once
}

/// Derives the settings that flags leave open. Throws InputError for flags that contradict each other.
void complete(Arguments& arguments) {
  arguments.shape.family = find_family(arguments.family);
  if (arguments.train.minutes <= 0 && arguments.train.steps <= 0) {
    throw InputError("training needs an end: give --minutes or --steps");
  }
  check_experts(arguments.shape);
  if (arguments.shape.width % (2 * arguments.shape.heads) != 0) {
    throw InputError("--width {} is not a multiple of twice --heads {}", arguments.shape.width,
                     arguments.shape.heads);
  }
  const int64_t ffn_width =
      arguments.shape.traits().interpolates() ? 4 * arguments.shape.width : arguments.shape.ffn_width;
  arguments.shape.ffn_width = arguments.ffn_width.value_or(ffn_width);
  parse_tasks(arguments, arguments.data);
  if (!arguments.lora.empty()) arguments.lora_shape = parse_lora(arguments.lora);
  if (!arguments.data_files.empty() && arguments.start.empty())
    throw InputError("--data: expected --init as well, the checkpoint whose tokenizer reads the texts");
  if (!arguments.data_files.empty() && (arguments.wide_vocabulary || arguments.max_vocabulary))
    throw InputError(
        "--data: the tokenizer of --init is kept; expected no --wide-vocabulary or --max-vocabulary");
  for (const QuestionKind kind : {QuestionKind::kPredicate, QuestionKind::kChoice, QuestionKind::kScore}) {
    const std::vector<std::string>& names = arguments.decision_kinds;
    if (std::find(names.begin(), names.end(), name_of(kind)) != names.end())
      arguments.data.decision_kinds.push_back(kind);
  }
  const Objective objective = arguments.shape.traits().objective;
  if (arguments.data.decision_auxiliary > 0 && objective != Objective::kMaskedTokens) {
    throw InputError("--decision-auxiliary: {} has no auxiliary targets; expected llada or dream",
                     arguments.shape.traits().name);
  }
  if (arguments.data.decision_auxiliary > 0 && arguments.shape.layers < 3) {
    throw InputError(
        "--layers {}: expected at least 3 with --decision-auxiliary, some of whose rows are read two layers "
        "early",
        arguments.shape.layers);
  }
  if (objective == Objective::kNextToken || objective == Objective::kSlots || arguments.shape.left_to_right) {
    arguments.data.single_line_share = 1;
  } else if (objective == Objective::kBlocks) {
    arguments.data.single_line_share = 0.5;
  }
  arguments.data.seed = arguments.train.seed;
  arguments.data.one_end_token = arguments.shape.traits().objective == Objective::kSlots;
  if (arguments.data.one_end_token || arguments.data.tasks.empty()) arguments.data.drill_share = 0;
  if (arguments.drill_share) arguments.data.drill_share = *arguments.drill_share;
  complete_interpolation(arguments);
  complete_lengths(arguments);
  arguments.train.bf16_products = bf16_products(arguments.matmul);
}

/// Prints what the run took, and the accuracy of the trained model on each task's test split.
void report(const Arguments& arguments, const Progress& progress, Transformer& trained,
            const Vocabulary& vocabulary) {
  fmt::print("{} steps, {} tokens, {:.1f} minutes\n", progress.step, progress.tokens, progress.seconds / 60);
  for (const TaskShare& share : arguments.data.tasks) {
    const double accuracy =
        measure_accuracy(trained, *share.task, arguments.final_samples, arguments.data.canvas, vocabulary,
                         evaluation_options(*share.task, arguments.data));
    fmt::print("{}: {:.1f}% of {} test samples\n", share.task->name, 100 * accuracy, arguments.final_samples);
  }
}

Bpe learn_vocabulary(const Arguments& arguments) {
  const VocabularyKind kind = arguments.wide_vocabulary ? VocabularyKind::kWide : VocabularyKind::kShared;
  const size_t most = arguments.max_vocabulary.value_or(arguments.wide_vocabulary ? 8192 : 2048);
  return learn_bpe(vocabulary_corpus(kind), most, piece_expression(kind));
}

/// Writes the texts of the new checkpoint, with a vocabulary that is learned.
Vocabulary make_vocabulary(Arguments& arguments) {
  Bpe bpe = learn_vocabulary(arguments);
  if (arguments.shape.traits().role_tags) bpe.form = &role_tag_form();
  arguments.shape.vocabulary = bpe.total_size();
  export_texts(arguments.folder, arguments.shape, bpe);
  return vocabulary_of(bpe);
}

/// The same, with the sizes and the vocabulary of a published checkpoint.
Vocabulary keep_vocabulary(Arguments& arguments, Start& start) {
  start.set_sizes(arguments.shape);
  start.export_texts(arguments.folder, arguments.shape);
  if (!start.mask_note().empty()) fmt::print(stderr, "{}\n", start.mask_note());
  return {Tokenizer::load(arguments.folder), load_chat_template(arguments.folder), start.ids()};
}

/// The rows of --data, encoded.
std::vector<Records> read_data(Arguments& arguments, const Vocabulary& vocabulary) {
  std::vector<Records> records;
  std::vector<double> shares;
  for (const std::string& text : arguments.data_files) {
    // A file may have '=' in its name.
    const bool is_file = std::filesystem::exists(text);
    const auto [file, share] = is_file ? NamedShare{text, 1} : parse_share("--data", text);
    const std::string cache = fmt::format("data-{}.rows", records.size());
    records.push_back(Records::open(file, vocabulary, arguments.row_length,
                                    std::filesystem::path(arguments.folder) / cache));
    fmt::print(stderr, "{}\n", records.back().summary());
    shares.push_back(share);
  }
  for (size_t i = 0; i < records.size(); ++i) arguments.data.files.push_back({&records[i], shares[i]});
  return records;
}

int run(Arguments arguments) {
  complete(arguments);
  const std::filesystem::path folder = arguments.folder;
  std::filesystem::create_directories(folder);
  torch::set_num_threads(arguments.train.threads);  // for evaluation; training distributes rows itself
  torch::manual_seed(arguments.train.seed);

  std::optional<Start> start;
  if (!arguments.data_files.empty()) start = Start::open(arguments.start);
  const Vocabulary vocabulary = start ? keep_vocabulary(arguments, *start) : make_vocabulary(arguments);
  const std::vector<Records> records = read_data(arguments, vocabulary);

  Transformer model(arguments.shape);
  if (arguments.starting_heads) add_starting_heads(model);
  if (!arguments.start.empty()) {
    const WordRows words = start ? start->words(arguments.shape)
                                 : match_words(Tokenizer::load(arguments.start), vocabulary.tokenizer);
    import_weights(arguments.start, model, &words);
  }
  if (arguments.lora_shape.rank > 0) model->add_lora(arguments.lora_shape);
  model->to(find_device(arguments.device));
  int64_t parameters = 0, learned = 0;
  for (const torch::Tensor& parameter : model->parameters()) parameters += parameter.numel();
  for (const auto& item : model->learned()) learned += item.value().numel();
  fmt::print(stderr, "{} parameters{}, {} tokens in the vocabulary, {} matmuls\n", parameters,
             learned < parameters ? fmt::format(", {} of them learned", learned) : "",
             arguments.shape.vocabulary, arguments.train.bf16_products ? "bf16" : "f32");

  Trainer trainer(model, BatchSource(arguments.data, vocabulary), vocabulary, arguments.train, folder);
  if (arguments.resume) trainer.resume();
  if (arguments.device == "cpu") expect_to_fit(trainer.needed_bytes(), available_bytes());
  running = &trainer;
  std::signal(SIGINT, stop_training);
  std::signal(SIGTERM, stop_training);
  trainer.run();
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);

  Transformer trained = trainer.averaged_model();
  export_weights(folder, trained);
  if (trained->lora().rank > 0) {
    std::filesystem::create_directories(folder / "adapter");
    export_adapter(folder / "adapter", trained, std::filesystem::path(arguments.start).filename().string());
  }
  if (trainer.stopped()) {
    fmt::print(stderr, "stopped after step {}: the model is in {}, and --resume continues from there\n",
               trainer.progress().step, folder.string());
    return kStopped;
  }
  trained = merged_model(trained);
  round_weights(trained);
  report(arguments, trainer.progress(), trained, vocabulary);
  return 0;
}

}  // namespace
}  // namespace lacuna::train

int main(int argc, char** argv) {
  CLI::App app("Trains a tiny language model, diffusion or left to right, on generated tasks.",
               "lacuna-train");
  lacuna::train::Arguments arguments;
  lacuna::train::add_options(app, arguments);
  try {
    app.parse(argc, argv);
    return lacuna::train::run(arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const lacuna::InputError& error) {
    fmt::print(stderr, "lacuna-train: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "lacuna-train: {}\n", error.what());
    return 1;
  }
}
