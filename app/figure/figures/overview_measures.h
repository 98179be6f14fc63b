#pragma once
// The numbers of a head that the figure `overview` can show: values of its choice "measure".

#include <string>
#include <string_view>
#include <vector>

#include "analysis/replay/measure/measure.h"
#include "app/figure/figure.h"

namespace kvloupe::figure {

struct OverviewMeasure {
  std::string name;        // the value of the choice
  std::string label = {};  // in words
  std::string help = {};   // what it says: a sentence, or with formula and source
  MeasureGroup group = MeasureGroup::later;
  enum class From { measure, replay, both_policies, trace } from = From::measure;

  /// The word in session files: the label, or the name of a measure without a label of its own.
  const std::string& session_word() const;
  /// For lists: the label, beginning with a capital letter.
  std::string title() const;
};
/// In the order of the choice.
const std::vector<OverviewMeasure>& overview_measures();
/// By its name; nullptr where there is none.
const OverviewMeasure* find_overview_measure(std::string_view name);

// Names of those that are no measures of the catalogue.
/// The head's part of what eviction changes for later queries: the answer's where there is one.
inline constexpr const char* kChangeMeasure = "change";
inline constexpr const char* kLayerChangeMeasure = "layer-change";
inline constexpr const char* kAttentionKeptMeasure = "attention-kept";
inline constexpr const char* kEntriesMeasure = "entries";
/// The share of the followed tokens that is still there, and who reads them.
inline constexpr const char* kFollowedMeasure = "followed";
/// How alike what A and B keep is.
inline constexpr const char* kOverlapMeasure = "overlap";
inline constexpr const char* kSinksMeasure = "sinks";
inline constexpr const char* kEffectiveTokensMeasure = "effective-tokens";

/// A figure with one number for each head, as `overview` is.
class HeadValues {
 public:
  virtual ~HeadValues() = default;
  /// [L,Hk] of the first policy, row by row; NaN: none.
  virtual const std::vector<float>& head_values() const = 0;
};

/// Share of the tokens kept by either that both keep after a step (Jaccard), of those before
/// `first_unseen`.
double kept_overlap(const HeadReplay& a, const HeadReplay& b, int step, int first_unseen);

}  // namespace kvloupe::figure
