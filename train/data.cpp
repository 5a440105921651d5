#include "train/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <span>

#include "base/error.h"
#include "base/rng.h"
#include "engine/decision_canvas.h"
#include "eval/decisions.h"
#include "eval/evaluate.h"
#include "tasks/questions.h"
#include "tasks/word_problems.h"
#include "train/chat_form.h"
#include "train/prompt_noise.h"

namespace lacuna::train {
namespace {

enum Purpose : uint8_t {
  kRowKind = 16,
  kDrill,
  kRowOrder,
  kBatchOrder,
  kLength = 64,  // also apart from those of evaluate.cpp
  kFactOrder,
  kGap,
  kRoom,
  kForm,
  kInfill,
  kTail,
  kDecision,
  kPromptNoise
};  // purposes of random numbers, distinct from those of objective_parts.h

constexpr int32_t kFactLength = 4;     // tokens of " fox lantern Mia."; divides block lengths
constexpr double kSpreadShare = 0.75;  // share of the eligible rows that are spread

constexpr uint64_t kSeparate = uint64_t{1} << 40;  // distance of sample indices of a row's attempts

constexpr int64_t kFullEndTokens = 4;  // end tokens of a row with full weight; others have kTailWeight

constexpr std::string_view kQuestionsTask = "questions";
constexpr std::array<std::string_view, 3> kVocabularyTasks = {"arithmetic", "stories", "chat"};

struct Equation {
  std::string question;  // "12+7="
  std::string result;
};

Equation sample_equation(const RngStream& stream, uint64_t number) {
  for (uint64_t attempt = 0;; ++attempt) {
    const uint64_t index = 3 * (1000 * number + attempt);
    const int left = static_cast<int>(stream.below(index, kMaxNumber + 1));
    const int right = 1 + static_cast<int>(stream.below(index + 1, kMaxChange));
    const bool adds = stream.below(index + 2, 2) == 0;
    const int result = adds ? left + right : left - right;
    if (result < 0 || result > kMaxNumber) continue;
    return {fmt::format("{}{}{}=", left, adds ? '+' : '-', right), fmt::format("{}", result)};
  }
}

/// sample_equation() with the numbers of `questions`: in half of the equations they are at most
/// kMaxAsked, in the others the first may be up to kMaxAnswer, a result of a conversation.
Equation sample_wide_equation(const RngStream& stream, uint64_t number) {
  for (uint64_t attempt = 0;; ++attempt) {
    const uint64_t index = 4 * (1000 * number + attempt);
    const int largest = stream.below(index, 2) == 0 ? kMaxAsked : kMaxAnswer;
    const int left = static_cast<int>(stream.below(index + 1, static_cast<uint32_t>(largest) + 1));
    const int right = static_cast<int>(stream.below(index + 2, kMaxAsked + 1));
    const bool adds = stream.below(index + 3, 2) == 0;
    const int result = adds ? left + right : left - right;
    if (result < 0 || result > kMaxAnswer) continue;
    return {fmt::format("{}{}{}=", left, adds ? '+' : '-', right), fmt::format("{}", result)};
  }
}

/// Sampled permutation: the order that sorts random keys.
std::vector<size_t> shuffled(size_t count, const RngStream& stream) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return stream.bits(a) < stream.bits(b); });
  return order;
}

}  // namespace

BatchSource::BatchSource(DataOptions options, const Vocabulary& vocabulary)
    : options_(std::move(options)),
      vocabulary_(&vocabulary),
      tokenizer_(&vocabulary.tokenizer),
      period_(tokenizer_->encode(".").front()) {
  if (options_.one_end_token && options_.drill_share > 0) {
    throw InputError("--drill-share {}: this family learns slots of whole answers; it has no drills",
                     options_.drill_share);
  }
  if (options_.decision_share == 0) return;
  labels_ = find_answer_labels(*tokenizer_);
  const std::vector<DecisionQuestion> question = {make_predicate("")};
  const ModelConfig config;
  yes_no_ = decision_lines({config, *tokenizer_, vocabulary_->chat, labels_}, {question}, 0, 1)
                .slots.front()
                .labels;
}

