// SPDX-License-Identifier: MIT
// A zoo of small nets: the programs that infer from each and train it, fused and unfused, against the oracle.
#include <support/zoo.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace {

using namespace meganeura;
using support::net;

struct result {
  node_id output, loss;
};
struct specimen {
  const char* name;
  result (*build)(net&);
  float rate = 0.02f;
};
result regression(net& g, node_id y) { return {y, g.squared_error(y)}; }
result classifier(net& g, node_id logits) { return {logits, g.cross_entropy(logits)}; }

// ---- parts too long for one line of the table

node_id lstm(net& g, node_id x, std::int64_t width) {  // x [b, t, d]
  const shape e = g.size(x);
  node_id h = g.full({e[0], width}, 0), c = h;
  for (std::int64_t t = 0; t < e[1]; ++t) {
    const node_id now = g.reshape(g.slice(x, 1, t, 1), {e[0], e[2]});
    const node_id gates = g.add(g.linear(now, "x", 4 * width), g.linear(h, "h", 4 * width));
    const auto gate = [&](std::int64_t i) { return g.slice(gates, 1, i * width, width); };
    c = g.add(g.multiply(g.sigmoid(gate(0)), c), g.multiply(g.sigmoid(gate(1)), g.tanh(gate(2))));
    h = g.multiply(g.sigmoid(gate(3)), g.tanh(c));
  }
  return h;
}

node_id gru(net& g, node_id x, std::int64_t width) {
  const shape e = g.size(x);
  node_id h = g.full({e[0], width}, 0);
  for (std::int64_t t = 0; t < e[1]; ++t) {
    const node_id now = g.reshape(g.slice(x, 1, t, 1), {e[0], e[2]});
    const node_id r = g.sigmoid(g.add(g.linear(now, "xr", width), g.linear(h, "hr", width)));
    const node_id z = g.sigmoid(g.add(g.linear(now, "xz", width), g.linear(h, "hz", width)));
    const node_id n = g.tanh(g.add(g.linear(now, "xn", width), g.multiply(r, g.linear(h, "hn", width))));
    h = g.add(n, g.multiply(z, g.subtract(h, n)));
  }
  return h;
}

result unet(net& g) {
  const node_id x = g.data({1, 2, 6, 6}), wide = g.relu(g.conv(x, "down", 3, 3, 1, 1));
  const node_id deep = g.relu(g.conv(g.pool(wide, reduce_kind::max, 2, 2), "deep", 4, 3, 1, 1));
  const node_id parts[] = {wide, g.conv_transposed(deep, "up", 3, 2, 2)};
  return regression(g, g.conv(g.concat(parts, 1), "head", 2, 1));
}

result gpt(net& g) {
  const node_id at = g.tokens({2, 5}), x = g.embedding("embed", at, 7, 8);
  const node_id place = g.expand(g.weight("position.weight", {5, 8}), {2, 5, 8});
  node_id h = g.add(x, place);
  h = g.add(h, samples::attention(g, samples::layer_norm(g, h, "n1"), "attention", 2));
  h = g.add(h, g.linear(g.gelu(g.linear(samples::layer_norm(g, h, "n2"), "up", 12)), "down", 8));
  const node_id logits = g.contract(h, g.weight("embed.weight", {7, 8}), "btd", "vd", "btv");  // tied
  return classifier(g, g.reshape(logits, {10, 7}));
}

result vae(net& g) {
  const node_id x = g.data({4, 6}), h = g.tanh(g.linear(x, "encode", 8));
  const node_id mean = g.linear(h, "mean", 3), log_variance = g.linear(h, "variance", 3);
  const node_id noise = g.random("epsilon", distribution::normal, {4, 3});
  const node_id z = g.add(mean, g.multiply(noise, samples::exp(g, g.scaled(log_variance, 0.5))));
  const node_id y = g.linear(g.tanh(g.linear(z, "decode", 8)), "out", 6);
  const node_id divergence =
      g.subtract(g.add(g.square(mean), samples::exp(g, log_variance)), g.shifted(log_variance, 1));
  return {y, g.add(g.mean_all(g.square(g.subtract(y, x))), g.scaled(g.mean_all(divergence), 0.5))};
}

