// SPDX-License-Identifier: MIT
// Layers of typed values without a name.
// expect 1: meganeura: linear<name, out>\(x\): a name comes first, that of its parameters or random numbers
// expect 2: meganeura: dropout<name, p>\(x\): a name comes first
// expect 3: meganeura: conv2d<name, out, options>\(x\): a name comes first
// expect 4: meganeura: batch_norm<name>\(x\): a name comes first
// expect 5: meganeura: linear<name, out>\(x\): a name comes first
// expect 6: meganeura: call<name, module>\(x...\): a name comes first, that of what is inside; .*adds nothing
// bytes: 2200
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

struct inner {
  static constexpr auto forward(mn::value auto x) { return mn::relu(x); }
};
struct network {
  static constexpr auto forward(mn::value auto x) {
#if MEGANEURA_EXPECT_FAILURE == 1
    return mn::linear<8>(x);
#elif MEGANEURA_EXPECT_FAILURE == 2
    return mn::dropout<0.2>(x);
#elif MEGANEURA_EXPECT_FAILURE == 3
    return mn::conv2d<8, mn::conv_options{.padding = 1}>(x);
#elif MEGANEURA_EXPECT_FAILURE == 4
    return mn::batch_norm(x);
#elif MEGANEURA_EXPECT_FAILURE == 5
    return mn::linear(x, 8);
#elif MEGANEURA_EXPECT_FAILURE == 6
    return mn::call<inner>(x);
#else
    constexpr mn::fixed_string name = "fc";
    return mn::call<"", inner>(mn::dropout<"drop", 0.2>(mn::linear<name, 8, mn::no_bias>(x)));
#endif
  }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4, 8, 8, 8>>>;
static_assert(model::output.rank == 4);
