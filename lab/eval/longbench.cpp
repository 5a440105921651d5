#include "eval/longbench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/read_file.h"
#include "eval/benchmarks.h"
#include "eval/text_metrics.h"

namespace lacuna {
namespace {

// Metrics and lengths are those of LongBench's eval.py and config/dataset2maxlen.json.
constexpr std::array kLongBenchTasks = {
    LongBenchTask{"2wikimqa", TextMetric::kTokenF1, 32},
    LongBenchTask{"gov_report", TextMetric::kRougeL, 512},
    LongBenchTask{"hotpotqa", TextMetric::kTokenF1, 32},
    LongBenchTask{"lcc", TextMetric::kEditSimilarity, 64},
    LongBenchTask{"multi_news", TextMetric::kRougeL, 512},
    LongBenchTask{"multifieldqa_en", TextMetric::kTokenF1, 64},
    LongBenchTask{"musique", TextMetric::kTokenF1, 32},
    LongBenchTask{"narrativeqa", TextMetric::kTokenF1, 128},
    LongBenchTask{"qasper", TextMetric::kTokenF1, 128},
    LongBenchTask{"qmsum", TextMetric::kRougeL, 512},
    LongBenchTask{"repobench-p", TextMetric::kEditSimilarity, 64},
    LongBenchTask{"samsum", TextMetric::kRougeL, 128, true},
    LongBenchTask{"triviaqa", TextMetric::kTokenF1, 32, true},
};

const LongBenchTask& task_of(const JsonObject& object) {
  const std::string name = object.text("dataset");
  const auto found = std::find_if(kLongBenchTasks.begin(), kLongBenchTasks.end(),
                                  [&](const auto& task) { return task.name == name; });
  if (found != kLongBenchTasks.end()) return *found;
  std::string names;
  for (const LongBenchTask& task : kLongBenchTasks)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", task.name);
  object.refuse("dataset", "one of " + names);
}

double metric_score(TextMetric metric, std::string_view answer, std::string_view reference) {
  switch (metric) {
    case TextMetric::kTokenF1:
      return token_f1(answer, reference);
    case TextMetric::kRougeL:
      return rouge_l(answer, reference);
    case TextMetric::kEditSimilarity:
      return edit_similarity(first_code_line(answer), reference);
  }
  return 0;
}

}  // namespace

std::string_view name_of(TextMetric metric) {
  switch (metric) {
    case TextMetric::kTokenF1:
      return "token_f1";
    case TextMetric::kRougeL:
      return "rouge_l";
    case TextMetric::kEditSimilarity:
      return "edit_similarity";
  }
  return "";
}

std::span<const LongBenchTask> longbench_tasks() {
  return kLongBenchTasks;
}

LongBenchFile read_longbench(const std::string& path) {
  LongBenchFile file;
  read_json_lines(path, [&](const nlohmann::json&, const JsonObject& object) {
    const LongBenchTask& task = task_of(object);
    if (file.task == nullptr) file.task = &task;
    if (file.task != &task) {
      object.refuse("dataset", fmt::format("{}, as on the lines before", file.task->name));
    }
    LongBenchItem item{object.text("context"), object.text("input", ""), object.texts("answers")};
    if (item.answers.empty() || item.answers.size() > kMaxReferences) {
      object.refuse("answers", fmt::format("1 to {} texts", kMaxReferences));
    }
    for (const std::string& answer : item.answers) {
      if (answer.size() > kMaxReferenceBytes) {
        throw InputError("{}: \"answers\" holds a text of {} bytes; expected at most {}", object.file(),
                         answer.size(), kMaxReferenceBytes);
      }
    }
    file.items.push_back(std::move(item));
  });
  return file;
}

std::map<std::string, std::string, std::less<>> read_longbench_templates(const std::string& path) {
  constexpr size_t kMaxBytes = size_t{1} << 20;
  const nlohmann::json json = parse_json(read_whole_file(path, kMaxBytes), path);
  if (!json.is_object()) throw InputError("{}: expected a JSON object", path);
  const JsonObject object(json, path);
  std::map<std::string, std::string, std::less<>> forms;
  for (const std::string& name : object.keys()) {
    const std::string form = object.text(name);
    if (form.find("{context}") == std::string::npos) object.refuse(name, "a text with {context}");
    forms[name] = form;
  }
  return forms;
}

std::string longbench_prompt(std::string_view form, const LongBenchItem& item) {
  constexpr std::string_view kContext = "{context}", kInput = "{input}";
  if (form.empty()) return item.input.empty() ? item.context : item.context + "\n\n" + item.input;
  std::string prompt;
  while (!form.empty()) {
    const size_t at = std::min({form.find(kContext), form.find(kInput), form.size()});
    prompt += form.substr(0, at);
    form.remove_prefix(at);
    if (form.starts_with(kContext)) {
      prompt += item.context;
      form.remove_prefix(kContext.size());
    } else if (form.starts_with(kInput)) {
      prompt += item.input;
      form.remove_prefix(kInput.size());
    }
  }
  return prompt;
}

std::string without_middle(const Tokenizer& tokenizer, std::string text, size_t most) {
  const std::vector<TokenId> tokens = tokenizer.encode(text);
  if (tokens.size() <= most) return text;
  const std::span<const TokenId> all(tokens);
  return tokenizer.decode(all.first(most / 2)) + tokenizer.decode(all.last(most / 2));
}

double longbench_score(const LongBenchTask& task, const LongBenchItem& item, std::string_view answer) {
  if (task.first_line) {
    answer.remove_prefix(std::min(answer.find_first_not_of('\n'), answer.size()));
    answer = answer.substr(0, answer.find('\n'));
  }
  double best = 0;
  for (const std::string& reference : item.answers) {
    best = std::max(best, metric_score(task.metric, answer, reference));
  }
  return best;
}

}  // namespace lacuna
