// SPDX-License-Identifier: MIT
// Kernels in the kernel language, run on a device: accuracy of functions, meaning of control flow.
#include <meganeura/core/float_format.hpp>
#include <meganeura/spirv/cooperative.hpp>
#include <meganeura/vulkan/device.hpp>

#include <support/shared_device.hpp>
#include <support/spirv_validator.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

namespace {

using namespace meganeura::spirv;
namespace vulkan = meganeura::vulkan;

const vulkan::device& gpu() { return meganeura::support::shared_device(); }

// Runs a kernel with one input and one output buffer of 32-bit elements.
template <class Out, class In>
std::vector<Out> run(const meganeura::spirv::module& m, const std::vector<In>& input, std::size_t results,
                     std::uint32_t groups) {
  const vulkan::buffer in = gpu().allocate((input.size() * 4 + 15) / 16 * 16);
  const vulkan::buffer out = gpu().allocate((results * 4 + 15) / 16 * 16);
  gpu().upload(in, 0, input);
  vulkan::recorder r(gpu());
  r.dispatch(gpu().create_pipeline(m), {{in}, {out}}, {groups, 1, 1});
  gpu().submit(r.finish());
  auto ticket = gpu().read_back(out, 0, results * 4);
  std::vector<Out> found(results);
  std::memcpy(found.data(), ticket.data().data(), results * 4);
  return found;
}

// The function applied to many arguments, which must be a multiple of 64.
std::vector<float> apply(const std::string& name, const std::vector<float>& x,
                         const std::function<f32(const f32&)>& function) {
  kernel k(name);
  const auto in = k.storage_buffer<f32>("in");
  const auto out = k.storage_buffer<f32>("out", access::write);
  out[k.global_id()] = function(in[k.global_id()].load());
  return run<float>(k.finish(), x, x.size(), static_cast<std::uint32_t>(x.size() / 64));
}

double worst_relative(const std::vector<float>& found, const std::vector<float>& x, double (*exact)(double)) {
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double wanted = exact(static_cast<double>(x[i]));
    const double error = std::abs(static_cast<double>(found[i]) - wanted) / std::max(std::abs(wanted), 1e-30);
    worst = std::isnan(error) ? 1e30 : std::max(worst, error);
  }
  return worst;
}

std::vector<float> spread(float low, float high) {  // signs alternate, magnitudes uniform in the logarithm
  std::mt19937 generator(5);
  std::uniform_real_distribution<float> exponent(std::log(low), std::log(high));
  std::vector<float> x(1 << 16);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::exp(exponent(generator)) * (i % 2 == 0 ? 1.0f : -1.0f);
  return x;
}

// Up to 2^24 and near its end, where a float's neighbours are 1 apart.
std::vector<float> angles() {
  std::vector<float> x = spread(1e-6f, 1e5f);
  const std::vector<float> large = spread(1e5f, 0x1p24f);
  x.insert(x.end(), large.begin(), large.end());
  for (int i = 0; i < 4096; ++i) x.push_back(0x1p24f - static_cast<float>(i));
  return x;
}

TEST(spirv_run, sine_is_accurate_to_a_few_ulp_up_to_2_to_the_24) {
  const auto x = angles();
  EXPECT_LE(worst_relative(apply("sine", x, [](const f32& v) { return sin(v); }), x, std::sin), 4 * 6e-8);
}

TEST(spirv_run, cosine_is_accurate_to_a_few_ulp_up_to_2_to_the_24) {
  const auto x = angles();
  EXPECT_LE(worst_relative(apply("cosine", x, [](const f32& v) { return cos(v); }), x, std::cos), 4 * 6e-8);
}

TEST(spirv_run, sine_and_cosine_near_their_zeros_keep_accuracy) {
  for (int step : {1, 37, 2601}) {  // up to 2^24
    std::vector<float> x;
    for (int i = 1; i <= 4096; ++i) x.push_back(static_cast<float>(i * step * 1.57079632679489661923));
    const auto sines = apply("sine_at_zeros", x, [](const f32& v) { return sin(v); });
    const auto cosines = apply("cosine_at_zeros", x, [](const f32& v) { return cos(v); });
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double angle = static_cast<double>(x[i]), sine = std::sin(angle), cosine = std::cos(angle);
      EXPECT_NEAR(static_cast<double>(sines[i]), sine, 2.5e-7 * std::abs(sine) + 0x1p-35) << x[i];
      EXPECT_NEAR(static_cast<double>(cosines[i]), cosine, 2.5e-7 * std::abs(cosine) + 0x1p-35) << x[i];
    }
  }
}

TEST(spirv_run, sine_and_cosine_of_what_is_no_angle_are_nan_and_zeros_keep_their_sign) {
  std::vector<float> x(64, 0x1p25f);
  const float infinity = std::numeric_limits<float>::infinity();
  x[0] = infinity, x[1] = -infinity, x[2] = std::numeric_limits<float>::quiet_NaN(), x[3] = -1e30f, x[4] = 3e38f;
  x[62] = -0.0f, x[63] = 0.0f;
  const auto sines = apply("sine_of_none", x, [](const f32& v) { return sin(v); });
  const auto cosines = apply("cosine_of_none", x, [](const f32& v) { return cos(v); });
  for (std::size_t i = 0; i < 62; ++i) EXPECT_TRUE(std::isnan(sines[i]) && std::isnan(cosines[i])) << x[i];
  EXPECT_TRUE(sines[62] == 0 && std::signbit(sines[62]) && sines[63] == 0 && !std::signbit(sines[63]));
  EXPECT_EQ(cosines[62], 1.0f);
}

