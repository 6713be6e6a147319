// SPDX-License-Identifier: MIT
// The loss of labels without places, beside the sum over all ways to place them.
#include "operation.hpp"

#include <cmath>
#include <functional>

namespace operations {

namespace {

constexpr std::size_t frames = 4, classes = 3, blank = 1;

// Of [2, 4, 3] logits: every path through `count` frames that reads as the labels.
double chance(const double* logits, std::size_t count, const numbers& labels) {
  double total = 0;
  std::size_t paths = 1;
  for (std::size_t t = 0; t < count; ++t) paths *= classes;
  for (std::size_t path = 0; path < paths; ++path) {
    numbers read;
    double product = 1;
    std::size_t rest = path, before = blank;
    for (std::size_t t = 0; t < count; ++t, rest /= classes) {
      const std::size_t now = rest % classes;
      double sum = 0;
      for (std::size_t c = 0; c < classes; ++c) sum += std::exp(logits[t * classes + c]);
      product *= std::exp(logits[t * classes + now]) / sum;
      if (now != blank && now != before) read.push_back(static_cast<double>(now));
      before = now;
    }
    if (read == labels) total += product;
  }
  return total;
}

}  // namespace

void add_ctc(std::vector<operation>& list) {
  list.push_back({"ctc_loss<options>(scores, targets, frames, labels)",
                  "[n, t, classes], [n, l], [n], [n] -> [], or [n] unreduced",
                  "nn.functional.ctc_loss",
                  "",
                  {{{2, frames, classes}},
                   {{2, 2}, 2, 3, mn::dtype::i32},
                   {{2}, 3, 5, mn::dtype::i32},
                   {{2}, 1, 3, mn::dtype::i32}},
                  [](const std::vector<mn::node_value>& x) {
                    return mn::ctc_loss(mn::log_softmax(x[0]), x[1], x[2], x[3], mn::ctc_options{.blank = blank});
                  },
                  [](const std::vector<numbers>& x) {
                    double sum = 0;
                    for (std::size_t n = 0; n < 2; ++n) {
                      const numbers labels(&x[1][2 * n], &x[1][2 * n] + static_cast<std::size_t>(x[3][n]));
                      const double* of = &x[0][n * frames * classes];
                      sum -= std::log(chance(of, static_cast<std::size_t>(x[2][n]), labels)) / x[3][n];
                    }
                    return numbers{sum / 2};
                  }});
}

}  // namespace operations
