// SPDX-License-Identifier: MIT
// Operations of the list, run on a device with their gradients.
#include "run.hpp"

#include <meganeura/autodiff/gradient.hpp>
#include <meganeura/runtime/inference.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>

namespace operations {

namespace {

template <class Number>
numbers read(const mn::inference& net, const std::string& name) {
  const auto values = net.read<Number>(name);
  return {values.begin(), values.end()};
}

numbers read(const mn::inference& net, const std::string& name, mn::dtype type) {
  return type == mn::dtype::i32   ? read<std::int32_t>(net, name)
         : type == mn::dtype::u32 ? read<std::uint32_t>(net, name)
         : type == mn::dtype::i8  ? read<std::int8_t>(net, name)
         : type == mn::dtype::u8  ? read<std::uint8_t>(net, name)
                                  : read<float>(net, name);
}

// Values of inputs, which must stay while they are bound.
struct inputs {
  std::vector<std::string> names;
  std::vector<std::vector<float>> floats;
  std::vector<std::vector<std::int32_t>> integers;

  void add(const std::string& name, const numbers& values, mn::dtype type) {
    names.push_back(name);
    floats.emplace_back();
    integers.emplace_back();
    if (is_float(type)) {
      floats.back().assign(values.begin(), values.end());
    } else {
      for (const double x : values) integers.back().push_back(static_cast<std::int32_t>(static_cast<std::int64_t>(x)));
    }
  }
  // u32 is what an i32 of the same bits is.
  [[nodiscard]] mn::input_values bound(std::size_t i, mn::dtype type) const {
    if (is_float(type)) return {names[i], floats[i]};
    return {names[i], type, std::as_bytes(std::span(integers[i]))};
  }
};

struct placed {
  std::vector<mn::node_id> operands;
  mn::node_id result{};
  std::vector<std::size_t> differentiated;  // operands
};

}  // namespace

std::vector<outcome> run(const mn::device& on, const std::vector<const operation*>& list) {
  mn::graph g;
  inputs given;
  std::vector<mn::dtype> types;
  std::vector<placed> all;
  for (const operation* asked : list) {
    placed& here = all.emplace_back();
    const std::string name = std::to_string(all.size() - 1);
    const std::vector<numbers> values = drawn(*asked);
    std::vector<mn::node_value> operands;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const operand& x = asked->operands[i];
      const std::string input = name + " operand " + std::to_string(i);
      operands.emplace_back(g, g.input(input, x.type, x.extents));
      here.operands.push_back(operands.back().id());
      given.add(input, values[i], x.type);
      types.push_back(x.type);
    }
    here.result = asked->build(operands).id();
    g.add_output(name, here.result);
    if (!is_float(g[here.result].type) || ask(*asked).gradient == "refused") continue;
    const mn::shape extents = g[here.result].extents;
    const mn::node_id seed = g.input(name + " weights", g[here.result].type, extents);
    given.add(name + " weights", weights(static_cast<std::size_t>(extents.elements())), mn::dtype::f32);
    types.push_back(mn::dtype::f32);
    for (std::size_t i = 0; i < here.operands.size(); ++i) {
      if (!is_float(g[here.operands[i]].type)) continue;
      here.differentiated.push_back(i);
      const mn::node_id results[] = {here.result}, seeds[] = {seed}, wrt[] = {here.operands[i]};
      g.add_output(name + " by " + std::to_string(i), gradients(g, results, seeds, wrt)[0]);
    }
  }
  mn::inference net(on, g, {.program = {.checks = mn::checks::none}});
  std::vector<mn::input_values> bound;
  for (std::size_t i = 0; i < types.size(); ++i) bound.push_back(given.bound(i, types[i]));
  net.start(bound);
  std::vector<outcome> found;
  for (std::size_t at = 0; at < all.size(); ++at) {
    const std::string name = std::to_string(at);
    const mn::node& result = g[all[at].result];
    outcome& one = found.emplace_back(outcome{result.type, result.extents, read(net, name, result.type), {}});
    one.gradients.resize(all[at].operands.size());
    for (const std::size_t i : all[at].differentiated) {
      one.gradients[i] = read<float>(net, name + " by " + std::to_string(i));
    }
  }
  return found;
}