TEST(spirv_run, tanh_has_small_relative_error_everywhere) {
  const auto x = spread(1e-10f, 50.0f);
  EXPECT_LE(worst_relative(apply("tanh", x, [](const f32& v) { return tanh(v); }), x, std::tanh), 1e-6);
}

TEST(spirv_run, tanh_of_extremes_does_not_overflow) {
  std::vector<float> x(64, 1e30f);
  x[1] = -1e30f;
  x[2] = std::numeric_limits<float>::infinity();
  x[3] = -std::numeric_limits<float>::infinity();
  x[4] = 0.0f;
  x[5] = std::numeric_limits<float>::quiet_NaN();
  const auto found = apply("tanh_extremes", x, [](const f32& v) { return tanh(v); });
  EXPECT_EQ(found[0], 1.0f);
  EXPECT_EQ(found[1], -1.0f);
  EXPECT_EQ(found[2], 1.0f);
  EXPECT_EQ(found[3], -1.0f);
  EXPECT_EQ(found[4], 0.0f);
  EXPECT_TRUE(std::isnan(found[5]));
}

TEST(spirv_run, exponentials_and_roots_are_accurate_enough_for_training) {
  const auto x = spread(1e-3f, 40.0f);
  EXPECT_LE(worst_relative(apply("exp", x, [](const f32& v) { return exp(v); }), x, std::exp), 1e-5);
  const auto positive = spread(1e-20f, 1e20f);
  const auto found = apply("sqrt", positive, [](const f32& v) { return sqrt(abs(v)); });
  EXPECT_LE(worst_relative(found, positive, [](double v) { return std::sqrt(std::abs(v)); }), 3e-7);
}

TEST(spirv_run, integer_operations_mean_what_cxx_means) {
  kernel k("integer_meaning");
  const auto in = k.storage_buffer<i32>("in");
  const auto out = k.storage_buffer<i32>("out", access::write);
  const u32 i = k.global_id();
  const i32 x = in[i];
  const i32 y = in[(i + 1) % 64u];
  const i32 d = select(y == 0, i32(1), y);
  i32 r = x / d * 3 + x % d - (x >> 2) + (y << 3) - ~x + (x & y) - (x | y) + (x ^ 5) + min(x, y) * max(x, y) + abs(x) -
          sign(y);
  r = r + bitcast<i32>(bitcast<u32>(x) / 7u + bitcast<u32>(y) % 16u + (bitcast<u32>(x) >> 8u) +
                       bit_count(bitcast<u32>(x)) + multiply_extended(bitcast<u32>(x), bitcast<u32>(y))[1]);
  out[i] = select(x < y || x == 9, r, -r);
  std::vector<std::int32_t> values(64);
  std::mt19937 generator(3);
  for (std::size_t j = 0; j < 64; ++j) values[j] = static_cast<std::int32_t>(generator() % 20001) - 10000;
  const auto found = run<std::int32_t>(k.finish(), values, 64, 1);
  for (std::size_t j = 0; j < 64; ++j) {
    const std::int32_t a = values[j];
    const std::int32_t b = values[(j + 1) % 64];
    const std::int32_t e = b == 0 ? 1 : b;
    const auto ua = static_cast<std::uint32_t>(a);
    const auto ub = static_cast<std::uint32_t>(b);
    std::uint32_t wanted =
        static_cast<std::uint32_t>(a / e * 3 + a % e - (a >> 2) + b * 8 - ~a + (a & b) - (a | b) + (a ^ 5) +
                                   std::min(a, b) * std::max(a, b) + std::abs(a) - ((b > 0) - (b < 0)));
    wanted += ua / 7u + ub % 16u + (ua >> 8) + static_cast<std::uint32_t>(std::popcount(ua)) +
              static_cast<std::uint32_t>((std::uint64_t{ua} * ub) >> 32);
    const bool straight = a < b || a == 9;
    EXPECT_EQ(static_cast<std::uint32_t>(found[j]), straight ? wanted : 0u - wanted) << a << ' ' << b;
  }
}

// Arithmetic of a narrow type in memory and out of it, twelve results an invocation.
template <class T>
meganeura::spirv::module narrow_kernel(const char* name) {
  kernel k(name);
  const auto in = k.storage_buffer<T>("in");
  const auto out = k.storage_buffer<T>("out", access::write);
  const auto staged = k.shared<T>(64);
  const u32 i = k.global_id();
  const T x = in[i];
  staged[k.local_index()] = x;
  k.barrier();
  const T y = staged[(k.local_index() + 1) % 64u], d = select(y == 0, T(1), y);
  const value<T::kind, 2> pair = vector(x, y) + vector(y, x);
  const T results[] = {x + y,  x - y,      x * y,   x / d,         x % d,     (x & y) | (x ^ T(5)),
                       x << 2, x >> T(2u), pair[0], convert<T>(y), max(x, y), select(x < y, -x, ~y)};
  for (std::uint32_t j = 0; j < std::size(results); ++j) out[i * 12 + j] = results[j];
  return k.finish();
}

