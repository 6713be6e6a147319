// SPDX-License-Identifier: MIT
// PNG files read back with zlib alone: every chunk's checksum, the header, every pixel.
#include <meganeura/data/png.hpp>
#include <meganeura/io/file.hpp>

#include <support/sentence_of.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>
#include <zlib.h>

#include <limits>

namespace {

using namespace meganeura;

std::size_t number(std::span<const std::uint8_t> from) {
  return std::size_t{from[0]} << 24 | std::size_t{from[1]} << 16 | std::size_t{from[2]} << 8 | from[3];
}

struct decoded {
  std::vector<std::uint8_t> header, lines;
};

decoded decode(const std::string& path) {
  const std::vector<std::uint8_t> file = io::read_file(path);
  const std::vector<std::uint8_t> signature{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  EXPECT_TRUE(std::equal(signature.begin(), signature.end(), file.begin()));
  decoded result;
  std::string types;
  for (auto rest = std::span(file).subspan(8); !rest.empty();) {
    const std::size_t size = number(rest);
    const std::string type(rest.begin() + 4, rest.begin() + 8);
    EXPECT_EQ(number(rest.subspan(8 + size)), ::crc32_z(0, rest.data() + 4, size + 4)) << type;
    if (type == "IHDR") result.header.assign(rest.begin() + 8, rest.begin() + 8 + static_cast<std::ptrdiff_t>(size));
    if (type == "IDAT") {
      uLongf length = 1000;
      result.lines.resize(length);
      EXPECT_EQ(::uncompress(result.lines.data(), &length, rest.data() + 8, size), Z_OK);
      result.lines.resize(length);
    }
    types += type;
    rest = rest.subspan(12 + size);
  }
  EXPECT_EQ(types, "IHDRIDATIEND");
  return result;
}

using bytes = std::vector<std::uint8_t>;

TEST(data_png, images_stand_side_by_side_and_numbers_are_cut) {
  const support::temporary_folder folder;
  const std::string path = folder / "grey.png";
  const float nan = std::numeric_limits<float>::quiet_NaN();
  data::write_png(path, std::vector<float>{0, 1, 0.5f, 2, -1, nan}, {1, 1, 2}, 2);
  const decoded grey = decode(path);
  EXPECT_EQ(grey.header, (bytes{0, 0, 0, 4, 0, 0, 0, 2, 8, 0, 0, 0, 0}));
  EXPECT_EQ(grey.lines, (bytes{0, 0, 255, 128, 255, 0, 0, 0, 0, 0}));
}

TEST(data_png, colours_of_a_pixel_stand_together) {
  const support::temporary_folder folder;
  const std::string path = folder / "colour.png";
  std::vector<float> image;  // [3, 2, 2]
  for (int i = 0; i < 12; ++i) image.push_back(static_cast<float>(i) / 255);
  data::write_png(path, image, {3, 2, 2}, 7);
  const decoded colour = decode(path);
  EXPECT_EQ(colour.header, (bytes{0, 0, 0, 2, 0, 0, 0, 2, 8, 2, 0, 0, 0}));
  EXPECT_EQ(colour.lines, (bytes{0, 0, 4, 8, 1, 5, 9, 0, 2, 6, 10, 3, 7, 11}));
}

TEST(data_png, what_is_no_image_is_an_error) {
  const std::vector<float> six(6);
  const auto refused = [&](std::span<const float> images, const data::image_shape& shape, std::size_t across) {
    return support::refusal([&] { data::write_png("/nowhere/x.png", images, shape, across); });
  };
  EXPECT_EQ(
      refused(six, {2, 1, 3}, 1),
      "write_png: 6 numbers as images of 2x1x3, 1 in a row, were asked for; give whole images of 1 or 3 channels, "
      "at least one in a row");
  for (const auto& each :
       {refused(six, {1, 1, 4}, 1), refused(six, {1, 0, 3}, 1), refused({}, {1, 1, 3}, 1), refused(six, {1, 1, 3}, 0)})
    EXPECT_EQ(each.find("write_png: "), 0u) << each;
  EXPECT_EQ(refused(six, {1, 6, 1 + (std::size_t{1} << 63)}, 1),
            "a size of 9223372036854775809 is more than 63 bits; choose smaller extents");
  EXPECT_NE(support::sentence_of([&] {
              data::write_png("/nowhere/x.png", six, {1, 2, 3});
            }).find("/nowhere"),
            std::string::npos);
}

}  // namespace
