// SPDX-License-Identifier: MIT
// Generators of matrix products: any sizes, any strides, several axes a group, an epilogue on each element; what a
// product is made of, for all of them.
#pragma once
#include <meganeura/core/device_profile.hpp>
#include <meganeura/core/division.hpp>
#include <meganeura/core/dtype.hpp>
#include <meganeura/kernels/cascade.hpp>
#include <meganeura/kernels/dispatch.hpp>
#include <meganeura/kernels/scalar_emit.hpp>
#include <meganeura/kernels/strided_operand.hpp>
#include <meganeura/spirv/kernel.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// One axis of a group, strides in elements. A group lists its axes from the outermost; a stride that has no meaning
/// there (stride_b of an m axis, stride_out of a k axis) stays 0. Stride 0 of an operand repeats it.
struct matmul_axis {
  std::uint32_t extent = 1;
  std::uint32_t stride_a = 0, stride_b = 0, stride_out = 0;
};

/// Where an element of the result stands: row-major indices over the axes of each group, and its offset in the result.
struct matmul_point {
  spirv::u32 batch, m, n, offset;
  std::optional<spirv::f32> statistic{};  // of row m, where the product's prologue has one
};

/// What is stored for finished sums of products.
class matmul_epilogue {
 public:
  using of_one = std::function<spirv::f32(const spirv::f32& sum, const matmul_point& point)>;
  using of_four = std::function<spirv::f32x4(const spirv::f32x4& sums, const matmul_point& first)>;
  matmul_epilogue() = default;  // the sum itself
  /// `four`, of neighbours along n whose offsets are neighbours, reads what it can as groups; without one they are
  /// finished one by one.
  template <class One>
    requires std::constructible_from<of_one, One> matmul_epilogue(
        One one, of_four four = {})  // NOLINT(google-explicit-constructor): a lambda is one
        : one_(std::move(one)), four_(std::move(four)) {}

    [[nodiscard]] spirv::f32 operator()(const spirv::f32& sum, const matmul_point& point) const {
      return one_ ? one_(sum, point) : sum;
    }
    [[nodiscard]] spirv::f32x4 operator()(const spirv::f32x4& sums, const matmul_point& first) const {
      if (!one_) return sums;
      if (four_) return four_(sums, first);
      const auto at = [&](std::uint32_t i) {
        return one_(sums[i], {first.batch, first.m, first.n + i, first.offset + i, first.statistic});
      };
      return vector(at(0), at(1), at(2), at(3));
    }

   private:
    of_one one_;
    of_four four_;
};

/// What is multiplied instead of elements of operand a, of one element or of four neighbours along k or along m; and
/// what is summed up over k besides.
struct matmul_prologue {
  using values = std::span<const scalar_value>;
  std::size_t reads = 0;       // of an element, beside itself
  std::vector<bool> by_row{};  // of each, whether they differ between rows
  /// Where read `i` of element (batch, m, k) stands: at the sum of both.
  std::function<spirv::u32(std::size_t i, const spirv::u32& batch, const spirv::u32& m)> base{};
  std::function<spirv::u32(std::size_t i, const spirv::u32& k)> along{};
  /// One, or four neighbours along k or m.
  std::function<spirv::f32(std::size_t i, const spirv::u32& offset)> read_one{};
  std::function<spirv::f32x4(std::size_t i, const spirv::u32& offset, bool along_k)> read_four{};
  /// Of an element and its reads; one or four.
  std::function<scalar_value(const scalar_value& element, values reads)> value{};
  std::function<scalar_value(const scalar_value& element, values reads)> statistic{};  // empty: none
};

/// What is stored where a product has several sums of each result, or stores several values: that of each of the
/// problem's stores, of one point or of four neighbours along n, of which there may be none (`fours`).
struct matmul_several {
  using values = std::vector<scalar_value>;
  bool fours = false;
  std::function<values(std::span<const scalar_value> sums, const matmul_point& first)> finish{};
};

/// What a product does besides.
struct matmul_programs {
  matmul_epilogue finish{};
  std::optional<matmul_several> several{};  // instead
  std::optional<matmul_prologue> start{};
  matmul_programs() = default;
  matmul_programs(matmul_epilogue last)  // NOLINT(google-explicit-constructor): that alone
      : finish(std::move(last)) {}
};

