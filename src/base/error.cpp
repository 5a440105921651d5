#include "base/error.h"

#include <list>
#include <type_traits>
#include <vector>

namespace lacuna {
namespace {

constexpr std::string_view kCut = "...";
constexpr size_t kMaxArgumentBytes = 256;  // limit on a text argument, if the message is too long

using Argument = fmt::basic_format_arg<fmt::format_context>;

bool continues_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

/// Returns the argument; for a long text, one that refers to a shortened copy in `kept`.
Argument shorter(const Argument& argument, std::list<std::string>& kept) {
  return fmt::visit_format_arg(
      [&](auto value) -> Argument {
        std::string_view text;
        if constexpr (std::is_same_v<decltype(value), const char*>) {
          text = value;
        } else if constexpr (std::is_same_v<decltype(value), fmt::string_view>) {
          text = {value.data(), value.size()};
        }
        if (text.size() <= kMaxArgumentBytes) return argument;
        const std::string& cut = kept.emplace_back(cut_middle(text, kMaxArgumentBytes));
        return fmt::format_args(fmt::make_format_args(cut)).get(0);
      },
      argument);
}

}  // namespace

std::string cut_middle(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  size_t head = (max_bytes - kCut.size()) * 2 / 3;
  size_t tail = max_bytes - kCut.size() - head;
  constexpr int kMaxContinuations = 3;  // continuation bytes of a UTF-8 character
  for (int i = 0; i < kMaxContinuations && continues_character(text[head]); ++i) --head;
  for (int i = 0; i < kMaxContinuations && continues_character(text[text.size() - tail]); ++i) --tail;
  std::string cut(text.substr(0, head));
  return cut.append(kCut).append(text.substr(text.size() - tail));
}

std::string format_error(fmt::string_view format, fmt::format_args arguments) {
  std::string whole = fmt::vformat(format, arguments);
  if (whole.size() <= kMaxErrorBytes) return whole;
  std::list<std::string> kept;
  std::vector<Argument> shortened;
  for (int i = 0; const Argument argument = arguments.get(i); ++i)
    shortened.push_back(shorter(argument, kept));
  return cut_middle(
      fmt::vformat(format, fmt::format_args(shortened.data(), static_cast<int>(shortened.size()))));
}

}  // namespace lacuna
