// SPDX-License-Identifier: MIT
// Extents and shapes known while compiling: integers, or named symbols bound when a session is built.
#pragma once
#include <meganeura/core/fixed_string.hpp>
#include <meganeura/core/rank.hpp>

#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI {

/// coefficient, or coefficient times one named symbol. A symbol equals only itself, so that mixing batch and sequence
/// does not compile although both are unknown.
struct dim {
  std::int64_t coefficient = 0;
  const symbol* name = nullptr;

  constexpr dim() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): dims<batch, 784>
  constexpr dim(std::int64_t extent) : coefficient(extent) {}
  constexpr dim(std::int64_t factor, const symbol* symbol) : coefficient(factor), name(symbol) {}

  [[nodiscard]] constexpr bool is_static() const { return name == nullptr; }
  friend constexpr dim operator*(dim a, std::int64_t factor) { return {a.coefficient * factor, a.name}; }
  friend constexpr bool operator==(const dim&, const dim&) = default;
};

namespace detail {
template <fixed_string Name>
constexpr dim named_dim() {
  static_assert(text_fits<Name, is_name(Name)>, "meganeura: sym<name>: a name is neither empty nor holds a zero byte");
  return {1, &symbol_of<Name>};
}
}  // namespace detail

/// The symbol of that name, e.g. `inline constexpr mn::dim batch = mn::sym<"batch">;`.
template <fixed_string Name>
inline constexpr dim sym = detail::named_dim<Name>();

/// What a symbol is worth in one session, e.g. {"batch", 32}.
struct binding {
  const char* symbol;
  std::int64_t extent;
};

/// A shape with symbols left in it; `shape` is the run-time one.
struct symbolic_shape {
  dim extents[max_rank]{};
  int rank = 0;

  [[nodiscard]] constexpr const dim& operator[](int axis) const { return extents[axis]; }
  [[nodiscard]] constexpr dim& operator[](int axis) { return extents[axis]; }
  constexpr void push_back(dim extent) { extents[rank++] = extent; }
  /// Counted from the end: last() is the last extent, last(1) the one before.
  [[nodiscard]] constexpr const dim& last(int from_end = 0) const { return extents[rank - 1 - from_end]; }

  [[nodiscard]] constexpr bool is_static() const {
    for (int i = 0; i < rank; ++i) {
      if (!extents[i].is_static()) return false;
    }
    return true;
  }
  /// Product of the coefficients: the number of elements if is_static().
  [[nodiscard]] constexpr std::int64_t coefficient() const {
    std::int64_t product = 1;
    for (int i = 0; i < rank; ++i) product *= extents[i].coefficient;
    return product;
  }

  friend constexpr bool operator==(const symbolic_shape&, const symbolic_shape&) = default;
};

namespace detail {
template <dim... Extents>
constexpr symbolic_shape make_shape() {
  static_assert(sizeof...(Extents) <= max_rank, "meganeura: dims<...>: a tensor has at most 8 axes");
  static_assert(((Extents.coefficient >= 1) && ...), "meganeura: dims<...>: an extent is at least 1");
  symbolic_shape result;
  if constexpr (sizeof...(Extents) <= max_rank) (result.push_back(Extents), ...);
  return result;
}

template <class... Extents>
constexpr symbolic_shape extents_of(Extents... extents) {
  symbolic_shape result;
  (result.push_back(extents), ...);
  return result;
}

// A shape may hold leftovers past its rank; equal shapes must be equal template arguments.
constexpr symbolic_shape canonical(const symbolic_shape& shape) {
  symbolic_shape result;
  for (int i = 0; i < shape.rank; ++i) result.push_back(dim(shape[i].coefficient, shape[i].name));
  return result;
}

template <symbolic_shape Shape>
inline constexpr symbolic_shape shape_of = Shape;

// Equal shapes are one object, so that nodes hold a pointer instead of a copy.
template <symbolic_shape Shape>
inline constexpr const symbolic_shape* interned_shape = &shape_of<canonical(Shape)>;
}  // namespace detail

/// A shape by its extents: dims<batch, 784>.
template <dim... Extents>
inline constexpr symbolic_shape dims = detail::make_shape<Extents...>();

}  // namespace meganeura::inline MEGANEURA_ABI
