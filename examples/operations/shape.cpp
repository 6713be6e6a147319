// SPDX-License-Identifier: MIT
// Shapes, indices and rearrangements.
#include "operation.hpp"

#include <cstdint>

namespace operations {

namespace {

using values = std::vector<mn::node_value>;
using all_numbers = std::vector<numbers>;
using std::size_t;

constexpr mn::dtype i32 = mn::dtype::i32;

// What has the result's elements, one each: `at(x, i)` for i in row-major order.
auto elements(size_t count, double (*at)(const all_numbers& x, size_t i)) {
  return [=](const all_numbers& x) {
    numbers y(count);
    for (size_t i = 0; i < count; ++i) y[i] = at(x, i);
    return y;
  };
}

size_t whole(double x) { return static_cast<size_t>(x); }

// Element i of the result is the operand's element `place(i)`, or 0 where that is below 0.
auto moved(size_t count, int (*place)(int i)) {
  return [=](const all_numbers& x) {
    numbers y(count);
    for (size_t i = 0; i < count; ++i) {
      const int from = place(static_cast<int>(i));
      y[i] = from < 0 ? 0 : x[0][static_cast<size_t>(from)];
    }
    return y;
  };
}

// One operand whose elements are moved.
operation rearrangement(const char* call, const char* shapes, const char* torch, const char* onnx, mn::shape extents,
                        size_t count, mn::node_value (*build)(mn::node_value), int (*place)(int i)) {
  return {
      call, shapes, torch, onnx, {{extents}}, [build](const values& x) { return build(x[0]); }, moved(count, place)};
}

#define MOVED(call, shapes, torch, onnx, extents, count, built, place)                                     \
  list.push_back(rearrangement(                                                                            \
      call, shapes, torch, onnx, extents, count, [](mn::node_value x) -> mn::node_value { return built; }, \
      [](int i) -> int { return place; }))
#define EXTENTS(...) \
  { __VA_ARGS__ }

// What frontend.hpp has.
void add_views(std::vector<operation>& list) {
  MOVED("reshape<dims>(x)", "[..] -> dims", "reshape", "Reshape", EXTENTS(2, 6), 12, mn::reshape(x, mn::shape{3, 4}),
        i);
  list.push_back({"reshape_as(x, like)",
                  "[..], [..] -> [..]",
                  "reshape",
                  "Reshape",
                  {{{2, 6}}, {{3, 4}}},
                  [](const values& x) { return mn::reshape_as(x[0], x[1]); },
                  moved(12, [](int i) { return i; })});
  MOVED("unsqueeze<axis>(x)", "[.., ..] -> [.., 1, ..]", "unsqueeze", "Unsqueeze", EXTENTS(2, 3), 6,
        mn::unsqueeze(x, 1), i);
  MOVED("flatten<first, last>(x)", "[.., n, m, ..] -> [.., n m, ..]", "flatten", "Flatten", EXTENTS(2, 3, 4), 24,
        mn::flatten(x, 1, 2), i);
  MOVED("permute<axes...>(x)", "[..] -> [..]", "permute", "Transpose", EXTENTS(2, 3, 4), 24, mn::permute(x, 2, 0, 1),
        i % 6 * 4 + i / 6);
  MOVED("transpose(x)", "[.., m, n] -> [.., n, m]", "mT", "Transpose", EXTENTS(2, 3, 4), 24, mn::transpose(x),
        i / 12 * 12 + i % 3 * 4 + i / 3 % 4);
  MOVED("slice<axis, start, count, step>(x)", "[.., n, ..] -> [.., count, ..]", "", "Slice", EXTENTS(2, 7), 6,
        mn::slice(x, -1, 1, 3, 2), i / 3 * 7 + 1 + i % 3 * 2);
  MOVED("pad<axis, low, high, value>(x)", "[.., n, ..] -> [.., low + n + high, ..]", "pad", "Pad", EXTENTS(2, 3), 12,
        mn::pad(x, -1, 1, 2), i % 6 < 1 || i % 6 > 3 ? -1 : i / 6 * 3 + i % 6 - 1);
  MOVED("expand<dims>(x)", "[..] -> dims", "expand", "Expand", EXTENTS(3, 1), 24, mn::expand(x, mn::shape{2, 3, 4}),
        i / 4 % 3);
  MOVED("flip<axis>(x)", "[..] -> [..]", "flip", "", EXTENTS(2, 3), 6, mn::flip(x, 1), i / 3 * 3 + 2 - i % 3);
  MOVED("split_heads<heads>(x)", "[.., heads n] -> [.., heads, n]", "unflatten", "Reshape", EXTENTS(2, 6), 12,
        mn::split_heads(x, 3), i);
  MOVED("merge_heads(x)", "[.., heads, n] -> [.., heads n]", "flatten", "Reshape", EXTENTS(2, 3, 2), 12,
        mn::merge_heads(x), i);
  list.push_back({"concat<axis>(a, b, ...)",
                  "[.., n, ..], [.., m, ..] -> [.., n + m, ..]",
                  "cat",
                  "Concat",
                  {{{2, 3}}, {{2, 2}}},
                  [](const values& x) { return mn::concat(1, x[0], x[1]); },
                  elements(10, [](const all_numbers& x, size_t i) {
                    return i % 5 < 3 ? x[0][i / 5 * 3 + i % 5] : x[1][i / 5 * 2 + i % 5 - 3];
                  })});
  list.push_back({"gather<axis>(data, indices)",
                  "[.., n, ..], [i...] -> [.., i..., ..]",
                  "index_select",
                  "Gather",
                  {{{2, 5, 3}}, {{4}, 0, 5, i32}},
                  [](const values& x) { return mn::gather(x[0], x[1], 1); },
                  elements(24, [](const all_numbers& x, size_t i) {
                    return x[0][i / 12 * 15 + whole(x[1][i / 3 % 4]) * 3 + i % 3];
                  })});
  list.push_back({"scatter_add<axis, dims>(indices, updates)",
                  "[i...], [.., i..., ..] -> dims",
                  "",
                  "ScatterND",
                  {{{4, 3}}, {{4}, 0, 5, i32}},
                  [](const values& x) {
                    return mn::scatter_add(x[1], x[0], 0, mn::shape{5, 3});
                  },
                  [](const all_numbers& x) {
                    numbers y(15, 0.0);
                    for (size_t i = 0; i < 12; ++i) y[whole(x[1][i / 3]) * 3 + i % 3] += x[0][i];
                    return y;
                  }});
  list.push_back({"index_add<axis>(x, indices, updates)",
                  "[.., n, ..], [i...], [.., i..., ..] -> [.., n, ..]",
                  "index_add",
                  "ScatterND",
                  {{{2, 5, 3}}, {{4}, 0, 5, i32}, {{2, 4, 3}}},
                  [](const values& x) { return mn::index_add(x[0], x[1], x[2], 1); },
                  [](const all_numbers& x) {
                    numbers y = x[0];
                    for (size_t i = 0; i < 24; ++i) y[i / 12 * 15 + whole(x[1][i / 3 % 4]) * 3 + i % 3] += x[2][i];
                    return y;
                  }});
  list.push_back({"narrow<axis, length>(x, start)",
                  "[.., n, ..], [] -> [.., length, ..]",
                  "narrow",
                  "Slice",
                  {{{5, 3}}, {{}, 1, 4, i32}},
                  [](const values& x) { return mn::narrow(x[0], x[1], 0, 2); },
                  elements(6, [](const all_numbers& x, size_t i) { return x[0][whole(x[1][0]) * 3 + i]; })});
  list.push_back({"update_rows<axis>(x, rows, position)",
                  "[.., n, ..], [.., m, ..], [] -> [.., n, ..]",
                  "slice_scatter",
                  "TensorScatter",
                  {{{5, 3}}, {{2, 3}}, {{}, 1, 4, i32}},
                  [](const values& x) { return mn::update_rows(x[0], x[1], x[2]); },
                  [](const all_numbers& x) {
                    numbers y = x[0];
                    for (size_t i = 0; i < 6; ++i) y[whole(x[2][0]) * 3 + i] = x[1][i];
                    return y;
                  }});
}

void add_arrangements(std::vector<operation>& list) {
  MOVED("squeeze<axis>(x)", "[.., 1, ..] -> [.., ..]", "squeeze", "Squeeze", EXTENTS(2, 1, 3), 6, mn::squeeze(x, 1), i);
  MOVED("movedim<from, to>(x)", "[..] -> [..]", "movedim", "Transpose", EXTENTS(2, 3, 4), 24, mn::movedim(x, 0, -1),
        i % 2 * 12 + i / 2);
  MOVED("swap_axes<a, b>(x)", "[..] -> [..]", "swapaxes", "Transpose", EXTENTS(2, 3, 4), 24, mn::swap_axes(x, 0, -1),
        i % 2 * 12 + i / 2 % 3 * 4 + i / 6);
  MOVED("tile<axis, count>(x)", "[.., n, ..] -> [.., count n, ..]", "tile", "Tile", EXTENTS(2, 3), 18,
        mn::tile(x, 1, 3), i / 9 * 3 + i % 3);
  MOVED("repeat_interleave<axis, count>(x)", "[.., n, ..] -> [.., count n, ..]", "repeat_interleave", "", EXTENTS(2, 3),
        12, mn::repeat_interleave(x, 0, 2), i / 6 * 3 + i % 3);
  MOVED("roll<axis, shift>(x)", "[..] -> [..]", "roll", "", EXTENTS(2, 5), 10, mn::roll(x, -1, 7),
        i / 5 * 5 + (i + 3) % 5);
  MOVED("pick<axis, index>(x)", "[.., n, ..] -> [.., ..]", "select", "Gather", EXTENTS(2, 4, 3), 6, mn::pick(x, 1, -1),
        i / 3 * 12 + 9 + i % 3);
  MOVED("chunk<axis, count>(x)", "[.., count n, ..] -> [.., n, ..] each", "chunk", "Split", EXTENTS(2, 6), 4,
        (mn::chunk<1, 3>(x).get<2>()), i / 2 * 6 + 4 + i % 2);
  MOVED("split<axis, sizes...>(x)", "[.., n + m, ..] -> [.., n, ..], [.., m, ..]", "split", "Split", EXTENTS(2, 6), 6,
        mn::split(x, 1, 1, 3, 2).get<1>(), i / 3 * 6 + 1 + i % 3);
  MOVED("unbind<axis, count>(x)", "[.., count, ..] -> [.., ..] each", "unbind", "SplitToSequence", EXTENTS(2, 3), 2,
        (mn::unbind<1, 3>(x).get<1>()), i * 3 + 1);
  MOVED("rot90<turns>(x)", "[.., m, n] -> [.., n, m]", "rot90", "", EXTENTS(2, 3), 6, mn::rot90(x, 1),
        i % 2 * 3 + 2 - i / 2);
  list.push_back({"stack<axis>(a, b, ...)",
                  "[..], [..] -> [.., 2, ..]",
                  "stack",
                  "",
                  {{{2, 3}}, {{2, 3}}},
                  [](const values& x) { return mn::stack(-1, x[0], x[1]); },
                  elements(12, [](const all_numbers& x, size_t i) { return x[i % 2][i / 2]; })});
}

void add_blocks(std::vector<operation>& list) {
  MOVED("pixel_shuffle<block>(x)", "[.., c b b, h, w] -> [.., c, h b, w b]", "pixel_shuffle", "DepthToSpace",
        EXTENTS(8, 2, 3), 48, mn::pixel_shuffle(x, 2),
        (i / 24 * 4 + i / 6 % 2 * 2 + i % 2) * 6 + i / 12 % 2 * 3 + i / 2 % 3);
  MOVED("depth_to_space<block>(x)", "[.., b b c, h, w] -> [.., c, h b, w b]", "", "DepthToSpace", EXTENTS(8, 2, 3), 48,
        mn::depth_to_space(x, 2), ((i / 6 % 2 * 2 + i % 2) * 2 + i / 24) * 6 + i / 12 % 2 * 3 + i / 2 % 3);
  MOVED("pixel_unshuffle<block>(x)", "[.., c, h b, w b] -> [.., c b b, h, w]", "pixel_unshuffle", "", EXTENTS(2, 4, 6),
        48, mn::pixel_unshuffle(x, 2), i / 24 * 24 + (i / 3 % 2 * 2 + i / 12 % 2) * 6 + i % 3 * 2 + i / 6 % 2);
  MOVED("space_to_depth<block>(x)", "[.., c, h b, w b] -> [.., b b c, h, w]", "", "SpaceToDepth", EXTENTS(2, 4, 6), 48,
        mn::space_to_depth(x, 2), i / 6 % 2 * 24 + (i / 3 % 2 * 2 + i / 24) * 6 + i % 3 * 2 + i / 12 % 2);
  MOVED("channel_shuffle<groups>(x)", "[.., c, h, w] -> [.., c, h, w]", "channel_shuffle", "", EXTENTS(1, 6, 1, 2), 12,
        mn::channel_shuffle(x, 3), (i / 2 % 3 * 2 + i / 6) * 2 + i % 2);
  MOVED("pad_by<axis, low, high, pad_mode::reflect>(x)", "[.., n, ..] -> [.., low + n + high, ..]", "pad", "Pad",
        EXTENTS(2, 4), 18, mn::pad_by(x, 1, 2, 3, mn::pad_mode::reflect),
        i / 9 * 4 + (i % 9 < 2   ? 2 - i % 9
                     : i % 9 < 6 ? i % 9 - 2
                                 : 8 - i % 9));
  MOVED("pad_by<axis, spatial, spatial, pad_mode::reflect>(x)", "[.., n, m, ..] -> [.., low + n + high, .., ..]", "pad",
        "Pad", EXTENTS(3, 4), 28, mn::pad_by(x, 0, mn::spatial{1, 2}, mn::spatial{0, 1}, mn::pad_mode::reflect),
        (i / 7 < 1 ? 1 : i / 7 - 1) * 4 + (i % 7 < 2   ? 2 - i % 7
                                           : i % 7 < 6 ? i % 7 - 2
                                                       : 2));
  MOVED("pad_by<axis, low, high, pad_mode::edge>(x)", "[.., n, ..] -> [.., low + n + high, ..]", "pad", "Pad",
        EXTENTS(4, 2), 18, mn::pad_by(x, 0, 2, 3, mn::pad_mode::edge),
        (i / 2 < 2   ? 0
         : i / 2 < 6 ? i / 2 - 2
                     : 3) *
                2 +
            i % 2);
  MOVED("pad_by<axis, low, high, pad_mode::wrap>(x)", "[.., n, ..] -> [.., low + n + high, ..]", "pad", "Pad",
        EXTENTS(2, 4), 18, mn::pad_by(x, 1, 2, 3, mn::pad_mode::wrap), i / 9 * 4 + (i % 9 + 2) % 4);
}

// 1 where a definition without operands is true.
auto told(size_t count, double (*at)(int i)) {
  return [=](const all_numbers&) {
    numbers y(count);
    for (size_t i = 0; i < count; ++i) y[i] = at(static_cast<int>(i));
    return y;
  };
}

void add_diagonals(std::vector<operation>& list) {
  MOVED("tril<offset>(x)", "[.., m, n] -> [.., m, n]", "tril", "Trilu", EXTENTS(2, 3, 4), 24, mn::tril(x, 1),
        i % 4 - i / 4 % 3 <= 1 ? i : -1);
  MOVED("triu<offset>(x)", "[.., m, n] -> [.., m, n]", "triu", "Trilu", EXTENTS(2, 3, 4), 24, mn::triu(x, -1),
        i % 4 - i / 4 % 3 >= -1 ? i : -1);
  MOVED("diagonal<offset>(x)", "[.., m, n] -> [.., k]", "diagonal", "", EXTENTS(2, 3, 4), 6, mn::diagonal(x, 1),
        i / 3 * 12 + i % 3 * 5 + 1);
  MOVED("diag_embed<offset>(x)", "[.., n] -> [.., n + offset, n + offset]", "diag_embed", "", EXTENTS(2, 3), 32,
        mn::diag_embed(x, -1), i / 4 % 4 == i % 4 + 1 ? i / 16 * 3 + i % 4 : -1);
  list.push_back({"trace(x)",
                  "[.., m, n] -> [..]",
                  "trace",
                  "",
                  {{{3, 4}}},
                  [](const values& x) { return mn::trace(x[0]); },
                  [](const all_numbers& x) { return numbers{x[0][0] + x[0][5] + x[0][10]}; }});
  const auto like = [&](const char* call, const char* torch, const char* onnx, mn::node_value (*build)(mn::node_value),
                        double (*at)(int i)) {
    list.push_back({call,
                    "[..] -> [..]",
                    torch,
                    onnx,
                    {{{3, 4}}},
                    [build](const values& x) { return build(x[0]); },
                    told(12, at)});
  };
  like(
      "full_like<value>(x)", "full_like", "ConstantOfShape", [](mn::node_value x) { return mn::full_like(x, 2.0); },
      [](int) { return 2.0; });
  like(
      "zeros_like(x)", "zeros_like", "ConstantOfShape", [](mn::node_value x) { return mn::zeros_like(x); },
      [](int) { return 0.0; });
  like(
      "ones_like(x)", "ones_like", "ConstantOfShape", [](mn::node_value x) { return mn::ones_like(x); },
      [](int) { return 1.0; });
  like(
      "arange_like<axis>(x)", "arange", "Range", [](mn::node_value x) { return mn::arange_like(x, 1); },
      [](int i) { return double(i % 4); });
  like(
      "eye_like(x)", "eye", "EyeLike", [](mn::node_value x) { return mn::eye_like(x); },
      [](int i) { return double(i % 4 == i / 4); });
  list.push_back({"one_hot<classes>(indices)",
                  "[..] -> [.., classes]",
                  "one_hot",
                  "OneHot",
                  {{{4}, 0, 5, i32}},
                  [](const values& x) { return mn::one_hot(x[0], 5); },
                  elements(20, [](const all_numbers& x, size_t i) { return double(whole(x[0][i / 5]) == i % 5); })});
}

void add_along_axes(std::vector<operation>& list) {
  const operand table{{2, 5, 3}}, places{{2, 4, 3}, 0, 5, i32}, news{{2, 4, 3}};
  list.push_back(
      {"take_along<axis>(data, indices)",
       "[.., n, ..], [.., m, ..] -> [.., m, ..]",
       "gather",
       "GatherElements",
       {table, places},
       [](const values& x) { return mn::take_along(x[0], x[1], 1); },
       elements(24, [](const all_numbers& x, size_t i) { return x[0][i / 12 * 15 + whole(x[1][i]) * 3 + i % 3]; })});
  list.push_back({"put_along<axis>(x, indices, updates)",
                  "[.., n, ..], [.., m, ..], [.., m, ..] -> [.., n, ..]",
                  "scatter",
                  "ScatterElements",
                  {table, places, news},
                  [](const values& x) { return mn::put_along(x[0], x[1], x[2], -2); },
                  [](const all_numbers& x) {
                    numbers y = x[0];
                    for (size_t i = 0; i < 24; ++i) y[i / 12 * 15 + whole(x[1][i]) * 3 + i % 3] = x[2][i];
                    return y;
                  }});
  list.push_back({"add_along<axis>(x, indices, updates)",
                  "[.., n, ..], [.., m, ..], [.., m, ..] -> [.., n, ..]",
                  "scatter_add",
                  "ScatterElements",
                  {table, places, news},
                  [](const values& x) { return mn::add_along(x[0], x[1], x[2], 1); },
                  [](const all_numbers& x) {
                    numbers y = x[0];
                    for (size_t i = 0; i < 24; ++i) y[i / 12 * 15 + whole(x[1][i]) * 3 + i % 3] += x[2][i];
                    return y;
                  }});
}

}  // namespace

void add_shape(std::vector<operation>& list) {
  add_views(list);
  add_arrangements(list);
  add_blocks(list);
  add_diagonals(list);
  add_along_axes(list);
}

}  // namespace operations
