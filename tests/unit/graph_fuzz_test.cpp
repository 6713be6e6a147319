// SPDX-License-Identifier: MIT
// Random graphs: every form the e-graph holds, the extracted graph, the plan on bytes, and gradients, against the oracle.
//
// MEGANEURA_FUZZ_COUNT=n   graphs of each test instead of the few of an ordinary run
// MEGANEURA_FUZZ_FIRST=s   the first seed, 1 otherwise; seeds count up
// MEGANEURA_FUZZ_SEED=s    this one graph alone, from the seed a failure prints
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/egraph/optimize.hpp>
#include <meganeura/plan/plan.hpp>

#include <oracle/gradient_check.hpp>
#include <oracle/interpreter.hpp>
#include <support/plan_executor.hpp>
#include <support/random_graph.hpp>
#include <support/stability.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace meganeura;
using support::dice;
using support::leaf_values;
using support::nth_node;
using support::random_graph;
using support::random_graph_options;
using support::verdict;

struct sample {
  graph source;
  oracle::tensors<double> leaves;
  egraph::optimize_options optimize;
  plan::plan_options plan;
};

// What waits for a mend elsewhere: left out of the graphs, or a failure of these words not counted. Each entry goes when
// its mend comes; MEGANEURA_FUZZ_ALL=1 looks at everything.
constexpr std::string_view left_out[] = {
    "constants of halves", // f16 constants that f16 has to round
    "reassociated steps",  // comparisons and roundings of values that two kernels compute in two forms
};
constexpr std::string_view known_failures[] = {
    "is outside of",                      // an index that a later step makes stray
    "which is no convolution",            // an epilogue of a convolution that reshapes
    "both operands must have one type",   // an epilogue after a conversion to integers
    "operands must be floats; cast them",
    "no kernel computes",                 // a fusion given up half way
};
bool all_wanted() {
  static const bool all = std::getenv("MEGANEURA_FUZZ_ALL") != nullptr;
  return all;
}
bool awaited(std::string_view what) { return !all_wanted() && std::ranges::count(left_out, what) > 0; }
bool known(const std::string& failure) {
  return !all_wanted() && std::ranges::any_of(known_failures, [&](std::string_view text) {
    return failure.find(text) != std::string::npos;
  });
}

// ---- what surrounds the random nodes

