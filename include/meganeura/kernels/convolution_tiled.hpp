// SPDX-License-Identifier: MIT
// Convolutions whose operands pass through tiles in workgroup memory.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/kernels/convolution_product.hpp>
#include <meganeura/kernels/shared_totals.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels::detail {

/// A workgroup computes bm by bn results; `slices` parts of it take every slices-th step of k and add up at the end.
struct tile_plan {
  std::uint32_t bm, bn;
  std::uint32_t am, an;  // groups of four m and of four n an invocation owns
  double efficiency;     // of the multiply-add units, when enough invocations are there
  std::uint32_t slices = 1;
  [[nodiscard]] std::uint32_t slice_threads() const { return bm * bn / (16 * am * an); }
  [[nodiscard]] std::uint32_t threads() const { return slice_threads() * slices; }
  [[nodiscard]] bool fits(const device_profile& on) const;
  /// Twice the slices; false when the workgroup is full.
  [[nodiscard]] bool share_wider(const device_profile& on) {
    tile_plan wider = *this;
    wider.slices *= 2;
    if (!wider.fits(on)) return false;
    *this = wider;
    return true;
  }
};

inline constexpr std::uint32_t conv_tile_k = 16;

[[nodiscard]] inline std::uint32_t shared_words(const tile_plan& plan) {  // of four floats
  const std::uint32_t tiles = plan.slices * conv_tile_k * (plan.bm / 4 + 1 + plan.bn / 4 + 1);
  return plan.slices > 1 ? std::max(tiles, plan.slices * plan.bm * plan.bn / 4) : tiles;
}

[[nodiscard]] inline bool tile_plan::fits(const device_profile& on) const {
  return threads() <= std::min(1024u, on.max_invocations) && shared_words(*this) * 16 <= on.max_shared_bytes;
}

/// The quickest of a few tile sizes by an estimate of multiply-add time, with too few invocations counted as waiting.
[[nodiscard]] inline tile_plan choose_tiles(const convolution_product& p, const device_profile& on) {
  // Measured on an H200, with all multiprocessors busy.
  constexpr tile_plan sizes[] = {{128, 128, 2, 2, 0.42}, {128, 64, 2, 1, 0.39}, {64, 64, 1, 1, 0.37},
                                 {32, 64, 1, 1, 0.36},   {32, 32, 1, 1, 0.28},  {16, 16, 1, 1, 0.2}};
  tile_plan best{16, 16, 1, 1, 0.2};
  double least = 1e300;
  for (tile_plan plan : sizes) {
    for (plan.slices = 1; plan.slices <= 16; plan.slices *= 2) {
      if (!plan.fits(on) || plan.threads() < std::min(32u, on.max_invocations)) continue;
      const double tiles = static_cast<double>(p.groups) * std::ceil(static_cast<double>(p.m) / plan.bm) *
                           std::ceil(static_cast<double>(p.n) / plan.bn);
      const double rounds = std::ceil(tiles / on.compute_units);
      const double resident = plan.threads() * std::min(rounds, std::floor(1536.0 / plan.threads()));
      const double steps =
          std::ceil(static_cast<double>(p.k) / (conv_tile_k * plan.slices)) * conv_tile_k * plan.slices;
      const double time =
          rounds * plan.bm * plan.bn * (steps + 4.0 * plan.slices) / (plan.efficiency * std::min(1.0, resident / 384));
      if (time < least) least = time, best = plan;
    }
  }
  return best;
}

class tiled_convolution {
 public:
  tiled_convolution(spirv::kernel& owner, const convolution_product& p, const tile_plan& plan,
                    convolution_memory& memory, const flat_grid& grid)
      : owner_(owner),
        p_(p),
        plan_(plan),
        memory_(memory),
        shared_(owner.shared<spirv::f32x4>(shared_words(plan))),
        a_pitch_(plan.bm / 4 + 1),
        b_pitch_(plan.bn / 4 + 1) {
    const auto n_tiles = spirv::u32(ceil_div(p.n, plan.bn)), m_tiles = spirv::u32(ceil_div(p.m, plan.bm));
    const spirv::u32 tile = grid.position(owner);
    // Neighbouring workgroups share their columns of b, the larger operand.
    m_first_ = tile % m_tiles * plan.bm;
    n_first_ = tile / m_tiles % n_tiles * plan.bn;
    group_ = tile / (m_tiles * n_tiles);
    thread_ = owner.local_id(0) % plan.slice_threads();
    slice_ = owner.local_id(0) / plan.slice_threads();
  }

