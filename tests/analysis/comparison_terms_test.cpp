// The terms of a fair comparison: the words beside the real decisions of policies when the
// question, or the budget, is another.

#include "analysis/policy/comparison_terms.h"
#include "analysis/replay/compression.h"
#include "analysis/replay/sweep.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

/// Every score of the catalogue that needs no argument, alone and with each modifier that goes with
/// it.
std::vector<PolicySpec> catalogue_policies() {
  std::vector<std::string> scores, modifiers;
  for (const PolicyEntry& entry : policy_catalog()) {
    const bool bare =
        std::none_of(entry.parameters.begin(), entry.parameters.end(),
                     [](const ParameterInfo& parameter) { return parameter.required; });
    if (!bare) continue;
    // At its defaults vase pins all places of these tests' budget that its window leaves.
    const std::string text = entry.name == "vase" ? "vase(4,8)" : entry.name;
    (entry.kind() == PartKind::score ? scores : modifiers).push_back(text);
  }
  std::vector<PolicySpec> policies;
  for (const std::string& score : scores) {
    policies.push_back(parse_policy(score));
    for (const std::string& modifier : modifiers) {
      try {
        PolicySpec policy = parse_policy(score + "+" + modifier);
        check_combination(policy);
        policies.push_back(std::move(policy));
      } catch (const UsageError&) {
      }
    }
  }
  return policies;
}

TEST(ComparisonTerms, EveryPolicyHasWordsThatHoldTogether) {
  const std::vector<PolicySpec> policies = catalogue_policies();
  EXPECT_GT(policies.size(), 100U);
  std::set<QuestionSeen> questions;
  std::set<BudgetCounts> budgets;
  for (const PolicySpec& policy : policies) {
    for (const Compression compression : {Compression::regular, Compression::context_only}) {
      for (const bool at_once : {false, true}) {
        const ComparisonTerms terms = comparison_terms(policy, compression, at_once);
        questions.insert(terms.question);
        budgets.insert(terms.budget);
        for (const std::string_view word :
             {term(terms.question), term(terms.prompt), term(terms.budget)}) {
          EXPECT_FALSE(word.empty()) << policy.text();
          EXPECT_EQ(word.find_first_of(",\"\n"), std::string_view::npos) << word;
        }
        for (const std::string& sentence : terms_sentences(terms)) {
          EXPECT_EQ(sentence.back(), '.') << sentence;
        }
        const bool everything = has_trait(policy, &PolicyTraits::keeps_everything) &&
                                !has_part(policy, PartKind::removal);
        EXPECT_EQ(terms.question == QuestionSeen::evicts_nothing, everything);
        const bool spared = everything || has_trait(policy, &PolicyTraits::spares_prompt);
        EXPECT_EQ(terms.prompt == PromptCompressed::never, spared);
        EXPECT_EQ(terms.budget == BudgetCounts::nothing, everything);
        const bool waits = policy.find("only") != nullptr;  // for what is generated
        EXPECT_TRUE(spared || (terms.prompt == PromptCompressed::after_read) == (at_once || waits));
        if (compression == Compression::context_only) {
          EXPECT_NE(terms.question, QuestionSeen::aware) << policy.text();
        }
      }
    }
  }
  EXPECT_GE(questions.size(), 4U);
  EXPECT_GE(budgets.size(), 4U);
  EXPECT_EQ(comparison_terms(parse_policy("external(\"scores.h5\")"), Compression::regular, false)
                .question,
            QuestionSeen::of_file);
  const auto prompt = [](const char* spec) {
    return comparison_terms(parse_policy(spec), Compression::regular, false).prompt;
  };
  EXPECT_EQ(prompt("h2o+only(prompt)"), PromptCompressed::while_read);
  EXPECT_EQ(prompt("h2o+only"), PromptCompressed::after_read);
  EXPECT_EQ(prompt("h2o+only+protect_prompt"), PromptCompressed::never);
  EXPECT_TRUE(comparison_terms(parse_policy("h2o+keep(\"3\",extra=1)"), Compression::regular, false)
                  .named_beside);
  EXPECT_FALSE(
      comparison_terms(parse_policy("h2o+keep(\"3\")"), Compression::regular, false).named_beside);
}

