#pragma once

#include <string>

namespace kvloupe {

/// A file beside another that is gone when this is. Its name is needed only while it is written.
class FileBeside {
 public:
  /// Makes an empty file in the folder of `target`. Throws FileError.
  explicit FileBeside(const std::string& target);
  ~FileBeside();
  FileBeside(const FileBeside&) = delete;
  FileBeside& operator=(const FileBeside&) = delete;
  const std::string& name() const { return name_; }
  /// Takes the name away from what was written, so that nothing is left of a program that is
  /// killed: a path under which this process can still open it. Throws FileError.
  std::string without_name();

 private:
  void remove_name() const;

  std::string name_;
  int descriptor_ = -1;
};

}  // namespace kvloupe
