#include "frontier_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "decoding_film.h"
#include "eval/chart.h"

namespace lacuna {
namespace {

/// What a setting gave, beside the plain decoder on the same samples.
struct Found {
  FrontierSetting setting;
  std::string command;
  Measurement measured;
  bool has_same_texts = false;
  double rows = 1, time = 1;
};

/// Points of accuracy that a setting may lose, in shares.
constexpr double kBalancedLoss = 0.01, kFastLoss = 0.1;

std::string joined(const std::string& flags, const std::string& more) {
  return flags.empty() ? more : flags + " " + more;
}

std::string flags_text(const FrontierSetting& setting) {
  return setting.flags.empty() ? "the defaults:" : code(setting.flags);
}

/// The quickest of those that `allows` lets through; the plain decoder always is.
template <typename Allows>
const Found& quickest(const std::vector<Found>& all, Allows&& allows) {
  const Found* best = &all.front();
  for (const Found& found : all) {
    if (allows(found) && found.time < best->time) best = &found;
  }
  return *best;
}

const Found& quickest_within(const std::vector<Found>& all, double loss) {
  const double least = all.front().measured.accuracy - loss - 1e-9;
  return quickest(all, [&](const Found& found) { return found.measured.accuracy >= least; });
}

/// Whether no other setting is at least as right and at least as quick, and more of one.
bool is_on_frontier(const Found& found, const std::vector<Found>& all, double Found::*cost) {
  return std::none_of(all.begin(), all.end(), [&](const Found& other) {
    const double right = other.measured.accuracy - found.measured.accuracy;
    const double cheap = found.*cost - other.*cost;
    return right >= 0 && cheap >= 0 && (right > 0 || cheap > 0);
  });
}

/// Accuracy against a cost: all settings as marks, those that nothing beats joined.
Chart frontier_chart(const FrontierFamily& family, const std::vector<Found>& all, double Found::*cost,
                     const std::string& cost_title) {
  Chart chart;
  chart.title = fmt::format("{}, {}", family.family, family.task.substr(std::string("--task ").size()));
  chart.x.title = cost_title;
  chart.x.logarithmic = true;
  chart.y.title = "right, %";
  ChartSeries frontier{"frontier", {}, 0, true, false};
  ChartSeries others{"others", {}, 1, false, false};
  for (const Found& found : all) {
    const bool is_best = is_on_frontier(found, all, cost);
    (is_best ? frontier : others)
        .points.push_back({found.*cost, 100 * found.measured.accuracy, found.setting.label});
  }
  std::sort(frontier.points.begin(), frontier.points.end(),
            [](const ChartPoint& a, const ChartPoint& b) { return a.x < b.x; });
  frontier.joined = frontier.points.size() > 1;
  chart.series = {frontier, others};
  return chart;
}

class FrontierPage : private PageWriter {
 public:
  FrontierPage(const FrontierGrid& grid, const Measure& measure) : PageWriter(measure), grid_(grid) {}

  std::vector<PageFile> write() {
    std::vector<std::vector<Found>> found;
    found.reserve(grid_.families.size());
    for (const FrontierFamily& family : grid_.families) found.push_back(evaluate_all(family));
    if (!grid_.film.empty()) write_film();
    write_choices(found);
    write_guide();
    for (size_t i = 0; i < found.size(); ++i) write_family(grid_.families[i], found[i]);
    return files("README.md", introduction());
  }

 private:
  std::vector<Found> evaluate_all(const FrontierFamily& family) {
    std::vector<Found> all;
    for (const FrontierSetting& setting : family.settings) {
      Found found;
      found.setting = setting;
      found.command =
          fmt::format("{}-m {} {} {}{}--batch 1 --samples {}{}", kEvalCommand, family.model, family.task,
                      setting.flags, setting.flags.empty() ? "" : " ", grid_.samples, grid_.common_flags);
      found.measured = evaluate(found.command, Purpose::kTimes);
      const Measurement& plain = all.empty() ? found.measured : all.front().measured;
      found.has_same_texts = found.measured.texts == plain.texts;
      found.rows = found.measured.rows / plain.rows;
      found.time = found.measured.processor_seconds / plain.processor_seconds;
      all.push_back(std::move(found));
    }
    return all;
  }

