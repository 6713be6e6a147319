// SPDX-License-Identifier: MIT
// The small U-Net has the parameters of the benchmark's.
#include <meganeura/models/unet.hpp>

namespace mn = meganeura;
namespace unet = mn::models::unet;

inline constexpr mn::dim batch = mn::sym<"batch">;
using model = mn::model<unet::denoiser<>, mn::input<"x", mn::dtype::f32, mn::dims<batch, 4, 32, 32>>>;

static_assert(model::parameter_count == 5'294'080 && model::leaves.size == 53);
static_assert(model::output == mn::dims<batch, 4, 32, 32>);
