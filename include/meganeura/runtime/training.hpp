// SPDX-License-Identifier: MIT
// Training of any graph: loss, gradients and optimiser as one recorded step on a device.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/runtime/optimizer.hpp>
#include <meganeura/runtime/parameters.hpp>
#include <meganeura/runtime/program.hpp>
#include <meganeura/runtime/sized_programs.hpp>
#include <meganeura/runtime/training_graph.hpp>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

/// One step under way.
class pending_step {
 public:
  /// `submitted`: its number in the program; `step`: as the training counts.
  pending_step(std::shared_ptr<const program> from, std::uint64_t submitted, std::uint32_t step)
      : program_(std::move(from)), submitted_(submitted), step_(step) {}
  /// The loss before this step's update; waits for the step. Kept until two further steps of its sizes are submitted.
  /// errors: invalid_argument later, and for a loss that is not finite, where the option `checks` includes that.
  [[nodiscard]] float loss() const;
  /// Another number that the loss gives, or an f32 number that the graph has as an output: value("kl"). Kept as long.
  /// errors: invalid_argument later, for an unknown name and for what is not one f32 number.
  [[nodiscard]] float value(std::string_view name) const;
  void wait() const { program_->wait(submitted_); }

 private:
  std::shared_ptr<const program> program_;
  std::uint64_t submitted_;
  std::uint32_t step_;
};

/// A graph being trained: owns the optimiser's moments, the step counter, the seed and, unless given, the parameters.
/// One thread at a time calls it; trainings and sessions that share a device or parameters may run in several.
class training {
 public:
  /// Minimises `loss`, an f32 number of `forward`: training(gpu, std::move(g), loss, adam{}). Outputs that the graph
  /// has stay readable. errors: those of make_training_graph; invalid_argument for rates that no optimiser can have;
  /// what `program` throws.
  training(const device& on, graph forward, node_id loss, const optimizer& chosen, const training_options& options = {},
           meganeura::parameters weights = {});

  /// Sizes come from what is bound, see inference: a step with new ones builds a program first. Parameters, moments and
  /// the counter are those of all of them; unless given, parameters are made by the first program: prepare some sizes,
  /// then take parameters() and init them.
  training(const device& on, sized<graph_with_loss> model, const optimizer& chosen,
           const training_options& options = {}, meganeura::parameters weights = {});
  /// What was moved from can be assigned to or destroyed; every other call that does something throws invalid_argument.
  training(training&&) noexcept;
  training& operator=(training&&) noexcept;
  ~training();

  /// A handle to the weights.
  [[nodiscard]] meganeura::parameters parameters() const { return parameters_; }

  /// Submits one step and returns while it runs. What is waited for: the step two before it of the same sizes, and with
  /// the first one of new sizes, whose program is built then, the step itself. Inputs are bound by name:
  /// run.step({{"x", values}, {"label", labels}}); `sizes` has the symbols that inputs leave open. errors:
  /// invalid_argument for an unknown or unbound input, another element type or size, and for sizes that are not known;
  /// the step then has not happened.
  pending_step step(std::span<const input_values> inputs, const symbol_extents& sizes = {});
  pending_step step(std::initializer_list<input_values> inputs, const symbol_extents& sizes = {}) {
    return step({inputs.begin(), inputs.size()}, sizes);
  }

  /// Which input, weight or operation of a step with these inputs, of the model, the loss, the gradients or before an
  /// update, has the first NaN and which the first infinity, in the order in which they are computed; a sentence, empty
  /// where all is finite. Weights are those of now: load a checkpoint of before the step whose loss was none. Nothing
  /// is updated, assigned or counted. cost: a program of its own, which stores every value. errors: as step.
  [[nodiscard]] std::string first_not_finite(std::span<const input_values> inputs, const symbol_extents& sizes = {});
  [[nodiscard]] std::string first_not_finite(std::initializer_list<input_values> inputs,
                                             const symbol_extents& sizes = {}) {
    return first_not_finite({inputs.begin(), inputs.size()}, sizes);
  }

  /// Builds the program for these sizes now, so that no step waits for it. What can be read stays what ran last. What
  /// is returned lives until `most_sizes` other sizes ran or were prepared, or memory was short.
  const meganeura::program& prepare(const symbol_extents& sizes) {
    const meganeura::program& made = *select({}, sizes);
    programs_.keep();
    return made;
  }

  /// The loss of these inputs as the model is evaluated, with the parameters and states of the steps so far: nothing is
  /// updated or assigned, no second set of weights is made. The program for it is built when it is first asked for at
  /// these sizes. errors: as step; invalid_argument where the model does something else in training and was given as a
  /// graph: give what makes it, training(gpu, {sizes, [](const symbol_extents& at, run_mode mode) { graph g(mode); ..
  /// }}, ..).
  float evaluate(std::span<const input_values> inputs, const symbol_extents& sizes = {});
  float evaluate(std::initializer_list<input_values> inputs, const symbol_extents& sizes = {}) {
    return evaluate({inputs.begin(), inputs.size()}, sizes);
  }
  /// The same loss of averages() as they are now; copied anew only where something changed. errors: those of both.
  float evaluate_averages(std::span<const input_values> inputs, const symbol_extents& sizes = {});
  float evaluate_averages(std::initializer_list<input_values> inputs, const symbol_extents& sizes = {}) {
    return evaluate_averages({inputs.begin(), inputs.size()}, sizes);
  }
  /// Parameters to evaluate, run or save instead, with the option `ema`: a copy of all of now, in which those that are
  /// updated are the running means of what steps made of them, see optimizer::with_ema. Memory of its own, the same
  /// each time: a session over it has the averages of the last call. cost: all parameters, to the host and back.
  /// errors: invalid_argument without the option and for parameters without values.
  meganeura::parameters averages();
  /// What evaluated last: its outputs and its program. errors: invalid_argument before the first evaluation.
  [[nodiscard]] const inference& evaluation() const;

