// SPDX-License-Identifier: MIT
// Dense indices with a kind: an id of one table is not an id of another.
#pragma once
#include <meganeura/config.hpp>

#include <fmt/core.h>

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace meganeura::inline MEGANEURA_ABI {

/// A position in the table that `Kind` names. It is made from an integer only explicitly and serves as an index by
/// itself; ids of two kinds neither convert into each other, nor compare, nor add up.
template <class Kind, std::unsigned_integral Integer = std::uint32_t>
class strong_id {
 public:
  constexpr strong_id() = default;
  template <std::integral From>
  constexpr explicit strong_id(From index) : index_(static_cast<Integer>(index)) {}

  // NOLINTNEXTLINE(google-explicit-constructor): an id is an index
  [[nodiscard]] constexpr operator Integer() const { return index_; }

  constexpr strong_id& operator++() {
    ++index_;
    return *this;
  }
  constexpr strong_id operator++(int) {
    const strong_id before = *this;
    ++index_;
    return before;
  }
  constexpr strong_id& operator--() {
    --index_;
    return *this;
  }
  constexpr strong_id operator--(int) {
    const strong_id before = *this;
    --index_;
    return before;
  }

  friend constexpr bool operator==(strong_id, strong_id) = default;
  friend constexpr std::strong_ordering operator<=>(strong_id, strong_id) = default;

 private:
  Integer index_ = 0;
};

// Both would do as plain integers.
template <class A, class B, class IntegerA, class IntegerB>
  requires(!std::same_as<A, B>)
bool operator==(strong_id<A, IntegerA>, strong_id<B, IntegerB>) = delete;
template <class A, class B, class IntegerA, class IntegerB>
  requires(!std::same_as<A, B>)
std::strong_ordering operator<=>(strong_id<A, IntegerA>, strong_id<B, IntegerB>) = delete;
template <class A, class B, class IntegerA, class IntegerB>
  requires(!std::same_as<A, B>)
IntegerA operator+(strong_id<A, IntegerA>, strong_id<B, IntegerB>) = delete;
template <class A, class B, class IntegerA, class IntegerB>
  requires(!std::same_as<A, B>)
IntegerA operator-(strong_id<A, IntegerA>, strong_id<B, IntegerB>) = delete;

/// No entry of any table: converts into, and compares with, ids of every kind.
struct no_id_t {
  template <class Kind, std::unsigned_integral Integer>
  constexpr operator strong_id<Kind, Integer>() const {  // NOLINT(google-explicit-constructor)
    return strong_id<Kind, Integer>(static_cast<Integer>(~Integer{0}));
  }
};
inline constexpr no_id_t no_id;

}  // namespace meganeura::inline MEGANEURA_ABI

template <class Kind, class Integer>
struct std::hash<meganeura::strong_id<Kind, Integer>> {
  std::size_t operator()(meganeura::strong_id<Kind, Integer> value) const { return std::hash<Integer>()(value); }
};

template <class Kind, class Integer>
struct fmt::formatter<meganeura::strong_id<Kind, Integer>> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  auto format(meganeura::strong_id<Kind, Integer> value, fmt::format_context& context) const {
    return fmt::format_to(context.out(), "{}", static_cast<Integer>(value));
  }
};
