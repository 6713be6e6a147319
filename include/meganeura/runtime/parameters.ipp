// SPDX-License-Identifier: MIT
// Initialising, loading and saving of weights.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/float_conversion.hpp>
#include <meganeura/core/float_format.hpp>
#include <meganeura/core/hash.hpp>
#include <meganeura/core/nearest.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/io/safetensors_set.hpp>
#include <meganeura/runtime/parameters.hpp>
#include <meganeura/runtime/problem_list.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numbers>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <type_traits>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// Uniform in (0, 1) from the top 24 bits: the same on every standard library, unlike std::uniform_real_distribution.
inline double unit(std::mt19937_64& random) { return (static_cast<double>(random() >> 40) + 0.5) / 16777216.0; }

inline double normal(std::mt19937_64& random) {
  const double radius = std::sqrt(-2 * std::log(unit(random)));
  return radius * std::cos(2 * std::numbers::pi * unit(random));
}

// Normal draws, made orthonormal by Gram and Schmidt's process: twice, because once loses digits. source: Giraud,
// Langou and Rozloznik 2005.
inline std::vector<double> orthogonal_draws(std::mt19937_64& random, std::size_t rows, std::size_t columns) {
  const std::size_t count = std::min(rows, columns), length = std::max(rows, columns);
  std::vector<double> vectors(count * length);
  for (std::size_t i = 0; i < count; ++i) {
    const std::span<double> one(&vectors[i * length], length);
    for (double& each : one) each = normal(random);
    for (std::size_t k = 0; k < 2 * i; ++k) {
      const double* other = &vectors[k % i * length];
      const double along = std::inner_product(one.begin(), one.end(), other, 0.0);
      for (std::size_t n = 0; n < length; ++n) one[n] -= along * other[n];
    }
    const double norm = std::sqrt(std::inner_product(one.begin(), one.end(), one.begin(), 0.0));
    for (double& each : one) each /= norm;
  }
  if (count == rows) return vectors;
  std::vector<double> transposed;
  for (std::size_t i = 0; i < rows * columns; ++i) transposed.push_back(vectors[i % columns * length + i / columns]);
  return transposed;
}

inline double fan_of(const shape& extents, initial_fan which) {
  const auto elements = static_cast<double>(extents.elements());
  const bool is_vector = extents.rank() < 2;
  const double in = is_vector ? elements : elements / static_cast<double>(extents[0]);
  const double out = is_vector ? elements : elements / static_cast<double>(extents[1]);
  const double fans[] = {1, in, out, (in + out) / 2};
  return fans[static_cast<int>(which)];
}

inline std::vector<float> initial_values(const plan::named_tensor& tensor, std::uint64_t seed) {
  std::mt19937_64 random(hash_combine(hash_string(tensor.name), seed));  // the other way round, seeds are xor-ed away
  std::vector<float> values(static_cast<std::size_t>(tensor.extents.elements()));
  const double spread = std::sqrt(tensor.begin.square / fan_of(tensor.extents, tensor.begin.fan));
  const auto fill = [&](auto&& draw) {
    for (float& value : values) value = static_cast<float>(tensor.begin.centre + spread * draw());
  };
  switch (tensor.begin.draw) {
    case initial_draw::none:
      fill([] { return 0.0; });
      break;
    case initial_draw::uniform:
      fill([&] { return 2 * unit(random) - 1; });
      break;
    case initial_draw::normal:
      fill([&] { return normal(random); });
      break;
    case initial_draw::orthogonal: {
      const auto rows = static_cast<std::size_t>(tensor.extents[0]);
      const std::vector<double> draws = orthogonal_draws(random, rows, values.size() / rows);
      fill([next = draws.begin()]() mutable { return *next++; });
      break;
    }
  }
  if (tensor.begin.zero_row >= 0 && tensor.begin.zero_row < tensor.extents[0]) {
    const auto row = static_cast<std::ptrdiff_t>(tensor.extents.stride(0));
    std::fill_n(values.begin() + tensor.begin.zero_row * row, row, 0.0f);
  }
  return values;
}

