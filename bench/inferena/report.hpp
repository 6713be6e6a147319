// SPDX-License-Identifier: MIT
// What was measured, as JSON and as a table beside PyTorch's figures.
#pragma once
#include <nlohmann/json.hpp>

#include <string>

#include "measure.hpp"

namespace inferena {

[[nodiscard]] nlohmann::json to_json(const meganeura::build_times& of);
[[nodiscard]] nlohmann::json to_json(const measurement& of);

/// PyTorch's best milliseconds of a task in a precision ("f32", "tf32" or "bf16"), of eager calls, CUDA graphs and
/// compiled models; 0: not measured. `rows` are those of pytorch_inferena.json.
[[nodiscard]] double best_of_pytorch(const nlohmann::json& rows, const std::string& workload, task which,
                                     const std::string& precision);

/// Markdown: a table of times with PyTorch's columns where there are any, one of preparation, one of memory, one of
/// checks, and the slowest kernels where they were asked for. `report` is what the program writes, see inferena.cpp.
[[nodiscard]] std::string to_markdown(const nlohmann::json& report, const nlohmann::json& pytorch);

/// Into a file, or for "-" to standard output; nowhere for "". Errors: io.
void write(const std::string& path, const std::string& text);

}  // namespace inferena
