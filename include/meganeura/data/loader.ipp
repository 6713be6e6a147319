// SPDX-License-Identifier: MIT
// Bodies of data/loader.hpp: a ring of slots between threads that fill them in any order and one that takes them in
// order.
#pragma once
#include <meganeura/core/allocate.hpp>
#include <meganeura/data/loader.hpp>
#include <meganeura/data/random.hpp>

#include <algorithm>
#include <bit>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

namespace meganeura::inline MEGANEURA_ABI::data {
namespace detail {

/// A permutation of 0 to size - 1 that is computed where it is asked for instead of stored: a Feistel network over the
/// next power of four, walked on until it is below `size` (Black and Rogaway 2002, "Ciphers with arbitrary finite
/// domains").
class permutation {
 public:
  permutation(std::uint64_t size, std::uint64_t key)
      : size_(size), key_(key), half_(std::max(3, (static_cast<int>(std::bit_width(size - 1)) + 1) / 2)) {}

  [[nodiscard]] std::uint64_t operator()(std::uint64_t at) const {
    const std::uint64_t mask = (std::uint64_t{1} << half_) - 1;
    do {
      std::uint64_t left = at >> half_, right = at & mask;
      for (std::uint64_t round = 0; round < 8; ++round) {
        const std::uint64_t changed = random_numbers::mixed(key_ + (right << 3 | round) * random_numbers::step);
        left = std::exchange(right, left ^ (changed & mask));
      }
      at = left << half_ | right;
    } while (at >= size_);
    return at;
  }

 private:
  std::uint64_t size_, key_;
  int half_;  // bits
};

}  // namespace detail

struct detail::batch_queue::state {
  struct slot {
    std::vector<std::size_t> indices;
    std::exception_ptr failure;
    bool ready = false;
  };

  std::size_t size, batch;
  loader_options options;
  fill_slot fill;
  std::vector<slot> ring;

  // Of the consumer; threads read `from`, which changes while there are none. Tickets number the batches since `from`.
  loader_position at, from;
  std::uint64_t taken = 0;
  bool running = false;
  std::vector<std::thread> threads{};

  std::mutex mutex{};  // what follows, and `ready`
  std::condition_variable made{}, room{};
  std::uint64_t claimed = 0, released = 0;
  bool stopping = false;

  [[nodiscard]] std::uint64_t per_epoch() const {
    return size / batch + (options.last != drop && size % batch != 0 ? 1 : 0);
  }

  /// Makes the batch of a ticket; whoever claimed it has its slot. errors: what `fill` throws.
  void make(std::uint64_t ticket) {
    const std::uint64_t number = from.batch + ticket, epoch = from.epoch + number / per_epoch();
    const std::uint64_t first = number % per_epoch() * batch, last = std::min<std::uint64_t>(size - first, batch);
    auto& indices = ring[ticket % ring.size()].indices;
    indices.resize(options.last == keep ? last : batch);
    const permutation order(size, random_numbers(from.seed, epoch, size).bits());
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const std::uint64_t place = (first + i) % size;
      indices[i] = options.shuffle ? order(place) : place;
    }
    fill({indices, last, from.seed, epoch}, ticket % ring.size());
  }

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      room.wait(lock, [&] { return stopping || claimed < released + ring.size(); });
      if (stopping) return;
      const std::uint64_t ticket = claimed++;
      lock.unlock();
      slot& target = ring[ticket % ring.size()];
      try {
        make(ticket);
      } catch (...) {
        target.failure = std::current_exception();
      }
      lock.lock();
      target.ready = true;
      made.notify_one();
    }
  }

  /// From the position on; with fewer threads where the system grants no more.
  void start() {
    from = at;
    taken = claimed = released = 0;
    running = true;
    try {
      while (threads.size() < options.threads) threads.emplace_back([this] { work(); });
    } catch (const std::exception&) {  // no thread, or no memory for one
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    room.notify_all();
    for (std::thread& thread : threads) thread.join();
    threads.clear();
    for (slot& each : ring) each.failure = nullptr, each.ready = false;
    running = stopping = false;
  }

  /// The slot of ticket `taken`, made; it stays the consumer's until this is called again. errors: what `fill` throws.
  std::size_t take() {
    const std::size_t place = taken % ring.size();
    if (threads.empty()) return make(taken), place;
    std::unique_lock lock(mutex);
    released = taken;
    room.notify_one();
    made.wait(lock, [&] { return ring[place].ready; });
    ring[place].ready = false;
    if (ring[place].failure == nullptr) return place;
    const std::exception_ptr failure = ring[place].failure;
    lock.unlock();
    stop();  // the next call begins with this batch
    std::rethrow_exception(failure);
  }
};

MEGANEURA_INLINE detail::batch_queue::batch_queue(std::size_t size, std::size_t batch, const loader_options& options,
                                                  fill_slot fill) {
  if (batch == 0)
    fail(error_category::invalid_argument, "loader: a batch of 0 was asked for; it has at least 1 sample");
  if (size == 0) fail(error_category::invalid_argument, "loader: the set has no samples; there is nothing to batch");
  if (options.last == drop && size < batch) {
    fail(error_category::invalid_argument,
         "loader: {} samples do not fill a batch of {}; take a smaller batch, or .last = pad or keep", size, batch);
  }
  const std::size_t ahead = options.threads == 0 ? 0 : std::max(options.threads, options.prefetch);
  const loader_position begin{options.seed, 0, 0};
  state_.reset(new state{size, batch, options, std::move(fill), {}, begin, begin});
  state_->ring = reserve_for<state::slot>("loader", std::uint64_t{ahead} + 1);
  for (std::size_t i = 0; i <= ahead; ++i) {
    state_->ring.push_back({reserve_for<std::size_t>("loader", batch), nullptr, false});
  }
}

MEGANEURA_INLINE detail::batch_queue::~batch_queue() { state_->stop(); }

MEGANEURA_INLINE std::size_t detail::batch_queue::next() {
  state& s = *state_;
  if (s.at.batch == s.per_epoch()) {
    s.at = {s.at.seed, s.at.epoch + 1, 0};
    return none;
  }
  if (!s.running) s.start();
  const std::size_t slot = s.take();
  ++s.taken;
  ++s.at.batch;
  return slot;
}

MEGANEURA_INLINE void detail::batch_queue::seek(const loader_position& to) {
  state& s = *state_;
  if (to.batch > s.per_epoch()) {
    fail(error_category::invalid_argument,
         "loader: batch {} was sought in epochs of {}; a position is of the same set, batch and .last", to.batch,
         s.per_epoch());
  }
  s.stop();
  s.at = to;
}

MEGANEURA_INLINE std::size_t detail::batch_queue::slots() const { return state_->ring.size(); }
MEGANEURA_INLINE std::size_t detail::batch_queue::size() const { return state_->size; }
MEGANEURA_INLINE std::uint64_t detail::batch_queue::per_epoch() const { return state_->per_epoch(); }
MEGANEURA_INLINE loader_position detail::batch_queue::position() const { return state_->at; }

}  // namespace meganeura::inline MEGANEURA_ABI::data
