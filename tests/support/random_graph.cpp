// SPDX-License-Identifier: MIT
// Builds random graphs by trial.
#include <oracle/interpreter.hpp>
#include <support/egraph_sample_graphs.hpp>
#include <support/random_graph.hpp>

#include <algorithm>
#include <cmath>
#include <string>

namespace meganeura::inline MEGANEURA_ABI::support {

namespace {

class builder {
 public:
  builder(std::uint64_t seed, const random_graph_options& options, graph& made, std::vector<node_id>& pool)
      : options_(options), dice_(seed), graph_(made), oracle_(made), pool_(pool) {
    for (int i = 0; i < 2; ++i) leaf(small_shape(), dtype::f32);
    for (int i = 0; i < options.steps; ++i) step();
  }
  [[nodiscard]] const oracle::tensors<double>& leaves() const { return oracle_.leaves; }

 private:
  void step() {
    using method = void (builder::*)();
    static const std::vector<std::pair<int, method>> methods{
        {14, &builder::program},     {10, &builder::operation},    {8, &builder::row_statistic},
        {5, &builder::reduction},    {8, &builder::contraction},   {10, &builder::index_map_step},
        {5, &builder::padding},      {4, &builder::concatenation}, {4, &builder::gathering},
        {4, &builder::taking_along}, {3, &builder::scan},          {4, &builder::rows_at_a_position},
        {2, &builder::own_gradient}, {5, &builder::convolution},   {4, &builder::window},
        {2, &builder::noise},        {4, &builder::conversion},    {2, &builder::quantisation},
        {2, &builder::bytes},        {3, &builder::composite},     {2, &builder::attention},
        {3, &builder::comparison},   {3, &builder::another_leaf},  {2, &builder::block}};
    std::int64_t total = 0;
    for (const auto& entry : methods) total += entry.first;
    std::int64_t at = dice_.below(total);
    std::size_t chosen = 0;
    while (at >= methods[chosen].first) at -= methods[chosen++].first;
    try {
      (this->*methods[chosen].second)();
    } catch (const error& refused) {
      fill_parameters();
      if (refused.category() == error_category::internal) throw;
    }
  }

  // The layers of a block make their own parameters.
  void fill_parameters() {
    for (node_id id : graph_.leaves(op::parameter)) {
      const auto& known = graph_.get<leaf_attribute>(id).name;
      if (oracle_.leaves.contains(known)) continue;
      oracle::tensor<double> value(shape(graph_[id].extents));
      for (double& element : value.values) element = leaf_value();
      oracle_.leaves[known] = std::move(value);
    }
  }

  // ---- the pool

  void accept(node_id id) {
    const node& n = graph_[id];
    if (n.extents.elements() > 160 || rank_of(n.extents) > 5) return;
    for (double value : oracle_.value(id).values) {  // evaluated at any rate: what the oracle refuses is dropped
      if (options_.values != leaf_values::special) {
        if (!(std::fabs(value) < 1e4) || (value != 0 && std::fabs(value) < 1e-8)) return;
      }
    }
    pool_.push_back(id);
  }

  template <class Accepts>
  node_id any(Accepts&& accepts) {
    std::vector<node_id> found;
    for (node_id id : pool_) {
      if (accepts(graph_[id])) found.push_back(id);
    }
    if (found.empty()) return leaf(small_shape(), dtype::f32);
    const double u = dice_.unit();  // the recent ones more often: depth
    return found[found.size() - 1 - static_cast<std::size_t>(static_cast<double>(found.size()) * u * u)];
  }
  node_id any_real() {
    return any([](const node& n) { return n.type == dtype::f32; });
  }
  node_id any_float() {
    return any([](const node& n) { return is_float(n.type); });
  }
  node_id anything() {
    return any([](const node&) { return true; });
  }

  shape small_shape() {
    static constexpr std::int64_t extents[] = {1, 2, 3, 4, 5, 6};
    shape result;
    const std::int64_t rank = dice_.between(1, 4);
    for (std::int64_t i = 0; i < rank; ++i) result.push_back(extents[dice_.below(rank > 2 ? 4 : 6)]);
    return result;
  }

  dtype narrow_type() { return dice_.chance(0.5) ? dtype::f16 : dtype::bf16; }

  double leaf_value() {
    if (options_.values == leaf_values::general) return static_cast<double>(static_cast<float>(3 * dice_.unit() - 1.5));
    if (options_.values == leaf_values::special && dice_.chance(0.25)) {
      static const std::vector<double> list{NAN, INFINITY, -INFINITY, -0.0, 0.0, 3e38, -3e38, 1e-38, 65504};
      return dice_.pick(list);
    }
    return static_cast<double>(dice_.between(-8, 8)) / 4;
  }

