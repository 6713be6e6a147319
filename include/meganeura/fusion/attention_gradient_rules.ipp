// SPDX-License-Identifier: MIT
// Gradients of attention: found from an attention that knows its rows, in what reads its operands and its weights.
#pragma once
#include <meganeura/fusion/attention_rules.ipp>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::fusion {

namespace detail {

// A program of rows that is the gradient of scores by that of their weights. slope: of the score (argument 0), of the
// weight times what its gradient is above their mean (1), and of what arguments 0, 1, ... of the program are (2, 3,
// ...).
struct softmax_gradient {
  softmax_nodes softmax;
  scalar_program slope;
};

// A program of rows that is made of the mean of the gradient of weights: that is argument 0, the largest score 1 and
// the inverse of the sum of e 2; what arguments 0, 1, ... of the program are, 3, 4, ...
struct mean_program {
  softmax_nodes softmax;
  scalar_program value;
};

// Reads factors of e, of the sum of e, and of weights off such programs.
class softmax_gradient_reader {
 public:
  // weights: the arguments that are weights of the same rows; gradient: that of weights.
  softmax_gradient_reader(const scalar_program& program, int gradient, std::span<const int> weights)
      : program_(program), nodes_(program.nodes), weights_(weights), linear_(nodes_.size()) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const scalar_node& node = nodes_[i];
      linear_[i] = is_argument(node) && argument_of(node) == gradient;
      for (int k = 0; k < info(node.op).arity; ++k) linear_[i] = linear_[i] || linear_[node.operands[k]];
    }
  }

  std::optional<softmax_gradient> read() {
    if (!find_softmax()) return {};
    powers outside;
    scalar_ref at = last();
    const auto is_difference = [&](scalar_ref each) {
      const scalar_op op = nodes_[each].op;
      return (op == scalar_op::add || op == scalar_op::subtract) && linear_[nodes_[each].operands[0]] &&
             linear_[nodes_[each].operands[1]];
    };
    if (!descend(at, is_difference, outside, true)) return {};
    // factors * gradient + the sum of (more factors * gradient)
    const scalar_node& difference = nodes_[at];
    scalar_ref own = difference.operands[0], sum = difference.operands[1];
    if (nodes_[own].op == scalar_op::row_sum && difference.op == scalar_op::add) std::swap(own, sum);
    powers of_own, of_mean, in_sum;
    of_mean.negative = difference.op == scalar_op::subtract;
    const auto is_sum = [&](scalar_ref each) { return nodes_[each].op == scalar_op::row_sum; };
    if (!descend_to_gradient(own, of_own) || !descend(sum, is_sum, of_mean, false)) return {};
    sum = nodes_[sum].operands[0];
    if (!descend_to_gradient(sum, in_sum)) return {};
    // That is weight * (gradient - the sum of weight * gradient).
    const bool is_mean = of_own.weight == 0 && of_mean.weight == 0 && in_sum.weight == 1 &&
                         of_mean.total + in_sum.total == of_own.total &&
                         (of_mean.negative != in_sum.negative) != of_own.negative;
    const bool is_weighed = outside.weight == 1 && outside.total + of_own.total == 0;
    if (!is_mean || !is_weighed || outside.negative != of_own.negative) return {};
    return slope();
  }

  // Of a program with one result a row: what a sink's gradient is, for one.
  std::optional<mean_program> read_mean() {
    if (!find_softmax()) return {};
    std::optional<std::size_t> sum;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].op != scalar_op::row_sum || !linear_[i]) continue;
      if (sum) return {};
      sum = i;
    }
    if (!sum) return {};
    powers in_sum;
    scalar_ref at = nodes_[*sum].operands[0];
    if (!descend_to_gradient(at, in_sum) || in_sum.weight != 1) return {};
    scalar_builder builder;
    const auto own = static_cast<std::size_t>(program_.arguments());
    small_vector<scalar_ref, 16> arguments(own + 3);
    for (const scalar_node& node : nodes_) {
      const auto number = static_cast<std::size_t>(node.value);
      if (is_argument(node)) arguments[number] = builder.argument(static_cast<int>(number) + 3, node.type);
    }
    const scalar_ref inverse = builder.argument(2, dtype::f32);
    scalar_ref mean = builder.argument(0, dtype::f32);
    for (int i = 0; i < std::abs(in_sum.total); ++i)
      mean = builder.binary(in_sum.total < 0 ? scalar_op::multiply : scalar_op::divide, mean, inverse);
    arguments[own] = in_sum.negative ? builder.unary(scalar_op::negate, mean) : mean;
    arguments[own + 1] = builder.argument(1, dtype::f32);
    arguments[own + 2] = builder.unary(scalar_op::reciprocal, inverse);
    scalar_program program = program_;
    const scalar_ref known[] = {static_cast<scalar_ref>(*sum), softmax_->largest, softmax_->total};
    for (std::size_t i = 0; i < 3; ++i)
      program.nodes[known[i]] = {.op = scalar_op::argument, .type = dtype::f32, .value = static_cast<double>(own + i)};
    mean_program found{*softmax_, builder.finish(builder.inlined(program, arguments))};
    if (found.value.has_rows()) return {};
    return found;
  }

 private:
  struct powers {  // of the weight, that is e / total, and of the total
    int weight = 0, total = 0;
    bool negative = false;
  };
  struct step {
    scalar_op op;
    scalar_ref factor{0};
    bool where = true;  // select: the condition holds where something is left
  };

  static bool is_argument(const scalar_node& node) { return node.op == scalar_op::argument; }
  static int argument_of(const scalar_node& node) { return static_cast<int>(node.value); }
  [[nodiscard]] scalar_ref last() const { return static_cast<scalar_ref>(nodes_.size() - 1); }

  bool find_softmax() {
    softmax_ = softmax_nodes::find(program_);
    return softmax_ && !linear_[softmax_->score];
  }

  // Zeros that stand for what weighs nothing anyway.
  [[nodiscard]] bool is_hidden(const scalar_node& node) const {
    const auto zeros = zeros_where_hidden::find(program_, node);
    return zeros && zeros->score == softmax_->score;
  }

  // From `at` to the core that it is a multiple of.
  template <class IsCore>
  bool descend(scalar_ref& at, const IsCore& is_core, powers& found, bool has_slopes) {
    while (!is_core(at)) {
      const scalar_node& node = nodes_[at];
      const bool first = linear_[node.operands[0]];
      if (node.op == scalar_op::negate) {
        found.negative = !found.negative;
        at = node.operands[0];
      } else if (node.op == scalar_op::multiply && first != linear_[node.operands[1]]) {
        if (!take(node.operands[first ? 1 : 0], 1, found, has_slopes)) return false;
        at = node.operands[first ? 0 : 1];
      } else if (node.op == scalar_op::divide && first && !linear_[node.operands[1]]) {
        if (!take(node.operands[1], -1, found, has_slopes)) return false;
        at = node.operands[0];
      } else if (is_hidden(node)) {
        at = node.operands[2];
      } else if (node.op == scalar_op::select && has_slopes && !linear_[node.operands[0]]) {
        const bool where = linear_[node.operands[1]];
        const scalar_ref other = node.operands[where ? 2 : 1], kept = node.operands[where ? 1 : 2];
        if (nodes_[other].op != scalar_op::constant || nodes_[other].value != 0 || !linear_[kept]) return false;
        slopes_.push_back({scalar_op::select, node.operands[0], where});
        at = kept;
      } else {
        return false;
      }
    }
    return true;
  }
  bool descend_to_gradient(scalar_ref& at, powers& found) {
    return descend(
        at, [&](scalar_ref each) { return is_argument(nodes_[each]); }, found, false);
  }
  bool take(scalar_ref factor, int sign, powers& found, bool has_slopes) {
    while (is_hidden(nodes_[factor])) factor = nodes_[factor].operands[2];
    const scalar_node& node = nodes_[factor];
    if (factor == softmax_->e) {
      found.weight += sign, found.total += sign;
    } else if (factor == softmax_->total) {
      found.total += sign;
    } else if (is_argument(node) && std::ranges::find(weights_, argument_of(node)) != weights_.end()) {
      found.weight += sign;
    } else if (node.op == scalar_op::divide && node.operands[1] == softmax_->total) {
      return take(node.operands[0], sign, found, has_slopes) && take(node.operands[1], -sign, found, has_slopes);
    } else if (has_slopes) {
      slopes_.push_back({sign > 0 ? scalar_op::multiply : scalar_op::divide, factor});
    } else {
      return false;
    }
    return true;
  }

  std::optional<softmax_gradient> slope() const {
    scalar_builder builder;
    const parts_by_score of_score(builder, program_, softmax_->score);
    scalar_ref value = builder.argument(1, dtype::f32);
    for (std::size_t i = slopes_.size(); i-- > 0;) {
      const step& each = slopes_[i];
      const scalar_ref factor = of_score(each.factor);
      if (each.op != scalar_op::select) {
        value = builder.binary(each.op, value, factor);
      } else {
        const scalar_ref zero = builder.constant(0);
        value = builder.select(factor, each.where ? value : zero, each.where ? zero : value);
      }
    }
    softmax_gradient found{*softmax_, builder.finish(value)};
    if (found.slope.has_rows()) return {};
    return found;
  }

  const scalar_program& program_;
  const small_vector<scalar_node, 12>& nodes_;
  std::span<const int> weights_;
  small_vector<bool, 64> linear_;  // a multiple of the gradient of weights
  std::optional<softmax_nodes> softmax_;
  small_vector<step, 8> slopes_;  // outermost first
};

