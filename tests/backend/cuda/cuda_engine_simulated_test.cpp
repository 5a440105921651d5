// Whole requests on a device that fails, which only the simulator can be made to do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/kv_pool.h"
#include "cuda_models.h"
#include "engine/inference_session.h"
#include "engine/scheduler.h"
#include "options/choose.h"

namespace lacuna::cuda::cuda_engine_simulated_test {
namespace {

using testing::HasSubstr;

/// Hears how a request ends.
class Listener final : public RequestListener {
 public:
  bool stepped(const StepEvent& /*event*/) override { return true; }
  void finished(const Decoder& /*decoder*/, const RunStatistics& /*statistics*/) override { end("finished"); }
  void failed(const std::string& sentence) override { end(sentence); }

  std::string wait() { return ended_.get_future().get(); }

 private:
  void end(const std::string& how) { ended_.set_value(how); }

  std::promise<std::string> ended_;
};

TEST(SimulatedCudaEngine, EndsAllRequestsWithASentenceOnceTheDeviceHasFailed) {
  const ModelConfig config = config_of("llada");
  const auto device = open_cuda_device(0);
  const auto model = load_on_cuda(device, one_thread(), {}, config, DType::kBF16, kWeightSeed, {}, {1 << 20});
  Scheduler scheduler(model, nullptr, own_limits(2));
  device->stream()->stream.enqueue([] { throw std::runtime_error("an illegal address was read"); });
  GenerationOptions options;
  options.gen_length = 4;
  options.seed = 5;
  std::vector<Scheduler::Job> jobs;
  std::vector<std::shared_ptr<Listener>> listeners;
  for (const uint64_t seed : {1, 2}) {
    listeners.push_back(std::make_shared<Listener>());
    jobs.push_back({make_decoder(config, options, random_tokens(seed, 9, 80)), listeners.back()});
  }
  scheduler.submit(std::move(jobs));
  const auto sentence = HasSubstr("the device failed and computes nothing more: an illegal address was read");
  for (const auto& listener : listeners) EXPECT_THAT(listener->wait(), sentence);
  EXPECT_THAT(scheduler.failure(), sentence);
}

}  // namespace
}  // namespace lacuna::cuda::cuda_engine_simulated_test
