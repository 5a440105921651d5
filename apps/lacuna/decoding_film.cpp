#include "decoding_film.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "decoding_picture.h"
#include "eval/chart.h"

namespace lacuna {
namespace {

constexpr int kFilmCellWidth = 28, kFilmCellHeight = 20, kFilmLeft = 8, kLaneHeight = 62, kFilmTop = 40;
constexpr size_t kFilmLetters = 5;              // that fit a cell
constexpr double kSeconds = 14, kPlayed = 0.8;  // of a round, and the share of it before the last pass ends

/// A token that stands at a position for a while.
struct Appearance {
  int32_t position = 0;
  std::string text;
  size_t pass = 0;
  double begin = 0, end = 1;  ///< shares of a round; 1: it stays
};

int64_t rows_in(const DecodingTrace& trace) {
  int64_t rows = 0;
  for (const DecodingTrace::Pass& pass : trace.passes) rows += pass.rows;
  return rows;
}

std::vector<Appearance> appearances(const DecodingTrace& trace, int64_t longest) {
  std::vector<Appearance> found;
  std::map<int32_t, size_t> standing;  // by position: the last one there
  int64_t rows = 0;
  for (size_t i = 0; i < trace.passes.size(); ++i) {
    rows += trace.passes[i].rows;
    const double now =
        kPlayed * static_cast<double>(rows) / static_cast<double>(std::max<int64_t>(longest, 1));
    for (const DecodingTrace::Commit& commit : trace.passes[i].committed) {
      const auto before = standing.find(commit.position);
      if (before != standing.end()) found[before->second].end = now;
      const auto known = trace.texts.find(commit.token);
      standing[commit.position] = found.size();
      const std::string text = known == trace.texts.end() ? "?" : known->second;
      const bool is_special = text.starts_with("<|");
      found.push_back({commit.position - trace.prompt_length,
                       is_special ? "·" : fitted_text(text, kFilmLetters), i, now, 1});
    }
  }
  return found;
}

class Film {
 public:
  Film(const std::vector<FilmLane>& lanes, std::string_view title) : lanes_(lanes), title_(title) {
    for (const FilmLane& lane : lanes) longest_ = std::max(longest_, rows_in(lane.trace));
    for (const FilmLane& lane : lanes) {
      found_.push_back(appearances(lane.trace, longest_));
      for (const Appearance& each : found_.back()) columns_ = std::max(columns_, each.position + 1);
    }
  }

  std::string draw() {
    const int width = 2 * kFilmLeft + columns_ * kFilmCellWidth;
    const int height = kFilmTop + static_cast<int>(lanes_.size()) * kLaneHeight;
    svg_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
        "font-family=\"system-ui, sans-serif\" font-size=\"9\" role=\"img\">\n<title>{2}</title>\n",
        width, height, xml_escaped(title_));
    add_style();
    write(kFilmLeft, 20, "start", kChartGrey, title_, " font-size=\"14\"");
    for (size_t i = 0; i < lanes_.size(); ++i) add_lane(i);
    return svg_ + "</svg>\n";
  }

 private:
  static std::string class_of(const Appearance& each) {
    return fmt::format("t{:.0f}_{:.0f}", 1e4 * each.begin, 1e4 * each.end);
  }

  void write(int x, int y, std::string_view anchor, std::string_view colour, std::string_view words,
             std::string_view more = "") {
    svg_ += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\" fill=\"{}\"{}>{}</text>\n", x, y, anchor,
                        colour, more, xml_escaped(words));
  }

  /// What every appearance looks like over a round; without motion, what stays is all that is seen.
  void add_style() {
    std::set<std::string> known;
    svg_ += "<style>\n";
    for (const std::vector<Appearance>& lane : found_) {
      for (const Appearance& each : lane) {
        const std::string name = class_of(each);
        if (!known.insert(name).second) continue;
        const double begin = 100 * each.begin, end = 100 * each.end;
        svg_ += fmt::format(".{} {{ animation: {} {}s step-end infinite; {}}}\n", name, name, kSeconds,
                            each.end < 1 ? "opacity: 0; " : "");
        svg_ += fmt::format("@keyframes {} {{ 0% {{ opacity: 0; }} {:.2f}% {{ opacity: 1; }} ", name, begin);
        if (each.end < 1) svg_ += fmt::format("{:.2f}% {{ opacity: 0; }} ", std::max(end, begin + 0.01));
        svg_ += fmt::format("100% {{ opacity: {}; }} }}\n", each.end < 1 ? 0 : 1);
      }
    }
    svg_ += "@media (prefers-reduced-motion: reduce) { * { animation: none !important; } }\n</style>\n";
  }

  void add_lane(size_t index) {
    const FilmLane& lane = lanes_[index];
    const int top = kFilmTop + static_cast<int>(index) * kLaneHeight;
    write(kFilmLeft, top + 16, "start", kChartGrey,
          fmt::format("{}: {} passes, {} rows", lane.title, lane.trace.passes.size(), rows_in(lane.trace)),
          " font-size=\"12\"");
    const int y = top + 24;
    for (int column = 0; column < columns_; ++column) {
      svg_ += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" fill-opacity=\"0.15\"/>\n",
          kFilmLeft + column * kFilmCellWidth, y, kFilmCellWidth - 1, kFilmCellHeight, kChartGrey);
    }
    const double passes = static_cast<double>(std::max<size_t>(lane.trace.passes.size(), 1));
    for (const Appearance& each : found_[index]) {
      const int x = kFilmLeft + each.position * kFilmCellWidth;
      const double early = 1 - static_cast<double>(each.pass) / passes;
      svg_ += fmt::format(
          "<g class=\"{}\"><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" "
          "fill-opacity=\"{:.2f}\"/>",
          class_of(each), x, y, kFilmCellWidth - 1, kFilmCellHeight, chart_colour(index), 0.15 + 0.3 * early);
      svg_ += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"{}\">{}</text></g>\n",
                          x + kFilmCellWidth / 2, y + 13, kChartGrey, xml_escaped(each.text));
    }
  }

  const std::vector<FilmLane>& lanes_;
  std::string_view title_;
  int64_t longest_ = 0;
  std::vector<std::vector<Appearance>> found_;
  int32_t columns_ = 1;
  std::string svg_;
};

}  // namespace

std::string draw_film(const std::vector<FilmLane>& lanes, std::string_view title) {
  return Film(lanes, title).draw();
}

}  // namespace lacuna
