// How well a measure foretells an outcome: by hand, and against plain loops over all pairs.

#include "analysis/study/foretell.h"
#include "analysis/replay/measure/foretold_answers.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/study/study_measures.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

/// Results of a study as if read from a file: replays of traces and runs on the same prompts.
class Made {
 public:
  Made(std::vector<std::string> measures, int policies, int budgets, int prompts)
      : policies_(policies), budgets_(budgets), prompts_(prompts) {
    table.measures = std::move(measures);
    table.measures.emplace_back("answer_found");
    for (const char* task : {kReplayTask, kAnswerTask}) {
      for (int prompt = 0; prompt < prompts; ++prompt) {
        for (int policy = 0; policy < policies; ++policy) {
          for (int budget = 0; budget < budgets; ++budget) {
            StudyResults::Item item;
            item.number = static_cast<int>(table.items.size());
            item.task = task;
            char name[40];
            std::snprintf(name, sizeof name,
                          item.task == kReplayTask ? "traces/q-%05d.h5" : "answer q.jsonl#%d",
                          prompt);
            item.trace = name;
            item.policy = "policy" + std::to_string(policy);
            item.budget = std::to_string(10 * (budget + 1)) + "%";
            item.block_word = "128";
            item.state = "done";
            table.items.push_back(item);
          }
        }
      }
    }
    table.values.assign(table.measures.size(),
                        std::vector<double>(table.items.size(), std::nan("")));
    table.has_value.assign(table.measures.size(), std::vector<char>(table.items.size(), 0));
    table.by_head.assign(table.measures.size(), 0);
  }
  void set(std::size_t measure, int policy, int budget, int prompt, double value) {
    const bool replay = measure + 1 < table.measures.size();
    const int half = static_cast<int>(table.items.size()) / 2;
    const auto at = static_cast<std::size_t>((replay ? 0 : half) +
                                             (prompt * policies_ + policy) * budgets_ + budget);
    table.values[measure][at] = value;
    table.has_value[measure][at] = 1;
  }
  StudyTable table;

 private:
  int policies_, budgets_, prompts_;
};

TEST(Foretell, NamesOfOnePromptAreEqual) {
  EXPECT_EQ(prompt_key("traces/niah-00012.h5"), "niah-00012");
  EXPECT_EQ(prompt_key("answer niah.jsonl#12"), "niah-00012");
  EXPECT_EQ(prompt_key("drift prompts/notes.txt"), "notes");
  EXPECT_EQ(prompt_key("notes.h5"), "notes");
}

TEST(Foretell, KnowsAMeasureThatSaysAllAndOneThatSaysTheOpposite) {
  // Runs succeed where policy + budget + prompt is at least 3; less error is better.
  Made made({"output_error", "retained_mass"}, 2, 2, 4);
  for (const auto& [policy, budget, prompt] : cells(2, 2, 4)) {
    const int sum = policy + budget + prompt;
    made.set(0, policy, budget, prompt, 10.0 - sum);
    made.set(1, policy, budget, prompt, 10.0 - sum);
    made.set(2, policy, budget, prompt, sum >= 3 ? 1.0 : 0.0);
  }
  const std::vector<Foretelling> rows = foretell(made.table, "answer_found");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].measure, "output_error");
  EXPECT_EQ(rows[0].prompts, 4);
  EXPECT_EQ(rows[0].settings_count, 4);
  EXPECT_DOUBLE_EQ(rows[0].settings.value, 1.0);
  EXPECT_DOUBLE_EQ(rows[0].pairs.value, 1.0);
  EXPECT_DOUBLE_EQ(rows[0].pairs_of_prompt.value, 1.0);
  EXPECT_DOUBLE_EQ(rows[0].pairs_of_setting.value, 1.0);
  EXPECT_EQ(rows[1].measure, "retained_mass");
  EXPECT_DOUBLE_EQ(rows[1].settings.value, -1.0);
  EXPECT_DOUBLE_EQ(rows[1].pairs.value, 0.0);
  EXPECT_THAT(foretell_markdown(rows, "answer_found"), HasSubstr("| `output_error` | 1.00 ["));
}

/// The share over all pairs of these runs with different outcomes.
double share_of_pairs(const std::vector<std::pair<double, double>>& runs) {
  double agree = 0.0, all = 0.0;
  for (const auto& [a, b] : cells(runs.size(), runs.size())) {
    if (!(runs[a].second > runs[b].second)) continue;
    all += 1.0;
    agree += runs[a].first > runs[b].first ? 1.0 : runs[a].first == runs[b].first ? 0.5 : 0.0;
  }
  return agree / all;
}

