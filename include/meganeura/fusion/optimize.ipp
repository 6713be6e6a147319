// SPDX-License-Identifier: MIT
// Definitions for fusion/optimize.hpp and fusion/saturated_graph.hpp.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/nearest.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/core/stopwatch.hpp>
#include <meganeura/egraph/saturate.hpp>
#include <meganeura/fusion/engine.hpp>
#include <meganeura/fusion/explain.hpp>
#include <meganeura/fusion/kernel_family.hpp>
#include <meganeura/fusion/legalize.hpp>
#include <meganeura/fusion/merge.hpp>
#include <meganeura/fusion/optimize.hpp>
#include <meganeura/fusion/rules.hpp>
#include <meganeura/fusion/saturated_graph.hpp>
#include <meganeura/fusion/tuned_products.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>

namespace meganeura::inline MEGANEURA_ABI::fusion {

namespace detail {

// The same gradient of an image: along an axis of one window alone no two overlap, whatever the stride. So each place
// is one tap's, as of a layer whose kernel is as large as its image, where taps times places would be multiplied.
inline convolution_attribute of_lone_windows(convolution_attribute geometry, const shape& results,
                                             const shape& filter) {
  for (int i = 0; i < geometry.spatial; ++i) {
    const std::int64_t apart = geometry.dilation[i] * filter[i + 2];
    if (results[i + 2] == 1) geometry.stride[i] = std::max(geometry.stride[i], apart);
  }
  return geometry;
}

inline void import_graph(const graph& g, const region_limits& limits, saturated_graph& result) {
  engine& e = result.graph;
  const std::vector<bool> left_out = g.pullbacks();
  result.classes.reserve(g.size());
  for (node_id id{0}; id < g.size(); ++id) {
    const node& n = g[id];
    if (left_out[id]) {
      result.classes.push_back(no_id);
      continue;
    }
    if (n.kind == op::adjoint) {
      fail(
          error_category::invalid_argument,
          "a step reads what the backward of a custom_gradient computes, {} {}{}{}, and only gradients know it; return "
          "it from backward and read it nowhere else",
          to_string(n.type), to_string(n.extents), n.path == path_pool::root ? "" : " in ", g.path_of(id));
    }
    class_list operands;
    for (node_id operand : g.operands(id)) operands.push_back(result.classes[operand]);
    e.at(n.path);
    // They have done their work; keeping one as a node equal to its operand would make a class reach itself.
    if (n.kind == op::stop_gradient || n.kind == op::custom_gradient) {
      result.classes.push_back(operands[0]);
    } else if (n.kind == op::concat) {
      const std::size_t most = std::min(concat_pieces, std::max<std::size_t>(limits.buffers, 2));
      result.classes.push_back(add_concat(e, n.type, g.get<axis_attribute>(id).axis, operands, most));
    } else if (n.kind == op::map) {
      const map_attribute& map = g.get<map_attribute>(id);
      result.classes.push_back(add_map(e, n.type, n.extents, map, operands, limits.buffers));
    } else if (n.kind == op::convolution && g.get<convolution_attribute>(id).form == convolution_attribute::input) {
      const auto geometry =
          of_lone_windows(g.get<convolution_attribute>(id), g[g.operand(id, 0)].extents, g[g.operand(id, 1)].extents);
      result.classes.push_back(e.add(n.kind, n.type, n.extents, geometry, operands));
    } else if (n.kind == op::contract) {
      const contract_attribute labels = g.get<contract_attribute>(id);
      result.classes.push_back(add_contract(e, n.type, n.extents, labels, operands[0], operands[1]));
    } else {
      result.classes.push_back(e.add(n.kind, n.type, n.extents, g.attribute_of(id), operands));
    }
  }
  for (const graph_output& output : g.outputs()) result.roots.push_back(result.classes[output.node]);
  for (node_id effect : g.effects()) result.roots.push_back(result.classes[effect]);
}

// Refuses devices on which nothing can be computed, or by which nothing is cheaper than anything else.
inline void check(const device_profile& device) {
  const auto expect = [](bool holds, const char* name, double found, const char* what) {
    if (!holds) fail(error_category::invalid_argument, "device_profile::{} is {}; it has to be {}", name, found, what);
  };
  const auto positive = [&](const char* name, double found) {
    expect(std::isfinite(found) && found > 0, name, found, "a positive number");
  };
  const auto seconds = [&](const char* name, double found) {
    expect(std::isfinite(found) && found >= 0, name, found, "seconds, 0 or more");
  };
  positive("subgroup_size", device.subgroup_size);
  positive("max_invocations", device.max_invocations);
  positive("max_shared_bytes", device.max_shared_bytes);
  positive("compute_units", device.compute_units);
  positive("split_terms", static_cast<double>(device.split_terms));
  positive("bandwidth", device.bandwidth);
  positive("cache_bytes", device.cache_bytes);
  positive("memory_share", device.memory_share);
  positive("scalar_flops", device.scalar_flops);
  positive("matmul_flops", device.matmul_flops);
  positive("matrix_flops", device.matrix_flops);
  positive("transcendental", device.transcendental);
  positive("strided_read", device.strided_read);
  positive("full_occupancy", device.full_occupancy);
  seconds("launch.group", device.launch.group);
  seconds("launch.dispatch", device.launch.dispatch);
  seconds("product_once", device.product_once);
  seconds("vectors_once", device.vectors_once);
  seconds("region_once", device.region_once);
  for (const auto& [name, costs] :
       {std::pair("split", &device.split), std::pair("rounded", &device.rounded), std::pair("half", &device.half)}) {
    for (const double each : {costs->once, costs->wait, costs->multiply, costs->load, costs->stage, costs->registers,
                              costs->few, costs->exchange, costs->code})
      seconds(name, each);
  }
}

// The product with the schedule that was measured for it, if there is one: which products there are costs alone decide.
inline std::optional<matmul_attribute> with_tuned_schedule(const attribute& what, const optimize_options& options) {
  const auto* product = std::get_if<matmul_attribute>(&what);
  if (product == nullptr || !options.tuned || options.schedule || product->schedule.is_half() || product->paired)
    return {};
  const product_extents extents = extents_of(*product);
  const product_schedule* tuned = options.tuned->find(extents, options.precision);
  if (tuned == nullptr || (!product->start.is_empty() && !(tuned->is_scaled() && tuned->parts == 1 &&
                                                           fits_beside(*tuned, true, false, options.device))))
    return {};
  if (!product->further.empty() && !tuned->is_on_units()) return {};
  if (product->prepared && !can_be_prepared(*tuned)) return {};
  if (!detail::is_forward(product->a) && tuned->places != place_axes::columns) return {};
  if (!product->border.is_empty() && tuned->places == place_axes::none) return {};
  if (!is_on_offer(*tuned, extents, options.precision, device_of(options))) return {};
  matmul_attribute changed = *product;
  changed.schedule = *tuned;
  return changed;
}

struct exported_plan {
  graph result;
  std::vector<kernel_time> times;  // of each node
  std::vector<node_id> made;       // of each class
};

inline exported_plan export_graph(const graph& g, const saturated_graph& from, const extraction& plan,
                                  const optimize_options& options) {
  const engine& e = from.graph;
  exported_plan all{graph(g.paths()), {}, std::vector<node_id>(e.class_slots(), no_id)};
  auto& [result, times, made] = all;
  // Leaves first and in the order of the source: bindings and checkpoints list them that way.
  for (node_id id{0}; id < g.size(); ++id) {
    if (info(g[id].kind).stage != op_stage::leaf || from.classes[id] == no_id) continue;
    const class_id own = e.find(from.classes[id]);
    if (plan.chosen[own] == no_id) continue;
    const graph::scope in(result, g[id].path);
    made[own] = result.add_node(g[id].kind, g[id].type, g[id].extents, g.attribute_of(id), {});
  }
  for (class_id id : plan.order) {
    if (made[id] != no_id) continue;
    const enode_id chosen = plan.chosen[id];
    small_vector<node_id, 8> operands;
    for (class_id operand : e.operands(chosen)) operands.push_back(made[e.find(operand)]);
    const graph::scope in(result, e.node(chosen).path);
    const auto tuned = with_tuned_schedule(e.attribute_of(chosen), options);
    made[id] = result.add_node(e.node(chosen).kind, e.node(chosen).type, e.extents(id),
                               tuned ? attribute_ref(*tuned) : attribute_ref(e.attribute_of(chosen)), operands);
    times.resize(result.size());
    times[made[id]] = node_time(e, chosen, options.device);  // which may be a node that is there
  }
  for (const graph_output& output : g.outputs()) {
    result.add_output(output.name, made[e.find(from.classes[output.node])]);
  }
  times.resize(result.size());
  return all;
}

using algebra_subset = decltype(rules::algebra)::subset;
static_assert(rule_mask::size >= structural_count + decltype(rules::algebra)::count);

struct rule_line {
  std::string name;
  std::string_view family;
  exactness kind = exactness::exact;
};

// By their bit in a rule_mask.
inline std::vector<rule_line> all_rules() {
  std::vector<rule_line> all;
  for (const structural_info& each : structural_rules) all.push_back({each.name, each.family, each.kind});
  all.resize(structural_count);
  for_each_implementation([&]<op Kind> {
    all[static_cast<std::size_t>(making(Kind))].name = to_string(making(Kind));
    all[static_cast<std::size_t>(ending(Kind))] = {to_string(ending(Kind)), "epilogues"};
  });
  rules::algebra.for_each(algebra_subset::all(), [&](std::size_t, const auto& rule) {
    all.push_back({std::string(rule.name), "algebra", rule.kind});
  });
  return all;
}

inline rule_mask enabled_rules(const optimize_options& options, std::span<const rule_line> all) {
  rule_mask enabled = rule_mask::all();
  const auto leave_out = [&](const auto& is_out) {
    bool any = false;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!is_out(all[i])) continue;
      enabled -= rule_mask::of(i);
      any = true;
    }
    return any;
  };
  for (const std::string& name : options.disabled) {
    if (!name.empty() && leave_out([&](const rule_line& rule) { return rule.name == name || rule.family == name; }))
      continue;
    std::vector<std::string> names;
    for (const rule_line& each : all) names.push_back(each.name), names.emplace_back(each.family);
    fail(
        error_category::invalid_argument,
        "there is no rule or family of rules {} to leave out, as optimize_options::disabled or MEGANEURA_DISABLE asks; "
        "families are algebra, fusion, products, epilogues, attention and splits, rules those of "
        "optimize_report::rules{}",
        quote(name), meganeura::detail::did_you_mean(meganeura::detail::nearest(name, names)));
  }
  (void)leave_out([&](const rule_line& rule) { return rule.kind > options.tolerance; });
  return enabled;
}

