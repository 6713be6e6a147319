// SPDX-License-Identifier: MIT
// Tensors of 8-bit integers on the device: inputs, results, parameters and states, each number against plain C++.
#include <meganeura/operations.hpp>
#include <meganeura/runtime/inference.hpp>
#include <meganeura/runtime/session.hpp>

#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace {

using namespace meganeura;
using bytes = std::vector<std::uint8_t>;
using small_integers = std::vector<std::int8_t>;

constexpr int count = 259;  // not a multiple of what a load takes

bytes every_byte() {
  bytes all(count);
  std::iota(all.begin(), all.end(), std::uint8_t{});
  return all;
}

struct of_images {
  static constexpr auto forward(value auto image, value auto level) {
    auto bright = cast<dtype::u8>(greater(image, level));
    auto scaled = cast<dtype::f32>(image) / constant<255.0f>;
    return results<"bright", "scaled", "count">(bright, scaled, sum(cast<dtype::i32>(bright)));
  }
};
using model_of_images = model<of_images, input<"image", dtype::u8, dims<7, 37>>, input<"level", dtype::u8, dims<37>>>;

TEST(runtime_bytes, images_are_bound_as_bytes_and_comparisons_are_stored_as_bytes) {
  session<model_of_images> s(support::shared_device());
  const bytes image = every_byte();
  bytes level(37);
  for (std::size_t i = 0; i < level.size(); ++i) level[i] = static_cast<std::uint8_t>(7 * i);
  const auto found = s.run(bind<"image">(image), bind<"level">(level));
  const bytes bright = found.get<"bright">();
  ASSERT_EQ(bright.size(), image.size());
  int expected_count = 0;
  for (std::size_t i = 0; i < image.size(); ++i) {
    const bool holds = image[i] > level[i % 37];
    expected_count += holds;
    ASSERT_EQ(bright[i], holds ? 1 : 0) << i;
    ASSERT_FLOAT_EQ(found.get<"scaled">()[i], static_cast<float>(image[i]) / 255) << i;
  }
  EXPECT_EQ(found.get<"count">()[0], expected_count);
}

template <class Result, class Operand>
std::vector<Result> of(const std::vector<Operand>& x, const std::function<node_value(node_value)>& function) {
  graph g;
  const dtype type = detail::dtype_of<Operand>;
  g.add_output("y", function(node_value(g, g.input("x", type, {static_cast<std::int64_t>(x.size())}))));
  inference run(support::shared_device(), g, {.program = {.checks = checks::none}});
  run.start({{"x", x}});
  return run.template read<Result>("y");
}

template <class Result, class Operand>
std::vector<Result> each(const std::vector<Operand>& x, const std::function<long(long)>& function) {
  std::vector<Result> y;
  for (const Operand value : x) y.push_back(static_cast<Result>(function(value)));
  return y;
}

TEST(runtime_bytes, what_is_computed_is_stored_modulo_256_between_operations) {
  const bytes x = every_byte();
  const auto number = [](node_value like, double value) { return like.added(detail::constant_spec(value, dtype::u8)); };
  // Fused or not: (x + 200) / 3 of the stored sum.
  EXPECT_EQ(of<std::uint8_t>(x, [&](auto v) { return (v + number(v, 200)) / number(v, 3); }),
            (each<std::uint8_t>(x, [](long v) { return (v + 200) % 256 / 3; })));
  EXPECT_EQ(of<std::int32_t>(x, [&](auto v) { return cast(v * v, dtype::i32); }),
            (each<std::int32_t>(x, [](long v) { return v * v % 256; })));
  EXPECT_EQ(of<std::uint8_t>(x, [&](auto v) { return bitwise_not(v); }),
            (each<std::uint8_t>(x, [](long v) { return 255 - v; })));
  EXPECT_EQ(of<std::int8_t>(x, [](auto v) { return reinterpret<dtype::i8>(v); }),
            (each<std::int8_t>(x, [](long v) { return v < 128 ? v : v - 256; })));
  small_integers s;
  for (const std::uint8_t each : x) s.push_back(static_cast<std::int8_t>(each));
  EXPECT_EQ(of<std::int8_t>(s, [](auto v) { return -v; }), (each<std::int8_t>(s, [](long v) { return -v; })));
  EXPECT_EQ(of<std::int32_t>(s, [](auto v) { return cast(abs(v), dtype::i32); }),
            (each<std::int32_t>(s, [](long v) { return v == -128 ? -128 : std::abs(v); })));
}

