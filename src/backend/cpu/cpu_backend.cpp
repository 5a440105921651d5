#include "backend/cpu/cpu_backend.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/threads.h"
#include "cache/kv_cache.h"
#include "cache/output_cache.h"
#include "kernels/dispatch.h"

namespace lacuna {
namespace {

/// Bytes of a pool's sequences. Each sequence holds a reference, because the pool may be destroyed first.
using ByteCount = std::shared_ptr<int64_t>;

class CpuSequence final : public KvSequence {
 public:
  CpuSequence(const SequenceShape& shape, KvCache cache, int64_t hidden_dim, ByteCount count)
      : KvSequence(shape), cache_(std::move(cache)), count_(std::move(count)) {
    if (shape.kept_layers.size() > 0) cache_.keep_layers(shape.kept_layers, hidden_dim);
    if (!shape.remembers_outputs) return;
    outputs_.emplace(shape.num_cells, hidden_dim);
    *count_ += output_bytes();
  }
  ~CpuSequence() override { *count_ -= output_bytes(); }

  int32_t sink_cell() const override { return cache_.sink_cell(); }

  void read_cells(int64_t layer, int64_t kv_head, IndexRange cells, Matrix<float> keys,
                  Matrix<float> values) const override {
    expects(cells.begin >= 0 && cells.end <= cache_.num_cells(), "read_cells: the cells exist");
    expects(keys.rows >= cells.size() && values.rows >= cells.size(), "read_cells: there is room");
    for (int32_t cell = cells.begin; cell < cells.end; ++cell) {
      const int64_t row = cell - cells.begin;
      cache_.read(layer, cell, kv_head, keys.row(row), values.row(row));
    }
  }

  void read_outputs(std::span<const int32_t> cells, Matrix<float> out) const override {
    expects(outputs_.has_value(), "read_outputs: the sequence remembers outputs");
    expects(out.rows >= std::ssize(cells) && out.cols == outputs_->rows().cols,
            "read_outputs: there is room");
    for (size_t i = 0; i < cells.size(); ++i) {
      expects(cells[i] >= 0 && cells[i] < outputs_->rows().rows, "read_outputs: the cells exist");
      std::copy_n(outputs_->rows().row(cells[i]), out.cols, out.row(static_cast<int64_t>(i)));
    }
  }

  KvCache& cache() { return cache_; }
  const KvCache& cache() const { return cache_; }
  /// Null: nothing is remembered.
  OutputCache* outputs() { return outputs_ ? &*outputs_ : nullptr; }
  int64_t output_bytes() const {
    if (!outputs_) return 0;
    return outputs_->rows().rows * outputs_->rows().cols * static_cast<int64_t>(sizeof(float));
  }

 private:
  KvCache cache_;
  std::optional<OutputCache> outputs_;
  ByteCount count_;
};

class CpuPool final : public KvPool {
 public:
  CpuPool(std::shared_ptr<const Model> model, int64_t limit) : model_(std::move(model)), limit_(limit) {}

  int64_t bytes_for(const SequenceShape& shape, int64_t shared) const override {
    const KvShape kv = model_->kv_shape();
    const int64_t bytes = KvCache::bytes_for(kv, shape.num_cells) +
                          KvCache::kept_bytes(kv, shape.kept_layers, model_->config().hidden_dim) -
                          shared / kPageCells * KvCache::page_bytes(kv);
    if (!shape.remembers_outputs) return bytes;
    return bytes + shape.num_cells * model_->config().hidden_dim * static_cast<int64_t>(sizeof(float));
  }
  int64_t limit() const override { return limit_; }
  int64_t bytes() const override { return *count_; }

  int64_t bytes_of(std::span<const KvSequence* const> sequences) const override {
    std::unordered_set<const KvPage*> pages;
    int64_t bytes = 0;
    for (const KvSequence* sequence : sequences) {
      const auto& own = sequence_of<const CpuSequence>(*sequence);
      bytes += own.output_bytes() + own.cache().own_bytes();
      for (const auto& page : own.cache().pages()) {
        if (pages.insert(page.get()).second) bytes += page->memory.size();
      }
    }
    return bytes;
  }

