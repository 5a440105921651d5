#include "constraint/tool_calls.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "constraint/constraint.h"
#include "constraint/finite_language.h"
#include "constraint/json_schema.h"
#include "constraint/quoted_arguments.h"
#include "constraint/schema_reader.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;

/// The parsed schema of a function's arguments, with "type": "object" added if it has no type.
ordered_json object_schema(const CallableFunction& function) {
  if (function.parameters.size() > kMaxSchemaBytes)
    throw InputError("{}: has {} bytes; expected at most {}", function.place, function.parameters.size(),
                     kMaxSchemaBytes);
  ordered_json schema = parse_ordered_json(function.parameters, function.place, kMaxSchemaValues);
  if (schema == ordered_json(true)) schema = ordered_json::object();
  if (!schema.is_object())
    throw InputError("{} is {}; expected the JSON schema of an object", function.place,
                     in_quotes(schema.dump()));
  if ((SchemaReader(schema, function.place).types().value_or(kTypeObject) & kTypeObject) == 0)
    throw InputError("{}.type is {}; expected \"object\": arguments are given by name", function.place,
                     in_quotes(schema["type"].dump()));
  schema["type"] = "object";
  schema.erase("nullable");
  return schema;
}

/// A part of a form, as a token or as text.
Expression tag(const ToolCallConstraint& constraint, std::string_view text) {
  const std::vector<std::string_view> tags = tag_texts(*constraint.form);
  const auto found = std::find(tags.begin(), tags.end(), text);
  return constraint.has_tag_tokens && found != tags.end()
             ? Expression::special(static_cast<int>(found - tags.begin()))
             : Expression::text(text);
}

Expression call_expression(const CallableFunction& function, const ToolCallConstraint& constraint,
                           int64_t& work) {
  const ToolCallForm& form = *constraint.form;
  Expression arguments = Expression::text("{}");
  if (!function.parameters.empty() && !form.quote.empty()) {
    if (function.strict) {
      json_schema_expression(object_schema(function),  // throws for schemas that it refuses
                             {.strict = true, .name = function.place, .shared_work = &work});
    }
    arguments =
        quoted_arguments(object_schema(function), form.quote, tag(constraint, form.quote), function.place);
  } else if (!function.parameters.empty()) {
    arguments = json_schema_expression(object_schema(function), {.layout = JsonLayout::kSpaced,
                                                                 .strict = function.strict,
                                                                 .name = function.place,
                                                                 .shared_work = &work});
  }
  return Expression::sequence(
      {Expression::text(function.name), Expression::text(form.arguments_key), arguments});
}

void check_functions(const std::vector<CallableFunction>& functions) {
  if (functions.empty() || functions.size() > kMaxFunctions)
    throw InputError("tools: there are {} functions; expected 1 to {}", functions.size(), kMaxFunctions);
  std::set<std::string_view> names;
  for (const CallableFunction& function : functions) {
    if (!is_function_name(function.name))
      throw InputError("tools: the name {} is not {}", in_quotes(function.name), kFunctionNameForm);
    if (!names.insert(function.name).second)
      throw InputError("tools: two functions are named {}; expected unique names", in_quotes(function.name));
  }
}

CodePointSet all_but(std::initializer_list<char> characters) {
  std::vector<CodePointSet::Interval> intervals;
  for (const char each : characters) {
    const auto code_point = static_cast<unsigned char>(each);
    intervals.push_back({code_point, code_point});
  }
  return CodePointSet(std::move(intervals)).complement();
}

}  // namespace

bool is_function_name(std::string_view name) {
  constexpr std::string_view kCharacters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.:/";
  return !name.empty() && name.size() <= kMaxFunctionName &&
         name.find_first_not_of(kCharacters) == std::string_view::npos;
}

// The text is split before each occurrence of the tag's first character. Each part then must not begin with
// the tag: it is a proper prefix of the tag, or differs from the tag at some character.
Expression text_without(std::string_view tag) {
  const std::string_view rest = tag.substr(1);
  expects(!rest.empty() && rest.find(tag.front()) == std::string_view::npos,
          "the tag's first character occurs in it once");
  const Expression plain =
      Expression::repeat(Expression::code_points(all_but({tag.front()})), 0, std::nullopt);
  std::vector<Expression> tails;
  for (size_t shared = 0; shared < rest.size(); ++shared) {
    const Expression differs =
        Expression::sequence({Expression::code_points(all_but({tag.front(), rest[shared]})), plain});
    tails.push_back(
        Expression::sequence({Expression::text(rest.substr(0, shared)), Expression::optional(differs)}));
  }
  const Expression part =
      Expression::sequence({Expression::text(tag.substr(0, 1)), Expression::choice(std::move(tails))});
  return Expression::sequence({plain, Expression::repeat(part, 0, std::nullopt)});
}

