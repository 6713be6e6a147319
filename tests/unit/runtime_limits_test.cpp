// SPDX-License-Identifier: MIT
// Devices that offer no more than Vulkan 1.1 guarantees train the same models to the same values.
#include <meganeura/frontend.hpp>
#include <meganeura/kernels/generate.hpp>
#include <meganeura/models/smollm2.hpp>
#include <meganeura/runtime/session.hpp>
#include <meganeura/runtime/trainer.hpp>
#include <meganeura/spirv/kernel.hpp>

#include <oracle/tensor.hpp>
#include <oracle/tolerance.hpp>
#include <support/named_weights.hpp>
#include <support/sentence_of.hpp>
#include <support/shared_device.hpp>
#include <support/small_models.hpp>
#include <support/smollm2_reference.hpp>
#include <support/spirv_limits.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using namespace meganeura;

using support::batch;
using support::cnn;
using support::uniform;
using mlp = support::mlp<64>;
using language = model<models::smollm2::language_model<support::tiny_smollm2>, input<"x", dtype::i32, dims<batch>>>;

struct least_device : support::checked_device {
  // `texels`: as a software device reads them, 65,536 at a time.
  explicit least_device(bool texels = false)
      : checked_device([&] {
          vulkan::device_options options;
          options.disk_cache = false;
          options.at_most = vulkan::minimum_facts();
          options.at_most->quirks.prefers_texel_buffers = texels;
          return options;
        }()) {}
};

// Kernels do not promise of memory that two of their bindings share, one of them written, that nobody writes it and
// that it is theirs alone; of their other operands they do. Returns whether two share any.
bool expect_honest_bindings(const plan::execution_plan& p, const plan::step& step, const spirv::module& made) {
  const support::spirv_demands says = support::demands_of(made);
  std::set<std::uint32_t> shared;
  for (std::uint32_t i = 0; i < step.bindings.size(); ++i) {
    for (std::uint32_t j = 0; j < step.bindings.size(); ++j) {
      const plan::binding &one = step.bindings[i], &other = step.bindings[j];
      if (i != j && other.how != plan::usage::read && one.where.overlaps(other.where)) shared.insert({i, j});
    }
  }
  for (const std::uint32_t i : shared) {
    EXPECT_FALSE(says.unwritten_bindings.contains(i)) << made.name << ", binding " << i;
    EXPECT_FALSE(says.alone_bindings.contains(i)) << made.name << ", binding " << i;
  }
  if (p.implementation[step.node].kind != op::region) return !shared.empty();
  for (std::uint32_t i = 0; i < p.implementation.operands(step.node).size(); ++i) {
    EXPECT_TRUE(shared.contains(i) || !says.storage_bindings.contains(i) || says.unwritten_bindings.contains(i))
        << made.name << ", binding " << i;
  }
  return !shared.empty();
}

// Numbers of the table of required limits (Vulkan 1.1, section 36.1), not those the library believes in.
void expect_within_the_least_limits(const program& made, const device& on) {
  const device_profile target = make_device_profile(on.facts());
  const plan::execution_plan& plan = made.plan();
  for (const plan::step& step : plan.steps) {
    if (step.kind == plan::step::copy) continue;
    const kernels::kernel_dispatch dispatch = kernels::generate(plan, step, target);
    const std::string& name = dispatch.module.name;
    const support::spirv_demands needs = support::demands_of(dispatch.module);
    for (const std::uint32_t capability : needs.capabilities) {
      EXPECT_TRUE(capability == 1 || capability == 46) << name << ": " << capability;  // Shader, SampledBuffer
    }
    ASSERT_EQ(needs.local_size.size(), 3u) << name;
    EXPECT_LE(needs.local_size[0] * needs.local_size[1] * needs.local_size[2], 128u) << name;
    EXPECT_LE(needs.local_size[2], 64u) << name;
    EXPECT_EQ(needs.local_size, std::vector(dispatch.module.local_size.begin(), dispatch.module.local_size.end()));
    EXPECT_LE(needs.shared_bytes, 16384u) << name;
    EXPECT_EQ(needs.shared_bytes, dispatch.module.shared_bytes) << name;
    EXPECT_LE(needs.storage_bindings.size(), 4u) << name;
    EXPECT_LE(needs.uniform_bindings.size(), 12u) << name;
    EXPECT_LE(needs.texel_bindings.size(), 16u) << name;
    EXPECT_LE(dispatch.module.words[1], 0x10500u) << name;
    for (const std::uint32_t groups : dispatch.groups) EXPECT_LE(groups, 65535u) << name;
    for (const plan::binding& binding : step.bindings) EXPECT_EQ(binding.where.offset % 256, 0u) << name;
  }
}

