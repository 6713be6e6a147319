// SPDX-License-Identifier: MIT
// Definitions for runtime/measured_rates.hpp.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/core/stopwatch.hpp>
#include <meganeura/fusion/product_schedules.hpp>
#include <meganeura/graph/graph.hpp>
#include <meganeura/kernels/generate.hpp>
#include <meganeura/kernels/matrix_rows.hpp>
#include <meganeura/runtime/measured_file.hpp>
#include <meganeura/runtime/measured_rates.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// Of what is measured, of the model that tells rates by it, and of the file: raised where one of them changes, so that
// everybody measures anew. So does another version of the library.
inline constexpr int rates_version = 2;

// Each rate is at least and at most this, whatever was measured.
struct rate_bounds {
  double least, most;
};
inline constexpr rate_bounds bytes_a_second{1e8, 1e15}, operations_a_second{1e7, 1e18}, seconds_of_launch{1e-8, 1e-2};

// Measurements differ by a few per cent, which must not change a plan.
[[nodiscard]] inline double on_grid(double value, const rate_bounds& bounds) {
  constexpr double steps = 4;  // of a doubling
  return std::exp2(std::round(steps * std::log2(std::clamp(value, bounds.least, bounds.most))) / steps);
}

// One kernel of a graph that has one, with buffers of its own.
struct measured_kernel {
  vulkan::pipeline pipeline;
  std::array<std::uint32_t, 3> groups{};
  std::vector<vulkan::buffer> operands;
  vulkan::buffer result;

  void dispatch(vulkan::recorder& into) const {
    std::vector<vulkan::buffer_range> bound;
    for (const vulkan::buffer& each : operands) bound.push_back({each, 0, 0});
    bound.push_back({result, 0, 0});
    into.dispatch(pipeline, bound, groups);
  }
};

class rate_meter {
 public:
  rate_meter(const device& on, bool by_timestamps)
      : on_(on), by_timestamps_(by_timestamps), estimate_(make_device_profile(on.facts())) {
    if (by_timestamps_) return;
    std::vector<double> all;
    const vulkan::buffer any = on_.allocate(16);
    vulkan::recorder r(on_);
    r.fill({any}, 0);
    const vulkan::recording nothing = r.finish();
    for (int i = 0; i < 8; ++i) all.push_back(run(nothing));
    std::ranges::sort(all);
    submission_ = all[all.size() / 2];
  }

  [[nodiscard]] device_rates rates() const {
    device_rates found;
    wake();
    found.matmul_flops = on_grid(product_rate(product_arithmetic::fma, estimate_.matmul_flops), operations_a_second);
    if (estimate_.matrix_units == matrix_units::cooperative) {
      const double rate = product_rate(product_arithmetic::rounded, estimate_.matrix_flops);
      if (rate > 0) found.matrix_flops = on_grid(rate, operations_a_second);
    }
    found.bandwidth = on_grid(bandwidth(), bytes_a_second);
    found.scalar_flops = on_grid(scalar_flops(), operations_a_second);
    const launch_time launch = launches();
    found.launch = {on_grid(launch.group, seconds_of_launch), on_grid(launch.dispatch, seconds_of_launch)};
    return found;
  }

 private:
  // Seconds of one submission.
  [[nodiscard]] double run(const vulkan::recording& commands) const {
    stopwatch watch;
    on_.wait(on_.submit(commands));
    return by_timestamps_ ? commands.duration() * 1e-9 : watch.lap() * 1e-3 - submission_;
  }

  // Seconds of one of the repetitions that `record` puts into a recorder: so many that a clock tells their time, the
  // median of five submissions, of fewer on a slow device.
  template <class Record>
  [[nodiscard]] double seconds_each(int first, const Record& record) const {
    constexpr double enough = 0.3e-3, bearable = 20e-3;
    constexpr int most = 2048;
    const double wanted = std::max(enough, 10 * submission_);
    for (int count = first;;) {
      vulkan::recorder r(on_, {.duration = by_timestamps_});
      for (int i = 0; i < count; ++i) record(r, i);
      const vulkan::recording commands = r.finish();
      (void)run(commands);  // what memory and drivers do when first used
      const double seconds = run(commands);
      if (seconds < wanted && count < most) {
        const double times = seconds > 0 ? std::ceil(1.2 * wanted / seconds) : 16;
        count = static_cast<int>(std::min(count * std::clamp(times, 2.0, 16.0), static_cast<double>(most)));
        continue;
      }
      std::vector<double> all{seconds};
      for (double spent = seconds; all.size() < 5 && spent < bearable; spent += all.back())
        all.push_back(run(commands));
      std::ranges::sort(all);
      const double median = all[all.size() / 2];
      if (!(median > submission_) || !std::isfinite(median)) {
        fail(error_category::unsupported, "{} repetitions of a kernel took {} by {}, which is too little to be told",
             count, shown(median), by_timestamps_ ? "the device's clock" : "the host's clock beside a submission");
      }
      return median / count;
    }
  }
  [[nodiscard]] static std::string shown(double seconds) { return fmt::format("{} ms", seconds * 1e3); }

