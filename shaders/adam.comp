#version 450
#extension GL_GOOGLE_include_directive : require
// Adam and AdamW as PyTorch has them: epsilon is added to the root of the corrected second moment.
// SPDX-License-Identifier: MIT
layout(local_size_x_id = 0) in;
#define STEP_BINDING 4
#include "step_values.glsl"
layout(constant_id = 2) const uint decoupled = 0;  // 1: AdamW shrinks the parameter, 0: Adam adds the decay to the gradient
// Whole groups of four; the last elements go one by one through the same bindings.
layout(set = 0, binding = 0, std430) buffer parameters { float p[]; };
layout(set = 0, binding = 0, std430) buffer parameters4 { vec4 p4[]; };
layout(set = 0, binding = 1, std430) readonly buffer gradients { float g[]; };
layout(set = 0, binding = 1, std430) readonly buffer gradients4 { vec4 g4[]; };
layout(set = 0, binding = 2, std430) buffer first_moments { float m[]; };
layout(set = 0, binding = 2, std430) buffer first_moments4 { vec4 m4[]; };
layout(set = 0, binding = 3, std430) buffer second_moments { float v[]; };
layout(set = 0, binding = 3, std430) buffer second_moments4 { vec4 v4[]; };

void update(inout vec4 value, vec4 gradient, inout vec4 first, inout vec4 second) {
  if (decoupled != 0) value *= 1.0 - now.learning_rate * now.weight_decay;
  else gradient += now.weight_decay * value;
  first = now.beta1 * first + (1.0 - now.beta1) * gradient;
  second = now.beta2 * second + (1.0 - now.beta2) * gradient * gradient;
  vec4 root = sqrt(second) / sqrt(now.bias_correction2) + now.epsilon;
  value -= now.learning_rate / now.bias_correction1 * (first / root);
}

void main() {
  uint i = first_element();
  if (i + 4 <= count) {
    uint at = i / 4;
    vec4 value = p4[at], first = m4[at], second = v4[at];
    update(value, g4[at], first, second);
    p4[at] = value;
    m4[at] = first;
    v4[at] = second;
    return;
  }
  for (; i < count; ++i) {
    vec4 value = vec4(p[i]), first = vec4(m[i]), second = vec4(v[i]);
    update(value, vec4(g[i]), first, second);
    p[i] = value.x;
    m[i] = first.x;
    v[i] = second.x;
  }
}
