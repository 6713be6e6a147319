// SPDX-License-Identifier: MIT
// Attention with operands by name and rotary positions: both carriers, rows that see nothing, scalings, refusals.
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/expr/lower.hpp>
#include <meganeura/operations.hpp>

#include <oracle/interpreter.hpp>
#include <support/sentence_of.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace mn = meganeura;

namespace {

using numbers = std::vector<double>;

struct functions {
  static constexpr mn::gqa_options near{.softcap = 20, .sliding_window = 2, .alibi = true}, ahead{.causal = true};
  static constexpr mn::rope_options partial{.width = 2, .type = mn::rope_type::llama3, .factor = 8},
      side{.interleaved = true, .type = mn::rope_type::yarn, .factor = 2};
  static constexpr auto forward(mn::value auto x, mn::value auto place, mn::value auto counts) {
    auto q = mn::rope<partial>(x) + mn::rope<side>(x, place);
    auto k = mn::slice<-2, 0, 1>(x);
    auto bias = mn::parameter<"bias", mn::dims<4, 3, 3>>;
    auto sinks = mn::attention_sinks(mn::parameter<"sinks", mn::dims<4>>);
    auto sees = mn::attn_mask(mn::less(bias, mn::constant<0.5f>));
    auto a = mn::attend<near>(q, k, k) + mn::attend<ahead>(q, q, x, mn::attn_mask(bias), place);
    auto b = mn::attend<near>(q, k, k, mn::key_lengths(counts), sinks, sees);
    return a + b + mn::attend<mn::gqa_options{}>(q, x, x, sinks);
  }
};

struct attended {
  mn::graph g;
  mn::oracle::tensors<double> leaves{
      {"q", {{1, 2, 1, 1}, {1, 2}}}, {"k", {{1, 2, 1, 1}, {1, 3}}}, {"seed", {{1, 2, 1, 1}, {1, 1}}}};
  mn::node_value q{g, g.input("q", mn::dtype::f32, {1, 2, 1, 1})}, k{g, g.input("k", mn::dtype::f32, {1, 2, 1, 1})};

  attended() { g.input("seed", mn::dtype::f32, {1, 2, 1, 1}); }
  mn::node_value input(const char* name, mn::dtype type, const mn::shape& extents, numbers list) {
    leaves[name] = {extents, std::move(list), type};
    return {g, g.input(name, type, extents)};
  }
  numbers of(mn::node_id id) { return mn::oracle::interpreter<double>(g, leaves).value(id).values; }
  numbers slope(mn::node_id of_sum, mn::node_id by) {
    const mn::node_id outputs[] = {of_sum}, seeds[] = {g.find_leaf("seed")}, wrt[] = {by};
    return of(mn::gradients(g, outputs, seeds, wrt)[0]);
  }
};

numbers rotated(const mn::rope_options& options, double position) {
  mn::graph g;
  const mn::node_value x(g, g.input("x", mn::dtype::f32, {1, 1, 8})), at(g, g.input("at", mn::dtype::i32, {}));
  const mn::node_id y = mn::rope(x, at, options).id();
  mn::oracle::tensors<double> leaves{{"x", {{1, 1, 8}, {1, 1, 1, 1, 0, 0, 0, 0}}},
                                     {"at", {{}, {position}, mn::dtype::i32}}};
  return mn::oracle::interpreter<double>(g, leaves).value(y).values;
}

}  // namespace

TEST(expr_attention, typed_and_run_time_values_make_one_graph) {
  mn::graph g;
  using model =
      mn::model<functions, mn::input<"x", mn::dtype::f32, mn::dims<2, 3, 4, 6>>,
                mn::input<"place", mn::dtype::i32, mn::dims<>>, mn::input<"counts", mn::dtype::i32, mn::dims<2>>>;
  const mn::node_id typed = mn::lower_into<model>(g, {})[0];
  const std::string before = mn::to_text(g);
  const auto leaf = [&](const char* name) { return mn::node_value(g, g.find_leaf(name)); };
  EXPECT_EQ(functions::forward(leaf("x"), leaf("place"), leaf("counts")).id(), typed);
  EXPECT_EQ(mn::to_text(g), before);
}

