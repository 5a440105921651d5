#include "mage_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace lacuna {
namespace {

constexpr const char* kAnswer = "--gen-length 8 --unmask dynamic=0.9";

constexpr std::array<std::string_view, 3> kMethods = {"mage", "quest", "sparsed"};

class MagePage : private PageWriter {
 public:
  MagePage(const MageGrid& grid, const Measure& measure) : PageWriter(measure), grid_(grid) {}

  std::vector<PageFile> write() {
    arithmetic();
    retrieval();
    if (!grid_.needles.empty()) heat_maps();
    speed();
    recall();
    return files("mage.md", introduction());
  }

 private:
  /// SparseD would still be exact while a short answer is written; to see it sparse, it is from the start.
  static std::string sparse_flag(std::string_view method, int budget) {
    return fmt::format("--sparse {}={}{}", method, budget, method == "sparsed" ? ",exact=0" : "");
  }

  std::string eval_command(int context, const std::string& flags, int32_t samples) const {
    return fmt::format("{}-m {} --task retrieval --length {} {} {} --batch 4 --samples {}{}", kEvalCommand,
                       grid_.needles, context, kAnswer, flags, samples, grid_.common_flags);
  }

  void arithmetic() {
    heading("Arithmetic by budget");
    paragraph(
        fmt::format("{}, prompts of some 30 tokens, blocks of 8: budgets that leave out most of the prefix. "
                    "The paper's LongBench averages "
                    "(Table 2, SDAR-8B, exact 47.1): MAGE 45.9, 46.3 and 46.4 at budgets of 256, 512 and "
                    "1,024, Quest 36.5, 41.5 and 45.0, "
                    "SparseD 39.6, 44.3 and 46.3. Quest's pages have 4 cells here; SparseD has its exact "
                    "fifth of the planned steps.",
                    grid_.model));
    Table result({"attention", "budget", "right", "passes per sample", "command"});
    const auto add = [&](const std::string& name, const std::string& budget, const std::string& sparse) {
      const std::string command = fmt::format(
          "{}-m {} --task arithmetic --gen-length 32 --unmask dynamic=0.9 --sparse {} --batch 8 --samples "
          "{}{}",
          kEvalCommand, grid_.model, sparse, grid_.samples, grid_.common_flags);
      const Measurement found = evaluate(command, Purpose::kFigures);
      result.row({name, budget, accuracy_text(found), fmt::format("{:.2f}", found.passes), code(command)});
    };
    add("exact", "-", "exact");
    for (const int budget : grid_.budgets) {
      add("mage", fmt::format("{}", budget), fmt::format("mage={}", budget));
      add("quest", fmt::format("{}", budget), fmt::format("quest={},page=4", budget));
      add("sparsed", fmt::format("{}", budget), fmt::format("sparsed={}", budget));
    }
    table(result);
  }

  void retrieval() {
    heading("Retrieval by context and budget");
    if (grid_.needles.empty())
      return paragraph("Not measured: no `--needles`, a model that was trained on it.");
    paragraph(
        "The paper (Table 3, needle in a haystack, 21 depths): at 8K, SDAR 100 exact and 100 with MAGE at "
        "budgets of 256 to "
        "1,024, 90 to 100 with Quest, 68 to 100 with SparseD; at 32K 57 exact, 76, 71 and 67 with MAGE, 16 "
        "with Quest, 10 to "
        "49 with SparseD. Contexts and budgets here are an eighth to a quarter as long. SparseD is sparse "
        "from the first step on "
        "(`exact=0`): its exact share of so short an answer would be all that decides.");
    Table result({"attention", "budget", "context", "right", "passes per sample",
                  "FLOPs in layers per sample", "command"});
    for (const int context : grid_.contexts) {
      add_retrieval(result, "exact", 0, context, "--sparse exact");
      for (const int budget : grid_.needle_budgets) {
        for (const std::string_view method : kMethods) {
          add_retrieval(result, std::string(method), budget, context, sparse_flag(method, budget));
        }
      }
    }
    table(result);
    paragraph(
        "Passes tell whether a method needs more steps: sparse attention can make a model less sure. Where "
        "all "
        "methods give exact attention's answers, a model of four layers finds the fact in the first two, "
        "which "
        "every policy leaves exact, as the paper does; then such a table does not tell them apart.");
  }

  void add_retrieval(Table& result, const std::string& name, int budget, int context,
                     const std::string& flags) {
    const std::string command = eval_command(context, flags, grid_.needle_samples);
    const Measurement found = evaluate(command, Purpose::kFigures);
    result.row({name, budget > 0 ? fmt::format("{}", budget) : "-", fmt::format("{}", context),
                accuracy_text(found), fmt::format("{:.2f}", found.passes),
                fmt::format("{:.3g}", found.layer_flops / static_cast<double>(found.samples)),
                code(command)});
  }

