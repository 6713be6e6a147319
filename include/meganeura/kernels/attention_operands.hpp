// SPDX-License-Identifier: MIT
// What kernels of attention have in common: rows on their way, what scores become, and where results are stored.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/fusion/visible_keys.hpp>
#include <meganeura/graph/attribute.hpp>
#include <meganeura/kernels/matmul.hpp>
#include <meganeura/kernels/scalar_emit.hpp>
#include <meganeura/kernels/tensor_access.hpp>

#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels::detail {

/// Rows of one operand on their way through registers into workgroup memory, in groups of four along a head's width,
/// which is filled up with zeros; so are rows behind the last one. `lanes` neighbouring invocations share a row.
class row_block {
 public:
  row_block(spirv::kernel& k, const matmul_operand& plan, std::string_view name, std::uint32_t rows,
            std::uint32_t lanes)
      : k_(k), plan_(plan), from_(k.storage_buffer<spirv::f32>(name)), rows_(rows), lanes_(lanes) {
    if (reads_fours()) from4_ = k.view<spirv::f32x4>(from_);
  }

  /// `index`: of the invocation.
  void place(const spirv::u32& batch, const spirv::u32& index) {
    base_ = offset_of(plan_.batch, batch) + plan_.offset;
    if (is_ragged()) first_row_ = k_.variable<spirv::u32>();
    const std::uint32_t threads = k_.local_size()[0], pieces = rows_ * lanes_;
    for (std::uint32_t done = 0; done < pieces; done += threads) {
      const spirv::u32 at = index + done;
      pieces_.push_back({at / lanes_, at % lanes_, done + threads > pieces ? at < pieces : spirv::boolean(true)});
      values_.push_back(k_.variable<spirv::f32x4>());
    }
  }
  /// To look at what comes before each() would be to wait for it.
  void fetch(const spirv::u32& first_row) {
    if (is_ragged()) first_row_->store(first_row);
    for (std::size_t i = 0; i < pieces_.size(); ++i) k_.if_(pieces_[i].needed, [&] { fetch_piece(i, first_row); });
  }
  /// body(row, four, values) for each piece of this invocation.
  template <class Body>
  void each(const Body& body) const {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      k_.if_(pieces_[i].needed, [&] { body(pieces_[i].row, pieces_[i].four, filled_up(i)); });
    }
  }
  /// One element in memory.
  [[nodiscard]] spirv::f32 element(const spirv::u32& row, const spirv::u32& along) const {
    return from_.load(base_ + offset_of(plan_.rows, row) + offset_of(plan_.k, along));
  }
  [[nodiscard]] std::uint32_t lanes() const { return lanes_; }
  [[nodiscard]] spirv::kernel& owner() const { return k_; }

 protected:
  struct piece {
    spirv::u32 row, four;
    spirv::boolean needed;
  };
  [[nodiscard]] const std::vector<piece>& pieces() const { return pieces_; }
  [[nodiscard]] spirv::u32 inside(const spirv::u32& row) const {
    return is_ragged() ? min(row, spirv::u32(plan_.row_count - 1)) : row;
  }

 private:
  [[nodiscard]] bool reads_fours() const { return plan_.width == 4 && plan_.along_k; }
  // Lanes behind a row's end, where a row has a power of two of them.
  [[nodiscard]] bool is_filled() const { return lanes_ * 4 > plan_.k_count; }

  [[nodiscard]] bool is_ragged() const { return plan_.row_count % rows_ != 0; }

  void fetch_piece(std::size_t i, const spirv::u32& first_row) {
    using namespace spirv;
    const u32 start = base_ + offset_of(plan_.rows, inside(first_row + pieces_[i].row));
    const u32 first = pieces_[i].four * 4u, last(plan_.k_count - 1);
    if (reads_fours()) {
      const u32 at = is_filled() ? min(first, last - 3u) : first;
      values_[i].store(from4_->load((start + offset_of(plan_.k, at)) >> 2u));
      return;
    }
    std::vector<f32> parts;
    for (std::uint32_t j = 0; j < 4; ++j)
      parts.push_back(from_.load(start + offset_of(plan_.k, is_filled() ? min(first + j, last) : first + j)));
    values_[i].store(vector(parts[0], parts[1], parts[2], parts[3]));
  }

  // With zeros where there is nothing.
  [[nodiscard]] spirv::f32x4 filled_up(std::size_t i) const {
    using namespace spirv;
    const f32x4 four = values_[i].load();
    if (!is_ragged() && !is_filled()) return four;
    const boolean is_row = is_ragged() ? first_row_->load() + pieces_[i].row < plan_.row_count : boolean(true);
    const auto part = [&](std::uint32_t j) {
      const boolean is_there = is_filled() ? is_row && pieces_[i].four * 4u + j < plan_.k_count : is_row;
      return select(is_there, four[j], f32(0.0f));
    };
    return vector(part(0), part(1), part(2), part(3));
  }

  spirv::kernel& k_;
  matmul_operand plan_;
  spirv::memory<spirv::f32> from_;
  std::optional<spirv::memory<spirv::f32x4>> from4_;
  std::uint32_t rows_, lanes_;
  spirv::u32 base_;
  std::optional<spirv::var<spirv::u32>> first_row_;  // of what is on its way
  std::vector<piece> pieces_;
  std::vector<spirv::var<spirv::f32x4>> values_;
};

