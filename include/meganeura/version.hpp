// SPDX-License-Identifier: MIT
// The only place the version lives; CMakeLists.txt reads these three numbers.
#pragma once
#define MEGANEURA_VERSION_MAJOR 0
#define MEGANEURA_VERSION_MINOR 1
#define MEGANEURA_VERSION_PATCH 0
