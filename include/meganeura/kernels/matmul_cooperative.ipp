// SPDX-License-Identifier: MIT
// Definitions of matmul_cooperative.hpp: staging of f16 terms, the product loop and the way of a fragment to memory.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/kernels/matmul_cooperative.hpp>

#include <algorithm>

namespace meganeura::inline MEGANEURA_ABI::kernels {

MEGANEURA_INLINE std::string cooperative_schedule::label() const {
  constexpr const char* names[] = {"half", "rounded", "split"};
  return fmt::format("cooperative {} {}x{}x{} {}x{}{}", names[static_cast<int>(operands)], tile_m, tile_n, tile_k,
                     subgroup_m, subgroup_n,
                     operands == cooperative_operands::split && !sum_outside ? " summed inside" : "");
}

namespace detail {

// Groups of `unit` elements are one load and one store into workgroup memory: 8 f16 are 16 bytes, 4 f32 become 8.
[[nodiscard]] inline std::uint32_t staging_unit(cooperative_operands operands) {
  return operands == cooperative_operands::half ? 8 : 4;
}
[[nodiscard]] inline std::uint32_t term_count(cooperative_operands operands) {
  return operands == cooperative_operands::split ? 2 : 1;
}

[[nodiscard]] inline bool strides_allow(const matmul_operand& plan, std::uint32_t unit) {
  const strided_axes& along = plan.along_k ? plan.k : plan.rows;
  if (along.back().stride != 1 || along.back().extent % unit != 0 || plan.offset % unit != 0) return false;
  for (const strided_axes* group : {&plan.batch, &plan.rows, &plan.k}) {
    for (const strided_axis& axis : *group) {
      if (&axis != &along.back() && axis.stride % unit != 0) return false;
    }
  }
  return true;
}

struct staged_shape {
  std::uint32_t rows = 0, units = 0, stride = 0;  // rows of `units` groups, `stride` groups apart
};
[[nodiscard]] inline staged_shape stage_shape(const matmul_operand& plan, std::uint32_t tile_rows, std::uint32_t tile_k,
                                              std::uint32_t unit) {
  const std::uint32_t rows = plan.along_k ? tile_rows : tile_k;
  const std::uint32_t units = (plan.along_k ? tile_k : tile_rows) / unit;
  return {rows, units, units + 8 / unit};  // 16 bytes of padding
}

// One operand's way into workgroup memory: f16 words for one or two terms. Element is u32x4 (from f16) or u32x2 (from
// f32).
template <spirv::kernel_value Element>
class cooperative_loader {
 public:
  static constexpr std::uint32_t unit = Element::components * 2;
  static constexpr bool from_half = Element::components == 4;

  cooperative_loader(spirv::kernel& k, const matmul_operand& plan, std::string_view name, std::uint32_t tile_rows,
                     std::uint32_t tile_k, cooperative_operands operands)
      : k_(k),
        plan_(plan),
        shape_(stage_shape(plan, tile_rows, tile_k, unit)),
        tile_rows_(tile_rows),
        tile_k_(tile_k),
        terms_(term_count(operands)),
        grouped_(strides_allow(plan, unit)) {
    if constexpr (from_half)
      wide_half_ = k.storage_buffer<spirv::u32x4>(name);
    else
      single_ = k.storage_buffer<spirv::f32>(name);
    if (!from_half && grouped_) wide_ = k.view<spirv::f32x4>(*single_);
    for (std::uint32_t t = 0; t < terms_; ++t) staged_.push_back(k.shared<Element>(shape_.rows * shape_.stride));
  }

  void place(const spirv::u32& batch, const spirv::u32& first_row) {
    const std::uint32_t threads = k_.local_size()[0];
    const std::uint32_t count = shape_.rows * shape_.units;
    const spirv::u32 base = offset_of(plan_.batch, batch) + plan_.offset;
    for (std::uint32_t done = 0; done < count; done += threads) {
      const spirv::u32 index = k_.local_index() + done;
      const spirv::u32 outer = index / shape_.units;
      const spirv::u32 inner = index % shape_.units;
      const spirv::u32 row = first_row + (plan_.along_k ? outer : inner * unit);
      pieces_.push_back({row, plan_.along_k ? inner * unit : outer, base, outer * shape_.stride + inner, index,
                         done + threads > count});
      if (grouped_)
        pieces_.back().base =
            base + offset_of(plan_.rows, clamped(row, plan_.row_count, tile_rows_, plan_.along_k ? 1 : unit));
      if constexpr (from_half)
        words_.push_back(k_.variable<spirv::u32x4>());
      else
        floats_.push_back(k_.variable<spirv::f32x4>());
    }
    piece_count_ = count;
  }

