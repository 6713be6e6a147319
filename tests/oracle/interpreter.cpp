// SPDX-License-Identifier: MIT
// What every op means, in the numbers of Real: one class with a member an op, because many share loops.
#include <meganeura/kernels/philox.hpp>

#include <oracle/interpreter.hpp>

#include <Eigen/Core>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

namespace meganeura::inline MEGANEURA_ABI::oracle {

namespace {

/// a [m, k] times b [k, n], all row-major.
template <class Real>
std::vector<Real> matrix_product(const std::vector<Real>& a, const std::vector<Real>& b, std::int64_t m, std::int64_t k,
                                 std::int64_t n) {
  std::vector<Real> c(static_cast<std::size_t>(m * n));
  if constexpr (is_field<Real>) {
    for (std::int64_t i = 0; i < m * n; ++i) {
      for (std::int64_t j = 0; j < k; ++j) {
        c[static_cast<std::size_t>(i)] +=
            a[static_cast<std::size_t>(i / n * k + j)] * b[static_cast<std::size_t>(j * n + i % n)];
      }
    }
  } else {
    using matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    Eigen::Map<matrix>(c.data(), m, n).noalias() =
        Eigen::Map<const matrix>(a.data(), m, k) * Eigen::Map<const matrix>(b.data(), k, n);
  }
  return c;
}

}  // namespace

template <class Real>
class interpreter<Real>::definitions {
 public:
  explicit definitions(interpreter& run) : run_(run), graph_(run.graph_) {}

  tensor<Real> compute(node_id id) {
    switch (graph_[id].kind) {
      case op::input:
      case op::parameter:
      case op::state:
        return leaf(id);
      case op::constant:
        return tensor<Real>({}, graph_[id].type, Real(graph_.get<constant_attribute>(id).value));
      case op::iota:
        return iota(id);
      case op::random:
        return random(id);
      case op::map:
        return map(id);
      case op::reduce:
        return reduce(id);
      case op::argsort:
        return argsort(id);
      case op::cumulative:
        return cumulative(id);
      case op::contract:
        return contract(id);
      case op::view:
        return view(id);
      case op::pad:
        return pad(id);
      case op::concat:
        return concat(id);
      case op::gather:
        return gather_or_scatter(id, false);
      case op::scatter_add:
        return gather_or_scatter(id, true);
      case op::index_add:
        return index_add(id);
      case op::take_along:
        return take_along(id);
      case op::scatter_along:
        return scatter_along(id);
      case op::narrow:
      case op::update_rows:
        return rows_at(id);
      case op::convolution:
        return convolution(id, graph_.get<convolution_attribute>(id), graph_[id].extents);
      case op::window_reduce:
        return window_reduce(id);
      case op::window_scatter:
        return window_scatter(id);
      case op::stop_gradient:
      case op::custom_gradient:
        return operand(id, 0);
      case op::adjoint:
        break;
      case op::region:
        return region(id);
      case op::matmul:
        return matmul(id);
      case op::convolve:
        return convolve(id);
      case op::attention:
        return attention(id);
      case op::prepare_rows:
        return unwritten(graph_.results(id)[0]);  // attention reads the rows themselves here
      case op::result:
        return result(id);
      case op::assign:
      case op::optimizer_step:
        break;
    }
    fail(error_category::invalid_argument, "oracle: {} has no value", to_string(graph_[id].kind));
  }

  void apply_effect(node_id id) {
    if (graph_[id].kind == op::assign) {
      run_.leaves[graph_.get<leaf_attribute>(graph_.operand(id, 0)).name] = operand(id, 1);
      return;
    }
    for (const auto& [parameter, gradient] : graph_.updates(id)) {
      update(graph_.get<optimizer_attribute>(id), graph_.get<leaf_attribute>(parameter).name,
             scaled(run_.values_[gradient], graph_.gradient_scale(id)));
    }
  }

 private:
  const tensor<Real>& operand(node_id id, std::size_t index) const { return run_.values_[graph_.operand(id, index)]; }
  tensor<Real> empty(node_id id) const { return tensor<Real>(graph_[id].extents, graph_[id].type); }

  // ---- leaves

  tensor<Real> leaf(node_id id) const {
    const std::string& name = graph_.get<leaf_attribute>(id).name;
    const auto found = run_.leaves.find(name);
    if (found == run_.leaves.end())
      fail(error_category::invalid_argument, "oracle: leaf \"{}\" has no value; set it", name);
    if (found->second.extents != graph_[id].extents ||
        static_cast<std::int64_t>(found->second.values.size()) != graph_[id].extents.elements()) {
      fail(error_category::invalid_argument, "oracle: leaf \"{}\" is {}, its value {}", name,
           to_string(graph_[id].extents), to_string(found->second.extents));
    }
    return found->second;
  }

  tensor<Real> iota(node_id id) const {
    tensor<Real> result = empty(id);
    for (std::int64_t i = 0; i < result.extents[0]; ++i) result[i] = Real(double(i));
    return result;
  }

  tensor<Real> random(node_id id) const {
    if constexpr (is_field<Real>) {
      fail(error_category::unsupported, "oracle: random numbers are floats; use doubles");
    } else {
      const auto& attribute = graph_.get<random_attribute>(id);
      const std::uint32_t stream = kernels::stream_hash(attribute.stream);
      tensor<Real> result = empty(id);
      for (std::int64_t i = 0; i < result.extents.elements(); ++i) {
        const auto words = kernels::random_words(static_cast<std::uint64_t>(i / 4), stream, run_.step.step,
                                                 run_.step.seed_low, run_.step.seed_high);
        const auto lane = static_cast<std::size_t>(i % 4), pair = lane / 2 * 2;
        if (attribute.distribution == distribution::uniform) {
          result[i] = static_cast<Real>(kernels::uniform_from(words[lane]));
          continue;
        }
        const Real radius = std::sqrt(-2 * std::log(static_cast<Real>(kernels::positive_uniform_from(words[pair]))));
        const Real angle = 2 * std::numbers::pi_v<Real> * static_cast<Real>(kernels::uniform_from(words[pair + 1]));
        result[i] = radius * (lane % 2 == 0 ? std::cos(angle) : std::sin(angle));
      }
      return result;
    }
  }

  // ---- map, reduce, contract

  tensor<Real> map(node_id id) const {
    tensor<Real> result = empty(id);
    const std::size_t total = result.values.size(), chunk = std::min<std::size_t>(total, 1024);
    scalar_machine<Real> machine(graph_.get<map_attribute>(id).program, chunk, run_.on_scalar);
    for (std::size_t start = 0; start < total; start += chunk) {
      const std::size_t count = std::min(chunk, total - start);
      const auto& row = machine.run(count, [&](std::size_t argument, std::vector<Real>& values) {
        const std::vector<Real>& source = operand(id, argument).values;
        std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(start), count, values.begin());
      });
      std::copy_n(row.begin(), count, result.values.begin() + static_cast<std::ptrdiff_t>(start));
    }
    return result;
  }

