// SPDX-License-Identifier: MIT
// How a product's results are cut into tiles: what its cost is estimated by and its kernel generated from. The kernel
// of convolve chooses among tiles of its own, kernels/convolution_tiled.hpp; its cost is by these.
#pragma once
#include <meganeura/core/device_profile.hpp>
#include <meganeura/core/division.hpp>
#include <meganeura/graph/attribute.hpp>

#include <algorithm>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

namespace meganeura::inline MEGANEURA_ABI::fusion {

/// Whether a workgroup of the device prepares whole rows of that length, four elements an invocation.
[[nodiscard]] constexpr bool can_prepare(std::uint32_t length, const device_profile& device) {
  return std::bit_ceil(length / 4) <= device.max_invocations;
}

/// Squares of `side` x `side` results, a workgroup each. `share` of a device's best rate is what they reach: large
/// tiles reread operands less often, small ones occupy more multiprocessors and leave less of the last round empty.
/// A tile also has to be begun and stored, which takes as long as adding up `overhead` terms.
struct product_tiles {
  std::int64_t side = 16, count = 1;
  double share = 1;
  std::int64_t overhead = 0;
  double full_share = share;  // the same where others fill the last round
  double crowd = 0;           // how much longer one takes where every multiprocessor has one and waits for memory
};

/// The sizes there are and the share that each reaches where it fills the device, in sums without end, as measured on
/// an H200.
inline constexpr product_tiles tile_sizes[] = {{.side = 128, .share = 0.95, .overhead = 120},
                                               {.side = 64, .share = 0.78, .overhead = 110},
                                               {.side = 32, .share = 0.41, .overhead = 32},
                                               {.side = 16, .share = 0.21, .overhead = 16, .crowd = 0.5}};

/// The best of them for `batch` products of [m, n] results, sums of k terms each.
[[nodiscard]] constexpr product_tiles tiles_of_product(std::int64_t batch, std::int64_t m, std::int64_t n,
                                                       std::int64_t k, std::int64_t compute_units) {
  product_tiles best{.share = 0};
  for (product_tiles tiles : tile_sizes) {
    const std::int64_t down = ceil_div(m, tiles.side), across = ceil_div(n, tiles.side);
    tiles.count = batch * down * across;
    const std::int64_t places = ceil_div(tiles.count, compute_units) * compute_units;
    const double filled = static_cast<double>(m * n) / static_cast<double>(down * across * tiles.side * tiles.side);
    const double adding = static_cast<double>(k) / static_cast<double>(k + tiles.overhead);
    tiles.full_share = tiles.share * filled * adding;
    tiles.share = tiles.full_share * static_cast<double>(tiles.count) / static_cast<double>(places);
    if (tiles.share > best.share) best = tiles;
  }
  return best;
}

/// How kernels load four numbers of an operand: one by one, as neighbours that lie across two aligned groups, or as
/// one.
enum class four_reads : std::uint8_t { none, across, aligned };

/// What `read` offers a product over `space` whose axes are in these groups (0 batch, 1 rows, 2 columns, 3 terms), of
/// an operand with these rows: neighbours along the last axis of rows or of terms, with which those before it are
/// merged where they can be.
template <class GroupOf>
[[nodiscard]] constexpr four_reads four_reads_of(const shape& space, const index_map& read, int rows,
                                                 const GroupOf& group_of) {
  auto found = four_reads::none;
  for (const int group : {rows, 3}) {
    int first = space.rank();  // of those that are merged
    std::int64_t together = 1;
    for (int axis = space.rank(); axis-- > 0;) {
      if (group_of(axis) != group || space[axis] == 1) continue;
      if (read.strides[axis] != together) break;
      together *= space[axis], first = axis;
    }
    if (together % 4 != 0) continue;
    bool is_aligned = read.offset % 4 == 0;
    for (int axis = 0; axis < space.rank(); ++axis) {
      const bool is_merged = group_of(axis) == group && axis >= first;
      is_aligned = is_aligned && (is_merged || space[axis] == 1 || read.strides[axis] % 4 == 0);
    }
    found = std::max(found, is_aligned ? four_reads::aligned : four_reads::across);
  }
  return found;
}
/// That of an axis of its space.
[[nodiscard]] constexpr int group_of(const matmul_attribute& product, int axis) {
  const int m = product.batch_axes, n = m + product.m_axes;
  return axis < m ? 0 : axis < n ? 1 : axis < n + product.n_axes ? 2 : 3;
}
[[nodiscard]] constexpr four_reads four_reads_of(const matmul_attribute& product, bool right) {
  return four_reads_of(product.space, right ? product.b : product.a, right ? 2 : 1,
                       [&](int axis) { return group_of(product, axis); });
}

/// Whether the eight invocations of a software device's subgroup, of which each has so many of n columns, all multiply
/// the same rows of the left operand, so that each loads its share of them.
[[nodiscard]] constexpr bool shares_rows(std::int64_t n, std::int64_t columns, const device_profile& device) {
  return device.subgroup_shuffle && device.subgroup_size == 8 && 4 * columns < n;
}

/// One axis of a product, as an operand is read along it.
struct strided_extent {
  std::int64_t extent = 1, stride = 0;
};

/// Windows of images with a stride of 1, as a product's right operand: of its columns and terms the ones are `places`
/// of windows, of which those of an image lie in rows `pitch` elements apart, the others channels' taps. The same tap
/// of neighbouring windows are neighbours, also from one row to the next, if one counts what lies between rows as
/// windows, too, whose results nobody wants. So the windows of a tile share one run of elements of a channel, `reach`
/// more than the tile has places.
struct product_windows {
  std::int64_t images = 1, height = 1, width = 1, pitch = 1;
  std::int64_t taps = 0, last_taps = 0;  // of a window, and along its last axis
  std::int64_t reach = 0;
  place_axes places = place_axes::none;
  [[nodiscard]] constexpr bool is_empty() const { return places == place_axes::none; }
  /// Of an image, from its first place to its last.
  [[nodiscard]] constexpr std::int64_t length() const { return (height - 1) * pitch + width; }
  friend auto operator<=>(const product_windows&, const product_windows&) = default;
};
/// Of the axes of places and of channels' taps, from the outermost, as places were columns; empty where they are no
/// such windows, or reach further than kernels stage.
[[nodiscard]] constexpr product_windows windows_at(std::span<const strided_extent> columns,
                                                   std::span<const strided_extent> terms) {
  constexpr std::int64_t most_reach = 512;
  product_windows found;
  int axes = 0;  // of places
  for (std::size_t i = columns.size(); i-- > 0;) {
    const auto [extent, stride] = columns[i];
    if (extent == 1) continue;
    if (axes == 0 && stride == 1) {
      found.width = found.pitch = extent;
      axes = 1;
    } else if (axes == 1 && stride >= found.width && stride <= 2 * found.width) {
      found.height = extent, found.pitch = stride;
      axes = 2;
    } else {
      if (axes == 0) return {};
      found.images *= extent, axes = 2;
    }
  }
  std::int64_t taps = 1, channels = 1;
  for (std::size_t i = terms.size(); i-- > 0;) {
    const auto [extent, stride] = terms[i];
    if (extent == 1) continue;
    const std::int64_t reach = found.reach + (extent - 1) * stride;
    if (channels == 1 && stride >= 1 && reach <= most_reach && extent < 16) {
      if (taps == 1) found.last_taps = extent;
      taps *= extent, found.reach = reach;
    } else {
      if (channels > 1) return {};
      channels = extent;
    }
  }
  if (axes == 0 || taps == 1 || channels % 16 != 0) return {};
  found.taps = taps, found.places = place_axes::columns;
  return found;
}
/// Of the axes of columns and terms.
[[nodiscard]] constexpr product_windows windows_of(std::span<const strided_extent> columns,
                                                   std::span<const strided_extent> terms) {
  product_windows found = windows_at(columns, terms);
  if (!found.is_empty()) return found;
  found = windows_at(terms, columns);
  if (!found.is_empty()) found.places = place_axes::terms;
  return found;
}

/// `batch` products of [m, n] results, sums of k terms each. Where they are `paired` half of the columns are those of a
/// second right operand, and a tile has as many of either. Numbers of the left and of the right operand may have to be
/// loaded one by one, such as those of windows of an image.
struct product_extents {
  std::int64_t batch = 1, m = 1, n = 1, k = 1;
  bool paired = false;
  bool single_left = false, single_right = false;
  product_windows windows{};  // that the right operand are
  [[nodiscard]] constexpr bool has_single() const { return single_left || single_right; }
  friend auto operator<=>(const product_extents&, const product_extents&) = default;
};

/// Rows that share one reading of the other operand, the matrix.
inline constexpr std::int64_t most_vector_rows = 8;
inline constexpr std::uint32_t vector_reads = 8;  // of 16 bytes, on an invocation's way together
inline constexpr double vector_share = 0.5;       // of a device's best rate, as product_tiles::share

/// How columns and terms of the matrix lie on invocations.
struct vector_tiles {
  std::int64_t columns = 4;  // of an invocation
  std::int64_t lanes = 32;   // that share columns, each with a part of the terms
  std::int64_t beside = 4;   // such groups of lanes in a workgroup
};

[[nodiscard]] constexpr bool has_few_rows(const product_extents& p) { return std::min(p.m, p.n) <= most_vector_rows; }

/// `along_k`: neighbouring terms of the matrix are neighbours in memory, else neighbouring columns are. So many lanes
/// that the device is filled, for several rows four times over, unless some would have too little to read. Within 25 %
/// of the best of some 80 for sixteen sizes on an H100, most within 10 %.
[[nodiscard]] constexpr vector_tiles tiles_of_vectors(const product_extents& p, bool along_k,
                                                      const device_profile& device) {
  const std::int64_t rows = std::min(p.m, p.n), columns = p.batch * std::max(p.m, p.n), units = device.compute_units;
  const std::int64_t full = 384 * units, fours = ceil_div<std::int64_t>(p.k, 4), reads = along_k ? fours : p.k;
  const std::int64_t most = rows > 2 ? 256 : 512;  // with more, registers run out
  vector_tiles found;
  if (along_k) {
    if (rows > 2) found.columns = 2;
    // An invocation of few columns reads the rows too often, but there are more of them.
    const auto most_invocations = [&] {
      return columns / found.columns * std::min(most, ceil_div(fours, found.columns));
    };
    while (found.columns > 1 && most_invocations() < full) found.columns /= 2;
    found.beside = 1;
  } else {
    found.beside = 8;  // 128 bytes, and 32 at least
    while (found.beside > 2 && columns / (4 * found.beside) < units) found.beside /= 2;
  }
  const auto groups = ceil_div(columns, found.columns);
  const auto bounded = [&](std::int64_t lanes) {
    return std::min(lanes, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(fours))));
  };
  found.lanes = bounded(std::max<std::int64_t>(device.subgroup_size / found.beside, 1));
  const std::int64_t enough = along_k && rows > 2 ? 4 * full : full, least = along_k ? 2 : 4;
  while (found.lanes * found.beside < most && groups * found.lanes < enough && reads >= least * found.lanes)
    found.lanes *= 2;
  const auto beside_in = [&](std::int64_t invocations) { return found.lanes * found.beside < invocations; };
  while (beside_in(device.subgroup_size) || (along_k && beside_in(128) && groups >= 2 * found.beside * units))
    found.beside *= 2;
  return found;
}

