// SPDX-License-Identifier: MIT
// Definitions for kernels/window.hpp.
#pragma once
#include <meganeura/kernels/tensor_access.hpp>
#include <meganeura/kernels/window.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace meganeura::inline MEGANEURA_ABI::kernels {

namespace detail {

/// One invocation an element of the result; the loop over a window is written out when the window is small.
class window_kernel {
 public:
  window_kernel(const char* name, const window_attribute& window, const shape& x, const shape& y, dtype type,
                bool scatters, const target& on)
      : window_(window),
        on_(on),
        count_(scatters ? x.elements() : y.elements()),
        grid_(make_flat_grid(count_, group_size(on), on)),
        owner_(fmt::format("{} {}", name, count_), {group_size(on), 1, 1}),
        type_(type),
        scatters_(scatters) {
    const int first = x.rank - window.spatial;
    for (std::size_t i = 0; i < max_spatial; ++i) {
      const int axis = first + static_cast<int>(i);
      if (static_cast<int>(i) >= window.spatial) {
        window_.window[i] = window_.stride[i] = 1;  // whatever an attribute keeps beyond its axes
        window_.pad_low[i] = 0;
        continue;
      }
      in_[i] = static_cast<std::uint32_t>(x[axis]);
      out_[i] = static_cast<std::uint32_t>(y[axis]);
      taps_[i] = static_cast<std::uint32_t>(window.window[i]);
      tap_count_ *= taps_[i];
    }
  }

  [[nodiscard]] kernel_dispatch make() {
    const bool is_max = window_.kind == reduce_kind::max;
    if (is_max || !scatters_) x_.emplace(owner_, type_, "x");
    if (scatters_) y_.emplace(owner_, type_, "y");
    const bound_tensor result(owner_, type_, "result", 1);
    const spirv::u32 position = grid_.position(owner_) * group_size(on_) + owner_.local_id(0);
    owner_.if_(position < spirv::u32(count_), [&] {
      spirv::u32 outer = position;
      index at;
      const auto& limits = scatters_ ? in_ : out_;
      for (std::size_t i = max_spatial; i-- > 0;) {
        at[i] = outer % limits[i];
        outer = outer / limits[i];
      }
      result.store(position, scatters_ ? scattered(outer, at, position) : reduced(outer, at));
    });
    return {owner_.finish(), grid_.groups};
  }

 private:
  using index = std::array<spirv::u32, max_spatial>;
  using extents = std::array<std::uint32_t, max_spatial>;

  [[nodiscard]] static std::uint32_t group_size(const target& on) { return std::min(128u, on.max_invocations); }

  template <class Body>
  void for_taps(bool written_out, Body&& body) {
    if (!written_out) return owner_.for_(spirv::u32(tap_count_), body);
    for (std::uint32_t tap = 0; tap < tap_count_; ++tap) body(spirv::u32(tap));
  }

  [[nodiscard]] index tap_at(spirv::u32 tap) const {
    index at;
    for (std::size_t i = max_spatial; i-- > 0;) {
      at[i] = tap % taps_[i];
      tap = tap / taps_[i];
    }
    return at;
  }

  [[nodiscard]] static spirv::boolean inside(const index& at, const extents& limits) {
    spirv::boolean result(true);
    for (std::size_t i = 0; i < max_spatial; ++i) {
      if (limits[i] > 1)
        result = result && at[i] < spirv::u32(limits[i]);  // below 0 wraps to far beyond
      else
        result = result && at[i] == 0u;
    }
    return result;
  }

  [[nodiscard]] static spirv::u32 flat(const spirv::u32& outer, const index& at, const extents& limits) {
    spirv::u32 position = outer;
    for (std::size_t i = 0; i < max_spatial; ++i) position = position * limits[i] + at[i];
    return position;
  }

  // The value at `at`, or `otherwise` outside the tensor.
  [[nodiscard]] scalar_value value_of(const bound_tensor& from, const spirv::u32& outer, const index& at,
                                      const extents& limits, const spirv::boolean& exists,
                                      const scalar_value& otherwise) const {
    const scalar_value loaded = from.load(select(exists, flat(outer, at, limits), spirv::u32(0)));
    return spirv::detail::select(exists, loaded, otherwise);
  }

