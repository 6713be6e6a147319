// SPDX-License-Identifier: MIT
// Which parameters a training updates, and those whose rates are others.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/name_pattern.hpp>
#include <meganeura/runtime/optimizer.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

/// Parameters whose rates are not the optimiser's: {.names = "encoder.*", .rate = 0.1f}. The first group that has a
/// parameter is its own; one that is left with none is an error.
struct parameter_group {
  name_patterns names{};
  float rate = 1;                       // times the learning rate; finite and at least 0, as a weight decay
  std::optional<float> weight_decay{};  // instead of the optimiser's
};

/// The parameters of a model by what they are updated with.
class parameter_groups {
 public:
  parameter_groups() = default;
  /// `no_decay` has weight decay 0, whatever its group says. Groups of `known`, of other sizes, keep their numbers.
  /// errors: invalid_argument for a pattern that no parameter matches, naming those that are near, and for a group with
  /// a wrong rate, without names, or left without parameters.
  parameter_groups(std::span<const std::string> names, const name_patterns& frozen, const name_patterns& no_decay,
                   std::span<const parameter_group> groups, parameter_groups known);

  [[nodiscard]] bool is_frozen(std::string_view name) const {
    const auto found = group_of_.find(name);
    return found == group_of_.end() || found->second == frozen_group;
  }
  /// Those of equal rates are one group; 0 is that of the optimiser's own. Only of a name that is not frozen.
  [[nodiscard]] std::uint32_t of(std::string_view name) const { return group_of_.find(name)->second; }
  [[nodiscard]] std::size_t count() const { return groups_.size(); }
  /// The optimiser as each group has it. errors: invalid_argument for an optimiser without a rate that a group changes,
  /// and for a product of rates that is not finite.
  [[nodiscard]] std::vector<optimizer> optimizers(const optimizer& chosen) const;
  /// By name, what a checkpoint says of parameters whose rates are not the optimiser's own: "frozen", or
  /// "learning_rate * 0.1, weight_decay 0".
  [[nodiscard]] std::map<std::string, std::string> described() const;

 private:
  static constexpr auto frozen_group = std::numeric_limits<std::uint32_t>::max();
  struct rates {
    float factor = 1;
    std::optional<float> weight_decay;
    friend bool operator==(const rates&, const rates&) = default;
  };
  std::vector<rates> groups_{rates{}};
  std::map<std::string, std::uint32_t, std::less<>> group_of_;
};

namespace detail {
// errors: invalid_argument, whatever the parameters are.
void check_groups(std::span<const parameter_group> groups);
}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/runtime/parameter_groups.ipp>
#endif