inline algebra_subset admitted_rules(const rule_mask& enabled) {
  algebra_subset admitted;
  for (std::size_t i = 0; i < decltype(rules::algebra)::count; ++i) {
    if (enabled[structural_count + i]) admitted |= algebra_subset::of(i);
  }
  return admitted;
}

// Refuses what a rule that was left out would have computed, by the first value of that kind.
inline void check_kernels(const saturated_graph& all, const optimize_options& options, std::span<const rule_line> rules,
                          const rule_mask& enabled) {
  const engine& g = all.graph;
  std::vector<bool> computed(g.class_slots());
  const auto is_computed = [&](enode_id id, bool by_itself) {
    for (class_id operand : g.operands(id)) {
      if (!computed[g.find(operand)]) return false;
    }
    return !g.node(id).dead && (!by_itself || std::isfinite(node_time(g, id, options.device).alone));
  };
  for (bool is_new = true; is_new;) {
    is_new = false;
    for (class_id id : all.order) {
      if (computed[g.find(id)]) continue;
      const auto& nodes = g[g.find(id)].nodes;
      if (std::ranges::none_of(nodes, [&](enode_id node) { return is_computed(node, true); })) continue;
      computed[g.find(id)] = is_new = true;
    }
  }
  for (class_id id : all.order) {
    if (computed[g.find(id)]) continue;
    for (enode_id node : g[g.find(id)].nodes) {
      if (!is_computed(node, false)) continue;
      const std::string kind = to_string(g.node(node).kind);
      std::string needed;
      for (std::size_t i = 0; i < rules.size(); ++i) {
        if (enabled[i] || !rules[i].name.starts_with(kind + "_to_")) continue;
        needed += (needed.empty() ? "" : " or ") + rules[i].name;
      }
      if (needed.empty()) continue;
      fail(error_category::invalid_argument,
           "nothing computes {} {}{} without {}: take it out of optimize_options::disabled or MEGANEURA_DISABLE", kind,
           to_string(g[g.find(id)].type), to_string(g.extents(g.find(id))), needed);
    }
  }
}

