#include "refusion_report.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "decoding_picture.h"
#include "eval/tasks.h"

namespace lacuna {
namespace {

constexpr std::array<const char*, 3> kModes = {"released", "paper", "lacuna"};
constexpr std::array<const char*, 2> kTasks = {"arithmetic", "records"};
constexpr const char* kSweptTask = "records";

/// An amount for each of another, where there is any of the other.
std::string ratio_text(double amount, double of, int digits, std::string_view unit = "") {
  return of > 0 ? fmt::format("{:.{}f}{}", amount / of, digits, unit) : "-";
}

class RefusionPage : private PageWriter {
 public:
  RefusionPage(const RefusionGrid& grid, const Measure& measure) : PageWriter(measure), grid_(grid) {}

  std::vector<PageFile> write() {
    accuracy_and_speed();
    reuse_of_kv();
    sweeps();
    beyond_the_paper();
    frontiers();
    published_shape();
    one_decoding();
    return files("refusion.md", introduction());
  }

 private:
  // --- Settings ---

  /// What was measured of one decoder on one task.
  struct Result {
    std::string command;  // of the figures
    Measurement figures;
    Measurement times;  // where they were asked for

    double tokens_per_processor_second() const { return rate(times.processor_seconds); }
    double tokens_per_second() const { return rate(times.seconds); }
    double rate(double seconds) const { return seconds > 0 ? times.answer_tokens() / seconds : 0; }
  };

  std::string command(const std::string& flags, int batch, int32_t samples) const {
    return fmt::format("{}{} --batch {} --samples {}{}", kEvalCommand, flags, batch, samples,
                       grid_.common_flags);
  }

  /// Several samples share each pass; a sample's figures do not depend on the others.
  Result figures(const std::string& flags) {
    const std::string words = command(flags, 8, grid_.samples);
    return {words, evaluate(words, Purpose::kFigures), {}};
  }

  Result timed(const std::string& flags) {
    Result result = figures(flags);
    result.times = evaluate(command(flags, 1, grid_.timed_samples), Purpose::kTimes);
    return result;
  }

  /// What is not given is at its default.
  std::string refusion(const std::string& task, const std::string& mode, const std::string& more = "") const {
    return fmt::format("-m {} --task {} --refusion {}{}{}", grid_.model, task, mode, more.empty() ? "" : " ",
                       more);
  }

  void mark(const std::string& task, const std::string& family, const std::string& label,
            const Result& result) {
    frontiers_[task].mark(family, label, result.figures.tokens_per_forward, 100 * result.figures.accuracy);
  }

  static std::string rows_per_token(const Measurement& of) {
    return ratio_text(of.rows_per_sample(), of.answer_tokens(), 2);
  }

  // --- Sections ---

  void accuracy_and_speed() {
    heading("Accuracy and speed: Tables 1 and 2");
    paragraph(
        "The paper's ReFusion (8B) writes 72.62 tokens a second at an average accuracy of 65.31 over seven "
        "tasks, Qwen3-8B 32.42 at 73.36 (Table 1); trained on the same data, ReFusion 53.34 at 59.93, a "
        "left-to-right model 30.16 at 63.27 and block diffusion 12.11 at 52.88 (Table 2).");
    for (const char* task : kTasks) {
      Table result({task, "accuracy", "tokens per pass", "passes", "rows per token", "tokens/s",
                    "by the clock", "rows to released", "command"});
      const Result released = timed(refusion(task, "released"));
      const auto add = [&](const std::string& name, const Result& each) {
        result.row({name, accuracy_text(each.figures), fmt::format("{:.2f}", each.figures.tokens_per_forward),
                    fmt::format("{:.1f}", each.figures.passes), rows_per_token(each.figures),
                    fmt::format("{:.0f}", each.tokens_per_processor_second()),
                    fmt::format("{:.0f}", each.tokens_per_second()),
                    ratio_text(each.figures.rows_per_sample(), released.figures.rows_per_sample(), 2, "×"),
                    code(each.command)});
      };
      const Result twin = timed(fmt::format("-m {} --task {}", grid_.twin, task));
      add("left to right, " + grid_.twin, twin);
      mark(task, "left to right", grid_.twin, twin);
      if (task == std::string_view("arithmetic")) {
        const auto add_both = [&](const std::string& family, const std::string& name,
                                  const std::string& model, const std::string& cache) {
          const std::string flags = fmt::format("-m {} --task {}", model, task);
          const Result plain = timed(flags);
          const Result fast = timed(fmt::format("{} --unmask threshold=0.9{}", flags, cache));
          add(name + ", one token a step", plain);
          add(fmt::format("{}, threshold 0.9{}", name, cache.empty() ? "" : ", dual cache"), fast);
          mark(task, family, "one a step", plain);
          mark(task, family, "threshold 0.9", fast);
        };
        add_both("masked", grid_.masked, grid_.masked, " --cache dual");
        add_both("blocks", "block diffusion, " + grid_.blocks, grid_.blocks, "");
      }
      for (const char* mode : kModes) {
        const Result each = timed(refusion(task, mode));
        add(fmt::format("ReFusion, {}", mode), each);
        mark(task, mode, fmt::format("{}, default", mode), each);
      }
      table(result);
    }
    paragraph(
        fmt::format("Tokens are those of answers; passes and rows are per sample and per token of an answer. "
                    "The times are of the same commands with `--batch 1 --samples {}`.",
                    grid_.timed_samples));
  }

