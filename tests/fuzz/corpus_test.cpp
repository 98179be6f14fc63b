// Every fuzz target on its saved inputs: the seeds, and what a campaign found (scripts/fuzz.sh).
// Then on simple mutations of them, so that a reader that trusts its input fails here too.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/text_heap.h"

namespace kvloupe::fuzz {
namespace {

namespace fs = std::filesystem;

struct Saved {
  std::string name, bytes;
};

std::vector<Saved> saved_inputs(const std::string& target) {
  std::vector<Saved> all;
  for (const auto& entry :
       fs::directory_iterator(fs::path(KVLOUPE_SOURCE_DIR) / "tests/fuzz/seeds" / target)) {
    std::ifstream in(entry.path(), std::ios::binary);
    all.push_back({entry.path().filename().string(), {std::istreambuf_iterator<char>(in), {}}});
  }
  std::sort(all.begin(), all.end(), [](const Saved& a, const Saved& b) { return a.name < b.name; });
  return all;
}

class Corpus : public testing::TestWithParam<Target> {};

std::string name_of(const testing::TestParamInfo<Target>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Fuzz, Corpus, testing::ValuesIn(targets()), name_of);

TEST_P(Corpus, SavedInputsAreReadOrRefused) {
  const std::vector<Saved> inputs = saved_inputs(GetParam().name);
  ASSERT_FALSE(inputs.empty());
  int read = 0;
  for (const Saved& input : inputs) {
    SCOPED_TRACE(input.name);
    EXPECT_NO_THROW(run(GetParam(), input.bytes));
    // A seed is a good file: without one, mutations never come far.
    if (!input.name.starts_with("good")) continue;
    EXPECT_NO_THROW(GetParam().read(input.bytes));
    ++read;
  }
  EXPECT_GT(read, 0);
}

TEST(TextHeaps, OnlyAnObjectLargerThanItsHeapIsLeftOut) {
  int heaps = 0, damaged = 0;
  for (const Saved& input : saved_inputs("trace")) {
    SCOPED_TRACE(input.name);
    const bool good = input.name.starts_with("good");
    EXPECT_EQ(text_heaps_are_sound(input.bytes), good);
    if (!good) continue;
    const std::size_t heap = input.bytes.find("GCOL");
    if (heap == std::string::npos) continue;
    ++heaps;
    // The first object's size, behind the heap's header (16) and the object's index and references
    // (8).
    for (int byte = 0; byte < 8; ++byte) {
      std::string changed = input.bytes;
      changed[heap + 24 + static_cast<std::size_t>(byte)] = '\x5f';
      // 0x5f bytes, in place of a dozen, fit into the heap; what follows is then read as objects.
      if (byte > 1) damaged += !text_heaps_are_sound(changed);
    }
    // Cut anywhere, a file is judged without reading beyond its end.
    for (std::size_t size = 0; size < input.bytes.size(); size += 7) {
      text_heaps_are_sound(std::string_view(input.bytes).substr(0, size));
    }
  }
  EXPECT_GT(heaps, 0);
  EXPECT_EQ(damaged, 6 * heaps);
}

TEST_P(Corpus, MutationsAreReadOrRefused) {
  // The HDF5 library is known to crash on some damage: tests/analysis/trace_hostile_test.cpp reads
  // such traces in child processes.
  for (const std::string reader : {"trace", "figure"}) {
    if (GetParam().name == reader) GTEST_SKIP() << "see DamagedTrace";
  }
  std::mt19937 random(20261124);
  for (const Saved& input : saved_inputs(GetParam().name)) {
    const std::string& bytes = input.bytes;
    SCOPED_TRACE(input.name);
    for (std::size_t i = 0; i < 20; ++i)
      EXPECT_NO_THROW(run(GetParam(), bytes.substr(0, bytes.size() * i / 20)));
    for (int i = 0; i < 100 && !bytes.empty(); ++i) {
      std::string changed = bytes;
      for (unsigned change = 0; change <= i % 4U; ++change) {
        const std::size_t at = random() % changed.size();
        switch (random() % 3) {
          case 0:
            changed[at] = static_cast<char>(random());
            break;
          case 1:
            changed.erase(at, 1 + random() % 8);
            break;
          default:
            changed.insert(at, changed.substr(random() % changed.size(), 1 + random() % 16));
        }
        if (changed.empty()) break;
      }
      EXPECT_NO_THROW(run(GetParam(), changed)) << "mutation " << i;
    }
  }
}

}  // namespace
}  // namespace kvloupe::fuzz
