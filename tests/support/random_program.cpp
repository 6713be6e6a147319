// SPDX-License-Identifier: MIT
// Programs around random graphs, and what replays and shrinks them.
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/runtime/optimizer.hpp>

#include <oracle/gradient_check.hpp>
#include <support/egraph_sample_graphs.hpp>
#include <support/random_program.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace meganeura::inline MEGANEURA_ABI::support {

namespace {

// ---- what surrounds the random nodes

void add_effects(graph& g, const std::vector<node_id>& pool, dice& d) {
  for (node_id state : g.leaves(op::state)) {
    std::vector<node_id> values, states;
    for (node_id id : pool) {
      if (g[id].extents != g[state].extents || g[id].type != g[state].type) continue;
      (g[id].kind == op::state ? states : values).push_back(id);
    }
    if (d.chance(0.2)) continue;
    if (values.empty() && states.size() < 2 && d.chance(0.9)) continue;  // a state assigned to itself
    const bool chained = values.empty() || (d.chance(0.4) && !states.empty());
    g.assign(state, d.pick(chained ? states : values));
    if (d.chance(0.3)) g.add_output(g.get<leaf_attribute>(state).name + " before", state);
  }
}

// Two states of one shape that a chain or a swap of assigns can connect.
void add_state_pair(random_graph& made, dice& d) {
  graph& g = made.nodes();
  const shape extents = g[d.pick(made.pool())].extents;
  if (extents.elements() > 40) return;
  for (const char* name : {"one", "two"}) {
    g.state(name, dtype::f32, extents);
    made.leaves()[name] = oracle::random_tensor(extents, name[0] == 'o' ? 1 : 2);
  }
  const node_id one = g.find_leaf("one"), two = g.find_leaf("two");
  std::vector<node_id> values{one, two, g.add(one, two), g.multiply(two, g.full_like(two, 0.5))};
  for (node_id id : made.pool()) {
    if (g[id].extents != extents || g[id].type != dtype::f32) continue;
    values.push_back(id);
    if (d.chance(0.3)) values.push_back(g.add(g.multiply(one, g.full_like(one, 0.75)), id));  // a running mean
  }
  const bool other_way = d.chance(0.5);
  g.assign(other_way ? two : one, d.pick(values));
  g.assign(other_way ? one : two, d.chance(0.4) ? (other_way ? two : one) : d.pick(values));
  if (d.chance(0.5)) g.add_output("one before", one);
  if (d.chance(0.3)) g.add_output("two before", two);
}

void add_training(graph& g, node_id value, oracle::tensors<double>& leaves, dice& d) {
  const std::vector<node_id> wrt = g.leaves(op::parameter);
  if (wrt.empty() || !is_float(g[value].type)) return;
  std::vector<node_id> slopes;
  try {
    slopes = gradients(g, oracle::weighted_sum(g, value, leaves), wrt);
  } catch (const error& refused) {  // overlapping views, max windows twice
    if (refused.category() == error_category::internal) throw;
    return;
  }
  if (d.chance(0.6)) {
    for (std::size_t i = 0; i < wrt.size(); ++i) g.add_output("d" + std::to_string(i), slopes[i]);
  }
  if (d.chance(0.4)) {
    std::vector<node_id> pairs;
    for (std::size_t i = 0; i < wrt.size(); ++i) {
      if (pairs.empty() || d.chance(0.8)) pairs.insert(pairs.end(), {wrt[i], slopes[i]});  // the others are frozen
    }
    static const std::vector<optimizer> kinds{sgd{}, sgd{.momentum = 0.5f}, adam{}, adamw{}};
    const bool scaled = d.chance(0.3);  // as gradients are clipped
    const node_id first = pairs[1], flat = g.reshape(first, {g[first].extents.elements()});
    g.optimizer_step(d.pick(kinds).rule(), pairs, scaled ? g.reduce(reduce_kind::max, flat, 1) : no_id);
  }
}

fusion::optimize_options random_optimize(dice& d, bool exact) {
  fusion::optimize_options options;
  if (exact) options.tolerance = egraph::exactness::exact;
  if (d.chance(0.5)) return options;
  if (!d.chance(0.8)) options.disabled.emplace_back("algebra");
  if (!d.chance(0.8)) options.disabled.insert(options.disabled.end(), {"fusion", "products"});
  if (!d.chance(0.8)) options.disabled.emplace_back("epilogues");
  options.region = {static_cast<std::size_t>(d.between(4, 96)), static_cast<std::size_t>(d.between(7, 12)),
                    static_cast<std::size_t>(d.between(6, 10))};
  options.region_forms = static_cast<std::size_t>(d.between(1, 16));
  const auto scale = [&] { return std::pow(10, 6 * d.unit() - 3); };
  device_profile& m = options.device;
  m.bandwidth *= scale(), m.scalar_flops *= scale(), m.matmul_flops *= scale();
  m.launch.group *= d.chance(0.2) ? 0 : scale(), m.launch.dispatch *= scale();
  m.parallel = !d.chance(0.3);
  if (m.parallel) m.compute_units = static_cast<std::uint32_t>(d.between(1, 8));
  m.split_terms = d.between(1, 4);
  m.transcendental = 1 + 30 * d.unit(), m.strided_read = 1 + 8 * d.unit();
  return options;
}

// ---- running, replaying, shrinking

std::uint64_t environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 0) : otherwise;
}

