// Traces of `lacuna run --trace`, version 2: written here and replayed.
#pragma once

#include <cstdint>
#include <istream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/token.h"
#include "engine/engine.h"
#include "model/config.h"
#include "tokenizer/tokenizer.h"

namespace lacuna {

/// Version 1, in which a canvas changes its length only at its end, can be read too.
inline constexpr int kTraceVersion = 2;

/// Records the text of each token once.
class PieceLog {
 public:
  ///   tokenizer  null: tokens have no text
  explicit PieceLog(const Tokenizer* tokenizer) : tokenizer_(tokenizer) {}

  /// Sets json["pieces"] to {id: text} of the ids not recorded yet, if any.
  void add(nlohmann::ordered_json& json, std::span<const TokenId> ids);

 private:
  const Tokenizer* tokenizer_;
  std::set<TokenId> told_;
};

/// Writes the lines of one request: those of trace_start() and trace_step(), plus the data to follow the
/// canvas without the model. start() adds "v", "mask" (-1: none), "ends" (end tokens) and "pieces" ({id:
/// text}). step() adds "drop" (positions) and "insert" ([position, number of masks]) for edits, "length" if
/// the canvas length changes, "pieces" of new tokens, and "changed": [[position, token], ...] for changes
/// that neither commits nor a new length explain.
class TraceLog {
 public:
  ///   tokenizer   null: tokens have no text
  ///   with_plans  whether step() also adds "plan", the request's part of the pass (model/plan_json.h)
  TraceLog(const ModelConfig& config, const Tokenizer* tokenizer, bool with_plans = false)
      : config_(config), pieces_(tokenizer), with_plans_(with_plans) {}

  nlohmann::ordered_json start(size_t request, const Decoder& decoder);
  nlohmann::ordered_json step(const StepEvent& event);

 private:
  const ModelConfig& config_;
  PieceLog pieces_;
  bool with_plans_;
  std::vector<TokenId> canvas_;  // canvas after the last line
};

/// Replays one request of an untrusted trace. Every line is checked; an InputError begins with the file and
/// the line. Older traces have no version, mask, ends and pieces.
class TraceReplay {
 public:
  // Limits of a trace:
  static constexpr size_t kMaxLineBytes = size_t{1} << 26;
  static constexpr int32_t kMaxPositions = 1 << 20;
  static constexpr size_t kMaxPieceBytes = size_t{1} << 26;  ///< bytes of all texts together
  static constexpr size_t kMaxMoved = size_t{1} << 28;       ///< positions that edits and new lengths move

  /// Reads up to the request's first line. `stream` must outlive it.
  TraceReplay(std::istream& stream, std::string name, int64_t request);

  /// Applies the request's next pass; false at the end of the trace.
  bool next();

  int32_t prompt_length() const { return prompt_length_; }
  TokenId mask_id() const { return mask_id_; }
  const std::vector<TokenId>& end_ids() const { return end_ids_; }
  std::span<const TokenId> canvas() const { return canvas_; }
  /// The token's text in the trace, else its id in angle brackets.
  std::string piece(TokenId token) const;

  // Data of the last pass:
  const std::vector<Commit>& committed() const { return committed_; }
  const CanvasEdits& edits() const { return edits_; }
  int64_t step() const { return step_; }
  int64_t num_rows() const { return num_rows_; }
  int64_t num_passes() const { return num_passes_; }
  double seconds() const { return seconds_; }  ///< of all passes so far

 private:
  /// Reads the request's next line: its first one, or one of a pass. Returns false at the end.
  bool read_own_line(bool is_first, nlohmann::json& line);
  void read_start(const nlohmann::json& line);
  void read_step(const nlohmann::json& line);
  void read_edits(const nlohmann::json& line);
  void read_changes(const nlohmann::json& line);
  void read_pieces(const nlohmann::json& line);
  /// Sets the token at a position; a position beyond the end extends the canvas with masks.
  void set(int64_t position, TokenId token);
  void change_length(size_t length);
  /// Throws InputError beyond kMaxMoved.
  void count_moved(size_t positions);

  std::istream& stream_;
  std::string name_;
  int64_t request_;
  int64_t line_number_ = 0;
  std::string place_;  // begins messages: the file and the line
  int32_t prompt_length_ = 0;
  TokenId mask_id_ = -1;
  std::vector<TokenId> end_ids_;
  std::vector<TokenId> canvas_;
  std::map<TokenId, std::string> pieces_;
  size_t piece_bytes_ = 0;
  size_t num_moved_ = 0;
  std::vector<Commit> committed_;
  CanvasEdits edits_;
  int64_t step_ = 0;
  int64_t num_rows_ = 0;
  int64_t num_passes_ = 0;
  double seconds_ = 0;
};

}  // namespace lacuna
