// Stop texts and the tokens of an answer, with zero bytes between them; the last text is the answer. The
// answer ends with the first token that completes a stop text, and what is given is the text before it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/stop.h"
#include "fuzz.h"
#include "tiny_tokens.h"

namespace {

bool holds_any(std::string_view text, const std::vector<std::string>& stops) {
  return std::any_of(stops.begin(), stops.end(), [&](const std::string& stop) {
    return !stop.empty() && text.find(stop) != std::string_view::npos;
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lacuna;
  constexpr size_t kMaxBytes = 1024;
  if (size > kMaxBytes) return 0;
  static const Tokenizer tokenizer = fuzz::tiny_tokenizer();
  std::vector<std::string> stops;
  std::string_view rest = fuzz::text_of(data, size);
  while (rest.find('\0') != std::string_view::npos) stops.emplace_back(fuzz::next_text(rest));
  const std::vector<TokenId> answer = tokenizer.encode(rest, SpecialTokens::kAsAtoms);
  const StopFinder finder = make_stop_finder(tokenizer, stops);
  const std::string text = tokenizer.decode(answer);
  const std::optional<int32_t> length = finder ? finder(answer) : std::nullopt;
  fuzz::check(length.has_value() == holds_any(text, stops));
  if (!length) return 0;
  const std::span<const TokenId> tokens(answer);
  const auto count = static_cast<size_t>(*length);
  fuzz::check(holds_any(tokenizer.decode(tokens.first(count)), stops));
  fuzz::check(!holds_any(tokenizer.decode(tokens.first(count - 1)), stops));
  std::erase_if(stops, [](const std::string& stop) { return stop.empty(); });
  fuzz::check(!holds_any(before_stop(text, stops), stops));
  return 0;
}
