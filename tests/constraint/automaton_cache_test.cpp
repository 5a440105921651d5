#include "constraint/automaton_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "toy.h"

namespace lacuna::automaton_cache_test {
namespace {

std::shared_ptr<const TokenVocabulary> small_vocabulary() {
  return std::make_shared<const TokenVocabulary>(Toy({"a", "b", "ab"}).table);
}

TEST(AutomatonCache, GivesTheSameObjectForEqualConstraintsOfOneVocabulary) {
  AutomatonCache cache;
  const auto one = small_vocabulary(), other = small_vocabulary();
  const auto automaton = cache.get(RegexConstraint{"a*"}, one);
  EXPECT_EQ(cache.get(RegexConstraint{"a*"}, one), automaton);
  EXPECT_NE(cache.get(RegexConstraint{"b*"}, one), automaton);
  EXPECT_NE(cache.get(RegexConstraint{"a*"}, other), automaton);
  EXPECT_NE(cache.get(ChoiceConstraint{{"a*", "a"}}, one), automaton);
  EXPECT_EQ(cache.size(), 4U);
}

TEST(AutomatonCache, DropsWhatWasNotUsedForLongestBeyondItsBytes) {
  const auto vocabulary = small_vocabulary();
  const size_t each = [&] {
    AutomatonCache cache;
    cache.get(RegexConstraint{"a"}, vocabulary);
    return cache.memory_bytes();
  }();
  AutomatonCache cache(each * 5 / 2);
  const auto a = cache.get(RegexConstraint{"a"}, vocabulary);
  const auto b = cache.get(RegexConstraint{"b"}, vocabulary);
  EXPECT_EQ(cache.get(RegexConstraint{"a"}, vocabulary), a);  // now "b" is the oldest
  cache.get(RegexConstraint{"(b)"}, vocabulary);
  EXPECT_LE(cache.memory_bytes(), each * 5 / 2);
  EXPECT_EQ(cache.get(RegexConstraint{"a"}, vocabulary), a);
  EXPECT_NE(cache.get(RegexConstraint{"b"}, vocabulary), b);
}

TEST(AutomatonCache, KeepsNothingThatIsLargerThanItself) {
  AutomatonCache cache(10);
  EXPECT_NE(cache.get(RegexConstraint{"a"}, small_vocabulary()), nullptr);
  EXPECT_EQ(cache.size(), 0U);
  EXPECT_EQ(cache.memory_bytes(), 0U);
}

TEST(AutomatonCache, DoesNotKeepFailures) {
  AutomatonCache cache;
  for (int i = 0; i < 2; ++i) EXPECT_THROW(cache.get(RegexConstraint{"("}, small_vocabulary()), InputError);
  EXPECT_EQ(cache.size(), 0U);
}

TEST(AutomatonCache, ServesManyThreads) {
  AutomatonCache cache(4096);
  const auto vocabulary = small_vocabulary();
  std::vector<std::thread> threads;
  std::vector<int> failures(4, 0);
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const std::string text((static_cast<size_t>(i) * (t + 1)) % 7 + 1, 'a');
        const auto automaton = cache.get(RegexConstraint{text}, vocabulary);
        if (automaton->min_tokens(TokenAutomaton::start()) != static_cast<int>(text.size())) ++failures[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, std::vector<int>(4, 0));
}

}  // namespace
}  // namespace lacuna::automaton_cache_test
