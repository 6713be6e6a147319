// SPDX-License-Identifier: MIT
// The table of dtypes: bytes, ranges, and floats between bits and numbers, against the oracle's own layout.
#include <meganeura/core/dtype.hpp>
#include <meganeura/core/float_format.hpp>
#include <meganeura/graph/scalar.hpp>

#include <oracle/tensor.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace {

using namespace meganeura;

static_assert(storage_bytes(dtype::f32, 3) == 12 && storage_bytes(dtype::bf16, 3) == 6 &&
              storage_bytes(dtype::boolean, 3) == 0);
static_assert(lowest(dtype::i32) == -2147483648.0 && highest(dtype::i32) == 2147483647.0 && lowest(dtype::u32) == 0 &&
              highest(dtype::u32) == 4294967295.0);
static_assert(lowest(dtype::i8) == -128 && highest(dtype::i8) == 127 && highest(dtype::u8) == 255 &&
              storage_bytes(dtype::u8, 3) == 3 && !holds_sums(dtype::u8) && holds_sums(dtype::i32));
static_assert(std::is_same_v<detail::host_number<dtype::u8>, std::uint8_t> &&
              std::is_same_v<detail::host_number<dtype::i8>, std::int8_t> &&
              std::is_same_v<detail::host_number<dtype::bf16>, float>);
static_assert(same_storage(dtype::f16, dtype::bf16) && !same_storage(dtype::f16, dtype::f32));
static_assert(is_narrow(dtype::bf16) && !is_narrow(dtype::f32) && !exists(static_cast<dtype>(dtype_count)));

TEST(core_dtype, every_narrow_float_is_a_float_and_back) {
  for (const dtype type : {dtype::f16, dtype::bf16}) {
    const float_format format(type);
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const float value = format.decode(bits);
      const double expected = oracle::value_of_bits(bits, type);
      ASSERT_TRUE(static_cast<double>(value) == expected || (std::isnan(value) && std::isnan(expected))) << bits;
      ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << bits;
      ASSERT_EQ(std::signbit(expected), (bits & 0x8000) != 0) << bits;
      if (std::isnan(value))
        ASSERT_GT(format.magnitude(format.encode(value)), format.infinity()) << bits;
      else
        ASSERT_EQ(format.encode(value), bits);
    }
  }
}

TEST(core_dtype, floats_are_rounded_to_the_nearest_ties_to_even) {
  std::mt19937 random(1);
  for (const dtype type : {dtype::f32, dtype::f16, dtype::bf16}) {
    const float_format format(type);
    for (int i = 0; i < 200'000; ++i) {
      const auto bits = static_cast<std::uint32_t>(random());
      const float value = std::bit_cast<float>(i % 2 ? bits : bits & 0xffffe000u);  // ties
      if (std::isnan(value)) continue;
      const double wide = static_cast<double>(value);
      ASSERT_EQ(format.encode(value), oracle::bits_of_value(wide, type)) << value;
      ASSERT_EQ(rounded_to(wide, type), oracle::nearest(wide, type)) << value;
      const double more = wide * (1 + 0x1p-40);  // rounded once, not by way of f32
      ASSERT_EQ(rounded_to(more, type), oracle::nearest(more, type)) << value;
    }
    EXPECT_TRUE(std::isnan(format.decode(format.encode(std::numeric_limits<float>::quiet_NaN()))));
  }
  EXPECT_EQ(rounded_to(257, dtype::bf16), 256);
  EXPECT_EQ(rounded_to(259, dtype::bf16), 260);
  EXPECT_EQ(rounded_to(-3.4e38, dtype::bf16), -std::numeric_limits<double>::infinity());
}

TEST(core_dtype, integers_wrap_around) {
  EXPECT_EQ(rounded_to(-2.5, dtype::i32), -2);
  EXPECT_EQ(rounded_to(-1, dtype::u32), 4294967295.0);
  EXPECT_EQ(rounded_to(2147483648.0, dtype::i32), -2147483648.0);
  EXPECT_EQ(rounded_to(-2147483649.0, dtype::i32), 2147483647.0);
  EXPECT_EQ(rounded_to(300, dtype::u8), 44);
  EXPECT_EQ(rounded_to(-1, dtype::u8), 255);
  EXPECT_EQ(rounded_to(200, dtype::i8), -56);
  EXPECT_FALSE(std::signbit(rounded_to(-0.5, dtype::i32)));
}

}  // namespace
