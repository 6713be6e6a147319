// SPDX-License-Identifier: MIT
// Schedules of products on matrix units: what there is to choose from, and how long each takes.
#pragma once
#include <meganeura/core/device_profile.hpp>
#include <meganeura/core/division.hpp>
#include <meganeura/core/precision.hpp>
#include <meganeura/core/small_vector.hpp>
#include <meganeura/fusion/product_tiles.hpp>
#include <meganeura/graph/attribute.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::fusion {

/// The ordinary one that a product of the schedule falls back to where its windows' places are terms.
[[nodiscard]] constexpr product_schedule without_windows(product_schedule s, const matrix_shape& unit) {
  s.tile_k = unit.k * s.slices, s.taps = s.reach = 0, s.places = place_axes::none;
  return s;
}

namespace detail {

// Groups in workgroup memory of a step of both operands, a term of each element, however they lie.
[[nodiscard]] constexpr std::uint32_t plain_operands(const product_schedule& s) {
  const std::uint32_t group = s.is_half() ? 8 : 4, pad = 8 / group;
  const auto staged = [&](std::uint32_t rows) {
    return std::max(rows * (s.tile_k / group + pad), s.tile_k * (rows / group + pad));
  };
  return staged(s.tile_m) + staged(s.tile_n);
}

}  // namespace detail

/// Bytes of workgroup memory at most on such units, however the operands lie.
[[nodiscard]] constexpr std::uint32_t shared_bytes_of(const product_schedule& s, const matrix_shape& unit) {
  const std::uint32_t group = s.is_half() ? 8 : 4, bytes = 2 * group;
  std::uint32_t exchange =
      s.slices > 1 ? 4 * (s.tile_n + 4) * s.slices * s.tile_m : 4 * (s.subgroup_n + 4) * s.subgroups() * unit.m;
  std::uint32_t operands = 0;
  if (s.places == place_axes::terms) {
    // Places of both, and one unit's terms where they do not do; a row of fragments of all taps.
    const std::uint32_t channels = s.tile_n / s.taps;
    const std::uint32_t shared = s.tile_k * (s.tile_m / group + 2) + (s.tile_k + s.reach) * (channels / group + 2);
    operands = std::max(shared, detail::plain_operands(without_windows(s, unit))) * s.terms() * bytes;
    exchange = std::max(exchange, 4 * (s.tile_n + 4 * s.taps) * (s.tile_m / s.subgroup_m) * unit.m);
  } else {  // of windows that share elements: these, and taps of the left operand
    const std::uint32_t shared = (s.tile_n + s.reach + s.taps * s.tile_m) * (s.tile_k / group + 8 / group);
    operands = std::max(detail::plain_operands(s), s.places == place_axes::columns ? shared : 0) * s.terms() * bytes;
  }
  return std::max(operands, exchange) + (s.is_half() ? 0 : 4 * (s.tile_m + s.tile_n) + 16) + (s.parts > 1 ? 16 : 0);
}

/// Whether there are units that kernels of products can use.
[[nodiscard]] constexpr bool has_units(const device_profile& device) {
  return device.matrix_units != matrix_units::none && is_usable(device.unit, device.subgroup_size);
}

/// Whether the device has room for it.
[[nodiscard]] constexpr bool fits(const product_schedule& s, const device_profile& device) {
  if ((s.places == place_axes::none) != (s.taps == 0)) return false;
  return s.subgroups() > 0 && has_units(device) && shared_bytes_of(s, device.unit) <= device.max_shared_bytes &&
         s.subgroups() * device.subgroup_size <= device.max_invocations;
}
/// Whether subgroups have both sums of a pair's results; else they have columns of one side.
[[nodiscard]] constexpr bool has_both_sums(const product_schedule& s, const matrix_shape& unit) {
  return s.subgroup_n % (2 * unit.n) == 0;
}
/// Whether there is room for a number of each row of a tile, or for half of a tile of either right operand, too.
[[nodiscard]] constexpr bool fits_beside(const product_schedule& s, bool statistics, bool paired,
                                         const device_profile& device) {
  // Both sums of a result meet, in a subgroup or where slices do.
  if (paired && !has_both_sums(s, device.unit) && (s.slices == 1 || s.tile_n / s.subgroup_n % 2 != 0)) return false;
  const std::uint32_t padding = paired ? 16 * s.tile_k * s.terms() : 0;
  return shared_bytes_of(s, device.unit) + (statistics ? 4 * s.tile_m : 0) + padding <= device.max_shared_bytes;
}