void add_effects(graph& g, const std::vector<node_id>& pool, dice& d) {
  for (node_id state : g.leaves(op::state)) {
    std::vector<node_id> values, states;
    for (node_id id : pool) {
      if (g[id].extents != g[state].extents || g[id].type != g[state].type) continue;
      (g[id].kind == op::state ? states : values).push_back(id);
    }
    if (d.chance(0.2) || awaited("state order")) continue;
    if (values.empty() && states.size() < 2 && d.chance(0.9)) continue;  // a state assigned to itself
    const bool chained = values.empty() || (d.chance(0.4) && !states.empty());
    g.assign(state, d.pick(chained ? states : values));
    if (d.chance(0.3) && !awaited("state order")) g.add_output(g.get<leaf_attribute>(state).name + " before", state);
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
    if (g[id].extents == extents && g[id].type == dtype::f32) values.push_back(id);
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
  if (d.chance(0.4) && !awaited("state order")) {
    std::vector<node_id> pairs;
    for (std::size_t i = 0; i < wrt.size(); ++i) pairs.insert(pairs.end(), {wrt[i], slopes[i]});
    static const std::vector<optimizer_attribute> kinds{
        {optimizer_kind::sgd, false}, {optimizer_kind::sgd, true}, {optimizer_kind::adam}, {optimizer_kind::adamw}};
    g.optimizer_step(d.pick(kinds), pairs);
  }
}

egraph::optimize_options random_optimize(dice& d, bool exact) {
  egraph::optimize_options options;
  if (exact) options.tolerance = egraph::exactness::exact;
  if (d.chance(0.5)) return options;
  options.algebra = d.chance(0.8), options.fusion = d.chance(0.8), options.epilogues = d.chance(0.8);
  options.region = {static_cast<std::size_t>(d.between(4, 96)), static_cast<std::size_t>(d.between(7, 12)),
                    static_cast<std::size_t>(d.between(6, 10))};
  options.region_forms = static_cast<std::size_t>(d.between(1, 16));
  const auto scale = [&] { return std::pow(10, 6 * d.unit() - 3); };
  egraph::cost_model& m = options.model;
  m.bandwidth *= scale(), m.scalar_flops *= scale(), m.matmul_flops *= scale();
  m.launch *= d.chance(0.2) ? 0 : scale();
  m.transcendental = 1 + 30 * d.unit(), m.strided_read = 1 + 8 * d.unit();
  return options;
}

bool has_steps(const graph& g) {
  for (std::size_t i = 0; i < g.size(); ++i) {
    const auto* map = std::get_if<map_attribute>(&g.attribute_of(nth_node(i)));
    if (!map) continue;
    for (const scalar_node& n : map->program.nodes) {
      const bool rounds = n.op == scalar_op::floor || n.op == scalar_op::ceil || n.op == scalar_op::round;
      if (is_comparison(n.op) || rounds || n.op == scalar_op::sign || n.op == scalar_op::convert) return true;
    }
  }
  return false;
}

// `steps` and `output` shrink a failing graph: fewer nodes, one output.
std::optional<sample> make_sample(std::uint64_t seed, int steps, int only_output = -1) {
  dice d(seed ^ 0x5eed);
  random_graph_options options{.steps = steps, .halves = d.chance(0.4), .integers = d.chance(0.6),
                               .odd_halves = !awaited("constants of halves")};
  const double kind = d.unit();
  options.values = kind < 0.45 ? leaf_values::general : kind < 0.8 ? leaf_values::quarters : leaf_values::special;
  random_graph made(seed, options);
  sample result;
  graph& g = made.nodes();
  int number = 0;
  for (node_id id : made.ends()) {
    if (awaited("state order") && (g[id].kind == op::state || g[id].kind == op::parameter)) continue;
    if (only_output < 0 || number == only_output) g.add_output("end" + std::to_string(number), id);
    ++number;
  }
  if (only_output >= number) return std::nullopt;
  if (only_output < 0 && d.chance(0.2) && !awaited("state order")) g.add_output("again", d.pick(made.pool()));
  const bool special = options.values == leaf_values::special;
  if (d.chance(0.3) && !special) add_training(g, d.pick(made.pool()), made.leaves(), d);
  if (d.chance(0.7)) add_effects(g, made.pool(), d);
  if (d.chance(0.15) && !awaited("state order")) add_state_pair(made, d);
  if (g.outputs().empty()) return std::nullopt;
  result.source = pruned(g);
  result.leaves = made.leaves();
  const bool exact = special || (awaited("reassociated steps") && has_steps(result.source)) || d.chance(0.2);
  result.optimize = random_optimize(d, exact);
  result.plan = {.share_memory = d.chance(0.9),
                 .late_scheduling = d.chance(0.8),
                 .max_binding_bytes = d.chance(0.7) ? std::uint64_t{1} << 31 : std::uint64_t{512},
                 .in_place = d.chance(0.9)};
  return result;
}

kernels::step_values training_values(std::uint32_t step) {
  return {.step = step,
          .seed_low = 3,
          .seed_high = 4,
          .learning_rate = 0.0625f,
          .momentum = 0.5f,
          .beta1 = 0.75f,
          .beta2 = 0.875f,
          .epsilon = 0.25f,
          .weight_decay = 0.125f,
          .bias_correction1 = 0.25f,
          .bias_correction2 = 0.125f};
}

// ---- (a) every form of every value, and what was extracted

std::string text_of(const graph& g, node_id id) {
  return std::string(to_string(g[id].kind)) + " " + to_string(g[id].extents) + " " + to_string(g.attribute_of(id));
}

void check_forms(const sample& s, verdict& v) {
  egraph::optimize_report report;
  const egraph::saturated_graph all = egraph::saturate(s.source, s.optimize, report);
  const egraph::engine& e = all.graph;
  graph g;
  std::vector<node_id> value(e.class_slots(), no_node);  // of each class, in g
  const auto nth = [](std::size_t i) { return static_cast<egraph::enode_id>(static_cast<std::uint32_t>(i)); };
  const auto copy = [&](egraph::enode_id id) {
    std::vector<node_id> operands;
    for (egraph::class_id operand : e.operands(id)) operands.push_back(value[e.find(operand)]);
    for (node_id operand : operands) {
      if (operand == no_node) return no_node;
    }
    const egraph::class_id own = e.find(e.node(id).owner);
    return g.add_node(e.node(id).kind, e.node(id).type, e.extents(own), e.attribute_of(id), operands);
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < e.node_count(); ++i) {
      const egraph::class_id own = e.find(e.node(nth(i)).owner);
      if (value[own] != no_node || info(e.node(nth(i)).kind).stage == op_stage::effect) continue;
      value[own] = copy(nth(i));
      changed = changed || value[own] != no_node;
    }
  }
  support::stability truth(g, s.leaves, s.optimize.tolerance == egraph::exactness::exact, training_values(1));
  for (std::size_t i = 0; i < e.node_count(); ++i) {
    const egraph::class_id own = e.find(e.node(nth(i)).owner);
    if (e.node(nth(i)).dead || info(e.node(nth(i)).kind).stage == op_stage::effect) continue;
    const node_id form = copy(nth(i));
    if (form == no_node) {
      v.fail("form " + std::string(to_string(e.node(nth(i)).kind)) + " reads a class nothing computes");
    } else if (form != value[own]) {
      try {
        truth.expect_equal(form, value[own], v, [&] { return text_of(g, form) + "\n versus " + text_of(g, value[own]); });
      } catch (const error& broken) {
        v.fail(std::string("form refused: ") + broken.what() + "\n in " + text_of(g, form));
      }
    }
  }
}

