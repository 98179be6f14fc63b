#pragma once
// A fuzz target: a function that reads a hostile input. The preset `fuzz` makes each file
// *_fuzz.cpp a program that libFuzzer drives; the normal build runs all of them on the saved inputs
// (corpus_test.cpp).

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::fuzz {

struct Target {
  const char* name;  // its folder in tests/fuzz/seeds
  void (*read)(std::string_view input);
};

/// The targets of this program.
std::vector<Target>& targets();

/// Runs a target. The three errors that kvloupe reports in one line are an answer; any other
/// exception leaves, and is a find.
void run(const Target& target, std::string_view input);

/// The input as a file of this name in a folder of its own, which the next call empties.
std::filesystem::path as_file(std::string_view input, const std::string& name);

/// Ends the program with a message where a target finds that an answer is wrong.
void require(bool condition, const char* what);

struct Registration {
  explicit Registration(Target target) { targets().push_back(target); }
};

#define KVLOUPE_FUZZ_TARGET(name)                                                       \
  static void read_##name(std::string_view input);                                      \
  static const ::kvloupe::fuzz::Registration registration_##name({#name, read_##name}); \
  static void read_##name(std::string_view input)

}  // namespace kvloupe::fuzz
