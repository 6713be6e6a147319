// SPDX-License-Identifier: MIT
// SmolVLA's action expert on a chunk of 50 actions, in both of its graphs.
#include <meganeura/models/smolvla.hpp>
#include <meganeura/nn/losses.hpp>

#include <cmath>

#include "workload.hpp"

namespace inferena {
namespace {

namespace mn = meganeura;
namespace vla = mn::models::smolvla;

constexpr vla::config tiny(bool raw_context) {
  return {.layers = 2,
          .width = 48,
          .heads = 3,
          .kv_heads = 1,
          .head_dim = 16,
          .hidden = 64,
          .actions = 8,
          .context = 16,
          .raw_context = raw_context};
}

double zero(double) { return 0; }

template <vla::config C, int Chunk, int Tokens>
workload make(const char* name) {
  constexpr mn::dim chunk = mn::sym<"chunk">;
  using model = mn::model<vla::action_expert<C>, mn::input<"actions", mn::dtype::f32, mn::dims<1, chunk, C.actions>>,
                          mn::input<"time", mn::dtype::f32, mn::dims<1, 1, 2 * C.width>>,
                          mn::input<"context", mn::dtype::f32, mn::dims<1, Tokens, C.context>>>;
  const auto inputs = [](int length) {
    return std::vector{wave("actions", std::sin, 0.01, static_cast<std::size_t>(length) * C.actions),
                       wave("time", std::sin, 0.005, 2 * C.width), wave("context", std::cos, 0.01, Tokens * C.context)};
  };
  return {.name = name,
          .forward =
              [=] {
                return forward_pass<model>(inputs(Chunk), {{"chunk", Chunk}});
              },
          .latency =
              [=] {
                return forward_pass<model>(inputs(1), {{"chunk", 1}});
              },
          .training =
              [=] {
                auto all = inputs(Chunk);
                all.push_back(wave("target", zero, 0, Chunk * C.actions));
                return training_pass<model, mn::mean_squared_error<"target">>(std::move(all), {{"chunk", Chunk}});
              }};
}

}  // namespace

workload smolvla(size of) {
  return of == size::full ? make<vla::expert, 50, 16>("smolvla") : make<tiny(false), 5, 4>("smolvla");
}
workload smolvla_mega(size of) {
  return of == size::full ? make<vla::raw_context_expert, 50, 16>("smolvla_mega")
                          : make<tiny(true), 5, 4>("smolvla_mega");
}

}  // namespace inferena
