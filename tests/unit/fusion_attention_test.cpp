// SPDX-License-Identifier: MIT
// Attention in plans: which spellings become one kernel, which look-alikes do not, and that it computes the same.
#include <meganeura/fusion/optimize.hpp>
#include <meganeura/fusion/saturated_graph.hpp>
#include <meganeura/kernels/generate.hpp>
#include <meganeura/meganeura.hpp>

#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>
#include <support/egraph_sample_graphs.hpp>

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace meganeura;

// Launches decide: one kernel is better than three.
fusion::optimize_options launches_decide() {
  fusion::optimize_options options;
  options.device.launch = {1, 1};
  options.device.max_shared_bytes = 49152;
  return options;
}

std::size_t count(const graph& g, op kind) {
  std::size_t found = 0;
  for (node_id id{0}; id < g.size(); ++id) found += g[id].kind == kind;
  return found;
}

struct spelling {
  const char* name;
  std::function<node_id(graph&)> make;
};

struct operands {
  node_value q, k, v;
};
operands make_operands(graph& g, shape q, shape k, shape v) {
  return {{g, g.input("q", dtype::f32, q)}, {g, g.input("k", dtype::f32, k)}, {g, g.input("v", dtype::f32, v)}};
}
// Of `t` queries and `s` keys: [positions, heads, width].
operands heads(graph& g, std::int64_t t, std::int64_t s, std::int64_t h, std::int64_t kv, std::int64_t w) {
  return make_operands(g, {t, h, w}, {s, kv, w}, {s, kv, w});
}

node_id with_options(graph& g, gqa_options options, std::int64_t t = 6, std::int64_t s = 6, std::int64_t h = 4,
                     std::int64_t kv = 2) {
  const operands all = heads(g, t, s, h, kv, 8);
  return attend(all.q, all.k, all.v, options);
}

// Products by labels, and rows between them that `weigh` makes of scores.
template <class Weigh>
node_id by_hand(graph& g, Weigh weigh, const char* q = "ik", const char* k = "jk", const char* v = "jc",
                const char* out = "ic") {
  const auto extents = [](const char* labels) {
    shape result;
    for (; *labels != 0; ++labels) result.push_back(*labels == 'i' ? 5 : *labels == 'j' ? 7 : *labels == 'c' ? 3 : 4);
    return result;
  };
  const operands all = make_operands(g, extents(q), extents(k), extents(v));
  const node_id scores = g.contract(all.q, all.k, q, k, "ij");
  return g.contract(weigh(scores), all.v, "ij", v, out);
}

node_id scaled(graph& g, node_id scores) { return g.multiply(scores, g.full_like(scores, 0.5)); }
node_id softmax_of(graph& g, node_id scores) { return samples::softmax(g, scores); }

node_id divided_by_sum(graph& g, node_id e, std::uint32_t axes) {
  const shape extents = g[e].extents;
  return g.divide(e, g.expand_axes(g.reduce(reduce_kind::sum, e, axes), extents, axes));
}
// Of rows [5, 7] that have one score more; `added`: what the sum has.
node_id softmax_beside(graph& g, node_id s, node_id sink, std::optional<node_id> added = {}) {
  const node_id largest = g.map(scalar_op::maximum, {g.reduce(reduce_kind::max, s, 2), sink});
  const node_id e = g.map(scalar_op::exp, {g.subtract(s, g.expand_axes(largest, {5, 7}, 2))});
  const node_id sum =
      g.add(g.reduce(reduce_kind::sum, e, 2), g.map(scalar_op::exp, {g.subtract(added.value_or(sink), largest)}));
  return g.divide(e, g.expand_axes(sum, {5, 7}, 2));
}
node_id largest_of(graph& g, node_id x, std::uint32_t axes) {
  return g.expand_axes(g.reduce(reduce_kind::max, x, axes), shape(g[x].extents), axes);
}

