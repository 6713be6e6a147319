// SPDX-License-Identifier: MIT
// Each operation of examples/operations on a device, some of them in one program.
#include <meganeura/runtime/program.hpp>

#include <operations/operation.hpp>
#include <support/drawn_operands.hpp>
#include <support/program_values.hpp>
#include <support/shared_device.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace {

using namespace meganeura;

constexpr std::size_t together = 24;

class runtime_operations : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(all, runtime_operations,
                         testing::Range(std::size_t{0}, (operations::all().size() + together - 1) / together));

std::vector<double> decoded(const auto& bytes, dtype type) {
  const std::size_t size = info(type).bits / 8;
  std::vector<double> list;
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, bytes.data() + at, size);
    list.push_back(oracle::value_of_bits(bits, type));
  }
  return list;
}

TEST_P(runtime_operations, are_what_their_definitions_say) {
  const std::size_t first = GetParam() * together, last = std::min(first + together, operations::all().size());
  graph g;
  oracle::tensors<double> leaves;
  std::vector<std::vector<operations::numbers>> values;
  for (std::size_t at = first; at < last; ++at) {
    const operations::operation& asked = operations::all()[at];
    auto drawn = support::draw_operands(g, asked, std::to_string(at) + "x", leaves);
    g.add_output(std::to_string(at), asked.build(drawn.values));
    values.push_back(std::move(drawn.numbers));
  }
  const device& gpu = support::shared_device();
  parameters none(gpu, g);
  program run(gpu, g, none, {.checks = checks::none});
  support::set_inputs(run, g, leaves);
  run.submit({});
  for (std::size_t at = first; at < last; ++at) {
    const operations::operation& asked = operations::all()[at];
    const std::string name = std::to_string(at);
    const dtype type = g[g.find_output(name)].type;
    const std::vector<double> found = decoded(run.output(name), type), expected = asked.definition(values[at - first]);
    ASSERT_EQ(found.size(), expected.size()) << asked.call;
    double scale = 1, worst = 0;
    for (const double x : expected) scale = std::isfinite(x) ? std::max(scale, std::fabs(x)) : scale;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i]))) continue;
      const double difference = std::fabs(found[i] - expected[i]);
      worst = difference <= worst ? worst : difference;  // NaN stays
    }
    EXPECT_LT(worst / scale, is_float(type) ? 2e-5 : 1e-300) << asked.call;
  }
}

}  // namespace
