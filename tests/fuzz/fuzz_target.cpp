#include "tests/fuzz/fuzz_target.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "analysis/base/core/error.h"

namespace kvloupe::fuzz {

namespace fs = std::filesystem;

std::vector<Target>& targets() {
  static std::vector<Target> all;
  return all;
}

void run(const Target& target, std::string_view input) {
  try {
    target.read(input);
  } catch (const UsageError&) {
  } catch (const FileError&) {
  } catch (const WorkError&) {
  }
}

namespace {
/// Removed at the end of the program.
struct Folder {
  fs::path path;
  Folder() {
    // Memory, where there is such a folder: a disk is slow.
    const fs::path above =
        fs::exists("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path();
    std::string name = (above / "kvloupe-fuzz-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};
}  // namespace

fs::path as_file(std::string_view input, const std::string& name) {
  static const Folder folder;
  for (const auto& entry : fs::directory_iterator(folder.path)) fs::remove_all(entry);
  const fs::path path = folder.path / name;
  std::ofstream(path, std::ios::binary)
      .write(input.data(), static_cast<std::streamsize>(input.size()));
  return path;
}

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "wrong answer: %s\n", what);
  std::abort();
}

}  // namespace kvloupe::fuzz
