#include "model/model.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/panels.h"
#include "model/random_spec.h"
#include "tiny_models.h"
#include "weights/weight_format.h"

namespace lacuna::model_test {
namespace {

using testing::TestWithParam;
using testing::ValuesIn;

double rms(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * value;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(double{a[i]} - b[i]));
  return largest;
}

std::vector<float> slice(const std::vector<float>& values, int64_t first_row, int64_t rows, int64_t cols) {
  return {values.begin() + first_row * cols, values.begin() + (first_row + rows) * cols};
}

// Parity with the independent reference.

class Golden : public TestWithParam<std::string> {
 protected:
  std::shared_ptr<const Model> load(DType dtype) {
    ThreadPool threads(2);
    return Model::load(golden_folder(GetParam()), dtype, threads);
  }
  StepPlan plan(const Model& model) {
    const nlohmann::json request = read_golden_json(GetParam(), "tokens.json");
    const auto tokens = request.at("tokens").get<std::vector<TokenId>>();
    if (model.config().block_causal) return blocks_plan(tokens, request.at("block_length").get<int32_t>());
    return canvas_plan(tokens, own_rows_of(model.config()));
  }
  std::vector<float> reference(const StepPlan& plan, const Model& model) {
    return golden_logits(GetParam(), plan.num_rows(), model.config().vocab_size);
  }
};

// The reference computes in double. An f32 product of depth K errs by at most K * 2^-24 of its terms; the
// longest here is 45, two layers have about ten on a path, and norms and softmax pass errors on with factors
// near one: 10 * 45 * 2^-24 = 3e-5 of logits of up to 12.
TEST_P(Golden, LogitsEqualTheReferenceWithEveryInstructionSet) {
  const auto model = load(DType::kF32);
  const StepPlan all_rows = plan(*model);
  const std::vector<float> expected = reference(all_rows, *model);
  ASSERT_GT(rms(expected), 1);
  for (const KernelTable& kernels : supported_tables()) {
    Runner runner(model, kernels, 1);
    EXPECT_LT(largest_difference(runner.logits(all_rows), expected), 4e-4) << kernels.name;
  }
}

// Each rounding to bf16 errs by at most 2^-9 of a number, in random directions: weights, what every product
// reads, keys, values and probabilities. That is about 12 per layer and 2 at the head, so 26 in all; their
// sum is near sqrt(26) * 2^-9 = 1% of the logits, and a layer may amplify what it reads a few times.
TEST_P(Golden, LogitsInBf16AreAsCloseAsItsEightBitsAllow) {
  const auto model = load(DType::kBF16);
  const StepPlan all_rows = plan(*model);
  const std::vector<float> expected = reference(all_rows, *model);
  const int64_t vocab = model->config().vocab_size;
  for (const KernelTable& kernels : supported_tables()) {
    Runner runner(model, kernels, 1);
    const std::vector<float> logits = runner.logits(all_rows);
    std::vector<double> errors;  // one per row: another choice of experts may make one large
    for (int64_t row = 0; row < all_rows.num_rows(); ++row) {
      std::vector<float> difference = slice(logits, row, 1, vocab);
      const std::vector<float> exact = slice(expected, row, 1, vocab);
      std::transform(difference.begin(), difference.end(), exact.begin(), difference.begin(), std::minus<>());
      errors.push_back(rms(difference) / rms(exact));
    }
    std::sort(errors.begin(), errors.end());
    const double bound = 3 * std::sqrt(26.0) / 512;
    EXPECT_LT(errors[errors.size() * 3 / 4], bound) << kernels.name;
    EXPECT_GT(errors.front(), 1.0 / 4096) << kernels.name << " does not round at all";
  }
}

// Attention's own memory is not counted, and experts that share the rows need less than one that has all.
TEST_P(Golden, MemoryOfAPassIsAsPredicted) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const KernelTable& kernels : supported_tables()) {
      const auto model = load(dtype);
      const StepPlan all_rows = plan(*model);
      Runner runner(model, kernels, 1);
      const int64_t before = runner.workspace().bytes();
      runner.logits(all_rows);
      const int64_t predicted =
          predicted_workspace_bytes(model->config(), dtype, kernels, all_rows.num_rows());
      EXPECT_EQ(before, 0);
      EXPECT_LE(runner.workspace().bytes(), predicted) << kernels.name;
      EXPECT_GE(runner.workspace().bytes(), model->config().has_experts() ? predicted / 2 : predicted);
    }
  }
}