  /// A copy of an output of the latest step, see inference::read.
  template <class Number = float>
  [[nodiscard]] std::vector<Number> read(std::string_view name) const {
    return program().output_as<Number>(name);
  }

  /// Takes effect with the next step; nothing is recorded again. A schedule multiplies it. errors: invalid_argument
  /// unless finite and at least 0.
  void set_learning_rate(float rate);
  /// Of the next step, as schedule and optimiser have it; a group's is a share of it. errors: the schedule's.
  [[nodiscard]] float learning_rate() const;
  /// Updates of the parameters so far.
  [[nodiscard]] std::uint32_t steps() const { return step_; }
  /// Batches that steps were given so far: steps() unless gradients are accumulated. What a loader skips where a
  /// training goes on.
  [[nodiscard]] std::uint64_t batches() const { return batches_; }

  /// Tells the option `plateau` how good the training is, usually once an epoch: fit.observe(fit.evaluate(..)). errors:
  /// invalid_argument without the option.
  void observe(double number);

  /// Step number, moments and states back to the beginning, the latter for all that share them; parameters stay.
  void restart();

  /// The whole run in one file: parameters, moments, states, step, rates, those of groups, what is frozen, seed,
  /// batches and gradients accumulated so far, and where a plateau is; no schedule, which is asked about the step, and
  /// no bounds of gradients. A training built alike that loads it goes on bit for bit as if this one had gone on
  /// (`data::loader::skip` does the same for the data). One with another `accumulate` ends an update that was begun by
  /// its own number: what was added up counts as the first of so many batches, of which the update is the mean; a file
  /// with as many or more is refused. Where sizes are open it may be loaded before the first step, by a graph that is
  /// made at run time once `prepare` has made its parameters; a step finds out then whether groups and moments fit. It
  /// is saved once there are moments, after a step or `prepare`. errors: see runtime/checkpoint.hpp; a refused file
  /// changes nothing. Plain weights are loaded by parameters().load.
  void save_checkpoint(const std::string& path) const;
  void load_checkpoint(const std::string& path);

  /// Empty before the first program is built: what asks it for moments then throws invalid_argument.
  [[nodiscard]] const optimizer_moments& moments() const { return moments_; }

  /// What ran last, or before the first step was prepared: plan, report, times, profile and outputs. errors:
  /// invalid_argument before either.
  [[nodiscard]] const meganeura::program& program() const { return programs_.latest(); }

 private:
  void check_alive() const { detail::check_alive(device_); }
  std::shared_ptr<meganeura::program> select(std::span<const input_values> inputs, const symbol_extents& sizes);
  float evaluate(std::optional<inference>& by, const meganeura::parameters& weights,
                 std::span<const input_values> inputs, const symbol_extents& sizes);
  [[nodiscard]] std::span<const input_values> number_step(const meganeura::program& selected,
                                                          std::span<const input_values> inputs);
  [[nodiscard]] double rate_factor() const { return options_.schedule.factor(step_) * plateau_.factor; }
  [[nodiscard]] meganeura::program build(graph_with_loss model, const symbol_extents& at, double trace_ms);

  device device_;
  std::function<graph_with_loss(const symbol_extents&, run_mode)> make_;
  training_options options_;
  optimizer optimizer_;
  parameter_groups groups_;
  // Of a checkpoint that was loaded before the first program is built, which compares them: its path and its groups.
  std::optional<std::pair<std::string, std::map<std::string, std::string>>> loaded_groups_;
  std::vector<optimizer> group_optimizers_;        // of each group, from optimizer_
  std::vector<kernels::step_values> step_values_;  // of each group; kept, so that a step allocates nothing
  std::vector<float> own_numbers_;                 // the same for the graph's nodes, see detail::step_numbers
  std::vector<input_values> bound_;                // a step's inputs and these
  std::uint32_t step_ = 0, accumulated_ = 0;
  std::uint64_t batches_ = 0;
  plateau_position plateau_;
  std::uint64_t seed_;
  meganeura::parameters parameters_;
  optimizer_moments moments_;
  detail::sized_programs programs_;
  std::optional<inference> evaluation_;  // from the first evaluation on
  meganeura::parameters averages_;       // from the first call for them on, as they were after so many changes
  std::uint64_t averaged_ = 0;
  std::optional<inference> averages_evaluation_;
  bool evaluated_averages_ = false;  // last
};

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/runtime/training.ipp>
#endif
