// SPDX-License-Identifier: MIT
// Where a call of this library begins: what the standard library throws below becomes the one exception type.
#pragma once
#include <meganeura/core/error.hpp>

namespace meganeura::inline MEGANEURA_ABI {

/// For handlers only: throws what is being handled as `error`, `doing` naming the call. Exceptions that neither this
/// library nor the standard library's own resources throw (a caller's callback, say) pass unchanged.
/// errors: out_of_memory, io. Where not even a sentence finds memory, std::bad_alloc.
[[noreturn]] void rethrow_as_error(const char* doing);

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/core/boundary.ipp>
#endif
