// Studies: the file, the plan, who gets which item, values, results and their intervals.

#include "analysis/study/study.h"
#include "analysis/base/text/unknown.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/study/database.h"
#include "analysis/study/item_queue.h"
#include "analysis/study/merge_results.h"
#include "analysis/study/mpi/ranks.h"
#include "analysis/study/run_study.h"
#include "analysis/study/study_measures.h"
#include "analysis/study/study_results.h"
#include "analysis/study/study_statistics.h"
#include "analysis/study/study_table.h"
#include "analysis/study/study_work.h"
#include "analysis/study/summary.h"
#include "tests/support/model_attribute.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

using Environment = std::map<std::string, std::string>;

std::string failure_of(const std::function<void()>& work) {
  return test::error_of<FileError>(work);
}

struct StudyTest : testing::Test {
  std::filesystem::path write(const std::string& text, const std::string& name = "study.json") {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  void write_traces(const std::vector<std::string>& names) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      test::write_synthetic_trace(folder_ / names[i],
                                  {.prompt_length = 64 + 32 * static_cast<int>(i), .seed = i + 1});
    }
  }
  std::map<std::string, long> states(const std::string& results) {
    std::map<std::string, long> counts;
    for (const StudyResults::Item& item : StudyResults(folder_ / results).items()) {
      ++counts[item.state];
    }
    return counts;
  }
  void run(const std::filesystem::path& study, const std::string& results = "out.sqlite") {
    run_study(study, folder_ / results, [this](const std::string& line) { said_ += line + "\n"; });
  }
  test::TemporaryFolder folder_;
  std::string said_;
};

TEST_F(StudyTest, AFileIsReadAndItsGlobsAreFoundInOrder) {
  for (const char* name : {"b.h5", "a.h5", "c[1].h5", "other.txt"}) write("", name);
  const Study study = read_study(write(R"json({
    "traces": ["c[1].h5", "*.h5", "b.h5"], "policies": ["h2o", "keydiff+recent(10%)"],
    "budgets": ["20%", 12], "blocks": [32, "all"], "compression": "context-only",
    "measures": ["retained"], "reduce": "heads"})json"));
  std::vector<std::string> names;
  for (const StudyTrace& trace : study.traces) names.push_back(trace.name);
  EXPECT_THAT(names, ElementsAre("c[1].h5", "a.h5", "b.h5"));
  EXPECT_EQ(study.policies[1].text(), "keydiff+recent");
  EXPECT_EQ(study.budgets[1].resolve(100), 12);
  EXPECT_THAT(study.blocks, ElementsAre(32, kWholePrompt));
  EXPECT_EQ(study.compression, Compression::context_only);
  EXPECT_EQ(study.reduce, Reduce::heads);
}

