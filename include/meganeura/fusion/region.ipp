// SPDX-License-Identifier: MIT
// Definitions for fusion/region.hpp.
#pragma once
#include <meganeura/core/insertion_sort.hpp>
#include <meganeura/core/word_pool.hpp>
#include <meganeura/fusion/access_checks.hpp>
#include <meganeura/fusion/region.hpp>

#include <algorithm>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::fusion {

MEGANEURA_INLINE nest to_nest(const region_attribute& region) {
  nest loops{.space = region.space};
  for (int i = region.space.rank() - region.row_axes; i < region.space.rank(); ++i) loops.group[i] = region_draft::row;
  loops.accesses.push_back(region.output);
  loops.accesses.append(region.accesses.begin(), region.accesses.end());
  return loops;
}

MEGANEURA_INLINE nest to_nest(const matmul_attribute& product) {
  nest loops{.space = product.space};
  const int counts[] = {product.batch_axes, product.m_axes, product.n_axes, product.k_axes};
  for (int group = 0, axis = 0; group < 4; ++group) {
    for (int i = 0; i < counts[group]; ++i) loops.group[axis++] = static_cast<std::uint8_t>(group);
  }
  loops.accesses = {product.output, product.a, product.b};
  loops.accesses.append(product.finish.accesses.begin(), product.finish.accesses.end());
  loops.accesses.append(product.start.accesses.begin(), product.start.accesses.end());
  return loops;
}

// ---- arguments ------------------------------------------------------------------------------------------------------

MEGANEURA_INLINE void region_draft::add_read(class_id source, dtype type, const index_map& how) {
  const std::size_t at = loops.accesses.size();
  slots_.push_back({.kind = slot::read, .type = compute_type(type), .place = at, .first = at, .reads = 1});
  push_read(how, {source, compute_type(type)});
}

MEGANEURA_INLINE void region_draft::add_constant(double value, dtype type) {
  slots_.push_back({.kind = slot::constant, .type = compute_type(type), .value = value});
}

MEGANEURA_INLINE void region_draft::add_index(const index_map& how) { add_read(no_id, dtype::i32, how); }

MEGANEURA_INLINE void region_draft::identify(std::vector<std::uint64_t>& words, class_list& classes) const {
  using meganeura::detail::packed, meganeura::detail::bits_of;
  const int rank = loops.space.rank();
  words.push_back(packed(per_row, rank, loops.accesses.size(), slots_.size()));
  for (int k = 0; k < rank; ++k) words.push_back(static_cast<std::uint64_t>(loops.space[k]) << 1 | loops.group[k]);
  for (const index_map& access : loops.accesses) {
    words.push_back(static_cast<std::uint64_t>(access.bounded) << 32 | static_cast<std::uint32_t>(access.source));
    words.push_back(static_cast<std::uint64_t>(access.offset));
    for (int k = 0; k < rank; ++k) words.push_back(static_cast<std::uint64_t>(access.strides[k]));
    if (access.bounded == 0) continue;
    words.push_back(bits_of(access.fill));
    for (int k = 0; k < rank; ++k) {
      words.push_back(static_cast<std::uint64_t>(access.low[k]));
      words.push_back(static_cast<std::uint64_t>(access.high[k]));
    }
  }
  for (const read_source& read : reads_) {
    const std::size_t place = read.source == no_id ? 0 : 1 + detail::append_once(classes, 0, read.source);
    words.push_back(packed(static_cast<int>(read.type), place));
  }
  for (const slot& each : slots_) {
    words.push_back(packed(static_cast<int>(each.kind), static_cast<int>(each.type), each.place, each.first));
    words.push_back(bits_of(each.value));
  }
}

// ---- inlining -------------------------------------------------------------------------------------------------------

