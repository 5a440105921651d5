#include "engine/decision_canvas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/field_error.h"
#include "base/json.h"
#include "base/rng.h"
#include "tokenizer/unicode.h"

namespace lacuna {
namespace {

constexpr uint64_t kSlotNoise = 20;      // purpose of the noise stream
constexpr int64_t kMaxTokens = 1 << 22;  // limit over all canvases of a request
constexpr int64_t kLineTokens = 5;       // tokens of one line of the answer, approximately
constexpr int32_t kAnswerUnit = 8;       // answers are padded with end tokens to a multiple of this length
constexpr double kMaskShare = 0.5;       // share of masks in the noise above which slots get a mask

/// User text with control characters, such as line breaks, replaced by spaces.
std::string in_one_line(std::string_view text) {
  std::string line(text);
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c >= 0 && c < ' '; }, ' ');
  return std::string(trim_as_python(line));
}

/// Text after an option's label; the label may be the option's text itself.
std::string option_text(const DecisionOption& option, std::string_view label) {
  const std::string text = in_one_line(option.text);
  const std::string description = in_one_line(option.description);
  if (text == label) return description.empty() ? "" : ": " + description;
  return ": " + text + (description.empty() ? "" : fmt::format(" ({})", description));
}

void check_labels(const DecisionQuestion& question, size_t number, const AnswerLabels& labels) {
  const size_t available = labels.of(question.kind).size();
  if (question.options.size() <= available && available >= 2) return;
  throw FieldError(
      "questions",
      fmt::format(
          "question {} has {} options; expected at most {}, for which the tokenizer has labels of one token",
          number, question.options.size(), available < 2 ? 0 : available));
}

/// Fills the slots of a branch with noise or masks.
class SlotFiller {
 public:
  SlotFiller(const ModelConfig& config, const DecideRequest& request) : config_(config), seed_(request.seed) {
    if (config.canvas) {  // like the canvas decoder, which samples from all tokens
      const auto& ancestral = config.canvas->ancestral;
      allowed_.resize(static_cast<size_t>(ancestral ? ancestral->num_tokens : config.vocab_size));
      std::iota(allowed_.begin(), allowed_.end(), 0);
    } else if (config.noise && !shows_mask()) {
      for (TokenId id = 0; id < config.vocab_size; ++id) {
        const bool ends = std::find(config.end_ids.begin(), config.end_ids.end(), id) != config.end_ids.end();
        const bool is_special =
            id == config.mask_id || id == config.bos_id || id == config.eos_id || id == config.pad_id;
        if (!ends && !is_special) allowed_.push_back(id);
      }
    }
    num_draws_ = allowed_.empty() ? 1 : request.draws;
  }

  /// Noise samples, each a branch, per answer.
  int32_t num_draws() const { return num_draws_; }

  void fill(DecisionBranch& branch, int32_t first_position, int32_t draw) const {
    for (const DecisionSlot& slot : branch.slots) {
      const auto place = static_cast<size_t>(slot.position - first_position);
      if (place >= branch.tokens.size()) continue;  // causal: the row before the last slot predicts it
      TokenId token = config_.mask_id;
      if (!allowed_.empty()) {
        const RngStream noise(seed_, kSlotNoise, draw, slot.position);
        token = allowed_[noise.below(0, static_cast<uint32_t>(allowed_.size()))];
      }
      branch.tokens[place] = token;
    }
  }

 private:
  /// Whether most of the noise of an interpolating model is masks.
  bool shows_mask() const {
    const double log_odds = double{config_.noise->min_log_snr} + double{config_.noise->uniform_shift};
    return config_.mask_id >= 0 && 1 / (1 + std::exp(log_odds)) > kMaskShare;
  }

  const ModelConfig& config_;
  uint64_t seed_;
  std::vector<TokenId> allowed_;  // empty: masks
  int32_t num_draws_ = 1;
};