verdict attempt(const check& run, std::uint64_t seed, int steps, int only_output = -1) {
  verdict v;
  try {
    run(seed, steps, only_output, v);
  } catch (const std::exception& broken) {
    v.fail(std::string("throws: ") + broken.what());
  }
  return v;
}

// The fewest steps that still fail, then one output alone if that fails as well.
std::string shrunk(const check& run, std::uint64_t seed, int steps, const std::function<std::string(int, int)>& print) {
  int fewest = 0, output = -1;
  while (fewest < steps && !attempt(run, seed, fewest).failed()) ++fewest;
  for (int i = 0; i < 8 && output < 0; ++i) {
    if (attempt(run, seed, fewest, i).failed()) output = i;
  }
  return "seed " + std::to_string(seed) + " shrunk to " + std::to_string(fewest) + " steps:\n" +
         attempt(run, seed, fewest, output).text + "\n" + print(fewest, output);
}

}  // namespace

std::optional<sample> make_sample(std::uint64_t seed, int steps, int only_output, bool specials) {
  dice d(seed ^ 0x5eed);
  random_graph_options options{.steps = steps, .halves = d.chance(0.4), .integers = d.chance(0.6)};
  const double kind = d.unit();
  options.values = kind < 0.45               ? leaf_values::general
                   : kind < 0.8 || !specials ? leaf_values::quarters
                                             : leaf_values::special;
  random_graph made(seed, options);
  sample result;
  graph& g = made.nodes();
  int number = 0;
  for (node_id id : made.ends()) {
    if (only_output < 0 || number == only_output) g.add_output("end" + std::to_string(number), id);
    ++number;
  }
  if (only_output >= number) return std::nullopt;
  if (only_output < 0 && d.chance(0.2)) g.add_output("again", d.pick(made.pool()));
  const bool special = options.values == leaf_values::special;
  if (d.chance(0.3) && !special) add_training(g, d.pick(made.pool()), made.leaves(), d);
  if (d.chance(0.7)) add_effects(g, made.pool(), d);
  if (d.chance(0.15)) add_state_pair(made, d);
  if (g.outputs().empty()) return std::nullopt;
  result.source = pruned(g);
  result.leaves = made.leaves();
  const bool exact = special || d.chance(0.2);
  result.optimize = random_optimize(d, exact);
  std::uint64_t largest = 0;  // tensor; pieces of the optimiser's run may be as small
  for (std::size_t i = 0; i < result.source.size(); ++i)
    largest =
        std::max(largest, plan::aligned(static_cast<std::uint64_t>(result.source[nth_node(i)].extents.elements()) * 4));
  result.plan = {.share_memory = d.chance(0.9),
                 .late_scheduling = d.chance(0.8),
                 .max_tensor_bytes = d.chance(0.7) ? std::uint64_t{1} << 31 : largest,
                 .in_place = d.chance(0.9)};
  result.plan.max_binding_bytes = result.plan.max_tensor_bytes;
  result.optimize.region.tensor_bytes = static_cast<std::int64_t>(result.plan.max_tensor_bytes);
  result.plan.fold = d.chance(0.6);
  return result;
}

