// SPDX-License-Identifier: MIT
// Names of layers: numbered by sequential and indexed, and two of one name refused where they are built at run time.
#include <support/sentence_of.hpp>

#include <gtest/gtest.h>

#include <meganeura/expr/lower.hpp>
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

namespace {

template <int I>
struct narrowing {
  static constexpr auto forward(mn::value auto x, mn::value auto gain) {
    return mn::relu(mn::linear<"fc", 14 - I>(x)) * gain;
  }
};
struct ends {
  static constexpr auto forward(mn::value auto x, mn::value auto gain) {
    return mn::results<"x", "sum">(x, mn::sum<1>(x) + gain);
  }
};
struct rows {
  static constexpr auto forward(mn::value auto x) {
    auto gain = mn::parameter<"gain", mn::dims<1>>;
    auto a = mn::indexed<"narrow", 11, narrowing>(x, gain);
    auto [b, sum] = mn::sequential<"", narrowing<0>, narrowing<2>, ends>(a, gain);
    return b + mn::reshape<mn::dims<4, 1>>(sum);
  }
};

struct cell {
  static constexpr auto forward(mn::value auto x) {
    auto scale = mn::parameter<"scale", mn::dims<4>>;
    return mn::tanh(mn::linear<"fc", 4>(x) * scale) + scale;
  }
};
struct two_cells {
  static constexpr auto forward(mn::value auto x) {
    auto y = mn::call<"cell", cell>(x);
    return mn::results<"negative", "plain">(-y, y);
  }
};

struct run_time_names : testing::Test {
  mn::graph g{mn::run_mode::training};
  mn::node_value x{g, g.input("x", mn::dtype::f32, {2, 4})};
  [[nodiscard]] std::string sentence() const {
    return mn::support::sentence_of([&] { g.layers().check(); });
  }
  static std::string refused(const std::string& name) {
    return "two layers are called \"" + name +
           "\" and would be one; rename one of them, or share it on purpose: shared(layer)";
  }
};

}  // namespace

TEST(expr_names, rows_of_layers_are_numbered_both_ways) {
  using model = mn::model<rows, mn::input<"x", mn::dtype::f32, mn::dims<4, 8>>>;
  mn::graph g;
  const mn::node_id typed = mn::lower_into<model>(g, {})[0];
  const std::string before = mn::to_text(g);
  EXPECT_EQ(rows::forward(mn::node_value(g, g.find_leaf("x"))), typed);
  EXPECT_EQ(mn::to_text(g), before);
  EXPECT_NO_THROW(g.layers().check());
  EXPECT_EQ(g.leaves(mn::op::parameter).size(), 1u + 2 * (11 + 2));
  for (const auto& [name, count] : std::vector<std::pair<const char*, int>>{
           {"narrow.0.fc.bias", 14}, {"narrow.10.fc.bias", 4}, {"0.fc.bias", 14}, {"1.fc.bias", 12}, {"gain", 1}}) {
    ASSERT_NE(g.find_leaf(name), mn::no_id) << name;
    EXPECT_EQ(g[g.find_leaf(name)].extents, mn::shape({count})) << name;
  }
}

TEST_F(run_time_names, two_layers_of_one_name_are_refused) {
  (void)mn::linear("fc", mn::linear("fc", x, 4), 4);
  EXPECT_EQ(sentence(), refused("fc.weight"));
}

TEST_F(run_time_names, equal_layers_are_one) {
  EXPECT_EQ(mn::linear("fc", x, 4).id(), mn::linear("fc", x, 4).id());
  EXPECT_EQ(mn::call<cell>("cell", x).id(), mn::call<cell>("cell", x).id());
  EXPECT_EQ(sentence(), "no error");
}

TEST_F(run_time_names, what_is_shared_is_one) {
  const auto y = mn::linear("fc", x, 4);
  (void)mn::shared(mn::linear("fc", y, 4));
  const auto z = mn::shared(mn::call<cell>("cell", y));  // before its namesake
  (void)mn::call<cell>("cell", z);
  (void)mn::repeat<"rows", 2, cell>(z);
  (void)mn::shared(mn::repeat<"rows", 2, cell>(y));
  EXPECT_EQ(sentence(), "no error");
}

TEST_F(run_time_names, every_turn_of_a_loop_may_be_shared) {
  auto y = x;
  for (int turn = 0; turn < 4; ++turn) y = mn::shared(mn::call<cell>("cell", y));
  EXPECT_EQ(sentence(), "no error");
}

TEST_F(run_time_names, what_is_shared_with_nothing_is_refused) {
  (void)mn::linear("encoder", x, 4);
  (void)mn::shared(mn::linear("encodr", x, 4));
  EXPECT_EQ(sentence(),
            "shared(...) refers to \"encodr.weight\", which the model does not have; did you mean \"encoder.weight\"?");
}

TEST_F(run_time_names, a_call_is_shared_with_all_in_it) {
  (void)mn::call<two_cells>("outer", x);
  const auto [negative, plain] = mn::shared(mn::call<two_cells>("outer", x * 2.0f));
  (void)negative, (void)plain;
  EXPECT_EQ(sentence(), "no error");
  (void)mn::call<two_cells>("outer", x * 3.0f);
  EXPECT_EQ(sentence(), refused("outer.cell.fc.weight"));
}

TEST_F(run_time_names, parameters_are_the_layers_that_hold_them) {
  const auto y = mn::embedding("embed", mn::node_value(g, g.input("tokens", mn::dtype::i32, {2})), 7, 4);
  (void)mn::matmul(y, mn::transpose(mn::shared(mn::parameter<"embed.weight", mn::dims<7, 4>>)));
  EXPECT_EQ(sentence(), "no error");
  (void)mn::matmul(y, mn::transpose(mn::parameter<"embed.weight", mn::dims<7, 4>>));
  EXPECT_EQ(sentence(), refused("embed.weight"));
}

TEST_F(run_time_names, calls_of_one_name_that_hold_different_names_may_be_two) {
  (void)mn::call<cell>("part", x);
  (void)mn::call<two_cells>("part", x);
  EXPECT_EQ(sentence(), "no error");
}

TEST_F(run_time_names, names_of_random_streams_are_like_those_of_parameters) {
  (void)mn::dropout("drop", x, 0.5);
  (void)mn::linear("drop", x, 4);
  EXPECT_EQ(sentence(), "no error");
  (void)mn::dropout("drop", x * 2.0f, 0.5);
  EXPECT_EQ(sentence(), refused("random drop.mask"));
}

TEST_F(run_time_names, only_layers_and_parameters_are_shared) {
  const auto y = mn::linear("fc", x, 4) + 1.0f;
  EXPECT_EQ(mn::support::sentence_of([&] { (void)mn::shared(y); }),
            "shared(x): x must be the result of a layer, a call, a parameter or a state; found %" +
                std::to_string(y.id()) + " = map");
  EXPECT_EQ(mn::shared(mn::node_value(g, g.find_leaf("fc.bias"))).id(), g.find_leaf("fc.bias"));
}
