// SPDX-License-Identifier: MIT
// The rule of each primitive against central differences.
#include <meganeura/autodiff/gradient.hpp>

#include <oracle/gradient_check.hpp>
#include <oracle/interpreter.hpp>
#include <support/sentence_of.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace {

using namespace meganeura;
using namespace meganeura::oracle;

constexpr reduce_kind all_reduces[] = {reduce_kind::sum, reduce_kind::max, reduce_kind::min, reduce_kind::product};

TEST(autodiff_primitive, reduces_over_any_axes_match) {
  for (reduce_kind kind : all_reduces) {
    for (std::uint32_t axes : {1u, 2u, 4u, 5u, 7u}) {
      graph g;
      const node_id x = g.input("x", dtype::f32, {2, 3, 4});
      EXPECT_LT(gradient_error(g, g.reduce(kind, x, axes), {x}, {{"x", random_tensor({2, 3, 4}, 1, 0.5, 1.5)}}),
                gradient_tolerance)
          << static_cast<int>(kind) << ' ' << axes;
    }
  }
}

TEST(autodiff_primitive, second_order_of_reduces_matches) {
  for (reduce_kind kind : all_reduces) {
    graph g;
    const node_id x = g.input("x", dtype::f32, {2, 4});
    const node_id y = g.reduce(kind, g.map(scalar_op::exp, {x}), 2);
    EXPECT_LT(second_gradient_error(g, y, {x}, {{"x", random_tensor({2, 4}, 2)}}), gradient_tolerance)
        << static_cast<int>(kind);
  }
}

TEST(autodiff_primitive, a_product_with_zeros_has_the_product_of_the_others) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {3, 3}), wrt[] = {x};
  const node_id loss = g.reduce(reduce_kind::sum, g.reduce(reduce_kind::product, x, 2), 1);
  const node_id result = gradients(g, loss, wrt)[0];
  interpreter<double> run(g, {{"x", {{3, 3}, {2, 3, 4, 2, 0, 4, 0, 0, 5}}}});
  EXPECT_EQ(run.value(result).values, (std::vector<double>{12, 8, 6, 0, 8, 0, 0, 0, 0}));
}

TEST(autodiff_primitive, the_first_of_equal_extrema_gets_the_gradient_and_a_nan_is_one) {
  const double nan = NAN, inf = INFINITY;
  const std::vector<double> rows = {1, 7, 7, 2, 2, nan, 9, nan, -inf, -inf, -inf, -inf};
  for (reduce_kind kind : {reduce_kind::max, reduce_kind::min}) {
    graph g;
    const node_id x = g.input("x", dtype::f32, {3, 4}), wrt[] = {x};
    const node_id result = gradients(g, g.reduce(reduce_kind::sum, g.reduce(kind, x, 2), 1), wrt)[0];
    interpreter<double> run(g, {{"x", {{3, 4}, rows}}});
    const std::vector<double> first =
        kind == reduce_kind::max ? std::vector<double>{0, 1, 0, 0} : std::vector<double>{1, 0, 0, 0};
    std::vector<double> expected = first;
    for (double each : {0, 1, 0, 0, 1, 0, 0, 0}) expected.push_back(each);
    EXPECT_EQ(run.value(result).values, expected);
  }
  graph g;
  const node_id x = g.input("x", dtype::f32, {2, 3, 2});
  interpreter<double> run(g, {{"x", {{2, 3, 2}, {1, 2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1}}}});
  EXPECT_EQ(run.value(g.reduce(reduce_kind::arg_max, x, 5)).values, (std::vector<double>{2, 1, 1}));
  EXPECT_EQ(run.value(g.reduce(reduce_kind::arg_min, x, 2)).values, (std::vector<double>{0, 0, 2, 2}));
  EXPECT_EQ(g[g.reduce(reduce_kind::arg_max, x, 7)].type, dtype::i32);
  EXPECT_EQ(g[g.reduce(reduce_kind::arg_max, x, 0)].extents, (shape{2, 3, 2}));
}

