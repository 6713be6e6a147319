// SPDX-License-Identifier: MIT
// Body of data/digits.hpp: stroke templates, jitter, and a brush.
#pragma once
#include <meganeura/core/allocate.hpp>
#include <meganeura/data/digits.hpp>
#include <meganeura/data/random.hpp>

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::data {
namespace detail {

struct pen_point {
  double x, y;
};

/// The ways to write each digit. A letter pair is a point: column a..i, row a..m from the top (a step is 1/8 of the
/// width, 1/12 of the height); a space lifts the pen. The pen moves through the points on a smooth curve.
inline std::span<const std::string_view> digit_templates(std::size_t digit) {
  static constexpr std::string_view zero[] = {"eabbaeagbkdmgmikigicgaea", "fbcabcadakbmelhlihidhbeaca"};
  static constexpr std::string_view one[] = {"eaeeeiem", "ccdbea eaeeeiem", "ccdbea eaeeeiem bmemhm"};
  static constexpr std::string_view two[] = {"acbaeahbhdgfdibkam amemim", "abdafahchefhcjalbkdkglimjl"};
  static constexpr std::string_view three[] = {"abdagahchefgdg dgghhjhlfmcmal", "aacaiahbeeeehfiihlfmcmak"};
  static constexpr std::string_view four[] = {"gaecbgai aiciii gagggm", "badeai aieihi hagggm"};
  static constexpr std::string_view five[] = {"haeaba baafbf bfdegfhhhjglemcmal", "iafaca cabfdefehghjglemcmal"};
  static constexpr std::string_view six[] = {"gadcbfaiblemhlihhhfgchai", "eabeajblemhlijghdgaj"};
  static constexpr std::string_view seven[] = {"aaeaia iafgdm", "abeaia iafgem cgfghg"};
  static constexpr std::string_view eight[] = {"ebcbbdceefghhjhlemblbjcgegheibgaeb", "gadabcdeffhihkgmdmbkbieeghebga"};
  static constexpr std::string_view nine[] = {"hcfacabdbfdhfghehc hchggm", "hdgadabbaecgegheha haihhldmbl"};
  static constexpr std::span<const std::string_view> all[] = {zero, one, two,   three, four,
                                                              five, six, seven, eight, nine};
  return all[digit];
}

/// Catmull-Rom through the points of one stroke, in steps short enough for a 28-pixel image.
inline void append_curve(std::span<const pen_point> points, std::vector<std::vector<pen_point>>& strokes) {
  constexpr int steps = 6;
  std::vector<pen_point> curve{points.front()};
  for (std::size_t i = 0; i + 1 < points.size(); ++i) {
    const pen_point a = points[i == 0 ? 0 : i - 1], b = points[i], c = points[i + 1],
                    d = points[std::min(i + 2, points.size() - 1)];
    for (int step = 1; step <= steps; ++step) {
      const double t = static_cast<double>(step) / steps, s = t * t, u = s * t;
      const auto blend = [&](double p, double q, double r, double v) {
        return 0.5 * (2 * q + (r - p) * t + (2 * p - 5 * q + 4 * r - v) * s + (3 * q - p - 3 * r + v) * u);
      };
      curve.push_back({blend(a.x, b.x, c.x, d.x), blend(a.y, b.y, c.y, d.y)});
    }
  }
  strokes.push_back(std::move(curve));
}

/// A way to write the digit, with every point moved a little, then tilted, slanted, scaled and shifted as a whole.
inline std::vector<std::vector<pen_point>> write_digit(std::size_t digit, random_numbers& random) {
  const auto ways = digit_templates(digit);
  const std::string_view way = ways[random.bits() % ways.size()];
  const double angle = random.between(-0.2, 0.2), slant = random.between(-0.15, 0.4), width = random.between(9, 15),
               height = random.between(17, 21), left = 14 + random.between(-1.5, 1.5),
               top = 14 + random.between(-1.5, 1.5);
  std::vector<std::vector<pen_point>> strokes;
  std::vector<pen_point> points;
  for (std::size_t i = 0; i < way.size(); i += way[i] == ' ' ? 1 : 2) {
    if (way[i] == ' ') {
      append_curve(points, strokes);
      points.clear();
      continue;
    }
    const double x = (way[i] - 'a') / 8.0 - 0.5 + random.between(-0.05, 0.05);
    const double y = (way[i + 1] - 'a') / 12.0 - 0.5 + random.between(-0.035, 0.035);
    const double across = x * width - y * slant * height, down = y * height;
    points.push_back({left + across * std::cos(angle) - down * std::sin(angle),
                      top + across * std::sin(angle) + down * std::cos(angle)});
  }
  append_curve(points, strokes);
  return strokes;
}

inline double distance_to_segment(pen_point p, pen_point a, pen_point b) {
  const double x = b.x - a.x, y = b.y - a.y, length = x * x + y * y;
  const double t = length == 0 ? 0 : std::clamp(((p.x - a.x) * x + (p.y - a.y) * y) / length, 0.0, 1.0);
  return std::hypot(p.x - a.x - t * x, p.y - a.y - t * y);
}

/// Inks the pixels near a segment; the edge of the brush fades over one pixel.
inline void draw_segment(std::span<std::uint8_t> image, pen_point a, pen_point b, double radius, double ink) {
  const auto clamp_pixel = [](double at) { return static_cast<int>(std::clamp(at, 0.0, 27.0)); };
  const double reach = radius + 1;
  for (int row = clamp_pixel(std::min(a.y, b.y) - reach); row <= clamp_pixel(std::max(a.y, b.y) + reach); ++row) {
    for (int column = clamp_pixel(std::min(a.x, b.x) - reach); column <= clamp_pixel(std::max(a.x, b.x) + reach);
         ++column) {
      const double distance = distance_to_segment({column + 0.5, row + 0.5}, a, b);
      const double cover = std::clamp(radius + 0.5 - distance, 0.0, 1.0);
      auto& pixel = image[static_cast<std::size_t>(row * 28 + column)];
      pixel = std::max(pixel, static_cast<std::uint8_t>(ink * cover));
    }
  }
}

}  // namespace detail

MEGANEURA_INLINE labelled_images make_digits(std::size_t count, std::uint64_t seed) {
  const std::uint64_t pixels = count > SIZE_MAX / 784 ? SIZE_MAX : count * 784;
  labelled_images result{28, 28, allocate_for<std::uint8_t>("make_digits", pixels), std::vector<std::uint8_t>(count)};
  random_numbers random(seed);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t digit = random.bits() % 10;
    const auto image = std::span(result.pixels).subspan(i * 784, 784);
    const auto strokes = detail::write_digit(digit, random);
    const double radius = random.between(0.7, 1.6), ink = random.between(190, 255);
    for (const auto& stroke : strokes) {
      for (std::size_t k = 0; k + 1 < stroke.size(); ++k)
        detail::draw_segment(image, stroke[k], stroke[k + 1], radius, ink);
    }
    for (auto& pixel : image) {  // the grain of paper and scanner, on ink only, as in MNIST
      if (pixel > 0) pixel = static_cast<std::uint8_t>(std::clamp(pixel + random.between(-12, 12), 0.0, 255.0));
    }
    result.labels[i] = static_cast<std::uint8_t>(digit);
  }
  return result;
}

}  // namespace meganeura::inline MEGANEURA_ABI::data
