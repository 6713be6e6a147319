// SPDX-License-Identifier: MIT
// A host that runs out of threads or memory: every call ends in an `error`, nothing leaks, and the next call works.
#include "inject.hpp"
#include "survival.hpp"

#include <meganeura/meganeura.hpp>
#include <support/temporary_folder.hpp>
#include <unit/vulkan_support.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <new>
#include <optional>
#include <utility>

namespace mn = meganeura;
namespace faults = meganeura::faults;
using faults::expect_survival;
namespace support = meganeura::support;

namespace {

struct small_net {
  static constexpr auto forward(mn::value auto x) { return mn::linear<"fc2", 3>(mn::relu(mn::linear<"fc1", 4>(x))); }
};
inline constexpr mn::dim batch = mn::sym<"batch">;
using model = mn::model<small_net, mn::input<"x", mn::dtype::f32, mn::dims<batch, 5>>>;

const std::vector<float> inputs(10, 0.5f);
const std::vector<std::int32_t> labels{0, 2};

mn::device open_device(const std::string& cache = {}) {
  return mn::device({.disk_cache = !cache.empty(), .cache_directory = cache, .threads = 1});
}

/// `call` refuses, and each allocation on the way to its sentence fails in turn: an `error` comes out all the same.
void expect_refusal(const char* what, const std::function<void()>& call) {
  for (std::uint64_t at = 0;; ++at) {
    ASSERT_LT(at, 100u) << what;
    std::uint64_t count = 0;
    std::optional<mn::error_category> category;
    try {
      const faults::allocation_fault fault(at);
      category = mn::test::thrown_by([&] {
        try {
          call();
        } catch (...) {
          count = fault.count();
          throw;
        }
      });
    } catch (const std::bad_alloc&) {
      ADD_FAILURE() << what << ": std::bad_alloc at allocation " << at;
      continue;
    }
    ASSERT_TRUE(category.has_value()) << what;
    const bool reached = count > at;
    EXPECT_EQ(category, reached ? mn::error_category::out_of_memory : mn::error_category::invalid_argument)
        << what << " at allocation " << at;
    if (!reached) return;
  }
}

}  // namespace

TEST(faults_threads, without_threads_kernels_are_compiled_by_the_caller) {
  const mn::device gpu({.disk_cache = false, .threads = 4});
  std::vector<mn::spirv::module> kernels;
  for (int i = 0; i < 12; ++i) kernels.push_back(mn::test::scale_kernel(static_cast<float>(i), 1.0F));
  for (const int allowed : {0, 1, 2}) {
    const faults::thread_limit limit(allowed);
    const auto made = gpu.create_pipelines(kernels);
    ASSERT_EQ(made.size(), kernels.size());
    for (const auto& pipeline : made) EXPECT_TRUE(pipeline);
  }
}

TEST(faults_memory, a_device_opens_or_says_why_not) {
  expect_survival([] { (void)open_device(); }, 40);
  EXPECT_EQ(faults::living_objects(), "");
}

TEST(faults_memory, pipelines_are_made_or_not_and_the_device_works_on) {
  {
    const mn::device gpu({.disk_cache = false, .threads = 3});
    std::vector<mn::spirv::module> kernels;
    for (int i = 0; i < 4; ++i) kernels.push_back(mn::test::scale_kernel(static_cast<float>(i), 1.0F));
    expect_survival([&] { (void)gpu.create_pipelines(kernels); }, 100);
  }
  EXPECT_EQ(faults::living_objects(), "");
}

TEST(faults_memory, a_trainer_is_built_and_steps_or_says_why_not) {
  {
    const mn::device gpu = open_device();
    expect_survival(
        [&] {
          mn::trainer<model, mn::cross_entropy<"label">> run(gpu, mn::adam{}, {{"batch", 2}});
          run.parameters().init({.seed = 1});
          EXPECT_GT(run.step(mn::bind<"x">(inputs), mn::bind<"label">(labels)).loss(), 0);
        },
        60);
    expect_survival(
        [&] {
          mn::trainer<model, mn::cross_entropy<"label">> run(
              gpu, mn::rmsprop{}, {{"batch", 2}}, {.clip_norm = 1, .schedule = mn::warmup_cosine(2, 9), .ema = 0.9F});
          run.parameters().init({.seed = 1});
          EXPECT_GT(run.step(mn::bind<"x">(inputs), mn::bind<"label">(labels)).value("grad_norm"), 0);
        },
        60);
  }
  EXPECT_EQ(faults::living_objects(), "");
}

