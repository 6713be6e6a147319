// What random numbers need of meganeura::kernels::step_values (std140, 4-byte members only). A uniform buffer: Adam's
// four arrays are all the storage buffers that Vulkan guarantees.
// Include after defining STEP_BINDING.
layout(set = 0, binding = STEP_BINDING, std140) uniform step_buffer {
  uint step;
  uint seed_low, seed_high;
} now;

// Up to 4 elements an invocation; workgroups are spread over x and y.
layout(constant_id = 1) const uint count = 4;
uint first_element() {
  return 4 * (gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * gl_WorkGroupSize.x);
}