/// Of the right operand of a product over `space`, see four_reads_of.
template <class GroupOf>
[[nodiscard]] constexpr product_windows windows_of(const shape& space, const index_map& read, const GroupOf& group_of) {
  strided_extent axes[2][max_rank];
  std::size_t counts[2]{};
  for (int axis = 0; axis < space.rank(); ++axis) {
    const int group = group_of(axis);
    if (group >= 2) axes[group - 2][counts[group - 2]++] = {space[axis], read.strides[axis]};
  }
  return windows_of(std::span(axes[0], counts[0]), std::span(axes[1], counts[1]));
}

[[nodiscard]] constexpr product_extents extents_of(const matmul_attribute& product) {
  int axis = 0;
  const auto extent = [&](int axes) {
    std::int64_t elements = 1;
    for (const int end = axis + axes; axis < end; ++axis) elements *= product.space[axis];
    return elements;
  };
  product_extents found;
  found.batch = extent(product.batch_axes);
  found.m = extent(product.m_axes);
  found.n = extent(product.n_axes) * static_cast<std::int64_t>(product.sums());
  found.k = extent(product.k_axes);
  found.paired = product.paired;
  found.single_left = four_reads_of(product, false) != four_reads::aligned;
  found.single_right = !product.prepared && four_reads_of(product, true) != four_reads::aligned;
  if (!product.paired && !product.prepared && product.start.is_empty())
    found.windows = windows_of(product.space, product.b, [&](int of) { return group_of(product, of); });
  return found;
}

