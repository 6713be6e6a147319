// SPDX-License-Identifier: MIT
// The kernel language: one compute shader written as C++ over typed values, turned into a SPIR-V module.
#pragma once
#include <meganeura/spirv/builder.hpp>
#include <meganeura/spirv/module.hpp>
#include <meganeura/spirv/value.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

// A C++ loop unrolls, a language loop (`for_`) loops; a C++ function over values is an inlined function; a C++ number
// is a literal. Equal computations are emitted once, so a generator need not hoist by hand.
namespace meganeura::inline MEGANEURA_ABI::spirv {

enum class access : std::uint8_t {
  read,        // never written by this dispatch, through any binding: the driver may cache it freely
  write,       // written, and read only by the invocation that wrote
  read_write,  // in-place; also to be used for an operand whose memory another binding writes, and for that binding
  exchange     // written, and read by other invocations: of the workgroup behind a barrier(true), of others behind a
               // device_barrier() or an acquire
};

namespace untyped {

/// A variable in memory: a buffer, a shared array, one of an invocation's own.
struct memory_object {
  kernel* owner = nullptr;
  word variable = 0;
  data_type type;
  storage_class storage = storage_class::storage_buffer;
  word length = 0;  // 0 = run-time sized
  word binding = 0;
  bool writable = true;
  bool exchanged = false;  // access::exchange
  bool in_block = false;   // workgroup memory of explicit layout,
  word offset = 0;         // which it begins at, in bytes
  // Of a view without that layout: elements as they lie, with as many components or, for scalars, four times or twice.
  std::optional<data_type> lies_as{};
};

/// An element of one.
struct place_reference {
  memory_object object;
  word pointer = 0;
};

[[nodiscard]] place_reference locate(const memory_object& object, const operand& index);
[[nodiscard]] place_reference locate_component(const memory_object& object, const operand& index,
                                               const operand& component);
[[nodiscard]] operand load(const place_reference& from);
void store(const place_reference& to, const operand& what);
// 32-bit integers, one component; device scope in buffers, workgroup scope in workgroup memory. What an order other
// than relaxed orders is that memory.
[[nodiscard]] operand atomic(op code, const place_reference& where, const operand& what, memory_order order);
[[nodiscard]] operand atomic_exchange_if_equal(const place_reference& where, const operand& expected,
                                               const operand& desired, memory_order order);
[[nodiscard]] operand atomic_load(const place_reference& where, memory_order order);
void atomic_store(const place_reference& where, const operand& what, memory_order order);
/// What a load or store of it says beside its pointer.
[[nodiscard]] words memory_operands(kernel& owner, const memory_object& object, bool is_store);
[[nodiscard]] operand fetch(const memory_object& texels, const operand& index);

}  // namespace untyped

namespace detail {
template <class T>
concept atomic_value = kernel_value<T> && T::components == 1 &&
                       (T::kind == scalar_kind::u32 || T::kind == scalar_kind::i32);
}  // namespace detail

/// An element of memory: converts to its value by loading, assignment stores.
template <kernel_value T>
class place {
 public:
  explicit place(const untyped::place_reference& reference) : reference_(reference) {}
  place(const place&) = default;  // names the same element; assignment copies what it holds

  [[nodiscard]] T load() const { return T(untyped::load(reference_)); }
  operator T() const { return load(); }  // NOLINT: implicit by design
  void store(const T& what) const { untyped::store(reference_, what); }
  const place& operator=(const T& what) const { return store(what), *this; }
  place& operator=(const place& other) { return store(other.load()), *this; }
  [[nodiscard]] typename T::scalar operator[](word component) const requires(T::components > 1) {
    return load()[component];
  }
  const place& operator+=(const T& what) const { return *this = load() + what; }
  const place& operator-=(const T& what) const { return *this = load() - what; }
  const place& operator*=(const T& what) const { return *this = load() * what; }

