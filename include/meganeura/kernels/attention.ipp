// SPDX-License-Identifier: MIT
// Definitions for kernels/attention.hpp.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/fusion/attention_tiles.hpp>
#include <meganeura/kernels/attention.hpp>
#include <meganeura/kernels/matmul.hpp>
#include <meganeura/kernels/scalar_emit.hpp>
#include <meganeura/kernels/tensor_access.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels {

namespace detail {

// Rows of one operand on their way through registers into workgroup memory, in groups of four along a head's width,
// which is filled up with zeros; so are rows behind the last one.
class row_block {
 public:
  row_block(spirv::kernel& k, const matmul_operand& plan, std::string_view name, std::uint32_t rows)
      : k_(k),
        plan_(plan),
        from_(k.storage_buffer<spirv::f32>(name)),
        rows_(rows),
        fours_(ceil_div(plan.k_count, 4u)),
        pitch_(fusion::attention_tiles::pitch(fours_)),
        staged_(k.shared<spirv::f32x4>(rows * pitch_)) {
    if (reads_fours()) from4_ = k.view<spirv::f32x4>(from_);
  }

  void place(const spirv::u32& batch) {
    base_ = offset_of(plan_.batch, batch) + plan_.offset;
    const std::uint32_t threads = k_.local_size()[0], pieces = rows_ * fours_;
    for (std::uint32_t done = 0; done < pieces; done += threads) {
      const spirv::u32 index = k_.local_index() + done;
      pieces_.push_back(
          {index / fours_, index % fours_, done + threads > pieces ? index < pieces : spirv::boolean(true)});
      values_.push_back(k_.variable<spirv::f32x4>());
    }
  }
  void fetch(const spirv::u32& first_row) {
    for (std::size_t i = 0; i < pieces_.size(); ++i) k_.if_(pieces_[i].needed, [&] { fetch_piece(i, first_row); });
  }
  void stage() {
    for (std::size_t i = 0; i < pieces_.size(); ++i)
      k_.if_(pieces_[i].needed, [&] { staged_[pieces_[i].row * pitch_ + pieces_[i].four] = values_[i].load(); });
  }
  [[nodiscard]] spirv::f32x4 read(const spirv::u32& row, const spirv::u32& four) const {
    return staged_[row * pitch_ + four].load();
  }
  [[nodiscard]] std::uint32_t fours() const { return fours_; }

 private:
  struct piece {
    spirv::u32 row, four;
    spirv::boolean needed;
  };
  [[nodiscard]] bool reads_fours() const { return plan_.width == 4 && plan_.along_k; }

  void fetch_piece(std::size_t i, const spirv::u32& first_row) {
    using namespace spirv;
    const bool ragged = plan_.row_count % rows_ != 0;
    const u32 row = first_row + pieces_[i].row;
    const u32 start = base_ + offset_of(plan_.rows, ragged ? min(row, u32(plan_.row_count - 1)) : row);
    const boolean inside = ragged ? row < plan_.row_count : boolean(true);
    if (reads_fours()) {
      const f32x4 four = from4_->load((start + offset_of(plan_.k, pieces_[i].four * 4u)) >> 2u);
      values_[i].store(ragged ? vector(select(inside, four[0], f32(0)), select(inside, four[1], f32(0)),
                                       select(inside, four[2], f32(0)), select(inside, four[3], f32(0)))
                              : four);
      return;
    }
    std::vector<f32> parts;
    for (std::uint32_t j = 0; j < 4; ++j) {
      const u32 at = pieces_[i].four * 4u + j;
      const bool filled = plan_.k_count % 4 != 0;
      const f32 value = from_.load(start + offset_of(plan_.k, filled ? min(at, u32(plan_.k_count - 1)) : at));
      parts.push_back(select(filled ? inside && at < plan_.k_count : inside, value, f32(0)));
    }
    values_[i].store(vector(parts[0], parts[1], parts[2], parts[3]));
  }

