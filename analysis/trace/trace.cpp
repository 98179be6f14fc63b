#include "analysis/trace/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/error.h"
#include "analysis/trace/half.h"
#include "analysis/trace/hdf5.h"
#include "analysis/trace/hdf5_checked_file.h"
#include "analysis/trace/open_trace_file.h"
#include "analysis/trace/trace_attributes.h"
#include "analysis/trace/trace_layout.h"
#include "analysis/trace/utf8.h"

namespace kvloupe {

namespace fs = std::filesystem;
using hdf5::Dataset;
using hdf5::Handle;
using Shape = std::vector<hsize_t>;

namespace {
/// gzip packs at most 1032 to 1: a dataset that claims more than this per stored byte is a lie, and
/// what it claims would be allocated.
constexpr std::uint64_t kMostCompression = 1100;

hsize_t size(int count) { return static_cast<hsize_t>(count); }

/// What kind of elements a dataset must have.
enum class Kind { real, integer, text };

void check_kind(const Dataset& dataset, Kind kind, const std::string& path) {
  const bool right = kind == Kind::real      ? dataset.type_class == H5T_FLOAT
                     : kind == Kind::integer ? dataset.type_class == H5T_INTEGER
                                             : dataset.type_class == H5T_STRING;
  if (!right) {
    throw hdf5::Failure(fmt::format("{} holds {}, not {}", path, dataset.type_name(),
                                    kind == Kind::real      ? "floating-point numbers"
                                    : kind == Kind::integer ? "integers"
                                                            : "text"));
  }
}

/// Refuses a dataset that would make its reader allocate far more than the file could hold.
void check_stored(const Dataset& dataset, const std::string& path, std::uint64_t file_bytes) {
  const std::uint64_t bytes = dataset.elements() * dataset.element_bytes;  // both bounded: 2^50·…
  const Handle properties(H5Dget_create_plist(dataset.id), H5Pclose, "cannot read " + path);
  const bool packed = H5Pget_nfilters(properties) > 0;
  const std::uint64_t stored = std::min(dataset.stored_bytes, file_bytes);
  if (packed ? bytes / kMostCompression > stored : bytes > stored) {
    throw hdf5::Failure(fmt::format("{} has the shape {} but only {} bytes in the file", path,
                                    hdf5::shape_text(dataset.shape), stored));
  }
  if (H5Pget_layout(properties) == H5D_CHUNKED) {
    Shape chunk(dataset.shape.size());
    hdf5::check(H5Pget_chunk(properties, static_cast<int>(chunk.size()), chunk.data()),
                "cannot read " + path);
    std::uint64_t chunk_bytes = dataset.element_bytes;
    for (const hsize_t extent : chunk) chunk_bytes *= extent;  // HDF5 keeps this below 2^32
    if (packed && chunk_bytes / kMostCompression > stored) {
      throw hdf5::Failure(path + " has chunks larger than the file could hold");
    }
  }
}

void select(hid_t space, const Shape& start, const Shape& count, const std::string& what) {
  hdf5::check(
      H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
      what);
}
}  // namespace

struct Trace::Impl {
  /// Datasets of a layer that were found and whose shape was checked.
  struct Layer {
    bool attention = false, logsumexp = false, output_weight = false, evicted_at = false;
    bool merges = false;
    bool norm_l1 = false, norm_l2 = false;
  };

  fs::path path;
  std::string identity;
  std::uint64_t file_bytes = 0;
  TraceAttributes attributes;
  TokenTable tokens;
  std::vector<Block> blocks;
  std::vector<Layer> layers;
  int top_k = 0;  // 0: no predictions
  bool loss = false, lm_head = false, hidden = false;
  hsize_t vocabulary_bytes = 0;  // 0: no vocabulary
  Handle file;

  const ModelInfo& model() const { return attributes.model; }
  const RunInfo& run() const { return attributes.run; }
  int length() const { return attributes.run.tokens(); }

  /// Runs `work` under the lock; a failure inside becomes a FileError about the file.
  template <typename Work>
  auto guarded(Work work) const {
    try {
      const hdf5::Lock lock;
      return work();
    } catch (const hdf5::Failure& failure) {
      throw FileError(path.string(),
                      std::string(failure.what()) + "; capture or convert the trace again");
    }
  }