// Parameters after two steps; `check` sees what was built.
template <class Model, class Element, class Check>
std::vector<std::vector<float>> trained(const device& on, std::int64_t count, std::size_t features,
                                        std::uint32_t classes, Check check) {
  trainer<Model, cross_entropy<"label">> run(on, adam{.learning_rate = 1e-2f, .epsilon = 1e-3f}, {{"batch", count}});
  check(run.program());
  if constexpr (std::is_same_v<Model, language>) {
    for (const auto& tensor : run.parameters().layout().tensors)
      run.parameters().set(tensor.name, support::named_weights(tensor.name, tensor.extents));
  } else {
    run.parameters().init({.seed = 3});
  }
  for (unsigned step = 0; step < 2; ++step) {
    const auto x = uniform<Element>(static_cast<std::size_t>(count) * features, step, classes);
    const auto labels = uniform<std::int32_t>(static_cast<std::size_t>(count), step + 100, classes);
    run.step(bind<"x">(x), bind<"label">(labels)).wait();
  }
  std::vector<std::vector<float>> values;
  for (const auto& tensor : run.parameters().layout().tensors) values.push_back(run.parameters().get(tensor.name));
  return values;
}

template <class Model, class Element>
void trains_like_an_ordinary_device(std::int64_t count, std::size_t features, std::uint32_t classes,
                                    bool texels = false, int layers = 1) {
  const support::checked_device ordinary{[] {
    vulkan::device_options options;
    options.disk_cache = false;
    return options;
  }()};
  const least_device least(texels);
  const auto expected = trained<Model, Element>(ordinary, count, features, classes, [](const program&) {});
  const auto found = trained<Model, Element>(least, count, features, classes,
                                             [&](const program& made) { expect_within_the_least_limits(made, least); });
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::vector<double> truth(expected[i].begin(), expected[i].end());
    // Adam divides by the root of tiny second moments: rounding of a gradient, of each layer it came through, shows in
    // full.
    EXPECT_LT(oracle::relative_error(found[i], truth), 2 * layers * oracle::tolerance(dtype::f32, 10000)) << i;
  }
}

TEST(runtime_limits, a_perceptron_trains_on_the_least_device) { trains_like_an_ordinary_device<mlp, float>(7, 64, 5); }
TEST(runtime_limits, a_perceptron_trains_on_the_least_device_with_texels) {
  trains_like_an_ordinary_device<mlp, float>(8, 64, 5, true);
}
TEST(runtime_limits, a_convolutional_net_trains_on_the_least_device) {
  trains_like_an_ordinary_device<cnn, float>(6, 64, 5);
}
TEST(runtime_limits, the_tiny_language_model_trains_on_the_least_device) {
  trains_like_an_ordinary_device<language, std::int32_t>(12, 1, 128, false, support::tiny_smollm2.layers);
}