  tensor<Real> reduce(node_id id) const {
    const auto& attribute = graph_.get<reduce_attribute>(id);
    const tensor<Real>& from = operand(id, 0);
    tensor<Real> result = empty(id);
    std::int64_t strides[max_rank]{};
    for (int i = 0, kept = 0; i < from.extents.rank(); ++i) {
      if (!(attribute.axes >> i & 1)) strides[i] = result.extents.stride(kept++);
    }
    std::vector<bool> seen(result.values.size(), false);
    if (is_arg(attribute.kind)) return arg_reduce(from, result, strides, attribute);
    constexpr scalar_op steps[] = {scalar_op::add, scalar_op::maximum, scalar_op::minimum, scalar_op::multiply};
    const scalar_op step_op = steps[static_cast<int>(attribute.kind)];
    std::int64_t flat = 0;
    for_each_index(from.extents, [&](const index_vector& index) {
      const std::int64_t at = flat_index(0, strides, index, from.extents.rank());
      const Real value = from[flat++];
      const auto slot = static_cast<std::size_t>(at);
      result[at] = seen[slot] ? scalar_apply(step_op, from.type, from.type, result[at], value, value) : value;
      seen[slot] = true;
    });
    return result;
  }

  // The first element in row-major order that nothing beats, a NaN beating every number.
  tensor<Real> arg_reduce(const tensor<Real>& from, tensor<Real> result, const std::int64_t (&strides)[max_rank],
                          const reduce_attribute& attribute) const {
    if constexpr (is_field<Real>) {
      fail(error_category::unsupported, "oracle: a finite field has no order; use doubles");
    } else {
      std::vector<Real> best(result.values.size());
      std::vector<std::int64_t> seen(result.values.size(), 0);  // elements of the row so far
      std::int64_t flat = 0;
      for_each_index(from.extents, [&](const index_vector& index) {
        const std::int64_t at = flat_index(0, strides, index, from.extents.rank());
        const auto slot = static_cast<std::size_t>(at);
        const Real value = from[flat++], was = best[slot];
        const bool beats = attribute.kind == reduce_kind::arg_max ? value > was : value < was;
        if (seen[slot] == 0 || (!std::isnan(was) && (beats || std::isnan(value)))) {
          best[slot] = value;
          result[at] = Real(double(seen[slot]));
        }
        ++seen[slot];
      });
      return result;
    }
  }

  tensor<Real> cumulative(node_id id) const {
    const auto& along = graph_.get<cumulative_attribute>(id);
    const tensor<Real>& from = operand(id, 0);
    tensor<Real> result = empty(id);
    const std::int64_t length = from.extents[along.axis], inner = from.extents.stride(along.axis);
    for (std::int64_t row = 0; row < from.extents.elements() / length; ++row) {
      const std::int64_t begin = row / inner * inner * length + row % inner;
      Real total{};
      std::int64_t place = 0;
      for (std::int64_t i = 0; i < length; ++i) {
        const std::int64_t k = along.reverse ? length - 1 - i : i;
        const Real value = from[begin + k * inner];
        if (!is_arg(along.kind)) {
          const scalar_op step = along.kind == reduce_kind::sum ? scalar_op::add : scalar_op::multiply;
          total = i == 0 ? value : scalar_apply(step, from.type, from.type, total, value, value);
          result[begin + k * inner] = total;
          continue;
        }
        if (i == 0 || is_beyond(value, total, along.kind)) total = value, place = k;
        result[begin + k * inner] = Real(double(place));
      }
    }
    return result;
  }

