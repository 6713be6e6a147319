// SPDX-License-Identifier: MIT
// SmolLM2-135M on 128 tokens.
#include <meganeura/models/smollm2.hpp>
#include <meganeura/nn/losses.hpp>

#include <support/smollm2_reference.hpp>

#include "workload.hpp"

namespace inferena {
namespace {

namespace mn = meganeura;

// The benchmark's RoPE base; the published checkpoint has 100000.
constexpr mn::models::llama::config full = [] {
  mn::models::llama::config c = mn::models::smollm2::smollm2_135m;
  c.rope_theta = 1e4f;
  return c;
}();
template <mn::models::llama::config C>
workload make(int sequence) {
  using model =
      mn::model<mn::models::smollm2::language_model<C>, mn::input<"tokens", mn::dtype::i32, mn::dims<mn::sym<"seq">>>>;
  const auto n = static_cast<std::size_t>(sequence);
  return {.name = "smollm2",
          .forward =
              [=] {
                return forward_pass<model>({counting("tokens", 0, C.vocab, n)}, {{"seq", sequence}});
              },
          .latency =
              [] {
                return forward_pass<model>({counting("tokens", 0, C.vocab, 1)}, {{"seq", 1}});
              },
          .training =
              [=] {
                return training_pass<model, mn::cross_entropy<"label">>(
                    {counting("tokens", 0, C.vocab, n), counting("label", 1, C.vocab, n)}, {{"seq", sequence}});
              }};
}

}  // namespace

workload smollm2(size of) { return of == size::full ? make<full>(128) : make<mn::support::tiny_smollm2>(16); }

}  // namespace inferena
