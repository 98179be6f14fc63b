#include "app/session/finding.h"

#include <fmt/format.h>

#include "app/report/finding_page.h"
#include "tests/app/cli_call.h"
#include "tests/figure/made_figures.h"
#include "tests/figure/page_reader.h"
#include "tests/figure/well_formed.h"
#include "tests/support/test.h"

namespace kvloupe::window {
namespace {

struct FindingTest : testing::Test {
  void SetUp() override {
    test::write_synthetic_trace(folder / "a trace.h5", {});
    trace = std::make_unique<const Trace>(folder / "a trace.h5");
    // By the logit: 1.0 loses all and would bring most back; 1.1 hardly reads and loses half; 0.1
    // reads most and keeps.
    heads = {head(1, 0, 0.12, 0.0, 3, 5, 0.4), head(1, 1, 0.004, 0.5, 2, 2, 0.02),
             head(0, 1, 0.31, 1.0, -1, -1, 0.0)};
    heads[0].losses = {{.token = 6, .step = 3, .rank = 40, .entries = 52}};
  }
  static FollowedHead head(int layer, int index, double read, double kept, int first, int last,
                           double logit) {
    FollowedHead one;
    one.reads.layer = layer;
    one.reads.head = index;
    one.reads.question = one.reads.read = read;
    one.fate.kept = kept;
    one.fate.first_loss = first;
    one.fate.last_loss = last;
    one.restored.effect = one.blame = logit;
    return one;
  }
  FindingSource source(const RescueResults* rescue = nullptr) const {
    return {*trace, tokens, policy, budget, 24, 16, {}, heads, "the 8 tokens of the answer “ 32”",
            rescue, model};
  }
  Finding made(const RescueResults* rescue = nullptr) const { return finding(source(rescue)); }

  test::TemporaryFolder folder;
  std::unique_ptr<const Trace> trace;
  std::vector<int> tokens = {5, 6, 7, 9};
  std::string policy = "h2o+recent(10%)", budget = "25%", model = "/models/some model";
  std::vector<FollowedHead> heads;
};

TEST_F(FindingTest, NamesHeadsInTheOrderOfFollow) {
  const Finding found = made();
  EXPECT_EQ(found.heads, (std::vector<HeadIndex>{{1, 0}, {1, 1}}));
  EXPECT_EQ(
      found.blamed,
      "Under h2o+recent(10%) with 24 entries, the loss of 4 tokens (5–7, 9) matters most in "
      "heads 1.0 (0.4) and 1.1 (0.02) (layer.head; rise of the next token's logit if the head "
      "has them back, mean over the 8 tokens of the answer “ 32”).");
  EXPECT_EQ(found.lost,
            "1.0 gives them 12 % of the attention of the question and loses all of them at steps 3 "
            "to 5 (token 6 at rank 40 of 52 entries) and 1.1 gives them 0.4 % of the attention of "
            "the question and loses 50 % of them at step 2.");
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
  EXPECT_EQ(found.text(), found.blamed + "\n" + found.lost + "\n" + found.proof + "\n" +
                              found.commands[0] + "\n" + found.commands[1] + "\n");
}

TEST_F(FindingTest, SaysWhatTheRunningModelProves) {
  RescueResults rescue;
  rescue.expected = " 32";
  rescue.expected_ids = {3, 2};
  rescue.policy_says = " 78.";
  rescue.policy_logprob = -4.0;
  rescue.keep.all.logprob = -0.5;
  rescue.keep.all.right = rescue.drop.all.right = true;
  const std::string says =
      "Run with the policy, the model says “ 78.” instead of “ 32” (2 tokens); keeping these "
      "tokens "
      "in ";
  const std::string harmless = " Dropped in all heads, they leave the full cache's answer right.";
  EXPECT_EQ(made(&rescue).proof,
            says +
                "all heads restores the answer; no smaller set was looked for (log-probability "
                "-4.00 to -0.50 nats)." +
                harmless);
  rescue.keep.smallest = {{{1, 0}}};
  EXPECT_EQ(made(&rescue).proof, says + "one head alone (1.0) restores the answer." + harmless);
  rescue.keep.smallest = {{{0, 1}, {1, 0}}};
  EXPECT_THAT(made(&rescue).proof,
              HasSubstr("in 2 heads (0.1 and 1.0) restores the answer, and none of these heads"));
  // What cannot be restored may still be proved from the other side.
  rescue.keep.smallest.reset();
  rescue.keep.all.right = rescue.drop.all.right = false;
  EXPECT_EQ(made(&rescue).proof,
            says +
                "all heads does not restore the answer (log-probability -4.00 to -0.50 nats). "
                "Dropping these tokens in all heads breaks the full cache's answer.");
  rescue.drop.smallest = {{{0, 1}, {1, 1}}};
  EXPECT_THAT(made(&rescue).proof, HasSubstr("in 0.1 and 1.1 together breaks"));
  rescue.drop.heads = {{{0, 1}, true, -3.0, -1.0}, {{1, 0}, false, -9.0, -7.0}};
  EXPECT_THAT(made(&rescue).proof,
              HasSubstr("Dropping these tokens in 1.0 alone breaks the full cache's answer."));
  rescue.policy_right = true;
  EXPECT_EQ(made(&rescue).proof,
            "The model with the policy still answers “ 32” (log-probability -4.00 nats).");
}

TEST_F(FindingTest, SaysWhyNoHeadIsBlamed) {
  heads[0].fate.first_loss = -1;
  const Finding kept = made();
  EXPECT_EQ(
      kept.blamed,
      "No reader loses 4 tokens (5–7, 9) (a reader gives 1 % of the attention of the question "
      "or more).");
  EXPECT_EQ(kept.sentences().size(), 2U) << "no loss, so nothing of its proof";
  EXPECT_TRUE(kept.heads.empty());
  heads[0].fate.first_loss = 3;
  for (FollowedHead& one : heads) one.blame = -0.1;
  EXPECT_THAT(made().blamed, HasSubstr("would raise the next token's logit in no head"));
  for (FollowedHead& one : heads) one.reads.read = 0.002;
  tokens = {5};
  EXPECT_EQ(made().blamed,
            "No head gives 1 % of the attention of the question or more to token 5.");
  EXPECT_EQ(tokens_in_words({3, 4, 5}), "tokens 3–5");
}

TEST_F(FindingTest, APageShowsSentencesPicturesNumbersAndCommands) {
  const request::FigureMaker maker(std::make_shared<const Trace>(folder / "a trace.h5"));
  const auto page = report::finding_page(source(), maker, test::fonts(), test::unwatched);
  const std::string bytes = figure::document::write_page(page);
  EXPECT_THAT(test::why_not_well_formed(bytes), testing::IsEmpty());
  EXPECT_EQ(page.title, "4 tokens (5–7, 9) under h2o+recent(10%), 24 entries");
  EXPECT_EQ(page.lead, made().sentences());
  EXPECT_EQ(page.sections.back().commands, made().commands);
  EXPECT_THAT(page.cautions, testing::ElementsAre(testing::HasSubstr("open loop")));
  EXPECT_THAT(bytes, testing::HasSubstr("kvloupe follow"));
  EXPECT_EQ(test::page_data(bytes)["figures"].size(), 3U);
}

TEST_F(FindingTest, TheCommandWritesThePageWithTheNumbersOfItsJson) {
  const std::string file = folder / "a trace.h5", html = folder / "finding.html";
  std::vector<std::string> words = {"follow",   file,  "--tokens", "5-7,9",
                                    "--policy", "h2o", "--budget", "25%"};
  const auto call = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return test::call(more);
  };
  ASSERT_EQ(call({"--json", folder / "follow.json"}).code, 0);
  ASSERT_EQ(call({"--html", html}).code, 0);
  const std::string bytes = test::file_text(html);
  const auto json = nlohmann::json::parse(test::file_text(folder / "follow.json"));
  for (const auto& head : json["heads"]) {
    EXPECT_THAT(bytes, testing::HasSubstr(fmt::format("<td>{}.{}</td>", head["layer"].get<int>(),
                                                      head["head"].get<int>())));
    EXPECT_THAT(bytes, testing::HasSubstr(fmt::format(">{:.3f}</td>", head["loss"].get<double>())));
  }
  // The proof must be of the same tokens, policy and budget.
  RescueResults rescue;
  rescue.policy = "h2o";
  rescue.tokens = {5};
  write_rescue(rescue, folder / "rescue.json");
  const test::Called other = call({"--html", html, "--rescue", folder / "rescue.json"});
  EXPECT_EQ(other.code, 1);
  EXPECT_EQ(call({"--rescue", folder / "rescue.json"}).code, 2);
  EXPECT_EQ(call({"--html", file}).code, 1);
  EXPECT_EQ(test::file_text(html), bytes);
}

}  // namespace
}  // namespace kvloupe::window