// The kernels that each rule had a part in.
inline void count_kernels(const engine& e, const extraction& plan, std::span<rule_report> rules) {
  for (class_id id : plan.order) {
    const enode& node = e.node(plan.chosen[id]);
    const op_stage stage = info(node.kind).stage;
    if (stage == op_stage::leaf || stage == op_stage::projection) continue;
    for (std::size_t i = 0; i < rules.size(); ++i) rules[i].kernels += node.reasons[i];
  }
}

}  // namespace detail

MEGANEURA_INLINE bool saturated_graph::is_folded(enode_id id) const {
  if (folded.empty() || graph.node(id).kind == op::random) return false;
  const op_stage stage = info(graph.node(id).kind).stage;
  if (stage == op_stage::leaf || stage == op_stage::effect) return false;
  const class_id owner = graph.find(graph.node(id).owner);
  if (is_of_step(owner)) return false;
  const auto names_one_of_step = [&](enode_id reader) {
    return graph.node(reader).kind == op::result && is_of_step(graph.node(reader).owner);
  };
  if (stage == op_stage::implementation && std::ranges::any_of(graph[owner].parents, names_one_of_step)) return false;
  return std::ranges::all_of(graph.operands(id), [&](class_id operand) { return is_folded_class(operand); });
}

MEGANEURA_INLINE kernel_time saturated_graph::time_in_step(enode_id id, const device_profile& device) const {
  const kernel_time all = node_time(graph, id, device);
  constexpr double hardly = 1e-3, never = std::numeric_limits<double>::infinity();
  const op_stage stage = info(graph.node(id).kind).stage;
  if (folded.empty() || stage == op_stage::leaf || !std::isfinite(all.alone)) return all;
  if (is_folded(id)) return {.alone = 0, .busy = hardly * all.alone};
  return is_folded_class(graph.node(id).owner) ? kernel_time{never, never} : all;
}

