// SPDX-License-Identifier: MIT
// CLIP's reader of texts as a type: parameters and shapes.
#include <meganeura/models/clip_text.hpp>

namespace {

using namespace meganeura;
using namespace meganeura::models::clip_text;

using text = model<encoder<>, input<"tokens", dtype::i32, dims<sym<"batch">, 77>>>;

static_assert(text::parameter_count == 123'060'480);
static_assert(text::output == dims<sym<"batch">, 77, 768>);

}  // namespace