TEST(fusion_attention, spellings_are_found) {
  const std::vector<spelling> spellings{
      {"plain", [](graph& g) { return with_options(g, {}); }},
      {"causal", [](graph& g) { return with_options(g, {.causal = true}); }},
      {"causal behind a past", [](graph& g) { return with_options(g, {.causal = true}, 3, 8); }},
      {"alibi", [](graph& g) { return with_options(g, {.causal = true, .alibi = true}); }},
      {"alibi behind a past", [](graph& g) { return with_options(g, {.causal = true, .alibi = true}, 3, 8); }},
      {"window", [](graph& g) { return with_options(g, {.causal = true, .sliding_window = 3}); }},
      {"window both ways", [](graph& g) { return with_options(g, {.sliding_window = 2}); }},
      {"soft cap", [](graph& g) { return with_options(g, {.softcap = 5}); }},
      {"own scale", [](graph& g) { return with_options(g, {.scale = 0.3f}); }},
      {"a head for each query", [](graph& g) { return with_options(g, {}, 6, 9, 3, 3); }},
      {"one head", [](graph& g) { return with_options(g, {}, 6, 9, 1, 1); }},
      {"one query", [](graph& g) { return with_options(g, {.causal = true}, 1, 9, 4, 2); }},
      {"batch",
       [](graph& g) {
         const operands all = make_operands(g, {2, 5, 4, 8}, {2, 7, 2, 8}, {2, 7, 2, 8});
         return node_id(attend(all.q, all.k, all.v, gqa_options{}));
       }},
      {"mask of numbers",
       [](graph& g) {
         const operands all = heads(g, 5, 7, 2, 2, 8);
         const node_value mask(g, g.input("m", dtype::f32, {5, 7}));
         return node_id(attend(all.q, all.k, all.v, attn_mask(mask)));
       }},
      {"mask of integers",
       [](graph& g) {
         const operands all = heads(g, 5, 7, 2, 2, 8);
         const node_value mask(g, g.input("m", dtype::i32, {2, 5, 7}));
         return node_id(attend(all.q, all.k, all.v, attn_mask(mask)));
       }},
      {"lengths",
       [](graph& g) {
         const operands all = make_operands(g, {3, 5, 2, 8}, {3, 7, 2, 8}, {3, 7, 2, 8});
         const node_value lengths(g, g.input("n", dtype::i32, {3}));
         return node_id(attend(all.q, all.k, all.v, key_lengths(lengths)));
       }},
      {"sinks",
       [](graph& g) {
         const operands all = heads(g, 5, 7, 4, 2, 8);
         const node_value sinks(g, g.input("sinks", dtype::f32, {4}));
         return node_id(attend(all.q, all.k, all.v, attention_sinks(sinks)));
       }},
      {"sinks, causal, behind a past",
       [](graph& g) {
         const operands all = heads(g, 3, 8, 4, 2, 8);
         const node_value sinks(g, g.input("sinks", dtype::f32, {4}));
         return node_id(attend(all.q, all.k, all.v, attention_sinks(sinks), gqa_options{.causal = true}));
       }},
      {"by hand", [](graph& g) { return by_hand(g, [&](node_id s) { return softmax_of(g, scaled(g, s)); }); }},
      {"without a scale", [](graph& g) { return by_hand(g, [&](node_id s) { return softmax_of(g, s); }); }},
      {"transposed keys",
       [](graph& g) {
         return by_hand(
             g, [&](node_id s) { return softmax_of(g, s); }, "ik", "kj", "jc", "ic");
       }},
      {"transposed queries and values",
       [](graph& g) {
         return by_hand(
             g, [&](node_id s) { return softmax_of(g, s); }, "ki", "jk", "cj", "ic");
       }},
      {"transposed results",
       [](graph& g) {
         return by_hand(
             g, [&](node_id s) { return softmax_of(g, s); }, "ik", "jk", "jc", "ci");
       }},
      {"values that differ between queries, each a batch of its own",
       [](graph& g) {
         const operands all = make_operands(g, {5, 4}, {7, 4}, {5, 7, 3});
         const node_id p = softmax_of(g, g.contract(all.q, all.k, "ik", "jk", "ij"));
         return g.contract(p, all.v, "ij", "ijc", "ic");
       }},
      {"zeros where scores are low",
       [](graph& g) {
         return by_hand(g, [&](node_id s) {
           scalar_builder b;
           const scalar_ref score = b.argument(0, dtype::f32), weight = b.argument(1, dtype::f32);
           const scalar_ref low = b.binary(scalar_op::less, score, b.constant(-0.5));
           s = g.map(scalar_op::maximum,
                     {s, g.full_like(s, -1e30)});  // then no quotient is NaN that the condition would hide
           const node_id both[] = {s, softmax_of(g, s)};
           return g.map(b.finish(b.select(low, b.constant(0), weight)), both, dtype::f32);
         });
       }},
      {"exp over its sum, with no maximum",
       [](graph& g) {
         return by_hand(g, [&](node_id s) { return divided_by_sum(g, g.map(scalar_op::exp, {s}), 2); });
       }},
      {"divided behind the second product",
       [](graph& g) {
         const operands all = make_operands(g, {5, 4}, {7, 4}, {7, 3});
         const node_id s = g.contract(all.q, all.k, "ik", "jk", "ij");
         const node_id e = g.map(scalar_op::exp, {g.subtract(s, largest_of(g, s, 2))});
         const node_id sum = g.expand_axes(g.reduce(reduce_kind::sum, e, 2), {5, 3}, 2);
         return g.divide(g.contract(e, all.v, "ij", "jc", "ic"), sum);
       }},
      {"times the reciprocal of the sum",
       [](graph& g) {
         return by_hand(g, [&](node_id s) {
           const node_id e = g.map(scalar_op::exp, {g.subtract(s, largest_of(g, s, 2))});
           const node_id inverse = g.map(scalar_op::reciprocal, {g.reduce(reduce_kind::sum, e, 2)});
           return g.multiply(e, g.expand_axes(inverse, {5, 7}, 2));
         });
       }},
      {"one over the sum",
       [](graph& g) {
         return by_hand(g, [&](node_id s) {
           const node_id e = g.map(scalar_op::exp, {g.subtract(s, largest_of(g, s, 2))});
           const node_id sum = g.reduce(reduce_kind::sum, e, 2);
           return g.multiply(e, g.expand_axes(g.divide(g.full_like(sum, 1), sum), {5, 7}, 2));
         });
       }},
      {"exp of a logarithm of softmax",
       [](graph& g) {
         return by_hand(g, [&](node_id s) { return g.map(scalar_op::exp, {samples::log_softmax(g, s)}); });
       }},
      {"scaled queries",
       [](graph& g) {
         const operands all = make_operands(g, {5, 4}, {7, 4}, {7, 3});
         return g.contract(softmax_of(g, g.contract(scaled(g, all.q), all.k, "ik", "jk", "ij")), all.v, "ij", "jc",
                           "ic");
       }},
      {"scaled queries and keys",
       [](graph& g) {
         const operands all = make_operands(g, {5, 4}, {7, 4}, {7, 3});
         return g.contract(softmax_of(g, g.contract(scaled(g, all.q), scaled(g, all.k), "ik", "jk", "ij")), all.v, "ij",
                           "jc", "ic");
       }},
      {"scores over a square root",
       [](graph& g) {
         return by_hand(
             g, [&](node_id s) { return softmax_of(g, g.divide(s, g.map(scalar_op::sqrt, {g.full_like(s, 4)}))); });
       }},
      {"a temperature that is learned",
       [](graph& g) {
         return by_hand(g, [&](node_id s) {
           return softmax_of(g, g.multiply(s, g.expand(g.input("scale", dtype::f32, {}), {5, 7})));
         });
       }},
      {"scaled behind the maximum",
       [](graph& g) {
         return by_hand(g, [&](node_id s) {
           return divided_by_sum(g, g.map(scalar_op::exp, {scaled(g, g.subtract(s, largest_of(g, s, 2)))}), 2);
         });
       }},
      {"a mask added",
       [](graph& g) {
         return by_hand(g, [&](node_id s) {
           const node_id keep = g.input("keep", dtype::f32, {5, 7});
           const node_id bias = g.multiply(g.subtract(g.full_like(keep, 1), keep), g.full_like(keep, -1e9));
           return softmax_of(g, g.add(s, bias));
         });
       }},
      {"keys, then queries",
       [](graph& g) {
         const operands all = make_operands(g, {5, 4}, {7, 4}, {7, 3});
         const node_id s = g.contract(all.k, all.q, "jk", "ik", "ji");
         return g.contract(softmax_of(g, g.permute(s, std::array{1, 0})), all.v, "ij", "jc", "ic");
       }},
      {"values, then weights",
       [](graph& g) {
         const operands all = make_operands(g, {5, 4}, {7, 4}, {7, 3});
         return g.contract(all.v, softmax_of(g, g.contract(all.q, all.k, "ik", "jk", "ij")), "jc", "ij", "ic");
       }},
      {"heads out of columns",
       [](graph& g) {  // [t, h w] as linear layers give it
         const operands all = make_operands(g, {5, 8}, {7, 8}, {7, 8});
         const auto split = [&](node_id x, std::int64_t t) {
           return g.permute(g.reshape(x, {t, 2, 4}), std::array{1, 0, 2});
         };
         const node_id s = g.contract(split(all.q, 5), split(all.k, 7), "hik", "hjk", "hij");
         const node_id y = g.contract(softmax_of(g, scaled(g, s)), split(all.v, 7), "hij", "hjc", "hic");
         return g.reshape(g.permute(y, std::array{1, 0, 2}), {5, 8});
       }},
      {"heads of batches as one axis",
       [](graph& g) {  // [b h, t, w]
         const operands all = make_operands(g, {2, 5, 8}, {2, 7, 8}, {2, 7, 8});
         const auto split = [&](node_id x, std::int64_t t) {
           return g.reshape(g.permute(g.reshape(x, {2, t, 2, 4}), std::array{0, 2, 1, 3}), {4, t, 4});
         };
         const node_id s = g.contract(split(all.q, 5), split(all.k, 7), "hik", "hjk", "hij");
         const node_id y = g.contract(softmax_of(g, s), split(all.v, 7), "hij", "hjc", "hic");
         return g.reshape(g.permute(g.reshape(y, {2, 2, 5, 4}), std::array{0, 2, 1, 3}), {2, 5, 8});
       }},
      {"queries, keys and values as slices",
       [](graph& g) {
         const node_id packed = g.input("x", dtype::f32, {6, 24});
         const auto part = [&](std::int64_t at) { return g.reshape(g.slice(packed, 1, at, 8), {6, 2, 4}); };
         const node_id s = g.contract(part(0), part(8), "ihk", "jhk", "hij");
         return g.contract(softmax_of(g, s), part(16), "hij", "jhc", "ihc");
       }},
      {"repeated keys and values",
       [](graph& g) {
         const operands all = heads(g, 5, 7, 4, 2, 8);
         const auto repeat = [&](node_id x) { return g.reshape(g.expand_axes(x, {7, 2, 2, 8}, 4), {7, 4, 8}); };
         const node_id s = g.contract(all.q, repeat(all.k), "ihk", "jhk", "hij");
         return g.contract(softmax_of(g, s), repeat(all.v), "hij", "jhc", "ihc");
       }},
      {"queries in groups",
       [](graph& g) {
         const operands all = make_operands(g, {5, 2, 3, 4}, {7, 2, 4}, {7, 2, 4});
         const node_id s = g.contract(all.q, all.k, "ihgk", "jhk", "hgij");
         return g.contract(softmax_of(g, s), all.v, "hgij", "jhc", "ihgc");
       }},
      {"rows of all heads below each other",
       [](graph& g) {
         const operands all = heads(g, 5, 7, 2, 2, 4);
         const node_id s = g.reshape(g.contract(all.q, all.k, "ihk", "jhk", "hij"), {10, 7});
         return g.contract(g.reshape(softmax_of(g, s), {2, 5, 7}), all.v, "hij", "jhc", "ihc");
       }},
      {"a past and what is new",
       [](graph& g) {
         const operands all = make_operands(g, {2, 2, 4}, {5, 2, 4}, {5, 2, 4});
         const node_id k[] = {all.k, g.input("new k", dtype::f32, {2, 2, 4})};
         const node_id v[] = {all.v, g.input("new v", dtype::f32, {2, 2, 4})};
         const node_id s = g.contract(all.q, g.concat(k, 0), "ihk", "jhk", "hij");
         return g.contract(softmax_of(g, s), g.concat(v, 0), "hij", "jhc", "ihc");
       }},
      {"positions by their distance",
       [](graph& g) {
         return by_hand(g, [&](node_id s) {
           const node_id distance = g.subtract(g.coordinates({5, 7}, 0), g.coordinates({5, 7}, 1));
           const node_id slope = g.multiply(g.cast(distance, dtype::f32), g.full_like(s, -0.25));
           return softmax_of(g, g.add(s, slope));
         });
       }},
      {"a bias by distance out of a table",
       [](graph& g) {
         return by_hand(g, [&](node_id s) {
           const node_id table = g.input("table", dtype::f32, {11});
           const node_id at =
               g.add(g.subtract(g.coordinates({5, 7}, 1), g.coordinates({5, 7}, 0)), g.full({5, 7}, 4, dtype::i32));
           return softmax_of(g, g.add(s, g.gather(table, at, 0)));
         });
       }},
  };
  std::string missed;
  std::size_t found = 0;
  for (const spelling& each : spellings) {
    graph g;
    g.add_output("y", each.make(g));
    const graph plan = fusion::optimize(g, launches_decide());
    samples::expect_equal(g, plan, each.name);
    if (count(plan, op::attention) == 1 && count(plan, op::matmul) == 0)
      ++found;
    else
      missed += std::string(each.name) + '\n';
  }
  EXPECT_GE(spellings.size(), 47u);
  EXPECT_GE(20 * found, 19 * spellings.size()) << missed;
}

