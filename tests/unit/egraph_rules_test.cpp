// SPDX-License-Identifier: MIT
// Each pattern rule, checked by evaluating both of its sides: the terms that match and build are the terms that are
// tested.
#include <meganeura/egraph/saturate.hpp>
#include <meganeura/fusion/optimize.hpp>
#include <meganeura/fusion/rules.hpp>

#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace {

using namespace meganeura;
using namespace meganeura::egraph;

/// A rule behind functions, so that each is compiled once and not by every test.
struct any_rule {
  const char* name;
  exactness kind;
  int root;  // head
  std::function<bool(const captures&)> guard;
  /// Both sides as terms of `g`.
  std::function<std::pair<class_id, class_id>(engine& g, const captures&, const shape& extents)> build;
  std::function<std::vector<captures>(const engine& g, enode_id)> matches;
  std::function<bool(engine& g, const captures&, rule_mask reason)> apply;
};

template <class Rule>
any_rule erased(const Rule& rule) {
  return {rule.name,
          rule.kind,
          Rule::root,
          rule.guard,
          [rule](engine& g, const captures& b, const shape& extents) {
            const class_id left = pattern::build(g, rule.left, b, extents, dtype::f32);
            return std::pair{left, pattern::build(g, rule.right, b, extents, dtype::f32)};
          },
          [rule](const engine& g, enode_id node) {
            std::vector<captures> found;
            rule.match(g, node, [&](const captures& b) { found.push_back(b); });
            return found;
          },
          [rule](engine& g, const captures& b, rule_mask reason) { return rule.apply(g, b, reason); }};
}

const std::vector<any_rule>& all_rules() {
  static const std::vector<any_rule> all = [] {
    std::vector<any_rule> list;
    fusion::rules::algebra.for_each(decltype(fusion::rules::algebra)::subset::all(),
                                    [&](std::size_t, const auto& rule) { list.push_back(erased(rule)); });
    return list;
  }();
  return all;
}

/// The terms of one rule over real inputs: x, y, z are [3, 4], w is [4, 5]; sums run over axis 1.
struct instance {
  engine g;
  captures b;
  class_id left = no_id, right = no_id;

  instance(const any_rule& rule, double c, double d) {
    const char* names[] = {"x", "y", "z", "w"};
    const bool product = rule.root == head_of(op::contract);
    const shape wide = {3, 4}, other = product ? shape{4, 5} : wide;
    for (std::size_t i = 0; i < max_variables; ++i) {
      b.variables[i] = g.add(op::input, dtype::f32, i == 3 ? other : wide, leaf_attribute{names[i]}, {});
    }
    b.constants = {c, d};
    const class_id both[] = {b.variables[0], b.variables[3]};
    const class_id one[] = {b.variables[0]};
    shape extents = wide;
    if (product) {
      const contract_attribute labels{{0, 2}, {2, 1}, 2};
      extents = {3, 5};
      b.nodes[0] = node_of(g.add(op::contract, dtype::f32, extents, labels, both));
    } else if (rule.root == head_of(op::reduce)) {
      extents = {3};
      b.nodes[0] = node_of(g.add(op::reduce, dtype::f32, extents, reduce_attribute{reduce_kind::sum, 2}, one));
    }
    std::tie(left, right) = rule.build(g, b, extents);
  }
  [[nodiscard]] enode_id node_of(class_id id) const { return g[id].nodes.front(); }

  node_id copy(graph& to, class_id id) const {
    const enode_id node = node_of(id);
    std::vector<node_id> operands;
    for (class_id operand : g.operands(node)) operands.push_back(copy(to, operand));
    return to.add_node(g.node(node).kind, g.node(node).type, g.extents(id), g.attribute_of(node), operands);
  }

  template <class Real>
  [[nodiscard]] std::pair<oracle::tensor<Real>, oracle::tensor<Real>> values(std::uint64_t seed, double low) const {
    return evaluated<Real>([&](const shape& extents) { return oracle::random_tensor<Real>(extents, ++seed, low, 2); });
  }

  /// Over all that is special about floats.
  [[nodiscard]] std::pair<oracle::tensor<float>, oracle::tensor<float>> special_values(std::uint64_t seed) const {
    constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    constexpr float numbers[] = {0.0f,  -0.0f,  1.0f,   -1.0f,   infinity, -infinity, nan,   1e-40f,
                                 1e30f, -1e30f, 1e-30f, -1e-30f, 3e38f,    7.5f,      20.0f, -90.0f};
    std::mt19937_64 random(seed);
    return evaluated<float>([&](const shape& extents) {
      oracle::tensor<float> filled(extents);
      for (float& value : filled.values) value = numbers[random() % std::size(numbers)];
      return filled;
    });
  }

