// SPDX-License-Identifier: MIT
// Training of any graph: loss, gradients and optimiser as one recorded step on a device.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/graph/graph.hpp>
#include <meganeura/runtime/inference.hpp>
#include <meganeura/runtime/optimizer.hpp>
#include <meganeura/runtime/parameters.hpp>
#include <meganeura/runtime/program.hpp>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace meganeura::inline MEGANEURA_ABI {

/// `forward` with everything a step of training is besides: the loss (output "loss"), gradients, optimiser update. A
/// parameter that no gradient reaches (unused, behind stop_gradient) is not updated at all: no decay, no moments.
/// errors: invalid_argument when the loss is no f32 number or reaches no parameter, or one that is not f32.
[[nodiscard]] graph make_training_graph(graph forward, node_id loss, const optimizer& chosen);

/// One step under way: a view into what was trained, which it must not outlive.
class pending_step {
 public:
  /// `submitted`: its number in the program; `step`: as the training counts.
  pending_step(const program& from, std::uint64_t submitted, std::uint32_t step)
      : program_(&from), submitted_(submitted), step_(step) {}
  /// The loss before this step's update; waits for the step. Kept until two further steps are submitted.
  /// errors: invalid_argument later, and for a loss that is not finite, where the option `checks` includes that.
  [[nodiscard]] float loss() const;
  void wait() const { program_->wait(submitted_); }

 private:
  const program* program_;
  std::uint64_t submitted_;
  std::uint32_t step_;
};

/// A graph being trained: owns the optimiser's moments, the step counter, the seed and, unless given, the parameters.
class training {
 public:
  /// Minimises `loss`, an f32 number of `forward`: training(gpu, std::move(g), loss, adam{}). errors: those of
  /// make_training_graph; invalid_argument for rates that no optimiser can have; what `program` throws.
  training(const device& on, graph forward, node_id loss, const optimizer& chosen, const run_options& options = {},
           meganeura::parameters weights = {});

  training(const training&) = delete;  // pending steps point here
  training& operator=(const training&) = delete;

  /// A handle to the weights.
  [[nodiscard]] meganeura::parameters parameters() const { return parameters_; }

  /// Submits one step and returns at once; at most two are in flight. Inputs are bound by name:
  /// run.step({{"x", values}, {"label", labels}}). errors: invalid_argument for an unknown or unbound input,
  /// another element type or size; the step then has not happened.
  pending_step step(std::span<const input_values> inputs);
  pending_step step(std::initializer_list<input_values> inputs) { return step({inputs.begin(), inputs.size()}); }

  /// Takes effect with the next step; nothing is recorded again. errors: invalid_argument unless finite and at least 0.
  void set_learning_rate(float rate);
  [[nodiscard]] std::uint32_t steps() const { return step_; }

  /// Step number, moments and states back to the beginning, the latter for all that share them; parameters stay.
  void restart();

  /// The whole run in one file: parameters, moments, states, step, rates and seed. A training built alike that loads it
  /// goes on bit for bit as if this one had gone on (`data::shuffled_batches::skip` does the same for the data).
  /// errors: see runtime/checkpoint.hpp; a refused file changes nothing. Plain weights are loaded by parameters().load.
  void save_checkpoint(const std::string& path) const;
  void load_checkpoint(const std::string& path);

  /// What runs: plan, report, times, profile, outputs and what is kept.
  [[nodiscard]] const meganeura::program& program() const { return program_; }

 private:
  meganeura::parameters parameters_;
  optimizer optimizer_;
  std::uint32_t step_ = 0;
  std::uint64_t seed_;
  meganeura::program program_;
};

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/runtime/training.ipp>
#endif
