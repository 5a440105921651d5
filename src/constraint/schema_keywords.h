// The keywords of JSON Schemas, with the forms of their values and the types of JSON.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace lacuna {

/// Keywords that only derived schemas have (negated()). Each restricts values.
inline constexpr std::string_view kNotListed = "\1notEnum";            ///< list of forbidden values
inline constexpr std::string_view kNotPattern = "\1notPattern";        ///< matches nowhere in the string
inline constexpr std::string_view kNotMultipleOf = "\1notMultipleOf";  ///< a number above 0
inline constexpr std::string_view kNotReference = "\1notRef";    ///< "$ref" to a schema that must not hold
inline constexpr std::string_view kFractionType = "\1fraction";  ///< type of non-integral numbers

/// Types of JSON values as bits. An integral number is an integer in any notation (3.0).
using JsonTypes = unsigned;
inline constexpr JsonTypes kTypeNull = 1, kTypeBoolean = 2, kTypeInteger = 4, kTypeFraction = 8,
                           kTypeString = 16, kTypeArray = 32, kTypeObject = 64, kAllTypes = 127,
                           kTypeNumber = kTypeInteger | kTypeFraction;

/// The form of a keyword's value.
enum class KeywordForm : uint8_t {
  kCount,
  kNumber,
  kPositive,
  kNumberOrFlag,  ///< exclusiveMinimum is a flag in draft 4
  kText,
  kFlag,
  kList,
  kTexts,
  kSchema,
  kSchemas,
  kSchemaOrSchemas,  ///< items
  kNamedSchemas,
  kNamedTexts,           ///< dependentRequired
  kNamedSchemasOrTexts,  ///< dependencies
  kDefinitions,
  kUnread,       ///< a schema that restricts nothing
  kOfNegations,  ///< keywords of negated() alone
};

struct SchemaKeyword {
  std::string_view name;
  KeywordForm form;
  JsonTypes types = 0;  ///< types to which the keyword is specific
};

inline constexpr std::array kSchemaKeywords = std::to_array<SchemaKeyword>({
    {"minLength", KeywordForm::kCount, kTypeString},
    {"maxLength", KeywordForm::kCount, kTypeString},
    {"minItems", KeywordForm::kCount, kTypeArray},
    {"maxItems", KeywordForm::kCount, kTypeArray},
    {"minContains", KeywordForm::kCount},
    {"maxContains", KeywordForm::kCount},
    {"minProperties", KeywordForm::kCount, kTypeObject},
    {"maxProperties", KeywordForm::kCount, kTypeObject},
    {"minimum", KeywordForm::kNumber, kTypeNumber},
    {"maximum", KeywordForm::kNumber, kTypeNumber},
    {"exclusiveMinimum", KeywordForm::kNumberOrFlag, kTypeNumber},
    {"exclusiveMaximum", KeywordForm::kNumberOrFlag, kTypeNumber},
    {"multipleOf", KeywordForm::kPositive, kTypeNumber},
    {"pattern", KeywordForm::kText, kTypeString},
    {"format", KeywordForm::kText, kTypeString},
    {"uniqueItems", KeywordForm::kFlag, kTypeArray},
    {"nullable", KeywordForm::kFlag},
    {"enum", KeywordForm::kList},
    {"required", KeywordForm::kTexts, kTypeObject},
    {"not", KeywordForm::kSchema},
    {"if", KeywordForm::kSchema},
    {"then", KeywordForm::kSchema},
    {"else", KeywordForm::kSchema},
    {"contains", KeywordForm::kSchema, kTypeArray},
    {"propertyNames", KeywordForm::kSchema, kTypeObject},
    {"additionalProperties", KeywordForm::kSchema, kTypeObject},
    {"additionalItems", KeywordForm::kSchema, kTypeArray},
    {"unevaluatedItems", KeywordForm::kSchema, kTypeArray},
    {"unevaluatedProperties", KeywordForm::kSchema, kTypeObject},
    {"items", KeywordForm::kSchemaOrSchemas, kTypeArray},
    {"prefixItems", KeywordForm::kSchemas, kTypeArray},
    {"allOf", KeywordForm::kSchemas},
    {"anyOf", KeywordForm::kSchemas},
    {"oneOf", KeywordForm::kSchemas},
    {"properties", KeywordForm::kNamedSchemas, kTypeObject},
    {"patternProperties", KeywordForm::kNamedSchemas, kTypeObject},
    {"dependentSchemas", KeywordForm::kNamedSchemas, kTypeObject},
    {"dependentRequired", KeywordForm::kNamedTexts, kTypeObject},
    {"dependencies", KeywordForm::kNamedSchemasOrTexts, kTypeObject},
    {"$defs", KeywordForm::kDefinitions},
    {"definitions", KeywordForm::kDefinitions},
    {kNotPattern, KeywordForm::kOfNegations, kTypeString},
    {kNotMultipleOf, KeywordForm::kOfNegations, kTypeNumber},
    {kNotListed, KeywordForm::kOfNegations, kAllTypes},
    {"contentSchema", KeywordForm::kUnread},
});

/// Null for an unknown keyword.
constexpr const SchemaKeyword* find_keyword(std::string_view name) {
  const auto found = std::ranges::find(kSchemaKeywords, name, &SchemaKeyword::name);
  return found == kSchemaKeywords.end() ? nullptr : &*found;
}

}  // namespace lacuna
