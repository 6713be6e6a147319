// SPDX-License-Identifier: MIT
// Modules, leaves and results that are put together otherwise than they can be.
// expect 1: meganeura: results<names...>\(values...\): one name for each value, and at least one
// expect 2: meganeura: call<name, module>\(x...\): conditions cannot be passed; compare inside
// expect 3: meganeura: tap<name>\(x\): x is a condition, which is never stored; tap select\(condition, a, b\)
// expect 4: meganeura: repeat<name, count, module>\(x\): count must be at least 1
// expect 5: meganeura: sequential<name, modules...>\(x\): at least one module
// expect 6: meganeura: parameter or state<name, dims, ...>: at most one dtype and one initializer
// expect 7: meganeura: state<name, dims, initializer>: a state begins as a constant, init::zeros, ones or constant
// expect 8: meganeura: rnn, gru or lstm<options>: hidden is at least 1, and layers 1 to 10
// bytes: 4500
#include <meganeura/operations.hpp>

namespace mn = meganeura;

struct same {
  static constexpr auto forward(mn::value auto x) { return mn::relu(x); }
};
struct chosen {
  static constexpr auto forward(mn::value auto is) { return mn::select(is, mn::constant<1.0f>, mn::constant<2.0f>); }
};
struct network {
  static constexpr auto forward(mn::value auto x) {
#if MEGANEURA_EXPECT_FAILURE == 1
    return mn::results<"y", "z">(x);
#elif MEGANEURA_EXPECT_FAILURE == 2
    return mn::call<"inner", chosen>(mn::less(mn::constant<0.0f>, x));
#elif MEGANEURA_EXPECT_FAILURE == 3
    return mn::select(mn::tap<"positive">(mn::less(mn::constant<0.0f>, x)), x, -x);
#elif MEGANEURA_EXPECT_FAILURE == 4
    return mn::repeat<"layers", 0, same>(x);
#elif MEGANEURA_EXPECT_FAILURE == 5
    return mn::sequential<"layers">(x);
#elif MEGANEURA_EXPECT_FAILURE == 6
    return x + mn::parameter<"w", mn::dims<8>, mn::init::ones, mn::init::zeros>;
#elif MEGANEURA_EXPECT_FAILURE == 7
    return x + mn::state<"s", mn::dims<8>, mn::init::normal()>;
#elif MEGANEURA_EXPECT_FAILURE == 8
    return mn::call<"rnn", mn::gru<mn::recurrent_options{.hidden = 8, .layers = 11}>>(x);
#else
    return mn::sequential<"layers", same>(x);
#endif
  }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<2, 4, 8>>>;
static_assert(model::input_count == 1);
