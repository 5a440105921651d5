// A std::variant that can be copied while memory runs out.
#pragma once

#include <type_traits>
#include <variant>

namespace lacuna {

/// A std::variant of strings, vectors, pointers and trivially copyable types. libstdc++ assumes that such a
/// variant is never valueless: if copying an alternative throws, the destructor of the unfinished variant
/// reads an uninitialized index. This class copies the alternative first. std::visit, std::get and
/// comparisons accept it.
template <typename... Types>
class Variant : public std::variant<Types...> {
  using Base = std::variant<Types...>;
  static_assert((std::is_nothrow_move_constructible_v<Types> && ...));

 public:
  using Base::Base;
  Variant() = default;
  Variant(const Variant& other)
      : Base(std::visit(
            [](const auto& value) { return Base(std::in_place_type<std::decay_t<decltype(value)>>, value); },
            static_cast<const Base&>(other))) {}
  Variant(Variant&&) noexcept = default;
  Variant& operator=(const Variant&) = default;
  Variant& operator=(Variant&&) noexcept = default;
  ~Variant() = default;
};

}  // namespace lacuna
