// SPDX-License-Identifier: MIT
#include "weights.hpp"

#include <meganeura/core/stopwatch.hpp>

#include <support/named_weights.hpp>

#include <algorithm>
#include <ctime>
#include <span>
#include <thread>
#include <vector>

namespace inferena {

namespace mn = meganeura;

namespace {

// Elements of one tensor, in parts of about as many on each of the processors.
void fill_in_parallel(const mn::support::weight_formula& formula, std::span<float> values) {
  constexpr std::size_t worth_a_thread = 1 << 18;
  const std::size_t threads =
      std::clamp<std::size_t>(values.size() / worth_a_thread, 1, std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::thread> others;
  const auto part = [&](std::size_t index) {
    const std::size_t begin = values.size() * index / threads, end = values.size() * (index + 1) / threads;
    formula.fill(static_cast<std::uint32_t>(begin), values.subspan(begin, end - begin));
  };
  for (std::size_t i = 1; i < threads; ++i) others.emplace_back(part, i);
  part(0);
  for (std::thread& each : others) each.join();
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

double hashing_ms() {
  std::vector<float> values(1 << 22);
  const std::clock_t before = std::clock();  // of all threads
  fill_in_parallel({"yardstick", {1 << 22}}, values);
  return 1e3 * static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
}

}  // namespace inferena