  using KvPool::make_sequence;
  std::unique_ptr<KvSequence> make_sequence(const SequenceShape& shape, const KvPrefix& prefix) override {
    if (bytes_for(shape, prefix.count) > limit_ - *count_) return nullptr;
    KvCache cache = prefix.count == 0 ? model_->make_cache(shape.num_cells, count_)
                                      : KvCache(sequence_of<const CpuSequence>(*prefix.sequence).cache(),
                                                prefix.count, shape.num_cells);
    return std::make_unique<CpuSequence>(shape, std::move(cache), model_->config().hidden_dim, count_);
  }

  void take_prefix(KvSequence& to, const KvPrefix& prefix) override {
    sequence_of<CpuSequence>(to).cache().share_first_cells(
        sequence_of<const CpuSequence>(*prefix.sequence).cache(), prefix.count);
  }

 private:
  std::shared_ptr<const Model> model_;
  int64_t limit_;
  ByteCount count_ = std::make_shared<int64_t>(0);
};

/// Free list of workspaces. take() makes a new workspace if the list is empty.
class Workspaces {
 public:
  std::unique_ptr<Workspace> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      free_.reserve(++num_made_);  // so that give_back() cannot throw
      return std::make_unique<Workspace>();
    }
    std::unique_ptr<Workspace> workspace = std::move(free_.back());
    free_.pop_back();
    return workspace;
  }
  void give_back(std::unique_ptr<Workspace> workspace) noexcept {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(workspace));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> free_;
  size_t num_made_ = 0;
};

class CpuTicket final : public PassTicket {
 public:
  CpuTicket(const Model& model, const CpuDevice& device, Workspaces& workspaces, const StepPlan& plan,
            std::span<KvSequence* const> sequences, const PassOptions& options)
      : model_(model),
        device_(device),
        context_(device.context()),
        workspaces_(workspaces),
        plan_(plan),
        workspace_(workspaces.take()) {
    for (KvSequence* sequence : sequences) {
      auto& own = sequence_of<CpuSequence>(*sequence);
      caches_.push_back(&own.cache());
      outputs_.push_back(own.outputs());
      remembers_ = remembers_ || own.outputs() != nullptr;
    }
    check_cells();
    if (options.observe_attention) observe(options.observe_attention);
    const std::lock_guard lock(device_.mutex());
    result_ = model_.forward(context_, plan_, caches_, *workspace_);
    workspace_->attention_probe = {};
    times_ += workspace_->times;
  }
  ~CpuTicket() override { workspaces_.give_back(std::move(workspace_)); }

  const PassResult& wait() override { return result_; }

  FollowUpResult follow_up(const FollowUp& wanted) override {
    const std::lock_guard lock(device_.mutex());
    const FollowUpResult result =
        model_.follow_up(context_, plan_, wanted, remembered_outputs(), *workspace_, /*remembers=*/false);
    times_ += workspace_->times;
    return result;
  }

  void remember_outputs() override {
    if (!remembers_) return;
    const std::lock_guard lock(device_.mutex());
    model_.follow_up(context_, plan_, {}, outputs_, *workspace_);
    times_ += workspace_->times;
  }

  void read_logits(std::span<const LogitRow> wanted, Matrix<float> out) override {
    const std::lock_guard lock(device_.mutex());
    model_.read_logits(context_, plan_, wanted, *workspace_, out);
    times_ += workspace_->times;
  }

  PassTimes times() const override { return times_; }

 private:
  void check_cells() const {
    for (const RowGroup& group : plan_.groups) {
      const KvCache& cache = *caches_[static_cast<size_t>(group.sequence)];
      for (int32_t row = group.rows.begin; row < group.rows.end; ++row) {
        expects(!cache.shares_page_of(plan_.cells[static_cast<size_t>(row)]),
                "submit: no pass writes to a prefix that sequences share");
      }
    }
  }

  std::span<OutputCache* const> remembered_outputs() const {
    return remembers_ ? std::span<OutputCache* const>(outputs_) : std::span<OutputCache* const>();
  }

  void observe(const std::function<void(const ObservedAttention&)>& observer) {
    workspace_->attention_probe = [this, observer](const AttentionRow& seen) {
      // The residual stream still holds the layer's input: it changes only after attention of all rows.
      const std::span<const float> hidden = workspace_->layer_input(seen.row, model_.config().hidden_dim);
      observer({workspace_->layer, seen.row, seen.head, hidden, seen.query, seen.tile_runs, seen.weights,
                seen.sum});
    };
  }

