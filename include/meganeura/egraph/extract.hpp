// SPDX-License-Identifier: MIT
// Extraction: one node for each needed class, with shared values counted once.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/egraph/choice_table.hpp>

#include <functional>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::egraph {

struct extraction {
  std::vector<enode_id> chosen;         // by canonical class; no_id where no kernel computes the class
  std::vector<class_id> order;          // live classes, operands before users
  double seconds = 0;                   // predicted for the whole, group by group
  std::size_t groups = 0;               // the kernels on the longest way through it
  int passes = 0;                       // of the repair
  std::size_t offered = 0, merged = 0;  // kernels with several results: added to the e-graph, and taken
  std::size_t moved = 0;                // changes for the groups' sake
};

using node_penalty = std::function<double(enode_id)>;  // seconds
/// What a growth asks of the choice.
struct choice_so_far {
  std::function<bool(class_id)> offer;    // takes in what was added; whether it is chosen now
  std::function<bool(class_id)> is_read;  // whether anything that is chosen reads the class, or it is a root
  bool by_groups = false;                 // whether it knows by now which kernels wait for which
};
/// Adds to the e-graph what may be better than what was chosen: a class of one node with several results, and in the
/// classes of these the nodes that name them, each of which it offers.
using growth = std::function<void(const extraction& chosen, const choice_so_far& choice)>;

/// Bottom-up choice with the cost of a value shared among its readers, then repair with true use counts until nothing
/// gets cheaper (at most `max_passes`), then what `grow` adds; until here each kernel is a group of its own. At last
/// changes that make the whole quicker, as its groups run, what `grow` adds to these, and such changes once more.
/// `more`: seconds that a node is taken to cost beside its time until then, so that such are chosen for the groups'
/// sake alone.
[[nodiscard]] extraction extract(const choice_table& from, const growth& grow = {}, int max_passes = 8,
                                 const node_penalty& more = {});

/// Another way to compute a value, all else as it is, and how many seconds more the whole would take by it.
struct alternative {
  class_id value;
  enode_id node;
  double seconds = 0;
};
/// All there are for what is chosen in `plan`, which `extract` made of the same.
[[nodiscard]] std::vector<alternative> compare(const choice_table& from, const extraction& plan);

}  // namespace meganeura::inline MEGANEURA_ABI::egraph

#if MEGANEURA_HEADER_ONLY
#include <meganeura/egraph/extract.ipp>
#endif