/// Finds the tokens of labels by encoding the answer's lines with each label.
class LineEncoder {
 public:
  ///   first_number  number of the first question in the prompt
  LineEncoder(const DecisionModel& model, std::span<const DecisionQuestion> questions, size_t first_number)
      : model_(model), questions_(questions), first_number_(first_number) {}

  /// Encodes the lines with the first label of each question and locates the slots. A question with one
  /// option gets a second label, whose difference shows the slot.
  DecisionBranch find_slots() const {
    size_t most = 0;
    for (const DecisionQuestion& question : questions_) most = std::max(most, num_labels(question));
    DecisionBranch branch{encode(0), {}};
    for (size_t label = 1; label < most; ++label) {
      const std::vector<TokenId> other = encode(label);
      const std::vector<int32_t> changed = differences(branch.tokens, other);
      if (label == 1) {
        for (const int32_t at : changed)
          branch.slots.push_back({at, {branch.tokens[static_cast<size_t>(at)]}});
      }
      const bool is_alike = other.size() == branch.tokens.size() && branch.slots.size() == questions_.size();
      if (!is_alike || !add_labels(label, other, changed, branch.slots)) refuse(label);
    }
    return branch;
  }

 private:
  static size_t num_labels(const DecisionQuestion& question) {
    return std::max<size_t>(2, question.options.size());
  }

  /// Positions at which two texts differ, up to the shorter length.
  static std::vector<int32_t> differences(std::span<const TokenId> a, std::span<const TokenId> b) {
    std::vector<int32_t> positions;
    for (size_t at = 0; at < std::min(a.size(), b.size()); ++at) {
      if (a[at] != b[at]) positions.push_back(static_cast<int32_t>(at));
    }
    return positions;
  }

  /// Encodes the lines with label number `label`, or the first label for questions with fewer labels.
  std::vector<TokenId> encode(size_t label) const {
    std::string text;
    for (size_t i = 0; i < questions_.size(); ++i) {
      const size_t own = label < num_labels(questions_[i]) ? label : 0;
      text += fmt::format("{}{}{}{}", i == 0 ? "" : "\n", first_number_ + i, model_.labels.separator,
                          model_.labels.of(questions_[i].kind)[own]);
    }
    return model_.tokenizer.encode(text);
  }

  /// Adds the token of a label to each slot. Returns false unless it is one distinct token in each slot and
  /// nothing else changed.
  bool add_labels(size_t label, std::span<const TokenId> tokens, std::span<const int32_t> changed,
                  std::vector<DecisionSlot>& slots) const {
    size_t next = 0;
    for (size_t i = 0; i < questions_.size(); ++i) {
      if (label >= num_labels(questions_[i])) continue;
      std::vector<TokenId>& labels = slots[i].labels;
      const TokenId id = tokens[static_cast<size_t>(slots[i].position)];
      const bool is_new = std::find(labels.begin(), labels.end(), id) == labels.end();
      if (next == changed.size() || changed[next++] != slots[i].position || !is_new) return false;
      labels.push_back(id);
    }
    return next == changed.size();
  }

  [[noreturn]] void refuse(size_t label) const {
    size_t i = 0;
    while (label >= num_labels(questions_[i])) ++i;
    throw FieldError("questions",
                     fmt::format("the label {} of question {} is not one token of this model's tokenizer",
                                 in_quotes(model_.labels.of(questions_[i].kind)[label]), first_number_ + i));
  }

  const DecisionModel& model_;
  std::span<const DecisionQuestion> questions_;
  size_t first_number_;
};

/// Lays out sheets for the model's paradigm.
class LayoutBuilder {
 public:
  LayoutBuilder(const DecisionModel& model, const DecideRequest& request)
      : model_(model), request_(request), filler_(model.config, request) {}

