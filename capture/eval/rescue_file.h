#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace kvloupe {

/// What became of one run of a rescue.
struct RescueOutcome {
  bool right = false;
  double logprob = 0.0;  // of the expected tokens, each after those before it; nats
};

/// The results file of a rescue: its settings and every run so far. Its content is rescue()'s.
class RescueFile {
 public:
  using Json = nlohmann::ordered_json;

  /// Takes the runs of a file that is there. Throws FileError where it is another kind of file, of
  /// a newer version, or of other settings.
  RescueFile(std::string path, const Json& settings);
  std::optional<RescueOutcome> find(const std::string& spec) const;
  /// Adds a run, and saves.
  void add(const std::string& spec, const RescueOutcome& outcome);
  Json& results() { return results_; }
  void save() const;

 private:
  std::string path_;
  Json results_;
};

}  // namespace kvloupe
