#include "wire/decision_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/field_error.h"
#include "base/json.h"
#include "engine/result.h"

namespace lacuna {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// A copy with sorted keys, so that prompts do not depend on the order of keys.
json sorted(const ordered_json& value) {
  return value;
}

std::string as_text(const ordered_json& value) {
  return value.is_string() ? value.get<std::string>() : dump_json(sorted(value));
}

std::string quoted(const ordered_json& value) {
  return in_quotes(dump_json(value));
}

/// The value of a key; null pointer if the key is missing or its value is null.
const ordered_json* member(const ordered_json& object, std::string_view key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const ordered_json& required(const ordered_json& object, std::string_view key, const std::string& place,
                             std::string_view expected) {
  const ordered_json* value = member(object, key);
  if (value == nullptr) throw InputError("{}{} is missing; expected {}", place, key, expected);
  return *value;
}

std::string required_text(const ordered_json& object, std::string_view key, const std::string& place) {
  const ordered_json& value = required(object, key, place, "text");
  if (!value.is_string()) throw InputError("{}{} is {}; expected text", place, key, quoted(value));
  return value.get<std::string>();
}

/// Adds the places of unknown keys.
void note_unknown(const ordered_json& object, const std::string& place,
                  std::initializer_list<std::string_view> known, std::vector<std::string>& unknown) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) unknown.push_back(place + key);
  }
}

/// The text of a key, with other JSON values dumped as text; empty if the key is missing.
std::string content_text(const ordered_json& object, std::string_view key, const std::string& place) {
  const ordered_json* value = member(object, key);
  if (value == nullptr) return {};
  if (!value->is_string() && !value->is_structured())
    throw InputError("{}{} is {}; expected text, an object or a list", place, key, quoted(*value));
  return as_text(*value);
}

const ordered_json& required_list(const ordered_json& object, std::string_view key, const std::string& place,
                                  size_t least, size_t most) {
  const ordered_json& list = required(object, key, place, "a list");
  if (!list.is_array()) throw InputError("{}{} is {}; expected a list", place, key, quoted(list));
  if (list.size() < least || list.size() > most)
    throw InputError("{}{} has {} elements; expected {} to {}", place, key, list.size(), least, most);
  return list;
}

void expect_object(const ordered_json& value, const std::string& place) {
  if (!value.is_object()) throw InputError("{} is {}; expected an object", place, quoted(value));
}

// OpenAI's format.

/// The text of a message's or an instruction's content: a string or a list of text and JSON parts.
std::string parts_text(const ordered_json& content, const std::string& place) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array())
    throw InputError("{} is {}; expected text or a list of parts", place, quoted(content));
  std::vector<std::string> texts;
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string part_place = fmt::format("{}[{}]", place, i);
    const ordered_json& part = content[i];
    expect_object(part, part_place);
    const std::string type = required_text(part, "type", part_place + ".");
    if (type == "input_text" || type == "output_text") {
      texts.push_back(required_text(part, "text", part_place + "."));
    } else if (type == "refusal") {
      texts.push_back(required_text(part, "refusal", part_place + "."));
    } else if (type == "input_json") {
      texts.push_back(as_text(required(part, "data", part_place + ".", "an object or a list of objects")));
    } else if (type == "input_image") {
      throw InputError("{}.type is \"input_image\"; this server reads texts alone", part_place);
    } else {
      throw InputError("{}.type is {}; expected input_text, input_json, output_text or refusal", part_place,
                       in_quotes(type));
    }
  }
  return fmt::format("{}", fmt::join(texts, "\n"));
}

/// Converts a conversation to DecideRequest::state, and its system turns to DecideRequest::guidance.
class InputReader {
 public:
  void read(const ordered_json& input, DecideRequest& request) {
    if (input.is_string()) {
      request.state = input.get<std::string>();
      return;
    }
    if (!input.is_array() || input.empty())
      throw InputError("input is {}; expected text or a list of at least one item", quoted(input));
    for (size_t i = 0; i < input.size(); ++i) {
      const std::string place = fmt::format("input[{}]", i);
      expect_object(input[i], place);
      read_item(input[i], place + ".");
    }
    request.guidance = fmt::format("{}", fmt::join(guidance_, "\n"));
    // A single user message needs no role prefix.
    if (lines_.size() == 1 && lines_.front().first == "user") {
      request.state = lines_.front().second;
      return;
    }
    for (const auto& [who, text] : lines_)
      request.state += fmt::format("{}{}: {}", request.state.empty() ? "" : "\n", who, text);
  }

