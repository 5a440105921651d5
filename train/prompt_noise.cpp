#include "train/prompt_noise.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "tasks/question_text.h"

namespace lacuna::train {
namespace {

constexpr auto kCompared = std::to_array<std::string_view>(
    {"more",  "fewer", "less", "half", "twice",  "double",  "triple", "dozen", "pair",    "each",  "every",
     "times", "no",    "none", "not",  "nobody", "without", "all",    "both",  "another", "once",  "many",
     "much",  "left",  "than", "as",   "plus",   "minus",   "add",    "take",  "from",    "equals"});

/// The letters of a word in lower case, without punctuation around it.
std::string bare(std::string_view word) {
  std::string letters;
  for (const char c : word) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-')
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return letters;
}

bool stays(std::string_view word) {
  static const std::set<std::string> kNumbers = [] {
    std::set<std::string> words(kCompared.begin(), kCompared.end());
    for (int number = 0; number < 100; ++number) words.insert(number_words(number));
    return words;
  }();
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  return std::none_of(word.begin(), word.end(), is_letter) ||
         std::any_of(word.begin(), word.end(), is_digit) || kNumbers.contains(bare(word));
}

/// Punctuation at a word's end: "," of "shells,".
std::string_view marks_of(std::string_view word) {
  const size_t last = word.find_last_not_of(".,:;?!");
  return last == std::string_view::npos ? word : word.substr(last + 1);
}

}  // namespace

std::string with_noise(std::string_view text, double share, Draws& draws) {
  constexpr size_t kFine = 10000;
  std::string noisy;
  const auto append = [&](std::string_view word) {
    if (!noisy.empty() && noisy.back() != '\n' && noisy.back() != ' ') noisy += ' ';
    noisy += word;
  };
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const bool changes = draws.below(kFine) < share * kFine;
    if (!changes || stays(word)) {
      append(word);
      continue;
    }
    switch (draws.below(4)) {
      case 0:
        noisy += marks_of(word);
        break;
      case 1:
        append(word.substr(0, word.size() - marks_of(word).size()));
        append(word);
        break;
      default: {
        std::string made_up = random_word(draws);
        if (std::isupper(static_cast<unsigned char>(word.front())) != 0)
          made_up.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(made_up.front())));
        append(made_up.append(marks_of(word)));
      }
    }
  }
  return noisy;
}

}  // namespace lacuna::train
