#include "cpu_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "bench/attention_bench.h"
#include "bench/load_bench.h"
#include "bench/machine.h"
#include "bench/matmul_bench.h"
#include "bench/step_bench.h"
#include "eval/chart.h"
#include "kernels/dispatch.h"
#include "loading.h"
#include "model/random_spec.h"
#include "numbers.h"
#include "written_model.h"

namespace lacuna {
namespace {

using Json = nlohmann::ordered_json;

struct CpuReportFlags {
  std::string out = "docs/results";
  std::string model = "random:llada-8b,layers=8";
  std::string load = "mini-llada";
  std::vector<int> threads = {1, 2};
  std::string isa;  ///< empty: the machine's widest
  bool quick = false;
  bool only_known = false;
};

std::string page_name(const CpuReportFlags& flags) {
  return flags.isa.empty() ? "cpu" : "cpu_" + flags.isa;
}

/// What is measured.
struct CpuGrid {
  MatmulBenchOptions dense, in_cache, quantised;
  AttentionBenchOptions attention;
  StepBenchOptions steps, quantised_steps;
  LoadBenchOptions load;
};

CpuGrid grid_of(const CpuReportFlags& flags) {
  CpuGrid grid;
  grid.dense.rows = {1, 8, 32, 64, 128, 256, 512, 1024, 2048};
  grid.dense.repeat = 5;
  grid.in_cache = grid.dense;
  grid.in_cache.shapes = {{1024, 1024}};
  grid.in_cache.in_cache = true;
  grid.quantised.shapes = {{4096, 4096}};
  grid.quantised.rows = {1, 2, 4, 8, 16, 32, 64, 512};
  grid.quantised.repeat = 9;
  grid.quantised.formats.clear();
  for (const std::string& name : quantised_format_names()) {
    grid.quantised.formats.push_back(*weight_format(name));
  }
  grid.attention.rows = {1, 32, 256, 1024};
  grid.attention.repeat = 5;
  grid.steps.rows = {1024, 256};
  grid.quantised_steps.rows = {256, 32};
  grid.steps.repeat = grid.quantised_steps.repeat = 3;
  if (flags.quick) {
    grid.dense.shapes = grid.in_cache.shapes = grid.quantised.shapes = {{64, 64}};
    grid.dense.rows = grid.in_cache.rows = grid.quantised.rows = {1, 8};
    grid.dense.in_cache = grid.quantised.in_cache = true;
    grid.dense.rough_roof = grid.in_cache.rough_roof = true;
    grid.quantised.rough_roof = grid.attention.rough_roof = true;
    grid.attention.shape = {2, 1, 16};
    grid.attention.cells = 64;
    grid.attention.rows = {1, 8};
    grid.steps.canvas = grid.quantised_steps.canvas = 64;
    grid.steps.rows = {64, 16};
    grid.quantised_steps.rows = {16, 1};
    grid.dense.repeat = grid.in_cache.repeat = grid.quantised.repeat = grid.attention.repeat = 1;
    grid.steps.repeat = grid.quantised_steps.repeat = 1;
    grid.load.repeat = 1;
  }
  return grid;
}

/// What weights of layers and rows are kept as in whole steps, bf16 first.
std::vector<ModelFlags> quantised_settings(const ModelFlags& flags, const KernelTable& kernels) {
  std::vector<ModelFlags> settings;
  for (const char* weights : {"bf16", "int8", "int4"}) {
    for (const char* activations : {"auto", "int8"}) {
      const Quantisation quantisation = weight_format(weights)->quantisation;
      if (activations != std::string_view("auto") &&
          kernels.whole_rows(quantisation, true) == kernels.whole_rows(quantisation, false))
        continue;
      settings.push_back(flags);
      settings.back().dtype = "bf16";
      settings.back().weights = weights;
      settings.back().activations = activations;
    }
  }
  return settings;
}

std::vector<Json> measure(const CpuReportFlags& flags, const std::string& commit) {
  for (const std::string& model : {flags.model, flags.load}) find_model(model);  // before anything takes long
  make_folder(flags.out);
  CpuGrid grid = grid_of(flags);
  const KernelTable& kernels = default_table();
  ThreadPool threads(*std::max_element(flags.threads.begin(), flags.threads.end()));
  const KernelContext context{kernels, threads};
  const auto say = [](const char* what) { fmt::print(stderr, "{}\n", what); };
  std::vector<Json> rows;
  const auto add = [&](const char* kind, Json json) {
    json["kind"] = kind;
    rows.push_back(std::move(json));
  };
  add("setting", {{"processor", processor_name()},
                  {"cores", std::thread::hardware_concurrency()},
                  {"instructions", kernels.name},
                  {"commit", commit},
                  {"model", flags.model},
                  {"load", flags.load},
                  {"quick", flags.quick}});
  say("products with dense weights");
  add("matmul", to_json(bench_matmul(context, grid.dense), context, grid.dense));
  say("the same with weights in the cache");
  add("in_cache", to_json(bench_matmul(context, grid.in_cache), context, grid.in_cache));
  say("products with quantised weights");
  add("quantised", to_json(bench_matmul(context, grid.quantised), context, grid.quantised));
  say("products with quantised weights and rows of bytes");
  MatmulBenchOptions& coded = grid.quantised;
  std::erase_if(coded.formats, [&](const WeightFormat& format) {
    return kernels.whole_rows(format.quantisation, true) != &kernels.byte_rows;
  });
  const KernelContext byte_rows{kernels, threads, true};
  if (!coded.formats.empty())
    add("int8_activations", to_json(bench_matmul(byte_rows, coded), byte_rows, coded));
  say("attention");
  add("attention", to_json(bench_attention(context, grid.attention), context, grid.attention));
  say("whole steps");
  ModelFlags model_flags;
  model_flags.model = flags.model;
  model_flags.threads = threads.size();
  const LoadedModel loaded = load_model(model_flags, find_model(model_flags));
  for (const int count : flags.threads) {
    ThreadPool pool(count);
    add("steps", {{"threads", count},
                  {"canvas", grid.steps.canvas},
                  {"results", to_json(bench_steps(*loaded.model, {kernels, pool}, grid.steps))}});
  }
  say("whole steps with quantised weights");
  for (const ModelFlags& setting : quantised_settings(model_flags, kernels)) {
    const LoadedModel quantised = load_model(setting, find_model(setting));
    add("quantised_steps",
        {{"weights", setting.weights},
         {"activations", setting.activations},
         {"threads", threads.size()},
         {"weight_bytes", quantised.model->weight_bytes()},
         {"results", to_json(bench_steps(*quantised.model, context, grid.quantised_steps))}});
  }
  say("loading");
  ModelFlags load_flags;
  load_flags.model = flags.load;
  const ModelSource source = find_model(load_flags);
  add("load", to_json(bench_load(source.folder, source.config, weight_formats(load_flags, source), threads,
                                 grid.load)));
  return rows;
}

std::vector<Json> read_rows(const std::string& path) {
  std::vector<Json> rows;
  std::ifstream stream(path);
  for (std::string line; std::getline(stream, line);) rows.emplace_back(parse_json(line, path));
  if (rows.empty()) throw InputError("--only-known: {} has no rows", path);
  return rows;
}

const Json* find_kind(const std::vector<Json>& rows, std::string_view kind) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const Json& row) { return row.at("kind") == kind; });
  return found == rows.end() ? nullptr : &*found;
}

