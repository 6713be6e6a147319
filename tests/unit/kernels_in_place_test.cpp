// SPDX-License-Identifier: MIT
// Row kernels whose result lies where an operand does: no invocation reads what another one stores.
#include <meganeura/kernels/region.hpp>

#include <support/device_fixture.hpp>

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <vector>

namespace {

using namespace meganeura;

/// What a module's words say of the loads from one binding. Instruction numbers: SPIR-V specification, section 3.
struct binding_reads {
  int by_all = 0, in_branches = 0;
  bool waits = false;  // for the others, once they have read
};

binding_reads reads_of(const spirv::module& kernel, std::uint32_t number) {
  binding_reads found;
  std::map<std::uint32_t, std::uint32_t> constants;
  std::set<std::uint32_t> variables, pointers;
  std::vector<std::uint32_t> merges;
  const std::vector<std::uint32_t>& w = kernel.words;
  for (std::size_t i = 5; i < w.size(); i += w[i] >> 16) {
    const std::uint32_t code = w[i] & 0xffff;
    if (code == 71 && w[i + 2] == 33 && w[i + 3] == number) variables.insert(w[i + 1]);
    if (code == 43) constants[w[i + 2]] = w[i + 3];
    if (code == 65 && variables.contains(w[i + 3])) pointers.insert(w[i + 2]);
    if (code == 247) merges.push_back(w[i + 1]);
    if (code == 248 && !merges.empty() && merges.back() == w[i + 1]) merges.pop_back();
    if (code == 61 && pointers.contains(w[i + 3])) ++(merges.empty() ? found.by_all : found.in_branches);
    if (code == 224) found.waits = (constants[w[i + 3]] & 0x40) != 0 && found.by_all + found.in_branches != 0;
  }
  return found;
}

/// Rows of x [rows, length] (stored transposed: `across`) reduced into s [rows], which the program reads, too.
region_attribute make_update(std::int64_t rows, std::int64_t length, bool across, const scalar_program& program) {
  index_map x{.source = 0}, s{.source = 1}, result;
  x.strides[0] = across ? 1 : length, x.strides[1] = across ? rows : 1;
  s.strides[0] = result.strides[0] = 1;
  return {.space = {rows, length},
          .row_axes = 1,
          .per_row = true,
          .program = program,
          .accesses = {x, s},
          .output = result};
}

oracle::tensor<double> run_in_place(const kernels::kernel_dispatch& made, const oracle::tensor<double>& x,
                                    const oracle::tensor<double>& s) {
  const vulkan::device& device = support::shared_device();
  const auto upload = [&](const oracle::tensor<double>& values) {
    const std::vector<std::byte> bytes = support::stored_bytes(values);
    const vulkan::buffer result = device.allocate(bytes.size());
    device.upload(result, 0, std::span<const std::byte>(bytes));
    return result;
  };
  const vulkan::buffer rows = upload(x), state = upload(s);
  vulkan::recorder recorder(device);
  recorder.dispatch(device.create_pipeline(made.module), {{rows, 0, 0}, {state, 0, 0}, {state, 0, 0}}, made.groups);
  device.submit(recorder.finish());
  return support::loaded(device.read_back(state).data(), dtype::f32, s.extents);
}

/// `read_by_reduction`: by all lanes of a row, which has to wait for them before it stores.
void expect_in_place(const scalar_program& program, bool read_by_reduction) {
  for (std::int64_t rows : {7, 64}) {
    for (std::int64_t length : {3, 600}) {
      for (bool across : {false, true}) {
        const region_attribute region = make_update(rows, length, across, program);
        graph g;
        const shape lies = across ? shape{length, rows} : shape{rows, length};
        const node_id operands[] = {g.input("x", dtype::f32, lies), g.input("s", dtype::f32, {rows})};
        g.add_output("y", g.add_node(op::region, dtype::f32, {rows}, region, operands));
        const oracle::tensors<double> leaves{{"x", oracle::random_tensor<double>(lies, 1)},
                                             {"s", oracle::random_tensor<double>({rows}, 2)}};
        const oracle::tensor<double> expected = oracle::interpreter<double>(g, leaves).run().at("y");
        for (const device_profile& on : support::all_targets()) {
          const dtype types[] = {dtype::f32, dtype::f32};
          const std::optional<std::size_t> overwritten[] = {1};
          const kernels::kernel_dispatch made =
              kernels::make_region(region, types, std::span(types).first(1), on, overwritten);
          SCOPED_TRACE(made.module.name + (across ? " across" : " along"));
          EXPECT_EQ(support::validation_of(made.module), "");
          const binding_reads reads = reads_of(made.module, 1);
          EXPECT_GT(reads.by_all + reads.in_branches, 0);
          const bool shares = made.module.subgroup_operations != 0 || made.module.shared_bytes != 0;
          const bool has_surplus = rows == 7 && made.groups != std::array{7u, 1u, 1u};  // powers of two lie on a group
          if (has_surplus || (shares && !read_by_reduction)) {
            EXPECT_EQ(reads.by_all, 0);
          }
          EXPECT_EQ(reads.waits, shares && read_by_reduction);
          EXPECT_LE(oracle::relative_error(run_in_place(made, leaves.at("x"), leaves.at("s")), expected),
                    oracle::tolerance(dtype::f32, length));
        }
      }
    }
  }
}

// s + the sum of the row over s, and x - s for each element, which every lane reads s for.
TEST(kernels_in_place, a_row_is_stored_over_what_its_elements_are_computed_from) {
  scalar_builder b;
  const scalar_ref x = b.argument(0, dtype::f32), s = b.argument(1, dtype::f32);
  scalar_ref results[] = {b.binary(scalar_op::subtract, x, s),
                          b.binary(scalar_op::add, s, b.unary(scalar_op::row_sum, x))};
  const scalar_program program = b.finish(results);
  for (const std::int64_t rows : {7, 64}) {
    for (const std::int64_t length : {3, 600}) {
      region_attribute region = make_update(rows, length, false, program);
      index_map elements = region.accesses[0];
      elements.source = 0;
      region.further = {{results[0], false, elements, dtype::f32, {rows, length}}};
      const oracle::tensor<double> in = oracle::random_tensor<double>({rows, length}, 1);
      const oracle::tensor<double> state = oracle::random_tensor<double>({rows}, 2);
      for (const device_profile& on : support::all_targets()) {
        const dtype types[] = {dtype::f32, dtype::f32};
        const std::optional<std::size_t> overwritten[] = {1};
        const kernels::kernel_dispatch made = kernels::make_region(region, types, types, on, overwritten);
        SCOPED_TRACE(made.module.name);
        EXPECT_EQ(support::validation_of(made.module), "");
        const bool shares = made.module.subgroup_operations != 0 || made.module.shared_bytes != 0;
        EXPECT_EQ(reads_of(made.module, 1).waits, shares);
        const vulkan::device& device = support::shared_device();
        const auto upload = [&](const oracle::tensor<double>& values) {
          const std::vector<std::byte> bytes = support::stored_bytes(values);
          const vulkan::buffer buffer = device.allocate(bytes.size());
          device.upload(buffer, 0, std::span<const std::byte>(bytes));
          return buffer;
        };
        const vulkan::buffer from = upload(in), kept = upload(state), out = upload(in);
        vulkan::recorder recorder(device);
        recorder.dispatch(device.create_pipeline(made.module), {{from, 0, 0}, {kept, 0, 0}, {kept, 0, 0}, {out, 0, 0}},
                          made.groups);
        device.submit(recorder.finish());
        oracle::tensor<double> total = state, rest = in;
        for (std::int64_t row = 0; row < rows; ++row) {
          for (std::int64_t i = 0; i < length; ++i) {
            total[row] += in[row * length + i];
            rest[row * length + i] -= state[row];
          }
        }
        const auto found = [&](const vulkan::buffer& buffer, const shape& extents) {
          return support::loaded(device.read_back(buffer).data(), dtype::f32, extents);
        };
        EXPECT_LE(oracle::relative_error(found(kept, {rows}), total), oracle::tolerance(dtype::f32, length));
        EXPECT_LE(oracle::relative_error(found(out, {rows, length}), rest), oracle::tolerance(dtype::f32, 1));
      }
    }
  }
}

TEST(kernels_in_place, who_stores_a_row_alone_reads_what_it_overwrites) {
  scalar_builder b;
  const scalar_ref total = b.unary(scalar_op::row_sum, b.argument(0, dtype::f32));
  expect_in_place(b.finish(b.binary(scalar_op::add, b.argument(1, dtype::f32), total)), false);
}

TEST(kernels_in_place, all_lanes_of_a_row_have_read_before_one_of_them_stores) {
  scalar_builder b;
  const scalar_ref x = b.argument(0, dtype::f32), s = b.argument(1, dtype::f32);
  const scalar_ref total = b.unary(scalar_op::row_sum, b.binary(scalar_op::multiply, x, s));
  expect_in_place(b.finish(b.binary(scalar_op::subtract, s, total)), true);
}

}  // namespace
