// SPDX-License-Identifier: MIT
// A step of any graph, to be measured.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/graph/graph.hpp>
#include <meganeura/runtime/parameters.hpp>
#include <meganeura/runtime/program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::detail {

// A graph's program with parameters of its own, and a step of it with inputs that any program takes. What a graph
// updates begins anew with each step, so that no number grows beyond those that models have: products of NaN and of
// infinities take other ways.
class tuned_step {
 public:
  tuned_step(const device& on, const graph& g, const program_options& options)
      : updates_(!g.effects().empty()), weights_(on, g), run_((weights_.init(), program(on, g, weights_, options))) {
    const auto& bytes = run_.plan().area_bytes[plan::index_of(plan::area::step_values)];
    kernels::step_values ones{.step = 1};
    for (float& number : ones.numbers) number = 1;  // as good as any that is not 0: some divide
    numbers_.resize(std::max<std::uint64_t>(bytes / plan::tensor_alignment, 1), ones);
    for (const plan::named_tensor& input : run_.plan().inputs.tensors) {
      const auto count = static_cast<std::size_t>(input.extents.elements());
      std::vector<float> numbers(host_type(input.type) == dtype::f32 ? count : 0);
      for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 97 + 1) / 97;
      inputs_.push_back(std::move(numbers));
      zeros_.resize(std::max(zeros_.size(), static_cast<std::size_t>(input.bytes)));
    }
  }
  void step() {
    if (updates_ && is_begun_) weights_.init();
    is_begun_ = true;
    std::vector<input_values> bound;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const plan::named_tensor& input = run_.plan().inputs.tensors[i];
      if (inputs_[i].empty())
        bound.emplace_back(
            input.name, input.type,
            std::span(zeros_).first(static_cast<std::size_t>(storage_bytes(input.type, input.extents.elements()))));
      else
        bound.emplace_back(input.name, dtype::f32, std::as_bytes(std::span(inputs_[i])));
    }
    run_.wait(run_.submit(numbers_, bound));
  }
  [[nodiscard]] const program& get() const { return run_; }

 private:
  bool updates_, is_begun_ = false;
  parameters weights_;
  program run_;
  std::vector<kernels::step_values> numbers_;
  std::vector<std::vector<float>> inputs_;  // empty where an input has other numbers: zeros
  std::vector<std::byte> zeros_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::detail
