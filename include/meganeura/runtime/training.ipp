// SPDX-License-Identifier: MIT
// Definitions for runtime/training.hpp.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/core/stopwatch.hpp>
#include <meganeura/runtime/checkpoint.hpp>
#include <meganeura/runtime/checks.hpp>
#include <meganeura/runtime/problem_list.hpp>
#include <meganeura/runtime/step_numbers.hpp>
#include <meganeura/runtime/taps.hpp>
#include <meganeura/runtime/training.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
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

// The optimiser of a training with these options. errors: as above.
inline optimizer asked_optimizer(const optimizer& chosen, const training_options& options) {
  return checked_rates(options.ema ? chosen.with_ema(*options.ema) : chosen);
}

inline std::vector<std::string> parameter_names(const parameters& all) {
  std::vector<std::string> names;
  for (const plan::named_tensor& tensor : all.layout().tensors) {
    if (tensor.kind == op::parameter) names.push_back(tensor.name);
  }
  return names;
}

// What is said of groups and known before the first program is: a checkpoint may be read then.
inline parameter_groups first_groups(const parameters& weights, const training_options& options) {
  check_groups(options.groups);
  return weights ? groups_of(parameter_names(weights), options, {}) : parameter_groups();
}

// `was_loaded`: before the groups could be compared.
inline void check_same_groups(const std::string& path, const std::map<std::string, std::string>& own,
                              const std::map<std::string, std::string>& found, bool was_loaded) {
  problem_list problems;
  std::map<std::string, std::string> names = own;
  names.insert(found.begin(), found.end());
  const auto text = [](const auto& of, const std::string& name) {
    const auto at = of.find(name);
    return at == of.end() ? std::string("the rates of all") : at->second;
  };
  for (const auto& each : names) {
    const std::string& name = each.first;
    if (text(own, name) == text(found, name)) continue;
    problems.add(
        [&] { return fmt::format("{}: expected {}, found {}", quote(name), text(own, name), text(found, name)); });
  }
  if (problems.count == 0) return;
  fail(error_category::invalid_file,
       "{} is of a training with other frozen, no_decay or groups and {} loaded{}; give this one the same, or {}",
       shown_path(path), was_loaded ? "was" : "nothing was", problems.sentence(),
       was_loaded ? "restart: the weights stay" : "load the weights alone: parameters().load(path, {.strict = false})");
}

// The optimiser as each group has it, with rates that it can have.
inline std::vector<optimizer> checked_optimizers(const parameter_groups& groups, const optimizer& chosen) {
  std::vector<optimizer> all = groups.optimizers(chosen);
  for (const optimizer& each : all) (void)checked_rates(each);
  return all;
}

}  // namespace detail

MEGANEURA_INLINE float pending_step::loss() const try {
  const float value = program_->scalar_output("loss", submitted_);
  if (includes(program_->checks(), checks::finite) && !std::isfinite(value)) {
    fail(error_category::invalid_argument,
         "the loss of step {} is {}; look at the data and the learning rate, ask first_not_finite of what was bound "
         "where "
         "it comes from, or leave out checks::finite",
         step_, value);
  }
  return value;
} catch (...) {
  rethrow_as_error("reading a loss");
}

MEGANEURA_INLINE float pending_step::value(std::string_view name) const {
  const auto& outputs = program_->plan().outputs;
  if (name == "grad_norm" && std::ranges::find(outputs, name, &plan::named_range::name) == outputs.end()) {
    fail(error_category::invalid_argument,
         "there is no \"grad_norm\" without a bound of it; give the training the option clip_norm, {{.clip_norm = 1}}, "
         "or infinity for the number alone");
  }
  return program_->scalar_output(name, submitted_);
}

MEGANEURA_INLINE training::training(const device& on, graph forward, node_id loss, const optimizer& chosen,
                                    const training_options& options, meganeura::parameters weights) try
    : training(
          on,
          {{}, [model = graph_with_loss{std::move(forward), loss}](const symbol_extents&, run_mode) { return model; }},
          chosen, options, std::move(weights)) {
} catch (...) {
  rethrow_as_error("building a trainer");
}

MEGANEURA_INLINE training::training(const device& on, sized<graph_with_loss> model, const optimizer& chosen,
                                    const training_options& options, meganeura::parameters weights) try
    : device_(on),
      make_(std::move(model.make)),
      options_(detail::checked_options(options)),
      optimizer_(detail::asked_optimizer(chosen, options)),
      groups_(detail::first_groups(weights, options)),
      group_optimizers_(detail::checked_optimizers(groups_, optimizer_)),
      seed_(options.seed),
      parameters_(std::move(weights)),
      programs_(on, std::move(model.sizes), options.most_sizes) {
  if (!programs_.sizes().any()) prepare({});
} catch (...) {
  rethrow_as_error("building a trainer");
}

