#include "uniform_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace lacuna {
namespace {

// On the zoo: two blocks of 16, each position written twice on average.
constexpr const char* kTask = "arithmetic";
constexpr const char* kAnswer = "--gen-length 32";
constexpr const char* kBlockSteps = "--block-length 16 --steps 32";
constexpr const char* kBlocks = "--block-length 16 --steps 32 --tokens-per-step 1";
// What the thesis measures takes no shortcut, however exact.
constexpr const char* kNoShortcuts = "--block-exit steps --last-layer all";

struct Strategy {
  const char* name;
  const char* flags;
};

constexpr std::array<Strategy, 3> kStrategies = {
    Strategy{"none", "--cache none"}, {"prefix", "--cache prefix"}, {"uniform, R = 4", "--cache uniform"}};

class UniformPage : private PageWriter {
 public:
  UniformPage(const UniformGrid& grid, const Measure& measure) : PageWriter(measure), grid_(grid) {}

  std::vector<PageFile> write() {
    published_shapes();
    main_table();
    beyond_the_thesis();
    ablations();
    fewer_steps();
    instruments();
    return files("uniform.md", introduction());
  }

 private:
  std::string eval_command(const std::string& model, const std::string& flags, int32_t samples,
                           int batch) const {
    return fmt::format("{}-m {} --task {} {} {} --batch {} --samples {}{}", kEvalCommand, model, kTask,
                       kAnswer, flags, batch, samples, grid_.common_flags);
  }

  Measurement figures(const std::string& model, const std::string& flags) {
    return evaluate(eval_command(model, flags, grid_.samples, 8), Purpose::kFigures);
  }

  /// Accuracy, and what the judge says of the answers.
  Measurement judged(const std::string& flags) { return figures(grid_.model, with_judge(flags)); }

  std::string with_judge(const std::string& flags) const {
    return fmt::format("{} --judge {}", flags, grid_.judge);
  }

  double processor_seconds(const std::string& flags) {
    return evaluate(eval_command(grid_.model, flags, grid_.timed_samples, 1), Purpose::kTimes)
        .processor_seconds;
  }

  /// A row beside that of the first setting of its table.
  struct Row {
    Measurement of;
    double seconds;
  };

  Row add_row(Table& table, const std::string& name, const std::string& flags, const Row* base) {
    Row row{judged(flags), processor_seconds(flags)};
    const Row& first = base != nullptr ? *base : row;
    table.row({name, accuracy_text(row.of),
               row.of.perplexity ? fmt::format("{:.3f}", *row.of.perplexity) : "-",
               row.of.repetition ? percent(*row.of.repetition) : "-",
               fmt::format("{:.0f}", row.of.rows_per_sample()),
               times(first.of.rows_per_sample() / row.of.rows_per_sample()),
               times(first.of.layer_flops / row.of.layer_flops), times(first.seconds / row.seconds),
               code(eval_command(grid_.model, with_judge(flags), grid_.samples, 8))});
    return row;
  }

  static Table quality_table(const char* what) {
    return Table({what, "accuracy", "perplexity", "repeated", "rows per sample", "fewer rows",
                  "fewer FLOPs in layers", "faster", "command"});
  }

  void main_table() {
    heading("The three strategies");
    paragraph(
        "The thesis (Table 6.1, 3B, blocks of 32, 32 steps, context 2,048, batch 8): prefix cache 1.24× as "
        "fast as "
        "no cache, Uniform-Cache 12.0×; perplexity 5.33, 5.03 and 4.86 with overlapping intervals. Its model "
        "sees a "
        "context 64 times as long as a block; here it is 8 times, so less can be saved.");
    Table table = quality_table("cache");
    const std::string plain = fmt::format("{} --cache none {}", kBlocks, kNoShortcuts);
    const Row base = add_row(table, "none", plain, nullptr);
    add_row(table, "prefix (exact)", fmt::format("{} --cache prefix {}", kBlocks, kNoShortcuts), &base);
    add_row(table, "uniform, R = 4", fmt::format("{} --cache uniform {}", kBlocks, kNoShortcuts), &base);
    add_row(table, "uniform, R = 4, exact shortcuts", fmt::format("{} --cache uniform", kBlocks), &base);
    add_row(table, "prefix, exact shortcuts", fmt::format("{} --cache prefix", kBlocks), &base);
    this->table(table);
    paragraph(
        fmt::format("Perplexity is {}'s of the answers, `repeated` the share of 4-grams that an answer has "
                    "had before. Rows and "
                    "FLOPs are those of whole decodes; `faster` compares the processor time of the first {} "
                    "samples at batch 1.",
                    grid_.judge, grid_.timed_samples));
  }

