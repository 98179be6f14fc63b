#pragma once
// A whole trace as one web page that needs neither kvloupe nor a network: replays of it under
// several policies and budgets, its keys and the attention rows that matter, as typed arrays that
// the page's script (trace_page.js) draws from. docs/trace-page.md says what a reader sees.

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/base/core/progress.h"
#include "analysis/evaluation/evaluation.h"
#include "analysis/policy/kit/spec.h"
#include "analysis/trace/trace.h"

namespace kvloupe::trace_page {

/// A page with more than this is refused before the work.
inline constexpr std::size_t kMostBytes = 25'000'000;
/// Scores and ranks, which compress badly, are added while a page stays below this, or within a
/// quarter of what the rest takes.
inline constexpr std::size_t kUsualBytes = 4'900'000;
inline constexpr const char* kUsualPolicies = "keydiff+recent(10%),h2o+recent(50%),tova,snapkv";
inline constexpr const char* kUsualBudgets = "10%,25%,50%";
inline constexpr int kMostReads = 16;  // tokens of an attention row

struct PageRequest {
  std::vector<PolicySpec> policies;
  std::vector<Budget> budgets;          // in the order of the slider
  std::string layers = {}, heads = {};  // "0-3,7"; empty: all that have a cache
  int block = 0;                        // as ReplayRequest
  std::optional<Compression> compression = {};
  const Evaluation* results = nullptr;                  // what the model answered; null: not known
  std::string output = "page.html";                     // for the command that makes the page again
  std::string typed_policies = {}, typed_budgets = {};  // lists; scripts may use these names too
  bool background = false;  // other replays that run at the same time come first
};

/// What a page will hold, known before the work.
struct PagePlan {
  std::vector<std::pair<int, int>> heads;  // layer and head
  std::vector<Block> blocks;               // its steps
  std::vector<int> rows;                   // tokens whose attention it shows, ascending
  std::size_t bytes = 0;                   // about; without scores
};
/// Throws UsageError for a layer or head that the trace lacks, for a policy or budget that is named
/// twice, and for more than kMostBytes; the message names layers that would do.
PagePlan plan_page(const Trace& trace, const PageRequest& request);

/// The numbers of a page. With P policies, B budgets, H heads of the page, T tokens, S steps, R
/// attention rows; all little-endian, deflated (zlib):
///   kept-P    [H,T,B] u8, u16 with more than 254 steps: the step at which a token left; all ones:
///             it stayed
///   left-P    [H,T,B] u8: the Fate with which it left; absent where all were evicted
///   score-P-B f32 [H,S] thresholds, then five planes of u8 [H,T]: high and low byte of the upper
///             half of the score as f32, rounded to 3 %, high and low byte of the rank (0: no
///             score), and the Fate, each of a token's last step in the cache
///   measures  f32 [M,P,B,H], of whole replays
///   keys      f32 [H,6] lowest and highest coordinate and explained share of each component, u8
///             [H,2,T] coordinates in 255ths of that range
///   reads     u32 [H,R,16]: the tokens that a row of attention, mean over the query heads, reads
///             most
///   shares    u8 [H,R,16]: 255 · √ of that attention
struct PageData {
  std::vector<std::pair<std::string, std::string>> sections;  // name and deflated bytes
  nlohmann::ordered_json about;  // what names and shapes them; `problems`: what is left out
};
/// `say` gets a line for each part that is left out: a layer with damaged states, a budget that a
/// policy refuses, scores without room. They are also on the page. Throws Cancelled, what
/// plan_page() throws, and, where nothing is left, the error of the first part.
using Say = std::function<void(const std::string&)>;
PageData page_data(const Trace& trace, const PageRequest& request, const PagePlan& plan,
                   Progress& progress, const Say& say);
/// The page, UTF-8. Throws as page_data().
std::string make_page(const Trace& trace, const PageRequest& request, Progress& progress,
                      const Say& say = {});

/// trace_page.html, .css and .js, as of the build of the program.
std::string_view trace_page_frame();
std::string_view trace_page_style();
std::string_view trace_page_script();

}  // namespace kvloupe::trace_page