  // The kernel of the graph's last node, operands all 0.5: products stay finite, and nothing is a denormal.
  [[nodiscard]] measured_kernel make(const graph& g) const {
    const node_id last(g.size() - 1);
    const kernels::kernel_dispatch made = kernels::generate(g, last, estimate_);
    measured_kernel kernel{on_.create_pipeline(made.module), made.groups, {}, buffer_of(g[last])};
    vulkan::recorder fill(on_);
    for (const node_id operand : g.operands(last)) {
      kernel.operands.push_back(buffer_of(g[operand]));
      fill.fill({kernel.operands.back()}, 0x3f000000u);
    }
    on_.submit(fill.finish());
    return kernel;
  }
  [[nodiscard]] vulkan::buffer buffer_of(const node& n) const {
    return on_.allocate(static_cast<std::uint64_t>(n.extents.bytes(n.type)));
  }

  // Seconds of a kernel of one of these sizes, the largest that takes no longer than a millisecond by what smaller ones
  // took once: large ones fill a device, and slow ones need no more. The first is one that would take a tenth of that
  // at the rate estimated, so that few have to be compiled. `work` says how much a size is.
  struct measured_size {
    std::int64_t size;
    double seconds;
  };
  template <class Work, class Make>
  [[nodiscard]] measured_size measure(std::span<const std::int64_t> sizes, double estimated, const Work& work,
                                      const Make& kernel) const {
    constexpr double bearable = 1e-3, least = 1e-6;
    std::int64_t size = sizes.front();
    for (const std::int64_t each : sizes) {
      if (work(each) <= estimated * bearable / 10) size = each;
    }
    for (bool is_first = true;; is_first = false) {
      const measured_kernel made = make(kernel(size));
      const auto record = [&](vulkan::recorder& r, int) {
        made.dispatch(r);
        r.barrier();
      };
      vulkan::recorder r(on_, {.duration = by_timestamps_});
      record(r, 0);
      const vulkan::recording once = r.finish();
      (void)run(once);
      const double seconds = std::max({run(once), submission_, least});
      std::int64_t next = is_first && seconds > bearable ? sizes.front() : size;  // far slower than was estimated
      for (const std::int64_t each : sizes) {
        if (each > next && seconds * work(each) / work(size) <= bearable) next = each;
      }
      if (next == size) return {size, seconds_each(1, record)};
      size = next;
    }
  }

  [[nodiscard]] static graph pointwise(const scalar_program& program, std::size_t operands, std::int64_t elements) {
    graph g;
    region_attribute region{
        .space = {elements}, .program = program, .accesses = std::vector<index_map>(operands), .output = {}};
    std::vector<node_id> read;
    for (std::size_t i = 0; i < operands; ++i) {
      region.accesses[i].source = static_cast<int>(i);
      region.accesses[i].strides[0] = 1;
      read.push_back(g.input(fmt::format("x{}", i), dtype::f32, {elements}));
    }
    region.output.strides[0] = 1;
    g.add_node(op::region, dtype::f32, region.space, region, read);
    return g;
  }

  // Two tensors added: three of 64 MiB are more than caches hold.
  [[nodiscard]] double bandwidth() const {
    constexpr std::int64_t sizes[] = {1 << 18, 1 << 20, 1 << 22, 1 << 24};
    scalar_builder b;
    const scalar_program sum = b.finish(b.binary(scalar_op::add, b.argument(0, dtype::f32), b.argument(1, dtype::f32)));
    const auto bytes = [](std::int64_t size) { return 12 * static_cast<double>(size); };
    const auto [size, seconds] =
        measure(sizes, estimate_.bandwidth, bytes, [&](std::int64_t each) { return pointwise(sum, 2, each); });
    return bytes(size) / seconds;
  }

