// Task and outcome as bytes: fields one after the other, texts and lists after their length. One
// list of each one's fields serves writing and reading.

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <type_traits>
#include <utility>

#include "analysis/error.h"
#include "analysis/study/study_work.h"

namespace kvloupe {

namespace {
template <typename Bytes>
void each_field(Bytes& bytes, StudyTask& task) {
  StudySource& source = task.source;
  bytes(task.item, task.trace, task.identity, task.policy);
  bytes(source.name, source.identity, source.task, source.prompt.name, source.prompt.path,
        source.prompt.line, source.prompt.at, source.length, source.depth, source.sample,
        source.needles, source.seed, source.answer_tokens);
  bytes(task.model, task.dtype, task.compact, task.probe, task.budget, task.largest_budget,
        task.entries, task.block, task.compression, task.reduce, task.measures);
}

template <typename Bytes>
void each_field(Bytes& bytes, StudyOutcome& outcome) {
  bytes(outcome.item, outcome.problem, outcome.seconds, outcome.entries, outcome.at_once,
        outcome.prompt.stored, outcome.prompt.expected, outcome.prompt.answer, outcome.values,
        outcome.model, outcome.roles);
}

template <typename Bytes>
void each_field(Bytes& bytes, StudyRole& role) {
  bytes(role.layer, role.head, role.query_head, role.role, role.value);
}

template <typename Bytes>
void each_field(Bytes& bytes, StudyValue& value) {
  bytes(value.measure, value.layer, value.head, value.step, value.value);
}

template <typename Value>
constexpr bool kIsPlain = std::is_arithmetic_v<Value> || std::is_enum_v<Value>;

class BytesWriter {
 public:
  template <typename... Values>
  void operator()(Values&... values) {
    (put(values), ...);
  }
  std::string take() { return std::move(bytes_); }

 private:
  template <typename Value>
  void put(Value& value) {
    if constexpr (kIsPlain<Value>) {
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    } else {
      each_field(*this, value);
    }
  }
  void put(std::string& text) {
    put_size(text.size());
    bytes_ += text;
  }
  void put(std::filesystem::path& path) {
    std::string text = path.string();
    put(text);
  }
  template <typename Value>
  void put(std::vector<Value>& list) {
    put_size(list.size());
    for (Value& one : list) put(one);
  }
  void put_size(std::uint64_t size) { put(size); }

  std::string bytes_;
};

class BytesReader {
 public:
  explicit BytesReader(const std::string& bytes) : bytes_(bytes) {}
  template <typename... Values>
  void operator()(Values&... values) {
    (get(values), ...);
  }

 private:
  template <typename Value>
  void get(Value& value) {
    if constexpr (kIsPlain<Value>) {
      std::memcpy(&value, next(sizeof value), sizeof value);
    } else {
      each_field(*this, value);
    }
  }
  void get(std::string& text) {
    const std::size_t size = get_size();
    text.assign(next(size), size);
  }
  void get(std::filesystem::path& path) {
    std::string text;
    get(text);
    path = text;
  }
  template <typename Value>
  void get(std::vector<Value>& list) {
    const std::size_t size = get_size();
    if (size > bytes_.size() - at_) fail();  // each takes a byte or more
    list.resize(size);
    for (Value& one : list) get(one);
  }
  std::size_t get_size() {
    std::uint64_t size = 0;
    get(size);
    return static_cast<std::size_t>(size);
  }
  [[noreturn]] static void fail() {
    throw WorkError("study: a message between processes is cut; start the study again");
  }
  const char* next(std::size_t size) {
    if (size > bytes_.size() - at_) fail();
    at_ += size;
    return bytes_.data() + at_ - size;
  }

  const std::string& bytes_;
  std::size_t at_ = 0;
};

template <typename Value>
std::string written(Value value) {
  BytesWriter bytes;
  each_field(bytes, value);
  return bytes.take();
}

template <typename Value>
Value read_from(const std::string& bytes) {
  Value value;
  BytesReader reader(bytes);
  each_field(reader, value);
  return value;
}
}  // namespace

std::string to_bytes(const StudyTask& task) { return written(task); }
std::string to_bytes(const StudyOutcome& outcome) { return written(outcome); }
StudyTask task_of(const std::string& bytes) { return read_from<StudyTask>(bytes); }
StudyOutcome outcome_of(const std::string& bytes) { return read_from<StudyOutcome>(bytes); }

}  // namespace kvloupe
