// SPDX-License-Identifier: MIT
// Definitions for runtime/training_graph.hpp.
#pragma once
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/core/boundary.hpp>
#include <meganeura/ops/elementwise.hpp>
#include <meganeura/runtime/clipping.hpp>
#include <meganeura/runtime/step_numbers.hpp>
#include <meganeura/runtime/training_graph.hpp>

#include <fmt/ranges.h>

#include <map>
#include <string_view>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// errors: invalid_argument for a bound of gradients that is none.
MEGANEURA_INLINE const training_options& checked_options(const training_options& options) {
  const auto check = [](std::string_view name, const std::optional<float>& most) {
    if (!most || *most > 0) return;
    fail(error_category::invalid_argument, "{} is {}; it must be above 0, and is left out where nothing is clipped",
         name, *most);
  };
  if (options.accumulate == 0) {
    fail(error_category::invalid_argument,
         "accumulate is 0; it counts the batches of an update, and must be at least 1");
  }
  if (const auto& by = options.plateau) {
    const auto share = [](std::string_view name, double value) {
      if (value >= 0 && value <= 1) return;
      fail(error_category::invalid_argument, "plateau: {} is {}; it must be 0 to 1", name, value);
    };
    share("factor", by->factor);
    share("threshold", by->threshold);
    share("least", by->least);
  }
  check("clip_norm", options.clip_norm);
  check("clip_value", options.clip_value);
  return options;
}

