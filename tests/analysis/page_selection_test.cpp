// Attention that a query sees in the pages that Quest reads, beside plain loops.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "analysis/measure/measure_catalog.h"
#include "analysis/replay/replay.h"
#include "tests/support/synthetic_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe {
namespace {

class PageSelection : public testing::TestWithParam<int> {  // the model's window; 0: none
 protected:
  PageSelection() {
    options_.query_heads = 4;
    options_.heads = 2;
    options_.head_dim = 8;
    options_.sliding_window = GetParam();
    options_.logsumexp = GetParam() == 0;
    states_ = test::write_synthetic_trace(folder_ / "trace.h5", options_);
  }

  Replay run(const std::string& policy, int budget) const {
    const Trace trace(folder_ / "trace.h5");
    ReplayRequest request{.policy = parse_policy(policy),
                          .budget = budget,
                          .measures = {"quest_mass", "best_mass", "retained_mass"}};
    return replay(trace, request, test::unwatched);
  }

  /// Attention of a token's query to the tokens it sees, by token.
  std::vector<double> attention(int layer, int query_head, int t) const {
    const Matrix& queries = states_.query[layer][query_head];
    const Matrix& keys = states_.key[layer][query_head / 2];
    std::vector<double> weights(t + 1, 0.0);
    double sum = 0.0;
    for (int i = first_seen(t); i <= t; ++i) {
      double product = 0.0;
      for (int c = 0; c < 8; ++c) product += double(queries(t, c)) * double(keys(i, c));
      sum += weights[i] = std::exp(product * states_.run.attention_scale);
    }
    for (double& weight : weights) weight /= sum;
    return weights;
  }
  int first_seen(int t) const { return GetParam() > 0 ? std::max(t + 1 - GetParam(), 0) : 0; }

  test::TemporaryFolder folder_;
  test::SyntheticTraceOptions options_;
  test::SyntheticStates states_;
};

INSTANTIATE_TEST_SUITE_P(Windows, PageSelection, testing::Values(0, 40));

TEST_P(PageSelection, IsThatOfPlainLoops) {
  for (const int budget : {5, 16, 37}) {
    const Replay replay = run("keydiff", budget);
    int compared = 0;
    for (const HeadReplay& head : replay.heads) {
      for (int step = 0; step < static_cast<int>(head.steps.size()); ++step) {
        const StepRecord& record = head.steps[static_cast<std::size_t>(step)];
        const int t = replay.blocks[static_cast<std::size_t>(step)].end - 1;
        for (int i = 0; i < 2; ++i) {
          const int query_head = 2 * head.head + i;
          const std::vector<double> a = attention(head.layer, query_head, t);
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
