// add_options() of arguments.h.
#include "train/arguments.h"

namespace lacuna::train {
namespace {

void add_run_options(CLI::App& app, Arguments& a) {
  app.add_option("--family", a.family, "Model family: " + family_names())->capture_default_str();
  app.add_option("--out", a.folder, "Folder for the model, the checkpoint and the log")->required();
  app.add_option(
      "--init", a.start,
      "Start from the weights of this checkpoint folder or, with --data, GGUF file: of the same sizes and "
      "tokenizer, and of the family, or qwen2 for dream and fast-dllm-v2, qwen3 for refusion, sdar and "
      "i-dlm, "
      "qwen3 or sdar for llada and llada2-moe, gidd for gidd-mask and the reverse");
  app.add_flag(
      "--left-to-right", a.shape.left_to_right,
      "A first phase of gidd, gidd-mask, llada2-moe or diffusion-gemma: causal attention and the next token, "
      "for --init to continue from");
  app.add_flag("--resume", a.resume,
               "Continue from the checkpoint in the folder; --init is given again with --data or --lora");
  app.add_flag("--starting-heads", a.starting_heads,
               "Begin with heads that look at neighbours and at equal tokens, for tasks that compare words")
      ->excludes("--init");
  app.add_option("--minutes", a.train.minutes, "Training time, all runs together; 0: no limit")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--steps", a.train.steps, "Optimiser steps, all runs together; 0: no limit")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--seed", a.train.seed, "Seed of weights, data and masks; the vocabulary is always the same")
      ->capture_default_str();
  app.add_option("--threads", a.train.threads, "Threads; each takes a part of the rows")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--matmul", a.matmul, "Type of matmuls; auto: bf16 where the CPU multiplies it")
      ->check(CLI::IsMember({"auto", "f32", "bf16"}))
      ->capture_default_str();
  app.add_option("--device", a.device, "Where to compute; cuda needs a LibTorch that was built with it")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
}

void add_model_options(CLI::App& app, Arguments& a) {
  app.add_option("--layers", a.shape.layers, "Transformer blocks")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--width", a.shape.width, "Width of the residual stream")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--heads", a.shape.heads, "Attention heads")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--ffn-width", a.ffn_width,
                 "Inner width of the feed-forward part; 384 where not given, 4 times --width for gidd and "
                 "gidd-mask")
      ->check(CLI::PositiveNumber);
  app.add_option("--experts", a.shape.experts.count,
                 "Experts of llada2-moe, in four groups of which two serve a token, and of diffusion-gemma")
      ->check(CLI::Range(2, 1024))
      ->capture_default_str();
  app.add_option("--experts-per-token", a.shape.experts.per_token, "Of these, how many serve a token")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--expert-width", a.shape.experts.ffn_width,
                 "Inner width of an expert, and of llada2-moe's that serves every token")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--canvas-length", a.shape.canvas.length, "Positions of a canvas of diffusion-gemma")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--window", a.shape.canvas.window,
                 "Positions that a row of diffusion-gemma's sliding layers sees, its own included")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option(
         "--max-vocabulary", a.max_vocabulary,
         "Tokens to learn at most, without special tokens (default 2048; 8192 with --wide-vocabulary)")
      ->check(CLI::Range(256, 1 << 20));
  app.add_flag("--wide-vocabulary", a.wide_vocabulary,
               "Learn the words and numbers of the task questions as well");
}

