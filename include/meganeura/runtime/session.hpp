// SPDX-License-Identifier: MIT
// Inference of a typed model: names and types are checked while compiling.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/core/stopwatch.hpp>
#include <meganeura/expr/lower.hpp>
#include <meganeura/expr/symbol_extents.hpp>
#include <meganeura/runtime/inference.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

template <fixed_string Name, class Element>
input_values values_of(const bound_input<Name, Element>& input) {
  return {input.name, dtype_of<Element>, std::as_bytes(std::span(input.data, input.size))};
}

}  // namespace detail

/// A model ready to run forward. Sessions and trainers of one model can share `parameters`.
template <class Model>
class session : public inference {
 public:
  /// `symbols` binds every symbolic dim of the model, e.g. {{"batch", 32}}. Parameters have no values: init, load or
  /// set them. errors: invalid_argument for a missing or unknown symbol; what `program` throws.
  session(const device& on, const symbol_extents& symbols, const run_options& options = {})
      : session(on, meganeura::parameters(), symbols, options) {}

  /// With the weights of another session or trainer of the same model.
  session(const device& on, meganeura::parameters weights, const symbol_extents& symbols,
          const run_options& options = {}) try
      : session(on, detail::take_time([&] { return lower<Model>(symbols.list()); }), options, std::move(weights)) {
  } catch (...) {
    rethrow_as_error("building a session");
  }

  /// Runs once and waits. Every input of the model is bound by name: run(bind<"image">(images)); a name the model does
  /// not have, or another element type, does not compile. Returns a copy of the output. errors: invalid_argument for a
  /// span of the wrong size, naming the shape it should have, and for parameters that have no values yet.
  template <fixed_string... Names, class... Elements>
  std::vector<float> run(const bound_input<Names, Elements>&... inputs) {
    static_assert(Model::output_type == dtype::f32,
                  "meganeura: session.run: the model's output is not f32; use start() and program().output(name)");
    start(inputs...);
    return output("output");
  }

  /// Runs once without waiting; read outputs by name afterwards.
  template <fixed_string... Names, class... Elements>
  std::uint64_t start(const bound_input<Names, Elements>&... inputs) {
    ((void)checked_input_index<Model>(inputs), ...);
    const std::array<input_values, sizeof...(Names)> bound{detail::values_of(inputs)...};
    return inference::start(bound);
  }

 private:
  session(const device& on, const detail::timed<graph>& traced, const run_options& options,
          meganeura::parameters weights)
      : inference(on, traced.made, detail::after_trace(options, traced.milliseconds), std::move(weights)) {}
};

}  // namespace meganeura::inline MEGANEURA_ABI
