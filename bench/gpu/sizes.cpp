#include <utility>

#include "bench/gpu/gpu_check.h"

namespace lacuna::cuda {

CheckSizes full_sizes() {
  using Use = WeightShape::Use;
  CheckSizes sizes;
  sizes.copy_bytes = int64_t{2} << 30;
  sizes.square = 8192;
  sizes.rotate_bytes = int64_t{320} << 20;  // an H200's last-level cache holds 60 MB
  sizes.timed_calls = 24;
  sizes.repeat = 11;
  sizes.weights = {{"llada-8b qkv", 3 * 4096, 4096, Use::kStore},
                   {"sdar-8b qkv", 6144, 4096, Use::kStore},
                   {"8b attention output", 4096, 4096, Use::kAdd},
                   {"8b gate and up", 2 * 12288, 4096, Use::kSwiglu},
                   {"8b down", 4096, 12288, Use::kAdd},
                   {"llada-8b head", 126464, 4096, Use::kStore}};
  sizes.rows = {1, 8, 16, 32, 64, 128, 256, 1024};
  sizes.attention = {{"llada-8b", 32, 32, 128}, {"sdar-8b", 32, 8, 128}};
  sizes.attention_rows = {4, 32, 128};
  sizes.cells = {1024, 4096, 8192, 32768};
  sizes.vocabulary = 126464;
  sizes.statistics_rows = 32;
  sizes.plans = 200;
  sizes.plan_rows = 128;
  sizes.plan_k_dim = 4096 + 256;  // more than one K slice
  sizes.plan_cells = 3000;
  sizes.chains = 64;
  return sizes;
}

CheckSizes tiny_sizes() {
  CheckSizes sizes = full_sizes();
  sizes.copy_bytes = 1 << 16;
  sizes.rotate_bytes = 1 << 14;
  sizes.timed_calls = 2;
  sizes.repeat = 2;
  for (WeightShape& shape : sizes.weights) {
    shape.outputs = 64;
    shape.inputs = 64;
  }
  sizes.rows = {1, 129};
  sizes.attention = {{"tiny", 2, 1, 32}};
  sizes.attention_rows = {2};
  sizes.cells = {64};
  sizes.vocabulary = 300;
  sizes.statistics_rows = 2;
  sizes.plans = 2;
  sizes.plan_rows = 20;
  sizes.plan_k_dim = 128;
  sizes.plan_cells = 600;
  sizes.chains = 2;
  return sizes;
}

CheckReport::CheckReport(Line common, std::function<void(const Line&)> emit)
    : common_(std::move(common)), emit_(std::move(emit)) {}

CheckReport::Line CheckReport::share_of_copy(double bytes_per_second) const {
  if (copy_bytes_per_second == 0) return nullptr;
  return bytes_per_second / copy_bytes_per_second;
}

void CheckReport::add(const std::string& what, const Line& more) {
  Line line = common_;
  line["what"] = what;
  line.update(more);
  emit_(line);
}

}  // namespace lacuna::cuda
