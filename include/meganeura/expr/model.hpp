// SPDX-License-Identifier: MIT
// A module with named, typed inputs: what sessions and trainers take, and the facts known while compiling.
#pragma once
#include <meganeura/expr/module.hpp>
#include <meganeura/graph/visit_op.hpp>

#include <initializer_list>

namespace meganeura::inline MEGANEURA_ABI {

namespace detail {
// Checked here: Clang 14 calls all that depends on a class with a failed assertion no constant.
template <fixed_string Name>
constexpr const symbol& input_symbol() {
  static_assert(text_fits<Name, is_name(Name)>,
                "meganeura: input<name, dtype, dims>: a name is neither empty nor holds a zero byte");
  return symbol_of<Name>;
}
}  // namespace detail

/// One input of a model: the name it is bound by, its dtype and its shape.
template <fixed_string Name, dtype Type, symbolic_shape Shape>
struct input {
  static constexpr auto text = (static_cast<void>(detail::input_symbol<Name>()), Name);
  static constexpr const symbol& name = detail::symbol_of<Name>;
  static constexpr detail::tensor_type type{Type, detail::interned_shape<Shape>};
};

/// What a model gives under a name: a result of its module, or a tap.
struct result_facts {
  dtype type = dtype::f32;
  symbolic_shape shape{};
};

inline constexpr int max_name_length = 128;

/// A parameter, state or tap of a model. The turns of a repeat are one leaf, with '*' for the index and `copies` turns.
struct leaf {
  char name[max_name_length]{};
  std::uint64_t hash = 0;
  primitive kind{};
  dtype type = dtype::f32;
  const symbolic_shape* shape = nullptr;
  const detail::integer_list* begin = nullptr;  // of its initializer, if it has one
  std::int64_t copies = 1;

  /// The product of the coefficients alone where there are symbols.
  [[nodiscard]] constexpr std::int64_t elements() const { return shape->coefficient() * copies; }
};

namespace detail {

constexpr bool is_leaf(const typed_node& n) { return is_leaf(n.kind); }
constexpr bool is_named(const typed_node& n) { return is_named(n.kind); }

constexpr int count_leaves(const module_body& body) {
  int count = 0;
  for (int i = 0; i < body.size; ++i) {
    if (is_named(body.nodes[i])) ++count;
    if (body.nodes[i].body) count += count_leaves(*body.nodes[i].body);
  }
  return count;
}

// Which nodes of a body its results need in a mode.
class needed_nodes {
 public:
  constexpr needed_nodes(const module_body& body, run_mode mode, bool backward = true) {
    for (int i = 0; i < body.result_count; ++i) needed_[body.place(i)] = true;
    for (int i = body.size; i-- > 0;) {
      const typed_node& n = body.nodes[i];
      for (int k = 0; needed_[i] && k < n.operand_count; ++k) {
        const bool later = n.kind == primitive::node && n.function == static_cast<int>(op::custom_gradient) && k > 0;
        if ((n.kind != primitive::by_mode || k == chosen(mode)) && (backward || !later)) needed_[n.operand(k)] = true;
      }
    }
  }
  [[nodiscard]] constexpr bool operator[](int node) const { return needed_[node]; }
  /// The operand of by_mode.
  [[nodiscard]] static constexpr int chosen(run_mode mode) { return mode == run_mode::training ? 0 : 1; }

 private:
  bool needed_[max_body_nodes]{};
};

// The path of calls around a node, joined.
struct name_path {
  char text[max_name_length]{};
  int length = 0;
  std::int64_t copies = 1;
  bool fits = true;

  constexpr name_path& append(const char* part) {
    if (*part == '\0') return *this;
    if (length > 0) put('.');
    for (; *part != '\0'; ++part) put(*part);
    return *this;
  }

