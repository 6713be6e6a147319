// SPDX-License-Identifier: MIT
// One language, two carriers: the same lines on types and on nodes of a run-time graph give the same nodes.
#include <support/sentence_of.hpp>
#include <support/smollm2_reference.hpp>

#include <gtest/gtest.h>

#include <meganeura/expr/lower.hpp>
#include <meganeura/models/smollm2.hpp>
#include <meganeura/operations.hpp>

namespace mn = meganeura;

namespace {

inline constexpr mn::dim batch = mn::sym<"batch">, seq = mn::sym<"seq">;

// The models of examples/mnist.cpp.
struct mlp {
  static constexpr auto forward(mn::value auto image) {
    return mn::linear<"fc2", 10>(mn::relu(mn::linear<"fc1", 128>(image)));
  }
};
inline constexpr mn::conv2d_options same{.kernel = 3, .padding = 1};
struct cnn {
  static constexpr auto forward(mn::value auto image) {
    auto x = mn::reshape<mn::dims<batch, 1, 28, 28>>(image);
    auto h = mn::max_pool2d<>(mn::relu(mn::conv2d<"conv1", 8, same>(x)));
    auto y = mn::max_pool2d<>(mn::relu(mn::conv2d<"conv2", 16, same>(h)));
    return mn::linear<"fc", 10>(mn::flatten(y));
  }
};

// Everything else the library has, on x [2, 4, 6] and labels [2, 4].
struct everything {
  static constexpr auto forward(mn::value auto x, mn::value auto labels) {
    auto a = mn::softmax<1>(x) + mn::log_softmax(x) * mn::constant<2.0f>;
    auto b = mn::layer_norm<"norm">(mn::sigmoid(a) - mn::silu(x)) / mn::rms_norm<"rms">(mn::gelu(x));
    auto c = mn::concat<0>(mn::flip<1>(b), mn::pad<1, 1, 0, 3.0f>(mn::slice<1, 0, 3>(x)), mn::swiglu(a, b));
    auto d = mn::permute<1, 0, 2>(c) + mn::expand<mn::dims<4, 6, 1>>(mn::constant<1.0f>);
    auto e = mn::matmul(d, mn::transpose(d));
    auto f = mn::max<1>(e) + mn::min<1>(mn::abs(e)) + mn::mean<-1>(e) * mn::product<2>(mn::tanh(e));
    auto g =
        mn::einsum<"ij,jk->ik">(mn::slice<0, 0, 4>(f), mn::embedding<"embed", 7, 5>(mn::coordinates<mn::dims<6>, 0>));
    auto h = mn::select(mn::logical_and(mn::less(g, mn::constant<0.0f>), mn::logical_not(mn::equal(g, -g))), g,
                        mn::maximum(g, mn::power(mn::exp(g), mn::constant<0.5f>)));
    auto i = mn::gather<0>(h, mn::coordinates<mn::dims<3>, 0>) + mn::parameter<"own", mn::dims<5>>;
    auto j = mn::scatter_add<0, mn::dims<4, 5>>(mn::coordinates<mn::dims<3>, 0>, mn::cast<mn::dtype::f16>(i));
    auto k = mn::avg_pool2d<mn::pool2d_options{.window = 2, .stride = 1, .padding = 1}>(mn::cast<mn::dtype::f32>(j));
    auto heads = mn::rope(mn::split_heads<3>(x));
    auto attended = mn::merge_heads(mn::attend<mn::gqa_options{.causal = true}>(
        heads, mn::slice<2, 0, 1>(heads), mn::stop_gradient(mn::slice<2, 1, 1>(heads))));
    return mn::cross_entropy_loss<mn::cross_entropy_options{.ignore_index = 2}>(attended, labels) + mn::sum(k) -
           mn::mean_squared_error_loss(attended, x) - -mn::sum(mn::random<"noise", mn::dims<3>>);
  }
};

// Lowers a model, then runs its module on values of the same graph: nothing is to be added.
template <class Model, class Module, std::size_t... I>
void expect_same(mn::graph& g, std::initializer_list<mn::symbol_extent> symbols, std::index_sequence<I...>) {
  const mn::node_id typed = mn::lower_into<Model>(g, {symbols.begin(), symbols.size()})[0];
  const std::string before = mn::to_text(g);
  const mn::node_id built = Module::forward(mn::node_value(g, g.find_leaf(Model::input_names[I]->text))...);
  EXPECT_EQ(built, typed);
  EXPECT_EQ(mn::to_text(g), before);
  EXPECT_GT(g.size(), 5u);
}
template <class Module, class... Inputs>
mn::graph expect_same(std::initializer_list<mn::symbol_extent> symbols) {
  mn::graph g;
  expect_same<mn::model<Module, Inputs...>, Module>(g, symbols, std::index_sequence_for<Inputs...>{});
  return g;
}

}  // namespace

