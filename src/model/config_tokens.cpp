#include "model/config_tokens.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/families.h"
#include "model/family_parts.h"

namespace lacuna {
namespace {

bool is_ignored(const TokenSources& sources, std::string_view key) {
  return std::find(sources.ignored.begin(), sources.ignored.end(), key) != sources.ignored.end();
}

template <typename Texts>
bool holds(const Texts& texts, std::string_view text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

TokenClaim claim(const JsonObject& json, std::string_view key, TokenId id) {
  return {id, fmt::format("{} in {}", in_quotes(key), json.file())};
}

/// A token's ids in config.json (as read by the family's reader) and generation_config.json.
std::vector<TokenClaim> claims_of(const TokenSources& sources, std::string_view key, TokenId in_config,
                                  const ModelConfig& config) {
  std::vector<TokenClaim> claims;
  if (in_config >= 0) claims.push_back(claim(sources.config, key, in_config));
  const TokenId generation = read_token_id(sources.generation, key, config, -1);
  if (generation >= 0) claims.push_back(claim(sources.generation, key, generation));
  if (is_ignored(sources, key) && claims.size() > 1) claims.resize(1);
  return claims;
}

/// The published mask, if the vocabulary has the published size and no file gives its id another text.
TokenId published_mask(const TokenSources& sources, std::span<const std::string> texts,
                       const ModelConfig& config) {
  for (const PublishedMask& published : sources.family.published_masks) {
    if (published.vocab_size != config.vocab_size) continue;
    for (const TokenList& list : sources.files.lists()) {
      for (const ListedToken& token : list.tokens) {
        if (token.id != published.id || holds(texts, token.text)) continue;
        throw InputError(
            "{}: the token {} is {}, the mask of the published model; expected \"mask_token_id\"", list.file,
            published.id, in_quotes(token.text));
      }
    }
    return published.id;
  }
  return -1;
}

/// Refuses a mask token in a left-to-right model, which is probably a diffusion model under a borrowed class.
void refuse_mask_of_causal_model(const TokenSources& sources, const ModelConfig& config) {
  const FamilyEntry& family = sources.family;
  const std::vector<std::string> texts(family.mask_texts.begin(), family.mask_texts.end());
  std::vector<TokenClaim> claims;
  if (family.is_library_class) claims = claims_of(sources, "mask_token_id", -1, config);
  if (const auto found = find_token(claims, sources.files, texts, config.vocab_size, "mask")) {
    throw InputError(
        "{}: token {} is a mask, and {} is left to right; expected none, or a choice: --paradigm masked, or "
        "--paradigm causal to ignore it",
        found->source, found->id, family.architecture);
  }
  if (!family.is_library_class || sources.may_list_masks) return;
  for (const TokenList& list : sources.files.lists()) {
    for (const ListedToken& token : list.tokens) {
      const auto is_mask_of = [&](const FamilyEntry& other) { return holds(other.mask_texts, token.text); };
      if (std::none_of(families().begin(), families().end(), is_mask_of)) continue;
      throw InputError(
          "{}: the token {} is a mask of diffusion models, and {} is left to right; expected none, or "
          "--paradigm causal to ignore it",
          list.file, in_quotes(token.text), family.architecture);
    }
  }
}

void set_mask(const TokenSources& sources, ModelConfig& config) {
  const Paradigm paradigm = config.paradigm();
  if (paradigm == Paradigm::kCausal && config.mask_drafts == 0) {
    config.mask_id = -1;
    if (!sources.paradigm_is_chosen) refuse_mask_of_causal_model(sources, config);
    return;
  }
  if (paradigm != Paradigm::kMasked && paradigm != Paradigm::kBlocks && config.mask_drafts == 0) return;
  const FamilyEntry& family = sources.family;
  std::vector<std::string> texts = sources.files.texts_of("mask_token");
  texts.insert(texts.end(), family.mask_texts.begin(), family.mask_texts.end());
  constexpr std::string_view kKey = "mask_token_id";
  const std::vector<TokenClaim> claims = claims_of(sources, kKey, config.mask_id, config);
  if (!claims.empty() && is_ignored(sources, kKey)) {
    config.mask_id = claims.front().id;
    return;
  }
  const auto found = find_token(claims, sources.files, texts, config.vocab_size, "mask");
  config.mask_id = found ? found->id : published_mask(sources, texts, config);
  if (config.mask_id >= 0) return;
  sources.config.refuse(
      kKey, family.mask_texts.empty()
                ? std::string("a token id")
                : fmt::format("a token id, or a token {} in tokenizer.json or tokenizer_config.json",
                              fmt::join(family.mask_texts, " or ")));
}

/// Sets the token that becomes two masks, and the one that deletes its position: the end of the text unless a
/// file names one.
void set_expansion(const TokenSources& sources, ModelConfig& config) {
  const FamilyEntry& family = sources.family;
  if (family.expand_texts.empty()) return;
  const std::vector<std::string> texts(family.expand_texts.begin(), family.expand_texts.end());
  const auto found = find_token(claims_of(sources, "expand_token_id", config.expand_id, config),
                                sources.files, texts, config.vocab_size, "expanding");
  if (!found) return;
  if (config.paradigm() == Paradigm::kBlocks) {
    throw InputError("{}: token {} expands the canvas, which blocks do not; expected --paradigm masked",
                     found->source, found->id);
  }
  config.expand_id = found->id;
  const TokenId published = read_token_id(sources.generation, "delete_token_id", config, -1);
  if (config.delete_id < 0) config.delete_id = published >= 0 ? published : config.eos_id;
  const bool are_two = config.delete_id >= 0 && config.delete_id != config.expand_id;
  if (are_two && config.delete_id != config.mask_id && config.expand_id != config.mask_id) return;
  throw InputError(
      "{}: token {} expands the canvas and {} shrinks it; expected two, neither of them the mask",
      sources.config.file(), config.expand_id, config.delete_id);
}

/// Adds tokens that some checkpoints list only as the tokenizer's added tokens: the end of a chat turn, if it
/// is no eos in config.json, and the end of the text, if config.json has none.
void add_ends(const TokenSources& sources, ModelConfig& config) {
  constexpr std::array<std::string_view, 4> kEndsOfTurn = {"<|eot_id|>", "<|im_end|>", "<|role_end|>",
                                                           "<turn|>"};
  const auto find = [&](std::span<const std::string> texts) {
    return find_token({}, sources.files, texts, config.vocab_size, "end");
  };
  if (config.end_ids.empty()) {
    if (const auto found = find(sources.files.texts_of("eos_token"))) {
      config.eos_id = found->id;
      config.end_ids.push_back(found->id);
    }
  }
  for (const std::string_view text : kEndsOfTurn) {
    const std::array texts = {std::string(text)};
    if (const auto found = find(texts)) config.end_ids.push_back(found->id);
  }
}

/// Checks LLaDA2.2's editing tokens against the mask, which may come from the tokenizer.
void check_edit_ids(const std::string& file, const ModelConfig& config) {
  if (config.split_id < 0 || (config.split_id != config.mask_id && config.delete_id != config.mask_id))
    return;
  throw InputError(
      "{}: \"delete_token_id\" is {} and \"split_token_id\" is {}; expected two tokens, neither of them the "
      "mask, {}",
      file, config.delete_id, config.split_id, config.mask_id);
}

/// Refuses editing tokens in the tokenizer if config.json lacks LLaDA2.2's "expert_capacity": such models
/// choose experts by windows of positions.
void check_edit_texts(const TokenSources& sources, const ModelConfig& config) {
  const auto& known = sources.family.edit_names;
  if (known.empty() || config.moe.experts_per_window > 0 || is_ignored(sources, "expert_capacity")) return;
  for (const TokenList& list : sources.files.lists()) {
    for (const ListedToken& token : list.tokens) {
      std::string name;
      for (const char c : token.text) {
        if (std::string_view("<|>[]").find(c) == std::string_view::npos)
          name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      }
      if (name.size() == token.text.size() || !holds(known, name)) continue;
      sources.config.refuse(
          "expert_capacity",
          fmt::format("an integer from {} to {}, because {} has LLaDA2.2's token {}; --ignore-config-keys "
                      "expert_capacity chooses experts by LLaDA2.0's groups",
                      config.moe.experts_per_token, config.moe.num_experts,
                      std::filesystem::path(list.file).filename().string(), in_quotes(token.text)));
    }
  }
}

}  // namespace

void set_token_ids(const TokenSources& sources, ModelConfig& config) {
  check_edit_texts(sources, config);
  set_mask(sources, config);
  set_expansion(sources, config);
  add_ends(sources, config);
  check_edit_ids(sources.config.file(), config);
  std::sort(config.end_ids.begin(), config.end_ids.end());
  config.end_ids.erase(std::unique(config.end_ids.begin(), config.end_ids.end()), config.end_ids.end());
}

}  // namespace lacuna
