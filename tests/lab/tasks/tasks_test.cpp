#include "tasks/tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "tasks/toy_program.h"
#include "tasks/word_problems.h"
#include "tokenizer/tokenizer.h"

namespace lacuna::tasks_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr uint64_t kSamples = 500;

/// The whole conversation.
std::string text_of(const Sample& sample) {
  std::string text;
  for (const Turn& turn : sample.history) text += turn.role + turn.content;
  return text + sample.prompt;
}

/// Small talk and requests for stories are the same in both splits of `chat` and `questions`.
bool is_shared(const Task& task, const Sample& sample) {
  return (task.name == "chat" || task.name == "questions") &&
         sample.answer.find_first_of("0123456789") == std::string::npos;
}

/// All tasks but `outside`, whose samples are not generated.
std::vector<Task> generated_tasks() {
  std::vector<Task> generated(tasks().begin(), tasks().end());
  std::erase_if(generated, [](const Task& task) { return task.name == "outside"; });
  return generated;
}

class EveryTask : public ::testing::TestWithParam<Task> {};

INSTANTIATE_TEST_SUITE_P(Tasks, EveryTask, ::testing::ValuesIn(generated_tasks()),
                         [](const auto& task) { return std::string(task.param.name); });

TEST_P(EveryTask, GivesTheSameSampleForTheSameSeedAndIndex) {
  for (uint64_t index = 0; index < kSamples; ++index) {
    const Sample once = GetParam().generate(Split::kTest, 7, index);
    const Sample again = GetParam().generate(Split::kTest, 7, index);
    ASSERT_EQ(once.prompt, again.prompt);
    ASSERT_EQ(once.answer, again.answer);
  }
}

TEST_P(EveryTask, GivesOtherSamplesForAnotherSeed) {
  uint64_t same = 0;
  for (uint64_t index = 0; index < kSamples; ++index) {
    const Sample sample = GetParam().generate(Split::kTrain, 1, index);
    if (is_shared(GetParam(), sample)) continue;
    same += text_of(sample) == text_of(GetParam().generate(Split::kTrain, 2, index));
  }
  EXPECT_LT(same, kSamples / 50);
}

TEST_P(EveryTask, NeverSharesAPromptBetweenTrainAndTest) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    std::set<std::string> trained;
    for (uint64_t index = 0; index < kSamples; ++index)
      trained.insert(text_of(GetParam().generate(Split::kTrain, seed, index)));
    for (uint64_t index = 0; index < kSamples; ++index) {
      const Sample sample = GetParam().generate(Split::kTest, seed, index);
      ASSERT_TRUE(is_shared(GetParam(), sample) || !trained.contains(text_of(sample))) << sample.prompt;
    }
  }
}

// In a conversation of `chat` the first user turn decides, in one of `questions` every question; in a text
// with a hole, the whole text.
TEST_P(EveryTask, GivesEachPromptItsSplit) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    for (uint64_t index = 0; index < kSamples; ++index) {
      for (const Split split : {Split::kTrain, Split::kTest}) {
        const Sample sample = GetParam().generate(split, seed, index);
        if (is_shared(GetParam(), sample)) continue;
        if (sample.hole > 0) {
          ASSERT_EQ(split_of(sample.prompt + sample.answer), split);
          continue;
        }
        const bool last_decides = GetParam().name == "questions";
        const auto first = std::find_if(sample.history.begin(), sample.history.end(), [&](const Turn& turn) {
          return !last_decides && turn.role == "user";
        });
        ASSERT_EQ(split_of(first == sample.history.end() ? sample.prompt : first->content), split);
      }
    }
  }
}

TEST_P(EveryTask, RarelyRepeatsAPrompt) {
  std::set<std::string> prompts;
  uint64_t own = 0;
  for (uint64_t index = 0; index < kSamples; ++index) {
    const Sample sample = GetParam().generate(Split::kTest, 3, index);
    if (is_shared(GetParam(), sample)) continue;
    ++own;
    prompts.insert(text_of(sample));
  }
  EXPECT_GT(own, kSamples / 2);
  EXPECT_GT(prompts.size(), own * 9 / 10);
}

