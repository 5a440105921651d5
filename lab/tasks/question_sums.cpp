#include "tasks/question_sums.h"

#include <fmt/format.h>

#include <array>
#include <span>

#include "tasks/question_stories.h"
#include "tasks/question_text.h"

namespace lacuna {
namespace {

// Questions for a sum, the common ones first; {} is the sum.
constexpr size_t kCommonAsks = 5;
constexpr auto kAsks = std::to_array<std::string_view>({
    "what is {}?",
    "how much is {}?",
    "{}",
    "{} = ?",
    "calculate {}.",
    "what's {}?",
    "{}=",
    "{} =",
    "{}?",
    "compute {}.",
    "work out {}.",
    "find {}.",
    "tell me what {} is.",
    "can you tell me what {} is?",
    "please calculate {}.",
    "do you know what {} is?",
    "what does {} make?",
    "what does {} equal?",
    "what do you get for {}?",
    "{} is what?",
    "{} is how much?",
    "solve {}.",
    "please solve {}.",
    "evaluate {}.",
    "what is the result of {}?",
    "what is the answer to {}?",
    "{} equals what?",
    "how much does {} make?",
    "I need to know {}.",
    "could you work out {}?",
    "hey, what is {}?",
    "quick question: what is {}?",
    "please tell me what {} is.",
    "so what is {}?",
    "what number is {}?",
    "tell me: how much is {}?",
    "help me with {}.",
    "can you calculate {}?",
    "do this one: {}",
    "next: {}",
    "what would {} be?",
    "what comes out of {}?",
    "{}. What is the result?",
    "I want to know how much {} is.",
    "and what is {}?",
    "now what is {}?",
    "how much would {} be?",
});
// {0} and {1} are the numbers, in the order of the answer.
constexpr auto kPlus = std::to_array<std::string_view>(
    {"{0} plus {1}", "{0} plus {1}", "{0} + {1}", "{0}+{1}", "{0} + {1}", "{0} and {1}",
     "the sum of {0} and {1}", "{0} added to {1}", "{0} and {1} together", "the total of {0} and {1}",
     "{0} with {1} added", "{0} more than {1}", "the sum {0} + {1}", "{0} increased by {1}",
     "{0} and {1} added up"});
constexpr auto kMinus = std::to_array<std::string_view>(
    {"{0} minus {1}", "{0} minus {1}", "{0} - {1}", "{0}-{1}", "{0} - {1}", "{0} take away {1}",
     "the difference between {0} and {1}", "the difference of {0} and {1}", "{1} subtracted from {0}",
     "{1} less than {0}", "{0} less {1}", "{1} from {0}", "{0} reduced by {1}", "{0} decreased by {1}",
     "the difference {0} - {1}"});
constexpr auto kPlusRequests =
    std::to_array<std::string_view>({"add {0} and {1}.",
                                     "add {0} to {1}.",
                                     "put {0} and {1} together.",
                                     "what do you get if you add {0} and {1}?",
                                     "if you add {0} to {1}, what do you get?",
                                     "what number is {0} more than {1}?",
                                     "increase {0} by {1}.",
                                     "what comes out when you add {0} and {1}?",
                                     "start with {0} and add {1}.",
                                     "I have {0} and add {1}. How much is it?",
                                     "what is the sum of {0} and {1}?",
                                     "the numbers are {0} and {1}. What is their sum?",
                                     "sum up {0} and {1}.",
                                     "what do {0} and {1} make together?",
                                     "please add {0} and {1}.",
                                     "what is {0} if you add {1}?",
                                     "find the sum of {0} and {1}.",
                                     "take {0} and add {1} to it.",
                                     "can you add {0} and {1}?",
                                     "what is the total of {0} and {1}?",
                                     "to {0}, add {1}.",
                                     "count {1} up from {0}.",
                                     "raise {0} by {1}.",
                                     "my number is {0}. Add {1}. What is it now?",
                                     "what do I get when I add {0} to {1}?",
                                     "which number do I get if {0} grows by {1}?",
                                     "combine {0} and {1}.",
                                     "add up {0} and {1}.",
                                     "which number minus {0} is {1}?",
                                     "add together {0} and {1}."});
constexpr auto kMinusRequests =
    std::to_array<std::string_view>({"subtract {1} from {0}.",
                                     "take {1} from {0}.",
                                     "take {1} away from {0}.",
                                     "take away {1} from {0}.",
                                     "what is left if you take {1} from {0}?",
                                     "how much more is {0} than {1}?",
                                     "how much bigger is {0} than {1}?",
                                     "by how much is {0} larger than {1}?",
                                     "decrease {0} by {1}.",
                                     "reduce {0} by {1}.",
                                     "remove {1} from {0}.",
                                     "deduct {1} from {0}.",
                                     "if you take {1} from {0}, what is left?",
                                     "what must be added to {1} to get {0}?",
                                     "{1} plus what is {0}?",
                                     "what do you get if you subtract {1} from {0}?",
                                     "start with {0} and take away {1}.",
                                     "what is the difference between {0} and {1}?",
                                     "what number is {1} less than {0}?",
                                     "count back {1} from {0}.",
                                     "lower {0} by {1}.",
                                     "my number is {0}. Take away {1}. What is it now?",
                                     "from {0}, subtract {1}.",
                                     "please subtract {1} from {0}.",
                                     "find the difference between {0} and {1}.",
                                     "what remains when {1} is taken from {0}?",
                                     "can you subtract {1} from {0}?",
                                     "how far is it from {1} to {0}?",
                                     "the numbers are {0} and {1}. What is their difference?",
                                     "which number plus {1} is {0}?",
                                     "how much is missing from {1} to {0}?"});
constexpr auto kThreeSums =
    std::to_array<std::string_view>({"the sum of {0}, {1} and {2}", "{0} and {1} and {2}",
                                     "the total of {0}, {1} and {2}", "{0}, {1} and {2} together"});
constexpr auto kThreeRequests = std::to_array<std::string_view>(
    {"add {0}, {1} and {2}.", "add up {0}, {1} and {2}.", "what do you get if you add {0}, {1} and {2}?",
     "what do {0}, {1} and {2} make?", "sum up {0}, {1} and {2}.", "add {0} and {1}, then add {2}."});
constexpr auto kPlusMinusRequests = std::to_array<std::string_view>(
    {"add {0} and {1}, then take away {2}.", "start with {0}, add {1} and subtract {2}.",
     "add {0} to {1} and subtract {2}.", "what is left if you add {0} and {1} and take away {2}?"});

constexpr auto kPlusNext = std::to_array<std::string_view>(
    {"and plus {}?", "now add {}.", "add {} more.", "and {} more?", "add {} to that.",
     "what is that plus {}?", "plus {}?", "and if you add {}?", "now plus {}.", "then add {}.",
     "and another {}?", "increase it by {}.", "what if I add {}?", "add {} to the result."});
constexpr auto kMinusNext = std::to_array<std::string_view>(
    {"and minus {}?", "now subtract {}.", "take away {}.", "now take {} away.", "subtract {} from that.",
     "what is that minus {}?", "minus {}?", "and if you take away {}?", "now minus {}.", "then take away {}.",
     "and {} less?", "decrease it by {}.", "what if I subtract {}?", "subtract {} from the result."});

bool is_symbolic(std::string_view body) {
  return body.find_first_of("+-") != std::string_view::npos;
}

std::string fill_numbers(std::string_view wording, NumberStyle style, const std::vector<int>& numbers) {
  std::array<std::string, 3> texts;
  for (size_t i = 0; i < numbers.size(); ++i) texts[i] = number_text(style, numbers[i]);
  return fmt::format(fmt::runtime(wording), texts[0], texts[1], texts[2]);
}

/// "12 plus 7 minus 5"; with signs, with or without spaces.
std::string chain(WordingPicker& picker, NumberStyle style, const std::vector<Step>& steps) {
  const uint32_t form = picker.choose(style == NumberStyle::kWords ? 1 : 3);
  std::string text = number_text(style, steps[0].left);
  for (const Step& step : steps) {
    constexpr std::string_view kPlusSigns[] = {" plus ", " + ", "+"}, kMinusSigns[] = {" minus ", " - ", "-"};
    text += step.adds ? kPlusSigns[form] : kMinusSigns[form];
    text += number_text(style, step.right);
  }
  return text;
}

/// A random addition or subtraction with a result in [0, kMaxAnswer].
Step draw_next_step(Draws& draws, int number) {
  const bool adds = number == 0 || (number < kMaxAnswer && draws.below(2) == 0);
  return {number, adds, draw_further_number(draws, adds ? kMaxAnswer - number : number)};
}

std::vector<Step> draw_sum_steps(Draws& draws) {
  const bool adds = draws.below(2) == 0;
  NumberPair pair = draw_number_pair(draws, !adds);
  if (draws.below(60) == 0) pair.second = 0;
  std::vector<Step> steps = {{pair.first, adds, pair.second}};
  if (draws.below(6) == 0) steps.push_back(draw_next_step(draws, steps[0].result()));
  return steps;
}

/// The text, sometimes without its final mark: "12 plus 7".
std::string finished(Draws& draws, std::string text) {
  text = with_capitals(std::move(text));
  if (text.back() == '.' || text.back() == '?') {
    const uint32_t kind = draws.below(20);
    if (kind <= 1) text.pop_back();
    if (kind == 2) text.back() = text.back() == '.' ? '!' : '?';
  }
  return text;
}

}  // namespace

NumberQuestion draw_sum_question(Draws& draws) {
  WordingPicker picker(draws);
  picker.add(2000);
  const std::vector<Step> steps = draw_sum_steps(draws);
  const Step& first = steps[0];
  picker.add(4 * steps.size() + (first.adds ? 2 : 0) + (steps.back().adds ? 1 : 0));
  NumberStyle style = draw_number_style(draws);
  const std::vector<int> numbers = {first.left, first.right, steps.back().right};
  const bool all_add = first.adds && steps.back().adds;
  const bool asks = picker.one_in(2) || (steps.size() == 2 && !first.adds);
  NumberQuestion question{QuestionForm::kSum, "", steps};
  if (!asks) {
    const std::span<const std::string_view> requests =
        steps.size() == 1 ? (first.adds ? std::span<const std::string_view>(kPlusRequests) : kMinusRequests)
        : all_add         ? std::span<const std::string_view>(kThreeRequests)
                          : kPlusMinusRequests;
    question.text = fill_numbers(picker.pick(requests), style, numbers);
  } else {
    std::string body;
    bool common = false;
    if (steps.size() == 2) {
      const bool is_sum = all_add && picker.one_in(2);
      body = is_sum ? fill_numbers(picker.pick(kThreeSums), style, numbers) : chain(picker, style, steps);
    } else {
      const std::string_view wording = first.adds ? picker.pick(kPlus) : picker.pick(kMinus);
      common = wording.starts_with("{0} plus") || wording.starts_with("{0} minus") || is_symbolic(wording);
      if (is_symbolic(wording)) style = NumberStyle::kDigits;
      body = fill_numbers(wording, style, numbers);
    }
    const bool usual = picker.one_in(2);
    const uint32_t ask = picker.choose(usual ? kCommonAsks : kAsks.size());
    question.common = common && ask < kCommonAsks;
    question.text = fmt::format(fmt::runtime(kAsks[ask]), body);
  }
  question.text = finished(draws, std::move(question.text));
  question.frame = picker.frame();
  return question;
}

NumberQuestion draw_next_sum(Draws& draws, int number) {
  WordingPicker picker(draws);
  picker.add(3000);
  const Step step = draw_next_step(draws, number);
  picker.add(step.adds ? 1 : 0);
  const std::string amount = number_text(draw_number_style(draws), step.right);
  const std::string_view wording = step.adds ? picker.pick(kPlusNext) : picker.pick(kMinusNext);
  return {QuestionForm::kSum,
          finished(draws, fmt::format(fmt::runtime(wording), amount)),
          {step},
          picker.frame()};
}

std::vector<std::string_view> sum_wordings() {
  std::vector<std::string_view> all;
  const auto add = [&](const auto&... lists) { (all.insert(all.end(), lists.begin(), lists.end()), ...); };
  add(kAsks, kPlus, kMinus, kPlusRequests, kMinusRequests, kThreeSums, kThreeRequests, kPlusMinusRequests,
      kPlusNext, kMinusNext);
  return all;
}

}  // namespace lacuna
