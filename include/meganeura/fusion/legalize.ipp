// SPDX-License-Identifier: MIT
// Definitions for fusion/legalize.hpp.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/fusion/contract_loops.hpp>
#include <meganeura/fusion/legalize.hpp>
#include <meganeura/graph/view_map.hpp>

#include <algorithm>

namespace meganeura::inline MEGANEURA_ABI::fusion {

MEGANEURA_INLINE class_id add_concat(engine& e, dtype type, int axis, std::span<const class_id> pieces,
                                     std::size_t most) {
  shape extents = e.extents(e.find(pieces[0]));
  for (std::size_t i = 1; i < pieces.size(); ++i) extents.set(axis, extents[axis] + e.extents(e.find(pieces[i]))[axis]);
  class_list parts(pieces.begin(), pieces.end());
  if (parts.size() == 1) return parts[0];
  if (parts.size() > most) {
    const std::size_t each = ceil_div(parts.size(), most);
    parts.clear();
    for (std::size_t i = 0; i < pieces.size(); i += each) {
      parts.push_back(add_concat(e, type, axis, pieces.subspan(i, std::min(each, pieces.size() - i)), most));
    }
  }
  return e.add(op::concat, type, extents, axis_attribute{axis}, parts);
}

namespace detail {

// How many tensors a kernel binds for them: each once, and constants are written into the kernel.
inline std::size_t count_reads(const engine& e, std::span<const class_id> operands) {
  class_list reads;
  for (class_id operand : operands) {
    if (!e[e.find(operand)].constant) reads.push_back(e.find(operand));
  }
  std::sort(reads.begin(), reads.end());
  return static_cast<std::size_t>(std::unique(reads.begin(), reads.end()) - reads.begin());
}

class map_splitter {
 public:
  map_splitter(engine& e, dtype type, const shape& extents, const scalar_program& program,
               std::span<const class_id> operands)
      : e_(e), type_(type), extents_(extents), program_(program), operands_(operands), stored_(program.nodes.size()) {}

  class_id split(std::size_t most) {
    for (scalar_ref ref{0}; ref < program_.nodes.size(); ++ref) {
      reads_.push_back(own_reads(ref));
      while (reads_.back().size() > most && store_widest(program_.nodes[ref])) reads_.back() = own_reads(ref);
    }
    return add(static_cast<scalar_ref>(program_.nodes.size() - 1), type_);
  }

 private:
  [[nodiscard]] std::vector<class_id> own_reads(scalar_ref ref) const {
    const scalar_node& node = program_.nodes[ref];
    std::vector<class_id> reads;
    if (node.op == scalar_op::argument) {
      const class_id operand = e_.find(operands_[static_cast<std::size_t>(node.value)]);
      if (!e_[operand].constant) reads.push_back(operand);
    }
    for (int i = 0; i < info(node.op).arity; ++i) {
      const std::vector<class_id>& below = reads_[node.operands[i]];
      reads.insert(reads.end(), below.begin(), below.end());
    }
    std::sort(reads.begin(), reads.end());
    reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
    return reads;
  }

  bool store_widest(const scalar_node& node) {
    const auto width = [&](scalar_ref ref) { return reads_[ref].size(); };
    const scalar_ref widest = *std::max_element(node.operands, node.operands + info(node.op).arity,
                                                [&](scalar_ref a, scalar_ref b) { return width(a) < width(b); });
    if (width(widest) < 2) return false;
    const dtype type = program_.nodes[widest].type;
    stored_[widest] = add(widest, type == dtype::boolean ? dtype::f32 : type);
    reads_[widest] = {*stored_[widest]};
    return true;
  }

  // One map for what stands below `ref`, down to what is stored already; a boolean is stored as 0 or 1.
  [[nodiscard]] class_id add(scalar_ref ref, dtype type) {
    scalar_builder builder;
    std::vector<class_id> operands;
    std::vector<std::optional<scalar_ref>> written(program_.nodes.size());
    scalar_ref result = write(builder, ref, operands, written);
    if (builder.type(result) == dtype::boolean) {
      result = builder.select(result, builder.constant(1), builder.constant(0));
    }
    return e_.add(op::map, type, extents_, map_attribute{builder.finish(result)}, operands);
  }

  [[nodiscard]] static scalar_ref read(scalar_builder& builder, class_id from, dtype type,
                                       std::vector<class_id>& operands) {
    const auto found = std::find(operands.begin(), operands.end(), from);
    const int index = static_cast<int>(found - operands.begin());
    if (found == operands.end()) operands.push_back(from);
    if (type != dtype::boolean) return builder.argument(index, type);
    return builder.binary(scalar_op::less, builder.constant(0), builder.argument(index, dtype::f32));
  }

