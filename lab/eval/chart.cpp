#include "eval/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

namespace lacuna {
namespace {

constexpr double kWidth = 860, kHeight = 480;
constexpr double kLeft = 64, kRight = 664, kTop = 44, kBottom = 424;  // of the plot itself
constexpr double kLineHeight = 14;
constexpr int kRings = 110;  // of places for a label, half a line apart: the whole height from any point
constexpr double kLetterWidth = 6;  // of the labels, on average

// Mid-lightness: a contrast of about 4 with white and with black.
constexpr std::array<std::string_view, kChartColours> kColours = {"#2f7fd6", "#d9711a", "#249a5a",
                                                                  "#c04aa0", "#8a67d8", "#a68a00"};
constexpr std::string_view kGrey = kChartGrey;

/// An axis with fixed bounds, and the place of its values on the page.
class Scale {
 public:
  Scale(const ChartAxis& axis, const std::vector<double>& values, double begin, double end)
      : logarithmic_(axis.logarithmic), begin_(begin), end_(end), ticks_(axis.ticks) {
    double least = std::numeric_limits<double>::infinity();
    double most = -least;
    for (const double value : values) {
      least = std::min(least, value);
      most = std::max(most, value);
    }
    if (values.empty()) least = most = 1;
    const double margin = 0.05 * (transformed(most) - transformed(least));
    low_ = axis.low ? transformed(*axis.low) : transformed(least) - margin;
    high_ = axis.high ? transformed(*axis.high) : transformed(most) + margin;
    if (!(low_ < high_)) {
      low_ -= 0.5;
      high_ = low_ + 1;
    }
  }

  double place(double value) const {
    return begin_ + (end_ - begin_) * (transformed(value) - low_) / (high_ - low_);
  }

  /// By default round values within the bounds, about five to ten of them.
  std::vector<double> ticks() const {
    if (!ticks_.empty()) return ticks_;
    return logarithmic_ ? logarithmic_ticks() : linear_ticks();
  }

 private:
  double transformed(double value) const { return logarithmic_ ? std::log10(std::max(value, 1e-12)) : value; }

  std::vector<double> linear_ticks() const {
    const double raw = (high_ - low_) / 6;
    const double power = std::pow(10, std::floor(std::log10(raw)));
    double step = 10 * power;
    for (const double nice : {1.0, 2.0, 5.0}) {
      if (raw <= nice * power) {
        step = nice * power;
        break;
      }
    }
    std::vector<double> ticks;
    // Whole multiples, so that 0.1 + 0.1 + 0.1 is printed as 0.3.
    for (double i = std::ceil(low_ / step - 1e-9); i * step <= high_ + 1e-9 * step; ++i) {
      ticks.push_back(i == 0 ? 0 : i * step);
    }
    return ticks;
  }

  std::vector<double> logarithmic_ticks() const {
    std::vector<double> ticks;
    for (int decade = static_cast<int>(std::floor(low_)); decade <= high_; ++decade) {
      for (const double digit : {1.0, 2.0, 5.0}) {
        const double value = digit * std::pow(10, decade);
        if (std::log10(value) >= low_ - 1e-9 && std::log10(value) <= high_ + 1e-9) ticks.push_back(value);
      }
    }
    return ticks;
  }

  bool logarithmic_;
  double begin_, end_;
  std::vector<double> ticks_;
  double low_ = 0, high_ = 1;
};

struct Box {
  double left, top, right, bottom;

