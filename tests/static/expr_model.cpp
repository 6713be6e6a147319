// SPDX-License-Identifier: MIT
// What a model knows about itself while compiling: names, counts, flops.
#include <meganeura/frontend.hpp>
#include <meganeura/models/smollm2.hpp>

namespace mn = meganeura;

inline constexpr mn::dim batch = mn::sym<"batch">, seq = mn::sym<"seq">;

struct classifier {
  static constexpr auto forward(mn::value auto image) {
    return mn::linear<"fc2", 10>(mn::relu(mn::linear<"fc1", 128>(image)));
  }
};
using mlp = mn::model<classifier, mn::input<"image", mn::dtype::f32, mn::dims<batch, 784>>>;

static_assert(mlp::output == mn::dims<batch, 10> && mlp::output_type == mn::dtype::f32);
static_assert(mlp::parameter_count == 784 * 128 + 128 + 128 * 10 + 10);
static_assert(mlp::flops({{"batch", 3}}) == 3 * (2 * 784 * 128 + 128 + 128 + 2 * 128 * 10 + 10));
static_assert(mlp::input_index("image") == 0 && mlp::input_index("images") == -1);
static_assert(mlp::leaves.size == 4);
static_assert(mn::detail::texts_equal(mlp::leaves.leaves[0].name, "fc1.weight"));
static_assert(mn::detail::texts_equal(mlp::leaves.leaves[3].name, "fc2.bias"));
static_assert(*mlp::leaves.leaves[2].shape == mn::dims<10, 128>);
// Two calls, their linear bodies traced once each: argument, call, constant, maximum, call.
static_assert(mlp::graph.size == 5 && mlp::graph.count(mn::primitive::call) == 2);

// Handles and models hold no data.
static_assert(sizeof(mlp) == 1);

// Tied by name, whatever the path there: counted once.
struct tied {
  static constexpr auto forward(mn::value auto x) {
    auto y = mn::linear<"layer", 8, mn::no_bias>(x);
    return mn::tied_linear(y, mn::shared(mn::parameter<"layer.weight", mn::dims<8, 8>>));
  }
};
static_assert(mn::model<tied, mn::input<"x", mn::dtype::f32, mn::dims<4, 8>>>::parameter_count == 64);

// An unnamed call adds nothing to a path; a repeat one '*' for all its turns.
struct layer {
  static constexpr auto forward(mn::value auto x) { return mn::call<"", tied>(mn::rms_norm<"norm">(x)); }
};
struct stack {
  static constexpr auto forward(mn::value auto x) { return mn::repeat<"layers", 7, layer>(x); }
};
using deep = mn::model<stack, mn::input<"x", mn::dtype::f32, mn::dims<4, 8>>>;
static_assert(deep::leaves.size == 2 && deep::parameter_count == 7 * (8 + 64));
static_assert(mn::detail::texts_equal(deep::leaves.leaves[0].name, "layers.*.norm.weight"));
static_assert(mn::detail::texts_equal(deep::leaves.leaves[1].name, "layers.*.layer.weight"));

// One turn of a repeat, and one layer on two inputs.
struct first_again {
  static constexpr auto forward(mn::value auto x, mn::value auto other) {
    auto again =
        mn::tied_linear(mn::call<"", stack>(x), mn::shared(mn::parameter<"layers.0.layer.weight", mn::dims<8, 8>>));
    return mn::linear<"both", 3>(again) + mn::shared(mn::linear<"both", 3>(other));
  }
};
using siamese = mn::model<first_again, mn::input<"x", mn::dtype::f32, mn::dims<4, 8>>,
                          mn::input<"other", mn::dtype::f32, mn::dims<4, 8>>>;
static_assert(siamese::leaves.size == 4 && siamese::parameter_count == 7 * (8 + 64) + 3 * 8 + 3);

using smollm2 = mn::model<mn::models::smollm2::language_model<mn::models::smollm2::smollm2_135m>,
                          mn::input<"tokens", mn::dtype::i32, mn::dims<batch, seq>>>;
static_assert(smollm2::output == mn::dims<batch, seq, 49152>);
static_assert(smollm2::parameter_count == 134'515'008);
static_assert(smollm2::leaves.size == 2 + 9);
static_assert(mn::detail::texts_equal(smollm2::leaves.leaves[2].name, "model.layers.*.self_attn.q_proj.weight"));