  // y = y x + x again and again: a chain, as most programs are.
  [[nodiscard]] double scalar_flops() const {
    constexpr std::int64_t sizes[] = {1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22};
    constexpr int steps = 128;
    scalar_builder b;
    const scalar_ref x = b.argument(0, dtype::f32);
    scalar_ref y = x;
    for (int i = 0; i < steps; ++i) y = b.binary(scalar_op::add, b.binary(scalar_op::multiply, y, x), x);
    const scalar_program chain = b.finish(y);
    const auto flops = [](std::int64_t size) { return 2.0 * steps * static_cast<double>(size); };
    const auto [size, seconds] =
        measure(sizes, estimate_.scalar_flops, flops, [&](std::int64_t each) { return pointwise(chain, 1, each); });
    return flops(size) / seconds;
  }

  [[nodiscard]] static fusion::product_extents square(std::int64_t side) { return {1, side, side, side}; }

  [[nodiscard]] std::optional<product_schedule> schedule_of(std::int64_t side, product_arithmetic arithmetic) const {
    if (arithmetic == product_arithmetic::fma) return product_schedule{};
    const std::vector<product_schedule> all = fusion::product_schedules(arithmetic, side, estimate_);
    const auto seconds = [&](const product_schedule& s) { return fusion::unit_time(s, square(side), estimate_).alone; };
    const auto best = std::ranges::min_element(all, {}, seconds);
    return best == all.end() ? std::nullopt : std::optional(*best);
  }

  [[nodiscard]] graph product(std::int64_t side, const product_schedule& schedule) const {
    graph g;
    scalar_builder b;
    matmul_attribute node;
    node.space = {side, side, side};
    node.m_axes = node.n_axes = node.k_axes = 1;
    node.b.source = 1;
    node.a.strides[0] = side, node.a.strides[2] = 1;
    node.b.strides[2] = side, node.b.strides[1] = 1;
    node.output.strides[0] = side, node.output.strides[1] = 1;
    node.finish.program = b.finish(b.argument(0, dtype::f32));
    node.schedule = schedule;
    const shape square_shape{side, side};
    const node_id operands[] = {g.input("a", dtype::f32, square_shape), g.input("b", dtype::f32, square_shape)};
    g.add_node(op::matmul, dtype::f32, square_shape, node, operands);
    return g;
  }

  // The one by which the model of costs tells the time that a product takes; `estimated` is the one it has now. 0 where
  // there is no such kernel.
  [[nodiscard]] double product_rate(product_arithmetic arithmetic, double estimated) const {
    constexpr std::int64_t sides[] = {128, 256, 512, 1024, 2048};
    for (const std::int64_t side : sides) {
      if (!schedule_of(side, arithmetic)) return 0;
    }
    const auto flops = [](std::int64_t side) { return 2.0 * std::pow(static_cast<double>(side), 3); };
    const auto [side, seconds] = measure(
        sides, estimated, flops, [&](std::int64_t each) { return product(each, *schedule_of(each, arithmetic)); });
    const double told = arithmetic == product_arithmetic::fma
                            ? fusion::multiply_add_time(square(side), estimate_).alone
                            : fusion::unit_time(*schedule_of(side, arithmetic), square(side), estimate_).alone;
    return estimated * told / seconds;
  }

  // Kernels of a few elements: each after the one before it, and side by side. What is between two of a chain besides
  // the launch belongs to the barrier and to the region in the proportion that the estimate has.
  [[nodiscard]] launch_time launches() const {
    constexpr std::int64_t elements = 64;
    constexpr std::size_t places = 64;
    scalar_builder b;
    const measured_kernel tiny =
        make(pointwise(b.finish(b.unary(scalar_op::negate, b.argument(0, dtype::f32))), 1, elements));
    std::vector<vulkan::buffer> all(places);
    for (vulkan::buffer& each : all) each = on_.allocate(elements * sizeof(float));
    const auto dispatch = [&](vulkan::recorder& r, const vulkan::buffer& from, const vulkan::buffer& to) {
      r.dispatch(tiny.pipeline, {{from}, {to}}, tiny.groups);
    };
    const double chained = seconds_each(16, [&](vulkan::recorder& r, int i) {
      dispatch(r, i % 2 == 0 ? tiny.operands[0] : tiny.result, i % 2 == 0 ? tiny.result : tiny.operands[0]);
      r.barrier();
    });
    const double beside = seconds_each(places, [&](vulkan::recorder& r, int i) {
      const std::size_t place = static_cast<std::size_t>(i) % places;
      if (i != 0 && place == 0) r.barrier();  // nothing is written twice before it
      dispatch(r, tiny.operands[0], all[place]);
    });
    const double group = estimate_.launch.group, share = group > 0 ? group / (group + estimate_.region_once) : 1;
    return {(chained - beside) * share, beside};
  }

