#include "train/trainer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "train/bpe.h"

namespace lacuna::train::trainer_test {
namespace {

class TrainerTest : public ::testing::Test {
 protected:
  TrainerTest() : bpe_(learn_bpe(vocabulary_corpus(), 1024)), vocabulary_(vocabulary_of(bpe_)) {
    // Tests may run in parallel.
    const char* const name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = std::filesystem::path(::testing::TempDir()) / fmt::format("lacuna_trainer_test_{}", name);
    std::filesystem::create_directories(folder_);
  }
  ~TrainerTest() override { std::filesystem::remove_all(folder_); }

  Trainer trainer(int threads = 1, uint64_t weights_seed = 1, int64_t ffn_width = 24,
                  Family family = Family::kLlada, bool bf16_products = false, Transformer model = nullptr) {
    torch::manual_seed(weights_seed);
    ModelShape shape;
    shape.family = family;
    shape.layers = shape.traits().experts ? 2 : 1;  // the first has none
    shape.width = 16;
    shape.heads = 2;
    shape.ffn_width = ffn_width;
    shape.experts.ffn_width = 24;
    shape.vocabulary = bpe_.total_size();
    shape.canvas.length = 40;
    DataOptions data;
    data.tasks = {{&find_task("arithmetic"), 0.7}, {&find_task("stories"), 0.1}};
    data.batch_rows = 8;
    if (shape.traits().objective == Objective::kSlots) {
      data.one_end_token = true;
      data.drill_share = 0;
    }
    if (shape.traits().interpolates()) {
      shape.context = 128;
      data.context = shape.context;
    }
    TrainOptions options;
    options.steps = 60;
    options.warmup_steps = 5;
    options.threads = threads;
    options.bf16_products = bf16_products;
    return Trainer(model ? model : Transformer(shape), BatchSource(data, vocabulary_), vocabulary_, options,
                   folder_);
  }

