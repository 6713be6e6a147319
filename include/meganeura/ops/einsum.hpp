// SPDX-License-Identifier: MIT
// Products with sums over labelled axes.
#pragma once
#include <meganeura/ops/contract.hpp>
#include <meganeura/ops/reduce.hpp>

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

constexpr node_spec describe_einsum(const facts& a, const facts& b, const char* labels) {
  return describe_contract(a, b, parse_einsum(labels).numbers);
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

}  // namespace meganeura::inline MEGANEURA_ABI
