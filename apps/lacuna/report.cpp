#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "analysis.h"
#include "base/error.h"
#include "base/json.h"
#include "bench/machine.h"
#include "block_timing.h"
#include "claims_report.h"
#include "commands.h"
#include "cpu_report.h"
#include "decode_timing.h"
#include "engine/engine.h"
#include "engine/result.h"
#include "evaluation.h"
#include "frontier_report.h"
#include "generation_flags.h"
#include "kernels/dispatch.h"
#include "loading.h"
#include "mage_report.h"
#include "masked_report.h"
#include "numbers.h"
#include "refusion_report.h"
#include "report_page.h"
#include "server_report.h"
#include "shapes_report.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"
#include "uniform_report.h"
#include "zoo_report.h"

namespace lacuna {
namespace {

namespace fs = std::filesystem;

struct ReportFlags {
  std::string model;
  std::string out = "docs/results";
  std::optional<int32_t> samples;
  int threads = 0;
  bool quick = false;
  bool fresh = false;
  bool only_known = false;
};

struct MaskedFlags : ReportFlags {
  std::string guide = "mini-qwen";
};

struct RefusionFlags : ReportFlags {
  std::string twin = "mini-qwen3";
  std::string masked = "mini-llada";
  std::string blocks = "mini-sdar";
  std::optional<std::string> shape;
};

struct UniformFlags : ReportFlags {
  std::string masked = "mini-gidd-mask";
  std::string judge = "bench/models/mini-qwen-0.1.0";
  std::optional<std::vector<std::string>> shapes;
};

struct ZooFlags : ReportFlags {
  std::vector<std::string> models;
  uint64_t seed = 0;
};

struct ShapesFlags : ReportFlags {
  std::string whole = "random:llada-8b";
  std::vector<std::string> loads = {"build/ggml/llada-8b-8-layers-bf16.gguf", "build/ggml/packed"};
  std::string beside_ggml = "python3 bench/beside_ggml.py measure --layers 8 --json";
};

struct FrontierFlags : ReportFlags {
  std::vector<std::string> families;
};

struct MageFlags : ReportFlags {
  std::string needles = "bench/models/mini-fast-dllm-retrieval";
  std::string twin = "mini-qwen3";
  std::optional<std::vector<std::string>> shapes;
};

/// The flags of a command that begins with `program`, as `add` adds them to a parser.
template <typename Flags, typename Add>
Flags parse_command(const std::string& command, std::string_view program, Add&& add) {
  Flags flags;
  CLI::App parser;
  add(parser, flags);
  parser.parse(command.substr(program.size()));
  return flags;
}

/// What a shell prints, without the end of its last line; nothing where it fails.
std::optional<std::string> printed_by(const std::string& words) {
  std::FILE* const pipe = popen(words.c_str(), "r");
  if (pipe == nullptr) return {};
  std::string text;
  char buffer[4096];
  while (const size_t size = std::fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, size);
  if (pclose(pipe) != 0) return {};
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

/// What the program was built from, as far as git can tell from here.
std::string commit() {
  return printed_by("git describe --always --dirty 2>/dev/null").value_or("unknown");
}

/// What was measured so far, one line of JSON for each run of a command, kept in a file so that a report goes
/// on where the last one ended.
class RawRows {
 public:
  RawRows(fs::path path, bool fresh) : path_(std::move(path)) {
    if (!fresh) read(path_);
    stream_.open(path_, fresh ? std::ios::trunc : std::ios::app);
    if (!stream_) throw InputError("--out: {} cannot be written", path_.string());
  }

  /// Takes another report's rows as known, too.
  void borrow(const fs::path& path) { read(path); }

  int32_t runs(const std::string& command) const {
    const auto found = rows_.find(command);
    return found == rows_.end() ? 0 : found->second.runs;
  }

  /// The first run's row with the fastest run's times: what else the machine did only ever adds.
  const nlohmann::json& of(const std::string& command) const { return rows_.at(command).row; }

  void add(const nlohmann::ordered_json& row) {
    // A token's text may begin or end inside a character; JSON cannot.
    const std::string line = row.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    stream_ << line << '\n';
    stream_.flush();
    if (!stream_) throw InputError("--out: {} cannot be written", path_.string());
    take(nlohmann::json::parse(line));  // as the next report will read it
  }

 private:
  void read(const fs::path& path) {
    std::ifstream stream(path);
    int64_t number = 0;
    for (std::string line; std::getline(stream, line);) {
      const std::string place = fmt::format("{}, line {}", path.string(), ++number);
      const nlohmann::json row = parse_json(line, place);
      try {
        take(row);
      } catch (const nlohmann::json::exception&) {
        throw InputError("{}: is not a row of this report; --fresh measures everything again", place);
      }
    }
  }

  void take(const nlohmann::json& row) {
    check_row(row);
    Row& known = rows_[row.at("command").get<std::string>()];
    if (known.runs++ == 0) known.row = row;
    nlohmann::json& fastest = known.row.at("result");
    for (const char* key : {"seconds", "processor_seconds"}) {
      if (!fastest.contains(key)) continue;
      fastest[key] = std::min(fastest[key].get<double>(), row.at("result").at(key).get<double>());
    }
  }

  struct Row {
    nlohmann::json row;
    int32_t runs = 0;
  };

  fs::path path_;
  std::ofstream stream_;
  std::map<std::string, Row> rows_;
};

/// What every raw row begins with.
nlohmann::ordered_json row_of(const std::string& command) {
  return {{"command", command},
          {"machine",
           {{"processor", processor_name()},
            {"cores", std::thread::hardware_concurrency()},
            {"instructions", default_table().name}}},
          {"commit", commit()}};
}

nlohmann::ordered_json measure_evaluation(const std::string& command) {
  const auto flags = parse_command<EvalFlags>(command, kEvalCommand, add_eval_flags);
  const Evaluation evaluation = run_evaluation(flags);
  std::vector<double> row_ratio;
  for (const StepRows& step : evaluation.step_rows) {
    // A pass that only reads the prompt has no counterpart among those without a cache.
    row_ratio.push_back(
        step.uncached > 0 ? static_cast<double>(step.rows) / static_cast<double>(step.uncached) : 1);
  }
  nlohmann::ordered_json row = row_of(command);
  row["seed"] = evaluation.settings.generation.seed.value_or(0);
  row["result"] = to_json(evaluation);
  row["row_ratio_by_step"] = row_ratio;
  return row;
}

nlohmann::ordered_json measure_decode_bench(const std::string& command) {
  nlohmann::ordered_json row = row_of(command);
  row["result"] =
      time_decode(parse_command<DecodeTimingFlags>(command, kDecodeBenchCommand, add_decode_timing_flags));
  return row;
}

nlohmann::ordered_json measure_block_bench(const std::string& command) {
  nlohmann::ordered_json row = row_of(command);
  row["result"] =
      time_blocks(parse_command<BlockTimingFlags>(command, kBlockBenchCommand, add_block_timing_flags));
  return row;
}

struct TraceFlags : ModelFlags {
  std::string prompt;
  std::string trace;  ///< where `lacuna run` would write it
  GenerationOptions generation;
};

void add_trace_flags(CLI::App& command, TraceFlags& flags) {
  add_model_flags(command, flags);
  command.add_option("-p", flags.prompt);
  command.add_option("--trace", flags.trace);
  add_generation_flags(command, flags.generation);
}

/// The lines that `lacuna run --trace` writes, and the texts of their tokens.
nlohmann::ordered_json measure_trace(const std::string& command) {
  const auto flags = parse_command<TraceFlags>(command, kRunCommand, add_trace_flags);
  const ModelSource source = find_model(flags);
  if (!has_tokenizer(source.folder)) throw InputError("{} has no tokenizer", flags.model);
  const Tokenizer tokenizer = Tokenizer::load(source.folder);
  const LoadedModel loaded = load_model(flags, source);
  const EvaluatedModel model{loaded.model, tokenizer, load_chat_template(source.folder)};
  Engine engine(loaded.model, *loaded.kernels, *loaded.threads);
  engine.add(
      make_sample_decoder(model, flags.generation, {flags.prompt, ""}, flags.generation.seed.value_or(0)));
  nlohmann::ordered_json lines = nlohmann::ordered_json::array();
  std::set<TokenId> tokens;
  engine.run([&](const StepEvent& event) {
    lines.push_back(trace_step(event));
    for (const Commit& commit : event.report.committed) tokens.insert(commit.token);
    for (const SlotReport& slot : event.report.slots) tokens.insert(slot.tokens.begin(), slot.tokens.end());
  });
  nlohmann::ordered_json texts = nlohmann::ordered_json::array();
  for (const TokenId token : tokens) {
    texts.push_back({{"token", token}, {"text", tokenizer.decode(std::array{token}, false)}});
  }
  nlohmann::ordered_json row = row_of(command);
  row["prompt_length"] = engine.decoder(0).prompt_length();
  row["result"] = {{"trace", std::move(lines)}, {"texts", std::move(texts)}};
  return row;
}

/// Rows with the same keys are one table; JSON would not keep the order of the keys.
nlohmann::ordered_json measure_analysis(const std::string& command) {
  nlohmann::ordered_json tables = nlohmann::ordered_json::array();
  for (const auto& found : run_analysis(command.substr(kAnalyzeCommand.size()))) {
    nlohmann::ordered_json keys = nlohmann::ordered_json::array();
    nlohmann::ordered_json cells = nlohmann::ordered_json::array();
    for (const auto& [key, value] : found.items()) {
      keys.push_back(key);
      cells.push_back(value);
    }
    if (tables.empty() || tables.back()["head"] != keys) tables.push_back({{"head", keys}, {"rows", {}}});
    tables.back()["rows"].push_back(cells);
  }
  nlohmann::ordered_json row = row_of(command);
  row["result"] = {{"tables", std::move(tables)}};
  return row;
}

/// Of a command in a process of its own, which prints a JSON object on its last line.
nlohmann::ordered_json measure_printed(const std::string& command) {
  constexpr std::string_view kProgram = "lacuna ";
  // Scripts find the program in LACUNA.
  const std::string program = fs::read_symlink("/proc/self/exe").string();
  setenv("LACUNA", program.c_str(), 1);
  const std::string words =
      command.starts_with(kProgram) ? "\"$LACUNA\" " + command.substr(kProgram.size()) : command;
  // What it writes with mktemp goes when it ends.
  constexpr std::string_view kScratch =
      "TMPDIR=$(mktemp -d); export TMPDIR; trap 'rm -rf \"$TMPDIR\"' EXIT; ";
  const std::optional<std::string> text = printed_by(std::string(kScratch) + words);
  if (!text) throw InputError("{}: failed", command);
  nlohmann::ordered_json row = row_of(command);
  row["result"] = parse_json(text->substr(text->rfind('\n') + 1), command);
  return row;
}

nlohmann::ordered_json measure(const std::string& command) {
  if (command.starts_with(kEvalCommand)) return measure_evaluation(command);
  if (command.starts_with(kDecodeBenchCommand)) return measure_decode_bench(command);
  if (command.starts_with(kBlockBenchCommand)) return measure_block_bench(command);
  if (command.starts_with(kRunCommand)) return measure_trace(command);
  if (command.starts_with(kAnalyzeCommand)) return measure_analysis(command);
  return measure_printed(command);
}

/// What --threads says about a grid.
template <typename Grid>
void set_threads(const ReportFlags& flags, Grid& grid) {
  if (flags.threads > 0) grid.common_flags = fmt::format(" --threads {}", flags.threads);
}

/// The same, and what --samples and --quick say.
template <typename Grid>
void set_samples(const ReportFlags& flags, Grid& grid) {
  if (flags.quick) grid.samples = 4;
  if (flags.samples) grid.samples = *flags.samples;
  set_threads(flags, grid);
}

/// The same of a grid some of whose settings are timed.
template <typename Grid>
void set_size(const ReportFlags& flags, Grid& grid) {
  set_samples(flags, grid);
  if (flags.quick) {
    grid.timed_samples = 2;
    grid.rounds = 1;
  }
  grid.timed_samples = std::min(grid.timed_samples, grid.samples);
}

/// Measures what a page asks for and is not known yet, then writes the page.
void report(const ReportFlags& flags, const std::string& name, int32_t rounds,
            const std::function<std::vector<PageFile>(const Measure&)>& write_page,
            const std::vector<std::string>& borrowed = {}) {
  std::error_code failure;
  fs::create_directories(flags.out, failure);
  RawRows rows(fs::path(flags.out) / (name + ".jsonl"), flags.fresh);
  for (const std::string& other : borrowed) rows.borrow(fs::path(flags.out) / (other + ".jsonl"));
  // Round by round through the whole grid, so that a busy minute of the machine does not meet all runs of one
  // setting.
  std::vector<PageFile> page;
  for (int32_t round = 1; round <= rounds; ++round) {
    page = write_page([&](const std::string& command, Purpose purpose) {
      if (flags.only_known) {
        if (rows.runs(command) == 0)
          throw InputError("--only-known: {}.jsonl has no row of {}", name, command);
      } else if (rows.runs(command) < (purpose == Purpose::kTimes ? round : 1)) {
        fmt::print(stderr, "{}\n", command);
        rows.add(measure(command));
      }
      return rows.of(command);
    });
  }
  write_files(flags.out, page);
}

void report_masked(const MaskedFlags& flags) {
  MaskedGrid grid;
  grid.model = flags.model;
  grid.guide = flags.guide;
  if (flags.quick) grid.lengths = {8, 16, 32};
  set_size(flags, grid);
  report(flags, "masked", grid.rounds,
         [&](const Measure& measure) { return write_masked_page(grid, measure); });
}

void report_refusion(const RefusionFlags& flags) {
  RefusionGrid grid;
  grid.model = flags.model;
  grid.twin = flags.twin;
  grid.masked = flags.masked;
  grid.blocks = flags.blocks;
  grid.shape = flags.shape.value_or(flags.quick ? "none" : "random:refusion-8b,layers=2");
  if (grid.shape == "none") grid.shape.clear();
  if (flags.quick) {
    grid.slot_thresholds = {0.5, 0.9};
    grid.token_thresholds = {0.5, 0.9};
    grid.slot_sizes = {4, 8};
    grid.block_lengths = {16, 64};
  }
  set_size(flags, grid);
  report(flags, "refusion", grid.rounds,
         [&](const Measure& measure) { return write_refusion_page(grid, measure); });
}

void report_uniform(const UniformFlags& flags) {
  UniformGrid grid;
  grid.model = flags.model;
  grid.masked = flags.masked;
  grid.judge = flags.judge;
  if (!flags.quick) {
    grid.shapes = {"random:gidd-3b,layers=1", "random:gidd-10b,layers=1"};
    grid.deep_shape = "random:gidd-3b,layers=6";
  }
  if (flags.shapes) grid.shapes = *flags.shapes;
  if (grid.shapes == std::vector<std::string>{"none"}) grid.shapes.clear();
  if (grid.shapes.empty()) grid.deep_shape.clear();
  if (flags.quick) {
    grid.instrument_samples = 1;
    grid.batches = {1};
    grid.block_lengths = {8};
    grid.refreshes = {1};
    grid.tokens_per_step = {3};
    grid.step_counts = {4, 8};
  }
  set_size(flags, grid);
  report(flags, "uniform", grid.rounds,
         [&](const Measure& measure) { return write_uniform_page(grid, measure); });
}

void report_mage(const MageFlags& flags) {
  MageGrid grid;
  grid.model = flags.model;
  if (flags.needles != "none") grid.needles = flags.needles;
  grid.twin = flags.twin;
  if (!flags.quick) {
    grid.shapes = {"random:sdar-8b,layers=8", "random:fast-dllm-v2-7b,layers=7",
                   "random:llada2-mini,layers=5"};
  }
  if (flags.shapes) grid.shapes = *flags.shapes;
  if (grid.shapes == std::vector<std::string>{"none"}) grid.shapes.clear();
  if (flags.quick) {
    grid.needle_samples = 1;
    grid.cell_samples = 1;
    grid.instrument_samples = 1;
    grid.contexts = {128, 256};
    grid.depth_steps = {0, 4};
    grid.budgets = {16};
    grid.needle_budgets = {32};
  }
  set_samples(flags, grid);
  report(flags, "mage", 1, [&](const Measure& measure) { return write_mage_page(grid, measure); });
}

void report_frontier(const FrontierFlags& flags) {
  FrontierGrid grid;
  grid.families = frontier_families();
  grid.film = film_settings();
  if (!flags.families.empty()) {
    std::erase_if(grid.families, [&](const FrontierFamily& family) {
      return std::find(flags.families.begin(), flags.families.end(), family.family) == flags.families.end();
    });
  }
  if (flags.quick) grid.rounds = 1;
  set_samples(flags, grid);
  report(flags, "frontier", grid.rounds,
         [&](const Measure& measure) { return write_frontier_page(grid, measure); });
}

void report_claims(const ReportFlags& flags) {
  ClaimsGrid grid;
  grid.has_shapes = !flags.quick;
  set_samples(flags, grid);
  report(flags, "claims", 1, [&](const Measure& measure) { return write_claims_page(grid, measure); },
         {"masked", "refusion", "uniform", "mage", "frontier"});
}

void report_shapes(const ShapesFlags& flags) {
  ShapesGrid grid;
  grid.decodes = published_decodes();
  if (flags.quick) {
    grid.model = "mini-llada";
    grid.steps = {{32, {32, 8}}};
    grid.decodes = {{"SureLock", "-m mini-llada --gen-length 16 --lock eps=5e-3", "-"}};
  } else {
    grid.whole = flags.whole;
    grid.loads = flags.loads;
    grid.beside_ggml = flags.beside_ggml;
  }
  set_threads(flags, grid);
  report(flags, "shapes", 1, [&](const Measure& measure) { return write_shapes_page(grid, measure); });
}

void report_server(const ReportFlags& flags) {
  ServerGrid grid = server_grid();
  if (flags.quick) {
    for (std::string& command : grid.loads) command += " --clients 4 --seconds 2 --rate 0 --memory-growth 1";
    grid.overheads = {"python3 bench/serve_overhead.py --json -m mini-llada --canvas 64"};
  }
  report(flags, "server", 1, [&](const Measure& measure) { return write_server_page(grid, measure); });
}

void report_zoo(const ZooFlags& flags) {
  ZooGrid grid;
  grid.models = zoo_models();
  grid.seed = flags.seed;
  if (!flags.models.empty()) {
    std::erase_if(grid.models, [&](const ZooModel& model) {
      return std::find(flags.models.begin(), flags.models.end(), model.name) == flags.models.end();
    });
  }
  set_samples(flags, grid);
  report(flags, "zoo", 1, [&](const Measure& measure) { return write_zoo_page(grid, measure); });
}

/// The flags that all reports have.
void add_page_flags(CLI::App& command, ReportFlags& flags, const std::string& name) {
  command.add_option("--out", flags.out,
                     fmt::format("Folder of {0}.jsonl, {0}.md and the plots (default {1})", name, flags.out));
  command.add_flag("--quick", flags.quick, "A small grid, to see that all of it works");
  CLI::Option* fresh = command.add_flag("--fresh", flags.fresh, "Forget the rows that the folder holds");
  command
      .add_flag("--only-known", flags.only_known,
                "Write the page again from the rows that the folder holds, and measure nothing")
      ->excludes(fresh);
  command.footer(fmt::format(
      "Rows that {}.jsonl holds are not measured again, so that a run may be interrupted.", name));
}

/// Those, and the flags of reports that answer samples.
void add_report_flags(CLI::App& command, ReportFlags& flags, const std::string& name) {
  command.add_option("--samples", flags.samples, "Samples of each setting (default 200; --quick: 4)")
      ->check(CLI::Range(1, 1'000'000));
  add_threads_flag(command, flags.threads);
  add_page_flags(command, flags, name);
}

void add_masked_report(CLI::App& report) {
  auto flags = std::make_shared<MaskedFlags>();
  flags->model = "mini-llada";
  CLI::App* command =
      report.add_subcommand("masked", "Caches, SureLock and the guide, beside their papers' figures");
  command->add_option("-m,--model", flags->model, "The masked diffusion model (default mini-llada)");
  command->add_option("--guide", flags->guide,
                      "An autoregressive model with the same tokenizer, guide and judge (default mini-qwen)");
  add_report_flags(*command, *flags, "masked");
  command->callback([flags] { report_masked(*flags); });
}

void add_refusion_report(CLI::App& report) {
  auto flags = std::make_shared<RefusionFlags>();
  flags->model = "mini-refusion";
  CLI::App* command = report.add_subcommand("refusion", "ReFusion's modes, beside its paper's figures");
  command->add_option("-m,--model", flags->model, "The ReFusion model (default mini-refusion)");
  command->add_option("--twin", flags->twin, "An autoregressive model of the same size (default mini-qwen3)");
  command->add_option("--masked", flags->masked, "A masked diffusion model (default mini-llada)");
  command->add_option("--blocks", flags->blocks, "A block diffusion model (default mini-sdar)");
  command->add_option("--shape", flags->shape,
                      "The model whose whole decodes are timed with scripted luck, or none (default "
                      "random:refusion-8b,layers=2; --quick: none)");
  add_report_flags(*command, *flags, "refusion");
  command->callback([flags] { report_refusion(*flags); });
}

void add_uniform_report(CLI::App& report) {
  auto flags = std::make_shared<UniformFlags>();
  flags->model = "mini-gidd";
  CLI::App* command =
      report.add_subcommand("uniform", "Uniform-Cache and its instruments, beside the thesis's figures");
  command->add_option("-m,--model", flags->model, "The uniform GIDD model (default mini-gidd)");
  command->add_option("--masked", flags->masked, "The masked GIDD model (default mini-gidd-mask)");
  command->add_option(
      "--judge", flags->judge,
      "An autoregressive model with the same tokenizer (default bench/models/mini-qwen-0.1.0)");
  command->add_option("--shapes", flags->shapes,
                      "Models whose whole decodes are timed, or none (default random:gidd-3b,layers=1 and "
                      "random:gidd-10b,layers=1; --quick: none)");
  add_report_flags(*command, *flags, "uniform");
  command->callback([flags] { report_uniform(*flags); });
}

void add_mage_report(CLI::App& report) {
  auto flags = std::make_shared<MageFlags>();
  flags->model = "mini-sdar";
  CLI::App* command =
      report.add_subcommand("mage", "Sparse attention over block diffusion, beside MAGE's figures");
  command->add_option("-m,--model", flags->model,
                      "The block diffusion model, which knows arithmetic (default mini-sdar)");
  command->add_option("--needles", flags->needles,
                      "A block diffusion model that was trained on retrieval, or none (default "
                      "bench/models/mini-fast-dllm-retrieval)");
  command->add_option("--twin", flags->twin,
                      "An autoregressive model with the same tokenizer, the control (default mini-qwen3)");
  command->add_option("--shapes", flags->shapes,
                      "Models whose blocks are timed, or none (default random:sdar-8b,layers=8, "
                      "random:fast-dllm-v2-7b,layers=7 and random:llada2-mini,layers=5; --quick: none)");
  add_report_flags(*command, *flags, "mage");
  command->callback([flags] { report_mage(*flags); });
}

void add_frontier_report(CLI::App& report) {
  auto flags = std::make_shared<FrontierFlags>();
  CLI::App* command =
      report.add_subcommand("frontier", "Accuracy against time and rows of every method, family by family");
  std::vector<std::string> names;
  for (const FrontierFamily& family : frontier_families()) names.push_back(family.family);
  command->add_option("--families", flags->families, "Which of them (default all)")
      ->check(CLI::IsMember(names));
  add_report_flags(*command, *flags, "frontier");
  command->callback([flags] { report_frontier(*flags); });
}

void add_claims_report(CLI::App& report) {
  auto flags = std::make_shared<ReportFlags>();
  CLI::App* command =
      report.add_subcommand("claims", "What the papers claim, beside what the other reports measured");
  add_report_flags(*command, *flags, "claims");
  command->callback([flags] { report_claims(*flags); });
}

void add_server_report(CLI::App& report) {
  auto flags = std::make_shared<ReportFlags>();
  CLI::App* command =
      report.add_subcommand("server", "The server under load, and what it costs (needs python3)");
  add_page_flags(*command, *flags, "server");
  command->callback([flags] { report_server(*flags); });
}

void add_shapes_report(CLI::App& report) {
  auto flags = std::make_shared<ShapesFlags>();
  CLI::App* command = report.add_subcommand(
      "shapes", "Steps and whole decodes at published shapes, and a ggml-based program beside them");
  command->add_option("--whole", flags->whole, "A model with all its layers (default random:llada-8b)");
  command->add_option(
      "--loads", flags->loads,
      "Models whose loading is timed (default what bench/beside_ggml.py prepared, and its packed copy)");
  command->add_option("--beside-ggml", flags->beside_ggml,
                      "How llama.cpp is compared with (default bench/beside_ggml.py), or nothing");
  add_threads_flag(*command, flags->threads);
  add_page_flags(*command, *flags, "shapes");
  command->callback([flags] { report_shapes(*flags); });
}

void add_zoo_report(CLI::App& report) {
  auto flags = std::make_shared<ZooFlags>();
  CLI::App* command = report.add_subcommand("zoo", "What the models that ship with the repository can do");
  std::vector<std::string> names;
  for (const ZooModel& model : zoo_models()) names.push_back(model.name);
  command->add_option("--models", flags->models, "Which of them (default all)")->check(CLI::IsMember(names));
  command->add_option("--seed", flags->seed, "Which samples (default 0)")->check(number<uint64_t>());
  add_report_flags(*command, *flags, "zoo");
  command->callback([flags] { report_zoo(*flags); });
}

}  // namespace

void add_report_command(CLI::App& program) {
  CLI::App* report = program.add_subcommand("report", "Measure a grid of settings and write a page about it");
  report->require_subcommand(1);
  add_frontier_report(*report);
  add_claims_report(*report);
  add_masked_report(*report);
  add_refusion_report(*report);
  add_uniform_report(*report);
  add_mage_report(*report);
  add_zoo_report(*report);
  add_shapes_report(*report);
  add_server_report(*report);
  add_cpu_report(*report, commit);
}

}  // namespace lacuna
