#include "masked_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace lacuna {
namespace {

constexpr std::array<std::string_view, 3> kEps = {"5e-4", "5e-3", "5e-2"};
constexpr std::string_view kMiddleEps = "5e-3";

std::string lock_flags(std::string_view eps, int gate = 20) {
  return fmt::format("--lock eps={},gate={}", eps, gate);
}

double rows_of(const Measurement& of) {
  return of.rows_per_sample();
}

class MaskedPage : private PageWriter {
 public:
  MaskedPage(const MaskedGrid& grid, const Measure& measure) : PageWriter(measure), grid_(grid) {}

  std::vector<PageFile> write() {
    ratio_by_length();
    ratio_by_step();
    perplexity_and_accuracy();
    lock_variants();
    speed_by_batch();
    caches();
    guides();
    combinations();
    frontier();
    return files("masked.md", introduction());
  }

 private:
  // --- Settings ---

  Measurement take(const std::string& flags, int32_t samples, Purpose purpose = Purpose::kFigures) {
    return evaluate(fmt::format("lacuna eval {} --samples {}{}", flags, samples, grid_.common_flags),
                    purpose);
  }

  Measurement timed(const std::string& flags) { return take(flags, grid_.timed_samples, Purpose::kTimes); }

  struct Shape {
    int32_t length, steps;
    int32_t block = 0;  // 0: the whole length, as in SureLock's experiments

    std::string name() const {
      return fmt::format("{}/{}{}", length, steps, block > 0 ? fmt::format(", blocks of {}", block) : "");
    }
  };

  /// SureLock's experiments: several samples to a pass, and a judge.
  Measurement judged(std::string_view task, const Shape& shape, const std::string& more) {
    return take(fmt::format("-m {} --judge {} --task {} --gen-length {} --steps {}{} --batch 8{}{}",
                            grid_.model, grid_.guide, task, shape.length, shape.steps,
                            shape.block > 0 ? fmt::format(" --block-length {}", shape.block) : "",
                            more.empty() ? "" : " ", more),
                grid_.samples);
  }

  /// FlashDLM's: times of one problem after the other. The figures are those of any batch.
  Measurement alone(const std::string& more, std::string_view model) {
    const auto flags = [&](int batch) {
      return fmt::format("-m {} --task arithmetic --gen-length {} --batch {}{}{}", model, short_length(),
                         batch, more.empty() ? "" : " ", more);
    };
    Measurement found = take(flags(8), grid_.samples);
    const Measurement times = timed(flags(1));
    found.seconds = times.seconds;
    found.processor_seconds = times.processor_seconds;
    return found;
  }

  Measurement alone(const std::string& more) { return alone(more, grid_.model); }

  Measurement guided(const std::string& more) {
    const bool has_match = more.find("--guide-match") != std::string::npos;
    return alone(fmt::format("--guide {}{}{}{}", grid_.guide, has_match ? "" : " --guide-match top-k=2",
                             more.empty() ? "" : " ", more));
  }

  int32_t short_length() const { return grid_.lengths.front(); }
  int32_t middle_length() const { return grid_.lengths[1]; }

  /// Names a point of the frontier.
  void mark(const std::string& family, const std::string& label, const Measurement& of,
            const Measurement& plain) {
    frontier_.mark(family, label, of.layer_flops / plain.layer_flops, 100 * of.accuracy);
  }

  // --- Sections ---

