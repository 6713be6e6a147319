// SPDX-License-Identifier: MIT
// Definitions for kernels/generate.hpp.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/graph/visit_op.hpp>
#include <meganeura/kernels/convolution.hpp>
#include <meganeura/kernels/gather.hpp>
#include <meganeura/kernels/generate.hpp>
#include <meganeura/kernels/matmul_node.hpp>
#include <meganeura/kernels/optimizer.hpp>
#include <meganeura/kernels/random.hpp>
#include <meganeura/kernels/region.hpp>
#include <meganeura/kernels/window.hpp>

#include <optional>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::kernels {

namespace detail {

[[nodiscard]] inline kernel_dispatch make_kernel(const kernel_request& asked) {
  return visit_op(asked.nodes[asked.id].kind, [&]<op Kind>() -> kernel_dispatch {
    if constexpr (info(Kind).runs) {
      return generator<Kind>::make(asked);
    } else {
      fail(error_category::internal, "a kernel was asked for node %{} ({}), which does not run on a device", asked.id,
           to_string(Kind));
    }
  });
}

[[nodiscard]] inline kernel_dispatch generate_within_limits(const graph& g, node_id id, const device_profile& on,
                                                            operand_of_result overwritten) {
  kernel_dispatch made = make_kernel({g, id, on, overwritten});
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

MEGANEURA_INLINE kernel_dispatch generate(const graph& g, node_id id, const device_profile& on) {
  return detail::generate_within_limits(g, id, on, {});
}

MEGANEURA_INLINE kernel_dispatch generate(const plan::execution_plan& p, const plan::step& s,
                                          const device_profile& on) {
  const graph& g = p.implementation;
  if (s.kind == plan::step::copy) fail(error_category::internal, "a kernel was asked for a copy of %{}", s.node);
  if (s.kind == plan::step::kernel) return detail::generate_within_limits(g, s.node, on, plan::overwritten_operands(s));
  const auto count = static_cast<std::int64_t>(s.bindings.at(0).where.bytes / sizeof(float));
  return make_optimizer(g.get<optimizer_attribute>(s.node), count, on);
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
