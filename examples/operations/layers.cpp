// SPDX-License-Identifier: MIT
// Layers with parameters, each with inputs to try it with; what parameters it has is found out.
#include <cmath>

#include "operation.hpp"

namespace operations {

namespace {

using values = std::vector<mn::node_value>;

// The layer is named "l".
operation layer(const char* call, const char* shapes, const char* torch, std::vector<operand> inputs,
                std::function<mn::node_value(const values&)> build) {
  return {call, shapes, torch, "", std::move(inputs), std::move(build), {}};
}

mn::node_value flat(const mn::node_value& x) { return flatten(x, 0, -1); }

void add_matrices(std::vector<operation>& list) {
  const operand line{{2, 4, 7}}, image{{2, 4, 5, 6}}, box{{1, 4, 3, 4, 5}}, rows{{2, 3, 4}};
  static constexpr mn::conv_options strided{.stride = 2, .padding = 1, .groups = 2};
  static constexpr mn::conv_transpose_options spread{.stride = 2, .padding = 1, .output_padding = 1, .groups = 2};
  list.push_back(layer("linear<name, out>(x)", "[.., in] -> [.., out]", "nn.Linear", {rows},
                       [](const values& x) { return mn::linear("l", x[0], 5); }));
  list.push_back(layer("weight_norm_linear<name, out>(x)", "[.., in] -> [.., out]", "nn.utils.weight_norm(nn.Linear)",
                       {rows}, [](const values& x) { return mn::weight_norm_linear("l", x[0], 5); }));
  list.push_back(layer("lora_linear<name, out, options>(x)", "[.., in] -> [.., out]", "", {rows},
                       [](const values& x) { return mn::lora_linear("l", x[0], 5, mn::lora_options{.rank = 2}); }));
  list.push_back(layer("bilinear<name, out>(a, b)", "[.., i], [.., j] -> [.., out]", "nn.Bilinear",
                       {{{3, 2}}, {{3, 4}}}, [](const values& x) { return mn::bilinear("l", x[0], x[1], 5); }));
  list.push_back(layer("embedding<name, rows, width>(tokens)", "[..] i32 -> [.., width]", "nn.Embedding",
                       {{{2, 3}, 0, 5, mn::dtype::i32}},
                       [](const values& x) { return mn::embedding("l", x[0], 5, 4); }));
  list.push_back(layer("conv1d<name, out, options>(x)", "[n, c, w] -> [n, out, ow]", "nn.Conv1d", {line},
                       [](const values& x) { return mn::conv1d("l", x[0], 6, strided); }));
  list.push_back(layer("conv2d<name, out, options>(x)", "[n, c, h, w] -> [n, out, oh, ow]", "nn.Conv2d", {image},
                       [](const values& x) { return mn::conv2d("l", x[0], 6, strided); }));
  list.push_back(layer("conv3d<name, out, options>(x)", "[n, c, d, h, w] -> [n, out, od, oh, ow]", "nn.Conv3d", {box},
                       [](const values& x) { return mn::conv3d("l", x[0], 6, strided); }));
  list.push_back(layer("weight_norm_conv<name, out, options>(x)", "[n, c, ..] -> [n, out, ..]",
                       "nn.utils.weight_norm(nn.Conv2d)", {image},
                       [](const values& x) { return mn::weight_norm_conv("l", x[0], 6, strided); }));
  list.push_back(layer("conv_transpose1d<name, out, options>(x)", "[n, c, w] -> [n, out, ow]", "nn.ConvTranspose1d",
                       {line}, [](const values& x) { return mn::conv_transpose1d("l", x[0], 6, spread); }));
  list.push_back(layer("conv_transpose2d<name, out, options>(x)", "[n, c, h, w] -> [n, out, oh, ow]",
                       "nn.ConvTranspose2d", {image},
                       [](const values& x) { return mn::conv_transpose2d("l", x[0], 6, spread); }));
  list.push_back(layer("conv_transpose3d<name, out, options>(x)", "[n, c, d, h, w] -> [n, out, od, oh, ow]",
                       "nn.ConvTranspose3d", {box},
                       [](const values& x) { return mn::conv_transpose3d("l", x[0], 6, spread); }));
}

void add_norms(std::vector<operation>& list) {
  const operand image{{2, 4, 3, 2}};
  list.push_back(layer("batch_norm<name>(x)", "[n, c, ..] -> [n, c, ..]", "nn.BatchNorm2d", {image},
                       [](const values& x) { return mn::batch_norm("l", x[0]); }));
  list.push_back(layer("layer_norm<name, options>(x)", "[..] -> [..]", "nn.LayerNorm", {image},
                       [](const values& x) { return mn::layer_norm("l", x[0], mn::norm_options{.axes = 2}); }));
  list.push_back(layer("rms_norm<name>(x)", "[.., width] -> [.., width]", "nn.RMSNorm", {{{2, 3, 4}}},
                       [](const values& x) { return mn::rms_norm("l", x[0]); }));
  list.push_back(layer("group_norm<name, groups>(x)", "[n, c, ..] -> [n, c, ..]", "nn.GroupNorm", {image},
                       [](const values& x) { return mn::group_norm("l", x[0], 2); }));
  list.push_back(layer("instance_norm<name, options>(x)", "[n, c, ..] -> [n, c, ..]", "nn.InstanceNorm2d", {image},
                       [](const values& x) { return mn::instance_norm("l", x[0], mn::group_norm_options{}); }));
}

void add_transformers(std::vector<operation>& list) {
  static constexpr mn::transformer_options post{.width = 4, .heads = 2, .hidden = 6, .causal = true},
      pre{.width = 4, .heads = 2, .hidden = 6, .gelu = true, .norm_first = true};
  const operand rows{{2, 3, 4}}, memory{{2, 5, 4}}, own{{2}, 1, 4, mn::dtype::i32}, others{{2}, 1, 6, mn::dtype::i32};
  list.push_back(layer(
      "multi_head_attention<name, heads>(x)", "[b?, t, width] -> [b?, t, width]", "nn.MultiheadAttention", {rows},
      [](const values& x) { return mn::multi_head_attention("l", x[0], 2, mn::multi_head_options{.causal = true}); }));
  list.push_back(layer("multi_head_attention<name, heads>(query, key, value)",
                       "[b?, t, width], [b?, s, width], [b?, s, width] -> [b?, t, width]", "nn.MultiheadAttention",
                       {rows, memory, memory},
                       [](const values& x) { return mn::multi_head_attention("l", x[0], x[1], x[2], 2); }));
  list.push_back(layer("multi_head_attention<name, heads>(query, key, value, attn_mask(m))",
                       "[b?, t, width], [b?, s, width], [b?, s, width], [.., t, s] -> [b?, t, width]",
                       "nn.MultiheadAttention", {rows, memory, memory, {{3, 5}}}, [](const values& x) {
                         return mn::multi_head_attention("l", x[0], x[1], x[2], mn::attn_mask(x[3]), 2);
                       }));
  list.push_back(layer("multi_head_attention<name, heads>(x, key_lengths(n))", "[b?, t, width], [b?] -> [b?, t, width]",
                       "nn.MultiheadAttention", {rows, own},
                       [](const values& x) { return mn::multi_head_attention("l", x[0], mn::key_lengths(x[1]), 2); }));
  list.push_back(layer("multi_head_attention<name, heads>(query, key, value, attn_mask(m), key_lengths(n))",
                       "[b?, t, width], [b?, s, width], [b?, s, width], [.., t, s], [b?] -> [b?, t, width]",
                       "nn.MultiheadAttention", {rows, memory, memory, {{3, 5}}, others}, [](const values& x) {
                         return mn::multi_head_attention("l", x[0], x[1], x[2], mn::attn_mask(x[3]),
                                                         mn::key_lengths(x[4]), 2);
                       }));
  list.push_back(layer("call<name, transformer_encoder_layer<options>>(x)", "[b?, t, width] -> [b?, t, width]",
                       "nn.TransformerEncoderLayer", {rows},
                       [](const values& x) { return mn::call<mn::transformer_encoder_layer<pre>>("l", x[0]); }));
  list.push_back(layer("call<name, transformer_decoder_layer<options>>(x, memory)",
                       "[b?, t, width], [b?, s, width] -> [b?, t, width]", "nn.TransformerDecoderLayer", {rows, memory},
                       [](const values& x) { return mn::call<mn::transformer_decoder_layer<post>>("l", x[0], x[1]); }));
  list.push_back(layer("call<name, transformer_encoder_layer<options>>(x, attn_mask(m), key_lengths(n))",
                       "[b?, t, width], [.., t, t], [b?] -> [b?, t, width]", "nn.TransformerEncoderLayer",
                       {rows, {{3, 3}}, own}, [](const values& x) {
                         return mn::call<mn::transformer_encoder_layer<pre>>("l", x[0], mn::attn_mask(x[1]),
                                                                             mn::key_lengths(x[2]));
                       }));
  list.push_back(layer("call<name, transformer_decoder_layer<options>>(x, memory, key_lengths(n), memory_lengths(s))",
                       "[b?, t, width], [b?, s, width], [b?], [b?] -> [b?, t, width]", "nn.TransformerDecoderLayer",
                       {rows, memory, own, others}, [](const values& x) {
                         return mn::call<mn::transformer_decoder_layer<post>>("l", x[0], x[1], mn::key_lengths(x[2]),
                                                                              mn::memory_lengths(x[3]));
                       }));
}

void add_recurrences(std::vector<operation>& list) {
  static constexpr mn::recurrent_options both{.hidden = 2, .layers = 2, .bidirectional = true}, one{.hidden = 3};
  const operand rows{{2, 3, 4}}, begin{{4, 2, 2}}, x{{2, 4}}, h{{2, 3}}, lengths{{2}, 1, 4, mn::dtype::i32};
  constexpr const char* shapes = "[n, t, width] -> [n, t, hidden], twice as wide if bidirectional";
  list.push_back(
      layer("call<name, lstm<options>>(x, h_0, c_0)",
            "[n, t, width], [d, n, hidden], [d, n, hidden] -> [n, t, hidden], [d, n, hidden], [d, n, hidden]",
            "nn.LSTM", {rows, begin, begin}, [](const values& v) {
              const auto y = mn::call<mn::lstm<both>>("l", v[0], v[1], v[2]);
              return concat(0, flat(y.get<0>()), flat(y.get<1>()), flat(y.get<2>()));
            }));
  list.push_back(layer("call<name, gru<options>>(x, h_0)",
                       "[n, t, width], [d, n, hidden] -> [n, t, hidden], [d, n, hidden]", "nn.GRU", {rows, begin},
                       [](const values& v) {
                         const auto y = mn::call<mn::gru<both>>("l", v[0], v[1]);
                         return concat(0, flat(y.get<0>()), flat(y.get<1>()));
                       }));
  list.push_back(
      layer("call<name, lstm<options>>(x, h_0, c_0, sequence_lengths(s))",
            "[n, t, width], [d, n, hidden], [d, n, hidden], [n] -> [n, t, hidden], [d, n, hidden], [d, n, hidden]",
            "nn.LSTM", {rows, begin, begin, lengths}, [](const values& v) {
              const auto y = mn::call<mn::lstm<both>>("l", v[0], v[1], v[2], mn::sequence_lengths(v[3]));
              return concat(0, flat(y.get<0>()), flat(y.get<1>()), flat(y.get<2>()));
            }));
  list.push_back(layer("call<name, gru<options>>(x, h_0, sequence_lengths(s))",
                       "[n, t, width], [d, n, hidden], [n] -> [n, t, hidden], [d, n, hidden]", "nn.GRU",
                       {rows, begin, lengths}, [](const values& v) {
                         const auto y = mn::call<mn::gru<both>>("l", v[0], v[1], mn::sequence_lengths(v[2]));
                         return concat(0, flat(y.get<0>()), flat(y.get<1>()));
                       }));
  list.push_back(layer("call<name, lstm<options>>(x)", shapes, "nn.LSTM", {rows},
                       [](const values& v) { return mn::call<mn::lstm<one>>("l", v[0]); }));
  list.push_back(layer("call<name, gru<options>>(x)", shapes, "nn.GRU", {rows},
                       [](const values& v) { return mn::call<mn::gru<one>>("l", v[0]); }));
  list.push_back(layer("call<name, rnn<options>>(x)", shapes, "nn.RNN", {rows},
                       [](const values& v) { return mn::call<mn::rnn<both>>("l", v[0]); }));
  list.push_back(layer("call<name, lstm_cell<options>>(x, h, c)",
                       "[n, width], [n, hidden], [n, hidden] -> [n, hidden], [n, hidden]", "nn.LSTMCell", {x, h, h},
                       [](const values& v) {
                         const auto y = mn::call<mn::lstm_cell<one>>("l", v[0], v[1], v[2]);
                         return concat(0, y.get<0>(), y.get<1>());
                       }));
  list.push_back(layer("call<name, gru_cell<options>>(x, h)", "[n, width], [n, hidden] -> [n, hidden]", "nn.GRUCell",
                       {x, h}, [](const values& v) { return mn::call<mn::gru_cell<one>>("l", v[0], v[1]); }));
  list.push_back(layer("call<name, rnn_cell<options>>(x, h)", "[n, width], [n, hidden] -> [n, hidden]", "nn.RNNCell",
                       {x, h}, [](const values& v) { return mn::call<mn::rnn_cell<one>>("l", v[0], v[1]); }));
}

// "zeros", "uniform in +-0.5"
std::string beginning(const mn::graph& g, mn::node_id id) {
  const mn::initializer how = g.get<mn::leaf_attribute>(id).begin.value_or(mn::init::fan_in_uniform);
  const auto number = [](double x) {
    std::string text = std::to_string(std::round(x * 1e4) / 1e4);
    while (text.back() == '0') text.pop_back();
    if (text.back() == '.') text.pop_back();
    return text;
  };
  if (how.draw == mn::initial_draw::none) return number(how.centre);
  const std::string size = number(std::sqrt(how.square));
  std::string text = how.draw == mn::initial_draw::normal ? "normal, deviation " + size : "uniform in +-" + size;
  if (how.fan == mn::initial_fan::in) text += " / sqrt(fan_in)";
  if (how.fan == mn::initial_fan::mean) text += " / sqrt(mean of fans)";
  return text;
}

}  // namespace

const std::vector<operation>& layers() {
  static const std::vector<operation> list = [] {
    std::vector<operation> made;
    add_matrices(made);
    add_norms(made);
    add_transformers(made);
    add_recurrences(made);
    return made;
  }();
  return list;
}

std::string layers_markdown() {
  std::string text =
      "\n## Layers\n\n"
      "Named calls with parameters, tried with the operands that are listed; what else there is besides the numbers "
      "of\n"
      "a call stands at its options. Names of parameters are behind the layer's own, as in PyTorch's files.\n\n"
      "| layer | shapes | with | parameters, and how they begin | PyTorch |\n|---|---|---|---|---|\n";
  for (const operation& each : layers()) {
    mn::graph g;
    std::string with, parameters;
    values operands;
    for (const operand& x : each.operands) {
      operands.emplace_back(g, g.input("x" + std::to_string(operands.size()), x.type, x.extents));
      with += (with.empty() ? "" : ", ") + to_string(x.extents);
    }
    static_cast<void>(each.build(operands).id());
    for (const mn::node_id id : g.leaves(mn::op::parameter)) {
      parameters += (parameters.empty() ? "`" : ", `") + g.get<mn::leaf_attribute>(id).name.substr(2) + "` " +
                    to_string(g[id].extents) + " " + beginning(g, id);
    }
    text += "| `" + each.call + "` | " + each.shapes + " | " + with + " | " + parameters + " | " +
            (each.torch.empty() ? "" : "`" + each.torch + "`") + " |\n";
  }
  return text;
}

}  // namespace operations