TEST_P(Golden, BytesOfWeightsHalveInBf16) {
  const auto full = load(DType::kF32);
  const auto half = load(DType::kBF16);
  EXPECT_GE(full->weight_bytes(), count_parameters(full->config()) * 4 * 9 / 10);
  EXPECT_LT(half->weight_bytes(), full->weight_bytes());
}

INSTANTIATE_TEST_SUITE_P(Model, Golden, ValuesIn(golden_families()),
                         [](const auto& family) { return family.param; });
INSTANTIATE_TEST_SUITE_P(BlockDiffusion, Golden, ValuesIn(golden_block_families()),
                         [](const auto& family) { return family.param; });

// The whole forward pass again, one row after the other, in double.

using Row = std::vector<double>;

Row multiply_plainly(const PanelView& weights, const std::vector<float>& bias, const Row& x) {
  const auto* data = static_cast<const float*>(weights.data);
  Row out;
  for (int64_t n = 0; n < weights.outputs; ++n) {
    double sum = bias.empty() ? 0 : bias[static_cast<size_t>(n)];
    const float* panel = data + n / kPanelWidth * weights.panel_stride;
    for (int64_t k = 0; k < weights.inputs; ++k) {
      sum += double{panel[panel_offset<float>(n % kPanelWidth, k)]} * x[static_cast<size_t>(k)];
    }
    out.push_back(sum);
  }
  return out;
}

Row multiply_plainly(const Linear& linear, const Row& x) {
  return multiply_plainly(linear.weight.view(), linear.bias, x);
}

void norm_plainly(const std::vector<float>& weight, float eps, double* x) {
  double squares = 0;
  for (size_t i = 0; i < weight.size(); ++i) squares += x[i] * x[i];
  const double scale = 1 / std::sqrt(squares / static_cast<double>(weight.size()) + eps);
  for (size_t i = 0; i < weight.size(); ++i) x[i] *= scale * weight[i];
}

Row normed_plainly(const std::vector<float>& weight, float eps, Row x) {
  norm_plainly(weight, eps, x.data());
  return x;
}

Row feed_forward_plainly(const FeedForward& ffn, const Row& x) {
  Row gate = multiply_plainly(ffn.gate, x);
  const Row up = multiply_plainly(ffn.up, x);
  for (size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
  return multiply_plainly(ffn.down, gate);
}

void add_to(Row& x, const Row& y, double weight = 1) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += weight * y[i];
}

class PlainModel {
 public:
  PlainModel(const ModelConfig& config, uint64_t seed)
      : config_(config),
        parameters_(random_parameters(config, seed, DType::kF32, threads_, {})),
        rotary_dim_(static_cast<size_t>(config.rotary_dim > 0 ? config.rotary_dim : config.head_dim)),
        frequencies_(rope_frequencies(config.rope, static_cast<int64_t>(rotary_dim_))) {}

  std::vector<float> logits(const std::vector<TokenId>& tokens) {
    std::vector<Row> x;
    for (const TokenId token : tokens) {
      std::vector<float> row(static_cast<size_t>(config_.hidden_dim));
      parameters_.embedding.read_row(token, row.data());
      x.emplace_back(row.begin(), row.end());
      for (double& value : x.back()) value *= config_.embedding_scale;
    }
    for (const LayerParameters& layer : parameters_.layers) {
      attend(layer, x);
      for (Row& row : x) {
        const Row normed = normed_plainly(layer.ffn_norm, config_.norm_eps, row);
        add_to(row, layer.experts.empty() ? feed_forward_plainly(layer.ffn, normed) : experts(layer, normed));
      }
    }
    std::vector<float> result;
    for (const Row& row : x) {
      const Row normed = normed_plainly(parameters_.final_norm, config_.norm_eps, row);
      for (const double logit : multiply_plainly(parameters_.head().view(), {}, normed)) {
        result.push_back(static_cast<float>(logit * config_.logit_scale));
      }
    }
    return result;
  }

