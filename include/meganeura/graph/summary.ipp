// SPDX-License-Identifier: MIT
// Definitions for graph/summary.hpp.
#pragma once
#include <meganeura/core/quote.hpp>
#include <meganeura/graph/summary.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI {

// ---- counts ---------------------------------------------------------------------------------------------------------

MEGANEURA_INLINE symbolic_count::symbolic_count(double number) {
  if (number != 0) terms[{}] = number;
}

MEGANEURA_INLINE symbolic_count::symbolic_count(double factor, std::string symbol) {
  if (factor != 0) terms[{std::move(symbol)}] = factor;
}

MEGANEURA_INLINE double symbolic_count::value() const {
  for (const auto& [symbols, factor] : terms) {
    if (symbols.empty()) continue;
    fail(error_category::invalid_argument, "the count {} has a symbol {} that is not bound; bind it: {{{{\"{}\", n}}}}",
         to_string(*this), quote(symbols[0]), symbols[0]);
  }
  return terms.empty() ? 0 : terms.begin()->second;
}

MEGANEURA_INLINE symbolic_count& symbolic_count::operator+=(const symbolic_count& other) {
  for (const auto& [symbols, factor] : other.terms) terms[symbols] += factor;
  return *this;
}

MEGANEURA_INLINE symbolic_count operator*(const symbolic_count& a, const symbolic_count& b) {
  symbolic_count product;
  for (const auto& [symbols, factor] : a.terms) {
    for (const auto& [more, other] : b.terms) {
      std::vector<std::string> all(symbols.size() + more.size());
      std::ranges::merge(symbols, more, all.begin());
      product.terms[all] += factor * other;
    }
  }
  return product;
}

namespace detail {

inline std::string with_unit(double number) {
  constexpr std::array<const char*, 7> units = {"", " k", " M", " G", " T", " P", " E"};
  std::size_t unit = 0;
  for (; std::fabs(number) >= 999.95 && unit + 1 < units.size(); ++unit) number /= 1000;
  return fmt::format("{:.4g}{}", number, units[unit]);
}

}  // namespace detail

MEGANEURA_INLINE std::string to_string(const symbolic_count& count) {
  std::string text;
  for (auto term = count.terms.rbegin(); term != count.terms.rend(); ++term) {
    const auto& [symbols, factor] = *term;
    text += fmt::format("{}{}", text.empty() ? "" : " + ", detail::with_unit(factor));
    for (std::size_t i = 0, next; i < symbols.size(); i = next) {
      for (next = i + 1; next < symbols.size() && symbols[next] == symbols[i];) ++next;
      text += next - i == 1 ? fmt::format(" {}", symbols[i]) : fmt::format(" {}^{}", symbols[i], next - i);
    }
  }
  return text.empty() ? "0" : text;
}

// ---- modules --------------------------------------------------------------------------------------------------------

namespace detail {

MEGANEURA_INLINE module_table::module& module_table::operator[](path_id path) {
  if (modules_.size() <= path) modules_.resize(path + 1);
  modules_[path].used = true;
  return modules_[path];
}

// Whether there is anything in this module.
MEGANEURA_INLINE bool module_table::add_rows(const path_pool& paths, path_id path, int depth,
                                             std::vector<layer_summary>& rows) const {
  const std::size_t own = rows.size();
  const module found = path < modules_.size() ? modules_[path] : module{};
  rows.push_back({paths.text(path), depth, found.result, found.parameters, found.flops});
  bool used = found.used;
  for (path_id child : paths.children(path)) {
    const std::size_t at = rows.size();
    if (!add_rows(paths, child, depth + 1, rows)) continue;
    used = true;
    rows[own].parameters += rows[at].parameters;
    rows[own].flops += rows[at].flops;
  }
  if (!used) rows.resize(own);
  return used;
}

MEGANEURA_INLINE model_summary module_table::finished(const path_pool& paths) const {
  model_summary result;
  for (const path_id whole : {path_pool::root, path_pool::backward(path_pool::root)}) {
    const std::size_t at = result.layers.size();
    if (!add_rows(paths, whole, 0, result.layers)) continue;
    result.parameters += result.layers[at].parameters;
    result.flops += result.layers[at].flops;
  }
  return result;
}

}  // namespace detail

