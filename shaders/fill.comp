#version 450
// One 32-bit word repeated.
// SPDX-License-Identifier: MIT
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint count = 4;
layout(constant_id = 2) const uint word = 0;

layout(set = 0, binding = 0, std430) writeonly restrict buffer result_buffer { uint result[]; };

void main() {
  uint i = 4 * (gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * gl_WorkGroupSize.x);
  for (uint k = 0; k < 4; ++k) {
    if (i + k < count) result[i + k] = word;
  }
}