  void fetch(const spirv::u32& first_k) {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      if_needed(pieces_[i], [&] { grouped_ ? fetch_group(i, first_k) : fetch_singles(i, first_k); });
    }
  }

  void stage() {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      if_needed(pieces_[i], [&] { stage_piece(i); });
    }
  }

  /// The 16x16 fragment at (row, kk) of the tile.
  [[nodiscard]] spirv::cooperative_matrix<spirv::f16> fragment(std::uint32_t term, const spirv::u32& row,
                                                               std::uint32_t kk, spirv::matrix_use use) const {
    const spirv::u32 offset = plan_.along_k ? row * shape_.stride + kk / unit : kk * shape_.stride + row / unit;
    const bool row_major = plan_.along_k == (use == spirv::matrix_use::a);
    return spirv::cooperative_matrix<spirv::f16>::load(
        staged_[term], offset, shape_.stride, 16, 16, use,
        row_major ? spirv::matrix_layout::row_major : spirv::matrix_layout::column_major);
  }

 private:
  struct piece {
    spirv::u32 row, kk, base, slot, index;
    bool partial = false;
  };

  template <class Body>
  void if_needed(const piece& p, Body&& body) {
    if (!p.partial) return static_cast<void>(body());
    k_.if_(p.index < piece_count_, std::forward<Body>(body));
  }

  [[nodiscard]] static spirv::u32 clamped(const spirv::u32& at, std::uint32_t count, std::uint32_t tile,
                                          std::uint32_t width) {
    return count % tile == 0 ? at : min(at, spirv::u32(count - width));
  }

  void fetch_group(std::size_t i, const spirv::u32& first_k) {
    const spirv::u32 at = first_k + pieces_[i].kk;
    const spirv::u32 offset =
        pieces_[i].base + offset_of(plan_.k, clamped(at, plan_.k_count, tile_k_, plan_.along_k ? unit : 1));
    const bool ragged = plan_.k_count % tile_k_ != 0;
    const spirv::boolean inside = ragged ? at < plan_.k_count : spirv::boolean(true);
    if constexpr (from_half) {
      const spirv::u32x4 words = wide_half_->load(offset / 8);
      if (!ragged) return words_[i].store(words);
      words_[i].store(
          spirv::u32x4(vector(select(inside, words[0], spirv::u32(0)), select(inside, words[1], spirv::u32(0)),
                              select(inside, words[2], spirv::u32(0)), select(inside, words[3], spirv::u32(0)))));
    } else {
      const spirv::f32x4 values = wide_->load(offset / 4);
      if (!ragged) return floats_[i].store(values);
      floats_[i].store(vector(select(inside, values[0], spirv::f32(0)), select(inside, values[1], spirv::f32(0)),
                              select(inside, values[2], spirv::f32(0)), select(inside, values[3], spirv::f32(0))));
    }
  }

  // Four separate loads for operands without aligned groups.
  void fetch_singles([[maybe_unused]] std::size_t i, [[maybe_unused]] const spirv::u32& first_k) {
    if constexpr (!from_half) {
      std::vector<spirv::f32> four;
      for (std::uint32_t j = 0; j < 4; ++j) {
        const spirv::u32 row = clamped(pieces_[i].row + (plan_.along_k ? 0 : j), plan_.row_count, tile_rows_, 1);
        const spirv::u32 at = first_k + pieces_[i].kk + (plan_.along_k ? j : 0);
        const spirv::u32 offset =
            pieces_[i].base + offset_of(plan_.rows, row) + offset_of(plan_.k, clamped(at, plan_.k_count, tile_k_, 1));
        const spirv::boolean inside = plan_.k_count % tile_k_ != 0 ? at < plan_.k_count : spirv::boolean(true);
        four.push_back(select(inside, single_->load(offset), spirv::f32(0)));
      }
      floats_[i].store(vector(four[0], four[1], four[2], four[3]));
    }
  }

  void stage_piece(std::size_t i) {
    using namespace spirv;
    if constexpr (from_half) {
      staged_[0][pieces_[i].slot] = words_[i].load();
    } else {
      const f32x4 x = floats_[i].load();
      const auto pack = [&](const f32x4& v) {
        return vector(pack_half(vector(v[0], v[1])), pack_half(vector(v[2], v[3])));
      };
      if (terms_ == 1) return static_cast<void>(staged_[0][pieces_[i].slot] = pack(x));
      // The high term by clearing bits: written as a conversion there and back, a driver may fold the difference to
      // zero.
      const f32x4 high = bitcast<f32x4>(bitcast<u32x4>(x) & u32x4(0xFFFFE000u));
      staged_[0][pieces_[i].slot] = pack(high);
      staged_[1][pieces_[i].slot] = pack((x - high) * f32x4(2048.0f));
    }
  }