sample make_product_sample(std::uint64_t seed, std::int64_t most) {
  dice d(seed ^ 0xb10c);
  sample made;
  graph& g = made.source;
  std::vector<std::int64_t> sizes{1, 2, 5, 8, 16, 24, 31, 33, 40, 64, 72, 100, 128, 136, 256};
  std::erase_if(sizes, [&](std::int64_t size) { return size > most; });
  const std::int64_t batch = d.chance(0.2) ? d.between(2, 3) : 0;
  const bool half = d.chance(0.4), converted = half && d.chance(0.4), whole = d.chance(0.6);  // multiples of eight
  const auto size = [&] {
    const std::int64_t any = d.pick(sizes);
    return whole ? (any + 7) / 8 * 8 : any;
  };
  std::int64_t extents[128] = {};
  extents['b'] = batch, extents['m'] = size(), extents['n'] = size();
  extents['k'] = d.chance(0.3) ? 8 * d.between(1, 70) : size();
  // Axes of an operand in some order, and its values.
  const auto labels_of = [&](const char* all) {
    std::vector<char> labels(all + (batch ? 0 : 1), all + 3);
    d.shuffle(labels);
    return std::string(labels.begin(), labels.end());
  };
  const auto leaf = [&](const char* name, const std::string& labels, dtype type) {
    shape own;
    for (const char each : labels) own.push_back(extents[static_cast<int>(each)]);
    made.leaves[name] = oracle::random_tensor(own, seed * 8 + labels.size() + *name % 4, -1, 1, type);
    return d.chance(0.5) ? g.parameter(name, type, own) : g.input(name, type, own);
  };
  const auto in_f32 = [&](node_id id) { return g.cast(id, dtype::f32); };
  const std::string of_a = labels_of("bmk"), of_b = labels_of("bnk"), of_y = labels_of("bmn");
  node_id a = leaf("a", of_a, half ? dtype::f16 : dtype::f32), b = leaf("b", of_b, half ? dtype::f16 : dtype::f32);
  if (converted) a = in_f32(a), b = in_f32(b);
  // What its kernel may compute as it reads.
  dice start(seed ^ 0x57a7);
  const auto started = [&](node_id x, const std::string& labels) {
    const double what = start.unit();
    if (half || what < 0.4) return x;
    const shape own = g[x].extents;
    const std::uint32_t along_k = 1u << labels.find('k'), beside_k = ((1u << labels.size()) - 1) & ~along_k;
    if (what < 0.5) return g.map(scalar_op::tanh, {x});
    const auto over_k = [&](const char* name) { return g.expand_axes(leaf(name, "k", dtype::f32), own, beside_k); };
    if (what < 0.6) return g.multiply(x, over_k("scale"));
    if (what < 0.7) return g.multiply(x, leaf("gate", labels, dtype::f32));
    const node_id mean = samples::mean(g, g.multiply(x, x), along_k);
    const node_id factor = g.map(scalar_op::rsqrt, {g.add(mean, g.full_like(mean, 1e-2))});
    const node_id rows = g.multiply(x, g.expand_axes(factor, own, along_k));
    return what < 0.85 ? rows : g.multiply(rows, over_k("weight"));
  };
  if (start.chance(0.5))
    a = started(a, of_a);
  else
    b = started(b, of_b);
  node_id y = g.contract(a, b, of_a, of_b, of_y);
  // A second product that its kernel may compute beside it.
  dice pair(seed ^ 0x9a12);
  node_id beside = no_id;
  if (pair.chance(0.4)) {
    node_id right = leaf("right", of_b, half ? dtype::f16 : dtype::f32);
    if (converted) right = in_f32(right);
    beside = g.contract(a, right, of_a, of_b, of_y);
    if (pair.chance(0.3)) beside = g.add(beside, leaf("add", of_y, g[beside].type));
  }
  const double finish = d.unit();
  if (finish < 0.2)
    y = g.map(scalar_op::tanh, {y});
  else if (finish < 0.4)
    y = g.add(y, leaf("c", of_y, g[y].type));
  else if (finish < 0.5 && g[y].type == dtype::f16)
    y = in_f32(y);
  if (beside != no_id) {
    if (g[beside].type != g[y].type) beside = in_f32(beside);
    if (pair.chance(0.2)) g.add_output("first", y);
    if (pair.chance(0.2)) g.add_output("second", beside);
    const node_id gate = pair.chance(0.5) ? g.map(scalar_op::tanh, {y}) : y;
    y = pair.chance(0.8) ? g.multiply(gate, beside) : g.add(beside, gate);
  }
  // Its columns turned in pairs.
  const auto n = static_cast<int>(of_y.find('n'));
  if (beside == no_id && pair.chance(0.3) && extents['n'] % 2 == 0 && g[y].type == dtype::f32) {
    const shape own = g[y].extents;
    const bool is_last = pair.chance(0.3);  // the axis of two
    shape split;
    for (int axis = 0; axis < own.rank(); ++axis) {
      if (axis != n) split.push_back(own[axis]);
      if (axis == n) split.push_back(is_last ? own[n] / 2 : 2), split.push_back(is_last ? 2 : own[n] / 2);
    }
    const node_id halves = g.reshape(y, split);
    const auto factor = [&](const char* name) {
      made.leaves[name] = oracle::random_tensor(split, seed * 8 + *name % 4, -1, 1, dtype::f32);
      return g.input(name, dtype::f32, split);
    };
    const node_id partner = g.flip(halves, is_last ? n + 1 : n);
    y = g.reshape(g.add(g.multiply(halves, factor("cos")), g.multiply(partner, factor("sin"))), own);
  }
  g.add_output("y", y);
  return made;
}

