
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/gguf.h"
#include "base/rng.h"
#include "base/written_file.h"
#include "commands.h"
#include "engine/logits.h"
#include "loading.h"
#include "model/families.h"
#include "model/read_config.h"
#include "numbers.h"
#include "progress_bar.h"
#include "terminal.h"
#include "weights/checkpoint.h"
#include "weights/quantized_tensors.h"
#include "weights/shard_writer.h"
#include "words.h"
#include "written_model.h"

namespace lacuna {
namespace {

namespace fs = std::filesystem;

struct QuantizeFlags : ModelFlags {
  std::string to;
  std::string out;
  uint64_t seed = 0;
  int32_t tokens = 64;
  bool json = false;
};

/// Size and error of the quantized weights.
struct WeightReport {
  double squared_error = 0;
  double squared_weights = 0;
  double worst = 0;  ///< relative error of one matrix
  std::string worst_module;
  int64_t matrices = 0;
  int64_t bytes_before = 0;
  int64_t bytes_after = 0;

  double relative_error() const {
    return squared_weights > 0 ? std::sqrt(squared_error / squared_weights) : 0;
  }

  void add(const std::string& module, const QuantizedTensors& quantized) {
    ++matrices;
    squared_error += quantized.squared_error;
    squared_weights += quantized.squared_weights;
    const double relative =
        quantized.squared_weights > 0 ? std::sqrt(quantized.squared_error / quantized.squared_weights) : 0;
    if (relative <= worst) return;
    worst = relative;
    worst_module = module;
  }
};

/// Difference of the outputs from the original's.
struct LogitReport {
  double mean_kl = 0;  ///< mean KL divergence from the original's posteriors, in nats
  double largest_kl = 0;
  double same_best = 0;  ///< share of rows with the same most likely token
};

/// Modules that are not projections of a layer.
struct SpecialModules {
  std::set<std::string, std::less<>> ends;     ///< embedding and head
  std::set<std::string, std::less<>> routers;  ///< routers and other small matrices, which stay unquantized

