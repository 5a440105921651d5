#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/heap.h"
#include "bench/attention_bench.h"
#include "bench/load_bench.h"
#include "bench/machine.h"
#include "bench/matmul_bench.h"
#include "bench/step_bench.h"
#include "block_timing.h"
#include "commands.h"
#include "constraint/constraint.h"
#include "constraint/token_automaton.h"
#include "constraint/token_vocabulary.h"
#include "decode_timing.h"
#include "kernels/dispatch.h"
#include "loading.h"
#include "numbers.h"
#include "terminal.h"
#include "weights/weight_format.h"

namespace lacuna {
namespace {

struct StepFlags : ModelFlags {
  StepBenchOptions options;
  std::vector<int> by_threads;
  std::string schema;
  bool peaks = false;
  bool json = false;
};

void print_step_table(const nlohmann::ordered_json& report) {
  print_text("{}, {} threads, {} cells\n", report["isa"].get<std::string>(), report["threads"].get<int>(),
             report["canvas"].get<int64_t>());
  print_text("{:>6} {:>10} {:>10} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7} {:>9} {:>9} {:>8} {:>7} {:>7}\n",
             "rows", "median ms", "min", "max", "products", "attention", "head", "draws", "rest", "other %",
             "rows/s", "GFLOP/s", "of best", "FLOPs", "time");
  for (const auto& result : report["results"]) {
    const auto number = [&](const char* key) { return result[key].get<double>(); };
    print_text(
        "{:>6} {:>10.3f} {:>10.3f} {:>10.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>7.1f} {:>9.0f} "
        "{:>9.1f} {:>8.2f} {:>7.3f} {:>7.3f}\n",
        result["rows"].get<int32_t>(), 1e3 * number("seconds_median"), 1e3 * number("seconds_min"),
        1e3 * number("seconds_max"), 1e3 * number("products"), 1e3 * number("attention"),
        1e3 * number("head"), 1e3 * number("draws"), 1e3 * number("other"), 100 * number("other_share"),
        number("rows_per_second"), number("gflops"), number("share_of_fastest"), number("flops_ratio"),
        number("time_ratio"));
  }
  for (const auto& result : report["results"]) {
    if (!result.contains("least_seconds")) continue;
    const auto number = [&](const char* key) { return result[key].get<double>(); };
    print_text(
        "{:>6} rows: {:.3f} ms at the peaks of {:.0f} GFLOP/s and {:.1f} GB/s, {:.1f}% of the measured "
        "time\n",
        result["rows"].get<int32_t>(), 1e3 * number("least_seconds"), number("peak_gflops"),
        number("read_gbps"), 100 * number("share_of_peak"));
  }
  for (const auto& result : report["results"]) {
    if (!result.contains("constraint")) continue;
    const auto number = [&](const char* key) { return result["constraint"][key].get<double>(); };
    print_text(
        "{:>6} rows with a constraint: {:.3f} ms for classes, {:.3f} ms for a witness, {:.1f}% of the pass; "
        "a step of it takes as long as {:.0f} FLOP of the pass\n",
        result["rows"].get<int32_t>(), 1e3 * number("classes"), 1e3 * number("witness"),
        100 * number("share"), number("flops_per_step"));
  }
}

/// Times steps with thread pools of several sizes, relative to the first.
void bench_scaling(const StepFlags& flags, const LoadedModel& loaded) {
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  std::map<int32_t, double> yardstick;  // time of the first pool, by number of rows
  for (const int count : flags.by_threads) {
    const auto threads = make_threads(count, flags.pin);
    for (const StepTiming& timing :
         bench_steps(*on_cpu(loaded.weights, loaded.device->kernels(), *threads), flags.options)) {
      const double seconds = timing.median_seconds();
      results.push_back({{"threads", count},
                         {"rows", timing.rows},
                         {"seconds_median", seconds},
                         {"gflops", timing.cost.flops() / seconds / 1e9},
                         {"speedup", yardstick.try_emplace(timing.rows, seconds).first->second / seconds}});
    }
  }
  if (flags.json) {
    print_data("{}\n", nlohmann::ordered_json{{"bench", "step"},
                                              {"model", flags.model},
                                              {"isa", loaded.model->device()},
                                              {"dtype", name_of(loaded.model->dtype())},
                                              {"canvas", flags.options.canvas},
                                              {"repeat", flags.options.repeat},
                                              {"by_threads", results}}
                           .dump());
    return;
  }
  print_text("{:>8} {:>6} {:>10} {:>9} {:>8}\n", "threads", "rows", "median ms", "GFLOP/s", "speed-up");
  for (const auto& result : results) {
    print_text("{:>8} {:>6} {:>10.3f} {:>9.1f} {:>8.2f}\n", result["threads"].get<int>(),
               result["rows"].get<int32_t>(), 1e3 * result["seconds_median"].get<double>(),
               result["gflops"].get<double>(), result["speedup"].get<double>());
  }
}

void bench_step(const StepFlags& flags) {
  report_busy_cores(flags.threads);
  if (flags.is_sharded() && !flags.by_threads.empty())
    throw InputError("--by-threads: expected no --shard, whose ranks keep their threads");
  if (!flags.by_threads.empty()) require_cpu(flags, "--by-threads");
  if (flags.peaks) require_cpu(flags, "--peaks");
  const ModelSource source = find_model(flags);
  const LoadedModel loaded = load_model(flags, source);
  if (!flags.by_threads.empty()) return bench_scaling(flags, loaded);
  StepBenchOptions options = flags.options;
  if (!flags.schema.empty()) {
    const TokenVocabulary vocabulary(synthetic_tokens(source.config));
    options.constraint = std::make_shared<const TokenAutomaton>(
        compile_constraint(JsonSchemaConstraint{flags.schema}), vocabulary);
  }
  std::optional<CurrentPeaks> peaks;
  if (flags.peaks) {
    peaks.emplace(loaded.device->threads(), loaded.device->kernels().name, loaded.model->dtype());
    options.peaks = &*peaks;
  }
  const nlohmann::ordered_json results = to_json(bench_steps(*loaded.model, options));
  nlohmann::ordered_json report{{"bench", "step"},
                                {"model", flags.model},
                                {"isa", loaded.model->device()},
                                {"dtype", name_of(loaded.model->dtype())},
                                {"threads", loaded.device->threads().size()},
                                {"canvas", flags.options.canvas},
                                {"repeat", flags.options.repeat},
                                {"most_resident_bytes", most_resident_memory()}};
  report["results"] = results;
  if (!flags.json) return print_step_table(report);
  print_data("{}\n", report.dump());
}

void add_step_bench(CLI::App& bench) {
  auto flags = std::make_shared<StepFlags>();
  CLI::App* command = bench.add_subcommand(
      "step", "Time one denoising step, by how many rows of the canvas it computes and samples");
  add_model_flags(*command, *flags);
  command->add_option("--canvas", flags->options.canvas, "Cells that every row attends to (default 1024)")
      ->check(CLI::Range(1, 1 << 20));
  command
      ->add_option("--rows", flags->options.rows,
                   "Row counts, separated by commas (default: the canvas and its half, quarter and eighth)")
      ->delimiter(',')
      ->check(number_in<int32_t>(1, 1 << 20));
  command
      ->add_option("--by-threads", flags->by_threads,
                   "Thread counts to compare, such as 1,2; speedups are relative to the first")
      ->delimiter(',')
      ->check(number_in<int>(1, 1024));
  command->add_option("--repeat", flags->options.repeat, "Timed passes per row count (default 5)")
      ->check(CLI::Range(1, 10'000));
  command->add_flag(
      "--peaks", flags->peaks,
      "Also print the share of the machine's peak FLOP/s and bandwidth, measured before each pass");
  command->add_option("--json-schema", flags->schema,
                      "Also time constraining the step's tokens to this schema, with synthetic tokens");
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags] { bench_step(*flags); });
}

struct DecodeFlags : DecodeTimingFlags {
  bool json = false;
};

void print_decode_table(const nlohmann::ordered_json& report) {
  print_text("{}, {} threads\n", report["isa"].get<std::string>(), report["threads"].get<int>());
  print_text("{:<8} {:>8} {:>12} {:>14} {:>12} {:>12} {:>12}\n", "", "passes", "rows", "TFLOP", "seconds",
             "min", "max");
  for (const char* name : {"plain", "setting"}) {
    const auto& run = report[name];
    const auto seconds = [&](const char* key) { return run[key].get<double>(); };
    print_text("{:<8} {:>8} {:>12} {:>14.3f} {:>12.4f} {:>12.4f} {:>12.4f}\n", name,
               run["passes"].get<int64_t>(), run["rows"].get<int64_t>(), run["flops"].get<double>() / 1e12,
               seconds("seconds"), seconds("seconds_min"), seconds("seconds_max"));
  }
  const auto value = [&](const char* key) { return report[key].get<double>(); };
  print_text("ratios: rows {:.3f}, FLOPs {:.3f}, time {:.3f} (speed-up {:.2f})", value("row_ratio"),
             value("flops_ratio"), value("time_ratio"), value("speedup"));
  if (value("flops_ratio") < 1) {
    print_text("; {:.0f}% of the FLOPs saved is time saved", 100 * value("saved_flops_turned_into_time"));
  }
  print_text("\n");
}

void run_decode_bench(const DecodeFlags& flags) {
  report_busy_cores(flags.threads);
  const nlohmann::ordered_json report = time_decode(flags);
  if (flags.json) {
    print_data("{}\n", report.dump());
  } else {
    print_decode_table(report);
  }
}

void add_decode_bench(CLI::App& bench) {
  auto flags = std::make_shared<DecodeFlags>();
  CLI::App* command =
      bench.add_subcommand("decode",
                           "Estimate the time of a whole decode at any shape, and that of the "
                           "uncached baseline (ReFusion: of the released code's rules)");
  flags->options.repeat = 3;
  add_decode_timing_flags(*command, *flags);
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->footer(
      "Both runs are decoded with synthetic posteriors; a sample of their passes is then computed and timed, "
      "interleaved.");
  command->callback([flags] { run_decode_bench(*flags); });
}

struct BlockFlags : BlockTimingFlags {
  bool json = false;
};

void print_block_table(const nlohmann::ordered_json& results) {
  print_text("{:>7} {:<12} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>9} {:>12} {:>11}\n", "prefix",
             "sparse", "block s", "first s", "later s", "attention", "selection", "commit s", "speed-up",
             "FLOPs allow", "first/exact");
  for (const auto& result : results) {
    const auto pass = [&](const char* name, const char* key) { return result[name][key].get<double>(); };
    print_text(
        "{:>7} {:<12} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.3f} {:>9.2f} {:>12.2f} "
        "{:>11.2f}\n",
        result["prefix"].get<int32_t>(), result["sparse"].get<std::string>(),
        result["block_seconds"].get<double>(), pass("first_step", "seconds"), pass("later_step", "seconds"),
        pass("later_step", "attention"), pass("later_step", "selection"), pass("commit", "seconds"),
        result.value("speedup", 0.0), result.value("flops_allow", 0.0),
        result.value("first_step_ratio", 0.0));
  }
}

void run_block_bench(const BlockFlags& flags) {
  report_busy_cores(flags.threads);
  const nlohmann::ordered_json report = time_blocks(flags);
  if (flags.json) {
    print_data("{}\n", report.dump());
  } else {
    print_block_table(report["results"]);
  }
}

void add_block_bench(CLI::App& bench) {
  auto flags = std::make_shared<BlockFlags>();
  CLI::App* command = bench.add_subcommand(
      "block", "Time a block of output of block diffusion after long prefixes, by --sparse policy");
  add_block_timing_flags(*command, *flags);
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->footer(
      "Keys and values of the prefix are random. A block is its first step, its later steps and the pass "
      "that keeps its keys and values; SparseD is exact for its share of the steps.");
  command->callback([flags] { run_block_bench(*flags); });
}

struct MatmulFlags {
  std::vector<std::string> shapes;
  std::vector<std::string> dtypes;
  std::string activations = "auto";
  MatmulBenchOptions options;
  int threads = 0;
  bool pin = false;
  bool json = false;
};

void print_roof(const nlohmann::ordered_json& report) {
  print_text(
      "{}, {}, {} threads; peak {:.0f} GFLOP/s in f32, {:.0f} in bf16{}\n",
      report["machine"].get<std::string>(), report["isa"].get<std::string>(), report["threads"].get<int>(),
      report["peak_gflops_f32"].get<double>(), report["peak_gflops_bf16"].get<double>(),
      report.contains("read_gbps") ? fmt::format("; memory {:.1f} GB/s", report["read_gbps"].get<double>())
                                   : "");
  print_text("oneDNN: {}\n", report["onednn"].get<std::string>());
}

std::string ratio_or_dash(const nlohmann::ordered_json& value) {
  return value.is_null() ? "-" : fmt::format("{:.2f}", value.get<double>());
}

void print_matmul_table(const nlohmann::ordered_json& report) {
  print_roof(report);
  print_text("{:>13} {:>6} {:>12} {:>10} {:>10} {:>10} {:>9} {:>8} {:>7} {:>10} {:>8}\n", "shape", "rows",
             "weights", "median ms", "min", "max", "GFLOP/s", "GB/s", "of peak", "by oneDNN", "by bf16");
  for (const auto& result : report["results"]) {
    const auto value = [&](const char* key) { return result[key].get<double>(); };
    print_text("{:>13} {:>6} {:>12} {:>10.3f} {:>10.3f} {:>10.3f} {:>9.1f} {:>8.1f} {:>7} {:>10} {:>8}\n",
               result["shape"].get<std::string>(), result["rows"].get<int64_t>(),
               result["dtype"].get<std::string>(), 1e3 * value("seconds_median"), 1e3 * value("seconds_min"),
               1e3 * value("seconds_max"), value("gflops"), value("gbps"),
               ratio_or_dash(result["peak_share"]), ratio_or_dash(result["ratio_to_onednn"]),
               ratio_or_dash(result["ratio_to_bf16"]));
  }
}

void bench_matmul(const MatmulFlags& flags) {
  report_busy_cores(flags.threads);
  MatmulBenchOptions options = flags.options;
  if (!flags.shapes.empty()) options.shapes.clear();
  for (const std::string& shape : flags.shapes) options.shapes.push_back(parse_matmul_shape(shape));
  if (!flags.dtypes.empty()) options.formats.clear();
  for (const std::string& name : flags.dtypes) options.formats.push_back(*weight_format(name));
  const auto threads = make_threads(flags.threads, flags.pin);
  const KernelContext context{default_table(), *threads, flags.activations == "int8"};
  const nlohmann::ordered_json report = to_json(bench_matmul(context, options), context, options);
  if (flags.json) {
    print_data("{}\n", report.dump());
  } else {
    print_matmul_table(report);
  }
}

void add_matmul_bench(CLI::App& bench) {
  auto flags = std::make_shared<MatmulFlags>();
  CLI::App* command =
      bench.add_subcommand("matmul", "Time matmuls with weights, compared with oneDNN if it is installed");
  command
      ->add_option("--shape", flags->shapes,
                   "Inputs x outputs, separated by commas (default 4096x4096,4096x12288,12288x4096)")
      ->delimiter(',');
  command
      ->add_option("--rows", flags->options.rows, "Row counts, separated by commas (default 1,8,32,...,2048)")
      ->delimiter(',')
      ->check(number_in<int64_t>(1, 1 << 20));
  command
      ->add_option("--weights,--dtype", flags->dtypes,
                   "Formats of weights, separated by commas (default bf16,f32)")
      ->delimiter(',')
      ->check(CLI::IsMember(cpu_format_names()));
  command->add_flag(
      "--in-cache", flags->options.in_cache,
      "Multiply with one copy of the weights, instead of alternating between copies of at least 1 GiB");
  add_activations_flag(*command, flags->activations);
  command->add_option("--repeat", flags->options.repeat, "Timed products of each kind (default 9)")
      ->check(CLI::Range(1, 10'000));
  add_threads_flag(*command, flags->threads);
  add_placement_flags(*command, flags->pin);
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags] { bench_matmul(*flags); });
}

struct FormatsFlags {
  std::string shape = "4096x4096";
  MatmulBenchOptions options;
  int threads = 0;
  bool pin = false;
  bool json = false;
};

/// Speedup of each quantized format over bf16, sorted by the speedup at the second row count.
nlohmann::ordered_json time_formats(const MatmulBenchOptions& options, ThreadPool& threads) {
  nlohmann::ordered_json found = nlohmann::ordered_json::array();
  for (const char* activations : {"auto", "int8"}) {
    const KernelContext context{default_table(), threads, activations == std::string("int8")};
    const auto timed = to_json(bench_matmul(context, options), context, options)["results"];
    for (const WeightFormat& format : options.formats) {
      nlohmann::ordered_json speed{
          {"weights", describe(format)}, {"activations", activations}, {"times", {}}};
      for (const auto& result : timed) {
        if (result["dtype"] == speed["weights"]) speed["times"].push_back(result["ratio_to_bf16"]);
      }
      found.push_back(speed);
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a["times"][1] > b["times"][1]; });
  return found;
}

void bench_formats(const FormatsFlags& flags) {
  report_busy_cores(flags.threads);
  MatmulBenchOptions options = flags.options;
  options.shapes = {parse_matmul_shape(flags.shape)};
  const auto threads = make_threads(flags.threads, flags.pin);
  const nlohmann::ordered_json formats = time_formats(options, *threads);
  if (flags.json) {
    print_data("{}\n", nlohmann::ordered_json{{"bench", "formats"},
                                              {"machine", processor_name()},
                                              {"isa", default_table().name},
                                              {"threads", threads->size()},
                                              {"rows", flags.options.rows},
                                              {"formats", formats}}
                           .dump());
    return;
  }
  print_text("{}, {}, {} threads: times as fast as bf16 weights\n", processor_name(), default_table().name,
             threads->size());
  print_text("{:>12} {:>12} {:>9} {:>9} {:>9}\n", "--weights", "--activations", "1 row", "32 rows",
             "512 rows");
  for (const auto& format : formats) {
    print_text("{:>12} {:>12}", format["weights"].get<std::string>(),
               format["activations"].get<std::string>());
    for (const auto& times : format["times"]) print_text(" {:>9.2f}", times.get<double>());
    print_text("\n");
  }
}

void add_formats_bench(CLI::App& bench) {
  auto flags = std::make_shared<FormatsFlags>();
  MatmulBenchOptions& options = flags->options;
  options.rows = {1, 32, 512};
  options.formats.clear();
  for (const char* name : {"int8", "int4", "int8-group", "int4-group", "int4-min"})
    options.formats.push_back(*weight_format(name));
  CLI::App* command = bench.add_subcommand(
      "formats",
      "How many times as fast as bf16 quantized weights are here, for matmuls of 1, 32 and 512 rows");
  command->add_option("--shape", flags->shape, "Inputs x outputs (default 4096x4096)");
  command->add_flag(
      "--in-cache", options.in_cache,
      "Multiply with one copy of the weights, instead of alternating between copies of at least 1 GiB");
  command->add_option("--repeat", options.repeat, "Timed products of each kind (default 9)")
      ->check(CLI::Range(1, 10'000));
  add_threads_flag(*command, flags->threads);
  add_placement_flags(*command, flags->pin);
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->footer("The ratios that --weights fastest knows were measured so, on one machine of each kind.");
  command->callback([flags] { bench_formats(*flags); });
}

struct AttentionFlags {
  AttentionBenchOptions options;
  int threads = 0;
  bool pin = false;
  bool json = false;
};

void print_attention_table(const nlohmann::ordered_json& report) {
  print_roof(report);
  print_text("{} heads of {}, {} K/V heads, {} cells\n", report["heads"].get<int64_t>(),
             report["head_dim"].get<int64_t>(), report["kv_heads"].get<int64_t>(),
             report["cells"].get<int32_t>());
  print_text("{:>6} {:>6} {:>10} {:>10} {:>10} {:>9} {:>8} {:>7} {:>10}\n", "rows", "cells", "median ms",
             "min", "max", "GFLOP/s", "GB/s", "of peak", "by oneDNN");
  for (const auto& result : report["results"]) {
    const auto value = [&](const char* key) { return result[key].get<double>(); };
    print_text("{:>6} {:>6} {:>10.3f} {:>10.3f} {:>10.3f} {:>9.1f} {:>8.1f} {:>7.2f} {:>10}\n",
               result["rows"].get<int32_t>(), result["cells_as"].get<std::string>(),
               1e3 * value("seconds_median"), 1e3 * value("seconds_min"), 1e3 * value("seconds_max"),
               value("gflops"), value("gbps"), value("peak_share"), ratio_or_dash(result["ratio_to_onednn"]));
  }
}

void run_attention_bench(const AttentionFlags& flags) {
  report_busy_cores(flags.threads);
  const auto threads = make_threads(flags.threads, flags.pin);
  const KernelContext context{default_table(), *threads};
  const nlohmann::ordered_json report =
      to_json(bench_attention(context, flags.options), context, flags.options);
  if (flags.json) {
    print_data("{}\n", report.dump());
  } else {
    print_attention_table(report);
  }
}

void add_attention_bench(CLI::App& bench) {
  auto flags = std::make_shared<AttentionFlags>();
  AttentionBenchOptions& options = flags->options;
  CLI::App* command = bench.add_subcommand(
      "attention",
      "Time one layer's attention, compared with oneDNN's matmuls and softmax if it is installed");
  command->add_option("--heads", options.shape.num_heads, "Query heads (default 32)")
      ->check(CLI::Range(1, 1024));
  command->add_option("--kv-heads", options.shape.num_kv_heads, "K/V heads (default 32)")
      ->check(CLI::Range(1, 1024));
  command->add_option("--head-dim", options.shape.head_dim, "Dimensions of a head (default 128)")
      ->check(CLI::Range(1, 1024));
  command->add_option("--cells", options.cells, "Cells that every row sees (default 1024)")
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--rows", options.rows, "Row counts, separated by commas (default 1,32,256,1024)")
      ->delimiter(',')
      ->check(number_in<int32_t>(1, 1 << 16));
  command
      ->add_option("--kv-cache", options.cell_formats,
                   "Formats of keys and values, separated by commas (default bf16,f32,int8)")
      ->delimiter(',')
      ->check(CLI::IsMember({"f32", "bf16", "int8"}));
  command->add_option("--repeat", options.repeat, "Timed calls of each kind (default 9)")
      ->check(CLI::Range(1, 10'000));
  add_threads_flag(*command, flags->threads);
  add_placement_flags(*command, flags->pin);
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags] { run_attention_bench(*flags); });
}

struct LoadFlags : ModelFlags {
  LoadBenchOptions options;
  bool json = false;
};

void run_load_bench(const LoadFlags& flags) {
  report_busy_cores(flags.threads);
  refuse_shard(flags, "bench load");
  const ModelSource source = find_model(flags);
  const auto threads = make_threads(flags.threads, flags.pin);
  nlohmann::ordered_json report{{"bench", "load"}, {"model", flags.model}, {"threads", threads->size()}};
  report.update(to_json(
      bench_load(source.folder, source.config, weight_formats(flags, source), *threads, flags.options)));
  if (flags.json) {
    print_data("{}\n", report.dump());
    return;
  }
  const auto value = [&](const char* key) { return report[key].get<double>(); };
  constexpr double kMiB = 1 << 20;
  print_text("{:.3f} s (from {:.3f} to {:.3f})", value("seconds_median"), value("seconds_min"),
             value("seconds_max"));
  if (value("mapped_bytes") > 0) {
    print_text(" and {:.3f} s to bring in {:.1f} MiB of mapped matrices at first use",
               value("first_use_seconds_median"), value("mapped_bytes") / kMiB);
  }
  if (source.folder.empty()) {
    print_text(" to make {:.1f} MiB of random weights\n", value("weight_bytes") / kMiB);
  } else {
    print_text(", {:.2f} GB/s of the checkpoint's {:.1f} MiB; all threads read memory at {:.1f} GB/s\n",
               value("gbps"), value("file_bytes") / kMiB, value("read_gbps"));
  }
  print_text("memory: {:.1f} MiB of weights, {:.1f} predicted, {:.1f} at the most\n",
             value("weight_bytes") / kMiB, value("predicted_bytes") / kMiB, value("peak_bytes") / kMiB);
}

void add_load_bench(CLI::App& bench) {
  auto flags = std::make_shared<LoadFlags>();
  CLI::App* command =
      bench.add_subcommand("load", "Time the loading of a model whose files the system has in memory");
  add_model_flags(*command, *flags);
  command->add_option("--repeat", flags->options.repeat, "Timed loads (default 3)")
      ->check(CLI::Range(1, 1000));
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags] { run_load_bench(*flags); });
}

}  // namespace

void add_bench_command(CLI::App& program) {
  CLI::App* bench = program.add_subcommand("bench", "Time parts of the engine on this machine");
  bench->require_subcommand(1);
  add_matmul_bench(*bench);
  add_formats_bench(*bench);
  add_attention_bench(*bench);
  add_step_bench(*bench);
  add_decode_bench(*bench);
  add_block_bench(*bench);
  add_load_bench(*bench);
}

}  // namespace lacuna
