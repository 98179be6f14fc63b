// Measuring a replay that is there, or some of its steps, against measuring all of it on the way.

#include "analysis/replay/measure_replay.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "tests/support/catalogue_parts.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

/// Every score alone, and each modifier on one of them.
std::vector<std::string> specs() {
  std::vector<std::string> result;
  for (const PolicyEntry& entry : policy_catalog()) {
    if (!test::stands_alone(entry)) continue;
    if (entry.kind() == PartKind::score) {
      result.push_back(entry.example.empty() ? entry.name : entry.example);
    } else {
      result.push_back("h2o+" + entry.name);
    }
  }
  result.emplace_back("snapkv(8)+critical+adakv");
  result.emplace_back("keydiff+kvmerger(0.2,recent=0,heavy=0)");
  result.emplace_back("random+cam");
  return result;
}

/// The same number, or both unknown.
void expect_same(double a, double b, const std::string& where) {
  if (std::isnan(b)) {
    EXPECT_TRUE(std::isnan(a)) << where << ": " << a << " is known after all";
  } else {
    EXPECT_EQ(a, b) << where;
  }
}

struct MeasureReplay : testing::TestWithParam<int>, test::MadeTrace {  // the model's window
  MeasureReplay()
      : MadeTrace({.prompt_length = 72,
                   .generated = 3,
                   .block = 16,
                   .sliding_window = GetParam(),
                   .clusters = 6}) {}
  Replay run(const std::string& spec, bool metrics) {
    ReplayRequest rest{.metrics = metrics};
    if (metrics) rest.measures = {"all"};
    return MadeTrace::run(spec, 20, rest);
  }

  Replay measured(const Replay& replay, const MeasureRequest& request) {
    return measure_replay(*trace_, replay, request, progress_);
  }

  Progress progress_;
};

TEST_P(MeasureReplay, EveryMeasureIsWhatAReplayWithMetricsHas) {
  int merging = 0;
  for (const std::string& spec : specs()) {
    const Replay bare = run(spec, false);
    merging += std::any_of(bare.heads[0].steps.begin(), bare.heads[0].steps.end(),
                           [](const StepRecord& record) { return record.made_entries(); });
    const Replay whole = run(spec, true);
    ASSERT_FALSE(bare.heads[0].steps[1].measured());
    const int last = static_cast<int>(bare.blocks.size()) - 1;
    for (const Measure& measure : all_measures()) {
      const MeasureScope scope = measure.family->scope;
      const Replay of = measured(bare, {.measures = {measure.info->name}, .steps = {last, 2}});
      ASSERT_EQ(of.heads.size(), whole.heads.size());
      for (std::size_t h = 0; h < of.heads.size(); ++h) {
        const std::string where =
            spec + ", " + measure.info->name + ", head " + std::to_string(h) + " of all";
        if (scope == MeasureScope::replay || scope == MeasureScope::trace) {
          expect_same(measure_of(measure, of.heads[h]), measure_of(measure, whole.heads[h]), where);
          continue;
        }
        for (const int step : {2, last}) {
          const StepRecord& one = of.heads[h].steps[step];
          const StepRecord& two = whole.heads[h].steps[step];
          for (int query_head = -1; query_head < 2; ++query_head) {
            expect_same(measure_at(measure, one, query_head), measure_at(measure, two, query_head),
                        where + ", step " + std::to_string(step));
          }
        }
        EXPECT_FALSE(scope != MeasureScope::replay && of.heads[h].steps[3].measured()) << where;
      }
    }
  }
  EXPECT_GE(merging, 3) << "what cannot be had from the records alone";
}

