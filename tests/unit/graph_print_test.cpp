// SPDX-License-Identifier: MIT
// Printing: what a person sees of a graph.
#include <meganeura/graph/graph.hpp>

#include <gtest/gtest.h>

namespace {

using namespace meganeura;

graph sample() {
  graph g;
  const node_id x = g.input("x", dtype::f32, {2, 3}), w = g.parameter("w", dtype::f32, {3, 4});
  const node_id y = g.contract(x, w, "ik", "kj", "ij");
  g.add_output("y", g.map(scalar_op::exp, {g.slice(y, 1, 1, 2)}));
  return g;
}

TEST(graph_print, text_has_one_line_a_node_and_an_output) {
  EXPECT_EQ(to_text(sample()),
            "%0 = input f32[2, 3] () \"x\"\n"
            "%1 = parameter f32[3, 4] () \"w\"\n"
            "%2 = contract f32[2, 4] (%0, %1) a=0,2,0,0,0,0,0,0 b=2,1,0,0,0,0,0,0 result_rank=2\n"
            "%3 = view f32[2, 2] (%2) offset=1 strides=[4,1]\n"
            "%4 = map f32[2, 2] (%3) exp(a0)\n"
            "output \"y\" = %4\n");
}

TEST(graph_print, dot_has_every_node_and_edge) {
  const graph g = sample();
  const std::string text = to_dot(g);
  EXPECT_EQ(text.rfind("digraph meganeura {", 0), 0u);
  EXPECT_EQ(text.substr(text.size() - 2), "}\n");
  for (node_id id{0}; id < g.size(); ++id) {
    EXPECT_NE(text.find("  n" + std::to_string(id) + " [label="), std::string::npos);
    for (node_id operand : g.operands(id)) {
      EXPECT_NE(text.find("n" + std::to_string(operand) + " -> n" + std::to_string(id) + ";"), std::string::npos);
    }
  }
  EXPECT_NE(text.find("\\\"x\\\""), std::string::npos);  // quotes inside a label are escaped
}

TEST(graph_print, a_convolve_shows_its_space_and_where_it_writes) {
  convolve_attribute nhwc{.primitive = {.form = convolution_attribute::output, .spatial = 1},
                          .space = {2, 3, 5},
                          .output = {.strides = {15, 1, 3}},
                          .finish = {}};
  scalar_builder b;
  nhwc.finish.program = b.finish(b.argument(0, dtype::f32));
  EXPECT_EQ(to_string(attribute(nhwc)),
            "output stride=[1] pad=[0]+[0] dilation=[1] groups=1 space=[2,3,5] output=0+[15,1,3] a0");
  convolve_attribute other = nhwc;
  other.output.offset = 7;
  EXPECT_NE(to_string(attribute(other)), to_string(attribute(nhwc)));
}

TEST(graph_print, a_region_shows_all_of_its_results) {
  scalar_builder b;
  const scalar_ref x = b.argument(0, dtype::f32);
  scalar_ref results[] = {b.unary(scalar_op::row_max, x), b.unary(scalar_op::exp, x)};
  region_attribute region{.space = {2, 3}, .row_axes = 1, .program = b.finish(results), .accesses = {{}}, .output = {}};
  region.further = {{.value = results[0], .per_row = true, .output = {}, .extents = {2}}};
  EXPECT_EQ(to_string(attribute(region)), "space=[2,3] rows=1 exp(a0) | row_max(a0)");
  EXPECT_EQ(to_string(attribute(result_attribute{1})), "index=1");
  region_attribute other = region;
  other.further[0].value = results[1];
  EXPECT_NE(attribute_ref(other).hash(), attribute_ref(region).hash());
}

TEST(graph_print, programs_read_as_calls) {
  scalar_builder b;
  const scalar_ref x = b.argument(0, dtype::f32);
  const scalar_ref e = b.binary(scalar_op::subtract, x, b.unary(scalar_op::row_max, x));
  EXPECT_EQ(to_string(b.finish(b.unary(scalar_op::exp, e))), "exp(subtract(a0, row_max(a0)))");
}

}  // namespace
