#pragma once
// Sums that several twins share.

#include <complex>
#include <cstddef>
#include <utility>
#include <vector>

#include "tests/naive/naive_replay.h"

namespace kvloupe::naive {

using Scores = NaiveReplay::Scores;
using Complex = std::complex<double>;

/// Coordinates of a key that rotate.
int rotated_width(const ModelInfo& model);
/// The coordinates of pair j, and how fast it turns.
std::pair<int, int> pair_of(const ModelInfo& model, int j);
double frequency(const ModelInfo& model, int j);
/// RoPE of so many positions.
std::vector<double> turned(const ModelInfo& model, std::vector<double> x, double positions);

std::vector<double> softmax(const std::vector<double>& logits);
/// Zeros outside of the first n, which are divided by too.
std::vector<double> pool(const std::vector<double>& values, int kernel, bool largest, int n);

/// [d], as in the cache or before RoPE.
std::vector<double> key_vector(const NaiveReplay& r, int head, int token, bool rotated);
std::vector<double> query_vector(const NaiveReplay& r, int query_head, int token, bool rotated);

/// With the largest score for the entries that have none: a method keeps these anyway.
Scores with_protected(const Scores& scores, const std::vector<int>& cache);
/// By token, of those that had a chunk: what it received in it.
Scores chunk_attention(const NaiveReplay& r, int head, int first_token, int hold_back);
/// Largest coordinate of a value less the smallest.
double value_range(const NaiveReplay& r, int head, int token);
std::vector<double> leverage_of(const NaiveReplay& r, int head, const std::vector<int>& tokens);
/// Mean over the last queries and the group, of so many of the head's first entries.
std::vector<double> window_mean(const NaiveReplay& r, int head, const Block& block, int window,
                                std::size_t entries);

}  // namespace kvloupe::naive