// The float dtype that files call so.
inline std::optional<dtype> float_named(std::string_view name) {
  for (const dtype_info& row : dtype_table) {
    if (is_float(row.type) && name == row.safetensors) return row.type;
  }
  return {};
}

inline std::vector<std::byte> initial_bytes(const plan::named_tensor& tensor, std::uint64_t seed) {
  if (is_float(tensor.type)) {
    const std::vector<float> values = initial_values(tensor, seed);
    const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
    return converted_floats({bytes.begin(), bytes.end()}, dtype::f32, tensor.type);
  }
  const auto word = static_cast<std::uint32_t>(static_cast<std::int64_t>(tensor.begin.centre));
  const std::span<const std::byte> whole = std::as_bytes(std::span(&word, 1));  // the least byte first
  const std::span<const std::byte> element = whole.first(static_cast<std::size_t>(storage_bytes(tensor.type, 1)));
  std::vector<std::byte> bytes;
  for (std::int64_t i = 0; i < tensor.extents.elements(); ++i)
    bytes.insert(bytes.end(), element.begin(), element.end());
  return bytes;
}

// What a file may hold for a parameter of this dtype, as a sentence says it.
inline std::string readable_dtypes(dtype type) {
  if (type == dtype::i32) return "I32 or I64";
  if (!is_float(type)) return io::safetensors_dtype(type);
  std::vector<std::string_view> names{"F64"};
  for (const dtype_info& row : dtype_table) {
    if (is_float(row.type)) names.emplace_back(row.safetensors);
  }
  const std::string_view last = names.back();
  names.pop_back();
  return fmt::format("{} or {}", fmt::join(names, ", "), last);
}

// Extents by which two shapes hold the same elements in the same order.
inline std::vector<std::int64_t> without_ones(const auto& extents) {
  std::vector<std::int64_t> kept;
  for (const auto extent : extents) {
    if (extent != 1) kept.push_back(static_cast<std::int64_t>(extent));
  }
  return kept;
}

// How PyTorch's wrappers call it, if the file has that.
inline std::string torch_rules(std::string_view missing, const io::safetensors_set& file) {
  const std::vector<std::string> names = name_map(from_torch).candidates(missing);
  return std::ranges::any_of(names, [&](const std::string& name) { return file.find(name); }) ? " = from_torch" : "";
}

// What can be done where one side has names that the other lacks.
inline std::string advice_for_names(std::string_view missing, std::span<const io::safetensors_tensor> unread,
                                    const io::safetensors_set& file) {
  constexpr std::string_view counted = "num_batches_tracked";  // by PyTorch's batch norms, which use it for nothing
  const bool counts = std::ranges::any_of(unread, [&](const auto& entry) { return entry.name.ends_with(counted); });
  return fmt::format(
      "; give .rename{} where the file has other names, .ignore{} for what one side lacks, or .strict = false to load "
      "what "
      "fits",
      torch_rules(missing, file), counts ? fmt::format(" = \"*.{}\"", counted) : "");
}

// A pattern may match nothing; a name without '*' is meant to be there.
inline void expect_names(problem_list& problems, const load_options& options, const plan::named_tensors& tensors,
                         const io::safetensors_set& file) {
  const auto lacks = [&](std::string_view name) {
    return std::ranges::none_of(tensors, [&](const auto& each) { return each.name == name; });
  };
  const auto add = [&](std::string_view name, std::string_view rule) {
    problems.add([&] {
      const std::string near = nearest_of(name, tensors);
      return fmt::format("{} of {}{}", quote(name), rule, near.empty() ? "" : " (nearest: " + quote(near) + ")");
    });
  };
  for (const std::string& name : options.ignore) {
    if (name.find('*') == name.npos && lacks(name) && !file.find(name))
      add(name, ".ignore is neither in the model nor in the file");
  }
  for (const std::string_view name : options.rename.exact()) {
    if (lacks(name)) add(name, ".rename is not in the model");
  }
}

