// SPDX-License-Identifier: MIT
// The tiled tier of matmul.hpp: operands staged in workgroup memory, results in registers.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/kernels/matmul.hpp>

namespace meganeura::inline MEGANEURA_ABI::kernels::detail {

// Brings one operand's tile from its buffer through registers into workgroup memory, stored k-major: row kk holds the
// tile's rows at that k, so that the product loop reads four rows of one k as 16 bytes.
class tile_loader {
 public:
  tile_loader(spirv::kernel& k, const matmul_operand& plan, const spirv::memory<spirv::f32>& from,
              std::uint32_t tile_rows, std::uint32_t tile_k, std::uint32_t buffers)
      : k_(k),
        plan_(plan),
        from_(from),
        tile_rows_(tile_rows),
        tile_k_(tile_k),
        row_fours_((tile_rows + 4) / 4),
        staged_(k.shared<spirv::f32x4>(buffers * tile_k * row_fours_)) {
    if (plan.width == 4) from4_ = k.view<spirv::f32x4>(from);
  }

  // Everything that does not change along k is computed once, here, outside the loop.
  void place(const spirv::u32& batch, const spirv::u32& first_row) {
    const std::uint32_t threads = k_.local_size()[0];
    const std::uint32_t pieces = tile_rows_ * tile_k_ / plan_.width;
    const spirv::u32 base = offset_of(plan_.batch, batch) + plan_.offset;
    for (std::uint32_t done = 0; done < pieces; done += threads) {
      const spirv::u32 index = k_.local_index() + done;
      // Along k a row's loads come in runs of 32 bytes, a cache sector, and neighbouring runs from different rows:
      // longer runs would store to workgroup memory on two banks only.
      const std::uint32_t run = plan_.along_k ? (tile_k_ % 8 == 0 ? 8 : 4) : tile_rows_;
      const std::uint32_t fast = run / plan_.width;
      const spirv::u32 inner = index % fast * plan_.width;
      const spirv::u32 outer = index / fast;
      const spirv::u32 row_in_tile = plan_.along_k ? outer % tile_rows_ : inner;
      const spirv::u32 kk = plan_.along_k ? outer / tile_rows_ * run + inner : outer;
      spirv::u32 row = first_row + row_in_tile;
      // Rows past the end repeat the last ones: their results are never stored.
      const std::uint32_t last = plan_.row_count - (plan_.along_k ? 1 : plan_.width);
      if (plan_.row_count % tile_rows_ != 0) row = min(row, spirv::u32(last));
      pieces_.push_back({row_in_tile, kk, base + offset_of(plan_.rows, row), index, done + threads > pieces});
      if (plan_.width == 4) fours_.push_back(k_.variable<spirv::f32x4>());
      if (plan_.width == 1) ones_.push_back(k_.variable<spirv::f32>());
    }
    piece_count_ = pieces;
  }

  void fetch(const spirv::u32& first_k) {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      if_needed(pieces_[i], [&] { fetch_piece(i, first_k); });
    }
  }

