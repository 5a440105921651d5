#include "bench/onednn.h"

#include <fmt/core.h>
#include <omp.h>

#include <cstring>
#include <dnnl.hpp>
#include <vector>

namespace lacuna {
namespace {

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
    dnnl::memory plain(from, engine_, const_cast<float*>(data));
    dnnl::memory result(to, engine_);
    dnnl::reorder(plain, result).execute(stream_, plain, result);
    stream_.wait();
    return result;
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

}  // namespace lacuna
