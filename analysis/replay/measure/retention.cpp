// retention: how much of a head's cache is left after a replay.

#include <algorithm>

#include "analysis/replay/measure/measures.h"

namespace kvloupe::measures {

namespace {
double retained(const HeadReplay& head) { return head.steps.back().retained; }
double retained_share(const HeadReplay& head) {
  const int seen = head.steps.back().seen;
  return seen > 0 ? retained(head) / seen : 1.0;
}

double absorbed(const HeadReplay& head) {
  std::vector<int> members;
  for (const StepRecord& step : head.steps) {
    for (const Merge& merge : step.merges) {
      for (const int token : merge.from) {
        if (token != merge.into) members.push_back(token);
      }
    }
    for (const Gift& gift : step.gifts) members.push_back(gift.from);
  }
  std::sort(members.begin(), members.end());
  return static_cast<double>(std::unique(members.begin(), members.end()) - members.begin());
}

double ties(const HeadReplay& head) {
  double sum = 0.0;
  for (const StepRecord& step : head.steps) sum += step.ties;
  return sum;
}
}  // namespace

MeasureFamily retention() {
  MeasureFamily family;
  family.group = MeasureGroup::kept;
  family.name = "Retained entries";
  family.scope = MeasureScope::replay;
  family.measures = {
      {.name = "retained",
       .title = "Entries retained",
       .unit = "entries",
       .formula = "entries after the last step",
       .source = "KVMerger figure 3b",
       .help = "Entries that the head holds after the last step.",
       .of_replay = retained},
      {.name = "retained_share",
       .title = "Share retained",
       .formula = "entries after the last step / tokens that later queries see",
       .source = "KVMerger figure 3b",
       .share = true,
       .help = "Share of the tokens that later queries see whose entries the head holds after the "
               "last step.",
       .of_replay = retained_share},
      {.name = "absorbed",
       .title = "Tokens absorbed by merges",
       .unit = "tokens",
       .formula = "entries merged into another entry, or whose value was given to others",
       .source = "KVMerger §4",
       .help = "How many entries were merged into another one, or gave their value away.",
       .of_replay = absorbed},
      {.name = "ties",
       .title = "Ties at the threshold",
       .unit = "entries",
       .formula = "entries with a score equal to the threshold, if more than one, over all steps",
       .source = "ours",
       .help = "How many entries had the very score at which the choice ends, so that the score "
               "alone did not decide which of them stays.",
       .of_replay = ties}};
  return family;
}

}  // namespace kvloupe::measures
