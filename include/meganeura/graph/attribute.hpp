// SPDX-License-Identifier: MIT
// What a node carries besides its operands: one plain struct a kind, interned in the graph. `each` visits what it is
// hashed by and, where it is numbers alone, packed into types by.
#pragma once
#include <meganeura/core/hash.hpp>
#include <meganeura/core/initializer.hpp>
#include <meganeura/core/same_bits.hpp>
#include <meganeura/core/shape.hpp>
#include <meganeura/graph/geometry.hpp>
#include <meganeura/graph/op.hpp>
#include <meganeura/graph/scalar.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

/// input, parameter, state: the name they are bound, saved and printed by, and how a parameter or a state begins if
/// that was said.
struct leaf_attribute {
  std::string name;
  std::optional<initializer> begin{};
  static void each(auto& self, auto visit) { visit("name", self.name); }
  friend bool operator==(const leaf_attribute&, const leaf_attribute&) = default;
};

struct constant_attribute {
  double value = 0;
  static void each(auto& self, auto visit) { visit("value", self.value); }
  friend bool operator==(const constant_attribute& a, const constant_attribute& b) {
    return same_bits(a.value, b.value);
  }
};

/// random: equal nodes are one node, so two draws need two stream names.
struct random_attribute {
  std::string stream;
  meganeura::distribution distribution = meganeura::distribution::uniform;
  static void each(auto& self, auto visit) { visit("stream", self.stream), visit("distribution", self.distribution); }
  friend bool operator==(const random_attribute&, const random_attribute&) = default;
};

struct map_attribute {
  scalar_program program;
  static void each(auto& self, auto visit) { visit("program", self.program); }
  friend bool operator==(const map_attribute&, const map_attribute&) = default;
};

/// out[i] = in.flat[offset + sum strides[k] * i[k]]; axes of extent 1 have stride 0 (canonical form).
struct view_attribute {
  std::int64_t offset = 0;
  std::int64_t strides[max_rank]{};
  static void each(auto& self, auto visit) { visit("offset", self.offset), visit("strides", self.strides); }
  friend bool operator==(const view_attribute&, const view_attribute&) = default;
};

/// What changes from step to step, of each group of parameters (kernels::step_values), and the numbers that an
/// optimiser's program may read of it: what step number and seed leave room for.
inline constexpr std::size_t step_bytes = 64, max_optimizer_numbers = (step_bytes - 12) / 4;

/// optimizer_step: operands alternate parameter, gradient, parameter, gradient, ..., and last there may be an f32
/// number, by which all gradients are multiplied as they are read. For every element `program` makes `results`, the new
/// parameter and then each new moment, from its arguments, all f32: the parameter (0), the gradient (1), the moments as
/// they were, zero in the beginning, and after them the step's numbers, which the host computes from rates and step
/// number, so that schedules need no new plan.
struct optimizer_attribute {
  std::string name;                  // "adam"
  std::vector<std::string> moments;  // what is kept of each parameter, by the names that checkpoints have: "m", "v"
  scalar_program program;
  std::vector<scalar_ref> results;
  std::uint32_t group = 0;  // of the sets of numbers that a step has, the one that is read
  static void each(auto& self, auto visit) {
    visit("name", self.name), visit("program", self.program), visit("moments", self.moments),
        visit("results", self.results), visit("group", self.group);
  }
  friend bool operator==(const optimizer_attribute&, const optimizer_attribute&) = default;
};

// ---- implementations ------------------------------------------------------------------------------------------------