  node_id leaf(const shape& extents, dtype type, std::int64_t low = -3, std::int64_t high = 3) {
    const std::string name = "leaf" + std::to_string(names_++);
    const double kind = dice_.unit();
    const bool fixed = !options_.states;
    const node_id id = type == dtype::f32 && (kind < 0.5 || fixed) ? graph_.parameter(name, type, extents)
                       : kind < 0.75 || fixed                      ? graph_.input(name, type, extents)
                                                                   : graph_.state(name, type, extents);
    oracle::tensor<double> value(extents, type);
    for (double& element : value.values) {
      element = is_float(type)    ? oracle::stored(leaf_value(), type)
                : is_narrow(type) ? oracle::stored(static_cast<double>(dice_.below(256)), type)
                                  : static_cast<double>(dice_.between(type == dtype::u32 ? 0 : low, high));
    }
    oracle_.leaves[name] = std::move(value);
    pool_.push_back(id);
    return id;
  }

  node_id of_shape(const shape& extents, dtype type) {
    if (dice_.chance(0.65)) {
      std::vector<node_id> found;
      for (node_id id : pool_) {
        if (graph_[id].type == type && graph_[id].extents.elements() == extents.elements()) found.push_back(id);
      }
      if (!found.empty()) {
        node_id id = dice_.pick(found);
        if (rank_of(graph_[id].extents) > 1 && dice_.chance(0.4)) id = permuted(id);
        return graph_.reshape(id, extents);
      }
    }
    return leaf(extents, type);
  }

  // A second operand for a map: of the shape and type of `a`.
  // Not a constant where programs may apply functions to it: folding rounds those to f32.
  node_id partner(node_id a, bool constants = true) {
    const shape extents = graph_[a].extents;
    const dtype type = graph_[a].type;
    const int rank = rank_of(extents);
    switch (dice_.below(8)) {
      case 0:
        return a;
      case 1:
        if (rank == 0) return a;
        return expanded_statistic(a, random_axes(rank));
      case 2: {
        shape part;
        for (std::int64_t i = dice_.between(0, rank); i < rank; ++i)
          part.push_back(dice_.chance(0.3) ? 1 : extents[static_cast<int>(i)]);
        return graph_.expand(of_shape(part, type), extents);
      }
      case 3:
        if (!constants) return a;
        return graph_.full(extents, is_float(type) ? constant() : static_cast<double>(dice_.between(1, 3)), type);
      default: {
        std::vector<node_id> same;
        for (node_id id : pool_) {
          if (graph_[id].extents == extents && graph_[id].type == type) same.push_back(id);
        }
        return same.empty() || dice_.chance(0.2) ? of_shape(extents, type) : dice_.pick(same);
      }
    }
  }

  double constant() {
    static const std::vector<double> list{0, 1, -1, 2, 0.5, 3, -0.25, 1.0 / 3, 7, 0.1, 16, -2.5};
    return dice_.pick(list);
  }

  std::uint32_t random_axes(int rank) {
    if (dice_.chance(0.4)) return 1u << (rank - 1);
    return static_cast<std::uint32_t>(dice_.between(1, (std::int64_t{1} << rank) - 1));
  }
  reduce_kind random_reduction() {
    static const std::vector<reduce_kind> kinds{reduce_kind::sum, reduce_kind::sum, reduce_kind::max,
                                                reduce_kind::max, reduce_kind::min, reduce_kind::product};
    return dice_.pick(kinds);
  }
  node_id expanded_statistic(node_id a, std::uint32_t axes) {
    const shape extents = graph_[a].extents;
    return graph_.expand_axes(graph_.reduce(random_reduction(), a, axes), extents, axes);
  }
  node_id permuted(node_id a) {
    std::vector<int> order;
    for (int i = 0; i < rank_of(graph_[a].extents); ++i) order.push_back(i);
    dice_.shuffle(order);
    return graph_.permute(a, order);
  }

  // ---- maps

  void program() {
    std::vector<node_id> operands{anything()};
    const std::int64_t others = dice_.below(3);
    for (std::int64_t i = 0; i < others; ++i) operands.push_back(partner(operands[0], false));
    dtype result = graph_[operands[0]].type;
    if (is_narrow(result) && dice_.chance(0.5)) result = dtype::f32;
    std::vector<dtype> types;
    for (node_id id : operands) types.push_back(graph_[id].type);
    accept(graph_.map(scalar_dag(types, result, dice_.between(1, 6)), operands, result));
  }

  scalar_program scalar_dag(const std::vector<dtype>& types, dtype result, std::int64_t length) {
    scalar_builder b;
    std::vector<scalar_ref> numbers, conditions;
    for (std::size_t i = 0; i < types.size(); ++i) numbers.push_back(b.argument(static_cast<int>(i), types[i]));
    const dtype type = compute_type(result);
    for (scalar_ref& ref : numbers) {
      if (b.type(ref) != type) ref = b.convert(ref, type);
    }
    for (std::int64_t i = 0; i < length; ++i) {
      const scalar_ref x = dice_.pick(numbers);
      const scalar_ref y =
          dice_.chance(0.25) ? b.constant(is_float(type) ? constant() : static_cast<double>(dice_.between(1, 3)), type)
                             : dice_.pick(numbers);
      add_operation(b, numbers, conditions, x, y);
    }
    return b.finish(numbers.back());
  }

