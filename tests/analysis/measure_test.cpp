// The catalogue of measures, and the measures of CriticalKV and CAOTE beside their naive twins.

#include "analysis/math/bounds.h"
#include "analysis/math/logit_path.h"
#include "analysis/math/perturbation.h"
#include "analysis/replay/measure/measure_text.h"
#include "analysis/replay/measure/output_error.h"
#include "tests/naive/naive_measures.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

using testing::DoubleEq;

TEST(MeasureCatalog, TheDocumentIsWhatTheCatalogueSays) {
  const std::string text = test::file_text(KVLOUPE_SOURCE_DIR "/docs/measures.md");
  EXPECT_EQ(text, measures_markdown())
      << "stale; write it anew: kvloupe measures --markdown > docs/measures.md";
}

TEST(MeasureCatalog, EveryMeasureHasItsWordsAndOneWayToItsValue) {
  std::set<std::string> names, titles;
  for (const Measure& measure : all_measures()) {
    const MeasureInfo& info = *measure.info;
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_TRUE(titles.insert(info.title).second) << info.title;
    EXPECT_TRUE(info.help.size() > 20 && info.help.back() == '.')
        << info.name << " has no sentence: " << info.help;
    EXPECT_FALSE(info.title.empty() || info.formula.empty() || info.source.empty()) << info.name;
    const int ways = (measure.slot >= 0 ? 1 : 0) + (info.of_step != nullptr ? 1 : 0) +
                     (info.of_replay != nullptr ? 1 : 0);
    EXPECT_EQ(ways, 1) << info.name;
    EXPECT_EQ(find_measure(info.name), &measure);
  }
  // The names earlier versions wrote.
  for (const char* name : {"retained", "retained_share", "absorbed", "ties", "retained_mass",
                           "perturbation_l1", "bound_l1", "tightness_l1", "perturbation_l2",
                           "bound_l2", "head_error_l2", "log_pseudo_determinant", "rank"}) {
    EXPECT_EQ(names.count(name), 1U) << name;
  }
  EXPECT_THROW(require_measure("retained_mas"), UsageError);
}

struct Model {
  int group = 1;
  int window = 0;
};

/// Measured by the engine, and again by the twin.
struct MeasuresAgainstNaive : testing::TestWithParam<Model>, test::MadeLayerReplays {
  static int group() { return GetParam().group; }
  MeasuresAgainstNaive()
      : MadeLayerReplays({.layers = 1,
                          .heads = 4 / group(),
                          .head_dim = 8,
                          .hidden_size = 12,
                          .prompt_length = 64,
                          .generated = 4,
                          .sliding_window = GetParam().window,
                          .seed = 20 + static_cast<std::uint64_t>(group())}) {}

  /// Fates and scores are kept of one head at a time.
  Replay run(const std::string& spec, int budget, int block) {
    Replay result = MadeLayerReplays::run(spec, budget, block);
    for (scores_head_ = 0; scores_head_ < options_.heads; ++scores_head_) {
      result.heads[scores_head_] = MadeLayerReplays::run(spec, budget, block).heads[scores_head_];
    }
    return result;
  }
};

double at(const char* name, const StepRecord& record, int query_head = -1) {
  return measure_at(require_measure(name), record, query_head);
}

/// Equal to float32 rounding of the logits, or both unknown, or both infinite.
void expect_same(double fast, double naive, const std::string& where) {
  if (std::isnan(naive) || std::isinf(naive)) {
    EXPECT_TRUE(std::isnan(naive) ? std::isnan(fast) : fast == naive) << where;
  } else {
    EXPECT_NEAR(fast, naive, 2e-4 * (1.0 + std::abs(naive))) << where;
  }
}

