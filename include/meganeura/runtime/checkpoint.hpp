// SPDX-License-Identifier: MIT
// A training run in a file: everything that going on later needs to be the same as not having stopped.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/runtime/moments.hpp>
#include <meganeura/runtime/optimizer.hpp>
#include <meganeura/runtime/parameters.hpp>
#include <meganeura/runtime/plateau.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace meganeura::inline MEGANEURA_ABI {

/// What a trainer counts and was told, besides its tensors.
struct training_position {
  optimizer chosen;  // with the rates of now
  std::uint32_t step = 0;
  std::uint64_t seed = 0;  // of random streams
  /// parameter_groups::described(): none where a file was written before that was kept.
  std::optional<std::map<std::string, std::string>> groups{};
  std::uint32_t accumulated = 0;  // gradients of the step under way
  plateau_position plateau{};
  std::optional<std::uint64_t> batches{};  // that steps were given; none as above
};

/// Writes one .safetensors file: parameters and states under their names, moments ("optimizer.<moment>.<parameter>")
/// and, as metadata, optimiser, rates, what groups and frozen parameters have instead, step, batches and seed.
/// Checksums of each tensor and of the metadata are in it. errors: invalid_argument for parameters without values; io.
void save_checkpoint(const std::string& path, const parameters& weights, const optimizer_moments& moments,
                     const training_position& position);

struct loaded_checkpoint {
  training_position position;  // where training goes on
  optimizer_moments moments;   // those given, or values that wait for the first program
};

/// Reads such a file back, exactly, or one of format 1, whose states are named "state.<name>". Everything is checked
/// before anything is changed, at last by `accept`, which refuses by throwing. Where no program has made moments yet,
/// those of the file wait for the first one; which of them it needs is known then.
/// errors: io; invalid_file for a damaged file, one that is no checkpoint, rates that no optimiser can have and, in one
/// sentence with all that differs, one of another model or of another kind of optimiser than `expected`.
[[nodiscard]] loaded_checkpoint load_checkpoint(const std::string& path, parameters weights, optimizer_moments moments,
                                                const optimizer& expected,
                                                const std::function<void(const training_position&)>& accept = {});

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/runtime/checkpoint.ipp>
#endif
