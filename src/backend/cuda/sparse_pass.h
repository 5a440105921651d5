// Sparse attention in a pass: selects the cells that groups attend to, in this pass or later ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cuda/device_model.h"
#include "backend/cuda/kernels/attention.h"
#include "backend/cuda/staging.h"
#include "model/plan.h"

namespace lacuna::cuda {

/// Not thread-safe: the caller holds the device's mutex.
class SparsePass {
 public:
  ///   sequences  one per sequence that the plan names
  SparsePass(DeviceModel& model, const StepPlan& plan, std::span<const CudaSequence* const> sequences)
      : model_(model), plan_(plan), sequences_(sequences) {}

  /// Reserves memory in the sequences for selections, and lists the cells of confined groups.
  ///   first_pages  index of each sequence's first page in the page table
  void prepare(std::span<const int32_t> first_pages);
  void stage(Staging& staging);
  /// Whether some group selects cells or is confined to a selection.
  bool chooses() const { return !groups_.empty(); }

  /// First layers of ranges with the same kind of attention (dense or confined), ascending from 0.
  std::vector<int64_t> first_layers() const;
  static bool is_confined(const RowGroup& group, int64_t layer) {
    return group.sparse.is_confined() && layer >= group.sparse.dense_layers;
  }
  /// Replaces the cells of a confined group by its selection.
  void confine(const RowGroup& group, GroupCells& cells) const;

  /// Adds the selections to the arguments, and buffers for remember().
  void complete(const Staging& staging, AttendArguments& attention);
  /// Chooses the cells of the best pages for the queries of this layer; its queries and keys must be
  /// computed.
  ///   without_kv_only  whether to skip K/V-only groups, which do not attend in this layer
  void choose_pages(const AttendArguments& attention, bool without_kv_only);
  /// After attend(): stores the cells with the most attention in the sequences.
  void remember(const AttendArguments& attention, bool without_kv_only);

 private:
  struct Group {
    const RowGroup* group = nullptr;
    const CudaSequence* sequence = nullptr;
    int32_t first_page = 0;
    int32_t selection = -1;
    int32_t num_walked = 0;   ///< cells of its selection
    int32_t num_bounded = 0;  ///< cells with bounds from earlier passes
  };

  /// Throws InputError if the model's attention has no sparse kernels.
  void expect_supported() const;
  void reserve_chosen(const Group& group);
  void reserve_bounds(Group& group);
  void reserve_scratch();
  int32_t* chosen_of(const Group& group, int64_t layer) const;

  DeviceModel& model_;
  const StepPlan& plan_;
  std::span<const CudaSequence* const> sequences_;
  std::vector<Group> groups_;  // groups that do not attend to all cells
  std::vector<CellSelection> selections_;
  std::vector<int32_t> behind_;
  Staged<CellSelection> staged_selections_;
  Staged<int32_t> staged_behind_;
};

}  // namespace lacuna::cuda
