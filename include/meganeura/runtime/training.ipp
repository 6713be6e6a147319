// SPDX-License-Identifier: MIT
// Definitions for runtime/training.hpp.
#pragma once
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/stopwatch.hpp>
#include <meganeura/runtime/checkpoint.hpp>
#include <meganeura/runtime/training.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// errors: invalid_argument for a wrong rate.
inline const optimizer& checked_rates(const optimizer& chosen) {
  const std::string problem = chosen.wrong_rate();
  if (!problem.empty()) fail(error_category::invalid_argument, "{}", problem);
  return chosen;
}

inline void check_loss(const graph& g, node_id value) {
  if (value >= g.size())
    fail(error_category::invalid_argument, "the loss %{} does not exist; the graph has {} nodes", value, g.size());
  if (g[value].type == dtype::f32 && g[value].extents.rank() == 0) return;
  fail(error_category::invalid_argument,
       "the loss is {} {}, and a trainer minimises one f32 number; reduce the loss to one, and cast it to f32",
       to_string(g[value].type), to_string(g[value].extents));
}

inline void check_trained(const graph& g, node_id parameter) {
  if (g[parameter].type == dtype::f32) return;
  fail(error_category::invalid_argument,
       "the parameter \"{0}\" is {1}, and a trainer updates f32 alone; declare it f32 (a layer's parameters have its "
       "input's dtype: cast to f32 before the layer, and back behind it), or freeze it: {{.frozen = \"{0}\"}}",
       g.get<leaf_attribute>(parameter).name, to_string(g[parameter].type));
}

}  // namespace detail

MEGANEURA_INLINE graph make_training_graph(graph g, node_id loss, const optimizer& chosen,
                                           const training_options& options) try {
  if (g.depends_on_mode() && g.mode() != run_mode::training) {
    fail(error_category::invalid_argument,
         "the graph has layers that do something else in training and was built for evaluation; build the model in a "
         "graph(run_mode::training)");
  }
  detail::check_loss(g, loss);
  g.add_output("loss", loss);
  std::vector<node_id> weights = g.leaves(op::parameter);
  const parameter_groups groups(g, options.frozen, options.no_decay, options.groups);
  const auto name_of = [&](node_id id) -> const std::string& { return g.get<leaf_attribute>(id).name; };
  std::erase_if(weights, [&](node_id id) { return !is_float(g[id].type) || groups.is_frozen(name_of(id)); });
  const std::vector<node_id> slopes = reached_gradients(g, loss, weights);
  std::map<std::uint32_t, std::vector<node_id>> pairs;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (slopes[i] == no_id) continue;
    detail::check_trained(g, weights[i]);
    auto& group = pairs[groups.of(name_of(weights[i]))];
    group.insert(group.end(), {weights[i], slopes[i]});
  }
  if (pairs.empty()) {
    fail(error_category::invalid_argument,
         "the loss reaches no parameter, there is nothing to train; the model has none, a stop_gradient too many, or "
         "all are frozen");
  }
  const graph::scope in(g, "optimizer");
  optimizer_attribute rule = chosen.rule();
  for (const auto& [group, operands] : pairs) {
    rule.group = group;
    g.optimizer_step(rule, operands);
  }
  return g;
} catch (...) {
  rethrow_as_error("building a training step");
}

