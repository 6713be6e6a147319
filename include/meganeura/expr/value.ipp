// SPDX-License-Identifier: MIT
// From a primitive's description to nodes of the run-time graph.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/expr/model.hpp>
#include <meganeura/expr/value.hpp>
#include <meganeura/graph/primitive_rules.hpp>
#include <meganeura/graph/visit_op.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// Never stored: the map that consumes it writes it into its scalar program.
struct condition {
  scalar_op function{};
  shape extents;
  std::vector<node_value> operands;
  std::shared_ptr<condition> next{};  // of those that are being destroyed

  condition() = default;
  condition(const condition&) = delete;
  condition& operator=(const condition&) = delete;
  // One after the other: a chain of any length takes no deeper a stack.
  ~condition() {
    std::shared_ptr<condition> left;
    const auto take = [&left](condition& from) {
      for (node_value& each : from.operands) {
        std::shared_ptr<condition> inner = std::move(each.condition_);
        if (inner.use_count() != 1) continue;
        inner->next = std::move(left);
        left = std::move(inner);
      }
    };
    for (take(*this); left;) {
      const std::shared_ptr<condition> last = std::exchange(left, std::move(left->next));
      take(*last);
    }
  }

  [[nodiscard]] static const condition* of(const node_value& x) { return x.condition_.get(); }
  [[nodiscard]] static node_value make(graph& in, scalar_op function, const shape& extents,
                                       std::span<const node_value> operands) {
    node_value result;
    result.graph_ = &in;
    result.condition_ = std::make_shared<condition>();
    result.condition_->function = function;
    result.condition_->extents = extents;
    result.condition_->operands.assign(operands.begin(), operands.end());
    return result;
  }
};

// A map's program as it is written: its operands, each once if there are conditions to read them as well, and the
// conditions that are part of it.
class program_writer {
 public:
  program_writer(graph& g, const shape& whole, std::span<const node_value> operands)
      : graph_(g), whole_(whole), reuses_(std::ranges::any_of(operands, condition::of)) {}

  // Conditions among the operands are written into the program, each once and behind those it reads; everything else
  // becomes an operand.
  scalar_ref write(scalar_op function, std::span<const node_value> operands, dtype type) {
    std::vector<const condition*> open;
    for (add_unwritten(operands, open); !open.empty();) {
      const condition* next = open.back();
      const std::size_t before = open.size();
      if (!conditions_.contains(next)) add_unwritten(next->operands, open);
      if (open.size() != before) continue;
      open.pop_back();
      if (!conditions_.contains(next)) conditions_.emplace(next, applied(next->function, next->operands));
    }
    return applied(function, operands, type);
  }
  node_id finish(scalar_ref result, dtype type) { return graph_.map(builder_.finish(result), operands_, type); }

 private:
  // The first one last: it is written first.
  void add_unwritten(std::span<const node_value> operands, std::vector<const condition*>& open) const {
    for (std::size_t k = operands.size(); k-- > 0;) {
      const condition* inner = condition::of(operands[k]);
      if (inner && !conditions_.contains(inner)) open.push_back(inner);
    }
  }
  scalar_ref applied(scalar_op function, std::span<const node_value> operands, dtype type = dtype::boolean) {
    scalar_ref refs[3]{};
    for (std::size_t k = 0; k < operands.size(); ++k) {
      if (const condition* inner = condition::of(operands[k])) {
        refs[k] = conditions_.at(inner);
        continue;
      }
      const node_id id = graph_.expand(operands[k], whole_);
      const auto place = reuses_ ? std::ranges::find(operands_, id) : operands_.end();
      const auto index = static_cast<int>(place - operands_.begin());
      if (place == operands_.end()) operands_.push_back(id);
      refs[k] = builder_.argument(index, graph_[id].type);
    }
    return builder_.apply(function, {refs, operands.size()}, type);
  }

  graph& graph_;
  const shape& whole_;
  bool reuses_;
  scalar_builder builder_{};
  small_vector<node_id, 8> operands_{};
  std::map<const condition*, scalar_ref> conditions_{};
};

MEGANEURA_INLINE std::string full_name(const graph& g, const symbol& name) {
  const std::string path = g.paths().text(g.scope_path());
  return path.empty() ? name.text : path + '.' + name.text;
}

MEGANEURA_INLINE std::string name_in(const graph& g, primitive kind, const symbol& name) {
  return std::string(kind_before(kind)) + full_name(g, name);
}

MEGANEURA_INLINE node_id layer_result(const node_value& x) { return x.facts().type == dtype::boolean ? no_id : x.id(); }

inline node_value map_node(graph& g, const node_spec& spec, std::span<const node_value> operands) {
  const auto function = static_cast<scalar_op>(spec.function);
  const shape whole = numeric(spec.shape);
  if (spec.type == dtype::boolean) return condition::make(g, function, whole, operands);
  if (function == scalar_op::negate && g[operands[0]].kind == op::map &&
      g.get<map_attribute>(operands[0]).program.is_single(scalar_op::negate)) {
    return {g, g.operand(operands[0], 0)};  // -(-x)
  }
  program_writer writer(g, whole, operands);
  return {g, writer.finish(writer.write(function, operands, spec.type), spec.type)};
}