void check_extracted(const sample& s, const graph& chosen, verdict& v) {
  const support::stable_run truth(s.source, s.leaves, s.optimize.tolerance == egraph::exactness::exact,
                                  training_values(1));
  oracle::interpreter<double> run(chosen, s.leaves, training_values(1));
  const auto results = run.run();
  for (const auto& [name, unused] : truth.outputs()) truth.expect_output(name, results, v);
  for (const auto& [name, unused] : truth.leaves()) truth.expect_leaf(name, run.leaves, v);
}

// ---- (b) the plan on bytes, bit by bit

bool same_bits(const oracle::tensor<double>& a, const oracle::tensor<double>& b) {
  if (a.extents != b.extents || a.values.size() != b.values.size()) return false;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    const double x = a.values[i], y = b.values[i];
    if (!is_float(b.type) && !(std::fabs(y) < 0x1p31)) continue;  // converted from beyond the integers: undefined
    if (x != y && !(std::isnan(x) && std::isnan(y))) return false;
  }
  return true;
}

void check_plan(const sample& s, const graph& chosen, std::uint64_t seed, verdict& v) {
  const plan::execution_plan p = plan::make_plan(chosen, plan::make_layout(s.source, op::parameter), s.plan);
  plan::verify(p);
  support::plan_executor bytes(p, seed);
  oracle::interpreter<double> truth(p.implementation, s.leaves);
  truth.on_stored = [](node_id, oracle::tensor<double>& value) { support::round_as_memory(value); };
  for (const auto& [name, value] : s.leaves) bytes.set_leaf(name, value);
  for (std::uint32_t step = 1; step <= 3; ++step) {
    truth.step = training_values(step);
    truth.clear();
    const auto expected = truth.run();
    for (oracle::tensors<double>* kept : {&truth.leaves, &truth.first_moments, &truth.second_moments}) {
      for (auto& [name, value] : *kept) support::round_as_memory(value);
    }
    const auto found = bytes.run(training_values(step));
    for (const auto& [name, value] : expected) {
      ++v.compared;
      if (!same_bits(found.at(name), value)) v.fail("plan: output \"" + name + "\" of step " + std::to_string(step));
    }
    for (const auto& [name, value] : bytes.leaves()) {
      ++v.compared;
      if (!same_bits(truth.leaves.at(name), value))
        v.fail("plan: \"" + name + "\" after step " + std::to_string(step));
    }
  }
}