 private:
  void finish_heads(const std::vector<float>& norm, size_t position, Row& heads) {
    const auto dim = static_cast<size_t>(config_.head_dim);
    if (config_.qk_norm_full) norm_plainly(norm, config_.norm_eps, heads.data());
    for (size_t head = 0; head < heads.size(); head += dim) {
      if (config_.qk_norm_per_head) norm_plainly(norm, config_.norm_eps, heads.data() + head);
    }
    clip(heads);
    for (size_t head = 0; head < heads.size(); head += dim) {
      for (size_t j = 0; j < rotary_dim_ / 2; ++j) {
        const double angle = static_cast<double>(position) * frequencies_[j];
        double& a = heads[head + j];
        double& b = heads[head + j + rotary_dim_ / 2];
        const double rotated = a * std::cos(angle) - b * std::sin(angle);
        b = b * std::cos(angle) + a * std::sin(angle);
        a = rotated;
      }
    }
  }

  void clip(Row& values) {
    if (!config_.qkv_clip) return;
    for (double& value : values) value = std::clamp<double>(value, -*config_.qkv_clip, *config_.qkv_clip);
  }

  void attend(const LayerParameters& layer, std::vector<Row>& x) {
    std::vector<Row> q, k, v;
    for (size_t i = 0; i < x.size(); ++i) {
      const Row normed = normed_plainly(layer.attn_norm, config_.norm_eps, x[i]);
      q.push_back(multiply_plainly(layer.q, normed));
      k.push_back(multiply_plainly(layer.k, normed));
      v.push_back(multiply_plainly(layer.v, normed));
      finish_heads(layer.q_norm, i, q.back());
      finish_heads(layer.k_norm, i, k.back());
      clip(v.back());
    }
    const auto dim = static_cast<size_t>(config_.head_dim);
    const auto group = static_cast<size_t>(config_.num_heads / config_.num_kv_heads);
    for (size_t i = 0; i < x.size(); ++i) {
      Row attended(q[i].size());
      const size_t seen = config_.causal ? i + 1 : x.size();
      for (size_t head = 0; head * dim < attended.size(); ++head) {
        const size_t kv = head / group * dim;
        Row weights;
        double sum = 0;
        for (size_t j = 0; j < seen; ++j) {
          double score = 0;
          for (size_t d = 0; d < dim; ++d) score += q[i][head * dim + d] * k[j][kv + d];
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(dim))));
          sum += weights.back();
        }
        for (size_t j = 0; j < seen; ++j) {
          for (size_t d = 0; d < dim; ++d) attended[head * dim + d] += weights[j] / sum * v[j][kv + d];
        }
      }
      add_to(x[i], multiply_plainly(layer.o, attended));
    }
  }

  static std::vector<size_t> best_first(const Row& values) {
    std::vector<size_t> order(values.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] > values[b]; });
    return order;
  }

  /// Scores of experts outside the best groups become too low to be chosen.
  void close_groups(Row& ranks) const {
    const auto num_groups = static_cast<size_t>(config_.moe.num_groups);
    const auto size = static_cast<std::ptrdiff_t>(ranks.size() / num_groups);
    Row sums;
    for (size_t group = 0; num_groups > 1 && group < num_groups; ++group) {
      const auto begin = ranks.begin() + static_cast<std::ptrdiff_t>(group) * size;
      Row sorted(begin, begin + size);
      std::sort(sorted.rbegin(), sorted.rend());
      sums.push_back(sorted[0] + sorted[1]);
    }
    const std::vector<size_t> order = best_first(sums);
    for (auto i = static_cast<size_t>(config_.moe.groups_per_token); i < order.size(); ++i) {
      std::fill_n(ranks.begin() + static_cast<std::ptrdiff_t>(order[i]) * size, size, -1e9);
    }
  }

  Row experts(const LayerParameters& layer, const Row& x) {
    const MoeConfig& moe = config_.moe;
    Row scores = multiply_plainly(layer.router, x);
    for (double& score : scores) score = moe.sigmoid_scores ? 1 / (1 + std::exp(-score)) : std::exp(score);
    double sum = moe.sigmoid_scores ? 1 : std::accumulate(scores.begin(), scores.end(), 0.0);
    Row ranks = scores;
    for (size_t i = 0; i < layer.expert_bias.size(); ++i) ranks[i] += layer.expert_bias[i];
    close_groups(ranks);
    std::vector<size_t> order = best_first(ranks);
    order.resize(static_cast<size_t>(moe.experts_per_token));
    if (moe.normalize_weights) {
      sum = 0;
      for (const size_t expert : order) sum += scores[expert];
    }
    Row result(x.size());
    for (const size_t expert : order) {
      add_to(result, feed_forward_plainly(layer.experts[expert], x), moe.routed_scale * scores[expert] / sum);
    }
    if (moe.shared_ffn_dim > 0) add_to(result, feed_forward_plainly(layer.shared_expert, x));
    return result;
  }

  ModelConfig config_;
  ThreadPool threads_{1};
  Parameters parameters_;
  size_t rotary_dim_;
  std::vector<float> frequencies_;
};

