// SPDX-License-Identifier: MIT
// Bags of a table's rows, each as one row.
#pragma once
#include <meganeura/expr/traced.hpp>
#include <meganeura/ops/gather.hpp>
#include <meganeura/ops/reduce.hpp>
#include <meganeura/ops/view.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// How rows of an embedding_bag become one.
enum class bag_mode : std::uint8_t { sum, mean, max };

namespace detail {

constexpr bool can_pad_bags(const symbolic_shape& table, std::int64_t padding) {
  return padding >= -1 && (!table[0].is_static() || padding < table[0].coefficient);
}

}  // namespace detail

namespace layers {

// Rows of the index `padding` are left out; -1: none.
struct embedding_bag {
  static constexpr auto forward(value auto table, value auto indices, bag_mode mode, std::int64_t padding) {
    const dtype type = table.facts().type;
    const double least = is_float(type) ? -__builtin_inf() : lowest(type);
    const auto rows = rows_of(table, indices, padding, mode == bag_mode::max ? least : 0.0);
    const int axis = indices.facts().shape.rank - 1;
    if (mode == bag_mode::sum) return sum(rows, axis);
    if (padding < 0) return mode == bag_mode::max ? max(rows, axis) : mean(rows, axis);
    const auto count =
        sum(select(is_padding(rows, indices, padding), detail::number_of(rows, 0.0, dtype::f32), 1.0), axis);
    return mode == bag_mode::max ? select(equal(count, 0.0), 0.0, max(rows, axis))
                                 : detail::narrowed(sum(detail::widened(rows), axis) / maximum(count, 1.0), table);
  }
  static constexpr auto forward(value auto table, value auto indices, value auto weights, std::int64_t padding) {
    const auto rows = rows_of(table, indices, padding, 0.0);
    const auto shares = beside(detail::widened(weights), rows);
    const auto counted = padding < 0 ? shares : select(is_padding(rows, indices, padding), 0.0, shares);
    return detail::narrowed(sum(detail::widened(rows) * counted, indices.facts().shape.rank - 1), table);
  }

 private:
  // One number for each row.
  static constexpr auto beside(value auto x, value auto rows) {
    return reshape(x, detail::followed_by_ones(x.facts().shape, rows.facts().shape.rank));
  }
  static constexpr auto is_padding(value auto rows, value auto indices, std::int64_t padding) {
    return equal(beside(indices, rows), static_cast<double>(padding));
  }
  static constexpr auto rows_of(value auto table, value auto indices, std::int64_t padding, double instead) {
    const auto rows = gather(table, indices, 0);
    return padding < 0 ? rows : select(is_padding(rows, indices, padding), instead, rows);
  }
};

}  // namespace layers

/// The rows of a table that each bag of indices names, as one row: embedding_bag<bag_mode::mean>(table, indices), or
/// embedding_bag(table, indices, mode). An index out of range counts as a row of zeros. Indices that are `padding` do
/// not count, embedding_bag<mode, padding>(table, indices) or embedding_bag(table, indices, mode, padding), -1: none; a
/// bag of nothing else is zeros. shapes: table [rows, ..], indices [.., m] -> [.., ..]. errors: "indices must be i32
/// with an axis for the bag", "the table must be floats for a mean", "padding must be a row, or -1".
template <value Table, value Indices, class Mode, class Padding = fixed<std::int64_t{-1}>>
  requires(!value<Mode>)
[[nodiscard]] constexpr auto embedding_bag(Table table, Indices indices, Mode mode, Padding padding = {}) {
  MEGANEURA_EXPECT((indices.facts().type == dtype::i32 && indices.facts().shape.rank >= 1 &&
                    detail::can_gather(table.facts().shape, indices.facts().shape, 0)),
                   "meganeura: embedding_bag<mode>(table, indices): indices must be i32 with an axis for the bag",
                   table, indices)
  MEGANEURA_EXPECT((mode != bag_mode::mean || is_float(table.facts().type)),
                   "meganeura: embedding_bag<mode>(table, indices): the table must be floats for a mean; cast it",
                   table, indices)
  MEGANEURA_EXPECT(detail::can_pad_bags(table.facts().shape, padding),
                   "meganeura: embedding_bag<mode, padding>(table, indices): padding must be a row, or -1", table,
                   indices)
  return detail::layer<layers::embedding_bag>(fixed_text<"">{}, table, indices, mode, padding);
}
template <bag_mode Mode, std::int64_t Padding = -1, value Table, value Indices>
[[nodiscard]] constexpr auto embedding_bag(Table table, Indices indices) {
  return embedding_bag(table, indices, c<Mode>, c<Padding>);
}

/// The sum of the rows that each bag names, each row times its weight; PyTorch's per_sample_weights. Padding as above:
/// embedding_bag<padding>(table, indices, weights), or embedding_bag(table, indices, weights, padding).
/// shapes: table [rows, ..], indices and weights [.., m] -> [.., ..]. dtypes: floats of one type.
/// errors: "indices must be i32 with an axis for the bag, weights floats of their shape and of the table's dtype",
/// "padding must be a row, or -1".
template <value Table, value Indices, value Weights, class Padding = fixed<std::int64_t{-1}>>
[[nodiscard]] constexpr auto embedding_bag(Table table, Indices indices, Weights weights, Padding padding = {}) {
  MEGANEURA_EXPECT(
      (indices.facts().type == dtype::i32 && indices.facts().shape.rank >= 1 &&
       detail::can_gather(table.facts().shape, indices.facts().shape, 0) &&
       weights.facts().shape == indices.facts().shape && detail::floats_of_one_type(table.facts(), weights.facts())),
      "meganeura: embedding_bag(table, indices, weights): indices must be i32 with an axis for the bag, "
      "weights floats of their shape and of the table's dtype",
      table, indices, weights)
  MEGANEURA_EXPECT(detail::can_pad_bags(table.facts().shape, padding),
                   "meganeura: embedding_bag<padding>(table, indices, weights): padding must be a row, or -1", table,
                   indices, weights)
  return detail::layer<layers::embedding_bag>(fixed_text<"">{}, table, indices, weights, padding);
}
template <std::int64_t Padding, value Table, value Indices, value Weights>
[[nodiscard]] constexpr auto embedding_bag(Table table, Indices indices, Weights weights) {
  return embedding_bag(table, indices, weights, c<Padding>);
}

}  // namespace meganeura::inline MEGANEURA_ABI
