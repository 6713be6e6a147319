// SPDX-License-Identifier: MIT
// Patterns of names, and the tables that rename by them.
#include <meganeura/core/name_pattern.hpp>

#include <support/sentence_of.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

namespace {

using namespace meganeura;

TEST(core_name_pattern, a_star_is_any_text) {
  const auto match = [](const char* pattern, const char* name) { return name_patterns(pattern).match(name); };
  for (const char* pattern : {"fc1.bias", "*", "fc1.*", "*.bias", "*c1*", "f*1*.b*s", "**", "*fc1.bias", "fc1.bias*"})
    EXPECT_TRUE(match(pattern, "fc1.bias")) << pattern;
  for (const char* pattern : {"", "fc1", "bias", "fc1.biass", "*.weight", "fc2*", "*1*1*", "fc1.bias?", "*s*s"})
    EXPECT_FALSE(match(pattern, "fc1.bias")) << pattern;
  EXPECT_TRUE(match("*aab", "aaaab"));  // a first try of the star is taken back
  EXPECT_TRUE(match("", ""));
  EXPECT_FALSE(name_patterns().match("fc1.bias"));
  const name_patterns several{"*.bias", "*norm*"};
  EXPECT_TRUE(several.match("layers.3.norm1.weight"));
  EXPECT_TRUE(several.match("fc.bias"));
  EXPECT_FALSE(several.match("fc.weight"));
}

TEST(core_name_pattern, long_names_take_no_long_time) {
  const std::string name(100000, 'a');
  EXPECT_FALSE(name_patterns("*a*a*a*a*b").match(name));
}

TEST(core_name_pattern, a_rule_carries_over_what_stars_stand_for) {
  const name_map map{{"layers.*.attn.*", "h.*.attention.*"}, {"*.weight", "*.w"}, {"head.bias", "b"}};
  EXPECT_EQ(map.candidates("layers.12.attn.q.weight"),
            (std::vector<std::string>{"h.12.attention.q.weight", "layers.12.attn.q.w", "layers.12.attn.q.weight"}));
  EXPECT_EQ(map.candidates("head.bias"), (std::vector<std::string>{"b", "head.bias"}));
  EXPECT_EQ(name_map().candidates("x"), (std::vector<std::string>{"x"}));
  const std::vector<std::string> torch = name_map(from_torch).candidates("norm.weight");
  EXPECT_EQ(torch.front(), "norm.weight");
  EXPECT_EQ(torch[1], "module.norm.weight");
  for (const char* name : {"norm.gamma", "module.norm.gamma", "_orig_mod.module.norm.gamma"})
    EXPECT_NE(std::find(torch.begin(), torch.end(), name), torch.end()) << name;
}

TEST(core_name_pattern, a_rule_of_unequal_stars_is_refused) {
  const auto refusal = [](std::initializer_list<name_rule> rules) {
    return support::sentence_of([&] { (void)name_map(rules); });
  };
  EXPECT_EQ(refusal({{"a.*", "b.*"}, {"fc*.weight", "w"}}),
            "the rule {\"fc*.weight\", \"w\"} has 1 '*' on one side and 0 on the other; give both as many");
  EXPECT_EQ(refusal({{"w", "*"}}),
            "the rule {\"w\", \"*\"} has 0 '*' on one side and 1 on the other; give both as many");
  EXPECT_EQ(refusal({{"*.a.*", "b.**"}, {"w", "v"}}), "no error");
}

TEST(core_name_pattern, a_map_keeps_texts_that_go) {
  std::string here = "fc.*", there = "net.0.*";
  const name_map map{{here, there}};
  here = there = "";
  EXPECT_EQ(map.candidates("fc.bias"), (std::vector<std::string>{"net.0.bias", "fc.bias"}));
}

}  // namespace
