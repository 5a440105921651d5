#include "tasks/questions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "tasks/question_people.h"
#include "tasks/question_shapes.h"
#include "tasks/question_stories.h"
#include "tasks/question_sums.h"
#include "tasks/question_text.h"
#include "tasks/talk.h"
#include "tasks/word_problems.h"

namespace lacuna {
namespace {

// System turns that do not change the answer.
constexpr auto kPlainSystems = std::to_array<std::string_view>({
    "You are a helpful assistant.",
    "You solve short stories about numbers.",
    "Answer step by step.",
    "You are a friendly teacher.",
    "You help children with numbers.",
    "Show your steps.",
    "Think step by step.",
    "Solve the question.",
    "You are a math tutor.",
    "Write each step.",
    "You are good with numbers.",
    "Be short and clear.",
    "Answer the question.",
    "Write the sums, then the answer.",
    "You are a careful assistant.",
    "Work it out step by step.",
    "You answer questions of pupils.",
    "Show how you got the answer.",
    "You are a small language model.",
    "Please explain each step.",
});
// System turns that ask for the number alone.
constexpr auto kNumberOnlySystems = std::to_array<std::string_view>({
    "Answer with the number only.",
    "Answer with the number only.",
    "Answer with the number only.",
    "Only give the number.",
    "Answer with a number.",
    "Give only the number.",
    "Reply with the number only.",
    "Reply with just the number.",
    "Respond with the number only.",
    "Just the number, please.",
    "Only the final number.",
    "Answer with a single number.",
    "Write only the number.",
    "Write the number and nothing else.",
    "Say only the number.",
    "Give just the final number.",
    "Output only the number.",
    "The answer is a number. Write only that.",
    "No words, only the number.",
    "Return the number only.",
    "Do not explain. Give only the number.",
    "Answer only with digits.",
    "Reply only with a number.",
    "Give the final number without steps.",
    "Show no steps, only the number.",
    "Answer in one number.",
    "Please answer with the number only.",
    "You answer with numbers only.",
    "Your reply must be a number and nothing more.",
    "Respond with a single number.",
    "Only write the result.",
    "Give the result only.",
    "Just give me the number.",
    "Answer with nothing but the number.",
    "Only numbers as answers, please.",
    "State only the number.",
    "You are a calculator. Reply with the number only.",
    "Give a short answer: the number only.",
    "Do not write steps. Only the number.",
    "Keep it short: just the number.",
});

// More small talk; the replies are those of `chat`.
constexpr auto kGreetings = std::to_array<std::string_view>(
    {"Hey", "Hey!", "Good morning", "Good morning!", "Good evening!", "Hello there", "Hello there!",
     "Hi, how are you?", "Hello, how are you?", "How are you?", "Good day", "Hey there"});
constexpr auto kPresentations = std::to_array<std::string_view>(
    {"What is your name?", "Who is this?", "What do you do?", "How can you help me?", "What can I ask you?",
     "Tell me about yourself.", "What do you know?", "Can you help me?", "Are you a robot?",
     "How do you work?"});
constexpr auto kThanks = std::to_array<std::string_view>(
    {"Thanks!", "Thanks a lot", "Thanks a lot!", "Thank you very much", "Thank you very much!",
     "Great, thanks!", "Many thanks", "That helps, thank you.", "OK, thanks.", "Good, thank you!",
     "Nice, thanks", "Well done, thank you!"});

/// Small talk; `thanks`: an answer came before, for which the user may thank.
Sample draw_more_talk(Draws& draws, bool thanks) {
  const auto reply_of = [&](std::string_view known) {
    for (;;) {
      Sample sample = draw_small_talk(draws);
      if (sample.prompt == known) return sample.answer;
    }
  };
  if (thanks) {
    return draws.below(3) == 0 ? Sample{"Thank you!", reply_of("Thank you!")}
                               : Sample{std::string(draws.pick(kThanks)), reply_of("Thank you!")};
  }
  switch (draws.below(4)) {
    case 0:
      return {std::string(draws.pick(kGreetings)), reply_of("Hello")};
    case 1:
      return {std::string(draws.pick(kPresentations)), reply_of("Who are you?")};
    default:
      return draw_small_talk(draws);
  }
}

QuestionForm draw_form(Draws& draws) {
  int at = draws.between(0, 99);
  for (const QuestionShare& share : kQuestionShares) {
    if (at < share.percent) return share.form;
    at -= share.percent;
  }
  return QuestionForm::kSum;
}

/// Samples questions until one belongs to the split.
template <typename Draw>
NumberQuestion draw_until_of_split(Split split, const Draw& draw) {
  for (;;) {
    NumberQuestion question = draw();
    if (is_of_split(question, split)) return question;
  }
}

NumberQuestion draw_of_form(Draws& draws, Split split, QuestionForm form, StoryState* state) {
  return draw_until_of_split(split, [&] {
    if (draws.below(form == QuestionForm::kSum ? 3 : 2) == 0) return draw_shape_question(draws, form);
    if (form == QuestionForm::kStory) return draw_story_question(draws, state);
    return form == QuestionForm::kComparison ? draw_people_question(draws) : draw_sum_question(draws);
  });
}

/// Writes a conversation turn by turn.
class TurnWriter {
 public:
  TurnWriter(Draws& draws, Split split) : draws_(draws), split_(split) {}

