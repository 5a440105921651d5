// Models over several ranks: every number is the one that a process alone computes.
#include "backend/shard/sharded_model.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "backend/shard/machine_plan.h"
#include "backend/sharded.h"
#include "base/error.h"
#include "weights/weight_format.h"

namespace lacuna::sharded_model_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int32_t kTokens = 21;

struct PassNumbers {
  std::vector<RowStatistics> samples;
  std::vector<float> kv_drift;
  std::vector<float> logits;
};

StepPlan plan_for(const ModelConfig& config, uint64_t seed, int32_t tokens = kTokens) {
  StepPlan plan = canvas_plan(random_tokens(seed, tokens, 80), own_rows_of(config));
  plan.measures_kv_drift = true;
  plan.rules[0].temperature = 0.7F;
  plan.rules[0].listed = {3, 5};
  for (LogitRow& logit : plan.logits) {
    logit.noise = RngStream(seed, logit.row);
    logit.num_likeliest = logit.row % 3;
    if (config.canvas) logit.soft_embedding_slack = 0.01F;
  }
  if (config.canvas) plan.groups[0].canvas = CanvasRows::kFresh;
  for (const int32_t row : {0, 12}) {
    if (config.mask_id >= 0 && row < tokens) plan.mixed.push_back({row, 0.25F});
  }
  return plan;
}

PassNumbers pass(const BackendModel& model, KvSequence& sequence, const StepPlan& plan) {
  KvSequence* sequences[] = {&sequence};
  const std::unique_ptr<PassTicket> ticket = model.submit(plan, sequences);
  const PassResult& result = ticket->wait();
  PassNumbers numbers{
      {result.samples.begin(), result.samples.end()},
      {result.kv_drift.begin(), result.kv_drift.end()},
      std::vector<float>(plan.logits.size() * static_cast<size_t>(model.config().vocab_size))};
  ticket->read_logits(plan.logits,
                      {numbers.logits.data(), std::ssize(plan.logits), model.config().vocab_size});
  return numbers;
}

/// Two passes over the same cells; models with canvases read in the second what the first kept.
std::vector<PassNumbers> passes(const BackendModel& model, int32_t tokens = kTokens) {
  const std::unique_ptr<KvPool> pool = model.make_pool();
  const std::unique_ptr<KvSequence> sequence = pool->make_sequence({tokens});
  std::vector<PassNumbers> numbers{pass(model, *sequence, plan_for(model.config(), 1, tokens))};
  StepPlan second = plan_for(model.config(), 2, tokens);
  if (model.config().canvas) second.groups[0].canvas = CanvasRows::kConditioned;
  numbers.push_back(pass(model, *sequence, second));
  return numbers;
}

void expect_same(const ModelConfig& config, const WeightFormats& formats, ShardBy by, int ranks,
                 int32_t tokens) {
  ThreadPool threads(1);
  const auto whole = Model::random(config, 5, formats, threads);
  const std::vector<PassNumbers> expected = passes(*on_cpu(whole, default_table(), threads), tokens);
  ShardedOverThreads sharded(config, by, ranks, formats);
  const std::vector<PassNumbers> found = passes(*sharded.model(), tokens);
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::string place =
        fmt::format("{} by {}, {} ranks, pass {}", config.family, static_cast<int>(by), ranks, i);
    EXPECT_TRUE(found[i].logits == expected[i].logits) << place;
    EXPECT_TRUE(found[i].samples == expected[i].samples) << place;
    EXPECT_EQ(found[i].kv_drift, expected[i].kv_drift) << place;
  }
  EXPECT_EQ(sharded.stop(), "") << config.family;
}

void expect_same(const ModelConfig& config, const WeightFormats& formats, int32_t tokens = kTokens) {
  for (const ShardBy by : kAllWaysToShard) {
    for (const int ranks : {2, 3, 4, 5}) {
      const ModelConfig wanted = with_layers_for(config, by, ranks);
      if (by == ShardBy::kLayers && wanted.num_layers < ranks) continue;  // refused
      expect_same(wanted, formats, by, ranks, tokens);
    }
  }
}

