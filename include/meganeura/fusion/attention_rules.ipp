// SPDX-License-Identifier: MIT
// Attention: found in a product that weighs by the softmax of another one's results, and how long it takes.
#pragma once
#include <meganeura/fusion/access_checks.hpp>
#include <meganeura/fusion/attention_tiles.hpp>
#include <meganeura/fusion/contract_loops.hpp>
#include <meganeura/fusion/epilogue_draft.hpp>
#include <meganeura/fusion/implement.hpp>
#include <meganeura/fusion/kernel_family.hpp>

#include <algorithm>
#include <cmath>
#include <optional>

namespace meganeura::inline MEGANEURA_ABI::fusion {

namespace detail {

// Operations of a score's programs, of its weight or its gradient.
inline double program_operations(const attention_attribute& node, const device_profile& device) {
  const bool is_output = node.form == attention_form::output;
  return program_cost(node.score, device) + program_cost(is_output ? node.weight : node.slope, device);
}

// Of a pair's products, groups of four terms: of queries and keys and of values; of gradients those that these weigh
// besides.
inline double fours_of_products(const attention_attribute& node, const attention_tiles& tiles) {
  const double both = tiles.width + tiles.channels;
  if (node.form == attention_form::output) return both;
  return both + (node.form == attention_form::key_gradients ? both : tiles.width);
}

// Each block of keys is a row of steps that wait for each other; of several workgroups one computes while another
// waits.
inline kernel_time multiply_add_time(const attention_attribute& node, const device_profile& device) {
  const attention_tiles tiles = tiles_of_attention(node, device);
  const std::int64_t others = node.sizes()[node.form == attention_form::key_gradients ? 1 : 3];
  const std::int64_t blocks = ceil_div(others, tiles.keys);
  const double steps = static_cast<double>(tiles.count) * static_cast<double>(blocks);
  const double share = device.parallel ? attention_share : attention_share_of_processors;
  const double busy = steps * tiles.rows * tiles.keys *
                      (8.0 * fours_of_products(node, tiles) / (device.matmul_flops * share) +
                       (program_operations(node, device) + device.transcendental + 4) / device.scalar_flops);
  if (!device.parallel) return {busy, busy};
  // A step of one workgroup that has a multiprocessor for itself, and what stands before the first and behind the last.
  const double step = 0.5 * busy / steps * device.compute_units + 0.5 * device.product_once;
  return {1.75 * device.product_once + std::max(busy, static_cast<double>(blocks) * step), busy};
}

inline kernel_time time_of(const attention_attribute& node, const device_profile& device) {
  if (!node.schedule.is_on_units()) return multiply_add_time(node, device);
  constexpr double usual = 1;  // a scale
  return unit_time(node, std::max(0.0, program_operations(node, device) - usual) / device.scalar_flops, device);
}

// The quickest of an arithmetic of matrix units.
inline attention_choice best_attention(attention_attribute node, product_arithmetic arithmetic,
                                       const device_profile& device) {
  attention_choice best;
  for (const attention_schedule& each : attention_schedules(arithmetic, node, device)) {
    node.schedule = each;
    const double seconds = time_of(node, device).alone;
    if (seconds < best.seconds) best = {each, seconds};
  }
  return best;
}

// One without matrix units and the quickest on them, as far as there are any; or the one asked for, of which every
// second number is one with prepared rows (prepare_rows). As of products,
// `fast` rounds only to save more than a fifth of the time.
inline small_vector<attention_schedule, 2> schedules_of_attention(implementation_pass& pass,
                                                                  const attention_attribute& node) {
  const device_profile& device = pass.device();
  const product_arithmetic usual = arithmetic_of(pass.wanted_precision());
  if (pass.forced_schedule()) {
    const auto all = attention_schedules(usual, node, device);
    if (!all.empty()) return {all[*pass.forced_schedule() / 2 % all.size()]};
  }
  small_vector<attention_schedule, 2> found;
  if (tiles_of_attention(node, device).rows != 0) found.push_back({});
  if (device.matrix_units != matrix_units::cooperative) return found;
  attention_choice best = pass.best(node, product_arithmetic::split);
  if (usual == product_arithmetic::rounded) {
    const attention_choice rounded = pass.best(node, usual);
    if (rounds_for(rounded.seconds + device.launch.alone(), best.seconds + device.launch.alone())) best = rounded;
  }
  if (best.schedule.is_on_units()) found.push_back(best.schedule);
  return found;
}

// The class that names that value of a node with several; no_id if there is none.
inline class_id result_of(const engine& g, class_id several, std::size_t number) {
  for (const enode_id reader : g[g.find(several)].parents) {
    if (g.node(reader).dead || g.node(reader).kind != op::result) continue;
    if (g.get<result_attribute>(reader).index == number) return g.find(g.node(reader).owner);
  }
  return no_id;
}

// Whether what it gives is a number above -infinity, or NaN where an argument is.
inline bool is_above_infinity(const scalar_program& score) {
  const scalar_node& root = score.nodes.back();
  if (root.op != scalar_op::maximum) return false;
  return std::ranges::any_of(std::span(root.operands).first(2), [&](scalar_ref each) {
    return score.nodes[each].op == scalar_op::constant && std::isfinite(score.nodes[each].value);
  });
}

// Zeros where a score is hidden, and what stands elsewhere.
struct zeros_where_hidden {
  scalar_ref score{0}, kept{0};

