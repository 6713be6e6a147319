// SPDX-License-Identifier: MIT
// Names and numbers as arguments beside typed values.
// expect 1: meganeura: f\(.*name.*, x, n\): where x is part of a type the name and n are constants; write f<
// expect 2: meganeura: f\(.*name.*, x, n\): where x is part of a type
// expect 3: meganeura: f\(.*name.*, x, n\): where x is part of a type
// expect 4: meganeura: f\(.*name.*, x, n\): where x is part of a type
// expect 5: meganeura: f\(.*name.*, x, n\): where x is part of a type
// bytes: 2900
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

struct network {
  static constexpr auto forward(mn::value auto x) {
#if MEGANEURA_EXPECT_FAILURE == 1
    return mn::linear("fc", x, 8);
#elif MEGANEURA_EXPECT_FAILURE == 2
    return mn::dropout("drop", x, 0.2);
#elif MEGANEURA_EXPECT_FAILURE == 3
    return mn::softmax(x, 1);
#elif MEGANEURA_EXPECT_FAILURE == 4
    return mn::sum(x, 1);
#elif MEGANEURA_EXPECT_FAILURE == 5
    return mn::batch_norm("norm", x);
#else
    return mn::softmax(mn::linear(mn::fixed_text<"fc">{}, x, mn::c<8>), mn::c<1>);
#endif
  }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4, 8>>>;
static_assert(model::output.rank <= 2);