TEST(ShardedModel, ComputesWhatOneProcessComputesInEveryFamily) {
  for (const ModelConfig& config : tiny_configs_of_all_kinds()) {
    expect_same(config, DType::kF32);
    expect_same(config, DType::kBF16);
  }
}

TEST(ShardedModel, ComputesWhatOneProcessComputesWithQuantizedWeightsAndCells) {
  for (const std::string& name : quantized_format_names()) {
    WeightFormats formats = DType::kBF16;
    formats.layers = weight_format(name);
    for (const size_t kind : {0, 4, 7}) expect_same(tiny_configs()[kind], formats);
    formats.kv_int8 = true;
    formats.int8_activations = true;
    expect_same(tiny_configs()[4], formats);
  }
}

TEST(ShardedModel, ComputesWhatOneProcessComputesWhereWindowsShareExperts) {
  expect_same(tiny_editing_config(), DType::kBF16);
}

TEST(ShardedModel, ComputesPassesOfFewerRowsThanRanks) {
  expect_same(tiny_configs()[0], DType::kF32, 1);
  expect_same(tiny_configs()[7], DType::kBF16, 3);
}

TEST(ShardedModel, SplitsTheWeightsOfLayersAndTheCells) {
  ModelConfig config = tiny_configs()[0];
  config.hidden_dim = 64;
  config.num_heads = config.num_kv_heads = 4;
  config.head_dim = 16;
  config.ffn_dim = 128;
  ThreadPool threads(1);
  const auto whole = Model::random(config, 5, DType::kF32, threads);
  const auto alone = on_cpu(whole, default_table(), threads);
  const ShardedOverThreads sharded(config, ShardBy::kOutputs, 4);
  const int64_t ends = 2 * 64 * 4 * round_up(config.vocab_size, kPanelWidth);
  const int64_t layers = whole->weight_bytes() - ends;
  for (size_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(sharded.part(rank).weight_bytes(), ends + layers / 4) << rank;
  EXPECT_EQ(4 * sharded.model()->make_pool()->bytes_for({100}), alone->make_pool()->bytes_for({100}));
}

TEST(ShardedModel, RepeatsWhatHappensToSequences) {
  const ModelConfig config = tiny_configs()[0];
  const auto numbers = [&](const BackendModel& model) {
    const std::unique_ptr<KvPool> pool = model.make_pool();
    std::unique_ptr<KvSequence> first = pool->make_sequence({200});
    pass(model, *first, plan_for(config, 1, 150));
    const std::unique_ptr<KvSequence> second = pool->make_sequence({200}, {first.get(), 100});
    const std::unique_ptr<KvSequence> third = pool->make_sequence({200});
    pool->take_prefix(*third, {second.get(), 70});
    first.reset();
    StepPlan plan = plan_for(config, 2, 150);
    plan.tokens.erase(plan.tokens.begin(), plan.tokens.begin() + 100);
    plan.positions.erase(plan.positions.begin(), plan.positions.begin() + 100);
    plan.cells.erase(plan.cells.begin(), plan.cells.begin() + 100);
    plan.logits.resize(50);
    plan.groups = {{0, {0, 25}, {{0, 100}}, OwnRows::kBidirectional},
                   {1, {25, 50}, {{0, 70}}, OwnRows::kCausal}};
    KvSequence* sequences[] = {second.get(), third.get()};
    const std::unique_ptr<PassTicket> ticket = model.submit(plan, sequences);
    return std::vector(ticket->wait().samples.begin(), ticket->wait().samples.end());
  };
  ThreadPool threads(1);
  const auto expected = numbers(*on_cpu(tiny_model(config), default_table(), threads));
  for (const ShardBy by : kAllWaysToShard) {
    ShardedOverThreads sharded(config, by, by == ShardBy::kLayers ? 2 : 3);
    EXPECT_EQ(numbers(*sharded.model()), expected) << static_cast<int>(by);
    EXPECT_EQ(sharded.stop(), "");
  }
}

/// Four sequences of 65 rows: of the first K/V alone are wanted, the second is causal after cells that were
/// written before, the others see themselves.
StepPlan plan_of_sequences() {
  constexpr int32_t kRows = 65;
  StepPlan plan;
  const std::vector<TokenId> tokens = random_tokens(3, 4 * kRows, 80);
  for (int32_t sequence = 0; sequence < 4; ++sequence) {
    const int32_t first = sequence == 1 ? 30 : 0;
    const int32_t begin = plan.num_rows();
    for (int32_t i = 0; i < kRows; ++i)
      plan.add_row(tokens[static_cast<size_t>(begin + i)], first + i, first + i);
    RowGroup group{sequence, {begin, begin + kRows}, {}};
    group.only_kv = sequence == 0;
    if (sequence == 1) group.visible = {{0, 30}};
    if (sequence == 1) group.own_rows = OwnRows::kCausal;
    plan.groups.push_back(group);
    for (int32_t i = 0; i < kRows && sequence > 0; i += 3) plan.logits.push_back({.row = begin + i});
  }
  plan.rules.resize(1);
  plan.measures_kv_drift = true;
  return plan;
}

TEST(ShardedModel, TakesSeveralSequencesThroughItsLayersPieceByPiece) {
  const auto numbers = [](const BackendModel& model) {
    const std::unique_ptr<KvPool> pool = model.make_pool();
    std::vector<std::unique_ptr<KvSequence>> held;
    std::vector<KvSequence*> sequences;
    for (int i = 0; i < 4; ++i) sequences.push_back(held.emplace_back(pool->make_sequence({100})).get());
    const StepPlan plan = plan_of_sequences();
    model.submit(plan, sequences)->wait();  // the next pass finds K/V of this one
    const std::unique_ptr<PassTicket> ticket = model.submit(plan, sequences);
    const PassResult& result = ticket->wait();
    return std::pair(std::vector(result.samples.begin(), result.samples.end()),
                     std::vector(result.kv_drift.begin(), result.kv_drift.end()));
  };
  ModelConfig config = tiny_configs()[4];
  config.num_layers = 5;
  ThreadPool threads(1);
  const auto expected = numbers(*on_cpu(tiny_model(config, DType::kBF16), default_table(), threads));
  for (const ShardBy by : kAllWaysToShard) {
    for (const int ranks : {2, 4}) {
      ShardedOverThreads sharded(config, by, ranks, DType::kBF16);
      const auto found = numbers(*sharded.model());
      EXPECT_TRUE(found.first == expected.first) << static_cast<int>(by) << ", " << ranks << " ranks";
      EXPECT_EQ(found.second, expected.second) << static_cast<int>(by) << ", " << ranks << " ranks";
      EXPECT_EQ(sharded.stop(), "");
    }
  }
}

TEST(ShardedModel, RefusesMoreRanksThanLayersWhereTheyDivideThese) {
  EXPECT_THAT([] { ShardedOverThreads(tiny_configs()[0], ShardBy::kLayers, 3); },
              ThrowsMessage<InputError>(
                  "--shard layers: the model has 2 layers and there are 3 ranks; expected at most 2"));
}

TEST(ShardedModel, RefusesToShowWhatOtherRanksHold) {
  const ShardedOverThreads sharded(tiny_configs()[0], ShardBy::kOutputs, 2);
  const std::unique_ptr<KvPool> pool = sharded.model()->make_pool();
  const std::unique_ptr<KvSequence> sequence = pool->make_sequence({kTokens});
  EXPECT_THAT(
      [&] {
        sequence->read_cells(0, 0, {0, 1}, {}, {});
      },
      ThrowsMessage<InputError>(HasSubstr("expected one rank")));
  const StepPlan plan = plan_for(tiny_configs()[0], 1);
  KvSequence* sequences[] = {sequence.get()};
  EXPECT_THAT([&] { sharded.model()->submit(plan, sequences, {[](const ObservedAttention&) {}}); },
              ThrowsMessage<InputError>(HasSubstr("expected one rank")));
}

/// Hands everything on, and does something to exchanges first.
class Tampered final : public Communicator {
 public:
  using Change = std::function<void(int rank, int exchange, std::vector<std::byte>& own)>;
  Tampered(std::shared_ptr<Communicator> end, Change change)
      : end_(std::move(end)), change_(std::move(change)) {}

  int rank() const override { return end_->rank(); }
  int size() const override { return end_->size(); }
  void all_gather(std::span<const std::byte> own, std::span<const size_t> sizes, std::span<std::byte> all,
                  Wait wait) override {
    std::vector<std::byte> changed(own.begin(), own.end());
    change_(rank(), exchange_++, changed);
    end_->all_gather(changed, sizes, all, wait);
  }
  void ring_exchange(std::span<const std::byte> own, std::span<const size_t> sizes,
                     std::span<std::byte> received) override {
    std::vector<std::byte> changed(own.begin(), own.end());
    change_(rank(), exchange_++, changed);
    end_->ring_exchange(changed, sizes, received);
  }
  void fail(const std::string& cause) noexcept override { end_->fail(cause); }

 private:
  std::shared_ptr<Communicator> end_;
  Change change_;
  int exchange_ = 0;
};

ShardedOverThreads::Wrap tampering(const Tampered::Change& change) {
  return [change](std::shared_ptr<Communicator> end) {
    return std::make_shared<Tampered>(std::move(end), change);
  };
}

TEST(ShardedModel, WouldShowAnyExchangeThatIsNotExact) {
  const ModelConfig config = tiny_configs()[0];
  ThreadPool threads(1);
  const auto whole = on_cpu(tiny_model(config), default_table(), threads);
  const std::vector<float> expected = passes(*whole).front().logits;
  const auto logits_with_fault = [&](ShardBy by, int ranks, int faulty_rank, int faulty) {
    ShardedOverThreads sharded(config, by, ranks, DType::kF32,
                               tampering([=](int rank, int exchange, std::vector<std::byte>& own) {
                                 if (rank != faulty_rank || exchange != faulty) return;
                                 own.at(1) ^= std::byte{0x80};  // a fraction byte
                               }));
    return passes(*sharded.model()).front().logits;
  };
  // The command takes two exchanges; each layer then gathers attention, o, activations and down, after the
  // sums of K/V drift.
  for (const int faulty : {3, 4, 5, 6, 8, 11})
    EXPECT_NE(logits_with_fault(ShardBy::kOutputs, 3, 1, faulty), expected) << "exchange " << faulty;
  // K/V of two layers, then the residual stream.
  for (const int faulty : {2, 3, 4})
    EXPECT_NE(logits_with_fault(ShardBy::kRows, 3, 1, faulty), expected) << "exchange " << faulty;
  // From the first rank to the second, then back.
  EXPECT_NE(logits_with_fault(ShardBy::kLayers, 2, 0, 2), expected);
  EXPECT_NE(logits_with_fault(ShardBy::kLayers, 2, 1, 3), expected);
}

/// Hands everything on, and counts what rank 0 receives.
class Counted final : public Communicator {
 public:
  struct Received {
    int64_t exchanges = 0;
    int64_t bytes = 0;
  };
  Counted(std::shared_ptr<Communicator> end, Received& received)
      : end_(std::move(end)), received_(received) {}

  int rank() const override { return end_->rank(); }
  int size() const override { return end_->size(); }
  void all_gather(std::span<const std::byte> own, std::span<const size_t> sizes, std::span<std::byte> all,
                  Wait wait) override {
    count(all.size() - own.size());
    end_->all_gather(own, sizes, all, wait);
  }
  void ring_exchange(std::span<const std::byte> own, std::span<const size_t> sizes,
                     std::span<std::byte> received) override {
    count(received.size());
    end_->ring_exchange(own, sizes, received);
  }
  void fail(const std::string& cause) noexcept override { end_->fail(cause); }

 private:
  void count(size_t bytes) {
    if (rank() != 0) return;
    ++received_.exchanges;
    received_.bytes += static_cast<int64_t>(bytes);
  }

  std::shared_ptr<Communicator> end_;
  Received& received_;
};

TEST(ShardedModel, ReceivesTheBytesThatAPlanOfMachinesPredicts) {
  ModelConfig config = tiny_configs()[0];
  config.num_layers = 4;
  config.hidden_dim = 64;
  config.num_heads = 4;
  config.num_kv_heads = 4;
  config.head_dim = 16;
  config.ffn_dim = 128;
  StepPlan plan = canvas_plan(random_tokens(1, 32, 80), own_rows_of(config));
  plan.logits.resize(1);
  for (const int machines : {2, 4}) {
    for (const MachinePlan& predicted : plan_machines(config, DType::kBF16, nullptr, {1e12, 1e11, 1e9, 1e-5},
                                                      {.machines = machines, .rows = 32, .cells = 32})) {
      if (!predicted.shard) continue;
      Counted::Received received;
      ShardedOverThreads sharded(config, *predicted.shard, machines, DType::kBF16,
                                 [&](std::shared_ptr<Communicator> end) {
                                   return std::make_shared<Counted>(std::move(end), received);
                                 });
      const std::unique_ptr<KvPool> pool = sharded.model()->make_pool();
      const std::unique_ptr<KvSequence> sequence = pool->make_sequence({32});
      KvSequence* sequences[] = {sequence.get()};
      sharded.model()->submit(plan, sequences)->wait();
      // Besides, the command and the samples take two exchanges each; of samples come counts of 8 bytes. What
      // is passed on has rows with their padding.
      const bool is_padded = predicted.shard == ShardBy::kLayers;
      const int64_t padding = is_padded ? 32 * 4 * (output_stride(64) - 64) : 0;
      EXPECT_EQ(received.exchanges, predicted.exchanges + 4) << predicted.way;
      EXPECT_EQ(received.bytes, static_cast<int64_t>(predicted.received_bytes) + padding + 8 * (machines - 1))
          << predicted.way << ", " << machines;
    }
  }
}

TEST(ShardedModel, FailsWithASentenceOnceARankHasFailed) {
  ShardedOverThreads sharded(tiny_configs()[0], ShardBy::kOutputs, 3, DType::kF32,
                             tampering([](int rank, int exchange, std::vector<std::byte>&) {
                               if (rank == 2 && exchange == 9) throw std::runtime_error("has no memory left");
                             }));
  const std::unique_ptr<KvPool> pool = sharded.model()->make_pool();
  const std::unique_ptr<KvSequence> sequence = pool->make_sequence({kTokens});
  const StepPlan plan = plan_for(tiny_configs()[0], 1);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT([&] { pass(*sharded.model(), *sequence, plan); },
                ThrowsMessage<RankError>("rank 2 has no memory left"));
  }
  EXPECT_EQ(sharded.stop(), "rank 2 has no memory lefthas no memory left");
}

TEST(ShardedModel, RefusesRanksThatDiffer) {
  const auto errors_of = [](const std::vector<std::string>& identities, const std::vector<std::string>& own) {
    std::vector<std::string> errors(identities.size());
    std::vector<std::thread> threads;
    std::vector<std::unique_ptr<Communicator>> ranks = ranks_of_threads(static_cast<int>(identities.size()));
    for (size_t rank = 0; rank < identities.size(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          agree_on_model(*ranks[rank], identities[rank], own[rank]);
        } catch (const InputError& error) {
          errors[rank] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return errors;
  };
  EXPECT_THAT(errors_of({"a", "a"}, {"", ""}), testing::Each(""));
  EXPECT_THAT(errors_of({"a", "a", "b"}, {"", "", ""}),
              testing::Each("rank 2 has b; expected what rank 0 has: a"));
  EXPECT_THAT(errors_of({"a", "b"}, {"", "no such file"}), testing::Each("rank 1: no such file"));
}

}  // namespace
}  // namespace lacuna::sharded_model_test
