
#include "base/error.h"
#include "tokenizer/jinja.h"
#include "tokenizer/jinja/evaluator.h"
#include "tokenizer/jinja/parser.h"
#include "tokenizer/unicode.h"

namespace lacuna::jinja {
namespace {

using Json = nlohmann::ordered_json;

Value value_of(Runtime& runtime, const Json& json, bool is_input, int depth) {
  runtime.step();
  if (depth > kMaxValueDepth) fail("the values are nested deeper than {}", kMaxValueDepth);
  const auto text_value = [&](std::string_view bytes) {
    runtime.touch(bytes.size());
    if (well_formed_prefix(bytes) == bytes.size())
      return Value::text(runtime, make_text(runtime, bytes, is_input));
    return Value::text(runtime, make_text(runtime, replace_ill_formed(bytes), is_input));
  };
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value::boolean(json.get<bool>());
    case Json::value_t::number_integer:
      return Value::integer(json.get<int64_t>(), is_input);
    case Json::value_t::number_unsigned:
      if (json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
        fail("the number {} of the values needs more than 64 bits", json.get<uint64_t>());
      }
      return Value::integer(json.get<int64_t>(), is_input);
    case Json::value_t::number_float:
      return Value::real(json.get<double>(), is_input);
    case Json::value_t::string:
      return text_value(json.get_ref<const std::string&>());
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& item : json) items.push_back(value_of(runtime, item, is_input, depth + 1));
      return Value::list(runtime, std::move(items));
    }
    case Json::value_t::object: {
      DictBuilder builder(runtime);
      for (const auto& [key, item] : json.items()) {
        builder.set(text_value(key), value_of(runtime, item, is_input, depth + 1));
      }
      return Value::of(builder.take());
    }
    default:
      return {};
  }
}

void add_globals(Runtime& runtime, const Json& values, bool is_input,
                 std::unordered_map<std::string, Value>& globals) {
  if (values.is_null()) return;
  if (!values.is_object()) fail("the values are no object");
  for (const auto& [name, value] : values.items()) {
    globals.insert_or_assign(name, value_of(runtime, value, is_input, 0));
  }
}

std::vector<Piece> pieces_of(const Text& text) {
  std::vector<Piece> pieces;
  size_t position = 0;
  const auto add = [&](size_t end, bool is_input) {
    if (end > position) pieces.push_back({text.bytes.substr(position, end - position), is_input});
    position = end;
  };
  for (const TextRange& input : text.inputs) {
    add(input.begin, false);
    add(input.end, true);
  }
  add(text.bytes.size(), false);
  return pieces;
}

}  // namespace

Template Template::parse(std::string_view source, std::string name) {
  Template made;
  made.program_ = parse_program(source, std::move(name));
  return made;
}

std::vector<Piece> Template::render(const Json& values, const Json& trusted, int64_t now,
                                    const Limits& limits) const {
  Runtime runtime(limits, now);
  try {
    std::unordered_map<std::string, Value> globals;
    add_globals(runtime, values, true, globals);
    add_globals(runtime, trusted, false, globals);
    return pieces_of(Evaluator(runtime, *program_, std::move(globals)).run());
  } catch (const RenderError& error) {
    throw InputError("{}: line {}: {}", program_->name, runtime.line, error.what());
  }
}

std::string text_of(std::span<const Piece> pieces) {
  std::string text;
  for (const Piece& piece : pieces) text += piece.text;
  return text;
}

}  // namespace lacuna::jinja
