// SPDX-License-Identifier: MIT
// Bodies of data/run_log.hpp.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/data/run_log.hpp>
#include <meganeura/io/crc32.hpp>
#include <meganeura/io/file.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>

namespace meganeura::inline MEGANEURA_ABI::data {

namespace detail {

// At most `most` points: means of neighbours, at the last one's step. NaN of none that is finite.
inline std::vector<run_log::point> thinned(std::span<const run_log::point> points, std::size_t most) {
  std::vector<run_log::point> result;
  const std::size_t parts = std::min(points.size(), most);
  for (std::size_t i = 0; i < parts; ++i) {
    const std::size_t first = i * points.size() / parts, end = (i + 1) * points.size() / parts;
    double sum = 0, count = 0;
    for (const auto& each : points.subspan(first, end - first)) {
      if (std::isfinite(each.value)) sum += each.value, count += 1;
    }
    result.push_back({points[end - 1].step, sum / count, points[end - 1].seconds});
  }
  return result;
}

// From the least to the greatest number that is finite; never empty.
struct value_range {
  double low = std::numeric_limits<double>::infinity(), high = -low;

  void include(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // So that numbers between the ends differ, whatever the scale is.
  void widen() {
    if (low > high) low = high = 0;
    const double far = 1e-9 * std::max(std::abs(low), std::abs(high)), most = std::numeric_limits<double>::max();
    if (high - low > std::max(far, 1e-300)) return;
    low = std::max(low - std::max(far, 0.5), -most);
    high = std::min(high + std::max(far, 0.5), most);
  }
  [[nodiscard]] double share(double value) const { return (value / 2 - low / 2) / (high / 2 - low / 2); }
};

// About five round numbers of a range.
inline std::vector<double> ticks(const value_range& range) {
  const double rough = range.high / 5 - range.low / 5, power = std::pow(10, std::floor(std::log10(rough)));
  const double step = power * (rough < 1.5 * power ? 1 : rough < 3.5 * power ? 2 : rough < 7.5 * power ? 5 : 10);
  std::vector<double> result;
  for (double i = std::ceil(range.low / step); i * step <= range.high; ++i) result.push_back(i * step);
  return result;
}

inline std::string html(std::string_view text) {
  std::string result;
  for (const char each : text) {
    if (each == '&' || each == '<' || each == '>' || each == '"') {
      result += fmt::format("&#{};", static_cast<int>(each));
    } else {
      result += each;
    }
  }
  return result;
}

// Curves in one coordinate system of 720 x 300, of which the margins are for numbers.
class picture {
 public:
  explicit picture(std::span<const run_log::curve* const> curves) {
    for (const auto* each : curves) {
      drawn_.push_back(thinned(each->points, 1000));
      for (const auto& point : drawn_.back()) {
        steps_.include(static_cast<double>(point.step));
        values_.include(point.value);
      }
    }
    steps_.widen();
    values_.widen();
  }

  [[nodiscard]] std::string svg(std::span<const run_log::curve* const> curves) const {
    std::string text = fmt::format("<svg viewBox=\"0 0 720 300\" data-x=\"{} {}\" data-y=\"{} {}\">\n", steps_.low,
                                   steps_.high, values_.low, values_.high);
    for (const double value : ticks(values_)) {
      text += fmt::format("<path d=\"M60 {0:.1f}H710\"/><text x=\"54\" y=\"{0:.1f}\" class=\"y\">{1:.4g}</text>\n",
                          y(value), value);
    }
    for (const double step : ticks(steps_)) {
      text += fmt::format("<path d=\"M{0:.1f} 10V270\"/><text x=\"{0:.1f}\" y=\"288\" class=\"x\">{1:.7g}</text>\n",
                          x(step), step);
    }
    for (std::size_t i = 0; i < curves.size(); ++i) text += line(*curves[i], i);
    return text + "<text x=\"64\" y=\"22\" class=\"at\"></text></svg>\n";
  }

