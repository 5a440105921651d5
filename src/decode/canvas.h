// The tokens of one masked diffusion request, and how many passes have computed each token's row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/token.h"
#include "decode/decoder.h"

namespace lacuna {

/// Contiguous positions that are denoised together.
struct Block {
  int32_t index = 0;  ///< 0-based
  int32_t begin = 0;
  int32_t end = 0;   ///< one past the last
  int32_t pass = 0;  ///< passes that the block has had
};

/// begin, begin + 1, ..., end - 1.
std::vector<int32_t> positions_in(int32_t begin, int32_t end);

class Canvas {
 public:
  /// The prompt, then gen_length masks. A mask token within the prompt is a gap to fill.
  ///   shifted_logits  row p - 1 predicts position p; row 0 also predicts position 0
  ///   answer  initial tokens of the positions to generate, masks where they are open; empty: all masks
  Canvas(std::vector<TokenId> prompt, int32_t gen_length, TokenId mask_id, bool shifted_logits,
         std::span<const TokenId> answer = {});

  int32_t length() const { return static_cast<int32_t>(tokens_.size()); }
  int32_t prompt_length() const { return prompt_length_; }
  TokenId mask_id() const { return mask_id_; }
  std::span<const TokenId> tokens() const { return tokens_; }
  TokenId operator[](int32_t position) const { return tokens_[static_cast<size_t>(position)]; }

  bool is_masked(int32_t position) const { return (*this)[position] == mask_id_; }
  /// Whether the prompt fixes the position.
  bool is_given(int32_t position) const { return given_[static_cast<size_t>(position)]; }
  int32_t count_masked(int32_t begin, int32_t end) const;
  /// The properties of this canvas on which the cost of the uncached baseline depends.
  BaselineRequest baseline_request(int32_t num_sequences) const;
  /// Masked positions of [begin, end), ascending.
  std::vector<int32_t> masked_positions(int32_t begin, int32_t end) const;

  /// The row whose logits predict a position.
  int32_t predictor(int32_t position) const { return shifted_ && position > 0 ? position - 1 : position; }
  /// The position that a row predicts: shifted, the next one (row 0 also predicts 0; the last row has
  /// length()).
  int32_t predicted(int32_t row) const { return shifted_ ? row + 1 : row; }
  /// Whether the position has a token; true at and after length().
  bool is_known(int32_t position) const { return position >= length() || !is_masked(position); }

  /// Passes that computed the position's row with its present token as input.
  int32_t age(int32_t position) const { return ages_[static_cast<size_t>(position)]; }
  /// Passes of the request so far.
  int32_t num_passes() const { return num_passes_; }

  /// Records a pass that computed these rows; they must include all rows from first_moved() on.
  void count_pass(std::span<const int32_t> rows);
  void commit(const Commit& commit);

  // Edits after the prompt. Cells from the edit on hold K/V of moved tokens: their age becomes 0 again, and
  // no pass may attend to them before it has computed them.
  /// Inserts masks before the position; at length(), at the end.
  void insert_masks(int32_t position, int32_t count);
  void drop(int32_t position);
  /// Appends `count` copies of a token to the answer.
  void append(TokenId token, int32_t count);
  /// First position whose K/V an edit since the last pass has invalidated; length() if all are valid.
  int32_t first_moved() const { return std::min(first_moved_, length()); }

  /// Tokens of the answer before its first mask.
  int32_t num_final() const;
  /// Position of the first of `end_ids` after the prompt; length() without one.
  int32_t answer_end(std::span<const TokenId> end_ids) const;
  /// Whether the answer has an end token and no mask before it.
  bool answer_is_final(std::span<const TokenId> end_ids) const;

 private:
  static constexpr int32_t kNoneMoved = std::numeric_limits<int32_t>::max();

  /// Invalidates the K/V from an edited position on.
  void move_from(int32_t position);

  std::vector<TokenId> tokens_;
  std::vector<bool> given_;
  std::vector<int32_t> ages_;
  int32_t prompt_length_;
  TokenId mask_id_;
  bool shifted_;
  int32_t num_passes_ = 0;
  int32_t first_moved_ = kNoneMoved;
};

}  // namespace lacuna