  bool overlaps(const Box& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

/// Writes labels where they cover neither one another nor a mark.
class Labels {
 public:
  void keep_clear(double x, double y) { taken_.push_back({x - 4, y - 4, x + 4, y + 4}); }

  std::string place(const std::string& label, double x, double y, std::string_view colour) {
    const double width = kLetterWidth * static_cast<double>(label.size());
    // Nearest places first: to the right and left, then further up and down.
    for (int ring = 0; ring < kRings; ++ring) {
      const int half_lines = (ring + 1) / 2;
      const double dy = (ring % 2 == 0 ? half_lines : -half_lines) * 0.5 * kLineHeight;
      for (const bool is_right : {true, false}) {
        const double left = is_right ? x + 7 : x - 7 - width;
        const Box box{left, y + dy - kLineHeight / 2, left + width, y + dy + kLineHeight / 2};
        const bool inside =
            box.left >= kLeft + 2 && box.right <= kRight && box.top >= kTop && box.bottom <= kBottom;
        const bool free =
            std::none_of(taken_.begin(), taken_.end(), [&](const Box& other) { return box.overlaps(other); });
        if (!inside || !free) continue;
        taken_.push_back(box);
        std::string svg;
        if (std::abs(dy) > kLineHeight) {
          svg += fmt::format(
              "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
              "stroke-width=\"0.5\"/>\n",
              x, y, is_right ? box.left - 1 : box.right + 1, y + dy, colour);
        }
        return svg + fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"11\" fill=\"{}\">{}</text>\n",
                                 box.left, y + dy + 4, colour, xml_escaped(label));
      }
    }
    return {};  // no room: the table next to the plot has the value
  }

 private:
  std::vector<Box> taken_;
};

std::string text(double x, double y, std::string_view anchor, std::string_view words,
                 std::string_view more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"{}\"{}>{}</text>\n", x, y,
                     anchor, kGrey, more, xml_escaped(words));
}

std::string line(double x1, double y1, double x2, double y2, std::string_view more) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1, x2, y2,
                     more);
}

std::string draw_axes(const Chart& chart, const Scale& x, const Scale& y) {
  const std::string grid = fmt::format("stroke=\"{}\" stroke-opacity=\"0.25\"", kGrey);
  const std::string frame = fmt::format("stroke=\"{}\"", kGrey);
  std::string svg = text(kLeft, 24, "start", chart.title, " font-size=\"15\"");
  for (const double tick : x.ticks()) {
    svg += line(x.place(tick), kTop, x.place(tick), kBottom, grid);
    svg += text(x.place(tick), kBottom + 18, "middle", fmt::format("{:g}", tick));
  }
  for (const double tick : y.ticks()) {
    svg += line(kLeft, y.place(tick), kRight, y.place(tick), grid);
    svg += text(kLeft - 8, y.place(tick) + 4, "end", fmt::format("{:g}", tick));
  }
  svg += line(kLeft, kBottom, kRight, kBottom, frame) + line(kLeft, kTop, kLeft, kBottom, frame);
  svg += text((kLeft + kRight) / 2, kBottom + 40, "middle", chart.x.title);
  const double middle = (kTop + kBottom) / 2;
  return svg + text(16, middle, "middle", chart.y.title,
                    fmt::format(" transform=\"rotate(-90 16 {:.1f})\"", middle));
}

std::string stroke(const ChartSeries& series) {
  return fmt::format("stroke=\"{}\" stroke-width=\"2\"{}", chart_colour(series.colour),
                     series.dashed ? " stroke-dasharray=\"6 4\"" : "");
}

std::string mark(double x, double y, const ChartSeries& series) {
  return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"/>\n", x, y,
                     chart_colour(series.colour));
}

std::string draw_series(const ChartSeries& series, const Scale& x, const Scale& y) {
  std::string svg;
  std::string places;
  for (const ChartPoint& point : series.points) {
    if (series.joined) {
      places += fmt::format("{}{:.1f},{:.1f}", places.empty() ? "" : " ", x.place(point.x), y.place(point.y));
    } else {
      svg += mark(x.place(point.x), y.place(point.y), series);
    }
  }
  if (series.joined)
    svg += fmt::format("<polyline points=\"{}\" fill=\"none\" {}/>\n", places, stroke(series));
  return svg;
}

std::string draw_legend(const std::vector<ChartSeries>& all) {
  std::string svg;
  double y = kTop + 8;
  for (const ChartSeries& series : all) {
    svg +=
        series.joined ? line(kRight + 16, y, kRight + 40, y, stroke(series)) : mark(kRight + 28, y, series);
    svg += text(kRight + 48, y + 4, "start", series.name);
    y += 20;
  }
  return svg;
}

