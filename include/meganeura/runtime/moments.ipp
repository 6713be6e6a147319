// SPDX-License-Identifier: MIT
// Definitions for runtime/moments.hpp.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/runtime/moments.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

inline bool same_place(const plan::named_range& a, const plan::named_range& b) {
  return a.name == b.name && a.where.where == b.where.where && a.where.offset == b.where.offset &&
         a.where.bytes == b.where.bytes;
}

MEGANEURA_INLINE std::string moment_name(std::string_view moment, std::string_view parameter) {
  return fmt::format("optimizer.{}.{}", moment, parameter);
}

inline std::vector<plan::named_range> moments_of(const plan::execution_plan& p) {
  const graph& g = p.implementation;
  std::vector<plan::named_range> list;
  for (const plan::named_tensor& each : p.training.tensors)
    list.push_back({each.name, each.type, each.extents, {plan::area::training, each.offset, each.bytes}});
  for (node_id effect : g.effects()) {
    if (g[effect].kind != op::optimizer_step) continue;
    const std::vector<std::string>& moments = g.get<optimizer_attribute>(effect).moments;
    for (const update& each : g.updates(effect)) {
      const plan::named_tensor& of = *p.updated.find(g.get<leaf_attribute>(each.target).name);
      for (std::size_t k = 0; k < moments.size(); ++k) {
        list.push_back(
            {moment_name(moments[k], of.name), of.type, of.extents, {plan::moment_area(k), of.offset, of.bytes}});
      }
    }
  }
  for (const plan::named_range& moment : list) {  // a checkpoint holds both under their names
    if (!p.parameters.find(moment.name)) continue;
    fail(error_category::invalid_argument,
         "parameter {} has the name of what a checkpoint keeps of the optimizer; give one of them another name",
         quote(moment.name));
  }
  return list;
}

}  // namespace detail

MEGANEURA_INLINE optimizer_moments::optimizer_moments(const device& on, const plan::execution_plan& p) try {
  shared_state made{on, detail::moments_of(p), {}};
  vulkan::recorder zero(on);
  for (std::size_t i = plan::index_of(plan::area::training); i < p.area_bytes.size(); ++i) {
    made.areas.emplace_back(on, p.area_bytes[i]);
    made.areas.back().fill_with_zeros(zero);
  }
  on.submit(zero.finish());
  state_ = std::make_shared<const shared_state>(std::move(made));
} catch (...) {
  rethrow_as_error("allocating moments");
}

MEGANEURA_INLINE optimizer_moments::optimizer_moments(std::vector<named_values> waiting)
    : waiting_(std::make_shared<const std::vector<named_values>>(std::move(waiting))) {}

MEGANEURA_INLINE optimizer_moments optimizer_moments::made_for(const device& on, const plan::execution_plan& p) const {
  optimizer_moments made(on, p);
  if (!waiting_) return made;
  const auto& list = made.list();
  const auto named = [](const auto& moments, const auto& wanted) {
    return std::ranges::any_of(moments, [&](const auto& each) { return each.name == wanted.name; });
  };
  const auto lost = std::ranges::find_if(*waiting_, [&](const named_values& each) { return !named(list, each); });
  const auto missing = std::ranges::find_if(list, [&](const auto& each) { return !named(*waiting_, each); });
  if (lost != waiting_->end() || missing != list.end()) {
    const bool is_lost = lost != waiting_->end();
    fail(error_category::invalid_argument,
         "the checkpoint that was loaded has {} {}, which the parameters that are updated {}; load one of a training "
         "built alike, or restart",
         is_lost ? "a moment" : "no moment", quote(is_lost ? lost->name : missing->name),
         is_lost ? "do not have" : "have");
  }
  for (const named_values& each : *waiting_)
    made.write(*std::ranges::find(list, each.name, &plan::named_range::name), each.values);
  return made;
}

MEGANEURA_INLINE const optimizer_moments::shared_state& optimizer_moments::state() const try {
  if (state_) return *state_;
  fail(error_category::invalid_argument,
       "there are no moments before the first program is built, and its sizes are not known yet; prepare some sizes");
} catch (...) {
  rethrow_as_error("using moments");
}

MEGANEURA_INLINE void optimizer_moments::expect(const plan::named_range& asked) const {
  if (std::ranges::any_of(list(), [&](const auto& moment) { return detail::same_place(moment, asked); })) return;
  fail(error_category::invalid_argument, "{}: no moment has that name and place; ask with what list() has",
       quote(asked.name));
}

MEGANEURA_INLINE std::vector<std::byte> optimizer_moments::read(const plan::named_range& moment) const try {
  expect(moment);
  return memory(moment.where.where).read(state().on, moment.where.offset, moment.where.bytes);
} catch (...) {
  rethrow_as_error("reading a moment");
}

MEGANEURA_INLINE void optimizer_moments::write(const plan::named_range& moment, std::span<const std::byte> values) try {
  expect(moment);
  if (values.size() != moment.where.bytes) {
    fail(error_category::invalid_argument, "\"{}\" is {}{}, {} bytes, and was given {} bytes", moment.name,
         to_string(moment.type), to_string(moment.extents), moment.where.bytes, values.size());
  }
  memory(moment.where.where).write(state().on, moment.where.offset, values);
} catch (...) {
  rethrow_as_error("writing a moment");
}

MEGANEURA_INLINE void optimizer_moments::reset() try {
  vulkan::recorder zero(state().on);
  for (const area_memory& area : state().areas) area.fill_with_zeros(zero);
  state().on.submit(zero.finish());
} catch (...) {
  rethrow_as_error("resetting moments");
}

MEGANEURA_INLINE void optimizer_moments::check_fits(const plan::execution_plan& p) const try {
  if (std::ranges::equal(detail::moments_of(p), list(), detail::same_place)) return;
  fail(
      error_category::invalid_argument,
      "these sizes update other parameters than those before, and all sizes share the optimizer's moments; give them a "
      "training of their own");
} catch (...) {
  rethrow_as_error("sharing moments");
}

}  // namespace meganeura::inline MEGANEURA_ABI
