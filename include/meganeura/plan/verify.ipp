// SPDX-License-Identifier: MIT
// The verifier of plans: shares only the structures of a plan with the planner, whose mistakes are to be found.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/fusion/product_tiles.hpp>
#include <meganeura/plan/plan.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::plan {

namespace detail {

// Replays a plan on byte intervals. Each holds a value: a node's result (of a leaf: what it held before the step), or
// what an optimizer made of a parameter.
class replay {
 public:
  explicit replay(const execution_plan& p)
      : plan_(p), contents_(p.area_bytes.size()), read_(contents_.size()), written_(contents_.size()) {
    for (const op kind : {op::input, op::parameter, op::state}) {
      for (node_id id : p.implementation.leaves(kind)) {
        const auto& [name, begin] = p.implementation.get<leaf_attribute>(id);
        const bool of_training = kind == op::state && begin && !begin->saved && name.starts_with("optimizer.");
        const layout& tensors = of_training ? p.training : kind == op::input ? p.inputs : p.parameters;
        const named_tensor* found = tensors.find(name);
        check(found && found->name == name, "a leaf has no place");
        const area where = of_training ? area::training : kind == op::input ? area::input : area::parameter;
        leaves_[id] = {where, found->offset, found->bytes};
        write(leaves_[id], id);
      }
    }
  }

  void run() {
    for (const step& s : plan_.folded) {
      check(s.kind == step::kernel && g()[s.node].kind != op::random, "what is folded depends on the step");
      check_group(s);
      compute(s);
      ++at_;
    }
    for (auto* touched : {&read_, &written_}) touched->assign(contents_.size(), {});
    group_ = 0;
    for (const step& s : plan_.steps) {
      check_group(s);
      if (s.kind == step::optimizer)
        update(s);
      else if (s.kind == step::copy)
        copy(s);
      else
        compute(s);
      ++at_;
    }
    check_results();
    for (const auto& [id, where] : kept_)
      check(holds(where, id), "a step overwrites what is folded, which the next one reads");
  }

 private:
  using value = std::uint64_t;
  static constexpr value unknown = ~value{0};
  struct held {
    std::uint64_t end = 0;
    value what = 0;
    std::uint64_t skipped = 0;  // bytes of the value before this interval
  };
  static constexpr value updated = value{1} << 32;
  using intervals = std::map<std::uint64_t, held>;

  void check(bool holds, const char* rule) const {
    if (!holds) fail(error_category::internal, "plan: step {}: {}", at_, rule);
  }
  [[nodiscard]] const graph& g() const { return plan_.implementation; }

  [[nodiscard]] std::uint64_t needed_bytes(node_id id) const {
    std::int64_t elements = 1;
    for (const std::int64_t extent : g()[id].extents) elements *= extent;
    return static_cast<std::uint64_t>(storage_bytes(g()[id].type, elements));
  }

  // Makes begin .. end of its area empty.
  intervals& cut(const range& r) {
    intervals& all = contents_[index_of(r.where)];
    const std::uint64_t end = r.offset + r.bytes;
    auto at = all.upper_bound(r.offset);
    if (at != all.begin()) --at;
    while (at != all.end() && at->first < end) {
      const auto [begin, was] = *at;
      if (was.end <= r.offset) {
        ++at;
        continue;
      }
      at = all.erase(at);
      if (begin < r.offset) all.emplace(begin, held{r.offset, was.what, was.skipped});
      if (was.end > end) at = all.emplace(end, held{was.end, was.what, was.skipped + (end - begin)}).first;
    }
    return all;
  }
  void write(const range& r, value what, std::uint64_t skipped = 0) {
    if (r.bytes) cut(r).emplace(r.offset, held{r.offset + r.bytes, what, skipped});
  }
  [[nodiscard]] bool holds(const range& r, value what, std::uint64_t skipped = 0) const {
    const intervals& all = contents_[index_of(r.where)];
    const std::uint64_t end = r.offset + r.bytes;
    auto at = all.upper_bound(r.offset);
    if (at == all.begin()) return r.bytes == 0;
    --at;
    for (std::uint64_t position = r.offset; position < end; position = (at++)->second.end) {
      if (at == all.end() || at->first > position || at->second.end <= position || at->second.what != what)
        return false;
      if (at->second.skipped + (position - at->first) != skipped + (position - r.offset)) return false;
    }
    return true;
  }

