#include "app/figure/topic.h"

#include <array>

namespace kvloupe::figure {

std::span<const Topic> topics() {
  static constexpr std::array kTopics = {Topic::kept,    Topic::comparisons,  Topic::attention,
                                         Topic::keys,    Topic::perturbation, Topic::values,
                                         Topic::merging, Topic::model_cache};
  return kTopics;
}

std::string_view heading(Topic topic) {
  switch (topic) {
    case Topic::kept:
      return "Kept entries";
    case Topic::comparisons:
      return "Comparisons";
    case Topic::attention:
      return "Attention and sinks";
    case Topic::keys:
      return "Keys (KeyDiff)";
    case Topic::perturbation:
      return "Output perturbation (CriticalKV)";
    case Topic::values:
      return "Values and output error (CAOTE)";
    case Topic::merging:
      return "Merging (KVMerger)";
    case Topic::model_cache:
      return "In the model's own cache";
  }
  return {};
}

}  // namespace kvloupe::figure
