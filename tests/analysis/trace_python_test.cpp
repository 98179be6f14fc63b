// The trace format as outside programs see it: Debian's h5py, and the examples in the
// documentation.
#include "tests/support/test.h"

namespace kvloupe {
namespace {

struct Outcome {
  int status = -1;
  std::string output;
};

/// Runs a Python script (its text) with one argument; output and errors together.
Outcome run_python(const test::TemporaryFolder& folder, const std::string& script,
                   const std::filesystem::path& argument) {
  std::ofstream(folder / "script.py") << script;
  const std::string command =
      "/usr/bin/python3 '" + (folder / "script.py").string() + "' '" + argument.string() + "' 2>&1";
  Outcome outcome;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> buffer;
  while (const std::size_t got = fread(buffer.data(), 1, buffer.size(), pipe)) {
    outcome.output.append(buffer.data(), got);
  }
  outcome.status = pclose(pipe);
  return outcome;
}

/// The Python block of docs/trace-format.md that starts with this comment.
std::string example(const std::string& comment) {
  std::ifstream file(KVLOUPE_SOURCE_DIR "/docs/trace-format.md");
  std::stringstream text;
  text << file.rdbuf();
  const std::string all = text.str(), start = "```python\n# " + comment + "\n";
  const std::size_t first = all.find(start);
  if (first == std::string::npos) return "raise SystemExit('no such example')";
  const std::size_t body = first + std::string("```python\n").size();
  return all.substr(body, all.find("```", body) - body);
}

struct TracePython : ::testing::Test {
  void SetUp() override {
    if (run_python(folder_, "import h5py, numpy", "-").status != 0) {
      GTEST_SKIP() << "/usr/bin/python3 has no h5py: install python3-h5py";
    }
  }
  test::TemporaryFolder folder_;
};

TEST_F(TracePython, DocumentedReaderFindsTheSink) {
  test::write_synthetic_trace(folder_ / "t.h5");
  const Outcome outcome = run_python(folder_, example("read a trace"), folder_ / "t.h5");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("'<s>'"));
}

TEST_F(TracePython, DocumentedWriterMakesATraceThatOpens) {
  const Outcome outcome = run_python(folder_, example("write a trace"), folder_ / "t.h5");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const Trace trace(folder_ / "t.h5");
  EXPECT_EQ(trace.model().num_layers, 2);
  EXPECT_EQ(trace.length(), 20);
  EXPECT_EQ(trace.blocks().size(), 6U);
  EXPECT_EQ(trace.tokens().text[7], "token 7");
  EXPECT_EQ(trace.query(1, 3).rows(), 20);
  EXPECT_EQ(trace.model().rope_scaling, "null");
  EXPECT_FALSE(trace.predictions().has_value());
}

TEST_F(TracePython, H5pySeesTheTypesTheFormatPromises) {
  test::SyntheticTraceOptions options{.prompt_length = 300,
                                      .attention = true,
                                      .lm_head = true,
                                      .vocabulary = true,
                                      .evicted_at = true};
  const test::SyntheticStates states = test::write_synthetic_trace(folder_ / "t.h5", options);
  const Outcome outcome = run_python(folder_, R"(
import sys, h5py, numpy as np
with h5py.File(sys.argv[1]) as t:
    assert t.attrs["format"] == "kvloupe-trace" and t.attrs["format_version"] == 1
    assert t.attrs["complete"] == 1 and t.attrs["complete"].dtype == np.uint8
    assert t["model"].attrs["rope_pairing"] == "half" and t["model"].attrs["rope_theta"] == 10000.0
    assert list(t["run/blocks"][0]) == [0, 32] and t["run/blocks"].dtype == np.int32
    assert t["tokens/text"].asstr()[3] == " w3\u00e9"
    assert list(t["tokens/segment"].attrs["names"]) == ["context", "answer"]
    for name in "query", "key", "value":
        assert t[f"layers/0/{name}"].dtype == np.float16, name
    assert t["layers/0/key"].shape == (2, 308, 16) and t["layers/0/key"].chunks == (1, 154, 16)
    assert t["model/lm_head"].dtype == np.float16
    text, ends = t["model/vocabulary/text"][:].tobytes(), t["model/vocabulary/ends"][:]
    assert text[ends[3]:ends[4]].decode() == " wörd4"
    a = t["layers/1/attention"][:].astype(np.float32)
    assert a.dtype == np.float32 and np.abs(np.triu(a[0], 1)).max() == 0
    assert np.abs(a.sum(axis=2) - 1).max() < 5e-3
    q, k = (t[f"layers/1/{n}"][0].astype(np.float64) for n in ("query", "key"))
    logits = q @ k.T * 0.25
    logits[np.triu_indices(308, 1)] = -np.inf
    lse = np.log(np.exp(logits).sum(axis=1))
    assert np.abs(lse - t["layers/1/attention_logsumexp"][0]).max() < 1e-4
    assert np.isnan(t["predictions/loss"][-1])
    merges = t["layers/1/merges"][:]
    assert merges.dtype.names == ("head", "step", "into", "from", "weight")
    assert merges[1]["into"] == 3 and merges[1]["weight"] == np.float32(0.75)
    print(float(k.sum()))
)",
                                     folder_ / "t.h5");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NEAR(std::stod(outcome.output), states.key[1][0].cast<double>().sum(), 1e-9);
}