  explicit SpecialModules(const ModelConfig& config) {
    const TensorNames& names = family_entry(config.family).tensors;
    ends = {std::string(names.embedding), std::string(names.head)};
    for (int64_t layer = 0; layer < config.num_layers; ++layer) {
      const LayerTensorNames layer_names = names.layer(layer);
      for (const std::string& name : {layer_names.router, layer_names.k_sink, layer_names.v_sink})
        routers.insert(name);
    }
  }
};

WeightReport quantize_weights(const Checkpoint& checkpoint, const ModelConfig& config,
                              const WeightFormats& formats, const fs::path& folder, ThreadPool& threads) {
  const SpecialModules special(config);
  constexpr std::string_view kWeight = ".weight";
  WeightReport report;
  ShardWriter writer(folder);
  ProgressBar bar("Quantizing");
  int64_t done = 0;
  for (const std::string_view name : checkpoint.names()) {
    const RawTensor raw = checkpoint.raw(name);
    done += static_cast<int64_t>(raw.bytes.size());
    const bool is_matrix = name.ends_with(kWeight) && raw.shape.size() == 2;
    const std::string module(name.substr(0, is_matrix ? name.size() - kWeight.size() : name.size()));
    const auto& wanted = special.ends.contains(module) ? formats.embedding : formats.layers;
    if (is_matrix && !special.routers.contains(module) && wanted && wanted->is_quantized()) {
      const auto matrix = checkpoint.matrix(module, raw.shape[0], raw.shape[1]);
      const auto quantized = std::make_shared<const QuantizedTensors>(
          quantize_tensors(threads, wanted->quantization, module, *matrix, raw.shape[0], raw.shape[1]));
      report.add(module, *quantized);
      writer.add({quantized->tensors, quantized});
    } else {
      const TensorView view = checkpoint.tensor(name, raw.shape);
      writer.add({{{std::string(name), view.dtype, raw.shape, view.bytes}}, raw.mapping});
    }
    bar.update(done, checkpoint.total_bytes());
  }
  writer.finish();
  report.bytes_before = checkpoint.total_bytes();
  report.bytes_after = writer.total_bytes();
  return report;
}

void write_config(const fs::path& from, const fs::path& to, const QuantizeFlags& flags) {
  nlohmann::ordered_json config = read_config_json(from);
  config["quantization_config"] = {{"quant_method", "lacuna"},
                                   {"version", 1},
                                   {"weights", flags.to},
                                   {"head_weights", flags.head_weights}};
  if (flags.paradigm != "auto") config["lacuna"] = {{"paradigm", flags.paradigm}};
  write_whole_file(to / "config.json", config.dump(2) + '\n');
}

/// Random tokens, half of them masks where the model has one.
std::vector<TokenId> seeded_prompt(const ModelConfig& config, uint64_t seed, int32_t count) {
  const RngStream random(seed);
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < count; ++i) {
    const uint64_t bits = random.bits(static_cast<uint64_t>(i));
    const bool is_mask = config.mask_id >= 0 && bits >> 63U != 0;
    tokens.push_back(
        is_mask ? config.mask_id
                : static_cast<TokenId>((bits & 0xffffffffU) % static_cast<uint64_t>(config.vocab_size)));
  }
  return tokens;
}

/// Computes the logits of all tokens: [tokens, vocabulary].
Buffer<float> logits_of(const LoadedModel& loaded, const std::vector<TokenId>& tokens) {
  const ModelConfig& config = loaded.model->config();
  const StepPlan plan = logits_plan(config, tokens);
  const int64_t rows = plan.num_rows();
  Buffer<float> logits(rows * config.vocab_size);
  compute_logits(*loaded.model, plan, {logits.data(), rows, config.vocab_size});
  return logits;
}

std::vector<double> log_softmax(const float* logits, int64_t count) {
  const double largest = *std::max_element(logits, logits + count);
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += std::exp(logits[i] - largest);
  std::vector<double> result(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) result[static_cast<size_t>(i)] = logits[i] - largest - std::log(sum);
  return result;
}

LogitReport compare_logits(const Buffer<float>& original, const Buffer<float>& quantized, int64_t rows,
                           int64_t vocab) {
  LogitReport report;
  for (int64_t row = 0; row < rows; ++row) {
    const std::vector<double> p = log_softmax(original.data() + row * vocab, vocab);
    const std::vector<double> q = log_softmax(quantized.data() + row * vocab, vocab);
    double kl = 0;
    for (size_t i = 0; i < p.size(); ++i) kl += std::exp(p[i]) * (p[i] - q[i]);
    const auto best = [](const std::vector<double>& values) {
      return std::max_element(values.begin(), values.end()) - values.begin();
    };
    report.mean_kl += kl / static_cast<double>(rows);
    report.largest_kl = std::max(report.largest_kl, kl);
    if (best(p) == best(q)) report.same_best += 1 / static_cast<double>(rows);
  }
  return report;
}

LogitReport check_logits(const QuantizeFlags& flags, const ModelSource& source) {
  const std::vector<TokenId> tokens = seeded_prompt(source.config, flags.seed, flags.tokens);
  ModelFlags plain = flags;
  plain.weights = "auto";
  plain.head_weights = "auto";
  // One model at a time: both may be large.
  const auto run = [&](const std::string& name, const ModelSource& model) {
    plain.model = name;
    return logits_of(load_model(plain, model), tokens);
  };
  const Buffer<float> original = run(flags.model, source);
  const Buffer<float> quantized = run(flags.out, {flags.out, read_config(flags.out, config_choices(flags))});
  return compare_logits(original, quantized, flags.tokens, source.config.vocab_size);
}

void quantize(QuantizeFlags flags) {
  const ModelSource source = find_model(flags);
  if (source.folder.empty() || GgufFile::is_gguf(source.folder)) {
    throw InputError("--model {}: expected a folder with config.json and *.safetensors", flags.model);
  }
  flags.weights = flags.to;
  flags.tokens = static_cast<int32_t>(std::min<int64_t>(flags.tokens, source.config.max_positions));
  const WeightFormats formats = weight_formats(flags, source);
  expect_new_folder(flags.out);
  const Checkpoint checkpoint = Checkpoint::open(source.folder);
  if (checkpoint.quantization()) {
    throw InputError(
        "--model {}: is quantized already, by {}; expected the original (lacuna pack writes a copy of this "
        "one)",
        flags.model, name_of(checkpoint.quantization()->method));
  }
  for (const std::string_view name : checkpoint.names()) {
    if (name.ends_with(kCodesSuffix))
      throw InputError("--model {}: is quantized already; expected the original", flags.model);
  }
  if (checkpoint.is_packed())
    throw InputError("--model {}: is a packed copy; expected the original", flags.model);
  const fs::path out(flags.out);
  make_folder(flags.out);

  ThreadPool threads(flags.threads);
  const WeightReport weights = quantize_weights(checkpoint, source.config, formats, out, threads);
  copy_companions(source.folder, out);
  // Written last: without config.json the folder is not a model.
  write_config(source.folder, out, flags);
  const LogitReport logits = check_logits(flags, source);
  if (flags.json) {
    const nlohmann::ordered_json report{{"model", flags.model},
                                        {"out", flags.out},
                                        {"weights", flags.to},
                                        {"head_weights", flags.head_weights},
                                        {"matrices", weights.matrices},
                                        {"bytes_before", weights.bytes_before},
                                        {"bytes_after", weights.bytes_after},
                                        {"relative_error", weights.relative_error()},
                                        {"worst_relative_error", weights.worst},
                                        {"worst_matrix", weights.worst_module},
                                        {"tokens", flags.tokens},
                                        {"kl_mean", logits.mean_kl},
                                        {"kl_max", logits.largest_kl},
                                        {"same_best_token", logits.same_best}};
    print_data("{}\n", report.dump());
    return;
  }
  print_text("{}: {} matrices as {}, {:.1f} MiB (was {:.1f})\n", flags.out, weights.matrices, flags.to,
             static_cast<double>(weights.bytes_after) / kMebi,
             static_cast<double>(weights.bytes_before) / kMebi);
  print_text("relative error of weights {:.4f}, at most {:.4f} ({})\n", weights.relative_error(),
             weights.worst, weights.worst_module);
  print_text(
      "KL of logits on {} random tokens: {:.2e} nats a row, at most {:.2e}; {:.1f}% of rows keep their best "
      "token\n",
      flags.tokens, logits.mean_kl, logits.largest_kl, 100 * logits.same_best);
}

}  // namespace

