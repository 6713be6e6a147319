// SPDX-License-Identifier: MIT
// A loss is a module too: of what the model returns and of inputs of its own.
#include <meganeura/meganeura.hpp>

namespace mn = meganeura;

struct autoencoder {
  static constexpr auto forward(mn::value auto image) {
    auto code = mn::linear<"encode", 2>(image);
    return mn::results<"reconstruction", "code">(mn::linear<"decode", 6>(code), code);
  }
};
struct sparse_loss {
  static constexpr auto forward(mn::value auto reconstruction, mn::value auto code, mn::value auto image) {
    auto error = mn::mean_squared_error_loss(reconstruction, image);
    auto size = mn::mean(mn::abs(code));
    return mn::results<"loss", "error", "size">(error + size * mn::constant<0.01f>, error, size);
  }
};
inline constexpr mn::dim batch = mn::sym<"batch">;
using model = mn::model<autoencoder, mn::input<"image", mn::dtype::f32, mn::dims<batch, 6>>>;

int main() {
  const mn::device gpu;
  mn::trainer<model, mn::loss<sparse_loss, mn::target<"image">>> fit(gpu, mn::adam{.learning_rate = 0.03f});
  fit.parameters().init({.seed = 1});
  const std::vector<float> images{1, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1};
  const float first = fit.step(mn::bind<"image">(images)).value<"error">();
  for (int i = 0; i < 60; ++i) fit.step(mn::bind<"image">(images));
  const auto last = fit.step(mn::bind<"image">(images));
  fmt::print("{} = {} + 0.01 * {}\n", last.loss(), last.value<"error">(), last.value<"size">());
  return last.value<"error">() < 0.5f * first ? 0 : 1;
}
