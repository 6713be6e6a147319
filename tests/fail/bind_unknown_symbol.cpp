// SPDX-License-Identifier: MIT
// The extent of a symbol the model does not have.
// expect: meganeura: bind<name>\(n\): the model has no symbol of that name; an input is bound to a range
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
#define NAME "sequense"
#else
#define NAME "sequence"
#endif

struct identity {
  static constexpr auto forward(mn::value auto tokens) { return mn::embedding<"table", 10, 4>(tokens); }
};
using model = mn::model<identity, mn::input<"tokens", mn::dtype::i32, mn::dims<mn::sym<"sequence">>>>;
void sizes() { mn::check_bound<model>(mn::bind<NAME>(128)); }
