// SPDX-License-Identifier: MIT
// Extents that are sums and products of symbols, from type to graph: what they are worth, and what is computed with
// them.
#include <meganeura/core/error.hpp>
#include <meganeura/expr/lower.hpp>
#include <meganeura/expr/summary.hpp>
#include <meganeura/operations.hpp>

#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>
#include <support/sentence_of.hpp>
#include <support/small_models.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mn = meganeura;

namespace {

using mn::dims;
inline constexpr mn::dim batch = mn::sym<"batch">, seq = mn::sym<"seq">, past = mn::sym<"past">,
                         fresh = mn::sym<"fresh">, rows = mn::sym<"rows", 5>;

mn::oracle::tensor<double> numbers(const mn::shape& extents, std::uint32_t seed) {
  const auto values = mn::support::uniform(static_cast<std::size_t>(extents.elements()), seed);
  return {extents, {values.begin(), values.end()}};
}

template <class Module, mn::symbolic_shape... Shapes>
struct over;
template <class Module, mn::symbolic_shape A>
struct over<Module, A> {
  using type = mn::model<Module, mn::input<"a", mn::dtype::f32, A>>;
};
template <class Module, mn::symbolic_shape A, mn::symbolic_shape B>
struct over<Module, A, B> {
  using type = mn::model<Module, mn::input<"a", mn::dtype::f32, A>, mn::input<"b", mn::dtype::f32, B>>;
};
template <class Module, mn::symbolic_shape... Shapes>
using of = typename over<Module, Shapes...>::type;

template <class Model>
std::vector<double> computed(mn::oracle::tensors<double> leaves, std::initializer_list<mn::symbol_extent> symbols) {
  const mn::graph g = mn::lower<Model>(symbols);
  mn::oracle::interpreter<double> truth(g, std::move(leaves));
  return truth.run().at("output").values;
}

// Each token on its own, once as rows of one matrix.
struct as_rows {
  static constexpr auto forward(mn::value auto a) {
    const auto flat = mn::flatten<0, 1>(a);
    static_assert(decltype(flat)::shape == dims<batch * seq, 4>);
    return mn::reshape<dims<batch, seq, 4>>(mn::softmax<-1>(flat) * mn::constant<2.0f>) + mn::softmax<-1>(a);
  }
};

TEST(expr_extents, batch_and_sequence_are_one_axis_and_two_again) {
  const auto a = numbers({2, 3, 4}, 1);
  const auto found = computed<of<as_rows, dims<batch, seq, 4>>>({{"a", a}}, {{"batch", 2}, {"seq", 3}});
  double sum = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    sum += found[i];
    if (i % 4 == 3) {
      EXPECT_NEAR(sum, 3, 1e-12);
      sum = 0;
    }
  }
}

// The last token, and as many rows of a table as there are tokens.
struct last_and_first {
  static constexpr auto forward(mn::value auto a, mn::value auto b) {
    return mn::slice<0, -1, 1>(a) + mn::slice<0, -2, 1>(b) + mn::sum(mn::slice<0, 0, rows>(b) * a);
  }
};

TEST(expr_extents, slices_count_from_an_open_end_and_to_one_within_bounds) {
  using model = of<last_and_first, dims<rows, 1>, dims<5, 1>>;
  const mn::oracle::tensor<double> a({3, 1}, {1, 2, 3}), b({5, 1}, {10, 20, 30, 40, 50});
  EXPECT_EQ(computed<model>({{"a", a}, {"b", b}}, {{"rows", 3}}), (std::vector<double>{3 + 40 + 140}));
  EXPECT_EQ(mn::support::sentence_of([] {
              (void)mn::lower<model>({{"rows", 6}});
            }),
            "the symbol \"rows\" is bound to 6, and the model takes at most 5");
}

// Attention of new tokens over a past, and of all tokens at once.
constexpr mn::gqa_options causal{.causal = true};
struct continued {
  static constexpr auto forward(mn::value auto a, mn::value auto b) {
    const auto all = mn::concat<0>(a, b);
    static_assert(decltype(all)::shape == dims<past + fresh, 4, 3>);
    return mn::attend<causal>(b, mn::slice<1, 0, 2>(all), mn::slice<1, 2, 2>(all));
  }
};
struct at_once {
  static constexpr auto forward(mn::value auto a, mn::value auto b) {
    const auto all = mn::concat<0>(a, b);
    return mn::attend<causal>(all, mn::slice<1, 0, 2>(all), mn::slice<1, 2, 2>(all));
  }
};

TEST(expr_extents, new_tokens_see_a_past_as_they_would_at_once) {
  constexpr auto before = dims<past, 4, 3>, behind = dims<fresh, 4, 3>;
  for (const auto& [old_tokens, new_tokens] : {std::pair<std::int64_t, std::int64_t>{5, 1}, {1, 4}, {3, 3}}) {
    const mn::oracle::tensors<double> leaves{{"a", numbers({old_tokens, 4, 3}, 1)},
                                             {"b", numbers({new_tokens, 4, 3}, 2)}};
    const auto part = computed<of<continued, before, behind>>(leaves, {{"past", old_tokens}, {"fresh", new_tokens}});
    const auto whole = computed<of<at_once, before, behind>>(leaves, {{"past", old_tokens}, {"fresh", new_tokens}});
    ASSERT_EQ(part.size(), static_cast<std::size_t>(new_tokens) * 12);
    for (std::size_t i = 0; i < part.size(); ++i)
      EXPECT_NEAR(part[i], whole[static_cast<std::size_t>(old_tokens) * 12 + i], 1e-12);
  }
}

