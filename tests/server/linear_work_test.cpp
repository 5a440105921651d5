// Work and memory of large random inputs of each kind, counted as steps and bytes of a Budget for each byte
// of the input. LACUNA_WORK_SEEDS is how many of each are made; 200 are tried before a release.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/budget.h"
#include "base/error.h"
#include "constraint/constraint.h"
#include "running_server.h"
#include "tokenizer/jinja.h"
#include "tokenizer/tokenizer.h"

namespace lacuna::linear_work_test {
namespace {

using nlohmann::json;

/// Random parts of inputs.
class Maker {
 public:
  explicit Maker(unsigned seed) : random_(seed) {}

  int below(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }
  bool flips() { return below(2) == 0; }
  template <typename T>
  const T& one_of(const std::vector<T>& all) {
    return all[static_cast<size_t>(below(static_cast<int>(all.size())))];
  }
  std::string word() {
    return one_of<std::string>({"a", "ab", "name", "kind_of", "x1", "é", "漢字", "\xF0\x9F\x98\x80"});
  }

  /// Up to `size` bytes of pieces.
  std::string text(size_t size) {
    const std::vector<std::string> pieces = {
        " ", "\n", "a", "ab", "1", "!?", "é", "漢", "\xF0\x9F\x98\x80", "<|im_end|>", "<|"};
    std::string made;
    const bool repeats = below(3) == 0;
    const std::string same = one_of(pieces);
    while (made.size() < size) made += repeats ? same : one_of(pieces);
    return made;
  }

  json schema(int depth, const std::vector<std::string>& references) {
    switch (below(depth > 0 ? 12 : 5)) {
      case 0:
        return {{"type", one_of<std::string>({"string", "integer", "number", "boolean", "null"})}};
      case 1:
        return {{"enum", {word(), word() + word(), below(100), nullptr}}};
      case 2:
        return {{"type", "string"}, {"pattern", regex(2)}};
      case 3:
        return {{"type", "string"}, {"maxLength", below(40)}};
      case 4:
        return references.empty() ? json(true) : json{{"$ref", "#/$defs/" + one_of(references)}};
      case 5:
      case 6:
        return {{"type", "array"}, {"items", schema(depth - 1, references)}, {"maxItems", below(20)}};
      case 7:
      case 8:
        return {{one_of<std::string>({"anyOf", "oneOf", "allOf"}),
                 {schema(depth - 1, references), schema(depth - 1, references)}}};
      case 9:
        return {{"not", schema(depth - 1, references)}};
      default: {
        json properties = json::object();
        for (int i = below(6); i >= 0; --i)
          properties[word() + std::to_string(i)] = schema(depth - 1, references);
        json made = {{"type", "object"}, {"properties", properties}};
        if (flips()) made["required"] = {properties.begin().key()};
        if (flips()) made["additionalProperties"] = schema(0, references);
        return made;
      }
    }
  }
  std::string schema_text() {
    json definitions = json::object();
    std::vector<std::string> names;
    for (int i = 0; i < 40; ++i) {
      definitions["d" + std::to_string(i)] = schema(4, names);
      names.push_back("d" + std::to_string(i));
    }
    json made = schema(4, names);
    if (!made.is_object()) made = json::object();
    made["$defs"] = definitions;
    return made.dump();
  }

  std::string regex(int depth) {
    if (depth == 0) return one_of<std::string>({"a", "[a-f]", ".", "\\d", "\\w", "é", "[^b]", "ab"});
    switch (below(7)) {
      case 0:
        return "(" + regex(depth - 1) + "|" + regex(depth - 1) + ")";
      case 1:
        return "(" + regex(depth - 1) + fmt::format("){{0,{}}}", below(12));
      case 2:
        return "(" + regex(depth - 1) + ")*";
      case 3:
        return "(?=" + regex(depth - 1) + ")" + regex(depth - 1);
      case 4:
        return "(?!" + regex(depth - 1) + ")" + regex(depth - 1);
      default:
        return regex(depth - 1) + regex(depth - 1);
    }
  }

