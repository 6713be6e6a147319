// SPDX-License-Identifier: MIT
// Floats as small integers of a scale and a zero point, and back.
#pragma once
#include <meganeura/expr/traced.hpp>
#include <meganeura/ops/bounds.hpp>
#include <meganeura/ops/custom_gradient.hpp>
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// The integers that quantised numbers are, lowest and highest.
struct integer_range {
  int low, high;
  friend constexpr bool operator==(const integer_range&, const integer_range&) = default;
};
inline constexpr integer_range int8_range{-128, 127}, uint8_range{0, 255};

namespace detail {
// The smallest dtype that holds them.
constexpr dtype smallest_type(integer_range range) {
  const auto holds_both = [&](dtype type) { return range.low >= lowest(type) && range.high <= highest(type); };
  return holds_both(dtype::u8) ? dtype::u8 : holds_both(dtype::i8) ? dtype::i8 : dtype::i32;
}
}  // namespace detail

/// In place of an axis: scale and zero point broadcast as operands do, or are one number for all.
inline constexpr int per_tensor = max_rank;

namespace detail {

// What there is one of for each place of the axis, beside x; as it is without one.
constexpr symbolic_shape spread_shape(const symbolic_shape& of, const symbolic_shape& x, int axis) {
  if (axis == per_tensor) return of;
  symbolic_shape result;
  for (int i = normal_axis(axis, x.rank); i < x.rank; ++i) result.push_back(result.rank == 0 ? of[0] : dim(1));
  return result;
}
constexpr auto spread(value auto of, value auto x, int axis) {
  return cast(reshape(of, spread_shape(of.facts().shape, x.facts().shape, axis)), dtype::f32);
}

constexpr bool can_spread(const symbolic_shape& of, const symbolic_shape& x, int axis) {
  if (axis == per_tensor) return can_expand(of, x);
  const int along = normal_axis(axis, x.rank);
  return along >= 0 && of.rank == 1 && of[0] == x[along];
}
constexpr bool can_quantize(const facts& x, const facts& scale, const facts& zero, int axis) {
  return is_float(scale.type) && is_integer(zero.type) && can_spread(scale.shape, x.shape, axis) &&
         can_spread(zero.shape, x.shape, axis);
}
constexpr bool is_range(integer_range range) {
  constexpr int most = 1 << 24;  // what f32 holds
  return range.low < range.high && range.low >= -most && range.high <= most;
}

}  // namespace detail

namespace layers {

struct quantize {
  static constexpr auto forward(value auto x, value auto scale, value auto zero, integer_range range, int axis) {
    const auto steps = meganeura::round(detail::widened(x) / detail::spread(scale, x, axis));
    return cast(clamp(steps + detail::spread(zero, x, axis), range.low, range.high), detail::smallest_type(range));
  }
};

struct dequantize {
  static constexpr auto forward(value auto q, value auto scale, value auto zero, int axis) {
    const auto steps = cast(q, dtype::f32) - detail::spread(zero, q, axis);
    return detail::narrowed(steps * detail::spread(scale, q, axis), scale);
  }
};

struct fake_quantize {
  static constexpr auto forward(value auto x, value auto scale, value auto zero, integer_range range, int axis) {
    const auto size = stop_gradient(detail::spread(scale, x, axis)), origin = detail::spread(zero, x, axis);
    const auto steps = [&](value auto y) { return meganeura::round(y / size) + origin; };
    const auto nearest = [&](value auto y) { return (clamp(steps(y), range.low, range.high) - origin) * size; };
    const auto straight = [&](value auto g, value auto, value auto y) {
      const auto found = steps(y);
      return select(logical_and(less_equal(range.low, found), less_equal(found, range.high)), g, 0.0f);
    };
    return detail::narrowed(custom_gradient(nearest, straight, detail::widened(x)), x);
  }
};

}  // namespace layers

