// SPDX-License-Identifier: MIT
// Definitions for graph/scalar.hpp.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/hash.hpp>
#include <meganeura/graph/scalar.hpp>

#include <algorithm>
#include <bit>
#include <cmath>

namespace meganeura::inline MEGANEURA_ABI {

MEGANEURA_INLINE int scalar_program::arguments() const {
  int count = 0;
  for (const scalar_node& node : nodes) {
    if (node.op == scalar_op::argument) count = std::max(count, static_cast<int>(node.value) + 1);
  }
  return count;
}

MEGANEURA_INLINE bool scalar_program::has_rows() const {
  return std::any_of(nodes.begin(), nodes.end(), [](const scalar_node& node) { return is_row_reduction(node.op); });
}

MEGANEURA_INLINE std::int64_t scalar_program::operations() const {
  return std::ranges::count_if(
      nodes, [](const scalar_node& node) { return info(node.op).arity > 0 && node.type != dtype::boolean; });
}

MEGANEURA_INLINE bool scalar_program::is_single(scalar_op kind) const {
  const int arity = info(kind).arity;
  if (static_cast<int>(nodes.size()) != arity + 1 || nodes.back().op != kind) return false;
  for (int i = 0; i < arity; ++i) {
    if (nodes[static_cast<std::size_t>(i)].op != scalar_op::argument) return false;
    if (nodes[nodes.back().operands[i]].value != i) return false;
  }
  return true;
}

namespace detail {

inline std::uint64_t hash_node(std::uint64_t seed, const scalar_node& node) {
  const std::uint64_t head = static_cast<std::uint64_t>(node.op) | static_cast<std::uint64_t>(node.type) << 8 |
                             static_cast<std::uint64_t>(node.operands[0]) << 16 |
                             static_cast<std::uint64_t>(node.operands[1]) << 32 |
                             static_cast<std::uint64_t>(node.operands[2]) << 48;
  return hash_combine(hash_combine(seed, head), std::bit_cast<std::uint64_t>(node.value));
}

}  // namespace detail

MEGANEURA_INLINE std::uint64_t scalar_program::hash() const {
  std::uint64_t hash = nodes.size();
  for (const scalar_node& node : nodes) hash = detail::hash_node(hash, node);
  return hash;
}

// Most programs are short, and looking through them costs less than an index; long ones have one.
MEGANEURA_INLINE std::optional<scalar_ref> scalar_builder::find(const scalar_node& node) {
  constexpr std::size_t short_program = 64;
  if (nodes_.size() <= short_program) {
    const auto found = std::ranges::find(nodes_, node);
    if (found == nodes_.end()) return {};
    return static_cast<scalar_ref>(found - nodes_.begin());
  }
  for (; indexed_ < nodes_.size(); ++indexed_)
    index_.insert(detail::hash_node(0, nodes_[indexed_]), static_cast<scalar_ref>(indexed_));
  const scalar_ref found = index_.find(detail::hash_node(0, node), [&](scalar_ref at) { return nodes_[at] == node; });
  if (found == no_id) return {};
  return found;
}

MEGANEURA_INLINE scalar_ref scalar_builder::add(const scalar_node& node) {
  if (const std::optional<scalar_ref> known = find(node)) return *known;
  if (nodes_.size() >= scalar_ref(no_id)) {
    fail(error_category::unsupported, "a scalar program of more than {} operations was asked for; split the map",
         nodes_.size());
  }
  nodes_.push_back(node);
  return static_cast<scalar_ref>(nodes_.size() - 1);
}

// By its bits: 0 and -0 differ, unless it is an integer.
MEGANEURA_INLINE bool scalar_builder::is_constant(scalar_ref ref, double value) const {
  const scalar_node& node = nodes_[ref];
  const bool same_sign = !is_float(node.type) || std::signbit(node.value) == std::signbit(value);
  return node.op == scalar_op::constant && node.value == value && same_sign;
}

MEGANEURA_INLINE void scalar_builder::refuse_ref(scalar_ref ref) const {
  fail(error_category::invalid_argument, "scalar program: node {} does not exist; the builder has {} nodes", ref,
       nodes_.size());
}

MEGANEURA_INLINE scalar_ref scalar_builder::argument(int index, dtype type) {
  if (index < 0) {
    fail(error_category::invalid_argument, "scalar program: argument {} was asked for; arguments count from 0", index);
  }
  return add({.op = scalar_op::argument, .type = compute_type(type), .value = static_cast<double>(index)});
}

MEGANEURA_INLINE scalar_ref scalar_builder::constant(double value, dtype type) {
  expect_representable("scalar constant", value, type);
  return folded(value, type);
}

MEGANEURA_INLINE scalar_ref scalar_builder::folded(double value, dtype type) {
  return add({.op = scalar_op::constant, .type = compute_type(type), .value = rounded_to(value, type)});
}

MEGANEURA_INLINE scalar_ref scalar_builder::unary(scalar_op kind, scalar_ref a) {
  const scalar_ref operands[] = {a};
  return apply(kind, operands, type(a));
}

MEGANEURA_INLINE scalar_ref scalar_builder::binary(scalar_op kind, scalar_ref a, scalar_ref b) {
  const scalar_ref operands[] = {a, b};
  return apply(kind, operands);
}

MEGANEURA_INLINE scalar_ref scalar_builder::select(scalar_ref condition, scalar_ref a, scalar_ref b) {
  const scalar_ref operands[] = {condition, a, b};
  return apply(scalar_op::select, operands);
}

MEGANEURA_INLINE scalar_ref scalar_builder::convert(scalar_ref a, dtype to) {
  if (type(a) == compute_type(to)) return a;
  if (is_float(type(a)) && is_integer(to) && is_narrow(to)) {  // the least and the greatest of those 8 bits
    a = binary(scalar_op::maximum, a, constant(lowest(to), type(a)));
    a = binary(scalar_op::minimum, a, constant(highest(to), type(a)));
  }
  const scalar_ref operands[] = {a};
  return apply(scalar_op::convert, operands, to);
}

namespace detail {

inline dtype scalar_result_type(scalar_op kind, std::span<const scalar_node> operands, dtype convert_to) {
  const auto refuse = [&](const char* rule) {
    fail(error_category::invalid_argument, "scalar {}: {}; found operand types {} {}", info(kind).name, rule,
         to_string(operands[0].type), operands.size() > 1 ? to_string(operands[1].type) : "");
  };
  const dtype first = operands[0].type;
  if (kind == scalar_op::convert) return compute_type(convert_to);
  if (kind == scalar_op::reinterpret) {
    if (first == dtype::boolean || convert_to == dtype::boolean) refuse("operand and result must be numbers");
    return compute_type(convert_to);
  }
  if (kind == scalar_op::select) {
    if (first != dtype::boolean) refuse("the condition must be boolean");
    if (operands[1].type != operands[2].type) refuse("both branches must have one type");
    return operands[1].type;
  }
  if (operands.size() == 2 && first != operands[1].type) refuse("both operands must have one type; cast one of them");
  const scalar_flags& is = info(kind).is;
  if (is.logical != (first == dtype::boolean)) {
    refuse(is.logical ? "operands must be boolean" : "operands must be numbers");
  }
  if (is.floats_only && !is_float(first)) refuse("operands must be floats; cast them");
  if (is.integers_only && !is_integer(first)) refuse("operands must be integers; cast them");
  return is.compares ? dtype::boolean : first;
}

}  // namespace detail

MEGANEURA_INLINE void check_program(const scalar_program& program) {
  const auto refuse = [](std::size_t at, const std::string& rule) {
    fail(error_category::invalid_argument, "scalar program: node {} {}; write programs with a scalar_builder", at,
         rule);
  };
  if (program.nodes.empty()) {
    fail(error_category::invalid_argument, "scalar program: it is empty; its last node is its result");
  }
  for (std::size_t at = 0; at < program.nodes.size(); ++at) {
    const scalar_node& node = program.nodes[at];
    if (static_cast<int>(node.op) >= scalar_op_count) refuse(at, fmt::format("is an unknown {}", to_string(node.op)));
    if (!exists(node.type) || is_narrow(node.type)) {
      refuse(at, fmt::format("computes in {}, which no program does", to_string(node.type)));
    }
    if (node.op == scalar_op::argument) {
      const bool counts = node.value >= 0 && node.value < 0x1p31 && node.value == std::trunc(node.value);
      if (!counts) refuse(at, fmt::format("is argument {}; arguments count from 0", node.value));
      continue;
    }
    if (node.op == scalar_op::constant) {
      const bool held =
          node.value == rounded_to(node.value, node.type) || (is_float(node.type) && node.value != node.value);
      if (!held) refuse(at, fmt::format("is the constant {}, which no {} is", node.value, to_string(node.type)));
      continue;
    }
    scalar_node operands[3];
    const auto arity = static_cast<std::size_t>(info(node.op).arity);
    for (std::size_t i = 0; i < arity; ++i) {
      if (node.operands[i] >= at) refuse(at, fmt::format("reads node {}, which does not precede it", node.operands[i]));
      operands[i] = program.nodes[node.operands[i]];
    }
    const dtype computed = detail::scalar_result_type(node.op, {operands, arity}, node.type);
    if (computed != node.type) {
      refuse(at, fmt::format("is {} of {} and says {}", info(node.op).name, to_string(computed), to_string(node.type)));
    }
  }
}

MEGANEURA_INLINE scalar_ref scalar_builder::apply(scalar_op kind, std::span<const scalar_ref> operands,
                                                  dtype convert_to) {
  if (static_cast<int>(kind) >= scalar_op_count || operands.empty() ||
      static_cast<int>(operands.size()) != info(kind).arity) {
    fail(error_category::invalid_argument, "scalar program: {} does not take {} operands", to_string(kind),
         operands.size());
  }
  scalar_node values[3];
  bool constant_operands = !is_row_reduction(kind);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    values[i] = node(operands[i]);
    constant_operands = constant_operands && values[i].op == scalar_op::constant;
  }
  scalar_node result{.op = kind, .type = detail::scalar_result_type(kind, {values, operands.size()}, convert_to)};
  std::copy(operands.begin(), operands.end(), result.operands);
  if (constant_operands) {
    const double value = evaluate(kind, values[0].value, values[1].value, values[2].value, result.type, values[0].type);
    return folded(value, result.type);
  }
  const scalar_ref a = operands[0], b = operands.size() > 1 ? operands[1] : a;
  if (kind == scalar_op::negate && values[0].op == scalar_op::negate) return values[0].operands[0];
  if (kind == scalar_op::add) {  // -0 + 0 is 0
    if (is_constant(a, -0.0)) return b;
    if (is_constant(b, -0.0)) return a;
  }
  if (kind == scalar_op::subtract && is_constant(b, 0)) return a;
  if (kind == scalar_op::multiply && is_constant(a, 1)) return b;
  if ((kind == scalar_op::multiply || kind == scalar_op::divide || kind == scalar_op::power) && is_constant(b, 1)) {
    return a;
  }
  if (kind == scalar_op::power && is_constant(b, 2)) return binary(scalar_op::multiply, a, a);
  if (kind == scalar_op::select && operands[1] == operands[2]) return operands[1];
  return add(result);
}

