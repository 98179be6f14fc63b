#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace kvloupe::test {

/// A fresh folder under the system's temporary one, removed with all its content at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// An environment variable that has this value, or none, until the end; then it is what it was.
class EnvironmentVariable {
 public:
  explicit EnvironmentVariable(std::string name, const std::optional<std::string>& value = {});
  ~EnvironmentVariable() { set(before_); }
  EnvironmentVariable(const EnvironmentVariable&) = delete;
  EnvironmentVariable& operator=(const EnvironmentVariable&) = delete;
  void set(const std::optional<std::string>& value) const;

 private:
  std::string name_;
  std::optional<std::string> before_;
};

/// What a file holds; nothing where it is not there.
std::string file_text(const std::filesystem::path& file);

}  // namespace kvloupe::test