/// How a kernel reads (or writes) one tensor: the affine image of its iteration index, with an optional box outside of
/// which the value is `fill` and memory is not touched. `source` is the operand's position among the node's operands,
/// or index_source for the flat position itself as i32 (a fused iota, no memory at all), or, in an epilogue,
/// statistic_source for what the product's prologue sums up.
struct index_map {
  static constexpr int index_source = -1, statistic_source = -2;
  int source = 0;
  std::int64_t offset = 0;
  std::int64_t strides[max_rank]{};
  std::uint32_t bounded = 0;  // bit i: valid only for low[i] <= index[i] < high[i]
  std::int64_t low[max_rank]{};
  std::int64_t high[max_rank]{};
  double fill = 0;
  static void each(auto& self, auto visit) {
    visit("source", self.source), visit("offset", self.offset), visit("strides", self.strides),
        visit("bounded", self.bounded), visit("fill", self.fill);
    if (self.bounded) visit("low", self.low), visit("high", self.high);
  }
  friend bool operator==(const index_map& a, const index_map& b) {
    for (int i = 0; i < max_rank; ++i) {
      if (a.strides[i] != b.strides[i] || a.low[i] != b.low[i] || a.high[i] != b.high[i]) return false;
    }
    return a.source == b.source && a.offset == b.offset && a.bounded == b.bounded && same_bits(a.fill, b.fill);
  }
};

/// A value that a node stores besides its first, where `output` says; of a region what node `value` of its program
/// gives.
struct further_result {
  scalar_ref value{0};
  bool per_row = false;
  index_map output;
  dtype type = dtype::f32;
  shape extents;
  static void each(auto& self, auto visit) {
    visit("value", self.value), visit("per_row", self.per_row), visit("output", self.output), visit("type", self.type),
        visit("extents", self.extents);
  }
  friend bool operator==(const further_result&, const further_result&) = default;
};

/// A fused loop nest: for every index of `space`, program(argument k = the value accesses[k] reads). The last
/// `row_axes` axes form the row that row_sum, row_max, ... reduce over (0: a pointwise kernel). If `per_row`, the
/// program's result is the same all along the row and one value is stored for each row. The result is stored at
/// `output`: strides of the iteration axes in the dense result (0 for row axes when per_row). With `further` results
/// the node is no value itself: `result` nodes name them, number 0 the one of the program's last node.
struct region_attribute {
  shape space;
  int row_axes = 0;
  bool per_row = false;
  scalar_program program;
  std::vector<index_map> accesses;
  index_map output;
  std::vector<further_result> further{};
  static void each(auto& self, auto visit) {
    visit("space", self.space), visit("row_axes", self.row_axes), visit("per_row", self.per_row),
        visit("program", self.program), visit("accesses", self.accesses), visit("output", self.output),
        visit("further", self.further);
  }
  friend bool operator==(const region_attribute&, const region_attribute&) = default;
};

/// result: which of its operand's values.
struct result_attribute {
  std::size_t index = 0;
  static void each(auto& self, auto visit) { visit("index", self.index); }
  friend bool operator==(const result_attribute&, const result_attribute&) = default;
};

/// What is applied to a product before it is stored: argument 0 is the accumulator, argument k + 1 what accesses[k]
/// reads (an iteration index over the product's result axes, in the order of the implementation's space).
struct epilogue {
  scalar_program program;
  std::vector<index_map> accesses;
  static void each(auto& self, auto visit) { visit("program", self.program), visit("accesses", self.accesses); }
  friend bool operator==(const epilogue&, const epilogue&) = default;
};

/// What a product multiplies instead of its first operand's elements: argument 0 is the element, argument k + 1 what
/// accesses[k] reads (an index over the product's batch, m and k axes, in the order of the implementation's space);
/// without nodes the element itself. `statistic`, if it has nodes, is a program of the same arguments whose sum over k
/// is a number of each row, which the epilogue may read. All are f32.
struct prologue {
  scalar_program program, statistic;
  std::vector<index_map> accesses;
  [[nodiscard]] bool is_empty() const { return program.nodes.empty() && statistic.nodes.empty(); }
  static void each(auto& self, auto visit) {
    visit("program", self.program), visit("statistic", self.statistic), visit("accesses", self.accesses);
  }
  friend bool operator==(const prologue&, const prologue&) = default;
};

