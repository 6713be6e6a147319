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
#include <cstddef>
#include <cstdint>
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

/// Elements of one plane, an invocation each, whose windows a workgroup looks at together: their extents and those of
/// the windows that they lie in, along each axis, and how many such tiles a plane has.
struct window_tile {
  std::array<std::uint32_t, max_spatial> elements{1, 1, 1}, windows{1, 1, 1}, tiles{1, 1, 1};
  std::uint32_t size = 1, window_count = 1;
  std::int64_t count = 1;  // of all planes
};

/// Where windows with a maximum may overlap; nothing for planes that leave a workgroup idle.
[[nodiscard]] inline std::optional<window_tile> tile_of_windows(const window_attribute& window, const shape& x,
                                                                const shape& y, const device_profile& on) {
  if (window.kind != reduce_kind::max) return {};
  constexpr std::uint32_t least = 32, most = 256, longest = 32;
  const int first = x.rank() - window.spatial;
  std::uint32_t room = std::min(most, on.max_invocations);
  window_tile made;
  // The last axis first and again at the end, where the others left something.
  const auto lengthen = [&](int i, std::uint32_t limit) {
    std::uint32_t& own = made.elements[static_cast<std::size_t>(i)];
    while (2 * own <= limit && own < x[first + i] && room > 1) own *= 2, room /= 2;
  };
  lengthen(window.spatial - 1, longest);
  for (int i = window.spatial - 1; i-- > 0;) lengthen(i, most);
  lengthen(window.spatial - 1, most);
  double windows = 1;
  made.count = x.elements();
  for (int i = 0; i < window.spatial; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int64_t covering = (made.elements[at] + window.window[i] - 2) / window.stride[i] + 1;
    made.windows[at] = static_cast<std::uint32_t>(std::min(covering, y[first + i]));
    made.tiles[at] = static_cast<std::uint32_t>(ceil_div<std::int64_t>(x[first + i], made.elements[at]));
    made.size *= made.elements[at];
    windows *= made.windows[at];
    made.count = made.count / x[first + i] * made.tiles[at];
  }
  if (made.size < least || 4 * windows > on.max_shared_bytes / 2) return {};
  made.window_count = static_cast<std::uint32_t>(windows);
  return made;
}

/// The loops over windows and over one window are written out where they are short.
class window_kernel {
 public:
  window_kernel(const char* name, const window_attribute& window, const shape& x, const shape& y, dtype type,
                bool scatters, const window_plan& plan, const device_profile& on)
      : window_(window),
        plan_(plan),
        by_windows_(scatters && plan.lanes == 1 && scatters_by_windows(window, x, y)),
        tile_(scatters && plan.lanes == 1 && !by_windows_ ? tile_of_windows(window, x, y, on) : std::nullopt),
        count_(scatters && !by_windows_ ? x.elements() : y.elements()),
        grid_(tile_ ? make_flat_grid(tile_->count, 1, on) : make_flat_grid(count_, plan.elements(), on)),
        owner_(fmt::format("{} {}", name, count_), {tile_ ? tile_->size : plan.size, 1, 1}),
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
    if (tile_) {
      scatter_tile(*tile_, result);
      return {owner_.finish(), grid_.groups};
    }
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
    const index at = split_off(outer, scatters_ ? in_ : out_);
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

  // The innermost axes of a number, which keeps those around them.
  [[nodiscard]] static index split_off(spirv::u32& number, const extents& counts) {
    index at;
    for (std::size_t i = max_spatial; i-- > 0;) {
      at[i] = number % counts[i];
      number = number / counts[i];
    }
    return at;
  }
  [[nodiscard]] static index split(spirv::u32 number, const extents& counts) { return split_off(number, counts); }

  // As far from a place as that.
  [[nodiscard]] static index behind(const index& place, index distance) {
    for (std::size_t i = 0; i < max_spatial; ++i) distance[i] = place[i] + distance[i];
    return distance;
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
    const elements window = elements_from(origin_of(at));
    for_each(element_count_, element_count_ <= 32, true, std::span(&total, 1), [&](const spirv::u32& element) {
      const index from = behind(window.first, split(element, reach_));
      const scalar_value value = value_of(*x_, outer, from, in_, exists(window, from), total.start);
      spirv::untyped::store(total.place, combine(owner_, how, spirv::untyped::load(total.place), value));
    });
    return shared_total(how, total.place);
  }

