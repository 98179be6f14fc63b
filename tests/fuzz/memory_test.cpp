// How much memory the readers take for a file of a given size: docs/reliability.md, "Resources".
// Every allocation of this program by `new` is counted. Traces are read in child processes with
// limits (trace_check_test.cpp), because HDF5 allocates by itself.

#include <malloc.h>

#include <new>

#include "tests/fuzz/fuzz_target.h"
#include "tests/support/test.h"

namespace {
std::atomic<std::size_t> held{0}, most{0};

void* counted(std::size_t size) {
  void* block = std::malloc(size);
  if (block == nullptr) throw std::bad_alloc();
  const std::size_t now = held += malloc_usable_size(block);
  for (std::size_t before = most; now > before && !most.compare_exchange_weak(before, now);) {
  }
  return block;
}

void released(void* block) {
  if (block != nullptr) held -= malloc_usable_size(block);
  std::free(block);
}
}  // namespace

void* operator new(std::size_t size) { return counted(size); }
void* operator new[](std::size_t size) { return counted(size); }
void operator delete(void* block) noexcept { released(block); }
void operator delete[](void* block) noexcept { released(block); }
void operator delete(void* block, std::size_t) noexcept { released(block); }
void operator delete[](void* block, std::size_t) noexcept { released(block); }

