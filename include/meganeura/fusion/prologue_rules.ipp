// SPDX-License-Identifier: MIT
// What a product reads, computed as it reads it: element by element, or rows with one sum, such as a normalisation.
#pragma once
#include <meganeura/fusion/access_checks.hpp>
#include <meganeura/fusion/contract_loops.hpp>
#include <meganeura/fusion/implement.hpp>
#include <meganeura/fusion/matmul_rules.ipp>

#include <algorithm>
#include <optional>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::fusion {

namespace detail {

inline constexpr std::size_t tried_prologues = 4;  // regions that compute an operand which are tried
inline constexpr std::size_t widest_prologue = 4;  // reads of one element

// A program of rows as element * factor, where the factor is a number of each row that depends on one sum.
struct factored_rows {
  scalar_program element, summand;
  scalar_program factor;  // of the sum, argument 0
};

class row_factors {
 public:
  explicit row_factors(const scalar_program& program) : program_(program), has_rows_(program.nodes.size()) {
    for (std::size_t i = 0; i < program.nodes.size(); ++i) {
      const scalar_node& node = program.nodes[i];
      bool elements = node.op == scalar_op::argument, rows = is_row(node);
      for (std::size_t j = 0; j < operand_count(node); ++j) {
        const scalar_ref operand = node.operands[j];
        rows = rows || has_rows_[operand];
        elements = elements || (!is_row(node) && has_elements_[operand]);
      }
      has_rows_[i] = rows;
      has_elements_.push_back(elements);
    }
  }

  [[nodiscard]] std::optional<factored_rows> find() {
    if (program_.nodes.back().type != dtype::f32) return {};
    if (!collect(static_cast<scalar_ref>(program_.nodes.size() - 1), false)) return {};
    std::optional<scalar_ref> sum;
    for (std::size_t i = 0; i < program_.nodes.size(); ++i) {
      if (!is_row(program_.nodes[i])) continue;
      if (sum || program_.nodes[i].op != scalar_op::row_sum || program_.nodes[i].type != dtype::f32) return {};
      sum = static_cast<scalar_ref>(i);
    }
    if (!sum || elements_.empty() || rows_.empty()) return {};
    const scalar_ref summand = program_.nodes[*sum].operands[0];
    if (has_rows_[summand]) return {};
    factored_rows found;
    found.summand = part_of(program_, summand);
    found.element = product_of(program_, elements_);
    scalar_program of_sum = program_;
    of_sum.nodes[*sum] = {.op = scalar_op::argument, .type = dtype::f32, .value = 0};
    found.factor = product_of(of_sum, rows_);
    return found;
  }

 private:
  struct factor {
    scalar_ref node;
    bool divides;
  };
  using factors = small_vector<factor, 8>;
  static constexpr std::size_t most_factors = 16;

  [[nodiscard]] static bool is_row(const scalar_node& node) { return info(node.op).step != scalar_op::argument; }
  [[nodiscard]] static std::size_t operand_count(const scalar_node& node) {
    return static_cast<std::size_t>(info(node.op).arity);
  }

  // The root as a product of elements and of numbers of rows; false where something is neither.
  bool collect(scalar_ref at, bool divides) {
    const scalar_node& node = program_.nodes[at];
    if (elements_.size() + rows_.size() == most_factors) return false;  // squares of squares have many
    if (!has_elements_[at]) return rows_.push_back({at, divides}), true;
    if (!has_rows_[at]) return elements_.push_back({at, divides}), true;
    if (node.op == scalar_op::multiply) return collect(node.operands[0], divides) && collect(node.operands[1], divides);
    if (node.op == scalar_op::divide) return collect(node.operands[0], divides) && collect(node.operands[1], !divides);
    return false;
  }