 private:
  void read_item(const ordered_json& item, const std::string& place) {
    const ordered_json* type = member(item, "type");
    const std::string kind = type == nullptr ? "message" : as_text(*type);
    if (kind == "message") {
      read_message(item, place);
    } else if (kind == "function_call" || kind == "custom_tool_call") {
      calls_[required_text(item, "call_id", place)] = required_text(item, "name", place);
      const char* arguments = kind == "function_call" ? "arguments" : "input";
      add(fmt::format("call of {}", required_text(item, "name", place)),
          required_text(item, arguments, place));
    } else if (kind == "function_call_output" || kind == "custom_tool_call_output") {
      const std::string id = required_text(item, "call_id", place);
      const auto call = calls_.find(id);
      if (call == calls_.end())
        throw InputError("{}call_id is {}; expected the call_id of an earlier call", place, in_quotes(id));
      add(fmt::format("result of {}", call->second),
          parts_text(required(item, "output", place, "text"), place + "output"));
    } else {
      throw InputError(
          "{}type is {}; expected message, function_call, function_call_output, custom_tool_call or "
          "custom_tool_call_output",
          place, in_quotes(kind));
    }
  }

  void read_message(const ordered_json& item, const std::string& place) {
    const std::string role = required_text(item, "role", place);
    std::string text = parts_text(required(item, "content", place, "text"), place + "content");
    if (role == "developer" || role == "system") {
      guidance_.push_back(std::move(text));
    } else if (role == "user" || role == "assistant") {
      add(role, std::move(text));
    } else {
      throw InputError("{}role is {}; expected user, developer, system or assistant", place, in_quotes(role));
    }
  }

  void add(std::string who, std::string text) { lines_.emplace_back(std::move(who), std::move(text)); }

  std::vector<std::pair<std::string, std::string>> lines_;
  std::vector<std::string> guidance_;
  std::map<std::string, std::string> calls_;  // function names by call id
};

void read_choices(const ordered_json& question, const std::string& place, DecisionQuestion& result,
                  std::vector<ordered_json>& options) {
  const ordered_json& choices = required_list(question, "choices", place, 2, kMaxOptions);
  std::set<ordered_json> seen;
  for (size_t i = 0; i < choices.size(); ++i) {
    const std::string own = fmt::format("{}choices[{}]", place, i);
    expect_object(choices[i], own);
    const ordered_json& value = required(choices[i], "value", own + ".", "text, true or false");
    if (!value.is_string() && !value.is_boolean())
      throw InputError("{}.value is {}; expected text, true or false", own, quoted(value));
    if (!seen.insert(value).second)
      throw InputError("{}.value {} comes twice; expected unique values", own, quoted(value));
    result.options.push_back({as_text(value), content_text(choices[i], "description", own + ".")});
    options.push_back(value);
  }
}

void read_levels(const ordered_json& question, const std::string& place, DecisionQuestion& result,
                 std::vector<ordered_json>& options) {
  const ordered_json& levels = required_list(question, "levels", place, 2, kMaxLevels);
  for (size_t i = 0; i < levels.size(); ++i) {
    const std::string own = fmt::format("{}levels[{}]", place, i);
    expect_object(levels[i], own);
    result.options.push_back(
        {required_text(levels[i], "label", own + "."), content_text(levels[i], "description", own + ".")});
    options.emplace_back(result.options.back().text);
  }
}

void read_openai_question(const ordered_json& question, const std::string& place, DecisionBody& body) {
  expect_object(question, place.substr(0, place.size() - 1));
  const std::string type = required_text(question, "type", place);
  DecisionQuestion result;
  std::vector<ordered_json> options;
  const std::string instructions =
      parts_text(required(question, "instructions", place, "text"), place + "instructions");
  if (type == "predicate") {
    result = make_predicate(instructions);
  } else if (type == "choice" || type == "score") {
    result.kind = type == "choice" ? QuestionKind::kChoice : QuestionKind::kScore;
    result.instructions = instructions;
    (type == "choice" ? read_choices : read_levels)(question, place, result, options);
  } else {
    throw InputError("{}type is {}; expected predicate, choice or score", place, in_quotes(type));
  }
  const ordered_json* name = member(question, "name");
  if (name != nullptr && !name->is_string())
    throw InputError("{}name is {}; expected text", place, quoted(*name));
  note_unknown(question, place, {"type", "name", "instructions", "choices", "levels"}, body.unknown);
  for (const char* key : {"choices", "levels"}) {
    const ordered_json* list = member(question, key);
    for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
      if (list->is_array() && (*list)[i].is_object())
        note_unknown((*list)[i], fmt::format("{}{}[{}].", place, key, i), {"value", "label", "description"},
                     body.unknown);
    }
  }
  body.names.push_back(name == nullptr ? ordered_json() : *name);
  body.options.push_back(std::move(options));
  body.request.questions.push_back(std::move(result));
}

