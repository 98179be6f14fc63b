// A model's fingerprint: the same wherever the folder lies, another after any change that the rule
// of docs/trace-format.md looks at; and that rule read a second time, in Python.

#include "analysis/trace/model_files.h"
#include "tests/support/model_attribute.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

using testing::Ne;

void write(const fs::path& path, const std::string& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

/// Changes one byte of a file.
void change(const fs::path& path, std::uint64_t at) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(static_cast<std::streamoff>(at));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(byte ^ 1));
}

std::string header(const std::string& json) {
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(json.size());
  return bytes + json;
}

std::string fingerprint(const fs::path& folder) {
  return model_fingerprint(folder, test::unwatched);
}

struct ModelFingerprint : testing::Test {
  void SetUp() override {
    write(model_ / "config.json", R"({"model_type": "llama"})");
    write(model_ / "model.safetensors", header("{}") + "weights");
  }
  test::TemporaryFolder folder_;
  fs::path model_ = folder_ / "model";
};

TEST_F(ModelFingerprint, FollowsTheModelAndNothingElse) {
  const std::string first = fingerprint(model_);
  ASSERT_TRUE(is_model_fingerprint(first)) << first;
  const fs::path copy = folder_ / "renamed";
  fs::copy(model_, copy, fs::copy_options::recursive);
  write(copy / "tokenizer.json", "{}");
  write(copy / "README.md", "a copy");
  EXPECT_EQ(fingerprint(copy), first);
  const auto size = fs::file_size(copy / "model.safetensors");
  for (std::uint64_t at = 0; at < size; ++at) {
    change(copy / "model.safetensors", at);
    EXPECT_THAT(fingerprint(copy), Ne(first)) << "byte " << at;
    change(copy / "model.safetensors", at);
  }
  EXPECT_EQ(fingerprint(copy), first);
  write(copy / "config.json", R"({"model_type": "llama "})");
  EXPECT_THAT(fingerprint(copy), Ne(first));
}

TEST_F(ModelFingerprint, CountsTheShardsThatTheIndexLists) {
  fs::remove(model_ / "model.safetensors");
  write(model_ / "a.safetensors", header("{}") + "one");
  write(model_ / "b.safetensors", header("{}") + "two");
  write(model_ / "model.safetensors.index.json",
        R"({"weight_map": {"x": "b.safetensors", "y": "a.safetensors", "z": "a.safetensors"}})");
  const std::string first = fingerprint(model_);
  ASSERT_TRUE(is_model_fingerprint(first)) << first;
  write(model_ / "other.safetensors", "not listed");
  EXPECT_EQ(fingerprint(model_), first);
  change(model_ / "b.safetensors", 10);
  EXPECT_THAT(fingerprint(model_), Ne(first));
}

TEST_F(ModelFingerprint, IsEmptyWhereThereIsNoModel) {
  EXPECT_THAT(fingerprint(folder_ / "nowhere"), IsEmpty());
  EXPECT_THAT(fingerprint(model_ / "config.json"), IsEmpty());
  fs::remove(model_ / "model.safetensors");
  EXPECT_THAT(fingerprint(model_), IsEmpty()) << "no weights";
  for (const char* index : {"", "[", "[]", "{}", R"({"weight_map": 1})", R"({"weight_map": {}})",
                            R"({"weight_map": {"x": 1}})", R"({"weight_map": {"x": "../secret"}})",
                            R"({"weight_map": {"x": "missing.safetensors"}})"}) {
    write(model_ / "model.safetensors.index.json", index);
    EXPECT_THAT(fingerprint(model_), IsEmpty()) << index;
  }
  write(model_ / "model.safetensors", "short");
  EXPECT_TRUE(is_model_fingerprint(fingerprint(model_))) << "broken weights are some weights";
  fs::remove(model_ / "config.json");
  EXPECT_THAT(fingerprint(model_), IsEmpty()) << "no config.json";
  fs::create_directory(model_ / "config.json");
  EXPECT_THAT(fingerprint(model_), IsEmpty()) << "a folder of that name";
}

TEST_F(ModelFingerprint, StopsWhenAsked) {
  Progress progress;
  progress.cancel();
  EXPECT_THROW(model_fingerprint(model_, progress), Cancelled);
}

