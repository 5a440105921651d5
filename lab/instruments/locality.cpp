#include "instruments/locality.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/buffer.h"
#include "base/error.h"
#include "base/rng.h"
#include "engine/logits.h"

namespace lacuna {
namespace {

constexpr uint64_t kRevealNoise = 33;  // noise stream of the masks
constexpr int32_t kNear = 2;
constexpr int32_t kFar = 8;

/// ln of the sum of exp(logits).
double log_total(std::span<const float> logits) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit} - top);
  return top + std::log(sum);
}

/// A prompt with the answer that a decoder wrote for it.
struct WrittenText {
  std::vector<TokenId> tokens;
  IndexRange answer;  ///< up to and including its first end token
};

WrittenText text_of(const ModelConfig& config, const Decoder& decoder) {
  WrittenText text{{decoder.canvas().begin(), decoder.canvas().end()}, {}};
  const auto first = text.tokens.begin() + decoder.prompt_length();
  const auto end = std::find_if(first, text.tokens.end(), [&](TokenId token) {
    return std::binary_search(config.end_ids.begin(), config.end_ids.end(), token);
  });
  const auto length = static_cast<int32_t>(end - text.tokens.begin()) + (end == text.tokens.end() ? 0 : 1);
  text.answer = {decoder.prompt_length(), length};
  return text;
}

/// The positions of a range in random order.
std::vector<int32_t> shuffled(IndexRange range, const RngStream& noise) {
  std::vector<int32_t> order(static_cast<size_t>(range.size()));
  std::iota(order.begin(), order.end(), range.begin);
  for (size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[noise.below(left, static_cast<uint32_t>(left))]);
  }
  return order;
}

class LocalityTrial {
 public:
  explicit LocalityTrial(const BackendModel& model) : model_(model), config_(model.config()) {}

  /// Masks a share of the answer and reveals the first position of the shuffled ones.
  void reveal(const WrittenText& text, double ratio, const RngStream& noise) {
    const std::vector<int32_t> order = shuffled(text.answer, noise);
    const auto wanted = static_cast<size_t>(std::lround(ratio * static_cast<double>(order.size())));
    const std::span masked(order.data(), std::clamp(wanted, size_t{2}, order.size()));
    std::vector<TokenId> tokens = text.tokens;
    for (const int32_t position : masked) tokens[static_cast<size_t>(position)] = config_.mask_id;
    compute(tokens, before_);
    const int32_t revealed = masked.front();
    tokens[static_cast<size_t>(revealed)] = text.tokens[static_cast<size_t>(revealed)];
    compute(tokens, after_);
    for (const int32_t position : masked.subspan(1)) {
      const int32_t row = position - (config_.shifted_logits ? 1 : 0);
      findings_.divergence[{ratio, position - revealed}].add(
          jensen_shannon(row_of(before_, row), row_of(after_, row)));
    }
  }

  const LocalityFindings& findings() const { return findings_; }

 private:
  void compute(std::span<const TokenId> tokens, Buffer<float>& memory) const {
    const auto rows = std::ssize(tokens);
    memory.reserve(rows * config_.vocab_size);
    compute_logits(model_, logits_plan(config_, tokens),
                   Matrix<float>(memory.data(), rows, config_.vocab_size));
  }
  std::span<const float> row_of(const Buffer<float>& memory, int32_t row) const {
    return {memory.data() + row * config_.vocab_size, static_cast<size_t>(config_.vocab_size)};
  }

  const BackendModel& model_;
  const ModelConfig& config_;
  Buffer<float> before_, after_;
  LocalityFindings findings_;
};

}  // namespace

double jensen_shannon(std::span<const float> a, std::span<const float> b) {
  const double total_a = log_total(a);
  const double total_b = log_total(b);
  double sum = 0;
  for (size_t token = 0; token < a.size(); ++token) {
    const double p = std::exp(double{a[token]} - total_a);
    const double q = std::exp(double{b[token]} - total_b);
    const double middle = (p + q) / 2;
    if (p > 0) sum += p * std::log(p / middle) / 2;
    if (q > 0) sum += q * std::log(q / middle) / 2;
  }
  return std::clamp(sum, 0.0, std::log(2.0));
}

LocalityFindings analyze_locality(const BackendModel& model, Requests requests, uint64_t seed,
                                  const AnalysisProgress& progress) {
  if (!model.config().fills_canvas() || model.config().mask_id < 0) {
    throw InputError("analyze locality needs a model that fills masks anywhere (LLaDA, Dream)");
  }
  LocalityTrial trial(model);
  Instrument nothing;
  int32_t done = 0;
  for (const std::unique_ptr<Decoder>& decoder : requests) {
    follow(model, *decoder, nothing);
    const WrittenText text = text_of(model.config(), *decoder);
    for (const double ratio : kMaskRatios) {
      for (int32_t reveal = 0; reveal < kReveals && text.answer.size() > 1; ++reveal) {
        trial.reveal(text, ratio, RngStream(seed, kRevealNoise, done, std::lround(100 * ratio), reveal));
      }
    }
    ++done;
    if (progress) progress(done);
  }
  return trial.findings();
}

nlohmann::ordered_json to_json(const LocalityFindings& findings) {
  struct Reach {
    Average near, far;
  };
  std::map<double, Reach> reaches;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const auto& [place, divergence] : findings.divergence) {
    rows.push_back({{"masked", place.masked},
                    {"distance", place.distance},
                    {"divergence", divergence.mean()},
                    {"count", divergence.count}});
    Reach& reach = reaches[place.masked];
    for (auto [average, is_in] : {std::pair{&reach.near, std::abs(place.distance) <= kNear},
                                  std::pair{&reach.far, std::abs(place.distance) >= kFar}}) {
      if (!is_in) continue;
      average->sum += divergence.sum;
      average->count += divergence.count;
    }
  }
  for (const auto& [masked, reach] : reaches) {
    rows.push_back({{"masked", masked},
                    {"near", reach.near.mean()},
                    {"far", reach.far.mean()},
                    {"far_over_near", reach.near.mean() > 0 ? reach.far.mean() / reach.near.mean() : 0}});
  }
  return rows;
}

}  // namespace lacuna
