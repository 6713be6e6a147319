// SPDX-License-Identifier: MIT
// Training: a typed model, a loss and an optimiser as one recorded step on a device.
#pragma once
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/expr/lower.hpp>
#include <meganeura/runtime/checkpoint.hpp>
#include <meganeura/runtime/loss.hpp>
#include <meganeura/runtime/optimizer.hpp>
#include <meganeura/runtime/program.hpp>
#include <meganeura/runtime/session.hpp>

#include <array>
#include <cmath>
#include <concepts>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

/// Adds its value, a scalar f32 node, to a graph, given the model's output. cross_entropy and mean_squared_error are
/// losses, and so is any callable of this form.
template <class T>
concept loss_function = requires(const T& loss, graph& g, node_id output) {
  { loss(g, output) } -> std::convertible_to<node_id>;
};

struct trainer_options {
  program_options program{};
  std::uint64_t seed = 0;  // of random streams
};

namespace detail {

// errors: invalid_argument for a wrong rate.
inline void check_rates(const optimizer& chosen) {
  if (const std::string problem = chosen.wrong_rate(); !problem.empty())
    fail(error_category::invalid_argument, "{}", problem);
}

inline void check_loss(const graph& g, node_id value) {
  if (g[value].type == dtype::f32 && g[value].extents.rank() == 0) return;
  fail(error_category::invalid_argument,
       "the loss is {} {}, and a trainer minimises one f32 number; reduce the loss to one, and cast it to f32",
       to_string(g[value].type), to_string(g[value].extents));
}

inline void check_trained(const graph& g, node_id parameter) {
  if (g[parameter].type == dtype::f32) return;
  fail(error_category::invalid_argument,
       "the parameter \"{}\" is {}, and a trainer updates f32 alone; declare it f32 (a layer's parameters have its "
       "input's dtype: cast to f32 before the layer, and back behind it), or freeze it: stop_gradient",
       g.get<leaf_attribute>(parameter).name, to_string(g[parameter].type));
}

}  // namespace detail

/// The whole training step as a graph: forward, loss (output "loss"), gradients, optimiser update. A parameter that no
/// gradient reaches (unused, behind stop_gradient) is not updated at all: no decay, no moments.
/// errors: invalid_argument when the loss is no f32 number or reaches no parameter, or one that is not f32.
template <class Model, loss_function Loss>
[[nodiscard]] graph make_training_graph(const Loss& loss, const optimizer& chosen,
                                        std::span<const binding> symbols) try {
  graph g;
  const node_id output = lower_into<Model>(g, symbols);
  const node_id value = [&] {
    const graph::scope in(g, "loss");
    return loss(g, output);
  }();
  detail::check_loss(g, value);
  g.add_output("loss", value);
  std::vector<node_id> weights = g.leaves(op::parameter);
  std::erase_if(weights, [&](node_id id) { return !is_float(g[id].type); });
  const std::vector<node_id> slopes = reached_gradients(g, value, weights);
  std::vector<node_id> pairs;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (slopes[i] == no_id) continue;
    detail::check_trained(g, weights[i]);
    pairs.insert(pairs.end(), {weights[i], slopes[i]});
  }
  if (pairs.empty()) {
    fail(error_category::invalid_argument,
         "the loss reaches no parameter, there is nothing to train; the model has none, or a stop_gradient too many");
  }
  const graph::scope in(g, "optimizer");
  g.optimizer_step(chosen.rule(), pairs);
  return g;
} catch (...) {
  rethrow_as_error("building a training step");
}

/// One training step under way; must not outlive its trainer.
class step_result {
 public:
  /// `submitted`: its number in the program; `step`: as the trainer counts.
  step_result(const program& from, std::uint64_t submitted, std::uint32_t step)
      : program_(&from), submitted_(submitted), step_(step) {}
  /// The loss before this step's update; waits for the step. Valid until two further steps are submitted.
  /// errors: invalid_argument for a loss that is not finite, where the option `checks` includes that.
  [[nodiscard]] float loss() const try {
    const float value = program_->scalar_output("loss", submitted_);
    if (includes(program_->checks(), checks::finite) && !std::isfinite(value)) {
      fail(error_category::invalid_argument,
           "the loss of step {} is {}; look at the data and the learning rate, or leave out checks::finite", step_,
           value);
    }
    return value;
  } catch (...) {
    rethrow_as_error("reading a loss");
  }
  void wait() const { program_->wait(submitted_); }

