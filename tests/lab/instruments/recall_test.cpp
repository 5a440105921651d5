// The instruments of sparse attention at work on a model, compared with a plain recomputation.
#include "instruments/recall.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "engine/engine.h"
#include "model/tiny_models.h"
#include "options/choose.h"

namespace lacuna::recall_test {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

// A model at work.

constexpr int32_t kBlock = 4;
constexpr int32_t kPrompt = 34;  // the first denoised block begins with two fixed tokens
constexpr int32_t kAnswer = 14;  // four blocks

ModelConfig blocks_config() {
  ModelConfig config = tiny_configs()[6];
  config.family = "sdar";
  config.causal = false;
  config.block_causal = true;
  config.block_length = kBlock;
  config.num_layers = 4;  // two of them may be sparse
  config.mask_id = 90;
  return config;
}

GenerationOptions blocks_options() {
  GenerationOptions options;
  options.gen_length = kAnswer;
  options.ignore_eos = true;
  return options;
}

RecallSettings few_cells() {
  return {{6, 15, 40}, 3, 0.5};
}

std::vector<std::unique_ptr<Decoder>> requests(const ModelConfig& config, const GenerationOptions& options,
                                               int32_t count = 1) {
  std::vector<std::unique_ptr<Decoder>> made;
  made.reserve(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) {
    made.push_back(make_decoder(config, options, random_tokens(21 + i, kPrompt, 80)));
  }
  return made;
}

class RecallOfAModel : public testing::Test {
 protected:
  RecallFindings analyze(const GenerationOptions& options = blocks_options(), int32_t count = 1) {
    return analyze_recall(*model_, threads_, requests(model_->config(), options, count), few_cells());
  }

  ThreadPool threads_{2};
  std::shared_ptr<const BackendModel> model_ =
      on_cpu(Model::random(blocks_config(), 3, DType::kF32, threads_), default_table(), threads_);
};

/// Keeps all weights of the denoised block, and works from these with sets and sorting alone.
class Tape final : public Instrument {
 public:
  struct Pass {
    IndexRange block;
    int32_t step = 1;
    /// By layer, row and head.
    std::map<std::array<int32_t, 3>, std::vector<double>> weights, queries;
    std::map<std::array<int32_t, 2>, std::vector<double>> hidden;  ///< by layer and row
    std::map<int32_t, std::vector<double>> predictions;  ///< probabilities of masked positions, no mask token
    /// Largest and smallest channels of the keys of each page, by layer and kv head.
    std::map<std::array<int32_t, 2>, std::vector<std::pair<std::vector<double>, std::vector<double>>>> pages;
  };

  void prepare(FollowedPass& pass) override {
    for (RowGroup& group : pass.plan.groups) group.only_kv = false;
    const int32_t first_row = pass.plan.groups.back().rows.begin;
    const IndexRange block = pass.window.block;
    const bool can_continue = !passes_.empty() && passes_.back().block == block;
    const int32_t step = can_continue ? passes_.back().step + 1 : 1;
    passes_.emplace_back().block = block;
    passes_.back().step = step;
    pass.options.observe_attention = [this, first_row, block](const ObservedAttention& row) {
      if (row.row < first_row) return;
      std::vector<double> weights;
      weights.reserve(static_cast<size_t>(block.end));
      for (int32_t cell = 0; cell < block.end; ++cell) {
        weights.push_back(double{row.weights[static_cast<size_t>(cell)]} / row.sum);
      }
      const std::lock_guard lock(mutex_);
      const std::array place{static_cast<int32_t>(row.layer), row.row - first_row, row.head};
      passes_.back().weights[place] = weights;
      passes_.back().queries[place] = {row.query.begin(), row.query.end()};
      passes_.back().hidden[{place[0], place[1]}] = {row.hidden.begin(), row.hidden.end()};
    };
  }

  void computed(const FollowedPass& pass) override {
    read_pages(pass);
    const ModelConfig config = blocks_config();
    const int32_t first_row = pass.plan.groups.back().rows.begin;
    for (int32_t row = first_row; row < pass.plan.num_rows(); ++row) {
      if (pass.plan.tokens[static_cast<size_t>(row)] != config.mask_id) continue;
      LogitRow wanted;
      wanted.row = row;
      std::vector<float> logits(static_cast<size_t>(config.vocab_size));
      pass.ticket->read_logits({&wanted, 1}, {logits.data(), 1, config.vocab_size});
      std::vector<double> probabilities;
      double sum = 0;
      for (size_t token = 0; token < logits.size(); ++token) {
        const bool is_mask = static_cast<TokenId>(token) == config.mask_id;
        probabilities.push_back(is_mask ? 0 : std::exp(double{logits[token]}));
        sum += probabilities.back();
      }
      for (double& probability : probabilities) probability /= sum;
      passes_.back().predictions[pass.plan.positions[static_cast<size_t>(row)]] = probabilities;
    }
  }

