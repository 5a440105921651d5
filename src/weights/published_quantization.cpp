#include "weights/published_quantization.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/name_list.h"

namespace lacuna {
namespace {

namespace fs = std::filesystem;

constexpr Range<int64_t> kBits{1, 8};
constexpr Range<int64_t> kGroupSize{-1, 1 << 20};
constexpr Range<int64_t> kBlock{1, 1 << 20};

/// Refuses a value of the key, if given, that is not one of these texts.
void expect_one_of(const JsonObject& json, std::string_view key, std::span<const std::string_view> accepted) {
  if (!json.has(key)) return;
  const std::string found = json.text(key);
  if (std::find(accepted.begin(), accepted.end(), found) == accepted.end())
    json.refuse(key, fmt::format("{}", fmt::join(accepted, ", ")));
}

void add_dense(const JsonObject& json, std::string_view key, PublishedQuantization& read) {
  if (!json.has(key)) return;
  for (std::string& module : json.texts(key)) read.dense.push_back(std::move(module));
}

CodeSizes read_sizes(const JsonObject& json) {
  return {json.integer("bits", kBits, 0), json.integer("group_size", kGroupSize, 0)};
}

void read_gptq(const JsonObject& json, PublishedQuantization& read) {
  read.sizes = read_sizes(json);
  expect_one_of(json, "checkpoint_format", std::to_array<std::string_view>({"gptq", "gptq_v2"}));
  expect_one_of(json, "format", std::to_array<std::string_view>({"gptq", "gptq_v2"}));
  json.expect("is_marlin_format", false);
  json.expect("pack_dtype", std::string_view("int32"));
  json.expect_absent("rotation");
  json.expect_absent("adapter");
  // Patterns select modules with other sizes; the tensors' shapes give the sizes.
  if (json.has("dynamic")) read.sizes = {};
  const std::string format = json.text("checkpoint_format", json.text("format", "gptq"));
  read.stores_zeros_less_one = format != "gptq_v2";
}

void read_awq(const JsonObject& json, PublishedQuantization& read) {
  json.expect("bits", 4);
  json.expect("w_bit", 4);
  expect_one_of(json, "version", std::to_array<std::string_view>({"gemm", "GEMM"}));
  json.expect("zero_point", true);
  read.sizes = {4, json.integer("group_size", kGroupSize, json.integer("q_group_size", kGroupSize, 0))};
  add_dense(json, "modules_to_not_convert", read);
}

/// AutoRound's own format, with GPTQ's or AWQ's tensors.
void read_auto_round(const JsonObject& json, PublishedQuantization& read) {
  static constexpr std::string_view kFirstGptq = "auto_round:auto_gptq", kAwq = "auto_round:auto_awq";
  constexpr std::string_view kKey = "packing_format";
  const std::string packing = json.text(kKey);
  if (packing != kFirstGptq && packing != kAwq && packing != "auto_round" &&
      packing != "auto_round:gptqmodel")
    json.refuse(kKey, fmt::format("auto_round, auto_round:gptqmodel, {} or {}", kFirstGptq, kAwq));
  read.method = packing == kAwq ? QuantMethod::kAwq : QuantMethod::kGptq;
  read.stores_zeros_less_one = packing == kFirstGptq;
  // Patterns select modules with other sizes; the tensors' shapes give the sizes.
  if (!json.has("extra_config")) read.sizes = read_sizes(json);
  json.has("bits");
  json.has("group_size");
}

void read_fp8(const JsonObject& json, PublishedQuantization& read) {
  expect_one_of(json, "fmt", std::to_array<std::string_view>({"e4m3", "float8_e4m3fn"}));
  expect_one_of(json, "activation_scheme", std::to_array<std::string_view>({"dynamic", "static"}));
  add_dense(json, "modules_to_not_convert", read);
  add_dense(json, "ignored_layers", read);
  if (!json.has("weight_block_size")) return;
  const std::vector<int64_t> block = json.integers("weight_block_size", kBlock);
  if (block.size() != 2) json.refuse("weight_block_size", "a list of 2: outputs and inputs of a block");
  read.block = {block[0], block[1]};
}

/// Reads the weights' settings of the groups of modules in "config_groups".
void read_groups(const JsonObject& json, PublishedQuantization& read) {
  if (!json.has("config_groups")) return;
  const JsonObject groups = json.object("config_groups");
  groups.read_all();
  std::vector<CodeSizes> sizes;
  for (const std::string& name : groups.keys()) {
    const JsonObject group = groups.object(name);
    if (!group.has("weights")) continue;
    const JsonObject weights = group.object("weights");
    sizes.push_back(
        {weights.integer("num_bits", kBits, 0), weights.integer("group_size", {-1, kGroupSize.last}, 0)});
    if (!weights.has("block_structure")) continue;
    const std::vector<int64_t> block = weights.integers("block_structure", kBlock);
    if (block.size() != 2) weights.refuse("block_structure", "a list of 2: outputs and inputs of a block");
    read.block = {block[0], block[1]};
  }
  // Patterns select the modules of a group; the tensors' shapes give the sizes.
  if (sizes.size() == 1) read.sizes = sizes.front();
}

void read_compressed_tensors(const JsonObject& json, PublishedQuantization& read) {
  expect_one_of(
      json, "format",
      std::to_array<std::string_view>({"dense", "int-quantized", "naive-quantized", "float-quantized",
                                       "pack-quantized", "nvfp4-pack-quantized", "mixed-precision"}));
  if (json.has("sparsity_config")) {
    const JsonObject sparsity = json.object("sparsity_config");
    if (!sparsity.keys().empty())
      expect_one_of(sparsity, "format", std::to_array<std::string_view>({"dense"}));
    sparsity.read_all();
  }
  if (json.has("transform_config") && !json.object("transform_config").keys().empty())
    json.refuse("transform_config", "no such key: rotated weights are not supported");
  add_dense(json, "ignore", read);
  read_groups(json, read);
}

void read_modelopt(const JsonObject& json, PublishedQuantization& read) {
  static constexpr std::array kAlgorithms = std::to_array<std::string_view>(
      {"NVFP4", "FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO", "MIXED_PRECISION"});
  expect_one_of(json, "quant_algo", kAlgorithms);
  add_dense(json, "ignore", read);
  add_dense(json, "exclude_modules", read);
  read_groups(json, read);
  read.sizes = {};  // the tensors' shapes give the sizes of groups of 16
  if (!json.has("quantization")) return;
  const JsonObject inner = json.object("quantization");
  expect_one_of(inner, "quant_algo", kAlgorithms);
  add_dense(inner, "exclude_modules", read);
  inner.read_all();
}

void read_bits_and_bytes(const JsonObject& json, PublishedQuantization& read) {
  expect_one_of(json, "bnb_4bit_quant_type", std::to_array<std::string_view>({"nf4", "fp4"}));
  if (json.has("llm_int8_skip_modules")) add_dense(json, "llm_int8_skip_modules", read);
}

struct MethodReader {
  std::string_view name;
  QuantMethod method;
  void (*read)(const JsonObject& json, PublishedQuantization& read);
  /// Keys about how weights were quantized, how other programs quantize activations and K/V (ignored here),
  /// or which kernels run.
  std::string_view harmless = {};
};

constexpr std::string_view kGptqKeys =
    "act_group_aware backend batch_size block_name_to_quantize cache_block_outputs damp_auto_increment "
    "damp_percent dataset desc_act disable_exllama dynamic exllama_config lm_head max_input_length meta "
    "method model_file_base_name model_name_or_path model_seqlen module_name_preceding_first_block "
    "modules_in_block_to_quantize mse pad_token_id parallel_packing quantizer static_groups sym tokenizer "
    "true_sequential use_cuda_fp16 use_exllama";
constexpr std::string_view kAwqKeys = "backend do_fuse exllama_config fuse_max_seq_len modules_to_fuse";
constexpr std::string_view kFp8Keys = "activation_scale_ub dequantize kv_cache_scheme scale_fmt";
constexpr std::string_view kCompressedKeys =
    "global_compression_ratio kv_cache_scheme quantization_status version";
constexpr std::string_view kModelOptKeys =
    "group_size kv_cache_quant_algo kv_cache_scheme producer quantized_layers";
constexpr std::string_view kBitsAndBytesKeys =
    "_load_in_4bit _load_in_8bit bnb_4bit_compute_dtype bnb_4bit_quant_storage bnb_4bit_use_double_quant "
    "llm_int8_enable_fp32_cpu_offload llm_int8_has_fp16_weight llm_int8_threshold load_in_4bit "
    "load_in_8bit";

/// Keys of AutoRound, which also writes other programs' formats: how it found the codes. Keys that begin with
/// "act_" and "static_" are about activations and K/V.
constexpr std::string_view kAutoRoundKeys =
    "amp autoround_version backend batch_size block_name_to_quantize dataset enable_minmax_tuning "
    "enable_norm_bias_tuning enable_quanted_input extra_config gradient_accumulate_steps iters "
    "low_gpu_mem_usage lr minmax_lr model_free nsamples quant_block_list scale_dtype seqlen "
    "supported_types sym to_quant_block_names train_bs";

constexpr std::array kMethods = {
    MethodReader{"auto-round", QuantMethod::kGptq, read_auto_round},
    MethodReader{"awq", QuantMethod::kAwq, read_awq, kAwqKeys},
    MethodReader{"bitsandbytes", QuantMethod::kBitsAndBytes, read_bits_and_bytes, kBitsAndBytesKeys},
    MethodReader{"compressed-tensors", QuantMethod::kCompressedTensors, read_compressed_tensors,
                 kCompressedKeys},
    MethodReader{"fbgemm_fp8", QuantMethod::kFp8, read_fp8, kFp8Keys},
    MethodReader{"fp8", QuantMethod::kFp8, read_fp8, kFp8Keys},
    MethodReader{"gptq", QuantMethod::kGptq, read_gptq, kGptqKeys},
    MethodReader{"intel/auto-round", QuantMethod::kGptq, read_auto_round},
    MethodReader{"modelopt", QuantMethod::kModelOpt, read_modelopt, kModelOptKeys},
    MethodReader{"modelopt_fp4", QuantMethod::kModelOpt, read_modelopt, kModelOptKeys},
};

/// MLX: sizes for all modules; under a module's name its own sizes, or false if it is dense.
PublishedQuantization read_mlx(const JsonObject& json) {
  PublishedQuantization read;
  read.method = QuantMethod::kMlx;
  const auto sizes_in = [](const JsonObject& from) {
    from.expect("mode", std::string_view("affine"));
    return CodeSizes{from.integer("bits", kBits), from.integer("group_size", kGroupSize)};
  };
  read.sizes = sizes_in(json);
  for (const std::string& key : json.keys()) {
    if (key == "bits" || key == "group_size" || key == "mode") continue;
    if (json.is_object(key)) {
      read.sizes_of.emplace(key, sizes_in(json.object(key)));
    } else if (json.is_flag(key) && !json.flag(key)) {
      read.dense.push_back(key);
    }
  }
  return read;
}

/// Counts the keys in a list of names as read.
void pass_over(const JsonObject& json, std::string_view names) {
  for (const std::string& key : json.keys()) {
    if (!has_name(names, key)) continue;
    if (json.is_object(key)) {
      json.object(key).read_all();
    } else {
      json.has(key);
    }
  }
}

PublishedQuantization read_method(const JsonObject& json) {
  // MLX's format names no method; older versions of its tools also use this key.
  if (!json.has("quant_method") && json.has("bits") && json.has("group_size")) return read_mlx(json);
  // Early versions of ModelOpt name only the algorithm.
  const bool is_modelopt = !json.has("quant_method") && json.has("quant_algo");
  const std::string name = is_modelopt ? "modelopt" : json.text("quant_method");
  const auto* const known = std::ranges::find(kMethods, name, &MethodReader::name);
  if (known == kMethods.end()) {
    std::vector<std::string_view> names;
    for (const MethodReader& method : kMethods) names.push_back(method.name);
    json.refuse("quant_method",
                fmt::format("{}, lacuna, or the checkpoint before it was quantized", fmt::join(names, ", ")));
  }
  PublishedQuantization read;
  read.method = known->method;
  known->read(json, read);
  pass_over(json, known->harmless);
  if (!json.has("autoround_version")) return read;
  const bool has_integers = read.method == QuantMethod::kGptq || read.method == QuantMethod::kAwq;
  if (has_integers) json.expect("data_type", std::string_view("int"));
  json.has("data_type");
  pass_over(json, kAutoRoundKeys);
  for (const std::string& key : json.keys()) {
    if (key.starts_with("act_") || key.starts_with("static_")) json.has(key);
  }
  return read;
}

template <typename Read>
void read_if_present(const fs::path& path, Read&& read) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return;
  const MappedFile file = MappedFile::open(path);
  const nlohmann::json parsed = parse_json(file.text(), path.string());
  read(JsonObject(parsed, path.string()));
}

}  // namespace

