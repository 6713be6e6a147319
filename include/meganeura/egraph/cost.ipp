// SPDX-License-Identifier: MIT
// Definitions for egraph/cost.hpp.
#pragma once
#include <meganeura/egraph/cost.hpp>
#include <meganeura/egraph/product_tiles.hpp>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::egraph {

MEGANEURA_INLINE double program_cost(const scalar_program& program, const cost_model& model) {
  double total = 0;
  for (const scalar_node& node : program.nodes) {
    if (info(node.op).arity > 0) total += info(node.op).is.slow ? model.transcendental : 1;
  }
  return total;
}

namespace detail {

// Transfers and arithmetic overlap, but never perfectly: less work in the shadow of the longer one still counts a
// little.
inline double overlapped(double transfer, double arithmetic) {
  return std::max(transfer, arithmetic) + 0.05 * std::min(transfer, arithmetic);
}

// Elements an access touches over `space`, at most what its tensor holds.
inline double touched(const index_map& read, const shape& space) {
  double elements = 1;
  for (int k = 0; k < space.rank(); ++k) {
    if (read.strides[k] == 0) continue;
    elements *= static_cast<double>(read.bounded >> k & 1 ? read.high[k] - read.low[k] : space[k]);
  }
  return elements;
}

inline bool has_unit_stride(const index_map& read, const shape& space) {
  bool any = false;
  for (int k = 0; k < space.rank(); ++k) {
    if (std::abs(read.strides[k]) == 1) return true;
    any = any || read.strides[k] != 0;
  }
  return !any;
}

// Neighbouring invocations run along the last axis: a read striding there wastes most of each memory sector.
inline bool is_coalesced(const index_map& read, const shape& space) {
  return space.rank() == 0 || std::abs(read.strides[space.rank() - 1]) <= 1;
}

inline double bytes_of(const engine& g, class_id id) { return static_cast<double>(g.extents(id).bytes(g[id].type)); }

inline double bytes_of(dtype type, double elements) {
  return static_cast<double>(storage_bytes(type, static_cast<std::int64_t>(elements)));
}

inline double epilogue_cost(const engine& g, enode_id id, const epilogue& finish, const shape& space, int k_axes,
                            const cost_model& model, double& bytes) {
  const shape result = [&] {
    shape kept = space;
    kept.pop_back(k_axes);
    return kept;
  }();
  for (const index_map& read : finish.accesses) {
    if (read.source < 0) continue;
    const class_id source = g.operand(id, static_cast<std::size_t>(read.source));
    const double elements = std::min(touched(read, result), static_cast<double>(g.extents(source).elements()));
    bytes += bytes_of(g[source].type, elements) * (is_coalesced(read, result) ? 1 : model.strided_read);
  }
  return program_cost(finish.program, model) * static_cast<double>(result.elements());
}

inline double product_seconds(const matmul_attribute& product, const cost_model& model) {
  int axis = 0;
  const auto extent = [&](int axes) {
    std::int64_t elements = 1;
    for (const int end = axis + axes; axis < end; ++axis) elements *= product.space[axis];
    return elements;
  };
  const std::int64_t batch = extent(product.batch_axes), m = extent(product.m_axes), n = extent(product.n_axes);
  const auto flops = 2 * static_cast<double>(product.space.elements());
  // Without units, tiles of 16 one after the other: what a thinner product leaves of them is wasted.
  const double share = model.compute_units != 0
                           ? tiles_of_product(batch, m, n, model.compute_units).share
                           : std::min(1.0, static_cast<double>(m) / 16) * std::min(1.0, static_cast<double>(n) / 16);
  return flops / (model.matmul_flops * share);
}

inline double matmul_cost(const engine& g, enode_id id, const matmul_attribute& product, const cost_model& model) {
  double bytes = bytes_of(g, g.find(g.node(id).owner));
  for (const index_map* read : {&product.a, &product.b}) {
    const class_id source = g.operand(id, static_cast<std::size_t>(read->source));
    const double elements = std::min(touched(*read, product.space), static_cast<double>(g.extents(source).elements()));
    bytes += bytes_of(g[source].type, elements) * (has_unit_stride(*read, product.space) ? 1 : model.strided_read);
  }
  const double extra = epilogue_cost(g, id, product.finish, product.space, product.k_axes, model, bytes);
  return overlapped(bytes / model.bandwidth, product_seconds(product, model) + extra / model.scalar_flops) +
         model.launch;
}

inline double convolve_cost(const engine& g, enode_id id, const convolve_attribute& c, const cost_model& model) {
  const class_id self = g.find(g.node(id).owner);
  const shape &first = g.extents(g.operand(id, 0)), &second = g.extents(g.operand(id, 1)), &own = c.space;
  const auto form = c.convolution.form;
  const shape& y = form == convolution_attribute::output ? own : form == convolution_attribute::input ? first : second;
  const shape& w = form == convolution_attribute::filter ? own : second;
  double bytes = bytes_of(g, self) * (is_coalesced(c.output, own) ? 1 : model.strided_read);
  bytes += bytes_of(g, g.operand(id, 0)) + bytes_of(g, g.operand(id, 1));
  const double extra = epilogue_cost(g, id, c.finish, own, 0, model, bytes);
  const double flops = 2 * static_cast<double>(y.elements()) * static_cast<double>(w.elements() / w[0]);
  return overlapped(bytes / model.bandwidth, flops / model.matmul_flops + extra / model.scalar_flops) + model.launch;
}

}  // namespace detail

