// SPDX-License-Identifier: MIT
// What a program tells about its time.
#include <meganeura/frontend.hpp>
#include <meganeura/runtime/program.hpp>
#include <meganeura/runtime/trainer.hpp>

#include <support/shared_device.hpp>
#include <support/small_models.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace {

using namespace meganeura;

TEST(runtime_profile, a_profile_has_the_labels_of_the_plan) {
  const device& gpu = support::shared_device();
  const binding symbols[] = {{"batch", 16}};
  const graph g = make_training_graph<support::mlp<8>>(cross_entropy{"label"}, adam{}, symbols);
  parameters weights(gpu, plan::make_layout(g, op::parameter));
  weights.init();
  program run(gpu, g, weights, {.profile = true});
  const std::vector<float> x = support::uniform(16 * 8, 1);
  const std::vector<std::int32_t> labels = support::classes(16, 2);
  run.set_input("x", dtype::f32, std::as_bytes(std::span(x)));
  run.set_input("label", dtype::i32, std::as_bytes(std::span(labels)));
  run.wait(run.submit({.step = 1}));
  std::vector<std::string> planned, timed;
  for (const plan::step& s : run.plan().steps) {
    if (s.kind != plan::step::copy) planned.push_back(plan::label(run.plan(), s));
  }
  for (const vulkan::timing& each : run.profile()) {
    timed.push_back(each.label);
    EXPECT_NE(each.kernel, "");
    EXPECT_NE(each.kernel, each.label);
  }
  EXPECT_EQ(timed, planned);
  EXPECT_NE(std::ranges::find(timed, "fc1: matmul 16x17x8"), timed.end());
}

}  // namespace
