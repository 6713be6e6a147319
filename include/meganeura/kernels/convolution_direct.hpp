// SPDX-License-Identifier: MIT
// Convolutions whose operands every invocation reads straight from their buffers.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/kernels/convolution_product.hpp>
#include <meganeura/kernels/shared_totals.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels::detail {

/// How an invocation comes to its sums: term by term; by what its places see of each row of the image, which is read
/// once for all taps along it; or by all the taps that a channel of the result has of a filter, of places of which each
/// lane has its share.
enum class direct_way : std::uint8_t { terms, rows, taps };

/// Each invocation owns up to 4 m by 4 n, or of one m several times 4 n. `lanes` of them share these: each takes its
/// part of k, and they add up. Lanes and size are powers of two.
struct direct_plan {
  std::uint32_t rows = 4, lanes = 1, size = 64;
  direct_way way = direct_way::terms;
  std::uint32_t down = 1;   // by rows: of the image, in each of which four n lie
  std::uint32_t fours = 1;  // by taps: of n

  [[nodiscard]] std::uint32_t sums() const { return rows * down * fours; }  // of four

  /// Lanes of one subgroup need no shared memory.
  [[nodiscard]] bool shuffles(const device_profile& on) const {
    return lanes > 1 && on.subgroup_shuffle && lanes <= on.subgroup_size && size % on.subgroup_size == 0;
  }
  /// Twice the lanes; false when the workgroup is full.
  [[nodiscard]] bool share_wider(const device_profile& on) {
    if (way == direct_way::rows) return false;  // which has no loops
    if (2 * lanes > std::bit_floor(on.max_invocations) || 32 * lanes > on.max_shared_bytes) return false;
    lanes *= 2;
    size = std::max(size, lanes);
    return true;
  }
};

/// Along one axis of the image: how far from where the first place's first tap is each place's taps are.
struct sliding_axis {
  std::uint32_t places = 1, taps = 1, extent = 1;  // extent: of what is read
  std::int64_t stride = 1, step = 0;               // from one place to the next, and from one tap
  std::int64_t least = 0, most = 0;                // where the first place's first tap lies

  sliding_axis() = default;
  sliding_axis(const convolution_product& p, std::size_t axis, std::uint32_t together)
      : places(together), taps(p.kernel[axis]) {
    const auto& c = p.geometry;
    const bool by_input = p.is(convolution_attribute::input);
    extent = p.extent_read(axis);
    stride = by_input ? 1 : c.stride[axis], step = by_input ? -c.dilation[axis] : c.dilation[axis];
    least = by_input ? c.pad_low[axis] : -c.pad_low[axis];
    most = least + std::int64_t{ceil_div(p.places(axis), together) - 1} * together * stride;
  }
  [[nodiscard]] std::int64_t offset(std::uint32_t place, std::uint32_t tap) const {
    return place * stride + tap * step;
  }
  struct term {
    std::uint32_t place, tap;
  };
  /// By offsets, what reads them.
  [[nodiscard]] std::map<std::int64_t, std::vector<term>> terms() const {
    std::map<std::int64_t, std::vector<term>> found;
    for (std::uint32_t place = 0; place < places; ++place) {
      for (std::uint32_t tap = 0; tap < taps; ++tap) found[offset(place, tap)].push_back({place, tap});
    }
    return found;
  }
  /// Whatever the place in the image.
  [[nodiscard]] bool is_inside(std::int64_t offset) const {
    return least + offset >= 0 && most + offset < std::int64_t{extent};
  }
};

/// What windows see of a plane of the image, each number loaded when it is asked for first.
class seen_plane {
 public:
  /// `start`: the plane's first element; `at`: where the first place's first tap lies.
  seen_plane(convolution_memory& memory, const element& start, const spatial_index& at, const sliding_axis& down,
             const sliding_axis& along, std::size_t last)
      : memory_(memory), start_(start), at_(at), down_(down), along_(along), last_(last) {}

  /// So far down and along from there.
  [[nodiscard]] spirv::f32 value(std::int64_t down, std::int64_t along) {
    const auto known = values_.find({down, along});
    if (known != values_.end()) return known->second;
    const element row = row_at(down);
    element at{row.address + wrapped(along), row.exists};
    if (!along_.is_inside(along)) at.exists = at.exists && at_[last_] + wrapped(along) < spirv::u32(along_.extent);
    return values_.emplace(std::pair(down, along), memory_.b(at)).first->second;
  }

 private:
  [[nodiscard]] element row_at(std::int64_t down) {
    const auto known = rows_.find(down);
    if (known != rows_.end()) return known->second;
    element row = start_;
    if (last_ > 0) {
      const spirv::u32 position = at_[last_ - 1] + wrapped(down);
      if (!down_.is_inside(down)) row.exists = row.exists && position < spirv::u32(down_.extent);
      row.address = row.address + position * along_.extent;
    }
    row.address = row.address + at_[last_];
    return rows_.emplace(down, row).first->second;
  }

