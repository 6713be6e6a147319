// SPDX-License-Identifier: MIT
// The decoder of Stable Diffusion's images as a type: parameters and shapes.
#include <meganeura/models/autoencoder_kl.hpp>

namespace {

using namespace meganeura;
using namespace meganeura::models::autoencoder_kl;

using picture = model<decoder<>, input<"latent", dtype::f32, dims<sym<"batch">, 4, 64, 64>>>;

static_assert(picture::parameter_count == 49'490'199);
static_assert(picture::output == dims<sym<"batch">, 3, 512, 512>);

}  // namespace
