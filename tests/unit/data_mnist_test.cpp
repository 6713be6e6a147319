// SPDX-License-Identifier: MIT
// Where MNIST comes from: each place in its order, the split, the download's checksum, and the sentences when it fails.
#include <meganeura/data/mnist.hpp>

#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <optional>

namespace data = meganeura::data;
namespace fs = std::filesystem;

namespace {

namespace support = meganeura::support;

/// Points the environment at nothing but a temporary folder, and back again.
class data_mnist : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"MEGANEURA_DATA", "XDG_CACHE_HOME"}) {
      const char* value = std::getenv(name);
      before_.emplace_back(name, value == nullptr ? std::nullopt : std::optional<std::string>(value));
    }
    ::unsetenv("MEGANEURA_DATA");
    ::setenv("XDG_CACHE_HOME", (folder / "cache").c_str(), 1);
  }
  void TearDown() override {
    for (const auto& entry : before_) {
      entry.second ? ::setenv(entry.first, entry.second->c_str(), 1) : ::unsetenv(entry.first);
    }
  }

  /// An IDX pair of `count` images of 28x28 whose pixels and labels are the index modulo 10.
  static void write_pair(const fs::path& where, const std::string& prefix, std::uint32_t count) {
    fs::create_directories(where);
    const auto word = [](std::uint32_t value) {
      std::string text;
      for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(value >> shift);
      return text;
    };
    std::string images = word(0x803) + word(count) + word(28) + word(28), labels = word(0x801) + word(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      images += std::string(784, static_cast<char>(i % 10));
      labels += static_cast<char>(i % 10);
    }
    support::write((where / (prefix + "-images-idx3-ubyte")).string(), images);
    support::write((where / (prefix + "-labels-idx1-ubyte")).string(), labels);
  }

  static data::mnist_options offline(const std::string& directory = {}) {
    data::mnist_options options;
    options.directory = directory;
    options.download = false;
    return options;
  }

  std::string rejection(const std::string& directory) const {
    return support::sentence_of([&] { (void)data::load_mnist(offline(directory)); });
  }

  /// What MEGANEURA_DATA was outside the test.
  [[nodiscard]] std::string data_before() const { return before_.at(0).second.value_or(""); }

  support::temporary_folder folder;

 private:
  std::vector<std::pair<const char*, std::optional<std::string>>> before_;
};

}  // namespace

TEST_F(data_mnist, both_pairs_are_taken_as_they_are) {
  write_pair(folder.path(), "train", 30);
  write_pair(folder.path(), "t10k", 20);
  const auto set = data::load_mnist(offline(folder.path().string()));
  EXPECT_EQ(set.train.size(), 30u);
  EXPECT_EQ(set.test.size(), 20u);
  EXPECT_EQ(set.source,
            "MNIST from " + folder.path().string() + " (the folder asked for): 30 images to train on, 20 to test");
}

TEST_F(data_mnist, one_pair_is_split_four_to_one_without_losing_an_image) {
  write_pair(folder.path(), "t10k", 10000);
  const auto set = data::load_mnist(offline(folder.path().string()));
  EXPECT_EQ(set.train.size(), 8000u);
  EXPECT_EQ(set.test.size(), 2000u);
  EXPECT_EQ(set.test.labels[0], 4);  // every fifth
  for (std::size_t i = 0; i < set.train.size(); ++i) ASSERT_EQ(set.train.image(i)[3], set.train.labels[i]);
  for (std::size_t i = 0; i < set.test.size(); ++i) ASSERT_EQ(set.test.image(i)[3], set.test.labels[i]);
  EXPECT_NE(set.source.find("only the 10000-image pair is there: split into 8000"), std::string::npos) << set.source;
}

TEST_F(data_mnist, the_environment_comes_before_the_cache_and_the_cache_before_drawing) {
  write_pair(folder / "cache/meganeura/mnist", "t10k", 10);
  EXPECT_NE(data::load_mnist(offline()).source.find("(the user's cache)"), std::string::npos);
  write_pair(folder / "data/mnist", "t10k", 20);
  ::setenv("MEGANEURA_DATA", (folder / "data").c_str(), 1);
  EXPECT_NE(data::load_mnist(offline()).source.find("(MEGANEURA_DATA)"), std::string::npos);
}

TEST_F(data_mnist, without_files_digits_are_drawn_and_the_sentence_says_so) {
  const auto set = data::load_mnist(offline());
  EXPECT_EQ(set.train.size(), 8000u);
  EXPECT_EQ(set.test.size(), 2000u);
  EXPECT_TRUE(set.source.starts_with("digits drawn by a program")) << set.source;
  EXPECT_NE(set.train.pixels, set.test.pixels);
}

TEST_F(data_mnist, a_folder_that_is_not_there_or_has_no_files_is_an_error) {
  const std::string missing = folder / "missing";
  EXPECT_EQ(rejection(missing), missing + ": the data folder cannot be read: No such file or directory");
  EXPECT_EQ(rejection(folder.path().string()),
            folder.path().string() + ": expected t10k-images-idx3-ubyte or t10k-images-idx3-ubyte.gz, found neither");
  ::setenv("MEGANEURA_DATA", missing.c_str(), 1);
  EXPECT_EQ(rejection(""), missing + "/mnist: the data folder cannot be read: No such file or directory");
}

TEST_F(data_mnist, half_a_pair_is_an_error) {
  write_pair(folder.path(), "t10k", 10);
  fs::remove(folder / "t10k-labels-idx1-ubyte");
  const std::string images = folder / "t10k-images-idx3-ubyte";
  EXPECT_EQ(rejection(folder.path().string()),
            folder.path().string() + ": expected t10k-labels-idx1-ubyte or t10k-labels-idx1-ubyte.gz beside " + images +
                ", found neither");
}

TEST_F(data_mnist, a_download_with_a_wrong_checksum_is_thrown_away) {
  write_pair(folder / "mirror", "t10k", 10);
  for (const char* name : {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    fs::rename(folder / ("mirror/" + std::string(name)), folder / ("mirror/" + std::string(name) + ".gz"));
  }
  data::mnist_options options;
  options.mirror = "file://" + (folder / "mirror/");
  EXPECT_TRUE(data::load_mnist(options).source.starts_with("digits drawn by a program"));
  EXPECT_TRUE(fs::is_empty(folder / "cache/meganeura/mnist"));
}

TEST_F(data_mnist, a_download_of_the_real_files_is_cached) {
  const std::string real = data_before() + "/mnist/";
  if (!fs::exists(real + "t10k-images-idx3-ubyte.gz") || std::system("curl --version >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "needs curl, and MEGANEURA_DATA with the published .gz files";
  }
  data::mnist_options options;
  options.mirror = "file://" + real;
  EXPECT_NE(data::load_mnist(options).source.find("(downloaded just now)"), std::string::npos);
  EXPECT_NE(data::load_mnist(offline()).source.find("(the user's cache)"), std::string::npos);
}