// Buffers of 4,352 bytes, so that every area is several of them, and each a tensor that just fits.
TEST(runtime_limits, areas_longer_than_a_buffer_are_several) {
  vulkan::device_options options;
  options.disk_cache = false;
  const support::checked_device ordinary(options);
  options.at_most = ordinary.facts();
  options.at_most->max_buffer_bytes = 17 * 256 + 100;
  const support::checked_device small(options);
  const auto expected = trained<mlp, float>(ordinary, 7, 64, 5, [](const program&) {});
  const auto found = trained<mlp, float>(small, 7, 64, 5, [](const program& made) {
    EXPECT_EQ(made.plan().page_bytes, 17u * 256);
    EXPECT_GT(made.plan().area_bytes[plan::index_of(plan::area::gradient)], made.plan().page_bytes);
    plan::verify(made.plan());
  });
  EXPECT_EQ(found, expected) << "the same kernels on the same numbers";
  std::string text;
  try {
    const trainer<cnn, cross_entropy<"label">> refused(small, adam{}, {{"batch", 32}});
  } catch (const error& problem) {
    text = problem.category() == error_category::unsupported ? problem.what() : "another category";
  }
  EXPECT_NE(text.find("split it"), std::string::npos) << "the input alone has 8,192 bytes; said: " << text;
}

// Nothing beyond `most`. What has been measured or tried out on it is nothing: that allocates, and lets go of it later.
device with_nothing_beyond(vulkan::device_facts most) {
  most.cooperative_matrix_shapes.clear();
  return device({.at_most = std::move(most), .rates = vulkan::rate_measurement::never});
}

// What building a program says on a device with nothing beyond `most`, where nothing may have been allocated or
// compiled.
std::string refused_untouched(const graph& g, const vulkan::device_facts& most) {
  const device gpu = with_nothing_beyond(most);
  parameters weights(gpu, g);
  const auto before = gpu.counters();
  const std::string sentence = support::sentence_of([&] { program run(gpu, g, weights); });
  const auto after = gpu.counters();
  EXPECT_EQ(after.allocations, before.allocations);
  EXPECT_EQ(after.pipelines, before.pipelines);
  return sentence;
}

TEST(runtime_limits, a_program_of_too_many_buffers_is_refused_before_one_is_made) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {64}), w = g.parameter("w", dtype::f32, {64});
  for (int i = 0; i < 5; ++i) {
    const node_id scaled = g.multiply(g.multiply(x, w), g.full({64}, i + 1));
    g.add_output(std::to_string(i), g.reduce(reduce_kind::sum, scaled, 1));
  }
  vulkan::device_facts most = support::shared_device().facts();
  std::uint64_t live = 0, needed = 0;  // live: the staging ring, the parameters
  {
    const device gpu = with_nothing_beyond(most);
    parameters weights(gpu, g);
    live = gpu.counters().allocations;
    const program run(gpu, g, weights);
    needed = gpu.counters().allocations - live;
  }
  ASSERT_GE(needed, 6u);  // inputs, the step's numbers and results, twice each
  most.max_allocations = static_cast<std::uint32_t>(live + needed);
  {
    const device gpu = with_nothing_beyond(most);
    parameters weights(gpu, g);
    EXPECT_NO_THROW(program(gpu, g, weights));
  }
  --most.max_allocations;
  const std::string counted = refused_untouched(g, most);
  EXPECT_NE(counted.find(fmt::format("{} allocations are needed beside {} that live", needed, live)), std::string::npos)
      << counted;
  EXPECT_NE(counted.find("allows " + std::to_string(most.max_allocations)), std::string::npos) << counted;

  most = support::shared_device().facts();
  most.max_buffer_bytes = 1024;  // five results take 256 each: they lie in two
  const device gpu({.at_most = most});
  EXPECT_NO_THROW(program(gpu, g, parameters(gpu, g)));
}

// A graphics card like those that are sold, made up: nothing runs on it.
vulkan::device_facts made_up_card() {
  vulkan::device_facts card = vulkan::minimum_facts();
  card.api_version = 1U << 22 | 3U << 12;
  card.subgroup_size = card.min_subgroup_size = card.max_subgroup_size = 32;
  card.subgroup_operations = 31;
  card.has_full_subgroups = card.has_subgroup_size_control = true;
  card.max_workgroup_subgroups = 32;
  card.max_workgroup_invocations = 1024;
  card.max_workgroup_size = {1024, 1024, 64};
  card.max_shared_bytes = 49152;
  card.max_storage_buffers = 1 << 20;
  card.max_storage_range = 0xffffffff;
  card.max_texel_elements = 1 << 27;
  card.compute_units = 132;
  return card;
}

