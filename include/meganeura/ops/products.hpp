// SPDX-License-Identifier: MIT
// Products of tensors besides einsum and matmul.
#pragma once
#include <meganeura/expr/traced.hpp>
#include <meganeura/ops/blocks.hpp>
#include <meganeura/ops/contract.hpp>
#include <meganeura/ops/diagonal.hpp>
#include <meganeura/ops/einsum.hpp>
#include <meganeura/ops/rearrange.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// ---- einsum of one operand

// The first axis of a label, and the place of a later one with the same label; -1 where there is none.
struct label_pair {
  int first = -1, second = -1;
};
constexpr label_pair repeated_label(const char* term, int rank) {
  for (int i = 0; i < rank; ++i) {
    for (int k = i + 1; k < rank; ++k) {
      if (term[i] == term[k]) return {i, k};
    }
  }
  return {};
}

struct single_labels {
  char from[max_rank + 1]{}, to[max_rank + 1]{};
  int rank = 0, result_rank = 0;
  bool well_formed = false;
};

// "iij->ji" taken apart; not well formed where a label of the result is repeated or nowhere in the operand.
constexpr single_labels parse_single(const char* text) {
  single_labels labels;
  for (; *text >= 'a' && *text <= 'z' && labels.rank < max_rank; ++text) labels.from[labels.rank++] = *text;
  if (text[0] != '-' || text[1] != '>') return labels;
  for (text += 2; *text >= 'a' && *text <= 'z' && labels.result_rank < max_rank; ++text) {
    labels.to[labels.result_rank++] = *text;
  }
  labels.well_formed = *text == '\0' && repeated_label(labels.to, labels.result_rank).first < 0;
  for (int i = 0; i < labels.result_rank; ++i) {
    bool found = false;
    for (int k = 0; k < labels.rank; ++k) found = found || labels.from[k] == labels.to[i];
    labels.well_formed = labels.well_formed && found;
  }
  return labels;
}

constexpr bool can_einsum(const single_labels& labels, const symbolic_shape& x) {
  if (!labels.well_formed || labels.rank != x.rank) return false;
  for (int i = 0; i < x.rank; ++i) {
    for (int k = i + 1; k < x.rank; ++k) {
      if (labels.from[i] == labels.from[k] && (x[i] != x[k] || !x[i].is_static())) return false;
    }
  }
  return true;
}

// Two axes at the end, the others in their order.
constexpr axis_order at_the_end(int rank, int first, int second) {
  axis_order order;
  int next = 0;
  for (int i = 0; i < rank; ++i) {
    if (i != first && i != second) order.axes[next++] = i;
  }
  order.axes[next++] = first;
  order.axes[next] = second;
  return order;
}

// ---- tensordot, kronecker

constexpr bool can_tensordot(const symbolic_shape& a, const symbolic_shape& b, int axes) {
  if (axes < 1 || axes > a.rank || axes > b.rank || a.rank + b.rank - 2 * axes > max_rank) return false;
  for (int i = 0; i < axes; ++i) {
    if (a[a.rank - axes + i] != b[i]) return false;
  }
  return true;
}
constexpr contract_attribute tensordot_labels(int rank_a, int rank_b, int axes) {
  contract_attribute labels{.result_rank = rank_a + rank_b - 2 * axes};
  for (int i = 0; i < rank_a; ++i) {
    const int kept = rank_a - axes;
    labels.a[i] = static_cast<std::uint8_t>(i < kept ? i : labels.result_rank + i - kept);
  }
  for (int i = 0; i < rank_b; ++i) {
    labels.b[i] = static_cast<std::uint8_t>(i < axes ? labels.result_rank + i : rank_a - axes + i - axes);
  }
  return labels;
}
constexpr node_spec describe_tensordot(const facts& a, const facts& b, int axes) {
  return describe_contract(a, b, tensordot_labels(a.shape.rank, b.shape.rank, axes));
}

