// SPDX-License-Identifier: MIT
// Definitions for kernels/attention.hpp: on multiply-add, in workgroup memory; the choice between that and matrix
// units.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/fusion/attention_tiles.hpp>
#include <meganeura/kernels/attention.hpp>
#include <meganeura/kernels/attention_cooperative.hpp>
#include <meganeura/kernels/attention_gradient.hpp>
#include <meganeura/kernels/attention_lanes.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels {

namespace detail {

/// One kernel. An invocation computes some scores of a block; then its share of a row's weights; then, for the block's
/// keys, its share of the weighed values. `largest` and the sum of a row go from block to block, and what was added up
/// is brought to the new largest score each time.
class attention_by_lanes : public attention_kernel {
 public:
  attention_by_lanes(spirv::kernel& k, const attention_attribute& node, std::span<const dtype> types,
                     const fusion::attention_tiles& tiles)
      : attention_kernel(k, node),
        tiles_(tiles),
        query_(k, plan_operand(scores_of(node), true), "query", tiles.rows),
        key_(k, plan_operand(scores_of(node), false), "key", tiles.keys),
        values_(k, plan_operand(values_of(node), false), "values", tiles.keys),
        scores_(k.shared<spirv::f32x4>(tiles.rows * tiles.keys / 4)),
        weights_(k.shared<spirv::f32x4>(tiles.rows * tiles.keys / 4)),
        factors_(k.shared<spirv::f32>(tiles.rows)),
        pairs_{tiles.rows, tiles.keys, tiles.invocations},
        weighed_(k, tiles.rows, values_.fours(), tiles.invocations) {
    bind_others(types);
    bind_output();
  }

  [[nodiscard]] std::uint32_t tiles_down() const { return ceil_div(query_count_, tiles_.rows); }

  void emit(const spirv::u32& linear) {
    using namespace spirv;
    batch_ = linear / tiles_down();
    first_query_ = tile_number(linear % tiles_down(), tiles_down(), false) * tiles_.rows;
    query_.place(batch_, k_.local_index()), key_.place(batch_, k_.local_index()),
        values_.place(batch_, k_.local_index());
    query_.fetch(first_query_);
    query_.stage();
    begin();
    const block_range keys = others_of(first_query_, tiles_.rows, false, tiles_.keys);
    key_.fetch(keys.begin), values_.fetch(keys.begin);
    for_each_block(keys, unrolling::automatic, [&](const u32& first_key, const u32& next) {
      key_.stage(), values_.stage();
      k_.barrier();
      k_.if_(next < keys.end, [&] { key_.fetch(next), values_.fetch(next); });
      score_block(first_key);
      k_.barrier();
      weigh();
      k_.barrier();
      add_up();
      k_.barrier();
    });
    finish();
  }

 private:
  // Neighbouring invocations share a row of weights.
  [[nodiscard]] std::uint32_t lanes() const { return tiles_.invocations / tiles_.rows; }
  void begin() {
    using namespace spirv;
    largest_ = k_.variable<f32>(-std::numeric_limits<float>::infinity());
    total_ = k_.variable<f32>(0.0f);
    if (node_.has_sink()) {  // as if it came before all keys
      const f32 value = sink(first_query_ + k_.local_index() / lanes());
      *largest_ = value;
      k_.if_(k_.local_index() % lanes() == 0u, [&] { *total_ = e_of_sink(value, value, 0) * weight_unit(); });
    }
    weighed_.begin();
  }

  void score_block(const spirv::u32& first_key) {
    using namespace spirv;
    const std::vector<f32> sums = pairs_.products(k_, query_, key_);
    for (std::uint32_t each = 0; each < sums.size(); ++each) {
      const u32 m = pairs_.row(k_.local_index(), each), n = pairs_.other(k_.local_index(), each);
      const u32 place = first_key + n;
      const f32 value = score(sums[each], first_query_ + m, place);
      score_at(m * tiles_.keys + n) =
          key_count_ % tiles_.keys == 0 ? value : select(place < key_count_, value, nothing);
    }
  }

  [[nodiscard]] spirv::place<spirv::f32> score_at(const spirv::u32& place) const {
    return scores_.component(place >> 2u, place & 3u);
  }

