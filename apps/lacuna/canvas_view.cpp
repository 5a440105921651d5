#include "canvas_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "decode/edits.h"

namespace lacuna {
namespace {

constexpr std::string_view kPlain = "\x1b[0m";
constexpr std::string_view kDim = "\x1b[0;2m";
constexpr std::string_view kFresh = "\x1b[0;7m";
constexpr std::string_view kMaskGlyph = "░";
constexpr std::string_view kEndGlyph = "·";
constexpr std::string_view kBlankGlyph = "␣";  // a token of spaces, or an empty one

struct Color {
  int red, green, blue;
};

/// From new to old tokens; readable on dark and light backgrounds.
constexpr std::array kAgeColours = {Color{255, 135, 0}, Color{215, 135, 95}, Color{175, 135, 135},
                                    Color{135, 135, 175}};
/// From unlikely to certain; distinguishable for color-blind users.
constexpr std::array kConfidences = {Color{255, 95, 0}, Color{215, 135, 0}, Color{135, 135, 135},
                                     Color{95, 135, 175}, Color{0, 135, 255}};

/// Interpolates the ramp at `place` in [0, 1].
Color mix(std::span<const Color> ramp, double place) {
  const double at = std::clamp(place, 0.0, 1.0) * static_cast<double>(ramp.size() - 1);
  const auto index = std::min(static_cast<size_t>(at), ramp.size() - 2);
  const double share = at - static_cast<double>(index);
  const Color& a = ramp[index];
  const Color& b = ramp[index + 1];
  const auto between = [&](int from, int to) {
    return static_cast<int>(std::lround(from + share * (to - from)));
  };
  return {between(a.red, b.red), between(a.green, b.green), between(a.blue, b.blue)};
}

std::string code_of(const Color& color, ColorDepth depth) {
  if (depth == ColorDepth::kTrue)
    return fmt::format("\x1b[0;38;2;{};{};{}m", color.red, color.green, color.blue);
  // The palette's cube has the levels 0, 95, 135, 175, 215 and 255.
  const auto level = [](int value) { return value < 48 ? 0 : value < 115 ? 1 : (value - 35) / 40; };
  return fmt::format("\x1b[0;38;5;{}m",
                     16 + 36 * level(color.red) + 6 * level(color.green) + level(color.blue));
}

std::string look_of(const CanvasCell& cell, const CanvasStyle& style) {
  if (style.depth == ColorDepth::kNone) return {};
  if (cell.kind == CellKind::kMask || cell.kind == CellKind::kGiven) return std::string(kDim);
  if (style.color_by == ColorBy::kConfidence && cell.confidence >= 0) {
    return code_of(mix(kConfidences, cell.confidence), style.depth);
  }
  if (cell.age == 0) return std::string(kFresh);
  if (cell.kind == CellKind::kEnd || cell.is_behind_end) return std::string(kDim);
  if (style.color_by == ColorBy::kConfidence) return std::string(kPlain);
  constexpr double kOld = 4;  // log2 of the age, in passes, from which a token has no color
  const double place = std::log2(cell.age) / kOld;
  return place >= 1 ? std::string(kPlain) : code_of(mix(kAgeColours, place), style.depth);
}

std::string_view shown_text(const CanvasCell& cell) {
  if (cell.kind == CellKind::kMask) return kMaskGlyph;
  if (cell.kind == CellKind::kEnd) return kEndGlyph;
  const bool is_blank = cell.text.find_first_not_of(' ') == std::string::npos;
  return is_blank ? kBlankGlyph : std::string_view(cell.text);
}

/// Text of one row of the grid; `cells` may be fewer than fit.
std::string grid_line(std::span<const CanvasCell> cells, int width, const CanvasStyle& style) {
  std::string line;
  std::string look;
  int column = 1;
  for (const CanvasCell& cell : cells) {
    std::string wanted = look_of(cell, style);
    if (wanted != look) {
      line += wanted;
      look = std::move(wanted);
    }
    const std::string shown = fit_to_columns(shown_text(cell), width);
    line += shown;
    column += width;
    // Terminals differ in the widths of some characters: moves the cursor to the next cell's column.
    const auto is_ascii = [](char byte) { return static_cast<unsigned char>(byte) < 0x80; };
    const bool is_sure = cell.kind == CellKind::kMask || std::all_of(shown.begin(), shown.end(), is_ascii);
    if (!is_sure) line += fmt::format("\x1b[{}G", column);
  }
  if (!look.empty()) line += kPlain;
  return line;
}

/// Joins the leading parts that fit.
std::string status_line(const std::vector<std::string>& parts, int columns) {
  std::string line;
  for (const std::string& part : parts) {
    const std::string longer = line.empty() ? part : fmt::format("{} | {}", line, part);
    if (longer.size() > static_cast<size_t>(columns)) break;
    line = longer;
  }
  return line;
}

}  // namespace

std::vector<std::string> render(const CanvasFrame& frame, const CanvasStyle& style, TerminalSize size) {
  // Leaves the last column free: terminals differ in where the cursor is after it.
  const int columns = std::max(size.columns - 1, 1);
  constexpr int kNarrow = 60;
  const int width = std::min(columns, columns < kNarrow ? 6 : 8);
  const auto per_line = static_cast<size_t>(columns / width);
  const size_t total = (frame.cells.size() + per_line - 1) / per_line;
  const auto room = static_cast<size_t>(std::max(size.lines - 2, 0));
  const size_t shown = std::min(total, room);
  const size_t first = std::min(frame.focus / per_line, total - shown);
  std::vector<std::string> lines;
  const std::span<const CanvasCell> cells(frame.cells);
  for (size_t i = first; i < first + shown; ++i) {
    const size_t begin = i * per_line;
    lines.push_back(grid_line(cells.subspan(begin, std::min(per_line, cells.size() - begin)), width, style));
  }
  std::vector<std::string> status = frame.status;
  if (shown < total) {
    const size_t place = std::min<size_t>(status.size(), 2);
    status.insert(status.begin() + static_cast<std::ptrdiff_t>(place),
                  fmt::format("lines {}-{} of {}", first + 1, first + shown, total));
  }
  lines.push_back(status_line(status, columns));
  return lines;
}

CanvasFollower::CanvasFollower(Settings settings, TextOfToken text_of, std::span<const TokenId> canvas)
    : settings_(std::move(settings)), text_of_(std::move(text_of)) {
  std::sort(settings_.end_ids.begin(), settings_.end_ids.end());
  for (const TokenId token : canvas) positions_.push_back({token});
}

void CanvasFollower::follow(std::span<const TokenId> canvas, std::span<const Commit> committed,
                            const CanvasEdits& edits) {
  const int32_t pass = passes_++;
  apply_edits(edits, Position{settings_.mask_id}, positions_);
  const size_t known = std::min(positions_.size(), canvas.size());
  positions_.resize(canvas.size());
  for (size_t i = 0; i < canvas.size(); ++i) {
    Position& position = positions_[i];
    if (i < known && position.token == canvas[i]) continue;
    const bool is_written = canvas[i] != settings_.mask_id;
    position = {canvas[i], is_written ? pass : -1};
  }
  for (const Commit& commit : committed) {
    const auto index = static_cast<size_t>(commit.position);
    if (index >= positions_.size() || positions_[index].token != commit.token) continue;
    positions_[index].pass = pass;
    positions_[index].confidence = commit.confidence;
  }
}

CanvasFrame CanvasFollower::frame(int32_t fallback_focus) const {
  CanvasFrame frame;
  size_t first_mask = positions_.size();
  bool has_ended = false;
  const std::vector<TokenId>& ends = settings_.end_ids;
  for (size_t i = settings_.first_shown; i < positions_.size(); ++i) {
    const Position& position = positions_[i];
    CanvasCell& cell = frame.cells.emplace_back();
    cell.is_behind_end = has_ended;
    if (position.token == settings_.mask_id) {
      first_mask = std::min(first_mask, i);
      continue;
    }
    const bool is_end = std::binary_search(ends.begin(), ends.end(), position.token);
    cell.kind = position.pass < 0 ? CellKind::kGiven : is_end ? CellKind::kEnd : CellKind::kToken;
    has_ended = has_ended || cell.kind == CellKind::kEnd;
    cell.age = position.pass < 0 ? 0 : passes_ - 1 - position.pass;
    cell.confidence = position.confidence;
    cell.text = text_of_(position.token);
  }
  const size_t focus =
      first_mask < positions_.size() ? first_mask : static_cast<size_t>(std::max(fallback_focus, 0));
  frame.focus = focus - std::min(focus, settings_.first_shown);
  return frame;
}

int64_t CanvasFollower::num_masked() const {
  const auto begin =
      positions_.begin() + static_cast<std::ptrdiff_t>(std::min(settings_.first_shown, positions_.size()));
  return std::count_if(begin, positions_.end(),
                       [&](const Position& position) { return position.token == settings_.mask_id; });
}

}  // namespace lacuna