  spirv::kernel& k_;
  matmul_operand plan_;
  spirv::memory<spirv::f32> from_;
  std::optional<spirv::memory<spirv::f32x4>> from4_;
  std::uint32_t rows_, fours_, pitch_;
  spirv::memory<spirv::f32x4> staged_;
  spirv::u32 base_;
  std::vector<piece> pieces_;
  std::vector<spirv::var<spirv::f32x4>> values_;
};

// A product of it by the groups that are its m, n and k: of a and b one is read along these, and its result is the
// node's.
[[nodiscard]] inline matmul_problem product_of(const attention_attribute& node, const index_map& a, const index_map& b,
                                               std::size_t m, std::size_t n, std::size_t k) {
  const auto value = [](std::int64_t number) { return static_cast<std::uint32_t>(number); };
  std::array<std::vector<matmul_axis>, 5> groups;
  for (std::size_t group = 0, axis = 0; group < groups.size(); ++group) {
    for (int i = 0; i < node.axes()[group]; ++i, ++axis)
      groups[group].push_back({value(node.space[static_cast<int>(axis)]), value(a.strides[axis]),
                               value(b.strides[axis]), value(node.output.strides[axis])});
  }
  matmul_problem problem;
  problem.batch = groups[0], problem.m = groups[m], problem.n = groups[n], problem.k = groups[k];
  problem.offset_a = value(a.offset), problem.offset_b = value(b.offset),
  problem.offset_out = value(node.output.offset);
  return problem;
}
[[nodiscard]] inline matmul_problem scores_of(const attention_attribute& node) {
  return product_of(node, node.query(), node.key(), 1, 3, 4);
}
// Rows of values are keys, along which channels lie.
[[nodiscard]] inline matmul_problem values_of(const attention_attribute& node) {
  return product_of(node, node.query(), node.values(), 1, 3, 2);
}
[[nodiscard]] inline matmul_problem results_of(const attention_attribute& node) {
  return product_of(node, node.query(), node.values(), 1, 2, 3);
}

/// One kernel. An invocation computes some scores of a block; then its share of a row's weights; then, for the block's
/// keys, its share of the weighed values. `largest` and the sum of a row go from block to block, and what was added up
/// is brought to the new largest score each time.
class attention_kernel {
 public:
  attention_kernel(spirv::kernel& k, const attention_attribute& node, std::span<const dtype> types,
                   const fusion::attention_tiles& tiles)
      : k_(k),
        node_(node),
        tiles_(tiles),
        out_plan_(plan_result(results_of(node))),
        query_(k, plan_operand(scores_of(node), true), "query", tiles.rows),
        key_(k, plan_operand(scores_of(node), false), "key", tiles.keys),
        values_(k, plan_operand(values_of(node), false), "values", tiles.keys),
        scores_(k.shared<spirv::f32x4>(tiles.rows * tiles.keys / 4)),
        weights_(k.shared<spirv::f32x4>(tiles.rows * tiles.keys / 4)),
        factors_(k.shared<spirv::f32>(tiles.rows)) {
    for (std::size_t i = 3; i < types.size(); ++i) others_.emplace_back(k, types[i], "operand" + std::to_string(i));
    out_ = k.storage_buffer<spirv::f32>("out", spirv::access::write);
    if (out_plan_.width == 4) out4_ = k.view<spirv::f32x4>(*out_);
    const auto [batch, queries, channels, keys, width] = node.sizes();
    query_count_ = static_cast<std::uint32_t>(queries), key_count_ = static_cast<std::uint32_t>(keys);
    channel_count_ = static_cast<std::uint32_t>(channels);
  }

  [[nodiscard]] std::uint32_t tiles_down() const { return ceil_div(query_count_, tiles_.rows); }

  void emit(const spirv::u32& linear) {
    using namespace spirv;
    batch_ = linear / tiles_down();
    first_query_ = linear % tiles_down() * tiles_.rows;
    query_.place(batch_), key_.place(batch_), values_.place(batch_);
    query_.fetch(first_query_);
    query_.stage();
    begin();
    key_.fetch(0u), values_.fetch(0u);
    k_.for_(0, key_count_, tiles_.keys, [&](const u32& first_key) {
      key_.stage(), values_.stage();
      k_.barrier();
      const u32 next = first_key + tiles_.keys;
      k_.if_(next < key_count_, [&] { key_.fetch(next), values_.fetch(next); });
      score(first_key);
      k_.barrier();
      weigh();
      k_.barrier();
      add_up();
      k_.barrier();
    });
    finish();
  }

