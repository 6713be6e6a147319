// SPDX-License-Identifier: MIT
// Shapes and ids refuse what they cannot mean: too many axes, extents below 1, counts beyond 64 bits, other tables'
// ids.
#include <meganeura/core/checked.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/core/id.hpp>
#include <meganeura/core/shape.hpp>
#include <meganeura/egraph/egraph.hpp>
#include <meganeura/expr/lower.hpp>
#include <meganeura/graph/graph.hpp>

#include <support/sentence_of.hpp>

#include <gtest/gtest.h>

#include <compare>
#include <concepts>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {
namespace {

constexpr std::int64_t huge = (std::int64_t{1} << 60) + 1;

TEST(core_shape, a_ninth_axis_is_refused) {
  shape eight{1, 2, 1, 2, 1, 2, 1, 2};
  EXPECT_EQ(support::refusal([&] { eight.push_back(3); }),
            "shape [1, 2, 1, 2, 1, 2, 1, 2]: cannot have another axis of 3; a tensor has at most 8 axes");
  EXPECT_NE(support::refusal([] { shape{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}; }), "no error");
  EXPECT_EQ(eight.rank(), 8);
}

TEST(core_shape, an_extent_below_one_is_refused) {
  EXPECT_EQ(support::refusal([] { shape{4, 0}; }), "shape [4, 0]: axis 1 cannot be 0; an extent is at least 1");
  EXPECT_NE(support::refusal([] { shape{-3}; }), "no error");
  shape square{4, 4};
  EXPECT_NE(support::refusal([&] { square.set(1, 0); }), "no error");
  EXPECT_EQ(square, (shape{4, 4}));
}

TEST(core_shape, a_count_beyond_the_limit_is_refused) {
  EXPECT_EQ(support::refusal([] {
              shape{huge, 784};
            }),
            "shape []: 1152921504606846977 along axis 0 makes more than 2^58 elements; choose smaller extents");
  EXPECT_NE(support::refusal([] { shape{1 << 30, 1 << 30}; }), "no error");
  shape wide{1 << 28, 1 << 30};
  EXPECT_NE(support::refusal([&] { wide.set(0, (1 << 28) + 1); }), "no error");
  EXPECT_EQ(wide.elements(), std::int64_t{1} << 58);
  EXPECT_EQ(wide.bytes(dtype::f32), std::int64_t{1} << 60);
}

TEST(core_shape, equality_looks_at_the_axes_alone) {
  shape a{2, 3, 4}, b{2, 3};
  EXPECT_NE(a, b);
  a.pop_back();
  EXPECT_EQ(a, b);
  a.pop_back(2);
  EXPECT_EQ(a, shape{});
}

TEST(core_shape, an_axis_that_does_not_exist_is_refused) {
  const shape pair{2, 3};
  for (int axis : {-1, 2, 8}) {
    EXPECT_THROW((void)pair[axis], error) << axis;
    EXPECT_THROW((void)pair.stride(axis), error) << axis;
  }
}

TEST(core_checked, results_beyond_64_bits_are_refused) {
  const checked_int largest = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(support::refusal([&] { (void)(largest + 1); }),
            "a size of 9223372036854775807 + 1 does not fit into 64 bits; choose smaller extents");
  EXPECT_NE(support::refusal([&] { (void)(-2 - largest); }), "no error");
  EXPECT_NE(support::refusal([&] { (void)(largest * 2); }), "no error");
  EXPECT_EQ(std::int64_t{checked_int(6) * 7 - 2 + 1}, 41);
}

TEST(core_checked, unsigned_operands_are_themselves_or_refused) {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(support::refusal([] { (void)(checked_int(1) + most); }),
            "a size of 18446744073709551615 is more than 63 bits; choose smaller extents");
  EXPECT_NE(support::refusal([] { (void)(most - checked_int(1)); }), "no error");
  EXPECT_NE(support::refusal([] { (void)(checked_int(2) * (most / 2 + 1)); }), "no error");
  EXPECT_NE(support::refusal([] { (void)checked_int(most); }), "no error");
  EXPECT_NE(support::refusal([] { checked_int(1) += most; }), "no error");
  EXPECT_EQ(std::int64_t{checked_int(most / 2) - 1}, std::numeric_limits<std::int64_t>::max() - 1);
  EXPECT_EQ(std::int64_t{checked_int(std::uint32_t{0xffffffff}) * true}, 0xffffffff);
}

TEST(core_shape, graphs_refuse_geometry_that_overflows) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {2, 3});
  const std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  const auto refused = [&](auto call) { EXPECT_NE(support::refusal(call), "no error"); };
  refused([&] { g.slice(x, 1, 1, largest, largest); });
  refused([&] { g.view(x, {3, 3}, {.offset = 0, .strides = {largest, largest}}); });
  const std::int64_t low[] = {largest, 0}, high[] = {largest, 0};
  refused([&] { g.pad(x, low, high); });
  refused([&] { g.iota((std::int64_t{1} << 31) + 1); });
  refused([&] { g.expand(x, {1 << 20, 1 << 20, 1 << 20, 2, 3}); });
  const node_id image = g.input("image", dtype::f32, {1, 1, 4, 4}), filter = g.input("w", dtype::f32, {1, 1, 3, 3});
  refused([&] {
    g.convolution(image, filter, {.pad_low = {largest, largest}, .pad_high = {largest, 1}}, {1, 1, 2, 2});
  });
  refused([&] { g.convolution(image, filter, {.dilation = {largest, largest}}, {1, 1, 2, 2}); });
  refused([&] { g.window_reduce(image, {.window = {2, 2}, .stride = {0, 0}}); });
  refused([&] { g.window_reduce(image, {.window = {2, 2}, .pad_low = {-1, 0}}); });
  refused([&] { g.window_reduce(image, {.spatial = 7}); });
  const node_id cubes[] = {x, g.input("cube", dtype::f32, {2, 3, 4})};
  refused([&] { g.concat(cubes, 1); });
}

