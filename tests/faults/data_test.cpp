// SPDX-License-Identifier: MIT
// Data where the host runs out of threads or memory: batches are made all the same, or an `error` says why not.
#include "inject.hpp"
#include "survival.hpp"

#include <meganeura/data/augment.hpp>
#include <meganeura/data/cifar.hpp>
#include <meganeura/data/csv.hpp>
#include <meganeura/data/metrics.hpp>
#include <meganeura/data/npy.hpp>
#include <meganeura/data/tokens.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace data = meganeura::data;
namespace faults = meganeura::faults;

namespace {

std::string sample(const std::string& name) { return MEGANEURA_SOURCE_DIR "/tests/fuzz/corpus/" + name; }

}  // namespace

TEST(faults_data, without_threads_batches_are_made_by_the_caller) {
  const auto fill = [](const data::chosen_samples& chosen, std::vector<std::size_t>& into) {
    into.assign(chosen.indices.begin(), chosen.indices.end());
  };
  for (const int allowed : {0, 1}) {
    data::loader fewer(9, 2, fill, {.shuffle = true, .threads = 3});
    const faults::thread_limit limit(allowed);
    int batches = 0;
    for (const auto& each : fewer) {
      EXPECT_EQ(each.size(), 2u);
      ++batches;
    }
    EXPECT_EQ(batches, 4);
  }
}

TEST(faults_data, a_loader_is_made_and_fills_batches_or_says_why_not) {
  const auto images = data::read_cifar10({sample("cifar/one")});
  faults::expect_survival(
      [&] {
        data::loader batches(images, 1, {.threads = 0});
        static_cast<void>(batches.next());
      },
      100);
  const data::token_sequence tokens({1, 2, 3, 4});
  faults::expect_survival(
      [&] {
        data::loader batches(tokens.windows(2), 1, {.threads = 0});
        static_cast<void>(batches.next());
      },
      100);
}

TEST(faults_data, files_are_read_or_an_error_says_why_not) {
  const std::string npy = sample("npy/i8_big"), deflated = sample("npz/deflated"), stored = sample("npz/stored"),
                    csv = sample("csv/plain"), file = sample("tokens/u16");
  const std::vector<std::string> cifar{sample("cifar/one")}, columns{"c", "a"};
  std::vector<std::int32_t> tokens(4);
  const std::function<void()> calls[] = {
      [&] { static_cast<void>(data::read_npy(npy).floats()); },
      [&] { static_cast<void>(data::npz_file::open(deflated).read("zeros").floats()); },
      [&] { static_cast<void>(data::npz_file::open(stored).read("label").integers()); },
      [&] { static_cast<void>(data::read_cifar10(cifar)); },
      [&] { static_cast<void>(data::csv_table::read(csv).numbers(columns)); },
      [&] { static_cast<void>(data::csv_table::read(csv).classes("b")); },
      [&] { data::token_sequence::open(file, 2, 100).read(0, tokens); },
      [&] {
        const auto letters = data::text_vocabulary::characters_of("some text of many more units than 16");
        static_cast<void>(letters.decode(letters.encode("text")));
        static_cast<void>(letters.alphabet());
      }};
  for (const auto& call : calls) {
    SCOPED_TRACE(&call - calls);
    faults::expect_survival(call, 100);
  }
}

TEST(faults_data, metrics_and_crops_are_computed_or_an_error_says_why_not) {
  const std::vector<float> scores{1, 2, 3, 4};
  const std::vector<std::int32_t> labels{0, 1, 0, 1};
  faults::expect_survival(
      [&] {
        data::confusion_matrix(2).add(scores, std::span(labels).first(2));
        static_cast<void>(data::roc_auc(scores, labels));
        data::random_numbers random(1);
        static_cast<void>(data::random_crop(scores, {1, 2, 2}, 1, random));
      },
      100);
}
