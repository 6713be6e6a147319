// SPDX-License-Identifier: MIT
// Fully connected layer.
#pragma once
#include <meganeura/expr/module.hpp>
#include <meganeura/ops/contract.hpp>

namespace meganeura::inline MEGANEURA_ABI {

struct linear_options {
  bool bias = true;
  friend constexpr bool operator==(const linear_options&, const linear_options&) = default;
};
inline constexpr linear_options no_bias{.bias = false};

namespace detail {
// x [.., in] with w [out, in] -> [.., out]
constexpr contraction linear_labels(const symbolic_shape& x, dim out) {
  contraction c;
  for (int i = 0; i < x.rank; ++i) c.list.values[i] = i < x.rank - 1 ? i : x.rank;
  c.list.values[max_rank] = x.rank - 1;
  c.list.values[max_rank + 1] = x.rank;
  c.list.values[2 * max_rank] = x.rank;
  c.result = with_extent(x, x.rank - 1, out);
  return c;
}
}  // namespace detail

namespace modules {

/// x [.., in] -> [.., Out]; parameters "weight" [Out, in] as checkpoints store it, and "bias" [Out].
template <std::int64_t Out, linear_options Options>
struct linear {
  template <auto A>
  static constexpr auto forward(expr<A> x) {
    constexpr const symbolic_shape& shape = *A.root().shape;
    constexpr dtype type = A.root().type;
    constexpr auto product =
        detail::contracted<detail::linear_labels(shape, Out)>(x, parameter<"weight", dims<Out, shape.last()>, type>);
    if constexpr (Options.bias) {
      return product + parameter<"bias", dims<Out>, type>;
    } else {
      return product;
    }
  }
};

}  // namespace modules

/// x W^T + b over the last axis, as torch.nn.Linear.
/// shapes: [.., in] -> [.., Out]. dtypes: floats; accumulation in f32. errors: "x needs a last extent that is a
/// number", "x must be floats", "out is at least 1". cost: 2 in Out flops a row.
template <fixed_string Name, std::int64_t Out, linear_options Options = linear_options{}, auto A>
[[nodiscard]] constexpr auto linear(expr<A> x) {
  constexpr bool known = A.root().shape->rank >= 1 && A.root().shape->last().is_static();
  constexpr bool floats = is_float(A.root().type);
  static_assert(known, "meganeura: linear<name, out>(x): x needs a last extent that is a number, not a symbol");
  static_assert(floats, "meganeura: linear<name, out>(x): x must be floats; cast it");
  static_assert(Out >= 1, "meganeura: linear<name, out>(x): out is at least 1");
  if constexpr (known && floats && Out >= 1) {
    return call<Name, modules::linear<Out, Options>>(x);
  } else {
    return x;
  }
}

/// x W^T with a weight [out, in] that exists already, e.g. an embedding's: a tied head,
/// tied_linear(x, shared(parameter<"embed.weight", dims<rows, width>>)).
/// errors: "the weight must be [out, in] of x's dtype, in the last extent of x".
template <auto A, auto W>
[[nodiscard]] constexpr auto tied_linear(expr<A> x, expr<W> weight) {
  constexpr const symbolic_shape &shape = *A.root().shape, &matrix = *W.root().shape;
  constexpr bool fits =
      shape.rank >= 1 && matrix.rank == 2 && matrix[1] == shape.last() && detail::floats_of_one_type<A, W>;
  static_assert(
      fits, "meganeura: tied_linear(x, weight): the weight must be [out, in] of x's dtype, in the last extent of x");
  if constexpr (fits) {
    return detail::contracted<detail::linear_labels(shape, matrix[0])>(x, weight);
  } else {
    return x;
  }
}

}  // namespace meganeura::inline MEGANEURA_ABI
