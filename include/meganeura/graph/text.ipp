// SPDX-License-Identifier: MIT
// Definitions for graph/graph.hpp: graphs as text and as drawings.
#pragma once
#include <meganeura/graph/graph.hpp>

#include <fmt/format.h>

#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

MEGANEURA_INLINE std::string to_text(const graph& g) {
  std::string text;
  for (node_id id{0}; id < g.size(); ++id) {
    std::string operands;
    for (node_id operand : g.operands(id)) operands += fmt::format("{}%{}", operands.empty() ? "" : ", ", operand);
    const std::string path = g.path_of(id);
    text +=
        fmt::format("%{} = {} {}{} ({}) {}{}{}\n", id, to_string(g[id].kind), to_string(g[id].type),
                    to_string(g[id].extents), operands, to_string(g.attribute_of(id)), path.empty() ? "" : " @ ", path);
  }
  for (const graph_output& output : g.outputs()) text += fmt::format("output \"{}\" = %{}\n", output.name, output.node);
  return text;
}

namespace detail {

inline std::string dot_quoted(const std::string& text) {
  std::string result;
  for (char character : text) {
    if (character == '"' || character == '\\') result += '\\';
    result += character;
  }
  return result;
}

// The nodes of one module, then the modules inside of it, each a cluster; those without any node are left out.
inline std::string dot_nodes(const graph& g, const std::vector<std::vector<node_id>>& nodes_of, path_id path) {
  std::string text;
  for (node_id id : nodes_of[path]) {
    text += fmt::format("  n{} [label=\"{} {}{}\\n{}\"];\n", id, to_string(g[id].kind), to_string(g[id].type),
                        to_string(g[id].extents), dot_quoted(to_string(g.attribute_of(id))));
  }
  for (path_id child : g.paths().children(path)) text += dot_nodes(g, nodes_of, child);
  if (text.empty() || path == path_pool::root) return text;
  return fmt::format("  subgraph cluster_{} {{\n  label=\"{}\";\n{}  }}\n", path, dot_quoted(g.paths().text(path)),
                     text);
}

}  // namespace detail

MEGANEURA_INLINE std::string to_dot(const graph& g) {
  std::string text = "digraph meganeura {\n  node [shape=box, fontname=monospace];\n";
  std::vector<std::vector<node_id>> nodes_of(g.paths().size());
  for (node_id id{0}; id < g.size(); ++id) nodes_of[g[id].path].push_back(id);
  text += detail::dot_nodes(g, nodes_of, path_pool::root);
  text += detail::dot_nodes(g, nodes_of, path_pool::backward(path_pool::root));
  for (node_id id{0}; id < g.size(); ++id) {
    for (node_id operand : g.operands(id)) text += fmt::format("  n{} -> n{};\n", operand, id);
  }
  for (std::size_t i = 0; i < g.outputs().size(); ++i) {
    text += fmt::format("  out{} [label=\"{}\", shape=ellipse];\n  n{} -> out{};\n", i,
                        detail::dot_quoted(g.outputs()[i].name), g.outputs()[i].node, i);
  }
  return text + "}\n";
}

}  // namespace meganeura::inline MEGANEURA_ABI
