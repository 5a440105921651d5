#include "constraint/json_schema.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/budget.h"
#include "base/error.h"
#include "constraint/json_texts.h"
#include "constraint/schema_compiler.h"
#include "constraint/schema_forms.h"
#include "constraint/schema_references.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;

/// Work limits of one attempt to compile a schema.
struct WorkBudget {
  AutomatonLimits patterns, whole;

  explicit WorkBudget(const JsonSchemaOptions& options) : shared_(options.shared_work) {
    if (shared_ == nullptr) return;
    if (*shared_ <= 0)
      throw AutomatonTooLarge("{}: it and the schemas before it are too large", options.name);
    patterns.work = std::min(patterns.work, *shared_);
    whole.work = std::min(whole.work, *shared_);
    given_ = patterns.work + whole.work;
  }

  void subtract(size_t schema_visits) const {
    constexpr int64_t kVisitWork = 1'000;  // a schema visit counts like this many state visits
    if (shared_ == nullptr) return;
    *shared_ -= given_ - patterns.work - whole.work + static_cast<int64_t>(schema_visits) * kVisitWork;
  }

 private:
  int64_t* shared_;
  int64_t given_ = 0;
};

}  // namespace

Expression json_schema_expression(const ordered_json& schema, const JsonSchemaOptions& options) {
  const std::optional<ordered_json> plain = with_plain_references(schema);
  const SchemaReader root(plain ? *plain : schema, options.name);
  check_forms(root);
  for (int depth = kRecursionDepth;; --depth) {
    WorkBudget budget(options);
    const BytesMark mark;
    SchemaCompiler compiler(root, options, depth, budget.patterns);
    try {
      Expression expression = compiler.compile();
      if (compiler.is_cut()) {
        expression = Expression::automaton(ByteAutomaton::compile(expression, options.name, budget.whole));
      }
      budget.subtract(compiler.num_visits());
      return expression;
    } catch (const AutomatonTooLarge&) {
      budget.subtract(compiler.num_visits());
      if (!compiler.is_cut() || depth == 1) throw;
    }
    mark.give_back();
  }
}

Expression any_json_object(JsonLayout layout) {
  return free_json_object(kJsonObjectDepth, layout);
}

}  // namespace lacuna
