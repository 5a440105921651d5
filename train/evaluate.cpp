#include "train/evaluate.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/rng.h"
#include "train/chat_form.h"
#include "train/data.h"

namespace lacuna::train {
namespace {

constexpr int64_t kSlot = 8;
constexpr int64_t kNoiseBlock = 8;
constexpr int64_t kNoiseSteps = 12;  // per block: more than its tokens, for revisions
constexpr int64_t kCanvasSteps = 16;
constexpr double kEntropyBound = 0.1;  // nats
// Purposes of random numbers in evaluation.
constexpr uint64_t kContextPurpose = 48;
constexpr uint64_t kCanvasPurpose = 49;

// The functions below write the canvas of `tokens` [B, T], which begins at `first`.

void fill_most_confident_first(Transformer& model, torch::Tensor& tokens, int64_t first, TokenId mask_id) {
  const int64_t shift = model->shape().traits().shifted_logits ? 1 : 0;
  const int64_t end = tokens.size(1);
  torch::Tensor canvas = tokens.slice(1, first);  // a view
  for (int64_t step = first; step < end; ++step) {
    const torch::Tensor hidden = model->hidden(tokens).slice(1, first - shift, end - shift);
    const auto [confidence, candidate] = torch::softmax(model->logits(hidden), -1).max(-1);
    const torch::Tensor position = confidence.masked_fill(canvas != mask_id, -1).argmax(-1, /*keepdim=*/true);
    canvas.scatter_(1, position, candidate.gather(1, position));
  }
}

/// Block after block, the most confident token first. Blocks begin at position 0.
void fill_blocks(Transformer& model, torch::Tensor& tokens, int64_t first, TokenId mask_id) {
  const int64_t block = model->shape().block_length;
  const int64_t shift = model->shape().traits().shifted_logits ? 1 : 0;
  for (int64_t begin = first / block * block; begin < tokens.size(1); begin += block) {
    const int64_t end = std::min(begin + block, tokens.size(1));
    torch::Tensor seen = tokens.slice(1, 0, end);  // a view
    const int64_t from = std::max(first, begin);
    torch::Tensor open = tokens.slice(1, from, end);
    for (int64_t step = from; step < end; ++step) {
      const torch::Tensor hidden = model->hidden(seen).slice(1, from - shift, end - shift);
      const auto [confidence, candidate] = torch::softmax(model->logits(hidden), -1).max(-1);
      const torch::Tensor position = confidence.masked_fill(open != mask_id, -1).argmax(-1, /*keepdim=*/true);
      open.scatter_(1, position, candidate.gather(1, position));
    }
  }
}

/// `slot`: tokens of a slot; 0: no slots. Attention is causal, so masks after the predicting row are omitted.
void write_left_to_right(Transformer& model, torch::Tensor& tokens, int64_t first, int64_t slot) {
  for (int64_t at = first; at < tokens.size(1); ++at) {
    const bool opens_slot = slot > 0 && (at - first) % slot == 0;
    const int64_t row = opens_slot ? at : at - 1;  // tokens[at] is a mask
    const torch::Tensor hidden = model->hidden(tokens.slice(1, 0, row + 1)).select(1, row);
    tokens.select(1, at).copy_(model->logits(hidden).argmax(-1));
  }
}

/// Noise that is never written fills the context after the canvas of `tokens`.
void replace_noise(Transformer& model, torch::Tensor& tokens, int64_t first, TokenId mask_id) {
  const double shift = model->shape().noise_shift();
  const bool uniform = shift >= kPureNoise;  // hybrid noise begins as masks
  const bool may_revise = shift > -kPureNoise;
  const int64_t end = tokens.size(1);
  const int64_t length = model->shape().context;
  expects(end <= length, "prompt and canvas fit into the context");
  torch::Tensor seen = torch::full({tokens.size(0), length}, static_cast<int64_t>(mask_id), torch::kInt64);
  if (uniform) {
    const auto words =
        static_cast<uint32_t>(model->shape().vocabulary - std::ssize(kChatMlForm.special_tokens));
    const RngStream noise(/*seed=*/0, kContextPurpose);
    int64_t* const values = seen.data_ptr<int64_t>();
    for (int64_t i = 0; i < seen.numel(); ++i) values[i] = noise.below(static_cast<uint64_t>(i), words);
  }
  seen = seen.to(tokens.device());
  seen.slice(1, 0, first).copy_(tokens.slice(1, 0, first));
  const torch::Tensor index = torch::arange(length, tokens.device());
  const torch::Tensor suppressed = torch::tensor({static_cast<int64_t>(mask_id)}, tokens.device());
  for (int64_t begin = first; begin < end; begin += kNoiseBlock) {
    const int64_t block_end = std::min(begin + kNoiseBlock, end);
    const torch::Tensor unseen = index.lt(begin).unsqueeze(1).logical_and(index.ge(begin).unsqueeze(0));
    torch::Tensor block = seen.slice(1, begin, block_end);  // a view
    const int64_t steps = may_revise ? kNoiseSteps : block_end - begin;
    for (int64_t step = 0; step < steps; ++step) {
      const torch::Tensor hidden = model->hidden(seen, {}, unseen).slice(1, begin, block_end);
      const torch::Tensor logits = model->logits(hidden).index_fill(-1, suppressed, -INFINITY);
      const torch::Tensor probabilities = torch::softmax(logits, -1);
      const auto [best, candidate] = probabilities.max(-1);
      // The probability of a mask is 0.
      const torch::Tensor gain = may_revise ? best - probabilities.gather(2, block.unsqueeze(2)).squeeze(2)
                                            : best.masked_fill(block != mask_id, -1);
      const torch::Tensor position = gain.argmax(-1, /*keepdim=*/true);
      block.scatter_(1, position, candidate.gather(1, position));
    }
  }
  tokens.copy_(seen.slice(1, 0, end));
}

/// Samples ids [rows, length] from the whole vocabulary.
torch::Tensor sample_canvas(int64_t rows, int64_t length, int64_t vocabulary, const RngStream& stream) {
  torch::Tensor canvas = torch::empty({rows, length}, torch::kInt64);
  int64_t* const values = canvas.data_ptr<int64_t>();
  for (int64_t i = 0; i < canvas.numel(); ++i)
    values[i] = stream.below(static_cast<uint64_t>(i), static_cast<uint32_t>(vocabulary));
  return canvas;
}

/// Denoises canvas by canvas, by docs/methods/canvas_diffusion.md, with the most probable token at each
/// accepted position and without an early stop.
void denoise_canvases(Transformer& model, torch::Tensor& tokens, int64_t first) {
  const ModelShape& shape = model->shape();
  const int64_t end = tokens.size(1);
  for (int64_t begin = first; begin < end; begin += shape.canvas.length) {
    const torch::Tensor prefix = tokens.slice(1, 0, begin);
    torch::Tensor best, accepted, soft;
    for (int64_t step = 0; step < kCanvasSteps; ++step) {
      torch::Tensor canvas = sample_canvas(tokens.size(0), shape.canvas.length, shape.vocabulary,
                                           RngStream(/*seed=*/0, kCanvasPurpose, begin, step))
                                 .to(tokens.device());
      if (step > 0) canvas = torch::where(accepted, best, canvas);
      const torch::Tensor hidden =
          model->hidden(torch::cat({prefix, canvas}, 1), {}, {}, {begin, soft}).slice(1, begin);
      const double share = static_cast<double>(kCanvasSteps - step) / static_cast<double>(kCanvasSteps);
      const double temperature = kLastTemperature + (kFirstTemperature - kLastTemperature) * share;
      const torch::Tensor p = torch::softmax(model->logits(hidden).to(torch::kFloat32) / temperature, -1);
      best = p.argmax(-1);
      soft = model->soft_embedding(p);
      const auto [entropy, order] = (-torch::xlogy(p, p).sum(-1)).sort(-1);
      const torch::Tensor before = entropy.cumsum(-1) - entropy;
      accepted = torch::zeros_like(best, torch::kBool).scatter(1, order, before <= kEntropyBound);
    }
    const int64_t written = std::min(end - begin, shape.canvas.length);
    tokens.slice(1, begin, begin + written).copy_(best.slice(1, 0, written));
  }
}

}  // namespace

std::vector<std::vector<TokenId>> decode(Transformer& model, const std::vector<std::vector<TokenId>>& prompts,
                                         int64_t canvas, TokenId mask_id) {
  const torch::InferenceMode inference;
  const auto rows = static_cast<int64_t>(prompts.size());
  const auto prompt_length = static_cast<int64_t>(prompts.front().size());
  torch::Tensor tokens =
      torch::full({rows, prompt_length + canvas}, static_cast<int64_t>(mask_id), torch::kInt64);
  for (int64_t row = 0; row < rows; ++row) {
    const auto& prompt = prompts[static_cast<size_t>(row)];
    std::copy(prompt.begin(), prompt.end(), tokens.data_ptr<int64_t>() + row * tokens.size(1));
  }
  tokens = tokens.to(model->parameters().front().device());
  switch (model->shape().objective()) {
    case Objective::kMaskedTokens:
      fill_most_confident_first(model, tokens, prompt_length, mask_id);
      break;
    case Objective::kNextToken:
    case Objective::kStrided:
      write_left_to_right(model, tokens, prompt_length, 0);
      break;
    case Objective::kBlocks:
      fill_blocks(model, tokens, prompt_length, mask_id);
      break;
    case Objective::kInterpolation:
      replace_noise(model, tokens, prompt_length, mask_id);
      break;
    case Objective::kCanvases:
      denoise_canvases(model, tokens, prompt_length);
      break;
    case Objective::kSlots:
      write_left_to_right(model, tokens, prompt_length, kSlot);
      break;
  }
  std::vector<std::vector<TokenId>> canvases;
  const torch::Tensor filled = tokens.slice(1, prompt_length).cpu().contiguous();
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t* first = filled.data_ptr<int64_t>() + row * canvas;
    canvases.emplace_back(first, first + canvas);
  }
  return canvases;
}

