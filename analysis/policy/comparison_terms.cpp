#include "analysis/policy/comparison_terms.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "analysis/policy/kit/outside_parts.h"
#include "analysis/policy/kit/policy_catalog.h"

namespace kvloupe {

namespace {

/// The full cache, its entries exact or in few bits.
bool evicts_nothing(const PolicySpec& policy) {
  return has_trait(policy, &PolicyTraits::keeps_everything) && !has_part(policy, PartKind::removal);
}

bool has_builder(const PolicySpec& policy, bool (*is)(const PolicyEntry&)) {
  return std::any_of(policy.parts.begin(), policy.parts.end(),
                     [&](const SpecPart& part) { return is(*find_policy(part.name)); });
}

/// Whether a part looks at the whole prompt (or its context) that is replayed.
bool sees_prompt(const PolicySpec& policy) {
  return std::any_of(policy.parts.begin(), policy.parts.end(), [](const SpecPart& part) {
    return traits_of(part).reads_sequence && !names_file(part);
  });
}

/// Whether a part looks at the queries of the prompt itself; those of a probe know the context
/// only.
bool reads_prompt_queries(const PolicySpec& policy) {
  return has_trait(policy, &PolicyTraits::reads_queries) ||
         (sees_prompt(policy) && !has_trait(policy, &PolicyTraits::reads_probe));
}

/// Whether a part looks at tokens that a running model does not have yet. The prompt counts as such
/// only until it has been read.
bool sees_future(const PolicySpec& policy, bool at_once) {
  return has_trait(policy, &PolicyTraits::needs_future) || (!at_once && sees_prompt(policy));
}

/// Whether the score is read from a file, or is code in a file that does not say what it reads, as
/// a plugin does.
bool scores_from_file(const PolicySpec& policy) {
  const PolicyEntry& score = *find_policy(policy.score().name);
  const bool needs_file = !score.parameters.empty() && score.parameters.front().names_file &&
                          score.parameters.front().required;
  return score.traits.reads_queries ? needs_file && origin_of(score.name) == nullptr
                                    : needs_file || names_file(policy.score());
}

/// Whether entries that a person names are kept beside the budget.
bool names_beside(const PolicySpec& policy) {
  return std::any_of(policy.parts.begin(), policy.parts.end(), [](const SpecPart& part) {
    const PolicyEntry& entry = *find_policy(part.name);
    return entry.kind() == PartKind::protection && entry.parameter("extra") != nullptr &&
           part.count("extra") != 0;
  });
}

/// Whether nothing leaves before the model writes.
bool waits_for_output(const PolicySpec& policy) {
  return std::any_of(policy.parts.begin(), policy.parts.end(), [](const SpecPart& part) {
    const auto* schedule = entry_of(part).as<ScheduleBuilder>();
    return schedule != nullptr && !schedule->make(part, {}).prompt;
  });
}

QuestionSeen question_of(const PolicySpec& policy, Compression compression, bool at_once,
                         bool reads_queries) {
  if (evicts_nothing(policy)) return QuestionSeen::evicts_nothing;
  if (sees_future(policy, at_once)) return QuestionSeen::future;
  if (scores_from_file(policy) && (compression == Compression::regular || !reads_queries)) {
    return QuestionSeen::of_file;  // code that stops before the question cannot read it
  }
  return compression == Compression::regular && reads_queries ? QuestionSeen::aware
                                                              : QuestionSeen::agnostic;
}

BudgetCounts budget_of(const PolicySpec& policy) {
  if (evicts_nothing(policy)) return BudgetCounts::nothing;
  if (has_trait(policy, &PolicyTraits::budget_is_outcome)) return BudgetCounts::outcome;
  const bool heads = has_builder(
      policy, [](const PolicyEntry& entry) { return entry.as<AllocationBuilder>() != nullptr; });
  const bool layers = has_builder(policy, [](const PolicyEntry& entry) {
    return entry.as<LayerBudgetBuilder>() != nullptr || entry.traits.shares_layers;
  });
  if (heads && layers) return BudgetCounts::mean_of_both;
  return heads    ? BudgetCounts::mean_of_heads
         : layers ? BudgetCounts::mean_of_layers
                  : BudgetCounts::each_head;
}

std::string sentence(QuestionSeen question, const ComparisonTerms& terms) {
  const bool stops = terms.compression == Compression::context_only;
  switch (question) {
    case QuestionSeen::aware:
      return terms.prompt == PromptCompressed::after_read
                 ? "Query-aware: it sees the question before it evicts."
                 : "Query-aware: from the question on it evicts with the question's queries. "
                   "Earlier evictions could not know the question.";
    case QuestionSeen::agnostic:
      return stops ? "Query-agnostic: it stops before the question."
             : terms.reads_probe
                 ? "Query-agnostic: it reads the queries of a second reading of the context, which "
                   "does not know the question. The question's own entries are in the cache when "
                   "it acts."
                 : "Query-agnostic: it does not read queries. The question's own entries are in "
                   "the cache when it acts.";
    case QuestionSeen::future:
      return "Sees the future: it looks at tokens that a running model does not have yet. A "
             "reference, not a rival.";
    case QuestionSeen::of_file:
      return "The scores come from a file, which does not say whether they know the question.";
    case QuestionSeen::evicts_nothing:
      break;
  }
  return "Evicts nothing.";
}

std::string sentence(PromptCompressed prompt, Compression compression) {
  const char* part = compression == Compression::context_only ? "context" : "prompt";
  switch (prompt) {
    case PromptCompressed::while_read:
      return fmt::format(
          "The {} is compressed while it is read: later blocks attend to the remaining entries.",
          part);
    case PromptCompressed::after_read:
      return fmt::format("The {} is compressed once, after it was read with the full cache.", part);
    case PromptCompressed::never:
      break;
  }
  return "The prompt is not compressed.";
}

/// The words of each value, in the order of the enum; of a budget also what N counts, as the end of
/// a sentence.
constexpr std::string_view kQuestionTerms[] = {"query-aware", "query-agnostic", "sees the future",
                                               "as its file", "evicts nothing"};
constexpr std::string_view kPromptTerms[] = {"while read", "after read", "never"};
constexpr std::string_view kBudgetTerms[][2] = {
    {"each head", "the entries of each key-value head"},
    {"mean over heads", "the mean over the heads of a layer"},
    {"mean over layers", "the mean over the layers"},
    {"mean over heads and layers", "the mean over the heads and the layers"},
    {"outcome of a threshold", "without effect: a threshold decides how many entries stay"},
    {"all entries", "without effect: all entries stay"}};

std::string meaning(BudgetCounts budget) {
  return std::string(kBudgetTerms[static_cast<std::size_t>(budget)][1]);
}

std::string specs_of(std::span<const PolicySpec> policies, const std::vector<std::size_t>& which) {
  std::vector<std::string> specs;
  for (const std::size_t i : which) specs.push_back(policies[i].text());
  return fmt::format("{}", fmt::join(specs, ", "));
}

/// The policies by a term, in the order of its values.
template <typename Term>
std::vector<std::pair<Term, std::vector<std::size_t>>> by_term(
    const std::vector<ComparisonTerms>& all, Term ComparisonTerms::*member) {
  std::vector<std::pair<Term, std::vector<std::size_t>>> groups;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto found = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      return group.first == all[i].*member;
    });
    if (found != groups.end()) {
      found->second.push_back(i);
    } else {
      groups.push_back({all[i].*member, {i}});
    }
  }
  std::sort(groups.begin(), groups.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  return groups;
}
}  // namespace