TEST_P(EveryTask, AcceptsItsOwnAnswerAndWhiteSpaceAroundIt) {
  for (uint64_t index = 0; index < kSamples; ++index) {
    const Sample sample = GetParam().generate(Split::kTest, 0, index);
    ASSERT_TRUE(GetParam().check(sample, sample.answer)) << sample.answer;
    ASSERT_TRUE(GetParam().check(sample, " " + sample.answer + "\n")) << sample.answer;
  }
}

TEST(Answers, AreRefusedWithAnyOneCharacterMissingOrChanged) {
  for (const Task& task : generated_tasks()) {
    if (task.name == "programs") continue;  // other spellings do the same
    for (uint64_t index = 0; index < kSamples / 10; ++index) {
      const Sample sample = task.generate(Split::kTest, 0, index);
      for (size_t at = 0; at < sample.answer.size(); ++at) {
        std::string missing = sample.answer;
        missing.erase(at, 1);
        ASSERT_FALSE(task.check(sample, missing)) << missing;
        std::string changed = sample.answer;
        changed[at] = changed[at] == 'x' ? 'y' : 'x';
        ASSERT_FALSE(task.check(sample, changed)) << changed;
      }
    }
  }
}

TEST_P(EveryTask, RefusesNothingAndTextAfterTheAnswer) {
  const Sample sample = GetParam().generate(Split::kTest, 0, 0);
  EXPECT_FALSE(GetParam().check(sample, ""));
  EXPECT_FALSE(GetParam().check(sample, "\n"));
  EXPECT_FALSE(GetParam().check(sample, sample.answer + " " + sample.answer));
}

// The accuracies of every model that was ever measured are those of these samples.
TEST_P(EveryTask, KeepsItsSamplesForever) {
  const std::map<std::string_view, uint64_t> hashes = {
      {"arithmetic", 0xfe3532c140462fc0}, {"stories", 0x5f316f80f47aa270},
      {"records", 0xfa6a0481ae2df3aa},    {"retrieval", 0x138af06381ae892e},
      {"programs", 0x59b6559a2d055ae1},   {"phrasings", 0xc204a5a05a78b935},
      {"chat", 0x6ef332754d62c277},       {"infill", 0x34278abc7452c084},
      {"questions", 0xa7800756a4ca3dd1}};
  uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (uint64_t index = 0; index < 100; ++index) {
    for (const Split split : {Split::kTrain, Split::kTest}) {
      const Sample sample = GetParam().generate(split, index % 5, index);
      for (const char c : text_of(sample) + sample.answer) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
      }
    }
  }
  EXPECT_EQ(hash, hashes.at(GetParam().name));
}

TEST_P(EveryTask, HasRoomForItsAnswersAtEveryDifficulty) {
  const Tokenizer tokenizer = Tokenizer::load(std::filesystem::path(LACUNA_SOURCE_DIR) / "models/mini-qwen3");
  EXPECT_EQ(GetParam().room({}), GetParam().answer_positions);
  for (int32_t difficulty = 0; difficulty <= kMaxDifficulty; ++difficulty) {
    TaskOptions options;
    if (difficulty > 0) options.difficulty = difficulty;
    size_t longest = 0;
    for (uint64_t index = 0; index < kSamples / 5; ++index) {
      const Sample sample = GetParam().generate(Split::kTrain, 4, index, options);
      ASSERT_TRUE(GetParam().check(sample, sample.answer)) << sample.answer;
      longest = std::max(longest, tokenizer.encode(sample.answer).size());
    }
    EXPECT_LT(longest, static_cast<size_t>(GetParam().room(options))) << difficulty;
    EXPECT_EQ(GetParam().room(options) % 8, 0);
  }
}

