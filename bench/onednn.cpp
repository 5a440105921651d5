#include "bench/onednn.h"

#include <fmt/core.h>
#include <omp.h>

#include <cstring>
#include <dnnl.hpp>
#include <vector>

namespace lacuna {
namespace {

dnnl::memory reordered(const dnnl::engine& engine, dnnl::stream& stream, const dnnl::memory::desc& from,
                       const float* data, const dnnl::memory::desc& to) {
  dnnl::memory plain(from, engine, const_cast<float*>(data));
  dnnl::memory result(to, engine);
  dnnl::reorder(plain, result).execute(stream, plain, result);
  stream.wait();
  return result;
}

class Product : public OneDnnProduct {
 public:
  explicit Product(const ProductToTime& product)
      : engine_(dnnl::engine::kind::cpu, 0),
        stream_(engine_),
        type_(product.dtype == DType::kBF16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32) {
    const dnnl::memory::dims x_dims = {product.rows, product.inputs};
    const dnnl::memory::dims w_dims = {product.inputs, product.outputs};
    const dnnl::memory::dims out_dims = {product.rows, product.outputs};
    using Tag = dnnl::memory::format_tag;
    constexpr auto kF32 = dnnl::memory::data_type::f32;
    const dnnl::matmul::primitive_desc description(
        dnnl::matmul::desc({x_dims, type_, Tag::ab}, {w_dims, type_, Tag::any}, {out_dims, kF32, Tag::ab}),
        engine_);
    implementation_ = description.impl_info_str();
    matmul_ = dnnl::matmul(description);
    x_ = reordered({x_dims, kF32, Tag::ab}, product.x, description.src_desc());
    weights_.push_back(reordered({w_dims, kF32, Tag::ba}, product.weights, description.weights_desc()));
    for (int64_t copy = 1; copy < product.copies; ++copy) {
      weights_.emplace_back(description.weights_desc(), engine_);
      std::memcpy(weights_.back().get_data_handle(), weights_[0].get_data_handle(),
                  description.weights_desc().get_size());
    }
    out_ = dnnl::memory(description.dst_desc(), engine_);
  }

  std::string implementation() const override { return implementation_; }

  void run(int64_t copy) override {
    matmul_.execute(
        stream_,
        {{DNNL_ARG_SRC, x_}, {DNNL_ARG_WEIGHTS, weights_[static_cast<size_t>(copy)]}, {DNNL_ARG_DST, out_}});
    stream_.wait();
  }

  const float* out() const override { return static_cast<const float*>(out_.get_data_handle()); }