/// A product of it by the groups that are its m, n and k: of a and b one is read along these, and the result lies as
/// `out` has it.
[[nodiscard]] inline matmul_problem product_of(const attention_attribute& node, const index_map& a, const index_map& b,
                                               const index_map& out, std::size_t m, std::size_t n, std::size_t k) {
  const auto value = [](std::int64_t number) { return static_cast<std::uint32_t>(number); };
  std::array<std::vector<matmul_axis>, 5> groups;
  for (std::size_t group = 0, axis = 0; group < groups.size(); ++group) {
    for (int i = 0; i < node.axes()[group]; ++i, ++axis)
      groups[group].push_back({value(node.space[static_cast<int>(axis)]), value(a.strides[axis]),
                               value(b.strides[axis]), value(out.strides[axis])});
  }
  matmul_problem problem;
  problem.batch = groups[0], problem.m = groups[m], problem.n = groups[n], problem.k = groups[k];
  problem.offset_a = value(a.offset), problem.offset_b = value(b.offset), problem.offset_out = value(out.offset);
  return problem;
}
[[nodiscard]] inline matmul_problem scores_of(const attention_attribute& node) {
  return product_of(node, node.query(), node.key(), node.output, 1, 3, 4);
}
/// Of rows of `of` (those of queries have the output's gradient) and of values, which are keys' rows: channels are
/// terms.
[[nodiscard]] inline matmul_problem values_of(const attention_attribute& node, const index_map& of) {
  return product_of(node, of, node.values(), node.output, 1, 3, 2);
}
[[nodiscard]] inline matmul_problem values_of(const attention_attribute& node) { return values_of(node, node.query()); }

/// Rows of a result as they are stored, four neighbours at a time.
class stored_rows {
 public:
  /// Of `out`, the groups `rows` and `columns`.
  stored_rows(spirv::kernel& k, const attention_attribute& node, const index_map& out, std::size_t rows,
              std::size_t columns, std::string_view name)
      : k_(k),
        plan_(plan_result(product_of(node, node.query(), node.values(), out, rows, columns, 3))),
        offset_(static_cast<std::uint32_t>(out.offset)),
        count_(static_cast<std::uint32_t>(node.sizes()[columns])),
        out_(k.storage_buffer<spirv::f32>(name, spirv::access::write)) {
    if (plan_.width == 4) out4_ = k.view<spirv::f32x4>(out_);
  }
  /// In a row that exists; what is behind its end is left out.
  void store(const spirv::u32& batch, const spirv::u32& row, const spirv::u32& column, const spirv::f32x4& four) const {
    using namespace spirv;
    const auto place_of = [&](const u32& at) {
      return offset_of(plan_.batch, batch) + offset_of(plan_.m, row) + offset_of(plan_.n, at) + offset_;
    };
    if (out4_) {
      (*out4_)[place_of(column) >> 2u] = four;
      return;
    }
    for (std::uint32_t c = 0; c < 4; ++c) {
      const u32 at = column + c;
      k_.if_(count_ % 4 == 0 ? boolean(true) : at < count_, [&] { out_[place_of(at)] = four[c]; });
    }
  }