  void write_film() {
    heading("The decoders at work");
    std::vector<FilmLane> lanes;
    Table commands({"decoder", "command"});
    for (const FrontierSetting& setting : grid_.film) {
      const std::string command = fmt::format(
          "{}{} --gen-length 32 -p \"Mia has 12 shells. She finds 7 more. She gives 5 to Sam. How many "
          "shells does Mia have now?\" --trace trace.jsonl{}",
          kRunCommand, setting.flags, grid_.common_flags);
      lanes.push_back({setting.label, trace(command)});
      commands.row({setting.label, code(command)});
    }
    picture("decoders.svg", "The same question, decoder by decoder",
            draw_film(lanes, "A pass takes as long as it has rows"));
    paragraph("A pass takes as long as it has rows, so whoever computes less is done sooner.");
    table(commands);
  }

  void write_choices(const std::vector<std::vector<Found>>& found) {
    heading("The best setting for each goal");
    paragraph(fmt::format(
        "Exact: the quickest whose texts are all those of the plain decoder. Within one point: the quickest "
        "that loses at most one point of accuracy. Fastest: the quickest that loses at most {:.0f}. In "
        "brackets time and rows beside the plain decoder's. Pictures of all of them are below.",
        100 * kFastLoss));
    Table table_of({"model", "plain", "exact", "within one point", "fastest"});
    for (size_t i = 0; i < found.size(); ++i) {
      const std::vector<Found>& all = found[i];
      const auto cell = [](const Found& best) {
        return fmt::format("{} {} (time {:.2f}, rows {:.2f})", flags_text(best.setting),
                           percent(best.measured.accuracy), best.time, best.rows);
      };
      table_of.row(
          {grid_.families[i].model,
           fmt::format("{} {}", flags_text(all.front().setting), percent(all.front().measured.accuracy)),
           cell(quickest(all, [](const Found& each) { return each.has_same_texts; })),
           cell(quickest_within(all, kBalancedLoss)), cell(quickest_within(all, kFastLoss))});
    }
    table(table_of);
  }

  void write_guide() {
    heading("Which flags should I use?");
    paragraph(
        "Begin with `--preset balanced`; `lacuna inspect -m MODEL` prints what it stands for in the model's "
        "family, and any flag that is given beside it counts instead. `exact` changes no token; `fast` is "
        "another setting than `balanced` for GIDD alone, where it saves more and is wrong more often. "
        "Presets "
        "leave lengths and guides to you:");
    paragraph(
        "- **Masked models** (LLaDA, Dream): denoise in blocks that the model knows (`--block-length 32` for "
        "published checkpoints), unmask whatever is sure (`--unmask threshold=0.9`), compute what is not "
        "settled alone (`--cache dkv`, or `dual`, the block alone) and leave when the answer has ended "
        "(`--eos-exit`). Where one token at a "
        "time "
        "must stay, `--lock` halves the rows. Where there is an autoregressive model with the same "
        "tokenizer, "
        "`--guide` takes the fewest passes, and costs right answers unless `--guide-match exact` is given.\n"
        "- **Uniform models** (GIDD): `--cache uniform` keeps nearly all answers; `--tokens-per-step` buys "
        "speed "
        "with errors.\n"
        "- **ReFusion**: the defaults. `--fill side-by-side` only where the parts of an answer do not depend "
        "on "
        "each other.\n"
        "- **Block diffusion** (SDAR, Fast-dLLM v2, LLaDA 2): `--unmask dynamic=0.9`; `--sparse mage=512` "
        "from some thousands of tokens of context on.");
    paragraph(
        "The models here are tiny and know generated tasks. What carries over to a published checkpoint is "
        "how much each method computes; how much accuracy it costs there, only that checkpoint can say: "
        "`lacuna compare -m MODEL --task T --a \"\" --b \"--preset fast\"`.");
    heading("More");
    paragraph(
        "- [claims.md](claims.md): what the papers claim, and what was found here\n"
        "- [masked.md](masked.md): SureLock, the caches and the guide\n"
        "- [refusion.md](refusion.md): ReFusion's modes\n"
        "- [uniform.md](uniform.md): Uniform-Cache and its instruments\n"
        "- [mage.md](mage.md): sparse attention over block diffusion\n"
        "- [cpu.md](cpu.md): products, attention and whole steps beside the machine's limits; the same "
        "[with AVX-512 alone](cpu_avx512.md) and [with AVX2](cpu_avx2.md)\n"
        "- [shapes.md](shapes.md): steps and whole decodes at published shapes, and llama.cpp beside them\n"
        "- [server.md](server.md): the server under load, and what it costs\n"
        "- [the zoo](zoo.md): the models that all of this was measured on");
  }

