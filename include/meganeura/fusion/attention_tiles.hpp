// SPDX-License-Identifier: MIT
// How attention is cut up, on matrix units and without, for its cost and for its kernels alike.
#pragma once
#include <meganeura/core/device_profile.hpp>
#include <meganeura/core/division.hpp>
#include <meganeura/fusion/visible_keys.hpp>
#include <meganeura/graph/attribute.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::fusion {

/// What there are most of: wider heads leave no room in workgroup memory, and longer rows are added up block by block
/// with ever more rounding.
inline constexpr std::int64_t widest_head = 256, most_keys = 16384;
/// Of the rate of products, what attention reaches on a device that it fills (a fifth to a half of it on an H100), and
/// on a software device, whose workgroup memory is memory (a tenth on lavapipe).
inline constexpr double attention_share = 0.33, attention_share_of_processors = 0.08;

/// A workgroup of `invocations` has `rows` queries of one head and goes through their keys, `keys` at a time. For
/// gradients of keys and values these are rows of keys, and blocks of queries.
struct attention_tiles {
  static constexpr std::uint32_t invocations = 128;
  std::uint32_t rows = 0, keys = 0;       // 0: there is none that fits
  std::uint32_t width = 0, channels = 0;  // in groups of four
  std::int64_t count = 0;                 // of workgroups

  /// Of a row of that many groups of four in workgroup memory: odd, so that neighbouring rows lie on other banks.
  [[nodiscard]] static constexpr std::uint32_t pitch(std::uint32_t fours) { return fours | 1u; }
  [[nodiscard]] constexpr std::uint32_t shared_bytes() const {
    return 16 * ((rows + keys) * pitch(width) + keys * pitch(channels)) + 4 * (2 * rows * keys + rows);
  }
  /// Of kernels of gradients, which have rows of both widths, of queries and of keys.
  [[nodiscard]] constexpr std::uint32_t shared_bytes_of_gradients(attention_form form) const {
    const bool by_keys = form == attention_form::key_gradients;
    return 16 * (rows + keys) * (pitch(width) + pitch(channels)) + 4 * rows * keys * (by_keys ? 2 : 1) +
           12 * (by_keys ? keys : rows);
  }
};

namespace detail {

// Of an invocation of the multiply-add kernels, at most.
[[nodiscard]] inline std::int64_t loops_of(const attention_tiles& tiles, attention_form form, std::int64_t others) {
  const auto products = [](std::int64_t fours) {
    return fours % 4 == 0 ? fours / 4 : fours % 2 == 0 ? fours / 2 : fours;
  };
  const std::int64_t sums = tiles.keys / 8 + 1, width = products(tiles.width) + 1;
  const std::int64_t block =
      form == attention_form::output
          ? width + sums
          : width + products(tiles.channels) + 1 + sums * (form == attention_form::key_gradients ? 2 : 1);
  return ceil_div<std::int64_t>(others, tiles.keys) * (block + 1);
}

}  // namespace detail

/// What a result is added up over: keys, or for gradients of these queries.
[[nodiscard]] inline std::int64_t longest_sum(const attention_attribute& node) {
  return node.sizes()[node.form == attention_form::key_gradients ? 1 : 3];
}

[[nodiscard]] inline attention_tiles tiles_of_attention(const attention_attribute& node, const device_profile& device) {
  const auto [batch, queries, channels, keys, width] = node.sizes();
  attention_tiles tiles;
  if (std::max(width, channels) > widest_head || longest_sum(node) > most_keys) return tiles;
  tiles.width = static_cast<std::uint32_t>(ceil_div(width, 4));
  tiles.channels = static_cast<std::uint32_t>(ceil_div(channels, 4));
  const bool is_output = node.form == attention_form::output;
  const bool by_keys = node.form == attention_form::key_gradients;
  const std::int64_t own = by_keys ? keys : queries, others = by_keys ? queries : keys;
  for (const std::uint32_t rows : {32u, 16u, 8u}) {
    for (const std::uint32_t block : {32u, 16u}) {
      attention_tiles asked = tiles;
      asked.rows = rows, asked.keys = block;
      asked.count = batch * ceil_div(own, rows);
      const std::uint32_t bytes = is_output ? asked.shared_bytes() : asked.shared_bytes_of_gradients(node.form);
      const bool ends = device.max_loop_iterations == 0 || detail::loops_of(asked, node.form, others) <=
                                                               static_cast<std::int64_t>(device.max_loop_iterations);
      if (bytes > device.max_shared_bytes || !ends) continue;
      tiles = asked;
      if (asked.count >= static_cast<std::int64_t>(device.compute_units) || !device.parallel) return tiles;
      break;
    }
  }
  return tiles;
}

