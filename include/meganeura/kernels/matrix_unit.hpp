// SPDX-License-Identifier: MIT
// Matrix units as product kernels use them, and the same in workgroup memory for devices without any.
#pragma once
#include <meganeura/core/device_profile.hpp>
#include <meganeura/spirv/cooperative.hpp>

#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI::kernels::detail {

/// Where a fragment of f16 begins in staged memory: `stride` elements of the memory's type from one line to the next;
/// a line holds neighbouring terms of one row of the operand (`along_k`), or neighbouring rows of one term.
struct staged_place {
  spirv::u32 offset;
  std::uint32_t stride = 0;
  bool along_k = true;
};

/// As bits, which are in the order of the numbers; those of a NaN are beyond infinity's.
[[nodiscard]] inline spirv::u32 magnitude(const spirv::f32& x) { return spirv::bitcast<spirv::u32>(x) & 0x7fffffffu; }
[[nodiscard]] inline spirv::u32x4 magnitudes(const spirv::f32x4& x) {
  return spirv::bitcast<spirv::u32x4>(x) & spirv::u32x4(0x7fffffffu);
}
/// Of an exponent in [-126, 127].
[[nodiscard]] inline spirv::f32 power_of_two(const spirv::i32& exponent) {
  return spirv::bitcast<spirv::f32>((exponent + 127) << spirv::i32(23));
}
/// body(i) for each i below `count`, shared out to the workgroup; `index`: of the invocation.
template <class Body>
void for_each_below(spirv::kernel& k, const spirv::u32& index, std::uint32_t count, const Body& body) {
  const std::uint32_t threads = k.local_size()[0];
  for (std::uint32_t done = 0; done < count; done += threads) {
    const spirv::u32 at = index + done;
    if (done + threads <= count)
      body(at);
    else
      k.if_(at < count, [&] { body(at); });
  }
}

/// VK_KHR_cooperative_matrix: f16 to f32, held by a subgroup.
template <spirv::kernel_value Element>
class cooperative_unit {
 public:
  using operand = spirv::cooperative_matrix<spirv::f16>;
  using sums = spirv::cooperative_variable<spirv::f32>;

  // First of all a kernel has: the matrix type switches its module to the Vulkan memory model.
  cooperative_unit(spirv::kernel& k, const device_profile& device)
      : k_(k),
        shape_(device.unit),
        components_(shape_.m * shape_.n / device.subgroup_size),
        zero_(
            spirv::cooperative_matrix<spirv::f32>::fill(k, shape_.m, shape_.n, spirv::matrix_use::accumulator, 0.0f)) {
    k.require_subgroup_size(device.subgroup_size);
  }
  [[nodiscard]] sums zero() const { return sums(zero_); }
  [[nodiscard]] operand load(const spirv::memory<Element>& from, const staged_place& at, spirv::matrix_use use) const {
    const bool is_a = use == spirv::matrix_use::a, row_major = at.along_k == is_a;
    return operand::load(from, at.offset, at.stride, is_a ? shape_.m : shape_.k, is_a ? shape_.k : shape_.n, use,
                         row_major ? spirv::matrix_layout::row_major : spirv::matrix_layout::column_major);
  }
  void clear(const sums& total) const { total.store(zero_); }
  /// total += a b on the unit.
  void multiply_add(const sums& total, const operand& a, const operand& b) const {
    total.store(spirv::multiply_add(a, b, total.load()));
  }
  /// The same, summed outside of the unit, which truncates.
  void add_product(const sums& total, const operand& a, const operand& b) const {
    total.store(total.load() + spirv::multiply_add(a, b, zero_));
  }
  void scale(const sums& total, float factor) const { total.store(total.load() * spirv::f32(factor)); }
  void add(const sums& total, const sums& more) const { total.store(total.load() + more.load()); }
  /// As rows of f32; offset and stride count elements of the memory's type.
  template <spirv::kernel_value Stored>
  void store(const sums& total, const spirv::memory<Stored>& to, const spirv::u32& offset, std::uint32_t stride) const {
    total.load().store(to, offset, stride);
  }
  /// Of those that this invocation holds: the largest magnitude's bits, beyond those of all numbers for a NaN.
  [[nodiscard]] spirv::u32 largest(const sums& total) const {
    spirv::u32 found = 0;
    for (std::uint32_t i = 0; i < components_; ++i) found = max(found, magnitude(total.component(i)));
    return found;
  }
  [[nodiscard]] spirv::u32 subgroup() const { return k_.subgroup_id(); }
  [[nodiscard]] spirv::u32 lane() const { return k_.subgroup_lane(); }
  /// The subgroup sees what its lanes stored.
  void meet() const { k_.subgroup_barrier(); }