TEST(expr_value, the_models_of_the_examples_are_the_same_graphs_both_ways) {
  expect_same<mlp, mn::input<"image", mn::dtype::f32, mn::dims<batch, 784>>>({{"batch", 32}});
  expect_same<cnn, mn::input<"image", mn::dtype::f32, mn::dims<batch, 784>>>({{"batch", 8}});
  using tokens = mn::input<"tokens", mn::dtype::i32, mn::dims<batch, seq>>;
  expect_same<mn::models::smollm2::language_model<mn::support::tiny_smollm2>, tokens>({{"batch", 2}, {"seq", 16}});
  const mn::graph whole = expect_same<mn::models::smollm2::language_model<mn::models::smollm2::smollm2_135m>, tokens>(
      {{"batch", 1}, {"seq", 128}});
  EXPECT_EQ(whole.leaves(mn::op::parameter).size(), 272u);
}

// Those of torch.nn: Linear and Conv2d uniform in +-1 / sqrt(fan_in), weight and bias; norms ones and zeros; Embedding
// normal. What is written in the type is in the graph.
inline constexpr mn::conv2d_options last{.weight = mn::init::kaiming_normal(),
                                         .bias_begin = mn::init::kaiming_uniform()};
struct beginnings {
  static constexpr auto forward(mn::value auto x, mn::value auto image, mn::value auto tokens) {
    auto a = mn::layer_norm<"norm">(mn::linear<"fc", 8>(x)) + mn::embedding<"embed", 5, 8>(tokens);
    auto b = mn::rms_norm<"rms">(mn::linear<"he", 8, mn::linear_options{.weight = mn::init::kaiming_normal()}>(x));
    auto d = mn::linear<"zero", 8, mn::linear_options{.bias_begin = mn::init::zeros}>(x);
    auto c =
        a * b * d * mn::parameter<"scale", mn::dims<8>, mn::init::constant(0.25)> + mn::parameter<"plain", mn::dims<8>>;
    return mn::sum(c) + mn::sum(mn::conv2d<"conv", 4, mn::conv2d_options{.kernel = 3, .groups = 2}>(image)) +
           mn::sum(mn::conv2d<"last", 4, last>(image));
  }
};