  std::string grammar() {
    std::string made = "root ::= r0\n";
    const int count = 1 + below(200);
    for (int i = 0; i < count; ++i) {
      const auto part = [&] {
        switch (below(5)) {
          case 0:
            return fmt::format("r{}", i + 1 + below(3));
          case 1:
            return std::string("[a-z]{0,9}");
          case 2:
            return fmt::format("(r{} | \"b\")?", i + 1 + below(2));
          default:
            return std::string("\"ab\"");
        }
      };
      made += fmt::format("r{} ::= {} {} | {}\n", i, part(), part(), part());
    }
    for (int i = 0; i < 3; ++i) made += fmt::format("r{} ::= \"end\"\n", count + i);
    return made;
  }

  std::string program(int depth) {
    const std::vector<std::string> texts = {"text ",
                                            "{{ messages | tojson }}",
                                            "{{ messages | length }}",
                                            "{{ 'ab' * 1000 }}",
                                            "{% set x = messages %}{{ x }}",
                                            "{{ messages[0]['content'] | upper | replace('a', 'bb') }}"};
    if (depth == 0) return one_of(texts);
    std::string made = one_of(texts);
    for (int i = below(4); i >= 0; --i) {
      const std::string inner = program(depth - 1);
      switch (below(4)) {
        case 0:
          made += "{% for m in messages %}{{ m }}" + inner + "{% endfor %}";
          break;
        case 1:
          made += "{% for i in range(300) %}" + inner + "{% endfor %}";
          break;
        case 2:
          made += "{% if messages %}" + inner + "{% else %}" + inner + "{% endif %}";
          break;
        default:
          made += "{% macro f(a) %}{{ a }}" + inner + "{% endmacro %}{{ f(1) }}{{ f('b') }}";
      }
    }
    return made;
  }

  json messages(int count) {
    json list = json::array();
    for (int i = 0; i < count; ++i) {
      if (below(8) == 0) {
        const std::string id = "c" + std::to_string(i);
        list.push_back({{"role", "assistant"},
                        {"tool_calls",
                         {{{"id", id},
                           {"type", "function"},
                           {"function", {{"name", "f"}, {"arguments", json{{word(), text(20)}}.dump()}}}}}}});
        list.push_back({{"role", "tool"}, {"tool_call_id", id}, {"content", text(20)}});
      } else {
        list.push_back({{"role", i % 2 == 0 ? "user" : "assistant"},
                        {"content", text(static_cast<size_t>(below(200)))}});
      }
    }
    return list;
  }

