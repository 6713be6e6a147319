// SPDX-License-Identifier: MIT
#include <support/layer_cases.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI::support {

namespace {

using values = std::vector<node_value>;
using numbers = std::vector<double>;
using tensors = oracle::tensors<double>;
using place = std::array<std::int64_t, 3>;

// ---- convolution: sums over every output place and every tap

struct window {
  place in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};
};

std::int64_t product(const place& extents) { return extents[0] * extents[1] * extents[2]; }
place split(std::int64_t at, const place& extents) {
  return {at / extents[2] / extents[1], at / extents[2] % extents[1], at % extents[2]};
}
// The place of the input that a tap of an output place reads, or -1.
std::int64_t read_by(const window& w, std::int64_t output, std::int64_t tap) {
  const place to = split(output, w.out), by = split(tap, w.kernel);
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
        for (std::int64_t output = 0; output < outs; ++output) {
          for (std::int64_t tap = 0; tap < taps; ++tap) {
            const std::int64_t at = read_by(w, output, tap), channel = o / (out / groups) * each + k;
            if (at < 0) continue;
            const std::int64_t inside = (b * c + channel) * ins + at, outside = (b * out + o) * outs + output;
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
  list.push_back(
      {"conv_transpose2d, padded behind by more than a stride",
       {{1, 2, 3, 2}},
       {{"conv.weight", {2, 2, 2, 3}}, {"conv.bias", {2}}},
       [](const values& x) {
         return conv_transpose2d(
             "conv", x[0], 2,
             conv_transpose_options{
                 .kernel = {2, 3}, .stride = {2, 1}, .padding = {2, 1}, .output_padding = {3, 1}, .dilation = {4, 2}});
       },
       [](tensors& t) {
         return convolved(t, 1, 2, 2, 1, {{1, 8, 5}, {1, 3, 2}, {1, 2, 3}, {1, 2, 1}, {0, 2, 1}, {1, 4, 2}}, true);
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
                   const std::function<std::int64_t(std::int64_t)>& at) {
  const auto& x = t.at("x0").values;
  numbers y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t first = i - i % static_cast<std::size_t>(length);
    double mean = 0, square = 0;
    for (std::size_t k = 0; k < static_cast<std::size_t>(length); ++k) mean += centred ? x[first + k] : 0;
    mean /= static_cast<double>(length);
    for (std::size_t k = 0; k < static_cast<std::size_t>(length); ++k) square += std::pow(x[first + k] - mean, 2);
    double each = (x[i] - mean) / std::sqrt(square / static_cast<double>(length) + 1e-5);
    if (t.contains(name + ".weight")) each *= t.at(name + ".weight")[at(static_cast<std::int64_t>(i))];
    if (t.contains(name + ".bias")) each += t.at(name + ".bias")[at(static_cast<std::int64_t>(i))];
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

void add_weight_norm(std::vector<layer_case>& list) {
  list.push_back({"weight_norm_conv",
                  {{1, 4, 5}},
                  {{"conv.weight_g", {2, 1, 1}}, {"conv.weight_v", {2, 2, 3}}, {"conv.bias", {2}}},
                  [](const values& x) { return weight_norm_conv("conv", x[0], 2, conv_options{.groups = 2}); },
                  [](tensors& t) {
                    const auto v = t.at("conv.weight_v");
                    auto weight = v;
                    for (std::int64_t i = 0; i < 12; ++i) {
                      double square = 0;
                      for (std::int64_t k = i / 6 * 6; k < i / 6 * 6 + 6; ++k) square += v[k] * v[k];
                      weight[i] = t.at("conv.weight_g")[i / 6] * v[i] / std::sqrt(square);
                    }
                    t["conv.weight"] = weight;
                    return convolved(t, 1, 4, 2, 2, {{1, 1, 5}, {1, 1, 3}, {1, 1, 3}});
                  }});
}

// ---- matrices of rows

struct matrix {
  std::int64_t rows, columns;
  numbers list;
  [[nodiscard]] double at(std::int64_t row, std::int64_t column) const {
    return list[static_cast<std::size_t>(row * columns + column)];
  }
};
matrix rows_of(tensors& t, const std::string& name, std::int64_t columns) {
  const numbers& list = t.at(name).values;
  return {static_cast<std::int64_t>(list.size()) / columns, columns, list};
}
matrix made(std::int64_t rows, std::int64_t columns, const std::function<double(std::int64_t, std::int64_t)>& of) {
  matrix result{rows, columns, {}};
  for (std::int64_t i = 0; i < rows * columns; ++i) result.list.push_back(of(i / columns, i % columns));
  return result;
}
matrix part(const matrix& x, std::int64_t first, std::int64_t count) {
  return made(count, x.columns, [&](std::int64_t i, std::int64_t k) { return x.at(first + i, k); });
}
matrix sum_of(const matrix& a, const matrix& b) {
  return made(a.rows, a.columns, [&](std::int64_t i, std::int64_t k) { return a.at(i, k) + b.at(i, k); });
}
// x W^T + b with rows of W and places of b from `first` on.
matrix projected(tensors& t, const matrix& x, const std::string& weight, const std::string& bias, std::int64_t out,
                 std::int64_t first = 0) {
  const auto& w = t.at(weight);
  return made(x.rows, out, [&](std::int64_t i, std::int64_t o) {
    double sum = t.contains(bias) ? t.at(bias)[first + o] : 0;
    for (std::int64_t k = 0; k < x.columns; ++k) sum += x.at(i, k) * w[(first + o) * x.columns + k];
    return sum;
  });
}

// What is added to the score of a query and a key; -INFINITY: it does not see it.
using mask_of_keys = std::function<double(std::int64_t query, std::int64_t key)>;
double ahead(std::int64_t query, std::int64_t key) { return key > query ? -INFINITY : 0; }

// Of rows of one batch.
matrix attended(tensors& t, const std::string& name, const matrix& query, const matrix& key, std::int64_t heads,
                const mask_of_keys& mask) {
  const std::int64_t width = query.columns, each = width / heads;
  const auto in = [&](const matrix& x, std::int64_t index) {
    return projected(t, x, name + ".in_proj_weight", name + ".in_proj_bias", width, index * width);
  };
  const matrix q = in(query, 0), k = in(key, 1), v = in(key, 2);
  const matrix mixed = made(q.rows, width, [&](std::int64_t i, std::int64_t at) {
    double total = 0, sum = 0;
    for (std::int64_t s = 0; s < k.rows; ++s) {
      double dot = 0;
      for (std::int64_t d = at / each * each; d < at / each * each + each; ++d) dot += q.at(i, d) * k.at(s, d);
      const double weight = std::exp(dot / std::sqrt(static_cast<double>(each)) + mask(i, s));
      total += weight, sum += weight * v.at(s, at);
    }
    return total == 0 ? 0 : sum / total;
  });
  return projected(t, mixed, name + ".out_proj.weight", name + ".out_proj.bias", width);
}
matrix attended(tensors& t, const std::string& name, const matrix& query, const matrix& key, std::int64_t heads,
                bool causal) {
  return attended(t, name, query, key, heads, [=](auto i, auto k) { return causal ? ahead(i, k) : 0; });
}
matrix norm_of(tensors& t, const matrix& x, const std::string& name) {
  tensors one{
      {"x0", {{x.rows, x.columns}, x.list}}, {"n.weight", t.at(name + ".weight")}, {"n.bias", t.at(name + ".bias")}};
  return {x.rows, x.columns, normalised(one, x.columns, true, "n", [&](std::int64_t i) { return i % x.columns; })};
}
matrix fed(tensors& t, const std::string& name, const matrix& x, std::int64_t hidden, double (*active)(double)) {
  matrix h = projected(t, x, name + ".linear1.weight", name + ".linear1.bias", hidden);
  for (double& each : h.list) each = active(each);
  return projected(t, h, name + ".linear2.weight", name + ".linear2.bias", x.columns);
}
double relu_of(double x) { return x < 0 ? 0 : x; }
double gelu_of(double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))); }

// `of` of each of two batches of x0 and x1, one behind the other.
numbers by_batch(tensors& t, std::int64_t width, const std::function<matrix(const matrix&, const matrix&)>& of) {
  const matrix x = rows_of(t, "x0", width);
  const matrix other = t.contains("x1") ? rows_of(t, "x1", width) : x;
  numbers y;
  for (std::int64_t b = 0; b < 2; ++b) {
    const numbers each = of(part(x, b * x.rows / 2, x.rows / 2), part(other, b * other.rows / 2, other.rows / 2)).list;
    y.insert(y.end(), each.begin(), each.end());
  }
  return y;
}

struct early {
  static constexpr transformer_options options{.width = 4, .heads = 2, .hidden = 6, .gelu = true, .norm_first = true};
};
struct late {
  static constexpr transformer_options options{.width = 4, .heads = 2, .hidden = 6, .causal = true};
};

std::map<std::string, shape> parts_of_layer(const std::vector<std::string>& attentions, int norms) {
  std::map<std::string, shape> list{
      {"l.linear1.weight", {6, 4}}, {"l.linear1.bias", {6}}, {"l.linear2.weight", {4, 6}}, {"l.linear2.bias", {4}}};
  for (const std::string& each : attentions) {
    list["l." + each + ".in_proj_weight"] = {12, 4}, list["l." + each + ".in_proj_bias"] = {12};
    list["l." + each + ".out_proj.weight"] = {4, 4}, list["l." + each + ".out_proj.bias"] = {4};
  }
  for (int i = 1; i <= norms; ++i)
    list["l.norm" + std::to_string(i) + ".weight"] = list["l.norm" + std::to_string(i) + ".bias"] = {4};
  return list;
}

void add_attentions(std::vector<layer_case>& list) {
  list.push_back(
      {"multi_head_attention",
       {{2, 3, 4}},
       {{"a.in_proj_weight", {12, 4}},
        {"a.in_proj_bias", {12}},
        {"a.out_proj.weight", {4, 4}},
        {"a.out_proj.bias", {4}}},
       [](const values& x) { return multi_head_attention("a", x[0], 2, multi_head_options{.causal = true}); },
       [](tensors& t) {
         return by_batch(t, 4, [&](const matrix& x, const matrix&) { return attended(t, "a", x, x, 2, true); });
       }});
  list.push_back({"multi_head_attention to another, without bias",
                  {{2, 3, 4}, {2, 5, 4}},
                  {{"a.in_proj_weight", {12, 4}}, {"a.out_proj.weight", {4, 4}}},
                  [](const values& x) {
                    return multi_head_attention("a", x[0], x[1], x[1], 2, multi_head_options{.bias = false});
                  },
                  [](tensors& t) {
                    return by_batch(t, 4,
                                    [&](const matrix& x, const matrix& y) { return attended(t, "a", x, y, 2, false); });
                  }});
  list.push_back({"transformer_encoder_layer, normalised first",
                  {{2, 3, 4}},
                  parts_of_layer({"self_attn"}, 2),
                  [](const values& x) { return call<transformer_encoder_layer<early::options>>("l", x[0]); },
                  [](tensors& t) {
                    return by_batch(t, 4, [&](const matrix& x, const matrix&) {
                      const matrix y = norm_of(t, x, "l.norm1"),
                                   h = sum_of(x, attended(t, "l.self_attn", y, y, 2, false));
                      return sum_of(h, fed(t, "l", norm_of(t, h, "l.norm2"), 6, gelu_of));
                    });
                  }});
  list.push_back({"transformer_encoder_layer",
                  {{2, 3, 4}},
                  parts_of_layer({"self_attn"}, 2),
                  [](const values& x) { return call<transformer_encoder_layer<late::options>>("l", x[0]); },
                  [](tensors& t) {
                    return by_batch(t, 4, [&](const matrix& x, const matrix&) {
                      const matrix h = norm_of(t, sum_of(x, attended(t, "l.self_attn", x, x, 2, true)), "l.norm1");
                      return norm_of(t, sum_of(h, fed(t, "l", h, 6, relu_of)), "l.norm2");
                    });
                  }});
  list.push_back({"transformer_decoder_layer",
                  {{2, 3, 4}, {2, 5, 4}},
                  parts_of_layer({"self_attn", "multihead_attn"}, 3),
                  [](const values& x) { return call<transformer_decoder_layer<late::options>>("l", x[0], x[1]); },
                  [](tensors& t) {
                    return by_batch(t, 4, [&](const matrix& x, const matrix& y) {
                      const matrix h = norm_of(t, sum_of(x, attended(t, "l.self_attn", x, x, 2, true)), "l.norm1");
                      const matrix m =
                          norm_of(t, sum_of(h, attended(t, "l.multihead_attn", h, y, 2, false)), "l.norm2");
                      return norm_of(t, sum_of(m, fed(t, "l", m, 6, relu_of)), "l.norm3");
                    });
                  }});
}

// 0, 1, .. of each of a batch.
node_value place_in_batch(const node_value& x) { return arange_like(sum(x, 1, 2), 0); }

void add_masked_attentions(std::vector<layer_case>& list) {
  const auto within = [](std::int64_t count) { return [=](auto, auto k) { return k < count ? 0 : -INFINITY; }; };
  list.push_back({"multi_head_attention within lengths of 0 and 2",
                  {{2, 3, 4}},
                  {{"a.in_proj_weight", {12, 4}}, {"a.out_proj.weight", {4, 4}}},
                  [](const values& x) {
                    return multi_head_attention("a", x[0], key_lengths(place_in_batch(x[0]) * 2), 2,
                                                multi_head_options{.bias = false});
                  },
                  [=](tensors& t) {
                    return by_batch(t, 4, [&, b = 0](const matrix& x, const matrix&) mutable {
                      return attended(t, "a", x, x, 2, within(2 * b++));
                    });
                  }});
  list.push_back(
      {"multi_head_attention to another with a mask and lengths of 0 and 4",
       {{2, 3, 4}, {2, 5, 4}, {1, 5}},
       {{"a.in_proj_weight", {12, 4}}, {"a.out_proj.weight", {4, 4}}},
       [](const values& x) {
         return multi_head_attention("a", x[0], x[1], x[1], attn_mask(x[2]), key_lengths(place_in_batch(x[0]) * 4), 2,
                                     multi_head_options{.bias = false});
       },
       [](tensors& t) {
         return by_batch(t, 4, [&, b = 0](const matrix& x, const matrix& y) mutable {
           const int keys = 4 * b++;
           return attended(t, "a", x, y, 2, [&](auto, auto k) { return k < keys ? t.at("x2")[k] : -INFINITY; });
         });
       }});
  list.push_back({"transformer_encoder_layer within lengths of 0 and 2",
                  {{2, 3, 4}},
                  parts_of_layer({"self_attn"}, 2),
                  [](const values& x) {
                    return call<transformer_encoder_layer<late::options>>("l", x[0],
                                                                          key_lengths(place_in_batch(x[0]) * 2));
                  },
                  [=](tensors& t) {
                    return by_batch(t, 4, [&, b = 0](const matrix& x, const matrix&) mutable {
                      const auto keys = within(2 * b++);
                      const matrix seen =
                          attended(t, "l.self_attn", x, x, 2, [&](auto i, auto k) { return ahead(i, k) + keys(i, k); });
                      const matrix h = norm_of(t, sum_of(x, seen), "l.norm1");
                      return norm_of(t, sum_of(h, fed(t, "l", h, 6, relu_of)), "l.norm2");
                    });
                  }});
  list.push_back(
      {"transformer_decoder_layer with masks and lengths of both",
       {{2, 3, 4}, {2, 5, 4}, {3, 3}, {3, 5}},
       parts_of_layer({"self_attn", "multihead_attn"}, 3),
       [](const values& x) {
         const node_value b = place_in_batch(x[0]);
         return call<transformer_decoder_layer<late::options>>("l", x[0], x[1], memory_lengths(4 - b * 4),
                                                               attn_mask(x[2]), memory_mask(x[3]), key_lengths(b + 1));
       },
       [=](tensors& t) {
         return by_batch(t, 4, [&, b = 0](const matrix& x, const matrix& y) mutable {
           const auto own = within(b + 1), other = within(4 - 4 * b);
           ++b;
           const auto to_itself = [&](auto i, auto k) { return ahead(i, k) + own(i, k) + t.at("x2")[i * 3 + k]; };
           const auto to_memory = [&](auto i, auto k) { return other(i, k) + t.at("x3")[i * 5 + k]; };
           const matrix h = norm_of(t, sum_of(x, attended(t, "l.self_attn", x, x, 2, to_itself)), "l.norm1");
           const matrix m = norm_of(t, sum_of(h, attended(t, "l.multihead_attn", h, y, 2, to_memory)), "l.norm2");
           return norm_of(t, sum_of(m, fed(t, "l", m, 6, relu_of)), "l.norm3");
         });
       }});
}

void add_adapters(std::vector<layer_case>& list) {
  list.push_back(
      {"lora_linear",
       {{2, 3}},
       {{"fc.weight", {4, 3}}, {"fc.bias", {4}}, {"fc.lora_A", {2, 3}}, {"fc.lora_B", {4, 2}}},
       [](const values& x) { return lora_linear("fc", x[0], 4, lora_options{.rank = 2, .alpha = 6}); },
       [](tensors& t) {
         const matrix x = rows_of(t, "x0", 3), thin = projected(t, x, "fc.lora_A", "", 2);
         const matrix low = projected(t, thin, "fc.lora_B", "", 4), y = projected(t, x, "fc.weight", "fc.bias", 4);
         return made(2, 4, [&](std::int64_t i, std::int64_t k) { return y.at(i, k) + 3 * low.at(i, k); }).list;
       }});
  list.push_back(
      {"squeeze_excite",
       {{2, 4, 2, 3}},
       {{"se.fc1.weight", {2, 4, 1, 1}}, {"se.fc1.bias", {2}}, {"se.fc2.weight", {4, 2, 1, 1}}, {"se.fc2.bias", {4}}},
       [](const values& x) { return squeeze_excite("se", x[0], 2); },
       [](tensors& t) {
         const matrix x = rows_of(t, "x0", 6);
         const matrix means = made(2, 4, [&](std::int64_t i, std::int64_t k) {
           double sum = 0;
           for (std::int64_t at = 0; at < 6; ++at) sum += x.at(i * 4 + k, at);
           return sum / 6;
         });
         matrix few = projected(t, means, "se.fc1.weight", "se.fc1.bias", 2);
         for (double& each : few.list) each = relu_of(each);
         const matrix share = projected(t, few, "se.fc2.weight", "se.fc2.bias", 4);
         return made(8, 6,
                     [&](std::int64_t i, std::int64_t k) {
                       return x.at(i, k) / (1 + std::exp(-share.at(i / 4, i % 4)));
                     })
             .list;
       }});
  list.push_back({"bilinear",
                  {{3, 2}, {3, 4}},
                  {{"b.weight", {5, 2, 4}}, {"b.bias", {5}}},
                  [](const values& x) { return bilinear("b", x[0], x[1], 5); },
                  [](tensors& t) {
                    return made(3, 5,
                                [&](std::int64_t i, std::int64_t o) {
                                  double sum = t.at("b.bias")[o];
                                  for (std::int64_t k = 0; k < 8; ++k)
                                    sum += t.at("x0")[i * 2 + k / 4] * t.at("b.weight")[o * 8 + k] *
                                           t.at("x1")[i * 4 + k % 4];
                                  return sum;
                                })
                        .list;
                  }});
}

// ---- recurrences: a step is given the gates of x and those of h

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
using recurrence = void (*)(const numbers& from_x, const numbers& from_h, numbers& h, numbers& cell);
void rnn_of(const numbers& a, const numbers& b, numbers& h, numbers&) {
  for (std::size_t k = 0; k < h.size(); ++k) h[k] = std::tanh(a[k] + b[k]);
}
void gru_of(const numbers& a, const numbers& b, numbers& h, numbers&) {
  const std::size_t n = h.size();
  for (std::size_t k = 0; k < n; ++k) {
    const double reset = sigmoid_of(a[k] + b[k]), update = sigmoid_of(a[n + k] + b[n + k]);
    h[k] = (1 - update) * std::tanh(a[2 * n + k] + reset * b[2 * n + k]) + update * h[k];
  }
}
void lstm_of(const numbers& a, const numbers& b, numbers& h, numbers& cell) {
  const std::size_t n = h.size();
  const auto gate = [&](std::size_t index, std::size_t k) { return a[index * n + k] + b[index * n + k]; };
  for (std::size_t k = 0; k < n; ++k) {
    cell[k] = sigmoid_of(gate(1, k)) * cell[k] + sigmoid_of(gate(0, k)) * std::tanh(gate(2, k));
    h[k] = sigmoid_of(gate(3, k)) * std::tanh(cell[k]);
  }
}

// Rows of a sequence, from its end if `reverse`, from states on that become the last ones.
matrix recurred(tensors& t, const matrix& x, const std::string& suffix, std::int64_t gates, std::int64_t hidden,
                recurrence step, bool reverse, numbers& h, numbers& cell) {
  matrix y = made(x.rows, hidden, [](std::int64_t, std::int64_t) { return 0.0; });
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const std::int64_t at = reverse ? x.rows - 1 - i : i;
    const auto by = [&](const matrix& row, const std::string& which) {
      return projected(t, row, "r.weight_" + which + suffix, "r.bias_" + which + suffix, gates * hidden).list;
    };
    step(by(part(x, at, 1), "ih"), by({1, hidden, h}, "hh"), h, cell);
    for (std::int64_t k = 0; k < hidden; ++k)
      y.list[static_cast<std::size_t>(at * hidden + k)] = h[static_cast<std::size_t>(k)];
  }
  return y;
}
matrix recurred(tensors& t, const matrix& x, const std::string& suffix, std::int64_t gates, std::int64_t hidden,
                recurrence step, bool reverse) {
  numbers h(static_cast<std::size_t>(hidden)), cell(static_cast<std::size_t>(hidden));
  return recurred(t, x, suffix, gates, hidden, step, reverse, h, cell);
}

// A step of each row of x0 from the states x1 and x2 on; the states that follow.
numbers stepped(tensors& t, std::int64_t gates, recurrence step, bool with_cell) {
  numbers hs, cells;
  for (std::int64_t b = 0; b < 2; ++b) {
    numbers h = part(rows_of(t, "x1", 3), b, 1).list;
    numbers cell = with_cell ? part(rows_of(t, "x2", 3), b, 1).list : numbers(3);
    recurred(t, part(rows_of(t, "x0", 4), b, 1), "", gates, 3, step, false, h, cell);
    hs.insert(hs.end(), h.begin(), h.end()), cells.insert(cells.end(), cell.begin(), cell.end());
  }
  if (with_cell) hs.insert(hs.end(), cells.begin(), cells.end());
  return hs;
}

// Two layers of both directions and 2 places on x0 [2, 3, 4], from the states x1 and x2 [4, 2, 2] on, each sequence
// cut off behind its length and its result filled up with zeros.
numbers recurred_both(tensors& t, std::int64_t gates, recurrence step, bool with_cell,
                      const std::array<std::int64_t, 2>& lengths = {3, 3}) {
  numbers y, hs(16), cells(16);
  for (std::int64_t b = 0; b < 2; ++b) {
    const std::int64_t steps = lengths[static_cast<std::size_t>(b)];
    matrix x = part(rows_of(t, "x0", 4), b * 3, steps);
    for (std::int64_t layer = 0; layer < 2; ++layer) {
      const auto pass = [&](std::int64_t reverse) {
        const std::int64_t at = (2 * layer + reverse) * 2 + b;
        numbers h = part(rows_of(t, "x1", 2), at, 1).list;
        numbers cell = with_cell ? part(rows_of(t, "x2", 2), at, 1).list : numbers(2);
        const std::string suffix = "_l" + std::to_string(layer) + (reverse == 1 ? "_reverse" : "");
        matrix result = recurred(t, x, suffix, gates, 2, step, reverse == 1, h, cell);
        std::copy(h.begin(), h.end(), hs.begin() + 2 * at), std::copy(cell.begin(), cell.end(), cells.begin() + 2 * at);
        return result;
      };
      const matrix there = pass(0), back = pass(1);
      x = made(steps, 4, [&](std::int64_t i, std::int64_t k) { return k < 2 ? there.at(i, k) : back.at(i, k - 2); });
    }
    x.list.resize(12);
    y.insert(y.end(), x.list.begin(), x.list.end());
  }
  y.insert(y.end(), hs.begin(), hs.end());
  if (with_cell) y.insert(y.end(), cells.begin(), cells.end());
  return y;
}

std::map<std::string, shape> gates_of(std::int64_t rows, std::int64_t width, std::int64_t hidden,
                                      const std::string& suffix, bool bias) {
  std::map<std::string, shape> list{{"r.weight_ih" + suffix, {rows, width}}, {"r.weight_hh" + suffix, {rows, hidden}}};
  if (bias) list["r.bias_ih" + suffix] = list["r.bias_hh" + suffix] = {rows};
  return list;
}

// Of two layers of both directions.
std::map<std::string, shape> gates_of_both(std::int64_t rows) {
  std::map<std::string, shape> list;
  for (const char* suffix : {"_l0", "_l0_reverse", "_l1", "_l1_reverse"})
    list.merge(gates_of(rows, 4, 2, suffix, true));
  return list;
}

void add_recurrences(std::vector<layer_case>& list) {
  static constexpr recurrent_options three{.hidden = 3}, plain{.hidden = 3, .bias = false},
      both{.hidden = 2, .layers = 2, .bidirectional = true};
  list.push_back({"lstm",
                  {{2, 5, 4}},
                  gates_of(12, 4, 3, "_l0", true),
                  [](const values& x) { return call<lstm<three>>("r", x[0]); },
                  [](tensors& t) {
                    return by_batch(t, 4, [&](const matrix& x, const matrix&) {
                      return recurred(t, x, "_l0", 4, 3, lstm_of, false);
                    });
                  }});
  list.push_back({"gru",
                  {{2, 5, 4}},
                  gates_of(9, 4, 3, "_l0", true),
                  [](const values& x) { return call<gru<three>>("r", x[0]); },
                  [](tensors& t) {
                    return by_batch(t, 4, [&](const matrix& x, const matrix&) {
                      return recurred(t, x, "_l0", 3, 3, gru_of, false);
                    });
                  }});
  list.push_back({"gru without bias",
                  {{2, 1, 4}},
                  gates_of(9, 4, 3, "_l0", false),
                  [](const values& x) { return call<gru<plain>>("r", x[0]); },
                  [](tensors& t) {
                    return by_batch(t, 4, [&](const matrix& x, const matrix&) {
                      return recurred(t, x, "_l0", 3, 3, gru_of, false);
                    });
                  }});
  list.push_back({"rnn of two layers and both directions",
                  {{2, 3, 4}},
                  gates_of_both(2),
                  [](const values& x) { return call<rnn<both>>("r", x[0]); },
                  [](tensors& t) {
                    return by_batch(t, 4, [&](const matrix& x, const matrix&) {
                      const auto beside = [&](const matrix& from, const std::string& suffix) {
                        const matrix a = recurred(t, from, suffix, 1, 2, rnn_of, false);
                        const matrix b = recurred(t, from, suffix + "_reverse", 1, 2, rnn_of, true);
                        return made(from.rows, 4, [&](std::int64_t i, std::int64_t k) {
                          return k < 2 ? a.at(i, k) : b.at(i, k - 2);
                        });
                      };
                      return beside(beside(x, "_l0"), "_l1");
                    });
                  }});
  const auto flat = [](const node_value& x) { return flatten(x, 0, -1); };
  list.push_back({"gru of two layers and both directions with states",
                  {{2, 3, 4}, {4, 2, 2}},
                  gates_of_both(6),
                  [flat](const values& x) {
                    const auto all = call<gru<both>>("r", x[0], x[1]);
                    return concat(0, flat(all.get<0>()), flat(all.get<1>()));
                  },
                  [](tensors& t) { return recurred_both(t, 3, gru_of, false); }});
  list.push_back({"lstm of two layers and both directions with states",
                  {{2, 3, 4}, {4, 2, 2}, {4, 2, 2}},
                  gates_of_both(8),
                  [flat](const values& x) {
                    const auto all = call<lstm<both>>("r", x[0], x[1], x[2]);
                    return concat(0, flat(all.get<0>()), flat(all.get<1>()), flat(all.get<2>()));
                  },
                  [](tensors& t) { return recurred_both(t, 4, lstm_of, true); }});
  list.push_back({"lstm of two layers and both directions within lengths of 1 and 2",
                  {{2, 3, 4}, {4, 2, 2}, {4, 2, 2}},
                  gates_of_both(8),
                  [flat](const values& x) {
                    const sequence_lengths lengths(place_in_batch(x[0]) + 1);
                    const auto all = call<lstm<both>>("r", x[0], x[1], x[2], lengths);
                    return concat(0, flat(all.get<0>()), flat(all.get<1>()), flat(all.get<2>()));
                  },
                  [](tensors& t) {
                    return recurred_both(t, 4, lstm_of, true, {1, 2});
                  }});
  list.push_back({"gru of two layers and both directions within lengths of 0 and 2",
                  {{2, 3, 4}, {4, 2, 2}},
                  gates_of_both(6),
                  [flat](const values& x) {
                    const auto all = call<gru<both>>("r", x[0], x[1], sequence_lengths(place_in_batch(x[0]) * 2));
                    return concat(0, flat(all.get<0>()), flat(all.get<1>()));
                  },
                  [](tensors& t) {
                    return recurred_both(t, 3, gru_of, false, {0, 2});
                  }});
  list.push_back({"rnn of two layers and both directions within lengths beyond and below",
                  {{2, 3, 4}, {4, 2, 2}},
                  gates_of_both(2),
                  [flat](const values& x) {
                    const auto all = call<rnn<both>>("r", x[0], x[1], sequence_lengths(9 - place_in_batch(x[0]) * 10));
                    return concat(0, flat(all.get<0>()), flat(all.get<1>()));
                  },
                  [](tensors& t) {
                    return recurred_both(t, 1, rnn_of, false, {3, 0});
                  }});
  list.push_back(
      {"lstm within lengths of 0 and 3",
       {{2, 5, 4}},
       gates_of(12, 4, 3, "_l0", true),
       [](const values& x) { return call<lstm<three>>("r", x[0], sequence_lengths(place_in_batch(x[0]) * 3)); },
       [](tensors& t) {
         return by_batch(t, 4, [&, b = 0](const matrix& x, const matrix&) mutable {
           matrix y = recurred(t, part(x, 0, 3 * b++), "_l0", 4, 3, lstm_of, false);
           y.list.resize(15);
           return y;
         });
       }});
  list.push_back({"lstm_cell",
                  {{2, 4}, {2, 3}, {2, 3}},
                  gates_of(12, 4, 3, "", true),
                  [](const values& x) {
                    const auto next = call<lstm_cell<three>>("r", x[0], x[1], x[2]);
                    return concat(0, next.get<0>(), next.get<1>());
                  },
                  [](tensors& t) { return stepped(t, 4, lstm_of, true); }});
  list.push_back({"gru_cell",
                  {{2, 4}, {2, 3}},
                  gates_of(9, 4, 3, "", true),
                  [](const values& x) { return call<gru_cell<three>>("r", x[0], x[1]); },
                  [](tensors& t) { return stepped(t, 3, gru_of, false); }});
  list.push_back({"rnn_cell without bias",
                  {{2, 4}, {2, 3}},
                  gates_of(3, 4, 3, "", false),
                  [](const values& x) { return call<rnn_cell<plain>>("r", x[0], x[1]); },
                  [](tensors& t) { return stepped(t, 1, rnn_of, false); }});
}

}  // namespace

const std::vector<layer_case>& layer_cases() {
  static const std::vector<layer_case> list = [] {
    std::vector<layer_case> made;
    add_convolutions(made);
    add_norms(made);
    add_weight_norm(made);
    add_attentions(made);
    add_masked_attentions(made);
    add_adapters(made);
    add_recurrences(made);
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
