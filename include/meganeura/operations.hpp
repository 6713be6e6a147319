// SPDX-License-Identifier: MIT
// Every operation and layer: those of frontend.hpp, which most models need, and all others.
#pragma once
#include <meganeura/frontend.hpp>
#include <meganeura/nn/channel_norm.hpp>
#include <meganeura/nn/class_losses.hpp>
#include <meganeura/nn/conv_forms.hpp>
#include <meganeura/nn/distance_losses.hpp>
#include <meganeura/nn/losses.hpp>
#include <meganeura/nn/pooling.hpp>
#include <meganeura/ops/along.hpp>
#include <meganeura/ops/angles.hpp>
#include <meganeura/ops/bits.hpp>
#include <meganeura/ops/blocks.hpp>
#include <meganeura/ops/bounds.hpp>
#include <meganeura/ops/compare.hpp>
#include <meganeura/ops/cumulative.hpp>
#include <meganeura/ops/diagonal.hpp>
#include <meganeura/ops/distance.hpp>
#include <meganeura/ops/exponential.hpp>
#include <meganeura/ops/powers.hpp>
#include <meganeura/ops/rearrange.hpp>
#include <meganeura/ops/rounding.hpp>
#include <meganeura/ops/search.hpp>
#include <meganeura/ops/special.hpp>
#include <meganeura/ops/statistics.hpp>
#include <meganeura/ops/trigonometry.hpp>
