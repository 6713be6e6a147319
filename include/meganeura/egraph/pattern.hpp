// SPDX-License-Identifier: MIT
// Rewrite rules as compile-time terms in the syntax of models: one type gives matcher, builder and property test.
#pragma once
#include <meganeura/core/hash.hpp>
#include <meganeura/core/same_bits.hpp>
#include <meganeura/egraph/egraph.hpp>
#include <meganeura/egraph/exactness.hpp>

#include <array>
#include <cstdint>
#include <tuple>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::egraph {

inline constexpr std::size_t max_variables = 4, max_constants = 3, max_tags = 2;

/// What a match found: classes of variables, values of constants, and for each tag the node whose attribute it stands
/// for.
struct captures {
  class_id root = no_id;
  std::array<class_id, max_variables> variables{no_id, no_id, no_id, no_id};
  std::array<double, max_constants> constants{};
  std::uint32_t bound_constants = 0;
  std::array<enode_id, max_tags> nodes{no_id, no_id};
};

namespace pattern {

/// Which variables (bits 0..), constants (bits 8..) and tags (bits 16..) a term uses.
using use_mask = std::uint32_t;

struct term {};
template <class T>
concept is_term = std::is_base_of_v<term, T>;

/// Any class.
template <std::size_t I>
struct variable : term {
  static constexpr use_mask uses = 1u << I;
  static constexpr int depth = 0;
};
/// A class all of whose elements have one known value.
template <std::size_t I>
struct constant_variable : term {
  static constexpr use_mask uses = 1u << (8 + I);
  static constexpr int depth = 0;
};
struct literal : term {
  double value;
  static constexpr use_mask uses = 0;
  static constexpr int depth = 0;
  constexpr explicit literal(double number) : value(number) {}
};

template <class... Arguments>
inline constexpr int depth_over = 1 + [] {
  int deepest = 0;
  ((deepest = Arguments::depth > deepest ? Arguments::depth : deepest), ...);
  return deepest;
}();

template <scalar_op Kind, class... Arguments>
struct map_term : term {
  static constexpr use_mask uses = (Arguments::uses | ...);
  static constexpr int depth = depth_over<Arguments...>;
  static constexpr int head = head_of(Kind);
  std::tuple<Arguments...> arguments;
  constexpr explicit map_term(const Arguments&... list) : arguments(list...) {}
};
/// Its axes are captured under `Tag`; on the right the same tag means the same axes.
template <reduce_kind Kind, std::size_t Tag, class Argument>
struct reduce_term : term {
  static constexpr use_mask uses = Argument::uses | 1u << (16 + Tag);
  static constexpr int depth = depth_over<Argument>;
  static constexpr int head = head_of(op::reduce);
  Argument argument;
  constexpr explicit reduce_term(const Argument& a) : argument(a) {}
};
/// Any contraction, its labels captured under `Tag`.
template <std::size_t Tag, class A, class B>
struct contract_term : term {
  static constexpr use_mask uses = A::uses | B::uses | 1u << (16 + Tag);
  static constexpr int depth = depth_over<A, B>;
  static constexpr int head = head_of(op::contract);
  A a;
  B b;
  constexpr contract_term(const A& left, const B& right) : a(left), b(right) {}
};
/// Any view (transpose, expand, reshape, ...), its index map captured under `Tag`.
template <std::size_t Tag, class Argument>
struct view_term : term {
  static constexpr use_mask uses = Argument::uses | 1u << (16 + Tag);
  static constexpr int depth = depth_over<Argument>;
  static constexpr int head = head_of(op::view);
  Argument argument;
  constexpr explicit view_term(const Argument& a) : argument(a) {}
};

inline constexpr variable<0> _x;
inline constexpr variable<1> _y;
inline constexpr variable<2> _z;
inline constexpr variable<3> _w;
inline constexpr constant_variable<0> _c;
inline constexpr constant_variable<1> _d;

// clang-format off
namespace detail {
template <is_term T>
constexpr const T& as_term(const T& value) { return value; }
constexpr literal as_term(double value) { return literal(value); }
template <class T>
using term_of = std::remove_cvref_t<decltype(as_term(std::declval<const T&>()))>;
template <class A, class B>
concept operands = is_term<A> || is_term<B>;
template <scalar_op Kind, class... T>
constexpr auto make(const T&... values) { return map_term<Kind, term_of<T>...>(as_term(values)...); }
}  // namespace detail

template <class A, class B> requires detail::operands<A, B>
constexpr auto operator+(const A& a, const B& b) { return detail::make<scalar_op::add>(a, b); }
template <class A, class B> requires detail::operands<A, B>
constexpr auto operator-(const A& a, const B& b) { return detail::make<scalar_op::subtract>(a, b); }
template <class A, class B> requires detail::operands<A, B>
constexpr auto operator*(const A& a, const B& b) { return detail::make<scalar_op::multiply>(a, b); }
template <class A, class B> requires detail::operands<A, B>
constexpr auto operator/(const A& a, const B& b) { return detail::make<scalar_op::divide>(a, b); }
template <is_term A> constexpr auto operator-(const A& a) { return detail::make<scalar_op::negate>(a); }
template <is_term A> constexpr auto exp(const A& a) { return detail::make<scalar_op::exp>(a); }
template <is_term A> constexpr auto log(const A& a) { return detail::make<scalar_op::log>(a); }
template <is_term A> constexpr auto sqrt(const A& a) { return detail::make<scalar_op::sqrt>(a); }
template <is_term A> constexpr auto rsqrt(const A& a) { return detail::make<scalar_op::rsqrt>(a); }
template <is_term A> constexpr auto reciprocal(const A& a) { return detail::make<scalar_op::reciprocal>(a); }
template <is_term A> constexpr auto tanh(const A& a) { return detail::make<scalar_op::tanh>(a); }
template <class A, class B> requires detail::operands<A, B>
constexpr auto maximum(const A& a, const B& b) { return detail::make<scalar_op::maximum>(a, b); }
template <class A, class B> requires detail::operands<A, B>
constexpr auto minimum(const A& a, const B& b) { return detail::make<scalar_op::minimum>(a, b); }
template <is_term A> constexpr auto relu(const A& a) { return maximum(a, 0.0); }
template <is_term A> constexpr auto sigmoid(const A& a) { return reciprocal(1.0 + exp(-a)); }
template <is_term A> constexpr auto silu(const A& a) { return a * sigmoid(a); }
template <std::size_t Tag = 0, is_term A>
constexpr auto sum(const A& a) { return reduce_term<reduce_kind::sum, Tag, A>(a); }
template <std::size_t Tag = 0, is_term A>
constexpr auto max(const A& a) { return reduce_term<reduce_kind::max, Tag, A>(a); }
template <std::size_t Tag = 0, is_term A, is_term B>
constexpr auto matmul(const A& a, const B& b) { return contract_term<Tag, A, B>(a, b); }
template <std::size_t Tag = 0, is_term A>
constexpr auto view(const A& a) { return view_term<Tag, A>(a); }
// On classes a transpose and an expand are the same thing, a view; the tag keeps its index map.
template <std::size_t Tag = 0, is_term A>
constexpr auto transpose(const A& a) { return view<Tag>(a); }
template <std::size_t Tag = 0, is_term A>
constexpr auto expand(const A& a) { return view<Tag>(a); }
// clang-format on

// ---- matching -------------------------------------------------------------------------------------------------------

// Found by argument-dependent lookup on the terms, as they call each other in no order.
// match_class(g, term, class, captures, next): calls next() for every way the class has the term's form. Continuations
// are lambdas, so that the compiler turns each rule into one nest of loops.
template <std::size_t I, class Next>
void match_class(const engine&, const variable<I>&, class_id id, captures& b, Next&& next) {
  if (b.variables[I] != no_id) {
    if (b.variables[I] == id) next();
    return;
  }
  b.variables[I] = id;
  next();
  b.variables[I] = no_id;
}

template <std::size_t I, class Next>
void match_class(const engine& g, const constant_variable<I>&, class_id id, captures& b, Next&& next) {
  if (!g[id].constant) return;
  if (b.bound_constants >> I & 1) {
    if (same_bits(b.constants[I], *g[id].constant)) next();
    return;
  }
  b.bound_constants |= 1u << I;
  b.constants[I] = *g[id].constant;
  next();
  b.bound_constants &= ~(1u << I);
}

template <class Next>
void match_class(const engine& g, const literal& term, class_id id, captures&, Next&& next) {
  if (g[id].constant && same_bits(*g[id].constant, term.value)) next();
}

template <class Term, class Next>
  requires requires { Term::head; }
void match_class(const engine& g, const Term& term, class_id id, captures& b, Next&& next) {
  // A value stored in another dtype was rounded on the way: looking through it would change more than a rule promises.
  if (!g[id].heads[Term::head] || g[id].type != dtype::f32) return;
  for (enode_id node : g[id].nodes) {
    if (!g.node(node).dead && g.node(node).head == Term::head) match_node(g, term, node, b, next);
  }
}

template <class A, class Next>
void match_operands(const engine& g, const std::tuple<A>& terms, enode_id node, bool, captures& b, Next&& next) {
  match_class(g, std::get<0>(terms), g.operand(node, 0), b, next);
}
template <class A, class B, class Next>
void match_operands(const engine& g, const std::tuple<A, B>& terms, enode_id node, bool swapped, captures& b,
                    Next&& next) {
  match_class(g, std::get<0>(terms), g.operand(node, swapped ? 1 : 0), b,
              [&] { match_class(g, std::get<1>(terms), g.operand(node, swapped ? 0 : 1), b, next); });
}

// Commutative operations match in both orders: cheaper than a rule that would double their nodes.
template <scalar_op Kind, class... Arguments, class Next>
void match_node(const engine& g, const map_term<Kind, Arguments...>& term, enode_id node, captures& b, Next&& next) {
  match_operands(g, term.arguments, node, false, b, next);
  if constexpr (info(Kind).is.commutes) match_operands(g, term.arguments, node, true, b, next);
}

template <std::size_t Tag, class Next>
void capture(captures& b, enode_id node, Next&& next) {
  const enode_id before = b.nodes[Tag];
  b.nodes[Tag] = node;
  next();
  b.nodes[Tag] = before;
}

template <reduce_kind Kind, std::size_t Tag, class A, class Next>
void match_node(const engine& g, const reduce_term<Kind, Tag, A>& term, enode_id node, captures& b, Next&& next) {
  if (g.get<reduce_attribute>(node).kind != Kind) return;
  capture<Tag>(b, node, [&] { match_class(g, term.argument, g.operand(node, 0), b, next); });
}

template <std::size_t Tag, class A, class B, class Next>
void match_node(const engine& g, const contract_term<Tag, A, B>& term, enode_id node, captures& b, Next&& next) {
  capture<Tag>(b, node, [&] {
    match_class(g, term.a, g.operand(node, 0), b, [&] { match_class(g, term.b, g.operand(node, 1), b, next); });
  });
}

template <std::size_t Tag, class A, class Next>
void match_node(const engine& g, const view_term<Tag, A>& term, enode_id node, captures& b, Next&& next) {
  capture<Tag>(b, node, [&] { match_class(g, term.argument, g.operand(node, 0), b, next); });
}

// ---- building -------------------------------------------------------------------------------------------------------

/// A class, or (no_id) a number that takes whatever shape is needed; `failed` when a shape does not fit.
struct built {
  class_id id = no_id;
  double value = 0;
  bool failed = false;
};

/// `value` in every element of a shape.
[[nodiscard]] inline class_id filled(engine& g, double value, const shape& extents, dtype type, rule_mask reasons) {
  const class_id scalar = g.add(op::constant, type, {}, constant_attribute{rounded_to(value, type)}, {}, reasons);
  if (extents.rank() == 0) return scalar;
  const class_id operands[] = {scalar};
  return g.add(op::view, type, extents, view_attribute{}, operands, reasons);
}

template <std::size_t I>
built build_term(engine& g, const variable<I>&, const captures& b, rule_mask) {
  return {.id = g.find(b.variables[I])};
}
template <std::size_t I>
built build_term(engine&, const constant_variable<I>&, const captures& b, rule_mask) {
  return {.value = b.constants[I]};
}
inline built build_term(engine&, const literal& term, const captures&, rule_mask) { return {.value = term.value}; }

inline built build_map(engine& g, scalar_op kind, built* arguments, std::size_t count, rule_mask reasons) {
  class_id like = no_id;
  for (std::size_t i = 0; i < count; ++i) {
    if (arguments[i].failed) return {.failed = true};
    if (arguments[i].id != no_id) like = arguments[i].id;
  }
  if (like == no_id) {
    return {.value = meganeura::evaluate(kind, arguments[0].value, count > 1 ? arguments[1].value : 0, 0, dtype::f32)};
  }
  const shape extents = g.extents(like);
  const dtype type = g[like].type;
  class_list operands;
  const small_vector<dtype, 3> types(count, compute_type(type));
  for (std::size_t i = 0; i < count; ++i) {
    const class_id operand =
        arguments[i].id != no_id ? arguments[i].id : filled(g, arguments[i].value, extents, type, reasons);
    if (g.extents(operand) != extents || g[operand].type != type) return {.failed = true};
    operands.push_back(operand);
  }
  return {.id =
              g.find(g.add(op::map, type, extents, map_attribute{single_op_program(kind, types)}, operands, reasons))};
}

template <scalar_op Kind, class... Arguments>
built build_term(engine& g, const map_term<Kind, Arguments...>& term, const captures& b, rule_mask reasons) {
  return std::apply(
      [&](const auto&... arguments) {
        built values[] = {build_term(g, arguments, b, reasons)...};
        return build_map(g, Kind, values, sizeof...(arguments), reasons);
      },
      term.arguments);
}

// The captured node once more, over other operands of the same shapes.
inline built build_like(engine& g, enode_id captured, std::initializer_list<built> arguments, rule_mask reasons) {
  class_list operands;
  for (const built& argument : arguments) {
    if (argument.failed || argument.id == no_id) return {.failed = true};
    const class_id before = g.operand(captured, operands.size());
    if (g.extents(argument.id) != g.extents(before) || g[argument.id].type != g[before].type) return {.failed = true};
    operands.push_back(argument.id);
  }
  const enode node = g.node(captured);
  const shape extents = g.extents(g.find(node.owner));
  return {.id = g.find(g.add(node.kind, node.type, extents, g.attribute_of(captured), operands, reasons))};
}

template <reduce_kind Kind, std::size_t Tag, class A>
built build_term(engine& g, const reduce_term<Kind, Tag, A>& term, const captures& b, rule_mask reasons) {
  return build_like(g, b.nodes[Tag], {build_term(g, term.argument, b, reasons)}, reasons);
}
template <std::size_t Tag, class A, class B>
built build_term(engine& g, const contract_term<Tag, A, B>& term, const captures& b, rule_mask reasons) {
  return build_like(g, b.nodes[Tag], {build_term(g, term.a, b, reasons), build_term(g, term.b, b, reasons)}, reasons);
}
template <std::size_t Tag, class A>
built build_term(engine& g, const view_term<Tag, A>& term, const captures& b, rule_mask reasons) {
  return build_like(g, b.nodes[Tag], {build_term(g, term.argument, b, reasons)}, reasons);
}

/// The class of a term over bound variables; no_id when shapes do not fit.
template <is_term Term>
[[nodiscard]] class_id build(engine& g, const Term& term, const captures& b, const shape& extents, dtype type,
                             rule_mask reasons = {}) {
  const built made = build_term(g, term, b, reasons);
  if (made.failed) return no_id;
  return made.id != no_id ? made.id : filled(g, made.value, extents, type, reasons);
}

// ---- rules ----------------------------------------------------------------------------------------------------------

struct always {
  constexpr bool operator()(const captures&) const { return true; }
};

template <class Left, class Right, class Guard = always>
struct rule {
  const char* name;
  Left left;
  Right right;
  egraph::exactness kind = exactness::exact;
  Guard guard{};