 private:
  // Of a block's scores an invocation has rows_each x keys_each.
  [[nodiscard]] std::uint32_t scores_each() const { return tiles_.rows * tiles_.keys / tiles_.invocations; }
  [[nodiscard]] std::uint32_t rows_each() const { return scores_each() >= 4 ? 2 : 1; }
  [[nodiscard]] std::uint32_t keys_each() const { return scores_each() / rows_each(); }
  // Neighbouring invocations share a row of weights.
  [[nodiscard]] std::uint32_t lanes() const { return tiles_.invocations / tiles_.rows; }
  // Of the weighed values it has four channels of several rows; some invocations have none.
  [[nodiscard]] std::uint32_t down() const {
    std::uint32_t count = tiles_.rows;
    while (count > 1 && count * values_.fours() > tiles_.invocations) count /= 2;
    return count;
  }
  [[nodiscard]] std::uint32_t results_each() const { return tiles_.rows / down(); }

  void begin() {
    using namespace spirv;
    largest_ = k_.variable<f32>(-std::numeric_limits<float>::infinity());
    total_ = k_.variable<f32>(0.0f);
    for (std::uint32_t i = 0; i < results_each(); ++i) weighed_.push_back(k_.variable<f32x4>());
  }

  void score(const spirv::u32& first_key) {
    using namespace spirv;
    const std::uint32_t across = tiles_.keys / keys_each();
    const u32 row = k_.local_index() / across * rows_each(), key = k_.local_index() % across;
    std::vector<var<f32>> sums;
    for (std::uint32_t i = 0; i < scores_each(); ++i) sums.push_back(k_.variable<f32>(0.0f));
    const std::uint32_t fours = query_.fours(), once = fours % 4 == 0 ? 4 : fours % 2 == 0 ? 2 : 1;
    k_.for_(0, fours, once, [&](const u32& first) {
      std::vector<f32> total;
      for (const auto& sum : sums) total.push_back(sum.load());
      for (std::uint32_t step = 0; step < once; ++step) {
        std::vector<f32x4> left, right;
        for (std::uint32_t i = 0; i < rows_each(); ++i) left.push_back(query_.read(row + i, first + step));
        for (std::uint32_t j = 0; j < keys_each(); ++j) right.push_back(key_.read(key + j * across, first + step));
        for (std::uint32_t each = 0; each < scores_each(); ++each) {
          for (std::uint32_t c = 0; c < 4; ++c)
            total[each] = fma(left[each / keys_each()][c], right[each % keys_each()][c], total[each]);
        }
      }
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i].store(total[i]);
    });
    for (std::uint32_t each = 0; each < scores_each(); ++each) {
      const u32 m = row + each / keys_each(), n = key + each % keys_each() * across;
      const u32 place = first_key + n;
      const bool ragged = key_count_ % tiles_.keys != 0;
      f32 value = finished(sums[each].load(), first_query_ + m, ragged ? min(place, u32(key_count_ - 1)) : place);
      if (ragged) value = select(place < key_count_, value, f32(-std::numeric_limits<float>::infinity()));
      score_at(m * tiles_.keys + n) = value;
    }
  }

  [[nodiscard]] spirv::place<spirv::f32> score_at(const spirv::u32& place) const {
    return scores_.component(place >> 2u, place & 3u);
  }

  // Rows behind the last one are some row's: they are not stored.
  [[nodiscard]] spirv::f32 finished(const spirv::f32& sum, const spirv::u32& query, const spirv::u32& key) const {
    using namespace spirv;
    const u32 m = query_count_ % tiles_.rows == 0 ? query : min(query, u32(query_count_ - 1));
    const int second = node_.batch_axes, third = second + node_.query_axes, fourth = third + node_.channel_axes;
    return f32(kernels::emit(k_, node_.score, [&](int argument) -> scalar_value {
      if (argument == 0) return sum;
      const index_map& map = node_.of_argument(argument);
      const u32 offset = u32(static_cast<std::uint32_t>(map.offset)) +
                         group_offset(node_.space, map, 0, node_.batch_axes, batch_) +
                         group_offset(node_.space, map, second, node_.query_axes, m) +
                         group_offset(node_.space, map, fourth, node_.key_axes, key);
      if (map.source == index_map::index_source) return bitcast<i32>(offset);
      return others_[static_cast<std::size_t>(map.source) - 3].load(offset);
    }));
  }

