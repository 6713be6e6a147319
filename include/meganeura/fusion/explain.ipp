// SPDX-License-Identifier: MIT
// Definitions for fusion/explain.hpp.
#pragma once
#include <meganeura/core/quote.hpp>
#include <meganeura/fusion/cost.hpp>
#include <meganeura/fusion/explain.hpp>
#include <meganeura/fusion/optimize.hpp>
#include <meganeura/fusion/saturated_graph.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::fusion {

namespace detail {

class plan_explainer {
 public:
  plan_explainer(const graph& source, const saturated_graph& all, const extraction& plan, const graph& chosen,
                 std::span<const node_id> made, const optimize_options& options, std::span<const rule_report> rules)
      : source_(source),
        all_(all),
        e_(all.graph),
        plan_(plan),
        chosen_(chosen),
        made_(made),
        options_(options),
        rules_(rules),
        first_of_(e_.class_slots(), no_id),
        values_of_(e_.class_slots()),
        refused_(e_.class_slots()),
        others_(e_.class_slots()) {
    for (node_id id{0}; id < source.size(); ++id) {
      if (all.classes[id] == no_id) continue;
      node_id& first = first_of_[e_.find(all.classes[id])];
      if (first == no_id) first = id;
    }
    for (class_id id : plan.order) values_of_[kernel_of(id)].push_back(id);
    find_refused();
    find_others();
  }

  std::string text() {
    std::string kernels;
    std::size_t count = 0, folded = 0;
    for (class_id id : plan_.order) {
      if (!runs(id)) continue;
      ++(all_.is_folded(plan_.chosen[id]) ? folded : count);
      add_kernel(kernels, id);
    }
    const launch_time& launch = options_.device.launch;
    std::string head = fmt::format(
        "{} kernels in {} groups, which take {:.4g} us by the model: what each takes by itself and, beside that, "
        "{:.3g} us a group and {:.3g} us a kernel\n",
        count, plan_.groups, plan_.seconds * 1e6, launch.group * 1e6, launch.dispatch * 1e6);
    if (folded != 0) head += fmt::format("{} more when parameters change\n", folded);
    if (!options_.disabled.empty()) head += fmt::format("left out: {}\n", fmt::join(options_.disabled, ", "));
    return head + kernels;
  }

 private:
  [[nodiscard]] bool runs(class_id id) const {
    const op_stage stage = info(e_.node(plan_.chosen[id]).kind).stage;
    return stage != op_stage::leaf && stage != op_stage::projection;
  }
  // The class of the kernel that computes a value, which is its own or has several results.
  [[nodiscard]] class_id kernel_of(class_id value) const {
    const enode_id node = plan_.chosen[value];
    return info(e_.node(node).kind).stage == op_stage::projection ? e_.operand(node, 0) : value;
  }

  // The rules that were tried and gave reasons against it; one may have been met in several forms.
  void find_refused() {
    std::set<std::tuple<class_id, class_id, structural, std::string_view>> said;
    for (const missed_fusion& m : all_.missed) {
      if (m.producer == no_id) continue;
      const class_id consumer = e_.find(m.consumer), producer = e_.find(m.producer);
      if (plan_.chosen[consumer] == no_id || plan_.chosen[producer] == no_id) continue;
      const class_id from = kernel_of(producer), into = kernel_of(consumer);
      if (from != into && said.insert({into, from, m.rule, m.guard}).second) refused_[into].push_back({from, m});
    }
  }
  // The quickest two of the other ways to compute each value.
  void find_others() {
    const auto time = [&](enode_id id) { return all_.time_in_step(id, options_.device); };
    for (const egraph::alternative& each :
         egraph::compare({e_, all_.order, all_.roots, time, options_.device.launch}, plan_)) {
      std::vector<egraph::alternative>& known = others_[kernel_of(each.value)];
      if (std::abs(each.seconds) < told_apart) continue;  // the same in another order
      known.insert(std::ranges::upper_bound(known, each.seconds, {}, &egraph::alternative::seconds), each);
      if (known.size() > shown_others) known.pop_back();
    }
  }

