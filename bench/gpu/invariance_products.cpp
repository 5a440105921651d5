#include "backend/cuda/kernels/experts.h"
#include "backend/cuda/kernels/product.h"
#include "backend/cuda/kernels/quantized_product.h"
#include "backend/cuda/kernels/wide_product.h"
#include "bench/gpu/device_vectors.h"
#include "bench/gpu/random_plans.h"

namespace lacuna::cuda {
namespace {

constexpr int64_t kOutputs = 208;  // not a multiple of a thread block's outputs
constexpr int32_t kExperts = 5;
constexpr int32_t kChoices = 2;

enum class PlanFormat : uint8_t { kBf16, kInt8, kFp8, kInt8Group, kInt4Group, kInt4Min };

struct NamedFormat {
  PlanFormat format;
  const char* name;
};
constexpr NamedFormat kPlanFormats[] = {{PlanFormat::kBf16, "bf16"},
                                        {PlanFormat::kInt8, "int8"},
                                        {PlanFormat::kFp8, "fp8"},
                                        {PlanFormat::kInt8Group, "int8-group"},
                                        {PlanFormat::kInt4Group, "int4-group"},
                                        {PlanFormat::kInt4Min, "int4-min"}};

struct NamedEpilogue {
  Epilogue epilogue;
  const char* name;
};
constexpr NamedEpilogue kEpilogues[] = {{Epilogue::kStore, "stored"},
                                        {Epilogue::kAddScaled, "added"},
                                        {Epilogue::kSwiglu, "SwiGLU"},
                                        {Epilogue::kGeglu, "GeGLU"},
                                        {Epilogue::kSquaredRelu, "squared ReLU"}};

/// The kernel that computes a plan.
enum class Kernel : uint8_t { kFewRows, kManyRows, kGrouped };

/// Weight matrices of several experts; dense GEMMs use the first.
class Products {
 public:
  Products(Stream& stream, const CheckSizes& sizes) : stream_(stream), depth_(sizes.plan_k_dim) {
    const auto weights = static_cast<size_t>(kExperts * kOutputs * depth_);
    x_ = upload(stream, random_bf16(static_cast<size_t>(sizes.plan_rows * depth_), 21));
    weights_ = upload(stream, random_bf16(weights, 22));
    codes_ = upload(stream, random_e4m3(weights, 23));
    scales_ = upload(stream, random_numbers(weights / kCodeGroup, 24));
    minimums_ = upload(stream, random_numbers(weights / kCodeGroup, 25));
    bias_ = upload(stream, random_numbers(static_cast<size_t>(kOutputs), 26));
    for (int32_t row = 0; row < static_cast<int32_t>(sizes.plan_rows); ++row) {
      const int32_t first = row % 3;  // most rows share an expert
      chosen_.push_back({first, 0.75F});
      chosen_.push_back({first == 2 ? 4 : 2, 0.5F});
    }
  }

  /// The outputs of the rows as bytes.
  std::vector<uint8_t> run(const Rows& rows, PlanFormat format, Epilogue epilogue, Kernel kernel) const {
    const size_t num_outs = rows.size() * (kernel == Kernel::kGrouped ? kChoices : 1);
    const bool is_f32 = epilogue == Epilogue::kStore || epilogue == Epilogue::kAddScaled;
    ProductArguments a;
    a.x = x_.as<uint16_t>();
    a.num_outputs = kOutputs;
    a.depth = depth_;
    a.out_stride = is_gated(epilogue) ? kOutputs / 2 : kOutputs;
    a.epilogue = epilogue;
    a.scale = 0.5F;
    if (kernel != Kernel::kGrouped && !is_gated(epilogue)) a.bias = bias_.as<float>();
    const DeviceBuffer out(num_outs * static_cast<size_t>(a.out_stride) * (is_f32 ? 4 : 2));
    stream_.fill(out.as<uint8_t>(), 0, out.bytes());
    if (is_f32) a.out_f32 = out.as<float>();
    if (!is_f32) a.out_bf16 = out.as<uint16_t>();
    GroupedCodes codes;
    if (format >= PlanFormat::kInt8Group) {
      const GroupFormat of_groups = format == PlanFormat::kInt8Group   ? GroupFormat::kInt8
                                    : format == PlanFormat::kInt4Group ? GroupFormat::kInt4
                                                                       : GroupFormat::kInt4Min;
      codes = {codes_.as<uint8_t>(), scales_.as<float>(), minimums_.as<float>(), of_groups};
    } else if (format == PlanFormat::kBf16) {
      a.weights = weights_.as<uint16_t>();
    } else {
      a.codes = codes_.as<uint8_t>();
      a.code_format = format == PlanFormat::kFp8 ? CodeFormat::kE4m3 : CodeFormat::kInt8;
      a.scales = scales_.as<float>();
    }
    if (kernel == Kernel::kGrouped) {
      send_to_experts(rows, a, codes);
    } else {
      send(rows, a, codes, kernel == Kernel::kManyRows);
    }
    return download<uint8_t>(stream_, out);
  }

