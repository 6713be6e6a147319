// SPDX-License-Identifier: MIT
// A folder of PNG and JPEG files as a set of a loader: its subfolders are the classes. Not part of meganeura.hpp:
// include it where it is wanted and link what has stb_image, Debian's -lstb, or define STB_IMAGE_IMPLEMENTATION in one
// file of the program, as stb has it.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/data/augment.hpp>
#include <meganeura/data/labelled_images.hpp>
#include <meganeura/data/loader.hpp>
#include <meganeura/io/crc32.hpp>
#include <meganeura/io/file.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#if __has_include(<stb/stb_image.h>)
#include <stb/stb_image.h>
#elif __has_include(<stb_image.h>)
#include <stb_image.h>
#endif

namespace meganeura::inline MEGANEURA_ABI::data {

namespace detail {

// What share of which numbers of a line of `from` is number `index` of one of `to`: the triangle filter, which is
// interpolation where a line grows and a weighted mean where it shrinks, as PIL's BILINEAR.
struct line_filter {
  std::size_t first = 0;
  std::vector<float> weights{};

  line_filter(std::size_t from, std::size_t to, std::size_t index) {
    const double scale = static_cast<double>(from) / static_cast<double>(to), radius = std::max(1.0, scale);
    const double centre = (static_cast<double>(index) + 0.5) * scale;
    first = static_cast<std::size_t>(std::max(0.0, std::floor(centre - radius)));
    double sum = 0;
    for (std::size_t i = first; i < from && static_cast<double>(i) < centre + radius; ++i) {
      const double weight = std::max(0.0, 1 - std::abs(static_cast<double>(i) + 0.5 - centre) / radius);
      weights.push_back(static_cast<float>(weight));
      sum += weight;
    }
    for (float& weight : weights) weight = static_cast<float>(static_cast<double>(weight) / sum);
  }
  [[nodiscard]] float of(const float* numbers, std::size_t stride) const {
    float sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) sum += weights[i] * numbers[(first + i) * stride];
    return sum;
  }
};

// Pixels [rows, columns, channels] to an image [channels, to.rows, to.columns] of 0 to 1.
inline void scale_image(std::span<const std::uint8_t> pixels, std::size_t rows, std::size_t columns,
                        const image_shape& to, std::span<float> image) {
  const std::vector<float> values = to_unit_interval(pixels);
  std::vector<float> narrow(rows * to.columns * to.channels);  // of the right width, [rows, columns, channels]
  for (std::size_t column = 0; column < to.columns; ++column) {
    const line_filter filter(columns, to.columns, column);
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t c = 0; c < to.channels; ++c)
        narrow[(row * to.columns + column) * to.channels + c] =
            filter.of(&values[row * columns * to.channels + c], to.channels);
    }
  }
  for (std::size_t row = 0; row < to.rows; ++row) {
    const line_filter filter(rows, to.rows, row);
    for (std::size_t column = 0; column < to.columns; ++column) {
      for (std::size_t c = 0; c < to.channels; ++c)
        image[(c * to.rows + row) * to.columns + column] =
            filter.of(&narrow[column * to.channels + c], to.columns * to.channels);
    }
  }
}

}  // namespace detail

namespace detail {

// Pixels of a PNG or JPEG file, [rows, columns, channels].
struct decoded_image {
  std::size_t rows = 0, columns = 0;
  std::vector<std::uint8_t> pixels{};
};

// Whether the chunks of a PNG file have the checksums that stand behind them.
inline bool has_right_sums(std::span<const std::uint8_t> file) {
  const auto number = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) value = value << 8 | file[at + i];
    return value;
  };
  constexpr std::size_t signature = 8, around = 12;  // length, type and checksum of a chunk
  for (std::size_t at = signature; at < file.size();) {
    if (file.size() - at < around || file.size() - at - around < number(at)) return false;
    const std::size_t length = number(at);
    const std::span<const std::byte> summed = std::as_bytes(file.subspan(at + 4, 4 + length));
    if (io::crc32(summed) != fmt::format("{:08x}", number(at + 8 + length))) return false;
    at += around + length;
  }
  return true;
}

