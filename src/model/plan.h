// Input of one forward pass, as a value. Decoding methods differ only in their plans.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/rng.h"
#include "base/token.h"
#include "kernels/attention.h"
#include "model/sampling.h"

namespace lacuna {

/// How the rows of a group attend to each other.
enum class OwnRows : uint8_t {
  kBidirectional,  ///< every row attends to every row of the group
  kCausal,         ///< a row attends to itself and the group's earlier rows
  kNone,           ///< a row attends only to the cells in `visible`, possibly its own
};

/// How the rows of a group enter a model with canvases.
enum class CanvasRows : uint8_t {
  kNone,         ///< plain token embeddings: the prompt, and finished canvases
  kFresh,        ///< canvas in its first pass
  kConditioned,  ///< canvas conditioned on the soft embeddings of its cells
};

/// Number of first layers that attend to all visible cells even if attention is sparse (Quest, section 4.1,
/// and MAGE).
inline constexpr int32_t kDenseLayers = 2;

/// Selects the cells that a group's rows attend to, for each layer from `dense_layers` on and each kv head.
/// Only a part of the visible cells are candidates; the others, and the group's own rows, are always attended
/// to.
struct SparseAttention {
  enum class Choice : uint8_t {
    kAll,
    kAllAndRemember,  ///< all cells; the sequence then remembers the `budget` cells with the most attention
                      ///< mass
    kRemembered,      ///< the cells that an earlier pass remembered
    kBestPages,  ///< the last page and the pages with the best scores for the rows' queries, `budget` cells
                 ///< in total
    /// All cells; the sequence then remembers, for all kv heads, the `budget` candidates with the best scores
    /// for the rows' mean query, max-pooled over `pool` neighboring candidates (Sparse-dLLM).
    kAllAndRememberScored,
    kAllAndKeep,  ///< all cells; each row keeps its attention to the candidates, per layer
    /// The cells besides the candidates. A row adds the attention to the candidates that it kept; a row whose
    /// token has changed since adds nothing, but is scaled as if it did. With `active_rows`, that many rows
    /// attend to the best pages for their queries instead, and keep that attention: those whose input of the
    /// layer has changed most since their last pass, ties to the lowest.
    kKept,
  };
  Choice choice = Choice::kAll;
  IndexRange among;  ///< range of candidates: one of RowGroup::visible, beginning at 0, larger than `budget`
  int32_t budget = 0;      ///< cells per kv head
  int32_t page_size = 16;  ///< cells
  int32_t dense_layers = kDenseLayers;
  /// Part of `among` that is always attended to and has no candidates. Only for kAllAndRememberScored and the
  /// cells that it remembered. Candidates must keep their K/V while passes are confined to some of them.
  IndexRange except = {};
  int32_t pool = 3;         ///< odd window size of max pooling, in candidates
  int32_t active_rows = 0;  ///< only for kAllAndKeep and kKept, the same in all passes of a block or fewer

  /// Whether the rows see only a part of the candidates.
  bool hides() const { return is_confined() || choice == Choice::kKept; }
  bool is_confined() const { return choice == Choice::kRemembered || choice == Choice::kBestPages; }
  /// Whether rows keep their attention to the candidates, or use what they kept.
  bool keeps() const { return choice == Choice::kAllAndKeep || choice == Choice::kKept; }
  bool remembers() const {
    return choice == Choice::kAllAndRemember || choice == Choice::kAllAndRememberScored;
  }
  int32_t num_candidates() const { return among.size() - except.size(); }
  /// The cell of a candidate. Candidates are numbered in ascending order of their cells.
  int32_t candidate(int32_t index) const {
    const int32_t cell = among.begin + index;
    return cell < except.begin ? cell : cell + except.size();
  }
  /// Candidates that each kv head attends to; with `active_rows`, in those rows.
  int32_t num_chosen() const;

  bool operator==(const SparseAttention&) const = default;
};

/// Rows whose layers reuse what they added to them in earlier passes (dLLM-Cache). Only with OwnRows::kNone,
/// in passes of whole models without outputs left out.
struct LayerReuse {
  bool keeps = false;  ///< rows keep what each layer that computes them adds to their residual stream
  /// Rows that each layer but the first computes: those whose values have the least cosine, over all kv
  /// heads, with the values in their cells; ties go to the lowest row. All others store new values besides
  /// their old keys, and add what they kept. -1: all rows.
  int32_t num_computed = -1;

  bool skips() const { return num_computed >= 0; }
  bool operator==(const LayerReuse&) const = default;
};

/// Masks of a group that a pass stops computing once its second layer has queries and keys (FOCUS,
/// arXiv 2601.23278): mask_eviction.h has the rule. The others no longer see those behind the last row that
/// stays. Only with OwnRows::kNone, in passes of whole models with a mask token.
struct MaskEviction {
  int32_t target = 0;  ///< masks that stay at least; 0: all
  int32_t unread = 0;  ///< first cell of the group whose keys and values no pass has computed in all layers