 private:
  spirv::kernel& k_;
  matmul_result plan_;
  std::uint32_t offset_, count_;
  spirv::memory<spirv::f32> out_;
  std::optional<spirv::memory<spirv::f32x4>> out4_;
};

/// What kernels of attention have in common: what scores become, and where quotients are stored.
class attention_kernel {
 public:
  attention_kernel(spirv::kernel& k, const attention_attribute& node) : k_(k), node_(node) {
    const auto [batch, queries, channels, keys, width] = node.sizes();
    query_count_ = static_cast<std::uint32_t>(queries), key_count_ = static_cast<std::uint32_t>(keys);
    channel_count_ = static_cast<std::uint32_t>(channels), width_ = static_cast<std::uint32_t>(width);
  }

 protected:
  /// Of what the score's program reads, behind the bindings of the node's own operands.
  void bind_others(std::span<const dtype> types) {
    const std::size_t end = types.size() - (node_.schedule.prepared ? 2 : 0);
    for (std::size_t i = node_.own_accesses(); i < end; ++i)
      others_.emplace_back(k_, types[i], "operand" + std::to_string(i));
    for (std::size_t i = end; i < types.size(); ++i)
      prepared_.push_back(k_.storage_buffer<spirv::u32>(i == end ? "first_prepared" : "second_prepared"));
  }
  /// And behind these, of its rows.
  void bind_output() {
    out_.emplace(k_, node_, node_.output, 1, 2, "out");
    if (!node_.further.empty()) statistics_ = k_.storage_buffer<spirv::f32>("statistics", spirv::access::write);
  }

  /// Rows of the other kind that a workgroup goes through, a block at a time.
  struct block_range {
    spirv::u32 begin, end;
    std::uint32_t block = 0, most = 0;  // rows, blocks
  };
  /// Those that some of `rows` rows from `first` on see, or by keys are seen by: none of the others weighs anything.
  [[nodiscard]] block_range others_of(const spirv::u32& first, std::uint32_t rows, bool by_keys,
                                      std::uint32_t block) const {
    using namespace spirv;
    const std::uint32_t count = by_keys ? query_count_ : key_count_, blocks = ceil_div(count, block);
    const fusion::visible_keys seen = fusion::visible_keys_of(node_);
    const auto each = static_cast<std::uint32_t>(seen.at_a_place);
    const std::int64_t before = by_keys ? seen.ahead : seen.behind, behind = by_keys ? seen.behind : seen.ahead;
    const auto longest = static_cast<std::int64_t>(std::max(query_count_, key_count_));
    block_range found{0u, count, block, blocks};
    if (blocks == 1) return found;
    if (before < longest) {
      const u32 reach(static_cast<std::uint32_t>(before)), from = max(by_keys ? first : first / each, reach) - reach;
      found.begin = min((by_keys ? from * each : from) / block, u32(blocks - 1)) * block;
    }
    if (behind < longest) {
      const u32 last = first + (rows - 1),
                to = (by_keys ? last : last / each) + (1 + static_cast<std::uint32_t>(behind));
      found.end = min(by_keys ? to * each : to, u32(count));
    }
    return found;
  }
  /// body(first, next) for each block; there is none behind it where `next` is not below `range.end`.
  template <class Body>
  void for_each_block(const block_range& range, spirv::unrolling hint, const Body& body) {
    k_.for_(
        range.begin, range.end, range.block, [&](const spirv::u32& first) { body(first, first + range.block); }, hint,
        range.most);
  }

