// Endless batches from the task generators: a function of seed and step alone, so that a resumed run sees
// what an uninterrupted one would have seen.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/token.h"
#include "engine/answer_labels.h"
#include "eval/decisions.h"
#include "tasks/tasks.h"
#include "tokenizer/tokenizer.h"
#include "train/bpe.h"
#include "train/chat_form.h"
#include "train/objective.h"
#include "train/records.h"

namespace lacuna::train {

struct TaskShare {
  const Task* task;
  double share;
};

struct RecordsShare {
  const Records* records;  ///< outlive the source
  double share;
};

struct DataOptions {
  std::vector<TaskShare> tasks;  ///< each with its relative share of the rows
  /// Files and their relative shares of the rows. Every kHeldOutEvery-th row of a file is held out; the
  /// others are shuffled by the seed, and each is used once before any is repeated.
  std::vector<RecordsShare> files = {};
  /// Relative share of decision rows: a story, questions about it and the labels of their answers, in the
  /// layout of `lacuna decide`. Only the labels are learned, except with `one_end_token`: then the whole
  /// answer is.
  double decision_share = 0;
  /// Share of the decision rows with a single question's line, as autoregressive and block models read it.
  double single_line_share = 0;
  int decision_questions = 4;                ///< maximum number of questions of a decision row
  std::vector<QuestionKind> decision_kinds;  ///< kinds of questions in decision rows; empty: all
  /// Share of the decision rows that are drills: a story, and many questions with the answer after each.
  double decision_drill_share = 0;
  int decision_drill_questions = 12;  ///< maximum number of questions of such a drill
  /// Weight of auxiliary targets in decision rows, half for words and half for options; 0: none. Each word of
  /// a question predicts whether the story contains it, the end of each option's line its correctness.
  double decision_auxiliary = 0;
  double drill_share = 0.2;
  int64_t batch_rows = 32;
  int64_t canvas = 32;  ///< least number of response tokens, end tokens included
  /// Canvas lengths are sampled from [canvas, longest_canvas], short ones more often; 0: always `canvas`.
  int64_t longest_canvas = 0;
  double chat_share =
      1;  ///< share of prompts in the chat template; other prompts, and all of retrieval, are raw text
  double infill_share = 0;  ///< share of rows that are stories with a few spans to restore
  /// Share of rows in which the end tokens from a random position on are given, as decoders that commit the
  /// most confident tokens first see them.
  double given_tail_share = 0;
  double prompt_noise = 0;   ///< share of the words of user turns of `questions` to change (prompt_noise.h)
  int64_t drill_canvas = 0;  ///< least number of positions after the prompt of a drill; 0: as `canvas`
  /// Range of prompt lengths, sampled uniformly, for tasks with Task::has_lengths.
  int32_t min_length = kDefaultLength;
  int32_t max_length = kDefaultLength;
  /// Range of position ids of rows of such tasks, so that a model learns long distances from short rows; 0:
  /// no gaps. Three rows in four get up to six gaps of whole blocks, each after a fact that ends at a block's
  /// end. These rows are up to three tokens longer, which aligns facts with blocks.
  int64_t spread = 0;
  int64_t block_length = 1;  ///< rows are padded to whole blocks, and gaps lie between blocks
  uint64_t seed = 1;
  /// The response ends after one end token, for any canvas; the padding is not learned. Excludes drills.
  bool one_end_token = false;
  int64_t context = 0;  ///< length of all rows; 0: the length that their samples need
};

/// Samples of the tasks' train split, and drills. A drill is a prompt with bare equations in place of the
/// answer, "12+7=19. 14-9=5. ...", in which only the results belong to the response: it teaches more sums
/// than the two of a story. Its equations are sampled uniformly from all that a story can contain; after a
/// prompt of `questions` they have numbers up to 198. A drill of retrieval continues with more questions
/// about its list, "fox lantern Mia. Ben drum Ada. ...", in which only the values belong to the response;
/// facts repeat only once all were asked. End tokens that fill a row, except the first ones, have a low
/// weight: they are easy and many.
class BatchSource {
 public:
  /// Number of batches that are sampled together and sorted by length; more would save little.
  static constexpr uint64_t kPoolBatches = 16;
  static constexpr uint64_t kHeldOutEvery = 50, kMaxHeldOutBatches = 8;

