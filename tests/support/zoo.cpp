// SPDX-License-Identifier: MIT
// The layers of nets and the check of one.
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/runtime/optimizer.hpp>

#include <oracle/tolerance.hpp>
#include <support/program_values.hpp>
#include <support/zoo.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace meganeura::inline MEGANEURA_ABI::support {

node_id net::sigmoid(node_id x) {
  return apply(scalar_op::reciprocal, shifted(samples::exp(*this, apply(scalar_op::negate, x)), 1));
}

node_id net::softplus(node_id x) {  // max(x, 0) + log(1 + exp(-|x|))
  const node_id decay = samples::exp(*this, apply(scalar_op::negate, apply(scalar_op::abs, x)));
  return add(relu(x), apply(scalar_op::log, shifted(decay, 1)));
}

node_id net::gelu(node_id x) {
  return multiply(scaled(x, 0.5), shifted(apply(scalar_op::erf, scaled(x, 0.7071067811865476)), 1));
}

node_id net::normalised(node_id x, std::uint32_t axes) {
  const node_id centred = subtract(x, back(mean_over(x, axes), x, axes));
  const node_id variance = mean_over(square(centred), axes);
  return multiply(centred, back(apply(scalar_op::rsqrt, shifted(variance, 1e-3)), x, axes));
}

node_id net::conv(node_id x, const std::string& name, std::int64_t out, std::int64_t kernel, std::int64_t stride,
                  std::int64_t pad, std::int64_t groups, std::int64_t dilation) {
  const shape in = size(x);
  convolution_attribute c{.form = convolution_attribute::output, .spatial = rank_of(in) - 2, .groups = groups};
  shape w{out, in[1] / groups}, y{in[0], out};
  for (int i = 0; i < c.spatial; ++i) {
    c.stride[i] = stride, c.pad_low[i] = c.pad_high[i] = pad, c.dilation[i] = dilation;
    w.push_back(kernel);
    y.push_back((in[i + 2] + 2 * pad - (kernel - 1) * dilation - 1) / stride + 1);
  }
  return channel_bias(convolution(x, weight(name + ".weight", w), c, y), name);
}

node_id net::conv_transposed(node_id x, const std::string& name, std::int64_t out, std::int64_t kernel,
                             std::int64_t stride) {
  const shape in = size(x);
  convolution_attribute c{.form = convolution_attribute::input, .spatial = rank_of(in) - 2};
  shape w{in[1], out}, y{in[0], out};
  for (int i = 0; i < c.spatial; ++i) {
    c.stride[i] = stride;
    w.push_back(kernel);
    y.push_back((in[i + 2] - 1) * stride + kernel);
  }
  return channel_bias(convolution(x, weight(name + ".weight", w), c, y), name);
}

node_id net::channel_bias(node_id x, const std::string& name) {
  const shape extents = size(x);
  return add(x, expand_axes(weight(name + ".bias", {extents[1]}), extents, ((1u << rank_of(extents)) - 1) & ~2u));
}

node_id net::pool(node_id x, reduce_kind kind, std::int64_t window, std::int64_t stride, std::int64_t pad) {
  window_attribute w{.kind = kind, .spatial = rank_of(size(x)) - 2};
  double count = 1;
  for (int i = 0; i < w.spatial; ++i) {
    w.window[i] = window, w.stride[i] = stride, w.pad_low[i] = w.pad_high[i] = pad;
    count *= static_cast<double>(window);
  }
  const node_id y = window_reduce(x, w);
  return kind == reduce_kind::sum ? scaled(y, 1 / count) : y;
}

node_id net::attention(node_id x, const std::string& name, std::int64_t heads, node_id mask) {
  const shape e = size(x);
  const auto split = [&](const char* part) {
    return transposed(reshape(linear(x, name + part, e[2]), {e[0], e[1], heads, e[2] / heads}), {0, 2, 1, 3});
  };
  const node_id q = split(".q"), k = split(".k"), v = split(".v");
  node_id scores = scaled(contract(q, k, "bhik", "bhjk", "bhij"), 1 / std::sqrt(static_cast<double>(e[2] / heads)));
  if (mask != no_id) {
    scalar_builder b;
    const scalar_ref seen = b.binary(scalar_op::less, b.constant(0, dtype::i32), b.argument(0, dtype::i32));
    const node_id operands[] = {expand_axes(mask, size(scores), 0b0110), scores};
    scores = map(b.finish(b.select(seen, b.argument(1, dtype::f32), b.constant(-1e9))), operands, dtype::f32);
  }
  const node_id mixed = contract(softmax(scores), v, "bhij", "bhjd", "bhid");
  return linear(reshape(transposed(mixed, {0, 2, 1, 3}), e), name + ".o", e[2]);
}

node_id net::embedding(const std::string& name, node_id at, std::int64_t rows, std::int64_t width) {
  return gather(weight(name + ".weight", {rows, width}), at, 0);
}

node_id net::cross_entropy(node_id logits) {
  return samples::cross_entropy(*this, logits, tokens({size(logits)[0]}, "label"));
}

