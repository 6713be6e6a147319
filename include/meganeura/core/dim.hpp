// SPDX-License-Identifier: MIT
// Extents and shapes known while compiling: integers, or named symbols bound when a session is built.
#pragma once
#include <meganeura/core/extent_sum.hpp>
#include <meganeura/core/fixed_string.hpp>
#include <meganeura/core/rank.hpp>
#include <meganeura/core/utility.hpp>

#include <cstddef>
#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI {

/// A number, or a number times a sum of products of named symbols: 784, 4 * batch, batch * sequence, past + fresh.
/// Two are equal when they are for whatever the symbols are worth, so that mixing batch and sequence does not compile
/// although both are unknown.
struct dim {
  static constexpr int max_terms = 3, max_symbols = 4;  // of the sum, and of all its terms together

  std::int64_t coefficient = 0;        // the number, or the greatest that divides every term
  const symbol* names[max_symbols]{};  // of the first term, then of the second, ...
  std::uint64_t form = 0;              // 0: all names are one product; else term_bits for the factor and degree of each

  constexpr dim() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): dims<batch, 784>
  constexpr dim(std::int64_t extent) : coefficient(extent) {}
  constexpr dim(std::int64_t factor, const symbol* symbol) : coefficient(factor), names{symbol} {}
  /// 0, which is no extent, where there are too many terms or symbols.
  constexpr explicit dim(const extent_sum& sum) {
    for (int i = 0; i < sum.count; ++i) coefficient = divisor(coefficient, sum.terms[i].factor);
    if (sum.count == 1) coefficient = sum.terms[0].factor;
    int used = 0;
    bool fits = sum.fits && sum.count <= max_terms;
    for (int i = 0; fits && i < sum.count; ++i) {
      const extent_sum::term& term = sum.terms[i];
      const std::int64_t factor = term.factor / coefficient;
      fits = used + term.degree <= max_symbols && factor <= max_factor && factor >= -max_factor;
      for (int k = 0; fits && k < term.degree; ++k) names[used++] = term.names[k];
      form |= static_cast<std::uint64_t>((factor & factor_mask) << 3 | term.degree) << (term_bits * i);
    }
    if (sum.count == 1) form = 0;
    if (!fits) *this = {};
  }

  [[nodiscard]] constexpr bool is_static() const { return names[0] == nullptr; }
  /// Whether they differ by a factor alone.
  [[nodiscard]] constexpr bool same_symbols(const dim& other) const { return with(other.coefficient) == other; }
  /// The same symbols with another coefficient.
  [[nodiscard]] constexpr dim with(std::int64_t factor) const {
    dim result = *this;
    result.coefficient = factor;
    return result;
  }

 private:
  static constexpr int term_bits = 19;
  static constexpr std::int64_t factor_mask = 0xffff, max_factor = 0x7fff;

  static constexpr std::int64_t divisor(std::int64_t a, std::int64_t b) {
    while (b != 0) {
      const std::int64_t rest = a % b;
      a = b;
      b = rest;
    }
    return a < 0 ? -a : a;
  }
  template <class Number>
  static constexpr Number as_number(std::int64_t factor) {
    if constexpr (requires { Number{factor}; }) {
      return Number{factor};
    } else {
      return Number(static_cast<double>(factor));
    }
  }
  template <class Visit>
  constexpr void for_each_term(const Visit& visit) const {
    int used = 0;
    std::uint64_t left = form;
    do {
      extent_sum::term term{coefficient};
      int degree = static_cast<int>(left & 7);
      if (form == 0) {
        while (degree < max_symbols && names[degree]) ++degree;
      } else {
        const auto factor = static_cast<std::int64_t>(left >> 3) & factor_mask;
        term.factor *= factor > max_factor ? factor - factor_mask - 1 : factor;
      }
      for (; term.degree < degree; ++term.degree) term.names[term.degree] = names[used++];
      visit(term);
      left >>= term_bits;
    } while (left != 0);
  }

 public:  // behind it: Clang 14 evaluates no template whose body comes later
  [[nodiscard]] constexpr extent_sum sum() const {
    extent_sum result;
    for_each_term([&](const extent_sum::term& term) { result.add(term); });
    return result;
  }
  /// In the numbers that `extent` makes of a symbol.
  template <class Number, class Extent>
  [[nodiscard]] constexpr Number value(const Extent& extent) const {
    Number total = as_number<Number>(0);
    for_each_term([&](const extent_sum::term& term) {
      Number product = as_number<Number>(term.factor);
      for (int i = 0; i < term.degree; ++i) product = product * extent(*term.names[i]);
      total += product;
    });
    return total;
  }

  friend constexpr dim operator*(const dim& a, const dim& b) {
    if (b.is_static()) return a.with(a.coefficient * b.coefficient);
    if (a.is_static()) return b.with(a.coefficient * b.coefficient);
    return dim(a.sum() * b.sum());
  }
  friend constexpr dim operator+(const dim& a, const dim& b) {
    if (a.is_static() && b.is_static()) return a.coefficient + b.coefficient;
    return dim(a.sum() + b.sum());
  }
  friend constexpr dim operator-(const dim& a, const dim& b) { return a + b.with(-b.coefficient); }
  friend constexpr bool operator==(const dim&, const dim&) = default;
};

