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
  if (value.is_literal()) return {&owner, owner.builder().constant_composite(id, std::span(&part, 1)), type};
  return {&owner, owner.builder().emit_pure(op::composite_construct, id, std::span(&part, 1)), type};
}

MEGANEURA_INLINE matrix_operand matrix_load(const matrix_type& type, const place_reference& from, const operand& stride,
                                            matrix_layout layout) {
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

MEGANEURA_INLINE matrix_operand matrix_multiply_add(const matrix_operand& a, const matrix_operand& b,
                                                    const matrix_operand& c) {
  if (a.type.use != matrix_use::a || b.type.use != matrix_use::b || c.type.use != matrix_use::accumulator) {
    fail(error_category::invalid_argument, "multiply_add takes matrices of use a, b and accumulator, in this order");
  }
  if (a.type.columns != b.type.rows || a.type.rows != c.type.rows || b.type.columns != c.type.columns) {
    fail(error_category::invalid_argument, "multiply_add of {}x{} by {}x{} onto {}x{} was asked for", a.type.rows,
         a.type.columns, b.type.rows, b.type.columns, c.type.rows, c.type.columns);
  }
  const word parts[] = {matrix_id(a), matrix_id(b), matrix_id(c)};
  return {c.owner,
          c.owner->builder().emit_pure(op::cooperative_matrix_mul_add, matrix_type_id(*c.owner, c.type), parts),
          c.type};
}

MEGANEURA_INLINE matrix_operand matrix_binary(op code, const matrix_operand& a, const matrix_operand& b) {
  if (a.type != b.type) fail(error_category::invalid_argument, "cooperative matrices of different types were combined");
  const word parts[] = {matrix_id(a), matrix_id(b)};
  return {a.owner, a.owner->builder().emit_pure(code, matrix_type_id(*a.owner, a.type), parts), a.type};
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

MEGANEURA_INLINE operand matrix_component(kernel& owner, word variable, const matrix_type& type, word which) {
  auto& builder = owner.builder();
  const data_type scalar{type.kind, 1};
  const word id = builder.type(scalar);
  const word parts[] = {variable, builder.constant({scalar_kind::u32, 1}, which)};
  const word pointer = builder.emit_pure(op::access_chain, builder.type_pointer(storage_class::function, id), parts);
  return owner.wrap(scalar, builder.emit(op::load, id, std::span(&pointer, 1)));
}

MEGANEURA_INLINE void matrix_write(word variable, const matrix_operand& what) {
  const word parts[] = {variable, matrix_id(what)};
  what.owner->builder().emit_void(op::store, parts);
}

}  // namespace meganeura::inline MEGANEURA_ABI::spirv::untyped