MEGANEURA_INLINE scalar_ref scalar_builder::inlined(const scalar_program& program,
                                                    std::span<const scalar_ref> arguments) {
  small_vector<scalar_ref, 64> copies;
  copies.reserve(program.nodes.size());
  for (const scalar_node& node : program.nodes) {
    if (node.op == scalar_op::argument) {
      copies.push_back(arguments[static_cast<std::size_t>(node.value)]);
    } else if (node.op == scalar_op::constant) {
      copies.push_back(add(node));
    } else {
      scalar_ref operands[3]{};
      const int arity = info(node.op).arity;
      for (int i = 0; i < arity; ++i) operands[i] = copies[node.operands[i]];
      copies.push_back(apply(node.op, {operands, static_cast<std::size_t>(arity)}, node.type));
    }
  }
  return copies.back();
}

namespace detail {

// Post-order from the results, which become places in the program: equal DAGs get equal programs, whatever order their
// nodes were built in. Programs grow by fusion to thousands of operations in a row: no recursion.
inline scalar_program post_order(std::span<const scalar_node> nodes, std::span<scalar_ref> results) {
  scalar_program program;
  struct visit {
    int copy = -1, next_operand = 0;
    scalar_ref user{0};
  };
  small_vector<visit, 48> visits(nodes.size());
  for (scalar_ref& result : results) {
    for (scalar_ref at = result; visits[result].copy < 0;) {  // an operand is visited for the first user that needs it
      visit& here = visits[at];
      scalar_node node = nodes[at];
      const int arity = info(node.op).arity;
      while (here.next_operand < arity && visits[node.operands[here.next_operand]].copy >= 0) ++here.next_operand;
      if (here.next_operand < arity) {
        const scalar_ref operand = node.operands[here.next_operand];
        visits[operand].user = at;
        at = operand;
        continue;
      }
      for (int k = 0; k < arity; ++k) node.operands[k] = static_cast<scalar_ref>(visits[node.operands[k]].copy);
      here.copy = static_cast<int>(program.nodes.size());
      program.nodes.push_back(node);
      at = here.user;
    }
    result = static_cast<scalar_ref>(visits[result].copy);
  }
  return program;
}

}  // namespace detail

