#pragma once
// Every policy kvloupe knows, in one explicit list. A policy is one file, which describes itself
// and builds itself, and one line in the list of its folder.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "analysis/math/cost_model.h"
#include "analysis/policy/kit/part_builder.h"
#include "analysis/policy/kit/spec.h"

namespace kvloupe {

/// The place of a part in a policy: score × protection × allocation × selection × merging, removal
/// by a person, when the policy acts, and in how many bits the cache holds what stays.
enum class PartKind {
  score,
  protection,
  allocation,
  value_aware,
  grouping,
  selection,
  merging,
  removal,
  schedule,
  storage
};
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

struct ParameterInfo {
  std::string name;
  ParameterType type = ParameterType::count;
  SpecValue default_value = 0.0;  // no meaning where `required`
  double minimum = 0.0;           // count, number, share, number_or_word
  double maximum = 0.0;
  std::vector<std::string> words = {};  // of a word, number_or_word
  std::string meaning;
  bool required = false;
  bool odd = false;         // a count that must be odd
  bool names_file = false;  // a text that is the path of a file the policy reads
  std::function<std::optional<TextProblem>(std::string_view)> check = nullptr;  // of a text
};

/// The usual parameters by their types.
ParameterInfo count_parameter(std::string name, double standard, double minimum, double maximum,
                              std::string meaning);
ParameterInfo flag_parameter(std::string name, double standard, std::string meaning);
ParameterInfo number_parameter(std::string name, double standard, double minimum, double maximum,
                               std::string meaning);
ParameterInfo share_parameter(std::string name, SpecValue standard, double minimum, double maximum,
                              std::string meaning);
ParameterInfo word_parameter(std::string name, std::string standard, std::vector<std::string> words,
                             std::string meaning);
ParameterInfo number_or_word_parameter(std::string name, SpecValue standard, double minimum,
                                       double maximum, std::vector<std::string> words,
                                       std::string meaning);
ParameterInfo text_parameter(
    std::string name, std::string standard, std::string meaning,
    std::function<std::optional<TextProblem>(std::string_view)> check = nullptr);
ParameterInfo file_parameter(std::string name, std::string meaning, bool required = false);

/// Properties of a part, for code that would otherwise have to know its name.
struct PolicyTraits {
  bool needs_future = false;          // reads StepView::whole: replay only
  bool reads_queries = true;          // reads StepView::queries or ::attention
  bool reads_output_weights = false;  // reads LayerContext::output_weights
  bool keeps_everything = false;      // is the full cache: takes no budget and evicts nothing
  bool budget_is_outcome = false;     // keeps what passes a threshold, however many entries
  bool reads_sequence = false;        // reads LayerContext::sequence, unless it names a file
  bool reads_probe = false;           // reads the probe of a trace or of a running model
  bool shares_layers = false;         // an allocation that moves places between layers, too
  bool fixes_places = false;          // an allocation that gives heads places without their scores
  bool reads_prompt_end = false;      // reads LayerContext::prompt_length
  bool spares_prompt = false;         // nothing of the prompt is ever evicted
  bool reads_structure = false;       // reads LayerContext::structural
  bool reads_pass = false;            // reads what all layers say: whole_pass()
  bool reads_residual = false;        // of that, the residual stream
  bool makes_entries = false;         // a score whose policy also makes synthetic entries
  bool is_chance = false;             // the score of chance lines (random_line.h),
  bool protects_first = false;        // a protection of so many first tokens, and
  bool protects_last = false;         // of so many last entries, as they write them
};

/// The entries that a score keeps by its own definition, whatever their scores: first tokens, and
/// last entries of the cache, a number or a share of the budget.
struct OwnProtection {
  int first_tokens = 0;
  SpecValue last_entries = 0.0;
};
/// Those of which parameters of the part say how many; "": none.
std::function<OwnProtection(const SpecPart&)> protects(std::string first, std::string last = "");

/// A cost that grows in time as in memory, whatever the part's arguments.
std::function<CostOrder(const SpecPart&)> costs(std::string_view order,
                                                double (*units)(const StepShape&));

/// Lines for a person: one, several or none.
struct Lines : std::vector<std::string> {
  using vector::vector;
  Lines(std::vector<std::string> lines) : vector(std::move(lines)) {}  // NOLINT: as they are
  Lines(std::string line) : vector{std::move(line)} {}                 // NOLINT
  Lines(const char* line) : vector{line} {}                            // NOLINT
};
/// The line that a part has for everybody.
inline auto always(const char* line) {
  return [line](const SpecPart&, const ModelInfo&, int) { return Lines(line); };
}

/// One way in which a paper, an author's code or a public library does what a part does.
struct PartVariant {
  std::string where;  // "kvpress", "the original", "CriticalKV algorithm 2", ...
  std::string spec;   // of the part itself; a score may bring modifiers
};

/// One line of the catalogue: the kind of a part, and its builder.
struct PolicyEntry {
  std::string name;
  PartBuilder builder;
  PolicyTraits traits;
  /// Changes the traits where they depend on a part's arguments; empty: they do not.
  std::function<void(const SpecPart&, PolicyTraits&)> traits_by_arguments = nullptr;
  std::string summary;      // one line
  std::string formula;      // one line; for a score: of entry i, higher = kept
  std::string source;       // paper and equation
  std::string needs;        // what it reads, beside the score of a modifier
  std::string work;         // what a step costs
  std::string differences;  // how public implementations differ, and the parameter that shows it
  std::vector<ParameterInfo> parameters;
  std::string example;  // a spec that shows it; where empty the name alone is one
  std::vector<PartVariant> variants;
  /// Of a score: what Score::protection() gives, at any budget; empty: nothing. The chance line of
  /// a policy keeps it, too (random_line.h).
  std::function<OwnProtection(const SpecPart&)> own_protection;
  /// The cost of a step of a score, if KeyDiff's table 4 has a line for it.
  std::function<CostOrder(const SpecPart&)> cost;