void read_openai(const ordered_json& object, DecisionBody& body) {
  const ordered_json& questions = in_field("questions", [&]() -> const ordered_json& {
    return required_list(object, "questions", "", 1, kMaxQuestions);
  });
  for (size_t i = 0; i < questions.size(); ++i) {
    const std::string place = fmt::format("questions[{}]", i);
    in_field(place, [&] { read_openai_question(questions[i], place + ".", body); });
  }
  const ordered_json* input = member(object, "input");
  body.has_text = input != nullptr;
  if (input != nullptr) in_field("input", [&] { InputReader().read(*input, body.request); });
}

// System One's format.

void read_system_one_criteria(const ordered_json& question, const std::string& place,
                              DecisionQuestion& result, std::vector<ordered_json>& options) {
  if (result.kind == QuestionKind::kScore) {
    const ordered_json& levels = required_list(question, "criteria", place, 1, kMaxLevels);
    for (size_t i = 0; i < levels.size(); ++i) {
      if (!levels[i].is_string() && !levels[i].is_structured())
        throw InputError("{}criteria[{}] is {}; expected text, an object or a list", place, i,
                         quoted(levels[i]));
      result.options.push_back({as_text(levels[i]), {}});
      options.emplace_back(sorted(levels[i]));
    }
    return;
  }
  const ordered_json& criteria = required(question, "criteria", place, "an object of options");
  expect_object(criteria, place + "criteria");
  if (criteria.empty() || criteria.size() > kMaxOptions)
    throw InputError("{}criteria has {} options; expected 1 to {}", place, criteria.size(), kMaxOptions);
  for (const auto& [key, value] : criteria.items()) {
    result.options.push_back({key, content_text(criteria, key, place + "criteria.")});
    options.emplace_back(key);
  }
}

void read_system_one_question(const std::string& name, const ordered_json& question, DecisionBody& body) {
  const std::string place = fmt::format("questions[{}].", in_quotes(name));
  expect_object(question, place.substr(0, place.size() - 1));
  const std::string type = required_text(question, "type", place);
  std::string instructions = content_text(question, "instructions", place);
  if (instructions.empty()) instructions = name;
  DecisionQuestion result;
  std::vector<ordered_json> options;
  if (type == "noul") {
    static const ordered_json kNone = ordered_json::object();
    const ordered_json* criteria = member(question, "criteria");
    if (criteria == nullptr) criteria = &kNone;
    expect_object(*criteria, place + "criteria");
    result = make_predicate(std::move(instructions), content_text(*criteria, "true", place + "criteria."),
                            content_text(*criteria, "false", place + "criteria."));
  } else if (type == "choice" || type == "score") {
    result.kind = type == "choice" ? QuestionKind::kChoice : QuestionKind::kScore;
    result.instructions = std::move(instructions);
    read_system_one_criteria(question, place, result, options);
  } else if (type == "box") {
    throw InputError("{}type is \"box\", which is about images; this server reads texts alone", place);
  } else {
    throw InputError("{}type is {}; expected noul, choice or score", place, in_quotes(type));
  }
  note_unknown(question, place, {"type", "instructions", "criteria"}, body.unknown);
  body.names.emplace_back(name);
  body.options.push_back(std::move(options));
  body.request.questions.push_back(std::move(result));
}

const ordered_json& system_one_questions(const ordered_json& object) {
  const ordered_json& questions = required(object, "questions", "", "an object of questions by name");
  expect_object(questions, "questions");
  if (questions.empty() || questions.size() > kMaxQuestions)
    throw InputError("questions has {} members; expected 1 to {}", questions.size(), kMaxQuestions);
  return questions;
}

void read_system_one(const ordered_json& object, DecisionBody& body) {
  const ordered_json& questions =
      in_field("questions", [&]() -> const ordered_json& { return system_one_questions(object); });
  const ordered_json* assets = member(object, "assets");
  if (assets != nullptr && !assets->empty())
    throw FieldError("assets", fmt::format("assets is {}; this server reads texts alone", quoted(*assets)));
  for (const auto& [name, question] : questions.items()) {
    in_field(fmt::format("questions[{}]", in_quotes(name)),
             [&, &name = name, &question = question] { read_system_one_question(name, question, body); });
  }
  body.has_text = member(object, "state") != nullptr;
  body.request.state = in_field("state", [&] { return content_text(object, "state", ""); });
}