namespace detail {
template <fixed_string Name, std::int64_t Most>
inline constexpr symbol bounded_symbol{symbol_of<Name>.text, Most};

template <fixed_string Name, std::int64_t Most>
constexpr dim named_dim() {
  static_assert(text_fits<Name, is_name(Name)>, "meganeura: sym<name>: a name is neither empty nor holds a zero byte");
  static_assert(Most >= 0, "meganeura: sym<name, most>: an extent is at least 1");
  return {1, Most == 0 ? &symbol_of<Name> : &bounded_symbol<Name, Most>};
}
}  // namespace detail

/// The symbol of that name, e.g. `inline constexpr mn::dim batch = mn::sym<"batch">;`, or of one that is at most so
/// much, which lets a slice of a table be taken: `sym<"sequence", 1024>`.
template <fixed_string Name, std::int64_t Most = 0>
inline constexpr dim sym = detail::named_dim<Name, Most>();

/// What a symbol is worth in one session, e.g. {"batch", 32}.
struct symbol_extent {
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
  /// Product of the coefficients, the number of elements if is_static(); the largest of numbers where it is beyond.
  [[nodiscard]] constexpr std::int64_t coefficient() const {
    std::int64_t product = 1;
    for (int i = 0; i < rank; ++i) {
      if (__builtin_mul_overflow(product, extents[i].coefficient, &product)) return INT64_MAX;
    }
    return product;
  }

  /// Of all elements.
  [[nodiscard]] constexpr extent_sum elements() const {
    extent_sum product = dim(1).sum();
    for (int i = 0; i < rank; ++i) product = product * extents[i].sum();
    return product;
  }

  friend constexpr bool operator==(const symbolic_shape&, const symbolic_shape&) = default;
};

namespace detail {
template <dim... Extents>
constexpr symbolic_shape make_shape() {
  static_assert(sizeof...(Extents) <= max_rank, "meganeura: dims<...>: a tensor has at most 8 axes");
  static_assert(((Extents.coefficient >= 1) && ...),
                "meganeura: dims<...>: an extent is at least 1, and a sum of at most 3 products of 4 symbols in all");
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
constexpr symbolic_shape followed_by_ones(symbolic_shape shape, int rank) {
  while (shape.rank < rank) shape.push_back(1);
  return shape;
}

// An extent as a template argument that compilers write shortly, and what that stands for.
template <dim Extent>
constexpr auto shown_extent() {
  if constexpr (Extent.is_static()) {
    return Extent.coefficient;
  } else if constexpr (Extent == dim(1, Extent.names[0])) {
    return Extent.names[0];
  } else {
    return Extent;
  }
}
constexpr dim extent_from(dim extent) { return extent; }
constexpr dim extent_from(const symbol* symbol) { return {1, symbol}; }

template <auto... Extents>
inline constexpr symbolic_shape shape_of = extents_of(extent_from(Extents)...);
template <symbolic_shape Shape, std::size_t... I>
constexpr const symbolic_shape* intern_shape(std::index_sequence<I...>) {
  return &shape_of<shown_extent<Shape[I]>()...>;
}

// Equal shapes are one object, so that nodes hold a pointer instead of a copy.
template <symbolic_shape Shape>
inline constexpr const symbolic_shape* interned_shape =
    intern_shape<Shape>(std::make_index_sequence<static_cast<std::size_t>(Shape.rank)>{});
}  // namespace detail

/// A shape by its extents: dims<batch, 784>.
template <dim... Extents>
inline constexpr symbolic_shape dims = detail::make_shape<Extents...>();

}  // namespace meganeura::inline MEGANEURA_ABI