template <class T, class Cxx>
void expect_cxx_arithmetic(const char* name) {
  std::vector<Cxx> values(128);
  std::mt19937 generator(3);
  for (Cxx& each : values) each = static_cast<Cxx>(generator() % 7 == 0 ? generator() % 3 : generator());
  const vulkan::buffer in = gpu().allocate(values.size() * sizeof(Cxx));
  const vulkan::buffer out = gpu().allocate(values.size() * 12 * sizeof(Cxx));
  gpu().upload(in, 0, values);
  vulkan::recorder r(gpu());
  r.dispatch(gpu().create_pipeline(narrow_kernel<T>(name)), {{in}, {out}}, {2, 1, 1});
  gpu().submit(r.finish());
  auto ticket = gpu().read_back(out, 0, values.size() * 12 * sizeof(Cxx));
  std::vector<Cxx> found(values.size() * 12);
  std::memcpy(found.data(), ticket.data().data(), found.size() * sizeof(Cxx));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Cxx x = values[i], y = values[i / 64 * 64 + (i + 1) % 64];
    const int a = x, b = y, e = b == 0 ? 1 : b;
    const bool wraps = std::is_signed_v<Cxx> && e == -1;  // the least number has no opposite
    const int wanted[] = {a + b,
                          a - b,
                          a * b,
                          wraps ? found[i * 12 + 3] : a / e,
                          wraps ? found[i * 12 + 4] : a % e,
                          (a & b) | (a ^ 5),
                          a * 4,
                          a >> 2,
                          a + b,
                          b,
                          std::max(a, b),
                          a < b ? -a : ~b};
    for (std::size_t j = 0; j < std::size(wanted); ++j)
      EXPECT_EQ(found[i * 12 + j], static_cast<Cxx>(wanted[j])) << name << ' ' << j << ": " << a << ' ' << b;
  }
}

TEST(spirv_run, narrow_integers_mean_what_cxx_means) {
  if (gpu().facts().has_int8) {
    expect_cxx_arithmetic<u8, std::uint8_t>("arithmetic_u8");
    expect_cxx_arithmetic<i8, std::int8_t>("arithmetic_i8");
  }
  if (gpu().facts().has_int16) {
    expect_cxx_arithmetic<u16, std::uint16_t>("arithmetic_u16");
    expect_cxx_arithmetic<i16, std::int16_t>("arithmetic_i16");
  }
}

// a [m, k] times b [k, n], both behind each other in one buffer, of A; then 2 (a b) - 1, each component plus 5.
template <class A, class C, class Through>
meganeura::spirv::module matrix_product(const std::string& name, const vulkan::cooperative_matrix_shape& s,
                                        std::uint32_t lanes) {
  kernel k(name, {lanes, 1, 1});
  k.require_subgroup_size(lanes);
  if (A::kind == scalar_kind::bf16) k.use_bfloat16();
  const auto one = cooperative_matrix<C>::fill(k, s.m, s.n, matrix_use::accumulator, C(1));
  const auto in = k.storage_buffer<A>("in");
  const auto out = k.storage_buffer<C>("out", access::write);
  const auto a = cooperative_matrix<A>::load(in, 0, s.k, s.m, s.k, matrix_use::a);
  const auto b = cooperative_matrix<A>::load(in, s.m * s.k, s.n, s.k, s.n, matrix_use::b);
  const cooperative_variable<C> sum(multiply_add(a, b, one - one));
  sum.store(sum.load() * C(2) + -one * one / one);
  for (std::uint32_t i = 0; i < s.m * s.n / lanes; ++i) {
    k.if_(sum.length() > i, [&] { sum.set_component(i, sum.component(i) + C(5)); });
  }
  convert<C>(convert<Through>(sum.load())).store(out, 0, s.n);
  return k.finish();
}

template <class A, class C, class Through, class Number, class Encode>
void expect_products(const std::string& name, vulkan::component_type a, vulkan::component_type c,
                     const Encode& encode) {
  const std::size_t bytes = A::static_type.bytes();
  vulkan::cooperative_matrix_shape usual{16, 16, 16, a, a, c, c};
  EXPECT_EQ(meganeura::support::validation_of(matrix_product<A, C, Through>(name, usual, 32)), "");
  for (const vulkan::cooperative_matrix_shape& s : gpu().facts().cooperative_matrix_shapes) {
    if (s.a != a || s.b != a || s.c != c || s.result != c || s.scope != vulkan::matrix_scope::subgroup || s.saturating)
      continue;
    if (A::kind == scalar_kind::bf16 && !gpu().facts().has_bf16) continue;
    const auto a_at = [&](std::size_t i, std::size_t t) { return static_cast<int>((i * 3 + t) % 4); };
    const auto b_at = [&](std::size_t t, std::size_t j) { return static_cast<int>((t + j * 5) % 3); };
    std::vector<std::uint32_t> packed((s.m + s.n) * s.k * bytes / 4);
    const auto put = [&](std::size_t at, int number) {
      const std::uint32_t bits = encode(number);
      std::memcpy(reinterpret_cast<char*>(packed.data()) + at * bytes, &bits, bytes);
    };
    for (std::size_t t = 0; t < s.k; ++t) {
      for (std::size_t i = 0; i < s.m; ++i) put(i * s.k + t, a_at(i, t));
      for (std::size_t j = 0; j < s.n; ++j) put(s.m * s.k + t * s.n + j, b_at(t, j));
    }
    const auto made = matrix_product<A, C, Through>(name, s, gpu().facts().subgroup_size);
    const auto found = run<Number>(made, packed, std::size_t{s.m} * s.n, 1);
    for (std::size_t i = 0; i < s.m; ++i) {
      for (std::size_t j = 0; j < s.n; ++j) {
        int sum = 0;
        for (std::size_t t = 0; t < s.k; ++t) sum += a_at(i, t) * b_at(t, j);
        EXPECT_EQ(found[i * s.n + j], static_cast<Number>(2 * sum + 4))
            << name << ' ' << s.m << 'x' << s.n << 'x' << s.k;
      }
    }
  }
}

