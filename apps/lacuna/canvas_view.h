// Renders the canvas of one request as terminal lines, without any I/O.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/token.h"
#include "decode/decoder.h"
#include "terminal.h"

namespace lacuna {

enum class CellKind : uint8_t {
  kMask,
  kGiven,  ///< not written by the model: given text of an infill, or noise that is not denoised yet
  kToken,
  kEnd,  ///< a token that ends the answer
};

/// One position.
struct CanvasCell {
  CellKind kind = CellKind::kMask;
  std::string text;        ///< as the tokenizer decodes it: any bytes
  int32_t age = 0;         ///< passes since it was written; 0: in the last pass
  double confidence = -1;  ///< in [0, 1]; negative: unknown
  bool is_behind_end = false;

  bool operator==(const CanvasCell&) const = default;
};

/// Everything that is shown after a pass.
struct CanvasFrame {
  std::vector<CanvasCell> cells;
  size_t focus = 0;                 ///< cell that stays visible: the first masked one, or frame()'s fallback
  std::vector<std::string> status;  ///< parts of the last line, the most important one first
};

/// --color-by.
enum class ColorBy : uint8_t { kAge, kConfidence };

struct CanvasStyle {
  ColorDepth depth = ColorDepth::k256;
  ColorBy color_by = ColorBy::kAge;
};

/// Returns the lines of a frame, at most size.lines - 1, each at most size.columns - 1 wide; the last is the
/// status. Each position has a cell of fixed width on a grid that depends on size.columns only, so that
/// nothing moves while tokens arrive; long texts are cut. If the grid is higher than the terminal, shows the
/// part around the focus. The only escape sequences are colors and column moves.
std::vector<std::string> render(const CanvasFrame& frame, const CanvasStyle& style, TerminalSize size);

/// Follows the canvas of a request from pass to pass.
class CanvasFollower {
 public:
  using TextOfToken = std::function<std::string(TokenId)>;

  struct Settings {
    TokenId mask_id = -1;
    std::vector<TokenId> end_ids;  ///< tokens that end the answer; empty for an infill
    size_t first_shown = 0;        ///< positions before it have no cell
  };

  CanvasFollower(Settings settings, TextOfToken text_of, std::span<const TokenId> canvas);

  /// Updates the state with the canvas after a pass.
  ///   edits  the pass's insertions and deletions of positions
  void follow(std::span<const TokenId> canvas, std::span<const Commit> committed,
              const CanvasEdits& edits = {});

  /// The current frame, without status. The focus is the first mask, else position `fallback_focus`.
  CanvasFrame frame(int32_t fallback_focus) const;
  int64_t num_masked() const;

 private:
  struct Position {
    TokenId token = 0;
    int32_t pass = -1;  // pass that wrote it; -1: none
    double confidence = -1;
  };

  Settings settings_;
  TextOfToken text_of_;
  std::vector<Position> positions_;
  int32_t passes_ = 0;
};

}  // namespace lacuna