void add_quantize_command(CLI::App& program) {
  auto flags = std::make_shared<QuantizeFlags>();
  CLI::App* command = program.add_subcommand(
      "quantize", "Write a copy of a model with quantized weights, and measure what that changes");
  CLI::Option* const model = command->add_option("-m,--model", flags->model,
                                                 "A checkpoint folder, a name under models/ or org/name");
  add_model_word(*command, *model->required());
  const std::vector<std::string> quantized = quantized_format_names();
  command->add_option("--to", flags->to, "Format of the weights of layers")
      ->required()
      ->check(CLI::IsMember(quantized));
  std::vector<std::string> for_head = quantized;
  for_head.insert(for_head.begin(), "auto");
  command
      ->add_option("--head-weights", flags->head_weights,
                   "Format of embedding and head (default auto: they stay as they are)")
      ->check(CLI::IsMember(for_head));
  command->add_option("-o,--out", flags->out, "A new folder")->required();
  command
      ->add_option("--seed", flags->seed,
                   "Seed of the random tokens on which logits are compared (default 0)")
      ->check(number<uint64_t>());
  command
      ->add_option("--tokens", flags->tokens,
                   "Number of random tokens, at most the model's positions (default 64)")
      ->check(CLI::Range(1, 4096));
  add_config_flags(*command, *flags);
  add_threads_flag(*command, flags->threads);
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags] { quantize(*flags); });
}

}  // namespace lacuna
