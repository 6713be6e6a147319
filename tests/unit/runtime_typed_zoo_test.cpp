// SPDX-License-Identifier: MIT
// A zoo of small typed models: session<> and trainer<> of each, fused and unfused, against the oracle on the graph it
// lowers to.
#include <meganeura/operations.hpp>
#include <meganeura/runtime/session.hpp>
#include <meganeura/runtime/trainer.hpp>

#include <oracle/tolerance.hpp>
#include <support/shared_device.hpp>
#include <support/zoo.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace {

using namespace meganeura;

// ---- the check

template <class Element>
std::vector<Element> values_of(const oracle::tensors<double>& leaves, const std::string& name) {
  return {leaves.at(name).values.begin(), leaves.at(name).values.end()};
}

void give(parameters weights, const oracle::tensors<double>& leaves) {
  for (const auto& tensor : weights.layout().tensors) weights.set(tensor.name, values_of<float>(leaves, tensor.name));
}

// What a session returned and what the first step of a trainer left agree with the oracle.
void expect_inferred(const graph& g, const support::stable_run& truth, const std::vector<float>& output) {
  support::verdict v;
  oracle::tensors<double> found;
  found["output"] = oracle::tensor<double>(g[g.outputs()[0].node].extents, {output.begin(), output.end()});
  truth.expect_output("output", found, v, oracle::tolerance(dtype::f32));
  EXPECT_FALSE(v.failed()) << v.text;
  EXPECT_EQ(v.unstable, 0u);
}
void expect_trained(const graph& g, const support::stable_run& truth, float loss, const parameters& weights) {
  support::verdict v;
  oracle::tensors<double> found, after;
  found["loss"] = oracle::tensor<double>({}, {static_cast<double>(loss)});
  truth.expect_output("loss", found, v, oracle::tolerance(dtype::f32));
  for (node_id id : g.leaves(op::parameter)) {
    const std::string& name = g.get<leaf_attribute>(id).name;
    const auto values = weights.get(name);
    after[name] = oracle::tensor<double>(g[id].extents, {values.begin(), values.end()});
    truth.expect_leaf(name, after, v, oracle::tolerance(dtype::f32));
  }
  EXPECT_FALSE(v.failed()) << v.text;
  EXPECT_LE(v.unstable, v.compared / 4);
}

// The model's first input is "x"; its second, or its loss's, is "y". Symbol n is 2.
template <class Model, class Loss>
void agrees_and_learns(const Loss&, float rate = 0.02f) {
  using x_element = std::conditional_t<Model::input_types[0].type == dtype::i32, std::int32_t, float>;
  using y_element = std::conditional_t<std::is_same_v<Loss, cross_entropy<"y">>, std::int32_t, float>;
  const symbol_extent symbols[] = {{"n", 2}};
  const optimizer chosen = sgd{.learning_rate = rate};
  const graph inference = lower<Model>(symbols), training = make_training_graph<Model, Loss>(chosen, symbols);
  const oracle::tensors<double> leaves = support::zoo_leaves(training);
  const auto x = values_of<x_element>(leaves, "x");
  const auto y = values_of<y_element>(leaves, "y");
  const support::stable_run inferred(inference, leaves, false, kernels::step_values_of(1, 0));
  const support::stable_run trained(training, leaves, false, chosen.step_values(1, 0));
  program_options unfused;
  unfused.optimize.disabled = {"fusion", "products", "epilogues", "algebra"};
  for (const program_options& options : {program_options{}, unfused}) {
    SCOPED_TRACE(options.optimize.disabled.empty() ? "fused" : "unfused");
    session<Model> look(support::shared_device(), {{"n", 2}}, {.program = options});
    give(look.parameters(), leaves);
    if constexpr (Model::input_count == 2) {
      expect_inferred(inference, inferred, look.run(bind<"x">(x), bind<"y">(y)));
    } else {
      expect_inferred(inference, inferred, look.run(bind<"x">(x)));
    }
    trainer<Model, Loss> run(support::shared_device(), chosen, {{"n", 2}}, {.program = options});
    give(run.parameters(), leaves);
    const float first = run.step(bind<"x">(x), bind<"y">(y)).loss();
    expect_trained(training, trained, first, run.parameters());
    float last = first;
    for (int step = 0; step < 4; ++step) last = run.step(bind<"x">(x), bind<"y">(y)).loss();
    EXPECT_LT(last, first);
  }
}

struct result {
  static constexpr auto forward(value auto output) { return output; }
};
using own_loss = loss<result>;  // the model's output is its loss
constexpr cross_entropy<"y"> classes;
constexpr mean_squared_error<"y"> squares;

// ---- the models

inline constexpr dim n = sym<"n">;
template <dim... Extents>
using reals = input<"x", dtype::f32, dims<Extents...>>;
template <dim... Extents>
using targets = input<"y", dtype::f32, dims<Extents...>>;