node_id weight_norm(net& g, node_id x, std::int64_t out) {  // v / |v| g
  const std::int64_t in = g.size(x)[1];
  const node_id v = g.weight("v", {out, in}),
                length = g.apply(scalar_op::sqrt, g.reduce(reduce_kind::sum, g.square(v), 2));
  const node_id w = g.multiply(v, g.back(g.divide(g.weight("g.weight", {out}), length), v, 2));
  return g.contract(x, w, "bi", "oi", "bo");
}

// [rows, from] with max(0, 1 - |i (from - 1) / (rows - 1) - j|): linear interpolation as a matrix.
node_id interpolation(net& g, std::int64_t rows, std::int64_t from) {
  const shape e{rows, from};
  const double step = static_cast<double>(from - 1) / static_cast<double>(rows - 1);
  const node_id i = g.scaled(g.cast(g.coordinates(e, 0), dtype::f32), step),
                j = g.cast(g.coordinates(e, 1), dtype::f32);
  return g.relu(g.shifted(g.apply(scalar_op::negate, g.apply(scalar_op::abs, g.subtract(i, j))), 1));
}

result bilinear(net& g) {
  const node_id x = g.conv(g.data({1, 2, 3, 4}), "conv", 2, 3, 1, 1);
  const node_id tall = g.contract(x, interpolation(g, 5, 3), "ncij", "oi", "ncoj");
  return regression(g, g.contract(tall, interpolation(g, 7, 4), "ncoj", "pj", "ncop"));
}

result batch_norm(net& g) {
  const node_id x = g.conv(g.data({3, 2, 4, 4}), "conv", 3, 3, 1, 1);
  const std::uint32_t axes = 0b1101;
  const node_id running = g.state("running_mean", dtype::f32, {3});
  g.assign(running, g.add(g.scaled(running, 0.9), g.scaled(g.stop_gradient(g.mean_over(x, axes)), 0.1)));
  const node_id y = g.multiply(g.normalised(x, axes), g.back(g.weight("scale.weight", {3}), x, axes));
  return regression(g, g.flat(g.relu(g.channel_bias(y, "norm"))));
}

result squeeze_excite(net& g) {
  const node_id x = g.conv(g.data({2, 2, 4, 4}), "conv", 4, 3, 1, 1);
  const node_id gates = g.sigmoid(g.linear(g.relu(g.linear(g.mean_over(x, 0b1100), "squeeze", 2)), "excite", 4));
  return regression(g, g.multiply(x, g.back(gates, x, 0b1100)));
}

result huber(net& g) {
  const node_id y = g.linear(g.data({5, 4}), "fc", 3), d = g.subtract(y, g.scaled(g.data({5, 3}, "target"), 4));
  const node_id size = g.apply(scalar_op::abs, d), one = g.full_like(d, 1);
  const node_id inside = g.map(scalar_op::minimum, {size, one});  // min(|d|, 1) (|d| - min(|d|, 1) / 2)
  return {y, g.mean_all(g.multiply(inside, g.subtract(size, g.scaled(inside, 0.5))))};
}

result binary_cross_entropy(net& g) {
  const node_id z = g.linear(g.tanh(g.linear(g.data({6, 4}), "a", 5)), "b", 1);
  const node_id t = g.sigmoid(g.data({6, 1}, "target"));
  return {g.sigmoid(z), g.mean_all(g.subtract(g.softplus(z), g.multiply(z, t)))};
}