TEST(runtime_bytes, casts_of_floats_saturate_and_those_of_integers_wrap) {
  const float none = std::numeric_limits<float>::quiet_NaN(), most = std::numeric_limits<float>::infinity();
  const std::vector<float> x{0,  -0.9f,   0.9f, 254.9f, 255,    256,   1e30f, most,
                             -1, -127.9f, -128, -129,   -1e30f, -most, none};
  EXPECT_EQ(of<std::uint8_t>(x, [](auto v) { return cast(v, dtype::u8); }),
            (bytes{0, 0, 0, 254, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(of<std::int8_t>(x, [](auto v) { return cast(v, dtype::i8); }),
            (small_integers{0, 0, 0, 127, 127, 127, 127, 127, -1, -127, -128, -128, -128, -128, 0}));
  const std::vector<std::int32_t> whole{-257, -256, -129, -1, 128, 255, 256, 300, 1 << 30};
  EXPECT_EQ(of<std::uint8_t>(whole, [](auto v) { return cast(v, dtype::u8); }),
            (bytes{255, 0, 127, 255, 128, 255, 0, 44, 0}));
  EXPECT_EQ(of<std::int8_t>(whole, [](auto v) { return cast(v, dtype::i8); }),
            (small_integers{-1, 0, 127, -1, -128, -1, 0, 44, 0}));
}

TEST(runtime_bytes, they_are_ordered_moved_and_looked_up_like_other_numbers) {
  bytes x = every_byte();
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::uint8_t>(89 * i + 7);
  bytes sorted = x, reversed(x.rbegin(), x.rend());
  std::ranges::sort(sorted);
  EXPECT_EQ(of<std::uint8_t>(x, [](auto v) { return sort(v, 0); }), sorted);
  EXPECT_EQ(of<std::uint8_t>(x, [](auto v) { return flip(v, 0); }), reversed);
  EXPECT_EQ(of<std::uint8_t>(x, [](auto v) { return max(v, 0); })[0], 255);
  EXPECT_EQ(of<std::int32_t>(x, [](auto v) { return argmin(v, 0); })[0],
            std::ranges::find(x, std::uint8_t{0}) - x.begin());
  bytes twice = x;
  twice.insert(twice.end(), reversed.begin(), reversed.end());
  EXPECT_EQ(of<std::uint8_t>(x, [](auto v) { return concat(0, v, flip(v, 0)); }), twice);
  EXPECT_EQ(of<std::uint8_t>(x, [](auto v) { return gather(v, argsort(v, 0), 0); }), sorted);
}

TEST(runtime_bytes, parameters_and_states_of_bytes_keep_their_neighbours) {
  graph g;
  const node_value w(g, g.parameter("w", dtype::u8, {5})), seen(g, g.state("seen", dtype::u8, {5}, init::constant(0)));
  const node_value at(g, g.input("at", dtype::i32, shape{}));
  const node_value one(g, g.full({1}, 9, dtype::u8));
  g.assign(seen, update_rows(seen, one, at));
  g.add_output("w", w + seen);
  const bytes weights{250, 251, 252, 253, 254};
  inference run(support::shared_device(), g);
  run.parameters().set_bytes("w", std::as_bytes(std::span(weights)));
  const std::string path = testing::TempDir() + "bytes.safetensors";
  run.parameters().save(path);
  run.parameters().set_bytes("w", std::vector<std::byte>(5));
  run.parameters().load(path);
  run.start({{"at", std::vector<std::int32_t>{1}}});
  run.start({{"at", std::vector<std::int32_t>{3}}});
  EXPECT_EQ(run.read<std::uint8_t>("w"), (bytes{250, 4, 252, 253, 254}));
  const std::vector<std::byte> state = run.parameters().get_bytes("seen");
  EXPECT_EQ(state, (std::vector<std::byte>{{}, std::byte{9}, {}, std::byte{9}, {}}));
}

TEST(runtime_bytes, constants_alone_are_stored) {
  graph g;
  g.add_output("byte", g.full({3, 5}, 200, dtype::u8));
  g.add_output("small", g.full({7}, -3, dtype::i8));
  g.add_output("half", g.full({3}, -1.5, dtype::bf16));
  inference run(support::shared_device(), g);
  run.start(std::span<const input_values>());
  EXPECT_EQ(run.read<std::uint8_t>("byte"), bytes(15, 200));
  EXPECT_EQ(run.read<std::int8_t>("small"), small_integers(7, -3));
  EXPECT_EQ(run.read("half"), std::vector<float>(3, -1.5f));
}

TEST(runtime_bytes, sums_of_bytes_and_numbers_of_other_types_are_refused) {
  graph g;
  const node_value x(g, g.input("x", dtype::u8, {3}));
  EXPECT_EQ(support::sentence_of([&] { (void)sum(x); }),
            "sum<axes...>(x): x has 8 bits, too little for a sum; cast it; found u8 [3]");
  EXPECT_EQ(support::sentence_of([&] { (void)cumprod(x, 0); }),
            "cumprod<axis>(x): x has 8 bits, too little for a sum; cast it; found u8 [3]");
  EXPECT_EQ(support::sentence_of([&] { (void)g.reduce(reduce_kind::product, x, 1); }),
            "product of u8[3]: that does not hold sums; cast it");
  EXPECT_EQ(support::sentence_of([&] { (void)g.full(shape{3}, 300, dtype::u8); }).substr(0, 60),
            "constant: 300 was asked for as u8, which holds whole numbers");
}

}  // namespace