TEST(fusion_attention, look_alikes_are_not) {
  const auto exp_of = [](graph& g, node_id x) { return g.map(scalar_op::exp, {x}); };
  const std::vector<spelling> spellings{
      {"softmax over queries",
       [&](graph& g) {
         return by_hand(g,
                        [&](node_id s) { return divided_by_sum(g, exp_of(g, g.subtract(s, largest_of(g, s, 1))), 1); });
       }},
      {"another row's sum",
       [&](graph& g) {
         return by_hand(g, [&](node_id s) {
           const node_id e = exp_of(g, g.subtract(s, largest_of(g, s, 2)));
           return g.divide(e, g.expand_axes(g.reduce(reduce_kind::sum, g.multiply(e, e), 2), shape(g[s].extents), 2));
         });
       }},
      {"the largest of something else",
       [&](graph& g) {
         return by_hand(g, [&](node_id s) {
           return divided_by_sum(g, exp_of(g, g.subtract(s, largest_of(g, g.multiply(s, s), 2))), 2);
         });
       }},
      {"weights squared",
       [&](graph& g) {
         return by_hand(g, [&](node_id s) {
           const node_id p = softmax_of(g, s);
           return g.multiply(p, p);
         });
       }},
      {"weights and scores added",
       [&](graph& g) { return by_hand(g, [&](node_id s) { return g.add(softmax_of(g, s), s); }); }},
      {"ones where scores are low",
       [&](graph& g) {
         return by_hand(g, [&](node_id s) {
           scalar_builder b;
           const scalar_ref low = b.binary(scalar_op::less, b.argument(0, dtype::f32), b.constant(-0.5));
           const node_id both[] = {s, softmax_of(g, s)};
           return g.map(b.finish(b.select(low, b.constant(1), b.argument(1, dtype::f32))), both, dtype::f32);
         });
       }},
      {"half of each row",
       [&](graph& g) {
         const operands all = make_operands(g, {5, 4}, {8, 4}, {4, 3});
         const node_id p = softmax_of(g, g.contract(all.q, all.k, "ik", "jk", "ij"));
         return g.contract(g.slice(p, 1, 0, 4), all.v, "ij", "jc", "ic");
       }},
      {"every second key of a row",
       [&](graph& g) {
         const operands all = make_operands(g, {5, 4}, {8, 4}, {4, 3});
         const node_id p = softmax_of(g, g.contract(all.q, all.k, "ik", "jk", "ij"));
         return g.contract(g.slice(p, 1, 0, 4, 2), all.v, "ij", "jc", "ic");
       }},
      {"a score besides that the sum does not have",
       [&](graph& g) {
         return by_hand(g, [&](node_id s) {
           const node_id largest =
               g.map(scalar_op::maximum, {g.reduce(reduce_kind::max, s, 2), g.input("sink", dtype::f32, {5})});
           return divided_by_sum(g, exp_of(g, g.subtract(s, g.expand_axes(largest, {5, 7}, 2))), 2);
         });
       }},
      {"a score besides that is another one in the sum",
       [&](graph& g) {
         return by_hand(g, [&](node_id s) {
           const node_id sink = g.input("sink", dtype::f32, {5}), other = g.input("other", dtype::f32, {5});
           return softmax_beside(g, s, sink, other);
         });
       }},
      {"a score besides that comes of those of keys",
       [&](graph& g) {
         return by_hand(g, [&](node_id s) { return softmax_beside(g, s, g.reduce(reduce_kind::min, s, 2)); });
       }},
      {"heads too wide",
       [&](graph& g) {
         const operands all = make_operands(g, {3, 300}, {4, 300}, {4, 5});
         return g.contract(softmax_of(g, g.contract(all.q, all.k, "ik", "jk", "ij")), all.v, "ij", "jc", "ic");
       }},
  };
  for (const spelling& each : spellings) {
    graph g;
    g.add_output("y", each.make(g));
    const graph plan = fusion::optimize(g, launches_decide());
    EXPECT_EQ(count(plan, op::attention), 0u) << each.name << '\n' << to_text(plan);
    samples::expect_equal(g, plan, each.name);
  }
}

