#include "server/request_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/json.h"
#include "options/names.h"
#include "server/api_error.h"
#include "server/api_request.h"
#include "server/settings.h"

namespace lacuna {

using nlohmann::json;
using nlohmann::ordered_json;

std::string shown(const json& value) {
  return in_quotes(value.dump(-1, ' ', false, json::error_handler_t::replace));
}

const json* find_value(const json& object, std::string_view key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

void FieldValue::refuse(std::string_view expected) const {
  throw FieldError(place, fmt::format("{} is {}; expected {}", place, shown(value), expected));
}

bool FieldValue::flag() const {
  if (!value.is_boolean()) refuse("true or false");
  return value.get<bool>();
}

int64_t FieldValue::integer(int64_t least, int64_t most) const {
  const bool is_whole = value.is_number_integer() &&
                        (!value.is_number_unsigned() || value.get<uint64_t>() <= uint64_t{1} << 62);
  if (!is_whole || value.get<int64_t>() < least || value.get<int64_t>() > most) {
    refuse(fmt::format("a whole number from {} to {}", least, most));
  }
  return value.get<int64_t>();
}

double FieldValue::number(double least, double most) const {
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  if (!(number >= least && number <= most)) refuse(fmt::format("a number from {} to {}", least, most));
  return number;
}

std::string FieldValue::text() const {
  if (!value.is_string()) refuse("a string");
  return value.get<std::string>();
}

const json& FieldValue::object() const {
  if (!value.is_object()) refuse("an object");
  return value;
}

const json& FieldValue::list() const {
  if (!value.is_array()) refuse("a list");
  return value;
}

FieldValue FieldValue::at(std::string_view key) const {
  return {fmt::format("{}.{}", place, key), value.at(std::string(key))};
}

void read_fields(const json& object, std::string_view place, RequestFields fields,
                 GenerationRequest& request) {
  if (!object.is_object()) throw InputError("the body is not a JSON object");
  for (const RequestField& field : fields) {
    const std::string name = fmt::format("{}{}", place, field.name);
    const json* value = find_value(object, field.name);
    if (value != nullptr && field.read != nullptr)
      in_field(name, [&] { field.read({name, *value}, request); });
    if (value == nullptr && field.is_required) {
      throw FieldError(name, fmt::format("{} is missing; expected {}", name, field.help));
    }
  }
}

ordered_json schema_of_fields(RequestFields fields) {
  ordered_json properties = ordered_json::object();
  ordered_json required = ordered_json::array();
  for (const RequestField& field : fields) {
    ordered_json schema = ordered_json::parse(field.schema);
    if (!field.help.empty()) schema["description"] = field.help;
    properties[std::string(field.name)] = std::move(schema);
    if (field.is_required) required.push_back(field.name);
  }
  ordered_json schema{{"type", "object"}, {"properties", std::move(properties)}};
  if (!required.empty()) schema["required"] = std::move(required);
  return schema;
}

std::vector<RequestField> join(std::initializer_list<RequestFields> lists) {
  std::vector<RequestField> all;
  for (const RequestFields list : lists) {
    for (const RequestField& field : list) {
      const auto has_name = [&](const RequestField& other) { return other.name == field.name; };
      if (std::none_of(all.begin(), all.end(), has_name)) all.push_back(field);
    }
  }
  return all;
}

void read_setting_field(std::string_view setting, const FieldValue& field, GenerationRequest& request) {
  read_setting_as(setting, field.value, "", field.place, request.options);
  request.keys[with_underscores(setting)] = field.place;
}

namespace {

bool asks_for_nothing(const json& value) {
  return value == json(false) || value == json(0) || value == json("") ||
         (value.is_structured() && value.empty());
}

/// A name as a header can have it.
std::string printable(std::string name) {
  constexpr size_t kMaxBytes = 64;
  name.resize(std::min(name.size(), kMaxBytes));
  for (char& c : name) {
    if (c <= ' ' || c > '~' || c == ',' || c == '"') c = '?';
  }
  return name;
}

void add_once(std::string name, std::vector<std::string>& names) {
  constexpr size_t kMaxNames = 64;
  name = printable(std::move(name));
  if (names.size() < kMaxNames && std::find(names.begin(), names.end(), name) == names.end())
    names.push_back(std::move(name));
}

}  // namespace

void refuse_field(const FieldValue& field, GenerationRequest& /*request*/) {
  if (asks_for_nothing(field.value)) return;
  throw FieldError(field.place, fmt::format("{} is not supported by this server; leave it out", field.place));
}

void refuse_sampling(const FieldValue& field, GenerationRequest& /*request*/) {
  constexpr std::array<std::string_view, 2> kFactors = {"typical_p", "tfs_z"};
  const std::string_view name = std::string_view(field.place).substr(field.place.rfind('.') + 1);
  const bool is_factor = std::find(kFactors.begin(), kFactors.end(), name) != kFactors.end();
  if (field.value == 0 || field.value == json(false) || (is_factor && field.value == 1)) return;
  field.refuse(
      fmt::format("{}; this server draws by temperature, top_p, top_k and min_p alone", is_factor ? 1 : 0));
}

void leave_out(std::string name, GenerationRequest& request) {
  add_once(std::move(name), request.left_out);
}

void leave_out_field(const FieldValue& field, GenerationRequest& request) {
  if (!asks_for_nothing(field.value)) leave_out(field.place, request);
}

void leave_out_member(const FieldValue& element, std::string_view key, GenerationRequest& request) {
  const json* value = find_value(element.object(), key);
  if (value != nullptr && !asks_for_nothing(*value)) leave_out(std::string(key), request);
}

void note_unknown_fields(const json& object, std::string_view place, RequestFields fields,
                         bool (*is_known)(std::string_view name), GenerationRequest& request) {
  for (const auto& [key, value] : object.items()) {
    const bool is_listed =
        std::any_of(fields.begin(), fields.end(),
                    [&name = key](const RequestField& field) { return field.name == name; });
    if (!is_listed && (is_known == nullptr || !is_known(key)))
      add_once(fmt::format("{}{}", place, key), request.unknown);
  }
}

}  // namespace lacuna
