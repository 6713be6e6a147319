// SPDX-License-Identifier: MIT
// Elements that no tensor has: one error, whatever the input is.
// expect: meganeura: bind<name>\(range\): elements must be float or integers of 32 or 8 bits
#include <meganeura/frontend.hpp>

#include <array>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
using element = double;
#else
using element = float;
#endif

struct network {
  static constexpr auto forward(mn::value auto x) { return mn::linear<"fc", 10>(x); }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4, 4>>>;
int position(const std::array<element, 16>& x) { return mn::checked_input_index<model>(mn::bind<"x">(x)); }
