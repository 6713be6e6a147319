// SPDX-License-Identifier: MIT
// What the choice of kernels knows of each kind of node that runs, besides the rules that make it.
#pragma once
#include <meganeura/fusion/cost.hpp>
#include <meganeura/fusion/structural_rules.hpp>
#include <meganeura/graph/visit_op.hpp>

#include <cstddef>

namespace meganeura::inline MEGANEURA_ABI::fusion::detail {

/// `seconds`: of one kernel; unless said otherwise it reads its operands and writes its result once.
///
/// A family that can end with a scalar program, as products do, says so by `epilogue_rule`, the rule that fuses a
/// region into it, and has
/// - `finish(g, node)`: that program as it is;
/// - `refuses(result)`: why it does not store that dtype, or nullptr;
/// - `is_short(g, node)`: whether computing it twice costs less than storing it;
/// - `fuse(pass, region, operand, node)`: adds the node that ends with the region, which reads `node` as `operand`; or
///   says why there is none.
template <op Kind>
struct kernel_family {
  static double seconds(const engine& g, enode_id id, const device_profile& device);
};

template <>
struct kernel_family<op::gather> {
  static double seconds(const engine& g, enode_id id, const device_profile& device);
};

template <>
struct kernel_family<op::region> {
  static double seconds(const engine& g, enode_id id, const device_profile& device);
};

template <>
struct kernel_family<op::matmul> {
  static constexpr structural epilogue_rule = structural::matmul_epilogue;
  static double seconds(const engine& g, enode_id id, const device_profile& device);
  static const epilogue& finish(const engine& g, enode_id id) { return g.get<matmul_attribute>(id).finish; }
  static const char* refuses(dtype result) { return result == dtype::f32 ? nullptr : "products store f32 only"; }
  static bool is_short(const engine& g, enode_id id);
  static const char* fuse(lowering& pass, enode_id region, std::size_t operand, enode_id product);
};

template <>
struct kernel_family<op::convolve> {
  static constexpr structural epilogue_rule = structural::convolve_epilogue;
  static double seconds(const engine& g, enode_id id, const device_profile& device);
  static const epilogue& finish(const engine& g, enode_id id) { return g.get<convolve_attribute>(id).finish; }
  static const char* refuses(dtype) { return nullptr; }
  static bool is_short(const engine&, enode_id) { return false; }
  static const char* fuse(lowering& pass, enode_id region, std::size_t operand, enode_id product);
};

template <op Kind>
inline constexpr bool has_epilogue = requires {
  kernel_family<Kind>::epilogue_rule;
};

[[nodiscard]] inline rule_mask epilogue_rules() {
  rule_mask rules;
  for (int kind = 0; kind < op_count; ++kind) {
    visit_op(static_cast<op>(kind), [&]<op Kind> {
      if constexpr (has_epilogue<Kind>) rules |= bit(kernel_family<Kind>::epilogue_rule);
    });
  }
  return rules;
}

/// What is done to the node's sums before they are stored; nullptr if it has no epilogue.
[[nodiscard]] inline const epilogue* epilogue_of(const engine& g, enode_id id) {
  return visit_op(g.node(id).kind, [&]<op Kind>() -> const epilogue* {
    if constexpr (has_epilogue<Kind>) return &kernel_family<Kind>::finish(g, id);
    return nullptr;
  });
}

}  // namespace meganeura::inline MEGANEURA_ABI::fusion::detail

#if MEGANEURA_HEADER_ONLY
#include <meganeura/fusion/kernel_family.ipp>
#endif
