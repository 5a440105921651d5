// The canvas filling in, on a terminal.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "canvas_view.h"
#include "engine/engine.h"
#include "model/config.h"
#include "terminal.h"
#include "tokenizer/tokenizer.h"

namespace lacuna {

struct LiveFlags {
  bool no_live = false;
  ColorChoice color = ColorChoice::kAuto;
  ColorBy color_by = ColorBy::kAge;
  std::optional<double> fps;  ///< passes shown a second, at most

  /// Whether a canvas can be drawn on standard error, and is wanted.
  bool can_draw() const { return !no_live && can_draw_on(stderr); }
};

/// --fps, --color, --color-by.
void add_view_flags(CLI::App& command, LiveFlags& flags);
/// The same, and --no-live.
void add_live_flags(CLI::App& command, LiveFlags& flags);

/// Draws frames in place on standard error, each as a whole where the terminal knows synchronized updates.
/// One at a time. While it lives, the cursor is hidden and what is typed is not echoed; both are restored at
/// its end and where a signal ends or stops the program. Signals that the program handles are left to it.
class LiveView {
 public:
  explicit LiveView(const LiveFlags& flags);
  /// The last frame is erased.
  ~LiveView();
  LiveView(const LiveView&) = delete;
  LiveView& operator=(const LiveView&) = delete;

  /// With --fps, waits until it is time for the next frame. Without, false where it is too early for one.
  bool is_time();
  void show(const CanvasFrame& frame);

 private:
  void draw(const std::vector<std::string>& lines, TerminalSize size);

  LiveFlags flags_;
  CanvasStyle style_;
  std::optional<Stopwatch> since_frame_;
  TerminalSize size_;        // size of the terminal at the last frame
  std::vector<int> widths_;  // columns of each line of the last frame
};

/// Shows one request while it is decoded.
class LiveRequest {
 public:
  ///   shows_prompt  an infill: everything is on the canvas, and no token ends it
  ///   label         first part of the status; may be empty
  LiveRequest(const LiveFlags& flags, const ModelConfig& config, const Tokenizer& tokenizer,
              const Decoder& decoder, bool shows_prompt = false, std::string label = "");

  void update(const StepEvent& event);

 private:
  std::vector<std::string> status(const StepEvent& event) const;

  LiveView view_;
  CanvasFollower follower_;
  std::string label_;
};

}  // namespace lacuna