  void add_operation(scalar_builder& b, std::vector<scalar_ref>& numbers, std::vector<scalar_ref>& conditions,
                     scalar_ref x, scalar_ref y) {
    static const std::vector<scalar_op> both{scalar_op::add,     scalar_op::subtract, scalar_op::multiply,
                                             scalar_op::minimum, scalar_op::maximum,  scalar_op::negate,
                                             scalar_op::abs,     scalar_op::sign};
    static const std::vector<scalar_op> comparisons{scalar_op::less, scalar_op::less_equal, scalar_op::equal};
    static const std::vector<scalar_op> floats{
        scalar_op::divide, scalar_op::divide,   scalar_op::reciprocal, scalar_op::sqrt,  scalar_op::rsqrt,
        scalar_op::exp,    scalar_op::log,      scalar_op::sin,        scalar_op::cos,   scalar_op::tanh,
        scalar_op::erf,    scalar_op::floor,    scalar_op::ceil,       scalar_op::round, scalar_op::trunc,
        scalar_op::expm1,  scalar_op::atan,     scalar_op::asinh,      scalar_op::erfc,  scalar_op::cbrt,
        scalar_op::hypot,  scalar_op::copysign, scalar_op::atan2};
    if (dice_.chance(0.15)) {
      scalar_ref condition = b.binary(dice_.pick(comparisons), x, y);
      if (!conditions.empty() && dice_.chance(0.4))
        condition = b.binary(dice_.chance(0.5) ? scalar_op::logical_and : scalar_op::logical_or, condition,
                             dice_.pick(conditions));
      if (dice_.chance(0.2)) condition = b.unary(scalar_op::logical_not, condition);
      conditions.push_back(condition);
      numbers.push_back(dice_.chance(0.3) ? b.convert(condition, b.type(x)) : b.select(condition, x, y));
      return;
    }
    const bool real = is_float(b.type(x));
    const scalar_op kind = real && dice_.chance(0.5) ? dice_.pick(floats) : dice_.pick(both);
    if (kind == scalar_op::sign && b.type(x) == dtype::u32) return;
    if (kind == scalar_op::log || kind == scalar_op::sqrt || kind == scalar_op::rsqrt) {
      if (dice_.chance(0.8)) x = b.binary(scalar_op::add, b.unary(scalar_op::abs, x), b.constant(0.125));
      numbers.push_back(b.unary(kind, x));
      return;
    }
    if (real && dice_.chance(0.05)) {
      static const std::vector<double> exponents{0.5, 2, 3, 1.5, -1};
      numbers.push_back(b.binary(scalar_op::power, b.unary(scalar_op::abs, x), b.constant(dice_.pick(exponents))));
      return;
    }
    numbers.push_back(info(kind).arity == 1 ? b.unary(kind, x) : b.binary(kind, x, y));
  }

  // One operation, as the front end writes maps.
  void operation() {
    static const std::vector<scalar_op> binary{scalar_op::add,    scalar_op::subtract, scalar_op::multiply,
                                               scalar_op::divide, scalar_op::minimum,  scalar_op::maximum,
                                               scalar_op::divide, scalar_op::multiply};
    static const std::vector<scalar_op> unary{
        scalar_op::negate, scalar_op::abs, scalar_op::exp,  scalar_op::tanh,  scalar_op::sqrt,  scalar_op::log,
        scalar_op::rsqrt,  scalar_op::sin, scalar_op::sign, scalar_op::floor, scalar_op::round, scalar_op::reciprocal};
    const node_id a = any_float();
    if (dice_.chance(0.4)) return accept(graph_.map(dice_.pick(unary), {a}));
    const node_id b = partner(a);
    accept(dice_.chance(0.7) ? graph_.map(dice_.pick(binary), {a, b}) : graph_.map(dice_.pick(binary), {b, a}));
  }

  void row_statistic() {
    const node_id a = any_float();
    const int rank = rank_of(graph_[a].extents);
    if (rank == 0) return;
    static const std::vector<scalar_op> kinds{scalar_op::subtract, scalar_op::divide, scalar_op::multiply,
                                              scalar_op::add, scalar_op::maximum};
    const node_id row = expanded_statistic(a, random_axes(rank));
    accept(graph_.map(dice_.pick(kinds), {a, row}));
  }

