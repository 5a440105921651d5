#include "tasks/question_shapes.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/error.h"
#include "tasks/question_comparison_shapes.h"
#include "tasks/question_daily_more_shapes.h"
#include "tasks/question_daily_shapes.h"
#include "tasks/question_measure_shapes.h"
#include "tasks/question_owner_shapes.h"
#include "tasks/question_place_shapes.h"
#include "tasks/question_school_more_shapes.h"
#include "tasks/question_school_shapes.h"
#include "tasks/question_stories.h"
#include "tasks/question_sum_shapes.h"
#include "tasks/question_text.h"
#include "tasks/question_thing_shapes.h"

namespace lacuna {
namespace {

constexpr size_t kShapeNumbers = 4;
using ShapeNumbers = std::array<int, kShapeNumbers>;  // 0: not drawn

// Usual questions, as choices of wordings.
constexpr auto kUsualQuestions = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"{LEFT}",
     "~how many {os} (are|were) left/how many (are|were) left/how many {os} (remain|remained)/"
     "how many of them (are|were) left/how many {os} (are|were) still there/how many (remain|remained)~"},
    {"{HAS}",
     "~how many {os} <does|did> {he} have (now|then)/how many <does|did> {he} have (now|then)/"
     "how many {os} <does|did> {he} have in the end/how many {os} <does|did> {N} have (now|then)/"
     "what number of {os} <does|did> {he} have after that/how many <does|did> {he} end up with~"},
    {"{REST}",
     "~how many {os} <does|did> {he} have left/how many <does|did> {he} have left/"
     "how many {os} <does|did> {he} still have/how many {os} (are|were) left over/"
     "how many {os} <does|did> {N} have left/how many <does|did> {he} keep~"},
    {"{ALL}",
     "~how many {os} (is|was) that in all/how many {os} (are|were) there altogether/"
     "how many {os} (are|were) there in total/what (is|was) the total number of {os}/"
     "how many {os} (is|was) that together/how many {os} (does|did) that make~"},
    {"{THERE}",
     "~how many {os} (are|were) there (now|then)/how many (are|were) there (now|then)/"
     "how many {os} does that make/how many {os} (are|were) there in the end/"
     "what (is|was) the number of {os} (now|then)~"},
    {"{MONEY}",
     "~how much money <does|did> {he} have (now|then)/how much <does|did> {he} have (now|then)/"
     "how many {os} <does|did> {he} have (now|then)/how much money (is|was) that (now|then)~"},
});

// Irrelevant sentences around a question; {z} is an irrelevant number.
constexpr auto kPrefaces = std::to_array<std::string_view>(
    {"please help me with this. ", "here is a question. ", "a question from school: ", "solve this: ",
     "I have a riddle for you. ", "try this one. ", "read carefully. ", "can you solve this? ",
     "this is question {z}. ", "page {z}, first question. ", "this is from page {z} of my book. ",
     "{z} children could not solve this. ", "question {z} of my homework: ", "we are in room {z}. ",
     "it is {z} minutes past nine. ", "class {z} asks: ", "this question is {z} years old. "});
constexpr auto kRequests = std::to_array<std::string_view>(
    {" show the steps.", " think step by step.", " please tell me.", " thank you!", " explain your answer.",
     " please answer.", " write the sums, too."});