  void beyond_the_thesis() {
    heading("Beyond the thesis: boundaries, drift, self-correction");
    paragraph(
        "The thesis calls selective refresh at boundaries \"difficult, if not impossible\" (4.4.2) and "
        "leaves cached "
        "self-correction to future work (7.3). Both are approximate here, as is a refresh by measured "
        "drift.");
    Table table = quality_table("setting");
    const std::string uniform = fmt::format("{} --cache uniform", kBlocks);
    const Row base = add_row(table, "uniform, R = 4", uniform, nullptr);
    for (const char* flags :
         {"--refresh 0 --boundary blocks=2,full-every=8", "--boundary blocks=2,full-every=8",
          "--boundary blocks=3,full-every=2", "--drift tau=0.01", "--drift tau=0.05", "--self-correct on",
          "--self-correct full-every=4"}) {
      add_row(table, flags, fmt::format("{} {}", uniform, flags), &base);
    }
    this->table(table);
  }

  void ablations() {
    heading("Block length, refresh interval, tokens per step");
    paragraph(
        "The thesis (Tables 6.9 to 6.11): blocks of 16 to 256 give 9.5×, 12.0×, 11.3×, 8.4× and 5.1×; "
        "refresh "
        "intervals of 1, 4 and never 10.6×, 11.9× and 12.2×; 3, 5 and 10 tokens a step 11.8× each, one token "
        "a step "
        "is degenerate.");
    Table result({"what", "value", "none", "uniform", "fewer rows", "command (uniform)"});
    const auto add = [&](const char* what, int value, const std::string& flags, const std::string& more) {
      const Measurement none = figures(grid_.model, fmt::format("{} --cache none {}", flags, kNoShortcuts));
      const std::string cached = fmt::format("{} --cache uniform{} {}", flags, more, kNoShortcuts);
      const Measurement uniform = figures(grid_.model, cached);
      result.row({what, fmt::format("{}", value), accuracy_text(none), accuracy_text(uniform),
                  times(none.rows_per_sample() / uniform.rows_per_sample()),
                  code(eval_command(grid_.model, cached, grid_.samples, 8))});
    };
    for (const int length : grid_.block_lengths) {
      add("block length", length,
          fmt::format("--block-length {} --steps {} --tokens-per-step 1", length, 2 * length), "");
    }
    for (const int refresh : grid_.refreshes) {
      add("refresh", refresh, kBlocks, fmt::format(" --refresh {}", refresh));
    }
    for (const int tokens : grid_.tokens_per_step) {
      add("tokens per step", tokens, fmt::format("{} --tokens-per-step {}", kBlockSteps, tokens), "");
    }
    table(result);
  }

  static std::string steps_flags(int steps) {
    return fmt::format("--block-length 32 --steps {} --sampler ancestral --temperature 0.3", steps);
  }

  void fewer_steps() {
    heading("Fewer steps: uniform against masked noise");
    paragraph(
        "The thesis (Figure 6.2, ancestral, one block of 512, 512 steps down to 4) finds that masked "
        "diffusion loses "
        "quality sooner, because what it has written stays, and that the cached run follows the uncached "
        "one.");
    Table result({"steps of 32 positions", grid_.model, grid_.model + ", uniform cache", grid_.masked});
    Chart chart{"Accuracy by steps for 32 positions, ancestral sampling",
                {"steps", true, {}, {}, {4, 8, 16, 32, 64}},
                {"right, %", false, 0, 100},
                {{grid_.model, {}, 0, true, false},
                 {grid_.model + ", cached", {}, 1, true, true},
                 {grid_.masked, {}, 2, true, false}}};
    for (const int steps : grid_.step_counts) {
      const std::string flags = steps_flags(steps);
      const std::array<Measurement, 3> found = {figures(grid_.model, flags),
                                                figures(grid_.model, flags + " --cache uniform"),
                                                figures(grid_.masked, flags)};
      std::vector<std::string> cells = {fmt::format("{}", steps)};
      for (size_t i = 0; i < found.size(); ++i) {
        cells.push_back(accuracy_text(found[i]));
        chart.series[i].points.push_back({static_cast<double>(steps), 100 * found[i].accuracy});
      }
      result.row(cells);
    }
    table(result);
    plot("uniform_steps.svg", chart);
    paragraph(fmt::format(
        "Temperature 0.3 for all three: at 1, tiny models write noise with either. {}, and so on.",
        code(eval_command(grid_.model, steps_flags(grid_.step_counts.front()), grid_.samples, 8))));
  }

  // --- Instruments ---

  std::string analyze_command(const std::string& instrument, const std::string& model,
                              const std::string& flags) const {
    return fmt::format("{}{} -m {} --task {} {} {} --samples {}{}", kAnalyzeCommand, instrument, model, kTask,
                       kAnswer, flags, grid_.instrument_samples, grid_.common_flags);
  }

