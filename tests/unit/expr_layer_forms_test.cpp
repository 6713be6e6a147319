// SPDX-License-Identifier: MIT
// Layers with parameters: their names and shapes, their values beside their definitions, their gradients beside
// differences, and what they refuse.
#include <meganeura/expr/lower.hpp>

#include <oracle/gradient_check.hpp>
#include <support/layer_cases.hpp>
#include <support/sentence_of.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace mn = meganeura;

namespace {

struct forms {
  static constexpr auto forward(mn::value auto x) {
    auto a = mn::conv1d<"a", 4, mn::conv_options{.padding = 1}>(mn::flatten<2>(x));
    auto b = mn::conv2d<"b", 4, mn::conv_options{.kernel = {1, 3}, .padding_high = {0, 2}}>(x);
    auto c = mn::conv3d<"c", 4, mn::conv_options{.padding = 1}>(mn::unsqueeze<2>(x));
    auto d = mn::conv_transpose1d<"d", 4, mn::conv_transpose_options{.padding = 1}>(mn::flatten<2>(x));
    auto e = mn::conv_transpose2d<"e", 4, mn::conv_transpose_options{.padding = 1}>(x);
    auto f = mn::conv_transpose3d<"f", 4, mn::conv_transpose_options{.padding = 1}>(mn::unsqueeze<2>(x));
    return mn::flatten<2>(b + e) + a + d + mn::flatten<2>(c + f);
  }
};
struct undropped {
  static constexpr auto forward(mn::value auto x) {
    return mn::dropout<"a", 0>(mn::channel_dropout<"b", 0>(mn::alpha_dropout<"c", 0>(x)));
  }
};
struct norms {
  static constexpr auto forward(mn::value auto x) {
    auto a = mn::layer_norm<"a", mn::norm_options{.axes = 3}>(x) + mn::group_norm<"b", 2>(x);
    auto b = mn::rms_norm<"c", mn::norm_options{.affine = false}>(x) + mn::instance_norm<"d">(x);
    auto w = mn::weight_norm(mn::parameter<"v", mn::dims<5, 5>>, mn::parameter<"g", mn::dims<5, 1>>);
    return mn::weight_norm_linear<"e", 5>(a + b) +
           mn::weight_norm_conv<"f", 4, mn::conv_options{.kernel = 1, .groups = 2}>(b) +
           mn::batch_norm<"g", mn::batch_norm_options{.affine = false}>(b) +
           mn::tied_linear(mn::local_response_norm(x), w);
  }
};
struct pools {
  static constexpr auto forward(mn::value auto x) {
    constexpr mn::pool_options padded{.window = 3, .stride = 1, .padding = 1, .count_include_pad = false};
    constexpr mn::lp_pool_options one{.window = 1};
    auto line = mn::flatten<2>(x);
    auto box = mn::unsqueeze<2>(x);
    auto a = mn::max_pool1d<padded>(line) + mn::avg_pool1d<padded>(line) + mn::lp_pool1d<one>(line) +
             mn::adaptive_avg_pool1d<1>(line) + mn::adaptive_max_pool1d<1>(line);
    auto b = mn::max_pool2d<mn::pool_options{.window = 3, .stride = 1, .padding = 2, .dilation = 2}>(x) +
             mn::avg_pool2d<padded>(x) + mn::lp_pool2d<one>(x) + mn::adaptive_avg_pool2d<mn::spatial{4, 1}>(x) +
             mn::adaptive_max_pool2d<mn::spatial{1, 5}>(x);
    auto c = mn::max_pool3d<padded>(box) + mn::avg_pool3d<padded>(box) + mn::lp_pool3d<one>(box) +
             mn::adaptive_avg_pool3d<1>(box) + mn::adaptive_max_pool3d<mn::spatial{1, 4, 1}>(box);
    auto d = mn::adaptive_avg_pool2d<3>(x) + mn::adaptive_max_pool2d<3>(x);
    return a + mn::flatten<2>(b) + mn::flatten<2>(c) + mn::sum(d);
  }
};

struct adapters {
  static constexpr mn::transformer_options small{.width = 5, .heads = 1, .hidden = 3};
  static constexpr auto forward(mn::value auto image) {
    auto x = mn::sum<1>(mn::squeeze_excite<"se", 2>(image));
    auto y = mn::call<"encoder", mn::transformer_encoder_layer<small>>(x);
    auto z = mn::call<"decoder", mn::transformer_decoder_layer<small>>(y, x) + mn::multi_head_attention<"a", 5>(x);
    auto sees = mn::less(mn::slice<-1, 0, 4>(mn::sum<0>(x)), mn::constant<0.5f>);
    auto w = mn::multi_head_attention<"b", 1>(x, y, z, mn::attn_mask(sees));
    return mn::lora_linear<"lora", 4>(w) + mn::bilinear<"form", 4>(x, mn::alpha_dropout<"drop", 0.5>(y)) +
           mn::linear<"fc", 4>(mn::channel_dropout<"channels", 0.5>(x));
  }
};

struct masks {
  static constexpr mn::transformer_options small{.width = 5, .heads = 1, .hidden = 3};
  static constexpr auto forward(mn::value auto image) {
    auto x = mn::sum<1>(image);
    auto n = mn::cast<mn::dtype::i32>(mn::sum<1, 2>(x));
    auto m = mn::slice<-1, 0, 4>(mn::sum<0>(x));
    auto sees = mn::attn_mask(mn::less(m, mn::constant<0.5f>));
    auto a = mn::multi_head_attention<"a", 1>(x, mn::key_lengths(n));
    auto b =
        mn::multi_head_attention<"b", 5, mn::multi_head_options{.dropout = 0.5f}>(x, a, a, mn::key_lengths(n), sees);
    auto c = mn::repeat<"encoder", 2, mn::transformer_encoder_layer<small>>(b, sees, mn::key_lengths(n));
    auto d = mn::call<"d", mn::transformer_decoder_layer<small>>(c, x, mn::key_lengths(n), mn::memory_lengths(n));
    return mn::call<"e", mn::transformer_decoder_layer<small>>(d, x, mn::attn_mask(m), mn::memory_mask(m));
  }
};

struct recurrences {
  static constexpr mn::recurrent_options both{.hidden = 2, .layers = 2, .bidirectional = true}, one{.hidden = 4},
      two{.hidden = 2};
  static constexpr auto forward(mn::value auto image) {
    auto x = mn::sum<1>(image);
    auto y = mn::call<"lstm", mn::lstm<both>>(x) + mn::call<"gru", mn::gru<one>>(x);
    auto begin = mn::parameter<"begin", mn::dims<4, 2, 2>>;
    auto [z, h] = mn::call<"from", mn::rnn<both>>(x, begin);
    auto [v, a, b] = mn::call<"lstm_from", mn::lstm<both>>(x, h, begin);
    auto step = mn::slice<-1, 0, 2>(mn::sum<1>(y));
    auto [d, e] = mn::call<"cell", mn::lstm_cell<two>>(mn::sum<1>(x), step, mn::sum<0>(a + b));
    auto f = mn::call<"gru_cell", mn::gru_cell<two>>(d, mn::call<"rnn_cell", mn::rnn_cell<two>>(e, d));
    return y + mn::call<"rnn", mn::rnn<both>>(x) + z + v + mn::sum(f);
  }
};
struct padded {
  static constexpr mn::recurrent_options both{.hidden = 2, .layers = 2, .bidirectional = true, .dropout = 0.5f};
  static constexpr auto forward(mn::value auto image) {
    auto x = mn::sum<1>(image);
    auto n = mn::sequence_lengths(mn::cast<mn::dtype::i32>(mn::sum<1, 2>(x)));
    auto begin = mn::parameter<"begin", mn::dims<4, 2, 2>>;
    auto [y, h] = mn::call<"gru", mn::gru<both>>(x, begin, n);
    auto [z, a, b] = mn::call<"lstm", mn::lstm<both>>(y, h, begin, n);
    return mn::call<"rnn", mn::rnn<both>>(z, n) + mn::sum(a + b);
  }
};

// A layer of `count` numbers drawn around 0, in training.
template <class F>
std::vector<double> drawn(const mn::shape& extents, std::vector<double> x, const F& f,
                          mn::oracle::tensors<double> leaves = {}) {
  mn::graph g(mn::run_mode::training);
  const mn::node_id y = f(mn::node_value(g, g.input("x", mn::dtype::f32, extents))).id();
  leaves["x"] = {extents, std::move(x), mn::dtype::f32};
  return mn::oracle::interpreter<double>(g, leaves).value(y).values;
}

template <class Module>
void expect_same_both_ways() {
  mn::graph g;
  const mn::node_id typed =
      mn::lower_into<mn::model<Module, mn::input<"x", mn::dtype::f32, mn::dims<2, 4, 4, 5>>>>(g, {})[0];
  const std::string before = mn::to_text(g);
  EXPECT_EQ(Module::forward(mn::node_value(g, g.find_leaf("x"))).id(), typed);
  EXPECT_EQ(mn::to_text(g), before);
}

class layer_forms : public testing::TestWithParam<const mn::support::layer_case*> {};
std::vector<const mn::support::layer_case*> each_case() {
  std::vector<const mn::support::layer_case*> list;
  for (const mn::support::layer_case& each : mn::support::layer_cases()) list.push_back(&each);
  return list;
}
INSTANTIATE_TEST_SUITE_P(all, layer_forms, testing::ValuesIn(each_case()));

}  // namespace

