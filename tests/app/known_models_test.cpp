#include "app/window/state/known_models.h"
#include "analysis/trace/model_files.h"
#include "app/window/state/jobs.h"
#include "tests/support/model_attribute.h"
#include "tests/support/test.h"

namespace kvloupe::window {
namespace {

const std::string kOne = "v1:" + std::string(64, '1');
const std::string kTwo = "v1:" + std::string(64, '2');

struct Models : testing::Test {
  std::string make(const std::string& name, const std::string& weights = "weights") {
    const fs::path folder = folder_ / name;
    fs::create_directories(folder);
    std::ofstream(folder / "config.json") << "{}";
    std::ofstream(folder / "model.safetensors") << weights;
    return folder.string();
  }
  test::TemporaryFolder folder_;
  fs::path list_ = folder_ / "state" / "models";
};

TEST_F(Models, AreRememberedWithTheirFoldersTheNewestFirst) {
  const std::string a = make("a");
  const std::string b = make("b with spaces");
  {
    KnownModels known(list_);
    EXPECT_THAT(known.folders(), IsEmpty());
    known.add(kOne, a + "/");
    known.add(kTwo, b);
    known.add("not known", b);
  }
  KnownModels known(list_);
  EXPECT_THAT(known.folders(), ElementsAre(b, a));
  EXPECT_THAT(known.folders_of(kOne), ElementsAre(a));
  known.add(kTwo, a);  // another model was put there
  EXPECT_THAT(KnownModels(list_).folders_of(kOne), IsEmpty());
  EXPECT_THAT(KnownModels(list_).folders_of(kTwo), ElementsAre(a, b));
  fs::remove_all(b);
  EXPECT_THAT(known.folders(), ElementsAre(a)) << "what is gone is not offered";
  for (int i = 0; i < 100; ++i) known.add(kOne, make("many-" + std::to_string(i)));
  EXPECT_EQ(KnownModels(list_).folders().size(), 24U);
}

TEST_F(Models, AGgufFileIsAModelToo) {
  const std::string file = (folder_ / "m.gguf").string();
  std::ofstream(file) << "GGUF and more";
  const std::string other = (folder_ / "text.gguf").string();
  std::ofstream(other) << "text";
  KnownModels known(list_);
  known.add(kOne, file);
  known.add(kTwo, other);
  EXPECT_THAT(known.folders(), ElementsAre(file)) << "the other only has the name of one";
  EXPECT_THAT(offered_models(known, kOne, other), Contains(file));
  EXPECT_EQ(model_title(file), "m.gguf");
}

TEST_F(Models, ABrokenListIsNoFuss) {
  const std::string a = make("a");
  fs::create_directories(list_.parent_path());
  std::ofstream(list_, std::ios::binary) << "garbage\n \n"
                                         << std::string("\0\1\2 /a\n", 7) << kOne << "\n"
                                         << kOne << " \n"
                                         << kOne << " relative\n"
                                         << kOne << " /bad\x01path\n"
                                         << kOne << " /" << std::string(5000, 'x') << "\n"
                                         << "v1:short " << a << "\n"
                                         << kTwo << " " << a;
  EXPECT_THAT(KnownModels(list_).folders(), ElementsAre(a));
  EXPECT_THAT(KnownModels(list_).folders_of(kTwo), ElementsAre(a));
  std::ofstream(list_, std::ios::binary) << std::string(1 << 20, 'x');
  EXPECT_THAT(KnownModels(list_).folders(), IsEmpty()) << "too large to be one";
  KnownModels nowhere("/proc/none/models");
  EXPECT_NO_THROW(nowhere.add(kOne, a));
  EXPECT_THAT(nowhere.folders(), ElementsAre(a));
  KnownModels is_folder(folder_.path());
  EXPECT_NO_THROW(is_folder.add(kOne, a));
}

TEST_F(Models, OfferedAreThoseThatFitThenTheOthersThenTheDemo) {
  const std::string a = make("a");
  const std::string b = make("b");
  const std::string c = make("c");
  KnownModels known(list_);
  known.add(kOne, a);
  known.add(kTwo, b);
  const std::string demo = demo_model_folder();
  ASSERT_NE(demo, "");
  EXPECT_THAT(offered_models(known, "", ""), ElementsAre(b, a, demo));
  EXPECT_THAT(offered_models(known, kOne, c), ElementsAre(a, b, c, demo));
  EXPECT_THAT(offered_models(known, kOne, demo), ElementsAre(a, b, demo)) << "each once";
  EXPECT_THAT(offered_models(known, "", "/nowhere"), ElementsAre(b, a, demo));
  EXPECT_EQ(model_title(a), "a");
  EXPECT_EQ(model_title(demo), "demo-model (comes with kvloupe)");
}

TEST_F(Models, AreFoundByWhatTheFoldersHoldNow) {
  const std::string a = make("a", "one");
  const std::string b = make("b", "two");
  const std::string trace = (folder_ / "trace.h5").string();
  test::write_synthetic_trace(trace);
  Progress progress;
  KnownModels known(list_);
  EXPECT_EQ(find_model_of(trace, known, b, progress).fingerprint, "") << "an older trace";
  const std::string wanted = model_fingerprint(b, progress);
  test::write_model_attribute(trace, "fingerprint", wanted);
  EXPECT_EQ(find_model_of(trace, known, a, progress).folder, "");
  EXPECT_EQ(find_model_of(trace, known, a, progress).fingerprint, wanted);
  EXPECT_EQ(find_model_of(trace, known, b, progress).folder, b);
  known.add(kOne, b);
  known.add(wanted, a);  // was there once
  EXPECT_EQ(find_model_of(trace, known, "", progress).folder, b);
  make("b", "changed");
  EXPECT_EQ(find_model_of(trace, known, "", progress).folder, "");
  progress.cancel();
  EXPECT_THROW(find_model_of(trace, known, "", progress), Cancelled);
}

}  // namespace
}  // namespace kvloupe::window