 private:
  spirv::kernel& k_;
  matrix_shape shape_;
  std::uint32_t components_;
  spirv::cooperative_matrix<spirv::f32> zero_;
};

/// The same operations lane by lane on what is staged: slow, and right wherever kernels run at all.
template <spirv::kernel_value Element>
class emulated_unit {
 public:
  struct operand {
    spirv::memory<Element> from;
    staged_place at;
  };
  using sums = spirv::memory<spirv::f32>;  // a lane's results: at lane, lane + subgroup size, ... of the fragment

  emulated_unit(spirv::kernel& k, const device_profile& device)
      : k_(k), shape_(device.unit), size_(device.subgroup_size) {}
  [[nodiscard]] sums zero() const {
    const sums made = k_.local_array<spirv::f32>(results());
    clear(made);
    return made;
  }
  [[nodiscard]] operand load(const spirv::memory<Element>& from, const staged_place& at, spirv::matrix_use) const {
    return {from, at};
  }
  void clear(const sums& total) const {
    each([&](const spirv::u32& i) { total[i] = spirv::f32(0); });
  }
  void multiply_add(const sums& total, const operand& a, const operand& b) const {
    k_.for_(0, results() * shape_.k, 1, [&](const spirv::u32& at) {
      const spirv::u32 i = at / shape_.k, k = at % shape_.k;
      total[i] = fma(term(a, row(i), k), term(b, column(i), k), total.load(i));
    });
  }
  void add_product(const sums& total, const operand& a, const operand& b) const { multiply_add(total, a, b); }
  void scale(const sums& total, float factor) const {
    each([&](const spirv::u32& i) { total[i] = total.load(i) * factor; });
  }
  void add(const sums& total, const sums& more) const {
    each([&](const spirv::u32& i) { total[i] = total.load(i) + more.load(i); });
  }
  void store(const sums& total, const spirv::memory<Element>& to, const spirv::u32& offset,
             std::uint32_t stride) const {
    constexpr std::uint32_t wide = Element::components;
    each([&](const spirv::u32& i) {
      to.component(offset + row(i) * stride + column(i) / wide, column(i) % wide) =
          spirv::bitcast<spirv::u32>(total.load(i));
    });
  }
  void store(const sums& total, const spirv::memory<spirv::f32>& to, const spirv::u32& offset,
             std::uint32_t stride) const {
    each([&](const spirv::u32& i) { to[offset + row(i) * stride + column(i)] = total.load(i); });
  }
  [[nodiscard]] spirv::u32 largest(const sums& total) const {
    const spirv::var<spirv::u32> found = k_.variable<spirv::u32>();
    each([&](const spirv::u32& i) { found = max(found.load(), magnitude(total.load(i))); });
    return found.load();
  }
  [[nodiscard]] spirv::u32 subgroup() const { return k_.local_index() / size_; }
  [[nodiscard]] spirv::u32 lane() const { return k_.local_index() % size_; }
  void meet() const { k_.barrier(); }

 protected:
  /// How many a lane has, and where the i-th of them is.
  [[nodiscard]] std::uint32_t results() const { return shape_.m * shape_.n / size_; }
  [[nodiscard]] std::uint32_t size() const { return size_; }  // of a subgroup
  [[nodiscard]] spirv::u32 row(const spirv::u32& i) const { return place(i) / shape_.n; }
  [[nodiscard]] spirv::u32 column(const spirv::u32& i) const { return place(i) % shape_.n; }
  template <class Body>
  void each(Body&& body) const {
    k_.for_(0, results(), 1, std::forward<Body>(body));
  }

 private:
  [[nodiscard]] spirv::u32 place(const spirv::u32& i) const { return lane() + i * size_; }
  // Term k of one row of the operand: rows of a, columns of b.
  [[nodiscard]] static spirv::f32 term(const operand& of, const spirv::u32& row, const spirv::u32& k) {
    constexpr std::uint32_t unit = Element::components * 2;
    const spirv::u32 line = of.at.along_k ? row : k, along = of.at.along_k ? k : row;
    const spirv::u32 pair =
        of.from.component(of.at.offset + line * of.at.stride + along / unit, along % unit / 2).load();
    const spirv::f32x2 both = spirv::unpack_half(pair);
    return select(along % 2 == 0, both[0], both[1]);
  }

  spirv::kernel& k_;
  matrix_shape shape_;
  std::uint32_t size_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::kernels::detail
