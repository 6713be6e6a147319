// SPDX-License-Identifier: MIT
// Indexing and rearrangement: one graph of types and of values of run time, and what is refused.
#include <support/sentence_of.hpp>
#include <support/special_values.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>

namespace {

struct functions {
  static constexpr auto forward(mn::value auto x, mn::value auto at) {
    auto a = mn::put_along<1>(x, at, mn::take_along<-2>(x, at));
    auto b = mn::add_along<1>(a, at, mn::take_along<1>(a, at));
    auto d = mn::squeeze<1>(mn::unsqueeze<1>(mn::swap_axes<0, 2>(mn::movedim<0, -1>(b))));
    auto e = mn::repeat_interleave<1, 2>(mn::roll<2, 0>(mn::roll<-1, 4>(mn::tile<0, 3>(d))));
    auto [f, g] = mn::chunk<1, 2>(e);
    auto [h, i] = mn::unbind<2, 2>(mn::stack<-1>(mn::pick<0, -1>(f), mn::pick<0, 1>(g)));
    auto j = mn::rot90<0>(mn::rot90<3>(mn::rot90<2>(mn::rot90<1>(h)))) + i;
    auto k = mn::pad_by<1, 1, 2, mn::pad_mode::reflect>(mn::pad_by<0, 2, 0, mn::pad_mode::edge>(j));
    auto l = mn::pad_by<0, mn::spatial(0, 1), mn::spatial(2, 0), mn::pad_mode::wrap>(k);
    auto [q, r] = mn::split<0, 1, 3>(mn::slice<0, 0, 4>(l));
    auto m = mn::pixel_unshuffle<2>(mn::pixel_shuffle<2>(mn::reshape<mn::dims<4, 3, 4>>(x)));
    auto n = mn::channel_shuffle<2>(mn::space_to_depth<2>(mn::depth_to_space<2>(m)));
    auto o = mn::tril<1>(mn::triu(n)) + mn::eye_like(n) * mn::full_like<2.0>(n) - mn::ones_like(n) + mn::zeros_like(n);
    auto p = mn::trace(mn::diag_embed<-1>(mn::diagonal<1>(o)));
    return mn::one_hot<4>(mn::arange_like<0>(p)) * p + mn::sum(l) + mn::sum(q) * mn::sum(r);
  }
};

struct products {
  static constexpr auto forward(mn::value auto x, mn::value auto at) {
    auto a = mn::matmul(mn::reshape<mn::dims<2, 1, 4, 6>>(x), mn::swap_axes<1, 2>(x));
    auto v = mn::matmul(mn::pick<0, 0>(mn::pick<0, 0>(x)),
                        mn::einsum<"mik,kn->kn">(x, mn::pick<0, 1>(mn::swap_axes<1, 2>(x))));
    auto b = mn::einsum<"abcc->b">(a);
    auto d = mn::tensordot<1>(x, mn::reshape<mn::dims<6, 8>>(x));
    auto e = mn::kronecker(d, mn::slice<2, 0, 3>(x));
    auto f = mn::outer(mn::pick<2, 0>(x), mn::pick<2, 1>(x));
    auto h = mn::cross<-1>(mn::slice<2, 0, 3>(x), mn::slice<2, 3, 3>(x));
    auto [j, k] = mn::meshgrid(b, mn::reshape<mn::dims<48>>(x));
    auto l = mn::resize<1, 5, mn::resize_mode::cubic, mn::resize_place::align_corners>(x);
    auto m = mn::resize<-2, mn::spatial(3, 7), mn::resize_mode::linear>(mn::resize<1, 3, mn::resize_mode::nearest>(l));
    auto n = mn::fold<3, 7, windows>(mn::unfold<windows>(mn::unsqueeze<1>(m)));
    auto o = mn::embedding_bag<mn::bag_mode::max>(x, mn::pick<0, 0>(at)) +
             mn::embedding_bag<mn::bag_mode::mean, 1>(x, mn::pick<0, 0>(at));
    return mn::sum(e) + mn::sum(f) + mn::sum(h) + mn::sum(j * k) + mn::sum(n) + mn::sum(o) + mn::sum(v);
  }
  static constexpr mn::conv_options windows{.kernel = 2, .padding = 1};
};

template <class Functions>
void expect_one_graph() {
  using model = mn::model<Functions, mn::input<"x", mn::dtype::f32, mn::dims<2, 4, 6>>,
                          mn::input<"at", mn::dtype::i32, mn::dims<2, 3, 6>>>;
  mn::graph g;
  const mn::node_id typed = mn::lower_into<model>(g, {})[0];
  EXPECT_EQ(Functions::forward(mn::node_value(g, g.find_leaf("x")), mn::node_value(g, g.find_leaf("at"))).id(), typed);
}

std::string sentence(const auto& call) { return mn::support::sentence_of(call); }

}  // namespace

TEST(expr_rearrange, every_function_is_one_graph_both_ways) {
  expect_one_graph<functions>();
  expect_one_graph<products>();
}

