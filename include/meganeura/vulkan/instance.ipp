// SPDX-License-Identifier: MIT
// The loader, the instance with its validation messages, and the questions put to a physical device.
#pragma once
#include <meganeura/vulkan/instance.hpp>

#include <dlfcn.h>
#if defined(__linux__)
#include <link.h>
#endif

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <thread>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::vulkan::detail {

MEGANEURA_INLINE void throw_result(VkResult result, const char* call) {
  const char* name = result_name(result);
  switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
      fail(error_category::out_of_memory, "{} ran out of host memory ({}); free memory and try again", call, name);
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
      fail(error_category::out_of_memory, "{} ran out of device memory ({}); use a smaller batch or model", call, name);
    case VK_ERROR_DEVICE_LOST:
      fail(error_category::device_lost, "{} reports that the device is lost ({}); open the device anew", call, name);
    case VK_ERROR_INITIALIZATION_FAILED:
    case VK_ERROR_INCOMPATIBLE_DRIVER:
      fail(error_category::no_device, "{} found no working driver ({}); check the installed Vulkan drivers", call,
           name);
    case VK_ERROR_LAYER_NOT_PRESENT:
    case VK_ERROR_EXTENSION_NOT_PRESENT:
    case VK_ERROR_FEATURE_NOT_PRESENT:
      fail(error_category::unsupported, "{} was refused ({}); the driver lacks what was asked for", call, name);
    case VK_ERROR_UNKNOWN:
      fail(error_category::unsupported, "{} failed in the driver, which gave no reason ({}); try another driver", call,
           name);
    default:
      fail(error_category::internal, "{} failed with {} ({})", call, name, static_cast<int>(result));
  }
}

MEGANEURA_INLINE bool environment_switch(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' && std::string_view(text) != "0";
}

MEGANEURA_INLINE PFN_vkGetInstanceProcAddr open_loader() {
  const char* wish = std::getenv("MEGANEURA_VULKAN_LIBRARY");
#if defined(__APPLE__)
  std::vector<const char*> names{"libvulkan.1.dylib", "libMoltenVK.dylib"};
#else
  std::vector<const char*> names{"libvulkan.so.1", "libvulkan.so"};
#endif
  if (wish != nullptr && *wish != '\0') names = {wish};
  for (const char* name : names) {
    // Never closed, by RTLD_NODELETE: drivers leave threads and thread-local destructors behind that outlive a dlclose.
    void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr) continue;
    void* symbol = dlsym(library, "vkGetInstanceProcAddr");
    dlclose(library);
    if (symbol != nullptr) return reinterpret_cast<PFN_vkGetInstanceProcAddr>(symbol);
  }
  fail(error_category::no_device,
       "the Vulkan loader {} could not be opened; install it (Debian: libvulkan1, and a driver such as "
       "mesa-vulkan-drivers), or name it in MEGANEURA_VULKAN_LIBRARY",
       names.front());
}

MEGANEURA_INLINE void keep_driver_loaded() {
#if defined(__linux__)
  struct collection {
    std::vector<std::string> names{};
    bool failed = false;
  } found;
  const auto collect = [](dl_phdr_info* item, std::size_t, void* list) {
    collection& into = *static_cast<collection*>(list);
    try {  // nothing may be thrown through the C library, which holds its lock here
      if (item->dlpi_name != nullptr) into.names.emplace_back(item->dlpi_name);
    } catch (...) {
      into.failed = true;
    }
    return into.failed ? 1 : 0;
  };
  dl_iterate_phdr(collect, &found);
  if (found.failed) throw std::bad_alloc();
  for (const std::string& name : found.names) {
    if (name.find("nvidia") == std::string::npos) continue;
    if (void* library = dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE)) dlclose(library);
  }
#endif
}

