// SPDX-License-Identifier: MIT
// Products with two right operands, and products that store several values: what is computed of their sums at once.
#pragma once
#include <meganeura/fusion/epilogue_draft.hpp>
#include <meganeura/fusion/implement.hpp>
#include <meganeura/fusion/matmul_rules.ipp>
#include <meganeura/fusion/prologue_rules.ipp>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::fusion {

namespace detail {

// A product being written whose epilogue comes from several programs.
class product_writer {
 public:
  product_draft draft;
  scalar_builder builder;

  void multiply(const index_map& output, const index_map& a, const index_map& b, class_id left, class_id right) {
    draft.loops.accesses = {output, a, b};
    draft.operands = {left, right};
  }
  void add_second(index_map read, class_id right) {
    read.source = 2;
    draft.loops.accesses.push_back(read);
    draft.operands.push_back(right);
    draft.paired = true;
  }
  [[nodiscard]] scalar_ref sum(int which) { return builder.argument(which, dtype::f32); }

  // An argument of the epilogue that reads this; source: no_id where it reads no tensor.
  scalar_ref add_read(index_map read, class_id source, dtype type) {
    const std::size_t multiplied = draft.paired ? 3 : 2;
    if (source != no_id) read.source = static_cast<int>(append_once(draft.operands, multiplied, source));
    const std::size_t place = append_once(draft.loops.accesses, multiplied + 1, read);
    return builder.argument(static_cast<int>(place) - 2, type);
  }
  // `argument(number, dtype)`: what stands for each.
  template <class Argument>
  scalar_ref carried(const scalar_program& program, const Argument& argument) {
    small_vector<scalar_ref, 16> arguments(static_cast<std::size_t>(std::max(program.arguments(), 1)));
    for (const scalar_node& node : program.nodes) {
      if (node.op != scalar_op::argument) continue;
      const auto number = static_cast<std::size_t>(node.value);
      arguments[number] = argument(number, node.type);
    }
    return builder.inlined(program, arguments);
  }
};

// From pointwise regions over one product, or over two of one left operand.
class several_draft {
 public:
  using nodes = small_vector<enode_id, 4>;
  several_draft(implementation_pass& pass, structural rule, const nodes& regions, const nodes& products)
      : pass_(pass),
        g_(pass.graph()),
        rule_(rule),
        regions_(regions),
        products_(products),
        first_(g_.get<matmul_attribute>(products[0])) {
    if (products.size() > 1) second_ = g_.get<matmul_attribute>(products[1]);
    for (const enode_id each : products) is_kept_.push_back(!pass_.serves_only(owner(each), regions_));
  }

