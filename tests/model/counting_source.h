// A checkpoint that counts what is read of it.
#pragma once

#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "model/adapters.h"
#include "model/parameters.h"
#include "weights/stored_matrix.h"

namespace lacuna {

class CountingSource final : public WeightSource {
 public:
  explicit CountingSource(std::unique_ptr<WeightSource> source) : source_(std::move(source)) {}

  /// Elements of matrices, whether they were read row by row or mapped as panels.
  int64_t elements() const { return elements_; }

  bool contains(std::string_view tensor) const override { return source_->contains(tensor); }
  std::vector<float> values(std::string_view name, std::span<const int64_t> shape) const override {
    return source_->values(name, shape);
  }
  std::unique_ptr<StoredMatrix> matrix(std::string_view module, int64_t outputs,
                                       int64_t inputs) const override {
    return std::make_unique<Counted>(source_->matrix(module, outputs, inputs), inputs, elements_);
  }
  void release_pages() const override { source_->release_pages(); }

 private:
  class Counted final : public StoredMatrix {
   public:
    Counted(std::unique_ptr<StoredMatrix> stored, int64_t inputs, std::atomic<int64_t>& elements)
        : stored_(std::move(stored)), inputs_(inputs), elements_(elements) {}

    void read(int64_t n, float* out) const override {
      elements_ += inputs_;
      stored_->read(n, out);
    }
    std::string place() const override { return stored_->place(); }
    std::optional<Quantization> quantization() const override { return stored_->quantization(); }
    void read_codes(int64_t n, QuantizedRow& out) const override {
      elements_ += inputs_;
      stored_->read_codes(n, out);
    }
    std::optional<PackedMatrix> panels(const WeightFormat& format, int64_t first,
                                       int64_t count) const override {
      std::optional<PackedMatrix> panels = stored_->panels(format, first, count);
      if (panels) elements_ += count * inputs_;
      return panels;
    }

   private:
    std::unique_ptr<StoredMatrix> stored_;
    int64_t inputs_;
    std::atomic<int64_t>& elements_;
  };

  std::unique_ptr<WeightSource> source_;
  mutable std::atomic<int64_t> elements_{0};
};

/// Share of a checkpoint's layers that one of several ranks reads and holds.
struct LayerShare {
  int64_t bytes = 0;     ///< bytes of the matrices that the rank holds
  int64_t elements = 0;  ///< elements that the rank has read
};

/// Without embedding and head, which are read all the same.
inline LayerShare share_of_layers(const std::filesystem::path& folder, const ModelConfig& config,
                                  const WeightFormats& formats, const ModelPart& part) {
  ThreadPool threads(1);
  const CountingSource source(open_weights(folder, config));
  const Parameters parameters = load_parameters(config, source, formats, threads, {}, part);
  const auto end = config.vocab_size * config.hidden_dim;
  const int64_t ends =
      (parameters.embedding.bytes() > 0 ? end : 0) + (parameters.own_head.bytes() > 0 ? end : 0);
  return {parameters.bytes() - parameters.embedding.bytes() - parameters.own_head.bytes(),
          source.elements() - ends};
}

/// That each rank reads and holds at most its share of the layers and 5%.
inline void expect_fair_shares(const std::filesystem::path& folder, const ModelConfig& config,
                               const WeightFormats& formats) {
  const LayerShare all = share_of_layers(folder, config, formats, {});
  for (const ShardBy by : {ShardBy::kOutputs, ShardBy::kLayers}) {
    for (const int ranks : {2, 4}) {
      for (int rank = 0; rank < ranks; ++rank) {
        const LayerShare share = share_of_layers(folder, config, formats, {rank, ranks, by});
        EXPECT_LE(static_cast<double>(share.bytes), 1.05 * static_cast<double>(all.bytes) / ranks)
            << folder << ", " << name_of(by) << ", rank " << rank << " of " << ranks;
        EXPECT_LE(static_cast<double>(share.elements), 1.05 * static_cast<double>(all.elements) / ranks)
            << folder << ", " << name_of(by) << ", rank " << rank << " of " << ranks;
      }
    }
  }
}

}  // namespace lacuna