  // Numbered as in the program.
  [[nodiscard]] static scalar_ref copied(scalar_builder& builder, const scalar_program& program, scalar_ref root) {
    small_vector<scalar_ref, 16> arguments(static_cast<std::size_t>(std::max(program.arguments(), 1)));
    for (const scalar_node& node : program.nodes) {
      if (node.op == scalar_op::argument)
        arguments[static_cast<std::size_t>(node.value)] = builder.argument(static_cast<int>(node.value), node.type);
    }
    return builder.inlined(part(program, root), arguments);
  }
  [[nodiscard]] static scalar_program part_of(const scalar_program& program, scalar_ref root) {
    scalar_builder builder;
    return builder.finish(copied(builder, program, root));
  }
  [[nodiscard]] static scalar_program product_of(const scalar_program& program, const factors& all) {
    scalar_builder builder;
    std::optional<scalar_ref> value;
    for (const factor& each : all) {
      const scalar_ref next = copied(builder, program, each.node);
      if (!value && !each.divides)
        value = next;
      else
        value = builder.binary(each.divides ? scalar_op::divide : scalar_op::multiply,
                               value ? *value : builder.constant(1), next);
    }
    return builder.finish(*value);
  }

  const scalar_program& program_;
  std::vector<bool> has_rows_, has_elements_;
  factors elements_, rows_;
};

// From a product and the region that computes its first operand.
class prologue_draft {
 public:
  prologue_draft(implementation_pass& pass, enode_id product, enode_id region)
      : pass_(pass),
        g_(pass.graph()),
        product_id_(product),
        region_id_(region),
        product_(g_.get<matmul_attribute>(product)),
        region_(g_.get<region_attribute>(region)) {}

  // Why there is none, or null when the node was added.
  const char* add() {
    if (region_.row_axes > 0 && pass_.uses(g_.node(region_id_).owner) > 1 && pass_.decides_by_sums(region_id_))
      return "computed twice it could decide two ways";
    const class_id owner = g_.find(g_.node(product_id_).owner);
    const auto made = [&](product_draft& draft) { return make(draft, owner); };
    return emit_joined(pass_, structural::matmul_prologue, product_id_, region_id_, 0, made);
  }

 private:
  const char* make(product_draft& draft, class_id owner) {
    std::optional<factored_rows> rows;
    if (region_.row_axes > 0) {
      rows = row_factors(region_.program).find();
      if (!rows) return "it is not elements times a number of each row";
    }
    draft = {.loops = to_nest(product_),
             .finish = product_.finish.program,
             .paired = product_.paired,
             .further = product_.further,
             .half = product_.half,
             .half_distance = product_.half_distance};
    axis_map map;
    if (!solve_index(draft.loops, 1, region_.space, region_.space.rank(), region_.output, true, map))
      return "the operand's order is not affine in the product's loops";
    if (rows && !counts_rows(draft.loops, 3, region_, map)) return "rows are not those of the product";
    if (const char* problem = add_reads(draft, map)) return problem;
    if (draft.operands.size() > pass_.limits().buffers) return "too many operands";
    if (std::ranges::find(draft.operands, owner) != draft.operands.end()) return "it would read itself";
    draft.start.program = numbered(rows ? rows->element : region_.program);
    if (draft.start.program.is_identity()) draft.start.program = {};
    if (rows) {
      draft.start.statistic = numbered(rows->summand);
      multiply_results(draft, *rows);
    }
    return nullptr;
  }

  // What the region reads over the product's loops; one of these becomes the operand.
  const char* add_reads(product_draft& draft, const axis_map& map) {
    nest& loops = draft.loops;
    small_vector<index_map, 8> reads;
    std::optional<std::size_t> main;
    for (const index_map& each : region_.accesses) {
      index_map read;
      if (each.source < 0) return "it reads positions";
      if (!compose_access(each, region_.space.rank(), map, loops.accesses[1], loops.space, read) || !is_plain(read))
        return "it reads with a border or backwards";
      if (depends_beside(loops, read, {0, 1, 3})) return "it differs between columns";
      const class_id source = g_.operand(region_id_, static_cast<std::size_t>(each.source));
      if (g_[source].type != dtype::f32) return "it reads another dtype";
      const auto depends_on = [&](int group) {
        for (int axis = 0; axis < loops.space.rank(); ++axis) {
          if (loops.group[axis] == group && read.strides[axis] != 0) return true;
        }
        return false;
      };
      if (!main && depends_on(1) && depends_on(3)) main = reads.size();
      reads.push_back(read);
    }
    if (!main) return "it has no operand of rows and columns";
    // Behind the product's own operands, of which the first is another now.
    const std::span<const class_id> before = g_.operands(product_id_);
    const auto source_of = [&](std::size_t read) {
      return g_.find(g_.operand(region_id_, static_cast<std::size_t>(region_.accesses[read].source)));
    };
    for (const class_id each : before) draft.operands.push_back(g_.find(each));
    draft.operands[0] = source_of(*main);
    numbers_.assign(reads.size(), 0);
    loops.accesses[1] = reads[*main];
    loops.accesses[1].source = 0;
    for (std::size_t i = 0; i < reads.size(); ++i) {
      if (i == *main) continue;
      reads[i].source = static_cast<int>(append_once(draft.operands, 1 + product_.sums(), source_of(i)));
      loops.accesses.push_back(reads[i]);
      numbers_[i] = static_cast<int>(++draft.start_accesses);
    }
    return draft.start_accesses < widest_prologue ? nullptr : "too many operands";
  }

