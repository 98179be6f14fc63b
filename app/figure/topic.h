#pragma once

#include <span>
#include <string_view>

namespace kvloupe::figure {

/// The question that a figure answers, in the order of lists; several are those of one paper.
enum class Topic {
  kept,
  comparisons,
  attention,
  keys,
  perturbation,
  values,
  merging,
  model_cache,
};

/// All of them, in that order.
std::span<const Topic> topics();

/// The heading of a list of such figures.
std::string_view heading(Topic topic);

}  // namespace kvloupe::figure