MEGANEURA_INLINE scalar_program scalar_builder::finish(scalar_ref result) const { return finish({&result, 1}); }

MEGANEURA_INLINE scalar_program scalar_builder::finish(std::span<scalar_ref> results) const {
  for (scalar_ref result : results) (void)node(result);
  return detail::post_order(nodes_, results);
}

MEGANEURA_INLINE scalar_program single_op_program(scalar_op kind, std::span<const dtype> arguments, dtype convert_to) {
  scalar_builder builder;
  scalar_ref operands[3]{};
  for (std::size_t i = 0; i < arguments.size(); ++i) operands[i] = builder.argument(static_cast<int>(i), arguments[i]);
  return builder.finish(builder.apply(kind, {operands, arguments.size()}, convert_to));
}

MEGANEURA_INLINE scalar_program cast_program(dtype from, dtype to) {
  scalar_builder builder;
  return builder.finish(builder.convert(builder.argument(0, from), to));
}

namespace detail {

// Integers wrap as they do on a device; what has no integer value (a division by zero) gives 0.
inline double wrapped(double value, dtype type) {
  if (!std::isfinite(value)) return 0;
  const double count = highest(type) - lowest(type) + 1, rest = std::fmod(std::trunc(value), count);
  return (rest > highest(type) ? rest - count : rest < lowest(type) ? rest + count : rest) + 0.0;  // never -0
}

inline std::int64_t evaluate_bits(scalar_op kind, std::int64_t a, std::int64_t b, dtype type) {
  const bool beyond = b < 0 || b >= 32;
  switch (kind) {
    case scalar_op::bitwise_and:
      return a & b;
    case scalar_op::bitwise_or:
      return a | b;
    case scalar_op::bitwise_xor:
      return a ^ b;
    case scalar_op::shift_left:
      return beyond ? 0 : static_cast<std::int64_t>(static_cast<std::uint32_t>(a) << b);
    default:
      return beyond ? (is_signed(type) && a < 0 ? -1 : 0) : a >> b;
  }
}

inline double reinterpreted(double value, dtype from, dtype to) {
  const std::uint32_t bits = is_float(from) ? std::bit_cast<std::uint32_t>(static_cast<float>(value))
                                            : static_cast<std::uint32_t>(static_cast<std::int64_t>(value));
  if (is_float(to)) return static_cast<double>(std::bit_cast<float>(bits));
  return is_signed(to) ? static_cast<double>(static_cast<std::int32_t>(bits)) : static_cast<double>(bits);
}

// Products are taken modulo 2^32 first, which the count of a type's numbers divides.
inline double evaluate_integer(scalar_op kind, double a, double b, dtype type) {
  const bool multiplies = kind == scalar_op::multiply, divides = kind == scalar_op::divide;
  if (!multiplies && !divides && !info(kind).is.integers_only) return wrapped(evaluate_real(kind, a, b, 0), type);
  if (!std::isfinite(a) || !std::isfinite(b)) return 0;
  const auto x = static_cast<std::int64_t>(a), y = static_cast<std::int64_t>(b);
  if (divides) return y == 0 ? 0 : wrapped(static_cast<double>(x / y), type);
  if (info(kind).is.integers_only) return wrapped(static_cast<double>(evaluate_bits(kind, x, y, type)), type);
  const std::uint64_t product = static_cast<std::uint64_t>(x) * static_cast<std::uint64_t>(y);
  return wrapped(static_cast<double>(static_cast<std::uint32_t>(product)), type);
}

inline double converted(double value, dtype from, dtype to) {
  if (to == dtype::boolean) return value != 0;
  if (is_float(to)) return value;
  if (!is_float(from)) return wrapped(value, to);
  if (std::isnan(value)) return 0;
  return std::clamp(std::trunc(value), lowest(to), highest(to)) + 0.0;
}

// Steps are of the last digit beside the leading one, and no smaller than those of the denormal numbers.
inline double nearest_float(double value, const dtype_info& format) {
  if (!std::isfinite(value) || value == 0) return value;
  const double step = std::ldexp(1.0, std::max(std::ilogb(value), format.least_exponent) - format.digits + 1);
  const double nearest = std::nearbyint(value / step) * step;
  const bool fits = std::fabs(nearest) < std::ldexp(1.0, 2 - format.least_exponent);
  return fits ? nearest : std::copysign(std::numeric_limits<double>::infinity(), value);
}

}  // namespace detail