  /// `vocabulary` must outlive the source; its end token fills the rows. Throws InputError for drills with
  /// `one_end_token`, and for decision rows if the vocabulary lacks tokens for answer labels.
  BatchSource(DataOptions options, const Vocabulary& vocabulary);

  /// The batch of a step (0-based). Rows of similar length share a batch; shorter rows get more end tokens,
  /// so no padding needs a mask. (With `one_end_token` there is padding, but after every row that a causal
  /// model learns from.) Throws InputError for a sample that exceeds the context.
  Batch batch(uint64_t step);

  /// Up to kMaxHeldOutBatches batches of the files' held-out rows; empty without files, or if all files
  /// together have fewer held-out rows than one batch.
  std::vector<Batch> held_out() const;

  const DataOptions& options() const { return options_; }

 private:
  /// A retrieval question: " fox lantern" and " Mia".
  struct Question {
    std::string text;
    std::string result;
  };
  /// A token that a row of the prompt predicts in addition (Batch::auxiliary).
  struct AuxiliaryTarget {
    int64_t at = 0;  // index of that row
    TokenId target = 0;
    bool is_option = false;  // the end of an option's line; otherwise a word of the question
  };
  struct Row {
    std::vector<TokenId> prompt;
    std::vector<TokenId> answer;
    int64_t room = 0;  // canvas
    bool drill = false;
    bool wide_numbers = false;  // the drill's equations have the number range of `questions`
    std::vector<AuxiliaryTarget> auxiliary;
    std::vector<bool> blanks;     // infilling: whether each token of `prompt` is to be restored
    std::vector<Question> facts;  // facts of a retrieval drill
    std::string first_result;     // answer of the question that a retrieval prompt ends with
    bool spread = false;
  };

  void fill(uint64_t pool_number);
  /// Makes a batch of numbered rows, in the order given, padded to the longest.
  Batch make_batch(const std::vector<const std::pair<uint64_t, Row>*>& rows) const;
  Row record_row(const Records& records, uint64_t record, uint64_t index) const;
  /// `kind`: a number in [0, sum of the files' shares).
  Row sample_record_row(uint64_t index, double kind) const;
  Row sample_row(uint64_t index) const;
  /// The first of several attempts at a row that fits the context.
  Row sample_fitting_row(uint64_t index) const;
  Row sample_infill_row(uint64_t index) const;
  Row sample_decision_row(uint64_t index) const;
  /// A story with up to `most_questions` questions of the kinds `decision_kinds`.
  DecisionSample draw_questions(uint64_t index, int most_questions) const;
  Row sample_decision_drill(uint64_t index) const;
  /// Adds the auxiliary targets of a question. Its lines are `text`, in the prompt from token `first` on.
  void add_auxiliary(const DecisionSample& sample, size_t question, const std::string& text, size_t first,
                     Row& row) const;
  int64_t sample_room(uint64_t index) const;
  /// `spread`: facts begin at multiples of kFactLength.
  Sample make_sample(const Task& task, uint64_t index, bool spread) const;
  int64_t length(const Row& row) const;
  void write_row(const Row& row, uint64_t index, int64_t* tokens, bool* response, float* weights,
                 int64_t length) const;
  void write_auxiliary(const Row& row, int64_t number, Batch& batch) const;
  void write_drill(const Row& row, uint64_t index, int64_t* tokens, bool* response, int64_t length) const;
  void write_positions(const Row& row, uint64_t index, int64_t* positions, int64_t length) const;
  /// The facts of a retrieval prompt: lines with a thing that no other line names.
  static std::vector<Question> facts_of(const Sample& sample);

  DataOptions options_;
  const Vocabulary* vocabulary_;
  const Tokenizer* tokenizer_;  // of the vocabulary
  TokenId period_;
  AnswerLabels labels_;          // of decisions
  std::vector<TokenId> yes_no_;  // tokens of the first two labels
  std::vector<Batch> pool_;
  uint64_t pool_number_ = UINT64_MAX;
};

/// The sample's conversation in the chat template.
std::vector<TokenId> chat_prompt(const Sample& sample, const Vocabulary& vocabulary);

/// Prompts and answers of the train split of arithmetic and stories, enough for every word and number to
/// occur; for kWide, the words of `questions` too. The texts do not depend on a run's tasks and seed, so all
/// models of one kind share a vocabulary, and one can initialize, guide or judge another.
std::vector<std::string> vocabulary_corpus(VocabularyKind kind = VocabularyKind::kShared);

}  // namespace lacuna::train
