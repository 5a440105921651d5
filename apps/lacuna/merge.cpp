
#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/gguf.h"
#include "base/threads.h"
#include "base/written_file.h"
#include "commands.h"
#include "loading.h"
#include "model/adapters.h"
#include "model/families.h"
#include "model/tensor_places.h"
#include "progress_bar.h"
#include "terminal.h"
#include "weights/checkpoint.h"
#include "weights/shard_writer.h"
#include "written_model.h"

namespace lacuna {
namespace {

namespace fs = std::filesystem;

struct MergeFlags : ModelFlags {
  std::string out;
  bool json = false;
};

struct MergeReport {
  int64_t matrices = 0;  ///< matrices that adapters change
  int64_t vectors = 0;   ///< likewise
  int64_t dequantized = 0;
  int64_t bytes = 0;
};

/// Element type of a recomputed tensor: f16 can only be read and becomes bf16.
DType written_type(DType stored) {
  return stored == DType::kF16 ? DType::kBF16 : stored;
}

/// Converts values to f32 or bf16 bytes.
std::vector<std::byte> as_type(std::span<const float> values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * size_of(dtype));
  const auto store = [&]<typename T>(T* out) {
    for (size_t i = 0; i < values.size(); ++i) out[i] = T(values[i]);
  };
  if (dtype == DType::kF32) {
    store(reinterpret_cast<float*>(bytes.data()));
  } else {
    store(reinterpret_cast<bf16*>(bytes.data()));
  }
  return bytes;
}

/// Writes the tensors of a checkpoint, with adapters merged and quantized tensors dequantized.
class Merger {
 public:
  Merger(const ModelSource& source, const fs::path& out, const std::string& dtype, ThreadPool& threads)
      : config_(source.config),
        checkpoint_(Checkpoint::open(source.folder)),
        merged_(merge_adapters(std::make_unique<Checkpoint>(Checkpoint::open(source.folder)), config_)),
        threads_(threads),
        writer_(out) {
    for (const VectorPlace& place : vector_places(config_, family_entry(config_.family).tensors))
      vectors_.insert(place.tensor);
    if (dtype == "f32") dtype_ = DType::kF32;
    if (dtype == "bf16") dtype_ = DType::kBF16;
  }

  MergeReport write() {
    write_matrices();
    for (const std::string_view name : checkpoint_.names()) {
      if (!done_.contains(name)) copy(name);
    }
    writer_.finish();
    report_.bytes = writer_.total_bytes();
    return report_;
  }

 private:
  void write_matrices() {
    const TensorNames names = family_entry(config_.family).tensors;
    const HoldsTensor holds = [&](const std::string& tensor) { return checkpoint_.contains(tensor); };
    const std::vector<MatrixPlace> places = matrix_places(config_, names, holds);
    ProgressBar bar("Merging");
    std::set<std::string> seen;
    for (size_t i = 0; i < places.size(); ++i) {
      const MatrixPlace& place = places[i];
      const bool is_tied_head = place.key == "head" && config_.tied_embeddings;
      if (!is_tied_head && seen.insert(place.module).second) write_matrix(place);
      bar.update(static_cast<int64_t>(i) + 1, std::ssize(places));
    }
  }

  /// Names of the tensors that store a module's matrix: one, or several if it is quantized.
  std::vector<std::string> stored_as(const std::string& module) const {
    std::vector<std::string> tensors;
    for (const std::string_view name : checkpoint_.names()) {
      const bool is_own = name == module || (name.starts_with(module) && name[module.size()] == '.');
      if (is_own && name != module + ".bias" && !vectors_.contains(name)) tensors.emplace_back(name);
    }
    return tensors;
  }

  void write_matrix(const MatrixPlace& place) {
    const std::string& module = place.module;
    const std::unique_ptr<StoredMatrix> stored = merged_->matrix(module, place.total, place.inputs);
    std::vector<std::string> tensors = stored_as(module);
    const bool is_dense = tensors.size() == 1 && is_dense_tensor(tensors.front());
    const bool is_changed = merged_->changes(module);
    if (is_dense && !is_changed && !dtype_) return;  // copied as it is
    TensorToWrite tensor{module + ".weight", DType::kBF16, {place.total, place.inputs}, {}};
    if (is_dense) {
      const RawTensor raw = checkpoint_.raw(tensors.front());
      tensor.name = tensors.front();
      tensor.dtype = written_type(checkpoint_.tensor(tensors.front(), raw.shape).dtype);
      tensor.shape = raw.shape;
    }
    if (tensors.empty()) {  // a head that was tied to the embedding
      const std::vector<std::string> embedding =
          stored_as(std::string(family_entry(config_.family).tensors.embedding));
      if (embedding.size() == 1 && is_dense_tensor(embedding.front()))
        tensor.dtype = written_type(
            checkpoint_.tensor(embedding.front(), checkpoint_.raw(embedding.front()).shape).dtype);
    }
    if (dtype_) tensor.dtype = *dtype_;
    const auto bytes = std::make_shared<std::vector<std::byte>>(
        static_cast<size_t>(place.total * place.inputs) * size_of(tensor.dtype));
    read_rows(*stored, place, tensor.dtype, *bytes);
    tensor.bytes = *bytes;
    writer_.add({{tensor}, bytes});
    for (std::string& name : tensors) done_.insert(std::move(name));
    report_.matrices += is_changed ? 1 : 0;
    report_.dequantized += is_dense || tensors.empty() ? 0 : 1;
    merged_->release_pages();
  }

  bool is_dense_tensor(const std::string& name) const {
    const std::string type = checkpoint_.raw(name).type;
    return type == "F32" || type == "F16" || type == "BF16";
  }

