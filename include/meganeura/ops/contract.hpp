// SPDX-License-Identifier: MIT
// Products with sums: einsum and matmul, one primitive.
#pragma once
#include <meganeura/expr/traced.hpp>
#include <meganeura/ops/reduce.hpp>
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// "bik,bkj->bij" taken apart.
struct einsum_labels {
  contract_attribute numbers{};
  int rank_a = 0, rank_b = 0;
  bool well_formed = false;
  int sums[2]{};  // bit i for axis i of an operand whose label stands nowhere else: it is summed over before
};

constexpr einsum_labels parse_einsum(const char* text) {
  const char* terms[3]{text, text, text};
  int counts[3]{}, term = 0;
  const char* at = text;
  for (; *at != '\0'; ++at) {
    const bool arrow = *at == '-' && at[1] == '>';
    if ((*at == ',' && term == 0) || (arrow && term == 1)) {
      at += arrow ? 1 : 0;
      terms[++term] = at + 1;
    } else if (*at < 'a' || *at > 'z') {
      return {};
    } else {
      ++counts[term];
    }
  }
  if (term != 2 || counts[0] > max_rank || counts[1] > max_rank) return {};
  einsum_labels labels;
  char kept[2][max_rank]{};
  int ranks[2]{};
  for (int side = 0; side < 2; ++side) {
    for (int i = 0; i < counts[side]; ++i) {
      int times = 0;
      for (const char* letter = text; letter != at; ++letter) times += *letter == terms[side][i] ? 1 : 0;
      if (times == 1) {
        labels.sums[side] |= 1 << i;
      } else {
        kept[side][ranks[side]++] = terms[side][i];
      }
    }
  }
  const label_names names(kept[0], ranks[0], kept[1], ranks[1], terms[2], counts[2]);
  labels.numbers = names.numbers, labels.rank_a = ranks[0], labels.rank_b = ranks[1];
  labels.well_formed = names.well_formed;
  return labels;
}

constexpr node_spec describe_einsum_operand(const facts& x, const char* text, int side) {
  const einsum_labels labels = parse_einsum(text);
  return labels.sums[side] >> x.shape.rank == 0 ? describe_reduce_of(x, reduce_kind::sum, labels.sums[side])
                                                : node_spec{};
}

constexpr contraction contract_of(const einsum_labels& labels, const facts& a, const facts& b) {
  if (!labels.well_formed || labels.rank_a != a.shape.rank || labels.rank_b != b.shape.rank) {
    return {.fault = contraction::nowhere};
  }
  return contract_rule(labels.numbers, a.shape, b.shape);
}

constexpr node_spec describe_contract(const facts& a, const facts& b, const contract_attribute& labels) {
  return node_of(op::contract, a.type, contract_rule(labels, a.shape, b.shape).result, labels);
}

constexpr node_spec describe_einsum(const facts& a, const facts& b, const char* labels) {
  return describe_contract(a, b, parse_einsum(labels).numbers);
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

// A contraction that is none for another reason than its extents.
constexpr bool is_contraction(const contraction& rule) {
  return rule.fault == contraction::none || rule.fault == contraction::extents;
}

}  // namespace detail

/// Sum of products over labelled axes: einsum<"bik,bkj->bij">(a, b), or einsum("bik,bkj->bij", a, b) at run time.
/// shapes: one lower-case letter an axis; letters missing from the result are summed over, in one operand or in both.
/// dtypes: floats of one type; accumulation in f32, and a sum over one operand alone is rounded before it is
/// multiplied. cost: 2 flops for each combination of all labels.
/// errors: "labels must name each axis", "extents of one label must be equal", "operands must be floats of one type".
template <class Labels, value A, value B>
[[nodiscard]] constexpr auto einsum(Labels labels, A a, B b) {
  const auto x = detail::make<detail::describe_einsum_operand>(a, labels, c<0>);
  const auto y = detail::make<detail::describe_einsum_operand>(b, labels, c<1>);
  MEGANEURA_EXPECT(
      detail::is_contraction(detail::contract_of(detail::parse_einsum(labels), x.facts(), y.facts())),
      "meganeura: einsum<\"ik,kj->ij\">(a, b): labels must name each axis, each once an operand, and those "
      "of the result stand in one",
      a, b)
  MEGANEURA_EXPECT(detail::contract_of(detail::parse_einsum(labels), x.facts(), y.facts()).mismatch().agrees(),
                   "meganeura: einsum<\"ik,kj->ij\">(a, b): extents of one label must be equal", a, b)
  MEGANEURA_EXPECT(detail::floats_of_one_type(a.facts(), b.facts()),
                   "meganeura: einsum<\"ik,kj->ij\">(a, b): operands must be floats of one type; cast one of them", a,
                   b)
  return detail::make<detail::describe_einsum>(x, y, labels);
}
template <fixed_string Labels, value A, value B>
[[nodiscard]] constexpr auto einsum(A a, B b) {
  return einsum(fixed_text<Labels>{}, a, b);
}

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
/// accumulation in f32. errors: "the last extent of a must equal the first of b, and batch extents be equal or 1",
/// "operands must be floats of one type". cost: 2 m n k flops.
template <value A, value B>
[[nodiscard]] constexpr auto matmul(A a, B b) {
  MEGANEURA_EXPECT(
      detail::matmul_of(a.facts().shape, b.facts().shape).fits,
      "meganeura: matmul(a, b): the last extent of a must equal the first of b, and batch extents be equal "
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