TEST(faults_memory, a_step_allocates_nothing_and_waits_once) {
  const mn::device gpu = open_device();
  mn::graph many;  // 50 inputs
  std::vector<std::string> names;
  std::vector<mn::node_id> all;
  for (int i = 0; i < 50; ++i) {
    names.push_back("input" + std::to_string(i));
    all.push_back(many.input(names.back(), mn::dtype::f32, {10}));
  }
  many.add_output("y", many.concat(all, 0));
  std::vector<mn::input_values> values;
  for (const std::string& name : names) values.emplace_back(name, inputs);
  mn::inference joined(gpu, many);
  mn::trainer<model, mn::cross_entropy<"label">> fixed(gpu, mn::adam{}, {{"batch", 2}}), open(gpu, mn::adam{});
  mn::trainer<model, mn::cross_entropy<"label">> scheduled(
      gpu, mn::adam{}, {{"batch", 2}}, {.clip_norm = 1, .schedule = mn::warmup_cosine(2, 9), .ema = 0.9F});
  for (auto* run : {&fixed, &open, &scheduled}) run->parameters().init();
  const auto expect_steady = [](const char* what, const auto& step) {
    for (int i = 0; i < 3; ++i) step();
    for (int i = 0; i < 3; ++i) {
      const faults::vulkan_fault waited("vkWaitSemaphores", VK_SUCCESS);
      const faults::allocation_fault allocated;  // behind what holds a name
      step();
      EXPECT_EQ(allocated.count(), 0u) << what;
      EXPECT_LE(waited.count(), 2u) << what;  // one wait: through most of a step, and on if that is late
    }
  };
  expect_steady("50 inputs", [&] { joined.start(values); });
  expect_steady("fixed sizes", [&] { fixed.step(mn::bind<"x">(inputs), mn::bind<"label">(labels)); });
  expect_steady("a schedule", [&] { scheduled.step(mn::bind<"x">(inputs), mn::bind<"label">(labels)); });
  expect_steady("open sizes", [&] { open.step(mn::bind<"x">(inputs), mn::bind<"label">(labels)); });
}

TEST(faults_memory, whatever_a_program_is_asked_it_answers_with_an_error) {
  {
    const mn::device gpu = open_device();
    const mn::optimizer chosen = mn::adam{};
    const mn::graph g = mn::make_training_graph<model, mn::cross_entropy<"label">>(chosen, {{"batch", 2}});
    mn::parameters weights(gpu, g);
    weights.init({.seed = 1});
    mn::program program(gpu, g, weights);
    mn::optimizer_moments all = program.moments();
    const auto& kept = all.list().front();
    const std::vector<std::byte> good = all.read(kept), bad(good.size() + 1);
    expect_survival([&] { (void)all.read(kept); }, 40);
    expect_survival(
        [&] {
          all.write(kept, good);
          gpu.wait_idle();
        },
        40);
    expect_refusal("write", [&] { all.write(kept, bad); });
    expect_refusal("set_input, unknown", [&] { program.set_input("no such input", mn::dtype::f32, good); });
    expect_refusal("set_input, wrong size", [&] { program.set_input("x", mn::dtype::f32, bad); });
    expect_refusal("scalar_output, early", [&] { (void)program.scalar_output("loss", 1); });
    const mn::input_values bound[] = {{"x", inputs}, {"label", labels}};
    (void)program.scalar_output("loss", program.submit(chosen.step_values(1, 0), bound));
    expect_refusal("scalar_output, unknown", [&] { (void)program.scalar_output("no such output", 1); });
    expect_refusal("device.wait", [&] { gpu.wait(1'000'000); });
    expect_refusal("an empty ticket", [] { mn::vulkan::read_back_ticket().wait(); });
    expect_refusal("an empty ticket", [] { (void)mn::vulkan::read_back_ticket().ready(); });
    expect_refusal("an empty pipeline", [] { (void)mn::vulkan::pipeline().name(); });
  }
  EXPECT_EQ(faults::living_objects(), "");
}