  void ratio_by_length() {
    heading("SureLock, Table 1: what is computed, by generation length and ε");
    paragraph(
        "FLOPs of the layers beside those of the same passes without a lock, in brackets the same for "
        "rows; arithmetic, m = 20, one token per step.");
    Table result({"N_gen", "ε 5e-4", "5e-3", "5e-2", "paper's N_gen", "5e-4", "5e-3", "5e-2"});
    const std::vector<std::vector<std::string>> paper = {
        {"64", ".547", ".506", ".482"}, {"256", ".496", ".482", ".475"}, {"1024", ".494", ".492", ".490"}};
    for (size_t i = 0; i < grid_.lengths.size(); ++i) {
      const int32_t length = grid_.lengths[i];
      std::vector<std::string> cells{fmt::format("{}", length)};
      for (const std::string_view eps : kEps) {
        const Measurement locked = judged("arithmetic", {length, length}, lock_flags(eps));
        cells.push_back(fmt::format("{:.3f} ({:.3f})", locked.layer_flops_ratio, locked.row_ratio));
      }
      cells.insert(cells.end(), paper[i].begin(), paper[i].end());
      result.row(cells);
    }
    table(result);
    paragraph(
        "What differs: the paper locks LLaDA-8B-Instruct on MT-Bench prompts; the model here has four "
        "layers, "
        "answers generated stories in about 20 tokens and pads the rest with end tokens, which converge at "
        "once. "
        "Lengths beyond its training say something of the ratio alone, not of answers.");
  }

  void ratio_by_step() {
    heading("SureLock, Figure 2: active rows by step");
    Chart chart{fmt::format("Rows computed by step, N_gen = {}, ε = {}", middle_length(), kMiddleEps),
                {"step"},
                {"share of all rows", false, 0, 1},
                {}};
    for (const int gate : {10, 20, 40}) {
      const Measurement locked =
          judged("arithmetic", {middle_length(), middle_length()}, lock_flags(kMiddleEps, gate));
      ChartSeries series{fmt::format("m = {}%", gate), {}, chart.series.size(), true, false};
      for (size_t step = 0; step < locked.row_ratio_by_step.size(); ++step) {
        series.points.push_back({static_cast<double>(step + 1), locked.row_ratio_by_step[step]});
      }
      chart.series.push_back(std::move(series));
    }
    plot("masked_active_rows.svg", chart);
    paragraph(
        "The paper prints this figure without numbers, so that only its form can be compared. What differs "
        "is "
        "what differs in Table 1.");
  }

  void perplexity_and_accuracy() {
    heading("SureLock, Tables 2 and 3: quality beside the ratio");
    const int32_t length = short_length();
    const int32_t longer = middle_length();
    const std::vector<Shape> shapes = {
        {length, length / 4}, {length, length / 2}, {length, length}, {longer, longer, length}};
    const std::vector<std::vector<std::string>> paper_perplexity = {
        {"64/32", "5.75", "6.08 (1.06×) .70", "6.22 (1.08×) .62"},
        {"64/64", "3.48", "4.57 (1.31×) .58", "4.76 (1.37×) .52"},
        {"128/64", "3.16", "3.84 (1.21×) .63", "3.74 (1.18×) .57"},
        {"128/128", "2.60", "2.92 (1.12×) .53", "3.10 (1.19×) .50"}};
    paragraph(
        fmt::format("Perplexity of the stories task's answers to {}, and FLOPs ratio. N_gen/steps in front; "
                    "more steps are fewer tokens to a step.",
                    grid_.guide));
    Table perplexity(
        {"N_gen/steps", "no lock", "ε 5e-4", "5e-3", "5e-2", "paper", "no lock", "5e-4", "5e-3"});
    for (size_t i = 0; i < shapes.size(); ++i) {
      const Measurement plain = judged("stories", shapes[i], "");
      const double base = plain.perplexity.value_or(0);
      std::vector<std::string> cells{shapes[i].name(), fmt::format("{:.3f}", base)};
      for (const std::string_view eps : kEps) {
        const Measurement locked = judged("stories", shapes[i], lock_flags(eps));
        const double value = locked.perplexity.value_or(0);
        cells.push_back(
            fmt::format("{:.3f} ({:.2f}×) {:.2f}", value, value / base, locked.layer_flops_ratio));
      }
      cells.insert(cells.end(), paper_perplexity[i].begin(), paper_perplexity[i].end());
      perplexity.row(cells);
    }
    table(perplexity);
    paragraph(
        "What differs: the paper continues WikiText with LLaDA-8B-Base and asks LLaMA-3-8B; here the "
        "text is a story of four set sentences that the judge knows nearly by heart, so that a "
        "perplexity of 1 is the least.");

    const std::vector<std::vector<std::string>> paper_score = {{"64/32", "3.9→3.8 .698", "3.8→3.7 .653"},
                                                               {"64/64", "4.2→4.2 .627", "4.2→4.3 .587"},
                                                               {"128/64", "4.4→4.2 .630", "4.3→4.2 .598"},
                                                               {"128/128", "4.8→4.9 .577", "4.8→5.1 .553"}};
    paragraph("Accuracy on arithmetic and FLOPs ratio; the paper has a judge's score of MT-Bench.");
    Table score({"N_gen/steps", "no lock (95% interval)", "ε 5e-4", "5e-3", "5e-2", "paper", "5e-4", "5e-3"});
    for (size_t i = 0; i < shapes.size(); ++i) {
      const Measurement plain = judged("arithmetic", shapes[i], "");
      std::vector<std::string> cells{shapes[i].name(), accuracy_text(plain)};
      for (const std::string_view eps : kEps) {
        const Measurement locked = judged("arithmetic", shapes[i], lock_flags(eps));
        cells.push_back(fmt::format("{} {:.2f}", percent(locked.accuracy), locked.layer_flops_ratio));
      }
      cells.insert(cells.end(), paper_score[i].begin(), paper_score[i].end());
      score.row(cells);
    }
    table(score);
    paragraph(
        "What differs: an exact checker instead of a judge, and longer canvases in blocks, because the model "
        "was "
        "trained on short ones and answers nothing where a longer one is denoised all at once.");
  }

