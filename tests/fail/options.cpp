// SPDX-License-Identifier: MIT
// Options that mean nothing.
// expect 1: meganeura: max_pool1d<options>\(x\): the window must fit into \[.., w\] of known extents, and padding fill
// expect 2: meganeura: batch_norm<name>\(x\): epsilon must be at least 0, and momentum from 0 to 1
// expect 3: meganeura: trainer<model, loss>: an option of the loss is outside of its range
// expect 4: meganeura: sigmoid\(x\): x must be floats; cast it
// expect 5: meganeura: adaptive_max_pool1d<out>\(x\): x must be \[.., w\] of known extents, and out at least 1
// bytes: 3700
#include <meganeura/operations.hpp>

namespace mn = meganeura;

struct network {
  static constexpr auto forward(mn::value auto x) {
#if MEGANEURA_EXPECT_FAILURE == 1
    return mn::max_pool1d<mn::pool_options{.window = 2, .padding = 4}>(x);
#elif MEGANEURA_EXPECT_FAILURE == 2
    return mn::batch_norm<"n", mn::batch_norm_options{.momentum = 5}>(x);
#elif MEGANEURA_EXPECT_FAILURE == 4
    return mn::cast<mn::dtype::f32>(mn::sigmoid(mn::coordinates<mn::dims<4, 8>, 0>));
#elif MEGANEURA_EXPECT_FAILURE == 5
    return mn::adaptive_max_pool1d<3000>(mn::parameter<"w", mn::dims<1000003>>);
#else
    return mn::linear<"y", 3>(x);
#endif
  }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4, 8>>>;
#if MEGANEURA_EXPECT_FAILURE == 3
using trained = mn::detail::trained<model, mn::huber<"wanted", mn::huber_options{.delta = -2}>>;
static_assert(trained::input_index("wanted") == 1);
#else
static_assert(model::output.rank <= 2);
#endif