// Both formats.

int64_t integer_of(const ordered_json& object, const char* key, Range<int64_t> range, int64_t usual) {
  const ordered_json* value = member(object, key);
  if (value == nullptr) return usual;
  const bool is_whole = value->is_number_integer() &&
                        (!value->is_number_unsigned() || value->get<uint64_t>() <= uint64_t{1} << 62);
  if (!is_whole || value->get<int64_t>() < range.first || value->get<int64_t>() > range.last) {
    throw FieldError(fmt::format("lacuna.{}", key),
                     fmt::format("lacuna.{} is {}; expected an integer from {} to {}", key, quoted(*value),
                                 range.first, range.last));
  }
  return value->get<int64_t>();
}

void expect_known(const ordered_json& own) {
  if (const ordered_json* steps = member(own, "steps"); steps != nullptr && *steps != 1) {
    throw FieldError(
        "lacuna.steps",
        fmt::format("lacuna.steps is {}; expected 1: every label is read in the same pass, given "
                    "all questions and no other answer",
                    quoted(*steps)));
  }
  for (const auto& [key, value] : own.items()) {
    const bool is_known =
        key == "orders" || key == "draws" || key == "seed" || key == "independent" || key == "steps";
    if (!is_known)
      throw FieldError(
          fmt::format("lacuna.{}", key),
          fmt::format("lacuna.{} is not known; expected orders, independent, draws or seed", key));
  }
}

void read_own_settings(const ordered_json& object, DecideRequest& request) {
  const ordered_json* own = member(object, "lacuna");
  if (own == nullptr) return;
  in_field("lacuna", [&] { expect_object(*own, "lacuna"); });
  expect_known(*own);
  request.both_orders = integer_of(*own, "orders", {1, 2}, 1) == 2;
  request.draws = static_cast<int32_t>(integer_of(*own, "draws", {1, kMaxDraws}, request.draws));
  request.seed = static_cast<uint64_t>(integer_of(*own, "seed", {0, int64_t{1} << 62}, 0));
  const ordered_json* independent = member(*own, "independent");
  if (independent == nullptr) return;
  if (!independent->is_boolean())
    throw FieldError("lacuna.independent",
                     fmt::format("lacuna.independent is {}; expected true or false", quoted(*independent)));
  request.independent = independent->get<bool>();
}

DecisionFormat format_of(const ordered_json& object, std::string_view name) {
  const bool has_state = member(object, "state") != nullptr;
  const bool has_input = member(object, "input") != nullptr;
  if (has_state && has_input) throw InputError("{} has both input and state; expected one of them", name);
  if (has_state) return DecisionFormat::kSystemOne;
  if (has_input) return DecisionFormat::kOpenAi;
  const ordered_json* questions = member(object, "questions");
  return questions != nullptr && questions->is_object() ? DecisionFormat::kSystemOne
                                                        : DecisionFormat::kOpenAi;
}

ordered_json usage_json(DecisionFormat format, const DecideResult& result) {
  const auto output = static_cast<int64_t>(result.answers.size());
  if (format == DecisionFormat::kSystemOne)
    return {{"input_tokens", result.prompt_tokens}, {"output_tokens", output}};
  return {{"input_tokens", result.prompt_tokens},
          {"input_tokens_details",
           {{"cached_tokens", result.statistics.shared_tokens}, {"cache_write_tokens", 0}}},
          {"output_tokens", output},
          {"output_tokens_details", {{"reasoning_tokens", 0}}},
          {"total_tokens", result.prompt_tokens + output}};
}

ordered_json openai_answer(const DecisionBody& body, size_t i, const DecisionAnswer& answer) {
  const QuestionKind kind = body.request.questions[i].kind;
  ordered_json result = {{"type", name_of(kind)}, {"name", body.names[i]}};
  if (kind == QuestionKind::kPredicate) {
    result["probability"] = answer.probabilities[0];
    return result;
  }
  ordered_json probabilities = ordered_json::array();
  for (size_t option = 0; option < answer.probabilities.size(); ++option) {
    ordered_json entry = ordered_json::object();
    if (kind == QuestionKind::kScore) entry["label"] = body.options[i][option];
    entry["value"] = kind == QuestionKind::kScore ? ordered_json(option) : body.options[i][option];
    entry["probability"] = answer.probabilities[option];
    probabilities.push_back(std::move(entry));
  }
  if (kind == QuestionKind::kChoice) result["choice"] = body.options[i][answer.best()];
  if (kind == QuestionKind::kScore) result["score"] = answer.score();
  result["confidence"] = confidence_of(kind, answer.probabilities);
  result["probabilities"] = std::move(probabilities);
  return result;
}