const Json& of_kind(const std::vector<Json>& rows, std::string_view kind) {
  const Json* const found = find_kind(rows, kind);
  if (found == nullptr) throw InputError("the raw rows have none of the kind {}", kind);
  return *found;
}

std::string ratio(const Json& value) {
  return value.is_null() ? "-" : fmt::format("{:.2f}", value.get<double>());
}

/// One line for each shape and format, a column for each row count.
std::string grid_table(const Json& bench, const std::function<std::string(const Json&)>& cell) {
  std::vector<std::string> head = {"shape", "weights"};
  std::vector<std::vector<std::string>> lines;
  for (const Json& result : bench.at("results")) {
    const auto shape = result.at("shape").get<std::string>();
    const auto format = result.at("dtype").get<std::string>();
    const auto count = result.at("rows").get<int64_t>();
    const std::string rows = count == 1 ? "1 row" : fmt::format("{} rows", count);
    if (std::find(head.begin(), head.end(), rows) == head.end()) head.push_back(rows);
    if (lines.empty() || lines.back()[0] != shape || lines.back()[1] != format)
      lines.push_back({shape, format});
    lines.back().push_back(cell(result));
  }
  Table table(head);
  for (const std::vector<std::string>& line : lines) table.row(line);
  return table.text();
}

Chart roofline(const Json& dense, const Json& quantised) {
  Chart chart;
  chart.title = "Products beside the roof";
  chart.x = {.title = "FLOPs for each byte of weights", .logarithmic = true};
  chart.y = {.title = "GFLOP/s", .logarithmic = true};
  std::map<std::string, std::vector<ChartPoint>> points;
  double most = 1;
  double least = 1e30;
  for (const Json* bench : {&dense, &quantised}) {
    for (const Json& result : bench->at("results")) {
      const auto gflops = result.at("gflops").get<double>();
      const double intensity = gflops / result.at("gbps").get<double>();
      points[result.at("dtype").get<std::string>()].push_back({intensity, gflops});
      most = std::max(most, intensity);
      least = std::min(least, intensity);
    }
  }
  const auto peak = dense.at("peak_gflops_bf16").get<double>();
  const auto bandwidth = dense.at("read_gbps").get<double>();
  const double ridge = peak / bandwidth;
  chart.series.push_back({.name = "roof",
                          .points = {{least, std::min(peak, least * bandwidth)},
                                     {std::clamp(ridge, least, most),
                                      std::min(peak, std::clamp(ridge, least, most) * bandwidth)},
                                     {most, std::min(peak, most * bandwidth)}},
                          .colour = 0,
                          .dashed = true});
  size_t colour = 1;
  for (auto& [name, of_format] : points) {
    chart.series.push_back(
        {.name = name, .points = std::move(of_format), .colour = colour++, .joined = false});
  }
  return chart;
}