  bool operator==(const MaskEviction&) const = default;
};

/// Rows of one sequence that attend to the same cells. Rows' K/V are written to their cells before any row
/// reads. A group lists its own cells in `visible` or sets `own_rows`, not both.
struct RowGroup {
  int32_t sequence = 0;             ///< index into forward()'s caches
  IndexRange rows;                  ///< range of StepPlan::tokens
  std::vector<IndexRange> visible;  ///< cells that every row attends to, besides the group's own
  OwnRows own_rows = OwnRows::kBidirectional;
  /// Only the rows' K/V are needed, so the last layer computes nothing else of them. Results are unchanged.
  bool only_kv = false;
  /// At most one group of a sequence may be sparse.
  SparseAttention sparse = {};
  LayerReuse reuse = {};
  MaskEviction eviction = {};
  /// Only for models with canvases. In layers that slide or convolve, cell numbers are positions. A causal
  /// row's window ends at its own position, other rows' window ends at their group's first position.
  CanvasRows canvas = CanvasRows::kNone;
  /// Only for models whose layers depend on noise levels: -ln of the rows' signal level, 0 for clean text.
  float noise_level = 0;
  /// Whether PassResult::rollout has the group. Its rows see one range of cells, which begins at 0 and has
  /// their own cells. Only on one rank, in models whose layers all attend to everything.
  bool wants_rollout = false;

  /// Whether the pass keeps or reuses what BackendModel::reuses_rows() is about.
  bool reuses_rows() const { return sparse.keeps() || reuse.keeps || eviction.target != 0 || wants_rollout; }
  int32_t rollout_size() const { return wants_rollout ? visible.front().end : 0; }

  bool operator==(const RowGroup&) const = default;
};

/// One token to sample from one row's logits.
struct LogitRow {
  int32_t row = 0;  ///< index into StepPlan::tokens
  int32_t unconditional_row =
      -1;                     ///< classifier-free guidance: the same position without its prompt; -1: none
  float guidance = 0;         ///< logits = u + (guidance + 1) * (l - u), LLaDA's cfg_scale
  int32_t rule = 0;           ///< index into StepPlan::rules
  RngStream noise{0};         ///< random numbers of the sample
  int32_t num_likeliest = 0;  ///< length of RowStatistics::likeliest
  TokenId scored = -1;        ///< a token whose rank and logit to report; -1: none
  /// 0 to 1: stores the row's soft embedding: the mean embedding under the confidence's distribution, without
  /// the least likely tokens of at most this total probability. The error is at most this times the longest
  /// embedding's norm. -1: stores none.
  float soft_embedding_slack = -1;

  bool operator==(const LogitRow&) const = default;
};

/// A row whose input is a mixture of two embeddings: `weight` of its token's and 1 - `weight` of the mask's,
/// scaled to the same mixture of their lengths.
struct MixedRow {
  int32_t row = 0;   ///< index into StepPlan::tokens
  float weight = 1;  ///< 0 to 1

  bool operator==(const MixedRow&) const = default;
};

/// One forward pass over rows of any number of sequences. K/V are kept only if later plans use their cells.
struct StepPlan {
  std::vector<TokenId> tokens;  ///< [num_rows] input token of each row; masked positions have the mask token
  std::vector<int32_t> positions;  ///< [num_rows] 0-based position within the row's sequence
  std::vector<int32_t> cells;      ///< [num_rows] cell of the row's K/V; distinct within a sequence
  std::vector<RowGroup> groups;    ///< cover all rows, in row order
  std::vector<MixedRow> mixed;     ///< rows that are not plain token embeddings; only for models with a mask
  std::vector<LogitRow> logits;    ///< rows to sample from, in any order
  std::vector<SamplingRule> rules;
  /// Whether to compute PassResult::kv_drift.
  bool measures_kv_drift = false;

  int32_t num_rows() const { return static_cast<int32_t>(tokens.size()); }
  /// Size of PassResult::rollout.
  size_t rollout_size() const {
    size_t size = 0;
    for (const RowGroup& group : groups) size += static_cast<size_t>(group.rollout_size());
    return size;
  }

  void add_row(TokenId token, int32_t position, int32_t cell) {
    tokens.push_back(token);
    positions.push_back(position);
    cells.push_back(cell);
  }

  /// Adds a group of rows for the tokens at [begin, end), whose cells have the same indices. Its rows also
  /// attend to all cells before `begin`.
  RowGroup& add_group(std::span<const TokenId> sequence, int32_t begin, int32_t end,
                      OwnRows own_rows = OwnRows::kBidirectional) {
    RowGroup& group = groups.emplace_back();
    group.rows = {num_rows(), num_rows() + end - begin};
    group.own_rows = own_rows;
    if (begin > 0) group.visible.push_back({0, begin});
    for (int32_t i = begin; i < end; ++i) add_row(sequence[static_cast<size_t>(i)], i, i);
    return group;
  }

  /// Appends another plan's rows; its sequences become first_sequence, first_sequence + 1, ...
  void append(const StepPlan& other, int32_t first_sequence);

  /// Empties the plan and keeps its memory.
  void clear() {
    tokens.clear();
    positions.clear();
    cells.clear();
    groups.clear();
    mixed.clear();
    logits.clear();
    rules.clear();
    measures_kv_drift = false;
  }

  bool operator==(const StepPlan&) const = default;
};

}  // namespace lacuna