/// out[batch, m, n] = epilogue(sum over k of a[batch, m, k] * b[batch, n, k]).
struct matmul_problem {
  std::string name = "matmul_f32";
  dtype result = dtype::f32;  // f16: on matrix units alone
  std::vector<matmul_axis> batch, m, n, k;
  std::uint32_t offset_a = 0, offset_b = 0, offset_out = 0;  // elements
  /// Called once, between the bindings of a, b and that of the result: declares further operands, which become bindings
  /// 2, 3, ..., and returns the functions to apply. Empty: the sum itself.
  std::function<matmul_programs(spirv::kernel&)> epilogue;
  // On matrix units alone:
  struct parameter_operands {
    bool a = false, b = false;  // one of them at most
  } parameters{};
  bool has_prologue = false;
  std::uint32_t prepared = 0;  // length of the rows of right operands that come as op::prepare_rows makes them, in
                               // bindings behind those of all other operands; 0: they do not
  zero_border border{};        // see matmul_attribute: strides of b are those with it
  std::optional<std::uint32_t> offset_second{};  // of a second right operand, which lies as b does: binding 2
  struct store {
    std::size_t result = 0;      // of those whose bindings are behind all operands
    std::uint32_t distance = 0;  // elements behind where the product's result is
  };
  std::vector<store> stores{{}};
  /// Right operands.
  [[nodiscard]] std::uint32_t sums() const { return offset_second ? 2 : 1; }
};

[[nodiscard]] std::uint64_t extent_of(const std::vector<matmul_axis>& group);

enum class matmul_tier : std::uint8_t {
  simple,    // one result an invocation
  tiled,     // tiles through workgroup memory, 4x4 to 8x8 results an invocation
  vectors,   // up to 8 rows or columns: the other operand, the matrix, is read once, from memory to registers
  registers  // no workgroup memory: for software rasterisers, where a barrier costs more than a cached load
};

/// How a product is computed. Not every field matters to every tier. Of vectors tile_m and thread_m are the few rows,
/// tile_n and thread_n columns of the matrix, whichever operand that is; tile_k is what an invocation has on its way.
struct matmul_schedule {
  matmul_tier tier = matmul_tier::simple;
  std::uint32_t tile_m = 64, tile_n = 64, tile_k = 16;  // results of a workgroup (tiled); tile_k is one slice's share
  std::uint32_t thread_m = 4, thread_n = 4;             // results of an invocation, multiples of 4
  std::uint32_t slices = 1;                             // ways K is shared out inside a workgroup
  std::uint32_t buffers = 1;                            // of workgroup memory: 1 or 2
  bool texels = false;                                  // registers: b is a uniform texel buffer, and a if it can
  std::uint32_t together = 1;                           // vectors: slices that meet inside a subgroup

  [[nodiscard]] std::uint32_t invocations() const {
    return tier == matmul_tier::simple      ? 64
           : tier == matmul_tier::registers ? 8 * slices
                                            : tile_m / thread_m * (tile_n / thread_n) * slices;
  }
  static constexpr std::uint32_t exchanged_results = 16;  // of an invocation, when slices are added up
  /// 16-byte padding of every row keeps transposing stores off a single bank.
  [[nodiscard]] std::uint32_t shared_bytes() const {
    if (tier == matmul_tier::simple) return 0;
    if (tier == matmul_tier::vectors) return 4 * tile_m * tile_n * (slices / together);
    const std::uint32_t staged =
        tier == matmul_tier::registers ? 0 : 4 * buffers * slices * tile_k * (tile_m + 4 + tile_n + 4);
    return staged + (slices > 1 ? invocations() / 2 * exchanged_results * 4 : 0);
  }
  [[nodiscard]] std::string label() const;
  friend bool operator==(const matmul_schedule&, const matmul_schedule&) = default;
};

/// errors: invalid_argument for a schedule that does not fit the problem or itself.
[[nodiscard]] kernel_dispatch make_matmul(const matmul_problem& problem, const matmul_schedule& schedule,
                                          const device_profile& device = {});

/// The schedule that measurements favour for this device and problem, within the device's limits.
[[nodiscard]] matmul_schedule choose_matmul(const device_profile& device, const matmul_problem& problem);

/// The chosen schedule, or where the driver stops its loops the next one that ends, K shared out wider if need be.
[[nodiscard]] kernel_dispatch make_best_matmul(const matmul_problem& problem, const device_profile& device);

/// Every schedule worth measuring for this problem, the chosen one first.
[[nodiscard]] std::vector<matmul_schedule> matmul_candidates(const device_profile& device,
                                                             const matmul_problem& problem);

