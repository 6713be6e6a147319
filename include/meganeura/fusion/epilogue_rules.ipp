// SPDX-License-Identifier: MIT
// The rule that fuses a pointwise region into the matmul or convolution it reads.
#pragma once
#include <meganeura/fusion/implement.hpp>
#include <meganeura/fusion/kernel_family.hpp>

namespace meganeura::inline MEGANEURA_ABI::fusion {

namespace detail {

inline constexpr std::size_t tried_products = 4;  // forms of one product that are tried

template <op Kind>
void fuse_epilogue(implementation_pass& pass, enode_id region, std::size_t operand, enode_id product) {
  using family = kernel_family<Kind>;
  constexpr structural rule = ending(Kind);
  engine& g = pass.graph();
  const class_id owner = g.find(g.node(region).owner), source = g.operand(region, operand);
  if (!pass.enabled(rule)) return;
  const auto problem = [&]() -> const char* {
    if (pass.rounds(source)) return "a rounding to its dtype would be lost";
    if (const char* refusal = family::refuses(g[owner].type)) return refusal;
    const bool again = pass.uses(source) > 1 && !pass.serves_only(source, region);
    if (again && !family::is_short(g, product)) return "the product has other consumers";
    if (again && pass.decides_by_product(product)) return "computed twice it could decide two ways";
    g.at(g.node(product).path);  // it stays that product
    return family::fuse(pass, region, operand, product);
  }();
  if (problem) {
    pass.note_missed({owner, source, rule, problem});
  } else {
    pass.note_applied(rule);
  }
}

MEGANEURA_INLINE void product_epilogue::apply(implementation_pass& pass, enode_id id) {
  const engine& g = pass.graph();
  if (g.get<region_attribute>(id).row_axes > 0) return;
  const class_id owner = g.find(g.node(id).owner);
  for (std::size_t i = 0; i < g.node(id).operand_count; ++i) {
    const class_id product = g.operand(id, i);
    if (product == owner) continue;
    std::size_t tried = 0;
    const node_list candidates = g[product].nodes;
    for (enode_id candidate : candidates) {
      visit_op(g.node(candidate).kind, [&]<op Kind> {
        if constexpr (has_epilogue(Kind)) {
          if (++tried <= tried_products) fuse_epilogue<Kind>(pass, id, i, candidate);
        }
      });
    }
  }
}

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