// The accesses of a product over the axes of another nest, some of whose accesses are known there: an axis is one or
// more of these, the innermost first, where all that is known steps alike.
class matched_axes {
 public:
  /// `without`: the group, channels or width, that the product does not have.
  matched_axes(const matmul_attribute& product, const attention_attribute& of, std::size_t without)
      : product_(product), space_(of.space) {
    const auto counts = of.axes();
    first_left_out_ = std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(without), 0);
    end_left_out_ = first_left_out_ + counts[without];
  }
  void know(const index_map& of_product, const index_map& known) { pairs_.push_back({&of_product, &known}); }

  bool match() {
    small_vector<bool, max_rank> taken(static_cast<std::size_t>(space_.rank()), false);
    for (const auto& [own, known] : pairs_) {
      if (own->offset != known->offset || own->bounded != 0 || known->bounded != 0) return false;
    }
    for (int axis = 0; axis < product_.space.rank(); ++axis) {
      for (std::int64_t times = 1; times != product_.space[axis];) {
        const int other = part_of(axis, times, taken);
        if (other < 0) return false;
        parts_.push_back({axis, other, times});
        taken[static_cast<std::size_t>(other)] = true;
        times *= space_[other];
      }
    }
    // The product has all axes but those, and along these what is known does not step.
    for (int other = 0; other < space_.rank(); ++other) {
      if (taken[static_cast<std::size_t>(other)] || space_[other] == 1) continue;
      if (other < first_left_out_ || other >= end_left_out_) return false;
      for (const auto& [own, known] : pairs_) {
        if (known->strides[other] != 0) return false;
      }
    }
    return true;
  }
  [[nodiscard]] index_map operator()(const index_map& of_product) const {
    index_map result;
    result.offset = of_product.offset;
    for (const axis_part& each : parts_) result.strides[each.to] = of_product.strides[each.axis] * each.times;
    return result;
  }

 private:
  // An axis that is not taken, or -1, of which a step is `times` steps along the product's.
  [[nodiscard]] int part_of(int axis, std::int64_t times, const small_vector<bool, max_rank>& taken) const {
    for (int other = 0; other < space_.rank(); ++other) {
      const auto alike = [&](const auto& pair) {
        return pair.own->strides[axis] * times == pair.known->strides[other];
      };
      const bool is_left_out = other >= first_left_out_ && other < end_left_out_;
      const bool fits = space_[other] > 1 && product_.space[axis] / times % space_[other] == 0;
      if (fits && !is_left_out && !taken[static_cast<std::size_t>(other)] && std::ranges::all_of(pairs_, alike))
        return other;
    }
    return -1;
  }

  const matmul_attribute& product_;
  const shape& space_;
  struct known_access {
    const index_map *own, *known;
  };
  small_vector<known_access, 3> pairs_;
  int first_left_out_ = 0, end_left_out_ = 0;
  struct axis_part {
    int axis, to;
    std::int64_t times;
  };
  small_vector<axis_part, max_rank> parts_;
};