MEGANEURA_INLINE double region_cost(const region_attribute& region, std::span<const std::int64_t> source_bytes,
                                    std::int64_t result_bytes, const cost_model& model) {
  double bytes = static_cast<double>(result_bytes);
  for (const index_map& read : region.accesses) {
    if (read.source < 0) continue;
    const double whole = static_cast<double>(source_bytes[static_cast<std::size_t>(read.source)]);
    const bool coalesced = detail::is_coalesced(read, region.space);
    // A second access to the same buffer mostly hits the cache when it is coalesced.
    bytes += std::min(4 * detail::touched(read, region.space), whole) * (coalesced ? 1 : model.strided_read);
  }
  const double elements = static_cast<double>(region.space.elements());
  double parallel = elements;
  if (region.row_axes > 0) {
    double length = 1;
    for (int k = region.space.rank() - region.row_axes; k < region.space.rank(); ++k) {
      length *= static_cast<double>(region.space[k]);
    }
    parallel = elements / length * std::min(length, 1024.0);
  }
  const double occupancy = std::min(1.0, parallel / model.full_occupancy);
  // A small kernel is latency-bound, not slow in proportion: its whole data passes at the pace of what is in flight.
  const double busy =
      detail::overlapped(bytes / model.bandwidth, elements * program_cost(region.program, model) / model.scalar_flops);
  return busy / std::max(occupancy, 1.0 / 64) + model.launch;
}

MEGANEURA_INLINE double node_cost(const engine& g, enode_id id, const cost_model& model) {
  const enode& node = g.node(id);
  const class_id self = g.find(node.owner);
  double bytes = detail::bytes_of(g, self);
  for (std::size_t i = 0; i < node.operand_count; ++i) bytes += detail::bytes_of(g, g.operand(id, i));
  switch (node.kind) {
    case op::input:
    case op::parameter:
    case op::state:
      return 0;
    case op::region: {
      std::vector<std::int64_t> sources;
      for (std::size_t i = 0; i < node.operand_count; ++i) {
        sources.push_back(static_cast<std::int64_t>(detail::bytes_of(g, g.operand(id, i))));
      }
      return region_cost(g.get<region_attribute>(id), sources, static_cast<std::int64_t>(detail::bytes_of(g, self)),
                         model);
    }
    case op::matmul:
      return detail::matmul_cost(g, id, g.get<matmul_attribute>(id), model);
    case op::convolve:
      return detail::convolve_cost(g, id, g.get<convolve_attribute>(id), model);
    case op::gather: {
      const double table = detail::bytes_of(g, g.operand(id, 0)), own = detail::bytes_of(g, self);
      return (bytes - table + std::min(table, own)) / model.bandwidth + model.launch;
    }
    case op::random:
    case op::scatter_add:
    case op::window_reduce:
    case op::window_scatter:
    case op::assign:
    case op::optimizer_step:
      return bytes / model.bandwidth + model.launch;
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
      break;
  }
  return std::numeric_limits<double>::infinity();
}

}  // namespace meganeura::inline MEGANEURA_ABI::egraph