TEST(Foretell, SharesAreThoseOfAllPairs) {
  std::mt19937 random(7);
  const int policies = 3, budgets = 2, prompts = 15;
  Made made({"retained_mass"}, policies, budgets, prompts);
  std::vector<std::pair<double, double>> all;
  std::vector<std::vector<std::pair<double, double>>> settings(6), by_prompt(15);
  for (const auto& [policy, budget, prompt] : cells(policies, budgets, prompts)) {
    const double measure = static_cast<double>(random() % 8);
    const double outcome = static_cast<double>(random() % 3) / 2.0;
    made.set(0, policy, budget, prompt, measure);
    made.set(1, policy, budget, prompt, outcome);
    all.emplace_back(measure, outcome);
    settings[policy * budgets + budget].emplace_back(measure, outcome);
    by_prompt[prompt].emplace_back(measure, outcome);
  }
  const Foretelling row = foretell(made.table, "answer_found").at(0);
  EXPECT_THAT(row.pairs.value, DoubleNear(share_of_pairs(all), 1e-12));
  EXPECT_LE(row.pairs.low, row.pairs.value);
  EXPECT_GE(row.pairs.high, row.pairs.value);
  EXPECT_LT(row.pairs.low, 0.5);  // chance
  EXPECT_GT(row.pairs.high, 0.5);
  // Pairs of every setting, added.
  const auto added = [](const auto& groups) {
    double agree = 0.0, count = 0.0;
    for (const auto& runs : groups) {
      double pairs = 0.0;
      for (const auto& a : runs) {
        for (const auto& b : runs) pairs += a.second > b.second ? 1.0 : 0.0;
      }
      if (pairs > 0.0) agree += share_of_pairs(runs) * pairs;
      count += pairs;
    }
    return agree / count;
  };
  EXPECT_THAT(row.pairs_of_setting.value, DoubleNear(added(settings), 1e-12));
  EXPECT_THAT(row.pairs_of_prompt.value, DoubleNear(added(by_prompt), 1e-12));
}

TEST(Foretell, PromptsThatTheFullCacheFailsAreLeftOut) {
  Made made({"retained_mass"}, 2, 1, 3);
  for (const auto& [policy, prompt] : cells(2, 3)) {
    made.set(0, policy, 0, prompt, policy);
    made.set(1, policy, 0, prompt, prompt == 1 ? 0.0 : policy);
  }
  for (int prompt = 0; prompt < 3; ++prompt) {
    StudyResults::Item full = made.table.items[made.table.items.size() / 2];
    full.number = static_cast<int>(made.table.items.size());
    full.trace = "answer q.jsonl#" + std::to_string(prompt);
    full.policy = full.budget = kFullCache;
    made.table.items.push_back(full);
    for (std::size_t m = 0; m < 2; ++m) {
      made.table.values[m].push_back(prompt == 1 ? 0.0 : 1.0);
      made.table.has_value[m].push_back(m == 1 ? 1 : 0);
    }
  }
  const Foretelling row = foretell(made.table, "answer_found").at(0);
  EXPECT_EQ(row.prompts, 2);
  EXPECT_EQ(row.failed_prompts, 1);
}

TEST(Foretell, PromptsWithoutBothAreLeftOutAndNothingToCompareIsOneLine) {
  Made made({"retained_mass"}, 2, 1, 3);
  for (const auto& [policy, prompt] : cells(2, 3)) {
    made.set(0, policy, 0, prompt, policy);
    if (prompt < 2) made.set(1, policy, 0, prompt, policy);
  }
  EXPECT_EQ(foretell(made.table, "answer_found").at(0).prompts, 2);
  EXPECT_THAT(test::error_of<UsageError>([&] { foretell(made.table, "needle_found"); }),
              HasSubstr("answer_found"));
  for (StudyResults::Item& item : made.table.items) {
    if (item.task == kReplayTask) item.trace = "another.h5";
  }
  EXPECT_THROW(foretell(made.table, "answer_found"), UsageError);
}

TEST(Foretell, WhereAllPromptsAgreeAnIntervalHasAWidth) {
  Made made({"retained_mass"}, 2, 1, 3);
  for (const auto& [policy, prompt] : cells(2, 3)) {
    for (const std::size_t measure : {0U, 1U}) made.set(measure, policy, 0, prompt, policy);
  }
  const std::vector<Foretelling> rows = foretell(made.table, "answer_found");
  EXPECT_EQ(rows[0].pairs.value, 1.0);
  EXPECT_NEAR(rows[0].pairs.low, 0.4385, 1e-4);  // Wilson's of 3 of 3
  EXPECT_EQ(rows[0].settings.value, 1.0);
  EXPECT_TRUE(std::isnan(rows[0].settings.low));
  const std::string text = foretell_markdown(rows, "answer_found");
  EXPECT_THAT(text, HasSubstr("| 1.00 [unknown] | 100 % [44, 100] |"));
  EXPECT_THAT(text, HasSubstr("Fewer than 10 prompts"));
}

