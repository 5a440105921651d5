#include "eval/compare.h"

#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "commands.h"
#include "engine/preset_use.h"
#include "evaluation.h"
#include "generation_flags.h"
#include "loading.h"
#include "numbers.h"
#include "parse_message.h"
#include "progress_bar.h"
#include "terminal.h"

namespace lacuna {
namespace {

struct CompareFlags : ModelFlags {
  ComparisonSettings settings;
  std::string a, b;
  bool raw = false;
  bool json = false;
};

/// One side's flags, in the syntax of `lacuna eval`.
struct SideFlags : GuidedModelFlags {
  GenerationOptions generation;
};

SideFlags parse_side(const std::string& name, const std::string& text, const ModelFlags& common) {
  SideFlags side;
  static_cast<ModelFlags&>(side) = common;
  CLI::App flags("", "--" + name);
  add_generation_flags(flags, side.generation);
  add_guide_flag(flags, side.guide);
  add_format_flags(flags, side);
  add_kv_cache_flag(flags, side.kv_cache);
  add_device_flag(flags, side.device);
  try {
    flags.parse(text, false);
  } catch (const CLI::ParseError& error) {
    throw InputError("--{} \"{}\": {}", name, text, sentence_of(error, flags));
  }
  if (side.generation.seed) throw InputError("--{} \"{}\": the seed is given once, outside", name, text);
  return side;
}

void print_report(const CompareFlags& flags, const nlohmann::ordered_json& json) {
  const auto value = [](const nlohmann::ordered_json& of) { return of.get<double>(); };
  print_text("a: {}\nb: {}\n\n", flags.a.empty() ? "(defaults)" : flags.a,
             flags.b.empty() ? "(defaults)" : flags.b);
  print_text("{:<14} {:>22} {:>22} {:>9}\n", "", "a", "b", "b / a");
  const auto accuracy = [&](const char* side) {
    const auto& of = json[side]["accuracy"];
    return fmt::format("{:.1f}% ({:.1f} to {:.1f})", 100 * value(of["value"]), 100 * value(of["low"]),
                       100 * value(of["high"]));
  };
  print_text("{:<14} {:>22} {:>22}\n", "accuracy", accuracy("a"), accuracy("b"));
  const auto& ratios = json["b_over_a"];
  for (const char* key : {"rows", "layer_flops", "flops", "bytes"}) {
    print_text("{:<14} {:>22.6g} {:>22.6g} {:>9.3f}\n", key, value(json["a"][key]), value(json["b"][key]),
               value(ratios[key]));
  }
  const bool differs = ratios["differs_in_speed"].get<bool>();
  print_text("{:<14} {:>22.6g} {:>22.6g} {:>9}\n", "seconds", value(json["a"]["seconds"]),
             value(json["b"]["seconds"]),
             differs ? fmt::format("{:.3f}", value(ratios["seconds"])) : std::string("no change"));
  print_text("{:<14} {:>22} {:>22}\n\n", "forward passes", json["a"]["forward_passes"].get<int64_t>(),
             json["b"]["forward_passes"].get<int64_t>());
  print_text("same tokens    {:.2f}% of {}\n", 100 * value(json["same_tokens"]["value"]),
             json["same_tokens"]["of"].get<int64_t>());
  print_text("same texts     {:.2f}% of {}\n", 100 * value(json["same_texts"]["value"]),
             json["same_texts"]["of"].get<int64_t>());
  print_text("only a right   {}\nonly b right   {}\n", json["only_a_correct"].get<int64_t>(),
             json["only_b_correct"].get<int64_t>());
  print_text("KL(a || b)     mean {:.3g}, most {:.3g} nats, over {} committed positions\n",
             value(json["kl_mean"]), value(json["kl_max"]), json["kl_positions"].get<int64_t>());
}

void run_compare(const CompareFlags& flags) {
  check_options(find_task(flags.settings.task), flags.settings.task_options);
  SideFlags sides[] = {parse_side("a", flags.a, flags), parse_side("b", flags.b, flags)};
  const ModelSource source = find_model(flags);
  if (!has_tokenizer(source.folder)) {
    throw InputError("{} has no tokenizer; the tasks are texts", flags.model);
  }
  const Tokenizer tokenizer = Tokenizer::load(source.folder);
  const ChatTemplate chat_template = flags.raw ? ChatTemplate{} : load_chat_template(source.folder);
  std::unique_ptr<GuideSource> guides[2];
  for (int i = 0; i < 2; ++i) guides[i] = find_guide(sides[i], {source.config, &tokenizer, chat_template});

  GenerationOptions options[2];
  for (int i = 0; i < 2; ++i)
    options[i] = resolve_run(sides[i], source, guides[i].get(), sides[i].generation);
  // One model for both sides, unless they name different formats or devices.
  std::vector<LoadedModel> loaded = {load_model(sides[0], source)};
  const bool is_same =
      device_named(sides[0].device) == device_named(sides[1].device) &&
      preset_formats(weight_formats(sides[0], source)) == preset_formats(weight_formats(sides[1], source));
  if (!is_same && flags.is_sharded())
    throw InputError("--shard {}: expected the same formats in --a and --b", flags.shard);
  loaded.push_back(is_same ? loaded.front() : load_model(sides[1], source));
  std::vector<ComparedSetting> settings;
  for (size_t i = 0; i < 2; ++i) {
    EvaluatedModel model{loaded[i].model, tokenizer, chat_template};
    if (guides[i]) {
      model.guide = &guides[i]->guide;
      model.guide_model = load_guide(sides[i], guides[i].get(), loaded[i]);
    }
    settings.push_back({model, options[i]});
  }
  ProgressBar bar("Comparing");
  const Comparison comparison = compare(settings[0], settings[1], flags.settings,
                                        [&](int32_t done) { bar.update(done, flags.settings.samples); });
  bar.clear();

  nlohmann::ordered_json json{{"model", flags.model},
                              {"task", flags.settings.task},
                              {"samples", flags.settings.samples},
                              {"batch", flags.settings.batch},
                              {"seed", flags.settings.seed},
                              {"a_device", loaded[0].model->device()},
                              {"b_device", loaded[1].model->device()},
                              {"a_flags", flags.a},
                              {"b_flags", flags.b}};
  add_options(flags.settings.task_options, json);
  json.update(to_json(comparison));
  if (flags.json) {
    print_data("{}\n", json.dump());
  } else {
    print_report(flags, json);
  }
}

}  // namespace

void add_compare_command(CLI::App& program) {
  auto flags = std::make_shared<CompareFlags>();
  CLI::App* command = program.add_subcommand(
      "compare", "Run two settings on the same samples: agreement, accuracy, rows, FLOPs and time");
  add_model_flags(*command, *flags);
  command->add_option("--task", flags->settings.task, task_names())->required()->group("Task");
  add_task_option_flags(*command, flags->settings.task_options);
  command->add_option("--samples", flags->settings.samples, "Samples of the test split (default 100)")
      ->check(CLI::Range(1, 1'000'000));
  command->add_option("--batch", flags->settings.batch, "Samples that share each forward pass (default 8)")
      ->check(CLI::Range(1, 4096));
  command
      ->add_option("-s,--seed", flags->settings.seed,
                   "Chooses the samples; sample i draws with seed + i (default 0)")
      ->check(number<uint64_t>());
  command->add_option(
      "--a", flags->a,
      "Flags of generation and of formats of the first setting, such as \"--cache dual --weights int8\"; "
      "empty: defaults");
  command->add_option("--b", flags->b, "Flags of the second setting, like --a")->required();
  command->add_flag("--raw", flags->raw, "Apply no chat template");
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->footer(
      "Batches of the two settings take turns, so that both meet the same machine. \"no change\": their "
      "times do not tell the settings apart.");
  command->callback([flags] { run_compare(*flags); });
}

}  // namespace lacuna
