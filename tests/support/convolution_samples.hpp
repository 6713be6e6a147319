// SPDX-License-Identifier: MIT
// Convolutions of any geometry, and graphs of one of them.
#pragma once
#include <meganeura/graph/graph.hpp>

#include <support/random_graph.hpp>

#include <algorithm>
#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI::support {

struct convolution_sizes {
  shape x, w, y;
};
// Any that has positions: strides with windows that overlap, touch (patches) or leave places out, and mixtures of
// these.
inline convolution_sizes draw_convolution(dice& dice, convolution_attribute& c, int spatial) {
  c.spatial = spatial;
  c.groups = dice.chance(0.3) ? 2 : 1;
  const std::int64_t in = dice.between(1, 4);
  convolution_sizes found{{dice.between(1, 3), c.groups * in}, {c.groups * dice.between(1, 4), in}, {}};
  found.y = {found.x[0], found.w[0]};
  const bool is_strided = dice.chance(0.6);
  for (int i = 0; i < spatial; ++i) {
    const std::int64_t longest = spatial == 3 ? 4 : 7;
    std::int64_t taps = dice.between(1, 3);
    c.stride[i] = is_strided && dice.chance(0.8) ? dice.between(2, 4) : 1;
    c.dilation[i] = dice.chance(0.7) ? 1 : dice.between(2, 3);
    if (c.stride[i] > 1 && dice.chance(0.3)) taps = dice.chance(0.5) ? c.stride[i] : dice.between(3, 5);
    c.pad_low[i] = dice.between(0, 3), c.pad_high[i] = dice.between(0, 2);
    const std::int64_t reach = (taps - 1) * c.dilation[i] + 1, least = reach - c.pad_low[i] - c.pad_high[i];
    const std::int64_t extent = std::max(dice.between(1, c.stride[i] > 1 ? longest + 3 : longest), least);
    found.x.push_back(extent), found.w.push_back(taps);
    found.y.push_back((extent + c.pad_low[i] + c.pad_high[i] - reach) / c.stride[i] + 1);
  }
  return found;
}

inline graph convolution_graph(const convolution_attribute& c, const convolution_sizes& all) {
  graph g;
  const auto leaf = [&](const char* name, const shape& extents) { return g.input(name, dtype::f32, extents); };
  if (c.form == convolution_attribute::output)
    g.add_output("result", g.convolution(leaf("x", all.x), leaf("w", all.w), c, all.y));
  if (c.form == convolution_attribute::input)
    g.add_output("result", g.convolution(leaf("y", all.y), leaf("w", all.w), c, all.x));
  if (c.form == convolution_attribute::filter)
    g.add_output("result", g.convolution(leaf("x", all.x), leaf("y", all.y), c, all.w));
  return g;
}

}  // namespace meganeura::inline MEGANEURA_ABI::support