/// The arithmetic of a product. All sums are f32.
enum class product_arithmetic : std::uint8_t {
  fma,      // f32 multiply-add, outside of matrix units
  split,    // on matrix units, each operand as two f16 terms, three products: no less accurate than fma
  rounded,  // on matrix units, operands rounded to f16, one product: no less accurate than TF32
  half      // on matrix units, of operands that are f16 in memory
};

/// "split".
[[nodiscard]] std::string to_string(product_arithmetic value);

/// What places of windows that share elements are of a product's right operand: its columns, and channels' taps its
/// terms, or the other way round, as a filter's gradient has them.
enum class place_axes : std::uint8_t { none, columns, terms };

/// How a product is cut up for matrix units; without sizes (fma) its kernels choose for themselves. A workgroup makes
/// tile_m x tile_n results and stages tile_k terms of them at a time; each of its subgroups adds up one of `slices`
/// equal parts of these terms for subgroup_m x subgroup_n results. Its share is a multiple of what a unit of the device
/// computes at once, each way. `depth` steps of tile_k terms are on their way at once; of more than one, the loop over
/// k is written out. Of `parts` workgroups each adds up an equal part of k for the same results, whole steps of it; the
/// last of them to arrive adds these up, in their order. Of windows that lie one behind the other
/// (fusion::product_windows), with `places` columns, a step is tile_k channels of all elements that the tile's windows
/// share, `reach` more than it has columns, and of the left operand so many `taps` at a time. Where places are terms a
/// tile has all taps of tile_n / taps channels; a step is tile_k places, for all taps.
struct product_schedule {
  product_arithmetic arithmetic = product_arithmetic::fma;
  std::uint32_t tile_m = 0, tile_n = 0, tile_k = 0, subgroup_m = 0, subgroup_n = 0, slices = 1, depth = 1;
  std::uint32_t parts = 1, taps = 0, reach = 0;
  place_axes places = place_axes::none;  // without them no taps

  [[nodiscard]] constexpr bool is_on_units() const { return arithmetic != product_arithmetic::fma; }
  /// Of f16 in memory.
  [[nodiscard]] constexpr bool is_half() const { return arithmetic == product_arithmetic::half; }
  /// Of f32 in memory, whose rows have factors.
  [[nodiscard]] constexpr bool is_scaled() const {
    return arithmetic == product_arithmetic::split || arithmetic == product_arithmetic::rounded;
  }
  /// f16 terms that stand for one element.
  [[nodiscard]] constexpr std::uint32_t terms() const { return arithmetic == product_arithmetic::split ? 2 : 1; }
  /// Split: products with low terms have a total of their own; with more results registers would be short of it.
  [[nodiscard]] constexpr bool keeps_low() const {
    return arithmetic == product_arithmetic::split && subgroup_m * subgroup_n <= 1024;
  }
  [[nodiscard]] constexpr std::uint32_t subgroups() const {
    return subgroup_m == 0 || subgroup_n == 0 ? 0 : tile_m / subgroup_m * (tile_n / subgroup_n) * slices;
  }
  static void each(auto& self, auto visit) {
    visit("arithmetic", self.arithmetic), visit("tile_m", self.tile_m), visit("tile_n", self.tile_n),
        visit("tile_k", self.tile_k), visit("subgroup_m", self.subgroup_m), visit("subgroup_n", self.subgroup_n),
        visit("slices", self.slices), visit("depth", self.depth), visit("parts", self.parts), visit("taps", self.taps),
        visit("reach", self.reach), visit("places", self.places);
  }
  friend bool operator==(const product_schedule&, const product_schedule&) = default;
};
/// "split 32x32x128 16x16 slices 4 depth 2 parts 3"; "rounded 64x128x32 32x32 taps 3"; "fma".
[[nodiscard]] std::string to_string(const product_schedule& value);

