// SPDX-License-Identifier: MIT
// Where rounding decides: a value that reaches a discontinuous function may be spelled in one way only.
#pragma once
#include <meganeura/graph/scalar.hpp>

#include <optional>
#include <span>

namespace meganeura::inline MEGANEURA_ABI::egraph {

// equal(x / 3, row_max(x / 3)) is true somewhere in each row as long as both sides come from the same bits. Rewritten
// by a rule that rounds differently on one side, or computed in two kernels that add up in different orders, it may be
// true nowhere. So a class some comparison, rounding or choice depends on ("decides") is rewritten by exact rules
// alone, and a sum it depends on is computed in one kernel. So is what is assigned to a state that decides: the next
// step decides by it. (A parameter decides too, behind every relu; its gradient is rewritten all the same.) All other
// arithmetic is the same wherever it is repeated: kernels round after every operation.

/// What is below this is hidden, as scores under a mask are: no rounding decides whether a value is, since what is
/// computed comes nowhere near. Numbers there are also farther apart, in f32 and in f64, than any distance below the
/// largest of a softmax that leaves a weight above zero.
inline constexpr double far_below = -0x1p64;
/// Whether a comparison asks that of a value: which, or no node.
[[nodiscard]] std::optional<scalar_ref> asks_far_below(const scalar_program& program, const scalar_node& comparison);

/// For each node of a program whether a discontinuous function of floats depends on it. A select that picks one of the
/// two values it compares is a minimum or a maximum and continuous.
[[nodiscard]] program_flags deciding_nodes(const scalar_program& program);
/// The same, by argument.
[[nodiscard]] program_flags deciding_arguments(const scalar_program& program);

/// Follows values that come out differently where they are computed again: sums and products along rows, and the
/// arguments marked in `unstable`.
struct stability {
  bool result = false;    // the program's result is such a value
  bool decision = false;  // a discontinuous function inside depends on one
};
[[nodiscard]] stability trace_unstable(const scalar_program& program, std::span<const bool> unstable);

}  // namespace meganeura::inline MEGANEURA_ABI::egraph

#if MEGANEURA_HEADER_ONLY
#include <meganeura/egraph/continuity.ipp>
#endif