/// Medians of the benches above, for as many rows as a step has.
struct BenchSeconds {
  double products = 0;  ///< of all layers
  double attention = 0;
};

/// Empty where the benches were of other shapes or other threads than the step.
std::optional<BenchSeconds> bench_seconds(const std::vector<Json>& rows, const ModelConfig& config,
                                          const Json& steps, int32_t count) {
  const Json& dense = of_kind(rows, "matmul");
  const Json& attention = of_kind(rows, "attention");
  if (dense.at("threads") != steps.at("threads") || attention.at("cells") != steps.at("canvas") ||
      attention.at("heads") != config.num_heads || attention.at("kv_heads") != config.num_kv_heads ||
      attention.at("head_dim") != config.head_dim || config.has_experts())
    return {};
  const auto find = [&](const Json& bench, auto&& is_wanted) -> std::optional<double> {
    for (const Json& result : bench.at("results")) {
      if (result.at("rows") == count && is_wanted(result)) return result.at("seconds_median").get<double>();
    }
    return {};
  };
  const auto product = [&](int64_t inputs, int64_t outputs) {
    const std::string shape = fmt::format("{}x{}", inputs, outputs);
    return find(dense, [&](const Json& result) {
      return result.at("shape") == shape && result.at("dtype") == "bf16";
    });
  };
  const int64_t hidden = config.hidden_dim;
  const auto q = product(hidden, config.q_dim()), kv = product(hidden, config.kv_dim());
  const auto output = product(config.q_dim(), hidden);
  const auto up = product(hidden, config.ffn_dim), down = product(config.ffn_dim, hidden);
  const auto attended = find(attention, [](const Json& result) { return result.at("cells_as") == "bf16"; });
  if (!q || !kv || !output || !up || !down || !attended) return {};
  const auto layers = static_cast<double>(config.num_layers);
  return BenchSeconds{layers * (*q + 2 * *kv + *output + 2 * *up + *down), layers * *attended};
}

std::string steps_text(const std::vector<Json>& rows) {
  Table table({"threads", "rows", "ms", "GFLOP/s", "products and head", "attention", "other", "speed-up",
               "products' speed", "attention's speed"});
  const auto model = of_kind(rows, "setting").at("model").get<std::string>();
  const auto config = is_random_spec(model) ? std::optional(parse_random_spec(model)) : std::nullopt;
  std::map<int32_t, double> yardstick;
  for (const Json& row : rows) {
    if (row.at("kind") != "steps") continue;
    for (const Json& result : row.at("results")) {
      const auto value = [&](const char* key) { return result.at(key).get<double>(); };
      const double seconds = value("seconds_median");
      const auto count = result.at("rows").get<int32_t>();
      const auto bench = config ? bench_seconds(rows, *config, row, count) : std::nullopt;
      table.row({fmt::format("{}", row.at("threads").get<int>()), fmt::format("{}", count),
                 fmt::format("{:.1f}", 1e3 * seconds), fmt::format("{:.1f}", value("gflops")),
                 percent((value("products") + value("head")) / seconds),
                 percent(value("attention") / seconds), percent(value("other_share")),
                 times(yardstick.try_emplace(count, seconds).first->second / seconds),
                 bench ? percent(bench->products / value("products")) : "-",
                 bench ? percent(bench->attention / value("attention")) : "-"});
    }
  }
  return table.text();
}