class attention_gradient_draft {
 public:
  static constexpr std::size_t channels = 2, width = 4;  // groups of axes

  attention_gradient_draft(implementation_pass& pass, enode_id id)
      : pass_(pass), g_(pass.graph()), both_(g_.find(g_.node(id).owner)), of_(g_.get<attention_attribute>(id)) {
    operands_.append(g_.operands(id).begin(), g_.operands(id).end());
    for (class_id& each : operands_) each = g_.find(each);
    output_ = result_of(g_, both_, 0), statistics_ = result_of(g_, both_, 1);
    numbers_ = of_.further[0].output;
    scores_ = numbers_;
    for (int axis = 0; axis < of_.space.rank(); ++axis) scores_.strides[axis] *= of_.sizes()[3];
    if (of_.key_axes > 0) scores_.strides[of_.batch_axes + of_.query_axes + of_.channel_axes] = 1;
  }

  void add() {
    if (output_ == no_id || statistics_ == no_id || of_.channel_axes == 0) return;
    find_weights();
    if (weights_ == no_id) return;
    each_product(operands_[2], [&](enode_id product, std::size_t side) {
      const class_id gradient = g_.operand(product, 1 - side), made = owner(product);
      if (made == output_ || gradient == weights_ || g_[gradient].type != dtype::f32) return;
      const matmul_attribute& values = g_.get<matmul_attribute>(product);
      matched_axes axes(values, of_, width);
      axes.know(side == 0 ? values.a : values.b, of_.values());
      axes.know(values.output, scores_);
      if (!axes.match()) return;
      gradient_ = gradient;
      of_gradient_ = axes(side == 0 ? values.b : values.a);
      if (!is_plain(of_gradient_)) return;
      add_by(made);
      const node_list readers = g_[made].parents;
      for (const enode_id reader : readers) {
        if (hides_scores(reader, made)) add_by(owner(reader));
      }
    });
  }