MEGANEURA_INLINE training::training(training&&) noexcept = default;
MEGANEURA_INLINE training& training::operator=(training&&) noexcept = default;
MEGANEURA_INLINE training::~training() = default;

MEGANEURA_INLINE program training::build(graph_with_loss model, const symbol_extents& at, double trace_ms) {
  program_options options = options_.program;
  parameter_groups groups = detail::groups_of(detail::leaf_names(model.forward), options_, groups_);
  if (loaded_groups_)
    detail::check_same_groups(loaded_groups_->first, groups.described(), loaded_groups_->second, true);
  std::vector<optimizer> of_groups = detail::checked_optimizers(groups, optimizer_);
  const auto of_evaluation = [&] { return make_(at, run_mode::evaluation).forward.taps(); };
  const detail::timed<graph> step = detail::take_time([&] {
    graph made = detail::training_graph(std::move(model.forward), model.loss, optimizer_, groups, options_);
    return detail::with_taps(std::move(made), std::exchange(options.taps, {}), of_evaluation);
  });
  meganeura::program made = detail::make_program(device_, step.made, parameters_, moments_, options,
                                                 {.trace = trace_ms, .differentiate = step.milliseconds});
  loaded_groups_.reset();
  groups_ = std::move(groups);  // only now: other sizes go on after a build that failed
  group_optimizers_ = std::move(of_groups);
  return made;
}

MEGANEURA_INLINE std::shared_ptr<program> training::select(std::span<const input_values> inputs,
                                                           const symbol_extents& sizes) try {
  return programs_.at(inputs, sizes, [this](const symbol_extents& at) {
    detail::timed<graph_with_loss> traced = detail::take_time([&] { return make_(at, run_mode::training); });
    return build(std::move(traced.made), at, traced.milliseconds);
  });
} catch (...) {
  rethrow_as_error("building a trainer");
}

// Sets step_values_ and returns what is bound.
MEGANEURA_INLINE std::span<const input_values> training::number_step(const meganeura::program& selected,
                                                                     std::span<const input_values> inputs) {
  const double factor = rate_factor();
  step_values_.clear();
  for (const optimizer& each : group_optimizers_) {
    kernels::step_values now = each.step_values(step_ + 1, seed_, factor);
    now.step = static_cast<std::uint32_t>(batches_ + 1);
    if (options_.accumulate > 1)
      now.numbers[detail::step_numbers::updates] = accumulated_ + 1 == options_.accumulate ? 1 : 0;
    step_values_.push_back(now);
  }
  const auto* own = selected.plan().inputs.find(detail::step_numbers::name);
  if (!own) return inputs;
  own_numbers_.resize(static_cast<std::size_t>(own->extents.elements()));
  for (std::size_t i = 0; i * detail::step_numbers::count < own_numbers_.size(); ++i) {
    float* row = &own_numbers_[i * detail::step_numbers::count];
    std::ranges::copy(step_values_[i].numbers, row);
    row[detail::step_numbers::begins] = accumulated_ == 0 ? 1 : 0;
  }
  bound_.assign(inputs.begin(), inputs.end());
  bound_.emplace_back(detail::step_numbers::name, own_numbers_);
  return bound_;
}

MEGANEURA_INLINE pending_step training::step(std::span<const input_values> inputs, const symbol_extents& sizes) try {
  if (step_ == std::numeric_limits<std::uint32_t>::max())
    fail(error_category::unsupported, "step: {} steps are done and no further one is counted; restart", step_);
  const std::shared_ptr<meganeura::program> selected = select(inputs, sizes);
  const std::span<const input_values> bound = number_step(*selected, inputs);
  const std::uint64_t number = selected->submit(step_values_, bound);
  const std::uint32_t counted = step_ + 1;
  const bool updates = accumulated_ + 1 == options_.accumulate;
  accumulated_ = updates ? 0 : accumulated_ + 1;
  if (updates) ++step_;
  ++batches_;
  programs_.ran();
  return {selected, number, counted};
} catch (...) {
  rethrow_as_error("a step");
}

