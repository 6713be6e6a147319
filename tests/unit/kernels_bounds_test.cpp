// SPDX-License-Identifier: MIT
// No kernel reads or writes past the tensors it is given: the validation layer's instrumented kernels look at every
// address.
#include <meganeura/fusion/optimize.hpp>
#include <meganeura/runtime/optimizer.hpp>
#include <meganeura/runtime/program.hpp>

#include <support/device_fixture.hpp>
#include <support/egraph_sample_graphs.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "vulkan_support.hpp"

using namespace meganeura;

namespace {

/// A device whose kernels are instrumented, if there is such a layer: it has to notice a kernel that does read too far.
class kernels_bounds : public testing::Test {
 protected:
  void SetUp() override {
    const test::scoped_environment instrumented("VK_LAYER_ENABLES", "VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_EXT");
    try {
      device_options options{.validation = true, .disk_cache = false, .log = messages_.sink()};
      options.at_most = device({.disk_cache = false}).facts();
      options.at_most->max_push_descriptors = 0;  // the layer of 1.3.239 takes pushed ones for uninitialised
      gpu_.emplace(options);
    } catch (const error& problem) {
      if (problem.category() != error_category::unsupported) throw;
      GTEST_SKIP() << problem.what();
    }
    if (gpu_->facts().type != vulkan::device_type::cpu) GTEST_SKIP() << "only a software device reads too far unharmed";
    run_on_bytes(test::scale_kernel(1, 0), 16, 256);
    known_ = gpu_->validation_messages();
    if (known_ == 0) GTEST_SKIP() << "the validation layer does not instrument kernels on this device";
  }
  void TearDown() override {
    if (!gpu_ || gpu_->validation_messages() == known_) return;
    for (const std::string& text : messages_.texts) ADD_FAILURE() << text;
  }

  void run_on_bytes(const spirv::module& kernel, std::uint64_t read, std::uint64_t written) {
    vulkan::recorder recorder(*gpu_);
    recorder.dispatch(gpu_->create_pipeline(kernel), {{gpu_->allocate(read)}, {gpu_->allocate(written)}}, {1, 1, 1});
    gpu_->wait(gpu_->submit(recorder.finish()));
  }

  // Every kernel of the optimised graph.
  void run(const graph& g) { run(g, samples::random_leaves(g)); }
  void run(const graph& g, const oracle::tensors<double>& leaves,
           const std::vector<device_profile>& targets = support::all_targets()) {
    const graph chosen = fusion::optimize(g);
    for (const device_profile& on : targets)
      static_cast<void>(support::device_graph(chosen, on, {}, *gpu_).run(leaves));
  }

  void run_product(const shape& a, const char* a_axes, const shape& b, const char* b_axes, const char* out,
                   const std::vector<device_profile>& targets = support::all_targets()) {
    graph g;
    g.add_output("y", g.contract(g.input("a", dtype::f32, a), g.input("b", dtype::f32, b), a_axes, b_axes, out));
    run(g, samples::random_leaves(g), targets);
  }

  test::message_list messages_;  // outlives the device
  std::optional<device> gpu_;
  std::uint64_t known_ = 0;
};

// Invocations of a workgroup of the registers tier overshoot by rows that their own number of rows divides.
TEST_F(kernels_bounds, products_along_k_whose_rows_fill_no_workgroup) {
  run_product({64, 64}, "mk", {24, 64}, "nk", "mn");
}

TEST_F(kernels_bounds, products_along_rows_that_fill_no_workgroup) {
  run_product({32, 20}, "km", {32, 72}, "kn", "mn");
}

TEST_F(kernels_bounds, products_of_odd_sizes) { run_product({33, 18}, "mk", {18, 35}, "kn", "mn"); }

// A batch leaves its tensors where its last matrix does. Elsewhere its instrumented kernels take 15 s to compile.
TEST_F(kernels_bounds, products_of_a_batch) {
  run_product({3, 17, 6}, "bmk", {3, 6, 19}, "bkn", "bmn", {support::shared_profile()});
}

TEST_F(kernels_bounds, rows_windows_and_convolutions_of_odd_sizes) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {2, 3, 9, 7});
  const node_id w = g.input("w", dtype::f32, {5, 3, 3, 3});
  const convolution_attribute padded{.stride = {2, 1}, .pad_low = {1, 1}, .pad_high = {1, 1}};
  g.add_output("y", g.convolution(x, w, padded, {2, 5, 5, 7}));
  g.add_output("pooled", g.window_reduce(x, {.window = {3, 2}, .stride = {2, 2}, .pad_low = {1, 0}}));
  g.add_output("soft", samples::softmax(g, g.input("rows", dtype::f32, {7, 103})));
  run(g);
}

TEST_F(kernels_bounds, gathers_and_scatters) {
  graph g;
  const node_id indices = g.input("indices", dtype::i32, {11});
  g.add_output("rows", g.gather(g.input("data", dtype::f32, {6, 5}), indices, 0));
  const node_id updates = g.input("updates", dtype::f32, {11, 5});
  g.add_output("sums", g.scatter_add(indices, updates, 0, {6, 5}));
  const node_id base = g.input("base", dtype::f32, {6, 5});
  g.add_output("added", g.apply(op::index_add, axis_attribute{0}, {base, indices, updates}));
  oracle::tensors<double> leaves = samples::random_leaves(g);
  leaves.at("indices").values = {0, 5, 6, -1, 2147483647, -2147483648.0, 3, 3, 1, 600, 5};
  run(g, leaves);
}

TEST_F(kernels_bounds, a_training_step_with_random_numbers) {
  graph g;
  const node_id w = g.parameter("w", dtype::f32, {7});
  const node_id noise = g.random("noise", distribution::normal, {7});
  g.add_output("noise", noise);
  const node_id pair[] = {w, noise};
  g.optimizer_step(optimizer(adam{}).rule(), pair);
  parameters weights(*gpu_, g);
  weights.set("w", std::vector<float>(7, 1));
  program step(*gpu_, g, weights);
  step.wait(step.submit(optimizer(adam{}).step_values(1, 0)));
  EXPECT_NE(weights.get("w"), std::vector<float>(7, 1));
}

}  // namespace