std::string_view name_of(QuantMethod method) {
  constexpr std::string_view kNames[] = {"mlx",      "gptq",        "awq", "fp8", "compressed-tensors",
                                         "modelopt", "bitsandbytes"};
  return kNames[static_cast<size_t>(method)];
}

const CodeSizes& PublishedQuantization::sizes_for(std::string_view module) const {
  const auto own = sizes_of.find(module);
  return own == sizes_of.end() ? sizes : own->second;
}

std::optional<PublishedQuantization> read_published_quantization(const JsonObject& config) {
  std::optional<PublishedQuantization> read;
  for (const char* const key : {"quantization_config", "compression_config", "quantization"}) {
    if (!config.has(key)) continue;
    const JsonObject json = config.object(key);
    if (json.has("quant_method") && json.text("quant_method").starts_with("lacuna")) {
      // A copy that Lacuna quantized keeps the original's settings under other keys.
      for (const char* const other : {"compression_config", "quantization"}) {
        if (config.is_object(other)) config.object(other).read_all();
      }
      return {};
    }
    const PublishedQuantization found = read_method(json);
    if (read &&
        (read->method != found.method || read->sizes != found.sizes || read->sizes_of != found.sizes_of)) {
      config.refuse(key, "the same as in \"quantization_config\"");
    }
    read = found;
  }
  return read;
}

std::optional<PublishedQuantization> published_quantization(const fs::path& folder) {
  std::optional<PublishedQuantization> read;
  bool is_said = false;
  read_if_present(folder / "config.json", [&](const JsonObject& config) {
    read = read_published_quantization(config);
    is_said = read || config.has("quantization_config");
  });
  if (is_said) return read;
  read_if_present(folder / "hf_quant_config.json", [&](const JsonObject& json) {
    read.emplace().method = QuantMethod::kModelOpt;
    read_modelopt(json, *read);
  });
  if (read) return read;
  read_if_present(folder / "quantize_config.json", [&](const JsonObject& json) {
    read.emplace().method = QuantMethod::kGptq;
    read_gptq(json, *read);
  });
  return read;
}

}  // namespace lacuna
