#pragma once
// A finding about followed tokens as one page, for a reader without the program.

#include "analysis/base/core/progress.h"
#include "app/document/document.h"
#include "app/request/figure_service.h"
#include "app/scene/text_metrics.h"
#include "app/session/finding.h"

namespace kvloupe::report {

/// The finding in sentences; the text and the film strip of the head that it blames first, or else
/// of the first head; every head's share and reads; the first heads in numbers; the commands that
/// repeat it. `maker`: of the finding's trace. Throws Cancelled, and what figures throw.
figure::document::Document finding_page(const window::FindingSource& source,
                                        const request::FigureMaker& maker,
                                        const figure::TextMetrics& fonts, Progress& progress);

}  // namespace kvloupe::report