  // The first window along an axis that covers a place or one behind it.
  [[nodiscard]] spirv::u32 first_window(std::size_t i, const spirv::u32& place) const {
    const spirv::u32 padded = place + word(window_.pad_low[i]), length(sizes_[i]);
    return select(padded < length, spirv::u32(0), (padded - length) / word(window_.stride[i]) + 1u);
  }
  [[nodiscard]] index origin_of(const index& window) const {
    index origin;
    for (std::size_t i = 0; i < max_spatial; ++i)
      origin[i] = window[i] * word(window_.stride[i]) + word(-window_.pad_low[i]);
    return origin;
  }

  /// A window that an element lies in: its place among the windows.
  struct covering {
    index window;
    spirv::boolean exists{true};
  };

  [[nodiscard]] covering covering_window(const index& at, const spirv::u32& number) const {
    covering found;
    const index counted = split(number, windows_);
    for (std::size_t i = 0; i < max_spatial; ++i) {
      const spirv::u32 padded = at[i] + word(window_.pad_low[i]);
      const spirv::u32 last = min(padded / word(window_.stride[i]), spirv::u32(std::max(out_[i], 1u) - 1));
      found.window[i] = first_window(i, at[i]) + counted[i];
      found.exists = found.exists && found.window[i] <= last;
    }
    return found;
  }

  // Of a tile, each window's first maximum is looked for once; then every element asks whether it is that.
  void scatter_tile(const window_tile& tile, const bound_tensor& result) {
    const spirv::u32 thread = owner_.local_id(0), wanted = grid_.position(owner_);
    spirv::u32 outer = min(wanted, spirv::u32(tile.count - 1));
    index start = split_off(outer, tile.tiles), first;
    for (std::size_t i = 0; i < max_spatial; ++i) {
      start[i] = start[i] * tile.elements[i];
      first[i] = first_window(i, start[i]);
    }
    const index at = behind(start, split(thread, tile.elements));
    const auto maxima = owner_.shared<spirv::u32>(tile.window_count);
    owner_.for_(thread, spirv::u32(tile.window_count), spirv::u32(tile.size), [&](const spirv::u32& number) {
      const index window = behind(first, split(number, tile.windows));
      maxima.store(number, first_maximum_of(outer, elements_from(origin_of(window))));
    });
    owner_.barrier();
    const spirv::u32 own = flat(0, at, in_);
    const running_sum total = start_total(scalar_op::row_sum);
    for_each(window_count_, window_count_ <= 32, false, std::span(&total, 1), [&](const spirv::u32& number) {
      const covering found = covering_window(at, number);
      index place;
      for (std::size_t i = 0; i < max_spatial; ++i) place[i] = found.window[i] - first[i];
      const spirv::u32 known = select(found.exists, flat(0, place, tile.windows), spirv::u32(0));
      const spirv::boolean is_maximum = found.exists && maxima.load(known) == own;
      const scalar_value value = value_of(*y_, outer, found.window, out_, is_maximum, total.start);
      spirv::untyped::store(total.place, combine(owner_, scalar_op::row_sum, spirv::untyped::load(total.place), value));
    });
    owner_.if_(wanted < spirv::u32(tile.count) && inside(at, in_),
               [&] { result.store(flat(outer, at, in_), spirv::untyped::load(total.place)); });
  }

