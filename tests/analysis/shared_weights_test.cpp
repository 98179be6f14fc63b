// Weights kept once for all traces of a model: a trace with them is like one that holds them, and
// one without them says what it lacks.
#include "analysis/trace/shared_weights.h"

#include "analysis/trace/kept_files.h"
#include "analysis/trace/trace_check.h"
#include "analysis/trace/trace_final_norm.h"
#include "tests/support/edited_trace.h"
#include "tests/support/model_attribute.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

const std::string kPrint = "v1:" + std::string(64, 'a');
constexpr const char* kForm = "f32-f16";

struct SharedWeights : testing::Test {
  void SetUp() override {
    states_ = write_synthetic_trace(whole(), {.lm_head = true});
    write_model_attribute(whole(), "fingerprint", kPrint);
    fs::copy_file(whole(), small());
    write_model_attribute(small(), "shared_weights", kForm);
    EditedTrace edit(small());
    for (const char* name :
         {"/layers/0/output_weight", "/layers/1/output_weight", "/model/lm_head"}) {
      edit.remove(name);
    }
  }
  fs::path whole() const { return folder_ / "whole.h5"; }
  fs::path small() const { return folder_ / "small.h5"; }
  fs::path kept() const { return weights_path(cache_folder(), kPrint, kForm); }
  ModelInfo model() const { return states_.model; }
  void keep() const { keep_as(kept(), kPrint, kForm, model()); }
  /// The weights of the trace, of as many layers as `of` says.
  void keep_as(const fs::path& file, const std::string& print, const std::string& form,
               const ModelInfo& of) const {
    const Trace trace(whole());
    WeightsWriter writer(file, of, print, form);
    for (int layer = 0; layer < of.num_layers; ++layer) {
      std::vector<float> all;
      for (const Matrix& slice : states_.output_weight.at(layer))
        all.insert(all.end(), slice.data(), slice.data() + slice.size());
      all.resize(static_cast<std::size_t>(of.num_heads * of.head_dim * of.hidden_size));
      writer.write_output_weight(layer, all, true);
    }
    const Matrix head = *trace.lm_head();
    std::vector<float> rows(head.data(), head.data() + head.size());
    rows.resize(static_cast<std::size_t>(of.vocab_size * of.hidden_size));
    writer.write_lm_head(rows);
    writer.finish();
  }
  /// Opens the trace without weights; what it lacks.
  std::string missing() const {
    const Trace trace(small());
    EXPECT_FALSE(trace.has_output_weight());
    EXPECT_FALSE(trace.has_lm_head());
    EXPECT_FALSE(uses_shared_weights(trace));
    return missing_weights(trace);
  }

  TemporaryFolder folder_;
  EnvironmentVariable cache_{"XDG_CACHE_HOME", (folder_ / "xdg").string()};
  SyntheticStates states_;
};

TEST_F(SharedWeights, AreReadAsIfTheyStoodInTheTrace) {
  keep();
  const Trace whole_trace(whole()), trace(small());
  EXPECT_TRUE(uses_shared_weights(trace));
  EXPECT_FALSE(uses_shared_weights(whole_trace));
  EXPECT_EQ(missing_weights(trace), "");
  EXPECT_TRUE(trace.has_output_weight());
  EXPECT_TRUE(trace.has_lm_head());
  Matrix room, other_room;
  for (const auto& [layer, head] : cells(2, 4)) {
    EXPECT_EQ(trace.output_weight(layer, head)->floats(room),
              whole_trace.output_weight(layer, head)->floats(other_room));
    EXPECT_EQ(trace.value_out_norm(layer, head, Norm::l2),
              whole_trace.value_out_norm(layer, head, Norm::l2));
  }
  EXPECT_EQ(*trace.lm_head(), *whole_trace.lm_head());
  EXPECT_EQ(TraceFinalNorm(trace).head_row(7), TraceFinalNorm(whole_trace).head_row(7));
  for (const Trace::DatasetInfo& dataset : trace.datasets())
    EXPECT_THAT(dataset.path, Not(HasSubstr("output_weight"))) << "not in this file";
}

TEST_F(SharedWeights, TheCacheFolderKeepsThemAsLongAsATraceNeedsThem) {
  const CacheFolder folder(cache_folder());
  keep();
  {
    const Trace trace(small());
    EXPECT_EQ(folder.clear().in_use, 1);
    EXPECT_TRUE(fs::exists(kept()));
  }
  ASSERT_EQ(folder.files().size(), 1U);
  EXPECT_EQ(folder.files()[0].kind, KeptKind::weights);
  EXPECT_THAT(about_kept_file(folder.files()[0]), HasSubstr(", f32-f16"));
  EXPECT_EQ(folder.clear().files, 1);
}

TEST_F(SharedWeights, AMissingFileIsNamedWithWhatToDo) {
  EXPECT_THAT(missing(),
              AllOf(HasSubstr(kept().string() + " is not there"), HasSubstr("cannot be computed"),
                    HasSubstr("kvloupe-capture pack TRACE --model MODEL")));
  const std::string before = Trace(small()).identity();
  keep();
  EXPECT_NE(Trace(small()).identity(), before) << "figures made without the weights are stale";
  cache_.set({});
  const EnvironmentVariable home("HOME");
  EXPECT_THAT(missing(), HasSubstr("no cache folder is known"));
}

