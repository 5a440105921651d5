// Batches from the task generators: endless, and a function of seed and step alone, so that a resumed run
// sees what an uninterrupted one would have seen.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"
#include "eval/tasks.h"
#include "tokenizer/tokenizer.h"
#include "train/objective.h"

namespace lacuna::train {

struct TaskShare {
  const Task* task;
  double share;
};

struct DataOptions {
  std::vector<TaskShare> tasks;  ///< shares of the rows; with that of the drills, they need not sum to 1
  double drill_share = 0.2;
  int64_t batch_rows = 32;
  int64_t canvas = 32;  ///< least number of response tokens, end tokens included
  uint64_t seed = 1;
  /// The response ends after one end token, whatever the canvas; what fills the row is not to be learned.
  /// There are no drills then.
  bool one_end_token = false;
  int64_t context = 0;  ///< length of all rows; 0: as their samples need
};

/// Samples of the tasks' train split, and drills. A drill is a prompt with bare equations in the answer's
/// place, "12+7=19. 14-9=5. ...", in which only the results belong to the response: it teaches as many sums
/// as fit instead of the two of a story. Its equations are drawn evenly from all that a story can contain.
class BatchSource {
 public:
  /// `tokenizer` outlives the source; `end_id` fills the rows. Throws InputError for drills with one end
  /// token.
  BatchSource(DataOptions options, const Tokenizer& tokenizer, TokenId end_id);

  /// The batch of a step (0-based). Rows of similar length share a batch; shorter ones get more end tokens,
  /// so no position is padding that the model must not see. (With one end token the others are padding, but
  /// behind all that a causal model is asked.) Throws InputError for a sample that the context cannot hold.
  Batch batch(uint64_t step);

  const DataOptions& options() const { return options_; }

 private:
  struct Row {
    std::vector<TokenId> prompt;
    std::vector<TokenId> answer;  // empty: a drill
  };

  void fill(uint64_t pool_number);
  Row draw_row(uint64_t index) const;
  int64_t length(const Row& row) const;
  void write_row(const Row& row, uint64_t index, int64_t* tokens, bool* response, int64_t length) const;
  void write_drill(uint64_t index, int64_t* tokens, bool* response, int64_t at, int64_t length) const;

  DataOptions options_;
  const Tokenizer* tokenizer_;
  TokenId end_id_;
  std::vector<Batch> pool_;
  uint64_t pool_number_ = UINT64_MAX;
};

/// Prompts and answers of the train split of arithmetic and stories, enough for every word and number to
/// occur. The same texts whatever tasks and seed a run has: all models share one vocabulary, so that one can
/// start, guide or judge another.
std::vector<std::string> vocabulary_corpus();

}  // namespace lacuna::train
