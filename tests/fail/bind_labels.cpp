// SPDX-License-Identifier: MIT
// Labels of 64 bits.
// expect: elements must be float or integers of 32 or 8 bits; copy others, labels of 64 bits:
// std::vector<std::int32_t>
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
using element = long;
#else
using element = int;
#endif

struct labels {
  const element* values;
  const element* data() const { return values; }
  std::size_t size() const { return 4; }
};
int size(const labels& given) { return static_cast<int>(mn::bind<"label">(given).size); }