  // Steps of one group run in any order: none may write what another touches.
  void check_group(const step& s) {
    check(s.group == group_ || s.group == group_ + 1, "groups must be numbered in order");
    if (s.group != group_) {
      for (auto* touched : {&read_, &written_}) touched->assign(contents_.size(), {});
    }
    group_ = s.group;
    for (const binding& b : s.bindings) {
      check(index_of(b.where.where) < plan_.area_bytes.size(), "a range is in no area");
      check(b.where.offset + b.where.bytes <= plan_.area_bytes[index_of(b.where.where)], "a range leaves its area");
      check(b.where.offset % plan_.page_bytes + b.where.bytes <= plan_.page_bytes, "a range crosses a page");
      check(!touches(written_, b.where), "a range is written in the same barrier group");
      check(b.how == usage::read || !touches(read_, b.where), "a range is read in the same barrier group");
    }
    for (const binding& b : s.bindings) touch(b.how == usage::read ? read_ : written_, b.where);  // not by its own step
  }

  // Bytes that the steps of a group touch: begin -> end of intervals that do not overlap.
  using touched_bytes = std::vector<std::map<std::uint64_t, std::uint64_t>>;
  [[nodiscard]] static bool touches(const touched_bytes& all, const range& r) {
    const auto& area = all[index_of(r.where)];
    const auto after = area.lower_bound(r.offset + r.bytes);
    return r.bytes != 0 && after != area.begin() && std::prev(after)->second > r.offset;
  }
  static void touch(touched_bytes& all, const range& r) {
    auto& area = all[index_of(r.where)];
    std::uint64_t begin = r.offset, end = r.offset + r.bytes;
    auto at = area.upper_bound(begin);
    if (at != area.begin() && std::prev(at)->second >= begin) --at;
    for (; at != area.end() && at->first <= end; at = area.erase(at)) {
      begin = std::min(begin, at->first);
      end = std::max(end, at->second);
    }
    if (begin != end) area.emplace(begin, end);
  }

  void compute(const step& s) {
    const auto operands = g().operands(s.node);
    check(s.bindings.size() > operands.size(), "a kernel has too few bindings");
    for (std::size_t i = 0; i < operands.size(); ++i) {
      check(s.bindings[i].how == usage::read && s.bindings[i].where.bytes == needed_bytes(operands[i]),
            "an operand is not bound as it is");
      check(holds(s.bindings[i].where, operands[i]), "a range is read that does not hold the operand");
      if (is_folding()) {
        check(folded_values_.contains(operands[i]) || is_unchanged(operands[i]),
              "what is folded reads what changes from step to step");
      } else if (folded_values_.contains(operands[i])) {
        kept_.emplace(operands[i], s.bindings[i].where);
      }
    }
    const std::size_t results = g().results(s.node).size();
    check(s.bindings.size() >= operands.size() + results, "a kernel has too few bindings");
    for (std::size_t number = 0; number < results; ++number) {
      const range& where = s.bindings[operands.size() + number].where;
      check(s.bindings[operands.size() + number].how == usage::write, "a result is not bound as it is");
      for (std::size_t i = 0; i < operands.size(); ++i) {
        check(!s.bindings[i].where.overlaps(where) ||
                  (s.bindings[i].where.offset == where.offset && goes_element_by_element(s.node, i, number)),
              "a result overwrites elements that are still to be read");
      }
      for (std::size_t other = 0; other < number; ++other)
        check(!s.bindings[operands.size() + other].where.overlaps(where), "two results of a step lie in one place");
    }
    meet(s, operands.size() + results);
    if (results == 1) return store(s, operands.size(), s.node);
    for (node_id id{0}; id < g().size(); ++id) {
      if (g()[id].kind == op::result && g().operand(id, 0) == s.node)
        store(s, operands.size() + g().get<result_attribute>(id).index, id);
    }
  }
  // What workgroups that share results need: nobody else's sums and arrivals, as many as there are tiles.
  void meet(const step& s, std::size_t behind) {
    const auto* product = std::get_if<matmul_attribute>(&g().attribute_of(s.node));
    if (!product || product->schedule.parts == 1) return;
    const product_schedule& cut = product->schedule;
    std::int64_t sides[4] = {1, 1, 1, 1}, images = 1;
    const int axes[4] = {product->batch_axes, product->m_axes, product->n_axes, product->k_axes};
    for (int side = 0, axis = 0; side < 4; ++side) {
      for (int i = 0; i < axes[side]; ++i) sides[side] *= product->space[axis++];
    }
    if (cut.places == place_axes::columns) {  // each image has tiles of its own
      const fusion::product_windows windows = fusion::extents_of(*product).windows;
      images = windows.images, sides[2] = windows.length();
    }
    const std::int64_t tile_n = cut.tile_n / (product->paired ? 2 : 1);
    const std::int64_t tiles =
        sides[0] * images * ((sides[1] + cut.tile_m - 1) / cut.tile_m) * ((sides[2] + tile_n - 1) / tile_n);
    check(s.bindings.size() == behind + 2, "a product of several parts has no place for their sums");
    const binding &sums = s.bindings[behind], &arrivals = s.bindings[behind + 1];
    check(sums.how == usage::write &&
              sums.where.bytes >= static_cast<std::uint64_t>(4 * tiles * cut.parts * cut.tile_m * cut.tile_n),
          "a product's parts have no room for their sums");
    check(arrivals.how == usage::read_write && arrivals.where.where == area::arrivals &&
              arrivals.where.bytes >= static_cast<std::uint64_t>(4 * tiles),
          "a product's parts have no room for their arrivals");
    if (arrived_.empty()) arrived_.resize(contents_.size());
    check(!touches(arrived_, arrivals.where), "two kernels count their workgroups in one place");
    touch(arrived_, arrivals.where);
    for (std::size_t i = 0; i < behind; ++i)
      check(!s.bindings[i].where.overlaps(sums.where), "a product's parts overwrite what it reads or stores");
    write(sums.where, unknown);
  }
  void store(const step& s, std::size_t binding, node_id id) {
    const range& where = s.bindings.at(binding).where;
    check(where.bytes == needed_bytes(id), "a result is not bound as it is");
    write(where, id);
    if (!is_folding()) return;
    check(where.where == area::arena, "what is folded lies where the host or other programs write");
    folded_values_.insert(id);
  }
  [[nodiscard]] bool is_folding() const { return at_ < plan_.folded.size(); }
  // A parameter or a state of the model that no effect overwrites.
  [[nodiscard]] bool is_unchanged(node_id id) const {
    const auto found = leaves_.find(id);
    if (found == leaves_.end() || found->second.where != area::parameter) return false;
    return std::ranges::none_of(g().effects(), [&](node_id effect) {
      return std::ranges::any_of(g().updates(effect), [&](const meganeura::update& each) { return each.target == id; });
    });
  }

