// SPDX-License-Identifier: MIT
// Rows from a position of run time: read, written over others, differentiated, and what that costs.
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/expr/lower.hpp>
#include <meganeura/frontend.hpp>
#include <meganeura/fusion/optimize.hpp>
#include <meganeura/kernels/generate.hpp>
#include <meganeura/plan/plan.hpp>
#include <meganeura/runtime/inference.hpp>

#include <oracle/gradient_check.hpp>
#include <oracle/interpreter.hpp>
#include <support/device_fixture.hpp>
#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace {

using namespace meganeura;

node_value leaf(graph& g, const char* name, const shape& extents, dtype type = dtype::f32) {
  return {g, g.input(name, type, extents)};
}

TEST(runtime_narrow, rows_from_a_position_are_read_and_those_outside_are_zeros) {
  graph g;
  const node_value x = leaf(g, "x", {2, 4, 1}), position = leaf(g, "position", {}, dtype::i32);
  g.add_output("y", narrow<1, 2>(x, position));
  const std::vector<std::vector<double>> expected{{0, 0, 0, 0},   {0, 2, 0, 12}, {2, 3, 12, 13}, {3, 4, 13, 14},
                                                  {4, 5, 14, 15}, {5, 0, 15, 0}, {0, 0, 0, 0}};
  for (int at = -2; at <= 4; ++at) {
    oracle::interpreter<double> run(g, {{"x", {{2, 4, 1}, {2, 3, 4, 5, 12, 13, 14, 15}}},
                                        {"position", {{}, {static_cast<double>(at)}, dtype::i32}}});
    EXPECT_EQ(run.run().at("y").values, expected[static_cast<std::size_t>(at + 2)]) << at;
  }
}

// One element a row, vectors of four, and what is no multiple of them; before, inside, over the end.
TEST(runtime_narrow, devices_read_and_write_what_the_oracle_does) {
  for (const dtype type : {dtype::f32, dtype::bf16, dtype::i32}) {
    for (const std::int64_t inner : {1, 3, 8}) {
      graph g;
      const node_value x = leaf(g, "x", {2, 9, inner}, type), rows = leaf(g, "rows", {2, 4, inner}, type);
      const node_value position = leaf(g, "position", {}, dtype::i32);
      g.add_output("narrow", narrow(x, position, 1, 4));
      g.add_output("update", update_rows<1>(x, rows, position));
      for (const double at : {-2147483648.0, -3.0, 0.0, 2.0, 7.0, 2147483647.0}) {
        SCOPED_TRACE(fmt::format("{} {} {}", to_string(type), inner, at));
        support::expect_matches_oracle(g, {{"x", oracle::random_tensor<double>({2, 9, inner}, 1, -9, 9, type)},
                                           {"rows", oracle::random_tensor<double>({2, 4, inner}, 2, -9, 9, type)},
                                           {"position", {{}, {at}, dtype::i32}}});
      }
    }
  }
}

// A cache [2, 6, inner] that takes `count` rows a step, and what is read of it.
graph cache(std::int64_t inner, std::int64_t count, bool old_is_read) {
  graph g;
  const node_value kept(g, g.state("cache", dtype::f32, {2, 6, inner}));
  const node_value rows = leaf(g, "rows", {2, count, inner}), position = leaf(g, "position", {}, dtype::i32);
  const node_value next = update_rows<1>(kept, rows, position);
  g.assign(kept, next);
  g.add_output("sum", sum<1>(next * 2.0f));
  if (old_is_read) g.add_output("old", kept);
  return g;
}

TEST(runtime_narrow, a_state_is_updated_where_it_lies_and_by_its_rows_alone) {
  for (const bool old_is_read : {false, true}) {
    const graph g = cache(4, 2, old_is_read);
    const plan::execution_plan p = plan::make_plan(fusion::optimize(g), plan::make_layout(g));
    plan::verify(p);
    std::size_t updates = 0;
    for (const plan::step& each : p.steps) {
      if (each.kind != plan::step::kernel || p.implementation[each.node].kind != op::update_rows) continue;
      ++updates;
      EXPECT_EQ(each.bindings[0].where.overlaps(each.bindings[3].where), !old_is_read);
      const kernels::kernel_dispatch made = kernels::generate(p, each, support::shared_profile());
      EXPECT_EQ(made.module.name, "update_rows 16 of 48");
    }
    EXPECT_EQ(updates, 1u);
  }
}

TEST(runtime_narrow, a_cache_holds_from_run_to_run_what_was_written) {
  for (const std::int64_t inner : {1, 4}) {
    for (const bool old_is_read : {false, true}) {
      const graph g = cache(inner, 2, old_is_read);
      inference device(support::shared_device(), g, {.program = {.checks = checks::none}});
      oracle::interpreter<double> truth(g, {{"cache", oracle::tensor<double>({2, 6, inner})}});
      for (const std::int32_t at : {0, 2, 4, 3, -1, 5}) {
        const oracle::tensor<double> rows = oracle::random_tensor({2, 2, inner}, static_cast<std::uint64_t>(at + 9));
        truth.leaves["rows"] = rows;
        truth.leaves["position"] = {{}, {static_cast<double>(at)}, dtype::i32};
        truth.clear();
        const auto expected = truth.run();
        std::vector<float> values;
        for (const double each : rows.values) values.push_back(static_cast<float>(each));
        device.start({{"rows", values}, {"position", std::vector<std::int32_t>{at}}});
        for (const auto& [name, value] : expected) {
          const std::vector<float> found = device.read(name);
          ASSERT_EQ(found.size(), value.values.size());
          for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], value.values[i], 1e-5) << name << at;
        }
      }
    }
  }
}

