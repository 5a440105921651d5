/* Prints an answer: answer MODEL REQUEST, a JSON object */
#include <lacuna/lacuna.h>
#include <stdio.h>

int main(int argc, char** argv) {
  lacuna_session* session = argc == 3 ? lacuna_load(argv[1], NULL) : NULL;
  lacuna_answer* answer = session ? lacuna_generate(session, argv[2], NULL, NULL) : NULL;
  if (answer) puts(lacuna_answer_text(answer));
  if (!answer) fprintf(stderr, "error: %s\n", argc == 3 ? lacuna_error() : "usage: answer MODEL REQUEST");
  int failed = answer == NULL;
  lacuna_answer_free(answer);
  lacuna_free(session);
  return failed ? 2 : 0;
}
