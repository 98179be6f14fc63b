#pragma once
// Roles of a head and reads of followed tokens in plain double loops that read like the formulas.

#include <vector>

#include "analysis/math/head_roles.h"

namespace kvloupe::naive {

/// A[q][i] of one query head: softmax over what each query sees. queries, keys [T,d].
std::vector<std::vector<double>> full_attention(const Matrix& queries, const Matrix& keys,
                                                double scale, int window);

/// The roles in the attention of one query head.
HeadRoles roles(const std::vector<std::vector<double>>& attention, int window,
                const RoleTokens& tokens);

/// The mean over these queries of their attention to the tokens together.
double mean_read(const std::vector<std::vector<double>>& attention, const std::vector<int>& queries,
                 const std::vector<int>& tokens);

}  // namespace kvloupe::naive