 private:
  [[nodiscard]] class_id owner(enode_id id) const { return g_.find(g_.node(id).owner); }

  [[nodiscard]] bool is_product(enode_id id) const {
    return !g_.node(id).dead && g_.node(id).kind == op::matmul && is_plain_product(g_.get<matmul_attribute>(id));
  }

  // use(product, which operand it is) of what reads the class, as it is.
  template <class Use>
  void each_product(class_id from, const Use& use) {
    const node_list readers = g_[g_.find(from)].parents;
    for (const enode_id reader : readers) {
      if (!is_product(reader) || g_[owner(reader)].type != dtype::f32) continue;
      for (std::size_t side = 0; side < 2; ++side) {
        if (g_.operand(reader, side) == g_.find(from)) use(reader, side);
      }
    }
  }
  [[nodiscard]] bool is_rows(enode_id id) const {
    if (g_.node(id).dead || g_.node(id).kind != op::region) return false;
    const auto& rows = g_.get<region_attribute>(id);
    return rows.row_axes > 0 && rows.further.empty() && (rows.per_row || is_dense(rows.output, rows.space));
  }

  // What weighs values in a product that computes the same, as these are weighed, and is a softmax.
  void find_weights() {
    const node_list nodes = g_[output_].nodes;
    for (const enode_id node : nodes) {
      if (!is_product(node)) continue;
      const auto& product = g_.get<matmul_attribute>(node);
      for (std::size_t side = 0; side < 2; ++side) {
        if (g_.operand(node, side) != operands_[2]) continue;
        matched_axes axes(product, of_, width);
        axes.know(side == 0 ? product.a : product.b, of_.values());
        axes.know(product.output, of_.output);
        if (!axes.match() || !(axes(side == 0 ? product.b : product.a) == scores_)) continue;
        const class_id other = g_.operand(node, 1 - side);
        for (const enode_id rows : g_[other].nodes) {
          if (!is_rows(rows) || g_.get<region_attribute>(rows).per_row) continue;
          const auto softmax = softmax_of(g_.get<region_attribute>(rows).program);
          if (!softmax || !hides_rows_alone(softmax->weight)) continue;
          weights_ = other;
          of_weights_.push_back({rows, softmax->score, softmax->sink});
        }
      }
      if (weights_ != no_id) return;
    }
  }

  // Whether that is the products, but zeros where the score is hidden, whose weight is zero anyway.
  [[nodiscard]] bool hides_scores(enode_id id, class_id products) const {
    if (g_.node(id).dead || g_.node(id).kind != op::region) return false;
    const auto& region = g_.get<region_attribute>(id);
    const auto& nodes = region.program.nodes;
    if (region.row_axes != 0 || !region.further.empty() || !is_dense(region.output, region.space)) return false;
    const auto zeros = zeros_where_hidden::find(region.program, nodes.back());
    if (!zeros || nodes[zeros->kept].op != scalar_op::argument) return false;
    const index_map& kept = region.accesses[static_cast<std::size_t>(nodes[zeros->kept].value)];
    return kept.source >= 0 && g_.operand(id, static_cast<std::size_t>(kept.source)) == products &&
           is_dense(kept, region.space) && std::ranges::any_of(of_weights_, [&](const weighing_rows& each) {
             return equal(id, zeros->score, each.rows, each.score);
           });
  }

  // `products`: of the output's gradient and values.
  void add_by(class_id products) {
    const node_list readers = g_[products].parents;
    for (const enode_id rows : readers) {
      if (!is_rows(rows)) continue;
      const region_attribute region = g_.get<region_attribute>(rows);
      int of_products = -1;
      small_vector<int, 4> weights;
      for (std::size_t k = 0; k < region.accesses.size(); ++k) {
        const index_map& read = region.accesses[k];
        if (read.source < 0 || !is_dense(read, region.space)) continue;
        const class_id source = g_.operand(rows, static_cast<std::size_t>(read.source));
        if (source == products) of_products = static_cast<int>(k);
        if (source == weights_) weights.push_back(static_cast<int>(k));
      }
      if (of_products < 0) continue;
      softmax_gradient_reader reader(region.program, of_products, weights);
      if (region.per_row) {
        if (const auto found = reader.read_mean(); found && is_same(rows, found->softmax))
          add_mean(rows, region, *found);
        continue;
      }
      const auto found = reader.read();
      if (!found || !is_same(rows, found->softmax)) continue;
      add_by_weights(rows, region, *found, of_products);
      if (const char* problem = add_for(rows, region, *found))
        pass_.note_missed({owner(rows), output_, attention_gradients::rule, problem});
    }
  }