void add_file_options(CLI::App& app, Arguments& a) {
  app.add_option(
         "--data", a.data_files,
         "FILE.jsonl or FILE.jsonl=SHARE, several: a line is {\"messages\": [...]}, {\"prompt\", "
         "\"response\"}, {\"query\", \"response\"} or {\"text\"}. The checkpoint of --init keeps its sizes, "
         "tokenizer and chat template")
      ->type_name("FILE[=SHARE]");
  app.add_option("--row-length", a.row_length,
                 "Most tokens of a row of --data, prompt and answer; longer ones are left out, texts are cut")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  app.add_option(
         "--lora", a.lora,
         "r=RANK[,alpha=ALPHA]: learn low-rank updates of the matrices of all layers and nothing else "
         "(alpha: 2 RANK where not given); the adapter is written to OUT/adapter as PEFT has it")
      ->type_name("r=RANK,alpha=ALPHA");
  app.add_option(
         "--adapter", a.adapter,
         "Begin with the low-rank updates of this folder (OUT/adapter of another run), whose rank and "
         "alpha take the place of --lora")
      ->excludes("--lora");
  app.add_flag("--only-export", a.only_exports,
               "Train nothing: write the model that --init and --adapter are together");
  app.add_flag(
      "--checkpoint-activations", a.checkpoints_activations,
      "Keep the inputs of blocks alone and compute blocks again for the gradients: less memory, a third "
      "more time, the same gradients");
  app.add_option("--accumulate", a.train.accumulate, "Batches of a step, whose gradients are averaged")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
}

void add_data_options(CLI::App& app, Arguments& a) {
  app.add_option("--batch-rows", a.data.batch_rows, "Rows per step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--canvas", a.data.canvas, "Response positions per row, end tokens included")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--longest-canvas", a.data.longest_canvas,
                 "Rows draw their canvas from --canvas to this, short ones more often; 0: all have --canvas")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--chat-share", a.data.chat_share,
                 "Share of the prompts in the chat template; the others are raw text")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--infill-share", a.data.infill_share,
                 "llada, dream: share of rows that are told stories with a few spans to restore")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--copies-share", a.train.copies_share,
                 "llada, dream: share of rows that hide all occurrences of one token, and nothing else")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--given-tail-share", a.data.given_tail_share,
                 "llada, dream: share of rows whose end tokens are given from a random place on")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option(
         "--prompt-noise", a.data.prompt_noise,
         "Share of the words in prompts of the task questions that are made up, left out or said twice")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--drill-canvas", a.data.drill_canvas,
                 "Positions behind the prompt of a drill; 0: as --canvas")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--lengths", a.lengths, "Smallest and largest number of prompt tokens of retrieval: 128,512")
      ->delimiter(',')
      ->expected(2);
  app.add_option("--spread", a.data.spread,
                 "Positions over which the rows of retrieval are spread, with gaps between facts; 0: none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--rope-theta", a.shape.rope_theta, "Base of the rotations")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option(
         "--context", a.context,
         "Length of all rows of gidd and gidd-mask, filled with end tokens, 128 where not given; of the "
         "others the positions that the config promises, 1024 where not given")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--tasks", a.tasks,
                 "Tasks and their shares of the rows: decisions, " + task_names() +
                     " (without --data: arithmetic=0.7,stories=0.1)")
      ->delimiter(',');
  app.add_option("--decision-questions", a.data.decision_questions, "Most questions of a row of decisions")
      ->check(CLI::Range(1, 12))
      ->capture_default_str();
  app.add_option("--decision-kinds", a.decision_kinds,
                 "Kinds of the questions of rows of decisions: predicate, choice, score; all where not given")
      ->delimiter(',')
      ->check(CLI::IsMember({"predicate", "choice", "score"}));
  app.add_option(
         "--decision-drill-share", a.data.decision_drill_share,
         "Share of the rows of decisions that are a story and many questions with the answer behind each")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option(
         "--decision-drill-questions", a.data.decision_drill_questions,
         "Most questions of such a drill, before those of other kinds than --decision-kinds are left out")
      ->check(CLI::Range(1, 12))
      ->capture_default_str();
  app.add_option(
         "--decision-auxiliary", a.data.decision_auxiliary,
         "llada, dream: weight of auxiliary targets in rows of decisions: whether the story has a question's "
         "word, whether an option is right; 0: none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option(
         "--drill-share", a.drill_share,
         "Share of rows of bare equations or questions; 0.2 where not given, 0 for refusion, which has none")
      ->check(CLI::NonNegativeNumber);
}

