// SPDX-License-Identifier: MIT
// A list that keeps its first elements in itself: most lists are short, and passes make thousands of them.
#pragma once
#include <meganeura/config.hpp>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <type_traits>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI {

/// std::vector of what is copied by its bytes, so that no element has to be begun or ended; up to `Inline` elements
/// need no memory of their own. Iterators are pointers; a move leaves the other empty.
template <class T, std::size_t Inline>
class small_vector {
  static_assert(std::is_trivially_copyable_v<T> && Inline > 0);

 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  small_vector() = default;
  explicit small_vector(std::size_t count, const T& value = T()) { resize(count, value); }
  small_vector(std::initializer_list<T> values) { append(values.begin(), values.end()); }
  template <std::forward_iterator Iterator>
  small_vector(Iterator first, Iterator last) {
    append(first, last);
  }
  small_vector(const small_vector& other) { append(other.begin(), other.end()); }
  small_vector(small_vector&& other) noexcept { take(other); }
  small_vector& operator=(const small_vector& other) {
    if (this != &other) assign(other.begin(), other.end());
    return *this;
  }
  small_vector& operator=(small_vector&& other) noexcept {
    if (this == &other) return *this;
    release();
    take(other);
    return *this;
  }
  ~small_vector() { release(); }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] T* data() { return data_; }
  [[nodiscard]] const T* data() const { return data_; }
  [[nodiscard]] T* begin() { return data_; }
  [[nodiscard]] const T* begin() const { return data_; }
  [[nodiscard]] T* end() { return data_ + size_; }
  [[nodiscard]] const T* end() const { return data_ + size_; }
  [[nodiscard]] T& operator[](std::size_t at) { return data_[at]; }
  [[nodiscard]] const T& operator[](std::size_t at) const { return data_[at]; }
  [[nodiscard]] T& front() { return data_[0]; }
  [[nodiscard]] const T& front() const { return data_[0]; }
  [[nodiscard]] T& back() { return data_[size_ - 1]; }
  [[nodiscard]] const T& back() const { return data_[size_ - 1]; }

  void reserve(std::size_t count) {
    if (count > capacity_) grow(count);
  }
  void clear() { size_ = 0; }
  void push_back(const T& value) {
    if (size_ < capacity_) {
      data_[size_++] = value;
      return;
    }
    const T copy = value;  // may lie in here
    grow(size_ + 1);
    data_[size_++] = copy;
  }
  void pop_back() { --size_; }
  void resize(std::size_t count, const T& value = T()) {
    reserve(count);
    if (count > size_) std::fill(data_ + size_, data_ + count, value);
    size_ = count;
  }
  void assign(std::size_t count, const T& value) {
    clear();
    resize(count, value);
  }
  /// What is assigned or appended must not lie in here.
  template <std::forward_iterator Iterator>
  void assign(Iterator first, Iterator last) {
    clear();
    append(first, last);
  }
  template <std::forward_iterator Iterator>
  void append(Iterator first, Iterator last) {
    const auto count = static_cast<std::size_t>(std::distance(first, last));
    reserve(size_ + count);
    std::copy(first, last, data_ + size_);
    size_ += count;
  }
  /// All elements from `first` on.
  void erase_from(const T* first) { size_ = static_cast<std::size_t>(first - data_); }

  friend bool operator==(const small_vector& a, const small_vector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  [[nodiscard]] T* inside() { return reinterpret_cast<T*>(inside_); }
  void release() {
    if (data_ != inside()) std::allocator<T>().deallocate(data_, capacity_);
  }
  void grow(std::size_t least) {
    const std::size_t capacity = std::max(least, 2 * capacity_);
    T* const grown = std::allocator<T>().allocate(capacity);
    std::copy(begin(), end(), grown);
    release();
    data_ = grown;
    capacity_ = capacity;
  }
  // This one holds nothing; the other one will.
  void take(small_vector& other) noexcept {
    const bool outside = other.data_ != other.inside();
    data_ = outside ? std::exchange(other.data_, other.inside()) : inside();
    capacity_ = outside ? std::exchange(other.capacity_, Inline) : Inline;
    size_ = std::exchange(other.size_, 0);
    if (!outside) std::copy(other.data_, other.data_ + size_, data_);
  }

  T* data_ = inside();
  std::size_t size_ = 0, capacity_ = Inline;
  alignas(T) std::byte inside_[Inline * sizeof(T)];
};

}  // namespace meganeura::inline MEGANEURA_ABI