  void open_file();
  void read_tokens();
  void read_blocks();
  void check_layers();
  void check_predictions();

  /// Opens a dataset and checks kind, shape and storage. Sparse: chunks may be missing (zeros).
  Dataset open(const std::string& dataset_path, Kind kind, const Shape& shape,
               bool sparse = false) const {
    Dataset dataset = hdf5::open_dataset(file, dataset_path);
    check_kind(dataset, kind, dataset_path);
    if (dataset.shape != shape) {
      throw hdf5::Failure(fmt::format("{} has the shape {}, but the attributes say {}",
                                      dataset_path, hdf5::shape_text(dataset.shape),
                                      hdf5::shape_text(shape)));
    }
    if (!sparse) check_stored(dataset, dataset_path, file_bytes);
    return dataset;
  }

  /// The same for an optional dataset: false where it is missing.
  bool found(const std::string& dataset_path, Kind kind, const Shape& shape,
             bool sparse = false) const {
    if (!hdf5::exists(file, dataset_path)) return false;
    open(dataset_path, kind, shape, sparse);
    return true;
  }

  template <typename T>
  std::vector<T> read_all(const std::string& dataset_path, Kind kind, const Shape& shape,
                          hid_t memory_type) const {
    const Dataset dataset = open(dataset_path, kind, shape);
    std::vector<T> values(static_cast<std::size_t>(dataset.elements()));
    hdf5::check(H5Dread(dataset.id, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
                "cannot read " + dataset_path + ": damaged or truncated");
    return values;
  }

  /// Reads `count` elements from `start` on of a float dataset of that shape, as [rows, columns].
  Matrix read_part(const std::string& dataset_path, const Shape& shape, const Shape& start,
                   const Shape& count, Eigen::Index rows, Eigen::Index columns,
                   bool sparse = false) const {
    Matrix result;
    std::unique_ptr<std::uint16_t[]> narrow;
    guarded([&] {
      const std::string what = "cannot read " + dataset_path + ": damaged or truncated";
      const Dataset dataset = open(dataset_path, Kind::real, shape, sparse);
      result.resize(rows, columns);
      const Handle file_space(H5Dget_space(dataset.id), H5Sclose, what);
      select(file_space, start, count, what);
      const Handle memory(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr),
                          H5Sclose, what);
      if (dataset.is_half) {
        narrow = std::make_unique_for_overwrite<std::uint16_t[]>(
            static_cast<std::size_t>(result.size()));
        hdf5::check(
            H5Dread(dataset.id, dataset.type, memory, file_space, H5P_DEFAULT, narrow.get()), what);
      } else {
        hdf5::check(
            H5Dread(dataset.id, H5T_NATIVE_FLOAT, memory, file_space, H5P_DEFAULT, result.data()),
            what);
      }
    });
    if (narrow) {
      const auto elements = static_cast<std::size_t>(result.size());
      floats_from_halves({narrow.get(), elements}, {result.data(), elements});
    }
    return result;
  }

  /// Reads rows `index` of the first dimension of a float dataset: everything else as one matrix
  /// [rows, columns].
  Matrix read_matrix(const std::string& dataset_path, const Shape& shape, int index,
                     bool sparse = false) const {
    Shape start(shape.size(), 0), count = shape;
    if (shape.size() == 3) {
      start[0] = size(index);
      count[0] = 1;
    }
    const std::size_t rank = shape.size();
    return read_part(dataset_path, shape, start, count, static_cast<Eigen::Index>(shape[rank - 2]),
                     static_cast<Eigen::Index>(shape[rank - 1]), sparse);
  }