void add_objective_options(CLI::App& app, Arguments& a) {
  app.add_option(
         "--objective", a.objective,
         "The loss. paper: as published, for llada (fine-tuning, end tokens weigh as all others), dream "
         "(CART), refusion (equations 1 to 3), sdar, fast-dllm-v2 and llada2-moe. default: weights 1 / t "
         "of masks are bounded at 1 / 0.05, which is ours, and refusion's pooling is that of its "
         "published code")
      ->check(CLI::IsMember({"default", "paper"}))
      ->capture_default_str();
  app.add_option("--block-length", a.shape.block_length,
                 "Positions of a block of sdar, fast-dllm-v2 and llada2-moe; masks in a block of i-dlm")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option(
         "--slot-sizes", a.slot_sizes,
         "Sizes of slots that samples of refusion draw from; 4,8,16,32 where not given, those that the "
         "canvas or --row-length has room for")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  app.add_option("--lambda", a.lambda,
                 "refusion with --objective paper: weight of the loss of masked slots (1 where not given)")
      ->check(CLI::NonNegativeNumber);
  app.add_option(
         "--half-written-share", a.train.half_written_share,
         "refusion: share of the masked slots that begin with some of their tokens, as decoders see them "
         "while they complete slots (an augmentation that the paper does not have)")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option(
         "--cart-p", a.cart_p,
         "dream with --objective paper: the geometric distribution of a mask's weights over the distance "
         "to clean tokens (0.1 where not given)")
      ->check(CLI::Range(1e-6, 1 - 1e-6));
  app.add_option("--confidence-weight", a.train.confidence_weight,
                 "Families that predict masks: weight of the entropy of right predictions, as LLaDA 2.0's "
                 "confidence-aware training has it; 0: none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--clean-weight", a.clean_weight,
                 "i-dlm: weight of the next-token loss of clean rows (0.2 where not given)")
      ->check(CLI::NonNegativeNumber);
  app.add_option(
         "--uniform-shift", a.shape.uniform_shift,
         "gidd, gidd-mask: hybrid noise, uniform at log-SNR l with probability sigmoid(l + SHIFT), else "
         "the mask (the papers' mixtures have -2, 0 and 2)")
      ->check(CLI::Range(-1000.0, 1000.0))
      ->type_name("SHIFT");
  app.add_option(
      "--teacher", a.teacher,
      "llada, dream, sdar: learn the answers of this checkpoint folder, of the same vocabulary, from "
      "the states of its trajectories, to write them in fewer passes (as d3LLM has it)");
  app.add_option("--trajectory-block", a.train.trajectory_block,
                 "Tokens of a block of a teacher's trajectory, of llada and dream")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--trajectory-uses", a.train.trajectory_uses,
                 "Batches that learn from one trajectory of the teacher, each from another state of it")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

void add_optimizer_options(CLI::App& app, Arguments& a) {
  app.add_option("--rate", a.train.peak_rate, "Peak learning rate; falls to a hundredth of it along a cosine")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--warmup-steps", a.train.warmup_steps, "Steps until the peak")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--weight-decay", a.train.weight_decay, "Of the matrices")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--clip-norm", a.train.clip_norm, "Largest norm of the gradient of a step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--average-decay,--ema", a.train.average_decay,
                 "Of the moving average of the weights, which is what is written; 0: the weights themselves")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--evaluate-minutes", a.train.evaluate_minutes, "Minutes between evaluations")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--evaluate-samples", a.train.evaluate_samples, "Test samples of each task per evaluation")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--final-samples", a.final_samples, "Test samples of each task at the end")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

}  // namespace

void add_options(CLI::App& app, Arguments& a) {
  add_run_options(app, a);
  add_model_options(app, a);
  add_file_options(app, a);
  add_data_options(app, a);
  add_objective_options(app, a);
  add_optimizer_options(app, a);
}

}  // namespace lacuna::train