TEST_F(SharedWeights, NoFingerprintLeadsOutOfTheFolder) {
  const fs::path secret = folder_ / "secret.h5";
  for (const std::string& print :
       {std::string("v1:../../secret"), "v1:" + std::string(61, '/') + "a.b", std::string(),
        "v2:" + std::string(64, 'a'), "v1:" + std::string(64, 'A')}) {
    EXPECT_EQ(weights_path(cache_folder(), print, kForm), fs::path()) << print;
    write_model_attribute(small(), "fingerprint", print);
    EXPECT_THAT(missing(), HasSubstr("does not say where")) << print;
  }
  write_model_attribute(small(), "fingerprint", kPrint);
  for (const char* form : {"../f16", "f32-f16/../../x", "f64-f16", ""}) {
    EXPECT_EQ(weights_path(cache_folder(), kPrint, form), fs::path()) << form;
    if (*form == '\0') continue;
    write_model_attribute(small(), "shared_weights", form);
    EXPECT_THAT(missing(), HasSubstr("does not say where")) << form;
  }
}

TEST_F(SharedWeights, WrongOnesAreRefusedAndTheTraceStillOpens) {
  const std::string other = "v1:" + std::string(64, 'b');
  keep_as(kept(), other, kForm, model());
  EXPECT_THAT(missing(), HasSubstr(kept().string() + " holds the weights of another model"));
  keep_as(kept(), kPrint, "bf16-f16", model());
  EXPECT_THAT(missing(), HasSubstr("another model"));
  ModelInfo wider = model();
  wider.hidden_size += 1;
  keep_as(kept(), kPrint, kForm, wider);
  EXPECT_THAT(missing(), HasSubstr("/layers/0/output_weight has the shape [4, 16, 25]"));
  ModelInfo shorter = model();
  shorter.num_layers = 1;
  keep_as(kept(), kPrint, kForm, shorter);
  EXPECT_THAT(missing(), HasSubstr("/layers/1"));
  ModelInfo fewer = model();
  fewer.vocab_size = 49;
  keep_as(kept(), kPrint, kForm, fewer);
  EXPECT_THAT(missing(), HasSubstr("/model/lm_head has the shape [49, 24]"));
  fs::copy_file(whole(), kept(), fs::copy_options::overwrite_existing);
  EXPECT_THAT(missing(), HasSubstr("does not hold weights"));
}

TEST_F(SharedWeights, ADamagedFileIsOneLine) {
  keep();
  const auto size = fs::file_size(kept());
  for (const auto bytes : {size - 1, size / 2, std::uintmax_t{100}, std::uintmax_t{0}}) {
    keep();
    fs::resize_file(kept(), bytes);
    const std::string line = missing();
    EXPECT_THAT(line, HasSubstr(kept().string())) << bytes;
    EXPECT_EQ(line.find('\n'), std::string::npos);
  }
  fs::remove(kept());
  fs::create_directories(kept());
  EXPECT_THAT(missing(), HasSubstr("is not there"));
  fs::remove(kept());
  const fs::path elsewhere = folder_ / "elsewhere.h5";
  keep_as(elsewhere, kPrint, kForm, model());
  fs::create_symlink(elsewhere, kept());
  EXPECT_THAT(missing(), HasSubstr("is not there")) << "a link is not followed";
}

TEST_F(SharedWeights, AreTriedAsATraceIs) {
  keep();
  EXPECT_NO_THROW(walk_trace(kept()));
  EXPECT_NO_THROW(walk_trace(small()));
  EXPECT_THROW(Trace{kept()}, FileError) << "weights are no trace";
}

TEST_F(SharedWeights, APackedTraceNeedsNothingElse) {
  keep();
  const fs::path packed = folder_ / "packed.h5";
  pack_trace(small(), packed, true);
  fs::remove(kept());
  const Trace trace(packed), whole_trace(whole());
  EXPECT_EQ(missing_weights(trace), "");
  EXPECT_FALSE(uses_shared_weights(trace));
  Matrix room, other_room;
  EXPECT_EQ(trace.output_weight(1, 3)->floats(room),
            whole_trace.output_weight(1, 3)->floats(other_room));
  EXPECT_EQ(*trace.lm_head(), *whole_trace.lm_head());
  EXPECT_EQ(trace.key(1, 1), whole_trace.key(1, 1));
  EXPECT_EQ(trace.tokens().text, whole_trace.tokens().text);
  EXPECT_EQ(trace.created(), whole_trace.created());
  EXPECT_EQ(trace.run().seconds, whole_trace.run().seconds);
  EXPECT_EQ(trace.datasets().size(), whole_trace.datasets().size());
  // A trace that holds its weights stays as it is.
  pack_trace(whole(), folder_ / "again.h5", false);
  EXPECT_EQ(Trace(folder_ / "again.h5").datasets().size(), whole_trace.datasets().size());
  // Without the weights there is nothing to pack, and nothing is left behind.
  EXPECT_THROW(pack_trace(small(), folder_ / "none.h5", false), FileError);
  EXPECT_FALSE(fs::exists(folder_ / "none.h5"));
  EXPECT_THROW(pack_trace(small(), small(), false), FileError);
}

}  // namespace
}  // namespace kvloupe::test