namespace detail {

// "map of layers.0, %12 f32[4, 5], at [1, 2]" of the first value of which that holds; empty if there is none.
template <class Is>
std::string first_value(const graph& g, const program& ran, std::span<const node_id> values, const Is& is) {
  for (const node_id id : values) {
    const std::vector<float> numbers = ran.output_as<float>(fmt::format("%{}", id));
    const auto found = std::ranges::find_if(numbers, is);
    if (found == numbers.end()) continue;
    const auto* leaf = std::get_if<leaf_attribute>(&g.attribute_of(id));
    const std::string name = leaf ? quote(leaf->name) : g.path_of(id);
    return place_of(fmt::format("%{}, {}{}{}, ", id, to_string(g[id].kind),
                                name.empty() ? ""
                                : leaf       ? " "
                                             : " of ",
                                name),
                    g[id].extents, static_cast<std::size_t>(found - numbers.begin()));
  }
  return {};
}

}  // namespace detail

MEGANEURA_INLINE std::string training::first_not_finite(std::span<const input_values> inputs,
                                                        const symbol_extents& sizes) try {
  (void)select(inputs, sizes);  // parameters, groups and their numbers
  graph whole;
  std::vector<node_id> values;
  detail::sized_programs probe(device_, programs_.sizes(), 1);
  const std::shared_ptr<meganeura::program> ran = probe.at(inputs, sizes, [&](const symbol_extents& at) {
    graph_with_loss model = make_(at, run_mode::training);
    whole = detail::training_graph(std::move(model.forward), model.loss, optimizer_, groups_, options_);
    whole.drop_effects();
    const std::vector<bool> left_out = whole.pullbacks();  // which no step computes
    for (node_id id{0}; id < whole.size(); ++id) {
      if (left_out[id]) continue;
      const op kind = whole[id].kind;
      const bool computes = info(kind).stage == op_stage::primitive && kind != op::view;
      if (!is_float(whole[id].type) || (!computes && info(kind).stage != op_stage::leaf)) continue;
      whole.add_output(fmt::format("%{}", id), id);
      values.push_back(id);
    }
    program_options options = options_.program;
    options.optimize.disabled.emplace_back("algebra");  // each computes what it says
    options.checks = checks::none;
    options.taps = {};
    return meganeura::program(device_, whole, parameters_, options);
  });
  optimizer_moments states = ran->moments();
  for (const plan::named_range& each : states.list())
    states.write(each, moments_.read(*std::ranges::find(moments_.list(), each.name, &plan::named_range::name)));
  const std::span<const input_values> bound = number_step(*ran, inputs);
  ran->wait(ran->submit(step_values_, bound));
  const std::string nan = detail::first_value(whole, *ran, values, [](float x) { return std::isnan(x); });
  const std::string infinity = detail::first_value(whole, *ran, values, [](float x) { return std::isinf(x); });
  return fmt::format("{}{}{}{}{}", nan.empty() ? "" : "the first NaN is ", nan,
                     nan.empty() || infinity.empty() ? "" : "; ", infinity.empty() ? "" : "the first infinity is ",
                     infinity);
} catch (...) {
  rethrow_as_error("looking for what is not finite");
}

namespace detail {

// The same with the loss as an output, "loss", and without effects.
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
  g.drop_effects();
  return std::move(g);
}

}  // namespace detail

MEGANEURA_INLINE float training::evaluate(std::optional<inference>& by, const meganeura::parameters& weights,
                                          std::span<const input_values> inputs, const symbol_extents& sizes) {
  check_alive();
  if (!by) {
    run_options options{.program = options_.program, .seed = options_.seed, .most_sizes = options_.most_sizes};
    const auto make = [make = make_, taps = std::exchange(options.program.taps, {})](const symbol_extents& at,
                                                                                     run_mode mode) {
      const auto of_steps = [&] { return make(at, run_mode::training).forward.taps(); };
      return detail::with_taps(detail::evaluated(make(at, mode)), taps, of_steps);
    };
    by.emplace(device_, sized<graph>(programs_.sizes(), make), options, weights);
  }
  const std::uint64_t number = by->start(inputs, sizes);
  evaluated_averages_ = &by == &averages_evaluation_;
  return by->program().scalar_output("loss", number);
}

MEGANEURA_INLINE float training::evaluate(std::span<const input_values> inputs, const symbol_extents& sizes) try {
  return evaluate(evaluation_, parameters_, inputs, sizes);
} catch (...) {
  rethrow_as_error("an evaluation");
}

MEGANEURA_INLINE float training::evaluate_averages(std::span<const input_values> inputs,
                                                   const symbol_extents& sizes) try {
  if (!averages_ || averaged_ != parameters_.changes()) (void)averages();
  return evaluate(averages_evaluation_, averages_, inputs, sizes);
} catch (...) {
  rethrow_as_error("an evaluation");
}

