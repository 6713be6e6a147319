// SPDX-License-Identifier: MIT
// The graph of a step of training: loss, gradients and their bounds, updates.
#pragma once
#include <meganeura/graph/graph.hpp>
#include <meganeura/runtime/inference.hpp>
#include <meganeura/runtime/learning_rate_schedule.hpp>
#include <meganeura/runtime/optimizer.hpp>
#include <meganeura/runtime/parameter_groups.hpp>
#include <meganeura/runtime/plateau.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

/// What run_options are for inference, bounds of gradients, parameters by name and a schedule: {.clip_norm = 1, .frozen
/// = "embed.*", .no_decay = {"*.bias", "*norm*"}, .schedule = warmup_cosine(100, 5000)}. A pattern that no parameter
/// has is an error.
struct training_options {
  program_options
      program{};           // of steps and of evaluations: each has those of the asked taps that are there in its mode
  std::uint64_t seed = 0;  // of random streams, as run_options'
  std::size_t most_sizes = 8;  // that programs stay for, as run_options'
  /// Above 0: gradients are multiplied by min(1, clip_norm / (norm + 1e-6)), the norm being that of all of them
  /// together, which steps give as "grad_norm"; infinity: so that it can be read. As torch's clip_grad_norm_, also of
  /// what is not finite: an infinite norm makes zeros, and NaN of infinite gradients; a NaN makes NaN of all.
  std::optional<float> clip_norm{};
  std::optional<float> clip_value{};      // each gradient between -clip_value and clip_value, before its norm is taken
  name_patterns frozen{};                 // stay as they are: no gradient, no moments, no decay, no update
  name_patterns no_decay{};               // weight decay 0, whatever their group says
  std::vector<parameter_group> groups{};  // other rates
  learning_rate_schedule schedule{};      // of these and of the optimiser's
  std::optional<meganeura::plateau> plateau{};  // a further factor of them, from what `observe` is given
  std::optional<float> ema{};                   // the decay of a running mean of what is updated: training::averages
  /// Above 1: a step adds its gradients to those before it, and every so many steps their sum, divided by that number,
  /// is the gradient of one update, which alone counts: schedules, optimiser, steps(). Each batch weighs the same,
  /// however long; the sum is taken in the order of the steps, in f32. Bounds are of the mean, so that "grad_norm" is
  /// that of an update in its last step alone. Costs as much memory as the gradients.
  std::uint32_t accumulate = 1;
};

/// `forward` with everything a step of training is besides: the loss (output "loss"), gradients, an update for each
/// group of parameters. A parameter that no gradient reaches (unused, behind stop_gradient, frozen) is not updated at
/// all: no decay, no moments. errors: invalid_argument when the loss is no f32 number or reaches no parameter, or one
/// that is not f32; those of parameter_groups.
[[nodiscard]] graph make_training_graph(graph forward, node_id loss, const optimizer& chosen,
                                        const training_options& options = {});

/// What is trained: a graph, and the f32 number of it that is made smaller.
struct graph_with_loss {
  graph forward;
  node_id loss;
};

namespace detail {

// errors: invalid_argument for a bound of gradients that is none.
const training_options& checked_options(const training_options& options);
// errors: invalid_argument for what is no f32 number.
void check_loss(const graph& g, node_id value);
// Of all parameters.
[[nodiscard]] std::vector<std::string> leaf_names(const graph& g);
[[nodiscard]] parameter_groups groups_of(std::span<const std::string> names, const training_options& options,
                                         parameter_groups known);
// make_training_graph of these groups.
[[nodiscard]] graph training_graph(graph g, node_id loss, const optimizer& chosen, const parameter_groups& groups,
                                   const training_options& options);

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/runtime/training_graph.ipp>
#endif
