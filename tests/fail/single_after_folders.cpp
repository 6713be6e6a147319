// SPDX-License-Identifier: MIT
// The single header after headers of the folders, which it holds.
// expect: meganeura: <meganeura\.hpp> is included after <meganeura/\.\.\.>, which it holds; include only one
#include <meganeura/core/dim.hpp>
#ifdef MEGANEURA_EXPECT_FAILURE
#include "../../single_include/meganeura.hpp"
#endif
