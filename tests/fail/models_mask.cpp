// SPDX-License-Identifier: MIT
// A mask of floats, which attention would add to its scores.
// expect: meganeura: bert::encoder: the mask must be integers or booleans, 0 where there is no token
// bytes: 3500
#include <meganeura/frontend.hpp>
#include <meganeura/models/bert.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
inline constexpr mn::dtype type = mn::dtype::f32;
#else
inline constexpr mn::dtype type = mn::dtype::i32;
#endif

inline constexpr mn::models::bert::config tiny{
    .layers = 1, .width = 8, .heads = 2, .hidden = 8, .vocab = 11, .positions = 6};
inline constexpr auto extents = mn::dims<2, 5>;
using model = mn::model<mn::models::bert::encoder<tiny>, mn::input<"tokens", mn::dtype::i32, extents>,
                        mn::input<"types", mn::dtype::i32, extents>, mn::input<"mask", type, extents>>;
static_assert(model::output_list::size >= 1);
