// Every fuzz target on its saved inputs: the seeds, and what a campaign found (scripts/fuzz.sh).
// Then on simple mutations of them, so that a reader that trusts its input fails here too.

#include "tests/fuzz/fuzz_target.h"
#include "tests/support/test.h"

namespace kvloupe::fuzz {
namespace {

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

TEST_P(Corpus, MutationsAreReadOrRefused) {
  // A trace takes two processes and a replay; DamagedTrace changes more of them.
  const std::string name = GetParam().name;
  const std::size_t cuts = name == "trace" || name == "figure" ? 4 : 20, changes = 5 * cuts;
  std::mt19937 random(20261124);
  for (const Saved& input : saved_inputs(GetParam().name)) {
    const std::string& bytes = input.bytes;
    SCOPED_TRACE(input.name);
    for (std::size_t i = 0; i < cuts; ++i)
      EXPECT_NO_THROW(run(GetParam(), bytes.substr(0, bytes.size() * i / cuts)));
    for (std::size_t i = 0; i < changes && !bytes.empty(); ++i) {
      std::string changed = bytes;
      for (unsigned change = 0; change <= i % 4; ++change) {
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
      EXPECT_NO_THROW(run(GetParam(), changed)) << "change " << i;
    }
  }
}

}  // namespace
}  // namespace kvloupe::fuzz
