#include "zoo_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "weights/weight_format.h"

namespace lacuna {
namespace {

/// "retrieval 1024" -> "--task retrieval --length 1024"
std::string task_flags(const std::string& column) {
  const size_t space = column.find(' ');
  if (space == std::string::npos) return "--task " + column;
  return fmt::format("--task {} --length {}", column.substr(0, space), column.substr(space + 1));
}

class ZooPage : private PageWriter {
 public:
  ZooPage(const ZooGrid& grid, const Measure& measure) : PageWriter(measure), grid_(grid) {}

  std::vector<PageFile> write() {
    heading("Accuracy");
    std::vector<std::string> head = {"model", "family"};
    head.insert(head.end(), ZooGrid::columns().begin(), ZooGrid::columns().end());
    Table accuracies(head);
    Table commands({"model", "task", "passes", "command"});
    for (const ZooModel& model : grid_.models) {
      std::vector<std::string> cells = {fmt::format("[{0}](../../models/{0}/README.md)", model.name),
                                        model.family};
      for (const std::string& column : ZooGrid::columns()) {
        if (std::find(model.tasks.begin(), model.tasks.end(), column) == model.tasks.end()) {
          cells.emplace_back("-");
          continue;
        }
        const std::string command = command_of(model, column, grid_.samples);
        const Measurement measured = evaluate(command, Purpose::kFigures);
        cells.push_back(accuracy_text(measured));
        commands.row({model.name, column, fmt::format("{:.1f}", measured.passes), code(command)});
      }
      accuracies.row(cells);
    }
    table(accuracies);
    paragraph("A dash: the model was not trained on that task.");
    write_formats();
    heading("How each figure is made");
    paragraph("Forward passes are the mean of a sample.");
    table(commands);
    return files("zoo.md", introduction());
  }

 private:
  std::string command_of(const ZooModel& model, const std::string& column, int64_t samples) const {
    return fmt::format("{}-m {} {}{}{} --seed {} --samples {}{}", kEvalCommand, model.name,
                       task_flags(column), model.flags.empty() ? "" : " ", model.flags, grid_.seed, samples,
                       grid_.common_flags);
  }

  static std::string quantize_command(const std::string& model, const std::string& format) {
    return fmt::format("{}-m {} --to {} -o $(mktemp -d)/model --json", kQuantizeCommand, model, format);
  }

  void write_formats() {
    heading("With weights of fewer bits");
    const int64_t samples = grid_.format_samples();
    paragraph(fmt::format(
        "The first task of each model again, `--weights FORMAT`, also with `--activations int8`, "
        "or `--kv-cache int8` "
        "behind its command ([quantized weights](../reference/quantized.md)), and `--samples {}`, as formats "
        "differ by little; the first "
        "{} are those of the table above.",
        samples, grid_.samples));
    std::vector<std::string> settings, accuracy_head = {"model", "bf16"}, error_head = {"model"};
    for (const std::string& format : quantised_format_names()) {
      settings.push_back(fmt::format("--weights {}", format));
      accuracy_head.emplace_back(format);
      error_head.insert(error_head.end(), {fmt::format("{}: error", format), "KL"});
    }
    settings.emplace_back("--weights int4 --activations int8");
    accuracy_head.emplace_back("int4, int8 activations");
    settings.emplace_back("--kv-cache int8");
    accuracy_head.emplace_back("int8 keys and values");
    Table accuracies(accuracy_head);
    for (const ZooModel& model : grid_.models) {
      const std::string dense = command_of(model, model.tasks.front(), samples);
      std::vector<std::string> cells = {model.name, accuracy_text(evaluate(dense, Purpose::kFigures))};
      for (const std::string& flags : settings) {
        cells.push_back(accuracy_text(evaluate(fmt::format("{} {}", dense, flags), Purpose::kFigures)));
      }
      accuracies.row(cells);
    }
    table(accuracies);
    paragraph(
        "What `lacuna quantize` says of each, `--to FORMAT`: the relative error of the matrices (root of "
        "the summed squares), and the KL of the posteriors from the original's on 64 random tokens and "
        "masks, which are harder than text, in nats a row.");
    Table errors(error_head);
    for (const ZooModel& model : grid_.models) {
      std::vector<std::string> cells = {model.name};
      for (const std::string& format : quantised_format_names()) {
        const nlohmann::json found = printed(quantize_command(model.name, format));
        cells.push_back(fmt::format("{:.2g}", found.at("relative_error").get<double>()));
        cells.push_back(fmt::format("{:.2g}", found.at("kl_mean").get<double>()));
      }
      errors.row(cells);
    }
    table(errors);
    paragraph(code(quantize_command(grid_.models.front().name, quantised_format_names().front())) +
              ", and so on.");
  }

  std::string introduction() const {
    return fmt::format(
        R"(# The zoo

The models in `models/`: about a million parameters each, trained on generated tasks with `lacuna-train`
([training.md](../inside/training.md)) and on nothing else. They exist so that every method can be judged by answers that are right
or wrong; they know no other text. All share one tokenizer. Each card (the links) has the command, seed, minutes and machine
of its training.

Written by `lacuna report zoo` from the raw rows in `zoo.jsonl`.

- Machine: {}.
- Commit (code and models): {}. Models that were trained anew since have their figures on their cards.
- {} unseen samples of each task, seed {}; brackets are 95% Wilson intervals. Nothing is skipped: the plain decoder
  of each family, one token a step but for ReFusion, which has its default rules.
)",
        machines(), commits(), grid_.samples, grid_.seed);
  }

  const ZooGrid& grid_;
};

}  // namespace

const std::vector<std::string>& ZooGrid::columns() {
  static const std::vector<std::string> kColumns = {"arithmetic", "stories", "records", "retrieval 1024",
                                                    "retrieval 4096"};
  return kColumns;
}

std::vector<ZooModel> zoo_models() {
  const std::string one_a_step = "--unmask threshold=1";
  return {
      {"mini-llada", "llada", "", {"arithmetic", "stories"}},
      {"mini-dream", "dream", one_a_step, {"arithmetic", "stories"}},
      {"mini-gidd", "gidd", "--steps 64 --tokens-per-step 1", {"arithmetic", "stories"}},
      {"mini-gidd-mask",
       "gidd-mask",
       "--block-length 8 --steps 8 --tokens-per-step 1",
       {"arithmetic", "stories"}},
      {"mini-refusion", "refusion", "", {"arithmetic", "stories", "records"}},
      {"mini-sdar", "sdar", "", {"arithmetic", "retrieval 1024", "retrieval 4096"}},
      {"mini-fast-dllm",
       "fast-dllm-v2",
       "--unmask low-confidence",
       {"arithmetic", "retrieval 1024", "retrieval 4096"}},
      {"mini-llada2",
       "llada2-moe",
       "--unmask low-confidence",
       {"arithmetic", "retrieval 1024", "retrieval 4096"}},
      {"mini-qwen", "qwen2", "", {"arithmetic", "stories"}},
      {"mini-qwen3", "qwen3", "", {"arithmetic", "stories", "records"}},
  };
}

std::vector<PageFile> write_zoo_page(const ZooGrid& grid, const Measure& measure) {
  return ZooPage(grid, measure).write();
}

}  // namespace lacuna