 private:
  constexpr void put(char character) {
    fits = fits && length + 1 < max_name_length;
    if (fits) text[length++] = character;
  }
};

// A name as a template argument, so that the compiler's message spells it; "" stands for none.
struct leaf_name {
  char text[max_name_length]{};
  constexpr leaf_name() = default;
  constexpr explicit leaf_name(const char (&name)[max_name_length]) {
    for (int i = 0; i < max_name_length; ++i) text[i] = name[i];
  }
  [[nodiscard]] constexpr bool none() const { return text[0] == '\0'; }
};

// "layers.*.weight" stands for "layers.0.weight", "layers.1.weight", ...
constexpr bool is_turn_of(const char* name, const char* pattern) {
  while (*pattern != '\0') {
    if (*pattern == '*' && *name >= '0' && *name <= '9') {
      while (*name >= '0' && *name <= '9') ++name;
      ++pattern;
    } else if (*pattern++ != *name++) {
      return false;
    }
  }
  return *name == '\0';
}

// Every name of a model, with what is wrong about the names. A stream of random numbers is checked like a parameter and
// then left out: two draws of one name would be the same numbers.
template <int Capacity>
struct leaf_table {
  leaf leaves[Capacity > 0 ? Capacity : 1]{};
  int size = 0;
  bool names_fit = true;
  leaf_name conflicting, repeated, unknown;  // two shapes; two layers; shared, but nowhere else
  leaf_name reassigned;                      // a state

  constexpr void add(const module_body& body, const name_path& prefix, bool shared) {
    for (int i = 0; i < body.size; ++i) {
      const typed_node& n = body.nodes[i];
      if (is_named(n)) add(n, name_path(prefix).append(n.name->text), shared || is_shared(n));
      assigns_ = assigns_ || n.kind == primitive::assign;
      if (!n.body) continue;
      name_path inner = name_path(prefix).append(n.name->text);
      if (n.kind == primitive::repeat) {
        inner.append("*");
        inner.copies *= n.count;
      }
      add(*n.body, inner, shared || is_shared(n));
    }
  }

  // A step is one of the modes: a state has one new value in each.
  constexpr void find_reassigned(const module_body& body) {
    for (const run_mode mode : {run_mode::training, run_mode::evaluation}) {
      for (bool& each : assigned_) each = false;
      if (assigns_) assign(body, name_path{}, mode);
    }
  }

  constexpr void finish() {
    int kept = 0;
    for (int i = 0; i < size; ++i) {
      const bool turn = !declared_[i] && shares_a_turn(leaves[i]);
      if (!declared_[i] && !turn) unknown = leaf_name(leaves[i].name);
      if (turn || leaves[i].kind == primitive::random) continue;
      declared_[kept] = declared_[i];
      leaves[kept++] = leaves[i];
    }
    size = kept;
    if (!conflicting.none()) repeated = unknown = {};  // one error is enough
  }

 private:
  bool declared_[Capacity > 0 ? Capacity : 1]{}, assigned_[Capacity > 0 ? Capacity : 1]{};
  bool assigns_ = false;

  // FNV-1a: most names differ, comparing texts would cost steps.
  static constexpr std::uint64_t hash_of(const name_path& full) {
    std::uint64_t hash = 14695981039346656037u;
    for (int i = 0; i < full.length; ++i) hash = (hash ^ static_cast<unsigned char>(full.text[i])) * 1099511628211u;
    return hash;
  }

  constexpr void assign(const module_body& body, const name_path& prefix, run_mode mode) {
    const needed_nodes needed(body, mode);
    for (int i = 0; i < body.size; ++i) {
      const typed_node& n = body.nodes[i];
      if (!needed[i]) continue;
      if (n.kind == primitive::assign) assign(name_path(prefix).append(body.nodes[n.operand(1)].name->text));
      if (!n.body) continue;
      name_path inner = name_path(prefix).append(n.name->text);
      if (n.kind == primitive::repeat) inner.append("*");
      assign(*n.body, inner, mode);
    }
  }

  // The state stands before what assigns it.
  constexpr void assign(const name_path& full) {
    int state = 0;
    for (const std::uint64_t hash = hash_of(full);
         leaves[state].hash != hash || !texts_equal(leaves[state].name, full.text);) {
      ++state;
    }
    if (assigned_[state]) reassigned = leaf_name(full.text);
    assigned_[state] = true;
  }

  constexpr void add(const typed_node& n, const name_path& full, bool shared) {
    std::uint64_t hash = hash_of(full);
    hash += n.kind == primitive::random ? 1 : n.kind == primitive::tap ? 2 : 0;  // names of their own
    names_fit = names_fit && full.fits;
    for (int i = 0; i < size; ++i) {
      if (leaves[i].hash != hash || !texts_equal(leaves[i].name, full.text)) continue;
      const bool begins_alike = !leaves[i].begin || !n.list || leaves[i].begin == n.list;
      const bool agrees =
          leaves[i].kind == n.kind && leaves[i].type == n.type && leaves[i].shape == n.shape && begins_alike;
      if (!leaves[i].begin) leaves[i].begin = n.list;
      if (!agrees && is_leaf(n)) {
        conflicting = leaf_name(full.text);
      } else if (!shared && declared_[i] && repeated.none()) {
        repeated = leaf_name(full.text);
      }
      declared_[i] = declared_[i] || !shared;
      return;
    }
    declared_[size] = !shared;
    leaf& added = leaves[size++];
    for (int i = 0; i < full.length; ++i) added.name[i] = full.text[i];
    added.hash = hash;
    added.kind = n.kind;
    added.type = n.type;
    added.shape = n.shape;
    added.begin = n.list;
    added.copies = full.copies;
  }

