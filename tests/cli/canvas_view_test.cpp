// The canvas on a terminal, as lines: no terminal is needed.
#include "canvas_view.h"

#include <gmock/gmock.h>
#include <utf8proc.h>

#include <algorithm>
#include <random>

#include "tokenizer/unicode.h"

namespace lacuna::canvas_view_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

constexpr CanvasStyle kColorless{ColorDepth::kNone, ColorBy::kAge};

CanvasCell token(std::string text, int32_t age = 20) {
  return {CellKind::kToken, std::move(text), age};
}

/// Lines without escape sequences.
std::vector<std::string> plain(std::vector<std::string> lines) {
  for (std::string& line : lines) {
    for (size_t begin = line.find('\x1b'); begin != std::string::npos; begin = line.find('\x1b')) {
      const size_t end = line.find_first_of("mG", begin);
      line.erase(begin, end - begin + 1);
    }
  }
  return lines;
}

int width_of(std::string_view line) {
  int width = 0;
  while (!line.empty()) {
    const size_t length = first_character_bytes(line);
    if (length == 0) return -1;
    width += utf8proc_charwidth(static_cast<utf8proc_int32_t>(first_character(line)));
    line.remove_prefix(length);
  }
  return width;
}

TEST(FitToColumns, CutsAndPadsToTheWidth) {
  EXPECT_EQ(fit_to_columns("ab", 4), "ab  ");
  EXPECT_EQ(fit_to_columns("abcd", 4), "abcd");
  EXPECT_EQ(fit_to_columns("abcde", 4), "abc…");
  EXPECT_EQ(fit_to_columns("漢字", 4), "漢字");
  EXPECT_EQ(fit_to_columns("漢字x", 4), "漢… ");
  EXPECT_EQ(fit_to_columns("e\u0301x", 3), "e\u0301x ");
  EXPECT_EQ(fit_to_columns("\u0301", 3), "◌\u0301  ");
  EXPECT_EQ(fit_to_columns("", 2), "  ");
}

TEST(FitToColumns, KeepsAStackOfMarksWithinItsLine) {
  std::string stack = "e";
  for (int i = 0; i < 1000; ++i) stack += "\u0301";
  EXPECT_LE(fit_to_columns(stack, 3).size(), 16U);
}

TEST(FitToColumns, ShowsWhatATerminalWouldObey) {
  EXPECT_EQ(fit_to_columns("\x1b[2J", 8), "␛[2J    ");
  EXPECT_EQ(fit_to_columns("a\nb\tc\r", 8), "a↵b⇥c␍  ");
  EXPECT_EQ(fit_to_columns("\x7f\u009b\u202e\xff", 8), "␡\uFFFD\uFFFD\uFFFD    ");
}

TEST(SafeForTerminal, KeepsTextAndShowsControls) {
  EXPECT_EQ(safe_for_terminal("a\n\tb"), "a\n\tb");
  EXPECT_EQ(safe_for_terminal("\x1b]0;title\x07"), "␛]0;title␇");
  EXPECT_EQ(safe_for_terminal("\u009b31m\u2066x\r"), "\uFFFD31m\uFFFDx␍");
  EXPECT_EQ(safe_for_terminal("👩\u200d🔬 漢"), "👩\u200d🔬 漢");
  EXPECT_EQ(safe_for_terminal("\xc3"), "\uFFFD");
}

TEST(Render, PutsEveryPositionIntoItsPlaceWhateverArrives) {
  CanvasFrame frame;
  frame.cells.resize(30);
  const std::vector<std::string> before = render(frame, kColorless, {40, 24});
  ASSERT_THAT(before, SizeIs(6));  // 6 cells of 6 columns on a line, and the status
  frame.cells[7] = token(" a token that is far too long");
  frame.cells[20] = token("\n");
  frame.cells[29] = token("漢字漢字漢字");
  const std::vector<std::string> after = plain(render(frame, kColorless, {40, 24}));
  ASSERT_THAT(after, SizeIs(6));
  EXPECT_EQ(after[0], plain(before)[0]);
  EXPECT_THAT(after[1], StartsWith("░      a to…░     "));
  EXPECT_EQ(after[2], plain(before)[2]);
  EXPECT_THAT(after[3], StartsWith("░     ░     ↵     ░     "));
}