struct contraction {
  shape a, b;
  const char *labels_a, *labels_b, *labels_result;
};

const contraction contractions[] = {
    {{2, 3}, {3, 4}, "ik", "kj", "ij"},
    {{2, 3}, {4, 3}, "ik", "jk", "ji"},           // transposed operand and result
    {{2, 3, 4}, {2, 4, 5}, "bik", "bkj", "bij"},  // batched
    {{2, 3, 4}, {4, 5}, "bik", "kj", "bij"},      // broadcast over the batch
    {{3}, {4}, "i", "j", "ij"},                   // outer product
    {{3}, {3}, "i", "i", ""},                     // inner product
    {{2, 3}, {2, 3}, "ij", "ij", "i"},            // row-wise inner product
    {{2, 3, 2, 4}, {2, 4, 3, 5}, "bhqd", "bdhk", "bhkq"},
};

TEST(autodiff_primitive, contractions_match_for_both_operands) {
  for (const contraction& c : contractions) {
    graph g;
    const node_id a = g.input("a", dtype::f32, c.a), b = g.input("b", dtype::f32, c.b);
    const node_id y = g.contract(a, b, c.labels_a, c.labels_b, c.labels_result);
    const tensors<double> leaves{{"a", random_tensor(c.a, 3)}, {"b", random_tensor(c.b, 4)}};
    EXPECT_LT(gradient_error(g, y, {a, b}, leaves), gradient_tolerance) << c.labels_a;
    EXPECT_LT(second_gradient_error(g, g.map(scalar_op::sin, {y}), {a, b}, leaves), gradient_tolerance) << c.labels_a;
  }
}

TEST(autodiff_primitive, a_contraction_with_itself_gets_both_parts) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {3, 3});
  EXPECT_LT(gradient_error(g, g.contract(x, x, "ik", "kj", "ij"), {x}, {{"x", random_tensor({3, 3}, 5)}}),
            gradient_tolerance);
}

TEST(autodiff_primitive, pad_and_concat_match) {
  graph g;
  const node_id a = g.input("a", dtype::f32, {2, 3}), b = g.input("b", dtype::f32, {2, 2});
  const node_id joined[] = {a, b, a};
  const std::int64_t low[] = {1, 0}, high[] = {0, 2};
  const node_id y = g.map(scalar_op::sin, {g.pad(g.concat(joined, 1), low, high, 0.25)});
  const tensors<double> leaves{{"a", random_tensor({2, 3}, 6)}, {"b", random_tensor({2, 2}, 7)}};
  EXPECT_LT(gradient_error(g, y, {a, b}, leaves), gradient_tolerance);
  EXPECT_LT(second_gradient_error(g, y, {a, b}, leaves), gradient_tolerance);
}

TEST(autodiff_primitive, gather_and_scatter_add_match_along_every_axis) {
  for (int axis = 0; axis < 3; ++axis) {
    graph g;
    const shape size = {3, 3, 3};
    const node_id x = g.input("x", dtype::f32, size), at = g.input("at", dtype::i32, {2, 2});
    const tensors<double> leaves{{"x", random_tensor(size, 8)}, {"at", {{2, 2}, {2, 0, 2, 1}, dtype::i32}}};
    const node_id rows = g.gather(x, at, axis);
    EXPECT_LT(gradient_error(g, g.map(scalar_op::sin, {rows}), {x}, leaves), gradient_tolerance) << axis;
    const node_id sums = g.scatter_add(at, g.multiply(rows, rows), axis, size);
    EXPECT_LT(gradient_error(g, g.map(scalar_op::sin, {sums}), {x}, leaves), gradient_tolerance) << axis;
    EXPECT_LT(second_gradient_error(g, sums, {x}, leaves), gradient_tolerance) << axis;
    const node_id added = g.apply(op::index_add, axis_attribute{axis}, {g.multiply(x, x), at, g.multiply(rows, rows)});
    EXPECT_LT(gradient_error(g, g.map(scalar_op::sin, {added}), {x}, leaves), gradient_tolerance) << axis;
    EXPECT_LT(second_gradient_error(g, added, {x}, leaves), gradient_tolerance) << axis;
  }
}