// What layers make of such extents: pads, means, products.
struct padded {
  static constexpr auto forward(mn::value auto a, mn::value auto b) {
    const auto all = mn::pad<0, 1, 0>(mn::concat<0>(a, b));
    static_assert(decltype(all)::shape == dims<past + fresh + 1, 2>);
    return mn::mean<0>(all) + mn::matmul(mn::transpose(all), all);
  }
};

TEST(expr_extents, a_sum_of_symbols_is_counted_and_shown) {
  using model = of<padded, dims<past, 2>, dims<fresh, 2>>;
  const mn::oracle::tensor<double> a({1, 2}, {3, 1}), b({2, 2}, {1, 0, 0, 3});
  EXPECT_EQ(computed<model>({{"a", a}, {"b", b}}, {{"past", 1}, {"fresh", 2}}),
            (std::vector<double>{1 + 10, 1 + 3, 1 + 3, 1 + 10}));
  const mn::graph g = mn::lower<model>({{"past", 1}, {"fresh", 2}});
  EXPECT_EQ(model::flops({{"past", 1}, {"fresh", 2}}), 8 + 2 + 4 + 2 * 4 * 4);
  EXPECT_EQ(mn::to_string(mn::summary<model>().flops), "10 past + 10 fresh + 16");
  EXPECT_EQ(mn::to_string(mn::summary<model>({{"past", 1}}).flops), "10 fresh + 26");
  EXPECT_EQ(mn::support::sentence_of([] {
              (void)mn::lower<model>({{"past", 1}, {"fresh", std::int64_t{1} << 60}});
            }),
            "a tensor [(fresh = 1152921504606846976), 2] was asked for, and one has at most 2^58 = 288230376151711744 "
            "elements; bind its symbols to less");
}

struct doubled {
  static constexpr auto forward(mn::value auto a) { return mn::reshape<dims<2 * (batch - 1), 2>>(mn::concat<0>(a, a)); }
};

TEST(expr_extents, extents_are_shown_as_they_are_written_and_below_1_refused) {
  using model = of<doubled, dims<batch - 1, 2>>;
  EXPECT_EQ(mn::summary<model>().layers[0].result, "f32[2 (batch - 1), 2]");
  EXPECT_EQ(mn::summary<model>({{"batch", 4}}).layers[0].result, "f32[6, 2]");
  EXPECT_EQ(mn::lower<model>({{"batch", 3}}).size(), 2u);
  EXPECT_EQ(mn::support::sentence_of([] {
              (void)mn::lower<model>({{"batch", 1}});
            }),
            "a tensor [(batch = 1) - 1, 2] was asked for, and an extent is at least 1; bind its symbols to more");
}

TEST(expr_extents, what_is_bound_says_an_extent_of_a_sum) {
  const mn::open_sizes sizes({{"a", dims<batch, past + fresh>}, {"b", dims<batch * past>}, {"c", dims<batch>}});
  const mn::bound_elements bound[] = {{"a", 40}, {"b", 12}, {"c", 4}};
  EXPECT_EQ(sizes.solved(bound), (std::vector<std::int64_t>{4, 7, 3}));  // symbols in order: batch, fresh, past
  const mn::bound_elements wrong[] = {{"a", 42}, {"b", 12}, {"c", 4}};
  EXPECT_EQ(mn::support::sentence_of([&] { (void)sizes.solved(wrong); }),
            "input \"a\" is [batch, fresh + past] and was given 42 elements, which no extent of \"fresh\" makes");
}

TEST(expr_extents, what_is_bound_may_not_be_enough) {
  const mn::bound_elements bound[] = {{"x", 60}};
  EXPECT_EQ(mn::support::sentence_of([&] {
              (void)mn::open_sizes({{"x", dims<batch, past>}}).solved(bound);
            }),
            "what \"batch\" and \"past\" are worth is not known: input \"x\" [batch, past] was given 60 elements; bind "
            "one of them by its name, bind<\"past\">(n) or {\"past\", n}");
  EXPECT_EQ(mn::support::sentence_of([&] {
              (void)mn::open_sizes({{"x", dims<batch, past, fresh>}}).solved(bound);
            }),
            "what \"batch\" and \"past\" and \"fresh\" are worth is not known: input \"x\" [batch, past, fresh] was "
            "given 60 elements; bind all but one of them by its name, bind<\"fresh\">(n) or {\"fresh\", n}");
}

TEST(expr_extents, what_is_bound_says_an_extent_beyond_the_number_of_elements) {
  const auto solved = [](const mn::symbolic_shape& extents, std::int64_t elements) {
    const mn::bound_elements bound[] = {{"x", elements}};
    return mn::open_sizes({{"x", extents}}).solved(bound)[0];
  };
  EXPECT_EQ(solved(dims<batch - 1>, 7), 8);
  EXPECT_EQ(solved(dims<4, batch - 1>, 28), 8);
  EXPECT_EQ(solved(dims<batch - 4, batch - 4>, 9), 7);  // and not 1, of which two extents are -3
  EXPECT_EQ(mn::support::sentence_of([&] { (void)solved(dims<4, batch - 1>, 29); }),
            "input \"x\" is [4, batch - 1] and was given 29 elements, which no extent of \"batch\" makes");
  const mn::open_sizes large({{"x", dims<past, fresh, batch>}},
                             {{"past", std::int64_t{1} << 40}, {"fresh", std::int64_t{1} << 40}});
  const mn::bound_elements bound[] = {{"x", 7}};
  EXPECT_EQ(mn::support::sentence_of([&] { (void)large.solved(bound); }),
            "input \"x\" is [past, fresh, batch] and was given 7 elements, which no extent of \"batch\" makes");
}

}  // namespace