TEST_F(StudyTest, WhatIsWrongInAFileIsSaidWithItsField) {
  write("", "a.h5");
  const auto with = [](const std::string& field, const std::string& value) {
    std::map<std::string, std::string> fields = {{"traces", R"(["a.h5"])"},
                                                 {"policies", R"(["h2o"])"},
                                                 {"budgets", "[8]"},
                                                 {"measures", R"(["retained"])"}};
    fields[field] = value;
    std::string text;
    for (const auto& [name, content] : fields) {
      if (!content.empty()) text += (text.empty() ? "" : ",") + ('"' + name + "\":") + content;
    }
    return "{" + text + "}";
  };
  EXPECT_EQ(failure_of([&] { read_study(write(with("reduce", R"("all")"))); }), "");
  const std::vector<std::string> usual = read_study(write(with("measures", ""))).measures;
  EXPECT_EQ(usual.front(), "answer_residual_change");
  EXPECT_TRUE(std::any_of(usual.begin(), usual.end(), ranks_heads));
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{", "is not a JSON object"},
      {"[]", "is not a JSON object"},
      {with("modl", R"("m")"), "\"modl\": is not a field of a study; the fields are"},
      {with("model", R"("m")"), "model: runs in the model need \"tasks\""},
      {with("traces", ""), "traces: write traces to replay, or a model and tasks"},
      {with("traces", "[]"), "traces: write a list"},
      {with("traces", R"(["b.h5"])"), "\"b.h5\" is missing"},
      {with("traces", R"(["x*.h5"])"), "\"x*.h5\" matches no file"},
      {with("policies", R"(["h2"])"), "policies: policy: 'h2' at column 1"},
      {with("policies", R"(["h2o", "h2o"])"), "there twice"},
      {with("policies", R"json(["keydiff+recent", "keydiff+recent(10%)"])json"),
       "another way to write"},
      {with("policies", "[[]]"), "texts or whole numbers"},
      {with("budgets", "[0]"), "budgets: budget"},
      {with("budgets", "[]"), "at least one value"},
      {with("blocks", "[0]"), "blocks: block \"0\""},
      {with("blocks", R"(["99999999999999999999"])"), "blocks: block \"9999"},
      {with("measures", R"(["retain"])"), "nearest is 'retained'"},
      {with("compression", R"("some")"), "compression: write one of regular, context-only"},
      {with("reduce", "1"), "reduce: write one of none, steps, heads, all"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(failure_of([&] { read_study(write(text)); }), HasSubstr(message)) << text;
  }
  EXPECT_THAT(failure_of([&] { read_study(folder_ / "missing.json"); }), HasSubstr("not a file"));
}

TEST(ItemQueue, AWorkerStaysWithItsTraceAndTheDearestComesFirst) {
  StudyPlan plan;
  for (const auto& [trace, cost] : std::vector<std::pair<int, double>>{
           {0, 1.0}, {0, 5.0}, {0, 5.0}, {1, 2.0}, {1, 30.0}, {2, 4.0}}) {
    plan.items.push_back({});
    plan.items.back().trace = trace;
    plan.items.back().cost = cost;
  }
  ItemQueue queue(plan, {0, 1, 2, 3, 4, 5});
  EXPECT_EQ(queue.next(7), 4);  // the trace with the most work, and there the dearest
  EXPECT_EQ(queue.next(8), 1);  // of equal costs the first
  EXPECT_EQ(queue.next(7), 3);
  EXPECT_EQ(queue.next(7), 5);  // the one trace that nobody has
  EXPECT_EQ(queue.next(7), 2);  // all traces have somebody: helps with trace 0
  EXPECT_EQ(queue.next(8), 0);
  EXPECT_EQ(queue.next(8), std::nullopt);
  EXPECT_EQ(queue.next(9), std::nullopt);
}

TEST(ItemQueue, QuestionsAboutOneContextStayTogether) {
  StudyPlan plan;
  for (const char* name : {"answer: s#0.q0", "answer: s#0.q1", "answer: s#1.q0", "answer: t#1"}) {
    plan.sources.emplace_back();
    plan.sources.back().name = name;
    for (int setting = 0; setting < 3; ++setting) {
      plan.items.push_back({});
      plan.items.back().trace = static_cast<int>(plan.sources.size()) - 1;
      plan.items.back().cost = setting == 0 ? 2.0 : 1.0;
    }
  }
  std::vector<int> all(plan.items.size());
  std::iota(all.begin(), all.end(), 0);
  ItemQueue queue(plan, all);
  std::vector<int> got;
  while (const auto item = queue.next(1)) got.push_back(*item);
  // A setting of both questions, then the next one; then the other contexts.
  EXPECT_THAT(got, testing::ElementsAre(0, 3, 1, 4, 2, 5, 6, 7, 8, 9, 10, 11));
  std::vector<int> together;
  for (int number = 1; number <= 5; ++number) {
    const std::vector<int> own = items_of_shard(plan, all, {number, 5});
    EXPECT_TRUE(own.empty() || own.front() != 3) << "a context is cut";
    together.insert(together.end(), own.begin(), own.end());
  }
  EXPECT_EQ(together, all);
}

TEST(StudyBytes, ATaskAndAnOutcomeArriveAsTheyWereAndCutOnesAreRefused) {
  StudyTask task{.item = 3,
                 .trace = "a b.h5",
                 .policy = "h2o",
                 .block = 9,
                 .measures = {"one", "two"},
                 .reduce = Reduce::heads};
  const StudyTask same = task_of(to_bytes(task));
  EXPECT_EQ(to_bytes(same), to_bytes(task));
  EXPECT_EQ(same.trace, "a b.h5");
  EXPECT_THAT(same.measures, ElementsAre("one", "two"));
  const StudyOutcome outcome = {5, "x", 0.5, {{1, 2, 3, 4, -0.0}, {0, -1, -1, -1, kUnknown}}};
  const std::string bytes = to_bytes(outcome);
  const StudyOutcome back = outcome_of(bytes);
  ASSERT_EQ(back.values.size(), 2U);
  EXPECT_TRUE(std::signbit(back.values[0].value));
  EXPECT_TRUE(std::isnan(back.values[1].value));
  EXPECT_EQ(to_bytes(back), bytes);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(outcome_of(bytes.substr(0, size)), WorkError) << size;
  }
}