  // Whether that is the softmax by which attention weighs: the same programs of the same values.
  [[nodiscard]] bool is_same(enode_id rows, const softmax_nodes& softmax) const {
    return std::ranges::any_of(of_weights_, [&](const weighing_rows& each) {
      if (each.sink.has_value() != softmax.sink.has_value()) return false;
      return equal(rows, softmax.score, each.rows, each.score) &&
             (!each.sink || equal(rows, *softmax.sink, each.rows, *each.sink));
    });
  }
  [[nodiscard]] bool equal(enode_id rows, scalar_ref value, enode_id of, scalar_ref known) const {
    const auto &own = g_.get<region_attribute>(rows), &other = g_.get<region_attribute>(of);
    if (own.row_axes > 0 && row_length(own) != row_length(other)) return false;
    if (own.space.elements() != other.space.elements()) return false;
    small_vector<scalar_ref, 64> seen(own.program.nodes.size(), scalar_ref(-1));  // equal to which
    return equal(own.program, value, rows, other.program, known, of, seen);
  }
  [[nodiscard]] bool equal(const scalar_program& a, scalar_ref in_a, enode_id rows_a, const scalar_program& b,
                           scalar_ref in_b, enode_id rows_b, small_vector<scalar_ref, 64>& seen) const {
    const scalar_node &x = a.nodes[in_a], &y = b.nodes[in_b];
    if (seen[in_a] == in_b) return true;
    if (x.op != y.op || x.type != y.type) return false;
    if (x.op == scalar_op::argument) {
      const auto &own = g_.get<region_attribute>(rows_a), &other = g_.get<region_attribute>(rows_b);
      const index_map& read = own.accesses[static_cast<std::size_t>(x.value)];
      const index_map& known = other.accesses[static_cast<std::size_t>(y.value)];
      if ((read.source < 0) != (known.source < 0)) return false;
      if (read.source >= 0 && g_.operand(rows_a, static_cast<std::size_t>(read.source)) !=
                                  g_.operand(rows_b, static_cast<std::size_t>(known.source)))
        return false;
      return reads_alike(read, own.space, known, other.space);
    }
    if (x.op == scalar_op::constant) return same_bits(x.value, y.value);
    for (int k = 0; k < info(x.op).arity; ++k) {
      if (!equal(a, x.operands[k], rows_a, b, y.operands[k], rows_b, seen)) return false;
    }
    seen[in_a] = in_b;
    return true;
  }

  // One value a row that is made of the mean: of what attention tells of its rows.
  void add_mean(enode_id rows, const region_attribute& region, const mean_program& found) {
    const class_id made = owner(rows);
    const int outer = region.space.rank() - region.row_axes;
    if (g_[made].decides || g_[made].type != dtype::f32) return;
    const auto of_row = [&](index_map access) {
      for (int axis = outer; axis < region.space.rank(); ++axis) access.strides[axis] = 0;
      return access;
    };
    region_in_making values;
    for (int axis = 0; axis < outer; ++axis) values.value.space.push_back(region.space[axis]);
    values.value.output = of_row(region.output);
    small_vector<scalar_ref, 16> arguments(static_cast<std::size_t>(std::max(found.value.arguments(), 3)));
    index_map number;
    for (int axis = 0; axis < outer; ++axis) number.strides[axis] = values.value.space.stride(axis);
    const class_id mean = mean_for(made, rows);
    if (mean == no_id) return;
    arguments[0] = values.read(number, mean, dtype::f32);
    arguments[1] = values.read(number, statistics_, dtype::f32);
    number.offset = values.value.space.elements();
    arguments[2] = values.read(number, statistics_, dtype::f32);
    for (const scalar_node& node : found.value.nodes) {
      if (node.op != scalar_op::argument || node.value < 3) continue;
      const auto argument = static_cast<std::size_t>(node.value);
      const index_map& own = region.accesses[argument - 3];
      for (int axis = outer; axis < region.space.rank(); ++axis) {
        if (own.strides[axis] != 0 && region.space[axis] > 1) return;
      }
      if (own.bounded != 0) return;
      arguments[argument] = values.read(of_row(own), source_of(rows, own), node.type);
    }
    values.value.program = values.builder.finish(values.builder.inlined(found.value, arguments));
    if (add_region(rows, values)) pass_.introduce(both_, made), pass_.introduce(statistics_, made);
  }

