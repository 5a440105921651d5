#include "command_list.h"

#include <algorithm>
#include <sstream>

#include "base/name_list.h"

namespace lacuna {
namespace {

constexpr std::string_view kRun = "Run a model";
constexpr std::string_view kServe = "Serve";
constexpr std::string_view kGet = "Get models";
constexpr std::string_view kInside = "Look inside";
constexpr std::string_view kMeasure = "Measure";
constexpr std::string_view kConvert = "Convert";
constexpr std::string_view kShell = "Help";

constexpr CommandEntry kEntries[] = {
    {"run", kRun,
     R"(lacuna run mini-llada "Mia has 12 shells. She finds 7 more. How many shells does Mia have now?")",
     R"(echo "Tom has 9 coins. He loses 4. How many coins does Tom have now?" | lacuna run -m mini-sdar --json)"},
    {"chat", kRun, "lacuna chat mini-llada", "lacuna chat mini-sdar --no-live"},
    {"infill", kRun,
     R"(lacuna infill mini-llada "Mia has 12 shells. She [[1]] 5 of them. Now she has [[1]] shells.")",
     R"(lacuna infill mini-dream "Tom has 9 coins. He [[1]] 4 coins. Now he has 13 coins.")"},
    {"decide", kRun,
     R"(lacuna decide -m mini-decide --state "Mia has 12 shells. She loses 5." -q "What does Mia have?" --choice "shells, hats")",
     R"(lacuna decide -m mini-decide --state "Ben the fox sees the bell. Ben is very sad." -q "Is Ben sad?" --json)"},
    {"batch", kRun, "lacuna batch -m mini-llada requests.jsonl answers.jsonl",
     "lacuna batch --endpoint http://127.0.0.1:8080 requests.jsonl answers.jsonl"},
    {"replay", kRun, "lacuna replay trace.jsonl", "lacuna replay trace.jsonl --fps 5"},
    {"serve", kServe, "lacuna serve mini-llada", "lacuna serve mini-sdar --port 8081 --api-key secret"},
    {"mcp", kServe, "lacuna mcp -m mini-llada", "lacuna mcp -m mini-llada --gen-length 64 --temperature 0.7"},
    {"pull", kGet, "lacuna pull GSAI-ML/LLaDA-8B-Instruct",
     "lacuna pull JetLM/SDAR-1.7B-Chat --revision main"},
    {"list", kGet, "lacuna list", "lacuna list --json"},
    {"inspect", kInside, "lacuna inspect mini-llada",
     "lacuna inspect -m random:llada-8b --weights int4-group"},
    {"tokenize", kInside, R"(echo "Mia has 12 shells." | lacuna tokenize -m mini-llada)",
     R"(echo "[5, 6, 7]" | lacuna tokenize -m mini-llada --decode)"},
    {"logits", kInside, "lacuna logits -m mini-llada --request request.json --out logits.npy",
     "lacuna logits -m mini-llada --request request.json --out logits.npy --dtype f32"},
    {"analyze", kInside, "lacuna analyze drift -m mini-gidd --gen-length 32 --block-length 8",
     "lacuna analyze recall -m mini-sdar --task arithmetic --gen-length 32 --budgets 16,32"},
    {"eval", kMeasure, "lacuna eval -m mini-llada --task arithmetic --samples 20",
     "lacuna eval -m mini-sdar --task arithmetic --samples 20 --json"},
    {"compare", kMeasure,
     R"(lacuna compare -m mini-llada --task arithmetic --samples 20 --b "--cache dual --block-length 8")",
     R"(lacuna compare -m mini-dream --task arithmetic --samples 20 --b "--unmask threshold=0.9")"},
    {"tune", kMeasure, "lacuna tune -m mini-llada --task arithmetic --risk 0.1 --samples 60",
     "lacuna tune -m mini-llada --task arithmetic --risk 0.1 --samples 60 --save quick"},
    {"bench", kMeasure, "lacuna bench step -m mini-llada",
     "lacuna bench decode -m random:llada-8b,layers=1 --gen-length 32 --steps 4"},
    {"plan", kMeasure, "lacuna plan -m random:llada-8b --machines 4 --link 10Gb",
     "lacuna plan -m random:llada2-mini --weights int4 --machines 4 --cores 64 --link 100Gb --rows 256 "
     "--json"},
    {"merge", kConvert, "lacuna merge -m Dream-org/Dream-v0-Base-7B --lora my-adapter -o merged",
     "lacuna merge -m my-model --lora style --lora facts=0.5 -o merged --dtype bf16"},
    {"quantize", kConvert, "lacuna quantize -m mini-llada --to int8-group -o my-int8",
     "lacuna quantize -m mini-llada --to int4-group -o my-int4 --json"},
    {"pack", kConvert, "lacuna pack -m mini-llada -o my-packed",
     "lacuna pack -m mini-llada --weights int4 -o my-packed-int4"},
    {"help", kShell, "lacuna help run", "lacuna help bench step"},
    {"completion", kShell, "source <(lacuna completion bash)",
     "lacuna completion fish > ~/.config/fish/completions/lacuna.fish"},
    {"man", kShell, "lacuna man > lacuna.1", "lacuna man | man -l -"},
};

/// Help headings of flags that set no group themselves or that several commands share. Lists of names are
/// separated by spaces.
struct FlagPlace {
  std::string_view group;  ///< empty: the flags' own groups
  std::string_view common;
  std::string_view rare;

