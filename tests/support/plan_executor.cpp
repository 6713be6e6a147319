// SPDX-License-Identifier: MIT
// The executor of plans on bytes in memory.
#include <support/plan_executor.hpp>

#include <bit>
#include <cmath>
#include <cstring>
#include <set>

namespace meganeura::inline MEGANEURA_ABI::support {

namespace {

using areas = std::vector<std::vector<std::byte>>;  // by plan::index_of

void require(bool holds, std::size_t step, const char* rule) {
  if (!holds) fail(error_category::internal, "plan executor: step {}: {}", step, rule);
}

bool overlap(const plan::range& a, const plan::range& b) {
  return a.where == b.where && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

double load_element(const plan::range& r, dtype type, std::int64_t at, const areas& from) {
  const auto size = static_cast<std::size_t>(storage_bytes(type, 1));
  std::uint32_t word = 0;
  std::memcpy(&word, from[plan::index_of(r.where)].data() + r.offset + static_cast<std::size_t>(at) * size, size);
  return oracle::value_of_bits(word, type);
}

void store_element(const plan::range& r, dtype type, std::int64_t at, double element, areas& to) {
  const auto size = static_cast<std::size_t>(storage_bytes(type, 1));
  const std::uint32_t word = oracle::bits_of_value(element, type);
  std::memcpy(to[plan::index_of(r.where)].data() + r.offset + static_cast<std::size_t>(at) * size, &word, size);
}

oracle::tensor<double> load(const plan::range& r, dtype type, const shape& extents, const areas& from) {
  oracle::tensor<double> result(extents, type);
  for (std::size_t i = 0; i < result.values.size(); ++i)
    result.values[i] = load_element(r, type, static_cast<std::int64_t>(i), from);
  return result;
}

void store(const plan::range& r, const oracle::tensor<double>& value, areas& to) {
  for (std::size_t i = 0; i < value.values.size(); ++i)
    store_element(r, value.type, static_cast<std::int64_t>(i), value.values[i], to);
}

}  // namespace

void round_as_memory(oracle::tensor<double>& value) {
  if (value.type != dtype::f32) return;
  for (double& element : value.values) element = static_cast<double>(static_cast<float>(element));
}

plan_executor::plan_executor(const plan::execution_plan& p, std::uint64_t seed)
    : plan_(p), dice_(seed), oracle_(p.implementation) {
  for (const std::uint64_t bytes : p.area_bytes) {
    memory_.emplace_back(bytes, std::byte{0});
    written_.emplace_back(bytes, true);
  }
  oracle_.on_stored = [](node_id, oracle::tensor<double>& value) { round_as_memory(value); };
}

void plan_executor::set_leaf(const std::string& name, const oracle::tensor<double>& value) {
  for (const auto& [tensors, where] :
       {std::pair{&plan_.inputs, plan::area::input}, std::pair{&plan_.parameters, plan::area::parameter},
        std::pair{&plan_.training, plan::area::training}}) {
    const plan::named_tensor* tensor = tensors->find(name);
    if (!tensor) continue;
    store({where, tensor->offset, tensor->bytes}, value, memory_);
    if (where == plan::area::parameter) is_folded_ = false;
  }
}

oracle::tensors<double> plan_executor::leaves() const {
  oracle::tensors<double> result;
  for (const plan::named_tensor& s : plan_.parameters.tensors)
    result[s.name] = load({plan::area::parameter, s.offset, s.bytes}, s.type, s.extents, memory_);
  return result;
}

oracle::tensors<double> plan_executor::run(const kernels::step_values& values) {
  oracle_.step = values;
  if (!is_folded_) {
    forget({});
    run_groups(plan_.folded);
    is_folded_ = true;
  }
  forget(kept());
  run_groups(plan_.steps);
  oracle::tensors<double> results;
  for (const plan::named_range& output : plan_.outputs) {
    check_written(output.where, plan_.steps.size());
    results[output.name] = load(output.where, output.type, output.extents, memory_);
  }
  return results;
}

// Where what is folded lies that steps read or that is an output.
std::vector<plan::range> plan_executor::kept() const {
  std::set<node_id> read;
  for (const plan::step& s : plan_.steps) {
    for (const node_id operand : plan_.implementation.operands(s.node)) read.insert(operand);
  }
  for (const graph_output& output : plan_.implementation.outputs()) read.insert(output.node);
  std::vector<plan::range> found;
  for (const plan::step& s : plan_.folded) {
    const std::size_t first = plan_.implementation.operands(s.node).size();
    const std::size_t results = plan_.implementation.results(s.node).size();
    for (node_id id{0}; id < plan_.implementation.size(); ++id) {
      const bool is_named =
          results > 1 && plan_.implementation[id].kind == op::result && plan_.implementation.operand(id, 0) == s.node;
      if (!read.contains(id) || (id != s.node && !is_named)) continue;
      const std::size_t number = is_named ? plan_.implementation.get<result_attribute>(id).index : 0;
      found.push_back(s.bindings[first + number].where);
    }
  }
  return found;
}

void plan_executor::forget(const std::vector<plan::range>& kept) {
  for (const plan::area scratch : {plan::area::arena, plan::area::gradient, plan::area::results}) {
    const auto i = static_cast<std::size_t>(scratch);
    const std::vector<std::byte> was = memory_[i];
    memory_[i].assign(memory_[i].size(), std::byte{0xff});  // NaN, and no sensible integer
    written_[i].assign(written_[i].size(), false);
    for (const plan::range& each : kept) {
      if (each.where != scratch) continue;
      for (std::uint64_t k = each.offset; k < each.offset + each.bytes; ++k)
        memory_[i][k] = was[k], written_[i][k] = true;
    }
  }
}

void plan_executor::run_groups(const std::vector<plan::step>& steps) {
  for (std::size_t first = 0; first < steps.size();) {
    std::size_t last = first;
    while (last < steps.size() && steps[last].group == steps[first].group) ++last;
    run_group(steps, first, last);
    first = last;
  }
}

void plan_executor::run_group(const std::vector<plan::step>& steps, std::size_t first, std::size_t last) {
  std::vector<std::size_t> order;
  for (std::size_t i = first; i < last; ++i) order.push_back(i);
  for (std::size_t i : order) check_group(steps, i, first, last);
  dice_.shuffle(order);
  for (std::size_t i : order) run_step(steps[i]);
  for (std::size_t i : order) {
    for (const plan::binding& b : steps[i].bindings) {
      if (b.how == plan::usage::read) continue;
      auto& area = written_[plan::index_of(b.where.where)];
      for (std::uint64_t k = 0; k < b.where.bytes; ++k) area[b.where.offset + k] = true;
    }
  }
}

void plan_executor::check_written(const plan::range& r, std::size_t step) const {
  const auto& area = written_[plan::index_of(r.where)];
  require(r.offset + r.bytes <= area.size(), step, "a range leaves its area");
  for (std::uint64_t k = 0; k < r.bytes; ++k) require(area[r.offset + k], step, "reads a byte nobody wrote");
}

void plan_executor::check_group(const std::vector<plan::step>& steps, std::size_t index, std::size_t first,
                                std::size_t last) const {
  const plan::step& s = steps[index];
  for (const plan::binding& b : s.bindings) {
    require(b.where.offset + b.where.bytes <= memory_[plan::index_of(b.where.where)].size(), index,
            "a range leaves its area");
    if (b.how != plan::usage::write && s.kind != plan::step::optimizer) check_written(b.where, index);
    if (b.how == plan::usage::read) continue;
    for (std::size_t j = first; j < last; ++j) {
      for (const plan::binding& other : steps[j].bindings) {
        require(&other == &b || !overlap(b.where, other.where) || (j == index && in_place(s)), index,
                "overlaps another range of its group");
      }
    }
  }
}

bool plan_executor::in_place(const plan::step& s) const {
  if (s.kind != plan::step::kernel) return false;
  if (info(plan_.implementation[s.node].kind).updates) return true;
  if (plan_.implementation[s.node].kind != op::region) return false;
  const auto& region = plan_.implementation.get<region_attribute>(s.node);
  const auto overwritten = plan::overwritten_operands(s);
  for (std::size_t i = 0; i < overwritten.size(); ++i) {  // elements are read again when others of the row are stored
    const bool per_row = i == 0 ? region.per_row : region.further[i - 1].per_row;
    if (overwritten[i] && region.row_axes != 0 && !per_row) return false;
  }
  return true;
}

void plan_executor::run_step(const plan::step& s) {
  if (s.kind == plan::step::copy) {
    const plan::range &from = s.bindings[0].where, &to = s.bindings[1].where;
    std::memcpy(memory_[plan::index_of(to.where)].data() + to.offset,
                memory_[plan::index_of(from.where)].data() + from.offset, to.bytes);
    return;
  }
  if (s.kind == plan::step::optimizer) return run_optimizer(s);
  const graph& g = plan_.implementation;
  const std::size_t count = g.operands(s.node).size(), results = g.results(s.node).size();
  std::vector<oracle::tensor<double>> operands;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < results; ++k) {
      if (!info(g[s.node].kind).updates && overlap(s.bindings[i].where, s.bindings[count + k].where))
        return run_in_place(s);
    }
    const node& operand = g[g.operand(s.node, i)];
    operands.push_back(load(s.bindings[i].where, operand.type, operand.extents, memory_));
  }
  const auto values = oracle_.values_from(s.node, operands);
  for (std::size_t k = 0; k < results; ++k) store(s.bindings[count + k].where, values[k], memory_);
  for (std::size_t k = count + results; k < s.bindings.size(); ++k) {  // what it keeps while it runs
    const plan::range& kept = s.bindings[k].where;
    if (s.bindings[k].how == plan::usage::write)
      std::fill_n(memory_[plan::index_of(kept.where)].begin() + static_cast<std::ptrdiff_t>(kept.offset), kept.bytes,
                  std::byte{0xff});
  }
}

