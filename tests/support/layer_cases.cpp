// SPDX-License-Identifier: MIT
#include <support/layer_cases.hpp>

#include <array>
#include <cmath>
#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI::support {

namespace {

using values = std::vector<node_value>;
using numbers = std::vector<double>;
using tensors = oracle::tensors<double>;
using index = std::array<std::int64_t, 3>;

// ---- convolution: sums over every output place and every tap

struct window {
  index in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};
};

std::int64_t product(const index& extents) { return extents[0] * extents[1] * extents[2]; }
index split(std::int64_t at, const index& extents) {
  return {at / extents[2] / extents[1], at / extents[2] % extents[1], at % extents[2]};
}
// The place of the input that a tap of an output place reads, or -1.
std::int64_t read_by(const window& w, std::int64_t place, std::int64_t tap) {
  const index to = split(place, w.out), by = split(tap, w.kernel);
  std::int64_t flat = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t at = to[i] * w.stride[i] + by[i] * w.dilation[i] - w.padding[i];
    if (at < 0 || at >= w.in[i]) return -1;
    flat = flat * w.in[i] + at;
  }
  return flat;
}

// x [n, c, in..], w [out, c / groups, k..], bias [out]. Transposed: x [n, out, out..] to [n, c, in..].
numbers convolved(tensors& t, std::int64_t n, std::int64_t c, std::int64_t out, std::int64_t groups, const window& w,
                  bool transposed = false) {
  const auto& x = t.at("x0");
  const auto& weight = t.at("conv.weight");
  const std::int64_t ins = product(w.in), outs = product(w.out), taps = product(w.kernel), each = c / groups;
  numbers y(static_cast<std::size_t>(n * (transposed ? c * ins : out * outs)));
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(y.size()); ++i) {
    const std::int64_t channel = transposed ? i / ins % c : i / outs % out;
    y[static_cast<std::size_t>(i)] = t.contains("conv.bias") ? t.at("conv.bias")[channel] : 0;
  }
  for (std::int64_t b = 0; b < n; ++b) {
    for (std::int64_t o = 0; o < out; ++o) {
      for (std::int64_t k = 0; k < each; ++k) {
        for (std::int64_t place = 0; place < outs; ++place) {
          for (std::int64_t tap = 0; tap < taps; ++tap) {
            const std::int64_t at = read_by(w, place, tap), channel = o / (out / groups) * each + k;
            if (at < 0) continue;
            const std::int64_t inside = (b * c + channel) * ins + at, outside = (b * out + o) * outs + place;
            const double factor = weight[(o * each + k) * taps + tap];
            if (transposed) {
              y[static_cast<std::size_t>(inside)] += factor * x[outside];
            } else {
              y[static_cast<std::size_t>(outside)] += factor * x[inside];
            }
          }
        }
      }
    }
  }
  return y;
}