namespace detail {

// Finds which of the reader's axes run over exactly the row axes of an inlined full-output row region, several of them
// over one if together they count it.
inline const char* matching_axes(const region_attribute& form, const axis_map& map, const nest& reader,
                                 const index_map& from, int (&axes)[max_rank], int& count) {
  for (int j = form.space.rank() - form.row_axes; j < form.space.rank(); ++j) {
    small_vector<counted_axis, max_rank> matching;
    for (int k = 0; k < reader.space.rank(); ++k) {
      if (map.step[j][k] == 0) continue;
      if (from.bounded >> k & 1) return "rows are not read whole";
      for (int other = 0; other < form.space.rank(); ++other) {
        if (other != j && map.step[other][k] != 0) return "rows are read diagonally";
      }
      matching.push_back({reader.space[k], map.step[j][k]});
      axes[count++] = k;
    }
    if (matching.empty()) return "one element of a row is read";
    if (!counts_each_once(matching, form.space[j])) return "rows are not read whole";
  }
  return nullptr;
}

}  // namespace detail

MEGANEURA_INLINE const char* region_draft::claim_rows(std::span<const int> axes) {
  const auto rows = static_cast<std::size_t>(loops.count(row));
  if (rows == 0) {
    for (const int axis : axes) loops.group[axis] = row;
    return nullptr;
  }
  const bool alike =
      rows == axes.size() && std::ranges::all_of(axes, [&](int axis) { return loops.group[axis] == row; });
  return alike ? nullptr : "the rows are other axes";
}

// A value of one element a row is read along a row: finds (splitting as needed) or appends the axes that form its row.
MEGANEURA_INLINE const char* region_draft::broadcast_rows(const region_view& form, std::size_t which,
                                                          int (&axes)[max_rank]) {
  const region_attribute& inner = form.loops;
  const int count = inner.row_axes, first = inner.space.rank() - count;
  const std::int64_t length = detail::row_length(inner);
  const bool have_rows = loops.count(row) > 0;
  small_vector<int, max_rank> free;  // axes the read does not depend on
  std::int64_t free_elements = 1;
  for (int k = 0; k < loops.space.rank(); ++k) {
    const index_map& from = loops.accesses[which];
    if (loops.space[k] == 1 || from.strides[k] != 0 || (from.bounded >> k & 1)) continue;
    if (have_rows && loops.group[k] != row) continue;
    free.push_back(k);
    free_elements *= loops.space[k];
  }
  if (!have_rows && free.empty()) {
    per_row = true;
    for (int j = 0; j < count; ++j) {
      axes[j] = loops.space.rank();
      if (!append_axis(loops, inner.space[first + j], row)) return "too many axes";
    }
    return nullptr;
  }
  if (have_rows && free_elements != length) return "the rows have another length";
  // The last run of free axes with the row's length, refined from the inside to the row's extents.
  for (std::size_t end = free.size(); end-- > 0;) {
    std::int64_t product = 1;
    std::size_t begin = end + 1;
    while (begin > 0 && product < length) product *= loops.space[free[--begin]];
    if (product != length) continue;
    int at = static_cast<int>(end);
    for (int j = inner.space.rank() - 1; j >= first; --j) {
      if (at < static_cast<int>(begin)) return "row extents differ";
      const int axis = free[static_cast<std::size_t>(at)];
      if (loops.space[axis] == inner.space[j]) {
        axes[j - first] = axis;
        --at;
      } else {
        if (!split_axis(loops, axis, inner.space[j])) return "row extents differ";
        for (int i = j + 1; i < inner.space.rank(); ++i) {
          if (axes[i - first] > axis) ++axes[i - first];
        }
        for (int& other : free) other += other > axis;
        axes[j - first] = axis + 1;
      }
    }
    return nullptr;
  }
  return "no axis of the row's length";
}

MEGANEURA_INLINE const char* region_draft::place_rows(const region_view& form, std::size_t which, bool splits_rows,
                                                      axis_map& map) {
  const region_attribute& inner = form.loops;
  if (loops.accesses[which].bounded) return "rows under a padded read";
  const int outer_axes = inner.space.rank() - inner.row_axes;
  const char* problem = nullptr;
  int axes[max_rank]{}, count = 0;
  const char* not_affine = "the read is not affine in the producer's loops";
  if (!solve_index(loops, which, inner.space, inner.per_row ? outer_axes : inner.space.rank(), inner.output, true,
                   map)) {
    problem = not_affine;
  } else if (!inner.per_row) {
    problem = detail::matching_axes(inner, map, loops, loops.accesses[which], axes, count);
    if (!problem && count > inner.row_axes && !splits_rows) problem = "rows are several axes here, and read elsewhere";
  } else {
    problem = broadcast_rows(form, which, axes);
    count = inner.row_axes;
    // Finding the row may have split axes: the map is solved again over the new ones.
    if (!problem && !solve_index(loops, which, inner.space, outer_axes, inner.output, false, map)) problem = not_affine;
    for (int j = 0; !problem && j < inner.row_axes; ++j) map.step[outer_axes + j][axes[j]] = 1;
  }
  return problem ? problem : claim_rows(std::span(axes).first(static_cast<std::size_t>(count)));
}