  DecisionLayout build() {
    if (model_.config.whole_prompt) {
      throw InputError(
          "a decision reads the prompt in blocks, and the prompt of {} as --paradigm blocks runs it is one; "
          "expected --paradigm masked",
          model_.config.architecture);
    }
    const size_t count = request_.questions.size();
    if (!request_.independent) measure();
    for (size_t first = 0; first < count;) {
      const size_t fitting = request_.independent ? one(first) : most_fitting(first);
      for (const bool reversed : orders()) add(first, *read(first, fitting, reversed));
      first += fitting;
    }
    return std::move(layout_);
  }

 private:
  /// A prompt and its answer.
  struct Read {
    DecisionSheet sheet;
    std::vector<TokenId> prompt;
    DecisionBranch answer;              // all lines, except in causal models; positions from 0
    std::vector<DecisionBranch> lines;  // one per question, if questions have branches of their own
  };

  std::vector<bool> orders() const {
    return request_.both_orders ? std::vector<bool>{false, true} : std::vector<bool>{false};
  }

  Paradigm paradigm() const { return model_.config.paradigm(); }
  int32_t block_length() const { return static_cast<int32_t>(model_.config.block_length); }

  /// Lays out a prompt and its answer; empty if they do not fit the context.
  std::optional<Read> read(size_t first, size_t count, bool reversed) const {
    Read result{{std::span(request_.questions).subspan(first, count), reversed}, {}, {}, {}};
    result.prompt = decision_prompt(model_, request_.guidance, request_.state, result.sheet);
    const auto prompt = static_cast<int64_t>(result.prompt.size());
    if (prompt >= model_.config.max_positions) return {};
    int64_t longest = 0;
    if (!model_.config.causal) {
      result.answer = decision_lines(model_, result.sheet, 0, count);
      longest = static_cast<int64_t>(result.answer.tokens.size());
    }
    if (model_.config.canvas && longest > model_.config.canvas->length) return {};
    if (needs_lines(result)) {
      longest = 0;
      for (size_t i = 0; i < count; ++i) {
        result.lines.push_back(decision_lines(model_, result.sheet, i, 1));
        longest = std::max(longest, static_cast<int64_t>(result.lines.back().tokens.size()));
      }
    }
    if (prompt + longest > model_.config.max_positions) return {};
    return result;
  }

  /// Whether each question has a branch of its own.
  bool needs_lines(const Read& read) const {
    if (model_.config.causal) return true;
    if (paradigm() != Paradigm::kBlocks) return false;
    const auto prompt = static_cast<int32_t>(read.prompt.size());
    const auto block_of = [&](const DecisionSlot& slot) { return (prompt + slot.position) / block_length(); };
    return block_of(read.answer.slots.front()) != block_of(read.answer.slots.back());
  }

  bool fits(size_t first, size_t count) const {
    for (const bool reversed : orders()) {
      if (!read(first, count, reversed)) return false;
    }
    return true;
  }

  size_t one(size_t first) const {
    if (fits(first, 1)) return 1;
    throw FieldError(
        "questions",
        fmt::format("question {} and the text do not fit the model's context of {} positions; expected a "
                    "shorter text, or fewer words in the question",
                    first + 1, model_.config.max_positions));
  }

  /// Estimates the largest number of questions from `first` on that fit together.
  size_t most_fitting(size_t first) const {
    const size_t left = request_.questions.size() - first;
    int64_t positions = bare_prompt_;
    size_t fitting = 0;
    while (fitting < left) {
      positions += question_tokens_[first + fitting] + (shares_answer() ? kLineTokens : 0);
      if (positions > model_.config.max_positions) break;
      ++fitting;
    }
    while (fitting > 1 && !fits(first, fitting)) fitting -= (fitting + 7) / 8;
    return fitting > 1 ? fitting : one(first);
  }

