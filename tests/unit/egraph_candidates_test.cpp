// SPDX-License-Identifier: MIT
// Every node of every class, in a plan that has to have it: whatever is chosen computes the same.
#include <meganeura/core/hash.hpp>
#include <meganeura/fusion/cost.hpp>
#include <meganeura/fusion/saturated_graph.hpp>

#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>
#include <support/egraph_forms.hpp>
#include <support/egraph_sample_graphs.hpp>
#include <support/pair_samples.hpp>
#include <support/random_program.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace meganeura;
using egraph::enode_id;

struct tally {
  std::size_t plans = 0, circles = 0;  // circles: what may be chosen only where a plan has its class otherwise
  std::size_t pairs = 0, halves = 0, prologues = 0, attention = 0, gradients = 0, results = 0;

  void count(const egraph::engine& e, enode_id id) {
    ++plans;
    if (e.node(id).kind == op::attention) {
      ++attention, gradients += e.get<attention_attribute>(id).form != attention_form::output;
    }
    results += e.node(id).kind == op::result;
    if (e.node(id).kind != op::matmul) return;
    const auto& product = e.get<matmul_attribute>(id);
    pairs += product.paired, halves += product.half_distance != 0, prologues += !product.start.is_empty();
  }
  void print() const {
    std::printf(
        "%zu plans, %zu pairs, %zu halves, %zu prologues, %zu attention, %zu of them gradients, %zu results; %zu "
        "circles\n",
        plans, pairs, halves, prologues, attention, gradients, results, circles);
  }
};

/// Calls `compare(candidate, plan, value)` for every candidate of every class, in a plan whose other nodes are drawn.
template <class Compare>
void for_each_plan(const graph& source, const fusion::optimize_options& options, tally& all_of_them,
                   const Compare& compare) {
  fusion::optimize_report report;
  fusion::saturated_graph all = fusion::saturate(source, options, report);
  (void)fusion::choose(all, options);  // adds merged regions
  const egraph::engine& e = all.graph;
  support::egraph_forms forms(e);
  std::vector<bool> is_kernel(e.node_count());
  for (enode_id id{0}; id < e.node_count(); ++id)
    is_kernel[id] = !e.node(id).dead && std::isfinite(fusion::node_time(e, id, options.device).alone);
  auto compare_with = compare(forms.nodes);
  for (const auto& [id, form, value] : std::vector(forms.list)) {
    if (!is_kernel[id]) continue;
    const auto drawn = [&](enode_id other) {
      const double seconds = is_kernel[other] ? static_cast<double>(hash_combine(id, other) >> 40) * 1e-12 : INFINITY;
      return kernel_time{seconds, seconds};
    };
    const node_id plan = forms.plan(id, drawn);
    if (plan == no_id) {
      ++all_of_them.circles;
      continue;
    }
    all_of_them.count(e, id);
    compare_with(plan, value, [&] {
      return std::string(to_string(e.node(id).kind)) + " " + to_string(e.attribute_of(id)) + "\n versus " +
             to_string(forms.nodes[value].kind) + " " + to_string(forms.nodes.attribute_of(value));
    });
  }
}

void expect_all_plans_agree(const std::string& name, const graph& source, const fusion::optimize_options& options,
                            tally& all) {
  SCOPED_TRACE(name);
  const oracle::tensors<double> leaves = samples::random_leaves(source, 0.25, 1.5);
  for_each_plan(source, options, all, [&](const graph& nodes) {
    return [run = oracle::interpreter<double>(nodes, leaves)](node_id plan, node_id value, const auto& text) mutable {
      const oracle::tensor<double>&found = run.value(plan), &expected = run.value(value);
      const auto vanishes = [](double each) { return std::abs(each) < 1e-12; };  // a difference of equals
      if (std::ranges::all_of(found.values, vanishes) && std::ranges::all_of(expected.values, vanishes)) return;
      EXPECT_LE(oracle::relative_error(found, expected), samples::bound()) << text();
    };
  });
}

// Whatever kernels take.
fusion::optimize_options of_launches() {
  fusion::optimize_options options = samples::on_units();
  options.device.launch = {1, 1};
  options.schedule = 0;
  return options;
}

TEST(egraph_candidates, of_sample_graphs_agree) {
  tally all;
  fusion::optimize_options fast = samples::on_units();
  fast.precision = precision::fast;
  fast.fold = true;
  for (const auto& options : {fusion::optimize_options(), samples::on_units(), fast, of_launches()}) {
    for (const samples::named_graph& each : samples::sample_graphs())
      expect_all_plans_agree(each.name, each.source, options, all);
  }
  all.print();
  EXPECT_GT(all.plans, 1000u);
  EXPECT_GT(all.attention, 10u);
  EXPECT_GT(all.results, 10u);
}

TEST(egraph_candidates, of_pairs_and_rotary_embeddings_and_prologues_agree) {
  tally all;
  const support::sizes size{9, 12, 16};
  for (const auto* samples : {&support::pairs(), &support::rotary_products()}) {
    for (const support::named_pair& each : *samples) {
      graph g;
      each.make(g, size);
      expect_all_plans_agree(each.name, g, of_launches(), all);
    }
  }
  for (const support::named& each : support::spellings())
    expect_all_plans_agree(each.name, support::product_of(each.make, size, true), of_launches(), all);
  all.print();
  EXPECT_GT(all.pairs, 10u);
  EXPECT_GT(all.halves, 10u);
  EXPECT_GT(all.prologues, 10u);
}

TEST(egraph_candidates, of_random_graphs_agree) {
  tally all;
  const support::check run = [&](std::uint64_t seed, int steps, int only_output, support::verdict& v) {
    const auto s = support::make_sample(seed, steps, only_output);
    if (!s) return;
    const bool exact = s->optimize.tolerance == egraph::exactness::exact;
    for_each_plan(s->source, s->optimize, all, [&](const graph& nodes) {
      return [truth = support::stability(nodes, s->leaves, exact, support::training_values(1)), &v](
                 node_id plan, node_id value, const auto& text) mutable { truth.expect_equal(plan, value, v, text); };
    });
  };
  support::fuzz(150, run, [](int steps, int output, std::uint64_t seed) {
    const auto s = support::make_sample(seed, steps, output);
    return s ? to_text(s->source) : std::string();
  });
  all.print();
}

}  // namespace
