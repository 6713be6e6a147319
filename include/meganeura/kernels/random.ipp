// SPDX-License-Identifier: MIT
// Definitions for kernels/random.hpp.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/embedded/shaders.hpp>
#include <meganeura/kernels/philox.hpp>
#include <meganeura/kernels/random.hpp>
#include <meganeura/kernels/tensor_access.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <string_view>

namespace meganeura::inline MEGANEURA_ABI::kernels {

// An invocation handles four elements.
MEGANEURA_INLINE kernel_dispatch make_random(const random_attribute& stream, std::int64_t count,
                                             const device_profile& on) {
  const std::uint32_t size = std::min(256u, on.max_invocations);
  kernel_dispatch made;
  made.module.loop_iterations = 1000;  // far fewer: rounds of the generator
  made.module.name = fmt::format("random {}", count);
  made.module.words.assign(std::begin(embedded::random), std::end(embedded::random));
  made.module.bindings = {spirv::binding_kind::storage_buffer, spirv::binding_kind::uniform_buffer};
  made.module.local_size = {size, 1, 1};
  made.module.specialization = {size, static_cast<std::uint32_t>(count), stream_hash(stream.stream),
                                static_cast<std::uint32_t>(stream.distribution)};
  made.groups = make_flat_grid((count + 3) / 4, size, on).groups;
  if (made.groups[2] != 1)
    fail(error_category::unsupported, "random of {} elements: more than the device's grid holds", count);
  return made;
}

MEGANEURA_INLINE void check_streams(const graph& g) {
  std::map<std::uint32_t, std::string_view> names;
  for (node_id id{0}; id < g.size(); ++id) {
    if (g[id].kind != op::random) continue;
    const std::string& name = g.get<random_attribute>(id).stream;
    const auto [first, is_new] = names.emplace(stream_hash(name), name);
    if (is_new || first->second == name) continue;
    fail(
        error_category::invalid_argument,
        "random: the streams {} and {} would draw the same numbers, their names' 32-bit hashes being equal; rename one",
        quote(first->second), quote(name));
  }
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