TEST_F(ModelFingerprint, ALargeFileCountsInPieces) {
  const fs::path weights = model_ / "model.safetensors";
  constexpr std::uint64_t kSize = (70ULL << 20U) + 12345;
  write(weights, header("{\"a header of some length\": {}}"));
  fs::resize_file(weights, kSize);  // the rest is a hole
  const std::string first = fingerprint(model_);
  for (const std::uint64_t at :
       {std::uint64_t{20}, std::uint64_t{4} << 20U, (std::uint64_t{68} << 20U) + 4095, kSize - 1}) {
    change(weights, at);
    EXPECT_THAT(fingerprint(model_), Ne(first)) << "byte " << at;
    change(weights, at);
  }
  change(weights, (std::uint64_t{4} << 20U) + 4096);
  EXPECT_EQ(fingerprint(model_), first) << "between two pieces";
  fs::resize_file(weights, kSize + 1);
  EXPECT_THAT(fingerprint(model_), Ne(first)) << "its size counts";
  // A header that lies about its length.
  for (std::uint64_t at = 1; at < 8; ++at) change(weights, at);
  EXPECT_TRUE(is_model_fingerprint(fingerprint(model_)));
}

/// The rule of docs/trace-format.md, read a second time.
constexpr const char* kInPython = R"(
import hashlib, json, os, struct, sys
folder = sys.argv[1]
n8 = lambda n: struct.pack("<Q", n)
sha = hashlib.sha256(b"kvloupe model fingerprint 1\n")
config = open(os.path.join(folder, "config.json"), "rb").read()
sha.update(n8(len(config)) + config)
names = ["model.safetensors"]
if not os.path.exists(os.path.join(folder, names[0])):
    index = json.load(open(os.path.join(folder, "model.safetensors.index.json")))
    names = sorted(set(index["weight_map"].values()), key=str.encode)
for name in names:
    data = open(os.path.join(folder, name), "rb").read()
    sha.update(n8(len(name)) + name.encode() + n8(len(data)))
    if len(data) <= 64 << 20:
        sha.update(data)
    else:
        sha.update(data[:8 + min(struct.unpack("<Q", data[:8])[0], 100_000_000)])
        for at in range(0, len(data), 4 << 20):
            sha.update(data[at:at + 4096])
        sha.update(data[-4096:])
print("v1:" + sha.hexdigest(), end="")
)";

std::string by_python(const fs::path& script, const fs::path& folder) {
  const std::string command =
      "/usr/bin/python3 '" + script.string() + "' '" + folder.string() + "' 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  std::string out;
  std::array<char, 256> buffer;
  while (const std::size_t got = pipe ? fread(buffer.data(), 1, buffer.size(), pipe) : 0)
    out.append(buffer.data(), got);
  if (pipe) pclose(pipe);
  return out;
}

TEST_F(ModelFingerprint, FollowsItsDocumentation) {
  if (!fs::exists("/usr/bin/python3")) GTEST_SKIP() << "no /usr/bin/python3";
  const fs::path script = folder_ / "fingerprint.py";
  write(script, kInPython);
  EXPECT_EQ(fingerprint(model_), by_python(script, model_));
  const fs::path demo = fs::path(KVLOUPE_SOURCE_DIR) / "assets/demo-model";
  EXPECT_EQ(fingerprint(demo), by_python(script, demo));
  fs::rename(model_ / "model.safetensors", model_ / "shard.safetensors");
  fs::resize_file(model_ / "shard.safetensors", (65 << 20) + 7);
  write(model_ / "model.safetensors.index.json", R"({"weight_map": {"x": "shard.safetensors"}})");
  EXPECT_EQ(fingerprint(model_), by_python(script, model_));
}

TEST_F(ModelFingerprint, IsCarriedByATraceWhereItIsKnown) {
  const fs::path trace = folder_ / "trace.h5";
  test::write_synthetic_trace(trace);
  EXPECT_THAT(stored_model_fingerprint(trace), IsEmpty());
  const std::string known = fingerprint(model_);
  for (const std::string& text :
       {known, std::string("v2:ab"), std::string("nonsense\n"), std::string("v1:"),
        std::string("/home/somebody/model"), std::string(100'000, 'a')}) {
    test::write_model_attribute(trace, "fingerprint", text);
    EXPECT_EQ(stored_model_fingerprint(trace), text == known ? known : "") << text.substr(0, 80);
    EXPECT_NO_THROW(Trace{trace}) << "nothing that a trace could not live without";
  }
  EXPECT_THROW(stored_model_fingerprint(folder_ / "nowhere.h5"), FileError);
  write(folder_ / "text.h5", "no HDF5");
  EXPECT_THROW(stored_model_fingerprint(folder_ / "text.h5"), FileError);
}

TEST(ModelFingerprintText, HasOneForm) {
  const std::string good = "v1:" + std::string(64, 'a');
  EXPECT_TRUE(is_model_fingerprint(good));
  EXPECT_FALSE(is_model_fingerprint(""));
  EXPECT_FALSE(is_model_fingerprint(good + "a"));
  EXPECT_FALSE(is_model_fingerprint("v1:" + std::string(64, 'A')));
  EXPECT_FALSE(is_model_fingerprint("v2:" + std::string(64, 'a')));
}

}  // namespace
}  // namespace kvloupe