 private:
  void send(const Rows& rows, ProductArguments a, const GroupedCodes& codes, bool is_wide) const {
    const DeviceBuffer partials(rows.size() * static_cast<size_t>(num_split(a) * kOutputs) * sizeof(float));
    a.partials = partials.as<float>();
    const DeviceBuffer list = upload(stream_, rows);
    a.rows = list.as<int32_t>();
    a.num_rows = static_cast<int64_t>(rows.size());
    if (codes.values != nullptr) {
      is_wide ? wide_quantized_product(stream_, {a, codes}) : quantized_product(stream_, {a, codes});
    } else {
      is_wide ? wide_product(stream_, a) : product(stream_, a);
    }
    stream_.wait();  // before the list is destroyed
  }

  void send_to_experts(const Rows& rows, const ProductArguments& a, const GroupedCodes& codes) const {
    std::vector<ChosenExpert> some;
    for (const int32_t row : rows) {
      const auto first = chosen_.begin() + kChoices * row;
      some.insert(some.end(), first, first + kChoices);
    }
    const auto entries = static_cast<int32_t>(some.size());
    const int32_t num_tiles = most_tiles(entries, kExperts);
    const DeviceBuffer chosen = upload(stream_, some);
    const DeviceBuffer sorted_entries(some.size() * sizeof(int32_t));
    const DeviceBuffer places(some.size() * sizeof(int32_t));
    const DeviceBuffer tiles(static_cast<size_t>(num_tiles) * sizeof(ExpertTile));
    sort_by_expert(stream_, {chosen.as<ChosenExpert>(), sorted_entries.as<int32_t>(), places.as<int32_t>(),
                             tiles.as<ExpertTile>(), entries, kChoices, kExperts});
    Rows sorted_rows = download<int32_t>(stream_, places);  // indices of rows in the plan
    for (int32_t& row : sorted_rows) row = rows[static_cast<size_t>(row)];
    const DeviceBuffer list = upload(stream_, sorted_rows);
    grouped_product(stream_,
                    {.product = a,
                     .tiles = tiles.as<ExpertTile>(),
                     .rows = list.as<int32_t>(),
                     .out_rows = sorted_entries.as<int32_t>(),
                     .expert_stride = kOutputs * depth_,
                     .tile_rows = expert_tile_rows(entries, kExperts),
                     .codes = codes},
                    num_tiles);
    stream_.wait();  // before the lists are destroyed
  }

  Stream& stream_;
  int64_t depth_;
  DeviceBuffer x_, weights_, codes_, scales_, minimums_, bias_;
  std::vector<ChosenExpert> chosen_;  // of all rows
};

}  // namespace

void compare_products(Stream& stream, const CheckSizes& sizes, uint64_t seed, CheckReport& report) {
  const Products products(stream, sizes);
  for (const NamedFormat& of : kPlanFormats) {
    for (const NamedEpilogue& to : kEpilogues) {
      // Kernels of one kind share epilogue code, so one format per kind is enough.
      if (to.epilogue != Epilogue::kStore && of.format != PlanFormat::kBf16 &&
          of.format != PlanFormat::kInt4Min)
        continue;
      const std::string name = std::string(", ") + of.name + ", " + to.name;
      compare<uint8_t>("product" + name, sizes, seed, report, [&](const Rows& rows) {
        return products.run(rows, of.format, to.epilogue, Kernel::kFewRows);
      });
      // The plan of all rows runs one kernel, plans of some rows the other.
      compare<uint8_t>("product of few and of many rows" + name, sizes, seed, report, [&](const Rows& rows) {
        const bool is_whole = std::ssize(rows) == sizes.plan_rows;
        return products.run(rows, of.format, to.epilogue, is_whole ? Kernel::kFewRows : Kernel::kManyRows);
      });
      if (to.epilogue != Epilogue::kStore && to.epilogue != Epilogue::kSwiglu) continue;
      compare<uint8_t>("product of experts" + name, sizes, seed, report, [&](const Rows& rows) {
        return products.run(rows, of.format, to.epilogue, Kernel::kGrouped);
      });
    }
    ++seed;
  }
}

}  // namespace lacuna::cuda