TEST(runtime_narrow, gradients_agree_with_differences) {
  graph g;
  const node_value x = leaf(g, "x", {5, 3}), rows = leaf(g, "rows", {2, 3}), position = leaf(g, "at", {}, dtype::i32);
  const node_value y = update_rows(x * x, rows, position) * x, z = narrow<0, 3>(x * x, position);
  for (const double at : {-1.0, 0.0, 2.0, 4.0}) {
    const oracle::tensors<double> leaves = {{"x", oracle::random_tensor({5, 3}, 1, -1, 1)},
                                            {"rows", oracle::random_tensor({2, 3}, 2, -1, 1)},
                                            {"at", {{}, {at}, dtype::i32}}};
    EXPECT_LT(oracle::gradient_error(g, y, {x, rows}, leaves), oracle::gradient_tolerance) << at;
    EXPECT_LT(oracle::second_gradient_error(g, y, {x, rows}, leaves), oracle::gradient_tolerance) << at;
    EXPECT_LT(oracle::gradient_error(g, z, {x}, leaves), oracle::gradient_tolerance) << at;
  }
}

// Where x is nothing but zeros, and where rows of it are replaced by zeros.
TEST(runtime_narrow, gradients_run_on_a_device) {
  graph g;
  const node_value x = leaf(g, "x", {5, 3}), rows = leaf(g, "rows", {2, 3}), position = leaf(g, "at", {}, dtype::i32);
  const node_value y = update_rows(x, rows, position) * x, z = narrow<0, 3>(x * x, position);
  const node_id loss = sum<0, 1>(y * y) + sum<0, 1>(z), wrt[] = {x, rows};
  const std::vector<node_id> slopes = gradients(g, loss, wrt);
  g.add_output("of x", slopes[0]);
  g.add_output("of rows", slopes[1]);
  const std::vector<float> in_x{1, 2, 3, -1, -2, -3, 4, 5, 6, -4, -5, -6, 0.5f, 0.25f, 2}, in_rows{3, 2, 1, -1, 2, -3};
  oracle::interpreter<double> truth(g, {{"x", {{5, 3}, {in_x.begin(), in_x.end()}}},
                                        {"rows", {{2, 3}, {in_rows.begin(), in_rows.end()}}},
                                        {"at", {{}, {2}, dtype::i32}}});
  const auto expected = truth.run();
  inference device(support::shared_device(), g);
  device.start({{"x", in_x}, {"rows", in_rows}, {"at", std::vector<std::int32_t>{2}}});
  for (const auto& [name, value] : expected) {
    const std::vector<float> found = device.read(name);
    EXPECT_EQ(std::vector<double>(found.begin(), found.end()), value.values) << name;
  }
}

struct both {
  static constexpr auto forward(value auto x, value auto rows, value auto start) {
    return narrow<-2, sym<"taken">>(update_rows<1>(x, rows, start), start);
  }
};
using typed = model<both, input<"x", dtype::f32, dims<2, 8, 3>>, input<"rows", dtype::f32, dims<2, sym<"given">, 3>>,
                    input<"start", dtype::i32, dims<>>>;

TEST(runtime_narrow, types_and_run_time_give_the_same_nodes) {
  graph g;
  const symbol_extent sizes[] = {{"taken", 4}, {"given", 2}};
  const node_id lowered = lower_into<typed>(g, sizes)[0];
  const std::string before = to_text(g);
  const auto input_of = [&](const char* name) { return node_value(g, g.find_leaf(name)); };
  const node_value built =
      narrow(update_rows<1>(input_of("x"), input_of("rows"), input_of("start")), input_of("start"), -2, 4);
  EXPECT_EQ(built.id(), lowered);
  EXPECT_EQ(to_text(g), before);
}

TEST(runtime_narrow, mistakes_are_sentences) {
  graph g;
  const node_value x = leaf(g, "x", {4, 2}), more = leaf(g, "more", {5, 2}), real = leaf(g, "real", {});
  const node_value at = leaf(g, "at", {}, dtype::i32);
  const auto refusal = [](const auto& call) { return support::sentence_of(call); };
  EXPECT_EQ(refusal([&] { (void)narrow(x, real, 0, 2); }),
            "narrow<axis, length>(x, start): start must be one i32, of shape []; found f32 [4, 2], f32 []");
  EXPECT_EQ(
      refusal([&] { (void)narrow(x, at, 0, 5); }),
      "narrow<axis, length>(x, start): there is no such axis, or it is shorter than length; found f32 [4, 2], i32 "
      "[]");
  EXPECT_EQ(refusal([&] { (void)update_rows(x, more, at); }),
            "update_rows<axis>(x, rows, position): rows must have x's dtype and shape but for the axis, and no more of "
            "them; found f32 [4, 2], f32 [5, 2], i32 []");
  const symbol_extent sizes[] = {{"taken", 4}, {"given", 9}};
  EXPECT_EQ(refusal([&] { (void)lower<typed>(sizes); }),
            "update_rows of [2, 8, 3] along axis 1 by rows [2, 9, 3] from i32 [] on: the rows must have the other "
            "extents of the first and at most as many rows, and the position must be one i32");
}

TEST(runtime_narrow, checks_name_a_position_that_leaves_rows_out) {
  inference net(support::shared_device(), cache(4, 2, false), {.program = {.checks = checks::indices}});
  const std::vector<float> rows(16, 1.0f);
  EXPECT_NO_THROW(net.run({{"rows", rows}, {"position", std::vector<std::int32_t>{4}}}));
  EXPECT_EQ(support::sentence_of([&] {
              net.run({{"rows", rows}, {"position", std::vector<std::int32_t>{5}}});
            }),
            "run 2: position = 5: update_rows takes 2 of the 6 rows of [2, 6, 4]; it must be 0 to 4");
}

}  // namespace
