// SPDX-License-Identifier: MIT
// Norms of rows in plans: whichever way they are written, one kernel computes them.
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/fusion/optimize.hpp>

#include <support/egraph_sample_graphs.hpp>

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

namespace {

using namespace meganeura;
using samples::mean;

struct spelling {
  const char* name;
  std::function<node_id(graph&)> make;
};

constexpr std::uint32_t columns = 2;  // the second axis

node_id input(graph& g, shape extents = {6, 32}) { return g.input("x", dtype::f32, extents); }
node_id as_wide(graph& g, node_id rows, node_id x, std::uint32_t axes = columns) {
  return g.expand_axes(rows, shape(g[x].extents), axes);
}
node_id square(graph& g, node_id x) { return g.multiply(x, x); }
node_id plus_small(graph& g, node_id x) { return g.add(x, g.full_like(x, 1e-5)); }
node_id centred(graph& g, node_id x, std::uint32_t axes = columns) {
  return g.subtract(x, as_wide(g, mean(g, x, axes), x, axes));
}
node_id variance(graph& g, node_id x, std::uint32_t axes = columns) {
  return mean(g, square(g, centred(g, x, axes)), axes);
}
node_id root(graph& g, node_id x) { return g.map(scalar_op::sqrt, {plus_small(g, x)}); }
node_id normalised(graph& g, node_id x, std::uint32_t axes = columns) {
  return g.divide(centred(g, x, axes), as_wide(g, root(g, variance(g, x, axes)), x, axes));
}
node_id scaled(graph& g, node_id x) {  // and moved
  const node_id weight = g.parameter("weight", dtype::f32, {32}), bias = g.parameter("bias", dtype::f32, {32});
  return g.add(g.multiply(x, g.expand(weight, shape(g[x].extents))), g.expand(bias, shape(g[x].extents)));
}

const std::vector<spelling> spellings{
    {"over the root of the variance",
     [](graph& g) {
       const node_id x = input(g);
       return scaled(g, normalised(g, x));
     }},
    {"by the inverse root",
     [](graph& g) {
       const node_id x = input(g);
       const node_id inverse = g.map(scalar_op::rsqrt, {plus_small(g, variance(g, x))});
       return scaled(g, g.multiply(centred(g, x), as_wide(g, inverse, x)));
     }},
    {"by one over the root",
     [](graph& g) {
       const node_id x = input(g), of = root(g, variance(g, x));
       return scaled(g, g.multiply(centred(g, x), as_wide(g, g.divide(g.full_like(of, 1), of), x)));
     }},
    {"by a power",
     [](graph& g) {
       const node_id x = input(g), of = plus_small(g, variance(g, x));
       const node_id inverse = g.map(scalar_op::power, {of, g.full_like(of, -0.5)});
       return scaled(g, g.multiply(centred(g, x), as_wide(g, inverse, x)));
     }},
    {"the mean of squares less the square of the mean",
     [](graph& g) {
       const node_id x = input(g), of = mean(g, x, columns);
       const node_id spread = g.subtract(mean(g, square(g, x), columns), square(g, of));
       return scaled(g, g.divide(g.subtract(x, as_wide(g, of, x)), as_wide(g, root(g, spread), x)));
     }},
    {"sums over a count",
     [](graph& g) {
       const node_id x = input(g);
       const auto over = [&](node_id of, double count) {
         const node_id sum = g.reduce(reduce_kind::sum, of, columns);
         return g.divide(sum, g.full_like(sum, count));
       };
       const node_id apart = g.subtract(x, as_wide(g, over(x, 32), x));
       return scaled(g, g.divide(apart, as_wide(g, root(g, over(square(g, apart), 31)), x)));  // without bias
     }},
    {"weights first",
     [](graph& g) {
       const node_id x = input(g);
       const node_id inverse = g.map(scalar_op::rsqrt, {plus_small(g, variance(g, x))});
       const node_id weight = g.expand(g.parameter("weight", dtype::f32, {32}), {6, 32});
       return g.multiply(g.multiply(weight, as_wide(g, inverse, x)), centred(g, x));
     }},
    {"without weights",
     [](graph& g) {
       const node_id x = input(g);
       return normalised(g, x);
     }},
    {"of a sum with what went round",
     [](graph& g) {
       const node_id x = g.add(input(g), g.input("branch", dtype::f32, {6, 32}));
       return scaled(g, normalised(g, x));
     }},
    {"the root of the mean of squares", [](graph& g) { return samples::rms_norm(g, input(g), "norm"); }},
    {"rows over their length",
     [](graph& g) {
       const node_id x = input(g);
       const node_id length = g.map(scalar_op::sqrt, {g.reduce(reduce_kind::sum, square(g, x), columns)});
       const node_id least = g.map(scalar_op::maximum, {length, g.full_like(length, 1e-12)});
       return g.divide(x, as_wide(g, least, x));
     }},
    {"over two axes",
     [](graph& g) {
       return normalised(g, input(g, {3, 4, 8}), 6);
     }},
    {"groups of channels",
     [](graph& g) {
       const node_id y = normalised(g, g.reshape(input(g, {2, 8, 5}), {2, 4, 10}), 4);
       const node_id weight = g.expand_axes(g.parameter("weight", dtype::f32, {8}), {2, 8, 5}, 5);
       return g.multiply(g.reshape(y, {2, 8, 5}), weight);
     }},
    {"channels before positions",
     [](graph& g) {
       return normalised(g, input(g, {2, 16, 5}));
     }},
    {"of f16, in f32",
     [](graph& g) {
       const node_id x = g.cast(g.input("x", dtype::f16, {6, 32}), dtype::f32);
       return g.cast(normalised(g, x), dtype::f16);
     }},
    {"batches turned round",
     [](graph& g) {
       const node_id x = g.permute(input(g, {32, 6}), std::array{1, 0});
       return scaled(g, normalised(g, x));
     }},
};

TEST(fusion_norm, spellings_are_one_kernel) {
  fusion::optimize_options options;
  options.device.launch = {1, 1};
  for (const spelling& each : spellings) {
    graph g;
    g.add_output("y", each.make(g));
    const graph plan = fusion::optimize(g, options);
    EXPECT_EQ(samples::kernel_count(plan), 1) << each.name << '\n' << to_text(plan);
    samples::expect_equal(g, plan, each.name);
  }
}

// On a processor of graphics, whose workgroups are too few for such rows: parts of these would be one kernel more.
TEST(fusion_norm, few_rows_are_one_kernel_where_parts_save_less_than_that_costs) {
  for (const std::int64_t length : {1024, 4096, 10240}) {
    graph g;
    const node_id x = input(g, {32, length});
    g.add_output("y", normalised(g, x));
    EXPECT_EQ(samples::kernel_count(fusion::optimize(g)), 1u) << length;
  }
  graph g;
  const node_id x = input(g, {4, 1'000'000});
  g.add_output("y", g.reduce(reduce_kind::sum, x, columns));
  fusion::optimize_report report;
  (void)fusion::optimize(g, {.explain = true}, &report);
  EXPECT_NE(report.explain.find("split_reduce"), std::string::npos);
}

// One for the loss and gradients of rows, and one for what weights add up over rows, which is another order.
TEST(fusion_norm, gradients_are_few_kernels) {
  fusion::optimize_options options;
  options.device.launch = {1, 1};
  for (const spelling& each : spellings) {
    graph g;
    const node_id y = g.cast(each.make(g), dtype::f32);
    const node_id weighed = g.multiply(y, g.input("dy", dtype::f32, shape(g[y].extents)));
    g.add_output("loss", samples::total(g, weighed));
    std::vector<node_id> wrt = g.leaves(op::parameter);
    if (g[g.leaves(op::input)[0]].type == dtype::f32) wrt.push_back(g.leaves(op::input)[0]);
    const std::vector<node_id> slopes = gradients(g, g.find_output("loss"), wrt);
    for (std::size_t i = 0; i < wrt.size(); ++i) g.add_output(std::to_string(i), slopes[i]);
    const graph plan = fusion::optimize(g, options);
    EXPECT_LE(samples::kernel_count(plan), 5) << each.name << '\n' << to_text(plan);
    samples::expect_equal(g, plan, each.name);
  }
}

}  // namespace
