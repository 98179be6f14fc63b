// Small parts of the window's state, without a window.

#include "app/figure/figures/overview_measures.h"
#include "app/session/interventions.h"
#include "app/window/state/expectations.h"
#include "app/window/state/policy_choice.h"
#include "app/window/state/preferences.h"
#include "app/window/state/recent_files.h"
#include "app/window/state/step_tokens.h"
#include "app/window/widgets/numbers.h"
#include "app/window/widgets/search_list.h"
#include "app/window/widgets/text_search.h"
#include "tests/support/test.h"

namespace kvloupe::window {
namespace {

using Texts = std::vector<std::string>;

TEST(RecentFiles, KeepTheNewestFirstAndSurvive) {
  const test::TemporaryFolder folder;
  const auto list = folder.path() / "state" / "recent";
  {
    RecentFiles recent(list);
    EXPECT_THAT(recent.files(), IsEmpty());
    recent.add("/a.h5");
    recent.add("/b.h5");
    recent.add("/a.h5");
  }
  EXPECT_THAT(RecentFiles(list).files(), ElementsAre("/a.h5", "/b.h5"));
  RecentFiles many(list);
  for (int i = 0; i < 50; ++i) many.add("/" + std::to_string(i) + ".h5");
  EXPECT_EQ(RecentFiles(list).files().size(), 8U);
  EXPECT_EQ(RecentFiles(list).files().front(), "/49.h5");
}

TEST(RecentFiles, ABrokenOrUnwritableListIsNoFuss) {
  const test::TemporaryFolder folder;
  const auto list = folder.path() / "recent";
  std::ofstream(list, std::ios::binary)
      << std::string("\0\1\2garbage\nrelative/path\n/good.h5\n/bad\x01.h5\n", 42);
  EXPECT_THAT(RecentFiles(list).files(), ElementsAre("/good.h5"));
  RecentFiles nowhere("/proc/none/recent");
  EXPECT_NO_THROW(nowhere.add("/a.h5"));
  EXPECT_THAT(nowhere.files(), ElementsAre("/a.h5"));
  RecentFiles folder_list(folder.path());
  EXPECT_NO_THROW(folder_list.add("/a.h5"));
}

struct PreferencesFile : testing::Test {
  Preferences read(const std::string& text) {
    std::ofstream(path()) << text;
    return read_preferences(path());
  }
  std::filesystem::path path() { return folder_.path() / "preferences.json"; }
  test::TemporaryFolder folder_;
};

TEST_F(PreferencesFile, WhatIsWrittenIsReadAndTheFolderIsMade) {
  Preferences p;
  p.theme = Theme::dark;
  p.amounts = figure::AmountMap::grey;
  p.scale = 1.25;
  p.patterns = false;
  p.reduced_motion = true;
  p.model = "/models/träumer";
  p.export_format = "pdf";
  p.export_size = "double column";
  p.export_text = 7.5;
  p.plugins = {"/a/b.so", "/ä/c.so"};
  p.sizes = {.left = 0.25, .bottom = 0.4, .tiles = {{2, {0.25, 0.75}}, {4, {0, 0, 0.4, 0.6}}}};
  const auto file = folder_.path() / "a" / "b" / "preferences.json";
  write_preferences(p, file);
  EXPECT_EQ(read_preferences(file), p);
  p.theme = Theme::high_contrast;
  p.patterns.reset();
  write_preferences(p, file);
  EXPECT_EQ(read_preferences(file), p);
}

TEST_F(PreferencesFile, WhatIsBrokenIsAsIfItWereNotThere) {
  EXPECT_EQ(read_preferences(folder_.path() / "none.json"), Preferences{});
  EXPECT_EQ(read_preferences(folder_.path()), Preferences{});
  for (const char* text :
       {"", "[1]", "{\"theme\"", "{\"theme\": 3, \"scale\": 1e9, \"colours\": \"pink\"}"}) {
    EXPECT_EQ(read(text), Preferences{}) << text;
  }
  EXPECT_EQ(read(R"({"plugins": "x.so"})"), Preferences{});
  EXPECT_EQ(read(R"({"patterns": "on", "reduced_motion": 1})"), Preferences{});
  for (const char* sizes :
       {"3", "[]", R"({"left": "wide", "right": -1, "bottom": 1e9, "tiles": []})",
        R"({"left": 300.5, "bottom": 398})",  // pixels of an earlier version
        R"({"tiles": {"2": [0.5], "3": [0.2, "x", 0.3], "4": [0.1, 0.1, 0.1, 1.5], "9": [1]}})"}) {
    EXPECT_EQ(read(std::string("{\"sizes\": ") + sizes + "}"), Preferences{}) << sizes;
  }
  EXPECT_EQ(read(R"({"plugins": ["x.so", 3, null]})").plugins, std::vector<std::string>{"x.so"});
  EXPECT_EQ(read(R"({"scale": "large", "model": "/m"})").model, "/m") << "the rest still counts";
}

TEST_F(PreferencesFile, WhatCannotBeWrittenIsForgotten) {
  std::ofstream(path()) << "a file where a folder should be";
  EXPECT_NO_THROW(write_preferences({}, path() / "preferences.json"));
  EXPECT_NO_THROW(write_preferences({}, {}));
}

TEST(PolicyHistory, OneDragIsOneEntryAndRedoEndsWithANewChange) {
  WorkspaceState state;
  PolicyHistory history;
  history.follow(state, false);
  EXPECT_FALSE(history.undo(state));
  const std::string first = state.budget.text();
  for (const char* budget : {"26%", "30%", "40%"}) {
    state.budget = parse_budget(budget);
    history.follow(state, true);
  }
  history.follow(state, false);
  state.policy_a = parse_policy("snapkv");
  state.theme = Theme::dark;
  history.follow(state, false);

  EXPECT_TRUE(history.undo(state));
  EXPECT_EQ(state.policy_a.text(), "keydiff");
  EXPECT_EQ(state.budget.text(), "40%");
  EXPECT_EQ(state.theme, Theme::dark) << "no policy";
  history.follow(state, false);
  EXPECT_TRUE(history.undo(state));
  EXPECT_EQ(state.budget.text(), first);
  EXPECT_FALSE(history.undo(state));
  EXPECT_TRUE(history.redo(state));
  EXPECT_EQ(state.budget.text(), "40%");
  history.follow(state, false);
  EXPECT_TRUE(history.can_redo());
  state.policy_b_on = true;
  history.follow(state, false);
  EXPECT_FALSE(history.can_redo());
  EXPECT_TRUE(history.undo(state));
  EXPECT_FALSE(state.policy_b_on);
  EXPECT_EQ(state.budget.text(), "40%");
}

std::vector<std::string> specs_of(const std::string& policy) {
  std::vector<std::string> specs;
  for (const PolicyVariant& variant : variants_of(parse_policy(policy)))
    specs.push_back(variant.spec);
  return specs;
}

TEST(PolicyVariants, AreWhatMethodsName) {
  EXPECT_THAT(specs_of("h2o"), ElementsAre("h2o+recent(50%)", "h2o(visible)"));
  EXPECT_THAT(specs_of("tova"), Contains("tova(layer,protect_last=1)"));
  EXPECT_THAT(specs_of("snapkv"), Contains("snapkv(pool=max)"));
  EXPECT_THAT(specs_of("keydiff"), Contains("keydiff(pairwise)"));
}

TEST(PolicyVariants, LeaveTheOtherPartsAlone) {
  EXPECT_THAT(specs_of("h2o+caote"), Contains("h2o(visible)+caote"));
  EXPECT_THAT(specs_of("h2o+caote"), Contains("h2o+fastcaote"));
  EXPECT_THAT(specs_of("h2o+recent(10%)"), Contains("h2o+recent(50%)"))
      << "a variant's own part wins";
}

TEST(PolicyVariants, AreCanonicalNeverThePolicyItselfAndNeverTwice) {
  for (const PolicyEntry& entry : policy_catalog()) {
    const std::string score = entry.traits.reads_probe ? "kvzip+" : "h2o+";
    std::string spec = entry.kind() == PartKind::score ? entry.name : score + entry.name;
    if (!entry.parameters.empty() && entry.parameters.front().required) continue;
    const PolicySpec policy = parse_policy(spec);
    std::set<std::string> seen = {policy.text()};
    for (const PolicyVariant& variant : variants_of(policy)) {
      EXPECT_EQ(parse_policy(variant.spec).text(), variant.spec);
      EXPECT_TRUE(seen.insert(variant.spec).second) << variant.spec;
    }
  }
  EXPECT_THAT(specs_of("h2o(visible)"), Not(Contains("h2o(visible)")));
}

std::vector<SearchItem> items() {
  return {{.title = "Attention map", .group = "Keys", .help = "softmax"},
          {.title = "Film strip", .group = "Kept entries", .help = "tokens by steps"},
          {.title = "Similarity map", .group = "Keys", .help = "cosine; KeyDiff figure 2"},
          {.title = "Heatmap of sinks", .group = "Sinks", .help = "attention a token receives"}};
}

TEST(Search, AnEmptyQueryKeepsTheOrder) {
  EXPECT_THAT(search(items(), ""), ElementsAre(0, 1, 2, 3));
}

TEST(Search, TheTitleComesBeforeTheRestAndItsStartBeforeItsInside) {
  EXPECT_THAT(search(items(), "attention"), ElementsAre(0, 3));
  EXPECT_THAT(search(items(), "map"), ElementsAre(0, 2, 3)) << "a word's start before its inside";
}

TEST(Search, EveryWordMustBeThereInAnyOrderAndCase) {
  EXPECT_THAT(search(items(), "MAP sim"), ElementsAre(2));
  EXPECT_THAT(search(items(), "keydiff"), ElementsAre(2)) << "in the help";
  EXPECT_THAT(search(items(), "keys map"), ElementsAre(0, 2)) << "in the group";
  EXPECT_THAT(search(items(), "map nowhere"), IsEmpty());
}

TEST(Search, AFigureIsFoundByItsNameOnTheCommandLine) {
  const std::vector<SearchItem> views = {{.title = "Film strip", .name = "filmstrip"},
                                         {.title = "Keys in two components", .name = "pca"}};
  EXPECT_THAT(search(views, "pca"), ElementsAre(1));
}

TEST(Search, WhatCannotBeChosenComesLastInItsGroup) {
  std::vector<SearchItem> some = items();
  some.insert(some.begin() + 1, {.title = "Map of keys", .group = "Keys"});
  some[0].why_not = "Open a trace first.";
  EXPECT_THAT(search(some, ""), ElementsAre(1, 0, 2, 3, 4));
  EXPECT_THAT(search(some, "map"), ElementsAre(1, 3, 4, 0)) << "of the best places, too";
}

TEST(Search, AnyBytesAreSearchedFor) {
  EXPECT_THAT(search(items(), "\xff\xfe"), IsEmpty());
  EXPECT_THAT(search({}, "a"), IsEmpty());
}

TEST(TextSearch, FindsTextAcrossTheBordersOfTokens) {
  const Texts texts = {"The", " hid", "den num", "ber", " is", " 7"};
  EXPECT_THAT(find_text(texts, "hidden number"), ElementsAre(TextHit{1, 1, 3, 3}));
  EXPECT_THAT(find_text(texts, "e"),
              ElementsAre(TextHit{0, 2, 0, 3}, TextHit{2, 1, 2, 2}, TextHit{3, 1, 3, 2}));
  EXPECT_THAT(find_text(texts, "hidden  number"), IsEmpty());
  EXPECT_THAT(find_text(texts, ""), IsEmpty());
  EXPECT_THAT(find_text({}, "a"), IsEmpty());
}

TEST(TextSearch, CaseDoesNotCountInAnyAlphabet) {
  const Texts texts = {"Über", " STRASSE", " Ελλάδα", " МОСКВА", " 😀", "🎉"};
  EXPECT_THAT(find_text(texts, "üBER"), ElementsAre(TextHit{0, 0, 0, 5}));
  EXPECT_THAT(find_text(texts, "strasse"), ElementsAre(TextHit{1, 1, 1, 8}));
  EXPECT_EQ(find_text(texts, "ΕΛΛΆΔΑ").size(), 1U);
  EXPECT_EQ(find_text(texts, "москва").size(), 1U);
  EXPECT_THAT(find_text(texts, "🎉"), ElementsAre(TextHit{5, 0, 5, 4})) << "and no other sign";
}

TEST(TextSearch, ASpaceAlsoStandsForALineBreak) {
  const Texts texts = {"end.", "↵", "Next→cell"};
  EXPECT_THAT(find_text(texts, ". next cell"), ElementsAre(TextHit{0, 3, 2, 11}));
}

TEST(TextSearch, HitsDoNotOverlapAndHalfACharacterIsNone) {
  EXPECT_EQ(find_text(Texts{"aaaa"}, "aa").size(), 2U);
  EXPECT_EQ(find_text(Texts{"é"}, "\xA9").size(), 0U);
  EXPECT_EQ(find_text(Texts{"a\xFF"}, "\xFF").size(), 1U) << "no text loses its way";
}

TEST(TextSearch, GoesRoundAndSaysWhereItIs) {
  const Texts texts = {"a", "b", "a", "B", "a"};
  TextSearch search;
  EXPECT_EQ(search.place_text(), "");
  search.query = "a";
  search.follow("text", texts);
  EXPECT_EQ(search.place_text(), "1 of 3");
  search.go(-1);
  EXPECT_EQ(search.place_text(), "3 of 3");
  search.go(1);
  search.go(1);
  EXPECT_EQ(search.hit()->first, 2);
  search.query = "ab";
  search.follow("text", texts);
  EXPECT_EQ(search.place_text(), "2 of 2") << "the one in hand goes on";
  search.query = "b";
  search.follow("text", texts);
  EXPECT_EQ(search.hit()->first, 3);
  search.follow("another text", Texts{"x"});
  EXPECT_EQ(search.place_text(), "not found");
  EXPECT_EQ(search.hit(), nullptr);
  search.go(1);
  EXPECT_EQ(search.current(), -1);
}

std::string intervened(const std::string& spec, Intervention what, TokenRange tokens,
                       std::optional<HeadIndex> head) {
  return with_intervention(parse_policy(spec), what, tokens, head).text();
}

TEST(Interventions, NameTheTokensAndTheHeadOrAddThemToOneThatIsThere) {
  constexpr auto keep = Intervention::keep, drop = Intervention::drop;
  const HeadIndex head{2, 1};
  const std::string one = R"(keydiff+keep("12",heads="2.1"))", some = R"(keydiff+keep("12-19"))";
  for (const auto& [spec, what, tokens, at, expected] :
       std::vector<std::tuple<std::string, Intervention, TokenRange, std::optional<HeadIndex>,
                              std::string>>{
           {"keydiff", keep, {12, 13}, head, one},
           {"keydiff", keep, {12, 13}, {}, R"(keydiff+keep("12"))"},
           {"h2o+recent(3)",
            drop,
            {7, 8},
            HeadIndex{0, 0},
            R"(h2o+recent(3)+drop("7",heads="0.0"))"},
           {"full", drop, {7, 8}, {}, R"(full+drop("7"))"},
           {one, keep, {14, 15}, head, R"(keydiff+keep("12;14",heads="2.1"))"},
           {one, keep, {12, 13}, HeadIndex{3, 0}, R"(keydiff+keep("12",heads="2.1;3.0"))"},
           {one, keep, {12, 13}, {}, R"(keydiff+keep("12"))"},
           {R"(h2o+keep("10-20",heads="2"))",
            keep,
            {15, 16},
            head,
            R"(h2o+keep("10-20",heads="2"))"},  // named already
           {"keydiff", keep, {12, 20}, head, R"(keydiff+keep("12-19",heads="2.1"))"},
           {some, keep, {14, 19}, {}, some},  // all named already
           {some, keep, {14, 25}, {}, R"(keydiff+keep("12-19;14-24"))"}}) {
    EXPECT_EQ(intervened(spec, what, tokens, at), expected);
  }
}

TEST(Interventions, WhatCannotBeIsRefused) {
  EXPECT_THROW(intervened("full", Intervention::keep, TokenRange{1, 2}, std::nullopt), UsageError);
  EXPECT_THROW(intervened("nonsense", Intervention::keep, TokenRange{1, 2}, std::nullopt),
               UsageError);
}

// The text of a token's card about the model's own expectations.

float log_of(double probability) { return static_cast<float>(std::log(probability)); }

/// Three tokens, 7 8 9, and the two most probable ones after each.
Expectations three_tokens() {
  Expectations expected;
  expected.ids = {7, 8, 9};
  expected.predicted.k = 2;
  expected.predicted.token_ids = {8, 5, 6, 5, 5, 6};
  expected.predicted.logprob = {log_of(0.971), log_of(0.026), log_of(0.5),
                                log_of(0.25),  log_of(0.9),   log_of(0.0001)};
  expected.predicted.loss = {-log_of(0.971), -log_of(0.00002),
                             std::numeric_limits<float>::quiet_NaN()};
  expected.texts = {{8, " cat"}, {5, "\n"}};
  return expected;
}

TEST(Expectations, SayHowLikelyATokenWas) {
  const Expectations expected = three_tokens();
  EXPECT_EQ(likelihood_text(expected, 0), "") << "nothing comes before the first";
  EXPECT_EQ(likelihood_text(expected, 1), "The model gave it 97 %, its first choice.");
  EXPECT_EQ(likelihood_text(expected, 2), "The model gave it under 0.1 % (not in its top 2).");
  EXPECT_EQ(likelihood_text(expected, 3), "");
  Expectations sure = expected;
  sure.predicted.loss = {-log_of(0.9971), -log_of(0.99998)};
  EXPECT_EQ(likelihood_text(sure, 1), "The model gave it 99.7 %, its first choice.");
  EXPECT_EQ(likelihood_text(sure, 2), "The model gave it over 99.9 % (not in its top 2).");
  Expectations cut = expected;
  cut.cut = true;
  cut.predicted.k = 0;
  cut.predicted.token_ids.clear();
  EXPECT_EQ(likelihood_text(cut, 1), "With eviction the model gave it 97 %.");
}

TEST(Expectations, SayWhatIsExpectedNext) {
  const Expectations expected = three_tokens();
  EXPECT_EQ(next_text(expected, 0), "Next it expects “ cat” 97 %, “↵” 2.6 %.");
  EXPECT_EQ(next_text(expected, 1), "Next it expects #6 50 %, “↵” 25 %.");
  EXPECT_EQ(next_text(expected, 2), "Next it expects “↵” 90 %.")
      << "what is next to nothing is left out";
  EXPECT_EQ(next_text(expected, 3), "");
  EXPECT_EQ(next_text(expected, -1), "");
  EXPECT_EQ(next_text({}, 0), "");
}

TEST(Expectations, ComeFromTheTrace) {
  const test::TemporaryFolder folder;
  test::SyntheticTraceOptions options;
  for (const bool vocabulary : {false, true}) {
    options.vocabulary = vocabulary;
    test::write_synthetic_trace(folder / "t.h5", options);
    const Trace trace(folder / "t.h5");
    const Expectations expected = read_expectations(trace);
    EXPECT_FALSE(expected.cut);
    EXPECT_EQ(likelihood_text(expected, 0), "");
    for (int token = 0; token < trace.length(); ++token) {
      const std::int32_t first = expected.predicted.token_ids[static_cast<std::size_t>(token) * 3];
      EXPECT_TRUE(next_text(expected, token).starts_with("Next it expects ")) << token;
      if (vocabulary && first % 7 != 3 && !expected.texts.contains(first)) ADD_FAILURE() << first;
      if (token > 0) {
        EXPECT_TRUE(likelihood_text(expected, token).starts_with("The model gave it 8.2 %"))
            << likelihood_text(expected, token);
      }
    }
  }
  options.predictions = false;
  test::write_synthetic_trace(folder / "t.h5", options);
  const Expectations none = read_expectations(Trace(folder / "t.h5"));
  EXPECT_EQ(likelihood_text(none, 5) + next_text(none, 5), "");
}

// The texts of the panels, without a window: numbers, the fate of tokens.

TEST(Numbers, HaveThreeSignificantDigitsAndARealMinus) {
  EXPECT_EQ(three_digits(0.12345), "0.123");
  EXPECT_EQ(three_digits(0.0012345), "0.00123");
  EXPECT_EQ(three_digits(-1.5), "−1.50");
  EXPECT_EQ(three_digits(9.999), "10.0");
  EXPECT_EQ(three_digits(99.96), "100");
  EXPECT_EQ(three_digits(12345.0), "12\u2009300");
  EXPECT_EQ(three_digits(4.56e-7), "4.56e−7");
  EXPECT_EQ(three_digits(1e12), "1.00e12");
  EXPECT_EQ(three_digits(0.0), "0");
  EXPECT_EQ(three_digits(std::nan("")), "–");
  EXPECT_EQ(three_digits(-std::numeric_limits<double>::infinity()), "−∞");
  EXPECT_EQ(count_text(1234), "1234");
  EXPECT_EQ(count_text(32768), "32\u2009768");
  EXPECT_EQ(count_text(-1234567), "−1\u2009234\u2009567");
  EXPECT_EQ(tokens_text(7, 7), "token 7");
  EXPECT_EQ(tokens_text(0, 32767), "tokens 0–32\u2009767");
}

TEST(Numbers, AreShownWholeOrNotAtAll) {
  const auto shown = [](const std::string& value, std::size_t room) {
    return whole_numbers(value, [room](const std::string& text) { return text.size() <= room; });
  };
  EXPECT_EQ(shown("493 / 546", 9), "493 / 546");
  EXPECT_EQ(shown("493 / 546", 8), "493 …");
  EXPECT_EQ(shown("0.771 (7)", 9), "0.771 (7)");
  EXPECT_EQ(shown("0.771 (7)", 8), "…") << "its first number has no room either";
  EXPECT_EQ(shown("419 (64)", 7), "419 …");
  EXPECT_EQ(shown("0.894", 4), "…");
}

TEST(RunText, SaysWhatIsKnownOnly) {
  RunInfo run{.dtype = "f32", .device = "cpu", .policy = "full"};
  EXPECT_EQ(run_text(run), "f32 on cpu, full cache");
  run.dtype.clear();
  EXPECT_EQ(run_text(run), "on cpu, full cache");
  run.device.clear();
  EXPECT_EQ(run_text(run), "full cache");
  run.dtype = "bf16";
  run.policy = "h2o";
  EXPECT_EQ(run_text(run), "bf16, h2o");
}

/// Two steps over six tokens: token 1 goes at step 0, token 3 at step 1.
Replay small_replay() {
  Replay replay;
  replay.blocks = {{0, 3}, {3, 6}};
  HeadReplay head;
  head.evicted_at = {-1, 0, -1, 1, -1, -1};
  head.steps.resize(2);
  head.steps[0].retained = 2;
  head.steps[1].retained = 4;
  head.scores = {{5.0F, 1.0F, 5.0F}, {3.0F, 2.0F, 1.0F, 7.0F, 2.0F}};
  head.fates = {{Fate::sink, Fate::evicted, Fate::by_score},
                {Fate::sink, Fate::by_score, Fate::evicted, Fate::by_score, Fate::recent}};
  replay.heads = {head};
  return replay;
}

TEST(StepTokens, SayWhatHasBecomeOfEveryToken) {
  using State = figure::TokenState;
  const Replay replay = small_replay();
  const StepTokens first = step_tokens(replay, replay.heads[0], 0);
  EXPECT_EQ(first.states, (std::vector<State>{State::protected_, State::evicted, State::retained,
                                              State::ahead, State::ahead, State::ahead}));
  EXPECT_EQ(first.leaving, (std::vector<bool>{false, true, false, false, false, false}));
  EXPECT_EQ(state_text(first, 0), "kept (sink)");
  EXPECT_EQ(state_text(first, 1), "evicted at this step");
  EXPECT_EQ(first.ranks, (std::vector<int>{2, 3, 1, 0, 0, 0}))
      << "of equal scores the later ranks higher";
  const StepTokens second = step_tokens(replay, replay.heads[0], 1);
  EXPECT_EQ(second.states,
            (std::vector<State>{State::protected_, State::evicted, State::retained, State::evicted,
                                State::retained, State::protected_}));
  EXPECT_EQ(second.leaving, (std::vector<bool>{false, false, false, true, false, false}));
  EXPECT_EQ(state_text(second, 1), "evicted");
  EXPECT_EQ(state_text(second, 5), "kept (recent)");
  EXPECT_EQ(second.ranks, (std::vector<int>{2, 0, 4, 5, 1, 3}));
  EXPECT_TRUE(std::isnan(second.scores[1]));
  EXPECT_EQ(step_tokens(replay, replay.heads[0], 9).scored, 0);
}

TEST(KeptOverlap, CountsWhatBothKeepAmongWhatEitherKeeps) {
  const Replay a = small_replay();
  Replay b = a;
  EXPECT_DOUBLE_EQ(figure::kept_overlap(a.heads[0], b.heads[0], 1, 6), 1.0);
  b.heads[0].evicted_at = {1, -1, -1, -1, -1, -1};
  // A keeps 0 2 4 5, B keeps 1 2 3 4 5.
  EXPECT_DOUBLE_EQ(figure::kept_overlap(a.heads[0], b.heads[0], 1, 6), 3.0 / 6.0);
}

TEST(StepTokensTest, TheShareOfHeadsThatHaveEachToken) {
  Replay replay = small_replay();
  replay.heads.push_back(replay.heads[0]);
  replay.heads[1].evicted_at.assign(replay.heads[0].evicted_at.size(), -1);
  const std::vector<float> share = share_of_heads(replay, 1);
  ASSERT_EQ(share.size(), replay.heads[0].evicted_at.size());
  for (std::size_t token = 0; token < share.size(); ++token) {
    const int gone = replay.heads[0].evicted_at[token];
    const bool seen = static_cast<int>(token) < replay.blocks[1].end;
    EXPECT_EQ(share[token], !seen ? 0.0F : gone < 0 || gone > 1 ? 1.0F : 0.5F) << token;
  }
}

TEST(Counts, OneTokenIsNoRange) {
  EXPECT_EQ(tokens_text(1924, 1924), "token 1924");
  EXPECT_EQ(tokens_text(7, 9), "tokens 7–9");
  EXPECT_EQ(token_count_text(1), "1 token");
  EXPECT_EQ(token_count_text(0), "0 tokens");
  EXPECT_EQ(token_count_text(12345), "12\u2009345 tokens");
}

}  // namespace
}  // namespace kvloupe::window