MEGANEURA_INLINE void check_loss(const graph& g, node_id value) {
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

class update_writer {
 public:
  update_writer(graph& g, const optimizer& chosen, const parameter_groups& groups, const training_options& options)
      : g_(g), chosen_(chosen), groups_(groups), options_(options) {
    if (options.accumulate == 1 && !chosen.has_direction()) return;
    const auto sets = static_cast<std::int64_t>(groups.count());
    numbers_ = g.input(step_numbers::name, dtype::f32, {sets, static_cast<std::int64_t>(step_numbers::count)});
  }

  void accumulate(const std::vector<node_id>& updated, std::vector<node_id>& slopes) {
    if (options_.accumulate == 1) return;
    for (std::size_t i = 0; i < updated.size(); ++i) {
      const node_value slope(g_, slopes[i]), before = state("accumulated", updated[i], g_[slopes[i]].extents);
      const node_value first = number(0, step_numbers::begins);
      const node_value total = select(equal(first, 0.0f), before + slope, slope);
      g_.assign(before, total);
      slopes[i] = total / static_cast<float>(options_.accumulate);
    }
  }

  void update(const std::vector<node_id>& updated, const std::vector<node_id>& slopes, node_id scale) {
    std::map<std::uint32_t, std::vector<node_id>> pairs;
    for (std::size_t i = 0; i < updated.size(); ++i) {
      const std::uint32_t group = groups_.of(name_of(updated[i]));
      const node_id slope = chosen_.has_direction() ? directed(updated[i], slopes[i], scale, group) : slopes[i];
      pairs[group].insert(pairs[group].end(), {updated[i], slope});
    }
    optimizer_attribute rule = chosen_.rule(options_.accumulate > 1);
    for (const auto& [group, operands] : pairs) {
      rule.group = group;
      g_.optimizer_step(rule, operands, chosen_.has_direction() ? no_id : scale);
    }
  }

 private:
  [[nodiscard]] const std::string& name_of(node_id parameter) const { return g_.get<leaf_attribute>(parameter).name; }
  [[nodiscard]] node_value state(std::string_view kind, node_id parameter, const shape& extents) {
    return {g_, g_.state(moment_name(kind, name_of(parameter)), dtype::f32, extents, init::each_run)};
  }
  [[nodiscard]] node_value number(std::uint32_t group, std::size_t which) {
    const std::int64_t at = static_cast<std::int64_t>(group * step_numbers::count + which);
    return {g_, g_.view(numbers_, {}, {.offset = at})};
  }

  // What the optimiser makes of a gradient before its rule has it.
  [[nodiscard]] node_id directed(node_id parameter, node_id slope, node_id scale, std::uint32_t group) {
    const node_value gradient(g_, slope);
    optimizer_tensor whole{{g_, parameter}, scale == no_id ? gradient : gradient * node_value(g_, scale), {}, {}};
    for (const optimizer_state& each : chosen_.states(g_[parameter].extents))
      whole.states.push_back(state(each.name, parameter, each.extents));
    for (std::size_t i = 0; i < max_optimizer_numbers; ++i) whole.numbers.push_back(number(group, i));
    const std::vector<node_value> made = chosen_.direction(whole);
    if (made.size() != whole.states.size() + 1) {
      fail(error_category::invalid_argument,
           "{} keeps {} states and its direction gives {} values; it has to give what update gets as the gradient and "
           "each new state",
           chosen_.name(), whole.states.size(), made.size());
    }
    for (std::size_t i = 0; i < whole.states.size(); ++i) {
      const node_value& old = whole.states[i];
      const bool waits = options_.accumulate > 1;
      g_.assign(old, waits ? select(equal(whole.numbers[step_numbers::updates], 0.0f), old, made[i + 1]) : made[i + 1]);
    }
    return made[0];
  }

  graph& g_;
  const optimizer& chosen_;
  const parameter_groups& groups_;
  const training_options& options_;
  node_id numbers_ = no_id;
};

// "map (less, convert)", "reduce (arg_max)", "gather": the operation and the functions of which it is made.
inline std::string operation_of(const graph& g, node_id id) {
  std::vector<std::string_view> functions;
  if (const auto* map = std::get_if<map_attribute>(&g.attribute_of(id))) {
    for (const scalar_node& each : map->program.nodes) {
      if (each.op != scalar_op::argument && each.op != scalar_op::constant) functions.push_back(info(each.op).name);
    }
  } else if (const auto* reduce = std::get_if<reduce_attribute>(&g.attribute_of(id))) {
    functions.push_back(info(reduce->kind).name);
  }
  return functions.empty() ? std::string(to_string(g[id].kind))
                           : fmt::format("{} ({})", to_string(g[id].kind), fmt::join(functions, ", "));
}

MEGANEURA_INLINE graph training_graph(graph g, node_id loss, const optimizer& chosen, const parameter_groups& groups,
                                      const training_options& options) try {
  if (g.depends_on_mode() && g.mode() != run_mode::training) {
    fail(error_category::invalid_argument,
         "the graph has layers that do something else in training and was built for evaluation; build the model in a "
         "graph(run_mode::training)");
  }
  check_loss(g, loss);
  g.add_output("loss", loss);
  std::vector<node_id> weights = g.leaves(op::parameter);
  const auto name_of = [&](node_id id) -> const std::string& { return g.get<leaf_attribute>(id).name; };
  std::erase_if(weights, [&](node_id id) { return !is_float(g[id].type) || groups.is_frozen(name_of(id)); });
  const std::vector<node_id> reached = reached_gradients(g, loss, weights);
  std::vector<node_id> updated, slopes;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (reached[i] == no_id) continue;
    check_trained(g, weights[i]);
    updated.push_back(weights[i]);
    slopes.push_back(reached[i]);
  }
  if (updated.empty()) {
    const node_id stop = gradient_stop(g, loss, weights);
    if (stop == no_id) {
      fail(error_category::invalid_argument,
           "the loss reaches no parameter, there is nothing to train; the model has none, or all are frozen");
    }
    const std::string path = g.path_of(stop);
    fail(error_category::invalid_argument,
         "the loss reaches no parameter, there is nothing to train: %{}, {}{}{}, passes no gradient on; leave it out, "
         "or "
         "give it one by custom_gradient",
         stop, operation_of(g, stop), path.empty() ? "" : " of ", path);
  }
  const graph::scope in(g, "optimizer");
  update_writer writer(g, chosen, groups, options);
  writer.accumulate(updated, slopes);
  if (options.clip_value) clip_values(g, slopes, *options.clip_value);
  const node_id scale = options.clip_norm ? clip_norm(g, slopes, *options.clip_norm) : no_id;
  writer.update(updated, slopes, scale);
  return g;
} catch (...) {
  rethrow_as_error("building a training step");
}

MEGANEURA_INLINE std::vector<std::string> leaf_names(const graph& g) {
  std::vector<std::string> names;
  for (const node_id id : g.leaves(op::parameter)) names.push_back(g.get<leaf_attribute>(id).name);
  return names;
}

MEGANEURA_INLINE parameter_groups groups_of(std::span<const std::string> names, const training_options& options,
                                            parameter_groups known) {
  return {names, options.frozen, options.no_decay, options.groups, std::move(known)};
}

}  // namespace detail

MEGANEURA_INLINE graph make_training_graph(graph g, node_id loss, const optimizer& chosen,
                                           const training_options& options) try {
  const training_options& asked = detail::checked_options(options);
  const parameter_groups groups = detail::groups_of(detail::leaf_names(g), asked, {});
  return detail::training_graph(std::move(g), loss, options.ema ? chosen.with_ema(*options.ema) : chosen, groups,
                                asked);
} catch (...) {
  rethrow_as_error("building a training graph");
}

}  // namespace meganeura::inline MEGANEURA_ABI
