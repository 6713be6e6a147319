// SPDX-License-Identifier: MIT
// Input values by formula, the same on every machine.
#include "workload.hpp"

#include <cstdint>
#include <cstring>
#include <utility>

namespace inferena {

namespace mn = meganeura;

bound_input wave(std::string name, double (*fn)(double), double step, std::size_t count) {
  bound_input result{std::move(name), mn::dtype::f32, std::vector<std::byte>(count * sizeof(float))};
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(fn(static_cast<double>(i) * step));
    std::memcpy(result.bytes.data() + i * sizeof(float), &value, sizeof(value));
  }
  return result;
}

bound_input counting(std::string name, int first, int below, std::size_t count) {
  bound_input result{std::move(name), mn::dtype::i32, std::vector<std::byte>(count * sizeof(std::int32_t))};
  for (std::size_t i = 0; i < count; ++i) {
    const auto value =
        static_cast<std::int32_t>((i + static_cast<std::size_t>(first)) % static_cast<std::size_t>(below));
    std::memcpy(result.bytes.data() + i * sizeof(value), &value, sizeof(value));
  }
  return result;
}

std::vector<workload> every_workload(size of) {
  return {smollm2(of),  smolvla(of),         smolvla_mega(of), whisper(of),
          resnet50(of), resnet50_folded(of), sd_small(of),     sd15(of)};
}

}  // namespace inferena