  // The same rows of the weights as they are stored, where scores are asked for nothing else: weight * (gradient - the
  // sum of weight * gradient).
  void add_by_weights(enode_id rows, const region_attribute& region, const softmax_gradient& found, int of_products) {
    if (g_[owner(rows)].decides || reads_argument(found.slope, 0)) return;
    region_in_making made{region, {}, {}};
    made.value.accesses.clear();
    scalar_builder& builder = made.builder;
    const auto argument = [&](std::size_t k, dtype type) {
      return made.read(region.accesses[k], source_of(rows, region.accesses[k]), type);
    };
    const scalar_ref gradient = argument(static_cast<std::size_t>(of_products), dtype::f32);
    const scalar_ref weight = made.read(region.accesses[static_cast<std::size_t>(of_products)], weights_, dtype::f32);
    const scalar_ref sum = builder.unary(scalar_op::row_sum, builder.binary(scalar_op::multiply, weight, gradient));
    const scalar_ref above = builder.binary(scalar_op::subtract, gradient, sum);
    small_vector<scalar_ref, 16> arguments(static_cast<std::size_t>(std::max(found.slope.arguments(), 2)), above);
    arguments[1] = builder.binary(scalar_op::multiply, weight, above);
    for (const scalar_node& node : found.slope.nodes) {
      if (node.op == scalar_op::argument && node.value >= 2)
        arguments[static_cast<std::size_t>(node.value)] = argument(static_cast<std::size_t>(node.value) - 2, node.type);
    }
    made.value.program = builder.finish(builder.inlined(found.slope, arguments));
    add_region(rows, made);
  }

  // Read by read; its program is the last.
  struct region_in_making {
    region_attribute value;
    class_list operands;
    scalar_builder builder;

    scalar_ref read(index_map access, class_id source, dtype type) {
      if (source != no_id) access.source = static_cast<int>(append_once(operands, 0, source));
      value.accesses.push_back(access);
      return builder.argument(static_cast<int>(value.accesses.size() - 1), type);
    }
  };
  [[nodiscard]] class_id source_of(enode_id region, const index_map& access) const {
    if (access.source < 0) return class_id(no_id);
    return g_.find(g_.operand(region, static_cast<std::size_t>(access.source)));
  }
  // The same as `rows` has, where it fits; whether it does.
  bool add_region(enode_id rows, const region_in_making& made) {
    const class_id to = owner(rows);
    if (made.operands.size() > pass_.limits().buffers || std::ranges::find(made.operands, to) != made.operands.end())
      return false;
    g_.add_to(to, op::region, made.value, made.operands, bit(attention_gradients::rule) | g_.node(rows).reasons);
    pass_.note_applied(attention_gradients::rule);
    return true;
  }
  static bool reads_argument(const scalar_program& program, std::size_t argument) {
    return std::ranges::any_of(program.nodes, [&](const scalar_node& node) {
      return node.op == scalar_op::argument && static_cast<std::size_t>(node.value) == argument;
    });
  }

  // Why there are none, or null.
  const char* add_for(enode_id rows, const region_attribute& region, const softmax_gradient& found) {
    attention_attribute value = of_;
    value.further.clear();
    value.sink = {};  // which statistics have in them
    value.schedule = {};
    class_list operands(operands_.begin(), operands_.begin() + 3);
    for (const class_id each : {gradient_, statistics_, class_id(no_id)}) operands.push_back(each);
    value.accesses = {of_.query(), of_.key(), of_.values(), of_gradient_, numbers_, numbers_};
    for (int i = 3; i < 6; ++i) value.accesses[static_cast<std::size_t>(i)].source = i;
    for (std::size_t i = 3; i < of_.accesses.size(); ++i) {
      value.accesses.push_back(of_.accesses[i]);
      if (value.accesses.back().source >= 0) value.accesses.back().source += 3;
    }
    operands.append(operands_.begin() + 3, operands_.end());
    if (const char* problem = read_slope(rows, region, found.slope, value, operands)) return problem;
    if (operands.size() > pass_.limits().buffers) return "too many operands";
    program_flags flags(static_cast<std::size_t>(std::max(value.slope.arguments(), 2)), false);
    flags[0] = flags[1] = true;
    if (trace_unstable(value.slope, flags).decision) return "computed twice it could decide two ways";
    bool any = add_query_gradient(owner(rows), value, operands);
    any = add_key_gradients(owner(rows), value, operands) || any;
    if (any) pass_.note_applied(attention_gradients::rule);
    return nullptr;
  }