constexpr node_spec describe_along_grid(const facts& x, int axis, int rank) {
  symbolic_shape result;
  for (int i = 0; i < rank; ++i) result.push_back(i == axis ? x.shape[0] : dim(1));
  return describe_reshape(x, result);
}
template <value... A>
constexpr symbolic_shape grid_shape(const A&... a) {
  symbolic_shape result;
  (result.push_back(a.facts().shape[0]), ...);
  return result;
}
template <std::size_t... I, value... A>
constexpr auto grid_of(std::index_sequence<I...>, A... a) {
  constexpr int rank = sizeof...(A);
  const auto along = [&](auto x, auto axis) {
    if constexpr (all_typed<A...>::value) {
      return expand<grid_shape(A{}...)>(make<describe_along_grid>(x, axis, c<rank>));
    } else {
      return expand(make<describe_along_grid>(x, axis, c<rank>), grid_shape(a...));
    }
  };
  return result_list<name_list<>, decltype(along(a, c<static_cast<int>(I)>))...>(along(a, c<static_cast<int>(I)>)...);
}

}  // namespace detail

namespace layers {

struct einsum_of_one {
  static constexpr auto forward(value auto x, const char* text) {
    detail::single_labels labels = detail::parse_single(text);
    auto y = reshape(x, x.facts().shape);
    for (auto pair = detail::repeated_label(labels.from, labels.rank); pair.first >= 0;
         pair = detail::repeated_label(labels.from, labels.rank)) {
      const detail::axis_order order = detail::at_the_end(labels.rank, pair.first, pair.second);
      y = diagonal::forward(detail::make<detail::describe_permute>(y, order), 0);
      detail::single_labels kept = labels;
      for (int i = 0; i < labels.rank; ++i) kept.from[i] = labels.from[order.axes[i]];
      --kept.rank;
      labels = kept;
    }
    detail::axis_order order;
    int bits = 0, place = 0;
    for (int i = 0; i < labels.rank; ++i) {
      bool kept = false;
      for (int k = 0; k < labels.result_rank; ++k) kept = kept || labels.to[k] == labels.from[i];
      if (!kept) bits |= 1 << i;
      for (int k = 0; kept && k < labels.result_rank; ++k) {
        if (labels.to[k] == labels.from[i]) order.axes[k] = place;
      }
      place += kept ? 1 : 0;
    }
    y = detail::make<detail::describe_reduce_of>(y, reduce_kind::sum, bits);
    return detail::make<detail::describe_permute>(y, order);
  }
};

struct kronecker {
  static constexpr auto forward(value auto a, value auto b) {
    const symbolic_shape s = a.facts().shape, t = b.facts().shape;
    const auto product = reshape(a, detail::leading(s, {s.last(1), 1, s.last(), 1}, 2)) *
                         reshape(b, detail::leading(t, {1, t.last(1), 1, t.last()}, 2));
    const symbolic_shape whole = detail::broadcast(detail::leading(s, {1, 1}, 2), detail::leading(t, {1, 1}, 2));
    return reshape(product, detail::leading(whole, {s.last(1) * t.last(1), s.last() * t.last()}, 2));
  }
};

struct cross {
  static constexpr auto forward(value auto a, value auto b, int axis) {
    const auto turned = [&](auto x, std::int64_t by) { return roll::forward(x, axis, by); };
    return turned(a, 2) * turned(b, 1) - turned(a, 1) * turned(b, 2);
  }
};

}  // namespace layers

/// One operand with labelled axes: a repeated label takes the diagonal, a label missing from the result is summed over,
/// the others are put in order: einsum<"iij->j">(x), or einsum("iij->j", x).
/// dtypes: numbers. errors: "labels must name each axis, and equal ones have equal known extents".
template <class Labels, value A>
[[nodiscard]] constexpr auto einsum(Labels labels, A a) {
  MEGANEURA_EXPECT(detail::can_einsum(detail::parse_single(labels), a.facts().shape),
                   "meganeura: einsum<\"iij->j\">(x): labels must name each axis, those of the result once, and "
                   "repeated ones have equal known extents",
                   a)
  return detail::layer<layers::einsum_of_one>(fixed_text<"">{}, a, labels);
}
template <fixed_string Labels, value A>
[[nodiscard]] constexpr auto einsum(A a) {
  return einsum(fixed_text<Labels>{}, a);
}