  tensor<Real> argsort(node_id id) const {
    if constexpr (is_field<Real>) {
      fail(error_category::unsupported, "oracle: a finite field has no order; use doubles");
    } else {
      const auto& how = graph_.get<argsort_attribute>(id);
      const tensor<Real>& from = operand(id, 0);
      tensor<Real> result = empty(id);
      const std::int64_t length = from.extents[how.axis], inner = from.extents.stride(how.axis);
      std::vector<std::int64_t> order(static_cast<std::size_t>(length));
      for (std::int64_t row = 0; row < from.extents.elements() / length; ++row) {
        const std::int64_t begin = row / inner * inner * length + row % inner;
        for (std::int64_t i = 0; i < length; ++i) order[static_cast<std::size_t>(i)] = i;
        std::stable_sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t k) {
          if (how.descending) std::swap(i, k);
          const Real a = from[begin + i * inner], b = from[begin + k * inner];
          return a < b || (std::isnan(b) && !std::isnan(a));
        });
        for (std::int64_t i = 0; i < length; ++i) {
          result[begin + i * inner] = Real(double(order[static_cast<std::size_t>(i)]));
        }
      }
      return result;
    }
  }

  // Whether a later value takes the place of the extremum so far.
  static bool is_beyond(Real value, Real so_far, reduce_kind kind) {
    if constexpr (is_field<Real>) {
      fail(error_category::unsupported, "oracle: a finite field has no order; use doubles");
    } else {
      const bool beyond = kind == reduce_kind::arg_max ? value >= so_far : value <= so_far;
      return std::isnan(value) || (!std::isnan(so_far) && beyond);
    }
  }

  // Copies what an affine map reads, with zero strides where an axis of `space` is absent.
  static std::vector<Real> packed(const tensor<Real>& from, const shape& space, std::int64_t offset,
                                  const std::int64_t (&strides)[max_rank]) {
    std::vector<Real> result;
    result.reserve(static_cast<std::size_t>(space.elements()));
    for_each_index(space, [&](const index_vector& index) {
      result.push_back(from.values.at(static_cast<std::size_t>(flat_index(offset, strides, index, space.rank()))));
    });
    return result;
  }

  // Axes of one matrix dimension: their extents and the strides of operand a, operand b and the result along them.
  struct axis_group {
    std::vector<std::array<std::int64_t, 4>> axes;  // extent, stride in a, in b, in the result
    [[nodiscard]] std::int64_t elements() const {
      std::int64_t product = 1;
      for (const auto& axis : axes) product *= axis[0];
      return product;
    }
    /// Offsets of all indices of the group in tensor `which` (1 = a, 2 = b, 3 = result), in row-major order.
    [[nodiscard]] std::vector<std::int64_t> offsets(std::size_t which) const {
      std::vector<std::int64_t> result{0};
      for (const auto& axis : axes) {
        std::vector<std::int64_t> next;
        for (std::int64_t base : result) {
          for (std::int64_t i = 0; i < axis[0]; ++i) next.push_back(base + i * axis[which]);
        }
        result = std::move(next);
      }
      return result;
    }
  };

  static std::vector<Real> packed_matrix(const tensor<Real>& from, std::int64_t base,
                                         const std::vector<std::int64_t>& rows,
                                         const std::vector<std::int64_t>& columns) {
    std::vector<Real> result;
    result.reserve(rows.size() * columns.size());
    for (std::int64_t row : rows) {
      for (std::int64_t column : columns)
        result.push_back(from.values.at(static_cast<std::size_t>(base + row + column)));
    }
    return result;
  }

  // store(offset in the result, value) for all of out[batch, m, n] = sum over k of a[batch, m, k] b[batch, k, n].
  template <class Store>
  static void product(const tensor<Real>& a, const tensor<Real>& b, std::int64_t offset_a, std::int64_t offset_b,
                      const std::array<axis_group, 4>& groups, Store&& store) {
    const auto& [batch, m, n, k] = groups;
    const auto rows = m.offsets(3), columns = n.offsets(3), a_rows = m.offsets(1), a_sums = k.offsets(1);
    const auto b_columns = n.offsets(2), b_sums = k.offsets(2);
    const auto batch_a = batch.offsets(1), batch_b = batch.offsets(2), batch_out = batch.offsets(3);
    for (std::size_t i = 0; i < batch_out.size(); ++i) {
      const auto left = packed_matrix(a, offset_a + batch_a[i], a_rows, a_sums);
      const auto right = packed_matrix(b, offset_b + batch_b[i], b_sums, b_columns);
      const auto values = matrix_product(left, right, m.elements(), k.elements(), n.elements());
      std::size_t next = 0;
      for (std::int64_t row : rows) {
        for (std::int64_t column : columns) store(batch_out[i] + row + column, values[next++]);
      }
    }
  }

  tensor<Real> contract(node_id id) const {
    const auto& labels = graph_.get<contract_attribute>(id);
    const tensor<Real>&a = operand(id, 0), &b = operand(id, 1);
    tensor<Real> result = empty(id);
    std::array<axis_group, 4> groups;
    for (int label = 0; label < 2 * max_rank; ++label) {
      std::array<std::int64_t, 4> axis{};
      bool in_a = false, in_b = false;
      for (int i = 0; i < a.extents.rank(); ++i) {
        if (labels.a[i] == label) in_a = true, axis[0] = a.extents[i], axis[1] = a.extents.stride(i);
      }
      for (int i = 0; i < b.extents.rank(); ++i) {
        if (labels.b[i] == label) in_b = true, axis[0] = b.extents[i], axis[2] = b.extents.stride(i);
      }
      if (!in_a && !in_b) continue;
      if (label < labels.result_rank) axis[3] = result.extents.stride(label);
      groups[label >= labels.result_rank ? 3 : in_a && in_b ? 0 : in_a ? 1 : 2].axes.push_back(axis);
    }
    product(a, b, 0, 0, groups, [&](std::int64_t at, Real value) { result[at] = value; });
    return result;
  }

  // ---- index maps

  tensor<Real> view(node_id id) const {
    const auto& attribute = graph_.get<view_attribute>(id);
    return tensor<Real>(graph_[id].extents,
                        packed(operand(id, 0), graph_[id].extents, attribute.offset, attribute.strides));
  }

  tensor<Real> pad(node_id id) const {
    const auto& attribute = graph_.get<pad_attribute>(id);
    const tensor<Real>& from = operand(id, 0);
    tensor<Real> result(graph_[id].extents, graph_[id].type, Real(attribute.value));
    std::int64_t flat = 0;
    for_each_index(from.extents, [&](const index_vector& index) {
      std::int64_t at = 0;
      for (int i = 0; i < from.extents.rank(); ++i) {
        at += (index[static_cast<std::size_t>(i)] + attribute.low[i]) * result.extents.stride(i);
      }
      result[at] = from[flat++];
    });
    return result;
  }

  tensor<Real> concat(node_id id) const {
    const int axis = graph_.get<axis_attribute>(id).axis;
    tensor<Real> result = empty(id);
    std::int64_t start = 0;
    for (std::size_t k = 0; k < graph_.operands(id).size(); ++k) {
      const tensor<Real>& part = operand(id, k);
      std::int64_t flat = 0;
      for_each_index(part.extents, [&](const index_vector& index) {
        std::int64_t at = start * result.extents.stride(axis);
        for (int i = 0; i < part.extents.rank(); ++i)
          at += index[static_cast<std::size_t>(i)] * result.extents.stride(i);
        result[at] = part[flat++];
      });
      start += part.extents[axis];
    }
    return result;
  }

  // visit(place, there): for each index at `place`, where it points to in a tensor of extents `whole`, if it does.
  template <class Visit>
  static void for_each_along(const tensor<Real>& indices, const shape& whole, int axis, const Visit& visit) {
    for (std::int64_t place = 0; place < indices.extents.elements(); ++place) {
      const std::int64_t there = to_integer(indices[place]), stride = whole.stride(axis);
      if (there < 0 || there >= whole[axis]) continue;
      const std::int64_t outer = place / (stride * indices.extents[axis]);
      visit(place, (outer * whole[axis] + there) * stride + place % stride);
    }
  }

  tensor<Real> take_along(node_id id) const {
    const tensor<Real>& from = operand(id, 0);
    tensor<Real> result = empty(id);
    for_each_along(operand(id, 1), from.extents, graph_.get<axis_attribute>(id).axis,
                   [&](std::int64_t place, std::int64_t there) { result[place] = from[there]; });
    return result;
  }

  tensor<Real> scatter_along(node_id id) const {
    const auto& how = graph_.get<scatter_attribute>(id);
    const tensor<Real>& updates = operand(id, 1);
    tensor<Real> result = empty(id);
    const bool sums = how.kind == reduce_kind::sum;
    if (!sums) std::fill(result.values.begin(), result.values.end(), Real(lowest(result.type)));
    for_each_along(operand(id, 0), result.extents, how.axis, [&](std::int64_t place, std::int64_t there) {
      const scalar_op step = sums ? scalar_op::add : scalar_op::maximum;
      result[there] = scalar_apply(step, result.type, result.type, result[there], updates[place], updates[place]);
    });
    return result;
  }

  // Integers wrap.
  static Real added(dtype type, Real a, Real b) { return scalar_apply(scalar_op::add, type, type, a, b, b); }

  // gather: rows [.., i, ..] of result = data[.., indices[i], ..]; scatter_add walks the same pairs the other way.
  tensor<Real> gather_or_scatter(node_id id, bool scatter) const {
    const int axis = graph_.get<axis_attribute>(id).axis;
    const tensor<Real>& indices = operand(id, scatter ? 0 : 1);
    const tensor<Real>& from = operand(id, scatter ? 1 : 0);
    tensor<Real> result = empty(id);
    const shape& table = scatter ? result.extents : from.extents;
    std::int64_t outer = 1;
    for (int i = 0; i < axis; ++i) outer *= table[i];
    const std::int64_t inner = table.stride(axis), count = indices.extents.elements();
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t k = 0; k < count; ++k) {
        const std::int64_t row = to_integer(indices[k]);
        if (row < 0 || row >= table[axis]) continue;  // reads zeros, adds nothing
        for (std::int64_t i = 0; i < inner; ++i) {
          const std::int64_t in_table = (o * table[axis] + row) * inner + i, dense = (o * count + k) * inner + i;
          if (scatter)
            result[in_table] = added(result.type, result[in_table], from[dense]);
          else
            result[dense] = from[in_table];
        }
      }
    }
    return result;
  }

  tensor<Real> index_add(node_id id) const {
    const int axis = graph_.get<axis_attribute>(id).axis;
    tensor<Real> result = operand(id, 0);
    const tensor<Real>&indices = operand(id, 1), &updates = operand(id, 2);
    const std::int64_t inner = result.extents.stride(axis), count = indices.extents.elements();
    const std::int64_t rows = result.extents[axis];
    for (std::int64_t at = 0; at < updates.extents.elements(); ++at) {
      const std::int64_t row = to_integer(indices[at / inner % count]);
      if (row < 0 || row >= rows) continue;
      const std::int64_t there = (at / inner / count * rows + row) * inner + at % inner;
      result[there] = added(result.type, result[there], updates[at]);
    }
    return result;
  }

  // Row k of the rows belongs to row position + k of the whole, where there is one.
  tensor<Real> rows_at(node_id id) const {
    const int axis = graph_.get<axis_attribute>(id).axis;
    const bool reads = graph_[id].kind == op::narrow;
    tensor<Real> result = reads ? empty(id) : operand(id, 0);
    const tensor<Real>& from = operand(id, reads ? 0 : 1);
    const std::int64_t position = to_integer(operand(id, reads ? 1 : 2)[0]);
    for_each_index(reads ? result.extents : from.extents, [&](const index_vector& index) {
      index_vector whole = index;
      const auto at = static_cast<std::size_t>(axis);
      whole[at] += position;
      if (whole[at] < 0 || whole[at] >= (reads ? from : result).extents[axis]) return;
      std::int64_t in_rows = 0, in_whole = 0;
      for (int k = 0; k < from.extents.rank(); ++k) {
        const auto i = static_cast<std::size_t>(k);
        in_rows += index[i] * (reads ? result : from).extents.stride(k);
        in_whole += whole[i] * (reads ? from : result).extents.stride(k);
      }
      if (reads)
        result[in_rows] = from[in_whole];
      else
        result[in_whole] = from[in_rows];
    });
    return result;
  }

  // ---- convolution and windows

  // One tap of the filter and one image and group at a time: a small matrix product between the o / groups outputs, the
  // c / groups inputs and the output positions whose input element exists.
  tensor<Real> convolution(node_id id, const convolution_attribute& c, const shape& extents) const {
    tensor<Real> result(extents, graph_[id].type);
    if (c.per_image) return filters_of_images(id, c, extents);
    return convolution(id, c, std::move(result), operand(id, 0), operand(id, 1));
  }

  // As groups of one image.
  tensor<Real> filters_of_images(node_id id, const convolution_attribute& c, const shape& extents) const {
    const auto as_groups = [](tensor<Real> images) {
      images.extents.set(1, images.extents[0] * images.extents[1]), images.extents.set(0, 1);
      return images;
    };
    convolution_attribute grouped = c;
    grouped.per_image = false;
    grouped.groups *= operand(id, 0).extents[0];
    return convolution(id, grouped, tensor<Real>(extents, graph_[id].type), as_groups(operand(id, 0)),
                       as_groups(operand(id, 1)));
  }

  tensor<Real> convolution(node_id id, const convolution_attribute& c, tensor<Real> result, const tensor<Real>& first,
                           const tensor<Real>& second) const {
    using form = convolution_attribute;
    const tensor<Real>& x = c.form == form::input ? result : first;
    const tensor<Real>& w = c.form == form::filter ? result : second;
    const tensor<Real>& y = c.form == form::output ? result : c.form == form::input ? first : second;
    if (!is_convolution(c, x.extents, w.extents, y.extents)) {
      fail(error_category::internal, "oracle: node {} relates {}, {} and {}, which is no convolution {}", id,
           to_string(x.extents), to_string(w.extents), to_string(y.extents), to_string(attribute(c)));
    }
    const std::int64_t outputs = w.extents[0] / c.groups, inputs = w.extents[1];
    shape taps, positions;
    for (int i = 0; i < c.spatial; ++i) taps.push_back(w.extents[i + 2]), positions.push_back(y.extents[i + 2]);
    const std::int64_t x_plane = x.extents.stride(1), y_plane = y.extents.stride(1), w_plane = taps.elements();
    std::int64_t tap = 0;
    for_each_index(taps, [&](const index_vector& k) {
      std::vector<std::int64_t> x_at, y_at;  // pairs of positions this tap connects
      tap_pairs(c, x.extents, positions, k, x_at, y_at);
      for (std::int64_t block = 0; block < x.extents[0] * c.groups && !x_at.empty(); ++block) {
        const std::int64_t image = block / c.groups, group = block % c.groups;
        const std::int64_t x_base = (image * x.extents[1] + group * inputs) * x_plane;
        const std::int64_t y_base = (image * y.extents[1] + group * outputs) * y_plane;
        const auto o_in_w = steps(outputs, inputs * w_plane), i_in_w = steps(inputs, w_plane);
        const auto o_in_y = steps(outputs, y_plane), i_in_x = steps(inputs, x_plane);
        const std::int64_t w_base = group * outputs * inputs * w_plane + tap;
        const auto n = static_cast<std::int64_t>(x_at.size());
        if (c.form == form::output) {
          add_product(result, y_base, o_in_y, y_at, packed_matrix(w, w_base, o_in_w, i_in_w),
                      packed_matrix(x, x_base, i_in_x, x_at), inputs);
        } else if (c.form == form::input) {
          add_product(result, x_base, i_in_x, x_at, packed_matrix(w, w_base, i_in_w, o_in_w),
                      packed_matrix(y, y_base, o_in_y, y_at), outputs);
        } else {
          add_product(result, w_base, o_in_w, i_in_w, packed_matrix(y, y_base, o_in_y, y_at),
                      packed_matrix(x, x_base, x_at, i_in_x), n);
        }
      }
      ++tap;
    });
    return result;
  }

  static bool is_convolution(const convolution_attribute& c, const shape& x, const shape& w, const shape& y) {
    for (const shape* part : {&x, &w, &y}) {
      if (part->end() - part->begin() != c.spatial + 2) return false;
    }
    bool fits = x[0] == y[0] && x[1] == w[1] * c.groups && y[1] == w[0];
    for (int i = 0; i < c.spatial; ++i) {
      const std::int64_t last = (y[i + 2] - 1) * c.stride[i] + (w[i + 2] - 1) * c.dilation[i];  // position it reads
      const std::int64_t spare = x[i + 2] + c.pad_low[i] + c.pad_high[i] - 1 - last;
      fits = fits && spare >= 0 && spare < c.stride[i];
    }
    return fits;
  }

  static std::vector<std::int64_t> steps(std::int64_t count, std::int64_t stride) {
    std::vector<std::int64_t> result;
    for (std::int64_t i = 0; i < count; ++i) result.push_back(i * stride);
    return result;
  }

  static void tap_pairs(const convolution_attribute& c, const shape& x, const shape& positions, const index_vector& k,
                        std::vector<std::int64_t>& x_at, std::vector<std::int64_t>& y_at) {
    std::int64_t flat = 0;
    for_each_index(positions, [&](const index_vector& out) {
      std::int64_t at = 0;
      bool inside = true;
      for (int i = 0; i < c.spatial; ++i) {
        const auto u = static_cast<std::size_t>(i);
        const std::int64_t in = out[u] * c.stride[i] + k[u] * c.dilation[i] - c.pad_low[i];
        inside = inside && in >= 0 && in < x[i + 2];
        at += in * x.stride(i + 2);
      }
      if (inside) x_at.push_back(at), y_at.push_back(flat);
      ++flat;
    });
  }

  static void add_product(tensor<Real>& result, std::int64_t base, const std::vector<std::int64_t>& rows,
                          const std::vector<std::int64_t>& columns, const std::vector<Real>& a,
                          const std::vector<Real>& b, std::int64_t summed) {
    const auto values =
        matrix_product(a, b, static_cast<std::int64_t>(rows.size()), summed, static_cast<std::int64_t>(columns.size()));
    std::size_t next = 0;
    for (std::int64_t row : rows) {
      for (std::int64_t column : columns) result[base + row + column] += values[next++];
    }
  }

  // visit(outer offset in x, output position flat in y, in-plane offsets of the window in row-major order)
  template <class Visit>
  static void for_each_window(const window_attribute& w, const shape& x, const shape& y, Visit&& visit) {
    shape outer, positions, window;
    const int first = x.rank() - w.spatial;
    for (int i = 0; i < first; ++i) outer.push_back(x[i]);
    for (int i = 0; i < w.spatial; ++i) positions.push_back(y[first + i]), window.push_back(w.window[i]);
    std::int64_t plane = 1, y_at = 0;
    for (int i = first; i < x.rank(); ++i) plane *= x[i];
    for (std::int64_t image = 0; image < outer.elements(); ++image) {
      for_each_index(positions, [&](const index_vector& out) {
        std::vector<std::int64_t> reads;
        for_each_index(window, [&](const index_vector& k) {
          std::int64_t at = image * plane;
          bool inside = true;
          for (int i = 0; i < w.spatial; ++i) {
            const auto u = static_cast<std::size_t>(i);
            const std::int64_t in = out[u] * w.stride[i] + k[u] - w.pad_low[i];
            inside = inside && in >= 0 && in < x[first + i];
            at += in * x.stride(first + i);
          }
          if (inside) reads.push_back(at);
        });
        visit(y_at++, reads);
      });
    }
  }

  // The first maximum of a window in row-major order, a NaN being larger than any number; the window holds at least one
  // element.
  static std::int64_t first_maximum(const tensor<Real>& x, const std::vector<std::int64_t>& reads) {
    if constexpr (is_field<Real>) {
      fail(error_category::unsupported, "oracle: a finite field has no order; use doubles");
    } else {
      std::int64_t best = reads.at(0);
      for (std::int64_t at : reads) best = !std::isnan(x[best]) && (x[at] > x[best] || std::isnan(x[at])) ? at : best;
      return best;
    }
  }

  tensor<Real> window_reduce(node_id id) const {
    const auto& attribute = graph_.get<window_attribute>(id);
    const tensor<Real>& x = operand(id, 0);
    tensor<Real> result = empty(id);
    for_each_window(attribute, x.extents, result.extents, [&](std::int64_t at, const std::vector<std::int64_t>& reads) {
      if (attribute.kind == reduce_kind::max) {
        if constexpr (!is_field<Real>) {
          if (reads.empty()) {  // a window of padding alone
            result[at] = -std::numeric_limits<Real>::infinity();
            return;
          }
        }
        result[at] = x[first_maximum(x, reads)];
        return;
      }
      for (std::int64_t read : reads) result[at] += x[read];
    });
    return result;
  }

  tensor<Real> window_scatter(node_id id) const {
    const auto& attribute = graph_.get<window_attribute>(id);
    const tensor<Real>& x = operand(id, 0);  // max: decides where to; sum: is y itself
    const tensor<Real>& y = operand(id, graph_.operands(id).size() - 1);
    tensor<Real> result = empty(id);
    for_each_window(attribute, result.extents, y.extents, [&](std::int64_t at, const std::vector<std::int64_t>& reads) {
      if (attribute.kind == reduce_kind::max) {
        if (!reads.empty()) result[first_maximum(x, reads)] += y[at];
        return;
      }
      for (std::int64_t read : reads) result[read] += y[at];
    });
    return result;
  }

  // ---- implementations

  // What an index map reads at an iteration index. Memory outside of the tensor is an error even if nobody looks at the
  // value.
  Real read(node_id id, const index_map& from, const index_vector& index, int rank) const {
    for (int i = 0; i < rank; ++i) {
      const std::int64_t at = index[static_cast<std::size_t>(i)];
      if ((from.bounded >> i & 1) && (at < from.low[i] || at >= from.high[i])) return Real(from.fill);
    }
    const std::int64_t flat = flat_index(from.offset, from.strides, index, rank);
    if (from.source == index_map::index_source) return Real(double(flat));
    const tensor<Real>& source = operand(id, static_cast<std::size_t>(from.source));
    if (flat < 0 || flat >= source.extents.elements()) {
      fail(error_category::internal, "oracle: node {} reads element {} of operand {} {}", id, flat, from.source,
           to_string(source.extents));
    }
    return source[flat];
  }

  // A result nobody has written yet: not-a-number, so that a hole in an output map shows.
  static tensor<Real> unwritten(const tensor_spec& type) {
    tensor<Real> result(type.extents, type.type);
    if constexpr (!is_field<Real>)
      std::fill(result.values.begin(), result.values.end(), std::numeric_limits<Real>::quiet_NaN());
    return result;
  }

  void write(node_id id, tensor<Real>& result, const index_map& to, const index_vector& index, int rank,
             Real value) const {
    for (int i = 0; i < rank; ++i) {
      const std::int64_t at = index[static_cast<std::size_t>(i)];
      if ((to.bounded >> i & 1) && (at < to.low[i] || at >= to.high[i])) return;
    }
    const std::int64_t flat = flat_index(to.offset, to.strides, index, rank);
    if (flat < 0 || flat >= result.extents.elements()) {
      fail(error_category::internal, "oracle: node {} writes element {} of {}", id, flat, to_string(result.extents));
    }
    result[flat] = value;
  }

  tensor<Real> region(node_id id) {
    const auto& attribute = graph_.get<region_attribute>(id);
    const int rank = attribute.space.rank(), rows = rank - attribute.row_axes;
    shape outer, row;
    for (int i = 0; i < rank; ++i) (i < rows ? outer : row).push_back(attribute.space[i]);
    std::vector<tensor<Real>> results;
    for (const tensor_spec& each : graph_.results(id)) results.push_back(unwritten(each));
    std::vector<index_vector> inner;
    for_each_index(row, [&](const index_vector& index) { inner.push_back(index); });
    scalar_machine<Real> machine(attribute.program, inner.size(), run_.on_scalar);
    for_each_index(outer, [&](const index_vector& start) {
      const auto full = [&](std::size_t k) {
        index_vector index = start;
        for (int i = rows; i < rank; ++i)
          index[static_cast<std::size_t>(i)] = inner[k][static_cast<std::size_t>(i - rows)];
        return index;
      };
      const auto& values = machine.run(inner.size(), [&](std::size_t argument, std::vector<Real>& target) {
        const index_map& from = attribute.accesses.at(argument);
        for (std::size_t k = 0; k < inner.size(); ++k) target[k] = read(id, from, full(k), rank);
      });
      const auto write_all = [&](std::size_t number, const index_map& to, bool per_row, const auto& from) {
        const std::size_t count = per_row ? 1 : inner.size();
        for (std::size_t k = 0; k < count; ++k) write(id, results[number], to, full(k), rank, from[k]);
      };
      write_all(0, attribute.output, attribute.per_row, values);
      for (std::size_t i = 1; i < results.size(); ++i) {
        const further_result& more = attribute.further[i - 1];
        write_all(i, more.output, more.per_row, machine.value(more.value));
      }
    });
    if (results.size() > 1) run_.further_[id] = {results.begin() + 1, results.end()};
    return results[0];
  }

  tensor<Real> result(node_id id) const {
    const std::size_t index = graph_.get<result_attribute>(id).index;
    return index == 0 ? operand(id, 0) : run_.further_.at(graph_.operand(id, 0)).at(index - 1);
  }

  // Argument 0 is the accumulator, argument k + 1 what accesses[k] reads.
  Real finished(node_id id, const epilogue& finish, scalar_machine<Real>& machine, Real accumulator,
                const index_vector& index, int rank) const {
    return machine.run(1, [&](std::size_t argument, std::vector<Real>& target) {
      target[0] = argument == 0 ? accumulator : read(id, finish.accesses.at(argument - 1), index, rank);
    })[0];
  }

  // With the zeros around it that a product counts.
  static tensor<Real> in_a_border(const tensor<Real>& image, const zero_border& border) {
    if (border.is_empty()) return image;
    const std::int64_t planes = image.extents.elements() / (border.height * border.width);
    tensor<Real> found(shape{planes, border.rows, border.columns});
    for (std::int64_t i = 0; i < image.extents.elements(); ++i) {
      const std::int64_t plane = i / (border.height * border.width), row = i / border.width % border.height;
      found[(plane * border.rows + row + border.low_row) * border.columns + border.low_column + i % border.width] =
          image[i];
    }
    return found;
  }

  tensor<Real> matmul(node_id id) const {
    const auto& attribute = graph_.get<matmul_attribute>(id);
    const int counts[] = {attribute.batch_axes, attribute.m_axes, attribute.n_axes, attribute.k_axes};
    // Positions in the dense result space identify an index; the output map takes it to memory afterwards.
    shape space = attribute.space;
    std::array<axis_group, 4> groups;
    for (int group = 0, axis = 0; group < 4; ++group) {
      for (int i = 0; i < counts[group]; ++i, ++axis) {
        if (group == 3) space.set(axis, 1);
      }
    }
    for (int group = 0, axis = 0; group < 4; ++group) {
      for (int i = 0; i < counts[group]; ++i, ++axis) {
        groups[static_cast<std::size_t>(group)].axes.push_back({attribute.space[axis], attribute.a.strides[axis],
                                                                attribute.b.strides[axis],
                                                                group == 3 ? 0 : space.stride(axis)});
      }
    }
    std::vector<tensor<Real>> sums(attribute.sums(), tensor<Real>(space)), results;
    for (const tensor_spec& each : graph_.results(id)) results.push_back(unwritten(each));
    tensor<Real> statistics(space);
    const tensor<Real> bordered = in_a_border(operand(id, 1), attribute.border);
    for (std::size_t side = 0; side < sums.size(); ++side) {
      const index_map& right = side == 0 ? attribute.b : attribute.finish.accesses.at(0);
      if (attribute.start.is_empty()) {
        product(operand(id, 0), side == 0 ? bordered : operand(id, 1 + side), attribute.a.offset, right.offset, groups,
                [&](std::int64_t at, Real value) { sums[side][at] = value; });
      } else {
        sum_with_prologue(id, attribute, right, space, sums[side], statistics);
      }
    }
    scalar_machine<Real> machine(attribute.finish.program, 1, run_.on_scalar);
    std::int64_t flat = 0;
    for_each_index(space, [&](const index_vector& index) {
      const Real value = machine.run(1, [&](std::size_t argument, std::vector<Real>& target) {
        const index_map* read = argument < sums.size() ? nullptr : &attribute.finish.accesses.at(argument - 1);
        target[0] = !read                                         ? sums[argument][flat]
                    : read->source == index_map::statistic_source ? statistics[flat]
                                                                  : this->read(id, *read, index, space.rank());
      })[0];
      ++flat;
      write(id, results[0], attribute.output, index, space.rank(), value);
      if (attribute.half_distance != 0) {
        index_map other = attribute.output;
        other.offset += attribute.half_distance;
        write(id, results[0], other, index, space.rank(), machine.value(attribute.half)[0]);
      }
      for (std::size_t i = 1; i < results.size(); ++i) {
        const further_result& more = attribute.further[i - 1];
        write(id, results[i], more.output, index, space.rank(), machine.value(more.value)[0]);
      }
    });
    if (results.size() > 1) run_.further_[id] = {results.begin() + 1, results.end()};
    return results[0];
  }

  // For each index of `space`, whose k axes are 1: the sum over k of what the prologue makes of the first operand times
  // the second one, and that of its statistic.
  void sum_with_prologue(node_id id, const matmul_attribute& of, const index_map& right, const shape& space,
                         tensor<Real>& sums, tensor<Real>& statistics) const {
    const int rank = of.space.rank();
    scalar_machine<Real> elements(of.start.program, 1, run_.on_scalar), numbers(of.start.statistic, 1, run_.on_scalar);
    std::int64_t flat = 0;
    for_each_index(space, [&](const index_vector& first) {
      Real sum(0), statistic(0);
      shape terms = of.space;
      for (int axis = 0; axis < rank - of.k_axes; ++axis) terms.set(axis, 1);
      for_each_index(terms, [&](const index_vector& at) {
        index_vector index = first;
        for (std::size_t i = 0; i < static_cast<std::size_t>(rank); ++i) index[i] += at[i];
        const Real element = read(id, of.a, index, rank);
        const auto argument = [&](std::size_t number, std::vector<Real>& target) {
          target[0] = number == 0 ? element : read(id, of.start.accesses.at(number - 1), index, rank);
        };
        const Real multiplied = of.start.program.nodes.empty() ? element : elements.run(1, argument)[0];
        sum = sum + multiplied * read(id, right, index, rank);
        if (!of.start.statistic.nodes.empty()) statistic = statistic + numbers.run(1, argument)[0];
      });
      sums[flat] = sum;
      statistics[flat++] = statistic;
    });
  }

  // For each index of the groups of attention's axes that are `kept`, `from` moved by it.
  template <class Use>
  static void each_index(const attention_attribute& rows, std::array<bool, 5> kept, const index_vector& from,
                         const Use& use) {
    const std::array<int, 5> counts = rows.axes();
    shape some = rows.space;
    for (std::size_t group = 0, axis = 0; group < 5; ++group) {
      for (int i = 0; i < counts[group]; ++i, ++axis) {
        if (!kept[group]) some.set(static_cast<int>(axis), 1);
      }
    }
    for_each_index(some, [&](const index_vector& at) {
      index_vector index = from;
      for (std::size_t i = 0; i < static_cast<std::size_t>(some.rank()); ++i) index[i] += at[i];
      use(index);
    });
  }
  static epilogue of_score(const attention_attribute& rows) {
    const auto own = static_cast<std::ptrdiff_t>(rows.own_accesses());
    return {rows.score, {rows.accesses.begin() + own, rows.accesses.end()}};
  }
  // The sum over the groups that are `kept` of what two accesses read.
  Real product_at(node_id id, const attention_attribute& rows, std::array<bool, 5> kept, const index_vector& from,
                  const index_map& a, const index_map& b) const {
    const int rank = rows.space.rank();
    Real sum(0);
    each_index(rows, kept, from,
               [&](const index_vector& at) { sum = sum + read(id, a, at, rank) * read(id, b, at, rank); });
    return sum;
  }
  static constexpr std::array<bool, 5> of_rows{true, true, false, false, false}, channels{false, false, true},
      along_keys{false, false, false, true, false}, along_width{false, false, false, false, true};

  // Rows of scores one at a time.
  tensor<Real> attention(node_id id) {
    const auto& rows = graph_.get<attention_attribute>(id);
    if (rows.form != attention_form::output) return attention_gradient(id);
    const int rank = rows.space.rank();
    std::vector<tensor<Real>> results;
    for (const tensor_spec& each : graph_.results(id)) results.push_back(unwritten(each));
    scalar_builder builder;
    const scalar_ref score = builder.argument(0, dtype::f32);
    const scalar_ref sink = rows.has_sink() ? builder.argument(1, dtype::f32) : score;
    scalar_ref largest = builder.unary(scalar_op::row_max, score);
    if (rows.has_sink()) largest = builder.binary(scalar_op::maximum, largest, sink);
    const auto e_of = [&](scalar_ref each) {
      return builder.unary(scalar_op::exp, builder.binary(scalar_op::subtract, each, largest));
    };
    const scalar_ref e = e_of(score);
    const scalar_ref arguments[] = {score, e};
    const scalar_ref weight = builder.inlined(rows.weight, arguments);
    scalar_ref total = builder.unary(scalar_op::row_sum, e);
    if (rows.has_sink()) total = builder.binary(scalar_op::add, total, e_of(sink));
    const auto program_of = [&](scalar_ref value) { return scalar_builder(builder).finish(value); };
    const scalar_program softmax = program_of(builder.binary(scalar_op::divide, weight, total)),
                         maximum = program_of(largest);
    const scalar_ref of_largest[] = {largest, builder.binary(scalar_op::divide, builder.constant(1), total)};
    const scalar_program inverse = program_of(builder.inlined(rows.weight, of_largest));
    const epilogue finish = of_score(rows), of_sink{rows.sink, finish.accesses};
    const auto length = static_cast<std::size_t>(rows.sizes()[3]);
    scalar_machine<Real> program(rows.score, 1, run_.on_scalar), sink_program(rows.sink, 1, run_.on_scalar),
        row_program(softmax, length, run_.on_scalar), largest_program(maximum, length, run_.on_scalar),
        inverse_program(inverse, length, run_.on_scalar);
    each_index(rows, of_rows, index_vector{}, [&](const index_vector& row) {
      std::vector<index_vector> keys;
      std::vector<Real> scores;
      each_index(rows, along_keys, row, [&](const index_vector& at) {
        keys.push_back(at);
        scores.push_back(
            finished(id, finish, program, product_at(id, rows, along_width, at, rows.query(), rows.key()), at, rank));
      });
      std::vector<Real> sinks(length);
      if (rows.has_sink()) std::ranges::fill(sinks, finished(id, of_sink, sink_program, Real(0), row, rank));
      const auto fill = [&](std::size_t argument, std::vector<Real>& target) {
        target = argument == 0 ? scores : sinks;
      };
      const auto& weights = row_program.run(length, fill);
      each_index(rows, channels, row, [&](const index_vector& at) {
        Real sum(0);
        for (std::size_t k = 0; k < keys.size(); ++k) {
          index_vector term = keys[k];
          for (std::size_t i = 0; i < static_cast<std::size_t>(rank); ++i) term[i] += at[i] - row[i];
          sum = sum + weights[k] * read(id, rows.values(), term, rank);
        }
        write(id, results[0], rows.output, at, rank, sum);
      });
      if (results.size() == 1) return;
      index_map second = rows.further[0].output;
      second.offset += rows.sizes()[0] * rows.sizes()[1];
      write(id, results[1], rows.further[0].output, row, rank, largest_program.run(length, fill)[0]);
      write(id, results[1], second, row, rank, inverse_program.run(length, fill)[0]);
    });
    if (results.size() > 1) run_.further_[id] = {results.begin() + 1, results.end()};
    return results[0];
  }

  tensor<Real> attention_gradient(node_id id) {
    const auto& rows = graph_.get<attention_attribute>(id);
    const int rank = rows.space.rank();
    std::vector<tensor<Real>> results;
    for (const tensor_spec& each : graph_.results(id)) results.push_back(unwritten(each));
    scalar_builder builder;
    const auto argument = [&](int i) { return builder.argument(i, dtype::f32); };
    const auto binary = [&](scalar_op kind, scalar_ref a, scalar_ref b) { return builder.binary(kind, a, b); };
    const scalar_ref e = builder.unary(scalar_op::exp, binary(scalar_op::subtract, argument(0), argument(1)));
    const scalar_program softmax = builder.finish(binary(scalar_op::multiply, e, argument(2)));
    scalar_machine<Real> score_program(rows.score, 1, run_.on_scalar), weight_program(softmax, 1, run_.on_scalar),
        slope_program(rows.slope, 1, run_.on_scalar);
    const epilogue finish = of_score(rows);
    // Of all pairs of a query and a key.
    std::vector<Real> weights, slopes;
    shape pairs = rows.space;
    const int first_channel = rows.batch_axes + rows.query_axes, first_key = first_channel + rows.channel_axes;
    for (int axis = 0; axis < rank; ++axis) {
      const bool is_pair = axis < first_channel || (axis >= first_key && axis < first_key + rows.key_axes);
      if (!is_pair) pairs.set(axis, 1);
    }
    index_map inverse = rows.accesses[4];
    inverse.offset += rows.sizes()[0] * rows.sizes()[1];
    for_each_index(pairs, [&](const index_vector& at) {
      const Real sum = product_at(id, rows, along_width, at, rows.query(), rows.key());
      const Real score = finished(id, finish, score_program, sum, at, rank);
      const Real weight = weight_program.run(1, [&](std::size_t number, std::vector<Real>& target) {
        target[0] = number == 0   ? score
                    : number == 1 ? read(id, rows.accesses[4], at, rank)
                                  : read(id, inverse, at, rank);
      })[0];
      const Real change = product_at(id, rows, channels, at, rows.gradient(), rows.values());
      const Real above = weight * (change - read(id, rows.accesses[5], at, rank));
      weights.push_back(weight);
      slopes.push_back(slope_program.run(1, [&](std::size_t number, std::vector<Real>& target) {
        target[0] = number == 0   ? score
                    : number == 1 ? above
                                  : read(id, rows.of_argument(static_cast<int>(number) - 1), at, rank);
      })[0]);
    });
    const auto add_up = [&](std::size_t number, const index_map& output, std::array<bool, 5> kept,
                            std::array<bool, 5> summed, const std::vector<Real>& by, const index_map& weighed) {
      each_index(rows, kept, index_vector{}, [&](const index_vector& to) {
        Real sum(0);
        each_index(rows, summed, to, [&](const index_vector& at) {
          std::int64_t pair = 0;
          for (int axis = 0; axis < rank; ++axis) {
            if (pairs[axis] != 1) pair += at[static_cast<std::size_t>(axis)] * pairs.stride(axis);
          }
          sum = sum + by[static_cast<std::size_t>(pair)] * read(id, weighed, at, rank);
        });
        write(id, results[number], output, to, rank, sum);
      });
    };
    constexpr std::array<bool, 5> along_queries{false, true, false, false, false};
    if (rows.form == attention_form::query_gradient) {
      add_up(0, rows.output, {true, true, false, false, true}, along_keys, slopes, rows.key());
    } else {
      add_up(0, rows.output, {true, false, false, true, true}, along_queries, slopes, rows.query());
      add_up(1, rows.further[0].output, {true, false, true, true, false}, along_queries, weights, rows.gradient());
      run_.further_[id] = {results.begin() + 1, results.end()};
    }
    return results[0];
  }

  tensor<Real> convolve(node_id id) const {
    const auto& attribute = graph_.get<convolve_attribute>(id);
    const tensor<Real> sums = convolution(id, attribute.primitive, attribute.space);
    tensor<Real> result = unwritten(graph_.results(id)[0]);
    scalar_machine<Real> machine(attribute.finish.program, 1, run_.on_scalar);
    std::int64_t flat = 0;
    for_each_index(attribute.space, [&](const index_vector& index) {
      const Real value = finished(id, attribute.finish, machine, sums[flat++], index, attribute.space.rank());
      write(id, result, attribute.output, index, attribute.space.rank(), value);
    });
    return result;
  }

  tensor<Real> scaled(tensor<Real> gradient, node_id by) const {
    for (Real& value : gradient.values) value = by == no_id ? value : value * run_.values_[by].values[0];
    return gradient;
  }

  // The program of `rule`, element by element.
  void update(const optimizer_attribute& rule, const std::string& name, const tensor<Real>& gradient) {
    if constexpr (is_field<Real>) {
      fail(error_category::unsupported, "oracle: an optimizer needs floats; use doubles");
    } else {
      run_.moments.resize(std::max(run_.moments.size(), rule.moments.size()));
      std::vector<tensor<Real>*> kept{&run_.leaves.at(name)};
      for (std::size_t i = 0; i < rule.moments.size(); ++i)
        kept.push_back(&run_.moments[i].try_emplace(name, tensor<Real>(gradient.extents)).first->second);
      const kernels::step_values& now = rule.group == 0 ? run_.step : run_.group_steps.at(rule.group - 1);
      const std::size_t count = gradient.values.size();
      scalar_machine<Real> machine(rule.program, count, run_.on_scalar);
      machine.run(count, [&](std::size_t argument, std::vector<Real>& values) {
        if (argument <= kept.size())
          values = argument == 1 ? gradient.values : kept[argument == 0 ? 0 : argument - 1]->values;
        else
          values.assign(count, static_cast<Real>(now.numbers[argument - kept.size() - 1]));
      });
      for (std::size_t i = 0; i < kept.size(); ++i) kept[i]->values = machine.value(rule.results[i]);
    }
  }

  interpreter& run_;
  const graph& graph_;
};