  // Device scope in a buffer, the workgroup's in its memory; each returns what stood there before.
  using order = memory_order;
  [[nodiscard]] T atomic_load(order how = order::relaxed) const requires(detail::atomic_value<T>) {
    return T(untyped::atomic_load(reference_, how));
  }
  void atomic_store(const T& what, order how = order::relaxed) const requires(detail::atomic_value<T>) {
    untyped::atomic_store(reference_, what, how);
  }
  [[nodiscard]] T atomic_exchange(const T& what, order how = order::relaxed) const requires(detail::atomic_value<T>) {
    return T(untyped::atomic(op::atomic_exchange, reference_, what, how));
  }
  [[nodiscard]] T atomic_add(const T& what, order how = order::relaxed) const requires(detail::atomic_value<T>) {
    return T(untyped::atomic(op::atomic_i_add, reference_, what, how));
  }
  [[nodiscard]] T atomic_max(const T& what, order how = order::relaxed) const requires(detail::atomic_value<T>) {
    return T(untyped::atomic(is_unsigned ? op::atomic_u_max : op::atomic_s_max, reference_, what, how));
  }
  [[nodiscard]] T atomic_min(const T& what, order how = order::relaxed) const requires(detail::atomic_value<T>) {
    return T(untyped::atomic(is_unsigned ? op::atomic_u_min : op::atomic_s_min, reference_, what, how));
  }
  [[nodiscard]] T atomic_and(const T& what, order how = order::relaxed) const requires(detail::atomic_value<T>) {
    return T(untyped::atomic(op::atomic_and, reference_, what, how));
  }
  [[nodiscard]] T atomic_or(const T& what, order how = order::relaxed) const requires(detail::atomic_value<T>) {
    return T(untyped::atomic(op::atomic_or, reference_, what, how));
  }
  [[nodiscard]] T atomic_xor(const T& what, order how = order::relaxed) const requires(detail::atomic_value<T>) {
    return T(untyped::atomic(op::atomic_xor, reference_, what, how));
  }
  [[nodiscard]] T atomic_compare_exchange(const T& expected, const T& desired, order how = order::relaxed) const
      requires(detail::atomic_value<T>) {
    return T(untyped::atomic_exchange_if_equal(reference_, expected, desired, how));
  }

  [[nodiscard]] const untyped::place_reference& reference() const { return reference_; }

 private:
  static constexpr bool is_unsigned = T::kind == scalar_kind::u32;
  untyped::place_reference reference_;
};

/// A mutable local variable.
template <kernel_value T>
using var = place<T>;

/// An array in a storage buffer, in workgroup memory or local to an invocation. The index counts elements of T.
template <kernel_value T>
class memory {
 public:
  explicit memory(const untyped::memory_object& object) : object_(object) {}
  [[nodiscard]] place<T> operator[](const u32& index) const { return place<T>(untyped::locate(object_, index)); }
  [[nodiscard]] T load(const u32& index) const { return (*this)[index].load(); }
  void store(const u32& index, const T& what) const { (*this)[index].store(what); }
  /// One component of a vector element, without touching the others.
  [[nodiscard]] place<typename T::scalar> component(const u32& index, const u32& which) const
      requires(T::components > 1) {
    return place<typename T::scalar>(untyped::locate_component(object_, index, which));
  }
  [[nodiscard]] const untyped::memory_object& object() const { return object_; }

 private:
  untyped::memory_object object_;
};

/// A buffer of f32 in groups of four read through the texture unit; `load` gives one group.
class texel_buffer {
 public:
  explicit texel_buffer(const untyped::memory_object& object) : object_(object) {}
  [[nodiscard]] f32x4 load(const u32& index) const { return f32x4(untyped::fetch(object_, index)); }
  [[nodiscard]] f32x4 operator[](const u32& index) const { return load(index); }
  [[nodiscard]] const untyped::memory_object& object() const { return object_; }

