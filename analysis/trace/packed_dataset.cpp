#include "analysis/trace/packed_dataset.h"

#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace kvloupe::hdf5 {

namespace {
constexpr int kMostFilters = 8;  // gzip, shuffle and a checksum are three
constexpr std::uint64_t kFewChunks = 100'000;
constexpr std::size_t kChecksumBytes = 4;

using Bytes = std::vector<unsigned char>;

struct Filter {
  H5Z_filter_t id = H5Z_FILTER_NONE;
  std::size_t element = 0;  // shuffle: bytes of one number
};

/// Fletcher's checksum as HDF5 computes it: over 16-bit numbers, the first byte the high one.
std::uint32_t fletcher32(std::span<const unsigned char> bytes) {
  std::uint32_t low = 0, high = 0;
  const auto fold = [](std::uint32_t sum) { return (sum & 0xffffU) + (sum >> 16U); };
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    const unsigned second = i + 1 < bytes.size() ? bytes[i + 1] : 0U;
    low = fold(low + (unsigned{bytes[i]} << 8U | second));
    high = fold(high + low);
  }
  return high << 16U | low;
}

/// Puts bytes that were sorted by their place within a number back together.
void unshuffle(const Bytes& in, std::size_t element, Bytes& out) {
  const std::size_t count = element > 1 ? in.size() / element : 0;
  out = in;  // a rest shorter than a number stays
  for (std::size_t byte = 0; byte < element && count > 1; ++byte) {
    for (std::size_t i = 0; i < count; ++i) out[i * element + byte] = in[byte * count + i];
  }
}

/// Goes to the next place of the box [first, end), the last dimension first. False after the last.
bool advance(Shape& place, const Shape& first, const Shape& end, const Shape& step) {
  for (std::size_t i = place.size(); i-- > 0;) {
    place[i] += step[i];
    if (place[i] < end[i]) return true;
    place[i] = first[i];
  }
  return false;
}

