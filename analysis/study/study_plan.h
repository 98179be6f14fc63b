#pragma once

#include <string>
#include <vector>

#include "analysis/study/study.h"

namespace kvloupe {

/// One replay of a study. Its place in the plan is its number.
struct StudyItem {
  int trace = 0;                   // index into Study::traces
  std::string policy;              // canonical spec
  std::string budget, block_word;  // as written; "capture": the capture's block
  int entries = 0;                 // the budget
  int block = 0;                   // tokens per step of the prompt
  std::string compression;
  double cost = 0.0;    // replay_cost(), to begin with the dearest
  std::string problem;  // why the trace cannot be opened; empty: the item can be computed
};

/// All replays of a study: traces × policies × budgets × blocks, in this order, so that a study's
/// items have the same numbers whenever and wherever the plan is made.
struct StudyPlan {
  std::vector<std::string> identities;  // of each trace (Trace::identity); empty: not opened
  std::vector<StudyItem> items;
};

/// Opens every trace once, and checks that each can be replayed with each setting. A trace that
/// cannot be opened is a problem of its own items only. Throws FileError, naming trace and
/// setting, for a block, budget or compression that a trace cannot have.
StudyPlan plan_study(const Study& study);

/// What a replay costs, in multiplications, roughly: L · Hq · d · Σ over steps of (queries of the
/// step + 1) · (entries present at the step). The products of queries and keys, once for the
/// policy's block and once for what is measured of the step's last query.
double replay_cost(const ModelInfo& model, const std::vector<Block>& steps, int budget);

}  // namespace kvloupe
