// run --shared-weights, and what a run says before it starts.
#include "analysis/trace/shared_weights.h"
#include "analysis/trace/kept_files.h"
#include "analysis/trace/model_files.h"
#include "capture/run/model_weights.h"
#include "tests/capture/capture_check.h"
#include "tests/capture/tiny_checkpoint.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

struct SharedRun : testing::Test {
  void SetUp() override {
    const TinyCheckpoint tiny;
    fs::create_directories(folder_ / "model");
    tiny.write(folder_ / "model");
    write_file(folder_ / "ids.txt", random_ids_text(40, tiny.vocab_size, 7));
  }
  CaptureRequest request(const char* name, bool shared) const {
    return CaptureRequest{.model = folder_ / "model",
                          .target = folder_ / name,
                          .ids = folder_ / "ids.txt",
                          .block = 16,
                          .dtype = "f32",
                          .shared_weights = shared};
  }
  static std::vector<KeptFile> files() { return CacheFolder(cache_folder()).files(); }

  TemporaryFolder folder_;
  EnvironmentVariable cache_{"XDG_CACHE_HOME", (folder_ / "xdg").string()};
};

TEST_F(SharedRun, GivesTheSameNumbersInASmallerTrace) {
  capture(request("whole.h5", false));
  EXPECT_TRUE(files().empty()) << "a trace holds its weights unless it is asked not to";
  capture(request("small.h5", true));
  ASSERT_EQ(files().size(), 1U);
  EXPECT_EQ(files()[0].kind, KeptKind::weights);
  const fs::path kept = files()[0].path;
  const auto written = fs::last_write_time(kept);
  capture(request("second.h5", true));
  ASSERT_EQ(files().size(), 1U);
  EXPECT_EQ(fs::last_write_time(kept), written) << "they are kept once";

  const Trace whole(folder_ / "whole.h5"), small(folder_ / "small.h5");
  EXPECT_TRUE(uses_shared_weights(small));
  Matrix room, other;
  const ModelInfo& model = whole.model();
  for (int layer = 0; layer < model.num_layers; ++layer) {
    for (int head = 0; head < model.num_heads; ++head) {
      EXPECT_EQ(small.output_weight(layer, head)->floats(room),
                whole.output_weight(layer, head)->floats(other));
      EXPECT_EQ(small.value_out_norm(layer, head, Norm::l1),
                whole.value_out_norm(layer, head, Norm::l1));
    }
    EXPECT_EQ(small.query(layer, 0), whole.query(layer, 0));
  }
  EXPECT_LT(fs::file_size(folder_ / "small.h5"), fs::file_size(folder_ / "whole.h5"));
  expect_consistent(small);
}

TEST_F(SharedRun, TheSizeIsForeseen) {
  QuietObserver observer;
  for (const bool shared : {false, true}) {
    const CaptureRequest wanted = request("trace.h5", shared);
    const CaptureForecast forecast = forecast_capture(wanted, unwatched, observer);
    EXPECT_FALSE(fs::exists(wanted.target)) << "nothing is run";
    EXPECT_TRUE(files().empty());
    EXPECT_EQ(forecast.size.shared_weights > 0, shared);
    EXPECT_EQ(forecast.size.output_weights > 0, !shared);
    EXPECT_EQ(forecast.dtype, "f32");
    EXPECT_EQ(forecast.prompt_length, 40);
    EXPECT_EQ(forecast.generated, 0);
    capture(wanted);
    const double bytes = static_cast<double>(fs::file_size(wanted.target));
    EXPECT_NEAR(static_cast<double>(forecast.size.total()), bytes, 0.05 * bytes + 4000) << shared;
    if (!shared) {
      fs::remove(wanted.target);
      continue;
    }
    ASSERT_EQ(files().size(), 1U);
    const double kept = static_cast<double>(files()[0].bytes);
    EXPECT_NEAR(static_cast<double>(forecast.size.shared_weights), kept, 0.1 * kept + 8000);
    EXPECT_EQ(forecast_capture(wanted, unwatched, observer).size.shared_weights, 0U)
        << "they are there now";
  }
}

TEST_F(SharedRun, AFullDiskUnderTheCacheFolderIsNamed) {
  CaptureRequest wanted = request("trace.h5", true);
  wanted.free_space = [](const fs::path& folder) -> std::optional<std::uint64_t> {
    return folder.filename() == "weights" ? 10U : 1'000'000'000U;
  };
  EXPECT_THAT(error_of<FileError>([&] { capture(wanted); }),
              AllOf(HasSubstr("weights/"), HasSubstr("set XDG_CACHE_HOME")));
}

TEST_F(SharedRun, WithoutACacheFolderTheTraceHoldsThem) {
  write_file(folder_ / "file", "no folder");
  cache_.set((folder_ / "file").string());
  QuietObserver observer;
  run_capture(request("trace.h5", true), unwatched, observer);
  const Trace trace(folder_ / "trace.h5");
  EXPECT_TRUE(trace.has_output_weight());
  EXPECT_FALSE(uses_shared_weights(trace));
  EXPECT_TRUE(std::any_of(observer.notes.begin(), observer.notes.end(), [](const auto& note) {
    return note.find("will hold the model's weights itself") != std::string::npos;
  }));
}

TEST_F(SharedRun, LostWeightsAreMadeAgainFromTheModel) {
  capture(request("whole.h5", false));
  capture(request("small.h5", true));
  CacheFolder(cache_folder()).clear();
  EXPECT_NE(missing_weights(Trace(folder_ / "small.h5")), "");
  const TinyCheckpoint other{.seed = 99};
  fs::create_directories(folder_ / "other");
  other.write(folder_ / "other");
  EXPECT_THROW(restore_weights(folder_ / "small.h5", folder_ / "other", unwatched), FileError);
  EXPECT_TRUE(files().empty());
  restore_weights(folder_ / "small.h5", folder_ / "model", unwatched);
  pack_trace(folder_ / "small.h5", folder_ / "packed.h5", false);
  const Trace whole(folder_ / "whole.h5"), packed(folder_ / "packed.h5");
  Matrix room, more;
  EXPECT_EQ(packed.output_weight(1, 1)->floats(room), whole.output_weight(1, 1)->floats(more));
  EXPECT_EQ(packed.datasets().size(), whole.datasets().size());
  EXPECT_EQ(packed.has_lm_head(), whole.has_lm_head());
}

TEST_F(SharedRun, TheTimeIsKnownAfterTheFirstRun) {
  QuietObserver observer;
  const CaptureRequest wanted = request("trace.h5", false);
  const CaptureForecast before = forecast_capture(wanted, unwatched, observer);
  EXPECT_FALSE(before.seconds);
  EXPECT_EQ(before.time_text, "the time is known after the first run of this model here");
}

}  // namespace
}  // namespace kvloupe::test
