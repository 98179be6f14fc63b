#pragma once

#include <filesystem>
#include <string>

namespace kvloupe::test {

/// Gives /model of a trace that is there this text attribute, in place of one of that name.
void write_model_attribute(const std::filesystem::path& trace, const std::string& name,
                           const std::string& text);

}  // namespace kvloupe::test
