// SPDX-License-Identifier: MIT
// Definitions for kernels/generate.hpp.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/helper_threads.hpp>
#include <meganeura/graph/visit_op.hpp>
#include <meganeura/kernels/argsort.hpp>
#include <meganeura/kernels/attention.hpp>
#include <meganeura/kernels/convolution.hpp>
#include <meganeura/kernels/cumulative.hpp>
#include <meganeura/kernels/gather.hpp>
#include <meganeura/kernels/generate.hpp>
#include <meganeura/kernels/matmul_node.hpp>
#include <meganeura/kernels/optimizer.hpp>
#include <meganeura/kernels/prepare_rows.hpp>
#include <meganeura/kernels/random.hpp>
#include <meganeura/kernels/region.hpp>
#include <meganeura/kernels/window.hpp>
#include <meganeura/spirv/by_address.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

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

// The one place that tells what is reached by address: `bound` is behind the first bindings, in order. Texels stay
// texels, of which generators know how many there may be.
[[nodiscard]] inline spirv::module reach_long_tensors(spirv::module made, std::span<const tensor_spec> bound,
                                                      const device_profile& on) {
  std::vector<bool> by_address;
  for (const tensor_spec& each : bound) {
    const std::int64_t bytes = each.extents.bytes(each.type), elements = each.extents.elements();
    by_address.push_back(static_cast<std::uint64_t>(bytes) > on.max_binding_bytes);
    if (!by_address.back() || elements <= spirv::max_elements_by_address) continue;
    fail(
        error_category::unsupported,
        "kernel \"{}\" would reach {}{} by address, {} elements where it tells {} apart: use a smaller batch, or split "
        "the tensor",
        made.name, to_string(each.type), to_string(each.extents), elements, spirv::max_elements_by_address);
  }
  return spirv::reach_by_address(std::move(made), by_address);
}

[[nodiscard]] inline kernel_dispatch generate_within_limits(const graph& g, node_id id, const device_profile& on,
                                                            operand_of_result overwritten) {
  kernel_dispatch made = make_kernel({g, id, on, overwritten});
  std::vector<tensor_spec> bound;
  for (const node_id operand : g.operands(id)) bound.push_back({g[operand].type, g[operand].extents});
  for (const tensor_spec& result : g.results(id)) bound.push_back(result);
  made.module = reach_long_tensors(std::move(made.module), bound, on);
  if (on.special_values) made.module = spirv::preserve_special_values(std::move(made.module));
  if (within_loop_limit(made.module, on)) return made;
  fail(
      error_category::unsupported,
      "kernel \"{}\" of node %{} ({} {}) needs {} loop iterations an invocation; this device's driver stops after {}, "
      "and the workgroup holds too few invocations to share them: make the reduced axes shorter or reduce in two steps",
      made.module.name, id, to_string(g[id].kind), to_string(g[id].extents), made.module.loop_iterations,
      on.max_loop_iterations);
}

// What a kernel_request shows of a step, besides the device: where that is equal, words and grid are.
[[nodiscard]] inline std::vector<std::int64_t> read_by_generators(const plan::execution_plan& p, const plan::step& s) {
  const graph& g = p.implementation;
  std::vector<std::int64_t> all{static_cast<std::int64_t>(g[s.node].kind), g[s.node].attribute};
  if (s.kind == plan::step::optimizer) {
    all.push_back(static_cast<std::int64_t>(s.bindings.at(0).where.bytes));
    all.push_back(static_cast<std::int64_t>(s.bindings.size()));
    return all;
  }
  const auto add = [&](dtype type, const shape& extents) {
    all.insert(all.end(), {static_cast<std::int64_t>(type), static_cast<std::int64_t>(extents.rank())});
    all.insert(all.end(), extents.begin(), extents.end());
  };
  all.push_back(g[s.node].operand_count);
  for (const node_id operand : g.operands(s.node)) {
    add(g[operand].type, g[operand].extents);
    if (g[s.node].kind == op::matmul) all.push_back(g[operand].kind == op::parameter ? 1 : 0);
  }
  for (const tensor_spec& result : g.results(s.node)) add(result.type, result.extents);
  add(g[s.node].type, g[s.node].extents);
  for (const std::optional<std::size_t> operand : plan::overwritten_operands(s))
    all.push_back(operand ? static_cast<std::int64_t>(*operand) : -1);
  return all;
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
  kernel_dispatch made =
      make_optimizer(g.get<optimizer_attribute>(s.node), count, on, g.gradient_scale(s.node) != no_id);
  // The step's numbers behind them are no storage buffers, and stay what they are.
  const std::vector<tensor_spec> bound(made.module.bindings.size(), {dtype::f32, {count}});
  made.module = detail::reach_long_tensors(std::move(made.module), bound, on);
  return made;
}

MEGANEURA_INLINE kernel_set generate(const plan::execution_plan& p, const device_profile& on, std::size_t threads) {
  kernel_set made;
  std::vector<const plan::step*> asked;
  std::map<std::vector<std::int64_t>, std::size_t> known;
  for (const plan::step* s : p.all_steps()) {
    made.of_step.push_back(0);
    if (s->kind == plan::step::copy) continue;
    const auto [at, is_new] = known.emplace(detail::read_by_generators(p, *s), asked.size());
    if (is_new) asked.push_back(s);
    made.of_step.back() = at->second;
  }
  made.kernels.resize(asked.size());
  meganeura::detail::run_in_parallel(asked.size(), threads,
                                     [&](std::size_t i) { made.kernels[i] = generate(p, *asked[i], on); });
  return made;
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