void replace_slots(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string with_usual_questions(std::string_view wording) {
  std::string text(wording);
  for (const auto& [name, choices] : kUsualQuestions) replace_slots(text, name, choices);
  return text;
}

/// The alternatives of one choice, without its "~"; "+find/get-lose" has lists that add and subtract.
struct WordingChoice {
  std::array<std::vector<std::string_view>, 2> lists;
  bool is_signed = false;
  static WordingChoice of(std::string_view inner) {
    WordingChoice choice;
    choice.is_signed = inner.starts_with('+');
    if (choice.is_signed) {
      const size_t minus = inner.find('-');
      expects(minus != std::string_view::npos, "a signed choice has both signs");
      choice.lists[1] = parts_of(inner.substr(minus + 1), '/');
      inner = inner.substr(1, minus - 1);
    }
    choice.lists[0] = parts_of(inner, '/');
    return choice;
  }
};

/// Calls text(piece) and choice(WordingChoice) in the order of the wording.
template <typename Text, typename Choose>
void visit_choices(std::string_view wording, const Text& text, const Choose& choose) {
  const std::vector<std::string_view> parts = parts_of(wording, '~');
  expects(parts.size() % 2 == 1, "a wording closes its choices");
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i % 2 == 0) {
      text(parts[i]);
    } else {
      choose(WordingChoice::of(parts[i]));
    }
  }
}

/// The text with its choices made, and the signs among them.
std::string choose_wordings(WordingPicker& picker, std::string_view wording, std::string& signs) {
  std::string text;
  visit_choices(
      wording, [&](std::string_view piece) { text += piece; },
      [&](const WordingChoice& choice) {
        size_t list = 0;
        if (choice.is_signed) {
          list = picker.choose(2);
          signs += list == 0 ? '+' : '-';
        }
        text += picker.pick(choice.lists[list]);
      });
  return text;
}

/// Draws the numbers of equations while it works them out.
class StepDrawer {
 public:
  StepDrawer(Draws& draws, int max_number) : draws_(draws), max_number_(max_number) {}

  /// Empty if no fitting numbers were found.
  std::optional<std::vector<Step>> draw(std::string_view equations);
  const ShapeNumbers& numbers() const { return numbers_; }

 private:
  int* number_of(char term) {
    if (term == 'R') return &last_;
    expects(term >= 'a' && term < static_cast<char>('a' + kShapeNumbers), "equations have known terms");
    return &numbers_[static_cast<size_t>(term - 'a')];
  }
  bool draw_first(int& left, const int& right, bool adds);
  bool add_step(int left, bool adds, char term);

  Draws& draws_;
  int max_number_;
  ShapeNumbers numbers_ = {};
  std::vector<Step> steps_;
  int last_ = 0;  ///< the last result
};

/// Draws the first number of an equation, before or after its second one.
bool StepDrawer::draw_first(int& left, const int& right, bool adds) {
  if (right == 0) {
    left = draw_number_pair(draws_, false).first;
    return true;
  }
  if (!adds && right > max_number_) return false;
  left = adds ? draw_further_number(draws_, max_number_) : draws_.between(right, max_number_);
  return true;
}

bool StepDrawer::add_step(int left, bool adds, char term) {
  int& right = *number_of(term);
  if (right == 0) {
    if (term == 'R') return false;
    const int limit = adds ? std::min(kMaxAnswer - left, max_number_) : std::min(left, max_number_);
    if (limit < 1) return false;
    right = draw_further_number(draws_, limit);
  }
  steps_.push_back({left, adds, right});
  const int result = steps_.back().result();
  last_ = result;
  return result >= 0 && result <= (max_number_ < kMaxAsked ? max_number_ : kMaxAnswer);
}

std::optional<std::vector<Step>> StepDrawer::draw(std::string_view equations) {
  steps_.clear();
  numbers_ = {};
  last_ = 0;
  size_t told = 0;  // number of steps in the answer
  int answer = 0;
  for (std::string_view equation : parts_of(equations, ';')) {
    const bool is_condition = equation.starts_with('&');
    if (is_condition) equation.remove_prefix(1);
    expects(equation.size() >= 3 && equation.size() % 2 == 1, "an equation has terms and signs");
    const bool adds = equation[1] == '+';
    int &left = *number_of(equation[0]), &right = *number_of(equation[2]);
    if (left == 0 && right == 0 && &left != &right) {
      const NumberPair pair = draw_number_pair(draws_, !adds);
      left = pair.first;
      right = pair.second;
    } else if (left == 0 && !draw_first(left, right, adds)) {
      return std::nullopt;
    }
    int value = left;
    for (size_t at = 1; at < equation.size(); at += 2) {
      if (!add_step(value, equation[at] == '+', equation[at + 1])) return std::nullopt;
      value = last_;
    }
    if (is_condition) {
      last_ = answer;
      continue;
    }
    expects(told + equation.size() / 2 == steps_.size(), "conditions stand last");
    told = steps_.size();
    answer = last_;
  }
  steps_.resize(told);
  for (const Step& step : steps_) {
    if (step.left < 1 || step.right < 1) return std::nullopt;
  }
  for (const int number : numbers_) {
    if (number > max_number_) return std::nullopt;
  }
  return steps_;
}