  // `slope` with arguments as the node has them; what it reads besides the score is over the node's axes.
  const char* read_slope(enode_id rows, const region_attribute& region, const scalar_program& slope,
                         attention_attribute& value, class_list& operands) {
    nest loops;
    loops.space = of_.space;
    loops.accesses.push_back(scores_);
    axis_map to_rows;
    if (!solve_index(loops, 0, region.space, region.space.rank(), region.output, false, to_rows))
      return "the rows' order is not affine in the attention's loops";
    scalar_builder builder;
    small_vector<scalar_ref, 16> arguments(static_cast<std::size_t>(std::max(slope.arguments(), 2)),
                                           builder.argument(0, dtype::f32));
    arguments[1] = builder.argument(1, dtype::f32);
    for (const scalar_node& node : slope.nodes) {
      if (node.op != scalar_op::argument || node.value < 2) continue;
      const auto number = static_cast<std::size_t>(node.value);
      const index_map& own = region.accesses[number - 2];
      index_map read;
      if (!compose_access(own, region.space.rank(), to_rows, scores_, of_.space, read) || read.bounded)
        return "a border is not a box in the attention's loops";
      if (own.source >= 0) {
        const class_id source = g_.operand(rows, static_cast<std::size_t>(own.source));
        read.source = static_cast<int>(append_once(operands, 6, source));
      }
      const std::size_t place = append_once(value.accesses, 6, read);
      arguments[number] = builder.argument(static_cast<int>(place) - 4, node.type);
    }
    value.slope = builder.finish(builder.inlined(slope, arguments));
    return nullptr;
  }

  bool add_query_gradient(class_id slopes, attention_attribute value, class_list operands) {
    value.form = attention_form::query_gradient;
    const auto schedules = schedules_of_attention(pass_, value);
    bool any = false;
    each_product(slopes, [&](enode_id product, std::size_t side) {
      if (g_.operand(product, 1 - side) != operands_[1]) return;
      const matmul_attribute& keys = g_.get<matmul_attribute>(product);
      matched_axes axes(keys, of_, channels);
      axes.know(side == 0 ? keys.a : keys.b, scores_);
      axes.know(side == 0 ? keys.b : keys.a, of_.key());
      if (!axes.match()) return;
      value.output = axes(keys.output);
      const class_id made = owner(product);
      if (!has_each(value.output, {true, true, false, false, true})) return;
      operands[5] = mean_for(made, product);
      if (operands[5] == no_id || std::ranges::find(operands, made) != operands.end()) return;
      for (const attention_schedule& each : schedules) {
        value.schedule = each;
        g_.add_to(made, op::attention, value, operands, reasons(product));
        any = true;
      }
    });
    return any;
  }

  bool add_key_gradients(class_id slopes, attention_attribute value, class_list operands) {
    value.form = attention_form::key_gradients;
    const auto schedules = schedules_of_attention(pass_, value);
    if (schedules.empty() || operands.size() + 1 > pass_.limits().buffers) return false;
    struct part_of {
      enode_id product;
      index_map output;
    };
    small_vector<part_of, 4> of_keys, of_values;
    const auto collect = [&](class_id rows, class_id weighed, const index_map& access, std::size_t without,
                             small_vector<part_of, 4>& found) {
      each_product(rows, [&](enode_id product, std::size_t side) {
        if (g_.operand(product, 1 - side) != weighed) return;
        const matmul_attribute& queries = g_.get<matmul_attribute>(product);
        matched_axes axes(queries, of_, without);
        axes.know(side == 0 ? queries.a : queries.b, scores_);
        axes.know(side == 0 ? queries.b : queries.a, access);
        if (!axes.match()) return;
        const index_map output = axes(queries.output);
        if (has_each(output, {true, false, without == width, true, without == channels}))
          found.push_back({product, output});
      });
    };
    collect(slopes, operands_[0], of_.query(), channels, of_keys);
    collect(weights_, gradient_, of_gradient_, width, of_values);
    bool any = false;
    for (const part_of& keys : of_keys) {
      for (const part_of& values : of_values) {
        const class_id made = owner(keys.product), second = owner(values.product);
        operands[5] = mean_for(made, keys.product);
        const auto reads = [&](class_id id) { return std::ranges::find(operands, id) != operands.end(); };
        if (operands[5] == no_id || made == second || reads(made) || reads(second)) continue;
        value.output = keys.output;
        value.further = {{.output = values.output, .type = dtype::f32, .extents = g_.extents(second)}};
        const shape extents = g_.extents(made);
        const rule_mask why = reasons(keys.product) | reasons(values.product);
        value.schedule = schedules[0];
        const class_id all = g_.add(op::attention, dtype::f32, extents, value, operands, why);
        for (std::size_t i = 1; i < schedules.size(); ++i) {
          value.schedule = schedules[i];
          g_.add_to(all, op::attention, value, operands, why);
        }
        g_.add_to(made, op::result, result_attribute{0}, std::span(&all, 1), why);
        g_.add_to(second, op::result, result_attribute{1}, std::span(&all, 1), why);
        for (const class_id reader : {made, second}) {
          pass_.introduce(operands[5], reader);
          pass_.introduce(all, reader);
        }
        any = true;
      }
    }
    return any;
  }