// log sum over components of exp(log weight - (x - mean)^2 / 2).
result mixture_density(net& g) {
  const shape e{5, 3};
  const node_id x = g.expand_axes(g.data({5}), e, 2), mean = g.expand(g.weight("mean", {3}), e);
  const node_id parts = g.subtract(g.expand(g.weight("share", {3}), e), g.scaled(g.square(g.subtract(x, mean)), 0.5));
  const node_id top = g.reduce(reduce_kind::max, parts, 2);
  const node_id sum = g.reduce(reduce_kind::sum, samples::exp(g, g.subtract(parts, g.back(top, parts, 2))), 2);
  const node_id likelihood = g.add(top, g.apply(scalar_op::log, sum));
  return {likelihood, g.mean_all(g.square(g.shifted(likelihood, 1)))};
}

result siamese(net& g) {
  const auto branch = [&](const char* name) {
    return g.linear(g.tanh(g.linear(g.data({4, 5}, name), "a", 6)), "b", 3);
  };
  const node_id one = branch("one");
  const node_id near = g.reduce(reduce_kind::sum, g.square(g.subtract(one, branch("two"))), 2);
  const node_id far = g.reduce(reduce_kind::sum, g.square(g.subtract(one, branch("three"))), 2);
  return {near, g.mean_all(g.softplus(g.subtract(near, far)))};
}

result experts(net& g) {
  const node_id x = g.data({4, 5}), gates = g.softmax(g.linear(x, "gate", 3));
  const node_id hidden = g.gelu(g.contract(x, g.weight("up", {3, 6, 5}), "bi", "ehi", "beh"));
  const node_id each = g.contract(hidden, g.weight("down", {3, 2, 6}), "beh", "eoh", "beo");
  return regression(g, g.contract(gates, each, "be", "beo", "bo"));
}

node_id dropout(net& g, node_id x, const char* stream) {
  const node_id u = g.random(stream, distribution::uniform, g.size(x));
  scalar_builder b;
  const scalar_ref kept = b.binary(scalar_op::less, b.argument(0, dtype::f32), b.constant(0.75));
  const node_id operands[] = {u, x};
  return g.map(
      b.finish(b.select(kept, b.binary(scalar_op::divide, b.argument(1, dtype::f32), b.constant(0.75)), b.constant(0))),
      operands, dtype::f32);
}

// round(x 16) / 16 forward, identity backward.
node_id quantised(net& g, node_id x) {
  const node_id whole = g.cast(g.apply(scalar_op::round, g.scaled(x, 16)), dtype::i32);
  const node_id step = g.scaled(g.cast(whole, dtype::f32), 0.0625);
  return g.add(x, g.stop_gradient(g.subtract(step, x)));
}

// One power iteration a step on a state; the gradient does not see it.
result spectral_norm(net& g) {
  const node_id w = g.weight("w.weight", {4, 6}), kept = g.state("u", dtype::f32, {4}), u = g.shifted(kept, 0.5);
  const auto unit = [&](node_id v) {
    const node_id length = g.apply(scalar_op::rsqrt, g.shifted(g.reduce(reduce_kind::sum, g.square(v), 1), 1e-6));
    return g.multiply(v, g.expand(length, g.size(v)));
  };
  const node_id v = g.stop_gradient(unit(g.contract(u, w, "o", "oi", "i")));
  const node_id next = g.stop_gradient(unit(g.contract(v, w, "i", "oi", "o")));
  g.assign(kept, next);
  const node_id sigma = g.contract(g.contract(v, w, "i", "oi", "o"), next, "o", "o", "");
  return regression(g, g.divide(g.contract(g.data({3, 6}), w, "bi", "oi", "bo"), g.expand(sigma, {3, 4})));
}