MEGANEURA_INLINE double rounded_to(double value, dtype type) {
  switch (info(type).kind) {
    case number_kind::floating:
      return detail::nearest_float(value, info(type));
    case number_kind::condition:
      return value != 0;
    case number_kind::signed_integer:
    case number_kind::unsigned_integer:
      return detail::wrapped(value, type);
  }
  fail(error_category::internal, "rounded_to: {} was asked for", to_string(type));
}

MEGANEURA_INLINE void expect_dtype(std::string_view asked, dtype type) {
  if (exists(type)) return;
  std::string names;
  for (const dtype_info& row : detail::dtype_table) {
    if (row.bits != 0) names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  fail(error_category::invalid_argument, "{}: dtype {} does not exist; use one of {}", asked, static_cast<int>(type),
       names);
}

MEGANEURA_INLINE void expect_representable(std::string_view asked, double value, dtype type) {
  if (type == dtype::f32 || holds(type, value)) return;
  if (is_float(type)) {
    fail(error_category::invalid_argument,
         "{}: {} was asked for as {}, in which this is infinity; cast what it meets to f32", asked, value,
         to_string(type));
  }
  fail(error_category::invalid_argument,
       "{}: {} was asked for as {}, which holds whole numbers from {:.0f} to {:.0f}; {}", asked, value, to_string(type),
       lowest(type), highest(type), "round the number, or cast what it meets to f32");
}

MEGANEURA_INLINE double evaluate(scalar_op kind, double a, double b, double c, dtype type, dtype from) {
  if (info(kind).arity == 0 || is_row_reduction(kind)) {
    fail(error_category::internal, "evaluate: {} is not a function of scalars", info(kind).name);
  }
  if (kind == scalar_op::convert) return detail::converted(a, from, type);
  if (kind == scalar_op::reinterpret) return detail::reinterpreted(a, from, type);
  if (is_integer(type) && (info(kind).is.arithmetic || info(kind).is.integers_only))
    return detail::evaluate_integer(kind, a, b, type);
  return detail::evaluate_real(kind, a, b, c);
}

namespace detail {

// Nested calls while they are short; a larger program names each shared call once, so that its text grows with its
// nodes and not with its paths.
class program_printer {
 public:
  program_printer(const scalar_program& program, std::span<const scalar_ref> results)
      : nodes_(program.nodes), results_(results), names_(program.nodes.size(), -1) {
    std::vector<double> expanded;
    std::vector<int> uses(nodes_.size(), 0);
    for (const scalar_node& node : nodes_) {
      double size = 1;
      for (int i = 0; i < info(node.op).arity; ++i) {
        size += expanded[node.operands[i]];
        ++uses[node.operands[i]];
      }
      expanded.push_back(size);
    }
    if (std::ranges::all_of(results, [&](scalar_ref each) { return expanded[each] <= longest; })) return;
    std::vector<int> depth(nodes_.size(), 0);  // of the calls written inside of each other
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const int arity = info(nodes_[i].op).arity;
      for (int k = 0; k < arity; ++k) {
        const scalar_ref operand = nodes_[i].operands[k];
        depth[i] = std::max(depth[i], names_[operand] >= 0 ? 1 : depth[operand] + 1);
      }
      if ((uses[i] < 2 && depth[i] < deepest) || arity == 0) continue;
      text_ += fmt::format("t{} = ", shared_);
      write(i);
      text_ += "; ";
      names_[i] = shared_++;
    }
  }
  [[nodiscard]] std::string text() {
    for (const scalar_ref& each : results_) {
      if (&each != results_.data()) text_ += " | ";
      write(each);
    }
    return std::move(text_);
  }

 private:
  void write(std::size_t at) {
    const scalar_node& node = nodes_[at];
    if (names_[at] >= 0) {
      text_ += fmt::format("t{}", names_[at]);
    } else if (node.op == scalar_op::argument) {
      text_ += fmt::format("a{}", static_cast<int>(node.value));
    } else if (node.op == scalar_op::constant) {
      text_ += fmt::format("{}", node.value);
    } else {
      text_ += node.op == scalar_op::convert ? to_string(node.type) : info(node.op).name;
      for (int i = 0; i < info(node.op).arity; ++i) {
        text_ += i == 0 ? "(" : ", ";
        write(node.operands[i]);
      }
      text_ += ')';
    }
  }

  static constexpr double longest = 24;  // nodes that are still read at a glance
  static constexpr int deepest = 100;    // calls inside of calls
  std::span<const scalar_node> nodes_;
  std::span<const scalar_ref> results_;
  std::vector<int> names_;  // of the nodes already written; -1: none
  int shared_ = 0;
  std::string text_;
};

}  // namespace detail

MEGANEURA_INLINE std::string to_string(const scalar_program& program, std::span<const scalar_ref> results) {
  return detail::program_printer(program, results).text();
}

MEGANEURA_INLINE std::string to_string(const scalar_program& program) {
  if (program.nodes.empty()) return {};
  const auto last = static_cast<scalar_ref>(program.nodes.size() - 1);
  return to_string(program, std::span(&last, 1));
}

}  // namespace meganeura::inline MEGANEURA_ABI