/// Values of the slots that only shapes have.
struct ShapeFilling {
  ShapeNumbers numbers = {};
  std::array<std::string, kShapeNumbers> number_texts = {};
  Noun noun, second;
  std::string other_name, third_name, color;
  int distractor = 0;
};

/// The text for a slot, which is given without braces; empty for slots of question_text.h.
std::optional<std::string> shape_slot(std::string_view slot, const ShapeFilling& filling) {
  const auto index = [](char letter) { return static_cast<size_t>(letter - 'a'); };
  const auto is_number = [&](char letter) { return letter >= 'a' && index(letter) < kShapeNumbers; };
  const auto number_for = [&](char letter) {
    expects(filling.numbers[index(letter)] > 0, "the equations have all numbers of the text");
    return filling.number_texts[index(letter)];
  };
  const auto noun_for = [&](const Noun& noun, char letter) {
    return filling.numbers[index(letter)] == 1 ? noun.one : noun.many;
  };
  if (slot == "B") return filling.other_name;
  if (slot == "C") return filling.third_name;
  if (slot == "z") return std::to_string(filling.distractor);
  if (slot == "color") return filling.color;
  if (slot.size() == 1 && is_number(slot[0])) return number_for(slot[0]);
  if (slot.size() != 2) return std::nullopt;
  const auto is_noun = [](char letter) { return letter == 'o' || letter == 'q'; };
  const auto noun_of = [&](char letter) -> const Noun& {
    return letter == 'q' ? filling.second : filling.noun;
  };
  if (is_number(slot[0]) && is_noun(slot[1]))
    return number_for(slot[0]) + " " + noun_for(noun_of(slot[1]), slot[0]);
  if (!is_noun(slot[0])) return std::nullopt;
  if (slot[1] == 's') return noun_of(slot[0]).many;
  if (slot[1] == '1') return noun_of(slot[0]).one;
  if (is_number(slot[1])) return noun_for(noun_of(slot[0]), slot[1]);
  return std::nullopt;
}

/// Replaces the slots of shapes; the result is in the language of question_text.h.
std::string fill_shape(std::string_view text, const ShapeFilling& filling) {
  std::string filled;
  for (size_t at = 0; at < text.size(); ++at) {
    const char open = text[at];
    const bool is_agreement = open == '[' && at + 2 < text.size() && text[at + 2] == ':';
    if (open != '{' && !is_agreement) {
      filled += open;
      continue;
    }
    const size_t end = text.find(is_agreement ? ']' : '}', at);
    expects(end != std::string_view::npos, "a wording closes its brackets");
    const std::string_view inner = text.substr(at + 1, end - at - 1);
    if (is_agreement) {
      const std::vector<std::string_view> forms = parts_of(inner.substr(2), '|');
      expects(forms.size() == 2, "words for several and for one");
      filled += forms[filling.numbers[static_cast<size_t>(inner[0] - 'a')] == 1 ? 1 : 0];
    } else if (const std::optional<std::string> value = shape_slot(inner, filling)) {
      filled += *value;
    } else {
      filled += text.substr(at, end + 1 - at);
    }
    at = end;
  }
  return filled;
}

