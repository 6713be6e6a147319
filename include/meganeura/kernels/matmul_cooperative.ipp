// SPDX-License-Identifier: MIT
// Definitions of matmul_cooperative.hpp: the loop over k, slices that meet, and the way of the sums to memory.
#pragma once
#include <meganeura/core/division.hpp>
#include <meganeura/fusion/product_schedules.hpp>
#include <meganeura/kernels/cooperative_operand.hpp>
#include <meganeura/kernels/matmul_cooperative.hpp>
#include <meganeura/kernels/shared_places.hpp>
#include <meganeura/kernels/shared_windows.hpp>
#include <meganeura/kernels/tensor_access.hpp>

#include <algorithm>
#include <bit>

namespace meganeura::inline MEGANEURA_ABI::kernels {

namespace detail {

// Elements of workgroup memory through which sums pass: those of all slices, or of each subgroup a row of fragments.
[[nodiscard]] inline std::uint32_t exchange_stride(const product_schedule& s, std::uint32_t components) {
  return ((s.slices > 1 ? s.tile_n : s.subgroup_n) + 4) / components;  // 16 bytes of padding
}
[[nodiscard]] inline std::uint32_t exchange_size(const product_schedule& s, std::uint32_t components,
                                                 const matrix_shape& unit) {
  return exchange_stride(s, components) * (s.slices > 1 ? s.slices * s.tile_m : s.subgroups() * unit.m);
}

[[nodiscard]] inline bool stores_directly(const matmul_problem& problem, const product_schedule& s,
                                          const matmul_result& plan) {
  return !s.is_scaled() && s.slices == 1 && s.parts == 1 && !problem.epilogue && problem.result == dtype::f32 &&
         extent_of(problem.m) % s.tile_m == 0 && extent_of(problem.n) % s.tile_n == 0 && plan.width == 4 &&
         plan.m.size() == 1 && plan.n.size() == 1 && plan.n[0].stride == 1;
}

/// One kernel. Element: what workgroup memory is made of. Unit: what multiplies.
template <spirv::kernel_value Element, template <class> class Unit>
class cooperative_product {
 public:
  cooperative_product(spirv::kernel& k, const matmul_problem& problem, const product_schedule& s,
                      const device_profile& device)
      : k_(k),
        problem_(problem),
        windows_(s.places != place_axes::none ? windows_of(problem) : fusion::product_windows()),
        read_(s.places == place_axes::columns ? as_places(problem, windows_) : problem),
        s_(s.places == place_axes::terms ? fusion::without_windows(s, device.unit) : s),
        device_(device),
        shape_(device.unit),
        unit_(k, device),
        plan_(result_of(problem, s)),
        m_count_(plan_operand(read_, true).row_count),
        n_count_(plan_operand(read_, false).row_count),
        k_count_(plan_operand(read_, true).k_count),
        left_(k, plan_operand(read_, true), "a", s.tile_m, s_, device, problem.parameters.a),
        rights_(bind_rights(k, read_, s_, device)),
        programs_(bind_programs(problem, k)),
        shared_(s.places == place_axes::columns ? std::optional(shared_windows(k, read_, windows_, s)) : std::nullopt),
        places_(s.places == place_axes::terms ? std::optional(shared_places(k, read_, windows_, s, device))
                                              : std::nullopt),
        staged_(k.shared<Element>(
            std::max({left_.staged_size() + sums() * rights_[0].staged_size(), exchange_size(s_, wide, shape_),
                      shared_ ? shared_->staged_size() : 0, places_ ? places_->staged_size() : 0,
                      places_ ? band_of_taps() * s.tile_m / s.subgroup_m * shape_.m / wide : 0}))) {
    if (device.subgroup_shuffle && device.subgroup_arithmetic) k.require_subgroup_size(device.subgroup_size);
    for (auto& right : rights_) {
      if (problem.prepared != 0) right.read_prepared(k.storage_buffer<spirv::u32>("prepared"));
    }
    if (problem.result != dtype::f32) narrow_.emplace(k, problem.result, "out", static_cast<int>(plan_.width));
    for (const matmul_problem::store& each : problem.stores) {
      if (narrow_ || each.result < out_.size()) continue;
      const std::string name = each.result == 0 ? "out" : "out" + std::to_string(each.result);
      out_.push_back(k.storage_buffer<spirv::f32>(name, spirv::access::write));
    }
    if (s.parts > 1) {
      partial_ = k.storage_buffer<spirv::f32>("sums", spirv::access::exchange);
      arrivals_ = k.storage_buffer<spirv::u32>("arrivals", spirv::access::exchange);
    }
    if (s.is_scaled()) scales_.emplace(k, s.tile_m + s.tile_n);
    if (programs_.start) left_.start_with(*programs_.start);
    if (programs_.start && programs_.start->statistic) statistics_ = k.shared<spirv::f32>(s.tile_m);
    if (statistics_ && partial_)
      fail(error_category::internal, "matmul: parts of rows have no statistics of these; the rules must not do that");
  }

  [[nodiscard]] std::uint64_t batches() const { return extent_of(read_.batch); }
  [[nodiscard]] std::uint32_t tiles_m() const { return ceil_div(m_count_, s_.tile_m); }
  [[nodiscard]] std::uint32_t tiles_n() const { return ceil_div(n_count_, side_n()); }

  /// `part` of `k`, of the tile that is number `number` of so many.
  void emit(const tile_position& tile, const spirv::u32& part, const spirv::u32& number, std::uint32_t tiles) {
    first_k_ = part * k_length();
    if (partial_)
      slab_ = number * slab_size(), own_slab_ = (part * tiles + number) * slab_size(), all_slabs_ = tiles * slab_size();
    emit_sums(tile);
    if (partial_) k_.if_(k_.is_last_workgroup((*arrivals_)[number], spirv::u32(s_.parts)), [&] { store_meeting(); });
  }

