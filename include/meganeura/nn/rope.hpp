// SPDX-License-Identifier: MIT
// Rotary positions.
#pragma once
#include <meganeura/core/constexpr_math.hpp>
#include <meganeura/expr/traced.hpp>
#include <meganeura/ops/elementwise.hpp>
#include <meganeura/ops/narrow.hpp>
#include <meganeura/ops/state.hpp>
#include <meganeura/ops/trigonometry.hpp>
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// How angles are made smaller for texts longer than those of the training, under the names that configurations of
/// checkpoints have ("rope_scaling"). linear: all by the factor. ntk: by a greater theta. yarn (arXiv 2309.00071) and
/// llama3: slow pairs by the factor, fast ones not.
enum class rope_type : std::uint8_t { none, linear, ntk, yarn, llama3 };

/// theta: pair i turns by theta^(-2 i / width) from one position to the next. interleaved: elements 2 i and 2 i + 1
/// turn together, not i and i + width / 2. width: of the part that turns, the first elements; 0: all. The rest is the
/// scaling's, under the names of "rope_scaling"; factor: how much longer texts are than those of the training,
/// original_max_position_embeddings. attention_factor of yarn 0: 0.1 log(factor) + 1.
struct rope_options {
  float theta = 1e4f;
  bool interleaved = false;
  int width = 0;
  rope_type type = rope_type::none;
  float factor = 1, original_max_position_embeddings = 8192;
  float low_freq_factor = 1, high_freq_factor = 4;            // of llama3
  float beta_fast = 32, beta_slow = 1, attention_factor = 0;  // of yarn
  friend constexpr bool operator==(const rope_options&, const rope_options&) = default;
};

namespace detail {

// Neighbouring floats lie further apart than positions from there on.
inline constexpr std::int64_t max_rope_position = std::int64_t{1} << 24;

constexpr bool can_rotate(const facts& x, rope_options options) {
  if (x.shape.rank < 3 || x.shape.rank >= max_rank || !x.shape.last().is_static() || !is_float(x.type)) return false;
  const std::int64_t width = options.width == 0 ? x.shape.last().coefficient : options.width;
  return width >= (options.type == rope_type::ntk ? 4 : 2) && width % 2 == 0 && width <= x.shape.last().coefficient &&
         (!x.shape.last(2).is_static() || x.shape.last(2).coefficient <= max_rope_position);
}
constexpr bool is_scaling(rope_options options) {
  return options.theta > 1 && options.factor >= 1 && options.original_max_position_embeddings > 0 &&
         options.low_freq_factor < options.high_freq_factor && options.beta_slow > 0 &&
         options.beta_slow < options.beta_fast;
}

}  // namespace detail

namespace layers {

struct rope {
  static constexpr auto forward(value auto x, rope_options options) { return placed(x, as_float(counted(x)), options); }
  static constexpr auto forward(value auto x, value auto first, rope_options options) {
    return placed(x, known(counted(x) + first), options);
  }

 private:
  // [position, 1, 1, 1], to broadcast over heads and pairs
  static constexpr auto counted(value auto x) {
    return detail::coordinates_of(x, detail::extents_of(x.facts().shape.last(2), 1, 1, 1), 0);
  }
  static constexpr auto as_float(value auto place) { return cast<dtype::f32>(place); }
  // Infinite, of which sine and cosine are NaN, where it is beyond what f32 counts.
  static constexpr auto known(value auto place) {
    constexpr std::int64_t most = detail::max_rope_position;
    return select(logical_and(less_equal(place, most), less_equal(-most, place)), as_float(place),
                  static_cast<double>(__builtin_inff()));
  }

  static constexpr auto placed(value auto x, value auto position, rope_options options) {
    const std::int64_t all = x.facts().shape.last().coefficient, width = options.width == 0 ? all : options.width;
    if (width == all) return turned(x, position, options);
    return concat(-1, turned(slice(x, -1, 0, width), position, options), slice(x, -1, width, all - width));
  }

