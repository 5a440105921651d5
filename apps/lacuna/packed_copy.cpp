#include "packed_copy.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/gguf.h"
#include "base/written_file.h"
#include "model/adapters.h"
#include "model/gguf_model.h"
#include "progress_bar.h"
#include "terminal.h"
#include "tokenizer/tokenizer.h"
#include "weights/panel_tensors.h"
#include "weights/shard_writer.h"
#include "written_model.h"

namespace lacuna {
namespace {

namespace fs = std::filesystem;

PackReport pack_weights(const ModelSource& source, const WeightFormats& formats, const fs::path& folder,
                        ThreadPool& threads) {
  const std::unique_ptr<WeightSource> weights = open_weights(source.folder, source.config);
  ShardWriter writer(folder);
  PackReport report;
  ProgressBar bar("Packing");
  pack_parameters(
      source.config, *weights, formats, threads,
      [&](int64_t done, int64_t total) { bar.update(done, total); },
      [&](HeldTensors held) {
        for (const TensorToWrite& tensor : held.tensors) {
          if (!tensor.name.ends_with(kPanelsSuffix)) continue;
          ++report.matrices;
          report.panel_bytes += std::ssize(tensor.bytes);
        }
        writer.add(std::move(held));
      });
  writer.finish();
  report.bytes = writer.total_bytes();
  return report;
}

/// The folder's config.json, or one made from GGUF metadata with the end tokens of the GGUF tokenizer.
nlohmann::ordered_json config_of(const ModelSource& source) {
  if (!GgufFile::is_gguf(source.folder)) return read_config_json(source.folder);
  auto config = nlohmann::ordered_json::parse(gguf_config_text(GgufFile::open(source.folder)));
  auto& ends = config["eos_token_id"] = nlohmann::ordered_json::array();
  if (source.config.eos_id >= 0) ends.push_back(source.config.eos_id);
  for (const TokenId id : source.config.end_ids) {
    if (id != source.config.eos_id) ends.push_back(id);
  }
  return config;
}

void copy_texts(const ModelSource& source, const fs::path& folder) {
  if (!GgufFile::is_gguf(source.folder)) return copy_companions(source.folder, folder);
  const GgufFile file = GgufFile::open(source.folder);
  if (!has_gguf_tokenizer(file)) return;
  const TokenizerTexts texts = gguf_tokenizer_texts(file);
  write_whole_file(folder / "tokenizer.json", texts.tokenizer);
  write_whole_file(folder / "tokenizer_config.json", texts.tokenizer_config);
}

void write_texts(const ModelSource& source, const WeightFormats& formats, const fs::path& folder) {
  nlohmann::ordered_json config = config_of(source);
  config["quantization_config"] = {{"quant_method", "lacuna-packed"},
                                   {"version", kPanelVersion},
                                   {"dtype", name_of(formats.dtype)},
                                   {"names", source.config.gguf_names ? "gguf" : "published"}};
  if (source.chosen_paradigm) config["lacuna"] = {{"paradigm", name_of(*source.chosen_paradigm)}};
  copy_texts(source, folder);
  // Written last: without config.json the folder is not a model.
  write_whole_file(folder / "config.json", config.dump(2) + '\n');
}

/// Name of `format`, such as "int8", or of `dtype` if `format` is empty.
std::string name_of_format(const std::optional<WeightFormat>& format, DType dtype) {
  return format ? describe(*format) : std::string(name_of(dtype));
}

}  // namespace

PackReport write_packed_copy(const ModelSource& source, const WeightFormats& formats, const fs::path& folder,
                             ThreadPool& threads) {
  const PackReport report = pack_weights(source, formats, folder, threads);
  write_texts(source, formats, folder);
  return report;
}

fs::path cached_copy(const fs::path& cache, const ModelSource& source, const WeightFormats& formats) {
  return cache / fmt::format("{}-{}-{}-{}-{}", fingerprint_of(source.folder, source.config.adapters),
                             name_of(formats.dtype), name_of_format(formats.layers, formats.dtype),
                             name_of_format(formats.embedding, formats.dtype), kPanelVersion);
}

bool ensure_cached_copy(const fs::path& copy, const ModelSource& source, const WeightFormats& formats,
                        ThreadPool& threads) {
  std::error_code ignored;
  if (fs::is_regular_file(copy / "config.json", ignored)) return true;
  const fs::path unfinished = fmt::format("{}.{}", copy.string(), getpid());
  try {
    fs::create_directories(unfinished, ignored);
    if (!fs::is_directory(unfinished, ignored))
      throw InputError("{}: cannot create the folder", unfinished.string());
    write_packed_copy(source, formats, unfinished, threads);
  } catch (const InputError& error) {
    fs::remove_all(unfinished, ignored);
    print_message("lacuna: --pack-cache: no copy was written: {}\n", error.what());
    return false;
  }
  std::error_code error;
  fs::rename(unfinished, copy, error);
  if (error) fs::remove_all(unfinished, ignored);  // another process was faster
  return fs::is_regular_file(copy / "config.json", ignored);
}

}  // namespace lacuna