 private:
  void emit_sums(const tile_position& tile) {
    batch_ = tile.batch, first_m_ = tile.tile_m * s_.tile_m, first_n_ = tile.tile_n * side_n();
    left_.begin(staged_, 0, batch_, first_m_);
    for (std::uint32_t side = 0; side < sums(); ++side)
      rights_[side].begin(staged_, left_.staged_size() + side * rights_[side].staged_size(), batch_, first_n_);
    if (shared_) begin_windows();
    if (places_) begin_places();
    left_.place();
    for (auto& right : rights_) right.place();
    const std::uint32_t across = s_.tile_n / s_.subgroup_n, down = s_.tile_m / s_.subgroup_m;
    const spirv::u32 subgroup = unit_.subgroup();
    slice_ = s_.slices > 1 ? subgroup / (across * down) : spirv::u32(0);
    const spirv::u32 place = s_.slices > 1 ? subgroup % (across * down) : subgroup;
    row_ = place / across * s_.subgroup_m;
    if (has_one_side()) {
      side_ = place % across / (across / 2);
      column_ = place % (across / 2) * s_.subgroup_n;
    } else {
      column_ = place % across * (s_.subgroup_n / sums());
    }
    for (std::uint32_t i = 0; i < rows() * columns(); ++i) {
      main_.push_back(unit_.zero());
      if (s_.keeps_low()) low_.push_back(unit_.zero());
    }
    if (!scales_) {
      fetch_first();
      add_up(s_.depth > 1);
      return store();
    }
    left_.fetch_sample(term(0), k_length());
    if (!shared_) {
      for (auto& right : rights_) right.fetch_sample(term(0), k_length());
    }
    scales_->begin();
    if (shared_) {
      fetch_windows();
    } else if (places_) {
      places_->fetch(0u);
    } else {
      if (device_.matrix_units == matrix_units::emulated) return emit_in_turns();
      fetch_first();
    }
    guess_scales();
    if (shared_)
      add_up_windows();
    else if (places_)
      add_up_places();
    else
      add_up(s_.depth > 1);
    // Drivers of graphics processors do worse where sums that are computed in two places are stored in one.
    k_.if_(
        scales_->fit(),
        [&] {
          finish_statistics();
          if (places_)
            store_taps();
          else
            store();
        },
        [&] {
          is_seldom_ = true;
          if (shared_ || places_) see_rows();
          find_rows();
          fetch(0, 0, ends(0));
          clear_sums();
          scales_->use_rows(spirv::boolean(true));
          add_up(false);
          finish_statistics();
          k_.if_(
              scales_->has_rows_without(), [&] { store_one_by_one(); }, [&] { store(); });
          is_seldom_ = false;
        });
  }
  // The same in a loop: compilers for processors take twice as long for what is written twice, drivers of graphics
  // processors make slower kernels of it.
  void emit_in_turns() {
    const spirv::var<spirv::u32> turns = k_.variable<spirv::u32>(), last = k_.variable<spirv::u32>();
    guess_scales();
    k_.while_([&] { return turns.load() == last.load(); },
              [&] {
                const spirv::boolean again = last.load() == 1u;
                k_.if_(again, [&] { find_rows(); });
                fetch_first();
                clear_sums();
                scales_->use_rows(again);
                add_up(s_.depth > 1);
                turns = turns.load() + 1u;
                k_.if_(!again && !scales_->fit(), [&] { last = spirv::u32(1); });
              },
              2);
    const spirv::boolean again = last.load() == 1u;
    scales_->use_rows(again);
    finish_statistics();
    k_.if_(
        again && scales_->has_rows_without(), [&] { store_one_by_one(); }, [&] { store(); });
  }
  void clear_sums() {
    for (const fragment_sums& each : main_) unit_.clear(each);
    for (const fragment_sums& each : low_) unit_.clear(each);
  }
  void finish_statistics() {
    if (!statistics_) return;
    left_.finish_statistics(*statistics_);
    k_.barrier();
  }

  static constexpr std::uint32_t wide = Element::components;
  using fragment_sums = typename Unit<Element>::sums;
  using operand = typename Unit<Element>::operand;

  // All stores are as wide.
  [[nodiscard]] static matmul_result result_of(const matmul_problem& problem, const product_schedule& s) {
    matmul_result plan = plan_result(problem);
    if (s.places == place_axes::columns) plan.width = 1;  // of places that are neighbours, results need not be
    for (const matmul_problem::store& each : problem.stores) {
      if (each.distance % plan.width != 0) plan.width = 1;
    }
    return plan;
  }
  [[nodiscard]] static std::vector<cooperative_operand<Element>> bind_rights(spirv::kernel& k,
                                                                             const matmul_problem& problem,
                                                                             const product_schedule& s,
                                                                             const device_profile& device) {
    matmul_operand plan = plan_operand(problem, false);
    std::vector<cooperative_operand<Element>> bound;
    const auto bind = [&](const char* name) {
      bound.emplace_back(k, plan, name, s.tile_n / problem.sums(), s, device, problem.parameters.b, problem.prepared);
    };
    bind("b");
    if (!problem.offset_second) return bound;
    plan.offset = *problem.offset_second;
    bind("second");
    return bound;
  }

  // Of each result; the tile's columns, and those of each subgroup, are first those of one right operand, then those
  // of the other. Where slices meet in workgroup memory a subgroup may instead have columns of one side alone.
  [[nodiscard]] std::uint32_t sums() const { return problem_.sums(); }
  [[nodiscard]] bool has_one_side() const { return sums() == 2 && !fusion::has_both_sums(s_, shape_); }
  [[nodiscard]] std::uint32_t side_n() const { return s_.tile_n / sums(); }
  [[nodiscard]] std::uint32_t rows() const { return s_.subgroup_m / shape_.m; }
  [[nodiscard]] std::uint32_t columns() const { return s_.subgroup_n / shape_.n; }
  [[nodiscard]] bool splits() const { return s_.arithmetic == product_arithmetic::split; }
  [[nodiscard]] std::uint32_t k_length() const { return k_count_ / s_.parts; }  // of a part
  [[nodiscard]] std::uint32_t slab_size() const { return s_.tile_m * s_.tile_n; }
  [[nodiscard]] std::uint32_t steps() const { return ceil_div(k_length(), s_.tile_k); }
  [[nodiscard]] std::uint32_t steps_under_way() const { return std::min(steps(), s_.depth); }
  [[nodiscard]] bool ends(std::uint32_t step) const { return (step + 1) * s_.tile_k > k_length(); }

  // Each with the place of its rows among those that have factors.
  template <class Function>
  void for_rights(const Function& f) {
    for (std::uint32_t side = 0; side < sums(); ++side) f(rights_[side], s_.tile_m + side * side_n());
  }