  [[nodiscard]] static std::optional<zeros_where_hidden> find(const scalar_program& program, const scalar_node& node) {
    if (node.op != scalar_op::select) return {};
    const auto score = asks_far_below(program, program.nodes[node.operands[0]]);
    const scalar_node& zero = program.nodes[node.operands[1]];
    if (!score || zero.op != scalar_op::constant || zero.value != 0) return {};
    return zeros_where_hidden{*score, node.operands[2]};
  }
};

// Whether weights are those of the softmax (argument 1) but in rows whose every score (argument 0) is hidden, of which
// they are zeros.
inline bool hides_rows_alone(const scalar_program& weight) {
  const auto is = [](const scalar_node& node, double number) {
    return node.op == scalar_op::argument && node.value == number;
  };
  const scalar_node* at = &weight.nodes.back();
  while (const auto zeros = zeros_where_hidden::find(weight, *at)) {
    if (!is(weight.nodes[zeros->score], 0)) return false;
    at = &weight.nodes[zeros->kept];
  }
  return is(*at, 1);
}

// Parts of a program of rows where its score is argument 0, and its own arguments come behind one more, 1.
class parts_by_score {
 public:
  parts_by_score(scalar_builder& builder, const scalar_program& program, scalar_ref score)
      : builder_(builder),
        program_(program),
        arguments_(static_cast<std::size_t>(program.arguments()) + 1, builder.argument(0, dtype::f32)) {
    for (const scalar_node& node : program.nodes) {
      const auto number = static_cast<int>(node.value);
      if (node.op == scalar_op::argument)
        arguments_[static_cast<std::size_t>(number)] = builder.argument(2 + number, node.type);
    }
    const auto own = static_cast<double>(program.arguments());
    program_.nodes[score] = {.op = scalar_op::argument, .type = dtype::f32, .value = own};
  }
  [[nodiscard]] scalar_ref operator()(scalar_ref node) const {
    return builder_.inlined(part(program_, node), arguments_);
  }

 private:
  scalar_builder& builder_;
  scalar_program program_;
  small_vector<scalar_ref, 16> arguments_;
};

// Nodes of a program of rows that has one largest score in it, and what makes a softmax of that.
struct softmax_nodes {
  scalar_ref score{0};
  scalar_ref largest{0};             // of the row's scores, and the sink if there is one
  scalar_ref e{0};                   // the exponential of a score below the largest
  scalar_ref total{0};               // what e is divided by
  std::optional<scalar_ref> sink{};  // one score more, of which the row has the largest and the sum

