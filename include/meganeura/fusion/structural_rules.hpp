// SPDX-License-Identifier: MIT
// The structural rules by name, whose order is that of their bits, and what their definitions share. What makes the
// kinds that implement a primitive, and what they end with, stands in kernel_family.hpp.
#pragma once
#include <meganeura/fusion/access_checks.hpp>
#include <meganeura/fusion/region.hpp>
#include <meganeura/graph/view_map.hpp>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>

namespace meganeura::inline MEGANEURA_ABI::fusion {

/// Structural rules by their bit in a rule_mask, in the order of structural_rules below. Behind these are two for each
/// kind that implements a primitive, and then pattern rules.
enum class structural : std::uint8_t {
  map_to_region,
  view_to_region,
  reduce_to_region,
  sum_parts,
  pad_to_region,
  concat_to_region,
  constant_to_region,
  iota_to_region,
  contract_to_region,
  fuse_view,
  fuse_pointwise,
  fuse_rows,
  recompute,
  merge_regions,
  skip_rounding,
  matmul_view,
  matmul_prologue,
  matmul_pair,
  matmul_results,
  matmul_rotary,
  relu_mask,
  widen_product,
  convolution_to_contract,
  softmax_spelling,
  fuse_attention,
  attention_weights,
  attention_gradients,
  prepare_rows,
  exchange_sums,
  prepare_weights,
  zero_borders,
  split_sum,
  split_filter,
  split_reduce,
};

struct structural_info {
  structural rule;
  const char* name;
  const char* family = "";  // with which others it can be left out; those of none have little or nothing in their place
  exactness kind = exactness::exact;
};
inline constexpr structural_info structural_rules[] = {
    {structural::map_to_region, "map_to_region"},
    {structural::view_to_region, "view_to_region"},
    {structural::reduce_to_region, "reduce_to_region"},
    // the sum of few parts of a product, without rows
    {structural::sum_parts, "sum_parts", "splits"},
    {structural::pad_to_region, "pad_to_region"},
    {structural::concat_to_region, "concat_to_region"},
    {structural::constant_to_region, "constant_to_region"},
    {structural::iota_to_region, "iota_to_region"},
    {structural::contract_to_region, "contract_to_region"},
    // read through a view
    {structural::fuse_view, "fuse_view"},
    // a producer with one consumer
    {structural::fuse_pointwise, "fuse_pointwise", "fusion"},
    // a producer with row reductions, kept inside the row
    {structural::fuse_rows, "fuse_rows", "fusion"},
    // a producer with more consumers, computed again in this one
    {structural::recompute, "recompute", "fusion"},
    // values computed from the same operands as results of one kernel
    {structural::merge_regions, "merge_regions", "fusion"},
    // a producer of floats of 16 bits, without the rounding to its dtype
    {structural::skip_rounding, "skip_rounding", "", exactness::reassociates},
    {structural::matmul_view, "matmul_view"},
    // what a product reads, computed as it is read
    {structural::matmul_prologue, "matmul_prologue", "products", exactness::reassociates},
    // two products of one left operand, and what is computed of both
    {structural::matmul_pair, "matmul_pair", "products"},
    // a product that is stored, and what is computed of it
    {structural::matmul_results, "matmul_results", "products"},
    // a product whose columns are turned in pairs
    {structural::matmul_rotary, "matmul_rotary", "products"},
    {structural::relu_mask, "relu_mask"},
    // a product of floats of 16 bits, in f32
    {structural::widen_product, "widen_product"},
    // a convolution as a product that reads each image several times
    {structural::convolution_to_contract, "convolution_to_contract", "products"},
    // a softmax that is written in another way
    {structural::softmax_spelling, "softmax_spelling", "attention", exactness::reassociates},
    // two products with a softmax between them
    {structural::fuse_attention, "fuse_attention", "attention", exactness::reassociates},
    // its weights once more, from what it knows of its rows
    {structural::attention_weights, "attention_weights", "attention", exactness::reassociates},
    // the products and rows that are its gradients
    {structural::attention_gradients, "attention_gradients", "attention", exactness::reassociates},
    // rows that several of its workgroups go through
    {structural::prepare_rows, "prepare_rows", "attention", exactness::reassociates},
    // a row's sum of a product and its weights, as that of what the product multiplies
    {structural::exchange_sums, "exchange_sums", "attention", exactness::reassociates},
    // right operands that are folded, as the f16 terms that a product of rounded operands multiplies
    {structural::prepare_weights, "prepare_weights", "products", exactness::reassociates},
    // zeros around an image, which windows that share elements do without
    {structural::zero_borders, "zero_borders", "products"},
    // a product with few results and a long sum
    {structural::split_sum, "split_sum", "splits"},
    // the gradient of a small filter over several images
    {structural::split_filter, "split_filter", "splits"},
    // few long rows
    {structural::split_reduce, "split_reduce", "splits"},
};
static_assert(
    [] {
      int number = 0;
      for (const structural_info& each : structural_rules) {
        if (each.rule != static_cast<structural>(number++)) return false;
      }
      return number == static_cast<int>(structural::split_reduce) + 1;
    }(),
    "each rule has its line, in the order of structural");

namespace detail {

inline constexpr int rules_by_name = static_cast<int>(std::size(structural_rules));

// How many kinds before this one implement a primitive.
constexpr int implementations_before(int kind) {
  int count = 0;
  for (int i = 0; i < kind; ++i) count += has_epilogue(static_cast<op>(i)) ? 1 : 0;
  return count;
}

}  // namespace detail

inline constexpr int structural_count = detail::rules_by_name + 2 * detail::implementations_before(op_count);

/// What makes nodes of such a kind: "contract_to_matmul".
[[nodiscard]] constexpr structural making(op kind) {
  return static_cast<structural>(detail::rules_by_name + 2 * detail::implementations_before(static_cast<int>(kind)));
}
/// What fuses a region into them: "matmul_epilogue".
[[nodiscard]] constexpr structural ending(op kind) {
  return static_cast<structural>(static_cast<int>(making(kind)) + 1);
}
[[nodiscard]] constexpr bool has(const rule_mask& rules, structural rule) {
  return rules[static_cast<std::size_t>(rule)];
}
/// Whether a node that these rules made has digits that its class's value was rounded off. It is then no other class's.
[[nodiscard]] constexpr bool skips_rounding(const rule_mask& reasons) {
  return has(reasons, structural::skip_rounding);
}

[[nodiscard]] std::string to_string(structural rule);
[[nodiscard]] constexpr rule_mask bit(structural rule) { return rule_mask::of(static_cast<std::size_t>(rule)); }

class implementation_pass;

namespace detail {

// A rule adds to the class of node `id`, whose op is `root`, through the pass; *_rules.ipp define them.
template <structural Rule, op Root>
struct structural_rule {
  static constexpr structural rule = Rule;
  static constexpr op root = Root;
};

struct map_to_region : structural_rule<structural::map_to_region, op::map> {
  static void apply(implementation_pass& pass, enode_id id);
};
struct view_to_region : structural_rule<structural::view_to_region, op::view> {
  static void apply(implementation_pass& pass, enode_id id);
};
struct reduce_to_region : structural_rule<structural::reduce_to_region, op::reduce> {
  static void apply(implementation_pass& pass, enode_id id);
};
// Instead of reduce_to_region.
struct sum_parts : structural_rule<structural::sum_parts, op::reduce> {
  static void apply(implementation_pass& pass, enode_id id);
};
struct pad_to_region : structural_rule<structural::pad_to_region, op::pad> {
  static void apply(implementation_pass& pass, enode_id id);
};
struct concat_to_region : structural_rule<structural::concat_to_region, op::concat> {
  static void apply(implementation_pass& pass, enode_id id);
};
struct iota_to_region : structural_rule<structural::iota_to_region, op::iota> {
  static void apply(implementation_pass& pass, enode_id id);
};
// A product without a real second side is no product: dot products, matrix-vector, outer products become rows and maps.
struct contract_to_region : structural_rule<structural::contract_to_region, op::contract> {
  static void apply(implementation_pass& pass, enode_id id);
};
// A pointwise region over a product becomes what is done to the product before it is stored: two rules, by the product.
struct product_epilogue {
  static constexpr op root = op::region;
  static void apply(implementation_pass& pass, enode_id id);
};
// A product of what a region computes element by element, or row by row with one sum: its kernel computes it as it
// reads what the region reads. A number of each row multiplies the results instead of the elements.
struct product_prologue : structural_rule<structural::matmul_prologue, op::matmul> {
  static void apply(implementation_pass& pass, enode_id id);
};
// A pointwise region over two products that share their left operand: one kernel adds up both sums of a result and
// stores what the region makes of them, and of the products themselves those that something else reads, too.
struct product_pair : structural_rule<structural::matmul_pair, op::region> {
  static void apply(implementation_pass& pass, enode_id id);
};
// Pointwise regions over one product, of which each, or the product too, is read: results of one kernel.
struct product_results : structural_rule<structural::matmul_results, op::region> {
  static void apply(implementation_pass& pass, enode_id id);
};
// A pointwise region that reads a product at both places along an axis of two, as rotary embeddings do: one kernel has
// both sums, and stores both values.
struct product_rotary : structural_rule<structural::matmul_rotary, op::region> {
  static void apply(implementation_pass& pass, enode_id id);
};
// A softmax, or its gradient, that is written in another way: a region more, as the rules of attention read it.
struct softmax_spelling : structural_rule<structural::softmax_spelling, op::region> {
  static void apply(implementation_pass& pass, enode_id id);
};
// A product whose one operand is the softmax of another product's results: neither of the two need be stored.
struct fuse_attention : structural_rule<structural::fuse_attention, op::matmul> {
  static void apply(implementation_pass& pass, enode_id id);
};
// The gradients of such an attention, which know of its rows what two numbers say: neither weights nor their gradients
// need be stored.
struct attention_gradients : structural_rule<structural::attention_gradients, op::attention> {
  static void apply(implementation_pass& pass, enode_id id);
};
// Rows that every workgroup of an attention on matrix units turns into f16 terms: by a kernel before it, once.
struct prepare_rows : structural_rule<structural::prepare_rows, op::attention> {
  static void apply(implementation_pass& pass, enode_id id);
};
// Right operands of a product that rounds them, which are folded: as f16 terms that are made when parameters change.
struct prepare_weights : structural_rule<structural::prepare_weights, op::matmul> {
  static void apply(implementation_pass& pass, enode_id id);
};
// A product of windows that share elements reads an image without the zeros around it, see matmul_attribute::border.
struct zero_borders : structural_rule<structural::zero_borders, op::matmul> {
  static void apply(implementation_pass& pass, enode_id id);
};
// The gradient of a softmax, weights * (x - sum of weights * x along the row), where x is a product and that of the
// weights and its right operand is there too: the row's sum is that of the left operand times this result, which the
// product's kernel adds up as it reads the operand.
struct exchange_sums : structural_rule<structural::exchange_sums, op::region> {
  static void apply(implementation_pass& pass, enode_id id);
};
// 0 < x exactly where 0 < relu(x): a backward pass that masks by the sign of x can read the stored activation instead,
// and x itself need not be kept.
struct relu_mask : structural_rule<structural::relu_mask, op::map> {
  static void apply(implementation_pass& pass, enode_id id);
};
// A product of floats of 16 bits that matrix units do not read where they lie: of their values in f32, rounded at the
// end as it would have been.
struct widen_product : structural_rule<structural::widen_product, op::contract> {
  static void apply(implementation_pass& pass, enode_id id);
};
// A convolution, or a gradient of one, as a product that reads a view of the image in a border of zeros: windows of it,
// which overlap. The gradient of an image with a stride is a product of each class of places that the same taps reach,
// put side by side; where windows do not overlap, one of all taps. Channels each alone are none.
struct convolution_to_contract : structural_rule<structural::convolution_to_contract, op::convolution> {
  static void apply(implementation_pass& pass, enode_id id);
};
// A product whose results are too few to occupy the device: parts of its sum as products of their own, side by side,
// and then the sum of the parts in order.
struct split_sum : structural_rule<structural::split_sum, op::contract> {
  static void apply(implementation_pass& pass, enode_id id);
};
// Likewise a filter's gradient: its parts are those of each image.
struct split_filter : structural_rule<structural::split_filter, op::convolution> {
  static void apply(implementation_pass& pass, enode_id id);
};
// Rows too few to occupy the device, likewise; what does not divide is a part of its own.
struct split_reduce : structural_rule<structural::split_reduce, op::reduce> {
  static void apply(implementation_pass& pass, enode_id id);
};

// Rules that are tried in turn at a node.
template <class... Rules>
struct rule_list {
  template <class Pass>
  static void apply(Pass& pass, enode_id id) {
    (try_rule<Rules>(pass, id), ...);
  }

