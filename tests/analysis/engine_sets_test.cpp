// shared and pages on a few entries, with the arithmetic in a comment.

#include "analysis/replay/measure/measure_catalog.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

/// One step of `n` tokens, in a layer whose scores are written down: expr reads the keys' length.
class ScoredLayer {
 public:
  /// `scores`: [Hk] of [n], above 0.
  ScoredLayer(const std::string& modifiers, int budget,
              const std::vector<std::vector<float>>& scores) {
    LayerContext context;
    context.model.num_layers = 1;
    context.model.num_heads = context.model.num_kv_heads = static_cast<int>(scores.size());
    context.model.head_dim = 2;
    context.budget = budget;
    context.attention = 1.0;
    const auto policy = make_layer_policy(parse_policy("expr(\"key_norm\")" + modifiers), context);
    const auto n = static_cast<int>(scores.front().size());
    std::vector<std::int32_t> tokens;
    for (int token = 0; token < n; ++token) tokens.push_back(token);
    StepView view;
    view.block = {0, n};
    std::vector<Matrix> keys;
    for (const auto& own : scores) {
      keys.push_back(Matrix::Zero(n, 2));
      for (int token = 0; token < n; ++token) {
        keys.back()(token, 0) = own[token];
      }
    }
    const Matrix none(0, 2);
    for (const Matrix& own : keys) {
      view.caches.push_back({tokens, kvloupe::view(own), kvloupe::view(none), {}});
      view.queries.push_back(kvloupe::view(none));
    }
    decisions = policy->step(view);
  }
  std::vector<HeadDecision> decisions;
};

TEST(Shared, KeepsTheHighestMeansInAllHeads) {
  // Means 5, 2.5, 4.5, 3.
  const ScoredLayer layer("+shared", 2, {{9, 1, 2, 3}, {1, 4, 7, 3}});
  for (const HeadDecision& head : layer.decisions) {
    EXPECT_THAT(head.scores, ElementsAre(5, 2.5, 4.5, 3));
    EXPECT_THAT(head.kept, ElementsAre(0, 2));
  }
}

TEST(Shared, ByRankKeepsEveryHeadsFirstChoice) {
  // Places of head 0: token 0, 3, 2, 1; of head 1: token 2, 1, 3, 0. Best: 0, 1, 0, 1.
  const ScoredLayer layer("+shared(rank)", 3, {{9, 1, 2, 3}, {0.1F, 0.4F, 0.7F, 0.3F}});
  for (const HeadDecision& head : layer.decisions) {
    EXPECT_THAT(head.scores, ElementsAre(4, 3, 4, 3));
    EXPECT_THAT(head.kept, ElementsAre(0, 2, 3));  // of equals the later one
    EXPECT_EQ(head.ties, 2);
  }
}

TEST(Shared, ByVotesCountsTheHeadsThatWouldKeepAToken) {
  // With 2 places head 0 keeps 0 and 1, head 1 keeps 1 and 2, head 2 keeps 1 and 3: votes 1, 3, 1,
  // 1; best places 0, 1, 0, 0. So token 1 comes first, then 0, 2 and 3 as equals: the last of them.
  const ScoredLayer layer("+shared(votes)", 2, {{9, 8, 1, 2}, {1, 5, 7, 2}, {1, 5, 2, 6}});
  for (const HeadDecision& head : layer.decisions) {
    EXPECT_THAT(head.scores, ElementsAre(0, 3, 0, 0));
    EXPECT_THAT(head.kept, ElementsAre(1, 3));
  }
}

TEST(Shared, WithinGroupsOfNeighbours) {
  const std::vector<std::vector<float>> scores = {{4, 1, 2}, {2, 3, 6}, {1, 5, 2}};
  const ScoredLayer pairs("+shared(by=2)", 1, scores);  // means 3, 2, 4; the third head alone
  EXPECT_THAT(pairs.decisions[0].kept, ElementsAre(2));
  EXPECT_THAT(pairs.decisions[1].kept, ElementsAre(2));
  EXPECT_THAT(pairs.decisions[2].kept, ElementsAre(1));
  for (const char* how : {"mean", "rank", "votes"}) {  // a group of one decides as before
    const ScoredLayer own(std::string("+shared(") + how + ",by=1)", 2, scores);
    const ScoredLayer plain("", 2, scores);
    for (std::size_t head = 0; head < scores.size(); ++head) {
      EXPECT_EQ(own.decisions[head].kept, plain.decisions[head].kept) << how;
    }
  }
}