  [[nodiscard]] static std::optional<softmax_nodes> find(const scalar_program& program) {
    const auto& nodes = program.nodes;
    // The first node for which that holds.
    const auto first = [&](auto holds) -> std::optional<scalar_ref> {
      for (std::size_t i = 0; i < nodes.size(); ++i) {
        if (holds(static_cast<scalar_ref>(i))) return static_cast<scalar_ref>(i);
      }
      return {};
    };
    // The other of two operands that `one` is among.
    const auto other_than = [&](scalar_ref node, scalar_ref one, scalar_op kind) -> std::optional<scalar_ref> {
      const scalar_node& both = nodes[node];
      if (both.op != kind || (both.operands[0] != one && both.operands[1] != one)) return {};
      return both.operands[both.operands[0] == one ? 1 : 0];
    };
    const auto is_e_of = [&](scalar_ref node, scalar_ref of, scalar_ref origin) {
      const scalar_node& distance = nodes[nodes[node].operands[0]];
      return nodes[node].op == scalar_op::exp && distance.op == scalar_op::subtract && distance.operands[0] == of &&
             distance.operands[1] == origin;
    };
    const auto of_scores = first([&](scalar_ref i) { return nodes[i].op == scalar_op::row_max; });
    if (!of_scores || std::ranges::count(nodes, scalar_op::row_max, &scalar_node::op) != 1) return {};
    softmax_nodes found{.score = nodes[*of_scores].operands[0], .largest = *of_scores};
    const auto is_e = [&](scalar_ref i) { return is_e_of(i, found.score, found.largest); };
    auto e = first(is_e);
    if (!e) {
      const auto with_sink =
          first([&](scalar_ref i) { return other_than(i, *of_scores, scalar_op::maximum).has_value(); });
      if (!with_sink) return {};
      found.largest = *with_sink, found.sink = other_than(*with_sink, *of_scores, scalar_op::maximum);
      e = first(is_e);
      if (!e) return {};
    }
    found.e = *e;
    const auto of_keys =
        first([&](scalar_ref i) { return nodes[i].op == scalar_op::row_sum && nodes[i].operands[0] == found.e; });
    const auto total = !found.sink || !of_keys ? of_keys : first([&](scalar_ref i) {
      const auto more = other_than(i, *of_keys, scalar_op::add);
      return more && is_e_of(*more, *found.sink, found.largest);
    });
    if (!total) return {};
    found.total = *total;
    return found;
  }
};

// A program of rows that is a softmax: score is a node of it, and weight what stands above the fraction.
struct softmax_program {
  scalar_ref score{0};
  scalar_program weight;
  std::optional<scalar_ref> sink{};
  bool hides_quotients = false;  // zeros stand for these where a condition says so, even if they are NaN
};

inline std::optional<softmax_program> softmax_of(const scalar_program& program) {
  const auto& nodes = program.nodes;
  int sums = 0;
  for (const scalar_node& node : nodes) {
    if (!is_row_reduction(node.op)) continue;
    if (node.type != dtype::f32 || (node.op != scalar_op::row_max && node.op != scalar_op::row_sum)) return {};
    sums += node.op == scalar_op::row_sum;
  }
  const auto softmax = softmax_nodes::find(program);
  if (!softmax || sums != 1) return {};
  softmax_program found{.score = softmax->score, .weight = {}, .sink = softmax->sink};
  const scalar_ref e = softmax->e, divisor = softmax->total;
  // Zeros where a condition of the score says so, before or behind the division.
  small_vector<scalar_ref, 4> hides;
  auto at = static_cast<scalar_ref>(nodes.size() - 1);
  for (bool divided = false; at != e || !divided;) {
    const scalar_node& node = nodes[at];
    if (node.op == scalar_op::divide && !divided && node.operands[1] == divisor) {
      divided = true;
      at = node.operands[0];
    } else if (node.op == scalar_op::select && nodes[node.operands[1]].op == scalar_op::constant &&
               nodes[node.operands[1]].value == 0) {
      hides.push_back(node.operands[0]);
      found.hides_quotients = found.hides_quotients || !divided;
      at = node.operands[2];
    } else {
      return {};
    }
  }
  scalar_builder builder;
  const parts_by_score of_score(builder, program, found.score);
  scalar_ref weight = builder.argument(1, dtype::f32);
  for (const scalar_ref each : hides) weight = builder.select(of_score(each), builder.constant(0), weight);
  found.weight = builder.finish(weight);
  if (found.weight.has_rows() || found.weight.arguments() > 2) return {};
  return found;
}

// From the product that weighs, the rows it weighs by and the product that these are made of.
class attention_draft {
 public:
  static constexpr std::uint8_t batch = 0, queries = 1, channels = 2, keys = 3, width = 4;
  // A gradient's product, say, which is no attention and does not have to be told why.
  static constexpr const char* not_weighed = "the product does not add up along the rows";