  // The part's term number `at`.
  [[nodiscard]] spirv::u32 term(const spirv::u32& at) const { return s_.parts == 1 ? at : first_k_ + at; }
  void fetch(std::uint32_t to, const spirv::u32& at, bool ends) {
    left_.fetch(to, term(at), ends);
    for (auto& right : rights_) right.fetch(to, term(at), ends);
  }
  void fetch(std::uint32_t step) { fetch(step % s_.depth, step * s_.tile_k, ends(step)); }
  void fetch_first() {
    for (std::uint32_t step = 0; step < steps_under_way(); ++step) fetch(step);
  }

  // By a few elements, which are on their way.
  void guess_scales() {
    left_.guess(*scales_, 0);
    for_rights([&](auto& right, std::uint32_t at) { right.guess(*scales_, at); });
    for_scattered([](const auto& each) { each.forget_rows(); });
  }
  // Stages everything, so that it is seen, for what staged other rows.
  void see_rows() {
    left_.take_factors();
    for (auto& right : rights_) right.take_factors();
    const bool ends = k_length() % s_.tile_k != 0;
    k_.for_(
        0, end(k_length()), s_.tile_k,
        [&](const spirv::u32& at) {
          fetch(0, at, ends);
          stage(0, at, ends);
        },
        spirv::unrolling::keep, steps());
  }
  // By all that was staged.
  void find_rows() {
    k_.barrier();
    scales_->clear();
    k_.barrier();
    left_.tell_rows();
    for (auto& right : rights_) right.tell_rows();
    k_.barrier();
    scales_->look_for_rows_without();
  }

  // What is first is on its way: all that may be, and all steps are written out, or one.
  void add_up(bool written_out) {
    if (statistics_) left_.begin_statistics();
    if (scales_) {
      left_.take_factors();
      for (auto& right : rights_) right.take_factors();
    }
    const bool looks = scales_ && !is_seldom_;
    if (written_out) {
      for (std::uint32_t step = 0; step < steps(); ++step) {
        stage(step % s_.depth, step * s_.tile_k, ends(step));
        if (step + s_.depth < steps()) fetch(step + s_.depth);
        k_.barrier();
        if (looks && step + 1 == steps()) look_at_rows();
        multiply_staged(std::min(s_.tile_k, k_length() - step * s_.tile_k));
        k_.barrier();
      }
    } else {
      k_.for_(
          0, steps() == 1 ? spirv::u32(k_length()) : end(k_length()), s_.tile_k,
          [&](const spirv::u32& at) {
            stage(0, at, k_length() % s_.tile_k != 0);
            const spirv::u32 next = at + s_.tile_k;
            k_.if_(next < k_length(), [&] { fetch(0, next, k_length() % s_.tile_k != 0); });
            k_.barrier();
            multiply_staged(s_.tile_k);
            k_.barrier();
          },
          spirv::unrolling::keep, steps());
      // In the loop, drivers did worse.
      if (looks) look_at_rows(), k_.barrier();
    }
    add_low();
  }
  void add_low() {
    if (!s_.keeps_low()) return;
    for (std::size_t i = 0; i < main_.size(); ++i) {
      unit_.scale(low_[i], 1.0f / 2048.0f);
      unit_.add(main_[i], low_[i]);
    }
  }

  // Windows that share elements, in tiles that are counted by places of an image.
  void begin_windows() {
    if constexpr (!cooperative_operand<Element>::from_half) {
      shared_->begin(staged_, left_.numbers(), rights_[0].numbers(), left_.base(), rights_[0].base(), first_m_,
                     first_n_);
      if (!problem_.border.is_empty())
        rights_[0].read_with([this](const spirv::u32& row, const spirv::u32& at) { return shared_->element(row, at); });
    }
  }
  // What tells of factors, and the first channels.
  void fetch_windows() {
    rights_[0].fetch_sample([&](const spirv::u32& lane, std::uint32_t lanes) {
      return shared_->sampled(lane, lanes, first_channel(), channels());
    });
    shared_->fetch_right(first_channel());
    shared_->fetch_left(first_channel(), 0);
  }
  // Of a part.
  [[nodiscard]] std::uint32_t channels() const { return k_length() / static_cast<std::uint32_t>(windows_.taps); }
  [[nodiscard]] spirv::u32 first_channel() const {
    return s_.parts == 1 ? spirv::u32(0) : first_k_ / static_cast<std::uint32_t>(windows_.taps);
  }
  void add_up_windows() {
    shared_->use(scales_->guessed(0), scales_->guessed(s_.tile_m), scales_->zero());
    const std::uint32_t turns = shared_->turns();
    k_.for_(
        0, channels(), s_.tile_k,
        [&](const spirv::u32& at) {
          const spirv::u32 channel = first_channel() + at, next = at + s_.tile_k;
          for (std::uint32_t turn = 0; turn < turns; ++turn) {
            if (turn == 0) shared_->stage_right();
            shared_->stage_left(turn);
            if (turn + 1 < turns) shared_->fetch_left(channel, turn + 1);
            if (turn == 0 || turn + 1 == turns) {
              k_.if_(next < channels(), [&] {
                if (turn == 0) shared_->fetch_right(channel + s_.tile_k);
                if (turn + 1 == turns) shared_->fetch_left(channel + s_.tile_k, 0);
              });
            }
            k_.barrier();
            for (std::uint32_t tap = 0; tap < s_.taps; ++tap) {
              tap_ = {tap, turn * s_.taps + tap};
              multiply_staged(s_.tile_k);
            }
            k_.barrier();
          }
        },
        spirv::unrolling::keep, channels() / s_.tile_k);
    tap_.reset();
    shared_->look(*scales_, s_.tile_m);
    k_.barrier();
    add_low();
  }

