// SPDX-License-Identifier: MIT
// Axes put in order, repeated, stacked, taken apart and shuffled.
#pragma once
#include <meganeura/core/results.hpp>
#include <meganeura/expr/traced.hpp>
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// The extents before `axis`, those given, and those behind the `skipped` axes that they replace.
constexpr symbolic_shape with_axes(const symbolic_shape& shape, int axis, int skipped,
                                   std::initializer_list<dim> extents) {
  symbolic_shape result;
  for (int i = 0; i < axis; ++i) result.push_back(shape[i]);
  for (const dim& each : extents) result.push_back(each);
  for (int i = axis + skipped; i < shape.rank; ++i) result.push_back(shape[i]);
  return result;
}

constexpr axis_order moved(int rank, int from, int to) {
  axis_order order;
  for (int i = 0, next = 0; i < rank; ++i) {
    next += next == from ? 1 : 0;
    order.axes[i] = i == to ? from : next++;
  }
  return order;
}

constexpr axis_order swapped(int rank, int a, int b) {
  axis_order order;
  for (int i = 0; i < rank; ++i) order.axes[i] = i == a ? b : i == b ? a : i;
  return order;
}

constexpr node_spec describe_movedim(const facts& x, int from, int to) {
  const int rank = x.shape.rank;
  return describe_permute(x, moved(rank, normal_axis(from, rank), normal_axis(to, rank)));
}
constexpr node_spec describe_swap_axes(const facts& x, int a, int b) {
  const int rank = x.shape.rank;
  return describe_permute(x, swapped(rank, normal_axis(a, rank), normal_axis(b, rank)));
}
constexpr node_spec describe_squeeze(const facts& x, int axis) {
  return describe_reshape(x, with_axes(x.shape, normal_axis(axis, x.shape.rank), 1, {}));
}

template <class X, class Axis>
constexpr bool has_static_axis(const X& x, Axis axis) {
  return axis_of(x, axis) >= 0 && x.facts().shape[axis_of(x, axis)].is_static();
}
template <class X, class Axis>
constexpr std::int64_t extent_at(const X& x, Axis axis) {
  return axis_of(x, axis) >= 0 ? x.facts().shape[axis_of(x, axis)].coefficient : 0;
}

}  // namespace detail

namespace layers {

struct tile {
  static constexpr auto forward(value auto x, int axis, std::int64_t count, bool each) {
    const symbolic_shape shape = x.facts().shape;
    const int along = detail::normal_axis(axis, shape.rank), added = each ? along + 1 : along;
    const dim extent = shape[along], first = each ? extent : dim(count), second = each ? dim(count) : extent;
    const auto wide = expand(unsqueeze(x, added), detail::with_axes(shape, along, 1, {first, second}));
    return reshape(wide, detail::with_extent(shape, along, extent * count));
  }
};

struct roll {
  static constexpr auto forward(value auto x, int axis, std::int64_t shift) {
    const int along = detail::axis_of(x, axis);
    const std::int64_t extent = x.facts().shape[along].coefficient, low = (shift % extent + extent) % extent;
    if (low == 0) return reshape(x, x.facts().shape);
    return concat(along, slice(x, along, extent - low, low), slice(x, along, std::int64_t{0}, extent - low));
  }
};

struct pick {
  static constexpr auto forward(value auto x, int axis, std::int64_t index) {
    const int along = detail::axis_of(x, axis);
    return reshape(slice(x, along, index, std::int64_t{1}), detail::with_axes(x.facts().shape, along, 1, {}));
  }
};

struct rot90 {
  static constexpr auto forward(value auto x, int turns) {
    const int turned = (turns % 4 + 4) % 4;
    if (turned == 0) return reshape(x, x.facts().shape);
    if (turned == 2) return flip(flip(x, -1), -2);
    return flip(transpose(x), turned == 1 ? -2 : -1);
  }
};

}  // namespace layers

/// The axis, whose extent is 1, left out: squeeze<0>(x), or squeeze(x, 0).
template <value A, detail::axis_like Axis>
[[nodiscard]] constexpr auto squeeze(A x, Axis axis) {
  MEGANEURA_EXPECT((detail::has_static_axis(x, axis) && detail::extent_at(x, axis) == 1),
                   "meganeura: squeeze<axis>(x): x needs that axis, of extent 1", x)
  return detail::make<detail::describe_squeeze>(x, axis);
}
template <int Axis, value A>
[[nodiscard]] constexpr auto squeeze(A x) {
  return squeeze(x, c<Axis>);
}

/// The axis `from` at the place `to`, the others in their order: movedim<1, -1>(x) of [n, c, h, w] is [n, h, w, c].
template <value A, detail::axis_like From, detail::axis_like To>
[[nodiscard]] constexpr auto movedim(A x, From from, To to) {
  MEGANEURA_EXPECT((detail::axis_of(x, from) >= 0 && detail::axis_of(x, to) >= 0),
                   "meganeura: movedim<from, to>(x): x has no such axis", x)
  return detail::make<detail::describe_movedim>(x, from, to);
}
template <int From, int To, value A>
[[nodiscard]] constexpr auto movedim(A x) {
  return movedim(x, c<From>, c<To>);
}

