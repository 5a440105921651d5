// Attention of one plan on the device, for benchmarks and tests of the kernel.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "backend/cuda/kernels/attention.h"
#include "bench/gpu/device_vectors.h"

namespace lacuna::cuda {

/// The tasks of a plan, and memory for the partial results of its chunks.
class UploadedAttention {
 public:
  UploadedAttention() = default;
  UploadedAttention(Stream& stream, std::span<const GroupCells> groups, const PagePool& pool,
                    int64_t num_heads)
      : pool_(pool), num_heads_(num_heads) {
    const AttentionPlan plan = plan_attention(groups, static_cast<int32_t>(num_heads / pool.num_kv_heads));
    num_tasks_ = static_cast<uint32_t>(plan.tasks.size());
    num_merges_ = static_cast<uint32_t>(plan.merges.size());
    tasks_ = upload(stream, plan.tasks);
    merges_ = upload(stream, plan.merges);
    runs_ = upload(stream, plan.runs);
    masks_ = upload(stream, plan.masks);
    mask_ends_ = upload(stream, plan.mask_ends);
    const size_t partials = plan.tasks.size() * static_cast<size_t>(pool.num_kv_heads) * kTaskQueries;
    partial_out_ = DeviceBuffer(partials * static_cast<size_t>(pool.head_dim) * sizeof(float));
    partial_max_ = DeviceBuffer(partials * sizeof(float));
    partial_sum_ = DeviceBuffer(partials * sizeof(float));
  }

  /// Sends the plan's attention of one layer, with scores divided by sqrt(head_dim).
  ///   wanted  page table, queries, out, out_stride, layer and soft cap; this function sets the other members
  void send(Stream& stream, AttendArguments wanted) const {
    wanted.pool = pool_;
    wanted.tasks = tasks_.as<AttendTask>();
    wanted.merges = merges_.as<MergeTask>();
    wanted.runs = runs_.as<TileRun>();
    wanted.masks = masks_.as<int32_t>();
    if (mask_ends_.bytes() > 0) wanted.mask_ends = mask_ends_.as<int32_t>();
    wanted.partial_out = partial_out_.as<float>();
    wanted.partial_max = partial_max_.as<float>();
    wanted.partial_sum = partial_sum_.as<float>();
    wanted.num_heads = num_heads_;
    wanted.scale = 1 / std::sqrt(static_cast<float>(pool_.head_dim));
    attend(stream, wanted, num_tasks_, num_merges_);
  }

 private:
  PagePool pool_;
  int64_t num_heads_ = 0;
  uint32_t num_tasks_ = 0;
  uint32_t num_merges_ = 0;
  DeviceBuffer tasks_, merges_, runs_, masks_, mask_ends_;
  DeviceBuffer partial_out_, partial_max_, partial_sum_;
};

}  // namespace lacuna::cuda
