// SPDX-License-Identifier: MIT
// Compile-time budget: an MLP and the 30-layer SmolLM2 in one translation unit.
#include <meganeura/frontend.hpp>
#include <meganeura/models/smollm2.hpp>

namespace mn = meganeura;

struct classifier {  // [batch, 784] -> [batch, 10]
  static constexpr auto forward(mn::value auto image) {
    return mn::linear<"fc2", 10>(mn::relu(mn::linear<"fc1", 128>(image)));
  }
};
inline constexpr mn::dim batch = mn::sym<"batch">;
using mlp = mn::model<classifier, mn::input<"image", mn::dtype::f32, mn::dims<batch, 784>>>;
static_assert(mlp::output == mn::dims<batch, 10>);
static_assert(mlp::parameter_count == 101'770);

using smollm2 = mn::models::smollm2::language_model<mn::models::smollm2::smollm2_135m>;
inline constexpr mn::dim seq = mn::sym<"seq">;
using lm = mn::model<smollm2, mn::input<"tokens", mn::dtype::i32, mn::dims<seq>>>;
static_assert(lm::output == mn::dims<seq, 49152>);
static_assert(lm::parameter_count == 134'515'008);
static_assert(lm::graph.count(mn::primitive::repeat) == 1);

// Used at run time, so that the symbols a real program gets are in the object.
const mn::module_body* bodies[] = {&mlp::body, &lm::body};
