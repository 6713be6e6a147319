// SPDX-License-Identifier: MIT
// Definitions for core/boundary.hpp.
#pragma once
#include <meganeura/core/boundary.hpp>
#include <meganeura/core/error.hpp>

#include <new>
#include <stdexcept>
#include <system_error>

namespace meganeura::inline MEGANEURA_ABI {

[[noreturn]] MEGANEURA_INLINE void rethrow_as_error(const char* doing) {
  try {
    throw;
  } catch (const error&) {
    throw;
  } catch (const std::bad_alloc&) {
    fail(error_category::out_of_memory, "{}: the host's memory ran out; free some or use a smaller batch or model",
         doing);
  } catch (const std::length_error&) {
    fail(error_category::out_of_memory, "{}: more elements were asked for than host memory can hold", doing);
  } catch (const std::system_error& problem) {  // files, folders, threads, locks
    fail(error_category::io, "{}: the operating system refused: {}", doing, problem.what());
  } catch (const std::logic_error& problem) {  // out_of_range, invalid_argument: a check of ours is missing
    fail(error_category::internal, "{}: {}; please report it", doing, problem.what());
  }
}

}  // namespace meganeura::inline MEGANEURA_ABI
