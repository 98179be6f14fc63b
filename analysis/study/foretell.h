#pragma once
// How well a number of a replay predicts the model's results with the policy in its cache: the
// measures of a study's replays beside a measure of its runs in the model, on the same prompts.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/study/study_table.h"

namespace kvloupe {

/// A number with its 95 % interval: the percentile bootstrap over prompts, kForetellResamples
/// times. Where all resamples have one value, the interval of a share is Wilson's for as many
/// prompts, and that of a correlation is unknown. NaN: unknown.
struct Foretold {
  double value = 0.0;
  double low = 0.0, high = 0.0;
};

inline constexpr int kForetellResamples = 2000;

/// One measure of replays beside the outcome in the model. A measure of which less is better is
/// turned round, so that numbers near 1 say that it foretells, and chance is 0 for `settings` and
/// 0.5 for the shares of pairs.
struct Foretelling {
  std::string measure;
  int prompts = 0;         // on which both are known under every setting
  int failed_prompts = 0;  // left out: the full cache has no success to lose
  /// Traces left out: their prompt or its name is there twice, or the prompt of their name has
  /// other tokens or ran in another model.
  int left_out = 0;
  int settings_count = 0;  // policies × budgets
  /// Spearman's ρ over the settings: mean of the measure and mean of the outcome over the prompts.
  Foretold settings;
  /// The share of pairs of runs with different outcomes in which the better outcome has the better
  /// value (equal values count half): over all pairs; over pairs of one prompt under two settings;
  /// over pairs of two prompts under one setting.
  Foretold pairs, pairs_of_prompt, pairs_of_setting;
};

/// The name under which a trace and a prompt may be the same one: "traces/niah-00012.h5" and
/// "answer niah.jsonl#12" are "niah-00012", "notes.h5" and "drift notes.txt" are "notes".
std::string prompt_key(std::string_view name);

/// Every measure of the study's replays beside `outcome`, a measure of its runs in the model, at
/// the study's first block size; the best first, by `settings`. A trace belongs to the prompt with
/// the same tokens in the same model; where the tokens of either are not known (the trace is not
/// found), to the only one with its prompt_key(). Prompts on which the full cache fails (an outcome
/// that is a share, and 0) are left out. Throws UsageError where the results have no such outcome,
/// no replays, or no prompt of which both are known.
std::vector<Foretelling> foretell(const StudyTable& table, std::string_view outcome);

/// A table in Markdown.
std::string foretell_markdown(const std::vector<Foretelling>& rows, std::string_view outcome);

/// The tables of several results files, each under its model and file, those of one model together.
/// Nothing is joined across files. Of one file: its table alone. Throws as foretell(), and
/// FileError as StudyResults and where a file is of several models.
std::string foretell_files(const std::vector<std::filesystem::path>& files,
                           std::string_view outcome);

}  // namespace kvloupe