  void run() {
    prepare();
    for (std::uint32_t i = 0; i < 4 * plan_.am * plan_.an; ++i) sums_.push_back(owner_.variable<spirv::f32x4>(0.0f));
    const std::int64_t step = std::int64_t{conv_tile_k} * plan_.slices;
    const auto rounds = static_cast<std::uint32_t>(ceil_div(p_.k, step));
    const cascade_lengths lengths{.terms = conv_tile_k, .straight = straight_product(4 * sums_.size())};
    for_summed(owner_, spirv::u32(0), rounds, 1, lengths, running_sums(sums_), [&](const spirv::u32& round) {
      const spirv::u32 first = (round * plan_.slices + slice_) * conv_tile_k;
      std::vector<spirv::f32> a, b;  // all loads are under way before the first is waited for
      for (const part& each : a_parts_) a.push_back(load_a(each, first));
      for (const part& each : b_parts_) b.push_back(load_b(each, first));
      owner_.barrier();
      for (std::size_t i = 0; i < a.size(); ++i) put(a_base(), a_pitch_, a_parts_[i], a[i]);
      for (std::size_t i = 0; i < b.size(); ++i) put(b_base(), b_pitch_, b_parts_[i], b[i]);
      owner_.barrier();
      multiply();
    });
    if (plan_.slices > 1) add_slices();
    owner_.if_(slice_ == 0u, [&] { store_all(); });
  }

 private:
  /// One element of a tile that this invocation loads in each round: row (of m or n) and k inside the tile.
  struct part {
    spirv::u32 row, k;
    spirv::u32 a;  // address part of m
    n_part n;
    spirv::boolean exists{true};
  };

  [[nodiscard]] std::vector<part> parts(std::uint32_t rows, bool k_fast) const {
    const std::uint32_t threads = plan_.slice_threads(), fast = k_fast ? conv_tile_k : rows;
    std::vector<part> list;
    for (std::uint32_t first = 0; first < rows * conv_tile_k; first += threads) {
      const bool regular = threads % fast == 0;
      const spirv::u32 at = thread_ + first;
      const spirv::u32 low = regular ? thread_ % fast : at % fast;
      const spirv::u32 high = regular ? thread_ / fast + first / fast : at / fast;
      part each;
      each.row = k_fast ? high : low;
      each.k = k_fast ? low : high;
      list.push_back(each);
    }
    return list;
  }

  void prepare() {
    // Along whichever index memory is consecutive, so that neighbours read neighbours.
    a_parts_ = parts(plan_.bm, !p_.is(convolution_attribute::input));
    b_parts_ = parts(plan_.bn, p_.is(convolution_attribute::filter));
    for (part& each : a_parts_) {
      const spirv::u32 m = m_first_ + each.row;
      if (p_.m % plan_.bm != 0) each.exists = m < spirv::u32(p_.m);
      each.a = part_of_m(p_, m) + group_ * p_.a_group();
    }
    for (part& each : b_parts_) {
      const spirv::u32 n = n_first_ + each.row;
      if (p_.n % plan_.bn != 0) each.exists = n < spirv::u32(p_.n);
      each.n = part_of_n(p_, n);
      each.n.b = each.n.b + group_ * p_.b_group();
    }
  }

  [[nodiscard]] k_part k_at(const spirv::u32& first, const spirv::u32& offset) const {
    const std::uint32_t inner = p_.inner();
    // A tile that never crosses a tap (or an image) divides once for all its elements.
    if (inner % conv_tile_k == 0) return part_of_k(p_, first / inner, first % inner + offset);
    const spirv::u32 k = first + offset;
    return part_of_k(p_, k / inner, k % inner);
  }

  [[nodiscard]] spirv::boolean in_range(const part& each, const spirv::u32& first) const {
    const std::int64_t step = std::int64_t{conv_tile_k} * plan_.slices;
    return p_.k % step == 0 ? each.exists : (each.exists && first + each.k < spirv::u32(p_.k));
  }

  [[nodiscard]] spirv::f32 load_a(const part& each, const spirv::u32& first) const {
    const spirv::boolean exists = in_range(each, first);
    const spirv::u32 address = each.a + k_at(first, each.k).a;
    if (exists.is_literal() && exists.bits == 0) return 0.0f;
    return select(exists, memory_.a(select(exists, address, spirv::u32(0))), spirv::f32(0.0f));
  }
  [[nodiscard]] spirv::f32 load_b(const part& each, const spirv::u32& first) const {
    element found = element_of_b(p_, each.n, k_at(first, each.k));
    found.exists = in_range(each, first) && found.exists;
    return memory_.b(found);
  }

  [[nodiscard]] spirv::u32 a_base() const { return slice_ * (conv_tile_k * a_pitch_); }
  [[nodiscard]] spirv::u32 b_base() const {
    return slice_ * (conv_tile_k * b_pitch_) + plan_.slices * conv_tile_k * a_pitch_;
  }