 private:
  std::mt19937 random_;
};

struct Bound {
  int64_t base;      ///< steps, whatever the input
  int64_t per_byte;  ///< steps
  int64_t bytes;     ///< of a Budget
};

/// Tries inputs of one kind, which are answered or refused.
void expect_linear(const std::string& kind, const Bound& bound,
                   const std::function<std::string(Maker&)>& make,
                   const std::function<void(const std::string&)>& read) {
  const char* wanted = std::getenv("LACUNA_WORK_SEEDS");
  const int num_seeds = wanted != nullptr ? std::atoi(wanted) : 2;
  int64_t most_steps = 0, most_per_byte = 0, most_bytes = 0;
  int num_refused = 0;
  for (int seed = 0; seed < num_seeds; ++seed) {
    Maker maker(static_cast<unsigned>(seed));
    const std::string input = make(maker);
    const Budget counted("test", {});
    try {
      read(input);
    } catch (const InputError&) {
      ++num_refused;
    }
    const int64_t steps = counted.steps_spent();
    const auto size = static_cast<int64_t>(input.size());
    EXPECT_LE(steps, bound.base + bound.per_byte * size) << kind << ", seed " << seed;
    EXPECT_LE(counted.bytes_spent(), bound.bytes) << kind << ", seed " << seed;
    most_steps = std::max(most_steps, steps);
    most_per_byte = std::max(most_per_byte, steps / std::max<int64_t>(size, 1));
    most_bytes = std::max(most_bytes, counted.bytes_spent());
  }
  fmt::print(
      "{}: {} inputs, {} refused; at most {} steps, {} per byte (bound {} and {} per byte), {} bytes\n", kind,
      num_seeds, num_refused, most_steps, most_per_byte, bound.base, bound.per_byte, most_bytes);
}

// A compilation is bounded as a whole, whatever its text: that is what keeps it linear.
constexpr Bound kOfConstraints = {kMaxConstraintSteps + (1 << 20), 0, kMaxConstraintBytes + (1 << 20)};

TEST(LinearWork, OfSchemas) {
  expect_linear(
      "schema", kOfConstraints, [](Maker& maker) { return maker.schema_text(); },
      [](const std::string& text) { compile_constraint(JsonSchemaConstraint{text}); });
}

TEST(LinearWork, OfRegularExpressions) {
  expect_linear(
      "regex", kOfConstraints, [](Maker& maker) { return maker.regex(7); },
      [](const std::string& text) { compile_constraint(RegexConstraint{text}); });
}

TEST(LinearWork, OfGrammars) {
  expect_linear(
      "grammar", kOfConstraints, [](Maker& maker) { return maker.grammar(); },
      [](const std::string& text) { compile_constraint(GrammarConstraint{text}); });
}

TEST(LinearWork, OfTemplates) {
  const jinja::Limits kLimits{};
  expect_linear(
      "template", {64 * static_cast<int64_t>(kLimits.max_steps), 64, Budget::kUnlimited},
      [](Maker& maker) { return maker.program(maker.below(4)); },
      [&](const std::string& text) {
        Maker maker(1);
        const nlohmann::ordered_json values{{"messages", maker.messages(50)}};
        (void)jinja::Template::parse(text, "template").render(values, nullptr, 0, kLimits);
      });
}

TEST(LinearWork, OfTextsThatAreSplitIntoTokens) {
  const Tokenizer tokenizer = Tokenizer::load(zoo_folder("mini-llada"));
  expect_linear(
      "text", {10'000, 256, Budget::kUnlimited}, [](Maker& maker) { return maker.text(200'000); },
      [&](const std::string& text) {
        (void)tokenizer.encode(text, SpecialTokens::kAsText);
        (void)tokenizer.encode(text, SpecialTokens::kAsAtoms);
      });
}

/// The fields of requests, to where their answer would begin.
TEST(LinearWork, OfFieldsOfRequests) {
  RunningServer server("mini-llada");
  const std::map<std::string, std::function<void(Maker&, json&)>> kinds = {
      {"messages", [](Maker& maker, json& body) { body["messages"] = maker.messages(2000); }},
      {"stop",
       [](Maker& maker, json& body) {
         for (int i = maker.flips() ? 8 : 3000; i > 0; --i) body["stop"].push_back(maker.text(10));
       }},
      {"logit_bias",
       [](Maker& maker, json& body) {
         for (int i = maker.below(30'000); i >= 0; --i)
           body["logit_bias"][std::to_string(maker.below(100'000))] = 1;
       }},
      {"tools", [](Maker& maker, json& body) {
         for (int i = maker.below(20); i >= 0; --i) {
           const json function = {
               {"name", "f" + std::to_string(i)},
               {"parameters", {{"type", "object"}, {"properties", {{"a", maker.schema(2, {})}}}}}};
           body["tools"].push_back({{"type", "function"}, {"function", function}});
         }
       }}};
  for (const auto& [name, fill] : kinds) {
    // Templates and constraints have bounds of their own.
    const Bound bound{kMaxConstraintSteps + 200'000'000, 1000, 2 * kMaxConstraintBytes};
    expect_linear(
        name, bound,
        [&](Maker& maker) {
          json body = {{"messages", {{{"role", "user"}, {"content", "a"}}}}, {"max_tokens", 1}};
          fill(maker, body);
          return body.dump();
        },
        [&](const std::string& text) {
          Call call = server.post_text("/v1/chat/completions", text);
          const int status = call.status();
          EXPECT_TRUE(status == 200 || status == 400) << call.body();
          if (status == 400) throw InputError("refused");
        });
  }
}

}  // namespace
}  // namespace lacuna::linear_work_test
