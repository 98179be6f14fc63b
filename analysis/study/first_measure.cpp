#include "analysis/study/first_measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "analysis/measure/foretold_answers.h"
#include "analysis/measure/measure_catalog.h"
#include "analysis/study/study_measures.h"

namespace kvloupe {

namespace {
// Before all others: the answers, then the number of replays that foretold answers best.
constexpr std::string_view kFirst[] = {"answer_found", "needle_found", "answer_residual_change"};
constexpr std::size_t kAnswers = 2;

bool is_finite(double value) { return std::isfinite(value); }

/// False for a measure of the full cache or of the trace alone.
bool depends_on_policy(const std::string& measure) {
  const Measure* known = find_measure(measure);
  return known == nullptr ||
         (known->family->scope != MeasureScope::trace && !known->family->of_full_cache &&
          known->family->group != MeasureGroup::full_cache);
}

/// The smaller, the earlier.
std::size_t rank_of(const StudyTable& study, std::size_t measure) {
  const std::string& name = study.measures[measure];
  constexpr std::size_t kLast = 1'000'000;
  if (!compares_policies(study, measure)) return kLast;
  std::vector<std::string_view> order(std::begin(kFirst), std::end(kFirst));
  for (const ForetoldAnswers& one : foretold_answers()) order.push_back(one.measure);
  const auto found = std::find(order.begin(), order.end(), name);
  if (found != order.end()) return static_cast<std::size_t>(found - order.begin());
  return kLast - (find_study_measure(name)->share ? 2 : 1);
}
}  // namespace

bool compares_policies(const StudyTable& study, std::size_t measure) {
  const std::string& name = study.measures[measure];
  const auto known = find_study_measure(name);
  if (!known || known->better == Better::neither || !depends_on_policy(name)) return false;
  const std::vector<std::string> blocks = blocks_of(study, static_cast<int>(measure));
  if (blocks.empty()) return false;
  const MeasureTable table = measure_table(study, static_cast<int>(measure), blocks.front());
  const auto of_policy = static_cast<std::ptrdiff_t>(table.budgets.size() * table.prompts.size());
  for (auto first = table.values.begin(); first != table.values.end(); first += of_policy) {
    if (std::none_of(first, first + of_policy, is_finite)) return false;
  }
  return !table.policies.empty();
}

std::vector<std::string> measures_in_order(const StudyTable& study) {
  std::vector<std::pair<std::size_t, std::size_t>> places;  // rank, place in the file
  for (std::size_t m = 0; m < study.measures.size(); ++m) {
    const std::vector<double>& values = study.values[m];
    if (std::any_of(values.begin(), values.end(), is_finite))
      places.emplace_back(rank_of(study, m), m);
  }
  std::sort(places.begin(), places.end());
  std::vector<std::string> names;
  for (const auto& [rank, place] : places) names.push_back(study.measures[place]);
  return names;
}

FirstMeasure first_measure(const StudyTable& study) {
  const std::vector<std::string> names = measures_in_order(study);
  if (names.empty()) return {};
  const std::string& name = names.front();
  if (std::find(kFirst, kFirst + kAnswers, name) != kFirst + kAnswers)
    return {name, "It counts the model's own answers with each policy in the cache."};
  const std::string foretold = foretold_text(name);
  return {name,
          fmt::format("The study does not have the model's answers under every policy{}. {}",
                      name == kFirst[kAnswers] ? "" : ", nor answer_residual_change",
                      foretold.empty() ? "Whether this measure foretells answers is not known."
                                       : foretold)};
}

}  // namespace kvloupe