// On the device where it has them; valid everywhere.
TEST(spirv_run, products_of_all_types_of_matrices) {
  using vulkan::component_type;
  const auto float_bits = [](meganeura::dtype type) {
    return [type](int x) { return meganeura::float_format(type).encode(static_cast<float>(x)); };
  };
  const auto same = [](int x) { return static_cast<std::uint32_t>(x); };
  expect_products<f16, f32, f16, float>("product_f16", component_type::float16, component_type::float32,
                                        float_bits(meganeura::dtype::f16));
  expect_products<bf16, f32, f32, float>("product_bf16", component_type::bfloat16, component_type::float32,
                                         float_bits(meganeura::dtype::bf16));
  expect_products<i8, i32, u32, std::int32_t>("product_i8", component_type::sint8, component_type::sint32, same);
  expect_products<u8, u32, i32, std::uint32_t>("product_u8", component_type::uint8, component_type::uint32, same);
}

// A fragment of f16 staged behind an array of one word, as words of two; `explicit_layout`: seen as what it is.
meganeura::spirv::module staged_matrix(std::uint32_t lanes, bool explicit_layout) {
  kernel k(explicit_layout ? "staged_matrix_laid_out" : "staged_matrix", {lanes, 1, 1});
  k.require_subgroup_size(lanes);
  if (explicit_layout) k.use_explicit_workgroup_layout();
  const auto zero = cooperative_matrix<f32>::fill(k, 16, 16, matrix_use::accumulator, 0.0f);
  const auto in = k.storage_buffer<u32x2>("in");  // the matrix, then the unit matrix
  const auto units = k.view<f16>(in);
  const auto out = k.storage_buffer<f32>("out", access::write);
  const auto flag = k.shared<u32>(1);
  const auto staged = k.shared<u32x2>(64);
  flag[0].atomic_store(1);
  for (std::uint32_t at = 0; at < 64; at += lanes) staged[k.local_index() + at] = in[k.local_index() + at].load();
  k.barrier();
  const auto load = [&] {
    if (explicit_layout) return cooperative_matrix<f16>::load(k.view<f16>(staged), 0, 16, 16, 16, matrix_use::a);
    return cooperative_matrix<f16>::load(staged, 0, 4, 16, 16, matrix_use::a);
  };
  multiply_add(load(), cooperative_matrix<f16>::load(units, 256, 16, 16, 16, matrix_use::b), zero).store(out, 0, 16);
  return k.finish();
}

// The array of one word moved the other off its alignment: loads gave anything (NVIDIA, driver 580).
TEST(spirv_run, matrices_staged_beside_a_word_are_what_was_stored) {
  for (const bool explicit_layout : {false, true})
    EXPECT_EQ(meganeura::support::validation_of(staged_matrix(32, explicit_layout)), "");
  const vulkan::device_facts& facts = gpu().facts();
  bool fits = facts.subgroup_size <= 64;
  const auto is_usual = [](const vulkan::cooperative_matrix_shape& s) {
    return s.m == 16 && s.n == 16 && s.k == 16 && s.a == vulkan::component_type::float16 &&
           s.c == vulkan::component_type::float32 && s.scope == vulkan::matrix_scope::subgroup;
  };
  fits = fits && std::any_of(facts.cooperative_matrix_shapes.begin(), facts.cooperative_matrix_shapes.end(), is_usual);
  if (!fits) GTEST_SKIP() << "no matrices of 16x16x16 f16";
  std::vector<std::uint16_t> values(512, 0);
  const meganeura::float_format half(meganeura::dtype::f16);
  for (std::uint32_t j = 0; j < 256; ++j) values[j] = static_cast<std::uint16_t>(half.encode(static_cast<float>(j)));
  for (std::uint32_t j = 0; j < 16; ++j) values[256 + 17 * j] = static_cast<std::uint16_t>(half.encode(1.0f));
  std::vector<std::uint32_t> packed(256);
  std::memcpy(packed.data(), values.data(), 1024);
  for (const bool explicit_layout : {false, true}) {
    if (explicit_layout && !facts.has_workgroup_layout) continue;
    const auto found = run<float>(staged_matrix(facts.subgroup_size, explicit_layout), packed, 256, 1);
    for (std::uint32_t j = 0; j < 256; ++j) EXPECT_EQ(found[j], static_cast<float>(j)) << explicit_layout;
  }
}

