// SPDX-License-Identifier: MIT
// The list of all operations, and what is found out by using them.
#include "operation.hpp"

#include <meganeura/autodiff/gradient.hpp>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

namespace operations {

namespace {

// The operation on operands of another dtype than the first has; those that have none but it, too.
mn::node_value made(mn::graph& g, const operation& asked, mn::dtype type, std::vector<mn::node_id>& operands) {
  std::vector<mn::node_value> values;
  for (const operand& x : asked.operands) {
    const mn::dtype own = x.type == asked.operands[0].type ? type : x.type;
    operands.push_back(g.input("x" + std::to_string(operands.size()), own, x.extents));
    values.emplace_back(g, operands.back());
  }
  return asked.build(values);
}

bool takes(const operation& asked, mn::dtype type) {
  mn::graph g;
  std::vector<mn::node_id> operands;
  try {
    static_cast<void>(made(g, asked, type, operands).id());
    return true;
  } catch (const mn::error&) {
    return false;
  }
}

std::string dtypes_of(const operation& asked) {
  const bool f32 = takes(asked, mn::dtype::f32), f16 = takes(asked, mn::dtype::f16),
             bf16 = takes(asked, mn::dtype::bf16);
  const bool i32 = takes(asked, mn::dtype::i32), u32 = takes(asked, mn::dtype::u32);
  if (f32 && f16 && bf16 && i32 && u32) return "numbers";
  if (f32 && f16 && bf16 && !i32 && !u32) return "floats";
  if (!f32 && !f16 && !bf16 && i32 && u32) return "integers";
  std::string list;
  for (const auto& [is, name] : {std::pair{f32, "f32"}, {f16, "f16"}, {bf16, "bf16"}, {i32, "i32"}, {u32, "u32"}}) {
    if (is) list += (list.empty() ? "" : ", ") + std::string(name);
  }
  return list;
}

std::string gradient_of(const operation& asked) {
  mn::graph g;
  std::vector<mn::node_id> operands, wrt;
  const mn::node_value y = made(g, asked, asked.operands[0].type, operands);
  for (const mn::node_id id : operands) {
    if (is_float(g[id].type)) wrt.push_back(id);
  }
  if (wrt.empty() || !is_float(g[y.id()].type)) return "none";
  try {
    const auto reached = reached_gradients(g, sum(mn::cast(y, mn::dtype::f32)).id(), wrt);
    return std::all_of(reached.begin(), reached.end(), [](mn::node_id id) { return id == mn::no_id; }) ? "none" : "yes";
  } catch (const mn::error&) {
    return "refused";
  }
}

std::vector<operation> make_all() {
  std::vector<operation> list;
  add_attention(list);
  add_ctc(list);
  add_elementwise(list);
  add_angles(list);
  add_rounding(list);
  add_activations(list);
  add_interpolation(list);
  add_probability(list);
  add_reductions(list);
  add_losses(list);
  add_windows(list);
  add_products(list);
  add_shape(list);
  add_scans(list);
  add_statistics(list);
  std::sort(list.begin(), list.end(), [](const operation& a, const operation& b) { return a.call < b.call; });
  return list;
}

std::string quoted(const std::string& name) { return name.empty() ? "" : "`" + name + "`"; }

}  // namespace

found ask(const operation& asked) { return {dtypes_of(asked), gradient_of(asked)}; }

std::vector<numbers> drawn(const operation& asked) {
  std::mt19937_64 random(7);
  std::vector<numbers> result;
  for (const operand& x : asked.operands) {
    numbers& list = result.emplace_back(static_cast<std::size_t>(x.extents.elements()));
    for (double& number : list) {
      number = x.low + (x.high - x.low) * static_cast<double>(random() >> 11) * 0x1p-53;
      number = is_float(x.type) ? static_cast<float>(number) : std::floor(number);
    }
  }
  return result;
}

numbers weights(std::size_t count) {
  numbers list(count);
  for (std::size_t i = 0; i < count; ++i) list[i] = 0.5 + static_cast<double>(i * 5 % 8) / 8;
  return list;
}

const std::vector<operation>& all() {
  static const std::vector<operation> list = make_all();
  return list;
}

// What compares them, tests/peers, gives no such operands.
static constexpr const char* differences = R"(
## Different from PyTorch by design

Everywhere:

- Integers keep their dtype: a sum of i32 is i32, indices are i32. Those of 8 bits are summed after a cast. Integers divided by 0
  are 0.
- A float cast to an integer saturates, and a NaN gives 0; PyTorch leaves both open. Integers wrap, as there.
- An index out of range reads zeros, writes or adds nothing, and is named by the option `checks`; PyTorch throws on a CPU.
- f16 and bf16 inside of a composite are f32, rounded once.
- A condition is no number: `select` and `cast` make one of it.
- Of values at run time, operands come first and what stands in <> behind them, `softmax(x, -1)`; a name comes before them,
  `conv2d("c", x, 8, options)`, and the axis of any number of operands, `concat(1, a, b)`.
- Random numbers are Philox's, of a seed and a name; no masks are those of PyTorch's generators.

One by one:

- `cross_entropy_loss`, `nll_loss`: classes are the last axis; `.axis = 1` is PyTorch's. If no label counts the loss is 0, not NaN.
- `max`, `min` of axes, max pools: the gradient goes to the first of equal elements, as `torch.max` of an axis; `amax` shares it. Max
  pools with dilation halve it between two.
- `mode`: the gradient goes to the first of the equal elements, PyTorch's to the last.
- `put_along`: of several updates of a place the last along the axis counts and has the gradient; PyTorch's gradient goes to all.
- `sort`, `argsort`, `topk`: stable, a NaN is the largest; `median` is the smaller of the middle two, as there.
- `logsumexp`, `logcumsumexp` of nothing but -infinity: gradient 0, not NaN. `ctc_loss`: gradient 0 of what its frames cannot hold.
- `meshgrid(a, b)` is "ij".
- `fmin`, `fmax` take the number beside a NaN; `minimum`, `maximum` are NaN. Which of -0 and 0 they give is open.
- `batch_norm` trains on one value a channel, as if its variance were 0; PyTorch refuses.
- `rms_norm`: epsilon is 1e-5, PyTorch's is that of the dtype, 1.1920929e-7 of f32.
- `quantize` gives u8 or i8 where the range fits, otherwise i32, and no dtype of its own.
- `resize` names how coordinates are placed as ONNX does; `interpolate`'s "nearest" is `asymmetric`.
- Rows of attention that see no key are 0, not NaN. A condition as `attn_mask` says what is seen, in `multi_head_attention` and the
  layers of transformers as well; `nn.MultiheadAttention`'s says what is not. `key_lengths` is its `key_padding_mask`.
- `lstm`, `gru`, `rnn`: `sequence_lengths` stands for packed sequences, and a length may be 0.
- `embedding_bag`: a padding index of -1 is none, not the last row.
)";

std::string markdown() {
  std::set<std::string> names;
  for (const operation& each : all()) names.insert(each.call.substr(0, each.call.find_first_of("<(")));
  std::string text =
      "# Operations\n\n"
      "Written by `examples/operations --markdown`, which asks each operation; a test compares this file with it, the\n"
      "operations with their definitions in plain numbers, and their gradients with differences of these. Gradient:\n"
      "`none` flows back through integers, steps and comparisons; a request for one that is `refused` is an "
      "error.\n"
      "What draws random numbers is not here: `dropout`, `alpha_dropout`, `rrelu` and `random`.\n\n" +
      std::to_string(names.size()) + " operations.\n\n" +
      "| operation | shapes | dtypes | gradient | PyTorch | ONNX |\n|---|---|---|---|---|---|\n";
  for (const operation& each : all()) {
    const found says = ask(each);
    text += "| `" + each.call + "` | " + each.shapes + " | " + says.dtypes + " | " + says.gradient + " | " +
            quoted(each.torch) + " | " + quoted(each.onnx) + " |\n";
  }
  return text + layers_markdown() + differences;
}

}  // namespace operations