  // Whether a product's results are those of each of these groups of axes, added up over the others: its kernel adds up
  // over no batch, not even where keys differ in it and values do not.
  [[nodiscard]] bool has_each(const index_map& output, std::array<bool, 5> groups) const {
    if (!is_plain(output)) return false;
    const auto counts = of_.axes();
    for (std::size_t group = 0, axis = 0; group < groups.size(); ++group) {
      for (int i = 0; i < counts[group]; ++i, ++axis) {
        if (of_.space[static_cast<int>(axis)] > 1 && (output.strides[axis] != 0) != groups[group]) return false;
      }
    }
    return true;
  }

  [[nodiscard]] rule_mask reasons(enode_id product) const {
    return bit(attention_gradients::rule) | g_.node(product).reasons | g_.node(g_[both_].nodes[0]).reasons;
  }

  // Of each row what its output and its gradient add up to: that is also what its weights and their gradients do.
  class_id mean_for(class_id reader, enode_id product) {
    g_.at(g_.node(product).path);
    class_id mean = no_id;
    const node_list same = g_[statistics_].nodes;
    for (const enode_id result : same) {
      if (g_.node(result).kind != op::result) continue;
      const class_id both = g_.operand(result, 0), rows = result_of(g_, both, 0);
      if (rows == no_id || g_.node(g_[both].nodes[0]).kind != op::attention) continue;
      const attention_attribute& other = g_.get<attention_attribute>(g_[both].nodes[0]);
      if (other.space != of_.space || other.axes() != of_.axes()) continue;
      nest loops;
      for (int axis = 0; axis < of_.batch_axes + of_.query_axes + of_.channel_axes; ++axis) {
        loops.group[axis] = axis < of_.batch_axes + of_.query_axes ? 0 : 1;
        loops.space.push_back(of_.space[axis]);
      }
      loops.accesses = {numbers_, of_gradient_, other.output};
      normalise(loops);
      region_attribute region;
      region.space = loops.space, region.row_axes = loops.count(1), region.per_row = true;
      scalar_builder builder;
      region.program = builder.finish(builder.unary(
          scalar_op::row_sum,
          builder.binary(scalar_op::multiply, builder.argument(0, dtype::f32), builder.argument(1, dtype::f32))));
      region.accesses = {loops.accesses[1], loops.accesses[2]};
      class_list operands;
      region.accesses[0].source = static_cast<int>(append_once(operands, 0, gradient_));
      region.accesses[1].source = static_cast<int>(append_once(operands, 0, rows));  // which may be the same
      region.output = loops.accesses[0];
      region.output.source = 0;
      if (region.row_axes == 0) continue;
      if (mean == no_id) {
        const shape extents{of_.sizes()[0] * of_.sizes()[1]};
        mean = g_.add(op::region, dtype::f32, extents, region, operands, reasons(product));
      } else {
        g_.add_to(mean, op::region, region, operands, reasons(product));
      }
    }
    if (mean != no_id) pass_.introduce(mean, reader);
    return mean;
  }

  implementation_pass& pass_;
  engine& g_;
  class_id both_;
  const attention_attribute of_;
  class_list operands_;
  class_id output_ = no_id, statistics_ = no_id, weights_ = no_id, gradient_ = no_id;
  index_map numbers_, scores_, of_gradient_;  // of rows, of their scores in the order of keys, of the output's gradient
  struct weighing_rows {
    enode_id rows;
    scalar_ref score;
    std::optional<scalar_ref> sink;
  };
  small_vector<weighing_rows, 4> of_weights_;
};

MEGANEURA_INLINE void attention_gradients::apply(implementation_pass& pass, enode_id id) {
  const engine& g = pass.graph();
  const auto& attention = g.get<attention_attribute>(id);
  const class_id both = g.find(g.node(id).owner);
  if (attention.form != attention_form::output || attention.further.empty() || g[both].nodes[0] != id) return;
  // Of attentions that are stored in several ways the first stands for all.
  const class_id statistics = result_of(g, both, 1);
  if (statistics == no_id) return;
  for (const enode_id result : g[statistics].nodes) {
    if (g.node(result).dead || g.node(result).kind != op::result) continue;
    if (g.operand(result, 0) != both) return;
    break;
  }
  attention_gradient_draft(pass, id).add();
}

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
