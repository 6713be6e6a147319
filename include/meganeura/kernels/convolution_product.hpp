// SPDX-License-Identifier: MIT
// The three forms of a convolution as one product: its indices, loads and stores.
#pragma once
#include <meganeura/fusion/product_tiles.hpp>
#include <meganeura/graph/attribute.hpp>
#include <meganeura/kernels/cascade.hpp>
#include <meganeura/kernels/tensor_access.hpp>

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels::detail {

/// All three forms are result(m, n) = sum over k of a(m, k) * b(n, k), one product a group:
///   output  m = output channel, n = (image, output position), k = (tap, input channel),   a = w, b = x
///   input   m = input channel,  n = (image, input position),  k = (tap, output channel),  a = w, b = y
///   filter  m = output channel, n = (input channel, tap),     k = (image, output position), a = y, b = x
/// The address in `a` is a sum of a part of m and a part of k. The position in `b` is, axis by axis, the sum of a part
/// of n and a part of k, and has to lie inside the image (and, for the input form, on the grid of the stride).
struct convolution_product {
  convolution_attribute geometry;
  std::uint32_t batch = 1, in_channels = 1, out_channels = 1;  // channels of one group
  std::uint32_t groups = 1, taps = 1, in_size = 1, out_size = 1;
  std::array<std::uint32_t, max_spatial> in{1, 1, 1}, kernel{1, 1, 1}, out{1, 1, 1};
  std::int64_t m = 1, n = 1, k = 1;

  using form_kind = convolution_attribute::form_kind;
  [[nodiscard]] bool is(form_kind form) const { return geometry.form == form; }
  [[nodiscard]] std::uint32_t inner() const {  // the fast part of k
    return is(convolution_attribute::filter)   ? out_size
           : is(convolution_attribute::output) ? in_channels
                                               : out_channels;
  }
  [[nodiscard]] std::uint32_t a_group() const {
    return is(convolution_attribute::filter) ? out_channels * out_size : out_channels * in_channels * taps;
  }
  /// Places of the result along an axis of the image, and elements of what is read by windows.
  [[nodiscard]] std::uint32_t places(std::size_t axis) const {
    return is(convolution_attribute::input) ? in[axis] : out[axis];
  }
  [[nodiscard]] std::uint32_t extent_read(std::size_t axis) const {
    return is(convolution_attribute::input) ? out[axis] : in[axis];
  }
  [[nodiscard]] std::uint32_t b_group() const {
    return is(convolution_attribute::input) ? out_channels * out_size : in_channels * in_size;
  }
};

[[nodiscard]] inline convolution_product make_product(const convolution_attribute& c, const shape& x, const shape& w,
                                                      const shape& y) {
  const auto narrow = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  convolution_product p;
  p.geometry = c;
  p.batch = narrow(x[0]);
  p.groups = narrow(c.groups);
  p.in_channels = narrow(w[1]);
  p.out_channels = narrow(w[0] / c.groups);
  for (int i = 0; i < c.spatial; ++i) {
    const auto axis = static_cast<std::size_t>(i);
    p.in[axis] = narrow(x[i + 2]);
    p.kernel[axis] = narrow(w[i + 2]);
    p.out[axis] = narrow(y[i + 2]);
    p.in_size *= p.in[axis];
    p.taps *= p.kernel[axis];
    p.out_size *= p.out[axis];
  }
  const fusion::product_extents product = fusion::product_of(c, x, w, y);
  p.m = product.m, p.n = product.n, p.k = product.k;
  return p;
}

using spatial_index = std::array<spirv::u32, max_spatial>;

[[nodiscard]] inline spatial_index split(spirv::u32 position, const std::array<std::uint32_t, max_spatial>& extents) {
  spatial_index at;
  for (std::size_t i = max_spatial; i-- > 0;) {
    at[i] = i == 0 ? position : position % extents[i];
    position = position / extents[i];
  }
  return at;
}

struct k_part {
  spirv::u32 a, b;  // what k adds to the addresses
  spatial_index at;
};
struct n_part {
  spirv::u32 b;
  spatial_index at;
};
struct element {
  spirv::u32 address;
  spirv::boolean exists;
};

[[nodiscard]] inline spirv::u32 wrapped(std::int64_t value) { return spirv::u32(static_cast<std::uint32_t>(value)); }

// Of k = slow * inner + fast.
[[nodiscard]] inline k_part part_of_k(const convolution_product& p, const spirv::u32& slow, const spirv::u32& fast) {
  const auto& c = p.geometry;
  k_part part;
  if (p.is(convolution_attribute::filter)) {
    part.a = slow * (p.groups * p.out_channels * p.out_size) + fast;
    part.b = slow * (p.groups * p.in_channels * p.in_size);
    part.at = split(fast, p.out);
    for (std::size_t i = 0; i < max_spatial; ++i) part.at[i] = part.at[i] * wrapped(c.stride[i]);
    return part;
  }
  const bool by_input = p.is(convolution_attribute::input);
  part.a = by_input ? fast * (p.in_channels * p.taps) + slow : fast * p.taps + slow;
  part.b = fast * (by_input ? p.out_size : p.in_size);
  part.at = split(slow, p.kernel);
  for (std::size_t i = 0; i < max_spatial; ++i)
    part.at[i] = part.at[i] * wrapped(by_input ? -c.dilation[i] : c.dilation[i]);
  return part;
}

[[nodiscard]] inline spirv::u32 part_of_m(const convolution_product& p, const spirv::u32& m) {
  if (p.is(convolution_attribute::filter)) return m * p.out_size;
  return m * (p.is(convolution_attribute::input) ? p.taps : p.in_channels * p.taps);
}

[[nodiscard]] inline n_part part_of_n(const convolution_product& p, const spirv::u32& n) {
  const auto& c = p.geometry;
  n_part part;
  if (p.is(convolution_attribute::filter)) {
    part.b = n / p.taps * p.in_size;
    part.at = split(n % p.taps, p.kernel);
    for (std::size_t i = 0; i < max_spatial; ++i)
      part.at[i] = part.at[i] * wrapped(c.dilation[i]) + wrapped(-c.pad_low[i]);
    return part;
  }
  const bool by_input = p.is(convolution_attribute::input);
  const std::uint32_t size = by_input ? p.in_size : p.out_size;
  part.b = n / size * (p.groups * (by_input ? p.out_channels * p.out_size : p.in_channels * p.in_size));
  part.at = split(n % size, by_input ? p.in : p.out);
  for (std::size_t i = 0; i < max_spatial; ++i) {
    part.at[i] =
        by_input ? part.at[i] + wrapped(c.pad_low[i]) : part.at[i] * wrapped(c.stride[i]) + wrapped(-c.pad_low[i]);
  }
  return part;
}

// Positions are modulo 2^32: one unsigned comparison checks both ends.
[[nodiscard]] inline element element_of_b(const convolution_product& p, const n_part& n, const k_part& k) {
  const bool by_input = p.is(convolution_attribute::input);
  const auto& extents = by_input ? p.out : p.in;
  element found{n.b + k.b, spirv::boolean(true)};
  std::uint32_t pitch = 1;
  for (std::size_t i = max_spatial; i-- > 0;) {
    if (static_cast<int>(i) >= p.geometry.spatial) continue;
    spirv::u32 position = n.at[i] + k.at[i];
    if (by_input && p.geometry.stride[i] > 1) {
      const spirv::u32 stride = wrapped(p.geometry.stride[i]);
      const spirv::u32 scaled = position / stride;
      found.exists = found.exists && position == scaled * stride;
      position = scaled;
    }
    const bool never_outside = !by_input && p.geometry.pad_low[i] == 0;  // the window fits; nothing to check
    if (!never_outside || p.geometry.pad_high[i] != 0) found.exists = found.exists && position < spirv::u32(extents[i]);
    found.address = found.address + position * pitch;
    pitch *= extents[i];
  }
  return found;
}

/// What loops over k are told of their totals.
[[nodiscard]] inline std::vector<running_sum> running_sums(std::span<const spirv::var<spirv::f32x4>> sums) {
  std::vector<running_sum> list;
  const scalar_value zero = widened(literal(dtype::f32, 0), 4);
  for (const auto& sum : sums) list.push_back({sum.reference(), scalar_op::row_sum, zero});
  return list;
}

/// Loads, the epilogue and the store, common to both kernels.
class convolution_memory {
 public:
  convolution_memory(spirv::kernel& owner, const convolution_product& p, const convolve_attribute& node,
                     std::span<const dtype> types, const shape& result_extents, dtype result)
      : owner_(owner), p_(p), node_(node) {
    nest_.rank = result_extents.rank();
    for (int i = 0; i < nest_.rank; ++i) nest_.extents[i] = result_extents[i];
    nest_.output = node.output;
    operands_.reserve(types.size());
    for (std::size_t i = 0; i < types.size(); ++i) operands_.emplace_back(owner, types[i], fmt::format("operand{}", i));
    // Four consecutive n are four consecutive elements when the last axis is a multiple of four and lies densely.
    const int last = nest_.rank - 1;
    const bool groups_of_four = nest_.extents[last] % 4 == 0 && vectorises(nest_, nest_.output, last);
    result_.emplace(owner, result, "result", groups_of_four ? 4 : 1);
  }

  [[nodiscard]] int width() const { return result_->width(); }
  // In every form the second operand is read without padding.
  [[nodiscard]] spirv::f32 a(const spirv::u32& address) const { return spirv::f32(operands_[1].load(address)); }
  [[nodiscard]] spirv::f32 b(const spirv::u32& address) const { return spirv::f32(operands_[0].load(address)); }
  [[nodiscard]] spirv::f32 b(const element& at) const {
    if (at.exists.is_literal() && at.exists.bits == 0) return 0.0f;  // a constant place in the border
    return select(at.exists, b(select(at.exists, at.address, spirv::u32(0))), spirv::f32(0.0f));
  }

  /// Finishes results (m, n) to (m, n + 3); those past the end are left out, or from n = `end` on, where a row of
  /// places ends.
  void finish(const spirv::u32& group, const spirv::u32& m, const spirv::u32& n, const spirv::f32x4& sums) {
    finish(group, m, n, sums, spirv::u32(p_.n));
  }
  void finish(const spirv::u32& group, const spirv::u32& m, const spirv::u32& n, const spirv::f32x4& sums,
              const spirv::u32& end) {
    owner_.if_(m < spirv::u32(p_.m), [&] {
      if (width() == 4) {
        owner_.if_(n < end, [&] { store_at(group, m, n, sums, nest_.rank - 1); });
        return;
      }
      for (std::uint32_t i = 0; i < 4; ++i) {
        owner_.if_(n + i < end, [&] { store_at(group, m, n + i, sums[i], -1); });
      }
    });
  }

 private:
  [[nodiscard]] coordinates place(const spirv::u32& group, const spirv::u32& m, const spirv::u32& n) const {
    coordinates at;
    const bool by_filter = p_.is(convolution_attribute::filter), by_input = p_.is(convolution_attribute::input);
    const std::uint32_t size = by_filter ? p_.taps : by_input ? p_.in_size : p_.out_size;
    const spirv::u32 channel = group * spirv::u32(p_.m) + m;
    at[0] = by_filter ? channel : n / size;
    at[1] = by_filter ? n / size : channel;
    spirv::u32 rest = n % size;
    for (int axis = nest_.rank - 1; axis > 2; --axis) {
      const auto extent = static_cast<std::uint32_t>(nest_.extents[axis]);
      at[static_cast<std::size_t>(axis)] = rest % extent;
      rest = rest / extent;
    }
    at[2] = rest;
    return at;
  }

  void store_at(const spirv::u32& group, const spirv::u32& m, const spirv::u32& n, const scalar_value& sum,
                int vector_axis) {
    const coordinates at = place(group, m, n);
    const scalar_value value = emit(owner_, node_.finish.program, [&](int argument) {
      if (argument == 0) return sum;
      return load(owner_, nest_, node_.finish.accesses[static_cast<std::size_t>(argument - 1)], operands_, at,
                  vector_axis);
    });
    store(nest_, nest_.output, *result_, value, at, vector_axis);
  }

  spirv::kernel& owner_;
  const convolution_product& p_;
  const convolve_attribute& node_;
  loop_nest nest_;
  std::vector<bound_tensor> operands_;
  std::optional<bound_tensor> result_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::kernels::detail
