// SPDX-License-Identifier: MIT
// The SPIR-V enumerants this library emits, with their numbers from the specification, and no others.
#pragma once
#include <meganeura/config.hpp>

#include <cstdint>

// Own numbers rather than <spirv/unified1/spirv.hpp>: the header installed on older systems lacks the KHR cooperative
// matrix, and an installed meganeura must not need one at all.
namespace meganeura::inline MEGANEURA_ABI::spirv {

/// SPIR-V 3.49, instructions.
enum class op : std::uint16_t {
  name = 5,
  extension = 10,
  ext_inst_import = 11,
  ext_inst = 12,
  memory_model = 14,
  entry_point = 15,
  execution_mode = 16,
  capability = 17,
  type_void = 19,
  type_bool = 20,
  type_int = 21,
  type_float = 22,
  type_vector = 23,
  type_image = 25,
  type_array = 28,
  type_runtime_array = 29,
  type_struct = 30,
  type_pointer = 32,
  type_function = 33,
  constant_true = 41,
  constant_false = 42,
  constant = 43,
  constant_composite = 44,
  function = 54,
  function_end = 56,
  variable = 59,
  load = 61,
  store = 62,
  access_chain = 65,
  decorate = 71,
  member_decorate = 72,
  composite_construct = 80,
  composite_extract = 81,
  image_fetch = 95,
  convert_f_to_u = 109,
  convert_f_to_s = 110,
  convert_s_to_f = 111,
  convert_u_to_f = 112,
  u_convert = 113,
  s_convert = 114,
  f_convert = 115,
  bitcast = 124,
  s_negate = 126,
  f_negate = 127,
  i_add = 128,
  f_add = 129,
  i_sub = 130,
  f_sub = 131,
  i_mul = 132,
  f_mul = 133,
  u_div = 134,
  s_div = 135,
  f_div = 136,
  u_mod = 137,
  matrix_times_scalar = 143,
  u_mul_extended = 151,
  is_nan = 156,
  is_inf = 157,
  logical_equal = 164,
  logical_not_equal = 165,
  logical_or = 166,
  logical_and = 167,
  logical_not = 168,
  select = 169,
  i_equal = 170,
  i_not_equal = 171,
  u_greater_than = 172,
  s_greater_than = 173,
  u_greater_than_equal = 174,
  s_greater_than_equal = 175,
  u_less_than = 176,
  s_less_than = 177,
  u_less_than_equal = 178,
  s_less_than_equal = 179,
  f_ord_equal = 180,
  f_unord_not_equal = 183,
  f_ord_less_than = 184,
  f_ord_greater_than = 186,
  f_ord_less_than_equal = 188,
  f_ord_greater_than_equal = 190,
  shift_right_logical = 194,
  shift_right_arithmetic = 195,
  shift_left_logical = 196,
  bitwise_or = 197,
  bitwise_xor = 198,
  bitwise_and = 199,
  bitwise_not = 200,
  bit_count = 205,
  control_barrier = 224,
  atomic_load = 227,
  atomic_store = 228,
  atomic_exchange = 229,
  atomic_compare_exchange = 230,
  atomic_i_add = 234,
  atomic_s_min = 236,
  atomic_u_min = 237,
  atomic_s_max = 238,
  atomic_u_max = 239,
  atomic_and = 240,
  atomic_or = 241,
  atomic_xor = 242,
  phi = 245,
  loop_merge = 246,
  selection_merge = 247,
  label = 248,
  branch = 249,
  branch_conditional = 250,
  return_ = 253,
  group_non_uniform_elect = 333,
  group_non_uniform_all = 334,
  group_non_uniform_any = 335,
  group_non_uniform_broadcast = 337,
  group_non_uniform_broadcast_first = 338,
  group_non_uniform_ballot = 339,
  group_non_uniform_ballot_bit_count = 342,
  group_non_uniform_shuffle = 345,
  group_non_uniform_shuffle_xor = 346,
  group_non_uniform_i_add = 349,
  group_non_uniform_f_add = 350,
  group_non_uniform_i_mul = 351,
  group_non_uniform_f_mul = 352,
  group_non_uniform_s_min = 353,
  group_non_uniform_u_min = 354,
  group_non_uniform_s_max = 356,
  group_non_uniform_u_max = 357,
  type_cooperative_matrix = 4456,
  cooperative_matrix_load = 4457,
  cooperative_matrix_store = 4458,
  cooperative_matrix_mul_add = 4459,
  cooperative_matrix_length = 4460
};

/// GLSL.std.450, the extended instruction set.
enum class glsl : std::uint32_t {
  round_even = 2,
  trunc = 3,
  f_abs = 4,
  s_abs = 5,
  f_sign = 6,
  s_sign = 7,
  floor = 8,
  ceil = 9,
  pow = 26,
  exp = 27,
  log = 28,
  exp2 = 29,
  log2 = 30,
  sqrt = 31,
  inverse_sqrt = 32,
  u_min = 38,
  s_min = 39,
  u_max = 41,
  s_max = 42,
  fma = 50,
  pack_half_2x16 = 58,
  unpack_half_2x16 = 62,
};

enum class capability : std::uint32_t {
  shader = 1,
  float16 = 9,
  int16 = 22,
  int8 = 39,
  sampled_buffer = 46,
  group_non_uniform = 61,
  group_non_uniform_vote = 62,
  group_non_uniform_arithmetic = 63,
  group_non_uniform_ballot = 64,
  group_non_uniform_shuffle = 65,
  workgroup_memory_explicit_layout = 4428,
  workgroup_memory_explicit_layout_8bit_access = 4429,
  workgroup_memory_explicit_layout_16bit_access = 4430,
  storage_buffer_16bit_access = 4433,
  storage_buffer_8bit_access = 4448,
  signed_zero_inf_nan_preserve = 4466,
  bfloat16_type = 5116,
  bfloat16_cooperative_matrix = 5118,
  vulkan_memory_model = 5345,
  vulkan_memory_model_device_scope = 5346,
  physical_storage_buffer_addresses = 5347,
  cooperative_matrix = 6022
};

enum class storage_class : std::uint32_t {
  uniform_constant = 0,
  input = 1,
  uniform = 2,
  workgroup = 4,
  function = 7,
  push_constant = 9,
  storage_buffer = 12,
  physical_storage_buffer = 5349
};

enum class decoration : std::uint32_t {
  block = 2,
  array_stride = 6,
  built_in = 11,
  restrict_ = 19,
  aliased = 20,
  coherent = 23,
  non_writable = 24,
  binding = 33,
  descriptor_set = 34,
  offset = 35,
  no_contraction = 42
};

enum class built_in : std::uint32_t {
  num_workgroups = 24,
  workgroup_id = 26,
  local_invocation_id = 27,
  global_invocation_id = 28,
  local_invocation_index = 29,
  subgroup_size = 36,
  num_subgroups = 38,
  subgroup_id = 40,
  subgroup_local_invocation_id = 41
};

/// Whom a barrier, an atomic or a group concerns.
enum class scope : std::uint32_t { device = 1, workgroup = 2, subgroup = 3 };

/// What else an atomic orders: an acquire sees what was stored before the release whose value it reads.
enum class memory_order : std::uint32_t { relaxed = 0, acquire = 2, release = 4, acquire_release = 8 };

/// Further bits of memory semantics: which memory, and under the Vulkan memory model what releases and acquires do.
enum memory_semantics : std::uint32_t {
  uniform_memory = 0x40,  // storage buffers
  workgroup_memory = 0x100,
  make_available = 0x2000,
  make_visible = 0x4000
};

/// Of OpMemoryModel, how pointers address memory.
enum addressing_model : std::uint32_t { logical_addressing = 0, physical_storage_buffer_64 = 5348 };

/// Bits of a load's or store's memory operands; all but the first are of the Vulkan memory model.
enum memory_access : std::uint32_t {
  aligned = 2,  // with a number of bytes: asked for where memory is reached by address
  make_pointer_available = 8,
  make_pointer_visible = 16,
  non_private_pointer = 32
};

/// What each invocation gets of an operation over its group.
enum class group_operation : std::uint32_t { reduce = 0, inclusive_scan = 1, exclusive_scan = 2 };

/// Loop control: what the driver's own unroller is told.
enum class unrolling : std::uint32_t { automatic = 0, unroll = 1, keep = 2 };

}  // namespace meganeura::inline MEGANEURA_ABI::spirv
