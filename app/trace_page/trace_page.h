#pragma once
// A whole trace as one web page that needs neither kvloupe nor a network: replays of it under
// several policies and budgets, its keys and the attention rows that matter, as typed arrays that
// the page's script (trace_page.js) draws from. docs/trace-page.md says what a reader sees.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/evaluation/evaluation.h"
#include "analysis/policy/kit/spec.h"
#include "analysis/progress.h"
#include "analysis/trace/trace.h"

namespace kvloupe::trace_page {

/// A page with more than this is refused before the work.
inline constexpr std::size_t kMostBytes = 25'000'000;
/// Scores and ranks, which compress badly, are added while a page stays below this, or within a
/// quarter of what the rest takes.
inline constexpr std::size_t kUsualBytes = 4'900'000;
inline constexpr const char* kUsualPolicies = "keydiff+recent(10%),h2o+recent(50%),tova,snapkv";
inline constexpr const char* kUsualBudgets = "10%,25%,50%";

struct PageRequest {
  std::vector<PolicySpec> policies;          // none twice
  std::vector<Budget> budgets;               // in the order of the slider
  std::vector<int> layers = {}, heads = {};  // empty: all that have a cache
  int block = 0;                             // as ReplayRequest
  std::optional<Compression> compression = {};
  const Evaluation* results = nullptr;  // what the model answered; null: not known
  std::string output = "page.html";     // for the command that makes the page again
  std::string results_path = {};        // the same
  bool background = false;              // other replays that run at the same time come first
};

/// What a page will hold, known before the work.
struct PagePlan {
  std::vector<int> layers;                 // with heads of the page
  std::vector<std::pair<int, int>> heads;  // layer and head
  std::size_t bytes = 0;                   // about; without scores
};
/// Throws UsageError for a layer or head that the trace lacks, for lists that name nothing or one
/// thing twice, and for more than kMostBytes; the message names the layers that would do.
PagePlan plan_page(const Trace& trace, const PageRequest& request);

/// The page, UTF-8. `say` gets a line for each part that is left out: a layer with damaged states,
/// a budget that a policy refuses, scores without room. They are also on the page. Throws
/// Cancelled, what plan_page() throws, and, where nothing is left, the error of the first part.
std::string make_page(const Trace& trace, const PageRequest& request, Progress& progress,
                      const std::function<void(const std::string&)>& say = {});

/// trace_page.css and trace_page.js, as of the build of the program.
std::string_view trace_page_style();
std::string_view trace_page_script();

}  // namespace kvloupe::trace_page
