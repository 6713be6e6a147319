// SPDX-License-Identifier: MIT
// SmolLM2 as types: parameters and shapes of each size.
#include <meganeura/models/smollm2.hpp>

namespace {

using namespace meganeura;
using namespace meganeura::models::smollm2;

template <models::llama::config C>
using text_model = model<language_model<C>, input<"tokens", dtype::i32, dims<sym<"seq">>>>;

static_assert(text_model<smollm2_135m>::parameter_count == 134'515'008);
static_assert(text_model<smollm2_360m>::parameter_count == 361'821'120);
static_assert(text_model<smollm2_1_7b>::parameter_count == 1'711'376'384);
static_assert(text_model<smollm2_135m>::output == dims<sym<"seq">, 49152>);

}  // namespace
