// SPDX-License-Identifier: MIT
// Values of run time: nodes of a graph that take the same functions, layers and modules as typed values.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/expr/traced.hpp>
#include <meganeura/graph/graph.hpp>

#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace meganeura::inline MEGANEURA_ABI {

class node_value;

namespace detail {

struct condition;

// What a layer gave, for layer_names: its first value.
node_id layer_result(const node_value& x);
template <class Names, class... X>
node_id layer_result(const result_list<Names, X...>& results) {
  return layer_result(results.template get<0>());
}

}  // namespace detail

/// A node with its graph, which must outlive it and stay where it is. What typed values take as template arguments may
/// be a plain argument here: `relu(linear("layers." + std::to_string(i), x, widths[i]))`, `softmax(x, axis)`; typed
/// leaves join in: `x * constant<2.0f>`, and so do plain numbers. Modules run as they are: `block::forward(x)`, or
/// `call<block>("layers.3", x)` to name what is inside. Parameters are named by the scopes around them
/// (graph::scope). Equal layers of equal operands are one; of two others of one name all but one must be `shared`, or
/// a program refuses the graph. A comparison gives a condition, which is no node: select, logical_and, logical_or and
/// logical_not take it, and cast makes numbers of it.
/// errors: what is a static_assert for typed values is invalid_argument here, with the same sentence and what was
/// found.
class node_value {
 public:
  using value_tag = void;

  node_value() = default;  // of no graph: every use of it is invalid_argument
  /// errors: invalid_argument unless `id` is a node of that graph with a value.
  node_value(graph& in, node_id id);

  /// errors: invalid_argument for a condition.
  [[nodiscard]] node_id id() const;
  // NOLINTNEXTLINE(google-explicit-constructor): the graph's functions take it
  [[nodiscard]] operator node_id() const { return id(); }
  [[nodiscard]] graph& owner() const;

  // What functions of values ask a carrier for, see expr/carrier.hpp.
  [[nodiscard]] detail::facts facts() const;
  [[nodiscard]] node_value added(const detail::node_spec& spec, const node_value* operands = nullptr,
                                 int count = 0) const;
  [[nodiscard]] node_value lifted(const node_value& other) const;
  template <auto Graph>
  [[nodiscard]] node_value lifted(expr<Graph>) const {
    return lifted(module_body{expr<Graph>::graph.nodes, Graph.size});
  }
  /// body() as a layer of that name; "" adds nothing to the names inside.
  template <class Body>
  [[nodiscard]] auto within(const char* name, const Body& body) const {
    const graph::scope in(owner(), name);
    const layer_names::mark begun = owner().layers().begin();
    const auto result = body();
    owner().layers().end(begun, detail::layer_result(result));
    return result;
  }
  /// errors: invalid_argument unless this is the result of a layer, a parameter or a state.
  [[nodiscard]] node_value shared() const;
  [[nodiscard]] bool trains() const { return owner().ask_mode() == run_mode::training; }
  [[noreturn]] void refuse(const char* sentence, std::initializer_list<detail::facts> operands,
                           const char* layer = nullptr) const;

 private:
  friend struct detail::condition;
  [[nodiscard]] node_value lifted(const module_body& body) const;

  graph* graph_ = nullptr;
  node_id id_ = no_id;
  std::shared_ptr<detail::condition> condition_;
};

namespace detail {

// One primitive of which every extent is known.
node_value run_time_node(graph& g, const node_spec& spec, std::span<const node_value> operands);

// "[2 batch, past + fresh, 784]", symbols as `text` has them.
std::string shown(
    const symbolic_shape& shape,
    const std::function<std::string(const symbol&)>& text = [](const symbol& name) { return std::string(name.text); });

// The path of the scopes that live, and the name behind it.
std::string full_name(const graph& g, const symbol& name);
// The same with the kind before it where a name is free for another kind: "random dropout".
constexpr std::string_view kind_before(primitive kind) {
  return kind == primitive::random ? "random " : kind == primitive::tap ? "tap " : "";
}
std::string name_in(const graph& g, primitive kind, const symbol& name);

// A typed value without inputs where it meets values of run time; expr/lower.hpp has its body.
node_value lowered_leaf(graph& g, const module_body& body);

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/expr/lower.hpp>
#include <meganeura/expr/value.ipp>
#endif