  attention_draft(implementation_pass& pass, enode_id product, std::size_t side, enode_id rows)
      : pass_(pass),
        g_(pass.graph()),
        product_(product),
        rows_(rows),
        loops_(to_nest(g_.get<matmul_attribute>(product))) {
    values_ = g_.operand(product, 1 - side);
    if (side == 1) swap_sides(loops_);
  }

  // Why there is none, or null when the node was added.
  const char* add(const softmax_program& softmax) {
    const auto& rows = g_.get<region_attribute>(rows_);
    if (const char* problem = read_rows(rows)) return problem;
    const char* problem = "its rows are not those of a product";
    for (std::size_t k = 0; k < rows.accesses.size(); ++k) {
      if (rows.accesses[k].source < 0) continue;
      const class_id scores = g_.operand(rows_, static_cast<std::size_t>(rows.accesses[k].source));
      const node_list candidates = g_[scores].nodes;
      for (const enode_id candidate : candidates) {
        if (g_.node(candidate).kind != op::matmul) continue;
        problem = attention_draft(*this).add_with(softmax, k, candidate);
        if (!problem) return nullptr;
      }
    }
    return problem;
  }

 private:
  // The region's index from the product's loops, which read its rows whole.
  const char* read_rows(const region_attribute& rows) {
    const int rank = rows.space.rank(), first = rank - rows.row_axes;
    if (rows.output.bounded || !solve_index(loops_, 1, rows.space, rank, rows.output, true, to_rows_))
      return "the weights' order is not affine in the product's loops";
    std::int64_t length = 1;
    for (int j = first; j < rank; ++j) {
      length *= rows.space[j];
      if (to_rows_.start[j] != 0) return "rows are not read whole";
    }
    small_vector<counted_axis, max_rank> read;
    for (int axis = 0; axis < loops_.space.rank(); ++axis) {
      bool along = false;
      for (int j = 0; j < rank; ++j) {
        if (to_rows_.step[j][axis] == 0) continue;
        along = along || j >= first;
        if (loops_.group[axis] == channels || (loops_.group[axis] == keys) != (j >= first)) return not_weighed;
      }
      if (loops_.group[axis] != keys || loops_.space[axis] == 1) continue;
      if (!along) return "the product adds up more than the rows";
      std::int64_t stride = 0, of_row = 1;
      for (int j = rank; j-- > first; of_row *= rows.space[j]) stride += to_rows_.step[j][axis] * of_row;
      read.push_back({loops_.space[axis], stride});
    }
    return counts_each_once(read, length) ? nullptr : "rows are not read whole";
  }

  // The rows by number, over the product's loops; those of whose elements the product has no other order.
  index_map row_numbers(const region_attribute& rows) const {
    index_map result;
    const int first = rows.space.rank() - rows.row_axes;
    std::int64_t stride = 1;
    for (int j = first; j-- > 0; stride *= rows.space[j]) {
      result.offset += to_rows_.start[j] * stride;
      for (int axis = 0; axis < loops_.space.rank(); ++axis) result.strides[axis] += to_rows_.step[j][axis] * stride;
    }
    return result;
  }