  // With the arguments of a prologue.
  [[nodiscard]] scalar_program numbered(const scalar_program& program) const {
    scalar_builder builder;
    small_vector<scalar_ref, 16> arguments(numbers_.size());
    for (const scalar_node& node : program.nodes) {
      const auto number = static_cast<std::size_t>(node.value);
      if (node.op == scalar_op::argument) arguments[number] = builder.argument(numbers_[number], node.type);
    }
    return builder.finish(builder.inlined(program, arguments));
  }

  // The epilogue of results times their row's factor.
  void multiply_results(product_draft& draft, const factored_rows& rows) const {
    const std::size_t before = product_.finish.accesses.size();
    index_map statistic;
    statistic.source = index_map::statistic_source;
    const nest with_start = draft.loops;
    const auto of_start = with_start.accesses.begin() + 3 + static_cast<std::ptrdiff_t>(before);
    draft.loops.accesses.resize(3 + before);
    draft.loops.accesses.push_back(statistic);
    draft.loops.accesses.append(of_start, with_start.accesses.end());
    scalar_builder builder;
    const scalar_ref sum = builder.argument(static_cast<int>(before) + 1, dtype::f32);
    const scalar_ref factor = builder.inlined(rows.factor, std::span(&sum, 1));
    small_vector<scalar_ref, 16> arguments(before + 1);
    for (const scalar_node& node : product_.finish.program.nodes) {
      const auto number = static_cast<std::size_t>(node.value);
      if (node.op == scalar_op::argument) arguments[number] = builder.argument(static_cast<int>(number), node.type);
    }
    for (std::size_t i = 0; i < product_.sums(); ++i) {
      const scalar_ref found = builder.argument(static_cast<int>(i), dtype::f32);
      arguments[i] = builder.binary(scalar_op::multiply, found, factor);
    }
    replace_arguments(draft, builder, arguments);
  }

  implementation_pass& pass_;
  engine& g_;
  enode_id product_id_, region_id_;
  const matmul_attribute& product_;  // until the node is added
  const region_attribute& region_;
  small_vector<int, 8> numbers_;  // of the region's arguments among those of the prologue
};

MEGANEURA_INLINE void product_prologue::apply(implementation_pass& pass, enode_id id) {
  engine& g = pass.graph();
  const auto& product = g.get<matmul_attribute>(id);
  if (!product.start.is_empty() || !product.schedule.is_scaled()) return;
  const class_id owner = g.find(g.node(id).owner), operand = g.operand(id, 0);
  if (g[operand].type != dtype::f32) return;
  std::size_t tried = 0;
  const node_list candidates = g[operand].nodes;
  for (const enode_id region : candidates) {
    if (g.node(region).kind != op::region || g.node(region).dead) continue;
    const auto& rows = g.get<region_attribute>(region);
    if (rows.per_row || !rows.further.empty() || is_copy(rows) || rows.accesses.empty()) continue;
    if (++tried > tried_prologues) break;
    if (const char* problem = prologue_draft(pass, id, region).add()) {
      pass.note_missed({owner, operand, rule, problem});
    } else {
      pass.note_applied(rule);
    }
  }
}

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
