// SPDX-License-Identifier: MIT
// Definitions of kernel.hpp: memory, built-ins, subgroup operations and closing a kernel.
#pragma once
#include <meganeura/spirv/kernel.hpp>

namespace meganeura::inline MEGANEURA_ABI::spirv {

namespace untyped {

inline constexpr data_type index_type{scalar_kind::u32, 1};

// Vulkan memory model: workgroup memory is private to an invocation unless each access says otherwise, and then has to
// say for whom it is made available or visible (SPIR-V 3.26: 8 available, 16 visible, 32 non-private; scope 2 is
// workgroup).
[[nodiscard]] inline words memory_operands(kernel& owner, storage_class storage, bool is_store) {
  if (storage != storage_class::workgroup || !owner.builder().vulkan_memory_model()) return {};
  return {is_store ? 40u : 48u, owner.builder().constant(index_type, 2)};
}

MEGANEURA_INLINE place_reference locate(const memory_object& object, const operand& index) {
  kernel& owner = *object.owner;
  auto& builder = owner.builder();
  if (object.length != 0 && index.is_literal() && index.bits >= object.length) {
    fail(error_category::invalid_argument, "element {} of a kernel array of {} elements was asked for; stay inside it",
         index.bits, object.length);
  }
  const word pointer_type = builder.type_pointer(object.storage, builder.type(object.type));
  words parts{object.variable};
  if (object.storage == storage_class::storage_buffer) parts.push_back(builder.constant(index_type, 0));
  parts.push_back(owner.use(index));
  return {object, builder.emit_pure(op::access_chain, pointer_type, parts)};
}

MEGANEURA_INLINE place_reference locate_component(const memory_object& object, const operand& index,
                                                  const operand& component) {
  kernel& owner = *object.owner;
  auto& builder = owner.builder();
  memory_object scalar = object;
  scalar.type.components = 1;
  const word pointer_type = builder.type_pointer(object.storage, builder.type(scalar.type));
  words parts{object.variable};
  if (object.storage == storage_class::storage_buffer) parts.push_back(builder.constant(index_type, 0));
  parts.push_back(owner.use(index));
  parts.push_back(owner.use(component));
  return {scalar, builder.emit_pure(op::access_chain, pointer_type, parts)};
}

[[nodiscard]] inline word checked_pointer(const place_reference& where) {
  if (where.object.owner->builder().visible(where.pointer)) return where.pointer;
  fail(error_category::invalid_argument,
       "a memory element located inside a closed block was used after it; locate it again");
}

MEGANEURA_INLINE operand load(const place_reference& from) {
  kernel& owner = *from.object.owner;
  const word type = owner.builder().type(from.object.type);
  words parts{checked_pointer(from)};
  const words extra = memory_operands(owner, from.object.storage, false);
  parts.insert(parts.end(), extra.begin(), extra.end());
  const bool constant_memory = !from.object.writable;  // nothing in this dispatch writes it: equal loads are one load
  return owner.wrap(from.object.type, constant_memory ? owner.builder().emit_pure(op::load, type, parts)
                                                      : owner.builder().emit(op::load, type, parts));
}

MEGANEURA_INLINE void store(const place_reference& to, const operand& what) {
  kernel& owner = *to.object.owner;
  if (!to.object.writable) {
    fail(error_category::invalid_argument,
         "a store to read-only binding {} was asked for; declare it with access::write or access::read_write",
         to.object.binding);
  }
  words parts{checked_pointer(to), owner.use(what)};
  const words extra = memory_operands(owner, to.object.storage, true);
  parts.insert(parts.end(), extra.begin(), extra.end());
  owner.builder().emit_void(op::store, parts);
}

MEGANEURA_INLINE operand atomic(op code, const place_reference& where, const operand& what) {
  kernel& owner = *where.object.owner;
  if (!where.object.writable)
    fail(error_category::invalid_argument, "an atomic on read-only binding {} was asked for", where.object.binding);
  auto& builder = owner.builder();
  const word scope = builder.constant(index_type, where.object.storage == storage_class::workgroup ? 2 : 1);
  const word parts[] = {checked_pointer(where), scope, builder.constant(index_type, 0), owner.use(what)};
  return owner.wrap(where.object.type, builder.emit(code, builder.type(where.object.type), parts));
}

MEGANEURA_INLINE operand atomic_exchange_if_equal(const place_reference& where, const operand& expected,
                                                  const operand& desired) {
  kernel& owner = *where.object.owner;
  if (!where.object.writable)
    fail(error_category::invalid_argument, "an atomic on read-only binding {} was asked for", where.object.binding);
  auto& builder = owner.builder();
  const word scope = builder.constant(index_type, where.object.storage == storage_class::workgroup ? 2 : 1);
  const word relaxed = builder.constant(index_type, 0);
  const word parts[] = {checked_pointer(where), scope, relaxed, relaxed, owner.use(desired), owner.use(expected)};
  return owner.wrap(where.object.type,
                    builder.emit(op::atomic_compare_exchange, builder.type(where.object.type), parts));
}

MEGANEURA_INLINE operand fetch(const memory_object& texels, const operand& index) {
  kernel& owner = *texels.owner;
  auto& builder = owner.builder();
  const word image_type = builder.type_texel_buffer();
  const word image = builder.emit_pure(op::load, image_type, std::span(&texels.variable, 1));
  const word parts[] = {image, owner.use(index)};
  constexpr data_type result{scalar_kind::f32, 4};
  return owner.wrap(result, builder.emit_pure(op::image_fetch, builder.type(result), parts));
}

}  // namespace untyped

MEGANEURA_INLINE kernel::kernel(std::string name, std::array<std::uint32_t, 3> local_size) {
  module_.name = std::move(name);
  module_.local_size = local_size;
}

MEGANEURA_INLINE word kernel::use(const untyped::operand& value) {
  if (finished_)
    fail(error_category::invalid_argument, "kernel '{}' is finished; nothing may be added to it", module_.name);
  if (value.is_literal() && is_stored_only(value.type.kind)) {  // there are no constants of these: converted to them
    const word wide[] = {builder_.constant({scalar_kind::u32, value.type.components}, value.bits)};
    return builder_.emit_pure(conversion_of_integers(value.type.kind), builder_.type(value.type), wide);
  }
  if (value.is_literal()) return builder_.constant(value.type, value.bits);
  if (value.owner != this)
    fail(error_category::invalid_argument, "kernel '{}' was given a value of kernel '{}'", module_.name,
         value.owner->module_.name);
  if (!builder_.visible(value.id)) {
    fail(error_category::invalid_argument,
         "kernel '{}' uses a value computed inside a block that is closed; keep it in a variable", module_.name);
  }
  return value.id;
}

MEGANEURA_INLINE const untyped::operand* kernel::parts_of(const untyped::operand& vector) const {
  const auto known = vector.is_literal() ? parts_.end() : parts_.find(vector.id);
  return known == parts_.end() ? nullptr : known->second.data();
}

MEGANEURA_INLINE void kernel::note_parts(word vector, std::span<const untyped::operand> parts) {
  if (std::ranges::any_of(parts, &untyped::operand::is_literal)) parts_[vector].assign(parts.begin(), parts.end());
}

MEGANEURA_INLINE untyped::memory_object kernel::declare_bound(binding_kind kind, storage_class storage, word type,
                                                              data_type element, std::string_view name,
                                                              std::optional<word> binding) {
  const word id = builder_.global_variable(builder_.type_pointer(storage, type), storage);
  const word number = binding ? *binding : static_cast<word>(module_.bindings.size());
  if (!binding) module_.bindings.push_back(kind);
  builder_.decorate(id, decoration::descriptor_set, {0});
  builder_.decorate(id, decoration::binding, {number});
  builder_.set_name(id, name);
  return {this, id, element, storage, 0, number, false};
}

MEGANEURA_INLINE untyped::memory_object kernel::declare_buffer(data_type type, std::string_view name, access how,
                                                               std::optional<word> binding) {
  if (type.kind == scalar_kind::boolean)
    fail(error_category::invalid_argument, "buffer '{}' of booleans was asked for; use u32", name);
  untyped::memory_object buffer = declare_bound(binding_kind::storage_buffer, storage_class::storage_buffer,
                                                builder_.type_storage_buffer(type), type, name, binding);
  buffer.writable = how != access::read;
  if (how == access::read) builder_.decorate(buffer.variable, decoration::non_writable);
  if (how == access::read) builder_.decorate(buffer.variable, decoration::restrict_);
  if (how == access::read_write) mark_aliased(buffer.variable);
  if (how == access::exchange) builder_.decorate(buffer.variable, decoration::coherent);
  return buffer;
}

MEGANEURA_INLINE void kernel::mark_aliased(word variable) {
  if (aliased_.insert(variable).second) builder_.decorate(variable, decoration::aliased);
}

MEGANEURA_INLINE untyped::memory_object kernel::declare_view(data_type type, const untyped::memory_object& of) {
  if (of.owner != this || of.storage != storage_class::storage_buffer)
    fail(error_category::invalid_argument, "kernel '{}': only its own storage buffers have views", module_.name);
  // Two writable names for one binding alias each other, whatever the first was declared as.
  if (of.writable) mark_aliased(of.variable);
  return declare_buffer(type, "view", of.writable ? access::read_write : access::read, of.binding);
}

MEGANEURA_INLINE untyped::memory_object kernel::declare_uniform_buffer(data_type type, word length,
                                                                       std::string_view name) {
  untyped::memory_object buffer = declare_bound(binding_kind::uniform_buffer, storage_class::uniform,
                                                builder_.type_uniform_buffer(type, length), type, name, {});
  buffer.length = length;
  return buffer;
}

MEGANEURA_INLINE texel_buffer kernel::texels(std::string_view name) {
  return texel_buffer(declare_bound(binding_kind::uniform_texel_buffer, storage_class::uniform_constant,
                                    builder_.type_texel_buffer(), {scalar_kind::f32, 4}, name, {}));
}

MEGANEURA_INLINE void kernel::note_shared(word bytes) { module_.shared_bytes += bytes; }

MEGANEURA_INLINE untyped::memory_object kernel::declare_array(data_type type, storage_class storage, word length) {
  if (length == 0)
    fail(error_category::invalid_argument, "kernel '{}': an array needs at least one element", module_.name);
  const word array = builder_.type_array(builder_.type(type), length);
  const word pointer = builder_.type_pointer(storage, array);
  if (storage == storage_class::workgroup) note_shared(type.bytes() * length);
  const word id = storage == storage_class::function ? builder_.function_variable(pointer)
                                                     : builder_.global_variable(pointer, storage);
  return {this, id, type, storage, length, 0, true};
}

MEGANEURA_INLINE untyped::place_reference kernel::declare_variable(data_type type) {
  const word id = builder_.function_variable(builder_.type_pointer(storage_class::function, builder_.type(type)));
  return {{this, id, type, storage_class::function, 1, 0, true}, id};
}

MEGANEURA_INLINE u32 kernel::built_in_component(built_in which, word axis) {
  constexpr data_type vector{scalar_kind::u32, 3};
  const word variable = builder_.built_in_variable(which, vector);
  const word all = builder_.emit_pure(op::load, builder_.type(vector), std::span(&variable, 1));
  const word parts[] = {all, axis};
  return u32(wrap(u32::static_type, builder_.emit_pure(op::composite_extract, builder_.type(u32::static_type), parts)));
}

MEGANEURA_INLINE u32 kernel::built_in_scalar(built_in which) {
  if (which != built_in::local_invocation_index) builder_.require(capability::group_non_uniform);
  const word variable = builder_.built_in_variable(which, u32::static_type);
  return u32(
      wrap(u32::static_type, builder_.emit_pure(op::load, builder_.type(u32::static_type), std::span(&variable, 1))));
}

MEGANEURA_INLINE void kernel::emit_barrier(word scope_number, bool buffers) {
  constexpr data_type index{scalar_kind::u32, 1};
  const word scope = builder_.constant(index, scope_number);  // 2: workgroup, 3: subgroup
  // SPIR-V 3.25: acquire-release 0x8, uniform (storage) memory 0x40, workgroup memory 0x100, available 0x2000, visible
  // 0x4000
  const word semantics = 0x108u | (buffers ? 0x40u : 0u) | (builder_.vulkan_memory_model() ? 0x6000u : 0u);
  const word parts[] = {scope, scope, builder_.constant(index, semantics)};
  builder_.emit_void(op::control_barrier, parts);
}

namespace detail {

// Between the bits of a float and an integer of the same order (-0 below 0); its own inverse.
[[nodiscard]] inline untyped::operand ordered_bits(const untyped::operand& bits) {
  const auto number = [&](word value) { return untyped::operand{.owner = nullptr, .type = bits.type, .bits = value}; };
  const untyped::operand flips =
      untyped::binary(untyped::binary_op::bit_and, untyped::binary(untyped::binary_op::shift_right, bits, number(31)),
                      number(0x7fffffffu));
  return untyped::binary(untyped::binary_op::bit_xor, bits, flips);
}

}  // namespace detail

// The group's FMin and FMax drop NaNs. As integers every NaN lies beyond the infinities, on the side that wins.
MEGANEURA_INLINE untyped::operand kernel::subgroup_float_extremum(reduction how, const untyped::operand& x) {
  const data_type single{scalar_kind::f32, x.type.components}, integer{scalar_kind::i32, x.type.components};
  if (x.type != single) return untyped::convert(x.type, subgroup_float_extremum(how, untyped::convert(single, x)));
  const untyped::operand nan{
      .owner = nullptr, .type = integer, .bits = how == reduction::maximum ? 0x7fc00000u : 0x803fffffu};
  const untyped::operand key =
      untyped::select(untyped::is_nan(x), nan, detail::ordered_bits(untyped::bitcast(integer, x)));
  return untyped::bitcast(x.type, detail::ordered_bits(subgroup_arithmetic(how, key)));
}

MEGANEURA_INLINE untyped::operand kernel::subgroup_arithmetic(reduction how, const untyped::operand& x) {
  const bool extremum = how == reduction::minimum || how == reduction::maximum;
  if (x.type.is_float() && extremum) return subgroup_float_extremum(how, x);
  builder_.require(capability::group_non_uniform);
  builder_.require(capability::group_non_uniform_arithmetic);
  module_.subgroup_operations |= spirv::subgroup_arithmetic;
  constexpr op table[3][4] = {{op::group_non_uniform_f_add, op::group_non_uniform_f_mul, op::group_non_uniform_s_min,
                               op::group_non_uniform_s_max},
                              {op::group_non_uniform_i_add, op::group_non_uniform_i_mul, op::group_non_uniform_u_min,
                               op::group_non_uniform_u_max},
                              {op::group_non_uniform_i_add, op::group_non_uniform_i_mul, op::group_non_uniform_s_min,
                               op::group_non_uniform_s_max}};
  const int row = x.type.is_float() ? 0 : x.type.kind == scalar_kind::u32 ? 1 : 2;
  const word parts[] = {builder_.constant({scalar_kind::u32, 1}, 3), 0, use(x)};  // subgroup scope, whole reduction
  return wrap(x.type, builder_.emit(table[row][static_cast<int>(how)], builder_.type(x.type), parts));
}

MEGANEURA_INLINE untyped::operand kernel::subgroup_move(op code, const untyped::operand& x,
                                                        const untyped::operand& lane) {
  builder_.require(capability::group_non_uniform);
  const bool broadcasts = code == op::group_non_uniform_broadcast;
  builder_.require(broadcasts ? capability::group_non_uniform_ballot : capability::group_non_uniform_shuffle);
  module_.subgroup_operations |= broadcasts ? spirv::subgroup_ballot : spirv::subgroup_shuffle;
  const word parts[] = {builder_.constant({scalar_kind::u32, 1}, 3), use(x), use(lane)};
  return wrap(x.type, builder_.emit(code, builder_.type(x.type), parts));
}

MEGANEURA_INLINE untyped::operand kernel::subgroup_vote(op code, const untyped::operand& x) {
  builder_.require(capability::group_non_uniform);
  builder_.require(capability::group_non_uniform_vote);
  module_.subgroup_operations |= spirv::subgroup_vote;
  const word parts[] = {builder_.constant({scalar_kind::u32, 1}, 3), use(x)};
  return wrap(x.type, builder_.emit(code, builder_.type(x.type), parts));
}

MEGANEURA_INLINE std::uint64_t kernel::passes(const u32& begin, const u32& end, const u32& step) {
  if (!end.is_literal() || !step.is_literal() || step.bits == 0) return unknown_iterations;
  const std::uint64_t first = begin.is_literal() ? begin.bits : 0;  // no index is below 0
  return end.bits <= first ? 0 : (end.bits - first + step.bits - 1) / step.bits;
}

MEGANEURA_INLINE void kernel::end_tally(const loop_tally& before, std::uint64_t passes) {
  const std::uint64_t inner = tally_.iterations, loops = tally_.loops;
  const bool known = passes != unknown_iterations && inner != unknown_iterations &&
                     before.iterations != unknown_iterations && inner < unknown_iterations / 4 / (passes + 1);
  // After the last pass comes one that finds the end, in step with it one of each loop inside.
  tally_ = {known ? before.iterations + passes * (inner + 1) + loops + 1 : unknown_iterations,
            before.loops + loops + 1};
}

MEGANEURA_INLINE module kernel::finish() {
  if (finished_) fail(error_category::invalid_argument, "kernel '{}' was finished twice", module_.name);
  finished_ = true;
  module_.loop_iterations = tally_.iterations;
  module_.words = builder_.finish(module_.local_size);
  for (std::size_t i = 5; i < module_.words.size() && (module_.words[i] & 0xffffu) == 17u;
       i += module_.words[i] >> 16) {
    const auto used = static_cast<capability>(module_.words[i + 1]);
    module_.needs_f16 = module_.needs_f16 || used == capability::float16;
    module_.needs_16bit_storage = module_.needs_16bit_storage || used == capability::storage_buffer_16bit_access;
    module_.needs_8bit_storage = module_.needs_8bit_storage || used == capability::storage_buffer_8bit_access;
    module_.needs_cooperative_matrix = module_.needs_cooperative_matrix || used == capability::cooperative_matrix;
  }
  return module_;
}

}  // namespace meganeura::inline MEGANEURA_ABI::spirv
