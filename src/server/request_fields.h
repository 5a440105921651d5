// Fields of requests as lists: they say how a body is read, and /openapi.json describes them from the same
// lists.
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

/// A value as a request has it.
struct FieldValue {
  std::string place;  ///< its name, for errors: "stop", "options.stop"
  const nlohmann::ordered_json& value;

  /// FieldError: "stop is 3; expected a string".
  [[noreturn]] void refuse(std::string_view expected) const;
  /// Throws FieldError if the value is of another type, or outside the range.
  bool flag() const;
  int64_t integer(int64_t least, int64_t most) const;
  double number(double least, double most) const;
  std::string text() const;
  const nlohmann::ordered_json& object() const;
  const nlohmann::ordered_json& list() const;
  FieldValue at(std::string_view key) const;        ///< member of an object; the object has it
  FieldValue required(std::string_view key) const;  ///< the same; FieldError where the object has none
};

// JSON Schemas of fields.
inline constexpr std::string_view kAnyValue = "{}", kBoolean = R"({"type": "boolean"})",
                                  kInteger = R"({"type": "integer"})",
                                  kPositiveInteger = R"({"type": "integer", "minimum": 1})",
                                  kAlternativeCount = R"({"type": "integer", "minimum": 0, "maximum": 20})",
                                  kNumber = R"({"type": "number"})", kString = R"({"type": "string"})",
                                  kList = R"({"type": "array"})",
                                  kStrings = R"({"type": "array", "items": {"type": "string"}})",
                                  kObjects = R"({"type": "array", "items": {"type": "object"}})",
                                  kObject = R"({"type": "object"})";

struct RequestField {
  std::string_view name;
  std::string_view schema;  ///< JSON Schema of the value, as text
  std::string_view help;
  /// Reads a value that is not null. Null: the field is known, and what it says changes nothing here.
  void (*read)(const FieldValue& field, GenerationRequest& request) = nullptr;
  bool is_required = false;
};
using RequestFields = std::span<const RequestField>;

/// The value of a key that was given, and not as null; null: it was not.
const nlohmann::ordered_json* find_value(const nlohmann::ordered_json& object, std::string_view key);

/// A value for an error.
std::string shown(const nlohmann::ordered_json& value);

/// Reads the fields that an object has, in the order of the list; keys that are not listed are ignored.
/// FieldError, also if a required field is missing or `object` is not a JSON object.
///   place  before the names in errors: "" or "options."
void read_fields(const nlohmann::ordered_json& object, std::string_view place, RequestFields fields,
                 GenerationRequest& request);

/// {"type": "object", "properties": {...}, "required": [...]}.
nlohmann::ordered_json schema_of_fields(RequestFields fields);

/// Fields that are hints, which leave_out_field() reads. Names have spaces between.
struct HintNames {
  std::string_view names;
  std::string_view help;
};
std::vector<RequestField> fields_of(std::span<const HintNames> hints);

/// One list of several; of fields with the same name the first.
std::vector<RequestField> join(std::initializer_list<RequestFields> lists);

// Fields that lists name in `read`:

/// Reads a setting of options.h by the field's own name, which errors use from then on. FieldError where the
/// request has sent the setting by another name with another value.
void read_setting_field(std::string_view setting, const FieldValue& field, GenerationRequest& request);
/// The same for a list, which holds plain functions.
template <const char* kName>
void as_setting(const FieldValue& field, GenerationRequest& request) {
  read_setting_field(kName, field, request);
}
/// Takes a setting that was sent at `place`, as read_setting_field() does once it is read into `sent`.
void take_setting(std::string_view setting, const std::string& place, const GenerationOptions& sent,
                  GenerationRequest& request);
/// FieldError: two names of one setting have different values.
[[noreturn]] void refuse_contradiction(std::string_view first, std::string_view second);

/// The most tokens that the answer may have, from 1; any whole number up to 2^53, of which more than fits is
/// lowered (GenerationRequest::caps_length).
void read_limit(const FieldValue& field, GenerationRequest& request);
/// The same where -1 or -2 stand for no limit.
void read_open_limit(const FieldValue& field, GenerationRequest& request);
/// A seed. -1 stands for any; other negative numbers are seeds of their own.
void read_seed(const FieldValue& field, GenerationRequest& request);
/// The number of tokens whose alternatives are listed, by one of its names; 0 asks for none.
void set_alternatives(int64_t count, const FieldValue& field, GenerationRequest& request);
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

/// Refuses a value that asks for something: all but false, 0, "", [] and {}.
void refuse_field(const FieldValue& field, GenerationRequest& request);
/// Refuses a number of sampling that is not one which changes nothing: 0, and 1 for factors (typical_p, ...)
/// or numbers below 0 for some (top_n_sigma, ...).
void refuse_sampling(const FieldValue& field, GenerationRequest& request);
/// A hint, which no answer here depends on: named in GenerationRequest::left_out if it asks for something.
void leave_out_field(const FieldValue& field, GenerationRequest& request);

/// Token ids from a JSON list. InputErrors begin with `place`.
std::vector<TokenId> parse_tokens(const nlohmann::ordered_json& list, std::string_view place);

/// Whether a value asks for nothing: false, 0, "", [] and {}.
bool asks_for_nothing(const nlohmann::ordered_json& value);
/// Names what is left out of a request, or is unknown; a name that is there already is not added again.
void leave_out(std::string name, GenerationRequest& request);
void add_unknown(std::string name, GenerationRequest& request);
/// Names the limit on the answer's tokens as left out, with what it became: "max_tokens (384 at most)".
void lower_limit(int32_t most, GenerationRequest& request);
/// Names for X-Lacuna-Ignored and the log: what is left out, and what is unknown. At most 4,000 bytes, and
/// then how many names are not there: "and 12 more".
std::string ignored_names(const GenerationRequest& request);
/// FieldError for a request with a field that no API has, where such fields are refused (--strict-fields).
void refuse_unknown_fields(const GenerationRequest& request);
/// Adds one field to GenerationRequest::unknown; nothing where a list has it, left out or not.
void note_unknown_field(const std::string& place, RequestFields fields, GenerationRequest& request);
/// Adds to GenerationRequest::unknown the keys of an object that no list has.
///   place  before the names: "" or "options."     is_known  names that are read otherwise; may be null
void note_unknown_fields(const nlohmann::ordered_json& object, std::string_view place, RequestFields fields,
                         bool (*is_known)(std::string_view name), GenerationRequest& request);

}  // namespace lacuna
