// Every score of the catalogue with every set of modifiers: refused with a reason, or all
// properties of a policy hold. New entries of the catalogue are tested here without a change.

#include "analysis/policy/kit/layer_preference.h"
#include "tests/support/catalogue_parts.h"
#include "tests/support/record_values.h"
#include "tests/support/resting_states.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

using test::part_text;

bool text_has(const std::string& text, const std::string& argument) {
  return text.find('(' + argument) != std::string::npos;
}

/// The part in every word and flag of its parameters.
std::vector<std::string> variants(const PolicyEntry& score) {
  std::vector<std::string> texts = {part_text(score)};
  for (const ParameterInfo& parameter : score.parameters) {
    std::vector<std::string> values = parameter.words;
    if (parameter.type == ParameterType::flag) values.emplace_back("1");
    for (const std::string& value : values) {
      if (parameter.default_value == SpecValue(value) || text_has(part_text(score), value))
        continue;
      std::string text = part_text(score);
      const std::string argument = parameter.name + "=" + value;
      if (text.back() == ')') {
        text.insert(text.size() - 1, "," + argument);
      } else {
        text += "(" + argument + ")";
      }
      if (score.kind() == PartKind::score &&
          has_trait(parse_policy(text), &PolicyTraits::reads_probe))
        continue;  // made layers have none
      texts.push_back(text);
    }
  }
  return texts;
}

/// Modifiers by which a person intervenes: tests/analysis/intervention_test.cpp.
bool is_intervention(const PolicyEntry& entry) {
  return entry.name == "keep" || entry.name == "drop";
}

/// Modifiers that say which sets an engine can hold: with every score and some of the others,
/// below.
bool is_of_engine(const PolicyEntry& entry) {
  return entry.name == "shared" || entry.name == "pages";
}

/// Every set of modifiers, as text that follows a score.
std::vector<std::string> modifier_sets() {
  std::vector<std::string> sets = {""};
  for (const PolicyEntry& entry : policy_catalog()) {
    if (entry.kind() == PartKind::score || is_intervention(entry)) continue;
    if (!test::stands_alone(entry) || is_of_engine(entry)) continue;
    const std::size_t before = sets.size();
    for (std::size_t i = 0; i < before; ++i) sets.push_back(sets[i] + "+" + part_text(entry));
  }
  return sets;
}

/// The reason for which a spec is refused; empty where it is not.
std::string refusal(const std::string& text) {
  return test::error_of<UsageError>([&] { check_combination(parse_policy(text)); });
}

class Combinations : test::MadeLayerReplays {
 public:
  /// `window`: the model's; 0: none. `rest`: by how much token 0's logit exceeds the others, in
  /// every query; 0: as it comes.
  explicit Combinations(int window = 0, float rest = 0.0F)
      : MadeLayerReplays({.layers = 1,
                          .head_dim = 4,
                          .hidden_size = 6,
                          .prompt_length = 24,
                          .generated = 2,
                          .sliding_window = window,
                          .seed = 21,
                          .clusters = 3}) {
    if (rest > 0.0F) test::rest_on_first(made_, rest);
    states_ = test::made_layer(made_, 0);
    context_.layer = kLayer;
    context_.model.num_layers = 3;
  }

  /// Counts it; ends a test that fails.
  void check_or_refuse(const std::string& text) {
    const std::string reason = refusal(text);
    if (reason.empty()) {
      check(text);
    } else {
      ++refused;
      EXPECT_GT(reason.size(), 30U) << text;
    }
    if (testing::Test::HasFailure()) FAIL() << text;
  }

  void check(const std::string& text) {
    SCOPED_TRACE(text);
    ++allowed;
    const Replay full = run(text, options_.tokens(), kBlock);
    for (const HeadReplay& head : full.heads) expect_lossless(full, head);
    const Replay cut = run(text, kBudget, kBlock);
    test::expect_same_sets(cut, run(text, kBudget, kBlock), "again");
    for (std::size_t head = 0; head < cut.heads.size(); ++head) {
      expect_no_resurrection(cut, cut.heads[head]);
      if (!makes_entries(parse_policy(text))) expect_bounded(cut.heads[head]);
    }
    if (parse_policy(text).find("pages") != nullptr) {
      expect_whole_pages(text, cut);
    } else {
      expect_budget(text, cut);
    }
    if (parse_policy(text).find("shared") != nullptr) expect_one_set(cut);
    const naive::Comparison found = compared(cut);
    EXPECT_EQ(found.failure, "");
    near_ties += found.near_ties;
    decisions += found.decisions;
  }

