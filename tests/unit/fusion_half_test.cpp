// SPDX-License-Identifier: MIT
// Products of floats of 16 bits in plans: which kernels compute them, and that no rounding of theirs reaches what is
// computed in f32 beside them.
#include <meganeura/fusion/optimize.hpp>

#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>
#include <support/sentence_of.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>

namespace {

using namespace meganeura;

fusion::optimize_options with_units() {
  fusion::optimize_options options;
  options.device.matrix_units = matrix_units::cooperative;
  options.device.max_shared_bytes = 49152, options.device.max_invocations = 1024;
  options.device.f16 = true;
  return options;
}

struct kernels {
  std::size_t half = 0, products = 0, regions = 0, sums = 0;  // sums: regions that add up products of two operands
  double seconds = 0;
};
kernels plan(const graph& g, const fusion::optimize_options& options) {
  fusion::optimize_report report;
  const graph made = fusion::optimize(g, options, &report);
  kernels found{.seconds = report.predicted_seconds};
  for (std::size_t i = 0; i < made.size(); ++i) {
    const node_id id(static_cast<std::uint32_t>(i));
    if (made[id].kind == op::matmul) {
      ++found.products;
      found.half += made.get<matmul_attribute>(id).schedule.is_half();
    } else if (made[id].kind == op::region) {
      ++found.regions;
      found.sums += made.get<region_attribute>(id).row_axes > 0;
    }
  }
  return found;
}

// Three linears of f16 or bf16 with what stands behind them.
graph layers(dtype type, std::int64_t width) {
  graph g;
  node_id x = g.input("x", type, {256, width});
  for (const char* name : {"a", "b", "c"}) {
    const node_id w = g.parameter(std::string(name) + ".weight", type, {width, width});
    const node_id bias = g.parameter(std::string(name) + ".bias", type, {width});
    x = g.add(g.contract(x, w, "ik", "jk", "ij"), g.expand(bias, {256, width}));
    x = g.multiply(g.map(scalar_op::tanh, {x}), g.full({256, width}, 2, type));
  }
  g.add_output("y", x);
  return g;
}

TEST(fusion_half, units_compute_products_with_all_that_follows) {
  const kernels found = plan(layers(dtype::f16, 256), with_units());
  EXPECT_EQ(found.half, 3u);
  EXPECT_EQ(found.products, 3u);
  EXPECT_EQ(found.regions, 0u);
}

// Without units, of bf16, and where nothing lies in groups of eight: with conversions before and behind.
TEST(fusion_half, other_products_are_those_of_f32) {
  for (const auto& [type, width] :
       {std::pair{dtype::f16, 256}, std::pair{dtype::bf16, 256}, std::pair{dtype::f16, 250}}) {
    fusion::optimize_options options = with_units();
    if (type == dtype::f16 && width == 256) options.device.matrix_units = matrix_units::none;
    const kernels found = plan(layers(type, width), options);
    EXPECT_EQ(found.products, 3u) << to_string(type) << width;
    EXPECT_EQ(found.half, 0u) << to_string(type) << width;
    EXPECT_EQ(found.sums, 0u) << to_string(type) << width;
    EXPECT_LT(found.seconds, 1.33 * plan(layers(dtype::f32, width), options).seconds) << to_string(type) << width;
  }
}

// Also where a product could be split into parts, whose sum is another way to what follows.
TEST(fusion_half, products_of_f32_end_with_all_that_follows_too) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {1024, 1024}), w = g.parameter("w", dtype::f32, {1024, 1024});
  const node_id y = g.map(scalar_op::maximum, {g.contract(x, w, "ik", "jk", "ij"), g.full({1024, 1024}, 0)});
  g.add_output("y", g.multiply(y, g.full({1024, 1024}, 2)));
  fusion::optimize_options options = with_units();
  options.device.launch = {1, 1};
  const kernels found = plan(g, options);
  EXPECT_EQ(found.products, 1u);
  EXPECT_EQ(found.regions, 0u);
}

TEST(fusion_half, what_is_converted_is_so_in_the_order_in_which_it_lies) {
  graph g;
  const node_id x = g.input("x", dtype::bf16, {1024, 1008}), w = g.parameter("w", dtype::bf16, {1000, 1008});
  g.add_output("y", g.contract(x, g.permute(w, std::array{1, 0}), "ik", "kj", "ij"));
  const graph made = fusion::optimize(g, with_units());
  std::size_t converted = 0;
  for (std::size_t i = 0; i < made.size(); ++i) {
    const node_id id(static_cast<std::uint32_t>(i));
    converted += made[id].kind == op::region && made[id].extents == shape{1000, 1008};
  }
  EXPECT_EQ(converted, 1u) << to_text(made);
}

