// SPDX-License-Identifier: MIT
// Definitions of builder.hpp: sections, deduplication and structured control flow.
#pragma once
#include <meganeura/core/float_format.hpp>
#include <meganeura/spirv/builder.hpp>

#include <algorithm>
#include <bit>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::spirv {

namespace detail {

inline word first_word(op code, std::size_t operands) {
  return static_cast<word>(operands + 1) << 16 | static_cast<word>(code);
}

MEGANEURA_INLINE void append(words& out, op code, std::span<const word> operands) {
  out.push_back(first_word(code, operands.size()));
  out.insert(out.end(), operands.begin(), operands.end());
}

MEGANEURA_INLINE void append_string(words& out, std::string_view text) {
  word packed = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    packed |= static_cast<word>(static_cast<unsigned char>(text[i])) << (8 * (i % 4));
    if (i % 4 == 3) out.push_back(std::exchange(packed, 0u));
  }
  out.push_back(packed);  // ends in at least one zero byte
}

MEGANEURA_INLINE word encoded(scalar_kind kind, word bits) {
  if (kind == scalar_kind::f16) return float_format(dtype::f16).encode(std::bit_cast<float>(bits));
  if (kind == scalar_kind::bf16) return float_format(dtype::bf16).encode(std::bit_cast<float>(bits));
  return bits;
}

MEGANEURA_INLINE word rounded(scalar_kind kind, word bits) {
  const auto through = [&](dtype type) {
    return std::bit_cast<word>(float_format(type).decode(float_format(type).encode(std::bit_cast<float>(bits))));
  };
  const word unused = 32 - info(kind).bits;
  if (is_integer(kind) && info(kind).is_signed)
    return static_cast<word>(static_cast<std::int32_t>(bits << unused) >> unused);
  if (is_integer(kind)) return bits << unused >> unused;
  return kind == scalar_kind::f16 ? through(dtype::f16) : kind == scalar_kind::bf16 ? through(dtype::bf16) : bits;
}

}  // namespace detail

MEGANEURA_INLINE module_builder::module_builder() {
  require(capability::shader);
  main_ = fresh_id();
  scopes_.push_back({});
  scope_is_open_.push_back(true);
  current_label_ = fresh_id();
  open_scope();
}

MEGANEURA_INLINE void module_builder::use_vulkan_memory_model() {
  if (memory_model_settled_ && !vulkan_memory_model_) {
    fail(error_category::invalid_argument,
         "a cooperative matrix was declared behind barriers or workgroup memory's use; make one before");
  }
  vulkan_memory_model_ = true;
  version_ = 0x00010600;
  require(capability::vulkan_memory_model);
}

MEGANEURA_INLINE void module_builder::use_bfloat16() {
  for (const word known : types_[static_cast<std::size_t>(scalar_kind::bf16)]) {
    if (known != 0) fail(error_category::invalid_argument, "bf16 was used before it was made a type; do that first");
  }
  bfloat16_ = true;
}

MEGANEURA_INLINE void module_builder::require_arithmetic(scalar_kind kind) {
  if (kind != scalar_kind::bf16 || !bfloat16_) require(info(kind).computed);
}

MEGANEURA_INLINE word module_builder::glsl_std_450() {
  if (glsl_ == 0) glsl_ = fresh_id();
  return glsl_;
}

MEGANEURA_INLINE const words& module_builder::key_of(std::initializer_list<word> first, std::span<const word> rest) {
  key_.assign(first);
  key_.insert(key_.end(), rest.begin(), rest.end());
  return key_;
}

MEGANEURA_INLINE word module_builder::declare(op code, std::span<const word> operands, bool typed) {
  const auto [position, added] = declared_.try_emplace(key_of({static_cast<word>(code)}, operands), 0u);
  if (!added) return position->second;
  const word id = fresh_id();
  position->second = id;
  words all(operands.begin(), operands.end());
  all.insert(all.begin() + (typed ? 1 : 0), id);  // the result id follows the result type where there is one
  detail::append(declarations_, code, all);
  return id;
}

