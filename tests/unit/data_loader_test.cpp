// SPDX-License-Identifier: MIT
// Loaders: whose turn each sample is, by the seed alone; threads, exceptions and a stop at any moment change nothing.
#include <meganeura/data/digits.hpp>
#include <meganeura/data/loader.hpp>

#include <support/sentence_of.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <thread>

namespace {

using namespace meganeura;
using support::refusal;

struct numbers {
  std::vector<std::size_t> indices;
  std::size_t count = 0;
  std::uint64_t epoch = 0;
  bool operator==(const numbers&) const = default;
};

void take_numbers(const data::chosen_samples& chosen, numbers& into) {
  into.indices.assign(chosen.indices.begin(), chosen.indices.end());
  into.count = chosen.count;
  into.epoch = chosen.epoch;
}

/// The next `count` batches, an empty one for the end of an epoch.
std::vector<numbers> take(data::loader<numbers>& from, int count) {
  std::vector<numbers> result;
  for (int i = 0; i < count; ++i) {
    const numbers* batch = from.next();
    result.push_back(batch == nullptr ? numbers{} : *batch);
  }
  return result;
}

data::labelled_images numbered(std::size_t count) {
  data::labelled_images set;
  set.rows = 1, set.columns = 2;
  for (std::size_t i = 0; i < count; ++i) {
    set.pixels.insert(set.pixels.end(), 2, static_cast<std::uint8_t>(i));
    set.labels.push_back(static_cast<std::uint8_t>(i));
  }
  return set;
}

TEST(data_loader, a_last_batch_is_dropped_padded_or_kept) {
  using lists = std::vector<std::vector<std::size_t>>;
  const auto epoch = [](std::size_t size, data::last_batch last) {
    data::loader batches(size, 4, take_numbers, {.last = last});
    lists result;
    for (const numbers& each : batches) {
      result.push_back(each.indices);
      EXPECT_EQ(each.count, std::min<std::size_t>(4, size - 4 * (result.size() - 1)));
    }
    EXPECT_EQ(result.size(), batches.per_epoch());
    return result;
  };
  EXPECT_EQ(epoch(6, data::drop), (lists{{0, 1, 2, 3}}));
  EXPECT_EQ(epoch(6, data::pad), (lists{{0, 1, 2, 3}, {4, 5, 0, 1}}));
  EXPECT_EQ(epoch(6, data::keep), (lists{{0, 1, 2, 3}, {4, 5}}));
  EXPECT_EQ(epoch(8, data::pad), (lists{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(epoch(1, data::pad), (lists{{0, 0, 0, 0}}));
  EXPECT_EQ(epoch(3, data::keep), (lists{{0, 1, 2}}));
}

TEST(data_loader, each_epoch_has_every_sample_once_in_another_order) {
  for (const std::size_t size : {1u, 2u, 3u, 64u, 65u, 1000u, 5000u}) {
    data::loader batches(size, 7, take_numbers, {.shuffle = true, .seed = 3, .last = data::keep});
    std::vector<std::vector<std::size_t>> epochs(2);
    for (auto& epoch : epochs) {
      for (const numbers& each : batches) epoch.insert(epoch.end(), each.indices.begin(), each.indices.end());
      const std::set<std::size_t> seen(epoch.begin(), epoch.end());
      ASSERT_EQ(epoch.size(), size);
      ASSERT_EQ(seen.size(), size);
      ASSERT_EQ(*seen.rbegin(), size - 1);
    }
    if (size >= 64) {
      EXPECT_NE(epochs[0], epochs[1]) << size;
    }
  }
}

TEST(data_loader, all_orders_of_a_small_set_are_as_likely) {
  std::map<std::vector<std::size_t>, int> orders;
  data::loader batches(4, 4, take_numbers, {.shuffle = true, .seed = 5});
  constexpr int epochs = 24 * 400;
  for (int i = 0; i < epochs; ++i) {
    for (const numbers& each : batches) ++orders[each.indices];
  }
  double chi = 0;
  for (const auto& [order, times] : orders) chi += (times - 400.0) * (times - 400.0) / 400.0;
  EXPECT_EQ(orders.size(), 24u);
  EXPECT_LT(chi, 49.7);  // chi-square of 23 degrees of freedom: one in a thousand is more
}

TEST(data_loader, batches_depend_on_the_seed_and_not_on_threads) {
  const auto run = [](std::uint64_t seed, std::size_t threads, std::size_t prefetch) {
    std::atomic<unsigned> calls{0};
    data::loader batches(101, 8,
                         [&](const data::chosen_samples& chosen, numbers& into) {
                           if (calls++ % 3 == 0)
                             std::this_thread::sleep_for(std::chrono::microseconds(200));  // overtaken by others
                           take_numbers(chosen, into);
                         },
                         {.shuffle = true, .seed = seed, .last = data::keep, .threads = threads, .prefetch = prefetch});
    return take(batches, 45);
  };
  const auto alone = run(9, 0, 0);
  EXPECT_EQ(run(9, 1, 2), alone);
  EXPECT_EQ(run(9, 4, 1), alone);
  EXPECT_EQ(run(9, 3, 40), alone);  // ahead for epochs
  EXPECT_NE(run(10, 1, 2), alone);
}

TEST(data_loader, a_run_that_goes_on_elsewhere_sees_the_batches_that_would_have_come) {
  const data::loader_options options{.shuffle = true, .seed = 4, .last = data::pad, .threads = 2};
  for (int before = 0; before < 12; ++before) {
    data::loader all(11, 4, take_numbers, options), rest(11, 4, take_numbers, {.shuffle = true, .last = data::pad});
    static_cast<void>(take(all, before));
    rest.seek(all.position());
    EXPECT_EQ(rest.position(), all.position());
    EXPECT_EQ(take(rest, 9), take(all, 9)) << before;
    all.seek({4, 0, 0});  // back again
    rest.seek({4, 0, 0});
    EXPECT_EQ(take(rest, 5), take(all, 5));
  }
}

TEST(data_loader, skipped_batches_are_those_that_would_have_come) {
  for (std::uint64_t skipped = 0; skipped < 9; ++skipped) {
    const data::loader_options options{.shuffle = true, .seed = 5};
    data::loader all(7, 3, take_numbers, options), rest(7, 3, take_numbers, options);
    for (std::uint64_t i = 0; i < skipped; ++i) {
      if (all.next() == nullptr) static_cast<void>(all.next());
    }
    rest.skip(skipped);
    if (all.position().batch == all.per_epoch()) {
      EXPECT_EQ(all.next(), nullptr);
    }
    EXPECT_EQ(rest.position(), all.position());
    EXPECT_EQ(take(rest, 5), take(all, 5)) << skipped;
  }
}

TEST(data_loader, an_iteration_that_was_left_goes_on) {
  data::loader batches(8, 2, take_numbers);
  for (const numbers& each : batches) {
    if (each.indices[0] == 2) break;
  }
  EXPECT_EQ(batches.position(), (data::loader_position{0, 0, 2}));
  std::size_t rest = 0;
  for (const numbers& each : batches) rest += each.indices.size();
  EXPECT_EQ(rest, 4u);
  EXPECT_EQ(batches.position(), (data::loader_position{0, 1, 0}));
}

TEST(data_loader, so_many_batches_are_taken_over_the_ends_of_epochs_and_none_more) {
  data::loader plain(8, 4, take_numbers, {.shuffle = true, .seed = 3}),
      taken(8, 4, take_numbers, {.shuffle = true, .seed = 3});
  std::vector<numbers> expected, found;
  for (const numbers& each : take(plain, 8))
    if (each.count != 0) expected.push_back(each);
  expected.resize(5);  // of three epochs of two
  for (const std::uint64_t count : {0, 1, 4})
    for (const numbers& each : taken.take(count)) found.push_back(each);
  EXPECT_EQ(found, expected);
  EXPECT_EQ(taken.position(), (data::loader_position{3, 2, 1}));
  int rest = 0;
  for ([[maybe_unused]] const numbers& each : taken) ++rest;
  EXPECT_EQ(rest, 1);

  data::loader ended(11, 4, take_numbers, {.last = data::keep});  // the end of an epoch is that of what was taken, too
  for (std::uint64_t count : {ended.per_epoch(), 2 * ended.per_epoch()}) {
    std::uint64_t more = 0;
    for (const numbers& each : ended.take(count)) static_cast<void>(each);
    for (const numbers& each : ended) static_cast<void>(each), ++more;
    EXPECT_EQ(more, ended.per_epoch());
  }
}

TEST(data_loader, what_the_function_throws_arrives_with_its_batch_and_can_be_tried_again) {
  for (const std::size_t threads : {0u, 1u, 3u}) {
    std::atomic<bool> broken{true};
    data::loader batches(10, 2,
                         [&](const data::chosen_samples& chosen, numbers& into) {
                           if (broken && chosen.indices[0] == 4) fail(error_category::io, "sample 4 is not there");
                           take_numbers(chosen, into);
                         },
                         {.threads = threads, .prefetch = 5});
    EXPECT_EQ(batches.next()->indices[0], 0u);
    EXPECT_EQ(batches.next()->indices[0], 2u);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(support::sentence_of([&] { static_cast<void>(batches.next()); }), "sample 4 is not there");
      EXPECT_EQ(batches.position().batch, 2u);
    }
    broken = false;
    EXPECT_EQ(batches.next()->indices[0], 4u);
    EXPECT_EQ(batches.next()->indices[0], 6u);
  }
}

TEST(data_loader, batches_are_made_ahead_and_the_one_in_use_is_left_alone) {
  std::atomic<std::size_t> made{0};
  data::loader batches(100, 1,
                       [&](const data::chosen_samples& chosen, numbers& into) {
                         take_numbers(chosen, into);
                         ++made;
                       },
                       {.threads = 2, .prefetch = 3});
  const numbers* first = batches.next();
  while (made < 4) std::this_thread::yield();  // it and three ahead, though nobody asked
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(made, 4u);
  EXPECT_EQ(first->indices[0], 0u);
}

TEST(data_loader, a_loader_that_ends_in_an_epoch_waits_for_its_threads) {
  std::atomic<int> inside{0}, calls{0};
  for (int i = 0; i < 20; ++i) {
    data::loader batches(100, 1,
                         [&](const data::chosen_samples& chosen, numbers& into) {
                           ++inside;
                           ++calls;
                           std::this_thread::sleep_for(std::chrono::microseconds(300));
                           take_numbers(chosen, into);
                           --inside;
                         },
                         {.threads = 3});
    for (int taken = 0; taken < i % 4; ++taken) static_cast<void>(batches.next());
  }
  EXPECT_EQ(inside, 0);
  EXPECT_GT(calls, 0);
}

TEST(data_loader, labelled_images_are_a_set) {
  auto set = numbered(11);
  data::loader batches(set, 4, {.shuffle = true, .seed = 1});
  EXPECT_EQ(batches.per_epoch(), 2u);
  std::set<std::int32_t> seen;
  for (const auto& each : batches) {
    for (std::size_t i = 0; i < 4; ++i) {
      seen.insert(each.labels[i]);
      EXPECT_FLOAT_EQ(each.images[2 * i + 1], static_cast<float>(each.labels[i]) / 255.0f);
    }
  }
  EXPECT_EQ(seen.size(), 8u);
  data::loader moved(numbered(3), 3);  // kept by the loader
  EXPECT_EQ(moved.next()->labels, (std::vector<std::int32_t>{0, 1, 2}));
  batches.seek({});  // nothing is made until it is asked for
  set.pixels.pop_back();
  EXPECT_EQ(refusal([&] { static_cast<void>(batches.next()); }),
            "11 images of 1x1x2 pixels need 22 numbers; there are 21");
}

TEST(data_loader, what_cannot_be_is_a_sentence) {
  const auto make = [](std::size_t size, std::size_t batch, data::loader_options options = {}) {
    return [=] { data::loader batches(size, batch, take_numbers, options); };
  };
  EXPECT_EQ(refusal(make(3, 0)), "loader: a batch of 0 was asked for; it has at least 1 sample");
  EXPECT_EQ(refusal(make(0, 1, {.last = data::keep})), "loader: the set has no samples; there is nothing to batch");
  EXPECT_EQ(refusal(make(3, 4)),
            "loader: 3 samples do not fill a batch of 4; take a smaller batch, or .last = pad or keep");
  for (const std::size_t much : {std::size_t{1} << 62, ~std::size_t{0}}) {
    EXPECT_EQ(support::thrown_by(make(3, much, {.last = data::pad})), error_category::out_of_memory);
    EXPECT_EQ(support::thrown_by(make(3, 1, {.threads = much - 1})), error_category::out_of_memory);
  }
  data::loader batches(7, 3, take_numbers);
  EXPECT_EQ(refusal([&] {
              batches.seek({0, 0, 3});
            }),
            "loader: batch 3 was sought in epochs of 2; a position is of the same set, batch and .last");
  EXPECT_EQ(support::thrown_by([] { static_cast<void>(data::make_digits(std::size_t{1} << 60, 1)); }),
            error_category::out_of_memory);
}

}  // namespace
