// SPDX-License-Identifier: MIT
// What a score's program says of the keys that a query sees by its place, and when that is not to be believed.
#include <meganeura/expr/value.hpp>
#include <meganeura/fusion/optimize.hpp>
#include <meganeura/fusion/visible_keys.hpp>
#include <meganeura/operations.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <utility>

namespace {

using namespace meganeura;
using fusion::visible_keys;

using places = std::pair<std::int64_t, std::int64_t>;  // behind, ahead
constexpr std::int64_t all = visible_keys::everywhere;
constexpr float infinity = std::numeric_limits<float>::infinity();

// Of the one attention in it, whatever it takes.
places of_graph(const graph& g) {
  fusion::optimize_options options;
  options.device.launch = {1, 1};
  const graph chosen = fusion::optimize(g, options);
  places found{-1, -1};
  for (node_id id{0}; id < chosen.size(); ++id) {
    if (chosen[id].kind != op::attention) continue;
    const visible_keys seen = fusion::visible_keys_of(chosen.get<attention_attribute>(id));
    EXPECT_EQ(found, places(-1, -1)) << "there are two";
    found = {seen.behind, seen.ahead};
  }
  EXPECT_NE(found, places(-1, -1)) << to_text(chosen);
  return found;
}

places of_layer(std::int64_t queries, std::int64_t keys, gqa_options options) {
  graph g;
  const node_value q(g, g.input("q", dtype::f32, {2, queries, 4, 8}));
  const node_value k(g, g.input("k", dtype::f32, {2, keys, 2, 8})), v(g, g.input("v", dtype::f32, {2, keys, 2, 8}));
  g.add_output("y", attend(q, k, v, options));
  return of_graph(g);
}

TEST(fusion_visible_keys, layers_say_what_they_see) {
  EXPECT_EQ(of_layer(64, 64, {}), places(all, all));
  EXPECT_EQ(of_layer(64, 64, {.causal = true}), places(all, 0));
  EXPECT_EQ(of_layer(6, 37, {.causal = true}), places(all, 31));
  EXPECT_EQ(of_layer(64, 64, {.causal = true, .alibi = true}), places(all, 0));
  EXPECT_EQ(of_layer(64, 64, {.causal = true, .softcap = 2}), places(all, 0));
  EXPECT_EQ(of_layer(64, 64, {.causal = true, .sliding_window = 5}), places(4, 0));
  EXPECT_EQ(of_layer(64, 64, {.sliding_window = 5}), places(4, 4));
}

// softmax(change(q k, positions of queries, of keys)) v.
template <class Change>
places of_scores(const Change& change) {
  graph g;
  const shape size{32, 48};
  const node_id q = g.input("q", dtype::f32, {32, 8}), k = g.input("k", dtype::f32, {48, 8});
  const node_value scores(g, g.contract(q, k, "td", "sd", "ts"));
  const node_value query(g, g.coordinates(size, 0)), key(g, g.coordinates(size, 1));
  const node_value weights = softmax(change(scores, query, key, g), -1);
  g.add_output("y", g.contract(weights.id(), g.input("v", dtype::f32, {48, 8}), "ts", "sc", "tc"));
  return of_graph(g);
}

TEST(fusion_visible_keys, other_spellings_do_as_well) {
  EXPECT_EQ(
      of_scores([](auto x, auto query, auto key, graph&) { return select(less_equal(key, query), x, -infinity); }),
      places(all, 0));
  EXPECT_EQ(of_scores([](auto x, auto query, auto key, graph&) { return select(less(key - query, 7), x, -1e38f); }),
            places(all, 6));
  EXPECT_EQ(of_scores([](auto x, auto query, auto key, graph&) {
              const auto ahead = select(less_equal(key, query + 3), x, -1e38f);
              return select(less(query - key, 9), ahead * 0.5f, -1e38f);
            }),
            places(all, all))
      << "what is hidden inside is above what is hidden outside";
  EXPECT_EQ(of_scores([](auto x, auto query, auto key, graph&) {
              const auto ahead = select(less_equal(key, query + 3), x, -1e38f);
              return select(less(query - key, 29), ahead, -1e38f);
            }),
            places(28, 3));
}

// A row whose every score is minus infinity is NaN, and so it is of some of them.
TEST(fusion_visible_keys, minus_infinity_hides_whatever_else_does) {
  EXPECT_EQ(of_scores([](auto x, auto query, auto key, graph& g) {
              const node_value mask(g, g.input("mask", dtype::f32, {32, 48}));
              return select(less(mask, 0.5f), -infinity, select(less_equal(key, query), x, -infinity));
            }),
            places(all, 0));
  EXPECT_EQ(of_scores([](auto x, auto query, auto key, graph& g) {
              const node_value bias(g, g.input("bias", dtype::f32, {32, 48}));
              return select(less_equal(key, query), x + bias, -infinity);
            }),
            places(all, 0));
}

// Where rows may see nothing, or what is hidden is not far below what a row sees, all keys count.
TEST(fusion_visible_keys, what_may_weigh_something_is_seen) {
  EXPECT_EQ(of_scores([](auto x, auto query, auto key, graph&) { return select(less_equal(key, query), x, -1e9f); }),
            places(all, all))
      << "scores may be as low";
  EXPECT_EQ(
      of_scores([](auto x, auto query, auto key, graph&) { return select(less_equal(key, query), x * 1e31f, -1e30f); }),
      places(all, all))
      << "scores are as low";
  EXPECT_EQ(of_scores([](auto x, auto query, auto key, graph&) {
              return select(less_equal(key + 2147483600, query + 2147483600), x, -infinity);
            }),
            places(all, all))
      << "sums of i32 wrap";
  EXPECT_EQ(of_scores([](auto x, auto query, auto key, graph&) { return select(less(key, query), x, -1e38f); }),
            places(all, all))
      << "the first query sees nothing";
  EXPECT_EQ(of_scores([](auto x, auto query, auto key, graph& g) {
              const node_value bias(g, g.input("bias", dtype::f32, {32, 48}));
              return select(less_equal(key, query), x + bias, -1e38f);
            }),
            places(all, all))
      << "a bias may hide all";
  EXPECT_EQ(of_scores([](auto x, auto query, auto key, graph& g) {
              const node_value mask(g, g.input("mask", dtype::f32, {32, 48}));
              return select(less(mask, 0.5f), select(less_equal(key, query), x, -1e38f), -1e38f);
            }),
            places(all, all))
      << "a mask may hide all";
  EXPECT_EQ(of_scores([](auto x, auto query, auto key, graph& g) {
              const node_value mask(g, g.input("mask", dtype::f32, {32, 48}));
              return select(less(mask, 0.5f), -infinity, select(less_equal(key, query), x, -1e38f));
            }),
            places(all, all))
      << "the same, the other way round";
  EXPECT_EQ(
      of_scores([](auto x, auto query, auto key, graph&) { return select(less_equal(key + key, query), x, -1e38f); }),
      places(all, all))
      << "every second one";
  EXPECT_EQ(
      of_scores([](auto x, auto query, auto key, graph&) { return select(less_equal(key, query), log(x), -1e38f); }),
      places(all, all))
      << "the logarithm of 0 is lower";
  EXPECT_EQ(of_scores([](auto x, auto query, auto key, graph&) { return select(less(query - key, 5), x, -1e38f); }),
            places(4, all))
      << "all queries see the last keys";
}

TEST(fusion_visible_keys, shares_of_pairs) {
  EXPECT_EQ((visible_keys{.places = 10}.share(10)), 1);
  EXPECT_DOUBLE_EQ((visible_keys{.ahead = 0, .places = 10}.share(10)), 0.55);
  EXPECT_DOUBLE_EQ((visible_keys{.behind = 0, .ahead = 0, .places = 10}.share(10)), 0.1);
  EXPECT_DOUBLE_EQ((visible_keys{.ahead = 5, .places = 5}.share(10)), 0.8);
}

}  // namespace