  convolution_memory& memory_;
  element start_;
  spatial_index at_;
  const sliding_axis &down_, &along_;
  std::size_t last_;
  std::map<std::int64_t, element> rows_;
  std::map<std::pair<std::int64_t, std::int64_t>, spirv::f32> values_;
};

/// Whether an invocation's places are neighbours of one row and all channels apart: a convolution of each channel. What
/// is written out takes a driver longer: 7 x 7 taps 0.7 s on lavapipe, in a loop 0.05.
[[nodiscard]] inline bool has_rows(const convolution_product& p, const direct_plan& plan) {
  constexpr std::uint32_t most_taps = 49;
  const auto& c = p.geometry;
  const auto last = static_cast<std::size_t>(c.spatial - 1);
  if (p.is(convolution_attribute::filter) || p.inner() != 1 || plan.lanes > 1) return false;
  if (p.kernel[last] == 1 || p.taps * plan.rows > most_taps) return false;
  const bool by_input = p.is(convolution_attribute::input);
  for (std::size_t i = 0; i <= last; ++i)
    if (by_input && c.stride[i] != 1) return false;
  return 3 * 4 * ceil_div(p.places(last), 4u) <= 4 * p.places(last);  // few of the fours lie behind a row's end
}
/// In how many rows they may lie, while the device stays full: those share what they see of the image.
[[nodiscard]] inline std::uint32_t places_down(const convolution_product& p, const direct_plan& plan,
                                               const device_profile& on) {
  constexpr std::uint32_t most_terms = 36;  // which are written out: 3 x 3 taps of four rows
  if (p.geometry.spatial < 2 || plan.rows > 1) return 1;
  const auto axis = static_cast<std::size_t>(p.geometry.spatial - 2);
  const std::uint32_t rows = p.places(axis);
  const double tiles = static_cast<double>(p.n) / 4 * p.groups;
  std::uint32_t down = 1;
  while (2 * down * p.taps <= most_terms && rows % (2 * down) == 0 &&
         (!on.parallel || tiles >= 2 * down * on.full_occupancy))
    down *= 2;
  return down;
}

/// What fills the device.
[[nodiscard]] inline direct_plan choose_direct(const convolution_product& p, const fusion::product_extents& product,
                                               const device_profile& on) {
  direct_plan plan;
  plan.rows = static_cast<std::uint32_t>(std::min<std::int64_t>(p.m, 4));
  plan.size = std::min(plan.size, on.max_invocations);
  const bool by_taps = fusion::has_all_taps(p.geometry, product);
  if (by_taps) plan.way = direct_way::taps, plan.fours = static_cast<std::uint32_t>(ceil_div<std::int64_t>(p.n, 4));
  const std::int64_t tiles = ceil_div<std::int64_t>(p.m, plan.rows) * ceil_div(p.n, 4 * plan.fours) * p.groups;
  if (p.is(convolution_attribute::filter) && tiles < 64) plan.lanes = plan.size = std::min(on.subgroup_size, plan.size);
  // Few channels of a small image: lanes that share a tile keep the device busy. Of a filter's places a subgroup reads
  // neighbours.
  constexpr std::int64_t least_terms = 16;
  const std::uint32_t most = by_taps ? std::min(256u, on.max_invocations) : std::min(on.subgroup_size, plan.size);
  const auto is_idle = [&] {
    if (by_taps && on.parallel && plan.lanes < on.subgroup_size) return true;
    return on.parallel && static_cast<double>(tiles * plan.lanes) < on.full_occupancy;
  };
  while (is_idle() && 2 * plan.lanes <= most && 2 * plan.lanes * least_terms <= p.k) plan.lanes *= 2;
  plan.size = std::max(plan.size, plan.lanes);
  if (has_rows(p, plan)) plan.way = direct_way::rows, plan.down = places_down(p, plan, on);
  return plan;
}

/// Tiles along n.
[[nodiscard]] inline std::int64_t tiles_along_n(const convolution_product& p, const direct_plan& plan) {
  if (plan.way != direct_way::rows) return ceil_div(p.n, 4 * plan.fours);
  const std::uint32_t length = p.places(static_cast<std::size_t>(p.geometry.spatial - 1));
  return p.n / (length * plan.down) * ceil_div(length, 4u);
}

