// SPDX-License-Identifier: MIT
// The op table: every node kind of the run-time graph, with its name, arity and stage; the kinds of reduce and random.
#pragma once
#include <meganeura/graph/scalar_op.hpp>

#include <cstddef>
#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI {

enum class op : std::uint8_t {
  // leaves
  input,      // bound by name every step
  parameter,  // owned by the parameters object; trained
  state,      // owned by the parameters object; changed by `assign` at the end of a step
  // primitives
  constant,         // one scalar value, rank 0
  iota,             // [n]: 0, 1, 2, ... as i32; other ranks are views of it
  random,           // counter-based (Philox 4x32-10) values of a named stream; changes with the step number
  map,              // out[i] = program(a[i], b[i], ...): all operands have the result's shape
  reduce,           // sum, max, min, product over some axes, which disappear
  cumulative,       // sum, product or place of the extremum of what stands before along one axis, itself included
  argsort,          // the places of the elements along one axis in the order of their values
  contract,         // generalised matrix product of two operands (einsum)
  view,             // out[i] = in.flat[offset + sum stride * i]: reshape, permute, slice, flip, broadcast
  pad,              // a constant border around the operand
  concat,           // along one axis
  gather,           // rows of a table chosen by integer indices
  scatter_add,      // its adjoint: updates added into zeros
  index_add,        // updates added into its first operand
  take_along,       // elements along an axis, one for each integer index
  scatter_along,    // its adjoint: updates that an index puts together, added up or the largest of them
  narrow,           // some rows, from a position that is a value
  update_rows,      // its first operand with rows written over it from such a position on
  convolution,      // N-d; the output, the input or the filter of one and the same correlation
  window_reduce,    // pooling
  window_scatter,   // its adjoint
  stop_gradient,    // identity forward, zero backward
  adjoint,          // in the backward of a custom_gradient: what reverse mode will bring for its operand
  custom_gradient,  // its first operand; the second one's gradient is the third, a function of the fourth, an adjoint
  // effects: no value, roots of the graph
  assign,          // state := value, after every read of the old value
  optimizer_step,  // all parameters updated in place from their gradients
  // implementations: what extraction leaves and the plan runs, with the primitives that run as they are
  region,     // a fused scalar program over an iteration space, with row reductions inside (pointwise and rows kernels)
  matmul,     // contract with strided operands and an epilogue program
  convolve,   // convolution with an epilogue program
  attention,  // two products and the softmax between them: scores of queries and keys weigh values
  prepare_rows,  // rows as f16 terms, as attention and products on matrix units read them
  result,        // one of the values that its operand, an implementation with several, stores
};

inline constexpr int op_count = static_cast<int>(op::result) + 1;

/// arg_max and arg_min give the place of the first extremum as i32: its row-major position along the reduced axes. A
/// NaN is larger and smaller than every number: the first one is the extremum.
enum class reduce_kind : std::uint8_t { sum, max, min, product, arg_max, arg_min };

struct reduce_info {
  const char* name = "unknown kind";
  scalar_op row = scalar_op::argument;  // what it is inside of a region, or what its place is of
  bool gives_place = false, exists = false;
};

[[nodiscard]] constexpr reduce_info info(reduce_kind kind) {
  switch (kind) {
    case reduce_kind::sum:
      return {"sum", scalar_op::row_sum, false, true};
    case reduce_kind::max:
      return {"max", scalar_op::row_max, false, true};
    case reduce_kind::min:
      return {"min", scalar_op::row_min, false, true};
    case reduce_kind::product:
      return {"product", scalar_op::row_product, false, true};
    case reduce_kind::arg_max:
      return {"arg_max", scalar_op::row_max, true, true};
    case reduce_kind::arg_min:
      return {"arg_min", scalar_op::row_min, true, true};
  }
  return {};
}
[[nodiscard]] constexpr bool is_arg(reduce_kind kind) { return info(kind).gives_place; }

/// Of random values: [0, 1), or mean 0 and deviation 1.
enum class distribution : std::uint8_t { uniform, normal };
[[nodiscard]] constexpr const char* to_string(distribution kind) {
  switch (kind) {
    case distribution::uniform:
      return "uniform";
    case distribution::normal:
      return "normal";
  }
  return "unknown distribution";
}

