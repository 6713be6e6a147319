// SPDX-License-Identifier: MIT
// Random graphs: every form the e-graph holds, the extracted graph, the plan on bytes, and gradients, against the
// oracle.
//
// MEGANEURA_FUZZ_COUNT=n   graphs of each test instead of the few of an ordinary run
// MEGANEURA_FUZZ_FIRST=s   the first seed, 1 otherwise; seeds count up
// MEGANEURA_FUZZ_SEED=s    this one graph alone, from the seed a failure prints
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/egraph/extract.hpp>
#include <meganeura/egraph/saturate.hpp>
#include <meganeura/fusion/saturated_graph.hpp>
#include <meganeura/plan/plan.hpp>

#include <oracle/gradient_check.hpp>
#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>
#include <support/egraph_forms.hpp>
#include <support/plan_executor.hpp>
#include <support/random_program.hpp>

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace meganeura;
using support::check;
using support::dice;
using support::make_sample;
using support::random_graph;
using support::random_graph_options;
using support::sample;
using support::training_values;
using support::verdict;

// ---- (a) every form of every value, and what was extracted

std::string text_of(const graph& g, node_id id) {
  return std::string(to_string(g[id].kind)) + " " + to_string(g[id].extents) + " " + to_string(g.attribute_of(id));
}