  const std::vector<Pass>& passes() const { return passes_; }

 private:
  void read_pages(const FollowedPass& pass) {
    constexpr int64_t kHeadDim = 16;  // as blocks_config() has it
    const int32_t page_size = few_cells().page_size;
    const IndexRange before{0, pass.window.block.begin};
    std::vector<float> keys(static_cast<size_t>(before.size() * kHeadDim));
    std::vector<float> values(keys.size());
    for (int32_t layer = 2; layer < 4; ++layer) {
      for (int32_t head = 0; head < 2; ++head) {
        pass.sequence.read_cells(layer, head, before, {keys.data(), before.size(), kHeadDim},
                                 {values.data(), before.size(), kHeadDim});
        auto& pages = passes_.back().pages[{layer, head}];
        for (int32_t cell = 0; cell < before.size(); ++cell) {
          const std::vector<double> key(keys.begin() + cell * kHeadDim, keys.begin() + (cell + 1) * kHeadDim);
          if (cell % page_size == 0) pages.push_back({key, key});
          auto& [most, least] = pages.back();
          for (size_t i = 0; i < key.size(); ++i) {
            most[i] = std::max(most[i], key[i]);
            least[i] = std::min(least[i], key[i]);
          }
        }
      }
    }
  }

  std::mutex mutex_;
  std::vector<Pass> passes_;
};

std::set<int32_t> largest(const std::vector<double>& values, int32_t count) {
  std::vector<int32_t> order(values.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
  });
  return {order.begin(), order.begin() + count};
}

double common(const std::set<int32_t>& a, const std::set<int32_t>& b) {
  return static_cast<double>(
      std::count_if(a.begin(), a.end(), [&](int32_t cell) { return b.contains(cell); }));
}

/// One kv head: its query heads are 2 h and 2 h + 1.
struct NaiveHead {
  const Tape::Pass& pass;
  int32_t layer;
  int32_t kv_head;

  std::vector<double> sum(int32_t first_row, int32_t end_row) const {
    std::vector<double> mass(static_cast<size_t>(pass.block.begin));
    for (int32_t row = first_row; row < end_row; ++row) {
      for (int32_t head = 2 * kv_head; head < 2 * kv_head + 2; ++head) {
        const std::vector<double>& weights = pass.weights.at({layer, row, head});
        for (size_t cell = 0; cell < mass.size(); ++cell) mass[cell] += weights[cell];
      }
    }
    return mass;
  }
  std::set<int32_t> of_block(int32_t budget) const { return largest(sum(0, kBlock), budget); }
  std::set<int32_t> of_row(int32_t row, int32_t budget) const { return largest(sum(row, row + 1), budget); }

  /// By the queries of all rows, or of one.
  std::set<int32_t> of_quest(int32_t budget, int32_t row = -1) const {
    const int32_t page_size = few_cells().page_size;
    std::vector<double> scores;
    for (const auto& [most, least] : pass.pages.at({layer, kv_head})) {
      double score = 0;
      for (const auto& [place, query] : pass.queries) {
        if (place[0] != layer || place[2] / 2 != kv_head || (row >= 0 && place[1] != row)) continue;
        for (size_t i = 0; i < query.size(); ++i) score += std::max(query[i] * most[i], query[i] * least[i]);
      }
      scores.push_back(score);
    }
    scores.back() = 1e30;  // the last page is always among them
    std::set<int32_t> cells;
    for (const int32_t page : largest(scores, budget / page_size)) {
      for (int32_t i = 0; i < page_size && page * page_size + i < pass.block.begin; ++i) {
        cells.insert(page * page_size + i);
      }
    }
    return cells;
  }

  double accuracy(const std::set<int32_t>& chosen, int32_t budget) const {
    double sum_of_rows = 0;
    for (int32_t row = 0; row < kBlock; ++row) sum_of_rows += common(chosen, of_row(row, budget)) / budget;
    return sum_of_rows / kBlock;
  }

  double accuracy_of_own_pages(int32_t budget) const {
    double sum_of_rows = 0;
    for (int32_t row = 0; row < kBlock; ++row) {
      sum_of_rows += common(of_quest(budget, row), of_row(row, budget)) / budget;
    }
    return sum_of_rows / kBlock;
  }

  double united(int32_t budget) const {
    std::set<int32_t> all;
    for (int32_t row = 0; row < kBlock; ++row) all.merge(of_row(row, budget));
    return static_cast<double>(all.size()) / budget;
  }
};

