// SPDX-License-Identifier: MIT
// The weights and states of a model on one device: one object, shared by every session and trainer of that model.
#pragma once
#include <meganeura/core/error.hpp>
#include <meganeura/core/name_pattern.hpp>
#include <meganeura/plan/plan.hpp>
#include <meganeura/runtime/area_memory.hpp>
#include <meganeura/runtime/device.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meganeura::inline MEGANEURA_ABI {

/// How parameters begin. seed: of what is drawn; each draws by its name, so that one seed gives the same weights on
/// every device, and a layer more changes no other.
struct init_options {
  std::uint64_t seed = 0;
};

/// e.g. {.rename = from_torch, .ignore = "*.num_batches_tracked"}.
struct load_options {
  bool strict = true;      // false: what only one side has, or has in another shape, stays as it is, and
                           // axes of extent 1 may come and go
  name_map rename{};       // what the file calls the parameters; the first name that it has is read, for one of them
                           // unless a rule without '*' says otherwise: {"head.weight", "embed.weight"}
  name_patterns ignore{};  // as the model or as the file calls them: neither read nor missed, under both names where
                           // `rename` gives one another
};

/// What `load` left out, by name.
struct load_report {
  std::vector<std::string> missing;     // parameters and states that the file lacks, or has as another one alone: they
                                        // keep their values
  std::vector<std::string> unexpected;  // tensors of the file that the model lacks
  std::vector<std::string> mis_shaped;  // parameters and states of other extents in the file: they keep their values
  std::vector<std::string> reshaped;    // read in spite of other axes of extent 1
};

/// A cheap handle; copies are the same weights. Names are the full paths ("model.layers.7.self_attn.q_proj.weight").
/// States lie beside them, under their names: all programs that share the parameters read and assign the same ones,
/// each step what the step before it left, whichever program ran it. Everything below is for both, unless it says
/// otherwise; states that begin as init::each_run are in no file of weights. Writing waits for nothing: it is ordered
/// before whatever is submitted next. Several threads may call them at once.
class parameters {
 public:
  parameters() = default;
  /// What a graph has of both. Parameters are without values: reading, saving or running with one that was never
  /// initialised, loaded or set is an error. States are as they begin. errors: out_of_memory; unsupported for a tensor
  /// longer than a buffer of the device.
  parameters(const device& on, const graph& g) : parameters(on, plan::make_layout(g)) {}
  /// In the order of `tensors`, paged for the device.
  parameters(const device& on, plan::layout tensors);

  /// Each tensor as its initializer says: layers have PyTorch's defaults, a parameter that says nothing is uniform in
  /// +-1/sqrt(fan_in), a state zeros. Draws depend on seed and name alone: the same everywhere, whatever else a model
  /// has. errors: invalid_argument when a parameter is no float and says nothing; nothing is changed then.
  void init(const init_options& options = {});
  /// States as they begin; parameters stay.
  void reset_states();

  /// Of a parameter of floats, to whose dtype the values are rounded (to the nearest, ties to even).
  /// errors: invalid_argument for an unknown name (the nearest one is suggested), a wrong number of values, a
  /// parameter that is not a float, or a finite value that would be rounded to infinity.
  void set(std::string_view name, std::span<const float> values);
  /// errors: invalid_argument for an unknown name, a tensor that holds no floats or one that has no values yet.
  [[nodiscard]] std::vector<float> get(std::string_view name) const;
  /// The same as raw bytes of the tensor's own dtype.
  void set_bytes(std::string_view name, std::span<const std::byte> values);
  [[nodiscard]] std::vector<std::byte> get_bytes(std::string_view name) const;

  /// Reads a .safetensors file, or several by their index or the folder that has it (see io::safetensors_set): F64,
  /// F32, F16 or BF16 tensors for parameters of floats, rounded where they must be (a number that would become infinite
  /// is refused), I64 whose values fit for i32, the same dtype for others. Header, names, shapes and dtypes are checked
  /// before anything is changed. Tensors are then read one by one: an error of the disk or of memory half-way leaves
  /// each parameter with all of its old or all of its new values. errors: io; out_of_memory; invalid_file for a damaged
  /// file, or with one sentence naming the first mis-shaped, mistyped, missing and extra tensors, and names without '*'
  /// in `rename` and `ignore` that nothing has; without `strict`, for a file that has nothing of the model, or of which
  /// nothing fits.
  load_report load(const std::string& path, const load_options& options = {});
  /// Writes each tensor in its own dtype to a temporary file and renames it. errors: io.
  void save(const std::string& path) const;

  [[nodiscard]] const plan::layout& layout() const { return state().tensors; }
  [[nodiscard]] std::size_t count() const;  // of scalars, states not included
  /// errors: invalid_argument, naming the first few of `names` that have no values yet.
  void check_values(std::string_view asker, std::span<const std::string> names) const;
  [[nodiscard]] const area_memory& memory() const { return state().memory; }
  [[nodiscard]] const device& on() const { return state().on; }
  /// How often values were written so far, by calls, by steps and by runs that assign states: what was made of an equal
  /// number is not stale.
  [[nodiscard]] std::uint64_t changes() const { return state().changes; }
  /// Of a tensor of `layout`, its place there.
  [[nodiscard]] std::size_t number_of(const plan::named_tensor& of) const {
    return static_cast<std::size_t>(&of - layout().tensors.data());
  }
  /// The same of some tensors, numbered as in `layout`.
  [[nodiscard]] std::uint64_t changes(std::span<const std::size_t> of) const;
  /// Who writes into `memory` says so.
  void changed(std::span<const std::size_t> those);
  /// For whoever submits what reads or writes `memory` and tells or asks of changes: what others submit comes before
  /// both or behind both.
  [[nodiscard]] std::unique_lock<std::mutex> in_order() const { return std::unique_lock(state().order); }
  explicit operator bool() const { return state_ != nullptr; }

 private:
  struct shared_state {
    shared_state(const device& of, plan::layout all, std::uint64_t bytes)
        : on(of), tensors(std::move(all)), memory(on, bytes), writes(tensors.tensors.size()) {}
    device on;
    plan::layout tensors;
    area_memory memory;
    std::vector<std::atomic<std::uint64_t>> writes;  // of each tensor; several threads may share the weights
    std::atomic<std::uint64_t> changes{0};
    std::mutex order;
  };
  [[nodiscard]] const plan::named_tensor& tensor(std::string_view name) const;
  [[nodiscard]] bool has_values(const plan::named_tensor& of) const { return state().writes[number_of(of)] != 0; }
  /// errors: invalid_argument for a handle that holds no parameters.
  [[nodiscard]] shared_state& state() const;
  std::shared_ptr<shared_state> state_;
};

}  // namespace meganeura::inline MEGANEURA_ABI

#if MEGANEURA_HEADER_ONLY
#include <meganeura/runtime/parameters.ipp>
#endif
