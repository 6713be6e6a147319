// SPDX-License-Identifier: MIT
// Definitions for kernels/window.hpp.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/kernels/cascade.hpp>
#include <meganeura/kernels/shared_totals.hpp>
#include <meganeura/kernels/tensor_access.hpp>
#include <meganeura/kernels/window.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels {

namespace detail {

/// `lanes` invocations share an element of the result. They divide its window, or the windows it lies in; of those with
/// a maximum, each window. Powers of two.
struct window_plan {
  std::uint32_t lanes = 1, size = 128;
  [[nodiscard]] std::uint32_t elements() const { return size / lanes; }  // of the result, in a workgroup
  /// Twice the lanes; false when the workgroup is full.
  [[nodiscard]] bool share_wider(const device_profile& on) {
    if (2 * lanes > on.max_invocations) return false;
    lanes *= 2;
    size = std::max(size, lanes);
    return true;
  }
};

/// Whether every element lies in one window of few: then an invocation has a whole window to scatter to.
[[nodiscard]] inline bool scatters_by_windows(const window_attribute& window, const shape& x, const shape& y) {
  constexpr std::int64_t most = 16;  // elements, which are written out
  std::int64_t elements = 1;
  bool fits = window.kind == reduce_kind::max;
  for (int i = 0; i < window.spatial; ++i) {
    const int axis = x.rank() - window.spatial + i;
    fits = fits && window.stride[i] == window.window[i] && window.pad_low[i] == 0 && window.pad_high[i] == 0 &&
           x[axis] == y[axis] * window.window[i];
    elements *= window.window[i];
  }
  return fits && elements <= most;
}

/// The loops over windows and over one window are written out where they are short.
class window_kernel {
 public:
  window_kernel(const char* name, const window_attribute& window, const shape& x, const shape& y, dtype type,
                bool scatters, const window_plan& plan, const device_profile& on)
      : window_(window),
        plan_(plan),
        by_windows_(scatters && plan.lanes == 1 && scatters_by_windows(window, x, y)),
        count_(scatters && !by_windows_ ? x.elements() : y.elements()),
        grid_(make_flat_grid(count_, plan.elements(), on)),
        owner_(fmt::format("{} {}", name, count_), {plan.size, 1, 1}),
        type_(type),
        scatters_(scatters),
        totals_(owner_, plan.size) {
    const int first = x.rank() - window.spatial;
    for (std::size_t i = 0; i < max_spatial; ++i) {
      const int axis = first + static_cast<int>(i);
      if (static_cast<int>(i) >= window.spatial) {
        window_.window[i] = window_.stride[i] = 1;  // whatever an attribute keeps beyond its axes
        window_.pad_low[i] = 0;
        continue;
      }
      in_[i] = static_cast<std::uint32_t>(x[axis]);
      out_[i] = static_cast<std::uint32_t>(y[axis]);
      sizes_[i] = static_cast<std::uint32_t>(window.window[i]);
      reach_[i] = std::min(sizes_[i], in_[i]);
      element_count_ *= reach_[i];
      const std::int64_t most = ceil_div(window.window[i], window.stride[i]);
      windows_[i] = static_cast<std::uint32_t>(std::min(most, y[axis]));
      window_count_ *= windows_[i];
    }
  }

  [[nodiscard]] kernel_dispatch make() {
    const bool is_max = window_.kind == reduce_kind::max;
    if (is_max || !scatters_) x_.emplace(owner_, type_, "x");
    if (scatters_) y_.emplace(owner_, type_, "y");
    const bound_tensor result(owner_, type_, "result", 1);
    const spirv::u32 thread = owner_.local_id(0);
    lane_ = thread % plan_.lanes;
    const spirv::u32 wanted = grid_.position(owner_) * plan_.elements() + thread / plan_.lanes;
    const spirv::boolean exists = wanted < spirv::u32(count_);
    if (by_windows_) {
      owner_.if_(exists, [&] { scatter_window(wanted, result); });
    } else if (plan_.lanes == 1) {
      owner_.if_(exists, [&] { result.store(wanted, value_at(wanted)); });
    } else {  // all stay for the barriers' sake
      const spirv::u32 position = min(wanted, spirv::u32(count_ - 1));
      const scalar_value value = value_at(position);
      owner_.if_(exists && lane_ == 0u, [&] { result.store(position, value); });
    }
    return {owner_.finish(), grid_.groups};
  }

