#include "terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "tokenizer/unicode.h"

namespace lacuna {
namespace {

std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// A character as a terminal shows it.
struct Glyph {
  std::string text;
  int width = 0;  // columns
};

constexpr char32_t kZeroWidthNonJoiner = 0x200C;
constexpr char32_t kZeroWidthJoiner = 0x200D;

/// Whether the character is no control and does not hide or reorder text.
bool is_harmless(char32_t character) {
  const std::string_view category = utf8proc_category_string(static_cast<utf8proc_int32_t>(character));
  return !category.starts_with('C') && category != "Zl" && category != "Zp";
}

/// A safe, visible form of any character.
Glyph glyph_of(char32_t character, std::string_view bytes) {
  if (character < 0x20 || character == 0x7F) {
    Glyph symbol{"", 1};
    append_utf8(character == 0x7F ? U'\u2421' : U'\u2400' + character, symbol.text);
    return symbol;
  }
  if (!is_harmless(character)) return {"\uFFFD", 1};
  return {std::string(bytes), utf8proc_charwidth(static_cast<utf8proc_int32_t>(character))};
}

/// Calls visit(character, bytes) for each character; ill-formed bytes count as U+FFFD, one each.
template <typename Visit>
void for_each_character(std::string_view text, Visit&& visit) {
  while (!text.empty()) {
    const size_t length = first_character_bytes(text);
    if (length == 0) {
      visit(U'\uFFFD', std::string_view("\uFFFD"));
      text.remove_prefix(1);
    } else {
      visit(first_character(text), text.substr(0, length));
      text.remove_prefix(length);
    }
  }
}

}  // namespace

bool can_draw_on(std::FILE* stream) {
  const std::string_view kind = environment("TERM");
  return isatty(fileno(stream)) != 0 && !kind.empty() && kind != "dumb";
}

ColorDepth color_depth(ColorChoice choice) {
  const bool is_unwanted = choice == ColorChoice::kAuto && !environment("NO_COLOR").empty();
  if (choice == ColorChoice::kNever || is_unwanted) return ColorDepth::kNone;
  const std::string_view depth = environment("COLORTERM");
  return depth == "truecolor" || depth == "24bit" ? ColorDepth::kTrue : ColorDepth::k256;
}

TerminalSize terminal_size(std::FILE* stream) {
  winsize size{};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

std::string safe_for_terminal(std::string_view text) {
  std::string safe;
  for_each_character(text, [&](char32_t character, std::string_view bytes) {
    const bool stays = character == '\n' || character == '\t' || character == kZeroWidthJoiner ||
                       character == kZeroWidthNonJoiner;
    safe += stays ? std::string(bytes) : glyph_of(character, bytes).text;
  });
  return safe;
}

std::string for_standard_output(std::string_view text) {
  return isatty(STDOUT_FILENO) != 0 ? safe_for_terminal(text) : std::string(text);
}

void write_to(std::FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
}

std::string fit_to_columns(std::string_view text, int width) {
  std::vector<Glyph> glyphs;
  int total = 0;
  bool is_cut = false;
  for_each_character(text, [&](char32_t character, std::string_view bytes) {
    if (is_cut) return;
    Glyph glyph = glyph_of(character, bytes);
    if (character == '\n') glyph = {"↵", 1};
    if (character == '\t') glyph = {"⇥", 1};
    // A combining mark needs a base character; a tall stack of marks would leave the line.
    constexpr int kMaxMarks = 4;
    const auto is_mark = [](const Glyph& each) { return each.width == 0; };
    if (glyph.width == 0 && std::all_of(glyphs.begin(), glyphs.end(), is_mark)) {
      glyphs.push_back({"◌", 1});
      ++total;
    }
    const auto base = std::find_if_not(glyphs.rbegin(), glyphs.rend(), is_mark);
    if (glyph.width == 0 && base - glyphs.rbegin() >= kMaxMarks) return;
    total += glyph.width;
    glyphs.push_back(std::move(glyph));
    is_cut = total > width;
  });
  if (is_cut) {
    while (!glyphs.empty() && total > width - 1) {
      total -= glyphs.back().width;
      glyphs.pop_back();
    }
    if (width > 0) {
      glyphs.push_back({"…", 1});
      ++total;
    }
  }
  std::string line;
  for (const Glyph& glyph : glyphs) line += glyph.text;
  return line.append(static_cast<size_t>(std::max(0, width - total)), ' ');
}

}  // namespace lacuna