TEST(expr_value, layers_begin_as_pytorchs) {
  const mn::graph g = expect_same<beginnings, mn::input<"x", mn::dtype::f32, mn::dims<2, 16>>,
                                  mn::input<"image", mn::dtype::f32, mn::dims<1, 4, 6, 6>>,
                                  mn::input<"tokens", mn::dtype::i32, mn::dims<2>>>({});
  const auto begin = [&](const char* name) { return g.get<mn::leaf_attribute>(g.find_leaf(name)).begin; };
  for (const char* name : {"fc.weight", "conv.weight"}) EXPECT_EQ(begin(name), mn::init::fan_in_uniform) << name;
  EXPECT_EQ(begin("fc.bias"), mn::init::uniform(-0.25, 0.25));
  EXPECT_EQ(begin("conv.bias")->square, 1.0 / 18);
  for (const char* name : {"norm.weight", "rms.weight"}) EXPECT_EQ(begin(name), mn::init::ones) << name;
  EXPECT_EQ(begin("norm.bias"), mn::init::zeros);
  EXPECT_EQ(begin("embed.weight"), mn::init::normal(0, 1));
  EXPECT_EQ(begin("he.weight"), mn::init::kaiming_normal());
  EXPECT_EQ(begin("zero.weight"), mn::init::fan_in_uniform);
  EXPECT_EQ(begin("zero.bias"), mn::init::zeros);
  EXPECT_EQ(begin("last.weight"), mn::init::kaiming_normal());
  EXPECT_EQ(begin("last.bias")->square, 6.0 / 36);  // of the weight's fan_in
  EXPECT_EQ(begin("last.bias")->fan, mn::initial_fan::one);
  EXPECT_EQ(begin("scale"), mn::init::constant(0.25));
  EXPECT_EQ(begin("plain"), std::nullopt);
}

TEST(expr_value, every_function_gives_the_same_nodes_both_ways) {
  expect_same<everything, mn::input<"x", mn::dtype::f32, mn::dims<2, 4, 6>>,
              mn::input<"labels", mn::dtype::i32, mn::dims<2, 4>>>({});
}

TEST(expr_value, sizes_names_and_axes_may_be_plain_arguments) {
  mn::graph g;
  using model = mn::model<cnn, mn::input<"image", mn::dtype::f32, mn::dims<batch, 784>>>;
  const mn::symbol_extent symbols[] = {{"batch", 8}};
  const mn::node_id typed = mn::lower_into<model>(g, symbols)[0];
  const std::string before = mn::to_text(g);
  mn::node_value x(g, g.find_leaf("image"));
  x = mn::reshape(x, mn::shape{8, 1, 28, 28});
  const int widths[] = {8, 16};
  for (int i = 0; i < 2; ++i) {
    x = mn::max_pool2d(mn::relu(mn::conv2d("conv" + std::to_string(i + 1), x, widths[i], same)), mn::pool2d_options{});
  }
  x = mn::linear("fc", mn::flatten(x, 1, -1), 10);
  EXPECT_EQ(x.id(), typed);
  EXPECT_EQ(mn::to_text(g), before);
  EXPECT_EQ(mn::softmax(x, 1).id(), mn::softmax<-1>(x).id());
  EXPECT_EQ(mn::sum(x, 0, 1).id(), mn::sum(x).id());
  EXPECT_EQ(mn::permute(x, 1, 0).id(), mn::transpose(x).id());
  EXPECT_EQ((x * 2.0f).id(), (x * mn::constant<2.0f>).id());
  EXPECT_EQ((mn::maximum(0, x)).id(), mn::maximum(mn::constant<0>, x).id());
  EXPECT_EQ((-(-x)).id(), x.id());
}

TEST(expr_value, operators_are_the_graphs_functions_with_broadcasting) {
  mn::graph g;
  const mn::node_value x(g, g.input("x", mn::dtype::f32, {3, 4})), y(g, g.input("y", mn::dtype::f32, {4}));
  EXPECT_EQ((x + x).id(), g.add(x, x));
  EXPECT_EQ((x / y).id(), g.divide(x, g.expand(y, {3, 4})));
  EXPECT_EQ(mn::exp(x).id(), g.map(mn::scalar_op::exp, {x}));
  EXPECT_EQ(mn::max(x, -1).id(), g.reduce(mn::reduce_kind::max, x, 2));
  EXPECT_EQ(mn::slice(x, 1, 1, 2).id(), g.slice(x, 1, 1, 2));
  EXPECT_EQ(mn::einsum("ij,kj->ik", x, x).id(), g.contract(x, x, "ij", "kj", "ik"));
}