// errors: those of read_image.
inline decoded_image decode_image(const std::string& path, std::size_t channels) {
#ifdef STBI_INCLUDE_STB_IMAGE_H
  const std::vector<std::uint8_t> file = io::read_file(path);
  const bool known = file.size() > 2 && ((file[0] == 0x89 && file[1] == 'P') || (file[0] == 0xff && file[1] == 0xd8));
  int columns = 0, rows = 0, found = 0;
  const auto size = static_cast<int>(file.size());  // read_file reads at most 2^30 bytes
  const auto refuse = [&](const char* reason) {
    fail(error_category::invalid_file, "{}: is no PNG or JPEG file that can be read: {}", shown_path(path),
         reason == nullptr || *reason == '\0' ? "it is damaged" : reason);
  };
  if (!known) refuse("it does not begin as one");
  if (stbi_info_from_memory(file.data(), size, &columns, &rows, &found) == 0) refuse(stbi_failure_reason());
  if (std::int64_t{columns} * rows > std::int64_t{1} << 28) refuse("it has more than 2^28 pixels");
  if (std::max(columns, rows) / std::min(columns, rows) > 256) refuse("it is more than 256 times longer than wide");
  if (file[0] == 0x89 && !has_right_sums(file)) refuse("a checksum says that it is damaged");  // stb looks at none
  const std::unique_ptr<stbi_uc, void (*)(void*)> pixels(
      stbi_load_from_memory(file.data(), size, &columns, &rows, &found, static_cast<int>(channels)), stbi_image_free);
  if (pixels == nullptr) refuse(stbi_failure_reason());
  const auto height = static_cast<std::size_t>(rows), width = static_cast<std::size_t>(columns);
  return {height, width, {pixels.get(), pixels.get() + height * width * channels}};
#else
  static_cast<void>(channels);
  fail(error_category::unsupported,
       "{}: cannot be read: this program was compiled without stb_image (Debian: "
       "libstb-dev)",
       shown_path(path));
#endif
}

inline void check_image_shape(const char* call, const image_shape& shape) {
  if ((shape.channels != 1 && shape.channels != 3) || shape.rows == 0 || shape.columns == 0) {
    fail(error_category::invalid_argument, "{}: an image of {}x{}x{} was asked for; it has 1 or 3 channels", call,
         shape.channels, shape.rows, shape.columns);
  }
}

}  // namespace detail

/// An image of a PNG or JPEG file, scaled to this shape: grey of 1 channel, red, green and blue of 3; opacity is left
/// out. Returns numbers from 0 to 1, [channels, rows, columns]. errors: `io`; `invalid_file` for what is no such file,
/// a damaged one (of a JPEG not all damage can be seen), one of more than 2^28 pixels and one that is more than 256
/// times longer than wide; invalid_argument for other channels and an empty shape; `unsupported` where stb_image was
/// missing when this was compiled; out_of_memory.
[[nodiscard]] inline std::vector<float> read_image(const std::string& path, const image_shape& shape) try {
  detail::check_image_shape("read_image", shape);
  const auto found = detail::decode_image(path, shape.channels);
  auto image = allocate_for<float>("read_image", detail::elements_of(shape));
  detail::scale_image(found.pixels, found.rows, found.columns, shape, image);
  return image;
} catch (...) {
  rethrow_as_error("reading an image");
}

/// The same, scaled in proportion until the shorter side is `side`, and of that the middle, as classifiers of ImageNet
/// are evaluated: read_centre("cat.jpg", {3, 224, 224}, 256). errors: as read_image; invalid_argument for a side that
/// is shorter than the shape's or above 2^20.
[[nodiscard]] inline std::vector<float> read_centre(const std::string& path, const image_shape& shape,
                                                    std::size_t side) try {
  detail::check_image_shape("read_centre", shape);
  if (side < shape.rows || side < shape.columns || side > std::size_t{1} << 20) {
    fail(
        error_category::invalid_argument,
        "read_centre: {}x{} pixels of an image of {} on the shorter side were asked for; it is as long as both, and at "
        "most 2^20",
        shape.rows, shape.columns, side);
  }
  const auto found = detail::decode_image(path, shape.channels);
  const std::size_t shorter = std::min(found.rows, found.columns);
  const image_shape scaled{shape.channels, side * found.rows / shorter, side * found.columns / shorter};
  auto whole = allocate_for<float>("read_centre", detail::elements_of(scaled));
  detail::scale_image(found.pixels, found.rows, found.columns, scaled, whole);
  auto image = allocate_for<float>("read_centre", detail::elements_of(shape));
  // What cannot be halved is rounded to even, as torchvision does.
  const auto half = [](std::size_t from, std::size_t to) {
    return static_cast<std::size_t>(std::nearbyint(static_cast<double>(from - to) / 2));
  };
  const std::size_t top = half(scaled.rows, shape.rows), left = half(scaled.columns, shape.columns);
  for (std::size_t line = 0; line < shape.channels * shape.rows; ++line) {
    const std::size_t channel = line / shape.rows, row = line % shape.rows + top;
    const auto begin =
        whole.begin() + static_cast<std::ptrdiff_t>((channel * scaled.rows + row) * scaled.columns + left);
    std::copy_n(begin, shape.columns, image.begin() + static_cast<std::ptrdiff_t>(line * shape.columns));
  }
  return image;
} catch (...) {
  rethrow_as_error("reading an image");
}

