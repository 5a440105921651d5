#pragma once

#include <cstdio>

namespace lacuna {

/// Whether `stream` is a terminal that can be drawn on, and NO_COLOR is not set.
bool can_draw_on(std::FILE* stream);

struct TerminalSize {
  int columns = 80;
  int lines = 24;
};

/// Now; the usual 80 by 24 where the terminal does not say.
TerminalSize terminal_size(std::FILE* stream);

}  // namespace lacuna
