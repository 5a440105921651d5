#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/gguf.h"
#include "base/written_file.h"
#include "commands.h"
#include "loading.h"
#include "model/adapters.h"
#include "model/gguf_model.h"
#include "model/parameters.h"
#include "progress_bar.h"
#include "terminal.h"
#include "tokenizer/tokenizer.h"
#include "weights/panel_tensors.h"
#include "weights/shard_writer.h"
#include "words.h"
#include "written_model.h"

namespace lacuna {
namespace {

namespace fs = std::filesystem;

struct PackFlags : ModelFlags {
  std::string out;
  bool json = false;

  PackFlags() { device = "cpu"; }  // whose layout it is
};

struct PackReport {
  int64_t matrices = 0;
  int64_t panel_bytes = 0;
  int64_t bytes = 0;  ///< of all tensors
};

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

/// The folder's own file, or what the metadata of a GGUF file says it: there, tokens that end an answer are
/// named by the tokenizer alone.
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
  // Last: without it the folder is not a model.
  write_whole_file(folder / "config.json", config.dump(2) + '\n');
}

void pack_model(const PackFlags& flags) {
  const ModelSource source = find_model(flags);
  if (source.folder.empty())
    throw InputError("--model {}: expected a checkpoint folder or a .gguf file", flags.model);
  const WeightFormats formats = weight_formats(flags, source);
  expect_new_folder(flags.out);
  make_folder(flags.out);
  ThreadPool threads(flags.threads);
  const PackReport report = pack_weights(source, formats, flags.out, threads);
  write_texts(source, formats, flags.out);
  if (flags.json) {
    print_data("{}\n", nlohmann::ordered_json{{"model", flags.model},
                                              {"out", flags.out},
                                              {"dtype", name_of(formats.dtype)},
                                              {"weights", flags.weights},
                                              {"head_weights", flags.head_weights},
                                              {"matrices", report.matrices},
                                              {"panel_bytes", report.panel_bytes},
                                              {"bytes", report.bytes}}
                           .dump());
    return;
  }
  constexpr double kMebi = 1 << 20;
  print_text("{}: {} matrices in panels, {:.1f} MiB; norms and biases {:.1f} MiB\n", flags.out,
             report.matrices, static_cast<double>(report.panel_bytes) / kMebi,
             static_cast<double>(report.bytes - report.panel_bytes) / kMebi);
}

}  // namespace

void add_pack_command(CLI::App& program) {
  auto flags = std::make_shared<PackFlags>();
  CLI::App* command = program.add_subcommand(
      "pack", "Write a copy of a model that is ready for the machine: loading maps it and copies nothing");
  CLI::Option* const model = command->add_option(
      "-m,--model", flags->model, "A checkpoint folder, a .gguf file, a name under models/ or org/name");
  add_model_word(*command, *model->required());
  command->add_option("-o,--out", flags->out, "A new folder")->required();
  add_format_flags(*command, *flags);
  add_config_flags(*command, *flags);
  add_threads_flag(*command, flags->threads);
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags] { pack_model(*flags); });
}

}  // namespace lacuna
