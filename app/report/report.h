#pragma once
// A study on two pages, for a reader without the program: the settings compared, the curves, the
// budget that can be promised, the heads that lose most, and the commands that repeat it. One value
// holds the content, with every sentence; report_html() and report_pdf() only set it.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/progress.h"
#include "analysis/study/advice.h"
#include "app/figure/figure.h"
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

struct ReportTable {
  std::vector<std::string> columns;
  std::vector<bool> numbers;  // [columns] set to the right
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> notes = {};  // under the table
};

struct ReportFigure {
  const figure::FigureInfo* info = nullptr;
  figure::MadeFigure made;
};

/// A part of the report; whatever is empty is left out. In this order on the page.
struct ReportPart {
  std::string title;
  std::vector<std::pair<std::string, std::string>> facts = {};  // name and value
  std::vector<std::string> paragraphs = {};
  std::optional<ReportFigure> figure = {};
  std::optional<ReportTable> table = {};
  std::vector<std::string> commands = {};  // lines for a shell
};

struct Report {
  std::string title, subtitle;
  /// Three sentences: the recommended policy and budget with its certainty; the results on these
  /// prompts; the limits of the recommendation.
  std::vector<std::string> recommendation;
  std::vector<std::string> cautions;  // what the program chose itself, and what weakens the result
  std::vector<ReportPart> parts;
  std::string foot;
};

/// The content of a results file of a study. Throws FileError (StudyResults; prompts or traces of
/// several models; no values yet), UsageError as advise(), Cancelled.
Report make_report(const std::string& results, const ReportRequest& request, Progress& progress);

/// The three sentences of Report::recommendation. `prompts`: the prompts in words, as in "30
/// traces: traces/*.h5"; `replays`: the losses are of replays, not of the model's answers.
std::vector<std::string> recommendation_of(const Advice& advice, const AdviceRequest& request,
                                           const std::string& prompts, bool replays);

/// Which promised budget is recommended: the fewest entries; of equal ones the smallest bound.
/// Index into advice.policies; −1: none is promised.
int recommended_policy(const Advice& advice);

/// For a report without a promise: the policy whose largest budget has the smallest bound. −1: no
/// values.
int closest_policy(const Advice& advice);

/// One file of HTML: text, and figures as SVG in both themes. It has no script and loads nothing.
std::string report_html(const Report& report, const figure::TextMetrics& fonts);

/// Makes columns fit into `room` together: the widest give way first, to one width.
void fit_columns(std::vector<double>& widths, double room);

/// The pages as PDF, A4. Throws WorkError if Cairo fails.
std::string report_pdf(const Report& report, const figure::TextMetrics& fonts);

/// The bytes of a file by the ending of its name. Throws UsageError for another ending than .html
/// and .pdf.
std::string report_file(const Report& report, const std::string& name,
                        const figure::TextMetrics& fonts);
/// Throws UsageError as report_file() does.
void check_report_name(const std::string& name);

}  // namespace kvloupe::report
