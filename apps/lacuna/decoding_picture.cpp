#include "decoding_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <vector>

#include "eval/chart.h"

namespace lacuna {
namespace {

constexpr int kCellWidth = 40, kCellHeight = 20;
constexpr int kLeft = 88, kTop = 84;  // of the cells
constexpr size_t kLetters = 6;        // that fit a cell

/// What a pass has to say about a position.
enum class Look { kMasked, kWritten, kCommitted, kDraft, kStanding, kFallen };

struct Cell {
  Look look = Look::kMasked;
  std::string text;
  bool is_replacement = false;  // of a draft that fell
};

class SlotPicture {
 public:
  SlotPicture(const DecodingTrace& trace, std::string_view title) : trace_(trace), title_(title) {
    for (const DecodingTrace::Pass& pass : trace.passes) {
      for (const DecodingTrace::Commit& commit : pass.committed) reach(commit.position);
      for (const DecodingTrace::Slot& slot : pass.slots) {
        reach(slot.position + static_cast<int32_t>(slot.tokens.size()) - 1);
      }
    }
  }

  std::string draw() {
    head();
    for (size_t i = 0; i < trace_.passes.size(); ++i) pass(i);
    return svg_ + "</svg>\n";
  }

 private:
  void reach(int32_t position) { columns_ = std::max(columns_, position - trace_.prompt_length + 1); }

  int left_of(int32_t position) const { return kLeft + (position - trace_.prompt_length) * kCellWidth; }
  static int top_of(size_t pass) { return kTop + static_cast<int>(pass) * kCellHeight; }

  std::string text_of(int32_t token) const {
    const auto found = trace_.texts.find(token);
    return found == trace_.texts.end() ? fmt::format("{}", token) : fitted_text(found->second, kLetters);
  }

  void write(int x, int y, std::string_view anchor, std::string_view colour, std::string_view words,
             std::string_view more = "") {
    svg_ += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\" fill=\"{}\"{}>{}</text>\n", x, y, anchor,
                        colour, more, xml_escaped(words));
  }

  void head() {
    const int width = std::max(kLeft + columns_ * kCellWidth + 16, 720);
    const int height = top_of(trace_.passes.size()) + 16;
    svg_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
        "font-family=\"system-ui, sans-serif\" font-size=\"10\" role=\"img\">\n<title>{2}</title>\n",
        width, height, xml_escaped(title_));
    write(8, 24, "start", kChartGrey, title_, " font-size=\"15\"");
    write(8, 44, "start", kChartGrey,
          "Filled: committed, a colour for each plan; pale afterwards. Coloured text: stands. Grey: a draft. "
          "Struck out: a draft that fell. Underlined: what took its place. Dashed: selected by the plan.");
    for (int32_t column = 0; column < columns_; column += 8) {
      write(kLeft + column * kCellWidth + kCellWidth / 2, kTop - 8, "middle", kChartGrey,
            fmt::format("{}", column));
    }
  }

  void pass(size_t index) {
    const DecodingTrace::Pass& pass = trace_.passes[index];
    if (pass.iteration != iteration_) shown_.clear();
    iteration_ = pass.iteration;
    write(kLeft - 8, top_of(index) + 14, "end", kChartGrey, fmt::format("{} {}", index + 1, pass.kind));
    std::map<int32_t, Cell> cells;
    for (const auto& [position, iteration] : written_) cells[position].look = Look::kWritten;
    for (const DecodingTrace::Slot& slot : pass.slots) add_slot(index, slot, cells);
    for (const DecodingTrace::Commit& commit : pass.committed) {
      Cell& cell = cells[commit.position];
      cell.look = Look::kCommitted;
      cell.text = text_of(commit.token);
      written_[commit.position] = pass.iteration;
    }
    for (int32_t column = 0; column < columns_; ++column) {
      const int32_t position = trace_.prompt_length + column;
      draw_cell(index, position, cells[position]);
    }
    if (pass.kind == "plan") outline_selected(index);
  }

  /// A slot that goes on with no more than what stood ended there: what follows was not judged.
  bool ends_with_what_stands(size_t index, const DecodingTrace::Slot& slot) const {
    if (index + 1 == trace_.passes.size()) return false;
    const DecodingTrace::Pass& next = trace_.passes[index + 1];
    return std::any_of(next.slots.begin(), next.slots.end(), [&](const DecodingTrace::Slot& later) {
      return next.kind != "plan" && later.position == slot.position &&
             later.tokens.size() <= static_cast<size_t>(slot.accepted);
    });
  }

