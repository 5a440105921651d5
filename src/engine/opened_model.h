// A model without its weights: enough to check requests and to tokenize.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/variant.h"
#include "constraint/automaton_cache.h"
#include "constraint/constraint.h"
#include "decode/make_decoder.h"
#include "engine/answer_labels.h"
#include "engine/guide.h"
#include "model/config.h"
#include "options/options.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/conversation.h"
#include "tokenizer/tokenizer.h"

namespace lacuna {

/// Properties of a model before its weights are read.
struct ModelSource {
  std::filesystem::path folder;  ///< or a .gguf file; empty for a random model
  ModelConfig config;
  std::optional<Paradigm> chosen_paradigm =
      {};  ///< the user's choice, if the files have none; copies store it in config.json
};

/// Finds a model by name, path (model/locate.h) or "random:NAME". Throws InputError.
///   choices  as read_config() takes them
ModelSource find_model(const std::string& model, const ConfigChoices& choices = {});
/// Adds adapters to a model (model/adapters.h). Returns warnings for the user. Throws InputError, whose
/// message begins with `flag`, if they do not fit.
///   adapters  each FOLDER[=SCALE]
std::vector<std::string> use_adapters(ModelSource& source, const std::vector<std::string>& adapters,
                                      std::string_view flag);
/// Whether a folder or a .gguf file holds a tokenizer.
bool has_tokenizer(const std::filesystem::path& folder);
std::optional<Tokenizer> tokenizer_of(const ModelSource& source);
/// A view: `source` and `tokenizer` must outlive it.
TextModel text_model(const ModelSource& source, const std::optional<Tokenizer>& tokenizer);

/// A guide before its weights are loaded. Not movable: `guide` points into it.
struct GuideSource {
  std::string model;
  ModelSource source;
  std::optional<Tokenizer> tokenizer;
  Guide guide;

  /// Throws InputError if the model is not autoregressive or, as the guide of block diffusion, not of that.
  ///   flag     for errors
  ///   choices  for its config.json
  GuideSource(const std::string& model_name, const TextModel& main, std::string_view flag,
              const ConfigChoices& choices = {});
  GuideSource(const GuideSource&) = delete;
  GuideSource& operator=(const GuideSource&) = delete;
};

/// A sequence of texts and tokens. Each text is encoded separately.
struct MixedPrompt {
  std::vector<Variant<std::string, TokenId>> parts;
  bool operator==(const MixedPrompt&) const = default;
};

/// The input that an answer continues: a text as it is, token ids, both, or turns for the chat template to
/// render.
using Prompt = Variant<std::string, std::vector<TokenId>, MixedPrompt, Conversation>;

/// A request for one answer.
struct GenerateRequest {
  Prompt prompt;
  std::optional<Strategy> strategy = {};  ///< default: the model's default
  /// See DecodeRequest.
  std::optional<int32_t> gen_length = {};
  bool ends_by_itself = false;
  uint64_t seed = 0;                   ///< for all sampling
  std::vector<std::string> stop = {};  ///< texts that end the answer (autoregressive models, ReFusion)
  /// Initial tokens of the answer's positions, with mask tokens where they are to be filled (an infill);
  /// empty: masks.
  std::vector<TokenId> answer = {};
  std::optional<Constraint> constraint = {};  ///< constraint on the answer's text; empty: none
  bool gives_literals = false;                ///< writes text that the constraint forces without a pass
  int32_t num_alternatives = 0;               ///< see DecoderContext
  /// Holes of an infill on a canvas that changes its length, as positions of `answer`.
  std::vector<GrowingHole> holes = {};
  int32_t constrained_prefix = 0;     ///< see DecoderContext
  LogitAdjustments adjustments = {};  ///< see DecoderContext
};

/// Immutable and thread-safe after construction and use_guide().
class OpenedModel {
 public:
  /// Reads the tokenizer and the chat template, if any. Throws InputError if they are damaged.
  ///   name  for errors
  OpenedModel(std::string name, ModelSource source);
  /// Uses the given tokenizer, or none, instead of the checkpoint's.
  OpenedModel(std::string name, ModelSource source, std::optional<Tokenizer> tokenizer,
              ChatTemplate chat_template);
  OpenedModel(const OpenedModel&) = delete;
  OpenedModel& operator=(const OpenedModel&) = delete;

  /// Sets the guide, a second model that confirms drafts or makes them. `model` is a name for find_model().
  /// Throws InputError.
  void use_guide(const std::string& model, const ConfigChoices& choices = {});

  const std::string& name() const { return name_; }
  const ModelSource& source() const { return source_; }
  const ModelConfig& config() const { return source_.config; }
  const ChatTemplate& chat_template() const { return chat_template_; }
  /// Null if the model has none.
  const Tokenizer* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }
  /// Null if no guide was given.
  const GuideSource* guide() const { return guide_.get(); }

  /// Labels for decisions, computed at the first call. Throws InputError without a tokenizer.
  const AnswerLabels& answer_labels() const;
  /// Temperatures from decisions.json, read at the first call. Throws InputError if the file is invalid.
  const DecisionTemperatures& decision_temperatures() const;

  /// Encodes a text; special tokens in it are treated as text. Throws InputError without a tokenizer.
  std::vector<TokenId> encode(std::string_view text) const;
  /// The token ids of a prompt. Throws InputError if the prompt is text and the model has no tokenizer, or if
  /// the chat template cannot render it.
  std::vector<TokenId> tokens_of(const Prompt& prompt) const;

  /// Checks a request and makes its decoder. Throws SettingError (decode/setting_error.h) or InputError.
  std::unique_ptr<Decoder> make_decoder(const GenerateRequest& request) const;

  /// The automaton of a constraint over the model's tokens. Throws InputError or SettingError.
  std::shared_ptr<const TokenAutomaton> automaton_of(const Constraint& constraint) const;

  /// The syntax of function calls in answers, taken from the chat template.
  const ToolCallForm& tool_call_form() const;

 private:
  std::shared_ptr<const TokenAutomaton> tool_automaton_of(ToolCallConstraint constraint) const;
  /// The bytes of each token. `specials` are special tokens that a constraint names.
  TokenTable token_table(std::vector<TokenId> specials = {}) const;
  /// The vocabulary for constraints other than tool calls.
  const std::shared_ptr<const TokenVocabulary>& vocabulary() const;

  std::string name_;
  ModelSource source_;
  std::optional<Tokenizer> tokenizer_;
  ChatTemplate chat_template_;
  std::unique_ptr<GuideSource> guide_;

  mutable std::once_flag vocabulary_made_;  // at the first constraint
  mutable std::shared_ptr<const TokenVocabulary> vocabulary_;
  mutable std::once_flag tool_vocabulary_made_;                     // at the first constraint of tool calls
  mutable std::shared_ptr<const TokenVocabulary> tool_vocabulary_;  // null: same as vocabulary_
  mutable AutomatonCache automata_;
  // Computed at first use:
  mutable std::once_flag labels_found_, temperatures_read_;
  mutable AnswerLabels labels_;
  mutable DecisionTemperatures temperatures_;
};

/// The request that options describe, without a prompt: strategy, length, seed, stop texts and constraint.
/// Throws SettingError.
///   has_guide  whether a guide is used
GenerateRequest request_of(const OpenedModel& opened, const GenerationOptions& options, bool has_guide);

}  // namespace lacuna
