#include "report_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/error.h"

namespace lacuna {
namespace {

std::string machine_of(const nlohmann::json& row) {
  const nlohmann::json& machine = row.at("machine");
  return fmt::format("{}, {} cores, {}", machine.at("processor").get<std::string>(),
                     machine.at("cores").get<int64_t>(), machine.at("instructions").get<std::string>());
}

std::string cell_text(const nlohmann::json& value) {
  if (value.is_number_float()) return fmt::format("{:.4g}", value.get<double>());
  if (value.is_string()) return value.get<std::string>();
  return value.is_null() ? "-" : value.dump();
}

std::string listed(const std::set<std::string>& all) {
  std::string text;
  for (const std::string& each : all) text += (text.empty() ? "" : "; ") + each;
  return text;
}

}  // namespace

Measurement measurement_of(const nlohmann::json& row) {
  const nlohmann::json& result = row.at("result");
  const auto number = [&](const char* key) { return result.at(key).get<double>(); };
  Measurement found;
  found.machine = machine_of(row);
  found.commit = row.at("commit").get<std::string>();
  found.samples = result.at("samples").get<int64_t>();
  found.accuracy = number("accuracy");
  found.accuracy_low = number("accuracy_low");
  found.accuracy_high = number("accuracy_high");
  found.steps = number("steps_mean");
  found.passes = result.value("passes_mean", found.steps);  // older rows have neither
  found.tokens_per_forward = result.value("tokens_per_forward", 0.0);
  found.rows = number("rows");
  found.row_ratio = number("row_ratio");
  found.layer_flops = number("layer_flops");
  // Older rows call the same passes without cache or lock the baseline.
  const bool is_older = !result.contains("layer_flops_uncached");
  found.layer_flops_ratio =
      number("layer_flops") / number(is_older ? "layer_flops_baseline" : "layer_flops_uncached");
  found.seconds = number("seconds") / number("samples");
  found.processor_seconds = number("processor_seconds") / number("samples");
  found.canvas_tokens = result.at("settings").at("gen-length").get<double>();
  if (result.contains("judge")) {
    found.perplexity = result.at("judge").at("perplexity").get<double>();
    found.repetition = result.at("judge").at("repetition").get<double>();
  }
  found.row_ratio_by_step = row.at("row_ratio_by_step").get<std::vector<double>>();
  found.texts = result.value("texts", "");  // not in older rows
  return found;
}

DecodeComparison comparison_of(const nlohmann::json& row) {
  const nlohmann::json& result = row.at("result");
  DecodeComparison found;
  found.machine = machine_of(row);
  found.commit = row.at("commit").get<std::string>();
  found.plain_passes = result.at("plain").at("passes").get<int64_t>();
  found.passes = result.at("setting").at("passes").get<int64_t>();
  found.plain_rows = result.at("plain").at("rows").get<int64_t>();
  found.rows = result.at("setting").at("rows").get<int64_t>();
  found.flops_ratio = result.at("flops_ratio").get<double>();
  found.time_ratio = result.at("time_ratio").get<double>();
  found.plain_tokens_per_second = result.at("plain").value("tokens_per_second", 0.0);  // not in older rows
  found.tokens_per_second = result.at("setting").value("tokens_per_second", 0.0);
  return found;
}

DecodingTrace trace_of(const nlohmann::json& row) {
  DecodingTrace found;
  found.machine = machine_of(row);
  found.commit = row.at("commit").get<std::string>();
  found.prompt_length = row.at("prompt_length").get<int32_t>();
  for (const nlohmann::json& line : row.at("result").at("trace")) {
    DecodingTrace::Pass pass;
    pass.kind = line.at("kind").get<std::string>();
    pass.iteration = line.value("iteration", 0);  // of models that plan slots, as the slots
    pass.rows = static_cast<int64_t>(line.at("rows").size());
    for (const nlohmann::json& commit : line.at("committed")) {
      pass.committed.push_back({commit.at("position").get<int32_t>(), commit.at("token").get<int32_t>()});
    }
    for (const nlohmann::json& slot : line.value("slots", nlohmann::json::array())) {
      pass.slots.push_back({slot.at("position").get<int32_t>(), slot.at("selected").get<bool>(),
                            slot.at("accepted").get<int32_t>(),
                            slot.at("tokens").get<std::vector<int32_t>>()});
    }
    found.passes.push_back(std::move(pass));
  }
  for (const nlohmann::json& text : row.at("result").at("texts")) {
    found.texts[text.at("token").get<int32_t>()] = text.at("text").get<std::string>();
  }
  return found;
}

std::vector<BlockTimingRow> block_timings_of(const nlohmann::json& row) {
  std::vector<BlockTimingRow> rows;
  for (const nlohmann::json& result : row.at("result").at("results")) {
    const auto number = [&](const char* key) { return result.at(key).get<double>(); };
    const auto later = [&](const char* key) { return result.at("later_step").at(key).get<double>(); };
    rows.push_back({result.at("prefix").get<int32_t>(), result.at("sparse").get<std::string>(),
                    number("block_seconds"), number("speedup"), number("flops_allow"),
                    number("first_step_ratio"), later("attention"), later("selection"), later("rest")});
  }
  return rows;
}

std::vector<AnalysisTable> analysis_of(const nlohmann::json& row) {
  std::vector<AnalysisTable> tables;
  for (const nlohmann::json& table : row.at("result").at("tables")) {
    tables.push_back({table.at("head").get<std::vector<std::string>>(),
                      table.at("rows").get<std::vector<std::vector<nlohmann::json>>>()});
  }
  return tables;
}

const nlohmann::json& AnalysisTable::cell(size_t row, std::string_view column) const {
  static const nlohmann::json kNone;
  const auto found = std::find(head.begin(), head.end(), column);
  return found == head.end() ? kNone : rows.at(row).at(static_cast<size_t>(found - head.begin()));
}

double AnalysisTable::number(size_t row, std::string_view column) const {
  const nlohmann::json& found = cell(row, column);
  return found.is_number() ? found.get<double>() : 0;
}

std::string AnalysisTable::text(size_t row, std::string_view column) const {
  const nlohmann::json& found = cell(row, column);
  return found.is_string() ? found.get<std::string>() : "";
}

void check_row(const nlohmann::json& row) {
  const auto command = row.at("command").get<std::string>();
  if (command.starts_with(kDecodeBenchCommand)) {
    comparison_of(row);
  } else if (command.starts_with(kBlockBenchCommand)) {
    block_timings_of(row);
  } else if (command.starts_with(kRunCommand)) {
    trace_of(row);
  } else if (command.starts_with(kAnalyzeCommand)) {
    analysis_of(row);
  } else if (command.starts_with(kEvalCommand)) {
    measurement_of(row);
  } else {
    row.at("result").get<nlohmann::json::object_t>();
  }
}

void write_files(const std::string& folder, const std::vector<PageFile>& files) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  for (const PageFile& file : files) {
    const std::filesystem::path path = std::filesystem::path(folder) / file.name;
    std::ofstream stream(path, std::ios::binary);
    stream << file.text;
    stream.flush();
    if (!stream) throw InputError("--out: {} cannot be written", path.string());
    fmt::print("{}\n", path.string());
  }
}