  // Its place in the plane.
  [[nodiscard]] spirv::u32 first_maximum_of(const spirv::u32& outer, const elements& window) {
    const running_sum largest = start_total(scalar_op::row_max);
    constexpr std::uint32_t none = 0xffffffff;
    const auto place = owner_.variable<spirv::u32>(none);
    for_each(element_count_, element_count_ <= 32, false, {}, [&](const spirv::u32& element) {
      const index at = behind(window.first, split(element, reach_));
      const spirv::boolean real = exists(window, at);
      const scalar_value value = value_of(*x_, outer, at, in_, real, largest.start);
      const scalar_value before = spirv::untyped::load(largest.place);
      const spirv::boolean above = real && (place.load() == none || is_above(value, before));
      spirv::untyped::store(largest.place, spirv::untyped::select(above, value, before));
      place = select(above, flat(0, at, in_), place.load());
    });
    return place.load();
  }

  [[nodiscard]] static spirv::boolean is_nan(const scalar_value& of) {
    return of.type.is_float() ? spirv::boolean(spirv::untyped::is_nan(of)) : spirv::boolean(false);
  }
  // A NaN is above every number.
  [[nodiscard]] static spirv::boolean is_above(const scalar_value& value, const scalar_value& other) {
    using spirv::untyped::comparison;
    return spirv::boolean(spirv::untyped::compare(comparison::less, other, value)) || (is_nan(value) && !is_nan(other));
  }

  [[nodiscard]] scalar_value scattered(const spirv::u32& outer, const index& at, const spirv::u32& position) {
    const bool is_max = window_.kind == reduce_kind::max;
    const bool written_out = window_count_ <= 32 && (!is_max || window_count_ * element_count_ <= 81);
    const running_sum total = start_total(scalar_op::row_sum);
    const scalar_value own = is_max ? x_->load(position) : total.start;
    for_each(window_count_, written_out, !is_max, std::span(&total, 1), [&](const spirv::u32& number) {
      const covering found = covering_window(at, number);
      scalar_value value = value_of(*y_, outer, found.window, out_, found.exists, total.start);
      if (is_max) {
        const elements window = elements_from(origin_of(found.window));
        value = spirv::untyped::select(is_first_maximum(outer, window, at, own, written_out), value, total.start);
      }
      spirv::untyped::store(total.place, combine(owner_, scalar_op::row_sum, spirv::untyped::load(total.place), value));
    });
    return is_max ? spirv::untyped::load(total.place) : shared_total(scalar_op::row_sum, total.place);
  }

  // Whether the element at `own_place`, which holds `own`, is the first maximum of that window: above all before it and
  // none after it above it.
  [[nodiscard]] spirv::boolean is_first_maximum(const spirv::u32& outer, const elements& window, const index& own_place,
                                                const scalar_value& own, bool written_out) {
    spirv::u32 own_element = 0;
    for (std::size_t i = 0; i < max_spatial; ++i)
      own_element = own_element * reach_[i] + (own_place[i] - window.first[i]);
    const auto holds = owner_.variable<spirv::u32>(1u);
    for_each(element_count_, written_out, true, {}, [&](const spirv::u32& other) {
      const index at = behind(window.first, split(other, reach_));
      const spirv::boolean real = exists(window, at);
      const scalar_value value = value_of(*x_, outer, at, in_, real, identity(scalar_op::row_max, type_));
      const spirv::boolean loses = is_above(value, own) || (real && other < own_element && !is_above(own, value));
      holds = select(loses, spirv::u32(0), holds.load());
    });
    return spirv::u32(shared_total(scalar_op::row_min, holds.reference())) != 0u;
  }

  // To the first maximum of window number `position` its value, to its other elements zeros.
  void scatter_window(const spirv::u32& position, const bound_tensor& result) {
    spirv::u32 outer = position;
    const index origin = origin_of(split_off(outer, out_));
    std::vector<spirv::u32> places;
    std::vector<scalar_value> values;
    for (std::uint32_t element = 0; element < element_count_; ++element) {
      places.push_back(flat(outer, behind(origin, split(spirv::u32(element), sizes_)), in_));
      values.push_back(x_->load(places.back()));
    }
    scalar_value largest = values[0];
    spirv::u32 which = 0;
    for (std::uint32_t element = 1; element < element_count_; ++element) {
      const scalar_value& value = values[element];
      const spirv::boolean above = is_above(value, largest);
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
  std::optional<window_tile> tile_;
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
