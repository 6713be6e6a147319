// SPDX-License-Identifier: MIT
// Writing and reading checkpoints of training runs.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/io/safetensors.hpp>
#include <meganeura/runtime/checkpoint.hpp>
#include <meganeura/runtime/problem_list.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <locale>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// Of checkpoint_key. In a file of the first format "state." stands before the names of states; one of the second does
// not say what groups were, and one before the fourth lacks rates that optimisers got later.
inline constexpr std::string_view checkpoint_formats[] = {"1", "2", "3", "4"};
inline constexpr std::string_view checkpoint_format = checkpoint_formats[3];
inline constexpr std::string_view group_key = "group.";  // and a parameter's name
inline constexpr std::string_view accumulated_key = "accumulated", batches_key = "batches";

// What another program wrote is as little believed as what a caller asks for. A plain sgd has no moments: with a
// momentum it would be of another kind.
inline void check_chosen(const io::safetensors_file& file, const optimizer& found, const optimizer& expected) {
  if (const std::string problem = found.wrong_rate(); !problem.empty())
    fail(error_category::invalid_file, "{}: {}; nothing was loaded, take another copy", shown_path(file.path()),
         problem);
  const std::string kind = found.name(), wanted = expected.name();
  if (kind == wanted) return;
  fail(error_category::invalid_file,
       "{}: the optimizer is said to be {} and its rates are those of {}; nothing was loaded, take another copy",
       shown_path(file.path()), wanted, kind);
}

inline void check_plateau(const io::safetensors_file& file, const plateau_position& found) {
  if (found.factor >= 0 && std::isfinite(found.factor)) return;
  fail(
      error_category::invalid_file,
      "{}: the metadata's \"plateau.factor\" is {}; it must be finite and at least 0; nothing was loaded, take another "
      "copy",
      shown_path(file.path()), found.factor);
}

// The metadata of a checkpoint, entry by entry.
class checkpoint_metadata {
 public:
  explicit checkpoint_metadata(const io::safetensors_file& file) : file_(file) {
    const std::string* format = find(checkpoint_key);
    if (!format) {
      fail(error_category::invalid_file,
           "{} is no checkpoint of a training run; plain weights are loaded by parameters().load(path)",
           shown_path(file.path()));
    }
    const auto known = std::ranges::find(checkpoint_formats, *format);
    format_ = 1 + (known - std::begin(checkpoint_formats));
    if (known != std::end(checkpoint_formats)) return;
    fail(error_category::invalid_file,
         "{} is a checkpoint of format {}, written by a newer meganeura; this one reads formats up to \"{}\": load it "
         "by the newer one",
         shown_path(file.path()), quote(*format), checkpoint_format);
  }

  /// Where the file has that parameter or state.
  [[nodiscard]] std::string name_of(const plan::named_tensor& tensor) const {
    return tensor.kind == op::state && format_ == 1 ? "state." + tensor.name : tensor.name;
  }

  [[nodiscard]] std::optional<std::map<std::string, std::string>> groups() const {
    if (format_ < 3) return {};
    std::map<std::string, std::string> all;
    for (const auto& [key, value] : file_.metadata()) {
      if (key.starts_with(group_key)) all.emplace(key.substr(group_key.size()), value);
    }
    return all;
  }

  /// `own` where the file was written before there was such a rate.
  [[nodiscard]] float rate(std::string_view name, float own) const {
    return format_ < std::ssize(checkpoint_formats) && !find(name) ? own : number<float>(name);
  }

  [[nodiscard]] const std::string* find(std::string_view key) const {
    const auto& all = file_.metadata();
    const auto found = std::ranges::find(all, key, &std::pair<std::string, std::string>::first);
    return found == all.end() ? nullptr : &found->second;
  }

  template <class Number>
  [[nodiscard]] Number number(std::string_view key) const {
    const std::string* text = find(key);
    Number value{};
    if (text && parse(*text, value)) return value;
    fail(error_category::invalid_file, "{}: the metadata's \"{}\" must be a number; found {}", shown_path(file_.path()),
         key, text ? quote(*text) : "nothing");
  }

 private:
  // The whole text, whatever the locale.
  template <class Number>
  [[nodiscard]] static bool parse(const std::string& text, Number& value) {
    if constexpr (requires(const char* at) { std::from_chars(at, at, value); }) {
      const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
      return problem == std::errc() && end == text.data() + text.size();
    } else {  // libc++ 19: of integers alone
      std::istringstream stream(text);
      stream.imbue(std::locale::classic());
      return (stream >> std::noskipws >> value) && stream.peek() == std::istringstream::traits_type::eof();
    }
  }

