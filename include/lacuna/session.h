// Sessions and requests: the C++ interface.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/error.h"
#include "lacuna/export.h"
#include "lacuna/tools.h"
#include "lacuna/types.h"

namespace lacuna {

/// How a model is loaded. docs/reference/flags.md ("Model") lists the formats; "auto": as stored.
struct LoadOptions {
  std::string dtype = "auto";         ///< "f32" or "bf16": element type of activations and K/V
  std::string weights = "auto";       ///< format of the layers' weights: "bf16", "int8", "int4", ...
  std::string head_weights = "auto";  ///< format of embedding and output head
  std::string kv_cache = "auto";      ///< "int8": 8 bits per element
  std::string activations = "auto";   ///< "int8": activations in matmuls with quantized weights
  std::string device = "auto";        ///< "cpu", "cuda:N" or "simulator" (slow, for tests)
  std::vector<std::string> lora;      ///< adapters to merge, each "FOLDER" or "FOLDER=SCALE" (PEFT's files)
  std::string guide;                  ///< a second model, which verifies drafts or makes them; empty: none
  int32_t threads = 0;                ///< 0: one for each core that the process may use
  uint64_t random_seed = 0;           ///< seed of the weights of a random: model
  int32_t max_running = 32;           ///< requests that share forward passes; others wait
  int64_t memory = int64_t{4} << 30;  ///< bytes of K/V that requests may hold together
  bool ignore_memory = false;         ///< load a model that needs more memory than is available
  /// Called with the number of parameters read so far, from the thread that loads.
  std::function<void(int64_t done, int64_t total)> progress;
};

/// Properties of a loaded model.
struct ModelInfo {
  std::string family;               ///< name of the model family: "llada", "dream", "qwen3", ...
  std::string architecture;         ///< name in the checkpoint's config: "LLaDAModelLM"
  std::string paradigm;             ///< decoding paradigm: "masked", "blocks", "uniform", "slots" or "causal"
  int64_t vocab_size = 0;           ///< rows of the embedding table; token ids are below this
  int64_t context = 0;              ///< maximum number of positions, prompt and answer together
  int64_t num_layers = 0;           ///< transformer layers
  int64_t hidden_size = 0;          ///< elements of a hidden state
  int64_t weight_bytes = 0;         ///< bytes of the weights in memory
  TokenId mask_token = -1;          ///< -1: the model has none
  std::vector<TokenId> end_tokens;  ///< tokens that end an answer
  bool has_tokenizer = false;       ///< false: prompts must be token ids
  bool can_infill = false;          ///< whether Session::infill() is supported
};

/// Effect of one forward pass on one request. Spans are valid only during the callback.
struct PassEvent {
  int32_t step = 0;                 ///< 0-based
  std::string_view kind;            ///< "denoise", "draft", "verify", "prefill", "decode", ...
  std::span<const TokenId> canvas;  ///< prompt and answer after the pass, masks where nothing is written
  int32_t prompt_tokens = 0;        ///< leading tokens of the canvas that are the prompt
  int32_t final_tokens = 0;  ///< length of the longest prefix of the canvas that will not change any more
  std::span<const Commit> committed;  ///< ascending positions
  int64_t rows = 0;                   ///< rows that the pass computed for this request
  double seconds = 0;                 ///< duration of the whole pass, which requests may share
};
/// Returning false stops the request with the canvas's present content as its answer.
using PassCallback = std::function<bool(const PassEvent&)>;

/// A generation request: a prompt, messages or tokens (exactly one of the three), and settings.
struct Request {
  std::string prompt;  ///< text of a user's turn, rendered by the model's chat template if it has one
  std::vector<Message> messages;  ///< a conversation, rendered by the model's chat template
  std::vector<TokenId> tokens;    ///< the canvas begins with exactly these
  Options options;                ///< settings by name; others have the family's defaults
  std::vector<std::string> stop;  ///< the answer ends before the first of these texts
  std::vector<Tool> tools;  ///< functions that the answer may call; read_tool_answer() returns the calls
  std::string tool_choice =
      "auto";  ///< "auto": text or calls; "required": calls; "none"; or the name of the function to call
  bool parallel_tool_calls = true;  ///< whether an answer may contain several calls
  /// Replaces options' "unmask" in masked diffusion (LLaDA, Dream) and block diffusion (SDAR, LLaDA 2,
  /// Fast-dLLM v2). Called in each pass, from a thread of the session. If it throws, the request ends
  /// with that exception.
  UnmaskFunction unmask;
};

/// float32 [rows, vocab_size], row-major.
struct Logits {
  int64_t rows = 0;           ///< one per input token
  int64_t vocab_size = 0;     ///< elements of a row
  std::vector<float> values;  ///< [rows, vocab_size]
};

/// A running request. Destroying it cancels the request.
class LACUNA_API Generation {
 public:
  ~Generation();
  Generation(Generation&&) noexcept;
  Generation& operator=(Generation&&) noexcept;

  /// Waits for the answer; call it once. Throws the error if the request failed.
  Answer wait();
  /// Ends the request after its next pass; wait() then returns the canvas's present content. Thread-safe.
  void cancel();

 private:
  friend class Session;
  class Impl;
  explicit Generation(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// A loaded model with its tokenizer, chat template and scheduler. Thread-safe. Concurrent requests share
/// forward passes; sharing does not change their texts. A running Generation may outlive its Session object.
class LACUNA_API Session {
 public:
  /// Loads a model. Throws Error if it is not found, damaged, not supported or too large for the memory.
  ///   model  folder, .gguf file, name of a model that ships, ORG/NAME from the hub's cache, or
  ///   random:FAMILY-SIZE
  static Session load(std::string_view model, const LoadOptions& options = {});

  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  /// Properties of the model. Valid while the session exists.
  const ModelInfo& info() const;

  /// Runs a request to its end; calls `callback` after each pass, from a thread of the session. Throws Error
  /// for a request that the model cannot serve.
  Answer generate(const Request& request, const PassCallback& callback = {}) const;
  /// Starts a request without waiting for its answer.
  Generation start(const Request& request, PassCallback callback = {}) const;

  /// Fills the holes of a text: [[4]] has 4 tokens; [[1-3]] has 1 to 3, and the most likely length is chosen.
  /// LLaDA 2.2 finds the length by insertions and deletions instead, and may leave such a hole empty. Needs
  /// ModelInfo::can_infill: masked models and LLaDA 2.2. The answer's text is the whole text, filled.
  Answer infill(std::string_view text, const Options& options = {}, const PassCallback& callback = {}) const;

  /// Answers questions about a text with probabilities (docs/guide/decide.md). Takes the JSON of a request
  /// for `POST /v1/decisions`, in either of its formats, and returns the JSON of its reply.
  std::string decide(std::string_view request) const;

  /// Token ids of a text; special tokens in it are taken as plain text.
  std::vector<TokenId> tokenize(std::string_view text) const;
  /// The text of tokens. Throws Error without a tokenizer.
  std::string detokenize(std::span<const TokenId> tokens) const;
  /// The prompt for an assistant's answer to a conversation.
  std::vector<TokenId> render(std::span<const Message> messages) const;

  /// One forward pass without a cache: the model's raw logits of every row, not shifted.
  Logits logits(std::span<const TokenId> tokens) const;

 private:
  friend class SessionAccess;  // internal access for the Python module
  class Impl;
  explicit Session(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace lacuna
