// SPDX-License-Identifier: MIT
// Names of symbols and their extents.
#pragma once
#include <meganeura/core/nearest.hpp>
#include <meganeura/core/quote.hpp>
#include <meganeura/expr/symbol_extents.hpp>

namespace meganeura::inline MEGANEURA_ABI {

MEGANEURA_INLINE std::int64_t symbol_extents::operator[](std::string_view name) const try {
  std::vector<std::string> names;
  for (const symbol_extent& each : list_) {
    if (name == each.symbol) return each.extent;
    names.emplace_back(each.symbol);
  }
  fail(error_category::invalid_argument, "there is no symbol {}{}", quote(name),
       detail::did_you_mean(detail::nearest(name, names)));
} catch (...) {
  rethrow_as_error("looking for a symbol");
}

MEGANEURA_INLINE void symbol_extents::add(std::string_view name, std::int64_t extent) {
  if (name.find('\0') != name.npos)
    fail(error_category::invalid_argument, "the symbol {} has a zero byte in its name; no symbol has", quote(name));
  const std::string& kept = *names_.emplace_back(std::make_shared<const std::string>(name));
  list_.push_back({kept.c_str(), extent});
}

}  // namespace meganeura::inline MEGANEURA_ABI