  long decisions = 0, near_ties = 0;
  int allowed = 0, refused = 0;

 private:
  static constexpr int kBlock = 8;
  static constexpr int kBudget = 7;
  static constexpr int kLayer = 2;  // of three, for pyramid

  static bool has(const std::string& text, PartKind kind) {
    return has_part(parse_policy(text), kind);
  }

  /// The step after which no later query sees a token, by the mask alone; −1: never.
  int leaves_at(int token) const {
    const int window = options_.sliding_window;
    for (std::size_t step = 0; window > 0 && step < blocks_.size(); ++step) {
      const int next_query = blocks_[step].end;
      if (token < next_query && next_query - token >= window) return static_cast<int>(step);
    }
    return -1;
  }

  void expect_lossless(const Replay& replay, const HeadReplay& head) const {
    for (std::size_t token = 0; token < head.evicted_at.size(); ++token) {
      const int at = static_cast<int>(token);
      ASSERT_EQ(head.evicted_at[token], leaves_at(at));
      ASSERT_EQ(replay.left_unseen(head, at), leaves_at(at) >= 0);
    }
    for (const StepRecord& record : head.steps) {
      ASSERT_TRUE(record.merges.empty() && record.gifts.empty());
      for (const QueryHeadMetrics& metrics : test::metrics_of(record)) {
        ASSERT_NEAR(metrics.retained_mass, 1.0, 1e-12);
        ASSERT_EQ(metrics.perturbation_l1, 0.0);
        ASSERT_EQ(metrics.head_error_l2, 0.0);
      }
    }
  }

  void expect_no_resurrection(const Replay& replay, const HeadReplay& head) const {
    std::vector<std::int32_t> expected;
    for (std::size_t s = 0; s < head.steps.size(); ++s) {
      const int step = static_cast<int>(s);
      for (int token = replay.blocks[s].first; token < replay.blocks[s].end; ++token) {
        expected.push_back(token);
      }
      std::erase_if(expected, [&](std::int32_t token) {
        const int leaves = leaves_at(token);
        const bool left = leaves >= 0 && leaves <= step;
        // A token that left the window is said to have left then, unless it was evicted before.
        EXPECT_TRUE(!left || head.evicted_at[token] <= leaves);
        return left;
      });
      ASSERT_EQ(replay.tokens_at(head, step), expected);
      ASSERT_EQ(head.steps[s].cache_size, static_cast<int>(expected.size()));
      expected = replay.retained_at(head, step);
      ASSERT_EQ(head.steps[s].retained, static_cast<int>(expected.size()));
    }
  }

  static void expect_bounded(const HeadReplay& head) {
    for (const StepRecord& record : head.steps) {
      for (const QueryHeadMetrics& metrics : test::metrics_of(record)) {
        ASSERT_LE(metrics.perturbation_l1, metrics.bound_l1 * (1.0 + 1e-6) + 1e-6);
        ASSERT_LE(metrics.perturbation_l2, metrics.bound_l2 * (1.0 + 1e-6) + 1e-6);
        ASSERT_LE(metrics.perturbation_l2, metrics.perturbation_l1 * (1.0 + 1e-12));
        ASSERT_GT(metrics.retained_mass, 0.0);
        ASSERT_LE(metrics.retained_mass, 1.0 + 1e-12);
      }
    }
  }

  /// How many of the tokens so far a later query sees.
  int seen_after(std::size_t step) const {
    const int end = blocks_[step].end;
    return options_.sliding_window == 0 ? end : std::min(end, options_.sliding_window - 1);
  }