TEST(FindTask, NamesTheTasksWhenItKnowsNone) {
  EXPECT_EQ(find_task("arithmetic").name, "arithmetic");
  EXPECT_THAT(
      [] { find_task("poems"); },
      ThrowsMessage<InputError>(HasSubstr("task 'poems' is not known; the tasks are arithmetic, stories")));
}

TEST(Arithmetic, IsAChainOfRightEquationsWithinItsRange) {
  const std::regex equation(R"((\d+)([+-])(\d+)=(\d+)\. )");
  std::set<size_t> lengths;
  for (uint64_t index = 0; index < kSamples; ++index) {
    const Sample sample = find_task("arithmetic").generate(Split::kTrain, 0, index);
    std::smatch start;
    ASSERT_TRUE(std::regex_search(sample.prompt, start, std::regex(R"( has (\d+) )")));
    int number = std::stoi(start[1]);
    size_t equations = 0;
    for (std::sregex_iterator it(sample.answer.begin(), sample.answer.end(), equation), end; it != end;
         ++it) {
      const int change = std::stoi((*it)[3]);
      ASSERT_EQ(std::stoi((*it)[1]), number) << sample.answer;
      ASSERT_GE(change, 1);
      ASSERT_LE(change, kMaxChange);
      ASSERT_THAT(sample.prompt, HasSubstr(" " + std::to_string(change)));
      number += (*it)[2] == "+" ? change : -change;
      ASSERT_EQ(std::stoi((*it)[4]), number) << sample.answer;
      ASSERT_GE(number, 0);
      ASSERT_LE(number, kMaxNumber);
      ++equations;
    }
    ASSERT_THAT(sample.answer, ::testing::EndsWith("The answer is " + std::to_string(number) + "."));
    lengths.insert(equations);
  }
  EXPECT_EQ(lengths, (std::set<size_t>{1, 2, 3}));
}

TEST(Arithmetic, RefusesARightAnswerWithAWrongStep) {
  const Sample sample{"Mia has 12 shells. She finds 7 more. She loses 5. How many shells does Mia have now?",
                      "12+7=19. 19-5=14. The answer is 14."};
  EXPECT_FALSE(find_task("arithmetic").check(sample, "12+7=18. 18-4=14. The answer is 14."));
  EXPECT_FALSE(find_task("arithmetic").check(sample, "The answer is 14."));
}

size_t count_of(const std::string& text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Difficulty, IsTheNumberOfThingsToDo) {
  struct Measure {
    std::string_view task;
    std::string_view counted;  // in the answer
    int more;                  // than the difficulty
  };
  for (const Measure& measure :
       {Measure{"arithmetic", "=", 0}, {"stories", "One day", 0}, {"records", ".", 1}}) {
    for (int32_t difficulty = 1; difficulty <= kMaxDifficulty; ++difficulty) {
      for (uint64_t index = 0; index < 50; ++index) {
        const Sample sample =
            find_task(measure.task)
                .generate(Split::kTest, 1, index, {.length = {}, .depth = {}, .difficulty = difficulty});
        ASSERT_EQ(count_of(sample.answer, measure.counted), static_cast<size_t>(difficulty + measure.more))
            << sample.answer;
      }
    }
  }
}

TEST(Difficulty, BoundsTheNumbersOfArithmetic) {
  const std::regex number(R"(\d+)");
  for (int32_t difficulty = 1; difficulty <= kMaxDifficulty; ++difficulty) {
    int largest = 0;
    for (uint64_t index = 0; index < kSamples; ++index) {
      const Sample sample =
          find_task("arithmetic")
              .generate(Split::kTest, 1, index, {.length = {}, .depth = {}, .difficulty = difficulty});
      for (std::sregex_iterator it(sample.answer.begin(), sample.answer.end(), number), end; it != end;
           ++it) {
        largest = std::max(largest, std::stoi(it->str()));
      }
    }
    EXPECT_EQ(largest, std::min(kMaxNumber, 10 * difficulty));
  }
}

