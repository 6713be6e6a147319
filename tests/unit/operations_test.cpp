// SPDX-License-Identifier: MIT
// Each operation of examples/operations against its definition in plain numbers, and its gradient against differences
// of that definition.
#include <meganeura/autodiff/gradient.hpp>

#include <operations/operation.hpp>
#include <oracle/interpreter.hpp>
#include <support/operation_check.hpp>

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace {

using namespace meganeura;
using operations::numbers;
using operations::operation;

struct tried {
  graph g;
  std::vector<node_id> operands;
  node_id result{};
  std::vector<numbers> values;
  oracle::tensors<double> leaves;

  explicit tried(const operation& asked) {
    support::drawn_operands drawn = support::draw_operands(g, asked, "x", leaves);
    for (const node_value& x : drawn.values) operands.push_back(x.id());
    result = asked.build(drawn.values).id();
    values = std::move(drawn.numbers);
  }
};

class operations_test : public testing::TestWithParam<const operation*> {};
std::vector<const operation*> each_operation() {
  std::vector<const operation*> list;
  for (const operation& each : operations::all()) list.push_back(&each);
  return list;
}
INSTANTIATE_TEST_SUITE_P(all, operations_test, testing::ValuesIn(each_operation()));

TEST_P(operations_test, is_what_its_definition_says) {
  const operation& asked = *GetParam();
  SCOPED_TRACE(asked.call);
  tried t(asked);
  oracle::interpreter<double> run(t.g, t.leaves);
  EXPECT_LT(support::distance(run.value(t.result).values, asked.definition(t.values)), asked.tolerance);
}

TEST_P(operations_test, has_the_gradient_that_differences_of_its_definition_give) {
  const operation& asked = *GetParam();
  SCOPED_TRACE(asked.call);
  const std::string gradient = operations::ask(asked).gradient;
  if (gradient == "refused") return;
  tried t(asked);
  if (!is_float(t.g[t.result].type)) return;
  const numbers by = operations::weights(asked.definition(t.values).size());
  const node_id seed = t.g.input("seed", t.g[t.result].type, t.g[t.result].extents);
  t.leaves["seed"] = {t.g[t.result].extents, by, t.g[t.result].type};
  for (std::size_t i = 0; i < t.operands.size(); ++i) {
    if (!is_float(t.g[t.operands[i]].type)) continue;
    const node_id outputs[] = {t.result}, seeds[] = {seed}, wrt[] = {t.operands[i]};
    const node_id found = gradients(t.g, outputs, seeds, wrt)[0];
    oracle::interpreter<double> run(t.g, t.leaves);
    EXPECT_LT(support::distance(run.value(found).values, support::slope(asked, t.values, i)), 1e-5)
        << "by operand " << i;
  }
}

TEST(operations, the_table_of_the_documents_is_what_the_operations_say) {
  std::ostringstream text;
  text << std::ifstream(MEGANEURA_SOURCE_DIR "/docs/operations.md").rdbuf();
  EXPECT_TRUE(text.str() == operations::markdown())
      << "docs/operations.md is not what is found; run examples/operations --markdown > docs/operations.md";
}

}  // namespace