// What is hidden behind the division may be a row of nothing but -infinity, which is no number before it; keys that
// two axes count overlap where one is no multiple of the other's end.
TEST(fusion_attention, what_only_looks_whole_is_not) {
  graph hidden;
  hidden.add_output("y", by_hand(hidden, [&](node_id s) {
                      scalar_builder b;
                      const scalar_ref low = b.binary(scalar_op::less, b.argument(0, dtype::f32), b.constant(-0.5));
                      const node_id both[] = {s, softmax_of(hidden, s)};
                      return hidden.map(b.finish(b.select(low, b.constant(0), b.argument(1, dtype::f32))), both,
                                        dtype::f32);
                    }));
  graph overlapping;
  const operands all = make_operands(overlapping, {5, 4}, {4, 4}, {2, 2, 3});
  const node_id weights = softmax_of(overlapping, overlapping.contract(all.q, all.k, "ik", "jk", "ij"));
  const node_id twice = overlapping.view(weights, {5, 2, 2}, {.strides = {4, 1, 1}});
  overlapping.add_output("y", overlapping.contract(twice, all.v, "iab", "abc", "ic"));
  for (const graph* each : {&hidden, &overlapping}) {
    const graph plan = fusion::optimize(*each, launches_decide());
    EXPECT_EQ(count(plan, op::attention), 0u) << to_text(plan);
    samples::expect_equal(*each, plan, "looks whole ");
  }
}

