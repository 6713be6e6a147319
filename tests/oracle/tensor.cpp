// SPDX-License-Identifier: MIT
// Random tensors.
#include <oracle/tensor.hpp>

#include <random>

namespace meganeura::inline MEGANEURA_ABI::oracle {

template <class Real>
tensor<Real> random_tensor(const shape& extents, std::uint64_t seed, double low, double high, dtype type) {
  std::mt19937_64 engine(seed);
  tensor<Real> result(extents, type);
  for (Real& value : result.values) {
    const std::uint64_t word = engine();
    const double unit = static_cast<double>(word >> 11) * 0x1p-53;
    if (!is_float(type)) {
      value = Real(std::floor(low + unit * (high - low)));
    } else if constexpr (std::is_same_v<Real, prime_field>) {
      value = prime_field::from_residue(word);
    } else {
      value = stored(static_cast<Real>(static_cast<float>(low + unit * (high - low))), type);
    }
  }
  return result;
}

template tensor<double> random_tensor(const shape&, std::uint64_t, double, double, dtype);
template tensor<float> random_tensor(const shape&, std::uint64_t, double, double, dtype);
template tensor<prime_field> random_tensor(const shape&, std::uint64_t, double, double, dtype);

}  // namespace meganeura::inline MEGANEURA_ABI::oracle