  /// What was fetched from first_k on.
  void stage(const spirv::u32& buffer, const spirv::u32& first_k) {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      if_needed(pieces_[i], [&] { stage_piece(i, buffer * (tile_k_ * row_fours_), first_k); });
    }
  }

  /// Four neighbouring rows at one k of the tile.
  [[nodiscard]] spirv::f32x4 read(const spirv::u32& buffer, const spirv::u32& kk, const spirv::u32& row_four) const {
    return staged_[buffer * (tile_k_ * row_fours_) + kk * row_fours_ + row_four].load();
  }

 private:
  struct piece {
    spirv::u32 row, kk, base, index;
    bool partial = false;  // not every invocation has one
  };

  template <class Body>
  void if_needed(const piece& p, Body&& body) {
    if (!p.partial) return static_cast<void>(body());
    k_.if_(p.index < piece_count_, std::forward<Body>(body));
  }

  [[nodiscard]] bool is_ragged() const { return plan_.k_count % tile_k_ != 0; }

  // To look at what comes before it is staged would be to wait for it.
  void fetch_piece(std::size_t i, const spirv::u32& first_k) {
    const spirv::u32 at = first_k + pieces_[i].kk;
    const std::uint32_t last = plan_.k_count - (plan_.along_k ? plan_.width : 1);
    const spirv::u32 clamped = is_ragged() ? min(at, spirv::u32(last)) : at;
    const spirv::u32 offset = pieces_[i].base + offset_of(plan_.k, clamped);
    if (plan_.width == 4) fours_[i].store(from4_->load(offset >> 2u));
    if (plan_.width == 1) ones_[i].store(from_.load(offset));
  }

  void stage_piece(std::size_t i, const spirv::u32& start, const spirv::u32& first_k) {
    const piece& p = pieces_[i];
    // Beyond the last k both operands are zero, not just one: the other may hold an infinity.
    const spirv::boolean inside = is_ragged() ? first_k + p.kk < plan_.k_count : spirv::boolean(true);
    const auto kept = [&](const spirv::f32& x) { return is_ragged() ? select(inside, x, spirv::f32(0)) : x; };
    if (plan_.width == 4 && !plan_.along_k) {
      const spirv::f32x4 four = fours_[i].load();
      staged_[start + p.kk * row_fours_ + (p.row >> 2u)] =
          is_ragged() ? vector(kept(four[0]), kept(four[1]), kept(four[2]), kept(four[3])) : four;
      return;
    }
    for (std::uint32_t j = 0; j < (plan_.along_k ? plan_.width : 1); ++j) {
      const spirv::f32 value = plan_.width == 4 ? fours_[i].load()[j] : ones_[i].load();
      staged_.component(start + (p.kk + j) * row_fours_ + (p.row >> 2u), p.row & 3u) = kept(value);
    }
  }

  spirv::kernel& k_;
  matmul_operand plan_;
  spirv::memory<spirv::f32> from_;
  std::optional<spirv::memory<spirv::f32x4>> from4_;
  std::uint32_t tile_rows_, tile_k_, row_fours_;
  std::uint32_t piece_count_ = 0;
  spirv::memory<spirv::f32x4> staged_;
  std::vector<piece> pieces_;
  std::vector<spirv::var<spirv::f32x4>> fours_;
  std::vector<spirv::var<spirv::f32>> ones_;
};

// Where the results of an invocation stand inside the tile: blocks of 4x4, so that the lanes of a subgroup read
// neighbouring 16-byte groups. 4 x 8 lanes make the two operands' reads of a subgroup one and two transactions.
struct thread_layout {
  spirv::u32 slice, m, n;                // m and n of the first block
  std::uint32_t step_m = 0, step_n = 0;  // to the next block
};

[[nodiscard]] inline thread_layout lay_out_threads(spirv::kernel& k, const matmul_schedule& s) {
  const std::uint32_t across = s.tile_n / s.thread_n;
  const std::uint32_t down = s.tile_m / s.thread_m;
  const spirv::u32 slice = k.local_index() / (across * down);
  const spirv::u32 inside = k.local_index() % (across * down);
  if (across % 8 != 0 || down % 4 != 0) {
    return {slice, inside / across * 4, inside % across * 4, down * 4, across * 4};
  }
  const spirv::u32 lane = inside % 32;
  const spirv::u32 warp = inside / 32;
  const std::uint32_t warps_across = across / 8;
  return {slice, warp / warps_across * (4 * s.thread_m) + lane / 8 * 4,
          warp % warps_across * (8 * s.thread_n) + lane % 8 * 4, 16, 32};
}

using result_block = std::vector<spirv::var<spirv::f32>>;  // thread_m rows of thread_n

