#pragma once

#include <string>
#include <utility>
#include <vector>

#include "app/request/figure_request.h"

namespace kvloupe::request {

/// What a figure is made from, in words: trace, model, policy, layer, ..., the program's version.
/// `input` is what the request asks for, its selection resolved.
std::vector<std::pair<std::string, std::string>> settings_in_words(
    const figure::FigureInfo& info, const FigureRequest& request, const figure::FigureInput& input);

/// What a reader has to know before the figure's policies are compared: which of them can know the
/// question, when the prompt is compressed, what the budget counts. Empty where it shows fewer than
/// two, or where they do not act as in replays.
std::string terms_in_words(const figure::FigureInfo& info, const FigureRequest& request,
                           const figure::FigureInput& input);

/// The policies that the figure shows: the selected ones and those of typed lists.
std::vector<PolicySpec> policies_of(const figure::FigureInfo& info, const FigureRequest& request);

}  // namespace kvloupe::request
