// SPDX-License-Identifier: MIT
// The groups in which the kernels run that an extraction has chosen, and what a change makes of them.
#pragma once
#include <meganeura/core/kernel_group.hpp>
#include <meganeura/core/small_vector.hpp>
#include <meganeura/egraph/choice_table.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::egraph::detail {

// Groups of kernels in the order in which they run. Where the way to all behind a change gets longer or shorter by one,
// one comes in between or is dropped, and all behind it are what they were.
class group_order {
 public:
  void assign(std::uint32_t count);
  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(at_.size()); }
  [[nodiscard]] std::uint32_t all() const { return static_cast<std::uint32_t>(position_.size()); }
  [[nodiscard]] std::uint32_t position(std::uint32_t group) const { return position_[group]; }
  [[nodiscard]] std::uint32_t at(std::uint32_t position) const { return at_[position]; }
  [[nodiscard]] bool is_dropped(std::uint32_t group) const { return dropped_[group]; }
  // A new one, before what stands at `position`, or last.
  std::uint32_t insert(std::uint32_t position);
  // What is there counts to the next.
  void drop(std::uint32_t group) {
    dropped_[group] = true;
    number();
  }
  // Takes back the last ones that came in.
  void take_back(std::uint32_t all_before);

 private:
  void number();

  std::vector<std::uint32_t> sequence_, at_;  // with those that were dropped, and without
  std::vector<std::uint32_t> position_;
  std::vector<bool> dropped_;
};

// All of them: a kernel runs in the group behind the last one that it waits for.
class step_groups {
 public:
  // Levels are positions of groups, the first of which has all that needs no kernel.
  static constexpr std::uint32_t unknown = ~std::uint32_t{0}, open = unknown - 1, cyclic = unknown - 2;
  static constexpr double tolerance = 1e-13;  // seconds: below what any prediction means

  // `live` is what is chosen; `turned` what became live, or no longer is, by the changes that are looked at.
  step_groups(const choice_table& table, const std::vector<live_class>& live, std::vector<class_id>& turned)
      : table_(table), live_(live), turned_(turned) {}

  // Of one step as it is chosen now; infinite where a kernel would wait for itself.
  [[nodiscard]] double seconds_now();
  // What is known before a change: the groups of all classes, and the last ones in which live ones would not be late.
  void find() { note_groups(seconds_now()); }
  // After the table took in a class.
  void take_in(class_id several);

  [[nodiscard]] double seconds() const { return total_; }
  [[nodiscard]] std::uint32_t depth() const { return depth_; }
  [[nodiscard]] std::size_t moved() const { return moved_; }
  [[nodiscard]] std::uint32_t level_of(class_id id) const {
    return known_[id] >= cyclic ? known_[id] : order_.position(known_[id]);
  }
  [[nodiscard]] std::uint32_t level_by(enode_id node) const;
  [[nodiscard]] double seconds_at(std::uint32_t level) const {
    return level >= order_.count() ? 0 : kernels_[order_.at(level)].seconds(table_.launch());
  }
  // How much later it may run with nothing else later.
  [[nodiscard]] std::uint32_t slack_of(class_id id) const;

  // Whether the whole gets quicker by changes, which are then kept: the groups that change are those of what was
  // turned, of the classes that were changed, and of what waits for these.
  bool is_quicker(std::span<const choice_change> changes);
  // What the whole takes more by changes, which are not kept; infinite where a kernel would wait for itself.
  [[nodiscard]] double seconds_more(std::span<const choice_change> changes);

 private:
  // How many kernels are on the longest way to a value as it is chosen now; `cyclic` where one would wait for itself,
  // which those with several results can. Of classes `from` on and what they need; `finished_` has them, operands
  // before users.
  void find_levels(std::span<const class_id> from);
  void note_groups(double seconds);
  [[nodiscard]] std::uint32_t group_at(std::uint32_t level);
  std::uint32_t add_group(std::uint32_t level);

  // Of classes that were turned several times, those that are now what they were not.
  void keep_odd();
  [[nodiscard]] double look_at(std::span<const choice_change> changes);
  void keep(std::span<const choice_change> changes);
  void forget();
  // Finds the levels of all that waits for what was changed. False where there is no end to it, as where a kernel would
  // wait for itself.
  bool follow(std::span<const choice_change> changes);
  bool follow(class_id id, std::uint32_t level);
  void move(class_id id, std::uint32_t group);

  // Where all behind what was changed waits longer or shorter, it stays in its groups: some come in between where there
  // is no place, and those are closed that lost what could not wait.
  bool shift(std::span<const choice_change> changes);
  bool place(class_id id, std::span<const class_id> before);
  // What does not wait for groups that came in between, from `first` to before `last`, goes where it went before.
  void pull(std::uint32_t first, std::uint32_t last);
  // The level of the first live kernel that waits for a class.
  [[nodiscard]] std::uint32_t next_reader(class_id id) const;
  // With what needs no kernel to be taken from it.
  void move_along(class_id id, std::uint32_t group);
  // All of a group goes to the next one, where all of it can wait.
  void close(std::uint32_t level);
  // The level behind one, of those that are not closed.
  [[nodiscard]] std::uint32_t behind(std::uint32_t level) const;
  bool delay(class_id id, std::uint32_t level);

  // Those that read a class as they are chosen now, live or not.
  template <class Visit>
  void for_readers(class_id id, const Visit& visit) const {
    for (class_id reader : table_[id].readers) {
      if (live_[reader].node != no_id && table_.reads(live_[reader].node, id)) visit(reader);
    }
  }

  void note(std::uint32_t group, enode_id node, bool is_new);
  void find_depth();
  void apply_differences(bool forward);
  [[nodiscard]] double regrouped_seconds();
  void set_latest(class_id id, std::uint32_t group);
  // The longest ways to the end from what classes read before and read now, and from what that needs, if near; the
  // next pass finds them all.
  void find_ways(std::span<const choice_change> changes);

  struct delayed {
    class_id id;
    std::uint32_t level;
  };
  struct difference {
    std::uint32_t group;
    enode_id node;
    bool is_new;
  };

  struct known_time {
    std::uint32_t group;
    double seconds, busy;
  };

  static constexpr std::size_t most_followed = 48, most_delayed = 32;
  const choice_table& table_;
  const std::vector<live_class>& live_;
  std::vector<class_id>& turned_;
  double total_ = 0;
  std::uint32_t depth_ = 0;
  std::size_t moved_ = 0;
  std::uint32_t groups_before_ = 0;  // the changes that are looked at
  bool is_whole_ = false;            // these were found by all groups
  group_order order_;
  std::vector<kernel_group> kernels_;                // of each group
  std::vector<class_list> members_, not_after_;      // what was in it, or could not be behind it, at some time
  std::vector<std::uint32_t> known_, latest_;        // groups of classes before the changes that are looked at
  std::vector<std::uint32_t> before_;                // of those that are in others by these; unknown of all others
  std::vector<class_id> moves_, waiting_, pending_;  // those, and classes that are still to be looked at
  std::vector<delayed> delayed_;
  small_vector<std::uint32_t, 8> closed_;
  std::vector<difference> differences_;  // of groups, in the order of their numbers
  std::vector<known_time> times_;        // of these groups without them
  std::vector<std::uint32_t> levels_;    // found by the whole, and the groups of these
  std::vector<kernel_group> groups_;
  std::vector<class_id> finished_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::egraph::detail

#if MEGANEURA_HEADER_ONLY
#include <meganeura/egraph/step_groups.ipp>
#endif