TEST(Bootstrap, AnIntervalIsThatOfTheMean) {
  const std::vector<double> equal(5, 2.5);
  const MeanInterval none = bootstrap_mean(equal);
  EXPECT_EQ(none.low, 2.5);
  EXPECT_EQ(none.high, 2.5);
  // With two values, a quarter of the resamples has each value twice.
  const std::vector<double> two = {0.0, 1.0};
  EXPECT_EQ(bootstrap_mean(two).low, 0.0);
  EXPECT_EQ(bootstrap_mean(two).high, 1.0);
  std::vector<double> many, later;
  double squares = 0.0;
  for (int i = 0; i < 400; ++i) {
    many.push_back(std::sin(i * 1.7));
    later.push_back(many.back() + 3.0);
    squares += many.back() * many.back();
  }
  const MeanInterval wide = bootstrap_mean(many);
  const double error = std::sqrt(squares / 400 - wide.mean * wide.mean) / std::sqrt(400.0);
  EXPECT_NEAR(wide.low, wide.mean - 1.96 * error, 0.1 * error);  // the central limit theorem
  EXPECT_NEAR(wide.high, wide.mean + 1.96 * error, 0.1 * error);
  // Another column draws the same traces.
  EXPECT_NEAR(bootstrap_mean(later).low, wide.low + 3.0, 1e-12);
  EXPECT_NE(bootstrap_mean(many, 2).low, wide.low);
  EXPECT_THROW(bootstrap_mean({}), std::invalid_argument);
}

/// The values of one item by (layer, head, step), of a measure.
using Places = std::map<std::vector<int>, double>;
Places values_of(const std::filesystem::path& trace, const std::string& policy,
                 const std::vector<std::string>& measures, int measure, Reduce reduce) {
  StudyTask task{.trace = trace.string(),
                 .identity = Trace(trace).identity(),
                 .policy = policy,
                 .entries = 24,
                 .block = 16,
                 .compression = "regular",
                 .measures = measures,
                 .reduce = reduce};
  // Measures from another policy's replay of the trace are there for the next one.
  static std::map<std::string, std::unique_ptr<StudyWorker>> workers;
  std::unique_ptr<StudyWorker>& worker = workers[task.trace];
  if (!worker) worker = std::make_unique<StudyWorker>(1);
  const StudyOutcome outcome = worker->compute(task);
  EXPECT_EQ(outcome.problem, "");
  Places places;
  for (const StudyValue& one : outcome.values) {
    if (one.measure == measure) places[{one.layer, one.head, one.step}] = one.value;
  }
  return places;
}

TEST_F(StudyTest, ValuesAreThoseOfAReplayWithAllMeasures) {
  write_traces({"a.h5"});
  const std::filesystem::path path = folder_ / "a.h5";
  // One measure of a whole replay, one of a query head, one of a step; all are known at every step.
  const std::vector<std::string> measures = {"retained", "retained_mass", "perturbation_l1",
                                             "key_objective"};
  for (const std::string policy : {"h2o", "snapkv", "keydiff+kvmerger"}) {
    const Trace trace(path);
    ReplayRequest request{.policy = parse_policy(policy), .budget = 24, .block = 16, .threads = 2};
    const Replay expected = replay(trace, request, test::unwatched);
    for (int m = 0; m < static_cast<int>(measures.size()); ++m) {
      const std::string& name = measures[m];
      SCOPED_TRACE(policy + " " + name);
      const Measure& measure = require_measure(name);
      const Places steps = values_of(path, policy, measures, m, Reduce::steps);
      const Places all = values_of(path, policy, measures, m, Reduce::all);
      const Places none = values_of(path, policy, measures, m, Reduce::none);
      const Places heads = values_of(path, policy, measures, m, Reduce::heads);
      const bool by_step = measure.family->scope != MeasureScope::replay;
      EXPECT_EQ(all.size(), 1U);
      EXPECT_EQ(heads.size(), 1 + (by_step ? expected.blocks.size() : 0));
      EXPECT_EQ(steps.size(), 1 + expected.heads.size());
      double sum = 0.0;
      for (const HeadReplay& head : expected.heads) {
        const double value = measure_of(measure, head);
        EXPECT_EQ(steps.at({head.layer, head.head, -1}), value);
        EXPECT_EQ(none.at({head.layer, head.head, -1}), value);
        sum += value;
        for (int s = 0; by_step && s < static_cast<int>(expected.blocks.size()); ++s) {
          const double at = measure_at(measure, head.steps[s]);
          const double kept = none.at({head.layer, head.head, s});
          EXPECT_TRUE(kept == at || (std::isnan(kept) && std::isnan(at)));
        }
      }
      EXPECT_DOUBLE_EQ(all.at({-1, -1, -1}), sum / static_cast<double>(expected.heads.size()));
      if (!by_step) continue;
      const int last = static_cast<int>(expected.blocks.size()) - 1;
      double at_last = 0.0;
      for (const HeadReplay& head : expected.heads)
        at_last += measure_at(measure, head.steps.back());
      EXPECT_DOUBLE_EQ(heads.at({-1, -1, last}),
                       at_last / static_cast<double>(expected.heads.size()));
    }
  }
}