 private:
  dnnl::memory reordered(const dnnl::memory::desc& from, const float* data, const dnnl::memory::desc& to) {
    return lacuna::reordered(engine_, stream_, from, data, to);
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::memory::data_type type_;
  std::string implementation_;
  dnnl::matmul matmul_;
  dnnl::memory x_;
  std::vector<dnnl::memory> weights_;
  dnnl::memory out_;
};

/// Attention in which the query heads of one kv head are contiguous rows of one GEMM.
class HeadsAtOnce : public OneDnnAttention {
 public:
  explicit HeadsAtOnce(const AttentionToTime& work)
      : engine_(dnnl::engine::kind::cpu, 0),
        stream_(engine_),
        rows_(work.rows),
        head_dim_(work.head_dim),
        heads_per_kv_(work.num_heads / work.num_kv_heads) {
    const auto type =
        work.dtype == DType::kBF16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
    constexpr auto kF32 = dnnl::memory::data_type::f32;
    using Tag = dnnl::memory::format_tag;
    const int64_t heads = work.num_kv_heads;
    const dnnl::memory::dims q_dims = {heads, heads_per_kv_ * rows_, head_dim_};
    const dnnl::memory::dims key_dims = {heads, head_dim_, work.cells};
    const dnnl::memory::dims value_dims = {heads, work.cells, head_dim_};
    const dnnl::memory::dims score_dims = {heads, heads_per_kv_ * rows_, work.cells};
    dnnl::primitive_attr scaled;
    scaled.set_output_scales(0, {work.scale});
    const dnnl::matmul::primitive_desc first(
        dnnl::matmul::desc({q_dims, type, Tag::abc}, {key_dims, type, Tag::any},
                           {score_dims, type, Tag::abc}),
        scaled, engine_);
    const dnnl::softmax_forward::primitive_desc softmax(
        dnnl::softmax_forward::desc(dnnl::prop_kind::forward_inference, first.dst_desc(), 2), engine_);
    const dnnl::matmul::primitive_desc second(
        dnnl::matmul::desc(first.dst_desc(), {value_dims, type, Tag::any}, {q_dims, kF32, Tag::abc}),
        engine_);
    implementation_ =
        fmt::format("{}, {}, {}", first.impl_info_str(), softmax.impl_info_str(), second.impl_info_str());
    scores_of_ = dnnl::matmul(first);
    softmax_ = dnnl::softmax_forward(softmax);
    out_of_ = dnnl::matmul(second);

    std::vector<float> q(static_cast<size_t>(work.rows * work.num_heads * head_dim_));
    for (int64_t row = 0; row < rows_; ++row) {
      for (int64_t head = 0; head < work.num_heads; ++head) {
        std::memcpy(q.data() + place(row, head), work.q + (row * work.num_heads + head) * head_dim_,
                    static_cast<size_t>(head_dim_) * sizeof(float));
      }
    }
    q_ = reordered({q_dims, kF32, Tag::abc}, q.data(), first.src_desc());
    keys_ = reordered({key_dims, kF32, Tag::acb}, work.keys, first.weights_desc());
    values_ = reordered({value_dims, kF32, Tag::abc}, work.values, second.weights_desc());
    scores_ = dnnl::memory(first.dst_desc(), engine_);
    out_ = dnnl::memory(second.dst_desc(), engine_);
  }

  std::string implementation() const override { return implementation_; }

  void run() override {
    scores_of_.execute(stream_, {{DNNL_ARG_SRC, q_}, {DNNL_ARG_WEIGHTS, keys_}, {DNNL_ARG_DST, scores_}});
    softmax_.execute(stream_, {{DNNL_ARG_SRC, scores_}, {DNNL_ARG_DST, scores_}});
    out_of_.execute(stream_, {{DNNL_ARG_SRC, scores_}, {DNNL_ARG_WEIGHTS, values_}, {DNNL_ARG_DST, out_}});
    stream_.wait();
  }

  const float* out(int64_t row, int64_t head) const override {
    return static_cast<const float*>(out_.get_data_handle()) + place(row, head);
  }

 private:
  int64_t place(int64_t row, int64_t head) const { return (head * rows_ + row) * head_dim_; }
  dnnl::memory reordered(const dnnl::memory::desc& from, const float* data, const dnnl::memory::desc& to) {
    return lacuna::reordered(engine_, stream_, from, data, to);
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  int64_t rows_;
  int64_t head_dim_;
  int64_t heads_per_kv_;
  std::string implementation_;
  dnnl::matmul scores_of_;
  dnnl::softmax_forward softmax_;
  dnnl::matmul out_of_;
  dnnl::memory q_, keys_, values_, scores_, out_;
};

}  // namespace

std::string onednn_description() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

std::unique_ptr<OneDnnProduct> make_onednn_product(const ProductToTime& product, int threads) {
  omp_set_num_threads(threads);
  try {
    return std::make_unique<Product>(product);
  } catch (const dnnl::error&) {
    return nullptr;  // no implementation for this CPU
  }
}

std::unique_ptr<OneDnnAttention> make_onednn_attention(const AttentionToTime& work, int threads) {
  omp_set_num_threads(threads);
  try {
    return std::make_unique<HeadsAtOnce>(work);
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

}  // namespace lacuna
