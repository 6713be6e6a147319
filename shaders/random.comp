#version 450
#extension GL_GOOGLE_include_directive : require
// Counter-based random numbers, Philox 4x32-10: the layout is written down in include/meganeura/kernels/philox.hpp.
// SPDX-License-Identifier: MIT
layout(local_size_x_id = 0) in;
#define STEP_BINDING 1
#include "step_values.glsl"
layout(constant_id = 2) const uint stream = 0;        // hash of the stream's name
layout(constant_id = 3) const uint distribution = 0;  // 0 uniform, 1 normal

layout(set = 0, binding = 0, std430) writeonly restrict buffer result_buffer { float result[]; };

uvec4 philox(uvec4 counter, uvec2 key) {
  for (int round = 0; round < 10; ++round) {
    uint high0, low0, high1, low1;
    umulExtended(0xD2511F53u, counter.x, high0, low0);
    umulExtended(0xCD9E8D57u, counter.z, high1, low1);
    counter = uvec4(high1 ^ counter.y ^ key.x, low1, high0 ^ counter.w ^ key.y, low0);
    key += uvec2(0x9E3779B9u, 0xBB67AE85u);
  }
  return counter;
}

// 2 pi v for v in [0, 1): the quadrant comes off exactly, so that the polynomials see |x| <= pi / 4 only. Drivers' own sine
// and cosine are accurate in absolute terms alone.
vec2 cos_sin_turn(float v) {
  float quarter = roundEven(4.0 * v);
  float x = (v - 0.25 * quarter) * 6.283185307179586;
  float z = x * x;
  float s = x + x * z * (-0.16666667 + z * (0.008333307 + z * -0.00019807414));
  float c = 1.0 + z * (-0.5 + z * (0.041666646 + z * (-0.0013887316 + z * 2.4433157e-05)));
  int q = int(quarter) & 3;
  return q == 0 ? vec2(c, s) : q == 1 ? vec2(-s, c) : q == 2 ? vec2(-c, -s) : vec2(s, -c);
}

// log u for u in (0, 1]: near 1 drivers' logarithms lose all relative accuracy, and sqrt(-2 log u) with them.
float log_of(float u) {
  float d = u - 1.0;  // exact from 1/2 on
  float near = d * (1.0 + d * (-0.5 + d * (0.33333334 + d * (-0.25 + d * (0.2 + d * -0.16666667)))));
  return u > 0.96875 ? near : log(u);
}

vec2 normal_pair(uint first, uint second) {
  float u = (float(first >> 8) + 1.0) * 5.9604644775390625e-08;
  float v = float(second >> 8) * 5.9604644775390625e-08;
  return sqrt(-2.0 * log_of(u)) * cos_sin_turn(v);
}

void main() {
  uint i = first_element();
  if (i >= count) return;
  uvec4 words = philox(uvec4(i / 4, 0, stream, now.step), uvec2(now.seed_low, now.seed_high));
  vec4 values = vec4(words >> 8) * 5.9604644775390625e-08;
  if (distribution == 1) values = vec4(normal_pair(words.x, words.y), normal_pair(words.z, words.w));
  for (uint k = 0; k < 4; ++k) {
    if (i + k < count) result[i + k] = values[k];
  }
}
