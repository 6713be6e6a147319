// SPDX-License-Identifier: MIT
// Products with sums: einsum and matmul, one primitive.
#pragma once
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// "bik,bkj->bij" taken apart: labels of a and b numbered as graph's contract_attribute wants them (the result's labels
// in order, then summed ones in the order of a).
struct contraction {
  integer_list list;  // a[8], b[8], result rank
  int rank_a = 0, rank_b = 0;
  bool well_formed = true;
  extent_pair mismatch;
  symbolic_shape result;
};

constexpr int position(const char* text, int count, char label) {
  for (int i = 0; i < count; ++i) {
    if (text[i] == label) return i;
  }
  return -1;
}

struct einsum_terms {
  char labels[3][max_rank + 1]{};
  int count[3]{};
  bool well_formed = true;
};

constexpr einsum_terms split_terms(const char* text) {
  einsum_terms terms;
  int term = 0;
  for (; *text != '\0'; ++text) {
    const bool arrow = *text == '-' && text[1] == '>';
    if ((*text == ',' && term == 0) || (arrow && term == 1)) {
      ++term;
      text += arrow ? 1 : 0;
    } else if (*text < 'a' || *text > 'z' || terms.count[term] == max_rank) {
      terms.well_formed = false;
      break;
    } else {
      terms.labels[term][terms.count[term]++] = *text;
    }
  }
  terms.well_formed = terms.well_formed && term == 2;
  return terms;
}

constexpr contraction parse_einsum(const char* text, const symbolic_shape& a, const symbolic_shape& b) {
  const einsum_terms terms = split_terms(text);
  contraction c;
  c.rank_a = terms.count[0];
  c.rank_b = terms.count[1];
  char order[2 * max_rank]{};
  int known = 0;
  for (; known < terms.count[2]; ++known) order[known] = terms.labels[2][known];
  c.list.values[2 * max_rank] = known;
  c.well_formed = terms.well_formed && c.rank_a == a.rank && c.rank_b == b.rank;
  dim extents[2 * max_rank]{};
  bool seen[2 * max_rank][2]{};
  for (int side = 0; c.well_formed && side < 2; ++side) {
    for (int i = 0; i < terms.count[side]; ++i) {
      int at = position(order, known, terms.labels[side][i]);
      if (at < 0) order[at = known++] = terms.labels[side][i];
      const dim extent = (side == 0 ? a : b)[i];
      if (seen[at][side]) c.well_formed = false;
      if (seen[at][0] && extents[at] != extent && c.mismatch == extent_pair{}) {
        c.mismatch = {at, extents[at].coefficient, extent.coefficient, extents[at].name == extent.name};
      }
      seen[at][side] = true;
      if (side == 0 || !seen[at][0]) extents[at] = extent;
      c.list.values[side * max_rank + i] = at;
    }
  }
  for (int i = 0; i < known; ++i) {
    const bool kept = i < terms.count[2];
    if (kept ? !seen[i][0] && !seen[i][1] : !seen[i][0] || !seen[i][1]) c.well_formed = false;
    if (kept) c.result.push_back(extents[i]);
  }
  return c;
}

// The primitive itself, for functions that made the labels.
template <contraction C, auto A, auto B>
constexpr auto contracted(expr<A>, expr<B>) {
  return apply<with_list(make_node(primitive::contract, A.root().type, interned_shape<C.result>),
                         interned_list<C.list>),
               A, B>();
}

template <auto A, auto B>
inline constexpr bool floats_of_one_type = A.root().type == B.root().type&& is_float(A.root().type);

// matmul's labels: batch axes by position, then m, k and k, n.
constexpr contraction matmul_labels(const symbolic_shape& a, const symbolic_shape& b) {
  contraction c;
  c.well_formed = a.rank >= 2 && b.rank >= 2 && (b.rank == 2 || b.rank == a.rank);
  if (!c.well_formed) return c;
  const int batch = a.rank - 2;
  for (int i = 0; i < a.rank; ++i) c.list.values[i] = i < a.rank - 1 ? i : a.rank;
  for (int i = 0; i < b.rank - 2; ++i) {
    c.list.values[max_rank + i] = i;
    if (a[i] != b[i] && c.mismatch == extent_pair{}) {
      c.mismatch = {i, a[i].coefficient, b[i].coefficient, a[i].name == b[i].name};
    }
  }
  c.list.values[max_rank + b.rank - 2] = a.rank;
  c.list.values[max_rank + b.rank - 1] = batch + 1;
  c.list.values[2 * max_rank] = a.rank;
  if (a.last() != b.last(1)) {
    c.mismatch = {a.rank - 1, a.last().coefficient, b.last(1).coefficient, a.last().name == b.last(1).name};
  }
  c.result = with_extent(a, a.rank - 1, b.last());
  return c;
}

}  // namespace detail

/// Sum of products over labelled axes: einsum<"bik,bkj->bij">(a, b).
/// shapes: one lower-case letter an axis; letters missing from the result are summed over and stand in both operands.
/// dtypes: floats of one type; accumulation in f32. cost: 2 flops for each combination of all labels.
/// errors: "labels must name each axis", "extents of one label must be equal", "operands must be floats of one type".
template <fixed_string Labels, auto A, auto B>
[[nodiscard]] constexpr auto einsum(expr<A> a, expr<B> b) {
  constexpr detail::contraction c = detail::parse_einsum(Labels.text, *A.root().shape, *B.root().shape);
  static_assert(
      c.well_formed,
      "meganeura: einsum<\"ik,kj->ij\">(a, b): labels must name each axis, and a summed one stand in both operands");
  static_assert(
      detail::extents_agree<c.mismatch.axis_from_end, c.mismatch.left, c.mismatch.right, c.mismatch.same_symbol>,
      "meganeura: einsum<\"ik,kj->ij\">(a, b): extents of one label must be equal");
  static_assert(detail::floats_of_one_type<A, B>,
                "meganeura: einsum<\"ik,kj->ij\">(a, b): operands must be floats of one type; cast one of them");
  if constexpr (c.well_formed) {
    return detail::contracted<c>(a, b);
  } else {
    return a;
  }
}

/// Matrix product over the last two axes, batched over the others.
/// shapes: a [.., m, k], b [.., k, n] or [k, n] -> [.., m, n]. dtypes: floats of one type; accumulation in f32.
/// errors: "the last extent of a must equal the first of b", "operands must be floats of one type". cost: 2 m n k
/// flops.
template <auto A, auto B>
[[nodiscard]] constexpr auto matmul(expr<A> a, expr<B> b) {
  constexpr detail::contraction c = detail::matmul_labels(*A.root().shape, *B.root().shape);
  static_assert(c.well_formed, "meganeura: matmul(a, b): needs matrices, and b either one or as many batch axes as a");
  static_assert(
      detail::extents_agree<c.mismatch.axis_from_end, c.mismatch.left, c.mismatch.right, c.mismatch.same_symbol>,
      "meganeura: matmul(a, b): the last extent of a must equal the first of b, and batch extents each other");
  static_assert(detail::floats_of_one_type<A, B>,
                "meganeura: matmul(a, b): operands must be floats of one type; cast one of them");
  if constexpr (c.well_formed) {
    return detail::contracted<c>(a, b);
  } else {
    return a;
  }
}

}  // namespace meganeura::inline MEGANEURA_ABI