TEST(runtime_limits, no_kernel_takes_more_shared_memory_than_the_driver_bears) {
  vulkan::device_facts card = made_up_card();
  card.max_shared_bytes = 101376;
  spirv::module greedy = spirv::kernel("greedy", {64, 1, 1}).finish();
  greedy.shared_bytes = 65536;
  EXPECT_EQ(make_device_profile(card).max_shared_bytes, 101376u);
  EXPECT_EQ(vulkan::reason_to_refuse(card, greedy), "");
  card.quirks = vulkan::find_quirks(0x10DE, 4);
  EXPECT_EQ(make_device_profile(card).max_shared_bytes, 49152u);
  EXPECT_NE(vulkan::reason_to_refuse(card, greedy), "");
  card.max_shared_bytes = 32768;  // less than the driver bears stays what it is
  EXPECT_EQ(make_device_profile(card).max_shared_bytes, 32768u);
}

TEST(runtime_limits, of_the_matrix_units_that_a_device_lists_one_is_chosen) {
  using enum vulkan::component_type;
  vulkan::device_facts card = made_up_card();
  card.type = vulkan::device_type::discrete_gpu;
  card.has_f16 = card.has_cooperative_matrix = card.has_memory_model = true;
  const auto half = [](std::uint32_t m, std::uint32_t n, std::uint32_t k) {
    return vulkan::cooperative_matrix_shape{m, n, k, float16, float16, float32, float32};
  };
  const auto expect_unit = [&](std::vector<vulkan::cooperative_matrix_shape> listed, const matrix_shape& unit) {
    card.cooperative_matrix_shapes = std::move(listed);
    const device_profile made = make_device_profile(card);
    EXPECT_EQ(made.matrix_units, matrix_units::cooperative);
    EXPECT_EQ(made.unit, unit) << made.unit.m << "x" << made.unit.n << "x" << made.unit.k;
  };
  expect_unit({half(16, 8, 8), half(32, 32, 32), half(16, 16, 16)}, {16, 16, 16});
  expect_unit({half(16, 8, 8), half(16, 8, 16), half(8, 16, 16)}, {16, 8, 16});
  expect_unit({half(8, 8, 8), half(64, 64, 16), half(8, 16, 4)}, {8, 8, 8});
  vulkan::cooperative_matrix_shape other = half(16, 16, 16);
  other.scope = vulkan::matrix_scope::workgroup;
  expect_unit({other, half(8, 16, 16)}, {8, 16, 16});
  other = half(16, 16, 16), other.result = float16;
  expect_unit({other, half(8, 16, 16)}, {8, 16, 16});

  const auto expect_none = [&] { EXPECT_EQ(make_device_profile(card).matrix_units, matrix_units::none); };
  card.cooperative_matrix_shapes = {half(8, 8, 8)};
  card.subgroup_size = card.min_subgroup_size = card.max_subgroup_size = 128;  // lanes without a result
  expect_none();
  card.cooperative_matrix_shapes = {half(24, 16, 16)};
  card.subgroup_size = card.min_subgroup_size = card.max_subgroup_size = 32;
  expect_none();

  card.cooperative_matrix_shapes = {half(8, 8, 8), half(16, 16, 16)};
  vulkan::device_facts less = card;
  less.cooperative_matrix_shapes = {half(8, 8, 8), half(32, 32, 32)};
  EXPECT_EQ(vulkan::weaker(card, less).cooperative_matrix_shapes, std::vector{half(8, 8, 8)});
  less.has_cooperative_matrix = false;
  EXPECT_TRUE(vulkan::weaker(card, less).cooperative_matrix_shapes.empty());
}

TEST(runtime_limits, emulated_matrix_units_have_the_shape_that_is_asked_for) {
  vulkan::device_options options;
  options.disk_cache = false;
  options.at_most = vulkan::enumerate_devices({.device = ""}).front();
  options.at_most->has_cooperative_matrix = false;
  options.emulated_units = {8, 16, 16};
  const device_profile made = make_device_profile(support::checked_device(options).facts());
  EXPECT_EQ(made.matrix_units, matrix_units::emulated);
  EXPECT_EQ(made.unit, (matrix_shape{8, 16, 16}));
  options.emulated_units = {8, 4, 16};
  EXPECT_THROW(device{options}, error);
}

