// SPDX-License-Identifier: MIT
// Integers bound to an input of floats.
// expect: meganeura: bind<name>\(range\): the input has another dtype
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
using element = int;
#else
using element = float;
#endif

struct classifier {
  static constexpr auto forward(mn::value auto image) { return mn::linear<"fc", 10>(image); }
};
using model = mn::model<classifier, mn::input<"image", mn::dtype::f32, mn::dims<4, 784>>>;

struct pixels {
  const element* values;
  const element* data() const { return values; }
  std::size_t size() const { return 4 * 784; }
};
int position(const pixels& image) { return mn::checked_input_index<model>(mn::bind<"image">(image)); }