TEST(Pages, StayByTheirMeansAndTheLastOneAlways) {
  // Pages 01 23 45 6 with means 4, 4.5, 1, 0.5. Three pages of 7 places: the last one, 23, 01.
  const std::vector<float> scores = {7, 1, 4, 5, 1, 1, 0.5F};
  const ScoredLayer layer("+pages(2)", 6, {scores});
  const HeadDecision& head = layer.decisions.front();
  EXPECT_THAT(head.scores, ElementsAre(4, 4, 4.5, 4.5, 1, 1, 0.5));
  EXPECT_THAT(head.kept, ElementsAre(0, 1, 2, 3, 6));
  EXPECT_EQ(head.threshold, 4);
  EXPECT_THAT(head.fates, ElementsAre(Fate::by_score, Fate::by_score, Fate::by_score,
                                      Fate::by_score, Fate::evicted, Fate::evicted, Fate::recent));
  // A budget of 5 holds two pages of 2. By their largest scores, 7 before 5.
  EXPECT_THAT(ScoredLayer("+pages(2)", 5, {scores}).decisions.front().kept, ElementsAre(2, 3, 6));
  EXPECT_THAT(ScoredLayer("+pages(2,rank=max)", 5, {scores}).decisions.front().kept,
              ElementsAre(0, 1, 6));
  // What fits stays, whole pages or not.
  EXPECT_EQ(ScoredLayer("+pages(2)", 7, {scores}).decisions.front().kept.size(), 7U);
}

TEST(Pages, ProtectedEntriesBringTheirPages) {
  const std::vector<float> scores = {1, 1, 9, 9, 8, 8, 1, 1, 1};
  // Pages 01 23 45 67 8: the last one, that of the sink, that of the last two entries.
  const ScoredLayer layer("+pages(2)+sinks(1)+recent(2)", 6, {scores});
  const HeadDecision& head = layer.decisions.front();
  EXPECT_THAT(head.kept, ElementsAre(0, 1, 6, 7, 8));
  EXPECT_EQ(head.fates[1], Fate::sink);
  EXPECT_EQ(head.fates[6], Fate::recent);
  EXPECT_TRUE(std::isnan(head.threshold));
  // Two pages: the sink's comes before that of the recent entries.
  EXPECT_THAT(ScoredLayer("+pages(2)+sinks(1)+recent(2)", 4, {scores}).decisions.front().kept,
              ElementsAre(0, 1, 8));
}

TEST(Pages, OfOneSetAreTheSameInAllHeads) {
  // Means 5, 2.5, 4.5, 3; pages 3.75 and 3.75: of equals the later, which is the last anyway.
  const ScoredLayer layer("+shared+pages(2)", 2, {{9, 1, 2, 3}, {1, 4, 7, 3}});
  for (const HeadDecision& head : layer.decisions) {
    EXPECT_THAT(head.scores, ElementsAre(3.75, 3.75, 3.75, 3.75));
    EXPECT_THAT(head.kept, ElementsAre(2, 3));
  }
}

/// The line with which a spec is refused; empty where it is not.
std::string problem(const std::string& spec, int budget = 64) {
  return test::error_of<UsageError>([&] {
    const PolicySpec policy = parse_policy(spec);
    check_combination(policy);
    check_limits(policy, ModelInfo{}, budget);
  });
}

TEST(SetsOfAnEngine, RefuseWhatTheyCannotHold) {
  EXPECT_EQ(problem("h2o+shared+pages(16)+recent(10%)+every(2)"), "");
  EXPECT_EQ(problem("snapkv+pyramid+shared(votes)"), "");
  EXPECT_THAT(problem("h2o+adakv+shared"), HasSubstr("one set"));
  EXPECT_THAT(problem("h2o+kvmerger+shared"), HasSubstr("one set"));
  EXPECT_THAT(problem("h2o+critical+shared"), HasSubstr("one set"));
  EXPECT_THAT(problem("h2o+chunks+shared"), HasSubstr("both group the score"));
  EXPECT_THAT(problem("h2o+keep(\"3\",heads=\"0.1\")+shared"), HasSubstr("names heads"));
  EXPECT_EQ(problem("h2o+keep(\"3\")+shared"), "");
  EXPECT_THAT(problem("h2o+shared(by=1.5)"), HasSubstr("whole number"));
  EXPECT_THAT(problem("h2o+adakv+pages"), HasSubstr("whole pages"));
  EXPECT_THAT(problem("h2o+critical+pages"), HasSubstr("entry by entry"));
  EXPECT_THAT(problem("h2o+tome+pages"), HasSubstr("entry by entry"));
  EXPECT_THAT(problem("h2o+drop(\"3\")+pages"), HasSubstr("out of pages"));
  EXPECT_THAT(problem("h2o+keep(\"3\",extra=1)+pages"), HasSubstr("extra=0"));
  EXPECT_THAT(problem("h2o+pages", 15), HasSubstr("does not fit the budget of 15"));
}

