// SPDX-License-Identifier: MIT
// What the patches beside this file add, in a typed model and in graphs, on a device: each number against plain C++.
#include <meganeura/meganeura.hpp>
#include <meganeura/runtime/inference.hpp>
#include <meganeura/runtime/training.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace mn = meganeura;

namespace {

void expect_near(const char* what, const std::vector<float>& found, const std::vector<double>& expected) {
  bool same = found.size() == expected.size();
  for (std::size_t i = 0; same && i < found.size(); ++i) {
    same = std::abs(found[i] - expected[i]) <= 2e-6 * (1 + std::abs(expected[i]));
    if (!same) std::printf("%s: element %zu is %.9g; expected %.9g\n", what, i, found[i], expected[i]);
  }
  if (same) return;
  std::printf("%s: wrong\n", what);
  std::exit(1);
}
void expect(const char* what, bool holds) {
  if (holds) return;
  std::printf("%s\n", what);
  std::exit(1);
}

// A table's rows with a bias for each place, then exprel of their squares, delayed along the rows.
constexpr int rows = 5, width = 3, places = 4;
struct network {
  static constexpr auto forward(mn::value auto at) {
    auto table = mn::parameter<"table", mn::dims<rows, width>>;
    auto bias = mn::parameter<"bias", mn::dims<places, width>>;
    auto h = mn::gather<0>(table, at) + bias;
    return mn::results<"h", "delayed">(h, mn::delay<-1>(mn::exprel(h * h)));
  }
};
using model = mn::model<network, mn::input<"at", mn::dtype::i32, mn::dims<places>>>;

std::vector<float> numbers(int count, double step) {
  std::vector<float> made;
  for (int i = 0; i < count; ++i) made.push_back(static_cast<float>(std::sin(1 + i) * step));
  return made;
}

void typed(const mn::device& gpu) {
  const std::vector<float> table = numbers(rows * width, 2), bias = numbers(places * width, 1e-3);
  const std::vector<std::int32_t> at{4, 0, 3, 4};
  mn::session<model> s(gpu);
  s.parameters().set("table", table);
  s.parameters().set("bias", bias);
  const auto [h, delayed] = s.run(mn::bind<"at">(at));
  std::vector<double> expected_h, expected_delayed;
  for (std::size_t i = 0; i < places; ++i) {
    double before = 0;
    for (std::size_t k = 0; k < width; ++k) {
      const auto row = static_cast<std::size_t>(at[i]);
      const double x = double{table[row * width + k]} + double{bias[i * width + k]};
      expected_h.push_back(x);
      expected_delayed.push_back(std::exchange(before, std::expm1(x * x) / (x * x)));
    }
  }
  expect_near("h", h, expected_h);
  expect_near("delayed", delayed, expected_delayed);
  const std::string plan = to_text(s.program().plan());
  expect("the bias should be a part of the lookup", plan.find("lookup") != std::string::npos &&
                                                        plan.find("add(a0, a1)") != std::string::npos &&
                                                        plan.find("gather") == std::string::npos);
}

// Delayed and weighted: the gradient goes back by a place. One step of the optimiser.
void trained(const mn::device& gpu) {
  const std::vector<float> w = numbers(6, 0.5), c = numbers(6, 3);
  mn::graph g;
  const mn::node_id weight = g.parameter("w", mn::dtype::f32, {2, 3}), scale = g.input("c", mn::dtype::f32, {2, 3});
  const mn::node_id squares = g.multiply(weight, weight);
  const mn::node_id delayed = g.apply(mn::op::delay, mn::delay_attribute{1}, {g.map(mn::scalar_op::exprel, {squares})});
  const mn::node_id loss = g.reduce(mn::reduce_kind::sum, g.multiply(delayed, scale), 3);
  mn::training run(gpu, std::move(g), loss, mn::adadelta{.learning_rate = 0.5f, .rho = 0.75f});
  run.parameters().set("w", w);
  run.step({{"c", c}}).wait();
  std::vector<double> expected;
  for (std::size_t i = 0; i < 6; ++i) {
    const double weighed = i % 3 == 2 ? 0 : double{c[i + 1]};
    const double x = double{w[i]}, z = x * x;
    const double slope = weighed * 2 * x * (std::exp(z) - std::expm1(z) / z) / z, v = 0.25 * slope * slope;
    expected.push_back(x - 0.5 * slope * std::sqrt(1e-6) / std::sqrt(v + 1e-6));
  }
  expect_near("w after a step", run.parameters().get("w"), expected);
}

void refused() {
  mn::graph g;
  try {
    (void)g.apply(mn::op::delay, mn::delay_attribute{2, true}, {g.input("x", mn::dtype::f32, {2, 3})});
  } catch (const mn::error& e) {
    const std::string_view text = e.what();
    return expect(e.what(), text == "delay axis=2 back=true of f32 [2, 3]: there is no such axis");
  }
  expect("an axis that does not exist was taken", false);
}

// A count in 16 bits, kept from run to run, modulo 2^16.
void stored(const mn::device& gpu) {
  mn::graph g;
  const mn::node_id kept = g.state("kept", mn::dtype::u16, {3}), one = g.input("step", mn::dtype::u32, {3});
  const mn::node_id next = g.cast(g.add(g.cast(kept, mn::dtype::u32), one), mn::dtype::u16);
  g.assign(kept, next);
  g.add_output("kept", g.cast(kept, mn::dtype::u32));
  mn::inference run(gpu, g);
  run.parameters().init({});
  const std::vector<std::uint32_t> step{1, 1000, 65535};
  for (int i = 0; i < 3; ++i) run.start({{"step", step}});
  const std::vector<std::uint32_t> found = run.read<std::uint32_t>("kept");
  for (std::size_t i = 0; i < 3; ++i) {
    if (found[i] == (2 * step[i] & 0xffff)) continue;
    std::printf("twice %u in u16 is %u\n", step[i], found[i]);
    std::exit(1);
  }
}

// The largest of negated numbers, by a rule that knows what that is.
void rewritten(const mn::device& gpu) {
  mn::graph g;
  const mn::node_id x = g.input("x", mn::dtype::f32, {2, 3});
  g.add_output("most", g.reduce(mn::reduce_kind::max, g.map(mn::scalar_op::negate, {x}), 2));
  mn::inference run(gpu, g);
  const std::vector<float> given = numbers(6, 2);
  run.start({{"x", given}});
  expect_near("most", run.read<float>("most"),
              {-std::min({given[0], given[1], given[2]}), -std::min({given[3], given[4], given[5]})});
  const auto& rules = run.program().report().rules;
  const auto found = std::ranges::find(rules, "negated_extremum", &mn::fusion::rule_report::name);
  expect("negated_extremum should have been applied once", found != rules.end() && found->applied == 1);
}

}  // namespace

int main() try {
  const mn::device gpu;
  refused();
  typed(gpu);
  trained(gpu);
  stored(gpu);
  rewritten(gpu);
} catch (const std::exception& e) {
  std::printf("%s\n", e.what());
  return 1;
}