  // A GPU that had nothing to do takes a few milliseconds to raise its clocks.
  void wake() const {
    const auto kernel = make(product(256, {}));
    vulkan::recorder r(on_);
    kernel.dispatch(r);
    const vulkan::recording commands = r.finish();
    double passed = 0;
    for (stopwatch watch; passed < 5; passed += watch.lap()) on_.wait(on_.submit(commands));
  }

  device on_;
  bool by_timestamps_;
  device_profile estimate_;  // the kernels are made for it
  double submission_ = 0;    // seconds of one that does nothing, by the host's clock
};

// Whether kernels/matrix_rows.hpp can use the device's units.
[[nodiscard]] inline bool lie_in_rows(const device& on, const device_profile& profile) {
  const kernels::kernel_dispatch trial = kernels::make_rows_trial(profile);
  const vulkan::buffer found = on.allocate(profile.subgroup_size * sizeof(std::uint32_t));
  vulkan::recorder r(on);
  r.fill({found}, 0);
  r.barrier();
  r.dispatch(on.create_pipeline(trial.module), {{found}}, trial.groups);
  on.submit(r.finish());
  const vulkan::read_back_ticket read = on.read_back(found);
  std::vector<std::uint32_t> lanes(profile.subgroup_size);
  std::memcpy(lanes.data(), read.data().data(), lanes.size() * sizeof(std::uint32_t));
  return std::ranges::all_of(lanes, [](std::uint32_t is_right) { return is_right == 1; });
}

// What a file of rates is of: kernels differ by these limits.
[[nodiscard]] inline nlohmann::json rates_origin(const device& on) {
  const device_facts& facts = on.facts();
  const device_profile made_for = make_device_profile(facts);
  const bool has_units = made_for.matrix_units == matrix_units::cooperative;
  nlohmann::json origin = measured_origin(on);
  origin.update(
      {{"vendor_id", facts.vendor_id},
       {"device_id", facts.device_id},
       {"kernels",
        fmt::format("subgroups of {}{}{}, workgroups of {}, {} bytes of their memory, {} bytes a binding, {}",
                    made_for.subgroup_size, made_for.subgroup_arithmetic ? " that add up" : "",
                    made_for.subgroup_shuffle ? " and shuffle" : "", made_for.max_invocations,
                    made_for.max_shared_bytes, made_for.max_binding_bytes,
                    has_units ? fmt::format("units of {}x{}x{}", made_for.unit.m, made_for.unit.n, made_for.unit.k)
                              : "no matrix units")},
       {"measurement", rates_version}});
  return origin;
}

inline constexpr std::pair<const char*, double device_rates::*> named_rates[] = {
    {"bandwidth", &device_rates::bandwidth},
    {"scalar_flops", &device_rates::scalar_flops},
    {"matmul_flops", &device_rates::matmul_flops},
    {"matrix_flops", &device_rates::matrix_flops},
};

// Never a reason not to make a program. What is to be said is said by profile_of, which holds no lock then.
class profile_finder {
 public:
  explicit profile_finder(const device& on) : on_(on) {}

  [[nodiscard]] device_profile find() {
    device_profile found = make_device_profile(on_.facts());
    const rate_measurement wanted = on_.rate_option();
    if (wanted == rate_measurement::always ||
        (wanted == rate_measurement::automatic && !has_known_rates(on_.facts()))) {
      if (const auto rates = find_rates()) found = with_rates(found, *rates);
    }
    if (kernels::may_lie_in_rows(found)) {
      attempt("it could not be tried out how matrix units of {} hold their results, attention does not use them: {}",
              [&] { found.fragments_by_rows = lie_in_rows(on_, found); });
    }
    return found;
  }

  void say() const {
    for (const auto& [level, text] : said_) write_log(on_.log(), level, "{}", text);
  }