TEST_F(StudyTest, EveryMeasureOfEveryReplayIsThatOfAReplayAlone) {
  test::SyntheticTraceOptions options{.prompt_length = 96};
  test::write_synthetic_trace(folder_ / "full.h5", options);
  options.seed = 7;
  options.sliding_window = 40;
  test::write_synthetic_trace(folder_ / "window.h5", options);
  std::vector<std::string> measures;
  for (const Measure& one : all_measures()) measures.push_back(one.info->name);
  int known = 0;
  for (const std::string file : {"full.h5", "window.h5"}) {
    const Trace trace(folder_ / file);
    StudyWorker worker(1);
    for (const std::string policy :
         {"h2o", "keydiff", "snapkv+adakv", "h2o+kvmerger", "tova+caote"}) {
      for (const int budget : {12, 24, 200}) {  // at the last one nothing is evicted
        for (const int block : {16, 32}) {
          StudyTask task{.trace = trace.path().string(),
                         .identity = trace.identity(),
                         .policy = policy,
                         .entries = budget,
                         .block = block,
                         .compression = "regular",
                         .measures = measures};
          const StudyOutcome outcome = worker.compute(task);
          ASSERT_EQ(outcome.problem, "");
          ReplayRequest request{.policy = parse_policy(policy),
                                .budget = budget,
                                .block = block,
                                .measures = measures,
                                .threads = 1};
          const Replay alone = replay(trace, request, test::unwatched);
          for (const StudyValue& one : outcome.values) {
            if (one.layer < 0) continue;
            const auto head =
                std::find_if(alone.heads.begin(), alone.heads.end(), [&](const HeadReplay& other) {
                  return other.layer == one.layer && other.head == one.head;
                });
            ASSERT_NE(head, alone.heads.end());
            const std::string& name = measures[one.measure];
            const double expected = measure_of(require_measure(name), *head);
            known += std::isfinite(expected) ? 1 : 0;
            EXPECT_TRUE(one.value == expected || (std::isnan(one.value) && std::isnan(expected)))
                << file << " " << policy << " " << budget << " " << block << " " << name << ": "
                << one.value << " and " << expected;
          }
        }
      }
    }
  }
  EXPECT_GT(known, 5'000);
}

constexpr const char* kSmall =
    R"({"traces": ["*.h5"], "policies": ["h2o", "keydiff"], "budgets": ["20%", 12],
        "measures": ["retained", "perturbation_l1"]})";

TEST_F(StudyTest, AStudyGoesOnAndAChangedOneIsRefused) {
  write_traces({"a.h5", "b.h5"});
  run(write(kSmall));
  EXPECT_EQ(states("out.sqlite")["done"], 8);
  EXPECT_THAT(said_, HasSubstr("8 of 8: "));
  said_.clear();
  run(folder_ / "study.json");
  EXPECT_EQ(said_, "8 items, 8 of them done before\n");
  const std::string changed = failure_of([&] {
    run(write(R"({"traces": ["*.h5"], "policies": ["h2o"], "budgets": ["20%", 12],
                  "measures": ["retained", "perturbation_l1"]})"));
  });
  EXPECT_THAT(changed, HasSubstr("other policies: \"h2o, keydiff\" there, \"h2o\" now"));
  write(kSmall);
  test::write_synthetic_trace(folder_ / "a.h5", {.prompt_length = 64, .seed = 9});
  EXPECT_THAT(failure_of([&] { run(folder_ / "study.json"); }),
              HasSubstr("has results of \"a.h5\" as the file was before a change"));
  EXPECT_EQ(states("out.sqlite")["done"], 8);
}

