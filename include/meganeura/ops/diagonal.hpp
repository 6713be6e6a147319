// SPDX-License-Identifier: MIT
// Triangles, diagonals, and values that have the shape of others.
#pragma once
#include <meganeura/expr/traced.hpp>
#include <meganeura/ops/reduce.hpp>
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

constexpr bool has_matrices(const symbolic_shape& x) { return x.rank >= 2; }

// Elements of the diagonal that begins `offset` columns to the right of the first one.
constexpr std::int64_t diagonal_length(const symbolic_shape& x, std::int64_t offset) {
  if (x.rank < 2 || !x.last().is_static() || !x.last(1).is_static()) return 0;
  const std::int64_t rows = x.last(1).coefficient + (offset < 0 ? offset : 0),
                     columns = x.last().coefficient - (offset > 0 ? offset : 0);
  return rows < columns ? rows : columns;
}

// Columns less rows of the last two axes.
template <class X>
constexpr auto columns_less_rows(X x, const symbolic_shape& shape) {
  return coordinates_of(x, shape, shape.rank - 1) - coordinates_of(x, shape, shape.rank - 2);
}

// Elements along an axis.
constexpr node_spec describe_count(const facts&, int axis) {
  return {.kind = primitive::element_count, .type = dtype::i32, .count = 1 << axis};
}
constexpr node_spec describe_positions(const facts& x, int axis) {
  return {.kind = primitive::iota, .type = dtype::i32, .shape = x.shape, .count = normal_axis(axis, x.shape.rank)};
}

}  // namespace detail

namespace layers {

struct triangle {
  static constexpr auto forward(value auto x, std::int64_t offset, bool upper) {
    const auto right = detail::columns_less_rows(x, x.facts().shape);
    const auto zero = detail::number_of(x, 0, x.facts().type);
    const auto bound = detail::number_of(x, static_cast<double>(offset), dtype::i32);
    return select(upper ? less_equal(bound, right) : less_equal(right, bound), x, zero);
  }
};

struct diagonal {
  static constexpr auto forward(value auto x, std::int64_t offset) {
    const std::int64_t columns = x.facts().shape.last().coefficient;
    const auto flat = flatten(x, -2, -1);
    return slice(flat, -1, offset < 0 ? -offset * columns : offset, detail::diagonal_length(x.facts().shape, offset),
                 columns + 1);
  }
};

struct diag_embed {
  static constexpr auto forward(value auto x, std::int64_t offset) {
    const std::int64_t size = offset < 0 ? -offset : offset;
    const auto padded = pad(x, -1, offset > 0 ? size : 0, offset < 0 ? size : 0);
    symbolic_shape square = padded.facts().shape;
    square.push_back(square.last());
    const auto zero = detail::number_of(x, 0, x.facts().type);
    const auto bound = detail::number_of(x, static_cast<double>(offset), dtype::i32);
    return select(equal(detail::columns_less_rows(x, square), bound), unsqueeze(padded, -2), zero);
  }
};

struct trace {
  static constexpr auto forward(value auto x) { return sum(diagonal::forward(x, 0), -1); }
};

struct eye_like {
  static constexpr auto forward(value auto x) {
    const auto number = [&](double is) { return detail::number_of(x, is, x.facts().type); };
    const auto zero = detail::number_of(x, 0, dtype::i32);
    return select(equal(detail::columns_less_rows(x, x.facts().shape), zero), number(1), number(0));
  }
};

struct full_like {
  static constexpr auto forward(value auto x, detail::number filling) {
    return expand(detail::number_of(x, filling.value, x.facts().type), x.facts().shape);
  }
};

// From either end to the middle, so that both ends are met.
struct linspace_like {
  static constexpr auto forward(value auto x, int axis, detail::number low, detail::number high) {
    const auto along = detail::normal_axis(axis, x.facts().shape.rank);
    const auto place = detail::coordinates_of(x, x.facts().shape, along);
    const auto last = detail::make<detail::describe_count>(x, along) - 1;
    const auto step = (high.value - low.value) / cast(maximum(last, 1), dtype::f32);
    const auto upward = cast(place, dtype::f32) * step + low.value;
    const auto downward = high.value - cast(last - place, dtype::f32) * step;
    return detail::narrowed(select(less_equal(place + place, last), upward, downward), x);
  }
};

struct one_hot {
  static constexpr auto forward(value auto indices, const dim& classes, dtype type) {
    symbolic_shape shape = indices.facts().shape;
    shape.push_back(classes);
    const auto number = [&](double is) { return detail::number_of(indices, is, type); };
    const auto column = detail::coordinates_of(indices, shape, shape.rank - 1);
    return select(equal(unsqueeze(indices, -1), column), number(1), number(0));
  }
};

}  // namespace layers