  void read_rows(const StoredMatrix& stored, const MatrixPlace& place, DType dtype,
                 std::vector<std::byte>& bytes) const {
    const auto row_bytes = static_cast<size_t>(place.inputs) * size_of(dtype);
    std::atomic<int64_t> infinite{-1};
    threads_.parallel_for(place.total, [&](int64_t n, int /*thread*/) {
      std::vector<float> row(static_cast<size_t>(place.inputs));
      stored.read(n, row.data());
      const auto is_finite = [](float value) { return std::isfinite(value); };
      if (!std::all_of(row.begin(), row.end(), is_finite)) infinite = n;
      const std::vector<std::byte> own = as_type(row, dtype);
      std::copy(own.begin(), own.end(), bytes.begin() + static_cast<std::ptrdiff_t>(row_bytes) * n);
    });
    if (infinite >= 0) {
      throw InputError("{}: row {} has a weight that is infinite or NaN; expected finite weights",
                       stored.place(), infinite.load());
    }
  }

  /// Writes a tensor that is not a matrix of the model, or is an unchanged one.
  void copy(std::string_view name) {
    const RawTensor raw = checkpoint_.raw(name);
    const bool is_changed = merged_->changes_values(name);
    if (!is_changed && !(dtype_ && is_dense_tensor(std::string(name)))) {
      TensorToWrite tensor{std::string(name), DType::kF32, raw.shape, raw.bytes};
      if (is_dense_tensor(tensor.name)) {
        tensor.dtype = checkpoint_.tensor(name, raw.shape).dtype;
      } else {
        types_.push_back(std::make_unique<std::string>(raw.type));
        tensor.type = *types_.back();
      }
      writer_.add({{tensor}, raw.mapping});
      return;
    }
    const TensorView view = checkpoint_.tensor(name, raw.shape);
    const DType dtype = dtype_.value_or(written_type(view.dtype));
    const auto bytes =
        std::make_shared<std::vector<std::byte>>(as_type(merged_->values(name, raw.shape), dtype));
    writer_.add({{{std::string(name), dtype, raw.shape, *bytes}}, bytes});
    report_.vectors += is_changed ? 1 : 0;
  }

  const ModelConfig& config_;
  Checkpoint checkpoint_;
  std::unique_ptr<AdaptedWeights> merged_;
  ThreadPool& threads_;
  ShardWriter writer_;
  std::optional<DType> dtype_;                  // empty: each tensor keeps its own
  std::set<std::string, std::less<>> vectors_;  // vectors of the model, except biases of matrices
  std::set<std::string, std::less<>> done_;
  std::vector<std::unique_ptr<std::string>> types_;
  MergeReport report_;
};

void write_config(const ModelSource& source, const MergeFlags& flags, bool is_dense_copy) {
  nlohmann::ordered_json config = read_config_json(source.folder);
  if (source.config.head_from_embedding_matrix)
    config[config.contains("weight_tying") ? "weight_tying" : "tie_word_embeddings"] = false;
  if (is_dense_copy) {
    config.erase("quantization_config");
    config.erase("quantization");
  }
  if (flags.dtype != "auto" || is_dense_copy) {
    const char* const key = config.contains("dtype") ? "dtype" : "torch_dtype";
    config[key] = flags.dtype == "f32" ? "float32" : "bfloat16";
  }
  if (source.chosen_paradigm) config["lacuna"] = {{"paradigm", name_of(*source.chosen_paradigm)}};
  write_whole_file(fs::path(flags.out) / "config.json", config.dump(2) + '\n');
}

void merge(const MergeFlags& flags) {
  const ModelSource source = find_model(flags);
  if (source.folder.empty() || GgufFile::is_gguf(source.folder)) {
    throw InputError("--model {}: expected a folder with config.json and *.safetensors", flags.model);
  }
  if (Checkpoint::open(source.folder).is_packed())
    throw InputError("--model {}: is a packed copy; expected the original", flags.model);
  make_folder(flags.out);
  ThreadPool threads(flags.threads);
  const MergeReport report = Merger(source, flags.out, flags.dtype, threads).write();
  copy_companions(source.folder, flags.out);
  // Written last: without config.json the folder is not a model.
  write_config(source, flags, report.dequantized > 0);
  if (flags.json) {
    const nlohmann::ordered_json json{{"model", flags.model},
                                      {"adapters", flags.adapters},
                                      {"out", flags.out},
                                      {"dtype", flags.dtype},
                                      {"matrices", report.matrices},
                                      {"vectors", report.vectors},
                                      {"dequantized", report.dequantized},
                                      {"bytes", report.bytes}};
    print_data("{}\n", json.dump());
    return;
  }
  print_text("{}: {} matrices and {} vectors merged, {} dequantized, {:.1f} MiB\n", flags.out,
             report.matrices, report.vectors, report.dequantized, static_cast<double>(report.bytes) / kMebi);
}

}  // namespace

void add_merge_command(CLI::App& program) {
  auto flags = std::make_shared<MergeFlags>();
  CLI::App* command =
      program.add_subcommand("merge", "Write a copy of a model with adapters (LoRA) merged into its weights");
  command->add_option("-m,--model", flags->model, "A checkpoint folder, a name under models/ or org/name")
      ->required();
  add_lora_flag(*command, flags->adapters);
  command->get_option("--lora")->required();
  command->add_option("-o,--out", flags->out, "A new folder")->required();
  command
      ->add_option("--dtype", flags->dtype,
                   "Element type of the copy: auto (of each tensor as stored, bf16 where it is quantized), "
                   "f32 or bf16")
      ->check(CLI::IsMember({"auto", "f32", "bf16"}));
  add_config_flags(*command, *flags);
  add_threads_flag(*command, flags->threads);
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags] { merge(*flags); });
}

}  // namespace lacuna
