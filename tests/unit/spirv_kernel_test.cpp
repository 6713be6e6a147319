// SPDX-License-Identifier: MIT
// The kernel language: every feature makes a module that the SPIR-V validator accepts, and misuse is refused.
#include <meganeura/core/float_format.hpp>
#include <meganeura/spirv/cooperative.hpp>
#include <meganeura/spirv/kernel.hpp>

#include <support/spirv_validator.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cstddef>

namespace {

using namespace meganeura::spirv;
using meganeura::support::validation_of;

std::size_t count(const meganeura::spirv::module& m, op code) {
  std::size_t found = 0;
  for (std::size_t i = 5; i < m.words.size(); i += m.words[i] >> 16)
    found += (m.words[i] & 0xffffu) == static_cast<word>(code);
  return found;
}

TEST(spirv_kernel, a_kernel_that_preserves_special_values_validates) {
  kernel k("special_values");
  const auto out = k.storage_buffer<f32>("out", access::write);
  out[k.global_id()] = f32(1.0f);
  const meganeura::spirv::module plain = k.finish();
  const meganeura::spirv::module kept = preserve_special_values(plain);
  EXPECT_EQ(validation_of(kept), "");
  EXPECT_EQ(count(kept, op::capability), count(plain, op::capability) + 1);
  EXPECT_EQ(count(kept, op::execution_mode), count(plain, op::execution_mode) + 1);
  EXPECT_EQ(count(kept, op::extension), count(plain, op::extension) + 1);
  EXPECT_TRUE(kept.needs_special_values && !plain.needs_special_values);
}

TEST(spirv_kernel, integer_operators_validate) {
  kernel k("integers");
  const auto in = k.storage_buffer<i32>("in");
  const auto out = k.storage_buffer<i32>("out", access::write);
  const u32 i = k.global_id();
  const i32 x = in[i];
  const i32 y = in[i + 1];
  i32 r = (x + y) * (x - y) / max(abs(y), 1) % 7 + (x & y) + (x | 3) + (x ^ y) + (x << 2) + (x >> 1) + -x + ~y +
          sign(x) + min(x, y);
  r = select((x < y && x <= 4) || (x > y && !(x >= 9)), r, select(x == y, i32(1), r) + select(x != 5, i32(2), y));
  out[i] = r + bitcast<i32>(bit_count(bitcast<u32>(r)) + multiply_extended(i, 0xD2511F53u)[1]);
  EXPECT_EQ(validation_of(k.finish()), "");
}

TEST(spirv_kernel, float_functions_validate) {
  kernel k("floats");
  const auto in = k.storage_buffer<f32>("in");
  const auto out = k.storage_buffer<f32>("out", access::write);
  const u32 i = k.global_id();
  const f32 x = in[i];
  f32 y = exp(x) + exp2(x) + log(x) + log2(x) + sqrt(x) + rsqrt(x) + tanh(x) + sin(x) + cos(x) + pow(x, 2.5f);
  y = y + floor(x) + ceil(x) + round(x) + trunc(x) + fma(x, y, 1.0f) + min(x, y) + max(x, 0.0f) + abs(x) + sign(x) -
      x / 3;
  y = select(is_nan(y) || is_inf(y), f32(0), y) + convert<f32>(convert<i32>(x)) + convert<f32>(convert<u32>(x)) +
      convert<f32>(x > 0.0f);
  const f32x2 halves = unpack_half(pack_half(vector(x, y)));
  out[i] = y + halves[0] * bitcast<f32>(bitcast<u32>(halves[1]) + 1);
  EXPECT_EQ(validation_of(k.finish()), "");
}

TEST(spirv_kernel, vectors_and_views_of_one_binding_validate) {
  kernel k("views");
  const auto in = k.storage_buffer<f32>("in");
  const auto in4 = k.view<f32x4>(in);
  const auto out = k.storage_buffer<f32>("out", access::write);
  const auto out4 = k.view<f32x4>(out);
  const u32 i = k.global_id();
  const f32x4 v = in4[i] * in[i] + 1.0f;
  out4[i] = max(v, 0.0f) + vector(v[3], v[2], v[1], f32(4)) + tanh(v);
  out4.component(i, i & 3u) = v[0];
  out[i + 4] += 1.0f;
  const auto m = k.finish();
  EXPECT_EQ(validation_of(m), "");
  EXPECT_EQ(m.bindings.size(), 2u);
}

TEST(spirv_kernel, half_buffers_validate) {
  kernel k("halves");
  const auto in = k.storage_buffer<f16x4>("in");
  const auto words = k.view<u32x2>(in);
  const auto out = k.storage_buffer<f16>("out", access::write);
  const auto staged = k.shared<f16>(64);
  const u32 i = k.local_index();
  staged[i] = in[i][1] * f16(0.1f) + exp(in[i][2]);
  k.barrier();
  out[i] = convert<f16>(convert<f32>(staged[i ^ 1u].load())) + bitcast<f16x2>(words[i].load()[0])[1];
  const auto m = k.finish();
  EXPECT_EQ(validation_of(m), "");
  EXPECT_TRUE(m.needs_f16 && m.needs_16bit_storage);
  EXPECT_EQ(m.shared_bytes, 128u);
}

TEST(spirv_kernel, control_flow_validates) {
  kernel k("control");
  const auto out = k.storage_buffer<f32>("out", access::read_write);
  const u32 i = k.global_id();
  const auto sum = k.variable<f32>(0.0f);
  const auto steps = k.variable<u32>(0u);
  const auto ring = k.local_array<f32>(4);
  k.for_(i & 7u, i, 2, [&](u32 j) {
    ring[j & 3u] = convert<f32>(j);
    k.if_(
        j % 3u == 0u, [&] { sum += ring[(j + 1) & 3u]; }, [&] { k.if_(j > 5u, [&] { sum = sum * 0.5f; }); });
    k.for_(j, [&](u32 l) { sum += out[l]; });
  });
  k.while_([&] { return steps * 2u < i && sum < 10.0f; },
           [&] {
             steps += 1u;
             sum += sin(sum);
           });
  out[i] = sum + convert<f32>(steps.load());
  EXPECT_EQ(validation_of(k.finish()), "");
}

TEST(spirv_kernel, subgroup_operations_validate) {
  kernel k("subgroups", {8, 4, 1});
  const auto out = k.storage_buffer<f32>("out", access::write);
  const auto counters = k.storage_buffer<u32>("counters", access::read_write);
  const f32 x = convert<f32>(k.local_id(1) + k.workgroup_id(2) * k.workgroup_count(0));
  f32 y = k.subgroup_add(x) + k.subgroup_max(x) * k.subgroup_min(x) - k.subgroup_multiply(x);
  y = y + k.subgroup_shuffle_xor(x, 1) + k.subgroup_shuffle(x, k.subgroup_lane() / 2) + k.subgroup_broadcast(x, 3);
  y = y + k.subgroup_inclusive_add(x) + k.subgroup_exclusive_add(x) + k.subgroup_broadcast_first(x);
  const u32x4 ballot = k.subgroup_ballot(k.subgroup_elect());
  y = y +
      convert<f32>(k.subgroup_ballot_count(ballot) + k.subgroup_ballot_count(ballot, group_operation::exclusive_scan));
  const u32 n = k.subgroup_add(k.subgroup_size()) + k.subgroup_id() * k.subgroup_count();
  const u32 before = counters[n].atomic_add(1) + counters[0].atomic_max(n) + counters[1].atomic_min(n) +
                     counters[2].atomic_compare_exchange(1, n);
  k.if_(k.subgroup_any(x > 1.0f) && !k.subgroup_all(x > 2.0f), [&] { out[before] = y; });
  k.barrier(true);
  const auto m = k.finish();
  EXPECT_EQ(validation_of(m), "");
  EXPECT_FALSE(m.needs_subgroup_extended_types);
  EXPECT_EQ(m.subgroup_operations, meganeura::spirv::subgroup_basic | meganeura::spirv::subgroup_vote |
                                       meganeura::spirv::subgroup_arithmetic | meganeura::spirv::subgroup_ballot |
                                       meganeura::spirv::subgroup_shuffle);
}

// The sum of what 16 invocations of each workgroup give, by the workgroup that comes last.
meganeura::spirv::module sum_of_workgroups(bool vulkan_memory_model) {
  kernel k("last_workgroup", {16, 1, 1});
  if (vulkan_memory_model) k.builder().use_vulkan_memory_model();
  const auto parts = k.storage_buffer<u32>("parts", access::exchange);
  const auto pairs = k.view<u32x2>(parts);
  const auto arrived = k.storage_buffer<u32>("arrived", access::read_write);
  parts[k.global_id()] = k.global_id();
  k.if_(k.is_last_workgroup(arrived[0], k.workgroup_count()), [&] { parts[0] = pairs[1].load()[0]; });
  return k.finish();
}

TEST(spirv_kernel, memory_that_workgroups_exchange_validates_in_both_memory_models) {
  const auto decorations = [](const meganeura::spirv::module& m, decoration what) {
    std::size_t found = 0;
    for (std::size_t i = 5; i < m.words.size(); i += m.words[i] >> 16)
      found += (m.words[i] & 0xffffu) == static_cast<word>(op::decorate) && m.words[i + 2] == static_cast<word>(what);
    return found;
  };
  for (const bool vulkan : {false, true}) {
    const auto m = sum_of_workgroups(vulkan);
    EXPECT_EQ(validation_of(m), "");
    EXPECT_TRUE(m.needs_device_scope);
    EXPECT_EQ(decorations(m, decoration::coherent), vulkan ? 0u : 2u);
    EXPECT_EQ(count(m, op::control_barrier), 2u);
  }
}

TEST(spirv_kernel, atomics_of_every_order_validate_in_both_memory_models) {
  for (const bool vulkan : {false, true}) {
    kernel k("atomics");
    if (vulkan) k.builder().use_vulkan_memory_model();
    const auto out = k.storage_buffer<u32>("out", access::exchange);
    const auto numbers = k.shared<i32>(4);
    for (const memory_order order :
         {memory_order::relaxed, memory_order::acquire, memory_order::release, memory_order::acquire_release}) {
      const u32 found = out[0].atomic_add(1, order) + out[1].atomic_and(2, order) + out[2].atomic_or(3, order) +
                        out[3].atomic_xor(4, order) + out[4].atomic_exchange(5, order) +
                        out[5].atomic_compare_exchange(6, 7, order) + out[6].atomic_max(1, order);
      numbers[k.local_index() & 3u] = bitcast<i32>(found) + numbers[0].atomic_min(1, order);
    }
    numbers[0].atomic_store(numbers[1].atomic_load(memory_order::acquire), memory_order::release);
    out[7].atomic_store(out[8].atomic_load(memory_order::acquire), memory_order::release);
    EXPECT_THROW((void)out[0].atomic_load(memory_order::release), meganeura::error);
    EXPECT_THROW(out[0].atomic_store(1, memory_order::acquire_release), meganeura::error);
    if (!vulkan) {
      EXPECT_THROW(k.builder().use_vulkan_memory_model(), meganeura::error);
    }
    EXPECT_EQ(validation_of(k.finish()), "");
  }
}

TEST(spirv_kernel, narrow_values_in_subgroups_say_so) {
  kernel k("narrow_subgroups");
  const auto out = k.storage_buffer<f16>("out", access::write);
  out[k.global_id()] = k.subgroup_inclusive_add(convert<f16>(k.local_index()));
  const auto m = k.finish();
  EXPECT_EQ(validation_of(m), "");
  EXPECT_TRUE(m.needs_subgroup_extended_types);
}

TEST(spirv_kernel, texel_buffers_validate) {
  kernel k("texels");
  const auto in = k.texels("in");
  const auto out = k.storage_buffer<f32x4>("out", access::write);
  const u32 i = k.global_id();
  k.for_(4, [&](u32 j) { out[i * 4 + j] = in[i] + in[i * 4 + j]; });
  const auto m = k.finish();
  EXPECT_EQ(validation_of(m), "");
  ASSERT_EQ(m.bindings.size(), 2u);
  EXPECT_EQ(m.bindings[0], binding_kind::uniform_texel_buffer);
  EXPECT_EQ(m.bindings[1], binding_kind::storage_buffer);
}

TEST(spirv_kernel, cooperative_matrices_declare_their_needs) {
  kernel k("cooperative", {32, 1, 1});
  const auto c0 = cooperative_matrix<f32>::fill(k, 16, 16, matrix_use::accumulator, 0.0f);
  const cooperative_variable<f32> sum(c0);
  const auto a = k.storage_buffer<f16>("a");
  const auto out = k.storage_buffer<f32>("out", access::write);
  const auto staged = k.shared<u32x4>(64);
  staged[k.local_index()] = u32x4(u32(1));
  k.barrier();
  k.for_(0, 64, 16, [&](u32 i) {
    const auto ma = cooperative_matrix<f16>::load(a, i, 64, 16, 16, matrix_use::a);
    const auto mb = cooperative_matrix<f16>::load(staged, 0, 2, 16, 16, matrix_use::b, matrix_layout::column_major);
    sum.store(multiply_add(ma, mb, sum.load()));
  });
  (sum.load() * f32(0.5f) + c0).store(out, 0, 16);
  const auto m = k.finish();
  EXPECT_EQ(validation_of(m), "");
  EXPECT_TRUE(m.needs_cooperative_matrix);
  EXPECT_EQ(m.words[1], 0x00010600u);
  EXPECT_EQ(count(m, op::cooperative_matrix_mul_add), 1u);
}

TEST(spirv_kernel, arrays_of_workgroup_memory_begin_at_multiples_of_16_bytes) {
  for (const bool explicit_layout : {false, true}) {
    kernel k("alignment", {32, 1, 1});
    if (explicit_layout) k.use_explicit_workgroup_layout();
    const auto flag = k.shared<u32>(1);
    EXPECT_EQ(k.shared_bytes(), 16u);
    const auto halves = k.shared<f16x2>(5);
    EXPECT_EQ(k.shared_bytes(), 48u);
    const auto pairs = k.shared<u32x2>(3);
    EXPECT_EQ(k.shared_bytes(), 80u);
    EXPECT_THROW((void)flag[1], meganeura::error);
    flag[0] = pairs[2].load()[1] + bitcast<u32>(halves[4].load());
    EXPECT_EQ(validation_of(k.finish()), "");
  }
}

TEST(spirv_kernel, views_of_workgroup_memory_validate_in_both_memory_models) {
  for (const bool explicit_layout : {false, true}) {
    for (const bool vulkan : {false, true}) {
      kernel k("workgroup_views", {32, 1, 1});
      if (vulkan) k.builder().use_vulkan_memory_model();
      if (explicit_layout) k.use_explicit_workgroup_layout();
      const auto out = k.storage_buffer<f32>("out", access::write);
      const auto flags = k.shared<u32>(1);
      const auto staged = k.shared<u32x4>(16);
      const auto numbers = k.view<f32>(staged);
      const auto fours = k.view<f32x4>(staged);
      flags[0].atomic_store(1);
      staged[k.local_index() & 15u] = u32x4(k.local_index());
      k.barrier();
      fours.component(k.local_index() & 15u, 3) = numbers[k.local_index()] + fours[2].load()[0];
      (void)k.view<u32>(staged)[5].atomic_add(1);
      EXPECT_THROW((void)numbers[64], meganeura::error);
      EXPECT_THROW((void)k.view<u32x2>(flags), meganeura::error);
      if (explicit_layout) {
        k.view<f16>(staged)[3] = f16(1.0f);
        k.view<u8x4>(staged)[3] = convert<u8x4>(k.view<u32x4>(staged)[2].load());
        out[0] = convert<f32>(k.view<bf16>(staged)[127].load());
      } else {
        EXPECT_THROW((void)k.view<f16>(staged), meganeura::error);
        EXPECT_THROW((void)k.view<u32x2>(staged), meganeura::error);
        EXPECT_THROW((void)k.view<i32>(staged)[0].atomic_add(1), meganeura::error);
        EXPECT_THROW(k.use_explicit_workgroup_layout(), meganeura::error);
      }
      const auto m = k.finish();
      EXPECT_EQ(validation_of(m), "");
      EXPECT_EQ(m.shared_bytes, 272u);
      EXPECT_EQ(m.needs_workgroup_layout, explicit_layout);
      EXPECT_EQ(m.words[1], vulkan ? 0x00010600u : explicit_layout ? 0x00010400u : 0x00010300u);
      EXPECT_FALSE(m.needs_int8 || m.needs_int16);
    }
  }
}

// Every operation that a matrix of T has.
template <class T>
void compute_on_matrices(kernel& k, const memory<u32>& out) {
  const auto load = [&] { return cooperative_matrix<T>::fill(k, 16, 16, matrix_use::accumulator, T(3)); };
  const cooperative_variable<T> x(load());
  x.set_component(0, x.component(1));
  x.store(-(x.load() * T(2) + load()) * load() / load() - x.load());
  k.if_(k.local_index() < x.length(), [&] { out[k.local_index()] = convert<u32>(x.component(0)); });
}

TEST(spirv_kernel, arithmetic_on_matrices_validates) {
  kernel k("matrix_arithmetic", {32, 1, 1});
  const auto zero = cooperative_matrix<f32>::fill(k, 16, 16, matrix_use::accumulator, 0.0f);
  const auto out = k.storage_buffer<u32>("out", access::write);
  compute_on_matrices<f32>(k, out);
  compute_on_matrices<f16>(k, out);
  compute_on_matrices<u32>(k, out);
  compute_on_matrices<i16>(k, out);
  (void)convert<f16>(zero);
  const auto bytes = cooperative_matrix<u8>::fill(k, 16, 16, matrix_use::a, u8(7));
  (void)convert<u16>(convert<i32>(bytes) + convert<i32>(convert<i8>(bytes)));
  (void)convert<i16>(convert<u32>(convert<i8>(bytes)));
  const auto m = k.finish();
  EXPECT_EQ(validation_of(m), "");
  EXPECT_TRUE(m.needs_int8 && m.needs_int16 && m.needs_f16);
}

TEST(spirv_kernel, products_of_bf16_and_of_bytes_validate) {
  kernel k("matrix_products", {32, 1, 1});
  k.use_bfloat16();
  const auto floats = cooperative_matrix<f32>::fill(k, 16, 16, matrix_use::accumulator, 0.0f);
  const auto integers = cooperative_matrix<i32>::fill(k, 16, 16, matrix_use::accumulator, 0);
  const auto in = k.storage_buffer<bf16>("in");
  const auto out = k.storage_buffer<bf16>("out", access::write);
  const auto staged = k.shared<bf16x4>(64);
  staged[k.local_index()] = vector(in[0].load(), in[1].load(), bf16(0.1f), convert<bf16>(k.global_id()));
  k.barrier();
  const auto a = cooperative_matrix<bf16>::load(in, 0, 16, 16, 16, matrix_use::a);
  const auto b = cooperative_matrix<bf16>::load(staged, 0, 4, 16, 16, matrix_use::b);
  const cooperative_variable<bf16> sum(convert<bf16>(multiply_add(a, b, floats)));
  sum.set_component(0, convert<bf16>(convert<f32>(sum.component(1)) * 2.0f));
  sum.load().store(out, 0, 16);
  const auto bytes = k.storage_buffer<i8>("bytes");
  const auto words = k.storage_buffer<i32>("words", access::write);
  const auto left = cooperative_matrix<i8>::load(bytes, 0, 16, 16, 16, matrix_use::a);
  const auto right = cooperative_matrix<i8>::load(bytes, 256, 16, 16, 16, matrix_use::b);
  multiply_add(left, right, integers).store(words, 0, 16);
  EXPECT_THROW((void)untyped::matrix_negate(sum.load()), meganeura::error);
  const auto m = k.finish();
  EXPECT_EQ(validation_of(m), "");
  EXPECT_TRUE(m.needs_bf16 && m.needs_16bit_storage && m.needs_8bit_storage && m.needs_int8 && !m.needs_f16);
  kernel without("matrix_without_bf16", {32, 1, 1});
  EXPECT_THROW((void)cooperative_matrix<bf16>::fill(without, 16, 16, matrix_use::a, bf16(0)), meganeura::error);
}

// Out of what is in memory, by way of a number, into all other kinds.
template <class From, class... To>
void convert_from(kernel& k, const memory<From>& in, const memory<To>&... out) {
  const u32 i = k.global_id();
  (static_cast<void>(out[i] = convert<To>(in[i].load())), ...);
}

TEST(spirv_kernel, narrow_numbers_are_converted_without_arithmetic_of_theirs) {
  for (const bool has_bf16 : {false, true}) {
    kernel k("conversions");
    if (has_bf16) k.use_bfloat16();
    const auto a = k.storage_buffer<u8>("a", access::read_write);
    const auto b = k.storage_buffer<i8>("b", access::read_write);
    const auto c = k.storage_buffer<u16>("c", access::read_write);
    const auto d = k.storage_buffer<i16>("d", access::read_write);
    const auto e = k.storage_buffer<bf16>("e", access::read_write);
    const auto f = k.storage_buffer<f32>("f", access::read_write);
    const auto g = k.storage_buffer<i32>("g", access::read_write);
    convert_from(k, a, b, c, d, e, f, g), convert_from(k, b, a, c, d, e, f, g), convert_from(k, c, a, b, d, e, f, g);
    convert_from(k, d, a, b, c, e, f, g), convert_from(k, e, a, b, c, d, f, g), convert_from(k, f, a, b, c, d, e, g);
    convert_from(k, g, a, b, c, d, e, f);
    k.if_(convert<boolean>(a[0].load()), [&] { b[0] = convert<i8>(f[0].load() > 0.0f); });
    a[1] = u8(255), b[1] = i8(-128), c[1] = u16(65535), d[1] = i16(-1), e[1] = bf16(0.1f);
    EXPECT_THROW(k.use_bfloat16(), meganeura::error);
    const auto m = k.finish();
    EXPECT_EQ(validation_of(m), "");
    EXPECT_FALSE(m.needs_int8 || m.needs_int16);
    EXPECT_EQ(m.needs_bf16, has_bf16);
  }
}

TEST(spirv_kernel, arithmetic_of_narrow_integers_says_so) {
  kernel k("bytes");
  const auto in = k.storage_buffer<u8x4>("in");
  const auto out = k.storage_buffer<u8>("out", access::write);
  const auto staged = k.shared<i8>(64);
  const u8 x = in[k.global_id()].load()[1];
  staged[k.local_index()] = bitcast<i8>(max(x * u8(3) + x / 3 - x % 7, ~x) >> 1);
  k.barrier();
  out[k.global_id()] = select(x < 4, x, bitcast<u8>(abs(-staged[0].load())));
  const auto m = k.finish();
  EXPECT_EQ(validation_of(m), "");
  EXPECT_TRUE(m.needs_int8 && m.needs_8bit_storage && !m.needs_int16);
}

TEST(spirv_kernel, narrow_literals_wrap_around_and_are_checked) {
  EXPECT_EQ((u8(200) + u8(100)).bits, 44u);
  EXPECT_EQ((-u8(1)).bits, 255u);
  EXPECT_EQ((~u16(0)).bits, 65535u);
  EXPECT_EQ((i8(100) + i8(100)).bits, static_cast<word>(-56));
  EXPECT_EQ(convert<i8>(i32(200)).bits, static_cast<word>(-56));
  EXPECT_EQ(convert<u8>(f32(3.7f)).bits, 3u);
  EXPECT_EQ(convert<f32>(bf16(0.1f)).bits, 0x3dcd0000u);
  EXPECT_EQ(convert<f32>(convert<f16>(f32(0.1f))).bits, std::bit_cast<word>(0.0999755859375f));
  EXPECT_TRUE((i8(-1) < i8(0)).bits != 0 && (u8(255) > u8(0)).bits != 0);
  EXPECT_THROW((void)u8(256), meganeura::error);
  EXPECT_THROW((void)i8(-129), meganeura::error);
  EXPECT_THROW((void)i16(32768), meganeura::error);
}

TEST(spirv_kernel, literal_index_arithmetic_emits_nothing) {
  kernel k("folding");
  const auto out = k.storage_buffer<u32>("out", access::write);
  const u32 i = k.global_id();
  out[i] = ((i * 1 + 0) / 1 + i % 1 + i * 0) + ((u32(6) * 7 - 40) / 2 - 1);
  const auto m = k.finish();
  EXPECT_EQ(validation_of(m), "");
  for (const op code : {op::i_mul, op::u_div, op::u_mod, op::i_add, op::i_sub}) EXPECT_EQ(count(m, code), 0u);
}

TEST(spirv_kernel, division_by_a_power_of_two_is_a_shift) {
  kernel k("shifts");
  const auto out = k.storage_buffer<u32>("out", access::write);
  const u32 i = k.global_id();
  out[i] = i / 8 + i % 16 + i * 4;
  const auto m = k.finish();
  EXPECT_EQ(count(m, op::u_div) + count(m, op::u_mod) + count(m, op::i_mul), 0u);
  EXPECT_EQ(count(m, op::shift_right_logical), 1u);
  EXPECT_EQ(count(m, op::bitwise_and), 1u);
}

TEST(spirv_kernel, equal_computations_are_emitted_once_in_scope) {
  kernel k("reuse");
  const auto out = k.storage_buffer<f32>("out", access::write);
  const u32 i = k.global_id();
  const f32 x = convert<f32>(i);
  out[i] = x * 3.0f + convert<f32>(i) * 3.0f;
  k.if_(i < 5u, [&] { out[i] = sqrt(x); });
  k.if_(i > 9u, [&] { out[i] = sqrt(x); });  // the first square root does not dominate this one
  const auto m = k.finish();
  EXPECT_EQ(validation_of(m), "");
  EXPECT_EQ(count(m, op::f_mul), 1u);
  EXPECT_EQ(count(m, op::ext_inst), 2u);
}

TEST(spirv_kernel, loops_of_one_pass_and_literal_conditions_leave_no_branch) {
  kernel k("straight");
  const auto out = k.storage_buffer<u32>("out", access::write);
  k.for_(0, 8, 8, [&](u32 i) { out[i] = k.global_id(); });
  k.for_(8, 8, 1, [&](u32 i) { out[i] = 1u; });
  k.if_(
      true, [&] { out[1] = 2u; }, [&] { out[2] = 3u; });
  const auto m = k.finish();
  EXPECT_EQ(validation_of(m), "");
  EXPECT_EQ(count(m, op::branch) + count(m, op::branch_conditional), 0u);
  EXPECT_EQ(count(m, op::store), 2u);
}

TEST(spirv_kernel, precise_marks_operations_against_contraction) {
  kernel k("precise");
  const auto out = k.storage_buffer<f32>("out", access::write);
  const f32 x = convert<f32>(k.global_id());
  k.precise([&] { out[0] = x * x - x; });
  const auto m = k.finish();
  EXPECT_EQ(validation_of(m), "");
  std::size_t marked = 0;
  for (std::size_t i = 5; i < m.words.size(); i += m.words[i] >> 16) {
    marked += (m.words[i] & 0xffffu) == static_cast<word>(op::decorate) &&
              m.words[i + 2] == static_cast<word>(decoration::no_contraction);
  }
  EXPECT_EQ(marked, 2u);
}

TEST(spirv_kernel, misuse_is_refused) {
  kernel k("misuse");
  const auto in = k.storage_buffer<f32>("in");
  const auto tile = k.shared<f32>(4);
  EXPECT_THROW(in.store(0, 1.0f), meganeura::error);
  EXPECT_THROW((void)tile[4], meganeura::error);
  EXPECT_THROW((void)(k.global_id() / 0), meganeura::error);
  EXPECT_THROW((void)u32(-1), meganeura::error);
  f32 leaked;
  k.if_(k.global_id() < 1u, [&] { leaked = in[0] * 2.0f; });
  EXPECT_THROW(tile.store(0, leaked), meganeura::error);
  kernel other("other");
  EXPECT_THROW(tile.store(other.local_index(), 0.0f), meganeura::error);
  (void)k.finish();
  EXPECT_THROW((void)k.finish(), meganeura::error);
}

TEST(spirv_kernel, half_literals_round_to_nearest_even) {
  EXPECT_EQ(meganeura::float_format(meganeura::dtype::f16).encode(1.0f), 0x3c00);
  EXPECT_EQ(meganeura::float_format(meganeura::dtype::f16).encode(-2.0f), 0xc000);
  EXPECT_EQ(meganeura::float_format(meganeura::dtype::f16).encode(0.1f), 0x2e66);
  EXPECT_EQ(meganeura::float_format(meganeura::dtype::f16).encode(65504.0f), 0x7bff);
  EXPECT_EQ(meganeura::float_format(meganeura::dtype::f16).encode(65519.0f), 0x7bff);
  EXPECT_EQ(meganeura::float_format(meganeura::dtype::f16).encode(65520.0f), 0x7c00);
  EXPECT_EQ(meganeura::float_format(meganeura::dtype::f16).encode(5.9604645e-8f), 0x0001);
  EXPECT_EQ(meganeura::float_format(meganeura::dtype::f16).encode(2048.0f + 1.0f), 0x6800);
}

}  // namespace