TEST_F(RecallOfAModel, AgreesWithAPlainRecomputation) {
  const RecallFindings found = analyze();
  Tape tape;
  follow(*model_, *requests(model_->config(), blocks_options()).front(), tape);
  // All blocks have 32 cells or more before them: some more than 40.
  size_t expected = 0;
  size_t num_sparsed = 0;
  int32_t steps = 0;
  const int32_t exact_steps = 16 / 2;
  std::map<int32_t, const Tape::Pass*> remembered;
  ASSERT_FALSE(tape.passes().empty());
  const Tape::Pass* first = &tape.passes().front();
  for (const Tape::Pass& pass : tape.passes()) {
    if (pass.step == 1) first = &pass;
    ++steps;
    for (int32_t layer = 2; layer < 4; ++layer) {
      for (const int32_t budget : few_cells().budgets) {
        if (pass.block.begin <= budget) continue;
        ASSERT_LT(expected, found.cells.size());
        const CellObservation& seen = found.cells[expected++];
        EXPECT_EQ(seen.budget, budget);
        EXPECT_EQ(seen.place.layer, layer);
        EXPECT_EQ(seen.place.step, pass.step);
        std::array<double, 7> mean{};
        for (int32_t kv_head = 0; kv_head < 2; ++kv_head) {
          const NaiveHead now{pass, layer, kv_head};
          const NaiveHead then{*first, layer, kv_head};
          const std::set<int32_t> chosen = then.of_block(budget);
          mean[0] += common(chosen, now.of_block(budget)) / budget / 2;
          mean[1] += now.united(budget) / 2;
          mean[2] += now.accuracy(now.of_block(budget), budget) / 2;
          mean[3] += now.accuracy(chosen, budget) / 2;
          mean[4] += now.accuracy(now.of_quest(budget), budget) / 2;
          mean[5] += now.accuracy_of_own_pages(budget) / 2;
          if (!remembered.contains(budget)) continue;
          const Tape::Pass& source = *remembered[budget];
          std::set<int32_t> kept = NaiveHead{source, layer, kv_head}.of_block(budget);
          for (int32_t cell = source.block.begin; cell < pass.block.begin; ++cell) kept.insert(cell);
          mean[6] += now.accuracy(kept, budget) / 2;
        }
        EXPECT_NEAR(seen.recall, mean[0], 1e-9);
        EXPECT_NEAR(seen.union_ratio, mean[1], 1e-9);
        for (size_t p = 0; p < 4; ++p) EXPECT_NEAR(seen.policies[p]->accuracy, mean[2 + p], 1e-9) << p;
        EXPECT_EQ(seen.policies[4].has_value(), remembered.contains(budget)) << steps;
        if (!seen.policies[4]) continue;
        ++num_sparsed;
        EXPECT_NEAR(seen.policies[4]->accuracy, mean[6], 1e-9);
      }
    }
    for (const int32_t budget : few_cells().budgets) {
      if (steps > exact_steps && pass.block.begin > budget) remembered.try_emplace(budget, &pass);
    }
  }
  EXPECT_EQ(expected, found.cells.size());
  EXPECT_GT(num_sparsed, 0);
}

TEST_F(RecallOfAModel, IsWholeAtTheFirstStep) {
  const RecallFindings found = analyze(blocks_options(), 2);
  bool falls = false;
  for (const CellObservation& seen : found.cells) {
    if (seen.place.step == 1) {
      EXPECT_EQ(seen.recall, 1);
      EXPECT_EQ(seen.policies[0]->accuracy, seen.policies[1]->accuracy);
      EXPECT_EQ(seen.policies[0]->error, seen.policies[1]->error);
    }
    falls = falls || seen.recall < 1;
    EXPECT_GE(seen.union_ratio, 1);
    EXPECT_LE(seen.union_ratio, kBlock);
    for (const std::optional<PolicyFigures>& policy : seen.policies) {
      if (!policy) continue;
      EXPECT_LE(policy->mass, 1 + 1e-6);
      EXPECT_GT(policy->error, 0);
    }
  }
  EXPECT_TRUE(falls);
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(squares);
}

double divergence(const std::vector<double>& now, const std::vector<double>& first) {
  double kl = 0;
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i] > 0) kl += now[i] * std::log(now[i] / first[i]);
  }
  return kl;
}