class direct_convolution {
 public:
  direct_convolution(spirv::kernel& owner, const convolution_product& p, const direct_plan& plan,
                     convolution_memory& memory, const flat_grid& grid, std::int64_t tiles, const device_profile& on)
      : owner_(owner), p_(p), plan_(plan), memory_(memory), on_(on) {
    const std::uint32_t per_group = plan.size / plan.lanes;
    const bool shuffles = plan.shuffles(on);
    if (shuffles) owner.require_subgroup_size(on.subgroup_size);
    const spirv::u32 index = shuffles ? owner.index_by_subgroups(on.subgroup_size) : owner.local_id(0);
    const std::int64_t m_tiles = ceil_div(p.m, plan.rows), n_tiles = tiles_along_n(p, plan);
    lane_ = index % plan.lanes;
    const spirv::u32 wanted = grid.position(owner) * per_group + index / plan.lanes;
    const bool exact = std::int64_t{grid.groups[0]} * grid.groups[1] * grid.groups[2] * per_group == tiles;
    exists_ = exact ? spirv::boolean(true) : wanted < spirv::u32(tiles);
    const spirv::u32 tile = min(wanted, spirv::u32(tiles - 1));
    const spirv::u32 along_n = tile % spirv::u32(n_tiles);
    if (plan.way == direct_way::rows) {
      const std::uint32_t fours = ceil_div(row_length(), 4u);
      n_first_ = along_n / fours * (plan.down * row_length()) + along_n % fours * 4u;
    } else {
      n_first_ = along_n * (4 * plan.fours);
    }
    m_first_ = tile / spirv::u32(n_tiles) % spirv::u32(m_tiles) * plan.rows;
    group_ = tile / spirv::u32(n_tiles * m_tiles);
  }

  void run() {
    for (std::uint32_t i = 0; i < plan_.rows; ++i) {
      a_rows_.push_back(part_of_m(p_, min(m_first_ + i, spirv::u32(p_.m - 1))) + group_ * p_.a_group());
    }
    for (std::uint32_t i = 0; i < plan_.sums(); ++i) sums_.push_back(owner_.variable<spirv::f32x4>(0.0f));
    if (plan_.way == direct_way::rows)
      add_rows();
    else if (plan_.way == direct_way::taps)
      add_taps();
    else
      add_terms();
    const std::vector<spirv::f32x4> sums = shared_sums();
    owner_.if_(plan_.lanes == 1 ? exists_ : exists_ && lane_ == 0u, [&] {
      const bool by_rows = plan_.way == direct_way::rows;
      const std::uint32_t apart = by_rows ? row_length() : 4;
      for (std::uint32_t i = 0; i < sums.size(); ++i) {
        const spirv::u32 n = n_first_ + i / plan_.rows * apart;
        const spirv::u32 end = by_rows ? n / apart * apart + apart : spirv::u32(p_.n);
        memory_.finish(group_, m_first_ + i % plan_.rows, n, sums[i], end);
      }
    });
  }

 private:
  [[nodiscard]] std::size_t last_axis() const { return static_cast<std::size_t>(p_.geometry.spatial - 1); }
  [[nodiscard]] sliding_axis axis_along(std::uint32_t together) const { return {p_, last_axis(), together}; }
  [[nodiscard]] sliding_axis axis_down(std::uint32_t together) const {
    return last_axis() == 0 ? sliding_axis() : sliding_axis(p_, last_axis() - 1, together);
  }

  // What the places of an invocation see of a row of the image is read once for all of them and all taps along it.
  void add_rows() {
    const sliding_axis along = axis_along(4), down = axis_down(plan_.down);
    const n_part first = column(0);
    std::vector<spirv::f32x4> sums(plan_.sums(), spirv::f32x4(0.0f));
    for (std::uint32_t outer = 0; outer < p_.taps; outer += along.taps * down.taps) {
      const k_part k = part_of_k(p_, spirv::u32(outer), spirv::u32(0));
      seen_plane plane(memory_, plane_of(first.b + k.b, first.at[0] + k.at[0]), first.at, down, along, last_axis());
      for (const auto& [row, terms] : down.terms()) {
        for (const sliding_axis::term& each : terms)
          add_row(plane, row, outer + each.tap * along.taps, along,
                  std::span(sums).subspan(each.place * plan_.rows, plan_.rows));
      }
    }
    for (std::size_t i = 0; i < sums.size(); ++i) sums_[i] = sums[i];
  }
  void add_row(seen_plane& plane, std::int64_t row, std::uint32_t first_tap, const sliding_axis& along,
               std::span<spirv::f32x4> sums) {
    for (std::uint32_t tap = 0; tap < along.taps; ++tap) {
      std::array<spirv::f32, 4> b;
      for (std::uint32_t j = 0; j < 4; ++j) b[j] = plane.value(row, along.offset(j, tap));
      const k_part k = part_of_k(p_, spirv::u32(first_tap + tap), spirv::u32(0));
      for (std::size_t i = 0; i < plan_.rows; ++i)
        sums[i] = fma(spirv::f32x4(memory_.a(a_rows_[i] + k.a)), vector(b[0], b[1], b[2], b[3]), sums[i]);
    }
  }

