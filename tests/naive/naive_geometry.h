#pragma once
// Key geometry in double precision, in plain loops that read like the formulas.

#include <vector>

#include "analysis/base/core/matrix.h"
#include "analysis/trace/model_info.h"

namespace kvloupe::naive {

using Vector = std::vector<double>;
using Vectors = std::vector<Vector>;

Vectors vectors_of(const Matrix& rows);
double dot(const Vector& a, const Vector& b);
double cosine(const Vector& a, const Vector& b);
Vector mean(const Vectors& rows);
/// Mean of the rows divided by their lengths.
Vector mean_direction(const Vectors& rows);
/// Mean cosine of row i to the others, pair by pair.
double mean_cosine_to_others(const Vectors& rows, std::size_t i);
/// A value's rank is 1 + the number of smaller ones + half the number of other equal ones.
double rank_of(const Vector& values, std::size_t i);
/// The correlation of two lists, by its definition.
double correlation(const Vector& a, const Vector& b);
/// Σ over all ordered pairs of k̂_i·k̂_j.
double objective(const Vectors& keys, const std::vector<int>& set);

/// Theorem C.1 of KeyDiff.
struct Alignment {
  double weight, cosine, paper_bound, jensen_bound;
};
Alignment attention_alignment(const Vector& query, Vectors keys, double scale, std::size_t star);

/// How often KeyDiff's two expressions add, multiply, divide and take roots, counted while they are
/// carried out.
struct Operations {
  long additions = 0, multiplications = 0, divisions = 0, roots = 0;
};
Operations count_keydiff(const Vectors& keys);

/// Cosine of pair j of rows m and n before RoPE, from the angles of the pairs as they are.
double cosine_before_rope(const Vectors& keys, const ModelInfo& model, std::size_t m, std::size_t n,
                          int j);

}  // namespace kvloupe::naive
