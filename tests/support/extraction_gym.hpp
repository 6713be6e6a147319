// SPDX-License-Identifier: MIT
// E-graphs of others to extract from: files of egraph-serialize, as the extraction gym has them.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/egraph/extract.hpp>
#include <meganeura/io/bounded_json.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::support {

/// A node of the file is a concatenation whose axis is its number: a kind that nothing is known of, and no two are
/// equal.
struct gym_graph {
  egraph::engine graph;
  std::vector<egraph::class_id> roots;
  std::vector<egraph::class_id> order;  // what these may need, operands before users as far as possible
  std::vector<double> costs;            // by node; infinite of those that hold a class open until it has its own
  std::size_t classes = 0, nodes = 0;   // of the file
};

/// The cheapest tree of a class, of these the flattest: what is read twice is paid twice. no_id where there is none;
/// costs beyond f64 are its largest number.
struct gym_tree {
  double cost = std::numeric_limits<double>::infinity();
  std::size_t depth = 0;
  egraph::enode_id node = no_id;
};
inline std::vector<gym_tree> cheapest_trees(const gym_graph& g) {
  std::vector<gym_tree> trees(g.graph.class_slots());
  for (bool changed = true; changed;) {
    changed = false;
    for (const egraph::class_id id : g.order) {
      for (const egraph::enode_id node : g.graph[id].nodes) {
        gym_tree tree{g.costs[node], 0, node};
        for (const egraph::class_id operand : g.graph.operands(node)) {
          tree.cost += trees[operand].cost;
          tree.depth = std::max(tree.depth, trees[operand].depth + 1);
        }
        const auto has_tree = [&](egraph::class_id operand) { return trees[operand].node != no_id; };
        if (!std::ranges::all_of(g.graph.operands(node), has_tree)) continue;
        tree.cost = std::min(tree.cost, std::numeric_limits<double>::max());
        if (std::tie(tree.cost, tree.depth) >= std::tie(trees[id].cost, trees[id].depth)) continue;
        trees[id] = tree, changed = true;
      }
    }
  }
  return trees;
}

class gym_reader {
 public:
  gym_reader(const nlohmann::json& file, const std::string& path) : name_(shown_path(path)) {
    const nlohmann::json& nodes = member(file, "nodes", name_, "an object of nodes by their ids");
    if (!nodes.is_object()) refuse(name_ + ": \"nodes\"", nodes, "an object of nodes by their ids");
    made_.nodes = nodes.size();
    for (const auto& [id, node] : nodes.items()) add_class(id, node);
    made_.classes = classes_.size();
    made_.costs.assign(made_.graph.node_count(), std::numeric_limits<double>::infinity());
    for (const auto& [id, node] : nodes.items()) add_node(id, node, nodes);
    for (egraph::enode_id hold{0}; hold < made_.classes; ++hold) made_.graph.retire(hold);
    add_roots(file);
    find_circles();
    const std::vector<gym_tree> trees = cheapest_trees(made_);
    for (std::size_t i = 0; i < made_.roots.size(); ++i) {
      if (trees[made_.roots[i]].node != no_id) continue;
      refuse(name_ + ": a root", file["root_eclasses"][i], "a class with a finite term, but all of its nodes need it");
    }
    for (const auto& [first, last] : circles_) {  // extraction leaves out nodes that read what comes later
      std::stable_sort(made_.order.begin() + first, made_.order.begin() + last, [&](auto a, auto b) {
        return std::tie(trees[a].cost, trees[a].depth) < std::tie(trees[b].cost, trees[b].depth);
      });
    }
  }

  gym_graph made() && { return std::move(made_); }

 private:
  [[noreturn]] static void refuse(const std::string& what, const nlohmann::json& found, const char* expected) {
    std::string shown = found.is_string() ? quote(found.get<std::string>(), 40) : found.dump();
    if (found.is_structured())
      shown = fmt::format("an {}{}", found.empty() && found.is_array() ? "empty " : "", found.type_name());
    fail(error_category::invalid_file, "{} is {}; it has to be {}", what, shown, expected);
  }
  static const nlohmann::json& member(const nlohmann::json& of, const char* key, const std::string& name,
                                      const char* expected) {
    if (!of.is_object()) refuse(name, of, "an object");
    const auto found = of.find(key);
    if (found == of.end())
      fail(error_category::invalid_file, "{} has no \"{}\"; it needs one, {}", name, key, expected);
    return *found;
  }
  [[nodiscard]] std::string name_of(const std::string& id) const { return name_ + ": node " + quote(id, 40); }

  void add_class(const std::string& id, const nlohmann::json& node) {
    const nlohmann::json& own = member(node, "eclass", name_of(id), "the id of its class");
    if (!own.is_string()) refuse(name_of(id) + ": \"eclass\"", own, "the id of a class, a string");
    if (!member(node, "op", name_of(id), "what it computes").is_string())
      refuse(name_of(id) + ": \"op\"", node["op"], "a string");
    const std::string& key = own.get_ref<const std::string&>();
    if (classes_.contains(key)) return;
    classes_[key] = made_.graph.add(op::input, dtype::f32, {}, leaf_attribute{key}, {});
  }

