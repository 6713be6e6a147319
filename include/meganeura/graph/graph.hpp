// SPDX-License-Identifier: MIT
// The run-time graph: hash-consed nodes over interned attributes, built through functions that check shapes.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/hash_index.hpp>
#include <meganeura/core/id.hpp>
#include <meganeura/core/small_vector.hpp>
#include <meganeura/graph/attribute.hpp>
#include <meganeura/graph/attribute_pool.hpp>
#include <meganeura/graph/layer_names.hpp>
#include <meganeura/graph/node_id.hpp>
#include <meganeura/graph/op.hpp>
#include <meganeura/graph/path.hpp>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

struct node {
  op kind{};
  dtype type = dtype::f32;
  shape extents;  // of the result
  attribute_id attribute;
  std::uint32_t first_operand = 0;
  std::uint32_t operand_count = 0;
  path_id path;            // of the module that made it first; no part of what it is
  std::uint32_t turn = 0;  // of nodes that are equal otherwise: how often the same is computed before this one
};

/// What indices should be: 0 .. count-1, or `ignored`. Nothing is computed from it (out of range is defined
/// everywhere); a program that checks tells its user. `rule` says who reads them, e.g. "cross_entropy has 10 classes".
struct index_range {
  node_id indices = no_id;
  std::int64_t count = 0;
  std::optional<std::int64_t> ignored;
  std::string rule;
  node_id counts = no_id;  // i32 [rows] beside indices [rows, places]: how many of each row are read, if not all
};

/// Dtype and extents of a tensor.
struct tensor_spec {
  dtype type = dtype::f32;
  shape extents;
};

struct graph_output {
  std::string name;
  node_id node = no_id;
};

/// A state or a parameter that an effect writes, and its new value or its gradient.
struct update {
  node_id target = no_id, value = no_id;
};

/// Nodes in topological order (operands precede users), equal nodes shared. Every builder function checks its operands
/// and throws error(invalid_argument) with the shapes in the sentence; scalars (rank 0) never broadcast by themselves:
/// use `expand` or the helpers taking a double. Dtypes of operands must agree unless a function says otherwise. An id
/// is an index: one of another graph is taken for the node that stands there in this one, where there is one.
class graph {
 public:
  graph() = default;
  /// An empty one whose paths are those of another: for passes that carry nodes over.
  explicit graph(path_pool paths) : paths_(std::move(paths)) {}
  /// An empty one to build a model in as it is in that mode.
  explicit graph(run_mode mode) : mode_(mode) {}

  /// What is built; that it depended on the mode is noted.
  [[nodiscard]] run_mode ask_mode() {
    depends_on_mode_ = true;
    return mode_;
  }
  [[nodiscard]] run_mode mode() const { return mode_; }
  [[nodiscard]] bool depends_on_mode() const { return depends_on_mode_; }

  /// While it lives, new nodes belong to the module `name` of the scope around it: profiles, reports and drawings
  /// sort what the module does under it. The graph must stay where it is.
  class scope {
   public:
    scope(graph& of, std::string_view name) : scope(of, of.paths_.child(of.path_, name)) {}
    scope(graph& of, path_id path) : graph_(of), before_(std::exchange(of.path_, path)) {}
    ~scope() { graph_.path_ = before_; }
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;

   private:
    graph& graph_;
    path_id before_;
  };

  // ---- leaves
  // A parameter or state asked for again by its name is the same node, in whatever scope; layers' parameters have its
  // path before their names. An input is declared once. How a parameter or
  // state begins may be said by any one who asks, fan_in_uniform and zeros otherwise.
  using beginning = std::optional<initializer>;
  node_id input(std::string_view name, dtype type, const shape& extents);
  node_id parameter(std::string_view name, dtype type, const shape& extents, beginning begin = {});
  node_id state(std::string_view name, dtype type, const shape& extents, beginning begin = {});
  // The same with extents as written, {32, 784}: the sentence about one that is no extent begins with the name.
  using extent_list = std::initializer_list<std::int64_t>;
  node_id input(std::string_view name, dtype type, extent_list extents);
  node_id parameter(std::string_view name, dtype type, extent_list extents, beginning begin = {});
  node_id state(std::string_view name, dtype type, extent_list extents, beginning begin = {});
  // An integer dtype takes the numbers it has: no fraction, no NaN, -1 for i32 only.
  node_id constant(double value, dtype type = dtype::f32);
  node_id iota(std::int64_t count);  // [count] of i32
  node_id random(std::string_view stream, distribution kind, const shape& extents);

