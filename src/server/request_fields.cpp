#include "server/request_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "base/json.h"
#include "options/names.h"
#include "server/api_error.h"
#include "server/generation_request.h"
#include "server/settings.h"

namespace lacuna {

using nlohmann::ordered_json;

std::string shown(const ordered_json& value) {
  return in_quotes(dump_json(value));
}

const ordered_json* find_value(const ordered_json& object, std::string_view key) {
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

const ordered_json& FieldValue::object() const {
  if (!value.is_object()) refuse("an object");
  return value;
}

const ordered_json& FieldValue::list() const {
  if (!value.is_array()) refuse("a list");
  return value;
}

FieldValue FieldValue::at(std::string_view key) const {
  return {fmt::format("{}.{}", place, key), value.at(std::string(key))};
}

FieldValue FieldValue::required(std::string_view key) const {
  if (find_value(value, key) == nullptr) throw FieldError(place, fmt::format("{}.{} is missing", place, key));
  return at(key);
}

void read_fields(const ordered_json& object, std::string_view place, RequestFields fields,
                 GenerationRequest& request) {
  if (!object.is_object()) throw InputError("the body is not a JSON object");
  for (const RequestField& field : fields) {
    const std::string name = fmt::format("{}{}", place, field.name);
    const ordered_json* value = find_value(object, field.name);
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

std::vector<RequestField> fields_of(std::span<const HintNames> hints) {
  std::vector<RequestField> fields;
  for (HintNames each : hints) {
    while (!each.names.empty()) {
      const std::string_view name = each.names.substr(0, each.names.find(' '));
      fields.push_back({name, "{}", each.help, leave_out_field});
      each.names.remove_prefix(std::min(name.size() + 1, each.names.size()));
    }
  }
  return fields;
}

bool has_field(RequestFields fields, std::string_view name) {
  return std::ranges::find(fields, name, &RequestField::name) != fields.end();
}

std::vector<RequestField> join(std::initializer_list<RequestFields> lists) {
  std::vector<RequestField> all;
  for (const RequestFields list : lists) {
    for (const RequestField& field : list) {
      if (!has_field(all, field.name)) all.push_back(field);
    }
  }
  return all;
}

void refuse_contradiction(std::string_view first, std::string_view second) {
  throw FieldError(
      std::string(second),
      fmt::format("{} and {} are two names of one setting and differ; expected one of them", first, second));
}

namespace {

/// Whether two values of a setting are compatible.
template <typename Value>
bool agree(const Value& first, const Value& second) {
  return first == second;
}

/// "auto" is compatible with a limit.
bool agree(const AnswerLength& first, const AnswerLength& second) {
  return !first || !second || *first == *second;
}

template <typename Value>
void assign(const Value& sent, Value& field) {
  field = sent;
}

void assign(const AnswerLength& sent, AnswerLength& field) {
  if (sent) field = *sent;
  field.is_auto = field.is_auto || sent.is_auto;
}

/// Parses a token limit: a whole number, which may be written as a float.
int32_t limit_of(const FieldValue& field) {
  const double number = field.value.is_number() ? field.value.get<double>() : 0;
  if (!(number >= 1 && number <= kMaxExactInteger && std::trunc(number) == number))
    field.refuse("a whole number from 1");
  return static_cast<int32_t>(std::min<double>(number, std::numeric_limits<int32_t>::max()));
}

}  // namespace

void take_setting(std::string_view setting, const std::string& place, const GenerationOptions& sent,
                  GenerationRequest& request) {
  const auto before = request.keys.find(with_underscores(setting));
  visit_options(sent, [&](const Setting& own, const auto& value) {
    if (own.name != setting) return;
    visit_options(request.options, [&](const Setting& other, auto& field) {
      if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::decay_t<decltype(field)>>) {
        if (other.name != setting) return;
        if (before != request.keys.end() && !agree(field, value)) refuse_contradiction(before->second, place);
        if (before == request.keys.end()) field = {};  // drops the server's default
        assign(value, field);
      }
    });
  });
  request.keys[with_underscores(setting)] = place;
}

void read_setting_field(std::string_view setting, const FieldValue& field, GenerationRequest& request) {
  GenerationOptions sent;
  read_setting_as(setting, field.value, "", field.place, sent);
  take_setting(setting, field.place, sent, request);
}

void read_limit(const FieldValue& field, GenerationRequest& request) {
  GenerationOptions sent;
  sent.gen_length = limit_of(field);
  const bool has_length = request.keys.contains("gen_length") && request.options.gen_length.has_value();
  take_setting(setting::kGenLength, field.place, sent, request);
  if (!has_length) request.caps_length = true;
}

void read_open_limit(const FieldValue& field, GenerationRequest& request) {
  if (field.value == -1 || field.value == -2) return;
  read_limit(field, request);
}

void read_seed(const FieldValue& field, GenerationRequest& request) {
  if (field.value == -1) return;
  if (!field.value.is_number_integer() || field.value.is_number_unsigned())
    return read_setting_field(setting::kSeed, field, request);
  GenerationOptions sent;
  sent.seed = static_cast<uint64_t>(field.value.get<int64_t>());
  take_setting(setting::kSeed, field.place, sent, request);
}

void set_alternatives(int64_t count, const FieldValue& field, GenerationRequest& request) {
  if (count == 0) return;
  const auto before = request.keys.find("alternatives");
  if (before != request.keys.end() && request.num_alternatives != count)
    refuse_contradiction(before->second, field.place);
  request.num_alternatives = static_cast<int32_t>(count);
  request.keys["alternatives"] = field.place;
}

void read_num_probs(const FieldValue& field, GenerationRequest& request) {
  const int64_t count = field.integer(0, kMaxAlternatives);
  request.wants_logprobs = request.wants_logprobs || count > 0;
  set_alternatives(count, field, request);
}

std::string ignored_names(const GenerationRequest& request) {
  constexpr size_t kMaxBytes = 4'000;  // proxies accept headers of this size
  std::string names;
  size_t num_unnamed = request.num_unnamed;
  for (const std::vector<std::string>* list : {&request.left_out, &request.unknown}) {
    for (const std::string& name : *list) {
      if (num_unnamed > request.num_unnamed || names.size() + name.size() > kMaxBytes) {
        ++num_unnamed;
        continue;
      }
      names += (names.empty() ? "" : ", ") + name;
      if (list == &request.unknown) names += " (unknown)";
    }
  }
  return num_unnamed == 0 ? names : fmt::format("{}, and {} more", names, num_unnamed);
}

void refuse_unknown_fields(const GenerationRequest& request) {
  if (request.unknown.empty()) return;
  const std::string& name = request.unknown.front();
  throw FieldError(name,
                   fmt::format("{} is not a field of this endpoint (--strict-fields); leave it out", name));
}

std::vector<TokenId> parse_tokens(const ordered_json& list, std::string_view place) {
  if (!list.is_array()) FieldValue{std::string(place), list}.refuse("text or a list of token ids");
  std::vector<TokenId> tokens;
  for (const ordered_json& token : list) {
    const int64_t id = FieldValue{std::string(place), token}.integer(0, std::numeric_limits<TokenId>::max());
    tokens.push_back(static_cast<TokenId>(id));
  }
  return tokens;
}

bool asks_for_nothing(const ordered_json& value) {
  return value == ordered_json(false) || value == ordered_json(0) || value == ordered_json("") ||
         (value.is_structured() && value.empty());
}

namespace {

/// Makes a name safe for a header: at most 128 bytes of printable ASCII.
std::string printable(std::string name) {
  constexpr size_t kMaxBytes = 128;
  name.resize(std::min(name.size(), kMaxBytes));
  for (char& c : name) {
    if (c <= ' ' || c > '~' || c == ',' || c == '"') c = '?';
  }
  return name;
}

void add_once(std::string name, std::vector<std::string>& names, GenerationRequest& request) {
  name = printable(std::move(name));
  if (std::ranges::find(names, name) != names.end()) return;
  if (names.size() == kMaxIgnoredNames) {
    ++request.num_unnamed;
  } else {
    names.push_back(std::move(name));
  }
}

}  // namespace

void refuse_field(const FieldValue& field, GenerationRequest& /*request*/) {
  if (asks_for_nothing(field.value)) return;
  throw FieldError(field.place, fmt::format("{} is not supported by this server; leave it out", field.place));
}

void refuse_sampling(const FieldValue& field, GenerationRequest& /*request*/) {
  struct Neutral {
    std::string_view name;
    int value;
  };
  constexpr Neutral kNeutral[] = {{"typical_p", 1},      {"typ_p", 1},        {"tfs_z", 1},
                                  {"length_penalty", 1}, {"top_n_sigma", -1}, {"adaptive_target", -1}};
  const std::string_view name = std::string_view(field.place).substr(field.place.rfind('.') + 1);
  int neutral = 0;
  for (const Neutral& each : kNeutral) {
    if (each.name == name) neutral = each.value;
  }
  if (field.value == 0 || field.value == ordered_json(false) || field.value == neutral) return;
  if (neutral < 0 && field.value.is_number() && field.value < 0) return;
  field.refuse(fmt::format("{}; this server draws by temperature, top_p, top_k and min_p alone", neutral));
}

void leave_out(std::string name, GenerationRequest& request) {
  add_once(std::move(name), request.left_out, request);
}

void add_unknown(std::string name, GenerationRequest& request) {
  add_once(std::move(name), request.unknown, request);
}

void lower_limit(int32_t most, GenerationRequest& request) {
  const std::string key = request.name_of("gen_length").value_or("max_tokens");
  const auto is_named = [&](const std::string& name) { return name.starts_with(key + " ("); };
  if (std::ranges::none_of(request.left_out, is_named))
    request.left_out.push_back(fmt::format("{} ({} at most)", key, most));
}

void leave_out_field(const FieldValue& field, GenerationRequest& request) {
  if (!asks_for_nothing(field.value)) leave_out(field.place, request);
}

void note_unknown_field(const std::string& place, RequestFields fields, GenerationRequest& request) {
  if (!has_field(fields, place)) add_unknown(place, request);
}

void note_unknown_fields(const ordered_json& object, std::string_view place, RequestFields fields,
                         bool (*is_known)(std::string_view name), GenerationRequest& request) {
  for (const auto& [key, value] : object.items()) {
    if (!has_field(fields, key) && (is_known == nullptr || !is_known(key)))
      add_unknown(fmt::format("{}{}", place, key), request);
  }
}

}  // namespace lacuna