MEGANEURA_INLINE word module_builder::type(data_type type) {
  word& known = types_[static_cast<std::size_t>(type.kind)][type.components];
  if (known != 0) return known;
  if (type.components > 1) {
    const word parts[] = {this->type({type.kind, 1}), type.components};
    return known = declare(op::type_vector, parts, false);
  }
  const scalar_info& row = info(type.kind);
  if (type.kind == scalar_kind::bf16) {
    if (!bfloat16_) return known = this->type({scalar_kind::u16, 1});
    require(capability::bfloat16_type);
    require_extension("SPV_KHR_bfloat16");
    const word encoded[] = {row.bits, 0};  // BFloat16KHR
    return known = declare(row.declaration, encoded, false);
  }
  if (row.declaration == op::type_float) require(row.computed);
  const word parts[] = {row.bits, row.is_signed};
  const std::size_t count = row.declaration == op::type_int ? 2 : row.declaration == op::type_float ? 1 : 0;
  return known = declare(row.declaration, {parts, count}, false);
}

MEGANEURA_INLINE word module_builder::type_pointer(storage_class storage, word pointee) {
  const word parts[] = {static_cast<word>(storage), pointee};
  return declare(op::type_pointer, parts, false);
}

MEGANEURA_INLINE word module_builder::type_array(word element, word length) {
  const word parts[] = {element, constant({scalar_kind::u32, 1}, length)};
  return declare(op::type_array, parts, false);
}

MEGANEURA_INLINE word module_builder::type_storage_buffer(data_type element) {
  require(info(element.kind).stored);
  if (info(element.kind).bits == 8) require_extension("SPV_KHR_8bit_storage");  // core since 1.5
  const word array_parts[] = {type(element)};
  const bool fresh = !declared_.contains({static_cast<word>(op::type_runtime_array), array_parts[0]});
  const word struct_parts[] = {declare(op::type_runtime_array, array_parts, false)};
  const word result = declare(op::type_struct, struct_parts, false);
  if (!fresh) return result;
  decorate(struct_parts[0], decoration::array_stride, {element.bytes()});
  decorate(result, decoration::block);
  const word offset[] = {result, 0, static_cast<word>(decoration::offset), 0};
  detail::append(decorations_, op::member_decorate, offset);
  return result;
}

MEGANEURA_INLINE word module_builder::type_workgroup_block(data_type element, word length, word offset) {
  version_ = std::max(version_, word{0x00010400});
  require_extension("SPV_KHR_workgroup_memory_explicit_layout");
  require(capability::workgroup_memory_explicit_layout);
  const word bits = info(element.kind).bits;
  if (bits == 8) require(capability::workgroup_memory_explicit_layout_8bit_access);
  if (bits == 16) require(capability::workgroup_memory_explicit_layout_16bit_access);
  const word array = fresh_id(), block = fresh_id();
  const word array_parts[] = {array, type(element), constant({scalar_kind::u32, 1}, length)};
  detail::append(declarations_, op::type_array, array_parts);
  const word block_parts[] = {block, array};
  detail::append(declarations_, op::type_struct, block_parts);
  decorate(array, decoration::array_stride, {element.bytes()});
  decorate(block, decoration::block);
  const word at[] = {block, 0, static_cast<word>(decoration::offset), offset};
  detail::append(decorations_, op::member_decorate, at);
  return block;
}

MEGANEURA_INLINE word module_builder::type_uniform_buffer(data_type element, word length) {
  const words members(length, type(element));
  const bool fresh = !declared_.contains(key_of({static_cast<word>(op::type_struct)}, members));
  const word result = declare(op::type_struct, members, false);
  if (!fresh) return result;
  decorate(result, decoration::block);
  for (word i = 0; i < length; ++i) {
    const word offset[] = {result, i, static_cast<word>(decoration::offset), 16 * i};
    detail::append(decorations_, op::member_decorate, offset);
  }
  return result;
}

