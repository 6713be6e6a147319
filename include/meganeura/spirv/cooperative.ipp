// SPDX-License-Identifier: MIT
// Definitions of cooperative.hpp.
#pragma once
#include <meganeura/spirv/cooperative.hpp>

namespace meganeura::inline MEGANEURA_ABI::spirv::untyped {

[[nodiscard]] inline word matrix_type_id(kernel& owner, const matrix_type& type) {
  return owner.builder().type_cooperative_matrix(type.kind, type.rows, type.columns, static_cast<word>(type.use));
}

[[nodiscard]] inline word matrix_id(const matrix_operand& value) {
  if (value.owner->builder().visible(value.id)) return value.id;
  fail(error_category::invalid_argument,
       "a cooperative matrix computed inside a closed block was used after it; keep it in a variable");
}

MEGANEURA_INLINE matrix_operand matrix_fill(kernel& owner, const matrix_type& type, const operand& value) {
  const word part = owner.use(value);
  const word id = matrix_type_id(owner, type);
  if (value.is_literal() && !is_narrow_integer(type.kind))
    return {&owner, owner.builder().constant_composite(id, std::span(&part, 1)), type};
  return {&owner, owner.builder().emit_pure(op::composite_construct, id, std::span(&part, 1)), type};
}

// A matrix lies in elements of an array, which parts of vectors are not.
inline void check_matrix_place(const place_reference& place) {
  if (!place.object.lies_as || place.object.lies_as->components == place.object.type.components) return;
  fail(error_category::invalid_argument,
       "a matrix in a view of workgroup memory needs use_explicit_workgroup_layout(), or the array itself");
}

MEGANEURA_INLINE matrix_operand matrix_load(const matrix_type& type, const place_reference& from, const operand& stride,
                                            matrix_layout layout) {
  check_matrix_place(from);
  kernel& owner = *from.object.owner;
  const word id = matrix_type_id(owner, type);
  words parts{from.pointer, owner.builder().constant({scalar_kind::u32, 1}, static_cast<word>(layout)),
              owner.use(stride)};
  const words extra = memory_operands(owner, from.object, false);
  parts.insert(parts.end(), extra.begin(), extra.end());
  return {&owner, owner.builder().emit(op::cooperative_matrix_load, id, parts), type};
}

MEGANEURA_INLINE void matrix_store(const place_reference& to, const matrix_operand& what, const operand& stride,
                                   matrix_layout layout) {
  check_matrix_place(to);
  kernel& owner = *to.object.owner;
  if (!to.object.writable)
    fail(error_category::invalid_argument,
         "a matrix store to read-only binding {} was asked for; declare it with access::write", to.object.binding);
  words parts{to.pointer, matrix_id(what), owner.builder().constant({scalar_kind::u32, 1}, static_cast<word>(layout)),
              owner.use(stride)};
  const words extra = memory_operands(owner, to.object, true);
  parts.insert(parts.end(), extra.begin(), extra.end());
  owner.builder().emit_void(op::cooperative_matrix_store, parts);
}

// Cooperative matrix operands: which of a, b, c and the result are signed integers.
[[nodiscard]] inline word signed_operands(scalar_kind a, scalar_kind b, scalar_kind c) {
  const auto is_signed = [](scalar_kind kind) { return is_integer(kind) && info(kind).is_signed; };
  return (is_signed(a) ? 1u : 0u) | (is_signed(b) ? 2u : 0u) | (is_signed(c) ? 12u : 0u);
}

MEGANEURA_INLINE matrix_operand matrix_multiply_add(const matrix_operand& a, const matrix_operand& b,
                                                    const matrix_operand& c) {
  if (a.type.use != matrix_use::a || b.type.use != matrix_use::b || c.type.use != matrix_use::accumulator) {
    fail(error_category::invalid_argument, "multiply_add takes matrices of use a, b and accumulator, in this order");
  }
  if (a.type.columns != b.type.rows || a.type.rows != c.type.rows || b.type.columns != c.type.columns) {
    fail(error_category::invalid_argument, "multiply_add of {}x{} by {}x{} onto {}x{} was asked for", a.type.rows,
         a.type.columns, b.type.rows, b.type.columns, c.type.rows, c.type.columns);
  }
  words parts{matrix_id(a), matrix_id(b), matrix_id(c)};
  if (const word signs = signed_operands(a.type.kind, b.type.kind, c.type.kind); signs != 0) parts.push_back(signs);
  return {c.owner,
          c.owner->builder().emit_pure(op::cooperative_matrix_mul_add, matrix_type_id(*c.owner, c.type), parts),
          c.type};
}

[[nodiscard]] inline matrix_operand matrix_pure(op code, const matrix_type& type, const matrix_operand& a,
                                                std::initializer_list<word> parts) {
  return {a.owner, a.owner->builder().emit_pure(code, matrix_type_id(*a.owner, type), words(parts)), type};
}

[[nodiscard]] inline int arithmetic_of(scalar_kind kind) {
  if (kind == scalar_kind::bf16)
    fail(error_category::invalid_argument, "arithmetic on a cooperative matrix of bf16 was asked for; convert it");
  return !is_integer(kind) ? 0 : info(kind).is_signed ? 1 : 2;
}

MEGANEURA_INLINE matrix_operand matrix_binary(binary_op code, const matrix_operand& a, const matrix_operand& b) {
  if (a.type != b.type) fail(error_category::invalid_argument, "cooperative matrices of different types were combined");
  constexpr op table[][3] = {{op::f_add, op::i_add, op::i_add},
                             {op::f_sub, op::i_sub, op::i_sub},
                             {op::f_mul, op::i_mul, op::i_mul},
                             {op::f_div, op::s_div, op::u_div}};
  if (code > binary_op::divide)
    fail(error_category::invalid_argument, "cooperative matrices are added, subtracted, multiplied and divided only");
  return matrix_pure(table[static_cast<int>(code)][arithmetic_of(a.type.kind)], a.type, a,
                     {matrix_id(a), matrix_id(b)});
}

MEGANEURA_INLINE matrix_operand matrix_negate(const matrix_operand& a) {
  return matrix_pure(arithmetic_of(a.type.kind) == 0 ? op::f_negate : op::s_negate, a.type, a, {matrix_id(a)});
}

MEGANEURA_INLINE matrix_operand matrix_convert(scalar_kind to, const matrix_operand& a) {
  if (a.type.kind == to) return a;
  if (is_integer(a.type.kind) != is_integer(to))
    fail(error_category::invalid_argument, "a cooperative matrix of floats was to become one of integers, or back");
  const matrix_type type{to, a.type.rows, a.type.columns, a.type.use};
  if (!is_integer(to)) return matrix_pure(op::f_convert, type, a, {matrix_id(a)});
  const scalar_info &had = info(a.type.kind), &has = info(to);
  if (had.bits == has.bits) return matrix_pure(op::bitcast, type, a, {matrix_id(a)});
  const bool widens = had.bits < has.bits;
  if (widens ? had.is_signed : has.is_signed) return matrix_pure(op::s_convert, type, a, {matrix_id(a)});
  if (!has.is_signed) return matrix_pure(op::u_convert, type, a, {matrix_id(a)});
  return matrix_convert(to, matrix_convert(has.bits == 32 ? scalar_kind::u32 : scalar_kind::u16, a));
}

MEGANEURA_INLINE matrix_operand matrix_scale(const matrix_operand& a, const operand& factor) {
  const word parts[] = {matrix_id(a), a.owner->use(factor)};
  return {a.owner, a.owner->builder().emit_pure(op::matrix_times_scalar, matrix_type_id(*a.owner, a.type), parts),
          a.type};
}

MEGANEURA_INLINE word matrix_variable(kernel& owner, const matrix_type& type) {
  auto& builder = owner.builder();
  return builder.function_variable(builder.type_pointer(storage_class::function, matrix_type_id(owner, type)));
}

MEGANEURA_INLINE matrix_operand matrix_read(kernel& owner, word variable, const matrix_type& type) {
  return {&owner, owner.builder().emit(op::load, matrix_type_id(owner, type), std::span(&variable, 1)), type};
}

MEGANEURA_INLINE place_reference matrix_component(kernel& owner, word variable, const matrix_type& type, word which) {
  auto& builder = owner.builder();
  const data_type scalar{type.kind, 1};
  const word parts[] = {variable, builder.constant({scalar_kind::u32, 1}, which)};
  const word pointer =
      builder.emit_pure(op::access_chain, builder.type_pointer(storage_class::function, builder.type(scalar)), parts);
  return {{&owner, variable, scalar, storage_class::function}, pointer};
}

MEGANEURA_INLINE operand matrix_length(kernel& owner, const matrix_type& type) {
  constexpr data_type index{scalar_kind::u32, 1};
  const word id = matrix_type_id(owner, type);
  return owner.wrap(
      index, owner.builder().emit_pure(op::cooperative_matrix_length, owner.builder().type(index), std::span(&id, 1)));
}

MEGANEURA_INLINE void matrix_write(word variable, const matrix_operand& what) {
  const word parts[] = {variable, matrix_id(what)};
  what.owner->builder().emit_void(op::store, parts);
}

}  // namespace meganeura::inline MEGANEURA_ABI::spirv::untyped
