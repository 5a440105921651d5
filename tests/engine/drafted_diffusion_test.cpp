// Drafts of a smaller model on real passes.
#include <gmock/gmock.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "engine/engine.h"
#include "model/tiny_models.h"
#include "options/choose.h"
#include "wish.h"

namespace lacuna::drafted_diffusion_test {
namespace {

struct Answer {
  std::vector<TokenId> canvas;
  std::vector<Commit> committed;
  int32_t verified = 0;  // passes
  RunStatistics statistics;
};

std::map<size_t, Answer> run(const std::shared_ptr<const Model>& model,
                             const std::shared_ptr<const Model>& guide, const std::vector<Wish>& wishes,
                             int num_threads = 1, int32_t max_running = 1) {
  ThreadPool threads(num_threads);
  Engine engine(on_cpu(model, default_table(), threads), max_running,
                guide ? on_cpu(guide, default_table(), threads) : nullptr);
  for (const Wish& wish : wishes) engine.add(make_decoder(*model, wish, guide.get()));
  std::map<size_t, Answer> answers;
  engine.run([&](const StepEvent& event) {
    Answer& answer = answers[event.request];
    const std::vector<Commit>& committed = event.report.committed;
    answer.committed.insert(answer.committed.end(), committed.begin(), committed.end());
    answer.verified += event.report.kind == "verify" ? 1 : 0;
    answer.statistics = event.statistics;
  });
  for (auto& [request, answer] : answers) {
    const std::span<const TokenId> canvas = engine.decoder(request).canvas();
    answer.canvas.assign(canvas.begin(), canvas.end());
  }
  return answers;
}

std::vector<Wish> random_wishes(const ModelConfig& config, int32_t count) {
  const std::vector<std::string> rules = {"low-confidence", "random", "sequential", "dynamic=0.03"};
  std::vector<Wish> wishes;
  for (int32_t i = 0; i < count; ++i) {
    const RngStream choose(i, 77);
    Wish wish;
    for (uint32_t at = 0; at < choose.below(0, 23); ++at)
      wish.prompt.push_back(
          1 + static_cast<TokenId>(choose.below(10 + at, static_cast<uint32_t>(config.vocab_size) - 4)));
    wish.options.gen_length = 1 + static_cast<int32_t>(choose.below(1, 24));
    wish.options.block_length = 2 << choose.below(2, 3);
    wish.options.unmask = rules[choose.below(3, 4)];
    wish.options.seed = choose.bits(4);
    if (choose.below(5, 2) == 1) wish.options.temperature = 0.5;
    if (choose.below(6, 2) == 1)
      wish.options.steps =
          1 + static_cast<int32_t>(choose.below(7, static_cast<uint32_t>(*wish.options.block_length)));
    wish.options.ignore_eos = choose.below(8, 2) == 1;
    wishes.push_back(wish);
  }
  return wishes;
}

TEST(DraftedDiffusion, AModelOfOneLayerThatIsItsOwnGuideWritesItsOwnText) {
  ModelConfig config = tiny_block_config(4);
  config.num_layers = 1;
  const auto model = tiny_model(config, DType::kF32);
  for (const Wish& wish : random_wishes(config, 60)) {
    const Answer drafted = run(model, model, {wish})[0], own = run(model, nullptr, {wish})[0];
    EXPECT_EQ(drafted.canvas, own.canvas);
    const auto length = static_cast<int32_t>(own.canvas.size()), block = *wish.options.block_length;
    EXPECT_EQ(drafted.verified, (length - 1) / block - static_cast<int32_t>(wish.prompt.size()) / block + 1)
        << "every draft is accepted";
  }
}

TEST(DraftedDiffusion, AnswersDoNotDependOnOtherRequestsOrThreads) {
  const ModelConfig config = tiny_block_config(4);
  ModelConfig smaller = config;
  smaller.num_layers = 1;
  const auto model = tiny_model(config, DType::kF32), guide = tiny_model(smaller, DType::kF32);
  const std::vector<Wish> wishes = random_wishes(config, 12);
  for (const int num_threads : {1, 2}) {
    std::map<size_t, Answer> together = run(model, guide, wishes, num_threads, 7);
    for (size_t i = 0; i < wishes.size(); ++i)
      EXPECT_EQ(together[i].committed, run(model, guide, {wishes[i]})[0].committed);
  }
}

TEST(DraftedDiffusion, CountsThePassesOfBothModels) {
  const auto model = tiny_model(tiny_block_config(4), DType::kF32);
  Wish wish{{1, 5, 7, 3, 2, 6, 4, 8}, {}};
  wish.options.gen_length = 4;
  wish.options.ignore_eos = true;
  const Answer answer = run(model, model, {wish})[0];
  EXPECT_EQ(answer.statistics.steps, answer.verified);
  EXPECT_GT(answer.statistics.guide_rows, 0);
  EXPECT_GT(answer.statistics.forward_passes, answer.verified);
}

}  // namespace
}  // namespace lacuna::drafted_diffusion_test