std::string svg_head(double width, double height, std::string_view title) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" width=\"{}\" height=\"{}\" "
      "font-family=\"system-ui, sans-serif\" font-size=\"12\" role=\"img\">\n<title>{}</title>\n",
      width, height, width, height, xml_escaped(title));
}

}  // namespace

std::string xml_escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string_view chart_colour(size_t index) {
  return kColours[index % kChartColours];
}

namespace {

std::string draw_chart(const Chart& chart) {
  std::vector<double> xs, ys;
  for (const ChartSeries& series : chart.series) {
    for (const ChartPoint& point : series.points) {
      xs.push_back(point.x);
      ys.push_back(point.y);
    }
  }
  const Scale x(chart.x, xs, kLeft, kRight);
  const Scale y(chart.y, ys, kBottom, kTop);
  std::string svg = draw_axes(chart, x, y);
  Labels labels;
  for (const ChartSeries& series : chart.series) {
    svg += draw_series(series, x, y);
    for (const ChartPoint& point : series.points) labels.keep_clear(x.place(point.x), y.place(point.y));
  }
  for (const ChartSeries& series : chart.series) {
    for (const ChartPoint& point : series.points) {
      if (point.label.empty()) continue;
      svg += labels.place(point.label, x.place(point.x), y.place(point.y), chart_colour(series.colour));
    }
  }
  return svg + draw_legend(chart.series);
}

}  // namespace

std::string to_svg(const Chart& chart) {
  return svg_head(kWidth, kHeight, chart.title) + draw_chart(chart) + "</svg>\n";
}

std::string side_by_side(std::span<const Chart> charts, std::string_view title) {
  std::string svg = svg_head(kWidth * static_cast<double>(charts.size()), kHeight, title);
  for (size_t i = 0; i < charts.size(); ++i) {
    svg += fmt::format("<g transform=\"translate({:.1f} 0)\">\n{}</g>\n", kWidth * static_cast<double>(i),
                       draw_chart(charts[i]));
  }
  return svg + "</svg>\n";
}

// Heat maps.