/// Results of a subgroup where operands are split: with more, registers run out.
inline constexpr std::uint32_t largest_split = 2048;

namespace detail {

struct tile_shape {
  std::uint32_t tile_m, tile_n, subgroup_m, subgroup_n;
  std::initializer_list<std::uint32_t> slices;
  std::optional<product_arithmetic> only{};  // that has it; others have quicker ones
};
inline constexpr tile_shape tile_shapes[] = {{16, 32, 16, 32, {4}},
                                             {16, 32, 16, 32, {8}, product_arithmetic::half},
                                             {32, 32, 16, 16, {2, 3, 4}},
                                             {32, 32, 16, 32, {4, 6}},
                                             {32, 64, 32, 32, {4}},
                                             {64, 32, 16, 32, {2, 4}},
                                             {64, 64, 32, 32, {1, 2}},
                                             {64, 128, 32, 64, {1}},
                                             {128, 64, 32, 32, {1}},
                                             {128, 64, 64, 32, {1}},
                                             {128, 96, 32, 32, {1}, product_arithmetic::split},
                                             {128, 128, 64, 32, {1}},
                                             {128, 128, 64, 64, {1}},
                                             {128, 256, 64, 64, {1}}};
inline constexpr std::uint32_t deepest_step = 288;
inline constexpr std::uint32_t most_steps = 16;  // of a loop that is written out

// What an invocation has of a tile: its sums, and what is on its way for it. Of windows that share elements mostly all
// taps of what is multiplied by them.
[[nodiscard]] inline std::uint32_t held(const product_schedule& s, const product_windows& windows,
                                        std::uint32_t threads) {
  const std::uint32_t results = s.subgroup_m * s.subgroup_n * s.subgroups() / threads;
  const std::uint32_t elements = s.is_half() ? 2 : 1;  // of a register
  if (s.places == place_axes::terms) {
    // And what was seen of two groups of rows and of one of channels, as of 3 x 3 taps.
    const std::uint32_t loaded = s.tile_k * s.tile_m + (s.tile_k + s.reach) * (s.tile_n / s.taps);
    return results * (s.keeps_low() ? 2 : 1) + loaded / threads + 12;
  }
  const std::uint32_t taps = s.places == place_axes::columns ? static_cast<std::uint32_t>(windows.taps) : 1;
  const std::uint32_t rows = taps * s.tile_m + s.tile_n + s.reach;
  return results * (s.keeps_low() ? 2 : 1) + rows * s.tile_k * s.depth / (threads * elements);
}
[[nodiscard]] inline bool has_registers(const product_schedule& s, const product_windows& windows,
                                        const device_profile& device) {
  const std::uint32_t threads = s.subgroups() * device.subgroup_size;
  return (s.is_half() ? 48 : 64) + held(s, windows, threads) <= std::min(240u, 65536 / threads);
}

/// Of an invocation where units are emulated, at most: drivers may end it behind so many (max_loop_iterations).
[[nodiscard]] inline std::uint64_t emulated_iterations(const product_schedule& s, std::int64_t k,
                                                       const device_profile& device) {
  const auto terms = static_cast<std::uint64_t>(k), steps = ceil_div<std::uint64_t>(terms, s.tile_k);
  const std::uint64_t results = s.subgroup_m * s.subgroup_n / device.subgroup_size;
  const std::uint64_t products = s.arithmetic == product_arithmetic::split ? 3 : 1;
  const std::uint64_t a_unit =
      device.unit.k * products + (products == 3 && !s.keeps_low() ? 5 : 1);  // totals of its own
  const std::uint64_t units = ceil_div<std::uint64_t>(steps * s.tile_k, device.unit.k * s.slices);
  const std::uint64_t looks = s.is_scaled() ? 2 : 1;
  const std::uint64_t in_f32 = s.is_scaled() ? terms / s.slices + 1 : 0;  // of rows without a factor
  return results * (looks * (units * a_unit + 8) + in_f32 + 16) + 8 * steps;
}

[[nodiscard]] inline bool ends_in_time(const product_schedule& s, std::int64_t k, const device_profile& device) {
  return device.matrix_units != matrix_units::emulated || device.max_loop_iterations == 0 ||
         emulated_iterations(s, k, device) <= device.max_loop_iterations;
}

/// Terms of a step: the two deepest powers of two that the device has room for, and where slices share a step those of
/// which k is a multiple, as nearly as can be. (In large tiles steps of 96 terms took a fifth longer than those of 64.)
[[nodiscard]] inline small_vector<std::uint32_t, 4> steps_of(product_schedule s, std::int64_t k,
                                                             const device_profile& device) {
  small_vector<std::uint32_t, 4> found;
  const std::uint32_t least = device.unit.k * s.slices;
  const auto add = [&](std::uint32_t tile_k) {
    s.tile_k = tile_k;
    const bool is_taken = fits(s, device) && std::ranges::find(found, tile_k) == found.end();
    if (is_taken) found.push_back(tile_k);
    return is_taken;
  };
  int taken = 0;
  for (std::int64_t steps = ceil_div<std::int64_t>(k, deepest_step); s.slices > 1 && taken < 2; ++steps) {
    const auto tile_k = static_cast<std::uint32_t>(ceil_div<std::int64_t>(ceil_div(k, steps), least) * least);
    taken += add(tile_k);
    if (tile_k == least) break;
  }
  taken = 0;
  for (std::uint32_t tile_k = 128; tile_k >= least && taken < 2; tile_k /= 2) {
    if (tile_k % least == 0 && (tile_k < 2 * k || tile_k == least)) taken += add(tile_k);
  }
  return found;
}

}  // namespace detail