void plan_executor::run_in_place(const plan::step& s) {
  const graph& g = plan_.implementation;
  const auto& region = g.get<region_attribute>(s.node);
  const int rank = region.space.rank();
  shape stored = region.space, row = region.space;
  for (int axis = 0; axis < rank; ++axis) (axis < rank - region.row_axes ? row : stored).set(axis, 1);
  std::vector<oracle::index_vector> order, items;
  oracle::for_each_index(stored, [&](const oracle::index_vector& index) { order.push_back(index); });
  oracle::for_each_index(row, [&](const oracle::index_vector& index) { items.push_back(index); });
  dice_.shuffle(order);
  oracle::scalar_machine<double> machine(region.program, items.size(), oracle_.on_scalar);
  for (const oracle::index_vector& at : order) {
    const auto fill = [&](std::size_t argument, std::vector<double>& target) {
      for (std::size_t k = 0; k < items.size(); ++k) {
        oracle::index_vector index = at;
        for (std::size_t axis = 0; axis < index.size(); ++axis) index[axis] += items[k][axis];
        target[k] = read(s, region.accesses.at(argument), index, rank);
      }
    };
    const std::vector<double>& values = machine.run(items.size(), fill);
    const auto store_row = [&](std::size_t number, dtype type, const index_map& to, bool per_row, const auto& from) {
      for (std::size_t k = 0; k < (per_row ? 1 : items.size()); ++k) {
        oracle::index_vector index = at;
        for (std::size_t axis = 0; axis < index.size(); ++axis) index[axis] += items[k][axis];
        store_element(s.bindings[g.operands(s.node).size() + number].where, type,
                      oracle::flat_index(to.offset, to.strides, index, rank), from[k], memory_);
      }
    };
    store_row(0, g[s.node].type, region.output, region.per_row, values);
    for (std::size_t i = 0; i < region.further.size(); ++i) {
      const further_result& more = region.further[i];
      store_row(i + 1, more.type, more.output, more.per_row, machine.value(more.value));
    }
  }
}