TEST(expr_attention, a_query_that_sees_nothing_has_zeros_and_gradients_of_zeros) {
  attended t;
  const mn::node_value none = t.input("none", mn::dtype::i32, {2, 2}, {0, 0, 1, 0});
  const mn::node_value low = t.input("low", mn::dtype::f32, {2, 2}, {-INFINITY, -INFINITY, 0, -INFINITY});
  const mn::node_value sink = t.input("sink", mn::dtype::f32, {1}, {-INFINITY});
  const mn::node_value empty = t.input("empty", mn::dtype::i32, {1}, {0});
  for (const mn::node_value& y :
       {mn::attend(t.q, t.k, t.k, mn::attn_mask(none)), mn::attend(t.q, t.k, t.k, mn::attn_mask(low)),
        mn::attend(t.q, t.k, t.k, mn::attn_mask(mn::equal(none, 1)), mn::attention_sinks(sink))}) {
    EXPECT_EQ(t.of(y.id()), (numbers{0, 1}));
    EXPECT_EQ(t.slope(y.id(), t.q.id()), (numbers{0, 0}));
    EXPECT_EQ(t.slope(y.id(), t.k.id()), (numbers{1, 0}));
  }
  EXPECT_EQ(t.of(mn::attend(t.q, t.k, t.k, mn::key_lengths(empty)).id()), (numbers{0, 0}));
}

TEST(expr_attention, queries_before_the_first_key_see_nothing) {
  attended t;
  const mn::node_value place = t.input("place", mn::dtype::i32, {}, {-1});
  for (const mn::node_value& y : {mn::attend(t.q, t.k, t.k, place, mn::gqa_options{.causal = true}),
                                  mn::attend(t.q, t.k, t.k, place, mn::gqa_options{.causal = true, .alibi = true})}) {
    EXPECT_EQ(t.of(y.id()), (numbers{0, 1}));
    EXPECT_EQ(t.slope(y.id(), t.q.id()), (numbers{0, 0}));
    EXPECT_EQ(t.slope(y.id(), t.k.id()), (numbers{1, 0}));
  }
}

TEST(expr_attention, integers_hide_a_key_whatever_its_score_and_a_query_stands_anywhere) {
  for (const double hidden : numbers{3e38, NAN, INFINITY}) {
    attended t;
    t.leaves["k"] = {{1, 2, 1, 1}, {1, hidden}};
    const mn::node_value v = t.input("v", mn::dtype::f32, {1, 2, 1, 1}, {5, 7});
    const mn::node_value mask = t.input("mask", mn::dtype::i32, {2, 2}, {1, 0, 1, 0});
    EXPECT_EQ(t.of(mn::attend(t.q, t.k, v, mn::attn_mask(mask)).id()), (numbers{5, 5})) << hidden;
  }
  attended t;
  const mn::node_value place = t.input("place", mn::dtype::i32, {}, {2147483647});
  const mn::node_id y = mn::attend(t.q, t.k, t.k, place, mn::gqa_options{.causal = true}).id();
  EXPECT_EQ(t.of(y), t.of(mn::attend(t.q, t.k, t.k, mn::gqa_options{}).id()));
}

TEST(expr_attention, a_mask_that_is_nan_is_not_hidden) {
  attended t;
  const mn::node_value mask = t.input("mask", mn::dtype::f32, {2, 2}, {NAN, 0, 0, -INFINITY});
  const numbers y = t.of(mn::attend(t.q, t.k, t.k, mn::attn_mask(mask)).id());
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], 1);
}

TEST(expr_attention, a_window_without_direction_looks_to_both_sides) {
  mn::graph g;
  const mn::node_value q(g, g.input("q", mn::dtype::f32, {5, 1, 1})), v(g, g.input("v", mn::dtype::f32, {5, 1, 5}));
  const mn::node_id y = mn::attend(q, q, v, mn::gqa_options{.sliding_window = 2}).id();
  mn::oracle::tensors<double> leaves{{"q", {{5, 1, 1}, numbers(5)}}, {"v", {{5, 1, 5}, numbers(25)}}};
  for (std::int64_t i = 0; i < 5; ++i) leaves["v"][6 * i] = 1;
  const numbers found = mn::oracle::interpreter<double>(g, leaves).value(y).values;
  for (int i = 0; i < 25; ++i) {
    const int keys = i / 5 % 4 == 0 ? 2 : 3;
    EXPECT_EQ(found[static_cast<std::size_t>(i)], std::abs(i / 5 - i % 5) < 2 ? 1.0 / keys : 0) << i;
  }
}

