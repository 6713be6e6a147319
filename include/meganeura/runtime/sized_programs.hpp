// SPDX-License-Identifier: MIT
// The programs of one model at the sizes that it ran with.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/expr/open_sizes.hpp>
#include <meganeura/graph/graph.hpp>
#include <meganeura/runtime/program.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

/// What is made anew for each choice of sizes; a second argument, a run_mode, is the mode that it is made for:
///   sized<graph>{open_sizes({{"x", dims<sym<"batch">, 4>}}), [](const symbol_extents& at) {
///     graph g;
///     const node_value x(g, g.input("x", dtype::f32, {at["batch"], 4}));
///     g.add_output("y", relu(x));
///     return g;
///   }}
template <class Made>
struct sized {
  open_sizes sizes;
  std::function<Made(const symbol_extents&, run_mode)> make;

  template <class Make>
  sized(open_sizes of, Make maker) : sizes(std::move(of)) {
    if constexpr (std::is_invocable_v<Make, const symbol_extents&, run_mode>) {
      make = std::move(maker);
    } else {
      make = [maker = std::move(maker)](const symbol_extents& at, run_mode) { return maker(at); };
    }
  }
};

namespace detail {

/// Programs by sizes. What ran or was prepared is kept; the one unused longest leaves when there are too many, and half
/// of them do, again and again, while memory is short, at last the one that ran last. A program that was built for a
/// run that was refused takes no other one's place: it waits behind them until one runs.
class sized_programs {
 public:
  using builder = std::function<program(const symbol_extents&)>;

  sized_programs(const device& on, open_sizes sizes, std::size_t most);
  sized_programs(sized_programs&&) = default;  // as programs do: two copies would write into one set of slots
  sized_programs& operator=(sized_programs&&) = default;
  sized_programs(const sized_programs&) = delete;
  sized_programs& operator=(const sized_programs&) = delete;
  ~sized_programs() = default;

  /// The program for what is bound, and for the symbols in `more`; `build` is asked for those sizes that are new.
  /// It counts as used when `keep` or `ran` says so. errors: those of open_sizes::solved; what `build` throws.
  std::shared_ptr<program> at(std::span<const input_values> inputs, const symbol_extents& more, const builder& build);
  /// What `at` gave last was used: it stays, and another one leaves for it; or it ran as well, and is the latest.
  void keep() noexcept;
  void ran() noexcept;
  /// The one that ran last, whatever was prepared or refused since; before the first run, what was prepared last.
  /// errors: invalid_argument before either.
  [[nodiscard]] const program& latest() const;
  [[nodiscard]] const open_sizes& sizes() const { return sizes_; }

 private:
  struct entry {
    std::vector<std::int64_t> sizes;
    std::shared_ptr<program> built;
  };
  [[nodiscard]] std::shared_ptr<program> built(const symbol_extents& sizes, const builder& build);

  device device_;
  open_sizes sizes_;
  std::size_t most_;
  std::vector<entry> entries_;       // the one used last first; one more than most_ where a run was refused
  std::size_t selected_ = 0;         // of entries_: what `at` gave last
  std::shared_ptr<program> latest_;  // not of entries_ where others took its place
  // Of the latest call; kept, so that one with known sizes allocates nothing.
  std::vector<bound_elements> bound_;
  std::vector<std::int64_t> solved_;
};

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/runtime/sized_programs.ipp>
#endif
