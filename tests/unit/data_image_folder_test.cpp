// SPDX-License-Identifier: MIT
// Folders of images: classes and files by name, pixels as they were written or scaled, and what is no image.
#include <meganeura/data/image_folder.hpp>
#include <meganeura/data/png.hpp>

#include <support/sentence_of.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

namespace {

using namespace meganeura;
using support::sentence_of;

#ifdef STBI_INCLUDE_STB_IMAGE_H

class data_image_folder : public testing::Test {
 protected:
  void image(const std::string& name, const std::vector<float>& values, const data::image_shape& shape) {
    std::filesystem::create_directories(std::filesystem::path(folder / name).parent_path());
    data::write_png(folder / name, values, shape);
  }
  support::temporary_folder folder;
};

TEST_F(data_image_folder, subfolders_are_classes_and_batches_hold_the_pixels) {
  const data::image_shape shape{3, 2, 1};
  for (int i = 0; i < 6; ++i) {
    const std::string name = (i % 2 == 0 ? "b/" : "a/") + std::to_string(9 - i) + (i == 3 ? ".PNG" : ".png");
    std::vector<float> values;
    for (int k = 0; k < 6; ++k) values.push_back(static_cast<float>(10 * i + k) / 255);
    image(name, values, shape);
  }
  support::write(folder / "a/notes.txt", std::string("x"));
  support::write(folder / "list.png", std::string("x"));
  const data::image_folder set(folder.path().string(), shape);
  EXPECT_EQ(set.classes(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(set.labels(), (std::vector<std::int32_t>{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(set.files()[0], folder / "a/4.png");
  const data::image_folder later(folder.path().string(), shape, {"0", "b", "a"});
  EXPECT_EQ(later.classes(), (std::vector<std::string>{"0", "b", "a"}));
  EXPECT_EQ(later.labels(), (std::vector<std::int32_t>{2, 2, 2, 1, 1, 1}));
  EXPECT_TRUE(sentence_of([&] {
                (void)data::image_folder(folder.path().string(), shape, {"a"});
              }).ends_with(": class \"b\" is none of the 1 that are known; leave its folder out"));
  data::loader batches(set, 4, {.last = data::keep, .threads = 2});
  std::vector<float> all;
  for (const auto& each : batches) all.insert(all.end(), each.images.begin(), each.images.end());
  std::vector<float> expected;
  for (const int i : {5, 3, 1, 4, 2, 0}) {
    for (int k = 0; k < 6; ++k) expected.push_back(static_cast<float>(10 * i + k) / 255.0f);
  }
  EXPECT_EQ(all, expected);
}

TEST_F(data_image_folder, images_are_scaled_by_weighted_means) {
  image("ramp.png", {0, 85.0f / 255, 170.0f / 255, 1}, {1, 1, 4});
  // Shares of 3, 3 and 1 sevenths from either end.
  const std::vector<float> half = data::read_image(folder / "ramp.png", {1, 1, 2});
  ASSERT_EQ(half.size(), 2u);
  EXPECT_NEAR(half[0], (3 * 0 + 3 * 1 + 1 * 2) / 21.0, 1e-6);
  EXPECT_NEAR(half[1], (1 * 1 + 3 * 2 + 3 * 3) / 21.0, 1e-6);
  const std::vector<float> twice = data::read_image(folder / "ramp.png", {3, 2, 8});  // grey as colours
  ASSERT_EQ(twice.size(), 48u);
  for (std::size_t i = 0; i < 48; ++i) {
    const double at = std::clamp((static_cast<double>(i % 8) + 0.5) / 2 - 0.5, 0.0, 3.0);
    EXPECT_NEAR(twice[i], at / 3, 1e-6) << i;
  }
}

// 8x8 pixels of one grey, 128, of which every coefficient is 0: the smallest baseline JPEG.
std::string grey_jpeg() {
  std::string file = "\xff\xd8\xff\xdb";
  file += std::string("\0\x43\0", 3) + std::string(64, '\1');           // a table of quantisers
  file += std::string("\xff\xc0\0\x0b\x08\0\x08\0\x08\1\1\x11\0", 13);  // 8x8, one component
  for (const char table : {'\0', '\x10'})                               // one code, of 1 bit: 0
    file += std::string("\xff\xc4\0\x14", 4) + table + '\1' + std::string(15, '\0') + '\0';
  return file + std::string("\xff\xda\0\x08\1\1\0\0\x3f\0", 10) + "\x3f\xff\xd9";  // codes 0 and 0
}

TEST_F(data_image_folder, jpeg_is_read_as_well) {
  support::write(folder / "grey.jpg", grey_jpeg());
  const std::vector<float> image = data::read_image(folder / "grey.jpg", {1, 8, 8});
  EXPECT_EQ(image, std::vector<float>(64, 128.0f / 255));
}

// Columns of 0 to 255, twice as many as rows.
TEST_F(data_image_folder, the_middle_of_an_image_is_scaled_in_proportion) {
  const std::string path = folder / "wide.png";
  std::vector<float> ramp(128 * 256);
  for (std::size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<float>(i % 256) / 255;
  data::write_png(path, ramp, {1, 128, 256});
  const auto same = data::read_centre(path, {1, 100, 101}, 128);  // rows 14 on; columns 77.5 on, rounded to even
  ASSERT_EQ(same.size(), 100u * 101u);
  EXPECT_FLOAT_EQ(same[0], 78.0f / 255);
  EXPECT_FLOAT_EQ(same.back(), 178.0f / 255);
  const auto half = data::read_centre(path, {3, 32, 32}, 64);  // 64 x 128; columns 48 on, each around two of before
  ASSERT_EQ(half.size(), 3u * 32u * 32u);
  EXPECT_NEAR(half[0], 96.5f / 255, 1e-5f);
  EXPECT_NEAR(half.back(), 158.5f / 255, 1e-5f);
  EXPECT_EQ(
      support::refusal([&] {
        (void)data::read_centre(path, {3, 32, 65}, 64);
      }),
      "read_centre: 32x65 pixels of an image of 64 on the shorter side were asked for; it is as long as both, and at "
      "most 2^20");
  EXPECT_THROW((void)data::read_centre(path, {3, 32, 32}, std::size_t{1} << 63), error);
}

TEST_F(data_image_folder, what_is_no_set_of_images_is_an_error) {
  const auto opened = [&](const std::string& name) {
    return sentence_of([&] { (void)data::image_folder(folder / name, {1, 2, 2}); });
  };
  EXPECT_EQ(opened("none"), folder / "none" + ": the folder cannot be read: No such file or directory");
  std::filesystem::create_directories(folder / "birds/owl");
  EXPECT_EQ(opened("birds/owl"),
            folder / "birds/owl" + ": has no subfolders; there must be one for each class of images");
  EXPECT_EQ(opened("birds"), folder / "birds" + ": class \"owl\" has no file that ends in .png, .jpg or .jpeg");

  image("birds/owl/a.png", std::vector<float>(400, 0.5f), {1, 20, 20});
  const std::vector<std::uint8_t> good = io::read_file(folder / "birds/owl/a.png");
  const auto read = [&](std::span<const std::uint8_t> bytes, const data::image_shape& shape) {
    support::write(folder / "birds/owl/a.png", std::string(bytes.begin(), bytes.end()));
    return sentence_of([&] { (void)data::read_image(folder / "birds/owl/a.png", shape); });
  };
  EXPECT_EQ(read(good, {1, 2, 2}), "no error");
  const std::string no_image = folder / "birds/owl/a.png" + ": is no PNG or JPEG file that can be read: ";
  EXPECT_EQ(read(std::vector<std::uint8_t>{'G', 'I', 'F'}, {1, 2, 2}), no_image + "it does not begin as one");
  for (std::size_t bytes : {std::size_t{0}, std::size_t{5}, std::size_t{30}, good.size() - 16})
    EXPECT_EQ(read(std::span(good).first(bytes), {1, 2, 2}).find(no_image), 0u) << bytes;
  std::vector<std::uint8_t> huge = good;
  huge[18] = huge[22] = 0x60;  // 24,576 more of each
  EXPECT_EQ(read(huge, {1, 2, 2}), no_image + "it has more than 2^28 pixels");
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::vector<std::uint8_t> flipped = good;
    flipped[at] = static_cast<std::uint8_t>(flipped[at] ^ 1U << at % 8);
    EXPECT_EQ(read(flipped, {1, 2, 2}).find(no_image), 0u) << at;
  }
  image("birds/owl/a.png", std::vector<float>(300, 0.5f), {1, 300, 1});
  EXPECT_EQ(read(io::read_file(folder / "birds/owl/a.png"), {1, 2, 2}),
            no_image + "it is more than 256 times longer than wide");
  EXPECT_EQ(read(good, {2, 2, 2}), "read_image: an image of 2x2x2 was asked for; it has 1 or 3 channels");
}

#else

TEST(data_image_folder, without_stb_image_an_error_says_what_to_install) {
  EXPECT_EQ(sentence_of([] {
              (void)data::read_image("a.png", {1, 2, 2});
            }),
            "a.png: cannot be read: this program was compiled without stb_image (Debian: libstb-dev)");
}

#endif

}  // namespace
