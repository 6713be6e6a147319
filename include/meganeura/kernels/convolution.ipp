// SPDX-License-Identifier: MIT
// Definitions for kernels/convolution.hpp: the choice between two ways to run the product.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/kernels/convolution.hpp>
#include <meganeura/kernels/convolution_direct.hpp>
#include <meganeura/kernels/convolution_tiled.hpp>

#include <algorithm>

namespace meganeura::inline MEGANEURA_ABI::kernels {

MEGANEURA_INLINE kernel_dispatch make_convolve(const convolve_attribute& node, std::span<const shape> extents,
                                               std::span<const dtype> types, dtype result, const device_profile& on) {
  convolution_attribute c = node.primitive;
  const shape& result_extents = node.space;
  const bool by_input = c.form == convolution_attribute::input, by_filter = c.form == convolution_attribute::filter;
  shape x = by_input ? result_extents : extents[0];
  const shape& w = by_filter ? result_extents : extents[1];
  shape y = by_filter ? extents[1] : by_input ? extents[0] : result_extents;
  if (c.per_image) {
    using meganeura::detail::images_as_groups;
    c = images_as_groups(c, x[0]), x = images_as_groups(x), y = images_as_groups(y);
  }
  const detail::convolution_product p = detail::make_product(c, x, w, y);
  const fusion::product_extents product = fusion::product_of(c, x, w, y);
  if (!on.prefers_texel_buffers && fusion::is_tiled(c, product)) {
    detail::tile_plan plan = detail::choose_tiles(p, on);
    return make_within_loop_limit([&] { return detail::make_tiled(p, node, types, result_extents, result, plan, on); },
                                  [&] { return plan.share_wider(on); }, on);
  }
  detail::direct_plan plan;
  plan.rows = static_cast<std::uint32_t>(std::min<std::int64_t>(p.m, 4));
  plan.all_taps = fusion::has_all_taps(c, product);
  if (plan.all_taps) plan.fours = static_cast<std::uint32_t>(ceil_div<std::int64_t>(p.n, 4));
  const std::int64_t tiles = ceil_div<std::int64_t>(p.m, plan.rows) * ceil_div(p.n, 4 * plan.fours) * p.groups;
  plan.size = std::min(plan.size, on.max_invocations);
  if (by_filter && tiles < 64) plan.lanes = plan.size = std::min(on.subgroup_size, plan.size);
  // Few channels of a small image: lanes that share a tile keep the device busy.
  constexpr std::int64_t least_terms = 16;
  const std::uint32_t most = plan.all_taps ? std::min(128u, on.max_invocations) : std::min(on.subgroup_size, plan.size);
  const auto is_idle = [&] { return on.parallel && static_cast<double>(tiles * plan.lanes) < on.full_occupancy; };
  while (is_idle() && 2 * plan.lanes <= most && 2 * plan.lanes * least_terms <= p.k) plan.lanes *= 2;
  plan.size = std::max(plan.size, plan.lanes);
  plan.down = detail::places_down(p, plan, on);
  return make_within_loop_limit([&] { return detail::make_direct(p, node, types, result_extents, result, plan, on); },
                                [&] { return plan.share_wider(on); }, on);
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