  [[nodiscard]] spirv::f32 apply(scalar_op kind, const spirv::f32& a) const {
    const scalar_value operands[] = {a};
    return spirv::f32(kernels::emit(k_, {kind, dtype::f32}, operands));
  }

  // A row whose scores are all -infinity so far has added up nothing, and at the end divides by that.
  void weigh() {
    using namespace spirv;
    const u32 row = k_.local_index() / lanes(), lane = k_.local_index() % lanes();
    const f32 nothing(-std::numeric_limits<float>::infinity());
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
    const f32 factor = select(largest == before, f32(1), apply(scalar_op::exp, before - largest));
    total_->store(total_->load() * factor);
    const auto use = [&](const u32& n) {
      const f32 value = score_at(row * tiles_.keys + n).load();
      const f32 e = select(largest == nothing, f32(0), apply(scalar_op::exp, value - largest));
      *total_ += e;
      const f32 weight(
          kernels::emit(k_, node_.weight, [&](int argument) -> scalar_value { return argument == 0 ? value : e; }));
      const u32 place = n * tiles_.rows + row;
      weights_.component(place >> 2u, place & 3u) = weight;
    };
    for (std::uint32_t j = 0; j < tiles_.keys; j += lanes()) use(lane + j);
    largest_->store(largest);
    k_.if_(lane == 0u, [&] { factors_[row] = factor; });
  }

  // Weights of `results_each` rows at one key.
  [[nodiscard]] std::vector<spirv::f32> weights_at(const spirv::u32& place) const {
    std::vector<spirv::f32> result;
    const std::uint32_t each = results_each();
    for (std::uint32_t i = 0; i < each; i += each % 4 == 0 ? 4 : 1) {
      const spirv::u32 at = place + i;
      if (each % 4 == 0) {
        const spirv::f32x4 four = weights_[at >> 2u].load();
        for (std::uint32_t c = 0; c < 4; ++c) result.push_back(four[c]);
      } else {
        result.push_back(weights_.component(at >> 2u, at & 3u).load());
      }
    }
    return result;
  }

  template <class Body>
  void if_has_results(Body&& body) {
    const std::uint32_t count = down() * values_.fours();
    k_.if_(count == tiles_.invocations ? spirv::boolean(true) : k_.local_index() < count, std::forward<Body>(body));
  }
  [[nodiscard]] spirv::u32 first_result() const { return k_.local_index() / values_.fours() * results_each(); }

  void add_up() {
    using namespace spirv;
    if_has_results([&] {
      const u32 row = first_result(), four = k_.local_index() % values_.fours();
      for (std::uint32_t i = 0; i < results_each(); ++i) weighed_[i].store(weighed_[i].load() * factors_.load(row + i));
      k_.for_(0, tiles_.keys, 8, [&](const u32& first) {
        std::vector<f32x4> total;
        for (const auto& each : weighed_) total.push_back(each.load());
        for (std::uint32_t j = 0; j < 8; ++j) {
          const f32x4 value = values_.read(first + j, four);
          const std::vector<f32> weight = weights_at((first + j) * tiles_.rows + row);
          for (std::uint32_t i = 0; i < results_each(); ++i)
            total[i] = fma(f32x4(widened(weight[i], 4)), value, total[i]);
        }
        for (std::uint32_t i = 0; i < results_each(); ++i) weighed_[i].store(total[i]);
      });
    });
  }