/// Whether so many workgroups can share k: each has whole steps of it, as many as are on their way at once or more. Of
/// windows that share elements k are channels; where their places are terms there are no parts.
[[nodiscard]] constexpr bool shares_terms(const product_schedule& s, std::int64_t k, const device_profile& device) {
  return s.parts == 1 ||
         (device.device_scope && s.parts > 0 && s.tile_k > 0 && fits(s, device) &&
          k % (std::int64_t{s.parts} * s.tile_k) == 0 && k / s.parts >= std::int64_t{s.depth} * s.tile_k);
}

/// Parts that a sum has at least: one total takes as many terms at a time as a unit, and of longer ones rounds too
/// often.
[[nodiscard]] constexpr std::int64_t least_parts(product_arithmetic arithmetic, std::int64_t k,
                                                 const device_profile& device) {
  const std::int64_t most = arithmetic == product_arithmetic::split ? 1024 : 4096;
  return ceil_div(ceil_div<std::int64_t>(k, device.unit.k), most);
}

/// What there is to choose from: of each shape some depths of a step, one or several of them on their way.
[[nodiscard]] inline std::vector<product_schedule> product_schedules(product_arithmetic arithmetic, std::int64_t k,
                                                                     const device_profile& device) {
  std::vector<product_schedule> found;
  if (least_parts(arithmetic, k, device) > 1) return found;
  for (const detail::tile_shape& t : detail::tile_shapes) {
    if (t.subgroup_m % device.unit.m != 0 || t.subgroup_n % device.unit.n != 0) continue;
    if (t.only && *t.only != arithmetic) continue;
    if (arithmetic == product_arithmetic::split && t.subgroup_m * t.subgroup_n > largest_split) continue;
    for (const std::uint32_t slices : t.slices) {
      product_schedule s{arithmetic, t.tile_m, t.tile_n, 0, t.subgroup_m, t.subgroup_n, slices};
      for (const std::uint32_t tile_k : detail::steps_of(s, k, device)) {
        s.tile_k = tile_k;
        const auto steps = static_cast<std::uint32_t>(ceil_div<std::int64_t>(k, tile_k));
        const std::uint32_t deepest = steps > detail::most_steps ? 1 : std::min(steps, 5u);
        for (s.depth = 1; s.depth <= deepest; ++s.depth) {
          const bool is_taken = s.depth <= 3 || s.depth == steps;
          if (is_taken && detail::has_registers(s, {}, device) && detail::ends_in_time(s, k, device))
            found.push_back(s);
        }
      }
    }
  }
  return found;
}

