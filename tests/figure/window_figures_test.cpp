// Figures of a model with a sliding window or chunks, of traces longer than it: every figure of the
// catalogue draws, and what lies beyond is nowhere counted as evicted or attended to.

#include "app/document/figure_file.h"
#include "tests/figure/made_figures.h"
#include "tests/figure/text_dump.h"
#include "tests/naive/naive_mask.h"
#include "tests/support/test.h"

namespace kvloupe::figure {
namespace {

using Row = test::CsvRow;

constexpr int kTokens = 104;

/// Tests with this window or these chunks.
struct WindowFigures : ::testing::TestWithParam<Reach> {
  WindowFigures() {
    test::SyntheticTraceOptions options{.sliding_window = GetParam().window,
                                        .chunk_size = GetParam().chunk,
                                        .clusters = 4,
                                        .lm_head = true};
    test::write_synthetic_closed_loop(folder_ / "closed.h5", options, "h2o", 8);
    full = test::open_synthetic_trace(folder_ / "full.h5", options);
    closed = std::make_shared<const Trace>(folder_ / "closed.h5");
  }
  static int window() { return GetParam().span(); }
  static std::string name() { return GetParam().name(); }
  static bool sees(int query, int key) {
    ModelInfo model{.sliding_window = GetParam().window, .chunk_size = GetParam().chunk};
    return naive::sees(model, query, key);
  }
  static request::FigureSettings settings(const std::string& policy) {
    return request::FigureSettings{
        .layer = 1, .head = 0, .policy = parse_policy(policy), .budget = parse_budget("8")};
  }
  MadeFigure make(const std::string& name, const request::FigureSettings& settings) const {
    const FigureInfo& info = find_figure(name);
    if (info.needs.both_loops)
      return request::FigureMaker({full, closed}).make(info, settings, test::unwatched);
    return request::FigureMaker(full).make(info, settings, test::unwatched);
  }
  std::vector<Row> rows(const std::string& name, const request::FigureSettings& settings) const {
    const std::vector<Row> rows = test::csv_rows(*make(name, settings).figure);
    EXPECT_FALSE(rows.empty());
    return rows;
  }
  Replay replay_of(const std::string& policy) const {
    return replay(*full, {.policy = parse_policy(policy), .budget = 8}, test::unwatched);
  }

