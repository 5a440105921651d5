#include "constraint/schema_forms.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/budget.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;

constexpr size_t kStepsPerSchema = 60, kStepsPerKeyword = 30;

enum class Form {
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
};

struct KeywordForm {
  std::string_view name;
  Form form;
};

constexpr std::array kForms = std::to_array<KeywordForm>({
    {"minLength", Form::kCount},
    {"maxLength", Form::kCount},
    {"minItems", Form::kCount},
    {"maxItems", Form::kCount},
    {"minContains", Form::kCount},
    {"maxContains", Form::kCount},
    {"minProperties", Form::kCount},
    {"maxProperties", Form::kCount},
    {"minimum", Form::kNumber},
    {"maximum", Form::kNumber},
    {"exclusiveMinimum", Form::kNumberOrFlag},
    {"exclusiveMaximum", Form::kNumberOrFlag},
    {"multipleOf", Form::kPositive},
    {"pattern", Form::kText},
    {"format", Form::kText},
    {"uniqueItems", Form::kFlag},
    {"nullable", Form::kFlag},
    {"enum", Form::kList},
    {"required", Form::kTexts},
    {"not", Form::kSchema},
    {"if", Form::kSchema},
    {"then", Form::kSchema},
    {"else", Form::kSchema},
    {"contains", Form::kSchema},
    {"propertyNames", Form::kSchema},
    {"additionalProperties", Form::kSchema},
    {"additionalItems", Form::kSchema},
    {"unevaluatedItems", Form::kSchema},
    {"unevaluatedProperties", Form::kSchema},
    {"items", Form::kSchemaOrSchemas},
    {"prefixItems", Form::kSchemas},
    {"allOf", Form::kSchemas},
    {"anyOf", Form::kSchemas},
    {"oneOf", Form::kSchemas},
    {"properties", Form::kNamedSchemas},
    {"patternProperties", Form::kNamedSchemas},
    {"dependentSchemas", Form::kNamedSchemas},
    {"dependentRequired", Form::kNamedTexts},
    {"dependencies", Form::kNamedSchemasOrTexts},
    {"$defs", Form::kDefinitions},
    {"definitions", Form::kDefinitions},
});

bool are_texts(const ordered_json& value) {
  return value.is_array() &&
         std::all_of(value.begin(), value.end(), [](const ordered_json& each) { return each.is_string(); });
}

/// Visits every schema once. Chains of references may be long, so the walk does not recurse.
class FormWalk {
 public:
  explicit FormWalk(const SchemaReader& root) { waiting_.push_back(root); }

  void run() {
    finish(true);
    while (!definitions_.empty()) {  // unreferenced definitions
      waiting_.swap(definitions_);
      finish(false);
    }
  }

 private:
  void finish(bool follows_references) {
    while (!waiting_.empty()) {
      const SchemaReader schema = std::move(waiting_.back());
      waiting_.pop_back();
      if (!seen_.insert(&schema.value()).second) continue;
      spend_steps(kStepsPerSchema);
      if (!schema.value().is_object() && !schema.value().is_boolean()) schema.check();  // refuses it
      if (!schema.value().is_object()) continue;
      spend_steps(schema.value().size() * kStepsPerKeyword);
      for (const auto& [name, form] : kForms) {
        if (const ordered_json* value = schema.find(name)) check(schema, name, form, *value);
      }
      schema.types();
      if (!follows_references) continue;
      if (const auto target = schema.reference()) waiting_.push_back(*target);
    }
  }

  void check(const SchemaReader& schema, std::string_view name, Form form, const ordered_json& value) {
    switch (form) {
      case Form::kCount:
        (void)schema.count(name);
        return;
      case Form::kNumberOrFlag:
        if (!value.is_boolean()) (void)schema.number(name);
        return;
      case Form::kNumber:
        (void)schema.number(name);
        return;
      case Form::kPositive:
        if (schema.number(name)->get<double>() <= 0) schema.refuse(name, "a number above 0");
        return;
      case Form::kText:
        (void)schema.text(name);
        return;
      case Form::kFlag:
        (void)schema.is_true(name);
        return;
      case Form::kList:
        if (!value.is_array()) schema.refuse(name, "a list of values");
        return;
      case Form::kTexts:
        if (!value.is_boolean() && !are_texts(value)) schema.refuse(name, "a list of texts");
        return;
      case Form::kSchemaOrSchemas:
        if (value.is_array()) return add_all(schema.schemas(name));
        waiting_.push_back(*schema.schema(name));
        return;
      case Form::kSchema:
        waiting_.push_back(*schema.schema(name));
        return;
      case Form::kSchemas:
        return add_all(schema.schemas(name));
      default:
        return check_named(schema, name, form);
    }
  }

  void check_named(const SchemaReader& schema, std::string_view name, Form form) {
    for (const auto& [key, part] : schema.named_schemas(name)) {
      const bool is_list = part.value().is_array();
      if (form == Form::kNamedTexts || (form == Form::kNamedSchemasOrTexts && is_list)) {
        if (!are_texts(part.value())) schema.refuse(name, "lists of texts");
      } else if (form == Form::kDefinitions) {
        definitions_.push_back(part);
      } else {
        waiting_.push_back(part);
      }
    }
  }

  void add_all(std::vector<SchemaReader> parts) {
    for (SchemaReader& part : parts) waiting_.push_back(std::move(part));
  }

  std::vector<SchemaReader> waiting_, definitions_;
  std::unordered_set<const ordered_json*> seen_;
};

}  // namespace

void check_forms(const SchemaReader& root) {
  FormWalk(root).run();
}

}  // namespace lacuna
