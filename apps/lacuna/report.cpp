#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "bench/machine.h"
#include "commands.h"
#include "evaluation.h"
#include "kernels/dispatch.h"
#include "masked_report.h"

namespace lacuna {
namespace {

namespace fs = std::filesystem;

struct ReportFlags {
  std::string model = "mini-llada";
  std::string guide = "mini-qwen";
  std::string out = "docs/results";
  std::optional<int32_t> samples;
  int threads = 0;
  bool quick = false;
  bool fresh = false;
};

EvalFlags parse_command(const std::string& command) {
  EvalFlags flags;
  CLI::App eval;
  add_eval_flags(eval, flags);
  constexpr std::string_view kProgram = "lacuna eval ";
  eval.parse(command.substr(kProgram.size()));
  return flags;
}

/// What the program was built from, as far as git can tell from here.
std::string commit() {
  std::string text;
  if (std::FILE* const pipe = popen("git describe --always --dirty 2>/dev/null", "r")) {
    char buffer[128];
    while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) text += buffer;
    pclose(pipe);
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.empty() ? "unknown" : text;
}

/// What was measured so far, one line of JSON for each run of a command, kept in a file so that a report goes
/// on where the last one ended.
class RawRows {
 public:
  RawRows(fs::path path, bool fresh) : path_(std::move(path)) {
    if (!fresh) read();
    stream_.open(path_, fresh ? std::ios::trunc : std::ios::app);
    if (!stream_) throw InputError("--out: {} cannot be written", path_.string());
  }

  int32_t runs(const std::string& command) const {
    const auto found = rows_.find(command);
    return found == rows_.end() ? 0 : found->second.runs;
  }

  /// The first run's figures and the fastest run's times: what else the machine did only ever adds.
  const Measurement& of(const std::string& command) const { return rows_.at(command).measurement; }

  void add(const nlohmann::ordered_json& row) {
    const std::string line = row.dump();
    stream_ << line << '\n';
    stream_.flush();
    if (!stream_) throw InputError("--out: {} cannot be written", path_.string());
    take(nlohmann::json::parse(line));  // as the next report will read it
  }

 private:
  void read() {
    std::ifstream stream(path_);
    int64_t number = 0;
    for (std::string line; std::getline(stream, line);) {
      const std::string place = fmt::format("{}, line {}", path_.string(), ++number);
      const nlohmann::json row = parse_json(line, place);
      try {
        take(row);
      } catch (const nlohmann::json::exception&) {
        throw InputError("{}: is not a row of this report; --fresh measures everything again", place);
      }
    }
  }

  void take(const nlohmann::json& row) {
    const Measurement run = measurement_of(row);
    Row& known = rows_[row.at("command").get<std::string>()];
    if (known.runs++ == 0) known.measurement = run;
    Measurement& fastest = known.measurement;
    fastest.seconds = std::min(fastest.seconds, run.seconds);
    fastest.processor_seconds = std::min(fastest.processor_seconds, run.processor_seconds);
  }

  struct Row {
    Measurement measurement;
    int32_t runs = 0;
  };

  fs::path path_;
  std::ofstream stream_;
  std::map<std::string, Row> rows_;
};

nlohmann::ordered_json measure(const std::string& command) {
  const EvalFlags flags = parse_command(command);
  const Evaluation evaluation = run_evaluation(flags);
  std::vector<double> row_ratio;
  for (const StepRows& step : evaluation.step_rows) {
    row_ratio.push_back(static_cast<double>(step.rows) / static_cast<double>(step.baseline));
  }
  return {{"command", command},
          {"machine",
           {{"processor", processor_name()},
            {"cores", std::thread::hardware_concurrency()},
            {"instructions", default_table().name}}},
          {"commit", commit()},
          {"seed", evaluation.settings.generation.seed.value_or(0)},
          {"result", to_json(evaluation)},
          {"row_ratio_by_step", row_ratio}};
}

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream stream(path, std::ios::binary);
  stream << text;
  stream.flush();
  if (!stream) throw InputError("--out: {} cannot be written", path.string());
}

void report_masked(const ReportFlags& flags) {
  MaskedGrid grid;
  grid.model = flags.model;
  grid.guide = flags.guide;
  if (flags.quick) {
    grid.samples = 4;
    grid.timed_samples = 2;
    grid.rounds = 1;
    grid.lengths = {8, 16, 32};
  }
  if (flags.samples) grid.samples = *flags.samples;
  grid.timed_samples = std::min(grid.timed_samples, grid.samples);
  if (flags.threads > 0) grid.common_flags = fmt::format(" --threads {}", flags.threads);

  std::error_code failure;
  fs::create_directories(flags.out, failure);
  RawRows rows(fs::path(flags.out) / "masked.jsonl", flags.fresh);
  // Round by round through the whole grid, so that a busy minute of the machine does not meet all runs of one
  // setting.
  std::vector<PageFile> page;
  for (int32_t round = 1; round <= grid.rounds; ++round) {
    page = write_masked_page(grid, [&](const std::string& command, Purpose purpose) {
      if (rows.runs(command) < (purpose == Purpose::kTimes ? round : 1)) {
        fmt::print(stderr, "{}\n", command);
        rows.add(measure(command));
      }
      return rows.of(command);
    });
  }
  for (const PageFile& file : page) {
    write_file(fs::path(flags.out) / file.name, file.text);
    fmt::print("{}\n", (fs::path(flags.out) / file.name).string());
  }
}

}  // namespace

void add_report_command(CLI::App& program) {
  CLI::App* report = program.add_subcommand("report", "Measure a grid of settings and write a page about it");
  report->require_subcommand(1);
  auto flags = std::make_shared<ReportFlags>();
  CLI::App* masked =
      report->add_subcommand("masked", "Caches, SureLock and the guide, beside their papers' figures");
  masked->add_option("-m,--model", flags->model, "The masked diffusion model (default mini-llada)");
  masked->add_option("--guide", flags->guide,
                     "An autoregressive model with the same tokenizer, guide and judge (default mini-qwen)");
  masked->add_option("--samples", flags->samples, "Samples of each setting (default 200; --quick: 4)")
      ->check(CLI::Range(1, 1'000'000));
  add_threads_flag(*masked, flags->threads);
  masked->add_option("--out", flags->out,
                     "Folder of masked.jsonl, masked.md and the plots (default docs/results)");
  masked->add_flag("--quick", flags->quick, "A small grid, to see that all of it works");
  masked->add_flag("--fresh", flags->fresh, "Forget the rows that the folder holds");
  masked->footer("Rows that masked.jsonl holds are not measured again, so that a run may be interrupted.");
  masked->callback([flags] { report_masked(*flags); });
}

}  // namespace lacuna