// Attention that a query sees in the pages that Quest reads, beside plain loops.

struct PageSelection : testing::TestWithParam<int>,
                       test::MadeTrace {  // the model's window; 0: none
  PageSelection()
      : MadeTrace({.head_dim = 8, .sliding_window = GetParam(), .logsumexp = GetParam() == 0}) {}
  Replay run(const std::string& policy, int budget) {
    return MadeTrace::run(policy, budget,
                          {.measures = {"quest_mass", "best_mass", "retained_mass"}});
  }

  int first_seen(int t) const { return GetParam() > 0 ? std::max(t + 1 - GetParam(), 0) : 0; }
};

INSTANTIATE_TEST_SUITE_P(Windows, PageSelection, testing::Values(0, 40));

TEST_P(PageSelection, IsThatOfPlainLoops) {
  for (const int budget : {5, 16, 37}) {
    const Replay replay = run("keydiff", budget);
    int compared = 0;
    for (const HeadReplay& head : replay.heads) {
      for (int step = 0; step < static_cast<int>(head.steps.size()); ++step) {
        const StepRecord& record = head.steps[step];
        const int t = replay.blocks[step].end - 1;
        for (int i = 0; i < 2; ++i) {
          const int query_head = 2 * head.head + i;
          const std::vector<double> a = attention_of(head.layer, query_head)[t];
          // The entry that leaves the window is still read by the last query.
          int entries = record.retained;
          for (const std::int32_t token : replay.seen_at(head, step)) {
            entries += token < replay.first_token(head, step) ? 1 : 0;
          }
          std::multimap<std::pair<double, int>, double> pages;  // bound, place → mass
          for (int page = 0; 16 * page <= t; ++page) {
            double bound = 0.0, mass = 0.0;
            const int from = std::max(16 * page, first_seen(t));
            const int to = std::min(16 * page + 15, t);
            if (from > to) continue;
            for (int c = 0; c < 8; ++c) {
              double most = -1e300;
              for (const bool largest : {false, true}) {
                double end = largest ? -1e300 : 1e300;
                for (int token = from; token <= to; ++token) {
                  const double key = states_.key[head.layer][head.head](token, c);
                  end = largest ? std::max(end, key) : std::min(end, key);
                }
                most = std::max(most, end * double(states_.query[head.layer][query_head](t, c)));
              }
              bound += most;
            }
            for (int token = from; token <= to; ++token) mass += a[token];
            pages.insert({{bound, page}, mass});
          }
          const int wanted = std::max(entries / 16, 1);
          double quest = 0.0, best = 0.0;
          int taken = 0;
          for (auto page = pages.rbegin(); page != pages.rend() && taken < wanted;
               ++page, ++taken) {
            quest += page->second;
          }
          std::vector<double> sorted = a;
          std::sort(sorted.rbegin(), sorted.rend());
          for (int k = 0; k < std::min<int>(entries, sorted.size()); ++k) best += sorted[k];
          EXPECT_NEAR(measure_at(require_measure("quest_mass"), record, i), quest, 1e-5);
          EXPECT_NEAR(measure_at(require_measure("best_mass"), record, i), best, 1e-5);
          ++compared;
        }
      }
    }
    EXPECT_GT(compared, 20);
  }
}

TEST_P(PageSelection, NothingSeesMoreThanTheBestEntries) {
  for (const char* policy : {"h2o", "sink", "oracle", "full"}) {
    const Replay replay = run(policy, 24);
    for (const HeadReplay& head : replay.heads) {
      for (const StepRecord& record : head.steps) {
        for (int i = 0; i < 2; ++i) {
          const double best = measure_at(require_measure("best_mass"), record, i);
          EXPECT_GE(best + 1e-9, measure_at(require_measure("retained_mass"), record, i));
          EXPECT_LE(best, 1.0 + 1e-9);
          if (record.retained == record.cache_size) continue;
          EXPECT_GE(best + 1e-9, measure_at(require_measure("quest_mass"), record, i));
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvloupe
