// SPDX-License-Identifier: MIT
// Elements of tensors: how those of a dtype lie in a buffer, and the values that a kernel computes with.
#pragma once
#include <meganeura/core/dtype.hpp>
#include <meganeura/spirv/kernel.hpp>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// A value whose type is known when the generator runs: f32, i32, u32 or boolean, one component or four.
using scalar_value = spirv::untyped::operand;

/// The type of `components` values of a dtype as they are computed with, and as they lie in a buffer.
[[nodiscard]] spirv::data_type value_type(dtype type, int components = 1);
[[nodiscard]] spirv::data_type stored_type(dtype type, int components = 1);

/// What was loaded as `stored_type(type)`, to compute with.
[[nodiscard]] scalar_value loaded(const scalar_value& memory, dtype type);
/// What to store as `stored_type(type)`, rounded to nearest, ties to even.
[[nodiscard]] scalar_value stored(const scalar_value& value, dtype type);

}  // namespace meganeura::inline MEGANEURA_ABI::kernels

#if MEGANEURA_HEADER_ONLY
#include <meganeura/kernels/element.ipp>
#endif