  /// Kept = budget, but: full keeps all; adakv shares the layer's sum out among its heads, pyramid
  /// moves it between layers; kvmerger may leave fewer where a set of many became one.
  void expect_budget(const std::string& text, const Replay& replay) const {
    const PolicySpec policy = parse_policy(text);
    const SpecPart* pyramid = policy.find("pyramid");
    for (std::size_t s = 0; s < blocks_.size(); ++s) {
      const int budget = pyramid == nullptr
                             ? kBudget
                             : pyramid_budget(kLayer, context_.model.num_layers, kBudget,
                                              pyramid->number("beta"), seen_after(s));
      int entries = 0, kept = 0;
      for (const HeadReplay& head : replay.heads) {
        const StepRecord& record = head.steps[s];
        entries += record.cache_size;
        kept += record.retained;
        if (policy.score().name == "full") {
          ASSERT_EQ(record.retained, record.cache_size);
        } else if (policy.find("adakv") != nullptr) {
          ASSERT_GE(record.retained, std::min(record.cache_size, 1));
        } else if (policy.find("kvmerger") != nullptr) {
          ASSERT_LE(record.retained, std::min(record.cache_size, budget));
          ASSERT_GE(record.retained, std::min(record.cache_size, 1));
        } else {
          ASSERT_EQ(record.retained, std::min(record.cache_size, budget));
        }
      }
      if (policy.find("adakv") == nullptr) continue;
      const int most = std::min(entries, budget * static_cast<int>(replay.heads.size()));
      if (policy.find("adakv")->word("mode") == "mix") {
        ASSERT_NEAR(kept, most,
                    static_cast<double>(replay.heads.size()));  // rounding: a note says so
      } else if (policy.find("kvmerger") == nullptr) {
        ASSERT_EQ(kept, most);
      } else {
        ASSERT_LE(kept, most);
      }
    }
  }

  /// Once a head holds more than its budget, so many whole pages of it stay, the last page
  /// included.
  void expect_whole_pages(const std::string& text, const Replay& replay) const {
    const PolicySpec policy = parse_policy(text);
    const int size = policy.find("pages")->count("size");
    const SpecPart* pyramid = policy.find("pyramid");
    for (const HeadReplay& head : replay.heads) {
      for (std::size_t s = 0; s < blocks_.size(); ++s) {
        const int budget = pyramid == nullptr
                               ? kBudget
                               : pyramid_budget(kLayer, context_.model.num_layers, kBudget,
                                                pyramid->number("beta"), seen_after(s));
        const StepRecord& record = head.steps[s];
        std::map<int, int> before, after;  // entries by page
        for (const int token : replay.tokens_at(head, static_cast<int>(s))) ++before[token / size];
        for (const int token : replay.retained_at(head, static_cast<int>(s))) ++after[token / size];
        for (const auto& [page, entries] : after) ASSERT_EQ(entries, before.at(page));
        if (record.cache_size <= budget || policy.score().name == "full") {
          ASSERT_EQ(record.retained, record.cache_size);
          continue;
        }
        const int last = (blocks_[s].end - 1) / size;
        ASSERT_EQ(after.count(last), 1U);
        ASSERT_EQ(static_cast<int>(after.size()),
                  std::min(static_cast<int>(before.size()), std::max(budget / size, 1)));
        ASSERT_LE(record.retained, std::max(budget, size));
      }
    }
  }

  void expect_one_set(const Replay& replay) const {
    for (const HeadReplay& head : replay.heads) {
      ASSERT_EQ(head.evicted_at, replay.heads.front().evicted_at);
    }
  }

  const std::vector<Block> blocks_ = make_blocks(24, 2, kBlock);
};

struct Setting {
  int window = 0;
  float rest = 0.0F;
};
std::ostream& operator<<(std::ostream& out, const Setting& setting) {
  return out << "window " << setting.window << ", rest " << setting.rest;
}

class CombinationsOfASetting : public testing::TestWithParam<Setting> {};

// Windows of the 26 tokens: none; no multiple of the blocks of 8, with more entries than the
// budget. A sink that leaves the others a share of 1e-9. (One that leaves them nothing a float32
// can hold makes ties of all others, and heavy hitters and merging sets a matter of chance.)
INSTANTIATE_TEST_SUITE_P(Settings, CombinationsOfASetting,
                         testing::Values(Setting{0}, Setting{13}, Setting{0, 25.0F}));

