/* A program that was built with the headers of 0.2: calls every function of the library that it is given.
 *
 *   client_0.2 MODEL
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lacuna_0.2.h"

#define CHECK(condition)                                                                                   \
  do {                                                                                                     \
    if (!(condition)) {                                                                                    \
      fprintf(stderr, "line %d: expected %s; the last error: %s\n", __LINE__, #condition, lacuna_error()); \
      exit(1);                                                                                             \
    }                                                                                                      \
  } while (0)

static int passes = 0;

static int on_pass(const lacuna_pass_event* event, void* user) {
  CHECK(event->size >= sizeof(lacuna_pass_event));
  CHECK(event->step >= 0 && event->prompt_tokens > 0 && event->final_tokens >= 0);
  CHECK(strlen(event->kind) > 0 && event->canvas != NULL);
  CHECK(event->canvas_length > (size_t)event->prompt_tokens);
  CHECK(event->rows > 0 && event->seconds > 0);
  for (size_t i = 0; i < event->num_committed; ++i) {
    CHECK(event->committed[i].position >= event->prompt_tokens && event->committed[i].confidence <= 1);
    CHECK(event->canvas[event->committed[i].position] == event->committed[i].token);
  }
  ++*(int*)user;
  return 1;
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  CHECK(strncmp(lacuna_version(), "0.2.", 4) == 0);
  CHECK(lacuna_error_kind() == 0);
  CHECK(lacuna_load("no/such/model", NULL) == NULL);
  CHECK(lacuna_error_kind() == LACUNA_INVALID_INPUT && strlen(lacuna_error()) > 0);

  lacuna_session* session = lacuna_load(argv[1], "{\"threads\": 1}");
  CHECK(session != NULL);
  CHECK(strstr(lacuna_info_json(session), "\"paradigm\"") != NULL);
  const char* request =
      "{\"prompt\": \"Mia has 12 shells. She finds 5 more. How many shells does Mia have?\", \"gen_length\": "
      "32}";
  lacuna_answer* answer = lacuna_generate(session, request, on_pass, &passes);
  CHECK(answer != NULL && passes > 1);
  CHECK(strstr(lacuna_answer_text(answer), "17") != NULL);
  CHECK(strstr(lacuna_answer_json(answer), "\"stop_reason\"") != NULL);
  size_t count = 0;
  CHECK(lacuna_answer_tokens(answer, &count) != NULL && count == 32);
  lacuna_answer_free(answer);

  answer =
      lacuna_infill(session, "Mia has 12 shells. She finds 5 more. Mia has [[2]] shells.", NULL, NULL, NULL);
  CHECK(answer != NULL && strstr(lacuna_answer_text(answer), "17 shells") != NULL);
  lacuna_answer_free(answer);

  const char* text = "Mia has 12 shells.";
  int32_t tokens[32];
  int64_t num_tokens = lacuna_tokenize(session, text, strlen(text), tokens, 32);
  CHECK(num_tokens > 0 && num_tokens <= 32);
  char back[64] = {0};
  CHECK(lacuna_detokenize(session, tokens, (size_t)num_tokens, back, 63) == (int64_t)strlen(text));
  CHECK(strcmp(back, text) == 0);
  int64_t vocab_size = lacuna_vocab_size(session);
  float* logits = malloc(sizeof(float) * (size_t)(num_tokens * vocab_size));
  CHECK(lacuna_logits(session, tokens, (size_t)num_tokens, logits) == 0);
  CHECK(logits[0] != logits[1]);
  free(logits);
  lacuna_free(session);
  return 0;
}
