#include "base/error.h"
#include "tokenizer/jinja.h"

namespace lacuna::jinja {

struct Program {
  std::string name;
};

Template Template::parse(std::string_view /*source*/, std::string name) {
  Template made;
  made.program_ = std::make_shared<Program>(Program{std::move(name)});
  return made;
}

std::vector<Piece> Template::render(const nlohmann::ordered_json& /*values*/,
                                    const nlohmann::ordered_json& /*trusted*/, int64_t /*now*/,
                                    const Limits& /*limits*/) const {
  throw InputError("{}: the evaluator is not written yet", program_->name);
}

std::string text_of(std::span<const Piece> pieces) {
  std::string text;
  for (const Piece& piece : pieces) text += piece.text;
  return text;
}

}  // namespace lacuna::jinja