// `change` takes something away; every kernel of the three models' training steps has to do without.
template <class Change>
void expect_kernels_for(const char* what, Change change) {
  vulkan::device_facts card = made_up_card();
  change(card);
  static std::map<std::pair<std::size_t, std::size_t>, plan::execution_plan> plans;  // by model and what it may bind
  int in_place = 0;
  const auto expect = [&]<class Model>(std::size_t number, std::type_identity<Model>) {
    const fusion::region_limits limits = make_region_limits(card);
    auto [at, is_new] = plans.try_emplace({number, limits.buffers});
    if (is_new) {
      const graph g =
          make_training_graph<Model, cross_entropy<"label">>(adam{}, std::vector<symbol_extent>{{"batch", 16}});
      fusion::optimize_options options;
      options.region = limits;
      at->second = plan::make_plan(fusion::optimize(g, options), plan::make_layout(g));
    }
    const device_profile target = make_device_profile(card);
    const kernels::kernel_set set = kernels::generate(at->second, target);
    for (std::size_t i = 0; i < at->second.steps.size(); ++i) {
      const plan::step& step = at->second.steps[i];
      if (step.kind == plan::step::copy) continue;
      const kernels::kernel_dispatch made = kernels::generate(at->second, step, target);
      const kernels::kernel_dispatch& shared = set.kernels[set.of_step[i]];
      EXPECT_TRUE(shared.module.words == made.module.words && shared.groups == made.groups) << made.module.name;
      in_place += expect_honest_bindings(at->second, step, made.module) ? 1 : 0;
      EXPECT_EQ(vulkan::reason_to_refuse(card, made.module), "") << what << ": " << made.module.name;
      EXPECT_EQ(vulkan::reason_to_refuse(card, made.groups), "") << what << ": " << made.module.name;
      EXPECT_EQ(support::demands_of(made.module).shared_bytes, made.module.shared_bytes) << made.module.name;
    }
  };
  expect(0, std::type_identity<mlp>{});
  expect(1, std::type_identity<cnn>{});
  expect(2, std::type_identity<language>{});
  EXPECT_GT(in_place, 0) << what;
}

TEST(runtime_limits, kernels_do_without_whatever_a_device_lacks) {
  using facts = vulkan::device_facts;
  expect_kernels_for("a whole card", [](facts&) {});
  expect_kernels_for("128 invocations", [](facts& f) { f.max_workgroup_invocations = 128; });
  expect_kernels_for("128 along x", [](facts& f) { f.max_workgroup_size = {128, 128, 64}; });
  expect_kernels_for("640 invocations", [](facts& f) { f.max_workgroup_invocations = 640; });
  expect_kernels_for("16 KiB", [](facts& f) { f.max_shared_bytes = 16384; });
  expect_kernels_for("4 buffers", [](facts& f) { f.max_storage_buffers = 4; });
  expect_kernels_for("6 buffers", [](facts& f) { f.max_storage_buffers = 6; });
  expect_kernels_for("arithmetic only", [](facts& f) { f.subgroup_operations = 1 | 4; });
  expect_kernels_for("shuffles only", [](facts& f) { f.subgroup_operations = 1 | 16; });
  expect_kernels_for("no full subgroups", [](facts& f) { f.has_full_subgroups = false; });
  expect_kernels_for("sizes nobody knows", [](facts& f) {
    f.min_subgroup_size = 1;
    f.has_subgroup_size_control = false;
  });
  expect_kernels_for("sizes one may choose", [](facts& f) { f.min_subgroup_size = 8; });
  expect_kernels_for("subgroups of 64",
                     [](facts& f) { f.min_subgroup_size = f.subgroup_size = f.max_subgroup_size = 64; });
  expect_kernels_for("few workgroups", [](facts& f) { f.max_workgroup_count = {32, 32, 32}; });
  expect_kernels_for("the least", [](facts& f) { f = vulkan::weaker(f, vulkan::minimum_facts()); });
}