struct convolution_case {
  convolution_attribute geometry;
  shape x, w, y;
};

std::vector<convolution_case> convolution_cases() {
  convolution_attribute plain{.spatial = 1}, strided{.spatial = 2}, grouped{.spatial = 2};
  strided.stride[0] = 2, strided.stride[1] = 3, strided.pad_low[0] = 1, strided.pad_high[1] = 2,
  strided.dilation[0] = 2;
  grouped.groups = 2, grouped.pad_low[1] = grouped.pad_high[1] = 1;
  return {{plain, {2, 2, 5}, {3, 2, 3}, {2, 3, 3}},
          {strided, {1, 2, 6, 5}, {2, 2, 2, 3}, {1, 2, 3, 2}},
          {grouped, {1, 4, 3, 3}, {6, 2, 2, 3}, {1, 6, 2, 3}}};
}

TEST(autodiff_primitive, all_forms_of_convolution_match_for_both_operands) {
  using form = convolution_attribute;
  for (convolution_case c : convolution_cases()) {
    for (form::form_kind kind : {form::output, form::input, form::filter}) {
      c.geometry.form = kind;
      const shape first = kind == form::input ? c.y : c.x, second = kind == form::filter ? c.y : c.w;
      graph g;
      const node_id a = g.input("a", dtype::f32, first), b = g.input("b", dtype::f32, second);
      const node_id y = g.convolution(a, b, c.geometry, kind == form::output ? c.y : kind == form::input ? c.x : c.w);
      const tensors<double> leaves{{"a", random_tensor(first, 9)}, {"b", random_tensor(second, 10)}};
      EXPECT_LT(gradient_error(g, y, {a, b}, leaves), gradient_tolerance) << kind;
      EXPECT_LT(second_gradient_error(g, y, {a, b}, leaves), gradient_tolerance) << kind;
    }
  }
}

window_attribute pooling(reduce_kind kind) {
  window_attribute window{.kind = kind, .spatial = 2};
  window.window[0] = 3, window.window[1] = 2, window.stride[0] = 2, window.pad_low[0] = 1;
  return window;
}

// Large windows that do not overlap, compared with the primitive that defines which tap gets the gradient.
TEST(autodiff_primitive, large_windows_pass_their_gradient_to_the_first_maximum_without_reading_windows_again) {
  struct large_case {
    shape x;
    window_attribute window;
    bool through_rows;
  };
  const large_case cases[] = {
      {{2, 3, 8, 9}, {.window = {8, 9}}, true},
      {{2, 14, 15}, {.window = {7, 6}, .stride = {7, 8}}, true},
      {{3, 9, 7}, {.window = {11, 12}, .pad_low = {2, 1}, .pad_high = {0, 4}}, true},
      {{7, 7}, {.window = {6, 6}, .stride = {2, 3}}, true},  // one window, and elements outside of it
      {{2, 120}, {.spatial = 1, .window = {40}, .stride = {40}}, true},
      {{2, 2, 8, 4, 6}, {.spatial = 3, .window = {4, 4, 3}, .stride = {4, 1, 3}}, true},
      {{2, 8, 8}, {.window = {4, 4}, .stride = {4, 4}}, false},  // small
      {{2, 9, 9}, {.window = {7, 7}, .stride = {1, 1}}, false},  // these overlap
      {{2, 14, 14}, {.window = {7, 7}, .stride = {7, 7}, .pad_low = {7, 0}}, false},
  };
  for (const large_case& each : cases) {
    SCOPED_TRACE(to_string(each.x));
    graph g;
    const node_id x = g.input("x", dtype::f32, each.x), wrt[] = {x};
    const node_id y = g.window_reduce(x, each.window);
    const node_id seed = g.input("seed", dtype::f32, g[y].extents), seeds[] = {seed}, outputs[] = {y};
    const node_id result = gradients(g, outputs, seeds, wrt)[0], both[] = {x, seed};
    EXPECT_NE(g[result].kind == op::window_scatter, each.through_rows);
    const node_id expected = g.window_scatter(both, each.window, each.x);
    for (int values : {3, 1000}) {  // few: most windows hold their maximum, infinity or NaN more than once
      tensor<double> data = random_tensor(each.x, 7, 0, values);
      for (std::size_t i = 0; i < data.values.size(); ++i) {
        data.values[i] = std::floor(data.values[i]);
        if (i * 7919 % 71 == 3) data.values[i] = NAN;
        if (i >= data.values.size() / 2 && values == 3) data.values[i] = -INFINITY;
      }
      interpreter<double> run(g, {{"x", data}, {"seed", random_tensor(g[y].extents, 8)}});
      EXPECT_EQ(run.value(result).values, run.value(expected).values);
    }
  }
}