 private:
  untyped::memory_object object_;
};

enum class reduction : std::uint8_t { add, multiply, minimum, maximum };

inline constexpr std::uint64_t unknown_iterations = ~std::uint64_t{0};

/// A kernel under construction. Values and memory refer to it: it stays where it is and outlives them.
class kernel {
 public:
  explicit kernel(std::string name, std::array<std::uint32_t, 3> local_size = {64, 1, 1});
  kernel(const kernel&) = delete;
  kernel& operator=(const kernel&) = delete;

  /// Workgroup memory is laid out by the language, so that arrays have views of all types. Before the first array.
  void use_explicit_workgroup_layout();
  [[nodiscard]] bool has_explicit_workgroup_layout() const { return explicit_layout_; }
  /// bf16 becomes a type of the device (device_facts::has_bf16), before it is first used. Otherwise it is converted by
  /// its bits, which every device can.
  void use_bfloat16() { builder_.use_bfloat16(); }

  // --- bindings, numbered in the order of the calls ---
  template <kernel_value T>
  [[nodiscard]] memory<T> storage_buffer(std::string_view name, access how = access::read) {
    return memory<T>(declare_buffer(T::static_type, name, how, {}));
  }
  /// The same memory seen as another element type: a binding, e.g. of f32 as f32x4, or an array of workgroup memory,
  /// e.g. of u32x4 as f32, whose elements must be as wide at least. Of the latter use_explicit_workgroup_layout() gives
  /// views of all types; without it these are scalars of 32 bits, or vectors as wide as the array's.
  template <kernel_value T, kernel_value U>
  [[nodiscard]] memory<T> view(const memory<U>& of) {
    return memory<T>(declare_view(T::static_type, of.object()));
  }
  /// Uniform texel buffer; the format (RGBA32F, R32F, RGBA16F) is the buffer view's, absent components read as 0, 0, 1.
  [[nodiscard]] texel_buffer texels(std::string_view name);

  // --- other memory ---
  /// Every array of workgroup memory begins at a multiple of 16 bytes, whatever stands beside it: the language lays
  /// them out (SPV_KHR_workgroup_memory_explicit_layout, device_facts::has_workgroup_layout) or else, as drivers put
  /// them one behind another, fills each up to such a multiple. So a 16-byte access is an aligned one.
  template <kernel_value T>
  [[nodiscard]] memory<T> shared(word length) {
    return memory<T>(declare_array(T::static_type, storage_class::workgroup, length));
  }
  template <kernel_value T>
  [[nodiscard]] memory<T> local_array(word length) {
    return memory<T>(declare_array(T::static_type, storage_class::function, length));
  }
  template <kernel_value T>
  [[nodiscard]] var<T> variable(const T& initial = T()) {
    var<T> result(declare_variable(T::static_type));
    result.store(initial);
    return result;
  }

  // --- built-in values; x, y, z = 0, 1, 2 ---
  [[nodiscard]] u32 global_id(word axis = 0) { return built_in_component(built_in::global_invocation_id, axis); }
  [[nodiscard]] u32 local_id(word axis = 0) { return built_in_component(built_in::local_invocation_id, axis); }
  [[nodiscard]] u32 workgroup_id(word axis = 0) { return built_in_component(built_in::workgroup_id, axis); }
  [[nodiscard]] u32 workgroup_count(word axis = 0) { return built_in_component(built_in::num_workgroups, axis); }
  [[nodiscard]] u32 local_index() { return built_in_scalar(built_in::local_invocation_index); }
  [[nodiscard]] u32 subgroup_size() { return built_in_scalar(built_in::subgroup_size); }
  [[nodiscard]] u32 subgroup_count() { return built_in_scalar(built_in::num_subgroups); }
  [[nodiscard]] u32 subgroup_id() { return built_in_scalar(built_in::subgroup_id); }
  [[nodiscard]] u32 subgroup_lane() { return built_in_scalar(built_in::subgroup_local_invocation_id); }
  /// Of the invocation in its workgroup, where subgroups have this required size: neighbours are lanes of one subgroup,
  /// which local_index() does not promise.
  [[nodiscard]] u32 index_by_subgroups(word size) { return subgroup_id() * size + subgroup_lane(); }