  // "children" and "cost" may be missing, as by the format: none, and 1.
  void add_node(const std::string& id, const nlohmann::json& node, const nlohmann::json& nodes) {
    const std::string name = name_of(id);
    const nlohmann::json cost = node.value("cost", nlohmann::json(1)),
                         children = node.value("children", nlohmann::json::array());
    if (!cost.is_number() || !(cost.get<double>() >= 0)) refuse(name + ": \"cost\"", cost, "a number, 0 or more");
    if (!children.is_array()) refuse(name + ": \"children\"", children, "a list of ids of nodes");
    std::vector<egraph::class_id> operands;
    for (const nlohmann::json& child : children) {
      if (!child.is_string()) refuse(name + ": a child", child, "the id of a node, a string");
      const auto found = nodes.find(child.get_ref<const std::string&>());
      if (found == nodes.end()) refuse(name + ": a child", child, "the id of a node of the file");
      operands.push_back(classes_.at((*found)["eclass"]));
    }
    const auto number = static_cast<int>(made_.costs.size());
    const egraph::class_id own = classes_.at(node["eclass"]);
    made_.graph.add_to(own, op::concat, axis_attribute{number}, operands);
    made_.costs.push_back(cost.get<double>());
  }

  void add_roots(const nlohmann::json& file) {
    const nlohmann::json& roots = member(file, "root_eclasses", name_, "the ids of the classes that are asked for");
    if (!roots.is_array() || roots.empty())
      refuse(name_ + ": \"root_eclasses\"", roots, "a list of ids of classes, at least one");
    for (const nlohmann::json& root : roots) {
      if (!root.is_string()) refuse(name_ + ": a root", root, "the id of a class, a string");
      const auto found = classes_.find(root.get_ref<const std::string&>());
      if (found == classes_.end()) refuse(name_ + ": a root", root, "the id of a class that has nodes");
      made_.roots.push_back(found->second);
    }
  }

  // Tarjan's strongly connected components: each behind what it reads of others.
  void find_circles() {
    constexpr std::size_t unseen = ~std::size_t{0}, done = unseen - 1;
    std::vector<std::size_t> lowest(made_.graph.class_slots(), unseen);
    struct entry {
      egraph::class_id id;
      std::size_t number, node = 0, operand = 0;  // up to which its operands were seen
    };
    std::vector<entry> open;
    std::vector<egraph::class_id> waiting;  // for the first class of their circle
    std::size_t count = 0;
    const auto enter = [&](egraph::class_id id) {
      open.push_back({id, count});
      waiting.push_back(id);
      lowest[id] = count++;
    };
    for (const egraph::class_id root : made_.roots) {
      if (lowest[root] == unseen) enter(root);
      while (!open.empty()) {
        entry& last = open.back();
        const egraph::node_list& nodes = made_.graph[last.id].nodes;
        if (last.node < nodes.size()) {
          if (last.operand == made_.graph.operands(nodes[last.node]).size()) {
            ++last.node, last.operand = 0;
            continue;
          }
          const egraph::class_id operand = made_.graph.operands(nodes[last.node])[last.operand++];
          if (lowest[operand] == unseen) {
            enter(operand);
          } else if (lowest[operand] != done) {
            lowest[last.id] = std::min(lowest[last.id], lowest[operand]);
          }
          continue;
        }
        const entry ended = last;
        open.pop_back();
        if (!open.empty()) lowest[open.back().id] = std::min(lowest[open.back().id], lowest[ended.id]);
        if (lowest[ended.id] != ended.number) continue;
        const auto first = static_cast<std::ptrdiff_t>(made_.order.size());
        do {
          made_.order.push_back(waiting.back());
          lowest[waiting.back()] = done;
          waiting.pop_back();
        } while (made_.order.back() != ended.id);
        circles_.emplace_back(first, static_cast<std::ptrdiff_t>(made_.order.size()));
      }
    }
  }

  std::string name_;
  std::unordered_map<std::string, egraph::class_id> classes_;
  gym_graph made_;
  std::vector<std::pair<std::ptrdiff_t, std::ptrdiff_t>> circles_;  // of the order
};

/// Errors: invalid_file, where it is no e-graph, a root has no term, or a cost is below 0.
inline gym_graph parse_gym(std::string_view text, const std::string& path) {
  const auto file = io::detail::parse_bounded_json(text, path, "an e-graph as egraph-serialize writes it");
  return gym_reader(file, path).made();
}
inline gym_graph read_gym(const std::string& path) {
  const std::vector<std::uint8_t> bytes = io::read_file(path);
  return parse_gym({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

/// Of what the roots need of a choice, each class once.
inline double dag_cost(const gym_graph& g, std::span<const egraph::enode_id> chosen) {
  double cost = 0;
  std::vector<char> seen(g.graph.class_slots());
  std::vector<egraph::class_id> open = g.roots;
  while (!open.empty()) {
    const egraph::class_id id = open.back();
    open.pop_back();
    if (std::exchange(seen[id], 1)) continue;
    cost += g.costs[chosen[id]];
    open.insert(open.end(), g.graph.operands(chosen[id]).begin(), g.graph.operands(chosen[id]).end());
  }
  return cost;
}

/// Of the cheapest trees.
inline double tree_choice_cost(const gym_graph& g) {
  std::vector<egraph::enode_id> chosen;
  for (const gym_tree& each : cheapest_trees(g)) chosen.push_back(each.node);
  return dag_cost(g, chosen);
}

/// Of a node, whose work nothing runs beside: the time of a choice is its cost.
inline egraph::node_time gym_time(const gym_graph& g) {
  return [&g](egraph::enode_id node) { return kernel_time{g.costs[node], g.costs[node]}; };
}
inline egraph::extraction extract_gym(const gym_graph& g) {
  return egraph::extract({g.graph, g.order, g.roots, gym_time(g), launch_time{}});
}

}  // namespace meganeura::inline MEGANEURA_ABI::support