  /// One user turn and its answer.
  Sample next(bool is_first);
  void set_number_only(bool number_only) { number_only_ = number_only; }

 private:
  Sample answered(const NumberQuestion& question) {
    const int result = question.steps.back().result();
    number_ = result;
    return {question.text, number_only_ ? std::to_string(result) : worked_answer(question.steps)};
  }
  Sample new_question();
  std::optional<Sample> follow_up();

  Draws& draws_;
  Split split_;
  bool number_only_ = false;
  StoryState story_;
  std::optional<int> number_;  ///< the last result
  bool is_sum_ = false;        ///< the last result is that of a sum
};

Sample TurnWriter::new_question() {
  const QuestionForm form = draw_form(draws_);
  story_ = {};
  is_sum_ = form == QuestionForm::kSum;
  return answered(draw_of_form(draws_, split_, form, &story_));
}

/// A question about the same things or the same number.
std::optional<Sample> TurnWriter::follow_up() {
  if (is_sum_ && number_) {
    return answered(draw_until_of_split(split_, [&] { return draw_next_sum(draws_, *number_); }));
  }
  if (!story_.can_continue()) return std::nullopt;
  StoryState next = story_;
  NumberQuestion question = draw_until_of_split(split_, [&] {
    next = story_;
    return draw_next_change(draws_, next);
  });
  story_ = next;
  return answered(question);
}

Sample TurnWriter::next(bool is_first) {
  const uint32_t kind = draws_.below(20);
  if (kind <= 2) return draw_more_talk(draws_, number_.has_value() && draws_.below(3) != 0);
  if (kind <= 4) return draw_story_request(draws_);
  if (!is_first && kind <= 13) {
    if (std::optional<Sample> sample = follow_up()) return *sample;
  }
  return new_question();
}

}  // namespace

bool is_of_split(const NumberQuestion& question, Split split) {
  const bool held_out = !question.common && is_held_out(question.frame);
  return held_out == (split == Split::kTest) && split_of(question.text) == split;
}

NumberQuestion draw_single_question(Draws& draws, Split split) {
  return draw_of_form(draws, split, draw_form(draws), nullptr);
}

Sample draw_question_sample(Draws draws, Split split) {
  constexpr uint32_t kSystems = 10;
  const bool talks = draws.between(0, 99) < kConversationPercent;
  const uint32_t system = draws.below(kSystems);  // of ten: six without a system turn, two of each kind
  const bool number_only = system >= 8;
  Sample sample;
  if (system == 6 || system == 7)
    sample.history.push_back({"system", std::string(draws.pick(kPlainSystems))});
  if (number_only) sample.history.push_back({"system", std::string(draws.pick(kNumberOnlySystems))});
  if (!talks) {
    const NumberQuestion question = draw_single_question(draws, split);
    sample.prompt = question.text;
    sample.answer =
        number_only ? std::to_string(question.steps.back().result()) : worked_answer(question.steps);
    return sample;
  }
  TurnWriter writer(draws, split);
  writer.set_number_only(number_only);
  const int turns = draws.between(2, 4);
  for (int turn = 0; turn < turns; ++turn) {
    if (turn > 0) {
      sample.history.push_back({"user", sample.prompt});
      sample.history.push_back({"assistant", sample.answer});
    }
    Sample next = writer.next(turn == 0);
    sample.prompt = std::move(next.prompt);
    sample.answer = std::move(next.answer);
  }
  return sample;
}

bool check_question(const Sample& sample, std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return false;
  return check_reply(sample, text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1));
}

std::vector<std::string> question_wordings(SentenceKind kind) {
  std::set<std::string> all;
  const auto add = [&](const auto& wordings) { all.insert(wordings.begin(), wordings.end()); };
  for (const Theme& theme : kThemes) {
    if (kind == SentenceKind::kOpening) add(theme.openings);
    if (kind == SentenceKind::kGain) add(theme.gains);
    if (kind == SentenceKind::kLoss) add(theme.losses);
    if (kind == SentenceKind::kQuestion) add(theme.questions);
  }
  add(people_wordings(kind));
  return {all.begin(), all.end()};
}

std::vector<std::string> question_words() {
  std::vector<std::string> words = story_words();
  for (std::string& text : shape_words()) words.push_back(std::move(text));
  for (std::string& text : people_words()) words.push_back(std::move(text));
  for (const std::string_view wording : sum_wordings()) {
    const std::string text = fmt::format(fmt::runtime(wording), "7", "7", "7");
    words.push_back(" " + text);
    words.push_back(with_capitals(text));
  }
  const auto add = [&](const auto&... lists) {
    (words.insert(words.end(), lists.begin(), lists.end()), ...);
  };
  add(kPlainSystems, kNumberOnlySystems, kGreetings, kPresentations, kThanks);
  for (const std::string_view pronouns :
       {"he him his", "she her", "it its", "they them their", "we us our", "you your", "I me my"}) {
    words.push_back(" " + std::string(pronouns));
    words.push_back(with_capitals(std::string(pronouns)));
  }
  return words;
}

}  // namespace lacuna
