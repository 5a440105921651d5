// lacuna-train: trains a tiny diffusion or autoregressive language model on the generated tasks, or a
// published checkpoint on user data, and writes a checkpoint in the published layout.
#include <fmt/format.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "tokenizer/tokenizer.h"
#include "train/arguments.h"
#include "train/blas.h"
#include "train/bpe.h"
#include "train/export.h"
#include "train/memory.h"
#include "train/records.h"
#include "train/start.h"
#include "train/starting_heads.h"

namespace lacuna::train {
namespace {

torch::Device find_device(const std::string& name) {
  if (name == "cuda" && !torch::cuda::is_available()) {
    throw InputError("--device cuda: this LibTorch finds no CUDA device; expected cpu");
  }
  return torch::Device(name);
}

constexpr int kStopped = 130;  // the exit code of a program that Ctrl-C ended
Trainer* running = nullptr;

extern "C" void stop_training(int signal) {
  running->stop();
  std::signal(signal, SIG_DFL);  // a second signal ends the program at once
}

/// Prints the steps, tokens and time of the run, and the trained model's accuracy on each task's test split.
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
  return learn_bpe(vocabulary_corpus(kind), most);
}

/// Learns a vocabulary, and writes the new checkpoint's config and tokenizer files.
Vocabulary make_vocabulary(Arguments& arguments) {
  Bpe bpe = learn_vocabulary(arguments);
  bpe.form = arguments.shape.traits().form;
  arguments.shape.vocabulary = bpe.total_size();
  export_texts(arguments.folder, arguments.shape, bpe);
  return vocabulary_of(bpe);
}

/// Writes config and tokenizer files with the sizes and the vocabulary of a published checkpoint.
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
    // A file name may contain '='.
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

/// Loads the model of --teacher, which must have the family and the vocabulary of the trained model.
Transformer load_teacher(const Arguments& arguments, const Vocabulary& vocabulary) {
  Start start = Start::open(arguments.teacher, "--teacher");
  ModelShape shape;
  shape.family = arguments.shape.family;
  shape.block_length = arguments.shape.block_length;
  start.set_sizes(shape);
  if (shape.vocabulary != arguments.shape.vocabulary || start.ids().mask != vocabulary.ids.mask)
    throw InputError("--teacher {}: it has {} tokens and the mask {}; expected {} and {}, as the model",
                     arguments.teacher, shape.vocabulary, start.ids().mask, arguments.shape.vocabulary,
                     vocabulary.ids.mask);
  Transformer teacher(shape);
  import_weights(arguments.teacher, teacher);
  return teacher;
}

int run(Arguments arguments) {
  complete(arguments);
  const std::filesystem::path folder = arguments.folder;
  std::filesystem::create_directories(folder);
  torch::set_num_threads(arguments.train.threads);  // for evaluation; training distributes rows itself
  torch::manual_seed(arguments.train.seed);

  std::optional<Start> start;
  if (!arguments.data_files.empty() || arguments.only_exports) start = Start::open(arguments.start);
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
  if (!arguments.adapter.empty()) import_adapter(arguments.adapter, model);
  if (arguments.only_exports) {
    export_weights(folder, model);
    fmt::print("the model is in {}\n", folder.string());
    return 0;
  }
  model->keep_activations(!arguments.checkpoints_activations);
  const torch::Device device = find_device(arguments.device);
  model->to(device);
  int64_t parameters = 0, learned = 0;
  for (const torch::Tensor& parameter : model->parameters()) parameters += parameter.numel();
  for (const auto& item : model->learned()) learned += item.value().numel();
  fmt::print(stderr, "{} parameters{}, {} tokens in the vocabulary, {} matmuls\n", parameters,
             learned < parameters ? fmt::format(", {} of them learned", learned) : "",
             arguments.shape.vocabulary, arguments.train.bf16_products ? "bf16" : "f32");

  Trainer trainer(model, BatchSource(arguments.data, vocabulary), vocabulary, arguments.train, folder);
  if (!arguments.teacher.empty()) {
    Transformer teacher = load_teacher(arguments, vocabulary);
    teacher->to(device);
    trainer.learn_from(teacher);
  }
  if (arguments.resume) trainer.resume();
  constexpr double kGib = 1 << 30;
  const double needed = trainer.needed_bytes(), available = available_bytes();
  fmt::print(stderr, "a step needs about {:.2f} GiB of memory{}\n", needed / kGib,
             arguments.device == "cpu" ? fmt::format(", {:.2f} GiB are free", available / kGib) : "");
  if (arguments.device == "cpu") expect_to_fit(needed, available);
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
    lacuna::train::use_best_blas_kernels(argv);
    lacuna::train::keep_freed_memory();
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