Batch BatchSource::batch(uint64_t step) {
  if (pool_number_ != step / kPoolBatches) fill(step / kPoolBatches);
  return pool_[step % kPoolBatches];
}

std::vector<TokenId> chat_prompt(const Sample& sample, const Vocabulary& vocabulary) {
  return render(vocabulary.chat, vocabulary.tokenizer, messages_of(sample));
}

/// Adds `range` to the holes, which stay ascending and do not touch each other.
void add_hole(std::vector<TextRange>& holes, TextRange range) {
  const auto overlaps = [&](const TextRange& hole) {
    return hole.begin <= range.end && range.begin <= hole.end;
  };
  if (range.begin >= range.end || std::any_of(holes.begin(), holes.end(), overlaps)) return;
  holes.insert(std::upper_bound(holes.begin(), holes.end(), range,
                                [](const TextRange& a, const TextRange& b) { return a.begin < b.begin; }),
               range);
}

/// The words of a text, without punctuation after them.
std::vector<TextRange> words_of(std::string_view text) {
  std::vector<TextRange> words;
  for (size_t begin = 0; begin < text.size();) {
    const size_t space = std::min(text.find(' ', begin), text.size());
    size_t end = space;
    while (end > begin && std::string_view(".,?").find(text[end - 1]) != std::string_view::npos) --end;
    if (end > begin) words.push_back({begin, end});
    begin = space + 1;
  }
  return words;
}

BatchSource::Row BatchSource::sample_infill_row(uint64_t index) const {
  constexpr int kMaxHoles = 4;
  constexpr int kLongestHole = 3;  // words
  Draws draws(RngStream(options_.seed, kInfill, index, 1));
  InfillStory story = draw_infill_story(draws);
  while (split_of(story.text) != Split::kTrain) story = draw_infill_story(draws);
  if (draws.below(4) == 0) {  // a question with its answer
    const Sample sample = find_task("phrasings").generate(Split::kTrain, options_.seed, index);
    story = {sample.prompt + " " + sample.answer, {}, {}};
  }
  const std::string& text = story.text;
  std::vector<TextRange> holes;
  if (!story.blanks.empty() && draws.below(4) != 0) {  // words that the rest of the story determines
    const bool hides_start = draws.below(6) == 0;      // excludes blanks of the first change
    if (hides_start) add_hole(holes, {story.start.begin, story.start.end});
    for (size_t begin = 0, end = 0; begin < story.blanks.size(); begin = end) {
      while (end < story.blanks.size() && story.blanks[end].change == story.blanks[begin].change) ++end;
      if (hides_start && story.blanks[begin].change == 0) continue;
      const Blank& blank = draws.pick(std::span(story.blanks).subspan(begin, end - begin));
      if (holes.empty() || draws.below(4) != 0) add_hole(holes, {blank.begin, blank.end});
    }
  } else {
    const std::vector<TextRange> words = words_of(text);
    for (int count = draws.between(1, kMaxHoles); count > 0; --count) {
      const size_t first = 1 + draws.below(words.size() - 1);  // the first word is given
      const size_t last = std::min(first + draws.below(kLongestHole), words.size() - 1);
      add_hole(holes, {words[first].begin, words[last].end});
    }
    if (draws.below(4) == 0) {  // a whole sentence
      const size_t within = words[draws.below(words.size())].begin;
      const size_t before = text.rfind(". ", within);
      const size_t period = std::min(text.find_first_of(".?", within), text.size() - 1);
      holes.clear();
      add_hole(holes, {before == std::string::npos ? words[1].begin : before + 2, period + 1});
    }
  }
  // Each part is encoded alone, as in an infill request: a hole's words have no space in front.
  Row row;
  const auto append = [&](size_t begin, size_t end, bool is_hole) {
    const std::vector<TokenId> tokens = tokenizer_->encode(text.substr(begin, end - begin));
    row.prompt.insert(row.prompt.end(), tokens.begin(), tokens.end());
    row.blanks.resize(row.prompt.size(), is_hole);
  };
  size_t end = 0;
  for (const TextRange& hole : holes) {
    append(end, hole.begin, false);
    append(hole.begin, hole.end, true);
    end = hole.end;
  }
  append(end, text.size(), false);
  return row;
}

