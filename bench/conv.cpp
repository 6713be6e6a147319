// SPDX-License-Identifier: MIT
// Time of convolutions with bias and ReLU, and of their gradients, on a device.
#include "layer_bench.hpp"

#include <array>
#include <memory>

namespace {

namespace mn = meganeura;
using layer_bench::pass;

struct conv_shape {
  std::string name;
  std::int64_t batch, size, in, out, kernel, stride = 1, groups = 1;

  [[nodiscard]] std::int64_t padding() const { return kernel / 2; }
  [[nodiscard]] std::int64_t result() const { return (size + 2 * padding() - kernel) / stride + 1; }
  [[nodiscard]] std::int64_t of_group() const { return in / groups; }
};

// Those of ResNet-50 x4, of a small U-Net x2 and of Stable Diffusion 1.5 that take longest, some of groups, and one for
// a CPU.
const std::vector<conv_shape> known{{"7x7 3->64 @224 s2", 4, 224, 3, 64, 7, 2},
                                    {"1x1 64 @56", 4, 56, 64, 64, 1},
                                    {"1x1 64->256 @56", 4, 56, 64, 256, 1},
                                    {"1x1 256->64 @56", 4, 56, 256, 64, 1},
                                    {"3x3 64 @56", 4, 56, 64, 64, 3},
                                    {"3x3 128 @28", 4, 28, 128, 128, 3},
                                    {"3x3 256 @14", 4, 14, 256, 256, 3},
                                    {"3x3 512 @7", 4, 7, 512, 512, 3},
                                    {"3x3 128 @56 s2", 4, 56, 128, 128, 3, 2},
                                    {"1x1 256->512 @56 s2", 4, 56, 256, 512, 1, 2},
                                    {"U-Net 3x3 64 @32", 2, 32, 64, 64, 3},
                                    {"U-Net 3x3 128 @16", 2, 16, 128, 128, 3},
                                    {"U-Net 3x3 256 @8", 2, 8, 256, 256, 3},
                                    {"SD 3x3 320 @64", 1, 64, 320, 320, 3},
                                    {"SD 3x3 640 @32", 1, 32, 640, 640, 3},
                                    {"SD 3x3 1280 @16", 1, 16, 1280, 1280, 3},
                                    {"SD 3x3 1280 @8", 1, 8, 1280, 1280, 3},
                                    {"SD 3x3 2560->1280 @8", 1, 8, 2560, 1280, 3},
                                    {"SD 1x1 320 @64", 1, 64, 320, 320, 1},
                                    {"SD 1x1 1280 @16", 1, 16, 1280, 1280, 1},
                                    {"depthwise 3x3 256 @28", 4, 28, 256, 256, 3, 1, 256},
                                    {"3x3 128 @28 of 32 groups", 4, 28, 128, 128, 3, 1, 32},
                                    {"small", 2, 9, 6, 8, 3}};

// [n, c, size, size], [out, c / groups, kernel, kernel], [out] and [n, out, result, result].
struct operands {
  std::vector<float> x, filter, bias, dy;
};

std::vector<pass> passes_of(const conv_shape& of) {
  const std::int64_t taps = of.kernel * of.kernel, pixels = of.batch * of.result() * of.result();
  const auto all =
      std::make_shared<operands>(operands{layer_bench::normal(of.batch * of.size * of.size * of.in, 1),
                                          layer_bench::normal(of.out * taps * of.of_group(), 2),
                                          layer_bench::normal(of.out, 3), layer_bench::normal(pixels * of.out, 4)});
  mn::conv_options options;
  options.kernel = static_cast<int>(of.kernel), options.stride = static_cast<int>(of.stride);
  options.padding = static_cast<int>(of.padding()), options.groups = static_cast<int>(of.groups);
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  // 0 outside of the image.
  const auto x_at = [all, of, at](std::int64_t n, std::int64_t y, std::int64_t x, std::int64_t c) {
    const bool is_inside = y >= 0 && x >= 0 && y < of.size && x < of.size;
    return is_inside ? double{all->x[at(((n * of.in + c) * of.size + y) * of.size + x)]} : 0.0;
  };
  const auto filter_at = [all, of, at](std::int64_t o, std::int64_t ky, std::int64_t kx, std::int64_t c) {
    return double{all->filter[at(((o * of.of_group() + c) * of.kernel + ky) * of.kernel + kx)]};
  };
  const std::int64_t of_result_group = of.out / of.groups, of_image = of.result() * of.result();

  std::vector<pass> made;
  const auto leaves = [&](mn::graph& g) {
    const mn::node_value x(g, g.parameter("x", mn::dtype::f32, {of.batch, of.in, of.size, of.size}));
    const mn::shape extents{of.out, of.of_group(), of.kernel, of.kernel};
    return std::array{x, mn::node_value(g, g.parameter("filter", mn::dtype::f32, extents))};
  };
  {
    pass one{.name = "forward",
             .graph = {},
             .values = {{"x", all->x}, {"filter", all->filter}, {"bias", all->bias}},
             .expected = {}};
    const auto [x, filter] = leaves(one.graph);
    const mn::node_value bias(one.graph, one.graph.parameter("bias", mn::dtype::f32, {of.out, 1, 1}));
    const mn::node_value y = mn::convolution(x, filter, options);
    one.graph.add_output("y", mn::relu(y + bias));
    one.expected = [=](std::size_t number) {
      auto i = static_cast<std::int64_t>(number);
      const std::int64_t px = i % of.result(), py = i / of.result() % of.result(), o = i / of_image % of.out,
                         n = i / of_image / of.out, first = o / of_result_group * of.of_group();
      double sum = all->bias[at(o)];
      for (std::int64_t ky = 0; ky < of.kernel; ++ky) {
        for (std::int64_t kx = 0; kx < of.kernel; ++kx) {
          for (std::int64_t c = 0; c < of.of_group(); ++c)
            sum += x_at(n, py * of.stride + ky - of.padding(), px * of.stride + kx - of.padding(), first + c) *
                   filter_at(o, ky, kx, c);
        }
      }
      return std::max(sum, 0.0);
    };
    made.push_back(std::move(one));
  }
  const auto gradient = [&](const char* name, bool of_filter) {
    pass one{
        .name = name, .graph = {}, .values = {{"x", all->x}, {"filter", all->filter}, {"dy", all->dy}}, .expected = {}};
    mn::graph& g = one.graph;
    const auto [x, filter] = leaves(g);
    const mn::node_value dy(g, g.parameter("dy", mn::dtype::f32, {of.batch, of.out, of.result(), of.result()}));
    const mn::node_value y = mn::convolution(x, filter, options);
    const mn::node_id wrt[] = {of_filter ? filter : x};
    g.add_output("y", mn::gradients(g, mn::sum(y * dy), wrt)[0]);
    return one;
  };
  if (of.in >= 4) {  // nobody asks for that of an image
    pass one = gradient("dx", false);
    one.expected = [=](std::size_t number) {
      auto i = static_cast<std::int64_t>(number);
      const std::int64_t x = i % of.size, y = i / of.size % of.size, c = i / of.size / of.size % of.in,
                         n = i / of.size / of.size / of.in, group = c / of.of_group();
      double sum = 0;
      for (std::int64_t ky = 0; ky < of.kernel; ++ky) {
        for (std::int64_t kx = 0; kx < of.kernel; ++kx) {
          const std::int64_t py = y + of.padding() - ky, px = x + of.padding() - kx;
          if (py < 0 || px < 0 || py % of.stride != 0 || px % of.stride != 0) continue;
          if (py / of.stride >= of.result() || px / of.stride >= of.result()) continue;
          const std::int64_t pixel = py / of.stride * of.result() + px / of.stride;
          for (std::int64_t o = group * of_result_group; o < (group + 1) * of_result_group; ++o)
            sum += double{all->dy[at((n * of.out + o) * of_image + pixel)]} * filter_at(o, ky, kx, c % of.of_group());
        }
      }
      return sum;
    };
    made.push_back(std::move(one));
  }
  pass one = gradient("dfilter", true);
  one.expected = [=](std::size_t number) {
    auto i = static_cast<std::int64_t>(number);
    const std::int64_t kx = i % of.kernel, ky = i / of.kernel % of.kernel, c = i / taps % of.of_group(),
                       o = i / taps / of.of_group();
    double sum = 0;
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
      const std::int64_t px = pixel % of.result(), py = pixel / of.result() % of.result(),
                         n = pixel / of.result() / of.result();
      sum += double{all->dy[at((n * of.out + o) * of_image + pixel % of_image)]} *
             x_at(n, py * of.stride + ky - of.padding(), px * of.stride + kx - of.padding(),
                  o / of_result_group * of.of_group() + c);
    }
    return sum;
  };
  made.push_back(std::move(one));
  return made;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<layer_bench::shape> shapes;
  for (const conv_shape& each : known) shapes.push_back({each.name, [&each] { return passes_of(each); }});
  return layer_bench::run(argc, argv, "Convolutions and their gradients", shapes);
}
