// SPDX-License-Identifier: MIT
// Scalar programs: the hash-consed scalar expression a map applies to one element of each operand.
#pragma once
#include <meganeura/core/dtype.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/core/id.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

/// Operations on scalars. Semantics are IEEE 754, each operation rounded for itself (a * b + c is never one); where C
/// and GLSL differ the comment decides. On a device what is not exact is off by at most (units in the last place of an
/// f32 result; an f16 is rounded once more): divide and reciprocal 2.5, for divisors of magnitude 2^-126 to 2^126;
/// rsqrt 2; sqrt 4.5; exp 3 + 2|x|; log 4, at 1 nothing; tanh 4 for |x| < 0.648 and 9 beyond; power 8, and 2|b| + 3
/// where b is a constant integer up to 64 in magnitude (multiplications). Denormal numbers may count as zeros.
// clang-format off
enum class scalar_op : std::uint8_t {
  argument,  // value: index of the operand
  constant,  // value: the number
  // unary
  negate, abs,
  sign,  // -1, 0 or 1; 0 for a NaN
  reciprocal, sqrt, rsqrt, exp, log,
  sin, cos,  // on a device of |x| <= 2^24, within 2^-22 of the result and 2^-35; beyond, where floats miss radians, NaN
  tanh, floor, ceil,
  round,  // ties to even
  logical_not,
  // To the node's type. Float to integer truncates towards zero; beyond the range it is the nearest integer there is, and
  // 0 for a NaN. Between i32 and u32: modulo 2^32. Integer to float rounds to nearest, ties to even. To boolean: x != 0,
  // true for a NaN; from it 0 or 1.
  convert,
  // binary
  add, subtract, multiply,
  divide,  // integers: truncates towards zero, x / 0 is 0 and -2^31 / -1 is -2^31; floats by zero: +-inf or NaN
  power,   // a^b for a >= 0; a < 0 gives NaN unless b is a constant integer; which sign a zero has or gives stays open
  minimum, maximum,  // IEEE 754-2019: NaN if either is NaN; which of two zeros of unlike sign it is stays open
  less, less_equal, equal, logical_and, logical_or,
  // ternary
  select,  // a ? b : c
  // over the row axes of a region only (never in a map): the value is the same for every element of the row; a NaN
  // anywhere in the row is the result of each
  row_sum, row_max, row_min, row_product,
};
// clang-format on

inline constexpr int scalar_op_count = static_cast<int>(scalar_op::row_product) + 1;

struct scalar_op_info {
  const char* name;
  int arity;
};

namespace detail {
inline constexpr scalar_op_info scalar_op_table[scalar_op_count] = {
    {"argument", 0}, {"constant", 0}, {"negate", 1},     {"abs", 1},     {"sign", 1},        {"reciprocal", 1},
    {"sqrt", 1},     {"rsqrt", 1},    {"exp", 1},        {"log", 1},     {"sin", 1},         {"cos", 1},
    {"tanh", 1},     {"floor", 1},    {"ceil", 1},       {"round", 1},   {"logical_not", 1}, {"convert", 1},
    {"add", 2},      {"subtract", 2}, {"multiply", 2},   {"divide", 2},  {"power", 2},       {"minimum", 2},
    {"maximum", 2},  {"less", 2},     {"less_equal", 2}, {"equal", 2},   {"logical_and", 2}, {"logical_or", 2},
    {"select", 3},   {"row_sum", 1},  {"row_max", 1},    {"row_min", 1}, {"row_product", 1},
};
}  // namespace detail

[[nodiscard]] constexpr const scalar_op_info& info(scalar_op kind) {
  return detail::scalar_op_table[static_cast<int>(kind)];
}
[[nodiscard]] constexpr const char* to_string(scalar_op kind) {
  return static_cast<int>(kind) < scalar_op_count ? info(kind).name : "operation";
}
[[nodiscard]] constexpr bool is_row_reduction(scalar_op kind) { return kind >= scalar_op::row_sum; }
[[nodiscard]] constexpr bool is_comparison(scalar_op kind) {
  return kind == scalar_op::less || kind == scalar_op::less_equal || kind == scalar_op::equal;
}

/// Index of a node inside its program.
using scalar_ref = strong_id<struct scalar_kind, std::uint16_t>;

struct scalar_node {
  scalar_op op{};
  dtype type = dtype::f32;   // a compute type: f32, i32, u32 or boolean
  scalar_ref operands[3]{};  // the first info(op).arity count; the rest are 0
  double value = 0;          // argument index or constant; 0 otherwise

  friend bool operator==(const scalar_node&, const scalar_node&) = default;
};

