// SPDX-License-Identifier: MIT
// What models need of <utility>: move, declval, sequences of indices and what a structured binding asks for. Pairs and
// <compare>, which come with that header, are a tenth of what the front end costs a compiler.
#pragma once
#if __has_include(<bits/utility.h>)  // libstdc++ from 12 on
#include <bits/utility.h>
#else
#include <utility>
#endif
