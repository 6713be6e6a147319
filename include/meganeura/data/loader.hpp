// SPDX-License-Identifier: MIT
// Batches of any set of samples, shuffled by a seed and made on other threads ahead of whoever trains on them.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/error.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::data {

/// What becomes of samples that do not fill a last batch: left out of this epoch; filled up with samples of its
/// beginning; a smaller batch.
enum class last_batch : std::uint8_t { drop, pad, keep };
using enum last_batch;

/// How batches are chosen, and made ahead of their use.
struct loader_options {
  bool shuffle = false;      // another order every epoch
  std::uint64_t seed = 0;    // the same seed gives the same batches everywhere, whatever `threads` is
  last_batch last = drop;    // drop: all batches have one size, so that one program runs them
  std::size_t threads = 1;   // that make batches; 0: next() makes them
  std::size_t prefetch = 2;  // batches made ahead, but at least one a thread
};

/// Which samples a batch is made of.
struct chosen_samples {
  std::span<const std::size_t> indices;  // fewer than a batch in a last one that is kept
  std::size_t count = 0;                 // of them that count: those behind fill up a last batch that is padded
  std::uint64_t seed = 0, epoch = 0;     // with an index what random_numbers takes, for augmentation
};

/// Where a loader stands: the batch of the epoch that comes next.
struct loader_position {
  std::uint64_t seed = 0, epoch = 0, batch = 0;
  [[nodiscard]] bool operator==(const loader_position&) const = default;
};

namespace detail {

/// The loader without its batches: makes number after number on threads, into slots that are used again.
class batch_queue {
 public:
  using fill_slot = std::function<void(const chosen_samples&, std::size_t slot)>;
  batch_queue(std::size_t size, std::size_t batch, const loader_options& options, fill_slot fill);
  ~batch_queue();
  batch_queue(const batch_queue&) = delete;
  batch_queue& operator=(const batch_queue&) = delete;

  static constexpr std::size_t none = ~std::size_t{0};
  [[nodiscard]] std::size_t slots() const;
  [[nodiscard]] std::size_t next();  // a slot that stays until the next call; none at the end of an epoch
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::uint64_t per_epoch() const;
  [[nodiscard]] loader_position position() const;
  void seek(const loader_position& to);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

template <class Batch>
Batch filled_by(const std::function<void(const chosen_samples&, Batch&)>&);

}  // namespace detail

/// What a loader takes instead of a size and a function: `size()`, and `fill(chosen, batch)`, called on several threads
/// at once, with the type of a batch in `batch`.
template <class Set>
concept sample_set = requires(const Set& set, const chosen_samples& chosen,
                              typename std::remove_cvref_t<Set>::batch& into) {
  { set.size() } -> std::convertible_to<std::size_t>;
  set.fill(chosen, into);
};

/// Goes through a set in batches:
///   data::loader batches(size, 32, [&](const data::chosen_samples& chosen, my_batch& into) { .. }, {.shuffle = true});
///   for (const my_batch& each : batches) fit.step(bind<"x">(each.x), bind<"label">(each.label));
/// An iteration ends with the epoch, and the next one begins another; `take` goes on over epochs. The function is
/// called on several threads at once; it gets a batch as made by the default, or one used before, and sets all of it.
/// What it throws, next() throws when that batch is due; the position stays, and the next call tries again.
template <class Batch>
class loader {
 public:
  using fill_function = std::function<void(const chosen_samples&, Batch&)>;

  // Not called `batch`: GCC 12 says -Wshadow of the user's own global `batch`, which most models have.
  /// errors: invalid_argument for a batch of 0, no samples, and where not one batch would be left; out_of_memory.
  loader(std::size_t size, std::size_t per_batch, fill_function fill, const loader_options& options = {}) try
      : fill_(std::move(fill)),
        queue_(size, per_batch, options,
               [this](const chosen_samples& chosen, std::size_t slot) { fill_(chosen, batches_[slot]); }) {
    batches_ = std::vector<Batch>(queue_.slots());
  } catch (...) {
    rethrow_as_error("making a loader");
  }
  /// Of a `sample_set`; one that has a name is not copied and must outlive the loader.
  // In braces, which order what is computed: it is asked its size before it is moved.
  template <sample_set Set>
  loader(Set&& set, std::size_t per_batch, const loader_options& options = {}) try
      : loader{set.size(), per_batch, fill_from(std::forward<Set>(set)), options} {
  } catch (...) {
    rethrow_as_error("making a loader");
  }
  loader(const loader&) = delete;
  loader& operator=(const loader&) = delete;