oracle::tensor<double> read_output(const program& run, const std::string& name, dtype type, const shape& extents) {
  const std::vector<std::byte> bytes = run.output(name);
  oracle::tensor<double> result(extents, type);
  for (std::size_t i = 0; i < result.values.size(); ++i) {
    float real = 0;
    std::int32_t integer = 0;
    std::memcpy(is_float(type) ? static_cast<void*>(&real) : &integer, bytes.data() + 4 * i, 4);
    result.values[i] = is_float(type) ? static_cast<double>(real) : integer;
  }
  return result;
}

oracle::tensors<double> zoo_leaves(const graph& g) {
  oracle::tensors<double> values;
  std::uint64_t seed = 1;
  for (op kind : {op::input, op::parameter, op::state}) {
    for (node_id id : g.leaves(kind)) {
      const std::string& name = g.get<leaf_attribute>(id).name;
      const bool integer = !is_float(g[id].type), scale = name.ends_with(".weight") && rank_of(g[id].extents) == 1;
      values[name] = oracle::random_tensor(g[id].extents, ++seed,
                                           integer             ? 0
                                           : scale             ? 0.75
                                           : kind == op::input ? -1
                                                               : -0.5,
                                           integer             ? 3
                                           : scale             ? 1.25
                                           : kind == op::input ? 1
                                                               : 0.5,
                                           g[id].type);
      if (kind == op::state) std::ranges::fill(values[name].values, 0.0);  // as a program starts
    }
  }
  return values;
}

std::vector<double> run_net(const device& gpu, const graph& g, const oracle::tensors<double>& leaves,
                            const stable_run& truth, const program_options& options, int steps, float rate,
                            const std::string& what) {
  parameters weights(gpu, g);
  for (node_id id : g.leaves(op::parameter)) {
    const std::string& name = g.get<leaf_attribute>(id).name;
    weights.set(name, std::vector<float>(leaves.at(name).values.begin(), leaves.at(name).values.end()));
  }
  program run(gpu, g, weights, options);
  std::vector<double> losses;
  for (int step = 1; step <= steps; ++step) {
    set_inputs(run, g, leaves);
    run.submit({.step = 1, .seed_low = 5, .seed_high = 6, .numbers = {rate}});  // one draw of the random streams
    const auto value = [&](const graph_output& o) {
      return read_output(run, o.name, g[o.node].type, g[o.node].extents);
    };
    if (step == 1) {
      verdict v;
      oracle::tensors<double> found;
      for (const graph_output& output : g.outputs()) found[output.name] = value(output);
      for (const auto& [name, unused] : found) truth.expect_output(name, found, v, oracle::tolerance(dtype::f32));
      const oracle::tensors<double> after = leaves_of(weights);
      for (node_id id : g.leaves(op::parameter))
        truth.expect_leaf(g.get<leaf_attribute>(id).name, after, v, oracle::tolerance(dtype::f32));
      EXPECT_FALSE(v.failed()) << what << ": " << v.text;
      EXPECT_LE(v.unstable, v.compared / 4) << what;  // gradients that are zero but for rounding
    }
    for (const graph_output& output : g.outputs()) {
      if (output.name == "loss") losses.push_back(value(output).values[0]);
    }
  }
  return losses;
}

void expect_net_works(const graph& forward, node_id output, node_id loss, const std::string& name, float rate) {
  graph inference = forward, training = forward;
  inference.add_output("output", output);
  inference = pruned(inference);
  training.add_output("loss", loss);
  const std::vector<node_id> wrt = training.leaves(op::parameter), slopes = gradients(training, loss, wrt);
  std::vector<node_id> pairs;
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    training.add_output("d " + training.get<leaf_attribute>(wrt[i]).name, slopes[i]);
    pairs.insert(pairs.end(), {wrt[i], slopes[i]});
  }
  training.optimizer_step(optimizer(sgd{}).rule(), pairs);
  const oracle::tensors<double> leaves = zoo_leaves(training);
  const kernels::step_values values{.step = 1, .seed_low = 5, .seed_high = 6, .numbers = {rate}};
  program_options unfused;
  unfused.optimize.disabled = {"fusion", "products", "epilogues", "algebra"};
  const stable_run inferred(inference, leaves, false, values), trained(training, leaves, false, values);
  const auto expect_training = [&](const device& gpu, const program_options& options, const std::string& kind) {
    const auto losses = run_net(gpu, training, leaves, trained, options, 5, rate, name + " training" + kind);
    EXPECT_LT(losses.back(), losses.front()) << name << kind;
  };
  for (const auto& [kind, options] : {std::pair{" fused", program_options{}}, std::pair{" unfused", unfused}}) {
    run_net(shared_device(), inference, leaves, inferred, options, 1, rate, name + " inference" + kind);
    expect_training(shared_device(), options, kind);
  }
  expect_training(shared_address_device(), {}, " by address");
}

}  // namespace meganeura::inline MEGANEURA_ABI::support