  void instrument(const std::string& instrument, const std::string& model, const std::string& flags) {
    add_tables(analyze_command(instrument, model, flags));
  }

  void instruments() {
    const std::string plain = fmt::format("{} --cache none --block-exit steps", kBlocks);
    const std::string uniform = fmt::format("{} --cache uniform --block-exit steps", kBlocks);
    heading("K/V drift by region");
    paragraph(
        "The thesis (Table 6.6, mean 1 - cosine between steps, adaptive): prompt 0.000042, current block "
        "0.050, next "
        "block 0.0075, previous block 0.0020, filler 0.00063.");
    instrument("drift", grid_.model, plain);
    paragraph("The same with masks:");
    instrument("drift", grid_.masked, plain);
    drift_plot(plain);
    heading("Attention by region");
    paragraph(
        "The thesis (Table 6.7, blocks of 32): learned key 11.1%, prompt 10.2%, rest of the past 16.6%, "
        "previous "
        "block 9.8%, current block 32.9%, next block 3.1%, rest of the future 4.3%, filler 11.9%.");
    instrument("attention", grid_.model, plain);
    heading("Entropy and changes by step");
    paragraph(
        "The thesis (Figures 6.3 and 6.4): mean entropy falls from 7.27 to 0.48 nats (uniform) and from 7.21 "
        "to 2.63 "
        "(masked) with the adaptive sampler.");
    entropy_plot(plain);
    instrument("changes", grid_.model, plain);
    heading("How stale cached K/V are");
    paragraph(
        "Not in the thesis: beside each cached pass a full pass on the same tokens, by region and by steps "
        "since "
        "the cached K/V were computed, with what it does to the block's predictions.");
    instrument("staleness", grid_.model, uniform);
  }

  void drift_plot(const std::string& flags) {
    static constexpr std::array kRegions = {"prompt", "previous", "current", "next", "filler"};
    std::vector<Chart> charts;
    for (const std::string passes : {"within", "boundary"}) {
      Chart chart{passes == "within" ? "Within a block" : "Where the next block begins",
                  {"region, in the canvas' order", false, 0.5, kRegions.size() + 0.5, {1, 2, 3, 4, 5}},
                  {"mean 1 - cosine between steps", true, 5e-5, 0.2},
                  {}};
      for (const std::string& model : {grid_.model, grid_.masked}) {
        ChartSeries series{model, {}, chart.series.size(), false, false};
        for (const AnalysisTable& found : analyze(analyze_command("drift", model, flags))) {
          for (size_t row = 0; row < found.rows.size(); ++row) {
            if (found.text(row, "passes") != passes) continue;
            const auto region = std::find(kRegions.begin(), kRegions.end(), found.text(row, "region"));
            const double drift = found.number(row, "drift");
            if (region == kRegions.end() || drift == 0) continue;
            series.points.push_back({static_cast<double>(region - kRegions.begin() + 1), drift, *region});
          }
        }
        chart.series.push_back(std::move(series));
      }
      charts.push_back(std::move(chart));
    }
    const std::string title = "How far keys and values move from step to step";
    picture("uniform_drift.svg", title, side_by_side(charts, title));
    paragraph("What has not moved at all has no place on a logarithmic axis.");
  }

  void entropy_plot(const std::string& flags) {
    Chart chart{"Entropy of the block's predictions by step", {"step"}, {"nats", false, 0}, {}};
    for (const std::string& model : {grid_.model, grid_.masked}) {
      const std::string command = analyze_command("entropy", model, flags);
      ChartSeries series{model, {}, chart.series.size(), true, false};
      for (const AnalysisTable& found : analyze(command)) {
        for (size_t row = 0; row < found.rows.size(); ++row) {
          series.points.push_back({found.number(row, "step"), found.number(row, "entropy")});
        }
      }
      chart.series.push_back(std::move(series));
      paragraph(code(command));
    }
    plot("uniform_entropy.svg", chart);
  }

  // --- Published shapes ---

  std::string bench_command(const std::string& shape, const std::string& flags, int batch) const {
    return fmt::format("{}-m {} {} --ignore-eos --block-exit steps --last-layer all --batch {}{}",
                       kDecodeBenchCommand, shape, flags, batch, grid_.common_flags);
  }

  void add_shape(Table& result, const std::string& name, const std::string& shape, const std::string& flags,
                 int batch) {
    const std::string command = bench_command(shape, flags, batch);
    const DecodeComparison of = compare_decodes(command);
    const double allowed = 1 / of.flops_ratio;
    const double reached = 1 / of.time_ratio;
    result.row({name, fmt::format("{}", batch), times(allowed), times(reached), percent(reached / allowed),
                fmt::format("{:.2f}", of.plain_tokens_per_second),
                fmt::format("{:.2f}", of.tokens_per_second), code(command)});
  }

