// SPDX-License-Identifier: MIT
// Products with sums: einsum and matmul, one primitive.
#pragma once
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// "bik,bkj->bij" taken apart.
struct einsum_labels {
  contract_attribute numbers{};
  int rank_a = 0, rank_b = 0;
  bool well_formed = false;
};

constexpr einsum_labels parse_einsum(const char* text) {
  const char* terms[3]{text, text, text};
  int counts[3]{}, term = 0;
  for (; *text != '\0'; ++text) {
    const bool arrow = *text == '-' && text[1] == '>';
    if ((*text == ',' && term == 0) || (arrow && term == 1)) {
      text += arrow ? 1 : 0;
      terms[++term] = text + 1;
    } else if (*text < 'a' || *text > 'z') {
      return {};
    } else {
      ++counts[term];
    }
  }
  const label_names names(terms[0], counts[0], terms[1], counts[1], terms[2], counts[2]);
  return {names.numbers, counts[0], counts[1], term == 2 && names.well_formed};
}

constexpr contraction contract_of(const einsum_labels& labels, const facts& a, const facts& b) {
  if (!labels.well_formed || labels.rank_a != a.shape.rank || labels.rank_b != b.shape.rank) {
    return {.fault = contraction::nowhere};
  }
  return contract_rule(labels.numbers, a.shape, b.shape);
}

constexpr node_spec describe_contract(const facts& a, const facts& b, const einsum_labels& labels) {
  return node_of(op::contract, a.type, contract_rule(labels.numbers, a.shape, b.shape).result, labels.numbers);
}

constexpr node_spec describe_einsum(const facts& a, const facts& b, const char* labels) {
  return describe_contract(a, b, parse_einsum(labels));
}

// matmul's labels: batch axes by position, then m, k and k, n.
constexpr einsum_labels matmul_labels(const facts& a, const facts& b) {
  const int rank = a.shape.rank, rank_b = b.shape.rank;
  einsum_labels labels{{}, rank, rank_b, rank >= 2 && rank_b >= 2 && (rank_b == 2 || rank_b == rank)};
  if (!labels.well_formed) return labels;
  labels.numbers.result_rank = rank;
  const auto number = [](std::uint8_t& label, int value) { label = static_cast<std::uint8_t>(value); };
  for (int i = 0; i < rank; ++i) number(labels.numbers.a[i], i < rank - 1 ? i : rank);
  for (int i = 0; i < rank_b - 2; ++i) number(labels.numbers.b[i], i);
  number(labels.numbers.b[rank_b - 2], rank);
  number(labels.numbers.b[rank_b - 1], rank - 1);
  return labels;
}

constexpr node_spec describe_matmul(const facts& a, const facts& b) {
  return describe_contract(a, b, matmul_labels(a, b));
}

// A contraction that is none for another reason than its extents.
constexpr bool is_contraction(const contraction& rule) {
  return rule.fault == contraction::none || rule.fault == contraction::extents;
}

}  // namespace detail

/// Sum of products over labelled axes: einsum<"bik,bkj->bij">(a, b), or einsum("bik,bkj->bij", a, b) at run time.
/// shapes: one lower-case letter an axis; letters missing from the result are summed over and stand in both operands.
/// dtypes: floats of one type; accumulation in f32. cost: 2 flops for each combination of all labels.
/// errors: "labels must name each axis", "extents of one label must be equal", "operands must be floats of one type".
template <class Labels, value A, value B>
[[nodiscard]] constexpr auto einsum(Labels labels, A a, B b) {
  MEGANEURA_EXPECT(
      detail::is_contraction(detail::contract_of(detail::parse_einsum(labels), a.facts(), b.facts())),
      "meganeura: einsum<\"ik,kj->ij\">(a, b): labels must name each axis, and a summed one stand in both operands", a,
      b)
  MEGANEURA_EXPECT(detail::contract_of(detail::parse_einsum(labels), a.facts(), b.facts()).mismatch().agrees(),
                   "meganeura: einsum<\"ik,kj->ij\">(a, b): extents of one label must be equal", a, b)
  MEGANEURA_EXPECT(detail::floats_of_one_type(a.facts(), b.facts()),
                   "meganeura: einsum<\"ik,kj->ij\">(a, b): operands must be floats of one type; cast one of them", a,
                   b)
  return detail::make<detail::describe_einsum>(a, b, labels);
}
template <fixed_string Labels, value A, value B>
[[nodiscard]] constexpr auto einsum(A a, B b) {
  return einsum(fixed_text<Labels>{}, a, b);
}

/// Matrix product over the last two axes, batched over the others.
/// shapes: a [.., m, k], b [.., k, n] or [k, n] -> [.., m, n]. dtypes: floats of one type; accumulation in f32.
/// errors: "the last extent of a must equal the first of b", "operands must be floats of one type". cost: 2 m n k
/// flops.
template <value A, value B>
[[nodiscard]] constexpr auto matmul(A a, B b) {
  MEGANEURA_EXPECT(
      detail::is_contraction(detail::contract_of(detail::matmul_labels(a.facts(), b.facts()), a.facts(), b.facts())),
      "meganeura: matmul(a, b): needs matrices, and b either one or as many batch axes as a", a, b)
  MEGANEURA_EXPECT(
      detail::contract_of(detail::matmul_labels(a.facts(), b.facts()), a.facts(), b.facts()).mismatch().agrees(),
      "meganeura: matmul(a, b): the last extent of a must equal the first of b, and batch extents each other", a, b)
  MEGANEURA_EXPECT(detail::floats_of_one_type(a.facts(), b.facts()),
                   "meganeura: matmul(a, b): operands must be floats of one type; cast one of them", a, b)
  return detail::make<detail::describe_matmul>(a, b);
}

}  // namespace meganeura::inline MEGANEURA_ABI
