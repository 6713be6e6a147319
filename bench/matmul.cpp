// SPDX-License-Identifier: MIT
// Time of matrix products on a device, every schedule worth measuring, checked first; Eigen beside it.
#include <meganeura/core/float_format.hpp>
#include <meganeura/core/helper_threads.hpp>
#include <meganeura/fusion/product_schedules.hpp>
#include <meganeura/kernels/matmul.hpp>
#include <meganeura/kernels/matmul_cooperative.hpp>
#include <meganeura/kernels/region.hpp>
#include <meganeura/runtime/device.hpp>
#include <meganeura/runtime/measured_rates.hpp>

#include <CLI/CLI.hpp>
#include <Eigen/Core>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <random>
#include <span>
#include <thread>

namespace mn = meganeura;
namespace mk = meganeura::kernels;

namespace {

struct options {
  std::string device, json, only, against;
  std::vector<std::string> sizes, families;
  int runs = 20;
  std::uint64_t cold_bytes = 0;
  double within = std::numeric_limits<double>::infinity();
  bool in_turn = false;
  bool chosen_only = false, matrix_units = true, eigen = true;
};

struct size {
  std::uint32_t m = 0, n = 0, k = 0;
  [[nodiscard]] double flops() const { return 2.0 * m * n * k; }
  [[nodiscard]] double bytes() const { return 4.0 * (1.0 * m * k + 1.0 * n * k + 1.0 * m * n); }
  [[nodiscard]] bool has_few_rows() const { return std::min(m, n) <= mn::fusion::most_vector_rows; }
};

// How the operands lie in memory, as BLAS says it: a [m, k] (n) or [k, m] (t), b [k, n] (n) or [n, k] (t), as a linear
// layer keeps its weight. tn is the gradient of a weight, whose sum runs over the batch.
struct layout {
  bool plain_a = false, plain_b = false;
  [[nodiscard]] std::string name() const { return std::string(plain_a ? "t" : "n") + (plain_b ? "n" : "t"); }
  [[nodiscard]] std::size_t at_a(const size& s, std::size_t m, std::size_t k) const {
    return plain_a ? k * s.m + m : m * s.k + k;
  }
  [[nodiscard]] std::size_t at_b(const size& s, std::size_t n, std::size_t k) const {
    return plain_b ? k * s.n + n : n * s.k + k;
  }
};

struct shape {
  size s;
  layout l;
};

shape parse(const std::string& text) {
  shape made;
  char a = 'n', b = 't', rest = 0;
  size& s = made.s;
  int read = std::sscanf(text.c_str(), "%ux%ux%u:%c%c%c", &s.m, &s.n, &s.k, &a, &b, &rest);
  if (read == 1) {
    read = std::sscanf(text.c_str(), "%u:%c%c%c", &s.m, &a, &b, &rest) + 2;
    s.n = s.k = s.m;
  }
  if (read != 3 && read != 5) s = {};
  made.l = {a == 't', b == 'n'};
  if (s.m != 0 && s.n != 0 && s.k != 0 && (a == 't' || a == 'n') && (b == 't' || b == 'n')) return made;
  throw mn::error(mn::error_category::invalid_argument,
                  "a size is written 512, 64x128x784 (m x n x k) or 64x128x784:tn (nt, nn, tn, tt: how a and b lie), "
                  "not '" +
                      text + "'");
}

mk::matmul_problem problem_of(const size& s, const layout& l) {
  mk::matmul_problem p;
  p.m = {{s.m, l.plain_a ? 1 : s.k, 0, s.n}};
  p.n = {{s.n, 0, l.plain_b ? 1 : s.k, 1}};
  p.k = {{s.k, l.plain_a ? s.m : 1, l.plain_b ? s.n : 1, 0}};
  return p;
}

struct operands {
  std::vector<float> a, b;  // what is multiplied, exactly f16 where f16 buffers are used too
  std::vector<std::uint16_t> half_a, half_b;
};

operands random_operands(const size& s) {
  operands made;
  std::mt19937 generator(7);
  std::normal_distribution<float> normal;
  made.a.resize(std::size_t{s.m} * s.k);
  made.b.resize(std::size_t{s.n} * s.k);
  for (auto* values : {&made.a, &made.b}) {
    auto& half = values == &made.a ? made.half_a : made.half_b;
    for (float& each : *values) {
      each = normal(generator);
      half.push_back(static_cast<std::uint16_t>(mn::float_format(mn::dtype::f16).encode(each)));
    }
  }
  return made;
}

float from_half(std::uint16_t bits) {
  const float magnitude = static_cast<float>(bits & 0x3ffu) + ((bits & 0x7c00u) != 0 ? 1024.0f : 0.0f);
  const int exponent = std::max((bits >> 10) & 31, 1) - 25;
  return std::ldexp((bits & 0x8000u) != 0 ? -magnitude : magnitude, exponent);
}

struct variant {
  std::string label, family;  // family: of schedules that compute the same thing, of which the library chooses one
  mk::kernel_dispatch made;
  bool half = false;
};

bool is_asked(const options& o, const std::string& family) {
  return o.families.empty() || std::ranges::find(o.families, family) != o.families.end();
}

// What a product of one row was before it had a kernel of its own: sums along the rows of a region.
variant as_region(const size& s, const layout& l, const mn::device_profile& device) {
  const std::int64_t n = s.n, k = s.k;
  const mn::dtype types[] = {mn::dtype::f32, mn::dtype::f32};
  mn::scalar_builder builder;
  const auto product =
      builder.binary(mn::scalar_op::multiply, builder.argument(0, types[0]), builder.argument(1, types[1]));
  mn::region_attribute region{.space = {n, k},
                              .row_axes = 1,
                              .per_row = true,
                              .program = builder.finish(builder.unary(mn::scalar_op::row_sum, product)),
                              .accesses = std::vector<mn::index_map>(2),
                              .output = {}};
  region.accesses[0].source = 0, region.accesses[1].source = 1;
  region.accesses[0].strides[1] = 1;
  region.accesses[1].strides[0] = l.plain_b ? 1 : k, region.accesses[1].strides[1] = l.plain_b ? n : 1;
  region.output.strides[0] = 1;
  return {"rows of a region", "region", mk::make_region(region, types, std::span(types, 1), device)};
}

std::vector<variant> variants(const options& o, const mn::device_profile& device, const mk::matmul_problem& p) {
  std::vector<variant> all;
  for (const auto& s : mk::matmul_candidates(device, p)) {
    all.push_back({s.label(), "f32", mk::make_matmul(p, s, device)});
    if (o.chosen_only) break;
  }
  using kind = mn::product_arithmetic;
  for (const kind arithmetic : {kind::split, kind::rounded, kind::half}) {
    if (!o.matrix_units) break;
    const std::string family = mn::to_string(mn::product_schedule{arithmetic});
    std::vector<mn::product_schedule> schedules =
        mn::fusion::product_schedules(arithmetic, static_cast<std::int64_t>(mk::extent_of(p.k)), device);
    const auto extent = [](const auto& group) { return static_cast<std::int64_t>(mk::extent_of(group)); };
    const mn::fusion::product_extents size{extent(p.batch), extent(p.m), extent(p.n), extent(p.k)};
    const auto seconds = [&](const mn::product_schedule& s) { return mn::fusion::unit_time(s, size, device).alone; };
    std::ranges::stable_sort(schedules, {}, seconds);
    for (const mn::product_schedule& schedule : schedules) {
      if (!mk::cooperative_fits(p, schedule, device)) continue;
      if (seconds(schedule) > o.within * seconds(schedules.front())) break;
      all.push_back({mn::to_string(schedule), family, mk::make_cooperative_matmul(p, schedule, device),
                     arithmetic == kind::half});
      if (o.chosen_only) break;
    }
  }
  std::erase_if(all, [&](const variant& v) { return !is_asked(o, v.family); });
  if (!o.only.empty()) std::erase_if(all, [&](const variant& v) { return v.label.find(o.only) == std::string::npos; });
  return all;
}

// Frobenius norm of the error over that of the result, on a sample of entries; NaN left in the result shows as
// infinity.
double error_of(const std::vector<float>& found, const operands& in, const size& s, bool half, const layout& l) {
  std::mt19937 generator(11);
  double error = 0;
  double norm = 0;
  for (int i = 0; i < 400; ++i) {
    const std::size_t m = i == 0 ? s.m - 1 : generator() % s.m;
    const std::size_t n = i == 0 ? s.n - 1 : generator() % s.n;
    double sum = 0;
    for (std::size_t k = 0; k < s.k; ++k) {
      const std::size_t at_a = l.at_a(s, m, k);
      const std::size_t at_b = l.at_b(s, n, k);
      const float a = half ? from_half(in.half_a[at_a]) : in.a[at_a];
      const float b = half ? from_half(in.half_b[at_b]) : in.b[at_b];
      sum += static_cast<double>(a) * static_cast<double>(b);
    }
    const double difference = static_cast<double>(found[m * s.n + n]) - sum;
    error += difference * difference;
    norm += sum * sum;
  }
  if (std::ranges::any_of(found, [](float x) { return std::isnan(x); })) return std::numeric_limits<double>::infinity();
  return std::sqrt(error / norm);
}

nlohmann::json summary(std::vector<double> milliseconds, const size& s) {
  std::ranges::sort(milliseconds);
  const double median = milliseconds[milliseconds.size() / 2];
  return {{"min_ms", milliseconds.front()},      {"median_ms", median},
          {"max_ms", milliseconds.back()},       {"runs", milliseconds.size()},
          {"tflops", s.flops() / median * 1e-9}, {"gb_per_s", s.bytes() / median * 1e-6}};
}

// A GPU lowers its clocks within milliseconds of idling, five-fold on some, and takes long to raise them again. So the
// host's work is done before anything is timed, and what is timed stands in the queue behind this load. A CPU driver
// needs none of it.
class warm_up {
 public:
  explicit warm_up(const mn::device& gpu) : gpu_(gpu) {
    if (gpu.facts().type == mn::vulkan::device_type::cpu) return;
    constexpr std::uint32_t side = 2048;
    const mk::matmul_problem p = problem_of({side, side, side}, {});
    const mn::device_profile device = mn::profile_of(gpu);
    const mk::kernel_dispatch made = mk::make_matmul(p, mk::choose_matmul(device, p), device);
    const mn::vulkan::pipeline pipeline = gpu.create_pipeline(made.module);
    const mn::vulkan::buffer in = gpu.allocate(side * side * 4);
    const mn::vulkan::buffer out = gpu.allocate(side * side * 4);
    mn::vulkan::recorder r(gpu);
    r.fill({in}, 0x3f800000u);
    for (int i = 0; i < 10; ++i) {
      r.barrier();
      r.dispatch(pipeline, {{in}, {in}, {out}}, made.groups);
    }
    load_ = r.finish();
    calibrate();
  }

