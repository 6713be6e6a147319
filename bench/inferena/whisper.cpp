// SPDX-License-Identifier: MIT
// Whisper-tiny's encoder on 30 seconds; its table of positions is not trained.
#include <meganeura/models/whisper.hpp>
#include <meganeura/nn/losses.hpp>

#include <cmath>

#include "workload.hpp"

namespace inferena {
namespace {

namespace mn = meganeura;
namespace asr = mn::models::whisper;

constexpr asr::config small{.mels = 8, .frames = 40, .layers = 2, .width = 32, .heads = 2, .hidden = 64};

template <asr::config C>
workload make() {
  using model = mn::model<asr::encoder<C>, mn::input<"spectrogram", mn::dtype::f32, mn::dims<1, C.mels, C.frames>>>;
  const auto sound = [] { return wave("spectrogram", std::sin, 0.001, C.mels * C.frames); };
  return {.name = "whisper",
          .forward = [=] { return forward_pass<model>({sound()}, {}); },
          .training =
              [=] {
                return training_pass<model, mn::mean_squared_error<"target">>(
                    {sound(), wave("target", std::cos, 0.007, C.positions() * C.width)}, {});
              },
          .frozen = "embed_positions.weight"};
}

}  // namespace

workload whisper(size of) { return of == size::full ? make<asr::tiny>() : make<small>(); }

}  // namespace inferena