  void lock_variants() {
    heading("SureLock: what the paper leaves open");
    paragraph(
        "min-age=0 is the literal Algorithm 1, which may keep the K/V of a mask; the paper does not say "
        "which it ran. Prompts take half of the canvas here, so prompt=eager matters.");
    const int32_t length = short_length();
    const Measurement plain = judged("arithmetic", {length, length}, "");
    mark("no method", "plain", plain, plain);
    Table result({"--lock", "accuracy", "FLOPs ratio", "row ratio"});
    result.row({"none", accuracy_text(plain), "1.000", "1.000"});
    const auto add = [&](const std::string& more, const std::string& label) {
      const Measurement locked = judged("arithmetic", {length, length}, "--lock " + more);
      result.row({"`" + more + "`", accuracy_text(locked), fmt::format("{:.3f}", locked.layer_flops_ratio),
                  fmt::format("{:.3f}", locked.row_ratio)});
      mark("SureLock", label, locked, plain);
    };
    for (const std::string_view eps : kEps) {
      add(fmt::format("eps={},gate=20", eps), fmt::format("ε {}", eps));
    }
    add("eps=5e-3,gate=20,min-age=0", "min-age 0");
    add("eps=5e-3,gate=20,prompt=eager", "prompt eager");
    add("eps=5e-3,gate=20,population=unlocked", "gate of all rows");
    add("eps=5e-3,gate=off", "no gate");
    add("eps=5e-3,gate=20,unlock-every=4", "unlocking");
    table(result);
  }

  void speed_by_batch() {
    heading("SureLock, Figure 3: speed by batch and length");
    Chart chart{"Canvas tokens per second of processor time",
                {"samples in a pass", true, {}, {}, {1, 2, 4, 8}},
                {"tokens/s", false, 0},
                {}};
    Table result(
        {"N_gen", "batch", "tokens/s", "locked", "ratio", "FLOPs ratio", "tokens/s by the clock", "locked"});
    for (size_t i = 0; i < grid_.lengths.size(); ++i) {
      const int32_t length = grid_.lengths[i];
      ChartSeries plain_series{fmt::format("{}, no lock", length), {}, i, true, true};
      ChartSeries locked_series{fmt::format("{}, ε = {}", length, kMiddleEps), {}, i, true, false};
      for (const int batch : {1, 2, 4, 8}) {
        const std::string flags =
            fmt::format("-m {} --task arithmetic --gen-length {} --batch {}", grid_.model, length, batch);
        const Measurement plain = timed(flags);
        const Measurement locked = timed(flags + ' ' + lock_flags(kMiddleEps));
        const auto rate = [](const Measurement& of) { return of.canvas_tokens / of.processor_seconds; };
        const auto clock_rate = [](const Measurement& of) { return of.canvas_tokens / of.seconds; };
        result.row({fmt::format("{}", length), fmt::format("{}", batch), fmt::format("{:.0f}", rate(plain)),
                    fmt::format("{:.0f}", rate(locked)), fmt::format("{:.2f}×", rate(locked) / rate(plain)),
                    fmt::format("{:.2f}", locked.layer_flops_ratio), fmt::format("{:.0f}", clock_rate(plain)),
                    fmt::format("{:.0f}", clock_rate(locked))});
        plain_series.points.push_back({static_cast<double>(batch), rate(plain)});
        locked_series.points.push_back({static_cast<double>(batch), rate(locked)});
      }
      chart.series.push_back(std::move(plain_series));
      chart.series.push_back(std::move(locked_series));
    }
    plot("masked_speed.svg", chart);
    table(result);
    paragraph(
        "The paper's figure has no numbers; its text says: no gain at 64 tokens and batch 1, gains from "
        "256 tokens and batches above 1. What differs: its GPU is idle until many rows share a pass, a "
        "processor is busy with one, so rows saved are time saved at any batch; what the divergence "
        "costs is in the times.");
  }