inline bool is_readable(std::string_view found, dtype type) {
  if (is_float(type)) return found == "F64" || float_named(found).has_value();
  return found == io::safetensors_dtype(type) || (type == dtype::i32 && found == "I64");
}

// Each element as a shorter one, where they lie: convert(element, its place).
template <class Wide, class Convert>
std::vector<std::byte> narrowed(std::vector<std::byte> bytes, const Convert& convert) {
  using narrow = std::invoke_result_t<Convert, Wide, std::size_t>;
  const std::size_t count = bytes.size() / sizeof(Wide);
  for (std::size_t i = 0; i < count; ++i) {
    Wide element{};
    std::memcpy(&element, bytes.data() + i * sizeof(Wide), sizeof(Wide));
    const narrow result = convert(element, i);
    std::memcpy(bytes.data() + i * sizeof(narrow), &result, sizeof(narrow));
  }
  bytes.resize(count * sizeof(narrow));
  return bytes;
}

// A float that rounds to any narrower format as the double does: cut off, and odd where something was.
inline float rounded_to_odd(double wide) {
  static_assert(std::numeric_limits<float>::is_iec559, "what is too large becomes infinite");
  const auto nearest = static_cast<float>(wide);
  const double back = nearest;
  if (back == wide || std::isnan(wide)) return nearest;
  const float cut = std::abs(back) > std::abs(wide) ? std::nextafter(nearest, 0.0f) : nearest;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(cut) | 1U);
}

// A tensor of the file as the parameter's dtype, in memory that is used again where nothing is converted.
inline void read_as(const io::safetensors_set& file, const io::safetensors_tensor& entry, dtype type,
                    std::vector<std::byte>& bytes) {
  file.read(entry, bytes);
  if (type == dtype::i32 && entry.dtype == "I64") {
    bytes = narrowed<std::int64_t>(std::move(bytes), [&](std::int64_t wide, std::size_t i) {
      const auto result = static_cast<std::int32_t>(wide);
      if (result == wide) return result;
      fail(error_category::invalid_file, "{}: {} has {} at element {}, which the model's i32 cannot hold",
           shown_path(file.path()), quote(entry.name), wide, i);
    });
    return;
  }
  if (!is_float(type)) return;
  const auto expect_held = [&](double value, std::size_t i) {
    if (holds(type, value)) return;
    fail(error_category::invalid_file, "{}: {} has {} at element {}, which the model's {} cannot hold",
         shown_path(file.path()), quote(entry.name), value, i, to_string(type));
  };
  dtype found = float_named(entry.dtype).value_or(type);
  if (entry.dtype == "F64") {
    bytes = narrowed<double>(std::move(bytes), [&](double wide, std::size_t i) {
      expect_held(wide, i);
      return type == dtype::f32 ? static_cast<float>(wide) : rounded_to_odd(wide);
    });
    found = dtype::f32;
  } else if (found != type) {
    each_float(bytes, found, expect_held);
  }
  bytes = converted_floats(std::move(bytes), found, type);
}

}  // namespace detail

MEGANEURA_INLINE parameters::parameters(const device& on, plan::layout tensors) try {
  tensors = plan::paged(tensors, page_bytes_of(on.facts()));
  const std::uint64_t bytes = std::max(tensors.bytes, plan::tensor_alignment);
  const std::string reason = on.reason_to_refuse(buffers_of(on.facts(), bytes));
  if (!reason.empty()) fail(error_category::out_of_memory, "the parameters do not fit: {}", reason);
  auto state = std::make_shared<shared_state>(on, std::move(tensors), bytes);
  vulkan::recorder zero(on);
  state->memory.fill_with_zeros(zero);
  on.submit(zero.finish());
  state_ = std::move(state);
  reset_states();
} catch (...) {
  rethrow_as_error("allocating parameters");
}

