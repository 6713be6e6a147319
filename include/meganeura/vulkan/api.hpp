// SPDX-License-Identifier: MIT
// Internal: the Vulkan C interface, what its 1.3.239 headers lack, and the tables of functions found at run time.
#pragma once
#include <meganeura/config.hpp>

#include <vulkan/vulkan_core.h>

#include <cstdint>

namespace meganeura::inline MEGANEURA_ABI::vulkan::detail {

// VK_KHR_cooperative_matrix and VK_KHR_shader_bfloat16 are younger than the oldest headers supported. The structures
// are declared under names of our own, so that newer headers cannot clash with them; layout as in the registry.
inline constexpr auto cooperative_matrix_features_type = static_cast<VkStructureType>(1000506000);
inline constexpr auto cooperative_matrix_shape_type = static_cast<VkStructureType>(1000506001);
inline constexpr auto bfloat16_features_type = static_cast<VkStructureType>(1000141000);

struct cooperative_matrix_features {
  VkStructureType sType;
  void* pNext;
  VkBool32 cooperativeMatrix;
  VkBool32 cooperativeMatrixRobustBufferAccess;
};

struct cooperative_matrix_properties {
  VkStructureType sType;
  void* pNext;
  std::uint32_t MSize, NSize, KSize;
  std::uint32_t AType, BType, CType, ResultType;  // VkComponentTypeKHR
  VkBool32 saturatingAccumulation;
  std::uint32_t scope;  // VkScopeKHR
};

struct bfloat16_features {
  VkStructureType sType;
  void* pNext;
  VkBool32 shaderBFloat16Type;
  VkBool32 shaderBFloat16DotProduct;
  VkBool32 shaderBFloat16CooperativeMatrix;
};

using get_cooperative_matrix_properties = VkResult(VKAPI_PTR*)(VkPhysicalDevice, std::uint32_t*,
                                                               cooperative_matrix_properties*);

// clang-format off
#define MEGANEURA_VULKAN_INSTANCE_FUNCTIONS(X)                                                                    \
  X(DestroyInstance) X(EnumeratePhysicalDevices) X(GetPhysicalDeviceProperties) X(GetPhysicalDeviceProperties2)   \
  X(GetPhysicalDeviceFeatures2) X(GetPhysicalDeviceMemoryProperties2) X(GetPhysicalDeviceQueueFamilyProperties)   \
  X(EnumerateDeviceExtensionProperties) X(CreateDevice) X(GetDeviceProcAddr)

#define MEGANEURA_VULKAN_DEVICE_FUNCTIONS(X)                                                                      \
  X(DestroyDevice) X(GetDeviceQueue) X(DeviceWaitIdle) X(QueueSubmit) X(CreateSemaphore) X(DestroySemaphore)      \
  X(WaitSemaphores) X(GetSemaphoreCounterValue) X(CreateBuffer) X(DestroyBuffer) X(GetBufferMemoryRequirements)   \
  X(AllocateMemory) X(FreeMemory) X(BindBufferMemory) X(MapMemory) X(GetBufferDeviceAddress) X(CreateBufferView)  \
  X(DestroyBufferView) X(CreateShaderModule) X(DestroyShaderModule) X(CreateDescriptorSetLayout)                  \
  X(DestroyDescriptorSetLayout) X(CreatePipelineLayout) X(DestroyPipelineLayout) X(CreateComputePipelines)        \
  X(DestroyPipeline) X(CreatePipelineCache) X(DestroyPipelineCache) X(GetPipelineCacheData) X(CreateDescriptorPool)\
  X(DestroyDescriptorPool) X(AllocateDescriptorSets) X(UpdateDescriptorSets) X(CreateCommandPool)                 \
  X(DestroyCommandPool) X(AllocateCommandBuffers) X(BeginCommandBuffer) X(EndCommandBuffer) X(CmdPipelineBarrier) \
  X(CmdBindPipeline) X(CmdBindDescriptorSets) X(CmdPushConstants) X(CmdDispatch) X(CmdCopyBuffer) X(CmdFillBuffer)\
  X(CreateQueryPool) X(DestroyQueryPool) X(CmdResetQueryPool) X(CmdWriteTimestamp) X(GetQueryPoolResults)
// clang-format on

#define MEGANEURA_VULKAN_MEMBER(name) PFN_vk##name name = nullptr;
struct instance_functions {
  MEGANEURA_VULKAN_INSTANCE_FUNCTIONS(MEGANEURA_VULKAN_MEMBER)
  PFN_vkCmdBeginDebugUtilsLabelEXT CmdBeginDebugUtilsLabel = nullptr;  // where the loader knows them
  PFN_vkCmdEndDebugUtilsLabelEXT CmdEndDebugUtilsLabel = nullptr;
  PFN_vkCreateDebugUtilsMessengerEXT CreateDebugUtilsMessenger = nullptr;       // only under validation
  PFN_vkDestroyDebugUtilsMessengerEXT DestroyDebugUtilsMessenger = nullptr;     // only under validation
  get_cooperative_matrix_properties GetCooperativeMatrixProperties = nullptr;   // only where the driver knows it
  PFN_vkGetPhysicalDeviceCalibrateableTimeDomainsEXT GetTimeDomains = nullptr;  // the same
};

struct device_functions {
  MEGANEURA_VULKAN_DEVICE_FUNCTIONS(MEGANEURA_VULKAN_MEMBER)
  PFN_vkCmdPushDescriptorSetKHR CmdPushDescriptorSet = nullptr;        // only where facts have push descriptors
  PFN_vkGetCalibratedTimestampsEXT GetCalibratedTimestamps = nullptr;  // only of a device that writes a trace
};
#undef MEGANEURA_VULKAN_MEMBER

/// Calls visit(member, "vkName") for each required function.
template <class Visitor>
void visit_functions(instance_functions& table, Visitor visit) {
#define MEGANEURA_VULKAN_VISIT(name) visit(table.name, "vk" #name);
  MEGANEURA_VULKAN_INSTANCE_FUNCTIONS(MEGANEURA_VULKAN_VISIT)
}

template <class Visitor>
void visit_functions(device_functions& table, Visitor visit) {
  MEGANEURA_VULKAN_DEVICE_FUNCTIONS(MEGANEURA_VULKAN_VISIT)
#undef MEGANEURA_VULKAN_VISIT
}

#undef MEGANEURA_VULKAN_INSTANCE_FUNCTIONS
#undef MEGANEURA_VULKAN_DEVICE_FUNCTIONS

[[nodiscard]] constexpr const char* result_name(VkResult result) {
  switch (result) {
    // clang-format off
    case VK_SUCCESS: return "VK_SUCCESS";
    case VK_NOT_READY: return "VK_NOT_READY";
    case VK_TIMEOUT: return "VK_TIMEOUT";
    case VK_INCOMPLETE: return "VK_INCOMPLETE";
    case VK_ERROR_OUT_OF_HOST_MEMORY: return "VK_ERROR_OUT_OF_HOST_MEMORY";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY: return "VK_ERROR_OUT_OF_DEVICE_MEMORY";
    case VK_ERROR_INITIALIZATION_FAILED: return "VK_ERROR_INITIALIZATION_FAILED";
    case VK_ERROR_DEVICE_LOST: return "VK_ERROR_DEVICE_LOST";
    case VK_ERROR_MEMORY_MAP_FAILED: return "VK_ERROR_MEMORY_MAP_FAILED";
    case VK_ERROR_LAYER_NOT_PRESENT: return "VK_ERROR_LAYER_NOT_PRESENT";
    case VK_ERROR_EXTENSION_NOT_PRESENT: return "VK_ERROR_EXTENSION_NOT_PRESENT";
    case VK_ERROR_FEATURE_NOT_PRESENT: return "VK_ERROR_FEATURE_NOT_PRESENT";
    case VK_ERROR_INCOMPATIBLE_DRIVER: return "VK_ERROR_INCOMPATIBLE_DRIVER";
    case VK_ERROR_TOO_MANY_OBJECTS: return "VK_ERROR_TOO_MANY_OBJECTS";
    case VK_ERROR_FRAGMENTED_POOL: return "VK_ERROR_FRAGMENTED_POOL";
    case VK_ERROR_OUT_OF_POOL_MEMORY: return "VK_ERROR_OUT_OF_POOL_MEMORY";
    case VK_ERROR_FRAGMENTATION: return "VK_ERROR_FRAGMENTATION";
    case VK_ERROR_INVALID_SHADER_NV: return "VK_ERROR_INVALID_SHADER_NV";
    case VK_ERROR_UNKNOWN: return "VK_ERROR_UNKNOWN";
    // clang-format on
    default:
      return "a Vulkan result without a name here";
  }
}

}  // namespace meganeura::inline MEGANEURA_ABI::vulkan::detail
