#include "backend/cuda/head.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/cuda/kernels/rows.h"
#include "backend/cuda/soft_embeddings.h"

namespace lacuna::cuda {

DrawRule draw_rule(const SamplingRule& rule, float logit_scale, std::vector<int32_t>& tokens) {
  const auto add = [&](std::vector<TokenId> list, int32_t& first, int32_t& count) {
    std::ranges::sort(list);
    const auto repeated = std::ranges::unique(list);
    first = static_cast<int32_t>(tokens.size());
    tokens.insert(tokens.end(), list.begin(), repeated.begin());
    count = static_cast<int32_t>(tokens.size()) - first;
  };
  const bool is_divided = rule.temperature > 0;
  const bool divides = is_divided && rule.source != ConfidenceSource::kRawLogits;
  const bool filters = rule.filters();
  DrawRule made;
  // Without filters, tokens are sampled from the distribution that measures confidence.
  const float temperature = is_divided && (divides || filters) ? 1 : rule.temperature;
  made.temperature = rule.draws ? temperature : 0;
  made.logit_scale = logit_scale;
  made.divisor = divides ? rule.temperature : 1;
  add(rule.forbidden, made.first_forbidden, made.num_forbidden);
  add(rule.undrawn, made.first_undrawn, made.num_undrawn);
  made.filters = filters;
  made.measures_filtered = filters && rule.source == ConfidenceSource::kSampled;
  made.filter_divisor = is_divided ? rule.temperature : 1;
  made.top_p = rule.top_p;
  made.min_p = rule.min_p;
  made.top_k = rule.top_k;
  return made;
}

bool is_drawn_on_device(const StepPlan& plan, const LogitRow& logit) {
  const SamplingRule& rule = plan.rules[static_cast<size_t>(logit.rule)];
  const bool asks_for_more = !rule.listed.empty() || logit.num_likeliest > 0;
  const bool keeps_filtered = rule.filters() && logit.soft_embedding_slack >= 0;
  return logit.unconditional_row < 0 && rule.adjusted.empty() && rule.unsure.empty() && !asks_for_more &&
         !keeps_filtered;
}

RowStatistics to_row_statistics(const SamplingRule& rule, const DrawStatistics& drawn) {
  RowStatistics row;
  row.token = drawn.token;
  row.best_token = drawn.best_token;
  row.best_logit = drawn.best_logit;
  if (rule.finds_second) row.second_token = drawn.second_token;
  row.scored_rank = drawn.scored_rank;
  row.scored_logit = drawn.scored_logit;
  row.scored_probability = drawn.scored_probability;
  row.is_finite = drawn.is_finite != 0;
  const double below = double{drawn.second_logit} - drawn.likeliest_logit;
  const double margin = std::exp(-drawn.log_sum) * (1 - std::exp(below));
  switch (rule.measure) {
    case ConfidenceMeasure::kProbability:
      row.confidence = drawn.probability;
      break;
    case ConfidenceMeasure::kMargin:
      row.confidence = margin;
      break;
    case ConfidenceMeasure::kNegativeEntropy:
      row.confidence = drawn.negative_entropy;
      break;
  }
  if (std::isnan(row.confidence)) row.confidence = std::numeric_limits<double>::lowest();
  if (rule.measures_all) {
    row.entropy = -drawn.negative_entropy;
    row.margin = margin;
  }
  return row;
}

void DeviceHead::stage_draws(const StepPlan& plan, std::span<const LogitRow> wanted,
                             std::span<float* const> soft_embeddings, Staging& staging) {
  const int64_t chunk = head_chunk_rows(model_.config.vocab_size);
  std::vector<DrawRule> rules;
  std::vector<int32_t> tokens;
  for (const SamplingRule& rule : plan.rules)
    rules.push_back(draw_rule(rule, model_.config.logit_scale, tokens));
  filters_ = std::ranges::any_of(
      wanted, [&](const LogitRow& logit) { return rules[static_cast<size_t>(logit.rule)].filters; });
  std::vector<DrawRequest> requests;
  std::vector<SoftRequest> soft_requests;
  soft_counts_.assign((wanted.size() + static_cast<size_t>(chunk) - 1) / static_cast<size_t>(chunk), 0);
  std::vector<int32_t> rows;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (soft_embeddings[i] != nullptr) {
      soft_requests.push_back({.to = soft_embeddings[i],
                               .row = static_cast<int32_t>(static_cast<int64_t>(i) % chunk),
                               .slack = wanted[i].soft_embedding_slack});
      ++soft_counts_[i / static_cast<size_t>(chunk)];
    }
    rows.push_back(wanted[i].row);
    requests.push_back({.noise_key = wanted[i].noise.key(),
                        .row = static_cast<int32_t>(static_cast<int64_t>(i) % chunk),
                        .rule = wanted[i].rule,
                        .scored_token = wanted[i].scored});
  }
  num_draws_ = wanted.size();
  rows_ = staging.add(rows);
  tokens_ = staging.add(tokens);
  requests_ = staging.add(requests);
  rules_ = staging.add(rules);
  soft_requests_ = staging.add(soft_requests);
}