/// Fills the remaining slots; after the first mention, the actor is Actor::known().
std::string fill_actor(std::string_view text, Filling filling) {
  const size_t end = std::min({text.find("{N}"), text.find("{N's}"), text.find("{M}")});
  if (end == std::string_view::npos) return fill_in(text, filling);
  const size_t behind = text.find('}', end) + 1;
  std::string filled = fill_in(text.substr(0, behind), filling);
  filling.actor = filling.actor.known();
  return filled + fill_in(text.substr(behind), filling);
}

Noun draw_shape_noun(Draws& draws, Wordings nouns) {
  if (nouns.empty()) return {};
  if (nouns.data() == kGoods.data() && draws.below(12) == 0) return Noun::of(random_word(draws));
  return Noun::of(draws.pick(nouns));
}

/// Sometimes adds a sentence before or after the question.
void add_surroundings(Draws& draws, std::string& question, const ShapeFilling& filling) {
  const uint32_t kind = draws.below(24);
  if (kind <= 1) {
    const std::string preface = fill_shape(draws.pick(kPrefaces), filling);
    question = preface + (preface.ends_with(": ") ? with_capitals(std::move(question)) : question);
  }
  if (kind == 2 && question.ends_with('?')) question += draws.pick(kRequests);
}

bool has_second_noun(std::string_view text) {
  constexpr auto kSlots =
      std::to_array<std::string_view>({"{aq}", "{bq}", "{cq}", "{qs}", "{q1}", "{qa}", "{qb}"});
  return std::ranges::any_of(kSlots, [&](std::string_view slot) { return text.find(slot) != text.npos; });
}

/// A name other than these two.
std::string draw_other_name(Draws& draws, std::string_view one, std::string_view two) {
  for (;;) {
    std::string name = draw_named_actor(draws).name;
    if (name != one && name != two) return name;
  }
}

bool shape_fits(const std::vector<Step>& steps, const ShapeNumbers& numbers, std::string_view marks) {
  const auto has = [&](char mark) { return marks.find(mark) != std::string_view::npos; };
  if (has('!') && steps.back().result() < 1) return false;
  return !has('*') || std::ranges::find(numbers, 1) == numbers.end();
}

}  // namespace

NumberQuestion write_shape(Draws& draws, const ShapeTheme& theme, const QuestionShape& shape) {
  WordingPicker picker(draws);
  picker.add(7000 + static_cast<uint64_t>(theme.form));
  for (const char letter : shape.text) picker.add(static_cast<uint8_t>(letter));
  Filling actor_filling;
  actor_filling.past = picker.choose(2) == 0;
  std::string signs;
  const std::string text = choose_wordings(picker, with_usual_questions(shape.text), signs);

  const size_t marks_at = std::min(shape.steps.find_first_of("!*^"), shape.steps.size());
  const std::string_view marks = shape.steps.substr(marks_at);
  std::string equations(shape.steps.substr(0, marks_at));
  for (const char sign : signs) {
    const size_t at = equations.find('?');
    expects(at != std::string::npos, "each sign has its place");
    equations[at] = sign;
  }
  StepDrawer drawer(draws, shape.max_number);
  std::optional<std::vector<Step>> steps;
  while (!steps || !shape_fits(*steps, drawer.numbers(), marks)) steps = drawer.draw(equations);

  ShapeFilling filling;
  filling.numbers = drawer.numbers();
  const bool has_signs = text.find_first_of("+=") != std::string::npos;
  const NumberStyle style = has_signs ? NumberStyle::kDigits : draw_number_style(draws);
  const bool mixed = !has_signs && draws.below(12) == 0;  // digits and words
  for (size_t i = 0; i < kShapeNumbers; ++i) {
    filling.number_texts[i] = number_text(mixed ? draw_number_style(draws) : style, filling.numbers[i]);
  }
  filling.noun = draw_shape_noun(draws, theme.nouns);
  filling.second = filling.noun;
  while (filling.second.many == filling.noun.many && has_second_noun(shape.text))
    filling.second = draw_shape_noun(draws, theme.nouns);
  const bool named = marks.find('^') != std::string_view::npos || text.find("{B}") != std::string::npos;
  actor_filling.actor = named ? draw_named_actor(draws) : draw_actor(draws, ActorKind::kPerson);
  filling.other_name = draw_other_name(draws, actor_filling.actor.name, "");
  filling.third_name = draw_other_name(draws, actor_filling.actor.name, filling.other_name);
  filling.color = std::string(draws.pick(kColors));
  filling.distractor = draws.between(2, 60);
  if (!theme.places.empty()) actor_filling.place = std::string(draws.pick(theme.places));
  actor_filling.other = draw_participant(draws, actor_filling.actor, named);

  std::string question = fill_actor(fill_shape(text, filling), actor_filling);
  if (question.ends_with('?') && draws.below(40) == 0) question.pop_back();
  if (theme.form != QuestionForm::kSum) add_surroundings(draws, question, filling);
  question = with_capitals(std::move(question));
  return {theme.form, std::move(question), std::move(*steps), picker.frame()};
}