  [[nodiscard]] constexpr bool shares_a_turn(const leaf& one) const {
    for (int i = 0; i < size; ++i) {
      if (declared_[i] && leaves[i].kind == one.kind && is_turn_of(one.name, leaves[i].name)) {
        return leaves[i].type == one.type && leaves[i].shape == one.shape;
      }
    }
    return false;
  }
};

template <const module_body& Body>
consteval auto collect_leaves() {
  leaf_table<count_leaves(Body)> table;
  table.add(Body, name_path{}, false);
  table.find_reassigned(Body);
  table.finish();
  return table;
}

template <leaf_name Name>
inline constexpr bool one_shape_a_name = Name.none();
template <leaf_name Name>
inline constexpr bool one_layer_a_name = Name.none();
template <leaf_name Name>
inline constexpr bool shared_name_exists = Name.none();
template <leaf_name Name>
inline constexpr bool one_assignment_a_state = Name.none();
template <leaf_name Name>
inline constexpr bool extents_are_numbers = Name.none();
template <class Names>
inline constexpr bool one_input_a_name = Names::differ();

template <const auto& Leaves>
consteval leaf_name parameter_with_symbol() {
  for (int i = 0; i < Leaves.size; ++i) {
    const leaf& each = Leaves.leaves[i];
    if (each.kind == primitive::parameter && !each.shape->is_static()) return leaf_name(each.name);
  }
  return {};
}
template <const auto& Leaves>
consteval std::int64_t count_parameters() {
  static_assert(extents_are_numbers<parameter_with_symbol<Leaves>()>,
                "meganeura: model::parameter_count: the parameter of this name has a symbol in its shape; bind it: "
                "summary<model>({{\"symbol\", n}}).parameters");
  std::int64_t total = 0;
  for (int i = 0; i < Leaves.size; ++i) {
    total += Leaves.leaves[i].kind == primitive::parameter ? Leaves.leaves[i].elements() : 0;
  }
  return total;
}

// The tap of a full name, -1 if there is none.
template <class Leaves>
constexpr int tap_index(const Leaves& leaves, const char* name) {
  for (int i = 0; i < leaves.size; ++i) {
    if (leaves.leaves[i].kind == primitive::tap && is_turn_of(name, leaves.leaves[i].name)) return i;
  }
  return -1;
}

template <class Model, fixed_string Name>
constexpr auto facts_of_result() {
  constexpr int index = Model::output_list::index_of(Name.text);
  constexpr int tap = tap_index(Model::leaves, Name.text);
  static_assert(is_known<spelling<Name>, spellings<typename Model::output_list>, (index >= 0 || tap >= 0)>,
                "meganeura: the model has neither a result nor a tap of that name; the compiler lists its results, and "
                "a tap is known by its full path: \"layers.3.hidden\"");
  if constexpr (index >= 0) {
    return result_facts{Model::body.result(index).type, *Model::body.result(index).shape};
  } else if constexpr (tap >= 0) {
    return result_facts{Model::leaves.leaves[tap].type, *Model::leaves.leaves[tap].shape};
  } else {
    return result_facts{};
  }
}

// Declared only: a call stops constant evaluation, and the compiler's message spells this name. No `throw`, so that the
// front end compiles with -fno-exceptions.
void flops_needs_a_binding_for_each_symbol_of_the_model();

constexpr const symbol_extent* find_binding(const symbol_extent* begin, const symbol_extent* end, const symbol& name) {
  while (begin != end && !texts_equal(begin->symbol, name.text)) ++begin;
  return begin;
}

struct bound_extents {
  const symbol_extent* begin;
  const symbol_extent* end;

  constexpr double operator()(const dim& extent) const { return extent.value<double>(*this); }
  constexpr double operator()(const symbol& name) const {
    const symbol_extent* found = find_binding(begin, end, name);
    if (found != end) return static_cast<double>(found->extent);
    flops_needs_a_binding_for_each_symbol_of_the_model();
    return 0;
  }
};

// In the numbers that `Extent` makes of a dim.
template <class Extent>
struct flop_counter {
  Extent extent;
  using number = decltype(extent(dim()));