namespace kvloupe::fuzz {
namespace {

constexpr std::size_t kSize = std::size_t{256} << 10U;
constexpr std::size_t kAnyFile = std::size_t{2} << 20U;  // catalogues, buffers

std::string repeated(const std::string& begin, const std::function<std::string(int)>& part,
                     const std::string& end) {
  std::string text = begin;
  for (int i = 0; text.size() < kSize; ++i) text += part(i);
  if (text.ends_with(',')) text.pop_back();
  return text + end;
}
std::string repeated(const std::string& begin, const std::string& part, const std::string& end) {
  return repeated(
      begin, [&](int) { return part; }, end);
}

/// Texts of few bytes that take much memory once they are values.
std::vector<std::string> dense_json(const std::string& field) {
  const std::string begin = field.empty() ? "" : "{\"" + field + "\":";
  const std::string end = field.empty() ? "" : "}";
  std::string deep(kSize / 2, '[');
  deep.append(kSize / 2, ']');
  const auto member = [](int i) { return "\"" + std::to_string(i) + "\":{},"; };
  return {repeated(begin + "[", "[],", "]" + end),     repeated(begin + "[", "{},", "]" + end),
          repeated(begin + "[", "1,", "]" + end),      repeated(begin + "[", "\"\",", "]" + end),
          repeated(begin + "{", member, "}" + end),    repeated(begin + "[", "1e9,", "]" + end),
          repeated(begin + "[", "[1],", "]" + end),    begin + deep + end,
          repeated(begin + "[", "\"a b\",", "]" + end)};
}

struct Reader {
  const char* target;
  std::size_t most_per_byte;  // as docs/reliability.md says
  std::vector<std::string> files;
};

void add_fields(std::vector<std::string>& files, const std::vector<std::string>& fields) {
  for (const std::string& field : fields) {
    for (std::string& text : dense_json(field)) files.push_back(std::move(text));
  }
}

std::string safetensors(const std::string& header) {
  std::string bytes;
  for (std::size_t i = 0; i < 8; ++i)
    bytes += static_cast<char>(static_cast<unsigned char>(header.size() >> (8 * i)));
  return bytes + header;
}

std::vector<Reader> readers() {
  constexpr std::size_t kJson = 48;
  std::vector<Reader> all = {
      {"session", kJson, {}},
      {"study", 64, {}},
      {"evaluation", kJson, {}},
      {"config", kJson, {}},
      {"tokenizer_json", kJson, {}},
      {"safetensors", kJson, {}},
      {"lesson", 80, {}},
      {"prompt", 32, {}},
      {"tokenizer_model", 32, {}},
      {"policy", 48, {}},
      {"formula", 1, {}},
      {"kept_sets", 16, {}},
      {"head_table", 48, {}},
      {"study_results", 1, {}},
  };
  for (Reader& reader : all) {
    const std::string name = reader.target;
    const auto give = [&](std::vector<std::string> files) { reader.files = std::move(files); };
    if (name == "session") add_fields(reader.files, {"", "tiles", "policy_a"});
    if (name == "study") add_fields(reader.files, {"", "policies", "budgets", "traces", "tasks"});
    if (name == "evaluation") add_fields(reader.files, {"", "runs", "settings"});
    if (name == "config") add_fields(reader.files, {"", "rope_scaling", "layer_types"});
    if (name == "tokenizer_json") add_fields(reader.files, {"", "model", "added_tokens"});
    if (name == "safetensors") {
      for (const std::string& text : dense_json("")) reader.files.push_back(safetensors(text));
      reader.files.push_back(safetensors(repeated(
          "{",
          [](int i) {
            return "\"" + std::to_string(i) +
                   "\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},";
          },
          "}")));
    }
    if (name == "lesson") {
      give({repeated("", "# a\n", ""), repeated("# a\n", "{{1}}", ""),
            repeated("# a\n", "x\n\n", ""), repeated("# a\n", "- x\n", "")});
    }
    if (name == "prompt")
      give({repeated("", "@@a\n", ""), repeated("", "1 ", ""), repeated("", "@@a\nb\n", "")});
    if (name == "tokenizer_model") {
      give({repeated("", std::string("\x0a\x00", 2), ""),
            repeated("", std::string("\x0a\x03\x0a\x01", 4) + "a", "")});
    }
    if (name == "policy") {
      give({repeated("h2o", "+recent(1)", ""), repeated("", "h2o,", "h2o"),
            repeated("h2o(", "a=1,", "b=2)"), repeated("", "(", "")});
    }
    if (name == "formula") give({repeated("", "(", ""), repeated("1", "+1", "")});
    if (name == "kept_sets") {
      give({repeated(
                "{\"heads\":[{\"layer\":0,\"head\":0,\"steps\":[{\"step\":0,\"retained\":[",
                [](int i) { return std::to_string(i) + ","; }, "]}]}]}"),
            repeated(
                "{\"heads\":[{\"layer\":0,\"head\":0,\"steps\":[",
                [](int i) { return "{\"step\":" + std::to_string(i) + ",\"retained\":[]},"; },
                "]}]}"),
            dense_json("heads").front(), dense_json("").at(7)});
    }
    if (name == "head_table") {
      give({repeated("", "1\n", ""), repeated("", "1 ", ""),
            repeated("layer head value\n", "0 0 0\n", ""), repeated("", "\n", "")});
    }
    if (name == "study_results") give({repeated("SQLite format 3", std::string(1, '\0'), "")});
  }
  return all;
}

class Memory : public testing::TestWithParam<Reader> {};

INSTANTIATE_TEST_SUITE_P(Readers, Memory, testing::ValuesIn(readers()),
                         [](const auto& info) { return std::string(info.param.target); });

TEST_P(Memory, AFileTakesNoMoreThanItsSizeJustifies) {
  const Reader& reader = GetParam();
  const Target* target = nullptr;
  for (const Target& one : targets()) {
    if (one.name == std::string(reader.target)) target = &one;
  }
  if (target == nullptr) GTEST_SKIP() << "not built";
  ASSERT_FALSE(reader.files.empty());
  run(*target, "warm");  // what is made once, such as catalogues
  double worst = 0.0;
  for (std::size_t i = 0; i < reader.files.size(); ++i) {
    SCOPED_TRACE(reader.files[i].substr(0, 60));
    const std::size_t before = held;
    most = before;
    run(*target, reader.files[i]);
    const std::size_t taken = most - before;
    worst = std::max(worst, static_cast<double>(taken) / static_cast<double>(kSize));
    EXPECT_LE(taken, reader.most_per_byte * reader.files[i].size() + kAnyFile) << "file " << i;
    EXPECT_LE(held, before + kAnyFile) << "file " << i << " leaves something behind";
  }
  RecordProperty("bytes_per_byte", std::to_string(worst));
  std::printf("%s: at most %.1f bytes for each byte of the file\n", reader.target, worst);
}

}  // namespace
}  // namespace kvloupe::fuzz