DecisionSample BatchSource::draw_questions(uint64_t index, int most_questions) const {
  const std::vector<QuestionKind>& kinds = options_.decision_kinds;
  for (uint64_t attempt = 0;; ++attempt) {
    DecisionSample sample =
        draw_decisions(Split::kTrain, options_.seed, index + attempt * kSeparate, most_questions);
    if (kinds.empty()) return sample;
    for (size_t i = sample.questions.size(); i-- > 0;) {
      if (std::find(kinds.begin(), kinds.end(), sample.questions[i].kind) != kinds.end()) continue;
      sample.questions.erase(sample.questions.begin() + static_cast<std::ptrdiff_t>(i));
      sample.answers.erase(sample.answers.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (!sample.questions.empty()) return sample;
  }
}

void BatchSource::add_auxiliary(const DecisionSample& sample, size_t question, const std::string& text,
                                size_t first, Row& row) const {
  if (options_.decision_auxiliary == 0) return;
  const std::vector<TokenId> story = tokenizer_->encode(sample.story);
  const std::set<TokenId> words(story.begin(), story.end());
  const auto ends_line = [&](TokenId token) {
    return tokenizer_->decode(std::array{token}).find('\n') != std::string::npos;
  };
  std::vector<TokenId> lines = tokenizer_->encode(text);
  if (ends_line(lines.back())) lines.pop_back();  // the prompt may end before the line's end
  const auto found = std::search(row.prompt.begin() + static_cast<std::ptrdiff_t>(first), row.prompt.end(),
                                 lines.begin(), lines.end());
  expects(row.prompt.end() - found > std::ssize(lines), "the prompt holds the question");
  const auto begin = static_cast<size_t>(found - row.prompt.begin());
  size_t line = 0;  // 0: the instructions; from 1 on: the options
  for (size_t i = 0; i <= lines.size(); ++i) {
    const bool is_end = i == lines.size() || ends_line(lines[i]);
    const bool is_yes = is_end ? line == sample.answers[question] + 1 : words.contains(lines[i]);
    if (!is_end || line > 0)
      row.auxiliary.push_back({static_cast<int64_t>(begin + i), yes_no_[is_yes ? 0 : 1], is_end});
    if (is_end) ++line;
  }
}

BatchSource::Row BatchSource::sample_decision_drill(uint64_t index) const {
  const DecisionSample sample = draw_questions(index, options_.decision_drill_questions);
  const DecisionSheet sheet{sample.questions};
  const ModelConfig config;  // nothing of it shows in a prompt
  const DecisionModel model{config, *tokenizer_, vocabulary_->chat, labels_};
  Row row;
  row.prompt = decision_prompt(model, "", sample.story, {});
  row.blanks.resize(row.prompt.size());
  const auto append = [&](std::span<const TokenId> tokens) {
    row.prompt.insert(row.prompt.end(), tokens.begin(), tokens.end());
    row.blanks.resize(row.prompt.size());
  };
  for (size_t i = 0; i < sample.questions.size(); ++i) {
    const size_t question = row.prompt.size();
    const std::string text = question_text(model, sheet, i);
    append(tokenizer_->encode(text));
    DecisionBranch line = decision_lines(model, sheet, i, 1);
    const DecisionSlot& slot = line.slots.front();
    line.tokens[static_cast<size_t>(slot.position)] = slot.labels[sample.answers[i]];
    const size_t begin = row.prompt.size();
    append(line.tokens);
    row.blanks[begin + static_cast<size_t>(slot.position)] = true;
    append(tokenizer_->encode("\n"));
    add_auxiliary(sample, i, text, question, row);
  }
  return row;
}

BatchSource::Row BatchSource::sample_decision_row(uint64_t index) const {
  const RngStream choices(options_.seed, kDecision, index);
  if (choices.uniform(2) < options_.decision_drill_share) return sample_decision_drill(index);
  const DecisionSample sample = draw_questions(index, options_.decision_questions);
  const DecisionSheet sheet{sample.questions};
  const ModelConfig config;  // nothing of it shows in a prompt
  const DecisionModel model{config, *tokenizer_, vocabulary_->chat, labels_};
  size_t first = 0, count = sample.questions.size();
  if (choices.uniform(0) < options_.single_line_share) {
    first = choices.below(1, static_cast<uint32_t>(count));
    count = 1;
  }
  DecisionBranch lines = decision_lines(model, sheet, first, count);
  std::vector<bool> is_label(lines.tokens.size());
  for (size_t i = 0; i < count; ++i) {
    const DecisionSlot& slot = lines.slots[i];
    const auto at = static_cast<size_t>(slot.position);
    lines.tokens[at] = slot.labels[sample.answers[first + i]];
    is_label[at] = true;
  }
  Row row;
  row.prompt = decision_prompt(model, "", sample.story, sheet);
  for (size_t i = 0; i < sample.questions.size(); ++i)
    add_auxiliary(sample, i, question_text(model, sheet, i), 0, row);
  if (options_.one_end_token) {
    row.answer = std::move(lines.tokens);
    return row;
  }
  row.blanks.resize(row.prompt.size());
  row.prompt.insert(row.prompt.end(), lines.tokens.begin(), lines.tokens.end());
  row.blanks.insert(row.blanks.end(), is_label.begin(), is_label.end());
  // At least one end token after the last label.
  row.prompt.push_back(vocabulary_->ids.end);
  row.blanks.push_back(false);
  return row;
}

int64_t BatchSource::sample_room(uint64_t index) const {
  if (options_.longest_canvas <= options_.canvas) return options_.canvas;
  const double u = RngStream(options_.seed, kRoom).uniform(index);
  const double ratio = static_cast<double>(options_.longest_canvas) / static_cast<double>(options_.canvas);
  return std::llround(static_cast<double>(options_.canvas) * std::pow(ratio, u * u));
}

BatchSource::Row BatchSource::sample_row(uint64_t index) const {
  if (RngStream(options_.seed, kInfill).uniform(index) < options_.infill_share)
    return sample_infill_row(index);
  double stories = 0;
  for (const TaskShare& share : options_.tasks) stories += share.share;
  const double generated = stories + options_.decision_share + options_.drill_share;
  double all = generated;
  for (const RecordsShare& file : options_.files) all += file.share;
  double kind = all * RngStream(options_.seed, kRowKind).uniform(index);
  // Files and decisions have the highest values of `kind`, so that runs without them keep their rows.
  if (kind >= generated) return sample_record_row(index, kind - generated);
  if (kind >= stories + options_.drill_share) return sample_decision_row(index);
  const bool drill = kind >= stories;
  if (drill) kind = (kind - stories) / options_.drill_share * stories;  // uniform again: chooses its prompt
  auto chosen = options_.tasks.begin();
  for (; chosen + 1 != options_.tasks.end() && kind >= chosen->share; ++chosen) kind -= chosen->share;
  const Task& task = *chosen->task;
  const bool spread =
      task.has_lengths && options_.spread > 0 && RngStream(options_.seed, kGap).uniform(index) < kSpreadShare;
  Sample sample = make_sample(task, index, spread);
  if (task.name == kQuestionsTask && options_.prompt_noise > 0) {
    Draws draws(RngStream(options_.seed, kPromptNoise, index, 0));
    sample.prompt = with_noise(sample.prompt, options_.prompt_noise, draws);
    for (Turn& turn : sample.history) {
      if (turn.role == "user") turn.content = with_noise(turn.content, options_.prompt_noise, draws);
    }
  }
  // A retrieval row is raw text: its facts lie at multiples of their length, and its values begin with a
  // space.
  const bool chat =
      !sample.history.empty() ||
      (!task.has_lengths && RngStream(options_.seed, kForm).uniform(index) < options_.chat_share);
  Row row;
  row.prompt = chat ? chat_prompt(sample, *vocabulary_) : tokenizer_->encode(sample.prompt);
  row.room = drill && options_.drill_canvas > 0 ? options_.drill_canvas : sample_room(index);
  row.drill = drill;
  row.wide_numbers = task.name == kQuestionsTask;
  row.spread = spread;
  const std::string answer = chat ? sample.answer : task.continuation(sample);
  if (!drill) {
    row.answer = tokenizer_->encode(answer);
  } else if (task.has_lengths) {
    row.facts = facts_of(sample);
    row.first_result = answer.substr(0, answer.find('.'));
  }
  return row;
}

Sample BatchSource::make_sample(const Task& task, uint64_t index, bool spread) const {
  if (!task.has_lengths) return task.generate(Split::kTrain, options_.seed, index);
  const auto lengths = static_cast<uint32_t>(options_.max_length - options_.min_length + 1);
  const uint32_t more = RngStream(options_.seed, kLength).below(index, lengths);
  TaskOptions task_options;
  task_options.length = options_.min_length + static_cast<int32_t>(more);
  Sample sample = task.generate(Split::kTrain, options_.seed, index, task_options);
  if (!spread) return sample;
  // A longer opening aligns the facts.
  const std::string opening = sample.prompt.substr(0, sample.prompt.find('.') + 1);
  const auto beyond = static_cast<int32_t>(tokenizer_->encode(opening).size()) % kFactLength;
  if (beyond == 0) return sample;
  task_options.length = std::min(kMaxLength, *task_options.length + kFactLength - beyond);
  return task.generate(Split::kTrain, options_.seed, index, task_options);
}

std::vector<BatchSource::Question> BatchSource::facts_of(const Sample& sample) {
  std::vector<Question> facts;
  const std::string_view prompt = sample.prompt;
  size_t begin = prompt.find('.') + 1;  // after the opening; the final question has no period
  for (size_t end = 0; (end = prompt.find('.', begin)) != std::string_view::npos; begin = end + 1) {
    const size_t value = prompt.rfind(' ', end);
    facts.push_back(
        {std::string(prompt.substr(begin, value - begin)), std::string(prompt.substr(value, end - value))});
  }
  const auto thing = [](const Question& fact) { return fact.text.substr(fact.text.rfind(' ')); };
  std::map<std::string, int> named;
  for (const Question& fact : facts) ++named[thing(fact)];
  std::erase_if(facts, [&](const Question& fact) { return named[thing(fact)] > 1; });
  return facts;
}

int64_t BatchSource::length(const Row& row) const {
  const auto prompt = static_cast<int64_t>(row.prompt.size());
  const auto answer = static_cast<int64_t>(row.answer.size());
  if (options_.one_end_token) return prompt + answer + 1;
  const int64_t blocks =
      (prompt + std::max(row.room, answer) + options_.block_length - 1) / options_.block_length;
  return blocks * options_.block_length;
}

BatchSource::Row BatchSource::sample_fitting_row(uint64_t index) const {
  constexpr int kAttempts = 64;
  Row row = sample_row(index);
  for (int i = 1; i < kAttempts && options_.context > 0 && length(row) > options_.context; ++i)
    row = sample_row(index + static_cast<uint64_t>(i) * kSeparate);
  return row;
}

void BatchSource::fill(uint64_t pool_number) {
  const auto rows_per_batch = static_cast<size_t>(options_.batch_rows);
  const uint64_t first = pool_number * kPoolBatches * rows_per_batch;
  std::vector<std::pair<uint64_t, Row>> rows;
  for (uint64_t i = 0; i < kPoolBatches * rows_per_batch; ++i)
    rows.emplace_back(first + i, sample_fitting_row(first + i));
  std::stable_sort(rows.begin(), rows.end(),
                   [this](const auto& a, const auto& b) { return length(a.second) < length(b.second); });
  const std::vector<size_t> batch_order =
      shuffled(kPoolBatches, RngStream(options_.seed, kBatchOrder, pool_number));

  pool_.assign(kPoolBatches, {});
  for (size_t b = 0; b < kPoolBatches; ++b) {
    const std::vector<size_t> order =
        shuffled(rows_per_batch, RngStream(options_.seed, kRowOrder, pool_number, b));
    std::vector<const std::pair<uint64_t, Row>*> members;
    for (const size_t i : order) members.push_back(&rows[b * rows_per_batch + i]);
    pool_[batch_order[b]] = make_batch(members);
  }
  pool_number_ = pool_number;
}

Batch BatchSource::make_batch(const std::vector<const std::pair<uint64_t, Row>*>& rows) const {
  int64_t length = 0;
  for (const auto* const row : rows) length = std::max(length, this->length(row->second));
  if (options_.context > 0) {
    if (length > options_.context)
      throw InputError("--context {}: a prompt and its canvas need {} positions", options_.context, length);
    length = options_.context;
  }
  Batch batch{torch::empty({std::ssize(rows), length}, torch::kInt64),
              torch::empty({std::ssize(rows), length}, torch::kBool),
              {},
              torch::ones({std::ssize(rows), length})};
  if (options_.spread > 0) batch.positions = torch::empty_like(batch.tokens);
  if (options_.decision_auxiliary > 0) {
    batch.auxiliary = torch::full_like(batch.tokens, -1);
    batch.auxiliary_weights = torch::zeros_like(batch.weights);
    batch.blocks_left = torch::zeros_like(batch.tokens);
  }
  for (size_t r = 0; r < rows.size(); ++r) {
    const auto& [index, row] = *rows[r];
    const auto offset = static_cast<int64_t>(r) * length;
    write_row(row, index, batch.tokens.data_ptr<int64_t>() + offset, batch.response.data_ptr<bool>() + offset,
              batch.weights.data_ptr<float>() + offset, length);
    if (options_.spread > 0)
      write_positions(row, index, batch.positions.data_ptr<int64_t>() + offset, length);
    if (options_.decision_auxiliary > 0) write_auxiliary(row, static_cast<int64_t>(r), batch);
  }
  return batch;
}

void BatchSource::write_row(const Row& row, uint64_t index, int64_t* tokens, bool* response, float* weights,
                            int64_t length) const {
  const auto prompt = static_cast<int64_t>(row.prompt.size());
  int64_t* end = std::copy(row.prompt.begin(), row.prompt.end(), tokens);
  std::fill(response, response + length, false);
  if (row.drill) return write_drill(row, index, tokens, response, length);
  end = std::copy(row.answer.begin(), row.answer.end(), end);
  std::fill(end, tokens + length, static_cast<int64_t>(vocabulary_->ids.end));
  if (!row.blanks.empty()) {
    std::copy(row.blanks.begin(), row.blanks.end(), response);
    return;
  }
  int64_t learned = options_.one_end_token ? this->length(row) : length;
  const int64_t tail = end - tokens;
  std::fill(weights + std::min(tail + kFullEndTokens, length), weights + length,
            static_cast<float>(kTailWeight));
  const RngStream given(options_.seed, kTail);
  if (given.uniform(2 * index) < options_.given_tail_share)
    learned = tail + given.below(2 * index + 1, static_cast<uint32_t>(learned - tail) + 1);
  std::fill(response + prompt, response + learned, true);
}

void BatchSource::write_auxiliary(const Row& row, int64_t number, Batch& batch) const {
  const auto options = std::count_if(row.auxiliary.begin(), row.auxiliary.end(),
                                     [](const AuxiliaryTarget& target) { return target.is_option; });
  const auto words = std::ssize(row.auxiliary) - options;
  auto targets = batch.auxiliary.accessor<int64_t, 2>();
  auto blocks_left = batch.blocks_left.accessor<int64_t, 2>();
  auto weights = batch.auxiliary_weights.accessor<float, 2>();
  for (const AuxiliaryTarget& target : row.auxiliary) {
    const auto alike = static_cast<double>(target.is_option ? options : words);
    targets[number][target.at] = target.target;
    blocks_left[number][target.at] = target.is_option ? 1 : 2;
    weights[number][target.at] = static_cast<float>(options_.decision_auxiliary / (2 * alike));
  }
}

void BatchSource::write_drill(const Row& row, uint64_t index, int64_t* tokens, bool* response,
                              int64_t length) const {
  const RngStream stream(options_.seed, kDrill, index);
  auto at = static_cast<int64_t>(row.prompt.size());
  const auto append = [&](const std::string& text, bool is_response) {
    for (const TokenId token : tokenizer_->encode(text)) {
      if (at == length) return;
      tokens[at] = token;
      response[at++] = is_response;
    }
  };
  const auto ask = [&](const Question& question) {
    append(question.text, false);
    append(question.result, true);
    append(".", false);
  };
  if (!row.facts.empty()) {
    ask({"", row.first_result});
    for (uint64_t round = 0; at < length; ++round) {
      // Each round has its own order, or the model could repeat the previous round.
      for (const size_t i : shuffled(row.facts.size(), RngStream(options_.seed, kFactOrder, index, round))) {
        if (at < length) ask(row.facts[i]);
      }
    }
    return;
  }
  for (uint64_t number = 0; at < length; ++number) {
    const Equation equation =
        row.wide_numbers ? sample_wide_equation(stream, number) : sample_equation(stream, number);
    ask({(number == 0 ? "" : " ") + equation.question, equation.result});
  }
}

void BatchSource::write_positions(const Row& row, uint64_t index, int64_t* positions, int64_t length) const {
  constexpr size_t kMaxGaps = 6;
  std::iota(positions, positions + length, 0);
  const RngStream stream(options_.seed, kGap, index);
  const int64_t spare_blocks = (options_.spread - length) / options_.block_length;
  if (!row.spread || spare_blocks <= 0) return;
  std::vector<int64_t> places;  // ends of facts that are also ends of blocks
  for (int64_t at = options_.block_length; at < static_cast<int64_t>(row.prompt.size()); ++at) {
    if (at % options_.block_length == 0 && row.prompt[static_cast<size_t>(at) - 1] == period_) {
      places.push_back(at);
    }
  }
  const std::vector<size_t> order = shuffled(places.size(), RngStream(options_.seed, kGap, index, 1));
  std::vector<std::pair<int64_t, int64_t>> gaps;  // place, and the shift of all positions after it
  for (size_t i = 0; i < std::min(kMaxGaps, places.size()); ++i) {
    const auto blocks = stream.below(1 + i, static_cast<uint32_t>(spare_blocks) + 1);
    gaps.emplace_back(places[order[i]], blocks * options_.block_length);
  }
  // Sorted, the samples are the shifts of successive parts of the row.
  std::vector<int64_t> moves;
  for (const auto& gap : gaps) moves.push_back(gap.second);
  std::sort(gaps.begin(), gaps.end());
  std::sort(moves.begin(), moves.end());
  for (size_t i = 0; i < gaps.size(); ++i) {
    const int64_t end = i + 1 < gaps.size() ? gaps[i + 1].first : length;
    for (int64_t at = gaps[i].first; at < end; ++at) positions[at] += moves[i];
  }
}

std::vector<std::string> vocabulary_corpus(VocabularyKind kind) {
  constexpr uint64_t kSeed = 1;
  constexpr uint64_t kSamplesPerTask = 20000;
  std::vector<std::string> texts;
  for (const std::string_view name : kVocabularyTasks) {
    for (uint64_t index = 0; index < kSamplesPerTask; ++index) {
      Sample sample = find_task(name).generate(Split::kTrain, kSeed, index);
      if (!sample.history.empty() && sample.history[0].role == "system")
        texts.push_back(sample.history[0].content);
      // Number chats hold random words, which are not learned; word_problem_words() adds the others.
      if (name == "chat" && std::isdigit(static_cast<unsigned char>(sample.answer[0])) != 0) continue;
      texts.push_back(std::move(sample.prompt));
      texts.push_back(std::move(sample.answer));
    }
  }
  for (const std::string_view role : {"system", "user", "assistant"}) texts.emplace_back(role);
  for (std::string& words : word_problem_words()) texts.push_back(std::move(words));
  if (kind == VocabularyKind::kWide) {
    for (std::string& words : question_words()) texts.push_back(std::move(words));
    for (int number = 0; number <= kMaxAnswer; ++number) texts.push_back(std::to_string(number));
  }
  return texts;
}

}  // namespace lacuna::train
