// SPDX-License-Identifier: MIT
// Views: whatever they are composed of, they read what the steps one by one would read.
#include <meganeura/graph/graph.hpp>

#include <oracle/interpreter.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

namespace {

using namespace meganeura;
using namespace meganeura::oracle;

/// A tensor of element numbers: what a view of it holds says which elements were read.
tensor<double> numbered(const shape& extents) {
  tensor<double> result(extents);
  std::iota(result.values.begin(), result.values.end(), 0.0);
  return result;
}

// One random step, done by the graph and independently on plain indices: source(index) names the element to read.
struct step {
  node_id node;
  tensor<double> expected;
};

template <class Source>
tensor<double> reread(const tensor<double>& from, const shape& extents, Source&& source) {
  tensor<double> result(extents);
  std::int64_t flat = 0;
  for_each_index(extents, [&](const index_vector& index) {
    const index_vector at = source(index);
    std::int64_t offset = 0;
    for (int i = 0; i < from.extents.rank(); ++i) offset += at[static_cast<std::size_t>(i)] * from.extents.stride(i);
    result[flat++] = from[offset];
  });
  return result;
}

step random_step(graph& g, const step& from, std::mt19937_64& engine) {
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(high - low + 1));
  };
  const shape extents = from.expected.extents;
  const int axis = static_cast<int>(pick(0, extents.rank() - 1));
  const auto u = static_cast<std::size_t>(axis);
  switch (pick(0, 4)) {
    case 0: {
      std::vector<int> axes(static_cast<std::size_t>(extents.rank()));
      std::iota(axes.begin(), axes.end(), 0);
      std::shuffle(axes.begin(), axes.end(), engine);
      shape permuted;
      for (int i : axes) permuted.push_back(extents[i]);
      return {g.permute(from.node, axes), reread(from.expected, permuted, [&](const index_vector& index) {
                index_vector at{};
                for (std::size_t i = 0; i < axes.size(); ++i) at[static_cast<std::size_t>(axes[i])] = index[i];
                return at;
              })};
    }
    case 1: {
      const std::int64_t start = pick(0, extents[axis] - 1), by = pick(1, 3);
      const std::int64_t count = pick(1, (extents[axis] - 1 - start) / by + 1);
      shape cut = extents;
      cut.set(axis, count);
      return {g.slice(from.node, axis, start, count, by), reread(from.expected, cut, [&](index_vector index) {
                index[u] = start + index[u] * by;
                return index;
              })};
    }
    case 2:
      return {g.flip(from.node, axis), reread(from.expected, extents, [&](index_vector index) {
                index[u] = extents[axis] - 1 - index[u];
                return index;
              })};
    case 3: {
      if (extents.rank() > 4 || extents.elements() > 200) return from;
      shape wide{2};
      for (std::int64_t extent : extents) wide.push_back(extent == 1 ? 3 : extent);
      return {g.expand(from.node, wide), reread(from.expected, wide, [&](const index_vector& index) {
                index_vector at{};
                for (int i = 0; i < extents.rank(); ++i) {
                  at[static_cast<std::size_t>(i)] = extents[i] == 1 ? 0 : index[static_cast<std::size_t>(i) + 1];
                }
                return at;
              })};
    }
    default: {  // merge everything, or split off an axis of 2
      shape flat =
          extents.elements() % 2 == 0 && pick(0, 1) ? shape{2, extents.elements() / 2} : shape{extents.elements()};
      tensor<double> same = from.expected;
      same.extents = flat;
      return {g.reshape(from.node, flat), same};
    }
  }
}

TEST(graph_view, random_compositions_read_what_the_single_steps_read) {
  int merged = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 engine(seed);
    graph g;
    const shape size = {static_cast<std::int64_t>(engine() % 4 + 1), static_cast<std::int64_t>(engine() % 4 + 1), 6};
    step at{g.input("x", dtype::f32, size), numbered(size)};
    for (int i = 0; i < 6; ++i) at = random_step(g, at, engine);
    interpreter<double> run(g, {{"x", numbered(size)}});
    const tensor<double>& found = run.value(at.node);
    ASSERT_EQ(found.extents, at.expected.extents) << "seed " << seed;
    ASSERT_EQ(found.values, at.expected.values) << "seed " << seed << '\n' << to_text(g);
    merged += g[at.node].kind == op::view && g[g.operand(at.node, 0)].kind == op::input;
  }
  EXPECT_GT(merged, 50);  // many compositions are one view
}

TEST(graph_view, inverse_permutations_and_double_flips_disappear) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {2, 3, 4});
  const int there[] = {2, 0, 1}, back[] = {1, 2, 0};
  EXPECT_EQ(g.permute(g.permute(x, there), back), x);
  EXPECT_EQ(g.flip(g.flip(x, 1), 1), x);
  EXPECT_EQ(g.reshape(g.reshape(x, {24}), {2, 3, 4}), x);
}

TEST(graph_view, a_merge_of_permuted_axes_stays_two_views) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {2, 3});
  const int swap[] = {1, 0};
  const node_id flat = g.reshape(g.permute(x, swap), {6});
  EXPECT_EQ(g[g.operand(flat, 0)].kind, op::view);
}

}  // namespace