MEGANEURA_INLINE float pending_step::loss() const try {
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

MEGANEURA_INLINE training::training(const device& on, graph forward, node_id loss, const optimizer& chosen,
                                    const training_options& options, meganeura::parameters weights) try
    : device_(on),
      make_([model = graph_with_loss{std::move(forward), loss}](const symbol_extents&, run_mode) { return model; }),
      options_(options),
      optimizer_(detail::checked_rates(chosen)),
      seed_(options.seed),
      parameters_(std::move(weights)),
      programs_(on, {}, 1) {
  prepare({});
} catch (...) {
  rethrow_as_error("building a trainer");
}

MEGANEURA_INLINE training::training(const device& on, sized<graph_with_loss> model, const optimizer& chosen,
                                    const training_options& options, meganeura::parameters weights) try
    : device_(on),
      make_(std::move(model.make)),
      options_(options),
      optimizer_(detail::checked_rates(chosen)),
      seed_(options.seed),
      parameters_(std::move(weights)),
      programs_(on, std::move(model.sizes), options.most_sizes) {
  if (!programs_.sizes().any()) prepare({});
} catch (...) {
  rethrow_as_error("building a trainer");
}

MEGANEURA_INLINE void training::choose(const optimizer& chosen) {
  std::vector<optimizer> of_groups = groups_.optimizers(chosen);
  for (const optimizer& each : of_groups) (void)detail::checked_rates(each);
  optimizer_ = chosen;
  group_optimizers_ = std::move(of_groups);
}

MEGANEURA_INLINE program training::build(graph_with_loss model, program_options options) {
  groups_ = parameter_groups(model.forward, options_.frozen, options_.no_decay, options_.groups);
  choose(optimizer_);
  const detail::timed<graph> step = detail::take_time(
      [&] { return make_training_graph(std::move(model.forward), model.loss, optimizer_, options_); });
  options.before.differentiate = step.milliseconds;
  return detail::make_program(device_, step.made, parameters_, moments_, options);
}

MEGANEURA_INLINE const std::shared_ptr<program>& training::select(std::span<const input_values> inputs,
                                                                  const symbol_extents& sizes) try {
  return programs_.at(inputs, sizes, [this](const symbol_extents& at) {
    detail::timed<graph_with_loss> traced = detail::take_time([&] { return make_(at, run_mode::training); });
    program_options options = options_.program;
    options.before.trace = traced.milliseconds;
    return build(std::move(traced.made), options);
  });
} catch (...) {
  rethrow_as_error("building a trainer");
}

MEGANEURA_INLINE pending_step training::step(std::span<const input_values> inputs, const symbol_extents& sizes) try {
  if (step_ == std::numeric_limits<std::uint32_t>::max())
    fail(error_category::unsupported, "step: {} steps are done and no further one is counted; restart", step_);
  const std::shared_ptr<meganeura::program>& selected = select(inputs, sizes);
  std::vector<kernels::step_values> values;
  for (const optimizer& each : group_optimizers_) values.push_back(each.step_values(step_ + 1, seed_));
  const std::uint64_t number = selected->submit(values, inputs);
  ++step_;
  return {selected, number, step_};
} catch (...) {
  rethrow_as_error("a step");
}

namespace detail {

// The same with the loss as an output, "loss".
inline graph evaluated(graph_with_loss model) {
  graph& g = model.forward;
  if (g.depends_on_mode() && g.mode() != run_mode::evaluation) {
    fail(error_category::invalid_argument,
         "the graph has layers that do something else in training, and was built for it alone; give the training what "
         "makes the graph for either: training(gpu, {{sizes, [](const symbol_extents& at, run_mode mode) {{ graph "
         "g(mode); .. }}}}, ..)");
  }
  check_loss(g, model.loss);
  g.add_output("loss", model.loss);
  return std::move(g);
}

}  // namespace detail

MEGANEURA_INLINE float training::evaluate(std::span<const input_values> inputs, const symbol_extents& sizes) try {
  if (!evaluation_) {
    const auto make = [make = make_](const symbol_extents& at, run_mode mode) {
      return detail::evaluated(make(at, mode));
    };
    const run_options options{.program = options_.program, .seed = options_.seed, .most_sizes = options_.most_sizes};
    evaluation_.emplace(device_, sized<graph>(programs_.sizes(), make), options, parameters_);
  }
  const std::uint64_t number = evaluation_->start(inputs, sizes);
  return evaluation_->program().scalar_output("loss", number);
} catch (...) {
  rethrow_as_error("an evaluation");
}

MEGANEURA_INLINE const inference& training::evaluation() const try {
  if (evaluation_) return *evaluation_;
  fail(error_category::invalid_argument, "nothing was evaluated yet; evaluate first");
} catch (...) {
  rethrow_as_error("reading an evaluation");
}

MEGANEURA_INLINE void training::set_learning_rate(float rate) try {
  choose(optimizer_.with_rate("learning_rate", rate));
} catch (...) {
  rethrow_as_error("setting a learning rate");
}

MEGANEURA_INLINE void training::restart() {
  if (moments_) moments_.reset();
  parameters_.reset_states();
  step_ = 0;
}

MEGANEURA_INLINE void training::save_checkpoint(const std::string& path) const {
  meganeura::save_checkpoint(path, parameters_, moments_, {optimizer_, step_, seed_});
}

MEGANEURA_INLINE void training::load_checkpoint(const std::string& path) {
  const training_position position = meganeura::load_checkpoint(path, parameters_, moments_, optimizer_);
  choose(position.chosen);
  step_ = position.step;
  seed_ = position.seed;
}

}  // namespace meganeura::inline MEGANEURA_ABI