  // Every read of the operand is of the element that is stored from it, byte for byte; 0 steps along a row mean that a
  // row stores one.
  [[nodiscard]] bool goes_element_by_element(node_id id, std::size_t operand, std::size_t number) const {
    if (info(g()[id].kind).updates) return operand == 0;
    if (g()[id].kind != op::region) return false;
    const auto& region = g().get<region_attribute>(id);
    const dtype type = number == 0 ? g()[id].type : region.further[number - 1].type;
    const index_map& output = number == 0 ? region.output : region.further[number - 1].output;
    if (!same_storage(type, g()[g().operand(id, operand)].type)) return false;
    for (int axis = region.space.rank() - region.row_axes; axis < region.space.rank(); ++axis) {
      if (output.strides[axis] != 0) return false;
    }
    for (const index_map& read : region.accesses) {
      if (read.source != static_cast<int>(operand)) continue;
      if (read.bounded != 0 || read.offset != output.offset) return false;
      for (int axis = 0; axis < region.space.rank(); ++axis) {
        if (read.strides[axis] != output.strides[axis]) return false;
      }
    }
    return true;
  }

  void copy(const step& s) {
    check(s.bindings.size() == 2 && s.bindings[0].where.bytes == s.bindings[1].where.bytes, "a copy has unequal sides");
    check(holds(s.bindings[0].where, s.node), "a range is copied that does not hold the value");
    write(s.bindings[1].where, s.node);
  }

  [[nodiscard]] std::size_t moments_of(node_id effect) const {
    if (g()[effect].kind != op::optimizer_step) return 0;
    return g().get<optimizer_attribute>(effect).moments.size();
  }

