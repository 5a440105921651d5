// A template, then its values as JSON, with a zero byte between them. Rendering is refused with InputError,
// or gives pieces within the limits: none empty, those next to one another of different origin, and none the
// caller's where there are no values.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "fuzz.h"
#include "tokenizer/jinja.h"
#include "tokenizer/unicode.h"
#include "work.h"

namespace {

using Json = nlohmann::ordered_json;
using lacuna::jinja::Limits;
using lacuna::jinja::Piece;
using lacuna::jinja::Template;

constexpr Limits kLimits = {.max_steps = 20'000, .max_output_bytes = 1 << 16, .max_depth = 16};

std::optional<std::vector<Piece>> render(const Template& made, const Json& values, const Json& trusted) {
  try {
    return made.render(values, trusted, 1767323045, kLimits);
  } catch (const lacuna::InputError&) {
    return std::nullopt;
  }
}

void check_pieces(const std::vector<Piece>& pieces) {
  for (size_t i = 0; i < pieces.size(); ++i) {
    fuzz::check(!pieces[i].text.empty());
    fuzz::check(i == 0 || pieces[i].is_input != pieces[i - 1].is_input);
  }
  const std::string text = text_of(pieces);
  fuzz::check(text.size() <= kLimits.max_output_bytes);
  fuzz::check(lacuna::well_formed_prefix(text) == text.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest = fuzz::text_of(data, size);
  const fuzz::MeasuredWork work(size, {.base = 2 * kLimits.max_steps * 64, .per_byte = 64});
  const std::string_view source = fuzz::next_text(rest);
  const Json read = Json::parse(rest, nullptr, false);
  const Json values = read.is_object() ? read : Json::object();
  try {
    const Template made = Template::parse(source, "template");
    if (const auto pieces = render(made, values, nullptr)) check_pieces(*pieces);
    // The same values as the template's own: the text cannot depend on whose they are.
    const auto own = render(made, nullptr, values);
    if (own.has_value()) {
      check_pieces(*own);
      for (const Piece& piece : *own) fuzz::check(!piece.is_input);
    }
  } catch (const lacuna::InputError&) {  // the one way to refuse
  }
  return 0;
}
