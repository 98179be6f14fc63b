#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/replay/replay.h"
#include "analysis/replay/typed_values.h"

namespace kvloupe {

/// Many replays of one trace: every policy at every budget and block size.
struct SweepRequest {
  std::vector<PolicySpec> policies = {};
  std::vector<Budget> budgets = {};
  std::vector<int> blocks = {};                 // tokens; 0: the capture's
  std::optional<Compression> compression = {};  // none: the capture's
};

/// One replay of a sweep.
struct SweepSetting {
  PolicySpec policy;
  int budget = 0;  // entries
  int block = 0;   // tokens
  Compression compression = Compression::regular;
  bool operator==(const SweepSetting&) const = default;
};

/// The measures on request that are shown first everywhere: of the answer's queries, where the
/// trace has them, else of the question's, else of later ones.
std::vector<std::string> usual_measures(const Trace& trace);

/// Policies × budgets × blocks, none twice, in this order. Throws UsageError for a budget or block
/// the trace cannot have, and for a policy whose parts make no sense together.
std::vector<SweepSetting> sweep_settings(const Trace& trace, const SweepRequest& request);

/// One head of one replay.
struct SweepRow {
  std::string trace;     // its file's name
  std::string identity;  // of the trace, and of the files and plugins that the policy is made of
  std::string policy;
  int budget = 0;
  int block = 0;
  Compression compression = Compression::regular;
  int layer = 0;
  int head = 0;
  std::vector<double> values;  // [all_measures()], by measure_of()
  /// Terms of a comparison with the policy here (ComparisonTerms), in words; empty in rows of older
  /// files.
  std::string question, prompt_compressed, budget_counts;
};

/// The rows of a sweep, as a CSV file with a heading.
class SweepTable {
 public:
  /// Reads a file that save() wrote, of this version or one before: without the words for
  /// comparisons at the end of its rows, and before that with regular compression only. One that is
  /// not there is empty. Throws FileError for any other content, with the line.
  static SweepTable load(const std::string& path);

  /// Whether all heads of that replay are here.
  bool has(const Trace& trace, const SweepSetting& setting) const;
  /// Adds the rows of a replay, in place of its earlier rows.
  void add(const Trace& trace, const SweepSetting& setting, const Replay& replay);
  /// Writes the whole file, in full or not at all. Throws FileError.
  void save(const std::string& path) const;

  const std::vector<SweepRow>& rows() const { return rows_; }

 private:
  std::vector<SweepRow> rows_;
};

/// The data that several sweeps of one trace share: states already read, and values measured with
/// one choice of measures.
struct SweepShared {
  LayerStatesCache& states;
  SharedMeasures& measures;
};

/// Replays the missing settings and saves the table to `path` after each replay, so that a sweep
/// that was stopped goes on where it was; an empty path: nothing is saved. `report`, if given, is
/// called before each setting with its place, the number of settings, and whether the table already
/// had it. `measures`: those on request to compute too, or "all". Known values are not computed
/// again. Throws what replay() and save() throw.
void run_sweep(const Trace& trace, const std::vector<SweepSetting>& settings,
               const std::string& path, SweepTable& table, Progress& progress,
               const std::function<void(std::size_t place, std::size_t count,
                                        const SweepSetting& setting, bool known)>& report,
               const std::vector<std::string>& measures = {}, const SweepShared* shared = nullptr);

/// Whether a limit of this measure is its least value, because more of it is better. Throws
/// UsageError for a measure there is not.
bool is_floor(std::string_view measure);

/// The smallest budget of each head, per policy and block, at which a measure is at most `limit`,
/// or at least (is_floor()); none where no budget of the table is within the limit.
struct SmallestBudget {
  std::string policy;
  int block = 0;
  Compression compression = Compression::regular;
  int layer = 0;
  int head = 0;
  std::optional<int> budget;
};

/// The smallest budgets of this trace's rows, in their order. Throws UsageError for a measure there
/// is not.
std::vector<SmallestBudget> smallest_budgets(const SweepTable& table, const Trace& trace,
                                             std::string_view measure, double limit);

}  // namespace kvloupe
