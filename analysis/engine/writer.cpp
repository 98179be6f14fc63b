// New traces, for programs that have the states of a model.

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "analysis/engine/calls.h"
#include "analysis/trace/trace_writer.h"
#include "analysis/unfinished_files.h"

using namespace kvloupe;          // NOLINT: the functions below have no namespace of their own
using namespace kvloupe::engine;  // NOLINT

struct kvloupe_engine_writer {
  std::unique_ptr<TraceWriter> trace;
  std::string widened;
};

namespace {
/// The shapes that the JSON of kvloupe_engine_writer_create() gives.
std::unique_ptr<TraceWriter> writer_of(const char* path, const nlohmann::json& given) {
  TraceWriterOptions options{.store_f32 = given.at("store") == "f32", .described = true};
  ModelInfo model{.num_layers = static_cast<int>(given.at("layers").size()),
                  .num_heads = 1,
                  .num_kv_heads = 1,
                  .head_dim = 1};
  for (const nlohmann::json& layer : given.at("layers")) {
    LayerAttributes own;
    for (const LayerKind kind :
         {LayerKind::attention, LayerKind::none, LayerKind::shared, LayerKind::latent}) {
      if (layer.at("kind") == layer_kind_name(kind)) own.kind = kind;
    }
    if (own.kind != LayerKind::none) {
      own.num_heads = layer.at("heads").get<int>();
      own.num_kv_heads = layer.at("kv_heads").get<int>();
      own.key_dim = layer.at("key_dim").get<int>();
      own.value_dim = layer.at("value_dim").get<int>();
      own.value_is_key_prefix = layer.at("value_is_key_prefix").get<bool>();
    }
    if (own.kind == LayerKind::shared) own.shares_with = layer.at("shares_with").get<int>();
    options.layers.push_back(own);
  }
  RunInfo run{.prompt_length = given.at("tokens").get<int>()};
  return std::make_unique<TraceWriter>(path, model, run, std::move(options));
}
}  // namespace

int32_t kvloupe_engine_writer_create(const char* path, const char* shapes,
                                     kvloupe_engine_writer** writer, char* error) {
  return guarded(error, [&] {
    require(writer, "writer");
    require(path, "path");
    require(shapes, "shapes");
    remove_unfinished_files_at_signals();
    auto made = std::make_unique<kvloupe_engine_writer>();
    made->trace = writer_of(path, nlohmann::json::parse(shapes));
    *writer = made.release();
  });
}

void kvloupe_engine_writer_destroy(kvloupe_engine_writer* writer) { delete writer; }

int32_t kvloupe_engine_writer_add(kvloupe_engine_writer* writer, int32_t layer, const char* name,
                                  int32_t first, int32_t count, const float* numbers, int64_t size,
                                  char* error) {
  return guarded(error, [&] {
    require(writer, "writer");
    require(name, "name");
    writer->trace->write_rows(layer, name, first, count, {numbers, static_cast<std::size_t>(size)});
  });
}

int32_t kvloupe_engine_writer_read(kvloupe_engine_writer* writer, int32_t layer, const char* name,
                                   int32_t head, int32_t count, float* numbers, int64_t size,
                                   char* error) {
  return guarded(error, [&] {
    require(writer, "writer");
    require(name, "name");
    writer->trace->read_rows(layer, name, head, count, {numbers, static_cast<std::size_t>(size)});
  });
}

int32_t kvloupe_engine_writer_array(kvloupe_engine_writer* writer, const char* path, int32_t type,
                                    const int64_t* shape, int32_t rank, const void* data,
                                    char* error) {
  return guarded(error, [&] {
    require(writer, "writer");
    require(path, "path");
    writer->trace->write_whole(path, static_cast<TraceWriter::Number>(type), {shape, shape + rank},
                               data);
  });
}

const char* kvloupe_engine_writer_widened(kvloupe_engine_writer* writer) {
  writer->widened.clear();
  for (const std::string& path : writer->trace->widened()) writer->widened += path + "\n";
  return writer->widened.c_str();
}

int32_t kvloupe_engine_writer_finish(kvloupe_engine_writer* writer, int32_t tokens,
                                     const char* description, char* error) {
  return guarded(error, [&] {
    require(writer, "writer");
    require(description, "description");
    writer->trace->finish(tokens, description);
  });
}
