// SPDX-License-Identifier: MIT
// Whisper as types: parameters and shapes.
#include <meganeura/models/whisper.hpp>

namespace {

using namespace meganeura;
namespace asr = models::whisper;

template <asr::config C>
using encoder = model<asr::encoder<C>, input<"spectrogram", dtype::f32, dims<1, 80, 3000>>>;

static_assert(encoder<asr::tiny>::parameter_count == 8'208'384);
static_assert(encoder<asr::base>::parameter_count == 20'590'592);
static_assert(encoder<asr::tiny>::output == dims<1, 1500, 384>);

template <asr::config C>
using whole = model<asr::transcriber<C>, input<"spectrogram", dtype::f32, dims<sym<"n">, 80, 3000>>,
                    input<"tokens", dtype::i32, dims<sym<"n">, sym<"t", 448>>>>;
static_assert(whole<asr::tiny>::parameter_count == 37'760'640);
static_assert(whole<asr::base>::parameter_count == 72'593'920);
static_assert(whole<asr::tiny>::output == dims<sym<"n">, sym<"t", 448>, 51865>);

}  // namespace
