#include "weights/published_quantization.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "temporary_folder.h"

namespace lacuna::published_quantization_test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

std::optional<PublishedQuantization> read(const json& config) {
  return read_published_quantization(JsonObject(config, "config.json"));
}

std::optional<PublishedQuantization> read_method(const json& form) {
  return read({{"quantization_config", form}});
}

void expect_refused(const json& config, const std::string& text) {
  EXPECT_THAT([&] { read(config); }, ThrowsMessage<InputError>(HasSubstr(text))) << config;
}

TEST(PublishedQuantization, IsEmptyForDenseAndOwnCheckpoints) {
  EXPECT_FALSE(read(json::object()));
  EXPECT_FALSE(read_method({{"quant_method", "lacuna"}, {"version", 1}}));
  EXPECT_FALSE(read_method({{"quant_method", "lacuna-packed"}, {"version", 2}}));
}

TEST(PublishedQuantization, OfMlxHasSizesByModule) {
  const json form = {{"bits", 4},
                     {"group_size", 64},
                     {"mode", "affine"},
                     {"model.head", {{"bits", 8}, {"group_size", 32}}},
                     {"model.gate", false}};
  const auto found = read({{"quantization", form}, {"quantization_config", form}});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->method, QuantMethod::kMlx);
  EXPECT_EQ(found->sizes_for("model.layer"), (CodeSizes{4, 64}));
  EXPECT_EQ(found->sizes_for("model.head"), (CodeSizes{8, 32}));
  EXPECT_THAT(found->dense, ElementsAre("model.gate"));
  json other = form;
  other["bits"] = 8;
  expect_refused({{"quantization", other}, {"quantization_config", form}}, "the same as in");
  other["mode"] = "mxfp4";
  expect_refused({{"quantization", other}}, "\"quantization.mode\" is \"mxfp4\"; expected \"affine\"");
}

TEST(PublishedQuantization, OfGptqHasTwoVersions) {
  const json form = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 128}, {"desc_act", true}};
  EXPECT_TRUE(read_method(form)->stores_zeros_less_one);
  EXPECT_EQ(read_method(form)->sizes, (CodeSizes{4, 128}));
  for (const char* const key : {"checkpoint_format", "format"}) {
    json other = form;
    other[key] = "gptq_v2";
    EXPECT_FALSE(read_method(other)->stores_zeros_less_one);
    other[key] = "marlin";
    expect_refused({{"quantization_config", other}}, "is \"marlin\"; expected gptq, gptq_v2");
  }
}

TEST(PublishedQuantization, OfAwqIsGemm) {
  const json form = {{"quant_method", "awq"},
                     {"bits", 4},
                     {"group_size", 128},
                     {"version", "gemm"},
                     {"modules_to_not_convert", {"lm_head"}}};
  EXPECT_THAT(read_method(form)->dense, ElementsAre("lm_head"));
  json other = form;
  other["version"] = "gemv";
  expect_refused({{"quantization_config", other}}, "version\" is \"gemv\"; expected gemm");
  other = form;
  other["bits"] = 8;
  expect_refused({{"quantization_config", other}}, "bits\" is 8; expected 4");
}

TEST(PublishedQuantization, OfFp8HasBlocks) {
  EXPECT_THAT(read_method({{"quant_method", "fp8"}, {"weight_block_size", {64, 32}}})->block,
              ElementsAre(64, 32));
  EXPECT_THAT(read_method({{"quant_method", "fbgemm_fp8"}})->block, ElementsAre(128, 128));
  const json group = {{"weights", {{"num_bits", 8}, {"strategy", "block"}, {"block_structure", {16, 8}}}}};
  EXPECT_THAT(read_method({{"quant_method", "compressed-tensors"},
                           {"format", "float-quantized"},
                           {"config_groups", {{"group_0", group}}}})
                  ->block,
              ElementsAre(16, 8));
}

TEST(PublishedQuantization, OfAutoRoundIsGptqOrAwq) {
  json form = {{"quant_method", "auto-round"},
               {"packing_format", "auto_round:auto_gptq"},
               {"bits", 4},
               {"group_size", 128},
               {"data_type", "int"},
               {"autoround_version", "0.13.0"},
               {"iters", 200},
               {"act_bits", 16}};
  EXPECT_EQ(read_method(form)->method, QuantMethod::kGptq);
  EXPECT_EQ(read_method(form)->sizes, (CodeSizes{4, 128}));
  EXPECT_TRUE(read_method(form)->stores_zeros_less_one);
  form["extra_config"] = {{"lm_head", {{"bits", 16}}}};
  EXPECT_EQ(read_method(form)->sizes, CodeSizes());
  form["packing_format"] = "auto_round";
  EXPECT_FALSE(read_method(form)->stores_zeros_less_one);
  form["packing_format"] = "auto_round:auto_awq";
  EXPECT_EQ(read_method(form)->method, QuantMethod::kAwq);
  form["packing_format"] = "auto_round:llm_compressor";
  expect_refused({{"quantization_config", form}}, "packing_format\" is \"auto_round:llm_compressor\"");

  form["quant_method"] = "gptq";  // the same program, in another's form
  form.erase("packing_format");
  const json config = {{"quantization_config", form}};
  JsonObject object(config, "config.json");
  object.track_reads();
  read_published_quantization(object);
  EXPECT_THAT(object.unread(), IsEmpty());
  form["data_type"] = "mx_fp";
  expect_refused({{"quantization_config", form}}, "data_type\" is \"mx_fp\"; expected \"int\"");
}