  /// Which of `count` tiles of own rows is number `at`: those that go through the most others come first.
  [[nodiscard]] spirv::u32 tile_number(const spirv::u32& at, std::uint32_t count, bool by_keys) const {
    const bool grow = !by_keys && fusion::visible_keys_of(node_).ahead < key_count_;
    return grow ? (count - 1) - at : at;
  }

  /// Rows behind the last one are some row's: they are not stored. Nothing is behind the last key.
  [[nodiscard]] spirv::f32 score(const spirv::f32& sum, const spirv::u32& query, const spirv::u32& key) const {
    return spirv::f32(kernels::emit(k_, node_.score, [&](int argument) -> scalar_value {
      return argument == 0 ? scalar_value(sum) : of_argument(argument, query, key);
    }));
  }
  /// The score that a row has besides those of its keys.
  [[nodiscard]] spirv::f32 sink(const spirv::u32& query) const {
    return spirv::f32(
        kernels::emit(k_, node_.sink, [&](int argument) { return of_argument(argument, query, spirv::u32(0)); }));
  }
  /// 2^shift times what it adds to the sum of e, as seen from the largest.
  [[nodiscard]] static spirv::f32 e_of_sink(const spirv::f32& sink, const spirv::f32& largest, std::uint32_t shift) {
    return exp_below(sink - origin(largest), shift);
  }
  /// What argument `number` of the score is there.
  [[nodiscard]] scalar_value of_argument(int number, const spirv::u32& query, const spirv::u32& key) const {
    using namespace spirv;
    const index_map& map = node_.of_argument(number);
    const int fourth = node_.batch_axes + node_.query_axes + node_.channel_axes;
    const u32 offset = row_offset(map, min(query, u32(query_count_ - 1))) +
                       group_offset(node_.space, map, fourth, node_.key_axes, min(key, u32(key_count_ - 1)));
    if (map.source == index_map::index_source) return bitcast<i32>(offset);
    return others_[static_cast<std::size_t>(map.source) - node_.own_accesses()].load(offset);
  }
  /// Of what depends on rows alone.
  [[nodiscard]] spirv::u32 row_offset(const index_map& map, const spirv::u32& query) const {
    return spirv::u32(static_cast<std::uint32_t>(map.offset)) +
           group_offset(node_.space, map, 0, node_.batch_axes, batch_) +
           group_offset(node_.space, map, node_.batch_axes, node_.query_axes, query);
  }

  /// By which what was added up shrinks where the largest score is another one now.
  [[nodiscard]] spirv::f32 shrinking(const spirv::f32& before, const spirv::f32& largest) const {
    return select(largest == before, spirv::f32(1), exp_below(before - largest, 0));
  }
  /// What scores are seen from: the largest; a row whose scores are all -infinity so far adds up nothing, and at the
  /// end divides by that.
  [[nodiscard]] static spirv::f32 origin(const spirv::f32& largest) {
    return select(largest == nothing, spirv::f32(0), largest);
  }
  /// 2^shift e^x for x <= 0, 0 where e^x is no normal number: 2^r as devices have it, |r| <= 1/2, where they are a few
  /// ulp off.
  [[nodiscard]] static spirv::f32 exp_below(const spirv::f32& x, std::uint32_t shift) {
    using namespace spirv;
    constexpr float log2e = 0x1.715476p+0f, rest = 0x1.4ae0cp-26f;
    const f32 least(-87.336f);
    const boolean is_lost = x < least;
    const f32 bounded = select(is_lost, least, x);
    // Whole numbers end at the last bit of such a sum: of 1.5 * 2^23, and of an exponent's bias.
    constexpr float whole = 12582912;
    const f32 sum = fma(bounded, f32(log2e), f32(whole));
    const f32 fraction = fma(bounded, f32(rest), fma(bounded, f32(log2e), f32(whole) - sum));
    const f32 power = bitcast<f32>((bitcast<u32>(sum) << 23u) + ((127u + shift) << 23u));
    return select(is_lost, f32(0), f32(untyped::math(glsl::exp2, f32::static_type, {fraction})) * power);
  }
  /// The same, off by |x| ulp and what the device permits itself.
  [[nodiscard]] static spirv::f32 rounded_exp(const spirv::f32& x, std::uint32_t shift) {
    using namespace spirv;
    const f32 power = fma(x, f32(0x1.715476p+0f), f32(static_cast<float>(shift)));
    return f32(untyped::math(glsl::exp2, f32::static_type, {power}));
  }
  [[nodiscard]] spirv::f32 weight(const spirv::f32& score, const spirv::f32& part) const {
    return spirv::f32(
        kernels::emit(k_, node_.weight, [&](int argument) -> scalar_value { return argument == 0 ? score : part; }));
  }

