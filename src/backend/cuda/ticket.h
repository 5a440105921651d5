// A pass that was sent to the device, and what is asked of its rows afterwards.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/device_model.h"
#include "backend/cuda/head.h"
#include "base/clock.h"
#include "base/error.h"

namespace lacuna::cuda {

/// Calls `work` with the device's mutex held and the device in use. After a failure there, all
/// later calls throw the same DeviceError. InputError and std::logic_error are the caller's; a pass for which
/// there is too little memory fails alone.
template <typename Work>
auto on_stream(DeviceStream& device, Work&& work) {
  const std::lock_guard lock(device.mutex);
  if (!device.failure.empty()) throw lacuna::DeviceError(device.failure);
  try {
    use_device(device.index);
    return work();
  } catch (const InputError&) {
    throw;
  } catch (const std::logic_error&) {
    throw;
  } catch (const std::bad_alloc&) {
    device.stream.wait();  // what was sent reads memory that is given up now
    throw std::runtime_error(
        "the device has too little memory left for this pass; expected fewer rows in it");
  } catch (const std::exception& error) {
    device.failure = "the device failed and computes nothing more: " + std::string(error.what());
    throw lacuna::DeviceError(device.failure);
  }
}

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
  void sample_more(std::span<const LogitRow> wanted);
  void read_classes(std::span<const ClassRow> wanted);
  void compare(std::span<const DriftProbe> probes);
  /// From downloaded logits: rows now, then `count` rows as they were; of both, those that guide come second.
  Drift guided_drift(const DriftProbe& probe, int64_t index, int64_t count);

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
  Event done_;
  bool has_result_ = false;
  PassResult result_;
  std::vector<RowStatistics> samples_, further_samples_;
  std::vector<float> kv_drift_, logits_;
  std::vector<Drift> drifts_;
  std::vector<ClassStatistics> classes_;
  PassTimes times_;
};

/// Compares the posteriors of rows of outputs from the host, now[i] with before[i].
void compare_outputs(DeviceModel& model, ConstMatrix<float> now, ConstMatrix<float> before,
                     std::span<Drift> drifts);

}  // namespace lacuna::cuda
