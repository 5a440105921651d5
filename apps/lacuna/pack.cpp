
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "commands.h"
#include "loading.h"
#include "packed_copy.h"
#include "terminal.h"
#include "words.h"
#include "written_model.h"

namespace lacuna {
namespace {

struct PackFlags : ModelFlags {
  std::string out;
  bool json = false;

  PackFlags() { device = "cpu"; }  // the packed layout is the CPU's
};

void pack_model(const PackFlags& flags) {
  const ModelSource source = find_model(flags);
  if (source.folder.empty())
    throw InputError("--model {}: expected a checkpoint folder or a .gguf file", flags.model);
  const WeightFormats formats = weight_formats(flags, source);
  make_folder(flags.out);
  ThreadPool threads(flags.threads);
  const PackReport report = write_packed_copy(source, formats, flags.out, threads);
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