  void reuse_of_kv() {
    heading("K/V reuse against recomputation: Table 4");
    paragraph(
        "In the paper, recomputing the K/V of completed slots costs 14 to 25% of the tokens per second and "
        "changes no task's accuracy by more than 1.2 points, never for the better. `--kv reuse` is the "
        "default. Lacuna's own rules leave nothing to recompute unless slots are committed as they were "
        "completed "
        "side by side.");
    for (const char* task : kTasks) {
      Table result({task, "K/V", "accuracy", "passes", "rows per token", "tokens/s", "by the clock",
                    "tokens/s to reuse", "command"});
      for (const char* mode : kModes) {
        const std::string fill = mode == std::string_view("lacuna") ? "--fill side-by-side " : "";
        const Result reuse = timed(refusion(task, mode, fill + "--kv reuse"));
        const Result recompute = timed(refusion(task, mode, fill + "--kv recompute"));
        const auto add = [&](const char* kv, const Result& each) {
          result.row(
              {mode, kv, accuracy_text(each.figures), fmt::format("{:.1f}", each.figures.passes),
               rows_per_token(each.figures), fmt::format("{:.0f}", each.tokens_per_processor_second()),
               fmt::format("{:.0f}", each.tokens_per_second()),
               ratio_text(each.tokens_per_processor_second(), reuse.tokens_per_processor_second(), 2, "×"),
               code(each.command)});
        };
        add("reuse", reuse);
        add("recompute", recompute);
        mark(task, mode, fmt::format("{}, recompute", mode), recompute);
      }
      table(result);
    }
  }

  struct Sweep {
    std::string flag, short_name;
    std::vector<double> values;
    double base;  // the default
  };

  void sweeps() {
    heading("Thresholds, slot and block size: Figures 4 and 8");
    paragraph(
        "The paper finds (MBPP, around a slot threshold of 0.9, a token threshold of 0.3 and slots of 32) a "
        "wide range that is good at both: slot thresholds from 0.5, token thresholds from 0.1 to 0.9, slots "
        "of 8 to 32, blocks of 32 to 128; from blocks of 32 to blocks of 512 accuracy moves by about 0.2 "
        "points.");
    const std::vector<Sweep> thresholds = {{"--slot-threshold", "τ slot", grid_.slot_thresholds, 0.9},
                                           {"--token-threshold", "τ token", grid_.token_thresholds, 0.9}};
    const std::vector<Sweep> sizes = {{"--slot-size", "slots of", grid_.slot_sizes, 8},
                                      {"--block-length", "blocks of", grid_.block_lengths, 64}};
    Table result({kSweptTask, "value", "accuracy", "tokens per pass", "passes", "rows per token", "command"});
    const ChartAxis threshold{"threshold", false, 0, 1, {0, 0.2, 0.4, 0.6, 0.8, 1}};
    const ChartAxis size{"positions", true, {}, {}, {4, 8, 16, 32, 64}};
    sweep(thresholds, "thresholds", threshold, result);
    sweep(sizes, "sizes", size, result);
    table(result);
    paragraph(
        "One setting at a time, around lacuna's default: both thresholds 0.9, slots of 8, blocks of 64.");
  }

