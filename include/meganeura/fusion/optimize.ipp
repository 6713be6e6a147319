// SPDX-License-Identifier: MIT
// Definitions for fusion/optimize.hpp and fusion/saturated_graph.hpp.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/nearest.hpp>
#include <meganeura/core/stopwatch.hpp>
#include <meganeura/egraph/saturate.hpp>
#include <meganeura/fusion/engine.hpp>
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
  if (!is_on_offer(*tuned, extents, options.precision, device_of(options))) return {};
  matmul_attribute changed = *product;
  changed.schedule = *tuned;
  return changed;
}

inline graph export_graph(const graph& g, const saturated_graph& from, const extraction& plan,
                          const optimize_options& options, std::vector<kernel_time>& times) {
  const engine& e = from.graph;
  graph result(g.paths());
  std::vector<node_id> made(e.class_slots(), no_id);
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
  return result;
}

inline rule_mask enabled_rules(const optimize_options& options, std::span<const std::string> names) {
  rule_mask enabled = rule_mask::all();
  for (const std::string& name : options.disabled) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      fail(error_category::invalid_argument,
           "there is no rule \"{}\" to disable: optimize_report::rules has all there are{}", name,
           meganeura::detail::did_you_mean(meganeura::detail::nearest(name, {names.begin(), names.end()})));
    }
    enabled -= rule_mask::of(static_cast<std::size_t>(found - names.begin()));
  }
  if (!options.fusion) {
    enabled -= bit(structural::fuse_pointwise) | bit(structural::fuse_rows) | bit(structural::recompute) |
               bit(structural::matmul_prologue) | bit(structural::matmul_pair) | bit(structural::matmul_results) |
               bit(structural::matmul_rotary);
  }
  if (options.tolerance == exactness::exact)
    enabled -= bit(structural::skip_rounding) | bit(structural::softmax_spelling) | bit(structural::fuse_attention) |
               bit(structural::attention_weights) | bit(structural::attention_gradients) |
               bit(structural::matmul_prologue);
  for_each_implementation([&]<op Kind> {
    if (!options.epilogues) enabled -= bit(ending(Kind));
  });
  return enabled;
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

inline std::string explain(const path_pool& paths, const engine& e, const extraction& plan,
                           std::span<const missed_fusion> missed, std::span<const std::string> names) {
  std::string text;
  const auto end = std::back_inserter(text);
  for (class_id id : plan.order) {
    const enode& n = e.node(plan.chosen[id]);
    if (info(n.kind).stage == op_stage::leaf) continue;
    const std::string path = paths.text(n.path);
    fmt::format_to(end, "c{} = {}{}{} {}{} {}:", id, path, path.empty() ? "" : ": ", to_string(n.kind),
                   to_string(n.type), to_string(e.extents(id)), to_string(e.attribute_of(plan.chosen[id])));
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (n.reasons[i]) (text += ' ') += names[i];
    }
    text += '\n';
  }
  std::set<std::tuple<class_id, class_id, structural, std::string_view>> said;  // it may have been met in several forms
  for (const missed_fusion& m : missed) {
    if (m.producer == no_id) continue;
    const class_id consumer = e.find(m.consumer), producer = e.find(m.producer);
    if (plan.chosen[consumer] == no_id || plan.chosen[producer] == no_id) continue;
    if (!said.insert({producer, consumer, m.rule, m.guard}).second) continue;
    fmt::format_to(end, "not fused: c{} into c{} by {}: {}\n", producer, consumer, to_string(m.rule), m.guard);
  }
  return text;
}

}  // namespace detail

namespace detail {

using algebra_subset = decltype(rules::algebra)::subset;
static_assert(rule_mask::size >= structural_count + decltype(rules::algebra)::count);

inline std::vector<std::string> rule_names() {
  std::vector<std::string> names;
  for (int i = 0; i < structural_count; ++i) names.emplace_back(to_string(static_cast<structural>(i)));
  rules::algebra.for_each(algebra_subset::all(), [&](std::size_t, const auto& rule) { names.emplace_back(rule.name); });
  return names;
}

inline algebra_subset admitted_rules(const optimize_options& options, const rule_mask& enabled) {
  algebra_subset admitted;
  if (!options.algebra) return admitted;
  rules::algebra.for_each(algebra_subset::all(), [&](std::size_t i, const auto& rule) {
    if (rule.kind <= options.tolerance && enabled[structural_count + i]) admitted |= algebra_subset::of(i);
  });
  return admitted;
}

}  // namespace detail