  // Why there is none, or null when a node was added.
  const char* add() {
    if (second_ && !lie_alike()) return "the products' loops or operands differ";
    loops_ = to_nest(first_);
    const std::size_t of_second = loops_.accesses.size();
    if (second_) {
      loops_.accesses.push_back(second_->b);
      loops_.accesses.push_back(second_->output);
      loops_.accesses.append(second_->finish.accesses.begin(), second_->finish.accesses.end());
    }
    std::vector<carried_region> carried_over;
    for (const enode_id region : regions_) {
      epilogue_draft made(g_, region, operand_of(region), products_[0], pass_.limits());
      if (const char* problem = made.combine(loops_, true, first_.finish)) return problem;
      // Axes may still be split for the next one.
      const std::size_t begin = loops_.accesses.size();
      loops_.accesses.push_back(made.output);
      loops_.accesses.append(made.finish.accesses.begin(), made.finish.accesses.end());
      carried_over.push_back({std::move(made.finish.program), made.others, begin, made.finish.accesses.size()});
    }
    const index_map output = loops_.accesses[carried_over[0].begin];
    for (const carried_region& each : carried_over) {
      if (!(loops_.accesses[each.begin] == output)) return "the results lie differently";
    }
    if (keeps_any() && !(loops_.accesses[0] == output)) return "the results lie differently";
    writer_.draft.loops = loops_;
    writer_.multiply(output, loops_.accesses[1], loops_.accesses[2], g_.operand(products_[0], 0),
                     g_.operand(products_[0], 1));
    if (second_) {
      const index_map stored = loops_.accesses[of_second + 1];
      for (const carried_region& each : carried_over) {
        for (const index_map& read : reads_of(each)) {
          if (is_second(read, each.others) && !reads_alike(read, stored))
            return "a product is read otherwise than it is stored";
        }
      }
      writer_.add_second(loops_.accesses[of_second], g_.operand(products_[1], 1));
      const std::size_t reads = of_second + 2;
      second_value_ = carried(second_->finish.program, all().subspan(reads, second_->finish.accesses.size()),
                              g_.operands(products_[1]).subspan(2), writer_.sum(1));
    }
    for (std::size_t i = 0; i < products_.size(); ++i) {
      if (!is_kept_[i]) continue;
      const scalar_ref value = i == 1 ? *second_value_
                                      : carried(first_.finish.program, all().subspan(3, first_.finish.accesses.size()),
                                                g_.operands(products_[0]).subspan(2), writer_.sum(0));
      results_.push_back({owner(products_[i]), value});
    }
    for (std::size_t i = 0; i < regions_.size(); ++i) {
      const carried_region& each = carried_over[i];
      results_.push_back({owner(regions_[i]), carried(each.program, reads_of(each), each.others, writer_.sum(0))});
    }
    return emit();
  }

 private:
  struct carried_region {
    scalar_program program;
    class_list others;
    std::size_t begin, reads;  // among the accesses: its output, and behind it what it reads
  };
  struct named_result {
    class_id of;
    scalar_ref value;
  };

  [[nodiscard]] class_id owner(enode_id node) const { return g_.find(g_.node(node).owner); }
  [[nodiscard]] std::size_t operand_of(enode_id region) const {
    const std::span<const class_id> operands = g_.operands(region);
    const auto is_product = [&](class_id id) { return g_.find(id) == owner(products_[0]); };
    return static_cast<std::size_t>(std::ranges::find_if(operands, is_product) - operands.begin());
  }
  [[nodiscard]] bool keeps_any() const { return std::ranges::find(is_kept_, true) != is_kept_.end(); }
  [[nodiscard]] std::span<const index_map> all() const { return loops_.accesses; }
  [[nodiscard]] std::span<const index_map> reads_of(const carried_region& each) const {
    return all().subspan(each.begin + 1, each.reads);
  }

  [[nodiscard]] static bool reads_alike(const index_map& a, const index_map& b) {
    return a.offset == b.offset && std::equal(a.strides, a.strides + max_rank, b.strides);
  }
  // One left operand, and right ones of which only the place differs.
  [[nodiscard]] bool lie_alike() const {
    const auto operand = [&](std::size_t which, std::size_t at) { return g_.find(g_.operand(products_[which], at)); };
    return operand(0, 0) == operand(1, 0) && g_[operand(0, 1)].type == g_[operand(1, 1)].type &&
           first_.space == second_->space && first_.batch_axes == second_->batch_axes &&
           first_.m_axes == second_->m_axes && first_.n_axes == second_->n_axes && reads_alike(first_.a, second_->a) &&
           reads_alike(first_.output, second_->output) &&
           std::equal(first_.b.strides, first_.b.strides + max_rank, second_->b.strides) &&
           (first_.b.offset - second_->b.offset) % 8 == 0 &&
           (operand(0, 1) != operand(1, 1) || first_.b.offset != second_->b.offset);
  }

  [[nodiscard]] class_id source_of(const index_map& read, std::span<const class_id> others) const {
    return read.source < 2 ? static_cast<class_id>(no_id) : g_.find(others[static_cast<std::size_t>(read.source) - 2]);
  }
  [[nodiscard]] bool is_second(const index_map& read, std::span<const class_id> others) const {
    return second_ && source_of(read, others) == owner(products_[1]);
  }

