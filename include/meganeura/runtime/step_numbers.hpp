// SPDX-License-Identifier: MIT
// What stands where in the numbers that a step of training gives its optimiser and the graph around it.
#pragma once
#include <meganeura/graph/attribute.hpp>

#include <cstddef>
#include <string_view>

namespace meganeura::inline MEGANEURA_ABI::detail {

/// The row of a group of parameters. Kernels have it as kernels::step_values::numbers, all but `begins`; the graph has
/// those of all groups as the input `name`, f32 [groups, count], if it reads any.
///   0, 1, ..  what the optimiser's numbers(step) give; behind them, with `ema`, what a mean takes of the parameter
///   updates   with `accumulate`, 1 in the step that updates and 0 in those before it
///   begins    1 in the step that has the first of the gradients that are added up
struct step_numbers {
  static constexpr std::string_view name = "optimizer.numbers";
  static constexpr std::size_t updates = max_optimizer_numbers - 1, begins = max_optimizer_numbers, count = begins + 1;
};

}  // namespace meganeura::inline MEGANEURA_ABI::detail
