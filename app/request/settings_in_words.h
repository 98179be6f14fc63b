#pragma once

#include <string>
#include <utility>
#include <vector>

#include "app/request/figure_request.h"

namespace kvloupe::request {

/// The settings of a figure in words: trace, model, policy, layer, ..., the program's version.
/// `input` is the request's input, with its selection resolved.
std::vector<std::pair<std::string, std::string>> settings_in_words(
    const figure::FigureInfo& info, const FigureRequest& request, const figure::FigureInput& input);

/// The terms of a comparison of the figure's policies: which of them can know the question, when
/// the prompt is compressed, what the budget counts. Empty if the figure shows fewer than two
/// policies, or if they do not act as in replays.
std::string terms_in_words(const figure::FigureInfo& info, const FigureRequest& request,
                           const figure::FigureInput& input);

/// The policies that the figure shows: the selected ones and those of typed lists.
std::vector<PolicySpec> policies_of(const figure::FigureInfo& info, const FigureRequest& request);

}  // namespace kvloupe::request