// Where a driver ends loops, tiles are such that they end before, or there is no such kernel.
TEST(fusion_attention, ends_where_loops_are_limited) {
  graph g;
  const operands all = make_operands(g, {200, 252}, {16384, 252}, {16384, 4});
  g.add_output("y", g.contract(softmax_of(g, g.contract(all.q, all.k, "ik", "jk", "ij")), all.v, "ij", "jc", "ic"));
  fusion::optimize_options options = launches_decide();
  options.device.parallel = false;  // no row is split
  options.device.max_loop_iterations = 65535;
  for (const std::uint32_t bytes : {49152u, 32768u, 24576u}) {
    options.device.max_shared_bytes = bytes;
    const graph plan = fusion::optimize(g, options);
    for (node_id id{0}; id < plan.size(); ++id) {
      if (plan[id].kind != op::attention) continue;
      EXPECT_NO_THROW((void)kernels::generate(plan, id, options.device)) << bytes;
    }
    EXPECT_EQ(count(plan, op::attention), bytes == 49152 ? 1u : 0u) << bytes;
  }
}

TEST(fusion_attention, is_left_out_where_nothing_may_round) {
  graph g;
  g.add_output("y", with_options(g, {}));
  fusion::optimize_options options = launches_decide();
  options.tolerance = egraph::exactness::exact;
  EXPECT_EQ(count(fusion::optimize(g, options), op::attention), 0u);
}

