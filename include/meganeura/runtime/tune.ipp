// SPDX-License-Identifier: MIT
// Definitions for runtime/tune.hpp.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/fusion/product_schedules.hpp>
#include <meganeura/runtime/measured_file.hpp>
#include <meganeura/runtime/measured_rates.hpp>
#include <meganeura/runtime/tune.hpp>
#include <meganeura/runtime/tuned_step.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

[[nodiscard]] inline double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// What there is to measure of one size, the model's choice first.
struct tuned_size {
  std::vector<product_schedule> candidates;
  std::vector<double> nanoseconds;  // of each; infinity where it was not measured
};
using tuned_sizes = std::map<fusion::product_extents, tuned_size>;

// The product of f32 operands that a step computes; schedules of pairs are not tuned.
[[nodiscard]] inline const matmul_attribute* product_of(const plan::execution_plan& p, const plan::step& s) {
  if (s.kind != plan::step::kernel) return nullptr;
  const auto* found = std::get_if<matmul_attribute>(&p.implementation.attribute_of(s.node));
  return found != nullptr && !found->schedule.is_half() && !found->paired ? found : nullptr;
}

[[nodiscard]] inline tuned_sizes sizes_of(const plan::execution_plan& p, precision wanted, const device_profile& costs,
                                          int candidates) {
  tuned_sizes sizes;
  for (const plan::step& s : p.steps) {
    const matmul_attribute* product = product_of(p, s);
    if (product == nullptr) continue;
    const fusion::product_extents extents = fusion::extents_of(*product);
    std::vector<product_schedule>& found = sizes[extents].candidates;
    if (!found.empty()) continue;
    std::vector<product_schedule> all =
        fusion::product_schedules(fusion::arithmetic_of(wanted, extents, costs), extents, costs);
    std::ranges::stable_sort(
        all, {}, [&](const product_schedule& each) { return fusion::unit_time(each, extents, costs).alone; });
    all.resize(std::min(all.size(), static_cast<std::size_t>(candidates)));
    all.emplace_back();  // f32 multiply-add
    found.push_back(product->schedule);
    std::ranges::copy_if(all, std::back_inserter(found), [&](const auto& each) { return each != found[0]; });
    sizes[extents].nanoseconds.assign(found.size(), std::numeric_limits<double>::infinity());
  }
  return sizes;
}

// Each size's time in a step, by the candidate `number` where the program has it: the median of rounds, on average over
// its dispatches.
inline void measure(tuned_step& step, int rounds, std::size_t number, tuned_sizes& sizes) {
  const plan::execution_plan& p = step.get().plan();
  std::map<fusion::product_extents, std::vector<double>> rounds_of;
  for (int round = -1; round < rounds; ++round) {
    step.step();
    if (round < 0) continue;
    const step_profile found = step.get().profile();
    std::map<fusion::product_extents, std::pair<double, int>> sums;
    std::size_t next = 0;
    for (const plan::step& s : p.steps) {
      if (s.kind == plan::step::copy) continue;
      const double nanoseconds = found[next++].nanoseconds;
      const matmul_attribute* product = product_of(p, s);
      if (product == nullptr) continue;
      const fusion::product_extents extents = fusion::extents_of(*product);
      const auto at = sizes.find(extents);
      if (at == sizes.end() || number >= at->second.candidates.size()) continue;
      if (product->schedule != at->second.candidates[number]) continue;
      auto& [sum, count] = sums[extents];
      sum += nanoseconds, ++count;
    }
    for (const auto& [extents, sum] : sums) rounds_of[extents].push_back(sum.first / sum.second);
  }
  for (auto& [extents, times] : rounds_of) sizes[extents].nanoseconds[number] = median_of(std::move(times));
}

// Rows have other columns than those of another number.
[[nodiscard]] inline nlohmann::json tuned_origin(const device& on) {
  nlohmann::json origin = measured_origin(on);
  origin["columns"] = 4;
  return origin;
}

// As files have them; an arithmetic is called as in the text of a schedule.
inline constexpr const char* precision_names[] = {"exact", "fast"};
[[nodiscard]] inline std::string name_of(product_arithmetic arithmetic) {
  return to_string(product_schedule{arithmetic});
}

}  // namespace detail

