// SPDX-License-Identifier: MIT
// Kernels side by side, and how long they take together.
#pragma once
#include <meganeura/core/kernel_time.hpp>
#include <meganeura/core/small_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

namespace meganeura::inline MEGANEURA_ABI {

/// The room a device has for workgroups, as shares that are free from some time on.
class device_room {
 public:
  /// When the last workgroup of a kernel that may begin at `begin` has ended, each of which begins as soon as it can.
  double end_of(const kernel_time& kernel, double begin) {
    if (kernel.room == 0) return begin + kernel.alone;
    const double stay = kernel.alone / kernel.rounds();
    if (kernel.room > kernel_time::few_rounds) return fill(kernel.room * stay, begin);
    double end = begin;
    for (double left = kernel.room; left > least;) {
      const share first = shares_[0];
      const double taken = std::min(first.room, left);
      shares_[0].room -= taken;
      if (shares_[0].room <= least) drop(1);
      end = std::max(first.free, begin) + stay;
      put({end, taken});
      left -= taken;
    }
    return end;
  }

 private:
  struct share {
    double free, room;
  };
  static constexpr double least = 1e-6;

  void drop(std::size_t count) {
    std::copy(shares_.begin() + static_cast<std::ptrdiff_t>(count), shares_.end(), shares_.begin());
    shares_.resize(shares_.size() - count);
  }
  void put(const share& made) {
    for (share& each : shares_) {
      if (each.free == made.free) {
        each.room += made.room;
        return;
      }
    }
    shares_.push_back(made);
    for (std::size_t i = shares_.size() - 1; i > 0 && shares_[i].free < shares_[i - 1].free; --i)
      std::swap(shares_[i], shares_[i - 1]);
  }
  // So many rounds that the last of them counts no more than another: `work` is seconds of the whole room.
  double fill(double work, double begin) {
    double end = std::max(begin, shares_[0].free), room = 0;
    std::size_t taken = 0;
    while (true) {
      for (; taken < shares_.size() && shares_[taken].free <= end; ++taken) room += shares_[taken].room;
      const double next = taken < shares_.size() ? shares_[taken].free : end + work / room;
      if (work <= (next - end) * room || taken == shares_.size()) break;
      work -= (next - end) * room;
      end = next;
    }
    end += work / room;
    drop(taken);
    put({end, room});
    return end;
  }

  small_vector<share, 8> shares_{{0, 1}};  // the first one that is free is the first
};

/// A group as long as the longest of its kernels, the next of which begins a little later each time, the longest first,
/// in what room those before it leave, and as the work of all of them, which waits for the first one's data.
struct kernel_group {
  small_vector<kernel_time, 8> kernels;  // the longest is the last
  double busy = 0;

  [[nodiscard]] bool empty() const { return kernels.empty(); }
  void add(const kernel_time& kernel) {
    kernels.push_back(kernel);
    for (std::size_t i = kernels.size() - 1; i > 0 && kernels[i].alone < kernels[i - 1].alone; --i)
      std::swap(kernels[i], kernels[i - 1]);
    busy += kernel.busy;
  }
  void remove(const kernel_time& kernel) {
    std::size_t at = 0;
    while (at + 1 < kernels.size() && kernels[at] != kernel) ++at;
    for (; at + 1 < kernels.size(); ++at) kernels[at] = kernels[at + 1];
    kernels.resize(kernels.size() - 1);
    busy -= kernel.busy;
  }
  [[nodiscard]] double seconds(const launch_time& launch) const { return empty() ? 0 : seconds_with(nullptr, launch); }
  /// With one kernel more.
  [[nodiscard]] double seconds_with(const kernel_time& kernel, const launch_time& launch) const {
    return seconds_with(&kernel, launch);
  }

 private:
  // When the kernel behind so many others begins. Of two of 2.8 us each on an H100 the second ends 2 later.
  static double later(std::size_t others, const launch_time& launch) {
    return 0.5 * launch.group * static_cast<double>(others);
  }
  [[nodiscard]] double seconds_with(const kernel_time* more, const launch_time& launch) const {
    const std::size_t count = kernels.size() + (more ? 1 : 0);
    const double launches = launch.group + static_cast<double>(count) * launch.dispatch;
    if (count == 1) return launches + (more ? *more : kernels[0]).alone;
    device_room room;
    double longest = 0, work = busy + (more ? more->busy : 0), first = std::numeric_limits<double>::infinity();
    std::size_t begun = 0;
    const auto begin = [&](const kernel_time& kernel) {
      longest = std::max(longest, room.end_of(kernel, later(begun++, launch)));
      first = std::min(first, kernel.alone - kernel.busy);
    };
    for (std::size_t i = kernels.size(); i-- > 0;) {
      if (more && kernels[i].alone <= more->alone) begin(*more), more = nullptr;
      begin(kernels[i]);
    }
    if (more) begin(*more);
    return launches + std::max(longest, work + first);
  }
};

}  // namespace meganeura::inline MEGANEURA_ABI
