#include "analysis/policy/policy_text.h"

#include <fmt/format.h>

#include <utility>

#include "analysis/markdown.h"
#include "analysis/policy/comparison_terms.h"
#include "analysis/policy/outside_parts.h"
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

A policy is one line: a score, then modifiers in any order, joined by `+`, such as
`snapkv(pool=max)+adakv+critical`. At each step a block is appended and attends, then the policy decides. The
score says how valuable each entry of the cache is. Protection keeps some entries whatever their score.
Allocation says how many entries each head and layer may hold, and selection chooses them. Merging puts
some of the other entries into kept ones.

Notation: one head with a cache of n entries in token order, keys k, values v, budget N; A the softmax
rows of the step's queries over that cache; W_O the slice of the output projection of one query head.
Statistics of attention are means over the query heads that share the head. Among equal scores the later
token is kept. A share such as `10%` is a share of the budget, and of its mean N where layers or heads hold
different numbers. Costs are of one head and step, beside reading what is needed: B queries of a step, d coordinates,
D of the hidden state, T tokens, L layers, Hk key-value heads.

A has the step's own queries only. Where a score says "the last window queries" of A, a step of fewer queries counts
those it has, in generation the one of the new token, as no query's attention is kept for later steps. `rkv` keeps queries.

Protection is inside a head's own places: if it needs more of them, the oldest of the recent entries go first, then
the latest of the first tokens. Under `adakv` a head protects at most N, as its places follow from that. An entry that
a score protects by its own definition has the score of the formula; where the formula has none for the entry, as
after a softmax over the others, the largest score of the head's others. Only what is made of scores reads these:
`chunks`, `caote`, `fastcaote` and what is shown.

Scores are float32. Attention below 1e-38 counts as 0, and of entries with 0 the later is kept. `expected`, `capkv` and
`dropkv` multiply attention, so that much more of it would be 0: their scores below 1e-30 are stored as
1e-30 · (score / 1e-30)^(1/64), which keeps their order. `caote`, `fastcaote` and `chunks` compute with the score itself.

If the model has a sliding window of W tokens, an entry that no later query sees leaves the cache after
the block has attended and before the policy decides, as in a model's own rolling cache: at most W - 1 entries
are left. The entries that leave are not candidates and use no budget; they are not part of n, of anchors or of
merging sets, and receive no merged values. Their leaving is not an eviction. A token that `sink` or
`sinks` protects leaves the window like any other. A query keeps the attention that it paid when it ran, so
the rows of A may sum to less than 1 over the entries left.

## Comparing policies

Two policies are compared fairly where three things are alike. kvloupe says them beside the policy in the
window, in captions of figures that compare, and in the last columns of sweeps and studies.

- The question. A policy is *query-aware* if it reads queries and acts after the question too; else it is
  *query-agnostic*. With `--compression context-only` it stops before the question, and every policy is
  query-agnostic. What a query-aware policy evicts while the context is read leaves without the question's
  knowledge, so with small blocks there is less of a difference than with `--block all`.
- The prompt. It is compressed *while it is read*, after every block, so that later blocks attend to what is
  left; or, with `--block all`, once *after it was read* with the full cache, as most libraries do.
- The budget. N counts entries of a key-value head, each a key and a value of d numbers, so that equal numbers
  are equal bytes. Some policies make N a mean over the heads of a layer or over the layers, and one head or
  layer may then hold more. Code that keeps a cache for each query head, such as that of PyramidKV
  (KVCache-Factory), takes as many times the bytes for the same N as query heads share a key-value head.
)";

constexpr const char* kPublished = R"(
## As their authors ran them

Some methods are more than the score that has their name: H2O keeps half of its budget for recent tokens. Figures,
layouts and the window's lists begin with the policies of this table. The score alone is called plain; type its name,
or take it from the same lists.

| method | policy | plain | what it is |
| --- | --- | --- | --- |
)";

constexpr const char* kPresets = R"(
## As kvpress does it

The name of a press is a policy too, with the press's own defaults: `--policy SnapKVPress`, also with modifiers of
this page after it, such as `SnapKVPress+sinks(4)`. Results and captions give the policy that the name stands for. A
press compresses once, when the whole context has been read: replay with `--block all`, or a trace with a question
with `--compression context-only`. Where a release of kvpress is named, a test compares the sets that are kept with
those of that release ([fidelity.md](fidelity.md)).

| press | policy here | compared with kvpress | the press differs |
| --- | --- | --- | --- |
)";

/// What a comparison has to know of a part by itself, without a compression.
std::string comparison_of(const PolicyEntry& entry) {
  SpecPart part{entry.name, {}};
  for (const ParameterInfo& parameter : entry.parameters) {
    part.arguments.emplace_back(parameter.name, parameter.default_value);
  }
  // What reads the context twice acts after that, in one go.
  const bool at_once = entry.traits.reads_probe;
  const PolicySpec alone{{std::move(part)}};
  const ComparisonTerms terms = comparison_terms(alone, Compression::regular, at_once);
  std::string text;
  if (entry.kind() == PartKind::score) {
    text = term(terms.question);
    if (at_once) {
      text += fmt::format(" where the context is one block; in smaller ones: {}",
                          term(comparison_terms(alone, Compression::regular, false).question));
    }
  } else if (terms.question == QuestionSeen::aware || terms.question == QuestionSeen::future) {
    text = fmt::format("makes a policy {}", term(terms.question));
  }
  const bool other =
      terms.budget != BudgetCounts::each_head && terms.budget != BudgetCounts::nothing;
  if (other) text += fmt::format("{}N: {}", text.empty() ? "" : "; ", term(terms.budget));
  return text;
}

std::string section(const PolicyEntry& entry) {
  std::string text = fmt::format("\n### {}\n\n{}.\n\n", entry.name, entry.summary);
  text += fmt::format("- formula: `{}`\n- source: {}\n", entry.formula, entry.source);
  if (!entry.needs.empty()) text += fmt::format("- needs: {}\n", entry.needs);
  if (!entry.work.empty()) text += fmt::format("- a step costs: {}\n", entry.work);
  if (!entry.differences.empty()) {
    text += fmt::format("- in other codes: {}\n", entry.differences);
  }
  if (const std::string terms = comparison_of(entry); !terms.empty()) {
    text += fmt::format("- in a comparison: {}\n", terms);
  }
  if (const PartOrigin* origin = origin_of(entry.name))
    text += fmt::format("- plugin: {}\n", origin->file);
  if (!entry.example.empty()) text += fmt::format("- example: `{}`\n", entry.example);
  if (entry.parameters.empty()) return text;
  text += "\n| parameter | default | values | meaning |\n| --- | --- | --- | --- |\n";
  for (const ParameterInfo& parameter : entry.parameters) {
    text += fmt::format("| `{}` | {} | {} | {} |\n", parameter.name,
                        parameter.required ? "required" : value_text(parameter.default_value),
                        table_cell(range_text(parameter)), table_cell(parameter.meaning));
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