// ---- on matrix units ------------------------------------------------------------------------------------------------

/// What is staged of a row that long: a multiple of what a unit takes.
[[nodiscard]] constexpr std::uint32_t padded(std::uint32_t length, const matrix_shape& unit) {
  return ceil_div(length, unit.k) * unit.k;
}
/// From one row to the next, in groups of four f16; 16 bytes of padding.
[[nodiscard]] constexpr std::uint32_t staged_line(std::uint32_t length, const matrix_shape& unit) {
  return padded(length, unit) / 4 + 2;
}
/// Neighbouring invocations that share a staged row.
[[nodiscard]] constexpr std::uint32_t lanes_of_row(std::uint32_t length, const matrix_shape& unit) {
  return std::bit_ceil(padded(length, unit) / 4);
}
/// From one row of sums to the next where shares of rows meet, in groups of two f32; 16 bytes of padding.
[[nodiscard]] constexpr std::uint32_t exchange_line(std::uint32_t channels, const matrix_shape& unit) {
  return (padded(channels, unit) + 4) / 2;
}
/// Of four f16: a block of keys and values in the place of the queries, whose fragments stay in registers, and in
/// that of both what was added up. Of gradients blocks are such of the other kind of rows, and own rows are two
/// tensors, which are staged in turn where they stay in registers.
[[nodiscard]] constexpr std::uint32_t staged_elements(const attention_schedule& s, attention_form form,
                                                      std::uint32_t width, std::uint32_t channels,
                                                      const device_profile& device) {
  const matrix_shape& unit = device.unit;
  const bool is_output = form == attention_form::output;
  const std::uint32_t rows = s.terms() * s.subgroups / s.parts * unit.m;
  const std::uint32_t lines = staged_line(width, unit) + staged_line(channels, unit);
  const std::uint32_t block = s.terms() * s.keys * lines;
  const std::uint32_t exchange =
      s.subgroups * unit.m * exchange_line(is_output ? channels : std::max(width, channels), unit);
  const bool is_kept = device.matrix_units == matrix_units::cooperative;
  const std::uint32_t wider = staged_line(is_output ? width : std::max(width, channels), unit);
  if (is_kept) return std::max({rows * wider, block, exchange});
  return std::max(rows * (is_output ? staged_line(width, unit) : lines) + block, exchange);
}
/// Bytes of workgroup memory.
[[nodiscard]] inline std::uint32_t shared_bytes_of(const attention_schedule& s, const attention_attribute& node,
                                                   const device_profile& device) {
  const matrix_shape& unit = device.unit;
  const auto width = static_cast<std::uint32_t>(node.sizes()[4]),
             channels = static_cast<std::uint32_t>(node.sizes()[2]);
  const std::uint32_t rows = s.subgroups * unit.m;
  // Factors, and of the output totals and notes, of gradients what is known of queries and one note.
  const std::uint32_t more = node.form == attention_form::output
                                 ? rows / s.parts + s.keys + 2 * rows + padded(channels, unit) + 4 +
                                       (s.prepared ? s.keys : padded(channels, unit))
                                 : 2 * (rows / s.parts + s.keys) + 3 * s.keys + 1;
  // Where units are emulated, results meet there.
  const std::uint32_t meeting =
      device.matrix_units == matrix_units::emulated ? 8 * rows * unit.n + 4 * s.subgroups * device.subgroup_size : 0;
  return 8 * staged_elements(s, node.form, width, channels, device) + 4 * more + meeting;
}

/// Wider heads leave no registers for their fragments, nor do gradients of such as are wider than this both together.
inline constexpr std::int64_t widest_head_on_units = 128, widest_gradient_on_units = 192;

