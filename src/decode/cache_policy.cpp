#include "decode/cache_policy.h"

#include <algorithm>
#include <cmath>

#include "base/overloaded.h"

namespace lacuna {
namespace {

bool is_due(int32_t refresh, int32_t pass) {
  return refresh > 0 && pass % refresh == 0;
}

/// End of the cache blocks whose tokens this many passes have computed: 0, the prompt's length, or a number
/// of whole blocks after it.
int32_t finished_end(const FreeCache& policy, const Canvas& canvas, int32_t passes) {
  const auto is_finished = [&](int32_t position) {
    // The published delay counts a prompt as finished one pass before the first.
    const int32_t before = policy.delay > 0 && canvas.is_given(position) ? 1 : 0;
    return canvas.is_known(position) && canvas.age(position) + before >= passes;
  };
  int32_t finished = 0;
  while (finished < canvas.length() && is_finished(finished)) ++finished;
  const int32_t prompt = canvas.prompt_length();
  if (finished == canvas.length()) return finished;
  if (finished < prompt) return 0;
  return prompt + (finished - prompt) / policy.block * policy.block;
}

CachedPass choose_rows_of(const FreeCache& free, const Canvas& canvas) {
  const int32_t frozen = finished_end(free, canvas, free.literal ? 0 : free.delay + 1);
  bool is_whole = is_due(free.refresh, canvas.num_passes());
  if (free.delay > 0) {
    const bool keeps = finished_end(free, canvas, free.delay) > frozen;  // K/V of this pass
    const bool waits = finished_end(free, canvas, 0) > frozen;
    is_whole = !keeps && (waits || is_due(free.refresh, canvas.num_passes() + 1));
  }
  const bool is_final = free.refresh == 0 && free.delay == 0;  // no later pass computes what is frozen
  return {positions_in(is_whole ? 0 : canvas.predictor(frozen), canvas.length()), is_final};
}

bool is_settled(const Canvas& canvas, int32_t row) {
  const auto was_read = [&](int32_t position) {
    return position >= canvas.length() || (!canvas.is_masked(position) && canvas.age(position) > 0);
  };
  return was_read(row) && was_read(canvas.predicted(row));
}

/// The block and, where logits are shifted, the row before it.
IndexRange live_rows(const Canvas& canvas, const Block& block) {
  return {canvas.predictor(block.begin), block.end};
}

/// A block's first pass computes everything. So does the second one, and remembers the best of the cells
/// outside of the block, which the block's rows attend to in later passes. A pass that needs other rows
/// computes everything and chooses the cells again.
CachedPass choose_sparse_rows(const SparseDllm& policy, const Canvas& canvas, const Block& block,
                              std::span<const int32_t> drawn_positions) {
  using Choice = SparseAttention::Choice;
  const int32_t length = canvas.length();
  const IndexRange live = live_rows(canvas, block);
  const auto is_live = [&](int32_t position) {
    const int32_t row = canvas.predictor(position);
    return row >= live.begin && row < live.end;
  };
  CachedPass pass{positions_in(0, length), true};
  const int32_t number = policy.refresh > 0 ? block.pass % policy.refresh : block.pass;
  if (number == 0) return pass;
  const bool is_confined = number > 1 && canvas.first_moved() >= length &&
                           std::all_of(drawn_positions.begin(), drawn_positions.end(), is_live);
  if (is_confined) pass = {positions_in(live.begin, live.end), false};
  SparseAttention sparse{.among = {0, length}, .dense_layers = 0, .except = live, .pool = policy.pool};
  sparse.budget = std::max(1, static_cast<int32_t>(std::floor(policy.keep * sparse.num_candidates())));
  if (sparse.budget >= sparse.num_candidates()) return pass;  // nothing is left out
  sparse.choice = is_confined ? Choice::kRemembered : Choice::kAllAndRememberScored;
  pass.sparse = sparse;
  pass.live = live;
  return pass;
}

CachedPass choose_rows_of(const DllmCache& policy, const Canvas& canvas) {
  const IndexRange live = kept_layers(policy, canvas);
  const bool renews_prompt = is_due(policy.refresh, canvas.num_passes());
  CachedPass pass{.rows = positions_in(renews_prompt ? 0 : live.begin, live.end),
                  .nothing_is_stale = false,
                  .reuse = {.keeps = true},
                  .live = live};
  if (!is_due(policy.answer, canvas.num_passes()))
    pass.reuse.num_computed = static_cast<int32_t>(std::floor(policy.ratio * live.size()));
  return pass;
}

}  // namespace

IndexRange kept_layers(const CachePolicy& policy, const Canvas& canvas) {
  if (!std::holds_alternative<DllmCache>(policy)) return {};
  return {canvas.predictor(canvas.prompt_length()), canvas.length()};
}

CachedPass choose_rows(const CachePolicy& policy, const Canvas& canvas, const Block& block,
                       std::span<const int32_t> drawn_positions) {
  const int32_t length = canvas.length();
  const auto everything = [&] { return CachedPass{positions_in(0, length), true}; };
  if (canvas.num_passes() == 0 && !std::holds_alternative<DllmCache>(policy)) return everything();

  const IndexRange live = live_rows(canvas, block);
  CachedPass pass =
      std::visit(Overloaded{[&](const NoCache&) { return everything(); },
                            [&](const PrefixCache& prefix) {
                              if (block.pass == 0 || is_due(prefix.refresh, block.pass)) return everything();
                              return CachedPass{positions_in(live.begin, length), false};
                            },
                            [&](const DualCache& dual) {
                              if (block.pass == 0 || is_due(dual.refresh, block.pass)) return everything();
                              return CachedPass{positions_in(live.begin, live.end), false};
                            },
                            [&](const FreeCache& free) { return choose_rows_of(free, canvas); },
                            [&](const DkvCache& dkv) {
                              if (block.pass < 2 || is_due(dkv.refresh, canvas.num_passes()))
                                return everything();
                              std::vector<int32_t> rows = positions_in(0, length);
                              std::erase_if(rows, [&](int32_t row) { return is_settled(canvas, row); });
                              return CachedPass{std::move(rows), false};
                            },
                            [&](const D2Cache&) { return everything(); },  // see PassRequests::computed
                            [&](const SparseDllm& sparse) {
                              return choose_sparse_rows(sparse, canvas, block, drawn_positions);
                            },
                            [&](const DllmCache& dllm) { return choose_rows_of(dllm, canvas); }},
                 policy);

  const bool is_whole = pass.rows.size() == static_cast<size_t>(length) && !pass.reuse.skips();
  pass.nothing_is_stale = pass.nothing_is_stale || is_whole;

  // Gaps in the prompt and positions that sampled a mask may lie outside the policy's rows.
  std::vector<int32_t> predictors;
  for (const int32_t position : drawn_positions) {
    const int32_t row = canvas.predictor(position);
    if (row < canvas.first_moved()) predictors.push_back(row);
  }
  const std::vector<int32_t> moved = positions_in(canvas.first_moved(), length);
  predictors.insert(predictors.end(), moved.begin(), moved.end());
  std::vector<int32_t> rows;
  std::set_union(pass.rows.begin(), pass.rows.end(), predictors.begin(), predictors.end(),
                 std::back_inserter(rows));
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  pass.rows = std::move(rows);
  return pass;
}

}  // namespace lacuna
