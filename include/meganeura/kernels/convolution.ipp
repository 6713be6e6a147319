// SPDX-License-Identifier: MIT
// Definitions for kernels/convolution.hpp: the index arithmetic of the three forms, and two ways to run the product.
#pragma once
#include <meganeura/kernels/cascade.hpp>
#include <meganeura/kernels/convolution.hpp>
#include <meganeura/kernels/shared_totals.hpp>
#include <meganeura/kernels/tensor_access.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels {

namespace detail {

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
  const std::int64_t outputs = std::int64_t{p.batch} * p.out_size, inputs = std::int64_t{p.batch} * p.in_size;
  const bool by_input = c.form == convolution_attribute::input, by_filter = c.form == convolution_attribute::filter;
  p.m = by_input ? p.in_channels : p.out_channels;
  p.n = by_filter ? std::int64_t{p.in_channels} * p.taps : by_input ? inputs : outputs;
  p.k = by_filter ? outputs : std::int64_t{p.taps} * (by_input ? p.out_channels : p.in_channels);
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

  /// Finishes results (m, n) to (m, n + 3); those past the end are left out.
  void finish(const spirv::u32& group, const spirv::u32& m, const spirv::u32& n, const spirv::f32x4& sums) {
    owner_.if_(m < spirv::u32(p_.m), [&] {
      if (width() == 4) {
        owner_.if_(n < spirv::u32(p_.n), [&] { store_at(group, m, n, sums, nest_.rank - 1); });
        return;
      }
      for (std::uint32_t i = 0; i < 4; ++i) {
        owner_.if_(n + i < spirv::u32(p_.n), [&] { store_at(group, m, n + i, sums[i], -1); });
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
    store(nest_, *result_, value, at, vector_axis);
  }

  spirv::kernel& owner_;
  const convolution_product& p_;
  const convolve_attribute& node_;
  loop_nest nest_;
  std::vector<bound_tensor> operands_;
  std::optional<bound_tensor> result_;
};

// ---- straight from storage buffers
// -----------------------------------------------------------------------------------

/// Each invocation owns up to 4 m by 4 n. `lanes` of them share one such tile: each takes its part of k, and they add up
/// in shared memory.
struct direct_plan {
  std::uint32_t rows = 4, lanes = 1, size = 64;  // lanes and size are powers of two

  /// Lanes of one subgroup need no shared memory.
  [[nodiscard]] bool shuffles(const target& on) const {
    return lanes > 1 && on.subgroup_shuffle && lanes <= on.subgroup_size && size % on.subgroup_size == 0;
  }
  /// Twice the lanes; false when the workgroup is full.
  [[nodiscard]] bool share_wider(const target& on) {
    if (2 * lanes > std::bit_floor(on.max_invocations) || 32 * lanes > on.max_shared_bytes) return false;
    lanes *= 2;
    size = std::max(size, lanes);
    return true;
  }
};

class direct_convolution {
 public:
  direct_convolution(spirv::kernel& owner, const convolution_product& p, const direct_plan& plan,
                     convolution_memory& memory, const flat_grid& grid, std::int64_t tiles, const target& on)
      : owner_(owner), p_(p), plan_(plan), memory_(memory), on_(on) {
    const std::uint32_t per_group = plan.size / plan.lanes;
    const bool shuffles = plan.shuffles(on);
    if (shuffles) owner.require_subgroup_size(on.subgroup_size);
    const spirv::u32 index =
        shuffles ? owner.subgroup_id() * on.subgroup_size + owner.subgroup_lane() : owner.local_id(0);
    const std::int64_t m_tiles = (p.m + plan.rows - 1) / plan.rows, n_tiles = (p.n + 3) / 4;
    lane_ = index % plan.lanes;
    const spirv::u32 wanted = grid.position(owner) * per_group + index / plan.lanes;
    const bool exact = std::int64_t{grid.groups[0]} * grid.groups[1] * grid.groups[2] * per_group == tiles;
    exists_ = exact ? spirv::boolean(true) : wanted < spirv::u32(tiles);
    const spirv::u32 tile = min(wanted, spirv::u32(tiles - 1));
    n_first_ = tile % spirv::u32(n_tiles) * 4u;
    m_first_ = tile / spirv::u32(n_tiles) % spirv::u32(m_tiles) * plan.rows;
    group_ = tile / spirv::u32(n_tiles * m_tiles);
  }

  void run() {
    for (std::uint32_t i = 0; i < plan_.rows; ++i) {
      a_rows_.push_back(part_of_m(p_, min(m_first_ + i, spirv::u32(p_.m - 1))) + group_ * p_.a_group());
    }
    for (std::uint32_t j = 0; j < 4; ++j) {
      n_part part = part_of_n(p_, min(n_first_ + j, spirv::u32(p_.n - 1)));
      part.b = part.b + group_ * p_.b_group();
      b_columns_.push_back(part);
    }
    for (std::uint32_t i = 0; i < plan_.rows; ++i) sums_.push_back(owner_.variable<spirv::f32x4>(0.0f));
    sum_up();
    const std::vector<spirv::f32x4> sums = shared_sums();
    owner_.if_(plan_.lanes == 1 ? exists_ : exists_ && lane_ == 0u, [&] {
      for (std::uint32_t i = 0; i < plan_.rows; ++i) memory_.finish(group_, m_first_ + i, n_first_, sums[i]);
    });
  }

 private:
  // Lanes lie along the fast part of k as far as it goes, then across the slow part.
  void sum_up() {
    const std::uint32_t inner = p_.inner(), outer = static_cast<std::uint32_t>(p_.k / inner);
    const std::uint32_t along = std::min(plan_.lanes, std::bit_ceil(inner)), across = plan_.lanes / along;
    const cascade_lengths one{};
    const std::uint64_t passes = (inner + along - 1) / along;
    const std::vector<running_sum> sums = running();
    for_summed(owner_, lane_ / along, outer, across, {.terms = one.after(passes)}, sums, [&](const spirv::u32& slow) {
      // A tap's place in the image is the same for all channels: it is worked out before the loop over them.
      const bool by_filter = p_.is(convolution_attribute::filter);
      const std::array<element, 4> origin =
          by_filter ? std::array<element, 4>{} : elements(part_of_k(p_, slow, spirv::u32(0)));
      for_summed(owner_, lane_ % along, inner, along, one, sums, [&](const spirv::u32& fast) {
        const k_part k = part_of_k(p_, slow, fast);
        if (by_filter) return step(k, elements(k));
        std::array<element, 4> at = origin;
        for (element& each : at) each.address = each.address + k.b;
        step(k, at);
      });
    });
  }

  [[nodiscard]] std::vector<running_sum> running() const {
    std::vector<running_sum> list;
    const scalar_value zero = widened(literal(dtype::f32, 0), 4);
    for (const auto& sum : sums_) list.push_back({sum.reference(), scalar_op::row_sum, zero});
    return list;
  }

  void step(const k_part& k, const std::array<element, 4>& at) {
    const spirv::f32x4 b = vector(memory_.b(at[0]), memory_.b(at[1]), memory_.b(at[2]), memory_.b(at[3]));
    for (std::size_t i = 0; i < plan_.rows; ++i) {
      sums_[i] = fma(spirv::f32x4(memory_.a(a_rows_[i] + k.a)), b, sums_[i].load());
    }
  }

  [[nodiscard]] std::array<element, 4> elements(const k_part& k) const {
    std::array<element, 4> at;
    for (std::size_t j = 0; j < 4; ++j) at[j] = element_of_b(p_, b_columns_[j], k);
    return at;
  }

  // By halves; afterwards lane 0 holds the sum of all lanes. No variable is used on both sides of a barrier: a software
  // device would keep it in memory from the first loop on.
  [[nodiscard]] std::vector<spirv::f32x4> shared_sums() {
    std::vector<spirv::f32x4> sums;
    for (const auto& own : sums_) sums.push_back(own.load());
    if (plan_.lanes == 1) return sums;
    if (plan_.shuffles(on_)) {
      for (spirv::f32x4& sum : sums) sum = shuffled(sum);
      return sums;
    }
    shared_totals totals(owner_, plan_.size);
    const spirv::u32 own = owner_.local_id(0);
    const lane_place place{.lane = lane_, .lanes = plan_.lanes, .own = own, .total = own};
    for (spirv::f32x4& sum : sums) sum = spirv::f32x4(totals.combined(scalar_op::row_sum, sum, place));
    return sums;
  }

  [[nodiscard]] spirv::f32x4 shuffled(spirv::f32x4 sum) {
    for (std::uint32_t mask = plan_.lanes / 2; mask > 0; mask /= 2) {
      const auto moved = [&](std::uint32_t c) { return owner_.subgroup_shuffle_xor(sum[c], spirv::u32(mask)); };
      sum = sum + vector(moved(0), moved(1), moved(2), moved(3));
    }
    return sum;
  }

  spirv::kernel& owner_;
  const convolution_product& p_;
  const direct_plan& plan_;
  convolution_memory& memory_;
  const target& on_;
  spirv::u32 lane_, m_first_, n_first_, group_;
  spirv::boolean exists_{true};
  std::vector<spirv::u32> a_rows_;
  std::vector<n_part> b_columns_;
  std::vector<spirv::var<spirv::f32x4>> sums_;
};

[[nodiscard]] inline kernel_dispatch make_direct(const convolution_product& p, const convolve_attribute& node,
                                                 std::span<const dtype> types, const shape& result_extents,
                                                 dtype result, const direct_plan& plan, const target& on) {
  const std::int64_t tiles = (p.m + plan.rows - 1) / plan.rows * ((p.n + 3) / 4) * p.groups;
  const std::uint32_t per_group = plan.size / plan.lanes;
  const flat_grid grid = make_flat_grid(tiles, per_group, on);
  spirv::kernel owner(fmt::format("convolution {}x{}x{}", p.m, p.n, p.k), {plan.size, 1, 1});
  convolution_memory memory(owner, p, node, types, result_extents, result);
  direct_convolution(owner, p, plan, memory, grid, tiles, on).run();
  return {owner.finish(), grid.groups};
}

// ---- tiles in shared memory
// ------------------------------------------------------------------------------------------

/// A workgroup computes bm by bn results; `slices` parts of it take every slices-th step of k and add up at the end.
struct tile_plan {
  std::uint32_t bm, bn;
  std::uint32_t am, an;  // groups of four m and of four n an invocation owns
  double efficiency;     // of the multiply-add units, when enough invocations are there
  std::uint32_t slices = 1;
  [[nodiscard]] std::uint32_t slice_threads() const { return bm * bn / (16 * am * an); }
  [[nodiscard]] std::uint32_t threads() const { return slice_threads() * slices; }
  [[nodiscard]] bool fits(const target& on) const;
  /// Twice the slices; false when the workgroup is full.
  [[nodiscard]] bool share_wider(const target& on) {
    tile_plan wider = *this;
    wider.slices *= 2;
    if (!wider.fits(on)) return false;
    *this = wider;
    return true;
  }
};

inline constexpr std::uint32_t conv_tile_k = 16;

[[nodiscard]] inline std::uint32_t shared_words(const tile_plan& plan) {  // of four floats
  const std::uint32_t tiles = plan.slices * conv_tile_k * (plan.bm / 4 + 1 + plan.bn / 4 + 1);
  return plan.slices > 1 ? std::max(tiles, plan.slices * plan.bm * plan.bn / 4) : tiles;
}

[[nodiscard]] inline bool tile_plan::fits(const target& on) const {
  return threads() <= std::min(1024u, on.max_invocations) && shared_words(*this) * 16 <= on.max_shared_bytes;
}

/// The quickest of a few tile sizes by an estimate of multiply-add time, with too few invocations counted as waiting.
[[nodiscard]] inline tile_plan choose_tiles(const convolution_product& p, const target& on) {
  // Measured on an H200, with all multiprocessors busy.
  constexpr tile_plan sizes[] = {{128, 128, 2, 2, 0.42}, {128, 64, 2, 1, 0.39}, {64, 64, 1, 1, 0.37},
                                 {32, 64, 1, 1, 0.36},   {32, 32, 1, 1, 0.28},  {16, 16, 1, 1, 0.2}};
  tile_plan best{16, 16, 1, 1, 0.2};
  double least = 1e300;
  for (tile_plan plan : sizes) {
    for (plan.slices = 1; plan.slices <= 16; plan.slices *= 2) {
      if (!plan.fits(on) || plan.threads() < std::min(32u, on.max_invocations)) continue;
      const double tiles = static_cast<double>(p.groups) * std::ceil(static_cast<double>(p.m) / plan.bm) *
                           std::ceil(static_cast<double>(p.n) / plan.bn);
      const double rounds = std::ceil(tiles / on.compute_units);
      const double resident = plan.threads() * std::min(rounds, std::floor(1536.0 / plan.threads()));
      const double steps =
          std::ceil(static_cast<double>(p.k) / (conv_tile_k * plan.slices)) * conv_tile_k * plan.slices;
      const double time =
          rounds * plan.bm * plan.bn * (steps + 4.0 * plan.slices) / (plan.efficiency * std::min(1.0, resident / 384));
      if (time < least) least = time, best = plan;
    }
  }
  return best;
}

class tiled_convolution {
 public:
  tiled_convolution(spirv::kernel& owner, const convolution_product& p, const tile_plan& plan,
                    convolution_memory& memory, const flat_grid& grid)
      : owner_(owner),
        p_(p),
        plan_(plan),
        memory_(memory),
        shared_(owner.shared<spirv::f32x4>(shared_words(plan))),
        a_pitch_(plan.bm / 4 + 1),
        b_pitch_(plan.bn / 4 + 1) {
    const auto n_tiles = spirv::u32((p.n + plan.bn - 1) / plan.bn), m_tiles = spirv::u32((p.m + plan.bm - 1) / plan.bm);
    const spirv::u32 tile = grid.position(owner);
    // Neighbouring workgroups share their columns of b, the larger operand.
    m_first_ = tile % m_tiles * plan.bm;
    n_first_ = tile / m_tiles % n_tiles * plan.bn;
    group_ = tile / (m_tiles * n_tiles);
    thread_ = owner.local_id(0) % plan.slice_threads();
    slice_ = owner.local_id(0) / plan.slice_threads();
  }

  void run() {
    prepare();
    for (std::uint32_t i = 0; i < 4 * plan_.am * plan_.an; ++i) sums_.push_back(owner_.variable<spirv::f32x4>(0.0f));
    std::vector<running_sum> running;
    const scalar_value zero = widened(literal(dtype::f32, 0), 4);
    for (const auto& sum : sums_) running.push_back({sum.reference(), scalar_op::row_sum, zero});
    const std::int64_t step = std::int64_t{conv_tile_k} * plan_.slices;
    const auto rounds = static_cast<std::uint32_t>((p_.k + step - 1) / step);
    const cascade_lengths lengths{.terms = conv_tile_k, .straight = straight_product(4 * sums_.size())};
    for_summed(owner_, spirv::u32(0), rounds, 1, lengths, running, [&](const spirv::u32& round) {
      const spirv::u32 first = (round * plan_.slices + slice_) * conv_tile_k;
      std::vector<spirv::f32> a, b;  // all loads are under way before the first is waited for
      for (const part& each : a_parts_) a.push_back(load_a(each, first));
      for (const part& each : b_parts_) b.push_back(load_b(each, first));
      owner_.barrier();
      for (std::size_t i = 0; i < a.size(); ++i) put(a_base(), a_pitch_, a_parts_[i], a[i]);
      for (std::size_t i = 0; i < b.size(); ++i) put(b_base(), b_pitch_, b_parts_[i], b[i]);
      owner_.barrier();
      multiply();
    });
    if (plan_.slices > 1) add_slices();
    owner_.if_(slice_ == 0u, [&] { store_all(); });
  }

 private:
  /// One element of a tile that this invocation loads in each round: row (of m or n) and k inside the tile.
  struct part {
    spirv::u32 row, k;
    spirv::u32 a;  // address part of m
    n_part n;
    spirv::boolean exists{true};
  };

  [[nodiscard]] std::vector<part> parts(std::uint32_t rows, bool k_fast) const {
    const std::uint32_t threads = plan_.slice_threads(), fast = k_fast ? conv_tile_k : rows;
    std::vector<part> list;
    for (std::uint32_t first = 0; first < rows * conv_tile_k; first += threads) {
      const bool regular = threads % fast == 0;
      const spirv::u32 at = thread_ + first;
      const spirv::u32 low = regular ? thread_ % fast : at % fast;
      const spirv::u32 high = regular ? thread_ / fast + first / fast : at / fast;
      part each;
      each.row = k_fast ? high : low;
      each.k = k_fast ? low : high;
      list.push_back(each);
    }
    return list;
  }

  void prepare() {
    // Along whichever index memory is consecutive, so that neighbours read neighbours.
    a_parts_ = parts(plan_.bm, !p_.is(convolution_attribute::input));
    b_parts_ = parts(plan_.bn, p_.is(convolution_attribute::filter));
    for (part& each : a_parts_) {
      const spirv::u32 m = m_first_ + each.row;
      if (p_.m % plan_.bm != 0) each.exists = m < spirv::u32(p_.m);
      each.a = part_of_m(p_, m) + group_ * p_.a_group();
    }
    for (part& each : b_parts_) {
      const spirv::u32 n = n_first_ + each.row;
      if (p_.n % plan_.bn != 0) each.exists = n < spirv::u32(p_.n);
      each.n = part_of_n(p_, n);
      each.n.b = each.n.b + group_ * p_.b_group();
    }
  }

  [[nodiscard]] k_part k_at(const spirv::u32& first, const spirv::u32& offset) const {
    const std::uint32_t inner = p_.inner();
    // A tile that never crosses a tap (or an image) divides once for all its elements.
    if (inner % conv_tile_k == 0) return part_of_k(p_, first / inner, first % inner + offset);
    const spirv::u32 k = first + offset;
    return part_of_k(p_, k / inner, k % inner);
  }

  [[nodiscard]] spirv::boolean in_range(const part& each, const spirv::u32& first) const {
    const std::int64_t step = std::int64_t{conv_tile_k} * plan_.slices;
    return p_.k % step == 0 ? each.exists : (each.exists && first + each.k < spirv::u32(p_.k));
  }

  [[nodiscard]] spirv::f32 load_a(const part& each, const spirv::u32& first) const {
    const spirv::boolean exists = in_range(each, first);
    const spirv::u32 address = each.a + k_at(first, each.k).a;
    if (exists.is_literal() && exists.bits == 0) return 0.0f;
    return select(exists, memory_.a(select(exists, address, spirv::u32(0))), spirv::f32(0.0f));
  }
  [[nodiscard]] spirv::f32 load_b(const part& each, const spirv::u32& first) const {
    element found = element_of_b(p_, each.n, k_at(first, each.k));
    found.exists = in_range(each, first) && found.exists;
    return memory_.b(found);
  }

  [[nodiscard]] spirv::u32 a_base() const { return slice_ * (conv_tile_k * a_pitch_); }
  [[nodiscard]] spirv::u32 b_base() const {
    return slice_ * (conv_tile_k * b_pitch_) + plan_.slices * conv_tile_k * a_pitch_;
  }

  void put(const spirv::u32& base, std::uint32_t pitch, const part& each, const spirv::f32& value) {
    shared_.component(base + each.k * pitch + each.row / 4u, each.row % 4u) = value;
  }

  [[nodiscard]] spirv::u32 m_thread() const { return thread_ / (plan_.bn / (4 * plan_.an)); }
  [[nodiscard]] spirv::u32 n_thread() const { return thread_ % (plan_.bn / (4 * plan_.an)); }
  // Groups of four are a whole part of the tile apart: neighbours read neighbouring words.
  [[nodiscard]] spirv::u32 m_group(std::uint32_t i) const { return m_thread() + i * (plan_.bm / (4 * plan_.am)); }
  [[nodiscard]] spirv::u32 n_group(std::uint32_t j) const { return n_thread() + j * (plan_.bn / (4 * plan_.an)); }

  [[nodiscard]] std::size_t sum_index(std::uint32_t i, std::uint32_t row, std::uint32_t j) const {
    return (i * 4 + row) * plan_.an + j;
  }

  void multiply() {
    for (std::uint32_t k = 0; k < conv_tile_k; ++k) {
      std::vector<spirv::f32x4> a, b;
      for (std::uint32_t i = 0; i < plan_.am; ++i) a.push_back(shared_[a_base() + k * a_pitch_ + m_group(i)]);
      for (std::uint32_t j = 0; j < plan_.an; ++j) b.push_back(shared_[b_base() + k * b_pitch_ + n_group(j)]);
      for (std::uint32_t i = 0; i < plan_.am; ++i) {
        for (std::uint32_t row = 0; row < 4; ++row) {
          for (std::uint32_t j = 0; j < plan_.an; ++j) {
            const auto& sum = sums_[sum_index(i, row, j)];
            sum = fma(spirv::f32x4(a[i][row]), b[j], sum.load());
          }
        }
      }
    }
  }

  // Slice s lies at s * (bm * bn / 4): the tiles are no longer needed.
  void add_slices() {
    const std::uint32_t words = plan_.bm * plan_.bn / 4;
    const auto own = [&](std::size_t i) { return thread_ + static_cast<std::uint32_t>(i) * plan_.slice_threads(); };
    const auto give = [&](std::uint32_t half) {
      for (std::size_t i = 0; i < sums_.size(); ++i) shared_[(slice_ - half) * words + own(i)] = sums_[i].load();
    };
    const auto take = [&] {
      for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] += shared_[slice_ * words + own(i)].load();
    };
    add_by_halves(owner_, slice_, plan_.slices, true, give, take);
  }

  void store_all() {
    for (std::uint32_t i = 0; i < plan_.am; ++i) {
      for (std::uint32_t row = 0; row < 4; ++row) {
        for (std::uint32_t j = 0; j < plan_.an; ++j) {
          memory_.finish(group_, m_first_ + m_group(i) * 4u + row, n_first_ + n_group(j) * 4u,
                         sums_[sum_index(i, row, j)]);
        }
      }
    }
  }

  spirv::kernel& owner_;
  const convolution_product& p_;
  const tile_plan& plan_;
  convolution_memory& memory_;
  spirv::memory<spirv::f32x4> shared_;
  std::uint32_t a_pitch_, b_pitch_;  // one word more than a row: writes along k meet different banks
  spirv::u32 m_first_, n_first_, group_, thread_, slice_;
  std::vector<part> a_parts_, b_parts_;
  std::vector<spirv::var<spirv::f32x4>> sums_;
};

[[nodiscard]] inline kernel_dispatch make_tiled(const convolution_product& p, const convolve_attribute& node,
                                                std::span<const dtype> types, const shape& result_extents, dtype result,
                                                const tile_plan& plan, const target& on) {
  const std::int64_t tiles = ((p.m + plan.bm - 1) / plan.bm) * ((p.n + plan.bn - 1) / plan.bn) * p.groups;
  const flat_grid grid = make_flat_grid(tiles, 1, on);
  spirv::kernel owner(fmt::format("convolution {}x{}x{} tile {}x{}x{}", p.m, p.n, p.k, plan.bm, plan.bn, plan.slices),
                      {plan.threads(), 1, 1});
  convolution_memory memory(owner, p, node, types, result_extents, result);
  const std::int64_t launched = std::int64_t{grid.groups[0]} * grid.groups[1] * grid.groups[2];
  const auto body = [&] { tiled_convolution(owner, p, plan, memory, grid).run(); };
  launched == tiles ? body() : owner.if_(grid.position(owner) < spirv::u32(tiles), body);
  return {owner.finish(), grid.groups};
}

}  // namespace detail

MEGANEURA_INLINE kernel_dispatch make_convolve(const convolve_attribute& node, std::span<const shape> extents,
                                               std::span<const dtype> types, dtype result, const target& on) {
  const convolution_attribute& c = node.convolution;
  const shape& result_extents = node.space;
  const bool by_input = c.form == convolution_attribute::input, by_filter = c.form == convolution_attribute::filter;
  const shape& x = by_input ? result_extents : extents[0];
  const shape& w = by_filter ? result_extents : extents[1];
  const shape& y = by_filter ? extents[1] : by_input ? extents[0] : result_extents;
  const detail::convolution_product p = detail::make_product(c, x, w, y);
  if (!on.prefers_texel_buffers && (p.m >= 8 || by_filter)) {
    detail::tile_plan plan = detail::choose_tiles(p, on);
    return make_within_loop_limit([&] { return detail::make_tiled(p, node, types, result_extents, result, plan, on); },
                                  [&] { return plan.share_wider(on); }, on);
  }
  detail::direct_plan plan;
  plan.rows = static_cast<std::uint32_t>(std::min<std::int64_t>(p.m, 4));
  const std::int64_t tiles = (p.m + plan.rows - 1) / plan.rows * ((p.n + 3) / 4) * p.groups;
  plan.size = std::min(plan.size, on.max_invocations);
  if (by_filter && tiles < 64) plan.lanes = plan.size = std::min(on.subgroup_size, plan.size);
  return make_within_loop_limit([&] { return detail::make_direct(p, node, types, result_extents, result, plan, on); },
                                [&] { return plan.share_wider(on); }, on);
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