TEST(Stories, AcceptEveryEventOfEveryThing) {
  const Sample sample{
      "Tell a story about Mia the fox, the hill, the drum and the kite.",
      "Mia the fox lives on the hill. One day Mia finds the drum. Mia is very happy. One day Mia "
      "loses the kite. Mia is very sad. The end."};
  const auto story = [](const std::string& first, const std::string& second) {
    return "Mia the fox lives on the hill. One day Mia " + first + " One day Mia " + second + " The end.";
  };
  const Task& task = find_task("stories");
  EXPECT_TRUE(
      task.check(sample, story("shares the drum. Mia is very kind.", "sees the kite. Mia is very curious.")));
  EXPECT_FALSE(
      task.check(sample, story("shares the drum. Mia is very sad.", "sees the kite. Mia is very curious.")));
  EXPECT_FALSE(
      task.check(sample, story("sees the kite. Mia is very curious.", "shares the drum. Mia is very kind.")));
  EXPECT_FALSE(
      task.check(sample, "Mia the fox lives on the hill. One day Mia finds the drum. Mia is very happy."));
}

TEST(Stories, AcceptEveryEventWithItsFeelingAndNoOther) {
  const Sample sample{
      "Tell a story about Mia the fox, the hill and the drum.",
      "Mia the fox lives on the hill. One day Mia finds the drum. Mia is very happy. The end."};
  const auto story = [](const std::string& verb, const std::string& feeling) {
    return "Mia the fox lives on the hill. One day Mia " + verb + " the drum. Mia is very " + feeling +
           ". The end.";
  };
  const Task& task = find_task("stories");
  EXPECT_TRUE(task.check(sample, story("loses", "sad")));
  EXPECT_TRUE(task.check(sample, story("shares", "kind")));
  EXPECT_FALSE(task.check(sample, story("loses", "happy")));
  EXPECT_FALSE(task.check(sample, story("eats", "happy")));
}

/// A retrieval prompt, taken apart again.
struct FactList {
  struct Fact {
    std::string key;  // " fox lantern"
    std::string value;
  };
  std::vector<Fact> facts;
  std::string question;  // the text after the last fact

  explicit FactList(const std::string& prompt) {
    const size_t opening = prompt.find('.') + 1;
    const std::regex fact(R"(( \w+ \w+) (\w+)\.)");
    auto from = prompt.begin() + static_cast<std::ptrdiff_t>(opening);
    for (std::smatch match;
         std::regex_search(from, prompt.end(), match, fact, std::regex_constants::match_continuous);
         from = match[0].second) {
      facts.push_back({match[1], match[2]});
    }
    question = std::string(from, prompt.end());
  }

  /// The place of the asked key; facts.size() where it is not there.
  size_t asked() const {
    const auto has_key = [&](const Fact& fact) { return fact.key == question; };
    return static_cast<size_t>(std::find_if(facts.begin(), facts.end(), has_key) - facts.begin());
  }
};

TEST(Retrieval, AsksForAFactWhoseThingNoOtherLineNames) {
  for (const int32_t length : {kMinLength, 100, 257, kDefaultLength, kMaxLength}) {
    for (uint64_t index = 0; index < 5; ++index) {
      const Sample sample =
          find_task("retrieval").generate(Split::kTest, 1, index, {.length = length, .depth = {}});
      const FactList list(sample.prompt);
      ASSERT_EQ(list.facts.size(), static_cast<size_t>(length - 4) / 4);
      ASSERT_LT(list.asked(), list.facts.size()) << list.question;
      ASSERT_EQ(sample.answer, list.facts[list.asked()].value + ".");
      std::map<std::string, int> named;
      for (const FactList::Fact& fact : list.facts) ++named[fact.key.substr(fact.key.rfind(' '))];
      ASSERT_EQ(named[list.question.substr(list.question.rfind(' '))], 1);
      const auto lone =
          std::count_if(named.begin(), named.end(), [](const auto& entry) { return entry.second == 1; });
      EXPECT_GE(lone, std::min<std::ptrdiff_t>(40, static_cast<std::ptrdiff_t>(list.facts.size() + 1) / 2));
    }
  }
}