inline bool has_layer(PFN_vkGetInstanceProcAddr get, const char* name) {
  const auto list = reinterpret_cast<PFN_vkEnumerateInstanceLayerProperties>(
      get(VK_NULL_HANDLE, "vkEnumerateInstanceLayerProperties"));
  std::uint32_t count = 0;
  if (list == nullptr || list(&count, nullptr) != VK_SUCCESS) return false;
  std::vector<VkLayerProperties> layers(count);
  if (list(&count, layers.data()) < VK_SUCCESS) return false;
  return std::any_of(layers.begin(), layers.end(),
                     [name](const VkLayerProperties& layer) { return std::strcmp(layer.layerName, name) == 0; });
}

inline bool has_instance_extension(PFN_vkGetInstanceProcAddr get, const char* layer, const char* name) {
  const auto list = reinterpret_cast<PFN_vkEnumerateInstanceExtensionProperties>(
      get(VK_NULL_HANDLE, "vkEnumerateInstanceExtensionProperties"));
  std::uint32_t count = 0;
  if (list == nullptr || list(layer, &count, nullptr) != VK_SUCCESS) return false;
  std::vector<VkExtensionProperties> found(count);
  if (list(layer, &count, found.data()) < VK_SUCCESS) return false;
  return std::any_of(found.begin(), found.end(),
                     [name](const VkExtensionProperties& item) { return std::strcmp(item.extensionName, name) == 0; });
}

/// The highest version both sides know, 1.3 at most. A 1.0 loader has no vkEnumerateInstanceVersion.
inline std::uint32_t instance_version(PFN_vkGetInstanceProcAddr get) {
  const auto ask = reinterpret_cast<PFN_vkEnumerateInstanceVersion>(get(VK_NULL_HANDLE, "vkEnumerateInstanceVersion"));
  std::uint32_t version = VK_API_VERSION_1_0;
  if (ask != nullptr) ask(&version);
  if (version < VK_API_VERSION_1_1) {
    fail(error_category::unsupported, "the Vulkan loader is of version 1.0 and 1.1 is needed; install a newer one");
  }
  return std::min<std::uint32_t>(version, VK_API_VERSION_1_3);
}

inline constexpr const char* validation_layer = "VK_LAYER_KHRONOS_validation";

/// A sink that waits for its turn and keeps what it throws: it is called by destructors and by the validation layer.
inline log_sink guarded(log_sink sink) {
  if (!sink) return {};
  return [sink = std::move(sink), turn = std::make_shared<std::recursive_mutex>()](log_level level,
                                                                                   std::string_view text) {
    try {
      const std::lock_guard lock(*turn);
      sink(level, text);
    } catch (...) {
    }
  };
}

MEGANEURA_INLINE instance::instance(bool validation, log_sink log) : log_(guarded(std::move(log))) {
  const PFN_vkGetInstanceProcAddr get = open_loader();
  if (validation && !has_layer(get, validation_layer)) {
    fail(error_category::unsupported,
         "validation was asked for and {} is not installed; install it (Debian: vulkan-validationlayers) or unset "
         "MEGANEURA_VALIDATION",
         validation_layer);
  }
  create(get, validation);
  try {
    load_functions(get, validation);
    if (validation) add_messenger();
    keep_driver_loaded();
  } catch (...) {
    if (call.DestroyInstance != nullptr) call.DestroyInstance(handle_, nullptr);
    throw;
  }
}

MEGANEURA_INLINE void instance::create(PFN_vkGetInstanceProcAddr get, bool validation) {
  VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO, nullptr, "meganeura", 0, "meganeura", 0, 0};
  application.apiVersion = instance_version(get);
  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;
  std::vector<const char*> extensions;
  constexpr const char* portability = "VK_KHR_portability_enumeration";
  if (has_instance_extension(get, nullptr, portability)) {  // MoltenVK hides its device otherwise
    extensions.push_back(portability);
    info.flags = 0x1;  // VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR
  }
  if (has_instance_extension(get, nullptr, VK_EXT_DEBUG_UTILS_EXTENSION_NAME) || validation) {  // debuggers show labels
    extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
  }
  constexpr VkValidationFeatureEnableEXT enabled[] = {VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
  const VkValidationFeaturesEXT features{VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT, nullptr, 1, enabled, 0, nullptr};
  if (validation) {
    extensions.push_back(VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME);
    info.ppEnabledLayerNames = &validation_layer;
    info.enabledLayerCount = 1;
    info.pNext = &features;
  }
  info.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  const auto make = reinterpret_cast<PFN_vkCreateInstance>(get(VK_NULL_HANDLE, "vkCreateInstance"));
  if (make == nullptr) fail(error_category::no_device, "the Vulkan loader has no vkCreateInstance; reinstall it");
  require(make(&info, nullptr, &handle_), "vkCreateInstance");
}

