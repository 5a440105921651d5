// A pass that was sent to the device, and what is asked of its rows afterwards.
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

/// Memory of passes that nobody uses just now. A pass that finds none gets a new one, which stays: with two
/// passes in flight, two take turns.
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
  /// Splits what is wanted by where it is drawn. Returns indices into `wanted`.
  std::pair<std::vector<size_t>, std::vector<size_t>> split(std::span<const LogitRow> wanted) const;
  void take_statistics(const DrawStatistics* drawn, std::span<const size_t> indices,
                       std::span<const LogitRow> wanted, std::vector<RowStatistics>& samples) const;
  void draw_on_host(std::span<const size_t> indices, std::span<const LogitRow> wanted,
                    std::vector<RowStatistics>& samples);
  /// Keeps the soft embeddings of rows that were drawn on the host; their logits become weights.
  void keep_soft_embeddings(std::span<const LogitRow> wanted, Matrix<float> logits);
  void sample_more(std::span<const LogitRow> wanted);
  void read_classes(std::span<const ClassRow> wanted);
  void compare(std::span<const DriftProbe> probes);
  /// From downloaded logits: rows now, then `count` rows as they were; of both, those that guide come second.
  Drift guided_drift(const DriftProbe& probe, int64_t index, int64_t count);

  /// Calls send(stream), which may stage questions, and waits for what it sent without the device's mutex.
  template <typename Send>
  void ask(Send&& send);
  /// Pinned memory for `count` values that a question brings, until the next.
  template <typename T>
  std::span<T> answers(size_t count);
  /// Multiplies downloaded logits by the model's scale of logits.
  void scale_logits();
  /// Calls use(first, logits) for one chunk of downloaded logits after the other, with guidance applied.
  template <typename Use>
  void for_each_logits(std::span<const LogitRow> wanted, Use&& use);
  /// Calls body(i) for each row of a chunk, on the host's threads.
  template <typename Body>
  void on_host_threads(int64_t count, Body&& body);
  /// Where a sequence remembers the output of a row's cell.
  float* remembered(int32_t row, int32_t cell) const;

  DeviceModel& model_;
  const CpuDevice& host_;
  PassMemories& memories_;
  const StepPlan& plan_;
  std::unique_ptr<PassMemory> memory_;
  DeviceHead head_;
  std::vector<const CudaSequence*> sequences_;
  std::vector<int32_t> row_sequence_;
  std::vector<size_t> drawn_, host_drawn_;  // of the plan's logits
  Event done_, answered_;
  bool has_result_ = false;
  PassResult result_;
  std::vector<RowStatistics> samples_, further_samples_;
  std::span<float> logits_;  // of the last question that brought some
  std::vector<Drift> drifts_;
  std::vector<ClassStatistics> classes_;
  PassTimes times_;
};

/// Compares the posteriors of rows of outputs from the host, now[i] with before[i].
void compare_outputs(DeviceModel& model, ConstMatrix<float> now, ConstMatrix<float> before,
                     std::span<Drift> drifts);

}  // namespace lacuna::cuda
