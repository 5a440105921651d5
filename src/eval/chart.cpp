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

/// From red through ochre to green, all dark enough for white letters.
std::string heat_colour(double share) {
  struct Rgb {
    double red, green, blue;
  };
  constexpr std::array<Rgb, 3> kStops = {Rgb{176, 42, 48}, {166, 122, 0}, {30, 122, 70}};
  const double place = 2 * share;
  const size_t stop = place < 1 ? 0 : 1;
  const double part = place - static_cast<double>(stop);
  const auto mix = [&](double Rgb::*channel) {
    return static_cast<int>(
        std::lround((1 - part) * kStops[stop].*channel + part * kStops[stop + 1].*channel));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", mix(&Rgb::red), mix(&Rgb::green), mix(&Rgb::blue));
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

std::string to_svg(const HeatMap& map) {
  constexpr double kCellWidth = 46, kCellHeight = 30, kGap = 28, kFirst = 72, kPanelTop = 58;
  const double panel_width = kCellWidth * static_cast<double>(map.columns.size());
  const double panel_height = kCellHeight * static_cast<double>(map.rows.size());
  const double width = kFirst + (panel_width + kGap) * static_cast<double>(map.panels.size());
  const double height = kPanelTop + panel_height + 52;
  std::string svg = svg_head(width, height, map.title) + text(width / 2, 22, "middle", map.title);
  for (size_t p = 0; p < map.panels.size(); ++p) {
    const HeatMapPanel& panel = map.panels[p];
    const double left = kFirst + (panel_width + kGap) * static_cast<double>(p);
    svg += text(left + panel_width / 2, kPanelTop - 10, "middle", panel.title);
    for (size_t row = 0; row < map.rows.size(); ++row) {
      const double y = kPanelTop + kCellHeight * static_cast<double>(row);
      if (p == 0) svg += text(left - 8, y + kCellHeight / 2 + 4, "end", map.rows[row]);
      for (size_t column = 0; column < map.columns.size(); ++column) {
        const double share = std::clamp(panel.values[row][column], 0.0, 1.0);
        const double x = left + kCellWidth * static_cast<double>(column);
        svg += fmt::format(
            "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\" "
            "fill-opacity=\"0.85\"/>\n",
            x, y, kCellWidth - 1, kCellHeight - 1, heat_colour(share));
        svg += fmt::format(
            "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"#ffffff\">{:.0f}</text>\n",
            x + kCellWidth / 2, y + kCellHeight / 2 + 4, 100 * share);
      }
    }
    for (size_t column = 0; column < map.columns.size(); ++column) {
      svg += text(left + kCellWidth * (static_cast<double>(column) + 0.5), kPanelTop + panel_height + 18,
                  "middle", map.columns[column]);
    }
    svg += text(left + panel_width / 2, kPanelTop + panel_height + 40, "middle", map.x_title);
  }
  const double middle = kPanelTop + panel_height / 2;
  svg += text(16, middle, "middle", map.y_title, fmt::format(" transform=\"rotate(-90 16 {:.1f})\"", middle));
  return svg + "</svg>\n";
}

}  // namespace lacuna
