// SPDX-License-Identifier: MIT
// Products with sums: the primitive, and matmul.
#pragma once
#include <meganeura/expr/traced.hpp>
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

constexpr node_spec describe_contract(const facts& a, const facts& b, const contract_attribute& labels) {
  return node_of(op::contract, a.type, contract_rule(labels, a.shape, b.shape).result, labels);
}

// matmul's operands as matrices, vectors with an axis of 1 more, without the batch axes of 1 where the other's are not.
struct matmul_axes {
  symbolic_shape a{}, b{}, result{};
  contract_attribute labels{};
  bool fits = false, reshapes = false;
};
constexpr matmul_axes matmul_of(const symbolic_shape& left, const symbolic_shape& right) {
  matmul_axes made;
  if (left.rank < 1 || right.rank < 1) return made;
  const symbolic_shape a = left.rank > 1 ? left : with_axis(left, 0), b = right.rank > 1 ? right : with_axis(right, 1);
  const int batch = (a.rank > b.rank ? a.rank : b.rank) - 2, begin_a = batch + 2 - a.rank, begin_b = batch + 2 - b.rank;
  const auto add = [](std::uint8_t* labels, symbolic_shape& shape, int label, const dim& extent) {
    labels[shape.rank] = static_cast<std::uint8_t>(label);
    shape.push_back(extent);
  };
  for (int i = 0; i < batch; ++i) {
    const dim of_a = i < begin_a ? dim(1) : a[i - begin_a], of_b = i < begin_b ? dim(1) : b[i - begin_b];
    const bool same = of_a == of_b;
    if (!same && !is_one(of_a) && !is_one(of_b)) return made;
    if (i >= begin_a && (same || !is_one(of_a))) add(made.labels.a, made.a, i, of_a);
    if (i >= begin_b && (same || !is_one(of_b))) add(made.labels.b, made.b, i, of_b);
    made.result.push_back(is_one(of_a) ? of_b : of_a);
  }
  add(made.labels.a, made.a, batch, a.last(1));
  add(made.labels.a, made.a, batch + 2, a.last());
  add(made.labels.b, made.b, batch + 2, b.last(1));
  add(made.labels.b, made.b, batch + 1, b.last());
  made.labels.result_rank = batch + 2;
  if (left.rank > 1) made.result.push_back(a.last(1));
  if (right.rank > 1) made.result.push_back(b.last());
  made.fits = a.last() == b.last(1);
  made.reshapes = made.a != left || made.b != right;
  return made;
}

constexpr node_spec describe_matmul(const facts& a, const facts& b) {
  const matmul_axes axes = matmul_of(a.shape, b.shape);
  return node_of(op::contract, a.type, axes.result, axes.labels);
}

}  // namespace detail

namespace layers {
struct matmul {
  static constexpr auto forward(value auto a, value auto b) {
    const detail::matmul_axes axes = detail::matmul_of(a.facts().shape, b.facts().shape);
    const auto product = detail::make<detail::describe_contract>(reshape(a, axes.a), reshape(b, axes.b), axes.labels);
    return reshape(product, axes.result);
  }
};
}  // namespace layers

/// Matrix product over the last two axes with batch axes that broadcast, and vectors for rows or columns: torch.matmul
/// and NumPy's.
/// shapes: a [.., m, k], b [.., k, n] -> [.., m, n]; a [k] -> [.., n]; b [k] -> [.., m]. dtypes: floats of one type;
/// accumulation in f32. errors: "the last extent of a must equal the last but one of b, and batch extents be equal or
/// 1", "operands must be floats of one type". cost: 2 m n k flops.
template <value A, value B>
[[nodiscard]] constexpr auto matmul(A a, B b) {
  MEGANEURA_EXPECT(
      detail::matmul_of(a.facts().shape, b.facts().shape).fits,
      "meganeura: matmul(a, b): the last extent of a must equal the last but one of b, and batch extents be equal "
      "or 1",
      a, b)
  MEGANEURA_EXPECT(detail::floats_of_one_type(a.facts(), b.facts()),
                   "meganeura: matmul(a, b): operands must be floats of one type; cast one of them", a, b)
  if constexpr (!detail::all_typed<A, B>::value) {
    return detail::layer<layers::matmul>(fixed_text<"">{}, a, b);
  } else if constexpr (detail::matmul_of(A::facts().shape, B::facts().shape).reshapes) {
    return detail::layer<layers::matmul>(fixed_text<"">{}, a, b);
  } else {
    return detail::make<detail::describe_matmul>(a, b);
  }
}

}  // namespace meganeura::inline MEGANEURA_ABI