TEST(core_shape, a_batch_that_overflows_is_refused) {
  constexpr dim batch = sym<"batch">;
  for (std::int64_t extent : {huge, std::numeric_limits<std::int64_t>::max()}) {
    const symbol_extent symbols[] = {{"batch", extent}};
    EXPECT_NE(support::refusal([&] { (void)bound(dims<batch * 16, 784>, symbols); }), "no error") << extent;
  }
}

// Ids are indices but neither integers nor each other.
static_assert(std::is_convertible_v<node_id, std::uint32_t> && !std::is_convertible_v<std::uint32_t, node_id>);
static_assert(!std::is_convertible_v<node_id, egraph::class_id> && !std::is_convertible_v<egraph::class_id, node_id>);
static_assert(!std::is_convertible_v<egraph::class_id, egraph::enode_id>);
// clang-format off
template <class A, class B>
concept equatable = requires(A a, B b) { a == b; } || requires(A a, B b) { a != b; };
template <class A, class B>
concept ordered = requires(A a, B b) { a < b; } || requires(A a, B b) { a <= b; } || requires(A a, B b) { a > b; } ||
                  requires(A a, B b) { a >= b; } || requires(A a, B b) { a <=> b; };
template <class A, class B>
concept summed = requires(A a, B b) { a + b; } || requires(A a, B b) { a - b; };
// clang-format on
static_assert(equatable<node_id, node_id> && ordered<node_id, node_id> && std::totally_ordered<node_id>);
static_assert(!equatable<node_id, egraph::class_id> && !equatable<egraph::class_id, node_id>);
static_assert(!ordered<node_id, egraph::class_id> && !ordered<egraph::class_id, node_id>);
static_assert(!summed<node_id, egraph::class_id> && !summed<egraph::class_id, egraph::enode_id>);
static_assert(ordered<node_id, std::size_t> && equatable<std::uint32_t, node_id> && summed<node_id, std::size_t>);
static_assert(std::is_convertible_v<no_id_t, node_id> && std::is_convertible_v<no_id_t, egraph::class_id>);

TEST(core_id, no_id_equals_no_entry) {
  EXPECT_TRUE(node_id(no_id) == no_id);
  EXPECT_FALSE(node_id{0} == no_id);
  std::vector<node_id> ids(3, no_id);
  EXPECT_EQ(ids[2], no_id);
}

}  // namespace
}  // namespace meganeura::inline MEGANEURA_ABI
