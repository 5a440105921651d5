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
  std::vector<TaskShare> tasks;  ///< shares of the rows; with that of the drills, they need not sum to 1
  /// Files and their shares of the rows, as those of the tasks. Every kHeldOutEvery-th row of a file is held
  /// out; the others come in an order that the seed decides, each once before any comes again.
  std::vector<RecordsShare> files = {};
  /// Share of the rows, as those of the tasks, that hold a story, questions about it and the labels of their
  /// answers, as `lacuna decide` lays them out; the labels alone are learned. With one end token the whole
  /// answer is.
  double decision_share = 0;
  /// Share of the rows of decisions that have one question's line alone, as models read
  /// them that write from left to right or in blocks.
  double single_line_share = 0;
  int decision_questions = 4;                ///< most questions of a row of decisions
  std::vector<QuestionKind> decision_kinds;  ///< kinds of questions that such rows have; empty: all
  /// Share of the rows of decisions that are drills: a story, and many questions with the answer behind each.
  double decision_drill_share = 0;
  int decision_drill_questions = 12;  ///< most, of such a drill
  /// Weight of auxiliary targets in rows of decisions: each word of a question is asked whether the story has
  /// it, the end of each option's line whether the option is right; 0: none. Half of it is that of all words
  /// of a row, half that of all options.
  double decision_auxiliary = 0;
  double drill_share = 0.2;
  int64_t batch_rows = 32;
  int64_t canvas = 32;  ///< least number of response tokens, end tokens included
  /// Rows sample their canvas from [canvas, longest_canvas], short ones more often; 0: all have `canvas`.
  int64_t longest_canvas = 0;
  double chat_share =
      1;  ///< of the prompts that use the chat template; others, and all of retrieval, are raw text
  double infill_share = 0;  ///< of the rows: stories of which a few spans are to be restored
  /// Share of rows in which the end tokens from a random position on are given, as decoders that commit the
  /// most confident tokens first see them.
  double given_tail_share = 0;
  double prompt_noise = 0;   ///< share of the words of user turns of `questions` that change (prompt_noise.h)
  int64_t drill_canvas = 0;  ///< positions behind the prompt of a drill, at least; 0: as canvas
  /// Prompt lengths of tasks that have lengths, sampled evenly.
  int32_t min_length = kDefaultLength;
  int32_t max_length = kDefaultLength;
  /// Positions over which the rows of such tasks are spread, so that a model learns far distances from short
  /// rows: three in four get up to six gaps of whole blocks between facts that end where a block does, and
  /// are up to three tokens longer, so that there are such facts. 0: none.
  int64_t spread = 0;
  int64_t block_length = 1;  ///< rows are filled to whole blocks, and gaps lie between blocks
  uint64_t seed = 1;
  /// The response ends after one end token, for any canvas; the padding is not learned. There are no drills
  /// then.
  bool one_end_token = false;
  int64_t context = 0;  ///< length of all rows; 0: as their samples need
};

/// Samples of the tasks' train split, and drills. A drill is a prompt with bare equations in the answer's
/// place, "12+7=19. 14-9=5. ...", in which only the results belong to the response: it teaches as many sums
/// as fit instead of the two of a story. Its equations are sampled evenly from all that a story can contain;
/// behind a prompt of `questions` they have numbers up to 198. A drill of retrieval continues with more
/// questions about its list, "fox lantern Mia. Ben drum Ada. ...", no fact a second time before all were
/// asked, in which only the values belong to the response. End tokens that fill a row weigh little, except
/// the first ones: they are easy and many.
class BatchSource {
 public:
  /// Number of batches that are sampled together and sorted by length; more would save little.
  static constexpr uint64_t kPoolBatches = 16;
  static constexpr uint64_t kHeldOutEvery = 50, kMaxHeldOutBatches = 8;

  /// `vocabulary`, whose end token fills the rows, outlives the source. Throws InputError for drills with one
  /// end token, and for rows of decisions where no tokens label answers.
  BatchSource(DataOptions options, const Vocabulary& vocabulary);

