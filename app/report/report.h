#pragma once
// A study on two pages, for a reader without the program: the settings compared, the curves, the
// budget that can be promised, the heads that lose most, and the commands that repeat it.

#include <string>
#include <vector>

#include "analysis/base/core/progress.h"
#include "analysis/study/advice.h"
#include "app/document/document.h"
#include "app/scene/text_metrics.h"

namespace kvloupe::report {

/// The limit of a loss that lies between 0 and 1 where nobody gave one; as in the figure
/// certificate.
inline constexpr double kUsualLimit = 0.1;

/// The request for a report. `advice.measure` empty: first_measure(); `advice.at_most` 0:
/// kUsualLimit for a share, and no promise for any other measure. The bounds always hold for all
/// policies together, because the reader chooses among the policies by the same prompts.
struct ReportRequest {
  AdviceRequest advice;
  std::vector<std::string> outputs = {};  // files, for the command that repeats the report
};

/// A study on two pages. `lead` holds three sentences: the recommended policy and budget with its
/// certainty; the results on these prompts; the limits of the recommendation. `cautions`: what the
/// program chose itself, and what weakens the result.
using Report = figure::document::Document;

/// The content of a results file of a study. Throws FileError (StudyResults; prompts or traces of
/// several models; no values yet), UsageError as advise(), Cancelled.
Report make_report(const std::string& results, const ReportRequest& request, Progress& progress);

/// The three sentences of the report. `prompts`: the prompts in words, as in "30
/// traces: traces/*.h5"; `replays`: the losses are of replays, not of the model's answers.
std::vector<std::string> recommendation_of(const Advice& advice, const AdviceRequest& request,
                                           const std::string& prompts, bool replays);

/// Which promised budget is recommended: the fewest entries; of equal ones the smallest bound.
/// Index into advice.policies; −1: none is promised.
int recommended_policy(const Advice& advice);

/// For a report without a promise: the policy whose largest budget has the smallest bound. −1: no
/// values.
int closest_policy(const Advice& advice);

/// The bytes of a file by the ending of its name: one page of HTML with figures in both themes,
/// which has no script and loads nothing, or PDF. Throws UsageError for another ending, WorkError
/// if Cairo fails.
std::string report_file(Report report, const std::string& name, const figure::TextMetrics& fonts);
/// Throws UsageError as report_file() does.
void check_report_name(const std::string& name);

}  // namespace kvloupe::report