/// Two axes exchanged: swap_axes<0, -1>(x), or swap_axes(x, 0, -1).
template <value A, detail::axis_like First, detail::axis_like Second>
[[nodiscard]] constexpr auto swap_axes(A x, First first, Second second) {
  MEGANEURA_EXPECT((detail::axis_of(x, first) >= 0 && detail::axis_of(x, second) >= 0),
                   "meganeura: swap_axes<a, b>(x): x has no such axis", x)
  return detail::make<detail::describe_swap_axes>(x, first, second);
}
template <int First, int Second, value A>
[[nodiscard]] constexpr auto swap_axes(A x) {
  return swap_axes(x, c<First>, c<Second>);
}

/// x `count` times behind itself along `axis`: tile<0, 3>(x), or tile(x, 0, 3).
/// shapes: [.., n, ..] -> [.., count n, ..]. errors: "x needs that axis, room for one axis more and a count of 1 or
/// more".
template <value A, detail::axis_like Axis, class Count>
[[nodiscard]] constexpr auto tile(A x, Axis axis, Count count) {
  MEGANEURA_EXPECT((detail::axis_of(x, axis) >= 0 && x.facts().shape.rank < max_rank && count >= 1),
                   "meganeura: tile<axis, count>(x): x needs that axis, room for one axis more and a count of 1 or "
                   "more",
                   x)
  return detail::layer<layers::tile>(fixed_text<"">{}, x, axis, count, c<false>);
}
template <int Axis, int Count, value A>
[[nodiscard]] constexpr auto tile(A x) {
  return tile(x, c<Axis>, c<Count>);
}

/// Each element along `axis` `count` times: repeat_interleave<0, 2>(x) of [a, b] is [a, a, b, b]. Otherwise as tile.
template <value A, detail::axis_like Axis, class Count>
[[nodiscard]] constexpr auto repeat_interleave(A x, Axis axis, Count count) {
  MEGANEURA_EXPECT((detail::axis_of(x, axis) >= 0 && x.facts().shape.rank < max_rank && count >= 1),
                   "meganeura: repeat_interleave<axis, count>(x): x needs that axis, room for one axis more and a "
                   "count of 1 or more",
                   x)
  return detail::layer<layers::tile>(fixed_text<"">{}, x, axis, count, c<true>);
}
template <int Axis, int Count, value A>
[[nodiscard]] constexpr auto repeat_interleave(A x) {
  return repeat_interleave(x, c<Axis>, c<Count>);
}

/// Elements along `axis` moved by `shift`, what leaves at one end comes in at the other: roll<-1, 1>(x) of [a, b, c] is
/// [c, a, b].
template <value A, detail::axis_like Axis, class Shift>
[[nodiscard]] constexpr auto roll(A x, Axis axis, Shift shift) {
  MEGANEURA_EXPECT(detail::has_static_axis(x, axis),
                   "meganeura: roll<axis, shift>(x): x needs that axis, of a known extent", x)
  return detail::layer<layers::roll>(fixed_text<"">{}, x, axis, shift);
}
template <int Axis, int Shift, value A>
[[nodiscard]] constexpr auto roll(A x) {
  return roll(x, c<Axis>, c<Shift>);
}

/// What stands at one place of an axis, which disappears; a place below 0 counts from the end: pick<1, -1>(x) is the
/// last token of [batch, sequence, width]. torch.select.
template <value A, detail::axis_like Axis, class Index>
[[nodiscard]] constexpr auto pick(A x, Axis axis, Index index) {
  MEGANEURA_EXPECT(detail::can_slice(x.facts().shape, detail::axis_of(x, axis), index, dim(1), 1),
                   "meganeura: pick<axis, index>(x): the index must lie within the axis", x)
  return detail::layer<layers::pick>(fixed_text<"">{}, x, axis, index);
}
template <int Axis, int Index, value A>
[[nodiscard]] constexpr auto pick(A x) {
  return pick(x, c<Axis>, c<Index>);
}

/// One beside the other along a new axis: stack<0>(a, b), or stack(c<0>, a, b). All have one dtype and shape.
/// errors: "all must have one shape and dtype, and the result such an axis".
template <detail::axis_like Axis, value A, value B, value... More>
[[nodiscard]] constexpr auto stack(Axis axis, A a, B b, More... more) {
  MEGANEURA_EXPECT(((detail::normal_axis(axis, a.facts().shape.rank + 1) >= 0 && a.facts().shape.rank < max_rank) &&
                    detail::are_of_one_type(a.facts(), b.facts()) &&
                    (true && ... && detail::are_of_one_type(a.facts(), more.facts()))),
                   "meganeura: stack<axis>(a, b, ...): all must have one shape and dtype, and the result such an axis",
                   a, b, more...)
  return concat(axis, unsqueeze(a, axis), unsqueeze(b, axis), unsqueeze(more, axis)...);
}
template <int Axis, value A, value B, value... More>
[[nodiscard]] constexpr auto stack(A a, B b, More... more) {
  return stack(c<Axis>, a, b, more...);
}

