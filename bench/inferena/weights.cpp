// SPDX-License-Identifier: MIT
// Weights that are functions of their names and indices, the same bits on every machine.
#include "weights.hpp"

#include <meganeura/core/helper_threads.hpp>
#include <meganeura/core/stopwatch.hpp>

#include <support/named_weights.hpp>

#include <algorithm>
#include <span>
#include <thread>
#include <vector>

namespace inferena {

namespace mn = meganeura;

namespace {

// Elements of one tensor, part by part on all processors.
void fill_in_parallel(const mn::support::weight_formula& formula, std::span<float> values) {
  constexpr std::size_t part = 1 << 18;
  mn::detail::run_in_parallel(
      (values.size() + part - 1) / part, std::max(1u, std::thread::hardware_concurrency()), [&](std::size_t i) {
        const std::span<float> rest = values.subspan(i * part);
        formula.fill(static_cast<std::uint32_t>(i * part), rest.first(std::min(part, rest.size())));
      });
}

}  // namespace

fill_times fill(mn::parameters& weights) {
  fill_times times;
  mn::detail::stopwatch watch;
  std::vector<float> values;
  for (const auto& tensor : weights.layout().tensors) {
    if (tensor.kind != mn::op::parameter) continue;
    (void)watch.lap();
    values.resize(static_cast<std::size_t>(tensor.extents.elements()));
    fill_in_parallel({tensor.name, tensor.extents}, values);
    times.generate_ms += watch.lap();
    weights.set(tensor.name, values);
    times.upload_ms += watch.lap();
  }
  return times;
}

void hash() {
  std::vector<float> values(1 << 22);
  fill_in_parallel({"yardstick", {1 << 22}}, values);
}

}  // namespace inferena