  // 1 where a comparison with another value or a row statistic holds.
  void comparison() {
    node_id a = any_real();
    if (dice_.chance(0.5)) a = graph_.map(dice_.chance(0.7) ? scalar_op::divide : scalar_op::multiply, {a, partner(a)});
    const int rank = rank_of(graph_[a].extents);
    const node_id other = rank > 0 && dice_.chance(0.5) ? expanded_statistic(a, random_axes(rank)) : partner(a);
    static const std::vector<scalar_op> comparisons{scalar_op::less, scalar_op::less_equal, scalar_op::equal,
                                                    scalar_op::equal};
    scalar_builder b;
    const scalar_ref x = b.argument(0, dtype::f32), y = b.argument(1, dtype::f32);
    const scalar_ref holds = b.binary(dice_.pick(comparisons), x, y);
    const node_id operands[] = {a, other};
    accept(graph_.map(b.finish(b.select(holds, dice_.chance(0.5) ? x : b.constant(1), b.constant(0))), operands,
                      dtype::f32));
  }

  void conversion() {
    const node_id a = anything();
    const dtype from = graph_[a].type;
    if (!is_float(from)) {
      const double kind = dice_.unit();
      if (kind > 0.8) return accept(graph_.cast(a, kind > 0.9 ? dtype::u8 : dtype::i8));
      if (!options_.halves || is_narrow(from) || kind > 0.3)
        return accept(graph_.cast(a, kind < 0.6 ? dtype::f32 : dtype::i32));
      return accept(graph_.cast(graph_.multiply(a, graph_.full_like(a, kind < 0.2 ? 683 : 1)), narrow_type()));
    }
    if (options_.halves && dice_.chance(0.7))
      return accept(graph_.cast(a, from == dtype::f32 ? narrow_type() : dtype::f32));
    if (!options_.integers) return;
    // Outside of the integers conversion is undefined: NaN and large values become 0 first.
    scalar_builder b;
    const scalar_ref x = b.argument(0, from), zero = b.constant(0);
    const scalar_ref near = b.binary(scalar_op::less, b.unary(scalar_op::abs, x), b.constant(1e4));
    const node_id operands[] = {a};
    accept(graph_.map(b.finish(b.convert(b.select(near, x, zero), dtype::i32)), operands, dtype::i32));
  }

  // Each result is stored modulo 256 before the next operation meets it.
  void bytes() {
    if (!options_.integers) return;
    static const std::vector<scalar_op> binary{scalar_op::add,         scalar_op::subtract,  scalar_op::multiply,
                                               scalar_op::divide,      scalar_op::minimum,   scalar_op::bitwise_xor,
                                               scalar_op::shift_right, scalar_op::shift_left};
    const dtype type = dice_.chance(0.5) ? dtype::u8 : dtype::i8;
    node_id x = any([&](const node& n) { return n.type == type; });
    if (graph_[x].type != type) x = leaf(shape(graph_[x].extents), type);
    for (int i = 0; i < 3; ++i) {
      const node_id other = dice_.chance(0.5) ? graph_.full_like(x, static_cast<double>(dice_.between(1, 9)))
                                              : of_shape(shape(graph_[x].extents), type);
      x = graph_.map(dice_.pick(binary), {x, other});
      if (dice_.chance(0.5)) accept(x);
    }
    accept(graph_.cast(x, dice_.chance(0.5) ? dtype::f32 : dtype::i32));
  }

  // round(x * 16) as an integer and back: fake quantisation, one map an operation.
  void quantisation() {
    if (!options_.integers || options_.values == leaf_values::special) return;
    const node_id a = any_real();
    const node_id scaled = graph_.map(scalar_op::round, {graph_.multiply(a, graph_.full_like(a, 16))});
    const node_id whole = graph_.cast(scaled, dtype::i32);
    accept(whole);
    const node_id back = graph_.cast(whole, dtype::f32);
    accept(graph_.multiply(back, graph_.full_like(back, 0.0625)));
  }

  void composite() {
    const node_id a = any_real();
    if (rank_of(graph_[a].extents) == 0) return;
    switch (dice_.below(3)) {
      case 0:
      case 1:
        if (!options_.stop_gradients) return;
        return accept(dice_.chance(0.5) ? samples::softmax(graph_, a) : samples::log_softmax(graph_, a));
      default: {
        const node_id centred = graph_.subtract(a, samples::row_mean(graph_, a));
        const node_id variance =
            samples::mean(graph_, graph_.multiply(centred, centred), samples::last_axis(graph_, a));
        const node_id scale = graph_.map(scalar_op::rsqrt, {graph_.add(variance, graph_.full_like(variance, 1e-2))});
        const shape extents = graph_[a].extents;
        accept(graph_.multiply(centred, graph_.expand_axes(scale, extents, samples::last_axis(graph_, a))));
      }
    }
  }

