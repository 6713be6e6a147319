// SPDX-License-Identifier: MIT
// Where the time of a step goes: dispatches as tables, and a trace for ui.perfetto.dev.
#include <meganeura/meganeura.hpp>

#include <cstdio>
#include <filesystem>

namespace mn = meganeura;

struct layer {
  static constexpr auto forward(mn::value auto x) { return x + mn::relu(mn::linear<"fc", 32>(x)); }
};
struct network {
  static constexpr auto forward(mn::value auto x) { return mn::repeat<"layers", 4, layer>(x); }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<16, 32>>>;

int main() {
  const mn::device gpu({.trace = "trace.json"});  // or MEGANEURA_TRACE=trace.json for every device
  mn::session<model> s(gpu, {}, {.program = {.profile = mn::profiling::dispatches}});
  s.parameters().init({.seed = 1});
  (void)s.run(mn::bind<"x">(std::vector<float>(16 * 32, 0.5f)));

  const mn::step_profile profile = s.program().profile();  // of the latest run
  std::puts(to_text(profile).c_str());                     // a row for each kind of kernel
  std::puts(to_text(profile.by_module(2)).c_str());        // and for "layers.0", "layers.1", ...
  for (const mn::profiled_dispatch& each : profile)        // each dispatch, in order
    std::printf("%s: %s, %.0f ns\n", each.module.c_str(), each.text.c_str(), each.nanoseconds);
  return profile.total().count == profile.size() && std::filesystem::file_size("trace.json") > 1000 ? 0 : 1;
}
