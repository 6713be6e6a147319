// SPDX-License-Identifier: MIT
// Runs implementation graphs on the device, one dispatch a node, and compares every output with the oracle.
#pragma once
#include <meganeura/graph/graph.hpp>
#include <meganeura/kernels/generate.hpp>
#include <meganeura/kernels/step_values.hpp>
#include <meganeura/runtime/device.hpp>
#include <meganeura/spirv/module.hpp>

#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>
#include <support/shared_device.hpp>
#include <support/spirv_validator.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::support {

device_profile shared_profile();

/// The device's own target, the one of a graphics processor of its subgroup size, and the least that Vulkan guarantees:
/// a software device runs all three.
std::vector<device_profile> all_targets();

/// The elements as memory holds them.
std::vector<std::byte> stored_bytes(const oracle::tensor<double>& values);
/// The tensor that these bytes hold.
oracle::tensor<double> loaded(std::span<const std::byte> bytes, dtype type, const shape& extents);

/// A graph on the device: every node has a buffer of its own, poisoned with NaN before it is written.
class device_graph {
 public:
  device_graph(const graph& g, const device_profile& on, const kernels::step_values& step = {},
               const vulkan::device& device = shared_device());

  oracle::tensors<double> run(const oracle::tensors<double>& leaves);

 private:
  void dispatch(vulkan::recorder& recorder, node_id id);
  /// Where result `index` of a node is stored: the buffer of the node that names it, if one does.
  [[nodiscard]] vulkan::buffer result_buffer(node_id id, std::size_t index) const;

  const graph& graph_;
  device_profile on_;
  vulkan::device device_;
  std::vector<vulkan::buffer> buffers_;
  vulkan::buffer step_;
};

/// All outputs of `g`, on every target and with all buffers by address, against the oracle in f64. `reduction_length`:
/// of the longest sum, for the tolerance; `tolerance`: another one, where it is not 0.
void expect_matches_oracle(const graph& g, const oracle::tensors<double>& leaves, std::int64_t reduction_length = 1,
                           const kernels::step_values& step = {}, double tolerance = 0);

}  // namespace meganeura::inline MEGANEURA_ABI::support
