#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "analysis/replay/replay.h"

namespace kvloupe {

/// What of a replay is written.
struct ReplayJsonOptions {
  std::vector<int> heads;  // empty: all
  bool last_step_only = false;
};

/// Writes {trace, policy, budget, block, notes, heads: [{layer, head, steps: [{step, cache_size,
/// retained, merged, metrics}]}]}, one step a line, in pieces; numbers that are not finite are
/// null. merged: [{into, from, weights, least_cosine, effective_members, least_member_cosine,
/// mean_member_cosine}], the last four with metrics only. metrics: {threshold, ties,
/// second_threshold (of a second stage), allocation_drift (where not 0), merge_threshold (where
/// merging sets were sought), log_pseudo_determinant,
/// rank, query_heads: [{query_head, retained_mass, perturbation_l1, bound_l1, perturbation_l2,
/// bound_l2, head_error_l2}]}.
void write_replay_json(const Replay& replay, const std::string& trace,
                       const ReplayJsonOptions& options,
                       const std::function<void(std::string_view)>& write);

}  // namespace kvloupe
