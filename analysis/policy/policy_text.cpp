#include "analysis/policy/policy_text.h"

#include <fmt/format.h>

#include <utility>

#include "analysis/base/text/text.h"
#include "analysis/policy/comparison_terms.h"
#include "analysis/policy/kit/outside_parts.h"
#include "analysis/policy/presets.h"
#include "analysis/policy/published.h"

namespace kvloupe {

std::string value_text(const SpecValue& value) {
  if (const double* number = std::get_if<double>(&value)) return number_text(*number);
  if (const Percent* percent = std::get_if<Percent>(&value)) {
    return number_text(percent->value) + "%";
  }
  return std::get<std::string>(value);
}

std::string range_text(const ParameterInfo& parameter) {
  switch (parameter.type) {
    case ParameterType::number_or_word:
    case ParameterType::word: {
      std::string words;
      for (const std::string& word : parameter.words) words += (words.empty() ? "" : "|") + word;
      if (parameter.type == ParameterType::word) return words;
      return number_text(parameter.minimum) + " to " + number_text(parameter.maximum) + " or " +
             words;
    }
    case ParameterType::text:
      return "\"text\"";
    case ParameterType::flag:
      return "0|1";
    case ParameterType::share:
      return "count or %";
    case ParameterType::count:
    case ParameterType::number:
      break;
  }
  return number_text(parameter.minimum) + " to " + number_text(parameter.maximum) +
         (parameter.odd ? ", odd" : "");
}

namespace {
constexpr const char* kHead =
    R"(<!-- Written by `kvloupe policies --markdown`. Do not edit: change the catalogue, then run the command again. -->
# Policies

A policy is one line: a score, then modifiers in any order, joined by `+`, such as `snapkv(pool=max)+adakv+critical`. At
each step a block is appended and attends, then the policy decides. The score says how valuable each entry is; protection
keeps some entries whatever their score; allocation says how many entries each head and layer may hold, and selection chooses
them. Merging puts other entries into kept ones. A schedule says at which steps anything leaves. Words:
[glossary](glossary.md).

Notation: one head with a cache of n entries in token order, keys k, values v, budget N; A the softmax rows of the step's
queries over that cache; W_O the slice of the output projection of one query head. B: queries of a step; d: coordinates of a
head; D: coordinates of the hidden state; T: tokens; L: layers; Hk: key-value heads. Statistics of attention are means over
the query heads that share the head. Among equal scores the later token is kept. A share such as `10%` is one of the budget,
or of its mean N where layers or heads hold different numbers. A number "from 0" goes up to 1 000 000. *Step*: what a step of
one head costs, without reading the inputs.

A has only the step's own queries. A score that takes "the last window queries" takes those of the step if it has fewer: in
generation the new token's. `rkv` and `vase` keep queries of earlier steps, `raas` a stamp of each entry.

Protected entries take places of their own head. If they are more than the places, the oldest of the recent entries go first,
then the latest of the first tokens. Under `adakv` a head protects at most N entries. An entry that a score itself protects
has the score of the formula, else the largest score of the head's others; only `chunks`, `caote`, `fastcaote` and the views
read these scores.

Scores are float32. Attention below 1e-38 counts as 0, and the later of two entries with 0 is kept. `expected`, `capkv` and
`dropkv` multiply attention: their scores below 1e-30 are stored as 1e-30 · (score / 1e-30)^(1/64), which keeps their order.
`caote`, `fastcaote` and `chunks` compute with the score itself.

In a sliding window of W tokens, an entry that no later query sees leaves after the block has attended and before the policy
decides: at most W - 1 entries are left. An entry that leaves is not a candidate, uses no budget, is not part of n, of anchors
or of merging sets, and receives no merged values. This is not an eviction, and `sink` and `sinks` do not prevent it. In a
layer that attends in chunks all entries leave where a chunk ends. So the rows of A may sum to less than 1 over the entries
left.

## When a policy acts

Without a schedule a policy acts after every step: a block of the prompt, or a generated token. With one, a cache grows beyond
its budget between two acts. Scores see every step.

| modifier | the policy acts | a head holds after a step at most |
| --- | --- | --- |
| `every(64)` | after every 64th generated token | N + 63 |
| `slack(128)` | when a head holds more than N + 128 entries | N + 128 |
| `only(prompt)` | while the prompt is read | N in the prompt; then each generated token more |
| `only(generated)` | while the model writes; the prompt is read with the full cache | N from the first act on |
| `protect_prompt` | as ever, but the prompt's entries stay | N; with `extra=1` N and the prompt |

They combine: `vase+only(generated)+every(64)`. `random+protect_prompt+every(64)` is the line that every score must beat at
that cadence. A policy that would never act (`every` on a trace without generated tokens, or with `--compression
context-only`) is refused.

## Comparing policies

A comparison is fair if three things are alike. kvloupe names them in the window, in captions of figures that compare, and in
the last columns of sweeps and studies.

- The question. A policy is *query-aware* if it reads queries and acts after the question too; else, and with `--compression
  context-only`, which stops before the question, it is *query-agnostic*; of scores in a file and of Python functions kvloupe
  cannot know (*as its file*). In small blocks the difference is smaller than with `--block all`: most of the context is read
  before the question.
- The prompt. It is compressed *while it is read*, after every block, so that later blocks attend only to the remaining
  entries; or, with `--block all`, once *after it was read* with the full cache, as in most libraries.
- The budget. N counts entries of a key-value head, a key and a value of d numbers each: equal numbers are equal bytes. Some
  policies make N a mean over heads or layers. Code with a cache for each query head, such as that of PyramidKV
  (KVCache-Factory), takes as many times the bytes as query heads share a key-value head.

Below, a score is query-aware and its budget is that of each head, unless *comparison* says otherwise. *Elsewhere*: how other
codes and papers do it. A parameter stands with its default, its values in brackets.
)";

constexpr const char* kPublished = R"(
## As their authors ran them

Some methods are more than the score that has their name (here *plain*). Figures, layouts and the window's lists begin with
the policies of this table.

| method | policy | plain | what it is |
| --- | --- | --- | --- |
)";