template <class Real>
interpreter<Real>::interpreter(const graph& g, tensors<Real> values, const kernels::step_values& step_values)
    : leaves(std::move(values)), step(step_values), graph_(g), values_(g.size()), known_(g.size(), false) {}

template <class Real>
const tensor<Real>& interpreter<Real>::value(node_id id) {
  evaluate(std::span(&id, 1));
  return values_[id];
}

template <class Real>
tensor<Real> interpreter<Real>::value_from(node_id id, const std::vector<tensor<Real>>& given) {
  clear();
  for (std::size_t i = 0; i < given.size(); ++i) {
    values_[graph_.operand(id, i)] = given[i];
    known_[graph_.operand(id, i)] = true;
  }
  return value(id);
}

template <class Real>
tensors<Real> interpreter<Real>::run() {
  std::vector<node_id> roots;
  for (const graph_output& output : graph_.outputs()) roots.push_back(output.node);
  for (node_id effect : graph_.effects()) {
    for (node_id operand : graph_.operands(effect)) roots.push_back(operand);
  }
  evaluate(roots);
  tensors<Real> results;
  for (const graph_output& output : graph_.outputs()) results[output.name] = values_[output.node];
  for (node_id effect : graph_.effects()) definitions(*this).apply_effect(effect);
  clear();
  return results;
}

