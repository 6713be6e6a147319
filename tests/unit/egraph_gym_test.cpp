// SPDX-License-Identifier: MIT
// E-graphs from files: what is read, what is extracted from it, and what is refused.
#include <support/exact_choice.hpp>
#include <support/extraction_gym.hpp>
#include <support/sentence_of.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace {

using namespace meganeura;
using support::gym_graph;

gym_graph sample(const char* name) {
  return support::read_gym(MEGANEURA_SOURCE_DIR "/tests/data/" + std::string(name));
}

double extracted(const gym_graph& g) {
  const egraph::extraction taken = support::extract_gym(g);
  EXPECT_DOUBLE_EQ(taken.seconds, support::dag_cost(g, taken.chosen));
  return taken.seconds;
}

double least(const gym_graph& g) {
  support::exact_choice choices(g.graph, g.roots, support::gym_time(g), {});
  const auto found = choices.quickest(std::numeric_limits<double>::infinity(), 1000);
  EXPECT_TRUE(found.is_proven);
  return found.seconds;
}

TEST(egraph_gym, what_is_shared_is_paid_once) {
  const gym_graph g = sample("egraph_shared.json");
  EXPECT_EQ(g.classes, 4u);
  EXPECT_EQ(g.nodes, 6u);
  EXPECT_EQ(support::tree_choice_cost(g), 11);  // 1 + 5 + 5
  EXPECT_EQ(extracted(g), 9);                   // 1 + 1 + 1 + 6
  EXPECT_EQ(least(g), 9);
}

TEST(egraph_gym, classes_may_stand_in_a_circle) {
  const gym_graph g = sample("egraph_circle.json");
  EXPECT_EQ(g.classes, 4u);
  EXPECT_EQ(g.order.size(), 4u);
  EXPECT_EQ(support::tree_choice_cost(g), 4.5);  // 1, -y, y
  EXPECT_EQ(extracted(g), 4.5);
  EXPECT_EQ(least(g), 4.5);
}

std::string file_of(const std::string& nodes, const std::string& roots = R"(["r"])") {
  return fmt::format(R"({{"nodes": {{{}}}, "root_eclasses": {}}})", nodes, roots);
}
gym_graph parsed(const std::string& nodes, const std::string& roots = R"(["r"])") {
  return support::parse_gym(file_of(nodes, roots), "file.json");
}

TEST(egraph_gym, nodes_alike_stay_apart) {
  const gym_graph g = parsed(R"(
    "r1": {"op": "f", "children": ["a", "b"], "eclass": "r", "cost": 3},
    "r2": {"op": "f", "children": ["a", "b"], "eclass": "r", "cost": 2},
    "a": {"op": "0", "children": [], "eclass": "x", "cost": 1},
    "b": {"op": "0", "children": [], "eclass": "y", "cost": 1})");
  EXPECT_EQ(g.classes, 3u);
  EXPECT_EQ(g.order.size(), 3u);
  EXPECT_EQ(g.graph[g.roots[0]].nodes.size(), 2u);
  EXPECT_EQ(extracted(g), 4);
}

TEST(egraph_gym, children_are_none_and_costs_one_where_a_file_has_none) {
  EXPECT_EQ(extracted(parsed(R"("a": {"op": "f", "eclass": "r"})")), 1);
}

TEST(egraph_gym, several_roots_share) {
  const gym_graph g = parsed(R"(
    "r": {"op": "f", "children": ["a", "a"], "eclass": "r", "cost": 1},
    "s": {"op": "g", "children": ["a"], "eclass": "s", "cost": 1},
    "a": {"op": "a", "children": [], "eclass": "a", "cost": 10})",
                             R"(["r", "s", "r"])");
  EXPECT_EQ(extracted(g), 12);
  EXPECT_EQ(least(g), 12);
}

TEST(egraph_gym, a_long_chain_needs_no_deep_stack) {
  std::string nodes = R"("0": {"op": "leaf", "children": [], "eclass": "0", "cost": 1})";
  const int length = 10000;
  for (int i = 1; i <= length; ++i)
    nodes += fmt::format(R"(, "{0}": {{"op": "f", "children": ["{1}"], "eclass": "{0}", "cost": 1}})", i, i - 1);
  EXPECT_EQ(extracted(parsed(nodes, fmt::format(R"(["{}"])", length))), length + 1);
}

TEST(egraph_gym, a_tree_may_cost_more_than_a_number_holds) {
  std::string nodes = R"("0": {"op": "leaf", "children": [], "eclass": "0", "cost": 1})";
  for (int i = 1; i <= 2000; ++i)
    nodes += fmt::format(R"(, "{0}": {{"op": "f", "children": ["{1}", "{1}"], "eclass": "{0}", "cost": 1}})", i, i - 1);
  EXPECT_EQ(extracted(parsed(nodes, R"(["2000"])")), 2001);
}

