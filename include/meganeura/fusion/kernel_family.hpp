// SPDX-License-Identifier: MIT
// What the choice of kernels knows of each kind of node that runs.
#pragma once
#include <meganeura/fusion/cost.hpp>
#include <meganeura/fusion/cost_terms.hpp>
#include <meganeura/fusion/implement.hpp>
#include <meganeura/fusion/product_tiles.hpp>
#include <meganeura/graph/visit_op.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::fusion::detail {

/// A kind that implements a primitive (op_info::implements), over the primitive's operands as they lie in memory, with
/// implementation_of<what the primitive carries>. What of this does not hold of a kind its `kernel_family` hides.
template <op Kind>
struct implementation_family {
  using attribute_type = typename meganeura::detail::implementation_traits<Kind>::attribute_type;
  /// Adds a node of the kind to the class of `id`, one of the primitive.
  static void make(implementation_pass& pass, enode_id id);
  /// The program that the node ends with as it is.
  static const epilogue& finish(const engine& g, enode_id id) { return g.get<attribute_type>(id).finish; }
  /// Why it does not store that dtype, or nullptr.
  static const char* refuses(dtype) { return nullptr; }
  /// Whether computing it twice costs less than storing it.
  static bool is_short(const engine&, enode_id) { return false; }
  /// Adds the node that ends with the region, which reads `node` as `operand`; or says why there is none.
  static const char* fuse(implementation_pass& pass, enode_id region, std::size_t operand, enode_id node);
  /// Of one kernel.
  static kernel_time time(const engine& g, enode_id id, const device_profile& device);
  /// The same, with what the primitive itself takes besides bytes and epilogue.
  static kernel_time time_with(const kernel_time& primitive, const engine& g, enode_id id,
                               const device_profile& device);
};

/// Of the other kinds only the time of one kernel is asked; unless said otherwise it reads its operands and writes its
/// result once.
template <op Kind>
struct kernel_family {
  static kernel_time time(const engine& g, enode_id id, const device_profile& device);
};
template <op Kind>
  requires(has_epilogue(Kind))
struct kernel_family<Kind> : implementation_family<Kind> {};

template <>
struct kernel_family<op::gather> {
  static kernel_time time(const engine& g, enode_id id, const device_profile& device);
};

template <>
struct kernel_family<op::take_along> : kernel_family<op::gather> {};

template <>
struct kernel_family<op::narrow> {
  static kernel_time time(const engine& g, enode_id id, const device_profile& device);
};

template <op Kind>
  requires(info(Kind).updates > 0)
struct kernel_family<Kind> {  // as if its result could lie in its operand's memory
  static kernel_time time(const engine& g, enode_id id, const device_profile& device) {
    const double rows = std::max(bytes_of(g, g.operand(id, 1)), bytes_of(g, g.operand(id, 2)));
    return streaming_time(info(Kind).updates * rows, device);
  }
};

template <>
struct kernel_family<op::region> {
  static kernel_time time(const engine& g, enode_id id, const device_profile& device);
};

template <>
struct kernel_family<op::matmul> {
  static void make(implementation_pass& pass, enode_id id);
  static const epilogue& finish(const engine& g, enode_id id) { return g.get<matmul_attribute>(id).finish; }
  static const char* refuses(dtype result) {
    return result == dtype::f32 || result == dtype::f16 ? nullptr : "products store f32 and f16 only";
  }
  static bool is_short(const engine& g, enode_id id);
  static const char* fuse(implementation_pass& pass, enode_id region, std::size_t operand, enode_id product);
  static kernel_time time(const engine& g, enode_id id, const device_profile& device);
};

template <>
struct kernel_family<op::attention> {
  static kernel_time time(const engine& g, enode_id id, const device_profile& device);
};

template <>
struct kernel_family<op::prepare_rows> {
  static kernel_time time(const engine& g, enode_id id, const device_profile& device);
};

template <>
struct kernel_family<op::convolve> : implementation_family<op::convolve> {
  static kernel_time time(const engine& g, enode_id id, const device_profile& device) {
    const convolve_attribute& c = g.get<convolve_attribute>(id);
    const shape &first = g.extents(g.operand(id, 0)), &second = g.extents(g.operand(id, 1)), &own = c.space;
    const auto form = c.primitive.form;
    const shape& y = form == convolution_attribute::output  ? own
                     : form == convolution_attribute::input ? first
                                                            : second;
    const shape& w = form == convolution_attribute::filter ? own : second;
    const shape& x = form == convolution_attribute::input ? own : first;
    const product_extents product = product_of(c.primitive, x, w, y);
    // Each tap of each place is looked at, also where strides leave it nothing to read.
    double flops = 2;
    for (const std::int64_t extent : {product.batch, product.m, product.n, product.k})
      flops *= static_cast<double>(extent);
    // Of a software device's product of texels a convolution, which loads every number by itself, is a sixteenth.
    constexpr double without_texels = 16;
    const double seconds = flops / device.matmul_flops * (device.prefers_texel_buffers ? without_texels : 1);
    if (!device.parallel || !is_tiled(c.primitive, product)) return time_with({seconds, seconds}, g, id, device);
    const product_tiles tiles = tiles_of_product(product, device.compute_units);
    return time_with({seconds / tiles.share, seconds / tiles.full_share}, g, id, device);
  }
};

/// f.operator()<kind>() for each kind that implements a primitive.
template <class Function>
void for_each_implementation(Function f) {
  const auto visit = [&]<op Kind> {
    if constexpr (has_epilogue(Kind)) f.template operator()<Kind>();
  };
  [&]<std::size_t... I>(std::index_sequence<I...>) { (visit.template operator()<static_cast<op>(I)>(), ...); }
  (std::make_index_sequence<op_count>{});
}

/// What is done to the node's sums before they are stored; nullptr if it has no epilogue.
[[nodiscard]] inline const epilogue* epilogue_of(const engine& g, enode_id id) {
  return visit_op(g.node(id).kind, [&]<op Kind>() -> const epilogue* {
    if constexpr (has_epilogue(Kind)) return &kernel_family<Kind>::finish(g, id);
    return nullptr;
  });
}

}  // namespace meganeura::inline MEGANEURA_ABI::fusion::detail

#if MEGANEURA_HEADER_ONLY
#include <meganeura/fusion/attention_gradient_rules.ipp>
#include <meganeura/fusion/attention_rules.ipp>
#include <meganeura/fusion/convolution_rules.ipp>
#include <meganeura/fusion/epilogue_rules.ipp>
#include <meganeura/fusion/exchange_rules.ipp>
#include <meganeura/fusion/implement.ipp>
#include <meganeura/fusion/implement_regions.ipp>
#include <meganeura/fusion/implementation_rules.ipp>
#include <meganeura/fusion/kernel_family.ipp>
#include <meganeura/fusion/mask_rules.ipp>
#include <meganeura/fusion/matmul_rules.ipp>
#include <meganeura/fusion/prepare_rules.ipp>
#include <meganeura/fusion/prologue_rules.ipp>
#include <meganeura/fusion/region_rules.ipp>
#include <meganeura/fusion/rotary_rules.ipp>
#include <meganeura/fusion/several_rules.ipp>
#include <meganeura/fusion/softmax_rules.ipp>
#include <meganeura/fusion/split_rules.ipp>
#endif