  /// Submits at least a quarter of a second of work and returns while it runs.
  void start() const {
    if (!load_) return;
    for (double submitted = 0; submitted < 0.25; submitted += fastest_) gpu_.submit(load_);
  }

 private:
  // Half a second of it, so that the fastest one ran at full clocks.
  void calibrate() {
    for (double passed = 0; passed < 0.5;) {
      const auto start = std::chrono::steady_clock::now();
      gpu_.wait(gpu_.submit(load_));
      const std::chrono::duration<double> each = std::chrono::steady_clock::now() - start;
      fastest_ = std::min(fastest_, each.count());
      passed += each.count();
    }
  }

  const mn::device& gpu_;
  mn::vulkan::recording load_;
  double fastest_ = 1;  // seconds a submission
};

// b lies in memory several times: weights come from memory and not from caches.
struct bound_operands {
  mn::vulkan::buffer a, b, half_a, half_b, out;
  std::uint64_t b_bytes = 0, copies = 1;
  [[nodiscard]] std::vector<mn::vulkan::buffer_range> of(const variant& v, std::uint64_t run) const {
    const std::uint64_t bytes = v.half ? b_bytes / 2 : b_bytes;
    return {{v.half ? half_a : a}, {v.half ? half_b : b, run % copies * bytes, bytes}, {out}};
  }
};

template <class T>
mn::vulkan::buffer uploaded(const mn::device& gpu, const std::vector<T>& values) {
  const mn::vulkan::buffer made = gpu.allocate((values.size() * sizeof(T) + 15) / 16 * 16);
  gpu.upload(made, 0, values);
  return made;
}

// The copies of b are read in turn from number `next` on, whatever read the ones before.
mn::vulkan::recording record(const mn::device& gpu, const mn::vulkan::pipeline& pipeline, const variant& v,
                             const bound_operands& memory, int runs, std::uint64_t& next) {
  mn::vulkan::recorder r(gpu, {.duration = true});
  for (int i = 0; i < runs; ++i) {
    r.dispatch(pipeline, memory.of(v, next++), v.made.groups, v.label);
    r.barrier();
  }
  return r.finish();
}

template <class T>
std::vector<T> repeated(const std::vector<T>& values, std::uint64_t times) {
  std::vector<T> all;
  all.reserve(values.size() * times);
  for (; times > 0; --times) all.insert(all.end(), values.begin(), values.end());
  return all;
}

struct checked_variant {
  variant of;
  mn::vulkan::pipeline pipeline;
  nlohmann::json row;
};

checked_variant checked(const mn::device& gpu, const variant& v, const mn::vulkan::pipeline& pipeline,
                        const operands& in, const bound_operands& memory, const size& s, const layout& l) {
  checked_variant result{
      v, pipeline, {{"schedule", v.label}, {"family", v.family}, {"operands", v.half ? "f16" : "f32"}}};
  mn::vulkan::recorder poison(gpu);
  poison.fill({memory.out}, std::bit_cast<std::uint32_t>(std::numeric_limits<float>::quiet_NaN()));
  gpu.submit(poison.finish());
  std::uint64_t first = 0;
  gpu.submit(record(gpu, result.pipeline, v, memory, 1, first));
  const std::size_t results = std::size_t{s.m} * s.n;
  auto ticket = gpu.read_back(memory.out, 0, results * 4);
  std::vector<float> found(results);
  std::memcpy(found.data(), ticket.data().data(), results * 4);
  result.row["error"] = error_of(found, in, s, v.half, l);
  return result;
}

// Every schedule in turn, several times over, all of it in the queue before the first one starts. A time is that of a
// dispatch and its barrier in a chain of them.
void time_all(const options& o, const mn::device& gpu, const warm_up& load, std::vector<checked_variant>& all,
              const bound_operands& memory, const size& s) {
  constexpr int rounds = 5;
  const int runs = (o.runs + rounds - 1) / rounds;
  std::vector<mn::vulkan::recording> recorded;
  std::uint64_t next = 0;
  for (int round = 0; round < rounds; ++round) {
    for (const checked_variant& each : all) recorded.push_back(record(gpu, each.pipeline, each.of, memory, runs, next));
  }
  load.start();
  for (const auto& each : recorded) gpu.submit(each);
  gpu.wait_idle();
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<double> milliseconds;
    for (std::size_t at = i; at < recorded.size(); at += all.size()) {
      milliseconds.push_back(recorded[at].duration() * 1e-6 / runs);
    }
    all[i].row.update(summary(milliseconds, s));
  }
}

