#include "constraint/quoted_arguments.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/name_list.h"
#include "constraint/json_texts.h"
#include "constraint/tool_calls.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;

class QuotedArguments {
 public:
  QuotedArguments(std::string_view quote_text, Expression quote, std::string_view place)
      : quote_text_(quote_text), quote_(std::move(quote)), place_(place) {}

  Expression object(const ordered_json& schema, int depth) const {
    const ordered_json* const properties = member(schema, "properties");
    if (properties == nullptr || !properties->is_object() || properties->empty()) return free_object(depth);
    std::map<std::pair<std::string, std::string>, const ordered_json*> sorted;  // in templates' key order
    for (const auto& item : properties->items())
      sorted.emplace(std::pair(lower_case(item.key()), item.key()), &item.value());
    std::vector<Expression::Member> members;
    for (const auto& [name, value] : sorted) {
      const std::string& key = name.second;
      expect_key(key);
      members.push_back(
          {Expression::sequence({Expression::text(key), Expression::text(":"), value_of(*value, depth - 1)}),
           requires_key(schema, key)});
    }
    return json_object(Expression::members(std::move(members), Expression::text(",")));
  }

 private:
  static const ordered_json* member(const ordered_json& schema, std::string_view key) {
    if (!schema.is_object()) return nullptr;
    const auto found = schema.find(key);
    return found == schema.end() || (found->is_null() && key != "const") ? nullptr : &*found;
  }

  static bool requires_key(const ordered_json& schema, std::string_view key) {
    const ordered_json* const list = member(schema, "required");
    return list != nullptr && list->is_array() && std::find(list->begin(), list->end(), key) != list->end();
  }

  void expect_key(std::string_view key) const {
    if (key.empty() || key.find_first_of(":,{}[]<>\" \t\r\n") != std::string_view::npos)
      throw InputError(
          "{}.properties has the key {}, which calls of this model cannot name; expected letters, "
          "digits, underscores and hyphens",
          place_, in_quotes(std::string(key)));
  }

  Expression text(const Expression& content) const { return Expression::sequence({quote_, content, quote_}); }

  Expression scalar(std::string_view type) const {
    if (type == "integer") return json_integer(-kLargestInteger, kLargestInteger);
    if (type == "number") return json_number({});
    if (type == "boolean") return Expression::choice({Expression::text("true"), Expression::text("false")});
    if (type == "null") return Expression::text("null");
    return text(text_without(quote_text_));
  }

  Expression free_value(int depth) const {
    std::vector<Expression> kinds;
    for (const std::string_view type : {"string", "number", "boolean", "null"}) kinds.push_back(scalar(type));
    if (depth > 0) kinds.push_back(list_of(free_value(depth - 1)));
    if (depth > 0) kinds.push_back(free_object(depth));
    return Expression::choice(std::move(kinds));
  }

  Expression free_object(int depth) const {
    const CodePointSet key({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'-', '-'}, {'a', 'z'}});
    const Expression name = Expression::repeat(Expression::code_points(key), 1, std::nullopt);
    const Expression each =
        Expression::sequence({name, Expression::text(":"), free_value(std::min(depth - 1, kFreeValueDepth))});
    return json_object(Expression::repeat(each, 0, std::nullopt, Expression::text(",")));
  }

  static Expression list_of(const Expression& item) {
    return json_list(Expression::repeat(item, 0, std::nullopt, Expression::text(",")));
  }

  /// The text of a value of "enum" or "const"; empty unless it is a scalar.
  std::optional<Expression> listed(const ordered_json& value) const {
    if (value.is_structured()) return {};
    if (!value.is_string()) return Expression::text(json_text(value, JsonLayout::kCompact));
    const auto& content = value.get_ref<const std::string&>();
    if (content.find(quote_text_) != std::string::npos) return {};
    return text(Expression::text(content));
  }

  std::optional<Expression> listed_values(const ordered_json& schema) const {
    std::vector<Expression> values;
    const auto add = [&](const ordered_json& value) {
      if (std::optional<Expression> one = listed(value)) values.push_back(*std::move(one));
    };
    if (const ordered_json* const value = member(schema, "const")) add(*value);
    const ordered_json* const list = member(schema, "enum");
    if (list != nullptr && list->is_array() && values.empty()) std::for_each(list->begin(), list->end(), add);
    if (values.empty()) return {};
    return Expression::choice(std::move(values));
  }

  Expression of_type(const ordered_json& schema, std::string_view type, int depth) const {
    if (type == "object") return object(schema, depth);
    if (type != "array") return scalar(type);
    const ordered_json* const items = member(schema, "items");
    return list_of(items != nullptr && items->is_object() ? value_of(*items, depth - 1)
                                                          : free_value(std::min(depth - 1, kFreeValueDepth)));
  }

  Expression value_of(const ordered_json& schema, int depth) const {
    if (depth <= 0) return free_value(0);
    if (std::optional<Expression> values = listed_values(schema)) return *std::move(values);
    const ordered_json* const type = member(schema, "type");
    std::vector<Expression> kinds;
    if (type != nullptr && type->is_string())
      kinds.push_back(of_type(schema, lower_case(type->get<std::string>()), depth));
    if (type != nullptr && type->is_array()) {
      for (const ordered_json& each : *type) {
        if (each.is_string()) kinds.push_back(of_type(schema, lower_case(each.get<std::string>()), depth));
      }
    }
    const ordered_json* const nullable = member(schema, "nullable");
    if (!kinds.empty() && nullable != nullptr && *nullable == true) kinds.push_back(scalar("null"));
    if (kinds.empty()) return free_value(std::min(depth - 1, kFreeValueDepth));
    return Expression::choice(std::move(kinds));
  }

  std::string_view quote_text_;
  Expression quote_;
  std::string_view place_;
};

}  // namespace

Expression quoted_arguments(const ordered_json& schema, std::string_view quote_text, const Expression& quote,
                            std::string_view place) {
  return QuotedArguments(quote_text, quote, place).object(schema, kQuotedNesting);
}

}  // namespace lacuna