  /// Estimates the tokens of the prompt's parts by encoding each separately.
  void measure() {
    bare_prompt_ =
        static_cast<int64_t>(decision_prompt(model_, request_.guidance, request_.state, {{}, false}).size());
    const DecisionSheet sheet{request_.questions};
    for (size_t i = 0; i < request_.questions.size(); ++i) {
      const std::string text = question_text(model_, sheet, i);
      question_tokens_.push_back(static_cast<int64_t>(model_.tokenizer.encode(text).size()));
    }
  }

  bool shares_answer() const { return !model_.config.causal && paradigm() != Paradigm::kBlocks; }

  void add(size_t first, Read read) {
    layout_.prompt_tokens += static_cast<int64_t>(read.prompt.size());
    DecisionCanvas canvas;
    if (paradigm() == Paradigm::kMasked) {
      add_branch(canvas, read, std::move(read.answer), 0, first);
      if (layout_.canvases.empty()) layout_.canvases.emplace_back();
      layout_.canvases.front().branches.push_back(std::move(canvas.branches.front()));
      return;
    }
    const auto prompt = static_cast<int32_t>(read.prompt.size());
    const int32_t prefix =
        paradigm() == Paradigm::kBlocks ? prompt / block_length() * block_length() : prompt;
    canvas.prefix.assign(read.prompt.begin(), read.prompt.begin() + prefix);
    count_tokens(canvas.prefix.size());
    if (read.lines.empty()) {
      add_branch(canvas, read, std::move(read.answer), prefix, first);
    } else {
      for (size_t i = 0; i < read.lines.size(); ++i)
        add_branch(canvas, read, std::move(read.lines[i]), prefix, first + i);
    }
    layout_.canvases.push_back(std::move(canvas));
  }

  /// Adds a branch for each noise sample: the prompt from `begin` on, then `lines`, whose first line belongs
  /// to the request's question `question`.
  void add_branch(DecisionCanvas& canvas, const Read& read, DecisionBranch lines, int32_t begin,
                  size_t question) {
    const auto prompt = static_cast<int32_t>(read.prompt.size());
    for (DecisionSlot& slot : lines.slots) slot.position += prompt;
    lines.tokens.insert(lines.tokens.begin(), read.prompt.begin() + begin, read.prompt.end());
    resize(lines, begin);
    for (int32_t draw = 0; draw < filler_.num_draws(); ++draw) {
      filler_.fill(lines, begin, draw);
      for (size_t i = 0; i < lines.slots.size(); ++i)
        layout_.sources.push_back({question + i, read.sheet.reversed});
      count_tokens(lines.tokens.size());
      canvas.branches.push_back(lines);
    }
  }

  /// Drops positions that no slot attends to, and pads with end tokens.
  void resize(DecisionBranch& branch, int32_t begin) const {
    const int32_t last = branch.slots.back().position;
    int32_t end = begin + static_cast<int32_t>(branch.tokens.size());
    const auto most = static_cast<int32_t>(model_.config.max_positions);
    if (model_.config.causal) {
      end = last;  // the last slot is predicted by the row before it
    } else if (paradigm() == Paradigm::kBlocks) {
      end = (last / block_length() + 1) * block_length();
    } else if (model_.config.canvas) {
      end = std::min(begin + static_cast<int32_t>(model_.config.canvas->length), most);
    } else if (model_.config.eos_id >= 0) {
      end = std::max(end, std::min((end / kAnswerUnit + 1) * kAnswerUnit, most));
    }
    branch.tokens.resize(static_cast<size_t>(end - begin), model_.config.eos_id >= 0
                                                               ? model_.config.eos_id
                                                               : std::max(0, model_.config.mask_id));
  }

  void count_tokens(size_t more) {
    num_tokens_ += static_cast<int64_t>(more);
    if (num_tokens_ > kMaxTokens) {
      throw FieldError(
          "questions",
          fmt::format("the questions make more than {} tokens of input; expected fewer questions, a shorter "
                      "text, or questions that share a prompt",
                      kMaxTokens));
    }
  }