nlohmann::json eigen_row(const operands& in, const size& s, const layout& l) {
  using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto map = [](const std::vector<float>& values, std::uint32_t outer, std::uint32_t inner) {
    return Eigen::Map<const matrix>(values.data(), outer, inner);
  };
  const auto a = l.plain_a ? map(in.a, s.k, s.m) : map(in.a, s.m, s.k);
  const auto b = l.plain_b ? map(in.b, s.k, s.n) : map(in.b, s.n, s.k);
  matrix out(s.m, s.n);
  std::vector<double> milliseconds;
  for (int i = 0; i < 11; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (l.plain_a && l.plain_b)
      out.noalias() = a.transpose() * b;
    else if (l.plain_a)
      out.noalias() = a.transpose() * b.transpose();
    else if (l.plain_b)
      out.noalias() = a * b;
    else
      out.noalias() = a * b.transpose();
    milliseconds.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  nlohmann::json row = summary(milliseconds, s);
  row["schedule"] = std::string("Eigen, one core, ") + Eigen::SimdInstructionSetsInUse();
  row["family"] = "Eigen";
  row["operands"] = "f32";
  row["error"] = error_of({out.data(), out.data() + out.size()}, in, s, false, l);
  return row;
}

// Per family the schedule that the library chooses, which is the first, and the fastest one.
nlohmann::json chosen_and_best(const nlohmann::json& rows) {
  nlohmann::json families = nlohmann::json::object();
  for (const auto& row : rows) {
    auto& entry = families[row["family"].get<std::string>()];
    const nlohmann::json figure{{"schedule", row["schedule"]},
                                {"median_ms", row["median_ms"]},
                                {"tflops", row["tflops"]},
                                {"gb_per_s", row["gb_per_s"]}};
    if (!entry.contains("chosen")) entry["chosen"] = entry["best"] = figure;
    if (row["median_ms"] < entry["best"]["median_ms"]) entry["best"] = figure;
  }
  return families;
}

// "41.9 TFLOP/s", "0.94 TFLOP/s" and, for software devices, "34.1 GFLOP/s"; of few rows the bytes, which decide there.
std::string rate(const size& s, const nlohmann::json& row) {
  if (s.has_few_rows()) return fmt::format("{:.1f} GB/s", row["gb_per_s"].get<double>());
  const double tflops = row["tflops"];
  return tflops < 0.5 ? fmt::format("{:.1f} GFLOP/s", 1000 * tflops) : fmt::format("{:.3g} TFLOP/s", tflops);
}

void print(const size& s, const layout& l, const nlohmann::json& rows, const nlohmann::json& families) {
  for (const auto& row : rows) {
    fmt::print(stderr, "{:>4} x {:>4} x {:>4} {}  {:<44} {:>9.4f} {:>9.4f} {:>9.4f} ms {:>15}  error {:.1e}\n", s.m,
               s.n, s.k, l.name(), row["schedule"].get<std::string>(), row["min_ms"].get<double>(),
               row["median_ms"].get<double>(), row["max_ms"].get<double>(), rate(s, row), row["error"].get<double>());
  }
  for (const auto& [family, entry] : families.items()) {
    if (family == "Eigen") continue;
    fmt::print(stderr, "{:>4} x {:>4} x {:>4} {}  {}: chosen '{}' {}, best '{}' {}\n", s.m, s.n, s.k, l.name(), family,
               entry["chosen"]["schedule"].get<std::string>(), rate(s, entry["chosen"]),
               entry["best"]["schedule"].get<std::string>(), rate(s, entry["best"]));
  }
}

// Dispatches of all sizes in turn, as in a step: what one reads and runs is not where the one before left its own. The
// first schedule of each size, then the second, and so on. Each runs alone between timestamps, which take some two
// microseconds themselves.
class in_turn {
 public:
  void add(const std::vector<checked_variant>& schedules, const bound_operands& memory) {
    for (std::size_t i = 0; i < schedules.size(); ++i) all_.push_back({sizes_, i, schedules[i], memory});
    ++sizes_;
  }
  void time(const mn::device& gpu, const warm_up& load, nlohmann::json& sizes) {
    constexpr int rounds = 7;
    std::ranges::stable_sort(all_, {}, &entry::schedule);
    mn::vulkan::recorder r(gpu, {.timestamps = true});
    for (std::uint64_t round = 0; round < rounds; ++round) {
      for (const entry& each : all_) {
        r.dispatch(each.of.pipeline, each.memory.of(each.of.of, next_++), each.of.of.made.groups);
        r.barrier();
      }
    }
    const mn::vulkan::recording recorded = r.finish();
    load.start();
    gpu.submit(recorded);
    const std::vector<mn::vulkan::timing> found = recorded.timings();
    for (std::size_t i = 0; i < all_.size(); ++i) {
      std::vector<double> milliseconds;
      for (std::size_t at = i; at < found.size(); at += all_.size())
        milliseconds.push_back(found[at].nanoseconds * 1e-6);
      std::ranges::sort(milliseconds);
      sizes[all_[i].size]["rows"][all_[i].schedule]["in_turn_ms"] = milliseconds[rounds / 2];
    }
  }

 private:
  struct entry {
    std::size_t size, schedule;
    checked_variant of;
    bound_operands memory;
  };
  std::vector<entry> all_;
  std::size_t sizes_ = 0;
  std::uint64_t next_ = 0;
};

// Of each size the schedules in turn: the chosen, which comes first, and the three quickest of each family.
void print_in_turn(const nlohmann::json& sizes) {
  for (const auto& each : sizes) {
    std::map<std::string, std::vector<nlohmann::json>> families;
    for (const auto& row : each["rows"]) {
      if (row.contains("in_turn_ms")) families[row["family"]].push_back(row);
    }
    for (auto& [family, rows] : families) {
      rows.front()["schedule"] = rows.front()["schedule"].get<std::string>() + " (chosen)";
      std::stable_sort(rows.begin() + 1, rows.end(),
                       [](const auto& x, const auto& y) { return x["in_turn_ms"] < y["in_turn_ms"]; });
      for (std::size_t i = 0; i < std::min<std::size_t>(rows.size(), 4); ++i) {
        fmt::print(stderr, "in turn {}x{}x{} {} {:<8} {:<60} {:>8.2f} us\n", each["m"].get<int>(), each["n"].get<int>(),
                   each["k"].get<int>(), each["operands"].get<std::string>(), family,
                   rows[i]["schedule"].get<std::string>(), 1e3 * rows[i]["in_turn_ms"].get<double>());
      }
    }
  }
}

nlohmann::json read_pytorch(const std::string& file) {
  const nlohmann::json found = nlohmann::json::parse(std::ifstream(file), nullptr, false);
  if (!found.is_object() || !found.contains("framework") || !found.contains("device") || !found.contains("sizes")) {
    mn::fail(mn::error_category::invalid_file,
             R"({} has no "framework", "device" and "sizes", as bench/matmul_pytorch.py writes them)", file);
  }
  return found;
}

// What bench/matmul_pytorch.py found of the same sizes, into each of them, and both side by side.
void set_beside(const nlohmann::json& theirs, nlohmann::json& sizes) {
  fmt::print(stderr, "\nus in a chain (error), ours | {}, {}\n", theirs.at("framework").get<std::string>(),
             theirs.at("device").get<std::string>());
  for (auto& each : sizes) {
    const auto is_same = [&](const nlohmann::json& other) {
      return std::ranges::all_of(std::array{"m", "n", "k", "operands"},
                                 [&](const char* key) { return other.at(key) == each.at(key); });
    };
    const auto found = std::ranges::find_if(theirs.at("sizes"), is_same);
    if (found == theirs.at("sizes").end()) continue;
    each["pytorch"] = found->at("rows");
    const auto line = [](const nlohmann::json& rows, auto&& is_asked) {
      std::string text;
      for (const auto& row : rows) {
        if (!is_asked(row)) continue;
        text += fmt::format("  {} {:.1f} ({:.1e})", row.at("family").get<std::string>(),
                            1e3 * row.at("median_ms").get<double>(), row.at("error").get<double>());
      }
      return text;
    };
    const auto is_chosen = [&](const nlohmann::json& row) {
      return row["family"] != "Eigen" &&
             row["schedule"] == each["summary"][row["family"].get<std::string>()]["chosen"]["schedule"];
    };
    fmt::print(stderr, "{} x {} x {} {}{}  |{}\n", each["m"].get<int>(), each["n"].get<int>(), each["k"].get<int>(),
               each["operands"].get<std::string>(), line(each["rows"], is_chosen),
               line(each["pytorch"], [](const nlohmann::json&) { return true; }));
  }
}

nlohmann::json measure(const options& o, const mn::device& gpu, const warm_up& load, const size& s, const layout& l,
                       in_turn& later) {
  const operands in = random_operands(s);
  const std::uint64_t bytes = in.b.size() * 4;
  const std::uint64_t copies = bytes % 512 == 0 ? std::max<std::uint64_t>(mn::ceil_div(o.cold_bytes, bytes), 1) : 1;
  const bound_operands memory{uploaded(gpu, in.a),
                              uploaded(gpu, repeated(in.b, copies)),
                              uploaded(gpu, in.half_a),
                              uploaded(gpu, repeated(in.half_b, copies)),
                              gpu.allocate((std::uint64_t{s.m} * s.n * 4 + 15) / 16 * 16),
                              bytes,
                              copies};
  const mn::device_profile device = mn::profile_of(gpu);
  std::vector<variant> asked = variants(o, device, problem_of(s, l));
  if (s.m == 1 && is_asked(o, "region")) asked.push_back(as_region(s, l, device));
  std::vector<mn::vulkan::pipeline> pipelines(asked.size());
  mn::detail::run_in_parallel(asked.size(), std::thread::hardware_concurrency(),
                              [&](std::size_t i) { pipelines[i] = gpu.create_pipeline(asked[i].made.module); });
  load.start();
  std::vector<checked_variant> all;
  for (std::size_t i = 0; i < asked.size(); ++i) all.push_back(checked(gpu, asked[i], pipelines[i], in, memory, s, l));
  time_all(o, gpu, load, all, memory, s);
  later.add(all, memory);
  nlohmann::json rows = nlohmann::json::array();
  for (const checked_variant& each : all) rows.push_back(each.row);
  if (o.eigen && s.flops() < 3e9) rows.push_back(eigen_row(in, s, l));
  const nlohmann::json families = chosen_and_best(rows);
  print(s, l, rows, families);
  return {{"m", s.m}, {"n", s.n}, {"k", s.k}, {"operands", l.name()}, {"rows", rows}, {"summary", families}};
}

nlohmann::json run(const options& o) {
  const mn::device gpu({.device = o.device});
  nlohmann::json report{{"device", gpu.facts().name}, {"driver", gpu.facts().driver}, {"dtype", "f32 results"}};
  fmt::print(stderr, "{} / {}\n", gpu.facts().name, gpu.facts().driver);
  nlohmann::json theirs;
  if (!o.against.empty()) theirs = read_pytorch(o.against);
  std::vector<shape> shapes;
  for (const std::string& text : o.sizes) shapes.push_back(parse(text));
  const warm_up load(gpu);
  in_turn all;
  for (const shape& each : shapes) report["sizes"].push_back(measure(o, gpu, load, each.s, each.l, all));
  if (o.in_turn) {
    all.time(gpu, load, report["sizes"]);
    print_in_turn(report["sizes"]);
  }
  if (!o.against.empty()) set_beside(theirs, report["sizes"]);
  return report;
}

}  // namespace