  /// Of a gradient's form: that of a score, from that of its weight times the weight.
  [[nodiscard]] spirv::f32 slope_of(const spirv::f32& score, const spirv::f32& of_weight, const spirv::u32& query,
                                    const spirv::u32& key) const {
    return spirv::f32(kernels::emit(k_, node_.slope, [&](int argument) -> scalar_value {
      if (argument < 2) return argument == 0 ? score : of_weight;
      return of_argument(argument - 1, query, key);
    }));
  }

  /// Four channels of a row that exists. `factors`: of quotients, which are not too large before.
  void store(const spirv::u32& query, const spirv::u32& channel, const spirv::f32x4& sums, const spirv::f32& total,
             const std::optional<spirv::f32x4>& factors = {}) {
    std::vector<spirv::f32> quotients;
    for (std::uint32_t c = 0; c < 4; ++c) {
      const scalar_value operands[] = {sums[c], total};
      quotients.push_back(spirv::f32(kernels::emit(k_, {scalar_op::divide, dtype::f32}, operands)));
    }
    const spirv::f32x4 all = vector(quotients[0], quotients[1], quotients[2], quotients[3]);
    out_->store(batch_, query, channel, factors ? all * *factors : all);
  }
  /// What weights count where they are f32: then no sum of so many values is beyond the largest of these.
  [[nodiscard]] float weight_unit() const { return 1.0f / static_cast<float>(std::bit_ceil(key_count_)); }
  /// What gradients want to know of a row that exists, by one invocation; total: of e.
  void store_statistics(const spirv::u32& query, const spirv::f32& largest, const spirv::f32& total) {
    if (!statistics_) return;
    const spirv::u32 at = row_offset(node_.further[0].output, query);
    const scalar_value operands[] = {spirv::f32(1), total};
    const spirv::f32 inverse(kernels::emit(k_, {scalar_op::divide, dtype::f32}, operands));
    (*statistics_)[at] = largest;
    (*statistics_)[at + row_count()] = weight(largest, inverse);
  }
  /// Number `which` of the rows that come prepared, where they do: from there. Behind batch_.
  template <class Rows>
  void read_prepared(Rows& rows, std::size_t which, const spirv::u32& index) const {
    if (!node_.schedule.prepared) return;
    const index_map& numbers = node_.prepared(which);
    rows.read_prepared(prepared_[which], static_cast<std::uint32_t>(count_of(numbers, node_.space)),
                       group_offset(node_.space, numbers, 0, node_.batch_axes, batch_), index);
  }
  [[nodiscard]] std::uint32_t row_count() const { return static_cast<std::uint32_t>(node_.sizes()[0]) * query_count_; }

  static inline const spirv::f32 nothing{-std::numeric_limits<float>::infinity()};
  spirv::kernel& k_;
  const attention_attribute& node_;
  std::uint32_t query_count_ = 0, key_count_ = 0, channel_count_ = 0, width_ = 0;
  spirv::u32 batch_, first_query_;

 private:
  std::vector<bound_tensor> others_;
  std::vector<spirv::memory<spirv::u32>> prepared_;
  std::optional<stored_rows> out_;
  std::optional<spirv::memory<spirv::f32>> statistics_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::kernels::detail
