// SPDX-License-Identifier: MIT
// Lists all operations: how each is written, what it takes and gives, whether it has a gradient, its names elsewhere.
#include "run.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>

int main(int argc, char** argv) {
  CLI::App app{"The operations of meganeura."};
  bool markdown = false;
  std::string part, json, layers;
  app.add_flag("--markdown", markdown, "print docs/operations.md");
  app.add_option("--json", json, "run each on a device and write what went in and came out, for other libraries");
  app.add_option("--layers", layers, "the same of layers with parameters");
  app.add_option("part", part, "only those in whose names this is");
  CLI11_PARSE(app, argc, argv);
  if (markdown) {
    fmt::print("{}", operations::markdown());
    return 0;
  }
  if (!json.empty()) {
    std::ofstream(json) << operations::json(meganeura::device{});
    return 0;
  }
  if (!layers.empty()) {
    std::ofstream(layers) << operations::layers_json(meganeura::device{});
    return 0;
  }
  fmt::print("{:<44} {:<9} {:<9} {:<28} {}\n", "operation", "dtypes", "gradient", "PyTorch", "ONNX");
  for (const operations::operation& each : operations::all()) {
    if (each.call.find(part) == std::string::npos) continue;
    const operations::found says = operations::ask(each);
    fmt::print("{:<44} {:<9} {:<9} {:<28} {}\n", each.call, says.dtypes, says.gradient, each.torch, each.onnx);
  }
}
