// SPDX-License-Identifier: MIT
// What a model consists of, as a table: modules, what each gives, its parameters and operations.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/graph/graph.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

/// A count in which symbols may be left: 1152 seq^2 + 269e6 seq.
struct symbolic_count {
  std::map<std::vector<std::string>, double> terms{};  // symbols in order, one as often as its power -> factor; none 0

  symbolic_count() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): a number is a count
  symbolic_count(double number);
  symbolic_count(double factor, std::string symbol);

  /// Without symbols. errors: invalid_argument, naming one that is left.
  [[nodiscard]] double value() const;

  symbolic_count& operator+=(const symbolic_count& other);
  friend symbolic_count operator*(const symbolic_count& a, const symbolic_count& b);
  friend symbolic_count operator/(const symbolic_count& a, double divisor) { return a * (1 / divisor); }
  friend bool operator==(const symbolic_count&, const symbolic_count&) = default;
};

/// "1.152 k seq^2 + 269 M seq": four digits, k, M, G, T, P and E for thousands.
[[nodiscard]] std::string to_string(const symbolic_count& count);

/// One module. Modules called inside of it are counted with it.
struct layer_summary {
  std::string path;           // "layers.7.mlp", "" the whole model; as in plans and profiles
  int depth = 0;              // of modules around it
  std::string result;         // "f32[batch, 10]": the last that it gives others; "" if nothing, as gradients
  symbolic_count parameters;  // their elements, shared ones where they come first
  symbolic_count flops;       // 2 a multiply-add, 1 an element of everything else but conditions and casts
  friend bool operator==(const layer_summary&, const layer_summary&) = default;
};

struct model_summary {
  std::vector<layer_summary> layers;  // the model first, a module before those inside it, gradients last
  symbolic_count parameters;
  symbolic_count flops;
};

/// The modules of a graph (`graph::scope`), those of its gradients too.
[[nodiscard]] model_summary summary(const graph& g);

/// A table, one line a module and the totals below. Modules "layers.0", "layers.1", ... whose lines read the same are
/// one, "layers.0..29", with the numbers of each.
[[nodiscard]] std::string to_text(const model_summary& model);

namespace detail {

/// The numbers of each module alone, by path; `finished` adds them up.
class module_table {
 public:
  struct module {
    std::string result{};
    symbolic_count parameters{}, flops{};
    bool used = false;
  };
  module& operator[](path_id path);
  [[nodiscard]] model_summary finished(const path_pool& paths) const;

 private:
  bool add_rows(const path_pool& paths, path_id path, int depth, std::vector<layer_summary>& rows) const;
  std::vector<module> modules_;
};

}  // namespace detail

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/graph/summary.ipp>
#endif