// From i32 and f32 through a narrow type and back.
template <class T, class Cxx>
void expect_cxx_conversions(const char* name) {
  kernel k(name);
  const auto in = k.storage_buffer<i32>("in");
  const auto out = k.storage_buffer<i32>("out", access::write);
  const u32 i = k.global_id();
  const i32 x = in[i];
  const T narrow = convert<T>(x), of_float = convert<T>(convert<f32>(x & 127));
  const i32 results[] = {
      convert<i32>(narrow),   bitcast<i32>(convert<u32>(narrow)),     convert<i32>(convert<f32>(narrow)),
      convert<i32>(of_float), convert<i32>(convert<boolean>(narrow)), convert<i32>(convert<T>(x > 0))};
  for (std::uint32_t j = 0; j < std::size(results); ++j) out[i * 6 + j] = results[j];
  const auto made = k.finish();
  EXPECT_TRUE(made.needs_int8 || made.needs_int16);  // no buffer holds them
  std::vector<std::int32_t> values(64);
  for (std::size_t j = 0; j < 64; ++j) values[j] = static_cast<std::int32_t>(j * j * 397) - 70000;
  values[0] = 0, values[1] = 65536;
  const auto found = run<std::int32_t>(made, values, 64 * 6, 1);
  for (std::size_t j = 0; j < 64; ++j) {
    const auto kept = static_cast<Cxx>(values[j]);
    const std::vector<std::int32_t> wanted{kept, kept, kept, values[j] & 127, kept != 0, values[j] > 0};
    EXPECT_EQ(std::vector<std::int32_t>(&found[j * 6], &found[j * 6] + 6), wanted) << name << ' ' << values[j];
  }
}

TEST(spirv_run, conversions_to_narrow_integers_mean_what_cxx_means) {
  if (gpu().facts().has_int8) {
    expect_cxx_conversions<u8, std::uint8_t>("convert_u8");
    expect_cxx_conversions<i8, std::int8_t>("convert_i8");
  }
  if (gpu().facts().has_int16) {
    expect_cxx_conversions<u16, std::uint16_t>("convert_u16");
    expect_cxx_conversions<i16, std::int16_t>("convert_i16");
  }
}

// By bits, and by the device where it has the type.
TEST(spirv_run, bf16_is_rounded_to_nearest_even) {
  if (!gpu().facts().has_16bit_storage) GTEST_SKIP() << "no 16-bit storage";
  const meganeura::float_format format(meganeura::dtype::bf16);
  std::vector<float> values = spread(1e-30f, 1e30f);
  values.resize(1 << 12);
  for (std::size_t j = 0; j < 256; ++j)  // ties and what is beside them
    values[j] = std::bit_cast<float>(static_cast<std::uint32_t>(0x3f800000 + j * 0x4000));
  values[256] = std::numeric_limits<float>::infinity(), values[257] = -values[256], values[258] = 3.4e38f;
  values[259] = std::numeric_limits<float>::quiet_NaN(), values[260] = -0.0f, values[261] = 65280.0f;
  for (const bool as_type : {false, true}) {
    if (as_type && !gpu().facts().has_bf16) continue;
    kernel k(as_type ? "bf16_type" : "bf16_bits");
    if (as_type) k.use_bfloat16();
    const auto in = k.storage_buffer<f32>("in");
    const auto out = k.storage_buffer<u32>("out", access::read_write);
    const auto pairs = k.view<bf16x2>(out);
    const f32 x = in[k.global_id()];
    const u32 at = k.global_id() * 2;
    pairs[at] = convert<bf16x2>(vector(x, x * 2.0f));
    out[at + 1] = bitcast<u32>(convert<f32x2>(pairs[at].load())[0]);
    const auto found = run<std::uint32_t>(k.finish(), values, 2 * values.size(), 64);
    for (std::size_t j = 0; j < values.size(); ++j) {
      const auto expect = [&](std::uint32_t bits, float number) {
        const bool is_nan = format.magnitude(bits) > format.infinity();
        EXPECT_TRUE(std::isnan(number) ? is_nan : bits == format.encode(number)) << number << ' ' << as_type;
      };
      expect(found[2 * j] & 0xffffu, values[j]);
      expect(found[2 * j] >> 16, values[j] * 2.0f);
      if (!std::isnan(values[j])) {
        EXPECT_EQ(found[2 * j + 1], found[2 * j] << 16) << values[j] << ' ' << as_type;
      }
    }
  }
}

TEST(spirv_run, loops_branches_and_variables_follow_the_program) {
  kernel k("collatz");  // steps to reach 1, by while; and a triangular sum, by nested for
  const auto in = k.storage_buffer<u32>("in");
  const auto out = k.storage_buffer<u32>("out", access::write);
  const u32 i = k.global_id();
  const auto x = k.variable<u32>(in[i].load());
  const auto steps = k.variable<u32>(0u);
  k.while_([&] { return x > 1u; },
           [&] {
             k.if_(
                 x % 2u == 0u, [&] { x = x / 2u; }, [&] { x = x * 3u + 1u; });
             steps += 1u;
           });
  k.for_(in[i].load() % 5u, [&](u32 a) { k.for_(1, a, 2, [&](u32 b) { steps += b * 1000u; }); });
  out[i] = steps.load();
  std::vector<std::uint32_t> values;
  for (std::uint32_t j = 0; j < 64; ++j) values.push_back(j * 37 + 1);
  const auto found = run<std::uint32_t>(k.finish(), values, 64, 1);
  for (std::size_t j = 0; j < 64; ++j) {
    std::uint32_t wanted = 0;
    for (std::uint32_t v = values[j]; v > 1; ++wanted) v = v % 2 == 0 ? v / 2 : v * 3 + 1;
    for (std::uint32_t a = 0; a < values[j] % 5; ++a) {
      for (std::uint32_t b = 1; b < a; b += 2) wanted += b * 1000;
    }
    EXPECT_EQ(found[j], wanted);
  }
}