/// Workgroups' tiles on matrix units.
[[nodiscard]] constexpr std::int64_t tiles_of(const product_schedule& s, const product_extents& p) {
  if (s.places == place_axes::columns)
    return p.batch * p.windows.images * ceil_div<std::int64_t>(p.m, s.tile_m) *
           ceil_div<std::int64_t>(p.windows.length(), s.tile_n);
  return p.batch * ceil_div<std::int64_t>(p.m, s.tile_m) * ceil_div<std::int64_t>(p.n, s.tile_n);
}

/// Memory that a product's kernel needs while it runs, beside operands and results, where several workgroups share
/// results: their sums, and how many of them have arrived, of each tile. Both are empty where none do.
struct product_scratch {
  std::int64_t sums = 0, arrivals = 0;  // elements of f32 and of u32
};
[[nodiscard]] constexpr product_scratch scratch_of(const product_schedule& s, const product_extents& p) {
  if (s.parts == 1) return {};
  const std::int64_t tiles = tiles_of(s, p);
  return {s.parts * tiles * s.tile_m * s.tile_n, tiles};
}

[[nodiscard]] constexpr product_tiles tiles_of_product(const product_extents& p, std::int64_t compute_units) {
  return tiles_of_product(p.batch, p.m, p.n, p.k, compute_units);
}