TEST(expr_rearrange, products_of_vectors_and_of_what_stands_on_one_side_alone) {
  mn::support::evaluated at({{1, 2, 3, 4, 5, 6}, {1, 10, 100}});
  const mn::node_value m = mn::reshape(at.x[0], mn::shape{2, 3}), v = at.x[1];
  const auto shapes = [](const mn::node_value& y) { return y.owner()[y.id()].extents; };
  const auto expect = [&](const mn::node_value& y, const mn::shape& shape, const mn::support::numbers& values) {
    EXPECT_EQ(shapes(y), shape);
    mn::support::expect_near("product", at.value(y), values);
  };
  expect(mn::matmul(v, v), {}, {10101});
  mn::support::expect_near("slope", at.slope(mn::matmul(v, v), 1), {2, 20, 200});
  expect(mn::matmul(m, v), {2}, {321, 654});
  expect(mn::matmul(v, mn::transpose(m)), {2}, {321, 654});
  expect(mn::matmul(mn::reshape(v, mn::shape{1, 1, 3}), mn::reshape(m, mn::shape{2, 3, 1})), {2, 1, 1}, {321, 654});
  expect(mn::matmul(mn::reshape(m, mn::shape{2, 1, 1, 3}), mn::reshape(v, mn::shape{3, 1})), {2, 1, 1, 1}, {321, 654});
  expect(mn::einsum("ab,cb->a", m, m), {2}, {46, 109});
  expect(mn::einsum("a,b->", v, v), {}, {12321});
}

// What stands in a row that does not count is not read.
TEST(expr_rearrange, padding_of_bags_is_not_read) {
  const auto bagged = [](mn::dtype type, std::vector<double> rows, mn::bag_mode mode) {
    mn::graph g;
    const mn::node_value table(g, g.input("table", type, {2, 1})), bags(g, g.input("bags", mn::dtype::i32, {2, 2}));
    const mn::node_id y = mn::embedding_bag(table, bags, mode, 1).id();
    mn::oracle::tensors<double> leaves{{"table", {{2, 1}, std::move(rows), type}},
                                       {"bags", {{2, 2}, {1, 0, 1, 1}, mn::dtype::i32}}};
    return mn::oracle::interpreter<double>(g, leaves).value(y).values;
  };
  using numbers = std::vector<double>;
  EXPECT_EQ(bagged(mn::dtype::i32, {-5, 9}, mn::bag_mode::max), (numbers{-5, 0}));
  EXPECT_EQ(bagged(mn::dtype::i32, {-5, 9}, mn::bag_mode::sum), (numbers{-5, 0}));
  EXPECT_EQ(bagged(mn::dtype::f16, {-5, NAN}, mn::bag_mode::mean), (numbers{-5, 0}));
  EXPECT_EQ(bagged(mn::dtype::f32, {-INFINITY, NAN}, mn::bag_mode::max), (numbers{-INFINITY, 0}));

  mn::graph g;  // nor is what it is weighted with
  const mn::node_value table(g, g.input("table", mn::dtype::f32, {2, 1})),
      bags(g, g.input("bags", mn::dtype::i32, {2}));
  const mn::node_value weights(g, g.input("weights", mn::dtype::f32, {2}));
  const mn::node_id y = mn::embedding_bag(table, bags, weights, 1).id();
  const mn::oracle::tensors<double> leaves{{"table", {{2, 1}, {-5, 9}, mn::dtype::f32}},
                                           {"bags", {{2}, {1, 0}, mn::dtype::i32}},
                                           {"weights", {{2}, {INFINITY, 2}, mn::dtype::f32}}};
  EXPECT_EQ(mn::oracle::interpreter<double>(g, leaves).value(y).values, (numbers{-10}));
}