  // Whatever part of each parameter lies in this dispatch's run.
  void update(const step& s) {
    if (by_offset_.node != s.node) by_offset_ = updates_by_offset(s.node);
    const range &run = s.bindings.at(0).where, &gradients = s.bindings.at(1).where;
    const node_id scale = g().gradient_scale(s.node);
    check(s.bindings.size() == moments_of(s.node) + (scale == no_id ? 3 : 4), "an update has other moments");
    if (scale != no_id)
      check(holds(s.bindings[s.bindings.size() - 2].where, scale), "gradients are scaled by something else");
    auto at = std::ranges::upper_bound(by_offset_.all, run.offset, {}, &update_at::offset);
    if (at != by_offset_.all.begin()) --at;
    for (; at != by_offset_.all.end() && at->offset < run.offset + run.bytes; ++at) {
      const node_id parameter = at->what.target;
      const range& whole = leaves_.at(parameter);
      if (!whole.overlaps(run)) continue;
      const std::uint64_t begin = std::max(whole.offset, run.offset);
      const std::uint64_t end = std::min(whole.offset + whole.bytes, run.offset + run.bytes);
      const std::uint64_t skipped = begin - whole.offset;
      const range part{area::parameter, begin, end - begin};
      const range gradient{area::gradient, gradients.offset + (begin - run.offset), end - begin};
      check(holds(part, parameter, skipped), "a parameter is updated twice");
      check(holds(gradient, at->what.value, skipped), "a parameter is updated by something that is not its gradient");
      write(part, parameter | updated, skipped);
      for (std::size_t i = 0; i < moments_of(s.node); ++i) {
        const range& moment = s.bindings[2 + i].where;
        write({moment.where, moment.offset + (begin - run.offset), end - begin}, parameter | updated, skipped);
      }
    }
  }

  struct update_at {
    std::uint64_t offset;
    meganeura::update what;
  };
  struct ordered_updates {
    node_id node = no_id;  // an optimizer
    std::vector<update_at> all;
  };
  [[nodiscard]] ordered_updates updates_by_offset(node_id node) const {
    ordered_updates result{node, {}};
    for (const meganeura::update& each : g().updates(node))
      result.all.push_back({leaves_.at(each.target).offset, each});
    std::ranges::sort(result.all, {}, &update_at::offset);
    return result;
  }

  void check_results() const {
    const auto check_value = [&](const range& where, value what, std::string_view name, const char* rule) {
      if (!holds(where, what)) fail(error_category::internal, "plan: \"{}\" {}", name, rule);
    };
    std::unordered_map<node_id, value> after;
    for (node_id effect : g().effects()) {
      for (const auto& [target, source] : g().updates(effect)) {
        after[target] = g()[effect].kind == op::assign ? value{source} : target | updated;
        for (std::size_t moment = 0; moment < moments_of(effect); ++moment) {  // its own, when the step ends
          const std::string& name = g().get<leaf_attribute>(target).name;
          const named_tensor* found = plan_.updated.find(name);
          check(found && found->name == name, "an updated parameter has no place");
          check_value({moment_area(moment), found->offset, needed_bytes(target)}, target | updated, name,
                      "has no moments of its own");
        }
      }
    }
    for (const auto& [leaf, where] : leaves_) {
      const auto found = after.find(leaf);
      check_value(where, found == after.end() ? value{leaf} : found->second, g().get<leaf_attribute>(leaf).name,
                  "does not hold its value after the step");
    }
    for (std::size_t i = 0; i < plan_.outputs.size(); ++i) {
      check_value(plan_.outputs[i].where, g().outputs()[i].node, plan_.outputs[i].name,
                  "is an output and does not hold its value");
      const bool is_number = plan_.outputs[i].type == dtype::f32 && plan_.outputs[i].extents.rank() == 0;
      if (is_number != (plan_.outputs[i].where.where == area::results))
        fail(error_category::internal, "plan: \"{}\" does not lie where the host reads it", plan_.outputs[i].name);
      if (plan_.outputs[i].where.where == area::parameter || plan_.outputs[i].where.where == area::training)
        fail(error_category::internal, "plan: \"{}\" is an output where other programs write", plan_.outputs[i].name);
    }
  }

  const execution_plan& plan_;
  std::vector<intervals> contents_;
  std::map<node_id, range> leaves_;
  std::set<node_id> folded_values_;
  std::map<node_id, range> kept_;  // of these, what steps read
  ordered_updates by_offset_;
  touched_bytes read_, written_;  // by the steps of this group so far
  touched_bytes arrived_;         // by all steps so far
  std::size_t at_ = 0;
  std::uint32_t group_ = 0;
};

}  // namespace detail

MEGANEURA_INLINE void verify(const execution_plan& p) { detail::replay(p).run(); }

}  // namespace meganeura::inline MEGANEURA_ABI::plan