  // --- control flow ---
  template <class Then>
  void if_(const boolean& condition, Then&& then) {
    if_(condition, std::forward<Then>(then), [] {});
  }
  /// A literal condition keeps only its branch.
  template <class Then, class Else>
  void if_(const boolean& condition, Then&& then, Else&& otherwise) {
    if (condition.is_literal()) return condition.bits != 0 ? static_cast<void>(then()) : static_cast<void>(otherwise());
    const auto open = builder_.begin_selection(use(condition));
    then();
    builder_.begin_else(open);
    otherwise();
    builder_.end_selection(open);
  }
  /// `for (i = begin; i < end; i += step) body(i)`; with literal bounds an empty loop vanishes and a single pass is
  /// inlined. `at_most`: an upper bound of the passes where end is no literal, see module::loop_iterations.
  template <class Body>
  void for_(const u32& begin, const u32& end, const u32& step, Body&& body, unrolling hint = unrolling::automatic,
            std::uint64_t at_most = unknown_iterations) {
    if (begin.is_literal() && end.is_literal() && begin.bits >= end.bits) return;
    if (begin.is_literal() && end.is_literal() && step.is_literal() && end.bits - begin.bits <= step.bits)
      return static_cast<void>(body(begin));
    const loop_tally before = begin_tally();
    const auto open =
        builder_.begin_counted_loop(builder_.type(u32::static_type), use(begin), use(end), op::u_less_than, hint);
    body(u32(wrap(u32::static_type, open.counter)));
    builder_.end_counted_loop(open, use(step));
    end_tally(before, std::min(at_most, passes(begin, end, step)));
  }
  template <class Body>
  void for_(const u32& end, Body&& body) {
    for_(u32(0), end, u32(1), std::forward<Body>(body));
  }
  /// Repeats `body` while `condition()` holds; both run inside the loop. `at_most`: an upper bound of the passes.
  template <class Condition, class Body>
  void while_(Condition&& condition, Body&& body, std::uint64_t at_most = unknown_iterations) {
    const loop_tally before = begin_tally();
    const auto open = builder_.begin_loop();
    builder_.break_if(open, use(!boolean(condition())));
    body();
    builder_.end_loop(open);
    end_tally(before, at_most);
  }
  /// All invocations of the workgroup arrive and see each other's workgroup memory; with `buffers`, what they stored in
  /// those of access::exchange too.
  void barrier(bool buffers = false) { emit_barrier(scope::workgroup, scope::workgroup, buffers); }
  /// The same with buffers; and what invocations stored in these before, or saw there, other workgroups can acquire.
  void device_barrier() { emit_barrier(scope::workgroup, scope::device, true); }
  /// The same for the invocations of each subgroup and workgroup memory.
  void subgroup_barrier() { emit_barrier(scope::subgroup, scope::subgroup, false); }
  /// Whether this workgroup is the last of `count` to come here, which then sees what they all stored in buffers of
  /// access::exchange. `arrived` is 0 before the dispatch and again behind it. Every invocation arrives.
  [[nodiscard]] boolean is_last_workgroup(const place<u32>& arrived, const u32& count);
  /// Every floating-point operation emitted by `body` is kept as written: no fusing into fma, no reordering.
  template <class Body>
  void precise(Body&& body) {
    const bool before = std::exchange(precise_, true);
    body();
    precise_ = before;
  }

