// SPDX-License-Identifier: MIT
// CIFAR-10's binary files.
#include <meganeura/data/cifar.hpp>

#include <support/sentence_of.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

namespace {

using namespace meganeura;
using support::sentence_of;

TEST(data_cifar, images_of_several_files_stand_one_behind_the_other) {
  const support::temporary_folder folder;
  const auto record = [](std::uint8_t label, std::uint8_t red, std::uint8_t blue) {
    std::string bytes(3073, '\0');
    bytes[0] = static_cast<char>(label);
    bytes[1] = static_cast<char>(red);
    bytes[3072] = static_cast<char>(blue);
    return bytes;
  };
  const std::string one = folder / "one", two = folder / "two";
  std::string bytes = record(7, 255, 1);
  bytes.append(record(0, 3, 51));
  support::write(one, bytes);
  support::write(two, record(9, 5, 6));
  const auto set = data::read_cifar10({one, two});
  EXPECT_EQ(set.labels, (std::vector<std::uint8_t>{7, 0, 9}));
  EXPECT_EQ(set.image(1).front(), 3);
  EXPECT_EQ(set.image(2).back(), 6);
  data::loader batches(set, 2);
  const data::image_batch& batch = *batches.next();
  EXPECT_EQ(batch.images.size(), 2u * 3 * 32 * 32);
  EXPECT_EQ(batch.images[0], 1.0f);
  EXPECT_EQ(batch.images.back(), 0.2f);

  support::write(two, record(10, 0, 0));
  EXPECT_EQ(sentence_of([&] {
              (void)data::read_cifar10({one, two});
            }),
            two + ": at byte 0: expected a label below 10, found 10");
  bytes = record(1, 0, 0);
  bytes.push_back('x');
  support::write(two, bytes);
  EXPECT_EQ(sentence_of([&] {
              (void)data::read_cifar10({one, two});
            }),
            two + ": at byte 3073: expected records of 3073 bytes, at least one, found 1 bytes");
  support::write(two, std::string());
  EXPECT_EQ(sentence_of([&] { (void)data::read_cifar10({two}); }),
            two + ": at byte 0: expected records of 3073 bytes, at least one, found 0 bytes");
}

}  // namespace
