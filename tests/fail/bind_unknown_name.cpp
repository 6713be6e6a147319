// SPDX-License-Identifier: MIT
// Data bound to a name the model does not have.
// expect: meganeura: bind<name>\(range\): there is no input of that name
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
#define NAME "images"
#else
#define NAME "image"
#endif

struct identity {
  static constexpr auto forward(mn::value auto image) { return mn::linear<"fc", 10>(image); }
};
using model = mn::model<identity, mn::input<"image", mn::dtype::f32, mn::dims<4, 784>>>;

struct pixels {
  const float* values;
  const float* data() const { return values; }
  std::size_t size() const { return 4 * 784; }
};
int position(const pixels& image) { return mn::checked_input_index<model>(mn::bind<NAME>(image)); }