// ---- (c) gradients along a random direction

// Differences see through stop_gradient and the rounding to f16, which derivatives do not.
random_graph_options smooth_options(int steps) {
  return {.steps = steps, .halves = false, .integers = false, .states = false, .stop_gradients = false,
          .random_streams = false};
}

void check_gradient(std::uint64_t seed, int steps, verdict& v) {
  dice d(seed ^ 0x97ad);
  random_graph made(seed, smooth_options(steps));
  graph& g = made.nodes();
  std::vector<node_id> floats;
  for (node_id id : made.ends()) {
    if (g[id].type == dtype::f32) floats.push_back(id);
  }
  if (floats.empty()) return;
  oracle::tensors<double> leaves = made.leaves();
  node_id loss = no_node;
  std::uint64_t number = 0;
  for (node_id id : floats) {
    if (loss != no_node && d.chance(0.5)) continue;
    const node_id term = oracle::weighted_sum(g, id, leaves, ++number);
    loss = loss == no_node ? term : g.add(loss, term);
  }
  const std::vector<node_id> wrt = g.leaves(op::parameter);
  std::vector<node_id> slopes;
  try {
    slopes = gradients(g, loss, wrt);
  } catch (const error& refused) {
    if (refused.category() == error_category::internal) v.fail(refused.what());
    return;
  }
  support::compare_directional(g, loss, wrt, slopes, leaves, d, v);
}

// ---- running, replaying, shrinking

std::uint64_t environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 0) : otherwise;
}

using check = std::function<void(std::uint64_t seed, int steps, int only_output, verdict&)>;

verdict attempt(const check& run, std::uint64_t seed, int steps, int only_output = -1) {
  verdict v;
  try {
    run(seed, steps, only_output, v);
  } catch (const std::exception& broken) {
    v.fail(std::string("throws: ") + broken.what());
  }
  if (known(v.text)) v = {};
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
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(first), all.compared, all.unstable);
  EXPECT_LE(all.unstable, all.compared / 4 + 20) << "most values must be worth comparing";
}

TEST(graph_fuzz, forms_extraction_and_plans_agree_with_the_source) {
  const check run = [](std::uint64_t seed, int steps, int only_output, verdict& v) {
    const auto s = make_sample(seed, steps, only_output);
    if (!s) return;
    check_forms(*s, v);
    if (v.failed()) return;
    const graph chosen = egraph::optimize(s->source, s->optimize);
    check_extracted(*s, chosen, v);
    check_plan(*s, chosen, seed, v);
  };
  fuzz(1500, run, [](int steps, int output, std::uint64_t seed) {
    const auto s = make_sample(seed, steps, output);
    return s ? to_text(s->source) : std::string();
  });
}

TEST(graph_fuzz, gradients_agree_with_differences) {
  const check run = [](std::uint64_t seed, int steps, int, verdict& v) { check_gradient(seed, steps, v); };
  fuzz(1500, run, [](int steps, int, std::uint64_t seed) {
    random_graph made(seed, smooth_options(steps));
    return to_text(made.nodes());
  });
}

}  // namespace
