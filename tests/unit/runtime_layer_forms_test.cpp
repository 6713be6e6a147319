// SPDX-License-Identifier: MIT
// Layers with parameters on a device, beside their definitions.
#include <support/layer_cases.hpp>
#include <support/program_values.hpp>
#include <support/shared_device.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace {

using namespace meganeura;

TEST(runtime_layer_forms, are_what_their_definitions_say) {
  for (const support::layer_case& asked : support::layer_cases()) {
    SCOPED_TRACE(asked.call);
    support::built_layer built(asked);
    const device& gpu = support::shared_device();
    parameters weights(gpu, built.g);
    for (const auto& [name, extents] : asked.parameters) {
      const std::vector<double>& list = built.leaves.at(name).values;
      weights.set(name, std::vector<float>(list.begin(), list.end()));
    }
    program run(gpu, built.g, weights, {.checks = checks::none});
    support::set_inputs(run, built.g, built.leaves);
    run.submit({});
    const auto bytes = run.output("y");
    std::vector<float> found(bytes.size() / sizeof(float));
    std::memcpy(found.data(), bytes.data(), bytes.size());
    const std::vector<double> expected = asked.definition(built.leaves);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(static_cast<double>(found[i]), expected[i], 2e-5) << i;
  }
}

}  // namespace
