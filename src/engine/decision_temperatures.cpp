#include "engine/decision_temperatures.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/gguf.h"
#include "base/json.h"
#include "base/written_file.h"
#include "tokenizer/json_file.h"

namespace lacuna {
namespace {

constexpr QuestionKind kKinds[] = {QuestionKind::kPredicate, QuestionKind::kChoice, QuestionKind::kScore};

}  // namespace

std::filesystem::path decision_sidecar(const std::filesystem::path& model) {
  if (!GgufFile::is_gguf(model)) return model / "decisions.json";
  std::filesystem::path sidecar = model;
  return sidecar += ".decisions.json";
}

DecisionTemperatures load_decision_temperatures(const std::filesystem::path& model) {
  DecisionTemperatures result;
  if (model.empty()) return result;
  const std::filesystem::path path = decision_sidecar(model);
  if (!has_file(path)) return result;
  const nlohmann::json document = parse_json(read_text_file(path), path.string());
  const JsonObject file(document, path.string());
  const JsonObject temperatures = file.object("temperatures");
  for (const QuestionKind kind : kKinds) {
    result.values[static_cast<size_t>(kind)] =
        temperatures.number(name_of(kind), {kMinTemperature, kMaxTemperature}, 1.0F);
  }
  result.is_fitted = true;
  result.writes_text = file.flag("writes_text", true);
  return result;
}

void save_decision_temperatures(const std::filesystem::path& model, const DecisionTemperatures& temperatures,
                                const nlohmann::ordered_json& record) {
  nlohmann::ordered_json by_kind = nlohmann::ordered_json::object();
  for (const QuestionKind kind : kKinds) by_kind[std::string(name_of(kind))] = temperatures.of(kind);
  nlohmann::ordered_json document = {{"temperatures", std::move(by_kind)}};
  if (!temperatures.writes_text) document["writes_text"] = false;
  document.update(record);
  write_whole_file(decision_sidecar(model), document.dump(2) + '\n');
}

}  // namespace lacuna
