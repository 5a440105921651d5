// Problems of a strategy or a request, worded so that every interface can use its own names for the
// fields.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace lacuna {

/// One invalid value. Sentences have field names in backticks, such as "`block_length` 3 does not divide
/// `gen_length` 8"; rename_fields() replaces them by an interface's own names.
struct Problem {
  std::string field;     ///< invalid field, with its name in strategy.h or DecodeRequest
  std::string value;     ///< the rejected value; empty: the field has no effect with any value
  std::string expected;  ///< accepted values; empty: the field has to be left out
  std::string sentence;

  bool operator==(const Problem&) const = default;
};

/// An interface's name for a field ("--block-length"); nullopt if it has none.
using FieldNames = std::function<std::optional<std::string>(std::string_view field)>;

/// The sentence with an interface's own names; fields without one stay as they are.
inline std::string rename_fields(std::string_view sentence, const FieldNames& names) {
  std::string result;
  while (!sentence.empty()) {
    const size_t begin = sentence.find('`');
    const size_t end = begin == std::string_view::npos ? begin : sentence.find('`', begin + 1);
    if (end == std::string_view::npos) break;
    const std::optional<std::string> name = names(sentence.substr(begin + 1, end - begin - 1));
    result += sentence.substr(0, begin);
    // An unknown name may be user text: its last backtick may begin the next name.
    const size_t taken = name ? end + 1 : end;
    result += name ? *name : std::string(sentence.substr(begin, taken - begin));
    sentence.remove_prefix(taken);
  }
  return result.append(sentence);
}

/// Thrown for the first problem found. what() is the sentence.
class SettingError : public InputError {
 public:
  explicit SettingError(Problem problem) : InputError(problem.sentence), problem_(std::move(problem)) {}
  /// what() has an interface's names; problem() keeps the original ones.
  SettingError(const Problem& problem, const FieldNames& names)
      : InputError(rename_fields(problem.sentence, names)), problem_(problem) {}

  const Problem& problem() const { return problem_; }

 private:
  Problem problem_;
};

/// Collects problems, most important first.
class Problems {
 public:
  void add(Problem problem) { found_.push_back(std::move(problem)); }

  /// Unless `holds`, adds "`field` is VALUE; expected EXPECTED".
  void expect(bool holds, std::string_view field, const std::string& value, const std::string& expected) {
    if (holds) return;
    add({std::string(field), value, expected,
         fmt::format("`{}` is {}; expected {}", field, value, expected)});
  }

  template <typename T>
  void within(std::string_view field, T value, T least, T most) {
    expect(value >= least && value <= most, field, fmt::to_string(value),
           fmt::format("{} to {}", least, most));
  }
  template <typename T>
  void within(std::string_view field, const std::optional<T>& value, T least, T most) {
    if (value) within(field, *value, least, most);
  }

  /// within() for a part of a field, such as a lock's gate.
  template <typename T>
  void within_part(std::string_view field, std::string_view part, T value, T least, T most) {
    if (value >= least && value <= most) return;
    add({std::string(field), fmt::to_string(value), fmt::format("{} to {}", least, most),
         fmt::format("`{}` {} is {}; expected {} to {}", field, part, value, least, most)});
  }

  template <typename T>
  void within_part(std::string_view field, std::string_view part, std::optional<T> value, T least, T most) {
    if (value) within_part(field, part, *value, least, most);
  }

  /// Adds a problem if a setting was `given` that the method would ignore.
  void refuse(bool given, std::string_view field, std::string_view reason) {
    if (!given) return;
    add({std::string(field), "", "", fmt::format("`{}` has no effect here: {}", field, reason)});
  }

  bool empty() const { return found_.empty(); }
  const std::vector<Problem>& found() const { return found_; }
  /// Throws SettingError with the first problem, if any.
  void throw_first() const {
    if (!found_.empty()) throw SettingError(found_.front());
  }

 private:
  std::vector<Problem> found_;
};

}  // namespace lacuna