TEST_P(layer_forms, have_pytorchs_parameters) {
  SCOPED_TRACE(GetParam()->call);
  const mn::support::built_layer built(*GetParam());
  std::map<std::string, mn::shape> found;
  for (const mn::node_id id : built.g.leaves(mn::op::parameter))
    found[built.g.get<mn::leaf_attribute>(id).name] = built.g[id].extents;
  EXPECT_EQ(found, GetParam()->parameters);
}

TEST_P(layer_forms, are_what_their_definitions_say) {
  SCOPED_TRACE(GetParam()->call);
  mn::support::built_layer built(*GetParam());
  const std::vector<double> found = mn::oracle::interpreter<double>(built.g, built.leaves).run().at("y").values;
  const std::vector<double> expected = GetParam()->definition(built.leaves);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-6) << i;
}

TEST_P(layer_forms, have_the_gradients_that_differences_give) {
  SCOPED_TRACE(GetParam()->call);
  mn::support::built_layer built(*GetParam());
  std::vector<mn::node_id> wrt;
  for (const mn::op kind : {mn::op::input, mn::op::parameter}) {
    for (const mn::node_id id : built.g.leaves(kind)) wrt.push_back(id);
  }
  EXPECT_LT(mn::oracle::gradient_error(built.g, built.g.find_output("y"), wrt, built.leaves),
            mn::oracle::gradient_tolerance);
}