  // Argument `which` of the rows is what the product `scores` computes.
  const char* add_with(const softmax_program& softmax, std::size_t which, enode_id scores) {
    const auto rows = g_.get<region_attribute>(rows_);
    const auto inner = g_.get<matmul_attribute>(scores);
    if (!inner.start.is_empty() || inner.paired) return "the scores' product has a prologue, or is two products";
    const class_id owner = g_.find(g_.node(product_).owner);
    for (const class_id each : {values_, g_.operand(scores, 0), g_.operand(scores, 1)}) {
      if (g_[each].type != dtype::f32) return "there are kernels of f32 alone";
    }
    index_map read;
    if (!over_loops(rows.accesses[which], rows.space.rank(), to_rows_, read))
      return "the scores are read with a border";
    // The output, the scores, the values, the rows' numbers; then what the scores' program reads, in the order of its
    // arguments.
    const index_map weights = loops_.accesses[1];
    loops_.accesses.resize(3);
    loops_.accesses.push_back(row_numbers(rows));
    for (std::size_t k = 0; k < rows.accesses.size(); ++k) {
      if (k == which) continue;
      if (rows.accesses[k].source == rows.accesses[which].source) return "the scores are read in two ways";
      index_map other;
      if (!compose_access(rows.accesses[k], rows.space.rank(), to_rows_, weights, loops_.space, other) || other.bounded)
        return "a border is not a box in the product's loops";
      note_source(other, rows_);
      loops_.accesses.push_back(other);
    }
    loops_.accesses[1] = read;
    axis_map to_scores;
    const int outer = inner.space.rank() - inner.k_axes;
    if (!solve_index(loops_, 1, inner.space, outer, inner.output, true, to_scores))
      return "the scores' order is not affine in the product's loops";
    index_map query, key;
    if (!over_loops(inner.a, outer, to_scores, query) || !over_loops(inner.b, outer, to_scores, key))
      return "the scores are read with a border";
    const std::size_t of_rows = loops_.accesses.size() - 4;
    for (const index_map& each : inner.finish.accesses) {
      index_map other;
      if (!over_loops(each, outer, to_scores, other)) return "a border is not a box in the product's loops";
      note_source(other, scores);
      loops_.accesses.push_back(other);
    }
    if (others_.size() > widest_epilogue || others_.size() + 3 > pass_.limits().buffers) return "too many operands";
    for (int axis = outer; axis < inner.space.rank(); ++axis) {
      const int at = loops_.space.rank();
      if (!append_axis(loops_, inner.space[axis], width)) return "too many axes";
      query.strides[at] = inner.a.strides[axis], key.strides[at] = inner.b.strides[axis];
    }
    class_list operands{g_.operand(scores, 0), g_.operand(scores, 1), values_};
    if (depends_beside(loops_, query, {batch, queries, width})) {
      std::swap(query, key);
      std::swap(operands[0], operands[1]);
    }
    // Where keys differ and values do not, the weighing product had no batch.
    for (int axis = 0; axis < loops_.space.rank(); ++axis) {
      if (loops_.group[axis] == queries && key.strides[axis] != 0) loops_.group[axis] = batch;
    }
    if (depends_beside(loops_, query, {batch, queries, width}) || depends_beside(loops_, key, {batch, keys, width}) ||
        depends_beside(loops_, loops_.accesses[2], {batch, keys, channels}))
      return "keys or values differ between queries";
    operands.append(others_.begin(), others_.end());
    if (std::ranges::find(operands, owner) != operands.end()) return "it would read itself";
    small_vector<index_map, 8> all{loops_.accesses[0], query, key, loops_.accesses[2]};
    all.append(loops_.accesses.begin() + 4, loops_.accesses.end());
    all.push_back(loops_.accesses[3]);
    for (std::size_t i = 4; i < all.size(); ++i) {
      if (depends_beside(loops_, all[i], {batch, queries, keys})) return "the scores' program reads what is no score's";
    }
    loops_.accesses = all;
    normalise(loops_);
    const index_map numbers = loops_.accesses.back();
    loops_.accesses.pop_back();
    // What scores depend on may be read backwards, as positions are that are counted from the end.
    if (!std::all_of(loops_.accesses.begin(), loops_.accesses.begin() + 4, is_plain))
      return "an operand is read backwards";
    return emit(softmax, which, scores, rows, inner.finish.program, of_rows, operands, numbers);
  }