/// A border of zeros around the last two axes of a tensor (with `rows` 1 around the last one alone) that is not in
/// memory: what is there has `height` x `width` elements of each `rows` x `columns`, the first at (low_row,
/// low_column).
struct zero_border {
  std::int64_t rows = 0, columns = 0;  // 0: there is none
  std::int64_t height = 0, width = 0, low_row = 0, low_column = 0;
  [[nodiscard]] constexpr bool is_empty() const { return rows == 0; }
  static void each(auto& self, auto visit) {
    visit("rows", self.rows), visit("columns", self.columns), visit("height", self.height), visit("width", self.width),
        visit("low_row", self.low_row), visit("low_column", self.low_column);
  }
  friend bool operator==(const zero_border&, const zero_border&) = default;
};

/// out[b, m, n] = epilogue(sum over k of prologue(a[b, m, k]) * b[b, n, k]): each letter is a group of axes of `space`,
/// in the order batch, m, n, k. a and b are operands 0 and 1 and are read through affine accesses over `space` (never
/// bounded); epilogue accesses have stride 0 along k, the prologue's along n, and sources >= 2. `output` has stride 0
/// along k. On matrix units alone:
/// A prologue, over groups of four along k or m.
/// A `paired` product adds up as many sums of a second right operand: operand 2, which the epilogue's first access
/// reads as b's does b, with the same strides; the epilogue's argument 1 is the sum. `further` results are stored where
/// the first is, of its dtype, and the node is then no value itself (see region_attribute). A paired product may
/// instead store one result in two halves, each element of the epilogue's node `half` lying `half_distance` elements
/// (below 0: before; 0: there is none) behind the last node's. Rounded right operands may come `prepared`: as many
/// operands more, behind all others, have their rows as op::prepare_rows makes them, in one term of length
/// `prepared_length`, a batch behind the other, and they themselves are read where f16 cannot hold a row. Right
/// operands whose windows share elements may have a border that their access counts and memory has not; left ones of
/// such may be read backwards along k.
struct matmul_attribute {
  shape space;
  int batch_axes = 0, m_axes = 0, n_axes = 0, k_axes = 0;
  index_map a, b, output;
  prologue start{};
  epilogue finish;
  product_schedule schedule;
  bool paired = false;
  std::vector<further_result> further{};
  scalar_ref half{0};
  std::int64_t half_distance = 0;
  bool prepared = false;
  zero_border border{};
  /// Right operands, which are operands 1, 2, ...
  [[nodiscard]] constexpr std::size_t sums() const { return paired ? 2 : 1; }
  static void each(auto& self, auto visit) {
    visit("space", self.space), visit("batch_axes", self.batch_axes), visit("m_axes", self.m_axes),
        visit("n_axes", self.n_axes), visit("k_axes", self.k_axes), visit("a", self.a), visit("b", self.b),
        visit("output", self.output), visit("start", self.start), visit("finish", self.finish),
        visit("schedule", self.schedule), visit("paired", self.paired), visit("further", self.further),
        visit("half", self.half), visit("half_distance", self.half_distance), visit("prepared", self.prepared),
        visit("border", self.border);
  }
  friend bool operator==(const matmul_attribute&, const matmul_attribute&) = default;
};

/// Of a row of so many terms, with zeros behind its end.
[[nodiscard]] constexpr std::uint32_t prepared_length(std::int64_t terms) {
  return static_cast<std::uint32_t>((terms + 7) / 8 * 8);
}

/// How attention is cut up for matrix units; on multiply-add (fma) its kernel chooses for itself. A workgroup of
/// `subgroups` goes through the keys of 16 rows of queries a subgroup, `keys` at a time; of these each of `parts`
/// subgroups takes an equal share for the same rows, of which there are then as many times fewer. `prepared`: rows that
/// several workgroups go through (keys and values; for gradients of these queries and gradients) come as
/// op::prepare_rows makes them, as two operands more.
struct attention_schedule {
  product_arithmetic arithmetic = product_arithmetic::fma;
  std::uint32_t subgroups = 0, parts = 1, keys = 0;
  bool prepared = false;