/// The chunks of a packed dataset.
class Chunks {
 public:
  Chunks(const Dataset& dataset, const std::string& path)
      : dataset_(dataset),
        path_(path),
        properties_(H5Dget_create_plist(dataset.id), H5Pclose, "cannot read " + path),
        extent_(dataset.shape.size()) {
    const std::string what = "cannot read " + path;
    const int rank = static_cast<int>(extent_.size());
    check(H5Pget_chunk(properties_, rank, extent_.data()) == rank ? 0 : -1, what);
    unsigned options = 0;
    check(H5Pget_chunk_opts(properties_, &options), what);
    plain_edges_ = (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0;
    const int count = H5Pget_nfilters(properties_);
    check(count, what);
    if (count > kMostFilters) throw Failure(path + " is packed with too many filters");
    for (int i = 0; i < count; ++i) {
      unsigned flags = 0, element = 0;
      std::size_t values = 1;
      const H5Z_filter_t id = H5Pget_filter2(properties_, static_cast<unsigned>(i), &flags, &values,
                                             &element, 0, nullptr, nullptr);
      check(id, what);
      filters_.push_back({id, element});
    }
    bytes_of_one_ = dataset.element_bytes;  // HDF5 keeps a chunk below 2^32 bytes
    for (const hsize_t extent : extent_) bytes_of_one_ *= extent;
  }

  void check_all(std::uint64_t file_bytes) const {
    for (const Filter& filter : filters_) {
      if (filter.id == H5Z_FILTER_DEFLATE || filter.id == H5Z_FILTER_SHUFFLE ||
          filter.id == H5Z_FILTER_FLETCHER32)
        continue;
      throw Failure(path_ + " is packed with HDF5's filter " + std::to_string(filter.id) +
                    "; kvloupe reads gzip, shuffle and Fletcher's checksum (h5repack -f GZIP=4 "
                    "packs it so)");
    }
    if (H5Tdetect_class(dataset_.type, H5T_VLEN) > 0 || H5Tis_variable_str(dataset_.type) > 0)
      throw Failure(path_ + " is packed, but its texts are not of one length: store it unpacked");
    std::uint64_t chunks = 1;
    for (std::size_t i = 0; i < extent_.size(); ++i) {
      if (extent_[i] == 0) throw Failure(path_ + " has chunks without elements");
      chunks *= (dataset_.shape[i] + extent_[i] - 1) / extent_[i];
    }
    // Each chunk has an entry of 16 bytes and more; chunks may be absent, as above a diagonal.
    if (chunks > kFewChunks + file_bytes / 16)
      throw Failure(path_ + " has more chunks than the file could hold");
    const std::uint64_t stored = std::min(dataset_.stored_bytes, file_bytes);
    if (stored > 0 && bytes_of_one_ / kMostCompression > stored)
      throw Failure(path_ + " has chunks larger than the file could hold");
  }

  /// Elements of the dataset's own type.
  void read(const Shape& start, const Shape& count, unsigned char* into) {
    Shape first(extent_.size()), end(extent_.size());
    for (std::size_t i = 0; i < extent_.size(); ++i) {
      first[i] = start[i] / extent_[i] * extent_[i];
      end[i] = start[i] + count[i];
    }
    Shape at = first;
    do {
      unpack(at);
      copy(at, start, count, into);
    } while (advance(at, first, end, extent_));
  }

 private:
  /// Makes `bytes_` the chunk at this place.
  void unpack(const Shape& at) {
    const std::string what = "cannot read " + path_ + ": damaged or truncated";
    hsize_t stored = 0;
    haddr_t address = HADDR_UNDEF;
    unsigned mask = 0;
    check(H5Dget_chunk_info_by_coord(dataset_.id, at.data(), &mask, &address, &stored), what);
    if (address == HADDR_UNDEF) return fill();
    if (stored > 2 * most_bytes()) refuse(at, "is too large");
    bytes_.resize(stored);
    std::uint32_t skipped = 0;  // bit i: filter i was not used
    check(H5Dread_chunk(dataset_.id, H5P_DEFAULT, at.data(), &skipped, bytes_.data()), what);
    if (!(plain_edges_ && is_partial(at))) {
      for (std::size_t i = filters_.size(); i-- > 0;) {
        if ((skipped >> i & 1U) == 0) undo(filters_[i], at);
      }
    }
    if (bytes_.size() != bytes_of_one_) {
      refuse(at, "unpacks to " + std::to_string(bytes_.size()) + " bytes, not " +
                     std::to_string(bytes_of_one_));
    }
  }

  /// An absent chunk: nothing but the fill value, which is 0 unless the file names another.
  void fill() {
    Bytes value(dataset_.element_bytes, 0);
    H5Pget_fill_value(properties_, dataset_.type, value.data());
    bytes_.resize(bytes_of_one_);
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = value[i % value.size()];
  }

  /// Between two filters there may be the little that gzip adds, and checksums.
  std::size_t most_bytes() const {
    return bytes_of_one_ + bytes_of_one_ / 1000 + 64 + kChecksumBytes * filters_.size();
  }

  bool is_partial(const Shape& at) const {
    for (std::size_t i = 0; i < at.size(); ++i) {
      if (extent_[i] > dataset_.shape[i] - at[i]) return true;
    }
    return false;
  }

  void undo(const Filter& filter, const Shape& at) {
    if (filter.id == H5Z_FILTER_SHUFFLE) {
      unshuffle(bytes_, filter.element, room_);
      std::swap(bytes_, room_);
    } else if (filter.id == H5Z_FILTER_DEFLATE) {
      room_.resize(most_bytes());
      uLongf length = room_.size();
      if (uncompress(room_.data(), &length, bytes_.data(), bytes_.size()) != Z_OK)
        refuse(at, "cannot be unpacked");
      room_.resize(length);
      std::swap(bytes_, room_);
    } else {
      if (bytes_.size() < kChecksumBytes) refuse(at, "has no checksum");
      const std::size_t length = bytes_.size() - kChecksumBytes;
      std::uint32_t checksum = 0;
      for (std::size_t i = kChecksumBytes; i-- > 0;) checksum = checksum << 8U | bytes_[length + i];
      bytes_.resize(length);
      if (fletcher32(bytes_) != checksum) refuse(at, "has another checksum than it should");
    }
  }

  /// The chunk's elements that belong to the part, row by row.
  void copy(const Shape& at, const Shape& start, const Shape& count, unsigned char* into) const {
    const std::size_t rank = at.size(), size = dataset_.element_bytes;
    Shape first(rank), end(rank), step(rank, 1);
    for (std::size_t i = 0; i < rank; ++i) {
      first[i] = std::max(at[i], start[i]);
      end[i] = std::min(at[i] + extent_[i], start[i] + count[i]);
    }
    step.back() = end.back() - first.back();
    Shape place = first;
    do {
      std::size_t from = 0, to = 0;
      for (std::size_t i = 0; i < rank; ++i) {
        from = from * extent_[i] + (place[i] - at[i]);
        to = to * count[i] + (place[i] - start[i]);
      }
      std::memcpy(into + to * size, bytes_.data() + from * size, step.back() * size);
    } while (advance(place, first, end, step));
  }

  [[noreturn]] void refuse(const Shape& at, const std::string& why) const {
    throw Failure(path_ + ": the chunk at " + shape_text(at) + " " + why);
  }

  const Dataset& dataset_;
  const std::string& path_;
  Handle properties_;            // of the dataset's creation
  Shape extent_;                 // of a chunk
  std::vector<Filter> filters_;  // in the order in which they pack
  bool plain_edges_ = false;     // chunks beyond the dataset's edge are not packed
  std::uint64_t bytes_of_one_ = 0;
  Bytes bytes_, room_;
};
}  // namespace

void check_packing(const Dataset& dataset, const std::string& path, std::uint64_t file_bytes) {
  if (dataset.packed) Chunks(dataset, path).check_all(file_bytes);
}

void read_part(const Dataset& dataset, const std::string& path, hid_t type, const Shape& start,
               const Shape& count, void* into) {
  const std::string what = "cannot read " + path + ": damaged or truncated";
  std::size_t elements = 1;
  for (const hsize_t extent : count) elements *= extent;
  if (elements == 0) return;
  if (!dataset.packed) {
    const Handle space(H5Dget_space(dataset.id), H5Sclose, what);
    const Handle memory(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr),
                        H5Sclose, what);
    if (!count.empty())
      check(
          H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
          what);
    check(H5Dread(dataset.id, type, memory, space, H5P_DEFAULT, into), what);
    return;
  }
  Chunks chunks(dataset, path);
  if (H5Tequal(dataset.type, type) > 0)
    return chunks.read(start, count, static_cast<unsigned char*>(into));
  const std::size_t wanted = H5Tget_size(type);
  Bytes numbers(elements * std::max(dataset.element_bytes, wanted)), before(elements * wanted);
  chunks.read(start, count, numbers.data());
  check(H5Tconvert(dataset.type, type, elements, numbers.data(), before.data(), H5P_DEFAULT), what);
  std::memcpy(into, numbers.data(), elements * wanted);
}

}  // namespace kvloupe::hdf5