  void add_slot(size_t index, const DecodingTrace::Slot& slot, std::map<int32_t, Cell>& cells) {
    const DecodingTrace::Pass& pass = trace_.passes[index];
    const bool judges =
        (pass.kind == "verify" || pass.kind == "check") && !ends_with_what_stands(index, slot);
    for (size_t offset = 0; offset < slot.tokens.size(); ++offset) {
      const int32_t position = slot.position + static_cast<int32_t>(offset);
      const int32_t token = slot.tokens[offset];
      const auto accepted = static_cast<size_t>(slot.accepted);
      Look look = Look::kDraft;
      if (offset < accepted) {
        look = Look::kStanding;
      } else if (judges && offset == accepted) {
        look = Look::kFallen;
      }
      const auto before = shown_.find(position);
      const bool is_replacement =
          pass.kind == "fill" && offset < accepted && before != shown_.end() && before->second != token;
      shown_[position] = token;
      cells[position] = {look, text_of(token), is_replacement};
    }
  }

  void draw_cell(size_t pass, int32_t position, const Cell& cell) {
    const int x = left_of(position);
    const int y = top_of(pass);
    const auto written = written_.find(position);
    const int32_t iteration = written == written_.end() ? iteration_ : written->second;
    const std::string_view colour = chart_colour(static_cast<size_t>(iteration));
    if (cell.look == Look::kCommitted || cell.look == Look::kWritten) {
      svg_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"{}/>\n", x + 1,
                          y + 1, kCellWidth - 2, kCellHeight - 2, colour,
                          cell.look == Look::kWritten ? std::string(" fill-opacity=\"0.3\"") : std::string());
    } else {
      svg_ += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"{}\" "
          "stroke-opacity=\"0.25\"/>\n",
          x + 1, y + 1, kCellWidth - 2, kCellHeight - 2, kChartGrey);
    }
    if (cell.text.empty()) return;
    const std::string_view ink = cell.look == Look::kCommitted  ? "#ffffff"
                                 : cell.look == Look::kStanding ? colour
                                                                : kChartGrey;
    const std::string_view line = cell.look == Look::kFallen ? " text-decoration=\"line-through\""
                                  : cell.is_replacement      ? " text-decoration=\"underline\""
                                                             : "";
    write(x + kCellWidth / 2, y + 14, "middle", ink, cell.text, line);
  }

  /// A plan names its slots' first positions; the pass that checks their drafts, how long they are.
  void outline_selected(size_t index) {
    for (const DecodingTrace::Slot& slot : trace_.passes[index].slots) {
      if (!slot.selected) continue;
      size_t length = slot.tokens.size();
      if (index + 1 < trace_.passes.size()) {
        for (const DecodingTrace::Slot& next : trace_.passes[index + 1].slots) {
          if (next.position == slot.position) length = std::max(length, next.tokens.size());
        }
      }
      svg_ += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" "
          "stroke-dasharray=\"6 4\"/>\n",
          left_of(slot.position) + 1, top_of(index) + 1, static_cast<int>(length) * kCellWidth - 2,
          kCellHeight - 2, chart_colour(static_cast<size_t>(iteration_)));
    }
  }

  const DecodingTrace& trace_;
  std::string_view title_;
  int32_t columns_ = 1;
  std::string svg_;
  int32_t iteration_ = -1;
  std::map<int32_t, int32_t> written_;  // by position: the iteration in which it was committed
  std::map<int32_t, int32_t> shown_;    // by position: the iteration's last token there
};

}  // namespace

std::string fitted_text(std::string_view text, size_t letters) {
  std::string result;
  std::string cut;  // where it is too long
  size_t count = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= ' ' && result.empty()) continue;
    const bool is_first_byte = (byte & 0xC0) != 0x80;
    if (is_first_byte && count + 1 == letters) cut = result + "…";
    if (is_first_byte && count++ == letters) return cut;
    result += byte < ' ' ? ' ' : c;
  }
  return result;
}

std::string draw_decoding(const DecodingTrace& trace, std::string_view title) {
  return SlotPicture(trace, title).draw();
}

}  // namespace lacuna