  void add_kernel(std::string& text, class_id id) {
    const auto end = std::back_inserter(text);
    const enode_id node = plan_.chosen[id];
    const enode& n = e_.node(node);
    const std::string path = source_.paths().text(n.path);
    std::string results;  // the kernel's own first, which of several is the first result
    for (class_id value : values_of_[id]) (results += results.empty() ? "" : ", ") += name(value);
    fmt::format_to(end, "\n{} = {}{}{} {}{} {}\n", results, path, path.empty() ? "" : ": ", to_string(n.kind),
                   to_string(n.type), to_string(e_.extents(id)), to_string(e_.attribute_of(node)));
    fmt::format_to(end, "  takes {:.3g} us{}\n", node_time(e_, node, options_.device).alone * 1e6,
                   all_.is_folded(node) ? " when parameters change, and nothing of a step" : "");
    add_computed(text, id);
    const std::string operands = read_by(node);
    if (!operands.empty()) fmt::format_to(end, "  reads {}\n", operands);
    add_rules(text, "  made by", n.reasons);
    for (const egraph::alternative& other : others_[id]) add_other(text, other);
    for (const auto& [from, m] : refused_[id])
      fmt::format_to(end, "  not fused: {} by {}: {}\n", name(from), to_string(m.rule), m.guard);
  }

  void add_rules(std::string& text, std::string_view head, const rule_mask& reasons) const {
    std::string names;
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      if (reasons[i]) (names += ' ') += rules_[i].name;
    }
    if (!names.empty()) fmt::format_to(std::back_inserter(text), "{}{}\n", head, names);
  }

  void add_other(std::string& text, const egraph::alternative& other) const {
    const enode& n = e_.node(other.node);
    rule_mask reasons = n.reasons;
    reasons -= e_.node(plan_.chosen[other.value]).reasons;
    const bool is_quicker = other.seconds < 0;  // the search does not try all that would only fill groups better
    fmt::format_to(std::back_inserter(text), "  not chosen: {} as {} of {}, {:.3g} us {}", name(other.value),
                   to_string(n.kind), read_by(other.node), std::abs(other.seconds) * 1e6, is_quicker ? "less" : "more");
    add_rules(text, "; by", reasons);
    if (text.back() != '\n') text += '\n';
  }

  // What a node reads, each once.
  [[nodiscard]] std::string read_by(enode_id node) const {
    std::vector<std::string> names;
    for (class_id operand : e_.operands(node)) {
      std::string each = name(e_.find(operand));
      if (std::ranges::find(names, each) == names.end()) names.push_back(std::move(each));
    }
    return fmt::format("{}", fmt::join(names, ", "));
  }
  // A leaf by its name, what the plan has by its number there, all else by what it is in the source.
  [[nodiscard]] std::string name(class_id id) const {
    if (plan_.chosen[id] == no_id) {
      const node_id first = first_of_[id];
      const op kind = first == no_id ? e_.node(e_[id].nodes.front()).kind : source_[first].kind;
      const std::string path = source_.paths().text(e_[id].path);
      return fmt::format("{}{}{} {}{} (not stored)", path, path.empty() ? "" : ": ", to_string(kind),
                         to_string(e_[id].type), to_string(e_.extents(id)));
    }
    const node_id node = made_[id];
    const auto* leaf = std::get_if<leaf_attribute>(&chosen_.attribute_of(node));
    if (leaf == nullptr) return fmt::format("%{}", node);
    const auto is_plain = [](char each) {
      return std::isalnum(static_cast<unsigned char>(each)) || each == '_' || each == '.';
    };
    return !leaf->name.empty() && std::ranges::all_of(leaf->name, is_plain) ? leaf->name : quote(leaf->name);
  }