  constexpr number of(const module_body& body) const {
    number total = 0;
    const needed_nodes needed(body, run_mode::evaluation, false);
    for (int i = 0; i < body.size; ++i) {
      if (!needed[i]) continue;
      const typed_node& n = body.nodes[i];
      total += n.body ? n.count * of(*n.body) : of(body, n);
    }
    return total;
  }

  // One node that is no call.
  constexpr number of(const module_body& body, const typed_node& n) const {
    if (n.kind == primitive::map) return n.type == dtype::boolean ? 0 : elements_of(*n.shape, extent);
    if (n.kind == primitive::cast) {
      return compute_type(n.type) == compute_type(body.nodes[n.operand(0)].type) ? 0 : elements_of(*n.shape, extent);
    }
    if (n.kind != primitive::node) return 0;
    return visit_op(static_cast<op>(n.function), [&]<op Kind>() -> number {
      if constexpr (has_flops<Kind>) {
        symbolic_shape operands[max_operands];
        for (int i = 0; i < n.operand_count; ++i) operands[i] = *body.nodes[n.operand(i)].shape;
        using traits = primitive_traits<Kind>;
        return traits::flops(unpacked<typename traits::attribute_type>(n.numbers()), operands, *n.shape, extent);
      }
      return 0;
    });
  }
};

}  // namespace detail

namespace detail {

template <auto Graph>
name_list<"output"> names_of(expr<Graph>);
template <class Names, class... X>
Names names_of(result_list<Names, X...>);

template <bool>
inline constexpr bool looked_at = true;
template <class Input, class... Inputs>
constexpr int count_before() {
  int count = 0;
  bool found = false;
  ((found = found || std::is_same_v<Input, Inputs>, count += found ? 0 : 1), ...);
  return count;
}
template <class Input, class... Inputs>
inline constexpr auto placed = placeholder<Input::type, count_before<Input, Inputs...>()>;

template <int Results>
inline constexpr bool has_one_result = Results == 1;
template <const module_body& Body>
constexpr const typed_node& only_result() {
  static_assert(has_one_result<Body.result_count>,
                "meganeura: model::output: the model has several results; ask for one of them: model::result<name>");
  return Body.result(0);
}

template <class Inputs, class Leaves>
constexpr bool have_other_names(const Leaves& table) {
  for (int i = 0; i < table.size; ++i) {
    if (table.leaves[i].kind != primitive::tap && Inputs::index_of(table.leaves[i].name) >= 0) return false;
  }
  return true;
}
template <class Inputs, bool Holds>
inline constexpr bool no_leaf_of_their_name = Holds;

constexpr bool stores_results(const module_body& body) {
  for (int i = 0; i < body.result_count; ++i) {
    if (body.result(i).type == dtype::boolean) return false;
  }
  return true;
}

}  // namespace detail

/// `Module` with its inputs in the order of forward's arguments. Everything here can stand in a static_assert.
/// errors: "one name, two shapes" when a parameter's full name is used with different shapes, dtypes or initializers;
/// "two layers of one name" unless all but one are `shared`; "a state is assigned twice"; "two inputs of one name";
/// "an input and a parameter or state have one name"; "needs an input"; "takes one value for each input".
template <class Module, class... Inputs>
struct model {
  static_assert(detail::looked_at<requires {
    // First: what a compiler says of a mistake in forward then names no more than it and this model.
    Module::forward(detail::placed<Inputs, Inputs...>...);
  }>);

  /// Names of results: "output" for a module that returns one value without a name.
  using output_list = decltype(detail::names_of(detail::returned<Module, Inputs::type...>));

  static_assert(detail::stores_results(detail::body_of<Module, Inputs::type...>),
                "meganeura: model: forward returns a condition, which is never stored; return select(condition, a, b)");

  static constexpr const module_body& body = detail::body_of<Module, Inputs::type...>;
  static constexpr const auto& graph = detail::body_graph<Module, Inputs::type...>;
  static constexpr scoped_body bodies[1]{{"", &body}};
  using input_list = detail::name_list<Inputs::text...>;

  /// Of the only result.
  static constexpr const symbolic_shape& output = *detail::only_result<body>().shape;
  static constexpr dtype output_type = detail::only_result<body>().type;
  static constexpr int result_count = body.result_count;

