/* The C interface as 0.2 had it: programs that were built with it run with every later 0.2.x. Does not
 * change. */
#ifndef LACUNA_ABI_0_2_H
#define LACUNA_ABI_0_2_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

const char* lacuna_version(void);

enum { LACUNA_INVALID_INPUT = -2, LACUNA_FAILED = -1 };

const char* lacuna_error(void);
int lacuna_error_kind(void);

typedef struct lacuna_session lacuna_session;

lacuna_session* lacuna_load(const char* model, const char* options_json);
void lacuna_free(lacuna_session* session);

const char* lacuna_info_json(const lacuna_session* session);
int64_t lacuna_vocab_size(const lacuna_session* session);

typedef struct lacuna_answer lacuna_answer;

typedef struct {
  int32_t position;
  int32_t token;
  double confidence;
} lacuna_commit;

typedef struct {
  size_t size;
  int32_t step;
  int32_t prompt_tokens;
  int32_t final_tokens;
  const char* kind;
  const int32_t* canvas;
  size_t canvas_length;
  const lacuna_commit* committed;
  size_t num_committed;
  int64_t rows;
  double seconds;
} lacuna_pass_event;

typedef int (*lacuna_pass_callback)(const lacuna_pass_event* event, void* user);

lacuna_answer* lacuna_generate(lacuna_session* session, const char* request_json,
                               lacuna_pass_callback callback, void* user);
lacuna_answer* lacuna_infill(lacuna_session* session, const char* text, const char* options_json,
                             lacuna_pass_callback callback, void* user);
void lacuna_answer_free(lacuna_answer* answer);

const char* lacuna_answer_text(const lacuna_answer* answer);
const int32_t* lacuna_answer_tokens(const lacuna_answer* answer, size_t* count);
const char* lacuna_answer_json(const lacuna_answer* answer);

int64_t lacuna_tokenize(const lacuna_session* session, const char* text, size_t length, int32_t* tokens,
                        size_t capacity);
int64_t lacuna_detokenize(const lacuna_session* session, const int32_t* tokens, size_t count, char* text,
                          size_t capacity);
int lacuna_logits(lacuna_session* session, const int32_t* tokens, size_t count, float* logits);

#ifdef __cplusplus
}
#endif

#endif