inline node_id element_count(graph& g, const node_spec& spec, node_id whole) {
  double count = 1;
  for (int i = 0; i < g[whole].extents.rank(); ++i) {
    count *= spec.count >> i & 1 ? static_cast<double>(g[whole].extents[i]) : 1.0;
  }
  return g.constant(is_float(spec.type) ? 1.0 / count : count, spec.type);
}

inline node_id any_node(graph& g, const node_spec& spec, std::span<const node_value> operands) {
  const auto kind = static_cast<op>(spec.function);
  small_vector<node_id, 4> from;
  for (const node_value& each : operands) from.push_back(each.id());
  return visit_op(kind, [&]<op Kind>() -> node_id {
    if constexpr (has_traits<Kind>) {
      return g.apply(Kind, unpacked<typename primitive_traits<Kind>::attribute_type>(spec.list), from,
                     numeric(spec.shape));
    }
    fail(error_category::internal, "a value of run time is described as {}, which is no primitive", to_string(Kind));
  });
}

inline node_id expected_indices(graph& g, const node_spec& spec, std::span<const node_value> operands) {
  index_range range{.indices = operands[0].id(), .count = spec.count, .ignored = {}, .rule = {}};
  switch (static_cast<index_use>(spec.function)) {
    case index_use::class_label:
      range.ignored = static_cast<std::int64_t>(spec.value);
      range.rule = fmt::format("cross_entropy has {} classes", spec.count);
      break;
    case index_use::ctc_label:
      range.counts = operands[1].id();
      range.rule = fmt::format("ctc_loss has {} classes", spec.count);
      break;
    case index_use::ctc_frames:
      range.rule = fmt::format("ctc_loss has {} frames", spec.count - 1);
      break;
    case index_use::ctc_labels:
      range.rule = fmt::format("ctc_loss has targets of {} labels", spec.count - 1);
      break;
    case index_use::step_count:
      range.rule = fmt::format("a sequence has {} steps", spec.count - 1);
      break;
    case index_use::key_length: {
      const shape& scores = g[operands[1].id()].extents;
      range.count = scores[scores.rank() - 1] + 1;
      range.rule = fmt::format("attend has {} keys", range.count - 1);
      break;
    }
  }
  g.expect_indices(range);
  return range.indices;
}

inline std::optional<initializer> begin_of(const node_spec& leaf) {
  if (leaf.list == integer_list{}) return {};
  return unpacked<initializer>(leaf.list);
}

inline node_id primitive_node(graph& g, const node_spec& spec, std::span<const node_value> operands) {
  const auto a = [&] { return operands[0].id(); };
  const auto b = [&] { return operands[1].id(); };
  const shape extents = numeric(spec.shape);
  const int axis = static_cast<int>(spec.count);
  switch (spec.kind) {
    case primitive::parameter:
      return g.parameter(full_name(g, *spec.name), spec.type, extents, begin_of(spec));
    case primitive::state:
      return g.state(full_name(g, *spec.name), spec.type, extents, begin_of(spec));
    case primitive::constant:
      return g.constant(spec.value, spec.type);
    case primitive::iota:
      return g.coordinates(extents, axis);
    case primitive::random:
      return g.random(full_name(g, *spec.name), static_cast<distribution>(spec.function), extents);
    case primitive::element_count:
      return element_count(g, spec, a());
    case primitive::cast:
      return g.cast(a(), spec.type);
    case primitive::reshape:
      return g.reshape(a(), extents);
    case primitive::permute:
      return g.permute(a(), {unpacked<axis_order>(spec.list).axes, static_cast<std::size_t>(spec.shape.rank)});
    case primitive::slice: {
      const auto range = unpacked<slice_range>(spec.list);
      const int along = static_cast<int>(range.axis);
      const std::int64_t start = range.from_end != 0 ? g[a()].extents[along] - range.start : range.start;
      return g.slice(a(), along, start, extents[along], range.step);
    }
    case primitive::expand:
      return g.expand(a(), extents);
    case primitive::flip:
      return g.flip(a(), axis);
    case primitive::node:
      return any_node(g, spec, operands);
    case primitive::indices:
      return expected_indices(g, spec, operands);
    case primitive::assign:
      g.assign(b(), operands[2]);
      return a();
    case primitive::by_mode:
      return operands[static_cast<std::size_t>(needed_nodes::chosen(g.ask_mode()))];
    case primitive::tap:
      g.tap(full_name(g, *spec.name), a());
      return a();
    case primitive::map:  // see map_node
    case primitive::argument:
    case primitive::call:
    case primitive::repeat:
    case primitive::result:
      break;
  }
  fail(error_category::internal, "a node of the kind {} is no primitive", static_cast<int>(spec.kind));
}