/// One layer, with a question at the end of its prompt.
struct TermsAndDeeds : testing::Test {
  static constexpr int kPrompt = 160, kQuestion = 40, kGenerated = 4, kBudget = 80, kBlock = 40;
  TermsAndDeeds() {
    options_.layers = 2;
    options_.query_heads = 4;
    options_.heads = 2;
    options_.prompt_length = kPrompt;
    options_.generated = kGenerated;
    options_.question = kQuestion;
    made_ = test::make_synthetic_states(options_);
  }

  /// The states, where queries from `first_other` on are others.
  LayerStates states(int layer, int first_other) const {
    LayerStates result = test::made_layer(made_, layer);
    std::mt19937 random(7);
    std::normal_distribution<float> normal(1.5F, 2.0F);
    for (Matrix& queries : result.queries) {
      for (Eigen::Index t = first_other; t < queries.rows(); ++t) {
        for (Eigen::Index c = 0; c < queries.cols(); ++c) queries(t, c) = normal(random);
      }
    }
    return result;
  }

  /// Nothing for a policy that needs what these states do not have.
  std::vector<HeadReplay> run(const PolicySpec& policy, const LayerStates& states, int layer,
                              Compression compression, bool at_once) const {
    const bool stops = compression == Compression::context_only;
    const std::vector<Block> blocks =
        make_blocks(kPrompt, kGenerated, at_once ? 0 : kBlock, stops ? kPrompt - kQuestion : 0);
    LayerContext context{.layer = layer,
                         .model = made_.model,
                         .attention = made_.run.attention_scale,
                         .budget = kBudget,
                         .prompt_length = kPrompt,
                         .output_weights = states.output_weights};
    LayerReplayInput input = {states, blocks, policy, context};
    input.metrics = false;
    if (stops) input.acts_until = kPrompt - kQuestion;
    // These read more than one layer, or texts, or keep all of a prompt as short as this.
    if (has_trait(policy, &PolicyTraits::reads_sequence) ||
        has_trait(policy, &PolicyTraits::reads_pass) ||
        has_trait(policy, &PolicyTraits::reads_structure) ||
        has_trait(policy, &PolicyTraits::spares_prompt) ||
        has_trait(policy, &PolicyTraits::budget_is_outcome)) {
      return {};
    }
    try {
      return replay_layer(input, test::unwatched);
    } catch (const WorkError&) {
      return {};
    }
  }

  /// Whether any head keeps other tokens.
  static bool differ(const std::vector<HeadReplay>& a, const std::vector<HeadReplay>& b) {
    return !std::equal(a.begin(), a.end(), b.begin(),
                       [](const HeadReplay& one, const HeadReplay& other) {
                         return one.evicted_at == other.evicted_at;
                       });
  }

  test::SyntheticTraceOptions options_;
  test::SyntheticStates made_;
};

TEST_F(TermsAndDeeds, OnlyQueryAwarePoliciesKeepOtherTokensForAnotherQuestion) {
  const LayerStates as_it_is = states(0, kPrompt + kGenerated);
  const LayerStates other_question = states(0, kPrompt - kQuestion);
  const LayerStates other_queries = states(0, 0);
  long aware = 0, agnostic = 0;
  for (const PolicySpec& policy : catalogue_policies()) {
    for (const Compression compression : {Compression::regular, Compression::context_only}) {
      for (const bool at_once : {false, true}) {
        const ComparisonTerms terms = comparison_terms(policy, compression, at_once);
        const auto run = [&](const LayerStates& states) {
          return this->run(policy, states, 0, compression, at_once);
        };
        const std::string where =
            policy.text() + ", " + compression_name(compression) + (at_once ? ", at once" : "");
        const bool judged = terms.question == QuestionSeen::agnostic ||
                            (terms.question == QuestionSeen::aware && policy.parts.size() == 1);
        if (!judged || run(as_it_is).empty()) continue;
        if (terms.question == QuestionSeen::agnostic) {
          ++agnostic;
          EXPECT_FALSE(differ(run(as_it_is), run(other_question))) << where;
          if (!terms.reads_queries) {
            EXPECT_FALSE(differ(run(as_it_is), run(other_queries))) << where;
          }
        } else {
          ++aware;
          EXPECT_TRUE(differ(run(as_it_is), run(other_question))) << where;
        }
      }
    }
  }
  EXPECT_GT(aware, 20);
  EXPECT_GT(agnostic, 200);
}

