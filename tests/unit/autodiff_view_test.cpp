// SPDX-License-Identifier: MIT
// Adjoints of views: random compositions, and the shapes they leave in the graph.
#include <meganeura/autodiff/gradient.hpp>

#include <oracle/gradient_check.hpp>
#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>
#include <support/sentence_of.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace meganeura;
using namespace meganeura::oracle;

class view_fuzz {
 public:
  explicit view_fuzz(std::uint64_t seed) : engine_(seed) {}

  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }

  shape random_shape() {
    shape extents;
    for (std::int64_t rank = pick(0, 4); rank > 0; --rank) extents.push_back(pick(1, 4));
    return extents;
  }

  node_id step(graph& g, node_id a) {
    const shape extents = g[a].extents;
    const int axis = extents.rank() == 0 ? 0 : static_cast<int>(pick(0, extents.rank() - 1));
    switch (extents.rank() == 0 ? 4 : pick(0, 5)) {
      case 0:
        return permute(g, a);
      case 1:
        return reshape(g, a);
      case 2: {
        const std::int64_t step = pick(1, 3), start = pick(0, extents[axis] - 1);
        return g.slice(a, axis, start, pick(1, (extents[axis] - 1 - start) / step + 1), step);
      }
      case 3:
        return g.flip(a, axis);
      case 4:
        return expand(g, a);
      default: {
        std::vector<std::int64_t> low(static_cast<std::size_t>(extents.rank())), high = low;
        low[static_cast<std::size_t>(axis)] = pick(0, 2), high[static_cast<std::size_t>(axis)] = pick(0, 2);
        return g.pad(a, low, high, 0.5);
      }
    }
  }

 private:
  node_id permute(graph& g, node_id a) {
    std::vector<int> axes(static_cast<std::size_t>(g[a].extents.rank()));
    std::iota(axes.begin(), axes.end(), 0);
    std::shuffle(axes.begin(), axes.end(), engine_);
    return g.permute(a, axes);
  }

  // Merges two neighbouring axes, or splits one in two.
  node_id reshape(graph& g, node_id a) {
    const shape from = g[a].extents;
    shape to;
    const int at = static_cast<int>(pick(0, from.rank() - 1));
    const bool merge = at + 1 < from.rank() && pick(0, 1) == 0;
    for (int i = 0; i < from.rank(); ++i) {
      if (i == at && merge) {
        to.push_back(from[i] * from[i + 1]);
        ++i;
      } else if (i == at && from.rank() < 6) {
        const std::int64_t part = from[i] % 2 == 0 ? 2 : from[i] % 3 == 0 ? 3 : 1;
        to.push_back(part);
        to.push_back(from[i] / part);
      } else {
        to.push_back(from[i]);
      }
    }
    return g.reshape(a, to);
  }

  node_id expand(graph& g, node_id a) {
    shape to = g[a].extents;
    for (int i = 0; i < to.rank(); ++i) {
      if (to[i] == 1) to.set(i, pick(1, 3));
    }
    if (to.rank() > 4 || to.elements() > 300) return a;
    shape wider{pick(1, 2)};
    for (std::int64_t extent : to) wider.push_back(extent);
    return g.expand(a, wider);
  }

  std::mt19937_64 engine_;
};

// The adjoint is linear and checked exactly: <view(x), w> = <x, adjoint(w)> for the pair of every unit vector would
// cost too much, so the finite field compares the gradient of <view(x), w> with a scatter of w done by hand.
TEST(autodiff_view, two_hundred_random_compositions_have_the_exact_adjoint) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    view_fuzz fuzz(seed);
    graph g;
    const shape size = fuzz.random_shape();
    const node_id x = g.input("x", dtype::f32, size), wrt[] = {x};
    node_id y = x;
    for (std::int64_t steps = fuzz.pick(1, 6); steps > 0; --steps) y = fuzz.step(g, y);
    const node_id seeds[] = {g.input("w", dtype::f32, shape(g[y].extents))}, outputs[] = {y};
    const node_id result = gradients(g, outputs, seeds, wrt)[0];

    tensors<prime_field> leaves{{"x", random_tensor<prime_field>(size, seed)},
                                {"w", random_tensor<prime_field>(g[y].extents, seed + 1000)}};
    interpreter<prime_field> run(g, leaves);
    const tensor<prime_field> found = run.value(result);
    // y is affine in x: y(x + d) - y(x) weighted with w must be the inner product of the gradient and d.
    const auto weighted = [&](const tensor<prime_field>& at) {
      run.leaves["x"] = at;
      run.clear();
      const tensor<prime_field>& value = run.value(y);
      prime_field sum;
      for (std::int64_t i = 0; i < value.extents.elements(); ++i) sum += value[i] * leaves["w"][i];
      return sum;
    };
    const tensor<prime_field> zero(size);
    const prime_field base = weighted(zero);
    for (std::int64_t i = 0; i < std::min<std::int64_t>(size.elements(), 40); ++i) {
      tensor<prime_field> unit = zero;
      unit[i] = prime_field(1.0);
      ASSERT_EQ(weighted(unit) - base, found[i]) << "seed " << seed << " element " << i << '\n' << to_text(g);
    }
  }
}