  // Operations of the source between what a kernel reads and what it stores, by module.
  void add_computed(std::string& text, class_id id) {
    std::set<class_id> reads;
    for (class_id operand : e_.operands(plan_.chosen[id])) reads.insert(e_.find(operand));
    known_.clear();
    std::set<node_id> listed;
    for (class_id value : values_of_[id]) {
      if (first_of_[value] != no_id) collect(first_of_[value], reads, listed);
    }
    const auto is_work = [&](node_id each) {
      const op kind = source_[each].kind;
      return kind != op::view && kind != op::constant && kind != op::stop_gradient && kind != op::custom_gradient;
    };
    const bool any_work = std::ranges::any_of(listed, is_work);
    std::vector<std::pair<path_id, std::vector<std::string>>> modules;
    for (node_id each : listed) {
      if (any_work && !is_work(each)) continue;
      auto known = std::ranges::find(modules, source_[each].path, &decltype(modules)::value_type::first);
      if (known == modules.end()) known = modules.insert(known, {source_[each].path, {}});
      for (std::string& operation : operations(each)) {
        if (std::ranges::find(known->second, operation) == known->second.end())
          known->second.push_back(std::move(operation));
      }
    }
    if (modules.empty()) text += "  computes a part of other kernels' values, which the rules below made\n";
    for (const auto& [path, names] : modules) {
      const std::string module = source_.paths().text(path);
      fmt::format_to(std::back_inserter(text), "  computes {}{}{}\n", module, module.empty() ? "" : ": ",
                     fmt::join(names, ", "));
    }
  }
  [[nodiscard]] std::vector<std::string> operations(node_id id) const {
    const auto* map = std::get_if<map_attribute>(&source_.attribute_of(id));
    if (map == nullptr) return {to_string(source_[id].kind)};
    std::vector<std::string> names;
    for (const scalar_node& each : map->program.nodes) {
      if (each.op != scalar_op::argument && each.op != scalar_op::constant) names.emplace_back(to_string(each.op));
    }
    return names;
  }
  // What is computed for a node: of a custom_gradient the value alone.
  [[nodiscard]] std::span<const node_id> operands_of(node_id id) const {
    return source_.operands(id).first(source_[id].kind == op::custom_gradient ? 1 : source_.operands(id).size());
  }
  // Whether a value follows from what is read; what follows otherwise is looked for no further than that.
  bool follows(node_id id, const std::set<class_id>& reads) {
    const class_id own = e_.find(all_.classes[id]);
    if (reads.contains(own) || e_[own].constant) return true;
    if (info(source_[id].kind).stage == op_stage::leaf) return false;
    const auto [known, is_new] = known_.try_emplace(id, false);
    if (!is_new) return known->second;
    if (known_.size() > most_followed) return false;
    bool all = true;
    for (node_id operand : operands_of(id)) all = all && follows(operand, reads);
    return known_[id] = all;
  }
  void collect(node_id root, const std::set<class_id>& reads, std::set<node_id>& listed) {
    (void)follows(root, reads);
    std::vector<node_id> waiting{root};
    while (!waiting.empty()) {
      const node_id id = waiting.back();
      waiting.pop_back();
      const class_id own = e_.find(all_.classes[id]);
      if (id != root && (reads.contains(own) || e_[own].constant || !follows(id, reads))) continue;
      if (!listed.insert(id).second) continue;
      waiting.insert(waiting.end(), operands_of(id).begin(), operands_of(id).end());
    }
  }

  static constexpr std::size_t shown_others = 2, most_followed = 256;
  static constexpr double told_apart = 1e-9;  // seconds
  const graph& source_;
  const saturated_graph& all_;
  const engine& e_;
  const extraction& plan_;
  const graph& chosen_;
  std::span<const node_id> made_;
  const optimize_options& options_;
  std::span<const rule_report> rules_;
  std::vector<node_id> first_of_;                 // of each class, in the source
  std::vector<std::vector<class_id>> values_of_;  // of each kernel's class, its own among them
  struct refusal {
    class_id from;
    missed_fusion what;
  };
  std::vector<std::vector<refusal>> refused_;  // by kernel's class
  std::vector<std::vector<egraph::alternative>> others_;
  std::unordered_map<node_id, bool> known_;
};

}  // namespace detail

MEGANEURA_INLINE std::string explain(const graph& source, const saturated_graph& all, const extraction& plan,
                                     const graph& chosen, std::span<const node_id> made,
                                     const optimize_options& options, std::span<const rule_report> rules) {
  return detail::plan_explainer(source, all, plan, chosen, made, options, rules).text();
}

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