std::span<const ShapeTheme> shape_themes() {
  static const std::vector<ShapeTheme> themes = [] {
    std::vector<ShapeTheme> all;
    const auto add = [&](const auto&... parts) { (all.insert(all.end(), parts.begin(), parts.end()), ...); };
    add(kThingThemes, kPlaceThemes, kOwnerThemes, kMeasureThemes, kComparisonThemes, kSumThemes, kDailyThemes,
        kDailyMoreThemes, kSchoolThemes, kSchoolMoreThemes);
    return all;
  }();
  return themes;
}

NumberQuestion draw_shape_question(Draws& draws, QuestionForm form) {
  size_t count = 0;
  for (const ShapeTheme& theme : shape_themes()) count += theme.form == form ? theme.shapes.size() : 0;
  size_t at = draws.below(count);
  for (const ShapeTheme& theme : shape_themes()) {
    if (theme.form != form) continue;
    if (at < theme.shapes.size()) return write_shape(draws, theme, theme.shapes[at]);
    at -= theme.shapes.size();
  }
  expects(false, "the form has shapes");
  return {};
}

std::vector<std::string> shape_words() {
  std::vector<std::string> words;
  ShapeFilling several{
      {7, 7, 7, 7}, {"7", "7", "7", "7"}, Noun::of("shell"), Noun::of("stone"), "Ben", "Zoe", "red", 7};
  ShapeFilling one = several;
  one.numbers = {1, 1, 1, 1};
  const auto add = [&](std::string_view wording) {
    for (const ShapeFilling& filling : {several, one}) add_words(fill_shape(wording, filling), words);
  };
  const auto add_choices = [&](std::string_view wording) {
    std::string first;
    visit_choices(
        wording, [&](std::string_view piece) { first += piece; },
        [&](const WordingChoice& choice) {
          first += choice.lists[0][0];
          for (const auto& list : choice.lists) std::ranges::for_each(list, add);
        });
    add(first);
  };
  for (const auto& [name, choices] : kUsualQuestions) add_choices(choices);
  std::ranges::for_each(kPrefaces, add);
  std::ranges::for_each(kRequests, add);
  for (const ShapeTheme& theme : shape_themes()) {
    for (const QuestionShape& shape : theme.shapes) {
      std::string text(shape.text);
      for (const auto& [name, choices] : kUsualQuestions) replace_slots(text, name, "");
      add_choices(text);
    }
    for (const std::string_view place : theme.places) add(place);
    for (const std::string_view text : theme.nouns) {
      const Noun noun = Noun::of(text);
      words.push_back(" " + noun.one + " " + noun.many);
      words.push_back(with_capitals(noun.many));
    }
  }
  return words;
}

}  // namespace lacuna