namespace detail {

// Parameters and states that no step of the graph changes, and what a kernel can compute that reads nothing else. No
// number that the host reads of every step, and nothing that an effect reads.
inline void find_folded(const graph& g, const device_profile& device, saturated_graph& all) {
  all.folded.assign(all.graph.class_slots(), false);
  std::vector<bool> is_written(g.size(), false);
  for (node_id effect : g.effects()) {
    for (const update& each : g.updates(effect)) is_written[each.target] = true;
  }
  all.of_step.assign(all.graph.class_slots(), false);
  for (const graph_output& output : g.outputs()) {
    const node& n = g[output.node];
    if (n.type == dtype::f32 && n.extents.rank() == 0) all.of_step[all.graph.find(all.classes[output.node])] = true;
  }
  for (node_id effect : g.effects()) {
    for (node_id operand : g.operands(effect)) all.of_step[all.graph.find(all.classes[operand])] = true;
  }
  for (const op kind : {op::parameter, op::state}) {
    for (node_id id : g.leaves(kind)) {
      if (!is_written[id] && all.classes[id] != no_id) all.folded[all.graph.find(all.classes[id])] = true;
    }
  }
  for (bool is_new = true; is_new;) {  // once, or a little more where classes are not listed operands first
    is_new = false;
    for (class_id id : all.order) {
      const class_id known = all.graph.find(id);
      const auto& nodes = all.graph[known].nodes;
      const auto counts = [&](enode_id node) {
        return !all.graph.node(node).dead && all.is_folded(node) &&
               std::isfinite(node_time(all.graph, node, device).alone);
      };
      if (all.folded[known] || std::ranges::none_of(nodes, counts)) continue;
      all.folded[known] = is_new = true;
    }
  }
}

}  // namespace detail