struct perceptron {
  static constexpr auto forward(value auto x) { return linear<"b", 4>(relu(linear<"a", 9>(x))); }
};
TEST(runtime_typed_zoo, perceptron) { agrees_and_learns<model<perceptron, reals<n, 7>>>(classes); }

struct convolutional {
  static constexpr auto forward(value auto x) {
    auto h = relu(conv2d<"conv", 3, conv2d_options{.kernel = 3, .stride = 2, .padding = 1}>(x));
    return linear<"fc", 4>(flatten(h));
  }
};
TEST(runtime_typed_zoo, convolution_flatten_linear) {
  agrees_and_learns<model<convolutional, reals<n, 2, 5, 5>>>(classes);
}

struct pooled {
  static constexpr auto forward(value auto x) {
    auto h = max_pool2d<>(tanh(conv2d<"c1", 3>(x)));
    return linear<"fc", 4>(flatten(avg_pool2d<pool2d_options{.window = 3, .stride = 1, .padding = 1}>(h)));
  }
};
TEST(runtime_typed_zoo, pools) { agrees_and_learns<model<pooled, reals<n, 1, 8, 8>>>(classes); }

struct separable {
  static constexpr auto forward(value auto x) {
    auto deep = conv2d<"depth", 4, conv2d_options{.kernel = 3, .padding = 2, .dilation = 2, .groups = 4}>(x);
    return conv2d<"point", 3, conv2d_options{.kernel = 1, .bias = false}>(gelu(deep));
  }
};
TEST(runtime_typed_zoo, depthwise_and_dilated) { agrees_and_learns<model<separable, reals<n, 4, 5, 5>>>(squares); }

struct squeeze_excite {
  static constexpr auto forward(value auto x) {
    auto h = conv2d<"conv", 4, conv2d_options{.padding = 1}>(x);
    auto gates = sigmoid(linear<"excite", 4>(relu(linear<"squeeze", 2>(mean<-2, -1>(h)))));
    return h * unsqueeze<-1>(unsqueeze<-1>(gates));
  }
};
TEST(runtime_typed_zoo, squeeze_and_excite) { agrees_and_learns<model<squeeze_excite, reals<n, 2, 4, 4>>>(squares); }

template <int Heads, int Width>
struct attention {
  static constexpr auto forward(value auto x) {
    auto q = split_heads<Heads>(linear<"q", Width>(x));
    auto k = split_heads<Heads>(linear<"k", Width>(x));
    return linear<"o", Width>(merge_heads(attend(q, k, split_heads<Heads>(linear<"v", Width>(x)))));
  }
};
struct vision_transformer {
  static constexpr auto forward(value auto x) {
    auto tokens = transpose(flatten<2>(conv2d<"patch", 8, conv2d_options{.kernel = 2, .stride = 2}>(x)));
    auto h = tokens + call<"attention", attention<2, 8>>(layer_norm<"n1">(tokens));
    auto y = h + linear<"down", 8>(gelu(linear<"up", 9>(layer_norm<"n2">(h))));
    return linear<"head", 4>(mean<1>(y));
  }
};
TEST(runtime_typed_zoo, vision_transformer) {
  agrees_and_learns<model<vision_transformer, reals<n, 1, 4, 6>>>(classes);
}

struct language_model {  // rotary positions, grouped queries, a gated unit, a tied head
  static constexpr auto forward(value auto tokens) {
    auto x = embedding<"embed", 7, 8>(tokens);
    auto normal = rms_norm<"n1">(x);
    auto q = rope(split_heads<2>(linear<"q", 8, no_bias>(normal)));
    auto k = rope(split_heads<1>(linear<"k", 4, no_bias>(normal)));
    auto mixed = attend<gqa_options{.causal = true}>(q, k, split_heads<1>(linear<"v", 4, no_bias>(normal)));
    auto h = x + linear<"o", 8>(merge_heads(mixed));
    auto y = h + linear<"down", 8>(swiglu(linear<"gate", 6>(h), linear<"up", 6>(h)));
    return tied_linear(y, shared(parameter<"embed.weight", dims<7, 8>>));
  }
};
TEST(runtime_typed_zoo, language_model) {
  agrees_and_learns<model<language_model, input<"x", dtype::i32, dims<n, 5>>>>(classes, 0.1f);
}

struct bag {
  static constexpr auto forward(value auto tokens) {
    return linear<"fc", 4>(mean<1>(embedding<"embed", 6, 5>(tokens)));
  }
};
TEST(runtime_typed_zoo, embedding_classifier) {
  agrees_and_learns<model<bag, input<"x", dtype::i32, dims<n, 3>>>>(classes);
}

struct tied_autoencoder {
  static constexpr auto forward(value auto x) {
    constexpr auto w = parameter<"w", dims<3, 6>>;
    return einsum<"bh,hi->bi">(tanh(einsum<"bi,hi->bh">(x, w)), w);
  }
};
TEST(runtime_typed_zoo, tied_weights) { agrees_and_learns<model<tied_autoencoder, reals<n, 6>>>(squares); }

