#pragma once
// Every policy kvloupe knows, in one explicit list. A policy is one file, which describes itself
// and builds itself, and one line in policy_catalog.cpp.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/policy/policy.h"
#include "analysis/policy/spec.h"
#include "analysis/policy/stages.h"

namespace kvloupe {

/// Where a part stands in a policy: score × protection × allocation × selection × merging.
enum class PartKind { score, protection, allocation, value_aware, selection, merging };
std::string_view kind_name(PartKind kind);

enum class ParameterType {
  count,           // an integer
  flag,            // 0 or 1
  number,          // a real number
  share,           // an integer, or a percentage: of the budget unless the meaning says otherwise
  word,            // one of `words`
  number_or_word,  // a real number, or one of `words`
  text,            // any text, quoted
};
std::string_view type_name(ParameterType type);

/// What is wrong with a text, and where in it (from 0).
struct TextProblem {
  std::size_t position = 0;
  std::string word;
  std::string why;
};

struct ParameterInfo {
  std::string name;
  ParameterType type = ParameterType::count;
  SpecValue default_value = 0.0;  // no meaning where `required`
  double minimum = 0.0;           // count, number, share, number_or_word
  double maximum = 0.0;
  std::vector<std::string> words;  // of a word, number_or_word
  std::string meaning;
  bool required = false;
  bool odd = false;         // a count that must be odd
  bool names_file = false;  // a text that is the path of a file the policy reads
  std::function<std::optional<TextProblem>(std::string_view)> check = nullptr;  // of a text
};

/// What a score's numbers are, for modifiers that compute with them or compare heads by them.
enum class ScoreScale {
  attention,   // shares of attention: never negative, alike in all heads
  common,      // no attention, but never negative and alike in all heads
  per_head,    // every head has a scale of its own
  signed_own,  // the same, and may be negative
};

/// One line of the catalogue: what a part is, and how it is built. A score fills exactly one of the
/// first two builders, a modifier exactly one of the others.
struct PolicyEntry {
  std::string name;
  PartKind kind = PartKind::score;
  std::string summary;      // one line
  std::string formula;      // one line; for a score: of entry i, higher = kept
  std::string source;       // paper and equation
  std::string differences;  // how public implementations differ, and the parameter that shows it
  std::vector<ParameterInfo> parameters;
  std::string example;  // a spec that shows it; where empty the name alone is one

  /// A score, to be combined with any modifier.
  std::function<std::unique_ptr<Score>(const SpecPart&, const LayerContext&)> make_score;
  /// A policy that decides by itself and takes no modifier.
  std::function<std::unique_ptr<LayerPolicy>(const SpecPart&, const LayerContext&)> make_policy;
  /// What a modifier protects at a budget.
  std::function<Protection(const SpecPart&, int budget)> protect;
  /// Entries per head the layer may hold once so many tokens were seen that later queries see.
  std::function<int(const SpecPart&, const LayerContext&, int seen)> layer_budget;
  std::function<std::unique_ptr<Allocation>(const SpecPart&)> make_allocation;
  /// A score made of another.
  std::function<std::unique_ptr<Score>(const SpecPart&, const LayerContext&,
                                       std::unique_ptr<Score> base)>
      wrap_score;
  std::function<std::unique_ptr<Selection>(const SpecPart&, const LayerContext&)> make_selection;
  std::function<std::unique_ptr<Merging>(const SpecPart&, const LayerContext&)> make_merging;

  ScoreScale scale = ScoreScale::attention;  // of a score, whatever its parameters
  bool needs_future = false;                 // reads StepView::whole: replay only
  bool reads_output_weights = false;         // LayerContext::output_weights
  /// Why this part makes no sense in a spec; empty where it does. The rest of the spec is known to
  /// the catalogue.
  std::function<std::string(const PolicySpec&)> refusal;
  /// What is doubtful about this part beside the others of a spec.
  std::function<std::vector<std::string>(const PolicySpec&)> doubts;
  /// Lines a person should read about this part at this budget.
  std::function<std::vector<std::string>(const SpecPart&, const ModelInfo&, int budget)> notes;

  const ParameterInfo* parameter(std::string_view name) const;
};

/// Scores first, then modifiers; this order is the order of a canonical spec.
const std::vector<PolicyEntry>& policy_catalog();

/// The entry of that name, or nullptr.
const PolicyEntry* find_policy(std::string_view name);

/// Of what a spec's modifiers see: the score's, or what a value-aware form makes of it.
ScoreScale score_scale(const PolicySpec& spec);

/// Why a modifier that decides for each head by itself does not go with tova(layer); else empty.
std::string one_set_refusal(const PolicySpec& spec);

/// Throws UsageError where a running model cannot follow the spec: a part needs the future.
void check_closed_loop(const PolicySpec& spec);

/// Whether a policy of this spec may read LayerContext::output_weights.
bool reads_output_weights(const PolicySpec& spec);

/// The part with every argument at its default. Throws UsageError where one has none.
SpecPart default_part(const PolicyEntry& entry);

}  // namespace kvloupe
