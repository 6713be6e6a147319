// SPDX-License-Identifier: MIT
// What hangs on an error that a device may make is left out by the tests of random graphs.
#include <oracle/tolerance.hpp>
#include <support/random_program.hpp>

#include <gtest/gtest.h>

namespace {

using namespace meganeura;

TEST(graph_stability, what_hangs_on_the_rounding_of_a_quotient_is_left_out) {
  const shape extents{4};
  graph g;
  const node_id x = g.input("x", dtype::f32, extents);
  scalar_builder b;
  const scalar_ref a = b.argument(0, dtype::f32), quotient = b.binary(scalar_op::divide, a, a);
  g.add_output("y", g.map(b.finish(b.unary(scalar_op::log, quotient)), std::span(&x, 1), dtype::f32));
  const oracle::tensors<double> leaves{{"x", {extents, {3, 5, 7, 11}}}};
  const kernels::step_values step;
  const support::stable_run truth(g, leaves, true, step);
  support::verdict v;
  truth.expect_output("y", {{"y", {extents, {0, 2.5 * 0x1p-23, -2.5 * 0x1p-23, 0}}}}, v, oracle::tolerance(dtype::f32));
  EXPECT_FALSE(v.failed()) << v.text;
  EXPECT_EQ(v.unstable, 1u);
}

}  // namespace