TEST(fusion_half, a_slice_that_is_not_in_eights_is_copied) {
  graph g;
  const node_id a = g.input("a", dtype::f16, {1024, 1028}), b = g.parameter("b", dtype::f16, {1024, 1024});
  const node_id rows = g.slice(a, 1, 4, 1024);
  g.add_output("y", g.contract(rows, b, "ik", "jk", "ij"));
  EXPECT_EQ(plan(g, with_units()).half, 1u);
}

TEST(fusion_half, a_precision_that_does_not_exist_is_refused) {
  fusion::optimize_options options = with_units();
  options.precision = static_cast<precision>(7);
  EXPECT_EQ(support::sentence_of([&] { (void)fusion::optimize(layers(dtype::f16, 256), options); }),
            "precision 7 was asked for; it is precision::exact or precision::fast");
}

TEST(fusion_half, sums_too_long_for_units_are_split) {
  graph g;
  const node_id a = g.input("a", dtype::f16, {1024, 65552}), b = g.parameter("b", dtype::f16, {1024, 65552});
  g.add_output("y", g.contract(a, b, "ik", "jk", "ij"));
  const kernels found = plan(g, with_units());
  EXPECT_EQ(found.products, 1u);
  EXPECT_LT(found.seconds, 3e-3);  // 4.6 ms as a region
}

// ---- roundings ------------------------------------------------------------------------------------------------------

enum class computed { product, product_with_vector, map, row };

// The same in f16 and, of converted operands, in f32; `which` of the results, and of what is made of them.
graph twins(computed what, unsigned which, std::int64_t m, std::int64_t n, std::int64_t k) {
  graph g;
  const auto wide = [&](node_id x) { return g.cast(x, dtype::f32); };
  const node_id a = g.input("a", dtype::f16, {m, k});
  node_id b = a;
  if (what == computed::product) b = g.input("b", dtype::f16, {k, n});
  if (what == computed::product_with_vector) b = g.input("b", dtype::f16, {k});
  const auto of = [&](node_id x, node_id y) {
    if (what == computed::product) return g.contract(x, y, "ik", "kj", "ij");
    if (what == computed::product_with_vector) return g.contract(x, y, "ik", "k", "i");
    if (what == computed::map) return g.multiply(x, g.map(scalar_op::tanh, {g.map(scalar_op::exp, {x})}));
    return g.reduce(reduce_kind::sum, g.multiply(x, x), 2);
  };
  const node_id half = of(a, b), full = of(wide(a), b == a ? wide(a) : wide(b));
  const bool late = (which & 1) != 0;
  if (!late) g.add_output("full", full);
  if (late) g.add_output("half", half), g.add_output("full", full);
  if (which & 2) g.add_output("widened", wide(half));
  if (which & 4) g.add_output("narrowed", g.cast(full, dtype::f16));
  if (which & 8) g.add_output("difference", g.map(scalar_op::subtract, {full, wide(half)}));
  if (which & 16) g.add_output("most", g.reduce(reduce_kind::max, half, 1u << (g[half].extents.rank() - 1)));
  if (which & 32) g.add_output("relu", g.map(scalar_op::maximum, {wide(half), g.full(g[half].extents, 0.25)}));
  return g;
}

// A conversion of the f16 value may be computed without its rounding, as the f32 value is; that makes the f32 value no
// conversion.
TEST(fusion_half, what_is_computed_in_f32_stays_so_beside_its_rounded_twin) {
  for (const computed what : {computed::product, computed::product_with_vector, computed::map, computed::row}) {
    for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{16, 8, 16}, {40, 24, 32}}) {
      for (unsigned which = 0; which < 64; ++which) {
        const graph g = twins(what, which, m, n, k);
        oracle::tensors<double> leaves;
        for (const node_id id : g.leaves(op::input)) {
          const std::string& name = g.get<leaf_attribute>(id).name;
          leaves[name] = oracle::random_tensor(g[id].extents, name[0], -1, 1, dtype::f16);
        }
        const auto truth = oracle::interpreter<double>(g, leaves).run();
        for (unsigned costs = 0; costs < 4; ++costs) {
          for (const precision wanted : {precision::exact, precision::fast}) {
            fusion::optimize_options options = costs == 2 ? fusion::optimize_options{} : with_units();
            options.precision = wanted;
            if (costs == 1) options.schedule = 3, options.device.scalar_flops = 1e6;
            if (costs == 3) options.device.launch.dispatch = 1e-4;
            const graph made = fusion::optimize(g, options);
            const auto found = oracle::interpreter<double>(made, leaves).run();
            ASSERT_LE(oracle::relative_error(found.at("full"), truth.at("full")), 1e-6) << to_text(g) << to_text(made);
          }
        }
      }
    }
  }
}

}  // namespace
