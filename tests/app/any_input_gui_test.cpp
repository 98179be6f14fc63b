// Input in any order, faster than pictures are computed: whatever is clicked, typed and opened, no
// error ends the window, and it comes to rest. KVLOUPE_ANY_INPUT=COUNT gives every case so many
// inputs, KVLOUPE_ANY_INPUT_SEED another order, and KVLOUPE_ANY_INPUT_TRACE=FILE a trace of a real
// model among the files.

#include <exception>

#include "app/figure/figures/figure_catalog.h"
#include "app/session/view_catalog.h"
#include "tests/app/window_test.h"
#include "tests/support/synthetic_evaluation.h"
#include "tests/support/synthetic_study.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

using window::Command;

int from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

class AnyInput : public WindowTest, public testing::WithParamInterface<int> {
 protected:
  void prepare() override {
    random_.seed(
        static_cast<unsigned>(GetParam() + 1000 * from_environment("KVLOUPE_ANY_INPUT_SEED", 0)));
    window::Workspace::Host host;
    host.demo.cache = folder_ / "cache";
    start(1280, 800, host);
    write_files();
    home_ = std::filesystem::current_path();
    std::filesystem::create_directories(folder_ / "home");
    std::filesystem::current_path(folder_ / "home");  // files are saved here
  }
  void TearDown() override {
    WindowTest::TearDown();
    if (!home_.empty()) std::filesystem::current_path(home_);
  }

  void write_files() {
    SyntheticTraceOptions large{.layers = 5, .heads = 2, .prompt_length = 160, .question = 8};
    write_synthetic_trace(file("large.h5"), large);
    write_synthetic_closed_loop(file("closed.h5"), large, "h2o", 40);
    write_synthetic_trace(file("small.h5"), {.layers = 2,
                                             .query_heads = 1,
                                             .heads = 1,
                                             .prompt_length = 24,
                                             .generated = 2,
                                             .block = 8,
                                             .text = false});
    write_synthetic_study(file("study.sqlite"));
    write_synthetic_evaluation(file("needle.json"));
    write_synthetic_evaluation(file("perplexity.json"), false);
    write_synthetic_rescue(file("rescue.json"));
    if (const char* real = std::getenv("KVLOUPE_ANY_INPUT_TRACE"))
      std::filesystem::create_symlink(std::filesystem::absolute(real), file("real.h5"));
    open_file(file("large.h5"));
    w().save_session(file("session.json"));
  }
  std::string file(const char* name) const { return (folder_ / name).string(); }