kernels::step_values training_values(std::uint32_t step) {
  return {.step = step,
          .seed_low = 3,
          .seed_high = 4,
          .numbers = {0.0625f, 0.125f, 0.5f, 0.75f, 0.25f, 0.875f, 0.125f, 0.25f}};
}

void fuzz(std::uint64_t count, const check& run, const std::function<std::string(int, int, std::uint64_t)>& print) {
  const std::uint64_t alone = environment("MEGANEURA_FUZZ_SEED", 0);
  const std::uint64_t first = alone ? alone : environment("MEGANEURA_FUZZ_FIRST", 1);
  count = alone ? 1 : environment("MEGANEURA_FUZZ_COUNT", count);
  verdict all;
  const std::uint64_t most = environment("MEGANEURA_FUZZ_FAILURES", 10);
  std::uint64_t failures = 0;
  for (std::uint64_t seed = first; seed < first + count && failures < most; ++seed) {
    const int steps = 3 + static_cast<int>(seed % 18);
    const verdict v = attempt(run, seed, steps);
    all.compared += v.compared, all.unstable += v.unstable;
    if (!v.failed()) continue;
    ++failures;
    ADD_FAILURE() << shrunk(run, seed, steps, [&](int n, int output) { return print(n, output, seed); });
  }
  std::printf("%llu graphs from seed %llu: %zu values compared, %zu left out as unstable\n",
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(first), all.compared,
              all.unstable);
  if (failures == 0) {
    EXPECT_GT(all.compared, count / 2) << "a run that compares nothing shows nothing";
  }
  EXPECT_LE(all.unstable, all.compared / 4 + 20) << "most values must be worth comparing";
}

}  // namespace meganeura::inline MEGANEURA_ABI::support