MEGANEURA_INLINE word module_builder::type_texel_buffer() {
  require(capability::sampled_buffer);
  // sampled f32, Dim Buffer (5), no depth, not arrayed, single sample, used with a sampler (1), format unknown
  const word parts[] = {type({scalar_kind::f32, 1}), 5, 0, 0, 0, 1, 0};
  return declare(op::type_image, parts, false);
}

MEGANEURA_INLINE word module_builder::type_cooperative_matrix(scalar_kind kind, word rows, word columns, word use) {
  use_vulkan_memory_model();
  require(capability::cooperative_matrix);
  require_extension("SPV_KHR_cooperative_matrix");
  if (kind == scalar_kind::bf16) {
    if (!bfloat16_)
      fail(error_category::invalid_argument, "a cooperative matrix of bf16 was asked for where bf16 is no type");
    require(capability::bfloat16_cooperative_matrix);
  }
  require_arithmetic(kind);
  constexpr data_type index{scalar_kind::u32, 1};
  const word parts[] = {type({kind, 1}), constant(index, static_cast<word>(spirv::scope::subgroup)),
                        constant(index, rows), constant(index, columns), constant(index, use)};
  return declare(op::type_cooperative_matrix, parts, false);
}

MEGANEURA_INLINE word module_builder::constant(data_type type, word bits) {
  if (type.components > 1) {
    const words parts(type.components, constant({type.kind, 1}, bits));
    return constant_composite(this->type(type), parts);
  }
  const word type_id = this->type(type);
  if (type.kind == scalar_kind::boolean) {
    const word parts[] = {type_id};
    return declare(bits != 0 ? op::constant_true : op::constant_false, parts, true);
  }
  const word parts[] = {type_id, detail::encoded(type.kind, bits)};
  return declare(op::constant, parts, true);
}

MEGANEURA_INLINE word module_builder::constant_composite(word type, std::span<const word> parts) {
  words all{type};
  all.insert(all.end(), parts.begin(), parts.end());
  return declare(op::constant_composite, all, true);
}

MEGANEURA_INLINE void module_builder::decorate(word target, decoration what, std::initializer_list<word> literals) {
  words all{target, static_cast<word>(what)};
  all.insert(all.end(), literals.begin(), literals.end());
  detail::append(decorations_, op::decorate, all);
}

MEGANEURA_INLINE void module_builder::set_name(word target, std::string_view name) {
  words all{target};
  detail::append_string(all, name);
  detail::append(names_, op::name, all);
}

MEGANEURA_INLINE word module_builder::global_variable(word pointer_type, storage_class storage) {
  const word id = fresh_id();
  const word parts[] = {pointer_type, id, static_cast<word>(storage)};
  detail::append(declarations_, op::variable, parts);
  interface_.push_back(id);
  return id;
}

MEGANEURA_INLINE word module_builder::function_variable(word pointer_type) {
  const word id = fresh_id();
  const word parts[] = {pointer_type, id, static_cast<word>(storage_class::function)};
  detail::append(variables_, op::variable, parts);  // must stand at the head of the first block, SPIR-V 2.4
  return id;
}

MEGANEURA_INLINE word module_builder::built_in_variable(built_in which, data_type type) {
  const auto [position, added] = built_ins_.try_emplace(static_cast<word>(which), 0u);
  if (!added) return position->second;
  position->second = global_variable(type_pointer(storage_class::input, this->type(type)), storage_class::input);
  decorate(position->second, decoration::built_in, {static_cast<word>(which)});
  return position->second;
}

MEGANEURA_INLINE void module_builder::note_definition(word id) {
  if (scope_of_.size() <= id) scope_of_.resize(id + 1, 0u);
  scope_of_[id] = scopes_.back().serial;
}

MEGANEURA_INLINE bool module_builder::visible(word id) const {
  return id < next_id_ && (id >= scope_of_.size() || scope_is_open_[scope_of_[id]]);
}

