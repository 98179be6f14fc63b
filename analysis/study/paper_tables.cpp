// The catalogue of papers' tables: one entry each.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/error.h"
#include "analysis/policy/kit/nearest_word.h"
#include "analysis/study/paper_table.h"
#include "analysis/text.h"

namespace kvloupe {

namespace {
/// "spec|label|group" of each; without a group the last is left out.
std::vector<PaperPolicy> paper_policies(const std::vector<std::string>& lines) {
  std::vector<PaperPolicy> policies;
  for (const std::string& line : lines) {
    const std::size_t label = line.find('|'), group = line.find('|', label + 1);
    policies.push_back({line.substr(0, label), line.substr(label + 1, group - label - 1),
                        group == std::string::npos ? "" : line.substr(group + 1)});
  }
  return policies;
}
}  // namespace

std::span<const PaperTable> paper_tables() {
  using Layout = PaperLayout;
  // Scores that are better the larger, in percent: the measures that replace a benchmark's scores.
  static const std::vector<std::string> scores = {"needle_found", "answer_found",
                                                  "perplexity_same_top1"};
  static const std::vector<PaperTable> all = {
      {"keydiff-8", "KeyDiff, table 8", "Six policies at four budgets on all tasks.", "Method",
       Layout::tasks_across, scores, true,
       paper_policies({"h2o|H2O", "tova|TOVA", "sink|Sink", "snapkv|SnapKV", "keynorm|KeyL2Norm",
                       "keydiff|KeyDiff"})},
      {"keydiff-11", "KeyDiff, table 11",
       "KeyDiff with a part of the budget for the last tokens, on all tasks.", "Method",
       Layout::tasks_across, scores, true,
       paper_policies({"sink|Sink", "snapkv|SnapKV",
                       "keydiff+recent(10%)|KeyDiff + 10% Recent Tokens",
                       "keydiff+recent(20%)|KeyDiff + 20% Recent Tokens", "keydiff|KeyDiff"})},
      {"caote-5",
       "CAOTE, table 5",
       "Needles found by three policies without and with CAOTE.",
       "Budget",
       Layout::policies_across,
       {"needle_found"},
       false,
       paper_policies({"h2o||H2O", "h2o+caote|+CAOTE|H2O", "h2o+fastcaote|+FastCAOTE|H2O",
                       "tova||TOVA", "tova+caote|+CAOTE|TOVA", "tova+fastcaote|+FastCAOTE|TOVA",
                       "snapkv||SnapKV", "snapkv+caote|+CAOTE|SnapKV",
                       "snapkv+fastcaote|+FastCAOTE|SnapKV"})},
      {"criticalkv-1", "CriticalKV, tables 1 and 2",
       "Two policies without and with the two stages of CriticalKV, by task.", "Domain",
       Layout::settings_across, scores, true,
       paper_policies({"snapkv(pool=max)|w/o ours|SnapKV",
                       "snapkv(pool=max)+critical|w/ ours|SnapKV",
                       "snapkv(pool=max)+adakv|w/o ours|AdaKV",
                       "snapkv(pool=max)+adakv+critical|w/ ours|AdaKV"})},
      {"kvmerger-3", "KVMerger, table 3", "Widths of the Gaussian that weights merged entries.",
       "σ", Layout::tasks_across, scores, true,
       paper_policies({"h2o+kvmerger(auto,sigma=0.5)|0.5", "h2o+kvmerger(auto,sigma=1)|1",
                       "h2o+kvmerger(auto,sigma=2)|2", "h2o+kvmerger(auto,sigma=3)|3",
                       "h2o+kvmerger(auto,sigma=4)|4", "h2o+kvmerger(auto,sigma=5)|5",
                       "h2o+kvmerger(auto,sigma=6)|6"})}};
  return all;
}

const PaperTable& require_paper_table(std::string_view name) {
  std::vector<std::string> names;
  for (const PaperTable& table : paper_tables()) {
    if (table.name == name) return table;
    names.push_back(table.name);
  }
  throw UsageError(
      fmt::format("--table {}: there is no such table; the nearest is '{}'. The tables are {}",
                  in_one_line(name), nearest_word(name, names), fmt::join(names, ", ")));
}

}  // namespace kvloupe
