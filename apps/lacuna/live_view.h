// Animates the canvas on a terminal while a request runs.
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
  std::optional<double> fps;  ///< most frames per second

  /// Whether to draw: --no-live is absent and standard error is a suitable terminal.
  bool can_draw() const { return !no_live && can_draw_on(stderr); }
};

/// --fps, --color, --color-by.
void add_view_flags(CLI::App& command, LiveFlags& flags);
/// add_view_flags(), and --no-live.
void add_live_flags(CLI::App& command, LiveFlags& flags);

/// Draws frames in place on standard error, without flicker if the terminal knows synchronized updates. Only
/// one may exist. Hides the cursor and disables echo; the destructor restores both, and so do handlers of
/// signals that end or stop the program. Signals that the program handles itself are left alone.
class LiveView {
 public:
  explicit LiveView(const LiveFlags& flags);
  /// Erases the last frame.
  ~LiveView();
  LiveView(const LiveView&) = delete;
  LiveView& operator=(const LiveView&) = delete;

  /// With --fps, waits until the next frame is due. Otherwise returns false if it is too early for one.
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
  ///   shows_prompt  for an infill: shows the whole canvas, on which no token is an end
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