TEST_F(StudyTest, ALargerStudyTakesOverWhatIsThere) {
  write_traces({"b.h5", "a.h5"});
  const auto study = [&](const char* traces, const char* policies, const char* rest) {
    return write(fmt::format(R"({{"traces": {}, "policies": {}, "reduce": "none",
        "measures": ["retained", "role_retrieval"], {}}})",
                             traces, policies, rest));
  };
  run(study(R"(["b.h5"])", R"(["keydiff"])", R"("budgets": [12], "blocks": [32])"));
  EXPECT_EQ(states("out.sqlite")["done"], 1);
  const auto large = study(R"(["*.h5"])", R"(["h2o", "keydiff"])",
                           R"("budgets": ["20%", 12], "blocks": ["all", 32])");
  said_.clear();
  run(large);
  EXPECT_THAT(said_, HasSubstr("16 items, 1 of them done before"));
  run(large, "fresh.sqlite");
  const auto content = [&](const char* name) {
    StudyResults results(folder_ / name);
    std::vector<std::string> lines;
    for (const auto& item : results.items()) {
      lines.push_back(fmt::format("{} {} {} {} {} {} {}", item.number, item.trace, item.policy,
                                  item.budget, item.block_word, item.entries, item.state));
    }
    results.each_value([&](int item, const StudyValue& one) {
      lines.push_back(fmt::format("{} {} {} {} {} {}", item, one.measure, one.layer, one.head,
                                  one.step, one.value));
    });
    for (const auto& role : results.roles(0, 0))
      lines.push_back(fmt::format("{} {} {}", role.trace, role.query_head, role.value));
    return lines;
  };
  EXPECT_GT(content("out.sqlite").size(), 100U);
  EXPECT_EQ(content("out.sqlite"), content("fresh.sqlite"));
  // The same in another order: each value stays with its policy and budget.
  const auto turned = study(R"(["*.h5"])", R"(["keydiff", "h2o"])",
                            R"("budgets": [12, "20%"], "blocks": [32, "all"])");
  said_.clear();
  run(turned);
  EXPECT_EQ(said_, "16 items, 16 of them done before\n");
  std::filesystem::remove(folder_ / "fresh.sqlite");
  run(turned, "fresh.sqlite");
  EXPECT_EQ(content("out.sqlite"), content("fresh.sqlite"));
  EXPECT_THAT(
      failure_of([&] {
        run(study(R"(["b.h5"])", R"(["keydiff", "tova"])", R"("budgets": [12], "blocks": [32])"));
      }),
      HasSubstr("holds a study with other traces"));
}

TEST_F(StudyTest, MeasuresThatANewerVersionAddsGetTheirNames) {
  write_traces({"a.h5"});
  run(write(kSmall));
  const auto sql = [&](const char* text) {
    Database(folder_ / "out.sqlite", Database::Access::write).run(text);
  };
  // As a version without the last measure left it, with half of the items.
  sql("DELETE FROM replay_values WHERE measure = 1");
  sql("DELETE FROM head_values WHERE measure = 1");
  sql("DELETE FROM measures WHERE measure = 1");
  sql("UPDATE items SET state = 'waiting' WHERE item >= 2");
  sql("DELETE FROM replay_values WHERE item >= 2");
  sql("DELETE FROM head_values WHERE item >= 2");
  run(folder_ / "study.json");
  const StudyTable table = read_study_table(folder_ / "out.sqlite");
  EXPECT_THAT(table.measures, ElementsAre("retained", "perturbation_l1"));
  Database reading(folder_ / "out.sqlite", Database::Access::read);
  EXPECT_EQ(reading.number("SELECT COUNT(*) FROM replay_values WHERE measure = 1"), 2);
  sql("UPDATE measures SET name = 'perturbation_l2' WHERE measure = 1");
  EXPECT_THAT(
      failure_of([&] { run(folder_ / "study.json"); }),
      HasSubstr("measure other things (\"perturbation_l2\" there, \"perturbation_l1\" now)"));
}

