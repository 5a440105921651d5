#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"

namespace lacuna {
namespace {

using nlohmann::json;

constexpr size_t kMaxDepth = 32;
constexpr size_t kMaxBytes = size_t{1} << 28;
constexpr size_t kMaxQuoted = 100;

/// Builds the value while parsing, in one pass, and checks the limits before it allocates.
template <typename Json>
class Builder : public nlohmann::json_sax<Json> {
  using string_t = typename Json::string_t;
  using value_t = typename Json::value_t;

 public:
  Builder(std::string_view text, std::string_view file, size_t max_values)
      : text_(text), file_(file), max_values_(max_values) {}

  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(typename Json::number_integer_t value) override { return add(value); }
  bool number_unsigned(typename Json::number_unsigned_t value) override { return add(value); }
  bool number_float(typename Json::number_float_t value, const string_t& /*digits*/) override {
    return add(value);
  }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(typename Json::binary_t& /*value*/) override { return false; }  // JSON text has none

  bool start_object(size_t /*elements*/) override { return open(value_t::object); }
  bool start_array(size_t /*elements*/) override { return open(value_t::array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& key) override {
    auto& members = open_.back()->template get_ref<typename Json::object_t&>();
    if constexpr (std::is_same_v<Json, nlohmann::ordered_json>) {
      if (!keys_.back().insert(key).second) refuse_repeated(key);
      member_ = &members.emplace_back(std::move(key), nullptr).second;
    } else {
      const auto [member, is_new] = members.try_emplace(std::move(key));
      if (!is_new) refuse_repeated(member->first);
      member_ = &member->second;
    }
    return true;
  }

  bool parse_error(size_t position, const std::string& /*token*/, const json::exception& error) override {
    if (dynamic_cast<const json::parse_error*>(&error) == nullptr)
      throw InputError("{}: not valid JSON: a number is too large", file_);
    const std::string_view before = text_.substr(0, position == 0 ? 0 : position - 1);
    const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
    throw InputError("{}: not valid JSON at line {}, column {}", file_,
                     std::count(before.begin(), before.end(), '\n') + 1, before.size() - line_start + 1);
  }

 private:
  [[noreturn]] void refuse_repeated(const std::string& key) const {
    throw InputError("{}: key {} appears twice in one JSON object", file_, in_quotes(key));
  }

  bool add(Json value) {
    place(std::move(value));
    return true;
  }

  bool open(value_t type) {
    if (open_.size() == kMaxDepth) throw InputError("{}: JSON nests deeper than {} levels", file_, kMaxDepth);
    open_.push_back(&place(Json(type)));
    keys_.emplace_back();
    return true;
  }

  bool close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  /// Moves a value into its place in the tree.
  Json& place(Json value) {
    if (++num_values_ > max_values_)
      throw InputError("{}: JSON holds more than {} values", file_, max_values_);
    if (open_.empty()) return root_ = std::move(value);
    if (open_.back()->is_object()) return *member_ = std::move(value);
    return open_.back()->template get_ref<typename Json::array_t&>().emplace_back(std::move(value));
  }

  std::string_view text_;
  std::string_view file_;
  Json root_;
  std::vector<Json*> open_;                  // objects and arrays around the current value
  std::vector<std::set<std::string>> keys_;  // keys of each open object, if the order of keys is kept
  Json* member_ = nullptr;                   // slot for the value of the key that was parsed last
  size_t max_values_;
  size_t num_values_ = 0;
};

/// Appends the values whose keys are not in `read`, of `object` and of nested objects that were read.
void add_unread(const json& object, const std::string& prefix, const std::set<std::string>& read,
                std::vector<JsonObject::Unread>& unread) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_null()) continue;
    const std::string path = prefix + key;
    if (!read.contains(path)) {
      unread.push_back({path, &value});
    } else if (value.is_object()) {
      add_unread(value, path + ".", read, unread);
    }
  }
}

template <typename Json>
Json parse(std::string_view text, std::string_view file, size_t max_values) {
  if (text.size() > kMaxBytes)
    throw InputError("{}: JSON has {} bytes; expected at most {}", file, text.size(), kMaxBytes);
  Builder<Json> builder(text, file, max_values);
  Json::sax_parse(text, &builder);
  return builder.take();
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

std::string dump_json(const json& value, int indent) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

std::string dump_json(const nlohmann::ordered_json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

json parse_json(std::string_view text, std::string_view file, size_t max_values) {
  return parse<json>(text, file, max_values);
}

nlohmann::ordered_json parse_ordered_json(std::string_view text, std::string_view file, size_t max_values) {
  return parse<nlohmann::ordered_json>(text, file, max_values);
}

std::string shown_json(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
  return value.dump();
}

JsonObject::JsonObject(const json& object, std::string file, std::string prefix)
    : object_(&object), file_(std::move(file)), prefix_(std::move(prefix)) {
  if (!object.is_object()) throw InputError("{}: is {}; expected a JSON object", file_, shown_json(object));
}

const json* JsonObject::find(std::string_view key) const {
  if (read_) read_->insert(prefix_ + std::string(key));
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

bool JsonObject::is_object(std::string_view key) const {
  const json* value = find(key);
  return value && value->is_object();
}

bool JsonObject::is_flag(std::string_view key) const {
  const json* value = find(key);
  return value && value->is_boolean();
}

void JsonObject::refuse(std::string_view key, std::string_view expected) const {
  const json* value = find(key);
  throw InputError("{}: {} is {}; expected {}", file_, in_quotes(prefix_ + std::string(key)),
                   value ? shown_json(*value) : "missing", expected);
}

int64_t JsonObject::checked_integer(const json& value, std::string_view key, Range<int64_t> range) const {
  // An unsigned value above the range of int64_t would turn negative when converted.
  const bool fits =
      value.is_number_unsigned() ? value.get<uint64_t>() <= uint64_t{INT64_MAX} : value.is_number_integer();
  if (!fits || value.get<int64_t>() < range.first || value.get<int64_t>() > range.last) {
    throw InputError("{}: {} is {}; expected an integer from {} to {}", file_,
                     in_quotes(prefix_ + std::string(key)), shown_json(value), range.first, range.last);
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
  JsonObject inner(*value, file_, fmt::format("{}{}.", prefix_, key));
  inner.read_ = read_;
  return inner;
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

std::vector<JsonObject::Unread> JsonObject::unread() const {
  std::vector<Unread> unread;
  if (read_) add_unread(*object_, prefix_, *read_, unread);
  return unread;
}

void JsonObject::read_all() const {
  for (const std::string& key : keys()) {
    if (is_object(key)) object(key).read_all();
  }
}

void JsonObject::expect(std::string_view key, JsonScalar value) const {
  if (has(key)) require(key, value);
}

void JsonObject::require(std::string_view key, JsonScalar value) const {
  const json wanted = to_json(value);
  const json* found = find(key);
  if (!found || *found != wanted) refuse(key, shown_json(wanted) + ", the only value supported");
}

void JsonObject::expect_each(std::string_view key, JsonScalar value) const {
  const json wanted = to_json(value);
  const json* found = find(key);
  if (!found || !found->is_array()) return expect(key, value);
  for (const json& element : *found) {
    if (element != wanted) {
      throw InputError("{}: {} holds {}; expected {} for every layer, the only value supported", file_,
                       in_quotes(prefix_ + std::string(key)), shown_json(element), shown_json(wanted));
    }
  }
}

void JsonObject::expect_absent(std::string_view key) const {
  if (has(key)) refuse(key, "null or no such key, as nothing else is supported");
}

}  // namespace lacuna
