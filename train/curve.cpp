#include "train/curve.h"

#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "eval/chart.h"

namespace lacuna::train {
namespace {

constexpr std::string_view kAccuracy = "accuracy_";

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
  return cells;
}

void write_chart(const std::filesystem::path& path, std::string_view title, std::string_view quantity,
                 bool logarithmic, std::vector<ChartSeries> series) {
  std::erase_if(series, [](const ChartSeries& one) { return one.points.empty(); });
  if (series.empty()) return;
  for (size_t i = 0; i < series.size(); ++i) series[i].colour = i;
  ChartAxis y{std::string(quantity), logarithmic};
  if (!logarithmic) y.low = 0, y.high = 1;
  std::ofstream file(path);
  file << to_svg(Chart{std::string(title), {"step"}, y, std::move(series)});
  file.close();
  if (!file) throw InputError("cannot write {}", path.string());
}

}  // namespace

void plot_curves(const std::filesystem::path& log) {
  std::ifstream file(log);
  std::string line;
  std::getline(file, line);
  std::vector<ChartSeries> losses, accuracies;
  std::vector<std::vector<ChartSeries>*> kinds;  // of each column
  std::vector<size_t> places;
  for (const std::string& name : split(line)) {
    const bool is_accuracy = name.starts_with(kAccuracy);
    auto* const kind = name == "loss" ? &losses : is_accuracy ? &accuracies : nullptr;
    kinds.push_back(kind);
    places.push_back(kind == nullptr ? 0 : kind->size());
    if (kind != nullptr) kind->push_back({is_accuracy ? name.substr(kAccuracy.size()) : name, {}});
  }
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = split(line);
    for (size_t i = 0; i < cells.size() && i < kinds.size(); ++i) {
      if (kinds[i] == nullptr || cells[i].empty()) continue;
      (*kinds[i])[places[i]].points.push_back({std::stod(cells[0]), std::stod(cells[i])});
    }
  }
  write_chart(log.parent_path() / "loss.svg", "Loss", "loss", /*logarithmic=*/true, losses);
  write_chart(log.parent_path() / "accuracy.svg", "Accuracy on unseen samples", "accuracy",
              /*logarithmic=*/false, accuracies);
}

}  // namespace lacuna::train
