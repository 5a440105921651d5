#include "decode/canvas.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace lacuna {

std::vector<int32_t> positions_in(int32_t begin, int32_t end) {
  std::vector<int32_t> positions(static_cast<size_t>(end - begin));
  std::iota(positions.begin(), positions.end(), begin);
  return positions;
}

Canvas::Canvas(std::vector<TokenId> prompt, int32_t gen_length, TokenId mask_id, bool shifted_logits,
               std::span<const TokenId> answer)
    : tokens_(std::move(prompt)),
      prompt_length_(static_cast<int32_t>(tokens_.size())),
      mask_id_(mask_id),
      shifted_(shifted_logits) {
  tokens_.insert(tokens_.end(), answer.begin(), answer.end());
  tokens_.resize(static_cast<size_t>(prompt_length_) + static_cast<size_t>(gen_length), mask_id_);
  for (const TokenId token : tokens_) given_.push_back(token != mask_id_);
  ages_.resize(tokens_.size(), 0);
}

int32_t Canvas::count_masked(int32_t begin, int32_t end) const {
  return static_cast<int32_t>(std::count(tokens_.begin() + begin, tokens_.begin() + end, mask_id_));
}

BaselineRequest Canvas::baseline_request(int32_t num_sequences) const {
  const auto masks = [&](auto begin, auto end) {
    return static_cast<int32_t>(std::count(begin, end, false));
  };
  const auto answer = given_.begin() + prompt_length_;
  BaselineRequest request;
  request.prompt_length = prompt_length_;
  request.gen_length = request.answer_length = length() - prompt_length_;
  request.prompt_masks = masks(given_.begin(), answer);
  request.answer_masks = masks(answer, given_.end());
  request.num_sequences = num_sequences;
  return request;
}

std::vector<int32_t> Canvas::masked_positions(int32_t begin, int32_t end) const {
  std::vector<int32_t> positions;
  for (int32_t position = begin; position < end; ++position) {
    if (is_masked(position)) positions.push_back(position);
  }
  return positions;
}

void Canvas::count_pass(std::span<const int32_t> rows) {
  for (const int32_t row : rows) ++ages_[static_cast<size_t>(row)];
  ++num_passes_;
  first_moved_ = kNoneMoved;
}

void Canvas::commit(const Commit& commit) {
  const auto index = static_cast<size_t>(commit.position);
  // A sampled mask token changes nothing: the row's K/V still come from its token.
  if (tokens_[index] == commit.token) return;
  tokens_[index] = commit.token;
  ages_[index] = 0;
}

void Canvas::insert_masks(int32_t position, int32_t count) {
  expects(position >= prompt_length_ && position <= length() && count >= 0,
          "insert_masks: behind the prompt");
  const auto size = static_cast<size_t>(count);
  tokens_.insert(tokens_.begin() + position, size, mask_id_);
  given_.insert(given_.begin() + position, size, false);
  ages_.insert(ages_.begin() + position, size, 0);
  move_from(position);
}

void Canvas::drop(int32_t position) {
  expects(position >= prompt_length_ && position < length(), "drop: behind the prompt");
  tokens_.erase(tokens_.begin() + position);
  given_.erase(given_.begin() + position);
  ages_.erase(ages_.begin() + position);
  move_from(position);
}

void Canvas::append(TokenId token, int32_t count) {
  const int32_t begin = length();
  insert_masks(begin, count);
  std::fill(tokens_.begin() + begin, tokens_.end(), token);
  std::fill(given_.begin() + begin, given_.end(), token != mask_id_);
}

void Canvas::move_from(int32_t position) {
  std::fill(ages_.begin() + position, ages_.end(), 0);
  first_moved_ = std::min(first_moved_, position);
}

int32_t Canvas::num_final() const {
  const auto mask = std::find(tokens_.begin() + prompt_length_, tokens_.end(), mask_id_);
  return static_cast<int32_t>(mask - tokens_.begin()) - prompt_length_;
}

int32_t Canvas::answer_end(std::span<const TokenId> end_ids) const {
  const auto end =
      std::find_first_of(tokens_.begin() + prompt_length_, tokens_.end(), end_ids.begin(), end_ids.end());
  return static_cast<int32_t>(end - tokens_.begin());
}

bool Canvas::answer_is_final(std::span<const TokenId> end_ids) const {
  // A sampled mask token leaves its position masked, and later blocks may still fill it.
  const int32_t end = answer_end(end_ids);
  return end < length() && count_masked(prompt_length_, end) == 0;
}

}  // namespace lacuna