/// Sum of products over the last `axes` axes of a and as many first ones of b: tensordot<2>(a, b), or
/// tensordot(a, b, 2). dtypes: floats of one type; accumulation in f32.
template <value A, value B, detail::axis_like Axes>
[[nodiscard]] constexpr auto tensordot(A a, B b, Axes axes) {
  MEGANEURA_EXPECT(detail::can_tensordot(a.facts().shape, b.facts().shape, axes),
                   "meganeura: tensordot<axes>(a, b): the last axes of a must be the first ones of b", a, b)
  MEGANEURA_EXPECT(detail::floats_of_one_type(a.facts(), b.facts()),
                   "meganeura: tensordot<axes>(a, b): operands must be floats of one type; cast one of them", a, b)
  return detail::make<detail::describe_tensordot>(a, b, axes);
}
template <int Axes, value A, value B>
[[nodiscard]] constexpr auto tensordot(A a, B b) {
  return tensordot(a, b, c<Axes>);
}

/// Products of all pairs of elements of the last axes: [.., n], [.., m] -> [.., n, m].
/// errors: those of a * b, and "operands need an axis and room for another".
template <value A, value B>
[[nodiscard]] constexpr auto outer(A a, B b) {
  MEGANEURA_EXPECT((a.facts().shape.rank >= 1 && b.facts().shape.rank >= 1 && a.facts().shape.rank < max_rank &&
                    b.facts().shape.rank < max_rank),
                   "meganeura: outer(a, b): operands need an axis and room for another", a, b)
  return unsqueeze(a, c<-1>) * unsqueeze(b, c<-2>);
}

/// a's elements each times the matrix b, as one matrix: [.., m, n], [.., p, q] -> [.., m p, n q]; batch axes broadcast.
template <value A, value B>
[[nodiscard]] constexpr auto kronecker(A a, B b) {
  MEGANEURA_EXPECT((a.facts().shape.rank >= 2 && b.facts().shape.rank >= 2 && a.facts().shape.rank + 2 <= max_rank &&
                    b.facts().shape.rank + 2 <= max_rank && a.facts().type == b.facts().type &&
                    detail::broadcast_mismatch(detail::leading(a.facts().shape, {1, 1}, 2),
                                               detail::leading(b.facts().shape, {1, 1}, 2))
                        .agrees()),
                   "meganeura: kronecker(a, b): operands must be matrices of one dtype with room for two axes more and "
                   "batch extents that are equal or 1",
                   a, b)
  return detail::layer<layers::kronecker>(fixed_text<"">{}, a, b);
}

/// The cross product along an axis of extent 3: cross<-1>(a, b), or cross(a, b, -1).
/// errors: "operands must be numbers of one dtype and shape, with that axis of extent 3".
template <value A, value B, detail::axis_like Axis>
[[nodiscard]] constexpr auto cross(A a, B b, Axis axis) {
  MEGANEURA_EXPECT((detail::are_of_one_type(a.facts(), b.facts()) && detail::has_static_axis(a, axis) &&
                    detail::extent_at(a, axis) == 3),
                   "meganeura: cross<axis>(a, b): operands must have one dtype and shape, with that axis of extent 3",
                   a, b)
  return detail::layer<layers::cross>(fixed_text<"">{}, a, b, axis);
}
template <int Axis = -1, value A, value B>
[[nodiscard]] constexpr auto cross(A a, B b) {
  return cross(a, b, c<Axis>);
}

/// The k-th operand's elements along axis k of the grid that all of them span: auto [i, j] = meshgrid(a, b), of [n] and
/// [m], are both [n, m]. NumPy's and PyTorch's "xy" is meshgrid(b, a) exchanged.
/// errors: "operands must have one axis each".
template <value... A>
[[nodiscard]] constexpr auto meshgrid(A... a) {
  MEGANEURA_EXPECT(((a.facts().shape.rank == 1) && ... && (sizeof...(A) <= max_rank)),
                   "meganeura: meshgrid(a, ...): operands must have one axis each, and be at most as many as a tensor "
                   "has axes",
                   a...)
  return detail::grid_of(std::index_sequence_for<A...>{}, a...);
}

}  // namespace meganeura::inline MEGANEURA_ABI