  // Values weighed by the softmax of a product, in any order of axes, perhaps with something done to its scores.
  void attention() {
    if (!options_.stop_gradients) return;
    const std::int64_t b = dice_.between(1, 2), t = dice_.between(1, 4), s = dice_.between(1, 5),
                       w = dice_.between(1, 3), c = dice_.between(1, 3);
    const auto operand = [&](std::vector<char> labels, std::string& order) {
      dice_.shuffle(labels);
      shape extents;
      for (const char each : labels)
        extents.push_back(each == 'b' ? b : each == 't' ? t : each == 's' ? s : each == 'w' ? w : c);
      order.assign(labels.begin(), labels.end());
      return of_shape(extents, dtype::f32);
    };
    std::string of_q, of_k, of_v;
    const node_id q = operand({'b', 't', 'w'}, of_q), k = operand({'b', 's', 'w'}, of_k);
    node_id scores = graph_.contract(q, k, of_q.c_str(), of_k.c_str(), "bts");
    if (dice_.chance(0.5)) scores = graph_.multiply(scores, graph_.full_like(scores, 0.25));
    if (dice_.chance(0.4)) scores = graph_.add(scores, partner(scores));
    const bool hides = dice_.chance(0.5), may_be_all = dice_.chance(0.6);
    if (hides) scores = hidden(scores, may_be_all);
    node_id weights = dice_.chance(0.3) ? softmax_beside(scores) : samples::softmax(graph_, scores);
    if (hides && may_be_all) {
      scalar_builder zero;
      const scalar_ref is_hidden = zero.binary(scalar_op::less, zero.argument(0, dtype::f32), zero.constant(-1e38));
      const node_id both[] = {scores, weights};
      weights = graph_.map(zero.finish(zero.select(is_hidden, zero.constant(0), zero.argument(1, dtype::f32))), both,
                           dtype::f32);
    }
    if (dice_.chance(0.2)) accept(weights);
    const node_id v = operand(dice_.chance(0.7) ? std::vector<char>{'b', 's', 'c'} : std::vector<char>{'s', 'c'}, of_v);
    std::vector<char> result{'b', 't', 'c'};
    dice_.shuffle(result);
    accept(graph_.contract(weights, v, "bts", of_v.c_str(), std::string(result.begin(), result.end()).c_str()));
  }

  // Scores [b, t, s] of which some are far below all others: behind a place, or where a leaf says so.
  node_id hidden(node_id scores, bool may_be_all) {
    const shape extents = graph_[scores].extents;
    scalar_builder b;
    const scalar_ref score = b.argument(0, dtype::f32), low = b.constant(may_be_all ? -1.5e38 : -INFINITY);
    std::vector<node_id> operands{scores};
    if (dice_.chance(0.5)) {
      operands.push_back(graph_.coordinates(extents, 1)), operands.push_back(graph_.coordinates(extents, 2));
      const scalar_ref query = b.argument(1, dtype::i32), key = b.argument(2, dtype::i32);
      const scalar_ref sees = b.binary(scalar_op::less_equal, key, query);
      return graph_.map(b.finish(b.select(sees, score, low)), operands, dtype::f32);
    }
    operands.push_back(leaf(extents, dtype::f32));
    const scalar_ref hides = b.binary(scalar_op::less, b.argument(1, dtype::f32), b.constant(-0.25));
    return graph_.map(b.finish(b.select(hides, low, score)), operands, dtype::f32);
  }
  // A softmax whose rows have one score more.
  node_id softmax_beside(node_id scores) {
    const shape extents = graph_[scores].extents;
    shape rows = extents;
    rows.set(2, 1);
    const node_id sink = leaf(rows, dtype::f32), own = samples::row_value(graph_, reduce_kind::max, scores);
    const node_id wide = graph_.expand(sink, extents);
    const node_id largest = graph_.stop_gradient(graph_.map(scalar_op::maximum, {own, wide}));
    const node_id e = graph_.map(scalar_op::exp, {graph_.subtract(scores, largest)});
    const node_id more = graph_.map(scalar_op::exp, {graph_.subtract(wide, largest)});
    return graph_.divide(e, graph_.add(samples::row_value(graph_, reduce_kind::sum, e), more));
  }

  // ---- index maps

  void reduction() {
    const node_id a = anything();
    if (rank_of(graph_[a].extents) == 0) return;
    const bool all = dice_.chance(0.2);
    const int rank = rank_of(graph_[a].extents);
    accept(graph_.reduce(random_reduction(), a, all ? (1u << rank) - 1 : random_axes(rank)));
  }

  void index_map_step() {
    const node_id a = anything();
    const shape extents = graph_[a].extents;
    const int rank = rank_of(extents);
    if (rank == 0) return accept(graph_.expand(a, small_shape()));
    const int axis = static_cast<int>(dice_.below(rank));
    switch (dice_.below(8)) {
      case 0:
      case 1:
        return accept(permuted(a));
      case 2:
        return accept(graph_.reshape(a, factored(extents.elements())));
      case 3: {
        const std::int64_t start = dice_.below(extents[axis]), step = dice_.between(1, 2);
        return accept(graph_.slice(a, axis, start, dice_.between(1, (extents[axis] - start + step - 1) / step), step));
      }
      case 4:
        return accept(graph_.flip(a, axis));
      case 5: {
        shape wide;
        for (std::int64_t extent : extents) wide.push_back(extent == 1 ? dice_.between(1, 3) : extent);
        return accept(graph_.expand(a, wide));
      }
      case 6: {
        shape wide;
        const int at = static_cast<int>(dice_.below(rank + 1));
        for (int i = 0; i <= rank; ++i) wide.push_back(i == at ? dice_.between(1, 3) : extents[i < at ? i : i - 1]);
        return accept(graph_.expand_axes(a, wide, 1u << at));
      }
      default: {
        view_attribute how{.offset = dice_.below(extents.elements())};
        shape result = small_shape();
        for (int i = 0; i < rank_of(result); ++i) how.strides[i] = dice_.between(-3, 3);
        return accept(graph_.view(a, result, how));
      }
    }
  }