TEST(PublishedQuantization, ThatIsNotSupportedIsRefusedByNameAndValue) {
  for (const char* const method : {"hqq", "quanto", "torchao", "exl2", "exl3", "aqlm", "eetq", "quark"}) {
    expect_refused(
        {{"quantization_config", {{"quant_method", method}}}},
        "\"quantization_config.quant_method\" is \"" + std::string(method) +
            "\"; expected auto-round, awq, bitsandbytes, compressed-tensors, fbgemm_fp8, fp8, gptq,");
  }
  const auto refused = [](json form, const char* method, const std::string& text) {
    form["quant_method"] = method;
    expect_refused({{"quantization_config", form}}, text);
  };
  refused({{"format", "marlin-24"}}, "compressed-tensors", "\"marlin-24\"; expected dense, int-quantized");
  refused({{"sparsity_config", {{"format", "sparse-24-bitmask"}}}}, "compressed-tensors", "expected dense");
  refused({{"transform_config", {{"config_groups", {{"R1", 1}}}}}}, "compressed-tensors", "rotated weights");
  refused({{"quant_algo", "W4A16_AWQ"}}, "modelopt", "\"W4A16_AWQ\"; expected NVFP4, FP8");
  refused({{"fmt", "e5m2fnuz"}}, "fp8", "\"e5m2fnuz\"; expected e4m3");
  refused({{"bits", 4}, {"group_size", 128}, {"is_marlin_format", true}}, "gptq", "is true; expected false");
  expect_refused({{"quantization_config", {{"bits", 4}}}}, "quant_method\" is missing");
}

TEST(PublishedQuantization, OfEarlyModelOptNamesItsAlgorithmAlone) {
  const json form = {{"quant_algo", "FP8"},
                     {"producer", {{"name", "modelopt"}, {"version", "0.31.0"}}},
                     {"kv_cache_scheme", "FP8"},
                     {"ignore", {"lm_head"}}};
  EXPECT_EQ(read_method(form)->method, QuantMethod::kModelOpt);
  EXPECT_THAT(read_method(form)->dense, ElementsAre("lm_head"));
}

TEST(PublishedQuantization, LeavesOnlyUnknownKeysUnread) {
  const json config = {
      {"quantization_config",
       {{"quant_method", "compressed-tensors"},
        {"format", "pack-quantized"},
        {"config_groups",
         {{"group_0", {{"targets", {"Linear"}}, {"weights", {{"num_bits", 4}, {"actorder", "x"}}}}}}},
        {"kv_cache_scheme", {{"num_bits", 8}, {"new", 1}}},
        {"rotates", true}}}};
  JsonObject object(config, "config.json");
  object.track_reads();
  read_published_quantization(object);
  const std::vector<JsonObject::Unread> unread = object.unread();
  ASSERT_EQ(unread.size(), 1U);
  EXPECT_EQ(unread.front().path, "quantization_config.rotates");
}

TEST(PublishedQuantization, OfAFolderMayBeInFilesOfItsOwn) {
  const TemporaryFolder folder;
  EXPECT_FALSE(published_quantization(folder.path()));
  folder.write("config.json", "{}");
  EXPECT_FALSE(published_quantization(folder.path()));
  folder.write("quantize_config.json", R"({"bits": 4, "group_size": 32, "desc_act": false, "sym": true})");
  EXPECT_EQ(published_quantization(folder.path())->method, QuantMethod::kGptq);
  folder.write("hf_quant_config.json",
               R"({"producer": {"name": "modelopt"},
                   "quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}})");
  EXPECT_EQ(published_quantization(folder.path())->method, QuantMethod::kModelOpt);
  EXPECT_THAT(published_quantization(folder.path())->dense, ElementsAre("lm_head"));
  folder.write("config.json", R"({"quantization_config": {"quant_method": "lacuna", "version": 1}})");
  EXPECT_FALSE(published_quantization(folder.path())) << "a copy keeps files that describe the original";
}

}  // namespace
}  // namespace lacuna::published_quantization_test
