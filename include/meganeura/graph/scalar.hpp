// SPDX-License-Identifier: MIT
// Scalar programs: the hash-consed scalar expression a map applies to one element of each operand.
#pragma once
#include <meganeura/core/dtype.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/core/hash.hpp>
#include <meganeura/core/hash_index.hpp>
#include <meganeura/core/id.hpp>
#include <meganeura/core/same_bits.hpp>
#include <meganeura/core/small_vector.hpp>
#include <meganeura/graph/scalar_op.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace meganeura::inline MEGANEURA_ABI {

/// Index of a node inside its program.
using scalar_ref = strong_id<struct scalar_kind, std::uint16_t>;

struct scalar_node {
  scalar_op op{};
  dtype type = dtype::f32;   // a compute type: f32, i32, u32 or boolean
  scalar_ref operands[3]{};  // the first info(op).arity count; the rest are 0
  double value = 0;          // argument index or constant; 0 otherwise

  friend bool operator==(const scalar_node& a, const scalar_node& b) {
    return a.op == b.op && a.type == b.type && a.operands[0] == b.operands[0] && a.operands[1] == b.operands[1] &&
           a.operands[2] == b.operands[2] && same_bits(a.value, b.value);
  }
};

/// A DAG in topological order: operands precede users, equal nodes are one node, the last node is the result.
struct scalar_program {
  small_vector<scalar_node, 12> nodes;

  [[nodiscard]] dtype type() const { return nodes.back().type; }
  [[nodiscard]] int arguments() const;  // one more than the largest argument index
  [[nodiscard]] bool has_rows() const;
  /// How many operations graph::flops counts for one evaluation: nodes that are neither leaves nor conditions.
  [[nodiscard]] std::int64_t operations() const;
  /// Exactly one operation applied to arguments 0, 1, 2 in order (how a map looks before fusion), or nothing.
  [[nodiscard]] bool is_single(scalar_op kind) const;
  /// The program that returns argument 0 unchanged.
  [[nodiscard]] bool is_identity() const {
    return nodes.size() == 1 && nodes[0].op == scalar_op::argument && nodes[0].value == 0;
  }
  [[nodiscard]] std::uint64_t hash() const;

  friend bool operator==(const scalar_program&, const scalar_program&) = default;
};

/// One for each node or argument of a program.
using program_flags = small_vector<bool, 64>;

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
  /// The program computing several; `results` become their places in it.
  [[nodiscard]] scalar_program finish(std::span<scalar_ref> results) const;

 private:
  scalar_ref add(const scalar_node& node);
  scalar_ref folded(double value, dtype type);
  [[noreturn]] void refuse_ref(scalar_ref ref) const;
  [[nodiscard]] std::optional<scalar_ref> find(const scalar_node& node);
  [[nodiscard]] bool is_constant(scalar_ref ref, double value) const;
  small_vector<scalar_node, 32> nodes_;
  hash_index<scalar_ref> index_;  // of the first `indexed_` nodes, once there are many
  std::size_t indexed_ = 0;
};

/// The program of one operation on arguments of the given types, e.g. {multiply, f32, f32}.
[[nodiscard]] scalar_program single_op_program(scalar_op kind, std::span<const dtype> arguments,
                                               dtype convert_to = dtype::f32);
/// That of a conversion between dtypes of tensors, as scalar_builder::convert writes it.
[[nodiscard]] scalar_program cast_program(dtype from, dtype to);

/// The nearest value a tensor of that dtype can hold (ties to even; beyond the range of a float an infinity);
/// integers drop their fraction and wrap around (-1 is a u32 of all ones), what is no number gives 0; boolean: 1
/// for all but 0.
[[nodiscard]] double rounded_to(double value, dtype type);

/// Refuses a number that is no dtype. `asked` begins the sentence.
void expect_dtype(std::string_view asked, dtype type);

/// Refuses a number written for an integer dtype that does not have it: a fraction, a NaN or one out of range. `asked`
/// begins the sentence.
void expect_representable(std::string_view asked, double value, dtype type);

/// Evaluates one operation in double precision (comparison: 0 or 1); rows excluded. `type` is the result's; `from`, the
/// operand's, matters to convert alone. Folding and the tests share it.
[[nodiscard]] double evaluate(scalar_op kind, double a, double b, double c, dtype type, dtype from = dtype::f32);

/// One line, e.g. "exp(subtract(a0, row_max(a0)))".
[[nodiscard]] std::string to_string(const scalar_program& program);
/// The same of several results: "exp(a0) | t" and so on.
[[nodiscard]] std::string to_string(const scalar_program& program, std::span<const scalar_ref> results);

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/graph/scalar.ipp>
#endif