MEGANEURA_INLINE saturated_graph saturate(const graph& g, const optimize_options& options, optimize_report& report) {
  detail::check(options.device);
  if (options.precision != precision::exact && options.precision != precision::fast) {
    fail(error_category::invalid_argument, "precision {} was asked for; it is precision::exact or precision::fast",
         static_cast<int>(options.precision));
  }
  const std::vector<detail::rule_line> rules = detail::all_rules();
  const rule_mask enabled = detail::enabled_rules(options, rules);
  saturated_graph result;
  result.enabled = enabled;
  meganeura::detail::stopwatch phase;
  detail::import_graph(g, options.region, result);
  report.nodes_in = g.size();
  implementation_pass pass(result.graph, {enabled, options.region, options.region_forms, device_of(options),
                                          options.precision, options.schedule});
  pass.rewrite_masks();  // before the algebra: what a mask reads decides something
  const egraph::saturation_limits limits{options.max_nodes, options.max_matches, options.max_iterations,
                                         options.max_steps};
  const egraph::saturation_report found =
      egraph::run_rules(result.graph, rules::algebra, detail::admitted_rules(enabled), structural_count, limits);
  report.saturate_ms = phase.lap();
  report.iterations = found.iterations;
  report.limits = found.limits;
  pass.rewrite_sums();
  pass.run(result.roots);
  report.implement_ms = phase.lap();
  result.order = pass.order();
  result.missed = pass.missed();
  if (options.fold.value_or(false)) {
    detail::find_folded(g, options.device, result);
    if (pass.prepare_weights([&](class_id id) { return result.is_folded_class(id); })) {
      result.order = pass.order();
      detail::find_folded(g, options.device, result);
    }
    result.missed = pass.missed();
    report.implement_ms += phase.lap();
  }
  for (std::size_t i = 0; i < pass.applied().size(); ++i) {
    report.rules.push_back({rules[i].name, pass.applied()[i], pass.applied()[i]});
  }
  for (std::size_t i = 0; i < found.matches.size(); ++i) {
    report.rules.push_back({rules[structural_count + i].name, found.matches[i], found.applied[i]});
  }
  report.enodes = result.graph.node_count();
  report.classes = result.order.size();
  if (!options.disabled.empty()) detail::check_kernels(result, options, rules, enabled);
  return result;
}

namespace detail {

inline const shape* gradient_space(const engine& g, enode_id id) {
  if (g.node(id).kind != op::attention || g.node(id).dead) return nullptr;
  const auto& node = g.get<attention_attribute>(id);
  return node.form == attention_form::output ? nullptr : &node.space;
}

inline bool has_prologue(const engine& g, enode_id id) {
  return g.node(id).kind == op::matmul && !g.node(id).dead && !g.get<matmul_attribute>(id).start.is_empty();
}

// Weights that are computed otherwise than of what attention knows of its rows, where they can be.
inline bool is_softmax_beside_attention(const engine& g, enode_id id) {
  const auto is_told = [&](enode_id other) { return has(g.node(other).reasons, structural::attention_weights); };
  if (g.node(id).dead || is_told(id)) return false;
  const auto is_another_way = [&](enode_id other) {  // and not only a product that goes on from there
    return g.node(other).kind == op::region && !g.node(other).dead && is_told(other);
  };
  return std::ranges::any_of(g[g.find(g.node(id).owner)].nodes, is_another_way);
}

// Of a node that computes otherwise what gradients of attention do, the sizes of these: itself is none.
inline const shape* space_of_gradient_beside(const engine& g, enode_id id) {
  if (g.node(id).dead || g.node(id).kind == op::attention || g.node(id).kind == op::result) return nullptr;
  for (const enode_id other : g[g.find(g.node(id).owner)].nodes) {
    if (const shape* space = gradient_space(g, other)) return space;
    if (g.node(other).dead || g.node(other).kind != op::result) continue;
    if (const shape* space = gradient_space(g, g[g.operand(other, 0)].nodes[0])) return space;
  }
  return nullptr;
}

// What a choice does without: choices that are better together than one by one, or in the way of such.
struct left_out {
  std::vector<shape> gradients{}, beside_gradients{};  // of attention, by their sizes; what else computes the same
  bool prologues = false, softmaxes = false;
  double seconds = 1;  // that such a node costs more: still chosen where nothing else computes the value

