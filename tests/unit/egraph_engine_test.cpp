// SPDX-License-Identifier: MIT
// The e-graph engine against the definition of congruence closure.
#include <meganeura/core/error.hpp>
#include <meganeura/egraph/egraph.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace meganeura;
using egraph::class_id;

struct random_terms {
  struct term {
    int function = 0;  // 0: a leaf
    std::size_t a = 0, b = 0;
  };
  std::vector<term> terms;
  std::vector<std::pair<std::size_t, std::size_t>> equations;

  explicit random_terms(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    constexpr std::size_t leaves = 6, inner = 60;
    for (std::size_t i = 0; i < leaves; ++i) terms.push_back({});
    for (std::size_t i = 0; i < inner; ++i) {
      terms.push_back({static_cast<int>(random() % 3) + 1, random() % terms.size(), random() % terms.size()});
    }
    for (std::size_t i = 0; i < 12; ++i) equations.emplace_back(random() % terms.size(), random() % terms.size());
  }

  /// The definition, applied until nothing changes; the representative of each term.
  [[nodiscard]] std::vector<std::size_t> closure() const {
    std::vector<std::size_t> group(terms.size());
    for (std::size_t i = 0; i < group.size(); ++i) group[i] = i;
    const auto unite = [&](std::size_t a, std::size_t b) {
      const std::size_t from = group[a], to = group[b];
      for (std::size_t& g : group) g = g == from ? to : g;
      return from != to;
    };
    for (const auto& [a, b] : equations) unite(a, b);
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t i = 0; i < terms.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
          const term &s = terms[i], &t = terms[j];
          if (s.function == 0 || s.function != t.function || group[s.a] != group[t.a] || group[s.b] != group[t.b])
            continue;
          changed = unite(i, j) || changed;
        }
      }
    }
    return group;
  }

  [[nodiscard]] std::vector<class_id> classes(std::uint64_t order_seed) const {
    egraph::engine g;
    std::vector<class_id> ids;
    constexpr scalar_op functions[] = {scalar_op::argument, scalar_op::add, scalar_op::multiply, scalar_op::maximum};
    for (const term& t : terms) {
      if (t.function == 0) {
        ids.push_back(g.add(op::input, dtype::f32, {4}, leaf_attribute{std::to_string(ids.size())}, {}));
        continue;
      }
      const dtype types[] = {dtype::f32, dtype::f32};
      const class_id operands[] = {ids[t.a], ids[t.b]};
      ids.push_back(
          g.add(op::map, dtype::f32, {4}, map_attribute{single_op_program(functions[t.function], types)}, operands));
    }
    auto shuffled = equations;
    std::mt19937_64 random(order_seed);
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    std::size_t done = 0;
    for (const auto& [a, b] : shuffled) {
      g.merge(ids[a], ids[b]);
      if (++done % 5 == 0) g.rebuild();
    }
    g.rebuild();
    for (class_id& id : ids) id = g.find(id);
    return ids;
  }
};

template <class A, class B>
bool same_partition(const std::vector<A>& a, const std::vector<B>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if ((a[i] == a[j]) != (b[i] == b[j])) return false;
    }
  }
  return true;
}

TEST(egraph_engine, rebuild_is_congruence_closure) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const random_terms terms(seed);
    ASSERT_TRUE(same_partition(terms.closure(), terms.classes(seed))) << "seed " << seed;
  }
}

TEST(egraph_engine, the_order_of_merges_does_not_matter) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const random_terms terms(seed);
    ASSERT_TRUE(same_partition(terms.classes(1), terms.classes(2))) << "seed " << seed;
  }
}

TEST(egraph_engine, constants_are_known_through_views_maps_and_sums) {
  egraph::engine g;
  const class_id three = g.add(op::constant, dtype::f32, {}, constant_attribute{3}, {});
  const class_id scalar[] = {three};
  const class_id wide = g.add(op::view, dtype::f32, {4, 5}, view_attribute{}, scalar);
  const dtype types[] = {dtype::f32, dtype::f32};
  const class_id both[] = {wide, wide};
  const class_id square =
      g.add(op::map, dtype::f32, {4, 5}, map_attribute{single_op_program(scalar_op::multiply, types)}, both);
  const class_id summed[] = {square};
  const class_id sum = g.add(op::reduce, dtype::f32, {4}, reduce_attribute{reduce_kind::sum, 2}, summed);
  EXPECT_EQ(g[wide].constant, 3.0);
  EXPECT_EQ(g[square].constant, 9.0);
  EXPECT_EQ(g[sum].constant, 45.0);
}

TEST(egraph_engine, a_constant_learned_by_a_merge_reaches_the_users) {
  egraph::engine g;
  const class_id x = g.add(op::input, dtype::f32, {}, leaf_attribute{"x"}, {});
  const dtype types[] = {dtype::f32};
  const class_id operand[] = {x};
  const class_id negated =
      g.add(op::map, dtype::f32, {}, map_attribute{single_op_program(scalar_op::negate, types)}, operand);
  g.merge(x, g.add(op::constant, dtype::f32, {}, constant_attribute{2}, {}));
  g.rebuild();
  EXPECT_EQ(g[g.find(negated)].constant, -2.0);
}

TEST(egraph_engine, classes_of_different_shapes_cannot_be_equal) {
  egraph::engine g;
  const class_id a = g.add(op::input, dtype::f32, {4}, leaf_attribute{"a"}, {});
  const class_id b = g.add(op::input, dtype::f32, {5}, leaf_attribute{"b"}, {});
  const class_id c = g.add(op::input, dtype::i32, {4}, leaf_attribute{"c"}, {});
  EXPECT_THROW(g.merge(a, b), error);
  EXPECT_THROW(g.merge(a, c), error);
}

}  // namespace