 private:
  const program* program_;
  std::uint64_t submitted_;
  std::uint32_t step_;
};

/// Owns the optimiser's state and, unless given, the parameters.
template <class Model>
class trainer {
 public:
  /// e.g. trainer<mlp> run(gpu, cross_entropy{"label"}, adam{.learning_rate = 1e-3f}, {{"batch", 32}});
  /// errors: invalid_argument for symbols, inputs or rates that do not fit; what `program` throws.
  template <loss_function Loss>
  trainer(const device& on, const Loss& loss, const optimizer& chosen, std::initializer_list<binding> symbols,
          const trainer_options& options = {}, meganeura::parameters weights = {})
      : parameters_(std::move(weights)),
        optimizer_(chosen),
        seed_(options.seed),
        program_(build(on, loss, {symbols.begin(), symbols.size()}, options)) {}

  trainer(const trainer&) = delete;  // step results point here
  trainer& operator=(const trainer&) = delete;

  [[nodiscard]] const meganeura::parameters& parameters() const { return parameters_; }

  /// Submits one step and returns at once; at most two are in flight. Inputs of the model and of the loss are bound by
  /// name. errors: invalid_argument for an unknown or unbound input, another element type or size; the step then has
  /// not happened.
  template <fixed_string... Names, class... Elements>
  step_result step(const bound_input<Names, Elements>&... inputs) {
    if (step_ == std::numeric_limits<std::uint32_t>::max()) {
      fail(error_category::unsupported, "step: {} steps are done and no further one is counted; restart", step_);
    }
    const std::array<input_values, sizeof...(Names)> bound{detail::values_of(inputs)...};
    const std::uint64_t number = program_.submit(optimizer_.step_values(step_ + 1, seed_), bound);
    ++step_;
    return {program_, number, step_};
  }

  /// Takes effect with the next step; nothing is recorded again. errors: invalid_argument unless finite and at least 0.
  void set_learning_rate(float rate) try {
    const optimizer changed = optimizer_.with_rate("learning_rate", rate);
    detail::check_rates(changed);
    optimizer_ = changed;
  } catch (...) {
    rethrow_as_error("setting a learning rate");
  }
  [[nodiscard]] std::uint32_t steps() const { return step_; }

  /// Step number, moments and states back to the beginning; parameters stay.
  void restart() {
    step_ = 0;
    program_.reset_state();
  }

  /// The whole run in one file: parameters, moments, states, step, rates and seed. A trainer built alike that loads it
  /// goes on bit for bit as if this one had gone on (`data::shuffled_batches::skip` does the same for the data).
  /// errors: see runtime/checkpoint.hpp; a refused file changes nothing. Plain weights are loaded by parameters().load.
  void save_checkpoint(const std::string& path) const {
    meganeura::save_checkpoint(path, parameters_, program_, {optimizer_, step_, seed_});
  }
  void load_checkpoint(const std::string& path) {
    const training_position position = meganeura::load_checkpoint(path, parameters_, program_, optimizer_);
    optimizer_ = position.chosen;
    step_ = position.step;
    seed_ = position.seed;
  }

  [[nodiscard]] program& runnable() { return program_; }

 private:
  template <loss_function Loss>
  program build(const device& on, const Loss& loss, std::span<const binding> symbols,
                const trainer_options& options) try {
    detail::check_rates(optimizer_);
    const graph g = make_training_graph<Model>(loss, optimizer_, symbols);
    if (!parameters_) parameters_ = meganeura::parameters(on, plan::make_layout(g, op::parameter));
    return program(on, g, parameters_, options.program);
  } catch (...) {
    rethrow_as_error("building a trainer");
  }

  meganeura::parameters parameters_;
  optimizer optimizer_;
  std::uint32_t step_ = 0;
  std::uint64_t seed_;
  program program_;
};

}  // namespace meganeura::inline MEGANEURA_ABI
