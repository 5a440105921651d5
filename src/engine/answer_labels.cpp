#include "engine/answer_labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace lacuna {
namespace {

constexpr size_t kNumLetters = 26;

/// Words for yes and no, in the order in which they are tried.
constexpr auto kYesNo = std::to_array<std::pair<std::string_view, std::string_view>>(
    {{"yes", "no"}, {"Yes", "No"}, {"true", "false"}, {"True", "False"}, {"y", "n"}, {"Y", "N"}, {"A", "B"}});

/// Letters, then codes of two letters.
std::vector<std::string> option_candidates() {
  std::vector<std::string> labels;
  for (char letter = 'A'; letter <= 'Z'; ++letter) labels.emplace_back(1, letter);
  for (char first = 'A'; first <= 'Z'; ++first) {
    for (char second = 'A'; second <= 'Z'; ++second) labels.push_back({first, second});
  }
  return labels;
}

/// Finds candidates that are interchangeable: answers with them differ in a single token at the same place.
/// largest() returns the set with the most of the first `num_preferred` candidates; the first on a tie.
class LabelSet {
 public:
  LabelSet(const Tokenizer& tokenizer, std::string_view separator, std::vector<std::string> candidates)
      : candidates_(std::move(candidates)) {
    for (const std::string& label : candidates_)
      lines_.push_back(tokenizer.encode(fmt::format("1{0}{1}\n2{0}", separator, label)));
  }

  std::vector<std::string> largest(size_t num_preferred, size_t most) const {
    std::vector<size_t> best;
    size_t most_preferred = 0;
    for (size_t reference = 0; reference < std::min(num_preferred, lines_.size()); ++reference) {
      std::vector<size_t> set = like(reference);
      const auto preferred = static_cast<size_t>(
          std::count_if(set.begin(), set.end(), [&](size_t label) { return label < num_preferred; }));
      if (preferred <= most_preferred) continue;
      most_preferred = preferred;
      best = std::move(set);
      if (preferred == num_preferred) break;
    }
    std::vector<std::string> labels;
    labels.reserve(best.size());
    for (const size_t label : best) labels.push_back(candidates_[label]);
    labels.resize(std::min(labels.size(), most));
    return labels;
  }

 private:
  /// The reference and labels whose lines differ from its line in one token at the same place. Of labels with
  /// the same token, only the first.
  std::vector<size_t> like(size_t reference) const {
    const std::vector<TokenId>& line = lines_[reference];
    std::vector<size_t> set;
    std::vector<TokenId> ids;
    std::ptrdiff_t place = -1;
    for (size_t label = 0; label < lines_.size(); ++label) {
      const std::vector<TokenId>& other = lines_[label];
      if (label == reference) {
        set.push_back(label);
        continue;
      }
      if (other.size() != line.size()) continue;
      const auto [at, in_other] = std::mismatch(line.begin(), line.end(), other.begin());
      if (at == line.end() || !std::equal(at + 1, line.end(), in_other + 1)) continue;
      if (place < 0) place = at - line.begin();
      if (place != at - line.begin() || std::find(ids.begin(), ids.end(), *in_other) != ids.end()) continue;
      ids.push_back(*in_other);
      set.push_back(label);
    }
    return set;
  }

  std::vector<std::string> candidates_;
  std::vector<std::vector<TokenId>> lines_;  // the answer with each candidate
};

std::vector<std::string> find_yes_no(const Tokenizer& tokenizer, std::string_view separator) {
  for (const auto& [yes, no] : kYesNo) {
    std::vector<std::string> pair =
        LabelSet(tokenizer, separator, {std::string(yes), std::string(no)}).largest(2, 2);
    if (pair.size() == 2) return pair;
  }
  return {};
}

AnswerLabels labels_behind(const Tokenizer& tokenizer, std::string_view separator) {
  AnswerLabels labels;
  labels.separator = separator;
  labels.yes_no = find_yes_no(tokenizer, separator);
  labels.options = LabelSet(tokenizer, separator, option_candidates()).largest(kNumLetters, kMaxOptions);
  std::vector<std::string> digits;
  for (char digit = '0'; digit <= '9'; ++digit) digits.emplace_back(1, digit);
  labels.levels = LabelSet(tokenizer, separator, digits).largest(kMaxLevels, kMaxLevels);
  return labels;
}

}  // namespace

const std::vector<std::string>& AnswerLabels::of(QuestionKind kind) const {
  if (kind == QuestionKind::kPredicate) return yes_no;
  return kind == QuestionKind::kChoice ? options : levels;
}

AnswerLabels find_answer_labels(const Tokenizer& tokenizer) {
  AnswerLabels spaced = labels_behind(tokenizer, ": ");
  const auto is_complete = [](const AnswerLabels& labels) {
    return labels.yes_no.size() == 2 && labels.options.size() >= kNumLetters &&
           labels.levels.size() == kMaxLevels;
  };
  if (is_complete(spaced)) return spaced;
  AnswerLabels tight = labels_behind(tokenizer, ":");
  return is_complete(tight) || tight.options.size() > spaced.options.size() ? tight : spaced;
}

}  // namespace lacuna