  /// The batch of a step (0-based). Rows of similar length share a batch; shorter ones get more end tokens,
  /// so no position is padding that the model must not see. (With one end token the others are padding, but
  /// behind all that a causal model is asked.) Throws InputError for a sample that the context cannot hold.
  Batch batch(uint64_t step);

  /// The held-out rows of the files, kMaxHeldOutBatches batches of them at most; none without files, or where
  /// they have fewer rows than a batch together.
  std::vector<Batch> held_out() const;

  const DataOptions& options() const { return options_; }

 private:
  /// " fox lantern" and " Mia".
  struct Question {
    std::string text;
    std::string result;
  };
  /// A token that the row of another one, of the prompt, is asked for as well.
  struct AuxiliaryTarget {
    int64_t at = 0;
    TokenId target = 0;
    bool is_option = false;  // or a word
  };
  struct Row {
    std::vector<TokenId> prompt;
    std::vector<TokenId> answer;
    int64_t room = 0;  // canvas
    bool drill = false;
    bool wide_numbers = false;  // its equations are those of `questions`
    std::vector<AuxiliaryTarget> auxiliary;
    std::vector<bool> blanks;     // of infilling, whose text is the prompt: the tokens to restore
    std::vector<Question> facts;  // of a drill of retrieval
    std::string first_result;     // of the question that its prompt ends with
    bool spread = false;
  };

  void fill(uint64_t pool_number);
  /// Rows of a batch, each with its number, in the order given; as long as the longest.
  Batch make_batch(const std::vector<const std::pair<uint64_t, Row>*>& rows) const;
  Row record_row(const Records& records, uint64_t record, uint64_t index) const;
  /// `kind`: a number in [0, sum of the files' shares).
  Row sample_record_row(uint64_t index, double kind) const;
  Row sample_row(uint64_t index) const;
  /// The first of several attempts at a row that fits the context.
  Row sample_fitting_row(uint64_t index) const;
  Row sample_infill_row(uint64_t index) const;
  Row sample_decision_row(uint64_t index) const;
  /// A story with up to `most_questions` questions of the kinds that are asked for.
  DecisionSample draw_questions(uint64_t index, int most_questions) const;
  Row sample_decision_drill(uint64_t index) const;
  /// Adds the auxiliary targets of a question whose lines, `text`, are tokens of the prompt from `first` on.
  void add_auxiliary(const DecisionSample& sample, size_t question, const std::string& text, size_t first,
                     Row& row) const;
  int64_t sample_room(uint64_t index) const;
  /// `spread`: with facts that begin at multiples of their length.
  Sample make_sample(const Task& task, uint64_t index, bool spread) const;
  int64_t length(const Row& row) const;
  void write_row(const Row& row, uint64_t index, int64_t* tokens, bool* response, float* weights,
                 int64_t length) const;
  void write_auxiliary(const Row& row, int64_t number, Batch& batch) const;
  void write_drill(const Row& row, uint64_t index, int64_t* tokens, bool* response, int64_t length) const;
  void write_positions(const Row& row, uint64_t index, int64_t* positions, int64_t length) const;
  /// The lines whose thing no other line names.
  static std::vector<Question> facts_of(const Sample& sample);

  DataOptions options_;
  const Vocabulary* vocabulary_;
  const Tokenizer* tokenizer_;  // of the vocabulary
  TokenId period_;
  AnswerLabels labels_;          // of decisions
  std::vector<TokenId> yes_no_;  // tokens of the first two of them
  std::vector<Batch> pool_;
  uint64_t pool_number_ = UINT64_MAX;
};

/// The sample's conversation in the chat template.
std::vector<TokenId> chat_prompt(const Sample& sample, const Vocabulary& vocabulary);

/// Prompts and answers of the train split of arithmetic and stories, enough for every word and number to
/// occur; of the wide vocabulary the words of `questions` as well. The same texts whatever tasks and seed a
/// run has: all models of one kind share one vocabulary, so that one can start, guide or judge another.
std::vector<std::string> vocabulary_corpus(VocabularyKind kind = VocabularyKind::kShared);

}  // namespace lacuna::train
