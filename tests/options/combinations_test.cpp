// docs/methods/combinations.md, which settings of a method go together, is what make_decoder() accepts and
// says.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "model/tiny_models.h"
#include "options/assign.h"
#include "options/choose.h"

namespace lacuna::combinations_test {
namespace {

struct Given {
  const char* name;
  const char* value;
};

struct Kind {
  const char* title;
  ModelConfig config;
  std::vector<std::vector<Given>> rows;  ///< groups, of which a run has at most one each
  std::vector<Given> columns;
};

std::string text_of(const Given& given) {
  return fmt::format("{}{}{}", given.name, *given.value == '\0' ? "" : " ", given.value);
}

/// Why a run cannot have all of these settings; empty: it can.
std::string refusal(const ModelConfig& config, const std::vector<Given>& all) {
  GenerationOptions options;
  options.gen_length = 8;
  options.block_length = 4;
  bool has_guide = false;
  try {
    for (const Given& given : all) {
      const std::string name = given.name;
      if (name == "guide") {
        has_guide = true;
        continue;
      }
      if (name == "block-length") options.block_length.reset();
      set_if_unset(options, name, given.value);
    }
    DecoderContext context;
    if (has_guide) context.guide = GuideContext{&config, {1, 2}, shared_vocabulary(config, config)};
    make_decoder(config, options, {1, 2}, context);
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

std::vector<Kind> kinds() {
  const std::vector<Given> masked_rules = {{"unmask", "low-confidence"},
                                           {"unmask", "entropy"},
                                           {"unmask", "random"},
                                           {"unmask", "origin"},
                                           {"unmask", "p2"},
                                           {"unmask", "threshold"},
                                           {"unmask", "factor"},
                                           {"unmask", "local-leap"},
                                           {"unmask", "eb"},
                                           {"unmask", "streaming"},
                                           {"unmask", "klass"},
                                           {"unmask", "wino"},
                                           {"unmask", "saber"},
                                           {"unmask", "credit"},
                                           {"unmask", "slow-fast"},
                                           {"unmask", "dsb"},
                                           {"unmask", "adablock"},
                                           {"unmask", "d3llm"},
                                           {"unmask", "prophet"}};
  const std::vector<Given> masked_caches = {
      {"cache", "prefix"}, {"cache", "dual"},        {"cache", "free"},       {"cache", "delayed"},
      {"cache", "dkv"},    {"cache", "sparse-dllm"}, {"cache", "dllm-cache"}, {"cache", "d2cache"}};
  const std::vector<Given> masked_columns = {
      {"cache", "prefix"},    {"cache", "dual"},        {"cache", "free"},       {"cache", "delayed"},
      {"cache", "dkv"},       {"cache", "sparse-dllm"}, {"cache", "dllm-cache"}, {"cache", "d2cache"},
      {"lock", "eps=5e-4"},   {"suffix", "2"},          {"prompt-block", "4"},   {"steps", "4"},
      {"temperature", "0.5"}, {"cfg-scale", "1"},       {"grow", "end-mass"}};
  const std::vector<Given> block_rules = {
      {"unmask", "low-confidence"}, {"unmask", "entropy"},         {"unmask", "random"},
      {"unmask", "sequential"},     {"unmask", "threshold"},       {"unmask", "factor"},
      {"unmask", "dynamic"},        {"unmask", "entropy-bounded"}, {"unmask", "soft"}};
  const std::vector<Given> block_columns = {
      {"sparse", "mage=4"},  {"sparse", "quest=4"}, {"sparse", "sparsed=4"}, {"sparse", "flashblock=2"},
      {"sparse", "losa=16"}, {"lock", "eps=5e-4"},  {"pipeline", "on"},      {"drafts", "3"},
      {"focus", "1.5"},      {"guide", ""},         {"steps", "4"},          {"temperature", "0.5"}};
  const ModelConfig llada = tiny_configs()[0], dream = tiny_configs()[4];
  ModelConfig d2f = tiny_d2f_config(4);
  d2f.num_layers = 4;  // so that some may be sparse
  return {{"LLaDA",
           llada,
           {masked_rules, masked_caches, {{"lock", "eps=5e-4"}, {"suffix", "2"}, {"prompt-block", "4"}}},
           masked_columns},
          {"Dream",
           dream,
           {masked_rules, masked_caches, {{"lock", "eps=5e-4"}, {"suffix", "2"}, {"prompt-block", "4"}}},
           masked_columns},
          {"Block diffusion (SDAR)",
           tiny_block_config(4),
           {block_rules,
            {{"sparse", "mage=4"},
             {"lock", "eps=5e-4"},
             {"pipeline", "on"},
             {"drafts", "3"},
             {"focus", "1.5"},
             {"guide", ""}}},
           block_columns},
          {"LLaDA as D2F", d2f, {block_rules, {{"lock", "eps=5e-4"}, {"pipeline", "on"}}}, block_columns}};
}

/// A table of one kind; sentences that refuse are numbered below it.
std::string table(const Kind& kind) {
  std::string head = "| |", line = "|---|";
  for (const Given& column : kind.columns) {
    head += fmt::format(" `{}` |", text_of(column));
    line += "---|";
  }
  std::string rows;
  std::map<std::string, size_t> numbers;
  std::vector<std::string> sentences;
  for (const std::vector<Given>& group : kind.rows) {
    for (const Given& row : group) {
      rows += fmt::format("| `{}` |", text_of(row));
      for (const Given& column : kind.columns) {
        if (std::string(row.name) == column.name) {
          rows += " |";
          continue;
        }
        const std::string why = refusal(kind.config, {row, column});
        if (why.empty()) {
          rows += " yes |";
          continue;
        }
        const auto [found, is_new] = numbers.try_emplace(why, sentences.size() + 1);
        if (is_new) sentences.push_back(why);
        rows += fmt::format(" {} |", found->second);
      }
      rows += "\n";
    }
  }
  std::string page = fmt::format("## {}\n\n{}\n{}\n{}\n", kind.title, head, line, rows);
  for (size_t i = 0; i < sentences.size(); ++i) page += fmt::format("{}. {}\n", i + 1, sentences[i]);
  return page;
}

TEST(Combinations, AreWhatThePageSays) {
  std::string page =
      "# Which methods go together\n\n"
      "Written by `make combinations-page` from what the program accepts: `yes`, or the number of the "
      "sentence that refuses the pair. An answer has 8 tokens here, in blocks of\n"
      "4. A setting is refused where the other one would ignore it, or would compute something else. Three "
      "settings go together where each two of them do.\n";
  for (const Kind& kind : kinds()) page += "\n" + table(kind);
  const std::string path = LACUNA_SOURCE_DIR "/docs/methods/combinations.md";
  if (std::getenv("LACUNA_WRITE_PAGES") != nullptr) std::ofstream(path) << page;
  std::stringstream written;
  written << std::ifstream(path).rdbuf();
  EXPECT_EQ(written.str(), page) << "make combinations-page writes it anew";
}

/// The page says that pairs decide.
TEST(Combinations, OfThreeGoTogetherWhereEachTwoDo) {
  for (const Kind& kind : kinds()) {
    for (const Given& row : kind.rows.front()) {
      for (size_t i = 0; i < kind.columns.size(); ++i) {
        for (size_t k = i + 1; k < kind.columns.size(); ++k) {
          const Given &a = kind.columns[i], &b = kind.columns[k];
          if (std::string(a.name) == b.name) continue;
          const bool all_pairs = refusal(kind.config, {row, a}).empty() &&
                                 refusal(kind.config, {row, b}).empty() &&
                                 refusal(kind.config, {a, b}).empty();
          const std::string why = refusal(kind.config, {row, a, b});
          if (!all_pairs) continue;
          EXPECT_EQ(why, "") << kind.title << ": " << text_of(row) << ", " << text_of(a) << ", "
                             << text_of(b);
        }
      }
    }
  }
}

}  // namespace
}  // namespace lacuna::combinations_test