  const Model& model_;
  const CpuDevice& device_;
  const KernelContext context_;
  Workspaces& workspaces_;
  const StepPlan& plan_;
  std::unique_ptr<Workspace> workspace_;
  std::vector<KvCache*> caches_;
  std::vector<OutputCache*> outputs_;
  bool remembers_ = false;
  PassResult result_;
  PassTimes times_;
};

class CpuModel final : public BackendModel {
 public:
  CpuModel(std::shared_ptr<const Model> model, std::shared_ptr<const CpuDevice> device)
      : model_(std::move(model)), device_(std::move(device)) {}

  const ModelConfig& config() const override { return model_->config(); }
  std::string_view device() const override { return device_->kernels().name; }
  bool reuses_rows() const override { return true; }
  DType dtype() const override { return model_->dtype(); }
  int64_t weight_bytes() const override { return model_->weight_bytes(); }
  ModelBytes bytes_of_passes() const override { return model_->bytes_of_passes(); }

  std::unique_ptr<KvPool> make_pool(int64_t limit) const override {
    return std::make_unique<CpuPool>(model_, limit);
  }

  std::unique_ptr<PassTicket> submit(const StepPlan& plan, std::span<KvSequence* const> sequences,
                                     const PassOptions& options) const override {
    return std::make_unique<CpuTicket>(*model_, *device_, workspaces_, plan, sequences, options);
  }

  void keep_soft_embeddings(KvSequence& sequence, std::span<const int32_t> cells,
                            ConstMatrix<float> distributions) const override {
    const std::lock_guard lock(device_->mutex());
    model_->keep_soft_embeddings(device_->context(), sequence_of<CpuSequence>(sequence).cache(), cells,
                                 distributions);
  }

  void compare_outputs(ConstMatrix<float> now, ConstMatrix<float> before,
                       std::span<Drift> drifts) const override {
    std::unique_ptr<Workspace> workspace = workspaces_.take();
    const std::lock_guard lock(device_->mutex());
    model_->compare_outputs(device_->context(), now, before, *workspace, drifts);
    workspaces_.give_back(std::move(workspace));
  }

 private:
  std::shared_ptr<const Model> model_;
  std::shared_ptr<const CpuDevice> device_;
  mutable Workspaces workspaces_;
};

}  // namespace

CpuDevice::CpuDevice(int threads, bool pin)
    : own_threads_(std::make_unique<ThreadPool>(threads)),
      kernels_(default_table()),
      threads_(*own_threads_) {
  if (pin) pin_workers(threads_);
}

CpuDevice::CpuDevice(const KernelTable& kernels, ThreadPool& threads)
    : kernels_(kernels), threads_(threads) {}

std::shared_ptr<const BackendModel> on_cpu(std::shared_ptr<const Model> model,
                                           std::shared_ptr<const CpuDevice> device) {
  if (model == nullptr) return nullptr;
  return std::make_shared<const CpuModel>(std::move(model), std::move(device));
}

std::shared_ptr<const BackendModel> on_cpu(std::shared_ptr<const Model> model, const KernelTable& kernels,
                                           ThreadPool& threads) {
  return on_cpu(std::move(model), std::make_shared<const CpuDevice>(kernels, threads));
}

std::shared_ptr<const BackendModel> load_on_cpu(const std::shared_ptr<const CpuDevice>& device,
                                                const std::filesystem::path& folder,
                                                const ModelConfig& config, const WeightFormats& formats,
                                                uint64_t random_seed, const LoadProgress& progress) {
  ThreadPool& threads = device->threads();
  return on_cpu(folder.empty() ? Model::random(config, random_seed, formats, threads, progress)
                               : Model::load(folder, config, formats, threads, progress),
                device);
}

RunMemory predict_cpu_memory(const ModelConfig& config, const WeightFormats& formats, int64_t canvas,
                             const WeightSource* stored) {
  const KvShape shape = kv_shape(config, formats.dtype, formats.kv_int8);
  return {predicted_bytes(config, formats, stored), KvCache::bytes_for(shape, canvas),
          predicted_workspace_bytes(config, formats, default_table(), canvas)};
}

}  // namespace lacuna