MEGANEURA_INLINE instance::~instance() {
  if (messenger_ != VK_NULL_HANDLE) call.DestroyDebugUtilsMessenger(handle_, messenger_, nullptr);
  if (call.DestroyInstance != nullptr) call.DestroyInstance(handle_, nullptr);
}

MEGANEURA_INLINE void instance::load_functions(PFN_vkGetInstanceProcAddr get, bool validation) {
  const auto load = [this, get](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(get(handle_, name));
  };
  visit_functions(call, [&load](auto& function, const char* name) {
    load(function, name);
    if (function == nullptr) {
      fail(error_category::unsupported, "the Vulkan loader lacks {}; install a loader of version 1.1 or later", name);
    }
  });
  load(call.GetCooperativeMatrixProperties, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
  load(call.GetTimeDomains, "vkGetPhysicalDeviceCalibrateableTimeDomainsEXT");
  if (call.GetTimeDomains == nullptr) load(call.GetTimeDomains, "vkGetPhysicalDeviceCalibrateableTimeDomainsKHR");
  load(call.CmdBeginDebugUtilsLabel, "vkCmdBeginDebugUtilsLabelEXT");
  load(call.CmdEndDebugUtilsLabel, "vkCmdEndDebugUtilsLabelEXT");
  if (!validation) return;
  load(call.CreateDebugUtilsMessenger, "vkCreateDebugUtilsMessengerEXT");
  load(call.DestroyDebugUtilsMessenger, "vkDestroyDebugUtilsMessengerEXT");
}

MEGANEURA_INLINE void instance::add_messenger() {
  VkDebugUtilsMessengerCreateInfoEXT info{};
  info.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
  info.messageSeverity =
      VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  // Not the "general" type: the loader reports drivers without hardware there, which is nobody's mistake.
  info.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT;
  info.pfnUserCallback = &instance::receive;
  info.pUserData = this;
  require(call.CreateDebugUtilsMessenger(handle_, &info, nullptr, &messenger_), "vkCreateDebugUtilsMessengerEXT");
}

MEGANEURA_INLINE VKAPI_ATTR VkBool32 VKAPI_CALL instance::receive(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                                  VkDebugUtilsMessageTypeFlagsEXT,
                                                                  const VkDebugUtilsMessengerCallbackDataEXT* data,
                                                                  void* user) {
  instance& self = *static_cast<instance*>(user);
  ++self.messages_;
  const bool is_error = severity >= VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  if (self.log_) self.log_(is_error ? log_level::error : log_level::warning, data->pMessage);
  return VK_FALSE;
}

MEGANEURA_INLINE std::vector<VkPhysicalDevice> instance::physical_devices() const {
  std::uint32_t count = 0;
  const VkResult result = call.EnumeratePhysicalDevices(handle_, &count, nullptr);
  if (result == VK_ERROR_INITIALIZATION_FAILED) return {};  // what some loaders say when no driver has a device
  require(result, "vkEnumeratePhysicalDevices");
  std::vector<VkPhysicalDevice> devices(count);
  require(call.EnumeratePhysicalDevices(handle_, &count, devices.data()), "vkEnumeratePhysicalDevices");
  devices.resize(count);
  return devices;
}

/// Appends structures to a pNext chain.
struct chain_builder {
  void** tail;
  template <class Structure>
  void add(Structure& structure, VkStructureType type) {
    structure.sType = type;
    structure.pNext = nullptr;
    *tail = &structure;
    tail = &structure.pNext;
  }
};

MEGANEURA_INLINE bool contains(const std::vector<std::string>& list, const char* name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

MEGANEURA_INLINE void feature_chain::link(std::uint32_t api_version, const std::vector<std::string>& extensions) {
  base.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  chain_builder chain{&base.pNext};
  chain.add(v11, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES);
  chain.add(v12, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
  if (api_version >= VK_API_VERSION_1_3) chain.add(v13, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES);
  if (api_version < VK_API_VERSION_1_3 && contains(extensions, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME)) {
    chain.add(subgroup_sizes, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES);
  }
  if (contains(extensions, "VK_EXT_pipeline_robustness")) {
    chain.add(robustness, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_ROBUSTNESS_FEATURES_EXT);
  }
  if (contains(extensions, "VK_EXT_shader_atomic_float")) {
    chain.add(atomic_float, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_FEATURES_EXT);
  }
  if (contains(extensions, "VK_KHR_workgroup_memory_explicit_layout")) {
    chain.add(workgroup_layout, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_WORKGROUP_MEMORY_EXPLICIT_LAYOUT_FEATURES_KHR);
  }
  if (contains(extensions, "VK_KHR_cooperative_matrix")) {
    chain.add(cooperative_matrix, cooperative_matrix_features_type);
  }
  if (contains(extensions, "VK_KHR_shader_bfloat16")) chain.add(bfloat16, bfloat16_features_type);
}

MEGANEURA_INLINE std::vector<std::string> device_extensions(const instance& owner, VkPhysicalDevice physical) {
  std::uint32_t count = 0;
  const auto list = owner.call.EnumerateDeviceExtensionProperties;
  require(list(physical, nullptr, &count, nullptr), "vkEnumerateDeviceExtensionProperties");
  std::vector<VkExtensionProperties> found(count);
  require(list(physical, nullptr, &count, found.data()), "vkEnumerateDeviceExtensionProperties");
  std::vector<std::string> names;
  for (const VkExtensionProperties& extension : found) names.emplace_back(extension.extensionName);
  return names;
}

MEGANEURA_INLINE const char* calibration_extension(const std::vector<std::string>& extensions) {
  for (const char* name : {"VK_EXT_calibrated_timestamps", "VK_KHR_calibrated_timestamps"}) {
    if (contains(extensions, name)) return name;
  }
  return nullptr;
}

inline std::vector<VkQueueFamilyProperties> queue_families(const instance& owner, VkPhysicalDevice physical) {
  std::uint32_t count = 0;
  owner.call.GetPhysicalDeviceQueueFamilyProperties(physical, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  owner.call.GetPhysicalDeviceQueueFamilyProperties(physical, &count, families.data());
  return families;
}

MEGANEURA_INLINE int find_compute_family(const instance& owner, VkPhysicalDevice physical) {
  int any = -1;
  const std::vector<VkQueueFamilyProperties> families = queue_families(owner, physical);
  for (std::size_t i = 0; i < families.size(); ++i) {
    const VkQueueFlags flags = families[i].queueFlags;
    if ((flags & VK_QUEUE_COMPUTE_BIT) == 0) continue;
    if ((flags & VK_QUEUE_GRAPHICS_BIT) == 0) return static_cast<int>(i);
    if (any < 0) any = static_cast<int>(i);
  }
  return any;
}

inline void read_limits(device_facts& facts, const VkPhysicalDeviceLimits& limits) {
  facts.max_shared_bytes = limits.maxComputeSharedMemorySize;
  facts.max_workgroup_invocations = limits.maxComputeWorkGroupInvocations;
  std::copy_n(limits.maxComputeWorkGroupSize, 3, facts.max_workgroup_size.begin());
  std::copy_n(limits.maxComputeWorkGroupCount, 3, facts.max_workgroup_count.begin());
  facts.max_storage_buffers = std::min(limits.maxPerStageDescriptorStorageBuffers, limits.maxPerStageResources);
  facts.max_texel_buffers = std::min(limits.maxPerStageDescriptorSampledImages, limits.maxPerStageResources);
  facts.max_uniform_buffers = std::min(limits.maxPerStageDescriptorUniformBuffers, limits.maxPerStageResources);
  facts.max_allocations = limits.maxMemoryAllocationCount;
  facts.max_storage_range = limits.maxStorageBufferRange;
  facts.max_texel_elements = limits.maxTexelBufferElements;
  facts.storage_alignment = std::max<std::uint64_t>(limits.minStorageBufferOffsetAlignment, 4);
  facts.texel_alignment = std::max<std::uint64_t>(limits.minTexelBufferOffsetAlignment, 16);
  facts.uniform_alignment = std::max<std::uint64_t>(limits.minUniformBufferOffsetAlignment, 4);
  facts.timestamp_period = static_cast<double>(limits.timestampPeriod);
}

inline void read_identity(device_facts& facts, const VkPhysicalDeviceProperties& properties) {
  facts.name = properties.deviceName;
  facts.type = static_cast<device_type>(properties.deviceType);
  facts.vendor_id = properties.vendorID;
  facts.device_id = properties.deviceID;
  facts.driver_version = properties.driverVersion;
  facts.api_version = properties.apiVersion;
  std::copy_n(properties.pipelineCacheUUID, VK_UUID_SIZE, facts.pipeline_cache_uuid.begin());
  read_limits(facts, properties.limits);
}

inline std::uint32_t guess_compute_units(device_type type) {
  if (type == device_type::cpu) return std::max(1U, std::thread::hardware_concurrency());
  return type == device_type::discrete_gpu ? 32 : 8;  // the order of magnitude of a middling card of its class
}

/// `sizes` is the extension's structure before Vulkan 1.3, zeros where the driver has neither: then nothing is known of
/// the sizes a pipeline may run with, one size for all is no more than a habit.
inline void read_subgroups(device_facts& facts, const VkPhysicalDeviceVulkan11Properties& v11,
                           const VkPhysicalDeviceSubgroupSizeControlProperties& sizes) {
  facts.subgroup_size = v11.subgroupSize;
  facts.min_subgroup_size = sizes.minSubgroupSize != 0 ? sizes.minSubgroupSize : 1;
  facts.max_subgroup_size = sizes.maxSubgroupSize != 0 ? sizes.maxSubgroupSize : v11.subgroupSize;
  facts.max_workgroup_subgroups = sizes.maxComputeWorkgroupSubgroups;
  facts.has_subgroup_size_control = (sizes.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0;
  const bool in_compute = (v11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0;
  facts.subgroup_operations = in_compute ? v11.subgroupSupportedOperations : 0;
}

inline void query_properties(device_facts& facts, const instance& owner, VkPhysicalDevice physical,
                             const std::vector<std::string>& extensions) {
  VkPhysicalDeviceProperties2 base{};
  VkPhysicalDeviceVulkan11Properties v11{};
  VkPhysicalDeviceVulkan12Properties v12{};
  VkPhysicalDeviceVulkan13Properties v13{};
  VkPhysicalDeviceSubgroupSizeControlProperties sizes{};
  VkPhysicalDevicePushDescriptorPropertiesKHR push{};
  VkPhysicalDeviceShaderSMBuiltinsPropertiesNV nvidia{};
  VkPhysicalDeviceShaderCorePropertiesAMD amd{};
  base.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  chain_builder chain{&base.pNext};
  chain.add(v11, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES);
  chain.add(v12, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES);
  const bool is_1_3 = facts.api_version >= VK_API_VERSION_1_3;
  if (is_1_3) chain.add(v13, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES);
  if (is_1_3 || contains(extensions, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME)) {
    chain.add(sizes, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES);
  }
  if (contains(extensions, VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME))
    chain.add(push, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PUSH_DESCRIPTOR_PROPERTIES_KHR);
  if (contains(extensions, "VK_NV_shader_sm_builtins")) {
    chain.add(nvidia, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV);
  }
  if (contains(extensions, "VK_AMD_shader_core_properties")) {
    chain.add(amd, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD);
  }
  owner.call.GetPhysicalDeviceProperties2(physical, &base);
  facts.max_push_descriptors = push.maxPushDescriptors;
  facts.driver = fmt::format("{} {}", v12.driverName, v12.driverInfo);
  facts.driver_id = static_cast<std::uint32_t>(v12.driverID);
  facts.has_special_values = v12.shaderSignedZeroInfNanPreserveFloat32;
  std::copy_n(v11.deviceUUID, VK_UUID_SIZE, facts.device_uuid.begin());
  std::copy_n(v11.driverUUID, VK_UUID_SIZE, facts.driver_uuid.begin());
  read_subgroups(facts, v11, sizes);
  facts.max_buffer_bytes = v11.maxMemoryAllocationSize;
  if (v13.maxBufferSize != 0)
    facts.max_buffer_bytes = std::min<std::uint64_t>(facts.max_buffer_bytes, v13.maxBufferSize);
  const std::uint32_t amd_units =
      amd.shaderEngineCount * amd.shaderArraysPerEngineCount * amd.computeUnitsPerShaderArray;
  facts.compute_units = nvidia.shaderSMCount != 0 ? nvidia.shaderSMCount
                        : amd_units != 0          ? amd_units
                                                  : guess_compute_units(facts.type);
}

inline void query_features(device_facts& facts, const instance& owner, VkPhysicalDevice physical,
                           const std::vector<std::string>& extensions) {
  feature_chain features;
  features.link(facts.api_version, extensions);
  owner.call.GetPhysicalDeviceFeatures2(physical, &features.base);
  facts.has_16bit_storage = features.v11.storageBuffer16BitAccess;
  facts.has_8bit_storage = features.v12.storageBuffer8BitAccess;
  facts.has_f16 = features.v12.shaderFloat16 && facts.has_16bit_storage;
  facts.has_bf16 = features.bfloat16.shaderBFloat16Type && features.bfloat16.shaderBFloat16CooperativeMatrix;
  facts.has_int8 = features.v12.shaderInt8 && facts.has_8bit_storage;
  facts.has_int16 = features.base.features.shaderInt16 && facts.has_16bit_storage;
  facts.has_int64 = features.base.features.shaderInt64;
  facts.has_float64 = features.base.features.shaderFloat64;
  facts.has_float_atomics = features.atomic_float.shaderBufferFloat32AtomicAdd;
  facts.has_integer_dot = features.v13.shaderIntegerDotProduct;
  facts.has_cooperative_matrix = features.cooperative_matrix.cooperativeMatrix;
  facts.has_workgroup_layout = features.has_workgroup_layout();
  facts.has_memory_model = features.v12.vulkanMemoryModel;
  // Vulkan appendix A, RuntimeSpirv-vulkanMemoryModel-06265: asked of devices with that model alone.
  facts.has_device_scope = features.v12.vulkanMemoryModelDeviceScope || !features.v12.vulkanMemoryModel;
  facts.has_device_address = features.v12.bufferDeviceAddress;
  facts.has_timeline_semaphore = features.v12.timelineSemaphore;
  facts.has_pipeline_robustness = features.robustness.pipelineRobustness;
  facts.has_memory_budget = contains(extensions, "VK_EXT_memory_budget");
  facts.has_subgroup_size_control = facts.has_subgroup_size_control && features.subgroup_size_control();
  facts.has_full_subgroups = features.full_subgroups();
  facts.has_subgroup_extended_types = features.v12.shaderSubgroupExtendedTypes;
}

inline void query_cooperative_matrix(device_facts& facts, const instance& owner, VkPhysicalDevice physical) {
  const get_cooperative_matrix_properties list = owner.call.GetCooperativeMatrixProperties;
  std::uint32_t count = 0;
  if (!facts.has_cooperative_matrix || list == nullptr || list(physical, &count, nullptr) != VK_SUCCESS) return;
  std::vector<cooperative_matrix_properties> found(count);
  for (cooperative_matrix_properties& item : found) item.sType = cooperative_matrix_shape_type;
  require(list(physical, &count, found.data()), "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
  for (std::uint32_t i = 0; i < count; ++i) {
    const cooperative_matrix_properties& item = found[i];
    facts.cooperative_matrix_shapes.push_back({item.MSize, item.NSize, item.KSize, component_type{item.AType},
                                               component_type{item.BType}, component_type{item.CType},
                                               component_type{item.ResultType}, matrix_scope{item.scope},
                                               item.saturatingAccumulation != 0});
  }
}

inline void query_time_domains(device_facts& facts, const instance& owner, VkPhysicalDevice physical,
                               const std::vector<std::string>& extensions) {
  const auto list = owner.call.GetTimeDomains;
  std::uint32_t count = 0;
  if (calibration_extension(extensions) == nullptr || list == nullptr) return;
  if (list(physical, &count, nullptr) != VK_SUCCESS) return;
  std::vector<VkTimeDomainEXT> found(count);
  if (list(physical, &count, found.data()) < VK_SUCCESS) return;
  const auto has = [&](VkTimeDomainEXT domain) { return std::find(found.begin(), found.end(), domain) != found.end(); };
  facts.has_calibrated_timestamps = has(VK_TIME_DOMAIN_DEVICE_EXT) && has(VK_TIME_DOMAIN_CLOCK_MONOTONIC_EXT);
}

inline void query_heaps(device_facts& facts, const instance& owner, VkPhysicalDevice physical) {
  VkPhysicalDeviceMemoryProperties2 memory{};
  memory.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
  owner.call.GetPhysicalDeviceMemoryProperties2(physical, &memory);
  facts.unified_memory = true;
  for (std::uint32_t i = 0; i < memory.memoryProperties.memoryHeapCount; ++i) {
    const VkMemoryHeap& heap = memory.memoryProperties.memoryHeaps[i];
    const bool device_local = (heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0;
    facts.heaps.push_back({heap.size, device_local});
    facts.unified_memory = facts.unified_memory && device_local;
  }
  constexpr VkMemoryPropertyFlags mapped =
      VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  for (std::uint32_t i = 0; i < memory.memoryProperties.memoryTypeCount; ++i) {
    if ((memory.memoryProperties.memoryTypes[i].propertyFlags & mapped) == mapped)
      facts.has_mapped_device_memory = true;
  }
}

MEGANEURA_INLINE device_facts query_facts(const instance& owner, VkPhysicalDevice physical, std::uint32_t index) {
  device_facts facts;
  facts.index = index;
  VkPhysicalDeviceProperties properties{};
  owner.call.GetPhysicalDeviceProperties(physical, &properties);
  read_identity(facts, properties);
  if (facts.api_version < VK_API_VERSION_1_2) {
    facts.unusable_because =
        fmt::format("its driver offers Vulkan {}.{} and 1.2 is needed", VK_API_VERSION_MAJOR(facts.api_version),
                    VK_API_VERSION_MINOR(facts.api_version));
    return facts;
  }
  const std::vector<std::string> extensions = device_extensions(owner, physical);
  query_properties(facts, owner, physical, extensions);
  query_features(facts, owner, physical, extensions);
  query_cooperative_matrix(facts, owner, physical);
  query_time_domains(facts, owner, physical, extensions);
  query_heaps(facts, owner, physical);
  facts.quirks = find_quirks(facts.vendor_id, facts.driver_id);
  const int family = find_compute_family(owner, physical);
  if (family < 0) {
    facts.unusable_because = "it has no compute queue";
  } else if (!facts.has_timeline_semaphore) {
    facts.unusable_because = "its driver has no timeline semaphores";
  } else {
    facts.timestamp_bits = queue_families(owner, physical)[static_cast<std::size_t>(family)].timestampValidBits;
  }
  return facts;
}

}  // namespace meganeura::inline MEGANEURA_ABI::vulkan::detail