  shape factored(std::int64_t elements) {
    shape result;
    while (elements > 1 && rank_of(result) < 4) {
      std::vector<std::int64_t> divisors;
      for (std::int64_t i = 1; i <= elements; ++i) {
        if (elements % i == 0) divisors.push_back(i);
      }
      result.push_back(dice_.pick(divisors));
      elements /= *(result.end() - 1);
    }
    result.push_back(elements);
    return result;
  }

  void padding() {
    const node_id a = anything();
    std::vector<std::int64_t> low, high;
    for (int i = 0; i < rank_of(graph_[a].extents); ++i) {
      low.push_back(dice_.chance(0.5) ? 0 : dice_.between(0, 3));
      high.push_back(dice_.chance(0.5) ? 0 : dice_.between(0, 3));
    }
    const double value = dice_.chance(0.6) ? 0 : static_cast<double>(dice_.between(0, 2));
    const node_id padded = graph_.pad(a, low, high, value);
    accept(padded);
    if (padded == a || dice_.chance(0.5)) return;
    // A map over the padded value, cut again: perhaps inside of the border alone.
    node_id changed = padded;
    if (dice_.chance(0.7)) {
      const shape wide = graph_[padded].extents;
      shape longer = wide;
      longer.push_back(dice_.between(2, 3));
      const std::int64_t kind = dice_.below(3);
      const dtype type = graph_[a].type;
      const node_id other = kind == 0 ? partner(padded)
                            : kind == 1
                                ? expanded_statistic(of_shape(wide, type), random_axes(rank_of(wide)))
                                : graph_.reduce(random_reduction(), of_shape(longer, type), 1u << rank_of(wide));
      changed = graph_.map(scalar_op::add, {padded, other});
    }
    const int axis = static_cast<int>(dice_.below(rank_of(graph_[padded].extents)));
    const std::int64_t extent = graph_[padded].extents[axis], start = dice_.below(extent);
    accept(graph_.slice(changed, axis, start, dice_.between(1, extent - start)));
  }

  void concatenation() {
    const node_id a = anything();
    const shape extents = graph_[a].extents;
    if (rank_of(extents) == 0) return;
    const int axis = static_cast<int>(dice_.below(rank_of(extents)));
    std::vector<node_id> parts{a};
    const std::int64_t others = dice_.chance(0.1) ? 7 : dice_.between(1, 3);
    for (std::int64_t i = 0; i < others; ++i) {
      shape other = extents;
      other.set(axis, dice_.between(1, 3));
      parts.push_back(dice_.chance(0.5) ? partner(a) : of_shape(other, graph_[a].type));
    }
    dice_.shuffle(parts);
    accept(graph_.concat(parts, axis));
  }

  node_id index(std::int64_t rows) {
    shape extents;
    const std::int64_t rank = dice_.between(0, 2);
    for (std::int64_t i = 0; i < rank; ++i) extents.push_back(dice_.between(1, 4));
    if (dice_.chance(0.2) && rank == 1) return graph_.iota(std::min(rows, *extents.begin()));
    const bool strays = dice_.chance(0.15);
    return leaf(extents, dtype::i32, strays ? -2 : 0, strays ? rows + 1 : rows - 1);
  }

  void gathering() {
    const node_id a = anything();
    const shape extents = graph_[a].extents;
    if (rank_of(extents) == 0) return;
    const int axis = static_cast<int>(dice_.below(rank_of(extents)));
    const node_id at = index(extents[axis]);
    const node_id rows = graph_.gather(a, at, axis);
    const shape found = graph_[rows].extents;
    if (is_narrow(graph_[rows].type) && rank_of(found) != 0 && found[0] % 2 == 0 && dice_.chance(0.5))  // equal bytes
      return accept(graph_.cast(graph_.slice(rows, 0, 0, found[0] / 2), dtype::f32));
    if (dice_.chance(0.6)) return accept(rows);
    const node_id updates = of_shape(shape(graph_[rows].extents), graph_[a].type);
    if (dice_.chance(0.4)) return accept(graph_.apply(op::index_add, axis_attribute{axis}, {a, at, updates}));
    accept(graph_.scatter_add(at, of_shape(shape(graph_[rows].extents), graph_[a].type), axis, extents));
  }

