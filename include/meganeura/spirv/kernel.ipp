// SPDX-License-Identifier: MIT
// Definitions of kernel.hpp: memory, built-ins, subgroup operations and closing a kernel.
#pragma once
#include <meganeura/spirv/kernel.hpp>

namespace meganeura::inline MEGANEURA_ABI::spirv {

namespace untyped {

inline constexpr data_type index_type{scalar_kind::u32, 1};

// Vulkan memory model: memory is private to an invocation unless each access says otherwise. Accesses to workgroup
// memory say for whom they are made available or visible, too; for buffers barriers and atomics do.
MEGANEURA_INLINE words memory_operands(kernel& owner, const memory_object& object, bool is_store) {
  const bool in_workgroup = object.storage == storage_class::workgroup;
  if ((!in_workgroup && !object.exchanged) || !owner.builder().settled_vulkan_memory_model()) return {};
  if (!in_workgroup) return {non_private_pointer};
  return {(is_store ? make_pointer_available : make_pointer_visible) | non_private_pointer,
          owner.scope_id(scope::workgroup)};
}

// What lies where a place of it is: its type, or bits to be turned into that.
[[nodiscard]] inline data_type type_in_memory(const memory_object& object) {
  return object.lies_as ? data_type{object.lies_as->kind, object.type.components} : object.type;
}

[[nodiscard]] inline place_reference locate_by(const memory_object& object, std::initializer_list<operand> indices) {
  kernel& owner = *object.owner;
  auto& builder = owner.builder();
  const word pointer_type = builder.type_pointer(object.storage, builder.type(type_in_memory(object)));
  words parts{object.variable};
  if (object.in_block || object.storage == storage_class::storage_buffer)
    parts.push_back(builder.constant(index_type, 0));
  for (const operand& index : indices) parts.push_back(owner.use(index));
  return {object, builder.emit_pure(op::access_chain, pointer_type, parts)};
}

MEGANEURA_INLINE place_reference locate(const memory_object& object, const operand& index) {
  if (object.length != 0 && index.is_literal() && index.bits >= object.length) {
    fail(error_category::invalid_argument, "element {} of a kernel array of {} elements was asked for; stay inside it",
         index.bits, object.length);
  }
  if (!object.lies_as || object.lies_as->components == object.type.components) return locate_by(object, {index});
  const operand parts = word_like(index, object.lies_as->components);
  return locate_by(object, {binary(binary_op::divide, index, parts), binary(binary_op::modulo, index, parts)});
}

MEGANEURA_INLINE place_reference locate_component(const memory_object& object, const operand& index,
                                                  const operand& component) {
  memory_object scalar = object;
  scalar.type.components = 1;
  return locate_by(scalar, {index, component});
}

[[nodiscard]] inline word checked_pointer(const place_reference& where) {
  if (where.object.owner->builder().visible(where.pointer)) return where.pointer;
  fail(error_category::invalid_argument,
       "a memory element located inside a closed block was used after it; locate it again");
}

MEGANEURA_INLINE operand load(const place_reference& from) {
  kernel& owner = *from.object.owner;
  const data_type lies = type_in_memory(from.object);
  const word type = owner.builder().type(lies);
  words parts{checked_pointer(from)};
  const words extra = memory_operands(owner, from.object, false);
  parts.insert(parts.end(), extra.begin(), extra.end());
  const bool constant_memory = !from.object.writable;  // nothing in this dispatch writes it: equal loads are one load
  const word id =
      constant_memory ? owner.builder().emit_pure(op::load, type, parts) : owner.builder().emit(op::load, type, parts);
  return bitcast(from.object.type, owner.wrap(lies, id));
}

MEGANEURA_INLINE void store(const place_reference& to, const operand& what) {
  kernel& owner = *to.object.owner;
  if (!to.object.writable) {
    fail(error_category::invalid_argument,
         "a store to read-only binding {} was asked for; declare it with access::write or access::read_write",
         to.object.binding);
  }
  words parts{checked_pointer(to), owner.use(bitcast(type_in_memory(to.object), what))};
  const words extra = memory_operands(owner, to.object, true);
  parts.insert(parts.end(), extra.begin(), extra.end());
  owner.builder().emit_void(op::store, parts);
}

// A pointer, its scope, the semantics.
[[nodiscard]] inline words atomic_operands(const place_reference& where, memory_order order) {
  kernel& owner = *where.object.owner;
  if (!where.object.writable)
    fail(error_category::invalid_argument, "an atomic on read-only binding {} was asked for", where.object.binding);
  if (type_in_memory(where.object) != where.object.type)
    fail(error_category::invalid_argument, "an atomic on a view of another type was asked for; use the array");
  const bool in_workgroup = where.object.storage == storage_class::workgroup;
  word semantics = static_cast<word>(order);
  if (order != memory_order::relaxed) {
    semantics |= in_workgroup ? workgroup_memory : uniform_memory;
    if (owner.builder().settled_vulkan_memory_model()) {
      if (order != memory_order::acquire) semantics |= make_available;
      if (order != memory_order::release) semantics |= make_visible;
    }
  }
  return {checked_pointer(where), owner.scope_id(in_workgroup ? scope::workgroup : scope::device),
          owner.builder().constant(index_type, semantics)};
}

MEGANEURA_INLINE operand atomic(op code, const place_reference& where, const operand& what, memory_order order) {
  kernel& owner = *where.object.owner;
  words parts = atomic_operands(where, order);
  parts.push_back(owner.use(what));
  return owner.wrap(where.object.type, owner.builder().emit(code, owner.builder().type(where.object.type), parts));
}

MEGANEURA_INLINE operand atomic_exchange_if_equal(const place_reference& where, const operand& expected,
                                                  const operand& desired, memory_order order) {
  kernel& owner = *where.object.owner;
  const bool acquires = order == memory_order::acquire || order == memory_order::acquire_release;
  const words parts = atomic_operands(where, order);
  const word if_unequal = atomic_operands(where, acquires ? memory_order::acquire : memory_order::relaxed)[2];
  const word all[] = {parts[0], parts[1], parts[2], if_unequal, owner.use(desired), owner.use(expected)};
  return owner.wrap(where.object.type,
                    owner.builder().emit(op::atomic_compare_exchange, owner.builder().type(where.object.type), all));
}

MEGANEURA_INLINE operand atomic_load(const place_reference& where, memory_order order) {
  if (order == memory_order::release || order == memory_order::acquire_release)
    fail(error_category::invalid_argument, "an atomic load that releases was asked for; it may acquire");
  kernel& owner = *where.object.owner;
  return owner.wrap(where.object.type, owner.builder().emit(op::atomic_load, owner.builder().type(where.object.type),
                                                            atomic_operands(where, order)));
}

MEGANEURA_INLINE void atomic_store(const place_reference& where, const operand& what, memory_order order) {
  if (order == memory_order::acquire || order == memory_order::acquire_release)
    fail(error_category::invalid_argument, "an atomic store that acquires was asked for; it may release");
  words parts = atomic_operands(where, order);
  parts.push_back(where.object.owner->use(what));
  where.object.owner->builder().emit_void(op::atomic_store, parts);
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
  const scalar_kind kind = value.type.kind;
  if (value.is_literal() && (is_narrow_integer(kind) || (kind == scalar_kind::bf16 && !builder_.has_bfloat16()))) {
    // There are constants of these only where they are computed with: converted to them.
    const word wide[] = {
        builder_.constant({scalar_kind::u32, value.type.components}, detail::encoded(kind, value.bits))};
    return builder_.emit_pure(conversion_of_integers(kind), builder_.type(value.type), wide);
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
  buffer.exchanged = how == access::exchange;
  if (buffer.exchanged) exchanged_.push_back(buffer.variable);
  return buffer;
}

MEGANEURA_INLINE void kernel::mark_aliased(word variable) {
  if (aliased_.insert(variable).second) builder_.decorate(variable, decoration::aliased);
}

MEGANEURA_INLINE untyped::memory_object kernel::declare_view(data_type type, const untyped::memory_object& of) {
  if (of.owner == this && of.storage == storage_class::workgroup) return declare_workgroup_view(type, of);
  if (of.owner != this || of.storage != storage_class::storage_buffer)
    fail(error_category::invalid_argument, "kernel '{}': only its own buffers and workgroup memory have views",
         module_.name);
  // Two writable names for one binding alias each other, whatever the first was declared as.
  if (of.writable) mark_aliased(of.variable);
  const access how = of.exchanged ? access::exchange : of.writable ? access::read_write : access::read;
  const untyped::memory_object view = declare_buffer(type, "view", how, of.binding);
  if (of.writable) mark_aliased(view.variable);
  return view;
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
  if (storage == storage_class::workgroup) return declare_workgroup_array(type, length);
  builder_.require_arithmetic(type.kind);
  const word pointer = builder_.type_pointer(storage, builder_.type_array(builder_.type(type), length));
  return {this, builder_.function_variable(pointer), type, storage, length};
}

MEGANEURA_INLINE void kernel::use_explicit_workgroup_layout() {
  if (module_.shared_bytes != 0) {
    fail(error_category::invalid_argument,
         "kernel '{}': workgroup memory's layout must be chosen before its first array", module_.name);
  }
  explicit_layout_ = true;
}

MEGANEURA_INLINE untyped::memory_object kernel::declare_workgroup_array(data_type type, word length) {
  constexpr word alignment = 16;
  const word offset = module_.shared_bytes, bytes = (type.bytes() * length + alignment - 1) / alignment * alignment;
  note_shared(bytes);
  if (explicit_layout_) return declare_workgroup_block(type, length, offset);
  builder_.require_arithmetic(type.kind);
  const word pointer =
      builder_.type_pointer(storage_class::workgroup, builder_.type_array(builder_.type(type), bytes / type.bytes()));
  return {this, builder_.global_variable(pointer, storage_class::workgroup), type, storage_class::workgroup, length};
}

// All such variables are the same memory: SPV_KHR_workgroup_memory_explicit_layout.
MEGANEURA_INLINE untyped::memory_object kernel::declare_workgroup_block(data_type type, word length, word offset) {
  if (type.kind == scalar_kind::boolean)
    fail(error_category::invalid_argument, "kernel '{}': booleans have no layout; use u32", module_.name);
  const word block = builder_.type_workgroup_block(type, length, offset);
  const word id =
      builder_.global_variable(builder_.type_pointer(storage_class::workgroup, block), storage_class::workgroup);
  mark_aliased(id);
  return {.owner = this,
          .variable = id,
          .type = type,
          .storage = storage_class::workgroup,
          .length = length,
          .in_block = true,
          .offset = offset};
}

MEGANEURA_INLINE untyped::memory_object kernel::declare_workgroup_view(data_type type,
                                                                       const untyped::memory_object& of) {
  if (type.bytes() > of.type.bytes()) {
    fail(error_category::invalid_argument, "kernel '{}': a view of {} bytes an element of an array of {} was asked for",
         module_.name, type.bytes(), of.type.bytes());
  }
  const word length = of.type.bytes() / type.bytes() * of.length;
  if (explicit_layout_) return declare_workgroup_block(type, length, of.offset);
  const bool whole_words = info(type.kind).bits == 32 && info(of.type.kind).bits == 32;
  if (of.lies_as || !whole_words || (type.components != 1 && type.components != of.type.components)) {
    fail(error_category::invalid_argument,
         "kernel '{}': this view of workgroup memory needs use_explicit_workgroup_layout()", module_.name);
  }
  untyped::memory_object view = of;
  view.type = type, view.length = length, view.lies_as = of.type;
  return view;
}

MEGANEURA_INLINE untyped::place_reference kernel::declare_variable(data_type type) {
  builder_.require_arithmetic(type.kind);
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

MEGANEURA_INLINE word kernel::scope_id(scope of) {
  if (of == scope::device) {
    module_.needs_device_scope = true;
    if (builder_.settled_vulkan_memory_model()) builder_.require(capability::vulkan_memory_model_device_scope);
  }
  return builder_.constant({scalar_kind::u32, 1}, static_cast<word>(of));
}

MEGANEURA_INLINE void kernel::emit_barrier(scope execution, scope seen_by, bool buffers) {
  const word semantics = static_cast<word>(memory_order::acquire_release) | workgroup_memory |
                         (buffers ? uniform_memory : 0u) |
                         (builder_.settled_vulkan_memory_model() ? make_available | make_visible : 0u);
  const word parts[] = {scope_id(execution), scope_id(seen_by), builder_.constant({scalar_kind::u32, 1}, semantics)};
  builder_.emit_void(op::control_barrier, parts);
}

// Each invocation releases and acquires for itself, by the barriers: nothing depends on how far an atomic of one of
// them carries what others did.
MEGANEURA_INLINE boolean kernel::is_last_workgroup(const place<u32>& arrived, const u32& count) {
  const memory<u32> before = shared<u32>(1);
  device_barrier();
  if_(local_index() == 0u, [&] {
    before[0] = arrived.atomic_add(1, memory_order::acquire_release);
    if_(before[0].load() == count - 1, [&] { arrived.atomic_store(0); });
  });
  device_barrier();
  return before[0].load() == count - 1;
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

namespace detail {

struct group_need {
  op code;
  capability needed;
  spirv::subgroup_operation operation;
};
// The first instruction of each kind; those that follow have the same need.
inline constexpr group_need group_needs[] = {
    {op::group_non_uniform_elect, capability::group_non_uniform, subgroup_basic},
    {op::group_non_uniform_all, capability::group_non_uniform_vote, subgroup_vote},
    {op::group_non_uniform_broadcast, capability::group_non_uniform_ballot, subgroup_ballot},
    {op::group_non_uniform_shuffle, capability::group_non_uniform_shuffle, subgroup_shuffle},
    {op::group_non_uniform_i_add, capability::group_non_uniform_arithmetic, subgroup_arithmetic},
};

[[nodiscard]] constexpr const group_need& need_of(op code) {
  const group_need* found = group_needs;
  for (const group_need& row : group_needs) found = code >= row.code ? &row : found;
  return *found;
}

}  // namespace detail

MEGANEURA_INLINE untyped::operand kernel::subgroup_operation(op code, data_type result,
                                                             std::initializer_list<word> operands) {
  const detail::group_need& need = detail::need_of(code);
  builder_.require(capability::group_non_uniform);
  builder_.require(need.needed);
  builder_.require_arithmetic(result.kind);
  module_.subgroup_operations |= need.operation;
  if (info(result.kind).bits < 32) module_.needs_subgroup_extended_types = true;
  words parts{scope_id(scope::subgroup)};
  parts.insert(parts.end(), operands.begin(), operands.end());
  return wrap(result, builder_.emit(code, builder_.type(result), parts));
}

MEGANEURA_INLINE untyped::operand kernel::subgroup_arithmetic(reduction how, const untyped::operand& x,
                                                              group_operation of) {
  const bool extremum = how == reduction::minimum || how == reduction::maximum;
  if (x.type.is_float() && extremum) return subgroup_float_extremum(how, x);
  constexpr op table[3][4] = {{op::group_non_uniform_f_add, op::group_non_uniform_f_mul, op::group_non_uniform_s_min,
                               op::group_non_uniform_s_max},
                              {op::group_non_uniform_i_add, op::group_non_uniform_i_mul, op::group_non_uniform_u_min,
                               op::group_non_uniform_u_max},
                              {op::group_non_uniform_i_add, op::group_non_uniform_i_mul, op::group_non_uniform_s_min,
                               op::group_non_uniform_s_max}};
  const int row = x.type.is_float() ? 0 : !info(x.type.kind).is_signed ? 1 : 2;
  return subgroup_operation(table[row][static_cast<int>(how)], x.type, {static_cast<word>(of), use(x)});
}

MEGANEURA_INLINE untyped::operand kernel::subgroup_move(op code, const untyped::operand& x,
                                                        const untyped::operand& lane) {
  return subgroup_operation(code, x.type, {use(x), use(lane)});
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
  if (!builder_.vulkan_memory_model()) {  // which has no such decoration
    for (const word variable : exchanged_) builder_.decorate(variable, decoration::coherent);
  }
  module_.words = builder_.finish(module_.local_size);
  for (std::size_t i = 5; i < module_.words.size() && (module_.words[i] & 0xffffu) == 17u;
       i += module_.words[i] >> 16) {
    const auto used = static_cast<capability>(module_.words[i + 1]);
    module_.needs_f16 = module_.needs_f16 || used == capability::float16;
    module_.needs_workgroup_layout =
        module_.needs_workgroup_layout || used == capability::workgroup_memory_explicit_layout;
    module_.needs_int8 = module_.needs_int8 || used == capability::int8;
    module_.needs_int16 = module_.needs_int16 || used == capability::int16;
    module_.needs_bf16 = module_.needs_bf16 || used == capability::bfloat16_type;
    module_.needs_16bit_storage = module_.needs_16bit_storage || used == capability::storage_buffer_16bit_access;
    module_.needs_8bit_storage = module_.needs_8bit_storage || used == capability::storage_buffer_8bit_access;
    module_.needs_cooperative_matrix = module_.needs_cooperative_matrix || used == capability::cooperative_matrix;
  }
  return module_;
}

}  // namespace meganeura::inline MEGANEURA_ABI::spirv