MEGANEURA_INLINE parameters::shared_state& parameters::state() const try {
  if (!state_) {
    fail(error_category::invalid_argument,
         "these parameters are an empty handle, or were moved from; take those of a session or a trainer, "
         "of a graph of open sizes after prepare; for a "
         "run-time graph g make them: parameters(gpu, g)");
  }
  return *state_;
} catch (...) {
  rethrow_as_error("using parameters");
}

MEGANEURA_INLINE const plan::named_tensor& parameters::tensor(std::string_view name) const {
  const plan::named_tensor* found = layout().find(name);
  if (!found) {
    fail(error_category::invalid_argument, "there is no parameter \"{}\"{}", name,
         detail::did_you_mean(detail::nearest_of(name, layout().tensors)));
  }
  return *found;
}

MEGANEURA_INLINE std::size_t parameters::count() const {
  std::size_t total = 0;
  for (const auto& tensor : layout().tensors)
    total += tensor.kind == op::parameter ? static_cast<std::size_t>(tensor.extents.elements()) : 0;
  return total;
}

MEGANEURA_INLINE std::uint64_t parameters::changes(std::span<const std::size_t> of) const {
  std::uint64_t all = 0;
  for (const std::size_t each : of) all += state().writes[each];
  return all;
}

MEGANEURA_INLINE void parameters::changed(std::span<const std::size_t> those) {
  for (const std::size_t each : those) ++state().writes[each];
  ++state().changes;
}

MEGANEURA_INLINE void parameters::check_values(std::string_view asker, std::span<const std::string> names) const try {
  std::vector<std::string> missing;
  for (const std::string& name : names) {
    if (!has_values(tensor(name))) missing.push_back('"' + name + '"');
  }
  if (missing.empty()) return;
  const std::span<const std::string> first(missing.data(), std::min<std::size_t>(missing.size(), 3));
  fail(error_category::invalid_argument, "{}: {} parameter{} no values: {}{}; init, load or set {} first", asker,
       missing.size(), missing.size() == 1 ? " has" : "s have", fmt::join(first, ", "),
       missing.size() > first.size() ? ", ..." : "", missing.size() == 1 ? "it" : "them");
} catch (...) {
  rethrow_as_error("looking for values");
}

MEGANEURA_INLINE void parameters::set_bytes(std::string_view name, std::span<const std::byte> values) try {
  const auto& target = tensor(name);
  if (values.size() != target.bytes) {
    fail(error_category::invalid_argument, "parameter \"{}\" is {}{}, {} bytes, and was given {} bytes", name,
         to_string(target.type), to_string(target.extents), target.bytes, values.size());
  }
  const auto lock = in_order();
  memory().write(on(), target.offset, values);
  changed(std::array{number_of(target)});
} catch (...) {
  rethrow_as_error("setting a parameter");
}

MEGANEURA_INLINE std::vector<std::byte> parameters::get_bytes(std::string_view name) const try {
  const auto& source = tensor(name);
  if (!has_values(source)) {
    fail(error_category::invalid_argument, "parameter \"{}\" has no values; init, load or set it first", name);
  }
  return memory().read(on(), source.offset, source.bytes);
} catch (...) {
  rethrow_as_error("reading a parameter");
}

MEGANEURA_INLINE void parameters::set(std::string_view name, std::span<const float> values) try {
  const auto& target = tensor(name);
  if (static_cast<std::int64_t>(values.size()) != target.extents.elements() || !is_float(target.type)) {
    fail(error_category::invalid_argument, "parameter \"{}\" is {}{} and was given {} f32 values", name,
         to_string(target.type), to_string(target.extents), values.size());
  }
  const std::span<const std::byte> bytes = std::as_bytes(values);
  if (target.type == dtype::f32) return set_bytes(name, bytes);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (holds(target.type, values[i])) continue;
    fail(error_category::invalid_argument, "parameter \"{}\" is {}, which cannot hold {}, at element {}", name,
         to_string(target.type), values[i], i);
  }
  set_bytes(name, detail::converted_floats({bytes.begin(), bytes.end()}, dtype::f32, target.type));
} catch (...) {
  rethrow_as_error("setting a parameter");
}