TEST(expr_value, modules_are_named_by_the_scopes_around_them) {
  mn::graph g;
  mn::node_value x(g, g.input("x", mn::dtype::f32, {3, 784}));
  for (int i = 0; i < 2; ++i) x = mn::pad(mn::call<mlp>("layers." + std::to_string(i), x), 1, 0, 774);
  EXPECT_NE(g.find_leaf("layers.1.fc2.bias"), mn::no_id);
  EXPECT_EQ(g.leaves(mn::op::parameter).size(), 8u);
  EXPECT_EQ(g.path_of(g.find_leaf("layers.0.fc1.weight")), "layers.0.fc1");
}

TEST(expr_value, a_chain_of_conditions_may_be_of_any_length) {
  mn::graph g;
  const mn::node_value x(g, g.input("x", mn::dtype::f32, {4}));
  const auto chained = [&](int length) {
    auto found = mn::less(x, 1.0f);
    for (int i = 0; i < length; ++i) found = mn::logical_or(found, mn::less(x, static_cast<float>(i + 2)));
    return mn::select(found, x, 0.0f);
  };
  EXPECT_EQ(g.get<mn::map_attribute>(chained(10'000)).program.nodes.size(), 30'000u + 5);
  EXPECT_THROW((void)chained(200'000), mn::error);  // more than a map holds
  auto doubled = mn::less(x, 1.0f);
  for (int i = 0; i < 200'000; ++i) doubled = mn::logical_or(doubled, doubled);
}

TEST(expr_value, a_mistake_is_the_sentence_of_the_static_assert_with_what_was_found) {
  mn::graph g, other;
  const mn::node_value x(g, g.input("x", mn::dtype::f32, {3, 4})), y(g, g.input("y", mn::dtype::i32, {3, 5}));
  const mn::node_value z(other, other.input("z", mn::dtype::f32, {3, 4}));
  EXPECT_EQ(mn::support::refusal([&] { (void)(x + y); }),
            "a + b: extents must be equal or 1; found f32 [3, 4], i32 [3, 5]");
  EXPECT_EQ(mn::support::refusal([&] { (void)(x + mn::cast<mn::dtype::i32>(x)); }),
            "a + b: dtypes must agree; cast one operand; found f32 [3, 4], i32 [3, 4]");
  EXPECT_EQ(mn::support::refusal([&] { (void)(y * 0.5); }),
            "a * b: the dtype does not hold that number (an integer whole ones within its range, f16 none beyond "
            "65504); cast it to f32; found i32 [3, 5], f32 []");
  const mn::node_value half(g, g.input("half", mn::dtype::f16, {3}));
  EXPECT_EQ(mn::support::refusal([&] { (void)(half - 65520.0f); }),
            "a - b: the dtype does not hold that number (an integer whole ones within its range, f16 none beyond "
            "65504); cast it to f32; found f16 [3], f32 []");
  EXPECT_EQ(mn::support::refusal([&] { (void)((half - 65519.0f) * -__builtin_inff()); }), "no error");
  EXPECT_EQ(mn::support::refusal([&] { (void)mn::softmax(x, 2); }),
            "softmax<axis>(x): x has no such axis; found f32 [3, 4]");
  EXPECT_EQ(
      mn::support::refusal([&] { (void)mn::matmul(x, x); }),
      "matmul(a, b): the last extent of a must equal the last but one of b, and batch extents be equal or 1; found f32 "
      "[3, 4], f32 [3, 4]");
  EXPECT_EQ(mn::support::refusal([&] { (void)mn::reshape<mn::dims<batch, 5>>(x); }),
            "reshape<dims>(x): the number of elements must stay, whatever the symbols are worth; found f32 [3, 4]");
  const mn::symbolic_shape wraps = mn::detail::extents_of((std::int64_t{1} << 62) + 3, 4);  // 12 modulo 2^64
  EXPECT_EQ(mn::support::refusal([&] { (void)mn::reshape(x, wraps); }),
            "reshape<dims>(x): the number of elements must stay, whatever the symbols are worth; found f32 [3, 4]");
  EXPECT_EQ(mn::support::refusal([&] { (void)mn::linear("fc", y, 3); }),
            "linear<name, out>(x): x must be floats; cast it; found i32 [3, 5] in \"fc\"");
  EXPECT_EQ(mn::support::refusal([&] { (void)mn::embedding(std::string("a\"b"), x, 3, 4); }),
            "embedding<name, rows, width>(tokens): tokens must be i32; found f32 [3, 4] in \"a\\\"b\"");
  {
    const mn::graph::scope block(g, "blocks.7");
    EXPECT_EQ(mn::support::refusal([&] { (void)mn::linear("fc", y, 3); }),
              "linear<name, out>(x): x must be floats; cast it; found i32 [3, 5] in \"blocks.7.fc\"");
    EXPECT_EQ(mn::support::refusal([&] { (void)mn::linear("", y, 3); }),
              "linear<name, out>(x): x must be floats; cast it; found i32 [3, 5] in \"blocks.7\"");
  }
  EXPECT_EQ(
      mn::support::refusal([&] { (void)mn::slice(x, 1, 1, std::int64_t{1} << 62, std::int64_t{1} << 62); }),
      "slice<axis, start, count, step>(x): the elements must lie within the axis, whatever its symbols are worth; "
      "found f32 [3, 4]");
  EXPECT_EQ(mn::support::refusal([&] { (void)(x + z); }),
            "two values of different graphs meet; build both in one graph");
  EXPECT_EQ(mn::support::refusal([&] { (void)mn::less(x, 1).id(); }),
            "a condition is used by something other than select; select values first, then reshape or reduce");
  EXPECT_EQ(mn::support::refusal([&] { (void)(mn::less(x, 1) + mn::less(x, 2)); }),
            "a + b: a condition is no number; select(condition, a, b); found bool [3, 4], bool [3, 4]");
  EXPECT_EQ(
      mn::support::refusal([&] { (void)mn::sum(mn::less(x, 1)); }),
      "a condition is no number: select, logical_and, logical_or and logical_not take it; select(condition, a, b); "
      "found bool [3, 4]");
  EXPECT_EQ(
      mn::support::refusal([&] { (void)mn::logical_and(x, x); }),
      "logical_and(a, b): a and b must be conditions; compare with less, less_equal or equal; found f32 [3, 4], f32 "
      "[3, 4]");
  EXPECT_EQ(mn::support::refusal([&] { mn::node_value(other, mn::node_id(99)); }),
            "node_value: operand %99 does not exist; the graph has 1 nodes");
}

TEST(expr_value, a_value_of_no_graph_is_a_sentence_wherever_it_is_used) {
  const mn::node_value none;
  mn::graph g;
  const mn::node_value x(g, g.input("x", mn::dtype::f32, {3, 4}));
  const std::string sentence = "this node_value is of no graph; make it from a node: node_value(g, g.input(\"x\", ..))";
  EXPECT_EQ(mn::support::refusal([&] { (void)mn::relu(none); }), sentence);
  EXPECT_EQ(mn::support::refusal([&] { (void)(none + 1.0f); }), sentence);
  EXPECT_EQ(mn::support::refusal([&] { (void)(x + none); }), sentence);
  EXPECT_EQ(mn::support::refusal([&] { (void)(none * mn::constant<2.0f>); }), sentence);
  EXPECT_EQ(mn::support::refusal([&] { (void)mn::linear("fc", none, 2); }), sentence);
  EXPECT_EQ(mn::support::refusal([&] {
              (void)mn::when_training(
                  none, [&] { return none; }, [&] { return none; });
            }),
            sentence);
  EXPECT_EQ(mn::support::refusal([&] { (void)none.id(); }), sentence);
  EXPECT_EQ(mn::support::refusal([&] { (void)none.owner(); }), sentence);
  const mn::graph elsewhere = std::move(g);
  EXPECT_EQ(mn::support::refusal([&] { (void)mn::relu(x); }),
            "the graph of this node_value was moved from, and its nodes with it; write all of a model first");
}