/// The images in the subfolders of a folder, which are the classes, by name; files in them by name as well. A set of a
/// loader, whose threads read and scale: image_folder birds("birds", {3, 64, 64}); loader batches(birds, 32, {.shuffle
/// = true}). Files are those that end in .png, .jpg or .jpeg; what else is there is passed over.
class image_folder {
 public:
  using batch = image_batch;

  /// Lists the files and reads none. `known`: the classes as another folder has numbered them, that of the training,
  /// image_folder("test", shape, train.classes()); otherwise its own. errors: `io` for a folder that cannot be read;
  /// invalid_argument where it has no subfolder, for a class without images, and for one that is not known.
  image_folder(const std::string& path, const image_shape& shape, const std::vector<std::string>& known = {}) try
      : shape_(shape) {
    const std::vector<std::string> names = sorted(path, true);
    classes_ = known.empty() ? names : known;
    for (const std::string& name : names) {
      const auto at = std::ranges::find(classes_, name);
      if (at == classes_.end()) {
        fail(error_category::invalid_argument, "{}: class {} is none of the {} that are known; leave its folder out",
             shown_path(path), quote(name), known.size());
      }
      const std::size_t before = files_.size();
      for (const std::string& file : sorted(path + "/" + name, false)) files_.push_back(path + "/" + name + "/" + file);
      if (files_.size() == before) {
        fail(error_category::invalid_argument, "{}: class {} has no file that ends in .png, .jpg or .jpeg",
             shown_path(path), quote(name));
      }
      labels_.resize(files_.size(), static_cast<std::int32_t>(at - classes_.begin()));
    }
    if (names.empty()) {
      fail(error_category::invalid_argument, "{}: has no subfolders; there must be one for each class of images",
           shown_path(path));
    }
  } catch (...) {
    rethrow_as_error("listing images");
  }

  [[nodiscard]] std::size_t size() const { return files_.size(); }
  [[nodiscard]] const std::vector<std::string>& classes() const { return classes_; }
  [[nodiscard]] const std::vector<std::string>& files() const { return files_; }
  [[nodiscard]] const std::vector<std::int32_t>& labels() const { return labels_; }  // of the files

  /// errors: those of read_image.
  void fill(const chosen_samples& chosen, image_batch& into) const try {
    into = {};
    for (const std::size_t index : chosen.indices) {
      const std::vector<float> image = read_image(files_[index], shape_);
      into.images.insert(into.images.end(), image.begin(), image.end());
      into.labels.push_back(labels_[index]);
    }
  } catch (...) {
    rethrow_as_error("making a batch of images");
  }

 private:
  // Names of folders, or of images.
  [[nodiscard]] static std::vector<std::string> sorted(const std::string& path, bool folders) {
    io::check_path(path);
    std::vector<std::string> names;
    std::error_code problem;
    for (std::filesystem::directory_iterator at(path, problem), end; !problem && at != end; at.increment(problem)) {
      std::string extension = at->path().extension().string();
      for (char& each : extension) each = each >= 'A' && each <= 'Z' ? static_cast<char>(each - 'A' + 'a') : each;
      const bool image = extension == ".png" || extension == ".jpg" || extension == ".jpeg";
      std::error_code ignored;  // of a link to nothing: neither
      if (folders ? at->is_directory(ignored) : image && at->is_regular_file(ignored))
        names.push_back(at->path().filename().string());
    }
    if (problem) fail(error_category::io, "{}: the folder cannot be read: {}", shown_path(path), problem.message());
    std::ranges::sort(names);
    return names;
  }

  image_shape shape_;
  std::vector<std::string> classes_, files_;
  std::vector<std::int32_t> labels_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::data