TEST(fusion_attention, what_else_is_made_of_weights_is_made_once) {
  graph g;
  const operands all = heads(g, 128, 128, 4, 4, 64);
  const node_id scores = g.contract(all.q, all.k, "thd", "shd", "hts");
  const node_id weights = samples::softmax(g, scores);
  g.add_output("weights", weights);
  g.add_output("y", g.contract(weights, all.v, "hts", "shd", "thd"));
  const graph plan = fusion::optimize(g, {});
  EXPECT_EQ(count(plan, op::attention), 0u) << to_text(plan);
}

// Its numbers are those of the rows it has.
TEST(fusion_attention, some_rows_of_weights_tell_nothing_of_the_others) {
  graph g;
  const operands all = make_operands(g, {5, 4}, {7, 4}, {7, 3});
  const node_id weights = softmax_of(g, g.contract(all.q, all.k, "ik", "jk", "ij"));
  g.add_output("y", g.contract(g.slice(weights, 0, 0, 2), all.v, "ij", "jc", "ic"));
  g.add_output("z", g.multiply(weights, g.input("m", dtype::f32, {5, 7})));
  samples::expect_equal(g, fusion::optimize(g, launches_decide()), "two of five rows");
  samples::expect_all_forms_agree(g, samples::random_leaves(g, -2, 2), launches_decide());
}

