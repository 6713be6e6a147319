// SPDX-License-Identifier: MIT
// Gradients that are clipped, by value and by their norm, against PyTorch's definitions in f64.
#include <meganeura/frontend.hpp>
#include <meganeura/runtime/trainer.hpp>

#include <oracle/tolerance.hpp>
#include <support/program_values.hpp>
#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>
#include <support/small_models.hpp>
#include <support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace {

using namespace meganeura;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr std::size_t columns = 300;

// The sum of a * x, b * y and c * z, with a [7, 300], b [300] and one number c: gradients are what is bound.
graph_with_loss linear_in_all() {
  graph g;
  const auto term = [&](const char* name, const char* by, const shape& extents) {
    const node_id product = g.multiply(g.parameter(name, dtype::f32, extents), g.input(by, dtype::f32, extents));
    return extents.rank() == 0 ? product : g.reduce(reduce_kind::sum, product, (1u << extents.rank()) - 1);
  };
  const auto wide = static_cast<std::int64_t>(columns);
  const node_id loss = g.add(g.add(term("a", "x", {7, wide}), term("b", "y", {wide})), term("c", "z", {}));
  return {std::move(g), loss};
}

training make(const training_options& options) {
  graph_with_loss model = linear_in_all();
  training run(support::shared_device(), std::move(model.forward), model.loss, sgd{.learning_rate = 1}, options);
  for (const auto& [name, count] : {std::pair{"a", 7 * columns}, {"b", columns}, {"c", std::size_t{1}}})
    run.parameters().set(name, std::vector<float>(count, 0.0f));
  return run;
}

using gradients_of_all = std::vector<std::vector<float>>;

gradients_of_all some(float factor = 1) {
  gradients_of_all all{support::uniform(7 * columns, 1), support::uniform(columns, 2), support::uniform(1, 3)};
  for (auto& each : all) {
    for (float& value : each) value *= factor;
  }
  return all;
}

// What a step of rate 1 from zeros leaves is the gradient, negated.
gradients_of_all used(training& run, const gradients_of_all& bound, float* norm = nullptr) {
  pending_step step = run.step({{"x", bound[0]}, {"y", bound[1]}, {"z", bound[2]}});
  if (norm) *norm = step.value("grad_norm");
  gradients_of_all all;
  for (const char* name : {"a", "b", "c"}) {
    all.push_back(run.parameters().get(name));
    for (float& value : all.back()) value = -value;
  }
  return all;
}

double norm_of(const gradients_of_all& all) {
  double sum = 0;
  for (const auto& each : all) {
    for (const float value : each) sum += static_cast<double>(value) * static_cast<double>(value);
  }
  return std::sqrt(sum);
}

void expect_near(const gradients_of_all& found, const gradients_of_all& bound, double scale, double most = INFINITY) {
  for (std::size_t i = 0; i < bound.size(); ++i) {
    std::vector<double> expected;
    for (const float value : bound[i]) expected.push_back(scale * std::clamp(static_cast<double>(value), -most, most));
    EXPECT_LE(oracle::relative_error(found[i], expected), oracle::tolerance(dtype::f32, 8 * columns)) << i;
  }
}

TEST(runtime_clipping, the_norm_is_that_of_all_gradients_and_scales_them_where_it_is_greater) {
  for (const float size : {1e-3f, 1.0f, 1e6f}) {
    SCOPED_TRACE(size);
    training run = make({.clip_norm = 1});
    const gradients_of_all bound = some(size);
    float found = 0;
    const gradients_of_all got = used(run, bound, &found);
    const double norm = norm_of(bound);
    EXPECT_NEAR(found, norm, norm * oracle::tolerance(dtype::f32, 8 * columns));
    expect_near(got, bound, std::min(1.0, 1 / (norm + 1e-6)));
  }
}

TEST(runtime_clipping, an_infinite_bound_gives_the_norm_and_changes_nothing) {
  training run = make({.clip_norm = infinity});
  const gradients_of_all bound = some(100);
  float found = 0;
  EXPECT_EQ(used(run, bound, &found), bound);
  EXPECT_NEAR(found, norm_of(bound), norm_of(bound) * oracle::tolerance(dtype::f32, 8 * columns));
}