  void taking_along() {
    const node_id a = anything();
    const shape extents = graph_[a].extents;
    if (rank_of(extents) == 0) return;
    const int axis = static_cast<int>(dice_.below(rank_of(extents)));
    shape places = extents;
    places.set(axis, dice_.between(1, 5));
    const bool strays = dice_.chance(0.15);
    const node_id at = leaf(places, dtype::i32, strays ? -2 : 0, extents[axis] - (strays ? 0 : 1));
    if (dice_.chance(0.6)) return accept(graph_.apply(op::take_along, axis_attribute{axis}, {a, at}));
    const node_id updates = of_shape(places, graph_[a].type);
    const bool largest = is_integer(graph_[a].type) && dice_.chance(0.5);
    const scatter_attribute how{axis, largest ? reduce_kind::max : reduce_kind::sum};
    accept(graph_.apply(op::scatter_along, how, {at, updates}, extents));
  }

  void scan() {
    const node_id a = anything();
    if (rank_of(graph_[a].extents) == 0) return;
    static const std::vector<reduce_kind> kinds{reduce_kind::sum, reduce_kind::sum, reduce_kind::product,
                                                reduce_kind::arg_max, reduce_kind::arg_min};
    const int axis = static_cast<int>(dice_.below(rank_of(graph_[a].extents)));
    if (dice_.chance(0.3)) return accept(graph_.apply(op::argsort, argsort_attribute{axis, dice_.chance(0.5)}, {a}));
    accept(graph_.apply(op::cumulative, cumulative_attribute{dice_.pick(kinds), axis, dice_.chance(0.5)}, {a}));
  }

  void rows_at_a_position() {
    const node_id a = anything();
    shape rows = graph_[a].extents;
    if (rank_of(rows) == 0) return;
    const axis_attribute along{static_cast<int>(dice_.below(rank_of(rows)))};
    const std::int64_t whole = rows[along.axis], length = dice_.between(1, whole);
    const bool strays = dice_.chance(0.3);
    const node_id position = leaf({}, dtype::i32, strays ? -2 : 0, strays ? whole : whole - length);
    rows.set(along.axis, length);
    if (dice_.chance(0.4)) return accept(graph_.apply(op::narrow, along, {a, position}, rows));
    accept(graph_.apply(op::update_rows, along, {a, of_shape(rows, graph_[a].type), position}));
  }

  // a^2 with a backward that is right.
  void own_gradient() {
    const node_id a = any_real(), y = graph_.multiply(a, a);
    const node_id seed = graph_.apply(op::adjoint, no_attribute{}, {y});
    const node_id slope = graph_.multiply(seed, graph_.add(a, a));
    accept(graph_.apply(op::custom_gradient, no_attribute{}, {graph_.stop_gradient(y), a, slope, seed}));
  }

  // ---- products, convolutions, windows

  void contraction() {
    node_id a = any_float();
    if (rank_of(graph_[a].extents) > 4) return;
    std::string labels_a, labels_b, labels_result;
    std::vector<char> b_order, result_order;
    std::int64_t extents[16]{};
    for (int i = 0; i < rank_of(graph_[a].extents); ++i) {
      const char label = static_cast<char>('a' + i);
      labels_a += label;
      extents[i] = graph_[a].extents[i];
      const std::int64_t role = dice_.below(5);
      if (role != 1 && role != 2) b_order.push_back(label);  // batch or summed
      if (role < 3) result_order.push_back(label);           // batch or row
    }
    for (std::int64_t i = dice_.between(0, 2); i > 0; --i) {
      const char label = static_cast<char>('h' + i);
      extents[label - 'a'] = dice_.between(1, 5);
      b_order.push_back(label);
      result_order.push_back(label);
    }
    dice_.shuffle(b_order);
    dice_.shuffle(result_order);
    shape shape_b;
    for (char label : b_order) shape_b.push_back(extents[label - 'a']), labels_b += label;
    for (char label : result_order) labels_result += label;
    node_id b = of_shape(shape_b, graph_[a].type);
    if (dice_.chance(0.5)) std::swap(a, b), std::swap(labels_a, labels_b);
    const node_id product = graph_.contract(a, b, labels_a, labels_b, labels_result);
    accept(product);
    after_product(product);
  }

  // What often follows a product: a bias, an activation, a reshape.
  void after_product(node_id id) {
    if (graph_[id].type != dtype::f32) return;
    if (dice_.chance(0.3)) accept(id = graph_.add(id, partner(id)));
    if (dice_.chance(0.3)) accept(id = graph_.map(scalar_op::tanh, {id}));
    if (dice_.chance(0.2)) accept(id = samples::relu(graph_, id));
    if (dice_.chance(0.2)) accept(id = graph_.multiply(id, graph_.full_like(id, constant())));
    if (dice_.chance(0.2)) accept(graph_.reshape(id, factored(graph_[id].extents.elements())));
    if (dice_.chance(0.2) && rank_of(graph_[id].extents) > 1) accept(permuted(id));
  }

