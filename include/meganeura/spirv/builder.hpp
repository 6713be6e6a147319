// SPDX-License-Identifier: MIT
// Writes a SPIR-V module word by word: sections in the order the specification asks for, each type and constant once.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/spirv/opcodes.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::spirv {

using word = std::uint32_t;
using words = std::vector<word>;

enum class scalar_kind : std::uint8_t { boolean, u32, i32, f32, f16, u16, u8, i8, i16, bf16 };

/// How a kind is declared and what a module says before it uses it.
struct scalar_info {
  scalar_kind kind;
  op declaration;
  word bits;
  bool is_signed = false;
  capability stored = capability::shader;    // of a storage buffer with it
  capability computed = capability::shader;  // of all instructions but loads, stores and conversions
};

namespace detail {
// What every module has is `shader`.
inline constexpr scalar_info scalar_table[] = {
    {scalar_kind::boolean, op::type_bool, 32},
    {scalar_kind::u32, op::type_int, 32},
    {scalar_kind::i32, op::type_int, 32, true},
    {scalar_kind::f32, op::type_float, 32},
    {scalar_kind::f16, op::type_float, 16, false, capability::storage_buffer_16bit_access, capability::float16},
    {scalar_kind::u16, op::type_int, 16, false, capability::storage_buffer_16bit_access, capability::int16},
    {scalar_kind::u8, op::type_int, 8, false, capability::storage_buffer_8bit_access, capability::int8},
    {scalar_kind::i8, op::type_int, 8, true, capability::storage_buffer_8bit_access, capability::int8},
    {scalar_kind::i16, op::type_int, 16, true, capability::storage_buffer_16bit_access, capability::int16},
    {scalar_kind::bf16, op::type_float, 16, false, capability::storage_buffer_16bit_access, capability::int16},
};
}  // namespace detail

[[nodiscard]] constexpr const scalar_info& info(scalar_kind kind) {
  return detail::scalar_table[static_cast<int>(kind)];
}
static_assert(
    [] {
      for (const scalar_info& row : detail::scalar_table) {
        if (&row != &info(row.kind)) return false;
      }
      return true;
    }(),
    "scalar_table has its rows in the order of scalar_kind");

[[nodiscard]] constexpr bool is_integer(scalar_kind kind) { return info(kind).declaration == op::type_int; }
[[nodiscard]] constexpr bool is_narrow_integer(scalar_kind kind) { return is_integer(kind) && info(kind).bits < 32; }

/// Between integers of other widths: how the narrower one is widened.
[[nodiscard]] constexpr op conversion_of_integers(scalar_kind narrow) {
  return info(narrow).is_signed ? op::s_convert : op::u_convert;
}

/// A scalar or vector type of the kernel language.
struct data_type {
  scalar_kind kind = scalar_kind::u32;
  std::uint8_t components = 1;
  [[nodiscard]] bool operator==(const data_type&) const = default;
  [[nodiscard]] bool is_float() const { return info(kind).declaration == op::type_float; }
  /// Size in bytes in memory; a boolean has none.
  [[nodiscard]] word bytes() const { return info(kind).bits / 8 * components; }
};

namespace detail {
struct words_hash {
  [[nodiscard]] std::size_t operator()(const words& key) const {
    std::size_t hash = 1469598103934665603ull;  // FNV-1a, 64-bit parameters
    for (const word value : key) hash = (hash ^ value) * 1099511628211ull;
    return hash;
  }
};
}  // namespace detail

/// One compute entry point "main" under construction. The caller opens and closes structured blocks in pairs;
/// everything that is not code (types, constants, decorations) may be asked for at any time.
class module_builder {
 public:
  module_builder();

  [[nodiscard]] word fresh_id() { return next_id_++; }