TEST(runtime_limits, a_sum_over_more_than_32_bits_count_is_refused) {
  graph g;
  const node_id x = g.input("x", dtype::f32, {1});
  const node_id all = g.view(x, {1LL << 33}, view_attribute{});
  g.add_output("sum", g.reduce(reduce_kind::sum, all, 1));
  const support::checked_device gpu([] {
    vulkan::device_options options;
    options.disk_cache = false;
    return options;
  }());
  parameters none(gpu, graph());
  program_options whole;
  whole.optimize.disabled = {"split_reduce"};  // in parts it can be counted
  try {
    const program made(gpu, g, none, whole);
    FAIL() << "8,589,934,592 terms were counted in 32 bits";
  } catch (const error& problem) {
    EXPECT_EQ(problem.category(), error_category::unsupported) << problem.what();
  }
}

// More tensors than a kernel binds: a map of ten and a concat of nine.
TEST(runtime_limits, wide_maps_and_concats_are_split) {
  graph g;
  std::vector<node_id> x;
  for (int i = 0; i < 10; ++i) x.push_back(g.input("x" + std::to_string(i), dtype::f32, {3, 5}));
  scalar_builder b;
  std::vector<scalar_ref> a;
  for (int i = 0; i < 10; ++i) a.push_back(b.argument(i, dtype::f32));
  const scalar_ref chosen =
      b.select(b.binary(scalar_op::less, b.binary(scalar_op::multiply, a[0], a[1]), a[2]),
               b.binary(scalar_op::subtract, a[3], a[4]), b.binary(scalar_op::maximum, a[5], a[6]));
  const scalar_ref rest = b.binary(scalar_op::multiply, b.binary(scalar_op::add, a[7], a[8]), a[9]);
  const scalar_program sum = b.finish(b.binary(scalar_op::add, chosen, rest));
  g.add_output("map", g.map(sum, x, dtype::f32));
  g.add_output("concat", g.concat(std::span(x).first(9), 0));
  std::vector<std::vector<float>> values;
  for (unsigned i = 0; i < 10; ++i) values.push_back(uniform<float>(15, i, 1));
  const least_device least;
  parameters none(least, graph());
  program run(least, g, none);
  expect_within_the_least_limits(run, least);
  for (std::size_t i = 0; i < 10; ++i)
    run.set_input("x" + std::to_string(i), dtype::f32, std::as_bytes(std::span(values[i])));
  run.wait(run.submit());
  const auto mapped = run.output_as<float>("map"), joined = run.output_as<float>("concat");
  for (std::size_t i = 0; i < 15; ++i) {
    const auto v = [&](std::size_t k) { return values[k][i]; };
    const float want = (v(0) * v(1) < v(2) ? v(3) - v(4) : std::max(v(5), v(6))) + (v(7) + v(8)) * v(9);
    EXPECT_NEAR(mapped[i], want, 8 * oracle::tolerance(dtype::f32)) << i;
    for (std::size_t k = 0; k < 9; ++k) EXPECT_EQ(joined[k * 15 + i], v(k));
  }
}

TEST(runtime_limits, what_no_split_can_mend_is_refused_before_anything_is_allocated) {
  vulkan::device_options options;
  options.disk_cache = false;
  options.at_most = vulkan::minimum_facts();
  options.at_most->max_storage_range = 4096;
  const support::checked_device small(options);
  graph g;
  const node_id x = g.input("x", dtype::f32, {1025});
  g.add_output("y", g.map(scalar_op::exp, {x}));
  parameters none(small, graph());
  const auto before = small.counters();
  try {
    const program made(small, g, none);
    FAIL() << "a tensor of 4,100 bytes was bound where 4,096 are allowed";
  } catch (const error& problem) {
    EXPECT_EQ(problem.category(), error_category::unsupported);
    EXPECT_NE(std::string(problem.what()).find("4100 bytes"), std::string::npos) << problem.what();
  }
  EXPECT_EQ(small.counters(), before);
}

}  // namespace
