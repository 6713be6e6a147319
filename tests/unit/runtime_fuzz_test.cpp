// SPDX-License-Identifier: MIT
// Random graphs on the device against the oracle. The same variables as in graph_fuzz_test.cpp.
#include <meganeura/fusion/product_schedules.hpp>
#include <meganeura/runtime/program.hpp>

#include <oracle/interpreter.hpp>
#include <oracle/tolerance.hpp>
#include <support/device_fixture.hpp>
#include <support/program_values.hpp>
#include <support/random_program.hpp>
#include <support/shared_device.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace {

using namespace meganeura;
using support::sample;
using support::verdict;

void check_on_device(const device& gpu, sample& s, verdict& v, bool device_costs = true) {
  parameters weights(gpu, s.source);
  for (const plan::named_tensor& each : weights.layout().tensors)
    weights.set_bytes(each.name, support::stored_bytes(s.leaves.at(each.name)));
  program_options options;
  options.optimize = s.optimize, options.plan = s.plan;
  options.precision = s.optimize.precision;
  options.device_costs = device_costs;
  options.checks = checks::none;  // indices out of range are drawn on purpose: gather reads zeros there
  program run(gpu, s.source, weights, options);
  const kernels::step_values values = support::training_values(1);
  const bool exact = s.optimize.tolerance == egraph::exactness::exact;
  const support::stable_run truth(s.source, s.leaves, exact, values, s.optimize.precision);
  support::set_inputs(run, s.source, s.leaves);
  run.submit(values);
  oracle::tensors<double> found;
  for (const graph_output& output : s.source.outputs()) {
    const node& n = s.source[output.node];
    found[output.name] = support::loaded(run.output(output.name), n.type, n.extents);
    truth.expect_output(output.name, found, v, 4 * oracle::tolerance(n.type));
  }
}

// `prepare(sample, seed)` changes options.
template <class Prepare>
void fuzz_on(const device& gpu, int count, const Prepare& prepare) {
  const support::check run = [&](std::uint64_t seed, int steps, int only_output, verdict& v) {
    auto s = support::make_sample(seed, steps, only_output, false);
    if (!s) return;
    prepare(*s, seed);
    check_on_device(gpu, *s, v);
  };
  support::fuzz(count, run, [](int steps, int output, std::uint64_t seed) {
    const auto s = support::make_sample(seed, steps, output, false);
    return s ? to_text(s->source) : std::string();
  });
}

TEST(runtime_fuzz, random_graphs_agree_on_the_device) {
  fuzz_on(support::shared_device(), 60, [](sample&, std::uint64_t) {});
}

// Every product on matrix units, emulated if need be, which takes a software driver long to compile.
TEST(runtime_fuzz, random_graphs_agree_on_matrix_units) {
  const device& gpu = support::shared_unit_device();
  const bool emulates = make_device_profile(gpu.facts()).matrix_units == matrix_units::emulated;
  fuzz_on(gpu, emulates ? 12 : 60, [](sample& s, std::uint64_t seed) { s.optimize.schedule = seed; });
}

TEST(runtime_fuzz, random_graphs_agree_with_rounded_products) {
  const device& gpu = support::shared_unit_device<matrix_shape{8, 16, 16}>();
  const bool emulates = make_device_profile(gpu.facts()).matrix_units == matrix_units::emulated;
  fuzz_on(gpu, emulates ? 12 : 60,
          [](sample& s, std::uint64_t seed) { s.optimize.schedule = seed, s.optimize.precision = precision::fast; });
}

// Schedules that matrix units have of what is multiplied, as many products as there are of the longest sum, on a device
// that has such units; a few small ones where a software driver compiles what stands in for them.
void fuzz_products(const device& gpu, precision wanted, std::uint64_t few) {
  const device_profile on = make_device_profile(gpu.facts());
  const bool emulates = on.matrix_units == matrix_units::emulated;
  const auto all = fusion::product_schedules(fusion::arithmetic_of(wanted), 560, on).size();
  const std::int64_t most = emulates ? 100 : 256;
  const support::check run = [&](std::uint64_t seed, int, int, verdict& v) {
    sample s = support::make_product_sample(seed, most);
    s.optimize.schedule = seed * (emulates ? 37 : 1), s.optimize.precision = wanted;
    s.optimize.device.scalar_flops = 1e6;  // else regions would multiply what is small
    check_on_device(gpu, s, v, false);
  };
  support::fuzz(emulates ? few : all, run,
                [&](int, int, std::uint64_t seed) { return to_text(support::make_product_sample(seed, most).source); });
}

TEST(runtime_fuzz, products_agree_by_every_schedule) {
  fuzz_products(support::shared_unit_device(), precision::exact, 5);
}

TEST(runtime_fuzz, rounded_products_agree_by_every_schedule) {
  fuzz_products(support::shared_unit_device<matrix_shape{8, 16, 16}>(), precision::fast, 5);
}

TEST(runtime_fuzz, random_graphs_agree_by_address) {
  fuzz_on(support::shared_address_device(), 60, [](sample&, std::uint64_t) {});
}

// Some operands of a kernel are behind descriptors, or texels, and some are too long.
TEST(runtime_fuzz, random_graphs_agree_where_some_tensors_are_reached_by_address) {
  vulkan::device_options options = support::address_options(64);
  options.at_most->quirks.prefers_texel_buffers = true;
  const support::checked_device gpu(options);
  fuzz_on(gpu, 30, [](sample&, std::uint64_t) {});
}

TEST(runtime_fuzz, random_graphs_agree_on_matrix_units_by_address) {
  fuzz_on(support::shared_address_device(), 6, [](sample& s, std::uint64_t seed) { s.optimize.schedule = seed; });
}

}  // namespace
