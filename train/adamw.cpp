#include "train/adamw.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>
#include <memory>
#include <unordered_map>
#include <utility>

namespace lacuna::train {
namespace {

constexpr int64_t kGrain = 1 << 17;  // elements that a thread takes at a time

struct Factors {
  float gradient_scale, beta1, beta2, weight_decay, step, root_bias2, epsilon, average_share;
};

/// Elements of one parameter.
struct Part {
  Factors factors;
  int64_t count;
  const float* gradient;
  float *weight, *mean, *square, *average;
};

/// One loop that the compiler turns into vectors: see the options of this file.
void update_part(const Part& part) {
  const Factors f = part.factors;
  const float* __restrict const gradient = part.gradient;
  float* __restrict const weight = part.weight;
  float* __restrict const mean = part.mean;
  float* __restrict const square = part.square;
  float* __restrict const average = part.average;
  for (int64_t i = 0; i < part.count; ++i) {
    const float g = gradient[i] * f.gradient_scale;
    const float m = f.beta1 * mean[i] + (1 - f.beta1) * g;
    const float v = f.beta2 * square[i] + (1 - f.beta2) * g * g;
    const float w = f.weight_decay * weight[i] - f.step * m / (std::sqrt(v) / f.root_bias2 + f.epsilon);
    mean[i] = m;
    square[i] = v;
    weight[i] = w;
    average[i] += f.average_share * (w - average[i]);
  }
}

void update_parts(const std::vector<Part>& parts) {
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < parts.size(); i = next++) update_part(parts[i]);
  };
  std::vector<std::future<void>> others;
  const auto threads = std::min(parts.size(), static_cast<size_t>(std::max(1, torch::get_num_threads())));
  for (size_t i = 1; i < threads; ++i) others.push_back(std::async(std::launch::async, work));
  work();
  for (std::future<void>& other : others) other.get();
}

torch::optim::AdamWParamState& state_of(torch::optim::AdamW& optimizer, const torch::Tensor& parameter) {
  auto& state = optimizer.state()[c10::guts::to_string(parameter.unsafeGetTensorImpl())];
  if (!state) {
    auto fresh = std::make_unique<torch::optim::AdamWParamState>();
    fresh->exp_avg(torch::zeros_like(parameter));
    fresh->exp_avg_sq(torch::zeros_like(parameter));
    state = std::move(fresh);
  }
  return static_cast<torch::optim::AdamWParamState&>(*state);
}

bool is_plain(const torch::Tensor& values) {
  return values.device().is_cpu() && values.scalar_type() == torch::kFloat32 && values.is_contiguous();
}

void update_with_operations(torch::optim::AdamW& optimizer, const std::vector<torch::Tensor>& parameters,
                            const std::vector<torch::Tensor>& averages, const AdamWNumbers& numbers) {
  for (const torch::Tensor& parameter : parameters) parameter.grad().mul_(numbers.gradient_scale);
  optimizer.step();
  for (size_t i = 0; i < averages.size(); ++i) averages[i].lerp_(parameters[i], 1 - numbers.average_decay);
}

}  // namespace

double gradient_norm(const std::vector<torch::Tensor>& parameters) {
  const torch::NoGradGuard no_grad;
  double squares = 0;
  for (const torch::Tensor& parameter : parameters) {
    const double norm = parameter.grad().norm().item<double>();
    squares += norm * norm;
  }
  return std::sqrt(squares);
}

void update(torch::optim::AdamW& optimizer, const std::vector<torch::Tensor>& parameters,
            const std::vector<torch::Tensor>& averages, const AdamWNumbers& numbers) {
  const torch::NoGradGuard no_grad;
  std::unordered_map<const void*, size_t> index_of;
  bool are_plain = true;
  for (size_t i = 0; i < parameters.size(); ++i) {
    index_of[parameters[i].unsafeGetTensorImpl()] = i;
    are_plain = are_plain && is_plain(parameters[i]) && is_plain(averages[i]);
  }
  if (!are_plain) return update_with_operations(optimizer, parameters, averages, numbers);
  std::vector<torch::Tensor> gradients;  // until the update is done
  std::vector<Part> parts;
  for (auto& group : optimizer.param_groups()) {
    const auto& options = static_cast<const torch::optim::AdamWOptions&>(group.options());
    const auto [beta1, beta2] = options.betas();
    for (const torch::Tensor& parameter : group.params()) {
      torch::optim::AdamWParamState& state = state_of(optimizer, parameter);
      state.step(state.step() + 1);
      const auto step = static_cast<double>(state.step());
      const Factors factors{static_cast<float>(numbers.gradient_scale),
                            static_cast<float>(beta1),
                            static_cast<float>(beta2),
                            static_cast<float>(1 - options.lr() * options.weight_decay()),
                            static_cast<float>(options.lr() / (1 - std::pow(beta1, step))),
                            static_cast<float>(std::sqrt(1 - std::pow(beta2, step))),
                            static_cast<float>(options.eps()),
                            static_cast<float>(1 - numbers.average_decay)};
      gradients.push_back(parameter.grad().contiguous());
      const torch::Tensor& average = averages[index_of.at(parameter.unsafeGetTensorImpl())];
      for (int64_t first = 0; first < parameter.numel(); first += kGrain) {
        parts.push_back({factors, std::min(kGrain, parameter.numel() - first),
                         gradients.back().data_ptr<float>() + first, parameter.data_ptr<float>() + first,
                         state.exp_avg().data_ptr<float>() + first,
                         state.exp_avg_sq().data_ptr<float>() + first, average.data_ptr<float>() + first});
      }
    }
  }
  update_parts(parts);
}

}  // namespace lacuna::train
