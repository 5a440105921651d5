// One request being decoded.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/token.h"
#include "model/cost.h"
#include "model/plan.h"
#include "model/sampling.h"

namespace lacuna {

/// A position got its token.
struct Commit {
  int32_t position = 0;
  TokenId token = 0;
  double confidence = 0;

  bool operator==(const Commit&) const = default;
};

/// What one forward pass did for one request.
struct StepReport {
  int32_t step = 0;               ///< 0-based; counts the decoder's steps, those that needed no pass included
  int32_t block = 0;              ///< 0-based
  std::string_view kind;          ///< "denoise", "prefill", "decode"
  std::vector<Commit> committed;  ///< ascending positions
};

enum class StopReason : uint8_t {
  kLength,    ///< every position is done
  kEndToken,  ///< the answer holds a token that ends it
};

/// A state machine: plan(), a forward pass, apply(), until done(). A plan numbers the request's own sequences
/// from 0 and its rows from 0; whoever runs several requests appends their plans.
class Decoder {
 public:
  virtual ~Decoder() = default;

  /// K/V stores the request needs (2 with classifier-free guidance), each of num_cells() cells.
  virtual int32_t num_sequences() const = 0;
  virtual int32_t num_cells() const = 0;

  virtual bool done() const = 0;
  /// What to compute next. Only while not done(). The same until apply().
  virtual const StepPlan& plan() = 0;
  /// Takes plan().logits.size() draws, in their order.
  virtual StepReport apply(std::span<const RowStatistics> drawn) = 0;

  /// What the pass that plan() describes would cost without any cache.
  virtual StepCost baseline_cost(const ModelConfig& config) = 0;

  /// Prompt, then the positions to generate (for an autoregressive model: those generated so far).
  virtual std::span<const TokenId> canvas() const = 0;
  virtual int32_t prompt_length() const = 0;
  /// Meaningful once done().
  virtual StopReason stop_reason() const = 0;
};

}  // namespace lacuna