namespace detail {

/// The axes of one operand, merged where an outer stride is the inner stride times its extent; never empty.
[[nodiscard]] strided_axes collapse(const std::vector<matmul_axis>& group, std::uint32_t matmul_axis::*stride);
[[nodiscard]] matmul_operand plan_operand(const matmul_problem& problem, bool is_a);
/// The same as texels, of which groups of four need but be contiguous.
[[nodiscard]] matmul_operand plan_texels(const matmul_problem& problem, bool is_a);
/// Whether that operand can be read as texels: it has unit stride along one axis whose extent is a multiple of 4, and
/// no more texels than the device views at once.
[[nodiscard]] bool fits_texels(const matmul_problem& problem, bool is_a, const device_profile& device);

/// Of the eight invocations of the registers tier those that lie along n: all, unless n is too short for that.
[[nodiscard]] inline std::uint32_t lanes_along_n(const matmul_schedule& s, std::uint32_t n) {
  std::uint32_t lanes = 1;
  while (lanes < s.invocations() / s.slices && lanes * s.thread_n < n) lanes *= 2;
  return lanes;
}

/// Neighbouring terms that an invocation of the vectors tier takes at once.
[[nodiscard]] std::uint32_t terms_at_once(const matmul_operand& a, const matmul_operand& b);

struct matmul_result {
  strided_axes batch, m, n;
  std::uint32_t width = 1;  // 4: groups of four along n are contiguous and aligned
};
[[nodiscard]] matmul_result plan_result(const matmul_problem& problem);

struct tile_position {
  spirv::u32 batch, tile_m, tile_n;
};
/// Spreads tiles over the grid: batches outermost, inside one the tiles in stripes of 8 rows so that neighbours share
/// operands in cache. What the grid was rounded up by lies behind the last tile.
[[nodiscard]] tile_position locate_tile(const spirv::u32& linear, std::uint32_t tiles_m, std::uint32_t tiles_n);
[[nodiscard]] std::array<std::uint32_t, 3> spread_groups(std::uint64_t count, const device_profile& device);
[[nodiscard]] spirv::u32 linear_group(spirv::kernel& k, const std::array<std::uint32_t, 3>& groups);
/// Runs `body` where the linear id exists; the test vanishes when the grid fits exactly.
template <class Body>
void if_inside(spirv::kernel& k, const spirv::u32& linear, std::uint64_t count, std::uint64_t launched, Body&& body) {
  if (count == launched) return static_cast<void>(body());
  k.if_(linear < static_cast<std::uint32_t>(count), std::forward<Body>(body));
}

/// errors: invalid_argument for axes without elements, unsupported for more than kernels count.
void check_extents(const matmul_problem& problem);
/// What the problem does besides, or nothing.
[[nodiscard]] matmul_programs bind_programs(const matmul_problem& problem, spirv::kernel& k);
/// The problem's epilogue, or the sum itself. errors: internal for a prologue, which kernels on matrix units have
/// alone.
[[nodiscard]] matmul_epilogue bind_epilogue(const matmul_problem& problem, spirv::kernel& k);
/// "matmul_f32 4x64x64x32", the kernel's name.
[[nodiscard]] std::string describe(const matmul_problem& problem);

/// What loops over k are told of their totals.
[[nodiscard]] std::vector<running_sum> running_sums(std::span<const spirv::var<spirv::f32>> sums);
/// Adds up the slices' sums; afterwards slice 0 holds them. Every invocation of the workgroup arrives.
void add_slices(spirv::kernel& k, const matmul_schedule& s, const spirv::u32& slice,
                const std::vector<spirv::var<spirv::f32>>& sums);

[[nodiscard]] kernel_dispatch make_simple_matmul(const matmul_problem& problem, const device_profile& device);
[[nodiscard]] kernel_dispatch make_tiled_matmul(const matmul_problem& problem, const matmul_schedule& schedule,
                                                const device_profile& device);
[[nodiscard]] kernel_dispatch make_vector_matmul(const matmul_problem& problem, const matmul_schedule& schedule,
                                                 const device_profile& device);
[[nodiscard]] kernel_dispatch make_register_matmul(const matmul_problem& problem, const matmul_schedule& schedule,
                                                   const device_profile& device);

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI::kernels

#if MEGANEURA_HEADER_ONLY
#include <meganeura/kernels/matmul.ipp>
#include <meganeura/kernels/matmul_registers.ipp>
#include <meganeura/kernels/matmul_tiled.ipp>
#include <meganeura/kernels/matmul_vectors.ipp>
#endif