  /// One row of a float dataset [H,T].
  std::vector<float> read_row(const std::string& dataset_path, int heads, int row) const {
    std::vector<float> values(static_cast<std::size_t>(length()));
    guarded([&] {
      const std::string what = "cannot read " + dataset_path + ": damaged or truncated";
      const Dataset dataset = open(dataset_path, Kind::real, {size(heads), size(length())});
      const Handle file_space(H5Dget_space(dataset.id), H5Sclose, what);
      const Shape start{size(row), 0}, count{1, values.size()};
      select(file_space, start, count, what);
      const Handle memory(H5Screate_simple(2, count.data(), nullptr), H5Sclose, what);
      hdf5::check(
          H5Dread(dataset.id, H5T_NATIVE_FLOAT, memory, file_space, H5P_DEFAULT, values.data()),
          what);
    });
    return values;
  }

  /// States [H,T,d] of one head, every number finite.
  Matrix read_states(const char* name, int layer, int head, int heads) const {
    Matrix states = read_matrix(layout::layer_dataset(layer, name),
                                {size(heads), size(length()), size(model().head_dim)}, head);
    check_finite(states, layer, name, head, "token");
    return states;
  }

  void check_finite(const Matrix& m, int layer, const char* name, int head, const char* row) const {
    if ((m.array() * 0.0F).sum() == 0.0F) return;  // 0·x is 0 for finite x only, and vectorises
    for (Eigen::Index i = 0; i < m.rows(); ++i) {
      if (!m.row(i).allFinite()) {
        throw WorkError(fmt::format("{}: {} of layer {}, head {}, {} {} is not a finite number",
                                    path.string(), name, layer, head, row, i));
      }
    }
  }

  /// Opens a layer's merges and checks rank, members and storage.
  Dataset open_merges(int layer) const {
    const std::string name = layout::layer_dataset(layer, "merges");
    Dataset dataset = hdf5::open_dataset(file, name);
    if (dataset.type_class != H5T_COMPOUND || dataset.shape.size() != 1) {
      throw hdf5::Failure(fmt::format("{} is {} of shape {}, not a list of compounds", name,
                                      dataset.type_name(), hdf5::shape_text(dataset.shape)));
    }
    for (const char* member : layout::kMergeMembers) {
      const int index = H5Tget_member_index(dataset.type, member);
      const H5T_class_t wanted = member == std::string("weight") ? H5T_FLOAT : H5T_INTEGER;
      if (index < 0 || H5Tget_member_class(dataset.type, static_cast<unsigned>(index)) != wanted) {
        throw hdf5::Failure(fmt::format("{} has no {} member '{}'", name,
                                        wanted == H5T_FLOAT ? "floating-point" : "integer",
                                        member));
      }
    }
    check_stored(dataset, name, file_bytes);
    return dataset;
  }

  const Layer& layer_at(int layer) const {
    if (layer < 0 || layer >= model().num_layers) {
      throw UsageError(fmt::format("layer {}: {} has layers 0 to {}", layer, path.string(),
                                   model().num_layers - 1));
    }
    return layers[static_cast<std::size_t>(layer)];
  }
  void check_head(int head, int heads, const char* what) const {
    if (head < 0 || head >= heads) {
      throw UsageError(
          fmt::format("{} {}: {} has {}s 0 to {}", what, head, path.string(), what, heads - 1));
    }
  }
};

void Trace::Impl::open_file() {
  hdf5::TraceFile opened = hdf5::open_trace_file(path);
  file = std::move(opened.file);
  file_bytes = opened.bytes;
  identity = std::move(opened.identity);
}

void Trace::Impl::read_tokens() {
  const Shape shape{size(length())};
  tokens.ids = read_all<std::int32_t>("/tokens/ids", Kind::integer, shape, H5T_NATIVE_INT32);
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    if (tokens.ids[i] < 0 || tokens.ids[i] >= model().vocab_size) {
      throw hdf5::Failure(fmt::format("/tokens/ids: token {} is {}, outside the vocabulary of {}",
                                      i, tokens.ids[i], model().vocab_size));
    }
  }
  const std::string text_path = "/tokens/text";
  if (found(text_path, Kind::text, shape)) {
    const Dataset dataset = open(text_path, Kind::text, shape);
    const Handle space(H5Dget_space(dataset.id), H5Sclose, "cannot read " + text_path);
    const haddr_t offset = H5Dget_offset(dataset.id);  // undefined where it is chunked
    if (H5Tis_variable_str(dataset.type) > 0 && offset != HADDR_UNDEF &&
        !hdf5::heap_references_hold(path.string(), offset, shape[0])) {
      throw hdf5::Failure("cannot read " + text_path + ": damaged or truncated");
    }
    tokens.text = hdf5::read_strings(
        dataset.type, space, shape[0],
        [&](hid_t memory, void* buffer) {
          return H5Dread(dataset.id, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, buffer);
        },
        "cannot read " + text_path + ": damaged or truncated");
  }
  const std::string segment_path = "/tokens/segment";
  if (found(segment_path, Kind::integer, shape)) {
    tokens.segment = read_all<std::uint8_t>(segment_path, Kind::integer, shape, H5T_NATIVE_UINT8);
    tokens.segment_names =
        hdf5::read_texts(open(segment_path, Kind::integer, shape).id, "names", 256);
    for (const std::uint8_t segment : tokens.segment) {
      if (segment >= tokens.segment_names.size()) {
        throw hdf5::Failure(fmt::format("{} names segment {}, its attribute 'names' only {}",
                                        segment_path, segment, tokens.segment_names.size()));
      }
    }
  }
}