  void weigh() {
    using namespace spirv;
    const u32 row = k_.local_index() / lanes(), lane = k_.local_index() % lanes();
    const f32 before = largest_->load();
    std::vector<f32> parts;
    for (std::uint32_t n = 0; n < tiles_.keys; n += 4) {
      const f32x4 four = scores_[(row * tiles_.keys + n) >> 2u].load();
      parts.push_back(max(max(four[0], four[1]), max(four[2], four[3])));
    }
    for (; parts.size() > 1; parts.resize((parts.size() + 1) / 2)) {
      for (std::size_t i = 0; i < parts.size() / 2; ++i) parts[i] = max(parts[i], parts[parts.size() - 1 - i]);
    }
    const f32 largest = max(before, parts[0]);
    const f32 factor = shrinking(before, largest), from = origin(largest);
    total_->store(total_->load() * factor);
    const auto use = [&](const u32& n) {
      const f32 value = score_at(row * tiles_.keys + n).load();
      const f32 part = exp_below(value - from, 0) * weight_unit();
      *total_ += part;
      const u32 place = n * tiles_.rows + row;
      weights_.component(place >> 2u, place & 3u) = weight(value, part);
    };
    for (std::uint32_t j = 0; j < tiles_.keys; j += lanes()) use(lane + j);
    largest_->store(largest);
    k_.if_(lane == 0u, [&] { factors_[row] = factor; });
  }

  void add_up() {
    weighed_.multiply_by(factors_);
    weighed_.add(weights_, values_, tiles_.keys);
  }

  void finish() {
    using namespace spirv;
    score_at(k_.local_index()) = total_->load();  // [row][lane], of which there are as many as invocations
    k_.barrier();
    const auto total_of = [&](const u32& row) {
      f32 total(0);
      for (std::uint32_t lane = 0; lane < lanes(); ++lane) total = total + score_at(row * lanes() + lane).load();
      return total;
    };
    const auto if_exists = [&](const u32& query, const auto& body) {
      k_.if_(query_count_ % tiles_.rows == 0 ? boolean(true) : query < query_count_, body);
    };
    weighed_.each_sum([&](const u32& row, const u32& four, const f32x4& sums) {
      const u32 query = first_query_ + row;
      const f32 total = total_of(row);
      if_exists(query, [&] { store(query, four * 4u, sums, total); });
    });
    if (node_.further.empty()) return;
    const u32 row = k_.local_index() / lanes();
    k_.if_(k_.local_index() % lanes() == 0u, [&] {
      if_exists(first_query_ + row,
                [&] { store_statistics(first_query_ + row, largest_->load(), total_of(row) / weight_unit()); });
    });
  }

  const fusion::attention_tiles tiles_;
  f32_rows query_, key_, values_;
  spirv::memory<spirv::f32x4> scores_, weights_;  // [row][key], [key][row]
  spirv::memory<spirv::f32> factors_;             // of rows, by which what was added up before this block shrinks
  std::optional<spirv::var<spirv::f32>> largest_, total_;  // of the row, and of it what the invocation added up
  pairs_of_rows pairs_;
  sums_of_rows weighed_;
};

}  // namespace detail

MEGANEURA_INLINE kernel_dispatch make_attention(const attention_attribute& node, std::span<const dtype> types,
                                                dtype result, const device_profile& on) {
  const auto is_f32 = [](dtype type) { return type == dtype::f32; };
  if (result != dtype::f32 || !std::all_of(types.begin(), types.begin() + 3, is_f32))
    fail(error_category::unsupported,
         "attention of {}, {} and {} giving {} was asked for; its kernels are of f32: cast the operands",
         to_string(types[0]), to_string(types[1]), to_string(types[2]), to_string(result));
  if (node.form != attention_form::output) return make_attention_gradient(node, types, on);
  if (node.schedule.is_on_units()) return make_cooperative_attention(node, types, on);
  const auto [batch, queries, channels, keys, width] = node.sizes();
  const fusion::attention_tiles tiles = fusion::tiles_of_attention(node, on);
  if (tiles.rows == 0)
    fail(
        error_category::unsupported,
        "attention over {} keys with heads {} and {} wide was asked for; there are kernels for up to {} keys and heads "
        "up to {} wide, as far as workgroup memory of {} bytes has room",
        keys, width, channels, fusion::most_keys, fusion::widest_head, on.max_shared_bytes);
  spirv::kernel k(fmt::format("attention {}x{}x{}x{}", batch, queries, keys, width), {tiles.invocations, 1, 1});
  detail::attention_by_lanes rows(k, node, types, tiles);
  const auto count = static_cast<std::uint64_t>(tiles.count);
  const auto groups = detail::spread_groups(count, on);
  const spirv::u32 linear = detail::linear_group(k, groups);
  detail::if_inside(k, linear, count, std::uint64_t{groups[0]} * groups[1], [&] { rows.emit(linear); });
  return {k.finish(), groups};
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
