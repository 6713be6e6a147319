// SPDX-License-Identifier: MIT
// Which keys a query sees by its place alone, as the score's program has it: causal attention, sliding windows.
#pragma once
#include <meganeura/graph/attribute.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>

namespace meganeura::inline MEGANEURA_ABI::fusion {

/// A query at place p sees keys from p - behind to p + ahead; the scores of all others are a constant with which they
/// weigh nothing. Every query sees one key at least. The first axis of queries is their place: number q of all stands
/// at q / at_a_place.
struct visible_keys {
  static constexpr std::int64_t everywhere = std::int64_t{1} << 40;
  std::int64_t behind = everywhere, ahead = everywhere, places = 1, at_a_place = 1;

  [[nodiscard]] bool are_all() const { return behind == everywhere && ahead == everywhere; }
  /// Of all pairs, those that are seen.
  [[nodiscard]] double share(std::int64_t keys) const {
    std::int64_t seen = 0;
    for (std::int64_t place = 0; place < places && !are_all(); ++place)
      seen += std::min(keys, place + ahead + 1) - std::max(std::int64_t{0}, place - behind);
    return are_all() ? 1 : static_cast<double>(seen) / static_cast<double>(places * keys);
  }
};

namespace detail {

// Reads a score's program: what depends on the places of a query and a key alone.
class score_reader {
 public:
  explicit score_reader(const attention_attribute& node) : node_(node), nodes_(node.score.nodes) {}

  [[nodiscard]] visible_keys visible() const {
    visible_keys found;
    scalar_ref at = last();
    double hidden = -std::numeric_limits<double>::infinity();
    bool by_place = true;  // all that hides
    for (;;) {
      const scalar_node& n = nodes_[at];
      if (n.op == scalar_op::maximum && is_hidden(n.operands[1])) {
        hidden = std::max(hidden, nodes_[n.operands[1]].value);
        at = n.operands[0];
      } else if (n.op == scalar_op::select && is_hidden(n.operands[2])) {
        by_place = narrow(found, n.operands[0]) && by_place;
        hidden = std::max(hidden, nodes_[n.operands[2]].value);
        at = n.operands[1];
      } else if (n.op == scalar_op::select && is_hidden(n.operands[1])) {
        by_place = false;
        hidden = std::max(hidden, nodes_[n.operands[1]].value);
        at = n.operands[2];
      } else {
        break;
      }
    }
    const auto [batch, queries, channels, keys, width] = node_.sizes();
    if (node_.query_axes > 0) found.places = node_.space[node_.batch_axes];
    found.at_a_place = queries / found.places;
    const bool sees_one = found.ahead >= 0 && found.behind >= 0 && found.places - found.behind <= keys;
    if (found.are_all() || !sees_one) return {};
    // Where something else may hide all that a row sees, or its scores be as low, only the weights' program can say so;
    // but where all are minus infinity the row is NaN, whoever is asked.
    const bool is_nothing = std::isinf(hidden);
    if (!is_nothing && !zeroes_hidden(hidden) && !(by_place && is_above(at))) return {};
    return found;
  }

 private:
  // query * q + key * k + constant.
  struct place_sum {
    std::int64_t query = 0, key = 0, constant = 0;
    friend place_sum operator-(const place_sum& a, const place_sum& b) {
      return {a.query - b.query, a.key - b.key, a.constant - b.constant};
    }
    friend place_sum operator+(const place_sum& a, const place_sum& b) {
      return {a.query + b.query, a.key + b.key, a.constant + b.constant};
    }
  };

  [[nodiscard]] scalar_ref last() const { return static_cast<scalar_ref>(nodes_.size() - 1); }
  // So low that a score as low is nearly beyond f32, and e to the power of the distance is 0 for others.
  static constexpr double hidden_from = -9e37;
  [[nodiscard]] bool is_hidden(scalar_ref at) const {
    return nodes_[at].op == scalar_op::constant && nodes_[at].value <= hidden_from;
  }