// Properties that must hold for every kind of model.

class TinyModel : public TestWithParam<size_t> {
 protected:
  const ModelConfig config_ = tiny_configs()[GetParam()];
  const int64_t vocab_ = config_.vocab_size;
  const std::vector<TokenId> tokens_ = random_tokens(1, 41, vocab_);
  const StepPlan plan_ = canvas_plan(tokens_, own_rows_of(config_));
};

TEST_P(TinyModel, LogitsEqualAPlainEvaluation) {
  const std::vector<float> expected = PlainModel(config_, 5).logits(tokens_);
  ASSERT_GT(rms(expected), 0.5);
  for (const KernelTable& kernels : supported_tables()) {
    Runner runner(tiny_model(config_), kernels, 1);
    EXPECT_LT(largest_difference(runner.logits(plan_), expected), 4e-4) << kernels.name;
  }
}

TEST_P(TinyModel, LogitsHaveTheSameBitsWhateverTheThreads) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const auto model = tiny_model(config_, dtype);
    const std::vector<float> one = Runner(model, default_table(), 1).logits(plan_);
    EXPECT_EQ(Runner(model, default_table(), 2).logits(plan_), one);
    EXPECT_EQ(Runner(model, default_table(), 3).logits(plan_), one);
  }
}

TEST_P(TinyModel, ASequenceHasTheSameBitsAloneAndInABatch) {
  for (const KernelTable& kernels : supported_tables()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const auto model = tiny_model(config_, dtype);
      StepPlan batch = canvas_plan(random_tokens(2, 17, vocab_), own_rows_of(config_));
      batch.append(plan_, 1);
      batch.append(canvas_plan(random_tokens(3, 33, vocab_), own_rows_of(config_)), 2);
      const std::vector<float> together = Runner(model, kernels, 2, 64, 3).logits(batch);
      const auto rows = static_cast<int64_t>(tokens_.size());
      EXPECT_EQ(slice(together, 17, rows, vocab_), Runner(model, kernels, 1, 64).logits(plan_))
          << kernels.name << " " << name_of(dtype);
    }
  }
}

