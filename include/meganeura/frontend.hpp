// SPDX-License-Identifier: MIT
// What most models are written with (operations.hpp has all there is) and nothing to run them: no <vector>, no
// <string>, no Vulkan.
#pragma once
#include <meganeura/expr/expect.hpp>  // first: it is where compilers say that an error is
#include <meganeura/expr/model.hpp>
#include <meganeura/expr/sequential.hpp>
#include <meganeura/nn/activation.hpp>
#include <meganeura/nn/batch_norm.hpp>
#include <meganeura/nn/conv.hpp>
#include <meganeura/nn/dropout.hpp>
#include <meganeura/nn/embedding.hpp>
#include <meganeura/nn/linear.hpp>
#include <meganeura/nn/loss.hpp>
#include <meganeura/nn/norm.hpp>
#include <meganeura/nn/softmax.hpp>
#include <meganeura/ops/contract.hpp>
#include <meganeura/ops/convolution.hpp>
#include <meganeura/ops/custom_gradient.hpp>
#include <meganeura/ops/elementwise.hpp>
#include <meganeura/ops/gather.hpp>
#include <meganeura/ops/narrow.hpp>
#include <meganeura/ops/reduce.hpp>
#include <meganeura/ops/state.hpp>
#include <meganeura/ops/view.hpp>
#include <meganeura/ops/when_training.hpp>