 private:
  [[nodiscard]] std::optional<device_rates> find_rates() {
    const std::string& name = on_.facts().name;
    std::optional<device_rates> found;
    std::string path;
    attempt("the stored rates of {} are ignored and measured anew: {}", [&] {
      path = rates_file(on_);
      if (!path.empty() && std::filesystem::exists(path)) found = load_rates(path, on_);
    });
    if (found) return found;
    attempt("{} could not be measured, kernels are chosen by the number of its multiprocessors: {}", [&] {
      stopwatch watch;
      found = meganeura::measure_rates(on_);
      const std::string units =
          found->matrix_flops > 0 ? fmt::format(" and {:.3g} on matrix units", found->matrix_flops) : "";
      said_.emplace_back(
          log_level::info,
          fmt::format(
              "measured in {:.0f} ms that {} moves {:.3g} bytes and computes {:.3g} scalar operations, {:.3g} of "
              "f32 products{} a second, and launches a kernel in {:.3g} us; {}",
              watch.lap(), name, found->bandwidth, found->scalar_flops, found->matmul_flops, units,
              found->launch.alone() * 1e6,
              path.empty() ? "this is kept nowhere, as the cache on disk is off" : "kept in " + path));
    });
    if (!found || path.empty()) return found;
    attempt("the rates of {} are not stored and will be measured again: {}", [&] {
      std::error_code problem;  // shows when the file is written
      std::filesystem::create_directories(std::filesystem::path(path).parent_path(), problem);
      save_rates(*found, path, on_);
    });
    return found;
  }

  template <class Work>
  void attempt(const char* otherwise, const Work& work) {
    try {
      work();
    } catch (const std::exception& problem) {
      said_.emplace_back(log_level::warning, fmt::format(fmt::runtime(otherwise), on_.facts().name, problem.what()));
    }
  }

  const device& on_;
  std::vector<std::pair<log_level, std::string>> said_;
};

}  // namespace detail

MEGANEURA_INLINE bool detail::has_known_rates(const device_facts& facts) {
  constexpr std::uint32_t lavapipe = 13;  // of VkDriverId
  return facts.driver_id == lavapipe || facts.name == "NVIDIA H100 80GB HBM3" || facts.name == "NVIDIA H200";
}

MEGANEURA_INLINE device_rates detail::measure_rates(const device& on, bool by_timestamps) {
  return rate_meter(on, by_timestamps).rates();
}

MEGANEURA_INLINE device_rates measure_rates(const device& on) try {
  return detail::measure_rates(on, on.facts().timestamp_bits != 0);
} catch (...) {
  rethrow_as_error("measuring a device");
}

MEGANEURA_INLINE device_profile profile_of(const device& on) try {
  detail::profile_finder finder(on);
  const device_profile found = on.profile([&] { return finder.find(); });
  finder.say();
  return found;
} catch (...) {
  rethrow_as_error("looking at a device's profile");
}

MEGANEURA_INLINE std::string detail::rates_file(const device& on) {
  const std::filesystem::path pipelines = on.cache_file();
  if (pipelines.empty()) return {};
  const device_facts& facts = on.facts();
  const std::string name =
      fmt::format("rates-{:04x}-{:04x}-{}.json", facts.vendor_id, facts.device_id, checksum_of(rates_origin(on)));
  return (pipelines.parent_path() / name).string();
}

MEGANEURA_INLINE void detail::save_rates(const device_rates& rates, const std::string& path, const device& on) {
  nlohmann::json content{{"launch_group", rates.launch.group}, {"launch_dispatch", rates.launch.dispatch}};
  for (const auto& [name, rate] : named_rates) content[name] = rates.*rate;
  write_measured(path, rates_origin(on), "rates", content);
}

MEGANEURA_INLINE device_rates detail::load_rates(const std::string& path, const device& on) {
  constexpr const char* what = "measured rates of this device and driver, as this version stores them";
  const std::optional<nlohmann::json> content = read_measured(path, rates_origin(on), "rates", what);
  if (!content) io::bad_file(path, 0, what, "those of another one");
  const auto number = [&](const char* name, const rate_bounds& bounds, bool may_be_0 = false) {
    const auto at = content->find(name);
    if (!content->is_object() || at == content->end() || !at->is_number()) io::bad_file(path, 0, what, "other names");
    const double value = at->get<double>();
    const bool is_known = (value >= bounds.least / 2 && value <= bounds.most * 2) || (may_be_0 && value == 0);
    if (!is_known) io::bad_file(path, 0, what, "a rate that no device has");
    return value;
  };
  return {number("bandwidth", bytes_a_second),
          number("scalar_flops", operations_a_second),
          number("matmul_flops", operations_a_second),
          number("matrix_flops", operations_a_second, true),
          {number("launch_group", seconds_of_launch), number("launch_dispatch", seconds_of_launch)}};
}

}  // namespace meganeura::inline MEGANEURA_ABI
