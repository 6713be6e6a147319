// SPDX-License-Identifier: MIT
// Values without the names of their inputs, and names that no compiler sees.
// expect 1: meganeura: run\(bind<name>\(..\), ..\): values and sizes of a typed model are bound by name;
// expect 2: meganeura: run\(bind<name>\(..\), ..\): values and sizes of a typed model are bound by name;
// expect 3: meganeura: run\(bind<name>\(..\), ..\): values and sizes of a typed model are bound by name;
// expect 4: meganeura: run\(bind<name>\(..\), ..\): values and sizes of a typed model are bound by name;
// expect 5: meganeura: run\(bind<name>\(..\), ..\): values and sizes of a typed model are bound by name;
#include <meganeura/frontend.hpp>
#include <meganeura/runtime/trainer.hpp>

#include <span>
#include <vector>

namespace mn = meganeura;

struct network {
  static constexpr auto forward(mn::value auto x) { return mn::linear<"fc", 10>(x); }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<mn::sym<"batch">, 4>>>;
using trainer = mn::trainer<model, mn::cross_entropy<"label">>;

void use(mn::session<model>& run, trainer& fit, const std::vector<float>& x, std::span<const int> label) {
#if MEGANEURA_EXPECT_FAILURE == 1
  (void)run.run({{"x", x}});
#elif MEGANEURA_EXPECT_FAILURE == 2
  (void)run.start(x);
#elif MEGANEURA_EXPECT_FAILURE == 3
  fit.step(std::span(x), label);
#elif MEGANEURA_EXPECT_FAILURE == 4
  fit.step({{"x", x}, {"label", label}}, {{"batch", 3}});
#elif MEGANEURA_EXPECT_FAILURE == 5
  (void)fit.evaluate(x, mn::bind<"label">(label));
#else
  (void)run.run(mn::bind<"x">(x));
  (void)run.start(mn::bind<"x">(x));
  fit.step(mn::bind<"x">(x), mn::bind<"label">(label));
  (void)fit.evaluate(mn::bind<"x">(x), mn::bind<"label">(label));
#endif
}