  /// Columns of one setting beside the plain decoder.
  std::vector<std::string> costs(const Measurement& of, const Measurement& plain) const {
    return {accuracy_text(of),
            fmt::format("{:.1f}", of.steps),
            fmt::format("{:.0f}", rows_of(of)),
            fmt::format("{:.1f}×", rows_of(plain) / rows_of(of)),
            fmt::format("{:.4f}", of.seconds),
            fmt::format("{:.4f}", of.processor_seconds),
            speed_up(of, plain)};
  }

  static double time_ratio(const Measurement& of, const Measurement& plain) {
    return plain.processor_seconds / of.processor_seconds;
  }

  static std::string speed_up(const Measurement& of, const Measurement& plain) {
    return fmt::format("{:.2f}×", time_ratio(of, plain));
  }

  static Table cost_table(const std::string& first) {
    return Table({first, "accuracy", "passes", "rows", "fewer rows", "seconds", "processor s", "speed-up"});
  }

  void add_costs(Table& to, const std::string& name, const Measurement& of, const Measurement& plain) {
    std::vector<std::string> cells = costs(of, plain);
    cells.insert(cells.begin(), name);
    to.row(cells);
  }

  void caches() {
    heading("FlashDLM, Table 2: caches");
    paragraph(
        fmt::format("Arithmetic, {} positions, one problem after the other; passes, rows and times per "
                    "problem.",
                    short_length()));
    for (const int32_t block : {short_length(), short_length() / 4}) {
      const std::string flags = block == short_length() ? "" : fmt::format("--block-length {} ", block);
      const Measurement plain = alone(flags);
      Table result = cost_table(fmt::format("--cache, blocks of {}", block));
      add_costs(result, "none", plain, plain);
      for (const char* cache : {"prefix", "dual", "free", "free-literal", "dkv"}) {
        const Measurement cached = alone(fmt::format("{}--cache {}", flags, cache));
        add_costs(result, cache, cached, plain);
        mark("caches", fmt::format("{} {}", cache, block), cached, plain);
      }
      table(result);
    }
    Table paper({"paper, GSM8K 8-shot", "uncached", "FreeCache", "speed-up"});
    paper.row({"Dream-7B-Instruct", "79.68%, 48.05 s", "77.40%, 10.87 s", "4.42×"});
    paper.row({"LLaDA-8B-Instruct, blocks of 64", "79.30%, 56.89 s", "77.18%, 9.02 s", "6.32×"});
    paper.row({"LLaDA-8B-Instruct, blocks of 32", "81.52%, 57.02 s", "79.76%, 9.20 s", "6.20×"});
    table(paper);
    paragraph(
        "What differs: the paper's prompts hold eight worked examples, about four times as long as the "
        "answer, and a frozen prompt is most of what FreeCache saves; here the prompt is shorter than "
        "the canvas behind it.");
  }

