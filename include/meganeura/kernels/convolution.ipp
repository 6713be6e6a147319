// SPDX-License-Identifier: MIT
// Definitions for kernels/convolution.hpp: the choice between tiles and reads straight from buffers.
#pragma once
#include <meganeura/kernels/convolution.hpp>
#include <meganeura/kernels/convolution_direct.hpp>
#include <meganeura/kernels/convolution_tiled.hpp>

#include <cstdint>
#include <span>

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
  detail::direct_plan plan = detail::choose_direct(p, product, on);
  return make_within_loop_limit([&] { return detail::make_direct(p, node, types, result_extents, result, plan, on); },
                                [&] { return plan.share_wider(on); }, on);
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
