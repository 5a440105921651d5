// A std::variant that can be copied while memory runs out.
#pragma once

#include <type_traits>
#include <variant>

namespace lacuna {

/// For alternatives each of which is a string, a vector, a pointer or trivially copyable. libstdc++ takes a
/// std::variant of such alternatives for one that always holds a value: where the copy of an alternative
/// throws, the destructor of the unfinished variant reads an index that was never set. Here the alternative
/// is copied first. Used as std::variant is: std::visit, std::get and comparisons take it.
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