namespace detail {

// Of an invocation where units are emulated, at most: drivers may end it behind so many.
[[nodiscard]] inline bool ends_in_time(const attention_schedule& s, const attention_attribute& node,
                                       const device_profile& device) {
  if (device.matrix_units != matrix_units::emulated || device.max_loop_iterations == 0) return true;
  const auto [batch, queries, channels, keys, width] = node.sizes();
  const matrix_shape& unit = device.unit;
  const std::int64_t results = unit.m * unit.n / device.subgroup_size, products = s.terms() == 2 ? 3 : 1;
  const std::int64_t fragments = s.keys / s.parts / unit.n;
  const auto of = [&](std::int64_t length) {
    return ceil_div<std::int64_t>(length, unit.k) * results * (unit.k * products + 6);
  };
  const bool is_output = node.form == attention_form::output, by_keys = node.form == attention_form::key_gradients;
  const std::int64_t others = by_keys ? queries : keys;
  const std::int64_t block = is_output ? fragments * (of(width) + of(channels) + 12 * results) + of(channels)
                                       : fragments * (2 * of(width) + (by_keys ? 2 : 1) * of(channels) + 40 * results);
  const std::int64_t rows = s.subgroups / s.parts * unit.m;
  const auto one_by_one = [&](std::int64_t length, std::int64_t each) {
    return ceil_div<std::int64_t>(rows * ceil_div<std::int64_t>(length, 4), s.subgroups * device.subgroup_size) *
           others * each;
  };
  const std::int64_t alone =
      is_output ? one_by_one(channels, width + 2)
                : one_by_one(width, width + channels + 3) + (by_keys ? one_by_one(channels, width + channels + 3) : 0);
  return (is_output ? 2 : 1) * (ceil_div<std::int64_t>(others, s.keys) * (block + 8) + 64 * results) + alone <=
         static_cast<std::int64_t>(device.max_loop_iterations);
}

}  // namespace detail

/// Whether the device has such units, whose results lie in rows, and room for it.
[[nodiscard]] inline bool fits(const attention_schedule& s, const attention_attribute& node,
                               const device_profile& device) {
  const auto [batch, queries, channels, keys, width] = node.sizes();
  const matrix_shape& unit = device.unit;
  const bool emulated = device.matrix_units == matrix_units::emulated;
  const bool has_rows = emulated ? unit.n == unit.k && is_usable(unit, device.subgroup_size)
                                 : device.matrix_units == matrix_units::cooperative && device.fragments_by_rows;
  if (node.form != attention_form::output && width + channels > widest_gradient_on_units) return false;
  if (!has_rows || std::max(width, channels) > widest_head_on_units || longest_sum(node) > most_keys) return false;
  if (s.subgroups == 0 || s.parts == 0 || s.subgroups % s.parts != 0) return false;
  if (s.keys == 0 || s.keys % (s.parts * unit.n) != 0) return false;
  const std::uint32_t threads = s.subgroups * device.subgroup_size, rows = s.subgroups / s.parts * unit.m;
  for (const std::int64_t length : {width, channels}) {
    const std::uint32_t each = lanes_of_row(static_cast<std::uint32_t>(length), unit);
    if (threads % each != 0 || (s.prepared && padded(static_cast<std::uint32_t>(length), unit) % 8 != 0)) return false;
    // All arrive where lanes meet in workgroup memory.
    if (emulated && (s.keys * each % threads != 0 || rows * each % threads != 0)) return false;
  }
  return threads <= device.max_invocations && shared_bytes_of(s, node, device) <= device.max_shared_bytes &&
         detail::ends_in_time(s, node, device);
}

/// A schedule with its seconds alone.
struct attention_choice {
  attention_schedule schedule;
  double seconds = std::numeric_limits<double>::infinity();
};

/// What there is to choose from, of those that have prepared rows where the node's has.
[[nodiscard]] inline std::vector<attention_schedule> attention_schedules(product_arithmetic arithmetic,
                                                                         const attention_attribute& node,
                                                                         const device_profile& device) {
  std::vector<attention_schedule> found;
  for (const std::uint32_t subgroups : {8u, 4u, 2u}) {
    for (const std::uint32_t parts : {1u, 2u, 4u, 8u}) {
      for (const std::uint32_t keys : {128u, 64u, 32u, 16u, 8u}) {
        // Software drivers take long to compile more barriers.
        if (device.matrix_units == matrix_units::emulated && keys != parts * device.unit.n) continue;
        const attention_schedule asked{arithmetic, subgroups, parts, keys, node.schedule.prepared};
        if (fits(asked, node, device)) found.push_back(asked);
      }
    }
  }
  return found;
}

