// SPDX-License-Identifier: MIT
// How a product's results are cut into tiles: what its cost is estimated by and its kernel generated from.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/graph/attribute.hpp>

#include <compare>
#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI::fusion {

/// Squares of `side` x `side` results, a workgroup each. `share` of a device's best rate is what they reach: large
/// tiles reread operands less often, small ones occupy more multiprocessors and leave less of the last round empty.
/// A tile also has to be begun and stored, which takes as long as adding up `overhead` terms.
struct product_tiles {
  std::int64_t side = 16, count = 1;
  double share = 1;
  std::int64_t overhead = 0;
};

/// The sizes there are and the share that each reaches where it fills the device, in sums without end, as measured on
/// an H200.
inline constexpr product_tiles tile_sizes[] = {{.side = 128, .share = 0.95, .overhead = 120},
                                               {.side = 64, .share = 0.78, .overhead = 110},
                                               {.side = 32, .share = 0.41, .overhead = 32},
                                               {.side = 16, .share = 0.21, .overhead = 16}};

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
    tiles.share *= filled * adding * static_cast<double>(tiles.count) / static_cast<double>(places);
    if (tiles.share > best.share) best = tiles;
  }
  return best;
}

/// `batch` products of [m, n] results, sums of k terms each.
struct product_extents {
  std::int64_t batch = 1, m = 1, n = 1, k = 1;
  friend auto operator<=>(const product_extents&, const product_extents&) = default;
};

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
  found.n = extent(product.n_axes);
  found.k = extent(product.k_axes);
  return found;
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

/// Whether it passes through tiles: those of few channels do not, unless they make a filter.
[[nodiscard]] constexpr bool is_tiled(const convolution_attribute& c, const product_extents& p) {
  return p.m >= 8 || c.form == convolution_attribute::filter;
}

/// Of a device's best rate, what the product reaches there.
[[nodiscard]] constexpr double product_share(const product_extents& p, std::int64_t compute_units) {
  return tiles_of_product(p.batch, p.m, p.n, p.k, compute_units).share;
}

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