void Trace::Impl::read_blocks() {
  if (!hdf5::exists(file, "/run/blocks")) {
    blocks = make_blocks(run().prompt_length, run().generated, run().block_size);
    return;
  }
  const hsize_t steps = [&] {
    const Dataset dataset = hdf5::open_dataset(file, "/run/blocks");
    return dataset.shape.empty() ? 0 : dataset.shape[0];
  }();
  const std::vector<std::int32_t> bounds =
      read_all<std::int32_t>("/run/blocks", Kind::integer, {steps, 2}, H5T_NATIVE_INT32);
  int at = 0;
  for (std::size_t i = 0; i < bounds.size(); i += 2) {
    const Block block{bounds[i], bounds[i + 1]};
    if (block.first != at || block.end <= at || block.end > length()) {
      throw hdf5::Failure(
          fmt::format("/run/blocks: step {} is [{}, {}), expected one from token {}", i / 2,
                      block.first, block.end, at));
    }
    blocks.push_back(block);
    at = block.end;
  }
  if (at != length()) {
    throw hdf5::Failure(fmt::format("/run/blocks ends at token {} of {}", at, length()));
  }
}

void Trace::Impl::check_layers() {
  const hsize_t query_heads = size(model().num_heads), heads = size(model().num_kv_heads);
  const hsize_t count = size(length()), d = size(model().head_dim);
  for (int layer = 0; layer < model().num_layers; ++layer) {
    const auto at = [&](const char* name) { return layout::layer_dataset(layer, name); };
    for (const char* name : {"query", "key", "value"}) {
      if (!hdf5::exists(file, at(name))) throw hdf5::Failure("has no " + at(name));
    }
    open(at("query"), Kind::real, {query_heads, count, d});
    open(at("key"), Kind::real, {heads, count, d});
    open(at("value"), Kind::real, {heads, count, d});
    Layer found_here;
    found_here.attention = found(at("attention"), Kind::real, {query_heads, count, count}, true);
    found_here.logsumexp = found(at("attention_logsumexp"), Kind::real, {query_heads, count});
    found_here.output_weight =
        found(at("output_weight"), Kind::real, {query_heads, d, size(model().hidden_size)});
    found_here.norm_l1 = found(at("value_out_norm_l1"), Kind::real, {query_heads, count});
    found_here.norm_l2 = found(at("value_out_norm_l2"), Kind::real, {query_heads, count});
    found_here.evicted_at = found(at("evicted_at"), Kind::integer, {heads, count});
    found_here.merges = hdf5::exists(file, at("merges"));
    if (found_here.merges) open_merges(layer);
    layers.push_back(found_here);
  }
}

