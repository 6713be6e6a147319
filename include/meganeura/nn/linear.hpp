// SPDX-License-Identifier: MIT
// Fully connected layer.
#pragma once
#include <meganeura/expr/traced.hpp>
#include <meganeura/ops/contract.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// How weight and bias begin: as torch.nn.Linear's.
struct linear_options {
  bool bias = true;
  initializer weight = init::fan_in_uniform;
  initializer bias_begin = init::fan_in_uniform;  // the fan_in is the weight's
  friend constexpr bool operator==(const linear_options&, const linear_options&) = default;
};
inline constexpr linear_options no_bias{.bias = false};

namespace detail {
// x [.., in] with weight [out, in] -> [.., out]
constexpr node_spec describe_linear(const facts& x, const facts& weight) {
  const int rank = x.shape.rank;
  contract_attribute labels{.result_rank = rank};
  for (int i = 0; i < rank; ++i) labels.a[i] = static_cast<std::uint8_t>(i < rank - 1 ? i : rank);
  labels.b[0] = static_cast<std::uint8_t>(rank - 1);
  labels.b[1] = static_cast<std::uint8_t>(rank);
  return describe_contract(x, weight, labels);
}

constexpr bool can_tie(const facts& x, const facts& weight) {
  return x.shape.rank >= 1 && weight.shape.rank == 2 && weight.shape[1] == x.shape.last() &&
         floats_of_one_type(x, weight);
}
}  // namespace detail

namespace layers {

/// x [.., in] -> [.., out]; parameters "weight" [out, in] as checkpoints store it, and "bias" [out].
struct linear {
  static constexpr auto forward(value auto x, std::int64_t out, linear_options options) {
    const detail::facts in = x.facts();
    const auto weight =
        detail::parameter_of<"weight">(x, detail::extents_of(out, in.shape.last()), in.type, options.weight);
    const auto product = detail::make<detail::describe_linear>(x, weight);
    if (!options.bias) return product;
    const initializer begin = detail::bias_of(options.bias_begin, in.shape.last().coefficient);
    return product + detail::parameter_of<"bias">(x, detail::extents_of(out), in.type, begin);
  }
};

}  // namespace layers

/// x W^T + b over the last axis, as torch.nn.Linear, which both begin uniform in +-1 / sqrt(in): linear<"fc", out>(x),
/// or linear("fc", x, out) at run time. shapes: [.., in] -> [.., out]. dtypes: floats; accumulation in f32. errors: "x
/// needs a last extent that is a number", "x must be floats", "out is at least 1". cost: 2 in out flops a row.
template <detail::name_like Name, value A, class Out, class Options = fixed<linear_options{}>>
[[nodiscard]] constexpr auto linear(const Name& name, A x, Out out, Options options = {}) {
  MEGANEURA_EXPECT(detail::has_last_extent(x.facts().shape),
                   "meganeura: linear<name, out>(x): x needs a last extent that is a number, not a symbol", name, x)
  MEGANEURA_EXPECT_FLOATS("linear<name, out>(x)", x, name)
  MEGANEURA_EXPECT(out >= 1, "meganeura: linear<name, out>(x): out is at least 1", name, x)
  return detail::layer<layers::linear>(name, x, out, options);
}
template <fixed_string Name, std::int64_t Out, linear_options Options = linear_options{}, value A>
[[nodiscard]] constexpr auto linear(A x) {
  return linear(fixed_text<Name>{}, x, c<Out>, c<Options>);
}
MEGANEURA_UNNAMED(linear, "linear<name, out>(x)")

/// x W^T with a weight [out, in] that exists already, e.g. an embedding's: a tied head,
/// tied_linear(x, shared(parameter<"embed.weight", dims<rows, width>>)).
/// errors: "the weight must be [out, in] of x's dtype, in the last extent of x".
template <value A, value W>
[[nodiscard]] constexpr auto tied_linear(A x, W weight) {
  MEGANEURA_EXPECT(
      detail::can_tie(x.facts(), weight.facts()),
      "meganeura: tied_linear(x, weight): the weight must be [out, in] of x's dtype, in the last extent of x", x,
      weight)
  return detail::make<detail::describe_linear>(x, weight);
}

}  // namespace meganeura::inline MEGANEURA_ABI