MEGANEURA_INLINE std::size_t region_draft::buffers() const {
  std::size_t distinct = 0;
  for_each_read([&](std::size_t position) {
    const class_id source = read_of(position).source;
    bool new_one = source != no_id;
    for_each_read([&](std::size_t earlier) {
      if (earlier < position && read_of(earlier).source == source) new_one = false;
    });
    distinct += new_one ? 1 : 0;
  });
  return distinct;
}

MEGANEURA_INLINE const char* region_draft::inline_form(std::size_t index, const region_view& form, bool splits_rows) {
  const region_attribute& inner = form.loops;
  const std::size_t which = slots_[index].first, first = loops.accesses.size();
  const nest before = inner.row_axes > 0 ? loops : nest{};
  const bool before_per_row = per_row;
  const auto refused = [&](const char* problem) {  // reads, and rows that were placed for this form alone, go again
    loops.accesses.resize(first);
    reads_.resize(first - 1);
    if (inner.row_axes > 0) {
      loops = before;
      per_row = before_per_row;
    }
    return problem;
  };
  axis_map map;
  if (inner.row_axes > 0) {
    if (const char* problem = place_rows(form, which, splits_rows, map)) return refused(problem);
  } else if (!solve_index(loops, which, inner.space, inner.space.rank(), inner.output, true, map)) {
    return "the read is not affine in the producer's loops";
  }
  const index_map from = loops.accesses[which];  // after splitting
  slot filled{.kind = slot::inlined,
              .type = slots_[index].type,
              .value = from.fill,
              .place = slots_[index].place,
              .first = first,
              .program = &inner.program,
              .first_box = boxes_.size()};
  const bool copy = inner.program.is_identity();
  for (const index_map& read : inner.accesses) {
    index_map composed;
    if (copy && from.bounded && read.bounded && from.fill != read.fill) {
      return refused("two borders with different values");
    }
    if (!compose_access(read, inner.space.rank(), map, from, loops.space, composed)) {
      return refused("its border is not a box here");
    }
    const bool is_index = read.source == index_map::index_source;
    push_read(composed, {is_index ? no_id : form.operands[static_cast<std::size_t>(read.source)]});
  }
  for (const scalar_node& node : inner.program.nodes) {
    if (node.op == scalar_op::argument) {
      reads_[first + static_cast<std::size_t>(node.value) - 1].type = node.type;
    }
  }
  for (int k = 0; from.bounded && !copy && k < loops.space.rank(); ++k) {
    if (!(from.bounded >> k & 1)) continue;
    index_map coordinate{.source = index_map::index_source};
    coordinate.strides[k] = 1;
    boxes_.push_back({loops.accesses.size(), from.low[k], from.high[k]});
    push_read(coordinate, {no_id, dtype::i32});
  }
  filled.reads = loops.accesses.size() - first;
  filled.boxes = boxes_.size() - filled.first_box;
  slots_[index] = filled;
  return nullptr;
}

namespace detail {

inline scalar_program without_rows(const scalar_program& program) {
  scalar_builder builder;
  small_vector<scalar_ref, 64> copies;
  for (const scalar_node& node : program.nodes) {
    scalar_ref operands[3]{};
    const int arity = info(node.op).arity;
    for (int i = 0; i < arity; ++i) operands[i] = copies[node.operands[i]];
    if (node.op == scalar_op::argument) {
      copies.push_back(builder.argument(static_cast<int>(node.value), node.type));
    } else if (node.op == scalar_op::constant) {
      copies.push_back(builder.constant(node.value, node.type));
    } else if (is_row_reduction(node.op)) {
      copies.push_back(operands[0]);
    } else {
      copies.push_back(builder.apply(node.op, {operands, static_cast<std::size_t>(arity)}, node.type));
    }
  }
  return builder.finish(copies.back());
}

}  // namespace detail