  bool over_loops(const index_map& inner, int rank, const axis_map& map, index_map& result) const {
    return compose_access(inner, rank, map, loops_.accesses[1], loops_.space, result) && result.bounded == 0;
  }
  // `of`: the node whose operand it is.
  void note_source(index_map& access, enode_id of) {
    if (access.source < 0) return;
    const class_id source = g_.operand(of, static_cast<std::size_t>(access.source));
    access.source = 3 + static_cast<int>(append_once(others_, 0, source));
  }

  const char* emit(const softmax_program& softmax, std::size_t which, enode_id scores, const region_attribute& region,
                   const scalar_program& finish, std::size_t of_rows, std::span<const class_id> operands,
                   const index_map& numbers) {
    const scalar_program& rows = region.program;
    scalar_builder builder;
    // Arguments behind the first are numbered as the accesses: first those of the rows, then those of the product.
    small_vector<scalar_ref, 16> arguments(static_cast<std::size_t>(std::max(finish.arguments(), 1)));
    for (const scalar_node& node : finish.nodes) {
      if (node.op != scalar_op::argument) continue;
      const auto number = static_cast<std::size_t>(node.value);
      arguments[number] = builder.argument(number == 0 ? 0 : static_cast<int>(of_rows + number), node.type);
    }
    const scalar_ref score = builder.inlined(finish, arguments);
    small_vector<scalar_ref, 16> of_row(static_cast<std::size_t>(rows.arguments()), score);
    for (const scalar_node& node : rows.nodes) {
      const auto number = static_cast<std::size_t>(node.value);
      if (node.op == scalar_op::argument && number != which)
        of_row[number] = builder.argument(1 + static_cast<int>(number < which ? number : number - 1), node.type);
    }
    attention_attribute value;
    value.space = loops_.space;
    value.batch_axes = loops_.count(batch), value.query_axes = loops_.count(queries);
    value.channel_axes = loops_.count(channels), value.key_axes = loops_.count(keys);
    value.width_axes = loops_.count(width);
    value.output = loops_.accesses[0];
    value.accesses.assign(loops_.accesses.begin() + 1, loops_.accesses.end());
    for (int i = 0; i < 3; ++i) value.accesses[static_cast<std::size_t>(i)].source = i;
    value.output.source = 0;
    value.score = builder.finish(builder.inlined(part(rows, softmax.score), of_row));
    if (value.score.has_rows()) return "its score depends on the row";
    if (softmax.sink) {
      value.sink = builder.finish(builder.inlined(part(rows, *softmax.sink), of_row));
      if (value.sink.has_rows()) return "a score besides those of keys depends on these";
      for (const scalar_node& node : value.sink.nodes) {
        if (node.op != scalar_op::argument) continue;
        if (node.value == 0) return "a score besides those of keys depends on these";
        if (depends_beside(loops_, value.of_argument(static_cast<int>(node.value)), {batch, queries}))
          return "a score besides those of keys differs between keys";
      }
    }
    value.weight = softmax.weight;
    if (softmax.hides_quotients && (value.has_sink() || !is_above_infinity(value.score)))
      return "what is hidden behind the division could be no number before it";
    const auto schedules = schedules_of_attention(pass_, value);
    if (schedules.empty())
      return "heads are wider than the device's workgroup memory has room for (at most 256, on matrix units 128), or "
             "there are more than 16384 keys";
    if (decides_twice(value, g_.find(g_.node(scores).owner))) return "computed twice it could decide two ways";
    const rule_mask reasons =
        bit(structural::fuse_attention) | g_.node(product_).reasons | g_.node(rows_).reasons | g_.node(scores).reasons;
    for (const attention_schedule& each : schedules) {
      value.schedule = each;
      g_.add_to(g_.find(g_.node(product_).owner), op::attention, value, operands, reasons, skips_rounding(reasons));
    }
    const bool has_all_rows = region.space.elements() == value.sizes()[0] * value.sizes()[1] * row_length(region);
    if (pass_.uses(g_.node(rows_).owner) > 1 && is_dense(region.output, region.space) && has_all_rows) {
      const class_id statistics = add_statistics(value, schedules, operands, reasons, numbers);
      if (statistics != no_id && pass_.enabled(structural::attention_weights))
        add_weights(softmax, which, scores, statistics, reasons);
    }
    return nullptr;
  }