  // ---- primitives
  node_id map(const scalar_program& program, std::span<const node_id> operands, dtype result);
  node_id map(scalar_op kind, std::initializer_list<node_id> operands);  // one operation
  node_id cast(node_id a, dtype type);
  /// In the operand's dtype; arg_max and arg_min in i32.
  node_id reduce(reduce_kind kind, node_id a, std::uint32_t axes);
  /// Labels as in einsum, e.g. contract(a, b, "bik", "bkj", "bij").
  node_id contract(node_id a, node_id b, std::string_view labels_a, std::string_view labels_b,
                   std::string_view labels_result);
  node_id contract(node_id a, node_id b, const contract_attribute& labels);
  node_id view(node_id a, const shape& extents, const view_attribute& map);
  node_id reshape(node_id a, const shape& extents);
  node_id permute(node_id a, std::span<const int> axes);  // result axis i is operand axis axes[i]
  node_id slice(node_id a, int axis, std::int64_t start, std::int64_t count, std::int64_t step = 1);
  node_id flip(node_id a, int axis);
  /// NumPy broadcasting: trailing axes align, extents are equal or 1.
  node_id expand(node_id a, const shape& extents);
  /// Inserts axes of extent `extents[i]` wherever bit i of `new_axes` is set: what undoes a reduce.
  node_id expand_axes(node_id a, const shape& extents, std::uint32_t new_axes);
  node_id pad(node_id a, std::span<const std::int64_t> low, std::span<const std::int64_t> high, double value = 0);
  node_id concat(std::span<const node_id> operands, int axis);
  /// result = data.shape[:axis] + indices.shape + data.shape[axis+1:]; indices i32, one out of range gives zeros.
  node_id gather(node_id data, node_id indices, int axis);
  /// zeros(extents) with updates[.., i, ..] added at [.., indices[i], ..]; the adjoint of gather; an index
  /// out of range adds nothing.
  node_id scatter_add(node_id indices, node_id updates, int axis, const shape& extents);
  /// `extents` of the result is needed for the forms input and filter (a stride forgets them) and checked for all.
  node_id convolution(node_id a, node_id b, const convolution_attribute& geometry, const shape& extents);
  node_id window_reduce(node_id a, const window_attribute& geometry);
  node_id window_scatter(std::span<const node_id> operands, const window_attribute& geometry, const shape& extents);
  node_id stop_gradient(node_id a);
  /// Any of these but map and view by its parts, checked: what the functions above are written with. `extents` of the
  /// result where they do not follow from the operands.
  node_id apply(op kind, const attribute& value, std::span<const node_id> operands, const shape& extents = {});
  node_id apply(op kind, const attribute& value, std::initializer_list<node_id> operands, const shape& extents = {}) {
    return apply(kind, value, std::span(operands.begin(), operands.size()), extents);
  }

  // ---- effects (also appended to effects())
  // A step reads everything before it changes anything: whoever reads a state or a parameter (a node, another assign,
  // an output) gets what it held before the step, so that assign(a, b) and assign(b, a) swap. One effect may write a
  // leaf; a second one, other than the same again, is an invalid_argument.
  node_id assign(node_id state, node_id value);
  /// With gradients that are multiplied by `scale`, an f32 number, unless it is no_id.
  node_id optimizer_step(const optimizer_attribute& rule, std::span<const node_id> parameters_and_gradients,
                         node_id scale = no_id);
  /// What an effect writes: the state and its new value, or each parameter and its gradient.
  [[nodiscard]] small_vector<update, 8> updates(node_id effect) const;
  /// That of an optimizer_step; no_id of one without and of an assign.
  [[nodiscard]] node_id gradient_scale(node_id effect) const;
  /// Takes back every effect so far: a step computes its outputs and leaves states and parameters as they are.
  void drop_effects();

  // ---- helpers that expand into the above
  node_id add(node_id a, node_id b) { return map(scalar_op::add, {a, b}); }
  node_id subtract(node_id a, node_id b) { return map(scalar_op::subtract, {a, b}); }
  node_id multiply(node_id a, node_id b) { return map(scalar_op::multiply, {a, b}); }
  node_id divide(node_id a, node_id b) { return map(scalar_op::divide, {a, b}); }
  /// A constant in the dtype and shape of `like`.
  node_id full_like(node_id like, double value);
  node_id full(shape extents, double value, dtype type = dtype::f32);
  /// iota along `axis` of `extents`, as i32.
  node_id coordinates(shape extents, int axis);

  /// Any node by its parts, without shape checks: for passes that carry nodes over. Hash-consed like the rest, and an
  /// effect on what another one writes is refused. A node that is there already keeps its path. `turn`: of a planner
  /// that has the same computed several times.
  node_id add_node(op kind, dtype type, const shape& extents, attribute_ref value, std::span<const node_id> operands,
                   std::uint32_t turn = 0);

  void add_output(std::string_view name, node_id node);

  /// Notes that a value can be asked for by a name: a program that is asked to (program_options::taps) makes it an
  /// output. errors: invalid_argument for a second value of one name.
  void tap(std::string_view name, node_id node);
  [[nodiscard]] const std::vector<graph_output>& taps() const { return taps_; }