  // --- subgroup operations; every invocation of the subgroup must arrive ---
  template <kernel_value T>
    requires(T::is_number)
  [[nodiscard]] T subgroup_reduce(reduction how, const T& x) { return T(subgroup_arithmetic(how, x)); }
  template <kernel_value T>
  [[nodiscard]] T subgroup_add(const T& x) {
    return subgroup_reduce(reduction::add, x);
  }
  template <kernel_value T>
  [[nodiscard]] T subgroup_max(const T& x) {
    return subgroup_reduce(reduction::maximum, x);
  }
  template <kernel_value T>
  [[nodiscard]] T subgroup_min(const T& x) {
    return subgroup_reduce(reduction::minimum, x);
  }
  template <kernel_value T>
  [[nodiscard]] T subgroup_multiply(const T& x) {
    return subgroup_reduce(reduction::multiply, x);
  }
  /// The sum over the lanes up to this one, or before it: 0 for the first.
  template <kernel_value T>
    requires(T::is_number)
  [[nodiscard]] T subgroup_inclusive_add(const T& x) {
    return T(subgroup_arithmetic(reduction::add, x, group_operation::inclusive_scan));
  }
  template <kernel_value T>
    requires(T::is_number)
  [[nodiscard]] T subgroup_exclusive_add(const T& x) {
    return T(subgroup_arithmetic(reduction::add, x, group_operation::exclusive_scan));
  }
  template <kernel_value T>
  [[nodiscard]] T subgroup_shuffle_xor(const T& x, const u32& mask) {
    return T(subgroup_move(op::group_non_uniform_shuffle_xor, x, mask));
  }
  template <kernel_value T>
  [[nodiscard]] T subgroup_shuffle(const T& x, const u32& lane) {
    return T(subgroup_move(op::group_non_uniform_shuffle, x, lane));
  }
  /// The value of one lane, the same for all; the lane is a C++ number (SPIR-V before 1.5 asks for a constant).
  template <kernel_value T>
  [[nodiscard]] T subgroup_broadcast(const T& x, word lane) {
    return T(subgroup_move(op::group_non_uniform_broadcast, x, u32(lane)));
  }
  template <kernel_value T>
  [[nodiscard]] T subgroup_broadcast_first(const T& x) {
    return T(subgroup_operation(op::group_non_uniform_broadcast_first, x.type, {use(x)}));
  }
  [[nodiscard]] boolean subgroup_all(const boolean& x) {
    return boolean(subgroup_operation(op::group_non_uniform_all, x.type, {use(x)}));
  }
  [[nodiscard]] boolean subgroup_any(const boolean& x) {
    return boolean(subgroup_operation(op::group_non_uniform_any, x.type, {use(x)}));
  }
  /// True for one lane.
  [[nodiscard]] boolean subgroup_elect() {
    return boolean(subgroup_operation(op::group_non_uniform_elect, boolean::static_type, {}));
  }
  /// Bit i % 32 of word i / 32 is lane i's.
  [[nodiscard]] u32x4 subgroup_ballot(const boolean& x) {
    return u32x4(subgroup_operation(op::group_non_uniform_ballot, u32x4::static_type, {use(x)}));
  }
  /// The bits of a ballot: all of them, of the lanes up to this one, of those before it.
  [[nodiscard]] u32 subgroup_ballot_count(const u32x4& ballot, group_operation of = group_operation::reduce) {
    return u32(subgroup_operation(op::group_non_uniform_ballot_bit_count, u32::static_type,
                                  {static_cast<word>(of), use(ballot)}));
  }

  /// Refuses to run on any other subgroup size, and has subgroups filled along x; 0 leaves it to the device.
  void require_subgroup_size(std::uint32_t size) { module_.subgroup_size = size; }
  [[nodiscard]] std::uint32_t shared_bytes() const { return module_.shared_bytes; }
  [[nodiscard]] const std::array<std::uint32_t, 3>& local_size() const { return module_.local_size; }

  /// Closes the kernel. Nothing may be emitted afterwards.
  [[nodiscard]] module finish();