ComparisonTerms comparison_terms(const PolicySpec& policy, Compression compression, bool at_once) {
  ComparisonTerms terms;
  terms.reads_queries = reads_prompt_queries(policy);
  terms.reads_probe = has_trait(policy, &PolicyTraits::reads_probe);
  terms.compression = compression;
  terms.question = question_of(policy, compression, at_once, terms.reads_queries);
  terms.prompt = evicts_nothing(policy) || has_trait(policy, &PolicyTraits::spares_prompt)
                     ? PromptCompressed::never
                 : at_once || waits_for_output(policy) ? PromptCompressed::after_read
                                                       : PromptCompressed::while_read;
  terms.budget = budget_of(policy);
  terms.named_beside = names_beside(policy);
  return terms;
}

std::string_view term(QuestionSeen question) {
  return kQuestionTerms[static_cast<std::size_t>(question)];
}
std::string_view term(PromptCompressed prompt) {
  return kPromptTerms[static_cast<std::size_t>(prompt)];
}
std::string_view term(BudgetCounts budget) {
  return kBudgetTerms[static_cast<std::size_t>(budget)][0];
}

std::string terms_line(const ComparisonTerms& terms) {
  if (terms.question == QuestionSeen::evicts_nothing) return std::string(term(terms.question));
  return fmt::format("{} · {} · N: {}{}", term(terms.question), term(terms.prompt),
                     term(terms.budget), terms.named_beside ? " + named" : "");
}

std::vector<std::string> terms_sentences(const ComparisonTerms& terms) {
  return {sentence(terms.question, terms), sentence(terms.prompt, terms.compression),
          fmt::format("The budget N is {}{}.", meaning(terms.budget),
                      terms.named_beside ? "; named entries are kept beside it" : "")};
}

std::string terms_of_comparison(std::span<const PolicySpec> policies, Compression compression,
                                bool at_once, bool settings_differ) {
  if (policies.size() < 2) return "";
  std::vector<ComparisonTerms> all;
  for (const PolicySpec& policy : policies) {
    all.push_back(comparison_terms(policy, compression, at_once));
  }
  std::string text;
  const auto questions = by_term(all, &ComparisonTerms::question);
  for (const auto& [question, which] : questions) {
    const std::string word(term(question));
    if (questions.size() == 1) {
      text = policies.size() == 2 ? fmt::format("Both policies: {}", word)
                                  : fmt::format("All {} policies: {}", policies.size(), word);
    } else {
      text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", word, specs_of(policies, which));
    }
  }
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  text += ".";
  const bool any = std::any_of(all.begin(), all.end(), [](const ComparisonTerms& terms) {
    return terms.prompt != PromptCompressed::never;
  });
  if (any && !settings_differ) {
    text += " " + sentence(at_once ? PromptCompressed::after_read : PromptCompressed::while_read,
                           compression);
  }
  std::string others;
  for (const auto& [budget, which] : by_term(all, &ComparisonTerms::budget)) {
    if (budget == BudgetCounts::each_head) continue;
    others += fmt::format("{}for {} it is {}", others.empty() ? "" : "; ",
                          specs_of(policies, which), meaning(budget));
  }
  if (!others.empty()) {
    text += " N counts " + meaning(BudgetCounts::each_head) + "; " + others + ".";
  }
  return text;
}

}  // namespace kvloupe