TEST_P(MeasuresAgainstNaive, AgreeAndKeepTheirOrder) {
  long two_stage = 0, holds = 0, fails = 0, evictions = 0;
  for (const char* spec :
       {"tova", "h2o+recent(20%)", "keydiff", "random", "snapkv(8,pool=max)+critical",
        "h2o+critical(0.25)+adakv", "random+critical(0)", "snapkv(8)+caote", "tova+critical(1)",
        "keynorm+critical+sinks(2)+recent(3)"}) {
    for (const int budget : {2, 13, 40}) {
      for (const int block : {9, 64}) {
        const Replay replay = run(spec, budget, block);
        const bool critical = parse_policy(spec).find("critical") != nullptr;
        for (const HeadReplay& head : replay.heads) {
          for (int step = 0; step < static_cast<int>(head.steps.size()); ++step) {
            const StepRecord& record = head.steps[step];
            const int query = replay.blocks[step].end - 1;
            const auto before = replay.tokens_at(head, step);
            const std::vector<int> cache(before.begin(), before.end());
            const auto after = replay.retained_at(head, step);
            const std::set<int> retained(after.begin(), after.end());
            // Entries that leave the window with this step are still there for its last query.
            std::vector<int> cache_of_query = cache;
            std::set<int> has = retained;
            for (const std::int32_t token : replay.seen_at(head, step)) {
              if (has.insert(token).second) cache_of_query.insert(cache_of_query.begin(), token);
            }
            ASSERT_LE(has.size(), retained.size() + (GetParam().window > 0 ? 1 : 0));
            const auto& fates = head.fates[step];
            std::set<int> one, two;
            for (std::size_t row = 0; row < fates.size(); ++row) {
              if (fates[row] == Fate::evicted) continue;
              (fates[row] == Fate::by_second_stage ? two : one).insert(cache[row]);
            }
            for (const int token : has) {
              if (retained.count(token) == 0) one.insert(token);
            }
            for (int i = 0; i < group(); ++i) {
              const std::string where = std::string(spec) + " budget " + std::to_string(budget) +
                                        " step " + std::to_string(step) + " query head " +
                                        std::to_string(i);
              const naive::QueryHeadStates own = {states_, made_.model, made_.run.attention_scale,
                                                  head.head * group() + i};
              std::vector<int> prefix;
              for (int token = 0; token <= query; ++token) {
                const int window = GetParam().window;
                if (window == 0 || query - token < window) prefix.push_back(token);
              }
              const auto attention = own.attention(query, prefix);
              EXPECT_EQ(at("half_mass_entries", record, i), naive::entries_for_mass(attention, 0.5))
                  << where;
              expect_same(at("output_norm_l2", record, i), naive::output_norm(own, query), where);

              // ℒ ≤ θ, whatever was kept.
              const double scale = at("bound_l1", record, i) + 1.0;
              EXPECT_LE(at("perturbation_l1", record, i), at("bound_l1", record, i) + 1e-6 * scale)
                  << where;
              EXPECT_LE(at("perturbation_l2", record, i), at("bound_l2", record, i) + 1e-6 * scale)
                  << where;
              if (critical && !fates.empty()) {
                ++two_stage;
                const naive::TwoStages twin = naive::two_stages(own, query, one, two);
                expect_same(at("stage_one_mass", record, i), twin.mass, where);
                expect_same(at("bound_stage_one_l1", record, i), twin.bound_l1, where);
                expect_same(at("bound_stage_one_l2", record, i), twin.bound_l2, where);
                expect_same(at("bound_relaxed_l1", record, i), twin.relaxed_l1, where);
                expect_same(at("bound_relaxed_l2", record, i), twin.relaxed_l2, where);
                // σ ≤ S, θ ≤ θ̂ always; θ̂ ≤ θ̂_relax where the assumption holds.
                EXPECT_LE(at("stage_one_mass", record, i), at("retained_mass", record, i) + 1e-9);
                for (const char* norm : {"l1", "l2"}) {
                  const double theta = at((std::string("bound_") + norm).c_str(), record, i);
                  const double hat =
                      at((std::string("bound_stage_one_") + norm).c_str(), record, i);
                  const double relaxed =
                      at((std::string("bound_relaxed_") + norm).c_str(), record, i);
                  EXPECT_LE(theta, hat + 1e-9 * scale) << where;
                  const bool holding = at("stage_one_mass", record, i) > 0.5;
                  EXPECT_EQ(at("assumption_holds", record, i), holding ? 1.0 : 0.0);
                  EXPECT_EQ(std::isnan(relaxed), !holding) << where;
                  if (holding) {
                    EXPECT_LE(hat, relaxed + 1e-9 * scale) << where;
                  }
                  (holding ? holds : fails) += 1;
                }
              } else {
                EXPECT_TRUE(std::isnan(at("stage_one_mass", record, i))) << where;
              }
              if (record.retained == record.cache_size) {
                EXPECT_TRUE(std::isnan(at("eviction_joint", record, i))) << where;
                continue;
              }
              ++evictions;
              const naive::EvictionError twin =
                  naive::eviction_error(own, own.attention(query, cache_of_query), has);
              expect_same(at("eviction_joint", record, i), twin.joint, where);
              expect_same(at("eviction_sum", record, i), twin.sum, where);
              EXPECT_DOUBLE_EQ(at("eviction_ratio", record, i),
                               at("eviction_sum", record, i) / at("eviction_joint", record, i));
              // The first eviction is the whole perturbation.
              if (cache_of_query.size() == prefix.size()) {
                expect_same(at("eviction_joint", record, i), at("head_error_l2", record, i), where);
              }
            }
            // With the policy's scores for h; under caote the base is not known.
            const auto& scores = head.scores[step];
            if (record.retained == record.cache_size || std::string(spec) == "snapkv(8)+caote") {
              EXPECT_TRUE(std::isnan(at("score_eviction_joint", record)));
              continue;
            }
            double least = 0.0, sum = 0.0;
            for (const float score : scores) least = std::min(least, static_cast<double>(score));
            for (const float score : scores) sum += static_cast<double>(score) - least;
            std::map<int, double> h;
            for (std::size_t row = 0; row < scores.size(); ++row) {
              h[cache[row]] = (static_cast<double>(scores[row]) - least) / sum;
            }
            const naive::QueryHeadStates own = {states_, made_.model, made_.run.attention_scale,
                                                head.head * group()};
            const naive::EvictionError twin = naive::eviction_error(own, h, retained);
            // With one entry left that has no weight the twin divides zero by zero.
            if (std::isnan(twin.joint)) continue;
            EXPECT_NEAR(at("score_eviction_joint", record), twin.joint, 1e-9 * (1 + twin.joint));
            EXPECT_NEAR(at("score_eviction_sum", record), twin.sum, 1e-9 * (1 + twin.sum));
          }
        }
      }
    }
  }
  const bool whole = GetParam().window == 0;
  EXPECT_GT(two_stage, 100);
  EXPECT_GT(holds, whole ? 50 : 20);
  EXPECT_GT(fails, whole ? 50 : 20);
  EXPECT_GT(evictions, whole ? 500 : 200);
}