namespace {

constexpr int kLevels = 64;       // colours of a scale
constexpr int kOfZero = kLevels;  // level of zeros on a logarithmic scale

struct Rgb {
  double red, green, blue;
};

/// From dark blue (low) through green to yellow (high); a lighter colour is a higher value. Zeros are grey.
std::string heat_colour(int level) {
  constexpr std::array<Rgb, 5> kStops = {
      Rgb{38, 28, 92}, {38, 92, 160}, {32, 146, 140}, {122, 190, 84}, {246, 226, 70}};
  if (level == kOfZero) return std::string(kGrey);
  const double place = (kStops.size() - 1.0) * level / (kLevels - 1.0);
  const size_t stop = std::min(static_cast<size_t>(place), kStops.size() - 2);
  const double part = place - static_cast<double>(stop);
  const auto mix = [&](double Rgb::*channel) {
    return static_cast<int>(
        std::lround((1 - part) * kStops[stop].*channel + part * kStops[stop + 1].*channel));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", mix(&Rgb::red), mix(&Rgb::green), mix(&Rgb::blue));
}

/// The scale of colours of all panels of a map.
class HeatScale {
 public:
  explicit HeatScale(const HeatMap& map) : logarithmic_(map.logarithmic) {
    double least = std::numeric_limits<double>::infinity();
    for (const HeatMapPanel& panel : map.panels) {
      for (const std::vector<double>& row : panel.values) {
        for (const double value : row) {
          if (std::isnan(value)) continue;
          has_zeros_ = has_zeros_ || value <= 0;
          high_ = std::max(high_, value);
          if (value > 0) least = std::min(least, value);
        }
      }
    }
    if (!logarithmic_) return;
    low_ = high_ * std::pow(10, -kHeatMapDecades);
    is_cut_ = least < low_;
    low_ = std::clamp(least, low_, high_);
  }

  /// 0 to kLevels - 1, or kOfZero.
  int level(double value) const {
    if (logarithmic_ && value <= 0) return kOfZero;
    const double low = transformed(low_);
    const double range = transformed(high_) - low;
    const double share = range > 0 ? (transformed(value) - low) / range : 1;
    return std::clamp(static_cast<int>(share * kLevels), 0, kLevels - 1);
  }

  double low() const { return low_; }
  double high() const { return high_; }
  /// Halfway between them, as the scale goes.
  double middle() const { return logarithmic_ ? std::sqrt(low_ * high_) : (low_ + high_) / 2; }
  /// Whether zeros have a colour of their own.
  bool shows_zeros() const { return logarithmic_ && has_zeros_; }
  /// Whether there are values below low().
  bool is_cut() const { return is_cut_; }

 private:
  double transformed(double value) const { return logarithmic_ ? std::log10(std::max(value, low_)) : value; }

  bool logarithmic_, has_zeros_ = false, is_cut_ = false;
  double low_ = 0, high_ = 0;
};

/// Sizes of the parts of a heat map, in pixels.
struct HeatLayout {
  static constexpr double kFirst = 72, kHead = 58, kGapX = 64, kGapY = 72, kBar = 130;

  explicit HeatLayout(const HeatMap& map) {
    if (!map.panels.empty()) rows = map.panels.front().values.size();
    if (rows > 0) columns = map.panels.front().values.front().size();
    per_line = std::max<size_t>(1, std::min(map.panels_per_line, map.panels.size()));
    lines = (map.panels.size() + per_line - 1) / per_line;
    cell_width = std::clamp(560 / std::max<int>(1, static_cast<int>(columns)), 1, 24);
    cell_height = std::clamp(224 / std::max<int>(1, static_cast<int>(rows)), 2, 16);
  }

  double panel_width() const { return cell_width * static_cast<double>(columns); }
  double panel_height() const { return cell_height * static_cast<double>(rows); }
  double left(size_t panel) const {
    return kFirst + (panel_width() + kGapX) * static_cast<double>(panel % per_line);
  }
  double top(size_t panel) const {
    const size_t line = panel / per_line;
    return kHead + (panel_height() + kGapY) * static_cast<double>(line);
  }
  double right() const { return left(per_line - 1) + panel_width(); }
  double bottom() const { return kHead + (panel_height() + kGapY) * static_cast<double>(lines); }

  size_t rows = 0, columns = 0, per_line = 1, lines = 0;
  int cell_width = 1, cell_height = 2;
};

/// The cells as one path for each colour: neighbours in a row are one stroke, in units of cells.
std::string draw_cells(const HeatMapPanel& panel, const HeatScale& scale) {
  std::array<std::string, kLevels + 1> paths;
  for (size_t row = 0; row < panel.values.size(); ++row) {
    const std::vector<double>& values = panel.values[row];
    for (size_t column = 0; column < values.size();) {
      const size_t begin = column++;
      if (std::isnan(values[begin])) continue;
      const int level = scale.level(values[begin]);
      while (column < values.size() && !std::isnan(values[column]) && scale.level(values[column]) == level) {
        ++column;
      }
      paths[static_cast<size_t>(level)] += fmt::format("M{} {}h{}", begin, row, column - begin);
    }
  }
  std::string svg;
  for (int level = 0; level <= kLevels; ++level) {
    const std::string& path = paths[static_cast<size_t>(level)];
    if (path.empty()) continue;
    svg += fmt::format("<path stroke=\"{}\" d=\"{}\"/>\n", heat_colour(level), path);
  }
  return svg;
}

/// Numbers of rows or columns that are written, about `room` pixels apart.
std::vector<int32_t> heat_ticks(const HeatMapAxis& axis, size_t count, int cell, int room) {
  int32_t step = 1;
  for (const int32_t factor : {2, 5, 10, 20, 50, 100, 200, 500, 1000}) {
    if (step * cell >= room) break;
    step = factor;
  }
  std::vector<int32_t> ticks;
  for (int32_t number = axis.first; number < axis.first + static_cast<int32_t>(count); ++number) {
    if (number % step == 0) ticks.push_back(number);
  }
  return ticks;
}

std::string draw_panel(const HeatMap& map, size_t index, const HeatLayout& layout, const HeatScale& scale) {
  const double left = layout.left(index);
  const double top = layout.top(index);
  const double bottom = top + layout.panel_height();
  const double middle = top + layout.panel_height() / 2;
  std::string svg = text(left, top - 8, "start", map.panels[index].title);
  // Strokes are drawn around the middles of cells.
  svg += fmt::format(
      "<g transform=\"translate({} {}) scale({} {})\" shape-rendering=\"crispEdges\" fill=\"none\">\n", left,
      top + layout.cell_height / 2.0, layout.cell_width, layout.cell_height);
  svg += draw_cells(map.panels[index], scale) + "</g>\n";
  if (map.x.divided_before) {
    const double x = left + layout.cell_width * (*map.x.divided_before - map.x.first);
    svg += line(x, top - 5, x, bottom + 5, fmt::format("stroke=\"{}\" stroke-dasharray=\"3 3\"", kGrey));
  }
  const auto place = [](int32_t number, const HeatMapAxis& axis, double begin, int cell) {
    return begin + cell * (number - axis.first + 0.5);
  };
  for (const int32_t tick : heat_ticks(map.x, layout.columns, layout.cell_width, 36)) {
    svg += text(place(tick, map.x, left, layout.cell_width), bottom + 16, "middle", fmt::format("{}", tick));
  }
  for (const int32_t tick : heat_ticks(map.y, layout.rows, layout.cell_height, 14)) {
    svg += text(left - 6, place(tick, map.y, top, layout.cell_height) + 4, "end", fmt::format("{}", tick));
  }
  svg += text(left + layout.panel_width() / 2, bottom + 34, "middle", map.x.title);
  return svg + text(left - 40, middle, "middle", map.y.title,
                    fmt::format(" transform=\"rotate(-90 {:.1f} {:.1f})\"", left - 40, middle));
}

/// The bar that explains the colours, with its lowest and highest value.
std::string draw_bar(const HeatMap& map, const HeatLayout& layout, const HeatScale& scale) {
  constexpr double kThick = 14;
  const double left = layout.right() + 36;
  const double top = HeatLayout::kHead;
  const double height = std::max(96.0, layout.panel_height());
  std::string svg = text(left, top - 8, "start", map.value_title);
  for (int level = 0; level < kLevels; ++level) {
    svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.2f}\" width=\"{}\" height=\"{:.2f}\" fill=\"{}\" "
        "shape-rendering=\"crispEdges\"/>\n",
        left, top + height * (kLevels - 1 - level) / kLevels, kThick, height / kLevels, heat_colour(level));
  }
  const auto label = [&](double y, std::string_view words) {
    return text(left + kThick + 6, y + 4, "start", words);
  };
  svg += label(top + 4, fmt::format("{:.2g}", scale.high()));
  svg += label(top + height / 2, fmt::format("{:.2g}", scale.middle()));
  svg += label(top + height - 4, fmt::format("{}{:.2g}", scale.is_cut() ? "\u2264 " : "", scale.low()));
  if (scale.shows_zeros()) {
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n", left,
                       top + height + 8, kThick, kThick, heat_colour(kOfZero));
    svg += label(top + height + 8 + kThick / 2, "0");
  }
  return svg;
}

}  // namespace

std::string to_svg(const HeatMap& map) {
  const HeatLayout layout(map);
  const HeatScale scale(map);
  const double width = layout.right() + HeatLayout::kBar;
  const double height = std::max(layout.bottom(), HeatLayout::kHead + 96 + 40);
  std::string svg =
      svg_head(width, height, map.title) + text(16, 24, "start", map.title, " font-size=\"15\"");
  for (size_t panel = 0; panel < map.panels.size(); ++panel) svg += draw_panel(map, panel, layout, scale);
  return svg + draw_bar(map, layout, scale) + "</svg>\n";
}

}  // namespace lacuna