  /// What run-time layers are called; a program refuses two that would be one.
  [[nodiscard]] layer_names& layers() { return layers_; }
  [[nodiscard]] const layer_names& layers() const { return layers_; }

  /// Notes what `indices` should be; gather and scatter_add do it themselves.
  void expect_indices(index_range expected);
  [[nodiscard]] const std::vector<index_range>& index_ranges() const { return index_ranges_; }

  // ---- reading
  [[nodiscard]] std::size_t size() const { return nodes_.size(); }
  [[nodiscard]] const node& operator[](node_id id) const { return nodes_[id]; }
  [[nodiscard]] std::span<const node_id> operands(node_id id) const {
    return {operands_.data() + nodes_[id].first_operand, nodes_[id].operand_count};
  }
  [[nodiscard]] node_id operand(node_id id, std::size_t index) const { return operands(id)[index]; }
  template <class Attribute>
  [[nodiscard]] const Attribute& get(node_id id) const {
    return std::get<Attribute>(attributes_[nodes_[id].attribute]);
  }
  [[nodiscard]] const attribute& attribute_of(node_id id) const { return attributes_[nodes_[id].attribute]; }
  /// What a node stores: its one value, or the several that `result` nodes name.
  [[nodiscard]] std::vector<tensor_spec> results(node_id id) const;
  [[nodiscard]] bool has_several_results(node_id id) const { return !further_results(attribute_of(id)).empty(); }
  [[nodiscard]] const path_pool& paths() const { return paths_; }
  /// Of the scopes that live, where new nodes belong.
  [[nodiscard]] path_id scope_path() const { return path_; }
  /// "layers.7.mlp", "layers.7.mlp backward", or nothing for what no module made.
  [[nodiscard]] std::string path_of(node_id id) const { return paths_.text(nodes_[id].path); }
  [[nodiscard]] const std::vector<graph_output>& outputs() const { return outputs_; }
  [[nodiscard]] const std::vector<node_id>& effects() const { return effects_; }
  /// For each node: does it belong to the backward of a custom_gradient alone? No step computes it.
  [[nodiscard]] std::vector<bool> pullbacks() const;
  /// Leaves of one kind (input, parameter or state) in order of creation.
  [[nodiscard]] std::vector<node_id> leaves(op kind) const;
  /// The leaf of that name; no_id if there is none.
  [[nodiscard]] node_id find_leaf(std::string_view name) const;
  [[nodiscard]] node_id find_output(std::string_view name) const;
  /// Floating-point operations of one evaluation, of the whole or of one node: 2 a multiply-add of a product, 1 an
  /// element of everything else but conditions and casts between floats. Effects count none, implementations what they
  /// are fused from.
  [[nodiscard]] double flops() const;
  [[nodiscard]] double flops(node_id id) const;
  /// Refuses operands that are no nodes of this graph or have no value; `asked` opens the sentence.
  /// errors: invalid_argument.
  void expect_values(std::string_view asked, std::span<const node_id> operands) const;
  void expect_values(std::string_view asked, std::initializer_list<node_id> operands) const {
    expect_values(asked, std::span(operands.begin(), operands.size()));
  }

 private:
  void replace_attribute(node_id id, attribute_ref value);
  node_id leaf(op kind, std::string_view name, dtype type, const shape& extents, const beginning& begin = {});
  std::vector<node> nodes_;
  std::vector<node_id> operands_;
  attribute_pool attributes_;
  path_pool paths_;
  path_id path_ = path_pool::root;  // of the scopes that live
  run_mode mode_ = run_mode::evaluation;
  bool depends_on_mode_ = false;
  std::vector<graph_output> outputs_, taps_;
  layer_names layers_;
  std::vector<node_id> effects_;
  struct text_hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  using names = std::unordered_map<std::string, node_id, text_hash, std::equal_to<>>;
  /// Of what a new effect writes: its first operand and every other one after it.
  void expect_unwritten(std::span<const node_id> operands) const;
  [[nodiscard]] bool is_dropped(node_id id) const;
  std::vector<index_range> index_ranges_;
  hash_index<node_id> ids_, leaf_names_;
  names output_names_, tap_names_;
  std::unordered_map<node_id, node_id> writers_;  // of states and parameters: the effect that overwrites them
};

/// One node a line: "%7 = map f32[32, 128] (%5, %6) add(a0, a1) @ layers.7.mlp".
[[nodiscard]] std::string to_text(const graph& g);
/// For Graphviz; a module is a cluster.
[[nodiscard]] std::string to_dot(const graph& g);

/// A copy holding only what outputs and effects reach, in the same order.
[[nodiscard]] graph pruned(const graph& g);

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/graph/effects.ipp>
#include <meganeura/graph/graph.ipp>
#include <meganeura/graph/leaves.ipp>
#include <meganeura/graph/primitive_rules.hpp>
#include <meganeura/graph/primitives.ipp>
#include <meganeura/graph/text.ipp>
#endif
