// SPDX-License-Identifier: MIT
// What an optimiser keeps of the parameters that it updates.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/plan/plan.hpp>
#include <meganeura/runtime/area_memory.hpp>
#include <meganeura/runtime/device.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

/// Moments by name, "optimizer.<moment>.<parameter>" ("optimizer.m.fc.weight"), the training's own states among them. A
/// cheap handle; copies are the same memory, which the programs of one training for different sizes share.
class optimizer_moments {
 public:
  optimizer_moments() = default;
  /// Those of this plan, all zero. errors: invalid_argument for a parameter with the name of one of them;
  /// out_of_memory.
  optimizer_moments(const device& on, const plan::execution_plan& p);

  /// Values for moments that no program has asked for yet, by name.
  struct named_values {
    std::string name;
    std::vector<std::byte> values;
  };
  explicit optimizer_moments(std::vector<named_values> waiting);
  /// Those of this plan, with the values that wait here, or zero where none do. errors: as above; invalid_argument for
  /// values of other moments than the plan's.
  [[nodiscard]] optimizer_moments made_for(const device& on, const plan::execution_plan& p) const;

  [[nodiscard]] const std::vector<plan::named_range>& list() const { return state().list; }
  /// Bytes of one of them, after all steps submitted so far; and new ones for the steps to come. errors:
  /// invalid_argument for what `list` does not have, and another number of bytes.
  [[nodiscard]] std::vector<std::byte> read(const plan::named_range& moment) const;
  void write(const plan::named_range& moment, std::span<const std::byte> values);
  /// All back to zero.
  void reset();

  /// errors: invalid_argument for a plan that updates other parameters.
  void check_fits(const plan::execution_plan& p) const;
  /// The memory of a plan's area: plan::area::training, or plan::moment_area(i).
  [[nodiscard]] const area_memory& memory(plan::area where) const {
    return state().areas.at(plan::index_of(where) - plan::index_of(plan::area::training));
  }
  explicit operator bool() const { return state_ != nullptr; }

 private:
  struct shared_state {
    device on;
    std::vector<plan::named_range> list;
    std::vector<area_memory> areas;  // of states of the training, and one for each moment of an optimiser
  };
  /// errors: invalid_argument for a handle that holds nothing.
  [[nodiscard]] const shared_state& state() const;
  void expect(const plan::named_range& asked) const;
  std::shared_ptr<const shared_state> state_;
  std::shared_ptr<const std::vector<named_values>> waiting_;
};

namespace detail {
// "optimizer.m.fc.weight", as a checkpoint has it.
std::string moment_name(std::string_view moment, std::string_view parameter);
}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/runtime/moments.ipp>
#endif