  spirv::kernel& k_;
  matmul_operand plan_;
  staged_shape shape_;
  std::uint32_t tile_rows_, tile_k_, terms_;
  bool grouped_;
  std::uint32_t piece_count_ = 0;
  std::optional<spirv::memory<spirv::u32x4>> wide_half_;
  std::optional<spirv::memory<spirv::f32>> single_;
  std::optional<spirv::memory<spirv::f32x4>> wide_;
  std::vector<spirv::memory<Element>> staged_;
  std::vector<piece> pieces_;
  std::vector<spirv::var<spirv::u32x4>> words_;
  std::vector<spirv::var<spirv::f32x4>> floats_;
};

using accumulators = std::vector<spirv::cooperative_variable<spirv::f32>>;  // subgroup_m / 16 rows of subgroup_n / 16

template <class Loader>
void multiply_fragments(spirv::kernel& k, const cooperative_schedule& s, const Loader& left, const Loader& right,
                        const spirv::u32& row, const spirv::u32& column, const accumulators& main,
                        const accumulators& rest) {
  using namespace spirv;
  const std::uint32_t down = s.subgroup_m / 16;
  const std::uint32_t across = s.subgroup_n / 16;
  const std::uint32_t terms = term_count(s.operands);
  for (std::uint32_t kk = 0; kk < s.tile_k; kk += 16) {
    std::vector<cooperative_matrix<f16>> a;
    for (std::uint32_t i = 0; i < down; ++i) {
      for (std::uint32_t t = 0; t < terms; ++t) a.push_back(left.fragment(t, row + i * 16, kk, matrix_use::a));
    }
    for (std::uint32_t j = 0; j < across; ++j) {
      const auto b = right.fragment(0, column + j * 16, kk, matrix_use::b);
      if (terms == 1) {
        for (std::uint32_t i = 0; i < down; ++i)
          main[i * across + j].store(multiply_add(a[i], b, main[i * across + j].load()));
        continue;
      }
      const auto b_low = right.fragment(1, column + j * 16, kk, matrix_use::b);
      for (std::uint32_t i = 0; i < down; ++i) {
        const auto& sum = main[i * across + j];
        const auto& low = rest[i * across + j];
        const auto zero = cooperative_matrix<f32>::fill(k, 16, 16, matrix_use::accumulator, 0.0f);
        if (s.sum_outside)
          sum.store(sum.load() + multiply_add(a[2 * i], b, zero));
        else
          sum.store(multiply_add(a[2 * i], b, sum.load()));
        low.store(multiply_add(a[2 * i + 1], b, multiply_add(a[2 * i], b_low, low.load())));
      }
    }
  }
}

// Through workgroup memory, where a fragment's elements have known places: edges are tested and the epilogue applied.
inline void write_fragment(spirv::kernel& k, const spirv::cooperative_matrix<spirv::f32>& fragment,
                           const cooperative_schedule& s, const spirv::memory<spirv::f32>& scratch,
                           const matmul_problem& problem, const matmul_result& plan, const matmul_epilogue& epilogue,
                           const spirv::memory<spirv::f32>& out, const spirv::u32& batch, const spirv::u32& first_m,
                           const spirv::u32& first_n, std::uint32_t m_count, std::uint32_t n_count) {
  using namespace spirv;
  const u32 area = k.local_index() / s.subgroup_size * 256;
  const u32 lane = k.local_index() % s.subgroup_size;
  fragment.store(scratch, area, 16);
  k.barrier();
  for (std::uint32_t done = 0; done < 256; done += s.subgroup_size) {
    const u32 place = lane + done;
    const u32 m = first_m + place / 16;
    const u32 n = first_n + place % 16;
    const auto write = [&] {
      const u32 offset =
          offset_of(plan.batch, batch) + offset_of(plan.m, m) + offset_of(plan.n, n) + problem.offset_out;
      out[offset] = epilogue(scratch.load(area + place), {batch, m, n, offset});
    };
    if (m_count % s.tile_m == 0 && n_count % s.tile_n == 0)
      write();
    else
      k.if_(m < m_count && n < n_count, write);
  }
  k.barrier();
}