TEST_P(TinyModel, MixesRowsWithTheMask) {
  if (config_.mask_id < 0) return;
  const auto model = tiny_model(config_);
  const auto logits_of = [&](const StepPlan& plan, int threads) {
    return Runner(model, default_table(), threads, 64, 2).logits(plan);
  };
  const auto with_all = [&](float weight) {
    StepPlan plan = plan_;
    for (int32_t row = 0; row < plan.num_rows(); ++row) plan.mixed.push_back({row, weight});
    return plan;
  };
  const std::vector<float> tokens = logits_of(plan_, 1);
  const std::vector<TokenId> all_masks(tokens_.size(), static_cast<TokenId>(config_.mask_id));
  const std::vector<float> masks = logits_of(canvas_plan(all_masks, own_rows_of(config_)), 1);
  EXPECT_LT(largest_difference(logits_of(with_all(1), 1), tokens), 1e-3);
  EXPECT_LT(largest_difference(logits_of(with_all(0), 1), masks), 1e-3);
  const std::vector<float> mixed = logits_of(with_all(0.5F), 1);
  EXPECT_GT(largest_difference(mixed, tokens), 0.1);
  EXPECT_GT(largest_difference(mixed, masks), 0.1);
  EXPECT_EQ(logits_of(with_all(0.5F), 3), mixed) << "whatever the threads";
  StepPlan batch = canvas_plan(random_tokens(2, 17, vocab_), own_rows_of(config_));
  batch.append(with_all(0.5F), 1);
  EXPECT_EQ(slice(logits_of(batch, 1), 17, plan_.num_rows(), vocab_), mixed) << "alone and in a batch";
}

TEST_P(TinyModel, AWorkspaceMayServeLargeAndSmallPlansInTurn) {
  const auto model = tiny_model(config_);
  const StepPlan small = canvas_plan({3, 1, 2}, own_rows_of(config_));
  const std::vector<float> expected = Runner(model, default_table(), 1).logits(small);
  Runner runner(model, default_table(), 1);
  runner.logits(plan_);
  EXPECT_EQ(runner.logits(small), expected);
}

TEST_P(TinyModel, DrawsAreThoseOfTheLogits) {
  Runner runner(tiny_model(config_), default_table(), 2);
  StepPlan plan = plan_;
  plan.rules[0].temperature = 0.7F;
  plan.rules.emplace_back();  // a second rule: greedy
  for (size_t i = 0; i < plan.logits.size(); ++i) {
    plan.logits[i].rule = static_cast<int32_t>(i % 2);
    plan.logits[i].noise = RngStream(9, i);
  }
  std::vector<float> logits = runner.logits(plan);
  const std::vector<RowStatistics> drawn = runner.draws(plan);
  for (size_t i = 0; i < plan.logits.size(); ++i) {
    const std::span<float> row(logits.data() + i * static_cast<size_t>(vocab_), static_cast<size_t>(vocab_));
    EXPECT_EQ(drawn[i], draw(default_table(), plan.rules[i % 2], plan.logits[i].noise, row)) << i;
  }
}

TEST_P(TinyModel, OnlyRowsThatAskGetLogits) {
  Runner runner(tiny_model(config_), default_table(), 1);
  const std::vector<float> all = runner.logits(plan_);
  StepPlan some = plan_;
  some.logits = {plan_.logits[4], plan_.logits[9], plan_.logits[9]};
  const std::vector<float> logits = runner.logits(some);
  EXPECT_EQ(slice(logits, 0, 1, vocab_), slice(all, 4, 1, vocab_));
  EXPECT_EQ(slice(logits, 1, 1, vocab_), slice(all, 9, 1, vocab_));
  EXPECT_EQ(slice(logits, 2, 1, vocab_), slice(all, 9, 1, vocab_));
}

TEST_P(TinyModel, ChunksOfTheHeadJoinWithoutASeam) {
  Runner runner(tiny_model(config_), default_table(), 2);
  const std::vector<float> once = runner.logits(plan_);
  StepPlan many = plan_;  // 8 * 41 rows of logits: more than the 256 that the head takes at a time
  for (int copy = 1; copy < 8; ++copy) {
    many.logits.insert(many.logits.end(), plan_.logits.begin(), plan_.logits.end());
  }
  ASSERT_GT(many.logits.size(), 256U);
  const std::vector<float> logits = runner.logits(many);
  for (int64_t copy = 0; copy < 8; ++copy) {
    EXPECT_EQ(slice(logits, copy * plan_.num_rows(), plan_.num_rows(), vocab_), once) << copy;
  }
}

