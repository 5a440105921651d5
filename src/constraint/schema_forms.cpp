#include "constraint/schema_forms.h"

#include <algorithm>
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
      for (const auto& [name, form, types] : kSchemaKeywords) {
        if (const ordered_json* value = schema.find(name)) check(schema, name, form, *value);
      }
      schema.types();
      if (!follows_references) continue;
      if (const auto target = schema.reference()) waiting_.push_back(*target);
    }
  }

  void check(const SchemaReader& schema, std::string_view name, KeywordForm form, const ordered_json& value) {
    switch (form) {
      case KeywordForm::kCount:
        (void)schema.count(name);
        return;
      case KeywordForm::kNumberOrFlag:
        if (!value.is_boolean()) (void)schema.number(name);
        return;
      case KeywordForm::kNumber:
        (void)schema.number(name);
        return;
      case KeywordForm::kPositive:
        if (schema.number(name)->get<double>() <= 0) schema.refuse(name, "a number above 0");
        return;
      case KeywordForm::kText:
        (void)schema.text(name);
        return;
      case KeywordForm::kFlag:
        (void)schema.is_true(name);
        return;
      case KeywordForm::kList:
        if (!value.is_array()) schema.refuse(name, "a list of values");
        return;
      case KeywordForm::kTexts:
        if (!value.is_boolean() && !are_texts(value)) schema.refuse(name, "a list of texts");
        return;
      case KeywordForm::kSchemaOrSchemas:
        if (value.is_array()) return add_all(schema.schemas(name));
        waiting_.push_back(*schema.schema(name));
        return;
      case KeywordForm::kSchema:
        waiting_.push_back(*schema.schema(name));
        return;
      case KeywordForm::kSchemas:
        return add_all(schema.schemas(name));
      case KeywordForm::kUnread:
      case KeywordForm::kOfNegations:
        return;
      default:
        return check_named(schema, name, form);
    }
  }

  void check_named(const SchemaReader& schema, std::string_view name, KeywordForm form) {
    for (const auto& [key, part] : schema.named_schemas(name)) {
      const bool is_list = part.value().is_array();
      if (form == KeywordForm::kNamedTexts || (form == KeywordForm::kNamedSchemasOrTexts && is_list)) {
        if (!are_texts(part.value())) schema.refuse(name, "lists of texts");
      } else if (form == KeywordForm::kDefinitions) {
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