[[nodiscard]] inline bool stores_directly(const matmul_problem& problem, const cooperative_schedule& s,
                                          const matmul_result& plan) {
  return !problem.epilogue && extent_of(problem.m) % s.tile_m == 0 && extent_of(problem.n) % s.tile_n == 0 &&
         plan.m.size() == 1 && plan.n.size() == 1 && plan.n[0].stride == 1;
}

template <spirv::kernel_value Element>
[[nodiscard]] kernel_dispatch make_cooperative(const matmul_problem& problem, const cooperative_schedule& s,
                                               const device_profile& device) {
  using namespace spirv;
  const matmul_operand a_plan = plan_operand(problem, true);
  const matmul_operand b_plan = plan_operand(problem, false);
  const matmul_result out_plan = plan_result(problem);
  kernel k(describe(problem), {s.invocations(), 1, 1});
  k.require_subgroup_size(s.subgroup_size);
  // First of all: the matrix type switches the module to the Vulkan memory model.
  const auto zero = cooperative_matrix<f32>::fill(k, 16, 16, matrix_use::accumulator, 0.0f);
  cooperative_loader<Element> left(k, a_plan, "a", s.tile_m, s.tile_k, s.operands);
  cooperative_loader<Element> right(k, b_plan, "b", s.tile_n, s.tile_k, s.operands);
  const matmul_epilogue epilogue = bind_epilogue(problem, k);
  const auto out = k.storage_buffer<f32>("out", access::write);

  const std::uint32_t tiles_m = ceil_div(a_plan.row_count, s.tile_m);
  const std::uint32_t tiles_n = ceil_div(b_plan.row_count, s.tile_n);
  const std::uint64_t tiles = extent_of(problem.batch) * tiles_m * tiles_n;
  const auto groups = spread_groups(tiles, device);
  const u32 linear = linear_group(k, groups);
  if_inside(k, linear, tiles, std::uint64_t{groups[0]} * groups[1], [&] {
    const tile_position tile = locate_tile(linear, tiles_m, tiles_n);
    left.place(tile.batch, tile.tile_m * s.tile_m);
    right.place(tile.batch, tile.tile_n * s.tile_n);
    const u32 subgroup = k.subgroup_id();
    const std::uint32_t across = s.tile_n / s.subgroup_n;
    const u32 row = subgroup / across * s.subgroup_m;
    const u32 column = subgroup % across * s.subgroup_n;
    accumulators main, rest;
    for (std::uint32_t i = 0; i < s.subgroup_m / 16 * (s.subgroup_n / 16); ++i) {
      main.emplace_back(zero);
      if (s.operands == cooperative_operands::split) rest.emplace_back(zero);
    }
    left.fetch(0);
    right.fetch(0);
    k.for_(0, a_plan.k_count, s.tile_k, [&](u32 first_k) {
      left.stage();
      right.stage();
      k.barrier();
      const u32 next = first_k + s.tile_k;
      k.if_(next < a_plan.k_count, [&] {
        left.fetch(next);
        right.fetch(next);
      });
      multiply_fragments(k, s, left, right, row, column, main, rest);
      k.barrier();
    });
    const bool direct = stores_directly(problem, s, out_plan);
    std::optional<memory<f32>> scratch;
    if (!direct) scratch = k.shared<f32>(s.subgroups() * 256);
    const u32 first_m = tile.tile_m * s.tile_m + row;
    const u32 first_n = tile.tile_n * s.tile_n + column;
    for (std::uint32_t i = 0; i < main.size(); ++i) {
      auto sum = main[i].load();
      if (s.operands == cooperative_operands::split) sum = sum + rest[i].load() * f32(1.0f / 2048.0f);
      const u32 m = first_m + i / (s.subgroup_n / 16) * 16;
      const u32 n = first_n + i % (s.subgroup_n / 16) * 16;
      if (direct) {
        const u32 offset = offset_of(out_plan.batch, tile.batch) + m * out_plan.m[0].stride + n + problem.offset_out;
        sum.store(out, offset, out_plan.m[0].stride);
      } else {
        write_fragment(k, sum, s, *scratch, problem, out_plan, epilogue, out, tile.batch, m, n, a_plan.row_count,
                       b_plan.row_count);
      }
    }
  });
  return {k.finish(), groups};
}

