// SPDX-License-Identifier: MIT
// Which layers built at run time asked for which names: two layers of one name would be one.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/graph/node_id.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

/// A layer is known by its result, as equal layers of equal operands are one. It asks for the parameters, states and
/// random streams that are asked for between its `begin` and its `end` and by no layer inside of it.
class layer_names {
 public:
  using mark = std::size_t;

  void ask(std::string name, bool shared) { asked_.push_back({std::move(name), no_id, shared}); }
  [[nodiscard]] mark begin() const { return asked_.size(); }
  void end(mark begun, node_id result);
  /// Everything in the last layer with this result is another layer's as well; false if there is no such layer.
  bool share(node_id result);

  /// errors: invalid_argument when two layers asked for one name and neither is shared, and for what is shared and
  /// nowhere else.
  void check() const;

 private:
  struct request {
    std::string name;
    node_id layer;  // no_id: none
    bool shared;
  };
  struct layer {
    node_id result;
    mark first, last;
  };
  std::vector<request> asked_;
  std::vector<layer> layers_;
};

/// "two layers are called .."; errors: invalid_argument.
[[noreturn]] void refuse_two_layers(std::string_view name);
/// "shared(...) refers to .."; errors: invalid_argument.
[[noreturn]] void refuse_shared(std::string_view name, const std::vector<std::string>& names);

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/graph/layer_names.ipp>
#endif