/// What a model does different things in: dropout and batch norm do.
enum class run_mode : std::uint8_t { evaluation, training };

enum class op_stage : std::uint8_t {
  leaf,            // memory bound under a name
  primitive,       // a value of operands
  effect,          // no value
  implementation,  // what the e-graph makes of primitives
  projection,      // names one of its operand's values
};

struct op_info {
  op kind;
  const char* name;
  int arity;  // number of operands, -1 = any
  op_stage stage;
  bool runs = false;  // has a kernel of its own; primitives that have none are replaced by implementations
  int updates = 0;    // where its result lies in its first operand's memory, that kernel moves what changes alone: as
                      // many times, 2 if rows are given and written, 3 if they are read as well
  op implements = op::input;  // of an implementation: the one primitive that it computes, if there is one
};

namespace detail {
inline constexpr op_info op_table[op_count] = {
    {op::input, "input", 0, op_stage::leaf},
    {op::parameter, "parameter", 0, op_stage::leaf},
    {op::state, "state", 0, op_stage::leaf},
    {op::constant, "constant", 0, op_stage::primitive},
    {op::iota, "iota", 0, op_stage::primitive},
    {op::random, "random", 0, op_stage::primitive, true},
    {op::map, "map", -1, op_stage::primitive},
    {op::reduce, "reduce", 1, op_stage::primitive},
    {op::cumulative, "cumulative", 1, op_stage::primitive, true},
    {op::argsort, "argsort", 1, op_stage::primitive, true},
    {op::contract, "contract", 2, op_stage::primitive},
    {op::view, "view", 1, op_stage::primitive},
    {op::pad, "pad", 1, op_stage::primitive},
    {op::concat, "concat", -1, op_stage::primitive},
    {op::gather, "gather", 2, op_stage::primitive, true},
    {op::scatter_add, "scatter_add", 2, op_stage::primitive, true},
    {op::index_add, "index_add", 3, op_stage::primitive, true, 3},
    {op::take_along, "take_along", 2, op_stage::primitive, true},
    {op::scatter_along, "scatter_along", 2, op_stage::primitive, true},
    {op::narrow, "narrow", 2, op_stage::primitive, true},
    {op::update_rows, "update_rows", 3, op_stage::primitive, true, 2},
    {op::convolution, "convolution", 2, op_stage::primitive},
    {op::window_reduce, "window_reduce", 1, op_stage::primitive, true},
    {op::window_scatter, "window_scatter", -1, op_stage::primitive, true},
    {op::stop_gradient, "stop_gradient", 1, op_stage::primitive},
    {op::adjoint, "adjoint", 1, op_stage::primitive},
    {op::custom_gradient, "custom_gradient", 4, op_stage::primitive},
    {op::assign, "assign", 2, op_stage::effect},
    {op::optimizer_step, "optimizer_step", -1, op_stage::effect},
    {op::region, "region", -1, op_stage::implementation, true},
    {op::matmul, "matmul", -1, op_stage::implementation, true, 0, op::contract},
    {op::convolve, "convolve", -1, op_stage::implementation, true, 0, op::convolution},
    {op::attention, "attention", -1, op_stage::implementation, true},
    {op::prepare_rows, "prepare_rows", 1, op_stage::implementation, true},
    {op::result, "result", 1, op_stage::projection},
};
static_assert(
    [] {
      for (int i = 0; i < op_count; ++i) {
        if (op_table[i].kind != static_cast<op>(i)) return false;
      }
      return true;
    }(),
    "op_table has its rows in the order of op");
}  // namespace detail

[[nodiscard]] constexpr const op_info& info(op kind) { return detail::op_table[static_cast<int>(kind)]; }
[[nodiscard]] constexpr const char* to_string(op kind) { return info(kind).name; }
/// Whether nodes of this kind can apply a program to what they compute: those that implement one primitive.
[[nodiscard]] constexpr bool has_epilogue(op kind) { return info(kind).implements != op::input; }
/// How many of such a node's operands are the primitive's; the epilogue reads those after them.
[[nodiscard]] constexpr std::size_t own_operands(op kind) {
  return static_cast<std::size_t>(info(info(kind).implements).arity);
}

}  // namespace meganeura::inline MEGANEURA_ABI