TEST_F(TracePython, OtherTypesFiltersAndAdditionsAreAccepted) {
  const Outcome outcome = run_python(folder_, R"(
import sys, h5py, numpy as np
T, d = 12, 4
with h5py.File(sys.argv[1], "w") as t:
    t.attrs["format"] = np.bytes_("kvloupe-trace")          # fixed-length text
    t.attrs.update(format_version=np.float64(1), complete=True, note="mine")
    m = t.create_group("model").attrs
    m.update(num_layers=np.int64(1), num_heads=np.uint8(2), num_kv_heads=np.int16(1), head_dim=d,
             hidden_size=8, vocab_size=np.array([99]), rope_pairing=np.bytes_("interleaved"))
    r = t.create_group("run").attrs
    r.update(block_size=5, prompt_length=T, generated=0, attention_scale=np.float32(0.5), seed=2**64 - 1)
    t["tokens/ids"] = np.arange(T, dtype=np.uint16)
    t["tokens/text"] = np.array([b"a\xff"] + [b"xy"] * (T - 1))   # fixed length, not UTF-8
    t["tokens/segment"] = np.zeros(T, np.int64)
    t["tokens/segment"].attrs["names"] = ["context"]
    x = np.arange(T * d).reshape(1, T, d)
    t.create_dataset("layers/0/query", data=np.repeat(x, 2, 0).astype(">f8"))
    t.create_dataset("layers/0/key", data=x.astype(np.float64), compression="gzip", shuffle=True)
    t.create_dataset("layers/0/value", data=x.astype(">f2"), chunks=(1, 5, 3))
    t["layers/0/mine"] = [1, 2, 3]
    t["elsewhere/strange"] = np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")])
)",
                                     folder_ / "t.h5");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const Trace trace(folder_ / "t.h5");
  EXPECT_EQ(trace.model().rope_pairing, RopePairing::interleaved);
  EXPECT_EQ(trace.model().rope_theta, 0.0);  // not given: unknown, not a default
  EXPECT_EQ(trace.run().seed, ~std::uint64_t{0});
  EXPECT_EQ(trace.tokens().ids[11], 11);
  EXPECT_EQ(trace.tokens().text[0], "a\\xff");
  EXPECT_EQ(trace.tokens().text[11], "xy");
  for (const Matrix& m : {trace.query(0, 1), trace.key(0, 0), trace.value(0, 0)}) {
    EXPECT_EQ(m(0, 0), 0.0F);
    EXPECT_EQ(m(11, 3), 47.0F);
  }
  EXPECT_EQ(trace.datasets().size(), 8U);
}

}  // namespace
}  // namespace kvloupe
