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

}  // namespace kvloupe::request