constexpr const char* kPresets = R"(
## As kvpress does it

The name of a press is a policy too, with the press's own defaults: `--policy SnapKVPress`, also with modifiers, as in
`SnapKVPress+sinks(4)`. A press compresses once, when the whole context has been read: replay with `--block all`, and a trace with a question also with `--compression context-only`. A
`DecodingPress` acts while the model writes, after every 512th token, down to 2048 entries: replay with `--budget 2048`. For
the releases of kvpress in the table, a test compares the kept sets ([fidelity.md](fidelity.md)).

| press | policy here | compared with kvpress | the press differs |
| --- | --- | --- | --- |
)";

/// The comparison terms of a part by itself, without a compression.
std::string comparison_of(const PolicyEntry& entry) {
  SpecPart part{entry.name, {}};
  for (const ParameterInfo& parameter : entry.parameters) {
    part.arguments.emplace_back(parameter.name, parameter.default_value);
  }
  // A score that reads the context twice acts once, after that.
  const bool at_once = entry.traits.reads_probe;
  const PolicySpec alone{{std::move(part)}};
  const ComparisonTerms terms = comparison_terms(alone, Compression::regular, at_once);
  std::string text;
  if (entry.kind() == PartKind::score) {
    text = term(terms.question);
    if (terms.question == QuestionSeen::aware) text.clear();
    if (at_once) {
      text += fmt::format(" if the context is one block; in smaller blocks: {}",
                          term(comparison_terms(alone, Compression::regular, false).question));
    }
  } else if (terms.question == QuestionSeen::aware || terms.question == QuestionSeen::future) {
    text = terms.question == QuestionSeen::future
               ? "makes a policy see the future"
               : fmt::format("makes a policy {}", term(terms.question));
  }
  const bool other =
      terms.budget != BudgetCounts::each_head && terms.budget != BudgetCounts::nothing;
  if (other) text += fmt::format("{}N: {}", text.empty() ? "" : "; ", term(terms.budget));
  return text;
}

/// The range of a parameter; the head of the page says where counts end.
std::string values_of(const ParameterInfo& parameter) {
  std::string text = range_text(parameter);
  const std::string end = " to 1000000";
  if (text.ends_with(end)) text = "from " + text.substr(0, text.size() - end.size());
  return text;
}

std::string section(const PolicyEntry& entry) {
  std::string text = fmt::format("\n### {}\n\n{}.\n\n", entry.name, entry.summary);
  text += fmt::format("- formula: `{}`\n- source: {}\n", entry.formula, entry.source);
  const bool needs = !entry.needs.empty() && entry.needs != "nothing";
  const bool works = !entry.work.empty() && entry.work != "none" && entry.work != "nothing";
  if (needs || works) {
    text += fmt::format("- {}{}{}{}\n", needs ? "needs: " + entry.needs : "",
                        needs && works ? "; " : "", works ? "step: " : "", works ? entry.work : "");
  }
  if (!entry.differences.empty()) {
    text += fmt::format("- elsewhere: {}\n", entry.differences);
  }
  if (const std::string terms = comparison_of(entry); !terms.empty()) {
    text += fmt::format("- comparison: {}\n", terms);
  }
  if (const PartOrigin* origin = origin_of(entry.name))
    text += fmt::format("- plugin: {}\n", origin->file);
  if (!entry.example.empty()) text += fmt::format("- example: `{}`\n", entry.example);
  for (const ParameterInfo& parameter : entry.parameters) {
    const std::string value = parameter.required ? "" : "=" + value_text(parameter.default_value);
    text += fmt::format("- `{}{}` ({}{}): {}\n", parameter.name, value,
                        parameter.required ? "required, " : "", values_of(parameter),
                        parameter.meaning);
  }
  return text;
}
}  // namespace

std::string policies_markdown() {
  std::string text = kHead;
  std::string_view kind;
  for (const PolicyEntry& entry : policy_catalog()) {
    if (kind != kind_name(entry.kind())) {
      kind = kind_name(entry.kind());
      text += fmt::format("\n## {}\n", entry.kind() == PartKind::score
                                           ? std::string("Scores")
                                           : fmt::format("Modifiers: {}", kind));
    }
    text += section(entry);
  }
  text += kPublished;
  for (const PublishedPolicy& policy : published_policies()) {
    text +=
        fmt::format("| {} | `{}` | {} | {} |\n", policy.method, policy.spec,
                    policy.plain.empty() ? "" : "`" + policy.plain + "`", table_cell(policy.why));
  }
  text += kPresets;
  for (const Preset& preset : presets()) {
    text += fmt::format("| `{}` | `{}` | {} | {} |\n", preset.name, preset.spec, preset.compared,
                        table_cell(preset.differs));
  }
  return text;
}

}  // namespace kvloupe