std::vector<Mistake> find_mistakes(Transformer& model, const Task& task, uint64_t seed, int64_t count,
                                   int64_t canvas, const Vocabulary& vocabulary,
                                   const TaskOptions& task_options) {
  const Tokenizer& tokenizer = vocabulary.tokenizer;
  const SpecialIds ids = vocabulary.ids;
  struct Group {
    std::vector<Sample> samples;
    std::vector<std::vector<TokenId>> prompts;
  };
  std::map<size_t, Group> by_length;
  std::vector<Mistake> mistakes;
  for (int64_t index = 0; index < count; ++index) {
    Sample sample = task.generate(Split::kTest, seed, static_cast<uint64_t>(index), task_options);
    std::vector<TokenId> prompt =
        task.has_lengths ? tokenizer.encode(sample.prompt) : chat_prompt(sample, vocabulary);
    const bool fits = static_cast<int64_t>(prompt.size()) + canvas <= model->shape().context;
    if (model->shape().traits().interpolates() && !fits) {
      mistakes.push_back({std::move(sample), "(the context cannot hold the prompt)"});
      continue;
    }
    Group& group = by_length[prompt.size()];
    group.samples.push_back(std::move(sample));
    group.prompts.push_back(std::move(prompt));
  }
  for (auto& [length, group] : by_length) {
    const auto canvases = decode(model, group.prompts, canvas, ids.mask);
    for (size_t i = 0; i < canvases.size(); ++i) {
      const auto end = std::find(canvases[i].begin(), canvases[i].end(), ids.end);
      std::string text = tokenizer.decode({canvases[i].begin(), end});
      if (!task.check(group.samples[i], text)) mistakes.push_back({group.samples[i], std::move(text)});
    }
  }
  return mistakes;
}

}  // namespace lacuna::train
