#pragma once

#include <filesystem>
#include <vector>

namespace kvloupe {

/// The items of a results file after others were merged into it.
struct MergedResults {
  int items = 0, done = 0, failed = 0;
};

/// Joins results files of one study, such as those of its shards, in a target, which may be there
/// and hold a part as well: every item that is done in one of them is done in the target, and of
/// the others the problem is known. The result does not depend on the files' order: values of an
/// item are equal wherever they were computed. The files stay as they are; each is taken in whole
/// or not at all. Throws FileError: none given or missing, of another kind or version, of another
/// study (with what differs), of a trace that changed between them, the target among the files, or
/// locked by a study.
MergedResults merge_results(const std::vector<std::filesystem::path>& parts,
                            const std::filesystem::path& target);

}  // namespace kvloupe