  template <class Real, class Fill>
  [[nodiscard]] std::pair<oracle::tensor<Real>, oracle::tensor<Real>> evaluated(Fill&& fill) const {
    graph both;
    const node_id a = copy(both, left), b_node = copy(both, right);
    oracle::tensors<Real> leaves;
    for (node_id leaf : both.leaves(op::input)) leaves[both.get<leaf_attribute>(leaf).name] = fill(both[leaf].extents);
    oracle::interpreter<Real> run(both, leaves);
    return {run.value(a), run.value(b_node)};
  }

  [[nodiscard]] bool polynomial() const {
    for (enode_id id{0}; id < g.node_count(); ++id) {
      if (g.node(id).kind != op::map) continue;
      const scalar_op last = g.get<map_attribute>(id).program.nodes.back().op;
      const bool fine = last == scalar_op::add || last == scalar_op::subtract || last == scalar_op::multiply ||
                        last == scalar_op::negate || last == scalar_op::divide;
      if (!fine) return false;
    }
    return true;
  }
};

TEST(egraph_rules, both_sides_agree_in_f64) {
  for (const any_rule& rule : all_rules()) {
    // 1 / 3 is rounded to f32 when it is folded; nothing else is.
    const double bound = oracle::tolerance(dtype::f32, 5);
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      const instance positive(rule, 0.5, 3), thirds(rule, 3, 0.7);
      const auto [a, b] = positive.values<double>(seed * 10, 0.25);
      EXPECT_LE(oracle::relative_error(a, b), bound) << rule.name;
      if (std::string(rule.name) == "divide_by_power_of_two") continue;  // its guard refuses 3
      const auto [c, d] = thirds.values<double>(seed * 10, 0.25);
      EXPECT_LE(oracle::relative_error(c, d), bound) << rule.name;
    }
  }
}

TEST(egraph_rules, polynomial_rules_hold_exactly_in_a_finite_field) {
  int checked = 0;
  for (const any_rule& rule : all_rules()) {
    const instance terms(rule, 0.5, 0.25);
    if (!terms.polynomial()) continue;
    ++checked;
    const auto [a, b] = terms.values<oracle::prime_field>(7, 0);
    ASSERT_EQ(a.values.size(), b.values.size()) << rule.name;
    for (std::size_t i = 0; i < a.values.size(); ++i) {
      EXPECT_EQ(a.values[i].residue(), b.values[i].residue()) << rule.name;
    }
  }
  EXPECT_GE(checked, 11);
}

TEST(egraph_rules, rules_tagged_exact_give_the_same_bits) {
  for (const any_rule& rule : all_rules()) {
    if (rule.kind != exactness::exact) continue;
    const instance terms(rule, 0.5, 4);
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      const auto [a, b] = terms.values<float>(seed * 10, -2);
      EXPECT_EQ(a.values, b.values) << rule.name;
    }
  }
}

constexpr double constant_pairs[][2] = {{0.5, 4},       {-2, 0.25},   {3, 0.7},      {1, -1},
                                        {-0.0, 5},      {1e30, 1e30}, {1e30, 1e-30}, {1e-30, 1e30},
                                        {1e-30, 1e-30}, {1e-40, 2},   {3e38, 3}};

TEST(egraph_rules, exact_rules_hold_bit_for_bit_for_zeros_infinities_and_nan) {
  int checked = 0;
  for (const any_rule& rule : all_rules()) {
    if (rule.kind != exactness::exact) continue;
    for (const auto& [c, d] : constant_pairs) {
      const instance terms(rule, c, d);
      if (!rule.guard(terms.b)) continue;
      ++checked;
      for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        const auto [a, b] = terms.special_values(seed);
        for (std::size_t i = 0; i < a.values.size(); ++i) {
          const float x = a.values[i], y = b.values[i];
          const bool same =
              std::isnan(x) ? std::isnan(y) : std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
          ASSERT_TRUE(same) << rule.name << ": " << x << " became " << y;
        }
      }
    }
  }
  EXPECT_GE(checked, 4 * 11);
}

// A rewritten value may be finite where the original is not, and never the other way round.
TEST(egraph_rules, no_rule_overflows_or_vanishes_where_its_left_side_does_not) {
  for (const any_rule& rule : all_rules()) {
    for (const auto& [c, d] : constant_pairs) {
      const instance terms(rule, c, d);
      if (!rule.guard(terms.b)) continue;
      for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        const auto [a, b] = terms.special_values(seed);
        for (std::size_t i = 0; i < a.values.size(); ++i) {
          const float x = a.values[i], y = b.values[i];
          if (!std::isfinite(x)) continue;
          ASSERT_TRUE(std::isfinite(y)) << rule.name << " with " << c << " and " << d << ": " << x << " became " << y;
          ASSERT_TRUE(!std::isnormal(x) || y != 0) << rule.name << " with " << c << " and " << d << ": from " << x;
        }
      }
    }
  }
}

TEST(egraph_rules, dropping_the_guard_of_an_exact_rule_is_noticed) {
  const any_rule unguarded =
      erased(pattern::rewrite("unguarded", pattern::_x / pattern::_c, pattern::_x * (1 / pattern::_c)));
  bool differs = false;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto [a, b] = instance(unguarded, 3, 1).values<float>(seed, -2);
    differs = differs || a.values != b.values;
  }
  EXPECT_TRUE(differs);
}

