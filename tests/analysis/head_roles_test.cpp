#include "analysis/math/head_roles.h"
#include "analysis/math/attention.h"
#include "tests/naive/naive_roles.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

/// Keys are unit vectors, so a query is a row of logits: any attention can be written down.
HeadRoles of_logits(int count, const std::function<float(int query, int token)>& logit,
                    const RoleTokens& tokens, int window = 0) {
  const Matrix keys = Matrix::Identity(count, count);
  Matrix queries(count, count);
  for (const auto& [q, i] : test::cells(count, count)) queries(q, i) = logit(q, i);
  const std::vector<float> sums =
      attention_logsumexp(view(queries), view(keys), 1.0F, window, test::unwatched);
  return head_roles(view(queries), view(keys), sums, 1.0, window, tokens, test::unwatched);
}

/// 0 1 2 … 19 and the same again: every token of the second half occurred before.
std::vector<std::int32_t> repeated_ids() {
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 40; ++i) ids.push_back(i % 20);
  return ids;
}
constexpr float kStrong = 30.0F;

std::string name_of(const HeadRoles& roles) {
  const int role = strongest_role(roles);
  return role < 0 ? "none" : role_catalog()[role].name;
}

TEST(HeadRoles, HeadsMadeForOneRoleAreNamedByIt) {
  const std::vector<std::int32_t> ids = repeated_ids();
  RoleTokens tokens{ids, 36, {30, 36}, {5, 8}};
  const HeadRoles sink = of_logits(
      40, [](int, int i) { return i == 0 ? kStrong : 0.0F; }, tokens);
  EXPECT_NEAR(sink.sink, 1.0, 1e-6);
  EXPECT_EQ(name_of(sink), "none") << "the sink stands beside a name";
  EXPECT_TRUE(rests_on_sink(sink));
  const HeadRoles previous = of_logits(
      40, [](int q, int i) { return i == q - 1 ? kStrong : 0.0F; }, tokens);
  EXPECT_NEAR(previous.previous, 1.0, 1e-6);
  EXPECT_NEAR(previous.recent, 1.0, 1e-6);
  EXPECT_FALSE(rests_on_sink(previous));
  EXPECT_EQ(name_of(previous), "role_previous") << "rather than by its last 16 tokens";
  const HeadRoles induction = of_logits(
      40, [](int q, int i) { return i == q - 19 ? kStrong : 0.0F; }, tokens);
  EXPECT_NEAR(induction.induction, 1.0, 1e-6);
  EXPECT_EQ(name_of(induction), "role_induction");
  // Token 36 is id 16 and so on: none stands in the needle of ids 5 to 7.
  EXPECT_TRUE(std::isnan(induction.retrieval));
  tokens.needle = {14, 20};
  const HeadRoles retrieval = of_logits(
      40, [](int q, int i) { return i == q - 19 ? kStrong : 0.0F; }, tokens);
  EXPECT_EQ(retrieval.retrieval, 1.0) << "ids 16 to 19 are looked up at 16 to 19";
  EXPECT_EQ(name_of(retrieval), "role_retrieval");
  const HeadRoles question = of_logits(
      40, [](int, int i) { return i >= 30 && i < 36 ? kStrong : 0.0F; }, tokens);
  EXPECT_NEAR(question.question, 1.0, 1e-6);
}

TEST(HeadRoles, AHeadThatRestsOnTheSinkKeepsItsName) {
  const std::vector<std::int32_t> ids = repeated_ids();
  // Six tenths on token 0, four on what followed the same token before: as heads of real models.
  const HeadRoles head = of_logits(
      40,
      [](int q, int i) {
        return i == 0 ? kStrong + std::log(1.5F) : q >= 20 && i == q - 19 ? kStrong : 0.0F;
      },
      {ids, 36, {}, {}});
  EXPECT_GT(head.sink / 0.3, head.induction / 0.3) << "the sink is the stronger one";
  EXPECT_NEAR(head.induction, 0.4, 0.03);
  EXPECT_EQ(name_of(head), "role_induction");
  EXPECT_TRUE(rests_on_sink(head));
  HeadRoles none;
  EXPECT_EQ(name_of(none), "none");
  EXPECT_FALSE(rests_on_sink(none));
}

TEST(HeadRoles, HowManyReachAThreshold) {
  const std::vector<HeadRoles> heads{
      {.sink = 0.9, .induction = 0.31}, {.sink = 0.3, .induction = 0.21}, {.induction = 0.46}, {}};
  EXPECT_STREQ(role_catalog()[3].label, "induction");
  EXPECT_EQ(heads_reaching(heads, 3, 1.0), 2);
  EXPECT_EQ(heads_reaching(heads, 3, 2.0 / 3.0), 3);
  EXPECT_EQ(heads_reaching(heads, 3, 1.5), 1);
  EXPECT_EQ(heads_reaching(heads, 0, 1.0), 2);
}