TEST_F(TermsAndDeeds, BudgetsCountWhatTheWordsSay) {
  std::set<BudgetCounts> counted;
  for (const PolicySpec& policy : catalogue_policies()) {
    // Merging and removal leave fewer entries than there is room for, schedules more.
    if (makes_entries(policy) || has_part(policy, PartKind::removal)) continue;
    if (has_part(policy, PartKind::schedule)) continue;
    const ComparisonTerms terms = comparison_terms(policy, Compression::regular, false);
    std::vector<int> entries;  // of each head of both layers, after the prompt's last step
    for (int layer = 0; layer < 2; ++layer) {
      const LayerStates own = states(layer, kPrompt + kGenerated);
      for (const HeadReplay& head : run(policy, own, layer, Compression::regular, false)) {
        entries.push_back(head.steps[kPrompt / kBlock - 1].retained);
      }
    }
    if (entries.empty()) continue;
    ASSERT_EQ(entries.size(), 4U) << policy.text();
    counted.insert(terms.budget);
    const int layer0 = entries[0] + entries[1], layer1 = entries[2] + entries[3];
    switch (terms.budget) {
      case BudgetCounts::each_head:
        EXPECT_EQ(entries, std::vector<int>(4, kBudget)) << policy.text();
        break;
      case BudgetCounts::mean_of_heads:
        EXPECT_EQ(layer0, 2 * kBudget) << policy.text();
        EXPECT_EQ(layer1, 2 * kBudget) << policy.text();
        break;
      case BudgetCounts::mean_of_layers:
      case BudgetCounts::mean_of_both:
        EXPECT_NE(layer0, layer1) << policy.text();
        EXPECT_NEAR(layer0 + layer1, 4 * kBudget, 2) << policy.text();
        break;
      case BudgetCounts::nothing:
        EXPECT_EQ(entries, std::vector<int>(4, kPrompt)) << policy.text();
        break;
      case BudgetCounts::outcome:
        break;
    }
  }
  EXPECT_GE(counted.size(), 4U);
}

TEST(ComparisonTerms, SentencesByHand) {
  const auto terms = [](const char* spec, Compression compression, bool at_once) {
    return comparison_terms(parse_policy(spec), compression, at_once);
  };
  EXPECT_EQ(terms_line(terms("h2o+adakv", Compression::regular, false)),
            "query-aware · while read · N: mean over heads");
  EXPECT_EQ(terms_line(terms("h2o", Compression::context_only, true)),
            "query-agnostic · after read · N: each head");
  EXPECT_EQ(terms_line(terms("full", Compression::regular, true)), "evicts nothing");
  // Layers' shares from the end of the prompt: not known while it is read.
  EXPECT_EQ(terms_line(terms("keydiff+cake", Compression::regular, false)),
            "sees the future · while read · N: mean over layers");
  EXPECT_EQ(terms_line(terms("keydiff+cake", Compression::regular, true)),
            "query-aware · after read · N: mean over layers");
  EXPECT_EQ(terms_line(terms("keydiff+cake", Compression::context_only, true)),
            "query-agnostic · after read · N: mean over layers");
  EXPECT_EQ(terms_line(terms("keydiff+cake(statistics=\"x.h5\")", Compression::regular, false)),
            "query-agnostic · while read · N: mean over layers");
  EXPECT_EQ(terms_line(terms("oracle", Compression::context_only, false)),
            "sees the future · while read · N: each head");
  for (const char* spec : {"external(\"x.json\")", "python(\"own.py:f\")"}) {  // whatever they read
    EXPECT_EQ(term(terms(spec, Compression::regular, true).question), "as its file") << spec;
  }
  EXPECT_EQ(term(terms("python(\"own.py:f\")", Compression::context_only, true).question),
            "query-agnostic");
  const std::vector<PolicySpec> mixed = {parse_policy("h2o"), parse_policy("keydiff"),
                                         parse_policy("snapkv+adakv"),
                                         parse_policy("snapkv+pyramid")};
  EXPECT_EQ(
      terms_of_comparison(mixed, Compression::regular, false),
      "Query-aware: h2o, snapkv+adakv, snapkv+pyramid; query-agnostic: keydiff. The prompt is "
      "compressed while it is read: later blocks attend to the remaining entries. N counts the "
      "entries "
      "of each key-value head; for snapkv+adakv it is the mean over the heads of a layer; for "
      "snapkv+pyramid it is the mean over the layers.");
  EXPECT_EQ(terms_of_comparison(std::span(mixed).first(2), Compression::context_only, true),
            "Both policies: query-agnostic. The context is compressed once, after it was read with "
            "the full cache.");
  EXPECT_EQ(terms_of_comparison(std::span(mixed).first(2), Compression::regular, true, true),
            "Query-aware: h2o; query-agnostic: keydiff.");
  EXPECT_EQ(terms_of_comparison(std::span(mixed).first(1), Compression::regular, true), "");
}