 private:
  template <class Rule, class Pass>
  static void try_rule(Pass& pass, enode_id id) {
    if (pass.graph().node(id).kind != Rule::root) return;
    if constexpr (requires { Rule::rule; }) {
      if (!pass.enabled(Rule::rule)) return;
    }
    Rule::apply(pass, id);
  }
};

using to_region = rule_list<map_to_region, view_to_region, reduce_to_region, sum_parts, pad_to_region, concat_to_region,
                            iota_to_region, contract_to_region>;
using between_implementations = rule_list<product_epilogue, product_pair, product_results, product_rotary,
                                          softmax_spelling, fuse_attention, product_prologue>;

// ---- what the rules share -------------------------------------------------------------------------------------------

inline bool is_copy(const region_attribute& region) {
  return region.row_axes == 0 && region.program.is_identity() && region.accesses.size() == 1 &&
         region.accesses[0].source >= 0;
}

inline scalar_program identity_program(dtype type) {
  scalar_builder builder;
  return builder.finish(builder.argument(0, type));
}

inline index_map dense_access(const shape& extents) {
  const view_attribute dense = dense_view(extents);
  index_map result;
  std::copy(dense.strides, dense.strides + max_rank, result.strides);
  return result;
}

// What matrix products and epilogues can read: their kernels count in unsigned strides and know no borders.
inline bool is_forward(const index_map& access) {
  return access.offset >= 0 && *std::min_element(access.strides, access.strides + max_rank) >= 0;
}
inline bool is_plain(const index_map& access) { return access.bounded == 0 && is_forward(access); }

// A product that stores the sums of its two operands' products and nothing else.
inline bool is_plain_product(const matmul_attribute& product) {
  return product.start.is_empty() && product.border.is_empty() && !product.paired && product.further.empty() &&
         product.finish.program.is_identity();
}

// How many sums what ends a node is made of: of a pair of products two.
inline std::size_t sums_of(const engine& g, enode_id id) {
  const auto* product = std::get_if<matmul_attribute>(&g.attribute_of(id));
  return product == nullptr ? 1 : product->sums();
}

inline void flat_loops(region_draft& draft, const shape& extents) {
  draft.loops.space = {extents.elements()};
  draft.loops.accesses = {dense_access(draft.loops.space)};
}

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