TEST_F(StudyTest, OnlyResultsOfThisVersionAreOpenedAndByOneStudy) {
  write_traces({"a.h5"});
  const std::filesystem::path study = write(kSmall);
  run(study);
  Database(folder_ / "out.sqlite", Database::Access::write).run("PRAGMA user_version = 3");
  EXPECT_THAT(failure_of([&] { run(study); }), HasSubstr("written by a newer kvloupe"));
  EXPECT_THAT(failure_of([&] { StudyResults reading(folder_ / "out.sqlite"); }),
              HasSubstr("written by a newer kvloupe"));
  Database(folder_ / "out.sqlite", Database::Access::write).run("PRAGMA user_version = 1");
  EXPECT_THAT(failure_of([&] { run(study); }), HasSubstr("written by an earlier kvloupe"));
  const std::filesystem::path text = write("not a database, but a text of some length\n", "a.txt");
  EXPECT_THAT(failure_of([&] { run(study, "a.txt"); }), HasSubstr("is not a results file"));
  Database(folder_ / "other.sqlite", Database::Access::write).run("CREATE TABLE mine (x)");
  EXPECT_THAT(failure_of([&] { run(study, "other.sqlite"); }), HasSubstr("is not a results file"));
  EXPECT_THAT(failure_of([&] { StudyResults reading(folder_ / "no.sqlite"); }),
              HasSubstr("is not a file"));
  {
    const StudyLock other(folder_ / "two.sqlite");
    EXPECT_THAT(failure_of([&] { run(study, "two.sqlite"); }),
                HasSubstr("another study is writing to it"));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "two.sqlite"));
  }
  run(study, "two.sqlite");
  EXPECT_EQ(states("two.sqlite")["done"], 4);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "two.sqlite.lock"));
}

TEST_F(StudyTest, TracesThatHaveNoCommonMeanAreRefused) {
  write_traces({"a.h5", "b.h5"});
  test::SyntheticTraceOptions options;
  const std::filesystem::path study = write(kSmall);
  const auto refusal = [&] { return failure_of([&] { plan_study(read_study(study)); }); };
  EXPECT_EQ(refusal(), "") << "prompts of other lengths";
  test::write_synthetic_closed_loop(folder_ / "b.h5", options, "keydiff", 24);
  EXPECT_THAT(refusal(), HasSubstr("\"a.h5\" and \"b.h5\" have different caches (full; keydiff "
                                   "with 24 entries), so no mean is over both; make a study of"));
  test::write_synthetic_closed_loop(folder_ / "a.h5", options, "keydiff", 24);
  EXPECT_EQ(refusal(), "") << "of one closed loop";
  test::write_model_attribute(folder_ / "b.h5", "dtype", "bf16", "/run");
  EXPECT_THAT(refusal(), HasSubstr("have different precision (f32; bf16)"));
  test::write_model_attribute(folder_ / "b.h5", "name", "another");
  EXPECT_THAT(refusal(), HasSubstr("have different models ("));
  EXPECT_THAT(refusal(), HasSubstr("; another of 2 layers, 2 heads), so no mean"));
}

TEST_F(StudyTest, NamesThatSqliteTakesForSomethingElseAreFiles) {
  write_traces({"a.h5"});
  const std::filesystem::path study = write(kSmall), before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  const auto run_into = [&](const std::string& name) {
    return failure_of([&] { run_study(study, name, [](const std::string&) {}); });
  };
  for (const std::string name : {":memory:", "file:x.sqlite?mode=memory", "file::memory:"}) {
    EXPECT_EQ(run_into(name), "");
    EXPECT_EQ(states(name)["done"], 4) << name;
    merge_results({name}, "joined " + name);
    EXPECT_EQ(states("joined " + name)["done"], 4) << name;
  }
  EXPECT_THAT(run_into("/dev/null"), HasSubstr("is a folder or a device; name a file"));
  std::filesystem::current_path(before);
}

TEST_F(StudyTest, FilesOfAPolicyAreLookedForInTheFolderOfTheStudy) {
  write_traces({"a.h5"});
  std::filesystem::create_directory(folder_ / "tables");
  write("1,1\n1,3\n", "tables/heads.csv");
  const std::string text = R"json({"traces": ["../a.h5"], "budgets": [24], "measures": ["retained"],
                                   "policies": ["h2o+headbudgets(\"heads.csv\")"]})json";
  run(write(text, "tables/study.json"));
  EXPECT_EQ(states("out.sqlite")["done"], 1) << said_;
  EXPECT_EQ(StudyResults(folder_ / "out.sqlite").items()[0].policy,
            "h2o+headbudgets(\"heads.csv\")");
  // From the current folder, as earlier versions, where the study's has none.
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_ / "tables");
  std::filesystem::create_directory(folder_ / "other");
  run(write(text, "other/study.json"), "other.sqlite");
  EXPECT_EQ(states("other.sqlite")["done"], 1) << said_;
  std::filesystem::current_path(before);
}

TEST_F(StudyTest, ADamagedResultsFileIsRefused) {
  write_traces({"a.h5"});
  const std::filesystem::path study = write(kSmall);
  for (const char* damage : {"DELETE FROM items WHERE item = 1", "DELETE FROM items WHERE item = 3",
                             "DELETE FROM measures WHERE measure = 1", "DELETE FROM traces",
                             "UPDATE head_values SET item = 99 WHERE item = 2",
                             "UPDATE replay_values SET measure = -1 WHERE item = 2 AND measure = 0",
                             "DROP TABLE step_values"}) {
    const std::string name = "damaged.sqlite";
    std::filesystem::remove(folder_ / name);
    run(study, name);
    Database(folder_ / name, Database::Access::write).run(damage);
    EXPECT_NE(failure_of([&] { run(study, name); }), "") << damage;
  }
}

TEST_F(StudyTest, AnItemIsWrittenInFullOrNotAtAll) {
  write_traces({"a.h5"});
  const Study study = read_study(write(kSmall));
  const StudyPlan plan = plan_study(study);
  {
    StudyResults results(folder_ / "out.sqlite", study, plan);
    // The second value of the same place is refused by the table, in the midst of the item.
    EXPECT_THROW(results.record({1, "", 0.1, {{0, -1, -1, -1, 1.0}, {0, -1, -1, -1, 2.0}}}),
                 FileError);
    results.record({0, "", 0.1, {{0, -1, -1, -1, 1.5}}});
  }
  EXPECT_EQ(states("out.sqlite")["done"], 1);
  EXPECT_EQ(states("out.sqlite")["waiting"], 3);
  int rows = 0;
  StudyResults(folder_ / "out.sqlite").each_replay_value([&](int item, int, double value) {
    ++rows;
    EXPECT_EQ(item, 0);
    EXPECT_EQ(value, 1.5);
  });
  EXPECT_EQ(rows, 1);
}

TEST_F(StudyTest, ASummaryIsPairedByTrace) {
  write_traces({"a.h5", "b.h5", "c.h5"});
  const Study study = read_study(write(
      R"({"traces": ["*.h5"], "policies": ["h2o", "keydiff"], "budgets": [12],
          "measures": ["retained"], "reduce": "all"})"));
  StudyResults results(folder_ / "out.sqlite", study, plan_study(study));
  // Traces × policies: what both have differs by 10 in every trace; the third lacks h2o.
  const std::vector<double> values = {1.0, 11.0, 5.0, 15.0, kUnknown, 40.0};
  for (int i = 0; i < 6; ++i) {
    results.record({i, "", 0.0, {{0, -1, -1, -1, values[i]}}});
  }
  const std::vector<SummaryRow> rows = summarise(results);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].traces, 2);
  EXPECT_EQ(rows[0].value->mean, 3.0);
  EXPECT_FALSE(rows[0].from_first);
  EXPECT_EQ(rows[1].traces, 3);
  EXPECT_EQ(rows[1].value->mean, 22.0);
  EXPECT_EQ(rows[1].pairs, 2);
  EXPECT_EQ(rows[1].from_first->low, 10.0);
  EXPECT_EQ(rows[1].from_first->high, 10.0);
  EXPECT_THAT(summary_markdown(rows),
              HasSubstr("| keydiff | 12 | capture | 3 | 22 [11, 40] | 10 [10, 10] |\n"));
}

// How many processes a launcher started, by what it says in the environment.

