// SPDX-License-Identifier: MIT
// Definitions for runtime/fold_batch_norms.hpp.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/runtime/fold_batch_norms.hpp>

#include <cmath>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {

// What a norm does to channel i: times scale[i], plus shift[i].
struct channel_scale {
  std::vector<double> scale, shift;
};

inline channel_scale scale_of(const parameters& from, const std::string& norm, float epsilon) {
  const std::vector<float> mean = from.get(norm + ".running_mean"), variance = from.get(norm + ".running_var");
  const auto affine = [&](const std::string& name, float otherwise) {
    return from.layout().find(name) ? from.get(name) : std::vector<float>(mean.size(), otherwise);
  };
  const std::vector<float> weight = affine(norm + ".weight", 1), bias = affine(norm + ".bias", 0);
  channel_scale made;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const double spread = std::sqrt(static_cast<double>(variance[i]) + static_cast<double>(epsilon));
    made.scale.push_back(static_cast<double>(weight[i]) / spread);
    made.shift.push_back(static_cast<double>(bias[i]) - static_cast<double>(mean[i]) * made.scale[i]);
  }
  return made;
}

// What the norm behind a layer is called; empty: there is none.
inline std::string norm_behind(const parameters& from, const std::string& layer, const name_map& norms) {
  for (std::string& each : norms.candidates(layer)) {
    if (each != layer && from.layout().find(each + ".running_var")) return std::move(each);
  }
  return {};
}

// Every norm of `from` is in some layer of `into`, or there as it is.
inline void expect_all_norms(const parameters& from, const parameters& into, const name_map& norms) {
  std::set<std::string> folded;
  for (const plan::named_tensor& each : into.layout().tensors)
    folded.insert(norm_behind(from, each.name.substr(0, each.name.rfind('.')), norms));
  for (const plan::named_tensor& each : from.layout().tensors) {
    constexpr std::string_view ending = ".running_var";
    if (!each.name.ends_with(ending) || into.layout().find(each.name)) continue;
    const std::string norm = each.name.substr(0, each.name.size() - ending.size());
    if (folded.contains(norm)) continue;
    fail(
        error_category::invalid_argument,
        "fold_batch_norms: the norm {} of the model with norms is behind no layer of the other one, by `norms`; give a "
        "rule {{layer, {}}}",
        quote(norm), quote(norm));
  }
}

inline std::vector<float> folded_values(const parameters& from, const plan::named_tensor& wanted, bool has_bias,
                                        const fold_options& options) {
  const auto expect = [&](bool holds, const char* found) {
    if (!holds) {
      fail(error_category::invalid_argument, "fold_batch_norms: {} {} cannot be made: {}", quote(wanted.name),
           to_string(wanted.extents), found);
    }
  };
  const bool is_weight = wanted.name.ends_with(".weight"), is_bias = wanted.name.ends_with(".bias");
  const std::string layer = wanted.name.substr(0, wanted.name.rfind('.'));
  const std::string norm = is_weight || is_bias ? norm_behind(from, layer, options.norms) : "";
  const plan::named_tensor* same = from.layout().find(wanted.name);
  expect(same || (is_bias && !norm.empty()),
         "the model with norms has no tensor of this name, and none of `norms` is behind its layer there");
  expect(!same || same->extents == wanted.extents, "it has another shape in the model with norms");
  std::vector<float> values =
      same ? from.get(wanted.name) : std::vector<float>(static_cast<std::size_t>(wanted.extents.elements()), 0.0f);
  if (norm.empty()) return values;

  const channel_scale by = scale_of(from, norm, options.epsilon);
  const std::size_t channels = by.scale.size(), first = static_cast<std::size_t>(wanted.extents[0]);
  // Of a transposed convolution [c, out / groups, ..].
  const bool spreads = is_weight && wanted.spreads;
  const std::size_t of_group = spreads ? static_cast<std::size_t>(wanted.extents[1]) : channels;
  expect(spreads ? channels % of_group == 0 && first % (channels / of_group) == 0 : channels == first,
         "the norm has another number of channels");
  expect(has_bias, "its layer has no bias in the model without norms, which has to add what the norm does");
  const std::size_t each = values.size() / first, each_out = spreads ? each / of_group : each;
  const auto channel_of = [&](std::size_t i) {
    if (!spreads) return i / each;
    return i / each / (first / (channels / of_group)) * of_group + i / each_out % of_group;
  };
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double scaled = static_cast<double>(values[i]) * by.scale[channel_of(i)];
    values[i] = static_cast<float>(is_bias ? scaled + by.shift[i] : scaled);
  }
  return values;
}

}  // namespace detail

MEGANEURA_INLINE void fold_batch_norms(const parameters& from, parameters into, const fold_options& options) try {
  const auto has = [&](const std::string& name) { return into.layout().find(name) != nullptr; };
  std::vector<std::pair<const plan::named_tensor*, std::vector<float>>> all;
  for (const plan::named_tensor& each : into.layout().tensors) {
    if (each.kind == op::state && !from.layout().find(each.name)) continue;
    all.emplace_back(
        &each, detail::folded_values(from, each, has(each.name.substr(0, each.name.rfind('.')) + ".bias"), options));
  }
  detail::expect_all_norms(from, into, options.norms);
  for (const auto& [tensor, values] : all) into.set(tensor->name, values);
} catch (...) {
  rethrow_as_error("folding batch norms");
}

}  // namespace meganeura::inline MEGANEURA_ABI