  void finish() {
    using namespace spirv;
    score_at(k_.local_index()) = total_->load();  // [row][lane], of which there are as many as invocations
    k_.barrier();
    if_has_results([&] {
      const u32 four = k_.local_index() % values_.fours();
      for (std::uint32_t i = 0; i < results_each(); ++i) {
        const u32 row = first_result() + i, query = first_query_ + row;
        f32 total(0);
        for (std::uint32_t lane = 0; lane < lanes(); ++lane) total = total + score_at(row * lanes() + lane).load();
        const auto write = [&] { store(query, four * 4u, weighed_[i].load(), total); };
        k_.if_(query_count_ % tiles_.rows == 0 ? boolean(true) : query < query_count_, write);
      }
    });
  }

  void store(const spirv::u32& query, const spirv::u32& channel, const spirv::f32x4& sums, const spirv::f32& total) {
    using namespace spirv;
    std::vector<f32> quotients;
    for (std::uint32_t c = 0; c < 4; ++c) {
      const scalar_value operands[] = {sums[c], total};
      quotients.push_back(f32(kernels::emit(k_, {scalar_op::divide, dtype::f32}, operands)));
    }
    const u32 row = offset_of(out_plan_.batch, batch_) + offset_of(out_plan_.m, query) +
                    static_cast<std::uint32_t>(node_.output.offset);
    if (out4_) {
      (*out4_)[(row + offset_of(out_plan_.n, channel)) >> 2u] =
          vector(quotients[0], quotients[1], quotients[2], quotients[3]);
      return;
    }
    for (std::uint32_t c = 0; c < 4; ++c) {
      const u32 at = channel + c;
      k_.if_(channel_count_ % 4 == 0 ? boolean(true) : at < channel_count_,
             [&] { (*out_)[row + offset_of(out_plan_.n, at)] = quotients[c]; });
    }
  }

  spirv::kernel& k_;
  const attention_attribute& node_;
  const fusion::attention_tiles tiles_;
  matmul_result out_plan_;
  row_block query_, key_, values_;
  spirv::memory<spirv::f32x4> scores_, weights_;  // [row][key], [key][row]
  spirv::memory<spirv::f32> factors_;             // of rows, by which what was added up before this block shrinks
  std::vector<bound_tensor> others_;
  std::optional<spirv::memory<spirv::f32>> out_;
  std::optional<spirv::memory<spirv::f32x4>> out4_;
  std::uint32_t query_count_ = 0, key_count_ = 0, channel_count_ = 0;
  spirv::u32 batch_, first_query_;
  std::optional<spirv::var<spirv::f32>> largest_, total_;  // of the row, and of it what the invocation added up
  std::vector<spirv::var<spirv::f32x4>> weighed_;
};

}  // namespace detail

MEGANEURA_INLINE kernel_dispatch make_attention(const attention_attribute& node, std::span<const dtype> types,
                                                dtype result, const device_profile& on) {
  const auto is_f32 = [](dtype type) { return type == dtype::f32; };
  if (result != dtype::f32 || !std::all_of(types.begin(), types.begin() + 3, is_f32))
    fail(error_category::unsupported,
         "attention of {}, {} and {} giving {} was asked for; its kernels are of f32: cast the operands",
         to_string(types[0]), to_string(types[1]), to_string(types[2]), to_string(result));
  const auto [batch, queries, channels, keys, width] = node.sizes();
  const fusion::attention_tiles tiles = fusion::tiles_of_attention(node, on);
  if (tiles.rows == 0)
    fail(
        error_category::unsupported,
        "attention over {} keys with heads {} and {} wide was asked for; there are kernels for up to {} keys and heads "
        "up to {} wide, as far as workgroup memory of {} bytes has room",
        keys, width, channels, fusion::most_keys, fusion::widest_head, on.max_shared_bytes);
  spirv::kernel k(fmt::format("attention {}x{}x{}x{}", batch, queries, keys, width), {tiles.invocations, 1, 1});
  detail::attention_kernel rows(k, node, types, tiles);
  const auto count = static_cast<std::uint64_t>(tiles.count);
  const auto groups = detail::spread_groups(count, on);
  const spirv::u32 linear = detail::linear_group(k, groups);
  detail::if_inside(k, linear, count, std::uint64_t{groups[0]} * groups[1], [&] { rows.emit(linear); });
  return {k.finish(), groups};
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
