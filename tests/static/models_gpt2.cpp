// SPDX-License-Identifier: MIT
// GPT-2 as types: parameters and shapes.
#include <meganeura/models/gpt2.hpp>

namespace {

using namespace meganeura;
using namespace meganeura::models::gpt2;

template <config C>
using text_model = model<language_model<C>, input<"tokens", dtype::i32, dims<sym<"batch">, sym<"seq", 1024>>>>;

static_assert(text_model<gpt2_124m>::parameter_count == 124'439'808);
static_assert(text_model<gpt2_1558m>::parameter_count == 1'557'611'200);
static_assert(text_model<gpt2_124m>::output == dims<sym<"batch">, sym<"seq", 1024>, 50257>);

}  // namespace
