// SPDX-License-Identifier: MIT
// Gradients of attention in plans: of which spellings they become two kernels, of which not, and that they are the
// same.
#include <meganeura/fusion/optimize.hpp>
#include <meganeura/meganeura.hpp>

#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>
#include <support/egraph_sample_graphs.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

namespace {

using namespace meganeura;

// Launches decide: one kernel is better than three.
fusion::optimize_options launches_decide() {
  fusion::optimize_options options;
  options.device.launch = {1, 1};
  options.device.max_shared_bytes = 49152;
  options.device.parallel = false;  // no sum is split
  return options;
}

std::size_t count(const graph& g, attention_form form) {
  std::size_t found = 0;
  for (node_id id{0}; id < g.size(); ++id)
    found += g[id].kind == op::attention && g.get<attention_attribute>(id).form == form;
  return found;
}

struct operands {
  node_value q, k, v;
};
operands make_operands(graph& g, shape q, shape k, shape v) {
  return {
      {g, g.parameter("q", dtype::f32, q)}, {g, g.parameter("k", dtype::f32, k)}, {g, g.parameter("v", dtype::f32, v)}};
}

// A loss that weighs every element of y by an input, and the gradients of all parameters.
void add_gradients(graph& g, node_id y, node_id more = no_id) {
  const node_id by = g.input("dy", dtype::f32, g[y].extents);
  const std::uint32_t all = (1u << g[y].extents.rank()) - 1;
  node_id loss = g.reduce(reduce_kind::sum, g.multiply(y, by), all);
  if (more != no_id) loss = g.add(loss, more);
  g.add_output("loss", loss);
  const std::vector<node_id> wrt = g.leaves(op::parameter);
  const std::vector<node_id> found = gradients(g, loss, wrt);
  for (std::size_t i = 0; i < wrt.size(); ++i) g.add_output("d" + g.get<leaf_attribute>(wrt[i]).name, found[i]);
}

struct spelling {
  const char* name;
  std::function<void(graph&)> make;
};

void with_options(graph& g, gqa_options options, std::int64_t t, std::int64_t s, std::int64_t h, std::int64_t kv,
                  std::int64_t w, std::int64_t c) {
  const operands all = make_operands(g, {t, h, w}, {s, kv, w}, {s, kv, c});
  add_gradients(g, attend(all.q, all.k, all.v, options));
}

node_id exp_of_distance(graph& g, node_id s, double scale = 1) {
  const node_id largest = g.stop_gradient(samples::row_value(g, reduce_kind::max, s));
  return g.map(scalar_op::exp, {g.multiply(g.subtract(s, largest), g.full_like(s, scale))});
}
template <class Weigh>
void by_hand(graph& g, Weigh weigh) {
  const operands all = make_operands(g, {5, 4}, {7, 4}, {7, 3});
  add_gradients(g, g.contract(weigh(g.contract(all.q, all.k, "id", "jd", "ij")), all.v, "ij", "jc", "ic"));
}

const std::vector<spelling> found{
    {"plain", [](graph& g) { with_options(g, {}, 6, 6, 2, 2, 8, 8); }},
    {"causal", [](graph& g) { with_options(g, {.causal = true}, 6, 6, 2, 2, 8, 8); }},
    {"grouped", [](graph& g) { with_options(g, {}, 6, 5, 6, 2, 8, 8); }},
    {"grouped and causal", [](graph& g) { with_options(g, {.causal = true}, 6, 6, 6, 2, 8, 8); }},
    {"cross", [](graph& g) { with_options(g, {}, 3, 9, 2, 2, 5, 7); }},
    {"behind a past", [](graph& g) { with_options(g, {.causal = true}, 3, 9, 2, 2, 5, 7); }},
    {"alibi", [](graph& g) { with_options(g, {.causal = true, .alibi = true}, 6, 6, 4, 2, 8, 8); }},
    {"one head", [](graph& g) { with_options(g, {}, 5, 7, 1, 1, 4, 4); }},
    {"a batch",
     [](graph& g) {
       const operands all = make_operands(g, {2, 6, 4, 8}, {2, 5, 2, 8}, {2, 5, 2, 8});
       add_gradients(g, attend(all.q, all.k, all.v, gqa_options{}));
     }},
    {"a mask of numbers",
     [](graph& g) {
       const operands all = make_operands(g, {5, 2, 4}, {7, 2, 4}, {7, 2, 3});
       const node_id bias = g.input("bias", dtype::f32, {5, 7});
       const node_id scores = g.contract(all.q, all.k, "ihd", "jhd", "hij");
       const node_id biased = g.add(scores, g.expand_axes(bias, {2, 5, 7}, 1));
       add_gradients(g, g.contract(samples::softmax(g, biased), all.v, "hij", "jhc", "ihc"));
     }},
    {"within a window", [](graph& g) { with_options(g, {.causal = true, .sliding_window = 3}, 6, 6, 4, 2, 8, 8); }},
    {"a window ahead of a short past", [](graph& g) { with_options(g, {.sliding_window = 2}, 9, 3, 2, 2, 5, 7); }},
    {"key lengths",
     [](graph& g) {
       const operands all = make_operands(g, {2, 6, 4, 8}, {2, 5, 2, 8}, {2, 5, 2, 8});
       const node_value lengths(g, g.input("lengths", dtype::i32, {2}));
       add_gradients(g, attend(all.q, all.k, all.v, key_lengths(lengths), gqa_options{}));
     }},
    {"a mask of conditions",
     [](graph& g) {
       const operands all = make_operands(g, {6, 2, 8}, {7, 2, 8}, {7, 2, 8});
       const node_value mask(g, g.input("mask", dtype::i32, {6, 7}));
       add_gradients(g, attend(all.q, all.k, all.v, attn_mask(mask), gqa_options{.softcap = 5}));
     }},
    {"sinks that are learned, a window and a mask",
     [](graph& g) {
       const operands all = make_operands(g, {6, 4, 8}, {6, 2, 8}, {6, 2, 8});
       const node_value sinks(g, g.parameter("sinks", dtype::f32, {4})), mask(g, g.input("mask", dtype::f32, {6, 6}));
       const gqa_options options{.causal = true, .sliding_window = 3};
       add_gradients(g, attend(all.q, all.k, all.v, attn_mask(mask), attention_sinks(sinks), options));
     }},
    {"keys repeated for groups of heads",
     [](graph& g) {
       const operands all = make_operands(g, {2, 6, 5, 8}, {2, 2, 7, 8}, {2, 2, 7, 8});
       const node_value k = repeat_interleave(all.k, 1, 3), v = repeat_interleave(all.v, 1, 3);
       add_gradients(g, matmul(softmax(matmul(all.q, transpose(k)) * 0.5f, -1), v));
     }},
    {"heads in groups",
     [](graph& g) {
       const operands all = make_operands(g, {2, 2, 3, 5, 8}, {2, 2, 1, 5, 8}, {2, 2, 1, 5, 8});
       const node_value scores = matmul(all.q, transpose(all.k));
       const node_value query = arange_like(scores, -2), key = arange_like(scores, -1);
       const node_value seen = select(less_equal(key, query), scores, -std::numeric_limits<float>::infinity());
       add_gradients(g, matmul(softmax(seen, -1), all.v));
     }},
    {"slopes that are given",
     [](graph& g) {
       const operands all = make_operands(g, {2, 3, 5, 8}, {2, 3, 5, 8}, {2, 3, 5, 8});
       const node_value slopes(g, g.input("slopes", dtype::f32, {3, 1, 1})), scores = matmul(all.q, transpose(all.k));
       const node_value distance = cast<dtype::f32>(arange_like(scores, -1) - arange_like(scores, -2));
       add_gradients(g, matmul(softmax(scores + slopes * distance, -1), all.v));
     }},
    {"keys alike along their width",
     [](graph& g) {
       const node_id key = g.parameter("k", dtype::f32, {7, 1});
       const operands all{{g, g.parameter("q", dtype::f32, {5, 4})},
                          {g, g.expand(key, {7, 4})},
                          {g, g.parameter("v", dtype::f32, {7, 4})}};
       const node_id scores = g.contract(all.q, all.k, "id", "jd", "ij");
       add_gradients(g, g.contract(samples::softmax(g, scores), all.v, "ij", "jc", "ic"));
     }},
    {"times the reciprocal of the sum",
     [](graph& g) {
       by_hand(g, [&](node_id s) {
         const node_id e = exp_of_distance(g, s);
         const node_id inverse = g.map(scalar_op::reciprocal, {g.reduce(reduce_kind::sum, e, 2)});
         return g.multiply(e, g.expand_axes(inverse, {5, 7}, 2));
       });
     }},
    {"one over the sum",
     [](graph& g) {
       by_hand(g, [&](node_id s) {
         const node_id e = exp_of_distance(g, s), sum = g.reduce(reduce_kind::sum, e, 2);
         return g.multiply(e, g.expand_axes(g.divide(g.full_like(sum, 1), sum), {5, 7}, 2));
       });
     }},
    {"scaled behind the maximum",
     [](graph& g) {
       by_hand(g, [&](node_id s) {
         const node_id e = exp_of_distance(g, s, 0.5), sum = g.reduce(reduce_kind::sum, e, 2);
         return g.divide(e, g.expand_axes(sum, {5, 7}, 2));
       });
     }},
    {"matrices",
     [](graph& g) {
       const operands all = make_operands(g, {5, 4}, {7, 4}, {7, 3});
       const node_id scores = g.contract(all.q, all.k, "id", "jd", "ij");
       add_gradients(g, g.contract(samples::softmax(g, scores), all.v, "ij", "jc", "ic"));
     }},
};

TEST(fusion_attention_gradient, spellings_are_found) {
  for (const spelling& each : found) {
    graph g;
    each.make(g);
    const graph plan = fusion::optimize(g, launches_decide());
    EXPECT_EQ(count(plan, attention_form::output), 1u) << each.name << '\n' << to_text(plan);
    EXPECT_EQ(count(plan, attention_form::query_gradient), 1u) << each.name << '\n' << to_text(plan);
    EXPECT_EQ(count(plan, attention_form::key_gradients), 1u) << each.name << '\n' << to_text(plan);
    samples::expect_equal(g, plan, each.name);
  }
}

// Each of them can be in the plan, with the other gradients from stored weights.
TEST(fusion_attention_gradient, every_class_is_the_same_by_every_node) {
  for (const spelling& each : found) {
    for (const bool forward : {false, true}) {
      graph g;
      each.make(g);
      fusion::optimize_options options = launches_decide();
      options.disabled = {forward ? "attention_gradients" : "fuse_attention"};
      const graph plan = fusion::optimize(g, options);
      EXPECT_EQ(count(plan, attention_form::query_gradient) + count(plan, attention_form::key_gradients), 0u);
      samples::expect_equal(g, plan, each.name);
    }
  }
}

// Whatever of them is chosen.
TEST(fusion_attention_gradient, all_forms_agree) {
  std::size_t told = 0;
  for (const spelling& each : found) {
    graph g;
    each.make(g);
    SCOPED_TRACE(each.name);
    EXPECT_GT(samples::expect_all_forms_agree(g, samples::random_leaves(g, -2, 2), launches_decide()), 0u);
    fusion::optimize_report report;
    (void)fusion::optimize(g, launches_decide(), &report);
    told += std::ranges::find(report.rules, "attention_weights", &fusion::rule_report::name)->matches > 0;
  }
  EXPECT_EQ(told, found.size()) << "weights that gradients read are those of what attention tells, too";
}

// Attention and, where gradients are better off with them, weights that nobody waits for: the end of a product of the
// scores, of which gradients then ask nothing.
TEST(fusion_attention_gradient, weights_are_the_end_of_a_product) {
  graph g;
  const operands all = make_operands(g, {128, 9, 64}, {128, 3, 64}, {128, 3, 64});
  const node_id y = attend(all.q, all.k, all.v, gqa_options{.causal = true});
  add_gradients(g, g.multiply(y, y));  // which wait for it
  fusion::optimize_options options;
  options.device.matrix_units = matrix_units::cooperative, options.device.fragments_by_rows = true;
  options.device.max_shared_bytes = 49152, options.device.max_invocations = 1024, options.device.f16 = true;
  const auto summary = [&] {
    const graph plan = fusion::optimize(g, options);
    std::size_t weights = 0, largest = 0;
    for (node_id id{0}; id < plan.size(); ++id) {
      const auto has = [](const scalar_program& program, scalar_op op) {
        return std::ranges::find(program.nodes, op, &scalar_node::op) != program.nodes.end();
      };
      if (const auto* product = std::get_if<matmul_attribute>(&plan.attribute_of(id)))
        weights += has(product->finish.program, scalar_op::exp);
      if (const auto* region = std::get_if<region_attribute>(&plan.attribute_of(id)))
        largest += has(region->program, scalar_op::row_max);
    }
    return std::tuple(count(plan, attention_form::output), weights, largest);
  };
  EXPECT_EQ(summary(), std::tuple(1u, 1u, 0u));
  options.disabled = {"attention_weights"};
  EXPECT_EQ(std::get<1>(summary()), 0u);
}

// What decides something is computed once for all that decide by it. Gradients do not: behind a layer whose own decide,
// as those of a maximum do, attention is attention, and where scores decide outside of it they are stored for that.
TEST(fusion_attention_gradient, what_decides_once_may_be_computed_twice) {
  for (const bool outside : {false, true}) {
    graph g;
    const operands all = make_operands(g, {5, 4}, {7, 4}, {7, 3});
    const node_id scores = g.contract(all.q, all.k, "id", "jd", "ij");
    const node_id y = g.contract(samples::softmax(g, scores), all.v, "ij", "jc", "ic");
    const auto positive = [&](node_id x) {
      return g.map(scalar_op::maximum, {x, g.expand(g.constant(0), shape(g[x].extents))});
    };
    const std::uint32_t both = 3;
    add_gradients(g, positive(y), outside ? g.reduce(reduce_kind::sum, positive(scores), both) : no_id);
    const graph plan = fusion::optimize(g, launches_decide());
    EXPECT_EQ(count(plan, attention_form::output), 1u) << to_text(plan);
    samples::expect_equal(g, plan, outside ? "scores decide" : "a maximum behind it");
  }
}

node_id scores_of(graph& g, const operands& all) { return g.contract(all.q, all.k, "id", "jd", "ij"); }
void add_weighed(graph& g, const operands& all, node_id weights, node_id more = no_id) {
  add_gradients(g, g.contract(weights, all.v, "ij", "jc", "ic"), more);
}

TEST(fusion_attention_gradient, look_alikes_are_not) {
  const auto make = [](graph& g) { return make_operands(g, {5, 4}, {7, 4}, {7, 3}); };
  const std::vector<spelling> others{
      {"weights are looked at besides",
       [&](graph& g) {
         const operands all = make(g);
         const node_id weights = samples::softmax(g, scores_of(g, all));
         add_weighed(g, all, weights, g.reduce(reduce_kind::sum, g.multiply(weights, weights), 3));
       }},
      {"scores are looked at besides",
       [&](graph& g) {
         const operands all = make(g);
         const node_id scores = scores_of(g, all);
         add_weighed(g, all, samples::softmax(g, scores), g.reduce(reduce_kind::sum, g.multiply(scores, scores), 3));
       }},
      {"squared weights",
       [&](graph& g) {
         const operands all = make(g);
         const node_id weights = samples::softmax(g, scores_of(g, all));
         add_weighed(g, all, g.multiply(weights, weights));
       }},
      {"weights by numbers",
       [&](graph& g) {
         const operands all = make(g);
         const node_id weights = samples::softmax(g, scores_of(g, all));
         add_weighed(g, all, g.multiply(weights, g.input("mask", dtype::f32, {5, 7})));
       }},
      {"scores by parameters",
       [&](graph& g) {
         const operands all = make(g);
         const node_id bias = g.parameter("bias", dtype::f32, {5, 7});
         add_weighed(g, all, samples::softmax(g, g.add(scores_of(g, all), bias)));
       }},
      {"one value for two",
       [&](graph& g) {
         const node_value q(g, g.parameter("q", dtype::f32, {5, 4})), k(g, g.parameter("k", dtype::f32, {7, 4}));
         const operands all{q, k, k};
         add_weighed(g, all, samples::softmax(g, scores_of(g, all)));
       }},
      {"softmax of queries",
       [&](graph& g) {
         const operands all = make(g);
         const node_id scores = g.contract(all.k, all.q, "jd", "id", "ji");
         add_gradients(g, g.contract(samples::softmax(g, scores), all.v, "ji", "jc", "ic"));
       }},
      {"a mean that nothing weighs",  // where weights stand outside of the sum, not in it
       [&](graph& g) {
         const operands all = make(g);
         const node_id e = exp_of_distance(g, scores_of(g, all));
         const node_id total = samples::row_value(g, reduce_kind::sum, e);
         const node_id dy = g.input("dy", dtype::f32, {5, 3});
         const node_id of_weights = g.contract(dy, all.v, "ic", "jc", "ij");
         const node_id sum = samples::row_value(g, reduce_kind::sum, of_weights);
         const node_id above = g.subtract(of_weights, g.divide(g.multiply(sum, e), total));
         const node_id slopes = g.divide(g.multiply(above, e), total), weights = g.divide(e, total);
         g.add_output("y", g.contract(weights, all.v, "ij", "jc", "ic"));
         g.add_output("dq", g.contract(slopes, all.k, "ij", "jd", "id"));
         g.add_output("dk", g.contract(slopes, all.q, "ij", "id", "jd"));
         g.add_output("dv", g.contract(weights, dy, "ij", "ic", "jc"));
       }},
      {"values of a whole batch",
       [&](graph& g) {
         const operands all = make_operands(g, {2, 5, 4}, {2, 7, 4}, {7, 3});
         const node_id weights = samples::softmax(g, g.contract(all.q, all.k, "bid", "bjd", "bij"));
         add_gradients(g, g.contract(weights, all.v, "bij", "jc", "cib"));
       }},
      {"queries of a whole batch",
       [&](graph& g) {
         const operands all = make_operands(g, {5, 4}, {2, 7, 4}, {2, 7, 3});
         const node_id weights = samples::softmax(g, g.contract(all.q, all.k, "id", "bjd", "bij"));
         add_gradients(g, g.contract(weights, all.v, "bij", "bjc", "bic"));
       }},
      {"keys of a whole batch",
       [&](graph& g) {
         const operands all = make_operands(g, {2, 5, 4}, {7, 4}, {2, 7, 3});
         const node_id weights = samples::softmax(g, g.contract(all.q, all.k, "bid", "jd", "bij"));
         add_gradients(g, g.contract(weights, all.v, "bij", "bjc", "bic"));
       }},
      {"of a softmax without the sink that weights are with",
       [&](graph& g) {
         const operands all = make(g);
         const node_id s = scores_of(g, all), dy = g.input("dy", dtype::f32, {5, 3});
         const auto of_row = [&](node_id x) { return g.expand_axes(x, {5, 7}, 2); };
         const node_id sink = g.input("sink", dtype::f32, {5}), own = g.reduce(reduce_kind::max, s, 2);
         const node_id largest = g.map(scalar_op::maximum, {own, sink});
         const node_id e = g.map(scalar_op::exp, {g.subtract(s, of_row(largest))});
         const node_id more = g.map(scalar_op::exp, {g.subtract(sink, largest)});
         const node_id weights = g.divide(e, of_row(g.add(g.reduce(reduce_kind::sum, e, 2), more)));
         const node_id plain = samples::softmax(g, s), of_weights = g.contract(dy, all.v, "ic", "jc", "ij");
         const node_id mean = samples::row_value(g, reduce_kind::sum, g.multiply(plain, of_weights));
         const node_id slopes = g.multiply(plain, g.subtract(of_weights, mean));
         g.add_output("y", g.contract(weights, all.v, "ij", "jc", "ic"));
         g.add_output("dq", g.contract(slopes, all.k, "ij", "jd", "id"));
         g.add_output("dk", g.contract(slopes, all.q, "ij", "id", "jd"));
         g.add_output("dv", g.contract(weights, dy, "ij", "ic", "jc"));
       }},
      {"a soft cap", [&](graph& g) { with_options(g, {.causal = true, .softcap = 4}, 6, 6, 2, 2, 8, 8); }},
  };
  fusion::optimize_options units;  // whose costs try choices without each of these
  units.device.matrix_units = matrix_units::cooperative, units.device.fragments_by_rows = true;
  units.device.max_shared_bytes = 49152, units.device.max_invocations = 1024, units.device.f16 = true;
  for (const std::vector<spelling>& some : {others, found}) {
    for (const spelling& each : some) {
      graph g;
      each.make(g);
      samples::expect_equal(g, fusion::optimize(g, launches_decide()), each.name);
      samples::expect_equal(g, fusion::optimize(g, units), each.name);
      SCOPED_TRACE(each.name);
      samples::expect_all_forms_agree(g, samples::random_leaves(g, -2, 2), launches_decide());
    }
  }
}

// Values that one product repeats along channels are read by another that has none.
TEST(fusion_attention_gradient, of_a_product_without_its_channels) {
  graph g;
  const node_id q = g.parameter("q", dtype::f32, {5, 4}), k = g.input("k", dtype::f32, {7, 4});
  const node_id v = g.input("v", dtype::f32, {7});
  const node_id weights = samples::softmax(g, g.contract(q, k, "id", "jd", "ij"));
  g.add_output("y", g.contract(weights, g.expand_axes(v, {7, 4}, 2), "ij", "jc", "ic"));
  const node_id one = g.contract(weights, v, "ij", "j", "i");
  const node_id wrt[] = {q};
  const node_id loss = g.reduce(reduce_kind::sum, g.multiply(one, g.input("dy", dtype::f32, {5})), 1);
  g.add_output("dq", gradients(g, loss, wrt)[0]);
  samples::expect_equal(g, fusion::optimize(g, launches_decide()), "no channels");
  samples::expect_all_forms_agree(g, samples::random_leaves(g, -2, 2), launches_decide());
}

// A program names one value several times, and what reads that as often.
TEST(fusion_attention_gradient, of_scores_that_are_squares_of_squares) {
  graph g;
  const operands all = make_operands(g, {5, 4}, {7, 4}, {7, 3});
  node_id scores = scores_of(g, all);
  for (int i = 0; i < 30; ++i) scores = g.map(scalar_op::tanh, {g.multiply(scores, scores)});
  const node_id dy = g.input("dy", dtype::f32, {5, 3}), weights = samples::softmax(g, scores);
  const node_id of_weights = g.contract(dy, all.v, "ic", "jc", "ij");
  const node_id mean = samples::row_value(g, reduce_kind::sum, g.multiply(weights, of_weights));
  const node_id slopes = g.multiply(weights, g.subtract(of_weights, mean));
  g.add_output("y", g.contract(weights, all.v, "ij", "jc", "ic"));
  g.add_output("dv", g.contract(weights, dy, "ij", "ic", "jc"));
  g.add_output("ds", g.contract(slopes, all.k, "ij", "jd", "id"));
  samples::expect_equal(g, fusion::optimize(g, launches_decide()), "squares of squares");
}

TEST(fusion_attention_gradient, of_an_output_that_is_its_own_gradient) {
  graph g;
  const operands all = make_operands(g, {5, 4}, {7, 4}, {7, 3});
  const node_id weights = samples::softmax(g, scores_of(g, all));
  const node_id y = g.contract(weights, all.v, "ij", "jc", "ic");
  const std::vector<node_id> wrt = g.leaves(op::parameter);
  const std::vector<node_id> all_of =
      gradients(g, g.reduce(reduce_kind::sum, g.multiply(y, g.stop_gradient(y)), 3), wrt);
  for (std::size_t i = 0; i < wrt.size(); ++i) g.add_output(std::to_string(i), all_of[i]);
  const graph plan = fusion::optimize(g, launches_decide());
  EXPECT_EQ(count(plan, attention_form::key_gradients), 1u) << to_text(plan);
  samples::expect_equal(g, plan, "its own gradient");
  samples::expect_all_forms_agree(g, samples::random_leaves(g, -2, 2), launches_decide());
}

// Of an H100's costs, without matrix units: what is stored costs more than what is computed again where heads are
// narrow.
TEST(fusion_attention_gradient, can_be_seen_and_left_out) {
  graph g;
  with_options(g, {.causal = true}, 6, 6, 2, 2, 8, 8);
  fusion::optimize_options options = launches_decide();
  options.explain = true;
  fusion::optimize_report report;
  (void)fusion::optimize(g, options, &report);
  EXPECT_NE(report.explain.find("attention_gradients"), std::string::npos) << report.explain;
  options.tolerance = egraph::exactness::exact;
  const graph exact = fusion::optimize(g, options, &report);
  EXPECT_EQ(count(exact, attention_form::output), 0u) << to_text(exact);
}

}  // namespace