  Bpe bpe_;
  Vocabulary vocabulary_;
  std::filesystem::path folder_;
};

/// The largest difference between two models' weights.
double distance(const Transformer& a, const Transformer& b) {
  double largest = 0;
  for (size_t i = 0; i < a->parameters().size(); ++i) {
    largest = std::max(largest, (a->parameters()[i] - b->parameters()[i]).abs().max().item<double>());
  }
  return largest;
}

TEST_F(TrainerTest, LowersTheLoss) {
  const auto first_losses = [](Trainer& trainer) {
    double sum = 0;
    for (int i = 0; i < 10; ++i) sum += trainer.step();
    return sum / 10;
  };
  for (const FamilyTraits& family : families()) {
    Trainer trainer = this->trainer(1, 1, 24, family.family);
    const double before = first_losses(trainer);
    for (int i = 0; i < 50; ++i) trainer.step();
    // The same batches and masks again: with 8 rows and weights up to 1 / t, losses of others differ too
    // much.
    Trainer again = this->trainer(1, 1, 24, family.family, false, trainer.averaged_model());
    EXPECT_LT(first_losses(again), 0.9 * before) << family.name;  // losses differ in scale
  }
}

TEST_F(TrainerTest, MultipliesInBf16NearlyAsInF32) {
  for (const FamilyTraits& family : families()) {
    Trainer wide = trainer(1, 1, 24, family.family);
    Trainer narrow = trainer(1, 1, 24, family.family, /*bf16_products=*/true);
    for (int i = 0; i < 5; ++i) {
      const double loss = wide.step();
      EXPECT_NEAR(narrow.step(), loss, 0.02 * loss) << family.name;
    }
  }
}

TEST_F(TrainerTest, ResumesAsIfItHadNeverStopped) {
  const auto check = [&](Family family, bool bf16_products) {
    Trainer whole = trainer(1, 1, 24, family, bf16_products);
    for (int i = 0; i < 20; ++i) whole.step();

    Trainer first = trainer(1, 1, 24, family, bf16_products);
    for (int i = 0; i < 9; ++i) first.step();
    first.save();
    Trainer second = trainer(1, /*weights_seed=*/2, 24, family, bf16_products);
    second.resume();
    EXPECT_EQ(second.progress().step, 9);
    EXPECT_EQ(second.progress().tokens, first.progress().tokens);
    for (int i = 0; i < 11; ++i) second.step();

    EXPECT_EQ(second.progress().tokens, whole.progress().tokens);
    EXPECT_EQ(distance(second.averaged_model(), whole.averaged_model()), 0);
    EXPECT_EQ(second.step(), whole.step());
  };
  for (const Family family : {Family::kLlada, Family::kRefusion, Family::kGidd, Family::kDiffusionGemma})
    check(family, /*bf16_products=*/false);
  check(Family::kRefusion, /*bf16_products=*/true);
}

TEST_F(TrainerTest, LearnsTheTrajectoriesOfATeacherAndResumesToTheSameBits) {
  const auto student = [&](Trainer& trainer) {
    Trainer other = this->trainer(1, /*weights_seed=*/7);
    trainer.learn_from(other.averaged_model());
  };
  Trainer whole = trainer();
  student(whole);
  double first = 0, last = 0;
  for (int i = 0; i < 48; ++i) {
    const double loss = whole.step();
    (i < 8 ? first : last) += i < 8 || i >= 40 ? loss : 0;
  }
  EXPECT_LT(last, 0.9 * first);

  Trainer before = trainer();
  student(before);
  for (int i = 0; i < 13; ++i) before.step();
  before.save();
  Trainer after = trainer(1, /*weights_seed=*/3);
  student(after);
  after.resume();
  for (int i = 13; i < 48; ++i) after.step();
  EXPECT_EQ(distance(after.averaged_model(), whole.averaged_model()), 0);

  Trainer causal = trainer(1, 1, 24, Family::kQwen3);
  EXPECT_THROW(causal.learn_from(causal.averaged_model()), InputError);
}

TEST_F(TrainerTest, WritesTheSameNumbersForTensorBoard) {
  Trainer trainer = this->trainer();
  trainer.run();
  std::ifstream log(folder_ / "log.csv");
  int lines = -1;  // the head
  for (std::string line; std::getline(log, line);) ++lines;
  std::string bytes;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    if (entry.path().filename().string().find("tfevents") == std::string::npos) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  const auto count = [&](const std::string& text) {
    int found = 0;
    for (size_t at = 0; (at = bytes.find(text, at)) != std::string::npos; at += text.size()) ++found;
    return found;
  };
  EXPECT_GE(lines, 2);
  EXPECT_EQ(count("tokens_per_second"), lines);
  EXPECT_EQ(count("accuracy/stories"), 1);
}

TEST_F(TrainerTest, SharesABatchAmongThreadsWithoutChangingItsGradient) {
  for (const Family family : {Family::kLlada, Family::kRefusion, Family::kGidd, Family::kDiffusionGemma}) {
    Trainer alone = trainer(1, 1, 24, family);
    Trainer shared = trainer(3, 1, 24, family);
    EXPECT_NEAR(alone.step(), shared.step(), 1e-5);
    EXPECT_LT(distance(alone.averaged_model(), shared.averaged_model()), 1e-4);
  }
}

TEST_F(TrainerTest, RefusesACheckpointThatIsMissingOrDamaged) {
  EXPECT_THROW(trainer().resume(), InputError);
  std::ofstream(folder_ / "checkpoint.pt") << "not a checkpoint";
  EXPECT_THROW(trainer().resume(), InputError);
}

TEST_F(TrainerTest, RefusesACheckpointOfOtherSizes) {
  trainer().save();
  Trainer wider = trainer(1, 1, /*ffn_width=*/32);
  EXPECT_THAT([&] { wider.resume(); },
              ::testing::ThrowsMessage<InputError>(::testing::HasSubstr("a model of other sizes")));
}

TEST_F(TrainerTest, LeavesALogAndACheckpoint) {
  Trainer trainer = this->trainer();
  trainer.run();
  EXPECT_TRUE(std::filesystem::exists(folder_ / "checkpoint.pt"));
  std::ifstream log(folder_ / "log.csv");
  std::string header, line, last;
  std::getline(log, header);
  EXPECT_EQ(header,
            "step,tokens,seconds,loss,learning_rate,tokens_per_second,accuracy_arithmetic,accuracy_stories");
  while (std::getline(log, line)) last = line;
  EXPECT_EQ(last.substr(0, 3), "60,");
}

TEST_F(TrainerTest, KeepsWhatItHasLearntWhereItIsStopped) {
  Trainer first = trainer(1, 1, 24);
  first.stop();
  first.run();
  EXPECT_EQ(first.progress().step, 0);
  Trainer second = trainer(1, /*weights_seed=*/2, 24);
  second.resume();
  EXPECT_EQ(distance(second.averaged_model(), first.averaged_model()), 0);
  second.run();
  EXPECT_EQ(second.progress().step, 60);
}

TEST(Decode, OpensEachSlotFromItsOwnMaskAndContinuesFromTheTokenBefore) {
  torch::manual_seed(1);
  ModelShape shape;
  shape.family = Family::kRefusion;
  shape.layers = 2;
  shape.width = 16;
  shape.heads = 2;
  shape.ffn_width = 24;
  shape.vocabulary = 40;
  Transformer model(shape);
  constexpr int64_t kCanvas = 19;  // two slots of 8 and one of 3
  constexpr TokenId kMask = 39;
  const auto canvas = decode(model, {{1, 2, 3}}, kCanvas, kMask).front();

  const torch::NoGradGuard no_grad;
  std::vector<int64_t> tokens = {1, 2, 3};
  tokens.resize(3 + kCanvas, kMask);  // here all masks are fed
  for (size_t at = 3; at < tokens.size(); ++at) {
    const bool opens = (at - 3) % 8 == 0;
    const torch::Tensor logits = model->logits(model->hidden(torch::tensor(tokens).unsqueeze(0)))[0];
    tokens[at] = logits[static_cast<int64_t>(opens ? at : at - 1)].argmax().item<int64_t>();
  }
  EXPECT_EQ(std::vector<int64_t>(canvas.begin(), canvas.end()),
            std::vector<int64_t>(tokens.begin() + 3, tokens.end()));
}

TEST(Decode, ReplacesNoiseBlockByBlock) {
  constexpr int64_t kCanvas = 11;  // a block of 8 and one of 3
  constexpr TokenId kMask = 39;
  for (const Family family : {Family::kGidd, Family::kGiddMask}) {
    torch::manual_seed(1);
    ModelShape shape;
    shape.family = family;
    shape.layers = 2;
    shape.width = 16;
    shape.heads = 2;
    shape.ffn_width = 24;
    shape.vocabulary = 40;
    shape.context = 20;
    Transformer model(shape);
    const torch::NoGradGuard no_grad;
    model->named_parameters()["head.weight"].normal_();
    const auto canvas = decode(model, {{1, 2, 3}}, kCanvas, kMask).front();
    ASSERT_EQ(canvas.size(), static_cast<size_t>(kCanvas));
    EXPECT_EQ(std::count(canvas.begin(), canvas.end(), kMask), 0);
    EXPECT_EQ(decode(model, {{1, 2, 3}}, kCanvas, kMask).front(), canvas);
    // A row of a batch does not depend on the others, except for its noise.
    const auto both = decode(model, {{1, 2, 3}, {4, 5, 6}}, kCanvas, kMask);
    EXPECT_EQ(both.front(), canvas);
    if (family != Family::kGiddMask) continue;
    // The first choice by hand: the most confident of the first 8 masks stays.
    torch::Tensor tokens = torch::full({1, 20}, static_cast<int64_t>(kMask), torch::kInt64);
    tokens.slice(1, 0, 3).copy_(torch::tensor({{1, 2, 3}}));
    const torch::Tensor clean = torch::arange(20).lt(3);
    torch::Tensor logits =
        model->logits(model->hidden(tokens, {}, clean.unsqueeze(1).logical_and(clean.logical_not())))[0];
    logits.select(1, kMask).fill_(-1e9);
    const auto [best, choice] = torch::softmax(logits.slice(0, 3, 11), -1).max(-1);
    const int64_t most_confident = best.argmax().item<int64_t>();
    EXPECT_EQ(canvas[static_cast<size_t>(most_confident)], choice[most_confident].item<int64_t>());
  }
}

TEST(BatchSource, FillsTheContextAndRefusesSamplesThatDoNotFit) {
  const Bpe bpe = learn_bpe(vocabulary_corpus(), 1024);
  const Vocabulary vocabulary = vocabulary_of(bpe);
  DataOptions data;
  data.tasks = {{&find_task("arithmetic"), 1}};
  data.context = 150;
  const Batch batch = BatchSource(data, vocabulary).batch(0);
  EXPECT_EQ(batch.tokens.size(1), 150);
  data.context = 40;
  EXPECT_THROW(BatchSource(data, vocabulary).batch(0), InputError);
}

TEST(Schedule, RisesThenFallsToAHundredth) {
  EXPECT_NEAR(schedule(0, 100, 0), 0.01, 1e-9);
  EXPECT_NEAR(schedule(99, 100, 0), 1, 1e-9);
  EXPECT_NEAR(schedule(1000, 100, 0.5), 0.505, 1e-9);
  EXPECT_NEAR(schedule(2000, 100, 1), 0.01, 1e-9);
}

TEST(BatchSource, GivesEachStepTheSameBatchInAnyOrder) {
  const Bpe bpe = learn_bpe(vocabulary_corpus(), 1024);
  const Vocabulary vocabulary = vocabulary_of(bpe);
  DataOptions data;
  data.tasks = {{&find_task("arithmetic"), 1}};
  data.batch_rows = 16;
  BatchSource forward(data, vocabulary);
  BatchSource backward(data, vocabulary);
  const Batch early = forward.batch(3);
  const Batch late = forward.batch(40);
  EXPECT_TRUE(backward.batch(40).tokens.equal(late.tokens));
  EXPECT_TRUE(backward.batch(3).tokens.equal(early.tokens));
  EXPECT_TRUE(backward.batch(3).response.equal(early.response));
}

TEST(BatchSource, AsksDecisionsOfTheKindsThatAreAskedForAlone) {
  const Bpe bpe = learn_bpe(vocabulary_corpus(), 1024);
  const Vocabulary vocabulary = vocabulary_of(bpe);
  const Tokenizer& tokenizer = vocabulary.tokenizer;
  const AnswerLabels labels = find_answer_labels(tokenizer);
  DataOptions data;
  data.tasks = {{&find_task("arithmetic"), 1e-9}};
  data.decision_share = 1;
  data.drill_share = 0;
  data.batch_rows = 4;
  data.decision_kinds = {QuestionKind::kPredicate};
  for (const double drill_share : {0.0, 1.0}) {
    data.decision_drill_share = drill_share;
    const Batch batch = BatchSource(data, vocabulary).batch(0);
    std::set<std::string> learned;
    for (int64_t row = 0; row < batch.tokens.size(0); ++row) {
      for (int64_t at = 0; at < batch.tokens.size(1); ++at) {
        const auto id = static_cast<TokenId>(batch.tokens[row][at].item<int64_t>());
        if (batch.response[row][at].item<bool>()) learned.insert(tokenizer.decode(std::array{id}));
      }
    }
    EXPECT_THAT(learned, ::testing::IsSubsetOf(labels.yes_no));
    EXPECT_FALSE(learned.empty());
  }
}

TEST(BatchSource, AsksQuestionsOfDecisionsForTheirWordsAndOptions) {
  const Bpe bpe = learn_bpe(vocabulary_corpus(), 1024);
  const Vocabulary vocabulary = vocabulary_of(bpe);
  const Tokenizer& tokenizer = vocabulary.tokenizer;
  const AnswerLabels labels = find_answer_labels(tokenizer);
  const TokenId yes = tokenizer.encode("1" + labels.separator + labels.yes_no[0]).back();
  const TokenId no = tokenizer.encode("1" + labels.separator + labels.yes_no[1]).back();
  DataOptions data;
  data.tasks = {{&find_task("arithmetic"), 1e-9}};
  data.decision_share = 1;
  data.drill_share = 0;
  data.batch_rows = 16;
  data.decision_auxiliary = 3;
  for (const double drill_share : {0.0, 1.0}) {
    data.decision_drill_share = drill_share;
    const Batch batch = BatchSource(data, vocabulary).batch(0);
    for (int64_t row = 0; row < batch.tokens.size(0); ++row) {
      const torch::Tensor asked = batch.auxiliary[row].ge(0);
      EXPECT_FALSE(asked.logical_and(batch.response[row]).any().item<bool>());
      EXPECT_NEAR(batch.auxiliary_weights[row].sum().item<double>(), 3, 1e-4);
      int64_t questions = batch.response[row].sum().item<int64_t>(), right = 0;
      std::set<int64_t> found, missing;
      for (int64_t at = 0; at < batch.tokens.size(1); ++at) {
        const int64_t target = batch.auxiliary[row][at].item<int64_t>();
        if (target < 0) continue;
        EXPECT_TRUE(target == yes || target == no);
        const int64_t left = batch.blocks_left[row][at].item<int64_t>();
        ASSERT_TRUE(left == 1 || left == 2);
        if (left == 1) {
          right += target == yes ? 1 : 0;
        } else {
          (target == yes ? found : missing).insert(batch.tokens[row][at].item<int64_t>());
        }
      }
      EXPECT_EQ(right, questions);  // one option of each
      const int64_t period = tokenizer.encode("a.").back();
      EXPECT_FALSE(missing.contains(period));
      std::set<int64_t> elsewhere;  // tokens that are not asked: the story, the rule and the answers
      for (int64_t at = 0; at < batch.tokens.size(1); ++at) {
        if (!asked[at].item<bool>()) elsewhere.insert(batch.tokens[row][at].item<int64_t>());
      }
      for (const int64_t token : found) EXPECT_TRUE(elsewhere.contains(token)) << token;
    }
  }
}

TEST(BatchSource, EndsTheResponseAfterOneEndTokenWhereItIsAskedTo) {
  const Bpe bpe = learn_bpe(vocabulary_corpus(), 1024);
  const Vocabulary vocabulary = vocabulary_of(bpe);
  DataOptions data;
  data.tasks = {{&find_task("arithmetic"), 1}};
  data.one_end_token = true;
  EXPECT_THROW(BatchSource(data, vocabulary), InputError);  // drills
  data.drill_share = 0;
  BatchSource source(data, vocabulary);
  const Batch batch = source.batch(0);
  for (int64_t row = 0; row < batch.tokens.size(0); ++row) {
    const torch::Tensor response = batch.response[row];
    const torch::Tensor learned = batch.tokens[row].masked_select(response);
    EXPECT_EQ(learned.eq(bpe.end_id()).sum().item<int64_t>(), 1);
    EXPECT_EQ(learned[-1].item<int64_t>(), bpe.end_id());
    const int64_t prompt = response.to(torch::kInt64).argmax().item<int64_t>();
    EXPECT_TRUE(response.slice(0, prompt, prompt + learned.size(0)).all().item<bool>());
    EXPECT_TRUE(batch.tokens[row].slice(0, prompt + learned.size(0)).eq(bpe.end_id()).all().item<bool>());
  }
}

TEST(BatchSource, GivesEachRowItsCanvasAndADrillItsResults) {
  const Bpe bpe = learn_bpe(vocabulary_corpus(), 1024);
  const Vocabulary vocabulary = vocabulary_of(bpe);
  const Tokenizer& tokenizer = vocabulary.tokenizer;
  DataOptions data;
  data.tasks = {{&find_task("arithmetic"), 1}};
  data.drill_share = 1;
  BatchSource source(data, vocabulary);
  const Batch batch = source.batch(0);
  int64_t drills = 0;
  for (int64_t row = 0; row < batch.tokens.size(0); ++row) {
    const torch::Tensor response = batch.response[row];
    const int64_t prompt = response.to(torch::kInt64).argmax().item<int64_t>();
    ASSERT_GT(prompt, 0);
    const torch::Tensor learned = batch.tokens[row].masked_select(response);
    if (response.slice(0, prompt).all().item<bool>()) {
      EXPECT_GE(learned.size(0), data.canvas);
      EXPECT_EQ(learned[-1].item<int64_t>(), bpe.end_id());
      continue;
    }
    ++drills;
    EXPECT_GE(learned.size(0), data.canvas / 8);  // 7 tokens each, " 12+7=19."
    for (int64_t i = 0; i < learned.size(0); ++i) {
      const std::string text =
          tokenizer.decode(std::vector{static_cast<TokenId>(learned[i].item<int64_t>())});
      EXPECT_EQ(text.find_first_not_of("0123456789"), std::string::npos) << text;
    }
  }
  EXPECT_GT(drills, batch.tokens.size(0) / 4);
  EXPECT_LT(drills, batch.tokens.size(0) * 3 / 4);
}

TEST(BatchSource, WeighsEndTokensThatOnlyFillTheRowLess) {
  const Bpe bpe = learn_bpe(vocabulary_corpus(), 1024);
  const Vocabulary vocabulary = vocabulary_of(bpe);
  DataOptions data;
  data.tasks = {{&find_task("arithmetic"), 1}};
  data.drill_share = 0;
  data.canvas = 64;
  const Batch batch = BatchSource(data, vocabulary).batch(0);
  for (int64_t row = 0; row < batch.tokens.size(0); ++row) {
    const torch::Tensor ends = batch.tokens[row].eq(bpe.end_id());
    const int64_t first_end = ends.to(torch::kInt64).argmax().item<int64_t>();
    EXPECT_TRUE(batch.weights[row].slice(0, 0, first_end + 4).eq(1).all().item<bool>());
    EXPECT_TRUE(
        batch.weights[row].slice(0, first_end + 4).eq(static_cast<float>(kTailWeight)).all().item<bool>());
  }
}

TEST(BatchSource, DrawsCanvasesOfManyLengthsAndGivesSomeTails) {
  const Bpe bpe = learn_bpe(vocabulary_corpus(), 1024);
  const Vocabulary vocabulary = vocabulary_of(bpe);
  DataOptions data;
  data.tasks = {{&find_task("arithmetic"), 1}};
  data.drill_share = 0;
  data.longest_canvas = 200;
  data.given_tail_share = 0.5;
  BatchSource source(data, vocabulary);
  std::set<int64_t> lengths;
  int64_t given = 0;
  for (uint64_t step = 0; step < BatchSource::kPoolBatches; ++step) {
    const Batch batch = source.batch(step);
    lengths.insert(batch.tokens.size(1));
    for (int64_t row = 0; row < batch.tokens.size(0); ++row)
      given += batch.response[row][-1].item<bool>() ? 0 : 1;
  }
  EXPECT_GT(*lengths.rbegin(), 150);
  EXPECT_LT(*lengths.begin(), 100);
  EXPECT_NEAR(static_cast<double>(given) / static_cast<double>(BatchSource::kPoolBatches * 32), 0.5, 0.1);
}

TEST(BatchSource, AsksForSpansOfToldStoriesAndNeverForTheFirstToken) {
  const Bpe bpe = learn_bpe(vocabulary_corpus(), 1024);
  const Vocabulary vocabulary = vocabulary_of(bpe);
  DataOptions data;
  data.tasks = {{&find_task("arithmetic"), 1}};
  data.infill_share = 1;
  const Batch batch = BatchSource(data, vocabulary).batch(0);
  EXPECT_FALSE(batch.response.select(1, 0).any().item<bool>());
  const torch::Tensor asked = batch.response.sum(1);
  EXPECT_TRUE(asked.gt(0).all().item<bool>());
  EXPECT_FALSE(batch.response.logical_and(batch.tokens.eq(bpe.end_id())).any().item<bool>());
}

/// Batches of retrieval alone.
DataOptions retrieval_data(double drill_share) {
  DataOptions data;
  data.tasks = {{&find_task("retrieval"), 1}};
  data.drill_share = drill_share;
  data.batch_rows = 4;
  data.canvas = 8;
  data.drill_canvas = 100;
  data.min_length = 200;
  data.max_length = 300;
  data.block_length = 32;
  return data;
}

TEST(BatchSource, AsksManyQuestionsAboutOneListOfFacts) {
  const Bpe bpe = learn_bpe(vocabulary_corpus(), 1024);
  const Vocabulary vocabulary = vocabulary_of(bpe);
  const Tokenizer& tokenizer = vocabulary.tokenizer;
  const int64_t period = tokenizer.encode(".").front();
  const DataOptions data = retrieval_data(1e9);  // no other rows
  const Batch batch = BatchSource(data, vocabulary).batch(0);
  EXPECT_EQ(batch.tokens.size(1) % data.block_length, 0);
  EXPECT_FALSE(batch.positions.defined());
  for (int64_t row = 0; row < batch.tokens.size(0); ++row) {
    const int64_t* const tokens = batch.tokens[row].data_ptr<int64_t>();
    const bool* const response = batch.response[row].data_ptr<bool>();
    std::map<std::pair<int64_t, int64_t>, int64_t> values;  // by key
    int64_t questions = 0;
    for (int64_t at = 3; at + 1 < batch.tokens.size(1); ++at) {
      if (tokens[at - 3] != period || tokens[at + 1] != period) continue;  // no value
      const std::pair key(tokens[at - 2], tokens[at - 1]);
      if (!response[at]) {
        EXPECT_EQ(questions, 0) << "facts come before questions";
        values[key] = tokens[at];
        continue;
      }
      ++questions;
      ASSERT_TRUE(values.contains(key));
      EXPECT_EQ(tokens[at], values[key]);
    }
    EXPECT_NEAR(static_cast<double>(questions),
                static_cast<double>(std::count(response, response + batch.tokens.size(1), true)), 1);
    EXPECT_GE(questions, data.drill_canvas / 4 - 1);
    EXPECT_GE(values.size(), 45u);  // lines that are not facts may repeat
    EXPECT_LE(values.size(), 74u);
  }
}

TEST(BatchSource, SpreadsRowsWithGapsOfWholeBlocksBetweenFacts) {
  const Bpe bpe = learn_bpe(vocabulary_corpus(), 1024);
  const Vocabulary vocabulary = vocabulary_of(bpe);
  const Tokenizer& tokenizer = vocabulary.tokenizer;
  const int64_t period = tokenizer.encode(".").front();
  DataOptions data = retrieval_data(0.5);
  data.spread = 4096;
  BatchSource source(data, vocabulary);
  int64_t gaps = 0, farthest = 0;
  for (uint64_t step = 0; step < 16; ++step) {
    const Batch batch = source.batch(step);
    for (int64_t row = 0; row < batch.tokens.size(0); ++row) {
      const int64_t* const positions = batch.positions[row].data_ptr<int64_t>();
      ASSERT_EQ(positions[0], 0);
      for (int64_t at = 1; at < batch.tokens.size(1); ++at) {
        const int64_t gap = positions[at] - positions[at - 1] - 1;
        ASSERT_GE(gap, 0);
        if (gap == 0) continue;
        ++gaps;
        ASSERT_EQ(gap % data.block_length, 0);
        ASSERT_EQ(at % data.block_length, 0);
        ASSERT_EQ(batch.tokens[row][at - 1].item<int64_t>(), period);
        ASSERT_FALSE(batch.response[row][at].item<bool>());
      }
      farthest = std::max(farthest, positions[batch.tokens.size(1) - 1]);
    }
  }
  EXPECT_GT(gaps, 20);
  EXPECT_GT(farthest, data.spread / 2);
  EXPECT_LT(farthest, data.spread);
}

}  // namespace
}  // namespace lacuna::train::trainer_test
