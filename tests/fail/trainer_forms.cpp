// SPDX-License-Identifier: MIT
// Trainers without a model or a loss, and with arguments in other places.
// expect 1: meganeura: trainer<model, loss>: a model comes first, model<module, inputs...>, then a loss
// expect 2: meganeura: trainer<model, loss>: a model comes first, model<module, inputs...>, then a loss
// expect 3: meganeura: trainer<model, loss>: a loss is cross_entropy<.*loss<module, inputs...>
// expect 4: meganeura: trainer<model, loss>: a model comes first
// expect 5: meganeura: trainer\(gpu, optimizer, sizes, options\): options come fourth, behind the sizes; write
// expect 6: meganeura: trainer\(gpu, optimizer, sizes, options\): options come fourth, behind the sizes; write
// bytes: 2600
#include <meganeura/meganeura.hpp>

namespace mn = meganeura;

struct network {
  static constexpr auto forward(mn::value auto x) { return mn::linear<"fc", 3>(x); }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<4, 4>>>;
using loss = mn::mean_squared_error<"y">;
void start(const mn::device& gpu) {
#if MEGANEURA_EXPECT_FAILURE == 1
  mn::trainer fit(gpu, mn::adam{});
#elif MEGANEURA_EXPECT_FAILURE == 2
  mn::trainer fit(gpu, mn::adam{}, {.clip_norm = 1});
#elif MEGANEURA_EXPECT_FAILURE == 3
  mn::trainer<model> fit(gpu, mn::adam{});
#elif MEGANEURA_EXPECT_FAILURE == 4
  mn::trainer<loss, model> fit(gpu, mn::adam{});
#elif MEGANEURA_EXPECT_FAILURE == 5
  mn::trainer<model, loss> fit(gpu, mn::adam{}, {.clip_norm = 1});
#elif MEGANEURA_EXPECT_FAILURE == 6
  mn::trainer<model, loss> fit(gpu, mn::adam{}, mn::training_options{}, mn::symbol_extents{}, mn::parameters{});
#else
  mn::trainer<model, loss> fit(gpu, mn::adam{}, {}, {.clip_norm = 1}), other(gpu, mn::adam{}, {});
#endif
}