/// x at and below the diagonal of its last two axes, 0 above; the diagonal begins `offset` columns to the right:
/// tril<0>(x), or tril(x, 0).
/// shapes: [.., m, n], unchanged. errors: "x needs two axes".
template <value A, class Offset>
[[nodiscard]] constexpr auto tril(A x, Offset offset) {
  MEGANEURA_EXPECT(detail::has_matrices(x.facts().shape), "meganeura: tril<offset>(x): x needs two axes", x)
  return detail::layer<layers::triangle>(fixed_text<"">{}, x, offset, c<false>);
}
template <int Offset = 0, value A>
[[nodiscard]] constexpr auto tril(A x) {
  return tril(x, c<Offset>);
}

/// x at and above the diagonal, 0 below; otherwise as tril.
template <value A, class Offset>
[[nodiscard]] constexpr auto triu(A x, Offset offset) {
  MEGANEURA_EXPECT(detail::has_matrices(x.facts().shape), "meganeura: triu<offset>(x): x needs two axes", x)
  return detail::layer<layers::triangle>(fixed_text<"">{}, x, offset, c<true>);
}
template <int Offset = 0, value A>
[[nodiscard]] constexpr auto triu(A x) {
  return triu(x, c<Offset>);
}

/// The diagonal of the last two axes that begins `offset` columns to the right of the first, or rows below where it is
/// negative: diagonal<0>(x), or diagonal(x, 1).
/// shapes: [.., m, n] -> [.., k]. errors: "there is no such diagonal".
template <value A, class Offset>
[[nodiscard]] constexpr auto diagonal(A x, Offset offset) {
  MEGANEURA_EXPECT(detail::diagonal_length(x.facts().shape, offset) >= 1,
                   "meganeura: diagonal<offset>(x): x needs two axes of known extents that have such a diagonal", x)
  return detail::layer<layers::diagonal>(fixed_text<"">{}, x, offset);
}
template <int Offset = 0, value A>
[[nodiscard]] constexpr auto diagonal(A x) {
  return diagonal(x, c<Offset>);
}

/// Square matrices with x as that diagonal and zeros elsewhere: diag_embed<0>(x), or diag_embed(x, 0).
/// shapes: [.., n] -> [.., n + |offset|, n + |offset|]. errors: "x needs one axis and room for another".
template <value A, class Offset>
[[nodiscard]] constexpr auto diag_embed(A x, Offset offset) {
  MEGANEURA_EXPECT((x.facts().shape.rank >= 1 && x.facts().shape.rank < max_rank),
                   "meganeura: diag_embed<offset>(x): x needs one axis and room for another", x)
  return detail::layer<layers::diag_embed>(fixed_text<"">{}, x, offset);
}
template <int Offset = 0, value A>
[[nodiscard]] constexpr auto diag_embed(A x) {
  return diag_embed(x, c<Offset>);
}

/// Sum of the diagonal of the last two axes. shapes: [.., m, n] -> [..].
template <value A>
[[nodiscard]] constexpr auto trace(A x) {
  MEGANEURA_EXPECT(detail::diagonal_length(x.facts().shape, 0) >= 1,
                   "meganeura: trace(x): x needs two axes of known extents", x)
  return detail::layer<layers::trace>(fixed_text<"">{}, x);
}

