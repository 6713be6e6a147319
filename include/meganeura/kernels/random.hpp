// SPDX-License-Identifier: MIT
// Random numbers: the kernel of shaders/random.comp.
#pragma once
#include <meganeura/core/device_profile.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/graph/attribute.hpp>
#include <meganeura/graph/graph.hpp>
#include <meganeura/kernels/dispatch.hpp>
#include <meganeura/kernels/generator.hpp>

#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// Bindings: the result (f32), step_values.
[[nodiscard]] kernel_dispatch make_random(const random_attribute& stream, std::int64_t count, const device_profile& on);

/// errors: invalid_argument for two streams of one graph whose names have one hash: they would draw the same numbers.
void check_streams(const graph& g);

template <>
struct generator<op::random> {
  [[nodiscard]] static kernel_dispatch make(const kernel_request& asked) {
    return make_random(asked.get<random_attribute>(), asked.extents().elements(), asked.on);
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI::kernels

#if MEGANEURA_HEADER_ONLY
#include <meganeura/kernels/random.ipp>
#endif
