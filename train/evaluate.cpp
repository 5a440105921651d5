#include "train/evaluate.h"

#include <algorithm>
#include <map>

namespace lacuna::train {

std::vector<std::vector<TokenId>> decode(Llada& model, const std::vector<std::vector<TokenId>>& prompts,
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
  torch::Tensor answer = tokens.slice(1, prompt_length);  // a view: writing it fills the canvas
  for (int64_t step = 0; step < canvas; ++step) {
    const torch::Tensor hidden = model->hidden(tokens).slice(1, prompt_length);
    const auto [confidence, candidate] = torch::softmax(model->logits(hidden), -1).max(-1);
    const torch::Tensor position = confidence.masked_fill(answer != mask_id, -1).argmax(-1, /*keepdim=*/true);
    answer.scatter_(1, position, candidate.gather(1, position));
  }
  std::vector<std::vector<TokenId>> canvases;
  const torch::Tensor filled = answer.contiguous();
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t* first = filled.data_ptr<int64_t>() + row * canvas;
    canvases.emplace_back(first, first + canvas);
  }
  return canvases;
}

std::vector<Mistake> find_mistakes(Llada& model, const Task& task, uint64_t seed, int64_t count,
                                   int64_t canvas, const Tokenizer& tokenizer, SpecialIds ids) {
  struct Group {
    std::vector<Sample> samples;
    std::vector<std::vector<TokenId>> prompts;
  };
  std::map<size_t, Group> by_length;
  for (int64_t index = 0; index < count; ++index) {
    Sample sample = task.generate(Split::kTest, seed, static_cast<uint64_t>(index));
    std::vector<TokenId> prompt = tokenizer.encode(sample.prompt);
    Group& group = by_length[prompt.size()];
    group.samples.push_back(std::move(sample));
    group.prompts.push_back(std::move(prompt));
  }
  std::vector<Mistake> mistakes;
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
