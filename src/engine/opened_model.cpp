#include "engine/opened_model.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/error.h"
#include "base/gguf.h"
#include "engine/chat_prompt.h"
#include "engine/decision_temperatures.h"
#include "engine/stop.h"
#include "model/adapters.h"
#include "model/locate.h"
#include "model/random_spec.h"
#include "model/read_config.h"
#include "options/choose.h"
#include "tokenizer/json_file.h"

namespace lacuna {
ModelSource find_model(const std::string& model, const ConfigChoices& choices) {
  if (is_random_spec(model)) {
    ModelSource source{{}, parse_random_spec(model)};
    if (choices.paradigm.value_or(source.config.paradigm()) != source.config.paradigm()) {
      throw InputError("--paradigm is {}; expected {}, as {} is", name_of(*choices.paradigm),
                       name_of(source.config.paradigm()), model);
    }
    return source;
  }
  const std::filesystem::path folder = locate_model(model);
  return {folder, read_config(folder, choices), choices.paradigm};
}

std::vector<std::string> use_adapters(ModelSource& source, const std::vector<std::string>& adapters,
                                      std::string_view flag) {
  if (adapters.empty()) return {};
  if (source.folder.empty()) {
    throw InputError("{} {}: expected a checkpoint, whose weights an adapter changes; the model is random",
                     flag, adapters.front());
  }
  std::vector<AdapterChoice> choices;
  for (const std::string& text : adapters) choices.push_back(find_adapter(text, flag));
  AdaptedModel adapted = with_adapters(source.folder, source.config, std::move(choices));
  source.config = std::move(adapted.config);
  if (adapted.num_dequantized == 0) return {};
  return {
      fmt::format("{} matrices that the files have quantized are merged with adapters and kept dense, which "
                  "takes more memory; `--weights` chooses a format for them",
                  adapted.num_dequantized)};
}

bool has_tokenizer(const std::filesystem::path& folder) {
  if (GgufFile::is_gguf(folder)) return has_gguf_tokenizer(GgufFile::open(folder));
  return has_file(folder / "tokenizer.json") || has_file(folder / "vocab.json");
}

std::optional<Tokenizer> tokenizer_of(const ModelSource& source) {
  if (source.folder.empty() || !has_tokenizer(source.folder)) return {};
  return Tokenizer::load(source.folder);
}

TextModel text_model(const ModelSource& source, const std::optional<Tokenizer>& tokenizer) {
  if (!tokenizer) return {source.config};
  return {source.config, &*tokenizer, load_chat_template(source.folder)};
}

GuideSource::GuideSource(const std::string& model_name, const TextModel& main, std::string_view flag,
                         const ConfigChoices& choices)
    : model(model_name),
      source(find_model(model_name, {choices.ignored_keys, choices.paradigm, true})),
      tokenizer(tokenizer_of(source)),
      guide(main, text_model(source, tokenizer)) {
  const bool drafts = flag == "--guide" && main.config.paradigm() == Paradigm::kBlocks;
  if (drafts && (source.config.paradigm() != Paradigm::kBlocks || !guide.shares_vocabulary()))
    throw InputError("{} {}: expected a block diffusion model with the same tokens", flag, model_name);
  if (!drafts && source.config.paradigm() != Paradigm::kCausal)
    throw InputError("{} {}: expected an autoregressive model (Qwen2, Qwen3)", flag, model_name);
}

OpenedModel::OpenedModel(std::string name, ModelSource source)
    : name_(std::move(name)), source_(std::move(source)), tokenizer_(tokenizer_of(source_)) {
  if (tokenizer_) chat_template_ = load_chat_template(source_.folder);
}

OpenedModel::OpenedModel(std::string name, ModelSource source, std::optional<Tokenizer> tokenizer,
                         ChatTemplate chat_template)
    : name_(std::move(name)),
      source_(std::move(source)),
      tokenizer_(std::move(tokenizer)),
      chat_template_(std::move(chat_template)) {}

void OpenedModel::use_guide(const std::string& model, const ConfigChoices& choices) {
  guide_ = std::make_unique<GuideSource>(model, TextModel{config(), tokenizer(), chat_template_}, "--guide",
                                         choices);
}

const AnswerLabels& OpenedModel::answer_labels() const {
  if (!tokenizer_) throw InputError("{} has no tokenizer; decisions are about texts", name_);
  std::call_once(labels_found_, [this] { labels_ = find_answer_labels(*tokenizer_); });
  return labels_;
}

const DecisionTemperatures& OpenedModel::decision_temperatures() const {
  std::call_once(temperatures_read_, [this] { temperatures_ = load_decision_temperatures(source_.folder); });
  return temperatures_;
}

std::vector<TokenId> OpenedModel::encode(std::string_view text) const {
  if (!tokenizer_) throw InputError("{} has no tokenizer; expected token ids", name_);
  return tokenizer_->encode(text, SpecialTokens::kAsText);
}

std::vector<TokenId> OpenedModel::tokens_of(const Prompt& prompt) const {
  if (const auto* tokens = std::get_if<std::vector<TokenId>>(&prompt)) return *tokens;
  if (const auto* text = std::get_if<std::string>(&prompt)) return encode(*text);
  if (const auto* mixed = std::get_if<MixedPrompt>(&prompt)) {
    std::vector<TokenId> all;
    for (const auto& part : mixed->parts) {
      const auto* token = std::get_if<TokenId>(&part);
      const std::vector<TokenId> tokens =
          token != nullptr ? std::vector{*token} : encode(std::get<std::string>(part));
      all.insert(all.end(), tokens.begin(), tokens.end());
    }
    return all;
  }
  if (!tokenizer_) throw InputError("{} has no tokenizer; expected token ids", name_);
  return chat_prompt(chat_template_, *tokenizer_, std::get<Conversation>(prompt)).tokens;
}

TokenTable OpenedModel::token_table(std::vector<TokenId> specials) const {
  TokenTable table;
  for (TokenId token = 0; token < static_cast<TokenId>(config().vocab_size); ++token)
    table.bytes.push_back(tokenizer_->decode(std::array{token}));
  table.end_ids = config().end_ids;
  if (config().mask_id >= 0) table.excluded.push_back(static_cast<TokenId>(config().mask_id));
  table.specials = std::move(specials);
  return table;
}

const std::shared_ptr<const TokenVocabulary>& OpenedModel::vocabulary() const {
  std::call_once(vocabulary_made_,
                 [&] { vocabulary_ = std::make_shared<const TokenVocabulary>(token_table()); });
  return vocabulary_;
}

const ToolCallForm& OpenedModel::tool_call_form() const {
  if (chat_template_.is_none()) return kTaggedCalls;
  return tool_call_form_of(chat_template_.traits(true).shown_call, TemplateTraits::kShownFunction);
}

std::shared_ptr<const TokenAutomaton> OpenedModel::tool_automaton_of(ToolCallConstraint constraint) const {
  std::call_once(tool_vocabulary_made_, [&] {
    std::vector<TokenId> tags;
    for (const std::string_view tag : tag_texts(tool_call_form())) {
      const std::optional<TokenId> id = tokenizer_->id_of(tag);
      if (!id || *id >= config().vocab_size) return;
      tags.push_back(*id);
    }
    tool_vocabulary_ = std::make_shared<const TokenVocabulary>(token_table(std::move(tags)));
  });
  constraint.form = &tool_call_form();
  constraint.has_tag_tokens = tool_vocabulary_ != nullptr;
  return automata_.get(constraint, constraint.has_tag_tokens ? tool_vocabulary_ : vocabulary());
}

std::shared_ptr<const TokenAutomaton> OpenedModel::automaton_of(const Constraint& constraint) const {
  if (!tokenizer_) throw InputError("{} has no tokenizer, and so no text that could be constrained", name_);
  // Errors in tool schemas already name their place in the request.
  if (const auto* tools = std::get_if<ToolCallConstraint>(&constraint)) return tool_automaton_of(*tools);
  try {
    return automata_.get(constraint, vocabulary());
  } catch (const InputError& error) {
    const std::string field(setting_of(constraint));
    throw SettingError({field, "", "another one", fmt::format("`{}`: {}", field, error.what())});
  }
}

std::unique_ptr<Decoder> OpenedModel::make_decoder(const GenerateRequest& request) const {
  const Strategy strategy = request.strategy ? *request.strategy : choose_strategy(config(), {});
  DecodeRequest asked{tokens_of(request.prompt), request.gen_length, request.ends_by_itself, request.seed};
  DecoderContext& context = asked.context;
  context.answer = request.answer;
  context.holes = request.holes;
  context.constrained_prefix = request.constrained_prefix;
  context.num_alternatives = request.num_alternatives;
  context.adjustments = request.adjustments;
  if (tokenizer_) context.end_of_turn = end_of_turn(*tokenizer_).value_or(-1);
  context.token_of = [this](std::string_view text) {
    return tokenizer_ ? tokenizer_->token_of(text) : std::nullopt;
  };
  if (!request.stop.empty()) {
    if (!tokenizer_) throw InputError("{} has no tokenizer, and so no text that ends an answer", name_);
    // Other canvases are denoised as a whole, and make_result() cuts the text at a stop text.
    if (config().causal) context.find_stop = make_stop_finder(*tokenizer_, request.stop);
  }
  if (request.constraint) context.constraint = automaton_of(*request.constraint);
  if (request.gives_literals) {
    if (!request.constraint)
      throw SettingError(
          {"literals", "", "", "`literals` has no effect here: the answer is not constrained"});
    context.encode_literal = [this](std::string_view text) { return tokenizer_->encode(text); };
  }
  if (guide_ && uses_guide(strategy))
    context.guide = guide_->guide.context(asked.prompt, std::get_if<Conversation>(&request.prompt));
  return lacuna::make_decoder(config(), strategy, std::move(asked));
}

GenerateRequest request_of(const OpenedModel& opened, const GenerationOptions& options, bool has_guide) {
  GenerateRequest request;
  request.strategy = choose_strategy(opened.config(), options, has_guide);
  request.gen_length = options.gen_length;
  request.ends_by_itself = options.gen_length.is_auto;
  request.seed = options.seed.value_or(0);
  request.stop = options.stop;
  request.constraint = choose_constraint(options);
  request.gives_literals = choose_literals(options);
  request.adjustments = choose_adjustments(options);
  return request;
}

}  // namespace lacuna
