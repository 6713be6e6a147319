// SPDX-License-Identifier: MIT
// What a family of kernels is to the rest of the library: the generator of a kind of node.
#pragma once
#include <meganeura/core/device_profile.hpp>
#include <meganeura/graph/graph.hpp>
#include <meganeura/kernels/dispatch.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// The operand in whose memory each result is stored, if any; empty: every result has memory of its own.
using operand_of_result = std::span<const std::optional<std::size_t>>;

/// A node whose kernel is asked for. Generators read what its functions give, by which steps with equal kernels are
/// known before one is generated (`read_by_generators`), and nothing else of the graph.
struct kernel_request {
  const graph& nodes;
  node_id id;
  const device_profile& on;
  operand_of_result overwritten;

  template <class Attribute>
  [[nodiscard]] const Attribute& get() const {
    return nodes.get<Attribute>(id);
  }
  [[nodiscard]] dtype type() const { return nodes[id].type; }  // of the result
  [[nodiscard]] const shape& extents() const { return nodes[id].extents; }
  /// Whether an operand of a product is one.
  [[nodiscard]] bool is_parameter(std::size_t operand) const {
    return nodes[nodes.operands(id)[operand]].kind == op::parameter;
  }
  [[nodiscard]] std::vector<dtype> operand_types() const {
    std::vector<dtype> types;
    for (node_id operand : nodes.operands(id)) types.push_back(nodes[operand].type);
    return types;
  }
  [[nodiscard]] std::vector<dtype> result_types() const {
    std::vector<dtype> types;
    for (const tensor_spec& each : nodes.results(id)) types.push_back(each.type);
    return types;
  }
  [[nodiscard]] std::vector<shape> operand_extents() const {
    std::vector<shape> extents;
    for (node_id operand : nodes.operands(id)) extents.push_back(nodes[operand].extents);
    return extents;
  }
};

/// `generator<kind>::make(request)` gives the kernel: a specialisation for each kind that runs (op_info::runs), in the
/// header of its family, which generate.ipp includes.
template <op Kind>
struct generator;

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
