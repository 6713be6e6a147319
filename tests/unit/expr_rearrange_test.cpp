// SPDX-License-Identifier: MIT
// Indexing and rearrangement: one graph of types and of values of run time, and what is refused.
#include <support/sentence_of.hpp>

#include <gtest/gtest.h>

#include <meganeura/expr/lower.hpp>
#include <meganeura/operations.hpp>

#include <string>

namespace mn = meganeura;

namespace {

struct functions {
  static constexpr auto forward(mn::value auto x, mn::value auto at) {
    auto a = mn::put_along<1>(x, at, mn::take_along<-2>(x, at));
    return mn::add_along<1>(a, at, mn::take_along<1>(a, at));
  }
};
using model = mn::model<functions, mn::input<"x", mn::dtype::f32, mn::dims<2, 4, 6>>,
                        mn::input<"at", mn::dtype::i32, mn::dims<2, 3, 6>>>;

std::string sentence(const auto& call) { return mn::support::sentence_of(call); }

}  // namespace

TEST(expr_rearrange, every_function_is_one_graph_both_ways) {
  mn::graph g;
  const mn::node_id typed = mn::lower_into<model>(g, {})[0];
  const std::string before = mn::to_text(g);
  EXPECT_EQ(functions::forward(mn::node_value(g, g.find_leaf("x")), mn::node_value(g, g.find_leaf("at"))).id(), typed);
  EXPECT_EQ(mn::to_text(g), before);
}

TEST(expr_rearrange, indices_that_do_not_fit_are_refused) {
  mn::graph g;
  const mn::node_value x(g, g.input("x", mn::dtype::f32, {2, 4})), at(g, g.input("at", mn::dtype::i32, {3, 4})),
      wide(g, g.input("wide", mn::dtype::i32, {2, 9}));
  EXPECT_EQ(sentence([&] { (void)mn::take_along(x, at, 1); }),
            "take_along<axis>(data, indices): indices must be i32, with data's extents but for the axis, which exists; "
            "found f32 [2, 4], i32 [3, 4]");
  EXPECT_EQ(sentence([&] { (void)mn::take_along(x, at, 2); }),
            "take_along<axis>(data, indices): indices must be i32, with data's extents but for the axis, which exists; "
            "found f32 [2, 4], i32 [3, 4]");
  EXPECT_EQ(sentence([&] { (void)mn::put_along(x, at, at, 0); }),
            "put_along<axis>(x, indices, updates): updates must have x's dtype and the indices' shape; found f32 [2, "
            "4], i32 [3, 4], i32 [3, 4]");
  EXPECT_EQ(sentence([&] { (void)mn::add_along(x, wide, x, 1); }),
            "add_along<axis>(x, indices, updates): updates must have x's dtype and the indices' shape; found f32 [2, "
            "4], i32 [2, 9], f32 [2, 4]");
  EXPECT_EQ(
      sentence([&] {
        (void)g.apply(mn::op::scatter_along, mn::scatter_attribute{0, mn::reduce_kind::max}, {at, x}, mn::shape{2, 4});
      }).substr(0, 43),
      "scatter_along max axis=0 of f32 [2, 4] into");
}