ordered_json system_one_answer(const DecisionBody& body, size_t i, const DecisionAnswer& answer) {
  const QuestionKind kind = body.request.questions[i].kind;
  if (kind == QuestionKind::kPredicate) return {{"type", "noul"}, {"noul", answer.probabilities[0]}};
  ordered_json result = {{"type", name_of(kind)}};
  ordered_json legend = ordered_json::object();
  ordered_json probabilities = ordered_json::object();
  for (size_t option = 0; option < answer.probabilities.size(); ++option) {
    const bool is_score = kind == QuestionKind::kScore;
    const std::string key = is_score ? std::to_string(option) : body.options[i][option].get<std::string>();
    if (is_score) legend[key] = body.options[i][option];
    probabilities[key] = answer.probabilities[option];
  }
  if (kind == QuestionKind::kChoice) result["choice"] = body.options[i][answer.best()];
  if (kind == QuestionKind::kScore) result["score"] = answer.score();
  result["confidence"] = confidence_of(kind, answer.probabilities);
  if (kind == QuestionKind::kScore) result["legend"] = std::move(legend);
  result["probabilities"] = std::move(probabilities);
  return result;
}

}  // namespace

DecisionBody read_decision_body(const ordered_json& object, std::string_view name,
                                std::optional<DecisionFormat> format) {
  if (!object.is_object()) throw InputError("{} is not a JSON object", name);
  DecisionBody body;
  body.format = format ? *format : format_of(object, name);
  read_own_settings(object, body.request);
  const bool is_openai = body.format == DecisionFormat::kOpenAi;
  note_unknown(
      object, "",
      {"model", "questions", "lacuna", is_openai ? "input" : "state", is_openai ? "input" : "assets"},
      body.unknown);
  (is_openai ? read_openai : read_system_one)(object, body);
  return body;
}

std::vector<std::string> decision_warnings(const DecisionBody& body, const DecideResult& result) {
  std::vector<std::string> warnings;
  constexpr size_t kMaxNamed = 16;
  const size_t count = body.unknown.size();
  if (count > 0)
    warnings.push_back(
        fmt::format("ignored, since the format has no such fields: {}{}",
                    fmt::join(body.unknown.begin(), body.unknown.begin() + std::min(count, kMaxNamed), ", "),
                    count > kMaxNamed ? fmt::format(", and {} more", count - kMaxNamed) : ""));
  for (size_t i = 0; i < result.answers.size(); ++i) {
    const double mass = result.answers[i].label_mass;
    if (mass >= kMinLabelMass) continue;
    const std::string name =
        body.names[i].is_string() ? fmt::format(" ({})", in_quotes(as_text(body.names[i]))) : "";
    warnings.push_back(fmt::format(
        "question {}{}: the labels have {:.3f} of the probability of all tokens; the model would mostly have "
        "written something else",
        i + 1, name, mass));
  }
  return warnings;
}

ordered_json decision_reply(const DecisionBody& body, const DecideResult& result, const std::string& model) {
  const bool is_openai = body.format == DecisionFormat::kOpenAi;
  ordered_json answers = is_openai ? ordered_json::array() : ordered_json::object();
  for (size_t i = 0; i < result.answers.size(); ++i) {
    const DecisionAnswer& answer = result.answers[i];
    ordered_json entry = (is_openai ? openai_answer : system_one_answer)(body, i, answer);
    entry["label_mass"] = answer.label_mass;
    if (answer.standard_error) entry["standard_error"] = *answer.standard_error;
    if (is_openai) {
      answers.push_back(std::move(entry));
    } else {
      answers[body.names[i].get<std::string>()] = std::move(entry);
    }
  }
  return {{"model", model},
          {"answers", std::move(answers)},
          {"usage", usage_json(body.format, result)},
          {"lacuna",
           {{"calibrated", result.temperatures.is_fitted},
            {"warnings", decision_warnings(body, result)},
            {"stats", to_json(result.statistics)}}}};
}

}  // namespace lacuna