MEGANEURA_INLINE model_summary summary(const graph& g) {
  const path_pool& paths = g.paths();
  detail::module_table modules;
  std::vector<node_id> given(paths.size(), no_id);  // the last node of each module that is read outside of it
  const auto give = [&](node_id id, path_id module) {
    if (given[module] == no_id || given[module] < id) given[module] = id;
  };
  const std::vector<bool> left_out = g.pullbacks();
  for (node_id id{0}; id < g.size(); ++id) {
    if (!left_out[id]) modules[g[id].path].flops += g.flops(id);
    if (g[id].kind == op::parameter) modules[g[id].path].parameters += static_cast<double>(g[id].extents.elements());
    for (node_id operand : g.operands(id)) {
      const bool forward = !path_pool::is_backward(g[id].path) && !path_pool::is_backward(g[operand].path);
      if (!forward || info(g[operand].kind).arity == 0) continue;
      for (path_id at = g[operand].path; !paths.holds(at, g[id].path); at = paths.parent(at)) give(operand, at);
    }
  }
  for (const graph_output& output : g.outputs()) {
    path_id at = g[output.node].path;
    for (; at != path_pool::root && !path_pool::is_backward(at); at = paths.parent(at)) give(output.node, at);
    give(output.node, at);
  }
  for (path_id path{0}; path < given.size(); ++path) {
    if (given[path] == no_id) continue;
    const node& n = g[given[path]];
    modules[path].result = to_string(n.type) + to_string(n.extents);
  }
  return modules.finished(paths);
}

// ---- text -----------------------------------------------------------------------------------------------------------

namespace detail {

inline std::string grouped_digits(std::int64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

using layer_rows = std::vector<layer_summary>;

// The path without its direction.
inline std::string_view names_of(const layer_summary& row) {
  constexpr std::string_view direction = " backward";
  const std::string_view path = row.path;
  return path.ends_with(direction) ? path.substr(0, path.size() - direction.size()) : path;
}

// Of parameters: exact where there are no symbols.
inline std::string exact_text(const symbolic_count& count) {
  const bool is_number = count.terms.empty() || (count.terms.size() == 1 && count.terms.begin()->first.empty());
  return is_number ? grouped_digits(static_cast<std::int64_t>(count.value())) : to_string(count);
}

// One past the last row of the module at `first`.
inline std::size_t module_end(const layer_rows& rows, std::size_t first) {
  std::size_t at = first + 1;
  while (at < rows.size() && rows[at].depth > rows[first].depth) ++at;
  return at;
}

// Whether two modules read the same but for their own names.
inline bool alike(const layer_rows& rows, std::size_t first, std::size_t second, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const layer_summary &row = rows[first + i], &other = rows[second + i];
    if (std::string_view(row.path).substr(names_of(rows[first]).size()) !=
            std::string_view(other.path).substr(names_of(rows[second]).size()) ||
        row.result != other.result || row.parameters != other.parameters ||
        to_string(row.flops) != to_string(other.flops)) {
      return false;
    }
  }
  return true;
}

// How many modules from the one at `first` on are numbered from 0 and alike; 1 if none.
inline std::size_t count_turns(const layer_rows& rows, std::size_t first) {
  const std::string_view names = names_of(rows[first]);
  const std::size_t number = names.rfind('.') + 1, count = module_end(rows, first) - first;  // 0 where there is no dot
  if (names.substr(number) != "0") return 1;
  std::size_t turns = 1;
  for (std::size_t at = first + count; at < rows.size() && module_end(rows, at) == at + count; at += count) {
    const bool next = names_of(rows[at]) == fmt::format("{}{}", names.substr(0, number), turns);
    if (!next || !alike(rows, first, at, count)) break;
    ++turns;
  }
  return turns;
}

// Rows as they are written: turns that are alike are one, "layers.0..29".
inline layer_rows folded(layer_rows rows) {
  for (std::size_t first = 0; first < rows.size(); ++first) {
    const std::size_t turns = count_turns(rows, first);
    if (turns < 2) continue;
    const std::size_t past = module_end(rows, first);
    const auto end = rows.begin() + static_cast<std::ptrdiff_t>(past);
    rows.erase(end, end + static_cast<std::ptrdiff_t>((turns - 1) * (past - first)));
    const std::size_t names = names_of(rows[first]).size();
    for (std::size_t i = first; i < past; ++i) rows[i].path.insert(names, fmt::format("..{}", turns - 1));
  }
  return rows;
}

}  // namespace detail

MEGANEURA_INLINE std::string to_text(const model_summary& model) {
  using cells = std::array<std::string, 4>;
  std::vector<cells> table = {{"module", "result", "parameters", "flops"}};
  for (const layer_summary& row : detail::folded(model.layers)) {
    table.push_back({row.path.empty() ? "(model)" : row.path, row.result, detail::exact_text(row.parameters),
                     to_string(row.flops)});
  }
  table.push_back({"total", "", detail::exact_text(model.parameters), to_string(model.flops)});
  std::array<std::size_t, 3> widths{};
  for (const cells& line : table) {
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const cells& line : table) {
    text += fmt::format("{:<{}}  {:<{}}  {:>{}}  {}\n", line[0], widths[0], line[1], widths[1], line[2], widths[2],
                        line[3]);
  }
  return text;
}

}  // namespace meganeura::inline MEGANEURA_ABI