// Two products with one left operand are no product of queries and keys.
TEST(fusion_attention, scores_of_a_pair_are_none_of_keys) {
  graph g;
  const node_id q = g.input("q", dtype::f32, {40, 64}), v = g.input("v", dtype::f32, {48, 16});
  const node_id k = g.input("k", dtype::f32, {48, 64}), l = g.input("l", dtype::f32, {48, 64});
  const node_id scores = g.multiply(g.contract(q, k, "id", "jd", "ij"), g.contract(q, l, "id", "jd", "ij"));
  g.add_output("scores", scores);
  g.add_output("y", g.contract(softmax_of(g, scores), v, "ij", "jc", "ic"));
  fusion::optimize_options options = launches_decide();
  options.device.matrix_units = matrix_units::cooperative, options.device.max_invocations = 1024;
  options.schedule = 0;
  options.disabled = {"split_sum", "matmul_epilogue"};
  samples::expect_equal(g, fusion::optimize(g, options), "a pair");
  samples::expect_all_forms_agree(g, samples::random_leaves(g, -1, 1), options);
}

// The rule can be left out, and says why it did nothing.
TEST(fusion_attention, can_be_seen_and_left_out) {
  graph g;
  g.add_output("y", with_options(g, {}));
  fusion::optimize_options options = launches_decide();
  options.explain = true;
  fusion::optimize_report report;
  (void)fusion::optimize(g, options, &report);
  EXPECT_NE(report.explain.find("fuse_attention"), std::string::npos) << report.explain;
  options.disabled = {"fuse_attention"};
  EXPECT_EQ(count(fusion::optimize(g, options, &report), op::attention), 0u);

  graph wide;
  const operands all = make_operands(wide, {3, 300}, {4, 300}, {4, 5});
  wide.add_output("y", wide.contract(samples::softmax(wide, wide.contract(all.q, all.k, "ik", "jk", "ij")), all.v, "ij",
                                     "jc", "ic"));
  options.disabled = {};
  (void)fusion::optimize(wide, options, &report);
  EXPECT_NE(report.explain.find("heads are wider than the device's workgroup memory"), std::string::npos)
      << report.explain;
}

// Of an H100: small products wait for each other more than one kernel does; large ones are on matrix units, as
// attention is where these hold results by rows.
TEST(fusion_attention, sizes_decide) {
  struct asked {
    std::int64_t t, s, h, kv, w;
  };
  const auto chosen = [](const asked& a, bool by_rows, precision wanted = precision::exact) -> std::string {
    graph g;
    const operands all = heads(g, a.t, a.s, a.h, a.kv, a.w);
    g.add_output("y", attend(all.q, all.k, all.v, gqa_options{}));
    fusion::optimize_options options;
    options.precision = wanted;
    options.device.matrix_units = matrix_units::cooperative, options.device.fragments_by_rows = by_rows;
    options.device.max_shared_bytes = 49152, options.device.max_invocations = 1024;
    const graph plan = fusion::optimize(g, options);
    for (node_id id{0}; id < plan.size(); ++id) {
      if (plan[id].kind == op::attention) return to_string(plan.get<attention_attribute>(id).schedule.arithmetic);
    }
    return "three kernels";
  };
  for (const bool by_rows : {false, true}) {
    EXPECT_EQ(chosen({50, 50, 15, 5, 64}, by_rows), "fma");
    EXPECT_EQ(chosen({16, 2048, 9, 3, 64}, by_rows), "three kernels");
    EXPECT_EQ(chosen({512, 512, 16, 16, 128}, by_rows), by_rows ? "split" : "three kernels");
    EXPECT_EQ(chosen({1500, 1500, 6, 6, 64}, by_rows), by_rows ? "split" : "three kernels");
    EXPECT_EQ(chosen({4096, 4096, 8, 8, 40}, by_rows), by_rows ? "split" : "three kernels");
    EXPECT_EQ(chosen({128, 128, 9, 3, 64}, by_rows), by_rows ? "split" : "fma");
  }
  EXPECT_EQ(chosen({1500, 1500, 6, 6, 64}, true, precision::fast), "rounded");
  EXPECT_EQ(chosen({50, 50, 15, 5, 64}, true, precision::fast), "fma");
}

}  // namespace