inline void multiply_tile(spirv::kernel& k, const matmul_schedule& s, const thread_layout& at, const tile_loader& a,
                          const tile_loader& b, const spirv::u32& buffer, const result_block& sums) {
  using namespace spirv;
  static_cast<void>(k);
  std::vector<f32> total;
  for (const auto& sum : sums) total.push_back(sum.load());
  for (std::uint32_t kk = 0; kk < s.tile_k; ++kk) {
    // Slices take turns, so that those of one subgroup read neighbouring rows, which stand on different banks.
    const u32 row = at.slice + kk * s.slices;
    std::vector<f32x4> left, right;
    for (std::uint32_t i = 0; i < s.thread_m / 4; ++i)
      left.push_back(a.read(buffer, row, (at.m + i * at.step_m) >> 2u));
    for (std::uint32_t j = 0; j < s.thread_n / 4; ++j)
      right.push_back(b.read(buffer, row, (at.n + j * at.step_n) >> 2u));
    for (std::uint32_t i = 0; i < s.thread_m; ++i) {
      for (std::uint32_t j = 0; j < s.thread_n; ++j) {
        f32& sum = total[i * s.thread_n + j];
        sum = fma(left[i / 4][i % 4], right[j / 4][j % 4], sum);
      }
    }
  }
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i].store(total[i]);
}

struct result_writer {
  spirv::kernel& k;
  const matmul_problem& problem;
  const matmul_result& plan;
  const matmul_epilogue& epilogue;
  spirv::memory<spirv::f32> out;
  std::optional<spirv::memory<spirv::f32x4>> out4;
  std::uint32_t m_count, n_count;

  // Four results along n. `checked`: the tile may reach over the edge.
  void write_four(const spirv::u32& batch, const spirv::u32& m, const spirv::u32& n, const spirv::var<spirv::f32>* sums,
                  bool checked_n) const {
    using namespace spirv;
    const u32 row = offset_of(plan.batch, batch) + offset_of(plan.m, m) + problem.offset_out;
    if (plan.width == 4) {
      const auto body = [&] {
        const u32 offset = row + offset_of(plan.n, n);
        const f32x4 four = vector(sums[0].load(), sums[1].load(), sums[2].load(), sums[3].load());
        (*out4)[offset >> 2u] = epilogue(four, {batch, m, n, offset});
      };
      if (checked_n)
        k.if_(n < n_count, body);
      else
        body();
      return;
    }
    for (std::uint32_t j = 0; j < 4; ++j) {
      const auto body = [&] {
        const u32 offset = row + offset_of(plan.n, n + j);
        out[offset] = epilogue(sums[j].load(), {batch, m, n + j, offset});
      };
      if (checked_n)
        k.if_(n + j < n_count, body);
      else
        body();
    }
  }
};

inline void write_block(const result_writer& writer, const matmul_schedule& s, const thread_layout& at,
                        const tile_position& tile, const result_block& sums) {
  const bool checked_m = writer.m_count % s.tile_m != 0;
  const bool checked_n = writer.n_count % s.tile_n != 0;
  for (std::uint32_t i = 0; i < s.thread_m; ++i) {
    const spirv::u32 m = tile.tile_m * s.tile_m + at.m + (i / 4 * at.step_m + i % 4);
    const auto body = [&] {
      for (std::uint32_t j = 0; j < s.thread_n; j += 4) {
        const spirv::u32 n = tile.tile_n * s.tile_n + at.n + j / 4 * at.step_n;
        writer.write_four(tile.batch, m, n, &sums[i * s.thread_n + j], checked_n);
      }
    };
    if (checked_m)
      writer.k.if_(m < writer.m_count, body);
    else
      body();
  }
}