TEST(autodiff_view, a_diagonal_goes_back_to_the_diagonal) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {3, 3});
  view_attribute diagonal;
  diagonal.strides[0] = 4;
  EXPECT_LT(
      gradient_error(g, g.map(scalar_op::sin, {g.view(x, {3}, diagonal)}), {x}, {{"x", random_tensor({3, 3}, 1)}}),
      gradient_tolerance);
}

TEST(autodiff_view, overlapping_windows_are_refused_with_a_sentence) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {6}), wrt[] = {x};
  view_attribute windows;
  windows.strides[0] = 1, windows.strides[1] = 1;
  const node_id loss = g.reduce(reduce_kind::sum, g.view(x, {4, 3}, windows), 3);
  // A sum over constants: the gradient arrives expanded, the map still overlaps.
  std::string text;
  EXPECT_EQ(support::thrown_by([&] { static_cast<void>(gradients(g, loss, wrt)); }, &text),
            error_category::invalid_argument);
  EXPECT_NE(text.find("overlapping"), std::string::npos);
}

std::vector<op> kinds_after(const graph& g, std::size_t start) {
  std::vector<op> kinds;
  for (auto id = static_cast<node_id>(start); id < g.size(); ++id) kinds.push_back(g[id].kind);
  return kinds;
}

TEST(autodiff_view, a_permutation_goes_back_through_one_view) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {2, 3, 4}), wrt[] = {x};
  const int order[] = {2, 0, 1};
  const node_id y[] = {g.permute(x, order)}, seed[] = {g.input("w", dtype::f32, {4, 2, 3})};
  const std::size_t before = g.size();
  static_cast<void>(gradients(g, y, seed, wrt));
  EXPECT_EQ(kinds_after(g, before), (std::vector<op>{op::view}));
}

TEST(autodiff_view, a_slice_goes_back_through_one_pad_of_its_axis) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {2, 8, 4}), wrt[] = {x};
  const node_id y[] = {g.slice(x, 1, 3, 2)}, seed[] = {g.input("w", dtype::f32, {2, 2, 4})};
  const std::size_t before = g.size();
  const node_id result = gradients(g, y, seed, wrt)[0];
  EXPECT_EQ(kinds_after(g, before), (std::vector<op>{op::pad}));
  const auto& border = g.get<pad_attribute>(result);
  EXPECT_EQ(border.low[1], 3);
  EXPECT_EQ(border.high[1], 3);
}

TEST(autodiff_view, a_broadcast_goes_back_through_one_sum) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {4}), wrt[] = {x};
  const node_id y[] = {g.expand(x, {2, 3, 4})}, seed[] = {g.input("w", dtype::f32, {2, 3, 4})};
  const std::size_t before = g.size();
  static_cast<void>(gradients(g, y, seed, wrt));
  EXPECT_EQ(kinds_after(g, before), (std::vector<op>{op::reduce}));
}

TEST(autodiff_view, split_attention_heads_go_back_through_one_view_and_one_pad) {
  graph g;
  const node_id qkv = g.input("qkv", dtype::f32, {2, 5, 12}), wrt[] = {qkv};
  const int heads_first[] = {0, 2, 1, 3};
  const node_id k = g.permute(g.reshape(g.slice(qkv, 2, 4, 4), {2, 5, 2, 2}), heads_first);
  const node_id y[] = {k}, seed[] = {g.input("w", dtype::f32, {2, 2, 5, 2})};
  const std::size_t before = g.size();
  static_cast<void>(gradients(g, y, seed, wrt));
  const auto kinds = kinds_after(g, before);
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), op::pad), 1);
  EXPECT_LE(kinds.size(), 3u);
}

// Elements of what is added for the gradient of `steps` rows that are read one by one, every second one twice.
std::int64_t elements_for(int steps) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {steps, 3}), wrt[] = {x};
  node_id h = g.full({1, 3}, 0);
  for (int t = 0; t < steps; ++t) h = g.map(scalar_op::tanh, {g.add(h, g.slice(x, 0, t, 1))});
  for (int t = 1; t < steps; t += 2) h = g.multiply(h, g.slice(x, 0, t, 1));
  const node_id loss = g.reduce(reduce_kind::sum, h, 3);
  const std::size_t before = g.size();
  tensors<double> leaves{{"x", random_tensor({steps, 3}, 1, 0.8, 1.2)}};
  const node_id found = gradients(g, loss, wrt)[0];
  interpreter<double> run(g, leaves);
  EXPECT_LT(relative_error(run.value(found), numeric_gradient(g, loss, x, leaves)), gradient_tolerance);
  std::vector<bool> used(g.size(), false);
  used[found] = true;
  std::int64_t elements = 0;
  for (auto id = static_cast<node_id>(g.size()); id-- > before;) {
    if (!used[id]) continue;
    elements += g[id].kind == op::view ? 0 : g[id].extents.elements();
    for (node_id operand : g.operands(id)) used[operand] = true;
  }
  return elements;
}

TEST(autodiff_view, the_gradient_of_a_sequence_read_step_by_step_grows_with_its_length) {
  const std::int64_t few = elements_for(8), many = elements_for(32);
  EXPECT_LE(many, 5 * few);
  EXPECT_GE(many, 3 * few);
}

}  // namespace
