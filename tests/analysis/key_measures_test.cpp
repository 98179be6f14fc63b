// Measures of key geometry and of merged keys in a replay, beside plain loops.

#include <gtest/gtest.h>

#include <cmath>

#include "analysis/measure/measure_catalog.h"
#include "analysis/replay/replay.h"
#include "tests/naive/naive_geometry.h"
#include "tests/support/synthetic_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe {
namespace {

struct Model {
  int heads = 1;
  int window = 0;
};

class KeyMeasuresTest : public ::testing::TestWithParam<Model> {
 protected:
  KeyMeasuresTest() {
    options_.query_heads = 4;
    options_.heads = GetParam().heads;
    options_.sliding_window = GetParam().window;
    options_.clusters = 3;
    states_ = test::write_synthetic_trace(folder_ / "trace.h5", options_);
  }

  Replay run(const std::string& policy, int budget) const {
    const Trace trace(folder_ / "trace.h5");
    ReplayRequest request{.policy = parse_policy(policy), .budget = budget, .measures = {"all"}};
    return replay(trace, request, test::unwatched);
  }

  naive::Vectors keys(const HeadReplay& head) const {
    return naive::vectors_of(
        states_.key[static_cast<std::size_t>(head.layer)][static_cast<std::size_t>(head.head)]);
  }
  naive::Vectors values(const HeadReplay& head) const {
    return naive::vectors_of(
        states_.value[static_cast<std::size_t>(head.layer)][static_cast<std::size_t>(head.head)]);
  }
  naive::Vectors queries(int layer, int query_head) const {
    return naive::vectors_of(
        states_.query[static_cast<std::size_t>(layer)][static_cast<std::size_t>(query_head)]);
  }

