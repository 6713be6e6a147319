// SPDX-License-Identifier: MIT
// Whisper's encoders as types: their parameters and shapes.
#include <meganeura/models/whisper.hpp>

namespace {

using namespace meganeura;
namespace asr = models::whisper;

template <asr::config C>
using encoder = model<asr::encoder<C>, input<"spectrogram", dtype::f32, dims<1, 80, 3000>>>;

static_assert(encoder<asr::tiny>::parameter_count == 8'208'384);
static_assert(encoder<asr::base>::parameter_count == 20'590'592);
static_assert(encoder<asr::tiny>::output == dims<1, 1500, 384>);

}  // namespace