 private:
  using index = std::array<spirv::u32, max_spatial>;
  using extents = std::array<std::uint32_t, max_spatial>;

  [[nodiscard]] scalar_value value_at(const spirv::u32& position) {
    spirv::u32 outer = position;
    index at;
    const auto& limits = scatters_ ? in_ : out_;
    for (std::size_t i = max_spatial; i-- > 0;) {
      at[i] = outer % limits[i];
      outer = outer / limits[i];
    }
    return scatters_ ? scattered(outer, at, position) : reduced(outer, at);
  }

  // Numbers below `count`, or this lane's share of them where they are shared.
  template <class Body>
  void for_each(std::uint32_t count, bool written_out, bool shared, std::span<const running_sum> sums, Body&& body) {
    const std::uint32_t step = shared ? plan_.lanes : 1;
    if (!written_out || step != 1)
      return for_summed(owner_, shared ? lane_ : spirv::u32(0), count, step, {}, sums, body);
    for (std::uint32_t i = 0; i < count; ++i) body(spirv::u32(i));
  }

  // What all lanes of an element hold, combined by halves; every lane is told.
  [[nodiscard]] scalar_value shared_total(scalar_op how, const spirv::untyped::place_reference& own) {
    if (plan_.lanes == 1) return spirv::untyped::load(own);
    const spirv::u32 thread = owner_.local_id(0);
    const lane_place place{.lane = lane_, .lanes = plan_.lanes, .own = thread, .total = thread - lane_};
    return totals_.combined(how, spirv::untyped::load(own), place);
  }

