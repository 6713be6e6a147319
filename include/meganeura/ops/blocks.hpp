// SPDX-License-Identifier: MIT
// Blocks of images as channels and back, and borders that repeat what is inside.
#pragma once
#include <meganeura/expr/traced.hpp>
#include <meganeura/ops/spatial.hpp>
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// What a border holds: the elements mirrored about the outermost one, the outermost one, or those of the other end.
enum class pad_mode : std::uint8_t { reflect, edge, wrap };

namespace detail {

// The last five axes in another order.
constexpr axis_order trailing_order(int rank, const int (&order)[5]) {
  axis_order result;
  for (int i = 0; i < rank - 5; ++i) result.axes[i] = i;
  for (int i = 0; i < 5; ++i) result.axes[rank - 5 + i] = rank - 5 + order[i];
  return result;
}

constexpr symbolic_shape leading(const symbolic_shape& shape, std::initializer_list<dim> last, int replaced = 3) {
  symbolic_shape result;
  for (int i = 0; i < shape.rank - replaced; ++i) result.push_back(shape[i]);
  for (const dim& each : last) result.push_back(each);
  return result;
}

constexpr dim over(const dim& extent, std::int64_t divisor) { return extent.with(extent.coefficient / divisor); }

constexpr bool can_unpack(const symbolic_shape& x, std::int64_t block) {
  return block >= 1 && block < (1 << 15) && x.rank >= 3 && x.rank + 2 <= max_rank &&
         x.last(2).coefficient % (block * block) == 0;
}
constexpr bool can_pack(const symbolic_shape& x, std::int64_t block) {
  return block >= 1 && x.rank >= 3 && x.rank + 2 <= max_rank && x.last(1).coefficient % block == 0 &&
         x.last().coefficient % block == 0;
}
// A number is for one axis.
constexpr spatial per_axis(int number) { return {number, 0, 0}; }
constexpr spatial per_axis(const spatial& numbers) { return {numbers[0], numbers[1], numbers.or_zero(2)}; }
constexpr bool can_pad_by(const symbolic_shape& x, int axis, const spatial& low, const spatial& high, pad_mode mode) {
  if (axis < 0) return false;
  for (int i = 0; i < max_spatial; ++i) {
    if (low[i] == 0 && high[i] == 0 && i > 0) continue;
    if (axis + i >= x.rank || !x[axis + i].is_static() || low[i] < 0 || high[i] < 0) return false;
    const std::int64_t extent = x[axis + i].coefficient;
    const std::int64_t most = mode == pad_mode::edge ? 1 << 30 : mode == pad_mode::reflect ? extent - 1 : extent;
    if (low[i] > most || high[i] > most) return false;
  }
  return true;
}

}  // namespace detail

namespace layers {

// Channels [block, block, c] or, `inner`, [c, block, block].
struct depth_to_space {
  static constexpr auto forward(value auto x, std::int64_t block, bool inner) {
    const symbolic_shape s = x.facts().shape;
    const dim channels = detail::over(s.last(2), block * block), h = s.last(1), w = s.last();
    const auto apart = inner ? reshape(x, detail::leading(s, {channels, block, block, h, w}))
                             : reshape(x, detail::leading(s, {block, block, channels, h, w}));
    const int by_inner[5]{0, 3, 1, 4, 2}, by_outer[5]{2, 3, 0, 4, 1};
    const auto sorted =
        detail::make<detail::describe_permute>(apart, detail::trailing_order(s.rank + 2, inner ? by_inner : by_outer));
    return reshape(sorted, detail::leading(s, {channels, h * block, w * block}));
  }
};

struct space_to_depth {
  static constexpr auto forward(value auto x, std::int64_t block, bool inner) {
    const symbolic_shape s = x.facts().shape;
    const dim channels = s.last(2), h = detail::over(s.last(1), block), w = detail::over(s.last(), block);
    const auto apart = reshape(x, detail::leading(s, {channels, h, block, w, block}));
    const int to_inner[5]{0, 2, 4, 1, 3}, to_outer[5]{2, 4, 0, 1, 3};
    const auto sorted =
        detail::make<detail::describe_permute>(apart, detail::trailing_order(s.rank + 2, inner ? to_inner : to_outer));
    return reshape(sorted, detail::leading(s, {channels * (block * block), h, w}));
  }
};

struct channel_shuffle {
  static constexpr auto forward(value auto x, std::int64_t groups) {
    const symbolic_shape s = x.facts().shape;
    const dim each = detail::over(s.last(2), groups);
    const auto apart = reshape(x, detail::leading(s, {groups, each, s.last(1) * s.last()}));
    detail::axis_order order;
    for (int i = 0; i < s.rank; ++i) order.axes[i] = i == s.rank - 3 ? i + 1 : i == s.rank - 2 ? i - 1 : i;
    return reshape(detail::make<detail::describe_permute>(apart, order), s);
  }
};

struct pad_by {
  static constexpr auto border(value auto x, int axis, std::int64_t count, bool high, pad_mode mode) {
    const std::int64_t extent = x.facts().shape[axis].coefficient;
    if (mode == pad_mode::edge) {
      const auto last = slice(x, axis, high ? extent - 1 : 0, std::int64_t{1});
      return expand(last, detail::with_extent(x.facts().shape, axis, count));
    }
    if (mode == pad_mode::wrap) return slice(x, axis, high ? 0 : extent - count, count);
    return flip(slice(x, axis, high ? extent - 1 - count : 1, count), axis);
  }
  static constexpr auto forward(value auto x, int axis, const auto& low, const auto& high, pad_mode mode) {
    auto padded = reshape(x, x.facts().shape);
    for (int i = 0; i < max_spatial; ++i) {
      const int before = detail::per_axis(low)[i], behind = detail::per_axis(high)[i];
      const int along = detail::axis_of(x, axis) + i;
      const auto inner = padded;
      if (before > 0) padded = concat(along, border(inner, along, before, false, mode), padded);
      if (behind > 0) padded = concat(along, padded, border(inner, along, behind, true, mode));
    }
    return padded;
  }
};

}  // namespace layers

