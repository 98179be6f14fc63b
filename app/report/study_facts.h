#pragma once
// The facts of a study in words: its model, its prompts, its runs, and its study file.

#include <string>
#include <vector>

#include "analysis/base/core/progress.h"
#include "analysis/study/study_statistics.h"
#include "analysis/study/study_table.h"

namespace kvloupe::report {

/// All texts are safe for one line.
struct StudyFacts {
  std::string model;       // its name, and what is known of it
  std::string prompts;     // "30 traces: traces/*.h5"
  std::string lengths;     // "882 to 1 132 tokens"; empty: not known
  std::string work;        // what was measured, and in which way
  std::string progress;    // "all 600 items are done"
  std::string study_file;  // where it is found; empty: not found
  bool has_replays = false, has_runs = false;
};

/// The prompts are those of `table`, the values of one measure. Reads the traces that are found,
/// and the study files beside the results. Throws Cancelled.
StudyFacts study_facts(const StudyTable& study, const MeasureTable& table, Progress& progress);

/// "128 tokens at a time", "the whole prompt at once".
std::string block_words(const std::string& block);

/// "0.333 [0.0615, 0.792]"; the mean alone where its interval is not known.
std::string with_interval(const MeanInterval& one);

/// A list of at most `most` names, and how many more there are.
std::string short_list(const std::vector<std::string>& names, std::size_t most);

}  // namespace kvloupe::report