  bool has(std::string_view name) const { return has_name(common, name) || has_name(rare, name); }
};

constexpr std::string_view kModel = "Model";
constexpr std::string_view kPrompt = "Prompt";
constexpr std::string_view kSampling = "Sampling";
constexpr std::string_view kSpeed = "Speed";
constexpr std::string_view kServer = "Server";

constexpr FlagPlace kPlaces[] = {
    {"Output", "", "trace-plans"},
    {kModel, "model dtype weights kv-cache lora", "head-weights activations rope-scale"},
    {kSpeed, "device threads preset cache eos-exit lock guide",
     "pin numa refresh cache-block suffix suffix-dropout accept"},
    {kPrompt, "prompt-tokens", "prompts-file chat-template"},
    {"", "", "batch"},
    {kSampling, "gen-length steps block-length unmask temperature top-p top-k seed stop",
     "ignore-eos cfg-scale suppress-mask"},
    {"Speed: guided diffusion", "", "guide-match guide-fallback guide-block"},
    {"LLaDA and Dream", "", "alg-temp eps logits-eos-inf confidence-eos-eot-inf"},
    {"Block diffusion (SDAR, LLaDA 2, Fast-dLLM v2)", "",
     "sub-block-length commit edit pipeline drafts focus sparse sparse-commit sparse-after"},
    {"Uniform diffusion (GIDD, Sumi)", "",
     "sampler tokens-per-step schedule min-length context noise boundary drift block-exit last-layer "
     "self-correct"},
    {"ReFusion", "", "refusion slot-size slot-threshold token-threshold fill kv revoke"},
    {kServer, "", "kv-memory prefix-memory pass-rows"},
};

const FlagPlace* place_of(const CLI::Option& option) {
  if (option.get_lnames().empty()) return nullptr;
  const auto* place = std::find_if(std::begin(kPlaces), std::end(kPlaces), [&](const FlagPlace& each) {
    return each.has(option.get_lnames().front());
  });
  return place == std::end(kPlaces) ? nullptr : place;
}

}  // namespace

const CommandEntry* find_entry(std::string_view name) {
  const auto* entry = std::ranges::find(kEntries, name, &CommandEntry::name);
  return entry == std::end(kEntries) ? nullptr : entry;
}

std::string path_of(const CLI::App& command) {
  if (command.get_parent() == nullptr) return "";
  const std::string parent = path_of(*command.get_parent());
  return parent.empty() ? command.get_name() : parent + " " + command.get_name();
}

const CLI::App* find_command(const CLI::App& program, std::span<const std::string> words) {
  const CLI::App* command = &program;
  for (const std::string& word : words) {
    const std::vector<const CLI::App*> inner = commands_of(*command);
    const auto found = std::find_if(inner.begin(), inner.end(),
                                    [&](const CLI::App* app) { return app->get_name() == word; });
    if (found == inner.end()) return nullptr;
    command = *found;
  }
  return command;
}

std::vector<const CLI::App*> commands_of(const CLI::App& command) {
  std::vector<const CLI::App*> commands =
      command.get_subcommands([](const CLI::App* each) { return !each->get_name().empty(); });
  const auto place = [](const CLI::App* app) {
    const CommandEntry* entry = find_entry(path_of(*app));
    return entry == nullptr ? std::end(kEntries) - std::begin(kEntries) : entry - std::begin(kEntries);
  };
  std::stable_sort(commands.begin(), commands.end(),
                   [&](const CLI::App* a, const CLI::App* b) { return place(a) < place(b); });
  return commands;
}

std::string group_of(const CLI::Option& option) {
  const FlagPlace* place = place_of(option);
  if (place != nullptr && !place->group.empty()) return std::string(place->group);
  return option.get_lnames().front().starts_with("help") ? "Help" : option.get_group();
}

std::vector<std::string> groups_of(std::span<const CLI::Option* const> options) {
  std::vector<std::string> groups;
  for (const CLI::Option* option : options) {
    const std::string group = group_of(*option);
    if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
  }
  constexpr std::string_view kFirst[] = {kModel, kPrompt, "Task", kServer, "Options", kSampling, kSpeed};
  const auto place = [&](const std::string& group) {
    const auto known = std::find(std::begin(kFirst), std::end(kFirst), group) - std::begin(kFirst);
    return group == "Help" ? known + 1 : known;  // last
  };
  std::stable_sort(groups.begin(), groups.end(),
                   [&](const std::string& a, const std::string& b) { return place(a) < place(b); });
  return groups;
}

bool is_rare(const CLI::Option& option) {
  const FlagPlace* place = place_of(option);
  return place != nullptr && has_name(place->rare, option.get_lnames().front()) && !option.get_required();
}

bool is_flag(const CLI::Option& option) {
  return option.get_items_expected_max() == 0;
}

std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t begin = type.find('{');
  const size_t end = type.find('}', begin);
  if (begin == std::string::npos || end == std::string::npos) return {};
  std::vector<std::string> choices;
  std::istringstream list(type.substr(begin + 1, end - begin - 1));
  for (std::string choice; std::getline(list, choice, ',');) choices.push_back(choice);
  return choices;
}

std::vector<const CLI::Option*> options_of(const CLI::App& command) {
  return command.get_options([](const CLI::Option* option) {
    return !option->get_lnames().empty() && !option->get_group().empty();
  });
}

}  // namespace lacuna
