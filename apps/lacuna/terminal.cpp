#include "terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace lacuna {

bool can_draw_on(std::FILE* stream) {
  const char* const kind = std::getenv("TERM");
  const char* const no_color = std::getenv("NO_COLOR");
  return isatty(fileno(stream)) != 0 && kind != nullptr && std::string_view(kind) != "dumb" &&
         (no_color == nullptr || *no_color == '\0');
}

TerminalSize terminal_size(std::FILE* stream) {
  winsize size{};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

}  // namespace lacuna
