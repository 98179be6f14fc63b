#include "analysis/replay/cache/head_cache.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "analysis/policy/kit/rows.h"

namespace kvloupe {

namespace {
void append_rows(Matrix& held, Eigen::Index present, const MatrixView& source) {
  const Eigen::Index needed = present + source.rows();
  if (held.rows() < needed) {
    held.conservativeResize(std::max(needed, held.rows() + held.rows() / 2), Eigen::NoChange);
  }
  held.middleRows(present, source.rows()) = source;
}

/// Moves rows down, a run of neighbours at a time.
void gather_rows(Matrix& held, std::span<const std::int32_t> kept) {
  const auto width = static_cast<std::size_t>(held.cols());
  std::size_t first = 0;
  while (first < kept.size()) {
    std::size_t end = first + 1;
    while (end < kept.size() && kept[end] == kept[end - 1] + 1) ++end;
    const auto source = static_cast<std::size_t>(kept[first]);
    if (source != first) {
      std::memmove(held.data() + first * width, held.data() + source * width,
                   (end - first) * width * sizeof(float));
    }
    first = end;
  }
}
}  // namespace

HeadCache::HeadCache(Eigen::Index key_dim, Eigen::Index value_dim, bool with_values)
    : keys_(0, key_dim), values_(0, value_dim), with_values_(with_values) {}

void HeadCache::reserve(Eigen::Index entries) {
  if (keys_.rows() < entries) keys_.conservativeResize(entries, Eigen::NoChange);
  if (with_values_ && values_.rows() < entries)
    values_.conservativeResize(entries, Eigen::NoChange);
}

void HeadCache::append(const Block& block, const MatrixView& keys, const MatrixView& values) {
  const auto present = static_cast<Eigen::Index>(tokens_.size());
  append_rows(keys_, present, keys);
  if (with_values_) append_rows(values_, present, values);
  tokens_.resize(tokens_.size() + static_cast<std::size_t>(block.size()));
  std::iota(tokens_.begin() + present, tokens_.end(), block.first);
  if (!log_sizes_.empty()) log_sizes_.resize(tokens_.size(), 0.0F);
}

void HeadCache::merge(std::span<const Merge> merges) {
  if (merges.empty()) return;
  changed_ = true;
  const auto first = static_cast<Eigen::Index>(hidden_);
  // First all values: an entry may give to many, none gives what it was given at this step.
  Matrix values(static_cast<Eigen::Index>(merges.size()), values_.cols());
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const Merge& merge = merges[i];
    if (!merge.value.empty()) {
      values.row(static_cast<Eigen::Index>(i)) =
          Eigen::Map<const Eigen::RowVectorXf>(merge.value.data(), values_.cols());
      continue;
    }
    Eigen::RowVectorXd sum = Eigen::RowVectorXd::Zero(values_.cols());
    for (std::size_t j = 0; j < merge.from.size(); ++j) {
      sum +=
          static_cast<double>(merge.weights[j]) * values_.row(first + merge.from[j]).cast<double>();
    }
    values.row(static_cast<Eigen::Index>(i)) =
        (static_cast<double>(merge.value_scale) * sum).cast<float>();
  }
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const Merge& merge = merges[i];
    values_.row(first + merge.into) = values.row(static_cast<Eigen::Index>(i));
    if (!merge.key.empty()) {
      keys_.row(first + merge.into) =
          Eigen::Map<const Eigen::RowVectorXf>(merge.key.data(), keys_.cols());
    }
    if (!merge.log_size) continue;
    if (*merge.log_size != 0.0F && log_sizes_.empty()) log_sizes_.resize(tokens_.size(), 0.0F);
    if (!log_sizes_.empty()) {
      log_sizes_[hidden_ + static_cast<std::size_t>(merge.into)] = *merge.log_size;
    }
  }
}

int HeadCache::count_before(std::int32_t first) const {
  return static_cast<int>(std::lower_bound(tokens_.begin(), tokens_.end(), first) -
                          tokens_.begin());
}

void HeadCache::keep(std::span<const std::int32_t> rows) {
  if (rows.size() == tokens_.size()) return;
  std::vector<std::int32_t> shifted;
  if (hidden_ > 0) {
    shifted.assign(rows.begin(), rows.end());
    for (std::int32_t& row : shifted) row += static_cast<std::int32_t>(hidden_);
    hidden_ = 0;
  }
  const std::span<const std::int32_t> kept = shifted.empty() ? rows : shifted;
  keep(rounded_keys_, kept);
  keep(rounded_values_, kept);
  gather_rows(keys_, kept);
  if (with_values_) gather_rows(values_, kept);
  keep_rows(tokens_, kept);
  if (!log_sizes_.empty()) keep_rows(log_sizes_, kept);
}

void HeadCache::keep(Rounded& rounded, std::span<const std::int32_t> kept) {
  std::size_t next = 0;
  Eigen::Index end = 0;
  for (Eigen::Index& group : rounded.groups) {
    end += group;
    const std::size_t first = next;
    while (next < kept.size() && kept[next] < end) ++next;
    group = static_cast<Eigen::Index>(next - first);
  }
  std::erase(rounded.groups, 0);
  rounded.entries = std::lower_bound(kept.begin(), kept.end(), rounded.entries) - kept.begin();
}

Eigen::Index HeadCache::due(const Rounded& rounded, Eigen::Index old, bool by_channel, int group) {
  const Eigen::Index count = std::max<Eigen::Index>(old - rounded.entries, 0);
  return by_channel ? count - count % group : count;
}

Block HeadCache::unquantised(const Quantisation& quantisation) const {
  const Eigen::Index old = std::ssize(tokens_) - quantisation.residual;
  const Eigen::Index keys =
      due(rounded_keys_, old, quantisation.keys_by_channel, quantisation.group);
  const Eigen::Index values =
      due(rounded_values_, old, quantisation.values_by_channel, quantisation.group);
  Eigen::Index first = std::ssize(tokens_);
  Eigen::Index end = 0;
  if (keys > 0) {
    first = std::min(first, rounded_keys_.entries);
    end = std::max(end, rounded_keys_.entries + keys);
  }
  if (values > 0) {
    first = std::min(first, rounded_values_.entries);
    end = std::max(end, rounded_values_.entries + values);
  }
  if (end <= first) return {};
  return {static_cast<int>(first), static_cast<int>(end)};
}

RoundedRows HeadCache::quantise(const Quantisation& quantisation, bool values_are_keys) {
  const Eigen::Index old = std::ssize(tokens_) - quantisation.residual;
  const auto round = [&](Matrix& rows, Rounded& rounded, bool by_channel) -> Block {
    const Eigen::Index count = due(rounded, old, by_channel, quantisation.group);
    if (count == 0) return {};
    const Eigen::Index first = rounded.entries;
    quantise_rows(rows, rounded.entries, count, by_channel, quantisation.bits, quantisation.group);
    rounded.entries += count;
    if (by_channel) {
      rounded.groups.insert(rounded.groups.end(),
                            static_cast<std::size_t>(count / quantisation.group),
                            quantisation.group);
    }
    changed_ = true;
    return {static_cast<int>(first), static_cast<int>(first + count)};
  };
  const Block keys = round(keys_, rounded_keys_, quantisation.keys_by_channel);
  if (!values_are_keys) {
    return {keys, round(values_, rounded_values_, quantisation.values_by_channel)};
  }
  values_.middleRows(keys.first, keys.size()) =
      keys_.block(keys.first, 0, keys.size(), values_.cols());
  rounded_values_ = rounded_keys_;
  return {keys, keys};
}

StoredEntries HeadCache::stored() const {
  return {static_cast<int>(rounded_keys_.entries), static_cast<int>(rounded_keys_.groups.size()),
          static_cast<int>(rounded_values_.entries),
          static_cast<int>(rounded_values_.groups.size())};
}

CacheView HeadCache::view_from(std::size_t first) const {
  const auto n = static_cast<Eigen::Index>(tokens_.size() - first);
  const auto rows = [&](const Matrix& held, Eigen::Index count) {
    const Eigen::Index width = held.cols();
    const float* begin =
        count > 0 ? held.data() + static_cast<Eigen::Index>(first) * width : nullptr;
    return MatrixView(begin, count, width, Eigen::OuterStride<>(width));
  };
  return {std::span(tokens_).subspan(first), rows(keys_, n), rows(values_, with_values_ ? n : 0),
          log_sizes_.empty() ? std::span<const float>() : std::span(log_sizes_).subspan(first)};
}

}  // namespace kvloupe
