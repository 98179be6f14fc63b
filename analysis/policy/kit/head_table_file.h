#pragma once

#include <string>

#include "analysis/policy/kit/sequence_tables.h"

namespace kvloupe {

/// A table of one finite number, not negative, for each layer and head, from a file: CSV, TSV or
/// lines of numbers (a row per layer, a column per head), CSV with the columns layer, head and
/// value (in any order, each head once), or a NumPy file (.npy) of float32 or float64
/// [layers][heads]. A table by query head becomes one by key-value head: the mean of the group.
/// Throws FileError, with the line where there is one, for anything else, or another number of
/// layers or heads.
HeadTable read_head_table(const std::string& path, const ModelInfo& model);

}  // namespace kvloupe