inline void check_tiles(const matmul_schedule& s) {
  const bool fours = s.thread_m % 4 == 0 && s.thread_n % 4 == 0 && s.tile_k % 4 == 0 && s.thread_m > 0 &&
                     s.thread_n > 0 && s.tile_k > 0;
  const bool whole = fours && s.tile_m % s.thread_m == 0 && s.tile_n % s.thread_n == 0 && s.tile_m > 0 && s.tile_n > 0;
  const bool halves = s.slices > 0 && (s.slices & (s.slices - 1)) == 0 && (s.buffers == 1 || s.buffers == 2);
  if (whole && halves) return;
  fail(error_category::invalid_argument,
       "matmul schedule '{}': thread sizes and tile_k are multiples of 4, tiles of thread sizes, slices a power of "
       "two, buffers 1 or 2",
       s.label());
}

MEGANEURA_INLINE kernel_dispatch make_tiled_matmul(const matmul_problem& problem, const matmul_schedule& s,
                                                   const device_profile& device) {
  using namespace spirv;
  check_tiles(s);
  const matmul_operand a_plan = plan_operand(problem, true);
  const matmul_operand b_plan = plan_operand(problem, false);
  const matmul_result out_plan = plan_result(problem);
  kernel k(describe(problem), {s.invocations(), 1, 1});
  const auto a = k.storage_buffer<f32>("a");
  const auto b = k.storage_buffer<f32>("b");
  const matmul_epilogue epilogue = bind_epilogue(problem, k);
  const auto out = k.storage_buffer<f32>("out", access::write);

  const std::uint32_t tiles_m = ceil_div(a_plan.row_count, s.tile_m);
  const std::uint32_t tiles_n = ceil_div(b_plan.row_count, s.tile_n);
  const std::uint64_t tiles = extent_of(problem.batch) * tiles_m * tiles_n;
  const auto groups = spread_groups(tiles, device);
  const u32 linear = linear_group(k, groups);
  // A whole workgroup is inside or outside, so barriers below stay uniform.
  if_inside(k, linear, tiles, std::uint64_t{groups[0]} * groups[1], [&] {
    const tile_position tile = locate_tile(linear, tiles_m, tiles_n);
    const std::uint32_t step = s.tile_k * s.slices;
    tile_loader left(k, a_plan, a, s.tile_m, step, s.buffers);
    tile_loader right(k, b_plan, b, s.tile_n, step, s.buffers);
    const thread_layout at = lay_out_threads(k, s);
    left.place(tile.batch, tile.tile_m * s.tile_m);
    right.place(tile.batch, tile.tile_n * s.tile_n);
    result_block sums;
    for (std::uint32_t i = 0; i < s.thread_m * s.thread_n; ++i) sums.push_back(k.variable<f32>(0.0f));
    const auto parity = k.variable<u32>(0u);
    const std::uint32_t k_count = a_plan.k_count;
    left.fetch(0);
    right.fetch(0);
    // Fetch of the next tile into registers overlaps the product of this one. With two buffers one barrier a step is
    // enough: a buffer is overwritten two steps after it was last read.
    const cascade_lengths lengths{.terms = s.tile_k, .straight = straight_product(sums.size())};
    for_summed(k, 0, k_count, step, lengths, running_sums(sums), [&](const u32& first_k) {
      const u32 buffer = s.buffers == 2 && k_count > step ? parity.load() : u32(0);
      left.stage(buffer, first_k);
      right.stage(buffer, first_k);
      k.barrier();
      const u32 next = first_k + step;
      k.if_(next < k_count, [&] {
        left.fetch(next);
        right.fetch(next);
      });
      multiply_tile(k, s, at, left, right, buffer, sums);
      if (s.buffers == 1) k.barrier();
      if (s.buffers == 2) parity = buffer ^ 1u;
    });
    add_slices(k, s, at.slice, sums);
    const result_writer writer{k,
                               problem,
                               out_plan,
                               epilogue,
                               out,
                               out_plan.width == 4 ? std::optional(k.view<f32x4>(out)) : std::nullopt,
                               a_plan.row_count,
                               b_plan.row_count};
    if (s.slices == 1) return write_block(writer, s, at, tile, sums);
    k.if_(at.slice == 0u, [&] { write_block(writer, s, at, tile, sums); });
  });
  return {k.finish(), groups};
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels::detail
