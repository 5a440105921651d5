#include "decode/cache_policy.h"

#include <algorithm>
#include <numeric>

#include "base/overloaded.h"

namespace lacuna {
namespace {

bool is_due(int32_t refresh, int32_t pass) {
  return refresh > 0 && pass % refresh == 0;
}

std::vector<int32_t> range(int32_t begin, int32_t end) {
  std::vector<int32_t> rows(static_cast<size_t>(end - begin));
  std::iota(rows.begin(), rows.end(), begin);
  return rows;
}

/// End of the finished cache blocks: 0, the prompt's length, or a number of whole blocks after it.
int32_t frozen_end(const FreeCache& policy, const Canvas& canvas) {
  const auto is_finished = [&](int32_t position) {
    return canvas.is_known(position) && (policy.literal || canvas.age(position) > 0);
  };
  int32_t finished = 0;
  while (finished < canvas.length() && is_finished(finished)) ++finished;
  const int32_t prompt = canvas.prompt_length();
  if (finished == canvas.length()) return finished;
  if (finished < prompt) return 0;
  return prompt + (finished - prompt) / policy.block * policy.block;
}

bool is_settled(const Canvas& canvas, int32_t row) {
  const auto was_read = [&](int32_t position) {
    return position >= canvas.length() || (!canvas.is_masked(position) && canvas.age(position) > 0);
  };
  return was_read(row) && was_read(canvas.predicted(row));
}

}  // namespace

CachedPass choose_rows(const CachePolicy& policy, const Canvas& canvas, const Block& block,
                       std::span<const int32_t> drawn_positions) {
  const int32_t length = canvas.length();
  const auto everything = [&] { return CachedPass{range(0, length), true}; };
  if (canvas.num_passes() == 0) return everything();

  const int32_t live = canvas.predictor(block.begin);  // shifted: the row before the block stays live
  CachedPass pass = std::visit(
      Overloaded{[&](const NoCache&) { return everything(); },
                 [&](const PrefixCache& prefix) {
                   if (block.pass == 0 || is_due(prefix.refresh, block.pass)) return everything();
                   return CachedPass{range(live, length), false};
                 },
                 [&](const DualCache& dual) {
                   if (block.pass == 0 || is_due(dual.refresh, block.pass)) return everything();
                   return CachedPass{range(live, block.end), false};
                 },
                 [&](const FreeCache& free) {
                   if (is_due(free.refresh, canvas.num_passes())) return everything();
                   const bool stale = free.refresh > 0;  // a later pass computes what is frozen now
                   return CachedPass{range(canvas.predictor(frozen_end(free, canvas)), length), !stale};
                 },
                 [&](const DkvCache& dkv) {
                   if (block.pass < 2 || is_due(dkv.refresh, canvas.num_passes())) return everything();
                   std::vector<int32_t> rows = range(0, length);
                   std::erase_if(rows, [&](int32_t row) { return is_settled(canvas, row); });
                   return CachedPass{std::move(rows), false};
                 }},
      policy);

  pass.nothing_is_stale = pass.nothing_is_stale || pass.rows.size() == static_cast<size_t>(length);

  // Gaps in the prompt and positions that drew a mask may lie outside the policy's rows.
  std::vector<int32_t> predictors;
  for (const int32_t position : drawn_positions) {
    const int32_t row = canvas.predictor(position);
    if (row < canvas.first_moved()) predictors.push_back(row);
  }
  const std::vector<int32_t> moved = range(canvas.first_moved(), length);
  predictors.insert(predictors.end(), moved.begin(), moved.end());
  std::vector<int32_t> rows;
  std::set_union(pass.rows.begin(), pass.rows.end(), predictors.begin(), predictors.end(),
                 std::back_inserter(rows));
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  pass.rows = std::move(rows);
  return pass;
}

}  // namespace lacuna