TEST(runtime_clipping, values_are_clipped_one_by_one_and_before_their_norm_is_taken) {
  const gradients_of_all bound = some();
  training alone = make({.clip_value = 0.25f});
  expect_near(used(alone, bound), bound, 1, 0.25);
  training both = make({.clip_norm = 0.5f, .clip_value = 0.25f});
  gradients_of_all clipped = bound;
  for (auto& each : clipped) {
    for (float& value : each) value = std::clamp(value, -0.25f, 0.25f);
  }
  float found = 0;
  const gradients_of_all got = used(both, bound, &found);
  EXPECT_NEAR(found, norm_of(clipped), norm_of(clipped) * oracle::tolerance(dtype::f32, 8 * columns));
  expect_near(got, clipped, 0.5 / (norm_of(clipped) + 1e-6));
}

// As clip_grad_norm_(error_if_nonfinite = False) and clip_grad_value_.
TEST(runtime_clipping, what_is_not_finite_is_treated_as_torch_does) {
  const program_options unchecked{.checks = checks::none};
  gradients_of_all infinite = some(), unknown = some();
  infinite[0][5] = -infinity;
  unknown[1][5] = NAN;
  float norm = 0;
  training run = make({.program = unchecked, .clip_norm = 1});
  gradients_of_all got = used(run, infinite, &norm);
  EXPECT_EQ(norm, infinity);
  EXPECT_TRUE(std::isnan(got[0][5]));
  got[0][5] = 0;
  for (const auto& each : got) EXPECT_EQ(std::ranges::count(each, 0.0f), static_cast<std::ptrdiff_t>(each.size()));

  training other = make({.program = unchecked, .clip_norm = 1});
  got = used(other, unknown, &norm);
  EXPECT_TRUE(std::isnan(norm));
  for (const auto& each : got) EXPECT_TRUE(std::ranges::all_of(each, [](float value) { return std::isnan(value); }));

  training by_value = make({.program = unchecked, .clip_value = 0.5f});
  got = used(by_value, infinite);
  EXPECT_EQ(got[0][5], -0.5f);
  training also = make({.program = unchecked, .clip_value = 0.5f});
  got = used(also, unknown);
  EXPECT_TRUE(std::isnan(got[1][5]));
  EXPECT_TRUE(std::isfinite(got[1][4]));
}

TEST(runtime_clipping, frozen_parameters_are_no_part_of_the_norm) {
  training run = make({.clip_norm = infinity, .frozen = "a"});
  gradients_of_all bound = some();
  float found = 0;
  (void)used(run, bound, &found);
  bound[0].clear();
  EXPECT_NEAR(found, norm_of(bound), norm_of(bound) * oracle::tolerance(dtype::f32, columns));
}

using mlp = support::mlp<23>;
using mlp_trainer = trainer<mlp, cross_entropy<"label">>;
const symbol_extents sixteen{{"batch", 16}};

TEST(runtime_clipping, a_graph_without_it_is_the_same_and_one_with_it_another) {
  const auto text = [](const training_options& options) {
    return to_text(make_training_graph<mlp, cross_entropy<"label">>(adam{}, sixteen, options));
  };
  const std::string plain = text({});
  EXPECT_EQ(plain.find("grad_norm"), std::string::npos);
  EXPECT_NE(text({.clip_norm = 1}), plain);
  EXPECT_NE(text({.clip_value = 1}), plain);
}

// A gradient is scaled where it lies.
TEST(runtime_clipping, takes_no_memory_for_a_second_copy_of_gradients) {
  const auto bytes = [](const training_options& options) {
    const mlp_trainer run(support::shared_device(), adam{}, sixteen, options);
    plan::verify(run.program().plan());
    return run.program().plan().peak_bytes();
  };
  const std::uint64_t without = bytes({}), with = bytes({.clip_norm = 1}), gradients = (23 * 17 + 17 * 5) * 4;
  EXPECT_LT(with, without + gradients);
}

// The optimiser multiplies: what is above the norm's own dispatches is the factor.
TEST(runtime_clipping, takes_no_dispatch_for_each_parameter) {
  const auto dispatches = [](float most) {
    const mlp_trainer run(support::shared_device(), adam{}, sixteen, {.clip_norm = most});
    plan::verify(run.program().plan());
    return run.program().plan().steps.size();
  };
  EXPECT_LE(dispatches(1), dispatches(infinity) + 1);
}

