// SPDX-License-Identifier: MIT
// The implementation pass: from primitives to nodes that run, with everything fused that can be.
#pragma once
#include <meganeura/core/word_pool.hpp>
#include <meganeura/fusion/attention_tiles.hpp>
#include <meganeura/fusion/cost.hpp>
#include <meganeura/fusion/engine.hpp>
#include <meganeura/fusion/product_schedules.hpp>
#include <meganeura/fusion/structural_rules.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI::fusion {

/// Operands of one concat that one region reads; more become a tree of concats when a graph is read in.
inline constexpr std::size_t concat_pieces = 6;

/// A fusion that was tried and refused.
struct missed_fusion {
  class_id consumer = no_id, producer = no_id;
  structural rule{};
  const char* guard = nullptr;
};

/// optimize_options for this pass.
struct implementation_options {
  rule_mask enabled = rule_mask::all();
  region_limits limits;
  std::size_t forms = 16;  // region forms of one class
  device_profile device;
  meganeura::precision precision = meganeura::precision::exact;
  std::optional<std::size_t> schedule{};  // see optimize_options
};

/// Adds implementation nodes to every class the roots reach, operands before users: one pass, linear in the graph.
class implementation_pass {
 public:
  implementation_pass(engine& g, const implementation_options& options) : g_(g), options_(options) {}
  void run(std::span<const class_id> roots);
  /// Structural rules from primitives to primitives; before `run`.
  void rewrite_masks() { rewrite<detail::relu_mask>(); }
  /// And after the algebra.
  void rewrite_sums() {
    rewrite<detail::convolution_to_contract>();
    rewrite<detail::widen_product>();
    rewrite<detail::split_sum>(), rewrite<detail::split_filter>(), rewrite<detail::split_reduce>();
  }

  /// And behind it, with what is computed before a step, see structural::prepare_weights. Whether it added anything.
  [[nodiscard]] bool prepare_weights(std::function<bool(class_id)> is_folded);

  /// Classes in the order they were visited: operands before users.
  [[nodiscard]] const std::vector<class_id>& order() const { return order_; }
  [[nodiscard]] const std::vector<missed_fusion>& missed() const { return missed_; }
  /// How often each structural rule made something.
  [[nodiscard]] const std::vector<std::size_t>& applied() const { return applied_; }

  // What the rules are written with.
  [[nodiscard]] engine& graph() { return g_; }
  [[nodiscard]] const region_limits& limits() const { return options_.limits; }
  [[nodiscard]] const device_profile& device() const { return options_.device; }
  /// How a product of f32 or f16 operands is best computed; of the latter, and of what only matrix units compute, f32
  /// multiply-add stands for not at all.
  [[nodiscard]] const product_choice& best(const product_extents& product, dtype operands = dtype::f32,
                                           const product_start& start = {});
  /// How attention is computed the quickest on matrix units, by an arithmetic of these.
  [[nodiscard]] const attention_choice& best(const attention_attribute& node, product_arithmetic arithmetic);
  struct product_together {  // what came of two nodes as one product
    bool is_known = false;
    const char* problem = nullptr;                // why there is none
    enode_id node = no_id;                        // the first such product
    small_vector<std::uint8_t, 8> operands = {};  // by their places among those of both
  };
  /// The same of what these words say.
  [[nodiscard]] product_together& product_like(std::span<const std::uint64_t> words);
  [[nodiscard]] precision wanted_precision() const { return options_.precision; }
  [[nodiscard]] std::optional<std::size_t> forced_schedule() const { return options_.schedule; }
  [[nodiscard]] bool enabled(structural rule) const { return has(options_.enabled, rule); }
  /// All region forms of `root` applied to what `base` reads; operand i of `base` is argument i.
  void emit_regions(class_id owner, const region_draft& base, const scalar_program& root, structural rule);
  [[nodiscard]] region_draft draft() const { return region_draft(options_.limits); }
  void add_operand(region_draft& draft, class_id operand, const index_map& how);
  /// Of the primitive being implemented.
  [[nodiscard]] const rule_mask& reasons() const { return reasons_; }
  /// The region form of a class that only moves data, if it has one.
  [[nodiscard]] enode_id copy_form(class_id id) const;
  /// The same or, where that reads another dtype, one that reads `source`, if there is one.
  [[nodiscard]] enode_id copy_form(class_id id, dtype source) const;
  /// Whether computing this matmul or convolve again could decide something differently: see continuity.hpp.
  [[nodiscard]] bool decides_by_product(enode_id product) const;
  /// Whether this region decides something by sums of its rows, or by others that are not stored.
  [[nodiscard]] bool decides_by_sums(enode_id region) const { return trace(region).decision; }
  /// Whether what decides something by a value does so by the region's, which is computed of it.
  [[nodiscard]] bool decides_only_in(class_id value, enode_id region) const;
  /// Whether more than one reader decides something by the value: all of them read it from one place then.
  [[nodiscard]] bool decides_twice(class_id id) const { return g_[id].decides && deciding_uses_[g_.find(id)] > 1; }
  /// Whether readers have to find the value rounded to its dtype, and with that stored.
  [[nodiscard]] bool rounds(class_id id) const;
  /// Distinct consumers, seen through views.
  [[nodiscard]] std::uint32_t uses(class_id id) const { return uses_[g_.find(id)]; }
  /// Operations on the longest way to the value: what is computed of it has more.
  [[nodiscard]] std::uint32_t depth(class_id id) const { return depth_[g_.find(id)]; }
  /// Whether something reads the value that is no region, so that it is stored anyway.
  [[nodiscard]] bool is_stored(class_id id) const { return hard_[g_.find(id)]; }
  /// Whether all that is made of a value goes into what the regions compute, as x of x * sigmoid(x) does, and these
  /// read nothing else that is made of it: what computes all of it needs the first nowhere else. Of several regions
  /// what is computed on a long way to them counts as read elsewhere.
  [[nodiscard]] bool serves_only(class_id value, enode_id region) const;
  [[nodiscard]] bool serves_only(class_id value, std::span<const enode_id> regions) const;
  /// A class that came up on the way, or was behind: `reader` has a node that reads it, to be computed before that.
  void introduce(class_id made, class_id reader);
  /// Whether a class is computed before a step.
  [[nodiscard]] bool is_folded(class_id id) const { return is_folded_ && is_folded_(g_.find(id)); }
  void note_applied(structural rule) { ++applied_[static_cast<std::size_t>(rule)]; }
  void note_missed(const missed_fusion& missed) { missed_.push_back(missed); }

 private:
  // A rule from primitives to primitives, at every node that there is so far.
  template <class Rule>
  void rewrite() {
    if (!enabled(Rule::rule)) return;
    const auto count = static_cast<enode_id>(g_.node_count());
    for (enode_id id{0}; id < count; ++id) {
      if (g_.node(id).kind != Rule::root || g_.node(id).dead) continue;
      g_.at(g_.node(id).path);
      Rule::apply(*this, id);
    }
    g_.rebuild();
  }

  struct introduction {
    class_id made, reader;
  };
  void order_introduced();

  enum class choice : std::uint8_t { leaf, conservative, greedy };
  using choice_list = small_vector<choice, 16>;
  struct class_forms {
    enode_id conservative = no_id, greedy = no_id;
    double conservative_cost = 0;
  };
  struct producer {  // an argument of the draft in work, if it reads a class
    class_id id = no_id;
    choice conservative = choice::leaf, greedy = choice::leaf, other = choice::leaf;
  };
  void visit(class_id root);
  void count_uses(std::span<const class_id> roots);
  void find_respelled();
  void find_depths();
  void find_outlets(std::span<const class_id> roots);
  [[nodiscard]] bool goes_into(class_id value, std::span<const enode_id> regions, std::size_t most,
                               bool deciding = false) const;
  void implement(class_id id);
  [[nodiscard]] producer consider(class_id id, const region_draft& base, bool deciding) const;
  void note_unstable(class_id id);
  [[nodiscard]] stability trace(enode_id region) const;
  [[nodiscard]] bool must_be_stored(class_id id, enode_id form, bool deciding) const;
  [[nodiscard]] bool worth_inlining(class_id id, enode_id form, const region_draft& base) const;
  [[nodiscard]] bool narrows(enode_id node) const;
  // Of what a copy reads.
  [[nodiscard]] dtype source_type(enode_id copy) const { return g_[g_.operand(copy, 0)].type; }
  [[nodiscard]] bool has_node(class_id id, op kind) const;
  [[nodiscard]] bool has_kernel(class_id id) const { return kernel_[g_.find(id)]; }
  void note_kernel(class_id id, std::span<const enode_id> nodes);
  [[nodiscard]] region_view form_of(enode_id id) const;
  enode_id emit_region(class_id owner, const region_attribute& loops, std::span<const class_id> operands,
                       rule_mask reasons);
  enode_id emit_choice(class_id owner, const region_draft& base, word_id draft, const scalar_program& root,
                       structural rule, std::span<const producer> producers, choice_list choices);
  // What a region of this owner is made of, but for what of its operands it computes itself; `draft_classes_` has the
  // classes in it.
  [[nodiscard]] word_id identify(class_id owner, const region_draft& base, const scalar_program& root, structural rule);
  [[nodiscard]] enode_id form_by(class_id id, choice how) const;
  // The rule by which a reader computes the class itself.
  [[nodiscard]] structural inlining(class_id id, const region_attribute& form) const;
  // Into `form_`, with fewer `choices` where some have to be taken back; false where there is no such region.
  [[nodiscard]] bool put_together(class_id owner, const region_draft& base, const scalar_program& root, structural rule,
                                  std::span<const producer> producers, std::span<choice> choices);
  // False, with fewer `choices`, where some have to be taken back and all is to be tried again.
  [[nodiscard]] bool inline_producers(class_id owner, std::span<const producer> producers, std::span<choice> choices);
  [[nodiscard]] rule_mask reasons_of(structural rule, std::span<const producer> producers,
                                     std::span<const choice> choices);
  // Gives up `which` and all other arguments of its class; false where one of them comes earlier and was not given up.
  [[nodiscard]] static bool read_everywhere(std::span<const producer> producers, std::span<choice> choices,
                                            std::size_t which);
  void keep(class_id owner, enode_id node, bool conservative);
  [[nodiscard]] class_forms& forms(class_id id);
  [[nodiscard]] const class_forms& forms(class_id id) const;

  engine& g_;
  implementation_options options_;
  struct product_request {
    product_extents extents;
    dtype operands;
    product_start start;
    friend auto operator<=>(const product_request&, const product_request&) = default;
  };
  struct known_attention {
    attention_attribute node;
    product_arithmetic arithmetic;
    attention_choice best;
  };
  std::map<product_request, product_choice> products_;  // that were asked for
  std::deque<known_attention> attentions_;              // a few: layers are alike
  std::vector<class_id> order_;
  std::vector<introduction> introduced_;
  std::function<bool(class_id)> is_folded_;
  std::vector<std::uint8_t> state_;           // of the traversal: 0 new, 1 open, 2 done
  std::vector<std::uint32_t> uses_;           // by distinct consumers, seen through views
  std::vector<std::uint32_t> deciding_uses_;  // of them, those something depends on bit by bit
  std::vector<bool> hard_;                    // some consumer is not a region: the value is stored anyway
  struct outlet {                             // the nearest value that all that is made of one goes through
    class_id id = no_id;                      // none: it goes several ways to the end
    std::uint32_t steps = 0;                  // from there to the end, by such values
  };
  std::vector<bool> is_root_;
  std::vector<std::uint32_t> depth_;
  std::vector<outlet> outlets_;  // immediate post-dominators, in the language of compilers
  std::vector<bool> unstable_;   // a sum is part of the value: another kernel may add it up in another order
  std::vector<bool> respelled_;  // a rule has another sum for it, which some readers may take
  std::vector<bool> kernel_;     // a product or the like computes the value, with what is fused into it
  std::vector<class_forms> forms_;
  region_draft draft_ = draft();  // of the choice in work, and what comes of it: their memory is used again
  region_form form_;
  struct region_together {  // what came of a choice
    bool is_known = false;
    enode_id node = no_id;                        // the first such region; none if there is no such region
    small_vector<std::uint8_t, 8> operands = {};  // by their places among `classes_`
    small_vector<bool, 16> is_read = {};          // of the arguments
    struct miss {
      int argument;  // -1: all of it
      structural rule;
      const char* guard;
    };
    std::vector<miss> missed = {};
  };
  word_pool drafts_, choices_known_, products_known_;
  std::deque<product_together> products_together_;  // by their words
  std::vector<region_together> together_;           // by the words of the choice
  std::vector<std::uint64_t> words_;
  class_list draft_classes_, classes_;  // the owner, what the draft reads, then what its operands' forms read
  rule_mask reasons_;
  std::vector<missed_fusion> missed_;
  std::vector<std::size_t> applied_ = std::vector<std::size_t>(structural_count);
};

}  // namespace meganeura::inline MEGANEURA_ABI::fusion

#if MEGANEURA_HEADER_ONLY
#include <meganeura/fusion/kernel_family.hpp>  // and the bodies of both
#endif
