#include "eval/text_metrics.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace lacuna {
namespace {

constexpr std::string_view kWhiteSpace = " \t\n\v\f\r";

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t begin = text.find_first_not_of(kWhiteSpace); begin != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kWhiteSpace, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kWhiteSpace, end);
  }
  return words;
}

std::string without_case_and_punctuation(std::string_view text) {
  std::string kept;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && std::ispunct(byte)) continue;
    kept += byte < 0x80 ? static_cast<char>(std::tolower(byte)) : c;
  }
  return kept;
}

/// Counts of words without articles.
std::map<std::string, int64_t, std::less<>> bag_of_words(std::string_view text) {
  const std::string plain = without_case_and_punctuation(text);
  std::map<std::string, int64_t, std::less<>> bag;
  for (const std::string_view word : split_words(plain)) {
    if (word != "a" && word != "an" && word != "the") ++bag[std::string(word)];
  }
  return bag;
}

/// 2PR / (P + R) with P = common / num_text and R = common / num_reference.
double f1(double common, double num_text, double num_reference) {
  return common > 0 ? 2 * common / (num_text + num_reference) : 0;
}

using Sentence = std::vector<std::string_view>;

/// Words of the non-empty pieces between periods; a piece of white space alone is one empty word.
std::vector<Sentence> sentences_of(std::string_view text) {
  std::vector<Sentence> sentences;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('.', begin), text.size());
    if (end > begin) {
      Sentence words = split_words(text.substr(begin, end - begin));
      if (words.empty()) words.emplace_back();
      sentences.push_back(std::move(words));
    }
    begin = end + 1;
  }
  return sentences;
}

std::set<std::string_view> distinct_words(std::span<const Sentence> sentences) {
  std::set<std::string_view> words;
  for (const Sentence& sentence : sentences) words.insert(sentence.begin(), sentence.end());
  return words;
}

/// Adds the words of one longest common subsequence, found by walking back from both ends. On ties the walk
/// drops the last word of `other`.
void add_common(const Sentence& reference, const Sentence& other, std::set<std::string_view>& common) {
  const size_t width = other.size() + 1;
  std::vector<uint16_t> lengths((reference.size() + 1) * width);
  for (size_t i = 1; i <= reference.size(); ++i) {
    for (size_t j = 1; j <= other.size(); ++j) {
      const size_t at = i * width + j;
      lengths[at] = reference[i - 1] == other[j - 1] ? static_cast<uint16_t>(lengths[at - width - 1] + 1)
                                                     : std::max(lengths[at - width], lengths[at - 1]);
    }
  }
  for (size_t i = reference.size(), j = other.size(); i > 0 && j > 0;) {
    if (reference[i - 1] == other[j - 1]) {
      common.insert(reference[i - 1]);
      --i;
      --j;
    } else if (lengths[(i - 1) * width + j] > lengths[i * width + j - 1]) {
      --i;
    } else {
      --j;
    }
  }
}

/// The code points of a UTF-8 text; invalid bytes count as one character each.
std::vector<std::string_view> code_points(std::string_view text) {
  std::vector<std::string_view> points;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    points.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return points;
}

}  // namespace

double token_f1(std::string_view text, std::string_view reference) {
  const auto given = bag_of_words(text);
  const auto wanted = bag_of_words(reference);
  int64_t num_given = 0, num_wanted = 0, common = 0;
  for (const auto& [word, count] : wanted) num_wanted += count;
  for (const auto& [word, count] : given) {
    num_given += count;
    const auto found = wanted.find(word);
    if (found != wanted.end()) common += std::min(count, found->second);
  }
  return f1(static_cast<double>(common), static_cast<double>(num_given), static_cast<double>(num_wanted));
}

double rouge_l(std::string_view text, std::string_view reference) {
  const std::vector<Sentence> given = sentences_of(text);
  const std::vector<Sentence> wanted = sentences_of(reference);
  std::set<std::string_view> common;
  for (const Sentence& sentence : wanted) {
    for (const Sentence& other : given) {
      expects(std::min(sentence.size(), other.size()) <= UINT16_MAX, "rouge_l: at most 65,535 words");
      add_common(sentence, other, common);
    }
  }
  return f1(static_cast<double>(common.size()), static_cast<double>(distinct_words(given).size()),
            static_cast<double>(distinct_words(wanted).size()));
}

double edit_similarity(std::string_view text, std::string_view reference) {
  const std::vector<std::string_view> a = code_points(text);
  const std::vector<std::string_view> b = code_points(reference);
  if (a.empty() || b.empty()) return 0;
  std::vector<size_t> row(b.size() + 1);  // length of the common subsequence with each prefix of b
  for (const std::string_view character : a) {
    size_t diagonal = 0;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = character == b[j - 1] ? diagonal + 1 : std::max(above, row[j - 1]);
      diagonal = above;
    }
  }
  return 2 * static_cast<double>(row.back()) / static_cast<double>(a.size() + b.size());
}

std::string_view first_code_line(std::string_view text) {
  for (size_t begin = text.find_first_not_of('\n'); begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (line.find_first_of("`#") == std::string_view::npos && line.find("//") == std::string_view::npos) {
      return line;
    }
    begin = end + 1;
  }
  return {};
}

}  // namespace lacuna