  static constexpr auto turned(value auto x, value auto position, rope_options options) {
    const symbolic_shape shape = x.facts().shape;
    const std::int64_t half = shape.last().coefficient / 2;
    const int axis = options.interleaved ? -1 : -2;  // of the two elements of a pair
    const auto pairs = reshape(detail::widened(x), options.interleaved ? detail::split_last(shape, half, 2)
                                                                       : detail::split_last(shape, 2, half));
    const auto pair = cast<dtype::f32>(
        detail::coordinates_of(x, options.interleaved ? detail::extents_of(half, 1) : detail::extents_of(half), 0));
    const auto angle = position * speed(pair, static_cast<double>(2 * half), options);
    const double longer = length(options);
    const auto kept = pairs * scaled(cos(angle), longer);
    const auto partner = flip(pairs, axis);
    const auto sine = scaled(sin(angle), longer);
    // -1 for the first of a pair, 1 for the second
    const auto side = options.interleaved ? detail::extents_of(2) : detail::extents_of(2, 1);
    const auto sign = cast<dtype::f32>(detail::coordinates_of(x, side, 0)) * 2.0f - 1.0f;
    return detail::narrowed(reshape(kept + partner * (sine * sign), shape), x);
  }
  static constexpr auto scaled(value auto x, double by) { return by == 1 ? x : x * by; }
  static constexpr double length(rope_options options) {
    if (options.type != rope_type::yarn) return 1;
    return options.attention_factor != 0 ? static_cast<double>(options.attention_factor)
                                         : 0.1 * detail::natural_log(static_cast<double>(options.factor)) + 1;
  }

  // theta^(-2 i / width) for pair i, scaled.
  static constexpr auto speed(value auto pair, double width, rope_options options) {
    const double factor = static_cast<double>(options.factor),
                 original = static_cast<double>(options.original_max_position_embeddings);
    double log_theta = detail::natural_log(static_cast<double>(options.theta));
    if (options.type == rope_type::ntk) log_theta += detail::natural_log(factor) * width / (width - 2);
    const auto plain = exp(pair * (-2 * log_theta / width));
    const auto mixed = [&](auto share) {  // of the plain speed
      return plain * (minimum(maximum(share, 0.0), 1.0) * (1 - 1 / factor) + 1 / factor);
    };
    if (options.type == rope_type::linear) return plain * (1 / factor);
    if (options.type == rope_type::llama3) {
      const double low = static_cast<double>(options.low_freq_factor);
      return mixed((plain * (original / detail::two_pi) - low) *
                   (1 / (static_cast<double>(options.high_freq_factor) - low)));
    }
    if (options.type == rope_type::yarn) {
      const auto place = [&](float turns) {
        return width * detail::natural_log(original / (static_cast<double>(turns) * detail::two_pi)) / (2 * log_theta);
      };
      const auto within = [&](double at) { return at < 0 ? 0 : at > width - 1 ? width - 1 : at; };
      const double first = within(static_cast<double>(static_cast<std::int64_t>(within(place(options.beta_fast))))),
                   exact = within(place(options.beta_slow)),
                   whole = static_cast<double>(static_cast<std::int64_t>(exact)),
                   last = within(whole < exact ? whole + 1 : whole), end = last > first ? last : first + 0.001;
      return mixed((pair - end) * (-1 / (end - first)));
    }
    return plain;
  }
};

}  // namespace layers

namespace detail {

template <class Options, value A, value... Position>
constexpr auto rotated(Options options, A x, Position... position) {
  MEGANEURA_EXPECT(can_rotate(x.facts(), options),
                   "meganeura: rope<options>(x): x must be floats [.., positions, heads, width], of at most 2^24 "
                   "positions, the width that turns even, and more than 2 with ntk",
                   x)
  MEGANEURA_EXPECT(
      is_scaling(options),
      "meganeura: rope<options>(x): theta is above 1, factor at least 1, and low_freq_factor and beta_slow "
      "are below high_freq_factor and beta_fast",
      x)
  MEGANEURA_EXPECT((is_position(position.facts()) && ... && true),
                   "meganeura: rope<options>(x, position): position must be one i32, of shape []", x, position...)
  return layer<layers::rope>(fixed_text<"">{}, x, position..., options);
}

}  // namespace detail

/// Rotary position embedding: element i of a head and element i + width / 2 turn by position theta^(-2 i / width),
/// position counted along the third axis from the end ("rotate half", as Llama checkpoints have it), from 0 or, in
/// rope<options>(x, position), from an i32 number of run time: rows of positions beyond 2^24, which f32 does not count
/// one by one, are NaN then. Counted from 0 there are at most 2^24.
/// shapes: [.., positions, heads, width], unchanged. dtypes: floats, computed in f32. source: RoFormer, arXiv
/// 2104.09864, eq. 34. errors: "x must be floats [.., positions, heads, width]", "position must be one i32".
template <value A, class Options>
  requires(!value<Options>)
[[nodiscard]] constexpr auto rope(A x, Options options) { return detail::rotated(options, x); }
template <value A, value Position, class Options>
[[nodiscard]] constexpr auto rope(A x, Position position, Options options) {
  return detail::rotated(options, x, position);
}
template <rope_options Options = rope_options{}, value A, value... Position>
[[nodiscard]] constexpr auto rope(A x, Position... position) {
  return detail::rotated(c<Options>, x, position...);
}

}  // namespace meganeura::inline MEGANEURA_ABI