  // Windows whose places are terms: columns are channels of the first tap, of the second, ..., until they are stored.
  void begin_places() {
    if constexpr (!cooperative_operand<Element>::from_half) {
      places_->begin(staged_, left_.numbers(), rights_[0].numbers(), left_.base(), rights_[0].base(), first_m_,
                     first_n_);
      if (problem_.border.is_empty()) return;
      rights_[0].read_with([this](const spirv::u32& row, const spirv::u32& at) {
        const matmul_operand plan = plan_operand(read_, false);
        return places_->element(rights_[0].base() + offset_of(plan.rows, row) + offset_of(plan.k, at));
      });
    }
  }
  void add_up_places() {
    places_->use(scales_->guessed(0), scales_->guessed(s_.tile_m), scales_->zero());
    adds_places_ = true;
    k_.for_(
        0, places_->steps(), 1,
        [&](const spirv::u32& step) {
          places_->stage();
          const spirv::u32 next = step + 1u;
          k_.if_(next < places_->steps(), [&] { places_->fetch(next); });
          k_.barrier();
          multiply_staged(places_->step_terms());
          k_.barrier();
        },
        spirv::unrolling::keep, places_->steps());
    adds_places_ = false;
    places_->look(*scales_, s_.tile_m);
    k_.barrier();
    add_low();
  }
  // Floats of a row that passes through workgroup memory, each tap's behind 16 bytes of padding.
  [[nodiscard]] std::uint32_t band_of_taps() const { return s_.tile_n / s_.subgroup_n * (s_.subgroup_n + 4); }
  // A row of all subgroups' fragments at a time, as its results lie: the taps of a channel, then those of the next.
  void store_taps() {
    const std::uint32_t across = s_.tile_n / s_.subgroup_n, down = s_.tile_m / s_.subgroup_m, band = band_of_taps();
    const spirv::u32 place = unit_.subgroup();
    const spirv::u32 first = place / across * shape_.m * band + place % across * (s_.subgroup_n + 4);
    for (std::uint32_t i = 0; i < rows(); ++i) {
      for (std::uint32_t j = 0; j < columns(); ++j)
        unit_.store(main_[i * columns() + j], staged_, first / wide + j * shape_.n / wide, band / wide);
      k_.barrier();
      share_out(
          down * shape_.m, s_.tile_n, k_.local_index(), k_.local_size()[0], 4, 0, 0,
          [&](result_group& group, const spirv::u32& row, const spirv::u32& column) {
            group.m = row / shape_.m * s_.subgroup_m + (row % shape_.m + i * shape_.m);
            std::vector<spirv::f32> found;
            for (std::uint32_t n = 0; n < plan_.width; ++n) {
              const spirv::u32 of = column + n, at = of % across * (s_.subgroup_n + 4) + of / across;
              found.push_back(exchanged(row * (band / wide), at, 1)[0]);
            }
            group.sums.push_back(std::move(found));
            unscale(group);
          },
          [&](std::vector<result_group>& groups) { store_results(groups); });
      k_.barrier();
    }
  }

  // Of a loop, which drivers write out if they know it: what seldom runs is not to be.
  [[nodiscard]] spirv::u32 end(std::uint32_t count) const {
    return is_seldom_ ? scales_->unknown(count) : spirv::u32(count);
  }

  void look_at_rows() const {
    left_.look_at_rows();
    for (const auto& right : rights_) right.look_at_rows();
    bool meet = false;
    for_scattered([&](const auto&) { meet = true; });
    if (meet) k_.barrier();
    for_scattered([](const auto& each) { each.judge_rows(); });
  }
  template <class Function>
  void for_scattered(const Function& f) const {
    if (left_.has_scattered_rows()) f(left_);
    for (const auto& right : rights_) {
      if (right.has_scattered_rows()) f(right);
    }
  }
  void stage(std::uint32_t step, const spirv::u32& at, bool ends) {
    left_.stage(step, term(at), ends);
    for (auto& right : rights_) right.stage(step, term(at), ends);
  }

  // Each slice its share of `terms`.
  void multiply_staged(std::uint32_t terms) {
    const std::uint32_t share = ceil_div(terms, s_.slices * shape_.k) * shape_.k;
    const std::uint32_t depth = splits() && !s_.keeps_low() && share % (2 * shape_.k) == 0 ? 2 : 1;
    for (std::uint32_t kk = 0; kk < share; kk += depth * shape_.k) multiply(slice_ * share + kk, depth);
  }

  // `depth` fragments of k, beginning at kk. The side with fewer fragments stays in registers meanwhile.
  void multiply(const spirv::u32& kk, std::uint32_t depth) {
    const bool keeps_rows = rows() <= columns();
    const std::vector<fragments> kept = load_all(keeps_rows, kk, depth);
    for (std::uint32_t moving = 0; moving < (keeps_rows ? columns() : rows()); ++moving) {
      const fragments each = load_fragments(!keeps_rows, moving, kk, depth);
      for (std::uint32_t fixed = 0; fixed < kept.size(); ++fixed) {
        if (keeps_rows)
          add_product(fixed * columns() + moving, kept[fixed], each);
        else
          add_product(moving * columns() + fixed, each, kept[fixed]);
      }
    }
  }
  struct fragments {
    std::vector<operand> high, low;  // of each fragment of k
  };
  [[nodiscard]] fragments load_fragments(bool left, std::uint32_t at, const spirv::u32& kk, std::uint32_t depth) const {
    fragments found;
    for (std::uint32_t d = 0; d < depth; ++d) {
      const auto of = [&](std::uint32_t term) {
        if (left) return load(left_, term, row_ + at * shape_.m, kk + d * shape_.k, spirv::matrix_use::a);
        if (has_one_side()) {
          staged_place from = rights_[0].fragment(term, column_ + at * shape_.n, kk + d * shape_.k);
          from.offset = from.offset + side_ * rights_[0].staged_size();
          return unit_.load(staged_, from, spirv::matrix_use::b);
        }
        const std::uint32_t a_side = columns() / sums();
        return load(rights_[at / a_side], term, column_ + at % a_side * shape_.n, kk + d * shape_.k,
                    spirv::matrix_use::b);
      };
      found.high.push_back(of(0));
      if (splits()) found.low.push_back(of(1));
    }
    return found;
  }
  [[nodiscard]] std::vector<fragments> load_all(bool left, const spirv::u32& kk, std::uint32_t depth) const {
    std::vector<fragments> found;
    for (std::uint32_t i = 0; i < (left ? rows() : columns()); ++i) found.push_back(load_fragments(left, i, kk, depth));
    return found;
  }
  void add_product(std::uint32_t at, const fragments& a, const fragments& b) {
    if (!splits()) return unit_.multiply_add(main_[at], a.high[0], b.high[0]);
    if (s_.keeps_low()) {
      unit_.add_product(main_[at], a.high[0], b.high[0]);
      unit_.multiply_add(low_[at], a.high[0], b.low[0]);
      unit_.multiply_add(low_[at], a.low[0], b.high[0]);
      return;
    }
    const fragment_sums part = unit_.zero();
    for (std::size_t d = 0; d < a.high.size(); ++d) {
      unit_.multiply_add(part, a.high[d], b.low[d]);
      unit_.multiply_add(part, a.low[d], b.high[d]);
    }
    unit_.scale(part, 1.0f / 2048.0f);
    for (std::size_t d = 0; d < a.high.size(); ++d) unit_.multiply_add(part, a.high[d], b.high[d]);
    unit_.add(main_[at], part);
  }
  [[nodiscard]] operand load(const cooperative_operand<Element>& from, std::uint32_t term, const spirv::u32& row,
                             const spirv::u32& kk, spirv::matrix_use use) const {
    if (adds_places_) {
      return unit_.load(
          staged_,
          use == spirv::matrix_use::a ? places_->left_fragment(term, row, kk) : places_->right_fragment(term, row, kk),
          use);
    }
    if (tap_) {
      return unit_.load(staged_,
                        use == spirv::matrix_use::a ? shared_->left_fragment(term, tap_->left, row, kk)
                                                    : shared_->right_fragment(term, tap_->right, row, kk),
                        use);
    }
    return unit_.load(staged_, from.fragment(term, row, kk), use);
  }