void check_forms(const sample& s, verdict& v) {
  fusion::optimize_report report;
  fusion::saturated_graph all = fusion::saturate(s.source, s.optimize, report);
  (void)fusion::choose(all, s.optimize);  // adds merged regions
  const egraph::engine& e = all.graph;
  const support::egraph_forms forms(e);
  const graph& g = forms.nodes;
  support::stability truth(g, s.leaves, s.optimize.tolerance == egraph::exactness::exact, training_values(1));
  for (const support::egraph_form& each : forms.list) {
    const node_id form = each.node, value = each.value;
    if (form == no_id) {
      v.fail("form " + std::string(to_string(e.node(each.id).kind)) + " reads a class nothing computes");
      continue;
    }
    try {
      truth.expect_equal(form, value, v, [&] { return text_of(g, form) + "\n versus " + text_of(g, value); });
    } catch (const error& broken) {
      v.fail(std::string("form refused: ") + broken.what() + "\n in " + text_of(g, form));
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

// Products on matrix units, with what they may compute as they read.
TEST(graph_fuzz, every_form_of_a_product_is_equal) {
  const auto make = [](std::uint64_t seed) {
    sample s = support::make_product_sample(seed, 24);
    s.optimize.device.matrix_units = matrix_units::cooperative;
    s.optimize.device.max_shared_bytes = 49152, s.optimize.device.max_invocations = 1024;
    s.optimize.device.scalar_flops = 1e9;             // else regions would multiply what is small
    if (seed % 3) s.optimize.device.launch = {1, 1};  // few kernels, whatever they take
    s.optimize.schedule = seed;
    if (seed % 2) s.optimize.precision = precision::fast;
    return s;
  };
  std::size_t prologues = 0, pairs = 0, kept = 0, turned = 0;
  const check run = [&](std::uint64_t seed, int, int, verdict& v) {
    const sample s = make(seed);
    check_forms(s, v);
    const graph chosen = fusion::optimize(s.source, s.optimize);
    for (node_id id{0}; id < chosen.size(); ++id) {
      if (chosen[id].kind != op::matmul) continue;
      const auto& product = chosen.get<matmul_attribute>(id);
      prologues += !product.start.is_empty(), pairs += product.paired, kept += !product.further.empty();
      turned += product.half_distance != 0;
    }
    check_extracted(s, chosen, v);
  };
  support::fuzz(200, run, [&](int, int, std::uint64_t seed) { return to_text(make(seed).source); });
  EXPECT_GT(prologues, 10u);
  EXPECT_GT(pairs, 10u);
  EXPECT_GT(kept, 2u);
  EXPECT_GT(turned, 2u);
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
  plan::plan_options planning = s.plan;
  dice d(seed ^ 0x71e5);
  if (d.chance(0.7)) {
    planning.launch = {1e-6, 1e-7};
    for (node_id id{0}; id < chosen.size(); ++id) {
      const double alone = static_cast<double>(d.below(100)) * 1e-6;
      planning.times.push_back({alone, alone * static_cast<double>(d.below(100)) * 0.01});
    }
  }
  const plan::execution_plan p = plan::make_plan(chosen, plan::make_layout(s.source), planning);
  plan::verify(p);
  support::plan_executor bytes(p, seed);
  oracle::interpreter<double> truth(p.implementation, s.leaves);
  truth.on_stored = [](node_id, oracle::tensor<double>& value) { support::round_as_memory(value); };
  for (const auto& [name, value] : s.leaves) bytes.set_leaf(name, value);
  for (std::uint32_t step = 1; step <= 3; ++step) {
    truth.step = training_values(step);
    truth.clear();
    const auto expected = truth.run();
    for (auto& [name, value] : truth.leaves) support::round_as_memory(value);
    for (oracle::tensors<double>& kept : truth.moments) {
      for (auto& [name, value] : kept) support::round_as_memory(value);
    }
    const auto found = bytes.run(training_values(step));
    for (const auto& [name, value] : expected) {
      ++v.compared;
      if (!same_bits(found.at(name), value)) v.fail("plan: output \"" + name + "\" of step " + std::to_string(step));
    }
    for (const auto& [name, value] : bytes.leaves()) {
      ++v.compared;
      if (!same_bits(truth.leaves.at(name), value)) v.fail("plan: \"" + name + "\" after step " + std::to_string(step));
    }
  }
}

// ---- (c) gradients along a random direction

// Differences see through stop_gradient and the rounding to f16, which derivatives do not.
random_graph_options smooth_options(int steps) {
  return {.steps = steps,
          .halves = false,
          .integers = false,
          .states = false,
          .stop_gradients = false,
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
  node_id loss = no_id;
  std::uint64_t number = 0;
  for (node_id id : floats) {
    if (loss != no_id && d.chance(0.5)) continue;
    const node_id term = oracle::weighted_sum(g, id, leaves, ++number);
    loss = loss == no_id ? term : g.add(loss, term);
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

TEST(graph_fuzz, forms_extraction_and_plans_agree_with_the_source) {
  const check run = [](std::uint64_t seed, int steps, int only_output, verdict& v) {
    auto s = make_sample(seed, steps, only_output);
    if (!s) return;
    s->optimize.fold = s->plan.fold;
    check_forms(*s, v);
    if (v.failed()) return;
    const graph chosen = fusion::optimize(s->source, s->optimize);
    check_extracted(*s, chosen, v);
    check_plan(*s, chosen, seed, v);
  };
  support::fuzz(1500, run, [](int steps, int output, std::uint64_t seed) {
    const auto s = make_sample(seed, steps, output);
    return s ? to_text(s->source) : std::string();
  });
}

// A convolution is one sum as such and another as a product: what several things decide by it is read from one of them.
TEST(graph_fuzz, what_a_convolution_decides_comes_of_one_sum) {
  verdict v;
  for (const auto form : {convolution_attribute::output, convolution_attribute::input}) {
    sample s;
    graph& g = s.source;
    const auto leaf = [&](const char* name, const shape& extents, std::uint64_t seed) {
      s.leaves[name] = oracle::random_tensor(extents, seed, -3, 3);
      return g.input(name, dtype::f32, extents);
    };
    const bool by_input = form == convolution_attribute::input;
    const shape image{2, 4, 5, 6}, other = by_input ? shape{2, 4, 3, 6} : shape{2, 4, 9, 6};
    const node_id x = leaf("x", other, 1), w = leaf("w", {4, 4, 3, 3}, 2);
    const node_id y =
        g.convolution(x, w, {.form = form, .stride = {2, 1}, .pad_low = {1, 1}, .pad_high = {1, 1}}, image);
    const auto are_equal = [&](node_id a, node_id b) {
      scalar_builder made;
      const scalar_ref is = made.binary(scalar_op::equal, made.argument(0, dtype::f32), made.argument(1, dtype::f32));
      const node_id operands[] = {a, b};
      return g.map(made.finish(made.select(is, made.constant(1), made.constant(0))), operands, dtype::f32);
    };
    const node_id positive = g.map(scalar_op::maximum, {y, g.expand(g.constant(0), image)});
    g.add_output("kept", are_equal(positive, y));
    const node_id squares = g.map(scalar_op::multiply, {y, positive});
    const node_id most = g.reduce(reduce_kind::max, squares, 1u << 3);
    g.add_output("most", are_equal(squares, g.expand(g.reshape(most, {2, 4, 5, 1}), image)));
    g.add_output("sum", g.contract(y, leaf("z", {4, 2}, 3), "ncyx", "co", "nyxo"));
    check_forms(s, v);
  }
  EXPECT_FALSE(v.failed()) << v.text;
  EXPECT_GT(v.compared, 40u);
}

TEST(graph_fuzz, kernels_with_several_results_and_attention_are_among_what_is_drawn) {
  int several = 0, attention = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const auto s = make_sample(seed, 18);
    if (!s) continue;
    const graph chosen = fusion::optimize(s->source, s->optimize);
    for (node_id id{0}; id < chosen.size(); ++id) {
      several += chosen.has_several_results(id);
      attention += chosen[id].kind == op::attention;
    }
  }
  EXPECT_GE(several, 10);
  EXPECT_GE(attention, 3);
}

// A device in f32 that is as wrong as Vulkan permits: what the analysis of graphs has to forgive, and no more.
void check_inaccurate_device(const sample& s, std::uint64_t seed, verdict& v) {
  oracle::interpreter<double> device(s.source, s.leaves, training_values(1));
  support::disturb(s.source, device, true, 1000 + seed, 1);
  const auto operation = device.on_scalar;
  const auto storage = device.on_stored;
  device.on_scalar = [&](const scalar_node& n, dtype type, double a, double b, double& result) {
    operation(n, type, a, b, result);
    if (is_float(n.type)) result = static_cast<double>(static_cast<float>(result));
  };
  device.on_stored = [&](node_id id, oracle::tensor<double>& value) {
    storage(id, value);
    support::round_as_memory(value);
  };
  const auto found = device.run();
  const support::stable_run truth(s.source, s.leaves, s.optimize.tolerance == egraph::exactness::exact,
                                  training_values(1));
  for (const auto& [name, value] : truth.outputs())
    truth.expect_output(name, found, v, 4 * oracle::tolerance(value.type));
}

TEST(graph_fuzz, a_device_as_inaccurate_as_permitted_agrees) {
  const check run = [](std::uint64_t seed, int steps, int only_output, verdict& v) {
    const auto s = make_sample(seed, steps, only_output, false);
    if (s) check_inaccurate_device(*s, seed, v);
  };
  support::fuzz(300, run, [](int steps, int output, std::uint64_t seed) {
    const auto s = make_sample(seed, steps, output, false);
    return s ? to_text(s->source) : std::string();
  });
}

TEST(graph_fuzz, gradients_agree_with_differences) {
  const check run = [](std::uint64_t seed, int steps, int, verdict& v) { check_gradient(seed, steps, v); };
  support::fuzz(1500, run, [](int steps, int, std::uint64_t seed) {
    random_graph made(seed, smooth_options(steps));
    return to_text(made.nodes());
  });
}

TEST(graph_fuzz, a_run_that_compares_nothing_fails) {
  const auto idle = [] {
    support::fuzz(
        3, [](std::uint64_t, int, int, verdict&) {}, [](int, int, std::uint64_t) { return std::string(); });
  };
  EXPECT_NONFATAL_FAILURE(idle(), "a run that compares nothing shows nothing");
}

}  // namespace