  void convolution() {
    convolution_attribute c{.form = static_cast<convolution_attribute::form_kind>(dice_.below(3)),
                            .spatial = dice_.chance(0.1) ? 3 : static_cast<int>(dice_.between(1, 2))};
    c.groups = dice_.between(1, 2);
    const std::int64_t images = dice_.between(1, 2), inputs = dice_.between(1, 2), outputs = dice_.between(1, 2);
    shape x{images, inputs * c.groups}, w{outputs * c.groups, inputs}, y{images, outputs * c.groups};
    for (int i = 0; i < c.spatial; ++i) {
      c.stride[i] = dice_.between(1, 2), c.dilation[i] = dice_.between(1, 2);
      c.pad_low[i] = dice_.below(2), c.pad_high[i] = dice_.below(3);
      x.push_back(dice_.between(2, c.spatial == 1 ? 6 : 4));
      w.push_back(dice_.between(1, 3));
      const std::int64_t room = x[i + 2] + c.pad_low[i] + c.pad_high[i] - (w[i + 2] - 1) * c.dilation[i] - 1;
      if (room < 0) return;
      y.push_back(room / c.stride[i] + 1);
    }
    using form = convolution_attribute;
    const node_id first = of_shape(c.form == form::input ? y : x, dtype::f32);
    const node_id second = of_shape(c.form == form::filter ? y : w, dtype::f32);
    const node_id result = graph_.convolution(first, second, c,
                                              c.form == form::output  ? y
                                              : c.form == form::input ? x
                                                                      : w);
    accept(result);
    after_product(result);
  }

  void window() {
    const node_id a = any_real();
    const shape x = graph_[a].extents;
    window_attribute w{.kind = dice_.chance(0.5) ? reduce_kind::max : reduce_kind::sum,
                       .spatial = static_cast<int>(dice_.between(1, std::min(3, std::max(1, rank_of(x)))))};
    for (int i = 0; i < w.spatial; ++i) {
      w.window[i] = dice_.between(1, 3), w.stride[i] = dice_.between(1, 3);
      w.pad_low[i] = dice_.below(std::min<std::int64_t>(2, w.window[i]));
      w.pad_high[i] = dice_.below(std::min<std::int64_t>(2, w.window[i]));
    }
    const node_id pooled = graph_.window_reduce(a, w);
    accept(pooled);
    if (dice_.chance(0.6)) return;
    const node_id up = of_shape(shape(graph_[pooled].extents), dtype::f32);
    const std::vector<node_id> operands = w.kind == reduce_kind::max ? std::vector{a, up} : std::vector{up};
    accept(graph_.window_scatter(operands, w, x));
  }

  // ---- leaves

  void noise() {
    if (!options_.random_streams) return;
    const auto kind = dice_.chance(0.5) ? distribution::uniform : distribution::normal;
    accept(graph_.random("stream" + std::to_string(names_++), kind, small_shape()));
  }

  void another_leaf() {
    const double kind = dice_.unit();
    if (options_.integers && kind < 0.2) {
      static const std::vector<dtype> integers{dtype::u32, dtype::i32, dtype::u8, dtype::i8};
      leaf(small_shape(), dice_.pick(integers));
    } else if (options_.halves && kind < 0.4) {
      leaf(small_shape(), narrow_type());
    } else if (kind < 0.6) {
      const shape extents = small_shape();
      accept(graph_.coordinates(extents, static_cast<int>(dice_.below(rank_of(extents)))));
    } else if (options_.stop_gradients && kind < 0.8) {
      accept(graph_.stop_gradient(any_real()));
    } else {
      leaf(small_shape(), dtype::f32);
    }
  }

  // A linear layer with a norm, a gated unit or attention over a tensor of rank 3.
  void block() {
    const shape extents{1, dice_.between(2, 4), 4};
    const node_id x = of_shape(extents, dtype::f32);
    const std::string name = "block" + std::to_string(names_++);
    const node_id y = options_.stop_gradients && dice_.chance(0.3)
                          ? samples::attention(graph_, samples::rms_norm(graph_, x, name), name, 2)
                          : samples::linear(graph_, samples::layer_norm(graph_, x, name), name, 4);
    fill_parameters();
    accept(y);
    accept(graph_.add(x, y));
  }

  const random_graph_options& options_;
  dice dice_;
  graph& graph_;
  oracle::interpreter<double> oracle_;
  std::vector<node_id>& pool_;
  int names_ = 0;
};

}  // namespace

random_graph::random_graph(std::uint64_t seed, const random_graph_options& options)
    : leaves_(builder(seed, options, graph_, pool_).leaves()) {}

std::vector<node_id> random_graph::ends() const {
  std::vector<bool> read(graph_.size(), false);
  for (node_id id : pool_) {
    for (node_id operand : graph_.operands(id)) read[operand] = true;
  }
  std::vector<node_id> result;
  for (node_id id : pool_) {
    if (!read[id]) result.push_back(id);
  }
  return result;
}

}  // namespace meganeura::inline MEGANEURA_ABI::support