  [[nodiscard]] scalar_ref write(scalar_builder& builder, scalar_ref ref, std::vector<class_id>& operands,
                                 std::vector<std::optional<scalar_ref>>& written) const {
    if (written[ref]) return *written[ref];
    const scalar_node& node = program_.nodes[ref];
    scalar_ref result{0};
    if (stored_[ref]) {
      result = read(builder, *stored_[ref], node.type, operands);
    } else if (node.op == scalar_op::argument) {
      result = read(builder, e_.find(operands_[static_cast<std::size_t>(node.value)]), node.type, operands);
    } else if (node.op == scalar_op::constant) {
      result = builder.constant(node.value, node.type);
    } else {
      scalar_ref below[3]{};
      const int arity = info(node.op).arity;
      for (int i = 0; i < arity; ++i) below[i] = write(builder, node.operands[i], operands, written);
      result = builder.apply(node.op, {below, static_cast<std::size_t>(arity)}, node.type);
    }
    written[ref] = result;
    return result;
  }

  engine& e_;
  dtype type_;
  const shape& extents_;
  const scalar_program& program_;
  std::span<const class_id> operands_;
  std::vector<std::vector<class_id>> reads_;     // by node of the program: what is read below it
  std::vector<std::optional<class_id>> stored_;  // nodes that became maps of their own
};

}  // namespace detail

MEGANEURA_INLINE class_id add_map(engine& e, dtype type, const shape& extents, const map_attribute& map,
                                  std::span<const class_id> operands, std::size_t most) {
  if (detail::count_reads(e, operands) <= most) return e.add(op::map, type, extents, map, operands);
  return detail::map_splitter(e, type, extents, map.program, operands).split(std::max<std::size_t>(most, 3));
}

namespace detail {

// The axes of an operand in the order of groups, and of labels within one; then one axis for each group.
inline class_id store_by_group(engine& e, dtype type, class_id operand, const std::uint8_t* labels,
                               const contract_loops& product, std::span<const int> groups) {
  const shape from = e.extents(e.find(operand));
  const view_attribute dense = dense_view(from);
  shape permuted, grouped;
  view_attribute map;
  for (const int group : groups) {
    std::int64_t length = 1;
    for (int label = 0; label < contract_loops::max_labels; ++label) {
      if (product.group[label] != group) continue;
      const auto axis = std::find(labels, labels + from.rank(), label) - labels;
      map.strides[permuted.rank()] = dense.strides[axis];
      permuted.push_back(from[static_cast<int>(axis)]);
      length *= from[static_cast<int>(axis)];
    }
    grouped.push_back(length);
  }
  const class_id ordered[] = {operand};
  const class_id stored[] = {permuted == from && map == dense ? operand
                                                              : e.add(op::view, type, permuted, map, ordered)};
  return e.add(op::view, type, grouped, dense_view(grouped), stored);
}

}  // namespace detail

MEGANEURA_INLINE class_id add_contract(engine& e, dtype type, const shape& extents, const contract_attribute& labels,
                                       class_id a, class_id b) {
  const detail::contract_loops product(labels, extents, e.extents(e.find(a)), e.extents(e.find(b)));
  const class_id given[] = {a, b};
  if (product.fits) return e.add(op::contract, type, extents, labels, given);
  constexpr int of_a[] = {0, 1, 3}, of_b[] = {0, 2, 3};  // batch, m, k and batch, n, k
  const class_id stored[] = {detail::store_by_group(e, type, a, labels.a, product, of_a),
                             detail::store_by_group(e, type, b, labels.b, product, of_b)};
  const shape left = e.extents(e.find(stored[0])), right = e.extents(e.find(stored[1]));
  const shape grouped{left[0], left[1], right[1]};
  const contract_attribute plain{.a = {0, 1, 3}, .b = {0, 2, 3}, .result_rank = 3};
  const class_id made[] = {e.add(op::contract, type, grouped, plain, stored)};
  view_attribute map;  // from the groups back to the order of the labels
  std::int64_t stride = grouped.elements();
  for (int group = 0; group < 3; ++group) {
    for (int label = 0; label < extents.rank(); ++label) {
      if (product.group[label] != group || extents[label] == 1) continue;
      stride /= extents[label];
      map.strides[label] = stride;
    }
  }
  return e.add(op::view, type, extents, map, made);
}

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
