// `lacuna plan`: predicts memory and speed of a model sharded over several machines.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "backend/shard/machine_plan.h"
#include "base/affinity.h"
#include "base/error.h"
#include "base/memory.h"
#include "bench/machine.h"
#include "commands.h"
#include "kernels/dispatch.h"
#include "loading.h"
#include "model/adapters.h"
#include "model/parameters.h"
#include "terminal.h"

namespace lacuna {
namespace {

using Json = nlohmann::ordered_json;

struct PlanFlags : ModelFlags {
  PlannedPass pass;
  int cores = 0;
  double latency_us = 50;
  double gflops = 0;
  double gigabytes = 0;
  bool json = false;
};

/// Speeds from the flags; missing ones are measured here. Assumes that the other machines' cores and memory
/// are as fast as this machine's.
MachineSpeeds machine_speeds(const PlanFlags& flags, const WeightFormats& formats) {
  MachineSpeeds speeds;
  speeds.link = link_speed(flags.link);
  speeds.latency = flags.latency_us * 1e-6;
  speeds.flops = flags.gflops * 1e9;
  speeds.bandwidth = flags.gigabytes * 1e9;
  if (speeds.flops > 0 && speeds.bandwidth > 0) return speeds;
  const auto threads = make_threads(0, false);
  if (speeds.bandwidth <= 0) speeds.bandwidth = measure_read_bandwidth(*threads);
  if (speeds.flops > 0) return speeds;
  const int here = num_usable_cores();
  const double peak = measure_peak_flops(*threads, default_table().name, formats.dtype);
  speeds.flops = peak / here * (flags.cores > 0 ? flags.cores : here);
  return speeds;
}

Json to_json(const MachinePlan& plan) {
  return {{"way", plan.way},
          {"possible", plan.is_possible},
          {"weight_bytes", plan.weight_bytes},
          {"kv_bytes", plan.kv_bytes},
          {"received_bytes", plan.received_bytes},
          {"exchanges", plan.exchanges},
          {"compute_seconds", plan.compute_seconds},
          {"wire_seconds", plan.wire_seconds},
          {"seconds", plan.seconds()},
          {"passes_per_second", plan.passes_per_second}};
}

void print_plans(const PlanFlags& flags, const MachineSpeeds& speeds, const std::vector<MachinePlan>& plans) {
  print_text(
      "{} machines of {:.0f} GFLOP/s and {:.0f} GB/s, links of {}; passes of {} rows over {} cells\n\n",
      flags.pass.machines, speeds.flops / 1e9, speeds.bandwidth / 1e9, flags.link, flags.pass.rows,
      flags.pass.cells);
  print_text("{:<10} {:>12} {:>12} {:>12} {:>11} {:>9} {:>9} {:>9}\n", "", "weights", "K/V", "received",
             "compute ms", "link ms", "pass ms", "passes/s");
  for (const MachinePlan& plan : plans) {
    print_text("{:<10} {:>12} {:>12} {:>12} {:>11.1f} {:>9.1f} {:>9.1f} {:>9.2f}\n",
               fmt::format("{}{}", plan.way, plan.is_possible ? "" : "*"), human_bytes(plan.weight_bytes),
               human_bytes(plan.kv_bytes), human_bytes(static_cast<int64_t>(plan.received_bytes)),
               1e3 * plan.compute_seconds, 1e3 * plan.wire_seconds, 1e3 * plan.seconds(),
               plan.passes_per_second);
  }
  print_text(
      "\nWeights and K/V of one sequence are those of the machine that keeps the most, received is by one "
      "machine in a pass.\n");
  if (std::any_of(plans.begin(), plans.end(), [](const MachinePlan& plan) { return !plan.is_possible; }))
    print_text("* Not possible: the model has fewer layers than there are machines.\n");
}

void plan(const PlanFlags& flags) {
  const ModelSource source = find_model(flags);
  const WeightFormats formats = weight_formats(flags, source);
  if (flags.pass.cells < flags.pass.rows) {
    throw InputError("--cells is {}; expected at least --rows, which is {}", flags.pass.cells,
                     flags.pass.rows);
  }
  std::unique_ptr<WeightSource> stored;
  if (!source.folder.empty()) stored = open_weights(source.folder, source.config);
  const MachineSpeeds speeds = machine_speeds(flags, formats);
  const std::vector<MachinePlan> plans =
      plan_machines(source.config, formats, stored.get(), speeds, flags.pass);
  if (!flags.json) return print_plans(flags, speeds, plans);
  Json ways = Json::array();
  for (const MachinePlan& each : plans) ways.push_back(to_json(each));
  print_data("{}\n", Json{{"model", flags.model},
                          {"machines", flags.pass.machines},
                          {"rows", flags.pass.rows},
                          {"cells", flags.pass.cells},
                          {"flops", speeds.flops},
                          {"bandwidth", speeds.bandwidth},
                          {"link", speeds.link},
                          {"latency", speeds.latency},
                          {"ways", std::move(ways)}}
                         .dump());
}

}  // namespace

void add_plan_command(CLI::App& program) {
  auto flags = std::make_shared<PlanFlags>();
  flags->link = "10Gb";
  CLI::App* command =
      program.add_subcommand("plan", "Predict memory and time of a model over several machines");
  add_model_flag(*command, flags->model);
  add_format_flags(*command, *flags);
  add_kv_cache_flag(*command, flags->kv_cache);
  add_config_flags(*command, *flags);
  command->add_option("--machines", flags->pass.machines, "Machines, 2 to 64 (default 2)")
      ->check(CLI::Range(2, 64));
  command
      ->add_option("--cores", flags->cores,
                   "Cores of one machine, each as fast as one here (default: as many as here)")
      ->check(CLI::Range(1, 4096));
  command->add_option("--link", flags->link,
                      "Rate at which a machine receives, in bits per second: 10Gb, 100Mb (default 10Gb)");
  command->add_option("--latency", flags->latency_us, "Microseconds of one exchange (default 50)")
      ->check(CLI::Range(0.0, 1e6));
  command->add_option("--gflops", flags->gflops, "GFLOP/s of one machine (default: measured here)")
      ->check(CLI::Range(0.1, 1e9));
  command
      ->add_option("--bandwidth", flags->gigabytes, "GB/s of one machine's memory (default: measured here)")
      ->check(CLI::Range(0.1, 1e6));
  command->add_option("--rows", flags->pass.rows, "Rows of a pass, all of them sampled (default 256)")
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--cells", flags->pass.cells, "Cells that each row attends to (default 1024)")
      ->check(CLI::Range(1, 1 << 24));
  command->add_flag("--json", flags->json, "Print JSON");
  command->callback([flags] { plan(*flags); });
}

}  // namespace lacuna