  const io::safetensors_file& file_;
  std::ptrdiff_t format_ = 0;  // from 1 on
};

// A tensor of the run, its name in the file and where it goes: to a parameter or state, to what the program keeps, or,
// where neither is said, to moments that wait for a program.
struct checkpoint_tensor {
  std::string name;
  dtype type{};
  shape extents;
  const plan::named_tensor* shared = nullptr;
  const plan::named_range* kept = nullptr;
};

template <class Names>
std::vector<checkpoint_tensor> checkpoint_tensors(const parameters& weights, const Names& name_of) {
  std::vector<checkpoint_tensor> all;
  for (const auto& tensor : weights.layout().tensors)
    all.push_back({std::invoke(name_of, tensor), tensor.type, tensor.extents, &tensor});
  return all;
}

inline void add_moments(std::vector<checkpoint_tensor>& all, const optimizer_moments& moments) {
  for (const plan::named_range& each : moments.list())
    all.push_back({each.name, each.type, each.extents, nullptr, &each});
}

// Of "optimizer.rows.fc.weight" the part "fc.weight"; empty for another name.
inline std::string_view parameter_of(std::string_view moment) {
  if (!moment.starts_with("optimizer.")) return {};
  moment.remove_prefix(std::string_view("optimizer.").size());
  const std::size_t kind = moment.find('.');
  return kind == std::string_view::npos ? std::string_view() : moment.substr(kind + 1);
}

// Those of the file that the parameters can have: which of them are updated, and what else a training keeps of one, a
// program will tell.
inline void add_waiting_moments(std::vector<checkpoint_tensor>& all, const parameters& weights,
                                const optimizer& expected, const io::safetensors_file& file) {
  const std::vector<std::string> moments = expected.rule().moments;
  for (const auto& found : file.tensors()) {
    const auto* of = weights.layout().find(parameter_of(found.name));
    if (!of || of->kind != op::parameter) continue;
    const bool is_moment = std::ranges::any_of(
        moments, [&](const std::string& moment) { return found.name == moment_name(moment, of->name); });
    shape extents;
    for (const std::int64_t extent : found.shape) extents.push_back(extent);
    all.push_back({found.name, dtype::f32, is_moment ? of->extents : extents});
  }
}

inline void compare(const checkpoint_tensor& wanted, const io::safetensors_file& file, problem_list& problems) {
  const auto* found = file.find(wanted.name);
  if (!found) return problems.add([&] { return describe_missing(wanted.name, file.tensors()); });
  if (std::ranges::equal(found->shape, wanted.extents) && found->dtype == io::safetensors_dtype(wanted.type)) return;
  problems.add([&] {
    return fmt::format("{}: expected {} {}, found {} [{}]", quote(wanted.name), io::safetensors_dtype(wanted.type),
                       to_string(wanted.extents), found->dtype, fmt::join(found->shape, ", "));
  });
}

inline void check_fits(const io::safetensors_file& file, const checkpoint_metadata& metadata,
                       std::span<const checkpoint_tensor> tensors, const optimizer& expected) {
  problem_list problems;
  const std::string* chosen = metadata.find("optimizer");
  const bool same = chosen && *chosen == expected.name();
  if (!same) {
    problems.add([&] {
      return fmt::format("the optimizer: expected {}, found {}", expected.name(), chosen ? quote(*chosen) : "none");
    });
  }
  std::set<std::string_view> names;
  for (const checkpoint_tensor& tensor : tensors) {
    names.insert(tensor.name);
    const bool moment = !tensor.shared && tensor.name.starts_with("optimizer.");
    if (same || !moment) compare(tensor, file, problems);  // another optimiser has other moments: said already
  }
  for (const auto& found : file.tensors()) {
    if (names.contains(found.name) || (!same && found.name.starts_with("optimizer."))) continue;
    problems.add([&] { return fmt::format("{} is not in the model", quote(found.name)); });
  }
  if (problems.count == 0) return;
  fail(error_category::invalid_file, "{} is of another training run and nothing was loaded{}", shown_path(file.path()),
       problems.sentence());
}

}  // namespace detail

