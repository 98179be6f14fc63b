#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

namespace kvloupe::test {

/// A results file as it was written.
inline nlohmann::ordered_json results_in(const std::filesystem::path& path) {
  return nlohmann::ordered_json::parse(std::ifstream(path));
}

/// The runs in the results file of an evaluation.
inline std::vector<nlohmann::ordered_json> runs_in(const std::filesystem::path& path) {
  const nlohmann::ordered_json results = results_in(path);
  return {results.at("runs").begin(), results.at("runs").end()};
}

}  // namespace kvloupe::test