TEST(expr_layer_forms, typed_and_run_time_layers_are_one) {
  expect_same_both_ways<forms>();
  expect_same_both_ways<norms>();
  expect_same_both_ways<pools>();
  expect_same_both_ways<adapters>();
  expect_same_both_ways<masks>();
  expect_same_both_ways<recurrences>();
  expect_same_both_ways<padded>();
}

TEST(expr_layer_forms, batch_norm_without_parameters_has_its_statistics_alone) {
  mn::graph g;
  const mn::node_value x(g, g.input("x", mn::dtype::f32, {1, 2}));
  const mn::node_id y = mn::batch_norm("n", x, mn::batch_norm_options{.epsilon = 0, .affine = false}).id();
  EXPECT_TRUE(g.leaves(mn::op::parameter).empty());
  mn::oracle::interpreter<double> run(
      g, {{"x", {{1, 2}, {3, 4}}}, {"n.running_mean", {{2}, {1, 1}}}, {"n.running_var", {{2}, {4, 9}}}});
  EXPECT_EQ(run.value(y).values, (std::vector<double>{1, 1}));
}

TEST(expr_layer_forms, a_padding_token_has_zeros_and_trains_nothing) {
  mn::graph g;
  const mn::node_value tokens(g, g.input("tokens", mn::dtype::i32, {3}));
  const mn::node_id y = mn::embedding("e", tokens, 4, 2, mn::embedding_options{.padding_index = 1}).id();
  const mn::node_id outputs[] = {y}, seeds[] = {y}, wrt[] = {g.find_leaf("e.weight")};
  const mn::node_id slope = mn::gradients(g, outputs, seeds, wrt)[0];
  mn::oracle::tensors<double> leaves{{"tokens", {{3}, {3, 1, 0}, mn::dtype::i32}},
                                     {"e.weight", {{4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}, mn::dtype::f32}}};
  mn::oracle::interpreter<double> run(g, leaves);
  EXPECT_EQ(run.value(y).values, (std::vector<double>{7, 8, 0, 0, 1, 2}));
  EXPECT_EQ(run.value(slope).values, (std::vector<double>{1, 2, 0, 0, 0, 0, 7, 8}));
  const auto& leaf = g.get<mn::leaf_attribute>(wrt[0]);
  EXPECT_EQ(to_string(*leaf.begin), "normal(0, 1), row 1 zeros");  // for files that others read
}

