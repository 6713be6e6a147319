// SPDX-License-Identifier: MIT
// Storage buffers reached by their address: the words that come of any kernel are valid, and say what they need.
#include <meganeura/embedded/shaders.hpp>
#include <meganeura/spirv/by_address.hpp>
#include <meganeura/spirv/cooperative.hpp>
#include <meganeura/spirv/kernel.hpp>
#include <meganeura/vulkan/pipeline.hpp>

#include <support/spirv_limits.hpp>
#include <support/spirv_validator.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <set>
#include <vector>

namespace {

using namespace meganeura::spirv;
using meganeura::support::demands_of;
using meganeura::support::validation_of;
using meganeura::vulkan::device_facts;
using meganeura::vulkan::reason_to_refuse;
using set = std::set<std::uint32_t>;

template <kernel_value T>
meganeura::spirv::module doubled(bool both) {
  kernel k("doubled");
  const auto in = k.storage_buffer<T>("in");
  const auto out = k.storage_buffer<T>("out", access::write);
  out[k.global_id()] = in[k.global_id()].load();
  return reach_by_address(k.finish(), {true, both});
}

TEST(spirv_by_address, elements_of_every_type_validate) {
  for (const bool both : {false, true}) {
    for (const auto& made : {doubled<f32>(both), doubled<f32x4>(both), doubled<u32>(both), doubled<i32x2>(both),
                             doubled<f16>(both), doubled<f16x4>(both), doubled<bf16>(both), doubled<u8>(both),
                             doubled<i8x4>(both), doubled<u16x2>(both), doubled<i16>(both)}) {
      EXPECT_EQ(validation_of(made), "");
      EXPECT_EQ(made.bindings[0], binding_kind::address);
      EXPECT_EQ(made.bindings[1], both ? binding_kind::address : binding_kind::storage_buffer);
      EXPECT_EQ(demands_of(made).storage_bindings, both ? set{} : set{1}) << "the others keep their numbers";
    }
  }
}

TEST(spirv_by_address, a_kernel_without_such_a_buffer_stays_as_it_is) {
  kernel k("plain");
  const auto now = k.declare_uniform_buffer({scalar_kind::f32, 4}, 1, "now");
  const auto out = k.storage_buffer<f32x4>("out", access::write);
  out[0u] = f32x4(untyped::load(untyped::locate(now, u32(0))));
  const meganeura::spirv::module plain = k.finish();
  for (const std::vector<bool>& none : {std::vector<bool>{}, {false, false}, {true, false}}) {  // a uniform buffer
    EXPECT_EQ(reach_by_address(plain, none).words, plain.words);
    EXPECT_EQ(reach_by_address(plain, none).bindings, plain.bindings);
  }
}

TEST(spirv_by_address, views_and_atomics_and_what_others_see_validate) {
  for (const bool vulkan_model : {false, true}) {
    kernel k("exchange");
    if (vulkan_model) k.builder().use_vulkan_memory_model();
    const auto in = k.storage_buffer<f32>("in");
    const auto shared = k.storage_buffer<u32>("shared", access::exchange);
    const auto state = k.storage_buffer<f32>("state", access::read_write);
    const auto fours = k.view<f32x4>(in);
    const auto moved = k.view<u32x2>(state);
    const u32 i = k.global_id();
    k.if_(k.is_last_workgroup(shared[0u], k.workgroup_count()), [&] {
      state[i] = in[i] + fours[i].load()[1] + fours.component(i, 2u);
      moved[i] = moved[i] + u32x2(shared[i].load());
    });
    const meganeura::spirv::module plain = k.finish();
    for (int which = 1; which < 8; ++which) {
      const meganeura::spirv::module made =
          reach_by_address(plain, {(which & 1) != 0, (which & 2) != 0, (which & 4) != 0});
      EXPECT_EQ(validation_of(made), "") << which;
      EXPECT_EQ(validation_of(preserve_special_values(made)), "") << which;
      EXPECT_EQ(validation_of(reach_by_address(preserve_special_values(plain), {true, true, true})), "");
    }
  }
}

// With a spirv-val that knows them.
TEST(spirv_by_address, matrices_validate) {
  kernel k("matrices", {32, 1, 1});
  const auto a = k.storage_buffer<u32x4>("a");
  const auto out = k.storage_buffer<f32>("out", access::write);
  using half = cooperative_matrix<f16>;
  const half x = half::load(a, 0u, 2u, 16, 16, matrix_use::a), y = half::load(a, 32u, 2u, 16, 16, matrix_use::b);
  const auto zero = cooperative_matrix<f32>::fill(k, 16, 16, matrix_use::accumulator, 0.0f);
  multiply_add(x, y, zero).store(out, 0u, 16u);
  EXPECT_EQ(validation_of(reach_by_address(k.finish(), {true, true})), "");
}

TEST(spirv_by_address, a_kernel_from_shaders_validates) {
  meganeura::spirv::module made;
  made.name = "random";
  made.words.assign(std::begin(meganeura::embedded::random), std::end(meganeura::embedded::random));
  made.bindings = {binding_kind::storage_buffer, binding_kind::uniform_buffer};
  made.specialization = {64, 100, 1, 0};
  const meganeura::spirv::module reached = reach_by_address(made, {true, true});
  EXPECT_EQ(validation_of(reached), "");
  EXPECT_EQ(reached.bindings, (std::vector{binding_kind::address, binding_kind::uniform_buffer}));
  EXPECT_EQ(demands_of(reached).storage_bindings, set{});
}

TEST(spirv_by_address, only_a_device_that_has_addresses_runs_them_and_sixteen_at_most) {
  const auto sums = [](int count) {
    kernel k("sums");
    f32 sum = 0;
    for (int i = 1; i < count; ++i) sum = sum + k.storage_buffer<f32>("in")[k.global_id()];
    k.storage_buffer<f32>("out", access::write)[k.global_id()] = sum;
    return reach_by_address(k.finish(), std::vector<bool>(static_cast<std::size_t>(count), true));
  };
  device_facts facts = meganeura::vulkan::minimum_facts();
  EXPECT_EQ(reason_to_refuse(facts, sums(2)), "it needs addresses of buffers (bufferDeviceAddress)");
  facts.has_device_address = true;
  EXPECT_EQ(reason_to_refuse(facts, sums(16)), "") << "they take none of the four storage buffers";
  EXPECT_EQ(reason_to_refuse(facts, sums(17)), "it reaches 17 tensors by address and there is room for 16");
}

}  // namespace