  const test::TemporaryFolder folder_;
  std::shared_ptr<const Trace> full, closed;
};

/// Whether the model's queries leave a policy nothing to do: then a figure of what it did may say
/// so.
bool says_why(const WorkError& error) { return std::string(error.what()).size() > 25; }

TEST_P(WindowFigures, EveryFigureOfTheCatalogueDraws) {
  int drawn = 0, refused = 0;
  for (const FigureInfo& info : figure_catalog()) {
    if (info.needs.evaluation) continue;
    std::vector<request::FigureSettings> all(1, settings("h2o+recent(20%)+sinks(2)"));
    all.front().policy_b = parse_policy("keydiff");
    for (const int step : {0, 2, 10}) {
      all.push_back(all.front());
      all.back().step = step;
    }
    for (const int token : {0, 40, kTokens - 1}) {
      all.push_back(all.front());
      all.back().token = token;
      all.back().step = 10;
    }
    all.push_back(all.front());
    all.back().budget = parse_budget("200");
    for (const ChoiceInfo& choice : info.choices) {
      for (const std::string& value : choice.values) {
        all.push_back(all.front());
        all.back().choices[choice.name] = value;
      }
    }
    for (const request::FigureSettings& one : all) {
      SCOPED_TRACE(info.name + ", window " + std::to_string(window()));
      MadeFigure made;
      try {
        made = make(info.name, one);
      } catch (const WorkError& error) {
        // A window of one token leaves nothing to decide about; a token can lie beyond one.
        EXPECT_TRUE(says_why(error)) << error.what();
        EXPECT_TRUE(window() == 1 || one.token) << error.what();
        ++refused;
        continue;
      }
      ++drawn;
      for (const char* size : {"", "178x120mm", "40x40mm"}) {
        FileOptions options;
        if (*size != '\0') options.size = parse_page_size(size);
        const Scene scene = page_of(info, made, options, test::fonts());
        ASSERT_THAT(scene_problems(scene), IsEmpty());
        EXPECT_FALSE(scene.items.empty());
      }
      EXPECT_GT(file_of(info, made, FileFormat::csv, {}, test::fonts()).size(), 50U);
      EXPECT_GT(made.figure->caption().size(), 20U);
      EXPECT_EQ(made.figure->caption().find(" nan"), std::string::npos) << made.figure->caption();
      for (const int token : {0, 50, kTokens - 1}) {
        for (const int step : {0, 5, 10}) made.figure->value_text({token, 40, step, 1, 1});
      }
    }
  }
  EXPECT_GT(drawn, 200);
  EXPECT_LT(refused, window() == 1 ? drawn / 5 : drawn / 20);
}

TEST_P(WindowFigures, AttentionIsASoftmaxOverTheWindow) {
  request::FigureSettings wanted = settings("h2o");
  wanted.query_head = 1;
  std::map<int, double> sums;
  std::map<int, int> first;
  for (const Row& row : rows("attention", wanted)) {
    const int query = std::stoi(row.at("query_token")), key = std::stoi(row.at("key_token"));
    EXPECT_TRUE(sees(query, key)) << query << " " << key;
    sums[query] += test::csv_number(row, "attention");
    if (first.count(query) == 0) first[query] = key;
  }
  ASSERT_EQ(sums.size(), static_cast<std::size_t>(kTokens));
  for (const auto& [query, sum] : sums) EXPECT_NEAR(sum, 1.0, 1e-3) << query;
  for (const auto& [query, key] : first) {
    EXPECT_TRUE(key == 0 || !sees(query, key - 1)) << query << " " << key;
  }

  const MadeFigure made = make("attention", wanted);
  EXPECT_THAT(made.figure->caption(), HasSubstr("beyond the model's " + name()));
  const std::string beyond = made.figure->value_text({.token = 0, .other_token = kTokens - 1});
  EXPECT_THAT(beyond, HasSubstr("not seen"));
  EXPECT_EQ(made.figure->value_text({.token = 5, .other_token = 4}), "");
}

TEST_P(WindowFigures, TheFilmStripEndsAtTheWindowAndEvictsWhatThePolicyDid) {
  const Replay result = replay_of("h2o");
  const HeadReplay& head = *result.find(1, 0);
  std::map<int, std::set<int>> there, evicted;  // by step
  for (const Row& row : test::csv_rows(*make("filmstrip", settings("h2o")).figure)) {
    const int step = std::stoi(row.at("step")), token = std::stoi(row.at("token"));
    there[step].insert(token);
    if (row.at("state") == "evicted") evicted[step].insert(token);
  }
  for (int step = 0; step < static_cast<int>(result.blocks.size()); ++step) {
    const auto present = result.tokens_at(head, step), kept = result.retained_at(head, step);
    EXPECT_EQ(there[step], std::set<int>(present.begin(), present.end()));
    std::set<int> gone(present.begin(), present.end());
    for (const std::int32_t token : kept) gone.erase(token);
    EXPECT_EQ(evicted[step], gone);
  }
  const MadeFigure made = make("filmstrip", settings("h2o"));
  EXPECT_THAT(made.figure->caption(), HasSubstr("have left the model's " + name()));
  EXPECT_EQ(made.figure->value_text({.token = 0, .step = 10}), "beyond the " + name());
}

TEST_P(WindowFigures, TokensBeyondTheWindowAreNeitherKeptNorEvicted) {
  const Replay result = replay_of("h2o");
  const HeadReplay& head = *result.find(1, 0);
  request::FigureSettings wanted = settings("h2o");
  wanted.policy_b = parse_policy("keydiff");
  wanted.step = 9;
  std::map<std::string, int> states;
  for (const Row& row : rows("tokens", wanted)) {
    const int token = std::stoi(row.at("token"));
    const int left = head.evicted_at[token];
    const bool beyond = left >= 0 && left <= 9 && result.left_unseen(head, token);
    EXPECT_EQ(row.at("state") == "beyond_window", beyond) << token;
    ++states[row.at("state")];
  }
  EXPECT_GT(states["beyond_window"], 0);
  wanted.choices["show"] = "steps";
  for (const Row& row : test::csv_rows(*make("policy-diff", wanted).figure)) {
    EXPECT_GE(std::stoi(row.at("token")), result.first_token(head, std::stoi(row.at("step"))));
  }
}

TEST_P(WindowFigures, SinksAreOfTheQueriesThatSeeTheFirstToken) {
  request::FigureSettings wanted = settings("h2o");
  const std::string caption = make("sinks", wanted).figure->caption();
  EXPECT_THAT(caption, HasSubstr("that see it within the model's " + name()));
  wanted.choices["show"] = "averages";
  for (const Row& row : rows("sinks", wanted)) {
    const int query = std::stoi(row.at("query")), key = std::stoi(row.at("key"));
    EXPECT_TRUE(sees(query, key));
  }
}

// Windows for 104 tokens in blocks of 32: one, below the block, not a multiple of it, longer than
// two blocks. Chunks that end within blocks.
INSTANTIATE_TEST_SUITE_P(Windows, WindowFigures, ::testing::Values(1, 20, 45, 70));
INSTANTIATE_TEST_SUITE_P(Chunks, WindowFigures, ::testing::Values(Reach(0, 40, kTokens)));

}  // namespace
}  // namespace kvloupe::figure
