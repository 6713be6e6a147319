// SPDX-License-Identifier: MIT
// Definitions for kernels/attention_gradient.hpp.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/fusion/attention_tiles.hpp>
#include <meganeura/kernels/attention_gradient.hpp>
#include <meganeura/kernels/attention_gradient_cooperative.hpp>
#include <meganeura/kernels/attention_lanes.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels {

namespace detail {

/// One kernel. A workgroup has some rows, of queries or of keys, and goes through those of the other kind, a block at a
/// time: an invocation computes some pairs' scores and gradients of these, then its share of the sums of rows that they
/// weigh. Each kind of row comes in two tensors: a query and the gradient of its output, a key and its values.
class attention_gradient_by_lanes : public attention_kernel {
 public:
  attention_gradient_by_lanes(spirv::kernel& k, const attention_attribute& node, std::span<const dtype> types,
                              const fusion::attention_tiles& tiles)
      : attention_kernel(k, node),
        tiles_(tiles),
        by_keys_(node.form == attention_form::key_gradients),
        query_(k, plan_operand(scores_of(node), true), "query", by_keys_ ? tiles.keys : tiles.rows),
        key_(k, plan_operand(scores_of(node), false), "key", by_keys_ ? tiles.rows : tiles.keys),
        values_(k, plan_operand(values_of(node), false), "values", by_keys_ ? tiles.rows : tiles.keys),
        gradient_(k, plan_operand(values_of(node, node.gradient()), true), "gradient",
                  by_keys_ ? tiles.keys : tiles.rows),
        statistics_(k.storage_buffer<spirv::f32>("statistics")),
        mean_(k.storage_buffer<spirv::f32>("mean")),
        of_queries_(k.shared<spirv::f32>(3 * query_rows())),
        slopes_(k.shared<spirv::f32x4>(tiles.rows * tiles.keys / 4)),
        pairs_{tiles.rows, tiles.keys, tiles.invocations},
        sums_(k, tiles.rows, own().fours(), tiles.invocations) {
    bind_others(types);
    out_.emplace(k, node, node.output, by_keys_ ? 3 : 1, 4, "out");
    if (!by_keys_) return;
    weights_ = k.shared<spirv::f32x4>(tiles.rows * tiles.keys / 4);
    of_values_.emplace(k, tiles.rows, values_.fours(), tiles.invocations);
    out_of_values_.emplace(k, node, node.further[0].output, 3, 2, "out_of_values");
  }

  void emit(const spirv::u32& linear) {
    using namespace spirv;
    const std::uint32_t down = ceil_div(own_count(), tiles_.rows);
    batch_ = linear / down;
    first_own_ = tile_number(linear % down, down, by_keys_) * tiles_.rows;
    for (f32_rows* each : {&query_, &key_, &values_, &gradient_}) each->place(batch_, k_.local_index());
    for (f32_rows* each : {&own(), &own_second()}) {
      each->fetch(first_own_);
      each->stage();
    }
    if (!by_keys_) read_queries(first_own_);
    sums_.begin();
    if (by_keys_) of_values_->begin();
    const block_range others = others_of(first_own_, tiles_.rows, by_keys_, tiles_.keys);
    other().fetch(others.begin), other_second().fetch(others.begin);
    for_each_block(others, unrolling::automatic, [&](const u32& first, const u32& next) {
      other().stage(), other_second().stage();
      if (by_keys_) read_queries(first);
      k_.barrier();
      k_.if_(next < others.end, [&] { other().fetch(next), other_second().fetch(next); });
      weigh(first);
      k_.barrier();
      sums_.add(slopes_, other(), tiles_.keys);
      if (by_keys_) of_values_->add(*weights_, other_second(), tiles_.keys);
      k_.barrier();
    });
    store(sums_, *out_);
    if (by_keys_) store(*of_values_, *out_of_values_);
  }

 private:
  [[nodiscard]] f32_rows& own() { return by_keys_ ? key_ : query_; }
  [[nodiscard]] f32_rows& own_second() { return by_keys_ ? values_ : gradient_; }
  [[nodiscard]] f32_rows& other() { return by_keys_ ? query_ : key_; }
  [[nodiscard]] f32_rows& other_second() { return by_keys_ ? gradient_ : values_; }
  [[nodiscard]] std::uint32_t own_count() const { return by_keys_ ? key_count_ : query_count_; }
  [[nodiscard]] std::uint32_t other_count() const { return by_keys_ ? query_count_ : key_count_; }
  [[nodiscard]] std::uint32_t query_rows() const { return by_keys_ ? tiles_.keys : tiles_.rows; }