  static constexpr int input_count = sizeof...(Inputs);
  static constexpr const auto& input_names = input_list::symbols;
  static constexpr detail::tensor_type input_types[input_count]{
      Inputs::type...};  // sized: Clang 14 reads no others here

  /// leaves.leaves[i] for i < leaves.size: name, shape, dtype of every parameter, state and tap.
  static constexpr auto leaves = detail::collect_leaves<detail::body_of<Module, Inputs::type...>>();
  static_assert(leaves.names_fit, "meganeura: model: a full parameter name is longer than 127 characters");
  static_assert(
      detail::one_shape_a_name<leaves.conflicting>,
      "meganeura: model: one name, two shapes; a parameter used twice must have one shape, dtype and initializer");
  static_assert(detail::one_layer_a_name<leaves.repeated>,
                "meganeura: model: two layers of one name would have one set of weights; give each a name of its own, "
                "or share on purpose: shared(linear<name, out>(x))");
  static_assert(detail::shared_name_exists<leaves.unknown>,
                "meganeura: model: shared(layer) shares with the layer of that name, and there is none");
  static_assert(detail::one_assignment_a_state<leaves.reassigned>,
                "meganeura: model: a state is assigned twice, and a step gives it one new value; assign it once, where "
                "that value is known");
  static_assert(detail::one_input_a_name<input_list>,
                "meganeura: model: two inputs of one name; give each a name of its own");
  static_assert(detail::no_leaf_of_their_name<input_list, detail::have_other_names<input_list>(leaves)>,
                "meganeura: model: an input and a parameter or state have one name; give each a name of its own");

  /// Of the result or tap of that name; a tap's is its full path, "layers.3.hidden".
  /// errors: "the model gives nothing of that name".
  template <fixed_string Name>
  static constexpr result_facts result = detail::facts_of_result<model, Name>();

  /// Trained elements, tied weights once. errors: "the parameter of this name has a symbol in its shape".
  static constexpr std::int64_t parameter_count = detail::count_parameters<leaves>();

  /// Floating-point operations of one forward pass of an evaluation: 2 a multiply-add, 1 an element of everything else
  /// but conditions and casts between floats. While compiling only; `lower<M>(bindings).flops()` is the same number at
  /// run time, less what the model writes twice: there it is one node.
  [[nodiscard]] static consteval double flops(std::initializer_list<symbol_extent> bindings = {}) {
    return detail::flop_counter<detail::bound_extents>{{bindings.begin(), bindings.end()}}.of(body);
  }

