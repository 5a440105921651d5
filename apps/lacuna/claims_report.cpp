#include "claims_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace lacuna {
namespace {

/// Accuracies of 200 samples that are closer than this, in shares, are no different.
constexpr double kNoDifference = 0.025;

class ClaimsPage : private PageWriter {
 public:
  ClaimsPage(const ClaimsGrid& grid, const Measure& measure)
      : PageWriter(measure), grid_(grid), claims_({"claim", "here", "agrees", "where to look"}) {}

  std::vector<PageFile> write() {
    judge_surelock();
    judge_flashdlm();
    judge_refusion();
    judge_uniform_cache();
    judge_mage();
    table(claims_);
    heading("The rows behind it");
    std::string list;
    for (const std::string& command : commands_) list += fmt::format("- {}\n", code(command));
    paragraph(list);
    return files("claims.md", introduction());
  }

 private:
  Measurement ask(const std::string& flags) {
    return evaluate(noted(fmt::format("{}{} --batch 8 --samples {}{}", kEvalCommand, flags, grid_.samples,
                                      grid_.common_flags)),
                    Purpose::kFigures);
  }

  std::string noted(std::string command) {
    if (std::find(commands_.begin(), commands_.end(), command) == commands_.end())
      commands_.push_back(command);
    return command;
  }

  void claim(std::string_view claimed, const std::string& here, bool agrees, std::string_view where) {
    claims_.row({std::string(claimed), here, agrees ? "yes" : "no", std::string(where)});
  }

  static std::string rows_text(const Measurement& of, const Measurement& plain) {
    return fmt::format("{:.2f} of the rows", of.rows / plain.rows);
  }

  static std::string accuracies(const Measurement& of, const Measurement& plain) {
    return fmt::format("{} right, {} without", percent(of.accuracy), percent(plain.accuracy));
  }

  static bool is_kept(const Measurement& of, const Measurement& plain) {
    return of.accuracy >= plain.accuracy - kNoDifference;
  }

  void judge_surelock() {
    constexpr std::string_view kWhere = "[masked.md](masked.md)";
    const std::string base = "-m mini-llada --task arithmetic --block-length 8";
    const Measurement plain = ask(base);
    const Measurement loose = ask(base + " --lock eps=5e-2,gate=20");
    const Measurement usual = ask(base + " --lock eps=5e-3,gate=20");
    const Measurement strict = ask(base + " --lock eps=5e-4,gate=20");
    const double saved = 1 - usual.layer_flops / plain.layer_flops;
    claim("SureLock: the layers' FLOPs fall by 30 to 50%", fmt::format("by {:.0f}%", 100 * saved),
          saved >= 0.3, kWhere);
    claim("SureLock: answers are as good", accuracies(usual, plain), is_kept(usual, plain), kWhere);
    claim("SureLock: a larger ε saves more",
          fmt::format("ε of 5e-4, 5e-3, 5e-2: FLOPs {:.3f}, {:.3f}, {:.3f}",
                      strict.layer_flops / plain.layer_flops, usual.layer_flops / plain.layer_flops,
                      loose.layer_flops / plain.layer_flops),
          strict.layer_flops >= usual.layer_flops && usual.layer_flops >= loose.layer_flops, kWhere);
  }

  void judge_flashdlm() {
    constexpr std::string_view kWhere = "[masked.md](masked.md)";
    const std::string base = "-m mini-llada --task arithmetic";
    const Measurement plain = ask(base);
    const Measurement free = ask(base + " --cache free");
    claim("FlashDLM: FreeCache computes much less and answers are as good",
          fmt::format("{}; {}", rows_text(free, plain), accuracies(free, plain)),
          free.rows < 0.7 * plain.rows && is_kept(free, plain), kWhere);
    const Measurement guided = ask(base + " --cache free --guide mini-qwen --guide-match top-k=2");
    const Measurement exact = ask(base + " --cache free --guide mini-qwen --guide-match exact");
    claim(
        "FlashDLM: with the guide more than ten times as fast (12.1× and 13.3× in its abstract)",
        fmt::format("{:.1f} times fewer passes, {}", plain.passes / guided.passes, rows_text(guided, plain)),
        guided.rows * 10 <= plain.rows, kWhere);
    claim("FlashDLM: with the guide answers are as good", accuracies(guided, plain), is_kept(guided, plain),
          kWhere);
    claim("FlashDLM: a stricter match with the guide is more often right and takes more passes",
          fmt::format("exact {} in {:.1f} passes, top-2 {} in {:.1f}", percent(exact.accuracy), exact.passes,
                      percent(guided.accuracy), guided.passes),
          exact.accuracy >= guided.accuracy && exact.passes >= guided.passes, kWhere);
  }

  void judge_refusion() {
    constexpr std::string_view kWhere = "[refusion.md](refusion.md)";
    for (const std::string_view task : {"arithmetic", "records"}) {
      const Measurement serial = ask(fmt::format("-m mini-qwen3 --task {}", task));
      const Measurement slots = ask(fmt::format("-m mini-refusion --task {}", task));
      claim(fmt::format("ReFusion: several tokens to a pass and as good as left to right, {}", task),
            fmt::format("{:.1f} passes, left to right {:.1f}; {} right, left to right {}", slots.passes,
                        serial.passes, percent(slots.accuracy), percent(serial.accuracy)),
            slots.passes * 2 <= serial.passes && is_kept(slots, serial), kWhere);
      const Measurement released = ask(fmt::format("-m mini-refusion --task {} --refusion released", task));
      claim(fmt::format("ReFusion: slots that are filled side by side need not be read again, {}", task),
            fmt::format("the released rules {} right, with a pass that reads them in order {}",
                        percent(released.accuracy), percent(slots.accuracy)),
            is_kept(released, slots), kWhere);
    }
    const std::string sides = "-m mini-refusion --task records --fill side-by-side --kv ";
    const Measurement reused = ask(sides + "reuse");
    const Measurement recomputed = ask(sides + "recompute");
    claim("ReFusion: keeping the K/V of slots filled side by side loses nothing",
          fmt::format("{} right, recomputed {}", percent(reused.accuracy), percent(recomputed.accuracy)),
          is_kept(reused, recomputed), kWhere);
  }