MEGANEURA_INLINE std::vector<float> parameters::get(std::string_view name) const try {
  const auto& source = tensor(name);
  if (!is_float(source.type)) {
    fail(error_category::invalid_argument, "parameter \"{}\" is {}, not a float; read it by get_bytes", name,
         to_string(source.type));
  }
  const auto bytes = detail::converted_floats(get_bytes(name), source.type, dtype::f32);
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
} catch (...) {
  rethrow_as_error("reading a parameter");
}

MEGANEURA_INLINE void parameters::init(const init_options& options) try {
  for (const auto& target : layout().tensors) {
    if (is_float(target.type) || target.begin.draw == initial_draw::none) continue;
    fail(
        error_category::invalid_argument,
        "init: parameter \"{}\" is {}{} and does not say how it begins; give it a constant, or set or load all of them",
        target.name, to_string(target.type), to_string(target.extents));
  }
  for (const auto& target : layout().tensors) set_bytes(target.name, detail::initial_bytes(target, options.seed));
} catch (...) {
  rethrow_as_error("initialising parameters");
}

MEGANEURA_INLINE void parameters::reset_states() try {
  for (const auto& target : layout().tensors) {
    if (target.kind == op::state) set_bytes(target.name, detail::initial_bytes(target, 0));
  }
} catch (...) {
  rethrow_as_error("resetting states");
}

