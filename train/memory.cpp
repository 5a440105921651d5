#include "train/memory.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "base/error.h"

namespace lacuna::train {
namespace {

constexpr double kFloat = 4;
constexpr double kUnlimited = std::numeric_limits<double>::infinity();

double first_number(const char* path, const std::string& key) {
  std::ifstream file(path);
  double value = 0;
  for (std::string word; file >> word;) {
    if (word == key && file >> value) return value;
  }
  return kUnlimited;
}

double only_number(const char* path) {
  std::ifstream file(path);
  double value = 0;
  return file >> value ? value : kUnlimited;  // "max" means no limit
}

}  // namespace

double estimated_bytes(const ModelShape& shape, const TrainingMemory& kept, const Examples& examples) {
  constexpr double kCopies = 2;         // weights, and a copy for evaluation
  constexpr double kLearnedCopies = 3;  // the average, two moments
  const double weights =
      kFloat * (kCopies * static_cast<double>(kept.parameters) + static_cast<double>(kept.teacher) +
                (kLearnedCopies + kept.threads) * static_cast<double>(kept.learned));

  // Values per row: activations that autograd keeps in every layer, and the logits.
  constexpr double kWidths = 14, kFfnWidths = 5, kLogits = 2;
  const auto layers = static_cast<double>(shape.layers);
  const bool has_both = shape.traits().has_canvases();  // dense parts next to the experts
  const int64_t shared = has_both ? shape.ffn_width : shape.experts.ffn_width;
  const int64_t of_experts =
      shape.traits().experts ? shape.experts.count * shape.experts.ffn_width + shared : 0;
  const auto inner_width = static_cast<double>(std::max(shape.ffn_width, of_experts));
  const auto rows = static_cast<double>(examples.inputs.numel());
  const auto length = static_cast<double>(examples.inputs.size(1));
  const auto heads = static_cast<double>(shape.heads);
  const double in_layer = kWidths * static_cast<double>(shape.width) + kFfnWidths * inner_width + heads;
  const double logits =
      kLogits * static_cast<double>(examples.rows.size(0)) * static_cast<double>(shape.vocabulary);
  const double in_layers =
      kept.keeps_activations ? layers * in_layer : layers * static_cast<double>(shape.width) + in_layer;
  constexpr double kScores = 4;  // copies of the scores of a tile
  const double scores = kScores * heads * Visibility::kQueries * length * static_cast<double>(kept.threads);
  const double mask = rows * length / kFloat;  // a byte for each row and position
  return weights + kFloat * (rows * in_layers + logits + scores + mask);
}

double available_bytes() {
  constexpr double kKib = 1024;
  const double machine = kKib * first_number("/proc/meminfo", "MemAvailable:");
  // Memory limit of a container (cgroup v2).
  const double limit = only_number("/sys/fs/cgroup/memory.max");
  const double used = only_number("/sys/fs/cgroup/memory.current");
  return limit == kUnlimited ? machine : std::min(machine, std::max(0.0, limit - used));
}

void expect_to_fit(double needed, double available) {
  if (needed <= available) return;
  constexpr double kGib = 1 << 30;
  throw InputError(
      "a step needs about {:.1f} GiB and {:.1f} GiB are free; give fewer --batch-rows (with more of "
      "--accumulate), --checkpoint-activations, shorter --lengths, --canvas or --row-length, or a smaller "
      "model",
      needed / kGib, available / kGib);
}

void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kNever = std::numeric_limits<int>::max();
  constexpr int kGrowth = 1 << 26;  // bytes by which the heap grows, at least
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, kNever);
  mallopt(M_TOP_PAD, kGrowth);
#endif
}

}  // namespace lacuna::train