namespace detail {

// Whose columns are places of windows.
inline constexpr tile_shape window_shapes[] = {{32, 32, 16, 16, {2}},
                                               {32, 64, 16, 32, {2}},
                                               {32, 64, 32, 32, {2}},
                                               {64, 64, 32, 32, {1, 2}},
                                               {64, 128, 32, 32, {1}},
                                               {64, 128, 32, 64, {1}, product_arithmetic::rounded},
                                               {128, 64, 32, 32, {1}},
                                               {128, 128, 32, 64, {1}, product_arithmetic::rounded},
                                               {128, 128, 64, 32, {1}, product_arithmetic::rounded}};

// Of so many rows and channels of a gradient of windows' filters, whose taps subgroups have, one each.
struct tap_shape {
  std::uint32_t tile_m, channels, subgroup_m;
};
inline constexpr tap_shape tap_shapes[] = {{32, 32, 32}, {64, 32, 32}, {64, 32, 64}, {64, 64, 32}, {128, 32, 64}};

// Those of windows whose places are terms.
[[nodiscard]] inline std::vector<product_schedule> tap_schedules(product_arithmetic arithmetic,
                                                                 const product_extents& p,
                                                                 const device_profile& device) {
  std::vector<product_schedule> found;
  const product_windows& windows = p.windows;
  const auto taps = static_cast<std::uint32_t>(windows.taps);
  for (const tap_shape& t : tap_shapes) {
    if (t.subgroup_m % device.unit.m != 0 || t.channels % device.unit.n != 0 || p.n % (taps * t.channels) != 0)
      continue;
    if (arithmetic == product_arithmetic::split && t.subgroup_m * t.channels > largest_split) continue;
    product_schedule s{arithmetic, t.tile_m, taps * t.channels, 0, t.subgroup_m, t.channels};
    s.taps = taps, s.reach = static_cast<std::uint32_t>(windows.reach), s.places = place_axes::terms;
    const bool has_lanes = 4 * s.subgroups() * device.subgroup_size >= std::bit_ceil(std::max(s.tile_m, s.tile_n));
    for (s.tile_k = 128; has_lanes && s.tile_k >= 16; s.tile_k /= 2) {
      const std::int64_t terms = windows.images * ceil_div<std::int64_t>(windows.length(), s.tile_k) * s.tile_k;
      if (s.tile_k % device.unit.k == 0 && fits(s, device) && has_registers(s, windows, device) &&
          ends_in_time(s, std::max(p.k, terms), device))
        found.push_back(s);
    }
  }
  return found;
}

}  // namespace detail

/// Further ones of windows that share what they read.
[[nodiscard]] inline std::vector<product_schedule> window_schedules(product_arithmetic arithmetic,
                                                                    const product_extents& p,
                                                                    const device_profile& device) {
  std::vector<product_schedule> found;
  const product_windows& windows = p.windows;
  if (windows.is_empty() || p.paired || arithmetic == product_arithmetic::half) return found;
  if (windows.places == place_axes::terms) return detail::tap_schedules(arithmetic, p, device);
  if (p.k % windows.taps != 0) return found;
  const std::int64_t channels = p.k / windows.taps;
  for (const detail::tile_shape& t : detail::window_shapes) {
    if (t.subgroup_m % device.unit.m != 0 || t.subgroup_n % device.unit.n != 0) continue;
    if (t.only && *t.only != arithmetic) continue;
    for (const std::uint32_t slices : t.slices) {
      product_schedule s{arithmetic, t.tile_m, t.tile_n, 0, t.subgroup_m, t.subgroup_n, slices};
      s.reach = static_cast<std::uint32_t>(windows.reach), s.places = place_axes::columns;
      for (s.tile_k = 64; s.tile_k >= device.unit.k * slices; s.tile_k /= 2) {
        if (channels % s.tile_k != 0 || s.tile_k % (device.unit.k * slices) != 0) continue;
        for (const std::int64_t taps : {windows.last_taps, windows.taps}) {
          s.taps = static_cast<std::uint32_t>(taps);
          if (fits(s, device) && detail::has_registers(s, windows, device) && detail::ends_in_time(s, p.k, device))
            found.push_back(s);
          // Of a left operand that is read number by number all at once were slower each time.
          if (windows.taps == windows.last_taps || p.single_left) break;
        }
      }
    }
  }
  return found;
}

/// What shares_terms() asks for.
[[nodiscard]] constexpr bool shares_terms(const product_schedule& s, const product_extents& p,
                                          const device_profile& device) {
  if (s.places == place_axes::none) return shares_terms(s, p.k, device);
  if (s.places != p.windows.places) return false;
  if (s.places == place_axes::terms) return s.parts == 1;
  return p.k % p.windows.taps == 0 && shares_terms(s, p.k / p.windows.taps, device);
}