TEST_P(CombinationsOfASetting, EveryOneIsRefusedWithAReasonOrHoldsWhatAPolicyMust) {
  Combinations combinations(GetParam().window, GetParam().rest);
  for (const PolicyEntry& score : policy_catalog()) {
    if (score.kind() != PartKind::score || !test::stands_alone(score)) continue;
    for (const std::string& modifiers : modifier_sets()) {
      ASSERT_NO_FATAL_FAILURE(combinations.check_or_refuse(part_text(score) + modifiers));
    }
  }
  // 29 scores × protection 4 × (allocation 4 × (plain, caote, fastcaote) × selection 2 × (plain,
  // kvmerger, cam, tome), or by chunks: pyramid or none × (plain, cam, tome)), attentionmatching,
  // which makes entries itself, with all of these but merging, and full alone.
  EXPECT_EQ(combinations.allowed, 29 * 4 * (4 * 3 * 2 * 4 + 2 * 3) + 4 * (4 * 3 * 2 + 2) + 1);
  EXPECT_EQ(combinations.allowed + combinations.refused, 31 * 2048);
  EXPECT_LE(combinations.near_ties, combinations.decisions / 10000);
  RecordProperty("near_ties", std::to_string(combinations.near_ties) + " of " +
                                  std::to_string(combinations.decisions));
}

TEST_P(CombinationsOfASetting, SetsOfAnEngineAreRefusedOrHoldWhatAPolicyMust) {
  Combinations combinations(GetParam().window, GetParam().rest);
  std::vector<std::string> others = {"", "+recent(30%)+sinks(1)"};
  for (const PolicyEntry& entry : policy_catalog()) {
    if (entry.kind() == PartKind::score || is_intervention(entry) || is_of_engine(entry)) continue;
    if (test::stands_alone(entry)) others.push_back("+" + part_text(entry));
  }
  // Ranks are whole numbers: a tie of scores in float32 is a whole place, and no near tie. Beside a
  // sink that leaves the others next to nothing, ties are many.
  std::vector<std::string> sets = {"+shared", "+pages(3)", "+shared+pages(3)"};
  if (GetParam().rest == 0.0F)
    sets.insert(sets.end(), {"+shared(rank)", "+shared(votes)+pages(2)"});
  for (const PolicyEntry& score : policy_catalog()) {
    if (score.kind() != PartKind::score || !test::stands_alone(score)) continue;
    for (const std::string& other : others) {
      for (const std::string& set : sets) {
        ASSERT_NO_FATAL_FAILURE(combinations.check_or_refuse(part_text(score) + other + set));
      }
    }
  }
  EXPECT_GT(combinations.allowed, 29 * 3 * 4);
  EXPECT_GT(combinations.refused, 29 * 3 * 4);
  // A near tie of two pages counts for all of their entries; beside a sink there are more of them.
  EXPECT_LE(combinations.near_ties,
            combinations.decisions / (GetParam().rest == 0.0F ? 1000 : 400));
}

class VariantsOfAWindow : public testing::TestWithParam<int> {};

// One token, below the blocks, as long as one, one more, more than one, all but one.
INSTANTIATE_TEST_SUITE_P(Windows, VariantsOfAWindow, testing::Values(0, 1, 3, 8, 9, 12, 20, 25));

TEST_P(VariantsOfAWindow, EveryVariantOfEveryPartAlone) {
  Combinations combinations(GetParam());
  std::vector<std::string> texts;
  // Modifiers in every word and flag, on a score of attention and on one of keys.
  for (const PolicyEntry& part : policy_catalog()) {
    if (is_intervention(part) || !test::stands_alone(part)) continue;
    for (const std::string& text : variants(part)) {
      if (part.kind() == PartKind::score) {
        texts.push_back(text);
      } else {
        texts.insert(texts.end(), {"h2o+" + text, "keydiff+" + text});
      }
    }
  }
  for (const char* anchor : {"mean", "rawmean", "median", "pairwise"}) {
    for (const char* metric : {"cosine", "dot", "euclidean"}) {
      texts.push_back(std::string("keydiff(") + anchor + "," + metric + ")+critical+cam");
    }
  }
  for (const char* variable :
       {"attn_last", "attn_sum", "attn_window", "cos_anchor", "cos_mean", "key_norm", "value_norm",
        "value_out_norm", "dist_output", "age", "position", "is_recent", "n", "budget"}) {
    texts.push_back("expr(\"" + std::string(variable) + "\")+recent(2)+kvmerger(0.4,recent=2)");
  }
  for (const std::string& text : texts) {
    combinations.check(text);
    if (HasFailure()) FAIL() << text;
  }
  EXPECT_GT(texts.size(), 70U);
}

}  // namespace
}  // namespace kvloupe