node_id rotary(net& g, node_id x) {  // x [b, t, d]: halves turned by the position
  const shape e = g.size(x);
  const node_id a = g.slice(x, 2, 0, e[2] / 2), b = g.slice(x, 2, e[2] / 2, e[2] / 2);
  const node_id angle = g.scaled(g.cast(g.coordinates(g.size(a), 1), dtype::f32), 0.3);
  const node_id c = g.apply(scalar_op::cos, angle), s = g.apply(scalar_op::sin, angle);
  const node_id parts[] = {g.subtract(g.multiply(a, c), g.multiply(b, s)), g.add(g.multiply(a, s), g.multiply(b, c))};
  return g.concat(parts, 2);
}

// Normalised embeddings of two views; each row's partner is the one of its own number.
result contrastive(net& g) {
  const auto view = [&](const char* name) {
    const node_id y = g.linear(g.data({4, 5}, name), "project", 3);
    const node_id length = g.reduce(reduce_kind::sum, g.square(y), 2);
    return g.multiply(y, g.back(g.apply(scalar_op::rsqrt, g.shifted(length, 1e-3)), y, 2));
  };
  return classifier(g, g.scaled(g.contract(view("left"), view("right"), "id", "jd", "ij"), 4));
}

result strides_and_flips(net& g) {  // space to depth by strided slices, a flipped copy, a border
  const node_id x = g.data({2, 4, 6});
  const node_id parts[] = {g.slice(x, 2, 0, 3, 2), g.slice(x, 2, 1, 3, 2), g.flip(g.slice(x, 2, 0, 3, 2), 2)};
  const std::int64_t low[] = {0, 1, 0}, high[] = {0, 0, 2};
  const node_id y = g.linear(g.pad(g.concat(parts, 1), low, high, 0.5), "fc", 3);
  return regression(g, g.slice(g.flip(y, 1), 1, 1, 5, 2));
}

result mixer(net& g) {
  const node_id x = g.data({2, 4, 6});
  const node_id turned = g.transposed(samples::layer_norm(g, x, "n1"), {0, 2, 1});
  const node_id h = g.add(x, g.transposed(g.linear(g.gelu(g.linear(turned, "t1", 5)), "t2", 4), {0, 2, 1}));
  return regression(g, g.add(h, g.linear(g.gelu(g.linear(samples::layer_norm(g, h, "n2"), "c1", 7)), "c2", 6)));
}

result masked_attention(net& g) {
  const node_id mask = g.tokens({2, 4}, "mask");
  return regression(g, g.attention(g.data({2, 4, 6}), "attention", 2, mask));
}

result vit(net& g) {
  const node_id patches = g.conv(g.data({2, 1, 4, 6}), "patch", 8, 2, 2);
  const node_id tokens = g.transposed(g.reshape(patches, {2, 8, 6}), {0, 2, 1});
  const node_id h = g.add(tokens, g.attention(samples::layer_norm(g, tokens, "n1"), "attention", 2));
  const node_id y = g.add(h, g.linear(g.gelu(g.linear(samples::layer_norm(g, h, "n2"), "up", 9)), "down", 8));
  return classifier(g, g.linear(g.mean_over(y, 2), "head", 3));
}

result lenet(net& g) {
  node_id h = g.pool(g.tanh(g.conv(g.data({2, 1, 10, 10}), "c1", 3, 3)), reduce_kind::sum, 2, 2);
  h = g.pool(g.tanh(g.conv(h, "c2", 4, 3)), reduce_kind::sum, 2, 2);
  return classifier(g, g.linear(g.tanh(g.linear(g.flat(h), "f1", 6)), "f2", 3));
}

