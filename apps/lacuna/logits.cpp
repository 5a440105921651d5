#include "engine/logits.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "commands.h"
#include "input.h"
#include "loading.h"
#include "npy.h"

namespace lacuna {
namespace {

struct LogitsFlags : ModelFlags {
  std::string request;
  std::string out;
};

struct LogitsRequest {
  std::vector<TokenId> tokens;
  std::vector<int32_t> positions;
  int32_t block_length = 0;   // 0: not given
  int32_t clean_prefix = 0;   // GIDD: leading rows that do not attend to later ones
  int32_t canvas_begin = -1;  // DiffusionGemma: where the canvas begins; -1: there is none
  std::string self_conditioning;
  float noise_level = 0;  // LFM2.5-Diffusion: of the canvas
};

std::vector<int32_t> read_numbers(const nlohmann::json& request, const std::string& file, const char* key,
                                  int64_t limit) {
  const auto& values = request.at(key);
  if (!values.is_array() || values.empty()) {
    throw InputError("{}: '{}' is not a list of at least one number", file, key);
  }
  std::vector<int32_t> numbers;
  for (const auto& value : values) {
    if (!value.is_number_integer() || value < 0 || value >= limit) {
      throw InputError("{}: '{}' holds {}; expected integers from 0 to {}", file, key, value.dump(),
                       limit - 1);
    }
    numbers.push_back(value.get<int32_t>());
  }
  return numbers;
}

int32_t read_count(const nlohmann::json& request, const std::string& file, const char* key, size_t most) {
  const auto& count = request.at(key);
  if (!count.is_number_integer() || count < 0 || count > static_cast<int64_t>(most)) {
    throw InputError("{}: '{}' is {}; expected a whole number from 0 to {}", file, key, count.dump(), most);
  }
  return count.get<int32_t>();
}

LogitsRequest read_request(const std::string& file, const ModelConfig& config) {
  const nlohmann::json json = parse_json(read_file(file), file);
  if (!json.is_object()) throw InputError("{}: not a JSON object", file);
  if (!json.contains("tokens")) throw InputError("{}: the key 'tokens' is missing", file);
  for (const auto& [key, value] : json.items()) {
    const bool has_blocks = key == "block_length" && config.block_causal && !config.causal_context;
    const bool has_prefix =
        key == "clean_prefix" && (config.whole_prompt || (config.noise && !config.denoises_whole_canvas()));
    const bool has_canvas = (key == "canvas_begin" && (config.canvas || config.causal_context)) ||
                            (key == "self_conditioning" && config.canvas) ||
                            (key == "noise_level" && config.knows_noise_levels());
    if (key != "tokens" && key != "positions" && !has_blocks && !has_prefix && !has_canvas) {
      throw InputError("{}: the key '{}' has no effect for {}", file, key, config.architecture);
    }
  }
  LogitsRequest request;
  if (json.contains("block_length")) {
    const auto& length = json["block_length"];
    if (!length.is_number_integer() || length < 1 || length > config.max_positions) {
      throw InputError("{}: 'block_length' is {}; expected a whole number from 1 to {}", file, length.dump(),
                       config.max_positions);
    }
    request.block_length = length.get<int32_t>();
  }
  request.tokens = read_numbers(json, file, "tokens", config.vocab_size);
  const auto count = request.tokens.size();
  if (json.contains("clean_prefix")) request.clean_prefix = read_count(json, file, "clean_prefix", count);
  if (json.contains("canvas_begin")) request.canvas_begin = read_count(json, file, "canvas_begin", count - 1);
  if (json.contains("self_conditioning")) {
    const auto& path = json["self_conditioning"];
    if (!path.is_string() || path.get_ref<const std::string&>().empty() || request.canvas_begin < 0) {
      throw InputError(
          "{}: 'self_conditioning' is {}; expected the name of a NumPy file, with 'canvas_begin'", file,
          path.dump());
    }
    request.self_conditioning = path.get<std::string>();
  }
  request.noise_level = JsonObject(json, file).number("noise_level", {0, 1e3}, 0.0F);
  if (json.contains("positions")) {
    request.positions = read_numbers(json, file, "positions", config.max_positions);
    if (request.positions.size() != count) {
      throw InputError("{}: {} positions for {} tokens", file, request.positions.size(), count);
    }
  } else {
    if (static_cast<int64_t>(count) > config.max_positions) {
      throw InputError("{}: {} tokens; the model has {} positions", file, count, config.max_positions);
    }
    for (size_t i = 0; i < count; ++i) request.positions.push_back(static_cast<int32_t>(i));
  }
  return request;
}

/// Applies softmax unless all rows are distributions already.
void normalise(std::vector<float>& values, int64_t cols) {
  const auto size = static_cast<size_t>(cols);
  bool are_distributions = true;
  for (size_t begin = 0; begin < values.size(); begin += size) {
    double sum = 0;
    for (size_t i = begin; i < begin + size; ++i) {
      are_distributions = are_distributions && values[i] >= 0;
      sum += values[i];
    }
    are_distributions = are_distributions && std::abs(sum - 1) < 1e-2;
  }
  for (size_t begin = 0; !are_distributions && begin < values.size(); begin += size) {
    const float largest = *std::max_element(&values[begin], &values[begin] + size);
    double sum = 0;
    for (size_t i = begin; i < begin + size; ++i) sum += std::exp(double{values[i]} - largest);
    for (size_t i = begin; i < begin + size; ++i)
      values[i] = static_cast<float>(std::exp(double{values[i]} - largest) / sum);
  }
}

/// Self-conditioning input of the canvas rows; empty if none is given.
std::vector<float> read_conditioning(const LogitsFlags& flags, const LogitsRequest& request,
                                     const ModelConfig& config) {
  if (request.self_conditioning.empty()) return {};
  std::filesystem::path path = request.self_conditioning;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    path = std::filesystem::path(flags.request).parent_path() / request.self_conditioning;
  const auto rows = static_cast<int64_t>(request.tokens.size()) - request.canvas_begin;
  std::vector<float> values = read_npy(path, rows, config.vocab_size);
  normalise(values, config.vocab_size);
  return values;
}

void run_logits(const LogitsFlags& flags) {
  const ModelSource source = find_model(flags);
  const ModelConfig& config = source.config;
  const LogitsRequest request = read_request(flags.request, config);
  const std::vector<float> conditioning = read_conditioning(flags, request, config);
  const LoadedModel loaded = load_model(flags, source);
  const StepPlan plan = logits_plan(config, request.tokens, request.positions,
                                    {.block_length = request.block_length,
                                     .clean_prefix = request.clean_prefix,
                                     .canvas_begin = request.canvas_begin,
                                     .is_conditioned = !conditioning.empty(),
                                     .noise_level = request.noise_level});
  const int64_t rows = plan.num_rows();
  Buffer<float> memory(rows * config.vocab_size);
  const Matrix<float> logits(memory.data(), rows, config.vocab_size);
  const auto canvas_rows = static_cast<int64_t>(conditioning.size()) / config.vocab_size;
  compute_logits(*loaded.model, plan, logits, {conditioning.data(), canvas_rows, config.vocab_size});
  write_npy(flags.out, logits);
}

}  // namespace

void add_logits_command(CLI::App& program) {
  auto flags = std::make_shared<LogitsFlags>();
  CLI::App* command =
      program.add_subcommand("logits", "Write the raw output of every row of one forward pass");
  add_model_flags(*command, *flags);
  command
      ->add_option(
          "--request", flags->request,
          "JSON: {\"tokens\": [...], \"positions\": [... optional], \"block_length\": N for block diffusion, "
          "\"clean_prefix\": N rows that see none after them, for GIDD, \"canvas_begin\": P where the canvas "
          "begins and \"self_conditioning\": \"FILE.npy\" [canvas, vocabulary], for DiffusionGemma and "
          "LFM2.5-Diffusion, \"noise_level\": X of the canvas, for the latter}")
      ->required();
  command
      ->add_option("--out", flags->out, "NumPy file: float32 [rows, vocabulary], nothing shifted or left out")
      ->required();
  command->callback([flags] { run_logits(*flags); });
}

}  // namespace lacuna
