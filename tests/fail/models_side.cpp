// SPDX-License-Identifier: MIT
// An image that is cut into patches and leaves some of it.
// expect: meganeura: vit::classifier: the image must be \[n, 3, config.side, config.side\]
#include <meganeura/frontend.hpp>
#include <meganeura/models/vit.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
inline constexpr int side = 30;
#else
inline constexpr int side = 32;
#endif

inline constexpr mn::models::vit::config tiny{
    .layers = 1, .width = 8, .heads = 2, .hidden = 8, .side = side, .patch = 16, .classes = 3};
using model =
    mn::model<mn::models::vit::classifier<tiny>, mn::input<"image", mn::dtype::f32, mn::dims<1, 3, side, side>>>;
static_assert(model::output.rank >= 1);