void Trace::Impl::check_predictions() {
  const hsize_t count = size(length());
  lm_head =
      found("/model/lm_head", Kind::real, {size(model().vocab_size), size(model().hidden_size)});
  if (hdf5::exists(file, layout::kVocabularyText)) {
    const Shape shape = hdf5::open_dataset(file, layout::kVocabularyText).shape;
    vocabulary_bytes = shape.size() == 1 ? shape[0] : 0;
    open(layout::kVocabularyText, Kind::integer, {vocabulary_bytes});
    open(layout::kVocabularyEnds, Kind::integer, {size(model().vocab_size)});
  }
  loss = found("/predictions/loss", Kind::real, {count});
  hidden = found("/predictions/hidden", Kind::real, {count, size(model().hidden_size)});
  if (!hdf5::exists(file, "/predictions/token_ids") ||
      !hdf5::exists(file, "/predictions/logprob")) {
    return;
  }
  const Shape shape = hdf5::open_dataset(file, "/predictions/token_ids").shape;
  const hsize_t k = shape.size() == 2 ? shape[1] : 0;
  if (k < 1 || k > size(model().vocab_size)) {
    throw hdf5::Failure("/predictions/token_ids has the shape " + hdf5::shape_text(shape));
  }
  open("/predictions/token_ids", Kind::integer, {count, k});
  open("/predictions/logprob", Kind::real, {count, k});
  top_k = static_cast<int>(k);
}

Trace::Trace(const fs::path& path) : impl_(std::make_unique<Impl>()) {
  impl_->path = path;
  impl_->guarded([&] {
    impl_->open_file();
    impl_->attributes = read_trace_attributes(impl_->file);
    if (!hdf5::exists(impl_->file, "/tokens/ids")) throw hdf5::Failure("has no /tokens/ids");
    impl_->read_tokens();
    impl_->read_blocks();
    impl_->check_layers();
    impl_->check_predictions();
  });
}

Trace::~Trace() = default;

const fs::path& Trace::path() const { return impl_->path; }
const std::string& Trace::identity() const { return impl_->identity; }
const ModelInfo& Trace::model() const { return impl_->model(); }
const RunInfo& Trace::run() const { return impl_->run(); }
const TokenTable& Trace::tokens() const { return impl_->tokens; }
const std::vector<Block>& Trace::blocks() const { return impl_->blocks; }
const std::string& Trace::generator() const { return impl_->attributes.generator; }
const std::string& Trace::created() const { return impl_->attributes.created; }

Matrix Trace::query(int layer, int query_head) const {
  impl_->layer_at(layer);
  impl_->check_head(query_head, model().num_heads, "query head");
  return impl_->read_states("query", layer, query_head, model().num_heads);
}
Matrix Trace::queries_of_token(int layer, int token) const {
  impl_->layer_at(layer);
  if (token < 0 || token >= length()) {
    throw UsageError(
        fmt::format("token {}: {} has tokens 0 to {}", token, path().string(), length() - 1));
  }
  const hsize_t heads = size(model().num_heads), d = size(model().head_dim);
  Matrix queries =
      impl_->read_part(layout::layer_dataset(layer, "query"), {heads, size(length()), d},
                       {0, size(token), 0}, {heads, 1, d}, model().num_heads, model().head_dim);
  for (Eigen::Index head = 0; head < queries.rows(); ++head) {
    if (!queries.row(head).allFinite()) {
      throw WorkError(fmt::format("{}: query of layer {}, head {}, token {} is not a finite number",
                                  path().string(), layer, head, token));
    }
  }
  return queries;
}
Matrix Trace::key(int layer, int head) const {
  impl_->layer_at(layer);
  impl_->check_head(head, model().num_kv_heads, "head");
  return impl_->read_states("key", layer, head, model().num_kv_heads);
}
Matrix Trace::value(int layer, int head) const {
  impl_->layer_at(layer);
  impl_->check_head(head, model().num_kv_heads, "head");
  return impl_->read_states("value", layer, head, model().num_kv_heads);
}

std::optional<Matrix> Trace::output_weight(int layer, int query_head) const {
  const Impl::Layer& entry = impl_->layer_at(layer);
  impl_->check_head(query_head, model().num_heads, "query head");
  if (!entry.output_weight) return std::nullopt;
  Matrix weight = impl_->read_matrix(
      layout::layer_dataset(layer, "output_weight"),
      {size(model().num_heads), size(model().head_dim), size(model().hidden_size)}, query_head);
  impl_->check_finite(weight, layer, "output_weight", query_head, "row");
  return weight;
}