TEST_P(MeasuresAgainstNaive, TheNormalisedOutputErrorIsARatioOfSums) {
  const Replay replay = run("h2o+recent(20%)", 13, 16);
  for (const HeadReplay& head : replay.heads) {
    double error = 0.0, output = 0.0;
    for (const StepRecord& record : head.steps) {  // 16 > 13: every step evicts
      for (int i = 0; i < group(); ++i) {
        error += std::pow(at("head_error_l2", record, i), 2);
        output += std::pow(at("output_norm_l2", record, i), 2);
      }
    }
    EXPECT_GT(error, 0.0);
    EXPECT_NEAR(measure_of(require_measure("output_error"), head), error / output, 1e-12);
    EXPECT_DOUBLE_EQ(squared_error(head).error, error);
  }
}

INSTANTIATE_TEST_SUITE_P(Groups, MeasuresAgainstNaive,
                         testing::Values(Model{1}, Model{2}, Model{4}, Model{2, 23}, Model{1, 64},
                                         Model{4, 48}));

TEST(TwoStageBound, ByHand) {
  // A = 0.4, 0.3, 0.2, 0.1; norms 1, 2, 4, 10: C = 0.4 + 0.6 + 0.8 + 1 = 2.8.
  const std::vector<double> a = {.4, .3, .2, .1};
  const std::vector<float> norms = {1, 2, 4, 10};
  // Stage one {0, 1}: σ = 0.7, 2 − 1/0.7 = 4/7. Stage two {3}: θ̂ = 2.8 − 4/7·(1 + 1) = 2.8 − 8/7.
  // M = 1: θ̂_relax = 2.8 − 4/7·(1 + 0.1·1) = 2.8 − 4.4/7.
  const TwoStageBound found = two_stage_bound(a, norms, std::vector{0, 1}, std::vector{3});
  EXPECT_THAT(found.mass, DoubleNear(.7, 1e-12));
  EXPECT_THAT(found.bound, DoubleNear(2.8 - 8.0 / 7.0, 1e-12));
  EXPECT_THAT(found.relaxed, DoubleNear(2.8 - 4.4 / 7.0, 1e-12));
  // Stage one {2}: σ = 0.2, 2 − 5 = −3: θ̂ = 2.8 + 3·(0.8 + 1) = 8.2; the relaxed one is not a
  // bound.
  const TwoStageBound small = two_stage_bound(a, norms, std::vector{2}, std::vector{3});
  EXPECT_THAT(small.bound, DoubleNear(8.2, 1e-12));
  EXPECT_TRUE(std::isnan(small.relaxed));
  EXPECT_TRUE(std::isinf(two_stage_bound(a, norms, {}, std::vector{3}).bound));
  EXPECT_TRUE(std::isnan(two_stage_bound(a, {}, std::vector{0}, {}).bound));
}

TEST(EntriesForMass, ByHand) {
  const std::vector<double> a = {.1, .4, .2, .3};
  EXPECT_EQ(entries_for_mass(a, 0.3), 1);
  EXPECT_EQ(entries_for_mass(a, 0.5), 2);  // 0.4 + 0.3
  EXPECT_EQ(entries_for_mass(a, 0.95), 4);
  EXPECT_EQ(entries_for_mass(a, 2.0), 4);  // never
  EXPECT_EQ(entries_for_mass({}, 0.5), 0);
  // Beyond what is sorted at first: of 1024 equal entries 513 exceed the half.
  EXPECT_EQ(entries_for_mass(std::vector<double>(1024, 1.0 / 1024), 0.5), 513);
}

