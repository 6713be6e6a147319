// SPDX-License-Identifier: MIT
// Which parameters a training updates, and those whose rates are others.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/name_pattern.hpp>
#include <meganeura/graph/graph.hpp>
#include <meganeura/runtime/optimizer.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

/// Parameters whose rates are not the optimiser's: {.names = "encoder.*", .rate = 0.1f}. The first group that has a
/// parameter is its own.
struct parameter_group {
  name_patterns names{};
  float rate = 1;                       // times the learning rate
  std::optional<float> weight_decay{};  // instead of the optimiser's
};

/// The parameters of a graph by what they are updated with.
class parameter_groups {
 public:
  parameter_groups() = default;
  /// `no_decay` has weight decay 0, whatever its group says.
  /// errors: invalid_argument for a pattern that no parameter of the graph matches, naming those that are near.
  parameter_groups(const graph& g, const name_patterns& frozen, const name_patterns& no_decay,
                   std::span<const parameter_group> groups);

  [[nodiscard]] bool is_frozen(std::string_view name) const { return !group_of_.contains(name); }
  /// Those of equal rates are one group; 0 is that of the optimiser's own. Only of a name that is not frozen.
  [[nodiscard]] std::uint32_t of(std::string_view name) const { return group_of_.find(name)->second; }
  /// The optimiser as each group has it. errors: invalid_argument for an optimiser without a rate that a group changes.
  [[nodiscard]] std::vector<optimizer> optimizers(const optimizer& chosen) const;

 private:
  struct rates {
    float factor = 1;
    std::optional<float> weight_decay;
    friend bool operator==(const rates&, const rates&) = default;
  };
  std::vector<rates> groups_{rates{}};
  std::map<std::string, std::uint32_t, std::less<>> group_of_;  // of all that are not frozen
};

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/runtime/parameter_groups.ipp>
#endif