  [[nodiscard]] constexpr bool is_on_units() const { return arithmetic != product_arithmetic::fma; }
  [[nodiscard]] constexpr std::uint32_t terms() const { return arithmetic == product_arithmetic::split ? 2 : 1; }
  static void each(auto& self, auto visit) {
    visit("arithmetic", self.arithmetic), visit("subgroups", self.subgroups), visit("parts", self.parts),
        visit("keys", self.keys), visit("prepared", self.prepared);
  }
  friend bool operator==(const attention_schedule&, const attention_schedule&) = default;
};
/// "split 8 subgroups parts 2 keys 64", "rounded 4 subgroups parts 1 keys 32 prepared"; "fma".
[[nodiscard]] std::string to_string(const attention_schedule& value);

/// What a kernel of attention computes: its rows, or what gradients of these are for queries, or for keys and values.
enum class attention_form : std::uint8_t { output, query_gradient, key_gradients };
/// "query_gradient".
[[nodiscard]] std::string to_string(attention_form value);

/// out[b, q, c] = sum over k of weight[k] * values[b, k, c] / sum over k of e[k], where score[k] is the program `score`
/// of the sum over w of query[b, q, w] * key[b, k, w], e[k] = exp(score[k] - the largest of the row), and weight[k] the
/// program `weight` of the score (argument 0) and e (argument 1): e times what depends on the score alone. Each letter
/// is a group of axes of `space`, in the order b, q, c, k, w. Where there is a program `sink`, of arguments 1, 2, ...
/// of `score` that do not differ between keys, it is one score more of the row, which weighs nothing: the largest may
/// be that one, and the sum has its e besides. The first three accesses read query, key and values, operands 0, 1 and
/// 2, the others what arguments 1, 2, ... of `score` are, over b, q and k; none is bounded. A further result, if there
/// is one, has two numbers of each row, [2, b q]: the largest score, and `weight` of that and of 1 / the sum of e, so
/// that of rows whose every score is hidden gradients have no weights.
///
/// Of gradients accesses and operands 3, 4 and 5 are the gradient of the output (over b, q, c), those numbers and, over
/// b and q, `mean`, the sum over c of the output and its gradient; the score's come behind them. With p[k] = e[k] times
/// the second number and dp[k] = the sum over c of gradient[b, q, c] * values[b, k, c], ds[k] is the program `slope` of
/// the score (argument 0), of p[k] (dp[k] - mean) (argument 1) and of what arguments 1, 2, ... of `score` are or would
/// be (2, 3,
/// ...). Results: out[b, q, w] = sum over k of ds[k] * key[b, k, w]; or out[b, k, w] = sum over q of
/// ds * query[b, q, w] and, further, out[b, k, c] = sum over q of p * gradient[b, q, c].
///
/// The last two accesses and operands of a prepared schedule are those of prepared rows, which they number.
struct attention_attribute {
  shape space;
  int batch_axes = 0, query_axes = 0, channel_axes = 0, key_axes = 0, width_axes = 0;
  scalar_program score, weight, sink{}, slope{};
  std::vector<index_map> accesses;
  index_map output;
  attention_schedule schedule;
  attention_form form = attention_form::output;
  std::vector<further_result> further{};

