#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "analysis/replay/held_bytes.h"
#include "analysis/replay/replay.h"

namespace kvloupe {

/// The parts of a replay that are written.
struct ReplayJsonOptions {
  std::vector<int> heads;  // empty: all
  bool last_step_only = false;
  std::optional<HeldBytes> bytes = {};
};

/// Writes {trace, policy, budget, block, window or chunk (where one hides anything), bytes (where
/// known: {held, full, states}), notes, heads: [{layer, head, steps: [{step, cache_size, retained,
/// merged, metrics}], measures}]}, one step a line, in pieces; numbers that are not finite are
/// null. Neither cache_size nor retained count tokens that no later query sees. merged: [{into,
/// from, weights, least_cosine, effective_members, least_member_cosine, mean_member_cosine}], the
/// last four with metrics only. metrics: {threshold, ties, second_threshold (of a second stage),
/// allocation_drift (where not 0), merge_threshold (where merging sets were sought), the measures
/// per head and step, query_heads:
/// [{query_head, the measures per query head and step}]}; measures: those of the whole replay and
/// of the trace. The measures are those of measure_catalog.h that apply to the policy.
void write_replay_json(const Replay& replay, const std::string& trace,
                       const ReplayJsonOptions& options,
                       const std::function<void(std::string_view)>& write);

}  // namespace kvloupe