std::string json(const mn::device& on) {
  constexpr std::size_t together = 16;
  auto text = nlohmann::json::array();
  for (std::size_t first = 0; first < all().size(); first += together) {
    std::vector<const operation*> list;
    for (std::size_t i = first; i < std::min(first + together, all().size()); ++i) list.push_back(&all()[i]);
    const std::vector<outcome> found = run(on, list);
    for (std::size_t at = 0; at < list.size(); ++at) {
      const operation& asked = *list[at];
      const std::vector<numbers> values = drawn(asked);
      auto operands = nlohmann::json::array();
      for (std::size_t i = 0; i < values.size(); ++i) {
        const mn::shape& extents = asked.operands[i].extents;
        operands.push_back({{"dtype", to_string(asked.operands[i].type)},
                            {"shape", std::vector<std::int64_t>(extents.begin(), extents.end())},
                            {"values", values[i]},
                            {"gradient", found[at].gradients[i]}});
      }
      const mn::shape& extents = found[at].extents;
      text.push_back({{"call", asked.call},
                      {"torch", asked.torch},
                      {"operands", operands},
                      {"dtype", to_string(found[at].type)},
                      {"shape", std::vector<std::int64_t>(extents.begin(), extents.end())},
                      {"result", found[at].result},
                      {"weights", weights(found[at].result.size())}});
    }
  }
  return text.dump();
}

std::string layers_json(const mn::device& on) {
  auto text = nlohmann::json::array();
  for (const operation& asked : layers()) {
    mn::graph g;
    std::vector<mn::node_value> operands;
    for (const operand& x : asked.operands)
      operands.emplace_back(g, g.input("x" + std::to_string(operands.size()), x.type, x.extents));
    const mn::node_id y = asked.build(operands).id();
    g.add_output("y", y);
    operation leaves = asked;  // inputs and parameters, to be drawn
    std::vector<mn::node_id> ids(operands.begin(), operands.end());
    for (const mn::node_id id : g.leaves(mn::op::parameter)) {
      leaves.operands.push_back({g[id].extents, -1, 1});
      ids.push_back(id);
    }
    const mn::node_id seeds[] = {g.input("weights", mn::dtype::f32, g[y].extents)}, outputs[] = {y};
    for (const mn::node_id id : ids) {
      if (is_float(g[id].type))
        g.add_output("by " + g.get<mn::leaf_attribute>(id).name,
                     mn::gradients(g, outputs, seeds, std::span(&id, 1))[0]);
    }
    mn::inference net(on, g, {.program = {.checks = mn::checks::none}});
    net.parameters().init({.seed = 1});  // states
    const std::vector<numbers> values = drawn(leaves);
    inputs given;
    auto told = nlohmann::json::array();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::string name = g.get<mn::leaf_attribute>(ids[i]).name;
      if (i >= operands.size()) {
        net.parameters().set(name, std::vector<float>(values[i].begin(), values[i].end()));
      } else {
        given.add(name, values[i], g[ids[i]].type);
      }
    }
    given.add("weights", weights(static_cast<std::size_t>(g[y].extents.elements())), mn::dtype::f32);
    std::vector<mn::input_values> bound;
    for (std::size_t i = 0; i < given.names.size(); ++i)
      bound.push_back(given.bound(i, i < operands.size() ? g[ids[i]].type : mn::dtype::f32));
    net.start(bound);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::string name = g.get<mn::leaf_attribute>(ids[i]).name;
      const mn::shape& extents = g[ids[i]].extents;
      told.push_back({{"name", i < operands.size() ? "" : name.substr(2)},
                      {"dtype", to_string(g[ids[i]].type)},
                      {"shape", std::vector<std::int64_t>(extents.begin(), extents.end())},
                      {"values", values[i]},
                      {"gradient", is_float(g[ids[i]].type) ? read<float>(net, "by " + name) : numbers{}}});
    }
    const numbers found = read<float>(net, "y");
    text.push_back({{"call", asked.call},
                    {"leaves", told},
                    {"shape", std::vector<std::int64_t>(g[y].extents.begin(), g[y].extents.end())},
                    {"result", found},
                    {"weights", weights(found.size())}});
  }
  return text.dump();
}

}  // namespace operations