TEST(Retrieval, HasAsManyFactsAsTheDifficultySays) {
  const int most_facts[] = {2, 5, 10, 20, 40};
  for (int32_t difficulty = 1; difficulty <= kMaxDifficulty; ++difficulty) {
    const FactList list(
        find_task("retrieval")
            .generate(Split::kTest, 1, 3, {.length = 1024, .depth = {}, .difficulty = difficulty})
            .prompt);
    ASSERT_LT(list.asked(), list.facts.size());
    const std::set<std::string> others = {" happy", " sad", " sorry", " curious", " proud", " kind"};
    std::map<std::string, int> named;
    for (const FactList::Fact& fact : list.facts) ++named[fact.key.substr(fact.key.rfind(' '))];
    // In 255 lines each other word is named several times, if by chance not by all.
    const auto lone =
        std::count_if(named.begin(), named.end(), [](const auto& entry) { return entry.second == 1; });
    EXPECT_EQ(lone, most_facts[difficulty - 1]);
  }
}

TEST(Programs, AreRightWheneverTheyDoWhatTheSentencesSay) {
  const Sample sample{"Tell a program. a gets 3 more. If a has more, b loses 2. a and b swap.",
                      "a=a+3; a>b?b=b-2; c=a; a=b; b=c."};
  const Task& task = find_task("programs");
  EXPECT_TRUE(task.check(sample, "a=3+a;a>b?b=b-2;c=b;b=a;a=c."));
  EXPECT_TRUE(task.check(sample, "a=a+1; a=a+2; a>b?b=b-2; a=a+b; b=a-b; a=a-b."));
  EXPECT_FALSE(task.check(sample, "a=a+3; b=b-2; c=a; a=b; b=c."));           // whoever has more
  EXPECT_FALSE(task.check(sample, "a>b?b=b-2; a=a+3; c=a; a=b; b=c."));       // another order
  EXPECT_FALSE(task.check(sample, "a=a+3; a>b?b=b-2."));                      // no swap
  EXPECT_FALSE(task.check(sample, "a=a+3; a>b?b=b-2; c=a; a=b; b=c. a=a."));  // more than a program
}

TEST(Programs, SayWhatTheirAnswersDo) {
  for (uint64_t index = 0; index < kSamples; ++index) {
    const Sample sample = find_task("programs").generate(Split::kTrain, 0, index);
    // A second reading of the sentences.
    for (const auto& [first, second] : {std::pair<int64_t, int64_t>{7, 3}, {3, 7}, {5, 5}}) {
      std::map<std::string, int64_t> held = {{"a", first}, {"b", second}};
      const std::regex sentence(R"( (If (\w) has more, )?(\w) (gets|loses|gives|is now|and) (\w+)([^.]*)\.)");
      const auto from = sample.prompt.begin() + static_cast<std::ptrdiff_t>(sample.prompt.find('.')) + 1;
      for (std::sregex_iterator it(from, sample.prompt.end(), sentence), end; it != end; ++it) {
        const std::smatch& match = *it;
        const std::string who = match[3], what = match[4], operand = match[5];
        const std::string other = who == "a" ? "b" : "a";
        if (match[1].matched && held[match[2]] <= held[match[2] == "a" ? "b" : "a"]) continue;
        const int64_t amount = held.count(operand) > 0 ? held[operand] : std::stoi(operand);
        if (what == "gets") held[who] += amount;
        if (what == "loses" || what == "gives") held[who] -= amount;
        if (what == "gives") held[other] += amount;
        if (what == "is now") held[who] = amount;
        if (what == "and") std::swap(held["a"], held["b"]);
      }
      const auto result = ToyProgram::parse(sample.answer)->run({first, second});
      ASSERT_EQ(*result, (ToyProgram::Numbers{held["a"], held["b"]})) << sample.prompt << sample.answer;
    }
  }
}

