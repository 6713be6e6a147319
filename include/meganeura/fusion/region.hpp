// SPDX-License-Identifier: MIT
// Fusion: a region being put together from a root operation and the regions its operands hold.
#pragma once
#include <meganeura/fusion/affine.hpp>
#include <meganeura/fusion/engine.hpp>
#include <meganeura/fusion/region_limits.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::fusion {

/// A region with the classes its accesses' sources name: a region e-node by value.
struct region_form {
  region_attribute loops;
  class_list operands;
};

/// A region e-node by reference: valid until the next node is added.
struct region_view {
  const region_attribute& loops;
  std::span<const class_id> operands;
};

/// The loops of a region attribute as a nest: accesses[0] is the output, groups are 0 (outer) and 1 (row).
[[nodiscard]] nest to_nest(const region_attribute& region);
/// A matmul as a nest: accesses are output, a, b, then the epilogue's and the prologue's; groups are batch, m, n, k.
[[nodiscard]] nest to_nest(const matmul_attribute& product);

/// The root's arguments start as reads of operand classes; `inline_form` replaces a read by the region that computes
/// it.
class region_draft {
 public:
  static constexpr std::uint8_t outer = 0, row = 1;

  nest loops;  // accesses[0]: output
  bool per_row = false;

  explicit region_draft(const region_limits& limits) : limits_(&limits) {}

  /// The root reads `source` (of dtype `type`) through `how`, as its next argument.
  void add_read(class_id source, dtype type, const index_map& how);
  void add_constant(double value, dtype type);
  void add_index(const index_map& how);

  [[nodiscard]] std::size_t arguments() const { return slots_.size(); }
  /// The class argument `index` reads; no_id for constants and indices.
  [[nodiscard]] class_id source(std::size_t index) const {
    return slots_[index].kind == slot::read ? read_of(slots_[index].first).source : no_id;
  }

  /// Appends what tells this draft, of reads and constants alone, from others, but for the classes that it reads: these
  /// by their place among `classes`, where new ones are added.
  void identify(std::vector<std::uint64_t>& words, class_list& classes) const;

  /// Replaces the read of argument `index`. Returns why it cannot be done, or null; on failure the draft still means
  /// the same (axes may have been split). splits_rows: an axis of its rows may be several of this region.
  [[nodiscard]] const char* inline_form(std::size_t index, const region_view& form, bool splits_rows = false);

  /// The finished, canonical region; null and `result`, or why it is not possible. Without `limited` size is no reason:
  /// the root alone has to have a kernel.
  [[nodiscard]] const char* finish(const scalar_program& root, region_form& result, bool limited) const;
  /// The same of a region that stores each argument, as a tensor of that type, where it was read from. Result
  /// `number[i]` is argument i.
  [[nodiscard]] const char* finish_several(std::span<const tensor_spec> types, region_form& result,
                                           std::vector<std::size_t>& number) const;
  /// Where the value of each row lies in a dense tensor of `rows` elements; nothing where there are no such rows.
  [[nodiscard]] std::optional<index_map> row_positions(std::int64_t rows) const;

 private:
  struct box {  // the value is valid where low <= coordinate < high
    std::size_t coordinate = 0;
    std::int64_t low = 0, high = 0;
  };
  struct slot {
    enum kind_t : std::uint8_t { constant, read, inlined } kind = read;
    dtype type = dtype::f32;
    double value = 0;                         // of the constant, or outside of the box
    std::size_t place = 0;                    // of the read in loops.accesses, also when it is inlined
    std::size_t first = 0, reads = 0;         // what it reads now: loops.accesses[first], ...
    const scalar_program* program = nullptr;  // of an inlined form; lives in the e-graph's attribute pool
    std::size_t first_box = 0, boxes = 0;
  };
  [[nodiscard]] const char* place_rows(const region_view& form, std::size_t which, bool splits_rows, axis_map& map);
  [[nodiscard]] const char* broadcast_rows(const region_view& form, std::size_t which, int (&axes)[max_rank]);
  [[nodiscard]] const char* claim_rows(std::span<const int> axes);
  [[nodiscard]] scalar_ref write_slot(scalar_builder& builder, const slot& from, std::span<const int> argument) const;
  struct distinct_reads {
    nest loops;                            // accesses: outputs; then each read once
    small_vector<class_id, 16> sources{};  // of the reads
    small_vector<int, 16> argument{};      // by position in the draft's accesses
  };
  // `outputs`: places in `loops.accesses`.
  [[nodiscard]] distinct_reads collect_reads(std::span<const std::size_t> outputs) const;
  // The loops and operands of a region with this program; outputs come first among the loops' accesses.
  [[nodiscard]] const char* finish_loops(scalar_program& program, distinct_reads&& all, region_form& result, nest& kept,
                                         bool limited) const;
  [[nodiscard]] std::size_t buffers() const;

  struct read_source {
    class_id source = no_id;  // no_id: the index itself
    dtype type = dtype::f32;
  };
  [[nodiscard]] const read_source& read_of(std::size_t access) const { return reads_[access - 1]; }
  void push_read(const index_map& how, const read_source& what) {
    loops.accesses.push_back(how);
    reads_.push_back(what);
  }
  template <class Visit>  // position in loops.accesses
  void for_each_read(const Visit& visit) const {
    for (const slot& s : slots_) {
      for (std::size_t i = 0; i < s.reads; ++i) visit(s.first + i);
    }
  }

  const region_limits* limits_;
  small_vector<read_source, 8> reads_;  // of loops.accesses[i + 1]
  small_vector<slot, 8> slots_;
  small_vector<box, 4> boxes_;  // of the slots
};

}  // namespace meganeura::inline MEGANEURA_ABI::fusion

#if MEGANEURA_HEADER_ONLY
#include <meganeura/fusion/region.ipp>
#endif