  [[nodiscard]] bool has(const engine& g, enode_id id) const {
    if (prologues && has_prologue(g, id)) return true;
    if (softmaxes && is_softmax_beside_attention(g, id)) return true;
    const auto is_one_of = [](const std::vector<shape>& sizes, const shape* space) {
      return space != nullptr && std::ranges::find(sizes, *space) != sizes.end();
    };
    return (!gradients.empty() && is_one_of(gradients, gradient_space(g, id))) ||
           (!beside_gradients.empty() && is_one_of(beside_gradients, space_of_gradient_beside(g, id)));
  }
};

inline extraction choose_without(saturated_graph& all, const egraph::choice_table& from,
                                 const optimize_options& options, const left_out& without) {
  const auto more = [&](enode_id id) { return without.has(all.graph, id) ? without.seconds : 0; };
  const auto merge = [&](const extraction& chosen, const egraph::choice_so_far& choice) {
    merge_regions(all.graph, chosen, options.region, choice, [&](class_id id) { return all.is_folded_class(id); });
  };
  const bool merges = has(all.enabled, structural::merge_regions);
  return egraph::extract(from, merges ? egraph::growth(merge) : egraph::growth(), options.search_passes, more);
}

}  // namespace detail

// Some choices are many at once, which an extraction does not find, or not back from, one by one. Prologues of products
// are taken for the groups' sake alone; where weights by a softmax beside attention, or gradients of attention of a
// size, are chosen, it is tried what comes of the same for them; and where gradients of attention are not chosen, of
// such whose weights are many, what comes of these.
MEGANEURA_INLINE extraction choose(saturated_graph& all, const optimize_options& options) {
  detail::left_out without{.prologues = true};
  const auto time = [&](enode_id id) { return all.time_in_step(id, options.device); };
  std::optional<egraph::choice_table> table;
  const auto choose_without = [&](const detail::left_out& more) {
    if (!table || !table->is_current()) table.emplace(all.graph, all.order, all.roots, time, options.device.launch);
    return detail::choose_without(all, *table, options, more);
  };
  extraction best = choose_without(without);
  if (options.search_passes == 0) return best;
  without.seconds += best.seconds;
  const auto attempt = [&](const detail::left_out& more) {
    extraction found = choose_without(more);
    if (found.seconds >= best.seconds) return;
    best = std::move(found);
    without = more;
  };
  const auto is_softmax = [&](class_id id) { return detail::is_softmax_beside_attention(all.graph, best.chosen[id]); };
  if (std::ranges::any_of(best.order, is_softmax)) {
    detail::left_out more = without;
    more.softmaxes = true;
    attempt(more);
  }
  std::vector<shape> sizes;
  for (const class_id id : best.order) {
    const shape* space = detail::gradient_space(all.graph, best.chosen[id]);
    if (space != nullptr && std::ranges::find(sizes, *space) == sizes.end()) sizes.push_back(*space);
  }
  for (const shape& each : sizes) {
    detail::left_out more = without;
    more.gradients.push_back(each);
    attempt(more);
  }
  std::vector<shape> others;
  for (enode_id id{0}; id < static_cast<enode_id>(all.graph.node_count()); ++id) {
    const shape* space = detail::gradient_space(all.graph, id);
    if (space == nullptr || std::ranges::find(sizes, *space) != sizes.end()) continue;
    const auto [batch, queries, channels, keys, width] = all.graph.get<attention_attribute>(id).sizes();
    const bool are_few = 4 * static_cast<double>(batch * queries * keys) < options.device.cache_bytes / 4;
    if (!are_few && std::ranges::find(others, *space) == others.end()) others.push_back(*space);
  }
  for (const shape& each : others) {
    detail::left_out more = without;
    more.beside_gradients.push_back(each);
    attempt(more);
  }
  return best;
}

MEGANEURA_INLINE graph optimize(const graph& g, const optimize_options& options, optimize_report* report) {
  optimize_report local;
  optimize_report& r = report ? *report : local;
  r = {};
  meganeura::detail::stopwatch total;
  saturated_graph all = saturate(g, options, r);
  meganeura::detail::stopwatch phase;
  const extraction plan = choose(all, options);
  detail::exported_plan made = detail::export_graph(g, all, plan, options);
  r.extract_ms = phase.lap();
  r.total_ms = total.lap();
  r.nodes_out = made.result.size();
  r.repair_passes = plan.passes;
  r.predicted_seconds = plan.seconds;
  r.groups = plan.groups;
  r.moved = plan.moved;
  const structural merging = structural::merge_regions;
  r.rules[static_cast<std::size_t>(merging)] = {to_string(merging), plan.offered, plan.merged};
  detail::count_kernels(all.graph, plan, r.rules);
  if (options.explain) r.explain = explain(g, all, plan, made.result, made.made, options, r.rules);
  r.times = std::move(made.times);
  return std::move(made.result);
}

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