  // Of the queries that are in workgroup memory: the largest score, 1 / the sum of e, the mean.
  void read_queries(const spirv::u32& first) {
    using namespace spirv;
    const u32 index = k_.local_index();
    k_.if_(index < query_rows(), [&] {
      const u32 query = min(first + index, u32(query_count_ - 1));
      const u32 at = row_offset(node_.accesses[4], query);
      of_queries_[index] = origin(statistics_.load(at));
      of_queries_[index + query_rows()] = statistics_.load(at + row_count());
      of_queries_[index + 2 * query_rows()] = mean_.load(row_offset(node_.accesses[5], query));
    });
  }

  void weigh(const spirv::u32& first_other) {
    using namespace spirv;
    const std::vector<f32> scores = pairs_.products(k_, own(), other());
    const std::vector<f32> products = pairs_.products(k_, own_second(), other_second());
    for (std::uint32_t i = 0; i < scores.size(); ++i) {
      const u32 m = pairs_.row(k_.local_index(), i), n = pairs_.other(k_.local_index(), i);
      const u32 row = first_own_ + m, place = first_other + n;
      const u32 &query = by_keys_ ? place : row, &key = by_keys_ ? row : place, &local = by_keys_ ? n : m;
      const f32 value = score(scores[i], query, key);
      const f32 weight = exp_below(value - of_queries_.load(local), 0) * of_queries_.load(local + query_rows());
      const f32 of_weight = products[i] - of_queries_.load(local + 2 * query_rows());
      const f32 slope = slope_of(value, weight * of_weight, query, key);
      const boolean counts = other_count() % tiles_.keys == 0 ? boolean(true) : place < other_count();
      const auto keep = [&](const memory<f32x4>& to, const f32& x) {
        const u32 at = n * tiles_.rows + m;
        to.component(at >> 2u, at & 3u) = other_count() % tiles_.keys == 0 ? x : select(counts, x, f32(0));
      };
      keep(slopes_, slope);
      if (by_keys_) keep(*weights_, weight);
    }
  }

  void store(sums_of_rows& from, const stored_rows& to) {
    from.each_sum([&](const spirv::u32& row, const spirv::u32& four, const spirv::f32x4& sums) {
      const spirv::u32 at = first_own_ + row;
      k_.if_(own_count() % tiles_.rows == 0 ? spirv::boolean(true) : at < own_count(),
             [&] { to.store(batch_, at, four * 4u, sums); });
    });
  }

  const fusion::attention_tiles tiles_;
  const bool by_keys_;
  f32_rows query_, key_, values_, gradient_;
  spirv::memory<spirv::f32> statistics_, mean_, of_queries_;
  spirv::memory<spirv::f32x4> slopes_;  // [other][row]
  std::optional<spirv::memory<spirv::f32x4>> weights_;
  pairs_of_rows pairs_;
  sums_of_rows sums_;
  std::optional<sums_of_rows> of_values_;
  std::optional<stored_rows> out_, out_of_values_;
  spirv::u32 first_own_;
};

}  // namespace detail

MEGANEURA_INLINE kernel_dispatch make_attention_gradient(const attention_attribute& node, std::span<const dtype> types,
                                                         const device_profile& on) {
  if (node.schedule.is_on_units()) return make_cooperative_attention_gradient(node, types, on);
  const auto [batch, queries, channels, keys, width] = node.sizes();
  const fusion::attention_tiles tiles = fusion::tiles_of_attention(node, on);
  if (tiles.rows == 0) {
    fail(error_category::unsupported,
         "gradients of attention with heads {} and {} wide were asked for; there are kernels for heads up to {} wide, "
         "as "
         "far as workgroup memory of {} bytes has room",
         width, channels, fusion::widest_head, on.max_shared_bytes);
  }
  spirv::kernel k(fmt::format("attention_{} {}x{}x{}x{}", to_string(node.form), batch, queries, keys, width),
                  {tiles.invocations, 1, 1});
  detail::attention_gradient_by_lanes rows(k, node, types, tiles);
  const auto count = static_cast<std::uint64_t>(tiles.count);
  const auto groups = detail::spread_groups(count, on);
  const spirv::u32 linear = detail::linear_group(k, groups);
  detail::if_inside(k, linear, count, std::uint64_t{groups[0]} * groups[1], [&] { rows.emit(linear); });
  return {k.finish(), groups};
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
