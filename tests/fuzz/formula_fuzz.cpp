// The formula of expr("...") over columns of numbers.

#include "analysis/policy/kit/formula.h"
#include "tests/fuzz/fuzz_target.h"

KVLOUPE_FUZZ_TARGET(formula) {
  using namespace kvloupe;
  static const Formula::Columns columns = {{"attention", {0.5, 0.25, 0.125, 0.125}},
                                           {"position", {0, 1, 2, 3}},
                                           {"key_norm", {1, 2, 3, 1e30}}};
  try {
    const Formula formula(input, {"attention", "position", "key_norm"});
    const auto values = formula.evaluate(columns, 4);
    fuzz::require(values.size() == 4, "a formula without a value for each entry");
  } catch (const FormulaError& error) {
    fuzz::require(error.position <= input.size(), "an error outside the formula");
  } catch (const FormulaValueError& error) {
    fuzz::require(error.row < 4, "an error at an entry that there is not");
  }
}
