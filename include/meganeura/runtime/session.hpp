// SPDX-License-Identifier: MIT
// Inference of a typed model: names and types are checked while compiling.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/expr/lower.hpp>
#include <meganeura/expr/symbol_extents.hpp>
#include <meganeura/runtime/inference.hpp>
#include <meganeura/runtime/taps.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// What bind<...>() gave, apart: inputs with their values, symbols with their extents.
template <std::size_t Count>
class bound_values {
 public:
  template <class... Bound>
  explicit bound_values(const Bound&... bound) {
    (add(bound), ...);
  }
  [[nodiscard]] std::span<const input_values> inputs() const { return {inputs_.data(), input_count_}; }
  [[nodiscard]] std::span<const symbol_extent> symbols() const { return {symbols_.data(), symbol_count_}; }

 private:
  template <fixed_string Name, class Element>
  void add(const bound_input<Name, Element>& one) {
    inputs_[input_count_++] = {one.name, dtype_of<Element>, std::as_bytes(std::span(one.data, one.size))};
  }
  template <fixed_string Name>
  void add(const meganeura::bound_symbol<Name>& one) {
    symbols_[symbol_count_++] = {one.name, one.extent};
  }
  std::array<input_values, Count> inputs_;
  std::array<symbol_extent, Count> symbols_;
  std::size_t input_count_ = 0, symbol_count_ = 0;
};

// An input may be called like a symbol.
template <class... Bound>
constexpr bool bound_once() {
  const std::string_view names[] = {"", Bound::name...};
  const bool symbols[] = {false, binds_symbol<Bound>...};
  for (std::size_t i = 1; i <= sizeof...(Bound); ++i) {
    for (std::size_t k = 1; k < i; ++k) {
      if (symbols[i] == symbols[k] && names[i] == names[k]) return false;
    }
  }
  return true;
}

template <class... Bound>
constexpr bool expect_bindings() {
  static_assert((is_binding<Bound> && ...),
                "meganeura: run(bind<name>(..), ..): values and sizes of a typed model are bound by name; write "
                "run(bind<\"x\">(values)) for run(values) and for run({{\"x\", values}}), and so in start, step and "
                "evaluate");
  return (is_binding<Bound> && ...);
}

template <class Model, class... Bound>
bound_values<sizeof...(Bound)> checked_values(const Bound&... bound) {
  if constexpr (expect_bindings<Bound...>()) {
    (check_bound<Model>(bound), ...);
    static_assert(bound_once<Bound...>(),
                  "meganeura: run(bind<name>(..), ..): a name is bound twice; bind each input and each symbol once");
    return bound_values<sizeof...(Bound)>(bound...);
  } else {
    return bound_values<sizeof...(Bound)>();
  }
}

// Braces, which no template takes: refused.
using unbound_values = std::initializer_list<input_values>;

// `Model`: one, or one with its loss.
template <class Model>
[[nodiscard]] open_sizes sizes_of(const symbol_extents& fixed) {
  std::vector<sized_input> inputs;
  for (int i = 0; i < Model::input_list::size; ++i) {
    inputs.push_back({Model::input_list::symbols[i]->text, *Model::input_type(i).shape});
  }
  return {symbols_of<Model>(), std::move(inputs), fixed};
}

// Where sizes are open, a misspelt tap is found all the same before the first program.
template <class Model, class Options>
[[nodiscard]] const Options& checked_taps(const Options& options) {
  check_taps(options.program.taps, Model::bodies);
  return options;
}

// Where sizes are open, parameters and states are there before the first program: init, load or set them.
template <class Model>
[[nodiscard]] parameters parameters_of(const device& on, parameters given, const symbol_extents& fixed) {
  if (given || !sizes_of<Model>(fixed).any()) return given;
  graph g;
  lower_leaves(g, Model::bodies, fixed.list());
  return {on, g};
}

template <class Model, fixed_string Name>
[[nodiscard]] auto read_result(const inference& ran) {
  return ran.read<host_number<Model::template result<Name>.type>>(Name.text);
}
// A single one as it is, several as a result_list.
template <class Model, fixed_string... Names>
[[nodiscard]] auto read_results(const inference& ran, name_list<Names...> names) {
  if constexpr (sizeof...(Names) == 1) {
    return (read_result<Model, Names>(ran), ...);
  } else {
    return result_list<decltype(names), decltype(read_result<Model, Names>(ran))...>(read_result<Model, Names>(ran)...);
  }
}

}  // namespace detail

/// A model ready to run forward. Sessions and trainers of one model can share `parameters`. Its symbols are what is
/// bound says: a run with new sizes builds a program first, one with known ones does not; at most
/// run_options::most_sizes are kept.
template <class Model>
class session : public inference {
 public:
  /// `fixed` has symbols that never change, e.g. {{"batch", 32}}: where that is all of them, the program is built at
  /// once. Parameters have no values: init, load or set them. errors: invalid_argument for an unknown symbol, or one
  /// that is open though a parameter's shape has it, and for a pattern of program_options::taps without a tap; what
  /// `program` throws.
  explicit session(const device& on, const symbol_extents& fixed = {}, const run_options& options = {})
      : session(on, meganeura::parameters(), fixed, options) {}

  /// With the weights of another session or trainer of the same model.
  session(const device& on, meganeura::parameters weights, const symbol_extents& fixed = {},
          const run_options& options = {}) try
      : inference(on,
                  {detail::sizes_of<Model>(fixed), [](const symbol_extents& at) { return lower<Model>(at.list()); }},
                  detail::checked_taps<Model>(options), detail::parameters_of<Model>(on, std::move(weights), fixed)) {
  } catch (...) {
    rethrow_as_error("building a session");
  }

  /// Runs once and waits. Every input of the model is bound by name: run(bind<"image">(images)); a name the model does
  /// not have, one bound twice, or another element type, does not compile. A symbol that inputs leave open is bound as
  /// well: run(bind<"tokens">(tokens), bind<"sequence">(128)). Returns a copy of the result, a std::vector of float, or
  /// of std::int32_t, std::uint8_t and so on for integers; of several results a result_list: auto [logits, hidden] =
  /// s.run(...), or s.run(...).get<"logits">(). errors: invalid_argument for a span of the wrong size, naming the shape
  /// it should have, for sizes that stay unknown, and for parameters that have no values yet.
  template <class... Bound>
  auto run(const Bound&... bound) {
    start(bound...);
    return detail::read_results<Model>(*this, typename Model::output_list{});
  }
  template <class Values = detail::unbound_values>
  auto run(const detail::unbound_values&, const symbol_extents& = {}) {
    (void)detail::expect_bindings<Values>();
    return run();
  }

  /// Runs once without waiting; read results by name afterwards.
  template <class... Bound>
  std::uint64_t start(const Bound&... bound) {
    const auto values = detail::checked_values<Model>(bound...);
    return inference::start(values.inputs(), values.symbols());
  }
  template <class Values = detail::unbound_values>
  std::uint64_t start(const detail::unbound_values&, const symbol_extents& = {}) {
    (void)detail::expect_bindings<Values>();
    return start();
  }

  /// A copy of a result of the latest run, or of a tap that program_options::taps asks for; waits for it:
  /// read<"logits">(), read<"layers.3.hidden">(). A name that the model does not have does not compile. errors:
  /// invalid_argument before the first run, and for a tap that was not asked for.
  template <fixed_string Name>
  [[nodiscard]] auto read() const {
    return detail::read_result<Model, Name>(*this);
  }
  using inference::read;
};

}  // namespace meganeura::inline MEGANEURA_ABI
