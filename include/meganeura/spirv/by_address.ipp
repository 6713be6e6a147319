// SPDX-License-Identifier: MIT
// Definitions for spirv/by_address.hpp: a module is read once, what it needs is declared, and it is written anew.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/spirv/builder.hpp>
#include <meganeura/spirv/by_address.hpp>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <set>
#include <span>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI::spirv {

namespace detail {

// A buffer's variable becomes what is loaded of the push constants where "main" begins, under the same id, so that
// access chains find it where it was; they give pointers of the other storage class.
class address_writer {
 public:
  address_writer(module kernel, const std::vector<bool>& which)
      : kernel_(std::move(kernel)), which_(which), before_(std::move(kernel_.words)), next_id_(before_.at(3)) {}

  [[nodiscard]] module run() {
    visit([this](std::span<const word> code) { read(code); });
    declare();
    in_main_ = false;
    kernel_.words.assign(before_.begin(), before_.begin() + 5);
    require(capability::physical_storage_buffer_addresses);
    require_narrow_integers();
    visit([this](std::span<const word> code) { write(code); });
    kernel_.words[3] = next_id_;
    for (std::size_t i = 0; i < which_.size(); ++i) {
      if (which_[i]) kernel_.bindings[i] = binding_kind::address;
    }
    return std::move(kernel_);
  }

 private:
  [[nodiscard]] static op code_of(std::span<const word> code) { return static_cast<op>(code[0] & 0xffffu); }
  static void put(words& to, op code, std::initializer_list<word> operands) {
    append(to, code, std::span(operands.begin(), operands.size()));
  }

  void require(capability what) { put(kernel_.words, op::capability, {static_cast<word>(what)}); }

  // The validator (SPIRV-Tools 2023.1) sees arithmetic where a pointer to such integers is made of words.
  void require_narrow_integers() {
    for (const auto& [variable, pointee] : block_of_) {
      const word bytes = integer_bytes_in_[pointee];
      if (bytes == 1 && !std::exchange(kernel_.needs_int8, true)) require(capability::int8);
      if (bytes == 2 && !std::exchange(kernel_.needs_int16, true)) require(capability::int16);
    }
  }

  template <class Visitor>
  void visit(const Visitor& each) {
    for (std::size_t at = 5; at < before_.size(); at += before_[at] >> 16)
      each(std::span<const word>(before_).subspan(at, before_[at] >> 16));
  }

  void read(std::span<const word> code) {
    const op what = code_of(code);
    if (what == op::entry_point) main_ = code[2];
    if (what == op::decorate && code[2] == static_cast<word>(decoration::binding)) binding_of_[code[1]] = code[3];
    if (what == op::decorate && code[2] == static_cast<word>(decoration::coherent)) coherent_.insert(code[1]);
    if (what == op::type_int && code[2] == 32 && code[3] == 0) index_type_ = code[1];
    if (what == op::type_vector && code[2] == index_type_ && code[3] == 2) vector_type_ = code[1];
    if (what == op::type_int || what == op::type_float) bytes_of_[code[1]] = code[2] / 8;
    if (what == op::type_vector) bytes_of_[code[1]] = bytes_of_[code[2]] * code[3];
    if (what == op::type_int) integer_bytes_in_[code[1]] = code[2] / 8;
    if (what == op::type_vector || what == op::type_runtime_array || what == op::type_struct)
      integer_bytes_in_[code[1]] = integer_bytes_in_[code[2]];
    if (what == op::type_pointer) pointee_of_[code[1]] = code[3];
    if (what == op::variable && code[3] == static_cast<word>(storage_class::storage_buffer) &&
        which_[binding_of_.at(code[2])])
      block_of_[code[2]] = pointee_of_.at(code[1]);
    if (what == op::function) in_main_ = code[2] == main_;
    if (what == op::access_chain) read_chain(code);
  }

  void read_chain(std::span<const word> code) {
    if (!block_of_.contains(code[3]) && !bytes_at_.contains(code[3])) return;
    if (!in_main_)
      fail(error_category::internal, "kernel \"{}\" uses a buffer outside of main, where none is found by its address",
           kernel_.name);
    const word type = pointee_of_.at(code[1]);
    bytes_at_[code[2]] = bytes_of_[type];
    static_cast<void>(address_of(type));
  }

  // Declared when first asked for.
  [[nodiscard]] word pointer(storage_class storage, word to) {
    const auto [at, is_new] = pointers_.try_emplace({storage, to}, next_id_);
    if (is_new) put(declarations_, op::type_pointer, {next_id_++, static_cast<word>(storage), to});
    return at->second;
  }
  [[nodiscard]] word address_of(word type) { return pointer(storage_class::physical_storage_buffer, type); }