TEST(ComparisonTerms, AtOnceIsOneStepOfThePromptOrItsContext) {
  test::MadeTrace made_trace({.question = 20});
  const Trace& trace = made_trace.trace();
  const auto at_once = [&](int block, Compression compression) {
    return compresses_at_once(trace, block, compression);
  };
  EXPECT_FALSE(at_once(0, Compression::regular));  // three blocks of 32
  EXPECT_TRUE(at_once(kWholePrompt, Compression::regular));
  EXPECT_TRUE(at_once(96, Compression::regular));
  EXPECT_FALSE(at_once(76, Compression::regular));
  EXPECT_TRUE(at_once(76, Compression::context_only));
  EXPECT_FALSE(at_once(75, Compression::context_only));
  EXPECT_TRUE(at_once(kWholePrompt, Compression::context_only));
}

TEST(ComparisonTerms, AreTheLastColumnsOfASweep) {
  test::TemporaryFolder folder;
  test::write_synthetic_trace(folder / "trace.h5");
  const Trace trace(folder / "trace.h5");
  const SweepRequest request{{parse_policy("h2o+adakv"), parse_policy("keydiff")},
                             {parse_budget("20")},
                             {0, kWholePrompt}};
  const std::string path = (folder / "sweep.csv").string();
  SweepTable table;
  run_sweep(trace, sweep_settings(trace, request), path, table, test::unwatched,
            [](std::size_t, std::size_t, const SweepSetting&, bool) {});
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  EXPECT_THAT(line, StartsWith("trace,identity,policy,budget,block,compression,layer,head,"));
  EXPECT_THAT(line, testing::EndsWith(",question,prompt_compressed,budget_counts"));
  std::getline(file, line);
  EXPECT_THAT(line, testing::EndsWith(",\"query-aware\",\"while read\",\"mean over heads\""));
  const SweepTable read = SweepTable::load(path);
  ASSERT_EQ(read.rows().size(), 16U);
  EXPECT_EQ(read.rows()[4].prompt_compressed, "after read");
  EXPECT_EQ(read.rows()[8].question, "query-agnostic");
  EXPECT_EQ(read.rows()[8].budget_counts, "each head");
  // A file from before is read, its words are not known.
  std::stringstream old;
  std::ifstream again(path);
  while (std::getline(again, line)) {
    for (int i = 0; i < 3; ++i) line.resize(line.rfind(','));
    old << line << "\n";
  }
  std::ofstream(folder / "old.csv") << old.str();
  const SweepTable older = SweepTable::load((folder / "old.csv").string());
  ASSERT_EQ(older.rows().size(), 16U);
  EXPECT_EQ(older.rows()[8].question, "");
  EXPECT_EQ(older.rows()[8].budget, 20);
}

}  // namespace
}  // namespace kvloupe