  void heat_maps() {
    heading("By depth");
    const int budget = grid_.needle_budgets[grid_.needle_budgets.size() / 2];
    paragraph(
        fmt::format("{} samples a cell, budget {}: where in the list the asked fact lies, 0 first, 1 last.",
                    grid_.cell_samples, budget));
    HeatMap map;
    map.title = fmt::format("Right answers by context and depth, budget {}", budget);
    map.x_title = "context";
    map.y_title = "depth";
    for (const int context : grid_.contexts) map.columns.push_back(fmt::format("{}", context));
    for (const int depth : grid_.depth_steps) map.rows.push_back(fmt::format("{:.2f}", depth / 4.0));
    add_panel(map, "exact", "--sparse exact");
    for (const std::string_view method : kMethods)
      add_panel(map, std::string(method), sparse_flag(method, budget));
    picture("mage_depths.svg", map.title, to_svg(map));
    paragraph(code(depth_command(grid_.contexts.front(), grid_.depth_steps.front(), "--sparse exact")) +
              ", and so on.");
  }

  std::string depth_command(int context, int depth, const std::string& flags) const {
    return eval_command(context, fmt::format("--depth {} {}", depth / 4.0, flags), grid_.cell_samples);
  }

  void add_panel(HeatMap& map, const std::string& name, const std::string& flags) {
    HeatMapPanel panel{name, {}};
    for (const int depth : grid_.depth_steps) {
      std::vector<double>& row = panel.values.emplace_back();
      for (const int context : grid_.contexts) {
        row.push_back(evaluate(depth_command(context, depth, flags), Purpose::kFigures).accuracy);
      }
    }
    map.panels.push_back(std::move(panel));
  }

  void speed() {
    heading("Time of a block of output at the published shapes");
    paragraph(
        "The paper (H100, 128K): MAGE up to 6.82× as fast as exact attention, up to 3.35× and 2.28× as fast "
        "as Quest and "
        "SparseD. Here on a CPU, random weights, keys and values, blocks of 32, 32 steps and the pass that "
        "keeps the block, "
        "budget 512. A step draws half of the block's tokens, as on average.");
    if (grid_.shapes.empty()) return paragraph("Not measured: no `--shapes`.");
    std::string prefixes;
    for (const int prefix : grid_.prefixes)
      prefixes += fmt::format("{}{}", prefixes.empty() ? "" : ",", prefix);
    for (const std::string& shape : grid_.shapes) {
      const std::string command =
          fmt::format("{}-m {} --prefix {}{}", kBlockBenchCommand, shape, prefixes, grid_.common_flags);
      const std::vector<BlockTimingRow> rows = time_blocks(command);
      paragraph("### " + shape);
      Table result({"context", "attention", "seconds a block", "faster than exact", "FLOPs allow", "share",
                    "first step to an exact one", "later step: attention", "choosing", "rest"});
      for (const BlockTimingRow& row : rows) {
        result.row({fmt::format("{}", row.prefix), row.sparse, fmt::format("{:.1f}", row.block_seconds),
                    times(row.speedup), times(row.flops_allow), percent(row.speedup / row.flops_allow),
                    times(row.first_step_ratio), fmt::format("{:.3f} s", row.later_attention),
                    fmt::format("{:.3f} s", row.later_selection), fmt::format("{:.3f} s", row.later_rest)});
      }
      table(result);
      paragraph(code(command));
    }
  }

  void recall() {
    heading("What the first step's cells are worth later");
    paragraph(
        "The paper (Figures 1 to 3, Table 1): the first step's set holds 84% and more of a later step's at a "
        "budget of 512; "
        "training by blocks raises recall by 5 to 11 points over the autoregressive backbone and draws "
        "queries together.");
    const auto command = [&](const std::string& model, const std::string& flags) {
      return fmt::format(
          "{}recall -m {} --task arithmetic --gen-length 32 --ignore-eos --budgets 16,24 --samples {}{}{}",
          kAnalyzeCommand, model, grid_.instrument_samples, flags, grid_.common_flags);
    };
    add_tables(command(grid_.model, ""));
    if (grid_.twin.empty()) return;
    paragraph(fmt::format("The control, {}, an autoregressive model run by blocks it was never trained for:",
                          grid_.twin));
    add_tables(command(grid_.twin, fmt::format(" --as-blocks {}", grid_.control_block)));
  }

  std::string introduction() const {
    return fmt::format(
        R"(# Sparse attention over block diffusion, measured

MAGE, Quest and SparseD on {}, beside exact attention: the paper's tables in kind, each section beginning with what it
reports. The rules are in [sparse_attention.md](../methods/sparse_attention.md). Written by `make results` (`lacuna report mage`) from the
raw rows in `mage.jsonl`, each with the command that gives it.

- Machine: {}.
- Commit (code and models): {}.
- {} samples for each accuracy, seed 0; brackets are 95% Wilson intervals.
- The machine is shared. Times are by the clock, medians of 3 passes of each kind in turn.
- A tiny model, trained on generated tasks: read the ratios and the order of the methods.
)",
        grid_.model, machines(), commits(), grid_.samples);
  }

  const MageGrid& grid_;
};

}  // namespace

std::vector<PageFile> write_mage_page(const MageGrid& grid, const Measure& measure) {
  return MagePage(grid, measure).write();
}

}  // namespace lacuna