  void write_family(const FrontierFamily& family, const std::vector<Found>& all) {
    heading(fmt::format("{}: {}", family.family, family.model));
    const std::string name = fmt::format("frontier_{}.svg", family.family);
    const std::string title = fmt::format("Accuracy against time and rows, {}", family.model);
    const std::array charts = {frontier_chart(family, all, &Found::time, "time beside the plain decoder"),
                               frontier_chart(family, all, &Found::rows, "rows beside the plain decoder")};
    picture(name, title, side_by_side(charts, title));
    Table settings({"setting", "accuracy", "same texts", "passes", "rows", "time", "command"});
    for (const Found& found : all) {
      settings.row({found.setting.label, accuracy_text(found.measured), found.has_same_texts ? "yes" : "",
                    fmt::format("{:.1f}", found.measured.passes), fmt::format("{:.3f}", found.rows),
                    fmt::format("{:.2f}", found.time), code(found.command)});
    }
    table(settings);
  }

  std::string introduction() const {
    return fmt::format(R"(# What each method gives

Every family's methods and their combinations on the models that ship with the repository: how often the answer is right, and
what it costs beside the family's plain decoder, which computes every row of every pass. Written by `lacuna report frontier`
from the raw rows in `frontier.jsonl`; `make results` writes this page and all others of this folder.

- Machine: {}.
- Commit (code and models): {}.
- {} unseen samples of each setting, seed 0, one after the other; brackets after an accuracy are 95% Wilson intervals.
- Time is the processor time of all cores, the least of {} runs, because other programs disturb it less than the clock.
- Accuracies within each other's intervals are no different.
)",
                       machines(), commits(), grid_.samples, grid_.rounds);
  }

  const FrontierGrid& grid_;
};

}  // namespace