int main(int argc, char** argv) {
  options o;
  bool no_units = false;
  bool no_eigen = false;
  CLI::App app("Matrix products: min / median / max time by device timestamps and rate, per size and schedule.");
  app.add_option("--device", o.device, "part of the device's name, or its index");
  app.add_option("--json", o.json, "file to write, or - for standard output")->expected(0, 1)->default_str("-");
  app.add_option("--sizes", o.sizes, "e.g. 512 64x128x784 (m x n x k) 64x128x784:tn (how a and b lie: nt, nn, tn, tt)")
      ->default_val(std::vector<std::string>{"64x128x784", "128x576x1536", "256", "512"});
  app.add_option("--runs", o.runs, "timed repeats, at least 10")->check(CLI::Range(10, 1000));
  app.add_option("--families", o.families, "of f32, split, rounded, half, region: only these")->delimiter(',');
  app.add_option("--only", o.only, "schedules whose label contains this");
  app.add_flag("--chosen", o.chosen_only, "only the schedule the library would choose");
  app.add_option("--against", o.against, "what bench/matmul_pytorch.py wrote, to be printed beside")
      ->check(CLI::ExistingFile);
  app.add_option("--cold", o.cold_bytes, "bytes over which copies of b are read in turn, beyond what caches hold");
  app.add_option("--within", o.within, "only schedules that the model has within so many times its least seconds");
  app.add_flag("--in-turn", o.in_turn, "in the end all sizes and schedules in turn, as in a step");
  app.add_flag("--no-matrix-units", no_units, "leave out cooperative matrices");
  app.add_flag("--no-eigen", no_eigen, "leave out Eigen");
  CLI11_PARSE(app, argc, argv);
  o.matrix_units = !no_units;
  o.eigen = !no_eigen;
  try {
    const nlohmann::json report = run(o);
    const bool wanted = app.count("--json") > 0;
    if (wanted && (o.json.empty() || o.json == "-"))
      std::cout << report.dump(2) << '\n';
    else if (wanted)
      std::ofstream(o.json) << report.dump(2) << '\n';
  } catch (const std::exception& failure) {
    fmt::print(stderr, "{}\n", failure.what());
    return 1;
  }
  return 0;
}