TEST_F(RecallOfAModel, ComparesHiddenStatesAndPredictionsWithTheBlocksFirstStep) {
  const RecallFindings found = analyze();
  Tape tape;
  follow(*model_, *requests(model_->config(), blocks_options()).front(), tape);
  const Tape::Pass* first = nullptr;
  size_t num_states = 0;
  size_t num_predictions = 0;
  for (const Tape::Pass& pass : tape.passes()) {
    if (pass.step == 1) first = &pass;
    for (int32_t layer = 2; layer < 4; ++layer) {
      const StateObservation& seen = found.states.at(num_states++);
      EXPECT_EQ(seen.place.layer, layer);
      const size_t width = first->hidden.at({layer, 0}).size();
      ASSERT_EQ(width, static_cast<size_t>(blocks_config().hidden_dim));
      const std::vector<double> zero(width);
      std::vector<double> mean_first(width);
      std::vector<double> mean_now(width);
      double gap = 0;
      double length = 0;
      for (int32_t row = 0; row < kBlock; ++row) {
        const std::vector<double>& then = first->hidden.at({layer, row});
        const std::vector<double>& now = pass.hidden.at({layer, row});
        gap += distance(now, then) / kBlock;
        length += distance(then, zero) / kBlock;
        for (size_t i = 0; i < width; ++i) {
          mean_first[i] += then[i] / kBlock;
          mean_now[i] += now[i] / kBlock;
        }
      }
      EXPECT_NEAR(seen.hidden.row, gap, 1e-6);
      EXPECT_NEAR(seen.hidden.row_relative, gap / length, 1e-6);
      EXPECT_NEAR(seen.hidden.block, distance(mean_now, mean_first), 1e-6);
      EXPECT_NEAR(seen.hidden.block_relative, distance(mean_now, mean_first) / distance(mean_first, zero),
                  1e-6);
    }
    double kl = 0;
    for (const auto& [position, now] : pass.predictions) {
      kl += divergence(now, first->predictions.at(position)) / static_cast<double>(pass.predictions.size());
    }
    const PredictionObservation& seen = found.predictions.at(num_predictions++);
    EXPECT_EQ(seen.place.step, pass.step);
    EXPECT_EQ(seen.place.masked, static_cast<double>(pass.predictions.size()) / kBlock);
    EXPECT_NEAR(seen.divergence, kl, 1e-6);
    EXPECT_EQ(seen.divergence > 0, pass.step > 1);
  }
  EXPECT_EQ(num_states, found.states.size());
  EXPECT_EQ(num_predictions, found.predictions.size());
}

TEST_F(RecallOfAModel, FindsThatQueriesAndHiddenStatesLeaveTheirFirstStep) {
  const RecallFindings found = analyze();
  for (const StateObservation& seen : found.states) {
    for (const StateGap& gap : {seen.query, seen.hidden}) {
      if (seen.place.step == 1) {
        EXPECT_EQ(gap.row, 0);
      } else {
        EXPECT_GT(gap.row, 0);
      }
      EXPECT_LE(gap.block, gap.row + 1e-9);
    }
    EXPECT_GT(seen.prefix_share, 0);
    EXPECT_LT(seen.prefix_share, 1);
  }
}

TEST_F(RecallOfAModel, CountsStepsTokensAndCommits) {
  for (const char* commit : {"fused", "apart"}) {
    GenerationOptions options = blocks_options();
    options.commit = commit;
    const RecallFindings found = analyze(options, 2);
    // The prompt's last two tokens stand in the first block.
    EXPECT_THAT(found.block_steps, ElementsAre(2, 4, 4, 4, 2, 4, 4, 4)) << commit;
    EXPECT_EQ(found.tokens, 2 * kAnswer) << commit;
    EXPECT_EQ(found.commits, 2 * 3) << commit;
    EXPECT_EQ(found.forward_passes, 28 + (options.commit == "apart" ? 6 : 0)) << commit;
  }
}

TEST_F(RecallOfAModel, SeesTheSameWhicheverPassKeepsABlock) {
  GenerationOptions apart = blocks_options();
  apart.commit = "apart";
  EXPECT_EQ(to_json(analyze()).at(0), to_json(analyze(apart)).at(0));
}

TEST_F(RecallOfAModel, DoesNotDependOnThreads) {
  ThreadPool alone(1);
  const RecallFindings one =
      analyze_recall(*model_, alone, requests(model_->config(), blocks_options()), few_cells());
  EXPECT_EQ(to_json(one), to_json(analyze()));
}