  void guides() {
    heading("FlashDLM, Tables 3, 4 and 7: the guide");
    const Measurement plain = alone("");
    Table result = cost_table("decoder");
    add_costs(result, "plain", plain, plain);
    add_costs(result, "free", alone("--cache free"), plain);
    add_costs(result, "free + guide", guided("--cache free"), plain);
    const Measurement autoregressive = alone("", grid_.guide);
    add_costs(result, "the guide on its own", autoregressive, plain);
    table(result);
    mark("guide", "the guide alone", autoregressive, plain);
    Table paper({"paper, Dream-7B", "uncached", "FreeCache", "+ Qwen2.5-1.5B", "+ Qwen2.5-7B"});
    paper.row({"MMLU-Pro", "46.92%, 20.73 s", "45.18%, 3.11×", "46.64%, 12.48×", "48.20%, 7.48×"});
    paper.row({"GSM8K", "79.68%, 48.05 s", "77.40%, 4.42×", "80.33%, 17.80×", "81.41%, 17.53×"});
    paper.row({"PIQA", "85.56%, 14.62 s", "84.83%, 3.47×", "85.15%, 34.1×", "85.85%, 13.92×"});
    paper.row({"ARC-C", "80.87%, 10.64 s", "80.61%, 2.50×", "80.89%, 3.41×", "80.72%, 2.32×"});
    paper.row({"ARC-E", "87.53%, 10.59 s", "86.24%, 1.91×", "87.50%, 3.26×", "87.44%, 2.11×"});
    paper.row({"GPQA", "39.29%, 21.50 s", "43.30%, 2.12×", "49.55%, 1.78×", "49.33%, 1.41×"});
    table(paper);
    paragraph(
        "What differs: guide and model are the same size here and have learnt the same stories, so whole "
        "answers are agreed on at once; and the guide on its own is more often right than the pair, as the "
        "paper's Table 4 has it too (Qwen2.5-7B alone: 91.13% in 3.23 s; with Dream: 82.3% in 3.43 s).");

    paragraph("Matching rules, free + guide:");
    Table rules = cost_table("--guide-match, --guide-fallback");
    for (const char* match : {"exact", "top-k=2", "top-k=5", "relative=0.5"}) {
      for (const char* fallback : {"dlm", "ar"}) {
        const Measurement found =
            guided(fmt::format("--cache free --guide-match {} --guide-fallback {}", match, fallback));
        add_costs(rules, fmt::format("{}, {}", match, fallback), found, plain);
        mark("guide", fmt::format("{} {}", match, fallback), found, plain);
      }
    }
    table(rules);
    Table paper_rules({"paper, LLaDA on GSM8K", "Qwen2.5-1.5B", "3B", "7B"});
    paper_rules.row({"top-1", "79.91%, 13.29×", "79.53%, 11.05×", "79.30%, 10.94×"});
    paper_rules.row({"top-2", "78.85%, 12.96×", "79.75%, 12.96×", "79.68%, 12.67×"});
    paper_rules.row({"top-5", "79.91%, 15.01×", "80.06%, 13.29×", "79.76%, 12.90×"});
    table(paper_rules);
    paragraph(
        "What differs: the paper does not say which fallback its tables used; its released code takes "
        "the guide's token (ar) by default, its Algorithm 1 the draft (dlm).");
  }

  struct Combination {
    std::string name;
    Measurement measured;
  };

