// Everything one forward pass needs, as a value. Methods differ only in the plans they build.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/rng.h"
#include "base/token.h"
#include "kernels/attention.h"
#include "model/sampling.h"

namespace lacuna {

/// How the rows of a group see each other.
enum class OwnRows : uint8_t {
  kBidirectional,  ///< every row sees every row of the group
  kCausal,         ///< a row sees itself and the group's rows before it, in row order
  kNone,           ///< a row sees the cells in `visible` alone, which may be its own
};

/// How the rows of a group enter a model with canvases.
enum class CanvasRows : uint8_t {
  kNone,         ///< embeddings of the tokens: the prompt, and finished canvases
  kFresh,        ///< canvas that no pass has seen
  kConditioned,  ///< canvas with the soft embeddings that its sequence keeps for its cells
};

/// Layers that attend to all visible cells even where attention is sparse: by default the first two (Quest,
/// section 4.1, and MAGE).
inline constexpr int32_t kDenseLayers = 2;

/// Which cells a group's rows attend to in the layers from `dense_layers` on, for each layer and kv head. The
/// choice is made among a part of the visible cells; the rest, and the group's own rows, are always seen.
struct SparseAttention {
  enum class Choice : uint8_t {
    kAll,
    kAllAndRemember,  ///< all, and the sequence remembers the `budget` cells with the most attention mass
    kRemembered,      ///< the cells that an earlier pass remembered
    kBestPages,       ///< the last page and those with the best scores for the rows' queries, `budget` cells
    /// All, and the sequence remembers for all kv heads the `budget` candidates with the best scores for the
    /// rows' mean query, each score the best of `pool` candidates around it (Sparse-dLLM).
    kAllAndRememberScored,
  };
  Choice choice = Choice::kAll;
  IndexRange among;        ///< one of RowGroup::visible; begins at 0; more candidates than `budget`
  int32_t budget = 0;      ///< cells of each kv head
  int32_t page_size = 16;  ///< cells
  int32_t dense_layers = kDenseLayers;
  /// Part of `among` whose cells are seen and are no candidates. Only with kAllAndRememberScored and with
  /// what it remembered; the cells of the candidates keep their K/V as long as a pass is confined to some of
  /// them.
  IndexRange except = {};
  int32_t pool = 3;  ///< odd

  bool is_confined() const { return choice == Choice::kRemembered || choice == Choice::kBestPages; }
  bool remembers() const {
    return choice == Choice::kAllAndRemember || choice == Choice::kAllAndRememberScored;
  }
  int32_t num_candidates() const { return among.size() - except.size(); }
  /// The cell of a candidate, which are numbered in ascending order of their cells.
  int32_t candidate(int32_t index) const {
    const int32_t cell = among.begin + index;
    return cell < except.begin ? cell : cell + except.size();
  }
  /// Candidates that each kv head attends to.
  int32_t num_chosen() const;

  bool operator==(const SparseAttention&) const = default;
};

/// Rows of one sequence that share what they attend to. A row's K/V are written to its cell before any row
/// reads. A group names its own cells in `visible`, or leaves them to `own_rows`; not both.
struct RowGroup {
  int32_t sequence = 0;             ///< index into the caches that forward() is given
  IndexRange rows;                  ///< part of StepPlan::tokens
  std::vector<IndexRange> visible;  ///< cells that every row attends to, besides the group's own
  OwnRows own_rows = OwnRows::kBidirectional;
  /// Nothing is asked of the rows but their K/V: the last layer computes no more of them than that. Exact.
  bool only_kv = false;
  /// At most one group of a sequence has it.
  SparseAttention sparse = {};
  /// Only of models with canvases. In their sliding layers a cell has the number of its position: a causal
  /// row sees a window that ends at its own position, other rows the one that ends at their group's first.
  CanvasRows canvas = CanvasRows::kNone;

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
  TokenId scored = -1;        ///< a token whose rank and logit are wanted as well; -1: none
  /// 0 to 1: the sequence keeps the mean embedding under the distribution that the confidence is measured in,
  /// less its least likely tokens, of this probability together at most; -1: it does not. The mean is then
  /// off by at most this times the norm of the longest embedding.
  float soft_embedding_slack = -1;

  bool operator==(const LogitRow&) const = default;
};

/// One forward pass over rows of any number of sequences. Kept and scratch K/V differ only in whether a later
/// plan names their cells.
struct StepPlan {
  std::vector<TokenId> tokens;     ///< [num_rows] input token of each row; the mask token where hidden
  std::vector<int32_t> positions;  ///< [num_rows] 0-based position within the row's sequence
  std::vector<int32_t> cells;      ///< [num_rows] where the row's K/V go; distinct within a sequence
  std::vector<RowGroup> groups;    ///< cover all rows, in row order
  std::vector<LogitRow> logits;    ///< rows to sample from, in any order
  std::vector<SamplingRule> rules;
  /// Whether PassResult::kv_drift says how far each row's K/V moved from what their cells held.
  bool measures_kv_drift = false;

  int32_t num_rows() const { return static_cast<int32_t>(tokens.size()); }

  void add_row(TokenId token, int32_t position, int32_t cell) {
    tokens.push_back(token);
    positions.push_back(position);
    cells.push_back(cell);
  }

  /// Adds a group of rows for the tokens at [begin, end), in the cells of these numbers, that also see all
  /// cells before `begin`.
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
    logits.clear();
    rules.clear();
    measures_kv_drift = false;
  }

  bool operator==(const StepPlan&) const = default;
};

}  // namespace lacuna
