// SPDX-License-Identifier: MIT
// Scalar programs as kernel-language values: the one place where the semantics of graph/scalar.hpp become instructions.
#pragma once
#include <meganeura/graph/scalar.hpp>
#include <meganeura/kernels/element.hpp>

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels {

[[nodiscard]] scalar_value literal(dtype type, double value);
/// The number a literal stands for; nothing for a computed value.
[[nodiscard]] std::optional<double> literal_value(const scalar_value& value);
/// Repeats a scalar; a value of that width is returned as it is.
[[nodiscard]] scalar_value widened(const scalar_value& value, int components);
/// Component of a vector, or the scalar itself.
[[nodiscard]] scalar_value component(const scalar_value& value, int index);
/// Four scalars as one vector, different literals included.
[[nodiscard]] scalar_value grouped(spirv::kernel& owner, const std::array<scalar_value, 4>& parts);
[[nodiscard]] scalar_value converted(const scalar_value& value, spirv::data_type to);

/// One operation (no argument, constant or row reduction). Scalars mixed with vectors are repeated.
[[nodiscard]] scalar_value emit(spirv::kernel& owner, const scalar_node& node, std::span<const scalar_value> operands);

/// sum, max, min or product of two partial results, and what it starts from.
[[nodiscard]] scalar_value combine(spirv::kernel& owner, scalar_op reduction, const scalar_value& a,
                                   const scalar_value& b);
[[nodiscard]] scalar_value identity(scalar_op reduction, dtype type);

/// The values of all nodes; `argument(k)` is asked once for each argument used. Programs with row reductions are
/// refused.
[[nodiscard]] std::vector<scalar_value> emit_nodes(spirv::kernel& owner, const scalar_program& program,
                                                   const std::function<scalar_value(int)>& argument);
/// The last one's, the program's result.
[[nodiscard]] scalar_value emit(spirv::kernel& owner, const scalar_program& program,
                                const std::function<scalar_value(int)>& argument);

}  // namespace meganeura::inline MEGANEURA_ABI::kernels

#if MEGANEURA_HEADER_ONLY
#include <meganeura/kernels/scalar_emit.ipp>
#endif