/// How much longer than in a product a term of a score takes here, with its share of all else, and staging; of a
/// product's way to its first terms, how much longer that of queries, keys and values is, and of gradients, which read
/// more; and how much longer all of it takes where heads leave few registers for what is on its way. As measured on an
/// H100, where eight subgroups keep a multiprocessor busy; the last of 512x512x16x128, 79.4 and 35.8 us.
struct attention_costs {
  double term, stage, way, way_of_gradients, wide;
};
inline constexpr attention_costs split_attention{44, 3.5, 1.6, 3.6, 1.9}, rounded_attention{21, 5.2, 1.6, 1.6, 1.4};
/// Where rows come prepared: of a product's way to its first terms, how much longer that of workgroups which begin
/// together is, and what gradients, which read more, take besides; and how much of it a block of rows is on its way and
/// waits for barriers, next to whose terms staging is nothing. 189 and 243 kernels on an H100 within 13 and 17 %.
struct prepared_attention_costs {
  double term, way, more_of_gradients, step;
};
inline constexpr prepared_attention_costs split_prepared{41.7, 1.3, 2.3, 0.08},
    rounded_prepared{18.4, 1.35, 1.0, 0.096};
/// Each share of a row's keys weighs anew what it has added up: 1500x1500x6/6x64 took 44.7 us whole and 57.9 in four.
inline constexpr double more_of_shares = 0.1;
inline constexpr double busy_subgroups = 8;

/// Seconds of the schedule it has; `score`: of a score's programs beyond a scale, on the whole device.
[[nodiscard]] inline kernel_time unit_time(const attention_attribute& node, double score,
                                           const device_profile& device) {
  const attention_schedule& s = node.schedule;
  const auto [batch, queries, channels, keys, width] = node.sizes();
  const bool split = s.arithmetic == product_arithmetic::split;
  const unit_costs& costs = split ? device.split : device.rounded;
  const std::int64_t rows = s.subgroups / s.parts * device.unit.m;
  const bool by_keys = node.form == attention_form::key_gradients;
  const auto groups = static_cast<double>(batch * ceil_div(by_keys ? keys : queries, rows));
  const auto blocks = static_cast<double>(ceil_div<std::int64_t>(by_keys ? queries : keys, s.keys));
  const double seen = visible_keys_of(node).share(keys);  // of what all workgroups go through
  const double along = padded(static_cast<std::uint32_t>(width), device.unit),
               across = padded(static_cast<std::uint32_t>(channels), device.unit);
  const double terms = along + across +
                       (node.form == attention_form::query_gradient ? along
                        : by_keys                                   ? along + across
                                                                    : 0);
  const double each = std::ceil(groups / device.compute_units);
  const bool is_output = node.form == attention_form::output;
  const auto pairs_of = [&](double term) {
    return s.keys * static_cast<double>(rows) * (terms * costs.multiply * term + score * device.compute_units);
  };
  if (s.prepared) {
    const auto& [term, way, more_of_gradients, step] = split ? split_prepared : rounded_prepared;
    const double beside = std::max(1.0, busy_subgroups / s.subgroups);  // workgroups of a multiprocessor
    const double pairs = pairs_of(term) * (is_output ? 1 + more_of_shares * std::log2(s.parts) : 1);
    const double wait = step * costs.once;
    const double rounds = std::ceil(each / beside), longest = std::max(1.0, rounds * seen);
    return {rounds * way * costs.once + longest * blocks * (wait + beside * pairs) +
                (is_output ? 0 : more_of_gradients * costs.once),
            seen * groups * blocks * (wait / beside + pairs) / device.compute_units};
  }
  const auto& [term, stage, way, way_of_gradients, wide] = split ? split_attention : rounded_attention;
  const double block = (s.keys * (along + across) * costs.stage * stage + pairs_of(term)) *
                       (along + across > widest_gradient_on_units ? wide : 1);
  const double filled = std::min(1.0, std::min(each, 2.0) * s.subgroups / busy_subgroups);
  return {(is_output ? way : way_of_gradients) * costs.once + std::max(1.0, each * seen) * blocks * block / filled,
          seen * groups * blocks * block / device.compute_units};
}

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
