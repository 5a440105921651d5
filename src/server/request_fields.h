// Lists of request fields, from which bodies are parsed and /openapi.json is generated.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"
#include "server/api_error.h"

namespace lacuna {

struct GenerationOptions;
struct GenerationRequest;

/// A value of a request, with its place for errors.
struct FieldValue {
  std::string place;  ///< place for errors: "stop", "options.stop"
  const nlohmann::ordered_json& value;

  /// Throws FieldError: "stop is 3; expected a string".
  [[noreturn]] void refuse(std::string_view expected) const;
  /// Throws FieldError if the value is of another type, or outside the range.
  bool flag() const;
  int64_t integer(int64_t least, int64_t most) const;
  double number(double least, double most) const;
  std::string text() const;
  const nlohmann::ordered_json& object() const;
  const nlohmann::ordered_json& list() const;
  FieldValue at(std::string_view key) const;        ///< member that the object must have
  FieldValue required(std::string_view key) const;  ///< member of an object; FieldError if it is missing
};

// JSON Schemas of fields.
inline constexpr std::string_view
    kAnyValue = "{}",
    kBoolean = R"({"type": "boolean"})", kInteger = R"({"type": "integer"})",
    kPositiveInteger = R"({"type": "integer", "minimum": 1})",
    kAlternativeCount = R"({"type": "integer", "minimum": 0, "maximum": 20})",
    kNumber = R"({"type": "number"})", kString = R"({"type": "string"})", kList = R"({"type": "array"})",
    kStrings = R"({"type": "array", "items": {"type": "string"}})",
    kTextOrTexts = R"({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})",
    kObjects = R"({"type": "array", "items": {"type": "object"}})", kObject = R"({"type": "object"})";

struct RequestField {
  std::string_view name;
  std::string_view schema;  ///< JSON Schema of the value, as text
  std::string_view help;
  /// Reads a value that is not null. Null pointer: the field is known, but read elsewhere or without effect.
  void (*read)(const FieldValue& field, GenerationRequest& request) = nullptr;
  bool is_required = false;
};
using RequestFields = std::span<const RequestField>;

/// The value of a key; null pointer if the key is missing, its value is null, or `object` is no object.
const nlohmann::ordered_json* find_value(const nlohmann::ordered_json& object, std::string_view key);

/// Formats a value for an error message.
std::string shown(const nlohmann::ordered_json& value);

/// Reads the fields that an object has, in the order of the list; keys that are not listed are ignored.
/// FieldError, also if a required field is missing or `object` is not a JSON object.
///   place  prefix of names in errors: "" or "options."
void read_fields(const nlohmann::ordered_json& object, std::string_view place, RequestFields fields,
                 GenerationRequest& request);

/// {"type": "object", "properties": {...}, "required": [...]}.
nlohmann::ordered_json schema_of_fields(RequestFields fields);

/// Names of hints, separated by spaces. leave_out_field() reads them.
struct HintNames {
  std::string_view names;
  std::string_view help;
};
std::vector<RequestField> fields_of(std::span<const HintNames> hints);

bool has_field(RequestFields fields, std::string_view name);
/// Concatenates lists; of fields with the same name, keeps the first.
std::vector<RequestField> join(std::initializer_list<RequestFields> lists);

// Functions for RequestField::read, and their helpers:

/// Reads a setting of options.h from a field; later errors use the field's name. FieldError if the request
/// has set it to another value under another name.
void read_setting_field(std::string_view setting, const FieldValue& field, GenerationRequest& request);
/// read_setting_field() as a plain function for RequestField::read.
template <const char* kName>
void as_setting(const FieldValue& field, GenerationRequest& request) {
  read_setting_field(kName, field, request);
}
/// Copies a setting from `sent` into the request, with the checks of read_setting_field().
///   place  name under which the setting was sent
void take_setting(std::string_view setting, const std::string& place, const GenerationOptions& sent,
                  GenerationRequest& request);
/// Throws FieldError: two names of one setting have different values.
[[noreturn]] void refuse_contradiction(std::string_view first, std::string_view second);

/// Reads the limit on the answer's tokens: an integer from 1 to 2^53. Limits that do not fit are lowered
/// (GenerationRequest::caps_length).
void read_limit(const FieldValue& field, GenerationRequest& request);
/// read_limit() where -1 and -2 mean no limit.
void read_open_limit(const FieldValue& field, GenerationRequest& request);
/// Reads a seed. -1 means a random one; other negative integers are valid seeds.
void read_seed(const FieldValue& field, GenerationRequest& request);
/// Sets the number of alternatives that are listed per token; 0 changes nothing. FieldError if another field
/// has set another number.
void set_alternatives(int64_t count, const FieldValue& field, GenerationRequest& request);
/// Reads a number of alternatives; above 0 it asks for logprobs, too.
void read_num_probs(const FieldValue& field, GenerationRequest& request);
namespace setting {
inline constexpr char kGenLength[] = "gen-length";
inline constexpr char kTemperature[] = "temperature";
inline constexpr char kTopP[] = "top-p";
inline constexpr char kTopK[] = "top-k";
inline constexpr char kMinP[] = "min-p";
inline constexpr char kPresencePenalty[] = "presence-penalty";
inline constexpr char kFrequencyPenalty[] = "frequency-penalty";
inline constexpr char kRepeatPenalty[] = "repeat-penalty";
inline constexpr char kIgnoreEos[] = "ignore-eos";
inline constexpr char kSeed[] = "seed";
}  // namespace setting

/// Throws FieldError unless the value is false, 0, "", [] or {}.
void refuse_field(const FieldValue& field, GenerationRequest& request);
/// Throws FieldError unless a sampling number has no effect: 0, also 1 for factors (typical_p, ...) and
/// negative numbers for some fields (top_n_sigma, ...).
void refuse_sampling(const FieldValue& field, GenerationRequest& request);
/// Ignores a hint; adds it to GenerationRequest::left_out unless asks_for_nothing().
void leave_out_field(const FieldValue& field, GenerationRequest& request);

/// Token ids from a JSON list. InputErrors begin with `place`.
std::vector<TokenId> parse_tokens(const nlohmann::ordered_json& list, std::string_view place);

/// Whether a value has no effect: false, 0, "", [] and {}.
bool asks_for_nothing(const nlohmann::ordered_json& value);
/// Adds a name once to GenerationRequest::left_out or ::unknown.
void leave_out(std::string name, GenerationRequest& request);
void add_unknown(std::string name, GenerationRequest& request);
/// Reports a lowered token limit in GenerationRequest::left_out: "max_tokens (384 at most)".
void lower_limit(int32_t most, GenerationRequest& request);
/// Names of ignored and unknown fields, for X-Lacuna-Ignored and the log. At most 4,000 bytes, then the
/// number of further names: "and 12 more".
std::string ignored_names(const GenerationRequest& request);
/// Throws FieldError if the request has unknown fields (--strict-fields).
void refuse_unknown_fields(const GenerationRequest& request);
/// Adds a field to GenerationRequest::unknown unless `fields` lists it.
void note_unknown_field(const std::string& place, RequestFields fields, GenerationRequest& request);
/// Adds the keys of an object that `fields` does not list to GenerationRequest::unknown.
///   place  prefix of the names: "" or "options."     is_known  other known names; may be null
void note_unknown_fields(const nlohmann::ordered_json& object, std::string_view place, RequestFields fields,
                         bool (*is_known)(std::string_view name), GenerationRequest& request);

}  // namespace lacuna