std::vector<FrontierFamily> frontier_families() {
  const std::string arithmetic = "--task arithmetic";
  const std::string guide = "--guide mini-qwen --cache free --eos-exit --guide-match";
  // What masked models have in common; `one` is one token a step.
  const auto masked = [&](const std::string& one) {
    const std::string lock = "--lock eps=5e-3,gate=20";
    const auto flags = [&](const std::string& more) { return joined(one, more); };
    return std::vector<FrontierSetting>{
        {"plain", one},
        {"blocks", flags("--block-length 8")},
        {"blocks, exit", flags("--block-length 8 --eos-exit")},
        {"blocks, prefix", flags("--block-length 8 --cache prefix --eos-exit")},
        {"blocks, dual", flags("--block-length 8 --cache dual --eos-exit")},
        {"blocks, free", flags("--block-length 8 --cache free --eos-exit")},
        {"dkv", flags("--cache dkv")},
        {"lock", flags(lock)},
        {"blocks, lock", flags("--block-length 8 --eos-exit " + lock)},
        {"blocks, free, lock", flags("--block-length 8 --cache free --eos-exit " + lock)},
        {"threshold", "--unmask threshold=0.9"},
        {"threshold, dkv", "--unmask threshold=0.9 --cache dkv"},
        {"threshold, free", "--unmask threshold=0.9 --cache free"},
        {"threshold, lock", "--unmask threshold=0.9 " + lock},
        {"blocks, threshold", "--block-length 8 --unmask threshold=0.9 --eos-exit"},
        {"blocks, threshold, dual", "--block-length 8 --unmask threshold=0.9 --cache dual --eos-exit"},
        {"blocks, threshold, free", "--block-length 8 --unmask threshold=0.9 --cache free --eos-exit"},
        {"blocks, factor, dual", "--block-length 8 --unmask factor=1 --cache dual --eos-exit"},
        {"guide exact", guide + " exact"},
        {"guide", guide + " top-k=2"},
        {"guide, lock", guide + " top-k=2 " + lock},
    };
  };
  // What both kinds of GIDD have in common; `base` are the plain decoder's flags.
  const auto noisy = [](const std::string& base, const std::string& hurried) {
    return std::vector<FrontierSetting>{
        {"plain", base},
        {"prefix", joined(base, "--cache prefix")},
        {"uniform, R=1", joined(base, "--cache uniform --refresh 1")},
        {"uniform, R=4", joined(base, "--cache uniform")},
        {"uniform, boundary", joined(base, "--cache uniform --refresh 0 --boundary blocks=2,full-every=4")},
        {"uniform, drift", joined(base, "--cache uniform --drift tau=0.01")},
        {"3 at a time", hurried},
        {"3 at a time, uniform", joined(hurried, "--cache uniform")},
        {"short context", joined(base, "--context 96")},
        {"short context, uniform", joined(base, "--context 96 --cache uniform")},
    };
  };
  const std::vector<FrontierSetting> blocks = {
      {"plain", "--unmask low-confidence"},
      {"apart", "--unmask low-confidence --commit apart"},
      {"threshold", "--unmask threshold=0.9"},
      {"dynamic 0.95", "--unmask dynamic=0.95"},
      {"dynamic 0.9", "--unmask dynamic=0.9"},
      {"dynamic 0.7", "--unmask dynamic=0.7"},
      {"entropy-bounded", "--unmask entropy-bounded=0.35"},
      {"sequential", "--unmask sequential"},
      {"half the steps", "--unmask low-confidence --steps 4"},
      {"dynamic, mage=16", "--unmask dynamic=0.9 --sparse mage=16"},
      {"dynamic, quest=16", "--unmask dynamic=0.9 --sparse quest=16,page=4"},
      {"dynamic, sparsed=16", "--unmask dynamic=0.9 --sparse sparsed=16"},
  };
  const std::vector<FrontierSetting> needles = {
      {"plain", "--unmask low-confidence"},
      {"dynamic 0.9", "--unmask dynamic=0.9"},
      {"block cache", "--unmask low-confidence --cache block"},
      {"dynamic, block cache", "--unmask dynamic=0.9 --cache block"},
      {"dynamic, one sub-block", "--unmask dynamic=0.9 --sub-block-length 16"},
      {"mage=64", "--unmask dynamic=0.9 --sparse mage=64"},
      {"quest=64", "--unmask dynamic=0.9 --sparse quest=64"},
      {"sparsed=64", "--unmask dynamic=0.9 --sparse sparsed=64"},
      {"mage=64, block cache", "--unmask dynamic=0.9 --sparse mage=64 --cache block"},
  };
  const std::vector<FrontierSetting> slots = {
      {"plain", ""},
      {"side by side", "--fill side-by-side"},
      {"exact drafts", "--accept exact"},
      {"slots of 4", "--slot-size 4"},
      {"tokens 0.7", "--token-threshold 0.7"},
      {"slots 0.7", "--slot-threshold 0.7"},
      {"slots 0.5, tokens 0.5", "--slot-threshold 0.5 --token-threshold 0.5"},
      {"paper", "--refusion paper"},
      {"released", "--refusion released"},
  };
  return {
      {"llada", "mini-llada", arithmetic, masked("")},
      {"dream", "mini-dream", arithmetic, masked("--unmask threshold=1")},
      {"gidd", "mini-gidd", arithmetic,
       noisy("--steps 64 --tokens-per-step 1", "--steps 32 --tokens-per-step 3")},
      {"gidd-mask", "mini-gidd-mask", arithmetic,
       noisy("--block-length 8 --steps 8 --tokens-per-step 1",
             "--block-length 8 --steps 8 --tokens-per-step 3")},
      {"refusion", "mini-refusion", arithmetic, slots},
      {"refusion-records", "mini-refusion", "--task records", slots},
      {"sdar", "mini-sdar", arithmetic, blocks},
      {"fast-dllm", "bench/models/mini-fast-dllm-retrieval", "--task retrieval --length 1024", needles},
      {"llada2", "mini-llada2", arithmetic, blocks},
  };
}

std::vector<FrontierSetting> film_settings() {
  return {
      {"LLaDA, one token at a time", "-m mini-llada"},
      {"LLaDA, threshold and DualCache",
       "-m mini-llada --block-length 8 --unmask threshold=0.9 --cache dual --eos-exit"},
      {"GIDD, Uniform-Cache", "-m mini-gidd --steps 64 --tokens-per-step 1 --context 96 --cache uniform"},
      {"SDAR, dynamic", "-m mini-sdar --unmask dynamic=0.9"},
      {"ReFusion", "-m mini-refusion"},
  };
}

std::vector<PageFile> write_frontier_page(const FrontierGrid& grid, const Measure& measure) {
  return FrontierPage(grid, measure).write();
}

}  // namespace lacuna
