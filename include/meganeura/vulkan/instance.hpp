// SPDX-License-Identifier: MIT
// Internal: finding the Vulkan loader, one instance of it with optional validation, and the facts of its devices.
#pragma once
#include <meganeura/config.hpp>
#include <meganeura/core/error.hpp>
#include <meganeura/core/log.hpp>
#include <meganeura/vulkan/api.hpp>
#include <meganeura/vulkan/facts.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::vulkan::detail {

/// Throws what `result` means as a sentence; success and the other non-negative results are the caller's business.
[[noreturn]] void throw_result(VkResult result, const char* call);

inline void require(VkResult result, const char* call) {
  if (result < VK_SUCCESS) throw_result(result, call);
}

/// True when the variable is set, not empty and not "0".
[[nodiscard]] bool environment_switch(const char* name);

/// Opens the loader library and returns its one exported function that everything else comes from.
/// environment: MEGANEURA_VULKAN_LIBRARY names another library or path. errors: no_device.
[[nodiscard]] PFN_vkGetInstanceProcAddr open_loader();

/// Keeps NVIDIA's driver libraries in the process once they are loaded. The loader closes a driver with its instance,
/// and each reload takes static thread-local storage that is never given back: with driver 580.159 the 31st instance of
/// a process failed with VK_ERROR_INCOMPATIBLE_DRIVER ("cannot allocate memory in static TLS block"). All of them are
/// kept: keeping only some ended in a double free. Delete this when a hundred devices opened in turn work without it.
void keep_driver_loaded();

/// One VkInstance. Every device owns its own, so that validation messages are counted where they belong.
class instance {
 public:
  instance(bool validation, log_sink log);
  ~instance();
  instance(const instance&) = delete;
  instance& operator=(const instance&) = delete;

  [[nodiscard]] std::vector<VkPhysicalDevice> physical_devices() const;
  [[nodiscard]] std::uint64_t messages() const { return messages_; }
  /// One call at a time, and nothing is thrown.
  [[nodiscard]] const log_sink& log() const { return log_; }

  instance_functions call;

 private:
  void create(PFN_vkGetInstanceProcAddr get, bool validation);
  void load_functions(PFN_vkGetInstanceProcAddr get, bool validation);
  void add_messenger();
  static VKAPI_ATTR VkBool32 VKAPI_CALL receive(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                VkDebugUtilsMessageTypeFlagsEXT types,
                                                const VkDebugUtilsMessengerCallbackDataEXT* data, void* user);

  log_sink log_;
  std::atomic<std::uint64_t> messages_{0};
  VkInstance handle_ = VK_NULL_HANDLE;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
};

/// The features this library looks at, chained for a query or for device creation. Not copyable: it points to itself.
struct feature_chain {
  VkPhysicalDeviceFeatures2 base{};
  VkPhysicalDeviceVulkan11Features v11{};
  VkPhysicalDeviceVulkan12Features v12{};
  VkPhysicalDeviceVulkan13Features v13{};
  VkPhysicalDeviceSubgroupSizeControlFeatures subgroup_sizes{};  // before 1.3, where v13 has it
  VkPhysicalDevicePipelineRobustnessFeaturesEXT robustness{};
  VkPhysicalDeviceShaderAtomicFloatFeaturesEXT atomic_float{};
  VkPhysicalDeviceWorkgroupMemoryExplicitLayoutFeaturesKHR workgroup_layout{};
  cooperative_matrix_features cooperative_matrix{};
  bfloat16_features bfloat16{};

  feature_chain() = default;
  feature_chain(const feature_chain&) = delete;
  feature_chain& operator=(const feature_chain&) = delete;
  void link(std::uint32_t api_version, const std::vector<std::string>& extensions);
  [[nodiscard]] bool has_workgroup_layout() const {
    return workgroup_layout.workgroupMemoryExplicitLayout != 0 &&
           workgroup_layout.workgroupMemoryExplicitLayout8BitAccess != 0 &&
           workgroup_layout.workgroupMemoryExplicitLayout16BitAccess != 0;
  }
  [[nodiscard]] bool subgroup_size_control() const {
    return v13.subgroupSizeControl != 0 || subgroup_sizes.subgroupSizeControl != 0;
  }
  [[nodiscard]] bool full_subgroups() const {
    return v13.computeFullSubgroups != 0 || subgroup_sizes.computeFullSubgroups != 0;
  }
};

[[nodiscard]] bool contains(const std::vector<std::string>& list, const char* name);
[[nodiscard]] std::vector<std::string> device_extensions(const instance& owner, VkPhysicalDevice physical);

/// The one of VK_EXT_calibrated_timestamps and its twin of VK_KHR that a driver offers; null if none. Both are the
/// same but for the names of their functions.
[[nodiscard]] const char* calibration_extension(const std::vector<std::string>& extensions);

/// A queue family for compute: one without graphics where there is one; -1 if none.
[[nodiscard]] int find_compute_family(const instance& owner, VkPhysicalDevice physical);

[[nodiscard]] device_facts query_facts(const instance& owner, VkPhysicalDevice physical, std::uint32_t index);

}  // namespace meganeura::inline MEGANEURA_ABI::vulkan::detail

#if MEGANEURA_HEADER_ONLY
#include <meganeura/vulkan/instance.ipp>
#endif
