// SPDX-License-Identifier: MIT
// Definitions for kernels/generate.hpp.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/kernels/builtin.hpp>
#include <meganeura/kernels/convolution.hpp>
#include <meganeura/kernels/generate.hpp>
#include <meganeura/kernels/matmul_node.hpp>
#include <meganeura/kernels/optimizer.hpp>
#include <meganeura/kernels/region.hpp>
#include <meganeura/kernels/window.hpp>

#include <optional>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels {

namespace detail {

[[nodiscard]] inline kernel_dispatch make_kernel(const graph& g, node_id id, const target& on,
                                                 std::optional<std::size_t> overwritten) {
  const node& n = g[id];
  std::vector<dtype> types;
  std::vector<shape> extents;
  for (node_id operand : g.operands(id)) {
    types.push_back(g[operand].type);
    extents.push_back(g[operand].extents);
  }
  switch (n.kind) {
    case op::region:
      return make_region(g.get<region_attribute>(id), types, n.type, on, overwritten);
    case op::matmul:
      return make_matmul(g.get<matmul_attribute>(id), types, n.type, on);
    case op::convolve:
      return make_convolve(g.get<convolve_attribute>(id), extents, types, n.type, on);
    case op::window_reduce:
      return make_window_reduce(g.get<window_attribute>(id), extents[0], n.extents, n.type, on);
    case op::window_scatter:
      return make_window_scatter(g.get<window_attribute>(id), n.extents, extents.back(), n.type, on);
    case op::gather:
      return make_gather(extents[0], extents[1], g.get<axis_attribute>(id).axis, n.type, on);
    case op::scatter_add:
      return make_scatter_add(n.extents, extents[0], g.get<axis_attribute>(id).axis, n.type, on);
    case op::random:
      return make_random(g.get<random_attribute>(id), n.extents.elements(), on);
    case op::input:
    case op::parameter:
    case op::state:
    case op::constant:
    case op::iota:
    case op::map:
    case op::reduce:
    case op::contract:
    case op::view:
    case op::pad:
    case op::concat:
    case op::convolution:
    case op::stop_gradient:
    case op::assign:
    case op::optimizer_step:
      break;
  }
  fail(error_category::internal, "a kernel was asked for node %{} ({}), which does not run on a device", id,
       to_string(n.kind));
}

[[nodiscard]] inline kernel_dispatch generate_within_limits(const graph& g, node_id id, const target& on,
                                                            std::optional<std::size_t> overwritten) {
  kernel_dispatch made = make_kernel(g, id, on, overwritten);
  if (on.special_values) made.module = spirv::preserve_special_values(std::move(made.module));
  if (within_loop_limit(made.module, on)) return made;
  fail(
      error_category::unsupported,
      "kernel \"{}\" of node %{} ({} {}) needs {} loop iterations an invocation; this device's driver stops after {}, "
      "and the workgroup holds too few invocations to share them: make the reduced axes shorter or reduce in two steps",
      made.module.name, id, to_string(g[id].kind), to_string(g[id].extents), made.module.loop_iterations,
      on.max_loop_iterations);
}

}  // namespace detail

MEGANEURA_INLINE kernel_dispatch generate(const graph& g, node_id id, const target& on) {
  return detail::generate_within_limits(g, id, on, {});
}

MEGANEURA_INLINE kernel_dispatch generate(const plan::execution_plan& p, const plan::step& s, const target& on) {
  const graph& g = p.implementation;
  if (s.kind == plan::step::copy) fail(error_category::internal, "a kernel was asked for a copy of %{}", s.node);
  if (s.kind == plan::step::kernel) return detail::generate_within_limits(g, s.node, on, plan::overwritten_operand(s));
  const auto count = static_cast<std::int64_t>(s.bindings.at(0).where.bytes / sizeof(float));
  return make_optimizer(g.get<optimizer_attribute>(s.node), count, on);
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
