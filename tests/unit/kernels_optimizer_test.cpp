// SPDX-License-Identifier: MIT
// Optimiser steps on the device against the oracle, over several steps and odd sizes.
#include <meganeura/kernels/optimizer.hpp>
#include <meganeura/runtime/optimizer.hpp>

#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>
#include <support/device_fixture.hpp>
#include <support/shared_device.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

using namespace meganeura;

namespace {

void expect_steps(const optimizer& chosen, std::int64_t count) {
  SCOPED_TRACE(count);
  const vulkan::device& device = support::shared_device();
  const optimizer_attribute rule = chosen.rule();
  graph g;
  const node_id operands[] = {g.parameter("p", dtype::f32, {count}), g.input("g", dtype::f32, {count})};
  g.optimizer_step(rule, operands);
  oracle::interpreter<double> truth(g, {{"p", oracle::random_tensor({count}, 1)}});

  const kernels::kernel_dispatch made = kernels::make_optimizer(rule, count, support::shared_profile());
  EXPECT_EQ(support::validation_of(made.module), "");
  const auto bytes = static_cast<std::uint64_t>(count) * 4;
  std::vector<vulkan::buffer> buffers;
  for (std::size_t i = 0; i < made.module.bindings.size(); ++i)
    buffers.push_back(device.allocate(std::max<std::uint64_t>(bytes, 64)));
  device.upload(buffers[0], 0, std::span<const std::byte>(support::stored_bytes(truth.leaves.at("p"))));
  for (std::size_t i = 2; i + 1 < buffers.size(); ++i)
    device.upload(buffers[i], 0, std::vector<float>(static_cast<std::size_t>(count), 0.0f));
  vulkan::recorder recorder(device);
  std::vector<vulkan::buffer_range> ranges;
  for (std::size_t i = 0; i < buffers.size(); ++i)
    ranges.push_back({buffers[i], 0, i + 1 < buffers.size() ? bytes : 64});
  recorder.dispatch(device.create_pipeline(made.module), ranges, made.groups);
  const vulkan::recording step = recorder.finish();

  for (std::uint32_t number = 1; number <= 4; ++number) {
    truth.step = chosen.step_values(number, 0);
    truth.leaves["g"] = oracle::random_tensor({count}, 10 + number);
    truth.clear();
    device.upload(buffers[1], 0, std::span<const std::byte>(support::stored_bytes(truth.leaves.at("g"))));
    device.upload(buffers.back(), 0, std::vector<kernels::step_values>{truth.step});
    device.submit(step);
    static_cast<void>(truth.run());
    const auto ticket = device.read_back(buffers[0], 0, bytes);
    const auto actual = support::loaded(ticket.data(), dtype::f32, {count});
    EXPECT_LE(oracle::relative_error(actual, truth.leaves.at("p")), oracle::tolerance(dtype::f32)) << "step " << number;
  }
}

TEST(kernels_optimizer, gradient_descent_with_and_without_momentum) {
  for (std::int64_t count : {1, 6, 1000, 4099}) {
    expect_steps(sgd{.learning_rate = 0.05f, .weight_decay = 0.02f}, count);
    expect_steps(sgd{.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 0.02f}, count);
  }
}

TEST(kernels_optimizer, adam_and_adamw) {
  for (std::int64_t count : {1, 6, 1000, 4099}) {
    expect_steps(adam{0.05f, 0.9f, 0.99f, 1e-6f, 0.02f}, count);
    expect_steps(adamw{0.05f, 0.9f, 0.99f, 1e-6f, 0.02f}, count);
  }
}

}  // namespace
