// SPDX-License-Identifier: MIT
// SmolVLA's action expert as a type: its parameters and shapes.
#include <meganeura/models/smolvla.hpp>

namespace {

using namespace meganeura;
namespace vla = models::smolvla;

template <vla::config C>
using expert = model<vla::action_expert<C>, input<"actions", dtype::f32, dims<1, sym<"chunk">, 32>>,
                     input<"time", dtype::f32, dims<1, 1, 1440>>, input<"context", dtype::f32, dims<1, 16, 320>>>;

static_assert(expert<vla::expert>::parameter_count == 101'607'120);
static_assert(expert<vla::raw_context_expert>::parameter_count == 99'848'592);
static_assert(expert<vla::expert>::output == dims<1, sym<"chunk">, 32>);

}  // namespace
