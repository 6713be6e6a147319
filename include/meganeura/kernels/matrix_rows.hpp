// SPDX-License-Identifier: MIT
// Matrix units whose results are used row by row where they are: what lanes know of rows, results that become operands.
#pragma once
#include <meganeura/kernels/dispatch.hpp>
#include <meganeura/kernels/matrix_unit.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::kernels {

/// Units of 16x16x16 in subgroups of 32: whose results and operands may lie as cooperative_rows has it.
[[nodiscard]] constexpr bool may_lie_in_rows(const device_profile& device) {
  return device.matrix_units == matrix_units::cooperative && device.unit == matrix_shape{} &&
         device.subgroup_size == 32 && device.subgroup_shuffle;
}
/// A kernel of one subgroup that writes 1 for each lane for which they do so.
[[nodiscard]] kernel_dispatch make_rows_trial(const device_profile& device);

namespace detail {

/// x in two f16 terms, of which the second counts 2^-11; both as f32. x: at most 2^15. `with_small`: the first holds no
/// more than f16 does below 2^-14, so that of smaller numbers the second has the rest.
struct half_terms {
  spirv::f32 high, low;
};
[[nodiscard]] inline half_terms half_terms_of(const spirv::f32& x, bool with_small = false) {
  // Without conversions there and back, which NVIDIA's driver 580 takes for none.
  spirv::f32 high = spirv::bitcast<spirv::f32>((spirv::bitcast<spirv::u32>(x) + 0x1000u) & 0xffffe000u);
  // Through whole numbers, as that driver also takes adding and subtracting a number for nothing.
  if (with_small) {
    const spirv::f32 whole = spirv::convert<spirv::f32>(spirv::convert<spirv::i32>(x * 0x1p24f)) * 0x1p-24f;
    high = select(magnitude(x) < spirv::u32(113u << 23), whole, high);
  }
  return {high, (x - high) * spirv::f32(2048)};
}

[[nodiscard]] inline spirv::u32 largest_by_shuffles(spirv::kernel& k, spirv::u32 x, std::uint32_t lanes) {
  for (std::uint32_t mask = 1; mask < lanes; mask *= 2) x = max(x, k.subgroup_shuffle_xor(x, spirv::u32(mask)));
  return x;
}

/// Likewise of any number of lanes, in turn. Every invocation of the workgroup.
[[nodiscard]] inline spirv::u32 largest_by_memory(spirv::kernel& k, const spirv::memory<spirv::u32>& through,
                                                  const spirv::u32& index, const spirv::u32& x, std::uint32_t lanes) {
  through[index] = x;
  k.barrier();
  const spirv::u32 first = index / lanes * lanes;
  spirv::u32 found = through.load(first);
  for (std::uint32_t i = 1; i < lanes; ++i) found = max(found, through.load(first + i));
  k.barrier();
  return found;
}

/// Units of 16x16x16 in subgroups of 32. Of sums and of operand a lane l holds as component e the element at row
/// l/4 + 8 (e/4), column 2 (l%4) + e%2 + 8 (e/2%2): profile_of tries that, as nothing promises it. So a row belongs to
/// four neighbouring lanes, and sums become an operand component by component.
template <spirv::kernel_value Element>
class cooperative_rows : public cooperative_unit<Element> {
 public:
  using unit = cooperative_unit<Element>;
  using typename unit::operand;
  using typename unit::sums;
  using slot = std::uint32_t;                              // of the rows that a lane has a part of
  using row_values = std::vector<spirv::var<spirv::f32>>;  // a number for each of them
  static constexpr bool keeps_operands = true;             // whatever becomes of the memory that they came from

  cooperative_rows(spirv::kernel& k, const device_profile& device, std::uint32_t) : unit(k, device), k_(k) {}