  // --- for the layers on top (values, cooperative matrices) ---
  [[nodiscard]] module_builder& builder() { return builder_; }
  [[nodiscard]] spirv::module& facts() { return module_; }
  /// The id of a value, a literal becoming a constant. Fails for a value of another kernel or of a block already
  /// closed.
  [[nodiscard]] word use(const untyped::operand& value);
  [[nodiscard]] untyped::operand wrap(data_type type, word id) { return {this, id, type, 0}; }
  [[nodiscard]] bool is_precise() const { return precise_; }
  /// What a vector was made of if a literal is among it (nullptr otherwise): a driver knows that component, too.
  [[nodiscard]] const untyped::operand* parts_of(const untyped::operand& vector) const;
  void note_parts(word vector, std::span<const untyped::operand> parts);
  void note_shared(word bytes);
  [[nodiscard]] word scope_id(scope of);
  // The same declarations and operations for types known only when the generator runs.
  [[nodiscard]] untyped::memory_object declare_buffer(data_type type, std::string_view name, access how,
                                                      std::optional<word> binding);
  /// `length` values of 16 bytes each, read at literal indices.
  [[nodiscard]] untyped::memory_object declare_uniform_buffer(data_type type, word length, std::string_view name);
  [[nodiscard]] untyped::memory_object declare_view(data_type type, const untyped::memory_object& of);
  [[nodiscard]] untyped::memory_object declare_array(data_type type, storage_class storage, word length);
  [[nodiscard]] untyped::place_reference declare_variable(data_type type);
  [[nodiscard]] untyped::operand subgroup_arithmetic(reduction how, const untyped::operand& x,
                                                     group_operation of = group_operation::reduce);
  [[nodiscard]] untyped::operand subgroup_float_extremum(reduction how, const untyped::operand& x);
  [[nodiscard]] untyped::operand subgroup_move(op code, const untyped::operand& x, const untyped::operand& lane);
  /// `operands`: those behind the scope.
  [[nodiscard]] untyped::operand subgroup_operation(op code, data_type result, std::initializer_list<word> operands);

 private:
  // What the loops closed so far cost, added up over both branches of a selection: neighbouring invocations may take
  // different ones, and a driver that runs them in step makes both.
  struct loop_tally {
    std::uint64_t iterations = 0;
    std::uint64_t loops = 0;  // each still makes a pass where nothing is left to do
  };
  [[nodiscard]] loop_tally begin_tally() { return std::exchange(tally_, {}); }
  void end_tally(const loop_tally& before, std::uint64_t passes);
  [[nodiscard]] static std::uint64_t passes(const u32& begin, const u32& end, const u32& step);

  [[nodiscard]] untyped::memory_object declare_workgroup_array(data_type type, word length);
  [[nodiscard]] untyped::memory_object declare_workgroup_view(data_type type, const untyped::memory_object& of);
  [[nodiscard]] untyped::memory_object declare_workgroup_block(data_type type, word length, word offset);
  void emit_barrier(scope execution, scope seen_by, bool buffers);
  void mark_aliased(word variable);
  // A variable of that type behind `binding`, or the next one; nothing writes it.
  untyped::memory_object declare_bound(binding_kind kind, storage_class storage, word type, data_type element,
                                       std::string_view name, std::optional<word> binding);
  [[nodiscard]] u32 built_in_component(built_in which, word axis);
  [[nodiscard]] u32 built_in_scalar(built_in which);

  module_builder builder_;
  spirv::module module_;
  std::set<word> aliased_;
  std::vector<word> exchanged_;
  std::unordered_map<word, std::vector<untyped::operand>> parts_;
  loop_tally tally_;
  bool precise_ = false, explicit_layout_ = false;
  bool finished_ = false;
};

}  // namespace meganeura::inline MEGANEURA_ABI::spirv

#if MEGANEURA_HEADER_ONLY
#include <meganeura/spirv/kernel.ipp>
#include <meganeura/spirv/value.ipp>
#endif