  void store() {
    if (s_.slices > 1)
      store_slices();
    else if (stores_directly(problem_, s_, plan_))
      store_directly();
    else
      store_bands();
  }

  void store_directly() {
    for (std::uint32_t i = 0; i < main_.size(); ++i) {
      const spirv::u32 m = first_m_ + row_ + i / columns() * shape_.m;
      const spirv::u32 n = first_n_ + column_ + i % columns() * shape_.n;
      const spirv::u32 offset = offset_of(plan_.batch, batch_) + m * plan_.m[0].stride + n + problem_.offset_out;
      unit_.store(main_[i], out_[0], offset, plan_.m[0].stride);
    }
  }

  // All slices meet in workgroup memory; each invocation adds up theirs for a few results, in their order.
  void store_slices() {
    const std::uint32_t stride = exchange_stride(s_, wide);
    for (std::uint32_t i = 0; i < main_.size(); ++i) {
      const spirv::u32 m = slice_ * s_.tile_m + row_ + i / columns() * shape_.m;
      const spirv::u32 first_n = has_one_side() ? side_ * side_n() + column_ : column_ * sums();
      const spirv::u32 n = first_n + i % columns() * shape_.n;
      unit_.store(main_[i], staged_, m * stride + n / wide, stride);
    }
    k_.barrier();
    store_area(
        s_.tile_m, side_n(), k_.local_index(), k_.local_size()[0], 0, 0,
        [&](const spirv::u32& at) { return at * stride; }, s_.slices, s_.tile_m * stride);
  }

  // Each subgroup's fragments pass through a band of its own, a row of them at a time.
  void store_bands() {
    const std::uint32_t stride = exchange_stride(s_, wide);
    const spirv::u32 band = unit_.subgroup() * (shape_.m * stride);
    const spirv::u32 lane = unit_.lane();
    for (std::uint32_t i = 0; i < rows(); ++i) {
      for (std::uint32_t j = 0; j < columns(); ++j)
        unit_.store(main_[i * columns() + j], staged_, band + j * shape_.n / wide, stride);
      unit_.meet();
      store_area(
          shape_.m, s_.subgroup_n / sums(), lane, device_.subgroup_size, row_ + i * shape_.m, column_,
          [&](const spirv::u32& at) { return band + at * stride; }, 1, 0);
      unit_.meet();
    }
  }

  // Rows and columns of results whose sums are in workgroup memory, shared out to `workers` invocations; they stand at
  // (m, n) of the tile, their rows where row_at says, and `parts` of the sums, `distance` apart, are added up.
  template <class RowAt>
  void store_area(std::uint32_t area_rows, std::uint32_t area_columns, const spirv::u32& worker, std::uint32_t workers,
                  const spirv::u32& m, const spirv::u32& n, const RowAt& row_at, std::uint32_t parts,
                  std::uint32_t distance) {
    // What an epilogue reads is on its way for several results at once.
    share_out(
        area_rows, area_columns, worker, workers, problem_.epilogue ? 4 : 1, m, n,
        [&](result_group& group, const spirv::u32& row, const spirv::u32& column) {
          const std::uint32_t beside = has_one_side() ? side_n() : s_.subgroup_n / sums();  // first sums side by side
          for (std::uint32_t side = 0; side < sums(); ++side) {
            const spirv::u32 stored =
                sums() == 1 ? column : column / beside * s_.subgroup_n + column % beside + side * beside;
            std::vector<spirv::f32> found = exchanged(row_at(row), stored, plan_.width);
            for (std::uint32_t part = 1; part < parts; ++part)
              add_to(found, exchanged(row_at(row) + part * distance, stored, plan_.width));
            group.sums.push_back(std::move(found));
          }
          if (scales_) unscale(group);
        },
        [&](std::vector<result_group>& groups) { store_results(groups); });
  }

  // Of an area at (m, n) of the tile, each invocation's groups, so many at once at most: find(group, row, column) their
  // sums, row and column being those of the area, store(groups) all of them.
  template <class Find, class Store>
  void share_out(std::uint32_t area_rows, std::uint32_t area_columns, const spirv::u32& worker, std::uint32_t workers,
                 std::uint32_t at_once, const spirv::u32& m, const spirv::u32& n, const Find& find,
                 const Store& store) {
    const std::uint32_t width = plan_.width;
    const std::uint32_t count = area_rows * area_columns / width, a_row = area_columns / width;
    const std::uint32_t together = is_seldom_ ? 1 : std::min(at_once, ceil_div(count, workers));
    const auto shared_out = [&](const spirv::u32& first) {
      std::vector<result_group> groups;
      for (std::uint32_t i = 0; i < together; ++i) {
        const spirv::u32 place = first + (worker + i * workers);
        const bool is_whole = count % (workers * together) == 0;
        const spirv::u32 at = is_whole ? place : min(place, spirv::u32(count - 1));
        spirv::u32 row = at / a_row, column = at % a_row * width;
        // The same column all the time, which drivers do not find out.
        if (shared_ && is_whole && workers % a_row == 0)
          row = worker / a_row + (first / a_row + i * (workers / a_row)), column = worker % a_row * width;
        groups.push_back({m + row, n + column, is_whole ? spirv::boolean(true) : place < count, {}});
        find(groups.back(), row, column);
      }
      store(groups);
    };
    k_.for_(0, end(count), workers * together, shared_out, spirv::unrolling::automatic,
            ceil_div(count, workers * together));
  }
  static void add_to(std::vector<spirv::f32>& sums, const std::vector<spirv::f32>& more) {
    for (std::size_t j = 0; j < sums.size(); ++j) sums[j] = sums[j] + more[j];
  }

  // Neighbouring sums of the row that begins at `row`.
  [[nodiscard]] std::vector<spirv::f32> exchanged(const spirv::u32& row, const spirv::u32& column,
                                                  std::uint32_t width) const {
    std::vector<spirv::f32> found;
    if (width == 1) return {spirv::bitcast<spirv::f32>(staged_.component(row + column / wide, column % wide).load())};
    for (std::uint32_t i = 0; i < width; i += wide) {
      const Element both = staged_.load(row + (column + i) / wide);
      for (std::uint32_t j = 0; j < std::min(wide, width); ++j) found.push_back(spirv::bitcast<spirv::f32>(both[j]));
    }
    return found;
  }

  // Neighbouring results from (m, n) of the tile on.
  struct result_group {
    spirv::u32 m, n;
    spirv::boolean is_one;                      // false: stands for another
    std::vector<std::vector<spirv::f32>> sums;  // of each right operand
    std::vector<scalar_value> values{};         // finished: of each result, all of the group
  };

  void unscale(result_group& group) const {
    for (std::uint32_t side = 0; side < sums(); ++side) {
      std::vector<spirv::f32>& x = group.sums[side];
      const std::uint32_t from = s_.tile_m + side * side_n();
      if (x.size() == 1) {
        x[0] = scales_->unscaled(x[0], group.m, group.n + from, from);
        continue;
      }
      const spirv::f32x4 four = scales_->unscaled(vector(x[0], x[1], x[2], x[3]), group.m, group.n + from, from);
      for (std::uint32_t i = 0; i < 4; ++i) x[i] = four[i];
    }
  }

  void finish(result_group& group, const matmul_point& at) {
    const auto together = [](const std::vector<spirv::f32>& x) -> scalar_value {
      if (x.size() == 1) return x[0];
      return vector(x[0], x[1], x[2], x[3]);
    };
    const std::vector<spirv::f32>& first = group.sums[0];
    if (!programs_.several) {
      if (first.size() == 1)
        group.values = {programs_.finish(first[0], at)};
      else
        group.values = {programs_.finish(vector(first[0], first[1], first[2], first[3]), at)};
      return;
    }
    std::vector<scalar_value> all;
    if (first.size() == 1 || programs_.several->fours) {
      for (const auto& each : group.sums) all.push_back(together(each));
      group.values = programs_.several->finish(all, at);
      return;
    }
    std::array<std::vector<scalar_value>, 4> parts;
    for (std::uint32_t i = 0; i < 4; ++i) {
      all.clear();
      for (const auto& each : group.sums) all.push_back(each[i]);
      parts[i] = programs_.several->finish(all, {at.batch, at.m, at.n + i, at.offset + i, at.statistic});
    }
    for (std::size_t i = 0; i < parts[0].size(); ++i)
      group.values.push_back(grouped(k_, {parts[0][i], parts[1][i], parts[2][i], parts[3][i]}));
  }

  // Where neighbouring sums from (m, n) of the tile on lie in its slab.
  [[nodiscard]] spirv::u32 place_in_slab(const result_group& group, std::uint32_t side) const {
    return group.m * side_n() + (group.n + side * slab_size() / sums());
  }
  void store_partial(const std::vector<result_group>& groups) {
    for (const result_group& group : groups) {
      k_.if_(group.is_one, [&] {
        for (std::uint32_t side = 0; side < sums(); ++side) {
          const std::vector<spirv::f32>& x = group.sums[side];
          const spirv::u32 at = own_slab_ + place_in_slab(group, side);
          if (x.size() == 1)
            (*partial_)[at] = x[0];
          else
            k_.view<spirv::f32x4>(*partial_)[at / 4] = vector(x[0], x[1], x[2], x[3]);
        }
      });
    }
  }
  [[nodiscard]] std::vector<spirv::f32> stored_partial(const spirv::u32& at) {
    if (plan_.width == 1) return {partial_->load(at)};
    const spirv::f32x4 four = k_.view<spirv::f32x4>(*partial_).load(at / 4);
    return {four[0], four[1], four[2], four[3]};
  }
  // The sums of all parts, in their order.
  void store_meeting() {
    share_out(
        s_.tile_m, side_n(), k_.local_index(), k_.local_size()[0], shared_ ? 8 : 4, 0, 0,
        [&](result_group& group, const spirv::u32&, const spirv::u32&) {
          for (std::uint32_t side = 0; side < sums(); ++side) {
            const spirv::u32 first = slab_ + place_in_slab(group, side);
            std::vector<spirv::f32> found = stored_partial(first);
            for (std::uint32_t part = 1; part < s_.parts; ++part)
              add_to(found, stored_partial(first + part * all_slabs_));
            group.sums.push_back(std::move(found));
          }
        },
        [&](std::vector<result_group>& groups) { finish_and_store(groups); });
  }

  void store_results(std::vector<result_group>& groups) {
    if (partial_)
      store_partial(groups);
    else
      finish_and_store(groups);
  }
  void finish_and_store(std::vector<result_group>& groups) {
    const bool m_ends = m_count_ % s_.tile_m != 0, n_ends = n_count_ % side_n() != 0;
    std::vector<spirv::u32> offsets;
    for (result_group& group : groups) {
      const auto width = static_cast<std::uint32_t>(group.sums[0].size());
      spirv::u32 m = first_m_ + group.m, n = first_n_ + group.n, batch = batch_;
      if (m_ends) group.is_one = group.is_one && m < m_count_, m = min(m, spirv::u32(m_count_ - 1));
      if (n_ends) group.is_one = group.is_one && n < n_count_, n = min(n, spirv::u32(n_count_ - width));
      if (shared_) find_window(group, batch, n);
      offsets.push_back(offset_of(plan_.batch, batch) + offset_of(plan_.m, m) + offset_of(plan_.n, n) +
                        problem_.offset_out);
      matmul_point at{batch, m, n, offsets.back()};
      if (statistics_) at.statistic = statistics_->load(group.m);
      finish(group, at);
    }
    for (std::size_t i = 0; i < groups.size(); ++i) {
      k_.if_(groups[i].is_one, [&] {
        for (std::size_t j = 0; j < groups[i].values.size(); ++j) {
          const auto& [result, distance] = problem_.stores[j];
          if (groups[i].sums[0].size() == 1)
            store_result(result, offsets[i] + distance, spirv::f32(groups[i].values[j]));
          else
            store_result(result, (offsets[i] + distance) / 4, spirv::f32x4(groups[i].values[j]));
        }
      });
    }
  }

  // Which one place n of an image of the batch begins, if one does.
  void find_window(result_group& group, spirv::u32& batch, spirv::u32& n) const {
    const auto images = static_cast<std::uint32_t>(windows_.images),
               height = static_cast<std::uint32_t>(windows_.height), width = static_cast<std::uint32_t>(windows_.width),
               pitch = static_cast<std::uint32_t>(windows_.pitch);
    const spirv::u32 image = batch % images, x = n % pitch, y = n / pitch;
    if (width < pitch) group.is_one = group.is_one && x < width;
    n = (image * height + y) * width + min(x, spirv::u32(width - 1));
    batch = batch / images;
  }

  // One, or four of which `at` counts the groups.
  template <class Value>
  void store_result(std::size_t result, const spirv::u32& at, const Value& value) {
    if (narrow_)
      narrow_->store(at, scalar_value(value));
    else
      k_.view<Value>(out_[result])[at] = value;
  }

  // In f32 from the operands themselves.
  void store_one_by_one() {
    const std::uint32_t count = s_.tile_m * side_n();
    k_.for_(
        0, end(count), k_.local_size()[0],
        [&](const spirv::u32& first) {
          const spirv::u32 place = min(first + k_.local_index(), spirv::u32(count - 1));
          const spirv::u32 m = place / side_n(), n = place % side_n();
          const spirv::u32 last_m = m_count_ - 1, last_n = n_count_ - 1;
          std::vector<result_group> groups{{m, n, first + k_.local_index() < count, {}}};
          for (auto& right : rights_)
            groups[0].sums.push_back({one_by_one(right, min(first_m_ + m, last_m), min(first_n_ + n, last_n))});
          store_results(groups);
        },
        spirv::unrolling::keep, ceil_div(count, k_.local_size()[0]));
  }

  [[nodiscard]] spirv::f32 one_by_one(const cooperative_operand<Element>& right, const spirv::u32& m,
                                      const spirv::u32& n) {
    const spirv::var<spirv::f32> sum = k_.variable<spirv::f32>();
    k_.for_(
        0, end(k_length()), 1,
        [&](const spirv::u32& i) { sum = fma(left_.element(m, term(i)), right.element(n, term(i)), sum.load()); },
        spirv::unrolling::keep, k_length());
    return sum.load();
  }

  struct staged_tap {
    std::uint32_t left, right;  // among those of the left operand that are staged, and of all
  };

