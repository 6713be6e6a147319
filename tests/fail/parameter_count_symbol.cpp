// SPDX-License-Identifier: MIT
// The number of parameters where a shape has a symbol.
// expect: meganeura: model::parameter_count: the parameter of this name has a symbol in its shape; bind it
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
inline constexpr mn::dim rows = mn::sym<"sequence">;
#else
inline constexpr mn::dim rows = 128;
#endif

struct table {
  static constexpr auto forward(mn::value auto x) { return x + mn::parameter<"table", mn::dims<rows, 64>>; }
};
using model = mn::model<table, mn::input<"x", mn::dtype::f32, mn::dims<rows, 64>>>;
static_assert(model::parameter_count > 0);
