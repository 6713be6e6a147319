// SPDX-License-Identifier: MIT
// ResNet-50 in evaluation mode, with batch norms and with these folded into the convolutions.
#include <meganeura/models/resnet.hpp>
#include <meganeura/nn/losses.hpp>

#include <cmath>

#include "workload.hpp"

namespace inferena {
namespace {

namespace mn = meganeura;
namespace resnet = mn::models::resnet;

constexpr resnet::config small{.depths = {1, 1, 1, 1}, .width = 8, .classes = 10};

template <resnet::config C, int Side>
using model_of =
    mn::model<resnet::classifier<C>, mn::input<"image", mn::dtype::f32, mn::dims<mn::sym<"batch">, 3, Side, Side>>>;

template <resnet::config C, int Side>
workload make(const char* name, int batch) {
  using model = model_of<C, Side>;
  const auto images = [](int count, double step) {
    return wave("image", std::sin, step, static_cast<std::size_t>(count) * 3 * Side * Side);
  };
  const auto training = [=](mn::run_mode mode) {
    return training_pass<model, mn::cross_entropy<"label">>(
        {images(batch, 0.001), counting("label", 0, C.classes, static_cast<std::size_t>(batch))}, {{"batch", batch}},
        mode);
  };
  workload result{.name = name,
                  .forward =
                      [=] {
                        return forward_pass<model>({images(batch, 0.001)}, {{"batch", batch}});
                      },
                  .latency =
                      [=] {
                        return forward_pass<model>({images(1, 0)}, {{"batch", 1}});
                      },
                  .training = [=] { return training(mn::run_mode::evaluation); }};
  if (!C.folded) result.step = [=] { return training(mn::run_mode::training); };
  return result;
}

// Weights of the plain one, folded, have to give what the plain one gives.
template <resnet::config Plain, int Side>
workload make_folded(int batch) {
  workload result = make<resnet::folded(Plain), Side>("resnet50_folded", batch);
  result.reference = "resnet50";
  result.unfolded = make<Plain, Side>("resnet50", batch).training;
  return result;
}

}  // namespace

workload resnet50(size of) {
  return of == size::full ? make<resnet::resnet50, 224>("resnet50", 4) : make<small, 64>("resnet50", 2);
}
workload resnet50_folded(size of) {
  return of == size::full ? make_folded<resnet::resnet50, 224>(4) : make_folded<small, 64>(2);
}

}  // namespace inferena