  void combinations() {
    heading("Together");
    const std::string lock = lock_flags(kMiddleEps);
    const Measurement plain = alone("");
    const std::vector<Combination> all = {
        {"plain", plain},
        {"lock", alone(lock)},
        {"free", alone("--cache free")},
        {"free + lock", alone("--cache free " + lock)},
        {"guide", guided("")},
        {"guide + lock", guided(lock)},
        {"free + guide", guided("--cache free")},
        {"free + guide + lock", guided("--cache free " + lock)},
        {"threshold", alone("--unmask threshold=0.9")},
        {"threshold + free", alone("--unmask threshold=0.9 --cache free")},
        {"threshold + free + lock", alone("--unmask threshold=0.9 --cache free " + lock)},
    };
    Table result = cost_table(fmt::format("decoder (lock: ε = {})", kMiddleEps));
    for (const Combination& each : all) {
      add_costs(result, each.name, each.measured, plain);
      // The others are on the plot under their own families' names.
      const bool is_new = each.name.find("lock") != std::string::npos && each.name != "lock";
      if (is_new || each.name == "guide" || each.name.starts_with("threshold"))
        mark("combinations", each.name, each.measured, plain);
    }
    table(result);
    paragraph(
        "`threshold` is Fast-dLLM's parallel unmasking (0.9), here as the yardstick of methods that need "
        "no second model. What each addition is worth:");
    const auto find = [&](std::string_view name) -> const Measurement& {
      return std::find_if(all.begin(), all.end(), [&](const Combination& each) { return each.name == name; })
          ->measured;
    };
    Table worth({"adding", "to", "rows", "time", "accuracy", "verdict"});
    const auto add = [&](const char* what, const char* to, const char* sum) {
      const Measurement& before = find(to);
      const Measurement& after = find(sum);
      const double time = time_ratio(before, after);
      const double points = 100 * (after.accuracy - before.accuracy);
      const char* verdict = time < 0.95   ? "helps"
                            : time > 1.05 ? "costs more than it saves"
                                          : "makes no odds";
      worth.row({what, to, fmt::format("{:.2f}×", rows_of(after) / rows_of(before)),
                 fmt::format("{:.2f}×", time), fmt::format("{:+.1f} points", points), verdict});
    };
    add("lock", "plain", "lock");
    add("free", "plain", "free");
    add("guide", "plain", "guide");
    add("lock", "free", "free + lock");
    add("free", "lock", "free + lock");
    add("guide", "free", "free + guide");
    add("free", "guide", "free + guide");
    add("lock", "guide", "guide + lock");
    add("lock", "free + guide", "free + guide + lock");
    add("free", "threshold", "threshold + free");
    add("lock", "threshold + free", "threshold + free + lock");
    table(worth);
    const double passes = find("free + guide").steps;
    paragraph(
        fmt::format("The guided decoder takes {:.1f} passes of the model per problem here: a row has to be "
                    "computed twice before it can lock, so the fewer the passes, the less there is for a "
                    "lock or a cache to save, while both keep their own costs.",
                    passes));
  }

  void frontier() {
    heading("All settings");
    Chart chart{fmt::format("Accuracy by FLOPs, arithmetic, {} positions", short_length()),
                {"layer FLOPs beside the plain decoder's, guide included", true},
                {"right, %"},
                frontier_.series()};
    plot("masked_frontier.svg", chart);
    paragraph(
        fmt::format("Up and to the left is better. With {} samples, points nearer than about {:.0f} "
                    "points of accuracy to each other cannot be told apart.",
                    grid_.samples, 100 * distinguishable()));
  }

  /// Half the 95% interval of the plain decoder.
  double distinguishable() {
    const Measurement plain = alone("");
    return (plain.accuracy_high - plain.accuracy_low) / 2;
  }

  std::string introduction() const {
    return fmt::format(
        R"(# Masked acceleration, measured

SureLock, the caches and the guide on {} with {}: every table of the two papers that the zoo can repeat in kind, the
paper's figures next to it. The methods are in [caches](../methods/caches.md), [SureLock](../methods/surelock.md) and [guided diffusion](../methods/guided_diffusion.md). Written by
`make results` (`lacuna report masked`) from the raw rows in `masked.jsonl`, each with the command that gives it.

- Machine: {}.
- Commit (code and models): {}.
- {} samples of each setting, seed 0; brackets after an accuracy are 95% Wilson intervals.
- The machine is shared. Times are per problem, of the first {} samples, the fastest of {} runs: "seconds" by the
  clock, "processor s" what the program used on all cores. Speed-ups compare processor time, which other programs
  disturb less.
- A tiny model: read the ratios, not the rates.
)",
        grid_.model, grid_.guide, machines(), commits(), grid_.samples, grid_.timed_samples, grid_.rounds);
  }

  const MaskedGrid& grid_;
  Frontier frontier_;
};

}  // namespace

std::vector<PageFile> write_masked_page(const MaskedGrid& grid, const Measure& measure) {
  return MaskedPage(grid, measure).write();
}

}  // namespace lacuna