  int below(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  float across(float low, float high) {
    return low + (high - low) * static_cast<float>(below(1000)) / 1000.0F;
  }

  /// A frame that nobody looks at.
  void frame() {
    if (w().prepare_fonts(1.0F)) driver_->surface.upload_fonts();
    driver_->surface.begin_frame();
    w().frame();
    driver_->surface.drop_frame();
  }

  /// Draws until nothing computes any more.
  void rest() {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(4);
    while (!w().settled()) {
      frame();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      if (std::chrono::steady_clock::now() < limit) continue;
      std::string tiles;
      for (int i = 0; i < w().state.tile_count; ++i) {
        const window::Tile& tile = w().tiles[i];
        tiles += " " + w().state.tiles[i].view + (tile.settled() ? "" : " (not settled)");
      }
      throw std::runtime_error(
          fmt::format("does not come to rest: opening {} {}, lessons {}, cards {} {} {}, idle {}, "
                      "shown {}, grid "
                      "{}, playing {}, wants a frame {}, tiles{}",
                      w().results.opening(), w().results.opening_evaluation(), w().lessons.busy(),
                      w().sheets.cause_card.busy(), w().sheets.head_table.busy(),
                      w().sheets.cache.busy(), w().results.idle(), w().shown.waiting(),
                      w().grid.settled(), w().animating(), w().wants_frame(), tiles));
    }
  }

  /// Sheets that capture, or write files in any folder, are looked at, and left again. The cache
  /// and the study are in a folder of the test: they stay for a while.
  void leave_sheets() {
    window::Sheets& sheets = w().sheets;
    if (sheets.capture_panel.is_open()) sheets.capture_panel.close();
    if (sheets.file_panel.is_open()) sheets.file_panel.close();
    if (sheets.export_panel.is_open()) sheets.export_panel.close();
    if (below(8) > 0) return;
    if (sheets.study_panel.is_open()) sheets.study_panel.close();
    if (sheets.cache.is_open()) sheets.cache.close();
  }

  void perform() {
    const auto count = static_cast<int>(Command::help) + 1;
    const auto command = static_cast<Command>(below(count));
    if (command == Command::demo || command == Command::quit) return;
    said_ = "command " + std::to_string(static_cast<int>(command));
    w().perform(command);
  }
  void open() {
    static constexpr const char* kFiles[] = {
        "large.h5",    "small.h5",     "closed.h5",       "study.sqlite", "needle.json",
        "rescue.json", "session.json", "perplexity.json", "missing.h5",   "real.h5"};
    const char* name = kFiles[below(std::size(kFiles))];
    said_ = std::string("open ") + name;
    w().open(file(name));
  }
  void view() {
    const auto views = figure::figure_catalog();
    const auto& view = views[below(static_cast<int>(views.size()))];
    said_ = "view " + view.name;
    w().state.tiles[below(w().state.tile_count)] = window::TileState{.view = view.name};
  }
  void pointer() {
    ImGuiIO& io = ImGui::GetIO();
    const float x = across(0, 1280), y = across(0, 800);
    io.MousePos = {x, y};
    frame();
    const int kind = below(6);
    said_ =
        "pointer " + std::to_string(kind) + " at " + std::to_string(x) + ", " + std::to_string(y);
    if (kind == 0) io.MouseWheel = across(-3, 3);
    if (kind < 3) return frame();
    io.KeyShift = below(4) == 0;
    io.MouseDown[0] = true;
    frame();
    if (kind == 5) io.MousePos = {across(0, 1280), across(0, 800)};  // a drag
    frame();
    io.MouseDown[0] = false;
    frame();
    io.KeyShift = false;
  }
  /// A click on something that a picture of a tile, or the grid, lets one select.
  void picked() {
    window::Tile& tile = below(4) == 0 ? w().grid : w().tiles[below(w().state.tile_count)];
    const auto scene = tile.scene();
    if (!scene || scene->regions.empty()) return;
    const auto& region = scene->regions[below(static_cast<int>(scene->regions.size()))];
    said_ = "pick in " + w().state.tiles[0].view;
    const figure::Point at = region.rect.centre();
    ImGuiIO& io = ImGui::GetIO();
    io.MousePos = {tile.origin().x + static_cast<float>(at.x) * tile.scale(),
                   tile.origin().y + static_cast<float>(at.y) * tile.scale()};
    frame();
    io.MouseDown[0] = true;
    frame();
    io.MouseDown[0] = false;
    frame();
  }
  void type() {
    static const std::vector<std::string> kTexts = words(
        R"(12 h2o+recent(20%) ( t e 1:40 50% [[[ ,, é 2.1 keydiff 0 -1 9999999999 layer snapkv(pool=max))");
    const std::string text = kTexts[below(static_cast<int>(kTexts.size()))];
    said_ = "type " + text;
    ImGui::GetIO().AddInputCharactersUTF8(text.c_str());
    frame();
    if (below(2) == 0) return;
    ImGuiIO& io = ImGui::GetIO();
    static constexpr int kKeys[] = {GLFW_KEY_ENTER, GLFW_KEY_ESCAPE, GLFW_KEY_TAB, GLFW_KEY_DOWN};
    const int key = kKeys[below(std::size(kKeys))];
    io.KeysDown[key] = true;
    frame();
    io.KeysDown[key] = false;
  }
  void policy() {
    static constexpr const char* kPolicies[] = {"h2o",
                                                "keydiff",
                                                "snapkv(pool=max)+critical",
                                                "h2o+kvmerger(auto)",
                                                "random(seed=2)",
                                                "tova+caote",
                                                "snapkv+adakv",
                                                "sink"};
    said_ = "policy";
    (below(2) == 0 ? w().state.policy_a : w().state.policy_b) =
        parse_policy(kPolicies[below(std::size(kPolicies))]);
    w().state.policy_b_on = below(2) == 0;
  }

  std::filesystem::path home_;
  std::mt19937 random_;
  std::string said_;
};

TEST_P(AnyInput, EndsNoWindow) {
  const std::vector<std::function<void()>> inputs = {
      [&] { perform(); }, [&] { perform(); }, [&] { pointer(); }, [&] { picked(); },
      [&] { picked(); },  [&] { type(); },    [&] { view(); },    [&] { policy(); },
      [&] { open(); },    [&] { frame(); }};
  std::deque<std::string> last;  // what was done, the newest at the end
  const int count = from_environment("KVLOUPE_ANY_INPUT", 250);
  for (int i = 0; i < count; ++i) {
    try {
      said_ = "frame";
      inputs[below(static_cast<int>(inputs.size()))]();
      last.push_back(said_);
      for (int more = below(3); more >= 0; --more) frame();
      leave_sheets();
      if (i % 50 == 49) rest();
      if (HasFatalFailure()) return;
    } catch (const std::exception& error) {
      std::string trail;
      if (last.empty() || last.back() != said_) last.push_back(said_);
      for (const std::string& one : last) trail += "\n  " + one;
      FAIL() << error.what() << "\nafter input " << i << ":" << trail;
    }
    if (last.size() > 25) last.pop_front();
  }
  rest();
  EXPECT_GT(WindowDriver::colours(driver_->picture()), 10);
}

INSTANTIATE_TEST_SUITE_P(Orders, AnyInput, testing::Range(0, 4));

}  // namespace
}  // namespace kvloupe::test