  /// Why this part makes no sense in a spec; empty where it does. The rest of the spec is known to
  /// the catalogue.
  std::function<std::string(const SpecPart&, const PolicySpec&)> refusal;
  /// Throws UsageError if the part names something missing (check_limits).
  std::function<void(const SpecPart&, const ModelInfo&, int budget, int tokens)> limits;
  /// Why this part has no meaning in a run; empty where it has.
  std::function<std::string(const SpecPart&, const RunShape&)> run_refusal;
  /// Warnings about this part beside the others of a spec.
  std::function<Lines(const SpecPart&, const PolicySpec&)> doubts;
  /// Lines a person should read about this part at this budget.
  std::function<Lines(const SpecPart&, const ModelInfo&, int budget)> notes;

  PartKind kind() const;
  /// What two parts with this type of builder would both do, where a policy can do it only once;
  /// else empty.
  std::string done_once() const;
  /// The builder, where the part is of that type; else null.
  template <typename Builder>
  const Builder* as() const {
    return std::get_if<Builder>(&builder);
  }
  const ParameterInfo* parameter(std::string_view name) const;
};

/// Adds the program's own parts, as policies.cpp above lists them. The kit alone links without it,
/// and has none.
extern "C" [[gnu::weak]] void kvloupe_list_policies(std::vector<PolicyEntry>& parts);

/// Scores first, then modifiers; this order is the order of a canonical spec.
const std::vector<PolicyEntry>& policy_catalog();

/// Adds a part from outside of this folder, after the others of its kind (score or modifier). To be
/// called at the start of a program: throws std::logic_error once the catalogue was read.
void add_policy(PolicyEntry entry);

/// The entry of that name, or nullptr.
const PolicyEntry* find_policy(std::string_view name);

/// The entry of a part. Throws UsageError for a part that the catalogue lacks.
const PolicyEntry& entry_of(const SpecPart& part);

/// Whether an argument of the part names a file that it reads.
bool names_file(const SpecPart& part);

/// The traits of a part with its arguments.
PolicyTraits traits_of(const SpecPart& part);

/// Whether any part of the spec has the trait, or is of the kind. Throws UsageError for a part that
/// the catalogue lacks.
bool has_trait(const PolicySpec& spec, bool PolicyTraits::*trait);
bool has_part(const PolicySpec& spec, PartKind kind);

/// Whether the policy makes synthetic entries (Merge): caches then hold entries that the trace does
/// not have.
bool makes_entries(const PolicySpec& spec);
bool makes_entries(const SpecPart& part);

/// How the spec's caches hold their entries; empty: exactly.
std::optional<Quantisation> quantisation_of(const PolicySpec& spec);

/// Whether the policy is the full cache, from which nothing is taken: neither entries nor bits.
bool keeps_everything(const PolicySpec& spec);

/// The first part after this one with a builder of the same type, or nullptr.
const SpecPart* next_alike(const SpecPart& part, const PolicySpec& spec);

/// The scale of the spec's score as it is.
ScoreScale base_scale(const PolicySpec& spec);
/// The scale that a spec's modifiers see: the score's, or that of its value-aware form.
ScoreScale score_scale(const PolicySpec& spec);

/// Why a modifier that decides for each head by itself does not go with a score that keeps one set
/// for all heads; else empty.
std::string one_set_refusal(const SpecPart& part, const PolicySpec& spec);

/// Why a modifier does not go with a score that makes all decisions itself; else empty. A score
/// that keeps every entry does not notice if other parts remove some.
std::string whole_policy_refusal(const PolicyEntry& modifier, const PolicySpec& spec);

/// The cost of a step of the spec's score; nothing if KeyDiff's table 4 does not have the score.
std::optional<CostOrder> cost_order(const PolicySpec& spec);

/// Throws UsageError where a running model cannot follow the spec: a part needs the future, a probe
/// unless the model runs one, or all layers unless the policy decides after the whole pass.
void check_closed_loop(const PolicySpec& spec, bool runs_probe = false, bool knows_texts = false,
                       bool decides_after_pass = true);
/// For check_run(): a run of some prompt, in which the policy acts on no generated token.
inline RunShape without_generated() { return {1, 0, 2}; }

/// The part with every argument at its default. Throws UsageError where one has none.
SpecPart default_part(const PolicyEntry& entry);

}  // namespace kvloupe