TEST(faults_memory, what_is_asked_beside_a_program_is_answered_with_an_error_too) {
  {
    const mn::device gpu = open_device();
    mn::trainer<model, mn::cross_entropy<"label">> run(gpu, mn::adam{}, {{"batch", 2}});
    const std::vector<std::string> names{"fc1.weight"};
    expect_refusal("check_values", [&] { run.parameters().check_values("a step of a training run", names); });
    expect_refusal("set_learning_rate", [&] { run.set_learning_rate(-1); });
    expect_refusal("with_rate", [&] { (void)mn::optimizer(mn::adam{}).with_rate("beta", 0); });
    expect_survival([&] { (void)mn::optimizer(mn::adam{}).with_ema(0.5F).rule(); }, 40);
    expect_survival([] { (void)mn::learning_rate_schedule(mn::warmup_cosine(10, 20)).factor(3); }, 20);
    expect_refusal("cosine_decay", [] { (void)mn::cosine_decay(0); });
    expect_refusal("averages", [&] { (void)run.averages(); });
    mn::trainer<model, mn::cross_entropy<"label">> averaged(gpu, mn::adam{}, {{"batch", 2}}, {.ema = 0.9F});
    averaged.parameters().init({.seed = 1});
    averaged.step(mn::bind<"x">(inputs), mn::bind<"label">(labels)).wait();
    expect_survival(
        [&] {
          (void)averaged.averages();
          EXPECT_GT(averaged.evaluate_averages(mn::bind<"x">(inputs), mn::bind<"label">(labels)), 0);
        },
        60);
    expect_refusal("parameters of an empty handle", [] { (void)mn::parameters().layout(); });

    mn::graph g;
    const mn::node_value value(g, g.input("integers", mn::dtype::i32, {2, 3}));
    expect_refusal("cross_entropy", [&] { (void)mn::cross_entropy_loss(value, value); });
    expect_refusal("mean_squared_error", [&] { (void)mn::mean_squared_error_loss(value, value); });
    const std::vector<mn::symbol_extent> symbols{{"batch", 2}};
    expect_survival(
        [&] { (void)mn::make_training_graph<model, mn::mean_squared_error<"target">>(mn::adam{}, symbols); }, 40);

    const std::vector<std::uint64_t> sizes{std::uint64_t{1} << 60};
    const mn::device_facts& facts = gpu.facts();
    expect_survival([&] { EXPECT_NE(gpu.reason_to_refuse(sizes), ""); }, 20);
    expect_survival([&] { EXPECT_NE(mn::vulkan::reason_to_refuse(facts, {0xffffffffu, 1, 1}), ""); }, 20);
    expect_survival(
        [&] {
          const auto kind = mn::spirv::binding_kind::storage_buffer;
          EXPECT_NE(mn::vulkan::reason_to_refuse(facts, kind, std::uint64_t{1} << 60), "");
        },
        20);
    expect_survival([&] { (void)mn::vulkan::weaker(facts, mn::vulkan::minimum_facts()); }, 20);
    expect_survival([&] { (void)mn::buffers_of(facts, 256); }, 20);
  }
  EXPECT_EQ(faults::living_objects(), "");
}

TEST(faults_memory, weights_are_saved_whole_or_not_at_all) {
  const support::temporary_folder folder;
  const std::string path = folder / "m.safetensors";
  {
    const mn::device gpu = open_device();
    const mn::session<model> run(gpu, {{"batch", 2}});
    run.parameters().init({.seed = 1});
    run.parameters().save(path);
    const auto before = mn::io::read_file(path);
    expect_survival([&] { run.parameters().save(path); }, 80,
                    [&] {
                      EXPECT_EQ(mn::io::read_file(path), before);
                      run.parameters().save(path);
                      EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
                    });
  }
  EXPECT_EQ(faults::living_objects(), "");
}

// Nothing is promised about all of them: a tensor is loaded as soon as it is read.
TEST(faults_memory, each_weight_is_loaded_whole_or_not_at_all) {
  const support::temporary_folder folder;
  const std::string path = folder / "m.safetensors";
  {
    const mn::device gpu = open_device();
    const mn::session<model> run(gpu, {{"batch", 2}});
    mn::parameters weights = run.parameters();
    const auto everything = [&] {
      std::map<std::string, std::vector<std::byte>> values;
      for (const auto& tensor : weights.layout().tensors) values[tensor.name] = weights.get_bytes(tensor.name);
      return values;
    };
    const auto fill = [&](float value) {
      for (const auto& tensor : weights.layout().tensors)
        weights.set(tensor.name, std::vector<float>(static_cast<std::size_t>(tensor.extents.elements()), value));
    };
    fill(2);
    weights.save(path);
    const auto fresh = everything();
    fill(1);
    const auto old = everything();
    int untouched = 0, whole = 0;
    expect_survival([&] { weights.load(path); }, 80,
                    [&] {
                      const auto found = everything();
                      untouched += found == old;
                      whole += found == fresh;
                      for (const auto& [name, values] : found)
                        EXPECT_TRUE(values == old.at(name) || values == fresh.at(name)) << name;
                      weights.load(path);
                      EXPECT_EQ(everything(), fresh);
                      fill(1);
                    });
    EXPECT_GT(untouched, 0);
    EXPECT_LT(whole, untouched);  // most allocations are made before the first tensor is read
  }
  EXPECT_EQ(faults::living_objects(), "");
}