MEGANEURA_INLINE node_value run_time_node(graph& g, const node_spec& spec, std::span<const node_value> operands) {
  if (spec.kind == primitive::map) return map_node(g, spec, operands);
  return {g, primitive_node(g, spec, operands)};
}

inline std::string shown(const dim& extent, const std::function<std::string(const symbol&)>& text) {
  if (extent.is_static()) return std::to_string(extent.coefficient);
  std::string terms;
  const extent_sum sum = extent.with(1).sum();
  for (int i = 0; i < sum.count; ++i) {
    const extent_sum::term& term = sum.terms[i];
    const std::int64_t size = term.factor < 0 ? -term.factor : term.factor;
    terms += i == 0 ? (term.factor < 0 ? "-" : "") : term.factor < 0 ? " - " : " + ";
    if (size != 1 || term.degree == 0) terms += std::to_string(size) + (term.degree > 0 ? " " : "");
    for (int k = 0; k < term.degree; ++k) terms += (k > 0 ? " " : "") + text(*term.names[k]);
  }
  if (extent.coefficient == 1) return terms;
  return fmt::format("{} {}", extent.coefficient, sum.count > 1 ? '(' + terms + ')' : terms);
}

MEGANEURA_INLINE std::string shown(const symbolic_shape& shape, const std::function<std::string(const symbol&)>& text) {
  std::string extents;
  for (int i = 0; i < shape.rank; ++i) extents += (i > 0 ? ", " : "") + shown(shape[i], text);
  return '[' + extents + ']';
}

}  // namespace detail

MEGANEURA_INLINE node_value::node_value(graph& in, node_id id) : graph_(&in), id_(id) {
  in.expect_values("node_value", {id});
}

MEGANEURA_INLINE graph& node_value::owner() const {
  if (graph_ && (condition_ || id_ < graph_->size())) return *graph_;
  if (graph_) {
    fail(error_category::invalid_argument,
         "the graph of this node_value was moved from, and its nodes with it; write all of a model first");
  }
  fail(error_category::invalid_argument,
       "this node_value is of no graph; make it from a node: node_value(g, g.input(\"x\", ..))");
}

MEGANEURA_INLINE node_id node_value::id() const {
  (void)owner();
  if (condition_) {
    fail(error_category::invalid_argument,
         "a condition is used by something other than select; select values first, then reshape or reduce");
  }
  return id_;
}

MEGANEURA_INLINE detail::facts node_value::facts() const {
  if (condition_) return {.kind = primitive::map, .type = dtype::boolean, .shape = condition_->extents};
  const node& n = owner()[id_];
  const bool number = n.kind == op::constant;
  return {.kind = number                ? primitive::constant
                  : n.kind == op::state ? primitive::state
                                        : primitive::argument,
          .type = n.type,
          .shape = n.extents,
          .value = number ? graph_->get<constant_attribute>(id_).value : 0};
}

MEGANEURA_INLINE node_value node_value::added(const detail::node_spec& spec, const node_value* operands,
                                              int count) const {
  if (detail::is_named(spec.kind)) owner().layers().ask(detail::name_in(owner(), spec.kind, *spec.name), false);
  return detail::run_time_node(owner(), spec, {operands, static_cast<std::size_t>(count)});
}

MEGANEURA_INLINE node_value node_value::shared() const {
  const op kind = owner()[id()].kind;
  if (kind != op::parameter && kind != op::state && !owner().layers().share(id())) {
    fail(error_category::invalid_argument,
         "shared(x): x must be the result of a layer, a call, a parameter or a state; found %{} = {}", id(),
         to_string(kind));
  }
  return *this;
}

MEGANEURA_INLINE node_value node_value::lifted(const node_value& other) const {
  if (&other.owner() != &owner()) {
    fail(error_category::invalid_argument, "two values of different graphs meet; build both in one graph");
  }
  return other;
}

MEGANEURA_INLINE node_value node_value::lifted(const module_body& body) const {
  return detail::lowered_leaf(owner(), body);
}

MEGANEURA_INLINE void node_value::refuse(const char* sentence, std::initializer_list<detail::facts> operands,
                                         const char* layer) const try {
  std::string found;
  for (const detail::facts& each : operands) {
    if (each.kind == primitive::call) continue;  // the layer's name
    found += (found.empty() ? "" : ", ") + fmt::format("{} {}", to_string(each.type), detail::shown(each.shape));
  }
  constexpr std::string_view library = "meganeura: ";
  std::string_view text = sentence;
  if (text.starts_with(library)) text.remove_prefix(library.size());
  if (layer) {
    std::string path = owner().paths().text(owner().scope_path());
    if (!path.empty() && *layer) path += '.';
    path += layer;
    if (!path.empty()) found += " in " + quote(path);
  }
  fail(error_category::invalid_argument, "{}; found {}", text, found);
} catch (...) {
  rethrow_as_error("looking at the operands of a function");
}

}  // namespace meganeura::inline MEGANEURA_ABI
