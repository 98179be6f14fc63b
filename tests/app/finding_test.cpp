#include "app/session/finding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/synthetic_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe::window {
namespace {

using ::testing::HasSubstr;

class FindingTest : public testing::Test {
 protected:
  void SetUp() override {
    test::write_synthetic_trace(folder / "a trace.h5", {});
    trace = std::make_unique<const Trace>(folder / "a trace.h5");
    // 1.0 reads most and loses all; 0.1 reads less and keeps; 1.1 loses half and hardly reads.
    heads = {head(1, 0, 0.31, 0.0, 3, 5), head(0, 1, 0.12, 1.0, -1, -1),
             head(1, 1, 0.004, 0.5, 2, 2)};
    heads[0].losses = {{.token = 6, .step = 3, .rank = 40, .entries = 52}};
  }
  static FollowedHead head(int layer, int index, double read, double kept, int first, int last) {
    FollowedHead one;
    one.reads.layer = layer;
    one.reads.head = index;
    one.reads.question = one.reads.read = read;
    one.fate.kept = kept;
    one.fate.first_loss = first;
    one.fate.last_loss = last;
    return one;
  }
  Finding made(const RescueResults* rescue = nullptr) {
    return finding({*trace, tokens, policy, budget, 24, 16, {}, heads, rescue, model});
  }

  test::TemporaryFolder folder;
  std::unique_ptr<const Trace> trace;
  std::vector<int> tokens = {5, 6, 7, 9};
  std::string policy = "h2o+recent(10%)", budget = "25%", model = "/models/some model";
  std::vector<FollowedHead> heads;
};

TEST_F(FindingTest, SaysWhoReadsAndWhoLoses) {
  const Finding found = made();
  EXPECT_EQ(found.readers,
            "With the full cache, heads 1.0 (31 %) and 0.1 (12 %) (layer.head; share of the "
            "attention of the question) read 4 tokens (5–7, 9) most.");
  EXPECT_EQ(found.lost,
            "Under h2o+recent(10%) with 24 entries, 1.0 loses all of them at steps 3 to 5 (token 6 "
            "at rank 40 of 52 entries) and 0.1 keeps them.");
  EXPECT_THAT(found.proof, HasSubstr("is not proved"));
  ASSERT_EQ(found.commands.size(), 2U);
  const std::string path = (folder / "a trace.h5").string();
  EXPECT_EQ(found.commands[0], "kvloupe follow '" + path +
                                   "' --tokens 5-7,9 --policy 'h2o+recent(10%)' --budget 25% "
                                   "--block 16");
  EXPECT_EQ(found.commands[1], "kvloupe-capture rescue --model '/models/some model' --trace '" +
                                   path +
                                   "' --tokens 5-7,9 --policy 'h2o+recent(10%)' --budget 25% "
                                   "--block 16 -o rescue.json");
  EXPECT_EQ(found.text(), found.readers + "\n" + found.lost + "\n" + found.proof + "\n" +
                              found.commands[0] + "\n" + found.commands[1] + "\n");
}

TEST_F(FindingTest, SaysWhatTheRunningModelProves) {
  RescueResults rescue;
  rescue.expected = " 32";
  rescue.policy_says = " 78.";
  rescue.policy_logprob = -4.0;
  rescue.keep.all.logprob = -0.5;
  rescue.keep.all.right = true;
  rescue.keep.smallest = {{{1, 0}}};
  EXPECT_EQ(made(&rescue).proof,
            "Run with the policy, the model says “ 78.” instead of “ 32”; keeping these tokens in "
            "one head alone (1.0) restores the answer.");
  rescue.keep.smallest = {{{0, 1}, {1, 0}}};
  EXPECT_THAT(made(&rescue).proof,
              HasSubstr("in 2 heads (0.1 and 1.0) restores the answer, and none of these heads"));
  rescue.keep.smallest.reset();
  EXPECT_THAT(made(&rescue).proof,
              HasSubstr("does not restore the answer (log-probability -4.00 to -0.50 nats)"));
  rescue.policy_right = true;
  EXPECT_EQ(made(&rescue).proof,
            "The model with the policy still answers “ 32” (log-probability -4.00 nats).");
}

TEST_F(FindingTest, SaysWhereNobodyReads) {
  for (FollowedHead& one : heads) one.reads.read = 0.002;
  tokens = {5};
  const Finding found = made();
  EXPECT_EQ(found.readers,
            "With the full cache no head gives token 5 more than 1 % of the attention of the "
            "question.");
  EXPECT_EQ(tokens_in_words({3, 4, 5}), "tokens 3–5");
}

}  // namespace
}  // namespace kvloupe::window
