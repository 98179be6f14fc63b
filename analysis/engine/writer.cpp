// New traces, for programs that have the states of a model.

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "analysis/base/system/output_file.h"
#include "analysis/engine/calls.h"
#include "analysis/trace/trace_writer.h"

using namespace kvloupe;          // NOLINT: the functions below have no namespace of their own
using namespace kvloupe::engine;  // NOLINT

struct kvloupe_engine_writer {
  TraceWriter trace;
  std::string notes;
};

int32_t kvloupe_engine_writer_create(const char* path, int32_t tokens,
                                     kvloupe_engine_writer** writer, char* error) {
  return guarded(error, [&] {
    require(writer, "writer");
    require(path, "path");
    remove_unfinished_files_at_signals();
    *writer = new kvloupe_engine_writer{TraceWriter(path, tokens), {}};
  });
}

void kvloupe_engine_writer_destroy(kvloupe_engine_writer* writer) { delete writer; }

int32_t kvloupe_engine_writer_add(kvloupe_engine_writer* writer, const char* path, int32_t type,
                                  const int64_t* shape, int32_t rank, int32_t axis, int32_t first,
                                  int32_t count, const float* numbers, char* error) {
  return guarded(error, [&] {
    require(writer, "writer");
    require(path, "path");
    require(shape, "shape");
    require(numbers, "numbers");
    require_count(rank, "rank");
    require_count(count, "count");
    std::size_t size = static_cast<std::size_t>(count);
    for (int at = 0; at < rank; ++at) size *= at == axis ? 1 : static_cast<std::size_t>(shape[at]);
    writer->trace.write_rows(path, {shape, shape + rank}, static_cast<std::size_t>(axis),
                             type == KVLOUPE_ENGINE_FLOAT16, first, count, {numbers, size});
  });
}

int32_t kvloupe_engine_writer_read(kvloupe_engine_writer* writer, const char* path, int32_t head,
                                   int32_t count, float* numbers, char* error) {
  return guarded(error, [&] {
    require(writer, "writer");
    require(path, "path");
    require(numbers, "numbers");
    writer->trace.read_rows(path, head, count, numbers);
  });
}

int32_t kvloupe_engine_writer_array(kvloupe_engine_writer* writer, const char* path, int32_t type,
                                    const int64_t* shape, int32_t rank, const void* data,
                                    char* error) {
  return guarded(error, [&] {
    require(writer, "writer");
    require(path, "path");
    require(shape, "shape");
    require(data, "data");
    require_count(rank, "rank");
    writer->trace.write_whole(path, type, {shape, shape + rank}, data);
  });
}

const char* kvloupe_engine_writer_notes(kvloupe_engine_writer* writer) {
  if (writer == nullptr) return "";
  writer->notes.clear();
  for (const std::string& note : writer->trace.notes()) writer->notes += note + "\n";
  return writer->notes.c_str();
}

int32_t kvloupe_engine_writer_finish(kvloupe_engine_writer* writer, int32_t tokens,
                                     const char* description, char* error) {
  return guarded(error, [&] {
    require(writer, "writer");
    require(description, "description");
    writer->trace.finish(tokens, nlohmann::json::parse(description));
  });
}

int32_t kvloupe_engine_write_file(const char* path, const char* bytes, int64_t size, char* error) {
  return guarded(error, [&] {
    require(path, "path");
    require(bytes, "bytes");
    require_count(size, "bytes");
    write_whole_file(path, {bytes, static_cast<std::size_t>(size)});
  });
}