// A pair of loops of `length` and a nest around `inner`, taken by some of the invocations only.
meganeura::spirv::module looping(std::uint32_t length, std::uint32_t outer, std::uint32_t inner) {
  kernel k("loops");
  const auto in = k.storage_buffer<u32>("in");
  const auto out = k.storage_buffer<u32>("out", access::write);
  const u32 i = k.global_id();
  const auto steps = k.variable<u32>(0u);
  const auto count = [&](const u32&) { steps += in[i].load(); };
  k.if_(
      i % 2u == 0u, [&] { k.for_(length, count); }, [&] { k.for_(0u, length, 1u, count); });
  k.for_(outer, [&](const u32& a) { k.for_(a, a + inner, 1u, count, unrolling::automatic, inner); });
  out[i] = steps.load();
  return k.finish();
}

// What a driver's limit counts, from both sides: loops that just pass it run to their end, twice as many do not.
TEST(spirv_run, loops_within_the_drivers_limit_run_to_their_end) {
  const std::uint32_t limit = gpu().facts().quirks.max_loop_iterations;
  if (limit == 0) GTEST_SKIP() << "the driver has no limit";
  const std::vector<std::uint32_t> ones(64, 1);
  const std::array<std::uint32_t, 3> cases[] = {{32600, 100, 1}, {100, 300, 200}, {10, 16000, 2}, {2000, 2, 30000}};
  for (const auto& [length, outer, inner] : cases) {
    const auto made = looping(length, outer, inner);
    EXPECT_LE(made.loop_iterations, limit);
    EXPECT_GT(made.loop_iterations, limit / 10 * 9);
    EXPECT_EQ(run<std::uint32_t>(made, ones, 64, 1), std::vector<std::uint32_t>(64, length + outer * inner));
    const auto twice = looping(2 * length, 2 * outer, inner);
    EXPECT_GT(twice.loop_iterations, limit);
    EXPECT_NE(run<std::uint32_t>(twice, ones, 64, 1), std::vector<std::uint32_t>(64, 2 * (length + outer * inner)));
  }
}

TEST(spirv_run, workgroup_memory_and_barriers_reverse_a_block) {
  kernel k("reverse");
  const auto in = k.storage_buffer<f32>("in");
  const auto out = k.storage_buffer<f32>("out", access::write);
  const auto tile = k.shared<f32x4>(16);
  const u32 t = k.local_index();
  tile.component(t / 4, t % 4) = in[k.global_id()].load();
  k.barrier();
  const u32 from = 63u - t;
  out[k.global_id()] = tile.component(from / 4, from % 4).load();
  const auto x = spread(1.0f, 2.0f);
  const auto found = run<float>(k.finish(), x, 256, 4);
  for (std::size_t j = 0; j < 256; ++j) EXPECT_EQ(found[j], x[j / 64 * 64 + 63 - j % 64]);
}

// As words of four, then as numbers; where the language lays memory out as halves and bytes, too.
meganeura::spirv::module staged_as(bool explicit_layout) {
  kernel k(explicit_layout ? "staged_laid_out" : "staged");
  if (explicit_layout) k.use_explicit_workgroup_layout();
  const auto in = k.storage_buffer<u32x4>("in");
  const auto out = k.storage_buffer<u32>("out", access::write);
  const auto other = k.shared<u32>(3);
  const auto staged = k.shared<u32x4>(64);
  const auto last = k.shared<u32x2>(5);
  const auto numbers = k.view<f32>(staged);
  const u32 t = k.local_index();
  staged[t] = in[t].load();
  k.if_(t < 3u, [&] { other[t] = t; });
  k.if_(t < 5u, [&] { last[t] = vector(t, t + 7u); });
  k.barrier();
  const f32 doubled = numbers[t * 4 + 1].load() * 2.0f;
  k.barrier();
  numbers[t * 4 + 1] = doubled;
  k.barrier();
  for (std::uint32_t j = 0; j < 4; ++j) out[t * 8 + j] = staged[63u - t].load()[j];
  out[t * 8 + 4] = other[t % 3u].load() * 100u + last[t % 5u].load()[1];
  k.barrier();
  if (explicit_layout) {
    k.view<f16>(staged)[t * 8 + 1] = f16(1.5f);
    k.view<u8>(staged)[t * 16 + 1] = u8(200);
  } else {
    staged.component(t, 0) = (staged.component(t, 0).load() & 0xffu) | 0x3e00c800u;
  }
  k.barrier();
  out[t * 8 + 5] = staged.component(63u - t, 0).load();
  out[t * 8 + 6] = out[t * 8 + 7] = u32(0);
  return k.finish();
}

