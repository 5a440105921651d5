// A trace as `lacuna replay` reads it: refused with InputError, or every pass can be shown in lines that fit
// the terminal.
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "canvas_view.h"
#include "engine/trace.h"
#include "fuzz.h"
#include "mutators.h"

LACUNA_FUZZ_MUTATOR(fuzz::mutate_json_lines)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lacuna;
  constexpr size_t kMaxShown = 4096;
  std::istringstream stream(std::string(fuzz::text_of(data, size)));
  try {
    TraceReplay trace(stream, "trace", 0);
    const auto text_of = [&](TokenId token) { return trace.piece(token); };
    CanvasFollower follower({trace.mask_id(), trace.end_ids(), static_cast<size_t>(trace.prompt_length())},
                            text_of, trace.canvas());
    for (int passes = 0; passes < 64 && trace.next(); ++passes) {
      if (trace.canvas().size() > kMaxShown) continue;
      follower.follow(trace.canvas(), trace.committed(), trace.edits());
      const TerminalSize terminal{40, 10};
      const std::vector<std::string> lines = render(follower.frame(0), {}, terminal);
      fuzz::check(lines.size() < static_cast<size_t>(terminal.lines));
    }
  } catch (const InputError&) {
  }
  return 0;
}
