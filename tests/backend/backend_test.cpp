// The interface to backends, on this machine and on a device that shows nothing of what it holds.
#include "backend/backend.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/fake_device.h"
#include "base/error.h"
#include "base/rng.h"
#include "model/tiny_models.h"

namespace lacuna::backend_test {
namespace {

using testing::ElementsAre;

constexpr int32_t kTokens = 40;

class Backend : public testing::Test {
 protected:
  StepPlan plan(uint64_t seed) const {
    StepPlan made = canvas_plan(random_tokens(seed, kTokens, config_.vocab_size - 10), own_rows_of(config_));
    made.measures_kv_drift = true;
    return made;
  }
  std::unique_ptr<KvSequence> sequence(KvPool& pool, bool remembers_outputs = false) const {
    return pool.make_sequence({kTokens, remembers_outputs});
  }
  std::vector<RowStatistics> samples_of(const BackendModel& model, KvSequence& sequence,
                                        const StepPlan& plan) const {
    KvSequence* sequences[] = {&sequence};
    const std::unique_ptr<PassTicket> ticket = model.submit(plan, sequences);
    const auto samples = ticket->wait().samples;
    return {samples.begin(), samples.end()};
  }

  ModelConfig config_ = tiny_configs()[0];
  ThreadPool threads_{1};
  std::shared_ptr<const Model> weights_ = tiny_model(config_);
  std::shared_ptr<const BackendModel> cpu_ = on_cpu(weights_, default_table(), threads_);
};

TEST_F(Backend, GivesThePassOfTheModel) {
  const StepPlan canvas = plan(1);
  const std::unique_ptr<KvPool> pool = cpu_->make_pool();
  const std::unique_ptr<KvSequence> cells = sequence(*pool);
  KvSequence* sequences[] = {cells.get()};
  const std::unique_ptr<PassTicket> ticket = cpu_->submit(canvas, sequences);
  const PassResult& result = ticket->wait();

  Runner runner(weights_, default_table(), 1);
  EXPECT_EQ(std::vector(result.samples.begin(), result.samples.end()), runner.draws(canvas));
  EXPECT_EQ(std::ssize(result.kv_drift), 2 * kTokens * config_.num_layers);
  std::vector<float> logits(canvas.logits.size() * static_cast<size_t>(config_.vocab_size));
  ticket->read_logits(canvas.logits, {logits.data(), kTokens, config_.vocab_size});
  EXPECT_EQ(logits, runner.logits(canvas));
  EXPECT_GT(ticket->times().total(), 0);
}

TEST_F(Backend, KeepsTicketsApart) {
  const StepPlan a = plan(1);
  const StepPlan b = plan(2);
  const std::unique_ptr<KvPool> pool = cpu_->make_pool();
  const std::unique_ptr<KvSequence> of_a = sequence(*pool);
  const std::unique_ptr<KvSequence> of_b = sequence(*pool);
  KvSequence* first[] = {of_a.get()};
  KvSequence* second[] = {of_b.get()};
  const std::unique_ptr<PassTicket> ticket_a = cpu_->submit(a, first);
  const std::unique_ptr<PassTicket> ticket_b = cpu_->submit(b, second);
  ticket_b->follow_up({b.logits});
  Runner runner(weights_, default_table(), 1);
  const auto follow_up = ticket_a->follow_up({a.logits}).samples;
  EXPECT_EQ(std::vector(follow_up.begin(), follow_up.end()), runner.draws(a));
  EXPECT_EQ(std::vector(ticket_b->wait().samples.begin(), ticket_b->wait().samples.end()), runner.draws(b));
}

TEST_F(Backend, ComparesRowsWithWhatTheirSequenceRemembers) {
  StepPlan now = plan(1);
  const std::unique_ptr<KvPool> pool = cpu_->make_pool();
  const std::unique_ptr<KvSequence> cells = sequence(*pool, /*remembers_outputs=*/true);
  KvSequence* sequences[] = {cells.get()};
  {
    const std::unique_ptr<PassTicket> ticket = cpu_->submit(now, sequences);
    ticket->wait();
    ticket->remember_outputs();
  }
  const std::vector<DriftProbe> probes = {{.row = 3, .cell = 3}};
  const std::unique_ptr<PassTicket> same = cpu_->submit(now, sequences);
  same->wait();
  EXPECT_EQ(same->follow_up({{}, probes}).drifts.front().kl, 0);

  StepPlan other = now;
  other.tokens[5] = other.tokens[5] == 1 ? 2 : 1;
  const std::unique_ptr<PassTicket> changed = cpu_->submit(other, sequences);
  changed->wait();
  const Drift drift = changed->follow_up({{}, probes}).drifts.front();
  EXPECT_GT(drift.kl, 0);
  EXPECT_EQ(changed->follow_up({{}, probes}).drifts.front().kl, drift.kl);  // nothing was remembered
  std::vector<float> before(static_cast<size_t>(config_.hidden_dim)), after(before.size());
  const std::vector<int32_t> cell = {3};
  cells->read_outputs(cell, {before.data(), 1, config_.hidden_dim});
  changed->remember_outputs();
  cells->read_outputs(cell, {after.data(), 1, config_.hidden_dim});
  EXPECT_EQ(changed->follow_up({{}, probes}).drifts.front().kl, 0);
  Drift of_host;
  cpu_->compare_outputs({after.data(), 1, config_.hidden_dim}, {before.data(), 1, config_.hidden_dim},
                        {&of_host, 1});
  EXPECT_EQ(of_host.kl, drift.kl);
}

TEST_F(Backend, MakesNoSequenceBeyondTheLimitOfItsPool) {
  const int64_t each = cpu_->make_pool()->bytes_for({kTokens});
  EXPECT_GT(cpu_->make_pool()->bytes_for({kTokens, true}), each);
  const std::unique_ptr<KvPool> pool = cpu_->make_pool(2 * each);
  std::unique_ptr<KvSequence> a = sequence(*pool);
  const std::unique_ptr<KvSequence> b = sequence(*pool);
  EXPECT_NE(b, nullptr);
  EXPECT_EQ(pool->bytes(), 2 * each);
  EXPECT_EQ(sequence(*pool), nullptr);
  a.reset();
  EXPECT_EQ(pool->bytes(), each);
  EXPECT_NE(sequence(*pool), nullptr);
}

TEST_F(Backend, TakesAPrefixOverWithAllItsBits) {
  const std::unique_ptr<KvPool> pool = cpu_->make_pool();
  const std::unique_ptr<KvSequence> from = sequence(*pool);
  const std::unique_ptr<KvSequence> to = sequence(*pool);
  samples_of(*cpu_, *from, plan(1));
  pool->take_prefix(*to, {from.get(), kCellTile});
  const auto content = [&](const KvSequence& sequence, IndexRange cells) {
    std::vector<float> keys(static_cast<size_t>(cells.size() * config_.head_dim)), values(keys.size());
    sequence.read_cells(1, 0, cells, {keys.data(), cells.size(), config_.head_dim},
                        {values.data(), cells.size(), config_.head_dim});
    keys.insert(keys.end(), values.begin(), values.end());
    return keys;
  };
  EXPECT_EQ(content(*to, {0, 32}), content(*from, {0, 32}));
  EXPECT_NE(content(*to, {32, 40}), content(*from, {32, 40}));
}

TEST_F(Backend, CountsPagesThatSequencesShareOnce) {
  const std::unique_ptr<KvPool> pool = cpu_->make_pool();
  const int64_t page = pool->bytes_for({1});
  ASSERT_EQ(pool->bytes_for({10 * kPageCells}), 10 * page);
  EXPECT_EQ(pool->bytes_for({10 * kPageCells}, 3 * kPageCells + 5), 7 * page);
  const std::unique_ptr<KvSequence> first = pool->make_sequence({10 * kPageCells});
  std::vector<std::unique_ptr<KvSequence>> others;
  for (int i = 0; i < 3; ++i) {
    others.push_back(pool->make_sequence({11 * kPageCells}, {first.get(), 9 * kPageCells + 20}));
  }
  EXPECT_EQ(pool->bytes(), (10 + 3 * 2) * page);
  const KvSequence* two[] = {first.get(), others[1].get()};
  EXPECT_EQ(pool->bytes_of(two), 12 * page);
  others.pop_back();
  EXPECT_EQ(pool->bytes(), (10 + 2 * 2) * page);
}

TEST_F(Backend, KeepsASharedPrefixFromWrites) {
  const std::unique_ptr<KvPool> pool = cpu_->make_pool();
  const std::unique_ptr<KvSequence> from = pool->make_sequence({2 * kPageCells});
  std::unique_ptr<KvSequence> to = pool->make_sequence({2 * kPageCells}, {from.get(), kPageCells});
  EXPECT_THROW(samples_of(*cpu_, *from, plan(1)), std::logic_error);
  to.reset();
  EXPECT_NO_THROW(samples_of(*cpu_, *from, plan(1)));
}

TEST_F(Backend, MakesEverySequenceForWhichThereAreBytesWhateverWasFreedBefore) {
  const RngStream random(7);
  uint64_t drawn = 0;
  const auto below = [&](int64_t limit) {
    return static_cast<int64_t>(random.uniform(drawn++) * static_cast<double>(limit));
  };
  const std::unique_ptr<KvPool> limited = cpu_->make_pool(40 * cpu_->make_pool()->bytes_for({1}));
  std::vector<std::unique_ptr<KvSequence>> sequences;
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    if (!sequences.empty() && below(2) == 0) {
      sequences.erase(sequences.begin() + below(std::ssize(sequences)));
      continue;
    }
    const SequenceShape shape{1 + below(12 * kPageCells)};
    KvPrefix prefix;
    if (!sequences.empty()) {
      prefix.sequence = sequences[static_cast<size_t>(below(std::ssize(sequences)))].get();
      prefix.count = below(1 + std::min(shape.num_cells, prefix.sequence->shape().num_cells));
    }
    const bool fits = limited->bytes_for(shape, prefix.count) <= limited->limit() - limited->bytes();
    std::unique_ptr<KvSequence> made = limited->make_sequence(shape, prefix);
    ASSERT_EQ(made != nullptr, fits);
    refused += fits ? 0 : 1;
    if (made != nullptr) sequences.push_back(std::move(made));
    std::vector<const KvSequence*> all;
    for (const auto& sequence : sequences) all.push_back(sequence.get());
    ASSERT_EQ(limited->bytes(), limited->bytes_of(all));
  }
  EXPECT_GT(refused, 50);
  sequences.clear();
  EXPECT_EQ(limited->bytes(), 0);
}

TEST_F(Backend, ShowsTheAttentionOfEveryLayer) {
  const StepPlan canvas = plan(1);
  const std::unique_ptr<KvPool> pool = cpu_->make_pool();
  const std::unique_ptr<KvSequence> cells = sequence(*pool);
  KvSequence* sequences[] = {cells.get()};
  std::vector<int64_t> rows_of_layer(static_cast<size_t>(config_.num_layers));
  std::map<std::pair<int64_t, int32_t>, std::vector<float>> inputs;  // by layer and row
  PassOptions options;
  options.observe_attention = [&](const ObservedAttention& seen) {
    ++rows_of_layer.at(static_cast<size_t>(seen.layer));
    EXPECT_GT(seen.sum, 0);
    if (seen.head == 0) inputs[{seen.layer, seen.row}] = {seen.hidden.begin(), seen.hidden.end()};
  };
  cpu_->submit(canvas, sequences, options)->wait();
  EXPECT_THAT(rows_of_layer, testing::Each(kTokens * config_.num_heads));
  // The input of the first layer is the token's embedding, that of the second depends on the context.
  int same = 0;
  for (int32_t a = 0; a < kTokens; ++a) {
    EXPECT_EQ(std::ssize(inputs.at({0, a})), config_.hidden_dim);
    for (int32_t b = 0; b < a; ++b) {
      const bool is_same = canvas.tokens[static_cast<size_t>(a)] == canvas.tokens[static_cast<size_t>(b)];
      same += is_same ? 1 : 0;
      EXPECT_EQ(inputs.at({0, a}) == inputs.at({0, b}), is_same);
      EXPECT_NE(inputs.at({1, a}), inputs.at({1, b}));
    }
  }
  EXPECT_GT(same, 0);
  rows_of_layer.assign(rows_of_layer.size(), 0);
  cpu_->submit(canvas, sequences)->wait();  // an observer sees its own pass only
  EXPECT_THAT(rows_of_layer, testing::Each(0));
}

// The device that tests of the engine run on.

TEST_F(Backend, OfTestsComputesPassesWhenSomebodyWaits) {
  const FakeDevice device(cpu_);
  const std::unique_ptr<KvPool> pool = device.make_pool(KvPool::kNoLimit);
  const std::unique_ptr<KvSequence> one = sequence(*pool);
  const std::unique_ptr<KvSequence> two = sequence(*pool);
  KvSequence* first[] = {one.get()};
  KvSequence* second[] = {two.get()};
  const StepPlan a = plan(1);
  const StepPlan b = plan(2);
  const std::unique_ptr<PassTicket> earlier = device.submit(a, first);
  const std::unique_ptr<PassTicket> apart = device.submit(b, second);
  const std::unique_ptr<PassTicket> later = device.submit(b, first);
  EXPECT_EQ(device.num_pending(), 3U);
  apart->wait();
  EXPECT_THAT(device.computed(), ElementsAre(1));
  later->wait();
  EXPECT_THAT(device.computed(), ElementsAre(1, 0, 2));
}

TEST_F(Backend, OfTestsPoisonsWhatNobodyMayRead) {
  const FakeDevice device(cpu_);
  const std::unique_ptr<KvPool> pool = device.make_pool(KvPool::kNoLimit);
  const std::unique_ptr<KvSequence> cells = sequence(*pool);
  KvSequence* sequences[] = {cells.get()};
  const StepPlan canvas = plan(1);
  std::unique_ptr<PassTicket> ticket = device.submit(canvas, sequences);
  const PassResult result = ticket->wait();
  const FollowUpResult rest = ticket->follow_up({canvas.logits});
  EXPECT_TRUE(result.samples[0].is_finite);
  EXPECT_EQ(rest.samples[0], result.samples[0]);
  ticket->follow_up({canvas.logits});
  EXPECT_FALSE(rest.samples[0].is_finite);
  ticket.reset();
  EXPECT_EQ(result.samples[0].token, -1);

  std::vector<float> row(static_cast<size_t>(config_.head_dim));
  const Matrix<float> out(row.data(), 1, config_.head_dim);
  EXPECT_THROW(cells->read_cells(0, 0, {0, 1}, out, out), InputError);
}

}  // namespace
}  // namespace lacuna::backend_test