/// All there is for a product, of sums that are too long for one total in as many parts as they have at least.
[[nodiscard]] inline std::vector<product_schedule> product_schedules(product_arithmetic arithmetic,
                                                                     const product_extents& p,
                                                                     const device_profile& device) {
  const std::int64_t least = least_parts(arithmetic, p.k, device);
  std::vector<product_schedule> found = product_schedules(arithmetic, p.k / least, device);
  const std::vector<product_schedule> of_windows = window_schedules(arithmetic, p, device);
  found.insert(found.end(), of_windows.begin(), of_windows.end());
  for (product_schedule& each : found) each.parts = static_cast<std::uint32_t>(least);
  std::erase_if(found, [&](const product_schedule& each) { return !shares_terms(each, p, device); });
  return found;
}

[[nodiscard]] constexpr const unit_costs& costs_of(product_arithmetic arithmetic, const device_profile& device) {
  if (arithmetic == product_arithmetic::split) return device.split;
  return arithmetic == product_arithmetic::half ? device.half : device.rounded;
}

namespace detail {

// Where windows' places are terms, how much longer than others of a product staging, the work of subgroups of 32 rows
// and of more, and waiting take: fitted to 386 times of 11 gradients of filters on an H200, of each of which the best
// is within 1.01 times of what they choose on average (29 November 2026; docs/performance.md).
struct place_costs {
  double stage, narrow, wide, wait;
};
inline constexpr place_costs rounded_places{2.5, 1.1, 1.0, 2.0}, split_places{2.0, 1.3, 1.6, 0.5};
inline constexpr double places_once = 3e-6;  // what is expected of others too much, where they are short

}  // namespace detail

/// Rounds of workgroups that share multiprocessors.
[[nodiscard]] inline kernel_time unit_time(const product_schedule& s, const product_extents& p,
                                           const device_profile& device) {
  const bool split = s.arithmetic == product_arithmetic::split;
  const unit_costs& costs = costs_of(s.arithmetic, device);
  const detail::place_costs& of_places = split ? detail::split_places : detail::rounded_places;
  const matrix_shape& unit = device.unit;
  const std::uint32_t threads = s.subgroups() * device.subgroup_size;
  const double registers = std::clamp(costs.registers + detail::held(s, p.windows, threads), 32.0, 255.0);
  // What a multiprocessor of the hardware measured has room for.
  const double beside =
      std::max(1.0, std::floor(std::min({2048.0 / threads, 232448.0 / (shared_bytes_of(s, unit) + 1024),
                                         65536 / (threads * registers)})));
  const std::int64_t tiles = s.parts * tiles_of(s, p);
  const auto each = static_cast<double>(ceil_div<std::int64_t>(tiles, device.compute_units));
  const double together = std::min(each, beside);
  const double rounds = each > 3 * together ? each / together : std::ceil(each / together);

  const std::int64_t k = p.k / s.parts;
  auto terms = static_cast<double>(ceil_div<std::int64_t>(k, unit.k) * unit.k);
  // Of windows that share elements each step has so many taps of tile_k channels.
  const bool are_columns = s.places == place_axes::columns, are_terms = s.places == place_axes::terms;
  const double taps = are_columns ? s.taps : 1, all_taps = are_columns ? static_cast<double>(p.windows.taps) : 1;
  auto steps = static_cast<double>(ceil_div<std::int64_t>(k, s.tile_k)) / taps;
  // Groups of four that invocations stage, each as many as any.
  const auto groups_of = [&](std::uint32_t elements) { return static_cast<double>(ceil_div(elements / 4, threads)); };
  const auto staged = [&](std::uint32_t rows) { return groups_of(rows * s.tile_k); };
  const double left = staged(s.tile_m) * taps;
  double right = staged(s.tile_n + s.reach) * taps / all_taps;  // once for all taps
  double groups = left + (are_columns ? staged(s.tile_n + s.reach) : right);
  // Single loads of neighbours that are few reach many lines of memory for little (fitted to 440 times of windows of
  // images on an H200, 29 November 2026; docs/performance.md).
  const auto longer = [&](bool is_single, std::uint32_t side) {
    return is_single ? 1.5 + costs.single * std::pow(32.0 / side, 1.5) : 1;
  };
  double rows =
      (left * (are_columns ? 1.5 : longer(p.single_left, s.tile_m)) + right * longer(p.single_right, s.tile_n)) *
      threads * 4 / s.tile_k;
  if (are_terms) {  // all places of all images, also those between rows, and what all taps see of them
    steps = static_cast<double>(p.windows.images * ceil_div<std::int64_t>(p.windows.length(), s.tile_k));
    terms = steps * s.tile_k;
    right = groups_of((s.tile_k + s.reach) * (s.tile_n / s.taps));
    groups = left + right;
    rows = of_places.stage * groups * threads * 4 / s.tile_k;
  }
  const double results = s.tile_m * s.tile_n;
  const double loaded = results / s.subgroup_m + results / s.subgroup_n;
  const double work = terms * (results * costs.multiply + loaded * costs.load) +
                      steps * s.tile_k * rows * costs.stage;  // also of what is behind k
  // Where terms or columns are few, one of these begins and ends while another computes: 1536x576x128 took 7.3 us in
  // 64x64 and 8.4 in 128x64. Of more than have room at once they all do.
  const bool overlaps = split && s.slices == 1 && s.subgroups() == 4 && each <= beside && (p.k <= 256 || p.n <= 64);
  // Windows that share elements, fitted to 1,400 times of 17 convolutions: within 1.1 times the best of each, mostly.
  const double by_tile = split ? (results < 8192 ? 0.82 : 0.95) : s.subgroup_m == unit.m ? 1.15 : 0.95;
  const double by_rows = s.subgroup_m <= 32 ? of_places.narrow : of_places.wide;
  const double fitted = are_terms ? by_rows : are_columns ? by_tile * (p.single_left ? 0.85 : 1) : 1;
  const auto shared = [&](double groups_beside) {
    return (overlaps ? 0.75 : 1) * fitted * work * (1 + costs.few * 16 / (s.subgroups() * groups_beside)) +
           results * s.slices * costs.exchange;
  };
  // A loop's instructions come once, those of one that is written out once a step.
  const double products = all_taps * s.subgroup_m / unit.m * (s.subgroup_n / unit.n) * (s.tile_k / unit.k) / s.slices;
  const double code = (s.depth > 1 ? steps : 1) * (groups * (split ? 34 : 20) + products * (split ? 10 : 4));
  // Split pairs in small parts take longer than products as large, in large ones less: 128x3072x576 19.5 us in 64x32
  // and 13.8 in 64x64, and 128x576x576 8.3 in subgroups with both sums and 12.7 in those with one.
  const double pair = !p.paired || !split ? 1 : !has_both_sums(s, unit) ? 1.6 : s.subgroup_m == unit.m ? 1.1 : 0.75;
  // Those that share results meet, and the last reads the sums of all.
  const double meeting = s.parts == 1 ? 0 : 1.2e-6 + s.parts * results * 4 / 28e9;
  const double once = are_terms ? detail::places_once : costs.once + code * costs.code;
  const double wait = std::ceil(steps / s.depth) * costs.wait * (are_terms ? of_places.wait : 1);
  return {meeting + pair * (once + rounds * (wait + shared(together) * together)),
          static_cast<double>(tiles) / device.compute_units * shared(beside),
          static_cast<double>(tiles) / (device.compute_units * beside)};
}

