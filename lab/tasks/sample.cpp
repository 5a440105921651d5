#include "tasks/sample.h"

#include "base/rng.h"

namespace lacuna {
namespace {

constexpr uint64_t kTestShare = 8;  // one prompt in eight is for testing

}  // namespace

Split split_of(std::string_view prompt) {
  uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a, 64 bits
  for (const char c : prompt) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  // FNV's low bits depend on the last bytes alone; all stories end alike.
  return mix_bits(hash) % kTestShare == 0 ? Split::kTest : Split::kTrain;
}

}  // namespace lacuna