  [[nodiscard]] scalar_value reduced(const spirv::u32& outer, const index& at) {
    const scalar_op how = window_.kind == reduce_kind::max ? scalar_op::row_max : scalar_op::row_sum;
    const scalar_value start = identity(how, type_);
    const auto total = owner_.declare_variable(value_type(type_));
    spirv::detail::store(total, start);
    for_taps(tap_count_ <= 32, [&](const spirv::u32& tap) {
      index from = tap_at(tap);
      for (std::size_t i = 0; i < max_spatial; ++i)
        from[i] = at[i] * word(window_.stride[i]) + from[i] + word(-window_.pad_low[i]);
      const scalar_value value = value_of(*x_, outer, from, in_, inside(from, in_), start);
      spirv::detail::store(total, combine(owner_, how, spirv::detail::load(total), value));
    });
    return spirv::detail::load(total);
  }

  [[nodiscard]] scalar_value scattered(const spirv::u32& outer, const index& at, const spirv::u32& position) {
    const bool is_max = window_.kind == reduce_kind::max;
    const bool written_out = is_max ? tap_count_ <= 9 : tap_count_ <= 32;
    const auto total = owner_.declare_variable(value_type(type_));
    const scalar_value zero = literal(type_, 0);
    spirv::detail::store(total, zero);
    const scalar_value own = is_max ? x_->load(position) : zero;
    for_taps(written_out, [&](const spirv::u32& tap) {
      // The window in which this element is number `tap`, if there is one.
      const index offset = tap_at(tap);
      index origin, window;
      spirv::boolean exists(true);
      for (std::size_t i = 0; i < max_spatial; ++i) {
        const spirv::u32 stride = word(window_.stride[i]), padded = at[i] + word(window_.pad_low[i]);
        const spirv::u32 start = padded + (~offset[i] + 1u);
        window[i] = start / stride;
        origin[i] = at[i] + (~offset[i] + 1u);
        exists = exists && start <= padded && window[i] * stride == start;
      }
      exists = exists && inside(window, out_);
      scalar_value value = value_of(*y_, outer, window, out_, exists, zero);
      if (is_max) value = spirv::detail::select(first_maximum(outer, origin, tap, own, written_out), value, zero);
      spirv::detail::store(total, combine(owner_, scalar_op::row_sum, spirv::detail::load(total), value));
    });
    return spirv::detail::load(total);
  }

  // Whether element `tap` of the window at `origin`, which holds `own`, is greater than all before it and not less than
  // those after it, where a NaN is greater than every number.
  [[nodiscard]] spirv::boolean first_maximum(const spirv::u32& outer, const index& origin, const spirv::u32& tap,
                                             const scalar_value& own, bool written_out) {
    const auto holds = owner_.variable<spirv::u32>(1u);
    for_taps(written_out, [&](const spirv::u32& other) {
      if (tap.is_literal() && other.is_literal() && tap.bits == other.bits) return;
      index at = tap_at(other);
      for (std::size_t i = 0; i < max_spatial; ++i) at[i] = origin[i] + at[i];
      const scalar_value value = value_of(*x_, outer, at, in_, inside(at, in_), identity(scalar_op::row_max, type_));
      using spirv::detail::comparison;
      const bool is_real = own.type.is_float();
      const spirv::boolean own_nan = is_real ? spirv::boolean(spirv::detail::is_nan(own)) : spirv::boolean(false);
      const spirv::boolean nan = is_real ? spirv::boolean(spirv::detail::is_nan(value)) : spirv::boolean(false);
      const spirv::boolean beaten = spirv::boolean(spirv::detail::compare(comparison::less, own, value)) || (nan && !own_nan);
      const spirv::boolean tied = spirv::boolean(spirv::detail::compare(comparison::equal, own, value)) || (nan && own_nan);
      const spirv::boolean loses = beaten || (tied && other < tap && inside(at, in_));
      holds = select(loses, spirv::u32(0), holds.load());
    });
    return holds.load() != 0u;
  }

  [[nodiscard]] static spirv::u32 word(std::int64_t value) { return spirv::u32(static_cast<std::uint32_t>(value)); }

  window_attribute window_;
  const target& on_;
  std::int64_t count_;
  flat_grid grid_;
  spirv::kernel owner_;
  dtype type_;
  bool scatters_;
  extents in_{1, 1, 1}, out_{1, 1, 1}, taps_{1, 1, 1};
  std::uint32_t tap_count_ = 1;
  std::optional<bound_tensor> x_, y_;
};

}  // namespace detail

MEGANEURA_INLINE kernel_dispatch make_window_reduce(const window_attribute& window, const shape& x, const shape& y,
                                                    dtype type, const target& on) {
  return detail::window_kernel("window_reduce", window, x, y, type, false, on).make();
}

MEGANEURA_INLINE kernel_dispatch make_window_scatter(const window_attribute& window, const shape& x, const shape& y,
                                                     dtype type, const target& on) {
  return detail::window_kernel("window_scatter", window, x, y, type, true, on).make();
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
