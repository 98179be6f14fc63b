#pragma once

#include <vector>

#include "app/request/figure_request.h"

namespace kvloupe::request {

/// The policies that the figure shows: the selected ones and those of typed lists.
std::vector<PolicySpec> policies_of(const figure::FigureInfo& info, const FigureRequest& request);

}  // namespace kvloupe::request
