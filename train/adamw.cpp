#include "train/adamw.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <future>
#include <memory>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "train/row_loops.h"

namespace lacuna::train {
namespace {

constexpr int64_t kGrain = 1 << 17;  // elements of one task
constexpr int64_t kBlock = 1 << 11;  // elements of which gradients are summed at a time

struct Factors {
  float gradient_scale, beta1, beta2, decay_factor, rate, root_bias2, epsilon, average_rate;
};

using Block = std::array<float, kBlock>;

/// The bits of a bf16 tensor, the form that row loops read.
uint16_t* bits_of(const torch::Tensor& x) {
  return reinterpret_cast<uint16_t*>(x.data_ptr<at::BFloat16>());
}

/// Reads elements [first, first + count) of a gradient as f32.
void read_part(const torch::Tensor& part, int64_t first, int64_t count, Block& values) {
  if (part.scalar_type() == torch::kFloat32) {
    std::copy_n(part.data_ptr<float>() + first, count, values.begin());
  } else {
    widen(bits_of(part) + first, count, values.data());
  }
}

/// Sums elements [first, first + count) over all parts.
void add_up(const GradientParts& parts, int64_t first, int64_t count, Block& sums) {
  read_part(parts.front(), first, count, sums);
  Block values;
  for (size_t i = 1; i < parts.size(); ++i) {
    read_part(parts[i], first, count, values);
    add_row(values.data(), count, sums.data());
  }
}

LACUNA_ROW_LOOP void update_part(const Factors& factors, int64_t count, const float* __restrict gradient,
                                 float* __restrict weight, float* __restrict mean, float* __restrict square,
                                 float* __restrict average) {
  const Factors f = factors;
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradient[i] * f.gradient_scale;
    const float m = f.beta1 * mean[i] + (1 - f.beta1) * g;
    const float v = f.beta2 * square[i] + (1 - f.beta2) * g * g;
    const float w = f.decay_factor * weight[i] - f.rate * m / (std::sqrt(v) / f.root_bias2 + f.epsilon);
    mean[i] = m;
    square[i] = v;
    weight[i] = w;
    average[i] += f.average_rate * (w - average[i]);
  }
}

/// Runs task(0), ..., task(count - 1) on LibTorch's number of threads.
void run_tasks(size_t count, const std::function<void(size_t)>& task) {
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) task(i);
  };
  std::vector<std::future<void>> others;
  const auto threads = std::min(count, static_cast<size_t>(std::max(1, torch::get_num_threads())));
  for (size_t i = 1; i < threads; ++i) others.push_back(std::async(std::launch::async, work));
  work();
  for (std::future<void>& other : others) other.get();
}

/// A range of the elements of one weight.
struct Range {
  size_t weight;
  int64_t first, count;
};

std::vector<Range> ranges_of(const std::vector<GradientParts>& gradients) {
  std::vector<Range> ranges;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const int64_t all = gradients[i].front().numel();
    for (int64_t first = 0; first < all; first += kGrain)
      ranges.push_back({i, first, std::min(kGrain, all - first)});
  }
  return ranges;
}

/// Calls body(first, sums, count) for the blocks of a range.
template <typename Body>
void for_each_block(const Range& range, const GradientParts& parts, Body&& body) {
  Block sums;
  for (int64_t first = range.first; first < range.first + range.count; first += kBlock) {
    const int64_t count = std::min(kBlock, range.first + range.count - first);
    add_up(parts, first, count, sums);
    body(first, sums, count);
  }
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

bool is_plain(const torch::Tensor& values, torch::ScalarType type) {
  return values.device().is_cpu() && values.scalar_type() == type && values.is_contiguous();
}

bool are_plain(const std::vector<GradientParts>& gradients) {
  return std::all_of(gradients.begin(), gradients.end(), [](const GradientParts& parts) {
    return std::all_of(parts.begin(), parts.end(), [](const torch::Tensor& part) {
      return is_plain(part, torch::kFloat32) || is_plain(part, torch::kBFloat16);
    });
  });
}

torch::Tensor sum_of(const GradientParts& parts, torch::ScalarType type) {
  torch::Tensor sum = parts.front().to(type);
  for (size_t i = 1; i < parts.size(); ++i) sum = sum + parts[i].to(type);
  return sum;
}

void update_with_operations(torch::optim::AdamW& optimizer, const std::vector<LearnedWeight>& weights,
                            const std::vector<GradientParts>& gradients, const AdamWNumbers& numbers) {
  for (size_t i = 0; i < weights.size(); ++i) {
    const torch::Tensor& values = weights[i].values;
    values.mutable_grad() = sum_of(gradients[i], values.scalar_type()) * numbers.gradient_scale;
  }
  optimizer.step();
  for (const LearnedWeight& weight : weights) {
    weight.values.mutable_grad() = torch::Tensor();
    torch::Tensor average = weight.average, rounded = weight.rounded;
    average.lerp_(weight.values, 1 - numbers.average_decay);
    if (rounded.defined()) rounded.copy_(weight.values);
  }
}

}  // namespace