TEST_P(TinyModel, GuidanceCombinesTwoRows) {
  Runner runner(tiny_model(config_), default_table(), 2, 64, 2);
  StepPlan both = plan_;
  both.append(canvas_plan(random_tokens(4, 41, vocab_), own_rows_of(config_)), 1);
  const std::vector<float> raw = runner.logits(both);
  StepPlan guided = both;
  guided.logits.clear();
  for (int copy = 0; copy < 8; ++copy) {  // over several chunks, with unguided rows in between
    for (int32_t row = 0; row < 41; ++row) {
      LogitRow logit = plan_.logits[static_cast<size_t>(row)];
      if (row % 3 != 0) {
        logit.unconditional_row = 41 + (row * 7 + copy) % 41;
        logit.guidance = 0.5F + static_cast<float>(copy);
      }
      guided.logits.push_back(logit);
    }
  }
  const std::vector<float> logits = runner.logits(guided);
  for (size_t i = 0; i < guided.logits.size(); ++i) {
    const LogitRow& logit = guided.logits[i];
    std::vector<float> expected = slice(raw, logit.row, 1, vocab_);
    if (logit.unconditional_row >= 0) {
      const std::vector<float> u = slice(raw, logit.unconditional_row, 1, vocab_);
      for (size_t n = 0; n < u.size(); ++n) {
        expected[n] = u[n] + (logit.guidance + 1) * (expected[n] - u[n]);
      }
    }
    EXPECT_LT(largest_difference(slice(logits, static_cast<int64_t>(i), 1, vocab_), expected), 1e-4) << i;
  }
}

TEST_P(TinyModel, KeptKeysAndValuesGiveTheBitsOfNoCache) {
  StepPlan causal = canvas_plan(tokens_, OwnRows::kCausal);
  for (const KernelTable& kernels : supported_tables()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const auto model = tiny_model(config_, dtype);
      const std::vector<float> at_once = Runner(model, kernels, 1).logits(causal);
      for (const int32_t chunk : {1, 5, 32, 40}) {
        Runner runner(model, kernels, 2);
        std::vector<float> in_chunks;
        for (int32_t begin = 0; begin < causal.num_rows(); begin += chunk) {
          const int32_t end = std::min(begin + chunk, causal.num_rows());
          StepPlan part = canvas_plan({tokens_.begin() + begin, tokens_.begin() + end}, OwnRows::kCausal);
          for (int32_t row = 0; row < end - begin; ++row) {
            part.positions[static_cast<size_t>(row)] = part.cells[static_cast<size_t>(row)] = begin + row;
          }
          if (begin > 0) part.groups[0].visible = {{0, begin}};
          const std::vector<float> logits = runner.logits(part);
          in_chunks.insert(in_chunks.end(), logits.begin(), logits.end());
        }
        EXPECT_EQ(in_chunks, at_once) << kernels.name << " " << name_of(dtype) << " chunk " << chunk;
      }
    }
  }
}

TEST_P(TinyModel, FreshRowsOverOldOnesGiveTheBitsOfAWholePass) {
  // One whole pass, then only rows 10 to 19 with new tokens over the other rows' old keys and values: the
  // first layer's are still right, so a model of one layer cannot tell the difference.
  ModelConfig config = config_;
  config.num_layers = 1;
  const auto model = tiny_model(config);
  StepPlan changed = canvas_plan(tokens_, OwnRows::kBidirectional);
  for (size_t row = 10; row < 20; ++row) changed.tokens[row] = (changed.tokens[row] + 1) % 50;
  const std::vector<float> whole = Runner(model, default_table(), 1).logits(changed);

  Runner runner(model, default_table(), 1);
  runner.logits(canvas_plan(tokens_, OwnRows::kBidirectional));
  StepPlan block;
  block.rules.emplace_back();
  for (int32_t position = 10; position < 20; ++position) {
    block.add_row(changed.tokens[static_cast<size_t>(position)], position, position);
    LogitRow logit;
    logit.row = position - 10;
    block.logits.push_back(logit);
  }
  block.groups.push_back({0, {0, 10}, {{0, 10}, {20, 41}}, OwnRows::kBidirectional});
  EXPECT_EQ(runner.logits(block), slice(whole, 10, 10, vocab_));
}

