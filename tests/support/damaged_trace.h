#pragma once

#include <filesystem>

namespace kvloupe::test {

/// Makes the first number of a token's key in one head of a finished trace NaN.
void damage_key(const std::filesystem::path& trace, int layer, int head, int token);

}  // namespace kvloupe::test