TEST(autodiff_primitive, pooling_matches) {
  for (reduce_kind kind : {reduce_kind::max, reduce_kind::sum}) {
    graph g;
    const node_id x = g.input("x", dtype::f32, {1, 2, 5, 4});
    const node_id y = g.window_reduce(x, pooling(kind));
    EXPECT_LT(gradient_error(g, g.multiply(y, y), {x}, {{"x", random_tensor({1, 2, 5, 4}, 11)}}), gradient_tolerance);
  }
}

TEST(autodiff_primitive, sum_pooling_is_closed_under_differentiation) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {5, 4});
  const node_id y = g.window_reduce(g.map(scalar_op::sin, {x}), pooling(reduce_kind::sum));
  EXPECT_LT(second_gradient_error(g, y, {x}, {{"x", random_tensor({5, 4}, 12)}}), gradient_tolerance);
  const node_id pooled[] = {g.input("p", dtype::f32, {2, 3})};
  const node_id spread = g.window_scatter(pooled, pooling(reduce_kind::sum), {5, 4});
  EXPECT_LT(gradient_error(g, spread, {pooled[0]}, {{"p", random_tensor({2, 3}, 13)}}), gradient_tolerance);
}

TEST(autodiff_primitive, the_second_order_of_max_pooling_is_refused_with_a_sentence) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {5, 4}), wrt[] = {x};
  const node_id y = g.window_reduce(g.multiply(x, x), pooling(reduce_kind::max));
  const node_id first = gradients(g, g.reduce(reduce_kind::sum, g.multiply(y, y), 3), wrt)[0];
  const node_id loss = g.reduce(reduce_kind::sum, g.multiply(first, first), 3);
  std::string text;
  EXPECT_EQ(support::thrown_by([&] { static_cast<void>(gradients(g, loss, wrt)); }, &text),
            error_category::unsupported);
  EXPECT_NE(text.find("max pooling"), std::string::npos);
}

TEST(autodiff_primitive, implementations_are_refused_with_a_sentence) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {4}), operands[] = {x};
  region_attribute copy;
  index_map dense;
  dense.strides[0] = 1;
  copy.space = {4}, copy.program = single_op_program(scalar_op::exp, std::array{dtype::f32});
  copy.accesses = {dense}, copy.output = dense;
  const node_id y = g.add_node(op::region, dtype::f32, {4}, copy, operands);
  EXPECT_THROW(static_cast<void>(gradients(g, g.reduce(reduce_kind::sum, y, 1), operands)), error);
}

TEST(autodiff_primitive, stop_gradient_passes_nothing) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {3}), wrt[] = {x};
  const node_id loss = g.reduce(reduce_kind::sum, g.multiply(x, g.stop_gradient(x)), 1);
  const node_id result = gradients(g, loss, wrt)[0];
  interpreter<double> run(g, {{"x", {{3}, {1, 2, 3}}}});
  EXPECT_EQ(run.value(result).values, (std::vector<double>{1, 2, 3}));
}

}  // namespace