  void judge_uniform_cache() {
    constexpr std::string_view kWhere = "[uniform.md](uniform.md)";
    const std::string base =
        "-m mini-gidd --task arithmetic --gen-length 32 --block-length 16 --steps 32 --tokens-per-step 1";
    const Measurement plain = ask(base);
    const Measurement cached = ask(base + " --cache uniform");
    const Measurement never = ask(base + " --cache uniform --refresh 0");
    claim("Uniform-Cache: answers are as good",
          fmt::format("{}; {}", accuracies(cached, plain), rows_text(cached, plain)), is_kept(cached, plain),
          kWhere);
    claim("Uniform-Cache: how often the next block is refreshed matters little",
          fmt::format("R = 4 {}, never {}", percent(cached.accuracy), percent(never.accuracy)),
          std::abs(cached.accuracy - never.accuracy) <= kNoDifference, kWhere);
    if (!grid_.has_shapes) return;
    const std::string decode =
        "--prompt-length 127 --gen-length 64 --block-length 32 --steps 32 --tokens-per-step 3 --cache "
        "uniform "
        "--ignore-eos --block-exit steps --last-layer all --batch 8 --threads 1";
    const DecodeComparison shape =
        compare_decodes(noted(fmt::format("{}-m random:gidd-3b,layers=6 {}", kDecodeBenchCommand, decode)));
    claim("Uniform-Cache: 12.0 times as fast at 3B, of 18.9 that FLOPs allow",
          fmt::format("{:.1f} times, of {:.1f}, six layers of that shape", 1 / shape.time_ratio,
                      1 / shape.flops_ratio),
          shape.time_ratio * 12 <= 1, kWhere);
  }

  void judge_mage() {
    constexpr std::string_view kWhere = "[mage.md](mage.md)";
    const std::string base = "-m mini-sdar --task arithmetic --gen-length 32 --unmask dynamic=0.9";
    const Measurement exact = ask(base);
    const Measurement mage = ask(base + " --sparse mage=8");
    const Measurement quest = ask(base + " --sparse quest=8,page=4");
    const Measurement sparsed = ask(base + " --sparse sparsed=8,exact=0");
    claim("MAGE: near exact attention with few cells", accuracies(mage, exact), is_kept(mage, exact), kWhere);
    claim("MAGE: ahead of Quest and SparseD at the same budget",
          fmt::format("8 cells: MAGE {}, Quest {}, SparseD {}", percent(mage.accuracy),
                      percent(quest.accuracy), percent(sparsed.accuracy)),
          mage.accuracy > quest.accuracy && mage.accuracy > sparsed.accuracy, kWhere);
    if (!grid_.has_shapes) return;
    const std::vector<BlockTimingRow> timings = time_blocks(noted(fmt::format(
        "{}-m random:sdar-8b,layers=8 --prefix 8192,16384,32768,65536 --threads 2", kBlockBenchCommand)));
    const auto longest = [&](std::string_view policy) {
      const BlockTimingRow* found = nullptr;
      for (const BlockTimingRow& row : timings) {
        if (row.sparse.starts_with(policy)) found = &row;
      }
      return found == nullptr ? BlockTimingRow{} : *found;
    };
    const BlockTimingRow with_mage = longest("mage"), with_quest = longest("quest"),
                         with_sparsed = longest("sparsed");
    claim("MAGE: the longer the context, the faster beside exact attention, as FLOPs allow",
          fmt::format("{:.2f} times at {} tokens, FLOPs allow {:.2f}", with_mage.speedup, with_mage.prefix,
                      with_mage.flops_allow),
          with_mage.speedup >= 0.85 * with_mage.flops_allow, kWhere);
    claim("MAGE: choosing cells costs the first step nearly nothing",
          fmt::format("the first step takes {:.2f} of an exact one at {} tokens", with_mage.first_step_ratio,
                      with_mage.prefix),
          with_mage.first_step_ratio <= 1.1, kWhere);
    claim("MAGE: faster than Quest and SparseD",
          fmt::format("at {} tokens {:.2f} times Quest's speed, {:.2f} times SparseD's", with_mage.prefix,
                      with_quest.block_seconds / with_mage.block_seconds,
                      with_sparsed.block_seconds / with_mage.block_seconds),
          with_mage.block_seconds < with_quest.block_seconds * 0.98 &&
              with_mage.block_seconds < with_sparsed.block_seconds * 0.98,
          kWhere);
  }

  std::string introduction() const {
    return fmt::format(R"(# What the papers claim

Claims of the five papers that can be tested on small models and on published shapes with random weights, each beside what was
measured here. The models here have a million parameters and know generated tasks; a claim that fails on them may hold on the
models of the paper, and the other way round. Accuracies within {} points of each other count as equal. Written by
`lacuna report claims` from the raw rows of this folder.

- Machine: {}.
- Commit (code and models): {}.
- {} unseen samples of each setting, seed 0.

)",
                       100 * kNoDifference, machines(), commits(), grid_.samples);
  }

  const ClaimsGrid& grid_;
  Table claims_;
  std::vector<std::string> commands_;
};

}  // namespace

std::vector<PageFile> write_claims_page(const ClaimsGrid& grid, const Measure& measure) {
  return ClaimsPage(grid, measure).write();
}

}  // namespace lacuna
