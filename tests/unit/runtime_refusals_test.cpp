// SPDX-License-Identifier: MIT
// What handles to device memory say of bytes, numbers and calls that they do not take.
#include <meganeura/data/labelled_images.hpp>
#include <meganeura/expr/value.hpp>
#include <meganeura/frontend.hpp>
#include <meganeura/runtime/training.hpp>

#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace meganeura;

// Of one parameter of floats and one of integers.
training open_rows() {
  const auto make = [](const symbol_extents& at) {
    graph g;
    const node_value x(g, g.input("x", dtype::f32, {at["rows"], 2})), w(g, g.parameter("w", dtype::f32, {2}));
    g.add_output("n", g.parameter("n", dtype::i32, {3}));
    const node_id loss = mean(x * w);
    return graph_with_loss{std::move(g), loss};
  };
  return {support::shared_device(), {open_sizes({{"x", dims<sym<"rows">, 2>}}), make}, adam{}, {.ema = 0.5f}};
}

TEST(runtime_refusals, a_handle_says_what_it_is_of) {
  const std::array<std::byte, 3> three{};
  struct refused {
    std::string sentence;
    std::function<void(training&)> call;
  };
  const refused list[] = {
      {"parameter \"w\" is f32[2], 8 bytes, and was given 3 bytes",
       [&](training& run) { run.parameters().set_bytes("w", three); }},
      {"parameter \"n\" is i32[3] and was given 3 f32 values",
       [](training& run) { run.parameters().set("n", std::vector<float>(3)); }},
      {"parameter \"n\" is i32, not a float; read it by get_bytes",
       [](training& run) { (void)run.parameters().get("n"); }},
      {"init: parameter \"n\" is i32[3] and does not say how it begins; give it a constant, or set or load all of them",
       [](training& run) { run.parameters().init({.seed = 1}); }},
      {"\"optimizer.m.w\" is f32[2], 8 bytes, and was given 3 bytes",
       [&](training& run) {
         optimizer_moments all = run.moments();
         all.write(all.list().front(), three);
       }},
      {"\"optimizer.z.w\": no moment has that name and place; ask with what list() has",
       [](training& run) {
         plan::named_range other = run.moments().list().front();
         other.name = "optimizer.z.w";
         (void)run.moments().read(other);
       }},
  };
  training run = open_rows();
  run.prepare({{"rows", 3}});
  for (const refused& each : list) EXPECT_EQ(support::refusal([&] { each.call(run); }), each.sentence);
}

TEST(runtime_refusals, what_is_not_there_before_sizes_are_known) {
  EXPECT_EQ(support::refusal([] { (void)open_rows().averages(); }),
            "averages: there are no parameters yet; prepare some sizes");
  EXPECT_EQ(support::refusal([] { (void)open_rows().moments().list(); }),
            "there are no moments before the first program is built, and its sizes are not known yet; prepare some "
            "sizes");
}

TEST(runtime_refusals, pixels_fill_as_many_numbers) {
  std::array<float, 4> numbers{};
  EXPECT_EQ(support::refusal([&] { data::to_unit_interval(std::vector<std::uint8_t>(3), numbers); }),
            "to_unit_interval: 3 pixels were to fill 4 numbers; use images of the model's size");
}

}  // namespace
