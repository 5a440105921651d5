#include "bench/onednn.h"

namespace lacuna {

std::string onednn_description() {
  return "absent: install libdnnl-dev and configure again";
}

std::unique_ptr<OneDnnProduct> make_onednn_product(const ProductToTime&, int) {
  return nullptr;
}

std::unique_ptr<OneDnnAttention> make_onednn_attention(const AttentionToTime&, int) {
  return nullptr;
}

}  // namespace lacuna
