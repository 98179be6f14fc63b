#pragma once
// For figures that show more than the selected policies: the meaning of their lists, and the
// replays.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/replay/ask.h"
#include "analysis/trace/trace.h"
#include "app/figure/figure.h"

namespace kvloupe::figure {

/// The policies of a typed list; A and B are the selected ones, none twice.
std::vector<PolicySpec> chosen_policies(const FigureInput& input,
                                        std::string_view name = "policies");
/// For each of these specs, its name if it is the chance line of the others (random_line_name()).
/// Empty for other policies, and for texts that are not policies of this program.
std::vector<std::string> chance_names(const std::vector<std::string>& policies);

/// The budgets, ascending, none twice (as entries of the first trace).
std::vector<Budget> chosen_budgets(const FigureInput& input, std::string_view name = "budgets");
/// The block sizes in tokens, in the order given; "all" is the first trace's prompt length.
std::vector<int> chosen_blocks(const FigureInput& input, std::string_view name = "blocks");
double chosen_number(const FigureInput& input, std::string_view name);
std::vector<double> chosen_numbers(const FigureInput& input, std::string_view name);

/// The tokens of a choice of tokens, ascending. Throws UsageError for those that the trace lacks.
std::vector<int> chosen_tokens(const FigureInput& input, std::string_view name = "tokens");

/// One replay that a comparison needs; an absent field is as selected.
struct WantedReplay {
  PolicySpec policy = {};
  std::optional<Budget> budget = std::nullopt;
  std::optional<int> block = std::nullopt;
  std::vector<int> layers = {};  // empty: all
  /// These are measured and no others, at these steps (empty: at all); with them, how well merged
  /// entries represent their members (StepRecord::merge_measures).
  std::vector<std::string> measures = {};
  std::vector<int> steps = {};
  bool summary = false;   // of the measures only what measure_of() reads, of these steps
  bool scores = false;    // of the selected head
  std::size_t trace = 0;  // of FigureInput::traces
};

/// The same of each policy: `like` with another policy.
std::vector<WantedReplay> for_each_policy(const std::vector<PolicySpec>& policies,
                                          const WantedReplay& like = {});

inline constexpr long kReplaySteps = 1000;

/// As many as are wanted, in their order; a null pointer is one that is still to come.
using Replays = std::vector<std::shared_ptr<const Replay>>;
/// Makes the figure from all replays, or a part of it from those so far; the first is there.
using FigureOfReplays = std::function<std::unique_ptr<const Figure>(const Replays& replays)>;

/// All of them, in their order, each from the input's store or computed, then measured; counts as
/// kReplaySteps of `progress`. The attention with the full cache, which their measures share, is
/// computed once. Cancellable; throws what replay() and measure_replay() throw. Sets the progress'
/// total; `more` steps of it are left for what comes after.
/// `show`, where given, makes pictures of the replays so far for an empty tile (a tile that shows
/// the figure with other settings keeps its picture until the whole is there).
Replays replays_of(const FigureInput& input, const std::vector<WantedReplay>& wanted,
                   Progress& progress, long more = 0, const FigureOfReplays& show = {});

/// The figure of all of them; parts of it while they are made.
std::unique_ptr<const Figure> figure_of_replays(const FigureInput& input,
                                                const std::vector<WantedReplay>& wanted,
                                                Progress& progress, const FigureOfReplays& show);

/// The changes by eviction under each of the replays, for the queries of asked_first(). Counts as
/// one part of `progress` with kReplaySteps. Throws what ask() throws.
std::vector<AskedReplay> asked_of(const FigureInput& input, const Replays& replays,
                                  Progress& progress);
/// The measure of that name for these queries: "answer_output_error".
std::string asked_measure(const Trace& trace, const std::string& name);

/// The same as plain pointers, for what takes several replays at once.
std::vector<const Replay*> pointers(const Replays& replays);

/// The name of a choice: the share of the trace's tokens that the figure's policies compress in one
/// step of its own, whatever the selected block and compression.
inline constexpr const char* kPrefixChoice = "prefix";
bool compresses_a_prefix(const FigureInfo& info);

/// Why a figure of the attention with the full cache cannot be made from this trace; empty if it
/// can.
std::string without_full_cache(const Trace& trace);

/// Why a figure of the rotation of keys cannot be made from this trace; empty if it can.
std::string without_rotation(const Trace& trace);

/// Why a figure of several block sizes cannot be made from this trace; empty if it can
/// (FigureInfo::unavailable).
std::string fixed_block_size(const Trace& trace);

/// The head's replay. Throws WorkError if the head was not replayed.
const HeadReplay& head_of(const Replay& replay, int layer, int head);

/// "for the answer's queries": the queries of this trace that a figure of later queries measures.
std::string asked_text(const Trace& trace);

}  // namespace kvloupe::figure