double gradient_norm(const std::vector<GradientParts>& gradients) {
  const torch::NoGradGuard no_grad;
  double squares = 0;
  if (!are_plain(gradients)) {
    for (const GradientParts& parts : gradients)
      squares += sum_of(parts, torch::kFloat64).square().sum().item<double>();
    return std::sqrt(squares);
  }
  const std::vector<Range> ranges = ranges_of(gradients);
  std::vector<double> of_ranges(ranges.size());
  run_tasks(ranges.size(), [&](size_t i) {
    const GradientParts& parts = gradients[ranges[i].weight];
    for_each_block(ranges[i], parts, [&](int64_t, const Block& sums, int64_t count) {
      of_ranges[i] += static_cast<double>(sum_of_products(sums.data(), sums.data(), count));
    });
  });
  return std::sqrt(std::accumulate(of_ranges.begin(), of_ranges.end(), 0.0));
}

void update(torch::optim::AdamW& optimizer, const std::vector<LearnedWeight>& weights,
            const std::vector<GradientParts>& given, const AdamWNumbers& numbers) {
  const torch::NoGradGuard no_grad;
  std::vector<GradientParts> gradients = given;  // contiguous, until the update is done
  for (GradientParts& parts : gradients) {
    for (torch::Tensor& part : parts) part = part.contiguous();
  }
  std::unordered_map<const void*, size_t> index_of;
  bool is_fast = are_plain(gradients);
  for (size_t i = 0; i < weights.size(); ++i) {
    index_of[weights[i].values.unsafeGetTensorImpl()] = i;
    is_fast = is_fast && is_plain(weights[i].values, torch::kFloat32) &&
              is_plain(weights[i].average, torch::kFloat32);
  }
  if (!is_fast) return update_with_operations(optimizer, weights, gradients, numbers);

  struct State {
    Factors factors;
    float *mean, *square;
  };
  std::vector<State> states(weights.size());
  for (auto& group : optimizer.param_groups()) {
    const auto& options = static_cast<const torch::optim::AdamWOptions&>(group.options());
    const auto [beta1, beta2] = options.betas();
    for (const torch::Tensor& parameter : group.params()) {
      torch::optim::AdamWParamState& state = state_of(optimizer, parameter);
      state.step(state.step() + 1);
      const auto step = static_cast<double>(state.step());
      states[index_of.at(parameter.unsafeGetTensorImpl())] = {
          {static_cast<float>(numbers.gradient_scale), static_cast<float>(beta1), static_cast<float>(beta2),
           static_cast<float>(1 - options.lr() * options.weight_decay()),
           static_cast<float>(options.lr() / (1 - std::pow(beta1, step))),
           static_cast<float>(std::sqrt(1 - std::pow(beta2, step))), static_cast<float>(options.eps()),
           static_cast<float>(1 - numbers.average_decay)},
          state.exp_avg().data_ptr<float>(),
          state.exp_avg_sq().data_ptr<float>()};
    }
  }
  const std::vector<Range> ranges = ranges_of(gradients);
  run_tasks(ranges.size(), [&](size_t i) {
    const LearnedWeight& weight = weights[ranges[i].weight];
    const State& state = states[ranges[i].weight];
    float* const values = weight.values.data_ptr<float>();
    for_each_block(ranges[i], gradients[ranges[i].weight],
                   [&](int64_t first, const Block& sums, int64_t count) {
                     update_part(state.factors, count, sums.data(), values + first, state.mean + first,
                                 state.square + first, weight.average.data_ptr<float>() + first);
                     if (weight.rounded.defined())
                       narrow(values + first, count, bits_of(weight.rounded) + first);
                   });
  });
}

}  // namespace lacuna::train