TEST(JointEvictionError, ByHandAndBesideBruteForce) {
  Matrix values(3, 1);
  values << 0, 4, 8;
  // o = 0.5·0 + 0.25·4 + 0.25·8 = 3. Without 1 and 2: 0, a change of 3; one by one 1/3 + 5/3 = 2.
  const std::vector<double> h = {.5, .25, .25};
  EXPECT_THAT(joint_eviction_error(h, view(values), std::vector{1, 2}), DoubleEq(3));
  EXPECT_THAT(joint_eviction_error(h, view(values), {}), DoubleEq(0));
  EXPECT_TRUE(std::isinf(joint_eviction_error(h, view(values), std::vector{0, 1, 2})));
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  for (int round = 0; round < 200; ++round) {
    const int n = 3 + static_cast<int>(random() % 20);
    Matrix v(n, 5);
    for (float& x : v.reshaped()) x = static_cast<float>(normal(random));
    std::vector<double> own(static_cast<std::size_t>(n));
    double sum = 0.0;
    for (double& x : own) sum += x = std::exp(2.0 * normal(random));
    for (double& x : own) x /= sum;
    std::vector<std::int32_t> gone;
    for (int i = 1; i < n; ++i) {
      if (random() % 2 == 0) gone.push_back(i);
    }
    Eigen::VectorXd full = Eigen::VectorXd::Zero(5), kept = full, lost = full;
    double mass = 0.0, gone_mass = 0.0;
    for (int i = 0; i < n; ++i) {
      const double share = own[i];
      full += share * v.row(i).cast<double>().transpose();
      if (std::find(gone.begin(), gone.end(), i) != gone.end()) {
        gone_mass += share;
        continue;
      }
      kept += share * v.row(i).cast<double>().transpose();
      mass += share;
    }
    for (const std::int32_t j : gone) {
      lost += own[j] * (full - v.row(j).cast<double>().transpose());
    }
    const double joint = joint_eviction_error(own, view(v), gone);
    EXPECT_NEAR(joint, (full - kept / mass).norm(), 1e-9);  // what the output does
    EXPECT_NEAR(joint, lost.norm() / (1.0 - gone_mass), 1e-9 * (1.0 + joint));  // the formula
  }
}

TEST(LogitEffect, ByHand) {
  Matrix head(4, 2);
  head << 1, 0, 0, 1, 1, 1, -1, 0;
  // Δ = (2, −3): 2, −3, −1, −2; mean −1, deviations 3, −2, 0, −1: √(14/4).
  const LogitEffect effect = logit_effect(head, Eigen::Vector2d(2, -3), 2);
  ASSERT_EQ(effect.up.size(), 1U);  // only one rises
  EXPECT_EQ(effect.up[0].token, 0);
  EXPECT_THAT(effect.up[0].change, DoubleEq(2));
  ASSERT_EQ(effect.down.size(), 2U);
  EXPECT_EQ(effect.down[0].token, 1);
  EXPECT_EQ(effect.down[1].token, 3);
  EXPECT_THAT(effect.mean, DoubleEq(-1));
  EXPECT_THAT(effect.norm, DoubleNear(std::sqrt(3.5), 1e-12));
  EXPECT_TRUE(logit_effect(head, Eigen::Vector2d(0, 0), 2).up.empty());
}

TEST(MeasureJson, EveryMeasureThatAppliesIsWritten) {
  test::MadeTrace made_trace;
  const Trace& trace = made_trace.trace();
  for (const char* spec : {"snapkv(8)+critical", "keydiff"}) {
    ReplayRequest request{.policy = parse_policy(spec), .budget = 20};
    const Replay made = replay(trace, request, test::unwatched);
    const auto json = nlohmann::json::parse(test::json_of(made));
    const auto& step = json["heads"][1]["steps"][1]["metrics"];
    for (const Measure& measure : all_measures()) {
      const std::string& name = measure.info->name;
      const bool applied = applies(measure, request.policy);
      switch (measure.family->scope) {
        case MeasureScope::query_head:
          EXPECT_EQ(step["query_heads"][0].contains(name), applied) << name;
          break;
        case MeasureScope::step:
          EXPECT_EQ(step.contains(name), applied) << name;
          break;
        case MeasureScope::replay:
        case MeasureScope::queries:
        case MeasureScope::trace:
          EXPECT_EQ(json["heads"][1]["measures"].contains(name), applied) << name;
      }
    }
    EXPECT_EQ(json["heads"][1]["measures"]["retained"], 20);
    request.measures = {"no_such"};
    EXPECT_THROW(replay(trace, request, test::unwatched), UsageError);
  }
}

}  // namespace
}  // namespace kvloupe
