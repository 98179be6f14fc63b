#pragma once

#include <string>

namespace kvloupe::test {

/// What an error of this kind says that `work` ends with, or `otherwise` where nothing is thrown.
/// Any other exception fails the test.
template <class Error, class Work>
std::string error_of(const Work& work, const std::string& otherwise = "") {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return otherwise;
}

}  // namespace kvloupe::test
