#pragma once

#include <span>
#include <vector>

#include "analysis/base/core/matrix.h"

namespace kvloupe {

/// Finds merging sets (KVMerger, definition 4.1 and algorithm 1): the candidates, in cache order,
/// are cut into sets of neighbours. From the last candidate to the first: a candidate opens a set;
/// going backwards, the next candidates join the set while their cosine is above ε; the first
/// candidate that fails opens the next set. Zero keys have cosine 0.
class MergingSets {
 public:
  enum class Link {
    anchor,  // cosine with the key that opened the set (§3.2, "of a given key state")
    chain,   // cosine with the neighbour that joined last (algorithm 1)
  };

  /// keys [n,d]; candidates: rows, ascending.
  MergingSets(const MatrixView& keys, std::span<const int> candidates, Link link);

  /// All sets, each as ascending rows, the last set first; sets of one included.
  std::vector<std::vector<int>> at(double epsilon);
  /// How many sets there are.
  std::size_t count(double epsilon);
  /// Finds, by bisection, an ε <= 1 with at most `most` sets, while a slightly larger ε gives more.
  /// Returns a value below −1, where all candidates are one set, if no larger one is enough.
  double threshold_for(std::size_t most);

 private:
  /// Calls open() for a candidate that opens a set, join() for one that joins the open set.
  template <typename Open, typename Join>
  void scan(double epsilon, const Open& open, const Join& join);
  /// cos of candidates `later` and `earlier` = later − 1, later − 2 …; computed once.
  double cosine(std::size_t later, std::size_t earlier);

  std::vector<int> candidates_;
  Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> directions_;
  std::vector<std::vector<double>> cosines_;  // [candidate][later − earlier − 1], as far as asked
  Link link_;
};

/// Weights of a merging set's members from their distances ‖k_p − k_i‖ to the pivot (whose distance
/// is 0): g_i = exp(−distance²/(2σ²)), w_i = g_i/Σg (KVMerger, eq. 6 and 7). A distance of 0 has g
/// = 1 for every σ.
std::vector<double> gaussian_weights(std::span<const double> distances, double sigma);

/// Eq. 6 as printed: the σ that equals Σg/(√2|S|), which depends on σ itself. If there are several,
/// the largest: the iteration starts from the largest possible right side, 1/√2, and falls to this
/// σ.
double sigma_of_equation_6(std::span<const double> distances);

/// Our reading of eq. 6: Σ‖k_p − k_i‖/(√2|S|).
double sigma_of_distances(std::span<const double> distances);

}  // namespace kvloupe
