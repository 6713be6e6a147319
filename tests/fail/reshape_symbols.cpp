// SPDX-License-Identifier: MIT
// As many elements only where batch and sequence happen to be equal.
// expect: meganeura: reshape<dims>\(x\): the number of elements must stay, whatever the symbols are worth
// bytes: 3400
#include <meganeura/frontend.hpp>

namespace mn = meganeura;
inline constexpr mn::dim batch = mn::sym<"batch">, sequence = mn::sym<"sequence">;

#ifdef MEGANEURA_EXPECT_FAILURE
inline constexpr mn::dim rows = batch * batch;
#else
inline constexpr mn::dim rows = sequence * batch;
#endif

struct flat {
  static constexpr auto forward(mn::value auto x) { return mn::reshape<mn::dims<rows, 8>>(x); }
};
using model = mn::model<flat, mn::input<"x", mn::dtype::f32, mn::dims<batch, sequence, 8>>>;
static_assert(model::output.rank == 2);
