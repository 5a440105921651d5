#include "eval/perplexity.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "base/error.h"
#include "engine/result.h"

namespace lacuna {
namespace {

/// Counts n-grams; the text's own set of those seen before is the caller's.
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

/// Adds a sequence whose row i scores token i + 1, from the row before the answer on. The last token needs no
/// row: nothing follows it.
void add_text(const JudgedText& text, int64_t vocab_size, StepPlan& plan) {
  std::vector<TokenId> tokens = text.prompt;
  tokens.insert(tokens.end(), text.answer.begin(), text.answer.end());
  if (text.end) tokens.push_back(*text.end);
  for (const TokenId token : tokens) {
    if (token >= 0 && token < vocab_size) continue;
    throw InputError("the text holds token {}, which is outside the judge's vocabulary of {}", token,
                     vocab_size);
  }
  const auto num_tokens = static_cast<int32_t>(tokens.size());
  if (num_tokens < 2) return;
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
}

/// -ln p of the scored token. The row drew its best token, so its confidence is that token's probability.
double negative_log_likelihood(const RowStatistics& row) {
  return static_cast<double>(row.best_logit) - static_cast<double>(row.scored_logit) -
         std::log(row.confidence);
}

}  // namespace

JudgedText judged_text(const Guide& judge, std::span<const TokenId> prompt,
                       std::span<const TokenId> generated, std::span<const TokenId> end_ids) {
  const size_t length = answer_part(generated, end_ids).size();
  const bool ends = length < generated.size();
  const GuideContext context = judge.context(prompt, {});
  JudgedText text{context.prompt, context.alignment->read(generated.first(length + (ends ? 1 : 0))).tokens};
  if (ends) {
    text.end = text.answer.back();
    text.answer.pop_back();
  }
  return text;
}

double Judgement::perplexity() const {
  return tokens > 0 ? std::exp(mean_nll()) : 0;
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
  const auto run = [&] {
    if (plan.groups.empty()) return;
    plan.rules.emplace_back();  // greedy: takes the best token
    std::vector<std::unique_ptr<KvSequence>> sequences;
    std::vector<KvSequence*> pointers;
    for (const RowGroup& group : plan.groups) {
      sequences.push_back(pool->make_sequence({group.rows.size()}));
      pointers.push_back(sequences.back().get());
    }
    const std::unique_ptr<PassTicket> ticket = model.submit(plan, pointers);
    const std::span<const RowStatistics> samples = ticket->wait().samples;
    for (const RowStatistics& row : samples)
      judgement.negative_log_likelihood += negative_log_likelihood(row);
    judgement.tokens += static_cast<int64_t>(samples.size());
    plan.clear();
  };
  for (const JudgedText& text : texts) {
    add_text(text, model.config().vocab_size, plan);
    if (plan.num_rows() >= kScoringRows) run();
  }
  run();
  for (size_t n = 1; n <= 3; ++n) judgement.distinct[n - 1] = distinct_ngrams(texts, n);
  judgement.repetition = repeated_ngrams(texts, 4);
  return judgement;
}

nlohmann::ordered_json to_json(const Judgement& judgement) {
  return {{"perplexity", judgement.perplexity()}, {"tokens", judgement.tokens},
          {"distinct_1", judgement.distinct[0]},  {"distinct_2", judgement.distinct[1]},
          {"distinct_3", judgement.distinct[2]},  {"repetition", judgement.repetition}};
}

}  // namespace lacuna
