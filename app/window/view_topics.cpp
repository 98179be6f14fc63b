// Under which heading each view is listed.

#include <array>
#include <utility>

#include "app/window/view_catalog.h"

namespace kvloupe::window {

namespace {

constexpr std::string_view kKept = "What is kept";
constexpr std::string_view kCompare = "Comparisons";
constexpr std::string_view kAttention = "Attention and sinks";
constexpr std::string_view kKeyDiff = "Keys (KeyDiff)";
constexpr std::string_view kCritical = "Output perturbation (CriticalKV)";
constexpr std::string_view kValues = "Values and output error (CAOTE)";
constexpr std::string_view kMerging = "Merging (KVMerger)";
constexpr std::string_view kModel = "In the model's own cache";
constexpr std::string_view kMore = "More";

using Line = std::pair<std::string_view, std::string_view>;
constexpr std::array kTopics = {
    Line{"filmstrip", kKept},
    Line{"tokens", kKept},
    Line{"why", kKept},
    Line{"overview", kKept},
    Line{"head-budgets", kKept},
    Line{"policy-diff", kCompare},
    Line{"agreement", kCompare},
    Line{"budget-curve", kCompare},
    Line{"retained-share", kCompare},
    Line{"block-overlap", kCompare},
    Line{"cost", kCompare},
    Line{"drift", kModel},
    Line{"needle-grid", kModel},
    Line{"perplexity-budget", kModel},
    Line{"layer-drift", kModel},
    Line{"attention", kAttention},
    Line{"sinks", kAttention},
    Line{"similarity", kKeyDiff},
    Line{"keydiff-stages", kKeyDiff},
    Line{"pca", kKeyDiff},
    Line{"pca-panel", kKeyDiff},
    Line{"gram-volume", kKeyDiff},
    Line{"angles", kKeyDiff},
    Line{"mean-key-query", kKeyDiff},
    Line{"norms", kKeyDiff},
    Line{"distinct-keys-query", kKeyDiff},
    Line{"diversity", kKeyDiff},
    Line{"attention-mass", kCritical},
    Line{"bound", kCritical},
    Line{"block-size", kValues},
    Line{"eviction-error", kValues},
    Line{"local-similarity", kMerging},
    Line{"pair-rotation", kMerging},
    Line{"compression-layers", kMerging},
    Line{"kernel", kMerging},
    Line{"sigma-sweep", kMerging},
    Line{"merge-sets", kMerging},
};

/// Figures of one paper whose names begin alike.
constexpr std::array kBeginnings = {
    Line{"perturbation", kCritical}, Line{"two-stage", kCritical}, Line{"sigma", kCritical},
    Line{"output-error", kValues},   Line{"caote", kValues},       Line{"value", kValues},
    Line{"logit", kValues},          Line{"merg", kMerging},       Line{"sink", kAttention},
    Line{"key", kKeyDiff},
};

}  // namespace

std::string_view topic_of(const ViewEntry& view) {
  for (const auto& [figure, topic] : kTopics) {
    if (figure == view.figure) return topic;
  }
  for (const auto& [beginning, topic] : kBeginnings) {
    if (view.figure.starts_with(beginning)) return topic;
  }
  return kMore;
}

}  // namespace kvloupe::window