/// A convolution as such: a product each group, of the channels that one side of it has.
[[nodiscard]] constexpr product_extents product_of(const convolution_attribute& c, const shape& x, const shape& w,
                                                   const shape& y) {
  using meganeura::detail::images_as_groups;
  if (c.per_image) return product_of(images_as_groups(c, x[0]), images_as_groups(x), w, images_as_groups(y));
  std::int64_t taps = 1, in_size = x[0], out_size = y[0];  // both with the images
  for (int i = 2; i < c.spatial + 2; ++i) taps *= w[i], in_size *= x[i], out_size *= y[i];
  const std::int64_t in = w[1], out = w[0] / c.groups;
  switch (c.form) {
    case convolution_attribute::output:
      return {c.groups, out, out_size, taps * in};
    case convolution_attribute::input:
      return {c.groups, in, in_size, taps * out};
    case convolution_attribute::filter:
      return {c.groups, out, in * taps, out_size};
  }
  return {};
}

/// Filters of many groups, of one channel of the result each, whose taps an invocation has all.
[[nodiscard]] constexpr bool has_all_taps(const convolution_attribute& c, const product_extents& p) {
  constexpr std::int64_t most_taps = 49, many = 32;
  return c.form == convolution_attribute::filter && p.m == 1 && p.n > 1 && p.n <= most_taps && p.batch >= many;
}

/// Whether it passes through tiles: those of few channels do not, nor such filters.
[[nodiscard]] constexpr bool is_tiled(const convolution_attribute& c, const product_extents& p) {
  return p.m >= 8 || (c.form == convolution_attribute::filter && !has_all_taps(c, p));
}

/// Of a device's best rate, what the product reaches there.
[[nodiscard]] constexpr double product_share(const product_extents& p, std::int64_t compute_units) {
  return tiles_of_product(p, compute_units).share;
}

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