  static constexpr int root = Left::head;
  static constexpr int depth = Left::depth;

  /// Bit for bit the same for every operand, infinities, zeros of both signs and NaN included (which NaN is left open).
  [[nodiscard]] constexpr rule exact() const { return {name, left, right, exactness::exact, guard}; }
  /// Equal in real numbers; rounds differently, gives the other zero, or overflows later, never earlier.
  [[nodiscard]] constexpr rule reassociates() const { return {name, left, right, exactness::reassociates, guard}; }
  template <class Condition>
  [[nodiscard]] constexpr rule<Left, Right, Condition> when(Condition condition) const {
    return {name, left, right, kind, condition};
  }

  /// found(captures) for every match at a node.
  template <class Found>
  void match(const engine& g, enode_id node, Found&& found) const {
    captures b{.root = g.find(g.node(node).owner)};
    match_node(g, left, node, b, [&] {
      if (guard(b)) found(b);
    });
  }
  /// Adds the right-hand side to the class of the match; false when nothing changed or the shapes do not fit. `sealed`:
  /// classes that decide something stay as they are.
  bool apply(engine& g, const captures& b, rule_mask reason, bool sealed = false) const {
    const class_id root_class = g.find(b.root);
    if (sealed && g[root_class].decides) return false;
    const shape extents = g.extents(root_class);
    const dtype type = g[root_class].type;
    g.at(g[root_class].path);
    const class_id made = build(g, right, b, extents, type, reason);
    if (made == no_id || g.extents(made) != extents || g[made].type != type) return false;
    if (sealed && g[made].decides) return false;
    return g.merge(root_class, made);
  }
};

/// A variable on the right that the left does not bind does not compile.
template <is_term Left, class Right>
  requires(requires { Left::head; } && (detail::term_of<Right>::uses & ~Left::uses) == 0)
[[nodiscard]] constexpr auto rewrite(const char* name, const Left& left, const Right& right) {
  return rule<Left, detail::term_of<Right>>{name, left, detail::as_term(right)};
}

template <class... Rules>
struct rule_set {
  static constexpr std::size_t count = sizeof...(Rules);
  static constexpr int depth = [] {
    int deepest = 1;
    ((deepest = Rules::depth > deepest ? Rules::depth : deepest), ...);
    return deepest;
  }();
  using subset = bit_set<count>;
  /// The rules that start with a head.
  static constexpr std::array<subset, head_count> at = [] {
    std::array<subset, head_count> starting{};
    std::size_t index = 0;
    ((starting[static_cast<std::size_t>(Rules::root)] |= subset::of(index++)), ...);
    return starting;
  }();
  std::tuple<Rules...> rules;

  constexpr explicit rule_set(const Rules&... list) : rules(list...) {}

  /// visit(index, rule) for each of them.
  template <class Visit>
  void for_each(const subset& wanted, Visit&& visit) const {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      ((wanted[I] ? static_cast<void>(visit(I, std::get<I>(rules))) : void()), ...);
    }
    (std::make_index_sequence<count>());
  }
};

}  // namespace pattern

}  // namespace meganeura::inline MEGANEURA_ABI::egraph
