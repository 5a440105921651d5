#include "engine/logits.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "commands.h"
#include "input.h"
#include "loading.h"

namespace lacuna {
namespace {

struct LogitsFlags : ModelFlags {
  std::string request;
  std::string out;
};

struct LogitsRequest {
  std::vector<TokenId> tokens;
  std::vector<int32_t> positions;
  int32_t block_length = 0;  // 0: not given
  int32_t clean_prefix = 0;  // GIDD: rows that do not see those behind them
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

LogitsRequest read_request(const std::string& file, const ModelConfig& config) {
  const nlohmann::json json = parse_json(read_file(file), file);
  if (!json.is_object()) throw InputError("{}: not a JSON object", file);
  if (!json.contains("tokens")) throw InputError("{}: the key 'tokens' is missing", file);
  for (const auto& [key, value] : json.items()) {
    const bool has_blocks = key == "block_length" && config.block_causal;
    const bool has_prefix = key == "clean_prefix" && config.noise.has_value();
    if (key != "tokens" && key != "positions" && !has_blocks && !has_prefix) {
      throw InputError("{}: the key '{}' means nothing to {}", file, key, config.architecture);
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
  if (json.contains("clean_prefix")) {
    const auto& length = json["clean_prefix"];
    if (!length.is_number_integer() || length < 0 || length > static_cast<int64_t>(count)) {
      throw InputError("{}: 'clean_prefix' is {}; expected a whole number from 0 to {}", file, length.dump(),
                       count);
    }
    request.clean_prefix = length.get<int32_t>();
  }
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

/// NumPy's format 1.0: magic, header length, a Python literal padded to 64 bytes, the numbers.
void write_npy(const std::string& path, Matrix<float> values) {
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}",
                                   values.rows, values.cols);
  constexpr size_t kPrefix = 10;
  header.append(63 - (kPrefix + header.size()) % 64, ' ');
  header += '\n';
  std::ofstream stream(path, std::ios::binary);
  stream.write("\x93NUMPY\x01\x00", 8);
  const auto length = static_cast<uint16_t>(header.size());
  stream.put(static_cast<char>(length & 0xff));
  stream.put(static_cast<char>(length >> 8));
  stream << header;
  for (int64_t row = 0; row < values.rows; ++row) {
    stream.write(reinterpret_cast<const char*>(values.row(row)),
                 values.cols * static_cast<std::streamsize>(sizeof(float)));
  }
  stream.close();
  if (!stream) throw InputError("{}: cannot be written", path);
}

void run_logits(const LogitsFlags& flags) {
  const ModelSource source = find_model(flags);
  const ModelConfig& config = source.config;
  const LogitsRequest request = read_request(flags.request, config);
  const LoadedModel loaded = load_model(flags, source);
  const StepPlan plan =
      logits_plan(config, request.tokens, request.positions, {request.block_length, request.clean_prefix});
  const int64_t rows = plan.num_rows();
  Buffer<float> memory(rows * config.vocab_size);
  const Matrix<float> logits(memory.data(), rows, config.vocab_size);
  compute_logits(*loaded.model, plan, logits);
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
          "\"clean_prefix\": N rows that see none behind them, for GIDD}")
      ->required();
  command
      ->add_option("--out", flags->out, "NumPy file: float32 [rows, vocabulary], nothing shifted or left out")
      ->required();
  command->callback([flags] { run_logits(*flags); });
}

}  // namespace lacuna