TEST(egraph_gym, what_is_no_e_graph_is_refused_with_a_sentence) {
  const auto refusal = [](const std::string& text) {
    std::string sentence;
    EXPECT_EQ(support::thrown_by([&] { (void)support::parse_gym(text, "file.json"); }, &sentence),
              error_category::invalid_file)
        << text;
    return sentence;
  };
  const auto node = [&](const std::string& members) { return refusal(file_of(R"("a": {)" + members + "}")); };
  const std::string fine = R"("a": {"op": "f", "children": [], "eclass": "r", "cost": 1})";
  const auto roots = [&](const std::string& text) { return refusal(file_of(fine, text)); };
  EXPECT_EQ(refusal("{]"),
            "file.json: at byte 1: expected valid JSON: an e-graph as egraph-serialize writes it, found \"]\"");
  EXPECT_EQ(
      refusal(std::string(17, '[') + std::string(17, ']')),
      "file.json: at byte 0: expected an e-graph as egraph-serialize writes it, found JSON nested 17 levels deep");
  EXPECT_EQ(refusal("[]"), "file.json is an empty array; it has to be an object");
  EXPECT_EQ(refusal("{}"), "file.json has no \"nodes\"; it needs one, an object of nodes by their ids");
  EXPECT_EQ(refusal(R"({"nodes": []})"),
            "file.json: \"nodes\" is an empty array; it has to be an object of nodes by their ids");
  EXPECT_EQ(refusal(R"({"nodes": {"a": 3}})"), "file.json: node \"a\" is 3; it has to be an object");
  EXPECT_EQ(refusal(R"({"nodes": {}})"),
            "file.json has no \"root_eclasses\"; it needs one, the ids of the classes that are asked for");
  EXPECT_EQ(node(R"("op": "f")"), "file.json: node \"a\" has no \"eclass\"; it needs one, the id of its class");
  EXPECT_EQ(node(R"("op": "f", "eclass": 3)"),
            "file.json: node \"a\": \"eclass\" is 3; it has to be the id of a class, a string");
  EXPECT_EQ(node(R"("eclass": "r")"), "file.json: node \"a\" has no \"op\"; it needs one, what it computes");
  EXPECT_EQ(node(R"("op": {}, "eclass": "r")"), "file.json: node \"a\": \"op\" is an object; it has to be a string");
  EXPECT_EQ(node(R"("op": "f", "eclass": "r", "children": "b")"),
            "file.json: node \"a\": \"children\" is \"b\"; it has to be a list of ids of nodes");
  EXPECT_EQ(node(R"("op": "f", "eclass": "r", "children": [1])"),
            "file.json: node \"a\": a child is 1; it has to be the id of a node, a string");
  EXPECT_EQ(node(R"("op": "f", "eclass": "r", "children": ["b"])"),
            "file.json: node \"a\": a child is \"b\"; it has to be the id of a node of the file");
  for (const char* cost : {"-1", "-0.5", "null", "true"}) {
    EXPECT_EQ(node(fmt::format(R"("op": "f", "eclass": "r", "cost": {})", cost)),
              fmt::format("file.json: node \"a\": \"cost\" is {}; it has to be a number, 0 or more", cost));
  }
  EXPECT_EQ(node(R"("op": "f", "eclass": "r", "cost": "NaN")"),
            "file.json: node \"a\": \"cost\" is \"NaN\"; it has to be a number, 0 or more");
  EXPECT_EQ(
      node(R"("op": "f", "eclass": "r", "cost": 1e999)"),
      "file.json: at byte 0: expected valid JSON: an e-graph as egraph-serialize writes it, found a number beyond "
      "those of f64");
  EXPECT_NE(node(R"("op": "f", "eclass": "r", "cost": NaN)").find("expected valid JSON"), std::string::npos);
  EXPECT_EQ(roots("[]"),
            "file.json: \"root_eclasses\" is an empty array; it has to be a list of ids of classes, at least one");
  EXPECT_EQ(roots("{}"),
            "file.json: \"root_eclasses\" is an object; it has to be a list of ids of classes, at least one");
  EXPECT_EQ(roots("[1]"), "file.json: a root is 1; it has to be the id of a class, a string");
  EXPECT_EQ(roots(R"(["b"])"), "file.json: a root is \"b\"; it has to be the id of a class that has nodes");
  EXPECT_EQ(refusal(file_of(R"("a": {"op": "f", "children": ["b"], "eclass": "r"},
                               "b": {"op": "f", "children": ["a"], "eclass": "s"})")),
            "file.json: a root is \"r\"; it has to be a class with a finite term, but all of its nodes need it");
}

TEST(egraph_gym, a_file_that_is_not_there_is_named) {
  std::string sentence;
  EXPECT_EQ(support::thrown_by([&] { (void)support::read_gym("/no/such/file.json"); }, &sentence), error_category::io);
  EXPECT_NE(sentence.find("/no/such/file.json"), std::string::npos) << sentence;
}

}  // namespace