// Pair i of four, of a plain speed 10^-i.
TEST(expr_attention, rotations_are_scaled_as_their_papers_have_it) {
  constexpr double pi = 3.141592653589793;
  const auto bounded = [](double x) { return std::clamp(x, 0.0, 1.0); };
  const auto plain = [](double i) { return std::pow(10.0, -i); };
  struct row {
    mn::rope_options options;
    std::function<double(double)> speed;
    double longer = 1;
  };
  const auto with = [](mn::rope_type type) {
    return mn::rope_options{.type = type, .factor = 8, .original_max_position_embeddings = 256};
  };
  mn::rope_options longer = with(mn::rope_type::yarn);
  longer.attention_factor = 1.5f;
  const auto yarn = [&](double i) {  // pairs of 32 and 1 turns: 0.1 and 1.6, rounded outwards
    return plain(i) * (1.0 / 8 + 7.0 / 8 * bounded(1 - i / 2));
  };
  const auto llama3 = [&](double low, double high) {
    return [=](double i) {
      const double wave = 2 * pi / plain(i);
      if (wave > 256 / low) return plain(i) / 8;
      if (wave < 256 / high) return plain(i);
      const double smooth = (256 / wave - low) / (high - low);
      return (1 - smooth) * plain(i) / 8 + smooth * plain(i);
    };
  };
  mn::rope_options wide = with(mn::rope_type::llama3), few_turns = with(mn::rope_type::yarn);
  wide.low_freq_factor = 0.25f, wide.high_freq_factor = 8;
  few_turns.beta_fast = 4, few_turns.beta_slow = 0.25f;  // pairs 1.008 and 2.2, rounded outwards
  const std::vector<row> rows{
      {{}, plain},
      {with(mn::rope_type::linear), [&](double i) { return plain(i) / 8; }},
      {with(mn::rope_type::ntk), [&](double i) { return std::pow(1e4 * std::pow(8.0, 8.0 / 6), -i / 4); }},
      {with(mn::rope_type::llama3), llama3(1, 4)},
      {wide, llama3(0.25, 8)},
      {few_turns, [&](double i) { return plain(i) * (1.0 / 8 + 7.0 / 8 * bounded(1 - (i - 1) / 2)); },
       0.1 * std::log(8.0) + 1},
      {with(mn::rope_type::yarn), yarn, 0.1 * std::log(8.0) + 1},
      {longer, yarn, 1.5},
  };
  for (const row& each : rows) {
    const numbers y = rotated(each.options, 3);
    for (std::size_t i = 0; i < 4; ++i) {
      const double angle = 3 * each.speed(static_cast<double>(i));
      EXPECT_NEAR(y[i], each.longer * std::cos(angle), 3e-6) << static_cast<int>(each.options.type) << " " << i;
      EXPECT_NEAR(y[i + 4], each.longer * std::sin(angle), 3e-6) << static_cast<int>(each.options.type) << " " << i;
    }
  }
}

TEST(expr_attention, rows_of_positions_that_floats_do_not_count_are_nan) {
  for (const double position : {16777217.0, -16777217.0, 2147483647.0}) {
    for (const double each : rotated({}, position)) EXPECT_TRUE(std::isnan(each)) << position;
  }
  for (const double each : rotated({}, 16777216)) EXPECT_FALSE(std::isnan(each));
}

TEST(expr_attention, what_does_not_fit_is_a_sentence) {
  attended t;
  const mn::node_value mask = t.input("mask", mn::dtype::f32, {3, 2}, numbers(6)),
                       counts = t.input("counts", mn::dtype::i32, {2}, numbers(2)),
                       sinks = t.input("sinks", mn::dtype::f32, {2}, numbers(2));
  const auto sentence = [](const auto& call) { return mn::support::sentence_of(call); };
  const std::string found = "; found f32 [1, 2, 1, 1], f32 [1, 2, 1, 1]";
  EXPECT_EQ(sentence([&] { (void)mn::attend(t.q, t.k, t.k, mn::attn_mask(mask)); }),
            "attend<options>(q, k, v, attn_mask(m)): m must broadcast to [b?, heads, t, s]" + found + ", f32 [3, 2]");
  EXPECT_EQ(sentence([&] { (void)mn::attend(t.q, t.k, t.k, mn::key_lengths(counts)); }),
            "attend<options>(q, k, v, key_lengths(n)): n must be i32, one for each sequence" + found + ", i32 [2]");
  EXPECT_EQ(
      sentence([&] { (void)mn::attend(t.q, t.k, t.k, mn::attention_sinks(sinks)); }),
      "attend<options>(q, k, v, attention_sinks(s)): s must be floats, one for each head of q" + found + ", f32 [2]");
  EXPECT_EQ(
      sentence([&] { (void)mn::rope(t.q, mn::rope_options{.width = 3}); }),
      "rope<options>(x): x must be floats [.., positions, heads, width], of at most 2^24 positions, the width that "
      "turns even, and more than 2 with ntk; found f32 [1, 2, 1, 1]");
  const mn::node_value wide = t.input("wide", mn::dtype::f32, {2, 1, 4}, numbers(8));
  EXPECT_EQ(sentence([&] { (void)mn::rope(wide, mn::rope_options{.type = mn::rope_type::linear, .factor = 0.5f}); }),
            "rope<options>(x): theta is above 1, factor at least 1, and low_freq_factor and beta_slow are below "
            "high_freq_factor and beta_fast; found f32 [2, 1, 4]");
}
