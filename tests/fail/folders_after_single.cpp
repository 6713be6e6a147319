// SPDX-License-Identifier: MIT
// Headers of the folders after the single header, which holds them.
// expect: meganeura: <meganeura/\.\.\.> is included after <meganeura\.hpp>, which holds it; include only one
#include "../../single_include/meganeura.hpp"
#ifdef MEGANEURA_EXPECT_FAILURE
#include <meganeura/core/dim.hpp>
#endif