  void sweep(const std::vector<Sweep>& all, const std::string& name, const ChartAxis& x, Table& result) {
    Chart accuracy{fmt::format("Accuracy on {} by {}", kSweptTask, name), x, {"right, %", false, 0, 100}, {}};
    Chart tokens{
        fmt::format("Tokens per forward pass on {} by {}", kSweptTask, name), x, {"tokens", false, 0}, {}};
    for (const Sweep& each : all) {
      ChartSeries right{each.flag, {}, accuracy.series.size(), true, false};
      ChartSeries written = right;
      for (const double value : each.values) {
        const bool is_base = value == each.base;
        const Result found = figures(refusion(
            kSweptTask, "lacuna", is_base ? std::string() : fmt::format("{} {:g}", each.flag, value)));
        const Measurement& of = found.figures;
        result.row({code(each.flag), fmt::format("{:g}{}", value, is_base ? " (default)" : ""),
                    accuracy_text(of), fmt::format("{:.2f}", of.tokens_per_forward),
                    fmt::format("{:.1f}", of.passes), rows_per_token(of), code(found.command)});
        if (!is_base) mark(kSweptTask, "lacuna", fmt::format("{} {:g}", each.short_name, value), found);
        right.points.push_back({value, 100 * of.accuracy});
        written.points.push_back({value, of.tokens_per_forward});
      }
      accuracy.series.push_back(std::move(right));
      tokens.series.push_back(std::move(written));
    }
    plot(fmt::format("refusion_{}_accuracy.svg", name), accuracy);
    plot(fmt::format("refusion_{}_tokens.svg", name), tokens);
  }

  void beyond_the_paper() {
    heading("Beyond the paper: filling, exact acceptance and revocation");
    paragraph(
        "The paper commits slots that were completed side by side as they are, accepts drafts by their "
        "probability "
        "alone and never takes back what was committed; it has no figures for the alternatives.");
    for (const char* task : kTasks) {
      Table result({task, "accuracy", "tokens per pass", "passes", "rows per token", "rows", "command"});
      const Result base = figures(refusion(task, "lacuna"));
      const auto add = [&](const std::string& flags) {
        const Result each = figures(refusion(task, "lacuna", flags));
        result.row({flags.empty() ? "default" : code(flags), accuracy_text(each.figures),
                    fmt::format("{:.2f}", each.figures.tokens_per_forward),
                    fmt::format("{:.1f}", each.figures.passes), rows_per_token(each.figures),
                    ratio_text(each.figures.rows_per_sample(), base.figures.rows_per_sample(), 2, "×"),
                    code(each.command)});
        if (!flags.empty()) mark(task, "lacuna", flags.substr(2), each);
      };
      for (const char* flags : {"", "--fill side-by-side", "--accept exact", "--revoke 0.3", "--revoke 0.5"})
        add(flags);
      table(result);
    }
    paragraph("`rows` compares the rows of a sample with those of the default.");
  }

  void frontiers() {
    heading("Accuracy against tokens per forward pass: Figure 6");
    paragraph(
        "The paper plots accuracy over speed, without numbers: by its Table 1, ReFusion lies above the "
        "masked "
        "models in both, and to the right of Qwen3-8B but below it (65.31 against 73.36). Here every setting "
        "of this page; up and to the right is better.");
    for (const char* task : kTasks) {
      plot(fmt::format("refusion_frontier_{}.svg", task),
           {fmt::format("Accuracy by tokens per forward pass, {}", task),
            {"answer tokens per forward pass"},
            {"right, %"},
            frontiers_[task].series()});
    }
    const Measurement plain = figures(refusion(kSweptTask, "lacuna")).figures;
    paragraph(fmt::format(
        "With {} samples, points nearer than about {:.0f} points of accuracy to each other cannot "
        "be told apart.",
        grid_.samples, 50 * (plain.accuracy_high - plain.accuracy_low)));
  }

  void published_shape() {
    heading("At the published shape: Table 6's slots and blocks");
    paragraph(
        "The paper's Table 6 sets slots and blocks for each task (512 positions): GSM8K 32 and 128, MATH 32 "
        "and 64, ARC-C 8 and 8, where it is slower than Qwen3-8B (32.46 against 42.78 tokens per second).");
    if (grid_.shape.empty()) {
      paragraph("Not measured: no `--shape`.");
      return;
    }
    struct Setting {
      const char* task;
      int slot, block;
    };
    Table result({"like", "slot/block", "drafts that stand", "passes", "released", "rows", "released",
                  "FLOPs ratio", "time ratio", "command"});
    for (const Setting& each : {Setting{"GSM8K", 32, 128}, {"MATH", 32, 64}, {"ARC-C", 8, 8}}) {
      for (const char* accept : {"0.7", "0.85", "0.95"}) {
        const std::string words = fmt::format(
            "{}-m {} --refusion lacuna --slot-size {} --block-length {} --gen-length 128 --accept-rate {} "
            "--select-rate 0.6{}",
            kDecodeBenchCommand, grid_.shape, each.slot, each.block, accept, grid_.common_flags);
        const DecodeComparison of = compare_decodes(words);
        result.row(
            {each.task, fmt::format("{}/{}", each.slot, each.block), accept, fmt::format("{}", of.passes),
             fmt::format("{}", of.plain_passes), fmt::format("{}", of.rows), fmt::format("{}", of.plain_rows),
             fmt::format("{:.2f}", of.flops_ratio), fmt::format("{:.2f}", of.time_ratio), code(words)});
      }
    }
    table(result);
    paragraph(fmt::format(
        "`{}` with random weights; lacuna's rules beside the released code's. Random weights "
        "agree on nothing, so luck is scripted, the same for both: six slots in ten are sure, and "
        "each draft stands with the probability given.",
        grid_.shape));
  }

  void one_decoding() {
    heading("One decoding, pass by pass: Figures 5 and 9");
    paragraph(
        "The paper shows which tokens each iteration writes: slots are filled out of order, their tokens "
        "from left to right. Here the longest answer of the first eight samples of records, by lacuna's "
        "default rules.");
    const Task& task = find_task(kSweptTask);
    Sample sample;
    for (uint64_t i = 0; i < 8; ++i) {
      Sample next = task.generate(Split::kTest, 0, i);
      if (next.answer.size() > sample.answer.size()) sample = std::move(next);
    }
    const std::string words =
        fmt::format("{}-m {} -p '{}' --gen-length {} --refusion lacuna{} --trace trace.jsonl", kRunCommand,
                    grid_.model, sample.prompt, task.answer_positions, grid_.common_flags);
    const std::string title = fmt::format("{} on a sample of {}", grid_.model, kSweptTask);
    picture("refusion_decoding.svg", title, draw_decoding(trace(words), title));
    paragraph(code(words));
  }

  std::string introduction() const {
    return fmt::format(
        R"(# ReFusion, measured

ReFusion on {} beside {}, a left-to-right model of the same size, and {}: the paper's tables and figures in kind, each
section beginning with what the paper reports. The rules of the modes are in [refusion.md](../methods/refusion.md). Written by
`make results` (`lacuna report refusion`) from the raw rows in `refusion.jsonl`, each with the command that gives it.

- Machine: {}.
- Commit (code and models): {}.
- {} samples of each setting, seed 0; brackets after an accuracy are 95% Wilson intervals.
- The machine is shared. Times are of the first {} samples, one after the other (batch 1), the fastest of {} runs:
  "tokens/s" by the processor time that the program used on all cores, which other programs disturb less, and by the
  clock.
- A tiny model: read the ratios, not the rates.
)",
        grid_.model, grid_.twin, grid_.masked, machines(), commits(), grid_.samples, grid_.timed_samples,
        grid_.rounds);
  }

  const RefusionGrid& grid_;
  std::map<std::string, Frontier> frontiers_;  // by task
};

}  // namespace

std::vector<PageFile> write_refusion_page(const RefusionGrid& grid, const Measure& measure) {
  return RefusionPage(grid, measure).write();
}

}  // namespace lacuna
