// The orders of threads and blocks that every kernel is tried in.
#pragma once

#include <array>
#include <string>

#include "backend/cuda/simt/scheduler.h"

namespace lacuna::simt {

inline constexpr std::array<SimulatorOptions, 3> kOrders = {
    {{ThreadOrder::kFirstCome, 0}, {ThreadOrder::kRandom, 17}, {ThreadOrder::kLastCome, 29}}};

inline std::string name_of(const SimulatorOptions& options) {
  switch (options.order) {
    case ThreadOrder::kFirstCome:
      return "first come";
    case ThreadOrder::kRandom:
      return "random";
    case ThreadOrder::kLastCome:
      return "last come";
  }
  return "";
}

/// Calls `body` in each order.
template <typename Body>
void in_every_order(Body&& body) {
  for (const SimulatorOptions& order : kOrders) {
    simulator_options() = order;
    body(name_of(order));
  }
  simulator_options() = {};
}

}  // namespace lacuna::simt