  /// The next batch, valid until the next call; null at the end of an epoch, and the call after it begins another.
  /// errors: what the function throws. Where the system grants no thread, batches are made here.
  [[nodiscard]] Batch* next() {
    const std::size_t slot = queue_.next();
    return slot == queue_.none ? nullptr : &batches_[slot];
  }

  [[nodiscard]] std::size_t size() const { return queue_.size(); }  // samples
  [[nodiscard]] std::uint64_t per_epoch() const { return queue_.per_epoch(); }

  /// Where it stands, and going there: a loader of the same set and batch that seeks a position goes on as the one
  /// that had it would. errors: invalid_argument for a batch beyond the epoch.
  [[nodiscard]] loader_position position() const { return queue_.position(); }
  void seek(const loader_position& to) { queue_.seek(to); }
  /// Passes over so many batches without making them: a loader of the same seed that skipped trainer.batches() of them
  /// goes on where that trainer stopped. After a whole epoch the next one begins.
  void skip(std::uint64_t batches) {
    const loader_position at = position();
    const std::uint64_t first = at.batch + batches % per_epoch();
    seek({at.seed, at.epoch + batches / per_epoch() + first / per_epoch(), first % per_epoch()});
  }

  /// Of the rest of an epoch, or of so many batches.
  class iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    explicit iterator(loader* owner, std::optional<std::uint64_t> left = {}) : owner_(owner), left_(left) { ++*this; }
    [[nodiscard]] Batch& operator*() const { return *at_; }
    iterator& operator++() {
      if (left_ == 0) {
        at_ = nullptr;
        if (owner_->position().batch == owner_->per_epoch())
          (void)owner_->next();  // the next loop begins another epoch
        return *this;
      }
      at_ = owner_->next();
      if (at_ == nullptr && left_) at_ = owner_->next();  // of another epoch
      if (left_) --*left_;
      return *this;
    }
    void operator++(int) { ++*this; }
    [[nodiscard]] bool operator==(std::default_sentinel_t) const { return at_ == nullptr; }

   private:
    loader* owner_;
    std::optional<std::uint64_t> left_;
    Batch* at_ = nullptr;
  };
  /// Of the rest of this epoch.
  [[nodiscard]] iterator begin() { return iterator(this); }
  [[nodiscard]] std::default_sentinel_t end() const { return {}; }

  /// A range of so many batches: see take.
  class several {
   public:
    several(loader& owner, std::uint64_t count) : owner_(&owner), count_(count) {}
    [[nodiscard]] iterator begin() const { return iterator(owner_, count_); }
    [[nodiscard]] std::default_sentinel_t end() const { return {}; }

   private:
    loader* owner_;
    std::uint64_t count_;
  };
  /// The next `count` batches, of as many epochs as have them: for (const my_batch& each : batches.take(steps)).
  [[nodiscard]] several take(std::uint64_t count) { return several(*this, count); }

 private:
  template <class Set>
  static fill_function fill_from(Set&& set) {
    if constexpr (std::is_lvalue_reference_v<Set>) {
      return [&set](const chosen_samples& chosen, Batch& into) { set.fill(chosen, into); };
    } else {
      return [kept = std::move(set)](const chosen_samples& chosen, Batch& into) { kept.fill(chosen, into); };
    }
  }

  fill_function fill_;
  std::vector<Batch> batches_;
  detail::batch_queue queue_;  // goes first, with the threads that fill batches
};

template <class Fill>
loader(std::size_t, std::size_t, Fill, loader_options = {})
    -> loader<decltype(detail::filled_by(std::function(std::declval<Fill>())))>;
template <sample_set Set>
loader(Set&&, std::size_t, loader_options = {}) -> loader<typename std::remove_cvref_t<Set>::batch>;

}  // namespace meganeura::inline MEGANEURA_ABI::data

#if MEGANEURA_HEADER_ONLY
#include <meganeura/data/loader.ipp>
#endif
