// SPDX-License-Identifier: MIT
// gather and its adjoint on the device against the oracle.
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/fusion/optimize.hpp>
#include <meganeura/kernels/gather.hpp>
#include <meganeura/plan/plan.hpp>

#include <support/device_fixture.hpp>

#include <gtest/gtest.h>

#include <cstdint>

using namespace meganeura;

namespace {

struct gather_case {
  shape data;
  int axis;
  shape indices;
};

const gather_case cases[] = {
    {{10, 8}, 0, {5}}, {{7, 3}, 0, {2, 4}},    {{4, 6, 5}, 1, {9}},  {{3, 5}, 1, {}},       {{50, 12}, 0, {700}},
    {{1, 1}, 0, {1}},  {{2, 300, 2}, 1, {17}}, {{40, 8}, 0, {3000}}, {{700, 8}, 0, {2, 5}}, {{3, 400, 5}, 1, {6}},
};

void expect_gather(const gather_case& each, dtype type) {
  graph g;
  const node_id data = g.input("data", type, each.data), indices = g.input("indices", dtype::i32, each.indices);
  const node_id rows = g.gather(data, indices, each.axis);
  g.add_output("rows", rows);
  const node_id updates = g.input("updates", type, g[rows].extents);
  g.add_output("sums", g.scatter_add(indices, updates, each.axis, each.data));
  const double last = static_cast<double>(each.data[each.axis]);
  support::expect_matches_oracle(g,
                                 {{"data", oracle::random_tensor<double>(each.data, 1, -9, 9, type)},
                                  {"indices", oracle::random_tensor<double>(each.indices, 2, 0, last, dtype::i32)},
                                  {"updates", oracle::random_tensor<double>(g[rows].extents, 3, -9, 9, type)}},
                                 each.indices.elements());
}

TEST(kernels_gather, rows_along_any_axis_and_back) {
  for (const gather_case& each : cases) expect_gather(each, dtype::f32);
}

TEST(kernels_gather, integers_and_half_precision) {
  for (const gather_case& each : cases) expect_gather(each, dtype::i32);
  if (!support::shared_profile().f16) GTEST_SKIP() << "needs f16";
  for (const gather_case& each : cases) expect_gather(each, dtype::f16), expect_gather(each, dtype::bf16);
}

TEST(kernels_gather, indices_out_of_range_read_zeros_and_add_nothing) {
  const double first = -2147483648.0, last = 2147483647.0;
  const oracle::tensor<double> indices({9}, {0, -1, 4, 2, 5, first, last, -100, 6}, dtype::i32);
  for (const shape& data : {shape{5, 8}, shape{5, 3}}) {
    graph g;
    const node_id at = g.input("indices", dtype::i32, {9});
    const node_id rows = g.gather(g.input("data", dtype::f32, data), at, 0);
    g.add_output("rows", rows);
    g.add_output("sums", g.scatter_add(at, g.input("updates", dtype::f32, shape{9, data[1]}), 0, data));
    const oracle::tensors<double> leaves{{"data", oracle::random_tensor(data, 1)},
                                         {"indices", indices},
                                         {"updates", oracle::random_tensor(shape{9, data[1]}, 3)}};
    support::expect_matches_oracle(g, leaves, 9);
    const auto found = support::device_graph(g, support::shared_profile()).run(leaves).at("rows");
    for (std::int64_t i = 0; i < found.extents.elements(); ++i) {
      const std::int64_t row = i / data[1];
      EXPECT_EQ(found[i] != 0, row == 0 || row == 2 || row == 3) << i;
    }
  }
}

struct index_add_graph {
  graph g;
  oracle::tensors<double> leaves;
};
// Half of the indices are one of three rows, one in eight is none.
oracle::tensor<double> crowded_indices(const gather_case& each) {
  const std::int64_t last = each.data[each.axis];
  oracle::tensor<double> found =
      oracle::random_tensor<double>(each.indices, 2, -1, static_cast<double>(last + 1), dtype::i32);
  for (std::size_t i = 0; i < found.values.size(); ++i) {
    if (i % 2 == 1) found.values[i] = static_cast<double>(last / 3 + static_cast<std::int64_t>(i / 2 % 3));
    if (i % 8 == 4) found.values[i] = i % 16 == 4 ? -1 : static_cast<double>(last);
  }
  return found;
}

index_add_graph adding(const gather_case& each) {
  index_add_graph made;
  graph& g = made.g;
  const node_id x = g.input("x", dtype::f32, each.data), at = g.input("indices", dtype::i32, each.indices);
  const shape updated = g[g.gather(x, at, each.axis)].extents;  // a node that no output needs
  const node_id updates = g.input("updates", dtype::f32, updated);
  g.add_output("sums", g.apply(op::index_add, axis_attribute{each.axis}, {x, at, updates}));
  made.leaves = {{"x", oracle::random_tensor<double>(each.data, 1)},
                 {"indices", crowded_indices(each)},
                 {"updates", oracle::random_tensor<double>(updated, 3)}};
  return made;
}

TEST(kernels_gather, updates_are_added_into_another_tensor) {
  for (const gather_case& each : cases) {
    const index_add_graph made = adding(each);
    support::expect_matches_oracle(made.g, made.leaves, each.indices.elements() + 1);
  }
}

TEST(kernels_gather, updates_are_added_where_the_tensor_lies) {
  const device& gpu = support::shared_device();
  for (const device_profile& on : support::all_targets()) {
    for (const gather_case& each : cases) {
      const index_add_graph made = adding(each);
      const auto uploaded = [&](const char* name) {
        const std::vector<std::byte> bytes = support::stored_bytes(made.leaves.at(name));
        const vulkan::buffer memory = gpu.allocate((bytes.size() + 15) / 16 * 16);
        gpu.upload(memory, 0, bytes);
        return memory;
      };
      const vulkan::buffer x = uploaded("x");
      const kernels::kernel_dispatch kernel =
          kernels::make_index_add(each.data, each.indices, each.axis, dtype::f32, true, on);
      vulkan::recorder recorder(gpu);
      recorder.dispatch(gpu.create_pipeline(kernel.module), {{x}, {uploaded("indices")}, {uploaded("updates")}, {x}},
                        kernel.groups);
      gpu.submit(recorder.finish());
      const auto bytes = static_cast<std::uint64_t>(each.data.bytes(dtype::f32));
      auto ticket = gpu.read_back(x, 0, bytes);
      const oracle::tensor<double> found = support::loaded(ticket.data(), dtype::f32, each.data);
      const oracle::tensor<double> expected = oracle::interpreter<double>(made.g, made.leaves).run().at("sums");
      EXPECT_LE(oracle::relative_error(found, expected), oracle::tolerance(dtype::f32, each.indices.elements() + 1));
    }
  }
}

// The gradient of embeddings that are the last layer's weights too: rows are added where the product's gradient lies.
TEST(kernels_gather, the_gradient_of_tied_embeddings_is_one_table) {
  graph g;
  const node_id table = g.parameter("table", dtype::f32, {4000, 64}), at = g.input("at", dtype::i32, {6});
  const node_id logits = g.contract(g.map(scalar_op::tanh, {g.gather(table, at, 0)}), table, "ik", "jk", "ij");
  const node_id loss = g.reduce(reduce_kind::sum, g.map(scalar_op::multiply, {logits, logits}), 0b11);
  g.add_output("loss", loss);
  g.add_output("gradient", gradients(g, loss, std::vector<node_id>{table})[0]);
  const plan::execution_plan p = plan::make_plan(fusion::optimize(g), plan::make_layout(g));
  plan::verify(p);
  int added = 0;
  for (const plan::step& each : p.steps) {
    const op kind = p.implementation[each.node].kind;
    EXPECT_NE(kind, op::scatter_add);
    if (kind != op::index_add) continue;
    ++added;
    EXPECT_FALSE(plan::overwritten_operands(each).empty());
  }
  EXPECT_EQ(added, 1);
}

TEST(kernels_gather, elements_along_any_axis_and_back) {
  const gather_case along[] = {{{10, 8}, 0, {5, 8}}, {{4, 6, 5}, 1, {4, 9, 5}}, {{3}, 0, {5000}}, {{3, 7}, 1, {3, 1}}};
  for (const gather_case& each : along) {
    for (const dtype type : {dtype::f32, dtype::i32, dtype::f16}) {
      if (type == dtype::f16 && !support::shared_profile().f16) continue;
      graph g;
      const node_id data = g.input("data", type, each.data), indices = g.input("indices", dtype::i32, each.indices),
                    updates = g.input("updates", type, each.indices);
      g.add_output("taken", g.apply(op::take_along, axis_attribute{each.axis}, {data, indices}));
      for (const reduce_kind kind : {reduce_kind::sum, reduce_kind::max}) {
        if (kind == reduce_kind::max && type != dtype::i32) continue;
        g.add_output(info(kind).name,
                     g.apply(op::scatter_along, scatter_attribute{each.axis, kind}, {indices, updates}, each.data));
      }
      const double last = static_cast<double>(each.data[each.axis]);
      support::expect_matches_oracle(g,
                                     {{"data", oracle::random_tensor<double>(each.data, 1, -9, 9, type)},
                                      {"indices", oracle::random_tensor<double>(each.indices, 2, -1, last, dtype::i32)},
                                      {"updates", oracle::random_tensor<double>(each.indices, 3, -9, 9, type)}},
                                     each.indices[each.axis]);
    }
  }
}

TEST(kernels_gather, scatter_add_repeats_bit_for_bit) {
  graph g;
  const node_id indices = g.input("indices", dtype::i32, {1000}), updates = g.input("updates", dtype::f32, {1000, 4});
  g.add_output("sums", g.scatter_add(indices, updates, 0, {3, 4}));
  const oracle::tensors<double> leaves{{"indices", oracle::random_tensor<double>({1000}, 2, 0, 3, dtype::i32)},
                                       {"updates", oracle::random_tensor({1000, 4}, 3)}};
  support::device_graph device(g, support::shared_profile());
  EXPECT_EQ(device.run(leaves).at("sums").values, device.run(leaves).at("sums").values);
}

}  // namespace