  // Such attention beside what its gradients want to know, which is a class of its own.
  class_id add_statistics(attention_attribute value, std::span<const attention_schedule> schedules,
                          std::span<const class_id> operands, const rule_mask& reasons, const index_map& numbers) {
    const std::int64_t rows = value.sizes()[0] * value.sizes()[1];
    small_vector<counted_axis, max_rank> axes;
    for (int i = 0; i < value.batch_axes + value.query_axes; ++i) axes.push_back({value.space[i], numbers.strides[i]});
    if (!hides_rows_alone(value.weight) || value.key_axes > 1 || numbers.offset != 0 || !counts_each_once(axes, rows))
      return no_id;
    const class_id owner = g_.find(g_.node(product_).owner);
    const shape extents = g_.extents(owner), numbered{2, rows};
    value.further = {{.output = numbers, .type = dtype::f32, .extents = numbered}};
    value.schedule = schedules[0];
    const class_id both = g_.add(op::attention, dtype::f32, extents, value, operands, reasons);
    for (const attention_schedule& each : schedules.subspan(1)) {
      value.schedule = each;
      g_.add_to(both, op::attention, value, operands, reasons);
    }
    const class_id statistics = g_.add(op::result, dtype::f32, numbered, result_attribute{1}, {&both, 1}, reasons);
    g_.add_to(owner, op::result, result_attribute{0}, std::span(&both, 1), reasons);
    pass_.introduce(both, owner), pass_.introduce(statistics, owner);
    // Of one attention that is stored in several ways they are the same.
    const node_list readers = g_[g_.find(operands[0])].parents;
    for (const enode_id other : readers) {
      if (g_.node(other).kind != op::attention || g_.find(g_.node(other).owner) == g_.find(both)) continue;
      const auto& known = g_.get<attention_attribute>(other);
      if (known.further.empty() || known.form != attention_form::output || known.space != value.space ||
          known.axes() != value.axes() || known.accesses != value.accesses || !(known.score == value.score) ||
          !(known.weight == value.weight) || !(known.sink == value.sink) || !(known.further == value.further) ||
          !std::ranges::equal(
              g_.operands(other), operands, {}, [&](class_id id) { return g_.find(id); },
              [&](class_id id) { return g_.find(id); }))
        continue;
      if (const class_id same = result_of(g_, g_.node(other).owner, 1); same != no_id) g_.merge(same, statistics);
    }
    return g_.find(statistics);
  }

  // What else reads the weights may have them of their scores and of those numbers, element by element: as the end of
  // a product that nobody waits for, where attention itself stores none.
  void add_weights(const softmax_program& softmax, std::size_t which, enode_id scores, class_id statistics,
                   const rule_mask& reasons) {
    region_attribute weights = g_.get<region_attribute>(rows_);
    const int rank = weights.space.rank(), outer = rank - weights.row_axes;
    const class_id owner = g_.find(g_.node(rows_).owner);
    class_list operands(g_.operands(rows_).begin(), g_.operands(rows_).end());
    if (operands.size() == pass_.limits().buffers) return;
    scalar_builder builder;
    small_vector<scalar_ref, 16> arguments(weights.accesses.size());
    for (const scalar_node& node : weights.program.nodes) {
      if (node.op == scalar_op::argument)
        arguments[static_cast<std::size_t>(node.value)] = builder.argument(static_cast<int>(node.value), node.type);
    }
    const scalar_ref score = builder.inlined(part(weights.program, softmax.score), arguments);
    index_map number{.source = static_cast<int>(operands.size())};
    std::int64_t rows = 1;
    for (int axis = outer; axis-- > 0; rows *= weights.space[axis])
      number.strides[axis] = weights.space[axis] == 1 ? 0 : rows;
    const auto read = [&](std::int64_t offset) {
      number.offset = offset;
      weights.accesses.push_back(number);
      return builder.argument(static_cast<int>(weights.accesses.size() - 1), dtype::f32);
    };
    const scalar_ref largest = read(0), inverse = read(rows);
    const scalar_ref e = builder.unary(scalar_op::exp, builder.binary(scalar_op::subtract, score, largest));
    weights.program = builder.finish(builder.binary(scalar_op::multiply, e, inverse));
    weights.row_axes = 0;
    operands.push_back(statistics);
    const rule_mask why = bit(structural::attention_weights) | reasons;
    const enode_id made = g_.add_to(owner, op::region, weights, operands, why);
    pass_.note_applied(structural::attention_weights);
    const class_id attention = g_.operand(g_[statistics].nodes[0], 0);
    pass_.introduce(attention, owner), pass_.introduce(statistics, owner);
    const auto operand = static_cast<std::size_t>(weights.accesses[which].source);
    if (const char* problem = kernel_family<op::matmul>::fuse(pass_, made, operand, scores))
      pass_.note_missed({owner, g_.find(g_.node(scores).owner), structural::attention_weights, problem});
  }

