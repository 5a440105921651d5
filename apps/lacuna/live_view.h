// The canvas filling in, on a terminal.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "model/config.h"
#include "tokenizer/tokenizer.h"

namespace lacuna {

/// Draws the generated part of one request after each step, in place, on standard error: masks as shaded
/// cells, committed tokens where they land (slots in a colour for each iteration), the newest in reverse,
/// what follows the end of the answer dimmed, and a line with steps, tokens per second and rows. Nothing that
/// a model writes reaches the terminal as a control character. One view at a time; where a signal ends the
/// program, the cursor is shown again.
class LiveView {
 public:
  LiveView(const ModelConfig& config, const Tokenizer& tokenizer);
  /// Leaves the terminal as it was: the view is erased and the cursor shown.
  ~LiveView();
  LiveView(const LiveView&) = delete;
  LiveView& operator=(const LiveView&) = delete;

  void update(const StepEvent& event);

 private:
  std::vector<std::string> canvas_lines(const Decoder& decoder, int columns, size_t room) const;
  std::string status_line(const StepEvent& event) const;
  void draw(const std::vector<std::string>& lines);

  const ModelConfig& config_;
  const Tokenizer& tokenizer_;
  std::vector<int32_t> fresh_;             // positions committed since the last drawing
  std::map<int32_t, int32_t> iterations_;  // by position: the iteration that wrote its slot
  Stopwatch since_drawing_;
  int lines_drawn_ = 0;
};

}  // namespace lacuna