void add_convolutions(std::vector<layer_case>& list) {
  list.push_back({"conv1d",
                  {{2, 4, 9}},
                  {{"conv.weight", {6, 2, 3}}, {"conv.bias", {6}}},
                  [](const values& x) {
                    return conv1d("conv", x[0], 6, conv_options{.stride = 2, .padding = 2, .dilation = 2, .groups = 2});
                  },
                  [](tensors& t) {
                    return convolved(t, 2, 4, 6, 2, {{1, 1, 9}, {1, 1, 5}, {1, 1, 3}, {1, 1, 2}, {0, 0, 2}, {1, 1, 2}});
                  }});
  list.push_back({"conv2d, depthwise, of unlike axes and borders",
                  {{2, 3, 5, 6}},
                  {{"conv.weight", {6, 1, 3, 2}}},
                  [](const values& x) {
                    return conv2d("conv", x[0], 6,
                                  conv_options{.kernel = {3, 2},
                                               .stride = {1, 2},
                                               .padding = {2, 0},
                                               .groups = 3,
                                               .bias = false,
                                               .padding_high = {0, 1}});
                  },
                  [](tensors& t) {
                    return convolved(t, 2, 3, 6, 3, {{1, 5, 6}, {1, 5, 3}, {1, 3, 2}, {1, 1, 2}, {0, 2, 0}});
                  }});
  list.push_back(
      {"conv3d",
       {{1, 2, 4, 3, 5}},
       {{"conv.weight", {3, 2, 2, 3, 2}}, {"conv.bias", {3}}},
       [](const values& x) {
         return conv3d("conv", x[0], 3, conv_options{.kernel = {2, 3, 2}, .stride = {2, 1, 1}, .padding = {0, 1, 0}});
       },
       [](tensors& t) {
         return convolved(t, 1, 2, 3, 1, {{4, 3, 5}, {2, 3, 4}, {2, 3, 2}, {2, 1, 1}, {0, 1, 0}});
       }});
  list.push_back(
      {"conv_transpose1d",
       {{2, 4, 5}},
       {{"conv.weight", {4, 3, 3}}, {"conv.bias", {6}}},
       [](const values& x) {
         return conv_transpose1d(
             "conv", x[0], 6,
             conv_transpose_options{.stride = 3, .padding = 1, .output_padding = 2, .dilation = 2, .groups = 2});
       },
       [](tensors& t) {
         return convolved(t, 2, 6, 4, 2, {{1, 1, 17}, {1, 1, 5}, {1, 1, 3}, {1, 1, 3}, {0, 0, 1}, {1, 1, 2}}, true);
       }});
  list.push_back(
      {"conv_transpose2d",
       {{1, 3, 3, 4}},
       {{"conv.weight", {3, 2, 3, 2}}, {"conv.bias", {2}}},
       [](const values& x) {
         return conv_transpose2d(
             "conv", x[0], 2,
             conv_transpose_options{.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 0}, .output_padding = {1, 0}});
       },
       [](tensors& t) {
         return convolved(t, 1, 2, 3, 1, {{1, 6, 5}, {1, 3, 4}, {1, 3, 2}, {1, 2, 1}, {0, 1, 0}}, true);
       }});
  list.push_back({"conv_transpose3d",
                  {{1, 2, 2, 2, 3}},
                  {{"conv.weight", {2, 2, 2, 1, 2}}},
                  [](const values& x) {
                    return conv_transpose3d(
                        "conv", x[0], 2,
                        conv_transpose_options{.kernel = {2, 1, 2}, .stride = {2, 1, 1}, .bias = false});
                  },
                  [](tensors& t) {
                    return convolved(t, 1, 2, 2, 1, {{4, 2, 4}, {2, 2, 3}, {2, 1, 2}, {2, 1, 1}}, true);
                  }});
}

// ---- normalisation: rows of `length` that lie together; which weight an element has

numbers normalised(tensors& t, std::int64_t length, bool centred, const std::string& name,
                   const std::function<std::int64_t(std::int64_t)>& place) {
  const auto& x = t.at("x0").values;
  numbers y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t first = i - i % static_cast<std::size_t>(length);
    double mean = 0, square = 0;
    for (std::size_t k = 0; k < static_cast<std::size_t>(length); ++k) mean += centred ? x[first + k] : 0;
    mean /= static_cast<double>(length);
    for (std::size_t k = 0; k < static_cast<std::size_t>(length); ++k) square += std::pow(x[first + k] - mean, 2);
    double each = (x[i] - mean) / std::sqrt(square / static_cast<double>(length) + 1e-5);
    if (t.contains(name + ".weight")) each *= t.at(name + ".weight")[place(static_cast<std::int64_t>(i))];
    if (t.contains(name + ".bias")) each += t.at(name + ".bias")[place(static_cast<std::int64_t>(i))];
    y.push_back(each);
  }
  return y;
}

