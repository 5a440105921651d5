/* Checks that the C interface keeps no memory: memory MODEL [CALLS]
 *
 * Each call loads the model, answers, reads logits and frees all. Resident memory after the first tenth of
 * the calls and after the last one may differ by 2%. */
#include <lacuna/lacuna.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define REQUEST "{\"prompt\": \"Mia has 12 shells.\", \"gen_length\": 4, \"steps\": 1, \"block_length\": 4}"

static void fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, lacuna_error());
  exit(1);
}

static int stop(const lacuna_pass_event* event, void* user) {
  (void)event;
  (void)user;
  return 0;
}

static void call(const char* model, int index) {
  lacuna_session* session = lacuna_load(model, "{\"threads\": 1}");
  if (!session) fail("lacuna_load");
  lacuna_answer* answer = lacuna_generate(session, REQUEST, index % 2 ? stop : NULL, NULL);
  if (!answer) fail("lacuna_generate");
  if (!lacuna_answer_json(answer)) fail("lacuna_answer_json");
  const int32_t tokens[] = {1, 2, 3, 4};
  float* logits = malloc(sizeof(float) * 4 * (size_t)lacuna_vocab_size(session));
  if (!logits || lacuna_logits(session, tokens, 4, logits) < 0) fail("lacuna_logits");
  if (lacuna_generate(session, "{\"prompt\": 1}", NULL, NULL)) fail("a wrong request was answered");
  free(logits);
  lacuna_answer_free(answer);
  lacuna_free(session);
}

static double resident_mib(void) {
  long pages = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%*d %ld", &pages) != 1) fail("/proc/self/statm");
  fclose(file);
  return (double)pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const int calls = argc > 2 ? atoi(argv[2]) : 10000;
  double warm = 0;
  for (int i = 0; i < calls; ++i) {
    if (i == calls / 10) warm = resident_mib();
    call(argv[1], i);
  }
  const double end = resident_mib();
  printf("%d calls: %.2f MiB after %d, %.2f MiB after the last (%+.2f%%)\n", calls, warm, calls / 10, end,
         100 * (end / warm - 1));
  return end <= warm * 1.02 ? 0 : 1;
}