struct weight_norm {  // v / |v| g
  static constexpr auto forward(value auto x) {
    constexpr auto v = parameter<"v", dims<3, 5>>;
    return tanh(tied_linear(x, v * unsqueeze<-1>(parameter<"g", dims<3>> * rsqrt(sum<-1>(v * v)))));
  }
};
TEST(runtime_typed_zoo, normalised_weights) { agrees_and_learns<model<weight_norm, reals<n, 5>>>(squares); }

struct block {
  static constexpr auto forward(value auto x) { return x + silu(linear<"fc", 6>(x)); }
};
struct residual {
  static constexpr auto forward(value auto x) { return repeat<"block", 3, block>(linear<"in", 6>(x)); }
};
TEST(runtime_typed_zoo, residual_repeats) { agrees_and_learns<model<residual, reals<n, 5>>>(squares); }

struct strides_and_flips {  // space to depth by strided slices, a flipped copy, a border
  static constexpr auto forward(value auto x) {
    auto even = slice<2, 0, 3, 2>(x);
    auto odd = slice<2, 1, 3, 2>(x);
    auto y = linear<"fc", 3>(pad<2, 0, 2>(pad<1, 1, 0, 0.5>(concat<1>(even, odd, flip<2>(even)))));
    return slice<1, 1, 5, 2>(flip<1>(y));
  }
};
TEST(runtime_typed_zoo, strides_pads_and_flips) {
  agrees_and_learns<model<strides_and_flips, reals<n, 4, 6>>>(squares);
}

struct mixer {
  static constexpr auto forward(value auto x) {
    auto h = x + transpose(linear<"t2", 4>(gelu(linear<"t1", 5>(transpose(layer_norm<"n1">(x))))));
    return h + linear<"c2", 6>(gelu(linear<"c1", 7>(layer_norm<"n2">(h))));
  }
};
TEST(runtime_typed_zoo, mixer) { agrees_and_learns<model<mixer, reals<n, 4, 6>>>(squares); }

struct huber {  // min(|d|, 1) (|d| - min(|d|, 1) / 2)
  static constexpr auto forward(value auto x, value auto y) {
    auto size = abs(linear<"fc", 3>(x) - y * constant<4.0f>);
    auto inside = minimum(size, constant<1.0f>);
    return mean(inside * (size - inside * constant<0.5f>));
  }
};
TEST(runtime_typed_zoo, huber_loss) { agrees_and_learns<model<huber, reals<n, 4>, targets<n, 3>>>(own_loss{}, 0.1f); }

struct hinge {
  static constexpr auto forward(value auto x, value auto y) {
    return mean(relu(constant<1.0f> - linear<"b", 2>(tanh(linear<"a", 5>(x))) * sign(y)));
  }
};
TEST(runtime_typed_zoo, hinge_loss) { agrees_and_learns<model<hinge, reals<n, 4>, targets<n, 2>>>(own_loss{}); }

struct products {
  static constexpr auto forward(value auto x) {
    return product<-1>(reshape<dims<n, 2, 3>>(linear<"fc", 6>(x) + constant<1.0f>));
  }
};
TEST(runtime_typed_zoo, products_of_sums) { agrees_and_learns<model<products, reals<n, 4>>>(squares); }

struct noisy {
  static constexpr auto forward(value auto x) {
    constexpr auto draw = meganeura::random<"drop", dims<n, 8>>;
    auto h = relu(linear<"a", 8>(x));
    return linear<"b", 2>(select(less(draw, constant<0.75f>), h * constant<1 / 0.75>, constant<0.0f>));
  }
};
TEST(runtime_typed_zoo, dropout) { agrees_and_learns<model<noisy, reals<n, 6>>>(squares, 0.001f); }

struct quantised {  // round(h 16) / 16 forward, identity backward
  static constexpr auto forward(value auto x) {
    auto h = tanh(linear<"a", 6>(x));
    auto whole = cast<dtype::f32>(cast<dtype::i32>(round(h * constant<16.0f>)));
    return linear<"b", 2>(h + stop_gradient(whole * constant<0.0625f> - h));
  }
};
TEST(runtime_typed_zoo, fake_quantisation) { agrees_and_learns<model<quantised, reals<n, 5>>>(squares); }

struct group_norm {
  static constexpr auto forward(value auto x) {
    auto parts = reshape<dims<n, 2, 32>>(conv2d<"conv", 4, conv2d_options{.padding = 1, .groups = 2}>(x));
    auto centred = parts - unsqueeze<-1>(mean<-1>(parts));
    auto normal = centred * unsqueeze<-1>(rsqrt(mean<-1>(centred * centred) + constant<1e-3>));
    return silu(reshape<dims<n, 4, 4, 4>>(normal));
  }
};
TEST(runtime_typed_zoo, group_norm) { agrees_and_learns<model<group_norm, reals<n, 2, 4, 4>>>(squares); }

}  // namespace