TEST_P(MeasureReplay, StepsThatAreChosenAreWhatAllStepsHave) {
  const LayerStates states = load_layer_states(*trace_, 1);
  for (const std::string& spec : specs()) {
    const PolicySpec policy = parse_policy(spec);
    LayerContext context{.layer = 1, .model = trace_->model()};
    context.model.sliding_window = trace_->window(0);
    context.attention = trace_->run().attention_scale;
    context.budget = 20;
    context.output_weights = states.output_weights;
    LayerReplayInput input{states, trace_->blocks(), policy, context};
    const std::vector<HeadReplay> all = replay_layer(input, progress_);
    const std::vector<int> steps = {1, 3};
    input.measured_steps = steps;
    input.last_step = 3;
    const std::vector<HeadReplay> some = replay_layer(input, progress_);
    for (std::size_t h = 0; h < all.size(); ++h) {
      for (std::size_t step = 0; step < all[h].steps.size(); ++step) {
        const StepRecord& one = some[h].steps[step];
        const StepRecord& two = all[h].steps[step];
        ASSERT_EQ(one.measured(), step == 1 || step == 3) << spec;
        EXPECT_EQ(one.retained, step <= 3 ? two.retained : 0) << spec;
        if (!one.measured()) continue;
        for (const Measure& measure : all_measures()) {
          expect_same(measure_at(measure, one), measure_at(measure, two),
                      spec + ", " + measure.info->name);
        }
      }
    }
  }
}

TEST_P(MeasureReplay, HeadsAndLayersCanBeChosen) {
  const Replay bare = run("tova", false);
  const Replay whole = run("tova", true);
  LayerStatesCache states(std::size_t{1} << 20U);
  MeasureRequest request{
      .measures = {"perturbation_l1", "rank"}, .layers = {1}, .head = 1, .states = &states};
  int layers = 0;
  const Replay of =
      measure_replay(*trace_, bare, request, progress_, [&](const std::vector<HeadReplay>& heads) {
        ++layers;
        EXPECT_EQ(heads.size(), 1U);
      });
  EXPECT_EQ(layers, 1);
  ASSERT_EQ(of.heads.size(), 1U);
  EXPECT_EQ(of.heads[0].evicted_at, whole.find(1, 1)->evicted_at);
  for (std::size_t step = 0; step < of.heads[0].steps.size(); ++step) {
    for (const std::string& name : request.measures) {
      expect_same(measure_at(require_measure(name), of.heads[0].steps[step]),
                  measure_at(require_measure(name), whole.find(1, 1)->steps[step]), name);
    }
    expect_same(measure_at(require_measure("key_objective"), of.heads[0].steps[step]), std::nan(""),
                "what was not asked for");
  }
}

TEST_P(MeasureReplay, RefusesWhatThereIsNotAndStopsWhenAsked) {
  const Replay bare = run("keydiff", false);
  EXPECT_THROW(measured(bare, {.measures = {"beauty"}}), UsageError);
  EXPECT_THROW(measured(bare, {.measures = {"rank"}, .steps = {99}}), UsageError);
  EXPECT_THROW(measured(bare, {.measures = {"rank"}, .steps = {-1}}), UsageError);
  progress_.cancel();
  EXPECT_THROW(measured(bare, {.measures = {"rank"}}), Cancelled);
}

INSTANTIATE_TEST_SUITE_P(Windows, MeasureReplay, testing::Values(0, 24));

TEST(LayerStatesCacheTest, GivesAtLeastThePartsAskedFor) {
  test::MadeTrace made_trace;
  const Trace& trace = made_trace.trace();
  LayerStatesCache cache(std::size_t{1} << 24U);
  const auto keys = cache.get(trace, 1, StateParts::keys_only(), test::unwatched);
  EXPECT_EQ(keys->keys.size(), 2U);
  EXPECT_TRUE(keys->queries.empty() && keys->values.empty() && keys->output_weights.empty() &&
              keys->value_norms_l1.empty());
  EXPECT_EQ(queries_of_token(trace, *keys, 1, 50),
            token_rows(load_layer_states(trace, 1).queries, 50))
      << "read by itself, or taken from all";
  EXPECT_THROW(trace.queries_of_token(1, trace.length()), UsageError);
  const auto all = cache.get(trace, 1, {}, test::unwatched);
  EXPECT_EQ(all->queries.size(), 4U);
  EXPECT_EQ(all->value_norms_l2.size(), 4U);
  EXPECT_EQ(cache.get(trace, 1, StateParts::keys_only(), test::unwatched), all)
      << "more than asked for will do";
}

}  // namespace
}  // namespace kvloupe
