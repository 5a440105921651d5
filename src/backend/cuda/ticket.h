// A pass that was sent to the device, and follow-ups on its rows.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/device_model.h"
#include "backend/cuda/head.h"
#include "base/clock.h"

namespace lacuna::cuda {

/// Free list of PassMemory. take() makes a new one if the list is empty, so two passes in flight alternate
/// between two.
class PassMemories {
 public:
  std::unique_ptr<PassMemory> take();
  void give_back(std::unique_ptr<PassMemory> memory);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<PassMemory>> free_;
};

class CudaTicket final : public PassTicket {
 public:
  /// Sends the pass.
  CudaTicket(DeviceModel& model, const CpuDevice& host, PassMemories& memories, const StepPlan& plan,
             std::span<KvSequence* const> sequences);
  ~CudaTicket() override;

  const PassResult& wait() override;
  FollowUpResult follow_up(const FollowUp& wanted) override;
  void remember_outputs() override;
  void read_logits(std::span<const LogitRow> wanted, Matrix<float> out) override;
  PassTimes times() const override { return times_; }

 private:
  void send();
  /// Splits the indices of `wanted` into rows sampled on the device and on the host.
  std::pair<std::vector<size_t>, std::vector<size_t>> split(std::span<const LogitRow> wanted) const;
  void take_statistics(const DrawStatistics* drawn, std::span<const size_t> indices,
                       std::span<const LogitRow> wanted, std::vector<RowStatistics>& samples) const;
  void draw_on_host(std::span<const size_t> indices, std::span<const LogitRow> wanted,
                    std::vector<RowStatistics>& samples);
  /// Stores the soft embeddings of rows that the host sampled; overwrites their logits by token weights.
  void keep_soft_embeddings(std::span<const LogitRow> wanted, Matrix<float> logits);
  void sample_more(std::span<const LogitRow> wanted);
  void read_classes(std::span<const ClassRow> wanted);
  void compare(std::span<const DriftProbe> probes);
  /// Drift with guidance from downloaded logits: `count` current rows, then `count` remembered rows; in each
  /// half the unconditional rows come second.
  Drift guided_drift(const DriftProbe& probe, int64_t index, int64_t count);

  /// Calls send(stream), which may use PassMemory::questions, then waits for its work without the device's
  /// mutex.
  template <typename Send>
  void ask(Send&& send);
  /// Pinned memory for `count` downloaded values, valid until the next call.
  template <typename T>
  std::span<T> answers(size_t count);
  /// Multiplies downloaded logits by the model's logit scale.
  void scale_logits();
  /// Downloads logits in chunks, applies guidance, and calls use(first, logits) for each chunk.
  template <typename Use>
  void for_each_logits(std::span<const LogitRow> wanted, Use&& use);
  /// Calls body(i) for each row of a chunk, on the host's threads.
  template <typename Body>
  void on_host_threads(int64_t count, Body&& body);
  /// Address where the row's sequence remembers the output of `cell`.
  float* remembered(int32_t row, int32_t cell) const;

  DeviceModel& model_;
  const CpuDevice& host_;
  PassMemories& memories_;
  const StepPlan& plan_;
  std::unique_ptr<PassMemory> memory_;
  DeviceHead head_;
  std::vector<const CudaSequence*> sequences_;
  std::vector<int32_t> row_sequence_;
  std::vector<size_t> drawn_, host_drawn_;  // indices into the plan's logits, by where they are sampled
  Event done_, answered_;
  bool has_result_ = false;
  PassResult result_;
  std::vector<RowStatistics> samples_, further_samples_;
  std::span<float> logits_;  // downloaded last
  std::vector<Drift> drifts_;
  std::vector<ClassStatistics> classes_;
  PassTimes times_;
};

/// Measures the drift between the posteriors of output rows before[i] and now[i] in host memory.
void compare_outputs(DeviceModel& model, ConstMatrix<float> now, ConstMatrix<float> before,
                     std::span<Drift> drifts);

}  // namespace lacuna::cuda
