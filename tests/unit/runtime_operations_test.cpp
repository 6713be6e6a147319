// SPDX-License-Identifier: MIT
// Each operation of examples/operations on a device, some of them in one program: results against definitions,
// gradients against differences of
// definitions.
#include <operations/operation.hpp>
#include <operations/run.hpp>
#include <support/operation_check.hpp>
#include <support/shared_device.hpp>

#include <gtest/gtest.h>

#include <algorithm>

namespace {

using namespace meganeura;
using operations::numbers;

constexpr std::size_t together = 16;

class runtime_operations : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(all, runtime_operations,
                         testing::Range(std::size_t{0}, (operations::all().size() + together - 1) / together));

TEST_P(runtime_operations, are_what_their_definitions_say) {
  std::vector<const operations::operation*> list;
  const std::size_t first = GetParam() * together;
  for (std::size_t i = first; i < std::min(first + together, operations::all().size()); ++i) {
    list.push_back(&operations::all()[i]);
  }
  const std::vector<operations::outcome> found = operations::run(support::shared_device(), list);
  for (std::size_t at = 0; at < list.size(); ++at) {
    const operations::operation& asked = *list[at];
    SCOPED_TRACE(asked.call);
    const std::vector<numbers> operands = operations::drawn(asked);
    const numbers expected = asked.definition(operands);
    ASSERT_EQ(found[at].result.size(), expected.size());
    EXPECT_LT(support::distance(found[at].result, expected), is_float(found[at].type) ? 2e-5 : 1e-300);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (found[at].gradients[i].empty()) continue;
      const numbers slope = support::slope(asked, operands, i);
      ASSERT_EQ(found[at].gradients[i].size(), slope.size());
      EXPECT_LT(support::distance(found[at].gradients[i], slope), 5e-5) << "by operand " << i;
    }
  }
}

}  // namespace