std::string percent(double share) {
  return fmt::format("{:.1f}%", 100 * share);
}

std::string times(double ratio) {
  return fmt::format("{:.2f}×", ratio);
}

std::string code(const std::string& command) {
  return "`" + command + "`";
}

std::string accuracy_text(const Measurement& of) {
  return fmt::format("{} ({:.1f} to {:.1f})", percent(of.accuracy), 100 * of.accuracy_low,
                     100 * of.accuracy_high);
}

Table::Table(const std::vector<std::string>& head) {
  row(head);
  row(std::vector<std::string>(head.size(), "---"));
}

void Table::row(const std::vector<std::string>& cells) {
  for (const std::string& cell : cells) text_ += "| " + cell + ' ';
  text_ += "|\n";
}

template <typename Figures>
Figures PageWriter::noted(Figures figures) {
  machines_.insert(figures.machine);
  commits_.insert(figures.commit);
  return figures;
}

Measurement PageWriter::evaluate(const std::string& command, Purpose purpose) {
  return noted(measurement_of(measure_(command, purpose)));
}

DecodeComparison PageWriter::compare_decodes(const std::string& command) {
  return noted(comparison_of(measure_(command, Purpose::kFigures)));
}

DecodingTrace PageWriter::trace(const std::string& command) {
  return noted(trace_of(measure_(command, Purpose::kFigures)));
}

nlohmann::json PageWriter::noted_row(const std::string& command) {
  nlohmann::json row = measure_(command, Purpose::kFigures);
  machines_.insert(machine_of(row));
  commits_.insert(row.at("commit").get<std::string>());
  return row;
}

std::vector<AnalysisTable> PageWriter::analyze(const std::string& command) {
  return analysis_of(noted_row(command));
}

std::vector<BlockTimingRow> PageWriter::time_blocks(const std::string& command) {
  return block_timings_of(noted_row(command));
}

nlohmann::json PageWriter::printed(const std::string& command) {
  return noted_row(command).at("result");
}

void PageWriter::add_tables(const std::string& command) {
  for (const AnalysisTable& found : analyze(command)) {
    Table result(found.head);
    for (const auto& row : found.rows) {
      std::vector<std::string> cells(row.size());
      std::transform(row.begin(), row.end(), cells.begin(), cell_text);
      result.row(cells);
    }
    table(result);
  }
  paragraph(code(command));
}

void PageWriter::heading(std::string_view title) {
  text_ += fmt::format("\n## {}\n\n", title);
}

void PageWriter::paragraph(std::string_view words) {
  text_ += fmt::format("{}\n\n", words);
}

void PageWriter::table(const Table& finished) {
  text_ += finished.text() + '\n';
}

void PageWriter::plot(const std::string& name, const Chart& chart) {
  picture(name, chart.title, to_svg(chart));
}

void PageWriter::picture(const std::string& name, std::string_view title, std::string svg) {
  text_ += fmt::format("![{}]({})\n\n", title, name);
  plots_.push_back({name, std::move(svg)});
}

std::string PageWriter::machines() const {
  return listed(machines_);
}

std::string PageWriter::commits() const {
  return listed(commits_);
}

std::vector<PageFile> PageWriter::files(const std::string& name, const std::string& introduction) const {
  std::vector<PageFile> files{{name, introduction + text_}};
  files.insert(files.end(), plots_.begin(), plots_.end());
  return files;
}

void Frontier::mark(const std::string& family, const std::string& label, double x, double y) {
  std::vector<ChartPoint>& points = points_[family];
  const auto same = std::find_if(points.begin(), points.end(),
                                 [&](const ChartPoint& other) { return other.x == x && other.y == y; });
  if (same == points.end()) {
    points.push_back({x, y, label});
  } else {
    same->label += ", " + label;
  }
}

std::vector<ChartSeries> Frontier::series() const {
  std::vector<ChartSeries> all;
  for (const auto& [family, points] : points_) all.push_back({family, points, all.size(), false, false});
  return all;
}

}  // namespace lacuna