TEST(expr_layer_forms, bilinear_has_a_bias_unless_it_is_told_not_to) {
  mn::graph g;
  const mn::node_value x(g, g.input("x", mn::dtype::f32, {3, 2}));
  (void)mn::bilinear("b", x, x, 5, false);
  EXPECT_EQ(g.leaves(mn::op::parameter).size(), 1u);
  (void)mn::bilinear("b", x, x, 5);
  EXPECT_EQ(g.leaves(mn::op::parameter).size(), 2u);
}

TEST(expr_layer_forms, channels_are_dropped_whole) {
  const std::vector<double> y =
      drawn({20, 10, 3}, std::vector<double>(600, 1.0), [](auto x) { return mn::channel_dropout("drop", x, 0.25); });
  int dropped = 0;
  for (std::size_t i = 0; i < 600; ++i) {
    EXPECT_TRUE(y[i] == 0 || std::fabs(y[i] - 4.0 / 3) < 1e-6);
    EXPECT_EQ(y[i], y[i - i % 3]);
    dropped += y[i] == 0 ? 1 : 0;
  }
  EXPECT_NEAR(dropped, 150, 60);
}

TEST(expr_layer_forms, weights_of_attention_are_dropped) {
  const mn::oracle::tensors<double> one{{"a.in_proj_weight", {{3, 1}, {1, 1, 1}}},
                                        {"a.out_proj.weight", {{1, 1}, {1}}}};
  const mn::multi_head_options half{.bias = false, .dropout = 0.5f};
  const auto seen = [&](auto x) { return mn::multi_head_attention("a", x, 1, half); };
  const auto masked = [&](auto x) {
    return mn::multi_head_attention("a", x, x, x, mn::attn_mask(less(mn::unsqueeze(x, 1), 2.0)), 1, half);
  };
  for (const std::vector<double>& y : {drawn({600, 1, 1}, std::vector<double>(600, 1.0), seen, one),
                                       drawn({600, 1, 1}, std::vector<double>(600, 1.0), masked, one)}) {
    int dropped = 0;
    for (const double each : y) {
      EXPECT_TRUE(each == 0 || each == 2);
      dropped += each == 0 ? 1 : 0;
    }
    EXPECT_NEAR(dropped, 300, 60);
  }
}

TEST(expr_layer_forms, without_a_batch_there_is_one_length) {
  const mn::multi_head_options plain{.bias = false};
  mn::graph g;
  const mn::node_value x(g, g.input("x", mn::dtype::f32, {3, 2})), n(g, g.input("n", mn::dtype::i32, {}));
  const mn::node_value all(g, g.input("all", mn::dtype::f32, {3, 1}));
  const mn::node_value keys = mn::slice(x, 0, 0, 2);
  const mn::node_id y =
      mn::multi_head_attention("a", x, mn::attn_mask(less(all, 2.0)), mn::key_lengths(n), 1, plain).id();
  const mn::node_id z = shared(mn::multi_head_attention("a", x, keys, keys, 1, plain)).id();
  mn::oracle::interpreter<double> run(g, {{"x", {{3, 2}, {1, -2, 0.5, 3, 5, -7}}},
                                          {"n", {{}, {2}, mn::dtype::i32}},
                                          {"all", {{3, 1}, {1, 1, 1}}},
                                          {"a.in_proj_weight", {{6, 2}, {1, 2, -1, 3, 0, 1, 2, 1, 1, -1, 2, 0.5}}},
                                          {"a.out_proj.weight", {{2, 2}, {1, 2, 3, -1}}}});
  const std::vector<double> found = run.value(y).values, expected = run.value(z).values;
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(found[i], expected[i], 1e-9) << i;
}