std::vector<std::string> relax_schemas(std::vector<CallableFunction>& functions, const ToolCallForm& form) {
  std::vector<std::string> places;
  ToolCallConstraint in_form;
  in_form.form = &form;
  int64_t work = kToolSchemaWork;
  for (CallableFunction& function : functions) {
    if (function.strict || function.parameters.empty()) continue;
    const auto relax = [&] {
      function.parameters = R"({"type": "object"})";
      places.push_back(function.place);
    };
    try {
      AutomatonLimits limits;
      const ByteAutomaton automaton =
          ByteAutomaton::compile(call_expression(function, in_form, work), function.place, limits);
      work -= AutomatonLimits{}.work - limits.work;
    } catch (const AutomatonTooLarge&) {
      relax();
    } catch (const UnsupportedSchema&) {
      relax();
    }
  }
  return places;
}

std::vector<std::string_view> tag_texts(const ToolCallForm& form) {
  std::vector<std::string_view> texts;
  for (const std::string_view text : {form.begin, form.end, form.quote}) {
    if (!text.empty()) texts.push_back(text);
  }
  return texts;
}

const ToolCallForm& tool_call_form_of(std::string_view text, std::string_view name) {
  for (const ToolCallForm* const form : {&kTaggedCalls, &kQuotedCalls, &kBareCalls}) {
    std::string call(form->is_whole_answer ? "" : form->begin);
    for (const std::string_view part : {form->head, name, form->arguments_key}) call += part;
    if (text.find(call + "{") != std::string_view::npos) return *form;
  }
  return kTaggedCalls;
}

namespace {

/// A superset of the texts that ToolCallReader (engine/tool_call_reader.h) takes for calls.
Expression like_calls(const ToolCallForm& form) {
  const Expression any = Expression::repeat(any_byte(), 0, std::nullopt);
  const Expression begin = Expression::text(form.begin);
  if (!form.is_whole_answer) return Expression::sequence({any, begin, any});
  return Expression::sequence(
      {Expression::choice({begin, Expression::sequence({Expression::text(form.head), any,
                                                        Expression::text(form.arguments_key)})}),
       any});
}

/// Texts in the form of ToolCallConstraint::answer that do not look like calls.
Expression formed_answer(const ToolCallConstraint& constraint) {
  const std::string name = "tools";
  AutomatonLimits limits;
  const ByteAutomaton answers =
      ByteAutomaton::compile(constraint_expression(as_constraint(*constraint.answer)), name, limits);
  const ByteAutomaton calls = ByteAutomaton::compile(like_calls(*constraint.form), name, limits);
  return Expression::automaton(ByteAutomaton::difference(answers, calls, name, limits));
}

/// A call that is a whole answer, or a text that does not begin like a call.
Expression whole_answer(const ToolCallConstraint& constraint, const Expression& call) {
  if (constraint.is_required) return call;
  if (constraint.answer) return Expression::choice({formed_answer(constraint), call});
  const Expression any = Expression::repeat(Expression::code_points(CodePointSet::all()), 0, std::nullopt);
  const Expression text =
      Expression::sequence({Expression::code_points(all_but({'{', ' ', '\t', '\r', '\n'})), any});
  return Expression::choice({Expression::optional(text), call});
}

}  // namespace

Expression tool_call_expression(const ToolCallConstraint& constraint) {
  check_functions(constraint.functions);
  int64_t work = kToolSchemaWork;
  std::vector<Expression> calls;
  for (const CallableFunction& function : constraint.functions)
    calls.push_back(call_expression(function, constraint, work));
  const ToolCallForm& form = *constraint.form;
  const Expression begin = tag(constraint, form.begin);
  const Expression call = Expression::sequence(
      {form.is_whole_answer ? Expression::optional(begin) : begin, Expression::text(form.head),
       Expression::choice(std::move(calls)), Expression::text(form.tail), tag(constraint, form.end)});
  if (form.is_whole_answer) return whole_answer(constraint, call);
  const std::optional<int> most = constraint.is_parallel ? std::nullopt : std::optional(1);
  const Expression separator = Expression::text(form.separator);
  if (constraint.is_required || constraint.answer) {
    const Expression calls_alone = Expression::repeat(call, 1, most, separator);
    return constraint.is_required ? calls_alone
                                  : Expression::choice({formed_answer(constraint), calls_alone});
  }
  return Expression::sequence({text_without(form.begin), Expression::repeat(call, 0, most, separator)});
}

}  // namespace lacuna
