#include "orders.h"

namespace lacuna::simt {

void in_every_order(const std::function<void(const std::string& order)>& body) {
  body("the device's order");
}

std::optional<BankCounts> bank_counts_of(const std::function<void()>& /*run*/) {
  return std::nullopt;
}

}  // namespace lacuna::simt