TEST(expr_rearrange, products_that_do_not_fit_are_refused) {
  mn::graph g;
  const mn::node_value x(g, g.input("x", mn::dtype::f32, {2, 4})), line(g, g.input("line", mn::dtype::f32, {3})),
      bag(g, g.input("bag", mn::dtype::i32, {3}));
  const std::pair<const char*, std::string> cases[] = {
      {"einsum<\"iij->j\">(x): labels must name each axis, those of the result once, and repeated ones have equal "
       "known "
       "extents; found f32 [2, 4]",
       sentence([&] { (void)mn::einsum("ii->i", x); })},
      {"matmul(a, b): the last extent of a must equal the last but one of b, and batch extents be equal or 1; found "
       "f32 [2, "
       "4, 1], f32 [3, 1, 4]",
       sentence([&] {
         (void)mn::matmul(mn::unsqueeze(x, 2), mn::expand(mn::slice(x, 0, 0, 1), mn::shape{3, 1, 4}));
       })},
      {"matmul(a, b): the last extent of a must equal the last but one of b, and batch extents be equal or 1; found "
       "f32 [2, "
       "4], f32 []",
       sentence([&] { (void)mn::matmul(x, mn::sum(x)); })},
      {"einsum<\"ik,kj->ij\">(a, b): labels must name each axis, each once an operand, and those of the result stand "
       "in "
       "one; found f32 [2, 4], f32 [2, 4]",
       sentence([&] { (void)mn::einsum("ijk,kl->il", x, x); })},
      {"split<axis, sizes...>(x): x needs that axis, and its extent must be the sum of the sizes; found f32 [2, 4]",
       sentence([&] { (void)mn::split(x, 1, 1, 2); })},
      {"split<axis, sizes...>(x): x needs that axis, and its extent must be the sum of the sizes; found f32 [2, 4]",
       sentence([&] { (void)mn::split(x, 1, 4, 0); })},
      {"resize<axis, size, mode, place>(x): x needs that axis, of a known extent, and both extents are at most 16384; "
       "found f32 [2, 4]",
       sentence([&] {
         (void)mn::resize(x, 1, mn::spatial{3, 2}, mn::resize_mode::linear);
       })},
      {"tensordot<axes>(a, b): the last axes of a must be the first ones of b; found f32 [2, 4], f32 [2, 4]",
       sentence([&] { (void)mn::tensordot(x, x, 1); })},
      {"cross<axis>(a, b): operands must have one dtype and shape, with that axis of extent 3; found f32 [2, 4], f32 "
       "[2, 4]",
       sentence([&] { (void)mn::cross(x, x, 1); })},
      {"resize<axis, size, mode, place>(x): x needs that axis, of a known extent, and both extents are at most 16384; "
       "found f32 [2, 4]",
       sentence([&] { (void)mn::resize(x, 2, 3, mn::resize_mode::linear); })},
      {"unfold<options>(x): x must be [n, c, h, w] of known h and w with room for the window, of at most 10; found f32 "
       "[2, 4]",
       sentence([&] { (void)mn::unfold(x, mn::conv_options{}); })},
      {"fold<h, w, options>(x): x must be what unfold makes of [n, c, h, w]; found f32 [2, 4]",
       sentence([&] { (void)mn::fold(x, 4, 4, mn::conv_options{}); })},
      {"embedding_bag<mode>(table, indices): indices must be i32 with an axis for the bag; found f32 [2, 4], f32 [2, "
       "4]",
       sentence([&] { (void)mn::embedding_bag(x, x, mn::bag_mode::sum); })},
      {"embedding_bag<mode, padding>(table, indices): padding must be a row, or -1; found f32 [2, 4], i32 [3]",
       sentence([&] { (void)mn::embedding_bag(x, bag, mn::bag_mode::sum, 2); })},
      {"embedding_bag<padding>(table, indices, weights): padding must be a row, or -1; found f32 [2, 4], i32 [3], f32 "
       "[3]",
       sentence([&] { (void)mn::embedding_bag(x, bag, line, -2); })}};
  for (const auto& [expected, found] : cases) EXPECT_EQ(found, expected);
}

TEST(expr_rearrange, axes_that_do_not_fit_are_refused) {
  mn::graph g;
  const mn::node_value x(g, g.input("x", mn::dtype::f32, {2, 4}));
  const std::pair<const char*, std::string> cases[] = {
      {"squeeze<axis>(x): x needs that axis, of extent 1", sentence([&] { (void)mn::squeeze(x, 0); })},
      {"movedim<from, to>(x): x has no such axis", sentence([&] { (void)mn::movedim(x, 0, 2); })},
      {"tile<axis, count>(x): x needs that axis, room for one axis more and a count of 1 or more",
       sentence([&] { (void)mn::tile(x, 0, 0); })},
      {"roll<axis, shift>(x): x needs that axis, of a known extent", sentence([&] { (void)mn::roll(x, 2, 1); })},
      {"pick<axis, index>(x): the index must lie within the axis", sentence([&] { (void)mn::pick(x, 1, 4); })},
      {"chunk<axis, count>(x): x needs that axis, and its extent must be a multiple of the count",
       sentence([&] { (void)mn::chunk<1, 3>(x); })},
      {"unbind<axis, count>(x): x needs that axis, and its extent must be the count",
       sentence([&] { (void)mn::unbind<1, 3>(x); })},
      {"pixel_shuffle<block>(x): x must be [.., c, h, w] with channels that are a multiple of block^2, and room for "
       "two "
       "axes more",
       sentence([&] { (void)mn::pixel_shuffle(x, 2); })},
      {"pad_by<axis, low, high, mode>(x): x has no such axis of a known extent, or a border is negative or longer than "
       "what it repeats",
       sentence([&] { (void)mn::pad_by(x, 0, 2, 0, mn::pad_mode::reflect); })},
      {"pad_by<axis, low, high, mode>(x): x has no such axis of a known extent, or a border is negative or longer than "
       "what it repeats",
       sentence([&] {
         (void)mn::pad_by(x, 1, mn::spatial{1, 1}, 0, mn::pad_mode::edge);
       })},
      {"diagonal<offset>(x): x needs two axes of known extents that have such a diagonal",
       sentence([&] { (void)mn::diagonal(x, 4); })},
      {"one_hot<classes>(indices): indices must be i32 with room for one axis more, and classes 1 or more",
       sentence([&] { (void)mn::one_hot(x, 4); })}};
  for (const auto& [expected, found] : cases) EXPECT_EQ(found, std::string(expected) + "; found f32 [2, 4]");
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