/// Channels as blocks of pixels: [.., c block block, h, w] -> [.., c, h block, w block], the block's row and column
/// being the last parts of a channel's number: pixel_shuffle<2>(x), or pixel_shuffle(x, 2). ONNX's DepthToSpace of mode
/// CRD. errors: "the channels must be a multiple of block^2".
template <value A, class Block>
[[nodiscard]] constexpr auto pixel_shuffle(A x, Block block) {
  MEGANEURA_EXPECT(detail::can_unpack(x.facts().shape, block),
                   "meganeura: pixel_shuffle<block>(x): x must be [.., c, h, w] with channels that are a multiple of "
                   "block^2, and room for two axes more",
                   x)
  return detail::layer<layers::depth_to_space>(fixed_text<"">{}, x, block, c<true>);
}
template <int Block, value A>
[[nodiscard]] constexpr auto pixel_shuffle(A x) {
  return pixel_shuffle(x, c<Block>);
}

/// The same with the block's row and column as the first parts of a channel's number: ONNX's DepthToSpace of mode DCR.
template <value A, class Block>
[[nodiscard]] constexpr auto depth_to_space(A x, Block block) {
  MEGANEURA_EXPECT(detail::can_unpack(x.facts().shape, block),
                   "meganeura: depth_to_space<block>(x): x must be [.., c, h, w] with channels that are a multiple of "
                   "block^2, and room for two axes more",
                   x)
  return detail::layer<layers::depth_to_space>(fixed_text<"">{}, x, block, c<false>);
}
template <int Block, value A>
[[nodiscard]] constexpr auto depth_to_space(A x) {
  return depth_to_space(x, c<Block>);
}

/// What pixel_shuffle makes its operand of: [.., c, h block, w block] -> [.., c block block, h, w].
/// errors: "h and w must be multiples of block".
template <value A, class Block>
[[nodiscard]] constexpr auto pixel_unshuffle(A x, Block block) {
  MEGANEURA_EXPECT(detail::can_pack(x.facts().shape, block),
                   "meganeura: pixel_unshuffle<block>(x): x must be [.., c, h, w] with h and w that are multiples of "
                   "block, and room for two axes more",
                   x)
  return detail::layer<layers::space_to_depth>(fixed_text<"">{}, x, block, c<true>);
}
template <int Block, value A>
[[nodiscard]] constexpr auto pixel_unshuffle(A x) {
  return pixel_unshuffle(x, c<Block>);
}

/// What depth_to_space makes its operand of; ONNX's SpaceToDepth.
template <value A, class Block>
[[nodiscard]] constexpr auto space_to_depth(A x, Block block) {
  MEGANEURA_EXPECT(detail::can_pack(x.facts().shape, block),
                   "meganeura: space_to_depth<block>(x): x must be [.., c, h, w] with h and w that are multiples of "
                   "block, and room for two axes more",
                   x)
  return detail::layer<layers::space_to_depth>(fixed_text<"">{}, x, block, c<false>);
}
template <int Block, value A>
[[nodiscard]] constexpr auto space_to_depth(A x) {
  return space_to_depth(x, c<Block>);
}

/// Channels of [.., c, h, w] dealt out to `groups` in turn: number i c / groups + j becomes j groups + i.
template <value A, class Groups>
[[nodiscard]] constexpr auto channel_shuffle(A x, Groups groups) {
  MEGANEURA_EXPECT(
      (x.facts().shape.rank >= 3 && groups >= 1 && x.facts().shape.last(2).coefficient % groups == 0),
      "meganeura: channel_shuffle<groups>(x): x must be [.., c, h, w] with channels that are a multiple of "
      "groups",
      x)
  return detail::layer<layers::channel_shuffle>(fixed_text<"">{}, x, groups);
}
template <int Groups, value A>
[[nodiscard]] constexpr auto channel_shuffle(A x) {
  return channel_shuffle(x, c<Groups>);
}

/// `low` elements before and `high` behind, along `axis`, that repeat x: pad_by<-1, 1, 2, pad_mode::reflect>(x), or
/// pad_by(x, -1, 1, 2, pad_mode::edge). A `spatial` has a number for each of the axes from `axis` on:
/// pad_by<-2, spatial{1, 2}, spatial{1, 0}, pad_mode::wrap>(x). `pad` has borders of a number.
/// errors: "a border is longer than what it repeats".
template <value A, detail::axis_like Axis, class Low, class High, class Mode>
[[nodiscard]] constexpr auto pad_by(A x, Axis axis, Low low, High high, Mode mode) {
  MEGANEURA_EXPECT(detail::can_pad_by(x.facts().shape, detail::axis_of(x, axis), detail::per_axis(low),
                                      detail::per_axis(high), mode),
                   "meganeura: pad_by<axis, low, high, mode>(x): x has no such axis of a known extent, or a border is "
                   "negative or longer than what it repeats",
                   x)
  return detail::layer<layers::pad_by>(fixed_text<"">{}, x, axis, low, high, mode);
}
template <int Axis, auto Low, auto High, pad_mode Mode, value A>
[[nodiscard]] constexpr auto pad_by(A x) {
  return pad_by(x, c<Axis>, c<Low>, c<High>, c<Mode>);
}

}  // namespace meganeura::inline MEGANEURA_ABI
