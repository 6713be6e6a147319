// SPDX-License-Identifier: MIT
// What goes into programs and what they hold, as the oracle has it and as bytes.
#pragma once
#include <meganeura/runtime/training.hpp>

#include <oracle/tensor.hpp>
#include <support/device_fixture.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::support {

/// Gives every input of `g` its value of `leaves`.
inline void set_inputs(program& run, const graph& g, const oracle::tensors<double>& leaves) {
  for (node_id id : g.leaves(op::input)) {
    const std::string& name = g.get<leaf_attribute>(id).name;
    run.set_input(name, g[id].type, stored_bytes(leaves.at(name)));
  }
}

/// All parameters and states, f32.
inline oracle::tensors<double> leaves_of(const parameters& weights) {
  oracle::tensors<double> leaves;
  for (const plan::named_tensor& each : weights.layout().tensors) {
    const std::vector<float> values = weights.get(each.name);
    leaves[each.name] = oracle::tensor<double>(each.extents, std::vector<double>(values.begin(), values.end()));
  }
  return leaves;
}

/// All parameters, states and moments, byte by byte.
inline std::vector<std::byte> everything(const training& run) {
  std::vector<std::byte> bytes;
  const auto append = [&](const std::vector<std::byte>& more) { bytes.insert(bytes.end(), more.begin(), more.end()); };
  for (const plan::named_tensor& each : run.parameters().layout().tensors)
    append(run.parameters().get_bytes(each.name));
  for (const plan::named_range& each : run.moments().list()) append(run.moments().read(each));
  return bytes;
}

}  // namespace meganeura::inline MEGANEURA_ABI::support