  [[nodiscard]] const index_map& query() const { return accesses[0]; }
  [[nodiscard]] const index_map& key() const { return accesses[1]; }
  [[nodiscard]] const index_map& values() const { return accesses[2]; }
  [[nodiscard]] const index_map& gradient() const { return accesses[3]; }
  /// The first and second of prepared rows.
  [[nodiscard]] const index_map& prepared(std::size_t which) const { return accesses[accesses.size() - 2 + which]; }
  /// How many accesses are those of operands in their order; behind them are the score's.
  [[nodiscard]] std::size_t own_accesses() const { return form == attention_form::output ? 3 : 6; }
  [[nodiscard]] const index_map& of_argument(int number) const {
    return accesses[static_cast<std::size_t>(number) + own_accesses() - 1];
  }
  [[nodiscard]] bool has_sink() const { return !sink.nodes.empty(); }
  /// Of each group, how many axes and how many elements.
  [[nodiscard]] std::array<int, 5> axes() const { return {batch_axes, query_axes, channel_axes, key_axes, width_axes}; }
  [[nodiscard]] std::array<std::int64_t, 5> sizes() const {
    std::array<std::int64_t, 5> result{1, 1, 1, 1, 1};
    for (std::size_t group = 0, axis = 0; group < result.size(); ++group) {
      for (int i = 0; i < axes()[group]; ++i) result[group] *= space[static_cast<int>(axis++)];
    }
    return result;
  }
  static void each(auto& self, auto visit) {
    visit("space", self.space), visit("batch_axes", self.batch_axes), visit("query_axes", self.query_axes),
        visit("channel_axes", self.channel_axes), visit("key_axes", self.key_axes),
        visit("width_axes", self.width_axes), visit("score", self.score), visit("weight", self.weight),
        visit("sink", self.sink), visit("slope", self.slope), visit("accesses", self.accesses),
        visit("output", self.output), visit("schedule", self.schedule), visit("form", self.form),
        visit("further", self.further);
  }
  friend bool operator==(const attention_attribute&, const attention_attribute&) = default;
};

/// How many there are, where an access numbers what it reads, without gaps.
[[nodiscard]] constexpr std::int64_t count_of(const index_map& numbers, const shape& space) {
  std::int64_t last = 0;
  for (int axis = 0; axis < space.rank(); ++axis) last += (space[axis] - 1) * numbers.strides[axis];
  return last + 1;
}

/// Rows of `space`, whose last axes lie along a row, as f16 terms: each times a power of two that brings its largest to
/// [2^14, 2^15). The result, of u32, has them one behind the other, each as `terms` times `padded` / 2 pairs, zeros
/// behind its end; of two terms both of four numbers lie side by side, and the second counts 2^-11. Behind all of them
/// are the inverses of their factors, as f32: 0 for zeros, infinity for a row that has none, as f16 cannot hold it.
/// `by_columns`: nor has one a row in whose neighbourhood a column is so far below others that its digits would be
/// lost.
struct prepare_attribute {
  shape space;
  int row_axes = 0;  // of those before the last axes
  index_map access;
  std::uint32_t terms = 1, padded = 0;
  bool by_columns = false;

  [[nodiscard]] std::int64_t rows() const {
    std::int64_t count = 1;
    for (int axis = 0; axis < row_axes; ++axis) count *= space[axis];
    return count;
  }
  [[nodiscard]] std::int64_t words() const { return rows() * (std::int64_t{terms} * padded / 2 + 1); }
  static void each(auto& self, auto visit) {
    visit("space", self.space), visit("row_axes", self.row_axes), visit("access", self.access),
        visit("terms", self.terms), visit("padded", self.padded), visit("by_columns", self.by_columns);
  }
  friend bool operator==(const prepare_attribute&, const prepare_attribute&) = default;
};

/// A primitive, said by what it carries, read from its dense operands, which come first. `space` is what the primitive
/// itself gives, axes in its order: the epilogue's accesses (of the operands after those) and `output` run over it, so
/// the node's result may have another shape.
template <class Attribute>
struct implementation_of {
  Attribute primitive;
  shape space;
  index_map output;
  epilogue finish;
  static void each(auto& self, auto visit) {
    visit("primitive", self.primitive), visit("space", self.space), visit("output", self.output),
        visit("finish", self.finish);
  }
  friend bool operator==(const implementation_of&, const implementation_of&) = default;
};
using convolve_attribute = implementation_of<convolution_attribute>;

