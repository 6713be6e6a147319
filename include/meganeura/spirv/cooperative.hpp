// SPDX-License-Identifier: MIT
// Cooperative matrices (VK_KHR_cooperative_matrix): a small matrix held jointly by the invocations of a subgroup.
#pragma once
#include <meganeura/spirv/kernel.hpp>

namespace meganeura::inline MEGANEURA_ABI::spirv {

enum class matrix_use : std::uint8_t { a = 0, b = 1, accumulator = 2 };
enum class matrix_layout : std::uint8_t { row_major = 0, column_major = 1 };

namespace untyped {
struct matrix_type {
  scalar_kind kind = scalar_kind::f16;
  word rows = 16, columns = 16;
  matrix_use use = matrix_use::a;
  [[nodiscard]] bool operator==(const matrix_type&) const = default;
};
struct matrix_operand {
  kernel* owner = nullptr;
  word id = 0;
  matrix_type type;
};
[[nodiscard]] matrix_operand matrix_fill(kernel& owner, const matrix_type& type, const operand& value);
[[nodiscard]] matrix_operand matrix_load(const matrix_type& type, const place_reference& from, const operand& stride,
                                         matrix_layout layout);
void matrix_store(const place_reference& to, const matrix_operand& what, const operand& stride, matrix_layout layout);
[[nodiscard]] matrix_operand matrix_multiply_add(const matrix_operand& a, const matrix_operand& b,
                                                 const matrix_operand& c);
/// add, subtract, multiply, divide: component by component.
[[nodiscard]] matrix_operand matrix_binary(binary_op code, const matrix_operand& a, const matrix_operand& b);
[[nodiscard]] matrix_operand matrix_negate(const matrix_operand& a);
/// Between floats, or between integers.
[[nodiscard]] matrix_operand matrix_convert(scalar_kind to, const matrix_operand& a);
[[nodiscard]] matrix_operand matrix_scale(const matrix_operand& a, const operand& factor);
[[nodiscard]] word matrix_variable(kernel& owner, const matrix_type& type);
[[nodiscard]] matrix_operand matrix_read(kernel& owner, word variable, const matrix_type& type);
void matrix_write(word variable, const matrix_operand& what);
[[nodiscard]] place_reference matrix_component(kernel& owner, word variable, const matrix_type& type, word which);
[[nodiscard]] operand matrix_length(kernel& owner, const matrix_type& type);
}  // namespace untyped

/// A subgroup-scope matrix value of scalar T: f16, f32, bf16 where it is a type (kernel::use_bfloat16), integers. Types
/// and sizes are the shapes the device lists, e.g. 16x16. Of bf16 there is no arithmetic but the product.
template <kernel_value T>
class cooperative_matrix : public untyped::matrix_operand {
 public:
  explicit cooperative_matrix(const untyped::matrix_operand& untyped) : matrix_operand(untyped) {}
  [[nodiscard]] static cooperative_matrix fill(kernel& k, word rows, word columns, matrix_use use, const T& value) {
    return cooperative_matrix(untyped::matrix_fill(k, {T::kind, rows, columns, use}, value));
  }
  /// Loads from `from[offset]`; stride counts elements of the memory's type, which may be wider than T (u32x4 staging).
  template <kernel_value Element>
  [[nodiscard]] static cooperative_matrix load(const memory<Element>& from, const u32& offset, const u32& stride,
                                               word rows, word columns, matrix_use use,
                                               matrix_layout layout = matrix_layout::row_major) {
    return cooperative_matrix(
        untyped::matrix_load({T::kind, rows, columns, use}, untyped::locate(from.object(), offset), stride, layout));
  }
  template <kernel_value Element>
  void store(const memory<Element>& to, const u32& offset, const u32& stride,
             matrix_layout layout = matrix_layout::row_major) const {
    untyped::matrix_store(untyped::locate(to.object(), offset), *this, stride, layout);
  }
  [[nodiscard]] friend cooperative_matrix operator+(const cooperative_matrix& a, const cooperative_matrix& b) {
    return cooperative_matrix(untyped::matrix_binary(untyped::binary_op::add, a, b));
  }
  [[nodiscard]] friend cooperative_matrix operator-(const cooperative_matrix& a, const cooperative_matrix& b) {
    return cooperative_matrix(untyped::matrix_binary(untyped::binary_op::subtract, a, b));
  }
  /// Component by component, as are all but multiply_add.
  [[nodiscard]] friend cooperative_matrix operator*(const cooperative_matrix& a, const cooperative_matrix& b) {
    return cooperative_matrix(untyped::matrix_binary(untyped::binary_op::multiply, a, b));
  }
  [[nodiscard]] friend cooperative_matrix operator/(const cooperative_matrix& a, const cooperative_matrix& b) {
    return cooperative_matrix(untyped::matrix_binary(untyped::binary_op::divide, a, b));
  }
  [[nodiscard]] friend cooperative_matrix operator-(const cooperative_matrix& a) {
    return cooperative_matrix(untyped::matrix_negate(a));
  }
  [[nodiscard]] friend cooperative_matrix operator*(const cooperative_matrix& a, const T& factor) {
    return cooperative_matrix(untyped::matrix_scale(a, factor));
  }
};

/// a * b + c on the matrix unit.
template <kernel_value T, kernel_value Accumulator>
[[nodiscard]] cooperative_matrix<Accumulator> multiply_add(const cooperative_matrix<T>& a,
                                                           const cooperative_matrix<T>& b,
                                                           const cooperative_matrix<Accumulator>& c) {
  return cooperative_matrix<Accumulator>(untyped::matrix_multiply_add(a, b, c));
}

/// Each component by value, rounded to nearest; the matrix keeps its use. Between floats, or between integers.
template <kernel_value To, kernel_value From>
[[nodiscard]] cooperative_matrix<To> convert(const cooperative_matrix<From>& from) {
  static_assert(is_integer(To::kind) == is_integer(From::kind),
                "meganeura: convert<T>(matrix): T and the matrix must both be floats or both be integers");
  return cooperative_matrix<To>(untyped::matrix_convert(To::kind, from));
}

/// A mutable matrix. Keep them in a C++ array: an index computed on the device costs a factor of 5 to 15.
template <kernel_value T>
class cooperative_variable {
 public:
  explicit cooperative_variable(const cooperative_matrix<T>& initial)
      : owner_(initial.owner), type_(initial.type), variable_(untyped::matrix_variable(*initial.owner, initial.type)) {
    store(initial);
  }
  [[nodiscard]] cooperative_matrix<T> load() const {
    return cooperative_matrix<T>(untyped::matrix_read(*owner_, variable_, type_));
  }
  void store(const cooperative_matrix<T>& what) const { untyped::matrix_write(variable_, what); }
  /// One of the components that this invocation holds: rows * columns / subgroup size of them, in an order of the
  /// device's.
  [[nodiscard]] T component(word which) const { return T(untyped::load(place_of(which))); }
  void set_component(word which, const T& what) const { untyped::store(place_of(which), what); }
  /// How many these are, which a kernel knows when it runs.
  [[nodiscard]] u32 length() const { return u32(untyped::matrix_length(*owner_, type_)); }

 private:
  [[nodiscard]] untyped::place_reference place_of(word which) const {
    return untyped::matrix_component(*owner_, variable_, type_, which);
  }
  kernel* owner_;
  untyped::matrix_type type_;
  word variable_;
};

}  // namespace meganeura::inline MEGANEURA_ABI::spirv

#if MEGANEURA_HEADER_ONLY
#include <meganeura/spirv/cooperative.ipp>
#endif