MEGANEURA_INLINE void save_checkpoint(const std::string& path, const parameters& weights,
                                      const optimizer_moments& moments, const training_position& position) try {
  std::vector<std::string> names;
  for (const auto& tensor : weights.layout().tensors) names.push_back(tensor.name);
  weights.check_values("save_checkpoint", names);
  auto tensors = detail::checkpoint_tensors(weights, &plan::named_tensor::name);
  detail::add_moments(tensors, moments);
  std::vector<io::safetensors_entry> entries;
  for (const auto& tensor : tensors) {
    entries.push_back(
        {tensor.name, io::safetensors_dtype(tensor.type), {tensor.extents.begin(), tensor.extents.end()}, {}});
  }
  const auto bytes_of = [&](std::size_t i) {
    return tensors[i].kept ? moments.read(*tensors[i].kept) : weights.get_bytes(tensors[i].name);
  };
  io::safetensors_metadata metadata{{"format", "pt"},
                                    {detail::checkpoint_key, std::string(detail::checkpoint_format)},
                                    {"optimizer", position.chosen.name()},
                                    {"step", std::to_string(position.step)},
                                    {"seed", std::to_string(position.seed)}};
  position.chosen.each_rate([&](std::string_view name, float rate) {
    metadata.emplace_back(name, fmt::format("{}", rate));  // the shortest text that reads back exactly
  });
  const auto add = [&](std::string_view key, const auto& number) {
    metadata.emplace_back(key, fmt::format("{}", number));
  };
  if (position.batches) add(detail::batches_key, *position.batches);
  if (position.accumulated != 0) add(detail::accumulated_key, position.accumulated);
  if (position.plateau != plateau_position()) {
    add("plateau.factor", position.plateau.factor);
    if (position.plateau.best) add("plateau.best", *position.plateau.best);
    add("plateau.waited", position.plateau.waited);
    add("plateau.cooling", position.plateau.cooling);
  }
  for (const auto& [name, group] : position.groups.value_or(std::map<std::string, std::string>()))
    metadata.emplace_back(std::string(detail::group_key) + name, group);
  io::write_safetensors(path, entries, metadata, bytes_of);
} catch (...) {
  rethrow_as_error("saving a checkpoint");
}

MEGANEURA_INLINE loaded_checkpoint load_checkpoint(const std::string& path, parameters weights,
                                                   optimizer_moments moments, const optimizer& expected,
                                                   const std::function<void(const training_position&)>& accept) try {
  const auto file = io::safetensors_file::open(path);
  const detail::checkpoint_metadata metadata(file);
  auto tensors =
      detail::checkpoint_tensors(weights, [&](const plan::named_tensor& tensor) { return metadata.name_of(tensor); });
  if (moments) {
    detail::add_moments(tensors, moments);
  } else {
    detail::add_waiting_moments(tensors, weights, expected, file);
  }
  detail::check_fits(file, metadata, tensors, expected);
  training_position position{expected, metadata.number<std::uint32_t>("step"), metadata.number<std::uint64_t>("seed"),
                             metadata.groups()};
  if (metadata.find(detail::batches_key)) position.batches = metadata.number<std::uint64_t>(detail::batches_key);
  if (metadata.find(detail::accumulated_key))
    position.accumulated = metadata.number<std::uint32_t>(detail::accumulated_key);
  if (metadata.find("plateau.factor")) {
    position.plateau.factor = metadata.number<double>("plateau.factor");
    if (metadata.find("plateau.best")) position.plateau.best = metadata.number<double>("plateau.best");
    position.plateau.waited = metadata.number<std::uint32_t>("plateau.waited");
    position.plateau.cooling = metadata.number<std::uint32_t>("plateau.cooling");
    detail::check_plateau(file, position.plateau);
  }
  if (position.step == std::numeric_limits<std::uint32_t>::max()) {
    fail(error_category::invalid_file,
         "{}: the metadata's \"step\" is {}, after which no step is counted; nothing was loaded", shown_path(path),
         position.step);
  }
  expected.each_rate([&](std::string_view name, float own) {
    position.chosen = position.chosen.with_rate(name, metadata.rate(name, own));
  });
  detail::check_chosen(file, position.chosen, expected);
  std::vector<std::vector<std::byte>> values;  // all of them first: a disk that fails half-way changes nothing
  for (const auto& tensor : tensors) values.push_back(file.read(*file.find(tensor.name)));
  if (accept) accept(position);
  std::vector<optimizer_moments::named_values> waiting;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].kept) {
      moments.write(*tensors[i].kept, values[i]);
    } else if (tensors[i].shared) {
      weights.set_bytes(tensors[i].shared->name, values[i]);
    } else {
      waiting.push_back({tensors[i].name, std::move(values[i])});
    }
  }
  return {position, moments ? std::move(moments) : optimizer_moments(std::move(waiting))};
} catch (...) {
  rethrow_as_error("loading a checkpoint");
}

}  // namespace meganeura::inline MEGANEURA_ABI
