// SPDX-License-Identifier: MIT
// A run against the float64 reference of its workload.
#pragma once
#include <meganeura/runtime/program.hpp>

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace inferena {

/// The largest deviation of each kind, relative, and what they may be.
struct verdict {
  bool passed = false;
  std::string problem;  // the first that is too far off, with what was expected and found; empty if it passed
  double output = 0;    // as a vector: of all elements, or of 256 taken evenly
  double loss = 0;
  double gradient = 0;    // of a parameter's gradient norm
  std::string parameter;  // whose that is
  double most_output = 0, most_gradient = 0;
};

/// What of a run is compared, each with what stands before it.
enum class compared { output, loss, gradients };

/// In f32 (`exact`): outputs and the loss may be off by 5e-6, or twice what PyTorch's f32 is off where that is more;
/// each parameter's gradient norm by 1e-5, or by PyTorch's worst, and its first four elements by eight times that of
/// themselves or of a typical element. A norm below 1e-4 of all together is what cancellation left, and is measured
/// against that much. `fast`: gradients by what PyTorch's TF32 is off, or 4e-3
/// where that is not known; outputs and loss by a fifth more than it, which varies by 4 to 7 % (one standard deviation)
/// with weights of other last bits, or 2.4e-3. `exact`, an output that passed in f32, stands in for the elements that
/// the reference does not have. `run` has outputs "output", "loss" and "grad:NAME" for each parameter that is trained,
/// as far as they are compared.
[[nodiscard]] verdict compare(const nlohmann::json& reference, const meganeura::program& run,
                              meganeura::precision precision, compared what, const std::vector<float>& exact = {});

[[nodiscard]] nlohmann::json to_json(const verdict& of);

}  // namespace inferena
