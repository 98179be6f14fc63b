#pragma once
// The terms that must be alike before two policies can be compared, in words: whether a policy can
// know the question, when the prompt is compressed, and which entries the budget counts. The one
// place that computes these; the window, captions, sweeps, studies and docs show them.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/policy/kit/spec.h"
#include "analysis/trace/model_info.h"

namespace kvloupe {

/// Whether the kept entries of the context can depend on the question.
enum class QuestionSeen {
  aware,     // it reads queries, and acts after the question too
  agnostic,  // it reads no queries, or has acted before the question comes
  future,    // it looks at queries that a running model does not have yet
  of_file,   // its scores come from a file; how they were made is not known here
  evicts_nothing
};
/// When the prompt (or its context) is compressed.
enum class PromptCompressed {
  while_read,  // after every block: later blocks attend to what is left
  after_read,  // once: all of it was read with the full cache
  never
};
/// The entries that the budget N counts. Entries are those of key-value heads, so equal numbers are
/// equal bytes.
enum class BudgetCounts {
  each_head,       // the entries of every head
  mean_of_heads,   // their mean over the heads of a layer
  mean_of_layers,  // their mean over the layers
  mean_of_both,
  outcome,  // nothing: a threshold decides
  nothing   // nothing: all entries stay
};

struct ComparisonTerms {
  QuestionSeen question = QuestionSeen::agnostic;
  PromptCompressed prompt = PromptCompressed::while_read;
  BudgetCounts budget = BudgetCounts::each_head;
  bool named_beside = false;   // named entries are kept beside the budget
  bool reads_queries = false;  // at the steps at which it acts
  bool reads_probe = false;    // those of a second reading of the context
  Compression compression = Compression::regular;
  bool operator==(const ComparisonTerms&) const = default;
};
/// `at_once`: the policy acts once on the prompt (or its context), not after several blocks. Throws
/// UsageError for a part that the catalogue lacks.
ComparisonTerms comparison_terms(const PolicySpec& policy, Compression compression, bool at_once);

/// A few words without commas, for tables and CSV: "query-aware", "while read", "each head".
std::string_view term(QuestionSeen question);
std::string_view term(PromptCompressed prompt);
std::string_view term(BudgetCounts budget);

/// All three in one line: "query-aware · while read · N: each head".
std::string terms_line(const ComparisonTerms& terms);
/// A sentence for each of the three.
std::vector<std::string> terms_sentences(const ComparisonTerms& terms);
/// For under a figure that compares policies: who can know the question, when the prompt is
/// compressed (left out where `settings_differ`), whose budget is something else than the entries
/// of each head. Empty for fewer than two policies.
std::string terms_of_comparison(std::span<const PolicySpec> policies, Compression compression,
                                bool at_once, bool settings_differ = false);

}  // namespace kvloupe
