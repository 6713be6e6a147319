// SPDX-License-Identifier: MIT
// An input bound twice in one run.
// expect: meganeura: run\(bind<name>\(..\), ..\): a name is bound twice; bind each input and each symbol once
#include <meganeura/frontend.hpp>
#include <meganeura/runtime/session.hpp>

#include <vector>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
#define SECOND "x"
#else
#define SECOND "y"
#endif

struct product {
  static constexpr auto forward(mn::value auto x, mn::value auto y) { return x * y; }
};
using model =
    mn::model<product, mn::input<"x", mn::dtype::f32, mn::dims<4>>, mn::input<"y", mn::dtype::f32, mn::dims<4>>>;
auto start(mn::session<model>& of, const std::vector<float>& values) {
  return of.start(mn::bind<"x">(values), mn::bind<SECOND>(values));
}