template <class Real>
std::vector<tensor<Real>> interpreter<Real>::values_from(node_id id, const std::vector<tensor<Real>>& given) {
  std::vector<tensor<Real>> values = {value_from(id, given)};
  const auto further = further_.find(id);
  if (further != further_.end()) values.insert(values.end(), further->second.begin(), further->second.end());
  for (tensor<Real>& each : values) {
    for (Real& element : each.values) element = stored(element, each.type);
    if (on_stored && &each != values.data()) on_stored(id, each);
  }
  return values;
}

template <class Real>
void interpreter<Real>::clear() {
  further_.clear();
  known_.assign(graph_.size(), false);
  values_.assign(graph_.size(), tensor<Real>());
}

template <class Real>
void interpreter<Real>::evaluate(std::span<const node_id> roots) {
  if (values_.size() < graph_.size()) {  // the graph has grown since
    values_.resize(graph_.size());
    known_.resize(graph_.size(), false);
  }
  std::vector<bool> needed(graph_.size(), false);
  for (node_id root : roots) needed[root] = !known_[root];
  for (std::size_t id = graph_.size(); id-- > 0;) {
    if (!needed[id]) continue;
    const node_id at = static_cast<node_id>(id);
    const std::size_t count = graph_[at].kind == op::custom_gradient ? 1 : graph_[at].operand_count;
    for (node_id operand : graph_.operands(at).first(count)) needed[operand] = !known_[operand];
  }
  for (node_id id{0}; id < graph_.size(); ++id) {
    if (!needed[id]) continue;
    values_[id] = definitions(*this).compute(id);
    values_[id].type = graph_[id].type;
    for (Real& value : values_[id].values) value = stored(value, graph_[id].type);
    known_[id] = true;
    if (on_stored) on_stored(id, values_[id]);
  }
}

template class interpreter<double>;
template class interpreter<float>;
template class interpreter<prime_field>;

}  // namespace meganeura::inline MEGANEURA_ABI::oracle
