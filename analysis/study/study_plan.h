#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/study/study.h"
#include "analysis/study/study_measures.h"

namespace kvloupe {

/// The source of items: a trace, or a prompt of a task.
struct StudySource {
  std::string name;      // as results show it: the trace, or the task and its prompt
  std::string identity;  // changes with the content; empty: cannot be opened
  std::string task = kReplayTask;
  /// The prompt of a task, or how it is generated.
  PromptPlace prompt = {};
  int length = 0;  // tokens; 0: the prompt of that place
  double depth = 0.0;
  int sample = 0, needles = 1;
  int answer_tokens = 0;  // of the task answer: the most that the model says
  std::uint64_t seed = 1;
  std::string earlier_identity = {};  // of the same, in results of earlier versions; empty: none
};

/// One replay of a study, or one run in the model. Its place in the plan is its number.
struct StudyItem {
  int trace = 0;                             // index into StudyPlan::sources
  std::string policy = {};                   // canonical spec
  std::string budget = {}, block_word = {};  // as written; "capture": the capture's block
  int entries = 0;                           // the budget; 0: known when the prompt is tokens
  int block = 0;                             // tokens per step of the prompt
  int first_measure = 0;                     // of its task, among measures_of() the study
  std::string compression = {};
  double cost = 0.0;         // replay_cost(), to begin with the dearest
  std::string problem = {};  // why the trace cannot be opened; empty: the item can be computed
};

/// All replays of a study: traces × policies × budgets × blocks; then the runs of its tasks:
/// prompts × blocks × (the full cache, then policies × budgets), in this order, so that a study's
/// items have the same numbers whenever and wherever the plan is made. The task drift has no run of
/// the full cache of its own.
struct StudyPlan {
  std::vector<StudySource> sources;  // the traces, then the prompts of each task
  std::vector<StudyItem> items;
  const StudySource& source(const StudyItem& item) const {
    return sources.at(static_cast<std::size_t>(item.trace));
  }
  /// The first source with the context of this one: questions about one context are neighbours.
  int first_of_context(int source) const;
};

/// Opens every trace once, and checks that each can be replayed with each setting; the model is
/// known by its fingerprint, and prompts are not read. A trace, prompt or model that
/// cannot be opened is a problem of its own items only. Throws FileError, naming trace and
/// setting, for a block, budget or compression that a trace cannot have, for traces of different
/// models, precision or caches, which have no common mean, and for more than a million items.
StudyPlan plan_study(const Study& study);

/// The approximate cost of a replay in multiplications: L · Hq · d · Σ over steps of (queries of
/// the step + 1) · (entries present at the step). These are the products of queries and keys, once
/// for the policy's block and once for the measures of the step's last query.
double replay_cost(const ModelInfo& model, const std::vector<Block>& steps, int budget);

}  // namespace kvloupe
