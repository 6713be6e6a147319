#version 450
#extension GL_GOOGLE_include_directive : require
// Gradient descent without momentum: p -= rate * (g + decay * p).
// SPDX-License-Identifier: MIT
layout(local_size_x_id = 0) in;
#define STEP_BINDING 2
#include "step_values.glsl"
layout(set = 0, binding = 0, std430) restrict buffer parameters { float p[]; };
layout(set = 0, binding = 1, std430) readonly restrict buffer gradients { float g[]; };

void main() {
  uint first = first_element();
  for (uint i = first; i < min(first + 4, count); ++i) {
    p[i] -= now.learning_rate * (g[i] + now.weight_decay * p[i]);
  }
}