  // Whether weights of such scores are 0.
  [[nodiscard]] bool zeroes_hidden(double hidden) const {
    const auto& weight = node_.weight.nodes;
    const scalar_node& root = weight[static_cast<scalar_ref>(weight.size() - 1)];
    if (root.op != scalar_op::select) return false;
    const scalar_node &condition = weight[root.operands[0]], &zero = weight[root.operands[1]];
    if (condition.op != scalar_op::less || zero.op != scalar_op::constant || zero.value != 0) return false;
    const scalar_node &score = weight[condition.operands[0]], &bound = weight[condition.operands[1]];
    return score.op == scalar_op::argument && score.value == 0 && bound.op == scalar_op::constant &&
           bound.value > hidden;
  }
  // Whether a score is never as low as what is hidden, unless it leaves a third of f32's range.
  [[nodiscard]] bool is_above(scalar_ref seen) const {
    small_vector<bool, 64> by_place(nodes_.size(), true);  // whether it depends on indices alone
    for (scalar_ref at{0}; at <= seen; ++at) {
      const scalar_node& n = nodes_[at];
      if (n.op == scalar_op::argument) by_place[at] = n.value != 0;
      for (int i = 0; i < info(n.op).arity; ++i) by_place[at] = by_place[at] && by_place[n.operands[i]];
      if (!keeps_above(n, by_place[at])) return false;
    }
    return true;
  }
  // Whether an operation of a score makes nothing that is as low as what is hidden of what is not.
  [[nodiscard]] bool keeps_above(const scalar_node& n, bool by_place) const {
    switch (n.op) {
      case scalar_op::constant:
        return n.value > hidden_from;
      case scalar_op::argument:
        return n.value == 0 || node_.of_argument(static_cast<int>(n.value)).source == index_map::index_source;
      case scalar_op::divide:
        return nodes_[n.operands[1]].op == scalar_op::constant;
      case scalar_op::select:
      case scalar_op::minimum:
      case scalar_op::exp:
        return by_place;
      case scalar_op::add:
      case scalar_op::subtract:
      case scalar_op::multiply:
      case scalar_op::negate:
      case scalar_op::abs:
      case scalar_op::tanh:
      case scalar_op::maximum:
      case scalar_op::convert:
      case scalar_op::less:
      case scalar_op::less_equal:
        return true;
      default:
        return false;
    }
  }

  [[nodiscard]] std::optional<place_sum> place_of(scalar_ref at) const {
    const scalar_node& n = nodes_[at];
    if (n.type != dtype::i32) return std::nullopt;
    if (n.op == scalar_op::constant && std::abs(n.value) < 1e9)
      return place_sum{0, 0, static_cast<std::int64_t>(n.value)};
    if (n.op == scalar_op::argument) return n.value == 0 ? std::nullopt : number_of(static_cast<int>(n.value));
    if (n.op != scalar_op::add && n.op != scalar_op::subtract) return std::nullopt;
    const auto a = place_of(n.operands[0]), b = place_of(n.operands[1]);
    if (!a || !b) return std::nullopt;
    const place_sum sum = n.op == scalar_op::add ? *a + *b : *a - *b;
    constexpr std::int64_t most = 1 << 30;  // else i32 might wrap
    return std::max({std::abs(sum.query), std::abs(sum.key), std::abs(sum.constant)}) < most ? std::optional(sum)
                                                                                             : std::nullopt;
  }
  // Of an index that goes along the first axis of queries, the one of keys or both.
  [[nodiscard]] std::optional<place_sum> number_of(int argument) const {
    const index_map& map = node_.of_argument(argument);
    if (map.source != index_map::index_source || map.bounded != 0) return std::nullopt;
    if (node_.query_axes == 0 || node_.key_axes != 1) return std::nullopt;
    const int query = node_.batch_axes, key = query + node_.query_axes + node_.channel_axes;
    for (int axis = 0; axis < node_.space.rank(); ++axis) {
      if (axis != query && axis != key && map.strides[axis] != 0) return std::nullopt;
    }
    return place_sum{map.strides[query], map.strides[key], map.offset};
  }

  // To what a condition says of places; whether it says nothing else.
  [[nodiscard]] bool narrow(visible_keys& found, scalar_ref condition) const {
    const scalar_node& n = nodes_[condition];
    if (n.op == scalar_op::logical_and) {
      const bool first = narrow(found, n.operands[0]);
      return narrow(found, n.operands[1]) && first;
    }
    if (n.op != scalar_op::less && n.op != scalar_op::less_equal) return false;
    const auto a = place_of(n.operands[0]), b = place_of(n.operands[1]);
    if (!a || !b) return false;
    const place_sum below = *a - *b;  // is less than 0, or at most
    const std::int64_t most = -below.constant - (n.op == scalar_op::less ? 1 : 0);
    if (below.key == 1 && below.query == -1)
      found.ahead = std::min(found.ahead, most);
    else if (below.key == -1 && below.query == 1)
      found.behind = std::min(found.behind, most);
    else
      return false;
    return true;
  }

  const attention_attribute& node_;
  const decltype(scalar_program::nodes)& nodes_;
};

}  // namespace detail

[[nodiscard]] inline visible_keys visible_keys_of(const attention_attribute& node) {
  return detail::score_reader(node).visible();
}

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
