// SPDX-License-Identifier: MIT
// Models, training, inference, data. `frontend.hpp` is the part that only types models; ready-made ones are in models/.
#pragma once
#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/core/log.hpp>
#include <meganeura/data/loader.hpp>
#include <meganeura/data/mnist.hpp>
#include <meganeura/expr/summary.hpp>
#include <meganeura/graph/graph.hpp>
#include <meganeura/io/safetensors.hpp>
#include <meganeura/operations.hpp>
#include <meganeura/runtime/device.hpp>
#include <meganeura/runtime/fold_batch_norms.hpp>
#include <meganeura/runtime/gradient.hpp>
#include <meganeura/runtime/parameters.hpp>
#include <meganeura/runtime/progress.hpp>
#include <meganeura/runtime/session.hpp>
#include <meganeura/runtime/trainer.hpp>
