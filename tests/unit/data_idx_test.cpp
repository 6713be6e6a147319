// SPDX-License-Identifier: MIT
// IDX files: what they hold, and one sentence for each way to be damaged.
#include <meganeura/data/idx.hpp>

#include <support/sentence_of.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <zlib.h>

namespace data = meganeura::data;
using bytes = std::vector<std::uint8_t>;

namespace {

namespace support = meganeura::support;

bytes idx(std::initializer_list<std::uint32_t> header, std::size_t count) {
  bytes result;
  for (const std::uint32_t word : header) {
    for (int shift = 24; shift >= 0; shift -= 8) result.push_back(static_cast<std::uint8_t>(word >> shift));
  }
  for (std::size_t i = 0; i < count; ++i) result.push_back(static_cast<std::uint8_t>(i % 10));
  return result;
}

std::string rejection(const bytes& content, std::size_t rank) {
  return support::sentence_of([&] { (void)data::parse_idx(content, rank, "f"); });
}

}  // namespace

TEST(data_idx, shape_and_values_are_those_of_the_file) {
  const auto images = data::parse_idx(idx({0x803, 2, 3, 4}, 24), 3, "f");
  EXPECT_EQ(images.shape, (std::vector<std::size_t>{2, 3, 4}));
  ASSERT_EQ(images.values.size(), 24u);
  EXPECT_EQ(images.values[23], 3);
}

TEST(data_idx, another_magic_number_is_refused) {
  EXPECT_EQ(rejection(idx({0x801, 16}, 16), 3),
            "f: at byte 0: expected the magic number 0x00000803 (unsigned bytes, 3 dimensions), found 0x00000801");
  EXPECT_EQ(rejection(idx({0xd01, 4}, 16), 1),
            "f: at byte 0: expected the magic number 0x00000801 (unsigned bytes, 1 dimensions), found 0x00000d01");
}

TEST(data_idx, a_file_of_another_length_than_its_extents_is_refused) {
  EXPECT_EQ(rejection(bytes(3), 1), "f: at byte 3: expected a header of 8 bytes, found the end of the file");
  EXPECT_EQ(rejection(idx({0x803, 2, 3, 4}, 20), 3),
            "f: at byte 36: expected 24 bytes of data for the extents [2, 3, 4], found 20");
  EXPECT_EQ(rejection(idx({0x803, 2, 3, 4}, 25), 3),
            "f: at byte 40: expected 24 bytes of data for the extents [2, 3, 4], found more");
  EXPECT_EQ(rejection(idx({0x801, 0}, 0), 1), "f: at byte 4: expected an extent above 0, found 0");
}

TEST(data_idx, extents_whose_product_overflows_are_refused) {
  const auto problem = rejection(idx({0x803, 0xffffffff, 0xffffffff, 0xffffffff}, 4), 3);
  EXPECT_EQ(problem,
            "f: at byte 4: expected extents of at most 1073741824 bytes of data, found [4294967295, 4294967295, "
            "4294967295]");
}

TEST(data_idx, no_more_is_unpacked_than_the_extents_say) {
  const support::temporary_folder folder;
  std::string packed(32 << 20, '\0');  // zeros, 64 MiB of them behind the header of 4 bytes
  const auto content = idx({0x801, 4}, 64 << 20);
  uLongf size = packed.size();
  z_stream stream{};
  ASSERT_EQ(deflateInit2(&stream, 1, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = const_cast<Bytef*>(content.data());
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(size);
  ASSERT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  size = stream.total_out;
  deflateEnd(&stream);
  packed.resize(size);
  support::write(folder / "f.gz", packed);
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  EXPECT_EQ(support::sentence_of([&] { (void)data::read_idx(folder / "f.gz", 1); }),
            folder / "f.gz" + ": at byte 12: expected 4 bytes of data for the extents [4], found more");
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 16 << 10);  // in KiB
}

TEST(data_idx, a_file_that_only_says_it_is_large_costs_nothing) {
  EXPECT_EQ(rejection(idx({0x803, 1 << 20, 32, 32}, 4), 3),
            "f: at byte 20: expected 1073741824 bytes of data for the extents [1048576, 32, 32], found 4");
  const auto problem = support::sentence_of([] { (void)data::parse_idx(idx({0x801, 11}, 11), 1, "f", 10); });
  EXPECT_EQ(problem, "f: at byte 4: expected extents of at most 10 bytes of data, found [11]");
}

TEST(data_idx, more_than_a_vector_can_hold_is_out_of_memory_whatever_the_caller_allows) {
  const auto problem = support::sentence_of([] {
    (void)data::parse_idx(idx({0x803, 1u << 31, 1u << 31, 2}, 4), 3, "f", ~std::uint64_t{0});
  });
  EXPECT_EQ(problem, "f: 9223372036854775808 elements of 1 bytes do not fit into memory");
}

TEST(data_idx, a_pair_becomes_labelled_images) {
  const support::temporary_folder folder;
  support::write(folder / "i", idx({0x803, 5, 2, 2}, 20));
  support::write(folder / "l", idx({0x801, 5}, 5));
  const auto set = data::read_idx_pair(folder / "i", folder / "l");
  EXPECT_EQ(set.size(), 5u);
  EXPECT_EQ(set.image(1)[0], 4);
  EXPECT_EQ(set.labels[4], 4);
}

TEST(data_idx, counts_that_differ_are_refused) {
  const support::temporary_folder folder;
  const std::string images = folder / "i", labels = folder / "l";
  support::write(images, idx({0x803, 5, 2, 2}, 20));
  support::write(labels, idx({0x801, 4}, 4));
  EXPECT_EQ(support::sentence_of([&] { (void)data::read_idx_pair(images, labels); }),
            labels + ": at byte 4: expected 5 labels, as many as there are images in " + images + ", found 4");
}

TEST(data_idx, a_label_out_of_range_is_refused) {
  const support::temporary_folder folder;
  const std::string images = folder / "i", labels = folder / "l";
  support::write(images, idx({0x803, 5, 2, 2}, 20));
  support::write(labels, idx({0x801, 5}, 5));
  EXPECT_EQ(support::sentence_of([&] { (void)data::read_idx_pair(images, labels, 4); }),
            labels + ": at byte 12: expected a label below 4, found 4");
}

TEST(data_idx, pixels_become_numbers_from_0_to_1) {
  const bytes pixels{0, 51, 255};
  EXPECT_EQ(data::to_unit_interval(pixels), (std::vector<float>{0.0f, 0.2f, 1.0f}));
}
