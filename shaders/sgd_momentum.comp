#version 450
#extension GL_GOOGLE_include_directive : require
// Gradient descent with momentum as PyTorch has it (no dampening): m = momentum * m + g + decay * p, p -= rate * m.
// SPDX-License-Identifier: MIT
layout(local_size_x_id = 0) in;
#define STEP_BINDING 3
#include "step_values.glsl"
layout(set = 0, binding = 0, std430) restrict buffer parameters { float p[]; };
layout(set = 0, binding = 1, std430) readonly restrict buffer gradients { float g[]; };
layout(set = 0, binding = 2, std430) restrict buffer moments { float m[]; };

void main() {
  uint first = first_element();
  for (uint i = first; i < min(first + 4, count); ++i) {
    float moment = now.momentum * m[i] + (g[i] + now.weight_decay * p[i]);
    m[i] = moment;
    p[i] -= now.learning_rate * moment;
  }
}