TEST(Foretell, TracesOfOneNameAreLeftOutUnlessTheirTokensTell) {
  Made made({"retained_mass"}, 2, 1, 4);
  for (StudyResults::Item& item : made.table.items) {
    if (const std::size_t at = item.trace.find("q-00003"); at != std::string::npos)
      item.trace = "other/q-00002.h5";
  }
  for (const auto& [policy, prompt] : cells(2, 4)) {
    for (const std::size_t measure : {0U, 1U}) made.set(measure, policy, 0, prompt, policy);
  }
  const std::vector<Foretelling> rows = foretell(made.table, "answer_found");
  EXPECT_EQ(rows[0].prompts, 2);
  EXPECT_EQ(rows[0].left_out, 2);
  EXPECT_THAT(foretell_markdown(rows, "answer_found"),
              HasSubstr("2 prompts (2 traces left out: their prompt or its name is there twice"));

  // Two traces and two prompts of one name, the other way round, in two models.
  test::TemporaryFolder folder;
  const auto write = [&](const std::string& file, const std::string& model, bool another) {
    Study study;
    study.model = model;
    study.measures = {"retained_mass"};
    study.tasks.resize(1);
    study.tasks[0].task = kAnswerTask;
    StudyPlan plan;
    std::vector<StudyOutcome> outcomes;
    for (const std::string name : {"a", "b"}) {
      test::SyntheticTraceOptions options{.seed = static_cast<std::uint64_t>(name[0])};
      const std::filesystem::path trace = folder / (name + "/p.h5");
      std::filesystem::create_directories(trace.parent_path());
      if (!std::filesystem::exists(trace)) test::write_synthetic_trace(trace, options);
      const Trace opened(trace);
      std::string ids;
      for (int i = 0; i < opened.run().prompt_length; ++i)
        ids += (i > 0 ? " " : "") + std::to_string(opened.tokens().ids[i]);
      const std::string other = name == "a" ? "b" : "a";
      for (const bool replay : {true, false}) {
        plan.sources.push_back({replay ? name + "/p.h5" : "answer: " + other + "/p.txt",
                                replay ? opened.identity() : "x",
                                replay ? kReplayTask : kAnswerTask});
        for (const double value : {0.0, 1.0}) {
          StudyItem item{.trace = static_cast<int>(plan.sources.size()) - 1,
                         .policy = value > 0.0 ? "h2o" : "keydiff",
                         .budget = "20%",
                         .block_word = "128"};
          StudyOutcome outcome;
          outcome.item = static_cast<int>(plan.items.size());
          // On b the measure says the opposite: only with the right prompt do all pairs agree.
          outcome.values = {{replay ? 0 : 1, -1, -1, -1, name == "a" ? value : 1.0 - value}};
          if (replay) outcome.model = another ? "v1:other" : "v1:" + model;
          if (!replay)
            outcome.prompt.stored =
                R"({"ids": ")" + ids + R"(", "fingerprint": "v1:)" + model + "\"}";
          outcomes.push_back(outcome);
          plan.items.push_back(item);
        }
      }
    }
    StudyResults results(folder / file, study, plan);
    for (const StudyOutcome& outcome : outcomes) results.record(outcome);
    return folder / file;
  };
  const auto one = write("one.sqlite", "small", false);
  const Foretelling row = foretell(read_study_table(one), "answer_found").at(0);
  EXPECT_EQ(row.prompts, 2);
  EXPECT_EQ(row.left_out, 0);
  EXPECT_EQ(row.pairs_of_prompt.value, 1.0);
  const std::string text = foretell_files(
      {one, write("two.sqlite", "large", false), write("three.sqlite", "small", false)},
      "answer_found");
  const std::size_t first = text.find("## small ("), other = text.find("## large (");
  ASSERT_NE(other, std::string::npos);
  EXPECT_EQ(first, 0U);
  EXPECT_LT(text.find("three.sqlite"), other) << "results of one model stand together";
  EXPECT_THROW(foretell(read_study_table(write("four.sqlite", "small", true)), "answer_found"),
               UsageError)
      << "replays of one model, runs of another";
}

TEST(ForetoldAnswers, AreOfMeasuresThatThereAreEachOnceTheBestFirst) {
  const auto& all = foretold_answers();
  ASSERT_FALSE(all.empty());
  std::set<std::string_view> names;
  double before = 1.0;
  for (const ForetoldAnswers& one : all) {
    EXPECT_TRUE(names.insert(one.measure).second) << one.measure;
    EXPECT_NO_THROW(require_measure(std::string(one.measure)));
    const double least = std::fmin(one.needles, one.things);  // of what is known
    EXPECT_LE(least, before) << one.measure;
    EXPECT_GE(least, -1.0);
    before = least;
  }
}

TEST(ForetoldAnswers, TheTextSaysHowWellAndNothingOfOthers) {
  EXPECT_THAT(foretold_text("answer_residual_change"), HasSubstr("(31 needles)"));
  EXPECT_THAT(foretold_text("answer_residual_change"), HasSubstr("(21 things)"));
  EXPECT_EQ(foretold_text("retained"), "");
}

}  // namespace
}  // namespace kvloupe::test