MEGANEURA_INLINE word module_builder::emit(op code, word result_type, std::span<const word> operands) {
  const word id = fresh_id();
  code_.insert(code_.end(), {detail::first_word(code, operands.size() + 2), result_type, id});
  code_.insert(code_.end(), operands.begin(), operands.end());
  note_definition(id);
  return id;
}

MEGANEURA_INLINE word module_builder::emit_pure(op code, word result_type, std::span<const word> operands,
                                                bool no_contraction) {
  const word kind = static_cast<word>(code) | (no_contraction ? 0x10000u : 0u);
  const auto [position, added] = computed_.try_emplace(key_of({kind, result_type}, operands), 0u);
  if (!added) return position->second;
  scopes_.back().reusable.push_back(&position->first);
  position->second = emit(code, result_type, operands);
  if (no_contraction) decorate(position->second, decoration::no_contraction);
  return position->second;
}

MEGANEURA_INLINE void module_builder::emit_void(op code, std::span<const word> operands) {
  detail::append(code_, code, operands);
}

MEGANEURA_INLINE void module_builder::open_scope() {
  scopes_.push_back({next_scope_++, {}});
  scope_is_open_.push_back(true);
}

MEGANEURA_INLINE void module_builder::close_scope() {
  for (const words* key : scopes_.back().reusable) computed_.erase(computed_.find(*key));
  scope_is_open_[scopes_.back().serial] = false;
  scopes_.pop_back();
}

MEGANEURA_INLINE void module_builder::place_label(word label) {
  emit_void(op::label, std::span(&label, 1));
  current_label_ = label;
}

MEGANEURA_INLINE module_builder::selection module_builder::begin_selection(word condition) {
  const word then_label = fresh_id();
  const selection open{fresh_id(), fresh_id()};
  const word merge[] = {open.merge_label, 0};
  emit_void(op::selection_merge, merge);
  const word branch[] = {condition, then_label, open.else_label};
  emit_void(op::branch_conditional, branch);
  open_scope();
  place_label(then_label);
  return open;
}

MEGANEURA_INLINE void module_builder::begin_else(const selection& open) {
  emit_void(op::branch, std::span(&open.merge_label, 1));
  close_scope();
  open_scope();
  place_label(open.else_label);
}

MEGANEURA_INLINE void module_builder::end_selection(const selection& open) {
  emit_void(op::branch, std::span(&open.merge_label, 1));
  close_scope();
  place_label(open.merge_label);
}

MEGANEURA_INLINE module_builder::loop module_builder::begin_counted_loop(word type, word begin, word end, op less,
                                                                         unrolling hint) {
  const word body_label = fresh_id();
  const loop open{fresh_id(), fresh_id(), fresh_id(), fresh_id(), fresh_id(), type};
  const word entry_label = current_label_;
  emit_void(op::branch, std::span(&open.header_label, 1));
  open_scope();
  place_label(open.header_label);
  const word phi[] = {type, open.counter, begin, entry_label, open.next, open.continue_label};
  emit_void(op::phi, phi);
  note_definition(open.counter);
  const word compare[] = {open.counter, end};
  const word condition = emit(less, this->type({scalar_kind::boolean, 1}), compare);
  const word merge[] = {open.merge_label, open.continue_label, static_cast<word>(hint)};
  emit_void(op::loop_merge, merge);
  const word branch[] = {condition, body_label, open.merge_label};
  emit_void(op::branch_conditional, branch);
  place_label(body_label);
  return open;
}

MEGANEURA_INLINE void module_builder::end_counted_loop(const loop& open, word step) {
  emit_void(op::branch, std::span(&open.continue_label, 1));
  place_label(open.continue_label);
  const word add[] = {open.type, open.next, open.counter, step};
  emit_void(op::i_add, add);
  emit_void(op::branch, std::span(&open.header_label, 1));
  close_scope();
  place_label(open.merge_label);
}

