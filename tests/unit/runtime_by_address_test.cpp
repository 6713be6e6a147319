// SPDX-License-Identifier: MIT
// Tensors longer than a descriptor covers, which kernels reach by address where the device has addresses.
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/kernels/generate.hpp>
#include <meganeura/runtime/elementwise_optimizers.hpp>
#include <meganeura/runtime/optimizer.hpp>
#include <meganeura/runtime/program.hpp>

#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <vector>

namespace {

using namespace meganeura;

// The families of kernels of a program that have a binding by address; each binding is by address if it is longer
// than a descriptor covers, and no other.
std::set<op> families_by_address(const program& made, const device& on) {
  const device_profile target = make_device_profile(on.facts());
  std::set<op> found;
  for (const plan::step& step : made.plan().steps) {
    if (step.kind == plan::step::copy) continue;
    const spirv::module kernel = kernels::generate(made.plan(), step, target).module;
    for (std::size_t i = 0; i < kernel.bindings.size(); ++i) {
      const bool is_long = step.bindings[i].where.bytes > on.facts().max_storage_range;
      const bool by_address = kernel.bindings[i] == spirv::binding_kind::address;
      const bool is_storage = by_address || kernel.bindings[i] == spirv::binding_kind::storage_buffer;
      EXPECT_EQ(by_address, is_storage && is_long) << kernel.name << ", binding " << i;
      if (by_address) found.insert(made.plan().implementation[step.node].kind);
    }
  }
  return found;
}

// One step of plain gradient descent on sum(table[at] weight) for a table of `rows` x `width`, which begins with the
// number of each element modulo 1024: the rows that are read, products with all of them, and the table behind the step.
void expect_embedding_learns(const device& gpu, std::int64_t rows, std::int64_t width, std::vector<std::int32_t> at) {
  graph g;
  const auto count = static_cast<std::int64_t>(at.size());
  const node_id table = g.parameter("table", dtype::f32, {rows, width}), where = g.input("at", dtype::i32, {count});
  const node_id read = g.gather(table, where, 0), weight = g.input("weight", dtype::f32, {count, width});
  g.add_output("rows", read);
  g.add_output("products", g.contract(weight, table, "ik", "jk", "ij"));
  const node_id loss = g.reduce(reduce_kind::sum, g.map(scalar_op::multiply, {read, weight}), 0b11);
  const std::vector<node_id> pair{table, gradients(g, loss, std::vector<node_id>{table})[0]};
  g.optimizer_step(optimizer(sgd{}).rule(), pair);
  parameters weights(gpu, g);
  std::vector<float> numbers(static_cast<std::size_t>(rows * width));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 1024);
  weights.set("table", numbers);
  program run(gpu, g, weights);
  EXPECT_TRUE(families_by_address(run, gpu).contains(op::gather));
  EXPECT_FALSE(families_by_address(run, gpu).contains(op::optimizer_step)) << "pieces are behind descriptors";
  std::vector<float> slopes(static_cast<std::size_t>(count * width));
  for (std::size_t i = 0; i < slopes.size(); ++i) slopes[i] = static_cast<float>(i % 7);
  run.set_input("at", dtype::i32, std::as_bytes(std::span(at)));
  run.set_input("weight", dtype::f32, std::as_bytes(std::span(slopes)));
  run.wait(run.submit({.step = 1, .numbers = {0.5f}}));
  const std::vector<float> found = run.output_as<float>("rows");
  std::vector<float> expected = numbers;  // all are sums of few quarters: exact
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::size_t element =
        static_cast<std::size_t>(at[i / static_cast<std::size_t>(width)] * width) + i % static_cast<std::size_t>(width);
    ASSERT_EQ(found[i], numbers[element]) << i;
    expected[element] -= 0.5f * slopes[i];
  }
  EXPECT_EQ(weights.get("table"), expected);
}

// GPT-2's table: 154 MB in f32, where many devices bind 128 MiB.
TEST(runtime_by_address, a_table_longer_than_a_descriptor_covers_is_read_and_learned) {
  const device& whole = support::shared_device();
  constexpr std::uint64_t common = std::uint64_t{1} << 27;
  const bool binds_more = whole.facts().max_storage_range > common;
  const support::checked_device less(support::address_options(common));
  expect_embedding_learns(binds_more ? less : whole, 50257, 768, {50256, 0, 43691, 50256, 43690, 7});
}

TEST(runtime_by_address, a_short_one_is_where_descriptors_cover_less) {
  const support::checked_device gpu(support::address_options(4096));
  expect_embedding_learns(gpu, 100, 33, {99, 3, 31});
}

TEST(runtime_by_address, a_device_without_addresses_refuses_with_its_sentence) {
  for (const bool has_address : {false, true}) {
    vulkan::device_options options = support::address_options(4096);
    options.at_most->has_device_address = has_address;
    const support::checked_device gpu(options);
    graph g;
    const node_id x = g.input("x", dtype::f32, {1025});
    g.add_output("y", g.map(scalar_op::negate, {x}));
    const std::string said = support::sentence_of([&] { program(gpu, g, parameters(gpu, graph())); });
    EXPECT_EQ(said, has_address
                        ? "no error"
                        : "\"x\" is f32[1025], 4100 bytes, and the device takes 4096 of one tensor at most: use a "
                          "smaller batch, or split it");
  }
}

// Nothing of that size is allocated.
TEST(runtime_by_address, more_elements_than_an_index_tells_apart_are_refused) {
  device_profile on;
  on.max_binding_bytes = std::uint64_t{1} << 27;
  for (const std::int64_t count : {std::int64_t{1} << 31, (std::int64_t{1} << 31) + 4}) {
    graph g;
    const node_id x = g.input("x", dtype::i8, {count}), most = g.reduce(reduce_kind::max, x, 1);
    g.add_output("most", most);
    const graph chosen = fusion::optimize(g, {});
    const std::string said = support::sentence_of(
        [&] { static_cast<void>(kernels::generate(plan::make_plan(chosen, plan::make_layout(chosen)), on)); });
    EXPECT_EQ(said.find("2147483652 elements where it tells 2147483648 apart") != std::string::npos, count % 8 == 4)
        << said;
  }
}

}  // namespace
