#include "eval/perplexity.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "base/error.h"
#include "engine/result.h"

namespace lacuna {
namespace {

/// Counts n-grams; the caller owns the set of n-grams seen before.
struct NgramCount {
  int64_t all = 0;
  int64_t distinct = 0;

  void add(std::span<const TokenId> text, size_t n, std::set<std::vector<TokenId>>& seen) {
    for (size_t begin = 0; begin + n <= text.size(); ++begin) {
      const std::span<const TokenId> ngram = text.subspan(begin, n);
      ++all;
      if (seen.emplace(ngram.begin(), ngram.end()).second) ++distinct;
    }
  }
};

/// Adds a sequence in which row i scores token i + 1, from the row before the answer on. The last token needs
/// no row. Returns the number of scored tokens.
int64_t add_text(const JudgedText& text, int64_t vocab_size, StepPlan& plan) {
  std::vector<TokenId> tokens = text.prompt;
  tokens.insert(tokens.end(), text.answer.begin(), text.answer.end());
  if (text.end) tokens.push_back(*text.end);
  for (const TokenId token : tokens) {
    if (token >= 0 && token < vocab_size) continue;
    throw InputError("the text holds token {}, which is outside the judge's vocabulary of {}", token,
                     vocab_size);
  }
  const auto num_tokens = static_cast<int32_t>(tokens.size());
  if (num_tokens < 2) return 0;
  const auto sequence = static_cast<int32_t>(plan.groups.size());
  const int32_t first_row = plan.num_rows();
  const auto first_scored = std::max<int32_t>(1, static_cast<int32_t>(text.prompt.size()));
  for (int32_t position = 0; position + 1 < num_tokens; ++position) {
    if (position + 1 >= first_scored) {
      LogitRow logit;
      logit.row = plan.num_rows();
      logit.scored = tokens[static_cast<size_t>(position) + 1];
      plan.logits.push_back(logit);
    }
    plan.add_row(tokens[static_cast<size_t>(position)], position, position);
  }
  plan.groups.push_back({sequence, {first_row, plan.num_rows()}, {}, OwnRows::kCausal});
  return std::max(0, num_tokens - first_scored);
}

/// -ln p of the scored token. Sampling is greedy, so the row's confidence is its best token's probability.
double negative_log_likelihood(const RowStatistics& row) {
  return static_cast<double>(row.best_logit) - static_cast<double>(row.scored_logit) -
         std::log(row.confidence);
}

}  // namespace

JudgedText judged_text(const Guide& judge, std::span<const TokenId> prompt,
                       std::span<const TokenId> generated, std::span<const TokenId> end_ids,
                       std::span<const Message> messages) {
  const std::span<const TokenId> answer = answer_part(generated, end_ids);
  const bool ends = answer.size() < generated.size();
  const GuideContext context = judge.context(prompt, messages);
  JudgedText text{context.prompt,
                  context.alignment->read(generated.first(answer.size() + (ends ? 1 : 0))).tokens};
  if (ends) {
    text.end = text.answer.back();
    text.answer.pop_back();
  }
  return text;
}

double Judgement::perplexity() const {
  return tokens > 0 ? std::exp(mean_nll()) : 0;
}

Interval Judgement::perplexity_interval(uint64_t seed) const {
  std::vector<RatioPart> parts;
  for (const TextScore& text : texts) parts.push_back({text.nats, static_cast<double>(text.tokens)});
  const Interval nats = bootstrap_interval(parts, seed);
  return {std::exp(nats.low), std::exp(nats.high)};
}

Interval Judgement::nats_per_byte_interval(uint64_t seed) const {
  std::vector<RatioPart> parts;
  for (const TextScore& text : texts) parts.push_back({text.nats, static_cast<double>(text.bytes)});
  return bootstrap_interval(parts, seed);
}

double distinct_ngrams(std::span<const JudgedText> texts, size_t n) {
  NgramCount count;
  std::set<std::vector<TokenId>> seen;
  for (const JudgedText& text : texts) count.add(text.answer, n, seen);
  return count.all > 0 ? static_cast<double>(count.distinct) / static_cast<double>(count.all) : 0;
}

double repeated_ngrams(std::span<const JudgedText> texts, size_t n) {
  NgramCount count;
  for (const JudgedText& text : texts) {
    std::set<std::vector<TokenId>> seen;
    count.add(text.answer, n, seen);
  }
  return count.all > 0 ? 1 - static_cast<double>(count.distinct) / static_cast<double>(count.all) : 0;
}

Judgement judge(const BackendModel& model, std::span<const JudgedText> texts) {
  expects(model.config().paradigm() == Paradigm::kCausal, "judge: an autoregressive model");
  Judgement judgement;
  const std::unique_ptr<KvPool> pool = model.make_pool();
  StepPlan plan;
  std::vector<size_t> owners;  // [plan.logits] the text of each scored token
  const auto run = [&] {
    if (plan.groups.empty()) return;
    plan.rules.emplace_back();  // greedy sampling
    std::vector<std::unique_ptr<KvSequence>> sequences;
    std::vector<KvSequence*> pointers;
    for (const RowGroup& group : plan.groups) {
      sequences.push_back(pool->make_sequence({group.rows.size()}));
      pointers.push_back(sequences.back().get());
    }
    const std::unique_ptr<PassTicket> ticket = model.submit(plan, pointers);
    const std::span<const RowStatistics> samples = ticket->wait().samples;
    for (size_t i = 0; i < samples.size(); ++i) {
      judgement.texts[owners[i]].nats += negative_log_likelihood(samples[i]);
    }
    owners.clear();
    plan.clear();
  };
  for (const JudgedText& text : texts) {
    const int64_t scored = add_text(text, model.config().vocab_size, plan);
    owners.insert(owners.end(), static_cast<size_t>(scored), judgement.texts.size());
    judgement.texts.push_back({scored, 0, text.bytes});
    if (plan.num_rows() >= kScoringRows) run();
  }
  run();
  for (const TextScore& text : judgement.texts) {
    judgement.tokens += text.tokens;
    judgement.negative_log_likelihood += text.nats;
    judgement.bytes += text.bytes;
  }
  for (size_t n = 1; n <= 3; ++n) judgement.distinct[n - 1] = distinct_ngrams(texts, n);
  judgement.repetition = repeated_ngrams(texts, 4);
  return judgement;
}

nlohmann::ordered_json to_json(const Judgement& judgement, uint64_t seed) {
  const Interval perplexity = judgement.perplexity_interval(seed);
  const Interval per_byte = judgement.nats_per_byte_interval(seed);
  return {{"perplexity", judgement.perplexity()}, {"perplexity_low", perplexity.low},
          {"perplexity_high", perplexity.high},   {"nats_per_byte", judgement.nats_per_byte()},
          {"nats_per_byte_low", per_byte.low},    {"nats_per_byte_high", per_byte.high},
          {"tokens", judgement.tokens},           {"bytes", judgement.bytes},
          {"distinct_1", judgement.distinct[0]},  {"distinct_2", judgement.distinct[1]},
          {"distinct_3", judgement.distinct[2]},  {"repetition", judgement.repetition}};
}

}  // namespace lacuna
