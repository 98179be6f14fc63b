#pragma once
// The measures of a study: those of replays, and those of the tasks that `kvloupe-capture study`
// runs in the model.

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "analysis/replay/measure/measure.h"

namespace kvloupe {

/// The task of a replay, and those of runs in the model.
inline constexpr const char* kReplayTask = "replay";
inline constexpr const char* kNeedleTask = "needle";
inline constexpr const char* kAnswerTask = "answer";
inline constexpr const char* kPerplexityTask = "perplexity";
inline constexpr const char* kDriftTask = "drift";

/// The measure of the task drift that compares replay and run: Drift::mean_jaccard().
inline constexpr const char* kAgreement = "drift_agreement";

struct StudyMeasure {
  std::string name;   // in results and CSV
  std::string task;   // the task whose items have it
  std::string title;  // with its symbol: for an axis
  std::string unit;   // "" for a plain number
  Better better = Better::neither;
  bool share = false;  // lies between 0 and 1
  std::string formula;
  std::optional<double> of_full_cache = {};  // what the full cache has by this formula
};

/// Those of the tasks, by task.
std::span<const StudyMeasure> task_measures();

/// Whether heads can be ranked by a measure: false where all heads of a layer, or of the model,
/// have the same value.
bool ranks_heads(std::string_view name);

/// A measure of the tasks or of the catalogue of measures; nothing for another name.
std::optional<StudyMeasure> find_study_measure(std::string_view name);

}  // namespace kvloupe