// clang-format off
const specimen zoo[] = {
    {"mlp", [](net& g) { return classifier(g, g.linear(g.relu(g.linear(g.data({5, 7}), "a", 9)), "b", 3)); }},
    {"residual mlp",
     [](net& g) {
       node_id h = g.linear(g.data({4, 5}), "in", 6);
       for (const char* name : {"a", "b"}) h = g.add(h, g.silu(g.linear(h, name, 6)));
       return regression(g, h);
     }},
    {"highway",
     [](net& g) {
       const node_id x = g.data({4, 5}), t = g.sigmoid(g.linear(x, "gate", 5));
       return regression(g, g.add(x, g.multiply(t, g.subtract(g.tanh(g.linear(x, "h", 5)), x))));
     }},
    {"convolution, flatten, linear",
     [](net& g) { return classifier(g, g.linear(g.flat(g.relu(g.conv(g.data({2, 2, 5, 5}), "conv", 3, 3, 2, 1))), "fc", 3)); }},
    {"lenet", lenet},
    {"vit", vit},
    {"unet", unet},
    {"depthwise separable",
     [](net& g) { return regression(g, g.conv(g.relu(g.conv(g.data({1, 4, 5, 5}), "depth", 4, 3, 1, 1, 4)), "point", 3, 1)); }},
    {"dilated gates",
     [](net& g) {
       const node_id x = g.data({2, 2, 9});
       return regression(g, g.multiply(g.tanh(g.conv(x, "f", 3, 2, 1, 0, 1, 3)), g.sigmoid(g.conv(x, "g", 3, 2, 1, 0, 1, 3))));
     }},
    {"grouped", [](net& g) { return regression(g, g.gelu(g.conv(g.data({2, 4, 4, 4}), "conv", 6, 3, 1, 1, 2))); }},
    {"volume", [](net& g) { return regression(g, g.tanh(g.conv(g.data({1, 2, 3, 4, 3}), "conv", 2, 2, 1, 1))); }},
    {"gpt", gpt},
    {"llama block", [](net& g) { return regression(g, samples::transformer(g, g.data({1, 4, 8}), 1, 2, 10)); }},
    {"rotary attention",
     [](net& g) { return regression(g, samples::attention(g, rotary(g, g.data({1, 4, 8})), "attention", 2)); }},
    {"masked attention", masked_attention},
    {"mixer", mixer},
    {"vae", vae},
    {"lstm", [](net& g) { return regression(g, g.linear(lstm(g, g.data({3, 3, 4}), 4), "head", 2)); }},
    {"gru", [](net& g) { return regression(g, g.linear(gru(g, g.data({3, 3, 4}), 4), "head", 2)); }},
    {"tied autoencoder",
     [](net& g) {
       const node_id x = g.data({4, 6}), w = g.weight("w", {3, 6}), h = g.tanh(g.contract(x, w, "bi", "hi", "bh"));
       const node_id y = g.contract(h, w, "bh", "hi", "bi");
       return result{y, g.mean_all(g.square(g.subtract(y, x)))};
     }},
    {"convolutional autoencoder",
     [](net& g) {
       const node_id x = g.data({1, 1, 6, 6}), h = g.relu(g.conv(x, "encode", 3, 2, 2));
       const node_id y = g.sigmoid(g.conv_transposed(h, "decode", 1, 2, 2));
       return result{y, g.mean_all(g.square(g.subtract(y, x)))};
     }},
    {"generator",
     [](net& g) {
       const node_id seed = g.reshape(g.linear(g.data({2, 3}), "in", 8), {2, 2, 2, 2});
       return regression(g, g.tanh(g.conv_transposed(g.relu(g.conv_transposed(seed, "a", 3, 2, 2)), "b", 1, 3, 2)));
     }},
    {"weight norm", [](net& g) { return regression(g, g.tanh(weight_norm(g, g.data({4, 5}), 3))); }},
    {"spectral norm", spectral_norm},
    {"bilinear resize", bilinear},
    {"strides and flips", strides_and_flips},
    {"huber", huber, 0.1f},
    {"hinge",
     [](net& g) {
       const node_id y = g.linear(g.data({6, 4}), "fc", 2), t = g.apply(scalar_op::sign, g.data({6, 2}, "target"));
       return result{y, g.mean_all(g.relu(g.shifted(g.apply(scalar_op::negate, g.multiply(y, t)), 1)))};
     }},
    {"binary cross entropy", binary_cross_entropy},
    {"product of sums",
     [](net& g) {
       const node_id x = g.shifted(g.linear(g.data({3, 4}), "fc", 6), 1);
       return regression(g, g.reduce(reduce_kind::product, g.reshape(x, {3, 2, 3}), 4));
     }},
    {"mixture density", mixture_density},
    {"squeeze and excite", squeeze_excite},
    {"instance norm",
     [](net& g) { return regression(g, g.relu(g.normalised(g.conv(g.data({2, 2, 4, 4}), "conv", 3, 3, 1, 1), 0b1100))); }},
    {"group norm",
     [](net& g) {
       const node_id y = g.conv(g.data({2, 2, 4, 4}), "conv", 4, 3, 1, 1), parts = g.reshape(y, {2, 2, 2, 4, 4});
       return regression(g, g.silu(g.reshape(g.normalised(parts, 0b11100), {2, 4, 4, 4})));
     }},
    {"batch norm", batch_norm},
    {"dropout", [](net& g) { return regression(g, g.linear(dropout(g, g.relu(g.linear(g.data({5, 6}), "a", 8)), "drop"), "b", 2)); }},
    {"siamese", siamese},
    {"two heads",
     [](net& g) {
       const node_id h = g.tanh(g.linear(g.data({4, 5}), "trunk", 6)), y = g.linear(h, "value", 1);
       return result{y, g.add(g.squared_error(y), g.cross_entropy(g.linear(h, "policy", 3)))};
     }},
    {"mixture of experts", experts},
    {"embedding bag",
     [](net& g) { return classifier(g, g.linear(g.mean_over(g.embedding("embed", g.tokens({4, 3}), 6, 5), 2), "fc", 3)); }},
    {"text convolution",
     [](net& g) {
       const node_id x = g.transposed(g.embedding("embed", g.tokens({2, 6}), 5, 4), {0, 2, 1});
       return classifier(g, g.linear(g.reduce(reduce_kind::max, g.relu(g.conv(x, "conv", 5, 3)), 4), "fc", 3));
     }},
    {"overlapping pools",
     [](net& g) {
       const node_id h = g.pool(g.conv(g.data({1, 2, 6, 6}), "conv", 3, 3, 1, 1), reduce_kind::max, 3, 2, 1);
       return regression(g, g.pool(h, reduce_kind::sum, 2, 1));
     }},
    {"fake quantisation",
     [](net& g) { return regression(g, g.linear(quantised(g, g.tanh(g.linear(g.data({4, 5}), "a", 6))), "b", 2)); }},
    {"halves",
     [](net& g) {
       const node_id h = g.cast(g.tanh(g.linear(g.data({4, 5}), "a", 6)), dtype::f16);
       return regression(g, g.linear(g.cast(h, dtype::f32), "b", 2));
     }},
    {"contrastive", contrastive},
    {"graph convolution",
     [](net& g) {
       const node_id a = g.softmax(g.data({5, 5}, "edges"));
       const node_id h = g.relu(g.contract(a, g.linear(g.data({5, 4}), "a", 6), "ij", "jd", "id"));
       return classifier(g, g.contract(a, g.linear(h, "b", 3), "ij", "jd", "id"));
     }},
};
// clang-format on

class runtime_zoo : public ::testing::TestWithParam<specimen> {};

TEST_P(runtime_zoo, agrees_and_learns) {
  const specimen& s = GetParam();
  net g;
  const result made = s.build(g);
  support::expect_net_works(g, made.output, made.loss, s.name, s.rate);
}
INSTANTIATE_TEST_SUITE_P(nets, runtime_zoo, ::testing::ValuesIn(zoo), [](const auto& named) {
  std::string name = named.param.name;
  for (char& letter : name) letter = std::isalnum(static_cast<unsigned char>(letter)) ? letter : '_';
  return name;
});

}  // namespace