  test::TemporaryFolder folder_;
  test::SyntheticTraceOptions options_;
  test::SyntheticStates states_;
};

double at(const char* name, const StepRecord& record, int query_head = -1) {
  return measure_at(require_measure(name), record, query_head);
}

TEST_P(KeyMeasuresTest, DiversityOfWhatEachStepRetains) {
  for (const char* policy : {"keydiff", "h2o", "h2o+kvmerger(threshold=auto)"}) {
    const Replay replay = run(policy, 30);
    for (const HeadReplay& head : replay.heads) {
      const naive::Vectors k = keys(head);
      for (int step = 0; step < static_cast<int>(head.steps.size()); ++step) {
        const StepRecord& record = head.steps[static_cast<std::size_t>(step)];
        const std::vector<std::int32_t> retained = replay.retained_at(head, step);
        const auto n = static_cast<double>(retained.size());
        const double objective = naive::objective(k, {retained.begin(), retained.end()});
        EXPECT_NEAR(at("key_objective", record), objective, 1e-9 * n * n);
        EXPECT_NEAR(at("key_mean_cosine", record), (objective - n) / (n * (n - 1.0)), 1e-9);
        if (record.retained == record.cache_size) {
          EXPECT_NEAR(at("relaxation_gap", record), 0.0, 1e-12);
        } else {
          EXPECT_GT(at("relaxation_gap", record), 0.0);
        }
      }
    }
  }
}

TEST_P(KeyMeasuresTest, GeometryOfTheTraceWhateverThePolicy) {
  const Replay replay = run("random", 20);
  const int group = options_.query_heads / options_.heads;
  for (const HeadReplay& head : replay.heads) {
    const naive::Vectors k = keys(head);
    double cosine = 0.0;
    for (int q = head.head * group; q < (head.head + 1) * group; ++q) {
      cosine += naive::cosine(naive::mean(k), naive::mean(queries(head.layer, q))) / group;
    }
    EXPECT_NEAR(measure_of(require_measure("mean_key_query_cosine"), head), cosine, 1e-12);
    double neighbours = 0.0;
    for (std::size_t t = 1; t < k.size(); ++t) neighbours += naive::cosine(k[t], k[t - 1]);
    EXPECT_NEAR(measure_of(require_measure("neighbour_key_cosine"), head),
                neighbours / static_cast<double>(k.size() - 1), 1e-12);
    const naive::Vectors v = values(head);
    ASSERT_GT(k.size(), 64U);
    double far_keys = 0.0, far_values = 0.0;
    for (std::size_t t = 64; t < k.size(); ++t) {
      far_keys += naive::cosine(k[t], k[t - 64]) / static_cast<double>(k.size() - 64);
      far_values += naive::cosine(v[t], v[t - 64]) / static_cast<double>(k.size() - 64);
    }
    EXPECT_NEAR(measure_of(require_measure("far_key_cosine"), head), far_keys, 1e-12);
    EXPECT_NEAR(measure_of(require_measure("far_value_cosine"), head), far_values, 1e-12);
    const double correlation = measure_of(require_measure("key_attention_correlation"), head);
    EXPECT_GE(correlation, -1.0);
    EXPECT_LE(correlation, 1.0);
  }
}

TEST_P(KeyMeasuresTest, TheTheoremsOfTheStrongestKey) {
  const Replay replay = run("keydiff", 20);
  const int group = options_.query_heads / options_.heads;
  for (const HeadReplay& head : replay.heads) {
    const naive::Vectors k = keys(head);
    for (std::size_t step = 0; step < head.steps.size(); ++step) {
      const auto last = static_cast<std::size_t>(replay.blocks[step].end - 1);
      const auto window = static_cast<std::size_t>(GetParam().window);
      const std::size_t first = window > 0 && last >= window ? last - window + 1 : 0;
      const naive::Vectors seen(k.begin() + static_cast<std::ptrdiff_t>(first),
                                k.begin() + static_cast<std::ptrdiff_t>(last + 1));
      for (int i = 0; i < group; ++i) {
        const naive::Vector q = queries(head.layer, head.head * group + i)[last];
        std::size_t star = 0;
        for (std::size_t t = 0; t < seen.size(); ++t) {
          if (naive::dot(seen[t], q) >= naive::dot(seen[star], q)) star = t;
        }
        const naive::Alignment expected =
            naive::attention_alignment(q, seen, states_.run.attention_scale, star);
        const StepRecord& record = head.steps[step];
        EXPECT_NEAR(at("strongest_weight", record, i), expected.weight, 1e-12);
        EXPECT_NEAR(at("strongest_cosine", record, i), expected.cosine, 1e-12);
        EXPECT_NEAR(at("theorem_c1_bound", record, i), expected.paper_bound, 1e-9);
        EXPECT_NEAR(at("jensen_bound", record, i), expected.jensen_bound, 1e-9);
        EXPECT_LE(at("jensen_bound", record, i), at("strongest_cosine", record, i) + 1e-12);
        EXPECT_LE(at("mean_key_cosine", record, i), at("spherical_bound", record, i) + 1e-12);
        EXPECT_LE(at("spherical_bound", record, i), at("theorem_c3_bound", record, i) + 1e-12);
      }
    }
  }
}

TEST_P(KeyMeasuresTest, MergedKeysOnlyWhereThereAreMerges) {
  const Replay merged = run("h2o+kvmerger(threshold=auto)", 30);
  long merges = 0;
  for (const HeadReplay& head : merged.heads) {
    for (const StepRecord& record : head.steps) {
      const double members = at("merge_effective_members", record);
      EXPECT_EQ(std::isnan(members), record.merges.empty());
      if (record.merges.empty()) continue;
      ++merges;
      EXPECT_GE(members, 1.0 - 1e-9);
      EXPECT_LE(std::abs(at("merged_key_cosine", record)), 1.0);
    }
  }
  EXPECT_GT(merges, 0);
}

INSTANTIATE_TEST_SUITE_P(Heads, KeyMeasuresTest,
                         ::testing::Values(Model{1}, Model{2}, Model{4}, Model{2, 40}));

}  // namespace
}  // namespace kvloupe