  [[nodiscard]] row_values make_values(float initial) const {
    return {k_.variable<spirv::f32>(initial), k_.variable<spirv::f32>(initial)};
  }
  [[nodiscard]] spirv::f32 at(const row_values& of, slot which) const { return of[which].load(); }
  void set(const row_values& of, slot which, const spirv::f32& x) const { of[which].store(x); }
  /// body(slot, row of the fragment)
  template <class Body>
  void each_row(const Body& body) const {
    for (slot which = 0; which < 2; ++which) body(which, row(which));
  }
  /// Each result becomes body(slot, row, column, result).
  template <class Body>
  void update(const sums& total, const Body& body) const {
    for (std::uint32_t e = 0; e < 8; ++e)
      total.set_component(e, body(e / 4, row(e / 4), column(e), total.component(e)));
  }
  /// The same of two: body gives both.
  template <class Body>
  void update(const sums& first, const sums& second, const Body& body) const {
    for (std::uint32_t e = 0; e < 8; ++e) {
      const auto [x, y] = body(e / 4, row(e / 4), column(e), first.component(e), second.component(e));
      first.set_component(e, x), second.set_component(e, y);
    }
  }
  /// total += part, each result by its row's number.
  void add_by_rows(const sums& total, const sums& part, const row_values& by) const {
    for (std::uint32_t e = 0; e < 8; ++e)
      total.set_component(e, fma(part.component(e), at(by, e / 4), total.component(e)));
  }
  /// All that have a part of a row know what theirs amount to.
  template <class Combine>
  void over_rows(const row_values& of, const Combine& combine) const {
    for (const auto& each : of) {
      for (const std::uint32_t mask : {1u, 2u})
        each.store(combine(each.load(), k_.subgroup_shuffle_xor(each.load(), spirv::u32(mask))));
    }
  }
  void store_rows(const row_values& of, const spirv::memory<spirv::f32>& to, const spirv::u32& offset) const {
    k_.if_(this->lane() % 4u == 0u,
           [&] { each_row([&](slot s, const spirv::u32& row) { to[offset + row] = at(of, s); }); });
  }
  /// As operand a, in one or two terms.
  [[nodiscard]] std::vector<operand> operands_of(const sums& total, std::uint32_t terms) const {
    std::vector<spirv::cooperative_variable<spirv::f16>> made;
    for (std::uint32_t i = 0; i < terms; ++i)
      made.emplace_back(operand::fill(k_, 16, 16, spirv::matrix_use::a, spirv::f16(0.0f)));
    for (std::uint32_t e = 0; e < 8; ++e) {
      const spirv::f32 x = total.component(e);
      const half_terms both = half_terms_of(x);
      made[0].set_component(e, spirv::convert<spirv::f16>(terms == 1 ? x : both.high));
      if (terms == 2) made[1].set_component(e, spirv::convert<spirv::f16>(both.low));
    }
    std::vector<operand> result;
    for (const auto& each : made) result.push_back(each.load());
    return result;
  }
  /// What these operands were is no longer read. Every invocation of the workgroup.
  void release_operands() const {}
  /// The largest of so many neighbouring lanes, a power of two. Every invocation of the workgroup.
  [[nodiscard]] spirv::u32 largest_of_lanes(spirv::u32 x, std::uint32_t lanes) const {
    return largest_by_shuffles(k_, x, lanes);
  }
  /// Of the invocation: neighbours are neighbouring lanes.
  [[nodiscard]] spirv::u32 index() const { return k_.index_by_subgroups(32); }

 private:
  [[nodiscard]] spirv::u32 row(slot which) const { return this->lane() / 4u + 8 * which; }
  [[nodiscard]] spirv::u32 column(std::uint32_t e) const { return this->lane() % 4u * 2u + (e % 2 + 8 * (e / 2 % 2)); }

  spirv::kernel& k_;
};

/// The same lane by lane, of units with as many columns as terms; rows meet in workgroup memory.
template <spirv::kernel_value Element>
class emulated_rows : public emulated_unit<Element> {
 public:
  using unit = emulated_unit<Element>;
  using typename unit::operand;
  using typename unit::sums;
  using slot = spirv::u32;
  using row_values = spirv::memory<spirv::f32>;  // one for each result that a lane has
  static constexpr bool keeps_operands = false;

  emulated_rows(spirv::kernel& k, const device_profile& device, std::uint32_t subgroups)
      : unit(k, device),
        k_(k),
        shape_(device.unit),
        shuffles_(device.subgroup_shuffle ? device.subgroup_size : 1),
        exchange_(k.shared<spirv::f32>(subgroups * shape_.m * shape_.n)),
        staged_(k.shared<Element>(2 * subgroups * term_size(shape_))),
        lanes_(k.shared<spirv::u32>(subgroups * device.subgroup_size)) {}

  [[nodiscard]] static std::uint32_t shared_bytes(std::uint32_t subgroups, const device_profile& device) {
    const matrix_shape& unit = device.unit;
    return subgroups * (4 * unit.m * unit.n + 8 * 2 * term_size(unit) + 4 * device.subgroup_size);
  }