/// A DAG in topological order: operands precede users, equal nodes are one node, the last node is the result.
struct scalar_program {
  std::vector<scalar_node> nodes;

  [[nodiscard]] dtype type() const { return nodes.back().type; }
  [[nodiscard]] int arguments() const;  // one more than the largest argument index
  [[nodiscard]] bool has_rows() const;
  /// Exactly one operation applied to arguments 0, 1, 2 in order (how a map looks before fusion), or nothing.
  [[nodiscard]] bool is_single(scalar_op kind) const;
  /// The program that returns argument 0 unchanged.
  [[nodiscard]] bool is_identity() const { return nodes.size() == 1 && nodes[0].op == scalar_op::argument; }
  [[nodiscard]] std::uint64_t hash() const;

  friend bool operator==(const scalar_program&, const scalar_program&) = default;
};

/// Refuses what `scalar_builder` would not write, for programs that come from elsewhere: none at all, operations and
/// types that do not exist, operands that do not precede their user or do not fit it, constants that their type does
/// not hold. errors: invalid_argument.
void check_program(const scalar_program& program);

/// Writes a program: hash-conses nodes and folds what needs no device and changes no bit: constants (rounded to their
/// type after each operation), x + -0, x - 0, x * 1, double negation. Errors: invalid_argument when operand types do
/// not fit the operation, a ref is none of this builder, or an argument's index is negative.
class scalar_builder {
 public:
  [[nodiscard]] scalar_ref argument(int index, dtype type);
  /// Errors: invalid_argument when `type` is an integer and does not have the value.
  [[nodiscard]] scalar_ref constant(double value, dtype type = dtype::f32);
  [[nodiscard]] scalar_ref unary(scalar_op kind, scalar_ref a);
  [[nodiscard]] scalar_ref binary(scalar_op kind, scalar_ref a, scalar_ref b);
  [[nodiscard]] scalar_ref select(scalar_ref condition, scalar_ref a, scalar_ref b);
  [[nodiscard]] scalar_ref convert(scalar_ref a, dtype type);
  /// Any operation by its operands; the three functions above end here.
  [[nodiscard]] scalar_ref apply(scalar_op kind, std::span<const scalar_ref> operands, dtype convert_to = dtype::f32);
  /// Copies `program` in, its argument i replaced by `arguments[i]`; returns its result.
  [[nodiscard]] scalar_ref inlined(const scalar_program& program, std::span<const scalar_ref> arguments);

  [[nodiscard]] dtype type(scalar_ref ref) const { return node(ref).type; }
  [[nodiscard]] const scalar_node& node(scalar_ref ref) const {
    if (ref >= nodes_.size()) refuse_ref(ref);
    return nodes_[ref];
  }

  /// The program computing `result`, without the nodes it does not need.
  [[nodiscard]] scalar_program finish(scalar_ref result) const;

 private:
  scalar_ref add(const scalar_node& node);
  scalar_ref folded(double value, dtype type);
  [[noreturn]] void refuse_ref(scalar_ref ref) const;
  [[nodiscard]] std::optional<scalar_ref> find(const scalar_node& node);
  [[nodiscard]] bool is_constant(scalar_ref ref, double value) const;
  std::vector<scalar_node> nodes_;
  std::unordered_multimap<std::uint64_t, scalar_ref> index_;  // of the first `indexed_` nodes, once there are many
  std::size_t indexed_ = 0;
};

/// The program of one operation on arguments of the given types, e.g. {multiply, f32, f32}.
[[nodiscard]] scalar_program single_op_program(scalar_op kind, std::span<const dtype> arguments,
                                               dtype convert_to = dtype::f32);

/// The nearest value a tensor of that dtype can hold (ties to even; beyond the range of f16 and f32 an infinity);
/// integers drop their fraction and wrap modulo 2^32 (-1 is a u32 of all ones), what is no number gives 0; boolean: 1
/// for all but 0.
[[nodiscard]] double rounded_to(double value, dtype type);

/// Refuses a number written for an integer dtype that does not have it: a fraction, a NaN or one out of range. `asked`
/// begins the sentence.
void expect_representable(std::string_view asked, double value, dtype type);

/// Evaluates one operation in double precision (comparison: 0 or 1); rows excluded. `type` is the result's; `from`, the
/// operand's, matters to convert alone. Folding and the tests share it.
[[nodiscard]] double evaluate(scalar_op kind, double a, double b, double c, dtype type, dtype from = dtype::f32);

/// One line, e.g. "exp(subtract(a0, row_max(a0)))".
[[nodiscard]] std::string to_string(const scalar_program& program);

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/graph/scalar.ipp>
#endif