void DeviceHead::draw_all(const Staging& staging, DrawStatistics* out) {
  const auto chunk = static_cast<size_t>(head_chunk_rows(model_.config.vocab_size));
  const auto most_rows = static_cast<int64_t>(std::min(chunk, num_draws_));
  const int64_t vocab = model_.config.vocab_size;
  reserve(most_rows);
  grow(model_.stream(), model_.scratch.draw_parts,
       most_rows * num_slices(vocab) * static_cast<int64_t>(sizeof(DrawPart)));
  const SoftRequest* soft_requests = staging.at(soft_requests_);
  for (size_t first = 0; first < num_draws_; first += chunk) {
    const size_t count = std::min(chunk, num_draws_ - first);
    logits_of_rows(staging.at(rows_) + first, static_cast<int64_t>(count));
    const DrawArguments arguments{.logits = model_.scratch.logits.as<float>(),
                                  .requests = staging.at(requests_) + first,
                                  .rules = staging.at(rules_),
                                  .tokens = staging.at(tokens_),
                                  .parts = model_.scratch.draw_parts.as<DrawPart>(),
                                  .out = out + first,
                                  .vocabulary = vocab,
                                  .stride = vocab};
    draw(model_.stream(), arguments, static_cast<uint32_t>(count), filters_);
    const int64_t soft_count = soft_counts_[first / chunk];
    if (soft_count > 0) {
      prepare_rows(model_.stream(), arguments, static_cast<uint32_t>(count));
      keep_soft_embeddings(model_, soft_requests, soft_count);
    }
    soft_requests += soft_count;
  }
}

void DeviceHead::logits_of_rows(const int32_t* rows, int64_t count, int64_t to) {
  rms_norm(model_.stream(),
           {.residual = residual_.as<float>(),
            .rows = rows,
            .weight = model_.weights.final_norm.as<float>(),
            .out = model_.bf16_rows(model_.scratch.normed),
            .hidden = model_.config.hidden_dim,
            .stride = model_.hidden_depth(),
            .epsilon = model_.config.norm_eps,
            .out_padded = model_.f32_rows(model_.scratch.normed)},
           static_cast<uint32_t>(count));
  multiply_normed(count, to);
}

void DeviceHead::logits_of_outputs(const float* const* outputs, int64_t count, int64_t to) {
  round_rows(model_.stream(),
             {.rows = outputs,
              .out = model_.bf16_rows(model_.scratch.normed),
              .hidden = model_.config.hidden_dim,
              .stride = model_.hidden_depth(),
              .out_f32 = model_.f32_rows(model_.scratch.normed)},
             static_cast<uint32_t>(count));
  multiply_normed(count, to);
}

void DeviceHead::reserve(int64_t count) {
  Stream& stream = model_.stream();
  grow(stream, model_.scratch.normed, count * model_.hidden_depth() * model_.number_bytes());
  reserve_partials(model_, model_.weights.head, count);
  grow(stream, model_.scratch.logits, count * model_.config.vocab_size * static_cast<int64_t>(sizeof(float)));
}

void DeviceHead::multiply_normed(int64_t count, int64_t to) {
  const DeviceWeights& weights = model_.weights;
  const ProductArguments whole{.x = model_.bf16_rows(model_.scratch.normed),
                               .x_f32 = model_.f32_rows(model_.scratch.normed),
                               .out_f32 = model_.scratch.logits.as<float>() + to * model_.config.vocab_size,
                               .out_stride = model_.config.vocab_size};
  multiply(model_, weights.head, whole, count);
  if (model_.config.logit_soft_cap == 0) return;
  cap_logits(model_.stream(), {whole.out_f32, model_.config.vocab_size, model_.config.logit_soft_cap},
             static_cast<uint32_t>(count));
}

}  // namespace lacuna::cuda