  // Every tap of a channel of the result: lanes have places, several neighbours of a row at a time.
  void add_taps() {
    const std::uint32_t length = p_.out[last_axis()], together = length % 4 == 0 ? 4 : length % 2 == 0 ? 2 : 1;
    const sliding_axis along = axis_along(together), down = axis_down(1);
    const std::uint32_t blocks = p_.out_size / together;
    const auto add = [&](const spirv::u32& block) {
      const k_part k = part_of_k(p_, block / blocks, block % blocks * together);
      spatial_index at = k.at;
      for (std::size_t i = 0; i <= last_axis(); ++i) at[i] = at[i] + wrapped(-p_.geometry.pad_low[i]);
      std::vector<seen_plane> planes;  // of each channel and outer tap
      for (std::uint32_t channel = 0; channel < p_.in_channels; ++channel) {
        const spirv::u32 base = k.b + group_ * p_.b_group() + channel * p_.in_size;
        for (std::uint32_t outer = 0; outer < p_.taps / (along.taps * down.taps); ++outer) {
          const std::int64_t step = outer * p_.geometry.dilation[0];
          planes.emplace_back(memory_, plane_of(base, at[0] + wrapped(step)), at, down, along, last_axis());
        }
      }
      const auto value = [&](std::uint32_t n, std::uint32_t place) -> spirv::f32 {
        if (n >= p_.n) return 0.0f;
        const std::uint32_t tap = n % (along.taps * down.taps);
        return planes[n / (along.taps * down.taps)].value(down.offset(0, tap / along.taps),
                                                          along.offset(place, tap % along.taps));
      };
      std::vector<spirv::f32x4> y;
      for (std::uint32_t j = 0; j < together; ++j) y.emplace_back(memory_.a(a_rows_[0] + k.a + j));
      for (std::uint32_t i = 0; i < plan_.fours; ++i) {
        spirv::f32x4 sum = sums_[i].load();
        for (std::uint32_t j = 0; j < together; ++j)
          sum = fma(y[j], vector(value(4 * i, j), value(4 * i + 1, j), value(4 * i + 2, j), value(4 * i + 3, j)), sum);
        sums_[i] = sum;
      }
    };
    for_summed(owner_, lane_, p_.batch * blocks, plan_.lanes, {.terms = together}, running_sums(sums_), add);
  }

  // Before the last two axes; `at`: along the first of three.
  [[nodiscard]] element plane_of(const spirv::u32& base, const spirv::u32& at) const {
    if (p_.geometry.spatial < 3) return {base, spirv::boolean(true)};
    return {base + at * (p_.extent_read(1) * p_.extent_read(2)), at < spirv::u32(p_.extent_read(0))};
  }

  [[nodiscard]] n_part column(std::uint32_t j) const {
    n_part part = part_of_n(p_, min(n_first_ + j, spirv::u32(p_.n - 1)));
    part.b = part.b + group_ * p_.b_group();
    return part;
  }

  // Lanes lie along the fast part of k as far as it goes, then across the slow part.
  void add_terms() {
    for (std::uint32_t j = 0; j < 4; ++j) b_columns_[j] = column(j);
    const std::uint32_t inner = p_.inner(), outer = static_cast<std::uint32_t>(p_.k / inner);
    const std::uint32_t along = std::min(plan_.lanes, std::bit_ceil(inner)), across = plan_.lanes / along;
    const cascade_lengths one{};
    const std::uint64_t passes = ceil_div(inner, along);
    const std::vector<running_sum> sums = running_sums(sums_);
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

  // Of the places, along the last axis.
  [[nodiscard]] std::uint32_t row_length() const { return p_.places(last_axis()); }

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
  const device_profile& on_;
  spirv::u32 lane_, m_first_, n_first_, group_;
  spirv::boolean exists_{true};
  std::vector<spirv::u32> a_rows_;
  std::array<n_part, 4> b_columns_;
  std::vector<spirv::var<spirv::f32x4>> sums_;
};

[[nodiscard]] inline kernel_dispatch make_direct(const convolution_product& p, const convolve_attribute& node,
                                                 std::span<const dtype> types, const shape& result_extents,
                                                 dtype result, const direct_plan& plan, const device_profile& on) {
  const std::int64_t tiles = ceil_div(p.m, plan.rows) * tiles_along_n(p, plan) * p.groups;
  const std::uint32_t per_group = plan.size / plan.lanes;
  const flat_grid grid = make_flat_grid(tiles, per_group, on);
  spirv::kernel owner(fmt::format("convolution {}x{}x{}", p.m, p.n, p.k), {plan.size, 1, 1});
  convolution_memory memory(owner, p, node, types, result_extents, result);
  direct_convolution(owner, p, plan, memory, grid, tiles, on).run();
  return {owner.finish(), grid.groups};
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels::detail
