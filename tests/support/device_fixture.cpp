// SPDX-License-Identifier: MIT
// Bytes of tensors, a graph node by node on the device.
#include <meganeura/spirv/kernel.hpp>

#include <gtest/gtest.h>
#include <oracle/tolerance.hpp>
#include <support/device_fixture.hpp>

#include <bit>
#include <cstring>

namespace meganeura::inline MEGANEURA_ABI::support {

device_profile shared_profile() { return make_device_profile(shared_device().facts()); }

std::vector<device_profile> all_targets() {
  std::vector<device_profile> targets{shared_profile()};
  device_profile hardware = targets[0];
  hardware.prefers_texel_buffers = false;
  targets.push_back(hardware);
  targets.push_back(make_device_profile(vulkan::weaker(shared_device().facts(), vulkan::minimum_facts())));
  return targets;
}

std::vector<std::byte> stored_bytes(const oracle::tensor<double>& values) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(values.extents.bytes(values.type)));
  const auto size = static_cast<std::size_t>(storage_bytes(values.type, 1));
  for (std::size_t i = 0; i < values.values.size(); ++i) {
    const std::uint32_t word = oracle::bits_of_value(values.values[i], values.type);
    std::memcpy(bytes.data() + i * size, &word, size);
  }
  return bytes;
}

oracle::tensor<double> loaded(std::span<const std::byte> bytes, dtype type, const shape& extents) {
  oracle::tensor<double> result(extents, type);
  const auto size = static_cast<std::size_t>(storage_bytes(type, 1));
  for (std::size_t i = 0; i < result.values.size(); ++i) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes.data() + i * size, size);
    result.values[i] = oracle::value_of_bits(word, type);
  }
  return result;
}

device_graph::device_graph(const graph& g, const device_profile& on, const kernels::step_values& step,
                           const vulkan::device& device)
    : graph_(g), on_(on), device_(device), buffers_(g.size()) {
  step_ = device_.allocate(sizeof step);
  device_.upload(step_, 0, std::vector<kernels::step_values>{step});
}

oracle::tensors<double> device_graph::run(const oracle::tensors<double>& leaves) {
  oracle::interpreter<double> truth(graph_, leaves);
  vulkan::recorder recorder(device_);
  for (node_id id{0}; id < graph_.size(); ++id) {
    const node& n = graph_[id];
    const std::size_t bytes = static_cast<std::size_t>(n.extents.bytes(n.type));
    buffers_[id] = device_.allocate(std::max<std::size_t>(bytes, 4));
    if (info(n.kind).arity == 0 && !info(n.kind).runs) {
      device_.upload(buffers_[id], 0, std::span<const std::byte>(stored_bytes(truth.value(id))));
    } else {
      device_.upload(buffers_[id], 0, std::vector<std::byte>(bytes, std::byte{0xff}));
    }
  }
  for (node_id id{0}; id < graph_.size(); ++id) {
    if (info(graph_[id].kind).runs) dispatch(recorder, id);
  }
  device_.submit(recorder.finish());
  oracle::tensors<double> results;
  for (const graph_output& output : graph_.outputs()) {
    const node& n = graph_[output.node];
    const auto ticket = device_.read_back(buffers_[output.node]);
    results[output.name] = loaded(ticket.data(), n.type, n.extents);
  }
  return results;
}

vulkan::buffer device_graph::result_buffer(node_id id, std::size_t index) const {
  if (!graph_.has_several_results(id)) return buffers_[id];
  for (node_id other{0}; other < graph_.size(); ++other) {
    if (graph_[other].kind == op::result && graph_.operand(other, 0) == id &&
        graph_.get<result_attribute>(other).index == index)
      return buffers_[other];
  }
  const tensor_spec unnamed = graph_.results(id).at(index);
  return device_.allocate(static_cast<std::size_t>(unnamed.extents.bytes(unnamed.type)));
}

void device_graph::dispatch(vulkan::recorder& recorder, node_id id) {
  const kernels::kernel_dispatch made = kernels::generate(graph_, id, on_);
  EXPECT_EQ(validation_of(made.module), "") << made.module.name;
  std::vector<vulkan::buffer_range> ranges;
  for (node_id operand : graph_.operands(id)) ranges.push_back({buffers_[operand], 0, 0});
  for (std::size_t i = 0; i < graph_.results(id).size(); ++i) ranges.push_back({result_buffer(id, i), 0, 0});
  if (made.module.bindings.size() > ranges.size()) ranges.push_back({step_, 0, 0});
  recorder.dispatch(device_.create_pipeline(made.module), ranges, made.groups);
  recorder.barrier();
}

void expect_matches_oracle(const graph& g, const oracle::tensors<double>& leaves, std::int64_t reduction_length,
                           const kernels::step_values& step, double tolerance) {
  oracle::tensors<double> expected = oracle::interpreter<double>(g, leaves, step).run();
  const auto expect_agreement = [&](const vulkan::device& gpu, const device_profile& on, const std::string& target) {
    const oracle::tensors<double> actual = device_graph(g, on, step, gpu).run(leaves);
    for (const auto& [name, want] : expected) {
      const double worst = oracle::relative_error(actual.at(name), want);
      EXPECT_LE(worst, tolerance != 0 ? tolerance : oracle::tolerance(want.type, reduction_length))
          << name << ", target " << target;
    }
  };
  int number = 0;
  for (const device_profile& on : all_targets()) expect_agreement(shared_device(), on, std::to_string(number++));
  const vulkan::device& far = shared_address_device();
  expect_agreement(far, make_device_profile(far.facts()), "by address");
}

}  // namespace meganeura::inline MEGANEURA_ABI::support