namespace detail {

// What per_image asks for, said with groups: of `images`, and of x or y [n, c, ...] as [1, n c, ...].
constexpr convolution_attribute images_as_groups(convolution_attribute c, std::int64_t images) {
  c.per_image = false;
  c.groups *= images;
  return c;
}
constexpr shape images_as_groups(shape of) {
  const std::int64_t images = of[0];
  of.set(0, 1), of.set(1, images * of[1]);
  return of;
}

/// What nodes of a kind that implements a primitive carry.
template <op Kind>
struct implementation_traits {
  using attribute_type = implementation_of<typename primitive_traits<info(Kind).implements>::attribute_type>;
};
template <>
struct implementation_traits<op::matmul> {
  using attribute_type = matmul_attribute;
};

template <class... Known>
struct attribute_list {
  using variant = std::variant<Known...>;
  template <class Attribute>
  static constexpr auto with() {
    if constexpr ((std::is_same_v<Attribute, Known> || ...))
      return attribute_list();
    else
      return attribute_list<Known..., Attribute>();
  }
};

// And what the kinds from number `Kind` on carry.
template <int Kind, class List>
constexpr auto with_kinds(List list) {
  if constexpr (Kind == op_count) {
    return list;
  } else if constexpr (has_traits<static_cast<op>(Kind)>) {
    using own = typename primitive_traits<static_cast<op>(Kind)>::attribute_type;
    return with_kinds<Kind + 1>(List::template with<own>());
  } else if constexpr (has_epilogue(static_cast<op>(Kind))) {
    using own = typename implementation_traits<static_cast<op>(Kind)>::attribute_type;
    return with_kinds<Kind + 1>(List::template with<own>());
  } else {
    return with_kinds<Kind + 1>(list);
  }
}

using all_attributes = decltype(with_kinds<0>(
    attribute_list<no_attribute, leaf_attribute, constant_attribute, random_attribute, map_attribute, view_attribute,
                   optimizer_attribute, region_attribute, attention_attribute, prepare_attribute, result_attribute>()));

}  // namespace detail

/// These, and what the traits of primitives and of their implementations name.
using attribute = detail::all_attributes::variant;

/// An attribute where it lies, or a struct that is a kind of one: what is only looked up need not be copied.
class attribute_ref {
 public:
  attribute_ref(const attribute& value);  // NOLINT(google-explicit-constructor): passed as what it refers to
  template <class Kind>
    requires(std::is_constructible_v<attribute, std::in_place_type_t<Kind>>)
  attribute_ref(const Kind& value)  // NOLINT(google-explicit-constructor)
      : index_(index_of<Kind>(static_cast<const attribute*>(nullptr))), value_(&value) {}

  [[nodiscard]] std::uint64_t hash() const;
  [[nodiscard]] attribute copy() const;
  [[nodiscard]] bool equals(const attribute& other) const;
  /// Where what it refers to lies.
  [[nodiscard]] const void* address() const { return value_; }
  /// Whether it refers to what that attribute holds.
  [[nodiscard]] bool refers_to(const attribute& other) const;
  /// Null if it is of another kind.
  template <class Kind>
  [[nodiscard]] const Kind* get_if() const {
    const bool same = index_of<Kind>(static_cast<const attribute*>(nullptr)) == index_;
    return same ? static_cast<const Kind*>(value_) : nullptr;
  }

 private:
  template <class Kind, class... Kinds>
  static constexpr std::size_t index_of(const std::variant<Kinds...>*) {
    std::size_t index = 0;
    (void)((std::is_same_v<Kind, Kinds> || (++index, false)) || ...);
    return index;
  }
  // f(the struct it refers to)
  template <class Function>
  void visit(Function&& f) const;

  std::size_t index_;  // of the variant
  const void* value_;
};

/// As it is written: "uniform(-1, 1)", or "kaiming_normal, variance 2 / fan_in".
[[nodiscard]] std::string to_string(const initializer& value);

/// Of a node that stores several values, those behind the first.
[[nodiscard]] std::span<const further_result> further_results(const attribute& value);

/// For printing, e.g. "sum axes={1}" or "add(a0, a1)".
[[nodiscard]] std::string to_string(const attribute& value);

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/graph/attribute.ipp>
#endif