  const DecisionModel& model_;
  const DecideRequest& request_;
  SlotFiller filler_;
  int64_t bare_prompt_ = 0;               // tokens of a prompt without questions
  std::vector<int64_t> question_tokens_;  // [questions]
  DecisionLayout layout_;
  int64_t num_tokens_ = 0;
};

void check_request(const DecideRequest& request, const AnswerLabels& labels) {
  const size_t count = request.questions.size();
  if (count < 1 || count > kMaxQuestions)
    throw InputError("there are {} questions; expected 1 to {}", count, kMaxQuestions);
  if (request.draws < 1 || request.draws > kMaxDraws)
    throw InputError("draws is {}; expected 1 to {}", request.draws, kMaxDraws);
  for (size_t i = 0; i < count; ++i) {
    const DecisionQuestion& question = request.questions[i];
    const size_t most = question.kind == QuestionKind::kScore ? kMaxLevels : kMaxOptions;
    if (question.options.empty() || question.options.size() > most)
      throw InputError("question {} has {} options; expected 1 to {}", i + 1, question.options.size(), most);
    check_labels(question, i + 1, labels);
  }
}

}  // namespace

std::vector<size_t> options_of_labels(const DecisionQuestion& question, bool reversed) {
  std::vector<size_t> options(question.options.size());
  std::iota(options.begin(), options.end(), size_t{0});
  if (reversed && question.kind == QuestionKind::kChoice) std::reverse(options.begin(), options.end());
  return options;
}

std::string question_text(const DecisionModel& model, const DecisionSheet& sheet, size_t index) {
  const DecisionQuestion& question = sheet.questions[index];
  std::string text = fmt::format("Question {}: {}\n", index + 1, in_one_line(question.instructions));
  const std::vector<size_t> options = options_of_labels(question, sheet.reversed);
  for (size_t label = 0; label < options.size(); ++label) {
    const std::string& name = model.labels.of(question.kind)[label];
    text += fmt::format("  {}{}\n", name, option_text(question.options[options[label]], name));
  }
  return text;
}

std::vector<TokenId> decision_prompt(const DecisionModel& model, const std::string& guidance,
                                     const std::string& state, const DecisionSheet& sheet) {
  std::string system =
      fmt::format("Answer each question about the text with one label, one line each, such as \"1{}A\".\n",
                  model.labels.separator);
  if (!guidance.empty()) system += guidance + "\n";
  for (size_t i = 0; i < sheet.questions.size(); ++i) system += question_text(model, sheet, i);
  while (system.ends_with('\n')) system.pop_back();
  std::vector<TokenId> prompt;
  if (model.chat_template.is_none()) {
    const Message both[] = {{"user", system + "\n\n" + state + "\n\n"}};
    prompt = render(model.chat_template, model.tokenizer, both);
  } else {
    const Message turns[] = {{"system", system}, {"user", state}};
    prompt = render(model.chat_template, model.tokenizer, turns);
  }
  const ModelConfig& config = model.config;
  const bool needs_bos =
      config.noise && config.bos_id >= 0 && (prompt.empty() || prompt.front() != config.bos_id);
  if (needs_bos) prompt.insert(prompt.begin(), config.bos_id);
  return prompt;
}

DecisionBranch decision_lines(const DecisionModel& model, const DecisionSheet& sheet, size_t first,
                              size_t count) {
  const std::span<const DecisionQuestion> questions = sheet.questions.subspan(first, count);
  for (size_t i = 0; i < count; ++i) check_labels(questions[i], first + i + 1, model.labels);
  DecisionBranch branch = LineEncoder(model, questions, first + 1).find_slots();
  for (size_t i = 0; i < count; ++i) branch.slots[i].labels.resize(questions[i].options.size());
  return branch;
}

DecisionLayout lay_out_decision(const DecisionModel& model, const DecideRequest& request) {
  check_request(request, model.labels);
  return LayoutBuilder(model, request).build();
}

}  // namespace lacuna
