#include "tasks/questions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cctype>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "tasks/question_shapes.h"
#include "tasks/question_text.h"
#include "tasks/tasks.h"
#include "tasks/word_problems.h"

namespace lacuna::questions_test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kSamples = 3000;

NumberQuestion single(Split split, uint64_t index) {
  Draws draws(RngStream(5, 77, index));
  return draw_single_question(draws, split);
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

/// The result of an answer with worked steps, or -1 where a step is wrong or does not follow from the ones
/// before or from the question.
int evaluate(const std::string& answer) {
  static const std::regex step(R"((\d+)([+-])(\d+)=(\d+)\. )"), end(R"(The answer is (\d+)\.)");
  std::smatch match;
  std::string rest = answer;
  int result = -1;
  while (std::regex_search(rest, match, step, std::regex_constants::match_continuous)) {
    const int left = std::stoi(match[1]), right = std::stoi(match[3]);
    result = match[2] == "+" ? left + right : left - right;
    if (result != std::stoi(match[4]) || result < 0) return -1;
    rest = match.suffix();
  }
  if (!std::regex_match(rest, match, end) || std::stoi(match[1]) != result) return -1;
  return result;
}

/// The numbers of a text, as digits or words, "a dozen" and "no" among them.
std::set<int> numbers_of(const std::string& text) {
  static const std::map<std::string, int> by_word = [] {
    std::map<std::string, int> words;
    for (int number = 0; number <= kMaxAsked; ++number) words[number_words(number)] = number;
    return words;
  }();
  std::set<int> numbers;
  std::string lower;
  for (const char c : text) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  static const std::regex word("[0-9]+|[a-z]+(-[a-z]+)?");
  for (std::sregex_iterator at(lower.begin(), lower.end(), word), end; at != end; ++at) {
    const std::string found = at->str();
    if (std::isdigit(static_cast<unsigned char>(found[0])) != 0) numbers.insert(std::stoi(found));
    if (found == "dozen") numbers.insert(12);
    if (found == "no") numbers.insert(0);
    if (found == "another") numbers.insert(1);
    if (const auto at_word = by_word.find(found); at_word != by_word.end()) numbers.insert(at_word->second);
  }
  return numbers;
}

TEST(Questions, AreAnsweredByRightSteps) {
  const Task& task = find_task("questions");
  for (uint64_t index = 0; index < kSamples; ++index) {
    const Sample sample = task.generate(Split::kTrain, 1, index);
    if (sample.answer.find('=') == std::string::npos) continue;
    const int result = evaluate(sample.answer);
    ASSERT_GE(result, 0) << sample.prompt << " " << sample.answer;
    ASSERT_LE(result, kMaxAnswer) << sample.prompt;
  }
}

TEST(Questions, HaveTheNumbersOfTheirStepsInTheText) {
  for (uint64_t index = 0; index < kSamples; ++index) {
    const NumberQuestion question = single(Split::kTrain, index);
    const std::set<int> numbers = numbers_of(question.text);
    std::set<int> results;
    const std::string& text = question.text;
    static const std::regex relative(
        "[Hh]alf|[Aa]ll of|[Aa]ll (his|her|their|its|my|your|our|the) |[Aa]ll but|again|double|twice|two "
        "times|the rest"
        "|only|as many|the same");
    const bool is_relative = std::regex_search(text, relative);
    for (const Step& step : question.steps) {
      if (!is_relative) {
        ASSERT_TRUE(numbers.contains(step.left) || results.contains(step.left))
            << text << worked_answer(question.steps);
        ASSERT_TRUE(numbers.contains(step.right) || results.contains(step.right))
            << text << worked_answer(question.steps);
      }
      results.insert(step.result());
    }
  }
}

TEST(Questions, ReachEveryPairOfDigits) {
  std::set<std::array<int, 3>> added, taken;  // tens of both numbers, and whether there is a carry
  std::set<int> starts, amounts;
  int largest = 0;
  for (uint64_t index = 0; index < 4 * kSamples; ++index) {
    const Step step = single(Split::kTrain, index).steps[0];
    const bool carries = step.adds ? step.left % 10 + step.right % 10 > 9 : step.left % 10 < step.right % 10;
    (step.adds ? added : taken).insert({step.left / 10, step.right / 10, carries});
    starts.insert(step.left);
    amounts.insert(step.right);
    largest = std::max(largest, step.result());
  }
  for (int left = 0; left < 10; ++left) {
    for (int right = 0; right < 10; ++right) {
      for (const int carries : {0, 1}) {
        EXPECT_THAT(added, Contains(std::array{left, right, carries}));
        if (left > right) {
          EXPECT_THAT(taken, Contains(std::array{left, right, carries}));
        }
      }
    }
  }
  for (int number = 0; number <= kMaxAsked; ++number) {
    EXPECT_THAT(starts, Contains(number));
    EXPECT_THAT(amounts, Contains(number));
  }
  EXPECT_GT(largest, 190);
}

TEST(Questions, NeverHaveAFrameOfTheTestSplitInTraining) {
  std::map<uint64_t, std::string> trained;
  for (uint64_t index = 0; index < 2 * kSamples; ++index) {
    const NumberQuestion question = single(Split::kTrain, index);
    trained[question.frame] = question.text;
    EXPECT_EQ(split_of(question.text), Split::kTrain);
  }
  std::set<std::string> tested;
  for (uint64_t index = 0; index < kSamples; ++index) {
    const NumberQuestion question = single(Split::kTest, index);
    tested.insert(question.text);
    ASSERT_TRUE(is_held_out(question.frame));
    ASSERT_FALSE(trained.contains(question.frame)) << question.text << " / " << trained[question.frame];
    EXPECT_EQ(split_of(question.text), Split::kTest);
  }
  EXPECT_GT(tested.size(), kSamples * 9 / 10);
}

TEST(Questions, HaveTheirShares) {
  const Task& task = find_task("questions");
  std::map<std::string, int> counts;
  for (uint64_t index = 0; index < kSamples; ++index) {
    const Sample sample = task.generate(Split::kTrain, 4, index);
    const bool has_system = !sample.history.empty() && sample.history[0].role == "system";
    ++counts[sample.history.size() > (has_system ? 1U : 0U) ? "conversation" : "single"];
    if (is_number(sample.answer)) ++counts["number only"];
    if (has_system) ++counts["system"];
    if (sample.answer.find("One day") != std::string::npos) ++counts["told story"];
    ASSERT_LE(sample.history.size(), 7U);
    // The prompt has number words, or digits.
    const NumberQuestion question = single(Split::kTrain, index);
    ++counts[question.text.find_first_of("0123456789") == std::string::npos ? "words" : "digits"];
    ++counts["form " + std::to_string(static_cast<int>(question.form))];
  }
  const auto percent = [&](const std::string& name) {
    return 100.0 * counts[name] / static_cast<double>(kSamples);
  };
  EXPECT_NEAR(percent("conversation"), kConversationPercent, 3);
  EXPECT_NEAR(percent("number only"), 19, 3);
  EXPECT_NEAR(percent("system"), 40, 3);
  EXPECT_NEAR(percent("words"), 24, 4);
  EXPECT_GT(percent("told story"), 1);
  for (const QuestionShare& share : kQuestionShares)
    EXPECT_NEAR(percent("form " + std::to_string(static_cast<int>(share.form))), share.percent, 4);
}

TEST(Questions, HaveAtLeastSixtyWordingsOfEachKindOfSentence) {
  for (const SentenceKind kind :
       {SentenceKind::kOpening, SentenceKind::kGain, SentenceKind::kLoss, SentenceKind::kQuestion}) {
    EXPECT_GE(question_wordings(kind).size(), 200U);
  }
}

TEST(Questions, AskForNumbersAloneAndGoOnWithTheSameThings) {
  const Task& task = find_task("questions");
  std::set<std::string> systems;
  int follow_ups = 0;
  for (uint64_t index = 0; index < kSamples; ++index) {
    const Sample sample = task.generate(Split::kTest, 6, index);
    if (is_number(sample.answer)) {
      ASSERT_EQ(sample.history.at(0).role, "system");
      systems.insert(sample.history[0].content);
      EXPECT_FALSE(task.check(sample, sample.answer + "."));
      EXPECT_FALSE(task.check(sample, "The answer is " + sample.answer + "."));
    }
    if (sample.history.size() < 2 || sample.answer.find('=') == std::string::npos) continue;
    const std::string& before = sample.history.back().content;
    const size_t at = before.rfind("The answer is ");
    if (at == std::string::npos) continue;
    const std::string last = before.substr(at + 14, before.size() - at - 15);
    if (sample.answer.starts_with(last + "+") || sample.answer.starts_with(last + "-")) ++follow_ups;
  }
  EXPECT_GT(systems.size(), 30U);
  EXPECT_GT(follow_ups, kSamples / 40);
}

/// The first words of a text that are not grammatical, or nothing.
std::string grammar_fault(const std::string& text) {
  // One thing is no plural, several are no singular, articles fit, pronouns have their verbs.
  static const std::regex wrong(
      R"(\b[Aa] [aeio]\w+|\b[Aa]n [^aeiou\W]\w+|\b(she|he|it) (have|are|were|do|go)\b|\b(they|we|you) (has|is|was|does)\b|\bI (is|are|has|does)\b)"
      R"(|  |[{}<>|\[\]()]|\.\.|\?\?|\banother a\b|\b(They|We|You) (has|is|was|does)\b|\b(She|He|It) (have|are|were|do)\b|\bA an?\b| ,| \.)"
      R"(|\banother 1\b|(^|[^0-9-])\b1 (more )?(shells|books|people|dollars|cookies|degrees|birds|children|years|points|pages)\b)");
  // "one", "euro" and the like are spoken with a consonant.
  static const std::regex right(
      R"(\b[Aa] (one|euro|uni|use)\w*|\b[Aa]n hour\w*|\b(do|does|did|will|must|can|would|should) (she|he|it|they|we|you|I)\b)");
  const std::string checked = std::regex_replace(text, right, "X");
  std::smatch match;
  return std::regex_search(checked, match, wrong) ? match.str() : "";
}

TEST(Questions, AreGrammatical) {
  const Task& task = find_task("questions");
  for (const Split split : {Split::kTrain, Split::kTest}) {
    for (uint64_t index = 0; index < kSamples; ++index) {
      const Sample sample = task.generate(split, 8, index);
      ASSERT_EQ(grammar_fault(sample.prompt), "") << sample.prompt;
      ASSERT_FALSE(std::islower(static_cast<unsigned char>(sample.prompt[0]))) << sample.prompt;
    }
  }
}

/// Calls visit(theme, shape, draws) for some questions of every shape.
template <typename Visit>
void visit_shapes(uint64_t questions_per_shape, const Visit& visit) {
  uint64_t index = 0;
  for (const ShapeTheme& theme : shape_themes()) {
    for (const QuestionShape& shape : theme.shapes) {
      for (uint64_t i = 0; i < questions_per_shape; ++i)
        visit(theme, shape, Draws(RngStream(9, 78, index++)));
    }
  }
}

TEST(QuestionShapes, AreManyForEachForm) {
  std::map<QuestionForm, std::set<std::string_view>> texts;
  for (const ShapeTheme& theme : shape_themes()) {
    for (const QuestionShape& shape : theme.shapes) texts[theme.form].insert(shape.text);
  }
  EXPECT_GE(texts[QuestionForm::kStory].size(), 350U);
  EXPECT_GE(texts[QuestionForm::kComparison].size(), 85U);
  EXPECT_GE(texts[QuestionForm::kSum].size(), 65U);
}

TEST(QuestionShapes, AreGrammaticalAndHaveTheirNumbersInTheText) {
  const std::regex one_of_several(
      R"((^|[^0-9A-Za-z-])(1|[Oo]ne) (are|were|have|come|go|leave|get|fly|break|join|stand|belong|arrive|run|burn|fall)\b)");
  visit_shapes(6, [&](const ShapeTheme& theme, const QuestionShape& shape, Draws draws) {
    const NumberQuestion question = write_shape(draws, theme, shape);
    const std::string& text = question.text;
    EXPECT_EQ(grammar_fault(text), "") << text;
    EXPECT_FALSE(std::regex_search(text, one_of_several)) << text;
    for (const std::string_view word : theme.nouns) {
      const Noun noun = Noun::of(word);
      if (noun.one == noun.many) continue;
      for (const std::string_view one : {" 1 ", " one "})
        EXPECT_THAT(text, Not(HasSubstr(std::string(one) + noun.many + " "))) << text;
    }
    EXPECT_EQ(text.find('~'), std::string::npos) << text;
    EXPECT_EQ(text.find('/'), std::string::npos) << text;
    EXPECT_FALSE(std::islower(static_cast<unsigned char>(text[0]))) << text;
    const std::set<int> numbers = numbers_of(text);
    std::set<int> known = numbers;
    for (const Step& step : question.steps) {
      EXPECT_TRUE(known.contains(step.left) && known.contains(step.right))
          << text << worked_answer(question.steps);
      known.insert(step.result());
      EXPECT_GE(step.result(), 0) << text;
      EXPECT_LE(step.result(), kMaxAnswer) << text;
    }
  });
}

TEST(QuestionShapes, AddAndSubtractWhereTheirWordsDecide) {
  std::map<std::string_view, std::set<bool>> signs;
  visit_shapes(20, [&](const ShapeTheme& theme, const QuestionShape& shape, Draws draws) {
    const size_t at = shape.steps.find('?');
    if (at == 1) signs[shape.text].insert(write_shape(draws, theme, shape).steps[0].adds);
  });
  EXPECT_GT(signs.size(), 150U);
  for (const auto& [text, both] : signs) EXPECT_EQ(both.size(), 2U) << text;
}

TEST(FillIn, KeepsNumberTenseAndPerson) {
  Filling filling{{"Mia", "she", "her", "her"}, Noun::of("leaf|leaves"), "in the box", "Sam", "red"};
  filling.number_text = "7";
  filling.amount = "7 more";
  EXPECT_EQ(fill_in("{N} <has|had> {n} {o} {p}", filling), "Mia has 7 leaves in the box");
  filling.past = true;
  EXPECT_EQ(fill_in("{A} <is|was> given {m} by {x}", filling), "she was given 7 more by Sam");
  filling.number = 1;
  filling.number_text = "1";
  EXPECT_EQ(fill_in("{n} {o} ([fly|flies]|flew) away", filling), "1 leaf flew away");
  filling.past = false;
  EXPECT_EQ(fill_in("{n} {o} ([fly|flies]|flew) away", filling), "1 leaf flies away");
  filling.actor = {"I", "I", "me", "my", true};
  EXPECT_EQ(fill_in("{N} <is|was> here with {N's} {os}, for {M}", filling),
            "I am here with my leaves, for me");
  EXPECT_EQ(fill_in("{A} <has|has> {os} and <was|was> here", filling), "I have leaves and was here");
  filling.actor = {"the twins", "they", "them", "their", true};
  filling.past = true;
  EXPECT_EQ(fill_in("{A} <is|was> here with {N's} {os}", filling), "they were here with the twins' leaves");
}

TEST(PluralVerb, TakesTheEndOff) {
  const std::map<std::string, std::string> verbs = {
      {"has", "have"}, {"is", "are"},     {"carries", "carry"},   {"catches", "catch"},
      {"lies", "lie"}, {"loses", "lose"}, {"goes out", "go out"}, {"tosses", "toss"},
      {"buys", "buy"}, {"found", "found"}};
  for (const auto& [one, many] : verbs) EXPECT_EQ(plural_verb(one), many);
}

TEST(NumberWords, AreHyphenated) {
  EXPECT_EQ(number_words(0), "zero");
  EXPECT_EQ(number_words(19), "nineteen");
  EXPECT_EQ(number_words(40), "forty");
  EXPECT_EQ(number_words(99), "ninety-nine");
}

TEST(QuestionWords, HaveEveryWordOfTheTaskButRandomOnes) {
  std::set<std::string> known;
  const std::regex word("[A-Za-z]+");
  const auto add_words_of = [&](const std::string& text, std::set<std::string>& words) {
    for (std::sregex_iterator at(text.begin(), text.end(), word), end; at != end; ++at)
      words.insert(at->str());
  };
  for (const std::string& text : question_words()) add_words_of(text, known);
  int unknown = 0, all = 0;
  for (uint64_t index = 0; index < kSamples; ++index) {
    std::set<std::string> words;
    add_words_of(single(Split::kTrain, index).text, words);
    for (const std::string& one : words) {
      ++all;
      if (!known.contains(one)) ++unknown;
    }
  }
  EXPECT_LT(unknown, all / 25);

  // Only names and the nouns of things may be random.
  visit_shapes(4, [&](const ShapeTheme& theme, const QuestionShape& shape, Draws draws) {
    if (theme.nouns.data() == kGoods.data()) return;
    std::set<std::string> words;
    const std::string text = write_shape(draws, theme, shape).text;
    add_words_of(text, words);
    for (const std::string& one : words) {
      const bool is_name = std::isupper(static_cast<unsigned char>(one[0])) != 0;
      EXPECT_TRUE(is_name || known.contains(one)) << one << ": " << text;
    }
  });
}

}  // namespace
}  // namespace lacuna::questions_test