  static Table shape_table(const char* what) {
    return Table(
        {what, "batch", "FLOPs allow", "reached", "share", "tokens/s without cache", "tokens/s", "command"});
  }

  void published_shapes() {
    heading("Speed at the published shapes");
    paragraph(
        "The thesis (Tables 6.1 to 6.4, A100): 12.0× for Uniform-Cache with R = 4 at 3B, of 18.9× that FLOPs "
        "allow; "
        "12.2× with R = 0 of 20.4×; 2.8× in one block of 512; 11.6× with a prompt of 512 and 1,536 "
        "generated; 12.1× "
        "at 10B; the gain grows 2.4× from batch 1 to 16.");
    if (grid_.shapes.empty()) {
      paragraph("Not measured: no `--shapes`.");
      return;
    }
    const std::string plan =
        fmt::format("--prompt-length 127 --gen-length {} --block-length 32 --steps 32 --tokens-per-step 3",
                    grid_.shape_length);
    Table strategies = shape_table("setting");
    const int largest = grid_.batches.back();
    const std::string& shape = grid_.shapes.front();
    add_shape(strategies, "uniform, R = 4", shape, plan + " --cache uniform", largest);
    add_shape(strategies, "uniform, R = 0", shape, plan + " --cache uniform --refresh 0", largest);
    const std::string boundary = fmt::format(
        "--prompt-length 127 --gen-length {} --block-length 32 --steps 32 --tokens-per-step 3 --cache "
        "uniform --refresh 0 --boundary blocks=2,full-every=16",
        16 * 32);
    if (!grid_.deep_shape.empty()) {
      add_shape(strategies, "uniform, R = 4", grid_.deep_shape, plan + " --cache uniform", largest);
      add_shape(strategies, "uniform, R = 4", grid_.deep_shape, plan + " --cache uniform", 1);
      add_shape(strategies, "boundaries, R = 0", grid_.deep_shape, boundary, 1);
    }
    for (const std::string& other : grid_.shapes) {
      add_shape(strategies, "uniform, R = 4", other, plan + " --cache uniform", 1);
    }
    add_shape(strategies, "prefix", shape, plan + " --cache prefix", 1);
    add_shape(strategies, "boundaries, R = 0", shape, boundary, largest);
    add_shape(strategies, "one block of 512", shape,
              "--prompt-length 127 --gen-length 512 --block-length 512 --steps 512 --cache uniform", 1);
    add_shape(strategies, "prompt 512, 1,536 generated", shape,
              "--prompt-length 511 --gen-length 1536 --block-length 32 --steps 32 --cache uniform", 1);
    table(strategies);
    Table batching = shape_table("setting");
    for (const int batch : grid_.batches) {
      add_shape(batching, "uniform, R = 4", shape, plan + " --cache uniform", batch);
    }
    heading("Batches");
    table(batching);
    paragraph(
        "Random weights; each kind of pass (as many rows and logits) is timed and counted as often as it "
        "occurs. "
        "FLOPs are those of the layers' products, attention and the head.");
    heading("Where the time goes");
    paragraph(
        "The thesis (Table 6.5, blocks of 32): attention 56% of the uncached run, MLP 17%, QKV 6%; the "
        "cached run is "
        "9.7× faster in all, attention 13.4×, MLP 17.3×, LM head 61×.");
    for (const Strategy& strategy : {kStrategies[0], kStrategies[2]}) {
      const std::string command = fmt::format(
          "{}profile -m {} --prompt-length 127 --gen-length 32 --block-length 32 --steps 6 --last-layer all "
          "--block-exit "
          "steps {}{}",
          kAnalyzeCommand, shape, strategy.flags, grid_.common_flags);
      add_tables(command);
    }
  }

  std::string introduction() const {
    return fmt::format(
        R"(# Uniform-Cache, measured

GIDD models with uniform noise ({}) and with masks ({}), and the caches of the thesis "Uniform-Cache": its tables in kind,
each section beginning with what the thesis reports. The rules are in
[uniform_diffusion.md](../methods/uniform_diffusion.md). Written by `make results` (`lacuna report uniform`) from the raw rows in
`uniform.jsonl`, each with the command that gives it.

- Machine: {}.
- Commit (code and models): {}.
- {} samples of {} for each accuracy, seed 0; brackets are 95% Wilson intervals. Answers of 32 positions in a context of 128.
- The machine is shared. Times are processor times, the fastest of {} runs; at published shapes by the clock.
- Tiny models: read the ratios, not the rates.
)",
        grid_.model, grid_.masked, machines(), commits(), grid_.samples, kTask, grid_.rounds);
  }

  const UniformGrid& grid_;
};

}  // namespace

std::vector<PageFile> write_uniform_page(const UniformGrid& grid, const Measure& measure) {
  return UniformPage(grid, measure).write();
}

}  // namespace lacuna
