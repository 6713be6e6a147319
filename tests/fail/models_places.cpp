// SPDX-License-Identifier: MIT
// A text of more tokens than the model has places.
// expect: meganeura: gpt2::language_model: a text must not have more tokens than there are places for
#include <meganeura/frontend.hpp>
#include <meganeura/models/gpt2.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
inline constexpr int tokens = 9;
#else
inline constexpr int tokens = 6;
#endif

inline constexpr mn::models::gpt2::config tiny{.layers = 1, .width = 8, .heads = 2, .vocab = 11, .context = 6};
using model = mn::model<mn::models::gpt2::language_model<tiny>, mn::input<"tokens", mn::dtype::i32, mn::dims<tokens>>>;
static_assert(model::output.rank >= 1);
