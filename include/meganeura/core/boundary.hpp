// SPDX-License-Identifier: MIT
// Where a call of this library begins: what the standard library throws below becomes the one exception type.
#pragma once
#include <meganeura/core/error.hpp>

#include <new>
#include <stdexcept>
#include <system_error>

namespace meganeura::inline MEGANEURA_ABI {

/// For handlers only: throws what is being handled as `error`, `doing` naming the call. Exceptions that neither this
/// library nor the standard library's own resources throw (a caller's callback, say) pass unchanged.
/// errors: out_of_memory, io. Where not even a sentence finds memory, std::bad_alloc.
[[noreturn]] inline void rethrow_as_error(const char* doing) {
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
