#pragma once

#include <filesystem>
#include <string>

#include "analysis/study/study_table.h"

namespace kvloupe {

/// The trace of a study by its name: from the folder of the results file, or from that of the study
/// file. Empty where neither has it.
std::filesystem::path find_study_trace(const StudyTable& table, const std::string& name);

/// The model of a study's runs, found in the same way. Empty where the study has no runs, too.
std::filesystem::path find_study_model(const StudyTable& table);

/// Throws WorkError, with what each has, where the prompts of a table have other heads, or where
/// the traces of a study's replays were made by several models: a head is then no longer the same
/// head.
void require_one_model(const StudyTable& table, const MeasureTable& of,
                       const HeadMeasureTable& heads);

}  // namespace kvloupe
