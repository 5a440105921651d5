#include "eval/perplexity.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "engine/guide.h"
#include "eval/evaluate.h"
#include "model/tiny_models.h"
#include "tokenizer/tiny_tokenizer.h"

namespace lacuna::perplexity_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr size_t kLlada = 0;
constexpr size_t kQwen2 = 5;

/// -ln p of each token after the first `num_read`, from whole rows of logits, one text at a time.
std::vector<double> slow_likelihoods(const std::shared_ptr<const Model>& model,
                                     const std::vector<TokenId>& tokens, size_t num_read) {
  Runner runner(model, default_table(), 1);
  const std::vector<float> logits = runner.logits(canvas_plan(tokens, OwnRows::kCausal));
  std::vector<double> values;
  for (size_t i = num_read; i < tokens.size(); ++i) {
    const auto row = logits.begin() + static_cast<std::ptrdiff_t>(i - 1) * runner.vocab();
    double sum = 0;
    for (int64_t v = 0; v < runner.vocab(); ++v) sum += std::exp(static_cast<double>(row[v]));
    values.push_back(std::log(sum) - static_cast<double>(row[tokens[i]]));
  }
  return values;
}

std::vector<TokenId> join(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class Judge : public testing::Test {
 protected:
  Judgement judge(const std::vector<JudgedText>& texts) {
    return lacuna::judge(*on_cpu(model_, default_table(), threads_), texts);
  }

  std::shared_ptr<const Model> model_ = tiny_model(tiny_configs()[kQwen2]);
  ThreadPool threads_{2};
};

TEST_F(Judge, ScoresEveryTokenOfTheAnswersAndTheirEndsAlone) {
  const int64_t vocab = model_->config().vocab_size;
  std::vector<JudgedText> texts;
  double sum = 0;
  int64_t count = 0;
  for (uint64_t i = 0; i < 40; ++i) {  // more than one pass
    JudgedText text{random_tokens(i, 20 + static_cast<int32_t>(i), vocab),
                    random_tokens(100 + i, static_cast<int32_t>(i), vocab)};
    std::vector<TokenId> tokens = join(text.prompt, text.answer);
    if (i % 2 == 0) {
      text.end = 89;
      tokens.push_back(89);
    }
    for (const double value : slow_likelihoods(model_, tokens, text.prompt.size())) {
      sum += value;
      ++count;
    }
    texts.push_back(text);
  }
  const Judgement judgement = judge(texts);
  EXPECT_EQ(judgement.tokens, count);
  EXPECT_NEAR(judgement.negative_log_likelihood, sum, 1e-5 * sum);
  EXPECT_NEAR(std::log(judgement.perplexity()), sum / static_cast<double>(count), 1e-6);
}

TEST_F(Judge, ScoresEachTextByItself) {
  const std::vector<JudgedText> texts = {{{5}, {6}, {}, 3},
                                         {{7}, {8, 9, 10, 11, 12, 13, 14}, 5, 20},
                                         {{5}, {}, {}, 0},
                                         {{5, 6}, {9, 10}, {}, 4}};
  const Judgement judgement = judge(texts);
  ASSERT_EQ(judgement.texts.size(), 4u);
  for (size_t i = 0; i < texts.size(); ++i) {
    const Judgement alone = judge({texts[i]});
    EXPECT_EQ(judgement.texts[i].tokens, alone.tokens);
    EXPECT_NEAR(judgement.texts[i].nats, alone.negative_log_likelihood, 1e-6);
  }
  EXPECT_EQ(judgement.bytes, 27);
  EXPECT_DOUBLE_EQ(judgement.nats_per_byte(), judgement.negative_log_likelihood / 27);
  const Interval interval = judgement.perplexity_interval(1);
  EXPECT_LE(interval.low, judgement.perplexity());
  EXPECT_GE(interval.high, judgement.perplexity());
  EXPECT_LE(judgement.nats_per_byte_interval(1).low, judgement.nats_per_byte());
  EXPECT_EQ(judge({}).nats_per_byte(), 0);
}

TEST_F(Judge, WeighsTokensAndNotTexts) {
  const std::vector<JudgedText> texts = {{{5}, {6}}, {{7}, {8, 9, 10, 11, 12, 13, 14}}};
  const Judgement first = judge({texts[0]});
  const Judgement second = judge({texts[1]});
  EXPECT_NEAR(judge(texts).perplexity(),
              std::exp((std::log(first.perplexity()) + 7 * std::log(second.perplexity())) / 8), 1e-6);
}

TEST_F(Judge, CannotScoreATokenThatNothingPrecedes) {
  EXPECT_EQ(judge({{{}, {5, 6, 7}}}).tokens, 2);
  EXPECT_EQ(judge({{{}, {5}}}).tokens, 0);
  EXPECT_EQ(judge({{{5, 6}, {}}}).tokens, 0);
  EXPECT_EQ(judge({{{5, 6}, {}}}).perplexity(), 0);
  EXPECT_EQ(judge({{{5, 6}, {}, 7}}).tokens, 1);
  EXPECT_EQ(judge({}).tokens, 0);
}

TEST_F(Judge, RefusesTokensThatItDoesNotHave) {
  EXPECT_THAT(
      [&] {
        judge({{{5}, {131}}});
      },
      ThrowsMessage<InputError>(HasSubstr("token 131, which is outside the judge's vocabulary of 131")));
}

TEST(Ngrams, AreDistinctOverAllTexts) {
  const std::vector<JudgedText> texts = {{{9, 9}, {1, 2, 1, 2}}, {{}, {1, 2, 3}}, {{}, {4}, 1}};
  EXPECT_DOUBLE_EQ(distinct_ngrams(texts, 1), 4.0 / 8);  // 1, 2, 3, 4
  EXPECT_DOUBLE_EQ(distinct_ngrams(texts, 2), 3.0 / 5);  // 12, 21, 23
  EXPECT_DOUBLE_EQ(distinct_ngrams(texts, 3), 3.0 / 3);
  EXPECT_DOUBLE_EQ(distinct_ngrams(texts, 5), 0);
}

TEST(Ngrams, RepeatWithinATextAlone) {
  const std::vector<JudgedText> texts = {{{}, {1, 1, 1, 1, 1, 1}}, {{}, {1, 1, 1, 1}}, {{}, {1, 2, 3}}};
  EXPECT_DOUBLE_EQ(repeated_ngrams(texts, 4), 2.0 / 4);
  EXPECT_DOUBLE_EQ(repeated_ngrams({}, 4), 0);
}

TEST(JudgedText, IsReadAgainByAnotherTokenizer) {
  const ModelConfig writer_config = tiny_configs()[kLlada];
  ModelConfig judge_config = tiny_configs()[kQwen2];
  judge_config.eos_id = 300;
  judge_config.end_ids = {300};
  const Tokenizer writer = parse(tiny_tokenizer());     // bytes
  nlohmann::json other = tiny_tokenizer({{"b", "c"}});  // "bc" is one token, and ids differ
  std::swap(other["model"]["vocab"]["b"], other["model"]["vocab"]["c"]);
  const Tokenizer reader = parse(other);
  const Guide judge({writer_config, &writer}, {judge_config, &reader});
  ASSERT_FALSE(judge.shares_vocabulary());
  const std::vector<TokenId> end = {writer_config.end_ids.at(0)};
  const std::vector<TokenId> answer = join(writer.encode("cbcd"), join(end, writer.encode("xx")));
  const JudgedText text = judged_text(judge, writer.encode("ab"), answer, writer_config.end_ids);
  EXPECT_EQ(text.prompt, reader.encode("ab"));
  EXPECT_EQ(text.answer, reader.encode("cbcd"));  // "b" and "c" do not join over the border
  EXPECT_EQ(text.answer.size(), 3u);
  EXPECT_EQ(text.end, 300);
}

TEST(EvaluateWithAJudge, ReadsEachAnswerUpToItsFirstEndToken) {
  // A byte-level tokenizer: 256 ids, as many as both models have.
  ModelConfig config = tiny_configs()[kLlada];
  config.vocab_size = 260;
  config.mask_id = 258;
  config.eos_id = 257;
  config.end_ids = {256, 257};
  ModelConfig judge_config = tiny_configs()[kQwen2];
  judge_config.vocab_size = 260;
  judge_config.eos_id = 257;
  judge_config.end_ids = {257};
  const Tokenizer tokenizer = parse(tiny_tokenizer());
  const Guide judge({config, &tokenizer}, {judge_config, &tokenizer});
  ASSERT_TRUE(judge.shares_vocabulary());
  ThreadPool threads(1);
  EvaluatedModel model{on_cpu(tiny_model(config), default_table(), threads), tokenizer, {}};
  model.judge = &judge;
  const std::shared_ptr<const Model> judge_weights = tiny_model(judge_config);
  model.judge_model = on_cpu(judge_weights, default_table(), threads);
  EvaluationSettings settings;
  settings.samples = 6;
  settings.generation.gen_length = 16;
  settings.generation.temperature = 8;  // almost any token: some answers end
  const Evaluation evaluation = evaluate(model, settings);

  double sum = 0;
  int64_t count = 0;
  for (const SampleRecord& record : evaluation.records) {
    std::vector<TokenId> answer = record.result.tokens;
    const auto end = std::find_if(answer.begin(), answer.end(),
                                  [](TokenId token) { return token == 256 || token == 257; });
    if (end != answer.end()) {
      *end = 257;  // as the judge spells it
      answer.erase(end + 1, answer.end());
    }
    const std::vector<TokenId> prompt = ids_of_bytes(record.sample.prompt);
    for (const double value : slow_likelihoods(judge_weights, join(prompt, answer), prompt.size())) {
      sum += value;
      ++count;
    }
  }
  ASSERT_TRUE(evaluation.judgement);
  EXPECT_EQ(evaluation.judgement->tokens, count);
  EXPECT_NEAR(evaluation.judgement->negative_log_likelihood, sum, 1e-5 * sum);
  const nlohmann::ordered_json json = to_json(evaluation);
  EXPECT_EQ(json["judge"]["tokens"], count);
  EXPECT_EQ(json["accuracy_low"], wilson_interval(evaluation.num_correct(), 6).low);
}

}  // namespace
}  // namespace lacuna::perplexity_test