// Of ones, through hidden layers of one place that know no past.
TEST(expr_layer_forms, what_a_layer_gives_to_the_next_one_is_dropped) {
  static constexpr mn::recurrent_options deep{.hidden = 1, .layers = 2, .bias = false, .dropout = 0.5f},
      flat{.hidden = 1, .bias = false, .dropout = 0.5f};
  const mn::oracle::tensor<double> one{{1, 1}, {1}}, none{{1, 1}, {0}};
  const mn::oracle::tensors<double> leaves{
      {"r.weight_ih_l0", one}, {"r.weight_hh_l0", none}, {"r.weight_ih_l1", one}, {"r.weight_hh_l1", none}};
  const std::vector<double> ones(600, 1.0);
  int dropped = 0;
  for (const double each : drawn(
           {300, 2, 1}, ones, [](auto x) { return mn::call<mn::rnn<deep>>("r", x); }, leaves)) {
    EXPECT_NEAR(each, each == 0 ? 0 : std::tanh(2 * std::tanh(1.0)), 1e-6);
    dropped += each == 0 ? 1 : 0;
  }
  EXPECT_NEAR(dropped, 300, 60);
  for (const double each : drawn(
           {300, 2, 1}, ones, [](auto x) { return mn::call<mn::rnn<flat>>("r", x); }, leaves))
    EXPECT_NEAR(each, std::tanh(1.0), 1e-6);
  mn::graph g;
  const mn::node_value x(g, g.input("x", mn::dtype::f32, {1, 1, 1}));
  const mn::node_id y = mn::call<mn::rnn<deep>>("r", x).id();
  mn::oracle::tensors<double> evaluated = leaves;
  evaluated["x"] = {{1, 1, 1}, {1}};
  EXPECT_NEAR(mn::oracle::interpreter<double>(g, evaluated).value(y)[0], std::tanh(std::tanh(1.0)), 1e-6);
}

