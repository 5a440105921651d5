#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.h"

namespace lacuna {
namespace {

using nlohmann::json;

constexpr size_t kMaxDepth = 32;
constexpr size_t kMaxValues = size_t{1} << 22;  // several times the largest published vocabulary and merges
constexpr size_t kMaxQuoted = 100;

/// Sees every value while it is parsed, so that a hostile text is refused before it has been built.
class Limits {
 public:
  explicit Limits(std::string_view file) : file_(file) {}

  bool operator()(int /*depth*/, json::parse_event_t event, json& parsed) {
    switch (event) {
      case json::parse_event_t::object_start:
      case json::parse_event_t::array_start:
        open_.emplace_back();
        if (open_.size() > kMaxDepth)
          throw InputError("{}: JSON nests deeper than {} levels", file_, kMaxDepth);
        count_value();
        break;
      case json::parse_event_t::object_end:
      case json::parse_event_t::array_end:
        open_.pop_back();
        break;
      case json::parse_event_t::key: {
        const auto& key = parsed.get_ref<const std::string&>();
        if (!open_.back().insert(key).second) {
          throw InputError("{}: key {} appears twice in one JSON object", file_, in_quotes(key));
        }
        break;
      }
      case json::parse_event_t::value:
        count_value();
        break;
    }
    return true;
  }

 private:
  void count_value() {
    if (++num_values_ > kMaxValues) throw InputError("{}: JSON holds more than {} values", file_, kMaxValues);
  }

  std::string_view file_;
  std::vector<std::set<std::string>> open_;  // the keys so far of each object around the current value
  size_t num_values_ = 0;
};

std::string shown(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
  return value.dump();
}

json to_json(JsonScalar value) {
  return std::visit([](auto scalar) { return json(scalar); }, value);
}

}  // namespace

std::string in_quotes(std::string_view text) {
  const bool is_long = text.size() > kMaxQuoted;
  std::string shortened(text.substr(0, kMaxQuoted));
  if (is_long) shortened += "...";
  return json(shortened).dump(-1, ' ', true, json::error_handler_t::replace);
}

json parse_json(std::string_view text, std::string_view file) {
  try {
    Limits limits(file);
    return json::parse(text, std::ref(limits));
  } catch (const json::parse_error& error) {
    const std::string_view before = text.substr(0, error.byte == 0 ? 0 : error.byte - 1);
    const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
    throw InputError("{}: not valid JSON at line {}, column {}", file,
                     std::count(before.begin(), before.end(), '\n') + 1, before.size() - line_start + 1);
  } catch (const json::exception&) {
    throw InputError("{}: not valid JSON: a number is too large", file);
  }
}

JsonObject::JsonObject(const json& object, std::string file, std::string prefix)
    : object_(&object), file_(std::move(file)), prefix_(std::move(prefix)) {
  if (!object.is_object()) throw InputError("{}: is {}; expected a JSON object", file_, shown(object));
}

const json* JsonObject::find(std::string_view key) const {
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

void JsonObject::refuse(std::string_view key, std::string_view expected) const {
  const json* value = find(key);
  throw InputError("{}: {} is {}; expected {}", file_, in_quotes(prefix_ + std::string(key)),
                   value ? shown(*value) : "missing", expected);
}

int64_t JsonObject::checked_integer(const json& value, std::string_view key, Range<int64_t> range) const {
  // An unsigned value above the range of int64_t would turn negative when converted.
  const bool fits =
      value.is_number_unsigned() ? value.get<uint64_t>() <= uint64_t{INT64_MAX} : value.is_number_integer();
  if (!fits || value.get<int64_t>() < range.first || value.get<int64_t>() > range.last) {
    throw InputError("{}: {} is {}; expected an integer from {} to {}", file_,
                     in_quotes(prefix_ + std::string(key)), shown(value), range.first, range.last);
  }
  return value.get<int64_t>();
}

int64_t JsonObject::integer(std::string_view key, Range<int64_t> range,
                            std::optional<int64_t> fallback) const {
  const json* value = find(key);
  if (!value && fallback) return *fallback;
  if (!value) refuse(key, fmt::format("an integer from {} to {}", range.first, range.last));
  return checked_integer(*value, key, range);
}

float JsonObject::number(std::string_view key, Range<double> range, std::optional<float> fallback) const {
  const json* value = find(key);
  if (!value && fallback) return *fallback;
  if (!value || !value->is_number() || value->get<double>() < range.first ||
      value->get<double>() > range.last) {
    refuse(key, fmt::format("a number from {:g} to {:g}", range.first, range.last));
  }
  return value->get<float>();
}

bool JsonObject::flag(std::string_view key, std::optional<bool> fallback) const {
  const json* value = find(key);
  if (!value && fallback) return *fallback;
  if (!value || !value->is_boolean()) refuse(key, "true or false");
  return value->get<bool>();
}

std::string JsonObject::text(std::string_view key, std::optional<std::string> fallback) const {
  const json* value = find(key);
  if (!value && fallback) return *fallback;
  if (!value || !value->is_string()) refuse(key, "text");
  return value->get<std::string>();
}

JsonObject JsonObject::object(std::string_view key) const {
  const json* value = find(key);
  if (!value || !value->is_object()) refuse(key, "an object");
  return {*value, file_, fmt::format("{}{}.", prefix_, key)};
}

std::vector<int64_t> JsonObject::integers(std::string_view key, Range<int64_t> range) const {
  const json* value = find(key);
  if (!value || !value->is_array()) refuse(key, "a list of integers");
  std::vector<int64_t> result;
  for (const json& element : *value) result.push_back(checked_integer(element, key, range));
  return result;
}

std::vector<std::string> JsonObject::texts(std::string_view key) const {
  const json* value = find(key);
  const auto is_text = [](const json& element) { return element.is_string(); };
  if (!value || !value->is_array() || !std::all_of(value->begin(), value->end(), is_text)) {
    refuse(key, "a list of texts");
  }
  return value->get<std::vector<std::string>>();
}

std::vector<int64_t> JsonObject::one_or_more_integers(std::string_view key, Range<int64_t> range) const {
  const json* value = find(key);
  if (!value) return {};
  if (value->is_array()) return integers(key, range);
  return {checked_integer(*value, key, range)};
}

std::vector<std::string> JsonObject::keys() const {
  std::vector<std::string> result;
  for (const auto& item : object_->items()) result.push_back(item.key());
  return result;
}

void JsonObject::expect(std::string_view key, JsonScalar value) const {
  if (has(key)) require(key, value);
}

void JsonObject::require(std::string_view key, JsonScalar value) const {
  const json wanted = to_json(value);
  const json* found = find(key);
  if (!found || *found != wanted) refuse(key, shown(wanted) + ", the only value supported");
}

void JsonObject::expect_each(std::string_view key, JsonScalar value) const {
  const json wanted = to_json(value);
  const json* found = find(key);
  if (!found || !found->is_array()) return expect(key, value);
  for (const json& element : *found) {
    if (element != wanted) {
      throw InputError("{}: {} holds {}; expected {} for every layer, the only value supported", file_,
                       in_quotes(prefix_ + std::string(key)), shown(element), shown(wanted));
    }
  }
}

void JsonObject::expect_absent(std::string_view key) const {
  if (has(key)) refuse(key, "null or no such key, as nothing else is supported");
}

}  // namespace lacuna
