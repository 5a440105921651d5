#include "weights/stored_matrix.h"

#include "base/error.h"

namespace lacuna {

void StoredMatrix::read_codes(int64_t /*n*/, QuantisedRow& /*out*/) const {
  expects(false, "codes are read of quantised matrices");
}

std::optional<PackedMatrix> StoredMatrix::panels(const WeightFormat& /*format*/, int64_t /*first*/,
                                                 int64_t /*count*/) const {
  return {};
}

PackedMatrix pack(ThreadPool& threads, const WeightFormat& format, const StoredMatrix& stored, int64_t first,
                  int64_t count, int64_t inputs) {
  if (std::optional<PackedMatrix> panels = stored.panels(format, first, count)) return std::move(*panels);
  if (format.is_quantised() && stored.quantisation() == format.quantisation) {
    return PackedMatrix::from_codes(threads, format.quantisation, count, inputs,
                                    [&](int64_t n, QuantisedRow& row) { stored.read_codes(first + n, row); });
  }
  return {threads, format, count, inputs, [&](int64_t n, float* row) { stored.read(first + n, row); }};
}

}  // namespace lacuna