// Four storage buffers, which two moments take; a third one is a sentence.
TEST(runtime_clipping, every_device_has_kernels_for_two_moments_and_a_norm) {
  vulkan::device_options options;
  options.disk_cache = false;
  options.at_most = vulkan::minimum_facts();
  const support::checked_device least(options);
  mlp_trainer run(least, adam{}, sixteen, {.clip_norm = 0.125f});
  mlp_trainer usual(support::shared_device(), adam{}, sixteen, {.clip_norm = 0.125f});
  for (mlp_trainer* each : {&run, &usual}) {
    each->parameters().init({.seed = 3});
    each->step(bind<"x">(support::uniform(16 * 23, 1)), bind<"label">(support::classes(16, 2))).wait();
  }
  const auto found = run.parameters().get("fc1.weight"), expected = usual.parameters().get("fc1.weight");
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4f) << i;
  const std::string said =
      support::sentence_of([&] { (void)mlp_trainer(least, adam{.amsgrad = true}, sixteen, {.clip_norm = 0.125f}); });
  EXPECT_NE(said.find("it binds 5 storage, 0 texel and 2 uniform buffers and the limits are 4, 16 and 12"),
            std::string::npos)
      << said;
}

TEST(runtime_clipping, a_typed_step_gives_the_norm_and_goes_on_bit_for_bit) {
  const support::temporary_folder folder;
  const std::string path = folder / "run.safetensors";
  const training_options options{.clip_norm = 0.125f, .clip_value = 0.0625f};
  const auto x = support::uniform(16 * 23, 1);
  const auto labels = support::classes(16, 2);
  const auto train = [&](mlp_trainer& run) {
    std::vector<float> norms;
    for (int step = 0; step < 3; ++step)
      norms.push_back(run.step(bind<"x">(x), bind<"label">(labels)).value("grad_norm"));
    return norms;
  };
  mlp_trainer whole(support::shared_device(), adam{}, {}, options),
      resumed(support::shared_device(), adam{}, {}, options);
  whole.parameters().init({.seed = 3});
  train(whole);
  whole.save_checkpoint(path);
  const float before = whole.evaluate(bind<"x">(x), bind<"label">(labels));
  EXPECT_EQ(whole.evaluate(bind<"x">(x), bind<"label">(labels)), before);
  const std::vector<float> norms = train(whole);
  resumed.load_checkpoint(path);
  EXPECT_EQ(train(resumed), norms);
  EXPECT_EQ(support::everything(resumed), support::everything(whole));
}

TEST(runtime_clipping, a_bound_that_is_none_and_a_name_that_is_taken_are_sentences) {
  const auto said = [](const training_options& options) { return support::sentence_of([&] { (void)make(options); }); };
  EXPECT_EQ(said({.clip_norm = -1}), "clip_norm is -1; it must be above 0, and is left out where nothing is clipped");
  EXPECT_EQ(said({.clip_value = 0}), "clip_value is 0; it must be above 0, and is left out where nothing is clipped");
  EXPECT_EQ(said({.clip_norm = NAN}), "clip_norm is nan; it must be above 0, and is left out where nothing is clipped");
  EXPECT_EQ(support::sentence_of([] {  // sizes are open: before anything is built
              mlp_trainer(support::shared_device(), adam{}, {}, {.clip_value = -2});
            }),
            "clip_value is -2; it must be above 0, and is left out where nothing is clipped");
  training unbounded = make({});
  float norm = 0;
  EXPECT_EQ(
      support::sentence_of([&] { (void)used(unbounded, some(), &norm); }),
      "there is no \"grad_norm\" without a bound of it; give the training the option clip_norm, {.clip_norm = 1}, "
      "or infinity for the number alone");
  graph_with_loss model = linear_in_all();
  model.forward.add_output("grad_norm", model.loss);
  EXPECT_EQ(support::sentence_of(
                [&] { (void)make_training_graph(std::move(model.forward), model.loss, sgd{}, {.clip_norm = 1}); }),
            "output \"grad_norm\" exists already; give it another name");
}

}  // namespace
