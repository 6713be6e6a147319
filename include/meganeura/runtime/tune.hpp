// SPDX-License-Identifier: MIT
// Schedules of a graph's products, measured where it will run; and their files.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/fusion/tuned_products.hpp>
#include <meganeura/graph/graph.hpp>
#include <meganeura/runtime/device.hpp>
#include <meganeura/runtime/program.hpp>

#include <cstddef>
#include <memory>
#include <string>

namespace meganeura::inline MEGANEURA_ABI {

/// How long `tune` searches.
struct tuning_options {
  int candidates = 8;  // schedules of each product, the quickest by the model of costs; f32 multiply-add is one more
  int rounds = 5;      // steps measured with each of them, of which the median counts; up to 1000
};

/// What was found. Give `products` to `program_options::optimize.tuned`.
struct tuning_result {
  std::shared_ptr<const fusion::tuned_products> products;  // what is quicker than the model's choice; never null
  double before = 0, after = 0;  // milliseconds of a whole step on the device, with the model's choice and with these
};

/// Measures schedules of the products of `g`, each where it stands in a step, and then the whole step with the quickest
/// ones; where that is no quicker, none are kept. Products of f16 operands stay as they are. Builds the program up to
/// `candidates` + 4 times; needs memory for two of it with parameters of their own, and changes nothing else. What
/// `options` have in `optimize.tuned` does not count. Numbers of results may differ in rounding, no more than
/// `options.precision` allows. errors: what making a program throws; unsupported where a device has no timestamps;
/// invalid_argument for no candidates, and for no or too many rounds.
[[nodiscard]] tuning_result tune(const device& on, const graph& g, const program_options& options = {},
                                 const tuning_options& how = {});

/// Writes a file of them: for this device, its driver and this version of the library. errors: io.
void save_tuned(const fusion::tuned_products& products, const std::string& path, const device& on);
/// Null where there is no such file, and where it is of another device, driver or version. errors: io; invalid_file for
/// a damaged one.
[[nodiscard]] std::shared_ptr<const fusion::tuned_products> load_tuned(const std::string& path, const device& on);

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/runtime/tune.ipp>
#endif
