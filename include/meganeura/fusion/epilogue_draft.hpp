// SPDX-License-Identifier: MIT
// An epilogue being written: a pointwise region carried over to the loops of the product that it reads.
#pragma once
#include <meganeura/fusion/structural_rules.hpp>

#include <algorithm>

namespace meganeura::inline MEGANEURA_ABI::fusion::detail {

inline constexpr std::size_t widest_epilogue = 8;  // operands an epilogue may read

// Of the node that does what the region does to the product.
inline rule_mask reasons_of_ending(const engine& g, enode_id region, enode_id product) {
  const enode& node = g.node(product);
  const rule_mask skipped = is_narrow(g[g.find(node.owner)].type) ? bit(structural::skip_rounding) : rule_mask();
  return g.node(region).reasons | node.reasons | bit(ending(node.kind)) | skipped;
}

// The product's own, then the region that reads the product.
class epilogue_draft {
 public:
  epilogue finish;
  class_list others;  // operands of the result behind the product's own
  index_map output;

  epilogue_draft(const engine& g, enode_id region, std::size_t operand, enode_id product, const region_limits& limits)
      : g_(g),
        region_id_(region),
        region_(g.get<region_attribute>(region)),
        operand_(operand),
        own_(own_operands(g.node(product).kind)),
        kept_(sums_of(g, product) - 1),
        most_(limits.buffers < own_ ? 0 : std::min(widest_epilogue, limits.buffers - own_)) {
    for (class_id id : g.operands(product).subspan(own_)) others.push_back(g.find(id));
  }

  // `loops` are the product's, accesses[0] its output: solves for the region's index and carries its reads over.
  const char* combine(nest& loops, bool may_split, const epilogue& inner) {
    int which = -1;
    if (const char* problem = find_read(which)) return problem;
    const index_map& read = region_.accesses[static_cast<std::size_t>(which)];
    axis_map map;
    if (!solve_index(loops, 0, region_.space, region_.space.rank(), read, may_split, map)) {
      return "the product's order is not affine in the region's loops";
    }
    const auto first = loops.accesses.begin() + 1 + static_cast<std::ptrdiff_t>(own_);
    finish.accesses.assign(first, first + static_cast<std::ptrdiff_t>(inner.accesses.size()));
    scalar_builder builder;
    small_vector<scalar_ref, 16> arguments(region_.accesses.size());
    arguments[static_cast<std::size_t>(which)] = write_inner(builder, inner);
    for (const scalar_node& node : region_.program.nodes) {
      if (node.op != scalar_op::argument || static_cast<int>(node.value) == which) continue;
      const auto k = static_cast<std::size_t>(node.value);
      const char* problem = add_read(region_.accesses[k], map, loops, builder, node.type, arguments[k]);
      if (problem) return problem;
    }
    if (others.size() > most_) return "too many operands";
    const class_id owner = g_.find(g_.node(region_id_).owner);
    if (std::find(others.begin(), others.end(), owner) != others.end()) return "it would read itself";
    if (!compose_access(region_.output, region_.space.rank(), map, loops.accesses[0], loops.space, output)) {
      return "the result's border is not a box in the product's loops";
    }
    if (!is_forward(output)) return "the result would be stored backwards";
    finish.program = builder.finish(builder.inlined(region_.program, arguments));
    return nullptr;
  }

 private:
  const char* find_read(int& which) const {
    for (std::size_t k = 0; k < region_.accesses.size(); ++k) {
      if (region_.accesses[k].source != static_cast<int>(operand_)) continue;
      if (which >= 0) return "the product is read in two ways";
      which = static_cast<int>(k);
    }
    if (region_.accesses[static_cast<std::size_t>(which)].bounded) return "the product is read with a border";
    const class_id product = g_.operand(region_id_, operand_);
    const bool all = region_.space.elements() == g_.extents(product).elements();
    return all ? nullptr : "elements of the product are left out or repeated";
  }

  // The product's epilogue so far: argument 0 is the accumulator, argument k + 1 what access k reads.
  [[nodiscard]] scalar_ref write_inner(scalar_builder& builder, const epilogue& inner) const {
    small_vector<dtype, 16> types(inner.accesses.size() + 1, dtype::f32);
    for (const scalar_node& node : inner.program.nodes) {  // the accumulator may be converted before the store
      if (node.op == scalar_op::argument) types[static_cast<std::size_t>(node.value)] = node.type;
    }
    small_vector<scalar_ref, 16> arguments;
    for (std::size_t i = 0; i < types.size(); ++i) arguments.push_back(builder.argument(static_cast<int>(i), types[i]));
    return builder.inlined(inner.program, arguments);
  }

  // What the region reads besides the product becomes an access over the product's loops.
  const char* add_read(const index_map& read, const axis_map& map, const nest& loops, scalar_builder& builder,
                       dtype type, scalar_ref& argument) {
    index_map composed;
    if (!compose_access(read, region_.space.rank(), map, loops.accesses[0], loops.space, composed)) {
      return "a border is not a box in the product's loops";
    }
    if (composed.bounded) return "an operand has a border";
    if (!is_forward(composed)) return "an operand would be read backwards";
    if (composed.source >= 0) {
      const class_id other = g_.operand(region_id_, static_cast<std::size_t>(composed.source));
      composed.source = static_cast<int>(own_ + append_once(others, kept_, other));
    }
    argument = builder.argument(1 + static_cast<int>(append_once(finish.accesses, kept_, composed)), type);
    return nullptr;
  }

  const engine& g_;
  enode_id region_id_;
  const region_attribute& region_;
  std::size_t operand_;
  std::size_t own_;   // operands of the product itself
  std::size_t kept_;  // of the others and of accesses, those of a pair, which are multiplied
  std::size_t most_;  // others there may be
};

}  // namespace meganeura::inline MEGANEURA_ABI::fusion::detail