MEGANEURA_INLINE parameters training::averages() try {
  check_alive();
  if (!options_.ema) {
    fail(error_category::invalid_argument, "averages: none are kept; give the training a decay: {{.ema = 0.999f}}");
  }
  if (!parameters_) fail(error_category::invalid_argument, "averages: there are no parameters yet; prepare some sizes");
  std::map<std::string, const plan::named_range*> means;  // before the first step these are of nothing
  if (step_ > 0) {
    for (const plan::named_range& each : moments_.list()) means.emplace(each.name, &each);
  }
  if (!averages_) averages_ = {device_, parameters_.layout()};
  for (const plan::named_tensor& each : parameters_.layout().tensors) {
    const auto mean = means.find(detail::moment_name("ema", each.name));
    averages_.set_bytes(each.name,
                        mean == means.end() ? parameters_.get_bytes(each.name) : moments_.read(*mean->second));
  }
  averaged_ = parameters_.changes();
  return averages_;
} catch (...) {
  rethrow_as_error("copying averages");
}

MEGANEURA_INLINE const inference& training::evaluation() const try {
  check_alive();
  const std::optional<inference>& last = evaluated_averages_ ? averages_evaluation_ : evaluation_;
  if (last) return *last;
  fail(error_category::invalid_argument, "nothing was evaluated yet; evaluate first");
} catch (...) {
  rethrow_as_error("reading an evaluation");
}

MEGANEURA_INLINE void training::set_learning_rate(float rate) try {
  check_alive();
  optimizer chosen = optimizer_.with_rate("learning_rate", rate);
  group_optimizers_ = detail::checked_optimizers(groups_, chosen);
  optimizer_ = std::move(chosen);
} catch (...) {
  rethrow_as_error("setting a learning rate");
}

MEGANEURA_INLINE float training::learning_rate() const {
  check_alive();
  return static_cast<float>(static_cast<double>(optimizer_.learning_rate()) * rate_factor());
}

MEGANEURA_INLINE void training::observe(double number) try {
  check_alive();
  if (!options_.plateau) {
    fail(error_category::invalid_argument,
         "observe: nothing waits for a number; give the training a plateau: {{.plateau = plateau{{}}}}");
  }
  plateau_.observe(*options_.plateau, number);
} catch (...) {
  rethrow_as_error("observing a training");
}

MEGANEURA_INLINE void training::restart() {
  check_alive();
  if (moments_) {
    moments_.reset();
  } else {
    moments_ = {};
  }
  loaded_groups_.reset();
  if (parameters_) parameters_.reset_states();
  step_ = accumulated_ = 0;
  batches_ = 0;
  plateau_ = {};
}

MEGANEURA_INLINE void training::save_checkpoint(const std::string& path) const {
  check_alive();
  meganeura::save_checkpoint(path, parameters_, moments_,
                             {optimizer_, step_, seed_, groups_.described(), accumulated_, plateau_, batches_});
}

MEGANEURA_INLINE void training::load_checkpoint(const std::string& path) {
  check_alive();
  if (!parameters_) {
    fail(error_category::invalid_argument,
         "{} was to be loaded, and this graph's parameters are known with its first program; prepare some sizes, then "
         "load it",
         shown_path(path));
  }
  std::vector<optimizer> of_groups;
  decltype(loaded_groups_) to_compare;
  const auto accept = [&](const training_position& found) {
    if (found.accumulated >= options_.accumulate) {
      fail(
          error_category::invalid_file,
          "{} has accumulated the gradients of {} batches and an update of this training takes {}; nothing was loaded; "
          "give it the same option accumulate",
          shown_path(path), found.accumulated, options_.accumulate);
    }
    if (moments_ && found.groups) detail::check_same_groups(path, groups_.described(), *found.groups, false);
    if (!moments_ && found.groups) to_compare.emplace(path, *found.groups);
    of_groups = detail::checked_optimizers(groups_, found.chosen);
  };
  const loaded_checkpoint loaded = meganeura::load_checkpoint(path, parameters_, moments_, optimizer_, accept);
  optimizer_ = loaded.position.chosen;
  group_optimizers_ = std::move(of_groups);
  loaded_groups_ = std::move(to_compare);
  moments_ = loaded.moments;
  step_ = loaded.position.step;
  accumulated_ = loaded.position.accumulated;
  batches_ = loaded.position.batches.value_or(std::uint64_t{step_} * options_.accumulate + accumulated_);
  plateau_ = loaded.position.plateau;
  seed_ = loaded.position.seed;
}

}  // namespace meganeura::inline MEGANEURA_ABI
