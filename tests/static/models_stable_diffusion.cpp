// SPDX-License-Identifier: MIT
// The U-Net of Stable Diffusion 1.5 has the parameters of diffusers'.
#include <meganeura/models/stable_diffusion.hpp>

namespace mn = meganeura;
namespace sd = mn::models::stable_diffusion;

inline constexpr mn::dim batch = mn::sym<"batch">;
using model = mn::model<sd::unet<>, mn::input<"latent", mn::dtype::f32, mn::dims<batch, 4, 64, 64>>,
                        mn::input<"timestep", mn::dtype::f32, mn::dims<batch>>,
                        mn::input<"context", mn::dtype::f32, mn::dims<batch, 77, 768>>>;

static_assert(model::parameter_count == 859'520'964 && model::leaves.size == 686);
static_assert(model::output == mn::dims<batch, 4, 64, 64>);
