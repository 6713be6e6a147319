// SPDX-License-Identifier: MIT
// Reverse mode inside one scalar program: the rule of a map.
#pragma once
#include <meganeura/graph/scalar.hpp>

#include <span>

namespace meganeura::inline MEGANEURA_ABI::detail {

/// For each node of the program: does its value change smoothly with an argument whose flag is set?
[[nodiscard]] program_flags smooth_nodes(const scalar_program& program, std::span<const bool> arguments);

/// The sum over all flagged arguments of seed * d program / d argument, written into `builder`. `forward` holds the
/// value of each node of the program there. no_id when nothing is smooth.
[[nodiscard]] scalar_ref scalar_gradient(scalar_builder& builder, const scalar_program& program,
                                         std::span<const scalar_ref> forward, scalar_ref seed,
                                         std::span<const bool> arguments);

}  // namespace meganeura::inline MEGANEURA_ABI::detail

#if MEGANEURA_HEADER_ONLY
#include <meganeura/autodiff/scalar_gradient.ipp>
#endif
