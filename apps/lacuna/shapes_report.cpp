#include "shapes_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lacuna {
namespace {

class ShapesPage : private PageWriter {
 public:
  ShapesPage(const ShapesGrid& grid, const Measure& measure) : PageWriter(measure), grid_(grid) {}

  std::vector<PageFile> write() {
    steps();
    decodes();
    if (!grid_.whole.empty()) whole();
    if (!grid_.loads.empty()) loads();
    if (!grid_.beside_ggml.empty()) beside_ggml();
    return files("shapes.md", introduction());
  }

 private:
  std::string step_command(const std::string& model, int canvas, const std::vector<int>& rows) const {
    return fmt::format("{}-m {} --canvas {} --rows {} --repeat 3{} --json", kStepBenchCommand, model, canvas,
                       fmt::join(rows, ","), grid_.common_flags);
  }

  void steps() {
    heading("A step costs what its rows cost");
    paragraph(
        "One denoising step that computes some rows of a canvas; each attends to all of it, and a token is "
        "drawn for "
        "each. What is neither a product nor attention is norms and activations, which pack their rows, "
        "rotations, draws and the rest.");
    for (const ShapesGrid::Steps& each : grid_.steps) {
      const std::string command = step_command(grid_.model, each.canvas, each.rows);
      Table result({fmt::format("rows of {}", each.canvas), "seconds", "GFLOP/s", "FLOPs beside all rows",
                    "time beside all rows", "neither product nor attention"});
      const nlohmann::json found = printed(command);
      for (const nlohmann::json& row : found.at("results")) {
        const auto number = [&](const char* key) { return row.at(key).get<double>(); };
        result.row({fmt::format("{}", row.at("rows").get<int>()),
                    fmt::format("{:.3f}", number("seconds_median")), fmt::format("{:.0f}", number("gflops")),
                    fmt::format("{:.3f}", number("flops_ratio")), fmt::format("{:.3f}", number("time_ratio")),
                    percent(number("other_share"))});
      }
      table(result);
      paragraph(code(command));
    }
  }

  void decodes() {
    heading("Whole decodes");
    paragraph(
        "Estimated from passes that are spread over the decode, computed and timed in turn with those of the "
        "plain "
        "decoder. Posteriors are made up: random weights neither converge nor agree. SureLock's rows settle "
        "two passes "
        "after their token was read and then wait for the gate, an assumption (`--settle-passes`); the "
        "paper's come from "
        "a real model. FlashDLM does not say which cache block its tables used; its prompts hold eight "
        "examples, about "
        "as long as here. Fewer layers than the published models have, so that the head weighs more.");
    Table result({"method", "rows", "FLOPs", "time", "speed-up", "the paper", "command"});
    for (const ShapesGrid::Decode& each : grid_.decodes) {
      const std::string command = fmt::format("{}{}{}", kDecodeBenchCommand, each.flags, grid_.common_flags);
      const DecodeComparison of = compare_decodes(command);
      result.row({each.name,
                  fmt::format("{:.3f}", static_cast<double>(of.rows) / static_cast<double>(of.plain_rows)),
                  fmt::format("{:.3f}", of.flops_ratio), fmt::format("{:.3f}", of.time_ratio),
                  times(1 / of.time_ratio), each.paper, code(command)});
    }
    table(result);
    paragraph(
        "[ReFusion](refusion.md), [Uniform-Cache](uniform.md) and [sparse attention](mage.md) have their "
        "decodes on their "
        "own pages. Nothing was measured about a guide: how often a random one agrees says nothing.");
  }

  void whole() {
    heading("All layers");
    const std::string step = step_command(grid_.whole, grid_.whole_canvas, {grid_.whole_canvas});
    const nlohmann::json found = printed(step);
    const nlohmann::json& row = found.at("results").at(0);
    const double seconds = row.at("seconds_median").get<double>();
    const double bytes = found.at("most_resident_bytes").get<double>();
    const double kernels = (row.at("products").get<double>() + row.at("head").get<double>() +
                            row.at("attention").get<double>()) /
                           seconds;
    Table result({"", "", "command"});
    result.row({fmt::format("a pass over {} rows", grid_.whole_canvas),
                fmt::format("{:.2f} s, {:.0f} GFLOP/s, {} of it products and attention", seconds,
                            row.at("gflops").get<double>(), percent(kernels)),
                code(step)});
    result.row(
        {"the most memory, loading included", fmt::format("{:.1f} GiB", bytes / (1 << 30)), code(step)});
    const std::string decode = fmt::format("{}-m {} --prompt-length 32 --gen-length 64 --steps 16{}",
                                           kDecodeBenchCommand, grid_.whole, grid_.common_flags);
    const auto of_decode = printed(decode).at("plain").at("seconds").get<double>();
    result.row(
        {"64 tokens behind 32 in 16 steps, no cache", fmt::format("{:.1f} s", of_decode), code(decode)});
    table(result);
  }

  void loads() {
    heading("Loading");
    paragraph(
        "Files in the system's cache: a GGUF file of LLaDA-8B's shape with 8 layers in bf16, and its copy by "
        "`lacuna pack`, whose matrices are mapped. First use brings in every page, as the first pass does, "
        "and the most "
        "memory counts it.");
    Table result({"GiB on disk", "loading", "first use", "the most memory", "command"});
    for (const std::string& model : grid_.loads) {
      const std::string command = fmt::format("lacuna bench load -m {}{} --json", model, grid_.common_flags);
      const nlohmann::json found = printed(command);
      const auto number = [&](const char* key) { return found.at(key).get<double>(); };
      constexpr double kGib = 1 << 30;
      result.row({fmt::format("{:.2f}", number("file_bytes") / kGib),
                  fmt::format("{:.3f} s", number("seconds_median")),
                  fmt::format("{:.3f} s", number("first_use_seconds_median")),
                  fmt::format("{:.2f} GiB", number("peak_bytes") / kGib), code(command)});
    }
    table(result);
  }

  void beside_ggml() {
    heading("Beside a ggml-based program");
    const nlohmann::json found = printed(grid_.beside_ggml);
    paragraph(
        fmt::format("llama.cpp {} and Lacuna on the same files of LLaDA-8B's shape with {} layers and random "
                    "weights: a forward pass "
                    "over {} rows with the logits of all, in turns, {} threads. bench/beside_ggml.py builds "
                    "llama.cpp for this "
                    "machine, with one line mended: as it is, its AMX kernels fault when GCC 12 compiled "
                    "them. ggml has AMX kernels "
                    "for 8 bits, which also round rows to 8 bits, and AVX-512 ones for bf16.",
                    found.at("llama_cpp").get<std::string>(), found.at("layers").get<int>(),
                    found.at("rows").get<int>(), found.at("threads").get<int>()));
    Table result({"weights", "Lacuna", "llama.cpp", "times as fast"});
    for (const nlohmann::json& row : found.at("results")) {
      const auto number = [&](const char* key) { return row.at(key).get<double>(); };
      result.row({row.at("weights").get<std::string>(),
                  fmt::format("{:.3f} s, {:.0f} GFLOP/s", number("lacuna_seconds"), number("lacuna_gflops")),
                  fmt::format("{:.3f} s, {:.0f} GFLOP/s", number("ggml_seconds"), number("ggml_gflops")),
                  times(number("ratio"))});
    }
    table(result);
    paragraph(code(grid_.beside_ggml));
  }

  std::string introduction() const {
    return fmt::format(R"(# Speed at published shapes

Random weights. Written by `make results` (`lacuna report shapes`) from the raw rows in `shapes.jsonl`, each with the command
that gives it.

- Machine: {}.
- Commit: {}.
- Times are by the clock, medians; read the ratios.
)",
                       machines(), commits());
  }

  const ShapesGrid& grid_;
};

}  // namespace

std::vector<ShapesGrid::Decode> published_decodes() {
  const std::string lock = "--prompt-length 143 --gen-length 1024 --lock eps=5e-3,gate=20";
  const std::string free = "--prompt-length 1024 --gen-length 256 --cache free";
  return {{"SureLock, batch 1", "-m random:llada-8b,layers=2 " + lock + " --timed-passes 4",
           "FLOPs of the layers 0.492 (Table 1); time only as a figure without numbers"},
          {"SureLock, batch 4", "-m random:llada-8b,layers=1 --batch 4 " + lock + " --timed-passes 2",
           "the same"},
          {"FreeCache, cache blocks of 32",
           "-m random:dream-7b,layers=14 --block-length 32 " + free + " --timed-passes 2",
           "Dream-7B 4.42, LLaDA-8B 6.20 to 6.32 (GSM8K)"},
          {"FreeCache, one cache block of 256", "-m random:dream-7b,layers=4 " + free + " --timed-passes 4",
           "the same"}};
}

std::vector<PageFile> write_shapes_page(const ShapesGrid& grid, const Measure& measure) {
  return ShapesPage(grid, measure).write();
}

}  // namespace lacuna
