#include "decode/baseline.h"

#include <algorithm>

#include "decode/block_grid.h"
#include "decode/editing_diffusion.h"
#include "decode/refusion.h"
#include "decode/uniform_diffusion.h"
#include "decode/unmask.h"

namespace lacuna {
namespace {

/// Attention pairs (row, cell) of `rows` causal rows after `before` cells.
double causal_pairs(double rows, double before) {
  return rows * before + rows * (rows + 1) / 2;
}

void add(const PassWork& pass, int64_t times, BaselineWork& total) {
  const auto factor = static_cast<double>(times);
  total.passes += times;
  total.passes_with_logits += pass.logit_rows > 0 ? times : 0;
  total.work.rows += times * pass.rows;
  total.work.pairs += factor * pass.pairs;
  total.work.cells += factor * pass.cells;
  total.work.logit_rows += factor * pass.logit_rows;
  total.work.only_kv_rows += times * pass.only_kv_rows;
  total.work.only_kv_pairs += factor * pass.only_kv_pairs;
}

/// LLaDA, Dream: the whole canvas in each of gen_length steps, logits of the positions that are still masked.
/// RND1: in its published number of steps. A model with a default rule of its own follows neither schedule.
BaselineWork masked_work(const ModelConfig& config, const BaselineRequest& request) {
  const bool has_schedule = config.shifted_logits && config.default_unmask.empty();
  const bool is_linear = has_schedule && config.diffusion_steps > 0;
  CountRule rule = EvenSplit{};
  if (has_schedule) rule = TimeSchedule{};
  if (is_linear) rule = LinearSchedule{};
  const double length = request.prompt_length + request.gen_length;
  const double sequences = request.num_sequences;
  BaselineWork total;
  BlockProgress progress;
  progress.num_steps = is_linear ? config.diffusion_steps : request.gen_length;
  progress.masked_now = request.prompt_masks + request.answer_masks;
  progress.masked_at_start = is_linear ? progress.masked_now : request.answer_masks;
  for (; progress.step < progress.num_steps && progress.masked_now > 0; ++progress.step) {
    const int32_t written = std::min(fixed_count(rule, progress), progress.masked_now);
    if (written == 0) continue;
    PassWork pass;
    pass.rows = int64_t{request.num_sequences} * (request.prompt_length + request.gen_length);
    pass.pairs = sequences * length * length;
    pass.cells = sequences * length;
    pass.logit_rows = sequences * progress.masked_now;
    add(pass, 1, total);
    progress.masked_now -= written;
  }
  return total;
}

/// Qwen: left to right with K/V, as every engine decodes these models.
BaselineWork causal_work(const BaselineRequest& request) {
  BaselineWork total;
  if (request.answer_length <= 0) return total;
  PassWork prefill;
  prefill.rows = request.prompt_length;
  prefill.pairs = causal_pairs(request.prompt_length, 0);
  prefill.cells = request.prompt_length;
  prefill.logit_rows = 1;
  add(prefill, 1, total);
  const int64_t rows = request.answer_length - 1;  // the last token needs no pass
  const double before = request.prompt_length;
  total.passes += rows;
  total.passes_with_logits += rows;
  total.work.rows += rows;
  total.work.pairs += causal_pairs(static_cast<double>(rows), before);
  total.work.cells += causal_pairs(static_cast<double>(rows), before);
  total.work.logit_rows += static_cast<double>(rows);
  return total;
}

/// DiffusionGemma, LFM2.5-Diffusion: the prompt and finished canvases are computed once; a canvas takes the
/// maximum number of passes.
BaselineWork canvas_work(const ModelConfig& config, const BaselineRequest& request) {
  BaselineWork total;
  const int64_t size = config.canvas->length;
  const auto read = [&](double rows, double before) {
    PassWork pass;
    pass.rows = pass.only_kv_rows = static_cast<int64_t>(rows);
    pass.pairs = pass.only_kv_pairs = causal_pairs(rows, before);
    pass.cells = before + rows;
    return pass;
  };
  if (request.prompt_length > 0) add(read(request.prompt_length, 0), 1, total);
  const int64_t num_canvases = (std::max(request.answer_length, 1) + size - 1) / size;
  for (int64_t canvas = 0; canvas < num_canvases; ++canvas) {
    const auto begin = static_cast<double>(request.prompt_length + canvas * size);
    const auto rows = static_cast<double>(size);
    PassWork pass;
    pass.rows = size;
    pass.cells = begin + rows;
    pass.pairs = pass.cells * rows;
    pass.logit_rows = rows;
    add(pass, config.canvas->steps + (config.canvas->ancestral ? 1 : 0), total);
    if (canvas + 1 < num_canvases) add(read(rows, begin), 1, total);
  }
  return total;
}

/// Nemotron-Labs-Diffusion: a causal pass computes the prompt and samples the first token of a block. Each
/// block takes one step for each other token, then a causal pass unless it is the last.
BaselineWork seeded_work(const ModelConfig& config, const BaselineRequest& request) {
  const auto size = static_cast<int32_t>(config.block_length);
  const auto read = [](double rows, double before) {
    PassWork pass;
    pass.rows = static_cast<int64_t>(rows);
    pass.pairs = causal_pairs(rows, before);
    pass.cells = before + rows;
    pass.logit_rows = 1;
    return pass;
  };
  const int32_t answer_end = request.prompt_length + request.answer_length;
  const int32_t asked_end = request.prompt_length + (request.gen_length + size - 1) / size * size;
  const auto cells = static_cast<int32_t>(std::min<int64_t>(asked_end, config.max_positions));
  BaselineWork total;
  add(read(request.prompt_length, 0), 1, total);
  for (int32_t begin = request.prompt_length; begin < answer_end; begin += size) {
    const int32_t end = std::min(begin + size, cells);
    const double rows = end - begin;
    for (int32_t masked = end - begin - 1; masked > 0; --masked) {
      PassWork pass;
      pass.rows = end - begin;
      pass.cells = end;
      pass.pairs = rows * end;
      pass.logit_rows = masked;
      add(pass, 1, total);
    }
    if (end < answer_end) add(read(rows, begin), 1, total);
  }
  return total;
}

/// The block in which LLaDA 2.2 edits an infill, as make_decoder() chooses it; the whole text if no such
/// block fits the model's positions.
int32_t length_of_infill(const ModelConfig& config, const BaselineRequest& request) {
  const auto block_length = static_cast<int32_t>(config.block_length);
  const int32_t length =
      infill_block_length(block_length, request.prompt_length, request.gen_length, config.max_positions);
  return length > 0 ? length : request.prompt_length + request.gen_length;
}

/// SDAR, LLaDA 2, Fast-dLLM v2: K/V of finished blocks are kept, each in a pass of its own; a block takes one
/// step for each of its tokens, an infill's block one for each position of its holes. D2F: the prompt is a
/// block.
BaselineWork block_work(const ModelConfig& config, const BaselineRequest& request) {
  const bool is_infill = request.answer_masks > 0;
  const int32_t size =
      is_infill ? length_of_infill(config, request) : static_cast<int32_t>(config.block_length);
  const auto trained = static_cast<int32_t>(config.sub_block_length);
  const int32_t sub_size = trained > 0 ? std::min(trained, size) : size;
  BlockGrid grid{size};
  if (config.whole_prompt) {
    grid.prompt = request.prompt_length;
    grid.end = static_cast<int32_t>(config.max_positions);
  }
  const int32_t first = grid.block_of(request.prompt_length);
  // Positions of the first block that the prompt holds.
  const int32_t begun = request.prompt_length - grid.begin_of(first);
  const int32_t last = grid.block_of(request.prompt_length + std::max(request.answer_length, 1) - 1);
  const bool gives_next = config.shifted_logits && !config.whole_prompt;
  // A pass that keeps a block samples the first token of the next one where logits are shifted, but not in
  // D2F.
  const auto pass_over = [&](int32_t block) {
    PassWork pass;
    pass.rows = grid.begin_of(block + 1) - grid.begin_of(block);
    pass.cells = grid.begin_of(block + 1);
    pass.pairs = pass.cells * static_cast<double>(pass.rows);
    return pass;
  };
  const auto keeping = [&](int32_t block, bool draws_next) {
    PassWork pass = pass_over(block);
    if (draws_next) {
      pass.logit_rows = 1;
    } else {
      pass.only_kv_rows = pass.rows;
      pass.only_kv_pairs = pass.pairs;
    }
    return pass;
  };
  BaselineWork total;
  for (int32_t block = 0; block < first; ++block) {
    add(keeping(block, gives_next && begun == 0 && block + 1 == first), 1, total);
  }
  total.passes = first > 0 ? 1 : 0;  // one pass computes the whole prompt
  const auto write = [&](int32_t block, int32_t masked) {
    for (; masked > 0; --masked) {
      PassWork pass = pass_over(block);
      pass.logit_rows = masked;
      add(pass, 1, total);
    }
  };
  if (is_infill) {
    write(first, request.answer_masks);
    return total;
  }
  for (int32_t block = first; block <= last; ++block) {
    const int32_t given = block == first ? begun : 0;
    const int32_t written = given == 0 && gives_next ? 1 : given;
    const int32_t length = grid.begin_of(block + 1) - grid.begin_of(block);
    for (int32_t sub = written / sub_size; sub * sub_size < length; ++sub) {
      write(block, std::min((sub + 1) * sub_size, length) - std::max(written, sub * sub_size));
    }
    if (block < last) add(keeping(block, gives_next), 1, total);
  }
  return total;
}

/// Sumi: every position of the canvas in every step; those after the prompt are sampled.
BaselineWork whole_canvas_work(const ModelConfig& config, const BaselineRequest& request) {
  const double context = request.context;
  PassWork pass;
  pass.rows = request.context;
  pass.pairs = context * context;
  pass.cells = 2 * context;  // once for the prompt's rows, once for the others
  const int32_t closing = (config.eos_id >= 0 ? 1 : 0) + (config.bos_id >= 0 ? 1 : 0);
  pass.logit_rows = std::max(request.context - request.prompt_length - closing, 0);
  BaselineWork total;
  add(pass, config.noise->whole_canvas->steps, total);
  return total;
}

/// GIDD: every position of the context in every step of every block that was reached.
BaselineWork uniform_work(const ModelConfig& config, const BaselineRequest& request) {
  if (config.denoises_whole_canvas()) return whole_canvas_work(config, request);
  const UniformDiffusion usual;
  const int32_t size = std::min(usual.block_length, request.gen_length);
  const double context = request.context;
  BaselineWork total;
  for (int32_t offset = 0; offset < request.answer_length; offset += size) {
    const int32_t begin = request.prompt_length + offset;
    const int32_t end = std::min(begin + size, request.context);
    const double clean = begin;
    PassWork pass;
    pass.rows = request.context;
    pass.pairs = clean * clean + (context - clean) * context;  // clean rows see clean cells alone
    pass.cells = clean + context + (end < request.context ? context : 0);
    pass.logit_rows = end - begin;
    add(pass, size, total);
  }
  return total;
}

/// ReFusion: one slot at a time and one token of it in each pass, as with thresholds that no draft reaches.
BaselineWork slot_work(const BaselineRequest& request) {
  const Refusion usual;
  const int32_t block_size = usual.block_length;
  BaselineWork total;
  double pending = request.prompt_length;  // last clean tokens, whose K/V the next plan computes
  for (int32_t offset = 0; offset < request.answer_length;) {
    const int32_t block_end = std::min((offset / block_size + 1) * block_size, request.gen_length);
    const int32_t open = block_end - offset;
    const int32_t slot = std::min(usual.slot_size, open);
    const double clean = request.prompt_length + offset;
    PassWork plan;
    plan.rows = static_cast<int64_t>(pending) + open;
    plan.pairs = causal_pairs(pending, clean - pending) + causal_pairs(open, clean);
    plan.cells = (pending > 0 ? clean : 0) + clean + open;
    const int32_t open_slots = (open + usual.slot_size - 1) / usual.slot_size;
    plan.logit_rows = open_slots + slot - 1;
    add(plan, 1, total);
    const int32_t size = std::min(slot, request.answer_length - offset);
    for (int32_t kept = 0; kept == 0 || kept + 1 < size; ++kept) {
      PassWork pass;
      pass.rows = size - kept;
      pass.pairs = causal_pairs(static_cast<double>(pass.rows), clean + kept);
      pass.cells = clean + size;
      pass.logit_rows = size - kept - 1;
      add(pass, 1, total);
    }
    pending = size > 1 ? 1 : 0;
    offset += slot;
  }
  return total;
}

}  // namespace

BaselineWork baseline_work(const ModelConfig& config, const BaselineRequest& request) {
  switch (config.paradigm()) {
    case Paradigm::kCausal:
      return causal_work(request);
    case Paradigm::kSlots:
      return slot_work(request);
    case Paradigm::kMasked:
      return masked_work(config, request);
    case Paradigm::kBlocks:
      return config.causal_context ? seeded_work(config, request) : block_work(config, request);
    case Paradigm::kCanvases:
      return canvas_work(config, request);
    case Paradigm::kUniform:
      break;
  }
  return uniform_work(config, request);
}

StepCost baseline_cost(const ModelConfig& config, const ModelBytes& bytes, const BaselineRequest& request) {
  const BaselineWork total = baseline_work(config, request);
  // FLOPs and cells add up over passes; weights are read in each pass, experts by the mean number of rows.
  StepCost sum = cost(config, {0, 0, bytes.cell}, total.work);
  const auto passes = static_cast<double>(total.passes);
  const double mean_rows = static_cast<double>(total.work.rows) / std::max(passes, 1.0);
  sum.bytes += bytes.layers * share_of_weights_read(config, mean_rows) * passes;
  sum.bytes += bytes.head * static_cast<double>(total.passes_with_logits);
  return sum;
}

}  // namespace lacuna