  // Scores and weights are computed here and, where they have other readers, elsewhere: for those that decide nothing,
  // as gradients do not.
  bool decides_twice(const attention_attribute& value, class_id scores) const {
    const class_id weights = g_.find(g_.node(rows_).owner);
    if (pass_.uses(weights) <= 1 && (pass_.uses(scores) <= 1 || pass_.serves_only(scores, rows_))) return false;
    const bool unstable[] = {true, true};
    program_flags of_score(static_cast<std::size_t>(std::max(value.score.arguments(), 1)), false);
    of_score[0] = true;
    return !pass_.decides_only_in(scores, rows_) || pass_.decides_twice(weights) ||
           trace_unstable(value.score, of_score).decision ||
           trace_unstable(value.weight, std::span(unstable).first(static_cast<std::size_t>(value.weight.arguments())))
               .decision;
  }

  implementation_pass& pass_;
  engine& g_;
  enode_id product_, rows_;
  nest loops_;
  axis_map to_rows_;
  class_id values_ = no_id;
  class_list others_;  // operands behind the three
};

MEGANEURA_INLINE void fuse_attention::apply(implementation_pass& pass, enode_id id) {
  engine& g = pass.graph();
  const class_id owner = g.find(g.node(id).owner);
  const auto& product = g.get<matmul_attribute>(id);
  if (!is_plain_product(product) || g[owner].type != dtype::f32) return;
  for (std::size_t side = 0; side < 2; ++side) {
    const class_id weights = g.operand(id, side);
    const node_list candidates = g[weights].nodes;
    for (const enode_id rows : candidates) {
      if (g.node(rows).kind != op::region) continue;
      const auto& region = g.get<region_attribute>(rows);
      if (region.row_axes == 0 || region.per_row || !region.further.empty()) continue;
      const std::optional<softmax_program> softmax = softmax_of(region.program);
      if (!softmax) continue;
      if (const char* problem = attention_draft(pass, id, side, rows).add(*softmax)) {
        if (problem != attention_draft::not_weighed) pass.note_missed({owner, weights, rule, problem});
      } else {
        pass.note_applied(rule);
      }
    }
  }
}

MEGANEURA_INLINE kernel_time kernel_family<op::attention>::time(const engine& g, enode_id id,
                                                                const device_profile& device) {
  const double bytes = bytes_of(g, g.find(g.node(id).owner)) + bytes_of_operands(g, id);
  return finished_time(time_of(g.get<attention_attribute>(id), device), bytes, 0, device);
}

}  // namespace detail

MEGANEURA_INLINE const attention_choice& implementation_pass::best(const attention_attribute& node,
                                                                   product_arithmetic arithmetic) {
  for (const known_attention& each : attentions_) {
    if (each.arithmetic == arithmetic && each.node == node) return each.best;
  }
  attentions_.push_back({node, arithmetic, detail::best_attention(node, arithmetic, device())});
  return attentions_.back().best;
}

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