TEST(expr_layer_forms, padding_of_a_sequence_is_not_read) {
  static constexpr mn::recurrent_options both{.hidden = 1, .bidirectional = true};
  for (const double padding : {0.0, static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
    mn::graph g;
    const mn::node_value x(g, g.input("x", mn::dtype::f32, {1, 3, 1})), n(g, g.input("n", mn::dtype::i32, {1}));
    const mn::node_id y = mn::call<mn::lstm<both>>("r", x, mn::sequence_lengths(n)).id();
    std::vector<mn::node_id> wrt{x.id()};
    mn::oracle::tensors<double> leaves{{"x", {{1, 3, 1}, {0.5, padding, padding}}}, {"n", {{1}, {1}, mn::dtype::i32}}};
    for (const mn::node_id id : g.leaves(mn::op::parameter)) {
      wrt.push_back(id);
      leaves[g.get<mn::leaf_attribute>(id).name] = mn::oracle::tensor<double>(g[id].extents, mn::dtype::f32, 0.5);
    }
    const mn::node_id outputs[] = {y}, seeds[] = {y};
    const std::vector<mn::node_id> slopes = mn::gradients(g, outputs, seeds, wrt);
    mn::oracle::interpreter<double> run(g, leaves);
    const std::vector<double> found = run.value(y).values;
    EXPECT_EQ(std::vector<double>(found.begin() + 2, found.end()), std::vector<double>(4));
    EXPECT_GT(found[0], 0);
    EXPECT_EQ(found[0], found[1]);
    for (const mn::node_id each : slopes) {
      for (const double number : run.value(each).values) EXPECT_TRUE(std::isfinite(number)) << padding;
    }
    EXPECT_EQ(run.value(slopes[0])[1], 0);
  }
}

TEST(expr_layer_forms, alpha_dropout_keeps_mean_and_variance) {
  std::vector<double> x;
  for (int i = 0; i < 20000; ++i) x.push_back(i % 2 == 0 ? 1 : -1);
  const std::vector<double> y = drawn({20000}, x, [](auto v) { return mn::alpha_dropout("drop", v, 0.3); });
  double sum = 0, squares = 0;
  for (const double each : y) sum += each, squares += each * each;
  EXPECT_NEAR(sum / 20000, 0, 0.03);
  EXPECT_NEAR(squares / 20000, 1, 0.03);
}

TEST(expr_layer_forms, what_drops_nothing_is_its_operand_and_what_drops_all_zeros_and_neither_draws) {
  mn::graph g(mn::run_mode::training);
  using model = mn::model<undropped, mn::input<"x", mn::dtype::f32, mn::dims<2, 4>>>;
  const mn::node_id typed = mn::lower_into<model>(g, {})[0];
  const mn::node_value x(g, g.find_leaf("x"));
  EXPECT_EQ(typed, x.id());
  const auto each = [&](double p) {
    return std::vector<mn::node_value>{mn::dropout("a", x, p), mn::channel_dropout("b", x, p),
                                       mn::alpha_dropout("c", x, p)};
  };
  for (const mn::node_value& same : each(0)) EXPECT_EQ(same.id(), x.id());
  mn::oracle::interpreter<double> run(g, {{"x", {{2, 4}, std::vector<double>(8, 3.0)}}});
  for (const mn::node_value& none : each(1)) EXPECT_EQ(run.value(none).values, std::vector<double>(8, 0.0));
  EXPECT_TRUE(g.leaves(mn::op::random).empty());
}

TEST(expr_layer_forms, layers_that_do_not_fit_are_refused) {
  mn::graph g;
  const mn::node_value x(g, g.input("x", mn::dtype::f32, {2, 4, 6}));
  const auto sentence = [](const auto& call) { return mn::support::sentence_of(call); };
  EXPECT_EQ(sentence([&] { (void)mn::conv3d("c", x, 4); }),
            "conv3d<name, out, options>(x): x must be [n, c, d, h, w] of known c; found f32 [2, 4, 6] in \"c\"");
  const auto of_line = [&](std::int64_t out, const mn::conv_options& options) {
    return sentence([&] { (void)mn::conv1d("c", x, out, options); });
  };
  EXPECT_EQ(of_line(6, {.groups = 3}),
            "conv1d<name, out, options>(x): c must be a multiple of groups; found f32 [2, 4, 6] in \"c\"");
  for (const std::int64_t out : {0, -4, 5}) {
    EXPECT_EQ(of_line(out, {.groups = 2}),
              "conv1d<name, out, options>(x): out must be at least 1 and a multiple of groups; found f32 [2, 4, 6] in "
              "\"c\"");
  }
  EXPECT_EQ(
      of_line(4, {.kernel = 4, .dilation = 2}),
      "conv1d<name, out, options>(x): the window, dilation (kernel - 1) + 1, must fit into w with padding at both "
      "ends; found f32 [2, 4, 6] in \"c\"");
  EXPECT_EQ(of_line(4, {.stride = 0}),
            "conv1d<name, out, options>(x): kernel, stride, dilation and groups must be at least 1, padding at least "
            "0; found f32 [2, 4, 6] in \"c\"");
  const mn::node_value volume(g, g.input("volume", mn::dtype::f32, {1, 4, 6, 6, 6}));
  for (const mn::conv_options& two : {mn::conv_options{.padding = {1, 1}}, mn::conv_options{.kernel = {3, 3}},
                                      mn::conv_options{.padding_high = {2, 2}}, mn::conv_options{.padding_high = -2}}) {
    EXPECT_EQ(sentence([&] { (void)mn::conv3d("c", volume, 4, two); }),
              "conv3d<name, out, options>(x): kernel, stride, dilation and groups must be at least 1, padding at "
              "least 0, each one number or three; found f32 [1, 4, 6, 6, 6] in \"c\"");
  }
  EXPECT_EQ(sentence([&] {
              (void)mn::max_pool3d(volume, mn::pool_options{.window = {2, 2}});
            }),
            "max_pool3d<options>(x): the window must fit into [.., d, h, w] of known extents, and padding fill at most "
            "half of it; found f32 [1, 4, 6, 6, 6]");
  EXPECT_EQ(sentence([&] { (void)mn::conv_transpose1d("c", x, 4, mn::conv_transpose_options{.output_padding = 1}); }),
            "conv_transpose1d<name, out, options>(x): output_padding must be at least 0, and less than the stride or "
            "the dilation; found f32 [2, 4, 6] in \"c\"");
  EXPECT_EQ(sentence([&] { (void)mn::conv_transpose1d("c", x, 4, mn::conv_transpose_options{.padding = 4}); }),
            "conv_transpose1d<name, out, options>(x): padding must leave an extent of at least 1 of the result; found "
            "f32 [2, 4, 6] in \"c\"");
  EXPECT_EQ(sentence([&] { (void)mn::group_norm("n", x, 3); }),
            "group_norm<name, groups>(x): x must be [n, c, ..], c a multiple of groups; found f32 [2, 4, 6] in \"n\"");
  EXPECT_EQ(
      sentence([&] { (void)mn::avg_pool1d(x, mn::pool_options{.dilation = 2}); }),
      "avg_pool1d<options>(x): the window must fit into [.., w] of known extents, without dilation, and padding fill "
      "at most half of it; found f32 [2, 4, 6]");
  EXPECT_EQ(sentence([&] { (void)mn::max_pool1d(x, mn::pool_options{.window = 7}); }),
            "max_pool1d<options>(x): the window must fit into [.., w] of known extents, and padding fill at most half "
            "of it; found f32 [2, 4, 6]");
  EXPECT_EQ(sentence([&] { (void)mn::call<mn::lstm<recurrences::one>>("r", mn::sum(x, 0)); }),
            "call<name, lstm<options>>(x): x must be f32 [n, t, width], t and width numbers; found f32 [4, 6]");
  const mn::node_value lengths(g, g.input("lengths", mn::dtype::i32, {3}));
  EXPECT_EQ(sentence([&] { (void)mn::call<mn::rnn<recurrences::one>>("r", x, mn::sequence_lengths(lengths)); }),
            "call<name, lstm<options>>(x, sequence_lengths(n)): n must be i32, one for each sequence; found f32 [2, 4, "
            "6], i32 [3]");
  EXPECT_EQ(sentence([&] { (void)mn::call<mn::gru<recurrences::one>>("r", x, x); }),
            "call<name, lstm<options>>(x, h, c): h and c must be f32 [layers directions, n, hidden]; found f32 [2, 4, "
            "6], f32 [2, 4, 6], f32 [2, 4, 6]");
  EXPECT_EQ(
      sentence([&] { (void)mn::call<mn::rnn_cell<recurrences::one>>("r", x, x); }),
      "call<name, lstm_cell<options>>(x, h, c): x must be f32 [n, width], h and c f32 [n, hidden], width a number; "
      "found f32 [2, 4, 6], f32 [2, 4, 6], f32 [2, 4, 6]");
  EXPECT_EQ(sentence([&] { (void)mn::weight_norm_conv("c", x, 4, mn::conv_options{.kernel = 7}); }),
            "weight_norm_conv<name, out, options>(x): the window must fit into x's known extents; found f32 [2, 4, 6] "
            "in \"c\"");
  EXPECT_EQ(
      sentence([&] { (void)mn::multi_head_attention("a", x, x, x, mn::attn_mask(x), 2); }),
      "multi_head_attention<name, heads>(query, key, value, attn_mask(m)): m must broadcast to [b?, heads, t, s]; "
      "found f32 [2, 4, 6], f32 [2, 4, 6], f32 [2, 4, 6], f32 [2, 4, 6]");
  const mn::node_value bags(g, g.input("bags", mn::dtype::i32, {2, 3}));
  EXPECT_EQ(
      sentence([&] { (void)mn::multi_head_attention("a", x, mn::key_lengths(bags), 2); }),
      "multi_head_attention<name, heads>(query, key, value, key_lengths(n)): n must be i32, one for each sequence; "
      "found f32 [2, 4, 6], i32 [2, 3]");
  EXPECT_EQ(
      sentence([&] {
        (void)mn::call<mn::transformer_encoder_layer<masks::small>>("l", mn::slice(x, 2, 0, 5), mn::key_lengths(bags));
      }),
      "multi_head_attention<name, heads>(query, key, value, key_lengths(n)): n must be i32, one for each sequence; "
      "found f32 [2, 4, 5], i32 [2, 3]");
  EXPECT_EQ(sentence([&] { (void)mn::embedding_bag(x, bags, x); }),
            "embedding_bag(table, indices, weights): indices must be i32 with an axis for the bag, weights floats of "
            "their shape and of the table's dtype; found f32 [2, 4, 6], i32 [2, 3], f32 [2, 4, 6]");
  EXPECT_EQ(sentence([&] { (void)mn::layer_norm("n", x, mn::norm_options{.axes = 4}); }),
            "layer_norm<name>(x): x needs as many last extents as `axes` says, of numbers, not symbols; found f32 [2, "
            "4, 6] in \"n\"");
}
