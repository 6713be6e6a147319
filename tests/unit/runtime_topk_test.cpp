// SPDX-License-Identifier: MIT
// The largest of rows that are too long for a workgroup, which are sorted in parts: values, places, ties, gradient.
#include <meganeura/meganeura.hpp>
#include <support/shared_device.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

using namespace meganeura;

namespace {

// Numbers of which many are equal.
std::vector<float> few_numbers(std::int64_t count, int different) {
  std::mt19937 random(7);
  std::vector<float> made(static_cast<std::size_t>(count));
  for (float& each : made) each = static_cast<float>(static_cast<int>(random() % static_cast<unsigned>(different)));
  return made;
}

// Places of the largest of a row, the first of equal ones first, NaN before all.
std::vector<std::int32_t> largest(const std::vector<float>& row, std::size_t count) {
  std::vector<std::int32_t> places(row.size());
  std::iota(places.begin(), places.end(), 0);
  const auto key = [&](std::int32_t i) {
    const float x = row[static_cast<std::size_t>(i)];
    return std::isnan(x) ? INFINITY : x;
  };
  std::ranges::stable_sort(places, [&](std::int32_t a, std::int32_t b) { return key(a) > key(b); });
  places.resize(count);
  return places;
}

struct row_case {
  shape extents;
  int axis;
  std::int64_t count;
  int different;
};

}  // namespace

TEST(runtime_topk, long_rows_along_any_axis) {
  for (const row_case& each :
       {row_case{{151936}, 0, 50, 1 << 20}, row_case{{2, 5000, 3}, 1, 7, 40}, row_case{{3, 12288}, -1, 256, 3000},
        row_case{{4097}, 0, 3, 4097}, row_case{{6000}, 0, 300, 100}, row_case{{4097}, 0, 256, 2}}) {
    SCOPED_TRACE(to_string(each.extents));
    graph g;
    const node_value x(g, g.input("x", dtype::f32, each.extents));
    const auto found = topk(x, each.count, each.axis);
    g.add_output("values", found.get<"values">());
    g.add_output("places", found.get<"places">());
    std::vector<float> numbers = few_numbers(each.extents.elements(), each.different);
    numbers[numbers.size() / 2] = NAN;
    inference run(support::shared_device(), g, {.program = {.checks = checks::none}});
    run.start({{"x", numbers}});
    const std::vector<float> values = run.read("values");
    const std::vector<std::int32_t> places = run.read<std::int32_t>("places");
    const int axis = each.axis < 0 ? each.axis + each.extents.rank() : each.axis;
    const auto length = static_cast<std::size_t>(each.extents[axis]), count = static_cast<std::size_t>(each.count);
    const auto inner = static_cast<std::size_t>(each.extents.stride(axis));
    for (std::size_t row = 0; row < numbers.size() / length; ++row) {
      std::vector<float> whole;
      const std::size_t outer = row / inner, at = row % inner;
      for (std::size_t i = 0; i < length; ++i) whole.push_back(numbers[(outer * length + i) * inner + at]);
      const std::vector<std::int32_t> wanted = largest(whole, count);
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t place = (outer * count + i) * inner + at;
        ASSERT_EQ(places[place], wanted[i]) << "row " << row << ", " << i;
        const float value = whole[static_cast<std::size_t>(wanted[i])];
        ASSERT_TRUE(values[place] == value || (std::isnan(value) && std::isnan(values[place]))) << values[place];
      }
    }
  }
}