/// round(x / scale) + zero_point within a range, ties to even: quantize<int8_range>(x, scale, zero_point), or
/// quantize(x, scale, zero_point, int8_range). With an axis, quantize<int8_range, 0>(x, scale, zero_point), there is a
/// scale and a zero point for each place of it, [n]; without one they broadcast. NaN is 0. They are stored
/// in 8 bits where the range lies in those of u8 or i8. On a device x / scale may be off by units in the last place, at
/// ties too, unless the scale is a power of 2. shapes: x's. dtypes: x and scale floats, zero_point integers -> u8, i8
/// or i32. gradient: none flows; see fake_quantize. errors: "scale must be floats and zero_point integers, whose shapes
/// broadcast to x's, or with an axis are [n]", "x must be floats", "a range lies within 2^24 and is not empty". source:
/// torch.quantize_per_tensor and _per_channel, ONNX's QuantizeLinear.
template <value A, value Scale, value Zero, class Range, class Axis = fixed<per_tensor>>
[[nodiscard]] constexpr auto quantize(A x, Scale scale, Zero zero_point, Range range, Axis axis = {}) {
  MEGANEURA_EXPECT(detail::can_quantize(x.facts(), scale.facts(), zero_point.facts(), axis),
                   "meganeura: quantize<range, axis>(x, scale, zero_point): scale must be floats and zero_point "
                   "integers, whose shapes broadcast to x's, or with an axis are [n] of it",
                   x, scale, zero_point)
  MEGANEURA_EXPECT_FLOATS("quantize<range, axis>(x, scale, zero_point)", x)
  MEGANEURA_EXPECT(detail::is_range(range),
                   "meganeura: quantize<range, axis>(x, scale, zero_point): a range lies within 2^24 and is not empty",
                   x)
  return detail::layer<layers::quantize>(fixed_text<"">{}, x, scale, zero_point, range, axis);
}
template <integer_range Range, int Axis = per_tensor, value A, value Scale, value Zero>
[[nodiscard]] constexpr auto quantize(A x, Scale scale, Zero zero_point) {
  return quantize(x, scale, zero_point, c<Range>, c<Axis>);
}

/// (q - zero_point) scale, what quantize rounded: dequantize(q, scale, zero_point), with an axis dequantize<0>(q,
/// scale, zero_point), or dequantize(q, scale, zero_point, 0). shapes: q's. dtypes: q and zero_point integers below
/// 2^24, scale floats -> scale's. gradient: to scale. errors: as quantize, "q must be integers". source: ONNX's
/// DequantizeLinear.
template <value Q, value Scale, value Zero, class Axis>
[[nodiscard]] constexpr auto dequantize(Q q, Scale scale, Zero zero_point, Axis axis) {
  MEGANEURA_EXPECT(detail::can_quantize(q.facts(), scale.facts(), zero_point.facts(), axis),
                   "meganeura: dequantize<axis>(q, scale, zero_point): scale must be floats and zero_point integers, "
                   "whose shapes broadcast to q's, or with an axis are [n] of it",
                   q, scale, zero_point)
  MEGANEURA_EXPECT(is_integer(q.facts().type),
                   "meganeura: dequantize<axis>(q, scale, zero_point): q must be integers; cast it", q)
  return detail::layer<layers::dequantize>(fixed_text<"">{}, q, scale, zero_point, axis);
}
template <int Axis = per_tensor, value Q, value Scale, value Zero>
[[nodiscard]] constexpr auto dequantize(Q q, Scale scale, Zero zero_point) {
  return dequantize(q, scale, zero_point, c<Axis>);
}

/// dequantize(quantize(x)) in x's dtype, through which gradients go straight: training for a model that will be
/// quantised. NaN stays. gradient: to x as it is where quantize does not saturate, otherwise 0; none to scale.
/// Otherwise as quantize. source: torch.fake_quantize_per_tensor_affine and _per_channel.
template <value A, value Scale, value Zero, class Range, class Axis = fixed<per_tensor>>
[[nodiscard]] constexpr auto fake_quantize(A x, Scale scale, Zero zero_point, Range range, Axis axis = {}) {
  MEGANEURA_EXPECT(detail::can_quantize(x.facts(), scale.facts(), zero_point.facts(), axis),
                   "meganeura: fake_quantize<range, axis>(x, scale, zero_point): scale must be floats and zero_point "
                   "integers, whose shapes broadcast to x's, or with an axis are [n] of it",
                   x, scale, zero_point)
  MEGANEURA_EXPECT_FLOATS("fake_quantize<range, axis>(x, scale, zero_point)", x)
  MEGANEURA_EXPECT(
      detail::is_range(range),
      "meganeura: fake_quantize<range, axis>(x, scale, zero_point): a range lies within 2^24 and is not empty", x)
  return detail::layer<layers::fake_quantize>(fixed_text<"">{}, x, scale, zero_point, range, axis);
}
template <integer_range Range, int Axis = per_tensor, value A, value Scale, value Zero>
[[nodiscard]] constexpr auto fake_quantize(A x, Scale scale, Zero zero_point) {
  return fake_quantize(x, scale, zero_point, c<Range>, c<Axis>);
}

}  // namespace meganeura::inline MEGANEURA_ABI
