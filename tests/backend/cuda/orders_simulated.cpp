#include <array>

#include "backend/cuda/simt/scheduler.h"
#include "orders.h"

namespace lacuna::simt {
namespace {

struct NamedOrder {
  const char* name;
  SimulatorOptions options;
};

constexpr std::array<NamedOrder, 3> kOrders = {{{"first come", {ThreadOrder::kFirstCome, 0}},
                                                {"random", {ThreadOrder::kRandom, 17}},
                                                {"last come", {ThreadOrder::kLastCome, 29}}}};

}  // namespace

void in_every_order(const std::function<void(const std::string& order)>& body) {
  for (const NamedOrder& order : kOrders) {
    simulator_options() = order.options;
    body(order.name);
  }
  simulator_options() = {};
}

std::optional<BankCounts> bank_counts_of(const std::function<void()>& run) {
  simulator_counters() = {};
  run();
  return BankCounts{simulator_counters().matrix_phases, simulator_counters().bank_conflicts};
}

}  // namespace lacuna::simt