namespace detail {
template <class... Sizes>
constexpr node_spec describe_part(const facts& x, int axis, int index, Sizes... sizes) {
  const std::int64_t lengths[]{sizes...};
  std::int64_t start = 0;
  for (int i = 0; i < index; ++i) start += lengths[i];
  return describe_slice(x, axis, start, dim(lengths[index]), 1);
}
template <class... T>
inline constexpr auto part_description = &describe_part<std::conditional_t<true, std::int64_t, T>...>;
template <std::size_t... I, value A, class Axis, class... Sizes>
constexpr auto parts(std::index_sequence<I...>, A x, Axis axis, Sizes... sizes) {
  constexpr auto describe = part_description<Sizes...>;
  return result_list<name_list<>, decltype(make<describe>(x, axis, c<static_cast<int>(I)>, sizes...))...>(
      make<describe>(x, axis, c<static_cast<int>(I)>, sizes...)...);
}
template <int Axis, int Count, std::size_t... I, value A>
constexpr auto chunks(A x, std::index_sequence<I...>) {
  const auto part = [&]<std::size_t At>() {
    constexpr auto start = static_cast<int>(At);
    if constexpr (is_expr<A>) {
      constexpr int length = static_cast<int>(extent_at(A{}, Axis) / Count);
      return slice<Axis, start * length, length>(x);
    } else {
      const std::int64_t length = extent_at(x, Axis) / Count;
      return slice(x, Axis, start * length, length);
    }
  };
  return result_list<name_list<>, decltype(part.template operator()<I>())...>(part.template operator()<I>()...);
}
template <int Axis, std::size_t... I, value A>
constexpr auto picked(A x, std::index_sequence<I...>) {
  return result_list<name_list<>, decltype(pick<Axis, static_cast<int>(I)>(x))...>(
      pick<Axis, static_cast<int>(I)>(x)...);
}
}  // namespace detail

/// `Count` equal parts along an axis: auto [a, b] = chunk<-1, 2>(x). torch.chunk, ONNX's Split; `split` gives parts of
/// any length. errors: "the extent must be a multiple of the count".
template <int Axis, int Count, value A>
[[nodiscard]] constexpr auto chunk(A x) {
  MEGANEURA_EXPECT(
      (detail::has_static_axis(x, c<Axis>) && detail::extent_at(x, c<Axis>) % Count == 0),
      "meganeura: chunk<axis, count>(x): x needs that axis, and its extent must be a multiple of the count", x)
  return detail::chunks<Axis, Count>(x, std::make_index_sequence<Count>{});
}

/// Parts of these sizes along an axis: auto [a, b, d] = split<-1, 2, 3, 1>(x), or split(x, -1, 2, 3, 1). torch.split,
/// ONNX's Split. errors: "the extent must be the sum of the sizes".
template <value A, detail::axis_like Axis, class... Sizes>
[[nodiscard]] constexpr auto split(A x, Axis axis, Sizes... sizes) {
  MEGANEURA_EXPECT(
      (detail::has_static_axis(x, axis) && ((std::int64_t{sizes} >= 1) && ...) &&
       detail::extent_at(x, axis) == (std::int64_t{0} + ... + std::int64_t{sizes})),
      "meganeura: split<axis, sizes...>(x): x needs that axis, and its extent must be the sum of the sizes", x)
  return detail::parts(std::index_sequence_for<Sizes...>{}, x, axis, sizes...);
}
template <int Axis, int... Sizes, value A>
[[nodiscard]] constexpr auto split(A x) {
  return split(x, c<Axis>, c<Sizes>...);
}

/// What stands at each of the `Count` places of an axis: auto [a, b, c] = unbind<0, 3>(x).
/// errors: "the extent must be the count".
template <int Axis, int Count, value A>
[[nodiscard]] constexpr auto unbind(A x) {
  MEGANEURA_EXPECT((detail::has_static_axis(x, c<Axis>) && detail::extent_at(x, c<Axis>) == Count),
                   "meganeura: unbind<axis, count>(x): x needs that axis, and its extent must be the count", x)
  return detail::picked<Axis>(x, std::make_index_sequence<Count>{});
}

/// The last two axes turned by quarters, counterclockwise: rot90<1>(x), or rot90(x, 1).
template <value A, detail::axis_like Turns>
[[nodiscard]] constexpr auto rot90(A x, Turns turns) {
  MEGANEURA_EXPECT(x.facts().shape.rank >= 2, "meganeura: rot90<turns>(x): x needs two axes", x)
  return detail::layer<layers::rot90>(fixed_text<"">{}, x, turns);
}
template <int Turns, value A>
[[nodiscard]] constexpr auto rot90(A x) {
  return rot90(x, c<Turns>);
}

}  // namespace meganeura::inline MEGANEURA_ABI