  [[nodiscard]] static index split(spirv::u32 number, const extents& counts) {
    index at;
    for (std::size_t i = max_spatial; i-- > 0;) {
      at[i] = number % counts[i];
      number = number / counts[i];
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
    return spirv::untyped::select(exists, loaded, otherwise);
  }

  [[nodiscard]] running_sum start_total(scalar_op how) {
    const running_sum total{owner_.declare_variable(value_type(type_)), how, identity(how, type_)};
    spirv::untyped::store(total.place, total.start);
    return total;
  }

  /// The elements of one window that can lie inside the tensor, `reach_` along each axis: the first and where element 0
  /// is. Where the window is no longer than the tensor these are all of its elements.
  struct elements {
    index first, origin;
  };

  [[nodiscard]] elements elements_from(const index& origin) const {
    elements found{origin, origin};
    for (std::size_t i = 0; i < max_spatial; ++i)  // below 0 wraps to far beyond
      if (reach_[i] < sizes_[i]) found.first[i] = select(origin[i] < 0x80000000u, origin[i], spirv::u32(0));
    return found;
  }

  [[nodiscard]] spirv::boolean exists(const elements& window, const index& at) const {
    spirv::boolean result = inside(at, in_);
    for (std::size_t i = 0; i < max_spatial; ++i)
      if (reach_[i] < sizes_[i]) result = result && at[i] - window.origin[i] < spirv::u32(sizes_[i]);
    return result;
  }

  [[nodiscard]] scalar_value reduced(const spirv::u32& outer, const index& at) {
    const scalar_op how = window_.kind == reduce_kind::max ? scalar_op::row_max : scalar_op::row_sum;
    const running_sum total = start_total(how);
    index origin;
    for (std::size_t i = 0; i < max_spatial; ++i)
      origin[i] = at[i] * word(window_.stride[i]) + word(-window_.pad_low[i]);
    const elements window = elements_from(origin);
    for_each(element_count_, element_count_ <= 32, true, std::span(&total, 1), [&](const spirv::u32& element) {
      index from = split(element, reach_);
      for (std::size_t i = 0; i < max_spatial; ++i) from[i] = window.first[i] + from[i];
      const scalar_value value = value_of(*x_, outer, from, in_, exists(window, from), total.start);
      spirv::untyped::store(total.place, combine(owner_, how, spirv::untyped::load(total.place), value));
    });
    return shared_total(how, total.place);
  }

  /// A window that an element lies in: its place among the windows, its elements, and which of them the element is.
  struct covering {
    index window;
    elements reached;
    spirv::u32 element;
    spirv::boolean exists{true};
  };

  [[nodiscard]] covering covering_window(const index& at, const spirv::u32& number) const {
    covering found;
    index origin;
    const index counted = split(number, windows_);
    for (std::size_t i = 0; i < max_spatial; ++i) {
      const spirv::u32 stride = word(window_.stride[i]), padded = at[i] + word(window_.pad_low[i]);
      const spirv::u32 length(sizes_[i]);
      const spirv::u32 first = select(padded < length, spirv::u32(0), (padded - length) / stride + 1u);
      const spirv::u32 last = min(padded / stride, spirv::u32(std::max(out_[i], 1u) - 1));
      found.window[i] = first + counted[i];
      found.exists = found.exists && found.window[i] <= last;
      origin[i] = found.window[i] * stride + word(-window_.pad_low[i]);
    }
    found.reached = elements_from(origin);
    for (std::size_t i = 0; i < max_spatial; ++i)
      found.element = found.element * reach_[i] + (at[i] - found.reached.first[i]);
    return found;
  }

  [[nodiscard]] scalar_value scattered(const spirv::u32& outer, const index& at, const spirv::u32& position) {
    const bool is_max = window_.kind == reduce_kind::max;
    const bool written_out = window_count_ <= 32 && (!is_max || window_count_ * element_count_ <= 81);
    const running_sum total = start_total(scalar_op::row_sum);
    const scalar_value own = is_max ? x_->load(position) : total.start;
    for_each(window_count_, written_out, !is_max, std::span(&total, 1), [&](const spirv::u32& number) {
      const covering found = covering_window(at, number);
      scalar_value value = value_of(*y_, outer, found.window, out_, found.exists, total.start);
      if (is_max) value = spirv::untyped::select(first_maximum(outer, found, own, written_out), value, total.start);
      spirv::untyped::store(total.place, combine(owner_, scalar_op::row_sum, spirv::untyped::load(total.place), value));
    });
    return is_max ? spirv::untyped::load(total.place) : shared_total(scalar_op::row_sum, total.place);
  }

  // Whether the element, which holds `own`, is the first maximum of that window: greater than all before it and not
  // less than those after it, where a NaN is greater than every number.
  [[nodiscard]] spirv::boolean first_maximum(const spirv::u32& outer, const covering& found, const scalar_value& own,
                                             bool written_out) {
    const auto holds = owner_.variable<spirv::u32>(1u);
    for_each(element_count_, written_out, true, {}, [&](const spirv::u32& other) {
      index at = split(other, reach_);
      for (std::size_t i = 0; i < max_spatial; ++i) at[i] = found.reached.first[i] + at[i];
      const spirv::boolean real = exists(found.reached, at);
      const scalar_value value = value_of(*x_, outer, at, in_, real, identity(scalar_op::row_max, type_));
      using spirv::untyped::comparison;
      const bool is_real = own.type.is_float();
      const spirv::boolean own_nan = is_real ? spirv::boolean(spirv::untyped::is_nan(own)) : spirv::boolean(false);
      const spirv::boolean nan = is_real ? spirv::boolean(spirv::untyped::is_nan(value)) : spirv::boolean(false);
      const spirv::boolean beaten =
          spirv::boolean(spirv::untyped::compare(comparison::less, own, value)) || (nan && !own_nan);
      const spirv::boolean tied =
          spirv::boolean(spirv::untyped::compare(comparison::equal, own, value)) || (nan && own_nan);
      const spirv::boolean loses = beaten || (tied && other < found.element && real);
      holds = select(loses, spirv::u32(0), holds.load());
    });
    return spirv::u32(shared_total(scalar_op::row_min, holds.reference())) != 0u;
  }

  // To the first maximum of window number `position` its value, to its other elements zeros.
  void scatter_window(const spirv::u32& position, const bound_tensor& result) {
    using spirv::untyped::comparison;
    spirv::u32 outer = position;
    index origin;
    for (std::size_t i = max_spatial; i-- > 0;) {
      origin[i] = outer % out_[i] * sizes_[i];
      outer = outer / out_[i];
    }
    std::vector<spirv::u32> places;
    std::vector<scalar_value> values;
    for (std::uint32_t element = 0; element < element_count_; ++element) {
      index at = split(spirv::u32(element), sizes_);
      for (std::size_t i = 0; i < max_spatial; ++i) at[i] = origin[i] + at[i];
      places.push_back(flat(outer, at, in_));
      values.push_back(x_->load(places.back()));
    }
    const auto is_nan = [](const scalar_value& of) {
      return of.type.is_float() ? spirv::boolean(spirv::untyped::is_nan(of)) : spirv::boolean(false);
    };
    scalar_value largest = values[0];
    spirv::u32 which = 0;
    for (std::uint32_t element = 1; element < element_count_; ++element) {
      const scalar_value& value = values[element];
      const spirv::boolean above = spirv::boolean(spirv::untyped::compare(comparison::less, largest, value)) ||
                                   (is_nan(value) && !is_nan(largest));
      largest = spirv::untyped::select(above, value, largest);
      which = select(above, spirv::u32(element), which);
    }
    const scalar_value own = y_->load(position), zero = widened(literal(type_, 0), 1);
    for (std::uint32_t element = 0; element < element_count_; ++element)
      result.store(places[element], spirv::untyped::select(which == element, own, zero));
  }

  [[nodiscard]] static spirv::u32 word(std::int64_t value) { return spirv::u32(static_cast<std::uint32_t>(value)); }

  window_attribute window_;
  window_plan plan_;
  bool by_windows_;
  std::int64_t count_;
  flat_grid grid_;
  spirv::kernel owner_;
  dtype type_;
  bool scatters_;
  extents in_{1, 1, 1}, out_{1, 1, 1}, sizes_{1, 1, 1};
  extents reach_{1, 1, 1};    // elements of a window that can lie inside
  extents windows_{1, 1, 1};  // that an element can lie in
  std::uint32_t element_count_ = 1, window_count_ = 1;
  std::optional<bound_tensor> x_, y_;
  spirv::u32 lane_;
  shared_totals totals_;
};

[[nodiscard]] inline kernel_dispatch make_window(const char* name, const window_attribute& window, const shape& x,
                                                 const shape& y, dtype type, bool scatters, const device_profile& on) {
  window_plan plan{.size = std::min(128u, on.max_invocations)};
  return make_within_loop_limit([&] { return window_kernel(name, window, x, y, type, scatters, plan, on).make(); },
                                [&] { return plan.share_wider(on); }, on);
}

}  // namespace detail

MEGANEURA_INLINE kernel_dispatch make_window_reduce(const window_attribute& window, const shape& x, const shape& y,
                                                    dtype type, const device_profile& on) {
  return detail::make_window("window_reduce", window, x, y, type, false, on);
}

MEGANEURA_INLINE kernel_dispatch make_window_scatter(const window_attribute& window, const shape& x, const shape& y,
                                                     dtype type, const device_profile& on) {
  return detail::make_window("window_scatter", window, x, y, type, true, on);
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
