// Times forward passes of a GGUF model by llama.cpp with the logits of every row, which llama-bench computes
// only for encoders. `ggml_pass MODEL CANVAS ROWS THREADS REPEAT` prints the seconds of each pass, one per
// line. The first CANVAS - ROWS cells are filled before. bench/beside_gemma.py builds this program with
// llama.cpp; Lacuna itself needs neither.
#include <llama.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace {

bool decode(llama_context* context, int begin, int rows) {
  llama_batch batch = llama_batch_init(rows, 0, 1);
  batch.n_tokens = rows;
  for (int row = 0; row < rows; ++row) {
    batch.token[row] = 100 + (begin + row) * 7;
    batch.pos[row] = begin + row;
    batch.n_seq_id[row] = 1;
    batch.seq_id[row][0] = 0;
    batch.logits[row] = 1;
  }
  const bool is_decoded = llama_decode(context, batch) == 0;
  llama_synchronize(context);
  llama_batch_free(batch);
  return is_decoded;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: ggml_pass MODEL CANVAS ROWS THREADS REPEAT\n");
    return 2;
  }
  const int canvas = std::atoi(argv[2]), rows = std::atoi(argv[3]), threads = std::atoi(argv[4]),
            repeat = std::atoi(argv[5]);
  llama_log_set(
      [](ggml_log_level level, const char* text, void*) {
        if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
      },
      nullptr);
  llama_backend_init();
  llama_model* model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (model == nullptr) {
    return 1;
  }
  llama_context_params params = llama_context_default_params();
  params.n_ctx = canvas;
  params.n_batch = canvas;
  params.n_ubatch = canvas;
  params.n_threads = threads;
  params.n_threads_batch = threads;
  llama_context* context = llama_init_from_model(model, params);
  if (context == nullptr) {
    return 1;
  }
  llama_set_causal_attn(context, false);
  const int begin = canvas - rows;
  if (begin > 0 && !decode(context, 0, begin)) {
    return 1;
  }
  for (int pass = -1; pass < repeat; ++pass) {
    const auto started = std::chrono::steady_clock::now();
    if (!decode(context, begin, rows)) {
      return 1;
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;
    if (pass >= 0) {
      std::printf("%.6f\n", seconds.count());
    }
    if (!llama_memory_seq_rm(llama_get_memory(context), 0, begin, -1)) {
      return 1;
    }
  }
  llama_free(context);
  llama_model_free(model);
}
