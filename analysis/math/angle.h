#pragma once

#include <vector>

#include "analysis/base/core/matrix.h"

namespace kvloupe {

/// Angles of keys, queries and values (KeyDiff, §2.2 and appendix C). Rows are float32 as stored,
/// sums are double. A zero vector has cosine 0 to everything. All cost O(n·d).

/// k̄: the mean of n rows [n,d]; zero without rows.
Eigen::RowVectorXd mean_row(const MatrixView& rows);

/// μ(K̂): the mean of the rows, each divided by its length (KeyDiff, the anchor).
Eigen::RowVectorXd mean_direction(const MatrixView& rows);

/// cos(a, b), −1 to 1.
double cosine(const Eigen::RowVectorXd& a, const Eigen::RowVectorXd& b);

/// cos(row, direction) of every row: [n].
std::vector<double> cosines_to(const MatrixView& rows, const Eigen::RowVectorXd& direction);

/// The same as angles, in degrees from 0 to 180 (KeyDiff, figure 11).
std::vector<double> angles_to(const MatrixView& rows, const Eigen::RowVectorXd& direction);

/// The mean cosine of every row to the n − 1 others, (k̂_i·Σk̂ − ‖k̂_i‖²)/(n − 1): [n]. NaN for a
/// single row.
std::vector<double> mean_cosines_to_others(const MatrixView& rows);

/// The mean cosine to `direction` of the `count` rows with the lowest cosine to the anchor μ(K̂),
/// that is, with the highest KeyDiff score (KeyDiff, figure 14: direction is the mean query). Among
/// equal scores the later row counts. NaN if count is 0; a count above n takes all rows.
double distinct_rows_cosine(const MatrixView& rows, const Eigen::RowVectorXd& direction, int count);

}  // namespace kvloupe
