// SPDX-License-Identifier: MIT
// Layers over a run-time graph and the check that every small net of the zoo passes.
#pragma once
#include <meganeura/runtime/program.hpp>

#include <support/egraph_sample_graphs.hpp>
#include <support/shared_device.hpp>
#include <support/stability.hpp>

#include <initializer_list>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::support {

/// A graph with the vocabulary of nets: everything returns a node of f32.
class net : public graph {
 public:
  node_id data(const shape& extents, const char* name = "x") { return input(name, dtype::f32, extents); }
  node_id tokens(const shape& extents, const char* name = "tokens") { return input(name, dtype::i32, extents); }
  node_id weight(const std::string& name, const shape& extents) { return parameter(name, dtype::f32, extents); }
  shape size(node_id x) const { return (*this)[x].extents; }
  using graph::size;

  // ---- pointwise
  node_id apply(scalar_op kind, node_id x) { return map(kind, {x}); }
  node_id scaled(node_id x, double by) { return multiply(x, full_like(x, by)); }
  node_id shifted(node_id x, double by) { return add(x, full_like(x, by)); }
  node_id relu(node_id x) { return map(scalar_op::maximum, {x, full_like(x, 0)}); }
  node_id tanh(node_id x) { return apply(scalar_op::tanh, x); }
  node_id sigmoid(node_id x);
  node_id silu(node_id x) { return multiply(x, sigmoid(x)); }
  node_id softplus(node_id x);
  node_id gelu(node_id x);
  node_id square(node_id x) { return multiply(x, x); }

  // ---- reductions
  node_id mean_over(node_id x, std::uint32_t axes) { return samples::mean(*this, x, axes); }
  node_id mean_all(node_id x) { return mean_over(x, (1u << rank_of(size(x))) - 1); }
  node_id back(node_id reduced, node_id like, std::uint32_t axes) { return expand_axes(reduced, size(like), axes); }
  /// (x - mean) / sqrt(variance + 1e-3) over `axes`.
  node_id normalised(node_id x, std::uint32_t axes);
  node_id softmax(node_id x) { return samples::softmax(*this, x); }

  // ---- layers
  node_id linear(node_id x, const std::string& name, std::int64_t out) { return samples::linear(*this, x, name, out); }
  /// x [n, c, in..], bias included. `pad` on both sides.
  node_id conv(node_id x, const std::string& name, std::int64_t out, std::int64_t kernel, std::int64_t stride = 1,
               std::int64_t pad = 0, std::int64_t groups = 1, std::int64_t dilation = 1);
  /// A transposed convolution: the adjoint of a convolution with that kernel and stride.
  node_id conv_transposed(node_id x, const std::string& name, std::int64_t out, std::int64_t kernel,
                          std::int64_t stride);
  node_id channel_bias(node_id x, const std::string& name);
  node_id pool(node_id x, reduce_kind kind, std::int64_t window, std::int64_t stride, std::int64_t pad = 0);
  node_id flat(node_id x) { return reshape(x, {size(x)[0], size(x).elements() / size(x)[0]}); }
  node_id transposed(node_id x, std::initializer_list<int> order) { return permute(x, std::vector<int>(order)); }
  /// x [b, t, d] with heads; where `mask` [b, t] of i32 is 0, no query sees that key.
  node_id attention(node_id x, const std::string& name, std::int64_t heads, node_id mask = no_id);
  node_id embedding(const std::string& name, node_id at, std::int64_t rows, std::int64_t width);

  // ---- losses
  node_id squared_error(node_id y) { return mean_all(square(subtract(y, data(size(y), "target")))); }
  node_id cross_entropy(node_id logits);
};

/// Reads the values of an output as f64, whatever its type.
oracle::tensor<double> read_output(const program& run, const std::string& name, dtype type, const shape& extents);

/// Weights in [-0.5, 0.5), those of norms around 1; inputs in [-1, 1), integers below 4.
oracle::tensors<double> zoo_leaves(const graph& g);

/// The program's first step agrees with the oracle in every output and every state and parameter it leaves; returns
/// "loss" of `steps` steps on one batch.
std::vector<double> run_net(const device& gpu, const graph& g, const oracle::tensors<double>& leaves,
                            const stable_run& truth, const program_options& options, int steps, float rate,
                            const std::string& what);

/// The programs that infer from a net and train it, fused and unfused, which also trains with all buffers by address,
/// against the oracle; its loss falls. The typed shells over them, session<> and trainer<>, have a zoo of their own
/// (runtime_typed_zoo_test).
void expect_net_works(const graph& forward, node_id output, node_id loss, const std::string& name, float rate);

}  // namespace meganeura::inline MEGANEURA_ABI::support