TEST(Render, NeverFillsATerminalOfAnySize) {
  std::mt19937 random(7);
  const std::vector<std::string> texts = {
      "a", " word", "漢字", "\x1b[31m", "\u0301", "", "\xff\xfe", "👩‍🔬👩‍🔬", "\n\n"};
  for (int columns = 1; columns <= 210; columns += columns < 10 ? 1 : 10) {
    for (const int lines : {1, 2, 3, 10, 50}) {
      CanvasFrame frame;
      for (int i = 0; i < 200; ++i) {
        frame.cells.push_back({static_cast<CellKind>(random() % 4), texts[random() % texts.size()],
                               static_cast<int32_t>(random() % 40), 0.01 * (random() % 100)});
      }
      frame.focus = random() % 200;
      frame.status = {"step 12", "20 masked", "1234.5 tokens/s"};
      for (const ColorDepth depth : {ColorDepth::kNone, ColorDepth::k256, ColorDepth::kTrue}) {
        const auto drawn = plain(render(frame, {depth, ColorBy::kConfidence}, {columns, lines}));
        EXPECT_LE(static_cast<int>(drawn.size()), std::max(lines - 1, 1)) << columns << " by " << lines;
        for (const std::string& line : drawn) {
          EXPECT_LE(width_of(line), std::max(columns - 1, 1)) << columns << " by " << lines << ": " << line;
          EXPECT_EQ(line.find('\x1b'), std::string::npos) << line;
        }
      }
    }
  }
}

TEST(Render, ScrollsToWhereThereIsWork) {
  CanvasFrame frame;
  for (int i = 0; i < 100; ++i) frame.cells.push_back(token(std::to_string(i)));
  frame.focus = 60;
  frame.status = {"step 1", "40 masked", "9 tokens/s"};
  const std::vector<std::string> lines = plain(render(frame, kColorless, {42, 7}));  // 6 cells on a line
  ASSERT_THAT(lines, SizeIs(6));
  EXPECT_THAT(lines.front(), StartsWith("60    61"));
  EXPECT_EQ(lines.back(), "step 1 | 40 masked | lines 11-15 of 17");
  frame.focus = 99;
  EXPECT_THAT(plain(render(frame, kColorless, {42, 7}))[4], StartsWith("96    97"));
}

TEST(Render, ColoursByAgeOrByConfidence) {
  CanvasFrame frame;
  frame.cells = {token("new", 0),
                 token("old", 100),
                 {CellKind::kToken, "sure", 9, 1.0},
                 {CellKind::kToken, "unsure", 9, 0.0},
                 {CellKind::kEnd, "<|end|>", 3}};
  const std::string by_age = render(frame, {ColorDepth::k256, ColorBy::kAge}, {80, 24}).front();
  EXPECT_THAT(by_age, AllOf(HasSubstr("\x1b[0;7mnew"), HasSubstr("\x1b[0mold"), HasSubstr("\x1b[0;38;5;"),
                            HasSubstr("\x1b[0;2m·"), Not(HasSubstr("<|end|>"))));
  const std::string by_confidence =
      render(frame, {ColorDepth::kTrue, ColorBy::kConfidence}, {80, 24}).front();
  EXPECT_THAT(by_confidence,
              AllOf(HasSubstr("\x1b[0;38;2;0;135;255msure"), HasSubstr("\x1b[0;38;2;255;95;0munsure")));
  EXPECT_THAT(render(frame, kColorless, {80, 24}).front(), StartsWith("new     old     sure    unsure  ·"));
}

TEST(CanvasFollower, RemembersWhenEachPositionWasWritten) {
  constexpr TokenId kMask = 90, kEndToken = 89;
  const auto text_of = [](TokenId id) { return std::to_string(id); };
  CanvasFollower follower({kMask, {kEndToken}, 1}, text_of, std::vector<TokenId>{5, kMask, kMask, 7, kMask});
  EXPECT_EQ(follower.num_masked(), 3);
  EXPECT_EQ(follower.frame(0).cells[2].kind, CellKind::kGiven);
  follower.follow(std::vector<TokenId>{5, 6, kMask, 7, kMask}, std::vector<Commit>{{1, 6, 0.5}});
  follower.follow(std::vector<TokenId>{5, 6, kEndToken, 8, kMask}, std::vector<Commit>{{2, kEndToken, 0.25}});
  CanvasFrame frame = follower.frame(0);
  ASSERT_THAT(frame.cells, SizeIs(4));
  EXPECT_EQ(frame.cells[0], (CanvasCell{CellKind::kToken, "6", 1, 0.5, false}));
  EXPECT_EQ(frame.cells[1], (CanvasCell{CellKind::kEnd, "89", 0, 0.25, false}));
  EXPECT_EQ(frame.cells[2], (CanvasCell{CellKind::kToken, "8", 0, -1, true}));
  EXPECT_EQ(frame.cells[3].kind, CellKind::kMask);
  EXPECT_EQ(frame.focus, 3U);
  follower.follow(std::vector<TokenId>{5, kMask, kEndToken}, {});  // masked again, and cut
  frame = follower.frame(0);
  ASSERT_THAT(frame.cells, SizeIs(2));
  EXPECT_EQ(frame.cells[0].kind, CellKind::kMask);
  EXPECT_EQ(frame.focus, 0U);
}

}  // namespace
}  // namespace lacuna::canvas_view_test
