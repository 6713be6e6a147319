// SPDX-License-Identifier: MIT
// Sums of products of symbols in normal form: two are equal exactly when their terms are.
#pragma once
#include <meganeura/core/fixed_string.hpp>

#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI {

/// What extents are while they are computed with; a `dim` holds the short ones. Terms lie by falling degree, then by
/// name, symbols in a term by name.
struct extent_sum {
  static constexpr int max_terms = 8, max_degree = 8;

  struct term {
    std::int64_t factor = 0;
    const symbol* names[max_degree]{};
    int degree = 0;
  };
  term terms[max_terms]{};
  int count = 0;
  bool fits = true;  // false: it had more terms or symbols than there is room for

  constexpr extent_sum() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): a number is a sum
  constexpr extent_sum(std::int64_t number) {
    if (number != 0) add({number});
  }

  constexpr void add(const term& added) {
    int at = 0;
    while (at < count && order(terms[at], added) < 0) ++at;
    const bool known = at < count && order(terms[at], added) == 0;
    if (known) terms[at].factor += added.factor;
    if (known && terms[at].factor != 0) return;
    if (known) {
      for (--count; at < count; ++at) terms[at] = terms[at + 1];
    } else if (count == max_terms) {
      fits = false;
    } else {
      for (int i = count++; i > at; --i) terms[i] = terms[i - 1];
      terms[at] = added;
    }
  }

  constexpr extent_sum& operator+=(const extent_sum& other) {
    for (int i = 0; i < other.count; ++i) add(other.terms[i]);
    fits = fits && other.fits;
    return *this;
  }
  friend constexpr extent_sum operator+(extent_sum a, const extent_sum& b) { return a += b; }
  friend constexpr extent_sum operator*(const extent_sum& a, const extent_sum& b) {
    extent_sum result;
    result.fits = a.fits && b.fits;
    for (int i = 0; i < a.count; ++i) {
      for (int j = 0; j < b.count; ++j) result.add_product(a.terms[i], b.terms[j]);
    }
    return result;
  }
  friend constexpr bool operator==(const extent_sum& a, const extent_sum& b) {
    bool same = a.count == b.count && a.fits && b.fits;
    for (int i = 0; same && i < a.count; ++i)
      same = a.terms[i].factor == b.terms[i].factor && order(a.terms[i], b.terms[i]) == 0;
    return same;
  }

  /// The least that it can be: symbols are at least 1 and at most what `sym` said.
  [[nodiscard]] constexpr std::int64_t least() const { return bound(1); }
  /// The most; `unbounded` for a sum without one.
  [[nodiscard]] constexpr std::int64_t most() const { return -bound(-1); }
  static constexpr std::int64_t unbounded = std::int64_t{1} << 60;

 private:
  // The least of the sum times `sign`, no less than -unbounded.
  [[nodiscard]] constexpr std::int64_t bound(int sign) const {
    std::int64_t total = 0;
    for (int i = 0; i < count; ++i) {
      std::int64_t product = sign * terms[i].factor;
      for (int k = 0; product < 0 && k < terms[i].degree; ++k) {
        const std::int64_t most = terms[i].names[k]->most;
        product = most == 0 || product < -unbounded / most ? -unbounded : product * most;
      }
      total = product < -unbounded - (total < 0 ? total : 0) ? -unbounded : total + product;
    }
    return total;
  }

  // Names of one text are one symbol, or two with bounds of their own.
  static constexpr int order(const symbol* a, const symbol* b) {
    const char *left = a->text, *right = b->text;
    while (*left != '\0' && *left == *right) ++left, ++right;
    if (*left != *right) return *left < *right ? -1 : 1;
    return a == b ? 0 : a->most < b->most ? -1 : 1;
  }
  static constexpr int order(const term& a, const term& b) {
    if (a.degree != b.degree) return a.degree > b.degree ? -1 : 1;
    for (int i = 0; i < a.degree; ++i) {
      if (const int by_name = order(a.names[i], b.names[i]); by_name != 0) return by_name;
    }
    return 0;
  }
  constexpr void add_product(const term& a, const term& b) {
    term product;
    if (__builtin_mul_overflow(a.factor, b.factor, &product.factor) || a.degree + b.degree > max_degree) {
      fits = false;
      return;
    }
    for (int i = 0, j = 0; i < a.degree || j < b.degree;) {
      const bool from_a = j == b.degree || (i < a.degree && order(a.names[i], b.names[j]) <= 0);
      product.names[product.degree++] = from_a ? a.names[i++] : b.names[j++];
    }
    add(product);
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI
