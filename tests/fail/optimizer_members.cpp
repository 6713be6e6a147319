// SPDX-License-Identifier: MIT
// A struct that lacks members of an optimiser.
// expect: meganeura: optimizer: a struct with the rates \(learning_rate among them\), name\(\), moments\(\)
#include <meganeura/runtime/optimizer.hpp>

namespace mn = meganeura;

#ifdef MEGANEURA_EXPECT_FAILURE
struct chosen {
  float learning_rate = 1;
};
#else
using chosen = mn::sgd;
#endif
mn::optimizer start() { return chosen{}; }