  [[nodiscard]] static constexpr detail::tensor_type input_type(int index) { return input_types[index]; }
  /// Position of the input of that name, -1 if there is none.
  [[nodiscard]] static constexpr int input_index(const char* name) { return input_list::index_of(name); }
};

namespace detail {

template <class T>
inline constexpr bool is_input = false;
template <fixed_string Name, dtype Type, symbolic_shape Shape>
inline constexpr bool is_input<input<Name, Type, Shape>> = true;
template <class... Inputs>
inline constexpr bool are_inputs = sizeof...(Inputs) > 0 && (is_input<Inputs> && ...);

// What a compiler goes on with behind such a mistake, so that there is no second one. Templates, so that it takes no
// time where there is none.
template <class Refused>
struct nothing {
  static constexpr auto forward(value auto x) { return x; }
};
template <class Refused>
using empty_model = model<nothing<Refused>, input<"x", dtype::f32, dims<1>>>;
// A function: Clang 14 takes no class of which a static_assert failed.
template <class... Inputs>
constexpr bool expect_inputs() {
  static_assert(are_inputs<Inputs...>,
                "meganeura: model<module, inputs...>: a model is a module and then at least one input, each with a "
                "name: input<\"x\", dtype::f32, dims<4>>");
  return true;
}

}  // namespace detail

/// Without inputs there is nothing to compute from.
template <class Module, class... Inputs>
  requires(!detail::are_inputs<Inputs...>)
struct model<Module, Inputs...> : detail::empty_model<Module> {
  using refused = std::bool_constant<detail::expect_inputs<Inputs...>()>;
};

/// Data for the input `Name`: what sessions and trainers take. Holds no data itself; the range must outlive the call.
template <fixed_string Name, class T>
struct bound_input {
  static constexpr const char* name = detail::symbol_of<Name>.text;
  const T* data;
  std::size_t size;
};

namespace detail {
template <class T>
concept has_elements = requires(const T& range) {
  *range.data(), range.size();
};
}  // namespace detail

/// The extent of the symbol `Name`, where inputs leave it open.
template <fixed_string Name>
struct bound_symbol {
  static constexpr const char* name = detail::symbol_of<Name>.text;
  std::int64_t extent;
};

namespace detail {
template <class T>
inline constexpr bool binds_symbol = false;
template <fixed_string Name>
inline constexpr bool binds_symbol<bound_symbol<Name>> = true;

// What bind<...>() gives.
template <class T>
inline constexpr bool is_binding = binds_symbol<T>;
template <fixed_string Name, class T>
inline constexpr bool is_binding<bound_input<Name, T>> = true;
}  // namespace detail

/// bind<"image">(pixels): any contiguous range of float or integers of 32 or 8 bits, for an input;
/// bind<"sequence">(128): the extent of a symbol. dtypes: float is for floats of any width, f16 and bf16 too: each
/// number is rounded to the nearest one that the input has, as parameters::set does. errors: "needs a contiguous
/// range", "elements must be float or integers of 32 or 8 bits".
template <fixed_string Name, class Range>
[[nodiscard]] constexpr auto bind(const Range& range) {
  static_assert(detail::has_elements<Range> || std::is_integral_v<Range>,
                "meganeura: bind<name>(range): needs a contiguous range, a std::vector, std::array or std::span; a "
                "whole number is the extent of a symbol");
  if constexpr (std::is_integral_v<Range>) {
    return bound_symbol<Name>{static_cast<std::int64_t>(range)};
  } else if constexpr (detail::has_elements<Range>) {
    using element = std::remove_cvref_t<decltype(*range.data())>;
    static_assert(detail::dtype_of<element> != dtype::boolean,
                  "meganeura: bind<name>(range): elements must be float or integers of 32 or 8 bits; copy others, "
                  "labels of 64 bits: std::vector<std::int32_t>(labels.begin(), labels.end())");
    return bound_input<Name, element>{range.data(), range.size()};
  } else {
    return bound_input<Name, float>{nullptr, 0};
  }
}

/// Whether a model takes this binding; the errors are static_asserts here, in the call that binds.
template <class Model, fixed_string Name, class T>
constexpr int checked_input_index(const bound_input<Name, T>&) {
  constexpr int index = Model::input_index(detail::symbol_of<Name>.text);
  static_assert(detail::is_known<detail::spelling<Name>, detail::spellings<typename Model::input_list>, (index >= 0)>,
                "meganeura: bind<name>(range): there is no input of that name; the compiler lists those there are");
  constexpr bool is_said = index < 0 || detail::dtype_of<T> == dtype::boolean;  // here, or in bind
  constexpr dtype wanted = detail::host_type(Model::input_type(index < 0 ? 0 : index).type);
  static_assert(is_said || detail::dtypes_agree<detail::dtype_of<T>, wanted>,
                "meganeura: bind<name>(range): the input has another dtype");
  return index < 0 ? 0 : index;
}

namespace detail {

constexpr bool has_symbol(const symbolic_shape& shape, const char* name) {
  for (int i = 0; i < shape.rank; ++i) {
    for (const symbol* each : shape[i].names) {
      if (each && texts_equal(each->text, name)) return true;
    }
  }
  return false;
}

constexpr bool has_symbol(const module_body& body, const char* name) {
  for (int i = 0; i < body.size; ++i) {
    if (has_symbol(*body.nodes[i].shape, name)) return true;
    if (body.nodes[i].body && has_symbol(*body.nodes[i].body, name)) return true;
  }
  return false;
}

template <std::size_t Count>
constexpr bool has_symbol(const scoped_body (&bodies)[Count], const char* name) {
  for (const scoped_body& each : bodies) {
    if (has_symbol(*each.body, name)) return true;
  }
  return false;
}

template <fixed_string Name, bool Found>
inline constexpr bool symbol_known = Found;

}  // namespace detail

/// The same for a symbol.
template <class Model, fixed_string Name>
constexpr void check_bound(const bound_symbol<Name>&) {
  static_assert(detail::symbol_known<Name, detail::has_symbol(Model::bodies, detail::symbol_of<Name>.text)>,
                "meganeura: bind<name>(n): the model has no symbol of that name; an input is bound to a range");
}
template <class Model, fixed_string Name, class T>
constexpr void check_bound(const bound_input<Name, T>& input) {
  (void)checked_input_index<Model>(input);
}

}  // namespace meganeura::inline MEGANEURA_ABI
