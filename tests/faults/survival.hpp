// SPDX-License-Identifier: MIT
// Work that goes on, or ends in an `error`, wherever memory runs out.
#pragma once
#include "inject.hpp"

#include <meganeura/core/error.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <new>
#include <optional>
#include <utility>

namespace meganeura::faults {

/// Fails each allocation of `work` in turn, once alone and once with all after it. What comes out is an out_of_memory
/// error, or std::bad_alloc where the sentence found no memory either; `check` looks at what each fault left behind.
inline void expect_survival(const std::function<void()>& work, std::uint64_t most,
                            const std::function<void()>& check = {}) {
  work();  // the first time some things are made for good
  std::uint64_t count = 0;
  {
    const allocation_fault nothing;
    work();
    count = nothing.count();
  }
  ASSERT_GT(count, 0u);
  for (const bool lasting : {false, true}) {
    std::uint64_t caught = 0;
    const auto points = faults::points(count, most);
    for (const std::uint64_t at : points) {
      std::optional<allocation_fault> fault(std::in_place, at, lasting);
      try {
        work();
      } catch (const error& problem) {
        ++caught;
        EXPECT_EQ(problem.category(), error_category::out_of_memory) << at << " of " << count << problem.what();
      } catch (const std::bad_alloc&) {
        ++caught;
        EXPECT_TRUE(lasting) << at << " of " << count << ": there was memory for a sentence";
      }
      fault.reset();
      if (check) check();
    }
    EXPECT_GT(caught, 0u);
  }
}

}  // namespace meganeura::faults