  // --- declarations, each stored once ---
  void require(capability value) { capabilities_.insert(static_cast<word>(value)); }
  void require_extension(std::string name) { extensions_.insert(std::move(name)); }
  /// Also raises the version to 1.6. errors: invalid_argument behind code of the other model.
  void use_vulkan_memory_model();
  [[nodiscard]] bool vulkan_memory_model() const { return vulkan_memory_model_; }
  /// The same for code that depends on it: from now on the answer stands.
  [[nodiscard]] bool settled_vulkan_memory_model() { return memory_model_settled_ = true, vulkan_memory_model_; }
  /// bf16 becomes a type of its own (SPV_KHR_bfloat16); without it, it is the upper half of an f32 in a u16.
  /// errors: invalid_argument behind its first use.
  void use_bfloat16();
  [[nodiscard]] bool has_bfloat16() const { return bfloat16_; }
  /// Declares that values of the kind are computed with, not only loaded, stored and converted.
  void require_arithmetic(scalar_kind kind);
  [[nodiscard]] word glsl_std_450();
  [[nodiscard]] word type(data_type type);
  [[nodiscard]] word type_pointer(storage_class storage, word pointee);
  [[nodiscard]] word type_array(word element, word length);
  [[nodiscard]] word type_storage_buffer(data_type element);  // Block struct of one runtime array, std430 stride
  /// Block struct of one array that begins `offset` bytes into workgroup memory; a type of its own each time. Raises
  /// the version to 1.4.
  [[nodiscard]] word type_workgroup_block(data_type element, word length, word offset);
  [[nodiscard]] word type_uniform_buffer(data_type element,
                                         word length);  // Block struct of `length` members, 16 bytes each
  [[nodiscard]] word type_texel_buffer();
  [[nodiscard]] word type_cooperative_matrix(scalar_kind kind, word rows, word columns, word use);
  /// `bits` is the 32-bit pattern; of an f16 or bf16 the pattern of the f32 it is rounded from. A vector repeats the
  /// scalar.
  [[nodiscard]] word constant(data_type type, word bits);
  [[nodiscard]] word constant_composite(word type, std::span<const word> parts);
  /// Any other instruction of the declaration section with a result id, found again when declared twice.
  [[nodiscard]] word declare(op code, std::span<const word> operands, bool typed);

  void decorate(word target, decoration what, std::initializer_list<word> literals = {});
  void set_name(word target, std::string_view name);
  [[nodiscard]] word global_variable(word pointer_type, storage_class storage);
  [[nodiscard]] word function_variable(word pointer_type);
  [[nodiscard]] word built_in_variable(built_in which, data_type type);

  // --- code ---
  [[nodiscard]] word emit(op code, word result_type, std::span<const word> operands);
  /// The same for an instruction without side effects: an equal one already computed in an enclosing block is reused.
  [[nodiscard]] word emit_pure(op code, word result_type, std::span<const word> operands, bool no_contraction = false);
  void emit_void(op code, std::span<const word> operands);

  struct selection {
    word else_label = 0, merge_label = 0;
  };
  [[nodiscard]] selection begin_selection(word condition);
  void begin_else(const selection& open);
  void end_selection(const selection& open);

  struct loop {
    word counter = 0, header_label = 0, continue_label = 0, merge_label = 0, next = 0, type = 0;
  };
  /// `for (counter = begin; counter < end; counter += step)` over 32-bit integers; `less` is the comparison to use.
  [[nodiscard]] loop begin_counted_loop(word type, word begin, word end, op less, unrolling hint);
  void end_counted_loop(const loop& open, word step);
  /// A loop left only by `break_if`.
  [[nodiscard]] loop begin_loop();
  void break_if(const loop& open, word condition);
  void end_loop(const loop& open);

  /// Whether `id` may be used here: declared at module level or computed in a block that is still open.
  [[nodiscard]] bool visible(word id) const;

  [[nodiscard]] words finish(std::span<const word> local_size);

 private:
  void require_types();
  void place_label(word label);
  void open_scope();
  void close_scope();
  void note_definition(word id);
  /// Valid until the next call.
  [[nodiscard]] const words& key_of(std::initializer_list<word> first, std::span<const word> rest);

  // Values computed inside a block do not dominate what follows it: a scope remembers what it added to the reuse table.
  struct scope {
    word serial = 0;
    std::vector<const words*> reusable;  // keys of computed_
  };

  word next_id_ = 1;
  word version_ = 0x00010300;
  bool vulkan_memory_model_ = false, memory_model_settled_ = false, bfloat16_ = false;
  word glsl_ = 0;
  word main_ = 0;
  word current_label_ = 0;
  word next_scope_ = 1;
  std::set<word> capabilities_;
  std::set<std::string> extensions_;
  words names_, decorations_, declarations_, variables_, code_;
  words interface_, key_;
  std::unordered_map<words, word, detail::words_hash> declared_, computed_;
  std::array<std::array<word, 5>, std::size(detail::scalar_table)> types_{};  // by kind and components
  std::map<word, word> built_ins_;
  std::vector<scope> scopes_;
  std::vector<word> scope_of_;       // by id; 0 = module level
  std::vector<bool> scope_is_open_;  // by serial
};

namespace detail {
void append(words& out, op code, std::span<const word> operands);
void append_string(words& out, std::string_view text);
/// The pattern of a literal in a constant of its kind.
[[nodiscard]] word encoded(scalar_kind kind, word bits);
/// The literal whose value the kind has: integers wrap around, floats are rounded.
[[nodiscard]] word rounded(scalar_kind kind, word bits);
}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI::spirv

#if MEGANEURA_HEADER_ONLY
#include <meganeura/spirv/builder.ipp>
#endif