TEST(spirv_run, workgroup_memory_has_views_of_other_types) {
  std::vector<std::uint32_t> values(256);
  for (std::uint32_t j = 0; j < 256; ++j)
    values[j] = j % 4 == 1 ? std::bit_cast<std::uint32_t>(static_cast<float>(j) * 0.3f) : j * 0x01030507u;
  for (const bool explicit_layout : {false, true}) {
    if (explicit_layout && !gpu().facts().has_workgroup_layout) continue;
    const auto found = run<std::uint32_t>(staged_as(explicit_layout), values, 512, 1);
    for (std::uint32_t t = 0; t < 64; ++t) {
      const std::uint32_t* from = &values[(63 - t) * 4];
      const float doubled = std::bit_cast<float>(from[1]) * 2.0f;
      const std::vector<std::uint32_t> wanted{from[0],
                                              std::bit_cast<std::uint32_t>(doubled),
                                              from[2],
                                              from[3],
                                              t % 3 * 100 + t % 5 + 7,
                                              (from[0] & 0xffu) | 0x3e00c800u};
      EXPECT_EQ(std::vector<std::uint32_t>(&found[t * 8], &found[t * 8] + 6), wanted) << t << ' ' << explicit_layout;
    }
  }
}

TEST(spirv_run, subgroup_reductions_agree_with_shuffles) {
  kernel k("subgroup");
  const auto in = k.storage_buffer<u32>("in");
  const auto out = k.storage_buffer<u32>("out", access::write);
  const u32 x = in[k.global_id()];
  u32 sum = x;
  for (std::uint32_t mask = 1; mask < gpu().facts().subgroup_size; mask *= 2)
    sum = sum + k.subgroup_shuffle_xor(sum, mask);
  const u32 wrong = select(k.subgroup_add(x) == sum, u32(0), u32(1)) + select(k.subgroup_max(x) >= x, u32(0), u32(2)) +
                    select(k.subgroup_min(x) <= x, u32(0), u32(4)) +
                    select(k.subgroup_broadcast(x, 1) == k.subgroup_shuffle(x, 1), u32(0), u32(8));
  out[k.global_id()] = wrong + sum * 16u;
  std::vector<std::uint32_t> values(64);
  for (std::uint32_t j = 0; j < 64; ++j) values[j] = j * 7 % 31;
  const auto found = run<std::uint32_t>(k.finish(), values, 64, 1);
  const std::size_t lanes = gpu().facts().subgroup_size;
  for (std::size_t j = 0; j < 64; ++j) {
    std::uint32_t wanted = 0;
    for (std::size_t l = 0; l < lanes; ++l) wanted += values[j / lanes * lanes + l];
    EXPECT_EQ(found[j], wanted * 16);
  }
}

// In every lane: what it adds up to, who is asked, who is chosen. Workgroups are full, of 64 invocations.
TEST(spirv_run, scans_ballots_and_elections_follow_the_lanes) {
  if (gpu().facts().subgroup_size > 64) GTEST_SKIP() << "a subgroup is larger than the workgroup";
  kernel k("scans");
  k.require_subgroup_size(gpu().facts().subgroup_size);
  const auto in = k.storage_buffer<i32>("in");
  const auto out = k.storage_buffer<i32>("out", access::write);
  const i32 x = in[k.global_id()];
  const u32 lane = k.subgroup_lane();
  const boolean odd = (x & 1) == 1;
  const u32x4 votes = k.subgroup_ballot(odd);
  const u32 voters = k.subgroup_ballot_count(votes);
  const i32 results[] = {
      k.subgroup_inclusive_add(x),
      k.subgroup_exclusive_add(x),
      convert<i32>(k.subgroup_exclusive_add(convert<f32>(x))),
      bitcast<i32>(voters),
      bitcast<i32>(k.subgroup_ballot_count(votes, group_operation::inclusive_scan)),
      bitcast<i32>(k.subgroup_ballot_count(votes, group_operation::exclusive_scan)),
      bitcast<i32>(bit_count(votes[0]) + bit_count(votes[1])),
      k.subgroup_shuffle(x, (lane * 3u + 1u) % k.subgroup_size()),
      k.subgroup_broadcast_first(x),
      convert<i32>(k.subgroup_any(k.subgroup_elect() && lane == 0u)),
      convert<i32>(k.subgroup_all(odd || !odd)),
      bitcast<i32>(k.subgroup_add(convert<u32>(k.subgroup_elect()))),
  };
  constexpr std::size_t count = std::size(results);
  for (std::uint32_t i = 0; i < count; ++i) out[k.global_id() * count + i] = results[i];
  std::vector<std::int32_t> values(128);
  for (std::size_t j = 0; j < values.size(); ++j) values[j] = static_cast<std::int32_t>(j * 37 % 101) - 50;
  const auto found = run<std::int32_t>(k.finish(), values, values.size() * count, 2);
  const std::size_t lanes = gpu().facts().subgroup_size;
  for (std::size_t j = 0; j < values.size(); ++j) {
    const std::size_t first = j / lanes * lanes;
    std::int32_t before = 0, voted = 0, voted_before = 0;
    for (std::size_t l = first; l < first + lanes; ++l) {
      const std::int32_t vote = values[l] & 1;
      if (l < j) before += values[l], voted_before += vote;
      voted += vote;
    }
    const std::int32_t own = values[j] & 1;
    const std::vector<std::int32_t> wanted{before + values[j],
                                           before,
                                           before,
                                           voted,
                                           voted_before + own,
                                           voted_before,
                                           voted,
                                           values[first + ((j - first) * 3 + 1) % lanes],
                                           values[first],
                                           1,
                                           1,
                                           1};
    EXPECT_EQ(std::vector<std::int32_t>(&found[j * count], &found[j * count] + count), wanted) << j;
  }
}

