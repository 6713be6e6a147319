// SPDX-License-Identifier: MIT
// How faults get in: this program's own pthread_create, operator new, dlsym and file calls stand before the system's.
#include "inject.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <map>
#include <mutex>
#include <new>
#include <string_view>
#include <tuple>

namespace meganeura::faults {
namespace {

// Without the validation layer: it allocates in calls of every kind, and cannot stand it when that fails.
[[maybe_unused]] const int without_layer = ::setenv("MEGANEURA_VALIDATION", "0", 1);

std::atomic<int> threads_allowed{-1};  // -1: no limit

thread_local bool counting = false, lasting_fault = false;
thread_local int inside_driver = 0;
thread_local std::uint64_t allocations = 0, failing_allocation = 0;

struct driver_scope {  // what the driver allocates is not ours to fail
  driver_scope() { ++inside_driver; }
  ~driver_scope() { --inside_driver; }
};

bool allocation_fails() {
  if (!counting || inside_driver != 0) return false;
  const std::uint64_t number = allocations++;
  return lasting_fault ? number >= failing_allocation : number == failing_allocation;
}

void* allocate(std::size_t bytes, std::size_t alignment = 0) noexcept {
  if (allocation_fails()) return nullptr;
  if (bytes == 0) bytes = 1;
  return alignment == 0 ? std::malloc(bytes)
                        : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* allocate_or_throw(std::size_t bytes, std::size_t alignment = 0) {
  void* memory = allocate(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

// --- files ----------------------------------------------------------------------------------------------------------

struct planned_file_fault {
  file_fault::kind what{};
  std::uint64_t fail_at = 0, calls = 0;
  int code = 0;
  bool active = false;
};
thread_local planned_file_fault file_plan;

/// Makes a counted call: `whole` does it, `half` does what a fault in its midst leaves behind.
template <class Whole, class Half>
auto file_call(Whole whole, Half half) -> decltype(whole()) {
  if (!file_plan.active || file_plan.calls++ != file_plan.fail_at) return whole();
  if (file_plan.what == file_fault::kind::killed) ::raise(SIGKILL);
  half();
  if (file_plan.what == file_fault::kind::killed_within) ::raise(SIGKILL);
  errno = file_plan.code;
  return -1;
}
/// A call that happens or not, with nothing between.
template <class Whole>
auto file_call(Whole whole) -> decltype(whole()) {
  return file_call(whole, [&] {
    if (file_plan.what == file_fault::kind::killed_within) (void)whole();
  });
}

// --- Vulkan ---------------------------------------------------------------------------------------------------------

// Those that create, allocate, wait or compile; the rest goes to the driver untouched.
// clang-format off
#define FAULTS_VULKAN_FUNCTIONS(X)                                                                                 \
  X(CreateInstance) X(DestroyInstance) X(EnumeratePhysicalDevices) X(CreateDevice) X(DestroyDevice)                \
  X(DeviceWaitIdle) X(QueueSubmit) X(CreateSemaphore) X(DestroySemaphore) X(WaitSemaphores)                        \
  X(GetSemaphoreCounterValue) X(CreateBuffer) X(DestroyBuffer) X(AllocateMemory) X(FreeMemory) X(BindBufferMemory) \
  X(MapMemory) X(CreateBufferView) X(DestroyBufferView) X(CreateShaderModule) X(DestroyShaderModule)               \
  X(CreateDescriptorSetLayout) X(DestroyDescriptorSetLayout) X(CreatePipelineLayout) X(DestroyPipelineLayout)      \
  X(CreateComputePipelines) X(DestroyPipeline) X(CreatePipelineCache) X(DestroyPipelineCache)                      \
  X(GetPipelineCacheData) X(CreateDescriptorPool) X(DestroyDescriptorPool) X(AllocateDescriptorSets)               \
  X(CreateCommandPool) X(DestroyCommandPool) X(AllocateCommandBuffers) X(BeginCommandBuffer) X(EndCommandBuffer)   \
  X(CreateQueryPool) X(DestroyQueryPool) X(GetQueryPoolResults)
// clang-format on

#define FAULTS_ID(name) id_##name,
enum function_id : std::size_t { FAULTS_VULKAN_FUNCTIONS(FAULTS_ID) function_count };
#define FAULTS_NAME(name) "vk" #name,
constexpr std::array<std::string_view, function_count> names{FAULTS_VULKAN_FUNCTIONS(FAULTS_NAME)};

struct planned_fault {
  std::string name;
  VkResult result = VK_SUCCESS;
  std::uint64_t fail_at = 0, calls = 0;
  bool lasting = false, active = false;
};
std::mutex mutex;  // of both
planned_fault plan;
std::map<std::string, std::int64_t, std::less<>> living;

bool reports_a_loss(std::string_view name) {  // of those used here, by the registry's lists of results
  for (const char* one : {"vkQueueSubmit", "vkWaitSemaphores", "vkDeviceWaitIdle", "vkGetSemaphoreCounterValue",
                          "vkGetQueryPoolResults"}) {
    if (name == one) return true;
  }
  return false;
}

VkResult intercepted(std::string_view name) {
  const std::lock_guard lock(mutex);
  if (!plan.active || (plan.name.empty() ? !reports_a_loss(name) : name != plan.name)) return VK_SUCCESS;
  const std::uint64_t number = plan.calls++;
  const bool fails = plan.lasting ? number >= plan.fail_at : number == plan.fail_at;
  return fails ? plan.result : VK_SUCCESS;
}

/// Creation raises, destruction of something lowers the count of one kind of object.
void count_object(std::string_view name, bool null) {
  if (null) return;
  const std::lock_guard lock(mutex);
  if (name == "vkCreateComputePipelines") name = "vkCreatePipeline";
  if (name.starts_with("vkCreate")) ++living[std::string(name.substr(8))];
  if (name.starts_with("vkDestroy")) --living[std::string(name.substr(9))];
  if (name == "vkAllocateMemory") ++living["Memory"];
  if (name == "vkFreeMemory") --living["Memory"];
}

template <class First, class... Rest>
bool destroys_nothing(First first, Rest... rest) {
  if constexpr (sizeof...(Rest) == 1) {  // vkDestroyDevice(device, allocator)
    return first == VK_NULL_HANDLE;
  } else {
    return [](auto second, auto...) { return second == decltype(second){}; }(rest...);
  }
}

std::atomic<VkDevice> latest_device{VK_NULL_HANDLE};
void let_work_end();

template <std::size_t Id, class Function>
struct gate;
template <std::size_t Id, class Result, class... Arguments>
struct gate<Id, Result(VKAPI_PTR*)(Arguments...)> {
  static inline Result(VKAPI_PTR* real)(Arguments...) = nullptr;
  static Result VKAPI_CALL call(Arguments... arguments) {
    const driver_scope inside;
    if constexpr (std::is_same_v<Result, VkResult>) {
      if (const VkResult result = intercepted(names[Id]); result != VK_SUCCESS) {
        if (result == VK_ERROR_DEVICE_LOST) let_work_end();
        return result;
      }
      const VkResult result = real(arguments...);
      if constexpr (Id == id_CreateDevice) {
        if (result == VK_SUCCESS) latest_device = *std::get<3>(std::tuple(arguments...));
      }
      count_object(names[Id], result < VK_SUCCESS);
      return result;
    } else {
      count_object(names[Id], destroys_nothing(arguments...));
      real(arguments...);
    }
  }
};

/// A device that is really lost executes nothing any more, so that what it used may be destroyed without waiting.
void let_work_end() { gate<id_DeviceWaitIdle, PFN_vkDeviceWaitIdle>::real(latest_device); }

PFN_vkGetInstanceProcAddr real_get_instance = nullptr;
PFN_vkGetDeviceProcAddr real_get_device = nullptr;

PFN_vkVoidFunction wrapped(std::string_view name, PFN_vkVoidFunction found) {
  if (found == nullptr) return nullptr;
#define FAULTS_WRAP(function)                               \
  if (name == "vk" #function) {                             \
    using it = gate<id_##function, PFN_vk##function>;       \
    it::real = reinterpret_cast<PFN_vk##function>(found);   \
    return reinterpret_cast<PFN_vkVoidFunction>(&it::call); \
  }
  FAULTS_VULKAN_FUNCTIONS(FAULTS_WRAP)
  return found;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device(VkDevice device, const char* name) {
  return wrapped(name, real_get_device(device, name));
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance(VkInstance instance, const char* name) {
  const driver_scope inside;
  const PFN_vkVoidFunction found = real_get_instance(instance, name);
  if (std::string_view(name) != "vkGetDeviceProcAddr" || found == nullptr) return wrapped(name, found);
  real_get_device = reinterpret_cast<PFN_vkGetDeviceProcAddr>(found);
  return reinterpret_cast<PFN_vkVoidFunction>(&get_device);
}

}  // namespace

thread_limit::thread_limit(int allowed) { threads_allowed = allowed; }
thread_limit::~thread_limit() { threads_allowed = -1; }

allocation_fault::allocation_fault(std::uint64_t fail_at, bool lasting) {
  allocations = 0;
  failing_allocation = fail_at;
  lasting_fault = lasting;
  counting = true;
}
allocation_fault::~allocation_fault() { counting = false; }
std::uint64_t allocation_fault::count() const { return allocations; }

file_fault::file_fault(kind what, std::uint64_t fail_at, int code) { file_plan = {what, fail_at, 0, code, true}; }
file_fault::~file_fault() { file_plan.active = false; }
bool file_fault::happened() const { return file_plan.calls > file_plan.fail_at; }

vulkan_fault::vulkan_fault(std::string name, VkResult result, std::uint64_t fail_at, bool lasting) {
  const std::lock_guard lock(mutex);
  plan = {std::move(name), result, fail_at, 0, lasting, true};
}
vulkan_fault::~vulkan_fault() {
  const std::lock_guard lock(mutex);
  plan.active = false;
}
std::uint64_t vulkan_fault::count() const {
  const std::lock_guard lock(mutex);
  return plan.calls;
}

std::string living_objects() {
  const std::lock_guard lock(mutex);
  std::string text;
  for (const auto& [name, count] : living) {
    if (count != 0) text += name + " " + std::to_string(count) + "; ";
  }
  return text;
}

}  // namespace meganeura::faults

// --- what stands before the system's own -----------------------------------------------------------------------------

namespace faults = meganeura::faults;

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* data) {
  using function = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto real = reinterpret_cast<function>(::dlvsym(RTLD_NEXT, "pthread_create", "GLIBC_2.34"));
  int left = faults::threads_allowed;
  while (left > 0 && !faults::threads_allowed.compare_exchange_weak(left, left - 1)) {
  }
  return left == 0 ? EAGAIN : real(thread, attributes, start, data);
}

extern "C" {

ssize_t write(int file, const void* bytes, std::size_t size) {
  const auto put = [&](std::size_t count) { return static_cast<ssize_t>(::syscall(SYS_write, file, bytes, count)); };
  return faults::file_call([&] { return put(size); }, [&] { (void)put(size / 2); });
}
int openat(int folder, const char* name, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return faults::file_call([&] { return static_cast<int>(::syscall(SYS_openat, folder, name, flags, mode)); });
}
int fsync(int file) {
  return faults::file_call([&] { return static_cast<int>(::syscall(SYS_fsync, file)); });
}
int renameat(int from, const char* old_name, int to, const char* new_name) noexcept {
  return faults::file_call([&] { return static_cast<int>(::syscall(SYS_renameat2, from, old_name, to, new_name, 0)); });
}
int unlinkat(int folder, const char* name, int flags) noexcept {
  return faults::file_call([&] { return static_cast<int>(::syscall(SYS_unlinkat, folder, name, flags)); });
}
int flock(int file, int how) noexcept {
  return faults::file_call([&] { return static_cast<int>(::syscall(SYS_flock, file, how)); });
}
int fchmod(int file, mode_t mode) noexcept {
  return faults::file_call([&] { return static_cast<int>(::syscall(SYS_fchmod, file, mode)); });
}
int fchown(int file, uid_t owner, gid_t group) noexcept {
  return faults::file_call([&] { return static_cast<int>(::syscall(SYS_fchown, file, owner, group)); });
}

}  // extern "C"

extern "C" void* dlsym(void* library, const char* name) noexcept {
  using function = void* (*)(void*, const char*);
  static const auto real = reinterpret_cast<function>(::dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34"));
  void* found = real(library, name);
  if (found == nullptr || std::string_view(name) != "vkGetInstanceProcAddr") return found;
  faults::real_get_instance = reinterpret_cast<PFN_vkGetInstanceProcAddr>(found);
  return reinterpret_cast<void*>(&faults::get_instance);
}

// Not inlined: GCC would see malloc and free through them and take every pair for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t bytes) { return faults::allocate_or_throw(bytes); }
[[gnu::noinline]] void* operator new[](std::size_t bytes) { return faults::allocate_or_throw(bytes); }
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return faults::allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return faults::allocate(bytes);
}
[[gnu::noinline]] void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return faults::allocate(bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
