// SPDX-License-Identifier: MIT
// Rotary embeddings of a product: regions that read it at both places along an axis of two, as one paired product.
#pragma once
#include <meganeura/fusion/several_rules.ipp>

#include <algorithm>
#include <optional>
#include <span>

namespace meganeura::inline MEGANEURA_ABI::fusion {

namespace detail {

// Reads of an operand at both places along an axis of two elements of a region's loops.
struct rotary_reads {
  std::size_t straight, reversed;  // numbers of accesses
  int axis;
};
inline std::optional<rotary_reads> rotary_reads_of(const region_attribute& region, std::size_t operand) {
  small_vector<std::size_t, 4> reads;
  for (std::size_t i = 0; i < region.accesses.size(); ++i) {
    if (region.accesses[i].source == static_cast<int>(operand)) reads.push_back(i);
  }
  if (reads.size() != 2) return {};
  for (int axis = 0; axis < region.space.rank(); ++axis) {
    for (std::size_t first = 0; first < 2 && region.space[axis] == 2; ++first) {
      const index_map& one = region.accesses[reads[first]];
      index_map other = region.accesses[reads[1 - first]];
      if (one.bounded != 0 || other.bounded != 0 || one.strides[axis] <= 0) continue;
      // One goes back where the other goes on.
      other.offset -= one.strides[axis], other.strides[axis] += 2 * one.strides[axis];
      if (one == other) return rotary_reads{reads[first], reads[1 - first], axis};
    }
  }
  return {};
}

// From a pointwise region and the product that it reads twice. With the axis of two left out both places are sums of
// one result, and so are both values that the region makes of them.
class rotary_draft {
 public:
  rotary_draft(implementation_pass& pass, enode_id region, std::size_t operand, const rotary_reads& reads,
               enode_id product)
      : pass_(pass),
        g_(pass.graph()),
        region_id_(region),
        product_id_(product),
        operand_(operand),
        region_(g_.get<region_attribute>(region)),
        product_(g_.get<matmul_attribute>(product)),
        reads_(reads) {}

  // Why there is none, or null when a node was added.
  const char* add() {
    const auto made = [&](product_draft& draft) { return make(draft); };
    return emit_joined(pass_, structural::matmul_rotary, product_id_, region_id_, operand_, made);
  }

 private:
  const char* make(product_draft& made) {
    if (region_.space.elements() != g_.extents(g_.operand(region_id_, operand_)).elements())
      return "elements of the product are left out or repeated";
    loops_ = to_nest(product_);
    if (!solve_index(loops_, 0, region_.space, region_.space.rank(), region_.accesses[reads_.straight], true, map_))
      return "the product's order is not affine in the region's loops";
    if (!find_axis()) return "the axis of two is none of the product's columns";
    index_map output;
    if (!compose(region_.output, output) || output.strides[axis_] <= 0) return "the result would be stored backwards";
    writer_.draft.loops = without_axis(loops_.space);
    const std::span<const index_map> all = loops_.accesses;
    writer_.multiply(at(output, 0), at(all[1], 0), at(all[2], 0), g_.operand(product_id_, 0),
                     g_.operand(product_id_, 1));
    writer_.add_second(at(all[2], 1), g_.operand(product_id_, 1));
    scalar_ref values[2];
    for (int place = 0; place < 2; ++place) {
      const scalar_ref sums[] = {product_at(place), product_at(1 - place)};
      bool fits = true;
      values[place] = writer_.carried(region_.program, [&](std::size_t number, dtype type) {
        if (number == reads_.straight || number == reads_.reversed) return sums[number == reads_.straight ? 0 : 1];
        const index_map& read = region_.accesses[number];
        index_map composed;
        fits = compose(read, composed) && is_forward(at(composed, place)) && fits;
        const class_id source = read.source < 0
                                    ? static_cast<class_id>(no_id)
                                    : g_.find(g_.operand(region_id_, static_cast<std::size_t>(read.source)));
        return writer_.add_read(at(composed, place), source, type);
      });
      if (!fits) return "an operand has a border, or would be read backwards";
    }
    if (const char* problem = finish(values, output.strides[axis_])) return problem;
    made = std::move(writer_.draft);
    return nullptr;
  }