  void put(const spirv::u32& base, std::uint32_t pitch, const part& each, const spirv::f32& value) {
    shared_.component(base + each.k * pitch + each.row / 4u, each.row % 4u) = value;
  }

  [[nodiscard]] spirv::u32 m_thread() const { return thread_ / (plan_.bn / (4 * plan_.an)); }
  [[nodiscard]] spirv::u32 n_thread() const { return thread_ % (plan_.bn / (4 * plan_.an)); }
  // Groups of four are a whole part of the tile apart: neighbours read neighbouring words.
  [[nodiscard]] spirv::u32 m_group(std::uint32_t i) const { return m_thread() + i * (plan_.bm / (4 * plan_.am)); }
  [[nodiscard]] spirv::u32 n_group(std::uint32_t j) const { return n_thread() + j * (plan_.bn / (4 * plan_.an)); }

  [[nodiscard]] std::size_t sum_index(std::uint32_t i, std::uint32_t row, std::uint32_t j) const {
    return (i * 4 + row) * plan_.an + j;
  }

  void multiply() {
    for (std::uint32_t k = 0; k < conv_tile_k; ++k) {
      std::vector<spirv::f32x4> a, b;
      for (std::uint32_t i = 0; i < plan_.am; ++i) a.push_back(shared_[a_base() + k * a_pitch_ + m_group(i)]);
      for (std::uint32_t j = 0; j < plan_.an; ++j) b.push_back(shared_[b_base() + k * b_pitch_ + n_group(j)]);
      for (std::uint32_t i = 0; i < plan_.am; ++i) {
        for (std::uint32_t row = 0; row < 4; ++row) {
          for (std::uint32_t j = 0; j < plan_.an; ++j) {
            const auto& sum = sums_[sum_index(i, row, j)];
            sum = fma(spirv::f32x4(a[i][row]), b[j], sum.load());
          }
        }
      }
    }
  }

  // Slice s lies at s * (bm * bn / 4): the tiles are no longer needed.
  void add_slices() {
    const std::uint32_t words = plan_.bm * plan_.bn / 4;
    const auto own = [&](std::size_t i) { return thread_ + static_cast<std::uint32_t>(i) * plan_.slice_threads(); };
    const auto give = [&](std::uint32_t half) {
      for (std::size_t i = 0; i < sums_.size(); ++i) shared_[(slice_ - half) * words + own(i)] = sums_[i].load();
    };
    const auto take = [&] {
      for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] += shared_[slice_ * words + own(i)].load();
    };
    add_by_halves(owner_, slice_, plan_.slices, true, give, take);
  }

  void store_all() {
    for (std::uint32_t i = 0; i < plan_.am; ++i) {
      for (std::uint32_t row = 0; row < 4; ++row) {
        for (std::uint32_t j = 0; j < plan_.an; ++j) {
          memory_.finish(group_, m_first_ + m_group(i) * 4u + row, n_first_ + n_group(j) * 4u,
                         sums_[sum_index(i, row, j)]);
        }
      }
    }
  }

  spirv::kernel& owner_;
  const convolution_product& p_;
  const tile_plan& plan_;
  convolution_memory& memory_;
  spirv::memory<spirv::f32x4> shared_;
  std::uint32_t a_pitch_, b_pitch_;  // one word more than a row: writes along k meet different banks
  spirv::u32 m_first_, n_first_, group_, thread_, slice_;
  std::vector<part> a_parts_, b_parts_;
  std::vector<spirv::var<spirv::f32x4>> sums_;
};

[[nodiscard]] inline kernel_dispatch make_tiled(const convolution_product& p, const convolve_attribute& node,
                                                std::span<const dtype> types, const shape& result_extents, dtype result,
                                                const tile_plan& plan, const device_profile& on) {
  const std::int64_t tiles = ceil_div(p.m, plan.bm) * ceil_div(p.n, plan.bn) * p.groups;
  const flat_grid grid = make_flat_grid(tiles, 1, on);
  spirv::kernel owner(fmt::format("convolution {}x{}x{} tile {}x{}x{}", p.m, p.n, p.k, plan.bm, plan.bn, plan.slices),
                      {plan.threads(), 1, 1});
  convolution_memory memory(owner, p, node, types, result_extents, result);
  const std::int64_t launched = std::int64_t{grid.groups[0]} * grid.groups[1] * grid.groups[2];
  const auto body = [&] { tiled_convolution(owner, p, plan, memory, grid).run(); };
  launched == tiles ? body() : owner.if_(grid.position(owner) < spirv::u32(tiles), body);
  return {owner.finish(), grid.groups};
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels::detail