TEST(spirv_run, halves_survive_packing_and_storage) {
  kernel k("halves");
  const auto in = k.storage_buffer<f32>("in");
  const auto out = k.storage_buffer<u32>("out", access::write);
  const auto halves = k.view<f16x2>(out);
  const u32 i = k.global_id();
  const f32 x = in[i];
  k.if_(
      i % 2u == 0u, [&] { out[i] = pack_half(vector(x, x * 2.0f)); },
      [&] { halves[i] = vector(convert<f16>(x), convert<f16>(x) * f16(2.0f)); });
  std::vector<float> values(64);
  for (std::size_t j = 0; j < 64; ++j) values[j] = static_cast<float>(j * j) * 0.25f + 1.0f;  // exact in f16
  const auto found = run<std::uint32_t>(k.finish(), values, 64, 1);
  for (std::size_t j = 0; j < 64; ++j) {
    EXPECT_EQ(found[j] & 0xffffu, meganeura::float_format(meganeura::dtype::f16).encode(values[j]));
    EXPECT_EQ(found[j] >> 16, meganeura::float_format(meganeura::dtype::f16).encode(2 * values[j]));
  }
}

// Many workgroups leave partial sums of numbers; the last one adds these up, and leaves the counter as it was.
meganeura::spirv::module total_of_workgroups(bool vulkan_memory_model) {
  kernel k(vulkan_memory_model ? "total_vulkan_memory" : "total");
  if (vulkan_memory_model) k.builder().use_vulkan_memory_model();
  const auto in = k.storage_buffer<u32>("in");
  const auto parts = k.storage_buffer<u32>("parts", access::exchange);
  const auto arrived = k.storage_buffer<u32>("arrived", access::read_write);
  const auto total = k.storage_buffer<u32>("total", access::read_write);
  parts[k.global_id()] = in[k.global_id()].load() * 3u;
  k.if_(k.is_last_workgroup(arrived[0], k.workgroup_count()), [&] {
    const auto sum = k.variable<u32>(0u);
    k.for_(k.workgroup_count(), [&](const u32& group) { sum += parts[group * 64 + k.local_index()].load(); });
    total[k.local_index()] += sum.load();
  });
  return k.finish();
}

TEST(spirv_run, the_last_workgroup_sees_what_all_others_stored) {
  constexpr std::uint32_t groups = 200, times = 3;
  std::vector<std::uint32_t> values(64 * groups), wanted(64, 0);
  for (std::uint32_t j = 0; j < values.size(); ++j) values[j] = j * 7 % 101, wanted[j % 64] += 3 * times * values[j];
  for (const bool vulkan : {false, true}) {
    if (vulkan && (!gpu().facts().has_memory_model || !gpu().facts().has_device_scope)) continue;
    const vulkan::buffer in = gpu().allocate(values.size() * 4), parts = gpu().allocate(values.size() * 4),
                         arrived = gpu().allocate(16), total = gpu().allocate(256);
    gpu().upload(in, 0, values);
    gpu().upload(arrived, 0, std::vector<std::uint32_t>(4, 0u));
    gpu().upload(total, 0, std::vector<std::uint32_t>(64, 0u));
    vulkan::recorder r(gpu());
    const auto made = gpu().create_pipeline(total_of_workgroups(vulkan));
    for (std::uint32_t i = 0; i < times; ++i) {
      r.dispatch(made, {{in}, {parts}, {arrived}, {total}}, {groups, 1, 1});
      r.barrier();
    }
    gpu().submit(r.finish());
    auto ticket = gpu().read_back(total, 0, 256);
    std::vector<std::uint32_t> found(64);
    std::memcpy(found.data(), ticket.data().data(), 256);
    EXPECT_EQ(found, wanted) << vulkan;
  }
}

TEST(spirv_run, atomics_count_every_invocation) {
  kernel k("atomics");
  const auto in = k.storage_buffer<u32>("in");
  const auto out = k.storage_buffer<u32>("out", access::read_write);
  (void)out[in[k.global_id()].load() % 4u].atomic_add(1u);
  (void)out[4].atomic_max(k.global_id());
  std::vector<std::uint32_t> values(256);
  for (std::uint32_t j = 0; j < 256; ++j) values[j] = j;
  const vulkan::buffer a = gpu().allocate(1024);
  const vulkan::buffer b = gpu().allocate(32);
  gpu().upload(a, 0, values);
  gpu().upload(b, 0, std::vector<std::uint32_t>(8, 0u));
  vulkan::recorder r(gpu());
  r.dispatch(gpu().create_pipeline(k.finish()), {{a}, {b}}, {4, 1, 1});
  gpu().submit(r.finish());
  auto ticket = gpu().read_back(b, 0, 32);
  std::uint32_t found[8];
  std::memcpy(found, ticket.data().data(), 32);
  for (int j = 0; j < 4; ++j) EXPECT_EQ(found[j], 64u);
  EXPECT_EQ(found[4], 255u);
}

}  // namespace
