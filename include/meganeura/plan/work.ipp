// SPDX-License-Identifier: MIT
// Definitions for plan/work.hpp.
#pragma once
#include <meganeura/fusion/cost_terms.hpp>
#include <meganeura/fusion/product_schedules.hpp>
#include <meganeura/plan/work.hpp>

#include <algorithm>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::plan {

namespace detail {

// How a kernel reads its operands; of those that are not named it reads all.
struct affine_reads {
  const shape* space = nullptr;
  std::vector<const index_map*> accesses{};

  void add(const std::vector<index_map>& more) {
    for (const index_map& each : more) accesses.push_back(&each);
  }
};

inline affine_reads reads_of(const graph& g, node_id id) {
  return std::visit(
      [](const auto& what) {
        affine_reads found;
        if constexpr (requires { what.space; }) found.space = &what.space;
        if constexpr (requires { what.a.source; }) found.accesses = {&what.a, &what.b};
        if constexpr (requires { what.accesses; }) found.add(what.accesses);
        if constexpr (requires { what.start.accesses; }) found.add(what.start.accesses);
        if constexpr (requires { what.finish; }) found.add(what.finish.accesses);
        return found;
      },
      g.attribute_of(id));
}

// Of a table that it looks things up in, a kernel reads no more than it gives.
inline bool looks_up(op kind) { return kind == op::gather || kind == op::take_along || kind == op::narrow; }

// Bytes of an operand that a kernel must read.
inline std::uint64_t read_bytes(const graph& g, node_id id, std::size_t operand, std::uint64_t whole) {
  if (operand == 0 && looks_up(g[id].kind)) return std::min(whole, tensor_bytes(g[id]));
  // What comes prepared is read as that is; a row that it cannot hold is seldom.
  const auto* product = std::get_if<matmul_attribute>(&g.attribute_of(id));
  if (product != nullptr && product->prepared && operand >= 1 && operand <= product->sums()) return 0;
  const affine_reads reads = reads_of(g, id);
  double elements = 0;
  bool named = false;
  for (const index_map* each : reads.accesses) {
    if (each->source != static_cast<int>(operand)) continue;
    elements += fusion::detail::touched(*each, *reads.space);
    named = true;
  }
  if (!named) return whole;
  const dtype type = g[g.operand(id, operand)].type;
  return std::min(whole, static_cast<std::uint64_t>(fusion::detail::bytes_of(type, elements)));
}

inline std::uint64_t bytes_of(const execution_plan& p, const step& s) {
  const graph& g = p.implementation;
  if (s.kind == step::kernel && info(g[s.node].kind).updates && !overwritten_operands(s).empty()) {
    // The rows that do not stay as they are; the other operand tells which.
    const std::uint64_t rows = std::max(s.bindings[1].where.bytes, s.bindings[2].where.bytes);
    return static_cast<std::uint64_t>(info(g[s.node].kind).updates) * rows;
  }
  struct part {
    const range* where;
    std::uint64_t bytes;
  };
  std::vector<part> read, written;
  const auto add = [](std::vector<part>& to, const range& where, std::uint64_t bytes) {
    const auto known = std::ranges::find_if(to, [&](const part& each) {
      return each.where->where == where.where && each.where->offset == where.offset && each.where->bytes == where.bytes;
    });
    if (known == to.end())
      to.push_back({&where, bytes});
    else
      known->bytes = std::max(known->bytes, bytes);
  };
  for (std::size_t i = 0; i < s.bindings.size(); ++i) {
    const auto& [where, how] = s.bindings[i];
    const bool is_operand = s.kind == step::kernel && i < g.operands(s.node).size();
    if (how != usage::write) add(read, where, is_operand ? read_bytes(g, s.node, i, where.bytes) : where.bytes);
    if (how != usage::read) add(written, where, where.bytes);
  }
  std::uint64_t total = 0;
  for (const std::vector<part>* each : {&read, &written})
    for (const part& one : *each) total += one.bytes;
  return total;
}

inline double flops_of(const execution_plan& p, const step& s) {
  if (s.kind == step::copy) return 0;
  if (s.kind == step::kernel) return p.implementation.flops(s.node);
  const auto& rule = p.implementation.get<optimizer_attribute>(s.node);
  return static_cast<double>(rule.program.operations()) *
         static_cast<double>(s.bindings[0].where.bytes / sizeof(float));
}

// Operations per second of what computes them.
inline double rate_of(const execution_plan& p, const step& s, const device_profile& device) {
  const op kind = p.implementation[s.node].kind;
  const attribute& what = p.implementation.attribute_of(s.node);
  if (const auto* rows = std::get_if<attention_attribute>(&what); rows != nullptr && s.kind == step::kernel)
    return fusion::product_flops(rows->schedule.arithmetic, device);
  if (s.kind != step::kernel || !has_epilogue(kind)) return device.scalar_flops;
  const auto* product = std::get_if<matmul_attribute>(&what);
  return product ? fusion::product_flops(product->schedule.arithmetic, device) : device.matmul_flops;
}

}  // namespace detail

MEGANEURA_INLINE work work_of(const execution_plan& p, const step& s) {
  return {detail::bytes_of(p, s), detail::flops_of(p, s)};
}

MEGANEURA_INLINE double floor_seconds(const execution_plan& p, const step& s, const device_profile& device) {
  const work all = work_of(p, s);
  return std::max(static_cast<double>(all.bytes) / device.bandwidth, all.flops / detail::rate_of(p, s, device));
}

}  // namespace meganeura::inline MEGANEURA_ABI::plan