TEST_F(RecallOfAModel, NeverChangesWhatIsWritten) {
  GenerationOptions drawn = blocks_options();
  drawn.temperature = 0.8;
  drawn.unmask = "dynamic=0.3";
  GenerationOptions edited = blocks_options();
  edited.edit = "tau=0.05,most=4";
  for (const GenerationOptions& options : {drawn, edited}) {
    Engine engine(model_, 1);
    engine.add(std::move(requests(model_->config(), options).front()));
    engine.run();
    const auto watched = requests(model_->config(), options);
    const RecallFindings found = analyze_recall(*model_, threads_, watched, few_cells());
    EXPECT_THAT(watched.front()->canvas(), ElementsAreArray(engine.decoder(0).canvas()));
    EXPECT_EQ(found.tokens, kAnswer);
  }
}

TEST_F(RecallOfAModel, LooksAtShiftedModelsWithSubBlocks) {
  ModelConfig config = blocks_config();
  config.family = "fast-dllm";
  config.shifted_logits = true;
  config.sub_block_length = 2;
  const std::shared_ptr<const BackendModel> shifted =
      on_cpu(Model::random(config, 3, DType::kBF16, threads_), default_table(), threads_);
  GenerationOptions options = blocks_options();
  options.unmask = "low-confidence";
  const RecallFindings found =
      analyze_recall(*shifted, threads_, requests(shifted->config(), options), few_cells());
  EXPECT_EQ(found.tokens, kAnswer);
  EXPECT_EQ(found.commits, 3);
  EXPECT_EQ(found.cells.front().place.masked, 0.5);
  for (const PredictionObservation& seen : found.predictions) {
    EXPECT_EQ(seen.divergence > 0, seen.place.step > 1);
  }
  options.unmask = "sequential";
  options.cache = "block";
  EXPECT_THROW(analyze_recall(*shifted, threads_, requests(shifted->config(), options), few_cells()),
               InputError);
}

TEST_F(RecallOfAModel, ReportsRowsOfAKindSideBySide) {
  RecallSettings settings = few_cells();
  settings.budgets.push_back(1000);
  const nlohmann::ordered_json rows =
      to_json(analyze_recall(*model_, threads_, requests(model_->config(), blocks_options()), settings));
  std::vector<std::vector<std::string>> tables;
  for (const auto& row : rows) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : row.items()) keys.push_back(key);
    if (tables.empty() || tables.back() != keys) tables.push_back(keys);
  }
  // Recall and states: overall, by layer, step and masks; policies: overall, by layer; predictions: overall,
  // by step and masks; two of one row.
  EXPECT_EQ(tables.size(), 4 + 2 + 4 + 3 + 2) << rows.dump(1);
  EXPECT_EQ(rows.at(0).at("budget"), 6);
  const auto has = [](const char* key) { return [key](const auto& row) { return row.contains(key); }; };
  const auto overall = std::find_if(rows.begin(), rows.end(), has("kl"));
  const auto first_step = std::find_if(overall + 1, rows.end(), has("kl"));
  ASSERT_NE(first_step, rows.end());
  EXPECT_EQ(first_step->at("step"), 1);
  EXPECT_EQ(first_step->at("kl_max"), 0);
  // Overall rows exclude first steps: 10 of the 14 steps are later ones.
  EXPECT_EQ(overall->at("observations"), 10);
  EXPECT_GT(overall->at("kl"), 0);
  EXPECT_LE(overall->at("kl"), overall->at("kl_max"));
  EXPECT_THAT(rows.back().at("left_out"), "no block has more than 1000 cells before it");
}

TEST_F(RecallOfAModel, RefusesWhatItCannotLookAt) {
  const auto refuses = [&](const BackendModel& model, const GenerationOptions& options,
                           const RecallSettings& settings, const char* words) {
    try {
      analyze_recall(model, threads_, requests(model.config(), options), settings);
      ADD_FAILURE() << words;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(words));
    }
  };
  const GenerationOptions options = blocks_options();
  refuses(*model_, options, {{}, 3}, "--budgets");
  refuses(*model_, options, {{8, 8}, 3}, "--budgets");
  refuses(*model_, options, {{2}, 3}, "--budgets 2");
  refuses(*model_, options, {{200}, 3}, "more than 200 cells");
  GenerationOptions sparse = options;
  sparse.sparse = "mage=4";
  refuses(*model_, sparse, few_cells(), "sparse");
  ModelConfig shallow = blocks_config();
  shallow.num_layers = 2;
  refuses(*on_cpu(Model::random(shallow, 3, DType::kF32, threads_), default_table(), threads_), options,
          few_cells(), "2 layers");
  GenerationOptions masked;
  masked.gen_length = 4;
  ModelConfig llada = tiny_configs()[0];
  llada.num_layers = 3;
  refuses(*on_cpu(tiny_model(llada), default_table(), threads_), masked, few_cells(), "block diffusion");
}

}  // namespace
}  // namespace lacuna::recall_test
