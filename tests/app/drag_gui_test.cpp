// Pictures while a budget is dragged: how many come, in which order, and how old they are. Prints
// its numbers.

#include "tests/app/window_test.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kBudgets = 48;
constexpr milliseconds kHeld{50};  // how long the hand stays at one budget

/// The pixels of a map, which distinguish the pictures of two budgets.
std::string drag_digest(const figure::Scene* scene) {
  std::string keys;
  for (const auto& item : scene ? scene->items : std::vector<figure::Item>()) {
    if (const auto* image = std::get_if<figure::Image>(&item)) keys += image->key + " ";
  }
  return keys;
}

struct Dragged : WindowTest {
  void prepare() override {
    write_synthetic_trace(folder_.path() / "long.h5", {.layers = 6,
                                                       .query_heads = 8,
                                                       .heads = 4,
                                                       .head_dim = 32,
                                                       .prompt_length = 1536,
                                                       .generated = 0,
                                                       .block = 64});
    // Another file: nothing of it is replayed yet.
    std::filesystem::copy_file(folder_.path() / "long.h5", folder_.path() / "again.h5");
  }
  void open(WindowDriver& driver, const char* file) const {
    window::WorkspaceState& state = driver.workspace.state;
    state = window::default_state();
    state.tiles[1] = {.view = "overview", .choices = {{"measure", "retained_mass"}}};
    state.tile_count = 2;
    state.selection.layer = 3;
    set_budget(driver, 0);
    driver.workspace.open((folder_.path() / file).string());
    driver.settle();
    ASSERT_NE(driver.workspace.results.trace(), nullptr) << driver.workspace.notice;
  }
  static void set_budget(WindowDriver& driver, int i) {
    driver.workspace.state.budget = Budget{160L + 12 * i};
  }
  static std::vector<std::string> shown(const WindowDriver& driver) {
    return {drag_digest(driver.workspace.tiles[0].scene().get()),
            drag_digest(driver.workspace.tiles[1].scene().get())};
  }
};

TEST_F(Dragged, PicturesFollowInOrderAndNoneIsOld) {
  std::vector<std::map<std::string, int>> budget_of(2);  // of the picture of each tile
  WindowDriver driver(1600, 1000);
  {
    open(driver, "long.h5");
    for (int i = 0; i < kBudgets; ++i) {
      set_budget(driver, i);
      driver.settle();
      const auto pictures = shown(driver);
      for (std::size_t t = 0; t < 2; ++t) budget_of[t].emplace(pictures[t], i);
    }
    for (const auto& one : budget_of) ASSERT_EQ(one.size(), kBudgets) << "no two are alike";
  }
  open(driver, "again.h5");
  struct Followed {
    std::string picture;
    int budget = 0, pictures = 0, parts = 0, back = 0;
    double age = 0.0, oldest = 0.0;  // milliseconds
  };
  std::vector<Followed> tiles(2);
  for (std::size_t t = 0; t < 2; ++t) tiles[t].picture = shown(driver)[t];
  const auto start = Clock::now();
  int frames = 0;
  for (int at = 0; at < kBudgets; ++frames) {
    at = static_cast<int>((Clock::now() - start) / kHeld);
    if (at >= kBudgets) break;
    set_budget(driver, at);
    driver.frame();
    const auto pictures = shown(driver);
    for (std::size_t t = 0; t < 2; ++t) {
      Followed& tile = tiles[t];
      if (pictures[t] != tile.picture) {
        tile.picture = pictures[t];
        const auto found = budget_of[t].find(pictures[t]);
        if (found == budget_of[t].end()) {
          ++tile.parts;
        } else {
          ++tile.pictures;
          tile.back += found->second < tile.budget;
          tile.budget = found->second;
        }
      }
      const double age = static_cast<double>((at - tile.budget) * kHeld.count());
      tile.age += age;
      tile.oldest = std::max(tile.oldest, age);
    }
  }
  const auto rest = Clock::now();
  const auto last = [&](std::size_t t) { return budget_of[t].find(shown(driver)[t]); };
  std::vector<double> late(2, -1.0);
  while (late[0] < 0.0 || late[1] < 0.0) {
    driver.frame();
    const double now = std::chrono::duration<double, std::milli>(Clock::now() - rest).count();
    ASSERT_LT(now, 60e3);
    for (std::size_t t = 0; t < 2; ++t) {
      if (late[t] < 0.0 && last(t) != budget_of[t].end() && last(t)->second == kBudgets - 1)
        late[t] = now;
    }
  }
  for (std::size_t t = 0; t < 2; ++t) {
    const Followed& tile = tiles[t];
    std::printf(
        "%s: %d pictures, %d parts, %d back, mean age %.0f ms, oldest %.0f ms, %.0f ms after the "
        "hand rests; %d frames\n",
        t == 0 ? "film strip" : "overview", tile.pictures, tile.parts, tile.back, tile.age / frames,
        tile.oldest, late[t], frames);
    EXPECT_EQ(tile.back, 0) << "a picture of an earlier budget";
    EXPECT_GT(tile.pictures + tile.parts, 0) << "nothing is shown before the hand rests";
  }
  driver.settle();
}

}  // namespace
}  // namespace kvloupe::test