std::vector<float> Trace::value_out_norm(int layer, int query_head, Norm norm) const {
  const Impl::Layer& entry = impl_->layer_at(layer);
  impl_->check_head(query_head, model().num_heads, "query head");
  if (norm == Norm::l1 ? entry.norm_l1 : entry.norm_l2) {
    return impl_->read_row(
        layout::layer_dataset(layer, norm == Norm::l1 ? "value_out_norm_l1" : "value_out_norm_l2"),
        model().num_heads, query_head);
  }
  const std::optional<Matrix> weight = output_weight(layer, query_head);
  if (!weight) return {};
  const Matrix values = value(layer, model().head_of(query_head));
  std::vector<float> norms(static_cast<std::size_t>(values.rows()));
  constexpr Eigen::Index kRows = 256;  // bounds the product held at a time
  for (Eigen::Index first = 0; first < values.rows(); first += kRows) {
    const Eigen::Index count = std::min(kRows, values.rows() - first);
    const Matrix outputs = values.middleRows(first, count) * *weight;
    for (Eigen::Index i = 0; i < count; ++i) {
      norms[static_cast<std::size_t>(first + i)] =
          norm == Norm::l1 ? outputs.row(i).lpNorm<1>() : outputs.row(i).norm();
    }
  }
  return norms;
}

std::vector<float> Trace::attention_logsumexp(int layer, int query_head) const {
  const Impl::Layer& entry = impl_->layer_at(layer);
  impl_->check_head(query_head, model().num_heads, "query head");
  if (!entry.logsumexp) return {};
  return impl_->read_row(layout::layer_dataset(layer, "attention_logsumexp"), model().num_heads,
                         query_head);
}

std::optional<Matrix> Trace::stored_attention(int layer, int query_head) const {
  const Impl::Layer& entry = impl_->layer_at(layer);
  impl_->check_head(query_head, model().num_heads, "query head");
  if (!entry.attention) return std::nullopt;
  return impl_->read_matrix(layout::layer_dataset(layer, "attention"),
                            {size(model().num_heads), size(length()), size(length())}, query_head,
                            true);
}

bool Trace::has_attention() const {
  return std::all_of(impl_->layers.begin(), impl_->layers.end(),
                     [](const Impl::Layer& layer) { return layer.attention; });
}
bool Trace::has_output_weight() const {
  return std::all_of(impl_->layers.begin(), impl_->layers.end(),
                     [](const Impl::Layer& layer) { return layer.output_weight; });
}

std::optional<Trace::Predictions> Trace::predictions() const {
  if (impl_->top_k == 0 && !impl_->loss) return std::nullopt;
  return impl_->guarded([&]() -> std::optional<Predictions> {
    Predictions result;
    result.k = impl_->top_k;
    const hsize_t count = size(length()), k = size(result.k);
    if (k > 0) {
      result.token_ids = impl_->read_all<std::int32_t>("/predictions/token_ids", Kind::integer,
                                                       {count, k}, H5T_NATIVE_INT32);
      result.logprob =
          impl_->read_all<float>("/predictions/logprob", Kind::real, {count, k}, H5T_NATIVE_FLOAT);
    }
    if (impl_->loss) {
      result.loss =
          impl_->read_all<float>("/predictions/loss", Kind::real, {count}, H5T_NATIVE_FLOAT);
    }
    return result;
  });
}

std::optional<std::vector<std::string>> Trace::vocabulary() const {
  if (impl_->vocabulary_bytes == 0) return std::nullopt;
  return impl_->guarded([&] {
    const auto text = impl_->read_all<std::uint8_t>(layout::kVocabularyText, Kind::integer,
                                                    {impl_->vocabulary_bytes}, H5T_NATIVE_UINT8);
    const auto ends = impl_->read_all<std::int64_t>(layout::kVocabularyEnds, Kind::integer,
                                                    {size(model().vocab_size)}, H5T_NATIVE_INT64);
    std::vector<std::string> words;
    words.reserve(ends.size());
    std::int64_t begin = 0;
    for (const std::int64_t end : ends) {
      if (end < begin || end > static_cast<std::int64_t>(text.size())) {
        throw hdf5::Failure(
            fmt::format("{}: token {} ends at {}, the one before it at {}, all at {}",
                        layout::kVocabularyEnds, words.size(), end, begin, text.size()));
      }
      words.push_back(escape_invalid_utf8({reinterpret_cast<const char*>(text.data()) + begin,
                                           static_cast<std::size_t>(end - begin)}));
      begin = end;
    }
    return words;
  });
}

