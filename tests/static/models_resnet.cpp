// SPDX-License-Identifier: MIT
// Residual networks have the parameters of torchvision's.
#include <meganeura/models/resnet.hpp>

namespace mn = meganeura;
namespace resnet = mn::models::resnet;

inline constexpr mn::dim batch = mn::sym<"batch">;
template <resnet::config C>
using model = mn::model<resnet::classifier<C>, mn::input<"image", mn::dtype::f32, mn::dims<batch, 3, 224, 224>>>;

template <resnet::config C, std::int64_t Count>
inline constexpr bool counts = model<C>::parameter_count == Count&& model<C>::output == mn::dims<batch, C.classes>;

static_assert(counts<resnet::resnet18, 11'689'512>);
static_assert(counts<resnet::resnet34, 21'797'672>);
static_assert(counts<resnet::resnet50, 25'557'032>);
static_assert(counts<resnet::resnet101, 44'549'160>);
// Without norms, 26,560 weights of theirs, and with as many biases as these had.
static_assert(counts<resnet::folded(resnet::resnet50), 25'557'032 - 26'560>);

consteval bool has_leaf(const auto& leaves, const char* name, const mn::symbolic_shape& shape) {
  for (int i = 0; i < leaves.size; ++i) {
    if (mn::detail::texts_equal(leaves.leaves[i].name, name)) return *leaves.leaves[i].shape == shape;
  }
  return false;
}
static_assert(has_leaf(model<resnet::resnet18>::leaves, "conv1.weight", mn::dims<64, 3, 7, 7>));
static_assert(has_leaf(model<resnet::resnet18>::leaves, "layer1.0.bn1.running_mean", mn::dims<64>));
static_assert(!has_leaf(model<resnet::resnet18>::leaves, "layer1.0.downsample.0.weight", mn::dims<64, 64, 1, 1>));
static_assert(has_leaf(model<resnet::resnet50>::leaves, "layer1.0.downsample.0.weight", mn::dims<256, 64, 1, 1>));
static_assert(has_leaf(model<resnet::resnet50>::leaves, "layer4.2.conv3.weight", mn::dims<2048, 512, 1, 1>));
static_assert(has_leaf(model<resnet::resnet50>::leaves, "layer3.0.downsample.1.running_var", mn::dims<1024>));
static_assert(has_leaf(model<resnet::resnet50>::leaves, "fc.bias", mn::dims<1000>));
