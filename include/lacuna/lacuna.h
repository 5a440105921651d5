/* Lacuna's C interface: opaque handles; no exception crosses it.
 *
 * Threads: a session may be used by any number of threads at once; every other handle by one at a time.
 * Errors: a function that can fail returns NULL or a negative number, and lacuna_error() then gives one
 * sentence. Texts are UTF-8 and end with a zero byte. A returned pointer belongs to the handle in the call
 * and is valid until that handle is freed. ABI: within a minor version, functions are only added; structs
 * that callers receive begin with their size, and only grow.
 */
#ifndef LACUNA_LACUNA_H
#define LACUNA_LACUNA_H

#include <stddef.h>
#include <stdint.h>

#include "lacuna/export.h"
#include "lacuna/version.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Version of the linked library, "0.2.0"; LACUNA_VERSION is the version of the headers. Never fails; the
 * text is static. */
LACUNA_API const char* lacuna_version(void);

/** Negative return values of functions that can fail. */
enum {
  LACUNA_INVALID_INPUT = -2, /**< invalid model, request or argument; the sentence says what is accepted */
  LACUNA_FAILED = -1         /**< any other failure, such as a lack of memory */
};

/** The error message of the calling thread's last failure, valid until the thread's next failure. "" if
 * nothing has failed yet. */
LACUNA_API const char* lacuna_error(void);
/** Kind of the calling thread's last failure: LACUNA_INVALID_INPUT, LACUNA_FAILED, or 0 if none yet. */
LACUNA_API int lacuna_error_kind(void);

/* ---- Sessions: a loaded model ---- */

/** A loaded model with its tokenizer and scheduler. */
typedef struct lacuna_session lacuna_session;

/** Loads a model. Returns NULL on failure.
 *
 *   model         folder, .gguf file, name of a model that ships, ORG/NAME from the hub's cache, or
 *                 random:FAMILY-SIZE
 *   options_json  NULL, or an object with fields of lacuna::LoadOptions: {"weights": "int4", "threads": 8}
 */
LACUNA_API lacuna_session* lacuna_load(const char* model, const char* options_json);
/** Frees a session without waiting; running requests are cancelled. NULL is allowed. */
LACUNA_API void lacuna_free(lacuna_session* session);

/** {"family", "paradigm", "vocab_size", "context", "num_layers", "hidden_size", "weight_bytes", "mask_token",
 * "end_tokens", "has_tokenizer", "can_infill"}, as JSON. */
LACUNA_API const char* lacuna_info_json(const lacuna_session* session);
/** Rows of the embedding table; token ids are 0 to lacuna_vocab_size() - 1. */
LACUNA_API int64_t lacuna_vocab_size(const lacuna_session* session);

/* ---- Answers ---- */

/** Answer of a model; freed by lacuna_answer_free(). */
typedef struct lacuna_answer lacuna_answer;

/** A token that was written to a position. */
typedef struct {
  int32_t position;  /**< position in the canvas, 0-based */
  int32_t token;     /**< token id */
  double confidence; /**< value by which the unmask rule ranks */
} lacuna_commit;

/** Effect of one forward pass on one request. Valid only during the callback. */
typedef struct {
  size_t size;           /**< size of this struct in the linked library */
  int32_t step;          /**< 0-based */
  int32_t prompt_tokens; /**< leading tokens of the canvas that are the prompt */
  int32_t final_tokens;  /**< length of the longest prefix that will not change any more */
  const char* kind;      /**< "denoise", "draft", "verify", "prefill", "decode", ... */
  const int32_t*
      canvas; /**< prompt and answer after the pass, with mask tokens where nothing is written yet */
  size_t canvas_length;           /**< tokens of the canvas */
  const lacuna_commit* committed; /**< ascending positions */
  size_t num_committed;           /**< elements of `committed` */
  int64_t rows;                   /**< rows that the pass computed for this request */
  double seconds;                 /**< duration of the whole pass, which requests may share */
} lacuna_pass_event;

/** Called after each pass, from a thread of the session. Returning 0 stops the request with the canvas's
 * present content as its answer. */
typedef int (*lacuna_pass_callback)(const lacuna_pass_event* event, void* user);

/** Answers a request. Returns NULL on failure.
 *
 *   request_json  {"prompt": TEXT} or {"messages": [{"role", "content"}, ...]} or {"tokens": [...]}, and
 *                 settings by the names of docs/reference/flags.md: {"prompt": "Hi", "gen_length": 64}.
 *                 "tools", "tool_choice", "parallel_tool_calls" and messages with calls and results have
 *                 the form of OpenAI's chats
 *   callback      NULL, or called after each pass
 */
LACUNA_API lacuna_answer* lacuna_generate(lacuna_session* session, const char* request_json,
                                          lacuna_pass_callback callback, void* user);
/** Fills the holes of a text: [[4]] has 4 tokens, [[1-3]] 1 to 3. Returns NULL on failure.
 *
 *   options_json  NULL, or settings by their names
 *   callback      NULL, or called after each pass
 */
LACUNA_API lacuna_answer* lacuna_infill(lacuna_session* session, const char* text, const char* options_json,
                                        lacuna_pass_callback callback, void* user);
/** Frees an answer and all its texts. NULL is allowed. */
LACUNA_API void lacuna_answer_free(lacuna_answer* answer);

/** Text up to the first end token or stop text; "" without a tokenizer. */
LACUNA_API const char* lacuna_answer_text(const lacuna_answer* answer);
/** All generated tokens, including those after an end token. */
LACUNA_API const int32_t* lacuna_answer_tokens(const lacuna_answer* answer, size_t* count);
/** {"text", "tokens", "prompt_tokens", "answer_tokens", "stop_reason", "seed", "stats": {...}}, as JSON. With
 * tools also "message": the assistant's message, with "tool_calls", to append to the request's messages. */
LACUNA_API const char* lacuna_answer_json(const lacuna_answer* answer);

/* ---- Tokens and logits ---- */

/** Token ids of a text; special tokens in it are taken as plain text. Writes at most `capacity` ids and
 * returns the number of all ids, or a negative number. */
LACUNA_API int64_t lacuna_tokenize(const lacuna_session* session, const char* text, size_t length,
                                   int32_t* tokens, size_t capacity);
/** The text of tokens. Writes at most `capacity` bytes, without a final zero byte, and returns the number of
 * all bytes, or a negative number. */
LACUNA_API int64_t lacuna_detokenize(const lacuna_session* session, const int32_t* tokens, size_t count,
                                     char* text, size_t capacity);
/** One forward pass without a cache: the model's raw logits of every row, not shifted.
 * Returns 0, or a negative number.
 *
 *   logits  [count, lacuna_vocab_size()], row-major
 */
LACUNA_API int lacuna_logits(lacuna_session* session, const int32_t* tokens, size_t count, float* logits);

#ifdef __cplusplus
}
#endif

#endif
