// SPDX-License-Identifier: MIT
// Layers in a row: modules that differ, the loop over their sizes, and one that is the same many times.
#include <meganeura/meganeura.hpp>

namespace mn = meganeura;

struct stem {
  static constexpr auto forward(mn::value auto x) { return mn::relu(mn::linear<"fc", 32>(x)); }
};
struct head {
  static constexpr auto forward(mn::value auto x) { return mn::linear<"fc", 3>(x); }
};

inline constexpr int widths[]{24, 16, 8};
template <int I>
struct shrink {
  static constexpr auto forward(mn::value auto x) { return mn::relu(mn::linear<"fc", widths[I]>(x)); }
};
struct residual {
  static constexpr auto forward(mn::value auto x) { return x + mn::tanh(mn::linear<"fc", 8>(x)); }
};

struct body {
  static constexpr auto forward(mn::value auto x) {
    return mn::repeat<"same", 4, residual>(mn::indexed<"shrink", 3, shrink>(x));
  }
};
struct network {
  static constexpr auto forward(mn::value auto x) { return mn::sequential<"", stem, body, head>(x); }
};
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<2, 6>>>;

int main() {
  const mn::device gpu;
  mn::session<model> s(gpu);
  s.parameters().init({.seed = 1});
  const std::vector<float> first = s.parameters().get("0.fc.bias"), third = s.parameters().get("1.shrink.2.fc.bias"),
                           last = s.parameters().get("1.same.3.fc.bias");
  const std::vector<float> y = s.run(mn::bind<"x">(std::vector<float>(2 * 6, 0.5f)));
  return first.size() == 32 && third.size() == 8 && last.size() == 8 && y.size() == 2 * 3 ? 0 : 1;
}
