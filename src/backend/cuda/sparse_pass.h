// Sparse attention in a pass: the cells that groups are confined to, and the choice of cells for
// them and for later passes.
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

  /// Makes room in the sequences for what will be chosen, and lists what groups are confined to.
  ///   first_pages  of each sequence, in the page table
  void prepare(std::span<const int32_t> first_pages);
  void stage(Staging& staging);
  /// Whether some group chooses cells or is confined to them.
  bool chooses() const { return !groups_.empty(); }

  /// The layers at which what some group attends to changes, ascending; the first is 0.
  std::vector<int64_t> first_layers() const;
  static bool is_confined(const RowGroup& group, int64_t layer) {
    return group.sparse.is_confined() && layer >= group.sparse.dense_layers;
  }
  /// The cells of a confined group: its list's.
  void confine(const RowGroup& group, GroupCells& cells) const;

  /// Adds the lists to the arguments, and memory for what remember() needs.
  void complete(const Staging& staging, AttendArguments& attention);
  /// Chooses the cells of the best pages for the queries of this layer, which are there, as its keys are.
  ///   without_kv_only  whether groups that want K/V alone attend to nothing here
  void choose_pages(const AttendArguments& attention, bool without_kv_only);
  /// After attend(): sequences keep the cells with the most attention.
  void remember(const AttendArguments& attention, bool without_kv_only);

 private:
  struct Group {
    const RowGroup* group = nullptr;
    const CudaSequence* sequence = nullptr;
    int32_t first_page = 0;
    int32_t selection = -1;
    int32_t num_walked = 0;   ///< cells of the list
    int32_t num_bounded = 0;  ///< cells of which bounds are there before the pass
  };

  /// InputError where the model's attention has no sparse kernels.
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