// ---- finishing ------------------------------------------------------------------------------------------------------

MEGANEURA_INLINE scalar_ref region_draft::write_slot(scalar_builder& builder, const slot& from,
                                                     std::span<const int> argument) const {
  const auto read = [&](std::size_t position) { return builder.argument(argument[position], read_of(position).type); };
  if (from.kind == slot::constant) return builder.constant(from.value, from.type);
  if (from.kind == slot::read) return read(from.first);
  small_vector<scalar_ref, 16> arguments;
  for (std::size_t i = 0; i < from.reads - from.boxes; ++i) arguments.push_back(read(from.first + i));
  scalar_ref value = builder.inlined(*from.program, arguments);
  for (const box& b : std::span(boxes_).subspan(from.first_box, from.boxes)) {
    const scalar_ref at = read(b.coordinate);
    const scalar_ref below =
        builder.binary(scalar_op::less, at, builder.constant(static_cast<double>(b.high), dtype::i32));
    const scalar_ref above =
        builder.binary(scalar_op::less_equal, builder.constant(static_cast<double>(b.low), dtype::i32), at);
    value = builder.select(builder.binary(scalar_op::logical_and, below, above), value,
                           builder.constant(from.value, builder.type(value)));
  }
  return value;
}

MEGANEURA_INLINE region_draft::distinct_reads region_draft::collect_reads(std::span<const std::size_t> outputs) const {
  distinct_reads result;
  result.loops.space = loops.space;
  std::copy(loops.group, loops.group + max_rank, result.loops.group);
  for (std::size_t output : outputs) result.loops.accesses.push_back(loops.accesses[output]);
  result.argument.assign(loops.accesses.size(), -1);
  for_each_read([&](std::size_t position) {
    const class_id source = read_of(position).source;
    index_map read = loops.accesses[position];
    read.source = source == no_id ? index_map::index_source : 0;
    for (int k = 0; k < loops.space.rank(); ++k) read.strides[k] = loops.space[k] == 1 ? 0 : read.strides[k];
    std::size_t same = 0;
    while (same < result.sources.size() &&
           !(result.sources[same] == source && result.loops.accesses[same + outputs.size()] == read)) {
      ++same;
    }
    result.argument[position] = static_cast<int>(same);
    if (same < result.sources.size()) return;
    result.sources.push_back(source);
    result.loops.accesses.push_back(read);
  });
  return result;
}

namespace detail {

// Numbers the arguments by first use: equal regions get equal programs. The old numbers in the order of the new ones.
inline small_vector<std::size_t, 16> number_arguments(scalar_program& program, std::size_t count) {
  small_vector<int, 16> number(count, -1);
  small_vector<std::size_t, 16> used;
  for (scalar_node& node : program.nodes) {
    if (node.op != scalar_op::argument) continue;
    const auto old = static_cast<std::size_t>(node.value);
    if (number[old] < 0) {
      number[old] = static_cast<int>(used.size());
      used.push_back(old);
    }
    node.value = number[old];
  }
  return used;
}

}  // namespace detail

MEGANEURA_INLINE const char* region_draft::finish_loops(scalar_program& program, distinct_reads&& all,
                                                        region_form& result, nest& kept, bool limited) const {
  if (limited && program.nodes.size() > limits_->program_nodes) return "the program is too long";
  if (!program.has_rows() && all.loops.count(row) > 0) {
    if (per_row) return "the reduction folded away";
    std::fill(all.loops.group, all.loops.group + max_rank, outer);
  }
  const small_vector<std::size_t, 16> used = detail::number_arguments(program, all.sources.size());
  if (limited && used.size() > limits_->accesses) return "too many accesses";
  kept = std::move(all.loops);
  const auto accesses = std::move(kept.accesses);
  const index_map* const first_read = accesses.end() - all.sources.size();
  kept.accesses.assign(accesses.begin(), first_read);
  result.operands.clear();
  for (std::size_t old : used) {  // sources are numbered by their first argument
    index_map read = first_read[old];
    if (all.sources[old] != no_id) {
      const auto found = std::find(result.operands.begin(), result.operands.end(), all.sources[old]);
      read.source = static_cast<int>(found - result.operands.begin());
      if (found == result.operands.end()) result.operands.push_back(all.sources[old]);
    }
    kept.accesses.push_back(read);
  }
  normalise(kept);
  result.loops.space = kept.space;
  result.loops.row_axes = kept.count(row);
  result.loops.accesses.assign(kept.accesses.end() - used.size(), kept.accesses.end());
  return nullptr;
}

