// SPDX-License-Identifier: MIT
// What a device's rates are measured as, beside those that plans go by without a measurement: JSON.
#include <meganeura/runtime/measured_rates.hpp>
#include <meganeura/vulkan/device.hpp>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <iostream>
#include <string>

namespace mn = meganeura;

namespace {

nlohmann::json measure(const std::string& device, int rounds) {
  const mn::device gpu({.device = device});
  const mn::device_profile shipped = mn::make_device_profile(gpu.facts());
  struct named {
    const char* name;
    std::function<double(const mn::device_rates&)> of;
    double shipped;
  };
  const named all[] = {
      {"bandwidth", &mn::device_rates::bandwidth, shipped.bandwidth},
      {"scalar_flops", &mn::device_rates::scalar_flops, shipped.scalar_flops},
      {"matmul_flops", &mn::device_rates::matmul_flops, shipped.matmul_flops},
      {"matrix_flops", &mn::device_rates::matrix_flops, shipped.matrix_flops},
      {"launch.group", [](const mn::device_rates& r) { return r.launch.group; }, shipped.launch.group},
      {"launch.dispatch", [](const mn::device_rates& r) { return r.launch.dispatch; }, shipped.launch.dispatch},
  };
  nlohmann::json rates, milliseconds = nlohmann::json::array();
  for (const named& each : all) rates[each.name] = {{"shipped", each.shipped}};
  for (int round = 0; round < rounds; ++round) {  // the driver compiles in the first one
    const auto start = std::chrono::steady_clock::now();
    const mn::device_rates found = mn::measure_rates(gpu);
    const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - start;
    milliseconds.push_back(passed.count());
    for (const named& each : all) {
      rates[each.name]["measured"].push_back(each.of(found));
      if (each.shipped > 0) rates[each.name]["ratio"].push_back(each.of(found) / each.shipped);
    }
  }
  return {{"device", gpu.facts().name},
          {"driver", gpu.facts().driver},
          {"compute_units", gpu.facts().compute_units},
          {"milliseconds", milliseconds},
          {"rates", rates}};
}

}  // namespace

int main(int argc, char** argv) try {
  std::string device;
  int rounds = 3;
  CLI::App app("Measures a device's rates and prints them beside those that it has without: JSON");
  app.add_option("--device", device, "index, part of the name, or cpu; the best by default");
  app.add_option("--rounds", rounds, "measurements, one after the other");
  CLI11_PARSE(app, argc, argv);
  std::cout << measure(device, rounds).dump(2) << "\n";
  return 0;
} catch (const std::exception& problem) {
  std::fprintf(stderr, "device_rates: %s\n", problem.what());
  return 1;
}