MEGANEURA_INLINE saturated_graph saturate(const graph& g, const optimize_options& options, optimize_report& report) {
  detail::check(options.device);
  if (options.precision != precision::exact && options.precision != precision::fast) {
    fail(error_category::invalid_argument, "precision {} was asked for; it is precision::exact or precision::fast",
         static_cast<int>(options.precision));
  }
  const std::vector<std::string> names = detail::rule_names();
  const rule_mask enabled = detail::enabled_rules(options, names);
  saturated_graph result;
  meganeura::detail::stopwatch phase;
  detail::import_graph(g, options.region, result);
  report.nodes_in = g.size();
  implementation_pass pass(result.graph, {enabled, options.region, options.region_forms, device_of(options),
                                          options.precision, options.schedule});
  pass.rewrite_masks();  // before the algebra: what a mask reads decides something
  const egraph::saturation_limits limits{options.max_nodes, options.max_matches, options.max_iterations,
                                         options.max_steps};
  const egraph::saturation_report found = egraph::run_rules(
      result.graph, rules::algebra, detail::admitted_rules(options, enabled), structural_count, limits);
  report.saturate_ms = phase.lap();
  report.iterations = found.iterations;
  report.limits = found.limits;
  pass.rewrite_sums();
  pass.run(result.roots);
  report.implement_ms = phase.lap();
  result.order = pass.order();
  result.missed = pass.missed();
  for (std::size_t i = 0; i < pass.applied().size(); ++i) {
    report.rules.push_back({names[i], pass.applied()[i], pass.applied()[i]});
  }
  for (std::size_t i = 0; i < found.matches.size(); ++i) {
    report.rules.push_back({names[structural_count + i], found.matches[i], found.applied[i]});
  }
  report.enodes = result.graph.node_count();
  report.classes = result.order.size();
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

// What a choice does without: choices that are better together than one by one, or in the way of such.
struct left_out {
  std::vector<shape> gradients{};  // of attention, by their sizes
  bool prologues = false, softmaxes = false;
  double seconds = 1;  // that such a node costs more: still chosen where nothing else computes the value

  [[nodiscard]] bool has(const engine& g, enode_id id) const {
    if (prologues && has_prologue(g, id)) return true;
    if (softmaxes && is_softmax_beside_attention(g, id)) return true;
    const shape* space = gradients.empty() ? nullptr : gradient_space(g, id);
    return space != nullptr && std::ranges::find(gradients, *space) != gradients.end();
  }
};

inline extraction choose_without(saturated_graph& all, const optimize_options& options, const left_out& without) {
  const auto time = [&](enode_id id) {
    kernel_time found = node_time(all.graph, id, options.device);
    if (without.has(all.graph, id)) found.alone += without.seconds, found.busy += without.seconds;
    return found;
  };
  const auto merge = [&](const extraction& chosen, const egraph::choice_so_far& choice) {
    merge_regions(all.graph, chosen, options.region, choice);
  };
  const std::string merging = to_string(structural::merge_regions);
  const bool merges = options.fusion && std::ranges::find(options.disabled, merging) == options.disabled.end();
  return egraph::extract(all.graph, all.order, all.roots, time, options.device.launch,
                         merges ? egraph::growth(merge) : egraph::growth(), options.search_passes);
}

}  // namespace detail

// Some choices are many at once, which an extraction does not find, or not back from, one by one. Where such are
// chosen, it is tried what comes of leaving them out: prologues of products, weights by a softmax beside attention,
// gradients of attention of each size.
MEGANEURA_INLINE extraction choose(saturated_graph& all, const optimize_options& options) {
  bool any = false;
  for (enode_id id{0}; id < all.graph.node_count() && !any; ++id)
    any = detail::gradient_space(all.graph, id) != nullptr || detail::has_prologue(all.graph, id);
  detail::left_out without;
  extraction best = detail::choose_without(all, options, without);
  if (!any || options.search_passes == 0) return best;
  without.seconds += best.seconds;
  const auto attempt = [&](const detail::left_out& more) {
    extraction found = detail::choose_without(all, options, more);
    if (found.seconds >= best.seconds) return;
    best = std::move(found);
    without = more;
  };
  const auto is_chosen = [&](class_id id) { return detail::has_prologue(all.graph, best.chosen[id]); };
  if (std::ranges::any_of(best.order, is_chosen)) {
    detail::left_out more = without;
    more.prologues = true;
    attempt(more);
  }
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
  graph result = detail::export_graph(g, all, plan, options, r.times);
  r.extract_ms = phase.lap();
  r.total_ms = total.lap();
  r.nodes_out = result.size();
  r.repair_passes = plan.passes;
  r.predicted_seconds = plan.seconds;
  r.groups = plan.groups;
  r.moved = plan.moved;
  const structural merging = structural::merge_regions;
  r.rules[static_cast<std::size_t>(merging)] = {to_string(merging), plan.offered, plan.merged};
  detail::count_kernels(all.graph, plan, r.rules);
  if (options.explain) r.explain = detail::explain(g.paths(), all.graph, plan, all.missed, detail::rule_names());
  return result;
}

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