int processes(const Environment& environment) {
  return launched_processes([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(LaunchedProcesses, KnowsTheLaunchers) {
  EXPECT_EQ(processes({}), 1);
  EXPECT_EQ(processes({{"OMPI_COMM_WORLD_SIZE", "3"}, {"OMPI_COMM_WORLD_RANK", "2"}}), 3);
  EXPECT_EQ(processes({{"PMI_SIZE", "4"}, {"PMI_RANK", "0"}}), 4);
  const Environment step = {{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_PROCID", "5"}};
  Environment pmix = step;
  pmix["PMIX_RANK"] = "5";
  EXPECT_EQ(processes(pmix), 8);
  pmix["SLURM_STEP_NUM_TASKS"] = "1";
  EXPECT_EQ(processes(pmix), 1);
  // mpirun on the nodes of a job: its own number counts, not that of its daemons.
  Environment daemon = step;
  daemon["OMPI_COMM_WORLD_SIZE"] = "32";
  daemon["OMPI_COMM_WORLD_RANK"] = "7";
  daemon["PMIX_RANK"] = "7";
  EXPECT_EQ(processes(daemon), 32);
  // One process of mpirun inside a step.
  daemon["OMPI_COMM_WORLD_SIZE"] = "1";
  daemon.erase("PMIX_RANK");
  EXPECT_EQ(processes(daemon), 1);
}

TEST(LaunchedProcesses, ABatchScriptIsOneProcessWhateverTheJobHas) {
  EXPECT_EQ(processes({{"SLURM_NTASKS", "64"}, {"SLURM_PROCID", "0"}}), 1);
  EXPECT_EQ(processes({{"SLURM_STEP_NUM_TASKS", "64"}}), 1);
}

TEST(LaunchedProcesses, ProcessesThatCannotFindEachOtherAreRefused) {
  EXPECT_THAT(
      [] {
        processes({{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_PROCID", "5"}});
      },
      testing::ThrowsMessage<UsageError>(HasSubstr("srun --mpi=pmix")));
  EXPECT_EQ(processes({{"OMPI_COMM_WORLD_SIZE", "many"}}), 1);
}

// The order in which measures of a study are taken where nobody chose one.

/// Two policies at one budget on one prompt: `unknown` has a row without a value under the second.
StudyTable made(std::vector<std::string> measures, const std::string& unknown = "") {
  StudyTable table;
  table.measures = std::move(measures);
  for (const char* policy : {"h2o", "keydiff"}) {
    StudyResults::Item item;
    item.trace = "prompt";
    item.policy = policy;
    item.budget = "10%";
    item.block_word = "128";
    table.items.push_back(item);
  }
  for (const std::string& name : table.measures) {
    table.values.push_back({0.5, name == unknown ? std::nan("") : 0.5});
    table.has_value.push_back({1, 1});
  }
  return table;
}

TEST(FirstMeasure, AnswersThenTheChangeThenWhatForetellsThenSharesThenTheRest) {
  const StudyTable study = made(
      {"role_sink", "retained", "bound_l1", "perplexity_loss", "evidence_kept", "retained_mass",
       "answer_worst_layer_error", "answer_residual_change", "needle_found", "answer_found"},
      "bound_l1");
  EXPECT_THAT(measures_in_order(study),
              ElementsAre("answer_found", "needle_found", "answer_residual_change",
                          "answer_worst_layer_error", "retained_mass", "evidence_kept",
                          "perplexity_loss", "role_sink", "retained", "bound_l1"));
  EXPECT_THAT(first_measure(study).why, HasSubstr("the model's own answers"));
  EXPECT_EQ(first_measure(StudyTable{}).name, "");
}

TEST(FirstMeasure, SaysHowWellItForetellsAndOnWhichModels) {
  const FirstMeasure first = first_measure(made({"retained_mass", "answer_residual_change"}));
  EXPECT_EQ(first.name, "answer_residual_change");
  for (const char* model : {"SmolLM2-135M", "Qwen2.5-Coder-0.5B: 0.77 (0.41 to 0.91",
                            "Gemma 3 270M it did no better than chance"})
    EXPECT_THAT(first.why, HasSubstr(model));
  EXPECT_THAT(first_measure(made({"bound_l1"})).why, HasSubstr("nor answer_residual_change"));
}

}  // namespace
}  // namespace kvloupe