double plan_executor::read(const plan::step& s, const index_map& from, const oracle::index_vector& index,
                           int rank) const {
  for (int axis = 0; axis < rank; ++axis) {
    const std::int64_t at = index[static_cast<std::size_t>(axis)];
    if ((from.bounded >> axis & 1) != 0 && (at < from.low[axis] || at >= from.high[axis])) return from.fill;
  }
  const std::int64_t flat = oracle::flat_index(from.offset, from.strides, index, rank);
  if (from.source == index_map::index_source) return static_cast<double>(flat);
  const auto source = static_cast<std::size_t>(from.source);
  return load_element(s.bindings[source].where, plan_.implementation[plan_.implementation.operand(s.node, source)].type,
                      flat, memory_);
}

void plan_executor::run_optimizer(const plan::step& s) {
  const auto count = static_cast<std::int64_t>(s.bindings[0].where.bytes / 4);
  graph g;
  const node_id p = g.parameter("p", dtype::f32, {count}), slope = g.input("g", dtype::f32, {count});
  const node_id pair[] = {p, slope};
  const bool scaled = plan_.implementation.gradient_scale(s.node) != no_id;
  g.optimizer_step(plan_.implementation.get<optimizer_attribute>(s.node), pair,
                   scaled ? g.input("scale", dtype::f32, shape{}) : no_id);
  const auto at = [&](std::size_t i) { return load(s.bindings[i].where, dtype::f32, {count}, memory_); };
  oracle::interpreter<double> step(g, {{"p", at(0)}, {"g", at(1)}}, oracle_.step);
  const std::size_t end = s.bindings.size() - (scaled ? 2 : 1);
  for (std::size_t i = 2; i < end; ++i) step.moments.push_back({{"p", at(i)}});
  if (scaled) step.leaves["scale"] = load(s.bindings[end].where, dtype::f32, {}, memory_);
  step.run();
  store(s.bindings[0].where, step.leaves.at("p"), memory_);
  for (std::size_t i = 0; i < step.moments.size(); ++i)
    store(s.bindings[2 + i].where, step.moments[i].at("p"), memory_);
}

}  // namespace meganeura::inline MEGANEURA_ABI::support
