// SPDX-License-Identifier: MIT
// Several results of a module, and taps: names, types and the graph they make.
#include <meganeura/frontend.hpp>

namespace mn = meganeura;

inline constexpr mn::dim batch = mn::sym<"batch">;
constexpr bool same(const char* a, const char* b) { return mn::detail::texts_equal(a, b); }

struct two_heads {
  static constexpr auto forward(mn::value auto x) {
    auto h = mn::tap<"hidden">(mn::relu(mn::linear<"trunk", 8>(x)));
    return mn::results<"distance", "label">(mn::linear<"distance", 1>(h), mn::linear<"label", 10>(h));
  }
};
using heads = mn::model<two_heads, mn::input<"x", mn::dtype::f32, mn::dims<batch, 4>>>;
static_assert(heads::result_count == 2 && heads::parameter_count == 4 * 8 + 8 + 8 + 1 + 80 + 10);
static_assert(heads::result<"distance">.shape == mn::dims<batch, 1>);
static_assert(heads::result<"label">.shape == mn::dims<batch, 10> && heads::result<"label">.type == mn::dtype::f32);
static_assert(heads::result<"hidden">.shape == mn::dims<batch, 8>);
static_assert(same(heads::output_list::symbols[1]->text, "label"));
static_assert(heads::graph.count(mn::primitive::tap) == 1, "what both heads read is there once");

// A cell's call is destructured, and repeated: its results are the operands of the next turn.
struct cell {
  static constexpr auto forward(mn::value auto h, mn::value auto c, mn::value auto x) {
    auto next = mn::tanh(mn::linear<"in", 8>(x) + mn::linear<"out", 8>(h) + c);
    return mn::results<"h", "c">(next * c, next);
  }
};
struct recurrent {
  static constexpr auto forward(mn::value auto x, mn::value auto h, mn::value auto c) {
    auto [h1, c1] = mn::call<"first", cell>(h, c, x);
    auto [h2, c2] = mn::repeat<"more", 3, cell>(h1, c1, x);
    auto again = mn::shared(mn::call<"first", cell>(h2, c2, x));
    return mn::results<"y", "c", "first">(again.template get<"h">(), c2, h1);
  }
};
template <mn::fixed_string Name>
using rows = mn::input<Name, mn::dtype::f32, mn::dims<batch, 8>>;
using network = mn::model<recurrent, rows<"x">, rows<"h">, rows<"c">>;
static_assert(network::graph.count(mn::primitive::call) == 2 && network::graph.count(mn::primitive::repeat) == 1);
static_assert(network::parameter_count == 4 * 2 * (64 + 8));
static_assert(network::flops({{"batch", 1}}) == 5 * (2 * 2 * 64 + 2 * 8 + 2 * 8 + 8 + 8));

struct tapped {
  static constexpr auto forward(mn::value auto x) { return mn::tap<"hidden">(mn::relu(mn::linear<"fc", 8>(x))); }
};
struct deep {
  static constexpr auto forward(mn::value auto x) {
    return mn::results<"y">(mn::repeat<"layers", 3, tapped>(mn::call<"stem", tapped>(x)));
  }
};
using nested = mn::model<deep, rows<"x">>;
static_assert(nested::output == mn::dims<batch, 8> && same(nested::output_list::symbols[0]->text, "y"));
static_assert(nested::result<"layers.2.hidden">.shape == mn::dims<batch, 8>);
static_assert(nested::result<"stem.hidden">.type == mn::dtype::f32);

// A list of results without values of types.
constexpr auto pair = mn::result_list<mn::detail::name_list<"a", "b">, int, double>(1, 2.5);
constexpr bool read_by_name_and_position() {
  auto [a, b] = pair;
  return a == 1 && b == 2.5 && pair.get<"b">() == 2.5 && pair.get<0>() == 1;
}
static_assert(read_by_name_and_position());