  // The same axis of the product's loops.
  bool find_axis() {
    for (int k = 0; k < loops_.space.rank(); ++k) {
      if (map_.step[reads_.axis][k] == 0) continue;
      if (axis_ >= 0) return false;
      axis_ = k;
    }
    if (axis_ < 0 || loops_.space[axis_] != 2 || loops_.group[axis_] != 2 || map_.step[reads_.axis][axis_] != 1 ||
        map_.start[reads_.axis] != 0)
      return false;
    for (int j = 0; j < region_.space.rank(); ++j) {
      if (j != reads_.axis && map_.step[j][axis_] != 0) return false;
    }
    return loops_.accesses[1].strides[axis_] == 0;
  }

  bool compose(const index_map& read, index_map& composed) const {
    return compose_access(read, region_.space.rank(), map_, loops_.accesses[0], loops_.space, composed) &&
           composed.bounded == 0;
  }
  // What is read at a place, over the loops without the axis.
  [[nodiscard]] index_map at(index_map read, int place) const {
    read.offset += place * read.strides[axis_];
    std::copy(read.strides + axis_ + 1, read.strides + max_rank, read.strides + axis_);
    read.strides[max_rank - 1] = 0;
    return read;
  }
  [[nodiscard]] nest without_axis(const shape& space) const {
    nest made;
    for (int k = 0; k < space.rank(); ++k) {
      if (k == axis_) continue;
      made.group[made.space.rank()] = loops_.group[k];
      made.space.push_back(space[k]);
    }
    return made;
  }
  scalar_ref product_at(int place) {
    return writer_.carried(product_.finish.program, [&](std::size_t number, dtype type) {
      if (number == 0) return writer_.sum(place);
      const index_map& read = loops_.accesses[2 + number];
      const class_id source = read.source < 2 ? static_cast<class_id>(no_id)
                                              : g_.find(g_.operand(product_id_, static_cast<std::size_t>(read.source)));
      return writer_.add_read(at(read, place), source, type);
    });
  }

  const char* finish(std::span<const scalar_ref, 2> values, std::int64_t distance) {
    product_draft& draft = writer_.draft;
    if (draft.operands.size() > pass_.limits().buffers) return "too many operands";
    if (values[0] == values[1]) return "both places have the same value";
    scalar_ref results[] = {values[1], values[0]};
    draft.finish = writer_.builder.finish(results);
    // The program's last node is stored where the output says: the first value's, if the second one is not made of it.
    const bool is_first = results[1] + std::size_t{1} == draft.finish.nodes.size();
    draft.half = results[is_first ? 0 : 1], draft.half_distance = is_first ? distance : -distance;
    if (!is_first) draft.loops.accesses[0].offset += distance;
    return nullptr;
  }

  implementation_pass& pass_;
  engine& g_;
  enode_id region_id_, product_id_;
  std::size_t operand_;
  const region_attribute region_;
  const matmul_attribute product_;
  rotary_reads reads_;
  int axis_ = -1;  // of the product's loops
  nest loops_;
  axis_map map_;
  product_writer writer_;
};

MEGANEURA_INLINE void product_rotary::apply(implementation_pass& pass, enode_id id) {
  const engine& g = pass.graph();
  if (g.get<region_attribute>(id).row_axes > 0) return;
  const class_id owner = g.find(g.node(id).owner);
  const class_list operands(g.operands(id).begin(), g.operands(id).end());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::optional<rotary_reads> reads = rotary_reads_of(g.get<region_attribute>(id), i);
    if (!reads) continue;
    const class_id operand = g.find(operands[i]);
    for (const enode_id product : products_of(g, owner, operand)) {
      const char* problem = pass.serves_only(operand, std::span(&id, 1))
                                ? rotary_draft(pass, id, i, *reads, product).add()
                                : "the product has other consumers";
      if (problem) {
        pass.note_missed({owner, operand, rule, problem});
      } else {
        pass.note_applied(rule);
      }
    }
  }
}

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
