// SPDX-License-Identifier: MIT
// Inference: a typed model bound to a device, its symbols fixed, ready to run.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/expr/lower.hpp>
#include <meganeura/runtime/program.hpp>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

template <fixed_string Name, class Element>
input_values values_of(const bound_input<Name, Element>& input) {
  return {input.name, dtype_of<Element>, std::as_bytes(std::span(input.data, input.size))};
}

}  // namespace detail

struct session_options {
  program_options program{};
  std::uint64_t seed = 0;  // of random streams: runs draw new numbers, the same seed the same from the first on
};

/// A model ready to run forward. Sessions and trainers of one model can share `parameters`.
template <class Model>
class session {
 public:
  /// `symbols` binds every symbolic dim of the model, e.g. {{"batch", 32}}. Parameters have no values: init, load or
  /// set them. errors: invalid_argument for a missing or unknown symbol; what `program` throws.
  session(const device& on, std::initializer_list<binding> symbols, const session_options& options = {})
      : session(on, meganeura::parameters(), symbols, options) {}

  /// With the weights of another session or trainer of the same model.
  session(const device& on, meganeura::parameters weights, std::initializer_list<binding> symbols,
          const session_options& options = {})
      : parameters_(std::move(weights)), seed_(options.seed), program_(build(on, symbols, options.program)) {}

  [[nodiscard]] const meganeura::parameters& parameters() const { return parameters_; }

  /// Runs once and waits. Every input of the model is bound by name: run(bind<"image">(images)); a name the model does
  /// not have, or another element type, does not compile. Returns a copy of the output. errors: invalid_argument for a
  /// span of the wrong size, naming the shape it should have, and for parameters that have no values yet.
  template <fixed_string... Names, class... Elements>
  std::vector<float> run(const bound_input<Names, Elements>&... inputs) {
    static_assert(Model::output_type == dtype::f32,
                  "meganeura: session.run: the model's output is not f32; use start() and runnable().output(name)");
    start(inputs...);
    return output("output");
  }

  /// Runs once without waiting; read outputs by name afterwards.
  template <fixed_string... Names, class... Elements>
  std::uint64_t start(const bound_input<Names, Elements>&... inputs) {
    ((void)checked_input_index<Model>(inputs), ...);
    const std::array<input_values, sizeof...(Names)> bound{detail::values_of(inputs)...};
    const std::uint64_t number = program_.submit(kernels::step_values_of(runs_ + 1, seed_), bound);
    ++runs_;  // only now: a refused run draws nothing
    return number;
  }

  /// A copy of a named output of the latest run; waits for it. errors: invalid_argument before the first run, for an
  /// unknown name, and for an output that is not f32.
  [[nodiscard]] std::vector<float> output(std::string_view name) const { return program_.output_f32(name); }

  [[nodiscard]] program& runnable() { return program_; }

 private:
  program build(const device& on, std::initializer_list<binding> symbols, const program_options& options) try {
    const graph g = lower<Model>(symbols);
    if (!parameters_) parameters_ = meganeura::parameters(on, plan::make_layout(g, op::parameter));
    return program(on, g, parameters_, options);
  } catch (...) {
    rethrow_as_error("building a session");
  }

  meganeura::parameters parameters_;
  std::uint64_t seed_;
  std::uint32_t runs_ = 0;
  program program_;
};

}  // namespace meganeura::inline MEGANEURA_ABI