MEGANEURA_INLINE tuning_result tune(const device& on, const graph& g, const program_options& options,
                                    const tuning_options& how) try {
  if (on.facts().timestamp_bits == 0) {
    fail(error_category::unsupported,
         "tuning was asked for on {}, whose queue has no timestamps; it cannot be measured", on.facts().name);
  }
  constexpr int most_rounds = 1000;
  if (how.candidates < 1 || how.rounds < 1 || how.rounds > most_rounds) {
    fail(error_category::invalid_argument,
         "tuning was asked for with {} candidates and {} rounds; it takes 1 candidate or more and 1 to {} rounds",
         how.candidates, how.rounds, most_rounds);
  }
  program_options measuring = options;
  measuring.profile = profiling::dispatches;
  measuring.optimize.tuned = nullptr;  // what is known already is measured again
  detail::tuned_sizes sizes;
  std::size_t most = 1;
  for (std::size_t number = 0; number < most; ++number) {
    if (number > 0) {
      auto table = std::make_shared<fusion::tuned_products>();
      for (const auto& [extents, size] : sizes)
        table->set(extents, options.precision, size.candidates[number % size.candidates.size()]);
      measuring.optimize.tuned = table;
    }
    detail::tuned_step step(on, g, measuring);
    if (number == 0) {
      const device_profile costs = fusion::device_of(detail::optimization_on(on, options));
      sizes = detail::sizes_of(step.get().plan(), options.precision, costs, how.candidates);
      for (const auto& [extents, size] : sizes) most = std::max(most, size.candidates.size());
    }
    detail::measure(step, how.rounds, number, sizes);
  }
  auto quicker = std::make_shared<fusion::tuned_products>();
  for (const auto& [extents, size] : sizes) {
    const auto best = std::ranges::min_element(size.nanoseconds);
    if (!(*best < 0.98 * size.nanoseconds[0])) continue;  // noise is no reason
    quicker->set(extents, options.precision,
                 size.candidates[static_cast<std::size_t>(best - size.nanoseconds.begin())]);
  }
  // The whole step, in turn; what is not quicker is not kept.
  program_options timing = options;
  timing.profile = profiling::none, timing.duration = true, timing.optimize.tuned = nullptr;
  detail::tuned_step before(on, g, timing);
  timing.optimize.tuned = quicker;
  std::vector<detail::tuned_step*> both{&before};
  std::optional<detail::tuned_step> after;
  if (quicker->size() > 0) both.push_back(&after.emplace(on, g, timing));
  std::vector<double> times[2];
  for (int round = -1; round < 3 * how.rounds; ++round) {
    for (detail::tuned_step* each : both) {
      each->step();
      if (round >= 0) times[each != &before].push_back(each->get().duration() * 1e-6);
    }
  }
  const double found = detail::median_of(times[0]), then = after ? detail::median_of(times[1]) : found;
  if (then < found) return {quicker, found, then};
  return {std::make_shared<fusion::tuned_products>(), found, found};
} catch (...) {
  rethrow_as_error("tuning");
}

MEGANEURA_INLINE void save_tuned(const fusion::tuned_products& products, const std::string& path,
                                 const device& on) try {
  nlohmann::json rows = nlohmann::json::array();
  products.each([&](const fusion::product_extents& p, precision wanted, const product_schedule& s) {
    const fusion::product_windows& w = p.windows;
    rows.push_back({detail::precision_names[static_cast<int>(wanted)],
                    p.batch,
                    p.m,
                    p.n,
                    p.k,
                    detail::name_of(s.arithmetic),
                    s.tile_m,
                    s.tile_n,
                    s.tile_k,
                    s.subgroup_m,
                    s.subgroup_n,
                    s.slices,
                    s.depth,
                    s.parts,
                    s.taps,
                    s.reach,
                    p.single_left ? 1u : 0u,
                    p.single_right ? 1u : 0u,
                    w.images,
                    w.height,
                    w.width,
                    w.pitch,
                    w.taps,
                    w.last_taps,
                    w.reach,
                    w.places == place_axes::terms ? 1u : 0u});
  });
  detail::write_measured(path, detail::tuned_origin(on), "products", rows);
} catch (...) {
  rethrow_as_error("saving tuned products");
}

MEGANEURA_INLINE std::shared_ptr<const fusion::tuned_products> load_tuned(const std::string& path,
                                                                          const device& on) try {
  if (!std::filesystem::exists(path)) return nullptr;
  constexpr const char* what =
      "tuned products, as save_tuned writes them (without the file, products are as the model chooses)";
  const std::optional<nlohmann::json> content = detail::read_measured(path, detail::tuned_origin(on), "products", what);
  if (!content) {
    write_log(on.log(), log_level::warning,
              "{} has products tuned for another device, driver or version; none of them is used", shown_path(path));
    return nullptr;
  }
  const nlohmann::json& rows = *content;
  const auto damaged = [&](const char* found) { io::bad_file(path, 0, what, found); };
  auto found = std::make_shared<fusion::tuned_products>();
  if (!rows.is_array()) damaged("no list of them");
  try {
    for (const nlohmann::json& row : rows) {
      if (!row.is_array() || row.size() != 26) damaged("a row of another length");
      const auto number = [&](std::size_t at) {
        if (!row[at].is_number_unsigned() || row[at].get<std::uint64_t>() > 0x7fffffffu) damaged("a size that is none");
        return row[at].get<std::int64_t>();
      };
      const auto size = [&](std::size_t at) { return static_cast<std::uint32_t>(number(at)); };
      const auto word = [&](std::size_t at) { return row[at].get<std::string>(); };
      const auto wanted = std::ranges::find(detail::precision_names, word(0)) - std::begin(detail::precision_names);
      using enum product_arithmetic;
      constexpr product_arithmetic all[] = {fma, split, rounded, half};
      const auto* arithmetic = std::ranges::find(all, word(5), detail::name_of);
      if (wanted == std::ssize(detail::precision_names) || arithmetic == std::end(all)) damaged("an unknown word");
      const place_axes places = number(25) != 0   ? place_axes::terms
                                : number(22) != 0 ? place_axes::columns
                                                  : place_axes::none;
      const fusion::product_windows windows{number(18), number(19), number(20), number(21),
                                            number(22), number(23), number(24), places};
      found->set({number(1), number(2), number(3), number(4), false, number(16) != 0, number(17) != 0, windows},
                 static_cast<precision>(wanted),
                 {*arithmetic, size(6), size(7), size(8), size(9), size(10), size(11), size(12), size(13), size(14),
                  size(15), size(14) > 0 ? places : place_axes::none});
    }
  } catch (const nlohmann::json::exception&) {
    damaged("other rows");
  }
  return found;
} catch (...) {
  rethrow_as_error("loading tuned products");
}

}  // namespace meganeura::inline MEGANEURA_ABI