MEGANEURA_INLINE const char* region_draft::finish(const scalar_program& root, region_form& result, bool limited) const {
  if (limited && buffers() > limits_->buffers) return "too many buffers";
  constexpr std::size_t output = 0;
  distinct_reads all = collect_reads(std::span(&output, 1));
  scalar_builder builder;
  small_vector<scalar_ref, 16> arguments;
  for (const slot& s : slots_) arguments.push_back(write_slot(builder, s, all.argument));
  scalar_program program = builder.finish(builder.inlined(root, arguments));
  nest kept;
  if (const char* problem = finish_loops(program, std::move(all), result, kept, limited)) return problem;
  const bool rows = result.loops.row_axes > 0;
  if (!rows && program.has_rows()) program = detail::without_rows(program);  // rows of one element
  result.loops.per_row = per_row && rows;
  result.loops.program = std::move(program);
  result.loops.output = kept.accesses[0];
  return nullptr;
}

MEGANEURA_INLINE const char* region_draft::finish_several(std::span<const tensor_spec> types, region_form& result,
                                                          std::vector<std::size_t>& number) const {
  if (buffers() + types.size() > limits_->buffers + 1) return "too many buffers";
  small_vector<std::size_t, 8> outputs;
  for (const slot& s : slots_) outputs.push_back(s.place);
  distinct_reads all = collect_reads(outputs);
  scalar_builder builder;
  small_vector<scalar_ref, 8> values;
  for (const slot& s : slots_) values.push_back(write_slot(builder, s, all.argument));
  scalar_program program = builder.finish(values);
  nest kept;
  if (const char* problem = finish_loops(program, std::move(all), result, kept, true)) return problem;
  if (result.loops.row_axes == 0 && program.has_rows()) return "rows of one element";
  const int rows = result.loops.row_axes, rank = kept.space.rank();
  const auto is_per_row = [&](const index_map& output) {
    return rows > 0 && std::all_of(output.strides + rank - rows, output.strides + rank, [](auto s) { return s == 0; });
  };
  const auto first = static_cast<std::size_t>(std::ranges::max_element(values) - values.begin());
  number.assign(types.size(), 0);
  for (std::size_t i = 0; i < types.size(); ++i) {
    const index_map& output = kept.accesses[i];
    if (i == first) {
      result.loops.output = output;
      result.loops.per_row = is_per_row(output);
    } else {
      result.loops.further.push_back({values[i], is_per_row(output), output, types[i].type, types[i].extents});
      number[i] = result.loops.further.size();
    }
  }
  result.loops.program = std::move(program);
  return nullptr;
}

MEGANEURA_INLINE std::optional<index_map> region_draft::row_positions(std::int64_t rows) const {
  small_vector<int, max_rank> axes;
  std::int64_t elements = 1;
  for (int k = 0; k < loops.space.rank(); ++k) {
    if (loops.group[k] == row) continue;
    axes.push_back(k);
    elements *= loops.space[k];
  }
  if (elements != rows || static_cast<int>(axes.size()) == loops.space.rank()) return {};
  const std::int64_t* const strides = loops.accesses[0].strides;
  insertion_sort(axes.begin(), axes.end(), [&](int x, int y) { return strides[x] < strides[y]; });
  index_map position;
  std::int64_t stride = 1;
  for (int k : axes) {
    position.strides[k] = loops.space[k] == 1 ? 0 : stride;
    stride *= loops.space[k];
  }
  return position;
}

}  // namespace meganeura::inline MEGANEURA_ABI::fusion