std::optional<Matrix> Trace::lm_head() const {
  if (!impl_->lm_head) return std::nullopt;
  return impl_->read_matrix("/model/lm_head", {size(model().vocab_size), size(model().hidden_size)},
                            0);
}

std::optional<Matrix> Trace::final_hidden() const {
  if (!impl_->hidden) return std::nullopt;
  return impl_->read_matrix("/predictions/hidden", {size(length()), size(model().hidden_size)}, 0);
}

std::optional<std::vector<std::int32_t>> Trace::evicted_at(int layer, int head) const {
  const Impl::Layer& entry = impl_->layer_at(layer);
  impl_->check_head(head, model().num_kv_heads, "head");
  if (!entry.evicted_at) return std::nullopt;
  const std::vector<std::int32_t> all = impl_->guarded([&] {
    return impl_->read_all<std::int32_t>(layout::layer_dataset(layer, "evicted_at"), Kind::integer,
                                         {size(model().num_kv_heads), size(length())},
                                         H5T_NATIVE_INT32);
  });
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(head) * length();
  std::vector<std::int32_t> own(first, first + length());
  const auto steps = static_cast<std::int32_t>(blocks().size());
  for (std::int32_t step = 0; step < steps; ++step) {
    const Block& block = blocks()[static_cast<std::size_t>(step)];
    for (int token = block.first; token < block.end; ++token) {
      const std::int32_t left = own[static_cast<std::size_t>(token)];
      if (left == -1 || (left >= step && left < steps)) continue;
      throw FileError(
          path().string(),
          fmt::format("{}: token {} of head {} leaves at step {}, but comes at step {} "
                      "of {}; capture or convert the trace again",
                      layout::layer_dataset(layer, "evicted_at"), token, head, left, step, steps));
    }
  }
  return own;
}

std::vector<MergedEntry> Trace::merges(int layer) const {
  if (!impl_->layer_at(layer).merges) return {};
  return impl_->guarded([&] {
    const std::string name = layout::layer_dataset(layer, "merges");
    const Dataset dataset = impl_->open_merges(layer);
    std::vector<MergedEntry> merges(static_cast<std::size_t>(dataset.elements()));
    if (merges.empty()) return merges;
    const Handle memory = hdf5::merged_entry_type(false);
    hdf5::check(H5Dread(dataset.id, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, merges.data()),
                "cannot read " + name + ": damaged or truncated");
    const auto within = [](std::int32_t value, auto end) {
      return value >= 0 && value < static_cast<std::int64_t>(end);
    };
    for (std::size_t i = 0; i < merges.size(); ++i) {
      const MergedEntry& entry = merges[i];
      if (within(entry.head, model().num_kv_heads) && within(entry.step, blocks().size()) &&
          within(entry.into, length()) && within(entry.from, length()) &&
          std::isfinite(entry.weight)) {
        continue;
      }
      throw hdf5::Failure(fmt::format(
          "{}: line {} (head {}, step {}, into {}, from {}, weight {}) is outside the trace", name,
          i, entry.head, entry.step, entry.into, entry.from, entry.weight));
    }
    return merges;
  });
}

std::vector<Trace::DatasetInfo> Trace::datasets() const {
  return impl_->guarded([&] {
    std::vector<DatasetInfo> result;
    for (const std::string& path : hdf5::dataset_paths(impl_->file)) {
      const Dataset dataset = hdf5::open_dataset(impl_->file, path);
      result.push_back({path,
                        dataset.type_name(),
                        {dataset.shape.begin(), dataset.shape.end()},
                        static_cast<std::size_t>(dataset.stored_bytes)});
    }
    return result;
  });
}

}  // namespace kvloupe