  // Push constants of two words for each binding, and how "main" makes pointers of them.
  void declare() {
    const word pair = vector_type_ != 0 ? vector_type_ : next_id_++, block = next_id_++;
    if (vector_type_ == 0) put(declarations_, op::type_vector, {pair, index_type_, 2});
    words members{block};
    put(annotations_, op::decorate, {block, static_cast<word>(decoration::block)});
    for (word slot = 0; slot < std::ranges::count(which_, true); ++slot) {
      put(annotations_, op::member_decorate, {block, slot, static_cast<word>(decoration::offset), 8 * slot});
      members.push_back(pair);
    }
    append(declarations_, op::type_struct, members);
    const word type = pointer(storage_class::push_constant, block);
    push_constants_ = next_id_++;
    put(declarations_, op::variable, {type, push_constants_, static_cast<word>(storage_class::push_constant)});
    for (const auto& [variable, pointee] : block_of_) {
      const auto slot = static_cast<word>(
          std::count(which_.begin(), which_.begin() + static_cast<std::ptrdiff_t>(binding_of_[variable]), true));
      const word index = next_id_++, place = next_id_++, words = next_id_++;
      put(declarations_, op::constant, {index_type_, index, slot});
      put(loads_, op::access_chain, {pointer(storage_class::push_constant, pair), place, push_constants_, index});
      put(loads_, op::load, {pair, words, place});
      put(loads_, op::bitcast, {address_of(pointee), variable, words});
      if (coherent_.contains(variable))
        put(annotations_, op::member_decorate, {pointee, 0, static_cast<word>(decoration::coherent)});
    }
  }

  // Sections come in an order, and each part goes where the first of what follows it stands.
  void write(std::span<const word> code) {
    words& out = kernel_.words;
    const op what = code_of(code);
    const auto insert = [&](words& part) { out.insert(out.end(), part.begin(), part.end()), part.clear(); };
    if (what != op::capability && !extended_) {
      words name;
      append_string(name, "SPV_KHR_physical_storage_buffer");
      append(out, op::extension, name);
      extended_ = true;
    }
    if (what >= op::type_void && what <= op::type_pointer) insert(annotations_);
    if (what == op::function) insert(declarations_), in_main_ = code[2] == main_;
    const bool is_head = what == op::function || what == op::label || what == op::variable;
    if (in_main_ && !is_head) insert(loads_);
    if (what == op::decorate && block_of_.contains(code[1])) return;
    if (what == op::variable && block_of_.contains(code[2])) return;
    const std::size_t at = out.size();
    out.insert(out.end(), code.begin(), code.end());
    if (what == op::memory_model) out[at + 1] = physical_storage_buffer_64;
    if (what == op::entry_point) write_interface(at);
    if (what == op::access_chain && bytes_at_.contains(code[2])) out[at + 1] = address_of(pointee_of_.at(code[1]));
    const bool loads = what == op::load || what == op::cooperative_matrix_load;
    const bool stores = what == op::store || what == op::cooperative_matrix_store;
    const bool of_matrix = what == op::cooperative_matrix_load || what == op::cooperative_matrix_store;
    if (!loads && !stores) return;
    const word through = code[loads ? 3 : 1];
    if (bytes_at_.contains(through)) write_alignment(at, (loads ? 4u : 3u) + (of_matrix ? 2u : 0u), bytes_at_[through]);
  }

  // "main" is two words; from 1.4 on what follows are all variables that it uses.
  void write_interface(std::size_t at) {
    words& out = kernel_.words;
    const auto is_gone = [this](word id) { return block_of_.contains(id); };
    out.erase(std::remove_if(out.begin() + static_cast<std::ptrdiff_t>(at) + 5, out.end(), is_gone), out.end());
    if (before_[1] >= 0x00010400u) out.push_back(push_constants_);
    out[at] = static_cast<word>(out.size() - at) << 16 | static_cast<word>(op::entry_point);
  }

  // Of the instruction that begins at `at`, whose memory operands are behind `place` words.
  void write_alignment(std::size_t at, word place, word bytes) {
    words& out = kernel_.words;
    if (out.size() == at + place) out.push_back(0);
    out[at + place] |= aligned;
    out.insert(out.begin() + static_cast<std::ptrdiff_t>(at + place) + 1, bytes);  // before the scopes of other bits
    out[at] = static_cast<word>(out.size() - at) << 16 | (out[at] & 0xffffu);
  }

  module kernel_;
  const std::vector<bool>& which_;
  const words before_;
  word next_id_ = 0, main_ = 0, index_type_ = 0, vector_type_ = 0, push_constants_ = 0;
  bool in_main_ = false, extended_ = false;
  std::map<word, word> binding_of_, pointee_of_;  // of a variable, of a type of pointers
  std::map<word, word> block_of_;                 // of variables that go: what they point to
  std::map<word, word> bytes_of_, bytes_at_;      // of a type, where a pointer by address points to
  std::map<word, word> integer_bytes_in_;         // of a type: of the integers that it is made of, 0 for floats
  std::set<word> coherent_;
  std::map<std::pair<storage_class, word>, word> pointers_;
  words annotations_, declarations_, loads_;
};

}  // namespace detail

MEGANEURA_INLINE module reach_by_address(module kernel, const std::vector<bool>& which) {
  std::vector<bool> buffers(kernel.bindings.size());
  for (std::size_t i = 0; i < std::min(buffers.size(), which.size()); ++i)
    buffers[i] = which[i] && kernel.bindings[i] == binding_kind::storage_buffer;
  if (std::ranges::find(buffers, true) == buffers.end()) return kernel;
  return detail::address_writer(std::move(kernel), buffers).run();
}

}  // namespace meganeura::inline MEGANEURA_ABI::spirv
