// SPDX-License-Identifier: MIT
// Each operation of examples/operations against its definition in plain numbers, its gradient against differences
// of that definition, and what it says of operands that it does not take: its own name first.
#include <meganeura/autodiff/gradient.hpp>

#include <operations/operation.hpp>
#include <oracle/interpreter.hpp>
#include <support/operation_check.hpp>
#include <support/sentence_of.hpp>

#include <gtest/gtest.h>

#include <fstream>
#include <set>
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

std::string said_of(const operation& asked, const std::vector<operations::operand>& operands) {
  graph g;
  std::vector<node_value> values;
  for (const operations::operand& x : operands)
    values.emplace_back(g, g.input("x" + std::to_string(values.size()), x.type, x.extents));
  return support::sentence_of([&] { static_cast<void>(asked.build(values)); });
}

std::string name_of(const operation& asked) { return asked.call.substr(0, asked.call.find_first_of("<(")); }

// What is said of operands that the operation does not take begins with its name; but for rows of `others`.
void expect_own_name(const operation& asked, const std::vector<operations::operand>& operands,
                     const std::set<std::string>& others) {
  if (others.count(name_of(asked)) != 0) return;
  const std::string sentence = said_of(asked, operands);
  const std::string name = sentence.substr(0, sentence.find_first_of("<(:"));
  EXPECT_EQ(name, name_of(asked)) << asked.call << " says: " << sentence;
}

TEST(operations, those_of_floats_say_that_integers_are_none) {
  const std::set<std::string> computing{"cosine_embedding_loss", "ctc_loss", "isfinite", "isinf", "isnan"};
  for (const operation& asked : operations::all()) {
    if (operations::ask(asked).dtypes != "floats") continue;
    std::vector<operations::operand> operands = asked.operands;
    for (operations::operand& x : operands) {
      if (is_float(x.type)) x.type = dtype::i32;
    }
    expect_own_name(asked, operands, computing);
  }
}

TEST(operations, those_of_two_operands_say_that_shapes_differ) {
  const std::set<std::string> computing{"logical_and", "logical_or", "logical_xor", "select"};
  const std::set<std::string> of_any_shapes{"embedding_bag", "gather", "kronecker", "outer"};
  for (const operation& asked : operations::all()) {
    if (asked.operands.size() < 2 || of_any_shapes.count(name_of(asked)) != 0) continue;
    std::vector<operations::operand> operands = asked.operands;
    operands[1].extents = {7, 11, 13};
    expect_own_name(asked, operands, computing);
  }
}

TEST(operations, the_table_of_the_documents_is_what_the_operations_say) {
  std::ostringstream text;
  text << std::ifstream(MEGANEURA_SOURCE_DIR "/docs/operations.md").rdbuf();
  EXPECT_TRUE(text.str() == operations::markdown())
      << "docs/operations.md is not what is found; run examples/operations --markdown > docs/operations.md";
}

}  // namespace