void add_norms(std::vector<layer_case>& list) {
  const auto row = [](std::int64_t count) { return [count](std::int64_t i) { return i % count; }; };
  const auto channel = [](std::int64_t i) { return i / 6 % 4; };  // of [n, 4, 3, 2]
  list.push_back({"layer_norm of two axes",
                  {{2, 3, 4}},
                  {{"norm.weight", {3, 4}}, {"norm.bias", {3, 4}}},
                  [](const values& x) { return layer_norm("norm", x[0], norm_options{.axes = 2}); },
                  [=](tensors& t) { return normalised(t, 12, true, "norm", row(12)); }});
  list.push_back({"layer_norm without bias",
                  {{2, 3, 4}},
                  {{"norm.weight", {4}}},
                  [](const values& x) { return layer_norm("norm", x[0], norm_options{.bias = false}); },
                  [=](tensors& t) { return normalised(t, 4, true, "norm", row(4)); }});
  list.push_back({"layer_norm without parameters",
                  {{2, 3, 4}},
                  {},
                  [](const values& x) { return layer_norm("norm", x[0], norm_options{.affine = false}); },
                  [=](tensors& t) { return normalised(t, 4, true, "norm", row(4)); }});
  list.push_back({"rms_norm of two axes",
                  {{2, 3, 4}},
                  {{"norm.weight", {3, 4}}},
                  [](const values& x) { return rms_norm("norm", x[0], norm_options{.axes = 2}); },
                  [=](tensors& t) { return normalised(t, 12, false, "norm", row(12)); }});
  list.push_back({"group_norm",
                  {{2, 4, 3, 2}},
                  {{"norm.weight", {4}}, {"norm.bias", {4}}},
                  [](const values& x) { return group_norm("norm", x[0], 2); },
                  [=](tensors& t) { return normalised(t, 12, true, "norm", channel); }});
  list.push_back({"group_norm of rows",
                  {{3, 8}},
                  {{"norm.weight", {8}}, {"norm.bias", {8}}},
                  [](const values& x) { return group_norm("norm", x[0], 2); },
                  [=](tensors& t) { return normalised(t, 4, true, "norm", row(8)); }});
  list.push_back({"instance_norm",
                  {{2, 4, 3, 2}},
                  {},
                  [](const values& x) { return instance_norm("norm", x[0]); },
                  [=](tensors& t) { return normalised(t, 6, true, "norm", channel); }});
  list.push_back({"instance_norm with parameters",
                  {{2, 4, 3, 2}},
                  {{"norm.weight", {4}}, {"norm.bias", {4}}},
                  [](const values& x) { return instance_norm("norm", x[0], group_norm_options{}); },
                  [=](tensors& t) { return normalised(t, 6, true, "norm", channel); }});
  list.push_back({"weight_norm_linear",
                  {{2, 3}},
                  {{"fc.weight_g", {4, 1}}, {"fc.weight_v", {4, 3}}, {"fc.bias", {4}}},
                  [](const values& x) { return weight_norm_linear("fc", x[0], 4); },
                  [](tensors& t) {
                    numbers y;
                    for (std::int64_t i = 0; i < 8; ++i) {
                      double sum = 0, square = 0;
                      for (std::int64_t k = 0; k < 3; ++k) {
                        const double v = t.at("fc.weight_v")[i % 4 * 3 + k];
                        sum += v * t.at("x0")[i / 4 * 3 + k], square += v * v;
                      }
                      y.push_back(t.at("fc.weight_g")[i % 4] * sum / std::sqrt(square) + t.at("fc.bias")[i % 4]);
                    }
                    return y;
                  }});
}

}  // namespace

const std::vector<layer_case>& layer_cases() {
  static const std::vector<layer_case> list = [] {
    std::vector<layer_case> made;
    add_convolutions(made);
    add_norms(made);
    return made;
  }();
  return list;
}

built_layer::built_layer(const layer_case& asked) {
  values inputs;
  for (const shape& each : asked.inputs)
    inputs.emplace_back(g, g.input("x" + std::to_string(inputs.size()), dtype::f32, each));
  g.add_output("y", asked.build(inputs));
  std::uint64_t seed = 5;
  for (const op kind : {op::input, op::parameter}) {
    for (const node_id id : g.leaves(kind))
      leaves[g.get<leaf_attribute>(id).name] = oracle::random_tensor<double>(g[id].extents, seed++);
  }
}

}  // namespace meganeura::inline MEGANEURA_ABI::support
