#include "analysis/trace/hdf5_filters.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace kvloupe::hdf5 {

namespace {
constexpr int kMostFilters = 8;  // gzip, shuffle and a checksum are three

struct Filters {
  std::vector<H5Z_filter_t> ids;  // in the order in which they pack
  std::vector<hsize_t> chunk;
  bool whole_edges = false;  // chunks beyond the dataset's edge are not packed
};

std::vector<H5Z_filter_t> filter_ids(hid_t properties, const std::string& path) {
  const int count = H5Pget_nfilters(properties);
  check(count, "cannot read " + path);
  if (count > kMostFilters) throw Failure(path + " is packed with too many filters");
  std::vector<H5Z_filter_t> ids;
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0;
    std::size_t values = 0;
    const H5Z_filter_t id = H5Pget_filter2(properties, static_cast<unsigned>(i), &flags, &values,
                                           nullptr, 0, nullptr, nullptr);
    check(id, "cannot read " + path);
    ids.push_back(id);
  }
  return ids;
}

/// Unpacks `bytes` into `out`, whose size is the most there may be; how many bytes came, or
/// nothing for a stream that is damaged or longer.
std::optional<std::size_t> inflate_all(const std::vector<unsigned char>& bytes,
                                       std::vector<unsigned char>& out) {
  std::size_t length = out.size();
  uLongf produced = length;
  const int status = uncompress(out.data(), &produced, bytes.data(), bytes.size());
  if (status != Z_OK) return std::nullopt;
  return produced;
}

class Chunks {
 public:
  Chunks(const Dataset& dataset, const std::string& path, std::uint64_t file_bytes, Filters filters)
      : dataset_(dataset), path_(path), file_bytes_(file_bytes), filters_(std::move(filters)) {
    chunk_bytes_ = dataset.element_bytes;
    for (const hsize_t extent : filters_.chunk) chunk_bytes_ *= extent;
    // Between two filters there may be the little that gzip adds, and checksums.
    most_ = chunk_bytes_ + chunk_bytes_ / 1000 + 64 + 4 * filters_.ids.size();
  }

  void check_all() {
    const std::size_t rank = dataset_.shape.size();
    std::uint64_t places = 1;
    for (std::size_t i = 0; i < rank; ++i) {
      places *= (dataset_.shape[i] + filters_.chunk[i] - 1) / filters_.chunk[i];
    }
    // Each chunk has an entry of 16 bytes and more; places may be empty, as above a diagonal.
    if (places > kFewPlaces + file_bytes_ / 16)
      throw Failure(path_ + " has more chunks than the file could hold");
    std::vector<hsize_t> at(rank, 0);
    for (std::uint64_t place = 0; place < places; ++place) {
      check_chunk(at);
      for (std::size_t i = rank; i-- > 0;) {
        at[i] += filters_.chunk[i];
        if (at[i] < dataset_.shape[i]) break;
        at[i] = 0;
      }
    }
  }

 private:
  static constexpr std::uint64_t kFewPlaces = 100'000;

  void check_chunk(const std::vector<hsize_t>& at) {
    hsize_t stored = 0;
    check(H5Dget_chunk_storage_size(dataset_.id, at.data(), &stored), "cannot read " + path_);
    if (stored == 0) return;  // absent: zeros
    if (stored > file_bytes_ || stored > 2 * most_) refuse(at, "is too large");
    bytes_.resize(stored);
    std::uint32_t skipped = 0;  // bit i: filter i was not used
    check(H5Dread_chunk(dataset_.id, H5P_DEFAULT, at.data(), &skipped, bytes_.data()),
          "cannot read " + path_);
    if (!(filters_.whole_edges && is_partial(at))) {
      for (std::size_t i = filters_.ids.size(); i-- > 0;) {
        if ((skipped >> i & 1U) == 0) undo(filters_.ids[i], at);
      }
    }
    if (bytes_.size() != chunk_bytes_) {
      refuse(at, "unpacks to " + std::to_string(bytes_.size()) + " bytes, not " +
                     std::to_string(chunk_bytes_));
    }
  }

  bool is_partial(const std::vector<hsize_t>& at) const {
    for (std::size_t i = 0; i < at.size(); ++i) {
      if (filters_.chunk[i] > dataset_.shape[i] - at[i]) return true;
    }
    return false;
  }

  void undo(H5Z_filter_t filter, const std::vector<hsize_t>& at) {
    if (filter == H5Z_FILTER_FLETCHER32) {
      if (bytes_.size() < 4) refuse(at, "has no checksum");
      bytes_.resize(bytes_.size() - 4);  // HDF5 compares it
    } else if (filter == H5Z_FILTER_DEFLATE) {
      unpacked_.resize(most_);
      const std::optional<std::size_t> length = inflate_all(bytes_, unpacked_);
      if (!length) refuse(at, "cannot be unpacked");
      unpacked_.resize(*length);
      std::swap(bytes_, unpacked_);
    }  // shuffling leaves the length as it is
  }

  [[noreturn]] void refuse(const std::vector<hsize_t>& at, const std::string& why) const {
    throw Failure(path_ + ": the chunk at " + shape_text(at) + " " + why);
  }

  const Dataset& dataset_;
  std::string path_;
  std::uint64_t file_bytes_ = 0, chunk_bytes_ = 0, most_ = 0;
  Filters filters_;
  std::vector<unsigned char> bytes_, unpacked_;
};
}  // namespace

void check_filters(hid_t properties, const std::string& path) {
  for (const H5Z_filter_t id : filter_ids(properties, path)) {
    if (id == H5Z_FILTER_DEFLATE || id == H5Z_FILTER_SHUFFLE || id == H5Z_FILTER_FLETCHER32)
      continue;
    throw Failure(path + " is packed with HDF5's filter " + std::to_string(id) +
                  "; kvloupe reads gzip, shuffle and Fletcher's checksum (h5repack -f GZIP=4 packs "
                  "it so)");
  }
}

std::uint64_t chunk_elements(hid_t properties) {
  std::array<hsize_t, H5S_MAX_RANK> chunk{};
  const int rank = H5Pget_chunk(properties, static_cast<int>(chunk.size()), chunk.data());
  check(rank, "cannot read the size of its chunks");
  std::uint64_t elements = 1;  // HDF5 keeps a chunk below 2^32 bytes
  for (int i = 0; i < rank; ++i) elements *= chunk[static_cast<std::size_t>(i)];
  return elements;
}

void check_packed_chunks(const Dataset& dataset, const std::string& path,
                         std::uint64_t file_bytes) {
  const Handle properties(H5Dget_create_plist(dataset.id), H5Pclose, "cannot read " + path);
  if (H5Pget_layout(properties) != H5D_CHUNKED) return;
  Filters filters;
  filters.ids = filter_ids(properties, path);
  if (filters.ids.empty() || dataset.elements() == 0) return;
  check_filters(properties, path);
  filters.chunk.resize(dataset.shape.size());
  const int rank = static_cast<int>(filters.chunk.size());
  check(H5Pget_chunk(properties, rank, filters.chunk.data()) == rank ? 0 : -1,
        "cannot read " + path);
  for (const hsize_t extent : filters.chunk) {
    if (extent == 0) throw Failure(path + " has chunks without elements");
  }
  unsigned options = 0;
  check(H5Pget_chunk_opts(properties, &options), "cannot read " + path);
  filters.whole_edges = (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0;
  Chunks(dataset, path, file_bytes, std::move(filters)).check_all();
}

}  // namespace kvloupe::hdf5