TEST(Retrieval, HasExactlyTheLengthThatIsAskedForInTheTokensOfTheZoo) {
  const Tokenizer tokenizer = Tokenizer::load(std::filesystem::path(LACUNA_SOURCE_DIR) / "models/mini-qwen3");
  for (const int32_t length : {16, 17, 18, 19, 64, 500, 1024, 4096, 8192}) {
    const Sample sample =
        find_task("retrieval").generate(Split::kTrain, 2, 0, {.length = length, .depth = {}});
    EXPECT_EQ(tokenizer.encode(sample.prompt).size(), static_cast<size_t>(length));
    EXPECT_EQ(tokenizer.encode(sample.answer).size(), 2u) << sample.answer;
  }
  const Sample sample = find_task("retrieval").generate(Split::kTrain, 2, 0);
  EXPECT_EQ(tokenizer.encode(sample.prompt).size(), static_cast<size_t>(kDefaultLength));
}

TEST(Retrieval, SpellsEveryFactWithFourTokensOfTheZoo) {
  const Tokenizer tokenizer = Tokenizer::load(std::filesystem::path(LACUNA_SOURCE_DIR) / "models/mini-qwen3");
  const Sample sample =
      find_task("retrieval").generate(Split::kTrain, 0, 0, {.length = kMaxLength, .depth = {}});
  for (const FactList::Fact& fact : FactList(sample.prompt).facts) {
    ASSERT_EQ(tokenizer.encode(fact.key).size(), 2u) << fact.key;
    ASSERT_EQ(tokenizer.encode(" " + fact.value).size(), 1u) << fact.value;
  }
}

TEST(Retrieval, AsksAtTheDepthThatIsGivenAndElsewhereAtAny) {
  const Task& task = find_task("retrieval");
  for (const double depth : {0.0, 0.25, 1.0}) {
    const FactList list(task.generate(Split::kTest, 3, 1, {.length = 408, .depth = depth}).prompt);
    EXPECT_EQ(list.facts.size(), 101u);
    EXPECT_EQ(list.asked(), static_cast<size_t>(depth * 100));
  }
  size_t late = 0;
  for (uint64_t index = 0; index < kSamples; ++index) {
    late += FactList(task.generate(Split::kTest, 3, index, {.length = 84, .depth = {}}).prompt).asked() >= 10
                ? 1
                : 0;
  }
  EXPECT_NEAR(static_cast<double>(late) / kSamples, 0.5, 0.1);
}

TEST(CheckOptions, RefusesWhatATaskDoesNotHaveAndWhatIsOutOfRange) {
  const auto sentence = [](std::string_view task, const TaskOptions& options) {
    try {
      check_options(find_task(task), options);
      find_task(task).generate(Split::kTest, 0, 0, options);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(sentence("arithmetic", {}), "");
  EXPECT_EQ(sentence("retrieval", {.length = 512, .depth = 0.5}), "");
  EXPECT_EQ(sentence("arithmetic", {.length = 512, .depth = {}}),
            "--length 512: task 'arithmetic' has no list of facts; expected retrieval");
  EXPECT_EQ(sentence("stories", {.length = {}, .depth = 0.5}),
            "--depth 0.5: task 'stories' has no list of facts; expected retrieval");
  EXPECT_EQ(sentence("retrieval", {.length = 15, .depth = {}}), "--length 15: expected 16 to 8192 tokens");
  EXPECT_EQ(sentence("retrieval", {.length = 8193, .depth = {}}),
            "--length 8193: expected 16 to 8192 tokens");
  EXPECT_EQ(sentence("retrieval", {.length = {}, .depth = -0.1}),
            "--depth -0.1: expected 0 (the first fact) to 1 (the last)");
  EXPECT_THAT(sentence("retrieval", {.length = {}, .depth = std::nan("")}), HasSubstr("expected 0"));
  for (const int32_t difficulty : {-1, 0, 6}) {
    EXPECT_EQ(sentence("stories", {.length = {}, .depth = {}, .difficulty = difficulty}),
              "--difficulty " + std::to_string(difficulty) + ": expected 1 (easiest) to 5");
  }
}

}  // namespace
}  // namespace lacuna::tasks_test