  // An epilogue of a sum over the loops, with its reads among those of the draft.
  scalar_ref carried(const scalar_program& program, std::span<const index_map> reads, std::span<const class_id> others,
                     scalar_ref sum) {
    return writer_.carried(program, [&](std::size_t number, dtype type) {
      if (number == 0) return sum;
      const index_map& read = reads[number - 1];
      if (second_value_ && is_second(read, others)) return *second_value_;
      return writer_.add_read(read, source_of(read, others), type);
    });
  }

  const char* emit() {
    product_draft& draft = writer_.draft;
    if (draft.operands.size() + results_.size() - 1 > pass_.limits().buffers) return "too many operands";
    for (const named_result& each : results_) {
      if (std::ranges::any_of(draft.operands, [&](class_id id) { return pass_.depth(id) >= pass_.depth(each.of); }))
        return "it would read what is computed of its results";
    }
    small_vector<scalar_ref, 4> values;
    for (const named_result& each : results_) {
      if (std::find(values.begin(), values.end(), each.value) != values.end()) return "two results are the same";
      values.push_back(each.value);
    }
    draft.finish = writer_.builder.finish(std::span(values.begin(), values.end()));
    // What is kept may still be taken from elsewhere, where it is added up in another order.
    const bool unstable[] = {true, true};
    if (keeps_any() && trace_unstable(draft.finish, std::span(unstable).first(products_.size())).decision)
      return "computed twice it could decide two ways";
    draft.reasons = bit(rule_);
    for (const enode_id region : regions_) draft.reasons |= reasons_of_ending(g_, region, products_[0]);
    for (const enode_id product : products_) draft.reasons |= g_.node(product).reasons;
    if (results_.size() == 1) return emit_matmul(pass_, results_[0].of, std::move(draft));
    // The program's last node is the first result.
    const auto first = static_cast<std::size_t>(std::ranges::max_element(values) - values.begin());
    std::swap(results_[0], results_[first]), std::swap(values[0], values[first]);
    for (std::size_t i = 1; i < results_.size(); ++i)
      draft.further.push_back(
          {.value = values[i], .output = {}, .type = dtype::f32, .extents = g_.extents(results_[i].of)});
    matmul_attribute value;
    if (const char* problem = make_product(pass_, draft, value)) return problem;
    const rule_mask reasons = draft.reasons | pass_.reasons();
    const class_id several = g_.add(op::matmul, dtype::f32, g_.extents(results_[0].of), value, draft.operands, reasons);
    for (std::size_t i = 0; i < results_.size(); ++i) {
      g_.add_to(results_[i].of, op::result, result_attribute{i}, std::span(&several, 1), reasons);
      pass_.introduce(several, results_[i].of);
    }
    if (pass_.enabled(structural::matmul_prologue)) product_prologue::apply(pass_, g_[several].nodes[0]);
    return nullptr;
  }