  spirv::kernel& k_;
  const matmul_problem& problem_;
  const fusion::product_windows windows_;  // where elements are shared
  const matmul_problem read_;              // as its operands are read, see as_places
  const product_schedule s_;
  const device_profile& device_;
  const matrix_shape shape_;
  Unit<Element> unit_;
  matmul_result plan_;
  std::uint32_t m_count_, n_count_, k_count_;
  cooperative_operand<Element> left_;
  std::vector<cooperative_operand<Element>> rights_;
  matmul_programs programs_;
  std::vector<spirv::memory<spirv::f32>> out_;         // each result
  std::optional<bound_tensor> narrow_;                 // instead, where results are not f32
  std::optional<spirv::memory<spirv::f32>> partial_;   // sums of all parts and tiles
  std::optional<spirv::memory<spirv::u32>> arrivals_;  // of each tile
  std::optional<shared_windows> shared_;
  std::optional<shared_places> places_;
  bool adds_places_ = false;       // what is multiplied
  std::optional<staged_tap> tap_;  // that is multiplied
  spirv::memory<Element> staged_;
  std::optional<row_scales> scales_;
  std::optional<spirv::memory<spirv::f32>> statistics_;  // of the tile's rows
  spirv::u32 batch_, first_m_, first_n_, first_k_, slice_, row_, column_;
  spirv::u32 side_ = 0;         // of the subgroup, where it has one
  spirv::u32 slab_, own_slab_;  // of the tile, the first part's and this one's
  std::uint32_t all_slabs_ = 0;
  bool is_seldom_ = false;  // what is emitted
  std::vector<fragment_sums> main_, low_;
};

template <spirv::kernel_value Element, template <class> class Unit>
[[nodiscard]] kernel_dispatch make_cooperative(const matmul_problem& problem, const product_schedule& s,
                                               const device_profile& device) {
  spirv::kernel k(describe(problem), {s.subgroups() * device.subgroup_size, 1, 1});
  cooperative_product<Element, Unit> product(k, problem, s, device);
  const std::uint64_t tiles = product.batches() * product.tiles_m() * product.tiles_n();
  const auto groups = spread_groups(tiles * s.parts, device);
  const spirv::u32 linear = linear_group(k, groups);
  if_inside(k, linear, tiles * s.parts, std::uint64_t{groups[0]} * groups[1], [&] {
    const auto count = static_cast<std::uint32_t>(tiles);
    const spirv::u32 part = s.parts == 1 ? spirv::u32(0) : linear / count;
    const spirv::u32 number = s.parts == 1 ? linear : linear % count;
    product.emit(locate_tile(number, product.tiles_m(), product.tiles_n()), part, number, count);
  });
  return {k.finish(), groups};
}

template <template <class> class Unit>
[[nodiscard]] kernel_dispatch make_cooperative_on(const matmul_problem& problem, const product_schedule& s,
                                                  const device_profile& device) {
  if (s.is_scaled()) return make_cooperative<spirv::u32x2, Unit>(problem, s, device);
  return make_cooperative<spirv::u32x4, Unit>(problem, s, device);
}

inline bool are_read_in_eights(const matmul_problem& problem) {
  return strides_allow(plan_operand(problem, true), 8) && strides_allow(plan_operand(problem, false), 8) &&
         problem.offset_second.value_or(0) % 8 == 0;
}

inline void check_cooperative(const matmul_problem& problem, const product_schedule& s, const device_profile& device) {
  check_extents(problem);
  const auto whole = [](std::uint32_t size, std::uint32_t of) { return of > 0 && size > 0 && size % of == 0; };
  const bool is_short = s.depth == 1 || s.tile_k * 64 >= extent_of(problem.k);
  const matrix_shape& unit = device.unit;
  if (!s.is_on_units() || s.depth == 0 || !whole(s.subgroup_m, unit.m) || !whole(s.subgroup_n, unit.n) ||
      !whole(s.tile_k, unit.k * s.slices) || !whole(s.tile_m, s.subgroup_m) || !whole(s.tile_n, s.subgroup_n)) {
    fail(error_category::invalid_argument,
         "matmul schedule '{}': subgroups' results and slices of tile_k are multiples of the device's unit, {}x{}x{}, "
         "and "
         "tiles are multiples of subgroups",
         to_string(s), unit.m, unit.n, unit.k);
  }
  if (!is_short) {
    fail(error_category::invalid_argument,
         "matmul schedule '{}' writes out its loop over {} terms of k: that would be more than 64 steps", to_string(s),
         extent_of(problem.k));
  }
  if (s.arithmetic == product_arithmetic::split && s.subgroup_m * s.subgroup_n > fusion::largest_split) {
    fail(error_category::invalid_argument,
         "matmul schedule '{}': a subgroup keeps at most {} results of split operands in its registers", to_string(s),
         fusion::largest_split);
  }
  const fusion::product_windows windows = windows_of(problem);
  const auto terms = static_cast<std::int64_t>(extent_of(problem.k));
  if (s.places == place_axes::terms) {
    const bool fits = windows.places == s.places && s.taps == windows.taps && s.reach == windows.reach &&
                      s.slices == 1 && s.tile_n == s.taps * s.subgroup_n && extent_of(problem.n) % s.tile_n == 0 &&
                      s.depth == 1 && s.is_scaled() && s.parts == 1;
    if (!fits || problem.offset_second || problem.has_prologue || problem.prepared != 0) {
      fail(error_category::invalid_argument,
           "matmul schedule '{}': of f32 windows whose places are terms a tile has all taps of so many channels as "
           "divide all of them, each subgroup one, and there are no parts; here are {} windows of {} taps, which reach "
           "{}",
           to_string(s), windows.places == s.places ? "such" : "no", windows.taps, windows.reach);
    }
  } else if (s.places == place_axes::columns) {
    const std::int64_t channels = windows.places == place_axes::columns ? terms / windows.taps : 0;
    const bool fits = windows.places == s.places && (s.taps == windows.taps || s.taps == windows.last_taps) &&
                      s.reach == windows.reach && channels % s.tile_k == 0 && s.depth == 1 && s.is_scaled();
    if (!fits || problem.offset_second || problem.has_prologue || problem.prepared != 0) {
      fail(error_category::invalid_argument,
           "matmul schedule '{}': of f32 windows that share elements a step has all taps or those of the last axis of "
           "so many channels as divide all of them; here are {} windows of {} and {} taps of {} channels, which reach "
           "{}",
           to_string(s), windows.places == s.places ? "such" : "no", windows.taps, windows.last_taps, channels,
           windows.reach);
    }
  }
  if (!fusion::shares_terms(s, s.places == place_axes::columns ? terms / windows.taps : terms, device)) {
    fail(error_category::invalid_argument,
         "matmul schedule '{}': each part has whole steps of the {} terms of k, and those on their way at once; the "
         "device counts "
         "workgroups{}",
         to_string(s), extent_of(problem.k), device.device_scope ? "" : ", which this one cannot");
  }
  if (s.subgroups() * device.subgroup_size * 4 < std::bit_ceil(std::max(s.tile_m, s.tile_n))) {
    fail(error_category::invalid_argument,
         "matmul schedule '{}': its {} invocations are too few for rows of so many groups of four", to_string(s),
         s.subgroups() * device.subgroup_size);
  }
  if (problem.has_prologue && (!s.is_scaled() || !strides_allow(plan_operand(problem, true), 4))) {
    fail(error_category::invalid_argument,
         "matmul schedule '{}': what is computed before it is multiplied is of f32 and lies in groups of four",
         to_string(s));
  }
  if (problem.offset_second && !fusion::fits_beside(s, false, true, device)) {
    fail(
        error_category::invalid_argument,
        "matmul schedule '{}': of a pair each subgroup has both sums of a result, half of its columns either, or where "
        "slices meet one of them",
        to_string(s));
  }
  if (problem.stores.size() > 1 && problem.result != dtype::f32)
    fail(error_category::invalid_argument, "matmul: several results are f32, not {}", to_string(problem.result));
  if (!s.is_half() || are_read_in_eights(problem)) return;
  fail(error_category::invalid_argument,
       "matmul schedule '{}': f16 operands need unit stride along k or along m and n, with extents, other strides and "
       "offsets that are multiples of 8",
       to_string(s));
}

}  // namespace detail

MEGANEURA_INLINE bool cooperative_fits(const matmul_problem& problem, const product_schedule& s,
                                       const device_profile& device) {
  if (!fusion::fits(s, device)) return false;
  return !s.is_half() || detail::are_read_in_eights(problem);
}

MEGANEURA_INLINE kernel_dispatch make_cooperative_matmul(const matmul_problem& problem, const product_schedule& s,
                                                         const device_profile& device) {
  detail::check_cooperative(problem, s, device);
  // Checked here and not left to the driver: exceeding workgroup memory loses the device without an error.
  if (!cooperative_fits(problem, s, device)) {
    fail(error_category::unsupported,
         "matmul schedule '{}' needs f16 matrix units, {} bytes of workgroup memory and {} invocations; the device has "
         "{} and {}{}",
         to_string(s), fusion::shared_bytes_of(s, device.unit), s.subgroups() * device.subgroup_size,
         device.max_shared_bytes, device.max_invocations, fusion::has_units(device) ? "" : ", and no such units");
  }
  if (device.matrix_units == matrix_units::emulated)
    return detail::make_cooperative_on<detail::emulated_unit>(problem, s, device);
  return detail::make_cooperative_on<detail::cooperative_unit>(problem, s, device);
}

}  // namespace meganeura::inline MEGANEURA_ABI::kernels