inline void check_cooperative(const matmul_problem& problem, const cooperative_schedule& s) {
  const bool sizes = s.subgroup_m >= 16 && s.subgroup_n >= 16 && s.tile_k >= 16 && s.subgroup_m % 16 == 0 &&
                     s.subgroup_n % 16 == 0 && s.tile_k % 16 == 0;
  if (!sizes || s.tile_m % s.subgroup_m != 0 || s.tile_n % s.subgroup_n != 0 || s.tile_m == 0 || s.tile_n == 0 ||
      256 % s.subgroup_size != 0) {
    fail(error_category::invalid_argument,
         "matmul schedule '{}': subgroup sizes and tile_k are multiples of 16, tiles multiples of subgroup sizes",
         s.label());
  }
  if (s.operands != cooperative_operands::half) return;
  if (strides_allow(plan_operand(problem, true), 8) && strides_allow(plan_operand(problem, false), 8)) return;
  fail(error_category::invalid_argument,
       "matmul schedule '{}': f16 operands need unit stride along k or along m and n, with extents, other strides and "
       "offsets that are multiples of 8",
       s.label());
}

}  // namespace detail

MEGANEURA_INLINE std::uint32_t cooperative_shared_bytes(const matmul_problem& problem, const cooperative_schedule& s) {
  const std::uint32_t unit = detail::staging_unit(s.operands);
  const auto a = detail::stage_shape(detail::plan_operand(problem, true), s.tile_m, s.tile_k, unit);
  const auto b = detail::stage_shape(detail::plan_operand(problem, false), s.tile_n, s.tile_k, unit);
  const std::uint32_t staged = (a.rows * a.stride + b.rows * b.stride) * unit * 2 * detail::term_count(s.operands);
  return staged + (detail::stores_directly(problem, s, detail::plan_result(problem)) ? 0 : s.subgroups() * 1024);
}

MEGANEURA_INLINE bool cooperative_fits(const matmul_problem& problem, const cooperative_schedule& s,
                                       const device_profile& device) {
  if (!device.cooperative_matrix_f16 || s.subgroup_size != device.subgroup_size) return false;
  if (cooperative_shared_bytes(problem, s) > device.max_shared_bytes || s.invocations() > device.max_invocations)
    return false;
  return s.operands != cooperative_operands::half || (detail::strides_allow(detail::plan_operand(problem, true), 8) &&
                                                      detail::strides_allow(detail::plan_operand(problem, false), 8));
}

MEGANEURA_INLINE kernel_dispatch make_cooperative_matmul(const matmul_problem& problem, const cooperative_schedule& s,
                                                         const device_profile& device) {
  detail::check_cooperative(problem, s);
  // Checked here and not left to the driver: exceeding workgroup memory loses the device without an error.
  if (!cooperative_fits(problem, s, device)) {
    fail(error_category::unsupported,
         "matmul schedule '{}' needs f16 matrix units, subgroups of {}, {} bytes of workgroup memory and {} "
         "invocations; the device has {} bytes and {}",
         s.label(), s.subgroup_size, cooperative_shared_bytes(problem, s), s.invocations(), device.max_shared_bytes,
         device.max_invocations);
  }
  if (s.operands == cooperative_operands::half) return detail::make_cooperative<spirv::u32x4>(problem, s, device);
  return detail::make_cooperative<spirv::u32x2>(problem, s, device);
}

MEGANEURA_INLINE std::vector<cooperative_schedule> cooperative_candidates(const device_profile& device,
                                                                          const matmul_problem& problem,
                                                                          cooperative_operands operands) {
  std::vector<cooperative_schedule> found;
  const auto add = [&](std::uint32_t m, std::uint32_t n, std::uint32_t k, std::uint32_t sm, std::uint32_t sn) {
    const cooperative_schedule candidate{operands, m, n, k, sm, sn, device.subgroup_size, true};
    if (cooperative_fits(problem, candidate, device)) found.push_back(candidate);
  };
  if (operands == cooperative_operands::split) {
    add(128, 128, 32, 64, 32);
    add(64, 64, 32, 32, 32);
    add(32, 32, 64, 16, 16);
  } else {
    add(128, 256, 32, 64, 64);
    add(128, 128, 32, 64, 32);
    add(128, 64, 32, 64, 32);
    add(64, 64, 32, 32, 32);
    add(32, 32, 64, 16, 16);
  }
  // The largest tile that still gives three quarters of the multiprocessors one, else the smallest.
  const auto enough = [&](const cooperative_schedule& s) {
    const std::uint64_t tiles =
        extent_of(problem.batch) * ceil_div(extent_of(problem.m), s.tile_m) * ceil_div(extent_of(problem.n), s.tile_n);
    return 4 * tiles >= 3 * std::uint64_t{device.compute_units};
  };
  std::stable_partition(found.begin(), found.end(), enough);
  if (!found.empty() && !enough(found.front())) std::reverse(found.begin(), found.end());
  return found;
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
