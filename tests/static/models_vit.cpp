// SPDX-License-Identifier: MIT
// Vision transformers as types: parameters and shapes.
#include <meganeura/models/vit.hpp>

namespace {

using namespace meganeura;
using namespace meganeura::models::vit;

template <config C>
using image_model = model<classifier<C>, input<"image", dtype::f32, dims<sym<"batch">, 3, 224, 224>>>;

static_assert(image_model<vit_b_16>::parameter_count == 86'567'656);
static_assert(image_model<vit_b_32>::parameter_count == 88'224'232);
static_assert(image_model<vit_l_16>::parameter_count == 304'326'632);
static_assert(image_model<vit_b_16>::output == dims<sym<"batch">, 1000>);

}  // namespace