MEGANEURA_INLINE module_builder::loop module_builder::begin_loop() {
  const word body_label = fresh_id();
  const loop open{0, fresh_id(), fresh_id(), fresh_id(), 0, 0};
  emit_void(op::branch, std::span(&open.header_label, 1));
  open_scope();
  place_label(open.header_label);
  const word merge[] = {open.merge_label, open.continue_label, static_cast<word>(unrolling::keep)};
  emit_void(op::loop_merge, merge);
  emit_void(op::branch, std::span(&body_label, 1));
  place_label(body_label);
  return open;
}

MEGANEURA_INLINE void module_builder::break_if(const loop& open, word condition) {
  const word next_label = fresh_id();
  const word branch[] = {condition, open.merge_label, next_label};
  emit_void(op::branch_conditional, branch);
  place_label(next_label);
}

MEGANEURA_INLINE void module_builder::end_loop(const loop& open) {
  emit_void(op::branch, std::span(&open.continue_label, 1));
  place_label(open.continue_label);
  emit_void(op::branch, std::span(&open.header_label, 1));
  close_scope();
  place_label(open.merge_label);
}

// A type that no memory holds is one that is computed with.
MEGANEURA_INLINE void module_builder::require_types() {
  for (const scalar_info& row : detail::scalar_table) {
    const auto in_workgroup = row.bits == 8 ? capability::workgroup_memory_explicit_layout_8bit_access
                                            : capability::workgroup_memory_explicit_layout_16bit_access;
    const auto has = [&](capability memory) { return capabilities_.contains(static_cast<word>(memory)); };
    const bool declared = types_[static_cast<std::size_t>(row.kind)][1] != 0;
    if (declared && !has(row.stored) && !has(in_workgroup)) require_arithmetic(row.kind);
  }
}

MEGANEURA_INLINE words module_builder::finish(std::span<const word> local_size) {
  require_types();
  const word void_type = declare(op::type_void, {}, false);
  const word function_type = declare(op::type_function, std::span(&void_type, 1), false);
  words out{0x07230203u, version_, 0, 0, 0};
  for (const word value : capabilities_) detail::append(out, op::capability, std::span(&value, 1));
  for (const std::string& name : extensions_) {
    words text;
    detail::append_string(text, name);
    detail::append(out, op::extension, text);
  }
  if (glsl_ != 0) {
    words import{glsl_};
    detail::append_string(import, "GLSL.std.450");
    detail::append(out, op::ext_inst_import, import);
  }
  const word model[] = {logical_addressing, vulkan_memory_model_ ? 3u : 1u};  // Vulkan or GLSL450
  detail::append(out, op::memory_model, model);
  words entry{5, main_};  // GLCompute
  detail::append_string(entry, "main");
  // Up to 1.3 the interface holds inputs only, from 1.4 every global.
  for (const word id : interface_) {
    bool input = version_ >= 0x00010400;
    for (const auto& [which, variable] : built_ins_) input = input || variable == id;
    if (input) entry.push_back(id);
  }
  detail::append(out, op::entry_point, entry);
  const word mode[] = {main_, 17, local_size[0], local_size[1], local_size[2]};  // LocalSize
  detail::append(out, op::execution_mode, mode);
  for (const words* section : {&names_, &decorations_, &declarations_}) {
    out.insert(out.end(), section->begin(), section->end());
  }
  const word function[] = {void_type, main_, 0, function_type};
  detail::append(out, op::function, function);
  const word first_label = main_ + 1;  // the id the constructor reserved for the entry block
  detail::append(out, op::label, std::span(&first_label, 1));
  out.insert(out.end(), variables_.begin(), variables_.end());
  out.insert(out.end(), code_.begin(), code_.end());
  detail::append(out, op::return_, {});
  detail::append(out, op::function_end, {});
  out[3] = next_id_;
  return out;
}

}  // namespace meganeura::inline MEGANEURA_ABI::spirv