/// Operations per second at most: 2 a term of a result, of a product so large that nothing else counts. The shares are
/// those of an H100 (bench/matmul at 4096), whose `matrix_flops` are 275e12: 329e12 of f16, 93e12 split.
[[nodiscard]] constexpr double product_flops(product_arithmetic arithmetic, const device_profile& device) {
  if (arithmetic == product_arithmetic::fma) return device.matmul_flops;
  const bool is_half = arithmetic == product_arithmetic::half;
  return device.matrix_flops * (arithmetic == product_arithmetic::split ? 0.34 : is_half ? 1.2 : 1);
}

/// A schedule with its seconds alone, beside launch and bytes.
struct product_choice {
  product_schedule schedule;
  double seconds = 0;
};

/// Whether f32 multiply-add reads the larger operand once, for all of few rows, instead of both in tiles.
[[nodiscard]] constexpr bool takes_vectors(const product_extents& p, const device_profile& device) {
  return device.parallel && !device.prefers_texel_buffers && has_few_rows(p);
}

/// Of f32 multiply-add, beside bytes.
[[nodiscard]] constexpr kernel_time multiply_add_time(const product_extents& p, const device_profile& device) {
  const double terms = static_cast<double>(p.batch * p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  if (takes_vectors(p, device)) {
    const double columns = static_cast<double>(p.batch) * static_cast<double>(std::max(p.m, p.n));
    const double occupancy = columns * std::min(static_cast<double>(p.k), 1024.0) / device.full_occupancy;
    // Its bytes count once more only where too few are on their way.
    const double late = 4 * columns * static_cast<double>(p.k) / (device.bandwidth * std::max(occupancy, 1.0 / 64));
    // Rows of a region read one row as quickly, and take in more of what is around.
    const double once = std::min(p.m, p.n) == 1 ? device.product_once : device.vectors_once;
    // A workgroup's columns are those of one of a batch, of which narrow ones have too few.
    const double share = vector_share * std::min(1.0, static_cast<double>(std::max(p.m, p.n)) / 32);
    const double busy = 2 * terms / (device.matmul_flops * share);
    return {std::max(busy, occupancy < 1 ? late : 0) + once, busy};
  }
  const double single = device.parallel && p.has_single() ? 1.5 : 1;  // by instructions, not measured
  const double seconds = single * 2 * terms / device.matmul_flops;
  if (!device.parallel) {  // one after the other, in tiles of 16: what a thinner product leaves of them is wasted
    const double share = std::min(1.0, static_cast<double>(p.m) / 16) * std::min(1.0, static_cast<double>(p.n) / 16);
    return {seconds / share + device.product_once, seconds / share};
  }
  const product_tiles tiles = tiles_of_product(p, device.compute_units);
  // Of several, one computes while another waits.
  const double filled =
      tiles.count <= device.compute_units ? static_cast<double>(tiles.count) / device.compute_units : 0;
  return {seconds / tiles.share * (1 + tiles.crowd * filled) + device.product_once, seconds / tiles.full_share};
}

/// Whether prepared right operands make it quicker: 1500x1536x384 in 128x256x32 by 64x64 took 33.4 us for 31.0 on an
/// H200, though it reads less.
[[nodiscard]] constexpr bool can_be_prepared(const product_schedule& s) {
  return s.arithmetic == product_arithmetic::rounded && s.tile_m * s.tile_n <= 128 * 128;
}

/// What a product computes as it reads its first operand.
struct product_start {
  double operations = 0;  // of an element
  bool statistics = false;
  [[nodiscard]] constexpr bool is_empty() const { return operations == 0 && !statistics; }
  friend auto operator<=>(const product_start&, const product_start&) = default;
};
/// What that adds, once for each tile of columns. A workgroup computes all of its rows while its units wait, and the
/// compiler of a driver hides half of that at best: measured on an H100 were 38 to 70 ps an element of a normalisation,
/// 240 of a gated unit (33 and 158 by this, which chooses best).
[[nodiscard]] constexpr kernel_time start_time(const product_start& start, const product_schedule& s,
                                               const product_extents& p, const device_profile& device) {
  const std::int64_t tiles = p.batch * ceil_div<std::int64_t>(p.m, s.tile_m) * ceil_div<std::int64_t>(p.n, s.tile_n);
  const double tile = 1.5 * start.operations * static_cast<double>(s.tile_m) * static_cast<double>(p.k) /
                      (device.scalar_flops / device.compute_units);
  return {static_cast<double>(ceil_div(tiles, std::int64_t{device.compute_units})) * tile,
          static_cast<double>(tiles) * tile / device.compute_units};
}

/// The quickest of an arithmetic of matrix units if it is quicker than `otherwise`.
[[nodiscard]] inline product_choice best_on_units(const product_extents& p, product_arithmetic arithmetic,
                                                  const device_profile& device, product_choice otherwise,
                                                  const product_start& start = {}) {
  constexpr std::uint32_t shares[] = {1, 2, 3, 4, 6, 8};
  constexpr double error = 1.15;  // of the model, which was fitted to whole sums
  // Windows of 1152 terms in four parts of 128x96x32: 29.2 us for 50.1 whole in 32x32x64.
  const std::int64_t least_terms = device.split_terms / (p.has_single() ? 2 : 1);
  double least = otherwise.seconds, busy = std::numeric_limits<double>::infinity();
  for (product_schedule s : product_schedules(arithmetic, p, device)) {
    if (s.places != place_axes::none && !start.is_empty()) continue;
    if (s.parts > 1 && (p.paired || start.statistics)) continue;
    if ((p.paired || start.statistics) && !fits_beside(s, start.statistics, p.paired, device)) continue;
    const std::int64_t tiles = tiles_of(s, p);
    const std::uint32_t at_least = s.parts;
    for (const std::uint32_t parts : shares) {
      if (parts < at_least) continue;
      s.parts = parts;
      // Pairs took as long in parts as both products.
      const bool is_one_of_few = s.depth == 1 && tiles * parts <= 2 * device.compute_units && !start.statistics &&
                                 !p.paired && p.k >= parts * least_terms;
      if (parts > at_least && !is_one_of_few) break;
      if (!shares_terms(s, p, device)) continue;
      const auto scratch = 4 * static_cast<std::uint64_t>(scratch_of(s, p).sums);
      if (scratch > device.max_binding_bytes) break;  // more would be more
      const kernel_time time = unit_time(s, p, device);
      const double seconds = time.alone + start_time(start, s, p, device).alone;
      const double counted = parts > 1 ? error * seconds : seconds;
      // Gradients of filters have the device to themselves seldom. Rounded ones of which all were the quickest alone
      // made ResNet-50's forward and backward 2 % slower; split ones 0.6 % quicker (H200, one call).
      if (s.places == place_axes::terms && arithmetic == product_arithmetic::rounded && time.busy > busy) continue;
      if (counted >= least) continue;
      least = counted, otherwise = {s, seconds};
      if (s.places != place_axes::terms) busy = time.busy;
    }
  }
  return otherwise;
}

/// The quickest of an arithmetic; f32 multiply-add where that is no slower, or a device has no matrix units.
[[nodiscard]] inline product_choice best_product(const product_extents& p, product_arithmetic arithmetic,
                                                 const device_profile& device) {
  const product_choice plain{{}, multiply_add_time(p, device).alone};
  if (arithmetic == product_arithmetic::fma || !has_units(device)) return plain;
  return best_on_units(p, arithmetic, device, plain);
}

/// What a precision asks of matrix units.
[[nodiscard]] constexpr product_arithmetic arithmetic_of(precision wanted) {
  return wanted == precision::fast ? product_arithmetic::rounded : product_arithmetic::split;
}
/// Whether what is rounded saves enough time where others' TF32 leaves all in f32, as attention: more than a fifth.
[[nodiscard]] constexpr bool rounds_for(double rounded, double split) { return rounded < 0.78 * split; }
/// The same of one product. Of a batch, as attention has and the parts of a long sum are, `fast` rounds operands only
/// where that saves enough.
[[nodiscard]] inline product_arithmetic arithmetic_of(precision wanted, const product_extents& p,
                                                      const device_profile& device) {
  const product_arithmetic usual = arithmetic_of(wanted);
  if (usual != product_arithmetic::rounded || p.batch == 1 || !has_units(device)) return usual;
  const auto seconds = [&](product_arithmetic arithmetic) {
    return best_product(p, arithmetic, device).seconds + device.launch.alone();
  };
  return rounds_for(seconds(usual), seconds(product_arithmetic::split)) ? usual : product_arithmetic::split;
}

/// The quickest that the precision allows.
[[nodiscard]] inline product_choice best_product(const product_extents& p, precision wanted,
                                                 const device_profile& device) {
  if (device.matrix_units != matrix_units::cooperative) return best_product(p, product_arithmetic::fma, device);
  return best_product(p, arithmetic_of(wanted, p, device), device);
}

/// The quickest of what only matrix units compute of f32 operands. f32 multiply-add stands for none: also where it is
/// the quickest of the product alone, as of single rows.
[[nodiscard]] inline product_choice best_product_on_units(const product_extents& p, const product_start& start,
                                                          precision wanted, const device_profile& device) {
  product_extents alone = p;
  alone.paired = false;
  const product_choice plain = best_product(alone, wanted, device);
  if (!plain.schedule.is_on_units()) return {};
  const product_choice none{{}, std::numeric_limits<double>::infinity()};
  return best_on_units(p, plain.schedule.arithmetic, device, none, start);
}

/// The quickest of f16 operands, which only matrix units multiply: f32 multiply-add stands for none.
[[nodiscard]] inline product_choice best_half_product(const product_extents& p, const device_profile& device) {
  if (device.matrix_units != matrix_units::cooperative || !has_units(device)) return {};
  return best_on_units(p, product_arithmetic::half, device, {{}, std::numeric_limits<double>::infinity()});
}

/// Whether it is one that a product may have: f32 multiply-add, or one of product_schedules().
[[nodiscard]] inline bool is_on_offer(product_schedule s, const product_extents& p, precision wanted,
                                      const device_profile& device) {
  if (!shares_terms(s, p, device)) return false;
  const product_arithmetic arithmetic = arithmetic_of(wanted, p, device);
  const auto least = static_cast<std::uint32_t>(least_parts(arithmetic, p.k, device));
  if (s.is_on_units() && s.parts < least) return false;
  s.parts = s.is_on_units() ? least : 1;
  const auto all = product_schedules(arithmetic, p, device);
  return s == product_schedule{} || std::ranges::find(all, s) != all.end();
}

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