  [[nodiscard]] row_values make_values(float initial) const {
    const row_values made = k_.local_array<spirv::f32>(this->results());
    each_row([&](const slot& which, const spirv::u32&) { set(made, which, spirv::f32(initial)); });
    return made;
  }
  [[nodiscard]] spirv::f32 at(const row_values& of, const slot& which) const { return of.load(which); }
  void set(const row_values& of, const slot& which, const spirv::f32& x) const { of[which] = x; }
  template <class Body>
  void each_row(const Body& body) const {
    this->each([&](const spirv::u32& i) { body(i, this->row(i)); });
  }
  template <class Body>
  void update(const sums& total, const Body& body) const {
    this->each([&](const spirv::u32& i) { total[i] = body(i, this->row(i), this->column(i), total.load(i)); });
  }
  template <class Body>
  void update(const sums& first, const sums& second, const Body& body) const {
    this->each([&](const spirv::u32& i) {
      const auto [x, y] = body(i, this->row(i), this->column(i), first.load(i), second.load(i));
      first[i] = x, second[i] = y;
    });
  }
  void add_by_rows(const sums& total, const sums& part, const row_values& by) const {
    this->each([&](const spirv::u32& i) { total[i] = fma(part.load(i), by.load(i), total.load(i)); });
  }
  template <class Combine>
  void over_rows(const row_values& of, const Combine& combine) const {
    spread(of);
    this->each([&](const spirv::u32& i) {
      const spirv::u32 first = mine() + this->row(i) * shape_.n;
      spirv::f32 found = exchange_.load(first);
      for (std::uint32_t n = 1; n < shape_.n; ++n) found = combine(found, exchange_.load(first + n));
      of[i] = found;
    });
    this->meet();
  }
  void store_rows(const row_values& of, const spirv::memory<spirv::f32>& to, const spirv::u32& offset) const {
    this->each(
        [&](const spirv::u32& i) { k_.if_(this->column(i) == 0u, [&] { to[offset + this->row(i)] = of.load(i); }); });
  }
  [[nodiscard]] std::vector<operand> operands_of(const sums& total, std::uint32_t terms) const {
    spread(total);
    const std::uint32_t words = shape_.m * shape_.n / 2, size = this->size();
    k_.for_(0, words, size, [&](const spirv::u32& first) {
      const spirv::u32 word = min(first + this->lane(), spirv::u32(words - 1));
      const spirv::u32 row = word / (shape_.n / 2), pair = word % (shape_.n / 2);
      const spirv::u32 from = mine() + word * 2u;
      const spirv::f32 x = exchange_.load(from), y = exchange_.load(from + 1u);
      const half_terms of_x = half_terms_of(x), of_y = half_terms_of(y);
      const spirv::u32 high = pack_half(terms == 1 ? vector(x, y) : vector(of_x.high, of_y.high));
      const auto write = [&](std::uint32_t term, const spirv::u32& what) {
        const spirv::u32 at = place_of(term) + row * line(shape_) + pair / Element::components;
        staged_.component(at, pair % Element::components) = what;
      };
      write(0, high);
      if (terms == 2) write(1, pack_half(vector(of_x.low, of_y.low)));
    });
    this->meet();
    std::vector<operand> result;
    for (std::uint32_t term = 0; term < terms; ++term)
      result.push_back({staged_, {place_of(term), line(shape_), true}});
    return result;
  }
  void release_operands() const { this->meet(); }
  [[nodiscard]] spirv::u32 index() const { return shuffles_ > 1 ? k_.index_by_subgroups(shuffles_) : k_.local_index(); }
  [[nodiscard]] spirv::u32 largest_of_lanes(const spirv::u32& x, std::uint32_t lanes) const {
    return lanes <= shuffles_ ? largest_by_shuffles(k_, x, lanes) : largest_by_memory(k_, lanes_, index(), x, lanes);
  }

 private:
  [[nodiscard]] static std::uint32_t line(const matrix_shape& unit) { return unit.n / 2 / Element::components; }
  [[nodiscard]] static std::uint32_t term_size(const matrix_shape& unit) { return unit.m * line(unit); }
  // Of this subgroup, in exchange_ and in staged_.
  [[nodiscard]] spirv::u32 mine() const { return this->subgroup() * (shape_.m * shape_.n); }
  [[nodiscard]] spirv::u32 place_of(std::uint32_t term) const {
    return (this->subgroup() * 2u + term) * term_size(shape_);
  }
  void spread(const spirv::memory<spirv::f32>& results) const {
    this->each(
        [&](const spirv::u32& i) { exchange_[mine() + this->row(i) * shape_.n + this->column(i)] = results.load(i); });
    this->meet();
  }

  spirv::kernel& k_;
  matrix_shape shape_;
  std::uint32_t shuffles_;  // lanes that can
  spirv::memory<spirv::f32> exchange_;
  spirv::memory<Element> staged_;
  spirv::memory<spirv::u32> lanes_;
};

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI::kernels

#if MEGANEURA_HEADER_ONLY
#include <meganeura/kernels/matrix_rows.ipp>
#endif