 private:
  [[nodiscard]] double x(double step) const { return 60 + 650 * steps_.share(step); }
  [[nodiscard]] double y(double value) const { return 270 - 260 * values_.share(value); }
  [[nodiscard]] std::string line(const run_log::curve& of, std::size_t index) const {
    std::string points;
    for (const auto& each : drawn_[index]) {
      if (std::isfinite(each.value))
        points += fmt::format("{:.1f},{:.1f} ", x(static_cast<double>(each.step)), y(each.value));
    }
    const auto infinite = std::ranges::count_if(of.points, [](const auto& p) { return !std::isfinite(p.value); });
    const std::string lost = infinite == 0 ? std::string() : fmt::format(" ({} not finite)", infinite);
    return fmt::format(
        "<g class=\"c{}\"><polyline points=\"{}\"/><text x=\"706\" y=\"{}\" class=\"y\">{}{}</text></g>\n", index % 6,
        points, 22 + 16 * index, html(of.name), lost);
  }

  value_range steps_, values_;
  std::vector<std::vector<run_log::point>> drawn_;
};

inline constexpr std::string_view page_head = R"(<style>
body{font:15px system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color-scheme:light dark}
svg{width:100%;font-size:11px}text{fill:currentColor}.x{text-anchor:middle}.y{text-anchor:end;dominant-baseline:middle}
path{stroke:currentColor;stroke-width:.3;opacity:.4}polyline{fill:none;stroke-width:1.5;stroke:var(--c)}g text{fill:var(--c)}
.c0{--c:#2a7de1}.c1{--c:#e8710a}.c2{--c:#1e9e5a}.c3{--c:#c5221f}.c4{--c:#8e44ad}.c5{--c:#7f6a00}
</style>
)";
// Shows the point nearest to the pointer.
inline constexpr std::string_view page_script = R"(<script>
for (const svg of document.querySelectorAll("svg")) svg.onpointermove = event => {
  const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  let near = null, far = 900;
  for (const line of svg.querySelectorAll("polyline")) for (const p of line.points) {
    const d = (p.x - at.x) ** 2 + (p.y - at.y) ** 2;
    if (d < far) far = d, near = p;
  }
  const value = (name, share) => { const [a, b] = svg.dataset[name].split(" ").map(Number); return a + (b - a) * share; };
  svg.querySelector(".at").textContent = near === null ? "" :
    `step ${Math.round(value("x", (near.x - 60) / 650))}: ${value("y", (270 - near.y) / 260).toPrecision(4)}`;
};
</script>
)";

// The wire format of protocol buffers, as far as events have it. source: TensorFlow's event.proto and summary.proto.
class message {
 public:
  message& number(int field, std::uint64_t value) {
    tag(field, 0);
    return varint(value);
  }
  message& real(int field, double value) {
    tag(field, 1);
    return fixed(std::bit_cast<std::uint64_t>(value), 8);
  }
  message& real(int field, float value) {
    tag(field, 5);
    return fixed(std::bit_cast<std::uint32_t>(value), 4);
  }
  message& text(int field, std::string_view value) {
    tag(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  message& fixed(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_ += static_cast<char>(value >> 8 * i & 0xff);
    return *this;
  }
  message& append(const std::string& bytes) {
    bytes_ += bytes;
    return *this;
  }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  void tag(int field, unsigned wire) { varint(static_cast<unsigned>(field) << 3 | wire); }
  message& varint(std::uint64_t value) {
    for (; value > 127; value >>= 7) bytes_ += static_cast<char>((value & 127) | 128);
    bytes_ += static_cast<char>(value);
    return *this;
  }
  std::string bytes_;
};

// A record of a TFRecord file: length and bytes, each with its checksum.
inline std::string record(const std::string& bytes) {
  const auto checksum = [](const std::string& of) {
    const std::uint32_t crc = io::crc32c(std::as_bytes(std::span(of)));
    return std::rotr(crc, 15) + 0xa282ead8u;
  };
  const std::string length = message().fixed(bytes.size(), 8).bytes();
  return message().append(length).fixed(checksum(length), 4).append(bytes).fixed(checksum(bytes), 4).bytes();
}

inline std::string scalar_event(std::string_view name, const run_log::point& point) {
  const std::string value = message().text(1, name).real(2, static_cast<float>(point.value)).bytes();
  const std::string summary = message().text(1, value).bytes();
  return message().real(1, point.seconds).number(2, point.step).text(5, summary).bytes();
}

inline void write_text(const std::string& path, const std::string& text) {
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(text))};
  io::write_file(path, pieces);
}

}  // namespace detail

MEGANEURA_INLINE void run_log::add(std::string_view name, std::uint64_t step, double value) try {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  auto found = std::ranges::find(curves_, name, &curve::name);
  if (found == curves_.end()) found = curves_.insert(found, {std::string(name), {}});
  found->points.push_back({step, value, now.count()});
} catch (...) {
  rethrow_as_error("adding a point to a log");
}

MEGANEURA_INLINE void run_log::add_speed(std::string_view name, std::uint64_t step, double count) try {
  const std::int64_t now = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  const auto found = std::ranges::find(counts_, name, &counted::name);
  if (found == counts_.end()) {
    counts_.push_back({std::string(name), count, now});
    return;
  }
  add(name, step,
      1e9 * (count - found->last) / static_cast<double>(std::max<std::int64_t>(1, now - found->nanoseconds)));
  found->last = count;
  found->nanoseconds = now;
} catch (...) {
  rethrow_as_error("adding a point to a log");
}

MEGANEURA_INLINE void run_log::save_page(const std::string& path, std::string_view title) const try {
  std::vector<std::pair<std::string_view, std::vector<const curve*>>> pictures;
  for (const curve& each : curves_) {
    const std::string_view group = std::string_view(each.name).substr(0, each.name.find('/'));
    auto found = std::ranges::find(pictures, group, [](const auto& p) { return p.first; });
    if (found == pictures.end()) found = pictures.insert(found, {group, {}});
    found->second.push_back(&each);
  }
  std::string page = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\n{1}</head><body>\n"
      "<h1>{0}</h1>\n",
      detail::html(title), detail::page_head);
  for (const auto& [group, curves] : pictures)
    page += fmt::format("<h2>{}</h2>\n{}", detail::html(group), detail::picture(curves).svg(curves));
  page += detail::page_script;
  detail::write_text(path, page + "</body></html>\n");
} catch (...) {
  rethrow_as_error("writing a page of a run");
}

