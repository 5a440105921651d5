// One visitor from several lambdas, for std::visit.
#pragma once

namespace lacuna {

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

}  // namespace lacuna