/// A number in x's shape and dtype, full_like<1.5>(x), or full_like(x, 1.5); zeros_like and ones_like are two of them.
/// errors: "the dtype does not hold that number".
template <value A, class Number>
[[nodiscard]] constexpr auto full_like(A x, Number filling) {
  MEGANEURA_EXPECT_HELD("full_like<value>(x)", x, detail::number(filling).value)
  return detail::layer<layers::full_like>(fixed_text<"">{}, x, filling);
}
template <detail::number Value, value A>
[[nodiscard]] constexpr auto full_like(A x) {
  return full_like(x, c<Value>);
}
template <value A>
[[nodiscard]] constexpr auto zeros_like(A x) {
  return full_like(x, c<detail::number(0.0)>);
}
template <value A>
[[nodiscard]] constexpr auto ones_like(A x) {
  return full_like(x, c<detail::number(1.0)>);
}

/// 0, 1, 2, ... along `axis` in x's shape, as i32: arange_like<0>(x), or arange_like(x, 0).
template <value A, detail::axis_like Axis>
[[nodiscard]] constexpr auto arange_like(A x, Axis axis) {
  MEGANEURA_EXPECT(detail::axis_of(x, axis) >= 0, "meganeura: arange_like<axis>(x): x has no such axis", x)
  return detail::make<detail::describe_positions>(x, axis);
}
template <int Axis, value A>
[[nodiscard]] constexpr auto arange_like(A x) {
  return arange_like(x, c<Axis>);
}

/// Numbers at equal distances from low to high along `axis`, both among them, in x's shape and dtype:
/// linspace_like<-1, 0.0, 1.0>(x), or linspace_like(x, -1, 0.0, 1.0); of one element, low.
/// dtypes: floats, computed in f32. errors: "x has no such axis", "x must be floats". source: torch.linspace.
template <value A, detail::axis_like Axis, class Low, class High>
[[nodiscard]] constexpr auto linspace_like(A x, Axis axis, Low low, High high) {
  MEGANEURA_EXPECT(detail::axis_of(x, axis) >= 0, "meganeura: linspace_like<axis, low, high>(x): x has no such axis", x)
  MEGANEURA_EXPECT_FLOATS("linspace_like<axis, low, high>(x)", x)
  return detail::layer<layers::linspace_like>(fixed_text<"">{}, x, axis, low, high);
}
template <int Axis, detail::number Low, detail::number High, value A>
[[nodiscard]] constexpr auto linspace_like(A x) {
  return linspace_like(x, c<Axis>, c<Low>, c<High>);
}

/// 1 on the diagonal of the last two axes, 0 elsewhere, in x's shape and dtype.
template <value A>
[[nodiscard]] constexpr auto eye_like(A x) {
  MEGANEURA_EXPECT(detail::has_matrices(x.facts().shape), "meganeura: eye_like(x): x needs two axes", x)
  return detail::layer<layers::eye_like>(fixed_text<"">{}, x);
}

/// 1 at the place of each index along a new last axis of `classes`, 0 elsewhere; an index out of range has no 1:
/// one_hot<10>(labels), or one_hot(labels, 10).
/// shapes: [..] -> [.., classes]. dtypes: i32 -> f32, or what is named: one_hot<10, dtype::i32>(labels).
template <value Indices, class Classes, class Type = fixed<dtype::f32>>
[[nodiscard]] constexpr auto one_hot(Indices indices, Classes classes, Type type = {}) {
  MEGANEURA_EXPECT((indices.facts().type == dtype::i32 && indices.facts().shape.rank < max_rank && classes >= 1),
                   "meganeura: one_hot<classes>(indices): indices must be i32 with room for one axis more, and classes "
                   "1 or more",
                   indices)
  return detail::layer<layers::one_hot>(fixed_text<"">{}, indices, classes, type);
}
template <int Classes, dtype Type = dtype::f32, value Indices>
[[nodiscard]] constexpr auto one_hot(Indices indices) {
  return one_hot(indices, c<Classes>, c<Type>);
}

}  // namespace meganeura::inline MEGANEURA_ABI