MEGANEURA_INLINE load_report parameters::load(const std::string& path, const load_options& options) try {
  const auto file = io::safetensors_set::open(path);
  detail::problem_list problems;
  load_report report;
  std::vector<std::pair<const plan::named_tensor*, const io::safetensors_tensor*>> matches;
  std::map<const io::safetensors_tensor*, const plan::named_tensor*> readers;
  std::set<const io::safetensors_tensor*> ignored;
  std::vector<std::string_view> absent;
  for (const auto& target : layout().tensors) {
    if (!target.begin.saved) continue;
    const io::safetensors_tensor* entry = nullptr;
    bool is_ignored = options.ignore.match(target.name);
    for (const std::string& name : options.rename.candidates(target.name)) {
      const io::safetensors_tensor* found = entry ? nullptr : file.find(name);
      if (found && options.ignore.match(found->name)) {
        is_ignored = true;
      } else if (found) {
        entry = found;
      }
    }
    if (options.ignore.match(target.name)) {
      ignored.insert(entry);
      continue;
    }
    if (!entry) {
      if (is_ignored) continue;
      report.missing.push_back(target.name);
      if (options.strict) absent.push_back(target.name);
      continue;
    }
    const auto [reader, is_first] = readers.emplace(entry, &target);
    const plan::named_tensor& other = *reader->second;
    if (!is_first && !options.rename.says(target.name, entry->name) && !options.rename.says(other.name, entry->name)) {
      if (options.strict) {
        problems.add([&] {
          return fmt::format("{} comes to both \"{}\" and \"{}\", which a rule without '*' may say", quote(entry->name),
                             other.name, target.name);
        });
      }
      const bool is_own = entry->name == target.name;
      report.missing.push_back(is_own ? other.name : target.name);
      if (!is_own) continue;
      std::erase_if(matches, [&](const auto& match) { return match.first == &other; });
      std::erase(report.reshaped, other.name);
      reader->second = &target;
    }
    const bool same_shape = std::ranges::equal(entry->shape, target.extents);
    const bool same_order =
        same_shape || (!options.strict && detail::without_ones(entry->shape) == detail::without_ones(target.extents));
    if (!same_order) report.mis_shaped.push_back(target.name);
    if (!same_order && !options.strict) continue;
    if (!same_order || !detail::is_readable(entry->dtype, target.type)) {
      problems.add([&] {
        const std::string expected = same_order ? detail::readable_dtypes(target.type) : to_string(target.extents);
        const std::string found = same_order ? entry->dtype : fmt::format("[{}]", fmt::join(entry->shape, ", "));
        return fmt::format("{}: expected {}, found {}", quote(entry->name), expected, found);
      });
    }
    if (!same_shape) report.reshaped.push_back(target.name);
    matches.emplace_back(&target, entry);
  }
  if (options.strict) detail::expect_names(problems, options, layout().tensors, file);
  const bool fits = problems.count == 0 && absent.empty();
  std::vector<io::safetensors_tensor> unread;
  for (const auto& entry : file.tensors()) {
    if (!readers.contains(&entry) && !ignored.contains(&entry) && !options.ignore.match(entry.name))
      unread.push_back(entry);
  }
  for (const std::string_view name : absent) problems.add([&] { return detail::describe_missing(name, unread); });
  for (const auto& entry : unread) {
    report.unexpected.push_back(entry.name);
    if (options.strict) problems.add([&] { return fmt::format("{} is not in the model", quote(entry.name)); });
  }
  if (matches.empty() && !report.mis_shaped.empty() && problems.count == 0) {
    fail(error_category::invalid_file, "{} fits the model nowhere and nothing was loaded: {} has other extents in it",
         shown_path(path), quote(report.mis_shaped.front()));
  }
  if (matches.empty() && !report.missing.empty() && problems.count == 0) {
    fail(error_category::invalid_file, "{} has nothing of the model and nothing was loaded: {}; give .rename{}",
         shown_path(path), detail::describe_missing(report.missing.front(), file.tensors()),
         detail::torch_rules(report.missing.front(), file));
  }
  if (problems.count > 0) {
    const bool is_run =
        std::ranges::count(file.metadata(), detail::checkpoint_key, &io::safetensors_metadata::value_type::first);
    if (is_run && fits) {
      fail(error_category::invalid_file,
           "{} is a checkpoint of a training run; load it by trainer.load_checkpoint, or its weights alone with "
           "{{.strict = false}}",
           shown_path(path));
    }
    const bool other_names = options.strict && (!absent.empty() || !unread.empty());
    const char* on_shapes = report.mis_shaped.empty()
                                ? ""
                                : "; give .ignore for what is meant to differ, or .strict = false to load what fits";
    fail(error_category::invalid_file, "{} does not fit the model and nothing was loaded{}{}", shown_path(path),
         problems.sentence(),
         other_names ? detail::advice_for_names(absent.empty() ? "" : absent.front(), unread, file) : on_shapes);
  }
  std::vector<std::byte> bytes;                  // of one tensor at a time
  for (const auto& [target, entry] : matches) {  // what may not fit is tried before anything changes
    if (!is_float(target->type) && entry->dtype != io::safetensors_dtype(target->type))
      detail::read_as(file, *entry, target->type, bytes);
  }
  for (const auto& [target, entry] : matches) {
    detail::read_as(file, *entry, target->type, bytes);
    set_bytes(target->name, bytes);
  }
  return report;
} catch (...) {
  rethrow_as_error("loading parameters");
}

MEGANEURA_INLINE void parameters::save(const std::string& path) const try {
  std::vector<std::string> names;
  for (const auto& source : layout().tensors) names.push_back(source.name);
  check_values("save", names);
  std::vector<io::safetensors_entry> entries;
  for (const auto& source : layout().tensors) {
    if (!source.begin.saved) continue;
    entries.push_back(
        {source.name, io::safetensors_dtype(source.type), {source.extents.begin(), source.extents.end()}, {}});
  }
  io::write_safetensors(path, entries, {{"format", "pt"}}, [&](std::size_t i) { return get_bytes(entries[i].name); });
} catch (...) {
  rethrow_as_error("saving parameters");
}

}  // namespace meganeura::inline MEGANEURA_ABI