TEST_P(TinyModel, PositionsAreNotCells) {
  const auto model = tiny_model(config_);
  const std::vector<float> expected = Runner(model, default_table(), 1).logits(plan_);
  StepPlan shuffled = plan_;
  for (int32_t& cell : shuffled.cells) cell = (cell * 29 + 5) % 101;
  const std::vector<float> elsewhere = Runner(model, default_table(), 1).logits(shuffled);
  // Another order of the same sums.
  EXPECT_LT(largest_difference(elsewhere, expected), 4e-4);

  // Positions do matter: the same tokens, read backwards.
  StepPlan reversed = plan_;
  std::reverse(reversed.positions.begin(), reversed.positions.end());
  EXPECT_GT(largest_difference(Runner(model, default_table(), 1).logits(reversed), expected), 0.05);
}

TEST_P(TinyModel, ComesCloseWithCellsInCodesWhateverTheThreads) {
  const auto is_int8 = [&](int threads) {
    ThreadPool pool(1);
    WeightFormats formats(DType::kF32);
    formats.kv_int8 = true;
    const auto model = Model::random(config_, 5, formats, pool);
    return Runner(model, default_table(), threads).logits(plan_);
  };
  const std::vector<float> logits = is_int8(1);
  EXPECT_EQ(is_int8(3), logits);
  const std::vector<float> plain = Runner(tiny_model(config_), default_table(), 1).logits(plan_);
  double sum = 0;  // sum over all logits: a router that chooses another expert may move single ones far
  for (size_t i = 0; i < plain.size(); ++i) sum += std::abs(logits[i] - plain[i]);
  EXPECT_GT(sum, 0);
  EXPECT_LT(sum / static_cast<double>(plain.size()), 0.05);
}

TEST_P(TinyModel, ComesCloseWithRowsOfBytesWhateverTheThreads) {
  const auto logits = [&](bool int8_activations, int threads) {
    ThreadPool pool(1);
    WeightFormats formats(DType::kBF16);
    formats.layers = formats.embedding = weight_format("int4");
    formats.int8_activations = int8_activations;
    const auto model = Model::random(config_, 5, formats, pool);
    return Runner(model, default_table(), threads).logits(plan_);
  };
  const std::vector<float> of_bytes = logits(true, 1);
  EXPECT_EQ(logits(true, 3), of_bytes);
  const std::vector<float> plain = logits(false, 1);
  double sum = 0;  // as above
  for (size_t i = 0; i < plain.size(); ++i) sum += std::abs(of_bytes[i] - plain[i]);
  if (default_table().int8_activations) {
    EXPECT_GT(sum, 0);
  } else {
    EXPECT_EQ(sum, 0);
  }
  EXPECT_LT(sum / static_cast<double>(plain.size()), 0.05);
}

INSTANTIATE_TEST_SUITE_P(Model, TinyModel, testing::Range(size_t{0}, tiny_configs().size()));

TEST(ModelMemory, ALargeVocabularyIsCutIntoSmallerChunks) {
  ModelConfig config = tiny_configs()[0];
  config.num_layers = 1;
  config.hidden_dim = 4;
  config.num_heads = config.num_kv_heads = 1;
  config.head_dim = 4;
  config.ffn_dim = 3;
  config.vocab_size = 200'003;  // 2^25 / 200,003 = 167 rows
  Runner runner(tiny_model(config), default_table(), 2, 192);
  StepPlan plan = canvas_plan(random_tokens(1, 180, config.vocab_size), OwnRows::kBidirectional);
  const std::vector<RowStatistics> drawn = runner.draws(plan);
  plan.logits = {plan.logits[0], plan.logits[166], plan.logits[167], plan.logits[179]};
  const std::vector<RowStatistics> alone = runner.draws(plan);
  EXPECT_THAT(alone, testing::ElementsAre(drawn[0], drawn[166], drawn[167], drawn[179]));
}

}  // namespace
}  // namespace lacuna::model_test
