// SPDX-License-Identifier: MIT
// A shared weight whose name no layer has.
// expect: meganeura: model: shared\(layer\) shares with the layer of that name, and there is none
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
#define NAME "embed.wieght"
#else
#define NAME "embed.weight"
#endif

struct network {
  static constexpr auto forward(mn::value auto tokens) {
    return mn::tied_linear(mn::embedding<"embed", 16, 8>(tokens), mn::shared(mn::parameter<NAME, mn::dims<16, 8>>));
  }
};
using model = mn::model<network, mn::input<"tokens", mn::dtype::i32, mn::dims<4>>>;
static_assert(model::output.rank == 2);