TEST(HeadRoles, EvenAttentionHasTheSharesOfAnEvenRow) {
  const std::vector<std::int32_t> ids = repeated_ids();
  const HeadRoles even =
      of_logits(40, [](int, int) { return 0.0F; }, {ids, 36, {30, 36}, {14, 20}});
  double cell = 0.0, recent = 0.0, induction = 0.0, question = 0.0;
  for (int q = 1; q < 40; ++q) cell += 1.0 / (q + 1) / 39;
  for (int q = 16; q < 40; ++q) recent += 16.0 / (q + 1) / 24;
  for (int q = 20; q < 40; ++q) induction += 1.0 / (q + 1) / 20;
  for (int q = 36; q < 40; ++q) question += 6.0 / (q + 1) / 4;
  EXPECT_NEAR(even.sink, cell, 1e-6);
  EXPECT_NEAR(even.previous, cell, 1e-6);
  EXPECT_NEAR(even.recent, recent, 1e-6);
  EXPECT_NEAR(even.induction, induction, 1e-6);
  EXPECT_NEAR(even.question, question, 1e-6);
  EXPECT_EQ(even.retrieval, 0.0) << "of equals the first token";
  EXPECT_EQ(name_of(even), "none");
}

TEST(HeadRoles, WhatHasNoQueryIsUnknown) {
  const std::vector<std::int32_t> ids{1, 2, 3, 4};
  const HeadRoles roles = of_logits(4, [](int, int) { return 0.0F; }, {ids, 4, {}, {}});
  EXPECT_FALSE(std::isnan(roles.sink));
  EXPECT_TRUE(std::isnan(roles.recent)) << "fewer than 16 tokens";
  EXPECT_TRUE(std::isnan(roles.induction)) << "nothing is repeated";
  EXPECT_TRUE(std::isnan(roles.retrieval)) << "nothing is generated";
  EXPECT_TRUE(std::isnan(roles.question));
  const std::vector<std::int32_t> one{1};
  const HeadRoles single = of_logits(1, [](int, int) { return 0.0F; }, {one, 1, {}, {}});
  EXPECT_TRUE(std::isnan(single.sink));
  EXPECT_EQ(strongest_role(single), -1);
  const std::vector<std::int32_t> twice{7, 7, 8};
  EXPECT_TRUE(std::isnan(of_logits(3, [](int, int) { return 0.0F; }, {twice, 3, {}, {}}).induction))
      << "what followed the first 7 is the query itself";
}

TEST(HeadRoles, AgreesWithTheDoublePrecisionTwin) {
  for (const int window : {0, 24}) {
    test::SyntheticTraceOptions options{
        .prompt_length = 150, .generated = 12, .sliding_window = window};
    const test::SyntheticStates made = test::make_synthetic_states(options);
    std::vector<std::int32_t> ids;
    for (int i = 0; i < options.tokens(); ++i) ids.push_back((i * i + i / 7) % 13);
    const RoleTokens tokens{ids, options.prompt_length, {130, 150}, {40, 60}};
    for (const auto& [layer, query_head] : test::cells(2, 4)) {
      const Matrix& queries = made.query[layer][query_head];
      const Matrix& keys = made.key[layer][query_head / 2];
      const double scale = made.run.attention_scale;
      const std::vector<float> sums = attention_logsumexp(
          view(queries), view(keys), static_cast<float>(scale), window, test::unwatched);
      const HeadRoles fast =
          head_roles(view(queries), view(keys), sums, scale, window, tokens, test::unwatched);
      const HeadRoles plain =
          naive::roles(naive::full_attention(queries, keys, scale, window), window, tokens);
      for (const RoleInfo& role : role_catalog()) {
        const double a = fast.*role.value, b = plain.*role.value;
        EXPECT_THAT(a, testing::NanSensitiveDoubleNear(b, 1e-5))
            << role.name << ", window " << window;
      }
    }
  }
}

TEST(HeadRoles, StopsWhenAsked) {
  const std::vector<std::int32_t> ids(300, 1);
  Progress progress;
  progress.cancel();
  const Matrix states = Matrix::Zero(300, 4);
  const std::vector<float> sums(300, 0.0F);
  EXPECT_THROW(head_roles(view(states), view(states), sums, 1.0, 0, {ids, 300, {}, {}}, progress),
               Cancelled);
}

TEST(SegmentRange, IsFromTheFirstToTheLastTokenOfThatName) {
  TokenTable tokens{.segment = {0, 0, 1, 1, 0, 2},
                    .segment_names = {"context", "needle", "question"}};
  EXPECT_EQ(segment_range(tokens, "needle").first, 2);
  EXPECT_EQ(segment_range(tokens, "needle").end, 4);
  EXPECT_EQ(segment_range(tokens, "context").end, 5);
  EXPECT_TRUE(segment_range(tokens, "answer").empty());
}

}  // namespace
}  // namespace kvloupe
