// Task and outcome as bytes: fields one after the other, texts and lists after their length.

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "analysis/error.h"
#include "analysis/study/study_work.h"

namespace kvloupe {

namespace {
class Writer {
 public:
  template <typename Number>
  Writer& number(Number value) {
    static_assert(std::is_arithmetic_v<Number>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Writer& text(const std::string& value) {
    number(static_cast<std::uint64_t>(value.size()));
    bytes_ += value;
    return *this;
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}
  template <typename Number>
  Number number() {
    Number value;
    std::memcpy(&value, next(sizeof value), sizeof value);
    return value;
  }
  std::string text() {
    const auto size = static_cast<std::size_t>(number<std::uint64_t>());
    const char* first = next(size);
    return {first, first + size};
  }
  /// How many entries follow, each of at least so many bytes.
  std::size_t count(std::size_t bytes_each) {
    const auto entries = static_cast<std::size_t>(number<std::uint64_t>());
    if (entries > (bytes_.size() - at_) / bytes_each) fail();
    return entries;
  }

 private:
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
}  // namespace

std::string to_bytes(const StudyTask& task) {
  Writer out;
  const StudySource& source = task.source;
  out.number(task.item).text(task.trace).text(task.identity).text(task.policy);
  out.text(source.name).text(source.identity).text(source.task).text(source.prompt.name);
  out.text(source.prompt.path.string()).number(source.prompt.line).number(source.length);
  out.number(source.depth).number(source.sample).number(source.needles).number(source.seed);
  out.number(source.answer_tokens);
  out.text(task.model).text(task.dtype).number(task.compact).text(task.probe);
  out.text(task.budget);
  out.text(task.largest_budget);
  out.number(task.entries).number(task.block).text(task.compression);
  out.number(static_cast<int>(task.reduce));
  out.number(static_cast<std::uint64_t>(task.measures.size()));
  for (const std::string& measure : task.measures) out.text(measure);
  return out.take();
}

StudyTask task_of(const std::string& bytes) {
  Reader in(bytes);
  StudyTask task;
  task.item = in.number<int>();
  task.trace = in.text();
  task.identity = in.text();
  task.policy = in.text();
  StudySource& source = task.source;
  source.name = in.text();
  source.identity = in.text();
  source.task = in.text();
  source.prompt.name = in.text();
  source.prompt.path = in.text();
  source.prompt.line = in.number<int>();
  source.length = in.number<int>();
  source.depth = in.number<double>();
  source.sample = in.number<int>();
  source.needles = in.number<int>();
  source.seed = in.number<std::uint64_t>();
  source.answer_tokens = in.number<int>();
  task.model = in.text();
  task.dtype = in.text();
  task.compact = in.number<bool>();
  task.probe = in.text();
  task.budget = in.text();
  task.largest_budget = in.text();
  task.entries = in.number<int>();
  task.block = in.number<int>();
  task.compression = in.text();
  task.reduce = static_cast<Reduce>(in.number<int>());
  task.measures.resize(in.count(sizeof(std::uint64_t)));
  for (std::string& measure : task.measures) measure = in.text();
  return task;
}

std::string to_bytes(const StudyOutcome& outcome) {
  Writer out;
  out.number(outcome.item).text(outcome.problem).number(outcome.seconds);
  out.number(outcome.entries).number(outcome.at_once);
  out.text(outcome.prompt.stored).text(outcome.prompt.expected).text(outcome.prompt.answer);
  out.number(static_cast<std::uint64_t>(outcome.values.size()));
  for (const StudyValue& one : outcome.values) {
    out.number(one.measure).number(one.layer).number(one.head).number(one.step).number(one.value);
  }
  return out.take();
}

StudyOutcome outcome_of(const std::string& bytes) {
  Reader in(bytes);
  StudyOutcome outcome;
  outcome.item = in.number<int>();
  outcome.problem = in.text();
  outcome.seconds = in.number<double>();
  outcome.entries = in.number<int>();
  outcome.at_once = in.number<bool>();
  outcome.prompt.stored = in.text();
  outcome.prompt.expected = in.text();
  outcome.prompt.answer = in.text();
  outcome.values.resize(in.count(4 * sizeof(int) + sizeof(double)));
  for (StudyValue& one : outcome.values) {
    one.measure = in.number<int>();
    one.layer = in.number<int>();
    one.head = in.number<int>();
    one.step = in.number<int>();
    one.value = in.number<double>();
  }
  return outcome;
}

}  // namespace kvloupe
