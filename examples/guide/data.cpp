// SPDX-License-Identifier: MIT
// From a table in a file to a trained classifier: batches in a new order each epoch, made while the device works.
#include <meganeura/data/csv.hpp>
#include <meganeura/data/metrics.hpp>
#include <meganeura/meganeura.hpp>

#include <filesystem>
#include <fstream>

namespace mn = meganeura;

struct network {
  static constexpr auto forward(mn::value auto x) {
    return mn::linear<"out", 2>(mn::tanh(mn::linear<"hidden", 16>(x)));
  }
};
inline constexpr mn::dim batch = mn::sym<"batch">;
using model = mn::model<network, mn::input<"x", mn::dtype::f32, mn::dims<batch, 2>>>;

struct rows {
  std::vector<float> x;
  std::vector<std::int32_t> label;
};

int main() {
  const std::string path = (std::filesystem::temp_directory_path() / "meganeura_guide_data.csv").string();
  std::ofstream file(path);
  file << "width,height,kind\n";
  for (int i = 0; i < 200; ++i) {
    const int width = i * 37 % 100, height = i * 61 % 97;
    file << 0.01 * width << ',' << 0.01 * height << ',' << (width > height ? "lying" : "standing") << '\n';
  }
  file.close();

  const auto table = mn::data::csv_table::read(path);
  const std::vector<float> sizes = table.numbers({"width", "height"});  // [rows, 2]
  const auto kinds = table.classes("kind");                             // 0: lying, 1: standing
  std::filesystem::remove(path);

  const auto fill = [&](const mn::data::chosen_samples& chosen, rows& into) {  // on another thread
    into = {};
    for (const std::size_t i : chosen.indices) {
      into.x.insert(into.x.end(), {sizes[2 * i], sizes[2 * i + 1]});
      into.label.push_back(kinds.labels[i]);
    }
  };
  mn::data::loader batches(table.rows(), 32, fill, {.shuffle = true, .seed = 1, .last = mn::data::keep});

  const mn::device gpu;
  mn::trainer<model, mn::cross_entropy<"label">> fit(gpu, mn::adam{.learning_rate = 0.02f});
  fit.parameters().init({.seed = 1});
  for (int epoch = 0; epoch < 60; ++epoch) {
    for (const rows& each : batches) fit.step(mn::bind<"x">(each.x), mn::bind<"label">(each.label));
  }

  mn::session<model> s(gpu, fit.parameters());
  const std::vector<float> logits = s.run(mn::bind<"x">(sizes));
  mn::data::confusion_matrix confusion(kinds.names.size());
  confusion.add(logits, kinds.labels);

  // Another run, begun anew where this one stopped, sees what would have come.
  mn::data::loader resumed(table.rows(), 32, fill, {.shuffle = true, .seed = 1, .last = mn::data::keep});
  resumed.skip(fit.batches());  // or seek(batches.position())
  const bool same = resumed.position() == batches.position() && resumed.next()->x == batches.next()->x;

  return same && confusion.accuracy() > 0.9 && confusion.f1(0) > 0.9 ? 0 : 1;
}
