// SPDX-License-Identifier: MIT
// Kernels that are not fused with anything: gather, scatter_add, random numbers, fills.
#pragma once
#include <meganeura/core/dtype.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/graph/attribute.hpp>
#include <meganeura/kernels/dispatch.hpp>
#include <meganeura/kernels/target.hpp>

#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// Operands data, indices (i32). An index out of range gives zeros.
[[nodiscard]] kernel_dispatch make_gather(const shape& data, const shape& indices, int axis, dtype type,
                                          const target& on);

/// Operands indices (i32), updates; an index out of range adds nothing. Deterministic: every element adds its updates
/// in an order that only the shapes and the device decide; no atomics. The error of a sum grows with the logarithm of
/// its length.
[[nodiscard]] kernel_dispatch make_scatter_add(const shape& result, const shape& indices, int axis, dtype type,
                                               const target& on);

/// Bindings: the result (f32), step_values.
[[nodiscard]] kernel_dispatch make_random(const random_attribute& stream, std::int64_t count, const target& on);

/// Binding: the result, `count` words.
[[nodiscard]] kernel_dispatch make_fill(std::uint32_t word, std::int64_t count, const target& on);

}  // namespace meganeura::inline MEGANEURA_ABI::kernels

#if MEGANEURA_HEADER_ONLY
#include <meganeura/kernels/builtin.ipp>
#endif
