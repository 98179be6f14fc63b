#pragma once
// A formula that a person typed, over named columns of numbers: one value per cache entry.

#include <cstddef>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/policy/kit/formula_reader.h"

namespace kvloupe {

/// An error in the evaluation of a formula.
struct FormulaValueError : std::runtime_error {
  FormulaValueError(std::size_t row_, const std::string& why)
      : std::runtime_error(why), row(row_) {}
  std::size_t row;
};

/// The operators and functions of muParser and four functions of whole columns, whose arguments may
/// be any formula: rank(x), 1 for the lowest to n for the highest, equal values share their mean
/// rank; zscore(x), (x − mean)/standard deviation, 0 if that is 0; minmax(x), from 0 to 1, 0 if all
/// are equal; smooth(x, k), sum of the k (odd) values around an entry divided by k, values beyond
/// the ends count as 0.
class Formula {
 public:
  using Columns = std::map<std::string, std::vector<double>, std::less<>>;

  /// Throws FormulaError.
  Formula(std::string_view text, const std::vector<std::string>& variables);

  /// Whether the formula reads this variable.
  bool uses(std::string_view variable) const;
  /// [n]. `columns` holds [n] for every variable in use. A result may be a number that is not
  /// finite. Throws FormulaValueError if the argument of a column function is not finite, or k is
  /// not odd. May be called by different threads at the same time.
  std::vector<double> evaluate(const Columns& columns, std::size_t n) const;

 private:
  std::shared_ptr<const FormulaNode> root_;
};

}  // namespace kvloupe