/// Empty where none were measured.
std::string quantised_steps_text(const std::vector<Json>& rows) {
  Table table({"weights", "rows", "ms", "of that products", "head", "bf16's time by this"});
  std::map<int32_t, double> yardstick;
  for (const Json& row : rows) {
    if (row.at("kind") != "quantised_steps") continue;
    auto setting = fmt::format("`--weights {}`", row.at("weights").get<std::string>());
    if (row.at("activations") != "auto")
      setting = fmt::format("`--weights {} --activations int8`", row.at("weights").get<std::string>());
    for (const Json& result : row.at("results")) {
      const auto value = [&](const char* key) { return result.at(key).get<double>(); };
      const double seconds = value("seconds_median");
      const auto count = result.at("rows").get<int32_t>();
      table.row({setting, fmt::format("{}", count), fmt::format("{:.1f}", 1e3 * seconds),
                 fmt::format("{:.1f}", 1e3 * value("products")), fmt::format("{:.1f}", 1e3 * value("head")),
                 fmt::format("{:.2f}", yardstick.try_emplace(count, seconds).first->second / seconds)});
    }
  }
  if (yardstick.empty()) return "";
  return "\nThe same with quantised layers, on all threads; the head stays bf16. Above 1 is faster.\n\n" +
         table.text();
}

/// What was found out about these rows after they were measured.
std::string note_of(const Json& setting) {
  return setting.contains("note") ? fmt::format("- {}\n", setting.at("note").get<std::string>()) : "";
}

}  // namespace

std::vector<PageFile> write_cpu_page(const std::string& name, const std::vector<Json>& rows) {
  const Json& setting = of_kind(rows, "setting");
  const Json& dense = of_kind(rows, "matmul");
  const Json& quantised = of_kind(rows, "quantised");
  const Json& attention = of_kind(rows, "attention");
  const Json& load = of_kind(rows, "load");
  const auto number = [](const Json& row, const char* key) { return row.at(key).get<double>(); };
  std::string text = fmt::format(
      R"(# What the kernels reach

Written by `lacuna report cpu`, which measures everything in one run, from the raw rows in `{}.jsonl`. Times are medians.

- Machine: {}, {} cores, {}. Peak {:.0f} GFLOP/s in f32, {:.0f} in bf16; memory {:.1f} GB/s; {} threads.
- Commit: {}. oneDNN: {}.
- {}
{}
## Products with dense weights

GFLOP/s, and in brackets the time of oneDNN's product by ours, in turns: above 1, ours is faster. Packing the rows is part
of a product. No bracket: oneDNN has only plain loops for it here.

)",
      name, setting.at("processor").get<std::string>(), setting.at("cores").get<int>(),
      setting.at("instructions").get<std::string>(), number(dense, "peak_gflops_f32"),
      number(dense, "peak_gflops_bf16"), number(dense, "read_gbps"), dense.at("threads").get<int>(),
      setting.at("commit").get<std::string>(), dense.at("onednn").get<std::string>(),
      dense.at("in_cache").get<bool>() ? "Weights stay in the cache." : "Weights rotate over 1 GiB.",
      note_of(setting));
  const auto speed = [](const Json& result) {
    const std::string gflops = fmt::format("{:.0f}", result.at("gflops").get<double>());
    const Json& by_onednn = result.at("ratio_to_onednn");
    return by_onednn.is_null() ? gflops : fmt::format("{} ({})", gflops, ratio(by_onednn));
  };
  text += grid_table(dense, speed);
  if (const Json* const in_cache = find_kind(rows, "in_cache"); in_cache != nullptr)
    text += "\nThe same with weights that stay in the cache:\n\n" + grid_table(*in_cache, speed);
  text += "\nThe share of the measured memory bandwidth that reading the weights takes:\n\n";
  const double bandwidth = number(dense, "read_gbps");
  text += grid_table(
      dense, [&](const Json& result) { return percent(result.at("gbps").get<double>() / bandwidth); });
  text += fmt::format("\n![roofline]({}_roofline.svg)\n\n## Products with quantised weights\n\n", name);
  text += "The time of the same product with bf16 weights by theirs, in turns: above 1 is faster.\n\n";
  const auto by_bf16 = [](const Json& result) { return ratio(result.at("ratio_to_bf16")); };
  text += grid_table(quantised, by_bf16);
  if (const Json* const coded = find_kind(rows, "int8_activations"); coded != nullptr) {
    text += "\nThe same with `--activations int8`, which other formats do not gain from here:\n\n";
    text += grid_table(*coded, by_bf16);
  }
  text += fmt::format("\n## Attention\n\n{} heads of {}, {} K/V heads, {} cells.\n\n",
                      attention.at("heads").get<int>(), attention.at("head_dim").get<int>(),
                      attention.at("kv_heads").get<int>(), attention.at("cells").get<int>());
  Table of_attention({"cells as", "rows", "ms", "GFLOP/s", "of peak", "by oneDNN"});
  for (const Json& result : attention.at("results")) {
    of_attention.row({result.at("cells_as").get<std::string>(),
                      fmt::format("{}", result.at("rows").get<int>()),
                      fmt::format("{:.2f}", 1e3 * number(result, "seconds_median")),
                      fmt::format("{:.1f}", number(result, "gflops")), percent(number(result, "peak_share")),
                      ratio(result.at("ratio_to_onednn"))});
  }
  text += of_attention.text();
  text += fmt::format(
      "\n## Whole steps\n\n`{}`; shares of a step's time. Speed-up: beside the first number of threads. The "
      "last "
      "columns are the speeds\nof the layers' products and of attention as a part of what the same reach by "
      "themselves, "
      "in the tables above.\n\n",
      setting.at("model").get<std::string>());
  text += steps_text(rows);
  text += quantised_steps_text(rows);
  text += fmt::format(
      "\n## Loading\n\n`{}`, with its files in the system's cache: {:.3f} s, {:.2f} GB/s; {:.1f} MiB of "
      "weights, {:.1f} "
      "predicted, {:.1f} at the most while loading.\n",
      setting.at("load").get<std::string>(), number(load, "seconds_median"), number(load, "gbps"),
      number(load, "weight_bytes") / (1 << 20), number(load, "predicted_bytes") / (1 << 20),
      number(load, "peak_bytes") / (1 << 20));
  return {{name + ".md", text}, {name + "_roofline.svg", to_svg(roofline(dense, quantised))}};
}