  implementation_pass& pass_;
  engine& g_;
  structural rule_;
  nodes regions_, products_;
  small_vector<bool, 2> is_kept_;  // of the products: something else reads it
  const matmul_attribute first_;
  std::optional<matmul_attribute> second_;
  nest loops_;  // of the products, with what all of it reads
  std::optional<scalar_ref> second_value_;
  small_vector<named_result, 4> results_;
  product_writer writer_;
};

inline constexpr std::size_t tried_of_several = 2;  // forms of each product that are tried

// Whether a region moves no values and adds up none.
inline bool computes_elements(const engine& g, enode_id region) {
  const auto& loops = g.get<region_attribute>(region);
  return loops.row_axes == 0 && !is_copy(loops);
}

// Of an operand of a region: products that may be computed with it.
inline several_draft::nodes products_of(const engine& g, class_id owner, class_id operand) {
  several_draft::nodes found;
  if (operand == owner || g[operand].type != dtype::f32 || g[owner].type != dtype::f32) return found;
  for (const enode_id node : g[operand].nodes) {
    if (found.size() == tried_of_several || g.node(node).kind != op::matmul || g.node(node).dead) continue;
    const auto& product = g.get<matmul_attribute>(node);
    if (product.start.is_empty() && !product.paired && product.further.empty()) found.push_back(node);
  }
  return found;
}

inline void try_several(implementation_pass& pass, structural rule, const several_draft::nodes& regions,
                        const several_draft::nodes& products) {
  engine& g = pass.graph();
  g.at(g.node(products[0]).path);  // it stays that product
  const class_id consumer = g.find(g.node(regions[0]).owner), producer = g.find(g.node(products[0]).owner);
  if (const char* problem = several_draft(pass, rule, regions, products).add()) {
    pass.note_missed({consumer, producer, rule, problem});
  } else {
    pass.note_applied(rule);
  }
}

MEGANEURA_INLINE void product_pair::apply(implementation_pass& pass, enode_id id) {
  const engine& g = pass.graph();
  const class_id owner = g.find(g.node(id).owner);
  if (!computes_elements(g, id) || !pass.is_stored(owner)) return;
  const class_list operands(g.operands(id).begin(), g.operands(id).end());
  for (std::size_t i = 0; i + 1 < operands.size(); ++i) {
    const auto first = products_of(g, owner, g.find(operands[i]));
    for (std::size_t j = i + 1; j < operands.size() && !first.empty(); ++j) {
      if (g.find(operands[j]) == g.find(operands[i])) continue;
      for (const enode_id other : products_of(g, owner, g.find(operands[j]))) {
        for (const enode_id one : first) try_several(pass, rule, {id}, {one, other});
      }
    }
  }
}

// Of another class, the region over the value that reads the fewest operands besides.
inline enode_id region_beside(const engine& g, class_id of, class_id value, std::span<const class_id> known) {
  enode_id best = no_id;
  std::size_t fewest = 0;
  for (const enode_id node : g[of].nodes) {
    if (g.node(node).kind != op::region || g.node(node).dead || !computes_elements(g, node)) continue;
    bool reads = false;
    std::size_t more = 0;
    for (const class_id operand : g.operands(node)) {
      reads = reads || g.find(operand) == value;
      more += std::ranges::find(known, g.find(operand)) == known.end();
    }
    if (!reads || (best != no_id && more >= fewest)) continue;
    best = node;
    fewest = more;
  }
  return best;
}

MEGANEURA_INLINE void product_results::apply(implementation_pass& pass, enode_id id) {
  const engine& g = pass.graph();
  const class_id owner = g.find(g.node(id).owner);
  if (!computes_elements(g, id) || !pass.is_stored(owner)) return;
  class_list operands;
  for (const class_id operand : g.operands(id)) operands.push_back(g.find(operand));
  for (const class_id operand : operands) {
    const auto products = products_of(g, owner, operand);
    if (products.empty() || pass.serves_only(operand, std::span(&id, 1))) continue;
    std::vector<several_draft::nodes> all{{id}};
    class_list others;
    for (const enode_id reader : g[operand].parents) {
      const class_id other = g.find(g.node(reader).owner);
      if (g.node(reader).kind != op::region || g.node(reader).dead || other == owner || !pass.is_stored(other) ||
          g[other].type != dtype::f32 || std::ranges::find(others, other) != others.end())
        continue;
      others.push_back(other);
      const enode_id beside = region_beside(g, other, operand, operands);
      if (beside != no_id && pass.serves_only(operand, std::array{id, beside})) all.push_back({id, beside});
    }
    for (const several_draft::nodes& regions : all) {
      for (const enode_id product : products) try_several(pass, rule, regions, {product});
    }
  }
}

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
