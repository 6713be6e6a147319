// SPDX-License-Identifier: MIT
// Weights by name: types, conversions, files that do not fit; and what a program hands out of a step.
#include <meganeura/core/error.hpp>
#include <meganeura/runtime/parameters.hpp>
#include <meganeura/runtime/program.hpp>

#include <support/shared_device.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <span>
#include <vector>

namespace {

using namespace meganeura;

parameters made(const graph& g) { return {support::shared_device(), plan::make_layout(g, op::parameter)}; }

TEST(runtime_parameters, a_scalar_is_of_a_step_that_ran_and_of_its_own_type) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {4}), n = g.input("n", dtype::i32, {4});
  g.add_output("sum", g.reduce(reduce_kind::sum, x, 1));
  g.add_output("count", g.reduce(reduce_kind::sum, n, 1));
  program run(support::shared_device(), g, made(g));
  const std::vector<float> values{1, 2, 3, 4};
  const std::vector<std::int32_t> counts{1, 1, 1, 1};
  run.set_input("x", dtype::f32, std::as_bytes(std::span(values)));
  run.set_input("n", dtype::i32, std::as_bytes(std::span(counts)));
  const std::uint64_t step = run.submit();
  EXPECT_EQ(run.scalar_output("sum", step), 10.0f);
  EXPECT_NE(support::sentence_of([&] { (void)run.scalar_output("sum", 0); }).find("the latest is 1"), std::string::npos);
  EXPECT_NE(support::sentence_of([&] { (void)run.scalar_output("sum", 2); }).find("the latest is 1"), std::string::npos);
  EXPECT_NE(support::sentence_of([&] { (void)run.scalar_output("count", step); }).find("rank-0 f32"), std::string::npos);
}

TEST(runtime_parameters, a_program_pages_as_its_device_does) {
  graph g;
  node_id sum = g.input("x", dtype::f32, {750});
  for (const char* name : {"a", "b", "c"}) sum = g.add(sum, g.parameter(name, dtype::f32, {750}));
  g.add_output("y", sum);
  program_options options;
  options.plan.page_bytes = 4096;  // in which the second of the parameters, as they lie on the device, does not fit
  const program run(support::shared_device(), g, made(g), options);
  EXPECT_NO_THROW(plan::verify(run.plan()));
}

}  // namespace
