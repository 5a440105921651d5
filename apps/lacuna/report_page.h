// What the pages of `lacuna report` are made of: the figures of raw rows, and tables and plots about them.
// Nothing here computes or keeps time: the same rows give the same page.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "eval/chart.h"

namespace lacuna {

/// What a raw row's command gives, by how the command begins; with the program's name in front.
inline constexpr std::string_view kEvalCommand = "lacuna eval ";
inline constexpr std::string_view kDecodeBenchCommand = "lacuna bench decode ";
inline constexpr std::string_view kBlockBenchCommand = "lacuna bench block ";
inline constexpr std::string_view kRunCommand = "lacuna run ";  ///< its --trace
inline constexpr std::string_view kAnalyzeCommand = "lacuna analyze ";
/// Any other command's row has the JSON object that it prints on its last line.
inline constexpr std::string_view kStepBenchCommand = "lacuna bench step ";
inline constexpr std::string_view kQuantizeCommand = "lacuna quantize ";

/// One setting's figures, as `lacuna eval` gives them.
struct Measurement {
  std::string machine, commit;
  int64_t samples = 0;
  double accuracy = 0, accuracy_low = 0, accuracy_high = 1;
  double steps = 0;               ///< mean
  double passes = 0;              ///< mean, those of a guide included
  double tokens_per_forward = 0;  ///< answer tokens for each such pass
  double rows = 0;
  double row_ratio = 0;  ///< to the same passes without cache or lock
  double layer_flops = 0, layer_flops_ratio = 0;
  double seconds = 0, processor_seconds = 0;  ///< per sample
  double canvas_tokens = 0;                   ///< generated per sample, those after end tokens included
  std::optional<double> perplexity, repetition;
  std::vector<double> row_ratio_by_step;
  std::string texts;  ///< of all answers, a fingerprint

  double answer_tokens() const { return tokens_per_forward * passes; }  ///< per sample
  double rows_per_sample() const { return rows / static_cast<double>(samples); }
};

/// Two decoders' whole runs at one shape, as `lacuna bench decode` gives them.
struct DecodeComparison {
  std::string machine, commit;
  int64_t plain_passes = 0, passes = 0;
  int64_t plain_rows = 0, rows = 0;
  double flops_ratio = 0, time_ratio = 0;
  double plain_tokens_per_second = 0, tokens_per_second = 0;  ///< of canvas
};

/// One policy behind one prefix, as `lacuna bench block` gives it.
struct BlockTimingRow {
  int32_t prefix = 0;
  std::string sparse;
  double block_seconds = 0;
  double speedup = 0, flops_allow = 0, first_step_ratio = 0;  ///< to exact attention
  double later_attention = 0, later_selection = 0,
         later_rest = 0;  ///< seconds of a step that is not the first
};

/// Figures of the same kind, as `lacuna analyze` gives them.
struct AnalysisTable {
  std::vector<std::string> head;
  std::vector<std::vector<nlohmann::json>> rows;

  /// The number in this column, 0 where there is none.
  double number(size_t row, std::string_view column) const;
  /// The text in this column, empty where there is none.
  std::string text(size_t row, std::string_view column) const;
  /// What this column holds, null where there is none.
  const nlohmann::json& cell(size_t row, std::string_view column) const;
};

/// What each pass of one decoding did, as `lacuna run --trace` has it.
struct DecodingTrace {
  struct Commit {
    int32_t position = 0;
    int32_t token = 0;
  };
  struct Slot {
    int32_t position = 0;
    bool selected = false;
    int32_t accepted = 0;
    std::vector<int32_t> tokens;
  };
  struct Pass {
    std::string kind;
    int32_t iteration = 0;
    int64_t rows = 0;  ///< that it computed
    std::vector<Commit> committed;
    std::vector<Slot> slots;
  };

  std::string machine, commit;
  int32_t prompt_length = 0;
  std::vector<Pass> passes;
  std::map<int32_t, std::string> texts;  ///< of the tokens, special ones by their names
};

// The figures of a raw row. They throw nlohmann::json::exception if one is missing.
Measurement measurement_of(const nlohmann::json& row);
DecodeComparison comparison_of(const nlohmann::json& row);
DecodingTrace trace_of(const nlohmann::json& row);
std::vector<BlockTimingRow> block_timings_of(const nlohmann::json& row);
std::vector<AnalysisTable> analysis_of(const nlohmann::json& row);
/// Reads what the row's command gives.
void check_row(const nlohmann::json& row);

/// Whether a command's times matter, so that it is run more than once.
enum class Purpose : uint8_t { kFigures, kTimes };

/// The raw row of a command: "lacuna eval -m mini-llada ...". Of several runs, the fastest run's times.
using Measure = std::function<nlohmann::json(const std::string& command, Purpose purpose)>;

/// A file of the page.
struct PageFile {
  std::string name;
  std::string text;
};

/// Writes the files into a folder, which it makes, and prints their paths. InputError names --out.
void write_files(const std::string& folder, const std::vector<PageFile>& files);

std::string percent(double share);
std::string times(double ratio);               ///< "1.50×"
std::string code(const std::string& command);  ///< as code of the page
/// A share with its 95% interval.
std::string accuracy_text(const Measurement& of);

class Table {
 public:
  explicit Table(const std::vector<std::string>& head);

  void row(const std::vector<std::string>& cells);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// A page while it is written.
class PageWriter {
 protected:
  explicit PageWriter(const Measure& measure) : measure_(measure) {}

  Measurement evaluate(const std::string& command, Purpose purpose);
  DecodeComparison compare_decodes(const std::string& command);
  DecodingTrace trace(const std::string& command);
  std::vector<AnalysisTable> analyze(const std::string& command);
  std::vector<BlockTimingRow> time_blocks(const std::string& command);
  /// The object that the command prints.
  nlohmann::json printed(const std::string& command);

  void heading(std::string_view title);
  void paragraph(std::string_view words);
  void table(const Table& finished);
  /// All tables that an analysis gives, and its command.
  void add_tables(const std::string& command);
  void plot(const std::string& name, const Chart& chart);
  void picture(const std::string& name, std::string_view title, std::string svg);

  /// Where and from what all that was asked for was measured.
  std::string machines() const;
  std::string commits() const;

  /// The page under its name, then its plots.
  std::vector<PageFile> files(const std::string& name, const std::string& introduction) const;

 private:
  template <typename Figures>
  Figures noted(Figures figures);
  /// The row of a command whose figures do not say where they come from.
  nlohmann::json noted_row(const std::string& command);

  const Measure& measure_;
  std::set<std::string> machines_, commits_;
  std::string text_;
  std::vector<PageFile> plots_;
};

/// Points of a plot by family. Settings with the same figures share a point.
class Frontier {
 public:
  void mark(const std::string& family, const std::string& label, double x, double y);
  /// A mark at each point, the families by name.
  std::vector<ChartSeries> series() const;

 private:
  std::map<std::string, std::vector<ChartPoint>> points_;
};

}  // namespace lacuna