MEGANEURA_INLINE void run_log::save_events(const std::string& folder) const try {
  io::check_path(folder);
  double first = std::numeric_limits<double>::infinity();
  for (const curve& each : curves_) first = std::min(first, each.points.front().seconds);
  if (curves_.empty()) first = 0;
  std::string all = detail::record(detail::message().real(1, first).text(3, "brain.Event:2").bytes());
  for (const curve& each : curves_) {
    for (const point& one : each.points) all += detail::record(detail::scalar_event(each.name, one));
  }
  std::error_code ignored;  // of what is then no folder to write into
  std::filesystem::create_directories(folder, ignored);
  detail::write_text(fmt::format("{}/events.out.tfevents.{:.0f}.meganeura", folder, std::floor(first)), all);
} catch (...) {
  rethrow_as_error("writing the events of a run");
}

MEGANEURA_INLINE std::string sparkline(std::span<const double> values, std::size_t width) try {
  std::vector<run_log::point> points;
  for (const double each : values) points.push_back({0, each, 0});
  points = detail::thinned(points, width);
  detail::value_range range;
  for (const auto& each : points) range.include(each.value);
  range.widen();
  std::string line;
  for (const auto& each : points) {
    if (!std::isfinite(each.value)) {
      line += ' ';
      continue;
    }
    const auto height = static_cast<int>(std::min(7.0, 8 * range.share(each.value)));
    line += {'\xe2', '\x96', static_cast<char>(0x81 + height)};  // U+2581 and on, lower blocks
  }
  return line;
} catch (...) {
  rethrow_as_error("drawing a line of blocks");
}

}  // namespace meganeura::inline MEGANEURA_ABI::data
