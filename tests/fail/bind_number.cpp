// SPDX-License-Identifier: MIT
// A single number bound where a range is needed.
// expect: meganeura: bind<name>\(range\): needs a contiguous range
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

struct numbers {
  const float* values;
  const float* data() const { return values; }
  std::size_t size() const { return 1; }
};
#ifdef MEGANEURA_EXPECT_FAILURE
std::size_t bound(const numbers& x) { return mn::bind<"x">(*x.values).size; }
#else
std::size_t bound(const numbers& x) { return mn::bind<"x">(x).size; }
#endif