void add_cpu_report(CLI::App& report, std::string (*commit)()) {
  auto flags = std::make_shared<CpuReportFlags>();
  CLI::App* command = report.add_subcommand(
      "cpu", "Measure products, attention, whole steps and loading beside this machine's limits");
  command->add_option("--out", flags->out, "Folder for the page and its raw rows (default docs/results)");
  command->add_option("-m,--model", flags->model,
                      "What whole steps are of (default random:llada-8b,layers=8)");
  command->add_option("--load", flags->load, "What is loaded (default mini-llada)");
  command->add_option("-t,--threads", flags->threads, "Thread counts, separated by commas (default 1,2)")
      ->delimiter(',')
      ->check(number_in<int>(1, 1024));
  command
      ->add_option("--isa", flags->isa,
                   "Instructions to use; the page is then called cpu_ISA (default: the machine's widest, or "
                   "LACUNA_ISA)")
      ->check(CLI::IsMember({"scalar", "avx2", "avx512", "amx"}));
  command->add_flag("--quick", flags->quick, "Tiny shapes: tries everything, measures nothing of use");
  command->add_flag("--only-known", flags->only_known,
                    "Write the page again from the rows that the folder holds, and measure nothing");
  command->callback([flags, commit] {
    const std::string name = page_name(*flags);
    if (flags->only_known)
      return write_files(flags->out,
                         write_cpu_page(name, read_rows(fmt::format("{}/{}.jsonl", flags->out, name))));
    if (!flags->isa.empty())
      setenv("LACUNA_ISA", flags->isa.c_str(), 1);  // before anything asks for the kernels
    const std::vector<Json> rows = measure(*flags, commit());
    std::string lines;
    for (const Json& row : rows) lines += row.dump() + "\n";
    std::vector<PageFile> files = write_cpu_page(name, rows);
    files.push_back({name + ".jsonl", lines});
    write_files(flags->out, files);
  });
}

}  // namespace lacuna