TEST(egraph_rules, every_rule_finds_and_merges_its_own_left_side) {
  for (const any_rule& rule : all_rules()) {
    instance terms(rule, 0.5, 3);
    std::vector<captures> found;
    for (enode_id node : terms.g[terms.left].nodes)
      for (const captures& b : rule.matches(terms.g, node)) found.push_back(b);
    EXPECT_FALSE(found.empty()) << rule.name;
    for (const captures& b : found) rule.apply(terms.g, b, {});
    terms.g.rebuild();
    EXPECT_EQ(terms.g.find(terms.left), terms.g.find(terms.right)) << rule.name;
  }
}

// What no other rule does: without it what it matches takes longer, where arithmetic is what takes time.
TEST(egraph_rules, every_rule_is_worth_something) {
  for (const any_rule& rule : all_rules()) {
    captures odd;
    odd.constants = {3, 0.5};
    const bool takes_odd = !rule.guard || rule.guard(odd);
    const instance terms(rule, takes_odd ? 3 : 0.5, takes_odd ? 0.5 : 3);
    graph g;
    g.add_output("y", terms.copy(g, terms.left));
    const auto seconds = [&](std::vector<std::string> disabled) {
      fusion::optimize_options options;
      options.disabled = std::move(disabled);
      options.device.scalar_flops = 1e6;
      options.tolerance = rule.kind;
      fusion::optimize_report report;
      (void)fusion::optimize(g, options, &report);
      return report.predicted_seconds;
    };
    EXPECT_LT(seconds({}), 0.999 * seconds({rule.name})) << rule.name;
  }
}

TEST(egraph_rules, names_are_unique) {
  std::set<std::string> names;
  for (const any_rule& rule : all_rules()) EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
}

template <class Left, class Right>
concept can_rewrite = requires(Left l, Right r) {
  pattern::rewrite("rule", l, r);
};
using pattern::_c;
using pattern::_x;
using pattern::_y;
static_assert(can_rewrite<decltype(exp(_x)), decltype(_x * 2.0)>);
static_assert(!can_rewrite<decltype(exp(_x)), decltype(_x * _y)>, "_y is bound nowhere");
static_assert(!can_rewrite<decltype(exp(_x)), decltype(_x * _c)>, "_c is bound nowhere");
static_assert(!can_rewrite<decltype(exp(_x)), decltype(sum(_x))>, "the axes are bound nowhere");

TEST(egraph_saturation, looking_only_at_changes_finds_what_looking_everywhere_finds) {
  // -(-(-(-x))) * 0.5 * 4 in many copies: rules enable each other over several iterations.
  const auto build_graph = [](engine& g) {
    const dtype types[] = {dtype::f32, dtype::f32};
    for (int i = 0; i < 20; ++i) {
      class_id x = g.add(op::input, dtype::f32, {4}, leaf_attribute{std::to_string(i)}, {});
      for (int k = 0; k < 5; ++k) {
        const class_id one[] = {x};
        x = g.add(op::map, dtype::f32, {4}, map_attribute{single_op_program(scalar_op::negate, {types, 1})}, one);
        const class_id two[] = {x, pattern::filled(g, 0.5 * (k + 1), {4}, dtype::f32, {})};
        x = g.add(op::map, dtype::f32, {4}, map_attribute{single_op_program(scalar_op::multiply, types)}, two);
      }
    }
  };
  engine incremental, full;
  build_graph(incremental);
  build_graph(full);
  saturation_limits limits;
  limits.iterations = 30;
  const saturation_report report =
      run_rules(incremental, fusion::rules::algebra, decltype(fusion::rules::algebra)::subset::all(), 0, limits);
  EXPECT_GT(report.iterations, 2);
  EXPECT_TRUE(report.limits.empty());
  for (bool changed = true; changed;) {
    changed = false;
    std::vector<std::pair<class_id, class_id>> before;
    for (enode_id node{0}, count = static_cast<enode_id>(full.node_count()); node < count; ++node) {
      if (full.node(node).dead) continue;
      const auto& starting = decltype(fusion::rules::algebra)::at[full.node(node).head];
      for (std::size_t i = 0; i < all_rules().size(); ++i) {
        if (!starting[i]) continue;
        const any_rule& rule = all_rules()[i];
        for (const captures& b : rule.matches(full, node)) changed = rule.apply(full, b, {}) || changed;
      }
      full.rebuild();
    }
  }
  const auto classes = [](const engine& g) {
    std::set<class_id> distinct;
    for (enode_id id{0}; id < g.node_count(); ++id) {
      if (!g.node(id).dead) distinct.insert(g.find(g.node(id).owner));
    }
    return distinct.size();
  };
  EXPECT_EQ(classes(incremental), classes(full));
}

}  // namespace
