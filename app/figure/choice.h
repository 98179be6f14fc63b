#pragma once
// A figure's own choices: a control in the window, `--set NAME=VALUE` on the command line. Most
// choices have a few fixed values; a comparison also takes lists that a person types.

#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/policy/kit/spec.h"

namespace kvloupe::figure {

/// A figure's own choices by name, e.g. measure=sinks; an absent one has its default.
using Choices = std::map<std::string, std::string>;

enum class ChoiceKind {
  word,      // one of the values
  policies,  // specs separated by commas; A and B stand for the selected policies
  budgets,   // 128,25%,…
  blocks,    // 32,128,all
  numbers,   // 0.01,0.1,…
  number,
  tokens,  // 120-131,140, or the name of a segment, or auto
  name,    // of something that the figure's file holds; only the file knows which there are
};

/// One choice a figure offers.
struct ChoiceInfo {
  std::string name;
  std::string title;
  std::string tooltip = {};
  std::vector<std::string> values = {};  // the first is the default; typed lists: also examples
  ChoiceKind kind = ChoiceKind::word;
  /// The range of numbers, both ends included.
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};

/// Whether the value is typed, not chosen from `values`.
inline bool is_typed(const ChoiceInfo& choice) { return choice.kind != ChoiceKind::word; }

/// The usual lists of comparisons, under their usual names: policies, budgets, blocks.
ChoiceInfo policies_choice(std::string by_default);
ChoiceInfo budgets_choice(std::string by_default);
/// random: shown or hidden, the chance lines of the policies (random_lines()); `as`: "line", "row".
ChoiceInfo random_choice(const char* as);
ChoiceInfo blocks_choice(std::string by_default);
/// One of a few words; the first is the default.
ChoiceInfo word_choice(std::string name, std::string title, std::string tooltip,
                       std::vector<std::string> values);
ChoiceInfo number_choice(std::string name, std::string title, std::string tooltip,
                         std::string by_default, double low, double high);

/// Under the usual name, tokens; the default is auto.
ChoiceInfo tokens_choice();

/// The items of a list, split at commas outside parentheses and quotes, without surrounding spaces.
/// An item may be empty; an empty text has no items.
std::vector<std::string> split_list(std::string_view text);

/// Throws UsageError, naming the choice, if `text` is not a value of it.
void check_value(std::string_view figure, const ChoiceInfo& choice, const std::string& text);

/// The meaning of a checked text. `a` and `b` replace A and B (B is left out if there is none);
/// without repetition.
std::vector<PolicySpec> parse_policies(std::string_view text, const PolicySpec& a,
                                       const PolicySpec* b);
std::vector<double> parse_numbers(std::string_view text);

/// The question that a figure answers, in the order of lists; several are those of one paper.
enum class Topic {
  kept,
  comparisons,
  attention,
  keys,
  perturbation,
  values,
  merging,
  model_cache,
};

/// All of them, in that order.
std::span<const Topic> topics();

/// The heading of a list of such figures.
std::string_view heading(Topic topic);

}  // namespace kvloupe::figure
